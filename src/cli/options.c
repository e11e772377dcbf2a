#include "cli/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/cli.h"
#include "cli/option_table.h"
#include "cli/suggest.h"
#include "platform/terminal.h"

const struct verb *verb_find(const char *name)
{
    for (const struct verb *verb = verb_table; verb->name; verb++)
        if (strcmp(verb->name, name) == 0) return verb;
    return NULL;
}

const char *verb_nearest(const char *text)
{
    struct suggestion best = suggestion_for(text);
    for (const struct verb *verb = verb_table; verb->name; verb++)
        suggestion_offer(&best, verb->name);
    suggestion_offer(&best, "help");
    suggestion_offer(&best, "version");
    return best.name;
}

/* Finds the verb's option `name`, of n characters. If the verb lacks it, returns NULL and sets
 * *other to an option of other verbs with that name, or NULL. */
static const struct option *find(const char *name, size_t n, unsigned verb,
                                 const struct option **other)
{
    *other = NULL;
    for (const struct option *option = option_table; option->name; option++) {
        int same =
            (strncmp(option->name, name, n) == 0 && option->name[n] == 0) ||
            (option->letter && strncmp(option->letter, name, n) == 0 && option->letter[n] == 0);
        if (!same) continue;
        if (option->verbs & verb) return option;
        *other = option;
    }
    return NULL;
}

static int unknown(const struct verb *verb, const char *name, size_t n, const struct option *other)
{
    if (other) {
        struct buffer verbs = {0};
        for (const struct verb *v = verb_table; v->name; v++)
            if (other->verbs & v->bit) {
                buffer_puts(&verbs, verbs.count ? ", " : "");
                buffer_puts(&verbs, v->name);
            }
        cli_usage_error(verb->name, "%s does not take %s, which is an option of: %s", verb->name,
                        other->name, verbs.data);
        buffer_free(&verbs);
        return CLI_USAGE;
    }
    char *written = cli_copy(name, n);
    struct suggestion best = suggestion_for(written);
    for (const struct option *option = option_table; option->name; option++)
        if (option->verbs & verb->bit) suggestion_offer(&best, option->name);
    suggestion_offer(&best, "--help");
    if (best.name)
        cli_usage_error(verb->name, "unknown option %s; did you mean %s?", written, best.name);
    else
        cli_usage_error(verb->name, "unknown option %s", written);
    free(written);
    return CLI_USAGE;
}

/* Only decimal digits, a sign and, for reals, point and exponent: strtod alone also accepts spaces,
 * hexadecimal numbers, "inf" and "nan". */
static int looks_like_number(const char *text, const char *allowed)
{
    return text[0] && text[strspn(text, allowed)] == 0;
}

static int parse_int(const struct verb *verb, const struct option *option, const char *text,
                     int32_t *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (!looks_like_number(text, "+-0123456789") || *end)
        return cli_usage_error(verb->name, "%s needs a whole number, not '%s'", option->name, text);
    if (errno || (double)number < option->low || (double)number > option->high)
        return cli_usage_error(verb->name, "%s must be between %.0f and %.0f, not %s", option->name,
                               option->low, option->high, text);
    *value = (int32_t)number;
    return 0;
}

static int parse_float(const struct verb *verb, const struct option *option, const char *text,
                       float *value)
{
    char *end;
    double number = strtod(text, &end);
    if (!looks_like_number(text, "+-.eE0123456789") || *end)
        return cli_usage_error(verb->name, "%s needs a number, not '%s'", option->name, text);
    if (!(number >= option->low && number <= option->high))
        return cli_usage_error(verb->name, "%s must be between %g and %g, not %s", option->name,
                               option->low, option->high, text);
    *value = (float)number;
    return 0;
}

static int parse_seed(const struct verb *verb, const struct option *option, const char *text,
                      uint64_t *value)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (!looks_like_number(text, "0123456789") || *end || errno)
        return cli_usage_error(
            verb->name, "%s needs a whole number between 0 and 18446744073709551615, not '%s'",
            option->name, text);
    *value = number;
    return 0;
}

static int is_choice(const char *choices, const char *text)
{
    size_t n = strlen(text);
    for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (n && strcspn(p, "|") == n && strncmp(p, text, n) == 0) return 1;
    return 0;
}

