/* Builds the pushdown automaton of a grammar: nodes over bytes, with a call for each named rule.
 * Short rules are copied to where they are named, so that most tokens stay within one rule.
 * Every node of the result reaches the end. rf_grammar_new calls it once for each grammar. */
#include "grammar/automaton.h"

#include <stdlib.h>

static const char what[] = "the grammar";

enum {
    INLINED = 32,       /* nodes of a rule that is copied to where it is named, at most */
    ENDLESS = INT32_MAX /* bytes of the shortest text of an expression that has none */
};

/* Facts about a rule, found while the automaton is built. */
struct fact {
    int32_t shortest; /* bytes of its shortest text */
    int32_t size;     /* about how many nodes; over INLINED: large, or it calls itself */
    int32_t start;    /* the rule's first node, -1: not yet built */
    int8_t seen;      /* while the rules are walked: 1 in progress, 2 done */
};

struct builder {
    struct rf_automaton *automaton;
    const struct rf_ir *ir;
    struct fact *facts;
    int32_t longest;
    struct rf_error *error;
    int code; /* the first failure's, or 0 */
              /* Rules that an expression names and that have no nodes yet. */
    int32_t *pending;
    int32_t n_pending;
    struct rf_edge *first; /* first bytes of the class of characters under construction */
    size_t n_first, cap_first;
};

static int fail_rule(struct builder *b, int32_t rule, const char *problem)
{
    if (b->code) return b->code;
    return b->code = rf_fail(b->error, RF_ERR_FORMAT, "%s %s", b->ir->rules[rule].shown, problem);
}

static int build_step(struct builder *b)
{
    if (!b->code) b->code = rf_watch_steps(b->ir->watch, 1, b->error);
    return b->code;
}

/* ---- facts about rules ---- */

static int32_t add_lengths(int32_t a, int32_t b)
{
    return a > ENDLESS - b ? ENDLESS : a + b;
}

