/* Jinja's interface: compiles a source to a tree of nodes and renders it. A run owns all its
 * values, which end with it. chat_template.c calls it. */
#include "template/jinja_parts.h"

int rf_jinja_compile(struct rf_jinja_template **out, const char *source, size_t source_bytes,
                     const struct rf_allocator *allocator, struct rf_error *error)
{
    int code;
    *out = NULL;
    if (source_bytes > RF_JINJA_MAX_SOURCE)
        return rf_fail(error, RF_ERR_UNSUPPORTED, "the chat template has %zu bytes, more than %d",
                       source_bytes, RF_JINJA_MAX_SOURCE);
    struct rf_jinja_template *compiled =
        rf_calloc(allocator, 1, sizeof *compiled, "chat template", error);
    if (!compiled) return RF_ERR_MEMORY;
    compiled->allocator = allocator;
    compiled->arena.allocator = allocator;
    struct token *tokens;
    code = rf_jinja_lex(&compiled->arena, (struct rf_str){source, source_bytes}, &tokens, error);
    if (!code) code = rf_jinja_parse(&compiled->arena, tokens, &compiled->body, error);
    if (code)
        rf_jinja_free(compiled);
    else
        *out = compiled;
    return code;
}

void rf_jinja_free(struct rf_jinja_template *compiled)
{
    if (!compiled) return;
    rf_arena_free(&compiled->arena);
    rf_free(compiled->allocator, compiled);
}

int rf_jinja_begin(struct rf_jinja_run **out, const struct rf_jinja_template *compiled, int64_t now,
                   const struct rf_allocator *allocator, struct rf_error *error)
{
    struct rf_jinja_run *run = rf_calloc(allocator, 1, sizeof *run, "chat template", error);
    *out = run;
    if (!run) return RF_ERR_MEMORY;
    run->compiled = compiled;
    run->allocator = allocator;
    run->now = now;
    run->arena.allocator = allocator;
    run->error = error;
    run->scope = &run->globals;
    return 0;
}

void rf_jinja_end(struct rf_jinja_run *run)
{
    if (!run) return;
    rf_arena_free(&run->arena);
    rf_free(run->allocator, run);
}

void rf_jinja_set(struct rf_jinja_run *run, const char *name, value v)
{
    rf_jinja_insert(run, &run->globals.names, rf_jinja_text(name), v);
}

void rf_jinja_set_stop(struct rf_jinja_run *run, struct rf_jinja_stop stop)
{
    run->stop = stop;
}

int rf_jinja_render(struct rf_jinja_run *run, value *text)
{
    struct output out = {0};
    run->output = &out;
    rf_jinja_exec(run, run->compiled->body);
    *text = rf_jinja_written(run, &out);
    return run->code;
}
