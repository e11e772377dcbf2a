/* Reads names and page addresses of the hubs. A text that could be a path is none: the owner of a
 * repository never begins with a dot, and a file's name ends in .gguf. */
#include "hubs/name.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fetch/http.h"
#include "platform/file.h"

/* The hosts of each hub; the first of a hub names its folder. */
static const struct {
    const char *host;
    enum hub hub;
} hosts[] = {{"hf.co", HUB_HUGGINGFACE},
             {"huggingface.co", HUB_HUGGINGFACE},
             {"ollama.com", HUB_OLLAMA},
             {"registry.ollama.ai", HUB_OLLAMA},
             {"modelscope.cn", HUB_MODELSCOPE}};
enum { N_HOSTS = sizeof hosts / sizeof *hosts };

static const struct {
    const char *variable, *address;
} addresses[HUB_COUNT] = {[HUB_HUGGINGFACE] = {"HF_ENDPOINT", "https://huggingface.co"},
                          [HUB_OLLAMA] = {"RIFFLE_OLLAMA_REGISTRY", "https://registry.ollama.ai"},
                          [HUB_MODELSCOPE] = {"MODELSCOPE_DOMAIN", "https://modelscope.cn"}};

void hub_address(enum hub hub, char *address, size_t cap)
{
    const char *chosen = getenv(addresses[hub].variable);
    if (!chosen || !chosen[0]) chosen = addresses[hub].address;
    size_t n = strlen(chosen);
    while (n && chosen[n - 1] == '/') n--;
    snprintf(address, cap, "%s%.*s", strstr(chosen, "://") ? "" : "https://", (int)n, chosen);
}

/* ---- pieces -------------------------------------------------------------------------------- */

/* The parts of a path between slashes. */
struct pieces {
    const char *at[16];
    size_t n[16], count;
};

static void name_cut(const char *text, size_t bytes, struct pieces *pieces)
{
    pieces->count = 0;
    for (size_t i = 0; i < bytes && pieces->count < 16;) {
        size_t n = 0;
        while (i + n < bytes && text[i + n] != '/') n++;
        pieces->at[pieces->count] = text + i;
        pieces->n[pieces->count++] = n;
        i += n + 1;
    }
}

static int piece_is(const struct pieces *pieces, size_t i, const char *word)
{
    return i < pieces->count && strlen(word) == pieces->n[i] &&
           strncasecmp(pieces->at[i], word, pieces->n[i]) == 0;
}

/* Copies a plain piece. */
static int name_take(char part[HUB_PART], const char *text, size_t n)
{
    if (!n || n >= HUB_PART) return 0;
    memcpy(part, text, n);
    part[n] = 0;
    return hub_is_plain(part);
}

/* "REPO:TYPE" or "REPO". */
static int name_take_repo(struct hub_name *name, const char *text, size_t n)
{
    const char *colon = memchr(text, ':', n);
    size_t n_repo = colon ? (size_t)(colon - text) : n, n_type = colon ? n - n_repo - 1 : 0;
    if (!name_take(name->repo, text, n_repo) || n_type >= HUB_TYPE || (colon && !n_type)) return 0;
    memcpy(name->type, n_type ? colon + 1 : "", n_type);
    name->type[n_type] = 0;
    if (n_type && !hub_is_plain(name->type)) return 0;
    /* ollama's tag for models of others that were fetched without one. */
    if (name->hub != HUB_OLLAMA && type_same_text(name->type, "latest")) name->type[0] = 0;
    return 1;
}

/* ---- the hubs ------------------------------------------------------------------------------ */

/* Behind the repository in the address of a page: /resolve/REVISION/PATH. The path becomes the
 * type. */
static int name_take_rest(struct hub_name *name, const struct pieces *pieces, size_t i)
{
    static const char *const views[] = {"resolve", "blob", "raw", "tree", "file"};
    size_t known = 0;
    if (i == pieces->count) return 1;
    while (known < 5 && !piece_is(pieces, i, views[known])) known++;
    if (known == 5) return piece_is(pieces, i, "summary") || piece_is(pieces, i, "files");
    if (piece_is(pieces, i, "file") && piece_is(pieces, i + 1, "view")) i++;
    if (++i == pieces->count) return 0;
    if (http_unescape(pieces->at[i], pieces->n[i], name->revision, HUB_PART) != 0) return 0;
    if (++i == pieces->count) return 1;
    const char *end = pieces->at[pieces->count - 1] + pieces->n[pieces->count - 1];
    if (http_unescape(pieces->at[i], (size_t)(end - pieces->at[i]), name->type, HUB_TYPE) != 0)
        return 0;
    char first[HUB_TYPE];
    int number, count;
    if (type_part(name->type, &number, &count)) { /* any part means the model */
        type_other_part(name->type, 1, first, sizeof first);
        memcpy(name->type, first, sizeof first);
    }
    return 1;
}

static int name_take_repository(struct hub_name *name, const struct pieces *pieces, size_t i)
{
    static const char *const others[] = {"datasets", "spaces", "api", "docs", "collections"};
    if (name->hub == HUB_MODELSCOPE && piece_is(pieces, i, "models")) i++;
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (piece_is(pieces, i, others[k])) return 0;
    return i + 2 <= pieces->count && name_take(name->owner, pieces->at[i], pieces->n[i]) &&
           name_take_repo(name, pieces->at[i + 1], pieces->n[i + 1]) &&
           name_take_rest(name, pieces, i + 2);
}

