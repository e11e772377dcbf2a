/* Lists of words that a line may go on with. Words that do not begin with what was typed are not
 * taken. The line editor shows such a list; a chat fills it. */
#include "terminal/completion.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "output/buffer.h"
#include "platform/file.h"

void completion_offer(struct completion *completion, const char *typed, const char *word,
                      const char *end)
{
    struct buffer whole = {0};
    if (strncmp(word, typed, strlen(typed)) != 0) return;
    buffer_printf(&whole, "%s%s", word, end);
    completion->words =
        cli_reallocate(completion->words, completion->count + 1, sizeof *completion->words);
    completion->words[completion->count++] = whole.data;
}

/* Whether a line can hold the name: neither it nor a list of completions is escaped. */
static int holds_only_text(const char *name)
{
    char shown[RF_UTF8_SHOWN];
    size_t n = strlen(name);
    for (size_t i = 0, used; i < n; i += used) {
        size_t length = rf_utf8_show(name + i, n - i, shown, &used);
        if (length != used || memcmp(shown, name + i, used) != 0) return 0;
    }
    return 1;
}

struct folder {
    struct completion *completion;
    const char *path, *typed;
};

static void offer_file(void *user, const char *name)
{
    const struct folder *folder = user;
    struct buffer path = {0};
    /* Hidden files only where asked for. */
    if ((name[0] == '.' && folder->typed[0] != '.') || !holds_only_text(name)) return;
    buffer_printf(&path, "%s/%s", folder->path, name);
    completion_offer(folder->completion, folder->typed, name,
                     rf_is_directory(path.data) ? "/" : "");
    buffer_free(&path);
}

void completion_offer_files(struct completion *completion, const char *typed)
{
    char path[4096];
    const char *slash = rf_path_separator(typed);
    if (strcmp(typed, "~") == 0) {
        completion_offer(completion, typed, "~", "/");
        return;
    }
    char *folder = slash ? cli_copy(typed, (size_t)(slash - typed) + 1) : cli_copy(".", 1);
    const char *name = slash ? slash + 1 : typed;
    completion->begin += (size_t)(name - typed);
    if (rf_expand_home(folder, path, sizeof path) == 0)
        rf_visit_folder(path, offer_file, &(struct folder){completion, path, name});
    free(folder);
}

static int by_word(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t common_bytes(const struct completion *completion)
{
    size_t n = completion->count ? strlen(completion->words[0]) : 0;
    for (size_t i = 1; i < completion->count; i++) {
        size_t same = 0;
        while (same < n && completion->words[i][same] == completion->words[0][same]) same++;
        n = same;
    }
    return n ? rf_utf8_valid_prefix(completion->words[0], n) : 0;
}

void completion_finish(struct completion *completion)
{
    if (completion->count > 1)
        qsort(completion->words, completion->count, sizeof *completion->words, by_word);
    completion->common = common_bytes(completion);
}

void completion_free(struct completion *completion)
{
    for (size_t i = 0; i < completion->count; i++) free(completion->words[i]);
    free(completion->words);
    *completion = (struct completion){0};
}
