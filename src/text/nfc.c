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

/* Characters that the tokenizers of Hugging Face leave alone, as their tables of forms are those of
 * Unicode 9: marks and compositions that are younger (scripts/make_unicode_kinds.py --forms). So
 * the version of utf8proc does not matter. */
static const struct {
    uint32_t first, last;
} unknown[] = {
    {0x7fd, 0x7fd},     {0x897, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},
    {0xc3c, 0xc3c},     {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},
    {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},   {0x105c9, 0x105c9},
    {0x105d2, 0x105d2}, {0x105da, 0x105da}, {0x105e4, 0x105e4}, {0x10d24, 0x10d27},
    {0x10d69, 0x10d6d}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50},
    {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x11382, 0x11385},
    {0x1138b, 0x1138b}, {0x1138e, 0x1138e}, {0x11390, 0x11391}, {0x113b8, 0x113b8},
    {0x113bb, 0x113bb}, {0x113c2, 0x113c2}, {0x113c5, 0x113c5}, {0x113c7, 0x113c9},
    {0x113ce, 0x113d0}, {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11930, 0x11930},
    {0x11935, 0x11935}, {0x11938, 0x11938}, {0x1193d, 0x1193e}, {0x11943, 0x11943},
    {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99},
    {0x11d42, 0x11d42}, {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42},
    {0x1611e, 0x16129}, {0x1612f, 0x1612f}, {0x16d63, 0x16d63}, {0x16d67, 0x16d6a},
    {0x16ff0, 0x16ff1}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae},
    {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1e5ee, 0x1e5ef},
};

static int is_unknown(uint32_t c)
{
    size_t low = 0, high = sizeof unknown / sizeof *unknown;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (unknown[middle].last < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof unknown / sizeof *unknown && unknown[low].first <= c;
}

/* The bytes of well-formed text before the first unknown character, and those of that one. */
static size_t known_prefix(const char *text, size_t n, size_t *length)
{
    size_t at = 0;
    for (; at < n; at += *length) {
        *length = rf_utf8_length(text + at, n - at);
        if (is_unknown(rf_utf8_decode(text + at, *length))) return at;
    }
    *length = 0;
    return at;
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

/* The same, with unknown characters left alone: they neither move nor join others. */
static int normalise_known(const char *text, size_t n, const struct rf_allocator *allocator,
                           struct rf_bytes *out, struct rf_error *error)
{
    int code = 0;
    for (size_t at = 0, length; at < n && !code; at += length) {
        size_t known = known_prefix(text + at, n - at, &length);
        if (rf_nfc_is_trivial(text + at, known))
            code = rf_bytes_append(allocator, out, text + at, known, error);
        else
            code = nfc_normalise(text + at, known, allocator, out, error);
        at += known;
        if (length && !code) code = rf_bytes_append(allocator, out, text + at, length, error);
    }
    return code;
}

int rf_nfc(const char *text, size_t n, const struct rf_allocator *allocator, struct rf_bytes *out,
           struct rf_error *error)
{
    int code = 0;
    for (size_t at = 0; at < n && !code;) {
        size_t valid = rf_utf8_valid_prefix(text + at, n - at);
        code = normalise_known(text + at, valid, allocator, out, error);
        at += valid;
        if (at < n && !code) code = rf_bytes_append(allocator, out, text + at++, 1, error);
    }
    return code;
}
