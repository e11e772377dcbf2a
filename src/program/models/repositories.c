/* Walks through folders of models. Nothing in other programs' folders is written, locked or
 * removed. */
#include "models/repositories.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/fetch.h"
#include "hubs/token.h"
#include "hubs/types.h"
#include "models/blobs.h"
#include "output/buffer.h"
#include "platform/file.h"
#include "platform/folder.h"

/* A folder that is searched. */
struct search {
    struct model_list *list;
    struct hub_name hub; /* what it holds; HUB_NONE: unknown */
    const char *place;   /* "": Riffle's own */
    const char *path;
    int depth; /* folders below it that are searched, too */
};

static void search_folder(const struct search *search);

/* Calls `each` for the names in a folder, which need not exist. */
static void each_name(const char *path, int (*each)(void *user, const char *name), void *user)
{
    struct rf_error ignored;
    if (rf_is_directory(path)) rf_folder_each(path, each, user, &ignored);
}

static void search_add(const struct search *search, const char *file, const char *path)
{
    struct model_list *list = search->list;
    struct hub_name hub = search->hub;
    char name[HUB_NAME_TEXT];
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].path, path) == 0) return;
    type_label(file, hub.type);
    if (rf_is_directory(path)) strcpy(hub.type, "safetensors");
    if (hub.hub == HUB_OLLAMA)
        snprintf(hub.type, sizeof hub.type, "%.*s", (int)strlen(file) - 5, file);
    if (hub.hub)
        hub_name_write(&hub, name);
    else
        snprintf(name, sizeof name, "%s", hub.type);
    /* Several revisions may be in a cache; the main one was searched first. */
    for (size_t i = 0; search->place[0] && i < list->count; i++)
        if (list->items[i].place == search->place && strcmp(list->items[i].name, name) == 0) return;
    model_list_add(list, name, file, path, search->place, hub.hub ? &hub : NULL);
}

/* A model's file, the rest of an interrupted fetch, or a folder. */
static int search_name(void *user, const char *name)
{
    const struct search *search = user;
    struct buffer path = {0};
    char file[256], first[256];
    int number, count, is_own = !search->place[0];
    int is_rest = is_own && fetch_is_rest(name, file, sizeof file);
    if (!is_rest && (name[0] == '.' || strlen(name) >= sizeof file)) return 0;
    if (!is_rest) strcpy(file, name);
    buffer_printf(&path, "%s/%s", search->path, file);
    if (!is_rest && rf_is_directory(path.data)) {
        struct search below = *search;
        below.path = path.data;
        below.depth--;
        if (search->depth > 0) search_folder(&below);
    } else {
        /* A part of a split model stands for the model where that is not complete. */
        if (type_part(file, &number, &count)) {
            type_other_part(file, 1, first, sizeof first);
            buffer_clear(&path);
            buffer_printf(&path, "%s/%s", search->path, first);
            strcpy(file, first);
        }
        if (type_is_model_file(file)) search_add(search, file, path.data);
    }
    buffer_free(&path);
    return 0;
}

static void search_folder(const struct search *search)
{
    struct search own = *search;
    size_t n;
    const char *last = rf_path_last(search->path, &n);
    /* A folder of Riffle's that is called as its repository was fetched, perhaps in part. */
    int is_fetched = !search->place[0] && search->depth == 0 && strcmp(last, search->hub.repo) == 0;
    if (is_fetched || (search->hub.hub && model_folder_bytes(search->path) >= 0))
        search_add(search, last, search->path);
    if (!is_fetched) each_name(search->path, search_name, &own);
}

/* ---- folders of repositories: HOST/OWNER/REPO ----------------------------------------------- */

/* Where a walk through OWNER/REPO is. */
struct walk {
    struct model_list *list;
    const char *place, *host, *path;
    const char *owner;
    int depth; /* of files below a repository */
};

static int walk_repo(void *user, const char *repo)
{
    const struct walk *walk = user;
    struct buffer path = {0};
    struct search search = {.list = walk->list, .place = walk->place, .depth = walk->depth};
    if (repo[0] == '.') return 0;
    buffer_printf(&path, "%s/%s", walk->path, repo);
    search.path = path.data;
    hub_name_of_folder(walk->host, walk->owner, repo, &search.hub);
    if (search.hub.hub) search_folder(&search);
    buffer_free(&path);
    return 0;
}

static int walk_owner(void *user, const char *owner)
{
    struct walk walk = *(const struct walk *)user;
    struct buffer path = {0};
    if (owner[0] == '.') return 0;
    buffer_printf(&path, "%s/%s", walk.path, owner);
    walk.path = path.data;
    walk.owner = owner;
    each_name(path.data, walk_repo, &walk);
    buffer_free(&path);
    return 0;
}

void repositories_add_own(struct model_list *list)
{
    static const char *const hosts[] = {"hf.co", "ollama.com", "modelscope.cn"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct buffer path = {0};
        buffer_printf(&path, "%s/%s", list->folder, hosts[i]);
        struct walk walk = {list, "", hosts[i], path.data, NULL, 1};
        each_name(path.data, walk_owner, &walk);
        buffer_free(&path);
    }
}

