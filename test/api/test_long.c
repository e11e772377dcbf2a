/* Long contexts: what a session gets by default, and that 32,768 positions give the same ids in
 * blocks of any size, drafted or not. */
#include "api/answers.h"
#include "api/changed_model.h"

/* Sanitized builds see every path in an eighth of the context. */
enum { CONTEXT = IS_SANITIZED ? 4096 : 32768, PROMPT = CONTEXT - 168, TAIL = 300, WRITTEN = 150 };

static struct file file;
static int32_t text[PROMPT];

/* The tiny model, as if it were trained on so many positions. */
static riffle_model *open_trained_on(uint32_t n_ctx, const char *chain)
{
    char model_path[4096];
    temporary_path("long.gguf", model_path, sizeof model_path);
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.chain = chain;
    options.threads = 2;
    memcpy(behind(&file, "llama.context_length") + VALUE, &n_ctx, sizeof n_ctx);
    write_model(file.data, file.bytes, model_path);
    riffle_model *model;
    CHECK_OK(riffle_model_open(&model, model_path, &options));
    unlink(model_path);
    if (!model) exit(1);
    return model;
}

static void defaults(void)
{
    static const int32_t trained[] = {512, 20000, RIFFLE_DEFAULT_CTX, RIFFLE_DEFAULT_CTX + 1};
    for (int i = 0; i < 4; i++) {
        riffle_model *model = open_trained_on((uint32_t)trained[i], "none");
        int32_t n_ctx = 0, wanted = i < 3 ? trained[i] : RIFFLE_DEFAULT_CTX;
        uint64_t bytes = 0;
        CHECK_OK(riffle_session_cost(model, NULL, &n_ctx, &bytes));
        CHECK_INT(n_ctx, wanted);
        CHECK(bytes > (uint64_t)wanted * 600);
        riffle_session *session = open_session(model, 0, 1);
        CHECK_INT(riffle_session_n_ctx(session), wanted);
        riffle_session_close(session);
        riffle_model_close(model);
    }
}

static riffle_session *open_8_bits(riffle_model *model, const char *chain)
{
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.kv = "q8";
    options.chain = chain;
    options.gamma = strcmp(chain, "none") == 0 ? 0 : 5;
    options.threads = 2;
    riffle_session *session;
    if (CHECK_OK(riffle_session_open(&session, model, &options)) < 0) exit(1);
    CHECK_INT(riffle_session_n_ctx(session), CONTEXT);
    return session;
}

static char path[4096];

/* Loads all but the end of the text, reads that in blocks, and writes. */
static struct answer answer_in_blocks(riffle_model *model, const char *chain, int32_t block)
{
    static struct answer answer;
    answer = (struct answer){.n = 0};
    riffle_session *session = open_8_bits(model, chain);
    CHECK_OK(riffle_state_load(session, path));
    for (int32_t at = PROMPT - TAIL; at < PROMPT; at += block) {
        int32_t n = block < PROMPT - at ? block : PROMPT - at;
        CHECK_OK(riffle_prefill(session, text + at, (size_t)n));
    }
    add_tokens(session, WRITTEN, &answer);
    CHECK_INT(answer.n, WRITTEN);
    uint64_t accepted = 0, drafted = count_drafted(session, &accepted);
    CHECK_MSG((drafted > 0) == (strcmp(chain, "none") != 0), "%s drafted nothing", chain);
    riffle_session_close(session);
    return answer;
}

static void check_texts(riffle_model *model, const char *const *chains, int n_chains)
{
    static const int32_t blocks[] = {256, 1, 8};
    riffle_session *session = open_8_bits(model, "none");
    CHECK_OK(riffle_prefill(session, text, PROMPT - TAIL));
    CHECK_OK(riffle_state_save(session, path));
    riffle_session_close(session);
    struct answer wanted = answer_in_blocks(model, "none", blocks[0]), got;
    for (int i = 1; i < 3; i++) {
        got = answer_in_blocks(model, "none", blocks[i]);
        check_same_ids(&got, &wanted, "in smaller blocks");
    }
    for (int c = 0; c < n_chains; c++) {
        got = answer_in_blocks(model, chains[c], blocks[c % 3]);
        check_same_ids(&got, &wanted, chains[c]);
    }
    unlink(path);
}

int main(void)
{
    static const char *const chains[] = {"ngram > mxfp4:kv4", "mxfp4:window", "kv4", "window"};
    uint64_t random = 20260104;
    temporary_path("long-state", path, sizeof path);
    read_model(&file);
    defaults();
    riffle_model *model =
        open_trained_on(CONTEXT, "ngram > mxfp4:window > mxfp4:kv4 > window > kv4");
    for (int i = 0; i < PROMPT; i++) text[i] = (int32_t)(next_random(&random) % 512);
    check_texts(model, chains, IS_SANITIZED ? 2 : 4);
    riffle_model_close(model);
    return check_result();
}