/* Appends a value to a list. */
static int append(const struct verb *verb, const struct option *option, const char *text,
                  char **list)
{
    if (!text[0])
        return cli_usage_error(verb->name, "%s needs a text that is not empty", option->name);
    struct buffer both = {0};
    if (*list) buffer_puts(&both, *list);
    if (*list) buffer_puts(&both, ",");
    buffer_puts(&both, text);
    free(*list);
    *list = both.data;
    return 0;
}

/* Appends a text to a list. */
static int add_text(const struct verb *verb, const struct option *option, const char *text,
                    struct text_list *list)
{
    if (!text[0])
        return cli_usage_error(verb->name, "%s needs a text that is not empty", option->name);
    list->items = cli_reallocate(list->items, list->count + 1, sizeof *list->items);
    list->items[list->count++] = text;
    return 0;
}

static int set_value(struct cli_options *options, const struct verb *verb,
                     const struct option *option, const char *text)
{
    void *field = (char *)options + option->offset;
    switch (option->kind) {
    case OPTION_FLAG: *(int *)field = 1; return 0;
    case OPTION_TEXT: *(const char **)field = text; return 0;
    case OPTION_LIST: return append(verb, option, text, field);
    case OPTION_INT: return parse_int(verb, option, text, field);
    case OPTION_FLOAT: return parse_float(verb, option, text, field);
    case OPTION_SEED: options->has_seed = 1; return parse_seed(verb, option, text, field);
    case OPTION_TEXTS: return add_text(verb, option, text, field);
    case OPTION_CHOICE:
        if (!is_choice(option->choices, text))
            return cli_usage_error(verb->name, "%s must be one of %s, not '%s'", option->name,
                                   option->choices, text);
        *(const char **)field = text;
        return 0;
    }
    return 0;
}

/* Whether the chain uses the model of --draft. */
static int chain_has_draft(const char *chain)
{
    static const char blank[] = " \t\r\n", draft[] = "draft";
    if (strcmp(chain, "auto") == 0) return 1;
    for (const char *p = chain; *p; p += *p == '>') {
        p += strspn(p, blank);
        size_t n = strcspn(p, ">");
        if (strncmp(p, draft, sizeof draft - 1) == 0 && strchr(" \t\r\n>:", p[sizeof draft - 1]))
            return 1;
        p += n;
    }
    return 0;
}

static int check_chain(const struct cli_options *options, const struct verb *verb)
{
    int has_draft = chain_has_draft(options->chain);
    if (verb->bit == VERB_BENCH) {
        has_draft = options->chains.count == 0;
        for (size_t i = 0; i < options->chains.count; i++)
            has_draft |= chain_has_draft(options->chains.items[i]);
    }
    if (options->draft && !options->draft[0])
        return cli_usage_error(verb->name, "--draft is an empty text");
    if (options->draft && !has_draft)
        return cli_usage_error(verb->name, "--draft has no place in that chain: it is for 'auto', "
                                           "and for chains with a level called draft");
    if (options->min_confidence > 0 && !options->gamma)
        return cli_usage_error(
            verb->name, "--min-confidence needs --gamma: without it drafts are as long as pays");
    return 0;
}

/* Fails for cores that the machine lacks, before a model is loaded. Other failures are reported
 * when the model is opened. */
static int check_cores(const struct cli_options *options, const struct verb *verb)
{
    riffle_cores_options asked;
    riffle_cores_options_init(&asked, sizeof asked);
    asked.cores = options->cores;
    asked.threads = options->threads;
    int code = riffle_cores(&asked, NULL, 0, NULL, NULL);
    return code == RIFFLE_ERR_ARGUMENT ? cli_usage_error(verb->name, "--%s", riffle_last_error())
                                       : 0;
}

