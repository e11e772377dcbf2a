/* What passes cost on this machine and how often drafts were kept, from one run to the next: a
 * small text file for each model, form of its weights, tier and number of threads. */
#ifndef RF_SPECULATE_PACE_FILE_H
#define RF_SPECULATE_PACE_FILE_H

#include "speculate/pace.h"

enum { RF_PACE_NAME_BYTES = 64 };

/* Takes over costs and acceptance of the levels that the file knows by name, as first guesses that
 * measurements correct. names[l]: of level l. A file that is not there, or not one of these,
 * changes nothing. */
void rf_pace_load(struct rf_pace *pace, const char (*names)[RF_PACE_NAME_BYTES], const char *path);

/* Writes costs and acceptance of the levels that were measured; what the file says of others stays.
 * RF_ERR_IO names the file. */
int rf_pace_save(const struct rf_pace *pace, const char (*names)[RF_PACE_NAME_BYTES],
                 const char *path, struct rf_error *error);

#endif
