/* Parses the embedded list of known models, once, and finds the models' folder. The list is
 * scripts/models.tsv; a line that cannot be parsed is left out. */
#include "models/known_models.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch/sha256.h"
#include "output/buffer.h"
#include "output/wrap.h"
#include "platform/file.h"

/* Reads a line of the list. "-" is nothing. */
static int parse_line(const char *line, struct known_model *model)
{
    *model = (struct known_model){.bytes = 0};
    int fields =
        sscanf(line,
               "%63[^\t\n]\t%127[^\t\n]\t%31[^\t\n]\t%" SCNd64
               "\t%63[^\t\n]\t%64[^\t\n]\t%64[^\t\n]\t%511[^\t\n]\t%95[^\t\n]\t%15[^\t\n]"
               "\t%" SCNd64,
               model->name, model->file, model->licence, &model->bytes, model->draft, model->sha256,
               model->ends, model->sources, model->sampling, model->purpose, &model->read_bytes);
    if (fields != 11 || line[0] == '#') return 0;
    char *const nothing[] = {model->file, model->sha256, model->ends};
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++)
        if (strcmp(nothing[i], "-") == 0) nothing[i][0] = 0;
    return model->file[0] || hub_name_parse(model->sources, &model->hub);
}

const struct known_model *known_models(void)
{
    static struct known_model *models;
    struct known_model model;
    size_t n = 0;
    if (models) return models;
    for (const char *line = known_models_tsv; *line; line += strspn(line, "\n")) {
        if (parse_line(line, &model)) {
            models = cli_reallocate(models, n + 2, sizeof *models);
            models[n++] = model;
            models[n] = (struct known_model){.bytes = 0};
        }
        line += strcspn(line, "\n");
    }
    return models;
}

/* Says once that a variable is ignored: folders in the working directory would surprise. */
static void explain_relative(const char *variable)
{
    static int explained;
    const char *value = getenv(variable);
    if (explained || !value || !value[0] || rf_path_is_absolute(value)) return;
    explained = 1;
    inform("riffle: %s is not an absolute path and is ignored", variable);
}

const char *models_folder(char path[LONGEST_PATH])
{
    const char *chosen = getenv("RIFFLE_MODELS");
    char data[LONGEST_PATH];
    int n;
    if (chosen && chosen[0]) {
        n = snprintf(path, LONGEST_PATH, "%s", chosen);
    } else {
        explain_relative("XDG_DATA_HOME");
        if (rf_user_folder(RF_FOLDER_DATA, data, sizeof data) != 0)
            return "the models' folder is unknown: set RIFFLE_MODELS, or XDG_DATA_HOME or HOME to "
                   "an absolute path";
        n = snprintf(path, LONGEST_PATH, "%s/riffle/models", data);
    }
    return n < 0 || n >= LONGEST_PATH ? "the path of the models' folder is too long" : NULL;
}

/* The SHA-256 of the first and the last MiB of a file, or of all of it twice where it is shorter.
 * 0, or a negative code. */
static int hash_ends(const char *path, char sha256[SHA256_TEXT])
{
    enum { END = 1 << 20 };
    struct rf_error error;
    struct rf_mapping file;
    struct sha256 hash = {0};
    int code = rf_map_file(&file, path, 0, &error);
    if (code) return code;
    size_t n = file.bytes < END ? file.bytes : END;
    code = sha256_begin(&hash, &error);
    if (!code) code = sha256_update(&hash, file.data, n, &error);
    if (!code) code = sha256_update(&hash, file.data + file.bytes - n, n, &error);
    if (!code) code = sha256_end(&hash, sha256, &error);
    sha256_close(&hash);
    rf_unmap_file(&file);
    return code;
}

/* Whether folders of the path keep the name of a hub's repository: .../OWNER/REPO/... as Riffle and
 * LM Studio have it, or models--OWNER--REPO as Hugging Face's cache does. */
static int lies_in_repository(const char *path, const struct hub_name *hub)
{
    char folders[2 * HUB_PART + 16], plain[LONGEST_PATH];
    size_t n = 0;
    for (; path[n] && n + 1 < sizeof plain; n++) plain[n] = path[n] == '\\' ? '/' : path[n];
    plain[n] = 0;
    for (size_t i = 0; i < 2; i++) {
        snprintf(folders, sizeof folders, "%s%s%s%s/", i ? "/models--" : "/", hub->owner,
                 i ? "--" : "/", hub->repo);
        if (strstr(plain, folders)) return 1;
    }
    return 0;
}

const struct known_model *known_model_of(const char *path)
{
    char ends[SHA256_TEXT] = "";
    int64_t bytes = rf_file_bytes(path);
    for (const struct known_model *model = known_models(); model->name[0]; model++) {
        if (model->hub.hub && lies_in_repository(path, &model->hub)) return model;
        if (bytes <= 0 || model->bytes != bytes || !model->ends[0]) continue;
        if (!ends[0] && hash_ends(path, ends) != 0) return NULL;
        if (strcmp(model->ends, ends) == 0) return model;
    }
    return NULL;
}
