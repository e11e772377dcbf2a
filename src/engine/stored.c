/* The folder of stored texts: what it holds for one kind of sessions, its bound, and its files,
 * whose names are "text-KEY-HASH" with the key of the sessions and a hash of the tokens. The time
 * of a file says when it was last used. */
#include "engine/stored.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/state.h"
#include "platform/file.h"
#include "platform/folder.h"

enum {
    LONGEST_PATH = 4096,
    NAME_BYTES = 5 + 16 + 1 + 16, /* text-KEY-HASH */
    LEAST_TOKENS = 16             /* shorter texts are read again as fast */
};

struct stored_text {
    char name[NAME_BYTES + 1];
    int32_t *tokens; /* [n], of which the first n_read have keys and values */
    int32_t n, n_read;
};

struct rf_stored {
    const struct rf_allocator *allocator;
    riffle_batch_options options; /* its members store_* */
    const struct rf_session *root;
    uint64_t key;
    struct stored_text *texts; /* [n] */
    size_t n, cap;
    struct rf_error *error; /* while the folder is read */
};

static int stored_path(const struct rf_stored *stored, const char *name, char path[LONGEST_PATH])
{
    int n = snprintf(path, LONGEST_PATH, "%s/%s", stored->options.store_folder, name);
    return n > 0 && n < LONGEST_PATH ? 0 : -1;
}

static void stored_tell(const struct rf_stored *stored, const char *sentence)
{
    if (stored->options.on_store) stored->options.on_store(stored->options.store_user, sentence);
}

/* Tells why a file cannot be used, and removes it if its bytes are wrong. A file of another
 * version, or with a longer text than the context, may be of use to others. */
static void give_up(const struct rf_stored *stored, const char *path, int code,
                    const struct rf_error *why)
{
    char sentence[sizeof why->text + 16];
    if (code == RF_ERR_CONTEXT || code == RF_ERR_UNSUPPORTED) return;
    int is_removed = (code == RF_ERR_FORMAT || code == RF_ERR_ARGUMENT) && !rf_remove(path, NULL);
    snprintf(sentence, sizeof sentence, "%s%s", why->text, is_removed ? "; removed" : "");
    stored_tell(stored, sentence);
}

static void drop_text(struct rf_stored *stored, size_t i)
{
    rf_free(stored->allocator, stored->texts[i].tokens);
    stored->texts[i] = stored->texts[--stored->n];
}

static int list_text(struct rf_stored *stored, const char *name, int32_t *tokens, int32_t n,
                     int32_t n_read, struct rf_error *error)
{
    struct stored_text *grown = rf_grow(stored->allocator, stored->texts, stored->n, 1,
                                        &stored->cap, sizeof *grown, "stored texts", error);
    if (!grown) return RF_ERR_MEMORY;
    stored->texts = grown;
    struct stored_text *text = &grown[stored->n++];
    *text = (struct stored_text){.tokens = tokens, .n = n, .n_read = n_read};
    memcpy(text->name, name, sizeof text->name);
    return 0;
}

/* ---- reading the folder ---- */

static int is_hex(const char *text, size_t n)
{
    return strspn(text, "0123456789abcdef") >= n;
}

/* Whether a file of the folder is a stored text, of any key. */
static int is_text_name(const char *name)
{
    return strlen(name) == NAME_BYTES && strncmp(name, "text-", 5) == 0 && is_hex(name + 5, 16) &&
           name[21] == '-' && is_hex(name + 22, 16);
}

/* "text-KEY-" */
static void key_prefix(uint64_t key, char prefix[NAME_BYTES])
{
    snprintf(prefix, NAME_BYTES, "text-%016" PRIx64 "-", key);
}

/* Removes what a killed process has left of a text that it wrote: beginning a file at its path does
 * so (platform/file.h). Its name is ".NAME.new-" with digits. */
static void remove_unfinished(const struct rf_stored *stored, const char *name)
{
    struct rf_new_file file;
    char path[LONGEST_PATH], text[NAME_BYTES + 1] = "";
    if (name[0] != '.' || strlen(name) <= NAME_BYTES + 1) return;
    memcpy(text, name + 1, NAME_BYTES);
    if (!is_text_name(text) || stored_path(stored, text, path)) return;
    if (!rf_new_file_open(&file, path, RF_NEW_PRIVATE, NULL)) rf_new_file_drop(&file);
}

