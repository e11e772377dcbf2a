/* The table of the commands of a chat, and what each does to the chat. A command that fails leaves
 * the chat as it was. */
#include "chat/commands.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/answer.h"
#include "chat/settings.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/output.h"
#include "output/progress.h"
#include "output/suggest.h"
#include "output/wrap.h"
#include "platform/file.h"
#include "platform/terminal.h"
#include "session/draft_tree.h"
#include "session/levels.h"

static int get_stats(struct chat *chat, riffle_stats *stats)
{
    return cli_status(riffle_session_get_stats(chat->engine.session, stats, sizeof *stats));
}

static int turn_stats(struct chat *chat, int on)
{
    riffle_stats stats;
    int status = get_stats(chat, &stats);
    if (status != CLI_OK) return status;
    chat->stats_after_answer = on;
    chat->paints = on && rf_terminal_colour(RF_STDOUT);
    if (chat->paints && rf_terminal_colour(RF_STDERR)) levels_print_legend(stderr, &stats);
    return CLI_OK;
}

/* Nothing has no speed. */
static void print_speed(const char *what, uint64_t tokens, double seconds)
{
    fprintf(stderr, "%s  %llu tokens", what, (unsigned long long)tokens);
    if (tokens) fprintf(stderr, " at %.1f tokens/s", tokens_per_second(tokens, seconds));
    fputc('\n', stderr);
}

static int run_stats(struct chat *chat, const char *argument)
{
    riffle_stats stats;
    if (strcmp(argument, "on") == 0 || strcmp(argument, "off") == 0)
        return turn_stats(chat, strcmp(argument, "on") == 0);
    if (argument[0]) return cli_fail("/stats takes on, off or nothing, not '%s'", argument);
    int status = get_stats(chat, &stats);
    if (status != CLI_OK) return status;
    fprintf(stderr, "context    %d of %d tokens\n",
            riffle_session_tokens(chat->engine.session, NULL),
            riffle_session_n_ctx(chat->engine.session));
    print_speed("read     ", stats.prefill_tokens, stats.prefill_seconds);
    print_speed("generated", stats.generated_tokens, stats.decode_seconds);
    levels_print(stderr, &stats);
    struct draft_tree tree = {.n = 0};
    draft_tree_look(&tree, chat->engine.session);
    draft_tree_print(stderr, &tree, chat->engine.model, &stats);
    return CLI_OK;
}

/* Replaces the chat's session by one with another chain and the same tokens. */
static int change_chain(struct chat *chat, const char *chain)
{
    struct engine *engine = &chat->engine;
    riffle_session *session;
    const int32_t *tokens;
    int32_t n = riffle_session_tokens(engine->session, &tokens);
    if (engine_add_session(engine, chat->options, riffle_session_n_ctx(engine->session),
                           strcmp(chain, "auto") == 0 ? NULL : chain, &session) != CLI_OK)
        return CLI_FAILED;
    engine_stops(session);
    int code = riffle_prefill(session, tokens, (size_t)n);
    progress_clear(&engine->progress);
    int status = cli_status(code);
    if (status != CLI_OK) {
        riffle_session_close(session);
        engine_stops(engine->session);
        if (status == CLI_INTERRUPTED) cli_fail("/chain was stopped: the chain is as it was");
        return CLI_FAILED;
    }
    riffle_session_reset_stats(session);
    riffle_session_close(engine->session);
    engine->session = session;
    return CLI_OK;
}

static int run_chain(struct chat *chat, const char *argument)
{
    const riffle_model_info *info = &chat->engine.info;
    riffle_stats stats;
    if (argument[0] && change_chain(chat, argument) != CLI_OK) {
        if (rf_interrupts() == 0)
            cli_fail("a chat can change among the levels that it began with (%s); --chain "
                     "chooses them",
                     info->chain);
        return CLI_FAILED;
    }
    int status = get_stats(chat, &stats);
    if (status != CLI_OK) return status;
    int is_first = strcmp(stats.chain, info->chain) == 0;
    inform("%s%s%s", stats.chain, is_first ? ": " : "", is_first ? info->chain_note : "");
    return argument[0] && chat->paints ? turn_stats(chat, 1) : CLI_OK;
}

