/* Folders' entries: listing, describing and removing them. */
#ifndef RF_PLATFORM_FOLDER_H
#define RF_PLATFORM_FOLDER_H

#include <stdint.h>

#include "base/error.h"

/* Calls `each` with the name of everything in the folder but "." and "..", in no order, until it
 * returns other than 0. 0, its result, or a negative code. */
int rf_folder_each(const char *path, int (*each)(void *user, const char *name), void *user,
                   struct rf_error *error);

enum rf_kind { RF_KIND_NONE, RF_KIND_FILE, RF_KIND_FOLDER, RF_KIND_LINK, RF_KIND_OTHER };
/* The kind of `path` itself: symbolic links are not followed. */
enum rf_kind rf_kind_of(const char *path);

/* Bytes that this user may still write to the file system of `path`. */
int rf_free_bytes(const char *path, uint64_t *bytes, struct rf_error *error);

/* Removes a file, a symbolic link or an empty folder. */
int rf_remove(const char *path, struct rf_error *error);

/* Sets the time of a file's last change to now. 0 or -1. */
int rf_file_touch(const char *path);
/* 1 if `path` is a folder of this user that no other one may change (on Windows: any folder). */
int rf_folder_is_own(const char *path);

/* Changes whenever the file does, also where its time is set back: nothing sets ctime. */
struct rf_file_mark {
    uint64_t bytes, inode;
    int64_t mtime_ns, ctime_ns;
};
/* 0, or -1 if there is no regular file. */
int rf_file_mark_get(const char *path, struct rf_file_mark *mark);

#endif
