/* The GGUF reader on any bytes. */
#include "fuzz/fuzz.h"
#include "fuzz/touch.h"
#include "model/gguf.h"
#include "model/reader.h"
#include "platform/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct rf_source *source;
    struct rf_error error = {0};
    if (rf_source_new(&source, &rf_system_allocator, &error)) return 0;
    int code = rf_gguf_read(source, "fuzz.gguf", data, bytes, &error);
    if (code == 0) touch_source(source);
    if ((code != 0) != (error.text[0] != 0)) abort();
    rf_source_close(source);
    return 0;
}
