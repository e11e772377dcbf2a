/* Tokens to a tree of nodes, by jinja2's grammar and precedences. Filters and tests are found by
 * name here, so an unknown one fails when a template is compiled. jinja.c calls it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "template/jinja_parts.h"

struct parser {
    struct rf_arena *arena;
    const struct token *at;
    struct rf_error *error;
    int code, depth, loops;
    const struct node *unknown; /* the first filter or test that is not known, outside conditions */
    int choices;       /* conditions around: an unknown filter may never be reached there */
    unsigned n_rests;  /* names that mean the arguments which no parameter takes */
    struct node spare; /* stands in where memory ran out */
};

static void parser_fail(struct parser *parser, const char *format, struct rf_str shown)
{
    if (!parser->code)
        parser->code = rf_jinja_bad(parser->error, RF_ERR_UNSUPPORTED, parser->at->line, format,
                                    rf_shown(shown), shown.data);
    while (parser->at->kind != TOKEN_END) parser->at++;
}

/* A node is returned also after a failure, as long as there is memory for it. */
static struct node *new_node(struct parser *parser, enum node_kind kind)
{
    struct node *node =
        rf_arena_alloc(parser->arena, 1, sizeof *node, "chat template", parser->error);
    if (!node) {
        parser->code = RF_ERR_MEMORY;
        while (parser->at->kind != TOKEN_END) parser->at++;
        parser->spare = (struct node){0};
        return &parser->spare;
    }
    node->kind = (uint8_t)kind;
    node->line = parser->at->line;
    return node;
}

/* ---- tokens ---- */

static int is_op(const struct parser *parser, const char *text)
{
    return parser->at->kind == TOKEN_OPERATOR && rf_str_is(parser->at->text, text);
}

static int is_keyword(const struct parser *parser, const char *word)
{
    return parser->at->kind == TOKEN_NAME && rf_str_is(parser->at->text, word);
}

static int take_op(struct parser *parser, const char *text)
{
    return is_op(parser, text) && (parser->at++, 1);
}

static int take_word(struct parser *parser, const char *word)
{
    return is_keyword(parser, word) && (parser->at++, 1);
}

static struct rf_str shown_token(const struct parser *parser)
{
    switch (parser->at->kind) {
    case TOKEN_END: return rf_str_of("its end");
    case TOKEN_BLOCK_END: return rf_str_of("%}");
    case TOKEN_PRINT_END: return rf_str_of("}}");
    default: return parser->at->text;
    }
}

static void unexpected(struct parser *parser)
{
    parser_fail(parser, "\"%.*s\" is out of place", shown_token(parser));
}

static void expect_op(struct parser *parser, const char *text)
{
    if (!take_op(parser, text)) unexpected(parser);
}

static struct rf_str expect_name(struct parser *parser)
{
    struct rf_str name = parser->at->text;
    if (parser->at->kind == TOKEN_NAME)
        parser->at++;
    else
        unexpected(parser);
    return name;
}

static void expect_block_end(struct parser *parser)
{
    if (parser->at->kind == TOKEN_BLOCK_END)
        parser->at++;
    else
        unexpected(parser);
}

/* 1, and the depth counted; 0 where the nesting is too deep. */
static int parser_enter(struct parser *parser)
{
    if (++parser->depth <= RF_JINJA_MAX_NESTING) return 1;
    parser_fail(parser, "it is nested too deeply%.*s", (struct rf_str){"", 0});
    return 0;
}

/* ---- expressions ---- */

static struct node *parse_expression(struct parser *parser);
static struct node *parse_unary(struct parser *parser, int filters);
static struct node *parse_postfix(struct parser *parser, struct node *node);

enum { TUPLE_CHOICES = 1, TUPLE_STOPS_AT_IN = 2, TUPLE_BRACKETS = 4 };

static struct node *constant(struct parser *parser, value v)
{
    struct node *node = new_node(parser, NODE_CONSTANT);
    node->constant = v;
    return node;
}

