/* The split as arithmetic: no threads, and a clock that is a variable. The machines here are
 * functions that return how long a pass takes. */
#include <math.h>
#include <stdlib.h>

#include "api/meter.h"
#include "platform/memory.h"
#include "platform/split.h"

enum { WORKERS = 8 };

static struct rf_split *new_split(int workers, int places, const struct rf_split *first)
{
    struct rf_split *split;
    struct rf_error error = {.text = ""};
    if (rf_split_new(&split, workers, places, first, &rf_system_allocator, &error)) exit(1);
    return split;
}

/* Numbers in [0, 1) that are the same in every run. */
static double random_number(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

/* ---- beginnings ---- */

static void check_new(void)
{
    struct rf_split *split = new_split(5, 3, NULL);
    for (int kind = 0; kind < RF_WORK_KINDS; kind++) {
        CHECK_INT(split->kinds[kind].active, 3);
        for (int i = 0; i < 5; i++) CHECK(split->kinds[kind].speed[i] == 1.0);
    }
    for (int rows = 1; rows <= 100; rows += 9) CHECK_INT(rf_split_workers(split, rows, 0.0), 3);

    split->kinds[RF_WORK_ONE].active = 2;
    for (int i = 0; i < 5; i++) split->kinds[RF_WORK_MANY].speed[i] = i + 1.0;
    struct rf_split *next = new_split(5, 3, split);
    CHECK_INT(next->kinds[RF_WORK_ONE].active, 2);
    CHECK_INT(next->kinds[RF_WORK_FEW].active, 3);
    for (int i = 0; i < 5; i++) CHECK(next->kinds[RF_WORK_MANY].speed[i] == i + 1.0);
    CHECK(next->kinds[RF_WORK_MANY].speed != split->kinds[RF_WORK_MANY].speed);
    rf_split_free(next);
    next = new_split(5, 1, split); /* the same team where fewer cores are left to it */
    for (int kind = 0; kind < RF_WORK_KINDS; kind++) CHECK_INT(next->kinds[kind].active, 1);
    rf_split_free(next);
    rf_split_free(split);
    rf_split_free(NULL);

    CHECK_INT(rf_work_of(1), RF_WORK_ONE);
    CHECK_INT(rf_work_of(2), RF_WORK_FEW);
    CHECK_INT(rf_work_of(RF_FEW_ROWS), RF_WORK_FEW);
    CHECK_INT(rf_work_of(RF_FEW_ROWS + 1), RF_WORK_MANY);

    for (size_t n = 1; n <= 3; n++) {
        struct meter meter = {.fail_at = n};
        const struct rf_allocator allocator = {meter_alloc, meter_release, &meter};
        struct rf_error error = {.text = ""};
        split = NULL;
        CHECK_INT(rf_split_new(&split, 5, 3, NULL, &allocator, &error), n <= 2 ? RF_ERR_MEMORY : 0);
        CHECK((split != NULL) == (n > 2));
        rf_split_free(split);
        check_all_released(&meter, n, "rf_split_new");
    }
}

static void check_neighbours(void)
{
    for (int places = 1; places <= 130; places += places < 20 ? 1 : 37) {
        struct rf_split *split = new_split(places + 3, places, NULL);
        int active = places, steps = 0;
        for (; active > 1 && steps < 100; steps++) {
            int next = rf_split_neighbour(split, active, 0);
            CHECK(next < active && next >= 1);
            active = next;
        }
        CHECK_INT(active, 1);
        CHECK_INT(rf_split_neighbour(split, 1, 0), 1);
        for (; active < places && steps < 200; steps++) {
            int next = rf_split_neighbour(split, active, 1);
            CHECK(next > active && next <= places);
            active = next;
        }
        CHECK_INT(active, places);
        CHECK_INT(rf_split_neighbour(split, places, 1), places);
        CHECK(steps <= 40);
        rf_split_free(split);
    }
}

static const int everyone[WORKERS] = {0, 1, 2, 3, 4, 5, 6, 7};

static void check_shares(void)
{
    static const double speeds[][WORKERS] = {
        {1, 1, 1, 1, 1, 1, 1, 1},
        {3, 1, 4, 1, 5, 9, 2, 6},
        {1e-300, 1, 1e12, 1e-9, 1, 1e-300, 1e12, 1e-300},
        {0, 0, 1, 0, 0, 0, 2, 0},
        {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1},
        {1, 0, 0, 0, 0, 0, 0, 0},
    };
    for (size_t s = 0; s < sizeof speeds / sizeof *speeds; s++)
        for (int count = 1; count <= WORKERS; count++) {
            double copy[WORKERS], sum = 0.0;
            float shares[WORKERS];
            for (int i = 0; i < WORKERS; i++) copy[i] = speeds[s][i];
            for (int i = 0; i < count; i++) sum += copy[i];
            if (sum <= 0.0) continue;
            const struct rf_split_kind kind = {.active = count, .speed = copy};
            rf_split_shares(&kind, everyone, count, shares);
            for (int i = 0; i < count; i++)
                CHECK_MSG(fabs(shares[i] - copy[i] / sum) < 1e-6,
                          "speeds %zu: worker %d of %d gets %g, not %g", s, i, count,
                          (double)shares[i], copy[i] / sum);
            /* The last worker, alone and before the first. */
            const int some[] = {count - 1, 0};
            if (!(copy[0] > 0.0 && copy[count - 1] > 0.0)) continue;
            rf_split_shares(&kind, some, 1, shares);
            CHECK(shares[0] == 1.0f);
            rf_split_shares(&kind, some, 2, shares);
            CHECK(fabs((double)shares[0] - copy[count - 1] / (copy[0] + copy[count - 1])) < 1e-6);
        }
}

/* ---- speeds ---- */

/* Advances virtual time in steps, after each of which the shares are corrected. speeds[i] is worker
 * i's. */
static void let_work(struct rf_split_kind *kind, const double *speeds, double step, double seconds)
{
    for (double t = 0.0; t < seconds - step / 2; t += step)
        for (int i = 0; i < kind->active; i++)
            rf_split_learn(kind, i, speeds[i] * step, step, step);
}

/* The greatest relative error of a worker's share. */
static double share_error(const struct rf_split_kind *kind, const double *speeds)
{
    float shares[WORKERS];
    double worst = 0.0, sum = 0.0;
    rf_split_shares(kind, everyone, kind->active, shares);
    for (int i = 0; i < kind->active; i++) sum += speeds[i];
    for (int i = 0; i < kind->active; i++) {
        worst = fmax(worst, fabs((double)shares[i] / (speeds[i] / sum) - 1.0));
    }
    return worst;
}

static void check_learning(void)
{
    static const double steps[] = {1e-4, 5e-4, 3e-3};
    const double equal[] = {9e9, 9e9, 9e9, 9e9}, unlike[] = {9e9, 5e9, 4e9, 10e9},
                 held_up[] = {9e9, 1.25e9, 4e9, 10e9};
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        struct rf_split *split = new_split(4, 4, NULL);
        struct rf_split_kind *kind = &split->kinds[RF_WORK_ONE];
        /* Speeds begin in another unit, which must not matter. */
        let_work(kind, unlike, steps[s], 0.012);
        CHECK_MSG(share_error(kind, unlike) < 0.01, "from nothing: %g", share_error(kind, unlike));
        let_work(kind, equal, steps[s], 0.020);
        CHECK_MSG(share_error(kind, equal) < 0.2, "unlike to equal: %g", share_error(kind, equal));
        let_work(kind, unlike, steps[s], 0.020);
        CHECK_MSG(share_error(kind, unlike) < 0.2, "equal to unlike: %g",
                  share_error(kind, unlike));
        let_work(kind, unlike, steps[s], 0.200);
        CHECK_MSG(share_error(kind, unlike) < 0.01, "still unlike: %g", share_error(kind, unlike));
        /* Worker 1 is disturbed for a while. */
        for (int turn = 0; turn < 3; turn++) {
            let_work(kind, held_up, steps[s], 0.020);
            CHECK_MSG(share_error(kind, held_up) < 0.2, "disturbed: %g",
                      share_error(kind, held_up));
            let_work(kind, unlike, steps[s], 0.020);
            CHECK_MSG(share_error(kind, unlike) < 0.2, "left alone: %g", share_error(kind, unlike));
        }
        rf_split_free(split);
    }
    /* One correction after a long time suffices. */
    struct rf_split *split = new_split(4, 4, NULL);
    let_work(&split->kinds[RF_WORK_FEW], unlike, 1.0, 1.0);
    CHECK(share_error(&split->kinds[RF_WORK_FEW], unlike) < 1e-6);
    CHECK(split->kinds[RF_WORK_ONE].speed[3] == 1.0);
    rf_split_free(split);
}

