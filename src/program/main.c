/* The `riffle` program: finds the verb, parses its options, runs it. Standard output is checked at
 * the end: an answer that could not be written is a failure. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/offer.h"
#include "options/help.h"
#include "options/input.h"
#include "options/options.h"
#include "output/errors.h"
#include "output/suggest.h"
#include "platform/clock.h"
#include "platform/terminal.h"
#include "platform/topology.h"
#include "riffle.h"
#include "terminal/ask.h"
#include "verbs/verbs.h"

/* NULL if there is no such verb. */
static const struct verb *verb_find(const char *name)
{
    const struct verb *verb = verb_table;
    if (strcmp(name, "models") == 0) name = "list"; /* the old name */
    while (verb->name && strcmp(verb->name, name) != 0) verb++;
    return verb->name ? verb : NULL;
}

static int unknown_verb(const char *name)
{
    struct suggestion best = suggestion_for(name);
    for (const struct verb *verb = verb_table; verb->name; verb++)
        suggestion_offer(&best, verb->name);
    suggestion_offer(&best, "help");
    suggestion_offer(&best, "version");
    return cli_usage_error("unknown %s '%s'%s", name[0] == '-' ? "option" : "verb", name,
                           best.text);
}

static int help(int argc, char **argv)
{
    const struct verb *verb = argc == 1 ? verb_find(argv[0]) : NULL;
    if (argc == 1 && !verb) return cli_usage_error("there is no verb '%s' to help with", argv[0]);
    cli_verb = "help";
    if (argc > 1) return cli_usage_error("one argument too many: '%s'", argv[1]);
    if (verb)
        help_verb(stdout, verb);
    else
        help_program(stdout);
    return CLI_OK;
}

/* Runs `verb` with its arguments, which are the argc of argv. */
static int run_verb(const struct verb *verb, int argc, char **argv, double start_seconds)
{
    struct cli_options options = {.start_seconds = start_seconds, .verb = verb};
    cli_verb = verb->name;
    int status = options_parse(&options, argc, argv);
    if (status == 1) {
        help_verb(stdout, verb);
        status = CLI_OK;
    } else if (status == 0) {
        rf_interrupts_catch(NULL, NULL);
        status = input_read(&options);
        if (status == CLI_OK) status = verbs_run(&options);
    }
    options_free(&options);
    return status;
}

static int without_verb(double start_seconds)
{
    char *model = NULL;
    if (!can_ask()) {
        help_program(stderr);
        return CLI_USAGE;
    }
    fprintf(stderr, "riffle %s; `riffle help` lists the verbs\n", riffle_version());
    int status = offer_chat(&model);
    if (status == CLI_OK && model) status = run_verb(verb_find("chat"), 1, &model, start_seconds);
    free(model);
    return status;
}

static int dispatch(int argc, char **argv, double start_seconds)
{
    if (argc < 2) return without_verb(start_seconds);
    const char *name = argv[1];
    if (strcmp(name, "help") == 0) return help(argc - 2, argv + 2);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) return help(0, NULL);
    if (strcmp(name, "version") == 0 || strcmp(name, "--version") == 0) {
        printf("riffle %s\n", riffle_version());
        return CLI_OK;
    }

    const struct verb *verb = verb_find(name);
    if (!verb) return unknown_verb(name);
    return run_verb(verb, argc - 2, argv + 2, start_seconds);
}

int main(int argc, char **argv)
{
    double start_seconds = rf_clock_seconds();
    rf_guard_streams();
    rf_topology_silence();
    riffle_guard_files(); /* a model that is cut while it is used: a sentence, not a crash */
    rf_terminal_use_utf8();
    int status = dispatch(argc, argv, start_seconds);
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == CLI_OK) {
        /* No message if the reader has gone away. */
        if (errno == EPIPE) return CLI_FAILED;
        return cli_fail("cannot write to standard output: %s",
                        errno ? strerror(errno) : "an earlier write failed");
    }
    return status;
}
