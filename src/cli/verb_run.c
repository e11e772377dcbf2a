#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/cli.h"
#include "cli/engine.h"
#include "cli/input.h"
#include "cli/json.h"
#include "cli/levels.h"
#include "cli/options.h"
#include "cli/output.h"
#include "platform/clock.h"
#include "platform/terminal.h"
#include "riffle_experimental.h"

struct answer {
    const struct cli_options *options;
    struct progress_line *progress;
    struct buffer text;
    struct buffer ids; /* of int32_t */
    double first_token_seconds;
    int has_token, write_failed;
    int64_t prompt_tokens, generated_tokens;
};

static int on_event(void *user, const riffle_event *event)
{
    struct answer *answer = user;
    if (!answer->has_token) {
        progress_clear(answer->progress);
        answer->first_token_seconds = rf_clock_seconds() - answer->options->start_seconds;
        answer->has_token = 1;
    }
    if (answer->options->json) {
        buffer_append(&answer->text, event->text, event->text_bytes);
        if (event->token >= 0) buffer_append(&answer->ids, &event->token, sizeof event->token);
    } else if (event->text_bytes) {
        answer->write_failed = output_text(event->text, event->text_bytes, "") != 0;
    }
    return answer->write_failed || rf_interrupts() > 0;
}

static int64_t prefill_chat(const struct engine *engine, const struct cli_options *options,
                            const struct input *input)
{
    riffle_message messages[2];
    size_t n = 0;
    if (options->system) messages[n++] = (riffle_message){"system", options->system};
    messages[n++] = (riffle_message){"user", input->text};
    return riffle_chat_prefill(engine->session, messages, n);
}

/* Reads the prompt. CLI_OK, or an exit status with a sentence. */
static int prefill(struct engine *engine, const struct cli_options *options, struct input *input,
                   struct answer *answer)
{
    int64_t n;
    if (options->raw) {
        size_t count;
        unsigned flags =
            RIFFLE_TOKENIZE_BOS | (options->special ? (unsigned)RIFFLE_TOKENIZE_SPECIAL : 0u);
        int32_t *tokens = engine_tokenize(engine, input->text, input->bytes, flags, &count);
        if (!tokens) return CLI_FAILED;
        if (count == 0) {
            free(tokens);
            return cli_fail("the text of %s is empty, and without a chat template there is nothing "
                            "to go on from",
                            input->name);
        }
        int code = riffle_prefill(engine->session, tokens, count);
        n = code < 0 ? code : (int64_t)count;
        free(tokens);
    } else {
        if (!options->prompt && input->bytes && input->text[input->bytes - 1] == '\n')
            input->text[--input->bytes] = 0;
        size_t zero = strlen(input->text);
        if (zero < input->bytes)
            return cli_fail(
                "the text of %s has a zero byte at offset %zu, which a message cannot hold",
                input->name, zero);
        n = prefill_chat(engine, options, input);
    }
    progress_clear(&engine->progress);
    if (n < 0 && !(n == RIFFLE_ERR_CANCELLED && rf_interrupts() > 0))
        return cli_library_failed((int)n);
    answer->prompt_tokens = n < 0 ? 0 : n;
    return n < 0 ? CLI_INTERRUPTED : CLI_OK;
}

static int generate(struct engine *engine, const struct cli_options *options, struct answer *answer)
{
    riffle_generate_options generate_options;
    riffle_generate_options_init(&generate_options, sizeof generate_options);
    generate_options.max_tokens = options->max_tokens;
    generate_options.stop = options->stop.items;
    generate_options.n_stop = options->stop.count;
    int64_t n = riffle_generate(engine->session, &generate_options, on_event, answer);
    if (n < 0 && !(n == RIFFLE_ERR_CANCELLED && rf_interrupts() > 0))
        return cli_library_failed((int)n);
    answer->generated_tokens = n < 0 ? 0 : n;
    return rf_interrupts() > 0 ? CLI_INTERRUPTED : CLI_OK;
}