/* Small differences from pass to pass hardly move the shares. */
static void check_noisy_speeds(void)
{
    static const double speeds[] = {9e9, 5e9, 4e9, 10e9};
    const double step = 5e-4;
    struct rf_split *split = new_split(4, 4, NULL);
    struct rf_split_kind *kind = &split->kinds[RF_WORK_ONE];
    uint64_t random = 1;
    double worst = 0.0;
    for (int i = 0; i < 4000; i++) {
        for (int w = 0; w < 4; w++)
            rf_split_learn(kind, w,
                           speeds[w] * step * (1.0 + 0.1 * (2 * random_number(&random) - 1)), step,
                           step);
        if (i > 200) worst = fmax(worst, share_error(kind, speeds));
    }
    CHECK_MSG(worst < 0.05, "with times that differ by 10 %%, shares do by %.1f %%", 100 * worst);
    rf_split_free(split);
}

/* The assumed speed of a worker without work rises until it is that of the fastest. */
static void check_forgetting(void)
{
    const double step = 5e-4;
    static const double beginnings[] = {8e6, 1.0, 0.0};
    for (size_t b = 0; b < sizeof beginnings / sizeof *beginnings; b++) {
        struct rf_split *split = new_split(4, 4, NULL);
        struct rf_split_kind *kind = &split->kinds[RF_WORK_ONE];
        kind->speed[0] = kind->speed[1] = 8e9;
        kind->speed[2] = 4e9;
        double last = kind->speed[3] = beginnings[b];
        for (int i = 1; i <= 2000; i++) {
            rf_split_learn(kind, 3, 0.0, 0.0, step);
            CHECK(kind->speed[3] >= last && kind->speed[3] <= 8e9);
            last = kind->speed[3];
            if (i * step <= 0.05) CHECK(last < 1e8); /* not at once */
            if (i * step >= 0.4) CHECK(last > 7.9e9);
        }
        CHECK(kind->speed[0] == 8e9 && kind->speed[2] == 4e9);
        /* Then it is measured again. */
        for (int i = 0; i < 60; i++) rf_split_learn(kind, 3, 4e9 * step, step, step);
        CHECK(fabs(kind->speed[3] / 4e9 - 1.0) < 0.05);
        /* The fastest worker keeps its speed. */
        kind->speed[3] = 1e10;
        rf_split_learn(kind, 3, 0.0, 0.0, step);
        CHECK(kind->speed[3] == 1e10);
        rf_split_free(split);
    }
}

