/* The verb chat: opens the model, reads messages and answers them until the user leaves. At a
 * terminal a failed turn does not end the chat. */
#include <stdio.h>
#include <string.h>

#include "chat/answer.h"
#include "chat/commands.h"
#include "chat/complete.h"
#include "models/pull_hub.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/progress.h"
#include "output/wrap.h"
#include "platform/terminal.h"
#include "terminal/line_reader.h"
#include "verbs/verbs.h"

/* The effect of earlier Ctrl-Cs. */
struct leaving {
    int armed;     /* the next Ctrl-C at an empty prompt ends the chat */
    int explained; /* the user was told about it */
};

static void explain_leaving(struct leaving *leaving, const char *what)
{
    if (!leaving->explained) inform("(%sCtrl-C again leaves, as does Ctrl-D)", what);
    leaving->explained = 1;
    leaving->armed = 1;
}

/* At a terminal the chat continues after a failed turn; a script ends at the first one. */
static int chat_converse(struct chat *chat, struct line_reader *reader)
{
    struct buffer message = {0};
    struct leaving leaving = {0, 0};
    int status = CLI_OK;
    for (;;) {
        rf_interrupts_clear();
        enum read_result result = line_reader_message(reader, &message);
        if (result == READ_INTERRUPTED && chat->interactive && !leaving.armed) {
            explain_leaving(&leaving, "");
            continue;
        }
        if (result == READ_FAILED) status = CLI_FAILED;
        if (result == READ_INTERRUPTED) status = CLI_INTERRUPTED;
        if (result == READ_END || status != CLI_OK) break;
        if (result == READ_CLEARED) continue;
        leaving.armed = 0;
        if (!message.data[strspn(message.data, " \t\n")]) continue; /* a blank message */

        int turn = message.data[0] == '/' ? chat_command(chat, message.data)
                                          : chat_answer(chat, message.data, message.count);
        if (turn == CHAT_LEAVE) break;
        if (turn != CLI_OK && (!chat->interactive || rf_interrupts() > 1 || ferror(stdout))) {
            status = turn;
            break;
        }
        if (turn == CLI_INTERRUPTED) explain_leaving(&leaving, "stopped; ");
    }
    buffer_free(&message);
    return status;
}

static int chat_talk(struct chat *chat, struct line_reader *reader)
{
    const struct cli_options *options = chat->options;
    int status = engine_open_session(&chat->engine, options, options->n_ctx);
    if (status != CLI_OK) return status;
    chat->options->sampling = chat->engine.sampling;

    if (chat->interactive || options->verbose)
        engine_introduce(&chat->engine, options, " /help lists commands.");
    if (options->system) conversation_set_system(&chat->conversation, options->system);

    /* Fail for a model without a chat template now, not after the first message. */
    riffle_message probe = {"user", "Hello"};
    status = cli_status(riffle_chat_format(chat->engine.model, &probe, 1, 1, NULL, 0));
    if (status == CLI_OK) {
        chat->thoughts = rf_thought_form_of(chat->engine.model);
        if (!chat->thoughts) cli_no_memory();
        cli_room = ""; /* chat_explain_full says it first */
        status = chat_converse(chat, reader);
    }
    conversation_free(&chat->conversation);
    engine_close(&chat->engine);
    return status;
}

int verb_chat(const struct cli_options *options)
{
    struct cli_options own = *options;
    struct chat chat = {.options = &own};
    chat.interactive = rf_is_terminal(RF_STDIN) && rf_is_terminal(RF_STDERR);
    chat.stats_after_answer = chat.interactive || options->verbose;
    int status = pull_offer(options->model);
    if (status != CLI_OK) return status;
    /* The reader comes first: text that is typed while the model loads belongs to the first
     * message. */
    struct line_reader *reader = line_reader_new(chat.interactive, complete_chat);
    status = chat_talk(&chat, reader);
    line_reader_free(reader);
    return status;
}
