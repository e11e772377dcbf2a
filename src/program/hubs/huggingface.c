/* Hugging Face's hub: GET /api/models/OWNER/REPO/tree/REVISION?recursive=1, an array of {type,
 * path, size, lfs: {oid, size}} in pages (https://huggingface.co/docs/hub/api), and files at
 * /OWNER/REPO/resolve/REVISION/PATH. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "hubs/listing.h"

enum { MOST_PAGES = 200 };

static const char *huggingface_revision(const struct listing *listing)
{
    return listing->name.revision[0] ? listing->name.revision : "main";
}

int huggingface_url(const struct listing *listing, const struct hub_file *file, char url[HTTP_URL])
{
    char path[3 * 512], revision[3 * HUB_PART];
    if (http_escape(file->path, 1, path, sizeof path) != 0 ||
        http_escape(huggingface_revision(listing), 0, revision, sizeof revision) != 0)
        return -1;
    int n = snprintf(url, HTTP_URL, "%s/%s/%s/resolve/%s/%s", listing->address, listing->name.owner,
                     listing->name.repo, revision, path);
    return n > 0 && n < HTTP_URL ? 0 : -1;
}

static int huggingface_add_entry(struct listing *listing, const json_t *entry, const char *url,
                                 struct rf_error *error)
{
    const char *type = rf_json_c_string(json_object_get(entry, "type"));
    const char *path = rf_json_c_string(json_object_get(entry, "path"));
    const json_t *lfs = json_object_get(entry, "lfs");
    int64_t bytes;
    if (type && strcmp(type, "file") != 0) return 0;
    if (!type || !path || !rf_json_to_int64(json_object_get(entry, "size"), &bytes))
        return listing_bad(url, "lists a file without type, path or size", error);
    const char *sha256 = rf_json_c_string(json_object_get(lfs, "oid"));
    if (rf_json_is_map(lfs) && (!sha256 || !rf_json_to_int64(json_object_get(lfs, "size"), &bytes)))
        return listing_bad(url, "lists a large file without hash or size", error);
    return listing_add(listing, path, bytes, sha256, error);
}

/* The name that the repository has after redirects, which lead from an old one to the present one.
 */
static void huggingface_adopt_name(struct listing *listing, const char *url)
{
    char owner[HUB_PART], repo[HUB_PART], before[HUB_NAME_TEXT];
    struct hub_name *name = &listing->name;
    const char *path = strstr(url, "/api/models/");
    if (!path || sscanf(path, "/api/models/%96[^/]/%96[^/]/", owner, repo) != 2) return;
    if (!hub_is_plain(owner) || !hub_is_plain(repo) ||
        (strcmp(owner, name->owner) == 0 && strcmp(repo, name->repo) == 0))
        return;
    hub_name_write(name, before);
    snprintf(listing->moved, sizeof listing->moved, "%s", before);
    memcpy(name->owner, owner, sizeof owner);
    memcpy(name->repo, repo, sizeof repo);
}

/* Whether two addresses have the same protocol, host and port. */
static int same_server(const char *a, const char *b)
{
    const char *host = strstr(a, "://");
    size_t n = host ? (size_t)(host + 3 - a) + strcspn(host + 3, "/") : 0;
    return n && strncmp(a, b, n) == 0 && (b[n] == '/' || !b[n]);
}

int huggingface_list(struct listing *listing, const struct hub_call *call, struct rf_error *error)
{
    char url[HTTP_URL], from[HTTP_URL], next[HTTP_URL], revision[3 * HUB_PART];
    int code = 0;
    http_escape(huggingface_revision(listing), 0, revision, sizeof revision);
    snprintf(url, sizeof url, "%s/api/models/%s/%s/tree/%s?recursive=1", listing->address,
             listing->name.owner, listing->name.repo, revision);
    for (int page = 0; !code && url[0]; page++) {
        if (page == MOST_PAGES) return listing_bad(url, "has more pages than any model", error);
        json_t *entries = listing_page(listing, url, "application/json", call, from, next, error);
        if (!entries) return error->code;
        if (!json_is_array(entries)) code = listing_bad(url, "is not a list of files", error);
        for (size_t i = 0; !code && i < json_array_size(entries); i++)
            code = huggingface_add_entry(listing, json_array_get(entries, i), url, error);
        json_decref(entries);
        if (page == 0) huggingface_adopt_name(listing, from);
        if (!code && next[0] && !same_server(from, next))
            code = listing_bad(url, "continues on another server", error);
        memcpy(url, next, sizeof url);
    }
    return code;
}
