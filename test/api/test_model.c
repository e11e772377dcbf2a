/* Opening models, asking what is in them, text and tokens: the first section of riffle.h. */
#define _DEFAULT_SOURCE
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include <riffle_experimental.h>

#include "api/helpers.h"
#include "platform/file.h"

static void a_model_says_what_it_is(const riffle_model *model)
{
    riffle_model_info info;
    CHECK_OK(riffle_model_get_info(model, &info, sizeof info));
    CHECK_STR(info.architecture, "llama");
    CHECK_STR(info.container, "GGUF v3");
    CHECK_STR(info.tokenizer, "sentencepiece");
    CHECK_STR(info.chat_template, "chatml");
    CHECK_STR(info.weights, "bf16");
    CHECK_INT(info.n_layer, 5);
    CHECK_INT(info.n_embd, 64);
    CHECK_INT(info.n_head, 8);
    CHECK_INT(info.n_head_kv, 4);
    CHECK_INT(info.head_dim, 8);
    CHECK_INT(info.n_ff, 172);
    CHECK_INT(info.n_vocab, 512);
    CHECK_INT(info.n_ctx_train, 2048);
    CHECK_INT(info.bos_token, 1);
    CHECK_INT(info.eos_token, 2);
    CHECK_INT(info.adds_bos, 1);
    CHECK_INT(info.file_bytes, 1185376);
    const uint64_t kv =
        5 * 2 * 4 * 8 * 2; /* layers, keys and values, heads, elements, F16; rows may be padded */
    CHECK(info.kv_bytes_per_token >= kv && info.kv_bytes_per_token <= 2 * kv);
    CHECK(info.n_params > 250000 && info.n_params < 300000);
}

/* A caller built against an older header has smaller structures: nothing beyond their size is read
 * or written. */
static void older_structures_work(riffle_model *model)
{
    riffle_model_options options;
    memset(&options, 0xff, sizeof options);
    riffle_model_options_init(&options, offsetof(riffle_model_options, weights));
    CHECK_INT(options.struct_size, offsetof(riffle_model_options, weights));
    CHECK_INT((intptr_t)options.weights, -1);
    riffle_model *copy;
    if (CHECK_OK(riffle_model_open(&copy, TINY_MODEL, &options)) == 0) riffle_model_close(copy);

    riffle_model_info info;
    memset(&info, 0x5a, sizeof info);
    CHECK_OK(riffle_model_get_info(model, &info, offsetof(riffle_model_info, n_layer)));
    CHECK_STR(info.architecture, "llama");
    CHECK_INT(info.n_layer, 0x5a5a5a5a);

    memset(&options, 0, sizeof options);
    CHECK_FAILS(riffle_model_open(&copy, TINY_MODEL, &options), RIFFLE_ERR_ARGUMENT);
    CHECK(copy == NULL);
}

static void bad_models_are_refused(void)
{
    riffle_model *model = (riffle_model *)1;
    CHECK_FAILS(riffle_model_open(&model, "no/such/file.gguf", NULL), RIFFLE_ERR_IO);
    CHECK(model == NULL);
    CHECK(strstr(riffle_last_error(), "no/such/file.gguf") != NULL);
    CHECK_FAILS(riffle_model_open(&model, "golden/stories260K.txt", NULL), RIFFLE_ERR_FORMAT);
    CHECK(strstr(riffle_last_error(), "golden/stories260K.txt") != NULL);
    CHECK(riffle_model_open(&model, "golden", NULL) < 0);
    CHECK_FAILS(riffle_model_open(&model, "", NULL), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_quantize("", "out", "q4", NULL), RIFFLE_ERR_ARGUMENT);
    CHECK(strstr(riffle_last_error(), "in is an empty text") != NULL);
    CHECK_FAILS(riffle_quantize(TINY_MODEL, "", "q4", NULL), RIFFLE_ERR_ARGUMENT);
    CHECK(strstr(riffle_last_error(), "out is an empty text") != NULL);
    CHECK(model == NULL);

    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.weights = "fp7";
    CHECK_FAILS(riffle_model_open(&model, TINY_MODEL, &options), RIFFLE_ERR_ARGUMENT);
    CHECK(strstr(riffle_last_error(), "fp7") != NULL);
    riffle_model_options_init(&options, sizeof options);
    options.threads = -1;
    CHECK_FAILS(riffle_model_open(&model, TINY_MODEL, &options), RIFFLE_ERR_ARGUMENT);
    riffle_model_options_init(&options, sizeof options);
    options.chat_template = "nonsense";
    CHECK(riffle_model_open(&model, TINY_MODEL, &options) < 0);
    CHECK(strstr(riffle_last_error(), "nonsense") != NULL &&
          strstr(riffle_last_error(), "chatml") != NULL);
}

