/* Mapped files that become shorter, and handlers of SIGBUS that are not ours. */
#define _DEFAULT_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/probe.h"
#include "platform/file.h"
#include "support/check.h"

enum { PAGES = 8 };
static char path[64];
static size_t page;
static sigjmp_buf back;
static volatile int seen_by_host;

static void host_handler(int number)
{
    (void)number;
    seen_by_host = 1;
    siglongjmp(back, 1);
}

static void (*handler(void))(int)
{
    struct sigaction action;
    CHECK_INT(sigaction(SIGBUS, NULL, &action), 0);
    return action.sa_handler;
}

static struct rf_mapping map_pages(unsigned flags)
{
    static unsigned char content[PAGES * 65536];
    struct rf_mapping mapping;
    struct rf_error error = {0};
    memset(content, 7, sizeof content);
    CHECK_INT(probe_write(path, content, PAGES * page), 0);
    CHECK_MSG(rf_map_file(&mapping, path, flags, &error) == 0, "%s", error.text);
    return mapping;
}

static int byte_at(const struct rf_mapping *mapping, size_t i)
{
    return ((const volatile unsigned char *)mapping->data)[i];
}

static void test_shrunk(void)
{
    struct rf_error error;
    CHECK_INT(rf_guard_mappings(&error), 0);
    CHECK_INT(rf_guard_mappings(&error), 0);
    CHECK(handler() != host_handler);
    struct rf_mapping mapping = map_pages(0), other = map_pages(RF_MAP_COPY);
    CHECK_INT(byte_at(&mapping, PAGES * page - 1), 7);
    CHECK_INT(truncate(path, (off_t)(3 * page)), 0);
    CHECK_INT(byte_at(&mapping, 3 * page - 1), 7);
    CHECK(!rf_mapping_is_lost(&mapping));
    CHECK_INT(byte_at(&mapping, 5 * page + 11), 0);
    CHECK(rf_mapping_is_lost(&mapping));
    CHECK_INT(byte_at(&mapping, 3 * page), 0); /* a second fault, before the first */
    CHECK_INT(byte_at(&mapping, PAGES * page - 1), 0);
    CHECK_INT(byte_at(&mapping, 0), 7);
    CHECK_INT(byte_at(&other, PAGES * page - 1), 7);
    CHECK(!rf_mapping_is_lost(&other));
    rf_unmap_file(&mapping);
    rf_unmap_file(&other);
    mapping = map_pages(0);
    CHECK(!rf_mapping_is_lost(&mapping));
    rf_unmap_file(&mapping);
}

/* A mapping that nobody guards: the handler that was there first gets the signal, and is still the
 * one that is installed. */
static void test_host(void)
{
    struct rf_mapping mapping = map_pages(0);
    CHECK(handler() == host_handler);
    CHECK_INT(truncate(path, 0), 0);
    seen_by_host = 0;
    if (sigsetjmp(back, 1) == 0) byte_at(&mapping, 0);
    CHECK(seen_by_host && !rf_mapping_is_lost(&mapping));
    rf_unmap_file(&mapping);
}

/* A signal that is about none of our files: the handler passes it on. */
static void test_other_signals(void)
{
    seen_by_host = 0;
    if (sigsetjmp(back, 1) == 0) raise(SIGBUS);
    CHECK(seen_by_host);
}

int main(void)
{
    struct sigaction action = {.sa_handler = host_handler};
    page = (size_t)sysconf(_SC_PAGESIZE);
    snprintf(path, sizeof path, "/tmp/riffle-mapping-XXXXXX");
    int file = mkstemp(path);
    CHECK(file >= 0 && page <= 65536);
    close(file);
    CHECK_INT(sigaction(SIGBUS, &action, NULL), 0);
    test_host();
    test_shrunk();
    test_other_signals();
    unlink(path);
    return check_result();
}
