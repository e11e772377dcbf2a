/* How a team shares work: every item is done once and barriers hold, for any items, grain, cost,
 * number of workers, assumed speeds and disturbances. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "support/check.h"
#include "support/crew.h"

enum { ITEMS = 1000, ROUNDS = 48, MOST_WORKERS = 8 };

struct round {
    _Atomic int taken[ITEMS]; /* how often each item came up in this round */
    size_t n, grain;
    double cost;
};

struct job {
    struct round rounds[ROUNDS];
    _Atomic int arrived[ROUNDS];
    _Atomic int early; /* workers that left a barrier before all had come */
    _Atomic int seen[MOST_WORKERS];
    int written[MOST_WORKERS]; /* without locks: a barrier makes it visible to the others */
    _Atomic int unseen;        /* writes of others that were not */
    int count;
};

static void share_rounds(void *argument, struct rf_worker *worker)
{
    struct job *job = argument;
    atomic_fetch_add(&job->seen[worker->index], 1);
    if (worker->index == 0) job->count = worker->count;
    for (int r = 0; r < ROUNDS; r++) {
        struct round *round = &job->rounds[r];
        struct rf_share share;
        size_t begin, end;
        rf_share_begin(&share, worker, round->n, round->grain, round->cost);
        while (rf_share_next(&share, &begin, &end))
            for (size_t i = begin; i < end; i++) atomic_fetch_add(&round->taken[i], 1);
        job->written[worker->index] = r;
        atomic_fetch_add(&job->arrived[r], 1);
        rf_team_barrier(worker);
        if (atomic_load(&job->arrived[r]) != worker->count) atomic_fetch_add(&job->early, 1);
        for (int i = 0; i < worker->count; i++)
            if (job->written[i] != r) atomic_fetch_add(&job->unseen, 1);
        rf_team_barrier(worker);
    }
}

static struct job *new_job(void)
{
    struct job *job = calloc(1, sizeof *job);
    if (!job) exit(1);
    for (int r = 0; r < ROUNDS; r++) {
        job->rounds[r].n = r < 12 ? (size_t)r : (size_t)(r * 89 % (ITEMS + 1));
        job->rounds[r].grain = r % 11 == 10 ? 2 * ITEMS : (size_t)(r % 9 + 1);
        job->rounds[r].cost = r % 3 == 0 ? 0.0 : 1e3 * r;
    }
    return job;
}

/* Checks a run: `count` workers (0: any number up to `most`) have done all items once. */
static void check_job(struct job *job, int count, int most, const char *what)
{
    int n = job->count, others = 0;
    CHECK_MSG(n >= 1 && n <= most && (count == 0 || n == count), "%s: %d workers, not %d of %d",
              what, n, count, most);
    for (int i = 0; i < MOST_WORKERS; i++) others += job->seen[i] != (i < n);
    CHECK_MSG(others == 0, "%s: %d workers ran not at all, or twice, or without being asked", what,
              others);
    CHECK_MSG(job->early == 0, "%s: a barrier was left early %d times", what, job->early);
    CHECK_MSG(job->unseen == 0, "%s: %d values were not seen after a barrier", what, job->unseen);
    for (int r = 0; r < ROUNDS; r++) {
        int wrong = 0;
        for (size_t i = 0; i < ITEMS; i++)
            wrong += job->rounds[r].taken[i] != (i < job->rounds[r].n);
        CHECK_MSG(wrong == 0, "%s, n=%zu, grain=%zu: %d items were not taken exactly once", what,
                  job->rounds[r].n, job->rounds[r].grain, wrong);
    }
    free(job);
}

static void check_run(struct rf_team *team, int count, const char *what)
{
    struct job *job = new_job();
    int size = rf_team_size(team);
    rf_team_run(team, count, share_rounds, job);
    check_job(job, count == 0 ? rf_team_places(team) : count < size ? count : size, size, what);
}

