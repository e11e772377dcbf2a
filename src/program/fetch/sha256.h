/* SHA-256 (FIPS 180-4) of bytes as they arrive. Parts and stamps hash with it. */
#ifndef FETCH_SHA256_H
#define FETCH_SHA256_H

#include <stddef.h>

#include "base/error.h"

enum { SHA256_TEXT = 65 }; /* 64 lower-case hexadecimal digits and a zero */

/* All zero is closed. */
struct sha256 {
    void *state;
};

/* Begins anew. Memory is the only thing that can be missing. */
int sha256_begin(struct sha256 *hash, struct rf_error *error);
int sha256_update(struct sha256 *hash, const void *data, size_t n, struct rf_error *error);
int sha256_end(struct sha256 *hash, char text[SHA256_TEXT], struct rf_error *error);
void sha256_close(struct sha256 *hash);

/* Whether the text is a SHA-256 in hexadecimal digits; `lower` gets it in lower case. */
int sha256_parse(const char *text, char lower[SHA256_TEXT]);

#endif
