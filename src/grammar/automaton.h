/* A grammar as a pushdown automaton over bytes. */
#ifndef RF_GRAMMAR_AUTOMATON_H
#define RF_GRAMMAR_AUTOMATON_H

#include "grammar/ir.h"

enum { RF_AUTOMATON_NODES = 1 << 21 }; /* most nodes */

enum rf_node_kind {
    RF_NODE_BYTE,  /* one byte, by one of the edges */
    RF_NODE_SPLIT, /* all edges' targets at once */
    RF_NODE_CALL,  /* the node `rule` begins; `next` follows its end */
    RF_NODE_END    /* a rule ends */
};

struct rf_edge {
    int32_t to;
    uint8_t low, high; /* bytes, both included; SPLIT ignores them */
};

struct rf_node {
    enum rf_node_kind kind;
    int32_t first, n; /* edges */
    int32_t rule, next;
    /* A node after which no text of `longest` bytes tells it from this one; often itself. Copies of
     * a repeated expression have twins as long as the end of the count is far away. */
    int32_t twin;
    /* Another copy of this node, which no text of up to `alike` bytes tells from it; -1: none. */
    int32_t kin, alike;
};

struct rf_automaton {
    const struct rf_allocator *allocator;
    struct rf_node *nodes;
    struct rf_edge *edges;
    size_t n_nodes, cap_nodes, n_edges, cap_edges;
    int32_t start;
    int has_twins;
    int32_t n_classes; /* classes of bytes that no edge tells apart */
    uint8_t class_of[256];
    uint8_t byte_of[256]; /* a byte of each class */
};

/* Every node of the result can reach the end. Fails on rules that derive no text, on left
 * recursion, and on grammars that are too large; the sentence begins with what the rule is shown
 * as. `longest`: bytes of the longest token. Freed with rf_automaton_free in any case. */
int rf_automaton_build(struct rf_automaton *automaton, const struct rf_ir *ir, size_t longest,
                       const struct rf_allocator *allocator, struct rf_error *error);
void rf_automaton_free(struct rf_automaton *automaton);

#endif