static int32_t utf8_bytes(uint32_t c)
{
    return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

static int32_t shortest(struct builder *b, const struct rf_expr *e)
{
    int32_t sum = 0, least = ENDLESS, one;
    if (build_step(b)) return ENDLESS;
    switch (e->kind) {
    case RF_EXPR_TEXT: return e->n;
    case RF_EXPR_CHARS: return e->n ? utf8_bytes(e->ranges[0].low) : ENDLESS;
    case RF_EXPR_SEQUENCE:
        for (int32_t i = 0; i < e->n; i++) sum = add_lengths(sum, shortest(b, e->parts[i]));
        return sum;
    case RF_EXPR_CHOICE:
        for (int32_t i = 0; i < e->n; i++) {
            one = shortest(b, e->parts[i]);
            if (one < least) least = one;
        }
        return least;
    case RF_EXPR_REPEAT:
        if (e->least == 0) return 0;
        one = shortest(b, e->repeated);
        return one > ENDLESS / e->least ? ENDLESS : one * e->least;
    default: return b->facts[e->rule].shortest;
    }
}

/* The least solution: what has a text is found in as many rounds as rules nest in it. */
static void find_shortest(struct builder *b)
{
    int32_t n = (int32_t)b->ir->n_rules;
    for (int32_t r = 0; r < n; r++) b->facts[r].shortest = ENDLESS;
    for (int changed = 1; changed && !b->code;) {
        changed = 0;
        for (int32_t r = n - 1; r >= 0 && !build_step(b); r--) {
            int32_t found = shortest(b, b->ir->rules[r].expr);
            changed |= found < b->facts[r].shortest;
            b->facts[r].shortest = found;
        }
    }
}

static int begins(struct builder *b, int32_t rule);

/* Walks all rules that the expression's text may begin with. Returns 1 if it may be empty. */
static int begins_expr(struct builder *b, const struct rf_expr *e)
{
    int nullable = 0;
    switch (e->kind) {
    case RF_EXPR_TEXT: return e->n == 0;
    case RF_EXPR_CHARS: return 0;
    case RF_EXPR_SEQUENCE:
        for (int32_t i = 0; i < e->n; i++)
            if (!begins_expr(b, e->parts[i])) return 0;
        return 1;
    case RF_EXPR_CHOICE:
        for (int32_t i = 0; i < e->n; i++) nullable |= begins_expr(b, e->parts[i]);
        return nullable;
    case RF_EXPR_REPEAT:
        if (e->most == 0) return 1;
        return begins_expr(b, e->repeated) | (e->least == 0);
    default: return begins(b, e->rule);
    }
}

static int begins(struct builder *b, int32_t rule)
{
    struct fact *fact = &b->facts[rule];
    if (fact->seen == 1)
        fail_rule(b, rule, "begins with itself (left recursion), which has no end");
    if (fact->seen || b->code) return fact->shortest == 0;
    fact->seen = 1;
    begins_expr(b, b->ir->rules[rule].expr);
    fact->seen = 2;
    return fact->shortest == 0;
}

static int32_t size_of(struct builder *b, int32_t rule);

static int32_t add_sizes(int32_t a, int32_t b)
{
    return a + b > INLINED ? INLINED + 1 : a + b;
}

static int32_t size_of_expr(struct builder *b, const struct rf_expr *e)
{
    int32_t sum = 1;
    switch (e->kind) {
    case RF_EXPR_TEXT: return e->n > INLINED ? INLINED + 1 : e->n;
    case RF_EXPR_CHARS:
        for (int32_t i = 0; i < e->n && sum <= INLINED; i++)
            if (e->ranges[i].high >= 0x80) sum = add_sizes(sum, 7);
        return sum;
    case RF_EXPR_REPEAT:
        sum = add_sizes(1, size_of_expr(b, e->repeated));
        if (e->most > INLINED || e->least > INLINED) return INLINED + 1;
        sum *= e->most > 0 ? e->most : e->least + 1;
        return sum > INLINED ? INLINED + 1 : sum;
    case RF_EXPR_RULE: return size_of(b, e->rule);
    default:
        for (int32_t i = 0; i < e->n && sum <= INLINED; i++)
            sum = add_sizes(sum, size_of_expr(b, e->parts[i]));
        return sum;
    }
}

static int32_t size_of(struct builder *b, int32_t rule)
{
    struct fact *fact = &b->facts[rule];
    if (fact->size) return fact->size;
    fact->size = INLINED + 1; /* a rule that calls itself finds this */
    int32_t size = size_of_expr(b, b->ir->rules[rule].expr);
    return fact->size = size;
}

/* ---- nodes ---- */

static int32_t add_node(struct builder *b, struct rf_node node)
{
    struct rf_automaton *a = b->automaton;
    if (build_step(b)) return -1;
    if (a->n_nodes == RF_AUTOMATON_NODES) {
        b->code = rf_fail(b->error, RF_ERR_UNSUPPORTED,
                          "the grammar is too large: its automaton has over %d states; counted "
                          "repetitions and length limits cost most",
                          (int)RF_AUTOMATON_NODES);
        return -1;
    }
    struct rf_node *grown = rf_grow(a->allocator, a->nodes, a->n_nodes, 1, &a->cap_nodes,
                                    sizeof *grown, what, b->error);
    if (!grown) {
        b->code = RF_ERR_MEMORY;
        return -1;
    }
    a->nodes = grown;
    node.twin = (int32_t)a->n_nodes;
    node.kin = -1;
    a->nodes[a->n_nodes] = node;
    return (int32_t)a->n_nodes++;
}

/* Appends an edge; the edges of a node are appended one after another. */
static void add_edge(struct builder *b, int32_t to, uint8_t low, uint8_t high)
{
    struct rf_automaton *a = b->automaton;
    if (b->code) return;
    struct rf_edge *grown = rf_grow(a->allocator, a->edges, a->n_edges, 1, &a->cap_edges,
                                    sizeof *grown, what, b->error);
    if (!grown) {
        b->code = RF_ERR_MEMORY;
        return;
    }
    a->edges = grown;
    a->edges[a->n_edges++] = (struct rf_edge){to, low, high};
}

static int32_t byte_node(struct builder *b, uint8_t low, uint8_t high, int32_t to)
{
    int32_t node = add_node(
        b, (struct rf_node){.kind = RF_NODE_BYTE, .first = (int32_t)b->automaton->n_edges, .n = 1});
    add_edge(b, to, low, high);
    return node;
}

/* ---- characters: sets of code points as sequences of byte ranges ---- */

enum { TAILS = 24 };

/* Nodes of bytes behind the first that a class has already. */
struct tails {
    struct {
        struct rf_edge edge;
        int32_t node;
    } items[TAILS];
    int32_t n, next;
};

static int32_t tail(struct builder *b, struct tails *tails, uint8_t low, uint8_t high, int32_t to)
{
    for (int32_t i = 0; i < tails->n; i++) {
        const struct rf_edge *edge = &tails->items[i].edge;
        if (edge->to == to && edge->low == low && edge->high == high) return tails->items[i].node;
    }
    int32_t node = byte_node(b, low, high, to);
    if (tails->n < TAILS) {
        tails->items[tails->n].edge = (struct rf_edge){to, low, high};
        tails->items[tails->n++].node = node;
    }
    return node;
}

static void encode_char(uint32_t c, int32_t n, uint8_t *out)
{
    static const uint8_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int32_t i = n - 1; i > 0; i--, c >>= 6) out[i] = (uint8_t)(0x80 | (c & 0x3f));
    out[0] = (uint8_t)(marks[n] | c);
}

