#define _GNU_SOURCE
/* The cascade over levels that are scripts: what comes out is the target's own text whoever drafts,
 * and a clock that the scripts move shows what the pace makes of good and bad drafters. */
#include "check.h"
#include "platform/memory.h"
#include "speculate/cascade.h"
#include "speculate/pace_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { N_CTX = 700, VOCAB = 50 };

static double clock_seconds;

static double now(void)
{
    return clock_seconds;
}

static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* The target's next token depends on the four before it, so a wrong text goes on wrongly. */
static int32_t truth(const int32_t *text, int32_t n)
{
    uint64_t h = (uint64_t)n;
    for (int32_t i = n > 4 ? n - 4 : 0; i < n; i++) h = mix(h ^ (uint64_t)text[i]);
    return (int32_t)(mix(h) % VOCAB);
}

struct script {
    int id;
    double agrees;    /* the probability of saying what the target says */
    double row_cost;  /* seconds of a pass over one row */
    double more_cost; /* and of each further row, as a share */
    int informative;  /* its confidence tells when it errs */
    int fail_at;      /* the call that fails; 0: none */
    int calls;
    int32_t read[N_CTX + 32], n_read; /* what its cache holds */
    int wrong_keep;
};

static struct rf_choice say(const struct script *script, const int32_t *text, int32_t n)
{
    int32_t token = truth(text, n);
    uint64_t h = mix(mix((uint64_t)script->id * 977 + (uint64_t)n) ^ (uint64_t)token);
    int agrees = (double)(h >> 11) * 0x1p-53 < script->agrees;
    if (!agrees) token = (token + 1 + (int32_t)(mix(h) % (VOCAB - 1))) % VOCAB;
    double confidence = script->informative ? agrees ? 0.95 : 0.3 : script->agrees;
    return (struct rf_choice){token, (float)confidence};
}

static int32_t shared(const struct script *script, const int32_t *text, int32_t n)
{
    int32_t same = 0;
    while (same < n && same < script->n_read && script->read[same] == text[same]) same++;
    return same;
}

static int choose(void *self, struct rf_question *question, struct rf_choice *choices,
                  struct rf_error *error)
{
    struct script *script = self;
    if (++script->calls == script->fail_at) return rf_fail(error, RF_ERR_CANCELLED, "cancelled");
    int32_t same = shared(script, question->text, question->n);
    if (same == question->n) same--;
    int32_t rows = question->n - same + question->n_draft;
    for (int32_t i = 0; i <= question->n_draft; i++)
        choices[i] = say(script, question->text, question->n + i);
    memcpy(script->read, question->text,
           sizeof(int32_t) * (size_t)(question->n + question->n_draft));
    script->n_read = question->n;
    question->rows = rows > RF_PACE_ROWS ? question->n_draft + 1 : rows;
    question->seconds = script->row_cost * (1.0 + script->more_cost * (question->rows - 1));
    clock_seconds +=
        question->seconds + (rows > RF_PACE_ROWS ? script->row_cost * rows / RF_PACE_ROWS : 0.0);
    return 0;
}

static void keep(void *self, const int32_t *path, int32_t n)
{
    struct script *script = self;
    for (int32_t i = 0; i < n; i++) script->wrong_keep |= path[i] != i;
    script->n_read += n;
}

static int32_t unread(void *self, const int32_t *text, int32_t n)
{
    int32_t same = shared(self, text, n);
    return same < n ? n - same : 1;
}

static int32_t draft(void *self, const int32_t *text, int32_t n, int32_t max, struct rf_choice *out,
                     struct rf_error *error)
{
    (void)error;
    struct script *script = self;
    int32_t longer[N_CTX + 32], made = 0;
    memcpy(longer, text, (size_t)n * sizeof *text);
    /* As an n-gram table: nothing to say at most places. */
    if (mix((uint64_t)n / 8) % 3) return 0;
    for (; made < max; made++) {
        out[made] = say(script, longer, n + made);
        longer[n + made] = out[made].token;
    }
    return made;
}

static const struct rf_level_ops judges = {.choose = choose, .keep = keep, .unread = unread};
static const struct rf_level_ops drafters = {.draft = draft};

