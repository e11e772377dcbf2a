#include "text/template_form.h"

#include <string.h>

#include "text/template_tag.h"

/* What happens to a block's tags and to the branch that is read. */
enum branch {
    KEPT,         /* tags and branch stay */
    KEPT_SKIPPED, /* the tags stay, this branch cannot be taken */
    KEPT_LAST,    /* the tags stay, this branch is always taken when it is reached */
    KEPT_OVER,    /* a branch after KEPT_LAST */
    TAKEN,        /* always taken, and the tags go */
    SKIPPED,      /* never taken; one of the next may be */
    OVER          /* nothing that follows is taken, or everything is inside such a branch */
};

enum { MAX_DEPTH = 32 };

struct reader {
    const char *source;
    size_t n, at;
    struct rf_writer out;    /* the form; its code ends the reading, 1 for an unknown template */
    struct rf_bytes pending; /* constant text after the last tag that stayed */
    struct rf_template_form *form;
    struct rf_tag *tag;
    enum rf_tag_state states[RF_TAG_N_ABSENT];
    struct {
        int is_for;
        enum branch branch;
    } blocks[MAX_DEPTH];
    int depth;
    const char *why;
};

static int is_dead(const struct reader *r)
{
    if (r->depth == 0) return 0;
    enum branch branch = r->blocks[r->depth - 1].branch;
    return branch == SKIPPED || branch == OVER || branch == KEPT_SKIPPED || branch == KEPT_OVER;
}

static int unknown(struct reader *r, const char *why)
{
    if (!r->out.code) r->why = why;
    if (!r->out.code) r->out.code = 1;
    return r->out.code;
}

static void append(struct reader *r, struct rf_bytes *bytes, const char *text, size_t n)
{
    if (!r->out.code) r->out.code = rf_bytes_append(r->out.allocator, bytes, text, n, r->out.error);
}

static const char *find(const char *text, size_t n, const char *wanted)
{
    size_t length = strlen(wanted);
    for (size_t i = 0; i + length <= n; i++)
        if (memcmp(text + i, wanted, length) == 0) return text + i;
    return NULL;
}

/* "\S" in the form stands for the default system prompt, which is stored. */
static struct rf_str take_default_system(struct reader *r)
{
    static const char open[] = "<|im_start|>system\n", close[] = "<|im_end|>\n";
    if (!r->pending.count || r->form->has_default_system) return (struct rf_str){NULL, 0};
    const char *end = r->pending.data + r->pending.count;
    const char *begin = find(r->pending.data, r->pending.count, open);
    if (!begin) return (struct rf_str){NULL, 0};
    begin += strlen(open);
    const char *stop = find(begin, (size_t)(end - begin), close);
    if (!stop) return (struct rf_str){NULL, 0};
    r->form->has_default_system = 1;
    append(r, &r->form->default_system, begin, (size_t)(stop - begin));
    return (struct rf_str){begin, (size_t)(stop - begin)};
}

static void flush_text(struct reader *r)
{
    struct rf_str system = take_default_system(r);
    for (size_t i = 0; i < r->pending.count; i++) {
        if (r->pending.data + i == system.data) {
            rf_write_text(&r->out, "\\S");
            i += system.bytes;
        }
        char c = r->pending.data[i];
        if (c == '{' || c == '\\') rf_write_text(&r->out, "\\");
        rf_write(&r->out, &c, 1);
    }
    r->pending.count = 0;
}

static void keep_text(struct reader *r, const char *text, size_t n)
{
    if (!is_dead(r)) append(r, &r->pending, text, n);
}

/* Appends a tag: `open`, tokens first .. end - 1, `close`. */
static int keep_tag(struct reader *r, const char *open, size_t first, size_t end, const char *close)
{
    flush_text(r);
    rf_write_text(&r->out, open);
    rf_tag_write(r->tag, first, end, &r->out);
    rf_write_text(&r->out, close);
    return r->out.code;
}

/* {{ a + 'b' + c }} prints the same as {{ a }}b{{ c }}, since the operands are strings. */
static int read_output(struct reader *r)
{
    static const char *const opaque[] = {"if", "else", "or", "and", "not", "in", "is",
                                         "==", "!=",   "<",  ">",   "<=",  ">=", "-",
                                         "*",  "/",    "%",  "//",  "**",  ","};
    const struct rf_tag *tag = r->tag;
    size_t n = tag->n_tokens, stop = n;
    if (n == 0) unknown(r, "an empty output tag");
    if (is_dead(r)) return r->out.code;
    for (size_t k = 0; k < sizeof opaque / sizeof *opaque; k++)
        if (rf_tag_find(tag, 0, n, opaque[k]) < n) return keep_tag(r, "{{", 0, n, "}}");
    for (size_t first = 0; first <= n; first = stop + 1) {
        stop = rf_tag_find(tag, first, rf_tag_find(tag, first, n, "+"), "~");
        const struct rf_tag_token *token = &tag->tokens[first];
        if (stop == first)
            unknown(r, "a sum with a part missing");
        else if (stop == first + 1 && token->kind == RF_TAG_STRING)
            keep_text(r, token->text.data, token->text.bytes);
        else
            keep_tag(r, "{{", first, stop, "}}");
    }
    return r->out.code;
}

