/* ollama's registry: GET /v2/OWNER/NAME/manifests/TAG gives an image manifest (OCI distribution
 * specification), whose layer of the type application/vnd.ollama.image.model is the GGUF file. Its
 * bytes are at /v2/OWNER/NAME/blobs/DIGEST. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "hubs/listing.h"

static const char accepted[] = "application/vnd.docker.distribution.manifest.v2+json, "
                               "application/vnd.oci.image.manifest.v1+json";
static const char image[] = "application/vnd.ollama.image.";

int ollama_url(const struct listing *listing, const struct hub_file *file, char url[HTTP_URL])
{
    int n = snprintf(url, HTTP_URL, "%s/v2/%s/%s/blobs/sha256:%s", listing->address,
                     listing->name.owner, listing->name.repo, file->sha256);
    return n > 0 && n < HTTP_URL ? 0 : -1;
}

/* Adds the layer with the weights. */
static int ollama_add_layer(struct listing *listing, const json_t *layer, const char *url,
                            struct rf_error *error)
{
    char file[HUB_TYPE + 8];
    const char *type = rf_json_c_string(json_object_get(layer, "mediaType"));
    const char *digest = rf_json_c_string(json_object_get(layer, "digest"));
    int64_t bytes;
    if (!type || strncmp(type, image, sizeof image - 1) != 0) return 0;
    type += sizeof image - 1;
    if (strcmp(type, "adapter") == 0)
        return rf_fail(error, RF_ERR_UNSUPPORTED,
                       "%s:%s is a model with an adapter, which Riffle does not apply",
                       listing->name.repo, listing->name.type);
    if (strcmp(type, "model") != 0) return 0;
    if (!digest || strncmp(digest, "sha256:", 7) != 0 ||
        !rf_json_to_int64(json_object_get(layer, "size"), &bytes))
        return listing_bad(url, "names a model without digest or size", error);
    snprintf(file, sizeof file, "%s.gguf", listing->name.type);
    return listing_add(listing, file, bytes, digest + 7, error);
}

int ollama_list(struct listing *listing, const struct hub_call *call, struct rf_error *error)
{
    char url[HTTP_URL], from[HTTP_URL], next[HTTP_URL];
    int code = 0;
    snprintf(url, sizeof url, "%s/v2/%s/%s/manifests/%s", listing->address, listing->name.owner,
             listing->name.repo, listing->name.type);
    json_t *manifest = listing_page(listing, url, accepted, call, from, next, error);
    if (!manifest) return error->code;
    const json_t *layers = json_object_get(manifest, "layers");
    if (!json_is_array(layers)) code = listing_bad(url, "is not a manifest", error);
    for (size_t i = 0; !code && i < json_array_size(layers); i++)
        code = ollama_add_layer(listing, json_array_get(layers, i), url, error);
    json_decref(manifest);
    if (!code && listing->count != 1)
        code = rf_fail(error, RF_ERR_UNSUPPORTED,
                       "%s:%s has %zu GGUF files in ollama's registry; one is what runs here",
                       listing->name.repo, listing->name.type, listing->count);
    return code;
}
