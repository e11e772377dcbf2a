/* Measures the gain of measured shares: passes of a model with slowed workers, or with a process
 * that occupies a core. They are compared with equal shares and with the sum of the workers'
 * speeds. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/handles.h"
#include "base/median.h"
#include "cpu/cpu.h"
#include "platform/clock.h"

enum { MAX_SLOW = 16, MAX_CASES = 16, MAX_ROWS = 8, CONTEXT = 64, BARRIERS = 100000 };

struct slow {
    int worker;
    double factor, period;
};

/* The disturbances of the workers at the same time. */
struct disturbance {
    char name[80];
    struct slow slow[MAX_SLOW];
    int n_slow, busy_cpu; /* -1: none */
};

struct options {
    const char *model, *weights, *cores;
    int threads, rounds, rows[MAX_ROWS], n_rows;
    double seconds;
    struct disturbance cases[MAX_CASES];
    int n_cases;
};

static const char usage[] =
    "Usage: bench_split MODEL [options]\n"
    "\n"
    "  --case WHAT      a disturbance; may be given several times. I:FACTOR slows worker I down "
    "by\n"
    "                   FACTOR, and I:FACTOR:SECONDS does so during alternate half-periods of\n"
    "                   SECONDS; several workers are separated by commas. cpuN keeps CPU N busy\n"
    "                   with another process. Default: 1:2  1:4  1:3:0.2  cpuN of the last CPU\n"
    "  --rows N         passes over N rows (several times; default: 1, 8 and 256)\n"
    "  --seconds S      of each measurement (default 1)\n"
    "  --rounds N       rounds of measurement; medians are shown (default 5)\n"
    "  --weights W --threads N --cores C    as for riffle\n";

static int parse_case(struct disturbance *to, const char *text)
{
    *to = (struct disturbance){.busy_cpu = -1};
    snprintf(to->name, sizeof to->name, "%s", text);
    if (sscanf(text, "cpu%d", &to->busy_cpu) == 1) return 0;
    for (int used = 0; *text && to->n_slow < MAX_SLOW; text += used + (text[used] == ',')) {
        struct slow *slow = &to->slow[to->n_slow++];
        if (sscanf(text, "%d:%lf%n", &slow->worker, &slow->factor, &used) < 2) return -1;
        int more = 0;
        if (sscanf(text + used, ":%lf%n", &slow->period, &more) == 1) used += more;
        if (slow->worker < 0 || slow->factor < 1.0 || slow->period < 0.0 ||
            (text[used] && text[used] != ','))
            return -1;
    }
    return to->n_slow ? 0 : -1;
}

static int parse(struct options *options, int argc, char **argv)
{
    *options = (struct options){.rounds = 5, .seconds = 1.0};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (name[0] != '-' && !options->model) {
            options->model = name;
            continue;
        }
        if (!value) return -1;
        i++;
        if (strcmp(name, "--case") == 0 && options->n_cases < MAX_CASES) {
            if (parse_case(&options->cases[options->n_cases++], value)) return -1;
        } else if (strcmp(name, "--rows") == 0 && options->n_rows < MAX_ROWS) {
            options->rows[options->n_rows++] = atoi(value);
        } else if (strcmp(name, "--seconds") == 0) {
            options->seconds = atof(value);
        } else if (strcmp(name, "--rounds") == 0) {
            options->rounds = atoi(value);
        } else if (strcmp(name, "--weights") == 0) {
            options->weights = value;
        } else if (strcmp(name, "--threads") == 0) {
            options->threads = atoi(value);
        } else if (strcmp(name, "--cores") == 0) {
            options->cores = value;
        } else {
            return -1;
        }
    }
    if (options->n_rows == 0) {
        const int rows[] = {1, 8, 256};
        for (int i = 0; i < 3; i++) options->rows[options->n_rows++] = rows[i];
    }
    if (options->n_cases == 0) {
        char busy[32];
        snprintf(busy, sizeof busy, "cpu%ld", sysconf(_SC_NPROCESSORS_ONLN) - 1);
        const char *const usual[] = {"1:2", "1:4", "1:3:0.2", busy};
        for (int i = 0; i < 4; i++) parse_case(&options->cases[options->n_cases++], usual[i]);
    }
    return options->model && options->rounds > 0 && options->seconds > 0.0 ? 0 : -1;
}

static pid_t keep_busy(int cpu)
{
    fflush(NULL);
    pid_t child = fork();
    if (child != 0) return child;
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET((size_t)cpu, &mask);
    sched_setaffinity(0, sizeof mask, &mask);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (volatile unsigned long i = 0;; i++) {
    }
}

/* The sum of the workers' speeds, as a share of their undisturbed sum. */
static double ideal(const struct disturbance *what, int workers)
{
    double sum = workers;
    for (int i = 0; i < what->n_slow; i++) {
        double lost = 1.0 - 1.0 / what->slow[i].factor;
        if (what->slow[i].worker < workers) sum -= what->slow[i].period > 0.0 ? lost / 2 : lost;
    }
    /* The scheduler is fair to the other process. */
    return (what->busy_cpu >= 0 ? sum - 0.5 : sum) / workers;
}

static struct rf_team *team_of(const riffle_session *session)
{
    return ((struct cpu_queue *)session->inner->queue)->team;
}

static int time_passes(riffle_session *session, int rows, int n, double *seconds,
                       struct rf_error *error)
{
    return rf_sequence_time_passes(session->inner->sequence, session->inner->view, rows, CONTEXT, n,
                                   seconds, error);
}

/* Passes per second, for about so long. */
static double passes(riffle_session *session, int rows, double seconds, struct rf_error *error)
{
    double took, begin = rf_clock_seconds(), now = begin;
    int n = 0;
    do {
        if (time_passes(session, rows, 1, &took, error) != 0) return -1.0;
        now = rf_clock_seconds();
        n++;
    } while (now - begin < seconds);
    return n / (now - begin);
}