static void null_arguments_are_errors(riffle_model *model)
{
    int32_t token = 1;
    char text[8];
    riffle_model *opened = model;
    riffle_session *session = (riffle_session *)1;
    riffle_model_info info;
    CHECK_FAILS(riffle_model_open(NULL, TINY_MODEL, NULL), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_model_open(&opened, NULL, NULL), RIFFLE_ERR_ARGUMENT);
    CHECK(opened == NULL);
    CHECK_FAILS(riffle_model_get_info(NULL, &info, sizeof info), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_model_get_info(model, NULL, sizeof info), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_tokenize(NULL, "a", 1, 0, &token, 1), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_tokenize(model, NULL, 1, 0, &token, 1), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_tokenize(model, "a", 1, 0, NULL, 1), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_detokenize(NULL, &token, 1, 0, text, sizeof text), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_detokenize(model, NULL, 1, 0, text, sizeof text), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_detokenize(model, &token, 1, 0, NULL, sizeof text), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_chat_format(NULL, NULL, 0, 1, text, sizeof text), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_chat_format(model, NULL, 1, 1, text, sizeof text), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_session_open(NULL, model, NULL), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_session_open(&session, NULL, NULL), RIFFLE_ERR_ARGUMENT);
    CHECK(session == NULL);
    riffle_model_close(NULL);
    riffle_session_close(NULL);
    riffle_cancel(NULL);
}

static void text_goes_to_tokens_and_back(const riffle_model *model)
{
    static const char text[] = "Once upon a time, there was a caf\xc3\xa9.";
    int32_t tokens[64];
    int64_t n =
        CHECK_OK(riffle_tokenize(model, text, strlen(text), RIFFLE_TOKENIZE_BOS, tokens, 64));
    static const int32_t begin[] = {1, 403, 407, 261, 378};
    CHECK(n > 5 && memcmp(tokens, begin, sizeof begin) == 0);

    /* A short buffer gets what fits; the answer says what was needed. */
    int32_t few[3] = {-7, -7, -7};
    CHECK_INT(riffle_tokenize(model, text, strlen(text), RIFFLE_TOKENIZE_BOS, few, 2), n);
    CHECK(few[0] == 1 && few[1] == 403 && few[2] == -7);
    CHECK_INT(riffle_tokenize(model, text, strlen(text), RIFFLE_TOKENIZE_BOS, NULL, 0), n);
    CHECK_INT(riffle_tokenize(model, text, strlen(text), 0, NULL, 0), n - 1);

    char back[128];
    int64_t bytes = CHECK_OK(
        riffle_detokenize(model, tokens, (size_t)n, RIFFLE_DETOKENIZE_START, back, sizeof back));
    CHECK(bytes == (int64_t)strlen(text) && memcmp(back, text, (size_t)bytes) == 0);
    CHECK_INT(riffle_detokenize(model, tokens, (size_t)n, RIFFLE_DETOKENIZE_START, NULL, 0), bytes);
    /* In the middle of a text the space of the first word is a space. */
    CHECK_INT(riffle_detokenize(model, tokens + 1, 1, 0, back, sizeof back), 5);
    CHECK(memcmp(back, " Once", 5) == 0);

    /* The text of a special token is text, unless the caller asks. */
    CHECK(riffle_tokenize(model, "</s>", 4, 0, tokens, 64) > 1);
    CHECK_INT(riffle_tokenize(model, "", 0, 0, tokens, 64), 0);
    CHECK_INT(riffle_tokenize(model, NULL, 0, 0, tokens, 64), 0);

    static const int32_t outside[] = {512, -1};
    CHECK_FAILS(riffle_detokenize(model, outside, 1, 0, back, sizeof back), RIFFLE_ERR_ARGUMENT);
    CHECK_FAILS(riffle_detokenize(model, outside + 1, 1, 0, back, sizeof back),
                RIFFLE_ERR_ARGUMENT);
}

