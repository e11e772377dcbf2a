/* Answers one message of a chat: reads the conversation, generates, divides thoughts from the reply
 * and shows both. What was generated stays in the conversation, also after an interrupt. */
#include "chat/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/context.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/output.h"
#include "output/wrap.h"
#include "platform/terminal.h"
#include "riffle_experimental.h"
#include "session/levels.h"

struct turn {
    struct chat *chat;
    struct buffer reply, thought;
    struct thoughts thoughts;
    struct wrap wrap;
    const char *colour;      /* colour of the tokens that come */
    enum thought_part shown; /* last on a terminal with colours */
    int32_t *tokens;         /* the answer so far */
    size_t n_tokens;
    int begun, write_failed;
};

/* A terminal with colours shows thoughts dimmed, without markers; else all is shown as it is. */
static void turn_show(struct turn *turn, enum thought_part part, const char *text, size_t n)
{
    const char *colour = turn->colour;
    if (rf_terminal_colour(RF_STDOUT)) {
        if (part == PART_MARKER) return;
        if (part == PART_REPLY && turn->shown == PART_THOUGHT)
            output_text(&turn->wrap, "\n\n", 2, "");
        if (part == PART_THOUGHT && !*colour) colour = "\033[2m";
        turn->shown = part;
    }
    if (output_text(&turn->wrap, text, n, colour) != 0) turn->write_failed = 1;
}

static void turn_on_part(void *user, enum thought_part part, const char *text, size_t n)
{
    struct turn *turn = user;
    if (part == PART_THOUGHT) buffer_append(&turn->thought, text, n);
    if (part == PART_REPLY) buffer_append(&turn->reply, text, n);
    turn_show(turn, part, text, n);
}

static void turn_push_text(struct turn *turn, const char *text, size_t n)
{
    struct rf_error error;
    if (rf_thoughts_push(&turn->thoughts, text, n, &error)) cli_no_memory();
}

/* Control tokens are not part of an answer's text, but they may be markers. */
static void turn_push_control(struct turn *turn, int32_t token)
{
    char text[THOUGHTS_CONTROL];
    rf_thoughts_control(turn->chat->engine.model, token, text);
    if (text[0] && rf_thoughts_want(&turn->thoughts, text))
        turn_push_text(turn, text, strlen(text));
}

static int turn_on_event(void *user, const riffle_event *event)
{
    struct turn *turn = user;
    if (!turn->begun) progress_clear(&turn->chat->engine.progress);
    turn->begun = 1;
    if (event->token >= 0) {
        turn->tokens = cli_reallocate(turn->tokens, turn->n_tokens + 1, sizeof *turn->tokens);
        turn->tokens[turn->n_tokens++] = event->token;
    }
    turn->colour = turn->chat->paints ? level_colour(event->level) : "";
    if (event->text_bytes)
        turn_push_text(turn, event->text, event->text_bytes);
    else if (event->token >= 0)
        turn_push_control(turn, event->token);
    return turn->write_failed || rf_interrupts() > 0;
}

/* Begins behind the tokens of the session; their end may have opened a thought. */
static void turn_begin_thoughts(struct turn *turn)
{
    enum { TAIL = 64 };
    const struct engine *engine = &turn->chat->engine;
    const int32_t *tokens;
    char text[1024];
    int32_t n = riffle_session_tokens(engine->session, &tokens), tail = n < TAIL ? n : TAIL;
    int64_t bytes = riffle_detokenize(engine->model, tokens + n - tail, (size_t)tail,
                                      RIFFLE_DETOKENIZE_SPECIAL, text, sizeof text);
    if (bytes < 0 || bytes > (int64_t)sizeof text) bytes = 0;
    rf_thoughts_begin(&turn->thoughts, turn->chat->thoughts, text, (size_t)bytes, turn_on_part,
                      turn);
}

static void print_figures(const riffle_stats *before, const riffle_stats *after)
{
    uint64_t read = after->prefill_tokens - before->prefill_tokens;
    uint64_t generated = after->generated_tokens - before->generated_tokens;
    int colour = rf_terminal_colour(RF_STDERR);
    struct buffer text = {0};
    buffer_printf(&text, "%llu tokens", (unsigned long long)generated);
    if (generated)
        buffer_printf(&text, ", %.1f tokens/s",
                      tokens_per_second(generated, after->decode_seconds - before->decode_seconds));
    if (read)
        buffer_printf(&text, "; %llu read at %.1f tokens/s", (unsigned long long)read,
                      tokens_per_second(read, after->prefill_seconds - before->prefill_seconds));
    fputs(colour ? "\033[2m" : "", stderr);
    inform("%s", text.data);
    buffer_free(&text);
    fputs(colour ? "\033[0m" : "", stderr);
}