static double disturbed(riffle_session *session, const struct disturbance *what, int equally,
                        int rows, double seconds, struct rf_error *error)
{
    pid_t child = what && what->busy_cpu >= 0 ? keep_busy(what->busy_cpu) : 0;
    rf_team_deal_equally(team_of(session), equally);
    for (int i = 0; what && i < what->n_slow; i++)
        rf_team_slow(team_of(session), what->slow[i].worker, what->slow[i].factor,
                     what->slow[i].period);
    double rate = passes(session, rows, seconds, error);
    for (int i = 0; what && i < what->n_slow; i++)
        rf_team_slow(team_of(session), what->slow[i].worker, 1.0, 0.0);
    rf_team_deal_equally(team_of(session), 0);
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    return rate;
}

static int measure(riffle_session *session, const struct options *options, int rows,
                   const struct disturbance *what, struct rf_error *error)
{
    enum { PLAIN, EQUAL, MEASURED, WAYS };
    double *rates[WAYS], middle[WAYS];
    int code = 0;
    for (int way = 0; way < WAYS; way++)
        rates[way] = calloc((size_t)options->rounds, sizeof(double));
    for (int round = 0; round < options->rounds && !code; round++)
        for (int way = 0; way < WAYS && !code; way++) {
            /* Forget the shares learned under the previous disturbance. */
            if (way == PLAIN && passes(session, rows, options->seconds, error) < 0.0)
                code = error->code;
            if (code) break;
            rates[way][round] = disturbed(session, way == PLAIN ? NULL : what, way == EQUAL, rows,
                                          options->seconds, error);
            if (rates[way][round] < 0.0) code = error->code;
        }
    for (int way = 0; way < WAYS; way++) {
        middle[way] = rf_median(rates[way], (size_t)options->rounds);
        free(rates[way]);
    }
    if (code) return code;
    double part = ideal(what, rf_team_places(team_of(session))), best = part * middle[PLAIN];
    printf("%5d  %-16s %9.2f %8.1f %% %12.1f %% %14.1f %%\n", rows, what->name, middle[PLAIN],
           100.0 * part, 100.0 * middle[EQUAL] / best, 100.0 * middle[MEASURED] / best);
    fflush(stdout);
    return 0;
}

static void meet(void *argument, struct rf_worker *worker)
{
    int n = *(const int *)argument;
    for (int i = 0; i < n; i++) rf_team_barrier(worker);
}

static int barriers(riffle_session *session, struct rf_error *error)
{
    int n = BARRIERS, few = 20;
    double begin = rf_clock_seconds(), pass[20];
    rf_team_run(team_of(session), 0, meet, &n);
    double each = (rf_clock_seconds() - begin) / BARRIERS;
    int code = time_passes(session, 1, few, pass, error);
    if (code) return code;
    uint64_t before = rf_team_barriers(team_of(session));
    code = time_passes(session, 1, 1, &begin, error);
    double count = (double)(rf_team_barriers(team_of(session)) - before),
           usual = rf_median(pass, (size_t)few);
    printf("barriers: %.0f ns each, %.0f in a pass over one row: %.2f %% of its %.2f ms\n\n",
           each * 1e9, count, 100.0 * each * count / usual, usual * 1e3);
    return code;
}

static int check_workers(riffle_session *session, const struct options *options,
                         struct rf_error *error)
{
    int size = rf_team_size(team_of(session));
    for (int c = 0; c < options->n_cases; c++)
        for (int i = 0; i < options->cases[c].n_slow; i++)
            if (options->cases[c].slow[i].worker >= size)
                return rf_fail(error, RF_ERR_ARGUMENT, "--case %s: the last worker here is %d",
                               options->cases[c].name, size - 1);
    return 0;
}

static int run(riffle_session *session, const struct options *options, struct rf_error *error)
{
    int code = check_workers(session, options, error);
    if (code) return code;
    /* Read it once, so that later passes do not include it. */
    int32_t text[CONTEXT] = {0};
    if (riffle_prefill(session, text, CONTEXT) != 0)
        return rf_fail(error, RF_ERR_ARGUMENT, "%s", riffle_last_error());
    printf("%s, %d workers\n", options->model, rf_team_places(team_of(session)));
    code = barriers(session, error);
    printf(" rows  disturbance      passes/s     ideal   equal shares   measured shares    (of the "
           "ideal)\n");
    for (int r = 0; r < options->n_rows && !code; r++)
        for (int c = 0; c < options->n_cases && !code; c++)
            code = measure(session, options, options->rows[r], &options->cases[c], error);
    return code;
}

int main(int argc, char **argv)
{
    struct options options;
    if (parse(&options, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    riffle_model_options model_options;
    riffle_model_options_init(&model_options, sizeof model_options);
    model_options.weights = options.weights;
    model_options.threads = options.threads;
    model_options.cores = options.cores;
    model_options.chain = "none";
    riffle_session_options session_options;
    riffle_session_options_init(&session_options, sizeof session_options);
    session_options.n_ctx = 512;
    session_options.threads = options.threads;
    riffle_model *model = NULL;
    riffle_session *session = NULL;
    struct rf_error error = {0};
    int code = riffle_model_open(&model, options.model, &model_options);
    if (code == 0) code = riffle_session_open(&session, model, &session_options);
    if (code != 0) fprintf(stderr, "bench_split: %s\n", riffle_last_error());
    if (code == 0) {
        code = run(session, &options, &error);
        if (code) fprintf(stderr, "bench_split: %s\n", error.text);
    }
    riffle_session_close(session);
    riffle_model_close(model);
    return code ? 1 : 0;
}
