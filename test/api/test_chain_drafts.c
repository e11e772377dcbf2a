/* Draft models that nobody would choose: with another vocabulary, with a shorter one, with a
 * context that is too small, with weights that are no numbers. The text is the target's own, the
 * draft gives what it can, and it is never an error. The drafts are the small model itself, its
 * file changed. */
#include <math.h>

#include "api/answers.h"
#include "api/changed_model.h"
#include "model/gguf_writer.h"
#include "riffle_experimental.h"

/* Cuts the tables of `data` to `kept` rows and moves what lies behind them. */
static void cut_tables(struct file *file, unsigned char *data, uint64_t kept)
{
    unsigned char *at = behind(file, "token_embd.weight") - strlen("token_embd.weight") - 8;
    uint64_t removed = 0, cut = (VOCAB - kept) * ROW;
    for (uint64_t i = number_at(file->data + 8); i > 0; i--) {
        at += 8 + number_at(at);
        uint32_t n_dims;
        memcpy(&n_dims, at, sizeof n_dims);
        unsigned char *ne = at + 4, *offset = ne + 8 * n_dims + 4;
        uint64_t place = number_at(offset) - removed;
        memcpy(offset, &place, 8);
        at = offset + 8;
        if (n_dims != 2 || number_at(ne + 8) != VOCAB) continue;
        memcpy(ne + 8, &kept, 8);
        unsigned char *end = data + place + kept * ROW;
        file->bytes -= (size_t)cut;
        memmove(end, end + cut, (size_t)(file->data + file->bytes - end));
        removed += cut;
    }
}

/* The same model without its last tokens. */
static void shorten(struct file *file, int n)
{
    unsigned char *from = behind(file, "tokenizer.ggml.tokens") + ARRAY,
                  *data = tensor_data(file, "token_embd.weight");
    static const char *const arrays[] = {"tokenizer.ggml.scores", "tokenizer.ggml.token_type"};
    uint64_t kept = (uint64_t)(VOCAB - n);
    cut_tables(file, data, kept);
    memcpy(from - 8, &kept, 8);
    size_t removed = 0;
    for (int i = 0; i < VOCAB - n; i++) from += 8 + number_at(from);
    for (int a = -1; a < 2; a++) {
        unsigned char *to = from;
        if (a >= 0) {
            from = behind(file, arrays[a]) + ARRAY;
            memcpy(from - 8, &kept, 8);
            from += 4 * kept;
            to = from + 4 * n;
        } else {
            for (int i = 0; i < n; i++) to += 8 + number_at(to);
        }
        memmove(from, to, (size_t)(data - to));
        removed += (size_t)(to - from);
        memset(data - (to - from), 0, (size_t)(to - from));
    }
    /* The header ends before data - removed; what the data is aligned to stays. */
    size_t whole = removed / 32 * 32, bytes = (size_t)(file->data + file->bytes - data);
    memmove(data - whole, data, bytes);
    file->bytes -= whole;
}

/* ---- */

static struct prompt prompts[N_PROMPTS];
static struct answer greedy[N_PROMPTS], drawn[N_PROMPTS];
enum { LONG = 120, EVERY = IS_SANITIZED ? 5 : 1 /* one prompt in so many is taken */ };

static void set_drawing(riffle_session *session, int on)
{
    riffle_sampling sampling;
    riffle_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = on ? 1.0f : 0.0f;
    sampling.repeat_penalty = on ? 1.1f : 1.0f;
    CHECK_OK(riffle_session_set_sampling(session, &sampling));
}

static riffle_model *open_with_draft(const char *chain, const char *draft)
{
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.chain = chain;
    options.draft = draft;
    riffle_model *model;
    if (riffle_model_open(&model, TINY_MODEL, &options) < 0) {
        fprintf(stderr, "%s\n", riffle_last_error());
        exit(1);
    }
    return model;
}

