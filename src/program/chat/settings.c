/* Shows and changes the options of a chat, with the ranges that they have on the command line. The
 * rows of the table of options do the parsing. */
#include "chat/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "output/buffer.h"
#include "output/errors.h"
#include "output/output.h"
#include "output/suggest.h"
#include "output/wrap.h"

static const char repetition[] = "repetition"; /* opposite of --ignore-repetition */

/* All but the last one have an option of the same name. */
static const char *const settings[] = {"temp",
                                       "top-k",
                                       "top-p",
                                       "min-p",
                                       "repeat-penalty",
                                       "repeat-last-n",
                                       "frequency-penalty",
                                       "presence-penalty",
                                       "seed",
                                       "max-tokens",
                                       "overflow",
                                       repetition,
                                       NULL};
enum { N_SETTINGS = sizeof settings / sizeof *settings - 2 };

const char *const *chat_setting_names(void)
{
    return settings;
}

static const struct option *setting_option(int i)
{
    char dashed[40];
    snprintf(dashed, sizeof dashed, "--%s", settings[i]);
    return option_find(dashed, VERB_CHAT);
}

/* The option that NAME sets; NULL: none. */
static const struct option *setting_find(const char *name)
{
    for (int i = 0; i < N_SETTINGS; i++)
        if (strcmp(settings[i], name) == 0) return setting_option(i);
    return NULL;
}

static void setting_show(const struct cli_options *options, const struct option *option, int is_new)
{
    char text[64];
    option_show(options, option, text, sizeof text);
    if (is_new)
        fprintf(stderr, "%s is now %s\n", option->name + 2, text);
    else
        fprintf(stderr, "%-17s %s\n", option->name + 2, text);
}

static int settings_show_all(const struct chat *chat)
{
    for (int i = 0; i < N_SETTINGS; i++) setting_show(chat->options, setting_option(i), 0);
    fprintf(stderr, "%-17s %s\n", repetition, chat->options->ignore_repetition ? "off" : "on");
    struct buffer source = {0};
    append_name(&source, chat->engine.sampling_source);
    inform("sampling values that nobody set are from: %s", source.data);
    buffer_free(&source);
    return CLI_OK;
}

static int setting_unknown(const char *name)
{
    struct suggestion best = suggestion_for(name);
    struct buffer list = {0};
    for (int i = 0; i < N_SETTINGS; i++) {
        suggestion_offer(&best, settings[i]);
        buffer_printf(&list, "%s, ", settings[i]);
    }
    suggestion_offer(&best, repetition);
    cli_fail("/set has no '%s'; it has %s%s%s", name, list.data, repetition, best.text);
    buffer_free(&list);
    return CLI_FAILED;
}

static int set_repetition(struct chat *chat, const char *value)
{
    int off = strcmp(value, "off") == 0;
    if (!off && strcmp(value, "on") != 0)
        return cli_fail("/set %s must be one of on|off, not '%s'", repetition, value);
    chat->options->ignore_repetition = off;
    inform("%s is now %s", repetition,
           off ? "off: an answer that only repeats itself continues"
               : "on: an answer that only repeats itself is stopped");
    return CLI_OK;
}

int chat_set(struct chat *chat, const char *argument)
{
    size_t n = strcspn(argument, " \t\n");
    char name[32], shown[40];
    const char *value = argument + n + strspn(argument + n, " \t\n");
    if (n == 0) return settings_show_all(chat);
    if (n >= sizeof name) return setting_unknown(argument);
    snprintf(name, sizeof name, "%.*s", (int)n, argument);
    snprintf(shown, sizeof shown, "/set %s", name);

    int is_repetition = strcmp(name, repetition) == 0;
    const struct option *option = setting_find(name);
    if (!option && !is_repetition) return setting_unknown(name);
    if (!value[0]) return cli_fail("%s needs a value; /set alone shows all", shown);
    if (is_repetition) return set_repetition(chat, value);

    struct cli_options changed = *chat->options;
    int status = option_set(&changed, option, shown, value);
    if (status == CLI_OK)
        status = cli_status(riffle_session_set_sampling(chat->engine.session, &changed.sampling));
    if (status != CLI_OK) return status;
    /* The value lies in the command's line, which does not last. The literal does. */
    if (option->kind == OPTION_CHOICE)
        changed.overflow = strcmp(changed.overflow, "drop") == 0 ? "drop" : "stop";
    *chat->options = changed;
    chat->engine.sampling = changed.sampling;
    setting_show(chat->options, option, 1);
    return CLI_OK;
}