/* The characters low .. high, whose encodings have n bytes and are the product of one range for
 * each byte. */
static void block_add(struct builder *b, struct tails *tails, uint32_t low, uint32_t high,
                      int32_t n)
{
    uint8_t from[4], to[4];
    int32_t node = tails->next;
    encode_char(low, n, from);
    encode_char(high, n, to);
    for (int32_t i = n - 1; i > 0; i--) node = tail(b, tails, from[i], to[i], node);
    if (b->code) return;
    struct rf_edge *grown = rf_grow(b->automaton->allocator, b->first, b->n_first, 1, &b->cap_first,
                                    sizeof *grown, what, b->error);
    if (!grown) {
        b->code = RF_ERR_MEMORY;
        return;
    }
    b->first = grown;
    b->first[b->n_first++] = (struct rf_edge){node, from[0], to[0]};
}

/* Cuts a range into blocks. */
static void add_range(struct builder *b, struct tails *tails, uint32_t low, uint32_t high)
{
    static const uint32_t last[] = {0x7f, 0x7ff, 0xffff}; /* characters of one, two, three bytes */
    for (int i = 0; i < 3; i++)
        if (low <= last[i] && high > last[i]) {
            add_range(b, tails, low, last[i]);
            low = last[i] + 1;
        }
    int32_t n = utf8_bytes(low);
    for (int i = 1; i < n; i++) {
        uint32_t rest = (1u << (6 * i)) - 1;
        if ((low & ~rest) == (high & ~rest)) continue;
        if (low & rest) {
            add_range(b, tails, low, low | rest);
            low = (low | rest) + 1;
        }
        if ((high & rest) != rest && (low & ~rest) <= high) {
            add_range(b, tails, high & ~rest, high);
            high = (high & ~rest) - 1;
        }
        if (low > high) return;
    }
    block_add(b, tails, low, high, n);
}

static int32_t build_chars(struct builder *b, const struct rf_expr *e, int32_t next)
{
    struct tails tails = {.next = next};
    b->n_first = 0;
    for (int32_t i = 0; i < e->n; i++) add_range(b, &tails, e->ranges[i].low, e->ranges[i].high);
    int32_t first = (int32_t)b->automaton->n_edges;
    for (size_t i = 0; i < b->n_first; i++)
        add_edge(b, b->first[i].to, b->first[i].low, b->first[i].high);
    return add_node(
        b, (struct rf_node){.kind = RF_NODE_BYTE, .first = first, .n = (int32_t)b->n_first});
}

/* ---- expressions: the first node of one whose text is followed by that of `next` ---- */

static int32_t build_expr(struct builder *b, const struct rf_expr *e, int32_t next);