static value number_value(struct parser *parser, const struct token *token)
{
    char text[64];
    size_t n = 0;
    for (size_t i = 0; i < token->text.bytes && n + 1 < sizeof text; i++)
        if (token->text.data[i] != '_') text[n++] = token->text.data[i];
    text[n] = 0;
    if (token->kind == TOKEN_FLOAT) return rf_jinja_real(strtod(text, NULL));
    char letter = n > 1 ? (char)(text[1] | 0x20) : 0, *end;
    int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    errno = 0;
    int64_t integer = strtoll(base == 10 ? text : text + 2, &end, base);
    if (!errno && !*end) return rf_jinja_integer(integer);
    char *digits =
        rf_arena_alloc(parser->arena, token->text.bytes + 1, 1, "chat template", parser->error);
    if (!digits) parser->code = RF_ERR_MEMORY;
    if (base != 10 || !digits) {
        parser_fail(parser, "the number %.*s is out of range", token->text);
        return rf_jinja_none();
    }
    for (size_t i = n = 0; i < token->text.bytes; i++)
        if (token->text.data[i] != '_') digits[n++] = token->text.data[i];
    return (value){.type = RF_JINJA_BIG, .u.data = digits, .bytes = n};
}

static struct node *parse_name(struct parser *parser)
{
    static const struct {
        const char *name;
        value v;
    } constants[] = {{"true", {.type = RF_JINJA_BOOL, .u.integer = 1}},
                     {"True", {.type = RF_JINJA_BOOL, .u.integer = 1}},
                     {"false", {.type = RF_JINJA_BOOL}},
                     {"False", {.type = RF_JINJA_BOOL}},
                     {"none", {.type = RF_JINJA_NONE}},
                     {"None", {.type = RF_JINJA_NONE}}};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (take_word(parser, constants[i].name)) return constant(parser, constants[i].v);
    parser->n_rests += is_keyword(parser, "varargs") || is_keyword(parser, "kwargs");
    struct node *node = new_node(parser, NODE_NAME);
    node->text = expect_name(parser);
    return node;
}

/* Adjacent literals are one string. */
static struct node *parse_string(struct parser *parser)
{
    struct node *node = new_node(parser, NODE_CONCAT);
    struct node **end = &node->children;
    while (parser->at->kind == TOKEN_STRING) {
        *end = constant(parser, rf_jinja_string(parser->at->text, 0));
        end = &(*end)->next;
        parser->at++;
    }
    return node->children && !node->children->next ? node->children : node;
}

static struct node *parse_list(struct parser *parser)
{
    struct node *node = new_node(parser, NODE_LIST);
    struct node **end = &node->children;
    expect_op(parser, "[");
    while (!is_op(parser, "]") && !parser->code) {
        if (node->children) expect_op(parser, ",");
        if (is_op(parser, "]")) break;
        *end = parse_expression(parser);
        end = &(*end)->next;
    }
    expect_op(parser, "]");
    return node;
}

static struct node *parse_dict(struct parser *parser)
{
    struct node *node = new_node(parser, NODE_DICT);
    struct node **end = &node->children;
    expect_op(parser, "{");
    while (!is_op(parser, "}") && !parser->code) {
        if (node->children) expect_op(parser, ",");
        if (is_op(parser, "}")) break;
        *end = parse_expression(parser);
        expect_op(parser, ":");
        (*end)->next = parse_expression(parser);
        end = &(*end)->next->next;
    }
    expect_op(parser, "}");
    return node;
}

static int ends_tuple(const struct parser *parser, int flags)
{
    return parser->at->kind == TOKEN_PRINT_END || parser->at->kind == TOKEN_BLOCK_END ||
           parser->at->kind == TOKEN_END || is_op(parser, ")") ||
           (flags & TUPLE_STOPS_AT_IN && is_keyword(parser, "in")) ||
           (!(flags & TUPLE_CHOICES) && is_keyword(parser, "recursive"));
}

static struct node *parse_or(struct parser *parser);

/* One expression, or several with commas as a tuple. */
static struct node *parse_tuple(struct parser *parser, int flags)
{
    struct node *tuple = new_node(parser, NODE_TUPLE);
    struct node **end = &tuple->children;
    int is_tuple = 0;
    while (!parser->code) {
        if (tuple->children) expect_op(parser, ",");
        if (ends_tuple(parser, flags)) break;
        *end = flags & TUPLE_STOPS_AT_IN ? parse_postfix(parser, parse_name(parser))
               : flags & TUPLE_CHOICES   ? parse_expression(parser)
                                         : parse_or(parser);
        end = &(*end)->next;
        if (!is_op(parser, ",")) break;
        is_tuple = 1;
    }
    if (!tuple->children && !(flags & TUPLE_BRACKETS)) unexpected(parser);
    return is_tuple || !tuple->children ? tuple : tuple->children;
}

