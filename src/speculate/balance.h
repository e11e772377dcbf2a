/* The balance of a batch's drafts: what they have really gained, measured against passes without
 * them. The paces decide by costs, and where a row costs as much as it brings, small errors of
 * costs make many texts lose together; the balance limits that whatever its reason. It computes
 * only; it reads no clock. */
#ifndef RF_SPECULATE_BALANCE_H
#define RF_SPECULATE_BALANCE_H

#include <stdint.h>

enum { RF_BALANCE_TEXTS = 32 /* rounds of a pass, at most */ };

/* All zero to begin with. */
struct rf_balance {
    struct rf_bare_passes {
        double seconds;      /* of a pass over so many rounds without drafts, lately; 0: unknown */
        uint8_t seen, since; /* such passes, up to a limit, and other ones since the last */
    } bare[RF_BALANCE_TEXTS + 1];
    double won; /* tokens that drafts may still lose */
    int is_begun;
};

/* 1 if the next pass, of so many rounds, may have drafts. Some passes have none, as what drafts are
 * worth follows from what passes without them take, and more do while drafts lose. */
int rf_balance_allows(const struct rf_balance *balance, int32_t rounds);
/* The rounds of a pass have yielded so many tokens in so many seconds, drafting included. is_bare:
 * it had no drafts. */
void rf_balance_pass(struct rf_balance *balance, int32_t rounds, int is_bare, int32_t tokens,
                     double seconds);

#endif
