/* The checks of a pass that hold for every backend. rf_view_run makes them before it submits, so
 * backends take passes as they are. */
#ifndef RF_INFER_PASS_H
#define RF_INFER_PASS_H

#include "infer/backend.h"

/* RF_ERR_ARGUMENT with a sentence where a group's rows do not fit its context, the view cannot read
 * a group's cache, or the rows or answers are more than the view, or a pass with parents, can have.
 * Asserts that parents come before their rows. */
int rf_pass_check(const struct rf_view *view, const struct rf_pass *pass, struct rf_error *error);

#endif
