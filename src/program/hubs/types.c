/* Reads types out of file names as their makers write them: after a dash, dot, underscore or slash,
 * in small or capital letters, perhaps with a maker's prefix. */
#include "hubs/types.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char suffix[] = ".gguf";
enum { SUFFIX = 5, PART = 15 /* bytes of "-00001-of-00003" */ };

/* Q4_K_M keeps most of a model in a third of its bytes. Then its neighbours, then more bits, then
 * fewer. Types that are not here do not run, or are unknown. */
static const char *const order[] = {
    "Q4_K_M",     "UD-Q4_K_XL", "Q4_K_L", "Q4_K_S", "Q4_K",       "IQ4_XS",     "IQ4_NL",
    "Q4_1",       "Q4_0",       "Q4",     "Q5_K_M", "Q5_K_S",     "UD-Q5_K_XL", "Q5_K_L",
    "Q5_K",       "Q5_1",       "Q5_0",   "MXFP4",  "MXFP4_MOE",  "Q6_K",       "UD-Q6_K_XL",
    "Q6_K_L",     "Q8_0",       "Q8",     "Q3_K_L", "Q3_K_M",     "Q3_K",       "Q3_K_S",
    "UD-Q3_K_XL", "IQ3_M",      "IQ3_S",  "IQ3_XS", "UD-IQ3_XXS", "IQ3_XXS",    "Q2_K",
    "Q2_K_L",     "UD-Q2_K_XL", "Q2_K_S", "IQ2_M",  "UD-IQ2_M",   "IQ2_S",      "IQ2_XS",
    "UD-IQ2_XXS", "IQ2_XXS",    "TQ2_0",  "TQ1_0",  "UD-TQ1_0",   "IQ1_M",      "UD-IQ1_M",
    "IQ1_S",      "UD-IQ1_S",   "BF16",   "F16",    "FP16",       "F32",        "FP32"};
enum { N_ORDER = sizeof order / sizeof *order };

static int same_texts(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tolower((unsigned char)a[i]) != tolower((unsigned char)b[i])) return 0;
    return 1;
}

int type_same_text(const char *a, const char *b)
{
    size_t n = strlen(a);
    return n == strlen(b) && same_texts(a, b, n);
}

int hub_is_plain(const char *text)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+.-";
    return text[0] && !strchr(".-", text[0]) && !text[strspn(text, allowed)];
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int contains(const char *text, const char *word)
{
    size_t n = strlen(word), all = strlen(text);
    for (size_t i = 0; i + n <= all; i++)
        if (same_texts(text + i, word, n)) return 1;
    return 0;
}

/* The length without .gguf; 0 if the name does not end so. */
static size_t without_suffix(const char *path)
{
    size_t n = strlen(path);
    return n > SUFFIX && same_texts(path + n - SUFFIX, suffix, SUFFIX) ? n - SUFFIX : 0;
}

int type_part(const char *path, int *number, int *count)
{
    static const char form[] = "-00000-of-00000";
    size_t n = without_suffix(path);
    if (n <= PART) return 0;
    const char *end = path + n - PART;
    for (int i = 0; i < PART; i++)
        if (form[i] == '0' ? !isdigit((unsigned char)end[i]) : end[i] != form[i]) return 0;
    return sscanf(end, "-%5d-of-%5d", number, count) == 2 && *count > 0;
}

void type_other_part(const char *path, int number, char *other, size_t cap)
{
    size_t n = without_suffix(path);
    snprintf(other, cap, "%.*s-%05d%s", (int)(n - PART), path, number, path + n - PART + 6);
}

int type_is_model_file(const char *path)
{
    int number = 1, count;
    const char *base = base_name(path);
    type_part(path, &number, &count);
    return without_suffix(base) && base[0] != '.' && number == 1 && !contains(base, "mmproj") &&
           !contains(base, "imatrix");
}

/* Whether a type begins here. */
static int begins_type(const char *text)
{
    static const char *const words[] = {"BF16", "F16", "F32", "FP16", "FP32", "MXFP", "NVFP4"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(text, words[i], strlen(words[i])) == 0) return 1;
    if (text[0] == 'I' || text[0] == 'T') text++;
    return text[0] == 'Q' && isdigit((unsigned char)text[1]);
}