/* ---- Hugging Face's cache: models--OWNER--REPO/snapshots/REVISION ---------------------------- */

/* Searches the snapshot that refs/main names. */
static void search_main(struct search *search, const char *repo)
{
    struct buffer path = {0};
    struct rf_error ignored;
    char *revision;
    size_t n;
    buffer_printf(&path, "%s/refs/main", repo);
    if (rf_file_bytes(path.data) > 0 && rf_slurp(path.data, 256, &revision, &n, &ignored) == 0) {
        revision[strcspn(revision, " \r\n")] = 0;
        buffer_clear(&path);
        buffer_printf(&path, "%s/snapshots/%s", repo, revision);
        search->path = path.data;
        if (hub_is_plain(revision)) search_folder(search);
        free(revision);
    }
    buffer_free(&path);
}

static int search_cached(void *user, const char *name)
{
    const struct walk *walk = user;
    char owner[HUB_PART];
    const char *end = strncmp(name, "models--", 8) == 0 ? strstr(name + 8, "--") : NULL;
    struct buffer path = {0};
    struct search search = {.list = walk->list, .place = walk->place, .depth = 1};
    if (!end || (size_t)(end - name - 8) >= sizeof owner) return 0;
    snprintf(owner, sizeof owner, "%.*s", (int)(end - name - 8), name + 8);
    if (!hub_name_of_folder("hf.co", owner, end + 2, &search.hub)) return 0;
    buffer_printf(&path, "%s/%s", walk->path, name);
    search_main(&search, path.data);
    buffer_clear(&path);
    buffer_printf(&path, "%s/%s/snapshots", walk->path, name);
    search.path = path.data; /* other revisions, where main has another file or none */
    search.depth = 2;
    search_folder(&search);
    buffer_free(&path);
    return 0;
}

/* ---- all of them ---------------------------------------------------------------------------- */

/* A variable's folder, else one below the home folder. 0 or -1. */
static int place_folder(const char *variable, const char *below, char path[LONGEST_PATH])
{
    const char *chosen = variable ? getenv(variable) : NULL;
    char home[LONGEST_PATH];
    int n;
    if (chosen && chosen[0])
        n = snprintf(path, LONGEST_PATH, "%s", chosen);
    else if (rf_home(home, sizeof home) == 0)
        n = snprintf(path, LONGEST_PATH, "%s/%s", home, below);
    else
        return -1;
    return n > 0 && n < LONGEST_PATH ? 0 : -1;
}

static void add_huggingface(struct model_list *list)
{
    const char *chosen = getenv("HF_HUB_CACHE");
    char path[LONGEST_PATH], cache[LONGEST_PATH - 8];
    if (!chosen || !chosen[0]) chosen = getenv("HUGGINGFACE_HUB_CACHE"); /* its old name */
    if (chosen && chosen[0])
        snprintf(path, sizeof path, "%s", chosen);
    else if (hub_cache_folder(cache, sizeof cache) == 0)
        snprintf(path, sizeof path, "%s/hub", cache);
    else
        return;
    struct walk walk = {list, "Hugging Face", "hf.co", path, NULL, 1};
    each_name(path, search_cached, &walk);
}

static void add_lm_studio(struct model_list *list)
{
    static const char *const places[] = {".lmstudio/models", ".cache/lm-studio/models"};
    char path[LONGEST_PATH];
    for (size_t i = 0; i < 2; i++) {
        if (place_folder(NULL, places[i], path) != 0) continue;
        struct walk walk = {list, "LM Studio", "hf.co", path, NULL, 1};
        each_name(path, walk_owner, &walk);
    }
}

static void add_llama_cpp(struct model_list *list)
{
    char path[LONGEST_PATH];
    const struct search search = {.list = list, .place = "llama.cpp", .path = path};
    if (place_folder("LLAMA_CACHE", ".cache/llama.cpp", path) == 0) search_folder(&search);
}

void repositories_add_others(struct model_list *list)
{
    char path[LONGEST_PATH];
    const char *chosen = getenv("OLLAMA_MODELS");
    add_huggingface(list);
    add_lm_studio(list);
    if (place_folder("OLLAMA_MODELS", ".ollama/models", path) == 0) blobs_add(list, path);
    /* The service of ollama's installer has a user of its own. */
    if (!chosen || !chosen[0]) blobs_add(list, "/usr/share/ollama/.ollama/models");
    add_llama_cpp(list);
}

/* ---- a folder as MODEL ---------------------------------------------------------------------- */

struct only {
    const char *folder;
    struct buffer path;
    int count;
};

static int count_model(void *user, const char *name)
{
    struct only *only = user;
    if (!type_is_model_file(name)) return 0;
    buffer_clear(&only->path);
    buffer_printf(&only->path, "%s/%s", only->folder, name);
    only->count++;
    return 0;
}

char *repository_only_model(const char *folder, int *count)
{
    struct only only = {.folder = folder};
    each_name(folder, count_model, &only);
    *count = only.count;
    if (only.count == 1) return only.path.data;
    buffer_free(&only.path);
    return NULL;
}
