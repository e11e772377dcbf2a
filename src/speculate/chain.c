/* Parsing and writing chains (chain.h). Names of forms and readings are in the two tables below,
 * names of drafters in drafters.h; anything else is a model. */
#include "speculate/chain.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "platform/file.h"

struct span {
    const char *at;
    size_t bytes;
};

static const struct {
    const char *name;
    enum rf_weight_form form;
    int self;   /* may stand alone: the target's weights in this form */
    int suffix; /* may follow a model's name and ':' */
} forms[] = {
    {"mxfp4", RF_WEIGHTS_MXFP4, 1, 1}, {"q4", RF_WEIGHTS_Q4, 1, 1},
    {"w4", RF_WEIGHTS_W4, 1, 1},       {"stored", RF_WEIGHTS_STORED, 1, 1},
    {"bf16", RF_WEIGHTS_BF16, 0, 1},   {RF_CHAIN_A8, RF_WEIGHTS_STORED, 1, 0},
};
enum { N_FORMS = sizeof forms / sizeof *forms };

static int span_is(struct span span, const char *word)
{
    return strlen(word) == span.bytes && memcmp(span.at, word, span.bytes) == 0;
}

/* Levels that read less of the KV cache, and suffixes of others that do. */
static const char *const readings[] = {[RF_READS_KV4] = "kv4", [RF_READS_WINDOW] = "window"};
enum { N_READINGS = sizeof readings / sizeof *readings };

static int find_form(struct span word)
{
    for (int i = 0; i < N_FORMS; i++)
        if (span_is(word, forms[i].name)) return i;
    return -1;
}

static int is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct span trim(struct span span)
{
    while (span.bytes && is_space(span.at[0])) span.at++, span.bytes--;
    while (span.bytes && is_space(span.at[span.bytes - 1])) span.bytes--;
    return span;
}

static int is_form_word(struct span span)
{
    for (size_t i = 0; i < span.bytes; i++) {
        char c = span.at[i], lower = (char)(c | 0x20);
        if ((c < '0' || c > '9') && (lower < 'a' || lower > 'z')) return 0;
    }
    return 1;
}

/* The part of a level's text that an error sentence quotes. */
static int shown_bytes(struct span span)
{
    return span.bytes < 100 ? (int)span.bytes : 100;
}

/* Splits "tiny.gguf:mxfp4" at its last ':' if what follows may be meant as a form. */
static int split_form(struct span *level, int *form, struct rf_error *error)
{
    *form = -1;
    size_t colon = level->bytes;
    while (colon > 0 && level->at[colon - 1] != ':') colon--;
    if (colon == 0) return 0;
    struct span tail = trim((struct span){level->at + colon, level->bytes - colon});
    struct span head = trim((struct span){level->at, colon - 1});
    if (!is_form_word(tail)) return 0;
    *form = find_form(tail);
    if (*form < 0 || !forms[*form].suffix)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "chain: \"%.*s\" has the form \"%.*s\", which is not known; known are "
                       "mxfp4, q4, w4, bf16 and stored",
                       shown_bytes(*level), level->at, shown_bytes(tail), tail.at);
    if (head.bytes == 0)
        return rf_fail(error, RF_ERR_ARGUMENT, "chain: \"%.*s\" names no model before the ':'",
                       shown_bytes(*level), level->at);
    *level = head;
    return 0;
}

static enum rf_level_reads find_reading(struct span word)
{
    for (int i = RF_READS_ALL + 1; i < N_READINGS; i++)
        if (span_is(word, readings[i])) return (enum rf_level_reads)i;
    return RF_READS_ALL;
}

/* Takes ":kv4" or ":window" off a form of the target's own weights. */
static enum rf_level_reads take_reading(struct span *level)
{
    const char *colon = memchr(level->at, ':', level->bytes);
    if (!colon) return RF_READS_ALL;
    size_t before = (size_t)(colon - level->at);
    struct span head = trim((struct span){level->at, before});
    if (find_form(head) < 0) return RF_READS_ALL;
    enum rf_level_reads reads =
        find_reading(trim((struct span){colon + 1, level->bytes - before - 1}));
    if (reads != RF_READS_ALL) *level = head;
    return reads;
}

