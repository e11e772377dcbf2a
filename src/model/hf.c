/* Finds and maps the files of a folder, then reads them in order. */
#include "model/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *join(struct rf_source *source, const char *folder, const char *name,
                  struct rf_error *error)
{
    size_t n = strlen(folder), bytes = n + strlen(name) + 2;
    char *path = rf_source_alloc(source, bytes, 1, "path", error);
    if (path) snprintf(path, bytes, "%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name);
    return path;
}

/* Maps a file of the folder. Leaves *text alone if there is no such file. */
static int map_text(struct rf_source *source, const char *folder, const char *name,
                    struct rf_str *text, struct rf_error *error)
{
    char *path = join(source, folder, name, error);
    if (!path) return RF_ERR_MEMORY;
    if (rf_file_bytes(path) < 0) return 0;
    struct rf_mapping mapping;
    int code = rf_source_map(source, path, &mapping, error);
    if (!code)
        *text = (struct rf_str){mapping.data ? (const char *)mapping.data : "", mapping.bytes};
    return code;
}

static int map_shard(struct rf_source *source, const char *folder, const char *name,
                     struct rf_hf_shard *shard, struct rf_error *error)
{
    struct rf_mapping mapping;
    shard->path = join(source, folder, name, error);
    if (!shard->path) return RF_ERR_MEMORY;
    int code = rf_source_map(source, shard->path, &mapping, error);
    if (!code) *shard = (struct rf_hf_shard){shard->path, mapping.data, mapping.bytes};
    return code;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The name comes from a file and is opened, so it must not lead out of the folder. */
static int is_file_name(const char *name)
{
    static const char suffix[] = ".safetensors";
    size_t n = strlen(name), m = sizeof suffix - 1;
    return n > m && n < 256 && name[0] != '.' && !strpbrk(name, "/\\:") && !strstr(name, "..") &&
           strcmp(name + n - m, suffix) == 0;
}

int rf_hf_shard_names(struct rf_source *source, const char *path, struct rf_str index,
                      const char ***names, size_t *n, struct rf_error *error)
{
    struct rf_json *document;
    int code = rf_json_parse(&document, path, index, error);
    if (code) return code;
    const struct rf_json *map = rf_json_get(document, "weight_map"), *value;
    size_t count = rf_json_count(map);
    const char **list = rf_source_alloc(source, count, sizeof *list, path, error);
    if (!list) code = RF_ERR_MEMORY;
    if (!code && (!rf_json_is_object(map) || count == 0))
        code = rf_fail(error, RF_ERR_FORMAT, "%s: weight_map is missing or empty", path);
    struct rf_str tensor, name;
    size_t i = 0;
    for (void *at = NULL; !code && rf_json_next(map, &at, &tensor, &value); i++) {
        name = rf_json_text(value);
        if (!is_file_name(name.data))
            code = rf_fail(error, RF_ERR_FORMAT,
                           "%s: weight_map names the file \"%.*s\"; a name in the same folder "
                           "ending in .safetensors "
                           "is expected",
                           path, rf_shown(name), name.data);
        else
            list[i] = name.data;
    }
    if (!code) {
        qsort(list, count, sizeof *list, by_text);
        *n = 0;
        for (i = 0; i < count; i++)
            if (i == 0 || strcmp(list[i], list[*n - 1]) != 0) list[(*n)++] = list[i];
        *names = list;
        /* The document is freed below, so copy the names out of it. */
        for (i = 0; !code && i < *n; i++) {
            list[i] = rf_arena_strndup(&source->private_->arena, list[i], strlen(list[i]), error);
            if (!list[i]) code = RF_ERR_MEMORY;
        }
    }
    rf_json_free(document);
    return code;
}

static int map_shards(struct rf_source *source, struct rf_hf_files *files, const char *shard,
                      struct rf_error *error)
{
    const char *single[] = {shard ? shard : "model.safetensors"};
    const char **names = single;
    struct rf_str index = {NULL, 0};
    char *path = join(source, files->folder, single[0], error);
    if (!path) return RF_ERR_MEMORY;
    files->n_shards = 1;
    int code = 0;
    if (!shard && rf_file_bytes(path) < 0) {
        static const char index_name[] = "model.safetensors.index.json";
        code = map_text(source, files->folder, index_name, &index, error);
        if (code) return code;
        if (!index.data)
            return rf_fail(error, RF_ERR_IO,
                           "%s: holds neither model.safetensors nor model.safetensors.index.json",
                           files->folder);
        path = join(source, files->folder, index_name, error);
        if (!path) return RF_ERR_MEMORY;
        code = rf_hf_shard_names(source, path, index, &names, &files->n_shards, error);
        if (code) return code;
    }
    files->shards =
        rf_source_alloc(source, files->n_shards, sizeof *files->shards, "shards", error);
    if (!files->shards) return RF_ERR_MEMORY;
    for (size_t i = 0; !code && i < files->n_shards; i++)
        code = map_shard(source, files->folder, names[i], &files->shards[i], error);
    return code;
}

/* Names the model after the last part of the folder's path. */
static int name_source(struct rf_source *source, const char *folder, struct rf_error *error)
{
    size_t end = strlen(folder);
    while (end > 0 && folder[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && folder[start - 1] != '/') start--;
    int is_dots = strspn(folder + start, ".") >= end - start;
    source->name = rf_arena_strndup(&source->private_->arena, folder + start,
                                    is_dots ? 0 : end - start, error);
    return source->name ? 0 : RF_ERR_MEMORY;
}

int rf_hf_read_folder(struct rf_source *source, const char *folder, const char *shard,
                      struct rf_error *error)
{
    struct rf_hf_files files = {.folder = folder};
    const struct {
        const char *name;
        struct rf_str *text;
    } texts[] = {
        {"config.json", &files.config},
        {"generation_config.json", &files.generation_config},
        {"tokenizer_config.json", &files.tokenizer_config},
        {"tokenizer.json", &files.tokenizer},
        {"tokenizer.model", &files.sentencepiece},
        {"chat_template.jinja", &files.chat_template_jinja},
        {"chat_template.json", &files.chat_template_json},
    };
    int code = map_shards(source, &files, shard, error);
    for (size_t i = 0; !code && i < sizeof texts / sizeof *texts; i++)
        code = map_text(source, folder, texts[i].name, texts[i].text, error);
    if (!code) code = name_source(source, folder, error);
    if (!code) code = rf_hf_read(source, &files, error);
    return code;
}

static int parse_text(struct rf_hf *hf, const char *name, struct rf_str text,
                      struct rf_json **document)
{
    if (!text.data) return 0;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", hf->files->folder, name);
    int code = rf_json_parse(document, path, text, hf->error);
    if (!code && !rf_json_is_object(*document))
        code = rf_fail(hf->error, RF_ERR_FORMAT, "%s: is not a JSON object", path);
    return code;
}

int rf_hf_read(struct rf_source *source, const struct rf_hf_files *files, struct rf_error *error)
{
    struct rf_hf hf = {.source = source, .files = files, .error = error};
    hf.scratch.allocator = &source->private_->allocator;
    source->container = "safetensors";
    int code = 0;
    if (!files->config.data)
        code = rf_fail(error, RF_ERR_IO, "%s: config.json is missing", files->folder);
    if (!code) code = parse_text(&hf, "config.json", files->config, &hf.config);
    if (!code)
        code = parse_text(&hf, "generation_config.json", files->generation_config,
                          &hf.generation_config);
    if (!code)
        code =
            parse_text(&hf, "tokenizer_config.json", files->tokenizer_config, &hf.tokenizer_config);
    if (!code) code = parse_text(&hf, "tokenizer.json", files->tokenizer, &hf.tokenizer);
    if (!code)
        code = parse_text(&hf, "chat_template.json", files->chat_template_json, &hf.chat_template);
    if (!code) code = rf_hf_read_params(&hf);
    if (!code)
        code = rf_safetensors_read(&hf,
                                   rf_json_is_true(rf_json_get(hf.config, "tie_word_embeddings")));
    if (!code) code = rf_tensors_sort(source, files->folder, rf_hf_tensor_name, error);
    if (!code) code = rf_layout_check(source, files->folder, rf_hf_tensor_name, error);
    if (!code && source->params.tied_output &&
        !rf_json_is_true(rf_json_get(hf.config, "tie_word_embeddings")))
        code = rf_fail(error, RF_ERR_FORMAT,
                       "%s: tensor lm_head.weight is missing, and config.json does not tie it to "
                       "the embedding",
                       files->folder);
    if (!code) code = rf_hf_read_vocab(&hf);
    rf_json_free(hf.config);
    rf_json_free(hf.generation_config);
    rf_json_free(hf.tokenizer_config);
    rf_json_free(hf.tokenizer);
    rf_json_free(hf.chat_template);
    rf_arena_free(&hf.scratch);
    return code;
}
