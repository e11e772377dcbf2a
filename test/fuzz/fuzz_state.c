/* A saved session, changed: three bytes of the input are a place and what is written there, and one
 * in 256 of them cuts the file off. With libFuzzer's macro the checksum is not looked at. */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "riffle.h"

enum { VOCAB = 512 };

static riffle_session *session;
static char path[64];
static unsigned char good[1 << 16], changed[1 << 16];
static size_t good_bytes;

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, riffle_last_error());
    abort();
}

static void prepare(void)
{
    static const int32_t tokens[] = {1, 403, 407, 261, 378};
    riffle_model_options options;
    riffle_session_options small;
    riffle_model *model;
    const char *name = getenv("RIFFLE_FUZZ_MODEL");
    riffle_model_options_init(&options, sizeof options);
    riffle_session_options_init(&small, sizeof small);
    options.threads = 1;
    small.n_ctx = 32;
    if (riffle_model_open(&model, name ? name : "stories260K.gguf", &options) < 0 ||
        riffle_session_open(&session, model, &small) < 0 || riffle_prefill(session, tokens, 5) < 0)
        die("a session");
    snprintf(path, sizeof path, "/tmp/riffle-fuzz-%ld.session", (long)getpid());
    if (riffle_state_save(session, path) < 0) die("saving");
    FILE *file = fopen(path, "rb");
    good_bytes = file ? fread(good, 1, sizeof good, file) : 0;
    if (file) fclose(file);
    if (good_bytes == 0 || good_bytes == sizeof good) die("the saved session");
}

static void write_changed(const uint8_t *data, size_t bytes)
{
    size_t n = good_bytes;
    memcpy(changed, good, good_bytes);
    for (size_t i = 0; i + 3 <= bytes; i += 3) {
        size_t place = (data[i] | (size_t)data[i + 1] << 8) % good_bytes;
        if (data[i + 1] == 255)
            n = place;
        else
            changed[place] = data[i + 2];
    }
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(changed, 1, n, file) != n || fclose(file) != 0) die("writing");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static float logits[VOCAB];
    int32_t tokens[RIFFLE_MAX_DRAFT + 1];
    if (!session) prepare();
    write_changed(data, bytes);
    int32_t before = riffle_session_tokens(session, NULL);
    if (riffle_state_load(session, path) < 0) {
        if (!riffle_last_error()[0]) die("an error without a sentence");
        if (riffle_session_tokens(session, NULL) != before)
            die("a refused file changed the session");
    }
    int32_t n = riffle_session_tokens(session, NULL);
    if (n < 0 || n > riffle_session_n_ctx(session)) die("the number of tokens");
    /* Keys and values may be anything, so these may fail. */
    if (n > 0) riffle_logits(session, logits, VOCAB);
    riffle_step(session, tokens, RIFFLE_MAX_DRAFT + 1);
    if (riffle_rewind(session, 0) < 0) die("rewinding");
    remove(path);
    return 0;
}
