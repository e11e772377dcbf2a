/* Files and folders. */
#ifndef RF_PLATFORM_FILE_H
#define RF_PLATFORM_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* The size of a regular file in bytes; -1 where there is none at `path`. */
int64_t rf_file_bytes(const char *path);
/* The same, and the first n bytes of the file, or zeros where it has fewer; or a negative code with
 * a sentence. */
int64_t rf_file_begin(const char *path, void *data, size_t n, struct rf_error *error);
/* 1 if there is anything at `path`. */
int rf_path_exists(const char *path);
int rf_is_directory(const char *path);
/* 1 if both paths lead to one file that exists. */
int rf_same_file(const char *a, const char *b);

enum {
    RF_MAP_COPY = 1 /* read the file into memory instead of mapping it */
};

struct rf_mapping {
    const unsigned char *data; /* NULL for an empty file */
    size_t bytes;
    uint64_t stored_bytes;      /* on the disk: fewer where the file has holes */
    struct rf_map_guard *guard; /* NULL: none is needed */
};

/* Another process may make a file shorter while it is mapped; then reading what has gone raises
 * SIGBUS. This installs, once for the process, a handler that gives such reads zeros instead, and
 * rf_mapping_is_lost tells; it guards all files that are mapped from then on. Other SIGBUS signals
 * go to the handler that was there before. Without this call no handler is installed, because
 * signals are the host's. */
int rf_guard_mappings(struct rf_error *error);
/* Maps a whole regular file read-only. 0, or a negative code with a sentence that names the path.
 */
int rf_map_file(struct rf_mapping *mapping, const char *path, unsigned flags,
                struct rf_error *error);
/* 1 if a part that has gone was read. */
int rf_mapping_is_lost(const struct rf_mapping *mapping);
void rf_unmap_file(struct rf_mapping *mapping);

/* Reads a whole file, or standard input where `path` is NULL, into a block for free() that ends in
 * a zero, which *bytes does not count. Refuses more than `limit` bytes. RF_ERR_CANCELLED when
 * interrupted (platform/terminal.h). */
int rf_slurp(const char *path, size_t limit, char **data, size_t *bytes, struct rf_error *error);

enum {
    RF_NEW_PRIVATE = 1, /* readable by the user alone, if there is no such file yet */
    RF_NEW_CACHE = 2    /* need not survive a power failure: it is not waited for */
};

/* A new file takes the place of `path` when it is finished, with the mode and the owner of the old
 * one. Until then it lies beside it under another name, which nobody else can have made. A symbolic
 * link at `path` is replaced, never followed: in a folder that others can write to, it may lead
 * anywhere. What is neither a regular file nor such a link is refused, and so is an empty path.
 * rf_new_file_open also removes what a killed process has left for the same path. It keeps nothing
 * where it fails; where it succeeds, either rf_new_file_finish or rf_new_file_drop must follow. */
struct rf_new_file {
    const char *path; /* owned by the caller, valid until the end */
    char *temporary;
    int file;
    unsigned flags; /* RF_NEW_* */
};
int rf_new_file_open(struct rf_new_file *file, const char *path, unsigned flags,
                     struct rf_error *error);
int rf_new_file_write(struct rf_new_file *file, const void *data, size_t bytes,
                      struct rf_error *error);
/* Writes at a place of its own; any number of threads may write so. Not beside rf_new_file_write.
 */
int rf_new_file_write_at(struct rf_new_file *file, uint64_t offset, const void *data, size_t bytes,
                         struct rf_error *error);
/* Drops the file where it fails. */
int rf_new_file_finish(struct rf_new_file *file, struct rf_error *error);
void rf_new_file_drop(struct rf_new_file *file);

struct rf_span {
    const void *data;
    size_t bytes;
};
/* Writes a new file of these spans, one after another. */
int rf_write_file(const char *path, const struct rf_span *spans, size_t n_spans, unsigned flags,
                  struct rf_error *error);

/* Makes the renaming of a file to `path` survive a power failure, where the file system can. */
void rf_sync_folder_of(const char *path);

enum rf_folder { RF_FOLDER_DATA, RF_FOLDER_STATE, RF_FOLDER_CACHE };
/* The user's folder of that kind by the XDG rules
 * (https://specifications.freedesktop.org/basedir-spec), without the program's name. 0, or -1 where
 * no home folder is known or the path does not fit. */
int rf_user_folder(enum rf_folder folder, char *path, size_t cap);
/* Makes a folder and those above it, readable by the user alone. 0 or -1. */
int rf_make_folder(const char *path);

/* Calls `visit` with the name of each entry but "." and "..", in any order. 0, or -1 where the
 * folder cannot be read. */
int rf_visit_folder(const char *path, void (*visit)(void *user, const char *name), void *user);
/* The last character of the path that separates names ('/'; on Windows also '\\'), or NULL. */
const char *rf_path_separator(const char *path);
/* The last name in the path, without separators behind it: *bytes from the result on, 0 if there is
 * none. */
const char *rf_path_last(const char *path, size_t *bytes);
int rf_path_is_absolute(const char *path);
/* The user's home folder. 0, or -1 where none is known or it does not fit. */
int rf_home(char *path, size_t cap);
/* Copies the path with the user's home in the place of a leading "~" or "~/" (Windows: "~\"). 0, or
 * -1 where no home is known or the path does not fit. */
int rf_expand_home(const char *path, char *expanded, size_t cap);

#endif