static void answer_all(riffle_session *session, struct answer *answers, int draws)
{
    set_drawing(session, draws);
    for (int p = 0; p < N_PROMPTS; p += EVERY) {
        begin(session, &prompts[p]);
        answers[p] = (struct answer){.n = 0};
        add_tokens(session, LONG, &answers[p]);
    }
}

static void answer_plainly(void)
{
    riffle_model *model = open_with_draft("none", NULL);
    make_prompts(model, prompts);
    riffle_session *session = open_with(model, &(struct setting){.chain = "none", .threads = 1});
    answer_all(session, greedy, 0);
    answer_all(session, drawn, 1);
    riffle_session_close(session);
    riffle_model_close(model);
}

struct drafted {
    uint64_t drafted, accepted;
};

/* All prompts, greedy and drawn, by rounds of 4 and by the pace. Returns what was drafted in the
 * former. */
static struct drafted check_draft(const char *chain, const char *draft, int32_t n_ctx,
                                  const char *what)
{
    static struct answer got[N_PROMPTS];
    struct drafted found = {0, 0};
    riffle_model *model = open_with_draft(chain, draft);
    for (int32_t gamma = 0; gamma <= 4; gamma += 4) {
        riffle_session *session =
            open_with(model, &(struct setting){.gamma = gamma, .n_ctx = n_ctx, .threads = 1});
        for (int draws = 0; draws < 2; draws++) {
            answer_all(session, got, draws);
            for (int p = 0; p < N_PROMPTS; p += EVERY)
                check_same_answer(&got[p], draws ? &drawn[p] : &greedy[p], what);
            if (gamma && !draws) found.drafted = count_drafted(session, &found.accepted);
        }
        riffle_session_close(session);
    }
    riffle_model_close(model);
    return found;
}

static void another_vocabulary(const char *path)
{
    static struct file file;
    read_model(&file);
    change_places(&file);
    write_model(file.data, file.bytes, path);
    struct drafted found = check_draft("draft", path, 0, "pieces in other places");
    CHECK_MSG(found.accepted > found.drafted / 2, "of %llu translated tokens %llu were right",
              (unsigned long long)found.drafted, (unsigned long long)found.accepted);
    found = check_draft("ngram > draft:mxfp4 > mxfp4", path, 600,
                        "pieces in other places, below a cast");
    CHECK(found.accepted > 0);
}

static void fill(unsigned char *data, size_t bytes, uint64_t *random)
{
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        float x = (float)(next_random(random) % 2001) / 1000.0f - 1.0f;
        memcpy(data + i, &x, sizeof x);
    }
}

/* Random weights under a byte-level vocabulary of letters, which lacks most characters and needs
 * several tokens for each of the target's. */
static void a_vocabulary_of_letters(const char *path)
{
    static struct w_file file;
    static const char *const merges[] = {"t h", "th e", "\xc4\xa0 a"};
    static const char *const more[] = {"th",
                                       "the",
                                       "\xc4\xa0",
                                       "\xc4\xa0"
                                       "a",
                                       ".",
                                       "\xc4\x8a",
                                       "<|end|>"};
    char letters[26][2];
    const char *tokens[33];
    int32_t types[33];
    for (int i = 0; i < 26; i++) {
        letters[i][0] = (char)('a' + i);
        letters[i][1] = 0;
        tokens[i] = letters[i];
    }
    memcpy(tokens + 26, more, sizeof more);
    for (int i = 0; i < 33; i++) types[i] = i == 32 ? 3 : 1;
    w_model(&file, "qwen2", 33);
    w_tensor(&file, "blk.0.attn_q.bias", 8, 0);
    w_tensor(&file, "blk.0.attn_k.bias", 4, 0);
    w_tensor(&file, "blk.0.attn_v.bias", 4, 0);
    w_string(&file, "tokenizer.ggml.model", "gpt2");
    w_string(&file, "tokenizer.ggml.pre", "qwen2");
    w_strings(&file, "tokenizer.ggml.tokens", tokens, 33);
    w_strings(&file, "tokenizer.ggml.merges", merges, 3);
    w_numbers(&file, "tokenizer.ggml.token_type", W_I32, types, 33);
    w_u32(&file, "tokenizer.ggml.eos_token_id", 32);
    uint64_t random = 31;
    static const uint32_t contexts[] = {64, 16, 300};
    for (int c = 0; c < 3; c++) {
        size_t bytes, header_bytes;
        w_u32(&file, "qwen2.context_length", contexts[c]);
        unsigned char *data = w_bytes(&file, &bytes, &header_bytes);
        fill(data + header_bytes, bytes - header_bytes, &random);
        write_model(data, bytes, path);
        free(data);
        struct drafted found = check_draft("ngram > draft > mxfp4", path, 0, "letters");
        CHECK(found.drafted > 0);
        found = check_draft("draft", path, 0, "letters alone");
        CHECK_MSG((found.drafted > 0) == (contexts[c] > 16),
                  "letters, context %u: %llu tokens were drafted", contexts[c],
                  (unsigned long long)found.drafted);
    }
}

