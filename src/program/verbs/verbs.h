/* The entry points of the verbs: verb_name is in name.c, beside this file. They are declared from
 * options/verbs.def, so a new verb changes nothing here. */
#ifndef VERBS_VERBS_H
#define VERBS_VERBS_H

#include "options/option_table.h"

/* A verb returns an exit status; if it is not CLI_OK, standard error has a sentence. */
typedef int verb_function(const struct cli_options *options);
#define VERB(name, ...) verb_function verb_##name;
#include "options/verbs.def"

/* Runs options->verb. */
int verbs_run(const struct cli_options *options);

#endif
