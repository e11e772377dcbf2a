/* What a request's body asks, as OpenAI's reference has it. */
#ifndef RF_SERVE_QUESTION_H
#define RF_SERVE_QUESTION_H

#include "serve/serve.h"

/* Why a request is not answered. */
struct refusal {
    int status;       /* of HTTP */
    const char *code; /* a word for programs, or NULL */
    char text[512];
};

int refuse(struct refusal *refusal, int status, const char *code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

enum question_kind { QUESTION_CHAT, QUESTION_COMPLETION };

enum { MOST_STOPS = 16 };

struct question {
    enum question_kind kind;
    int streams, tells_usage;
    int32_t *tokens; /* of the prompt */
    size_t n_tokens;
    riffle_sampling sampling;
    riffle_generate_options generate;
    char *stops[MOST_STOPS];
    riffle_grammar *grammar; /* NULL: none */
};

/* 0, or -1 with a refusal and nothing to free. */
int question_parse(struct question *question, enum question_kind kind, const char *body,
                   size_t bytes, const struct rf_serve_options *options, struct refusal *refusal);
void question_free(struct question *question);

#endif
