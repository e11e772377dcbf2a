/* The sentence for a GGUF file of an unknown architecture: the known one whose tensors are nearest,
 * and the file's other tensors and keys. gguf_params.c calls it. */
#include <stdio.h>
#include <string.h>

#include "model/arch.h"
#include "model/gguf.h"
#include "model/tensors.h"

/* Names in a list, cut with "..." where it gets long. */
struct list {
    char text[256];
    size_t used;
    int n, is_cut;
};

static void add_listed(struct list *list, struct rf_str name)
{
    static const char comma[] = ", ", more[] = ", ...";
    int shown = rf_shown_up_to(name, 60);
    list->n++;
    if (list->is_cut) return;
    char *end = list->text + list->used;
    size_t room = sizeof list->text - list->used; /* room for `more` at least */
    list->is_cut = (size_t)shown + strlen(comma) + sizeof more > room;
    if (list->is_cut)
        memcpy(end, more, sizeof more);
    else
        list->used +=
            (size_t)snprintf(end, room, "%s%.*s", list->used ? comma : "", shown, name.data);
}

/* A tensor's name without the number of its layer; empty for a layer but the first. */
static struct rf_str tensor_kind(const char *name)
{
    static const char first[] = "blk.0.";
    if (strncmp(name, first, strlen(first)) == 0) return rf_str_of(name + strlen(first));
    return strncmp(name, "blk.", 4) == 0 ? (struct rf_str){"", 0} : rf_str_of(name);
}

static int has_kind(const struct rf_source *source, const char *kind)
{
    for (int32_t i = 0; i < source->n_tensors; i++)
        if (rf_str_is(tensor_kind(source->tensors[i].name), kind)) return 1;
    return 0;
}

struct row {
    const char *name;
    int used;
};
#define ROW(field, gguf, hf, role, ne0, ne1, condition) {gguf, (int)(condition)},

static int is_known_kind(const struct row *rows, size_t n, struct rf_str kind)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].used && rf_str_is(kind, rows[i].name)) return 1;
    return 0;
}

/* Compares the file's tensors with those of an architecture, in both directions. Returns how many
 * have no counterpart. */
static int list_differences(const struct rf_source *source, const struct rf_params *p,
                            struct list *more, struct list *fewer)
{
    const int32_t layer = 0;
    const struct row rows[] = {RF_EACH_MODEL_TENSOR(ROW) RF_EACH_LAYER_TENSOR(ROW)};
    size_t n = sizeof rows / sizeof *rows;
    for (int32_t i = 0; i < source->n_tensors; i++) {
        struct rf_str kind = tensor_kind(source->tensors[i].name);
        if (kind.bytes && !is_known_kind(rows, n, kind)) add_listed(more, kind);
    }
    for (size_t i = 0; i < n; i++)
        if (rows[i].used && !has_kind(source, rows[i].name))
            add_listed(fewer, rf_str_of(rows[i].name));
    return more->n + fewer->n;
}

/* The file's parameters that the forward pass does not know. */
static void list_keys(const struct rf_gguf *gguf, struct rf_str arch, struct list *keys)
{
    static const char *const known[] = {"block_count",
                                        "context_length",
                                        "embedding_length",
                                        "vocab_size",
                                        "feed_forward_length",
                                        "attention.head_count",
                                        "rope.freq_base",
                                        "attention.head_count_kv",
                                        "attention.key_length",
                                        "rope.scale_linear",
                                        "attention.value_length",
                                        "attention.layer_norm_rms_epsilon",
                                        "attention.layer_norm_epsilon",
                                        "rope.scaling.type",
                                        "rope.scaling.factor",
                                        "rope.dimension_count",
                                        "attention.sliding_window"};
    for (size_t i = 0; i < gguf->n_values; i++) {
        struct rf_str key = gguf->values[i].key;
        if (key.bytes <= arch.bytes + 1 || key.data[arch.bytes] != '.' ||
            memcmp(key.data, arch.data, arch.bytes) != 0)
            continue;
        struct rf_str name = {key.data + arch.bytes + 1, key.bytes - arch.bytes - 1};
        size_t k = 0;
        while (k < sizeof known / sizeof *known && !rf_str_is(name, known[k])) k++;
        if (k == sizeof known / sizeof *known) add_listed(keys, name);
    }
}

void rf_gguf_refuse_architecture(struct rf_gguf *gguf, struct rf_str arch)
{
    const struct rf_source *source = gguf->reading->source;
    struct list more = {.n = 0}, fewer = {.n = 0}, keys = {.n = 0}, names = {.n = 0};
    int fewest = -1;
    const char *nearest = "";
    for (const struct rf_arch_row *row = rf_arch_rows; row->name; row++) {
        struct list a = {.n = 0}, b = {.n = 0};
        struct rf_params params = row->traits;
        add_listed(&names, rf_str_of(row->name));
        params.tied_output = !has_kind(source, "output.weight");
        int differences = list_differences(source, &params, &a, &b);
        if (fewest >= 0 && differences >= fewest) continue;
        fewest = differences;
        nearest = row->name;
        more = a;
        fewer = b;
    }
    list_keys(gguf, arch, &keys);
    rf_bad(gguf->reading, RF_ERR_UNSUPPORTED,
           "the architecture \"%.*s\" is not known; these are: %s. Nearest is %s%s%s%s%s"
           "%s%s",
           rf_shown_up_to(arch, 40), arch.data, names.text, nearest,
           more.n ? ", but the file also has the tensors " : "", more.text,
           fewer.n ? ", and lacks " : "", fewer.text, keys.n ? "; unknown parameters: " : "",
           keys.text);
}
