/* The pace of a machine in the cache folder: written when a session that has worked is closed,
 * taken up by the next one, and never the reason for a failure. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <sys/stat.h>

#include "api/answers.h"
#include "api/handles.h"

static char folder[4096];

/* Removes the casts, which test_kept looks at. */
static void remove_casts(void)
{
    char path[8192];
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strncmp(entry->d_name, "cast-", 5) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        remove(path);
    }
    if (dir) closedir(dir);
}

/* How many files the folder has; *path: one of them. */
static int list_files(char *path, size_t cap)
{
    int n = 0;
    remove_casts();
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        CHECK_MSG(strncmp(entry->d_name, "pace-", 5) == 0, "there is a file \"%s\"", entry->d_name);
        snprintf(path, cap, "%s/%s", folder, entry->d_name);
        n++;
    }
    if (dir) closedir(dir);
    return n;
}

static riffle_model *open_caching(const char *cache_folder)
{
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.chain = "ngram > draft > mxfp4";
    options.draft = QUANTISED_MODEL;
    options.cache_folder = cache_folder;
    riffle_model *model;
    if (riffle_model_open(&model, TINY_MODEL, &options) < 0) {
        fprintf(stderr, "%s\n", riffle_last_error());
        exit(1);
    }
    return model;
}

static struct prompt prompts[N_PROMPTS];
static struct answer plain;

/* A session that answers; *known: the number of levels whose costs it knew when it was opened. */
static void work(riffle_model *model, const struct setting *setting, int32_t max, int *known)
{
    static struct answer got;
    riffle_session *session = open_with(model, setting);
    const struct rf_pace *pace = rf_cascade_pace(session->inner->levels.cascade);
    *known = 0;
    for (int32_t l = 0; l < pace->n_levels; l++) {
        uint32_t seen = 0;
        for (int r = 0; r < RF_PACE_ROWS; r++) seen += pace->costs[l].seen[r];
        *known += seen > 0;
    }
    if (max) {
        begin(session, &prompts[0]);
        got = (struct answer){.n = 0};
        add_tokens(session, max, &got);
        if (max == plain.n) check_same_answer(&got, &plain, "with a cache folder");
    }
    riffle_session_close(session);
}

static void costs_are_kept(riffle_model *model)
{
    const struct setting alone = {.threads = 1},
                         cast = {.chain = "mxfp4", .gamma = 2, .threads = 1};
    char path[8192] = "", text[4096] = "";
    int known;
    CHECK_INT(list_files(path, sizeof path), 0);
    work(model, &alone, 0, &known); /* nothing was done, nothing is known */
    CHECK_INT(list_files(path, sizeof path), 0);
    work(model, &alone, plain.n, &known);
    CHECK_INT(known, 0);
    CHECK_INT(list_files(path, sizeof path), 1);
    FILE *file = fopen(path, "r");
    size_t bytes = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    CHECK(bytes > 0 && strncmp(text, "riffle pace 3\n", 14) == 0);
    CHECK(strstr(text, "\n\"target\" ") != NULL);
    work(model, &alone, plain.n, &known);
    CHECK(known >= 1);
    CHECK_INT(list_files(path, sizeof path), 1);
    /* Another chain of the model shares what both have, and adds what it alone has. */
    work(model, &cast, plain.n, &known);
    CHECK(known >= 1);
    work(model, &cast, 0, &known);
    CHECK_INT(known, 2);
    /* Another number of threads is another matter. */
    work(model, &(struct setting){.threads = 2}, plain.n, &known);
    CHECK_INT(known, 0);
    CHECK_INT(list_files(path, sizeof path), 2);
}

/* Two draft models are not taken for each other because both are called "draft". */
static void drafts_are_told_apart(riffle_model *model)
{
    const struct setting setting = {.chain = "draft", .gamma = 3, .threads = 1};
    riffle_model_options options;
    riffle_model_options_init(&options, sizeof options);
    options.chain = "draft";
    options.draft = TINY_MODEL;
    options.cache_folder = folder;
    riffle_model *other;
    int known;
    work(model, &setting, plain.n, &known);
    work(model, &setting, 0, &known);
    CHECK_INT(known, 2);
    if (CHECK_OK(riffle_model_open(&other, TINY_MODEL, &options)) < 0) return;
    work(other, &setting, plain.n, &known);
    CHECK_INT(known, 1);
    work(other, &setting, 0, &known);
    CHECK_INT(known, 2);
    riffle_model_close(other);
}

/* Whatever stands in the file, sessions open, write the same text, and put it right. */
static void damaged_files_are_no_matter(riffle_model *model)
{
    static const char *const damages[] = {
        "",
        "riffle pace 3\n",
        "riffle pace 3\n\"target\" 1 1 1 1",
        "riffle pace 3\n\"target\" 1 1 1 1",
        "riffle pace 3\n\"target\" nan 1 inf 1 -1 1 0 1 1e300 1\n\"\n\"\"\n\x01\n\"mxfp4",
        "riffle pace 3\n\"target\" 1e-6 4 1e-6 4 1e-6 4 1e-6 4 1e-6 4 1e-6 4 1e-6 4 1e-6 4 1e-6 4 "
        "1e-6 4 1e-6 4 1e-6 4 "
        "1e-6 4 1e-6 4 1e-6 4 1e-6 99999999999999999999\n",
        NULL /* a long one */};
    char path[8192] = "";
    int known;
    while (list_files(path, sizeof path) > 0) remove(path);
    work(model, &(struct setting){.threads = 1}, plain.n, &known);
    CHECK_INT(list_files(path, sizeof path), 1);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        FILE *file = fopen(path, "wb");
        if (!file) break;
        for (int n = 0; !damages[i] && n < 10000; n++) fputs("riffle pace 3\n\"target", file);
        if (damages[i]) fputs(damages[i], file);
        fclose(file);
        work(model, &(struct setting){.threads = 1}, plain.n, &known);
        work(model, &(struct setting){.threads = 1}, plain.n, &known);
        CHECK_MSG(known >= 1, "damage %zu is still there", i);
    }
    while (list_files(path, sizeof path) > 0) remove(path);
}

static void folders_that_take_nothing(void)
{
    char missing[8192], long_path[6000];
    snprintf(missing, sizeof missing, "%s/not/there", folder);
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = 0;
    const char *const folders[] = {missing, TINY_MODEL, "", "/dev/null", long_path};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        riffle_model *model = open_caching(folders[i]);
        int known;
        for (int again = 0; again < 2; again++) {
            work(model, &(struct setting){.threads = 1}, plain.n, &known);
            CHECK_INT(known, 0);
        }
        riffle_model_close(model);
    }
    char path[8192];
    CHECK_INT(list_files(path, sizeof path), 0);
}

int main(void)
{
    temporary_path("XXXXXX", folder, sizeof folder);
    if (!mkdtemp(folder)) return 1;
    riffle_model *model = open_caching(folder);
    make_prompts(model, prompts);
    riffle_session *session = open_with(model, &(struct setting){.chain = "none", .threads = 2});
    begin(session, &prompts[0]);
    add_tokens(session, 60, &plain);
    CHECK_INT(plain.n, 60);
    struct levels *levels = &session->inner->levels; /* this session leaves nothing */
    rf_free(&model->engine->allocator, levels->pace_file);
    levels->pace_file = NULL;
    riffle_session_close(session);
    costs_are_kept(model);
    drafts_are_told_apart(model);
    damaged_files_are_no_matter(model);
    riffle_model_close(model);
    folders_that_take_nothing();
    CHECK_INT(rmdir(folder), 0);
    return check_result();
}
