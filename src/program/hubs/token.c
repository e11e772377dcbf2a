/* Finds tokens as the hubs' own clients do: in a variable, or in the file of Hugging Face's client.
 */
#include "hubs/token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/file.h"
#include "platform/folder.h"

enum { LONGEST_TOKEN = 500, LONGEST_PATH = 4096 };

static const char *const variables[HUB_COUNT] = {
    [HUB_HUGGINGFACE] = "HF_TOKEN", [HUB_MODELSCOPE] = "MODELSCOPE_API_TOKEN"};

const char *hub_token_variable(enum hub hub)
{
    return variables[hub];
}

/* Copies a token without spaces around it; one that is no word of ASCII is none. */
static const char *take_token(const char *text, char token[LONGEST_TOKEN])
{
    text += strspn(text, " \t\r\n");
    size_t n = strcspn(text, " \t\r\n");
    if (!n || n >= LONGEST_TOKEN || text[n + strspn(text + n, " \t\r\n")]) return NULL;
    for (size_t i = 0; i < n; i++)
        if (text[i] <= 32 || text[i] > 126) return NULL;
    memcpy(token, text, n);
    token[n] = 0;
    return token;
}

int hub_cache_folder(char *path, size_t cap)
{
    const char *chosen = getenv("HF_HOME"), *cache = getenv("XDG_CACHE_HOME");
    char home[LONGEST_PATH];
    int n;
    if (chosen && chosen[0])
        n = snprintf(path, cap, "%s", chosen);
    else if (cache && rf_path_is_absolute(cache))
        n = snprintf(path, cap, "%s/huggingface", cache);
    else if (rf_home(home, sizeof home) == 0)
        n = snprintf(path, cap, "%s/.cache/huggingface", home);
    else
        return -1;
    return n > 0 && (size_t)n < cap ? 0 : -1;
}

/* The path of the file that `hf auth login` writes. */
static int token_path(char path[LONGEST_PATH])
{
    const char *chosen = getenv("HF_TOKEN_PATH");
    char folder[LONGEST_PATH - 8];
    if (chosen && chosen[0])
        return snprintf(path, LONGEST_PATH, "%s", chosen) < LONGEST_PATH ? 0 : -1;
    if (hub_cache_folder(folder, sizeof folder) != 0) return -1;
    snprintf(path, LONGEST_PATH, "%s/token", folder);
    return 0;
}

const char *hub_token(enum hub hub)
{
    static char token[LONGEST_TOKEN];
    char path[LONGEST_PATH], *text;
    struct rf_error error;
    size_t bytes;
    const char *chosen = variables[hub] ? getenv(variables[hub]) : NULL;
    if (chosen && chosen[0]) return take_token(chosen, token);
    if (hub != HUB_HUGGINGFACE || token_path(path) != 0 || rf_file_bytes(path) <= 0 ||
        rf_slurp(path, LONGEST_TOKEN, &text, &bytes, &error) != 0)
        return NULL;
    const char *found = take_token(text, token);
    free(text);
    return found;
}