static int parse_level(struct rf_chain_level *level, struct span text, struct rf_error *error)
{
    struct span name = text;
    enum rf_level_reads reads = take_reading(&name);
    int form, code = split_form(&name, &form, error);
    if (code) return code;
    if (span_is(name, "auto") || span_is(name, "none"))
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "chain: \"%.*s\" is a whole chain and no level of one", shown_bytes(name),
                       name.at);
    *level = (struct rf_chain_level){.kind = RF_LEVEL_MODEL, .form = RF_WEIGHTS_STORED};
    level->drafter = rf_drafter_find(name.at, name.bytes);
    if (level->drafter) level->kind = RF_LEVEL_DRAFTER;
    if (span_is(name, "target")) level->kind = RF_LEVEL_TARGET;
    if (span_is(name, "head")) level->kind = RF_LEVEL_HEAD;
    int self = find_form(name);
    if (self >= 0) {
        if (!forms[self].self)
            return rf_fail(error, RF_ERR_ARGUMENT,
                           "chain: a draft of the target's own weights is mxfp4, q4, w4, stored or "
                           "a8, not \"%s\"",
                           forms[self].name);
        level->kind = RF_LEVEL_SELF;
        level->form = forms[self].form;
    }
    if (reads == RF_READS_ALL && find_reading(name) != RF_READS_ALL) {
        level->kind = RF_LEVEL_SELF;
        level->is_own = 1;
        reads = find_reading(name);
    }
    if (form >= 0 && level->kind != RF_LEVEL_MODEL)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "chain: \"%.*s\" takes no form after ':', only models do", shown_bytes(name),
                       name.at);
    if (name.bytes >= sizeof level->name)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "chain: the level \"%.*s...\" is longer than %d bytes", shown_bytes(name),
                       name.at, RF_CHAIN_NAME_BYTES - 1);
    if (form >= 0) level->form = forms[form].form;
    memcpy(level->name, name.at, name.bytes);
    level->reads = reads;
    if (reads != RF_READS_ALL && !level->is_own)
        snprintf(level->name + name.bytes, sizeof level->name - name.bytes, ":%s", readings[reads]);
    return 0;
}

static int chain_has(const struct rf_chain *chain, const struct rf_chain_level *level)
{
    for (int32_t i = 0; i < chain->n_levels; i++) {
        const struct rf_chain_level *other = &chain->levels[i];
        if (other->kind == level->kind && other->form == level->form &&
            strcmp(other->name, level->name) == 0)
            return 1;
    }
    return 0;
}

static int too_many(struct rf_error *error)
{
    return rf_fail(error, RF_ERR_ARGUMENT, "chain: it has more than %d levels before the target",
                   RF_MAX_LEVELS - 1);
}

/* Fails for a level that may not follow those before it. */
static int append_level(struct rf_chain *chain, const struct rf_chain_level *level,
                        struct rf_error *error)
{
    int32_t most = level->kind == RF_LEVEL_TARGET ? RF_MAX_LEVELS : RF_MAX_LEVELS - 1;
    const struct rf_chain_level *last =
        chain->n_levels ? &chain->levels[chain->n_levels - 1] : NULL;
    if (last && last->kind == RF_LEVEL_TARGET)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "chain: \"%.100s\" stands after the target, which is the last level",
                       level->name);
    if (chain_has(chain, level))
        return rf_fail(error, RF_ERR_ARGUMENT, "chain: the level \"%.100s\" occurs twice",
                       level->name);
    if (last && level->kind == RF_LEVEL_DRAFTER && last->kind != RF_LEVEL_DRAFTER)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "chain: \"%s\" is one of the cheapest levels and can only be the first",
                       level->name);
    if (last && level->kind == RF_LEVEL_HEAD && last->kind != RF_LEVEL_DRAFTER)
        return rf_fail(
            error, RF_ERR_ARGUMENT,
            "chain: \"%.100s\" stands before the head; the cheaper level comes first, and "
            "only drafters without a model are cheaper than a head",
            last->name);
    if (last && last->kind == RF_LEVEL_SELF && level->kind == RF_LEVEL_MODEL)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "chain: \"%s\" stands before the model \"%.100s\"; the cheaper level comes "
                       "first, and a draft "
                       "of the target's own weights is the dearest",
                       last->name, level->name);
    if (chain->n_levels == most) return too_many(error);
    chain->levels[chain->n_levels++] = *level;
    return 0;
}

static int parse_levels(struct rf_chain *chain, struct span rest, struct rf_error *error)
{
    static const struct rf_chain_level target = {
        .kind = RF_LEVEL_TARGET, .form = RF_WEIGHTS_STORED, .name = "target"};
    for (int more = 1; more;) {
        const char *border = memchr(rest.at, '>', rest.bytes);
        more = border != NULL;
        struct span text = {rest.at, more ? (size_t)(border - rest.at) : rest.bytes};
        struct rf_chain_level level;
        rest.at += text.bytes + (size_t)more;
        rest.bytes -= text.bytes + (size_t)more;
        text = trim(text);
        if (text.bytes == 0)
            return rf_fail(error, RF_ERR_ARGUMENT, "chain: level %d is empty",
                           (int)chain->n_levels + 1);
        int code = parse_level(&level, text, error);
        if (!code) code = append_level(chain, &level, error);
        if (code) return code;
    }
    return chain->levels[chain->n_levels - 1].kind == RF_LEVEL_TARGET
               ? 0
               : append_level(chain, &target, error);
}

