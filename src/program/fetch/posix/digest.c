/* SHA-256 by libcrypto, with the instructions that the processor has. The twin for Windows is
 * windows/digest.c. */
#include "fetch/sha256.h"

#include <openssl/evp.h>
#include <stdio.h>

static int libcrypto_fail(struct rf_error *error)
{
    return rf_fail(error, RF_ERR_SYSTEM, "libcrypto cannot compute a SHA-256");
}

int sha256_begin(struct sha256 *hash, struct rf_error *error)
{
    if (!hash->state) hash->state = EVP_MD_CTX_new();
    return hash->state && EVP_DigestInit_ex(hash->state, EVP_sha256(), NULL) == 1
               ? 0
               : libcrypto_fail(error);
}

int sha256_update(struct sha256 *hash, const void *data, size_t n, struct rf_error *error)
{
    return EVP_DigestUpdate(hash->state, data, n) == 1 ? 0 : libcrypto_fail(error);
}

int sha256_end(struct sha256 *hash, char text[SHA256_TEXT], struct rf_error *error)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (EVP_DigestFinal_ex(hash->state, digest, &n) != 1 || n != 32) return libcrypto_fail(error);
    for (unsigned i = 0; i < n; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return 0;
}

void sha256_close(struct sha256 *hash)
{
    EVP_MD_CTX_free(hash->state);
    hash->state = NULL;
}
