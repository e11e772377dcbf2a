/* Files of kept casts: a header, then the strips of each cast matrix in the order of the plans. The
 * name is a hash of what the strips follow from. The header has the sum of the strips' hashes, each
 * with its place, so threads may read and write strips in any order. */
#include "weights/kept.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "platform/descriptor.h"
#include "platform/file.h"
#include "platform/folder.h"

/* To be raised when a cast or a panel's layout changes. */
enum { KEPT_VERSION = 1 };
enum { SAMPLES = 8, SAMPLE_BYTES = 64 }; /* parts of a tensor's data in the hash */
enum { LONGEST_PATH = 4096 };

struct kept_header {
    char magic[8];
    uint64_t key, bytes, sum; /* `bytes` of strips */
};

struct rf_kept {
    const struct rf_allocator *allocator;
    struct kept_header header;
    char path[LONGEST_PATH];
    int descriptor;          /* read from; -1: the file is new */
    struct rf_new_file file; /* written to */
    _Atomic uint64_t sum;
    _Atomic int failed;
};

/* ---- hashes ---- */

static uint64_t kept_hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

/* Four chains, since each step waits for a product. */
static uint64_t kept_hash(uint64_t seed, const void *data, size_t n)
{
    uint64_t lane[4] = {seed, ~seed, seed + 1, ~seed - 1}, word[4];
    const unsigned char *at = data;
    for (; n >= sizeof word; n -= sizeof word, at += sizeof word) {
        memcpy(word, at, sizeof word);
        for (int i = 0; i < 4; i++) lane[i] = kept_hash_word(lane[i], word[i]);
    }
    memset(word, 0, sizeof word);
    memcpy(word, at, n);
    for (int i = 0; i < 4; i++) lane[i] = kept_hash_word(lane[i], word[i]);
    return kept_hash_word(
        kept_hash_word(kept_hash_word(kept_hash_word(n, lane[0]), lane[1]), lane[2]), lane[3]);
}

static uint64_t kept_hash_tensor(uint64_t hash, const struct rf_weight_plan *plan)
{
    const struct rf_tensor *tensor = plan->tensor;
    const uint64_t facts[] = {(uint64_t)tensor->dtype,
                              (uint64_t)plan->dtype,
                              (uint64_t)plan->target,
                              (uint64_t)tensor->ne[0],
                              (uint64_t)tensor->ne[1],
                              plan->strip_bytes,
                              plan->bytes,
                              tensor->bytes};
    hash = kept_hash(hash, facts, sizeof facts);
    hash = kept_hash(hash, tensor->name, strlen(tensor->name));
    size_t n = tensor->bytes < SAMPLE_BYTES ? (size_t)tensor->bytes : SAMPLE_BYTES;
    for (uint64_t i = 0; i < SAMPLES; i++)
        hash = kept_hash(hash, (const char *)tensor->data + (tensor->bytes - n) / (SAMPLES - 1) * i,
                         n);
    return hash;
}

/* ---- the folder ---- */

struct kept_list {
    const char *folder;
    uint64_t bytes;
    int64_t oldest_ns;
    char oldest[LONGEST_PATH];
};

static int count_entry(void *user, const char *name)
{
    struct kept_list *list = user;
    struct rf_file_mark mark;
    char path[LONGEST_PATH];
    if (strncmp(name, RF_KEPT_PREFIX, strlen(RF_KEPT_PREFIX)) != 0) return 0;
    int n = snprintf(path, sizeof path, "%s/%s", list->folder, name);
    if (n < 0 || (size_t)n >= sizeof path || rf_file_mark_get(path, &mark) != 0) return 0;
    list->bytes += mark.bytes;
    if (!list->oldest[0] || mark.mtime_ns < list->oldest_ns) {
        list->oldest_ns = mark.mtime_ns;
        memcpy(list->oldest, path, (size_t)n + 1);
    }
    return 0;
}

/* Removes the oldest files until `bytes` more fit. 1 if they do, with as much left on the disk. */
static int make_room(const struct rf_kept_folder *folder, uint64_t bytes)
{
    uint64_t free_bytes = 0;
    if (bytes > folder->limit) return 0;
    for (;;) {
        struct kept_list list = {.folder = folder->path};
        if (rf_folder_each(folder->path, count_entry, &list, NULL) != 0) return 0;
        if (list.bytes + bytes <= folder->limit) break;
        if (!list.oldest[0] || rf_remove(list.oldest, NULL) != 0) return 0;
    }
    return rf_free_bytes(folder->path, &free_bytes, NULL) == 0 && free_bytes / 2 >= bytes;
}

/* ---- files ---- */

