/* The walk through a grammar.
 *
 * A state is a set of positions of the pushdown automaton, each a node and a stack. Stacks are
 * lists of frames that share their ends, and all of them are interned: equal ones have one number.
 * The step from a state with a byte is computed once, as in a lazily built DFA.
 *
 * The mask of a state (XGrammar: Dong et al. 2024). Which tokens may follow a node does not depend
 * on the stack for most tokens: they end, or are rejected, before the node's rule does. So they are
 * found once for each node, by a walk along the vocabulary's trie, with the few tokens that reach
 * past the end of the rule. For a state, the sets of its nodes are joined, and only those few
 * tokens are looked at with the stacks that it has. A state of many nodes that are not known yet is
 * walked from itself instead.
 *
 * Work is counted, because some grammars have no end of it: who computes masks also computes other
 * people's answers. Each new mask brings a share of work, and unused shares are kept up to a limit.
 * A mask that needs more fails. */
#include <stdlib.h>
#include <string.h>

#include "grammar/automaton.h"
#include "grammar/grammar.h"

static const char what[] = "the grammar's states";

enum {
    POSITIONS = 1 << 14,    /* most positions of a state */
    TRIM_BYTES = 64 << 20,  /* rf_matcher_trim frees states above so many */
    MOST_BYTES = 512 << 20, /* most memory of a matcher */
    NEW_NODES = 16,         /* unknown nodes of a state that are looked at one by one */
    /* Work: nodes of the trie, and POSITION for each position that is put into a set and sorted;
     * about 30 ns each. */
    MOST_WORK = 32 << 20, /* for one mask: about a second */
    POSITION = 4,
    MASK_WORK = 2 << 20, /* for each mask in the long run: more than a walk of any trie */
    UNKNOWN = -1,
    BOTTOM = -1 /* the frame below all others */
};

struct rf_grammar {
    const struct rf_allocator *allocator;
    struct rf_automaton automaton;
    struct rf_trie trie;
    struct rf_grammar_vocab vocab;
    size_t n_words; /* 64-bit words of a mask */
};

struct position {
    int32_t node, frame;
};

struct frame {
    int32_t node, below; /* the place to go on at the end of a rule */
    int32_t twin;        /* number of this frame with twins for nodes, or UNKNOWN */
};

struct state {
    int32_t first, n; /* positions */
    int32_t accepts;
    int32_t twin; /* number of this state with twins for nodes, of the same mask; or UNKNOWN */
    int32_t next; /* index into `next`, one entry for each class; or UNKNOWN */
    int32_t mask; /* index into `masks`, or UNKNOWN */
    uint32_t hash;
};

/* The tokens that may follow a node with any stack, and the tokens that need a look at the stack.
 */
struct node_tokens {
    uint64_t *bits; /* accepted; NULL: `tokens` lists them */
    int32_t *tokens;
    int32_t n_accepted,
        n_dependent; /* `tokens` holds accepted ones if bits is NULL, then dependent ones */
};

/* A hash table of numbers; the things they number are elsewhere. */
struct table {
    int32_t *slots; /* 0: empty, else a number + 1 */
    size_t n_slots, n;
};

/* The set of positions under construction, with nodes that are passed at once. */
struct set {
    struct position *visited;
    size_t n, cap;
    struct table table;
    int32_t accepts;
};

struct rf_matcher {
    const struct rf_allocator *allocator;
    const struct rf_grammar *grammar;
    struct frame *frames;
    struct state *states;
    struct position *positions; /* the states' positions */
    int32_t *next;
    struct rf_token_mask *masks;
    size_t n_frames, cap_frames, n_states, cap_states, n_positions, cap_positions, n_next, cap_next,
        n_masks, cap_masks;
    struct table frame_table, state_table;
    struct set set;
    struct node_tokens **nodes; /* [nodes of the automaton], NULL: not known yet */
    int32_t *found;             /* [2][trie's tokens], while a node is looked at */
    int32_t *way;               /* [longest token + 1]: the states on the way to a trie's node */
    uint8_t *left;              /* [longest token + 1]: 1 if the rule could end before there */
    size_t bytes, node_bytes;   /* taken by states and masks, and by node_tokens */
    int64_t work;               /* work that is left */
};

/* ---- grammars ---- */

static int has_control_token(const void *user, struct rf_str text)
{
    const struct rf_grammar_vocab *vocab = user;
    for (int32_t t = 0; t < vocab->n_texts; t++)
        if (vocab->texts[t].bytes == text.bytes &&
            memcmp(vocab->texts[t].data, text.data, text.bytes) == 0)
            return 1;
    return 0;
}

