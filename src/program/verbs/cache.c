/* The verb cache: what the library keeps between runs, and removing it. Everything in the list can
 * be computed again; other files of the folder are neither shown nor touched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/options.h"
#include "output/buffer.h"
#include "output/errors.h"
#include "output/json.h"
#include "output/output.h"
#include "platform/folder.h"
#include "session/cache.h"
#include "verbs/verbs.h"

/* The kinds of files by the beginnings of their names. */
static const struct cache_kind {
    const char *prefix, *kind, *plural;
} cache_kinds[] = {{"cast-", "cast", "casts of draft models"},
                   {"pace-", "pace", "measured speeds of models"}};
enum { N_KINDS = sizeof cache_kinds / sizeof *cache_kinds };

struct cache_count {
    const char *folder;
    int clears;
    struct buffer path;
    struct json_writer json;
    uint64_t bytes[N_KINDS];
    int64_t files[N_KINDS];
    struct rf_error error;
};

static int cache_entry(void *user, const char *name)
{
    struct cache_count *count = user;
    struct rf_file_mark mark;
    int k = 0;
    while (k < N_KINDS && strncmp(name, cache_kinds[k].prefix, strlen(cache_kinds[k].prefix)) != 0)
        k++;
    if (k == N_KINDS) return 0;
    buffer_clear(&count->path);
    buffer_printf(&count->path, "%s/%s", count->folder, name);
    if (rf_kind_of(count->path.data) != RF_KIND_FILE ||
        rf_file_mark_get(count->path.data, &mark) != 0)
        return 0;
    if (count->clears && rf_remove(count->path.data, &count->error) != 0) return RF_ERR_IO;
    count->bytes[k] += mark.bytes;
    count->files[k]++;
    jw_put(&count->json, "{ name %s kind %s bytes %" PRIu64 " }", name, cache_kinds[k].kind,
           mark.bytes);
    return 0;
}

static void cache_print(const struct cache_count *count)
{
    char size[32];
    print_name(stdout, count->folder);
    printf("%s\n", count->clears ? ", cleared" : "");
    for (int k = 0; k < N_KINDS; k++)
        printf("%8s  %s (%" PRId64 " file%s)\n", human_bytes(count->bytes[k], size),
               cache_kinds[k].plural, count->files[k], plural(count->files[k]));
}

int verb_cache(const struct cli_options *options)
{
    char folder[LONGEST_PATH];
    struct cache_count count = {.clears = options->clear};
    count.folder = cache_folder(folder);
    if (!count.folder)
        return cli_fail("the cache folder is unknown: set XDG_CACHE_HOME or HOME to an absolute "
                        "path");
    jw_put(&count.json, "{ folder %s files [", folder);
    int code = rf_kind_of(folder) == RF_KIND_NONE
                   ? 0
                   : rf_folder_each(folder, cache_entry, &count, &count.error);
    jw_put(&count.json, "]");
    jw_bool(&count.json, "cleared", options->clear && !code);
    jw_put(&count.json, "}");
    int status = code ? cli_fail("%s", count.error.text) : CLI_OK;
    if (status == CLI_OK && options->json)
        jw_print(&count.json);
    else if (status == CLI_OK)
        cache_print(&count);
    buffer_free(&count.path);
    buffer_free(&count.json.text);
    return status;
}
