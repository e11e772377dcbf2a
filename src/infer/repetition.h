/* Finds out when a text only repeats itself. Memory and time for each token are constant. */
#ifndef RF_INFER_REPETITION_H
#define RF_INFER_REPETITION_H

#include <stdint.h>

enum {
    RF_LONGEST_PERIOD = 256, /* tokens */
    /* A text that repeats p tokens is endless when it has done so for ENDLESS + 8 p tokens: one
     * token 520 times, a line of 20 tokens 33 times, a paragraph of 256 tokens ten times. What
     * people ask for (a line 20 times, a row of dashes, a table) is shorter. */
    RF_ENDLESS_TOKENS = 512,
    /* The same for words with a number that changes ("36. Pluto", "37. Pluto"): here a number is
     * one token that equals every other number. Such lists are often long, hence more. Numbers
     * alone are never endless. */
    RF_ENDLESS_COUNTING = 2048
};

enum rf_token_class { RF_CLASS_OTHER, RF_CLASS_NUMBER, RF_CLASS_WORD };

/* For each period p the length of the stretch, up to now, in which tokens equal those p tokens
 * before. A deviation halves the stretch instead of ending it: a rare one hardly counts, while
 * lines that resemble each other deviate so often that their stretches stay short. */
struct rf_stretches {
    int32_t endless;
    int32_t length[RF_LONGEST_PERIOD];     /* the stretch of period i + 1 */
    int32_t recent[2 * RF_LONGEST_PERIOD]; /* recent[newest + i]: i + 1 tokens before the next */
    int32_t newest;
};

struct rf_repetition {
    struct rf_stretches exact, counting;
    enum rf_token_class last;
    int32_t since_word; /* tokens of `counting` */
};

void rf_repetition_begin(struct rf_repetition *repetition);
/* Takes the text's next token. Returns the period in tokens once the text is endless, else 0. */
int32_t rf_repetition_push(struct rf_repetition *repetition, int32_t token,
                           enum rf_token_class class);

#endif