static void check_pass(struct rf_team *team, struct rf_split *split, int rows, const char *what)
{
    struct job *job = new_job();
    rf_team_run_split(team, split, rows, share_rounds, job);
    check_job(job, 0, rf_team_size(team), what);
}

/* ---- speeds ---- */

static const struct speeds {
    const char *name;
    double of[MOST_WORKERS];
} believed[] = {
    {"equal speeds", {1, 1, 1, 1, 1, 1, 1, 1}},
    {"speeds far apart", {1e9, 1, 1e-9, 1e9, 1, 1e-9, 1e9, 1}},
    {"a last worker that does all", {1e-30, 1e-30, 1e-30, 1e-30, 1e-30, 1e-30, 1e-30, 1e30}},
    {"a first worker that does all", {1e12, 0, 0, 0, 0, 0, 0, 0}},
    {"a ladder", {8, 7, 6, 5, 4, 3, 2, 1}},
};

static struct rf_split *split_with(const struct rf_team *team, const struct speeds *speeds)
{
    struct rf_split *split;
    struct rf_error error = {.text = ""};
    int size = rf_team_size(team);
    if (rf_split_new(&split, size, size, NULL, &rf_system_allocator, &error)) exit(1);
    for (int kind = 0; kind < RF_WORK_KINDS; kind++)
        for (int i = 0; i < size; i++) split->kinds[kind].speed[i] = speeds->of[i];
    return split;
}

static void check_speeds(struct rf_team *team, const struct speeds *speeds)
{
    static const int rows[] = {1, 4, 64, 4, 1};
    struct rf_split *split = split_with(team, speeds);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char what[128];
        snprintf(what, sizeof what, "%d workers, %s, a pass of %d rows", rf_team_size(team),
                 speeds->name, rows[i]);
        check_pass(team, split, rows[i], what);
    }
    for (int kind = 0; kind < RF_WORK_KINDS; kind++)
        for (int i = 0; i < rf_team_size(team); i++) {
            double speed = split->kinds[kind].speed[i];
            CHECK_MSG(isfinite(speed) && speed >= 0.0, "%s: worker %d has learnt the speed %g",
                      speeds->name, i, speed);
        }
    rf_split_free(split);
}

static void check_team(int threads)
{
    struct crew crew = crew_open(threads);
    char what[64];
    CHECK(rf_team_size(crew.team) <= threads);
    CHECK(rf_team_places(crew.team) >= 1 && rf_team_places(crew.team) <= rf_team_size(crew.team));
    for (int count = 0; count <= threads + 1; count++) {
        snprintf(what, sizeof what, "%d of %d workers", count, threads);
        check_run(crew.team, count, what);
    }
    for (size_t i = 0; i < sizeof believed / sizeof *believed; i++)
        check_speeds(crew.team, &believed[i]);
    crew_close(&crew);
}

/* ---- the order of runs ---- */

static void check_counts_in_turn(void)
{
    static const int counts[] = {1, 3, 2, 8, 1, 8, 2, 3, 0, 5};
    struct crew crew = crew_open(MOST_WORKERS);
    for (int turn = 0; turn < 20; turn++) {
        char what[64];
        int count = counts[turn % 10];
        snprintf(what, sizeof what, "turn %d, %d workers", turn, count);
        check_run(crew.team, count, what);
    }
    crew_close(&crew);
}

/* Each worker does at least one item in every run; runs follow without a pause. */
struct tally {
    _Atomic int workers, items;
};

static void count_items(void *argument, struct rf_worker *worker)
{
    struct tally *tally = argument;
    struct rf_share share;
    size_t begin, end;
    atomic_fetch_add(&tally->workers, 1);
    rf_share_begin(&share, worker, 64, 2, 1.0);
    while (rf_share_next(&share, &begin, &end)) atomic_fetch_add(&tally->items, (int)(end - begin));
}

