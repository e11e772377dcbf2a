/* The head of a request of HTTP/1.1 (RFC 9112), and the way its body is framed. It works on bytes
 * alone; network.c has the sockets. */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include <stddef.h>
#include <stdint.h>

enum { HTTP_MOST_HEAD = 32 << 10, HTTP_MOST_FIELDS = 128 };

/* A field of the head. Both texts end with a zero. */
struct http_field {
    const char *name, *value;
};

struct http_head {
    const char *method;
    char *path;       /* decoded, without the query */
    const char *host; /* authority of the target, or of Host; NULL: none, HTTP/1.0 only */
    int minor;        /* HTTP/1.minor */
    int is_chunked, expects_continue, keeps_open;
    uint64_t length; /* bytes of a body that is not chunked */
    struct http_field fields[HTTP_MOST_FIELDS];
    size_t n_fields;
};

/* The reason why a request is refused. */
struct http_fault {
    int status; /* 0: none */
    const char *sentence;
};

/* Bytes of the head that `data` begins with, its empty line included; 0: it has not ended. */
size_t http_head_find(const char *data, size_t bytes);
/* Reads a whole head. The bytes are changed, and `head` points into them. Returns 0, or -1 with a
 * fault. */
int http_head_parse(struct http_head *head, char *data, size_t bytes, struct http_fault *fault);

/* The value of a field, by its name in any case; NULL: there is none. */
const char *http_head_field(const struct http_head *head, const char *name);
/* 1 if the texts are the same in any case. */
int http_same(const char *a, const char *b);
/* 1 if a list of words with commas has the word, in any case. */
int http_list_has(const char *list, const char *word);

/* The decoder of a chunked body. Zero in the beginning. */
struct http_chunks {
    int state;
    uint64_t left;  /* bytes of the chunk */
    size_t n_line;  /* bytes of a line of sizes or trailers */
    size_t n_lines; /* bytes of all trailers */
};

/* Decodes in place: the first *n of `data` become *decoded bytes of the body at its beginning, and
 * *n the bytes that were read. Returns 1 at the end of the body, 0 before it, -1 with a fault. */
int http_chunks_read(struct http_chunks *chunks, char *data, size_t *n, size_t *decoded,
                     struct http_fault *fault);

#endif