static int find_text_file(void *user, const char *name)
{
    struct rf_stored *stored = user;
    struct rf_error why;
    char path[LONGEST_PATH], prefix[NAME_BYTES];
    int32_t *tokens, n = 0, n_read = 0;
    remove_unfinished(stored, name);
    key_prefix(stored->key, prefix);
    if (!is_text_name(name) || strncmp(name, prefix, strlen(prefix)) != 0 ||
        stored_path(stored, name, path) || rf_kind_of(path) != RF_KIND_FILE)
        return 0;
    int code = rf_state_tokens(stored->root, path, &tokens, &n, &n_read, &why);
    if (code) give_up(stored, path, code, &why);
    if (code) return 0;
    code = list_text(stored, name, tokens, n, n_read, stored->error);
    if (code) rf_free(stored->allocator, tokens);
    return code;
}

int rf_stored_open(struct rf_stored **opened, const struct rf_session *root,
                   const riffle_batch_options *options, struct rf_error *error)
{
    const struct rf_allocator *allocator = &root->engine->allocator;
    *opened = NULL;
    if (!rf_folder_is_own(options->store_folder))
        return rf_fail(error, RF_ERR_IO,
                       "%s: not a folder of this user that nobody else may write to",
                       options->store_folder);
    struct rf_stored *stored = rf_calloc(allocator, 1, sizeof *stored, "stored texts", error);
    size_t bytes = strlen(options->store_folder) + 1;
    char *folder = stored ? rf_malloc(allocator, bytes, 1, "stored texts", error) : NULL;
    if (!folder) {
        rf_free(allocator, stored);
        return RF_ERR_MEMORY;
    }
    memcpy(folder, options->store_folder, bytes);
    stored->allocator = allocator;
    stored->options = *options;
    stored->options.store_folder = folder;
    stored->root = root;
    stored->key = rf_state_key(root);
    stored->error = error;
    int code = rf_folder_each(folder, find_text_file, stored, error);
    stored->error = NULL;
    if (code) {
        rf_stored_close(stored);
        return code;
    }
    *opened = stored;
    return 0;
}

void rf_stored_close(struct rf_stored *stored)
{
    if (!stored) return;
    const struct rf_allocator *allocator = stored->allocator;
    while (stored->n) drop_text(stored, stored->n - 1);
    rf_free(allocator, stored->texts);
    rf_free(allocator, (char *)stored->options.store_folder);
    rf_free(allocator, stored);
}

/* ---- loading ---- */

static int32_t same_tokens(const int32_t *a, int32_t n_a, const int32_t *b, int32_t n_b)
{
    int32_t same = 0, n = n_a < n_b ? n_a : n_b;
    while (same < n && a[same] == b[same]) same++;
    return same;
}

static size_t find_text(const struct rf_stored *stored, const int32_t *prompt, int32_t n,
                        int32_t than)
{
    size_t found = stored->n;
    for (size_t i = 0; i < stored->n; i++) {
        const struct stored_text *text = &stored->texts[i];
        int32_t same = same_tokens(text->tokens, text->n_read, prompt, n);
        if (same <= than) continue;
        than = same;
        found = i;
    }
    return found;
}

struct rf_session *rf_stored_take(struct rf_stored *stored, const struct rf_session *root,
                                  const int32_t *prompt, int32_t n, int32_t than)
{
    struct rf_session *session = NULL;
    struct rf_error why;
    char path[LONGEST_PATH];
    size_t i = find_text(stored, prompt, n, than);
    if (i == stored->n || stored_path(stored, stored->texts[i].name, path)) return NULL;
    if (!rf_path_exists(path)) { /* it made room for others */
        drop_text(stored, i);
        return NULL;
    }
    int code = rf_session_fork(&session, root, 1, &why);
    if (!code) code = rf_state_load(session, path, &why);
    if (!code) {
        rf_file_touch(path);
        return session;
    }
    if (session) rf_session_close(session);
    give_up(stored, path, code, &why);
    if (code != RF_ERR_MEMORY) drop_text(stored, i);
    return NULL;
}

/* ---- writing ---- */

struct text_files {
    const struct rf_stored *stored;
    uint64_t bytes;
    int64_t oldest_ns;
    char oldest[LONGEST_PATH]; /* "": there is none */
};

