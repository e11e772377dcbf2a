/* The reader's answer to files of the kinds that broke other readers: one sentence for each. */
#include "fuzz/advisories.h"
#include "model/gguf.h"
#include "model/reader.h"
#include "platform/memory.h"
#include "support/check.h"

static void check_file(const struct advisory *advisory)
{
    size_t bytes;
    unsigned char *data = advisory_bytes(advisory, &bytes);
    struct rf_source *source;
    struct rf_error error = {0};
    if (rf_source_new(&source, &rf_system_allocator, &error) == 0) {
        int code = rf_gguf_read(source, "model.gguf", data, bytes, &error);
        CHECK_MSG((code < 0) == (advisory->says != NULL), "%s: %d", advisory->name, code);
        CHECK_MSG(!advisory->says || strstr(error.text, advisory->says), "%s: %s, not %s",
                  advisory->name, error.text, advisory->says);
        rf_source_close(source);
    } else {
        CHECK_MSG(0, "%s", error.text);
    }
    free(data);
}

int main(void)
{
    for (size_t i = 0; i < n_advisories; i++) check_file(&advisories[i]);
    return check_result();
}
