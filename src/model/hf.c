/* Finds and maps the files of a folder, then reads them in order. */
#include "model/hf.h"
#include "model/hf_class.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "platform/file.h"

/* The files beside the shards: each one's member of rf_hf_files, and of rf_hf where it is JSON. */
static const struct {
    const char *name;
    size_t text, document;
} texts[] = {
#define TEXT(name, member)                            \
    {                                                 \
        name, offsetof(struct rf_hf_files, member), 0 \
    }
#define JSON(name, text, member)                                                 \
    {                                                                            \
        name, offsetof(struct rf_hf_files, text), offsetof(struct rf_hf, member) \
    }
    JSON("config.json", config, config),
    JSON("generation_config.json", generation_config, generation_config),
    JSON("tokenizer_config.json", tokenizer_config, tokenizer_config),
    JSON("tokenizer.json", tokenizer, tokenizer),
    TEXT("tokenizer.model", sentencepiece),
    TEXT("chat_template.jinja", chat_template_jinja),
    JSON("chat_template.json", chat_template_json, chat_template),
    JSON("1_Pooling/config.json", pooling, pooling),
    JSON("config_sentence_transformers.json", sentences, sentences),
};
enum { N_TEXTS = sizeof texts / sizeof *texts };

static struct rf_json **document_of(struct rf_hf *hf, size_t i)
{
    return (struct rf_json **)((char *)hf + texts[i].document);
}

static char *join_path(struct rf_reading *reading, const char *name)
{
    size_t n = strlen(reading->path), bytes = n + strlen(name) + 2;
    int slash = n && rf_path_separator(reading->path) == reading->path + n - 1;
    char *path = rf_keep(reading, bytes, 1, "path");
    if (path) snprintf(path, bytes, "%s%s%s", reading->path, slash ? "" : "/", name);
    return path;
}

static struct rf_mapping map_file(struct rf_reading *reading, const char *path)
{
    struct rf_mapping mapping = {0};
    if (!reading->code)
        reading->code = rf_source_map(reading->source, path, &mapping, reading->error);
    return mapping;
}

/* Maps a file of the folder and returns its path. Leaves *text alone if there is no such file. */
static const char *map_text(struct rf_reading *reading, const char *name, struct rf_str *text)
{
    char *path = join_path(reading, name);
    if (!path || rf_file_bytes(path) < 0) return path;
    struct rf_mapping mapping = map_file(reading, path);
    *text = (struct rf_str){mapping.data ? (const char *)mapping.data : "", mapping.bytes};
    return path;
}

static int text_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The name comes from a file and is opened, so it must not lead out of the folder. */
static int is_file_name(const char *name)
{
    size_t n = strlen(name);
    return n > strlen(".safetensors") && n < 256 && name[0] != '.' && !strpbrk(name, "/\\:") &&
           !strstr(name, "..") && rf_ends_with(name, ".safetensors");
}

const char **rf_hf_shard_names(struct rf_reading *reading, struct rf_str index, size_t *n)
{
    struct rf_json *document = rf_json_parse(reading, NULL, index);
    const struct rf_json *map = rf_json_get(document, "weight_map"), *value;
    size_t count = 0;
    const char **names = rf_keep(reading, rf_json_count(map), sizeof *names, reading->path);
    if (!rf_json_is_object(map) || rf_json_count(map) == 0)
        rf_bad(reading, RF_ERR_FORMAT, "weight_map is missing or empty");
    struct rf_str tensor;
    for (void *at = NULL; !reading->code && rf_json_next(map, &at, &tensor, &value);) {
        struct rf_str name = rf_json_text(value);
        if (!is_file_name(name.data))
            rf_bad(reading, RF_ERR_FORMAT,
                   "weight_map names the file \"%.*s\"; a name in the same folder ending in "
                   ".safetensors is expected",
                   rf_shown(name), name.data);
        names[count++] = rf_keep_text(reading, name);
    }
    rf_json_free(document);
    if (reading->code) return NULL;
    qsort(names, count, sizeof *names, text_order);
    *n = 0;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || strcmp(names[i], names[*n - 1]) != 0) names[(*n)++] = names[i];
    return names;
}

/* The names of the shards of a folder, from its index where it has one. */
static const char **list_shards(struct rf_reading *reading, size_t *n)
{
    static const char single[] = "model.safetensors", index_name[] = "model.safetensors.index.json";
    const char *folder = reading->path, *path = join_path(reading, single);
    if (path && rf_file_bytes(path) >= 0) {
        const char **names = rf_keep(reading, 1, sizeof *names, "shards");
        if (names) names[0] = single;
        *n = 1;
        return names;
    }
    struct rf_str index = {NULL, 0};
    map_text(reading, index_name, &index);
    if (!index.data) rf_bad(reading, RF_ERR_IO, "holds neither %s nor %s", single, index_name);
    path = join_path(reading, index_name);
    if (!path) return NULL;
    reading->path = path;
    const char **names = rf_hf_shard_names(reading, index, n);
    reading->path = folder;
    return names;
}