static void check_short_runs(void)
{
    enum { RUNS = 2000 };
    struct crew crew = crew_open(4);
    struct tally tally = {0};
    int wanted = 0, size = rf_team_size(crew.team);
    for (int i = 0; i < RUNS; i++) {
        int count = i % 7 == 0 ? 1 : i % size + 1;
        wanted += count;
        rf_team_run(crew.team, count, count_items, &tally);
    }
    CHECK_INT(tally.workers, wanted);
    CHECK_INT(tally.items, RUNS * 64);
    for (int i = 0; i < RUNS; i++)
        rf_team_run_split(crew.team, crew.split,
                          i % 3 == 0   ? 1
                          : i % 3 == 1 ? 5
                                       : 40,
                          count_items, &tally);
    CHECK_INT(tally.items, 2 * RUNS * 64);
    crew_close(&crew);
}

/* ---- many items ---- */

struct range {
    size_t n, grain;
    _Atomic size_t length,
        sum;             /* the items handed out: their number, and the sum of their indices */
    _Atomic int outside; /* pieces */
};

static void add_pieces(void *argument, struct rf_worker *worker)
{
    struct range *range = argument;
    struct rf_share share;
    size_t begin, end;
    rf_share_begin(&share, worker, range->n, range->grain, 0.0);
    while (rf_share_next(&share, &begin, &end)) {
        if (begin >= end || end > range->n) atomic_fetch_add(&range->outside, 1);
        atomic_fetch_add(&range->length, end - begin);
        atomic_fetch_add(&range->sum, (end - begin) * (begin + end - 1) / 2);
    }
}

/* More items than a float can count. */
static void check_large(void)
{
    static const size_t sizes[] = {(1 << 24) - 1, (1 << 24) + 1, 33554467, 1000000007};
    static const size_t grains[] = {1, 7, 4096};
    struct crew crew = crew_open(MOST_WORKERS);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t g = 0; g < sizeof grains / sizeof *grains; g++)
            for (size_t b = 0; b < sizeof believed / sizeof *believed; b++) {
                struct rf_split *split = split_with(crew.team, &believed[b]);
                struct range range = {.n = sizes[s], .grain = grains[g]};
                rf_team_run_split(crew.team, split, 1, add_pieces, &range);
                CHECK_MSG(range.outside == 0 && range.length == range.n &&
                              range.sum == range.n * (range.n - 1) / 2,
                          "%s: of %zu items, grain %zu, %zu were handed out", believed[b].name,
                          range.n, range.grain, (size_t)range.length);
                rf_split_free(split);
            }
    crew_close(&crew);
}

/* ---- who gets what ---- */

enum { GRAIN = 8, GRAINS = 1000 };

struct pieces {
    size_t first[MOST_WORKERS]; /* items of each worker's first piece */
    int n[MOST_WORKERS];
};

static void note_pieces(void *argument, struct rf_worker *worker)
{
    struct pieces *pieces = argument;
    struct rf_share share;
    size_t begin, end;
    rf_share_begin(&share, worker, GRAINS * GRAIN, GRAIN, 0.0);
    for (int n = 0; rf_share_next(&share, &begin, &end); n++) {
        if (n == 0) pieces->first[worker->index] = end - begin;
        pieces->n[worker->index] = n + 1;
    }
}

/* The pieces of one pass: the first with this split, so that all workers take part. */
static struct pieces pieces_of(struct rf_team *team, const struct speeds *speeds, int rows)
{
    struct pieces pieces = {0};
    struct rf_split *split = split_with(team, speeds);
    rf_team_run_split(team, split, rows, note_pieces, &pieces);
    rf_split_free(split);
    return pieces;
}

