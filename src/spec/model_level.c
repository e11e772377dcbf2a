#include "spec/model_level.h"

#include "platform/clock.h"

enum { WINDOW = 512 }; /* tokens of a long text that a draft model reads to begin with */

void rf_model_level_of_target(struct rf_model_level *level, struct rf_session *session, struct rf_sampler *sampler)
{
    *level = (struct rf_model_level){
        .session = session, .sampler = sampler, .n_vocab = session->model->source->params.n_vocab};
}

void rf_model_level_of_draft(struct rf_model_level *level, struct rf_session *session, struct rf_sampler *sampler,
                             int32_t n_vocab)
{
    *level = (struct rf_model_level){.session = session, .sampler = sampler, .n_vocab = n_vocab, .is_windowed = 1};
}

/* Where the part of the text begins that a windowed level reads. */
static int32_t start_of(const struct rf_model_level *level, int32_t n)
{
    if (!level->is_windowed) return 0;
    int32_t room = level->session->shape.n_ctx - RF_MAX_DRAFT;
    int32_t read = level->start < n ? n - level->start : 0;
    if (read > 0 && read < room && level->session->n_tokens > 0) return level->start;
    int32_t window = WINDOW < room / 2 ? WINDOW : room / 2;
    return n > window ? n - window : 0;
}

static int knows(const struct rf_model_level *level, const int32_t *text, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (text[i] >= level->n_vocab) return 0;
    return 1;
}

static int32_t unread(void *self, const int32_t *text, int32_t n)
{
    const struct rf_model_level *level = self;
    int32_t start = start_of(level, n);
    if (!knows(level, text, n)) return INT32_MAX;
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

static int choose(void *self, struct rf_question *question, struct rf_choice *choices, struct rf_error *error)
{
    struct rf_model_level *level = self;
    struct rf_session *session = level->session;
    const int32_t *text = question->text;
    struct stopwatch watch;
    double start = rf_clock_seconds();
    level->start = start_of(level, question->n);
    question->rows = 0;
    int code = rf_session_follow(session, text + level->start, question->n - level->start, error);
    last_pass(&watch, 0);
    if (!code && (!session->has_logits || question->n_draft))
        code = rf_session_verify(session, text + question->n, question->parents, question->n_draft, last_pass, &watch,
                                 error);
    for (int32_t i = 0; !code && i <= question->n_draft; i++)
        code = rf_sampler_choose(level->sampler, rf_session_row(session, i), text, question->n + i, &choices[i], error);
    double end = rf_clock_seconds();
    question->rows = watch.rows;
    question->seconds = end - watch.start;
    level->passes += watch.rows > 0;
    level->seconds += end - start;
    return code;
}

static void keep(void *self, const int32_t *path, int32_t n)
{
    struct rf_model_level *level = self;
    rf_session_keep(level->session, path, n);
}

const struct rf_level_ops rf_model_level_ops = {.choose = choose, .keep = keep, .unread = unread};
