/* POST /v1/rerank: how well documents answer a query, in the shape of Jina's and Cohere's
 * interfaces. A reranker gives a score for each pair of query and document. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "requests/accepted.h"
#include "requests/members.h"
#include "requests/prompts.h"
#include "serve/endpoint.h"

/* ---- the question ---- */

/* The text of a document: a string, or an object with one. NULL: neither. */
static const json_t *text_of(const json_t *document)
{
    const json_t *text = json_is_object(document) ? json_object_get(document, "text") : document;
    return json_is_string(text) ? text : NULL;
}

static int take_pair(struct prompt *prompt, const riffle_model *model, const json_t *query,
                     const json_t *document, struct refusal *refusal)
{
    size_t n_query = json_string_length(query), n_document = json_string_length(document),
           most = (size_t)prompt->most;
    if (most) { /* what is cut off is not tokenised; a token has 64 bytes at most, about */
        size_t bytes = most * 64;
        if (n_query > bytes)
            return refuse(refusal, 400, "context_length_exceeded",
                          "the query has more than %zu tokens, n_ctx is %zu", most, most);
        if (n_document > bytes) n_document = bytes;
    }
    for (size_t room = n_query + n_document + 4;;) {
        int32_t *tokens = realloc(prompt->tokens, room * sizeof *tokens);
        if (!tokens) return refuse_memory(refusal);
        prompt->tokens = tokens;
        int64_t n =
            riffle_pair_tokenize(model, json_string_value(query), n_query,
                                 json_string_value(document), n_document, most, tokens, room);
        if (n < 0) return refuse_last(refusal, n);
        prompt->n = (size_t)n;
        if (prompt->n <= room) return 0;
        room = prompt->n;
    }
}

/* The members that the reply needs. */
static int take_reply(const json_t *body, struct question *question, struct refusal *refusal)
{
    const json_t *top_n = member_get(body, "top_n"), *all = member_get(body, "return_documents");
    json_t *documents = json_object_get(body, "documents");
    json_int_t most = top_n ? json_integer_value(top_n) : (json_int_t)json_array_size(documents);
    if (top_n && most < 1) return refuse_value(refusal, "top_n", "a number from 1 on");
    if (all && !json_is_boolean(all))
        return refuse_value(refusal, "return_documents", "true or false");
    question->told = json_pack("{s:I}", "top_n", most);
    if (!question->told) return refuse_memory(refusal);
    if (json_is_true(all) && json_object_set(question->told, "documents", documents))
        return refuse_memory(refusal);
    return 0;
}

static int rerank_take(const json_t *body, const struct answerer *of, struct question *question,
                       struct refusal *refusal)
{
    const json_t *query = member_get(body, "query"), *documents = member_get(body, "documents");
    size_t n = json_array_size(documents);
    if (accepted_check(body, ACCEPTED_RERANK, refusal)) return -1;
    if (riffle_model_get_kind(of->model) != RIFFLE_KIND_RERANKER)
        return refuse(refusal, 400, NULL, "%s is no reranker: it gives no scores of documents",
                      of->name);
    if (!json_is_string(query)) return refuse_value(refusal, "query", "a text");
    if (n < 1 || n > MOST_PROMPTS)
        return refuse_value(refusal, "documents", "an array of 1 to 256 texts");
    question->n = 1;
    question->wants_vector = 1;
    question->pooling = RIFFLE_POOL_MODEL;
    if (take_reply(body, question, refusal) || prompts_make(question, n, refusal)) return -1;
    for (size_t i = 0; i < n; i++) {
        const json_t *text = text_of(json_array_get(documents, i));
        if (!text) return refuse_value(refusal, "documents", "an array of 1 to 256 texts");
        if (take_pair(&question->prompts[i], of->model, query, text, refusal)) return -1;
    }
    return 0;
}

/* ---- the reply ---- */

/* The greater score first, of equal ones the earlier document. */
static int by_score(const void *a, const void *b)
{
    const struct reply_part *const *x = a, *const *y = b;
    float of_x = (*x)->vector[0], of_y = (*y)->vector[0];
    if (of_x != of_y) return of_x > of_y ? -1 : 1;
    return (*x)->index < (*y)->index ? -1 : 1;
}

static json_t *result_of(const struct reply_part *part, const json_t *documents)
{
    double score = 1 / (1 + exp(-(double)part->vector[0]));
    json_t *result = json_pack("{s:i, s:f}", "index", (int)part->index, "relevance_score", score);
    const json_t *document = documents ? json_array_get(documents, (size_t)part->index) : NULL;
    if (result && document)
        json_object_set_new(result, "document",
                            json_pack("{s:O}", "text", (json_t *)text_of(document)));
    return result;
}

static char *rerank_reply(const struct reply *reply, const struct reply_part *parts,
                          int32_t n_parts, const struct reply_usage *usage)
{
    struct rf_bytes bytes = {0};
    struct rf_error error;
    struct rf_writer out = reply_writer(&bytes, &error);
    const json_t *told = reply->question->told, *documents = json_object_get(told, "documents");
    json_int_t most = json_integer_value(json_object_get(told, "top_n"));
    const struct reply_part *order[MOST_PROMPTS];
    json_t *results = json_array();
    for (int32_t i = 0; i < n_parts; i++) order[i] = &parts[i];
    qsort(order, (size_t)n_parts, sizeof *order, by_score);
    for (int32_t i = 0; i < n_parts && i < most; i++)
        json_array_append_new(results, result_of(order[i], documents));
    reply_write_json(&out, json_pack("{s:s, s:s, s:o, s:{s:I, s:I}}", "object", "list", "model",
                                     reply->model, "results", results, "usage", "prompt_tokens",
                                     (json_int_t)usage->prompt, "total_tokens",
                                     (json_int_t)usage->prompt));
    return reply_take(&bytes, &out);
}

static const struct reply_form rerank_form = {.whole = rerank_reply};

const struct endpoint endpoint_rerank = {"POST", "/v1/rerank", .most_body = ENDPOINT_BODY,
                                         .take = rerank_take, .form = &rerank_form};