int rf_grammar_new(struct rf_grammar **out, enum rf_grammar_kind kind, struct rf_str text,
                   const struct rf_grammar_vocab *vocab, struct rf_watch *watch,
                   const struct rf_allocator *allocator, struct rf_error *error)
{
    *out = NULL;
    struct rf_watch nobody = {NULL, NULL, 0};
    struct rf_ir ir = {
        .arena.allocator = allocator, .error = error, .watch = watch ? watch : &nobody};
    struct rf_grammar *g = rf_calloc(allocator, 1, sizeof *g, "grammar", error);
    if (!g) return RF_ERR_MEMORY;
    g->allocator = allocator;
    g->vocab = *vocab;
    g->n_words = ((size_t)vocab->n_vocab + 63) / 64;
    int code = kind == RF_GRAMMAR_GBNF     ? rf_gbnf_read(&ir, text)
               : kind == RF_GRAMMAR_CHOICE ? rf_choice_read(&ir, text, has_control_token, vocab)
                                           : rf_schema_read(&ir, text);
    if (!code) code = rf_trie_build(&g->trie, vocab, allocator, error);
    if (!code) code = rf_automaton_build(&g->automaton, &ir, g->trie.longest, allocator, error);
    rf_ir_free(&ir);
    if (code)
        rf_grammar_free(g);
    else
        *out = g;
    return code;
}

void rf_grammar_free(struct rf_grammar *g)
{
    if (!g) return;
    if (g->automaton.allocator) rf_automaton_free(&g->automaton);
    if (g->trie.allocator) rf_trie_free(&g->trie);
    rf_free(g->allocator, g);
}

/* ---- tables ---- */

static uint32_t hash_mix(uint32_t hash, uint32_t value)
{
    hash = (hash ^ value) * 0x9e3779b1u;
    return hash ^ hash >> 15;
}

/* Room for one more number. 1: the slots are new and empty, and all numbers must be put again. */
static int table_grow(const struct rf_matcher *m, struct table *table, struct rf_error *error)
{
    if (2 * (table->n + 1) <= table->n_slots) return 0;
    size_t n_slots = table->n_slots ? 2 * table->n_slots : 64;
    int32_t *slots = rf_calloc(m->allocator, n_slots, sizeof *slots, what, error);
    if (!slots) return RF_ERR_MEMORY;
    rf_free(m->allocator, table->slots);
    *table = (struct table){slots, n_slots, 0};
    return 1;
}

static void table_put(struct table *table, uint32_t hash, int32_t number)
{
    size_t at = hash & (table->n_slots - 1);
    while (table->slots[at]) at = (at + 1) & (table->n_slots - 1);
    table->slots[at] = number + 1;
    table->n++;
}

static int too_large(struct rf_error *error)
{
    return rf_fail(error, RF_ERR_MEMORY,
                   "the grammar's states take over %d MB: it is too ambiguous or nests too deeply",
                   MOST_BYTES >> 20);
}

static int count_bytes(struct rf_matcher *m, size_t bytes, struct rf_error *error)
{
    m->bytes += bytes;
    return m->bytes + m->node_bytes > MOST_BYTES ? too_large(error) : 0;
}

static int count_work(struct rf_matcher *m, size_t steps, struct rf_error *error)
{
    m->work -= (int64_t)steps;
    if (m->work >= 0) return 0;
    return rf_fail(error, RF_ERR_UNSUPPORTED,
                   "the grammar takes too long to find the next tokens: it is too ambiguous");
}

/* ---- frames ---- */

static uint32_t hash_position(int32_t node, int32_t frame)
{
    return hash_mix(hash_mix(17, (uint32_t)node), (uint32_t)frame);
}

/* The frame's number, or a code. */
static int32_t intern_frame(struct rf_matcher *m, int32_t node, int32_t below,
                            struct rf_error *error)
{
    struct table *table = &m->frame_table;
    int code = table_grow(m, table, error);
    if (code < 0) return code;
    for (size_t f = 0; code && f < m->n_frames; f++)
        table_put(table, hash_position(m->frames[f].node, m->frames[f].below), (int32_t)f);
    uint32_t hash = hash_position(node, below);
    for (size_t at = hash & (table->n_slots - 1); table->slots[at];
         at = (at + 1) & (table->n_slots - 1)) {
        const struct frame *frame = &m->frames[table->slots[at] - 1];
        if (frame->node == node && frame->below == below) return table->slots[at] - 1;
    }
    struct frame *grown = rf_grow(m->allocator, m->frames, m->n_frames, 1, &m->cap_frames,
                                  sizeof *grown, what, error);
    if (!grown) return RF_ERR_MEMORY;
    m->frames = grown;
    code = count_bytes(m, sizeof *grown + 2 * sizeof *table->slots, error);
    if (code) return code;
    m->frames[m->n_frames] = (struct frame){node, below, UNKNOWN};
    table_put(table, hash, (int32_t)m->n_frames);
    return (int32_t)m->n_frames++;
}

/* ---- sets of positions ---- */