/* A worker too slow for a single grain gets one now and then, and the others hardly wait for it.
 * Shares are whole grains here, rounded down; the first three workers do the rest. */
static void check_slow_worker(double slowness)
{
    enum { GRAINS = 64 };
    const double fast = 1e6, speeds[] = {fast, fast, fast, fast / slowness}; /* grains a second */
    struct rf_split *split = new_split(4, 4, NULL);
    struct rf_split_kind *kind = &split->kinds[RF_WORK_ONE];
    double now = 0.0, since = 0.0, work[4] = {0}, busy[4] = {0};
    int asked = 0, idle = 0, is_asked = 0;
    long grains = 0;
    while (now < 2.0) {
        float shares[4];
        double longest = 0.0;
        int left = GRAINS;
        rf_split_shares(kind, everyone, 4, shares);
        for (int i = 0; i < 4; i++) {
            int n = (int)(GRAINS * shares[i] + 1e-4f);
            left -= n;
            work[i] += n;
            busy[i] += n / speeds[i];
            longest = fmax(longest, n / speeds[i]);
            if (i < 3) continue;
            asked += n > 0 && !is_asked;
            idle += n == 0;
            is_asked = n > 0;
        }
        grains += GRAINS;
        now += longest + left / (3 * fast);
        if (now - since < 5e-4) continue;
        for (int i = 0; i < 4; i++) {
            rf_split_learn(kind, i, work[i], busy[i], now - since);
            work[i] = busy[i] = 0.0;
        }
        since = now;
    }
    double over = now / ((double)grains / (3 * fast)) - 1.0;
    CHECK_MSG(asked >= 10 && idle > 1000 && over < 0.1,
              "a worker %g times slower was asked %d times in %.1f s, which costs %.1f %%",
              slowness, asked, now, 100 * over);
    printf("a worker %g times slower: asked %d times in %.1f s, %.1f %% of the time\n", slowness,
           asked, now, 100 * over);
    rf_split_free(split);
}