struct chain {
    struct script scripts[RF_CASCADE_LEVELS];
    struct rf_level levels[RF_CASCADE_LEVELS];
    int32_t n;
    struct rf_cascade *cascade;
};

static void add(struct chain *chain, int is_free, double agrees, double row_cost, double more_cost,
                int informative)
{
    int32_t l = chain->n++;
    chain->scripts[l] =
        (struct script){l + 1, agrees, row_cost, more_cost, informative, 0, 0, {0}, 0, 0};
    chain->levels[l] = (struct rf_level){is_free ? &drafters : &judges, &chain->scripts[l],
                                         row_cost, 0.8, !is_free};
}

static void add_target(struct chain *chain, double row_cost)
{
    add(chain, 0, 1.0, row_cost, 0.012, 1);
}

static void start(struct chain *chain)
{
    struct rf_error error;
    for (int32_t l = 0; l < chain->n; l++)
        chain->levels[l].cost /= chain->scripts[chain->n - 1].row_cost;
    CHECK_INT(rf_cascade_new(&chain->cascade, chain->levels, chain->n, N_CTX, &rf_system_allocator,
                             &error),
              0);
    chain->cascade->now = now;
    rf_pace_begin(&chain->cascade->pace, N_CTX);
}

/* Goes on from text[0 .. *n) to `to` tokens; checks each against the truth. Returns the seconds
 * that it took. */
static double go(struct chain *chain, int32_t *text, int32_t *n, int32_t to)
{
    double before = clock_seconds;
    int failed = 0;
    while (*n < to) {
        struct rf_yield yield[RF_MAX_DRAFT + 1];
        struct rf_error error;
        int32_t made = rf_cascade_round(chain->cascade, text, *n, to - *n, yield, &error);
        if (made < 0) {
            CHECK_INT(made, RF_ERR_CANCELLED);
            CHECK(!failed); /* each script fails once at most */
            failed = 1;
            continue;
        }
        CHECK(made >= 1 && made <= to - *n);
        if (made < 1) break;
        for (int32_t i = 0; i < made; i++) {
            int32_t wanted = truth(text, *n);
            CHECK_INT(yield[i].token, wanted);
            CHECK(yield[i].origin >= 0 && yield[i].origin < chain->n);
            text[(*n)++] = wanted;
        }
        for (int32_t l = 0; l < chain->n; l++) CHECK(!chain->scripts[l].wrong_keep);
    }
    return clock_seconds - before;
}

static int32_t begin_text(int32_t *text)
{
    for (int32_t i = 0; i < 5; i++) text[i] = i;
    return 5;
}

static void finish(struct chain *chain)
{
    rf_cascade_free(chain->cascade);
}

/* Random chains, with and without a fixed gamma, some of whose levels fail once. */
static void test_lossless(void)
{
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct chain chain = {0};
        int32_t text[N_CTX + 32], n = begin_text(text);
        uint64_t h = mix(seed);
        if (h & 1) add(&chain, 1, (double)(h >> 8 & 255) / 255, 0.0, 0.0, (int)(h >> 1 & 1));
        for (uint64_t l = 0; l < (h >> 4 & 3); l++) {
            uint64_t g = mix(h + l);
            add(&chain, 0, (double)(g & 255) / 255, 0.002 + (double)(g >> 8 & 255) * 4e-4,
                (double)(g >> 16 & 15) / 40, (int)(g >> 24 & 1));
        }
        add_target(&chain, 0.1);
        if (h >> 40 & 1) {
            struct script *failing = &chain.scripts[(h >> 42) % (uint64_t)chain.n];
            failing->fail_at = 1 + (int)(h >> 50 & 31);
        }
        start(&chain);
        if (h >> 60 & 1) {
            chain.cascade->gamma = 1 + (int32_t)(h >> 56 & 15) % RF_MAX_DRAFT;
            chain.cascade->min_confidence = h >> 61 & 1 ? 0.4f : 0.0f;
        }
        go(&chain, text, &n, 200);
        CHECK_INT(n, 200);
        const struct rf_cascade_stats *stats = chain.cascade->stats;
        for (int32_t l = 0; l < chain.n; l++) {
            CHECK(stats[l].accepted <= stats[l].drafted);
            for (int32_t i = chain.cascade->gamma; chain.cascade->gamma && i < RF_MAX_DRAFT; i++)
                CHECK_INT(stats[l].judged_at[i], 0);
        }
        finish(&chain);
    }
}

