#include "api/kept.h"

#include <string.h>

int32_t rf_common_tokens(const riffle_session *session, const int32_t *tokens, int32_t n)
{
    const int32_t *held;
    int32_t same = 0, n_held = riffle_session_tokens(session, &held);
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

riffle_session *rf_kept_take(struct kept *kept, int32_t i)
{
    riffle_session *session = kept->texts[i].session;
    kept->bytes -= kept->texts[i].bytes;
    kept->n--;
    memmove(&kept->texts[i], &kept->texts[i + 1], (size_t)(kept->n - i) * sizeof *kept->texts);
    return session;
}

void rf_kept_add(struct kept *kept, riffle_session *session)
{
    int32_t n_read = rf_sequence_n_read(session->sequence);
    uint64_t bytes = rf_sequence_kv_bytes(session->sequence, n_read);
    if (bytes > kept->most) {
        riffle_session_close(session);
        return;
    }
    while (kept->n == RF_MOST_KEPT || kept->bytes + bytes > kept->most)
        riffle_session_close(rf_kept_take(kept, 0));
    kept->texts[kept->n].session = session;
    kept->texts[kept->n++].bytes = bytes;
    kept->bytes += bytes;
}

void rf_kept_clear(struct kept *kept)
{
    while (kept->n) riffle_session_close(rf_kept_take(kept, kept->n - 1));
}