static void check_shares(void)
{
    static const struct {
        int rows;
        double dealt; /* the rest is the tail */
    } passes[] = {{1, 15.0 / 16}, {16, 15.0 / 16}, {64, 0.5}};
    const struct speeds *ladder = &believed[4];
    struct crew crew = crew_open(4);
    int size = rf_team_size(crew.team);
    double sum = 0.0;
    for (int i = 0; i < size; i++) sum += ladder->of[i];
    for (size_t p = 0; p < sizeof passes / sizeof *passes && size > 1; p++) {
        struct pieces pieces = pieces_of(crew.team, ladder, passes[p].rows);
        for (int i = 0; i < size; i++) {
            double wanted = passes[p].dealt * GRAINS * GRAIN * ladder->of[i] / sum;
            CHECK_MSG(fabs((double)pieces.first[i] - wanted) <= 2 * GRAIN,
                      "of %d rows worker %d of %d is dealt %zu items, not %.0f", passes[p].rows, i,
                      size, pieces.first[i], wanted);
        }
    }
    /* Equally: one piece for each; of a pass, for each that has a core. */
    rf_team_deal_equally(crew.team, 1);
    struct pieces pieces = pieces_of(crew.team, ladder, 1);
    for (int i = 0; i < size; i++) CHECK_INT(pieces.n[i], i < rf_team_places(crew.team));
    pieces = (struct pieces){0};
    rf_team_run(crew.team, size, note_pieces, &pieces);
    for (int i = 0; i < size; i++) {
        CHECK_INT(pieces.n[i], 1);
        CHECK(labs((long)pieces.first[i] - GRAINS * GRAIN / size) <= 2 * GRAIN);
    }
    check_pass(crew.team, crew.split, 1, "dealt equally");
    rf_team_deal_equally(crew.team, 0);
    pieces = pieces_of(crew.team, ladder, 1);
    if (size > 1) CHECK(pieces.first[0] > pieces.first[1]);
    crew_close(&crew);
}

/* Worker i takes several times as long, always or in alternate periods. */
static void check_slowed(void)
{
    struct crew crew = crew_open(4);
    int size = rf_team_size(crew.team);
    for (int i = 0; i < size; i++) {
        rf_team_slow(crew.team, i, 5.0, i % 2 ? 1e-3 : 0.0);
        check_run(crew.team, size, "slowed");
        check_pass(crew.team, crew.split, 1, "slowed, one row");
        check_pass(crew.team, crew.split, 64, "slowed, many rows");
        rf_team_deal_equally(crew.team, 1);
        check_pass(crew.team, crew.split, 1, "slowed, dealt equally");
        rf_team_deal_equally(crew.team, 0);
        if (i > 0) rf_team_slow(crew.team, i - 1, 1.0, 0.0);
    }
    rf_team_slow(crew.team, size - 1, 1.0, 0.0);
    check_run(crew.team, size, "no longer slowed");
    crew_close(&crew);
}

/* Work with a cost teaches speeds, in units of the cost; work without leaves them unchanged. */
static void check_learning(void)
{
    static const struct speeds ones = {"ones", {1, 1, 1, 1, 1, 1, 1, 1}};
    struct crew crew = crew_open(2);
    struct rf_split *split = split_with(crew.team, &ones);
    struct range range = {.n = 1000, .grain = 1};
    rf_team_run_split(crew.team, split, 4, add_pieces, &range);
    for (int i = 0; i < rf_team_size(crew.team); i++)
        CHECK(split->kinds[RF_WORK_FEW].speed[i] == 1.0);
    struct tally tally = {0};
    rf_team_run_split(crew.team, split, 4, count_items, &tally);
    CHECK(split->kinds[RF_WORK_FEW].speed[0] > 1.0); /* items a second */
    CHECK(split->kinds[RF_WORK_ONE].speed[0] == 1.0);
    CHECK(split->kinds[RF_WORK_MANY].speed[0] == 1.0);
    rf_split_free(split);
    crew_close(&crew);
}

int main(void)
{
    static const int sizes[] = {1, 2, 3, 8};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check_team(sizes[i]);
    check_counts_in_turn();
    check_short_runs();
    check_large();
    check_shares();
    check_slowed();
    check_learning();
    return check_result();
}