static void a_shorter_vocabulary(const char *path)
{
    static struct file file;
    char chain[4200];
    read_model(&file);
    shorten(&file, 24);
    write_model(file.data, file.bytes, path);
    struct drafted found = check_draft("draft", path, 0, "a shorter vocabulary");
    CHECK(found.accepted > 0);
    /* Its tokens are drafted by a model that has more of them. */
    snprintf(chain, sizeof chain, "ngram > %s > draft", QUANTISED_MODEL);
    found = check_draft(chain, path, 0, "a shorter vocabulary, above a longer one");
    CHECK(found.accepted > 0);
    snprintf(chain, sizeof chain, "draft > %s > mxfp4", QUANTISED_MODEL);
    found = check_draft(chain, path, 0, "a shorter vocabulary, below a longer one");
    CHECK(found.accepted > 0);
}

static void a_small_context(const char *path)
{
    static struct file file;
    static const uint32_t contexts[] = {1, 2, 15, 16, 17, 18, 24, 40, 64};
    for (size_t c = 0; c < sizeof contexts / sizeof *contexts; c++) {
        read_model(&file);
        memcpy(behind(&file, "llama.context_length") + VALUE, &contexts[c], 4);
        write_model(file.data, file.bytes, path);
        struct drafted found = check_draft("draft", path, 0, "a small context");
        CHECK_MSG((found.accepted > 0) == (contexts[c] >= 17), "context %u: %llu tokens were right",
                  contexts[c], (unsigned long long)found.accepted);
        if (contexts[c] < 17 || contexts[c] == 40)
            check_draft("ngram > draft > mxfp4", path, 0, "a small context, between others");
        change_places(&file);
        write_model(file.data, file.bytes, path);
        check_draft("draft", path, 0, "a small context of another vocabulary");
    }
}

/* A model whose file is damaged in a way that its reader cannot see. */
static void no_numbers(const char *path)
{
    static struct file file;
    const float nan = NAN;
    for (int foreign = 0; foreign < 2; foreign++) {
        read_model(&file);
        if (foreign) change_places(&file);
        memcpy(tensor_data(&file, "blk.2.attn_v.weight") + 4 * 100, &nan, sizeof nan);
        write_model(file.data, file.bytes, path);
        struct drafted found = check_draft("draft", path, 0, "no numbers");
        CHECK_INT(found.drafted, 0);
        found = check_draft("ngram > draft > mxfp4", path, 0, "no numbers between others");
        CHECK(found.accepted > 0);
    }
}