static void map_shards(struct rf_reading *reading, struct rf_hf_files *files, const char *shard)
{
    const char **names = &shard;
    files->n_shards = 1;
    if (!shard) names = list_shards(reading, &files->n_shards);
    files->shards = rf_keep(reading, files->n_shards, sizeof *files->shards, "shards");
    for (size_t i = 0; !reading->code && i < files->n_shards; i++) {
        char *path = join_path(reading, names[i]);
        struct rf_mapping mapping = map_file(reading, path);
        files->shards[i] = (struct rf_hf_shard){path, mapping.data, mapping.bytes};
    }
}

/* Names the model after the last part of the folder's path. */
static void name_source(struct rf_reading *reading)
{
    const char *folder = reading->path;
    size_t bytes;
    const char *last = rf_path_last(folder, &bytes);
    struct rf_str name = {last, bytes};
    if (strspn(name.data, ".") >= name.bytes) name.bytes = 0; /* "." and ".." are no names */
    reading->source->name = rf_keep_text(reading, name);
}

/* ---- modules of sentence-transformers ---- */

static const char modules_name[] = "modules.json";

/* The path comes from a file and is opened, so it must be a folder in the folder. */
static int is_folder_name(struct rf_str path)
{
    return path.bytes && path.bytes < 256 && path.data[0] != '.' &&
           strlen(path.data) == path.bytes && !strpbrk(path.data, "/\\:");
}

/* Maps a file of a module's folder. Leaves *text alone if there is no such file. */
static const char *map_part(struct rf_reading *reading, const char *folder, const char *name,
                            struct rf_str *text)
{
    char part[300];
    snprintf(part, sizeof part, "%s/%s", folder, name);
    return map_text(reading, part, text);
}

static void map_dense(struct rf_reading *reading, struct rf_hf_module *module)
{
    struct rf_str tensors = {NULL, 0};
    map_part(reading, module->path, "config.json", &module->config);
    module->shard.path = map_part(reading, module->path, "model.safetensors", &tensors);
    module->shard.data = (const unsigned char *)tensors.data;
    module->shard.bytes = tensors.bytes;
}

static void map_modules(struct rf_reading *reading, struct rf_hf_files *files)
{
    struct rf_str text = {NULL, 0};
    map_text(reading, modules_name, &text);
    if (!text.data) return;
    struct rf_json *list = rf_json_parse(reading, modules_name, text);
    size_t n = rf_json_count(list);
    if (!rf_json_is_array(list))
        rf_bad_part(reading, modules_name, RF_ERR_FORMAT, "is not a JSON array");
    rf_count(reading, n, modules_name);
    files->modules = rf_keep(reading, n, sizeof *files->modules, "modules");
    for (size_t i = 0; !reading->code && i < n; i++) {
        struct rf_hf_module *module = &files->modules[files->n_modules];
        struct rf_str path = rf_json_text(rf_json_get(rf_json_at(list, i), "path"));
        const char *type =
            rf_keep_text(reading, rf_json_text(rf_json_get(rf_json_at(list, i), "type")));
        module->type = type && strrchr(type, '.') ? strrchr(type, '.') + 1 : type;
        module->path = rf_keep_text(reading, path);
        if (reading->code) break;
        files->n_modules++;
        if (strcmp(module->type, "Dense") != 0) continue;
        if (is_folder_name(path))
            map_dense(reading, module);
        else
            rf_bad_part(reading, modules_name, RF_ERR_FORMAT,
                        "names the folder \"%.*s\"; a folder in the same folder is expected",
                        rf_shown(path), path.data);
    }
    rf_json_free(list);
}

int rf_hf_map(struct rf_source *source, const char *folder, const char *shard,
              struct rf_hf_files *files, struct rf_error *error)
{
    *files = (struct rf_hf_files){.folder = folder};
    struct rf_reading reading = rf_reading_of(source, folder, error);
    map_shards(&reading, files, shard);
    for (size_t i = 0; i < N_TEXTS; i++)
        map_text(&reading, texts[i].name, (struct rf_str *)((char *)files + texts[i].text));
    map_modules(&reading, files);
    name_source(&reading);
    return reading.code;
}

static void parse_documents(struct rf_hf *hf)
{
    for (size_t i = 0; i < N_TEXTS; i++) {
        struct rf_str text = *(const struct rf_str *)((const char *)hf->files + texts[i].text);
        if (!text.data || !texts[i].document) continue;
        struct rf_json *document = rf_json_parse(&hf->reading, texts[i].name, text);
        if (!rf_json_is_object(document))
            rf_bad_part(&hf->reading, texts[i].name, RF_ERR_FORMAT, "is not a JSON object");
        *document_of(hf, i) = document;
    }
}