static void conversations_are_formatted(const riffle_model *model)
{
    static const riffle_message messages[] = {{"system", "Be kind."}, {"user", "Hello"}};
    static const char wanted[] =
        "<|im_start|>system\nBe "
        "kind.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n";
    char text[256];
    int64_t n = CHECK_OK(riffle_chat_format(model, messages, 2, 1, text, sizeof text));
    CHECK(n == (int64_t)strlen(wanted) && memcmp(text, wanted, (size_t)n) == 0);
    CHECK_INT(riffle_chat_format(model, messages, 2, 1, NULL, 0), n);
    static const riffle_message without_content[] = {{"user", NULL}};
    CHECK_FAILS(riffle_chat_format(model, without_content, 1, 1, text, sizeof text),
                RIFFLE_ERR_ARGUMENT);

    /* A file without a template and no name given: the error says how to choose. */
    riffle_model *plain;
    CHECK_OK(riffle_model_open(&plain, TINY_MODEL, NULL));
    CHECK(riffle_chat_format(plain, messages, 2, 1, text, sizeof text) < 0);
    CHECK(strstr(riffle_last_error(), "chat_template") != NULL);
    riffle_model_close(plain);
}

static void a_header_opens_without_weights(void)
{
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.flags = RIFFLE_OPEN_HEADER;
    riffle_model *model;
    CHECK_OK(riffle_model_open(&model, TINY_MODEL, &options));
    CHECK_INT(riffle_tokenize(model, "Once upon a time", 16, RIFFLE_TOKENIZE_BOS, NULL, 0), 5);
    riffle_session *session;
    CHECK_FAILS(riffle_session_open(&session, model, NULL), RIFFLE_ERR_ARGUMENT);
    CHECK(session == NULL);
    riffle_model_close(model);
}

/* The greedy answer with weights as asked for, on some threads; what the model says of itself goes
 * to *info, its strings to `weights` and `note`. */
static struct tokens answer(const char *asked, int32_t threads, riffle_model_info *info,
                            char weights[16], char note[256])
{
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.weights = asked;
    options.threads = threads;
    riffle_model *model;
    if (CHECK_OK(riffle_model_open(&model, QUANTISED_MODEL, &options)) < 0) exit(1);
    CHECK_OK(riffle_model_get_info(model, info, sizeof *info));
    snprintf(weights, 16, "%s", info->weights);
    snprintf(note, 256, "%s", info->weights_note);
    riffle_session *session = open_session(model, 128, threads);
    static const int32_t once_upon_a_time[] = {1, 403, 407, 261, 378};
    CHECK_OK(riffle_prefill(session, once_upon_a_time, 5));
    struct tokens tokens = generate(session, 60);
    riffle_session_close(session);
    riffle_model_close(model);
    return tokens;
}

static void quantised_files_run_in_their_own_bits(void)
{
    riffle_model_info stored, bf16;
    char weights[16], note[256];
    struct tokens first = answer("stored", 1, &stored, weights, note);
    CHECK_STR(weights, "stored");
    CHECK_STR(note, "F32 as BF16, Q5_0 as Q8_0");
    struct tokens second = answer("stored", 3, &stored, weights, note);
    CHECK(same_tokens(&first, &second));
    first = answer("bf16", 2, &bf16, weights, note);
    CHECK_STR(weights, "bf16");
    CHECK_STR(note, "");
    first = answer("stored", 1, &stored, weights, note);
    for (int i = 0; i < 2; i++) {
        second = answer(i ? "auto" : NULL, 1, &stored, weights, note);
        CHECK(same_tokens(&first, &second));
        CHECK_STR(weights, "stored");
    }
    CHECK_INT(stored.n_params, bf16.n_params);
    /* Per layer: in Q4_0 q and o [64][64], in Q4_1 k [32][64] and up [172][64], in 8 bits v
     * [32][64] and gate [172][64], where 172 rows take eleven panels; down [64][172] in BF16, two
     * norms of 64. Then the head in Q8_0 and its norm. */
    const uint64_t layer =
        2 * 64 * 36 + 32 * 40 + 176 * 40 + (32 + 176) * 68 + 64 * 172 * 2 + 2 * 64 * 4;
    CHECK_INT(stored.weight_bytes, 5 * layer + 512 * 68 + 64 * 4);
    CHECK(stored.resident_bytes < bf16.resident_bytes && stored.weight_bytes < bf16.weight_bytes);
    CHECK(stored.mapped_bytes >= 512 * 68); /* the embedding table among them */
}