/* The text may be cut and go on otherwise between rounds. */
static void test_rewind(void)
{
    struct chain chain = {0};
    int32_t text[N_CTX + 32], n = begin_text(text);
    add(&chain, 1, 0.8, 0.0, 0.0, 0);
    add(&chain, 0, 0.9, 0.025, 0.05, 1);
    add_target(&chain, 0.1);
    start(&chain);
    for (int i = 0; i < 20; i++) {
        go(&chain, text, &n, n + 20);
        n -= 7;
        text[n - 1] = (text[n - 1] + i) % VOCAB;
    }
    finish(&chain);
}

/* Speed-ups that the pace reaches over plain decoding, 600 tokens. */
static double speed_up(struct chain *chain)
{
    int32_t text[N_CTX + 32], n = begin_text(text);
    double plain = chain->scripts[chain->n - 1].row_cost * 595;
    start(chain);
    double taken = go(chain, text, &n, 600);
    finish(chain);
    return plain / taken;
}

static void test_useless_drafts(void)
{
    for (int informative = 0; informative < 2; informative++) {
        for (int chance = 0; chance <= 4; chance++) {
            struct chain one = {0}, two = {0}, three = {0};
            double agrees = chance / 20.0;
            add(&one, 0, agrees, 0.025, 0.05, informative);
            add_target(&one, 0.1);
            double reached = speed_up(&one);
            CHECK_MSG(reached > 0.98, "a cast that is right in %.2f of cases gives %.3f", agrees,
                      reached);
            add(&two, 1, agrees, 0.0, 0.0, informative);
            add_target(&two, 0.1);
            reached = speed_up(&two);
            CHECK_MSG(reached > 0.98, "a table that is right in %.2f of cases gives %.3f", agrees,
                      reached);
            add(&three, 1, agrees, 0.0, 0.0, informative);
            add(&three, 0, agrees, 0.01, 0.05, informative);
            add(&three, 0, agrees, 0.025, 0.05, informative);
            add_target(&three, 0.1);
            reached = speed_up(&three);
            CHECK_MSG(reached > 0.97, "a chain that is right in %.2f of cases gives %.3f", agrees,
                      reached);
        }
    }
}

/* The best that one drafter allows with a fixed length (Leviathan et al., equation 3.8, with our
 * costs). */
static double best_fixed(double agrees, double draft_cost, double target_cost)
{
    double best = 0.0;
    for (int g = 0; g <= RF_MAX_DRAFT; g++) {
        double tokens = (1 - pow(agrees, g + 1)) / (1 - agrees),
               seconds = g * draft_cost + target_cost * (1 + 0.012 * g);
        if (tokens / seconds > best) best = tokens / seconds;
    }
    return best * target_cost;
}

static void test_good_drafts(void)
{
    for (int i = 0; i < 4; i++) {
        static const double agrees[] = {0.6, 0.8, 0.9, 0.98};
        struct chain plain = {0}, sure = {0}, deep = {0};
        add(&plain, 0, agrees[i], 0.025, 0.05, 0);
        add_target(&plain, 0.1);
        double possible = best_fixed(agrees[i], 0.025, 0.1), reached = speed_up(&plain);
        CHECK_MSG(reached > 0.93 * possible, "acceptance %.2f: %.3f of %.3f", agrees[i], reached,
                  possible);
        add(&sure, 0, agrees[i], 0.025, 0.05, 1);
        add_target(&sure, 0.1);
        double informed = speed_up(&sure);
        CHECK_MSG(informed > 0.98 * possible, "confidence that tells: %.3f of %.3f", informed,
                  possible);
        add(&deep, 0, agrees[i] * 0.9, 0.006, 0.05, 0);
        add(&deep, 0, agrees[i], 0.025, 0.05, 0);
        add_target(&deep, 0.1);
        double with_tiny = speed_up(&deep);
        CHECK_MSG(with_tiny > 1.05 * reached, "a tiny draft below it: %.3f after %.3f", with_tiny,
                  reached);
    }
}

/* A pass that a neighbour on the machine made slow must not put the pace off a drafter that is
 * good. */
