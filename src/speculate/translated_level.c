#include "speculate/translated_level.h"

#include "infer/sampler.h"

enum {
    WINDOW = 512,        /* tokens of a long text that the draft reads to begin with */
    WRITTEN = 24,        /* tokens that it writes for one draft, at most */
    UNSURE_PER_CENT = 35 /* below which a written token ends the draft */
};

/* Where the part of the text begins that the draft reads. In a long text that is near its end. It
 * is chosen again when the draft's context is full. */
static int32_t start_of(const struct rf_translated_level *level, int32_t n)
{
    /* A token of the target may become several of the draft. */
    int32_t room = rf_sequence_n_ctx(level->sequence) / 3;
    if (level->n_before > level->start && n > level->start && n - level->start < room)
        return level->start;
    int32_t window = WINDOW < room / 2 ? WINDOW : room / 2;
    return n > window ? n - window : 0;
}

/* Reads the text from `start` on, or from a later token if the draft's context has no space for so
 * many tokens. Returns how many tokens, or a code. */
static int32_t read_text(struct rf_translated_level *level, const int32_t *text, int32_t n,
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

/* Makes the draft's sequence hold these tokens. What the draft wrote itself stays if the target
 * accepted it. */
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
        if (!code) code = rf_sampler_take(&best, length, &written[n], error);
        if (code) return code;
        if (n && (double)written[n].confidence * 100 < UNSURE_PER_CENT) break;
        rf_sequence_place(sequence, &written[n].token, 1);
    }
    return n;
}

static int draft(void *self, const int32_t *text, int32_t n, int32_t max, struct rf_draft *out,
                 struct rf_error *error)
{
    struct rf_translated_level *level = self;
    struct rf_choice written[WRITTEN], drafted[RF_MAX_DRAFT];
    const int32_t *tokens;
    int32_t start = start_of(level, n), most = max + max / 2 < WRITTEN ? max + max / 2 : WRITTEN;
    if (start != level->start) rf_translator_rewind(level->translator, 0);
    level->start = start;
    level->n_before = n;
    out->n = 0;
    int32_t count = read_text(level, text, n, &tokens, error);
    if (count <= 0) return count;
    follow_tokens(level, tokens, count);
    int32_t wrote = write_tokens(level, most, written, error);
    if (wrote <= 0) return wrote;
    int32_t made = rf_translator_write(level->translator, written, wrote, 1, max, drafted, error);
    if (made > 0) rf_draft_line(out, drafted, made);
    return made < 0 ? made : 0;
}

static int32_t unread(void *self, const int32_t *text, int32_t n)
{
    const struct rf_translated_level *level = self;
    (void)text;
    int32_t start = start_of(level, n);
    return start == level->start && level->n_before <= n ? n - level->n_before : n - start;
}

static void rewind_level(void *self, int32_t n)
{
    struct rf_translated_level *level = self;
    if (level->n_before > n) level->n_before = n;
    rf_translator_rewind(level->translator, n > level->start ? n - level->start : 0);
}

const struct rf_level_ops rf_translated_level_ops = {
    .draft = draft, .unread = unread, .rewind = rewind_level};
