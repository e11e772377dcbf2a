/* Sessions whose answers have ended, kept for prompts that begin with the same tokens. */
#ifndef RF_ENGINE_KEPT_H
#define RF_ENGINE_KEPT_H

#include "engine/session.h"

enum { RF_MOST_KEPT = 64 /* each also has its drafters' tables */ };

/* GreedyDual-Size decides which text goes first (Cao and Irani, 1997): the one with the least
 * `clock` when it was last used, plus what it would cost to read again for each byte. The clock
 * goes on to that sum, so texts that nobody uses become the least ones. */
struct kept {
    struct kept_text {
        struct rf_session *session;
        int32_t n_prompt; /* tokens of the text that it was asked with; its answer follows */
        double clock;
        int is_stored; /* needs not be written to the folder of stored texts (stored.h) */
    } texts[RF_MOST_KEPT + 1];
    int32_t n;
    double clock;
    uint64_t most; /* bytes, as rf_kept_bytes counts */
};

/* How many of the first tokens of both are the same. */
int32_t rf_common_tokens(const struct rf_session *session, const int32_t *tokens, int32_t n);

/* The text with the longest common beginning, at least one token; -1: none. */
int32_t rf_kept_find(const struct kept *kept, const int32_t *tokens, int32_t n, int32_t *common);
/* Text i was used. */
void rf_kept_use(struct kept *kept, int32_t i);
/* Bytes of keys and values, which count once where texts share them, and of what a draft head
 * keeps for each. */
uint64_t rf_kept_bytes(const struct kept *kept);
/* Hands a text out: it is no longer kept. */
struct rf_session *rf_kept_take(struct kept *kept, int32_t i);
/* Keeps the session; closes as many as have to go, which may be itself. */
void rf_kept_add(struct kept *kept, struct rf_session *session, int32_t n_prompt, int is_stored);
void rf_kept_clear(struct kept *kept);

#endif