static int run_save(struct chat *chat, const char *argument)
{
    if (!argument[0]) return cli_fail("/save needs the name of a file");
    int status = conversation_save(&chat->conversation, argument);
    if (status == CLI_OK)
        inform("saved %zu messages to %s", conversation_count(&chat->conversation), argument);
    return status;
}

static int run_load(struct chat *chat, const char *argument)
{
    if (!argument[0]) return cli_fail("/load needs the name of a file");
    int status = conversation_load(&chat->conversation, argument);
    if (status == CLI_OK)
        inform("loaded %zu messages from %s", conversation_count(&chat->conversation), argument);
    return status;
}

static int run_reset(struct chat *chat, const char *argument)
{
    (void)argument;
    int keeps = conversation_system(&chat->conversation) != NULL;
    conversation_cut(&chat->conversation, (size_t)keeps);
    int status = cli_status(riffle_rewind(chat->engine.session, 0));
    if (status == CLI_OK)
        inform("the conversation is empty again%s", keeps ? "; the system message stays" : "");
    return status;
}

static int run_clear(struct chat *chat, const char *argument)
{
    if (rf_terminal_escapes(RF_STDERR)) fputs("\033[H\033[2J", stderr);
    return run_reset(chat, argument);
}

/* The number of messages before the user's last one; SIZE_MAX if there is none. */
static size_t before_last_message(const struct conversation *conversation)
{
    size_t n = conversation_count(conversation);
    while (n-- > 0)
        if (conversation_has_role(conversation, n, "user")) break;
    return n;
}

static int run_undo(struct chat *chat, const char *argument)
{
    (void)argument;
    size_t n = before_last_message(&chat->conversation);
    if (n == SIZE_MAX) return cli_fail("there is no message to forget");
    conversation_cut(&chat->conversation, n);
    inform("forgot the last message and its answer; %zu message%s left", n,
           n == 1 ? " is" : "s are");
    return CLI_OK;
}

/* Answers the last message again. The old answer stays if there is no new one. */
static int run_regen(struct chat *chat, const char *argument)
{
    (void)argument;
    struct conversation *conversation = &chat->conversation;
    size_t n = before_last_message(conversation);
    if (n == SIZE_MAX) return cli_fail("there is no message to answer again");
    json_t *answer = conversation_take(conversation, n + 1);

    riffle_sampling *sampling = &chat->options->sampling;
    sampling->seed++;
    chat->engine.sampling = *sampling;
    if (sampling->temperature > 0)
        inform("answering again with seed %llu", (unsigned long long)sampling->seed);
    else
        inform("answering again; at temp 0 the answer stays the same, /set temp 0.7 would change "
               "it");
    int status = cli_status(riffle_session_set_sampling(chat->engine.session, sampling));
    chat->answered = 0;
    if (status == CLI_OK) status = chat_answer_last(chat);
    conversation_restore(conversation, answer, !chat->answered);
    return status;
}

static int run_system(struct chat *chat, const char *argument)
{
    const char *system = conversation_system(&chat->conversation);
    if (argument[0]) {
        conversation_set_system(&chat->conversation, argument);
        inform(system ? "the system message is replaced" : "the system message is set");
        return CLI_OK;
    }
    if (!system) {
        inform("no system message; /system TEXT sets one");
        return CLI_OK;
    }
    struct buffer safe = {0};
    append_name(&safe, system);
    print_paragraph(stderr, safe.data, 0, text_width(stderr, INFORMATION_WIDTH));
    buffer_free(&safe);
    return CLI_OK;
}

static int run_exit(struct chat *chat, const char *argument)
{
    (void)chat;
    (void)argument;
    return CHAT_LEAVE;
}

static int run_help(struct chat *chat, const char *argument);

static const char *const *on_off(void)
{
    static const char *const words[] = {"on", "off", NULL};
    return words;
}

static const char *const *chains(void)
{
    static const char *const words[] = {"auto", "none", NULL};
    return words;
}

