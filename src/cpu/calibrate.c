/* Measures the workers of a team with the linear kernels on real weights, for the split of work
 * that views begin with. Each worker reads a part of its own, so that measurements do not share a
 * cache. backend.c calls this, for a loaded model or for the machine alone. */
#include "cpu/calibrate.h"

#include <string.h>

#include "cpu/cpu.h"
#include "cpu/tiers.h"
#include "platform/clock.h"
#include "platform/cpu.h"

static const double LONGEST = 3e-3, SHORTEST = 0.2e-3; /* seconds of one measurement */
static const double SLOW_READ =
    10e9; /* bytes a second: below LONGEST at this speed, a measurement is shorter */
static const double ENOUGH = 0.97; /* share of the best rate that lets fewer workers be chosen */
enum {
    ROUNDS = 2,
    MOST_COUNTS = 64,
    MANY = 32,                /* rows of activations that stand for a prompt's */
    CHUNK_BYTES = 128 * 1024, /* bytes of weights between two readings of the clock */
    CACHED_BYTES = 64 * 1024, /* bytes of weights that stay in a core's cache, for many rows */
    MACHINE_COLUMNS = 2048
};
static const size_t MACHINE_LEAST = (size_t)64 << 20, MACHINE_MOST = (size_t)512 << 20;

struct probe {
    const struct rf_kernels *kernels;
    const struct rf_weight *weight;
    size_t row_bytes, chunk; /* rows of a kernel's call */
    void *x;                 /* MANY rows */
    float *y;                /* [workers][MANY][chunk] */
    double *results;         /* [workers]: rates, in bytes per second */
    double seconds;
    size_t rows; /* rows of activations */
};

/* One call of the kernel, over `m` weight rows. */
static void probe_call(const struct probe *probe, const struct rf_worker *worker, size_t row,
                       size_t m)
{
    const struct rf_weight *weight = probe->weight;
    struct rf_linear_args args = {.y = probe->y + (size_t)worker->index * MANY * probe->chunk,
                                  .ldy = probe->chunk,
                                  .w = (const char *)weight->data + weight_offset(weight, row),
                                  .ldw = weight->ld,
                                  .x = probe->x,
                                  .m = m,
                                  .n = probe->rows,
                                  .k = weight->plan.columns};
    probe->kernels->linear[weight->plan.format](&args);
}

/* Each worker reads its own part of the weights repeatedly. */
static void measure_share(void *argument, struct rf_worker *worker)
{
    const struct probe *probe = argument;
    size_t rows = probe->weight->plan.rows, panels = rows / RF_PANEL_ROWS,
           count = (size_t)worker->count;
    size_t index = (size_t)worker->index;
    size_t first = panels < count ? 0 : panels * index / count * RF_PANEL_ROWS;
    size_t end = panels < count ? rows : panels * (index + 1) / count * RF_PANEL_ROWS;
    if (probe->rows > 1 && end > first + CACHED_BYTES / probe->row_bytes)
        end = first + CACHED_BYTES / probe->row_bytes / RF_PANEL_ROWS * RF_PANEL_ROWS;
    if (end <= first) end = first + (rows < RF_PANEL_ROWS ? rows : RF_PANEL_ROWS);
    if (probe->rows > 1)
        probe_call(probe, worker, first, end - first < probe->chunk ? end - first : probe->chunk);
    rf_team_barrier(worker);

    double begin = rf_clock_seconds(), now = begin;
    size_t done = 0;
    for (size_t row = first; now < begin + probe->seconds; now = rf_clock_seconds()) {
        size_t m = end - row < probe->chunk ? end - row : probe->chunk;
        probe_call(probe, worker, row, m);
        done += m;
        row = row + m < end ? row + m : first;
    }
    probe->results[worker->index] = (double)done * (double)probe->row_bytes / (now - begin);
}

/* Work per second of `count` workers together. */
static double team_rate(struct probe *probe, struct rf_team *team, int count)
{
    double sum = 0.0;
    rf_team_run(team, count, measure_share, probe);
    for (int i = 0; i < count; i++) sum += probe->results[i];
    return sum;
}

/* Keeps the better of a worker's rates in this round and in those before. */
static void keep_speeds(struct rf_split_kind *kind, const struct probe *probe, int count, int round)
{
    for (int i = 0; i < count; i++)
        if (round == 0 || kind->speed[i] < probe->results[i]) kind->speed[i] = probe->results[i];
}

/* Fills the split; returns the bytes that all workers read in a second. */
static double measure_split(struct rf_split *split, struct probe *probe, struct rf_team *team)
{
    int counts[MOST_COUNTS], n = 0, places = rf_team_places(team), enough = 0;
    double rates[MOST_COUNTS] = {0}, best = 0.0;
    for (int count = places; n < MOST_COUNTS; count = rf_split_neighbour(split, count, 0)) {
        counts[n++] = count;
        if (count == 1) break;
    }
    probe->rows = 1;
    /* Takes the better of two rounds over all numbers of workers, because another process may
     * disturb one. */
    for (int round = 0; round < ROUNDS; round++)
        for (int c = n - 1; c >= 0; c--) {
            double now = team_rate(probe, team, counts[c]);
            if (rates[c] < now) rates[c] = now;
            if (best < now) best = now;
            if (c > 0) continue;
            keep_speeds(&split->kinds[RF_WORK_ONE], probe, places, round);
            keep_speeds(&split->kinds[RF_WORK_FEW], probe, places, round);
        }
    for (int c = 0; c < n; c++)
        if (rates[c] >= ENOUGH * best) enough = c;
    split->kinds[RF_WORK_ONE].active = counts[enough];
    probe->rows = MANY;
    for (int round = 0; round < ROUNDS; round++) {
        team_rate(probe, team, places);
        keep_speeds(&split->kinds[RF_WORK_MANY], probe, places, round);
    }
    return rates[0];
}

