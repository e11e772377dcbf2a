/* Draft heads as levels: the lines that they draft are those of scripts/make_head_fixtures.py and
 * scripts/make_mtp_models.py, in each layout of files and on each kind of device, and what a level
 * drafts does not depend on how its text came about. */
#include "speculate/head_level.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "infer/device.h"
#include "model/open.h"
#include "support/plain_backend.h"

enum { N_CTX = 512, MOST_TEXT = 160, N_DRAFTS = 5 };

static const struct rf_allocator *const allocator = &rf_system_allocator;

/* A target with a head, and a text that the head's level follows. */
struct bench {
    struct opened opened;
    struct rf_head_file *file;
    struct rf_head *head;
    struct rf_view *view;
    struct rf_sequence *sequence;
    struct rf_sampler *sampler;
    struct rf_head_passes *passes;
    struct rf_head_level *level;
    struct rf_follower follower; /* tells the level of tokens taken back, as the cascade does */
};

static void tell_level(struct rf_follower *follower, int32_t n)
{
    struct bench *bench =
        (struct bench *)(void *)((char *)follower - offsetof(struct bench, follower));
    rf_head_level_ops.rewind(bench->level, n);
}

static const struct rf_sampling greedy = {.top_p = 1, .repeat_penalty = 1};

static void open_text(struct bench *bench)
{
    const struct rf_view_options options = {.max_rows = 64, .head = bench->head};
    const struct rf_sequence_shape shape = {.n_ctx = N_CTX, .kv = RF_KV_F16};
    int32_t n_vocab = bench->opened.source->params.n_vocab;
    MUST(rf_view_new(&bench->view, bench->opened.model, bench->opened.queue, &options, &error));
    MUST(rf_sequence_new(&bench->sequence, bench->view, &shape, allocator, &error));
    MUST(rf_sampler_new(&bench->sampler, n_vocab, bench->opened.backend->first_above, allocator,
                        &error));
    MUST(rf_sampler_set(bench->sampler, &greedy, &error));
    MUST(rf_head_level_new(&bench->level, bench->passes, bench->sequence, bench->sampler, allocator,
                           &error));
    bench->follower.rewound = tell_level;
    rf_sequence_set_follower(bench->sequence, &bench->follower);
}

static void close_text(struct bench *bench)
{
    rf_sequence_set_follower(bench->sequence, NULL);
    rf_head_level_free(bench->level);
    rf_sampler_free(bench->sampler);
    rf_sequence_free(bench->sequence);
    rf_view_free(bench->view);
}

static void open_bench(struct bench *bench, const struct device *device,
                       const struct rf_source *target, const char *path)
{
    bench->opened = opened_new(device, target, RF_WEIGHTS_BF16, allocator);
    MUST(rf_head_open(&bench->file, path, target, NULL, allocator, &error));
    MUST(rf_head_load(&bench->head, bench->file, bench->opened.model, bench->opened.queue, &error));
    MUST(rf_head_passes_new(&bench->passes, bench->head, bench->opened.queue, N_CTX, NULL,
                            allocator, &error));
    open_text(bench);
}

static void close_bench(struct bench *bench)
{
    close_text(bench);
    rf_head_passes_free(bench->passes);
    rf_head_free(bench->head);
    rf_head_close(bench->file);
    opened_free(&bench->opened);
}

static void read_text(struct bench *bench, const int32_t *tokens, int32_t n)
{
    MUST(rf_sequence_prefill(bench->sequence, bench->view, tokens, n, NULL, NULL, &error));
}

static struct rf_error failure;

static struct rf_next next_question(struct bench *bench, const uint64_t *mask)
{
    const int32_t *text = rf_sequence_tokens(bench->sequence);
    int32_t n = rf_sequence_length(bench->sequence);
    CHECK(rf_head_level_ops.unread(bench->level, text, n) != INT32_MAX);
    return (struct rf_next){
        .self = bench->level, .text = text, .n = n, .mask = mask, .error = &failure};
}

