/* The table behind options.h: the name, value and meaning of each option. */
#ifndef CLI_OPTION_TABLE_H
#define CLI_OPTION_TABLE_H

#include <stddef.h>

#include "cli/options.h"

enum option_kind {
    OPTION_FLAG,  /* int: 1 */
    OPTION_TEXT,  /* const char * */
    OPTION_TEXTS, /* struct text_list: one more entry, not empty */
    OPTION_LIST,  /* char *, for free(): all values given, separated by commas */
    OPTION_INT,   /* int32_t between low and high */
    OPTION_FLOAT, /* float between low and high */
    OPTION_SEED,  /* uint64_t */
    OPTION_CHOICE /* const char *: one word of `choices` */
};

struct option {
    const char *name;   /* "--threads" */
    const char *letter; /* "-p", or NULL */
    const char *value;  /* name of the value in the help; NULL for a flag */
    enum option_kind kind;
    unsigned verbs; /* enum verb_bit */
    size_t offset;  /* into struct cli_options */
    double low, high;
    const char *choices; /* separated by '|' */
    const char *help;
};

/* Ended by an entry without a name. */
extern const struct option option_table[];
/* Ended by an entry without a name. */
extern const struct verb verb_table[];

#endif
