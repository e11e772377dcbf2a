/* Counts, for each period, how long the newest tokens equal the tokens one period before, with a
 * ring that is its own double buffer. The generation loop pushes each committed token and ends
 * an endless text. */
#include "infer/repetition.h"

#include <string.h>

enum { N = RF_LONGEST_PERIOD, NO_TOKEN = -1, NUMBER = -2 };

static void stretches_begin(struct rf_stretches *stretches, int32_t endless)
{
    *stretches = (struct rf_stretches){.endless = endless, .newest = N};
    for (int32_t i = 0; i < 2 * N; i++) stretches->recent[i] = NO_TOKEN;
}

void rf_repetition_begin(struct rf_repetition *repetition)
{
    stretches_begin(&repetition->exact, RF_ENDLESS_TOKENS);
    stretches_begin(&repetition->counting, RF_ENDLESS_COUNTING);
    repetition->last = RF_CLASS_OTHER;
    repetition->since_word = 0;
}

/* Puts a token before the others. At the front of the buffer, the newer half moves to the back. */
static void remember(struct rf_stretches *stretches, int32_t token)
{
    if (stretches->newest == 0) {
        memcpy(stretches->recent + N, stretches->recent, N * sizeof *stretches->recent);
        stretches->newest = N;
    }
    stretches->recent[--stretches->newest] = token;
}

static int32_t stretches_push(struct rf_stretches *stretches, int32_t token)
{
    const int32_t *before = stretches->recent + stretches->newest;
    int32_t *length = stretches->length, endless = 0;
    for (int32_t i = 0; i < N; i++) {
        length[i] = before[i] == token ? length[i] + 1 : length[i] / 2;
        /* The first period is not part of the stretch, hence 7. */
        endless |= length[i] >= stretches->endless + 7 * (i + 1);
    }
    remember(stretches, token);
    for (int32_t i = 0; endless && i < N; i++)
        if (length[i] >= stretches->endless + 7 * (i + 1)) return i + 1;
    return 0;
}

int32_t rf_repetition_push(struct rf_repetition *repetition, int32_t token,
                           enum rf_token_class class)
{
    int same_number = class == RF_CLASS_NUMBER && repetition->last == RF_CLASS_NUMBER;
    int32_t period = stretches_push(&repetition->exact, token), counted = 0;
    repetition->last = class;
    if (!same_number) {
        repetition->since_word = class == RF_CLASS_WORD ? 0 : repetition->since_word + 1;
        counted = stretches_push(&repetition->counting, class == RF_CLASS_NUMBER ? NUMBER : token);
    }
    if (!period && repetition->since_word < counted) period = counted;
    return period;
}
