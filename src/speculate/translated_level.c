#include "speculate/translated_level.h"

enum {
    WINDOW = 512,        /* tokens of a long text that the draft reads to begin with */
    WRITTEN = 24,        /* tokens that it writes for one draft, at most */
    UNSURE_PER_CENT = 35 /* below which a written token ends the draft */
};

/* Where the part of the text begins that the draft reads: late in a long one, and anew when its
 * context is full. */
static int32_t start_of(const struct rf_translated_level *level, int32_t n)
{
    /* A token of the target may become several of the draft. */
    int32_t room = level->session->shape.n_ctx / 3;
    if (level->n_before > level->start && n > level->start && n - level->start < room)
        return level->start;
    int32_t window = WINDOW < room / 2 ? WINDOW : room / 2;
    return n > window ? n - window : 0;
}

/* Reads the text from its start on; from later on where the draft needs so many tokens for it that
 * it has no room. Returns how many tokens, or a code. */
static int32_t read_text(struct rf_translated_level *level, const int32_t *text, int32_t n,
                         const int32_t **tokens, struct rf_error *error)
{
    for (; level->start < n; level->start += (n - level->start + 1) / 2) {
        int32_t count = rf_translator_read(level->translator, text + level->start, n - level->start,
                                           tokens, error);
        if (count < 0 && count != RF_ERR_CONTEXT) return count;
        if (count >= 0 && count + WRITTEN <= level->session->shape.n_ctx) return count;
    }
    return 0;
}

/* Goes on writing from what was read; returns how many tokens, or a code. */
static int32_t write_tokens(struct rf_translated_level *level, int32_t max,
                            struct rf_choice *written, struct rf_error *error)
{
    struct rf_session *session = level->session;
    int32_t n = 0;
    while (n < max && session->n_tokens < session->shape.n_ctx) {
        const float *logits = rf_session_logits(session, error);
        if (!logits) return error->code;
        int code = rf_sampler_choose(level->sampler, logits, session->tokens, session->n_tokens,
                                     &written[n], error);
        if (code) return code;
        if (n && (double)written[n].confidence * 100 < UNSURE_PER_CENT) break;
        code = rf_session_commit(session, written[n++].token, error);
        if (code) return code;
    }
    return n;
}

static int32_t draft(void *self, const int32_t *text, int32_t n, int32_t max, struct rf_choice *out,
                     struct rf_error *error)
{
    struct rf_translated_level *level = self;
    struct rf_choice written[WRITTEN];
    const int32_t *tokens;
    level->start = start_of(level, n);
    level->n_before = n;
    int32_t count = read_text(level, text, n, &tokens, error);
    if (count <= 0) return count;
    int code = rf_session_follow(level->session, tokens, count, error);
    if (code) return code;
    int32_t wrote =
        write_tokens(level, max + max / 2 < WRITTEN ? max + max / 2 : WRITTEN, written, error);
    if (wrote <= 0) return wrote;
    return rf_translator_write(level->translator, written, wrote, 1, max, out, error);
}

static int32_t unread(void *self, const int32_t *text, int32_t n)
{
    const struct rf_translated_level *level = self;
    (void)text;
    int32_t start = start_of(level, n);
    return start == level->start && level->n_before <= n ? n - level->n_before : n - start;
}

const struct rf_level_ops rf_translated_level_ops = {.draft = draft, .unread = unread};
