/* The arithmetic of the tempo (tempo.h): medians of plain passes, and a moving mean of the seconds
 * of a slice's row. */
#include "engine/tempo.h"

#include <string.h>

#include "base/median.h"
#include "infer/backend.h"

enum {
    PLAIN_FIRST = 3, /* plain passes before slices, once rounds have begun */
    PLAIN_EVERY = 16 /* then one after so many with slices */
};
static const double GAIN = 0.3; /* share of a new measurement of slices */

static void learn_row(struct tempo *tempo, double seconds)
{
    if (seconds > 0.0)
        tempo->row_seconds +=
            (tempo->row_seconds > 0.0 ? GAIN : 1.0) * (seconds - tempo->row_seconds);
}

void rf_tempo_pass(struct tempo *tempo, int32_t rounds, int32_t slices, double expected,
                   double seconds)
{
    if (slices > 0) {
        tempo->since_plain += rounds > 0;
        if (rounds == 0) tempo->plain = 0; /* the machine may be another one by then */
        learn_row(tempo, (seconds - rf_tempo_seconds(tempo, expected)) / slices);
        return;
    }
    tempo->plain++;
    tempo->since_plain = 0;
    if (expected > 0.0) tempo->ratios[tempo->n_ratios++ % RF_TEMPO_RECENT] = seconds / expected;
}

double rf_tempo_seconds(const struct tempo *tempo, double expected)
{
    double ratios[RF_TEMPO_RECENT];
    size_t n = tempo->n_ratios < RF_TEMPO_RECENT ? tempo->n_ratios : RF_TEMPO_RECENT;
    memcpy(ratios, tempo->ratios, sizeof ratios);
    return n ? expected * rf_median(ratios, n) : expected;
}

int32_t rf_tempo_slice(const struct tempo *tempo, double expected, double most)
{
    if (tempo->plain < PLAIN_FIRST || tempo->since_plain >= PLAIN_EVERY) return 0;
    if (!(tempo->row_seconds > 0.0)) return RF_TEMPO_LEAST;
    double rows = rf_tempo_seconds(tempo, most - expected) / tempo->row_seconds;
    return rows < RF_TEMPO_LEAST ? RF_TEMPO_LEAST
           : rows > RF_MAX_ROWS  ? RF_MAX_ROWS
                                 : (int32_t)rows;
}