/* ---- how many workers ---- */

typedef double machine_fn(int workers, int rows, double now);

/* Two workers saturate memory, and further ones disturb them. With more rows all workers pay. */
static double two_for_one_row(int workers, int rows, double now)
{
    static const double one[] = {0, 10, 6, 6.5, 7.2, 8, 9, 10, 11};
    (void)now;
    return 1e-3 * (rows == 1 ? one[workers] : rows * (24.0 / workers + 0.05 * workers));
}

static double all_pay(int workers, int rows, double now)
{
    (void)rows, (void)now;
    return 0.040 / workers;
}

static double all_pay_long(int workers, int rows, double now)
{
    return 25 * all_pay(workers, rows, now);
}

/* Each further worker costs a little. */
static double gentle(int workers, int rows, double now)
{
    static const double ms[] = {0, 10, 6.0, 6.1, 6.25, 6.4, 6.6, 6.75, 7.0};
    (void)rows, (void)now;
    return 1e-3 * ms[workers];
}

/* From the 20th to the 40th second another process takes the last core; passes that use it take
 * twice as long. */
static double disturbed(int workers, int rows, double now)
{
    int is_held_up = now > 20.0 && now < 40.0 && workers == WORKERS;
    return all_pay(workers, rows, now) * (is_held_up ? 2.0 : 1.0);
}

struct life {
    struct rf_split *split;
    machine_fn *machine;
    double now, noise;
    uint64_t random;
    int others; /* one of so many passes has 8 rows; 0: none */
    long n;
};

struct account {
    double over;    /* time beyond that with the best number of workers, relative */
    double at_best; /* share of one-row passes with that number */
    long passes;
};

/* Runs passes until the time `end`. */
static struct account live(struct life *life, double end)
{
    double took = 0.0, shortest = 0.0;
    struct account account = {0};
    long ones = 0, best_ones = 0;
    while (life->now < end) {
        int rows = life->others && ++life->n % life->others == 0 ? 8 : 1, best = 1;
        int workers = rf_split_workers(life->split, rows, life->now);
        CHECK(workers >= 1 && workers <= WORKERS);
        for (int w = 2; w <= WORKERS; w++)
            if (life->machine(w, rows, life->now) < life->machine(best, rows, life->now)) best = w;
        double noise = 1.0 + life->noise * (2 * random_number(&life->random) - 1);
        double seconds = life->machine(workers, rows, life->now) * noise;
        took += seconds;
        shortest += life->machine(best, rows, life->now) * noise;
        ones += rows == 1;
        best_ones += rows == 1 && workers == best;
        account.passes++;
        life->now += seconds;
        rf_split_took(life->split, rows, workers, life->now, seconds);
    }
    account.over = took / shortest - 1.0;
    account.at_best = (double)best_ones / (double)ones;
    return account;
}

/* The number of workers becomes the best one within seconds and stays, at the cost of a few trials.
 */
