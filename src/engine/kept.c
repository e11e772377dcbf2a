/* Finds the kept text that a prompt begins with, and closes texts when they take too many bytes
 * (kept.h). batch.c calls it. */
#include "engine/kept.h"

#include <math.h>
#include <string.h>

int32_t rf_common_tokens(const struct rf_session *session, const int32_t *tokens, int32_t n)
{
    const int32_t *held = rf_sequence_tokens(session->sequence);
    int32_t same = 0, n_held = rf_sequence_n_committed(session->sequence);
    if (n > n_held) n = n_held;
    while (same < n && held[same] == tokens[same]) same++;
    return same;
}

int32_t rf_kept_find(const struct kept *kept, const int32_t *tokens, int32_t n, int32_t *common)
{
    int32_t found = -1;
    *common = 0;
    for (int32_t i = 0; i < kept->n; i++) {
        int32_t same = rf_common_tokens(kept->texts[i].session, tokens, n);
        if (same <= *common) continue;
        *common = same;
        found = i;
    }
    return found;
}

void rf_kept_use(struct kept *kept, int32_t i)
{
    kept->texts[i].clock = kept->clock;
}

static uint64_t text_bytes(const struct kept_text *text)
{
    const struct rf_head_level *head = rf_levels_head_level(&text->session->levels);
    return rf_sequence_kv_held(text->session->sequence) + (head ? rf_head_level_held(head) : 0);
}

uint64_t rf_kept_bytes(const struct kept *kept)
{
    uint64_t bytes = 0;
    for (int32_t i = 0; i < kept->n; i++) bytes += text_bytes(&kept->texts[i]);
    return bytes;
}

struct rf_session *rf_kept_take(struct kept *kept, int32_t i)
{
    struct rf_session *session = kept->texts[i].session;
    kept->n--;
    memmove(&kept->texts[i], &kept->texts[i + 1], (size_t)(kept->n - i) * sizeof *kept->texts);
    return session;
}

/* Tokens that would have to be read again, because no other text begins with them. */
static int32_t own_tokens(const struct kept *kept, int32_t i)
{
    struct rf_sequence *sequence = kept->texts[i].session->sequence;
    int32_t n_read = rf_sequence_n_read(sequence), shared = 0;
    for (int32_t k = 0; k < kept->n; k++) {
        int32_t same =
            k == i ? 0
                   : rf_common_tokens(kept->texts[k].session, rf_sequence_tokens(sequence), n_read);
        if (same > shared) shared = same;
    }
    return n_read - shared;
}

static void close_least(struct kept *kept)
{
    double least = INFINITY;
    int32_t found = 0;
    for (int32_t i = 0; i < kept->n; i++) {
        uint64_t bytes = text_bytes(&kept->texts[i]);
        double worth = kept->texts[i].clock + own_tokens(kept, i) / ((double)bytes + 1.0);
        if (worth >= least) continue;
        least = worth;
        found = i;
    }
    kept->clock = least;
    rf_session_close(rf_kept_take(kept, found));
}

void rf_kept_add(struct kept *kept, struct rf_session *session, int32_t n_prompt, int is_stored)
{
    kept->texts[kept->n++] = (struct kept_text){session, n_prompt, kept->clock, is_stored};
    while (kept->n > RF_MOST_KEPT || rf_kept_bytes(kept) > kept->most) close_least(kept);
}

void rf_kept_clear(struct kept *kept)
{
    while (kept->n) rf_session_close(rf_kept_take(kept, kept->n - 1));
}