static struct rf_choice next_of(struct bench *bench, const uint64_t *mask,
                                struct rf_choice *runners_up)
{
    struct rf_next next = next_question(bench, mask), *asked = &next;
    rf_head_level_ops.next(&asked, 1);
    MUST(next.code);
    memcpy(runners_up, next.runners_up, sizeof next.runners_up);
    return next.choice;
}

/* Drafts n tokens and leaves them ahead. */
static void draft_line(struct bench *bench, int32_t n, struct rf_choice *line)
{
    struct rf_choice runners_up[RF_RUNNERS_UP];
    for (int32_t i = 0; i < n; i++) {
        line[i] = next_of(bench, NULL, runners_up);
        CHECK(line[i].token >= 0);
        for (int32_t k = 0; k < RF_RUNNERS_UP; k++)
            CHECK(runners_up[k].token >= 0 && runners_up[k].token != line[i].token);
        rf_sequence_place(bench->sequence, &line[i].token, 1);
    }
}

static int32_t read_tokens(const json_t *list, int32_t *tokens, size_t most)
{
    CHECK(json_array_size(list) <= most);
    for (size_t i = 0; i < json_array_size(list); i++)
        tokens[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return (int32_t)json_array_size(list);
}

/* ---- the fixtures' lines ---- */

static void lines_are_the_fixtures(struct bench *bench, const char *name, const int32_t *text,
                                   const json_t *lines)
{
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line)
    {
        int32_t wanted[N_DRAFTS],
            n = (int32_t)json_integer_value(json_object_get(line, "position")) + 1;
        struct rf_choice drafted[N_DRAFTS];
        CHECK_INT(read_tokens(json_object_get(line, "drafts"), wanted, N_DRAFTS), N_DRAFTS);
        rf_sequence_rewind(bench->sequence, 0);
        read_text(bench, text, n - 1); /* the features of the last token are not known */
        MUST(rf_sequence_append(bench->sequence, text + n - 1, 1, &error));
        draft_line(bench, N_DRAFTS, drafted);
        for (int32_t k = 0; k < N_DRAFTS; k++)
            CHECK_MSG(drafted[k].token == wanted[k],
                      "%s, %s: draft %d after %d tokens is %d, not %d", bench->opened.device->name,
                      name, k, n, drafted[k].token, wanted[k]);
    }
}

/* The logits of a draft's tokens are the fixture's, on the lines' text. A sampler that draws keeps
 * them where a greedy one takes the best at once. */
static void logits_are_the_fixtures(struct bench *bench, const char *name, const int32_t *text,
                                    const json_t *lines, const float *golden, int32_t n_rows)
{
    struct rf_sampling draws = greedy;
    struct rf_choice runners_up[RF_RUNNERS_UP];
    size_t i;
    json_t *line;
    draws.temperature = 1;
    MUST(rf_sampler_set(bench->sampler, &draws, &error));
    json_array_foreach(lines, i, line)
    {
        int32_t drafts[N_DRAFTS],
            n = (int32_t)json_integer_value(json_object_get(line, "position")) + 1;
        struct rf_view *view = (struct rf_view *)rf_head_passes_view(bench->passes);
        read_tokens(json_object_get(line, "drafts"), drafts, N_DRAFTS);
        rf_sequence_rewind(bench->sequence, 0);
        read_text(bench, text, n - 1);
        MUST(rf_sequence_append(bench->sequence, text + n - 1, 1, &error));
        for (int32_t k = 0; k < N_DRAFTS; k++, golden += n_rows) {
            const float *logits;
            double off = 0, all = 0;
            next_of(bench, NULL, runners_up);
            MUST(view->backend->ops->logits(view, 0, &logits, &error));
            for (int32_t r = 0; r < n_rows; r++) {
                off += pow((double)logits[r] - (double)golden[r], 2);
                all += pow((double)golden[r], 2);
            }
            CHECK_MSG(sqrt(off / all) < 0.03,
                      "%s, %s: logits of draft %d after %d tokens are off by %g",
                      bench->opened.device->name, name, k, n, sqrt(off / all));
            rf_sequence_place(bench->sequence, &drafts[k], 1);
        }
    }
    MUST(rf_sampler_set(bench->sampler, &greedy, &error));
}

/* ---- histories ---- */

