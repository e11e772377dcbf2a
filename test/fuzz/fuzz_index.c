/* A page of a package index: of its links only those to a wheel of the package are taken, and none
 * to a weaker protocol. */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fetch/index.h"

static void expect(int condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "%s\n", what);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct index_wheel wheel;
    char *page = malloc(bytes + 1), digest[SHA256_TEXT];
    if (!page) return 0;
    if (bytes) memcpy(page, data, bytes);
    page[bytes] = 0;
    if (index_search(page, "https://index.example/simple/a-b/", "a-b", "1.0", &wheel)) {
        expect(strncasecmp(wheel.url, "https://", 8) == 0, "a weaker protocol");
        expect(strstr(wheel.url, ".whl") != NULL || strchr(wheel.url, '%') != NULL, "no wheel");
        expect(!wheel.sha256[0] || sha256_parse(wheel.sha256, digest), "no SHA-256");
    }
    free(page);
    return 0;
}
