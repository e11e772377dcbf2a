/* Translation by text (translate.h): both tokenizers spell the same bytes, so a position in bytes
 * is a place in both token sequences. Only the end of the draft's tokens is encoded again when text
 * is added, and a stretch between two control tokens is encoded by itself. */
#include "speculate/translate.h"

#include <string.h>

#include "base/utf8.h"
#include "speculate/tuning.h"
#include "text/tokens.h"

/* The draft's last TAIL tokens are encoded again with what follows them, since a word may have
 * grown. The first MARGIN of these are not taken: they lack the text before them. At most MAX_TAIL
 * tokens are encoded again where borders of tokens are not borders of the text. CONTEXT tokens of
 * the target precede what the draft wrote when that is encoded. */
enum { TAIL = 8, MARGIN = 2, MAX_TAIL = 32, CONTEXT = 4 };
/* Most bytes that an encoder left out and that are tried again together with the following text. */
enum { MAX_GAP = 64 };

enum { NO_BORDER = -1 };

/* Offsets count the bytes of the text and one for each control token. A stretch is the text between
 * two control tokens. */
struct rf_translator {
    const struct rf_allocator *allocator;
    const struct rf_tokenizer *target, *draft;
    struct rf_control_map to_draft, to_target;

    int32_t text_cap, n_text;
    const int32_t *text; /* the caller's, of the last read */
    int64_t *text_end;   /* offset behind each */
    int32_t *stretch; /* index of the first token of each token's stretch; of a control token: the
                         next index */

    int32_t token_cap, n_tokens;
    int is_cut;     /* since the last read: the tokens at the end are to be made anew */
    int32_t n_kept; /* rf_translator_kept */
    int32_t *tokens;
    int64_t *token_end; /* NO_BORDER: its end in the text is unknown */
    int64_t covered;    /* `tokens` holds the text before this offset */

    struct rf_bytes bytes; /* text that is being encoded */
    struct rf_tokens ids;
};

int rf_translator_new(struct rf_translator **out, const struct rf_tokenizer *target,
                      const struct rf_tokenizer *draft, int32_t n_text, int32_t n_tokens,
                      const struct rf_allocator *allocator, struct rf_error *error)
{
    *out = NULL;
    if (n_text < 1 || n_tokens < 1)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "drafts cannot be translated for texts of %d and %d tokens", (int)n_text,
                       (int)n_tokens);
    size_t n = (size_t)n_text + (size_t)n_tokens;
    struct rf_translator *t;
    t = rf_malloc(allocator, 1, sizeof *t + n * (sizeof(int64_t) + sizeof(int32_t)),
                  "the translation of drafts", error);
    if (!t) return RF_ERR_MEMORY;
    *t = (struct rf_translator){.allocator = allocator,
                                .target = target,
                                .draft = draft,
                                .text_cap = n_text,
                                .token_cap = n_tokens,
                                .text_end = (int64_t *)(t + 1)};
    t->token_end = t->text_end + n_text;
    t->stretch = (int32_t *)(t->token_end + n_tokens);
    t->tokens = t->stretch + n_text;
    int code = rf_control_map_init(&t->to_draft, target, draft, allocator, error);
    if (!code) code = rf_control_map_init(&t->to_target, draft, target, allocator, error);
    if (code) {
        rf_translator_free(t);
        return code;
    }
    *out = t;
    return 0;
}

void rf_translator_free(struct rf_translator *t)
{
    if (!t) return;
    rf_control_map_free(&t->to_draft, t->allocator);
    rf_control_map_free(&t->to_target, t->allocator);
    rf_bytes_free(t->allocator, &t->bytes);
    rf_tokens_free(t->allocator, &t->ids);
    rf_free(t->allocator, t);
}

/* ---- the text as bytes ---- */

/* A token's text at its place. At the beginning of a stretch it lacks sentencepiece's leading
 * space. */
static struct rf_str spelled_text(const struct rf_tokenizer *tokenizer, int32_t token, int begins)
{
    struct rf_str text = rf_token_text(tokenizer, token, 0);
    if (begins && text.bytes && text.data[0] == ' ' && rf_tokenizer_strips_first_space(tokenizer))
        text.data++, text.bytes--;
    return text;
}