static uint32_t seed = 1;

/* Where the level's features end. They outlive states of the target, which begins a block of rows
 * again where its text was cut. */
static int32_t features_end(const struct bench *bench)
{
    int32_t n = rf_sequence_n_committed(bench->sequence), end;
    unsigned char *saved = malloc((size_t)rf_head_level_bytes(bench->level, n));
    if (!saved) abort();
    rf_head_level_save(bench->level, n, saved);
    memcpy(&end, saved, sizeof end);
    free(saved);
    return end;
}

/* The text that the bench has, as a second one that read it at once. */
static void is_as_if_read_at_once(struct bench *bench)
{
    struct bench fresh = *bench;
    struct rf_choice line[3], again[3];
    const int32_t *text = rf_sequence_tokens(bench->sequence);
    int32_t n = rf_sequence_n_committed(bench->sequence);
    rf_sequence_rewind(bench->sequence, n);
    int32_t n_read = rf_sequence_n_read(bench->sequence), end = features_end(bench);
    if (n_read < end) n_read = end;
    open_text(&fresh);
    read_text(&fresh, text, n_read);
    MUST(rf_sequence_append(fresh.sequence, text + n_read, n - n_read, &error));
    draft_line(bench, 3, line);
    draft_line(&fresh, 3, again);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(line[i].token, again[i].token);
        CHECK(line[i].confidence == again[i].confidence);
    }
    rf_sequence_rewind(bench->sequence, n);
    close_text(&fresh);
}

/* The target reads a tree of drafts, one of whose paths becomes text. */
static void accept_some(struct bench *bench)
{
    struct rf_choice line[6];
    int32_t n = rf_sequence_n_committed(bench->sequence);
    int32_t parents[] = {-1, -1, 0, 1, 2, 3}, tokens[6];
    rf_sequence_rewind(bench->sequence, n);
    draft_line(bench, 1 + (int32_t)random_below(&seed, 5), line);
    rf_sequence_rewind(bench->sequence, n);
    random_tokens(tokens, 6, bench->opened.source->params.n_vocab, seed);
    struct rf_ask ask = {.sequence = bench->sequence,
                         .draft = tokens,
                         .parents = parents,
                         .n_text = n,
                         .n_draft = 6};
    MUST(rf_read(bench->view, &ask, 1, &(struct rf_read_options){0}, NULL, &error));
    int32_t path[] = {1, 3, 5}, kept = (int32_t)random_below(&seed, 4);
    for (int32_t i = 0; i < kept; i++) rf_sequence_place(bench->sequence, &tokens[path[i]], 1);
    MUST(rf_sequence_accept(bench->sequence, bench->view, n, path, kept, &error));
    rf_sequence_place(bench->sequence, &tokens[0], 1);
    for (int32_t i = 0; i <= kept; i++) MUST(rf_sequence_commit(bench->sequence, &error));
}

static void histories_leave_no_trace(struct bench *bench, const int32_t *text)
{
    rf_sequence_rewind(bench->sequence, 0);
    read_text(bench, text, 20);
    for (int i = 0; i < 60; i++) {
        int32_t n = rf_sequence_n_committed(bench->sequence);
        switch (random_below(&seed, 4)) {
        case 0:
            rf_sequence_rewind(bench->sequence, 4 + (int32_t)random_below(&seed, (uint32_t)n - 3));
            break;
        case 1:
            if (n < MOST_TEXT) read_text(bench, text, 1 + (int32_t)random_below(&seed, 30));
            break;
        default:
            if (n < MOST_TEXT) accept_some(bench);
        }
        if (rf_sequence_n_committed(bench->sequence) < 3) read_text(bench, text, 3);
        is_as_if_read_at_once(bench);
    }
}

