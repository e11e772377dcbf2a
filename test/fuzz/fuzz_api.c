/* A host that calls the interface in any order: sessions that are opened, read, generate, rewind,
 * fork, are cancelled from callbacks, saved, loaded and closed, while allocations fail. The input
 * is the script. Whatever happened, each session computes what a new one computes from its tokens.
 */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/memory.h"
#include "riffle.h"

enum { MAX_SESSIONS = 3, MAX_CALLS = 64, MAX_CTX = 160, VOCAB = 512 };

static riffle_model *model;
static char state_path[64];
static long allocations_left = -1; /* until one fails; -1: none does */

struct script {
    const uint8_t *data;
    size_t bytes, at;
};

static int next(struct script *script)
{
    return script->at < script->bytes ? script->data[script->at++] : 0;
}

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, riffle_last_error());
    abort();
}

static void *take(void *user, size_t bytes)
{
    (void)user;
    if (allocations_left == 0) return NULL;
    if (allocations_left > 0) allocations_left--;
    return rf_system_allocator.alloc(NULL, bytes);
}

static void give(void *user, void *memory, size_t bytes)
{
    (void)user;
    rf_system_allocator.release(NULL, memory, bytes);
}

static void open_model(void)
{
    static const riffle_allocator allocator = {take, give, NULL};
    riffle_model_options options;
    const char *path = getenv("RIFFLE_FUZZ_MODEL");
    riffle_model_options_init(&options, sizeof options);
    options.chat_template = "chatml";
    options.chain = "ngram > mxfp4";
    options.threads = 2;
    options.allocator = &allocator;
    if (riffle_model_open(&model, path ? path : "stories260K.gguf", &options) < 0) die("the model");
    snprintf(state_path, sizeof state_path, "/tmp/riffle-fuzz-%ld.state", (long)getpid());
}

static riffle_session *open_session(struct script *script)
{
    static const char *const chains[] = {NULL, "none", "ngram", "mxfp4"};
    riffle_session_options options;
    riffle_session *session = NULL;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = 1 + next(script) % MAX_CTX;
    options.threads = next(script) % 3;
    options.chain = chains[next(script) % 4];
    options.gamma = next(script) % 17;
    riffle_session_open(&session, model, &options);
    return session;
}

static int on_event(void *user, const riffle_event *event)
{
    int *left = user;
    (void)event;
    return (*left)-- == 0;
}

static void tokens_of(struct script *script, int32_t *tokens, size_t n)
{
    int seed = next(script);
    for (size_t i = 0; i < n; i++) tokens[i] = (int32_t)((seed + (int)i * (1 + seed % 7)) % VOCAB);
    if (n && next(script) == 255) tokens[n / 2] = VOCAB + seed; /* no such token */
}

static int64_t generate(riffle_session *session, struct script *script)
{
    static const char *const stop[] = {"the", "."};
    riffle_generate_options options;
    int left = next(script) % 40;
    riffle_generate_options_init(&options, sizeof options);
    options.max_tokens = 1 + next(script) % 24;
    options.ignore_eos = next(script) % 2;
    options.stop = stop;
    options.n_stop = (size_t)(next(script) % 3);
    return riffle_generate(session, &options, on_event, &left);
}

static int64_t set_sampling(riffle_session *session, struct script *script)
{
    riffle_sampling sampling;
    riffle_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = (float)next(script) / 100 - 0.1f;
    sampling.top_k = next(script) - 8;
    sampling.top_p = (float)next(script) / 250;
    sampling.repeat_penalty = (float)next(script) / 128;
    sampling.seed = (uint64_t)next(script);
    return riffle_session_set_sampling(session, &sampling);
}

static int64_t chat(riffle_session *session, struct script *script)
{
    static const char *const texts[] = {"Hi", "", "<|im_end|>", "a longer message about a dog"};
    riffle_message messages[3];
    size_t n = (size_t)(next(script) % 4);
    for (size_t i = 0; i < n; i++)
        messages[i] = (riffle_message){i % 2 ? "assistant" : "user", texts[next(script) % 4]};
    return riffle_chat_prefill(session, messages, n);
}