static int calibrate_split(struct rf_split **split, const struct rf_kernels *kernels,
                           const struct rf_weight *weight, struct rf_team *team,
                           const struct rf_allocator *allocator, double *all,
                           struct rf_error *error)
{
    size_t k = weight->plan.columns, rows = rf_padded(weight->plan.rows),
           workers = (size_t)rf_team_places(team);
    struct probe probe = {.kernels = kernels, .weight = weight};
    probe.row_bytes = weight_row_bytes(weight);
    probe.chunk = CHUNK_BYTES / probe.row_bytes / RF_PANEL_ROWS * RF_PANEL_ROWS;
    if (probe.chunk < RF_PANEL_ROWS) probe.chunk = RF_PANEL_ROWS;
    if (probe.chunk > rows) probe.chunk = rows;
    probe.seconds = (double)weight->plan.rows * (double)probe.row_bytes / SLOW_READ;
    if (probe.seconds > LONGEST) probe.seconds = LONGEST;
    if (probe.seconds < SHORTEST) probe.seconds = SHORTEST;

    enum rf_operand form = rf_operand_of(weight->plan.format);
    float *x = rf_calloc(allocator, k, sizeof *x, "measuring cores", error);
    probe.x =
        rf_malloc(allocator, kernels->packed_bytes[form](MANY, k), 1, "measuring cores", error);
    probe.y =
        rf_malloc(allocator, workers * MANY, probe.chunk * sizeof(float), "measuring cores", error);
    probe.results = rf_calloc(allocator, workers, sizeof *probe.results, "measuring cores", error);
    int code = x && probe.x && probe.y && probe.results ? 0 : RF_ERR_MEMORY;
    if (!code) code = rf_team_split_new(team, split, allocator, error);
    if (!code) {
        for (size_t i = 0; i < MANY; i++)
            kernels->pack[form](&(struct rf_pack_args){probe.x, i, k, x, 0, k, 0});
        *all = measure_split(*split, &probe, team);
    }
    rf_free(allocator, x);
    rf_free(allocator, probe.x);
    rf_free(allocator, probe.y);
    rf_free(allocator, probe.results);
    return code;
}

int rf_cpu_calibrate(struct rf_split **split, const struct rf_weights *base, struct rf_team *team,
                     struct rf_error *error)
{
    const struct cpu_weights *weights = (const struct cpu_weights *)base;
    const struct rf_weight *largest = NULL;
    *split = NULL;
    for (size_t i = 0; i < weights->n_tensors; i++) {
        const struct rf_weight *weight = &weights->tensors[i];
        if (weight->data && (!largest || weight->plan.rows * weight->plan.columns >
                                             largest->plan.rows * largest->plan.columns))
            largest = weight;
    }
    double all;
    if (rf_team_places(team) == 1 || !largest) return 0;
    return calibrate_split(split, kernels_of(base->backend), largest, team,
                           base->backend->allocator, &all, error);
}

struct machine_pool {
    char *data;
    size_t blocks;
};

enum { POOL_BLOCK = 1 << 20 };

static void fill_pool(void *argument, struct rf_worker *worker)
{
    const struct machine_pool *pool = argument;
    struct rf_share share;
    size_t begin, end;
    rf_share_begin(&share, worker, pool->blocks, 1, 0.0);
    while (rf_share_next(&share, &begin, &end))
        memset(pool->data + begin * POOL_BLOCK, 0, (end - begin) * POOL_BLOCK);
}

int rf_cpu_calibrate_machine(struct rf_split **split, int tier, struct rf_team *team,
                             const struct rf_allocator *allocator, double *bytes_per_second,
                             struct rf_error *error)
{
    size_t bytes = 2 * rf_cpu_cache_bytes();
    if (bytes < MACHINE_LEAST) bytes = MACHINE_LEAST;
    if (bytes > MACHINE_MOST) bytes = MACHINE_MOST;
    struct machine_pool pool = {.blocks = bytes / POOL_BLOCK};
    *split = NULL;
    pool.data = rf_malloc(allocator, pool.blocks, POOL_BLOCK, "measuring cores", error);
    if (!pool.data) return RF_ERR_MEMORY;
    rf_team_run(team, 0, fill_pool, &pool);
    struct rf_weight weight = {
        .plan = {.is_matrix = 1,
                 .format = RF_FORMAT_BF16,
                 .rows = pool.blocks * POOL_BLOCK / sizeof(uint16_t) / MACHINE_COLUMNS,
                 .columns = MACHINE_COLUMNS,
                 .strip_rows = 1,
                 .strip_bytes = MACHINE_COLUMNS * sizeof(uint16_t)},
        .data = pool.data,
        .ld = MACHINE_COLUMNS};
    int code = calibrate_split(split, rf_cpu_kernels(tier), &weight, team, allocator,
                               bytes_per_second, error);
    rf_free(allocator, pool.data);
    return code;
}
