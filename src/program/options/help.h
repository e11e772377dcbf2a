/* The help of the program and of its verbs, generated from the tables. main.c prints it. */
#ifndef OPTIONS_HELP_H
#define OPTIONS_HELP_H

#include <stdio.h>

#include "options/option_table.h"

void help_program(FILE *out);
void help_verb(FILE *out, const struct verb *verb);

#endif