static int64_t read_or_score(riffle_session *session, struct script *script, int scores)
{
    int32_t tokens[MAX_CTX];
    double logprobs[MAX_CTX];
    size_t n = (size_t)(next(script) % 96);
    tokens_of(script, tokens, n);
    return scores ? riffle_score(session, tokens, n, (size_t)(next(script) % 4), logprobs)
                  : riffle_prefill(session, tokens, n);
}

static int64_t step(riffle_session *session)
{
    int32_t tokens[RIFFLE_MAX_DRAFT + 1];
    return riffle_step(session, tokens, RIFFLE_MAX_DRAFT + 1);
}

/* The session's logits, bit by bit, against those of a session that reads its tokens at once. */
static void check_session(riffle_session *session)
{
    static float logits[2][VOCAB];
    const int32_t *tokens;
    int32_t n = riffle_session_tokens(session, &tokens), n_ctx = riffle_session_n_ctx(session);
    if (n < 0 || n > n_ctx) die("the number of tokens");
    if (n == 0) return;
    riffle_session_options options;
    riffle_session *plain;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = n_ctx;
    options.chain = "none";
    riffle_stats stats;
    if (riffle_session_get_stats(session, &stats, sizeof stats) < 0) die("statistics");
    if (riffle_session_open(&plain, model, &options) < 0) die("a session");
    if (riffle_prefill(plain, tokens, (size_t)n) < 0) die("reading a session's tokens");
    if (riffle_logits(plain, logits[0], VOCAB) < 0) die("logits");
    if (riffle_logits(session, logits[1], VOCAB) < 0) die("logits after the script");
    riffle_session_close(plain);
    float most = 0;
    for (int i = 0; i < VOCAB; i++) most = logits[0][i] > most ? logits[0][i] : most;
    if (!(most < 1e6f)) die("logits are not numbers");
    if (memcmp(logits[0], logits[1], sizeof logits[0]) != 0) die("other bits than plain decoding");
}

static int64_t call(struct script *script, riffle_session **sessions)
{
    riffle_session **session = &sessions[next(script) % MAX_SESSIONS], **free_place = NULL;
    int number = next(script) % 13;
    for (int i = 0; i < MAX_SESSIONS; i++)
        if (!sessions[i]) free_place = &sessions[i];
    if (!*session) {
        *session = open_session(script);
        return 0;
    }
    int32_t n = riffle_session_tokens(*session, NULL);
    switch (number) {
    case 0:
    case 1: return read_or_score(*session, script, 0);
    case 2: return read_or_score(*session, script, 1);
    case 3:
    case 4: return generate(*session, script);
    case 5: return step(*session);
    case 6: return riffle_rewind(*session, n ? next(script) % (n + 1) : next(script) - 1);
    case 7: return free_place ? riffle_fork(free_place, *session) : 0;
    case 8: return riffle_state_save(*session, state_path);
    case 9: return riffle_state_load(*session, state_path);
    case 10: return set_sampling(*session, script);
    case 11: return chat(*session, script);
    default:
        riffle_session_close(*session);
        *session = NULL;
        return 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct script script = {data, bytes, 0};
    riffle_session *sessions[MAX_SESSIONS] = {NULL};
    if (!model) open_model();
    for (int i = 0; i < MAX_CALLS && script.at < script.bytes; i++) {
        int failing = next(&script);
        allocations_left = failing < 64 ? failing % 16 : -1;
        int64_t result = call(&script, sessions);
        allocations_left = -1;
        if (result < 0 && !riffle_last_error()[0]) die("an error without a sentence");
    }
    for (int i = 0; i < MAX_SESSIONS; i++) {
        if (sessions[i]) check_session(sessions[i]);
        riffle_session_close(sessions[i]);
    }
    remove(state_path);
    return 0;
}