static void set_begin(struct set *set)
{
    if (set->n) memset(set->table.slots, 0, set->table.n_slots * sizeof *set->table.slots);
    set->table.n = set->n = 0;
    set->accepts = 0;
}

static int set_add(struct rf_matcher *m, int32_t node, int32_t frame, struct rf_error *error)
{
    struct set *set = &m->set;
    uint32_t hash = hash_position(node, frame);
    int code = table_grow(m, &set->table, error);
    if (code < 0) return code;
    for (size_t i = 0; code && i < set->n; i++)
        table_put(&set->table, hash_position(set->visited[i].node, set->visited[i].frame),
                  (int32_t)i);
    for (size_t at = hash & (set->table.n_slots - 1); set->table.slots[at];
         at = (at + 1) & (set->table.n_slots - 1)) {
        const struct position *position = &set->visited[set->table.slots[at] - 1];
        if (position->node == node && position->frame == frame) return 0;
    }
    if (set->n == POSITIONS)
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "the grammar is too ambiguous: over %d positions in it fit one text",
                       (int)POSITIONS);
    struct position *grown =
        rf_grow(m->allocator, set->visited, set->n, 1, &set->cap, sizeof *grown, what, error);
    if (!grown) return RF_ERR_MEMORY;
    set->visited = grown;
    set->visited[set->n] = (struct position){node, frame};
    table_put(&set->table, hash, (int32_t)set->n++);
    return 0;
}

/* Adds the positions that the set's i-th one leads to without a byte. */
static int follow_calls(struct rf_matcher *m, size_t i, struct rf_error *error)
{
    const struct rf_automaton *a = &m->grammar->automaton;
    struct position at = m->set.visited[i];
    const struct rf_node *node = &a->nodes[at.node];
    int code = 0;
    switch (node->kind) {
    case RF_NODE_BYTE: return 0;
    case RF_NODE_SPLIT:
        for (int32_t e = 0; !code && e < node->n; e++)
            code = set_add(m, a->edges[node->first + e].to, at.frame, error);
        return code;
    case RF_NODE_CALL:
        /* A call at the end of a rule needs no frame: recursion on the right has no depth. */
        if (a->nodes[node->next].kind != RF_NODE_END)
            at.frame = intern_frame(m, node->next, at.frame, error);
        return at.frame < BOTTOM ? at.frame : set_add(m, node->rule, at.frame, error);
    default:
        if (at.frame == BOTTOM) {
            m->set.accepts = 1;
            return 0;
        }
        return set_add(m, m->frames[at.frame].node, m->frames[at.frame].below, error);
    }
}

static int position_order(const void *a, const void *b)
{
    const struct position *x = a, *y = b;
    int order = (x->node > y->node) - (x->node < y->node);
    return order ? order : (x->frame > y->frame) - (x->frame < y->frame);
}

/* ---- states ---- */

static uint32_t hash_state(const struct position *positions, size_t n, int32_t accepts)
{
    uint32_t hash = (uint32_t)accepts;
    for (size_t i = 0; i < n; i++)
        hash = hash_mix(hash_mix(hash, (uint32_t)positions[i].node), (uint32_t)positions[i].frame);
    return hash;
}

/* The number of the state with these sorted positions, or a code. */
static int32_t intern_state(struct rf_matcher *m, const struct position *positions, size_t n,
                            int32_t accepts, struct rf_error *error)
{
    struct table *table = &m->state_table;
    int code = table_grow(m, table, error);
    if (code < 0) return code;
    for (size_t s = 0; code && s < m->n_states; s++)
        table_put(table, m->states[s].hash, (int32_t)s);
    uint32_t hash = hash_state(positions, n, accepts);
    for (size_t at = hash & (table->n_slots - 1); table->slots[at];
         at = (at + 1) & (table->n_slots - 1)) {
        const struct state *state = &m->states[table->slots[at] - 1];
        if (state->hash == hash && (size_t)state->n == n && state->accepts == accepts &&
            (n == 0 || memcmp(m->positions + state->first, positions, n * sizeof *positions) == 0))
            return table->slots[at] - 1;
    }
    struct state *states = rf_grow(m->allocator, m->states, m->n_states, 1, &m->cap_states,
                                   sizeof *states, what, error);
    if (states) m->states = states;
    struct position *copied = rf_grow(m->allocator, m->positions, m->n_positions, n,
                                      &m->cap_positions, sizeof *copied, what, error);
    if (copied) m->positions = copied;
    if (!states || !copied) return RF_ERR_MEMORY;
    code = count_bytes(m, sizeof *states + n * sizeof *positions + 2 * sizeof *table->slots, error);
    if (code) return code;
    if (n) memcpy(m->positions + m->n_positions, positions, n * sizeof *positions);
    m->states[m->n_states] = (struct state){.first = (int32_t)m->n_positions,
                                            .n = (int32_t)n,
                                            .accepts = accepts,
                                            .twin = UNKNOWN,
                                            .next = UNKNOWN,
                                            .mask = UNKNOWN,
                                            .hash = hash};
    m->n_positions += n;
    table_put(table, hash, (int32_t)m->n_states);
    return (int32_t)m->n_states++;
}

