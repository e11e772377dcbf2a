/* Changes of a draft head's GGUF file, one of which makes it bad, and the opening of such files. */
#ifndef RF_TEST_HEAD_EDITS_H
#define RF_TEST_HEAD_EDITS_H

#include "model/head.h"
#include "model/head_writer.h"
#include "model/probe.h"
#include "support/check.h"

enum op {
    NOTHING,
    U32,
    F32,
    STRING,
    INTS, /* an array of `n` of `list` */
    ROWS, /* an array of 0 .. `number` - 1 */
    FLOATS,
    DROP,
    ID,           /* of row `number`: list[0] */
    TENSOR_NE,    /* dimension `index`, and the tensors behind it move */
    TENSOR_CLAIM, /* dimension `index`, without the bytes */
    TENSOR_NAME,  /* becomes `text` */
    TENSOR_TYPE,  /* its bytes are those of F32 */
    TENSOR_DIMS,
    TENSOR_DROP,
    TENSOR_VECTOR, /* another one of `number` elements */
    TENSOR_MATRIX  /* another one of [number, list[0]] */
};

struct edit {
    enum op op;
    const char *target, *text;
    uint64_t number;
    int index, n;
    int32_t list[4];
};

struct bad_file {
    const char *sentence;
    int code;
    struct edit edits[4];
};

static inline void apply_to_tensor(struct w_file *file, const struct edit *edit)
{
    struct w_tensor *tensor = w_find(file, edit->target);
    switch (edit->op) {
    case TENSOR_CLAIM: tensor->ne[edit->index] = edit->number; return;
    case TENSOR_NE: tensor->ne[edit->index] = edit->number; break;
    case TENSOR_NAME: snprintf(tensor->name, sizeof tensor->name, "%s", edit->text); break;
    case TENSOR_TYPE: tensor->type = (uint32_t)edit->number; break;
    case TENSOR_DIMS: tensor->n_dims = (uint32_t)edit->number; break;
    case TENSOR_DROP: w_drop_tensor(file, edit->target); break;
    case TENSOR_VECTOR: w_tensor(file, edit->target, edit->number, 0); break;
    case TENSOR_MATRIX: w_tensor(file, edit->target, edit->number, (uint64_t)edit->list[0]); break;
    default: break;
    }
    w_place(file);
}

static inline void w_counted(struct w_file *file, const char *key, uint64_t n)
{
    int32_t numbers[HEAD_VOCAB + 1];
    for (uint64_t i = 0; i < n; i++) numbers[i] = (int32_t)i;
    w_numbers(file, key, W_I32, numbers, (size_t)n);
}

static inline void apply(struct w_file *file, int64_t *ids, const struct edit *edit)
{
    switch (edit->op) {
    case NOTHING: return;
    case U32: w_u32(file, edit->target, (uint32_t)edit->number); return;
    case F32: w_f32(file, edit->target, (float)edit->number); return;
    case STRING: w_string(file, edit->target, edit->text); return;
    case INTS: w_numbers(file, edit->target, W_I32, edit->list, (size_t)edit->n); return;
    case FLOATS: w_numbers(file, edit->target, W_F32, edit->list, (size_t)edit->n); return;
    case ROWS: w_counted(file, edit->target, edit->number); return;
    case DROP: w_drop(file, edit->target); return;
    case ID: ids[edit->number] = edit->list[0]; return;
    default: apply_to_tensor(file, edit);
    }
}

/* Opens a file or folder and sees that nothing is left behind after a failure. */
static inline struct rf_head_file *open_head_in(const char *folder, const char *path,
                                                const struct rf_source *of, struct probe *probe,
                                                struct rf_error *error)
{
    struct rf_allocator allocator = probe_allocator(probe);
    struct rf_head_file *head = (struct rf_head_file *)&allocator;
    *error = (struct rf_error){0};
    int code = rf_head_open(&head, path, of, NULL, &allocator, error);
    CHECK_MSG(code == error->code, "code %d, error's %d", code, error->code);
    CHECK_MSG((code == 0) == (head != NULL), "code %d, but head is %p", code, (void *)head);
    if (head) return head;
    CHECK_MSG(probe->live == 0, "%ld blocks are left after \"%s\"", probe->live, error->text);
    CHECK_MSG(probe_mappings(folder) <= 0, "a mapping is left after \"%s\"", error->text);
    return NULL;
}

#endif
