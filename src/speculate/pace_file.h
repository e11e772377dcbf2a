/* Keeps costs of passes and acceptance of drafts from one run to the next, in a small text file for
 * each model, form of its weights, tier and number of threads. */
#ifndef RF_SPECULATE_PACE_FILE_H
#define RF_SPECULATE_PACE_FILE_H

#include "speculate/pace.h"

enum { RF_PACE_NAME_BYTES = 64 };

/* Takes costs and acceptance of the levels that the file has by name as first guesses. names[l] is
 * of level l. A file that is missing or has another format changes nothing. */
void rf_pace_load(struct rf_pace *pace, const char (*names)[RF_PACE_NAME_BYTES], const char *path);

/* Writes costs and acceptance of the measured levels, and keeps what the file has of others.
 * RF_ERR_IO names the file. */
int rf_pace_save(const struct rf_pace *pace, const char (*names)[RF_PACE_NAME_BYTES],
                 const char *path, struct rf_error *error);

#endif
