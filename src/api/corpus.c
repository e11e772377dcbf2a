/* riffle_corpus_build: texts to tokens, the pieces that the model finds likely, and the file. */
#include <riffle_experimental.h>

#include <math.h>
#include <stdlib.h>

#include "api/handles.h"
#include "platform/file.h"
#include "speculate/corpus.h"

enum { PIECE = 256 /* tokens that are scored together */ };

RF_API_OPTIONS(riffle_corpus_options, .keep = 1.0f)

uint64_t rf_api_vocabulary(const struct rf_tokenizer *tokenizer)
{
    uint64_t sum = 0xcbf29ce484222325u; /* FNV-1a */
    for (int32_t t = 0; t < rf_tokenizer_n_tokens(tokenizer); t++) {
        struct rf_str text = rf_token_text(tokenizer, t, 1);
        for (size_t i = 0; i < text.bytes; i++)
            sum = (sum ^ (unsigned char)text.data[i]) * 0x100000001b3u;
        sum = (sum ^ 256) * 0x100000001b3u;
    }
    return sum;
}

/* The texts in tokens, one after another. */
struct building {
    const riffle_model *model;
    const riffle_corpus_options *options;
    struct rf_tokens all;
    size_t *ends;   /* [n_texts], in `all` */
    uint32_t *kept; /* what is written; RF_CORPUS_END behind each text or piece */
    size_t n_kept, kept_tokens;
};

static int report(const struct building *b, const char *stage, uint64_t done, uint64_t total)
{
    return b->options->progress &&
           b->options->progress(b->options->progress_user, stage, done, total);
}

static int cancelled(struct rf_error *error)
{
    return rf_fail(error, RF_ERR_CANCELLED, "the corpus was not finished");
}

static int encode(struct building *b, const riffle_text *texts, size_t n_texts,
                  struct rf_error *error)
{
    for (size_t i = 0; i < n_texts; i++) {
        struct rf_segment segment = {.text = texts[i].data, .bytes = texts[i].bytes};
        int code = texts[i].bytes ? rf_tokenizer_encode(b->model->tokenizer, &segment, 1, 0,
                                                        &b->model->allocator, &b->all, error)
                                  : 0;
        if (code) return code;
        b->ends[i] = b->all.count;
        if (report(b, "tokenizing", i + 1, n_texts)) return cancelled(error);
    }
    return b->all.count ? 0 : rf_fail(error, RF_ERR_ARGUMENT, "a corpus of no text");
}

static void keep(struct building *b, size_t from, size_t to)
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
static int score(riffle_session *session, const struct building *b, struct piece *piece)
{
    double logprobs[PIECE], sum = 0;
    size_t n = piece->to - piece->from;
    piece->surprise = INFINITY;
    if (n < 2) return 0;
    int code = riffle_rewind(session, 0);
    if (!code) code = riffle_score(session, b->all.ids + piece->from, n, 1, logprobs);
    for (size_t i = 0; i + 1 < n && !code; i++) sum -= logprobs[i];
    piece->surprise = sum / (double)(n - 1);
    return code;
}

/* Keeps the pieces that the model finds likeliest, in the order of the texts. */
static int refine(struct building *b, struct piece *pieces, size_t n)
{
    riffle_session_options options;
    riffle_session *session;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = PIECE;
    options.chain = "none";
    int code = riffle_session_open(&session, (riffle_model *)b->model, &options);
    if (code) return code;
    for (size_t i = 0; i < n && !code; i++) {
        code = score(session, b, &pieces[i]);
        if (!code && report(b, "scoring", i + 1, n))
            code = rf_api_error(RIFFLE_ERR_CANCELLED, "the corpus was not finished");
    }
    riffle_session_close(session);
    if (code) return code;
    qsort(pieces, n, sizeof *pieces, by_surprise);
    size_t kept = (size_t)ceil((double)b->options->keep * (double)n);
    if (kept > n) kept = n;
    qsort(pieces, kept, sizeof *pieces, by_place);
    for (size_t i = 0; i < kept; i++) keep(b, pieces[i].from, pieces[i].to);
    return 0;
}

static int refine_texts(struct building *b, size_t n_texts)
{
    struct rf_error error;
    const struct rf_allocator *allocator = &b->model->allocator;
    size_t n = 0;
    struct piece *pieces = rf_malloc(allocator, b->all.count / PIECE + n_texts, sizeof *pieces,
                                     "the pieces of a corpus", &error);
    if (!pieces) return rf_api_fail(&error);
    for (size_t i = 0, from = 0; i < n_texts; i++)
        for (; from < b->ends[i]; from = pieces[n++].to)
            pieces[n] = (struct piece){.from = from,
                                       .to = b->ends[i] - from < PIECE ? b->ends[i] : from + PIECE};
    int code = refine(b, pieces, n);
    rf_free(allocator, pieces);
    return code;
}

static int write(void *user, uint64_t done, uint64_t total)
{
    return report(user, "sorting", done, total);
}

static int build(struct building *b, const char *path, const riffle_text *texts, size_t n_texts)
{
    struct rf_error error;
    const struct rf_tokenizer *tokenizer = b->model->tokenizer;
    int code = encode(b, texts, n_texts, &error);
    if (code) return rf_api_fail(&error);
    size_t most = b->all.count + b->all.count / PIECE + n_texts;
    b->kept = rf_malloc(&b->model->allocator, most, sizeof *b->kept, "the corpus", &error);
    if (!b->kept) return rf_api_fail(&error);
    if (b->options->keep < 1.0f)
        code = refine_texts(b, n_texts);
    else
        for (size_t i = 0, from = 0; i < n_texts; from = b->ends[i++]) keep(b, from, b->ends[i]);
    if (code) return code;
    code = rf_corpus_write(path, b->kept, b->n_kept, rf_tokenizer_n_tokens(tokenizer),
                           rf_api_vocabulary(tokenizer), write, b, &b->model->allocator, &error);
    return code ? rf_api_fail(&error) : 0;
}

int riffle_corpus_build(riffle_model *model, const char *path, const riffle_text *texts,
                        size_t n_texts, const riffle_corpus_options *options,
                        riffle_corpus_info *info, size_t info_size)
{
    riffle_corpus_options chosen;
    struct rf_error error;
    if (!model || !path || !texts || !n_texts)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s",
                            !model  ? "model is NULL"
                            : !path ? "path is NULL"
                                    : "there are no texts");
    int code = take_riffle_corpus_options(&chosen, options);
    if (code) return code;
    if (!(chosen.keep > 0.0f && chosen.keep <= 1.0f))
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "keep %g: not above 0 and up to 1",
                            (double)chosen.keep);
    struct building b = {.model = model, .options = &chosen};
    b.ends = rf_malloc(&model->allocator, n_texts, sizeof *b.ends, "the corpus", &error);
    code = b.ends ? build(&b, path, texts, n_texts) : rf_api_fail(&error);
    riffle_corpus_info found = {.tokens = b.all.count,
                                .kept_tokens = b.kept_tokens,
                                .bytes = code ? 0 : (uint64_t)rf_file_bytes(path)};
    rf_free(&model->allocator, b.ends);
    rf_free(&model->allocator, b.kept);
    rf_tokens_free(&model->allocator, &b.all);
    if (info && !code) rf_api_give(info, info_size, &found, sizeof found);
    return code;
}
