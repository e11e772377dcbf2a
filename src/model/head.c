/* Opens the file of a draft head for its target and closes it. The head lives in its source's
 * memory. The engine calls it where a head is asked for. */
#include "model/head.h"

#include "model/head_reader.h"
#include "model/open.h"

int rf_head_open(struct rf_head_file **head, const char *path, const struct rf_source *target,
                 const struct rf_open_options *options, const struct rf_allocator *allocator,
                 struct rf_error *error)
{
    struct rf_head_reading of = {.target = target};
    const struct rf_open_readers readers = {
        .folder = rf_head_read_folder, .gguf = rf_head_read_gguf, .user = &of};
    struct rf_source *source;
    int code = rf_source_open_with(&source, path, options, allocator, &readers, error);
    *head = code ? NULL : of.head;
    return code;
}

void rf_head_close(struct rf_head_file *head)
{
    if (head) rf_source_close(head->source);
}