static int64_t text_end(const struct rf_translator *t, int32_t n)
{
    return n ? t->text_end[n - 1] : 0;
}

static int32_t stretch_of(const struct rf_translator *t, int32_t n)
{
    return n ? t->stretch[n - 1] : 0;
}

/* Copies the text from offset `from`, which is in the last stretch, to its end into t->bytes. */
static int gather_text(struct rf_translator *t, int64_t from, struct rf_error *error)
{
    int32_t first = stretch_of(t, t->n_text), low = first, high = t->n_text;
    while (low < high) { /* the first token that ends behind `from` */
        int32_t middle = low + (high - low) / 2;
        if (t->text_end[middle] <= from)
            low = middle + 1;
        else
            high = middle;
    }
    t->bytes.count = 0;
    int code = 0;
    for (int32_t i = low; i < t->n_text && !code; i++) {
        struct rf_str text = spelled_text(t->target, t->text[i], i == first);
        size_t skipped = i == low ? (size_t)(from - text_end(t, i)) : 0;
        code = rf_bytes_append(t->allocator, &t->bytes, text.data + skipped, text.bytes - skipped,
                               error);
    }
    return code;
}

/* Bytes at the end that begin a character but do not finish it. */
static size_t unfinished(const char *text, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char byte = (unsigned char)text[n - back];
        size_t broken;
        int partial = 0;
        if ((byte & 0xc0) == 0x80) continue;
        return byte >= 0xc0 && rf_utf8_examine(text + n - back, back, &partial, &broken) == 0 &&
                       partial
                   ? back
                   : 0;
    }
    return 0;
}

static int encode_bytes(const struct rf_tokenizer *tokenizer, const char *text, size_t n,
                        int begins, struct rf_translator *t, struct rf_error *error)
{
    struct rf_segment segment = {text, n, 0};
    t->ids.count = 0;
    return rf_tokenizer_encode(tokenizer, &segment, 1, begins ? 0 : RF_ENCODE_CONTINUE,
                               t->allocator, &t->ids, error);
}

/* ---- reading ---- */

static int push_token(struct rf_translator *t, int32_t token, int64_t end, struct rf_error *error)
{
    if (t->n_tokens == t->token_cap)
        return rf_fail(error, RF_ERR_CONTEXT, "the text has more than %d tokens of the draft model",
                       (int)t->token_cap);
    t->tokens[t->n_tokens] = token;
    t->token_end[t->n_tokens++] = end;
    return 0;
}

/* Sets the ends of the tokens first .. n_tokens - 1, which were made from t->bytes, the text from
 * offset `from` on. The encoder may have changed the text by normalising or leaving out bytes.
 * Tokens in the common beginning and end get borders; those between get none. */
static void find_borders(struct rf_translator *t, int32_t first, int64_t from, size_t bytes,
                         int begins)
{
    const char *text = t->bytes.data;
    size_t at = 0, end = bytes;
    int32_t low = first, high = t->n_tokens;
    for (; low < high; low++) {
        int leads = begins && low == first;
        struct rf_str piece = spelled_text(t->draft, t->tokens[low], leads);
        if ((!leads && piece.bytes == 0) || piece.bytes > bytes - at ||
            memcmp(text + at, piece.data, piece.bytes) != 0)
            break;
        at += piece.bytes;
        t->token_end[low] = from + (int64_t)at;
    }
    if (low == high) return;
    for (; high > low + 1; high--) {
        struct rf_str piece = spelled_text(t->draft, t->tokens[high - 1], 0);
        if (piece.bytes == 0 || piece.bytes > end - at ||
            memcmp(text + end - piece.bytes, piece.data, piece.bytes) != 0)
            break;
        t->token_end[high - 1] = from + (int64_t)end;
        end -= piece.bytes;
    }
    t->token_end[high - 1] = from + (int64_t)end;
    for (int32_t i = low; i < high - 1; i++) t->token_end[i] = NO_BORDER;
}

/* Copies of the draft's tokens that are encoded again, for comparison. */
struct tail {
    int32_t tokens[MAX_TAIL];
    int64_t ends[MAX_TAIL];
    int32_t n;
};