static struct node *parse_primary(struct parser *parser)
{
    const struct token *token = parser->at;
    struct node *node;
    switch (token->kind) {
    case TOKEN_NAME: return parse_name(parser);
    case TOKEN_STRING: return parse_string(parser);
    case TOKEN_INTEGER:
    case TOKEN_FLOAT: parser->at++; return constant(parser, number_value(parser, token));
    default: break;
    }
    if (is_op(parser, "[")) return parse_list(parser);
    if (is_op(parser, "{")) return parse_dict(parser);
    if (take_op(parser, "(")) {
        node = parse_tuple(parser, TUPLE_CHOICES | TUPLE_BRACKETS);
        expect_op(parser, ")");
        return node;
    }
    unexpected(parser);
    return constant(parser, rf_jinja_none());
}

/* name=value, *list, **dict or a value, up to the closing bracket. */
static struct node *parse_arguments(struct parser *parser)
{
    struct node *first = NULL, **end = &first;
    expect_op(parser, "(");
    while (!is_op(parser, ")") && !parser->code) {
        if (first) expect_op(parser, ",");
        if (is_op(parser, ")")) break;
        struct rf_str name = {NULL, 0};
        uint8_t stars = take_op(parser, "**") ? 2 : take_op(parser, "*") ? 1 : 0;
        if (!stars && parser->at->kind == TOKEN_NAME && parser->at[1].kind == TOKEN_OPERATOR &&
            rf_str_is(parser->at[1].text, "=")) {
            name = parser->at->text;
            parser->at += 2;
        }
        struct node *argument = new_node(parser, NODE_POSITIVE);
        argument->a = parse_expression(parser);
        argument->text = name;
        argument->op = stars;
        *end = argument;
        end = &argument->next;
    }
    expect_op(parser, ")");
    return first;
}

static struct node *parse_subscript(struct parser *parser, struct node *object)
{
    struct node *node = new_node(parser, NODE_ITEM), *parts[3] = {NULL, NULL, NULL};
    int n = 0, slice = 0;
    node->a = object;
    while (!is_op(parser, "]") && !parser->code) {
        if (take_op(parser, ":")) {
            slice = 1;
            if (++n > 2) unexpected(parser);
        } else if (n < 3 && !parts[n]) {
            parts[n] = parse_expression(parser);
        } else {
            unexpected(parser);
        }
    }
    expect_op(parser, "]");
    if (slice) node->kind = NODE_SLICE;
    if (!slice && !parts[0]) unexpected(parser);
    node->b = parts[0];
    node->c = parts[1];
    node->d = parts[2];
    return node;
}

static struct node *parse_attribute(struct parser *parser, struct node *object)
{
    struct node *node = new_node(parser, NODE_ATTRIBUTE);
    node->a = object;
    if (parser->at->kind == TOKEN_INTEGER) {
        node->kind = NODE_ITEM;
        node->b = constant(parser, number_value(parser, parser->at++));
    } else {
        node->text = expect_name(parser);
    }
    return node;
}

static struct node *parse_call(struct parser *parser, struct node *callee)
{
    struct node *node = new_node(parser, NODE_CALL);
    node->a = callee;
    node->arguments = parse_arguments(parser);
    return node;
}

/* The node that follows and contains this one, or NULL. */
typedef struct node *(*follow_fn)(struct parser *parser, struct node *node);

/* A chain is a deep tree, so its length is bounded like any depth. */
static struct node *parse_chain(struct parser *parser, struct node *node, follow_fn follow)
{
    int depth = parser->depth;
    struct node *outer;
    while (!parser->code && parser_enter(parser) && (outer = follow(parser, node))) node = outer;
    parser->depth = depth;
    return node;
}

static struct node *follow_postfix(struct parser *parser, struct node *node)
{
    if (take_op(parser, ".")) return parse_attribute(parser, node);
    if (take_op(parser, "[")) return parse_subscript(parser, node);
    return is_op(parser, "(") ? parse_call(parser, node) : NULL;
}

static struct node *parse_postfix(struct parser *parser, struct node *node)
{
    return parse_chain(parser, node, follow_postfix);
}

