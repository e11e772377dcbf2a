/* ModelScope: GET /api/v1/models/OWNER/REPO/repo/files?Revision=R&Recursive=True, {Code, Data:
 * {Files: [{Type, Path, Size, Sha256}]}}, and files at /models/OWNER/REPO/resolve/R/PATH, as
 * modelscope's own client asks for them (modelscope/hub/api.py). */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "hubs/listing.h"

static const char *modelscope_revision(const struct listing *listing)
{
    return listing->name.revision[0] ? listing->name.revision : "master";
}

int modelscope_url(const struct listing *listing, const struct hub_file *file, char url[HTTP_URL])
{
    char path[3 * 512], revision[3 * HUB_PART];
    if (http_escape(file->path, 1, path, sizeof path) != 0 ||
        http_escape(modelscope_revision(listing), 0, revision, sizeof revision) != 0)
        return -1;
    int n = snprintf(url, HTTP_URL, "%s/models/%s/%s/resolve/%s/%s", listing->address,
                     listing->name.owner, listing->name.repo, revision, path);
    return n > 0 && n < HTTP_URL ? 0 : -1;
}

static int modelscope_add_entry(struct listing *listing, const json_t *entry, const char *url,
                                struct rf_error *error)
{
    const char *type = rf_json_c_string(json_object_get(entry, "Type"));
    const char *path = rf_json_c_string(json_object_get(entry, "Path"));
    const char *sha256 = rf_json_c_string(json_object_get(entry, "Sha256"));
    int64_t bytes;
    if (type && strcmp(type, "blob") != 0) return 0;
    if (!type || !path || !rf_json_to_int64(json_object_get(entry, "Size"), &bytes))
        return listing_bad(url, "lists a file without type, path or size", error);
    return listing_add(listing, path, bytes, sha256 && sha256[0] ? sha256 : NULL, error);
}

int modelscope_list(struct listing *listing, const struct hub_call *call, struct rf_error *error)
{
    char url[HTTP_URL], from[HTTP_URL], next[HTTP_URL], revision[3 * HUB_PART];
    int code = 0;
    http_escape(modelscope_revision(listing), 0, revision, sizeof revision);
    snprintf(url, sizeof url, "%s/api/v1/models/%s/%s/repo/files?Revision=%s&Recursive=True",
             listing->address, listing->name.owner, listing->name.repo, revision);
    json_t *answer = listing_page(listing, url, "application/json", call, from, next, error);
    if (!answer) return error->code;
    const json_t *files = json_object_get(json_object_get(answer, "Data"), "Files");
    if (!json_is_array(files)) code = listing_bad(url, "is not a list of files", error);
    for (size_t i = 0; !code && i < json_array_size(files); i++)
        code = modelscope_add_entry(listing, json_array_get(files, i), url, error);
    json_decref(answer);
    return code;
}
