/* Saving a session and going on from the file, also when the file is not what was saved. */
#define _DEFAULT_SOURCE
#include <unistd.h>

#include "api/helpers.h"
#include "model/open.h"
#include "platform/file.h"
#include "platform/memory.h"

#define STATE_NAME "riffle_test_state"

/* The state file's bytes; the caller frees them. */
static unsigned char *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    unsigned char *data = malloc(*bytes + 1);
    if (data && fread(data, 1, *bytes, file) != *bytes) {
        free(data);
        data = NULL;
    }
    fclose(file);
    return data;
}

static void write_file(const char *path, const unsigned char *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(data, 1, bytes, file) == bytes);
    if (file) fclose(file);
}

/* A load that failed left the session where it was: its next tokens are `wanted`. */
static void check_untouched(riffle_session *session, const struct tokens *held,
                            const struct tokens *wanted)
{
    struct tokens now = session_tokens(session);
    CHECK(same_tokens(&now, held));
    struct tokens next = generate(session, wanted->count);
    CHECK(same_tokens(&next, wanted));
    CHECK_OK(riffle_rewind(session, held->count));
}

/* Of the header. */
enum { N_TOKENS_AT = 32, KV_BYTES_AT = 40, HEADER_BYTES = 56 };

static int32_t held_tokens(const unsigned char *data)
{
    int32_t n;
    memcpy(&n, data + N_TOKENS_AT, sizeof n);
    return n;
}

static void damaged_files_are_refused(riffle_model *model, const char *path)
{
    size_t bytes = 0;
    unsigned char *data = read_file(path, &bytes);
    CHECK(data != NULL && bytes > 64);
    if (!data) return;
    riffle_session *session = open_session(model, 128, 1);
    struct tokens prompt = tokenize(model, "The dog was happy.");
    CHECK_OK(riffle_prefill(session, prompt.ids, (size_t)prompt.count));
    struct tokens next = generate(session, 4);
    CHECK_OK(riffle_rewind(session, prompt.count));

    for (size_t n = 0; n < bytes; n = n < 256 ? n + 1 : n + 1 + bytes / 16) {
        write_file(path, data, n);
        CHECK_MSG(riffle_state_load(session, path) < 0, "a file cut at byte %zu is loaded", n);
        CHECK(strstr(riffle_last_error(), STATE_NAME) != NULL);
    }
    write_file(path, data, bytes - 1);
    CHECK(riffle_state_load(session, path) < 0);
    check_untouched(session, &prompt, &next);

    /* A flipped bit is damage, not another model, also in the header's fingerprint. */
    enum { MAGIC_AND_VERSION = 12 };
    for (size_t i = 0; i < bytes; i = i < 256 ? i + 1 : i + bytes / 16) {
        data[i] ^= 0x80;
        write_file(path, data, bytes);
        data[i] ^= 0x80;
        CHECK_MSG(riffle_state_load(session, path) < 0, "a flipped bit in byte %zu is loaded", i);
        CHECK_MSG(i < MAGIC_AND_VERSION || strstr(riffle_last_error(), "damaged") != NULL,
                  "byte %zu: %s", i, riffle_last_error());
    }
    check_untouched(session, &prompt, &next);

    /* A hole of a size that no memory has is not copied. */
    write_file(path, data, bytes);
    CHECK_INT(truncate(path, (off_t)1 << 40), 0);
    CHECK_FAILS(riffle_state_load(session, path), RIFFLE_ERR_FORMAT);
    uint64_t kv_bytes =
        ((uint64_t)1 << 40) - HEADER_BYTES - (uint64_t)held_tokens(data) * sizeof(int32_t);
    memcpy(data + KV_BYTES_AT, &kv_bytes, sizeof kv_bytes);
    write_file(path, data, bytes);
    CHECK_INT(truncate(path, (off_t)1 << 40), 0);
    CHECK_FAILS(riffle_state_load(session, path), RIFFLE_ERR_FORMAT);
    check_untouched(session, &prompt, &next);
    riffle_session_close(session);
    free(data);
}

/* The same file computed in another form or precision has read other keys and values. */
static void a_form_keeps_its_states(const char *path, int first, const char *sentence)
{
    static const char *const forms[] = {"bf16", "stored", "stored"}, *const activations[] = {
                                                                         "auto", "8", "16"};
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    for (int i = 0; i < 3; i++) {
        options.weights = forms[(first + i) % 3];
        options.activations = activations[(first + i) % 3];
        riffle_model *model;
        if (CHECK_OK(riffle_model_open(&model, QUANTISED_MODEL, &options)) < 0) return;
        riffle_session *session = open_session(model, 32, 1);
        if (i == 0) {
            CHECK_OK(riffle_prefill(session, (const int32_t[]){1, 403, 407}, 3));
            CHECK_OK(riffle_state_save(session, path));
            CHECK_OK(riffle_state_load(session, path));
        } else {
            CHECK_FAILS(riffle_state_load(session, path), RIFFLE_ERR_ARGUMENT);
            CHECK(strstr(riffle_last_error(), i == 1 ? sentence : "session") != NULL);
        }
        riffle_session_close(session);
        riffle_model_close(model);
    }
}