/* The state of the set under construction. */
static int32_t set_end(struct rf_matcher *m, struct rf_error *error)
{
    struct set *set = &m->set;
    size_t n = 0;
    for (size_t i = 0; i < set->n; i++) {
        int code = follow_calls(m, i, error);
        if (code) return code;
    }
    size_t n_visited = set->n;
    int spent = count_work(m, 1 + POSITION * n_visited, error);
    if (spent) return spent;
    for (size_t i = 0; i < n_visited; i++)
        if (m->grammar->automaton.nodes[set->visited[i].node].kind == RF_NODE_BYTE)
            set->visited[n++] = set->visited[i];
    if (n > 1) qsort(set->visited, n, sizeof *set->visited, position_order);
    return intern_state(m, set->visited, n, set->accepts, error);
}

static int32_t make_step(struct rf_matcher *m, int32_t state, int32_t class, struct rf_error *error)
{
    const struct rf_automaton *a = &m->grammar->automaton;
    uint8_t byte = a->byte_of[class];
    set_begin(&m->set);
    for (int32_t p = 0; p < m->states[state].n; p++) {
        struct position at = m->positions[m->states[state].first + p];
        const struct rf_node *node = &a->nodes[at.node];
        for (int32_t e = 0; e < node->n; e++) {
            const struct rf_edge *edge = &a->edges[node->first + e];
            if (byte < edge->low || byte > edge->high) continue;
            int code = set_add(m, edge->to, at.frame, error);
            if (code) return code;
        }
    }
    return set_end(m, error);
}

static int add_steps(struct rf_matcher *m, int32_t state, struct rf_error *error)
{
    size_t n = (size_t)m->grammar->automaton.n_classes;
    int32_t *grown =
        rf_grow(m->allocator, m->next, m->n_next, n, &m->cap_next, sizeof *grown, what, error);
    if (!grown) return RF_ERR_MEMORY;
    m->next = grown;
    m->states[state].next = (int32_t)m->n_next;
    for (size_t i = 0; i < n; i++) m->next[m->n_next++] = UNKNOWN;
    return count_bytes(m, n * sizeof *grown, error);
}

/* The state after a byte, or a code. */
static inline int32_t state_step(struct rf_matcher *m, int32_t state, uint8_t byte,
                                 struct rf_error *error)
{
    int32_t class = m->grammar->automaton.class_of[byte];
    if (m->states[state].next == UNKNOWN) {
        int code = add_steps(m, state, error);
        if (code) return code;
    }
    int32_t known = m->next[m->states[state].next + class];
    if (known != UNKNOWN) return known;
    int32_t made = make_step(m, state, class, error);
    if (made >= 0) m->next[m->states[state].next + class] = made;
    return made;
}

static int32_t walk_trie(struct rf_matcher *m, int32_t state, struct rf_str text,
                         struct rf_error *error)
{
    for (size_t i = 0; i < text.bytes && state > RF_STATE_REJECTED; i++)
        state = state_step(m, state, (uint8_t)text.data[i], error);
    return state;
}

/* ---- tokens after a node ---- */

static void set_bit(uint64_t *bits, int32_t token)
{
    bits[token / 64] |= (uint64_t)1 << token % 64;
}

static int has_bit(const uint64_t *bits, int32_t token)
{
    return bits[token / 64] >> token % 64 & 1;
}

/* Walks the trie from a state with one position and no stack, for the tokens of more than `above`
 * bytes. Tokens left when the rule could have ended are dependent. */
static int find_tokens(struct rf_matcher *m, int32_t state, size_t above, int32_t *n_accepted,
                       int32_t *n_dependent, struct rf_error *error)
{
    const struct rf_str *texts = m->grammar->vocab.texts;
    const struct rf_trie *trie = &m->grammar->trie;
    int32_t *accepted = m->found, *dependent = m->found + trie->n_tokens;
    m->way[0] = state;
    m->left[0] = m->left[1] = 0;
    *n_accepted = *n_dependent = 0;
    for (int32_t i = 0; i < trie->n_nodes;) {
        const struct rf_trie_node *node = &trie->nodes[i];
        if (node->deepest <= above) {
            i = node->after;
            continue;
        }
        int32_t from = m->way[node->depth - 1], to = state_step(m, from, node->byte, error);
        if (to >= 0) to = count_work(m, 1, error) ? RF_ERR_UNSUPPORTED : to;
        if (to < 0) return to;
        if (node->depth > 1)
            m->left[node->depth] = m->left[node->depth - 1] | (m->states[from].accepts != 0);
        if (to == RF_STATE_REJECTED) {
            int32_t last =
                m->left[node->depth] ? trie->nodes[node->after].first_token : node->first_token;
            for (int32_t t = node->first_token; t < last; t++)
                if (texts[trie->tokens[t]].bytes > above)
                    dependent[(*n_dependent)++] = trie->tokens[t];
            i = node->after;
            continue;
        }
        m->way[node->depth] = to;
        for (int32_t t = node->first_token; node->depth > above && t < node[1].first_token; t++)
            accepted[(*n_accepted)++] = trie->tokens[t];
        i++;
    }
    return 0;
}

