/* The note beside a model file that its SHA-256 was checked: `.FILE.verified`. It holds for as long
 * as size, inode, mtime and ctime of the file are those of that moment. */
#ifndef FETCH_STAMP_H
#define FETCH_STAMP_H

#include <stdint.h>

#include "fetch/sha256.h"

enum { FETCH_PATH = 4096 };

/* Writes "FOLDER/.FILESUFFIX" for the path FOLDER/FILE. 0, or -1 if it does not fit. */
int fetch_beside(const char *path, const char *suffix, char beside[FETCH_PATH]);

enum stamp { STAMP_NONE, STAMP_STALE, STAMP_HOLDS };
/* `sha256` gets what the file had when it was checked; "" for STAMP_NONE. STAMP_STALE: the file was
 * touched since. */
enum stamp stamp_read(const char *path, char sha256[SHA256_TEXT]);
/* Folders that others own cannot be written to; the file is then read again the next time. */
void stamp_write(const char *path, const char *sha256);
void stamp_remove(const char *path);

/* Told how far some work is; other than 0 stops it with RF_ERR_CANCELLED. total 0: unknown. */
typedef int fetch_progress(void *user, const char *stage, uint64_t done, uint64_t total);

/* Computes the SHA-256 of a file. */
int stamp_hash_file(const char *path, char sha256[SHA256_TEXT], fetch_progress *progress,
                    void *user, struct rf_error *error);

#endif