static struct tail take_tail(struct rf_translator *t, int64_t stretch_begin)
{
    struct tail tail = {.n = 0};
    int32_t first = t->n_tokens;
    if (first && t->covered - t->token_end[first - 1] > MAX_GAP) return tail;
    for (int32_t i = t->n_tokens - 1; i >= 0 && t->n_tokens - i <= MAX_TAIL; i--) {
        if (t->token_end[i] != NO_BORDER && t->token_end[i] <= stretch_begin) break;
        if (i == 0 || t->token_end[i - 1] != NO_BORDER) first = i;
        if (t->n_tokens - first >= TAIL) break;
    }
    for (; first + tail.n < t->n_tokens; tail.n++) {
        tail.tokens[tail.n] = t->tokens[first + tail.n];
        tail.ends[tail.n] = t->token_end[first + tail.n];
    }
    t->n_tokens = first;
    if (t->n_kept > first) t->n_kept = first;
    return tail;
}

/* The new tokens from `first` on were encoded without the text before them, unlike the old tokens
 * at the same place. This keeps the old tokens up to the first common border, MARGIN tokens on,
 * where both have just had the same token. */
static int splice(struct rf_translator *t, const struct tail *old, int32_t first,
                  struct rf_error *error)
{
    int32_t n_old = MARGIN, i = first;
    for (; n_old <= old->n; n_old++) {
        if (old->ends[n_old - 1] == NO_BORDER) continue;
        for (i = first; i < t->n_tokens && t->token_end[i] < old->ends[n_old - 1]; i++) continue;
        if (i < t->n_tokens && t->token_end[i] == old->ends[n_old - 1] &&
            t->tokens[i] == old->tokens[n_old - 1])
            break;
    }
    if (n_old > old->n) return 0;
    int32_t n_new = i + 1 - first, rest = t->n_tokens - i - 1;
    if (first + n_old + rest > t->token_cap)
        return rf_fail(error, RF_ERR_CONTEXT, "the text has more than %d tokens of the draft model",
                       (int)t->token_cap);
    if (n_old != n_new) {
        memmove(t->tokens + first + n_old, t->tokens + i + 1, (size_t)rest * sizeof *t->tokens);
        memmove(t->token_end + first + n_old, t->token_end + i + 1,
                (size_t)rest * sizeof *t->token_end);
    }
    memcpy(t->tokens + first, old->tokens, (size_t)n_old * sizeof *t->tokens);
    memcpy(t->token_end + first, old->ends, (size_t)n_old * sizeof *t->token_end);
    t->n_tokens = first + n_old + rest;
    return 0;
}

static int begins_stretch(const struct rf_translator *t, int64_t offset, int64_t stretch_begin)
{
    return offset == stretch_begin &&
           (t->n_tokens == 0 || rf_token_is_control(t->draft, t->tokens[t->n_tokens - 1]));
}

/* Encodes the last stretch from the draft's tail on. `ended`: the stretch is complete. */
static int encode_tail(struct rf_translator *t, int ended, struct rf_error *error)
{
    int32_t stretch = stretch_of(t, t->n_text);
    int64_t stretch_begin = text_end(t, stretch), end = text_end(t, t->n_text);
    if (end == stretch_begin) {
        t->covered = end;
        return 0;
    }
    struct tail old = take_tail(t, stretch_begin);
    int32_t first = t->n_tokens;
    int64_t from = first ? t->token_end[first - 1] : 0;
    if (from < stretch_begin) from = stretch_begin;
    if (old.n == 0 && from < t->covered) from = t->covered;
    int begins = begins_stretch(t, from, stretch_begin);
    int code = gather_text(t, from, error);
    if (code) return code;
    size_t bytes = t->bytes.count;
    if (!ended) bytes -= unfinished(t->bytes.data, bytes);
    t->covered = from + (int64_t)bytes;
    if (bytes == 0) return 0;
    code = encode_bytes(t->draft, t->bytes.data, bytes, begins, t, error);
    for (size_t i = 0; i < t->ids.count && !code; i++)
        code = push_token(t, t->ids.ids[i], NO_BORDER, error);
    if (code) return code;
    find_borders(t, first, from, bytes, begins);
    return begins || from == stretch_begin ? 0 : splice(t, &old, first, error);
}