static const int32_t *dependent_of(const struct node_tokens *tokens)
{
    return tokens->tokens + (tokens->bits ? 0 : tokens->n_accepted);
}

/* Copies the tokens of up to `most` bytes; returns how many. */
static int32_t copy_short(const struct rf_matcher *m, const int32_t *tokens, int32_t n, size_t most,
                          int32_t *out)
{
    int32_t copied = 0;
    for (int32_t i = 0; i < n; i++)
        if (m->grammar->vocab.texts[tokens[i]].bytes <= most) out[copied++] = tokens[i];
    return copied;
}

/* Packs the tokens that find_tokens found, with the kin's (NULL: there is none) of the tokens of up
 * to `above` bytes. Long lists of accepted tokens become bits. */
static struct node_tokens *pack_tokens(struct rf_matcher *m, const struct node_tokens *kin,
                                       size_t above, int32_t n_accepted, int32_t n_dependent,
                                       struct rf_error *error)
{
    const struct rf_trie *trie = &m->grammar->trie;
    const int32_t *accepted = m->found, *dependent = m->found + trie->n_tokens;
    int has_bits = (kin && kin->bits != NULL) || (size_t)n_accepted > 2 * m->grammar->n_words;
    size_t words = has_bits ? m->grammar->n_words : 0, listed = (size_t)n_dependent;
    if (!has_bits) listed += (size_t)n_accepted;
    if (kin) listed += (size_t)kin->n_dependent + (kin->bits ? 0 : (size_t)kin->n_accepted);
    size_t bytes = sizeof(struct node_tokens) + words * sizeof(uint64_t) + listed * sizeof(int32_t);
    struct node_tokens *made = rf_calloc(m->allocator, 1, bytes, what, error);
    if (!made) return NULL;
    m->node_bytes += bytes;
    made->bits = has_bits ? (uint64_t *)(made + 1) : NULL;
    made->tokens = (int32_t *)((uint64_t *)(made + 1) + words);
    int32_t *out = made->tokens;
    if (kin && kin->bits) {
        memcpy(made->bits, kin->bits, words * sizeof *made->bits);
        for (int32_t i = 0; i < trie->n_longer[above]; i++)
            made->bits[trie->by_length[i] / 64] &= ~((uint64_t)1 << trie->by_length[i] % 64);
    } else if (kin) {
        out += copy_short(m, kin->tokens, kin->n_accepted, above, out);
        for (int32_t *token = made->tokens; has_bits && token < out; token++)
            set_bit(made->bits, *token);
        if (has_bits) out = made->tokens;
    }
    for (int32_t i = 0; has_bits && i < n_accepted; i++) set_bit(made->bits, accepted[i]);
    for (int32_t i = 0; !has_bits && i < n_accepted; i++) *out++ = accepted[i];
    made->n_accepted = (int32_t)(out - made->tokens);
    if (kin) out += copy_short(m, dependent_of(kin), kin->n_dependent, above, out);
    if (n_dependent) memcpy(out, dependent, (size_t)n_dependent * sizeof *out);
    out += n_dependent;
    made->n_dependent = (int32_t)(out - made->tokens) - made->n_accepted;
    return made;
}

static const struct node_tokens *tokens_after(struct rf_matcher *m, int32_t node,
                                              struct rf_error *error)
{
    int32_t n_accepted, n_dependent;
    const struct rf_node *of = &m->grammar->automaton.nodes[node];
    const struct node_tokens *kin = NULL;
    size_t above = 0;
    if (m->nodes[node]) return m->nodes[node];
    if (of->kin >= 0) {
        kin = tokens_after(m, of->kin, error);
        if (!kin) return NULL;
        above = (size_t)of->alike;
    }
    const struct position alone = {node, BOTTOM};
    int32_t state = intern_state(m, &alone, 1, 0, error);
    if (state < 0 || find_tokens(m, state, above, &n_accepted, &n_dependent, error)) return NULL;
    return m->nodes[node] = pack_tokens(m, kin, above, n_accepted, n_dependent, error);
}

/* ---- masks ---- */