static int read_all(int descriptor, uint64_t at, void *data, size_t n)
{
    while (n) {
        int64_t got = rf_descriptor_read_at(descriptor, at, data, n);
        if (got <= 0) return 0;
        data = (char *)data + got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return 1;
}

/* 1 if the file is there and has the header of these weights. */
static int open_old(struct rf_kept *kept)
{
    struct kept_header found;
    int64_t bytes = rf_file_bytes(kept->path);
    if (bytes < 0 || (uint64_t)bytes != sizeof found + kept->header.bytes) return 0;
    kept->descriptor = rf_descriptor_open(kept->path);
    if (kept->descriptor < 0) return 0;
    if (read_all(kept->descriptor, 0, &found, sizeof found) &&
        memcmp(found.magic, kept->header.magic, sizeof found.magic) == 0 &&
        found.key == kept->header.key && found.bytes == kept->header.bytes) {
        kept->header.sum = found.sum;
        return 1;
    }
    rf_descriptor_close(kept->descriptor);
    kept->descriptor = -1;
    return 0;
}

/* 1 if a file was begun: there was room, and it could be written. */
static int begin_new(struct rf_kept *kept, const struct rf_kept_folder *folder)
{
    return make_room(folder, sizeof kept->header + kept->header.bytes) &&
           rf_new_file_open(&kept->file, kept->path, RF_NEW_PRIVATE | RF_NEW_CACHE, NULL) == 0;
}

static int is_kept(const struct rf_weight_plan *plan)
{
    return plan->cast_bytes && plan->role != RF_WEIGHT_EXPERTS && !plan->in_place &&
           !plan->tensor->scattered;
}

int rf_kept_open(struct rf_kept **opened, const struct rf_kept_folder *folder,
                 struct rf_weight_plan *plans, int32_t n_plans,
                 const struct rf_allocator *allocator, struct rf_error *error)
{
    *opened = NULL;
    struct kept_header header = {"RFCAST1", KEPT_VERSION, 0, 0};
    for (int32_t i = 0; i < n_plans; i++) {
        if (!is_kept(&plans[i])) continue;
        header.key = kept_hash_tensor(header.key, &plans[i]);
        header.bytes += plans[i].bytes;
    }
    if (!header.bytes || !folder->path || !folder->path[0]) return 0;
    struct rf_kept *kept = rf_calloc(allocator, 1, sizeof *kept, "kept casts", error);
    if (!kept) return RF_ERR_MEMORY;
    kept->allocator = allocator;
    kept->header = header;
    kept->descriptor = -1;
    int n = snprintf(kept->path, sizeof kept->path, "%s/" RF_KEPT_PREFIX "%016" PRIx64,
                     folder->path, header.key);
    int is_open =
        n > 0 && (size_t)n < sizeof kept->path && (open_old(kept) || begin_new(kept, folder));
    if (!is_open) {
        rf_free(allocator, kept);
        return 0;
    }
    uint64_t at = 0;
    for (int32_t i = 0; i < n_plans; i++) {
        if (!is_kept(&plans[i])) continue;
        plans[i].kept = kept;
        plans[i].kept_at = at;
        at += plans[i].bytes;
    }
    *opened = kept;
    return 0;
}

static void sum_strips(struct rf_kept *kept, uint64_t at, const void *strips, size_t n,
                       size_t bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += kept_hash(at + i * bytes, (const char *)strips + i * bytes, bytes);
    atomic_fetch_add_explicit(&kept->sum, sum, memory_order_relaxed);
}

int rf_kept_read(struct rf_kept *kept, uint64_t at, void *strips, size_t n, size_t bytes)
{
    if (kept->descriptor < 0 || atomic_load_explicit(&kept->failed, memory_order_relaxed)) return 0;
    if (!read_all(kept->descriptor, sizeof kept->header + at, strips, n * bytes)) {
        atomic_store_explicit(&kept->failed, 1, memory_order_relaxed);
        return 0;
    }
    sum_strips(kept, at, strips, n, bytes);
    return 1;
}

void rf_kept_write(struct rf_kept *kept, uint64_t at, const void *strips, size_t n, size_t bytes)
{
    if (kept->descriptor >= 0 || atomic_load_explicit(&kept->failed, memory_order_relaxed)) return;
    sum_strips(kept, at, strips, n, bytes);
    if (rf_new_file_write_at(&kept->file, sizeof kept->header + at, strips, n * bytes, NULL) != 0)
        atomic_store_explicit(&kept->failed, 1, memory_order_relaxed);
}

int rf_kept_close(struct rf_kept *kept, int complete)
{
    int damaged = 0;
    if (!kept) return 0;
    if (kept->descriptor >= 0) {
        rf_descriptor_close(kept->descriptor);
        damaged = complete && (kept->failed || kept->sum != kept->header.sum);
        if (damaged) rf_remove(kept->path, NULL);
    } else {
        kept->header.sum = kept->sum;
        if (complete && !kept->failed &&
            rf_new_file_write_at(&kept->file, 0, &kept->header, sizeof kept->header, NULL) == 0)
            rf_new_file_finish(&kept->file, NULL);
        else
            rf_new_file_drop(&kept->file);
    }
    rf_free(kept->allocator, kept);
    return damaged;
}
