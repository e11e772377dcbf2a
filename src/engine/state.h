/* A session as a file (state.c describes the format). */
#ifndef RF_ENGINE_STATE_H
#define RF_ENGINE_STATE_H

#include "engine/session.h"

int rf_state_save(const struct rf_session *session, const char *path, struct rf_error *error);
/* A load that fails changes nothing. */
int rf_state_load(struct rf_session *session, const char *path, struct rf_error *error);

#endif