static int32_t twin_frame(struct rf_matcher *m, int32_t frame, struct rf_error *error)
{
    if (frame == BOTTOM || m->frames[frame].twin != UNKNOWN)
        return frame == BOTTOM ? BOTTOM : m->frames[frame].twin;
    int32_t below = twin_frame(m, m->frames[frame].below, error);
    if (below < BOTTOM) return below;
    int32_t twin =
        intern_frame(m, m->grammar->automaton.nodes[m->frames[frame].node].twin, below, error);
    if (twin >= 0) m->frames[frame].twin = twin;
    return twin;
}

/* The state with the same mask that stands for all such; or a code. */
static int32_t twin_state(struct rf_matcher *m, int32_t state, struct rf_error *error)
{
    if (!m->grammar->automaton.has_twins) return state;
    if (m->states[state].twin != UNKNOWN) return m->states[state].twin;
    set_begin(&m->set);
    for (int32_t p = 0; p < m->states[state].n; p++) {
        struct position at = m->positions[m->states[state].first + p];
        int32_t frame = twin_frame(m, at.frame, error);
        if (frame < BOTTOM) return frame;
        int code = set_add(m, m->grammar->automaton.nodes[at.node].twin, frame, error);
        if (code) return code;
    }
    m->set.accepts = m->states[state].accepts;
    int32_t twin = set_end(m, error);
    if (twin >= 0) m->states[state].twin = twin;
    return twin;
}

/* Adds to `bits` the tokens that follow one position with any stack. */
static void join_accepted(const struct rf_matcher *m, const struct node_tokens *tokens,
                          uint64_t *bits)
{
    for (size_t w = 0; tokens->bits && w < m->grammar->n_words; w++) bits[w] |= tokens->bits[w];
    for (int32_t i = 0; !tokens->bits && i < tokens->n_accepted; i++)
        set_bit(bits, tokens->tokens[i]);
}

static int join_dependent(struct rf_matcher *m, int32_t state, const struct node_tokens *tokens,
                          uint64_t *bits, struct rf_error *error)
{
    const int32_t *dependent = dependent_of(tokens);
    int code = count_work(m, 1 + (size_t)tokens->n_dependent / 8, error);
    if (code) return code;
    for (int32_t i = 0; i < tokens->n_dependent; i++) {
        if (has_bit(bits, dependent[i])) continue;
        int32_t to = walk_trie(m, state, m->grammar->vocab.texts[dependent[i]], error);
        if (to < 0) return to;
        if (to != RF_STATE_REJECTED) set_bit(bits, dependent[i]);
    }
    return 0;
}

/* Whether the tokens after many of the state's nodes are not known yet. */
static int has_many_new_nodes(const struct rf_matcher *m, int32_t state)
{
    int32_t n_new = 0;
    for (int32_t p = 0; p < m->states[state].n && n_new <= NEW_NODES; p++)
        n_new += !m->nodes[m->positions[m->states[state].first + p].node];
    return n_new > NEW_NODES;
}

/* Adds the tokens that the walk along the trie from this very state accepts. */
static int walk_state(struct rf_matcher *m, int32_t state, uint64_t *bits, struct rf_error *error)
{
    const struct rf_trie *trie = &m->grammar->trie;
    m->way[0] = state;
    for (int32_t i = 0; i < trie->n_nodes;) {
        const struct rf_trie_node *node = &trie->nodes[i];
        int32_t to = state_step(m, m->way[node->depth - 1], node->byte, error);
        if (to >= 0) to = count_work(m, 1, error) ? RF_ERR_UNSUPPORTED : to;
        if (to < 0) return to;
        if (to == RF_STATE_REJECTED) {
            i = node->after;
            continue;
        }
        m->way[node->depth] = to;
        for (int32_t t = node->first_token; t < node[1].first_token; t++)
            set_bit(bits, trie->tokens[t]);
        i++;
    }
    return 0;
}

static int join_nodes(struct rf_matcher *m, int32_t state, uint64_t *bits, struct rf_error *error)
{
    int32_t n = m->states[state].n;
    for (int32_t p = 0; p < n; p++) {
        const struct node_tokens *tokens =
            tokens_after(m, m->positions[m->states[state].first + p].node, error);
        if (!tokens) return error->code;
        join_accepted(m, tokens, bits);
    }
    for (int32_t p = 0; p < n; p++) {
        int code = join_dependent(m, state, m->nodes[m->positions[m->states[state].first + p].node],
                                  bits, error);
        if (code) return code;
    }
    return 0;
}

static int fill_bits(struct rf_matcher *m, int32_t state, uint64_t *bits, struct rf_error *error)
{
    const struct rf_grammar_vocab *vocab = &m->grammar->vocab;
    for (int32_t e = 0; m->states[state].accepts && e < vocab->n_ends; e++)
        set_bit(bits, vocab->ends[e]);
    return has_many_new_nodes(m, state) ? walk_state(m, state, bits, error)
                                        : join_nodes(m, state, bits, error);
}