/* A session's levels are found by name and form, and shown as what they are. */
static void levels_have_names(void)
{
    riffle_model *model = open_with_draft("draft:mxfp4 > draft:bf16 > q4", QUANTISED_MODEL);
    static const struct {
        const char *chain, *shown; /* NULL: there is none */
    } cases[] = {{"draft", "draft:mxfp4 > target"},
                 {"draft:bf16", "draft:bf16 > target"},
                 {"draft:mxfp4 > q4", "draft:mxfp4 > q4 > target"},
                 {"none", "target"},
                 {NULL, "draft:mxfp4 > draft:bf16 > q4 > target"},
                 {"auto", "draft:mxfp4 > draft:bf16 > q4 > target"},
                 {"draft:q4", NULL},
                 {"mxfp4", NULL},
                 {"ngram", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        riffle_session_options options;
        riffle_session_options_init(&options, sizeof options);
        options.chain = cases[i].chain;
        riffle_session *session;
        riffle_stats stats;
        if (!cases[i].shown) {
            CHECK_FAILS(riffle_session_open(&session, model, &options), RIFFLE_ERR_ARGUMENT);
            CHECK(strstr(riffle_last_error(), cases[i].chain) != NULL);
            continue;
        }
        if (CHECK_OK(riffle_session_open(&session, model, &options)) < 0) continue;
        CHECK_OK(riffle_session_get_stats(session, &stats, sizeof stats));
        CHECK_STR(stats.chain, cases[i].shown);
        riffle_session_close(session);
    }
    riffle_model_close(model);
}

/* After each round the session tells what was drafted in it. What was kept of that are the round's
 * tokens but the last, the target's own. */
static void drafts_are_told(void)
{
    riffle_model *model = open_with_draft("ngram", NULL);
    riffle_session *session = open_with(
        model, &(struct setting){.chain = "ngram", .gamma = 8, .n_ctx = 1024, .threads = 1});
    riffle_draft_row rows[RIFFLE_DRAFT_ROWS];
    int64_t drafted = 0, kept = 0;
    make_prompts(model, prompts);
    CHECK_OK(riffle_prefill(session, prompts[3].tokens, (size_t)prompts[3].n));
    CHECK_INT(riffle_session_draft(session, rows, RIFFLE_DRAFT_ROWS), 0);
    for (int round = 0; round < 60; round++) {
        int32_t tokens[16], path = 0;
        int64_t made = CHECK_OK(riffle_step(session, tokens, 16));
        int32_t n = riffle_session_draft(session, rows, RIFFLE_DRAFT_ROWS);
        CHECK(n >= 0 && n <= RIFFLE_DRAFT_ROWS);
        for (int32_t i = 0, last = -1; i < n; i++) {
            CHECK(rows[i].parent >= -1 && rows[i].parent < i);
            CHECK_INT(rows[i].level, 0);
            CHECK(rows[i].confidence >= 0.0f && rows[i].confidence <= 1.0f);
            if (!rows[i].kept) continue;
            CHECK_INT(rows[i].parent, last);
            CHECK_INT(rows[i].token, tokens[path]);
            path++;
            last = i;
        }
        CHECK_INT(path, made - 1);
        CHECK_INT(riffle_session_draft(session, rows, 1), n); /* the first row alone */
        drafted += n;
        kept += path;
    }
    CHECK(drafted > 0 && kept > 0);
    riffle_stats stats;
    CHECK_OK(riffle_session_get_stats(session, &stats, sizeof stats));
    CHECK_INT(drafted, stats.levels[0].drafted);
    CHECK_INT(kept, stats.levels[0].accepted);
    CHECK_FAILS(riffle_session_draft(NULL, rows, 1), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_session_draft(session, NULL, 1), RIFFLE_ERR_ARGUMENT);
    riffle_session_close(session);
    riffle_model_close(model);
}

int main(void)
{
    char path[4096];
    temporary_path("draft.gguf", path, sizeof path);
    answer_plainly();
    another_vocabulary(path);
    a_vocabulary_of_letters(path);
    a_shorter_vocabulary(path);
    a_small_context(path);
    no_numbers(path);
    levels_have_names();
    drafts_are_told();
    remove(path);
    return check_result();
}