static int parse_chain(struct rf_chain *chain, struct span text, struct rf_error *error)
{
    *chain = (struct rf_chain){.choice = RF_CHAIN_LEVELS};
    struct span whole = trim(text);
    if (whole.bytes == 0)
        return rf_fail(error, RF_ERR_ARGUMENT,
                       "chain: it is empty; write \"none\" for no drafts, or levels such as "
                       "\"ngram > mxfp4\"");
    if (span_is(whole, "auto")) {
        chain->choice = RF_CHAIN_AUTO;
        return 0;
    }
    if (span_is(whole, "none")) whole = (struct span){"target", 6};
    int code = parse_levels(chain, whole, error);
    if (code) *chain = (struct rf_chain){.choice = RF_CHAIN_LEVELS};
    return code;
}

int rf_chain_parse(struct rf_chain *chain, const char *text, struct rf_error *error)
{
    return parse_chain(chain, (struct span){text, strlen(text)}, error);
}

/* Adds the levels of a chain that another lacks, each behind those of its kind. */
static int add_missing_levels(struct rf_chain *chain, const struct rf_chain *other,
                              struct rf_error *error)
{
    for (const struct rf_chain_level *level = other->levels;
         level < other->levels + other->n_levels; level++) {
        int32_t at = chain->n_levels;
        if (chain_has(chain, level)) continue;
        if (at == RF_MAX_LEVELS) return too_many(error);
        for (; at > 0 && chain->levels[at - 1].kind > level->kind; at--)
            chain->levels[at] = chain->levels[at - 1];
        chain->levels[at] = *level;
        chain->n_levels++;
    }
    return 0;
}

int rf_chain_parse_all(struct rf_chain *chain, const char *text, struct rf_error *error)
{
    size_t bytes = strcspn(text, ";");
    int code = parse_chain(chain, (struct span){text, bytes}, error);
    while (!code && text[bytes]) {
        struct rf_chain other;
        text += bytes + 1;
        bytes = strcspn(text, ";");
        code = parse_chain(&other, (struct span){text, bytes}, error);
        if (!code && (chain->choice == RF_CHAIN_AUTO || other.choice == RF_CHAIN_AUTO))
            code = rf_fail(error, RF_ERR_ARGUMENT, "chain: auto is a whole chain and stands alone");
        if (!code) code = add_missing_levels(chain, &other, error);
    }
    if (code) *chain = (struct rf_chain){.choice = RF_CHAIN_LEVELS};
    return code;
}

int rf_chain_level_has_weights(const struct rf_chain_level *level)
{
    return level->kind == RF_LEVEL_MODEL || level->kind == RF_LEVEL_SELF;
}

int rf_chain_level_shares_weights(const struct rf_chain_level *level,
                                  enum rf_weight_form target_form)
{
    return level->kind == RF_LEVEL_SELF && (level->is_own || level->form == target_form);
}

/* Text that is cut to its buffer's size at a character's border. */
struct writer {
    char *out;
    size_t cap, n;
};

static void put_text(struct writer *w, const char *text, size_t bytes)
{
    if (w->cap == 0) return;
    size_t room = w->cap - 1 - w->n;
    if (bytes > room) {
        bytes = room;
        while (bytes && ((unsigned char)text[bytes] & 0xc0) == 0x80) bytes--;
        w->cap = w->n + bytes + 1;
    }
    memcpy(w->out + w->n, text, bytes);
    w->n += bytes;
    w->out[w->n] = 0;
}

/* A file's name, with what a terminal would act on escaped. */
static void put_name(struct writer *w, const char *name, size_t bytes)
{
    char shown[RF_UTF8_SHOWN];
    for (size_t i = 0, used; i < bytes; i += used) {
        size_t n = rf_utf8_show(name + i, bytes - i, shown, &used);
        put_text(w, shown, n);
    }
}

static void put_level(struct writer *w, const struct rf_chain_level *level)
{
    static const char suffix[] = ".gguf";
    size_t bytes = strlen(level->name);
    if (level->kind != RF_LEVEL_MODEL) {
        put_text(w, level->name, bytes);
        return;
    }
    const char *name = rf_path_last(level->name, &bytes);
    if (bytes == 0) bytes = strlen(name = level->name);
    size_t cut = sizeof suffix - 1;
    if (bytes > cut && memcmp(name + bytes - cut, suffix, cut) == 0) bytes -= cut;
    put_name(w, name, bytes);
    for (int i = 0; i < N_FORMS; i++) {
        if (forms[i].form != level->form || level->form == RF_WEIGHTS_STORED) continue;
        put_text(w, ":", 1);
        put_text(w, forms[i].name, strlen(forms[i].name));
    }
}

void rf_chain_format(const struct rf_chain *chain, char *out, size_t cap)
{
    struct writer w = {out, cap, 0};
    if (cap) out[0] = 0;
    if (chain->choice == RF_CHAIN_AUTO) put_text(&w, "auto", 4);
    for (int32_t i = 0; i < chain->n_levels; i++) {
        if (i) put_text(&w, " > ", 3);
        put_level(&w, &chain->levels[i]);
    }
}

void rf_chain_level_name(const struct rf_chain_level *level, char *out, size_t cap)
{
    struct writer w = {out, cap, 0};
    if (cap) out[0] = 0;
    put_level(&w, level);
}
