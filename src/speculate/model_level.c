#include "speculate/model_level.h"

#include "platform/clock.h"

enum {
    WINDOW = 512,  /* tokens of a long text that a draft model reads to begin with */
    LEAST_ROOM = 2 /* for tokens of the text in a draft model's context, beside a draft */
};

void rf_model_level_of_target(struct rf_model_level *level, struct rf_session *session,
                              struct rf_sampler *sampler)
{
    *level = (struct rf_model_level){
        .session = session, .sampler = sampler, .n_vocab = session->model->source->params.n_vocab};
}

void rf_model_level_of_draft(struct rf_model_level *level, struct rf_session *session,
                             struct rf_sampler *sampler, int32_t n_vocab)
{
    *level = (struct rf_model_level){
        .session = session, .sampler = sampler, .n_vocab = n_vocab, .is_windowed = 1};
}

static int32_t room_of(const struct rf_model_level *level)
{
    return level->session->shape.n_ctx - RF_MAX_DRAFT;
}

/* Where the part of the text begins that a windowed level reads. */
static int32_t start_of(const struct rf_model_level *level, int32_t n)
{
    if (!level->is_windowed) return 0;
    int32_t room = room_of(level);
    int32_t read = level->start < n ? n - level->start : 0;
    if (read > 0 && read < room && level->session->n_tokens > 0) return level->start;
    int32_t window = WINDOW < room / 2 ? WINDOW : room / 2;
    return n > window ? n - window : 0;
}

/* How many of the tokens come before the first that the level does not have. */
static int32_t count_known(const struct rf_model_level *level, const int32_t *tokens, int32_t n)
{
    int32_t known = 0;
    while (known < n && tokens[known] < level->n_vocab) known++;
    return known;
}

static int32_t unread(void *self, const int32_t *text, int32_t n)
{
    const struct rf_model_level *level = self;
    if ((level->is_windowed && room_of(level) < LEAST_ROOM) || count_known(level, text, n) < n)
        return INT32_MAX;
    int32_t start = start_of(level, n);
    if (start != level->start) return n - start;
    return rf_session_unread(level->session, text + start, n - start);
}

struct stopwatch {
    double start;
    int32_t rows;
};

static void last_pass(void *user, int32_t rows)
{
    *(struct stopwatch *)user = (struct stopwatch){rf_clock_seconds(), rows};
}

static int choose(void *self, struct rf_question *question, struct rf_choice *choices,
                  struct rf_error *error)
{
    struct rf_model_level *level = self;
    struct rf_session *session = level->session;
    const int32_t *text = question->text;
    struct stopwatch watch;
    /* Another draft's vocabulary may be longer; what follows a token that cannot be read is not
     * judged. */
    int32_t n_draft = count_known(level, text + question->n, question->n_draft);
    level->start = start_of(level, question->n);
    question->rows = 0;
    int code = rf_session_follow(session, text + level->start, question->n - level->start, error);
    last_pass(&watch, 0);
    if (!code && (!session->has_logits || n_draft))
        code = rf_session_verify(session, text + question->n, question->parents, n_draft, last_pass,
                                 &watch, error);
    for (int32_t i = n_draft + 1; i <= question->n_draft; i++)
        choices[i] = (struct rf_choice){.token = -1};
    for (int32_t i = 0; !code && i <= n_draft; i++)
        code = rf_sampler_choose(level->sampler, rf_session_row(session, i), text, question->n + i,
                                 &choices[i], error);
    question->rows = watch.rows;
    question->seconds = rf_clock_seconds() - watch.start;
    return code;
}

static void keep(void *self, const int32_t *path, int32_t n)
{
    struct rf_model_level *level = self;
    rf_session_keep(level->session, path, n);
}

const struct rf_level_ops rf_model_level_ops = {.choose = choose, .keep = keep, .unread = unread};
