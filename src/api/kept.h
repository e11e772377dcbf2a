/* Sessions whose answers have ended, kept for prompts that begin with the same tokens. */
#ifndef RF_API_KEPT_H
#define RF_API_KEPT_H

#include "api/handles.h"

enum { RF_MOST_KEPT = 64 /* each also has its drafters' tables */ };

struct kept {
    struct {
        riffle_session *session;
        uint64_t bytes;    /* of keys and values */
    } texts[RF_MOST_KEPT]; /* the oldest first */
    int32_t n;
    uint64_t bytes, most;
};

/* How many of the first tokens of both are the same. */
int32_t rf_common_tokens(const riffle_session *session, const int32_t *tokens, int32_t n);

/* The text with the longest common beginning, at least one token; -1: none. */
int32_t rf_kept_find(const struct kept *kept, const int32_t *tokens, int32_t n, int32_t *common);
/* Hands a text out: it is no longer kept. */
riffle_session *rf_kept_take(struct kept *kept, int32_t i);
/* Keeps the session, or closes it if it has more bytes than all may have; closes the oldest ones
 * for it. */
void rf_kept_add(struct kept *kept, riffle_session *session);
void rf_kept_clear(struct kept *kept);

#endif
