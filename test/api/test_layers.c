/* Models with some of their layers on a device and the others on the processor: how many they are,
 * and that they answer as on one device.
 *
 *     test_layers [cuda]     on a CUDA device; without it on the plain one, whose memory is told */
#define _DEFAULT_SOURCE
#include <unistd.h>

#include "api/helpers.h"
#include "devices/devices.h"
#include "support/plain_backend.h"

enum { N_LAYER = 5, N_VOCAB = 512, N_EMBD = 64, N_TOKENS = 40, N_CTX = 128 };

static const char prompt[] = "Once upon a time, there was a little girl named";

static riffle_model_options options_of(const char *device, const char *gpu_layers)
{
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.device = device;
    options.gpu_layers = gpu_layers;
    options.session_ctx = N_CTX;
    return options;
}

static riffle_model *open_with(const riffle_model_options *options, riffle_model_info *info)
{
    riffle_model *model = NULL;
    if (CHECK_OK(riffle_model_open(&model, TINY_MODEL, options)) < 0) exit(1);
    CHECK_OK(riffle_model_get_info(model, info, sizeof *info));
    return model;
}

static struct tokens answer(riffle_model *model, const char *chain, const char *state)
{
    struct tokens read = tokenize(model, prompt);
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = N_CTX;
    options.threads = 2;
    options.chain = chain;
    riffle_session *session = NULL;
    if (CHECK_OK(riffle_session_open(&session, model, &options)) < 0) exit(1);
    CHECK_OK(riffle_prefill(session, read.ids, (size_t)read.count));
    struct tokens made = generate(session, N_TOKENS);
    if (state) CHECK_OK(riffle_state_save(session, state));
    riffle_session_close(session);
    return made;
}

/* The text that follows a state written by a model on other devices. */
static struct tokens go_on(riffle_model *model, const char *state)
{
    riffle_session *session = open_session(model, N_CTX, 2);
    CHECK_OK(riffle_state_load(session, state));
    struct tokens made = generate(session, N_TOKENS);
    riffle_session_close(session);
    return made;
}

/* Any number of layers, with drafts and without; states move between all of them. */
static void answers_are_the_same(const char *device)
{
    static const char *const chains[] = {"none", "ngram > mxfp4"};
    char state[] = "/tmp/riffle-layers-XXXXXX", number[16];
    int file = mkstemp(state);
    if (file < 0) exit(1);
    close(file);
    riffle_model_info info;
    riffle_model_options options = options_of("cpu", NULL);
    riffle_model *model = open_with(&options, &info);
    CHECK_INT(info.n_layer, N_LAYER);
    CHECK_INT(info.device_layers, N_LAYER);
    struct tokens wanted = answer(model, "none", state), next = go_on(model, state);
    riffle_model_close(model);
    for (int n = 0; n <= N_LAYER; n++) {
        snprintf(number, sizeof number, "%d", n);
        options = options_of(device, number);
        options.chain = chains[1];
        model = open_with(&options, &info);
        CHECK_INT(strncmp(info.device, n ? device : "cpu", strlen(n ? device : "cpu")), 0);
        CHECK_INT(info.device_layers, n ? n : N_LAYER);
        CHECK_INT(info.layers_note[0] != 0, n > 0 && n < N_LAYER);
        CHECK_INT(info.device_note[0] != 0, n == 0);
        struct tokens got = go_on(model, state);
        CHECK_MSG(same_tokens(&got, &next), "%d layers: another text after a state", n);
        for (int c = 0; c < 2; c++) {
            got = answer(model, chains[c], state);
            CHECK_MSG(same_tokens(&got, &wanted), "%d layers, %s: another text", n, chains[c]);
        }
        riffle_model_close(model);
    }
    remove(state);
}

static void check_refused(const char *device, const char *gpu_layers, int code,
                          const char *sentence)
{
    riffle_model *model;
    riffle_model_options options = options_of(device, gpu_layers);
    CHECK_FAILS(riffle_model_open(&model, TINY_MODEL, &options), code);
    CHECK_MSG(strstr(riffle_last_error(), sentence), "%s: not \"%s\"", riffle_last_error(),
              sentence);
}

static void wrong_numbers_are_refused(void)
{
    check_refused("plain", "most", RIFFLE_ERR_ARGUMENT, "known are auto, all and numbers");
    check_refused("plain", "-1", RIFFLE_ERR_ARGUMENT, "known are auto, all and numbers");
    check_refused("plain", "2x", RIFFLE_ERR_ARGUMENT, "known are auto, all and numbers");
    check_refused("plain", "6", RIFFLE_ERR_ARGUMENT, "has 5 layers");
    check_refused("plain", "99999999999999999999", RIFFLE_ERR_ARGUMENT, "has 5 layers");
    check_refused("cpu", "6", RIFFLE_ERR_ARGUMENT, "has 5 layers");
    check_refused("cpu", "2", RIFFLE_ERR_ARGUMENT, "no other device was chosen");
    check_refused(NULL, "all", RIFFLE_ERR_ARGUMENT, "no other device was chosen");
}