static void test_disturbed(void)
{
    struct chain chain = {0};
    add(&chain, 0, 0.95, 0.025, 0.05, 0);
    add_target(&chain, 0.1);
    start(&chain);
    struct rf_pace *pace = &chain.cascade->pace;
    rf_pace_pass(pace, 1, 1, 0.1);
    rf_pace_pass(pace, 0, 1, 0.3);
    int32_t text[N_CTX + 32], n = begin_text(text);
    double seconds = go(&chain, text, &n, 300);
    CHECK_MSG(29.5 / seconds > 1.8, "a slow first pass leaves %.3f", 29.5 / seconds);
    finish(&chain);
}

static void test_costs(void)
{
    struct chain chain = {0};
    add(&chain, 0, 0.9, 0.025, 0.1, 0);
    add_target(&chain, 0.1);
    start(&chain);
    struct rf_pace *pace = &chain.cascade->pace;
    for (int i = 0; i < 60; i++)
        for (int32_t rows = 1; rows <= RF_PACE_ROWS; rows++) {
            rf_pace_pass(pace, 1, rows, 0.2 * (1 + 0.02 * rows));
            rf_pace_pass(pace, 0, rows, 0.04 * (1 + 0.1 * rows));
        }
    for (int32_t rows = 1; rows <= RF_PACE_ROWS; rows++) {
        double target = rf_pace_cost(pace, 1, rows) / (0.2 * (1 + 0.02 * rows));
        double cast = rf_pace_cost(pace, 0, rows) / (0.04 * (1 + 0.1 * rows));
        CHECK_MSG(target > 0.97 && target < 1.03, "%d rows of the target: %.3f", rows, target);
        CHECK_MSG(cast > 0.95 && cast < 1.05, "%d rows of the cast: %.3f", rows, cast);
    }

    /* What was measured comes back from a file, and a damaged one changes nothing. */
    static const char names[2][RF_PACE_NAME_BYTES] = {"cast", "target"};
    char path[] = "/tmp/riffle-test-pace-XXXXXX";
    struct rf_error error;
    int file = mkstemp(path);
    CHECK(file >= 0);
    close(file);
    CHECK_INT(rf_pace_save(pace, names, path, &error), 0);
    struct rf_pace loaded;
    rf_pace_init(&loaded, chain.levels, 2);
    rf_pace_load(&loaded, names, path);
    for (int32_t rows = 1; rows <= RF_PACE_ROWS; rows++)
        CHECK(fabs(rf_pace_cost(&loaded, 0, rows) / rf_pace_cost(pace, 0, rows) - 1) < 1e-2);
    static const char others[2][RF_PACE_NAME_BYTES] = {"tiny", "target"};
    rf_pace_init(&loaded, chain.levels, 2);
    rf_pace_load(&loaded, others, path);
    CHECK(fabs(rf_pace_cost(&loaded, 0, 1) / rf_pace_cost(&loaded, 1, 1) - 0.25) < 1e-2);
    CHECK_INT(rf_pace_save(pace, others, path, &error), 0);
    rf_pace_init(&loaded, chain.levels, 2);
    rf_pace_load(&loaded, names, path);
    CHECK(fabs(rf_pace_cost(&loaded, 0, 1) / rf_pace_cost(pace, 0, 1) - 1) < 1e-2);
    FILE *damaged = fopen(path, "wb");
    fputs("riffle pace 1\n\"target\" 0.1 3 nonsense\n\"cast\" -1", damaged);
    fclose(damaged);
    struct rf_pace fresh;
    rf_pace_init(&fresh, chain.levels, 2);
    rf_pace_init(&loaded, chain.levels, 2);
    rf_pace_load(&loaded, names, path);
    CHECK(memcmp(&loaded, &fresh, sizeof fresh) == 0);
    remove(path);
    rf_pace_load(&loaded, names, path);
    CHECK(memcmp(&loaded, &fresh, sizeof fresh) == 0);
    CHECK_INT(rf_pace_save(pace, names, "/nonexistent/folder/file", &error), RF_ERR_IO);
    finish(&chain);
}

int main(void)
{
    test_lossless();
    test_rewind();
    test_useless_drafts();
    test_good_drafts();
    test_disturbed();
    test_costs();
    return check_result();
}