/* log p of each token of a text but the first. */
static void score(const char *weights, const char *activations, const struct tokens *text,
                  double *logprobs)
{
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.weights = weights;
    options.activations = activations;
    riffle_model *model;
    riffle_model_info info;
    if (CHECK_OK(riffle_model_open(&model, QUANTISED_MODEL, &options)) < 0) exit(1);
    CHECK_OK(riffle_model_get_info(model, &info, sizeof info));
    CHECK_INT(info.activation_bits, strcmp(activations, "8") == 0 ? 8 : 16);
    CHECK_STR(info.activations_reason, "");
    riffle_session *session = open_session(model, MAX_TOKENS, 1);
    CHECK_OK(riffle_score(session, text->ids, (size_t)text->count, 1, logprobs));
    riffle_session_close(session);
    riffle_model_close(model);
}

/* Weights as stored and 16-bit activations are what weights widened to BF16 compute, but for
 * rounding: perplexity within 0.05 %, or three standard errors of so few tokens (sums of BF16
 * differ from tier to tier). Token by token, 8 bits are further away. */
static void sixteen_bits_are_close_to_bf16(riffle_model *tiny)
{
    riffle_session *session = open_session(tiny, MAX_TOKENS, 1);
    struct tokens text = tokenize(tiny, "Once upon a time, there was a little girl.");
    CHECK_OK(riffle_prefill(session, text.ids, (size_t)text.count));
    generate(session, MAX_TOKENS - text.count);
    text = session_tokens(session);
    riffle_session_close(session);
    static double bf16[MAX_TOKENS], in_16[MAX_TOKENS], in_8[MAX_TOKENS];
    score("bf16", "auto", &text, bf16);
    score("stored", "16", &text, in_16);
    score("auto", "8", &text, in_8);
    double shift = 0, squares = 0, off_16 = 0, off_8 = 0, n = text.count - 1;
    for (int32_t i = 0; i < text.count - 1; i++) {
        shift += (in_16[i] - bf16[i]) / n;
        squares += (in_16[i] - bf16[i]) * (in_16[i] - bf16[i]) / n;
        off_16 += fabs(in_16[i] - bf16[i]) / n;
        off_8 += fabs(in_8[i] - bf16[i]) / n;
    }
    double error = sqrt((squares - shift * shift) / n);
    CHECK_MSG(fabs(exp(shift) - 1) < fmax(0.0005, 3 * error), "16 bits are off by %.5f +- %.5f",
              shift, error);
    CHECK_MSG(off_16 < off_8 / 2, "a token's 8 bits are off by %.5f, 16 by %.5f", off_8, off_16);
}

static void activations_are_chosen(void)
{
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    CHECK_STR(options.activations, "auto");
    riffle_model *model;
    riffle_model_info info;
    static const char *const unknown[] = {"", "4", "16 ", "bf16"};
    for (int i = 0; i < 4; i++) {
        options.activations = unknown[i];
        CHECK_FAILS(riffle_model_open(&model, QUANTISED_MODEL, &options), RIFFLE_ERR_ARGUMENT);
        CHECK(strstr(riffle_last_error(), "auto, 8 and 16") != NULL);
    }
    options.flags = RIFFLE_OPEN_HEADER;
    options.activations = "auto";
    options.weights = "stored";
    CHECK_OK(riffle_model_open(&model, QUANTISED_MODEL, &options));
    CHECK_OK(riffle_model_get_info(model, &info, sizeof info));
    CHECK_INT(info.activation_bits, 16);
    CHECK(strstr(info.activations_reason, "300 million") != NULL);
    riffle_model_close(model);
    /* BF16 weights take 16 bits, whether they were asked for or not. */
    options.activations = "8";
    options.weights = "bf16";
    CHECK_FAILS(riffle_model_open(&model, QUANTISED_MODEL, &options), RIFFLE_ERR_ARGUMENT);
    CHECK(strstr(riffle_last_error(), "16 bits") != NULL);
    options.weights = "auto";
    CHECK_FAILS(riffle_model_open(&model, TINY_MODEL, &options), RIFFLE_ERR_ARGUMENT);
    options.activations = "16";
    CHECK_OK(riffle_model_open(&model, TINY_MODEL, &options));
    riffle_model_close(model);
}

