/* The file of finished layers: a header with an identity, then layers in order. A file of
 * another identity, or the rest behind a broken layer, is cut off. calibrate.c reads and
 * appends. */
#include "calibrate/saved.h"

#include <stdio.h>
#include <string.h>

static const char magic[8] = "RFCALIB2";

uint64_t rf_saved_hash(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    if (!hash) hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}

int rf_saved_open(struct saved *saved, const char *out, uint64_t identity, struct rf_error *error)
{
    char path[sizeof saved->partial.path], header[SAVED_HEADER], found[SAVED_HEADER];
    int n = snprintf(path, sizeof path, "%s.calibration", out);
    if (n < 0 || (size_t)n >= sizeof path)
        return rf_fail(error, RF_ERR_ARGUMENT, "%.200s...: the path is too long", out);
    int code = rf_partial_open(&saved->partial, path, error);
    if (code) return code;
    memcpy(header, magic, sizeof magic);
    memcpy(header + sizeof magic, &identity, sizeof identity);
    saved->at = sizeof header;
    int64_t got = rf_partial_read(&saved->partial, 0, found, sizeof found, error);
    if (got < 0) code = (int)got;
    if (got >= 0 && (got < SAVED_HEADER || memcmp(found, header, sizeof header) != 0)) {
        code = rf_partial_cut(&saved->partial, 0, error);
        if (!code) code = rf_partial_append(&saved->partial, header, sizeof header, error);
    }
    if (code) rf_partial_close(&saved->partial);
    return code;
}

int rf_saved_read(struct saved *saved, void *layer, size_t bytes, struct rf_error *error)
{
    if (saved->partial.bytes < saved->at + bytes) return 0;
    for (size_t done = 0; done < bytes;) {
        int64_t got = rf_partial_read(&saved->partial, saved->at + done, (char *)layer + done,
                                      bytes - done, error);
        if (got < 0) return (int)got;
        if (!got) return 0; /* the file has become shorter */
        done += (size_t)got;
    }
    saved->at += bytes;
    return 1;
}

int rf_saved_append(struct saved *saved, const void *layer, size_t bytes, struct rf_error *error)
{
    int code = rf_partial_cut(&saved->partial, saved->at, error);
    if (!code) code = rf_partial_append(&saved->partial, layer, bytes, error);
    saved->at += bytes;
    return code;
}

void rf_saved_close(struct saved *saved)
{
    rf_partial_close(&saved->partial);
}

void rf_saved_drop(struct saved *saved)
{
    rf_partial_drop(&saved->partial);
}