const struct chat_command chat_commands[] = {
    {"/help", "", "this list", .run = run_help, .aliases = {"/?"}},
    {"/stats", "[on|off]",
     "statistics so far; on, off: a line after each answer, and tokens in the colours of their "
     "levels",
     .run = run_stats, .words = on_off},
    {"/chain", "[CHAIN]",
     "the chain of levels that answers, and why; with CHAIN: answer with that one",
     .run = run_chain, .words = chains},
    {"/set", "[NAME VALUE]", "show or change a setting:", .run = chat_set,
     .words = chat_setting_names, .lists_words = 1},
    {"/regen", "", "answer the last message again", .run = run_regen},
    {"/undo", "", "forget the last message and its answer", .run = run_undo},
    {"/save", "FILE", "write the conversation as JSON", .run = run_save, .takes_file = 1},
    {"/load", "FILE", "continue a saved conversation", .run = run_load, .takes_file = 1},
    {"/reset", "", "start a new conversation; the system message stays", .run = run_reset},
    {"/clear", "", "the same, and clear the screen", .run = run_clear},
    {"/system", "TEXT", "set the system message; without TEXT: show it", .run = run_system},
    {"/exit", "", "leave, as Ctrl-D does", .run = run_exit, .aliases = {"/bye", "/quit"}},
    {.name = NULL},
};

const struct chat_command *chat_command_find(const char *name)
{
    for (const struct chat_command *command = chat_commands; command->name; command++) {
        if (strcmp(command->name, name) == 0) return command;
        for (const char *const *alias = command->aliases; *alias; alias++)
            if (strcmp(*alias, name) == 0) return command;
    }
    return NULL;
}

static int run_help(struct chat *chat, const char *argument)
{
    (void)chat;
    (void)argument;
    enum { INDENT = 22 };
    int width = text_width(stderr, INFORMATION_WIDTH);
    for (const struct chat_command *command = chat_commands; command->name; command++) {
        struct buffer names = {0}, help = {0};
        buffer_puts(&names, command->name);
        for (const char *const *alias = command->aliases; *alias; alias++)
            buffer_printf(&names, ", %s", *alias);
        if (command->argument[0]) buffer_printf(&names, " %s", command->argument);
        buffer_puts(&help, command->help);
        const char *const *word = command->lists_words ? command->words() : NULL;
        for (int n = 0; word && *word; word++) buffer_printf(&help, "%s %s", n++ ? "," : "", *word);
        print_entry(stderr, names.data, help.data, INDENT, width);
        buffer_free(&names);
        buffer_free(&help);
    }
    print_paragraph(stderr,
                    "A line that ends in \\ continues in the next; a block between two \"\"\" may "
                    "have many lines. Tab completes commands and files. Ctrl-C stops an answer. A "
                    "message that begins with a slash needs a space before it.",
                    0, width);
    return CLI_OK;
}

static int unknown_command(const char *name)
{
    struct suggestion best = suggestion_for(name);
    for (const struct chat_command *command = chat_commands; command->name; command++) {
        suggestion_offer(&best, command->name);
        for (const char *const *alias = command->aliases; *alias; alias++)
            suggestion_offer(&best, *alias);
    }
    if (best.name)
        return cli_fail("unknown command %s; did you mean %s? /help lists them", name, best.name);
    return cli_fail("unknown command %s; /help lists them, and a message that begins with a slash "
                    "needs a space before it",
                    name);
}

int chat_command(struct chat *chat, const char *line)
{
    size_t n = strcspn(line, " \t\n");
    char name[32], argument[4096], path[4096];
    const char *rest = line + n + strspn(line + n, " \t\n");
    size_t n_rest = strlen(rest);
    while (n_rest && strchr(" \t\n", rest[n_rest - 1])) n_rest--;
    if (n >= sizeof name || n_rest >= sizeof argument)
        return cli_fail("a command has at most %zu characters; a message that begins with a slash "
                        "needs a space before it",
                        sizeof argument - 1);
    snprintf(name, sizeof name, "%.*s", (int)n, line);
    snprintf(argument, sizeof argument, "%.*s", (int)n_rest, rest);
    const struct chat_command *command = chat_command_find(name);
    if (!command) return unknown_command(name);
    if (argument[0] && !command->argument[0])
        return cli_fail("%s takes nothing after it, not '%s'", name, argument);
    if (!command->takes_file) return command->run(chat, argument);
    if (rf_expand_home(argument, path, sizeof path) != 0)
        return cli_fail("%s: there is no home folder for ~, or the path is too long", argument);
    return command->run(chat, path);
}
