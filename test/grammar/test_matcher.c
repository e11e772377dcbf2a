/* Masks and states of random grammars, beside a plain recogniser of the rules that looks at each
 * token by itself. */
#include "base/utf8.h"
#include "grammar/ir.h"
#include "platform/memory.h"
#include "support/check.h"
#include "vocabulary.h"

enum { TEXT = 40, GRAMMARS = 700, STEPS = 14, WALKS = 3 };

static uint64_t seed = 1;

static uint32_t draw(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* ---- the plain recogniser: sets of places where a part may end, as bits ---- */

struct plain {
    const struct rf_ir *ir;
    const char *text;
    int n;
    int goes_on; /* some text of the grammar is longer and begins with this one */
    uint64_t ends[64][TEXT + 2];
    char known[64][TEXT + 2];
};

static uint64_t ends_of(struct plain *p, const struct rf_expr *e, uint64_t from);

static uint64_t rule_ends(struct plain *p, int32_t rule, int at)
{
    if (!p->known[rule][at]) {
        p->ends[rule][at] = ends_of(p, p->ir->rules[rule].expr, (uint64_t)1 << at);
        p->known[rule][at] = 1;
    }
    return p->ends[rule][at];
}

static uint64_t text_ends(struct plain *p, const char *text, int bytes, int at)
{
    int left = p->n - at, same = left < bytes ? left : bytes;
    if (memcmp(p->text + at, text, (size_t)same) != 0) return 0;
    if (left < bytes) p->goes_on = 1;
    return left < bytes ? 0 : (uint64_t)1 << (at + bytes);
}

static int has_any(const struct rf_expr *e, uint32_t low, uint32_t high)
{
    for (int32_t i = 0; i < e->n; i++)
        if (e->ranges[i].low <= high && e->ranges[i].high >= low) return 1;
    return 0;
}

static uint64_t chars_ends(struct plain *p, const struct rf_expr *e, int at)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const char *text = p->text + at;
    size_t left = (size_t)(p->n - at), broken, length = rf_utf8_length(text, left);
    int partial = 0;
    if (length) {
        uint32_t c = rf_utf8_decode(text, length);
        return has_any(e, c, c) ? (uint64_t)1 << (at + (int)length) : 0;
    }
    rf_utf8_examine(text, left, &partial, &broken);
    if (left == 0 && e->n) p->goes_on = 1;
    if (left == 0 || !partial) return 0;
    /* The characters that begin with these bytes. */
    unsigned char first = (unsigned char)text[0];
    int bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    uint32_t low = first & (0x7fu >> bytes), high;
    for (size_t i = 1; i < left; i++) low = low << 6 | ((unsigned char)text[i] & 0x3f);
    uint32_t missing = 6 * (uint32_t)(bytes - (int)left);
    high = (low + 1) << missing;
    low <<= missing;
    high--;
    if (low < least[bytes]) low = least[bytes];
    if (high > 0x10ffff) high = 0x10ffff;
    if (low <= 0xdfff && high >= 0xd800) high = 0xd7ff;
    if (has_any(e, low, high)) p->goes_on = 1;
    return 0;
}

static uint64_t repeat_ends(struct plain *p, const struct rf_expr *e, uint64_t from)
{
    uint64_t found = e->least == 0 ? from : 0, at = from, seen = 0;
    for (int32_t i = 1; at && (e->most < 0 || i <= e->most); i++) {
        at = ends_of(p, e->repeated, at);
        if (i >= e->least) {
            at &= ~seen; /* everything is known from the seen ones on */
            seen |= at;
            found |= at;
        }
    }
    return found;
}

static uint64_t ends_of(struct plain *p, const struct rf_expr *e, uint64_t from)
{
    uint64_t found = 0;
    if (e->kind == RF_EXPR_REPEAT) {
        for (int at = 0; at <= p->n; at++) /* one by one: repetitions are counted */
            if (from >> at & 1) found |= repeat_ends(p, e, (uint64_t)1 << at);
        return found;
    }
    if (e->kind == RF_EXPR_SEQUENCE) {
        for (int32_t i = 0; i < e->n; i++) from = ends_of(p, e->parts[i], from);
        return from;
    }
    if (e->kind == RF_EXPR_CHOICE) {
        for (int32_t i = 0; i < e->n; i++) found |= ends_of(p, e->parts[i], from);
        return found;
    }
    for (int at = 0; at <= p->n; at++) {
        if (!(from >> at & 1)) continue;
        if (e->kind == RF_EXPR_TEXT) found |= text_ends(p, e->text, e->n, at);
        if (e->kind == RF_EXPR_CHARS) found |= chars_ends(p, e, at);
        if (e->kind == RF_EXPR_RULE) found |= rule_ends(p, e->rule, at);
    }
    return found;
}

