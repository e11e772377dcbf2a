/* Open files by number, read as streams. Failures set errno. */
#ifndef RF_PLATFORM_DESCRIPTOR_H
#define RF_PLATFORM_DESCRIPTOR_H

#include <stddef.h>
#include <stdint.h>

/* A number for the calls below, or -1. */
int rf_descriptor_open(const char *path);
/* Reads at most n bytes. Returns how many, 0 at the end, or -1. */
int64_t rf_descriptor_read(int descriptor, void *data, size_t n);
/* The same, of what lies at `offset`; any number of threads may read one file so. */
int64_t rf_descriptor_read_at(int descriptor, uint64_t offset, void *data, size_t n);
void rf_descriptor_close(int descriptor);

#endif
