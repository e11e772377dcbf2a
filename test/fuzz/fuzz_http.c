/* Requests of HTTP: a head that is read has a path and one way of framing, and a chunked body is
 * never longer than its bytes. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "http/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct http_head head;
    struct http_fault fault = {0};
    struct http_chunks chunks = {0};
    char *copy = malloc(bytes + 1);
    if (!copy) return 0;
    if (bytes) memcpy(copy, data, bytes);
    size_t n = http_head_find(copy, bytes), left = bytes - n, decoded = 0;
    if (n > bytes) abort();
    if (n && http_head_parse(&head, copy, n, &fault) == 0) {
        if (!head.path || (head.minor && !head.host) || (head.is_chunked && head.length)) abort();
        if (strlen(head.path) > n) abort();
    } else if (n && fault.status < 400) {
        abort();
    }
    if (http_chunks_read(&chunks, copy + n, &left, &decoded, &fault) >= 0 &&
        (left > bytes - n || decoded > left))
        abort();
    free(copy);
    return 0;
}
