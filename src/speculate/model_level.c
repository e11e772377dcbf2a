/* Models as levels (model_level.h): the question of a round becomes an ask of infer/sequence.h, and
 * the best tokens or logits of the answer become choices. The second half has drafts in another
 * vocabulary, which go through text. */
#include "speculate/model_level.h"

#include <assert.h>

#include "platform/clock.h"
#include "speculate/tuning.h"

enum {
    LEAST_ROOM = 2, /* tokens of the text that a draft model's context holds beside a draft */
    WRITTEN = 24    /* tokens that a draft in another vocabulary writes for one draft, at most */
};

void rf_model_level_of_target(struct rf_model_level *level, struct rf_view *view,
                              struct rf_sequence *sequence, struct rf_sampler *sampler)
{
    rf_model_level_of_draft(level, view, sequence, sampler, view->shape.program->params->n_vocab);
    level->is_own = 0;
}

void rf_model_level_of_draft(struct rf_model_level *level, struct rf_view *view,
                             struct rf_sequence *sequence, struct rf_sampler *sampler,
                             int32_t n_vocab)
{
    *level = (struct rf_model_level){
        .view = view, .sequence = sequence, .sampler = sampler, .is_own = 1, .n_vocab = n_vocab};
}

static int32_t room_of(const struct rf_model_level *level)
{
    return rf_sequence_n_ctx(level->sequence) - RF_MAX_DRAFT;
}

/* First token to read of a text of n tokens if the context has room for so many. */
static int32_t begin_window(int32_t n, int32_t room)
{
    int32_t most = rf_tuning.chain.window, window = most < room / 2 ? most : room / 2;
    return n > window ? n - window : 0;
}

/* First token of the part of the text that the level reads. */
static int32_t start_of(const struct rf_model_level *level, int32_t n)
{
    if (!level->is_own) return 0;
    int32_t room = room_of(level), read = n - level->start;
    if (read > 0 && read < room && rf_sequence_length(level->sequence) > 0) return level->start;
    return begin_window(n, room);
}

/* How many of the tokens come before the first that the level does not have. */
static int32_t count_known(struct rf_model_level *level, const int32_t *text, int32_t n)
{
    while (level->n_known < n && text[level->n_known] < level->n_vocab) level->n_known++;
    return level->n_known < n ? level->n_known : n;
}

static int32_t model_unread(void *self, const int32_t *text, int32_t n)
{
    struct rf_model_level *level = self;
    if ((level->is_own && room_of(level) < LEAST_ROOM) || count_known(level, text, n) < n)
        return INT32_MAX;
    int32_t start = start_of(level, n);
    if (start != level->start) return n - start;
    return rf_sequence_unread(level->sequence, level->view, n - start);
}

/* Makes the level's own sequence hold the text. */
static void follow_text(struct rf_model_level *level, const int32_t *text, int32_t n)
{
    if (!level->is_own) return;
    int32_t start = start_of(level, n);
    if (start != level->start) rf_sequence_rewind(level->sequence, 0);
    level->start = start;
    int32_t held = start + rf_sequence_length(level->sequence);
    assert(held <= n);
    rf_sequence_place(level->sequence, text + held, n - held);
}

/* Writes the draft's tokens that lead to row i, and it; returns how many. */
static int32_t path_to(const struct rf_draft *draft, int32_t i, int32_t *path)
{
    int32_t depth = rf_draft_path(draft, i, path);
    for (int32_t d = 0; d < depth; d++) path[d] = draft->tokens[path[d]];
    return depth;
}

static const uint64_t *mask_of(const struct rf_question *question, int32_t i)
{
    return question->masks ? question->masks[i] : NULL;
}

static struct rf_choice *runners_up_of(const struct rf_question *question, int32_t i)
{
    return question->runners_up ? question->runners_up[i] : NULL;
}

void rf_model_level_ask(struct rf_model_level *level, const struct rf_question *question,
                        int32_t most, struct rf_ask *ask)
{
    const struct rf_draft *draft = question->draft;
    follow_text(level, question->text, question->n);
    /* Another draft's vocabulary may be longer, and a tree may have more rows than the context has
     * space for. The draft is judged up to the first token that cannot be read. */
    int32_t room = rf_sequence_room(level->sequence, question->n - level->start);
    if (most > room) most = room;
    if (most > level->view->shape.max_logits - 1) most = level->view->shape.max_logits - 1;
    int32_t n_draft = 0;
    while (n_draft < draft->n && n_draft < most && draft->tokens[n_draft] < level->n_vocab)
        n_draft++;
    *ask = (struct rf_ask){.sequence = level->sequence,
                           .n_text = question->n - level->start,
                           .draft = draft->tokens,
                           .parents = rf_draft_is_line(draft) ? NULL : draft->parents,
                           .n_draft = n_draft,
                           .masks = question->masks};
}

