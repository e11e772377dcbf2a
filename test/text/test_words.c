/* Words of pre-tokenizers and form C, of characters whose kind depends on the version of Unicode.
 * test/data/text/words.txt (scripts/compare_words.py --write): a line "PRE TEXT LENGTHS" of what
 * the tokenizers of Hugging Face cut, or "NFC TEXT FORM". */
#include <stdlib.h>
#include <string.h>

#include "platform/memory.h"
#include "support/check.h"
#include "text/fixture.h"
#include "text/nfc.h"
#include "text/pretokenize.h"

static const struct rf_allocator *const memory = &rf_system_allocator;

static void check_form(char *text, char *wanted)
{
    struct rf_bytes out = {0};
    struct rf_error error = {0};
    size_t n = fixture_unescape(text), n_wanted = fixture_unescape(wanted);
    CHECK_INT(rf_nfc(text, n, memory, &out, &error), 0);
    CHECK_MSG(out.count == n_wanted && memcmp(out.data, wanted, n_wanted) == 0, "%s: %.*s", text,
              (int)out.count, out.data);
    rf_bytes_free(memory, &out);
}

static void check_words(const char *name, char *text, char *lengths)
{
    struct rf_pretokenizer *pre = NULL;
    struct rf_words words;
    struct rf_str word;
    struct rf_error error = {0};
    size_t n = fixture_unescape(text), at = 0;
    const struct rf_pretokenizer_info *info = rf_pretokenizer_find(rf_str_of(name));
    CHECK_MSG(info != NULL, "%s", name);
    if (!info || rf_pretokenizer_new(&pre, info, memory, &error)) return;
    CHECK_INT(rf_words_begin(&words, pre, text, n, &error), 0);
    while (rf_words_next(&words, &word, &error) > 0) {
        size_t wanted = strtoul(lengths, &lengths, 10);
        CHECK_MSG(word.bytes == wanted && word.data == text + at, "%s: %s: %zu bytes at %zu", name,
                  text, word.bytes, at);
        at += word.bytes;
    }
    CHECK_INT(at, n);
    CHECK_MSG(*lengths == 0, "%s: words are missing: %s", name, lengths);
    rf_words_end(&words);
    rf_pretokenizer_free(pre);
}

int main(void)
{
    char *data = fixture_read("text/words.txt", NULL), *at = data, *line;
    size_t n = 0;
    CHECK(data != NULL);
    for (; data && (line = fixture_line(&at)) != NULL; n++) {
        char *text = strchr(line, ' '), *result = text ? strchr(text + 1, ' ') : NULL;
        CHECK(result != NULL);
        if (!result) continue;
        *text++ = 0;
        *result++ = 0;
        if (strcmp(line, "NFC") == 0)
            check_form(text, result);
        else
            check_words(line, text, result);
    }
    CHECK(n > 60);
    free(data);
    return check_result();
}
