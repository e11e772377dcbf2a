/* The form in which the language's functions are written in C.
 * The files of filters, methods and globals include this in place of jinja_parts.h. */
#ifndef RF_TEMPLATE_JINJA_FUNCTIONS_H
#define RF_TEMPLATE_JINJA_FUNCTIONS_H

#include "template/jinja_parts.h"

#define FUNCTION(name) \
    static value name(struct rf_jinja_run *run, value self, const struct arguments *arguments)
#define UNUSED (void)run, (void)self, (void)arguments
#define ARGUMENT(place, name, otherwise) rf_jinja_argument(arguments, place, name, otherwise)

#endif
