/* UTF-8: what is well-formed, whole characters out of a stream of bytes, normalisation form C. */
#include <stdlib.h>

#include "base/utf8.h"
#include "platform/memory.h"
#include "support/check.h"
#include "text/nfc.h"
#include "text/utf8_stream.h"

static const struct rf_allocator *const memory = &rf_system_allocator;

/* Every code point and nothing else is well-formed. */
static void check_code_points(void)
{
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char bytes[4];
        size_t length = rf_utf8_encode(c, bytes);
        int surrogate = c >= 0xd800 && c <= 0xdfff;
        if (rf_utf8_length(bytes, length) != (surrogate ? 0 : length) ||
            (!surrogate && rf_utf8_decode(bytes, length) != c) ||
            rf_utf8_length(bytes, length - 1) != 0)
            CHECK_MSG(0, "U+%04X", (unsigned)c);
    }
    static const char *const wrong[] = {"\x80",
                                        "\xbf",
                                        "\xc0\x80",
                                        "\xc1\xbf",
                                        "\xe0\x80\x80",
                                        "\xe0\x9f\xbf",
                                        "\xed\xa0\x80",
                                        "\xed\xbf\xbf",
                                        "\xf0\x80\x80\x80",
                                        "\xf0\x8f\xbf\xbf",
                                        "\xf4\x90\x80\x80",
                                        "\xf5\x80\x80\x80",
                                        "\xff",
                                        "\xc3(",
                                        "\xe2\x82("};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_INT(rf_utf8_length(wrong[i], strlen(wrong[i])), 0);
    CHECK_INT(rf_utf8_valid_prefix("abcdefghijklm\xc3\xa9z\xff", 17), 16);
    CHECK_INT(rf_utf8_valid_prefix("abcdefgh", 8), 8);
    CHECK_INT(rf_utf8_valid_prefix("", 0), 0);
}

/* The same text whatever pieces it comes in. */
static void check_stream(const char *bytes, const char *wanted)
{
    size_t n = strlen(bytes);
    for (size_t step = 1; step <= n; step++) {
        struct rf_utf8_stream stream = {{0}, 0};
        char text[256];
        size_t written = 0;
        for (size_t at = 0; at < n; at += step) {
            char piece[RF_UTF8_STREAM_ROOM(64)];
            size_t size = n - at < step ? n - at : step;
            size_t made = rf_utf8_stream_push(&stream, bytes + at, size, piece);
            CHECK(made <= RF_UTF8_STREAM_ROOM(size));
            CHECK_INT(rf_utf8_valid_prefix(piece, made), made);
            memcpy(text + written, piece, made);
            written += made;
        }
        written += rf_utf8_stream_flush(&stream, text + written);
        text[written] = 0;
        CHECK_STR(text, wanted);
    }
}

#define FFFD "\xef\xbf\xbd"

