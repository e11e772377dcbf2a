/* Checks and cuts UTF-8 (Unicode 15, table 3-7). Overlong forms, surrogates and numbers beyond
 * U+10FFFF are not characters. */
#include "base/utf8.h"

#include <assert.h>
#include <string.h>

/* Unicode 15, table 3-7: the length of the character that the byte leads, 0 if it leads none, and
 * the range of the second byte. */
static size_t utf8_lead(unsigned char byte, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xbf;
    if (byte < 0x80) return 1;
    if (byte < 0xc2) return 0;
    if (byte < 0xe0) return 2;
    if (byte < 0xf0) {
        if (byte == 0xe0) *low = 0xa0;
        if (byte == 0xed) *high = 0x9f;
        return 3;
    }
    if (byte < 0xf5) {
        if (byte == 0xf0) *low = 0x90;
        if (byte == 0xf4) *high = 0x8f;
        return 4;
    }
    return 0;
}

size_t rf_utf8_examine(const char *text, size_t n, int *partial, size_t *broken)
{
    const unsigned char *p = (const unsigned char *)text;
    unsigned char low, high;
    *partial = 0;
    *broken = 0;
    if (n == 0) return 0;
    size_t length = utf8_lead(p[0], &low, &high);
    for (size_t i = 1; i < length; i++) {
        if (i == n) {
            *partial = 1;
            return 0;
        }
        if (p[i] < low || p[i] > high) {
            *broken = i;
            return 0;
        }
        low = 0x80;
        high = 0xbf;
    }
    if (length == 0) *broken = 1;
    return length;
}

size_t rf_utf8_length(const char *text, size_t n)
{
    int partial;
    size_t broken;
    return rf_utf8_examine(text, n, &partial, &broken);
}

uint32_t rf_utf8_decode(const char *text, size_t length)
{
    static const unsigned char mask[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    assert(length >= 1 && length <= 4);
    uint32_t code_point = (unsigned char)text[0] & mask[length];
    for (size_t i = 1; i < length; i++)
        code_point = code_point << 6 | ((unsigned char)text[i] & 0x3f);
    return code_point;
}

size_t rf_utf8_encode(uint32_t c, char *out)
{
    assert(c <= 0x10ffff);
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (c & 0x3f));
        c >>= 6;
    }
    out[0] = (char)((0xf00 >> length & 0xff) | c);
    return length;
}

size_t rf_utf8_valid_prefix(const char *text, size_t n)
{
    size_t at = 0;
    while (at < n) {
        uint64_t block;
        if (n - at >= sizeof block) {
            memcpy(&block, text + at, sizeof block);
            if (!(block & 0x8080808080808080u)) {
                at += sizeof block;
                continue;
            }
        }
        size_t length = rf_utf8_length(text + at, n - at);
        if (length == 0) return at;
        at += length;
    }
    return n;
}

static int is_acted_on(uint32_t c)
{
    int is_control = c < 0x20 || (c >= 0x7f && c < 0xa0);
    int turns = c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
                (c >= 0x2066 && c <= 0x2069);
    return is_control || turns || c == 0x2028 || c == 0x2029;
}

size_t rf_utf8_show(const char *text, size_t n, char shown[RF_UTF8_SHOWN], size_t *used)
{
    static const char digits[] = "0123456789abcdef", replacement[] = "\xef\xbf\xbd";
    size_t length = rf_utf8_length(text, n), at = 0;
    *used = length ? length : 1;
    if (!length) {
        memcpy(shown, replacement, sizeof replacement - 1);
        return sizeof replacement - 1;
    }
    uint32_t c = rf_utf8_decode(text, length);
    if (!is_acted_on(c)) {
        memcpy(shown, text, length);
        return length;
    }
    shown[at++] = '\\';
    shown[at++] = c < 0x100 ? 'x' : 'u';
    for (int shift = c < 0x100 ? 4 : 12; shift >= 0; shift -= 4)
        shown[at++] = digits[c >> shift & 0xf];
    return at;
}
