/* GGUF files of the kinds that broke other readers, by the advisories of 2024 to 2026. They are
 * seeds of fuzz_gguf (make_seeds writes them), and test_advisories says how each is refused. */
#ifndef RF_TEST_FUZZ_ADVISORIES_H
#define RF_TEST_FUZZ_ADVISORIES_H

#include "model/gguf_writer.h"

/* Changes bytes that the writer's lists cannot say; returns how many are kept. */
typedef size_t advisory_cut(unsigned char *data, size_t bytes);

struct advisory {
    const char *name, *advisory; /* the seed's file; where it was described first */
    void (*change)(struct w_file *file);
    advisory_cut *cut; /* NULL: all bytes as written */
    const char *says;  /* a part of the reader's sentence; NULL: the reader takes it */
};

extern const struct advisory advisories[];
extern const size_t n_advisories;

/* The file's bytes; the caller frees them. */
unsigned char *advisory_bytes(const struct advisory *advisory, size_t *bytes);

#endif