/* "a8" only drafts for the same weights with 16 bits. */
static void a8_needs_16_bits(void)
{
    static const struct {
        const char *path, *weights, *activations, *sentence;
    } refused[] = {{QUANTISED_MODEL, "stored", "8", "computes with 8"},
                   {QUANTISED_MODEL, "bf16", "auto", "computes in BF16"},
                   {TINY_MODEL, "auto", "16", "computes in BF16"}};
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    riffle_model *model;
    riffle_model_info info;
    options.chain = "ngram > a8";
    for (int i = 0; i < 3; i++) {
        options.weights = refused[i].weights;
        options.activations = refused[i].activations;
        CHECK_FAILS(riffle_model_open(&model, refused[i].path, &options), RIFFLE_ERR_ARGUMENT);
        CHECK(strstr(riffle_last_error(), refused[i].sentence) != NULL);
    }
    options.weights = "stored";
    options.activations = "16";
    CHECK_OK(riffle_model_open(&model, QUANTISED_MODEL, &options));
    CHECK_OK(riffle_model_get_info(model, &info, sizeof info));
    CHECK_STR(info.chain, "ngram > a8 > target");
    CHECK_INT(info.draft_bytes, 0); /* the weights of one model */
    riffle_model_close(model);
}

static int stop_at_once(void *user, const char *stage, uint64_t done, uint64_t total)
{
    (void)stage, (void)done, (void)total;
    ++*(int *)user;
    return 1;
}

static void loading_can_be_cancelled(void)
{
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    int calls = 0;
    options.progress = stop_at_once;
    options.progress_user = &calls;
    riffle_model *model;
    CHECK_FAILS(riffle_model_open(&model, TINY_MODEL, &options), RIFFLE_ERR_CANCELLED);
    CHECK(model == NULL);
    CHECK_INT(calls, 1);
    CHECK_FAILS(riffle_model_open(&model, QUANTISED_MODEL, &options), RIFFLE_ERR_CANCELLED);
    CHECK(model == NULL);
    CHECK_INT(calls, 2);
}

static void a_lower_tier_can_be_forced(void)
{
    riffle_machine machine;
    CHECK_OK(riffle_machine_get(&machine, sizeof machine));
    CHECK(machine.cores > 0 && machine.memory_bytes > 0 && machine.peak_rss_bytes > 0);
    CHECK_STR(machine.note, "");
    CHECK_FAILS(riffle_set_cpu("z80"), RIFFLE_ERR_ARGUMENT);
    CHECK(strstr(riffle_last_error(), "z80") != NULL);
    CHECK_OK(riffle_set_cpu("scalar"));
    CHECK_OK(riffle_machine_get(&machine, sizeof machine));
    CHECK_STR(machine.cpu, "scalar");
    riffle_model *model;
    if (CHECK_OK(riffle_model_open(&model, TINY_MODEL, NULL)) == 0) riffle_model_close(model);
    CHECK_OK(riffle_set_cpu(NULL));
}

static void write_copy(const char *from, const char *to)
{
    char *data;
    size_t bytes;
    struct rf_error error;
    CHECK_INT(rf_slurp(from, 64 << 20, &data, &bytes, &error), 0);
    struct rf_span span = {data, bytes};
    CHECK_INT(rf_write_file(to, &span, 1, 0, &error), 0);
    free(data);
}

/* Another process makes the file shorter: an error, the session at its last token, no signal. With
 * a copy in memory nothing changes. */
static void a_shorter_file_is_an_error(uint32_t flags)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/riffle-test-%ld-shorter.gguf", (long)getpid());
    write_copy(QUANTISED_MODEL, path);
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.flags = flags;
    options.weights = "stored";
    riffle_model *model;
    CHECK_OK(riffle_model_open(&model, path, &options));
    riffle_session *session = open_session(model, 256, 2);
    struct tokens prompt = tokenize(model, "Once upon a time");
    CHECK_OK(riffle_prefill(session, prompt.ids, (size_t)prompt.count));
    CHECK_INT(truncate(path, 4096), 0);
    riffle_generate_options limit;
    riffle_generate_options_init(&limit, sizeof limit);
    limit.max_tokens = 8;
    if (flags & RIFFLE_OPEN_COPY) {
        CHECK_INT(CHECK_OK(riffle_generate(session, &limit, NULL, NULL)), 8);
    } else {
        CHECK_FAILS(riffle_generate(session, &limit, NULL, NULL), RIFFLE_ERR_IO);
        CHECK(strstr(riffle_last_error(), path) && strstr(riffle_last_error(), "shorter"));
        /* The answer of the prompt's pass may be committed. */
        int32_t n = riffle_session_tokens(session, NULL);
        CHECK(n == prompt.count || n == prompt.count + 1);
        CHECK_FAILS(riffle_tokenize(model, "a", 1, 0, NULL, 0), RIFFLE_ERR_IO);
        riffle_model *none;
        CHECK_FAILS(riffle_model_open(&none, path, &options), RIFFLE_ERR_FORMAT);
    }
    riffle_session_close(session);
    riffle_model_close(model);
    remove(path);
}