static void check_steady(const char *name, machine_fn *machine, int others, double settling,
                         double end, int best, double least_at_best, double most_over)
{
    static const double noises[] = {0.0, 0.05, 0.2};
    for (size_t k = 0; k < sizeof noises / sizeof *noises; k++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct life life = {
                new_split(WORKERS, WORKERS, NULL), machine, 0.0, noises[k], seed, others, 0};
            live(&life, settling);
            struct account account = live(&life, end);
            CHECK_MSG(account.at_best >= least_at_best && account.over <= most_over,
                      "%s, noise %.2f, seed %d: %.1f %% of passes had %d workers, it cost %.2f %%",
                      name, noises[k], (int)seed, 100 * account.at_best, best, 100 * account.over);
            if (noises[k] == 0.0) CHECK_INT(life.split->kinds[RF_WORK_ONE].active, best);
            if (seed == 1)
                printf(
                    "%s, noise %.2f: %.1f %% of passes at the best number, trials cost %.2f %%\n",
                    name, noises[k], 100 * account.at_best, 100 * account.over);
            rf_split_free(life.split);
        }
}

static void check_disturbed(double noise)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct life life = {new_split(WORKERS, WORKERS, NULL), disturbed, 0.0, noise, seed, 0, 0};
        struct account calm = live(&life, 20.0);
        live(&life, 22.0);
        struct account held_up = live(&life, 40.0);
        live(&life, 42.0);
        struct account again = live(&life, 60.0);
        CHECK_MSG(calm.at_best > 0.95 && held_up.at_best > 0.9 && again.at_best > 0.95,
                  "noise %.1f: the best number before, while and after a process takes a core: "
                  "%.0f %%, %.0f %%, %.0f %%",
                  noise, 100 * calm.at_best, 100 * held_up.at_best, 100 * again.at_best);
        CHECK(calm.over < 0.02 && held_up.over < 0.04 && again.over < 0.02);
        rf_split_free(life.split);
    }
}

/* Runs passes of 5 ms in which all wait for one worker for the given part of the time. Returns in
 * how many it took part. */
static int wait_for(struct rf_split *split, int held_up, double part, double *now, int passes)
{
    int members[WORKERS], n = 0;
    for (int p = 0; p < passes; p++, *now += 5e-3) {
        int wanted = rf_split_workers(split, 64, *now);
        int count = rf_split_members(split, 64, wanted, *now, members), is_in = 0;
        CHECK(count >= 1 && count <= wanted && members[0] == 0);
        for (int i = 0; i < count; i++) {
            CHECK(i == 0 || members[i] > members[i - 1]);
            is_in |= members[i] == held_up;
            rf_split_waited(&split->kinds[RF_WORK_MANY], members[i],
                            members[i] == held_up ? part * 5e-3 : 0.0, 5e-3);
        }
        n += is_in;
    }
    return n;
}

/* A worker that holds up the others more than its share is worth is left out, for longer each time,
 * and comes back. */
static void check_left_out(void)
{
    struct rf_split *split = new_split(WORKERS, WORKERS, NULL);
    double now = 100.0;
    CHECK_INT(wait_for(split, 3, 0.1, &now, 400), 400); /* less than an eighth: worth it */
    int first = wait_for(split, 3, 0.5, &now, 400), later = wait_for(split, 3, 0.5, &now, 2000);
    CHECK_MSG(first >= 2 && first < 60,
              "held up for half of the time, worker 3 took part in %d of 400 passes", first);
    CHECK_MSG(later >= 2 && later < 60, "and then in %d of 2000", later);
    CHECK(wait_for(split, 3, 0.0, &now, 5000) > 1500); /* at most 16 s after the last time */
    CHECK_INT(wait_for(split, 3, 0.0, &now, 400), 400);
    CHECK_INT(wait_for(split, 0, 0.9, &now, 400), 400); /* the caller is always there */
    int members[WORKERS];
    CHECK_INT(rf_split_members(split, 64, WORKERS, now, members), WORKERS);
    CHECK_INT(rf_split_members(split, 64, 2, now, members), 2);
    rf_split_free(split);

    split = new_split(2, 2, NULL); /* one of two that is there half of the time is still worth it */
    CHECK_INT(wait_for(split, 1, 0.45, &now, 400), 400);
    rf_split_free(split);

    split = new_split(4, 2, NULL); /* workers without a core of their own replace nobody */
    wait_for(split, 1, 0.9, &now, 40);
    CHECK_INT(rf_split_members(split, 64, 2, now, members), 1);
    CHECK_INT(rf_split_members(split, 64, 4, now, members), 3);
    rf_split_free(split);
}

