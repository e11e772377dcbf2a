/* Parses the command line with the table of options, and checks options against each other before
 * any model is loaded. Every error is one sentence that names the option. */
#include "options/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "output/buffer.h"
#include "output/errors.h"
#include "output/suggest.h"
#include "platform/random.h"

/* Finds the verb's option `name`, of n characters. If the verb lacks it, returns NULL and sets
 * *other to an option of other verbs with that name, or NULL. */
static const struct option *find_option(const char *name, size_t n, unsigned verb,
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

const struct option *option_find(const char *name, enum verb_bit verb)
{
    const struct option *other;
    return find_option(name, strlen(name), verb, &other);
}

/* Reports an option that exists, but not for this verb. */
static int option_of_others(const struct cli_options *options, const struct option *other)
{
    struct buffer verbs = {0};
    for (const struct verb *verb = verb_table; verb->name; verb++)
        if (other->verbs & verb->bit)
            buffer_printf(&verbs, "%s%s", verbs.count ? ", " : "", verb->name);
    cli_usage_error("%s does not take %s, which is an option of: %s", options->verb->name,
                    other->name, verbs.data);
    buffer_free(&verbs);
    return CLI_USAGE;
}

/* Names that other programs (llama.cpp, ollama, transformers) give our options; "" is no option. */
static const char *known_elsewhere(const char *written, size_t n)
{
    static const struct {
        const char *other, *ours;
    } names[] = {
        {"-m", ""},
        {"--model", ""},
        {"-c", "--ctx"},
        {"--ctx-size", "--ctx"},
        {"--num-ctx", "--ctx"},
        {"--num_ctx", "--ctx"},
        {"-n", "--max-tokens"},
        {"--n-predict", "--max-tokens"},
        {"--predict", "--max-tokens"},
        {"--num-predict", "--max-tokens"},
        {"--num_predict", "--max-tokens"},
        {"--max-new-tokens", "--max-tokens"},
        {"--max_new_tokens", "--max-tokens"},
        {"-t", "--threads"},
        {"--num-thread", "--threads"},
        {"--num_thread", "--threads"},
        {"-C", "--cores"},
        {"--cpu-mask", "--cores"},
        {"--cpu-range", "--cores"},
        {"-s", "--seed"},
        {"-sys", "--system"},
        {"--system-prompt", "--system"},
        {"--chat-template", "--template"},
        {"-r", "--stop"},
        {"--reverse-prompt", "--stop"},
        {"-md", "--draft"},
        {"--model-draft", "--draft"},
        {"--draft-max", "--gamma"},
        {"--draft-p-min", "--min-confidence"},
        {"--repetition-penalty", "--repeat-penalty"},
        {"-v", "--verbose"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(names[i].other, written, n) == 0 && !names[i].other[n]) return names[i].ours;
    return NULL;
}

static int unknown_option(const struct cli_options *options, const char *name, size_t n)
{
    char *written = cli_copy(name, n);
    const char *elsewhere = known_elsewhere(name, n);
    struct suggestion best = suggestion_for(elsewhere && elsewhere[0] ? elsewhere : written);
    for (const struct option *option = option_table; option->name; option++)
        if (option->verbs & options->verb->bit &&
            (!elsewhere || strcmp(option->name, elsewhere) == 0))
            suggestion_offer(&best, option->name);
    if (!elsewhere) suggestion_offer(&best, "--help");
    if (elsewhere && !elsewhere[0] && options->verb->n_arguments)
        snprintf(best.text, sizeof best.text, "; MODEL is given without an option");
    cli_usage_error("unknown option %s%s", written, best.text);
    free(written);
    return CLI_USAGE;
}

/* Whether the text is a number up to *end, of the allowed characters: strtod alone also accepts
 * spaces, hexadecimal numbers, "inf" and "nan". */
static int is_number(const char *text, const char *end, const char *allowed)
{
    return text[0] && text[strspn(text, allowed)] == 0 && *end == 0;
}

static int is_choice(const char *choices, const char *text)
{
    size_t n = strlen(text);
    for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (n && strcspn(p, "|") == n && strncmp(p, text, n) == 0) return 1;
    return 0;
}

static int parse_number(const struct option *option, const char *name, const char *text,
                        double *number)
{
    char *end;
    int whole = option->kind == OPTION_INT;
    *number = strtod(text, &end);
    if (!is_number(text, end, whole ? "+-0123456789" : "+-.eE0123456789"))
        return cli_fail("%s needs a %snumber, not '%s'", name, whole ? "whole " : "", text);
    if (!(*number >= option->low && *number <= option->high))
        return cli_fail("%s must be between %.10g and %.10g, not %s", name, option->low,
                        option->high, text);
    return 0;
}

static int parse_seed(const char *name, const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (is_number(text, end, "0123456789") && !errno) return 0;
    return cli_fail("%s needs a whole number between 0 and 18446744073709551615, not '%s'", name,
                    text);
}

/* Appends a value after a comma. */
static void append_value(char **list, const char *text)
{
    struct buffer both = {0};
    buffer_printf(&both, "%s%s%s", *list ? *list : "", *list ? "," : "", text);
    free(*list);
    *list = both.data;
}

static void append_text(struct text_list *list, const char *text)
{
    list->items = cli_reallocate(list->items, list->count + 1, sizeof *list->items);
    list->items[list->count++] = text;
}

int option_set(struct cli_options *options, const struct option *option, const char *name,
               const char *text)
{
    void *field = (char *)options + option->offset;
    enum option_kind kind = option->kind;
    double number = 0;
    int status = 0;
    if (kind == OPTION_INT || kind == OPTION_FLOAT)
        status = parse_number(option, name, text, &number);
    if (kind == OPTION_SEED) status = parse_seed(name, text, field);
    /* Only a TEXT may be an empty one; no file, model, address or name is. */
    int takes_empty = kind != OPTION_TEXT || strcmp(option->value, "TEXT") == 0;
    if ((kind == OPTION_LIST || kind == OPTION_TEXTS || !takes_empty) && !text[0])
        status = cli_fail("%s needs a %s that is not empty", name,
                          kind == OPTION_TEXT ? option->value : "text");
    if (kind == OPTION_CHOICE && !is_choice(option->choices, text))
        status = cli_fail("%s must be one of %s, not '%s'", name, option->choices, text);
    if (status) return status;
    switch (kind) {
    case OPTION_FLAG: *(int *)field = 1; break;
    case OPTION_TEXT:
    case OPTION_CHOICE: *(const char **)field = text; break;
    case OPTION_LIST: append_value(field, text); break;
    case OPTION_TEXTS: append_text(field, text); break;
    case OPTION_INT: *(int32_t *)field = (int32_t)number; break;
    case OPTION_FLOAT: *(float *)field = (float)number; break;
    case OPTION_SEED: break;
    }
    return 0;
}

void option_show(const struct cli_options *options, const struct option *option, char *text,
                 size_t cap)
{
    const void *field = (const char *)options + option->offset;
    switch (option->kind) {
    case OPTION_INT: snprintf(text, cap, "%d", *(const int32_t *)field); break;
    case OPTION_FLOAT: snprintf(text, cap, "%g", (double)*(const float *)field); break;
    case OPTION_SEED:
        snprintf(text, cap, "%llu", (unsigned long long)*(const uint64_t *)field);
        break;
    case OPTION_CHOICE: snprintf(text, cap, "%s", *(const char *const *)field); break;
    default: snprintf(text, cap, "%s", ""); break;
    }
}

/* Whether the chain has the level, "head", "draft" or "corpus", that an option gives a file to. */
static int chain_has_level(const char *chain, const char *level)
{
    size_t n = strlen(level);
    if (strcmp(chain, "auto") == 0) return 1;
    for (const char *p = chain; *p; p += *p == '>') {
        p += strspn(p, " \t\r\n");
        if (strncmp(p, level, n) == 0 && strchr(" \t\r\n>:", p[n])) return 1;
        p += strcspn(p, ">");
    }
    return 0;
}

static int any_chain_has(const struct cli_options *options, const char *level)
{
    if (options->verb->bit != VERB_BENCH) return chain_has_level(options->chain, level);
    int has = options->chains.count == 0;
    for (size_t i = 0; i < options->chains.count; i++)
        has |= chain_has_level(options->chains.items[i], level);
    return has;
}

/* The value of --head, --draft or --corpus. */
static int check_level(const struct cli_options *options, const char *value, const char *level)
{
    if (value && !any_chain_has(options, level))
        return cli_usage_error("--%s has no place in that chain: it is for 'auto', and for chains "
                               "with a level called %s",
                               level, level);
    return 0;
}

static int check_chain(const struct cli_options *options)
{
    int status = check_level(options, options->draft, "draft");
    if (!status) status = check_level(options, options->corpus, "corpus");
    if (!status && options->head && strcmp(options->head, "none") != 0)
        status = check_level(options, options->head, "head");
    if (status) return status;
    if (options->min_confidence > 0 && !options->gamma)
        return cli_usage_error(
            "--min-confidence needs --gamma: without it drafts are as long as pays");
    return 0;
}

/* Fails for cores that the machine lacks, before a model is loaded. Other failures are reported
 * when the model is opened. */
static int check_cores(const struct cli_options *options)
{
    riffle_cores_options asked;
    riffle_cores_options_init(&asked, sizeof asked);
    asked.cores = options->cores;
    asked.threads = options->threads;
    int code = riffle_cores(&asked, NULL, 0, NULL, NULL);
    return code == RIFFLE_ERR_ARGUMENT ? cli_usage_error("--%s", riffle_last_error()) : 0;
}

static int is_empty(const char *text)
{
    return text && !text[0];
}

static int check_quantize(const struct cli_options *options)
{
    int is_w4a8 = strcmp(options->type, "w4a8") == 0 || strcmp(options->type, "w4a8i") == 0;
    int suits = is_w4a8 || strcmp(options->type, "mxfp4") == 0 || strcmp(options->type, "q4") == 0;
    if (is_w4a8 && !options->calibrate)
        return cli_usage_error("--type %s needs --calibrate FILE, a text", options->type);
    if (options->group && !is_w4a8)
        return cli_usage_error("--group is for --type w4a8 and w4a8i, not for %s", options->type);
    if (options->rotate && options->no_rotate)
        return cli_usage_error("--rotate and --no-rotate exclude each other");
    if (!options->calibrate && (options->chunks || options->high_share >= 0))
        return cli_usage_error("%s needs --calibrate",
                               options->chunks ? "--chunks" : "--high-share");
    if (!options->calibrate) return CLI_OK;
    if (!suits)
        return cli_usage_error("--calibrate is for --type mxfp4, q4, w4a8 or w4a8i, not for %s",
                               options->type);
    if (options->rule && strcmp(options->rule, "floor") == 0)
        return cli_usage_error("--rule floor and --calibrate exclude each other");
    return CLI_OK;
}

/* Checks options against each other. */
static int check_together(const struct cli_options *options)
{
    enum verb_bit verb = options->verb->bit;
    int n_arguments = options->verb->n_arguments,
        only_suites = verb == VERB_BENCH && !options->suite;
    int asks = options->max_tokens || options->raw || options->chat_template;
    const struct {
        int broken;
        const char *sentence;
    } rules[] = {
        {verb == VERB_RM && !options->model, "NAME is missing: a model of `riffle list`"},
        {n_arguments > 0 && verb != VERB_PULL && !options->model,
         "MODEL is missing: a .gguf file, a folder or a name from `riffle list`"},
        {is_empty(options->model), "MODEL is an empty text"},
        {n_arguments > 1 && (!options->out || !options->out[0]),
         "OUT is missing: the name of the file to write"},
        {verb == VERB_QUANTIZE && !options->type,
         "--type is missing: mxfp4, q4, q4_0, w4a8, w4a8i, q6, q8_0 or bf16"},
        {options->prompt && options->file, "-p and -f exclude each other: there is one text"},
        {options->raw && options->system,
         "--system needs the chat template, which --raw leaves out"},
        {options->raw && options->chat_template,
         "--template names a chat template, which --raw leaves out"},
        {options->raw && options->messages,
         "--messages needs the chat template, which --raw leaves out"},
        {options->special && verb == VERB_RUN && !options->raw,
         "--special needs --raw: a message's text is never a special token"},
        {only_suites && (options->n_prompts || asks),
         "--prompts, --max-tokens, --raw and --template need --suite"},
        {only_suites && (options->head || options->draft || options->corpus || options->gamma),
         "--head, --draft, --corpus and --gamma need --suite: without one bench measures plain "
         "decoding"},
        {options->suite && (options->prompt_tokens || options->depths || options->n_gen ||
                            (verb == VERB_BENCH && options->n_ctx)),
         "--prompt-tokens, --depth, --gen and --ctx are not for --suite, whose prompts have a "
         "length"},
        {options->suite && options->csv,
         "--csv has the figures of plain decoding; for those of --suite there is --json"},
        {verb == VERB_BENCH && (options->format || options->preset) &&
             (options->suite || options->csv || options->json),
         "--format and --preset are not for --suite, --csv and --json"},
        {options->preset && (options->prompt_tokens || options->depths || options->n_gen),
         "--prompt-tokens, --depth and --gen are not for --preset, which has its own"},
        {options->csv && options->json, "--csv and --json exclude each other"},
        {options->reference && options->save_reference,
         "--reference and --save-reference exclude each other"},
        {options->ids && !options->json, "--ids needs --json"},
        {verb == VERB_SERVE && options->arguments.count != 1 &&
             (options->name || options->head || options->draft || options->corpus),
         "--name, --head, --draft and --corpus are for one MODEL"},
        {options->pulls && options->arguments.count, "--pull is for serve without MODEL"},
        {options->grammar && options->json_schema,
         "--grammar and --json-schema exclude each other: one of them limits the answer"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].broken) return cli_usage_error("%s", rules[i].sentence);
    if (options->rule && strcmp(options->type, "mxfp4") != 0)
        return cli_usage_error("--rule is for --type mxfp4, not for %s", options->type);
    int status = verb == VERB_QUANTIZE ? check_quantize(options) : CLI_OK;
    if (status) return status;
    for (size_t i = 0; only_suites && i < options->chains.count; i++)
        if (strcmp(options->chains.items[i], "none") != 0)
            return cli_usage_error(
                "--chain '%s' needs --suite: without one bench measures plain decoding",
                options->chains.items[i]);
    status = check_chain(options);
    return status || !options->cores ? status : check_cores(options);
}

static void set_defaults(struct cli_options *options)
{
    int speculates = (options->verb->bit & (VERB_CHAT | VERB_RUN | VERB_SERVE | VERB_INFO)) != 0;
    options->weights = "auto";
    options->kv = "f16";
    options->keep = NAN;
    options->activations = "auto";
    options->chain = speculates ? "auto" : "none";
    options->overflow = "stop";
    options->host = "localhost";
    options->port = 8080;
    options->answers = 8;
    options->queue = 64;
    options->keep_alive = NOT_GIVEN;
    options->model_wait = 120;
    options->store_mb = 4000;
    options->high_share = -1;
    options->sampling = (riffle_sampling){.struct_size = sizeof options->sampling,
                                          .temperature = NAN,
                                          .top_k = NOT_GIVEN,
                                          .top_p = NAN,
                                          .min_p = NAN,
                                          .repeat_penalty = NAN,
                                          .repeat_last_n = NOT_GIVEN,
                                          .seed = (uint32_t)rf_random()};
}

void sampling_fill(riffle_sampling *given, const riffle_sampling *defaults)
{
    if (isnan(given->temperature)) given->temperature = defaults->temperature;
    if (given->top_k == NOT_GIVEN) given->top_k = defaults->top_k;
    if (isnan(given->top_p)) given->top_p = defaults->top_p;
    if (isnan(given->min_p)) given->min_p = defaults->min_p;
    if (isnan(given->repeat_penalty)) given->repeat_penalty = defaults->repeat_penalty;
    if (given->repeat_last_n == NOT_GIVEN) given->repeat_last_n = defaults->repeat_last_n;
}

static int set_argument(struct cli_options *options, const char *argument)
{
    const char **place = options->model ? &options->out : &options->model;
    if (options->verb->n_arguments == ANY_ARGUMENTS && !argument[0])
        return cli_usage_error("%s is an empty text",
                               options->verb->bit == VERB_SERVE ? "MODEL" : "an argument");
    if (options->verb->n_arguments == ANY_ARGUMENTS) {
        append_text(&options->arguments, argument);
        return 0;
    }
    if (options->verb->bit == VERB_RUN && options->model && !options->prompt)
        place = &options->prompt;
    else if (options->verb->n_arguments < (options->model ? 2 : 1) || *place)
        return cli_usage_error("one argument too many: '%s'", argument);
    *place = argument;
    return 0;
}

/* Parses the option at argv[0]. The value is part of it or, for *n_used = 2, argv[1]. */
static int set_option(struct cli_options *options, int argc, char **argv, int *n_used)
{
    const char *name = argv[0];
    size_t n = strncmp(name, "--", 2) == 0 ? strcspn(name, "=") : strlen(name);
    const char *value = name[n] ? name + n + 1 : NULL;
    const struct option *other, *option = find_option(name, n, options->verb->bit, &other);
    if (!option && other && !known_elsewhere(name, n)) return option_of_others(options, other);
    if (!option) return unknown_option(options, name, n);
    if (option->kind == OPTION_FLAG && value)
        return cli_usage_error("%s takes no value", option->name);
    if (option->kind != OPTION_FLAG && !value) {
        if (argc == 1) return cli_usage_error("%s needs a value: %s", name, option->value);
        value = argv[1];
        *n_used = 2;
    }
    return option_set(options, option, option->name, value) ? cli_usage_hint() : 0;
}

int options_parse(struct cli_options *options, int argc, char **argv)
{
    int only_arguments = 0, status = 0;
    set_defaults(options);
    for (int i = 0, n_used; i < argc && status == 0; i += n_used) {
        const char *argument = argv[i];
        n_used = 1;
        if (only_arguments || argument[0] != '-' || !argument[1])
            status = set_argument(options, argument);
        else if (strcmp(argument, "--") == 0)
            only_arguments = 1;
        else if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)
            return 1;
        else
            status = set_option(options, argc - i, argv + i, &n_used);
    }
    return status ? status : check_together(options);
}

void options_free(struct cli_options *options)
{
    free(options->input.text);
    free(options->arguments.items);
    free(options->stop.items);
    free(options->chains.items);
    free(options->origins.items);
    free(options->prompt_tokens);
    free(options->depths);
    free(options->tiers);
    free(options->kernels);
    free(options->shapes);
    free(options->rows);
    *options = (struct cli_options){0};
}