static void count_bits(const uint64_t *bits, size_t n_words, struct rf_token_mask *mask)
{
    mask->count = 0;
    mask->only = -1;
    for (size_t w = 0; w < n_words; w++)
        for (uint64_t rest = bits[w]; rest; rest &= rest - 1, mask->count++)
            if (mask->count == 0) mask->only = (int32_t)(w * 64) + __builtin_ctzll(rest);
    if (mask->count != 1) mask->only = -1;
}

/* The mask's number, or a code. */
static int32_t make_mask(struct rf_matcher *m, int32_t state, struct rf_error *error)
{
    size_t n_words = m->grammar->n_words;
    struct rf_token_mask *grown =
        rf_grow(m->allocator, m->masks, m->n_masks, 1, &m->cap_masks, sizeof *grown, what, error);
    if (!grown) return RF_ERR_MEMORY;
    m->masks = grown;
    uint64_t *bits = rf_calloc(m->allocator, n_words, sizeof *bits, what, error);
    if (!bits) return RF_ERR_MEMORY;
    int code = count_bytes(m, n_words * sizeof *bits, error);
    if (!code) code = fill_bits(m, state, bits, error);
    if (code) {
        rf_free(m->allocator, bits);
        return code;
    }
    struct rf_token_mask *mask = &m->masks[m->n_masks];
    mask->bits = bits;
    count_bits(bits, n_words, mask);
    return (int32_t)m->n_masks++;
}

int rf_matcher_mask(struct rf_matcher *m, int32_t state, struct rf_token_mask *mask,
                    struct rf_error *error)
{
    if (m->states[state].mask == UNKNOWN) {
        m->work = m->work + MASK_WORK < MOST_WORK ? m->work + MASK_WORK : MOST_WORK;
        int32_t twin = twin_state(m, state, error);
        if (twin < 0) return twin;
        int32_t made = m->states[twin].mask;
        if (made == UNKNOWN) made = make_mask(m, twin, error);
        if (made < 0) return made;
        m->states[state].mask = m->states[twin].mask = made;
    }
    *mask = m->masks[m->states[state].mask];
    return 0;
}

/* ---- matchers ---- */

/* The states that always are: with these numbers. */
static int add_first_states(struct rf_matcher *m, struct rf_error *error)
{
    int32_t rejected = intern_state(m, NULL, 0, 0, error);
    int32_t final = rejected < 0 ? rejected : intern_state(m, NULL, 0, 1, error);
    return final < 0 ? final : 0;
}

int rf_matcher_new(struct rf_matcher **out, const struct rf_grammar *grammar,
                   struct rf_error *error)
{
    const struct rf_allocator *allocator = grammar->allocator;
    size_t longest = grammar->trie.longest + 2, n_tokens = (size_t)grammar->trie.n_tokens;
    *out = NULL;
    struct rf_matcher *m = rf_calloc(allocator, 1, sizeof *m, "grammar", error);
    if (!m) return RF_ERR_MEMORY;
    m->allocator = allocator;
    m->grammar = grammar;
    m->work = MOST_WORK;
    m->nodes = rf_calloc(allocator, grammar->automaton.n_nodes, sizeof *m->nodes, what, error);
    m->found = rf_malloc(allocator, 2 * n_tokens, sizeof *m->found, what, error);
    m->way = rf_malloc(allocator, longest, sizeof *m->way, what, error);
    m->left = rf_malloc(allocator, longest, sizeof *m->left, what, error);
    if (!m->nodes || !m->found || !m->way || !m->left || add_first_states(m, error)) {
        rf_matcher_free(m);
        return RF_ERR_MEMORY;
    }
    *out = m;
    return 0;
}

static void free_masks(struct rf_matcher *m)
{
    for (size_t i = 0; i < m->n_masks; i++) rf_free(m->allocator, (void *)m->masks[i].bits);
    m->n_masks = 0;
}

static void free_node_tokens(struct rf_matcher *m)
{
    for (size_t i = 0; m->nodes && i < m->grammar->automaton.n_nodes; i++) {
        rf_free(m->allocator, m->nodes[i]);
        m->nodes[i] = NULL;
    }
    m->node_bytes = 0;
}

void rf_matcher_free(struct rf_matcher *m)
{
    if (!m) return;
    free_masks(m);
    free_node_tokens(m);
    rf_free(m->allocator, m->masks);
    rf_free(m->allocator, m->nodes);
    rf_free(m->allocator, m->frames);
    rf_free(m->allocator, m->states);
    rf_free(m->allocator, m->positions);
    rf_free(m->allocator, m->next);
    rf_free(m->allocator, m->frame_table.slots);
    rf_free(m->allocator, m->state_table.slots);
    rf_free(m->allocator, m->set.visited);
    rf_free(m->allocator, m->set.table.slots);
    rf_free(m->allocator, m->found);
    rf_free(m->allocator, m->way);
    rf_free(m->allocator, m->left);
    rf_free(m->allocator, m);
}