/* A node with edges to n others, which set_edge then names. */
static int32_t split_node(struct builder *b, int32_t n)
{
    int32_t first = (int32_t)b->automaton->n_edges;
    for (int32_t i = 0; i < n; i++) add_edge(b, -1, 0, 0);
    return add_node(b, (struct rf_node){.kind = RF_NODE_SPLIT, .first = first, .n = n});
}

static void set_edge(struct builder *b, int32_t node, int32_t i, int32_t to)
{
    if (!b->code) b->automaton->edges[b->automaton->nodes[node].first + i].to = to;
}

static int32_t build_text(struct builder *b, const char *text, int32_t n, int32_t next)
{
    while (n-- > 0) next = byte_node(b, (uint8_t)text[n], (uint8_t)text[n], next);
    return next;
}

/* The nodes from `copy` on, the last ones, repeat those from `first` on. */
static void make_twins(struct builder *b, int32_t first, int32_t copy)
{
    struct rf_automaton *a = b->automaton;
    if (b->code) return;
    a->has_twins = 1;
    for (int32_t i = copy; i < (int32_t)a->n_nodes; i++)
        a->nodes[i].twin = a->nodes[first + (i - copy)].twin;
}

/* The last of n copies, each of `size` nodes, is the kin of the others: a text that ends before the
 * last copy does not tell them apart. It is the one that a walk comes to first. */
static void make_kin(struct builder *b, int32_t first, int32_t n, int32_t bytes)
{
    struct rf_automaton *a = b->automaton;
    int32_t size = n ? ((int32_t)a->n_nodes - first) / n : 0;
    for (int32_t i = 0; i < n - 1 && bytes && !b->code; i++)
        for (int32_t k = 0; k < size; k++) {
            struct rf_node *node = &a->nodes[first + i * size + k];
            int32_t kin = a->nodes[first + (n - 1) * size + k].twin;
            int32_t alike = i <= b->longest / bytes ? i * bytes : b->longest;
            if (alike <= node->alike || node->twin == kin) continue;
            node->kin = kin;
            node->alike = alike;
        }
}

/* `n` copies, of which each may be the last if `may_end`. They are built from the last one on. */
static int32_t build_copies(struct builder *b, const struct rf_expr *e, int32_t n, int may_end,
                            int32_t end, int32_t next)
{
    int32_t bytes = shortest(b, e), first = -1, all = (int32_t)b->automaton->n_nodes;
    for (int32_t i = 0; i < n && !build_step(b); i++) {
        int32_t begin = (int32_t)b->automaton->n_nodes, copy = build_expr(b, e, next);
        if (may_end) {
            next = split_node(b, 2);
            set_edge(b, next, 0, copy);
            set_edge(b, next, 1, end);
        } else {
            next = copy;
        }
        if (bytes == 0 || i <= b->longest / bytes) continue;
        if (first >= 0)
            make_twins(b, first, begin);
        else
            first = begin;
    }
    make_kin(b, all, n, bytes);
    return next;
}

static int32_t build_repeat(struct builder *b, const struct rf_expr *e, int32_t next)
{
    if (e->least == 0 && shortest(b, e->repeated) == ENDLESS) return next;
    if (e->most >= 0)
        next = build_copies(b, e->repeated, e->most - e->least, 1, next, next);
    else {
        int32_t loop = split_node(b, 2);
        set_edge(b, loop, 1, next);
        int32_t body = build_expr(b, e->repeated, loop);
        set_edge(b, loop, 0, body);
        next = loop;
    }
    return build_copies(b, e->repeated, e->least, 0, -1, next);
}

static int32_t build_rule(struct builder *b, int32_t rule, int32_t next)
{
    struct fact *fact = &b->facts[rule];
    if (size_of(b, rule) <= INLINED) return build_expr(b, b->ir->rules[rule].expr, next);
    if (fact->start == -1) {
        fact->start = -2;
        b->pending[b->n_pending++] = rule;
    }
    return add_node(b, (struct rf_node){.kind = RF_NODE_CALL, .rule = rule, .next = next});
}

static int branch_order(const void *a, const void *b)
{
    const struct rf_expr *x = *(const struct rf_expr *const *)a,
                         *y = *(const struct rf_expr *const *)b;
    return rf_str_order((struct rf_str){x->text, (size_t)x->n},
                        (struct rf_str){y->text, (size_t)y->n});
}