static int read_set(struct reader *r)
{
    const struct rf_tag *tag = r->tag;
    int simple = rf_tag_is(tag, 2, "="), member = rf_tag_is(tag, 2, ".") && rf_tag_is(tag, 4, "=");
    if (tag->n_tokens < 4 || tag->tokens[1].kind != RF_TAG_NAME || (!simple && !member))
        unknown(r, "that form of {% set %}");
    if (is_dead(r) || r->out.code) return r->out.code;
    int variable = rf_tag_absent_variable(tag->tokens[1].text);
    if (variable >= 0) {
        int always = 1;
        for (int i = 0; i < r->depth; i++) always &= r->blocks[i].branch == TAKEN;
        int none = simple && tag->n_tokens == 4 && rf_tag_is(tag, 3, "none");
        r->states[variable] = none && always ? RF_TAG_NONE : RF_TAG_SET;
    }
    return keep_tag(r, "{%", 0, tag->n_tokens, "%}");
}

/* A branch of a condition that nothing has decided before. */
static enum branch branch_of(enum rf_truth truth)
{
    return truth == RF_TRUE ? TAKEN : truth == RF_FALSE ? SKIPPED : KEPT;
}

static int open_block(struct reader *r)
{
    const struct rf_tag *tag = r->tag;
    int is_for = rf_tag_is(tag, 0, "for");
    if (r->depth == MAX_DEPTH) return unknown(r, "blocks of that depth");
    enum branch branch = OVER;
    if (!is_dead(r) && is_for) {
        for (size_t i = 1; i < tag->n_tokens && !rf_tag_is(tag, i, "in"); i++) {
            int variable = rf_tag_absent_variable(tag->tokens[i].text);
            if (variable >= 0) r->states[variable] = RF_TAG_SET;
        }
        branch = KEPT;
    } else if (!is_dead(r)) {
        branch = branch_of(rf_tag_truth(tag, 1, tag->n_tokens, r->states));
    }
    if (branch == KEPT) keep_tag(r, "{%", 0, tag->n_tokens, "%}");
    r->blocks[r->depth].is_for = is_for;
    r->blocks[r->depth++].branch = branch;
    return r->out.code;
}

/* elif and else */
static int next_branch(struct reader *r)
{
    const struct rf_tag *tag = r->tag;
    if (r->depth == 0 || r->blocks[r->depth - 1].is_for) return unknown(r, "{% else %} there");
    enum branch *branch = &r->blocks[r->depth - 1].branch;
    int is_else = rf_tag_is(tag, 0, "else");
    enum rf_truth truth = is_else ? RF_TRUE : rf_tag_truth(tag, 1, tag->n_tokens, r->states);
    switch (*branch) {
    case KEPT:
    case KEPT_SKIPPED:
        flush_text(r);
        *branch = KEPT;
        if (truth == RF_FALSE)
            *branch = KEPT_SKIPPED;
        else if (truth == RF_TRUE)
            keep_tag(r, "{%else", 0, 0, "%}");
        else
            keep_tag(r, "{%", 0, tag->n_tokens, "%}");
        if (truth == RF_TRUE && !is_else) *branch = KEPT_LAST;
        break;
    case KEPT_LAST:
        *branch = KEPT_OVER;
        flush_text(r);
        break;
    case TAKEN: *branch = OVER; break;
    case SKIPPED:
        *branch = branch_of(truth);
        if (*branch == KEPT) keep_tag(r, "{%if", 1, tag->n_tokens, "%}");
        break;
    case KEPT_OVER:
    case OVER: break;
    }
    return r->out.code;
}

static int close_block(struct reader *r)
{
    int is_for = rf_tag_is(r->tag, 0, "endfor");
    if (r->depth == 0 || r->blocks[r->depth - 1].is_for != is_for)
        return unknown(r, "blocks that do not match");
    enum branch branch = r->blocks[--r->depth].branch;
    if (branch == TAKEN || branch == SKIPPED || branch == OVER) return 0;
    return keep_tag(r, is_for ? "{%endfor" : "{%endif", 0, 0, "%}");
}

static int read_block(struct reader *r)
{
    const struct rf_tag *tag = r->tag;
    int bare =
        rf_tag_is(tag, 0, "else") || rf_tag_is(tag, 0, "endif") || rf_tag_is(tag, 0, "endfor");
    if (bare != (tag->n_tokens == 1))
        return unknown(r, "a statement with too little or too much in it");
    if (rf_tag_is(tag, 0, "if") || rf_tag_is(tag, 0, "for")) return open_block(r);
    if (rf_tag_is(tag, 0, "elif") || rf_tag_is(tag, 0, "else")) return next_branch(r);
    if (rf_tag_is(tag, 0, "endif") || rf_tag_is(tag, 0, "endfor")) return close_block(r);
    if (rf_tag_is(tag, 0, "set")) return read_set(r);
    return unknown(r, "statements besides if, for and set");
}

