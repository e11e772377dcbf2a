/* The verbs' functions, in the order of verb_table. Only main.c calls verbs_run. */
#include "verbs/verbs.h"

static verb_function *const functions[] = {
#define VERB(name, ...) verb_##name,
#include "options/verbs.def"
};

int verbs_run(const struct cli_options *options)
{
    return functions[options->verb - verb_table](options);
}