/* Checks options against each other. */
static int check_together(const struct cli_options *options, const struct verb *verb)
{
    if (verb->n_arguments > 0 && !options->model)
        return cli_usage_error(
            verb->name, "MODEL is missing: a .gguf file, a folder or a name from `riffle models`");
    if (options->model && !options->model[0])
        return cli_usage_error(verb->name, "MODEL is an empty text");
    if (verb->n_arguments > 1 && (!options->out || !options->out[0]))
        return cli_usage_error(verb->name, "OUT is missing: the name of the file to write");
    if (verb->bit == VERB_QUANTIZE && !options->type)
        return cli_usage_error(verb->name, "--type is missing: mxfp4, q4, q4_0, q8_0 or bf16");
    if (options->rule && strcmp(options->type, "mxfp4") != 0)
        return cli_usage_error(verb->name, "--rule is for --type mxfp4, not for %s", options->type);
    if (options->prompt && options->file)
        return cli_usage_error(verb->name, "-p and -f exclude each other: there is one text");
    if (options->raw && options->system)
        return cli_usage_error(verb->name,
                               "--system needs the chat template, which --raw leaves out");
    if (options->raw && options->chat_template)
        return cli_usage_error(verb->name,
                               "--template names a chat template, which --raw leaves out");
    if (options->special && verb->bit == VERB_RUN && !options->raw)
        return cli_usage_error(verb->name,
                               "--special needs --raw: a message's text is never a special token");
    if (!options->suite &&
        (options->n_prompts || (verb->bit == VERB_BENCH &&
                                (options->max_tokens || options->raw || options->chat_template))))
        return cli_usage_error(verb->name,
                               "--prompts, --max-tokens, --raw and --template need --suite");
    if (verb->bit == VERB_BENCH && !options->suite && (options->draft || options->gamma))
        return cli_usage_error(
            verb->name,
            "--draft and --gamma need --suite: without one bench measures plain decoding");
    for (size_t i = 0; !options->suite && i < options->chains.count; i++)
        if (strcmp(options->chains.items[i], "none") != 0)
            return cli_usage_error(
                verb->name, "--chain '%s' needs --suite: without one bench measures plain decoding",
                options->chains.items[i]);
    if (options->ids && !options->json) return cli_usage_error(verb->name, "--ids needs --json");
    int status = check_chain(options, verb);
    return status || !options->cores ? status : check_cores(options, verb);
}

static void set_defaults(struct cli_options *options, const struct verb *verb)
{
    int speculates = (verb->bit & (VERB_CHAT | VERB_RUN | VERB_INFO)) != 0;
    *options = (struct cli_options){.start_seconds = options->start_seconds,
                                    .verb = verb->name,
                                    .weights = "stored",
                                    .chain = speculates ? "auto" : "none"};
    riffle_sampling_init(&options->sampling, sizeof options->sampling);
}

int options_parse(struct cli_options *options, const struct verb *verb, int argc, char **argv)
{
    int only_arguments = 0;
    set_defaults(options, verb);
    for (int i = 0; i < argc; i++) {
        const char *argument = argv[i];
        if (only_arguments || argument[0] != '-' || !argument[1]) {
            const char **place = options->model ? &options->out : &options->model;
            if (verb->n_arguments < (options->model ? 2 : 1) || *place)
                return cli_usage_error(verb->name, "one argument too many: '%s'", argument);
            *place = argument;
            continue;
        }
        if (strcmp(argument, "--") == 0) {
            only_arguments = 1;
            continue;
        }
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) return 1;

        size_t n = strncmp(argument, "--", 2) == 0 ? strcspn(argument, "=") : strlen(argument);
        const char *value = argument[n] ? argument + n + 1 : NULL;
        const struct option *other, *option = find(argument, n, verb->bit, &other);
        if (!option) return unknown(verb, argument, n, other);
        if (option->kind == OPTION_FLAG && value)
            return cli_usage_error(verb->name, "%s takes no value", option->name);
        if (option->kind != OPTION_FLAG && !value) {
            if (i + 1 == argc)
                return cli_usage_error(verb->name, "%s needs a value: %s", argument, option->value);
            value = argv[++i];
        }
        int status = set_value(options, verb, option, value);
        if (status) return status;
    }
    if (options->sampling.temperature > 0 && !options->has_seed)
        options->sampling.seed = rf_entropy();
    return check_together(options, verb);
}

void options_free(struct cli_options *options)
{
    free(options->stop.items);
    free(options->chains.items);
    free(options->tiers);
    free(options->kernels);
    free(options->shapes);
    free(options->rows);
    *options = (struct cli_options){0};
}
