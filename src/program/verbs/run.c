/* The verb run: one answer, streamed, or one JSON object at the end. Figures go to standard
 * error. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "chat/conversation.h"
#include "models/pull_hub.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/output.h"
#include "output/progress.h"
#include "platform/clock.h"
#include "platform/terminal.h"
#include "riffle_experimental.h"
#include "session/draft_tree.h"
#include "session/engine.h"
#include "session/levels.h"
#include "verbs/verbs.h"

struct answer {
    const struct cli_options *options;
    struct progress_line *progress;
    struct buffer text;
    struct wrap wrap;
    int32_t *ids;
    size_t n_ids;
    const riffle_session *session;
    struct draft_tree tree;           /* drafts of the round that had most, with --verbose */
    struct conversation conversation; /* conversation of --messages; with --json the answer, too */
    double first_token_seconds;
    int has_token, write_failed;
    int64_t prompt_tokens, generated_tokens;
};

static int run_on_event(void *user, const riffle_event *event)
{
    struct answer *answer = user;
    if (!answer->has_token) {
        progress_clear(answer->progress);
        answer->first_token_seconds = rf_clock_seconds() - answer->options->start_seconds;
        answer->has_token = 1;
    }
    if (answer->options->verbose) draft_tree_look(&answer->tree, answer->session);
    if (answer->options->json) {
        buffer_append(&answer->text, event->text, event->text_bytes);
        if (event->token >= 0) {
            answer->ids = cli_reallocate(answer->ids, answer->n_ids + 1, sizeof *answer->ids);
            answer->ids[answer->n_ids++] = event->token;
        }
    } else if (event->text_bytes) {
        answer->write_failed = output_text(&answer->wrap, event->text, event->text_bytes, "") != 0;
    }
    return answer->write_failed || rf_interrupts() > 0;
}

static int64_t run_prefill_chat(const struct engine *engine, const struct cli_options *options)
{
    riffle_message messages[2];
    size_t n = 0;
    if (options->system) messages[n++] = (riffle_message){"system", options->system};
    messages[n++] = (riffle_message){"user", options->input.text};
    return riffle_chat_prefill(engine->session, messages, n);
}

static int64_t run_prefill_messages(const struct engine *engine, struct conversation *conversation)
{
    char *document = conversation_document(conversation, engine->model, 0);
    int64_t n = riffle_chat_prefill_json(engine->session, document, strlen(document));
    free(document);
    return n;
}

static int run_take_messages(struct conversation *conversation, const struct cli_options *options)
{
    const struct input *input = &options->input;
    int status = conversation_parse(conversation, input->text, input->bytes, input->name);
    if (status == CLI_OK && options->system) conversation_set_system(conversation, options->system);
    return status;
}

/* Whether a message is given to a model without a template, which then continues it. */
static int is_base_model(const struct engine *engine, const struct cli_options *options)
{
    if (options->raw || options->messages || options->system ||
        riffle_model_has_template(engine->model))
        return 0;
    inform("%s has no chat template, so it continues the text; --template NAME chooses one",
           engine_model_name(engine));
    return 1;
}

/* Reads the prompt. CLI_OK, or an exit status with a sentence. */
static int run_prefill(struct engine *engine, const struct cli_options *options,
                       struct answer *answer)
{
    const struct input *input = &options->input;
    unsigned special = options->special ? RIFFLE_TOKENIZE_SPECIAL : 0;
    size_t zero = strlen(input->text);
    if (options->messages && run_take_messages(&answer->conversation, options) != CLI_OK)
        return CLI_FAILED;
    int is_raw = options->raw || is_base_model(engine, options);
    if (!is_raw && !options->messages && zero < input->bytes)
        return cli_fail("the text of %s has a zero byte at offset %zu, which a message cannot hold",
                        input->name, zero);
    int64_t n = is_raw ? engine_prefill(engine, engine->session, input->text, input->bytes,
                                        RIFFLE_TOKENIZE_BOS | special)
                : options->messages ? run_prefill_messages(engine, &answer->conversation)
                                    : run_prefill_chat(engine, options);
    progress_clear(&engine->progress);
    if (is_raw && n == 0)
        return cli_fail("the text of %s is empty, and without a chat template there is nothing to "
                        "go on from",
                        input->name);
    answer->prompt_tokens = n < 0 ? 0 : n;
    return cli_status(n);
}

static int run_generate(struct engine *engine, const struct cli_options *options,
                        struct answer *answer)
{
    riffle_generate_options generate_options;
    engine_generation(engine, options, &generate_options);
    int64_t n = riffle_generate(engine->session, &generate_options, run_on_event, answer);
    if (output_end(&answer->wrap) != 0) answer->write_failed = 1;
    answer->generated_tokens = n < 0 ? 0 : n;
    int status = cli_status(n);
    return status == CLI_OK && rf_interrupts() > 0 ? CLI_INTERRUPTED : status;
}