/* Keys as sentence-transformers writes them. */
static void hf_read_pooling(struct rf_hf *hf)
{
    int flag;
    if (rf_json_bool(rf_json_get(hf->pooling, "pooling_mode_mean_tokens"), &flag) && flag)
        hf->reading.source->pooling = RF_POOLING_MEAN;
    if (rf_json_bool(rf_json_get(hf->pooling, "pooling_mode_lasttoken"), &flag) && flag)
        hf->reading.source->pooling = RF_POOLING_LAST;
    struct rf_str mode = rf_json_text(rf_json_get(hf->pooling, "pooling_mode")); /* newer */
    if (rf_str_is(mode, "mean")) hf->reading.source->pooling = RF_POOLING_MEAN;
    if (rf_str_is(mode, "lasttoken")) hf->reading.source->pooling = RF_POOLING_LAST;
    if (!hf->reading.source->params.encoder) return;
    if (rf_json_bool(rf_json_get(hf->pooling, "pooling_mode_cls_token"), &flag) && flag)
        hf->reading.source->pooling = RF_POOLING_CLS;
    if (rf_str_is(mode, "cls")) hf->reading.source->pooling = RF_POOLING_CLS;
    if (hf->pooling && !hf->reading.source->pooling)
        rf_bad_part(&hf->reading, "1_Pooling/config.json", RF_ERR_UNSUPPORTED,
                    "names no pooling that is supported: these are the mean of the tokens, the "
                    "first and the last one");
}

/* The prompts by name, and the one for texts without a name. */
static void hf_read_prompts(struct rf_hf *hf)
{
    static const char file[] = "config_sentence_transformers.json";
    const struct rf_json *list = rf_json_get(hf->sentences, "prompts"), *value;
    struct rf_str usual = rf_json_text(rf_json_get(hf->sentences, "default_prompt_name")), name;
    struct rf_source *source = hf->reading.source;
    size_t n = rf_json_count(list), i = 0;
    rf_count(&hf->reading, n, "prompts");
    struct rf_prompt *prompts = rf_keep(&hf->reading, n, sizeof *prompts, "prompts");
    source->default_prompt = n;
    for (void *at = NULL; prompts && i < n && rf_json_next(list, &at, &name, &value); i++) {
        struct rf_str text;
        if (!rf_json_string(value, &text)) {
            rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "the prompt \"%.*s\" is not a text",
                        rf_shown(name), name.data);
            return;
        }
        prompts[i].name = rf_keep_text(&hf->reading, name);
        prompts[i].text = rf_keep_text(&hf->reading, text);
        if (usual.bytes && rf_str_same(name, usual)) source->default_prompt = i;
    }
    if (hf->reading.code) return;
    if (usual.bytes && source->default_prompt == n)
        rf_bad_part(&hf->reading, file, RF_ERR_FORMAT, "default_prompt_name is no prompt: \"%.*s\"",
                    rf_shown(usual), usual.data);
    source->prompts = prompts;
    source->n_prompts = i;
}

static void hf_read_all(struct rf_hf *hf)
{
    struct rf_reading *reading = &hf->reading;
    if (!reading->code) rf_hf_read_params(hf);
    if (!reading->code && reading->source->params.encoder) rf_hf_check_modules(hf);
    if (!reading->code) rf_safetensors_read(hf);
    if (!reading->code) rf_hf_read_sampling(hf);
    hf_read_pooling(hf);
    hf_read_prompts(hf);
    if (reading->source->params.latent) rf_hf_split_latent(hf);
    rf_tensors_split(reading);
    if (hf->adds_one) rf_norms_add_one(reading);
    if (reading->source->params.delta_values) rf_decays_from_log(reading);
    if (!reading->code) rf_tensors_sort(reading);
    if (!reading->code && hf->is_tied) rf_tensors_tie(reading);
    if (!reading->code) rf_layout_check(reading);
    if (!reading->code) rf_hf_check_vocab_size(hf);
    if (reading->source->params.tied_output && !hf->is_tied)
        rf_bad(
            reading, RF_ERR_FORMAT,
            "tensor lm_head.weight is missing, and config.json does not tie it to the embedding");
    if (!reading->code) rf_hf_read_vocab(hf);
}

int rf_hf_read(struct rf_source *source, const struct rf_hf_files *files, struct rf_error *error)
{
    struct rf_hf hf = {.reading = rf_reading_of(source, files->folder, error), .files = files};
    hf.reading.shown_name = rf_hf_tensor_name;
    source->container = "safetensors";
    if (!files->config.data) rf_bad(&hf.reading, RF_ERR_IO, "config.json is missing");
    parse_documents(&hf);
    hf_read_all(&hf);
    for (size_t i = 0; i < N_TEXTS; i++)
        if (texts[i].document) rf_json_free(*document_of(&hf, i));
    rf_arena_free(&hf.reading.arena);
    return hf.reading.code;
}
