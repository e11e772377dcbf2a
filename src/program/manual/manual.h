/* The manual page and the completions, written from the program's tables of verbs and options.
 * Only the build's step main.c calls them. */
#ifndef MANUAL_MANUAL_H
#define MANUAL_MANUAL_H

#include <stdio.h>

/* riffle.1, for man(7). `date` is of the form 2026-01-31. */
void manual_page(FILE *out, const char *version, const char *date);

/* Completions. They take the names of models from `riffle list --json`. */
void manual_bash(FILE *out);
void manual_zsh(FILE *out);
void manual_fish(FILE *out);

#endif
