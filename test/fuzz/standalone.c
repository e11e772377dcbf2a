/* Runs a fuzz target without libFuzzer: every file of a folder, then mutations of them from a fixed
 * seed.
 *
 *     fuzz_NAME FOLDER COUNT      replay FOLDER, then COUNT mutations
 *     fuzz_NAME FILE              replay one file
 */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "fuzz/fuzz.h"

struct seed {
    uint8_t *data;
    size_t bytes;
};

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static size_t random_below(size_t n)
{
    return n ? (size_t)(random_next() % n) : 0;
}

static int read_seed(const char *path, struct seed *seed)
{
    FILE *file = fopen(path, "rb");
    if (!file) return -1;
    *seed = (struct seed){0};
    size_t cap = 0;
    for (;;) {
        if (seed->bytes == cap) {
            cap = cap ? cap * 2 : 4096;
            uint8_t *grown = realloc(seed->data, cap);
            if (!grown) break;
            seed->data = grown;
        }
        size_t n = fread(seed->data + seed->bytes, 1, cap - seed->bytes, file);
        if (n == 0) break;
        seed->bytes += n;
    }
    fclose(file);
    return 0;
}

/* The input lies in a block of exactly its size, so that a sanitizer sees every byte read beyond
 * it. SIGPROF ends one that takes longer than any should: slow inputs are findings. */
static void run(const uint8_t *data, size_t bytes)
{
    static const struct itimerval most = {.it_value.tv_sec = 10};
    setitimer(ITIMER_PROF, &most, NULL);
    uint8_t *exact = malloc(bytes ? bytes : 1);
    if (!exact) exit(1);
    if (bytes) memcpy(exact, data, bytes);
    LLVMFuzzerTestOneInput(exact, bytes);
    free(exact);
}

/* One change: a bit, a byte, an integer of 1 to 8 bytes set to a value at some border, a run copied
 * over another, a run removed, or the end cut off. */
static size_t mutate(uint8_t *data, size_t bytes)
{
    static const uint64_t borders[] = {0,
                                       1,
                                       0x7f,
                                       0x80,
                                       0xff,
                                       0xffff,
                                       0x7fffffff,
                                       0x80000000u,
                                       0xffffffffu,
                                       0x100000000u,
                                       UINT64_MAX,
                                       INT64_MAX,
                                       UINT64_MAX / 2 + 1,
                                       UINT64_MAX - 31,
                                       1u << 20};
    if (bytes == 0) return 0;
    size_t at = random_below(bytes);
    switch (random_below(6)) {
    case 0: data[at] ^= (uint8_t)(1u << random_below(8)); break;
    case 1: data[at] = (uint8_t)random_next(); break;
    case 2: {
        uint64_t value = borders[random_below(sizeof borders / sizeof *borders)];
        size_t width = (size_t)1 << random_below(4);
        for (size_t i = 0; i < width && at + i < bytes; i++)
            data[at + i] = (uint8_t)(value >> (8 * i));
        break;
    }
    case 3: {
        size_t from = random_below(bytes);
        size_t most = bytes - (from > at ? from : at);
        memmove(data + at, data + from, 1 + random_below(most < 64 ? most : 64));
        break;
    }
    case 4: {
        size_t n = 1 + random_below(bytes - at < 16 ? bytes - at : 16);
        memmove(data + at, data + at + n, bytes - at - n);
        return bytes - n;
    }
    default: return random_below(8) ? bytes : at;
    }
    return bytes;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s FOLDER COUNT | FILE\n", argv[0]);
        return 2;
    }
    struct seed seeds[256];
    size_t n_seeds = 0;
    struct dirent **entries;
    /* Sorted, so that the mutations are the same everywhere. */
    int n_entries = scandir(argv[1], &entries, NULL, alphasort);
    if (n_entries < 0 && read_seed(argv[1], &seeds[n_seeds]) == 0) n_seeds++;
    for (int i = 0; i < n_entries; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && n_seeds < sizeof seeds / sizeof *seeds &&
            read_seed(path, &seeds[n_seeds]) == 0)
            n_seeds++;
        free(entries[i]);
    }
    if (n_entries >= 0) free(entries);
    if (n_seeds == 0) {
        fprintf(stderr, "%s: no seed files\n", argv[1]);
        return 1;
    }
    for (size_t i = 0; i < n_seeds; i++) run(seeds[i].data, seeds[i].bytes);

    long count = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    for (long i = 0; i < count; i++) {
        const struct seed *seed = &seeds[random_below(n_seeds)];
        uint8_t *copy = malloc(seed->bytes ? seed->bytes : 1);
        if (!copy) return 1;
        memcpy(copy, seed->data, seed->bytes);
        size_t bytes = seed->bytes;
        for (size_t changes = 1 + random_below(4); changes > 0; changes--)
            bytes = mutate(copy, bytes);
        run(copy, bytes);
        free(copy);
    }
    printf("%zu seeds and %ld mutations\n", n_seeds, count);
    for (size_t i = 0; i < n_seeds; i++) free(seeds[i].data);
    return 0;
}
