/* A Python package index: the simple repository API in HTML (PEP 503), which every index has.
 * wheel.c asks it for the address of a wheel. */
#ifndef FETCH_INDEX_H
#define FETCH_INDEX_H

#include "fetch/http.h"
#include "fetch/sha256.h"

/* The address of the index as pip finds it: PIP_INDEX_URL, `index-url` in section [global] of
 * pip's configuration files, else the one that this program was built with. */
int index_address(char url[HTTP_URL], struct rf_error *error);

struct index_wheel {
    char url[HTTP_URL];
    char sha256[SHA256_TEXT]; /* "": the index does not say it */
};
/* Finds the wheel of a package's version; of several that for any platform. */
int index_find(const char *package, const char *version, int timeout_seconds,
               int (*poll)(void *user), void *user, struct index_wheel *wheel,
               struct rf_error *error);
/* Looks through the links of a page of an index, which came from page_url and may be NULL.
 * `package` is in normal form. Links to a weaker protocol than that of page_url are passed over. 1
 * if the wheel is there. */
int index_search(const char *page, const char *page_url, const char *package, const char *version,
                 struct index_wheel *wheel);

#endif