static int add_control(struct rf_translator *t, int32_t token, struct rf_error *error)
{
    int64_t end = text_end(t, t->n_text) + 1;
    int code = encode_tail(t, 1, error);
    if (code) return code;
    t->text_end[t->n_text] = end;
    t->stretch[t->n_text] = t->n_text + 1;
    t->n_text++;
    t->covered = end;
    int32_t mapped = rf_control_map_find(&t->to_draft, token);
    int has_bos = t->n_tokens == 1 && t->token_end[0] == 0 && t->n_text == 1;
    int again = has_bos && (t->tokens[0] == mapped || token == rf_tokenizer_bos(t->target));
    return mapped < 0 || again ? 0 : push_token(t, mapped, end, error);
}

static void add_target_text(struct rf_translator *t, int32_t token)
{
    int32_t stretch = stretch_of(t, t->n_text);
    int64_t begin = text_end(t, t->n_text);
    t->text_end[t->n_text] =
        begin + (int64_t)spelled_text(t->target, token, t->n_text == stretch).bytes;
    t->stretch[t->n_text++] = stretch;
}

void rf_translator_rewind(struct rf_translator *t, int32_t n)
{
    if (n >= t->n_text) return;
    t->is_cut = 1;
    int64_t end = text_end(t, n);
    t->n_text = n;
    if (t->covered > end) t->covered = end;
    while (t->n_tokens &&
           (t->token_end[t->n_tokens - 1] == NO_BORDER || t->token_end[t->n_tokens - 1] > end)) {
        t->n_tokens--;
        t->covered = 0; /* bytes that an encoder left out behind the token go, too */
    }
    if (t->n_kept > t->n_tokens) t->n_kept = t->n_tokens;
}

int32_t rf_translator_kept(struct rf_translator *t)
{
    int32_t kept = t->n_kept;
    t->n_kept = t->n_tokens;
    return kept;
}

static int read_on(struct rf_translator *t, const int32_t *text, int32_t n, struct rf_error *error)
{
    int code = 0;
    if (t->n_tokens == 0 && rf_tokenizer_adds_bos(t->draft))
        code = push_token(t, rf_tokenizer_bos(t->draft), 0, error);
    for (int32_t i = t->n_text; i < n && !code; i++) {
        if (rf_token_is_control(t->target, text[i]))
            code = add_control(t, text[i], error);
        else
            add_target_text(t, text[i]);
    }
    return code ? code : encode_tail(t, 0, error);
}

int32_t rf_translator_read(struct rf_translator *t, const int32_t *text, int32_t n,
                           const int32_t **tokens, struct rf_error *error)
{
    *tokens = t->tokens;
    if (n > t->text_cap)
        return rf_fail(error, RF_ERR_CONTEXT,
                       "the text has %d tokens; its translation was made for %d", (int)n,
                       (int)t->text_cap);
    t->text = text;
    if (n == t->n_text && n > 0 && !t->is_cut) return t->n_tokens;
    rf_translator_rewind(t, n);
    int code = read_on(t, text, n, error);
    t->is_cut = 0;
    if (!code) return t->n_tokens;
    t->n_text = t->n_tokens = t->n_kept = 0;
    t->covered = 0;
    return code;
}

/* ---- writing ---- */

/* The draft's writing as bytes, behind the bytes that were held back. */
struct writing {
    const struct rf_choice *written;
    int32_t n;        /* tokens of text */
    int32_t control;  /* token of the target after the text; -1: none */
    int ended;        /* a control token ended it, known to the target or not */
    size_t context;   /* bytes of the target's text in t->bytes before it */
    size_t end;       /* end of the text in t->bytes */
    int begins;       /* the bytes begin a stretch of the target's */
    int draft_begins; /* the written text begins a stretch of the draft's */
};

/* Appends what was written to the context in t->bytes. Returns 0 if it contradicts the text. */
static int append_written(struct rf_translator *t, struct writing *w, int32_t n,
                          struct rf_error *error)
{
    size_t held = (size_t)(text_end(t, t->n_text) - t->covered), begin = t->bytes.count, at = 0;
    w->context = begin;
    for (; w->n < n; w->n++) {
        int32_t token = w->written[w->n].token;
        struct rf_str text = spelled_text(t->draft, token, w->draft_begins && w->n == 0);
        if (rf_token_is_control(t->draft, token)) {
            w->control = rf_control_map_find(&t->to_target, token);
            w->ended = 1;
            break;
        }
        size_t again = held - at < text.bytes ? held - at : text.bytes;
        if (again && memcmp(t->bytes.data + begin - held + at, text.data, again) != 0) return 0;
        at += again;
        int code =
            rf_bytes_append(t->allocator, &t->bytes, text.data + again, text.bytes - again, error);
        if (code) return code;
    }
    w->end = t->bytes.count;
    if (!w->ended) w->end -= unfinished(t->bytes.data, w->end);
    return at == held && w->end >= begin;
}

