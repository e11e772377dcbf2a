/* Templates for files that have none, or a wrong one. For conversations without tools they render
 * the same text as the templates of the models' makers. chat_template.c lists them by name. */
#include "template/chat_template.h"

#define CHATML_MESSAGES(default_system)                                                \
    "{%- for message in messages %}"                                                   \
    "{%- if loop.first and message.role != 'system' and '" default_system "' %}"       \
    "{{- '<|im_start|>system\\n" default_system "<|im_end|>\\n' }}"                    \
    "{%- endif %}"                                                                     \
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}" \
    "{%- endfor %}"
#define CHATML_PROMPT "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
#define CHATML(default_system) CHATML_MESSAGES(default_system) CHATML_PROMPT

static const char chatml[] = CHATML("");
static const char smollm2[] =
    CHATML("You are a helpful AI assistant named SmolLM, trained by Hugging Face");
static const char qwen2_5[] =
    CHATML("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");

/* The thoughts of answers before the last question are left out. */
static const char qwen3[] =
    "{%- set ns = namespace(last=messages|length - 1, seeking=true) %}"
    "{%- for message in messages[::-1] %}"
    "{%- if ns.seeking and message.role == 'user' and not (message.content.startswith("
    "'<tool_response>') and message.content.endswith('</tool_response>')) %}"
    "{%- set ns.seeking = false %}{%- set ns.last = messages|length - loop.index %}"
    "{%- endif %}"
    "{%- endfor %}"
    "{%- for message in messages %}"
    "{%- set content = message.content %}{%- set thoughts = '' %}"
    "{%- if message.role == 'assistant' and '</think>' in content %}"
    "{%- set thoughts = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1]"
    ".lstrip('\\n') %}"
    "{%- set content = content.split('</think>')[-1].lstrip('\\n') %}"
    "{%- endif %}"
    "{{- '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.role == 'assistant' and loop.index0 > ns.last and (loop.last or thoughts) %}"
    "{{- '<think>\\n' + thoughts.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}"
    "{%- else %}{{- content }}{%- endif %}"
    "{{- '<|im_end|>\\n' }}"
    "{%- endfor %}" CHATML_PROMPT;

#define TURNS(end)                                                             \
    "{%- for message in messages %}"                                           \
    "{{- '<|' + message.role + '|>\\n' + message.content + " end " + '\\n' }}" \
    "{%- endfor %}"

static const char zephyr[] =
    TURNS("eos_token") "{%- if add_generation_prompt %}{{- '<|assistant|>\\n' }}{%- endif %}";
static const char phi3[] =
    TURNS("'<|end|>'") "{{- '<|assistant|>\\n' if add_generation_prompt else eos_token }}";

#define LLAMA3_TURN(role, content) \
    "{{- '<|start_header_id|>' + " role " + '<|end_header_id|>\\n\\n' + " content " }}"
#define LLAMA3_TURNS                                                                              \
    "{%- for message in turns %}" LLAMA3_TURN(                                                    \
        "message.role",                                                                           \
        "(message.content | trim) + '<|eot_id|>'") "{%- endfor %}"                                \
                                                   "{%- if add_generation_prompt %}" LLAMA3_TURN( \
                                                       "'assistant'", "''") "{%- endif %}"

static const char llama3[] = "{{- bos_token }}{%- set turns = messages %}" LLAMA3_TURNS;
/* The models' own templates state the date of the day. Here the same prompt gives the same tokens
 * every day. */
static const char llama3_1[] =
    "{{- bos_token }}{%- set turns = messages %}{%- set system = '' %}"
    "{%- if messages[0].role == 'system' %}"
    "{%- set system = messages[0].content | trim %}{%- set turns = messages[1:] %}"
    "{%- endif %}" LLAMA3_TURN("'system'", "'Cutting Knowledge Date: December 2023\\n"
                                           "Today Date: 26 Jul 2024\\n\\n' + system + '<|eot_id|>'")
        LLAMA3_TURNS;

#define ALTERNATE "Conversation roles must alternate user/assistant/user/assistant/..."
#define CHECK_TURNS(turns, sentence)                               \
    "{%- for message in " turns " %}"                              \
    "{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}" \
    "{{- raise_exception('" sentence "') }}"                       \
    "{%- endif %}"                                                 \
    "{%- endfor %}"