static void check_streams(void)
{
    check_stream("plain", "plain");
    check_stream("za\xc5\xbc\xc3\xb3\xc5\x82\xc4\x87 \xe6\x97\xa5 \xf0\x9f\x98\x80!",
                 "za\xc5\xbc\xc3\xb3\xc5\x82\xc4\x87 \xe6\x97\xa5 \xf0\x9f\x98\x80!");
    check_stream("a\xff\x62", "a" FFFD "b");
    check_stream("\xe2\x82", FFFD);
    check_stream("\xe2\x82\x41", FFFD "A");
    check_stream("\xf0\x9f\x98\xe2\x82\xac", FFFD "\xe2\x82\xac");
    check_stream("\xc0\xaf\x80", FFFD FFFD FFFD);
    check_stream("\xed\xa0\x80", FFFD FFFD FFFD);
    check_stream("\xf0\x9f\xf0\x9f\x98\x80", FFFD "\xf0\x9f\x98\x80");
    check_stream("\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD);
}

static void check_nfc(const char *text, const char *wanted)
{
    struct rf_bytes out = {0};
    struct rf_error error = {0};
    CHECK_MSG(rf_nfc(text, strlen(text), memory, &out, &error) == 0, "%s", error.text);
    CHECK_MSG(out.count == strlen(wanted) && memcmp(out.data, wanted, out.count) == 0,
              "%s becomes %.*s, not %s", text, (int)out.count, out.data, wanted);
    rf_bytes_free(memory, &out);
}

static void check_normalisation(void)
{
    check_nfc("abc", "abc");
    check_nfc("e\xcc\x81", "\xc3\xa9");
    check_nfc("\xe2\x84\xab", "\xc3\x85");                             /* angstrom sign */
    check_nfc("q\xcc\x87\xcc\xa3", "q\xcc\xa3\xcc\x87");               /* dot above, dot below */
    check_nfc("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c"); /* Hangul */
    check_nfc("\xcd\x84", "\xcc\x88\xcc\x81");                         /* U+0344 never comes back */
    check_nfc("\xff"
              "e\xcc\x81\xe2\x82",
              "\xff\xc3\xa9\xe2\x82");
    CHECK(rf_nfc_is_trivial("caf\xc3\xa9", 5) && !rf_nfc_is_trivial("e\xcc\x81", 3));

    /* A long run of marks in the worst order: below, above, below, above, ... */
    enum { PAIRS = 100000 };
    char *text = malloc(4 * PAIRS + 1);
    struct rf_bytes out = {0};
    text[0] = 'x';
    for (size_t i = 0; i < PAIRS; i++) memcpy(text + 1 + 4 * i, "\xcc\x87\xcc\xa3", 4);
    CHECK_INT(rf_nfc(text, 4 * PAIRS + 1, memory, &out, NULL), 0);
    /* x takes a dot above; the dots below come first among the rest. */
    CHECK_INT(out.count, 4 * PAIRS + 1);
    CHECK(out.count > 8 && memcmp(out.data, "\xe1\xba\x8b\xcc\xa3\xcc\xa3", 7) == 0);
    CHECK(out.count > 8 && memcmp(out.data + out.count - 4, "\xcc\x87\xcc\x87", 4) == 0);
    rf_bytes_free(memory, &out);
    free(text);
}

/* What names look like on a screen, and in a sentence about an error. */
static void check_shown(const char *text, const char *wanted)
{
    char shown[64] = "";
    struct rf_error error;
    size_t n = strlen(text), at = 0, used;
    for (size_t i = 0; i < n; i += used) at += rf_utf8_show(text + i, n - i, shown + at, &used);
    CHECK_STR(shown, wanted);
    CHECK_INT(rf_fail(&error, RF_ERR_IO, "%s", text), RF_ERR_IO);
    CHECK_STR(error.text, wanted);
}

static void check_names(void)
{
    struct rf_error error;
    char long_name[1000];
    check_shown("a b\xc3\xa9\xf0\x9f\x98\x80", "a b\xc3\xa9\xf0\x9f\x98\x80");
    check_shown("\x1b[31m\n\x7f\x01", "\\x1b[31m\\x0a\\x7f\\x01");
    check_shown("\xc2\x80\xc2\x9f\xc2\xa0", "\\x80\\x9f\xc2\xa0");
    check_shown("\xe2\x80\xaa\xe2\x80\xae\xe2\x80\xaf", "\\u202a\\u202e\xe2\x80\xaf");
    check_shown("\xe2\x80\x8d\xe2\x80\x8e\xe2\x80\x8f", "\xe2\x80\x8d\\u200e\\u200f");
    check_shown("\xe2\x81\xa6\xe2\x81\xa9\xd8\x9c\xe2\x80\xa8", "\\u2066\\u2069\\u061c\\u2028");
    check_shown("\xff"
                "a\xe2\x82",
                FFFD "a" FFFD FFFD);
    /* A sentence that is too long ends between characters, also between those of the escapes. */
    memset(long_name, 0x1b, sizeof long_name);
    long_name[sizeof long_name - 1] = 0;
    rf_fail(&error, RF_ERR_IO, "%s", long_name);
    CHECK_INT(strlen(error.text) % 4, 0);
    CHECK(strlen(error.text) > sizeof error.text - 8);
}

int main(void)
{
    check_names();
    check_code_points();
    check_streams();
    check_normalisation();
    return check_result();
}