/* Whether the text is complete; *goes_on: whether it may be continued. */
static int recognise(const struct rf_ir *ir, const char *text, int n, int *goes_on)
{
    static struct plain p;
    memset(&p, 0, sizeof p);
    p.ir = ir;
    p.text = text;
    p.n = n;
    int accepted = (int)(rule_ends(&p, ir->root, 0) >> n & 1);
    *goes_on = p.goes_on;
    return accepted;
}

/* ---- random grammars ---- */

struct writing {
    char text[4096];
    size_t n;
    int n_rules, is_closing; /* no more rules: what is left comes to an end */
};

static void put(struct writing *w, const char *text)
{
    size_t n = strlen(text);
    if (w->n + n + 1 >= sizeof w->text) return;
    memcpy(w->text + w->n, text, n + 1);
    w->n += n;
}

static void put_element(struct writing *w, int depth);

static void put_choice(struct writing *w, int depth)
{
    for (uint32_t branches = 1 + draw(3); branches-- > 0;) {
        uint32_t parts = draw(8) ? 1 + draw(3) : 0;
        if (!parts) put(w, "\"\"");
        while (parts-- > 0) put_element(w, depth + 1);
        if (branches) put(w, " | ");
    }
}

static void put_element(struct writing *w, int depth)
{
    static const char *const atoms[] = {
        "\"a\" ", "\"b\" ",       "\"ab\" ",     "\"ba\" ",  "[ab] ",
        "[^a] ",  "\"\\u20ac\" ", "[a-c\\xe9] ", "\"abc\" ", "[^ab\\x00-\\x1f] "};
    static const char *const repeats[] = {"* ",      "+ ",    "? ",      "{2} ",
                                          "{0,3} ",  "{2,} ", "{7,11} ", "{12} ",
                                          "{0,14} ", "?{9} ", "*{2} ",   "+{0,3} "};
    char name[16];
    uint32_t kind = draw(10);
    if (kind < 2 && depth < 4) {
        put(w, "(");
        put_choice(w, depth);
        put(w, ") ");
    } else if (kind < 5 && !w->is_closing) {
        snprintf(name, sizeof name, "r%u ", draw((uint32_t)w->n_rules));
        put(w, name);
    } else {
        put(w, atoms[draw(sizeof atoms / sizeof *atoms)]);
    }
    if (draw(4) == 0) put(w, repeats[draw(sizeof repeats / sizeof *repeats)]);
}

static void write_grammar(struct writing *w)
{
    char name[24];
    w->n = 0;
    w->is_closing = 0;
    w->n_rules = 1 + (int)draw(4);
    put(w, "root ::= ");
    put_choice(w, 0);
    for (int r = 0; r < w->n_rules; r++) {
        snprintf(name, sizeof name, "\nr%d ::= ", r);
        put(w, name);
        put_choice(w, 0);
        w->is_closing = 0;
    }
    put(w, "\n");
}

/* ---- comparison ---- */

struct walk {
    const struct rf_ir *ir;
    struct rf_matcher *matcher;
    const struct vocabulary *v;
    char text[TEXT + 8];
    int n;
    int32_t state;
    int is_refused; /* the grammar is too ambiguous */
};

/* Ambiguous repetitions of what may be empty are beyond a matcher. */
static int refused(struct walk *w, int code, const struct rf_error *error)
{
    if (code != RF_ERR_UNSUPPORTED) return 0;
    CHECK(strstr(error->text, "too ambiguous") != NULL);
    return w->is_refused = 1;
}

static int bit(const struct rf_token_mask *mask, int32_t token)
{
    return (int)(mask->bits[token / 64] >> token % 64 & 1);
}

/* The mask beside every token; returns a random one that may follow and does not end, or -1. */
static int32_t check_mask(struct walk *w, const char *grammar)
{
    struct rf_error error = {.text = ""};
    struct rf_token_mask mask;
    int goes_on, accepted = recognise(w->ir, w->text, w->n, &goes_on);
    int32_t count = 0, chosen = -1;
    int code = rf_matcher_mask(w->matcher, w->state, &mask, &error);
    if (refused(w, code, &error)) return -1;
    CHECK_INT(code, 0);
    CHECK_MSG(rf_matcher_accepts(w->matcher, w->state) == accepted, "after \"%.*s\" of %s", w->n,
              w->text, grammar);
    for (int32_t t = 0; t < w->v->of.n_vocab; t++) {
        int is_end = t == w->v->ends[0] || t == w->v->ends[1], allowed = is_end && accepted;
        struct rf_str text = t < w->v->of.n_texts ? w->v->texts[t] : (struct rf_str){"", 0};
        int more = 0, complete = 0;
        if (text.bytes) {
            memcpy(w->text + w->n, text.data, text.bytes);
            complete = recognise(w->ir, w->text, w->n + (int)text.bytes, &more);
            allowed = complete || more;
        }
        CHECK_MSG(bit(&mask, t) == allowed, "token %d \"%.*s\" after \"%.*s\" of %s", t,
                  rf_shown(text), text.data, w->n, w->text, grammar);
        int32_t after = rf_matcher_advance(w->matcher, w->state, t, &error);
        if (refused(w, after, &error)) return -1;
        int wanted = w->state == RF_STATE_FINAL ? after == RF_STATE_FINAL
                     : !allowed                 ? after == RF_STATE_REJECTED
                     : is_end || !more          ? after == RF_STATE_FINAL
                                                : after > RF_STATE_FINAL;
        CHECK_MSG(wanted, "state %d after \"%.*s\" of %s", after, w->n, w->text, grammar);
        count += allowed;
        if (allowed && !is_end && draw((uint32_t)count) == 0) chosen = t;
    }
    CHECK_INT(mask.count, count);
    CHECK((mask.only >= 0) == (count == 1));
    CHECK(count != 1 || bit(&mask, mask.only));
    return chosen;
}