int32_t rf_model_level_n_best(const struct rf_model_level *level,
                              const struct rf_question *question)
{
    if (question->best) return RF_MAX_BEST;
    if (!rf_sampler_is_greedy(level->sampler)) return 0;
    return question->runners_up ? 1 + RF_RUNNERS_UP : 1;
}

/* Tells the log-probabilities of the choice that follows row i, where they are wanted. */
static int tell_log_probs(struct rf_model_level *level, const struct rf_question *question,
                          int32_t i, int32_t token, const float *logits, struct rf_error *error)
{
    if (!question->log_probs) return 0;
    question->log_probs[i].n = question->n_top;
    return rf_sampler_log_probs(level->sampler, logits, token, &question->log_probs[i], error);
}

int rf_model_level_answer(struct rf_model_level *level, struct rf_question *question,
                          const struct rf_ask *ask, const struct rf_best *best,
                          struct rf_choice *choices, struct rf_error *error)
{
    int code = 0, is_greedy = rf_sampler_is_greedy(level->sampler);
    for (int32_t i = ask->n_draft; i < question->draft->n; i++) choices[i + 1].token = -1;
    for (int32_t i = 0; !code && i <= ask->n_draft; i++) {
        int32_t path[RF_DRAFT_ROWS], n_path = path_to(question->draft, i - 1, path);
        const float *logits = NULL;
        if (question->best && question->best != best) question->best[i] = best[i];
        if (!is_greedy || question->log_probs)
            code = level->view->backend->ops->logits(level->view, ask->first + i, &logits, error);
        if (!code && is_greedy)
            code = rf_sampler_take(&best[i], question->n + n_path, &choices[i],
                                   runners_up_of(question, i), error);
        else if (!code)
            code = rf_sampler_choose_after(level->sampler, logits, mask_of(question, i),
                                           question->text, question->n, path, n_path, &choices[i],
                                           runners_up_of(question, i), error);
        if (!code) code = tell_log_probs(level, question, i, choices[i].token, logits, error);
    }
    return code;
}

/* Answers from the last pass, without a new one. */
static int choose_again(struct rf_model_level *level, const struct rf_question *question,
                        struct rf_choice *choice, struct rf_error *error)
{
    const struct rf_best *best = rf_sequence_best(level->sequence, level->view);
    const float *logits;
    const uint64_t *mask = mask_of(question, 0);
    if (best && !mask && !question->log_probs && rf_sampler_is_greedy(level->sampler))
        return rf_sampler_take(best, question->n, choice, runners_up_of(question, 0), error);
    int code = rf_sequence_answer(level->sequence, level->view, &logits, error);
    if (code) return code;
    code = rf_sampler_choose_after(level->sampler, logits, mask, question->text, question->n, NULL,
                                   0, choice, runners_up_of(question, 0), error);
    return code ? code : tell_log_probs(level, question, 0, choice->token, logits, error);
}

static int model_choose(void *self, struct rf_question *question, struct rf_choice *choices,
                        struct rf_error *error)
{
    struct rf_model_level *level = self;
    struct rf_best own[RF_DRAFT_ROWS + 1], *best = question->best ? question->best : own;
    struct rf_read_cost cost;
    struct rf_ask ask;
    double start = rf_clock_seconds();
    rf_model_level_ask(level, question, RF_DRAFT_ROWS, &ask);
    question->rows = 0;
    if (!question->draft->n && rf_sequence_unread(level->sequence, level->view, ask.n_text) == 0) {
        int code = choose_again(level, question, choices, error);
        question->seconds = rf_clock_seconds() - start;
        return code;
    }
    int32_t n_best = rf_model_level_n_best(level, question);
    const struct rf_read_options options = {.n_best = n_best, .best = n_best ? best : NULL};
    int code = rf_read(level->view, &ask, 1, &options, &cost, error);
    if (code) return code;
    start = rf_clock_seconds();
    code = rf_model_level_answer(level, question, &ask, best, choices, error);
    question->rows = cost.rows;
    question->seconds = cost.seconds + rf_clock_seconds() - start;
    return code;
}

static int model_keep(void *self, const int32_t *text, int32_t n, const int32_t *path, int32_t k,
                      struct rf_error *error)
{
    struct rf_model_level *level = self;
    int32_t n_text = n - k - level->start;
    if (level->is_own) rf_sequence_place(level->sequence, text + n - k, k);
    return rf_sequence_accept(level->sequence, level->view, n_text, path, k, error);
}

static void model_rewind(void *self, int32_t n)
{
    struct rf_model_level *level = self;
    if (level->n_known > n) level->n_known = n;
    int32_t left = n > level->start ? n - level->start : 0;
    if (level->is_own && rf_sequence_length(level->sequence) > left)
        rf_sequence_rewind(level->sequence, left);
}