static struct node *parse_filter(struct parser *parser, struct node *subject)
{
    struct node *node = new_node(parser, NODE_FILTER);
    node->a = subject;
    node->text = expect_name(parser);
    if (is_op(parser, ".")) unexpected(parser);
    node->builtin = rf_jinja_filter(node->text);
    if (!node->builtin && !parser->choices && !parser->unknown) parser->unknown = node;
    if (is_op(parser, "(")) node->arguments = parse_arguments(parser);
    return node;
}

static int begins_test_argument(const struct parser *parser)
{
    static const char *const words[] = {"else", "or", "and", "is", "if", "in", "not"};
    enum token_kind kind = parser->at->kind;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is_keyword(parser, words[i])) return 0;
    return kind == TOKEN_NAME || kind == TOKEN_STRING || kind == TOKEN_INTEGER ||
           kind == TOKEN_FLOAT || is_op(parser, "[") || is_op(parser, "{");
}

static struct node *parse_test(struct parser *parser, struct node *subject)
{
    struct node *node = new_node(parser, NODE_TEST);
    node->a = subject;
    node->flag = (uint8_t)take_word(parser, "not");
    node->text = expect_name(parser);
    node->builtin = rf_jinja_test(node->text);
    if (!node->builtin && !parser->choices && !parser->unknown) parser->unknown = node;
    if (is_op(parser, "(")) {
        node->arguments = parse_arguments(parser);
    } else if (begins_test_argument(parser)) {
        node->arguments = new_node(parser, NODE_POSITIVE);
        node->arguments->a = parse_postfix(parser, parse_primary(parser));
    }
    return node;
}

static struct node *follow_filter(struct parser *parser, struct node *node)
{
    if (take_op(parser, "|")) return parse_filter(parser, node);
    if (take_word(parser, "is")) return parse_test(parser, node);
    return is_op(parser, "(") ? parse_call(parser, node) : NULL;
}

static struct node *parse_unary(struct parser *parser, int filters)
{
    struct node *node;
    if (!parser_enter(parser)) return constant(parser, rf_jinja_none());
    if (is_op(parser, "-") || is_op(parser, "+")) {
        node = new_node(parser, is_op(parser, "-") ? NODE_NEGATIVE : NODE_POSITIVE);
        parser->at++;
        node->a = parse_unary(parser, 0);
    } else {
        node = parse_primary(parser);
    }
    node = parse_postfix(parser, node);
    if (filters) node = parse_chain(parser, node, follow_filter);
    parser->depth--;
    return node;
}

/* Operators by precedence, the tightest last. */
static const struct {
    const char *text;
    enum binary_op op;
    int level;
} operators[] = {{"+", OP_ADD, 0},    {"-", OP_SUBTRACT, 0}, {"*", OP_MULTIPLY, 1},
                 {"/", OP_DIVIDE, 1}, {"//", OP_FLOOR, 1},   {"%", OP_MODULO, 1},
                 {"**", OP_POWER, 2}};

static int take_operator(struct parser *parser, int level)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (operators[i].level == level && take_op(parser, operators[i].text))
            return (int)operators[i].op;
    return -1;
}

static struct node *parse_concat(struct parser *parser);
static struct node *parse_binary(struct parser *parser, int level);

static struct node *parse_operand(struct parser *parser, int level)
{
    if (level == 0) return parse_concat(parser);
    return level == 1 ? parse_binary(parser, 2) : parse_unary(parser, 1);
}

static struct node *parse_binary(struct parser *parser, int level)
{
    int depth = parser->depth, op;
    struct node *left = parse_operand(parser, level);
    while (!parser->code && (op = take_operator(parser, level)) >= 0 && parser_enter(parser)) {
        struct node *node = new_node(parser, NODE_BINARY);
        node->op = (uint8_t)op;
        node->a = left;
        node->b = parse_operand(parser, level);
        left = node;
    }
    parser->depth = depth;
    return left;
}

static struct node *parse_concat(struct parser *parser)
{
    struct node *first = parse_binary(parser, 1);
    if (!is_op(parser, "~")) return first;
    struct node *node = new_node(parser, NODE_CONCAT), *last = first;
    node->children = first;
    while (take_op(parser, "~")) last = last->next = parse_binary(parser, 1);
    return node;
}

