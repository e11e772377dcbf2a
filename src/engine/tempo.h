/* The tempo of a batch: how much longer than usual a pass may take for the sake of prompts that are
 * read beside answers. It computes only; it reads no clock. */
#ifndef RF_ENGINE_TEMPO_H
#define RF_ENGINE_TEMPO_H

#include <stdint.h>

enum {
    RF_TEMPO_RECENT = 3,
    RF_TEMPO_LEAST = 4 /* rows of a slice */
};

/* All zero to begin with. */
struct tempo {
    double ratios[RF_TEMPO_RECENT]; /* measured over expected seconds of the last plain passes */
    uint32_t n_ratios;              /* so far */
    uint32_t plain;                 /* passes of rounds alone since the last without rounds */
    uint32_t since_plain;           /* passes with slices beside rounds since the last of them */
    double row_seconds;             /* seconds of a slice's row; 0: unknown */
};

/* A pass took `seconds`. `expected`: what costs let its rounds take without slices; 0: there were
 * no rounds, or their costs are unknown. slices: rows of prompts in it. */
void rf_tempo_pass(struct tempo *tempo, int32_t rounds, int32_t slices, double expected,
                   double seconds);
/* Seconds that rounds will take which are expected to take so long. Costs are as old as the last
 * passes that could correct them; the last plain passes say what the machine does now. */
double rf_tempo_seconds(const struct tempo *tempo, double expected);
/* Rows of prompts beside rounds of so many expected seconds that make the pass take as long as
 * another one of `most`; 0: this pass should be a plain one, so that the others can be compared
 * with it. */
int32_t rf_tempo_slice(const struct tempo *tempo, double expected, double most);

#endif