static void walk_randomly(struct walk *w, const char *grammar)
{
    struct rf_error error = {.text = ""};
    w->n = 0;
    w->state = rf_matcher_start(w->matcher, &error);
    if (refused(w, w->state, &error)) return;
    for (int step = 0; step < STEPS && w->n + 6 < TEXT && w->state > RF_STATE_FINAL; step++) {
        int32_t token = check_mask(w, grammar);
        if (token < 0) return;
        memcpy(w->text + w->n, w->v->texts[token].data, w->v->texts[token].bytes);
        w->n += (int)w->v->texts[token].bytes;
        w->state = rf_matcher_advance(w->matcher, w->state, token, &error);
        CHECK_INT(rf_matcher_trim(w->matcher, &w->state, &error), 0);
    }
}

static void check_grammar(const struct vocabulary *v, const char *text, int *n_checked,
                          int *n_refused)
{
    struct rf_error error = {.text = ""};
    struct rf_grammar *grammar;
    int code = rf_grammar_new(&grammar, RF_GRAMMAR_GBNF, rf_str_of(text), &v->of, NULL,
                              &rf_system_allocator, &error);
    CHECK_MSG(code == 0 || (code == RF_ERR_FORMAT && error.text[0]), "%d: %s", code, error.text);
    if (code) return;
    struct rf_ir ir = {.arena.allocator = &rf_system_allocator, .error = &error, .keeps_form = 1};
    CHECK_INT(rf_gbnf_read(&ir, rf_str_of(text)), 0);
    struct walk walk = {.ir = &ir, .v = v};
    CHECK_INT(rf_matcher_new(&walk.matcher, grammar, &error), 0);
    for (int i = 0; i < WALKS; i++) walk_randomly(&walk, text);
    ++*n_checked;
    *n_refused += walk.is_refused;
    rf_matcher_free(walk.matcher);
    rf_ir_free(&ir);
    rf_grammar_free(grammar);
}

int main(void)
{
    static const char *const texts[] = {"ab",
                                        "aba",
                                        "abab",
                                        "bb",
                                        "ba",
                                        "aa",
                                        "aaa",
                                        "aaaa",
                                        "abc",
                                        "ab",
                                        "c\xc3",
                                        "\xe2\x82\xac",
                                        "a\xe2\x82",
                                        "\x82\xac",
                                        "\xac"
                                        "a",
                                        "\xa9",
                                        "b\xc3\xa9"
                                        "b"};
    static struct rf_str listed[sizeof texts / sizeof *texts];
    static struct vocabulary v;
    static struct writing w;
    int n_checked = 0, n_refused = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) listed[i] = rf_str_of(texts[i]);
    vocabulary_make(&v, listed, (int32_t)(sizeof texts / sizeof *texts));
    /* One repetition is longer than every token; states of very many positions. */
    check_grammar(&v, "root ::= \"a\" r{2,} [ab]{0,3}\nr ::= [ab] \"abc\" [ab]\n", &n_checked,
                  &n_refused);
    check_grammar(&v, "root ::= ([ab]? \"c\"? \"ab\"?){20} \"x\"\n", &n_checked, &n_refused);
    check_grammar(&v, "root ::= (([ab]+ | \"ba\"?)+ | \"c\"){0,25} \"x\"\n", &n_checked,
                  &n_refused);
    CHECK_INT(n_refused, 0);
    for (int i = 0; i < GRAMMARS; i++) {
        write_grammar(&w);
        check_grammar(&v, w.text, &n_checked, &n_refused);
    }
    CHECK_MSG(n_checked > GRAMMARS / 5, "only %d grammars", n_checked);
    CHECK_MSG(n_refused < n_checked / 10, "%d of %d grammars are refused", n_refused, n_checked);
    return check_result();
}
