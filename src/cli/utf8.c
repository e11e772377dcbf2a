#include "cli/utf8.h"

size_t utf8_length(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    if (n == 0) return 0;
    if (p[0] < 0x80) return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4) return 0;

    size_t length = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (n < length) return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    /* Overlong forms, surrogates and what lies above U+10FFFF show in the second byte. */
    if (p[0] == 0xe0 && p[1] < 0xa0) return 0;
    if (p[0] == 0xed && p[1] > 0x9f) return 0;
    if (p[0] == 0xf0 && p[1] < 0x90) return 0;
    if (p[0] == 0xf4 && p[1] > 0x8f) return 0;
    return length;
}

unsigned utf8_code_point(const char *text, size_t length)
{
    const unsigned char *p = (const unsigned char *)text;
    static const unsigned char first_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    unsigned code = p[0] & first_bits[length];
    for (size_t i = 1; i < length; i++) code = code << 6 | (p[i] & 0x3fu);
    return code;
}