/* The answer's text, and where tools were offered its calls of them. */
static void run_write_answer(struct json_writer *json, const struct engine *engine,
                             struct answer *answer)
{
    struct conversation *conversation = &answer->conversation;
    if (!conversation->tools) {
        jw_text(json, "text", answer->text.data, answer->text.count);
        return;
    }
    conversation_add(conversation, "assistant", answer->text.count ? answer->text.data : "",
                     answer->text.count);
    conversation_find_calls(conversation, engine->model);
    const json_t *last = conversation_at(conversation, conversation_count(conversation) - 1);
    jw_string(json, "text", json_string_value(json_object_get(last, "content")));
    char *calls = rf_json_dump(json_object_get(last, "tool_calls"), 0, NULL);
    jw_json(json, "tool_calls", calls ? calls : "[]");
    free(calls);
}

static void run_print_json(const struct engine *engine, struct answer *answer,
                           const riffle_stats *stats, const riffle_machine *machine,
                           const char *finish)
{
    const struct cli_options *options = answer->options;
    struct json_writer json = {0};
    riffle_read_speed read = {.bytes_per_second = NAN};
    if (rf_interrupts() == 0)
        riffle_measure_model_read(engine->model, stats->threads, &read, sizeof read);

    jw_put(&json, "{");
    run_write_answer(&json, engine, answer);
    jw_put(&json, "finish %s", finish);
    if (options->ids) jw_put(&json, "tokens [");
    for (size_t i = 0; options->ids && i < answer->n_ids; i++) jw_put(&json, "%d", answer->ids[i]);
    if (options->ids) jw_put(&json, "]");
    jw_put(&json, "prompt_tokens %" PRId64 " generated_tokens %" PRId64, answer->prompt_tokens,
           answer->generated_tokens);
    jw_put(&json, "load_s %g first_token_s %g", engine->load_seconds,
           answer->has_token ? answer->first_token_seconds : NAN);
    jw_put(&json, "prefill_tps %g decode_tps %g peak_rss_bytes %" PRIu64,
           tokens_per_second(stats->prefill_tokens, stats->prefill_seconds),
           tokens_per_second(stats->generated_tokens, stats->decode_seconds),
           machine->peak_rss_bytes);
    if (engine->sampling.temperature > 0) jw_put(&json, "seed %" PRIu64, engine->sampling.seed);
    engine_write(engine, &json, machine->cpu, stats->threads, read.bytes_per_second);
    jw_put(&json, "chain %s", stats->chain);
    levels_write(&json, stats);
    jw_put(&json, "}");
    jw_print(&json);
}

static void run_print_summary(const struct engine *engine, const struct answer *answer,
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
    if (answer->options->verbose) draft_tree_print(stderr, &answer->tree, engine->model, stats);
    if (answer->options->verbose && engine->sampling.temperature > 0)
        fprintf(stderr, "seed %llu\n", (unsigned long long)engine->sampling.seed);
}

static int run_report(struct engine *engine, const struct cli_options *options,
                      struct answer *answer, int status)
{
    static const char *const finishes[] = {[RIFFLE_FINISH_NONE] = "none",
                                           [RIFFLE_FINISH_STOP] = "stop",
                                           [RIFFLE_FINISH_LENGTH] = "length",
                                           [RIFFLE_FINISH_CANCELLED] = "cancelled",
                                           [RIFFLE_FINISH_REPETITION] = "repetition"};
    const char *sentence = "";
    riffle_stats stats;
    riffle_machine machine;
    riffle_finish finish = RIFFLE_FINISH_CANCELLED;
    if (status == CLI_OK) finish = riffle_session_finish(engine->session, &sentence);
    int code = riffle_session_get_stats(engine->session, &stats, sizeof stats);
    if (code == RIFFLE_OK) code = riffle_machine_get(&machine, sizeof machine);
    if (code != RIFFLE_OK) return cli_status(code);

    if (options->json) {
        run_print_json(engine, answer, &stats, &machine, finishes[finish]);
    } else if (!answer->write_failed) {
        putchar('\n');
        fflush(stdout);
    }
    if (sentence[0]) cli_explain(sentence);
    if (options->verbose || (!options->json && rf_is_terminal(RF_STDERR)))
        run_print_summary(engine, answer, &stats);
    return status;
}

int verb_run(const struct cli_options *options)
{
    struct engine engine;
    struct answer answer = {.options = options, .progress = &engine.progress};
    int status = pull_offer(options->model);
    if (status == CLI_OK) status = engine_open_session(&engine, options, options->n_ctx);
    if (status != CLI_OK) return status;
    answer.session = engine.session;
    if (options->verbose) engine_introduce(&engine, options, "");
    status = run_prefill(&engine, options, &answer);
    if (status == CLI_OK) status = run_generate(&engine, options, &answer);
    if (status == CLI_OK || status == CLI_INTERRUPTED)
        status = run_report(&engine, options, &answer, status);
    engine_close(&engine);
    buffer_free(&answer.text);
    conversation_free(&answer.conversation);
    free(answer.ids);
    return status;
}
