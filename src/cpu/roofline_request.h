/* What every device's roofline makes of a request. */
#ifndef RF_CPU_ROOFLINE_REQUEST_H
#define RF_CPU_ROOFLINE_REQUEST_H

#include "base/error.h"
#include "infer/measure.h"

enum { RF_ROOFLINE_ROUNDS = 11, RF_ROOFLINE_MOST_ROWS = 512 };

/* Copies the next name of a list separated by commas to name[cap], without spaces around it.
 * Returns the rest of the list, or NULL at its end. */
const char *rf_roofline_next_name(const char *list, char *name, size_t cap);

/* Whether the request asks for a kernel of that name. */
int rf_roofline_wants(const struct rf_roofline_request *request, const char *kernel);

/* name(i): of the device's i-th kernel, or NULL. RF_ERR_ARGUMENT with the known names. */
int rf_roofline_check_kernels(const struct rf_roofline_request *request,
                              const char *(*name)(size_t i), struct rf_error *error);

/* Fills in the default shape and number of rounds. RF_ERR_ARGUMENT for a shape or number out of
 * range. */
int rf_roofline_check_numbers(struct rf_roofline_request *request, struct rf_error *error);

#endif