enum { BRANCHINGS = 64 /* most branchings on one way; behind them, texts stand apart */ };

/* The end of the group of texts that begins at `from`: alike in the byte at `at`, or ended there.
 */
static int32_t group_end(const struct rf_expr *const *texts, int32_t from, int32_t n, int32_t at)
{
    int32_t end = from + 1;
    while (end < n && (texts[from]->n == at ? texts[end]->n == at
                                            : texts[end]->text[at] == texts[from]->text[at]))
        end++;
    return end;
}

/* Sorted texts, of which the first `depth` bytes are alike, as a trie: one position of a state
 * stands for all that begin alike. */
static int32_t build_trie(struct builder *b, const struct rf_expr *const *texts, int32_t n,
                          int32_t depth, int level, int32_t next)
{
    const struct rf_expr *first = texts[0], *last = texts[n - 1];
    int32_t at = depth, n_groups = 0;
    if (n == 1) return build_text(b, first->text + depth, first->n - depth, next);
    while (at < first->n && first->text[at] == last->text[at]) at++; /* last is not shorter then */
    for (int32_t i = 0; i < n; i = level < BRANCHINGS ? group_end(texts, i, n, at) : i + 1)
        n_groups++;
    int32_t split = split_node(b, n_groups);
    for (int32_t i = 0, end, g = 0; i < n && !b->code; i = end, g++) {
        end = level < BRANCHINGS ? group_end(texts, i, n, at) : i + 1;
        set_edge(b, split, g,
                 texts[i]->n == at ? next : build_trie(b, texts + i, end - i, at, level + 1, next));
    }
    return build_text(b, first->text + depth, at - depth, split);
}

/* A choice of many texts, which are sorted in place. */
static int32_t build_texts(struct builder *b, const struct rf_expr **texts, int32_t n, int32_t next)
{
    if (n > 1) qsort(texts, (size_t)n, sizeof *texts, branch_order);
    return build_trie(b, texts, n, 0, 0, next);
}

/* The parts of a choice. */
struct choice_parts {
    const struct rf_expr **texts, **others; /* NULL: they are only counted */
    int32_t n_texts, n_others;
};

/* Counts the texts and the other parts that have a text, also those of choices in the choice, and
 * lists them where there are lists. */
static void list_parts(struct builder *b, const struct rf_expr *e, struct choice_parts *parts)
{
    for (int32_t i = 0; i < e->n && !b->code; i++) {
        const struct rf_expr *part = e->parts[i];
        if (part->kind == RF_EXPR_CHOICE) {
            list_parts(b, part, parts);
        } else if (part->kind == RF_EXPR_TEXT) {
            if (parts->texts) parts->texts[parts->n_texts] = part;
            parts->n_texts++;
        } else if (shortest(b, part) < ENDLESS) {
            if (parts->others) parts->others[parts->n_others] = part;
            parts->n_others++;
        }
    }
}

/* Builds a choice, without the parts that have no text. */
static int32_t build_choice(struct builder *b, const struct rf_expr *e, int32_t next)
{
    const struct rf_allocator *allocator = b->automaton->allocator;
    struct choice_parts count = {.texts = NULL};
    list_parts(b, e, &count);
    if (b->code) return -1;
    int32_t n_texts = count.n_texts, n = (n_texts > 0) + count.n_others;
    const struct rf_expr **all = rf_malloc(allocator, (size_t)n_texts + (size_t)count.n_others + 1,
                                           sizeof *all, what, b->error);
    if (!all) {
        b->code = RF_ERR_MEMORY;
        return -1;
    }
    struct choice_parts listed = {.texts = all, .others = all + n_texts};
    list_parts(b, e, &listed);
    int32_t split = n == 1 ? -1 : split_node(b, n), made = -1;
    if (n_texts) made = build_texts(b, all, n_texts, next);
    if (n_texts && n > 1) set_edge(b, split, 0, made);
    for (int32_t i = 0; i < count.n_others && !b->code; i++) {
        made = build_expr(b, all[n_texts + i], next);
        if (n > 1) set_edge(b, split, (n_texts > 0) + i, made);
    }
    rf_free(allocator, all);
    return n == 1 ? made : split;
}