const struct rf_level_ops rf_model_level_ops = {
    .choose = model_choose, .keep = model_keep, .unread = model_unread, .rewind = model_rewind};

/* ---- drafts in another vocabulary ---- */

/* First token of the part of the text that the draft reads: near the end of a long text. It is
 * chosen again when the draft's context is full. */
static int32_t start_in(const struct rf_translated_level *level, int32_t n)
{
    /* A token of the target may become several of the draft. */
    int32_t room = rf_sequence_n_ctx(level->sequence) / 3;
    if (level->n_before > level->start && n > level->start && n - level->start < room)
        return level->start;
    return begin_window(n, room);
}

/* Reads the text from `start` on, or from a later token if the draft's context has no space for so
 * many tokens. Returns how many tokens, or a code. */
static int32_t read_translated(struct rf_translated_level *level, const int32_t *text, int32_t n,
                               const int32_t **tokens, struct rf_error *error)
{
    for (;;
         level->start += (n - level->start + 1) / 2, rf_translator_rewind(level->translator, 0)) {
        if (level->start >= n) return 0;
        int32_t count = rf_translator_read(level->translator, text + level->start, n - level->start,
                                           tokens, error);
        if (count < 0 && count != RF_ERR_CONTEXT) return count;
        if (count >= 0 && count + WRITTEN <= rf_sequence_n_ctx(level->sequence)) return count;
    }
}

/* Makes the draft's sequence hold these tokens. Tokens that the draft wrote itself stay if the
 * target accepted it. */
static void follow_tokens(struct rf_translated_level *level, const int32_t *tokens, int32_t n)
{
    const int32_t *held = rf_sequence_tokens(level->sequence);
    int32_t same = rf_translator_kept(level->translator),
            most = rf_sequence_length(level->sequence);
    if (most > n) most = n;
    if (same > most) same = most;
    while (same < most && held[same] == tokens[same]) same++;
    rf_sequence_rewind(level->sequence, same);
    rf_sequence_place(level->sequence, tokens + same, n - same);
}

/* Lets the draft continue what was read. Returns how many tokens it wrote, or a code. */
static int32_t write_tokens(struct rf_translated_level *level, int32_t max,
                            struct rf_choice *written, struct rf_error *error)
{
    struct rf_sequence *sequence = level->sequence;
    struct rf_best best;
    const struct rf_read_options options = {.n_best = 1, .best = &best};
    int32_t n = 0;
    for (int32_t length; n < max; n++) {
        length = rf_sequence_length(sequence);
        if (length >= rf_sequence_n_ctx(sequence)) break;
        struct rf_ask ask = {.sequence = sequence, .n_text = length};
        int code = rf_read(level->view, &ask, 1, &options, NULL, error);
        if (!code) code = rf_sampler_take(&best, length, &written[n], NULL, error);
        if (code) return code;
        if (n && (double)written[n].confidence * 100 < rf_tuning.rounds.unsure) break;
        rf_sequence_place(sequence, &written[n].token, 1);
    }
    return n;
}

static int translated_draft(void *self, const int32_t *text, int32_t n, int32_t max,
                            struct rf_draft *out, struct rf_error *error)
{
    struct rf_translated_level *level = self;
    struct rf_choice written[WRITTEN], drafted[RF_MAX_DRAFT];
    const int32_t *tokens;
    int32_t start = start_in(level, n), most = max + max / 2 < WRITTEN ? max + max / 2 : WRITTEN;
    if (start != level->start) rf_translator_rewind(level->translator, 0);
    level->start = start;
    level->n_before = n;
    out->n = 0;
    int32_t count = read_translated(level, text, n, &tokens, error);
    if (count <= 0) return count;
    follow_tokens(level, tokens, count);
    int32_t wrote = write_tokens(level, most, written, error);
    if (wrote <= 0) return wrote;
    int32_t made = rf_translator_write(level->translator, written, wrote, 1, max, drafted, error);
    if (made > 0) rf_draft_line(out, drafted, made);
    return made < 0 ? made : 0;
}

static int32_t translated_unread(void *self, const int32_t *text, int32_t n)
{
    const struct rf_translated_level *level = self;
    (void)text;
    int32_t start = start_in(level, n);
    return start == level->start && level->n_before <= n ? n - level->n_before : n - start;
}

static void translated_rewind(void *self, int32_t n)
{
    struct rf_translated_level *level = self;
    if (level->n_before > n) level->n_before = n;
    rf_translator_rewind(level->translator, n > level->start ? n - level->start : 0);
}

const struct rf_level_ops rf_translated_level_ops = {
    .draft = translated_draft, .unread = translated_unread, .rewind = translated_rewind};