/* One changed weight makes another model: of a norm, and of a matrix in its middle layers. */
static void a_changed_model_is_another(riffle_session *session, const char *path)
{
    static const char *const tensors[] = {"blk.2.attn_norm.weight", "blk.3.ffn_up.weight"};
    char changed[4200];
    snprintf(changed, sizeof changed, "%s.gguf", path);
    CHECK_OK(riffle_state_save(session, path));
    for (int i = 0; i < 2; i++) {
        struct rf_source *source;
        struct rf_error error;
        char *data = NULL;
        size_t bytes;
        CHECK_INT(rf_source_open(&source, TINY_MODEL, NULL, &rf_system_allocator, &error), 0);
        CHECK_INT(rf_slurp(TINY_MODEL, 64 << 20, &data, &bytes, &error), 0);
        const struct rf_tensor *tensor = rf_source_tensor(source, tensors[i]),
                               *last = &source->tensors[0];
        for (int32_t t = 0; t < source->n_tensors; t++)
            if (source->tensors[t].data > last->data) last = &source->tensors[t];
        /* The last tensor ends the file. */
        size_t from_end = (size_t)((const char *)last->data - (const char *)tensor->data);
        data[bytes - last->bytes - from_end] ^= 1;
        struct rf_span span = {data, bytes};
        CHECK_INT(rf_write_file(changed, &span, 1, 0, &error), 0);
        riffle_model *model;
        if (CHECK_OK(riffle_model_open(&model, changed, NULL)) >= 0) {
            riffle_session *other = open_session(model, 128, 1);
            CHECK_FAILS(riffle_state_load(other, path), RIFFLE_ERR_ARGUMENT);
            CHECK(strstr(riffle_last_error(), "another model") != NULL);
            riffle_session_close(other);
            riffle_model_close(model);
        }
        rf_source_close(source);
        free(data);
        remove(changed);
    }
}

int main(void)
{
    char path[4096];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/" STATE_NAME ".%p", folder ? folder : "/tmp", (void *)path);
    riffle_model *model = open_tiny_model();
    riffle_session *session = open_session(model, 128, 2);
    struct tokens prompt = tokenize(model, "Once upon a time, there was a big tree.");
    CHECK_OK(riffle_prefill(session, prompt.ids, (size_t)prompt.count));
    generate(session, 7);
    CHECK_OK(riffle_state_save(session, path));
    struct tokens held = session_tokens(session), next = generate(session, 20);

    /* Into a session of another size, and into one that was elsewhere. */
    riffle_session *other = open_session(model, 96, 1);
    CHECK_OK(riffle_state_load(other, path));
    struct tokens other_held = session_tokens(other), other_next = generate(other, 20);
    CHECK(same_tokens(&held, &other_held) && same_tokens(&next, &other_next));
    CHECK_OK(riffle_state_load(session, path));
    struct tokens again = generate(session, 20);
    CHECK(same_tokens(&next, &again));

    riffle_session *small = open_session(model, 8, 1);
    CHECK_FAILS(riffle_state_load(small, path), RIFFLE_ERR_CONTEXT);
    CHECK_INT(riffle_session_tokens(small, NULL), 0);
    CHECK_FAILS(riffle_state_load(session, "no/such/state"), RIFFLE_ERR_IO);
    CHECK_FAILS(riffle_state_save(session, "no/such/state"), RIFFLE_ERR_IO);
    CHECK(strstr(riffle_last_error(), "no/such/state") != NULL);
    CHECK_FAILS(riffle_state_load(session, TINY_MODEL), RIFFLE_ERR_FORMAT);
    CHECK_FAILS(riffle_state_load(session, "golden"), RIFFLE_ERR_IO);
    damaged_files_are_refused(model, path);
    a_form_keeps_its_states(path, 0, "another model");
    a_form_keeps_its_states(path, 1, "activations in 8 bits, and this session computes with 16");
    a_changed_model_is_another(session, path);

    remove(path);
    riffle_session_close(small);
    riffle_session_close(other);
    riffle_session_close(session);
    riffle_model_close(model);
    return check_result();
}