static int take_comparison(struct parser *parser)
{
    static const struct {
        const char *text;
        enum binary_op op;
    } known[] = {{"==", OP_EQUAL},  {"!=", OP_UNEQUAL}, {"<", OP_LESS},
                 {">", OP_GREATER}, {"<=", OP_AT_MOST}, {">=", OP_AT_LEAST}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (take_op(parser, known[i].text)) return (int)known[i].op;
    if (take_word(parser, "in")) return OP_IN;
    if (!is_keyword(parser, "not") || parser->at[1].kind != TOKEN_NAME ||
        !rf_str_is(parser->at[1].text, "in"))
        return -1;
    parser->at += 2;
    return OP_NOT_IN;
}

static struct node *parse_compare(struct parser *parser)
{
    struct node *first = parse_binary(parser, 0), *node = NULL, **end = NULL;
    for (int op; !parser->code && (op = take_comparison(parser)) >= 0;) {
        if (!node) {
            node = new_node(parser, NODE_COMPARE);
            node->a = first;
            end = &node->children;
        }
        *end = new_node(parser, NODE_BINARY);
        (*end)->op = (uint8_t)op;
        (*end)->a = parse_binary(parser, 0);
        end = &(*end)->next;
    }
    return node ? node : first;
}

static struct node *parse_not(struct parser *parser)
{
    if (!is_keyword(parser, "not")) return parse_compare(parser);
    struct node *node = new_node(parser, NODE_NOT);
    if (!parser_enter(parser)) return node;
    parser->at++;
    node->a = parse_not(parser);
    parser->depth--;
    return node;
}

/* Alternatives and conjunctions are lists, so that long ones are not deep. */
static struct node *parse_and(struct parser *parser)
{
    struct node *first = parse_not(parser), *last = first;
    if (!is_keyword(parser, "and")) return first;
    struct node *node = new_node(parser, NODE_AND);
    node->children = first;
    while (!parser->code && take_word(parser, "and")) last = last->next = parse_not(parser);
    return node;
}

static struct node *parse_or(struct parser *parser)
{
    struct node *first = parse_and(parser), *last = first;
    if (!is_keyword(parser, "or")) return first;
    struct node *node = new_node(parser, NODE_OR);
    node->children = first;
    while (!parser->code && take_word(parser, "or")) last = last->next = parse_and(parser);
    return node;
}

static struct node *parse_expression(struct parser *parser)
{
    int depth = parser->depth;
    const struct node *unknown = parser->unknown;
    struct node *node = parser_enter(parser) ? parse_or(parser) : constant(parser, rf_jinja_none());
    while (!parser->code && take_word(parser, "if")) {
        struct node *choice = new_node(parser, NODE_CHOICE);
        if (!parser_enter(parser)) break;
        choice->a = node;
        choice->b = parse_or(parser);
        if (take_word(parser, "else")) choice->c = parse_expression(parser);
        node = choice;
        parser->unknown = unknown;
    }
    parser->depth = depth;
    return node;
}

/* ---- statements ---- */

static struct node *parse_body(struct parser *parser);

static void end_block(struct parser *parser, const char *word)
{
    if (!take_word(parser, word)) unexpected(parser);
    expect_block_end(parser);
}

static struct node *parse_if(struct parser *parser)
{
    struct node *node = new_node(parser, NODE_IF), **end = &node->children;
    int more = 1;
    parser->choices++;
    while (more && !parser->code) {
        *end = new_node(parser, NODE_ARM);
        (*end)->a = parse_tuple(parser, 0);
        expect_block_end(parser);
        (*end)->body = parse_body(parser);
        end = &(*end)->next;
        more = take_word(parser, "elif");
    }
    if (take_word(parser, "else")) {
        expect_block_end(parser);
        *end = new_node(parser, NODE_ARM);
        (*end)->body = parse_body(parser);
    }
    parser->choices--;
    end_block(parser, "endif");
    return node;
}

static void check_target(struct parser *parser, const struct node *target)
{
    int attribute = target->kind == NODE_ATTRIBUTE && target->a->kind == NODE_NAME;
    if (target->kind == NODE_TUPLE && target->children)
        for (const struct node *part = target->children; part; part = part->next)
            check_target(parser, part);
    else if (target->kind != NODE_NAME && !attribute)
        parser_fail(parser, "something is set that is not a name%.*s", (struct rf_str){"", 0});
}

static struct node *parse_for(struct parser *parser)
{
    struct node *node = new_node(parser, NODE_FOR);
    node->a = parse_tuple(parser, TUPLE_STOPS_AT_IN);
    check_target(parser, node->a);
    if (!take_word(parser, "in")) unexpected(parser);
    node->b = parse_tuple(parser, 0);
    if (take_word(parser, "if")) node->c = parse_expression(parser);
    node->flag = (uint8_t)take_word(parser, "recursive");
    expect_block_end(parser);
    parser->loops++;
    node->body = parse_body(parser);
    parser->loops--;
    if (take_word(parser, "else")) {
        expect_block_end(parser);
        node->other = parse_body(parser);
    }
    end_block(parser, "endfor");
    return node;
}

static struct node *parse_set(struct parser *parser)
{
    struct node *node = new_node(parser, NODE_SET);
    node->a = parse_tuple(parser, TUPLE_STOPS_AT_IN);
    check_target(parser, node->a);
    if (take_op(parser, "=")) {
        node->b = parse_tuple(parser, TUPLE_CHOICES);
        expect_block_end(parser);
        return node;
    }
    node->kind = NODE_SET_BLOCK;
    node->b = parse_chain(parser, new_node(parser, NODE_CAPTURED), follow_filter);
    expect_block_end(parser);
    node->body = parse_body(parser);
    end_block(parser, "endset");
    return node;
}

/* Parameters with their defaults in `a`. */
static struct node *parse_parameters(struct parser *parser)
{
    struct node *first = NULL, **end = &first;
    expect_op(parser, "(");
    while (!is_op(parser, ")") && !parser->code) {
        if (first) expect_op(parser, ",");
        if (is_op(parser, ")")) break;
        *end = new_node(parser, NODE_NAME);
        (*end)->text = expect_name(parser);
        if (take_op(parser, "=")) (*end)->a = parse_expression(parser);
        end = &(*end)->next;
    }
    expect_op(parser, ")");
    return first;
}

static struct node *parse_macro(struct parser *parser)
{
    struct node *node = new_node(parser, NODE_MACRO);
    node->text = expect_name(parser);
    unsigned rests = parser->n_rests;
    node->children = parse_parameters(parser);
    expect_block_end(parser);
    node->body = parse_body(parser);
    node->flag = rests != parser->n_rests;
    end_block(parser, "endmacro");
    return node;
}

static struct node *parse_call_block(struct parser *parser)
{
    struct node *node = new_node(parser, NODE_CALL_BLOCK);
    node->b = new_node(parser, NODE_MACRO);
    node->b->text = rf_str_of("caller");
    if (is_op(parser, "(")) node->b->children = parse_parameters(parser);
    node->a = parse_unary(parser, 1);
    if (node->a->kind != NODE_CALL) unexpected(parser);
    expect_block_end(parser);
    unsigned rests = parser->n_rests;
    node->b->body = parse_body(parser);
    node->b->flag = rests != parser->n_rests;
    end_block(parser, "endcall");
    return node;
}

static struct node *parse_filter_block(struct parser *parser)
{
    struct node *node = new_node(parser, NODE_FILTER_BLOCK);
    node->b = parse_filter(parser, new_node(parser, NODE_CAPTURED));
    node->b = parse_chain(parser, node->b, follow_filter);
    expect_block_end(parser);
    node->body = parse_body(parser);
    end_block(parser, "endfilter");
    return node;
}

static struct node *parse_with(struct parser *parser)
{
    struct node *node = new_node(parser, NODE_WITH), **end = &node->children;
    while (parser->at->kind != TOKEN_BLOCK_END && !parser->code) {
        if (node->children) expect_op(parser, ",");
        *end = new_node(parser, NODE_SET);
        (*end)->a = parse_name(parser);
        check_target(parser, (*end)->a);
        expect_op(parser, "=");
        (*end)->b = parse_expression(parser);
        end = &(*end)->next;
    }
    expect_block_end(parser);
    node->body = parse_body(parser);
    end_block(parser, "endwith");
    return node;
}

static struct node *parse_generation(struct parser *parser)
{
    struct node *node = new_node(parser, NODE_SCOPE);
    expect_block_end(parser);
    node->body = parse_body(parser);
    end_block(parser, "endgeneration");
    return node;
}

static struct node *parse_autoescape(struct parser *parser)
{
    struct node *node = new_node(parser, NODE_AUTOESCAPE);
    node->a = parse_expression(parser);
    expect_block_end(parser);
    node->body = parse_body(parser);
    end_block(parser, "endautoescape");
    return node;
}

/* A template without others around it renders its blocks where they are. */
static struct node *parse_block(struct parser *parser)
{
    struct node *node = new_node(parser, NODE_BLOCK);
    node->text = expect_name(parser);
    node->flag = (uint8_t)take_word(parser, "scoped");
    expect_block_end(parser);
    node->body = parse_body(parser);
    if (!take_word(parser, "endblock")) unexpected(parser);
    if (parser->at->kind == TOKEN_NAME && rf_str_same(parser->at->text, node->text)) parser->at++;
    expect_block_end(parser);
    return node;
}

static struct node *parse_jump(struct parser *parser)
{
    struct node *node =
        new_node(parser, rf_str_is(parser->at[-1].text, "break") ? NODE_BREAK : NODE_CONTINUE);
    if (!parser->loops) unexpected(parser);
    expect_block_end(parser);
    return node;
}

static struct node *parse_statement(struct parser *parser)
{
    static const struct {
        const char *word;
        struct node *(*parse)(struct parser *parser);
    } statements[] = {{"if", parse_if},           {"for", parse_for},
                      {"set", parse_set},         {"macro", parse_macro},
                      {"call", parse_call_block}, {"filter", parse_filter_block},
                      {"with", parse_with},       {"generation", parse_generation},
                      {"break", parse_jump},      {"continue", parse_jump},
                      {"block", parse_block},     {"autoescape", parse_autoescape}};
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (take_word(parser, statements[i].word)) return statements[i].parse(parser);
    parser_fail(parser, "the statement %.*s is not known", shown_token(parser));
    return new_node(parser, NODE_BREAK);
}

static int ends_body(const struct parser *parser)
{
    if (parser->at->kind != TOKEN_NAME) return 0;
    return rf_str_is(parser->at->text, "elif") || rf_str_is(parser->at->text, "else") ||
           (parser->at->text.bytes > 3 && memcmp(parser->at->text.data, "end", 3) == 0);
}

static struct node *parse_print(struct parser *parser)
{
    struct node *node = new_node(parser, NODE_PRINT);
    node->a = parse_tuple(parser, TUPLE_CHOICES);
    if (parser->at->kind == TOKEN_PRINT_END)
        parser->at++;
    else
        unexpected(parser);
    return node;
}

/* jinja2 refuses a source with an unknown filter or test, unless it stands under a condition. */
static void fail_unknown(struct parser *parser)
{
    const struct node *node = parser->unknown;
    if (!parser->code)
        parser->code = rf_jinja_bad(
            parser->error, RF_ERR_UNSUPPORTED, node->line, "the %s %.*s is not known",
            node->kind == NODE_TEST ? "test" : "filter", rf_shown(node->text), node->text.data);
    while (parser->at->kind != TOKEN_END) parser->at++;
}

/* Statements up to a {% elif, else or end... %}, whose word is the next token, or to the end. */
static struct node *parse_body(struct parser *parser)
{
    struct node *first = NULL, **end = &first;
    int depth = parser->depth;
    if (!parser_enter(parser)) return NULL;
    while (!parser->code && parser->at->kind != TOKEN_END) {
        enum token_kind kind = parser->at->kind;
        if (kind == TOKEN_DATA) {
            *end = new_node(parser, NODE_DATA);
            (*end)->text = parser->at->text;
        }
        parser->at++;
        if (kind == TOKEN_BLOCK && ends_body(parser)) break;
        if (kind == TOKEN_PRINT) *end = parse_print(parser);
        if (kind == TOKEN_BLOCK) *end = parse_statement(parser);
        if (parser->unknown) fail_unknown(parser);
        end = &(*end)->next;
    }
    parser->depth = depth;
    return first;
}

int rf_jinja_parse(struct rf_arena *arena, const struct token *tokens, struct node **root,
                   struct rf_error *error)
{
    struct parser parser = {.arena = arena, .at = tokens, .error = error};
    *root = new_node(&parser, NODE_SCOPE);
    (*root)->body = parse_body(&parser);
    if (parser.at->kind != TOKEN_END) unexpected(&parser);
    return parser.code;
}
