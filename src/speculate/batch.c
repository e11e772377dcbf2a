/* The pass of a batch (batch.h): first halves of all rounds (joint.h), one read, second halves. */
#include "speculate/batch.h"

#include "speculate/joint.h"
#include "speculate/model_level.h"

static struct rf_model_level *target_level(const struct rf_cascade *cascade)
{
    return rf_cascade_target(cascade);
}

static int is_round(const struct rf_batch_part *part)
{
    return part->cascade != NULL;
}

/* The part takes part in the pass. */
static int has_rows(const struct rf_batch_part *part)
{
    return part->n == 0 && (!is_round(part) || part->round.placed < 0);
}

static void fail_part(struct rf_batch_part *part, int code)
{
    part->n = code;
    if (is_round(part)) rf_cascade_drop(part->cascade);
}

static int32_t part_unread(const struct rf_batch_part *part, const struct rf_view *view)
{
    const struct rf_ask slice = {
        .sequence = part->sequence, .n_text = part->n_text, .reads_only = !part->on_logits};
    if (!is_round(part)) return rf_ask_unread(&slice, view);
    const struct rf_sequence *sequence = rf_cascade_sequence(part->cascade);
    return rf_sequence_unread(sequence, view, rf_sequence_n_committed(sequence));
}

/* The ask of a slice of so many rows. Where logits are wanted, all but the first of them are asked
 * like a draft. */
static struct rf_ask ask_of_slice(const struct rf_batch_part *part, int32_t rows)
{
    struct rf_ask ask = {.sequence = part->sequence, .n_text = part->n_text, .reads_only = 1};
    if (!part->on_logits || rows < 1) return ask;
    ask.reads_only = 0;
    ask.n_text -= rows - 1;
    ask.n_draft = rows - 1;
    ask.draft = rf_sequence_tokens(part->sequence) + ask.n_text;
    return ask;
}

/* Makes the asks of all parts. Drafts share the rows that are left. */
static void begin_all(const struct rf_view *view, struct rf_batch_part *const *parts,
                      int32_t n_parts, int32_t most_rows)
{
    struct rf_batch_part *rounds[RF_MAX_ROWS];
    int32_t n = 0, answers = view->shape.max_logits, room = view->shape.max_rows;
    if (room > most_rows) room = most_rows;
    for (int32_t i = 0; i < n_parts; i++) {
        struct rf_batch_part *part = parts[i];
        int32_t unread = part_unread(part, view);
        part->n = 0;
        part->ask = ask_of_slice(part, unread);
        part->own = part->rows = unread > 0 ? unread : 1;
        if (is_round(part)) rounds[n++] = part;
        if (!is_round(part) && part->on_logits) answers -= part->rows;
        room -= part->rows;
    }
    if (room > answers - n) room = answers - n;
    if (n) rf_joint_begin(rounds, n, room > 0 ? room : 0, n < n_parts);
    for (int32_t i = 0; i < n; i++) {
        struct rf_batch_part *part = rounds[i];
        if (!has_rows(part)) continue;
        rf_model_level_ask(target_level(part->cascade), &part->round.question, part->room,
                           &part->ask);
        part->rows = part->own + part->ask.n_draft;
    }
}

/* Tells a slice's logits. Then its tokens are the text's, not a draft. */
static int tell_slice_logits(struct rf_view *view, struct rf_batch_part *part)
{
    const struct rf_ask *ask = &part->ask;
    int32_t path[RF_TREE_ROWS];
    for (int32_t i = 0; i <= ask->n_draft; i++) {
        const float *logits;
        int code = view->backend->ops->logits(view, ask->first + i, &logits, &part->error);
        if (!code) code = part->on_logits(part->user, ask->n_text + i, logits, &part->error);
        if (code) return code;
        path[i] = i;
    }
    return rf_sequence_accept(ask->sequence, view, ask->n_text, path, ask->n_draft, &part->error);
}

/* Brings what a pass found to the parts that were in it. */
static void answer_parts(struct rf_view *view, struct rf_batch_part *const *read, int32_t n_read,
                         const struct rf_best *best, const struct rf_read_cost *cost)
{
    /* Slices answer nothing and may have many rows, so their passes say little of costs. */
    int counts = cost->rows <= RF_PACE_ROWS;
    for (int32_t i = 0; i < n_read; i++) counts &= is_round(read[i]);
    for (int32_t i = 0; i < n_read; i++) {
        struct rf_batch_part *part = read[i];
        if (!is_round(part)) {
            int failed = part->on_logits ? tell_slice_logits(view, part) : 0;
            if (failed) fail_part(part, failed);
            continue;
        }
        struct rf_question *question = &part->round.question;
        question->rows = counts ? cost->rows : 0;
        question->others = rf_joint_beside(read, n_read, part);
        question->seconds = cost->seconds;
        rf_cascade_spend(part->cascade, cost->seconds / n_read);
        int code = rf_model_level_answer(target_level(part->cascade), question, &part->ask,
                                         best + part->ask.first, part->round.choices, &part->error);
        if (code) fail_part(part, code);
    }
}

/* The pass over these parts. */
static int read_parts(struct rf_view *view, struct rf_batch_part *const *read, int32_t n_read,
                      struct rf_read_cost *cost, struct rf_error *error)
{
    struct rf_ask asks[RF_MAX_ROWS];
    struct rf_best best[RF_TREE_ROWS];
    struct rf_read_options options = {.best = best};
    for (int32_t i = 0; i < n_read; i++) {
        asks[i] = read[i]->ask;
        int32_t n_best = is_round(read[i]) ? rf_model_level_n_best(target_level(read[i]->cascade),
                                                                   &read[i]->round.question)
                                           : 0;
        if (n_best > options.n_best) options.n_best = n_best;
    }
    if (options.n_best == 0) options.best = NULL;
    int code = rf_read(view, asks, n_read, &options, cost, error);
    if (code) return code;
    for (int32_t i = 0; i < n_read; i++) read[i]->ask.first = asks[i].first;
    answer_parts(view, read, n_read, best, cost);
    return 0;
}

/* The second half of a round. */
static void end_round(struct rf_batch_part *part)
{
    struct rf_cascade *cascade = part->cascade;
    if (part->n >= 0) part->n = rf_cascade_end(cascade, &part->round, part->yield, &part->error);
    rf_cascade_set_company(cascade, &(struct rf_pace_company){0});
}

void rf_batch_run(struct rf_view *view, struct rf_batch_part *const *parts, int32_t n_parts,
                  int32_t most_rows, struct rf_batch_cost *cost)
{
    struct rf_batch_part *read[RF_MAX_ROWS];
    struct rf_read_cost taken = {0};
    struct rf_error error;
    int32_t n_read = 0;
    begin_all(view, parts, n_parts, most_rows);
    for (int32_t i = 0; i < n_parts; i++)
        if (has_rows(parts[i])) read[n_read++] = parts[i];
    int code = n_read ? read_parts(view, read, n_read, &taken, &error) : 0;
    for (int32_t i = 0; code && i < n_read; i++) {
        int alone = n_read == 1 ? code : read_parts(view, &read[i], 1, &taken, &read[i]->error);
        if (n_read == 1) read[i]->error = error;
        if (alone) fail_part(read[i], alone);
    }
    for (int32_t i = 0; i < n_parts; i++)
        if (is_round(parts[i])) end_round(parts[i]);
    *cost = (struct rf_batch_cost){taken.rows, taken.seconds};
}
