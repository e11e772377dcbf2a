/* Reads ollama's manifests, FOLDER/manifests/HOST/OWNER/NAME/TAG, and finds the blob with the
 * weights, FOLDER/blobs/sha256-HEX. A model with an adapter is not the file alone, and is left
 * out. */
#include "models/blobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "fetch/sha256.h"
#include "hubs/types.h"
#include "output/buffer.h"
#include "platform/file.h"
#include "platform/folder.h"

struct blobs {
    struct model_list *list;
    const char *folder;
    const char *part[4]; /* HOST, OWNER, NAME, TAG, as far as they are known */
    int depth;
    const char *path; /* of the last of them */
};

/* The digest of the layer with the weights, 64 digits, or NULL. */
static const char *manifest_digest(const json_t *manifest)
{
    static const char model[] = "application/vnd.ollama.image.model",
                      adapter[] = "application/vnd.ollama.image.adapter";
    const json_t *layers = json_object_get(manifest, "layers");
    const char *digest = NULL;
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *layer = json_array_get(layers, i);
        const char *type = rf_json_c_string(json_object_get(layer, "mediaType"));
        const char *text = rf_json_c_string(json_object_get(layer, "digest"));
        char lower[SHA256_TEXT];
        if (type && strcmp(type, adapter) == 0) return NULL;
        if (!type || strcmp(type, model) != 0) continue;
        if (!text || strncmp(text, "sha256:", 7) != 0 || !sha256_parse(text + 7, lower))
            return NULL;
        digest = text + 7;
    }
    return digest;
}

/* The name that the model has on a hub. ollama also keeps models of Hugging Face. */
static int blobs_hub(const struct blobs *blobs, struct hub_name *hub)
{
    const char *host = blobs->part[0];
    if (strcmp(host, "registry.ollama.ai") == 0) host = "ollama.com";
    if (!hub_name_of_folder(host, blobs->part[1], blobs->part[2], hub)) return 0;
    snprintf(hub->type, sizeof hub->type, "%s", blobs->part[3]);
    return hub_is_plain(hub->type);
}

static void blobs_add_manifest(const struct blobs *blobs)
{
    struct rf_error ignored;
    struct hub_name hub;
    char *text, name[HUB_NAME_TEXT];
    size_t n;
    if (!blobs_hub(blobs, &hub) || rf_slurp(blobs->path, 1 << 20, &text, &n, &ignored) != 0) return;
    json_t *manifest = rf_json_load(text, n, NULL, NULL);
    const char *digest = manifest_digest(manifest);
    struct buffer path = {0};
    buffer_printf(&path, "%s/blobs/sha256-%s", blobs->folder, digest ? digest : "");
    hub_name_write(&hub, name);
    if (digest)
        model_list_add(blobs->list, name, path.data + strlen(blobs->folder) + 7, path.data,
                       "ollama", &hub);
    buffer_free(&path);
    json_decref(manifest);
    free(text);
}

static int blobs_visit(void *user, const char *name)
{
    const struct blobs *blobs = user;
    struct blobs below = *blobs;
    struct buffer path = {0};
    struct rf_error ignored;
    if (name[0] == '.') return 0;
    buffer_printf(&path, "%s/%s", blobs->path, name);
    below.path = path.data;
    below.part[below.depth++] = name;
    if (below.depth < 4 && rf_is_directory(path.data))
        rf_folder_each(path.data, blobs_visit, &below, &ignored);
    else if (below.depth == 4 && rf_file_bytes(path.data) > 0)
        blobs_add_manifest(&below);
    buffer_free(&path);
    return 0;
}

void blobs_add(struct model_list *list, const char *path)
{
    struct buffer manifests = {0};
    struct rf_error ignored;
    buffer_printf(&manifests, "%s/manifests", path);
    struct blobs blobs = {.list = list, .folder = path, .path = manifests.data};
    if (rf_is_directory(manifests.data))
        rf_folder_each(manifests.data, blobs_visit, &blobs, &ignored);
    buffer_free(&manifests);
}
