/* Calls that make files: casts of models, and corpora. */
#include "api/handles.h"
#include "engine/corpus.h"
#include "engine/quantize.h"

RF_API_OPTIONS(riffle_quantize_options, .threads = 0)
RF_API_OPTIONS(riffle_corpus_options, .keep = 1.0f)

int riffle_quantize(const char *in, const char *out, const char *type,
                    const riffle_quantize_options *options)
{
    riffle_quantize_options chosen;
    struct rf_allocator allocator;
    struct rf_error error;
    if (!in || !out || !type)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is NULL", !in ? "in" : !out ? "out" : "type");
    if (!in[0] || !out[0])
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s is an empty text", !in[0] ? "in" : "out");
    int code = rf_api_take_riffle_quantize_options(&chosen, options);
    if (!code) code = rf_api_allocator(&allocator, chosen.allocator);
    if (code) return code;
    code = rf_quantize_file(in, out, type, &chosen, &allocator, &error);
    return code ? rf_api_fail(&error) : 0;
}

int riffle_corpus_build(riffle_model *model, const char *path, const riffle_text *texts,
                        size_t n_texts, const riffle_corpus_options *options,
                        riffle_corpus_info *info, size_t info_size)
{
    riffle_corpus_options chosen;
    riffle_corpus_info found;
    struct rf_error error;
    if (!model || !path || !path[0] || !texts || !n_texts)
        return rf_api_error(RIFFLE_ERR_ARGUMENT, "%s",
                            !model     ? "model is NULL"
                            : !path    ? "path is NULL"
                            : !path[0] ? "path is an empty text"
                                       : "there are no texts");
    int code = rf_api_take_riffle_corpus_options(&chosen, options);
    if (!code && chosen.keep < 1.0f) code = rf_api_check_process(model); /* a session will score */
    if (code) return code;
    if (rf_corpus_build(model->engine, path, texts, n_texts, &chosen, &found, &error))
        return rf_api_fail(&error);
    if (info) rf_api_give(info, info_size, &found, sizeof found);
    return 0;
}