/* A level that takes over another's features drafts what that one does. */
static void copies_draft_the_same(struct bench *bench, const int32_t *text)
{
    struct bench copy = *bench;
    struct rf_choice line[4], again[4];
    rf_sequence_rewind(bench->sequence, 0);
    read_text(bench, text, 40);
    MUST(rf_sequence_fork(&copy.sequence, bench->sequence, bench->view, &error));
    MUST(rf_head_level_new(&copy.level, bench->passes, copy.sequence, bench->sampler, allocator,
                           &error));
    CHECK_INT(rf_head_level_ops.unread(copy.level, text, 40), INT32_MAX);
    rf_head_level_copy(copy.level, bench->level);
    draft_line(bench, 4, line);
    draft_line(&copy, 4, again);
    for (int i = 0; i < 4; i++) CHECK_INT(line[i].token, again[i].token);
    rf_head_level_free(copy.level);
    rf_sequence_free(copy.sequence);
}

/* ---- several texts in one pass ---- */

enum { TEXTS = 7, LINE = 6 };

/* Texts of one batch: of different lengths, and each with its own past. */
static void open_texts(struct bench *texts, const struct bench *bench, const int32_t *text)
{
    for (int i = 0; i < TEXTS; i++) {
        texts[i] = *bench;
        open_text(&texts[i]);
        read_text(&texts[i], text + i, 3 + (int32_t)random_below(&seed, 90));
        if (i % 3 == 1) accept_some(&texts[i]);
        if (i % 3 == 2) {
            struct rf_choice line[2];
            int32_t n = rf_sequence_n_committed(texts[i].sequence);
            draft_line(&texts[i], 2, line);
            rf_sequence_rewind(texts[i].sequence, n);
        }
    }
}

/* Each of several texts has the tokens, runners-up and confidence that it has alone, whatever rows
 * the others have in the passes; a text without an answer, and one that leaves, change nothing. */
static void texts_together_draft_as_alone(struct bench *bench, const int32_t *text)
{
    struct bench texts[TEXTS];
    struct rf_choice alone[TEXTS][LINE], runners_up[TEXTS][LINE][RF_RUNNERS_UP];
    const uint64_t none[64] = {0};
    uint64_t before;
    const uint32_t again = seed;
    seed = 77;
    open_texts(texts, bench, text);
    for (int i = 0; i < TEXTS; i++) {
        int32_t n = rf_sequence_n_committed(texts[i].sequence);
        for (int k = 0; k < LINE; k++) {
            alone[i][k] = next_of(&texts[i], NULL, runners_up[i][k]);
            rf_sequence_place(texts[i].sequence, &alone[i][k].token, 1);
        }
        rf_sequence_rewind(texts[i].sequence, n);
        close_text(&texts[i]);
    }
    seed = 77;
    open_texts(texts, bench, text);
    for (int k = 0; k < LINE; k++) {
        struct rf_next next[TEXTS], *asked[TEXTS];
        int n = 0;
        before = rf_head_passes_view(bench->passes)->passes;
        for (int i = 0; i < TEXTS; i++) {
            if (k == 3 && i % 2) continue; /* they go on alone, below */
            next[i] = next_question(&texts[i], k == 2 && i == 4 ? none : NULL);
            asked[n++] = &next[i];
        }
        rf_head_level_ops.next(asked, n);
        /* Long texts are read at first; then a step is one pass. */
        CHECK(k == 0 || rf_head_passes_view(bench->passes)->passes == before + 1);
        for (int i = 0; i < TEXTS; i++) {
            if (k == 3 && i % 2) {
                next[i] = next_question(&texts[i], NULL);
                asked[0] = &next[i];
                rf_head_level_ops.next(asked, 1);
            }
            CHECK_INT(next[i].code, 0);
            if (k == 2 && i == 4) {
                CHECK_INT(next[i].choice.token, -1);
                next[i].choice = next_of(&texts[i], NULL, next[i].runners_up);
            }
            CHECK_INT(next[i].choice.token, alone[i][k].token);
            CHECK(next[i].choice.confidence == alone[i][k].confidence);
            for (int r = 0; r < RF_RUNNERS_UP; r++)
                CHECK_INT(next[i].runners_up[r].token, runners_up[i][k][r].token);
            rf_sequence_place(texts[i].sequence, &next[i].choice.token, 1);
        }
    }
    for (int i = 0; i < TEXTS; i++) close_text(&texts[i]);
    seed = again;
}

