#include "text/chat_style.h"

#define BOS RF_CHAT_BOS
#define EOS RF_CHAT_EOS

static const char alternate[] =
    "Conversation roles must alternate user/assistant/user/assistant/...";
static const char alternate_after_system[] =
    "After the optional system message, conversation roles must alternate "
    "user/assistant/user/assistant/...";
static const char only_two_roles[] = "Only user and assistant roles are supported!";
static const char only_first_system[] = "Only user and assistant roles are supported, with the "
                                        "exception of an initial optional system message!";

/* ---- turns ---- */

#define CHATML                                                                         \
    .open = {"<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n"}, \
    .close = {"<|im_end|>\n", "<|im_end|>\n", "<|im_end|>\n"},                         \
    .generation = "<|im_start|>assistant\n"

static const struct rf_chat_style chatml = {.name = "chatml", CHATML};
static const struct rf_chat_style smollm2 = {
    .name = "smollm2",
    CHATML,
    .default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"};
static const struct rf_chat_style qwen2_5 = {
    .name = "qwen2.5",
    CHATML,
    .default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."};
static const struct rf_chat_style qwen3 = {.name = "qwen3", CHATML, .render = rf_chat_render_qwen3};

static const struct rf_chat_style zephyr = {
    .name = "zephyr",
    .open = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"},
    .close = {EOS "\n", EOS "\n", EOS "\n"},
    .generation = "<|assistant|>\n"};

#define PHI3                                                                   \
    .name = "phi3", .open = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"}, \
    .close = {"<|end|>\n", "<|end|>\n", "<|end|>\n"}, .generation = "<|assistant|>\n"

static const struct rf_chat_style phi3 = {PHI3, .no_generation = EOS};
static const struct rf_chat_style phi3_5 = {PHI3, .no_generation = EOS,
                                            .flags = RF_CHAT_SKIP_EMPTY_SYSTEM};
static const struct rf_chat_style phi3_bos = {PHI3, .begin = BOS, .no_generation = EOS};
static const struct rf_chat_style phi3_answered = {PHI3, .flags = RF_CHAT_ANSWERED};

#define PHI3_FIRST                                    \
    .name = "phi3", .open = {NULL, "<|user|>\n", ""}, \
    .close = {"", "<|end|>\n<|assistant|>\n", "<|end|>\n"}

static const struct rf_chat_style phi3_first = {PHI3_FIRST};
static const struct rf_chat_style phi3_first_bos = {PHI3_FIRST, .begin = BOS};

#define LLAMA3_HEADER(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define LLAMA3                                                                            \
    .flags = RF_CHAT_TRIM, .begin = BOS,                                                  \
    .open = {LLAMA3_HEADER("system"), LLAMA3_HEADER("user"), LLAMA3_HEADER("assistant")}, \
    .close = {"<|eot_id|>", "<|eot_id|>", "<|eot_id|>"}, .generation = LLAMA3_HEADER("assistant")

static const struct rf_chat_style llama3 = {.name = "llama3", LLAMA3};
static const struct rf_chat_style llama3_always = {
    .name = "llama3", LLAMA3, .no_generation = LLAMA3_HEADER("assistant")};
/* Where no date is given, the template states a fixed one. So the same prompt gives the same tokens
 * every day. */
static const struct rf_chat_style llama3_1 = {
    .name = "llama3.1",
    LLAMA3,
    .head = LLAMA3_HEADER("system") "Cutting Knowledge Date: December 2023\n"
                                    "Today Date: 26 Jul 2024\n\n"};

#define GEMMA                                                                               \
    .name = "gemma", .flags = RF_CHAT_TRIM,                                                 \
    .open = {"<start_of_turn>system\n", "<start_of_turn>user\n", "<start_of_turn>model\n"}, \
    .close = {"<end_of_turn>\n", "<end_of_turn>\n", "<end_of_turn>\n"},                     \
    .generation = "<start_of_turn>model\n", .alternate_error = alternate,                   \
    .system_error = "System role not supported"

static const struct rf_chat_style gemma = {GEMMA, .begin = BOS};
static const struct rf_chat_style gemma_no_bos = {GEMMA};

/* ---- [INST] ---- */

static const struct rf_chat_style llama2 = {.name = "llama2",
                                            .render = rf_chat_render_inst,
                                            .flags = RF_CHAT_TRIM_USER | RF_CHAT_TRIM_ASSISTANT,
                                            .open = {"<<SYS>>\n", BOS "[INST] ", " "},
                                            .close = {"\n<</SYS>>\n\n", " [/INST]", " " EOS},
                                            .alternate_error = alternate,
                                            .other_error = "a system message can only come first"};

#define MISTRAL(end)                                                                               \
    .name = "mistral", .render = rf_chat_render_inst, .begin = BOS, .open = {NULL, "[INST] ", ""}, \
    .close = {"", " [/INST]", end}, .alternate_error = alternate, .other_error = only_two_roles

static const struct rf_chat_style mistral = {MISTRAL(EOS)};
static const struct rf_chat_style mistral_0_1 = {MISTRAL(EOS " ")};

/* Mistral's own numbering of its formats: v1, v3, v3-tekken (Nemo), v7. */
#define MISTRAL_SYSTEM(inst, end, answer)                                    \
    .render = rf_chat_render_inst, .begin = BOS, .open = {"", inst, answer}, \
    .close = {"\n\n", end, EOS}, .alternate_error = alternate_after_system,  \
    .other_error = only_first_system

static const struct rf_chat_style mistral_v1 = {.name = "mistral",
                                                MISTRAL_SYSTEM(" [INST] ", " [/INST]", " ")};
static const struct rf_chat_style mistral_v3 = {.name = "mistral-v3",
                                                MISTRAL_SYSTEM("[INST] ", "[/INST]", " "),
                                                .flags =
                                                    RF_CHAT_SYSTEM_LAST | RF_CHAT_TRIM_ASSISTANT};
static const struct rf_chat_style mistral_nemo = {
    .name = "mistral-nemo", MISTRAL_SYSTEM("[INST]", "[/INST]", ""), .flags = RF_CHAT_SYSTEM_LAST};
static const struct rf_chat_style mistral_v7 = {.name = "mistral-v7",
                                                .begin = BOS,
                                                .open = {"[SYSTEM_PROMPT] ", "[INST] ", " "},
                                                .close = {"[/SYSTEM_PROMPT]", "[/INST]", EOS}};

/* ---- by name and by form ---- */

const struct rf_chat_style *rf_chat_style_at(size_t index)
{
    static const struct rf_chat_style *const styles[] = {
        &chatml,     &llama2, &llama3, &llama3_1, &mistral, &mistral_v3, &mistral_nemo,
        &mistral_v7, &zephyr, &gemma,  &phi3,     &smollm2, &qwen2_5,    &qwen3};
    return index < sizeof styles / sizeof *styles ? styles[index] : NULL;
}

/* One fingerprint covers all templates of the same form, whatever their layout.
 * test/data/text/templates has a source for each line. The error for an unknown template states its
 * fingerprint. */
static const struct {
    uint64_t fingerprint;
    const struct rf_chat_style *style;
} forms[] = {
    {0x1cfd1f30611b75b3u, &chatml},  /* OpenHermes, Yi and many others */
    {0xb5fca1b9748ce269u, &chatml},  /* with a default system prompt: Qwen 1.5 and 2, SmolLM2 */
    {0x1e409e29f1ceedcdu, &qwen2_5}, /* Qwen2.5, Qwen2.5-Coder */
    {0xa1ca911e8435a1f2u, &qwen3},   /* Qwen3 */
    {0x8820983a96d9795bu, &llama2},  /* Llama 2 Chat */
    {0xa681c70f6802215eu, &llama3},  /* Llama 3 Instruct */
    {0xb3ca7d1ef4400b1au, &llama3_always}, /* Llama 3 Instruct, first version */
    {0x0d418de79bbb0273u, &llama3_1},      /* Llama 3.1, 3.2 and 3.3 Instruct */
    {0x5a3855770d358b06u, &mistral},       /* Mistral 7B Instruct v0.2, Mixtral 8x7B Instruct */
    {0xce85d1e2af2f2af6u, &mistral_0_1},   /* Mistral 7B Instruct v0.1 */
    {0xb53bebe116106084u,
     &mistral_v1}, /* later versions of the two above, which accept a system message */
    {0xfaf9624c1fc6d2ffu, &mistral_v3},     /* Mistral 7B Instruct v0.3, Mistral Large 2407 */
    {0xf200e1eb3bd3c6eau, &mistral_nemo},   /* Mistral Nemo Instruct */
    {0xe00d8ad2e59c906au, &mistral_v7},     /* Mistral Large 2411 */
    {0xa5ca326665c78e9cu, &zephyr},         /* Zephyr 7B beta, TinyLlama Chat */
    {0x6684f64c1d4c07b5u, &gemma},          /* Gemma and Gemma 2 Instruct */
    {0x4b938704fcb410ddu, &gemma_no_bos},   /* Gemma Instruct as first converted */
    {0x9b9935ec3e63ffcfu, &phi3},           /* Phi-3 mini and medium Instruct */
    {0x23e4072a97c123e8u, &phi3_5},         /* Phi-3.5 mini Instruct */
    {0x37db7a92fa809e34u, &phi3_bos},       /* Phi-3 small Instruct */
    {0xb1458fddbc5f9391u, &phi3_answered},  /* Phi-3 vision Instruct */
    {0xde7ec870ae9b44b7u, &phi3_first},     /* Phi-3 medium Instruct, first version */
    {0xae36bf2bba36e49fu, &phi3_first_bos}, /* Phi-3 mini Instruct, first version */
};

const struct rf_chat_style *rf_chat_style_of_form(uint64_t fingerprint)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].fingerprint == fingerprint) return forms[i].style;
    return NULL;
}