static void codes_have_names(void)
{
    for (int code = 0; code >= -9; code--) CHECK(riffle_strerror(code)[0] != '\0');
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", RIFFLE_VERSION_MAJOR, RIFFLE_VERSION_MINOR,
             RIFFLE_VERSION_PATCH);
    CHECK_STR(riffle_version(), version);
}

/* The devices that riffle_devices lists. */
struct devices {
    int count, usable;
    char first[32];
};

static int count_device(void *user, const riffle_device *device)
{
    struct devices *devices = user;
    if (devices->count++ == 0) snprintf(devices->first, sizeof devices->first, "%s", device->name);
    devices->usable += !device->problem[0];
    CHECK((device->problem[0] != '\0') == (device->memory_bytes == 0));
    return 0;
}

static void devices_are_chosen_by_name(void)
{
    static const char *const unknown[] = {"gpu", "cud", "cudas", "cuda:", "cuda:x", "cuda:1x"};
    struct devices devices = {0};
    riffle_model_options options;
    riffle_model_info info;
    riffle_model *model;
    CHECK_OK(riffle_devices(count_device, &devices));
    CHECK_STR(devices.first, "cpu");
    CHECK(devices.count >= 2 && devices.usable >= 1);
    CHECK_INT(riffle_devices(NULL, NULL), RIFFLE_ERR_ARGUMENT);
    riffle_model_options_init(&options, sizeof options);
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        options.device = unknown[i];
        CHECK_INT(riffle_model_open(&model, "stories260K.gguf", &options), RIFFLE_ERR_ARGUMENT);
        CHECK(strstr(riffle_last_error(), unknown[i]) != NULL);
    }
    options.device = "cuda";
    if (devices.usable == 1)
        CHECK_INT(riffle_model_open(&model, "stories260K.gguf", &options), RIFFLE_ERR_UNSUPPORTED);
    /* Without a CUDA device, "auto" is the processor and says why. */
    options.device = "auto";
    CHECK_OK(riffle_model_open(&model, "stories260K.gguf", &options));
    CHECK_OK(riffle_model_get_info(model, &info, sizeof info));
    CHECK_STR(info.device, devices.usable > 1 ? "cuda:0" : "cpu");
    CHECK_INT(info.device_note[0] != '\0', devices.usable == 1);
    riffle_model_close(model);
}

/* Signals belong to the host. */
static int has_bus_handler(void)
{
    struct sigaction action;
    CHECK_INT(sigaction(SIGBUS, NULL, &action), 0);
    return action.sa_flags & SA_SIGINFO || action.sa_handler != SIG_DFL;
}

int main(void)
{
    CHECK_STR(riffle_last_error(), "");
    int instrumented = has_bus_handler();
    riffle_model *model = open_tiny_model();
    riffle_session_close(open_session(model, 64, 1));
    CHECK(instrumented || !has_bus_handler());
    CHECK_OK(riffle_guard_files());
    CHECK_OK(riffle_guard_files());
    CHECK(has_bus_handler());
    a_model_says_what_it_is(model);
    older_structures_work(model);
    bad_models_are_refused();
    null_arguments_are_errors(model);
    text_goes_to_tokens_and_back(model);
    conversations_are_formatted(model);
    a_header_opens_without_weights();
    quantised_files_run_in_their_own_bits();
    sixteen_bits_are_close_to_bf16(model);
    activations_are_chosen();
    a8_needs_16_bits();
    loading_can_be_cancelled();
    a_lower_tier_can_be_forced();
    a_shorter_file_is_an_error(0);
    a_shorter_file_is_an_error(RIFFLE_OPEN_COPY);
    codes_have_names();
    devices_are_chosen_by_name();
    riffle_model_close(model);
    return check_result();
}