static int name_take_ollama(struct hub_name *name, const struct pieces *pieces, size_t i)
{
    int has_owner = i + 2 == pieces->count;
    if (i >= pieces->count || i + 2 < pieces->count) return 0;
    if (!name_take(name->owner, has_owner ? pieces->at[i] : "library",
                   has_owner ? pieces->n[i] : 7))
        return 0;
    if (!name_take_repo(name, pieces->at[pieces->count - 1], pieces->n[pieces->count - 1]))
        return 0;
    if (!name->type[0]) strcpy(name->type, "latest");
    return 1;
}

static int name_take_pieces(struct hub_name *name, const struct pieces *pieces, size_t i)
{
    return name->hub == HUB_OLLAMA ? name_take_ollama(name, pieces, i)
                                   : name_take_repository(name, pieces, i);
}

/* The hub that a text begins with the host of; *rest is behind it. */
static enum hub hub_of_host(const char *text, const char **rest)
{
    if (strncasecmp(text, "www.", 4) == 0) text += 4;
    for (size_t i = 0; i < N_HOSTS; i++) {
        size_t n = strlen(hosts[i].host);
        if (strncasecmp(text, hosts[i].host, n) != 0 || text[n] != '/') continue;
        *rest = text + n + 1;
        return hosts[i].hub;
    }
    return HUB_NONE;
}

/* The hub of an address: that of a host, or of a variable. */
static enum hub hub_of_url(const char *url, const char **rest)
{
    if (strncasecmp(url, "https://", 8) == 0) {
        enum hub hub = hub_of_host(url + 8, rest);
        if (hub) return hub;
    }
    for (enum hub hub = HUB_HUGGINGFACE; hub < HUB_COUNT; hub++) {
        char address[512];
        hub_address(hub, address, sizeof address);
        size_t n = strlen(address);
        if (strncmp(url, address, n) != 0 || url[n] != '/') continue;
        *rest = url + n + 1;
        return hub;
    }
    return HUB_NONE;
}

/* OWNER/REPO[:TYPE], or NAME:TAG. A folder of the owner's name makes it a path. */
static int name_parse_bare(const char *text, struct hub_name *name)
{
    struct pieces pieces;
    size_t n = strlen(text);
    int is_file = n > 5 && type_same_text(text + n - 5, ".gguf");
    name_cut(text, n, &pieces);
    if (pieces.count == 2 && text[n - 1] != '/' && (!is_file || strchr(text, ':'))) {
        name->hub = HUB_HUGGINGFACE;
        return name_take_repository(name, &pieces, 0) && !rf_path_exists(name->owner);
    }
    name->hub = HUB_OLLAMA;
    /* One letter before a colon is a drive of Windows. */
    return pieces.count == 1 && strchr(text, ':') && text[1] != ':' && !is_file &&
           name_take_ollama(name, &pieces, 0);
}

int hub_name_parse(const char *text, struct hub_name *name)
{
    struct pieces pieces;
    const char *rest = text;
    *name = (struct hub_name){.hub = HUB_NONE};
    int is_url = http_is_url(text);
    name->hub = is_url ? hub_of_url(text, &rest) : hub_of_host(text, &rest);
    if (!name->hub) return !is_url && name_parse_bare(text, name);
    name_cut(rest, strcspn(rest, "?#"), &pieces);
    return name_take_pieces(name, &pieces, 0);
}

/* ---- writing ------------------------------------------------------------------------------- */

static const char *folder_of_hub(enum hub hub)
{
    size_t i = 0;
    while (hosts[i].hub != hub) i++;
    return hosts[i].host;
}

void hub_name_write(const struct hub_name *name, char text[HUB_NAME_TEXT])
{
    int is_library = name->hub == HUB_OLLAMA && strcmp(name->owner, "library") == 0;
    snprintf(text, HUB_NAME_TEXT, "%s%s%s%s%s%s%s",
             name->hub == HUB_HUGGINGFACE || is_library ? "" : folder_of_hub(name->hub),
             name->hub == HUB_HUGGINGFACE || is_library ? "" : "/", is_library ? "" : name->owner,
             is_library ? "" : "/", name->repo, name->type[0] ? ":" : "", name->type);
}

void hub_name_folder(const struct hub_name *name, char text[HUB_NAME_TEXT])
{
    snprintf(text, HUB_NAME_TEXT, "%s/%s/%s", folder_of_hub(name->hub), name->owner, name->repo);
}

int hub_name_of_folder(const char *host, const char *owner, const char *repo, struct hub_name *name)
{
    *name = (struct hub_name){.hub = HUB_NONE};
    for (size_t i = 0; i < N_HOSTS; i++)
        if (strcmp(host, hosts[i].host) == 0 && strcmp(host, folder_of_hub(hosts[i].hub)) == 0)
            name->hub = hosts[i].hub;
    return name->hub && name_take(name->owner, owner, strlen(owner)) &&
           name_take(name->repo, repo, strlen(repo));
}
