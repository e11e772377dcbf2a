/* Stamps beside files: the note that a file had a hash, and the file's mark at that time. A stamp
 * counts only while the mark is the same. */
#include "fetch/stamp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/file.h"
#include "platform/folder.h"

int fetch_beside(const char *path, const char *suffix, char beside[FETCH_PATH])
{
    const char *slash = rf_path_separator(path), *file = slash ? slash + 1 : path;
    int n = snprintf(beside, FETCH_PATH, "%.*s.%s%s", (int)(file - path), path, file, suffix);
    return n < 0 || n >= FETCH_PATH ? -1 : 0;
}

/* Writes the text that the stamp of the file must have now. */
static int stamp_text(const char *path, const char *sha256, char text[256])
{
    struct rf_file_mark mark;
    if (rf_file_mark_get(path, &mark) != 0) return -1;
    snprintf(text, 256,
             "sha256 %s\nbytes %" PRIu64 "\ninode %" PRIu64 "\nmtime %" PRId64 "\nctime %" PRId64
             "\n",
             sha256, mark.bytes, mark.inode, mark.mtime_ns, mark.ctime_ns);
    return 0;
}

enum stamp stamp_read(const char *path, char sha256[SHA256_TEXT])
{
    char beside[FETCH_PATH], now[256], *text;
    struct rf_error error;
    enum stamp stamp = STAMP_NONE;
    size_t n;
    sha256[0] = 0;
    if (fetch_beside(path, ".verified", beside) != 0 || rf_kind_of(beside) != RF_KIND_FILE ||
        rf_slurp(beside, sizeof now, &text, &n, &error) != 0)
        return STAMP_NONE;
    if (sscanf(text, "sha256 %64[0-9a-f]", sha256) == 1 && strlen(sha256) == 64)
        stamp = stamp_text(path, sha256, now) == 0 && strcmp(now, text) == 0 ? STAMP_HOLDS
                                                                             : STAMP_STALE;
    else
        sha256[0] = 0;
    free(text);
    return stamp;
}

void stamp_write(const char *path, const char *sha256)
{
    char beside[FETCH_PATH], text[256];
    struct rf_error error;
    if (fetch_beside(path, ".verified", beside) != 0 || stamp_text(path, sha256, text) != 0) return;
    struct rf_span span = {text, strlen(text)};
    rf_write_file(beside, &span, 1, RF_NEW_CACHE, &error);
}

void stamp_remove(const char *path)
{
    char beside[FETCH_PATH];
    struct rf_error error;
    if (fetch_beside(path, ".verified", beside) == 0) rf_remove(beside, &error);
}

/* The whole of a file through a mapping; it is read once, and in order. */
int stamp_hash_file(const char *path, char sha256[SHA256_TEXT], fetch_progress *progress,
                    void *user, struct rf_error *error)
{
    enum { CHUNK = 4 << 20 };
    struct sha256 hash = {0};
    struct rf_mapping file;
    int code = rf_map_file(&file, path, 0, error);
    if (code) return code;
    code = sha256_begin(&hash, error);
    for (size_t at = 0, n; !code && at < file.bytes; at += n) {
        n = file.bytes - at < CHUNK ? file.bytes - at : CHUNK;
        code = sha256_update(&hash, file.data + at, n, error);
        if (!code && progress(user, "checking", at + n, file.bytes))
            code = rf_fail(error, RF_ERR_CANCELLED, "interrupted while checking %s", path);
    }
    if (!code && rf_mapping_is_lost(&file))
        code = rf_fail(error, RF_ERR_IO, "%s became shorter while it was read", path);
    if (!code) code = sha256_end(&hash, sha256, error);
    sha256_close(&hash);
    rf_unmap_file(&file);
    return code;
}
