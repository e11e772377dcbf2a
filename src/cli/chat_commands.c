#include <stdio.h>
#include <string.h>

#include "cli/chat.h"
#include "cli/cli.h"
#include "cli/levels.h"
#include "cli/output.h"
#include "cli/suggest.h"
#include "platform/terminal.h"

struct command {
    const char *name, *argument, *help;
    enum command_result (*run)(struct chat *chat, const char *argument);
};

static enum command_result run_help(struct chat *chat, const char *argument);

static enum command_result library_failed(int code)
{
    cli_library_failed(code);
    return COMMAND_FAILED;
}

static enum command_result turn_stats(struct chat *chat, int on)
{
    riffle_stats stats;
    int code = riffle_session_get_stats(chat->engine.session, &stats, sizeof stats);
    if (code != RIFFLE_OK) return library_failed(code);
    chat->stats_after_answer = on;
    chat->paints = on && rf_terminal_colour(RF_STDOUT);
    if (chat->paints && rf_terminal_colour(RF_STDERR)) levels_print_legend(stderr, &stats);
    return COMMAND_DONE;
}

static enum command_result run_stats(struct chat *chat, const char *argument)
{
    if (strcmp(argument, "on") == 0 || strcmp(argument, "off") == 0)
        return turn_stats(chat, strcmp(argument, "on") == 0);
    if (argument[0]) {
        cli_fail("/stats takes on, off or nothing, not '%s'", argument);
        return COMMAND_FAILED;
    }
    riffle_stats stats;
    int code = riffle_session_get_stats(chat->engine.session, &stats, sizeof stats);
    if (code != RIFFLE_OK) return library_failed(code);
    fprintf(stderr, "context    %d of %d tokens\n",
            riffle_session_tokens(chat->engine.session, NULL),
            riffle_session_n_ctx(chat->engine.session));
    fprintf(stderr, "read       %llu tokens at %.1f tokens/s\n",
            (unsigned long long)stats.prefill_tokens,
            tokens_per_second(stats.prefill_tokens, stats.prefill_seconds));
    fprintf(stderr, "generated  %llu tokens at %.1f tokens/s\n",
            (unsigned long long)stats.generated_tokens,
            tokens_per_second(stats.generated_tokens, stats.decode_seconds));
    levels_print(stderr, &stats);
    return COMMAND_DONE;
}

/* Replaces the chat's session by one with another chain and the same tokens. */
static enum command_result change_chain(struct chat *chat, const char *chain)
{
    struct engine *engine = &chat->engine;
    riffle_session *session;
    const int32_t *tokens;
    int32_t n = riffle_session_tokens(engine->session, &tokens);
    if (engine_add_session(engine, chat->options, riffle_session_n_ctx(engine->session),
                           strcmp(chain, "auto") == 0 ? NULL : chain, &session) != CLI_OK)
        return COMMAND_FAILED;
    engine_stops(session);
    int code = riffle_prefill(session, tokens, (size_t)n);
    progress_clear(&engine->progress);
    if (code != RIFFLE_OK) {
        riffle_session_close(session);
        engine_stops(engine->session);
        if (code == RIFFLE_ERR_CANCELLED && rf_interrupts() > 0)
            cli_fail("/chain was stopped: the chain is as it was");
        else
            library_failed(code);
        return COMMAND_FAILED;
    }
    riffle_session_reset_stats(session);
    riffle_session_close(engine->session);
    engine->session = session;
    return COMMAND_DONE;
}

static enum command_result run_chain(struct chat *chat, const char *argument)
{
    riffle_stats stats;
    if (argument[0] && change_chain(chat, argument) != COMMAND_DONE) {
        if (rf_interrupts() == 0)
            fprintf(stderr,
                    "riffle: a chat can change among the levels that it began with (%s); --chain "
                    "chooses them\n",
                    chat->engine.info.chain);
        return COMMAND_FAILED;
    }
    int code = riffle_session_get_stats(chat->engine.session, &stats, sizeof stats);
    if (code != RIFFLE_OK) return library_failed(code);
    int is_first = strcmp(stats.chain, chat->engine.info.chain) == 0;
    fprintf(stderr, "%s%s%s\n", stats.chain, is_first ? ": " : "",
            is_first ? chat->engine.info.chain_note : "");
    if (argument[0] && chat->paints) return turn_stats(chat, 1);
    return COMMAND_DONE;
}

