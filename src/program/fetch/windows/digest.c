/* SHA-256 by Windows's own library, CNG. The twin for POSIX is posix/digest.c. */
#include <windows.h>

#include <bcrypt.h>
#include <stdio.h>
#include <stdlib.h>

#include "fetch/sha256.h"

static int cng_fail(struct rf_error *error)
{
    return rf_fail(error, RF_ERR_SYSTEM, "Windows cannot compute a SHA-256");
}

int sha256_begin(struct sha256 *hash, struct rf_error *error)
{
    BCRYPT_ALG_HANDLE algorithm;
    BCRYPT_HASH_HANDLE state;
    sha256_close(hash);
    if (BCryptOpenAlgorithmProvider(&algorithm, BCRYPT_SHA256_ALGORITHM, NULL, 0) != 0)
        return cng_fail(error);
    int failed = BCryptCreateHash(algorithm, &state, NULL, 0, NULL, 0, 0) != 0;
    BCryptCloseAlgorithmProvider(algorithm, 0); /* the hash keeps it */
    if (failed) return cng_fail(error);
    hash->state = state;
    return 0;
}

int sha256_update(struct sha256 *hash, const void *data, size_t n, struct rf_error *error)
{
    unsigned char *at = (unsigned char *)(uintptr_t)data; /* the data are only read */
    while (n) {
        ULONG some = n < 1u << 30 ? (ULONG)n : 1u << 30;
        if (BCryptHashData(hash->state, at, some, 0) != 0) return cng_fail(error);
        at += some;
        n -= some;
    }
    return 0;
}

int sha256_end(struct sha256 *hash, char text[SHA256_TEXT], struct rf_error *error)
{
    unsigned char digest[32];
    if (BCryptFinishHash(hash->state, digest, sizeof digest, 0) != 0) return cng_fail(error);
    for (size_t i = 0; i < sizeof digest; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return 0;
}

void sha256_close(struct sha256 *hash)
{
    if (hash->state) BCryptDestroyHash(hash->state);
    hash->state = NULL;
}