/* The index of the first token behind the context, or -1 when no border is there or the encoder
 * changed the context. */
static int64_t skip_context(const struct rf_translator *t, const struct writing *w)
{
    size_t at = 0, i = 0;
    for (; i < t->ids.count && at < w->context; i++) {
        struct rf_str text = spelled_text(t->target, t->ids.ids[i], w->begins && i == 0);
        if (text.bytes > w->context - at || memcmp(t->bytes.data + at, text.data, text.bytes) != 0)
            return -1;
        at += text.bytes;
    }
    return at == w->context ? (int64_t)i : -1;
}

/* The draft's confidence in bytes [from, to) of what was written, held bytes included. */
static float confidence(const struct rf_translator *t, const struct writing *w, size_t from,
                        size_t to)
{
    float inside = 1, product = 1;
    int begun = 0;
    size_t at = 0;
    for (int32_t i = 0; i < w->n && (at < to || i == 0); i++) {
        if (at <= from) inside = w->written[i].confidence;
        if (at >= from) {
            product *= w->written[i].confidence;
            begun = 1;
        }
        at += spelled_text(t->draft, w->written[i].token, w->draft_begins && i == 0).bytes;
    }
    return begun ? product : inside;
}

/* Takes tokens as long as they are exactly what was written. */
static int32_t take_tokens(const struct rf_translator *t, const struct writing *w, size_t first,
                           int whole, int32_t max, struct rf_choice *out)
{
    size_t held = (size_t)(text_end(t, t->n_text) - t->covered), at = w->context;
    int32_t made = 0;
    for (size_t i = first; i < t->ids.count && made < max; i++) {
        int leads = w->begins && i == 0;
        struct rf_str text = spelled_text(t->target, t->ids.ids[i], leads);
        if ((!leads && text.bytes == 0) || text.bytes > w->end - at ||
            memcmp(t->bytes.data + at, text.data, text.bytes) != 0)
            return made;
        int open_ended = at + text.bytes == w->end && !w->ended;
        if (open_ended && !whole) return made;
        size_t from = at == w->context ? 0 : at - w->context + held;
        at += text.bytes;
        float sure = confidence(t, w, from, at - w->context + held);
        out[made++] = (struct rf_choice){t->ids.ids[i],
                                         open_ended ? sure * rf_tuning.rounds.last_is_whole : sure};
    }
    if (at == w->end && w->control >= 0 && made < max)
        out[made++] = (struct rf_choice){w->control, w->written[w->n].confidence};
    return made;
}

int32_t rf_translator_write(struct rf_translator *t, const struct rf_choice *written, int32_t n,
                            int whole, int32_t max, struct rf_choice *out, struct rf_error *error)
{
    int32_t stretch = stretch_of(t, t->n_text), first = t->n_text - CONTEXT;
    while (first > stretch && text_end(t, first) > t->covered) first--;
    if (first < stretch) first = stretch;
    struct writing w = {.written = written, .control = -1, .begins = first == stretch};
    w.draft_begins = begins_stretch(t, t->covered, text_end(t, stretch));
    int code = gather_text(t, text_end(t, first), error);
    if (t->n_text > stretch && t->bytes.count == 0)
        w.begins = 0; /* tokens without text come first */
    if (!code) code = append_written(t, &w, n, error);
    if (code <= 0) return code;
    int64_t skipped = -1;
    code = encode_bytes(t->target, t->bytes.data, w.end, w.begins, t, error);
    if (!code) skipped = skip_context(t, &w);
    if (!code && skipped < 0) {
        /* The text's end is inside a token here, but not in what the target has read. */
        w.begins = 0;
        skipped = 0;
        code = encode_bytes(t->target, t->bytes.data + w.context, w.end - w.context, 0, t, error);
    }
    return code ? code : take_tokens(t, &w, (size_t)skipped, whole, max, out);
}
