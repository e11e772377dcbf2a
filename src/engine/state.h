/* A session as a file (state.c describes the format). */
#ifndef RF_ENGINE_STATE_H
#define RF_ENGINE_STATE_H

#include "engine/session.h"

/* `flags` are RF_NEW_* (platform/file.h), beside RF_NEW_PRIVATE. */
int rf_state_save(const struct rf_session *session, const char *path, unsigned flags,
                  struct rf_error *error);
/* The size of that file. */
uint64_t rf_state_bytes(const struct rf_session *session);
/* A load that fails changes nothing. */
int rf_state_load(struct rf_session *session, const char *path, struct rf_error *error);

/* A number for sessions whose files can replace reading, bit for bit: it tells apart models, types
 * of keys and values, activations, devices, tiers and versions of the format. */
uint64_t rf_state_key(const struct rf_session *session);
/* Reads the tokens of a file that the session could load, as far as its size and its header show:
 * *tokens [*n], for rf_free with the engine's allocator; the first *n_read have keys and values. */
int rf_state_tokens(const struct rf_session *session, const char *path, int32_t **tokens,
                    int32_t *n, int32_t *n_read, struct rf_error *error);

#endif