#define CHECK_ROLES(turns)                                                   \
    "{%- for message in " turns " %}"                                        \
    "{%- if message.role not in ['user', 'assistant'] %}"                    \
    "{{- raise_exception('Only user and assistant roles are supported!') }}" \
    "{%- endif %}"                                                           \
    "{%- endfor %}"
#define SPLIT_SYSTEM                                                         \
    "{%- set turns = messages %}{%- set system = none %}"                    \
    "{%- if messages[0].role == 'system' %}"                                 \
    "{%- set system = messages[0].content %}{%- set turns = messages[1:] %}" \
    "{%- endif %}"

/* clang-format off */
static const char gemma[] =
    "{{- bos_token }}"
    "{%- if messages[0].role == 'system' %}"
    "{{- raise_exception('System role not supported') }}"
    "{%- endif %}"
    CHECK_TURNS("messages", ALTERNATE)
    "{%- for message in messages %}"
    "{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n'"
    " + (message.content | trim) + '<end_of_turn>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<start_of_turn>model\\n' }}{%- endif %}";

static const char llama2[] =
    SPLIT_SYSTEM
    CHECK_TURNS("turns", ALTERNATE)
    CHECK_ROLES("turns")
    "{%- for message in turns %}"
    "{%- set content = message.content %}"
    "{%- if loop.first and system is not none %}"
    "{%- set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + content %}"
    "{%- endif %}"
    "{%- if message.role == 'user' %}{{- bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{%- else %}{{- ' ' + content.strip() + ' ' + eos_token }}{%- endif %}"
    "{%- endfor %}";

static const char mistral[] =
    CHECK_TURNS("messages", ALTERNATE)
    CHECK_ROLES("messages")
    "{{- bos_token }}"
    "{%- for message in messages %}"
    "{%- if message.role == 'user' %}{{- '[INST] ' + message.content + ' [/INST]' }}"
    "{%- else %}{{- message.content + eos_token }}{%- endif %}"
    "{%- endfor %}";

/* The system message goes before the last question. */
#define MISTRAL_LAST(open, answer)                                                           \
    SPLIT_SYSTEM                                                                             \
    CHECK_TURNS("turns", "After the optional system message, conversation roles "            \
                         "must alternate user/assistant/user/assistant/...")                 \
    CHECK_ROLES("turns")                                                                     \
    "{{- bos_token }}"                                                                       \
    "{%- for message in turns %}"                                                            \
    "{%- if message.role == 'assistant' %}{{- " answer " + eos_token }}"                     \
    "{%- elif loop.last and system is not none %}"                                           \
    "{{- '" open "' + system + '\\n\\n' + message.content + '[/INST]' }}"                    \
    "{%- else %}{{- '" open "' + message.content + '[/INST]' }}{%- endif %}"                 \
    "{%- endfor %}"
/* clang-format on */

static const char mistral_v3[] = MISTRAL_LAST("[INST] ", "' ' + (message.content | trim)");
static const char mistral_nemo[] = MISTRAL_LAST("[INST]", "message.content");

static const char mistral_v7[] =
    "{{- bos_token }}"
    "{%- for message in messages %}"
    "{%- if message.role == 'user' %}{{- '[INST] ' + message.content + '[/INST]' }}"
    "{%- elif message.role == 'system' %}"
    "{{- '[SYSTEM_PROMPT] ' + message.content + '[/SYSTEM_PROMPT]' }}"
    "{%- else %}{{- ' ' + message.content + eos_token }}{%- endif %}"
    "{%- endfor %}";

const struct rf_chat_builtin *rf_chat_builtin_at(size_t index)
{
    static const struct rf_chat_builtin builtins[] = {{"chatml", chatml},
                                                      {"llama2", llama2},
                                                      {"llama3", llama3},
                                                      {"llama3.1", llama3_1},
                                                      {"mistral", mistral},
                                                      {"mistral-v3", mistral_v3},
                                                      {"mistral-nemo", mistral_nemo},
                                                      {"mistral-v7", mistral_v7},
                                                      {"zephyr", zephyr},
                                                      {"gemma", gemma},
                                                      {"phi3", phi3},
                                                      {"smollm2", smollm2},
                                                      {"qwen2.5", qwen2_5},
                                                      {"qwen3", qwen3}};
    return index < sizeof builtins / sizeof *builtins ? &builtins[index] : NULL;
}