/* The sentence if the last answer ended because the context is full, else NULL. */
static const char *full_context(const struct chat *chat)
{
    const char *sentence;
    return riffle_session_finish(chat->engine.session, &sentence) == RIFFLE_FINISH_LENGTH &&
                   sentence[0]
               ? sentence
               : NULL;
}

/* Explains why an answer ended early. */
static void explain_end(struct chat *chat)
{
    const char *sentence;
    riffle_finish finish = riffle_session_finish(chat->engine.session, &sentence);
    if (full_context(chat) && !chat_drops(chat) && !chat->explained_full)
        chat_explain_full(chat);
    else if (sentence[0] && !(finish == RIFFLE_FINISH_LENGTH && chat_drops(chat)))
        cli_explain(sentence);
}

/* Reads the conversation, and the answer so far. 0 or a negative code. */
static int64_t turn_prefill(struct chat *chat, const struct turn *turn)
{
    riffle_session *session = chat->engine.session;
    char *document = conversation_document(&chat->conversation, chat->engine.model, 0);
    int64_t n = riffle_chat_prefill_json(session, document, strlen(document));
    free(document);
    if (n >= 0 && turn->n_tokens) n = riffle_prefill(session, turn->tokens, turn->n_tokens);
    progress_clear(&chat->engine.progress);
    if (n >= 0 && rf_interrupts() > 0) return RIFFLE_ERR_CANCELLED;
    return n < 0 ? n : 0;
}

/* Generates the answer to the conversation and streams it. 0, or a negative code with the text so
 * far in `turn`. */
static int64_t turn_generate(struct chat *chat, struct turn *turn)
{
    int64_t n = turn_prefill(chat, turn);
    if (n < 0) return n;
    turn_begin_thoughts(turn);

    const struct cli_options *chosen = chat->options;
    riffle_generate_options options;
    engine_generation(&chat->engine, chosen, &options);
    do {
        options.max_tokens = chosen->max_tokens ? chosen->max_tokens - (int32_t)turn->n_tokens : 0;
        n = riffle_generate(chat->engine.session, &options, turn_on_event, turn);
        /* An answer that fills the context goes on after fewer turns, or ends with a sentence. A
         * grammar cannot go on in the middle. */
    } while (n > 0 && !options.grammar && chat_drops(chat) && full_context(chat) &&
             chat_make_room(chat, turn->n_tokens) == CLI_OK && (n = turn_prefill(chat, turn)) >= 0);
    rf_thoughts_end(&turn->thoughts);
    rf_thoughts_free(&turn->thoughts);
    if (output_end(&turn->wrap) != 0) turn->write_failed = 1;
    if (!turn->write_failed && (n >= 0 || turn->begun)) {
        putchar('\n');
        fflush(stdout);
    }
    return n < 0 ? n : 0;
}

int chat_answer(struct chat *chat, const char *message, size_t n_message)
{
    conversation_add(&chat->conversation, "user", message, n_message);
    int status = chat_answer_last(chat);
    if (!chat->answered)
        conversation_cut(&chat->conversation, conversation_count(&chat->conversation) - 1);
    return status;
}

static void add_answer(struct chat *chat, const struct turn *turn)
{
    conversation_add(&chat->conversation, "assistant", turn->reply.data, turn->reply.count);
    conversation_note(&chat->conversation, "reasoning_content", turn->thought.data,
                      turn->thought.count);
    conversation_find_calls(&chat->conversation, chat->engine.model);
}

int chat_answer_last(struct chat *chat)
{
    riffle_stats before, after;
    struct turn turn = {.chat = chat, .colour = ""};

    chat->answered = 0;
    rf_interrupts_clear();
    int status = cli_status(riffle_session_get_stats(chat->engine.session, &before, sizeof before));
    if (status != CLI_OK) return status;
    if (chat_drops(chat)) status = chat_make_room(chat, 0);
    int64_t result = status == CLI_OK ? turn_generate(chat, &turn) : 0;
    chat->answered = turn.reply.count || turn.thought.count ||
                     (status == CLI_OK && result == 0 && rf_interrupts() == 0);
    if (chat->answered) add_answer(chat, &turn);

    if (status == CLI_OK) status = cli_status(result);
    if (result == RIFFLE_ERR_CONTEXT && !chat_drops(chat)) chat_explain_full(chat);
    if (status == CLI_OK && rf_interrupts() > 0)
        status = CLI_INTERRUPTED;
    else if (status == CLI_OK && turn.write_failed)
        status = CLI_FAILED;
    else if (status == CLI_OK)
        explain_end(chat);
    if (turn.begun && chat->stats_after_answer && !turn.write_failed &&
        riffle_session_get_stats(chat->engine.session, &after, sizeof after) == RIFFLE_OK)
        print_figures(&before, &after);
    buffer_free(&turn.reply);
    buffer_free(&turn.thought);
    free(turn.tokens);
    return status;
}
