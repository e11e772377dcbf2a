/* An answer that only repeats itself ends, at the same token with any chain, and says why. The
 * model is the small one, changed so that it says the same few tokens for ever. */
#include "api/answers.h"
#include "api/changed_model.h"

enum { LONGEST = 3000, PERIOD = 7, FIRST = 300 };

struct told {
    int32_t tokens[LONGEST];
    int32_t n;
};

static int keep(void *user, const riffle_event *event)
{
    struct told *told = user;
    if (event->token >= 0 && told->n < LONGEST) told->tokens[told->n++] = event->token;
    return 0;
}

static riffle_session *open_chain(riffle_model *model, const char *chain, int32_t gamma)
{
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = 4096;
    options.threads = 1;
    options.chain = chain;
    options.gamma = gamma;
    riffle_session *session;
    if (CHECK_OK(riffle_session_open(&session, model, &options)) < 0) exit(1);
    return session;
}

/* Generates up to max_tokens after a prompt. */
static riffle_finish answer(riffle_session *session, int32_t max_tokens, int ignores,
                            struct told *told, const char **sentence)
{
    static const int32_t prompt[] = {1, 403, 407, 261, FIRST};
    riffle_generate_options options;
    riffle_generate_options_init(&options, sizeof options);
    options.max_tokens = max_tokens;
    options.ignore_eos = 1;
    options.ignore_repetition = ignores;
    told->n = 0;
    CHECK_OK(riffle_rewind(session, 0));
    CHECK_OK(riffle_prefill(session, prompt, 5));
    CHECK_INT(CHECK_OK(riffle_generate(session, &options, keep, told)), told->n);
    CHECK_INT(riffle_session_tokens(session, NULL), 5 + told->n);
    return riffle_session_finish(session, sentence);
}

static void it_ends_alike_with_any_chain(riffle_model *model)
{
    static struct told plain, other;
    const char *sentence;
    riffle_session *session = open_chain(model, "none", 0);
    CHECK_INT(answer(session, LONGEST, 0, &plain, &sentence), RIFFLE_FINISH_REPETITION);
    CHECK(strstr(sentence, "ignore_repetition") != NULL);
    CHECK_INT(plain.n, 512 + 8 * PERIOD);
    for (int32_t i = 0; i < plain.n; i++) CHECK_INT(plain.tokens[i], FIRST + (i + 1) % PERIOD);

    /* It is no error: the text can go on, which counts as a new answer. */
    int32_t next;
    CHECK_INT(CHECK_OK(riffle_step(session, &next, 1)), 1);

    /* One token less, and it did not end for this reason. */
    CHECK_INT(answer(session, plain.n - 1, 0, &other, &sentence), RIFFLE_FINISH_LENGTH);
    CHECK_STR(sentence, "");
    CHECK_INT(answer(session, plain.n + 40, 1, &other, &sentence), RIFFLE_FINISH_LENGTH);
    CHECK_INT(other.n, plain.n + 40);
    riffle_session_close(session);

    static const struct {
        const char *chain;
        int32_t gamma;
    } chains[] = {{NULL, 0}, {"ngram", 15}, {"ngram", 3}, {"q4", 5}};
    for (size_t c = 0; c < sizeof chains / sizeof *chains; c++) {
        session = open_chain(model, chains[c].chain, chains[c].gamma);
        CHECK_INT(answer(session, LONGEST, 0, &other, &sentence), RIFFLE_FINISH_REPETITION);
        CHECK_INT(other.n, plain.n);
        CHECK(memcmp(other.tokens, plain.tokens, (size_t)plain.n * sizeof *plain.tokens) == 0);
        riffle_session_close(session);
    }
}

/* Layers that add nothing, and an output head in which each token of the cycle looks for the one
 * before it. */
static void say_the_same_for_ever(struct file *file)
{
    static const int32_t n_ctx = 4096;
    memcpy(behind(file, "llama.context_length") + VALUE, &n_ctx, sizeof n_ctx);
    for (int layer = 0; layer < 5; layer++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.attn_output.weight", layer);
        memset(tensor_data(file, name), 0, 64 * ROW);
        snprintf(name, sizeof name, "blk.%d.ffn_down.weight", layer);
        memset(tensor_data(file, name), 0, 172 * ROW);
    }
    unsigned char *embedding = tensor_data(file, "token_embd.weight"),
                  *output = tensor_data(file, "output.weight");
    memset(output, 0, VOCAB * ROW);
    for (int i = 0; i < PERIOD; i++)
        memcpy(output + ROW * (size_t)(FIRST + (i + 1) % PERIOD),
               embedding + ROW * (size_t)(FIRST + i), ROW);
}

int main(void)
{
    static struct file file;
    char path[4096];
    temporary_path("same.gguf", path, sizeof path);
    read_model(&file);
    say_the_same_for_ever(&file);
    write_model(file.data, file.bytes, path);

    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.chain = "ngram > q4";
    riffle_model *model;
    if (CHECK_OK(riffle_model_open(&model, path, &options)) == 0)
        it_ends_alike_with_any_chain(model);
    riffle_model_close(model);
    remove(path);
    return check_result();
}