/* A pass that fails is made for each text alone, so one call that fails is nobody's failure; and
 * after a failure that lasts, all go on as if it had not been. For the plain backend. */
static void failures_are_nobody_elses(struct bench *bench, const int32_t *text)
{
    struct bench texts[TEXTS];
    struct rf_next next[TEXTS], *asked[TEXTS];
    struct rf_choice line[TEXTS];
    const uint32_t before = seed;
    open_texts(texts, bench, text);
    for (int i = 0; i < TEXTS; i++) {
        struct rf_choice runners_up[RF_RUNNERS_UP];
        int32_t n = rf_sequence_n_committed(texts[i].sequence);
        line[i] = next_of(&texts[i], NULL, runners_up);
        rf_sequence_place(texts[i].sequence, &line[i].token, 1);
        line[i] = next_of(&texts[i], NULL, runners_up);
        rf_sequence_rewind(texts[i].sequence, n);
    }
    for (int32_t call = 1, n_failed = 1; n_failed; call++) {
        for (int step = 0; step < 2; step++) {
            for (int i = 0; i < TEXTS; i++) {
                next[i] = next_question(&texts[i], NULL);
                asked[i] = &next[i];
            }
            if (step) plain_fail_at(call, RF_ERR_SYSTEM);
            rf_head_level_ops.next(asked, TEXTS);
            n_failed = plain_has_failed();
            plain_fail_at(0, 0);
            for (int i = 0; i < TEXTS && !step; i++)
                rf_sequence_place(texts[i].sequence, &next[i].choice.token, 1);
        }
        for (int i = 0, failed = 0; i < TEXTS; i++) {
            failed += next[i].code != 0;
            CHECK(failed <= 1);
            CHECK(next[i].code == 0 || next[i].code == RF_ERR_SYSTEM);
            if (!next[i].code) CHECK_INT(next[i].choice.token, line[i].token);
            rf_sequence_rewind(texts[i].sequence, rf_sequence_n_committed(texts[i].sequence));
        }
    }
    for (int i = 0; i < TEXTS; i++) close_text(&texts[i]);
    seed = before;
}

/* ---- long texts ---- */

/* A level reads the end of a text that is longer than it holds; the window moves as it grows. */
static void long_texts_are_read_in_part(struct bench *bench, const int32_t *text)
{
    struct rf_choice line[8];
    rf_sequence_rewind(bench->sequence, 0);
    for (int32_t n = 0; n + 100 < N_CTX; n += 100) {
        read_text(bench, text, 100);
        draft_line(bench, 8, line);
        rf_sequence_rewind(bench->sequence, n + 100);
    }
}

/* ---- masks ---- */

static void masks_are_kept(struct bench *bench, const int32_t *text)
{
    const struct rf_params *params = &bench->opened.source->params;
    uint64_t mask[64] = {0}, none[64] = {0};
    struct rf_choice runners_up[RF_RUNNERS_UP];
    CHECK(params->n_vocab <= 64 * 64);
    rf_sequence_rewind(bench->sequence, 0);
    read_text(bench, text, 30);
    int32_t first = next_of(bench, NULL, runners_up).token, second = runners_up[0].token;
    memset(mask, 0xff, sizeof mask);
    mask[first / 64] &= ~(UINT64_C(1) << first % 64);
    CHECK_INT(next_of(bench, mask, runners_up).token, second);
    CHECK_INT(next_of(bench, none, runners_up).token, -1);
    CHECK_INT(next_of(bench, NULL, runners_up).token, first);
}

/* A sampler that draws takes the head's tokens as often as it takes the target's: the likeliest at
 * a low temperature. */
static void draws_are_the_samplers(struct bench *bench, const int32_t *text)
{
    struct rf_sampling sampling = greedy;
    struct rf_choice runners_up[RF_RUNNERS_UP];
    rf_sequence_rewind(bench->sequence, 0);
    read_text(bench, text, 30);
    int32_t first = next_of(bench, NULL, runners_up).token, others = 0;
    sampling.temperature = 0.001f;
    MUST(rf_sampler_set(bench->sampler, &sampling, &error));
    CHECK_INT(next_of(bench, NULL, runners_up).token, first);
    uint64_t none[64] = {0};
    CHECK_INT(next_of(bench, none, runners_up).token, -1);
    sampling.temperature = 5;
    for (uint32_t s = 0; s < 20; s++) {
        sampling.seed = s;
        MUST(rf_sampler_set(bench->sampler, &sampling, &error));
        others += next_of(bench, NULL, runners_up).token != first;
    }
    CHECK(others > 0);
    MUST(rf_sampler_set(bench->sampler, &greedy, &error));
}