static void print_json(const struct engine *engine, const struct answer *answer,
                       const riffle_stats *stats, const riffle_machine *machine, const char *finish)
{
    const struct cli_options *options = answer->options;
    struct json_writer json = {0};
    double read_bytes_per_second = 0;
    int measured = rf_interrupts() == 0 &&
                   riffle_measure_read(stats->threads, &read_bytes_per_second) == RIFFLE_OK;

    jw_object(&json, NULL);
    jw_text(&json, "text", answer->text.data ? answer->text.data : "", answer->text.count);
    jw_string(&json, "finish", finish);
    if (options->ids) {
        jw_array(&json, "tokens");
        for (size_t i = 0; i + sizeof(int32_t) <= answer->ids.count; i += sizeof(int32_t)) {
            int32_t token;
            memcpy(&token, answer->ids.data + i, sizeof token);
            jw_int(&json, NULL, token);
        }
        jw_end_array(&json);
    }
    jw_int(&json, "prompt_tokens", answer->prompt_tokens);
    jw_int(&json, "generated_tokens", answer->generated_tokens);
    jw_number(&json, "load_s", engine->load_seconds);
    if (answer->has_token)
        jw_number(&json, "first_token_s", answer->first_token_seconds);
    else
        jw_null(&json, "first_token_s");
    jw_number(&json, "prefill_tps",
              tokens_per_second(stats->prefill_tokens, stats->prefill_seconds));
    jw_number(&json, "decode_tps",
              tokens_per_second(stats->generated_tokens, stats->decode_seconds));
    jw_uint(&json, "peak_rss_bytes", machine->peak_rss_bytes);
    if (options->sampling.temperature > 0) jw_uint(&json, "seed", options->sampling.seed);
    engine_write_model(engine, &json);
    jw_object(&json, "machine");
    jw_string(&json, "cpu", machine->cpu);
    jw_int(&json, "threads", stats->threads);
    if (measured)
        jw_number(&json, "read_gbps", read_bytes_per_second / 1e9);
    else
        jw_null(&json, "read_gbps");
    jw_end_object(&json);
    jw_string(&json, "chain", stats->chain);
    levels_write(&json, stats);
    jw_end_object(&json);
    jw_print(&json);
}

static void print_summary(const struct engine *engine, const struct answer *answer,
                          const riffle_stats *stats)
{
    fprintf(stderr, "%lld tokens read at %.1f tokens/s, %lld generated at %.1f tokens/s",
            (long long)answer->prompt_tokens,
            tokens_per_second(stats->prefill_tokens, stats->prefill_seconds),
            (long long)answer->generated_tokens,
            tokens_per_second(stats->generated_tokens, stats->decode_seconds));
    if (answer->has_token)
        fprintf(stderr, ", first token after %.2f s", answer->first_token_seconds);
    fprintf(stderr, " (loading %.2f s)\n", engine->load_seconds);
    if (answer->options->verbose) levels_print(stderr, stats);
    if (answer->options->verbose && answer->options->sampling.temperature > 0)
        fprintf(stderr, "seed %llu\n", (unsigned long long)answer->options->sampling.seed);
}

static int report(struct engine *engine, const struct cli_options *options,
                  const struct answer *answer, int status)
{
    const char *sentence = "";
    riffle_stats stats;
    riffle_machine machine;
    riffle_finish finish = RIFFLE_FINISH_CANCELLED;
    if (status == CLI_OK) finish = riffle_session_finish(engine->session, &sentence);
    int code = riffle_session_get_stats(engine->session, &stats, sizeof stats);
    if (code == RIFFLE_OK) code = riffle_machine_get(&machine, sizeof machine);
    if (code != RIFFLE_OK) return cli_library_failed(code);

    if (options->json) {
        print_json(engine, answer, &stats, &machine, finish_name(finish));
    } else if (!answer->write_failed) {
        putchar('\n');
        fflush(stdout);
    }
    if (finish == RIFFLE_FINISH_LENGTH && sentence[0]) fprintf(stderr, "riffle: %s\n", sentence);
    if (options->verbose || (!options->json && rf_is_terminal(RF_STDERR)))
        print_summary(engine, answer, &stats);
    return status;
}

int verb_run(const struct cli_options *options)
{
    struct engine engine;
    struct input input;
    struct answer answer = {.options = options, .progress = &engine.progress};
    int status = input_read(&input, options);
    if (status != CLI_OK) return status;

    status = engine_open_session(&engine, options, options->n_ctx);
    if (status != CLI_OK) {
        input_free(&input);
        return status;
    }
    if (options->verbose) engine_introduce(&engine, options, "");
    status = prefill(&engine, options, &input, &answer);
    if (status == CLI_OK) status = generate(&engine, options, &answer);
    if (status == CLI_OK || status == CLI_INTERRUPTED)
        status = report(&engine, options, &answer, status);
    engine_close(&engine);
    buffer_free(&answer.text);
    buffer_free(&answer.ids);
    input_free(&input);
    return status;
}