static int count_text_file(void *user, const char *name)
{
    struct text_files *files = user;
    struct rf_file_mark mark;
    char path[LONGEST_PATH];
    if (!is_text_name(name) || stored_path(files->stored, name, path) ||
        rf_kind_of(path) != RF_KIND_FILE || rf_file_mark_get(path, &mark) != 0)
        return 0;
    files->bytes += mark.bytes;
    if (files->oldest[0] && mark.mtime_ns >= files->oldest_ns) return 0;
    files->oldest_ns = mark.mtime_ns;
    memcpy(files->oldest, path, strlen(path) + 1);
    return 0;
}

/* Removes the least recently used files until so many bytes more fit. 1 if they do. */
static int make_text_room(const struct rf_stored *stored, uint64_t bytes)
{
    uint64_t most = stored->options.store_bytes, free_bytes = 0;
    if (bytes > most) return 0;
    for (;;) {
        struct text_files files = {.stored = stored};
        if (rf_folder_each(stored->options.store_folder, count_text_file, &files, NULL)) return 0;
        if (files.bytes + bytes <= most) break;
        if (!files.oldest[0] || rf_remove(files.oldest, NULL)) return 0;
    }
    return rf_free_bytes(stored->options.store_folder, &free_bytes, NULL) == 0 &&
           free_bytes / 2 >= bytes;
}

/* Forgets texts whose files made room for others. */
static void forget_removed(struct rf_stored *stored)
{
    char path[LONGEST_PATH];
    for (size_t i = stored->n; i-- > 0;)
        if (stored_path(stored, stored->texts[i].name, path) || !rf_path_exists(path))
            drop_text(stored, i);
}

/* 1 if a stored text makes this one needless: it has all of it, or nearly all and another end, as
 * an answer with another seed. That text counts as used. */
static int has_text(const struct rf_stored *stored, const int32_t *tokens, int32_t n_read)
{
    char path[LONGEST_PATH];
    for (size_t i = 0; i < stored->n; i++) {
        const struct stored_text *text = &stored->texts[i];
        int32_t same = same_tokens(text->tokens, text->n_read, tokens, n_read);
        int goes_on = same == text->n_read && same < n_read;
        if (goes_on || same < n_read - n_read / 8) continue;
        if (!stored_path(stored, text->name, path)) rf_file_touch(path);
        return 1;
    }
    return 0;
}

/* Removes the files of texts that the new one, the last, begins with. */
static void remove_beginnings(struct rf_stored *stored)
{
    char path[LONGEST_PATH];
    const struct stored_text added = stored->texts[stored->n - 1];
    for (size_t i = stored->n - 1; i-- > 0;) {
        const struct stored_text *text = &stored->texts[i];
        if (same_tokens(text->tokens, text->n, added.tokens, added.n_read) < text->n) continue;
        /* The same tokens have the same name: then the file is the new one. */
        if (strcmp(text->name, added.name) != 0 && !stored_path(stored, text->name, path))
            rf_remove(path, NULL);
        drop_text(stored, i);
    }
}

static uint64_t hash_tokens(const int32_t *tokens, int32_t n)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int32_t i = 0; i < n; i++) {
        hash = (hash ^ (uint32_t)tokens[i]) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    return hash;
}

void rf_stored_add(struct rf_stored *stored, const struct rf_session *session)
{
    const int32_t *tokens = rf_sequence_tokens(session->sequence);
    int32_t n = rf_sequence_n_committed(session->sequence),
            n_read = rf_sequence_n_saved(session->sequence);
    char path[LONGEST_PATH], name[NAME_BYTES + 1], prefix[NAME_BYTES];
    struct rf_error why;
    forget_removed(stored);
    if (n_read < LEAST_TOKENS || has_text(stored, tokens, n_read)) return;
    if (!make_text_room(stored, rf_state_bytes(session))) return;
    key_prefix(stored->key, prefix);
    snprintf(name, sizeof name, "%.22s%016" PRIx64, prefix, hash_tokens(tokens, n));
    int code = stored_path(stored, name, path)
                   ? rf_fail(&why, RF_ERR_IO, "%s: the path is too long", name)
                   : rf_state_save(session, path, RF_NEW_CACHE, &why);
    int32_t *copied =
        code ? NULL : rf_malloc(stored->allocator, (size_t)n, sizeof *copied, "tokens", &why);
    if (!copied) {
        stored_tell(stored, why.text);
        return;
    }
    memcpy(copied, tokens, (size_t)n * sizeof *copied);
    if (list_text(stored, name, copied, n, n_read, &why))
        rf_free(stored->allocator, copied);
    else
        remove_beginnings(stored);
}