/* The logits that a head of the fixture has; NULL: only lines. */
static float *read_golden(const char *folder, const json_t *head)
{
    const json_t *lines = json_object_get(head, "lines"), *name = json_object_get(head, "golden");
    size_t n = json_array_size(lines) * N_DRAFTS *
               (size_t)json_integer_value(json_object_get(head, "rows"));
    char path[256];
    if (!name) return NULL;
    snprintf(path, sizeof path, "%s/%s", folder, json_string_value(name));
    FILE *file = fopen(path, "rb");
    float *golden = malloc(n * sizeof *golden);
    CHECK_MSG(file && golden && fread(golden, sizeof *golden, n, file) == n && fgetc(file) == EOF,
              "%s is not of %zu numbers", path, n);
    if (file) fclose(file);
    return golden;
}

static void check_head(const struct device *device, const struct rf_source *target,
                       const char *folder, const json_t *head, const int32_t *text)
{
    size_t i;
    json_t *name, *lines = json_object_get(head, "lines");
    float *golden = read_golden(folder, head);
    json_array_foreach(json_object_get(head, "files"), i, name)
    {
        struct bench bench = {0};
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folder, json_string_value(name));
        open_bench(&bench, device, target, path);
        lines_are_the_fixtures(&bench, path, text, lines);
        if (golden)
            logits_are_the_fixtures(&bench, path, text, lines, golden,
                                    bench.head->file->source->params.n_vocab);
        if (i == 0 && !device->tier) {
            histories_leave_no_trace(&bench, text);
            copies_draft_the_same(&bench, text);
            texts_together_draft_as_alone(&bench, text);
            if (device->kind == &plain_backend_kind) failures_are_nobody_elses(&bench, text);
            long_texts_are_read_in_part(&bench, text);
            masks_are_kept(&bench, text);
            draws_are_the_samplers(&bench, text);
        }
        close_bench(&bench);
    }
    free(golden);
}

/* The heads of a fixture's file and their target, in the same folder, or the one above. */
static void check_fixture(const struct device *device, const char *folder, const char *file)
{
    struct rf_source *target;
    int32_t text[MOST_TEXT];
    json_error_t problem;
    char path[256];
    size_t i;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    json_t *fixture = json_load_file(path, 0, &problem), *head;
    CHECK_MSG(fixture, "%s: %s", path, problem.text);
    if (!fixture) return;
    CHECK_INT(read_tokens(json_object_get(fixture, "text"), text, MOST_TEXT), MOST_TEXT);
    snprintf(path, sizeof path, "%s/%s", strcmp(folder, "heads") == 0 ? "." : folder,
             json_string_value(json_object_get(fixture, "target")));
    MUST(rf_source_open(&target, path, NULL, allocator, &error));
    json_array_foreach(json_object_get(fixture, "heads"), i, head)
        check_head(device, target, folder, head, text);
    rf_source_close(target);
    json_decref(fixture);
}

int main(void)
{
    static const char *const drafts[] = {"qwen35.json", "qwen35-chosen.json", "qwen35moe.json",
                                         "qwen3next.json"};
    const struct device devices[] = {{"cpu", rf_backend_kinds[0], NULL},
                                     {"avx2", rf_backend_kinds[0], "avx2"},
                                     {"plain", &plain_backend_kind, NULL}};
    /* The plain device has one thread, and another tier the same ones. */
    for (size_t d = 0; d < (IS_FOR_RACES ? 1 : sizeof devices / sizeof *devices); d++) {
        check_fixture(&devices[d], "heads", "drafts.json");
        for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++)
            check_fixture(&devices[d], "mtp", drafts[i]);
    }
    return check_result();
}
