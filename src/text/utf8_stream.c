/* Turns a stream of bytes into well-formed UTF-8: holds back a character's first bytes until the
 * rest arrives, and replaces bytes that are none. Generation calls it for each token's bytes. */
#include "text/utf8_stream.h"

#include <assert.h>
#include <string.h>

#include "base/utf8.h"

static size_t put_replacement(char *out)
{
    memcpy(out, "\xef\xbf\xbd", 3);
    return 3;
}

size_t rf_utf8_stream_push(struct rf_utf8_stream *stream, const char *bytes, size_t n, char *out)
{
    size_t written = 0;
    for (size_t i = 0; i < n; i++) {
        assert(stream->n_pending < sizeof stream->pending);
        stream->pending[stream->n_pending++] = bytes[i];
        while (stream->n_pending) {
            int partial;
            size_t broken;
            size_t length = rf_utf8_examine(stream->pending, stream->n_pending, &partial, &broken);
            if (partial) break;
            if (length) {
                memcpy(out + written, stream->pending, length);
                written += length;
            } else {
                written += put_replacement(out + written);
                length = broken;
            }
            stream->n_pending -= length;
            memmove(stream->pending, stream->pending + length, stream->n_pending);
        }
    }
    return written;
}

size_t rf_utf8_stream_flush(struct rf_utf8_stream *stream, char *out)
{
    size_t written = stream->n_pending ? put_replacement(out) : 0;
    stream->n_pending = 0;
    return written;
}