/* A trial during which a worker is left out is ignored; others follow. */
static void check_left_out_in_trial(void)
{
    struct rf_split *split = new_split(4, 4, NULL);
    struct rf_split_kind *kind = &split->kinds[RF_WORK_ONE];
    double now = 100.0;
    int members[WORKERS], trials = 0, was_out = 0;
    for (int i = 0; i < 2000; i++) {
        int workers = rf_split_workers(split, 1, now);
        if (kind->trial && !was_out) {
            was_out = 1;
            kind->late[2] = 0.9;
            CHECK_INT(rf_split_members(split, 1, workers, now, members), 3);
        }
        trials += was_out && kind->trial && kind->trial_passes == 0;
        now += 0.01;
        rf_split_took(split, 1, workers, now, 0.01);
        CHECK(isfinite(kind->next_trial) && isfinite(kind->trial_sum));
    }
    CHECK_MSG(was_out && trials >= 3, "after a worker was left out in a trial there were %d more",
              trials);
    rf_split_free(split);
}

/* Passes with many rows use all workers, without trials. */
static void check_many_rows(void)
{
    struct rf_split *split = new_split(WORKERS, WORKERS, NULL);
    double now = 0.0;
    for (int i = 0; i < 200; i++) {
        CHECK_INT(rf_split_workers(split, 17 + i, now), WORKERS);
        now += 0.5;
        rf_split_took(split, 17 + i, WORKERS, now, 0.5);
    }
    CHECK_INT(split->kinds[RF_WORK_ONE].active, WORKERS);
    rf_split_free(split);
}

/* One worker leaves nothing to try. */
static void check_alone(void)
{
    struct rf_split *split = new_split(1, 1, NULL);
    for (int i = 0; i < 100; i++) {
        CHECK_INT(rf_split_workers(split, 1 + i % 4, i), 1);
        rf_split_took(split, 1 + i % 4, 1, i + 1, 1.0 + i % 3);
    }
    rf_split_free(split);
    /* Workers without a core are not tried. */
    split = new_split(6, 2, NULL);
    double now = 0.0;
    for (int i = 0; i < 1000; i++) {
        int workers = rf_split_workers(split, 1, now);
        CHECK(workers == 1 || workers == 2);
        now += 0.01 / workers;
        rf_split_took(split, 1, workers, now, 0.01 / workers);
    }
    CHECK_INT(split->kinds[RF_WORK_ONE].active, 2);
    rf_split_free(split);
}

/* A worker that has been useless gets a share in a trial that shows what it can do. */
static void check_welcome(void)
{
    struct rf_split *split = new_split(4, 4, NULL);
    struct rf_split_kind *kind = &split->kinds[RF_WORK_ONE];
    kind->active = 2;
    kind->speed[2] = 1e-6;
    double now = 0.0;
    int most = 0;
    for (int i = 0; i < 100; i++) {
        int workers = rf_split_workers(split, 1, now);
        if (workers == 3) CHECK(kind->speed[2] >= 0.5 && kind->speed[2] <= 1.0);
        if (workers > most) most = workers;
        now += 0.01;
        rf_split_took(split, 1, workers, now, 0.01);
    }
    CHECK_INT(most, 3);
    rf_split_free(split);
}

int main(void)
{
    check_new();
    check_neighbours();
    check_shares();
    check_learning();
    check_noisy_speeds();
    check_forgetting();
    check_slow_worker(30);
    check_slow_worker(200);
    check_slow_worker(5000);
    check_steady("two of eight for one row", two_for_one_row, 0, 5.0, 60.0, 2, 0.75, 0.03);
    check_steady("the same among passes of eight rows", two_for_one_row, 4, 5.0, 60.0, 2, 0.75,
                 0.04);
    check_steady("all pay", all_pay, 0, 1.0, 60.0, 8, 0.95, 0.02);
    check_steady("all pay in long passes", all_pay_long, 0, 10.0, 600.0, 8, 0.9, 0.03);
    check_steady("each costs a little", gentle, 0, 10.0, 120.0, 2, 0.2, 0.06);
    check_disturbed(0.0);
    check_disturbed(0.2);
    check_left_out();
    check_left_out_in_trial();
    check_many_rows();
    check_alone();
    check_welcome();
    return check_result();
}
