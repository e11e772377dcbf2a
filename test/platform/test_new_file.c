/* Files that replace others: what is refused, what stays as it was, what a killed process leaves.
 */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/file.h"
#include "support/check.h"

static char folder[64];

static const char *path_of(const char *name)
{
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int write_text(const char *path, const char *text, unsigned flags, struct rf_error *error)
{
    struct rf_span span = {text, strlen(text)};
    return rf_write_file(path, &span, 1, flags, error);
}

static void check_text(const char *path, const char *text)
{
    char *data = NULL;
    size_t bytes;
    struct rf_error error = {0};
    CHECK_MSG(rf_slurp(path, 1000, &data, &bytes, &error) == 0, "%s", error.text);
    if (data) CHECK_STR(data, text);
    free(data);
}

static struct stat status_of(const char *path)
{
    struct stat status = {0};
    CHECK_MSG(lstat(path, &status) == 0, "%s: %s", path, strerror(errno));
    return status;
}

static int count_entries(void)
{
    int n = 0;
    DIR *entries = opendir(folder);
    while (entries && readdir(entries)) n++;
    if (entries) closedir(entries);
    return n - 2;
}

static void refuse(const char *name, const char *sentence)
{
    struct rf_error error = {0};
    struct stat before = status_of(path_of(name));
    int n = count_entries();
    CHECK_INT(write_text(path_of(name), "new", 0, &error), RF_ERR_IO);
    CHECK_MSG(strstr(error.text, sentence) && strstr(error.text, name), "%s", error.text);
    struct stat after = status_of(path_of(name));
    CHECK(after.st_ino == before.st_ino && after.st_mode == before.st_mode);
    CHECK_INT(count_entries(), n);
}

static void test_refused(void)
{
    CHECK_INT(mkfifo(path_of("fifo"), 0600), 0);
    refuse("fifo", "is not a regular file");
    CHECK_INT(mkdir(path_of("folder"), 0700), 0);
    refuse("folder", "is a folder");
    CHECK_INT(symlink("folder", path_of("to-folder")), 0);
    refuse("to-folder", "is a folder");
    if (mknod(path_of("device"), S_IFCHR | 0600, makedev(1, 3)) == 0)
        refuse("device", "is not a regular file");
    else
        CHECK(geteuid() != 0 || errno == EPERM);
}

static void test_modes(void)
{
    struct rf_error error = {0};
    mode_t mask = umask(027);
    CHECK_INT(write_text(path_of("open"), "a", 0, &error), 0);
    CHECK_INT(write_text(path_of("private"), "a", RF_NEW_PRIVATE, &error), 0);
    CHECK_INT(status_of(path_of("open")).st_mode & 07777, 0640);
    CHECK_INT(status_of(path_of("private")).st_mode & 07777, 0600);
    CHECK_INT(chmod(path_of("private"), 0604), 0);
    CHECK_INT(write_text(path_of("private"), "b", RF_NEW_PRIVATE, &error), 0);
    CHECK_INT(status_of(path_of("private")).st_mode & 07777, 0604);
    check_text(path_of("private"), "b");
    umask(mask);
    if (geteuid() != 0) return;
    CHECK_INT(chown(path_of("open"), 1234, 2345), 0);
    CHECK_INT(write_text(path_of("open"), "c", 0, &error), 0);
    struct stat status = status_of(path_of("open"));
    CHECK(status.st_uid == 1234 && status.st_gid == 2345 && (status.st_mode & 07777) == 0640);
}

static void check_replaced(const char *link)
{
    struct rf_error error = {0};
    CHECK_MSG(write_text(path_of(link), "new", RF_NEW_PRIVATE, &error) == 0, "%s", error.text);
    struct stat status = status_of(path_of(link));
    CHECK(S_ISREG(status.st_mode) && (status.st_mode & 07777) == 0600);
    check_text(path_of(link), "new");
}

/* A link is replaced: what it leads to stays as it was, and is not made where it is missing. */
static void test_link(void)
{
    struct rf_error error = {0};
    CHECK_INT(write_text(path_of("folder/real"), "old", 0, &error), 0);
    CHECK_INT(symlink("folder/real", path_of("link")), 0);
    check_replaced("link");
    check_text(path_of("folder/real"), "old");
    CHECK_INT(symlink("nowhere", path_of("dangling")), 0);
    check_replaced("dangling");
    CHECK(access(path_of("nowhere"), F_OK) != 0);
    CHECK_INT(symlink("fifo", path_of("to-fifo")), 0);
    check_replaced("to-fifo");
    CHECK_INT(symlink("loop", path_of("loop")), 0);
    check_replaced("loop");
}

/* An empty name is nobody's file. */
static void test_empty(void)
{
    struct rf_error error = {0};
    CHECK_INT(write_text("", "new", 0, &error), RF_ERR_ARGUMENT);
    CHECK(strstr(error.text, "empty"));
    rf_sync_folder_of("");
    rf_sync_folder_of("x");
    rf_sync_folder_of("/x");
}

/* The old file stays until the new one is complete, and when a new one is dropped. */
static void test_drop(void)
{
    struct rf_error error = {0};
    struct rf_new_file file;
    CHECK_INT(write_text(path_of("kept"), "old", 0, &error), 0);
    int n = count_entries();
    CHECK_INT(rf_new_file_open(&file, path_of("kept"), 0, &error), 0);
    CHECK_INT(rf_new_file_write(&file, "new", 3, &error), 0);
    check_text(path_of("kept"), "old");
    rf_new_file_drop(&file);
    check_text(path_of("kept"), "old");
    CHECK_INT(count_entries(), n);
}

/* A device that comes to the path meanwhile is not replaced. */
static void test_changed_target(void)
{
    struct rf_error error = {0};
    struct rf_new_file file;
    CHECK_INT(rf_new_file_open(&file, path_of("late"), 0, &error), 0);
    CHECK_INT(mkfifo(path_of("late"), 0600), 0);
    int n = count_entries();
    CHECK_INT(rf_new_file_finish(&file, &error), RF_ERR_IO);
    CHECK(S_ISFIFO(status_of(path_of("late")).st_mode));
    CHECK_INT(count_entries(), n - 1);
}

/* A killed process leaves its file; the next one removes it, but not that of one which lives. */
static void test_left_over(void)
{
    struct rf_error error = {0};
    struct rf_new_file living;
    int n = count_entries(), ready[2], got;
    char byte;
    CHECK_INT(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct rf_new_file dying;
        int code = rf_new_file_open(&dying, path_of("big"), 0, &error);
        if (!code) code = rf_new_file_write(&dying, "half", 4, &error);
        if (write(ready[1], code ? "n" : "y", 1) == 1) pause();
        _exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1 && byte == 'y');
    kill(child, SIGKILL);
    waitpid(child, &got, 0);
    close(ready[0]);
    close(ready[1]);
    CHECK_INT(count_entries(), n + 1);
    CHECK_INT(rf_new_file_open(&living, path_of("big"), 0, &error), 0);
    CHECK_INT(count_entries(), n + 1);
    CHECK_INT(write_text(path_of("big"), "other", 0, &error), 0);
    check_text(path_of("big"), "other");
    CHECK_INT(count_entries(), n + 2);
    CHECK_INT(rf_new_file_finish(&living, &error), 0);
    CHECK_INT(count_entries(), n + 1);
}

int main(void)
{
    snprintf(folder, sizeof folder, "/tmp/riffle-new-file-XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
    test_refused();
    test_modes();
    test_link();
    test_empty();
    test_drop();
    test_changed_target();
    test_left_over();
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_INT(system(command), 0);
    return check_result();
}
