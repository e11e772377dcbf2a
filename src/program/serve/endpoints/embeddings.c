/* POST /v1/embeddings: the vectors of texts. Nothing is generated or streamed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "requests/accepted.h"
#include "requests/members.h"
#include "requests/prompts.h"
#include "serve/endpoint.h"

/* ---- the question ---- */

static int embedding_take(const json_t *body, const struct answerer *of, struct question *question,
                          struct refusal *refusal)
{
    const char *format = json_string_value(member_get(body, "encoding_format")),
               *pooling = json_string_value(member_get(body, "pooling"));
    if (accepted_check(body, ACCEPTED_EMBEDDING, refusal)) return -1;
    if (member_get(body, "encoding_format") &&
        !(format && (strcmp(format, "float") == 0 || strcmp(format, "base64") == 0)))
        return refuse_value(refusal, "encoding_format", "float or base64");
    if (member_get(body, "pooling") &&
        !(pooling && (strcmp(pooling, "mean") == 0 || strcmp(pooling, "last") == 0 ||
                      strcmp(pooling, "cls") == 0)))
        return refuse_value(refusal, "pooling", "mean, last or cls");
    if (riffle_model_get_kind(of->model) == RIFFLE_KIND_RERANKER)
        return refuse(refusal, 400, NULL,
                      "%s is a reranker, which gives scores of pairs of texts: /v1/rerank asks it",
                      of->name);
    question->n = 1;
    question->wants_vector = 1;
    question->wants_base64 = format && strcmp(format, "base64") == 0;
    question->pooling = !pooling                       ? RIFFLE_POOL_MODEL
                        : strcmp(pooling, "last") == 0 ? RIFFLE_POOL_LAST
                        : strcmp(pooling, "cls") == 0  ? RIFFLE_POOL_CLS
                                                       : RIFFLE_POOL_MEAN;
    return prompts_take(body, "input", of->model, question, refusal);
}

/* ---- the reply ---- */

/* The vector's bytes, of which the least significant comes first, in base64 (RFC 4648). */
static json_t *base64_of(const float *vector, int32_t width)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = (size_t)width * sizeof *vector, out = 0;
    const unsigned char *bytes = (const unsigned char *)vector;
    char *text = malloc((n + 2) / 3 * 4 + 1);
    if (!text) return NULL;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16;
        if (i + 1 < n) three |= (uint32_t)bytes[i + 1] << 8;
        if (i + 2 < n) three |= bytes[i + 2];
        for (size_t k = 0; k < 4; k++)
            text[out++] = k > n - i ? '=' : digits[three >> (18 - 6 * k) & 63];
    }
    json_t *value = json_stringn(text, out);
    free(text);
    return value;
}

static void write_vector(struct rf_writer *out, const struct reply_part *part, int is_base64)
{
    if (is_base64) {
        reply_write_json(out, base64_of(part->vector, part->width));
        return;
    }
    reply_write_vector(out, part->vector, part->width);
}

static char *embedding_reply(const struct reply *reply, const struct reply_part *parts,
                             int32_t n_parts, const struct reply_usage *usage)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    char text[96];
    rf_write_text(&out, "{\"object\":\"list\",\"model\":");
    reply_write_json(&out, json_string(reply->model));
    rf_write_text(&out, ",\"data\":[");
    for (int32_t i = 0; i < n_parts; i++) {
        snprintf(text, sizeof text,
                 "%s{\"object\":\"embedding\",\"index\":%d,\"embedding\":", i ? "," : "", i);
        rf_write_text(&out, text);
        write_vector(&out, &parts[i], reply->question->wants_base64);
        rf_write_text(&out, "}");
    }
    snprintf(text, sizeof text, "],\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld}}",
             (long long)usage->prompt, (long long)usage->prompt);
    rf_write_text(&out, text);
    return reply_take(&bytes, &out);
}

static const struct reply_form embedding_form = {.whole = embedding_reply};

const struct endpoint endpoint_embeddings = {"POST", "/v1/embeddings", .most_body = ENDPOINT_BODY,
                                             .take = embedding_take, .form = &embedding_form};