void type_of_file(const char *path, char type[TYPE_TEXT])
{
    char name[512];
    int number, count;
    size_t n = without_suffix(path);
    type[0] = 0;
    if (type_part(path, &number, &count)) n -= PART;
    if (!n || n >= sizeof name) return;
    for (size_t i = 0; i < n; i++) name[i] = (char)toupper((unsigned char)path[i]);
    name[n] = 0;
    for (size_t i = n; i-- > 0;) {
        if ((i && !strchr("-._/", name[i - 1])) || !begins_type(name + i)) continue;
        size_t bytes = strspn(name + i, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        int prefix = i >= 3 && strncmp(name + i - 3, "UD-", 3) == 0 ? 3 : 0;
        if (bytes + 3 < TYPE_TEXT)
            snprintf(type, TYPE_TEXT, "%.*s", (int)bytes + prefix, name + i - prefix);
        return;
    }
}

void type_label(const char *path, char label[HUB_TYPE])
{
    char type[TYPE_TEXT];
    int number, count;
    const char *base = base_name(path);
    size_t n = without_suffix(base);
    type_of_file(base, type);
    if (type_part(base, &number, &count)) n -= PART;
    if (type[0])
        snprintf(label, HUB_TYPE, "%s", type);
    else
        snprintf(label, HUB_TYPE, "%.*s", (int)n, base);
}

int type_file_name(const char *path, char *file, size_t cap)
{
    enum { LONGEST_ENDING = 20 }; /* of files beside it: ".wheel.part.state" */
    char type[TYPE_TEXT], own[TYPE_TEXT];
    const char *base = base_name(path);
    type_of_file(path, type);
    type_of_file(base, own);
    int adds = type[0] && !own[0];
    int n = snprintf(file, cap, "%s%s%s", adds ? type : "", adds ? "-" : "", base);
    for (char *at = file; *at; at++)
        if (strchr(" ()[]&'!,=@#~", *at)) *at = '_';
    return n > 0 && (size_t)n + LONGEST_ENDING < cap && hub_is_plain(file) ? 0 : -1;
}

int type_rank(const char *type)
{
    for (int i = 0; i < N_ORDER; i++)
        if (type_same_text(type, order[i])) return i;
    return -1;
}

/* "FP16" and "F16" are one type. */
static const char *without_letters(const char *type)
{
    static const char *const floats[] = {"F16", "FP16", "F32", "FP32"};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (type_same_text(type, floats[i])) return type + strlen(type) - 2;
    return type;
}

/* Types are compared with dashes as underscores: "q4-k-m". */
static int same_type(const char *a, const char *b)
{
    a = without_letters(a);
    b = without_letters(b);
    size_t n = strlen(a);
    if (n != strlen(b)) return 0;
    for (size_t i = 0; i < n; i++) {
        int x = a[i] == '-' ? '_' : tolower((unsigned char)a[i]);
        int y = b[i] == '-' ? '_' : tolower((unsigned char)b[i]);
        if (x != y) return 0;
    }
    return 1;
}

int type_matches(const char *path, const char *wanted)
{
    char type[TYPE_TEXT];
    const char *base = base_name(path);
    size_t n = strlen(wanted), n_stem = without_suffix(base);
    int number, count;
    if (type_same_text(path, wanted) || type_same_text(base, wanted) ||
        (n == n_stem && same_texts(base, wanted, n)))
        return 2;
    if (type_part(base, &number, &count) && n == n_stem - PART && same_texts(base, wanted, n))
        return 2;
    type_of_file(path, type);
    if (same_type(type, wanted)) return 2;
    return strncmp(type, "UD-", 3) == 0 && same_type(type + 3, wanted);
}

/* Smaller is better: how the file's name fits, then its place. */
static long file_cost(const char *path, const char *wanted, size_t n_files)
{
    enum { PLACES = 4096, NO_TYPE = N_ORDER };
    char type[TYPE_TEXT];
    long place = (long)strlen(path) + (strchr(path, '/') ? PLACES / 2 : 0);
    if (place >= PLACES) place = PLACES - 1;
    if (wanted[0]) {
        int fits = type_matches(path, wanted);
        return fits ? (2 - fits) * PLACES + place : -1;
    }
    type_of_file(path, type);
    int rank = type_rank(type);
    if (rank < 0 && !type[0]) rank = NO_TYPE;
    if (rank < 0 && n_files == 1) rank = NO_TYPE; /* the reader says what is wrong with it */
    return rank < 0 ? -1 : (long)rank * PLACES + place;
}

int type_choose(const char *const *paths, size_t n, const char *wanted)
{
    int best = -1;
    long best_cost = -1;
    size_t n_files = 0;
    for (size_t i = 0; i < n; i++) n_files += (size_t)type_is_model_file(paths[i]);
    for (size_t i = 0; i < n; i++) {
        long cost = type_is_model_file(paths[i]) ? file_cost(paths[i], wanted, n_files) : -1;
        if (cost < 0 || (best >= 0 && (cost > best_cost ||
                                       (cost == best_cost && strcmp(paths[i], paths[best]) > 0))))
            continue;
        best = (int)i;
        best_cost = cost;
    }
    return best;
}
