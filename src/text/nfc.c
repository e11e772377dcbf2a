/* Normalises text to Unicode's form C in linear time, also for hostile runs of marks. Tokenizers
 * call it where the vocabulary asks for it and the text is not trivially in form C. */
#include "text/nfc.h"

#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

/* The lead byte of U+0300. Characters below are already in form C and never combine. */
enum { FIRST_LEAD = 0xcc };

int rf_nfc_is_trivial(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] >= FIRST_LEAD) return 0;
    return 1;
}

static int combining_class(int32_t code_point)
{
    return utf8proc_get_property(code_point)->combining_class;
}

/* Sorts combining marks by their class, stably. This counts classes, because a hostile text may be
 * one long run of marks, for which utf8proc's own sort is quadratic. */
static void order_marks(int32_t *marks, size_t n, int32_t *scratch)
{
    size_t start[257] = {0};
    for (size_t i = 0; i < n; i++) start[combining_class(marks[i]) + 1]++;
    for (int class = 0; class < 256; class ++) start[class + 1] += start[class];
    for (size_t i = 0; i < n; i++) scratch[start[combining_class(marks[i])]++] = marks[i];
    memcpy(marks, scratch, n * sizeof *marks);
}

/* Returns the number of points, or a negative code. */
static int64_t decompose(const char *text, size_t n, int32_t *points, size_t cap,
                         struct rf_error *error)
{
    size_t count = 0, length;
    for (size_t at = 0; at < n; at += length) {
        length = rf_utf8_length(text + at, n - at);
        int boundary = 0;
        utf8proc_ssize_t made = utf8proc_decompose_char(
            (int32_t)rf_utf8_decode(text + at, length), points + count,
            (utf8proc_ssize_t)(cap - count), UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &boundary);
        if (made < 0 || (size_t)made > cap - count)
            return rf_fail(error, RF_ERR_SYSTEM, "libutf8proc cannot decompose a character: %s",
                           made < 0 ? utf8proc_errmsg(made) : "it is too long");
        count += (size_t)made;
    }
    return (int64_t)count;
}

/* Normalises well-formed text: decompose, order, compose (Unicode 15, section 3.11). */
static int nfc_normalise(const char *text, size_t n, const struct rf_allocator *allocator,
                         struct rf_bytes *out, struct rf_error *error)
{
    /* A character of b bytes decomposes canonically into at most 4 characters and at most 2 b. */
    size_t cap = n * 2 + 4;
    int32_t *points = rf_malloc(allocator, cap, 2 * sizeof *points, "text to normalise", error);
    if (!points) return RF_ERR_MEMORY;
    int64_t count = decompose(text, n, points, cap, error);
    for (int64_t i = 0, end; i < count; i = end + 1) {
        for (end = i; end < count && combining_class(points[end]);) end++;
        if (end - i > 1) order_marks(points + i, (size_t)(end - i), points + cap);
    }
    struct rf_writer writer = {allocator, out, error, count < 0 ? (int)count : 0};
    utf8proc_ssize_t composed =
        utf8proc_normalize_utf32(points, count, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    for (utf8proc_ssize_t i = 0; i < composed; i++) {
        char bytes[4];
        rf_write(&writer, bytes, rf_utf8_encode((uint32_t)points[i], bytes));
    }
    rf_free(allocator, points);
    return writer.code;
}

int rf_nfc(const char *text, size_t n, const struct rf_allocator *allocator, struct rf_bytes *out,
           struct rf_error *error)
{
    int code = 0;
    for (size_t at = 0; at < n && !code;) {
        size_t valid = rf_utf8_valid_prefix(text + at, n - at);
        if (rf_nfc_is_trivial(text + at, valid))
            code = rf_bytes_append(allocator, out, text + at, valid, error);
        else
            code = nfc_normalise(text + at, valid, allocator, out, error);
        at += valid;
        if (at < n && !code) code = rf_bytes_append(allocator, out, text + at++, 1, error);
    }
    return code;
}