int32_t rf_matcher_start(struct rf_matcher *m, struct rf_error *error)
{
    set_begin(&m->set);
    int code = set_add(m, m->grammar->automaton.start, BOTTOM, error);
    return code ? code : set_end(m, error);
}

/* ---- bytes without an alternative ---- */

enum { FORCED_BYTES = 96 };

/* The only byte that the grammar's text can go on with; -1: there are others, or it may end. */
static int forced_byte(const struct rf_matcher *m, int32_t state)
{
    const struct rf_automaton *a = &m->grammar->automaton;
    const struct state *at = &m->states[state];
    int byte = -1;
    if (at->accepts) return -1;
    for (int32_t p = 0; p < at->n; p++) {
        const struct rf_node *node = &a->nodes[m->positions[at->first + p].node];
        for (int32_t e = 0; e < node->n; e++) {
            const struct rf_edge *edge = &a->edges[node->first + e];
            if (edge->low != edge->high || (byte >= 0 && edge->low != byte)) return -1;
            byte = edge->low;
        }
    }
    return byte;
}

/* The longest token that begins the text, with its bytes in *length; -1: none. */
static int32_t longest_token(const struct rf_trie *trie, const char *text, size_t n, size_t *length)
{
    const struct rf_trie_node *nodes = trie->nodes;
    int32_t found = -1, node = 0, end = trie->n_nodes;
    for (size_t i = 0; i < n; i++) {
        while (node < end && nodes[node].byte != (uint8_t)text[i]) node = nodes[node].after;
        if (node >= end) break;
        if (nodes[node].first_token < nodes[node + 1].first_token) {
            found = trie->tokens[nodes[node].first_token];
            *length = i + 1;
        }
        end = nodes[node++].after;
    }
    return found;
}

int32_t rf_matcher_forced(struct rf_matcher *m, int32_t state, int32_t *tokens, int32_t max,
                          struct rf_error *error)
{
    char bytes[FORCED_BYTES];
    size_t n = 0, at = 0, length = 0;
    for (int byte; n < sizeof bytes && (byte = forced_byte(m, state)) >= 0;) {
        bytes[n++] = (char)byte;
        state = state_step(m, state, (uint8_t)byte, error);
        if (state < 0) return state;
    }
    int32_t made = 0;
    for (; made < max && at < n; at += length) {
        int32_t token = longest_token(&m->grammar->trie, bytes + at, n - at, &length);
        if (token < 0) break;
        tokens[made++] = token;
    }
    return made;
}

static int is_end(const struct rf_grammar_vocab *vocab, int32_t token)
{
    for (int32_t e = 0; e < vocab->n_ends; e++)
        if (vocab->ends[e] == token) return 1;
    return 0;
}

int32_t rf_matcher_advance(struct rf_matcher *m, int32_t state, int32_t token,
                           struct rf_error *error)
{
    const struct rf_grammar_vocab *vocab = &m->grammar->vocab;
    if (state == RF_STATE_FINAL || state == RF_STATE_REJECTED) return state;
    if (is_end(vocab, token)) return m->states[state].accepts ? RF_STATE_FINAL : RF_STATE_REJECTED;
    if (token < 0 || token >= vocab->n_texts || vocab->texts[token].bytes == 0)
        return RF_STATE_REJECTED;
    return walk_trie(m, state, vocab->texts[token], error);
}

int rf_matcher_accepts(const struct rf_matcher *m, int32_t state)
{
    return m->states[state].accepts;
}

int rf_matcher_trim(struct rf_matcher *m, int32_t *state, struct rf_error *error)
{
    if (m->bytes + m->node_bytes < TRIM_BYTES) return 0;
    int32_t n = m->states[*state].n, accepts = m->states[*state].accepts;
    struct position *kept = rf_malloc(m->allocator, (size_t)n, sizeof *kept, what, error);
    if (!kept) return RF_ERR_MEMORY;
    if (n) memcpy(kept, m->positions + m->states[*state].first, (size_t)n * sizeof *kept);
    free_masks(m);
    if (m->node_bytes > TRIM_BYTES / 2) free_node_tokens(m);
    if (m->state_table.n_slots)
        memset(m->state_table.slots, 0, m->state_table.n_slots * sizeof *m->state_table.slots);
    m->state_table.n = m->n_states = m->n_positions = m->n_next = 0;
    m->bytes = m->n_frames * sizeof *m->frames; /* frames stay: positions name them */
    int32_t made = add_first_states(m, error);
    if (!made) made = intern_state(m, kept, (size_t)n, accepts, error);
    rf_free(m->allocator, kept);
    if (made < 0) return made;
    *state = made;
    return 0;
}