static enum command_result run_save(struct chat *chat, const char *argument)
{
    if (!argument[0]) {
        cli_fail("/save needs the name of a file");
        return COMMAND_FAILED;
    }
    if (conversation_save(&chat->conversation, argument) != CLI_OK) return COMMAND_FAILED;
    fprintf(stderr, "saved %zu messages to %s\n", chat->conversation.count, argument);
    return COMMAND_DONE;
}

static enum command_result run_load(struct chat *chat, const char *argument)
{
    if (!argument[0]) {
        cli_fail("/load needs the name of a file");
        return COMMAND_FAILED;
    }
    if (conversation_load(&chat->conversation, argument) != CLI_OK) return COMMAND_FAILED;
    fprintf(stderr, "loaded %zu messages from %s\n", chat->conversation.count, argument);
    return COMMAND_DONE;
}

static enum command_result run_reset(struct chat *chat, const char *argument)
{
    (void)argument;
    conversation_cut(&chat->conversation, conversation_system(&chat->conversation) ? 1 : 0);
    int code = riffle_rewind(chat->engine.session, 0);
    return code == RIFFLE_OK ? COMMAND_DONE : library_failed(code);
}

static enum command_result run_system(struct chat *chat, const char *argument)
{
    if (argument[0]) {
        conversation_set_system(&chat->conversation, argument);
        return COMMAND_DONE;
    }
    const char *system = conversation_system(&chat->conversation);
    print_name(stderr, system ? system : "no system message; /system TEXT sets one");
    fputc('\n', stderr);
    return COMMAND_DONE;
}

static enum command_result run_exit(struct chat *chat, const char *argument)
{
    (void)chat;
    (void)argument;
    return COMMAND_EXIT;
}

static const struct command commands[] = {
    {"/help", "", "this list", run_help},
    {"/stats", "[on|off]",
     "statistics so far; on, off: a line after each answer, and tokens in the colours of their "
     "levels",
     run_stats},
    {"/chain", "[CHAIN]",
     "the chain of levels that answers, and why; with CHAIN: answer with that one", run_chain},
    {"/save", "FILE", "write the conversation as JSON", run_save},
    {"/load", "FILE", "continue a saved conversation", run_load},
    {"/reset", "", "start a new conversation; the system message stays", run_reset},
    {"/system", "TEXT", "set the system message; without TEXT: show it", run_system},
    {"/exit", "", "leave, as Ctrl-D does", run_exit},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static enum command_result run_help(struct chat *chat, const char *argument)
{
    (void)chat;
    (void)argument;
    for (int i = 0; i < N_COMMANDS; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s %s", commands[i].name, commands[i].argument);
        fprintf(stderr, "  %-16s %s\n", name, commands[i].help);
    }
    fputs("A line that ends in \\ continues in the next; a block between two \"\"\" may have many "
          "lines.\nCtrl-C stops an answer. A message that begins with a slash needs a space before "
          "it.\n",
          stderr);
    return COMMAND_DONE;
}

enum command_result chat_command(struct chat *chat, const char *line)
{
    size_t n = strcspn(line, " \t\n");
    char name[32], argument[4096];
    const char *rest = line + n + strspn(line + n, " \t\n");
    size_t n_rest = strlen(rest);
    while (n_rest && strchr(" \t\n", rest[n_rest - 1])) n_rest--;
    if (n >= sizeof name || n_rest >= sizeof argument) {
        cli_fail("a command has at most %zu characters; a message that begins with a slash needs a "
                 "space before it",
                 sizeof argument - 1);
        return COMMAND_FAILED;
    }
    snprintf(name, sizeof name, "%.*s", (int)n, line);
    snprintf(argument, sizeof argument, "%.*s", (int)n_rest, rest);

    struct suggestion best = suggestion_for(name);
    for (int i = 0; i < N_COMMANDS; i++) {
        const struct command *command = &commands[i];
        suggestion_offer(&best, command->name);
        if (strcmp(command->name, name) != 0) continue;
        if (argument[0] && !command->argument[0]) {
            cli_fail("%s takes nothing after it, not '%s'", name, argument);
            return COMMAND_FAILED;
        }
        return command->run(chat, argument);
    }
    if (best.name)
        cli_fail("unknown command %s; did you mean %s? /help lists them", name, best.name);
    else
        cli_fail("unknown command %s; /help lists them, and a message that begins with a slash "
                 "needs a space before it",
                 name);
    return COMMAND_FAILED;
}