/* ---- Jinja's lexer ---- */

static int is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The text before a tag that opens at `end`, without what "{%-" or lstrip_blocks remove. */
static size_t text_end(const struct reader *r, size_t begin, size_t end, char kind, char sign)
{
    size_t stop = end;
    if (sign == '-') {
        while (stop > begin && is_space(r->source[stop - 1])) stop--;
    } else if (sign != '+' && kind != '{') {
        while (stop > begin && r->source[stop - 1] != '\n' && is_space(r->source[stop - 1])) stop--;
        /* Only where there is only white space between the beginning of the line and the tag. */
        if (stop > 0 && r->source[stop - 1] != '\n') stop = end;
    }
    return stop;
}

/* Skips what a closing brace removes: all white space after '-', else one newline after blocks and
 * comments. */
static void skip_after_tag(struct reader *r, char kind, char sign)
{
    if (sign == '-')
        while (r->at < r->n && is_space(r->source[r->at])) r->at++;
    else if (sign != '+' && kind != '{' && r->at < r->n && r->source[r->at] == '\n')
        r->at++;
}

static int read_comment(struct reader *r, size_t from)
{
    const char *close = find(r->source + from, r->n - from, "#}");
    if (!close) return unknown(r, "a comment that does not end");
    size_t end = (size_t)(close - r->source);
    r->at = end + 2;
    skip_after_tag(r, '#', end > from ? r->source[end - 1] : 0);
    return r->out.code;
}

/* Reads a tag and what follows it. `kind` is '%' or '{'. */
static int read_tag(struct reader *r, size_t inside, char kind)
{
    const char *why = rf_tag_read(r->tag, r->source, r->n, inside, kind == '%' ? "%}" : "}}");
    if (!why && kind == '{' && r->tag->sign == '+') why = "a sum with a part missing";
    if (why) return unknown(r, why);
    r->at = r->tag->end;
    skip_after_tag(r, kind, r->tag->sign);
    return kind == '%' ? read_block(r) : read_output(r);
}

static void read_all(struct reader *r)
{
    while (r->at < r->n && !r->out.code) {
        size_t begin = r->at, open = begin;
        while (open < r->n &&
               !(r->source[open] == '{' && open + 1 < r->n && strchr("{%#", r->source[open + 1])))
            open++;
        if (open == r->n) {
            keep_text(r, r->source + begin, r->n - begin);
            break;
        }
        char kind = r->source[open + 1], sign = open + 2 < r->n ? r->source[open + 2] : 0;
        if (sign != '-' && sign != '+') sign = 0;
        if (kind == '{' && sign == '+') unknown(r, "{{+");
        keep_text(r, r->source + begin, text_end(r, begin, open, kind, sign) - begin);
        size_t inside = open + 2 + (sign != 0);
        if (kind == '#')
            read_comment(r, inside);
        else
            read_tag(r, inside, kind);
    }
    if (r->depth) unknown(r, "blocks that do not end");
    flush_text(r);
}

/* All newlines become \n, and the last one is removed, as in Jinja. */
static size_t normalise_newlines(const char *source, size_t n, char *out)
{
    size_t made = 0;
    for (size_t i = 0; i < n; i++) {
        if (source[i] == '\r') {
            out[made++] = '\n';
            if (i + 1 < n && source[i + 1] == '\n') i++;
        } else {
            out[made++] = source[i];
        }
    }
    return made && out[made - 1] == '\n' ? made - 1 : made;
}

int rf_template_form(const char *source, size_t n, const struct rf_allocator *allocator,
                     struct rf_template_form *form, const char **why, struct rf_error *error)
{
    *form = (struct rf_template_form){.fingerprint = 0xcbf29ce484222325u};
    struct reader r = {.out = {allocator, &form->text, error, 0}, .form = form};
    /* The source, then the values of its strings. */
    char *text = rf_malloc(allocator, n, 2, "chat template", error);
    r.tag = rf_malloc(allocator, 1, sizeof *r.tag, "chat template", error);
    if (text && r.tag) {
        r.source = text;
        r.n = normalise_newlines(source, n, text);
        r.tag->strings = text + n;
        r.tag->strings_used = 0;
        read_all(&r);
    } else {
        r.out.code = RF_ERR_MEMORY;
    }
    for (size_t i = 0; i < form->text.count; i++)
        form->fingerprint =
            (form->fingerprint ^ (unsigned char)form->text.data[i]) * 0x100000001b3u;
    *why = r.why;
    rf_bytes_free(allocator, &r.pending);
    rf_free(allocator, r.tag);
    rf_free(allocator, text);
    if (r.out.code) rf_template_form_free(allocator, form);
    return r.out.code;
}

void rf_template_form_free(const struct rf_allocator *allocator, struct rf_template_form *form)
{
    rf_bytes_free(allocator, &form->text);
    rf_bytes_free(allocator, &form->default_system);
}
