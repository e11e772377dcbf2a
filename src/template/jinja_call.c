/* Calls of what is built in: each is charged by the size of its operands, in this one place. The
 * evaluator calls it. */
#include "template/jinja_parts.h"

/* Texts that a method makes of HTML are HTML. */
static value keep_html(value v)
{
    if (v.type == RF_JINJA_STRING) return rf_jinja_html(v);
    for (size_t i = 0; rf_jinja_is_sequence(v) && i < v.u.list->n; i++)
        v.u.list->items[i] = keep_html(v.u.list->items[i]);
    return v;
}

value rf_jinja_call(struct rf_jinja_run *run, const struct builtin *builtin, value self,
                    const struct arguments *arguments)
{
    size_t size = RF_JINJA_STEP;
    if (!(builtin->flags & BUILTIN_CONSTANT)) {
        size += rf_jinja_size(self);
        for (size_t i = 0; i < arguments->n; i++) size += rf_jinja_size(arguments->positional[i]);
        for (size_t i = 0; i < arguments->n_named; i++) size += rf_jinja_size(arguments->named[i]);
    }
    if (rf_jinja_charge(run, size)) return (value){0};
    value v = builtin->call(run, self, arguments);
    if (run->code) return (value){0};
    int html = builtin->flags & BUILTIN_KEEPS_HTML && self.type == RF_JINJA_STRING && self.marked;
    return html ? keep_html(v) : v;
}
