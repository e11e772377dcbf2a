#include "support/pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

static void require(int good)
{
    if (good) return;
    fprintf(stderr, "pages of memory: error %lu\n", GetLastError());
    exit(1);
}

void *pages_new(size_t bytes)
{
    void *pages = VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_NOACCESS);
    require(pages != NULL);
    return pages;
}

void pages_allow(void *pages, size_t bytes, int is_allowed)
{
    DWORD before;
    require(VirtualProtect(pages, bytes, is_allowed ? PAGE_READWRITE : PAGE_NOACCESS, &before));
}

void pages_free(void *pages, size_t bytes)
{
    (void)bytes;
    VirtualFree(pages, 0, MEM_RELEASE);
}