static int32_t build_expr(struct builder *b, const struct rf_expr *e, int32_t next)
{
    if (b->code) return -1;
    switch (e->kind) {
    case RF_EXPR_TEXT: return build_text(b, e->text, e->n, next);
    case RF_EXPR_CHARS: return build_chars(b, e, next);
    case RF_EXPR_SEQUENCE:
        for (int32_t i = e->n; i-- > 0;) next = build_expr(b, e->parts[i], next);
        return next;
    case RF_EXPR_CHOICE: return build_choice(b, e, next);
    case RF_EXPR_REPEAT: return build_repeat(b, e, next);
    default: return build_rule(b, e->rule, next);
    }
}

/* Makes the nodes of all rules that are reached from the root. Calls name rules until then. */
static void build_rules(struct builder *b)
{
    struct rf_automaton *a = b->automaton;
    b->facts[b->ir->root].start = -2;
    b->pending[b->n_pending++] = b->ir->root;
    while (b->n_pending && !b->code) {
        int32_t rule = b->pending[--b->n_pending];
        int32_t end = add_node(b, (struct rf_node){.kind = RF_NODE_END});
        b->facts[rule].start = build_expr(b, b->ir->rules[rule].expr, end);
    }
    if (b->code) return;
    a->start = b->facts[b->ir->root].start;
    for (size_t i = 0; i < a->n_nodes; i++)
        if (a->nodes[i].kind == RF_NODE_CALL) a->nodes[i].rule = b->facts[a->nodes[i].rule].start;
}

/* Bytes that begin or end at an edge begin a class. */
static void find_classes(struct rf_automaton *a)
{
    uint8_t begins_class[257] = {0};
    for (size_t i = 0; i < a->n_nodes; i++) {
        const struct rf_node *node = &a->nodes[i];
        for (int32_t e = 0; node->kind == RF_NODE_BYTE && e < node->n; e++) {
            begins_class[a->edges[node->first + e].low] = 1;
            begins_class[a->edges[node->first + e].high + 1] = 1;
        }
    }
    a->n_classes = 0;
    for (int byte = 0; byte < 256; byte++) {
        if (byte == 0 || begins_class[byte]) a->byte_of[a->n_classes++] = (uint8_t)byte;
        a->class_of[byte] = (uint8_t)(a->n_classes - 1);
    }
}

int rf_automaton_build(struct rf_automaton *automaton, const struct rf_ir *ir, size_t longest,
                       const struct rf_allocator *allocator, struct rf_error *error)
{
    struct builder b = {.automaton = automaton, .ir = ir, .error = error};
    *automaton = (struct rf_automaton){.allocator = allocator};
    b.longest = longest < (size_t)RF_IR_REPEATS ? (int32_t)longest : RF_IR_REPEATS;
    b.facts = rf_calloc(allocator, ir->n_rules, sizeof *b.facts, what, error);
    b.pending = rf_malloc(allocator, ir->n_rules, sizeof *b.pending, what, error);
    if (!b.facts || !b.pending) b.code = RF_ERR_MEMORY;
    for (size_t r = 0; r < ir->n_rules && !b.code; r++) b.facts[r].start = -1;
    if (!b.code) find_shortest(&b);
    for (size_t r = 0; r < ir->n_rules && !b.code; r++) begins(&b, (int32_t)r);
    for (size_t r = 0; r < ir->n_rules && !b.code; r++)
        if (b.facts[r].shortest == ENDLESS && (!ir->prunes || (int32_t)r == ir->root))
            fail_rule(&b, (int32_t)r, "derives no text that ends");
    if (!b.code) build_rules(&b);
    if (!b.code) find_classes(automaton);
    rf_free(allocator, b.facts);
    rf_free(allocator, b.pending);
    rf_free(allocator, b.first);
    return b.code;
}

void rf_automaton_free(struct rf_automaton *automaton)
{
    rf_free(automaton->allocator, automaton->nodes);
    rf_free(automaton->allocator, automaton->edges);
    *automaton = (struct rf_automaton){0};
}