/* A device of another kind may not compute all parts of models. */
static void refused_models_stay_on_the_processor(void)
{
    riffle_model_info info;
    riffle_model_options options = options_of("auto", NULL);
    plain_refuse_models(1);
    check_refused("plain", "all", RIFFLE_ERR_UNSUPPORTED, "computes no llama now");
    riffle_model *model = open_with(&options, &info);
    CHECK_STR(info.device, "cpu");
    riffle_model_close(model);
    plain_refuse_models(0);
    model = open_with(&options, &info);
    CHECK_STR(info.device, "plain:0");
    riffle_model_close(model);
}

/* How many layers "auto" puts on a device with so much memory. */
static int32_t chosen(uint64_t memory, int32_t ctx, const char *chain)
{
    riffle_model_info info;
    riffle_model_options options = options_of("plain", "auto");
    options.flags = RIFFLE_OPEN_HEADER;
    options.session_ctx = ctx;
    options.chain = chain;
    plain_set_memory(memory);
    riffle_model *model = open_with(&options, &info);
    int32_t n = strcmp(info.device, "cpu") == 0 ? 0 : info.device_layers;
    CHECK_INT(info.layers_note[0] != 0, n > 0 && n < N_LAYER);
    CHECK_INT(info.device_note[0] != 0, n == 0);
    riffle_model_close(model);
    return n;
}

/* The least memory that n layers fit. */
static uint64_t least_memory(int32_t n, int32_t ctx, const char *chain)
{
    uint64_t little = 0, enough = (uint64_t)1 << 40;
    while (enough - little > 1) {
        uint64_t memory = little + (enough - little) / 2;
        if (chosen(memory, ctx, chain) >= n)
            enough = memory;
        else
            little = memory;
    }
    return enough;
}

/* Each layer takes what its weights and its part of the context take, to the byte. */
static void memory_decides(void)
{
    enum { LAYER_CTX = 2 * 4 * 8 * 2 * sizeof(float) /* two positions on the plain device */ };
    uint64_t least[N_LAYER + 1], short_ctx, drafted;
    for (int32_t n = 1; n <= N_LAYER; n++) least[n] = least_memory(n, N_CTX, "none");
    for (int32_t n = 3; n < N_LAYER; n++) CHECK_INT(least[n] - least[n - 1], least[2] - least[1]);
    /* The device has the embedding, too, if it has all layers. */
    CHECK_INT(least[N_LAYER] - least[N_LAYER - 1] - (least[2] - least[1]),
              N_VOCAB * N_EMBD * sizeof(float));
    CHECK(least[1] > least[2] - least[1]); /* the head and a pass are beside the first layer */
    short_ctx = least_memory(3, N_CTX - 2, "none");
    CHECK_INT(least[3] - short_ctx, 3 * LAYER_CTX);
    drafted = least_memory(3, N_CTX, "mxfp4");
    CHECK(drafted > least[3] + 3 * (least[2] - least[1]) / 2);
    riffle_model_info info;
    riffle_model_options options = options_of("plain", NULL); /* auto */
    options.chain = "none";
    plain_set_memory(least[3]);
    riffle_model *model = open_with(&options, &info);
    CHECK_INT(info.device_layers, 3);
    CHECK_MSG(strstr(info.layers_note, "3 of 5 layers") &&
                  strstr(info.layers_note, "a token takes"),
              "%s", info.layers_note);
    struct tokens got = answer(model, "none", NULL);
    CHECK_INT(got.count, N_TOKENS);
    riffle_model_close(model);
    plain_set_memory(least[1] / 4);
    check_refused("plain", "all", RIFFLE_ERR_MEMORY, "0 layers fit");
    plain_set_memory(UINT64_MAX);
    CHECK_INT(chosen(UINT64_MAX, N_CTX, "auto"), N_LAYER);
}

/* A small model fits any device. */
static int check_cuda(void)
{
    const struct rf_backend_options first = {0};
    struct rf_error error;
    riffle_model_info info;
    riffle_model_options options = options_of("cuda", "auto");
    if (rf_cuda_backend_kind.describe(&first, NULL, &error)) {
        fprintf(stderr, "skipped: %s\n", error.text);
        return 77;
    }
    answers_are_the_same("cuda");
    riffle_model *model = open_with(&options, &info);
    CHECK_INT(info.device_layers, N_LAYER);
    CHECK_STR(info.layers_note, "");
    riffle_model_close(model);
    return check_result();
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "cuda") == 0) return check_cuda();
    answers_are_the_same("plain");
    wrong_numbers_are_refused();
    refused_models_stay_on_the_processor();
    memory_decides();
    return check_result();
}
