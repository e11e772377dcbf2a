#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "support/pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static void require(int good)
{
    if (good) return;
    perror("pages of memory");
    exit(1);
}

void *pages_new(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(pages != MAP_FAILED);
    madvise(pages, bytes, MADV_HUGEPAGE); /* few pages where they are many: rights change fast */
    return pages;
}

void pages_allow(void *pages, size_t bytes, int is_allowed)
{
    require(mprotect(pages, bytes, is_allowed ? PROT_READ | PROT_WRITE : PROT_NONE) == 0);
}

void pages_free(void *pages, size_t bytes)
{
    munmap(pages, bytes);
}
