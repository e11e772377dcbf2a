// The project's only C++: libsentencepiece has no C interface. Nothing is thrown out of here.
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <sentencepiece_processor.h>

extern "C" {
#include "text/spm.h"
#include "text/tokens.h"
}

using sentencepiece::SentencePieceProcessor;

struct rf_spm {
    const struct rf_allocator *allocator;
    SentencePieceProcessor plain;
    std::unique_ptr<SentencePieceProcessor> prefixed; // null: a space in front does the same
};

namespace
{

absl::string_view view(const struct rf_bytes *bytes)
{
    return absl::string_view(bytes->data, bytes->count);
}

// The sentence for an exception that is being handled.
int fail_exception(struct rf_error *error, const char *what)
{
    try {
        throw;
    } catch (const std::bad_alloc &) {
        return rf_fail(error, RF_ERR_MEMORY, "%s: no memory for sentencepiece", what);
    } catch (const std::exception &exception) {
        return rf_fail(error, RF_ERR_FORMAT, "%s: sentencepiece failed: %s", what,
                       exception.what());
    } catch (...) {
        return rf_fail(error, RF_ERR_FORMAT, "%s: sentencepiece failed", what);
    }
}

} // namespace

extern "C" int rf_spm_new(struct rf_spm **out, const struct rf_bytes *proto,
                          const struct rf_bytes *prefixed, const char *path,
                          const struct rf_allocator *allocator, struct rf_error *error)
{
    *out = nullptr;
    void *memory = rf_malloc(allocator, 1, sizeof(rf_spm), "tokenizer", error);
    if (!memory) return RF_ERR_MEMORY;
    struct rf_spm *spm = nullptr;
    int code = 0;
    try {
        spm = new (memory) rf_spm{};
        spm->allocator = allocator;
        sentencepiece::util::Status status = spm->plain.LoadFromSerializedProto(view(proto));
        if (status.ok() && prefixed) {
            spm->prefixed.reset(new SentencePieceProcessor);
            status = spm->prefixed->LoadFromSerializedProto(view(prefixed));
        }
        if (!status.ok())
            code = rf_fail(error, RF_ERR_FORMAT, "%s: sentencepiece refuses the vocabulary: %s",
                           path, status.ToString().c_str());
    } catch (...) {
        code = fail_exception(error, path);
    }
    if (code == 0) {
        *out = spm;
        return 0;
    }
    if (spm) spm->~rf_spm();
    rf_free(allocator, memory);
    return code;
}

extern "C" void rf_spm_free(struct rf_spm *spm)
{
    if (!spm) return;
    const struct rf_allocator *allocator = spm->allocator;
    spm->~rf_spm();
    rf_free(allocator, spm);
}

extern "C" void rf_spm_encode(const struct rf_spm *spm, const char *text, size_t n, int prefix,
                              struct rf_token_writer *out)
{
    if (out->code) return;
    try {
        std::vector<int> ids;
        bool spaced = prefix && !spm->prefixed;
        const SentencePieceProcessor &processor =
            prefix && spm->prefixed ? *spm->prefixed : spm->plain;
        sentencepiece::util::Status status =
            spaced ? processor.Encode(" " + std::string(text, n), &ids)
                   : processor.Encode(absl::string_view(text, n), &ids);
        if (!status.ok()) {
            out->code =
                rf_fail(out->error, RF_ERR_FORMAT, "sentencepiece cannot encode the text: %s",
                        status.ToString().c_str());
            return;
        }
        static_assert(sizeof(int) == sizeof(int32_t), "sentencepiece's ids are 32 bits wide");
        rf_tokens_append(out, reinterpret_cast<const int32_t *>(ids.data()), ids.size());
    } catch (...) {
        out->code = fail_exception(out->error, "encoding a text");
    }
}
