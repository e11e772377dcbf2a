/* The prompts of a suite: the embedded ones of bench/prompts, or the user's own file. The suite
 * reads them before it opens the model. */
#ifndef BENCH_PROMPTS_H
#define BENCH_PROMPTS_H

#include "session/engine.h"

/* The suites of bench/prompts, embedded by the build. */
extern const char bench_code_jsonl[], bench_qa_jsonl[], bench_hard_jsonl[], bench_long_jsonl[];

struct bench_prompt {
    char *name;
    char *text;
    size_t bytes;
};

struct bench_prompts {
    struct bench_prompt *items;
    size_t count;
    struct bench_prompt *excerpts; /* texts that prompts quote */
    size_t n_excerpts;
};

/* Reads the suite "code", "qa", "hard" or "long", or a file: JSONL, or any other text as one
 * prompt. At most `most` prompts; 0: all. `raw`: a HumanEval prompt is code to continue, not a
 * message that asks for it. CLI_OK, or an exit status with a sentence and nothing to free. */
int bench_prompts_read(struct bench_prompts *prompts, const char *suite, int32_t most, int raw);
void bench_prompts_free(struct bench_prompts *prompts);

/* The text that a session reads for a prompt: formatted with the model's chat template, or as it is
 * if `raw` is set. CLI_OK, or an exit status with a sentence. */
int bench_prompt_text(const struct engine *engine, const struct bench_prompt *prompt, int raw,
                      struct buffer *text);

#endif
