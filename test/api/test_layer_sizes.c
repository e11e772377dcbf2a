/* Files of a model whose layers differ in size (gemma4) that lie: each is refused with a sentence.
 */
#include "api/changed_model.h"

static const struct lie {
    const char *key, *says;
    uint32_t number;
    size_t element; /* of an array */
    int is_array;
} lies[] = {
    {"gemma4.attention.shared_kv_layers", "must be from 0 to 5", 6, 0, 0},
    {"gemma4.attention.shared_kv_layers", "differs between layers of one kind", 4, 0, 0},
    {"gemma4.attention.key_length_swa", "which is not supported", 8, 0, 0},
    {"gemma4.attention.value_length_swa", "which is not supported", 8, 0, 0},
    {"gemma4.attention.key_length_swa", "must be from 1 to", 0, 0, 0},
    {"gemma4.attention.sliding_window_pattern", "no layer before has them without a window",
     0x01010101, 0, 1},
    {"gemma4.rope.dimension_count_swa", "are rotated, which does not fit", 18, 0, 0},
    {"gemma4.rope.dimension_count_swa", "are rotated, which does not fit", 3, 0, 0},
    {"gemma4.embedding_length_per_layer_input", "per_layer_token_embd.weight", 8, 0, 0},
    {"gemma4.embedding_length_per_layer_input", "must be from 0 to 65535", 65536, 0, 0},
    {"gemma4.attention.sliding_window", "must be from 1 to", 0, 0, 0},
    {"gemma4.feed_forward_length", "differs between layers of one kind (32 and 48)", 48, 1, 1},
    {"gemma4.feed_forward_length", "differs between layers of one kind (48 and 64)", 48, 3, 1},
    {"gemma4.feed_forward_length", "is 0 for layer 5", 0, 5, 1},
};

static void check_lie(const struct lie *lie, const char *path)
{
    static struct file file;
    riffle_model *model = NULL;
    read_model(&file);
    unsigned char *at = behind(&file, lie->key);
    at += lie->is_array ? ARRAY + lie->element * sizeof lie->number : VALUE;
    memcpy(at, &lie->number, sizeof lie->number);
    write_model(file.data, file.bytes, path);
    int code = riffle_model_open(&model, path, NULL);
    CHECK_MSG(code < 0 && strstr(riffle_last_error(), lie->says), "%s = %u: %d, %s, not %s",
              lie->key, lie->number, code, riffle_last_error(), lie->says);
    riffle_model_close(model);
}

int main(void)
{
    char path[4096];
    temporary_path("layer-sizes.gguf", path, sizeof path);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) check_lie(&lies[i], path);
    remove(path);
    return check_result();
}
