/* Building a corpus (corpus.h): all texts are tokenised, then all of them are kept, or the pieces
 * of the lowest perplexity, in the order of the texts. The work is done when the file is complete.
 */
#include "engine/corpus.h"

#include <math.h>
#include <stdlib.h>

#include "engine/session.h"
#include "platform/file.h"
#include "speculate/corpus.h"
#include "speculate/vocab_pair.h"

enum { PIECE = 256 /* tokens that are scored together */ };

/* The texts in tokens, one after another. */
struct building {
    struct rf_engine *engine;
    const riffle_corpus_options *options;
    struct rf_tokens all;
    size_t *ends;   /* [n_texts], in `all` */
    uint32_t *kept; /* tokens to be written; RF_CORPUS_END behind each text or piece */
    size_t n_kept, kept_tokens;
};

static int report_building(const struct building *b, const char *stage, uint64_t done,
                           uint64_t total)
{
    return b->options->progress &&
           b->options->progress(b->options->progress_user, stage, done, total);
}

static int corpus_cancelled(struct rf_error *error)
{
    return rf_fail(error, RF_ERR_CANCELLED, "the corpus was not finished");
}

static int encode_texts(struct building *b, const riffle_text *texts, size_t n_texts,
                        struct rf_error *error)
{
    for (size_t i = 0; i < n_texts; i++) {
        struct rf_segment segment = {.text = texts[i].data, .bytes = texts[i].bytes};
        int code = texts[i].bytes ? rf_tokenizer_encode(b->engine->tokenizer, &segment, 1, 0,
                                                        &b->engine->allocator, &b->all, error)
                                  : 0;
        if (code) return code;
        b->ends[i] = b->all.count;
        if (report_building(b, "tokenizing", i + 1, n_texts)) return corpus_cancelled(error);
    }
    return b->all.count ? 0 : rf_fail(error, RF_ERR_ARGUMENT, "a corpus of no text");
}

static void keep_tokens(struct building *b, size_t from, size_t to)
{
    if (from == to) return;
    for (size_t i = from; i < to; i++) b->kept[b->n_kept++] = (uint32_t)b->all.ids[i];
    b->kept[b->n_kept++] = RF_CORPUS_END;
    b->kept_tokens += to - from;
}

struct piece {
    size_t from, to;
    double surprise; /* mean of -log p: the logarithm of its perplexity */
};

static int by_surprise(const void *left, const void *right)
{
    double a = ((const struct piece *)left)->surprise, b = ((const struct piece *)right)->surprise;
    return (a > b) - (a < b);
}

static int by_place(const void *left, const void *right)
{
    size_t a = ((const struct piece *)left)->from, b = ((const struct piece *)right)->from;
    return (a > b) - (a < b);
}

/* The perplexity of a piece's tokens after the first, given those before. */
static int score_piece(struct rf_session *session, const struct building *b, struct piece *piece,
                       struct rf_error *error)
{
    double logprobs[PIECE], sum = 0;
    size_t n = piece->to - piece->from;
    piece->surprise = INFINITY;
    if (n < 2) return 0;
    int code = rf_session_rewind(session, 0, error);
    if (!code) code = rf_session_score(session, b->all.ids + piece->from, n, 1, logprobs, error);
    for (size_t i = 0; i + 1 < n && !code; i++) sum -= logprobs[i];
    piece->surprise = sum / (double)(n - 1);
    return code;
}

/* Keeps the pieces that the model finds likeliest, in the order of the texts. */
static int keep_likeliest(struct building *b, struct piece *pieces, size_t n,
                          struct rf_error *error)
{
    const riffle_session_options options = {.n_ctx = PIECE, .kv = "f16", .chain = "none"};
    struct rf_session *session;
    int code = rf_session_open(&session, b->engine, &options, error);
    if (code) return code;
    for (size_t i = 0; i < n && !code; i++) {
        code = score_piece(session, b, &pieces[i], error);
        if (!code && report_building(b, "scoring", i + 1, n)) code = corpus_cancelled(error);
    }
    rf_session_close(session);
    if (code) return code;
    qsort(pieces, n, sizeof *pieces, by_surprise);
    size_t kept = (size_t)ceil((double)b->options->keep * (double)n);
    if (kept > n) kept = n;
    qsort(pieces, kept, sizeof *pieces, by_place);
    for (size_t i = 0; i < kept; i++) keep_tokens(b, pieces[i].from, pieces[i].to);
    return 0;
}

static int refine_texts(struct building *b, size_t n_texts, struct rf_error *error)
{
    const struct rf_allocator *allocator = &b->engine->allocator;
    size_t n = 0;
    struct piece *pieces = rf_malloc(allocator, b->all.count / PIECE + n_texts, sizeof *pieces,
                                     "the pieces of a corpus", error);
    if (!pieces) return RF_ERR_MEMORY;
    for (size_t i = 0, from = 0; i < n_texts; i++)
        for (; from < b->ends[i]; from = pieces[n++].to)
            pieces[n] = (struct piece){.from = from,
                                       .to = b->ends[i] - from < PIECE ? b->ends[i] : from + PIECE};
    int code = keep_likeliest(b, pieces, n, error);
    rf_free(allocator, pieces);
    return code;
}

static int report_sorting(void *user, uint64_t done, uint64_t total)
{
    return report_building(user, "sorting", done, total);
}

static int build_corpus(struct building *b, const char *path, const riffle_text *texts,
                        size_t n_texts, struct rf_error *error)
{
    const struct rf_tokenizer *tokenizer = b->engine->tokenizer;
    int code = encode_texts(b, texts, n_texts, error);
    if (code) return code;
    size_t most = b->all.count + b->all.count / PIECE + n_texts;
    b->kept = rf_malloc(&b->engine->allocator, most, sizeof *b->kept, "the corpus", error);
    if (!b->kept) return RF_ERR_MEMORY;
    if (b->options->keep < 1.0f)
        code = refine_texts(b, n_texts, error);
    else
        for (size_t i = 0, from = 0; i < n_texts; from = b->ends[i++])
            keep_tokens(b, from, b->ends[i]);
    if (code) return code;
    return rf_corpus_write(path, b->kept, b->n_kept, rf_tokenizer_n_tokens(tokenizer),
                           rf_vocab_fingerprint(tokenizer), report_sorting, b,
                           &b->engine->allocator, error);
}

int rf_corpus_build(struct rf_engine *engine, const char *path, const riffle_text *texts,
                    size_t n_texts, const riffle_corpus_options *options, riffle_corpus_info *info,
                    struct rf_error *error)
{
    struct building b = {.engine = engine, .options = options};
    if (!(options->keep > 0.0f && options->keep <= 1.0f))
        return rf_fail(error, RF_ERR_ARGUMENT, "keep %g: not above 0 and up to 1",
                       (double)options->keep);
    b.ends = rf_malloc(&engine->allocator, n_texts, sizeof *b.ends, "the corpus", error);
    int code = b.ends ? build_corpus(&b, path, texts, n_texts, error) : RF_ERR_MEMORY;
    *info = (riffle_corpus_info){.tokens = b.all.count,
                                 .kept_tokens = b.kept_tokens,
                                 .bytes = code ? 0 : (uint64_t)rf_file_bytes(path)};
    rf_free(&engine->allocator, b.ends);
    rf_free(&engine->allocator, b.kept);
    rf_tokens_free(&engine->allocator, &b.all);
    return code;
}
