/* The part of SHA-256 that all systems share. posix/ and windows/ compute the hash. */
#include "fetch/sha256.h"

#include <string.h>

int sha256_parse(const char *text, char lower[SHA256_TEXT])
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    if (strlen(text) != 64) return 0;
    for (int i = 0; i < 64; i++) {
        const char *digit = strchr(digits, text[i]);
        if (!digit) return 0;
        lower[i] = digits[(digit - digits) % 16];
    }
    lower[64] = 0;
    return 1;
}
