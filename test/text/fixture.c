#include "text/fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *fixture_read(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    size_t n = 0, cap = 1 << 16;
    if (file) data = malloc(cap + 1);
    if (!data) {
        fprintf(stderr, "%s cannot be read\n", path);
        if (file) fclose(file);
        return NULL;
    }
    for (size_t got; (got = fread(data + n, 1, cap - n, file)) > 0;) {
        n += got;
        if (n == cap) data = realloc(data, (cap *= 2) + 1);
    }
    fclose(file);
    data[n] = 0;
    if (bytes) *bytes = n;
    return data;
}

char *fixture_line(char **at)
{
    char *line = *at;
    if (*line == 0) return NULL;
    char *end = strchr(line, '\n');
    *at = end ? end + 1 : line + strlen(line);
    if (end) *end = 0;
    return line;
}

static int hex(char c)
{
    return c <= '9' ? c - '0' : c - 'A' + 10;
}

size_t fixture_unescape(char *text)
{
    size_t n = 0;
    for (const char *p = text; *p; p++) {
        if (*p == '%') {
            text[n++] = (char)(16 * hex(p[1]) + hex(p[2]));
            p += 2;
        } else {
            text[n++] = *p;
        }
    }
    return n;
}

int fixture_vocab_open(struct fixture_vocab *fixture, const char *path)
{
    struct rf_vocab *v = &fixture->vocab;
    char kind[16], pre[32];
    int n_tokens, n_merges, bos, eos, unk, prefix;
    *fixture = (struct fixture_vocab){0};
    fixture->data = fixture_read(path, NULL);
    if (!fixture->data) return -1;
    char *at = fixture->data, *line = fixture_line(&at);
    if (!line || sscanf(line, "%15s %31s %d %d %d %d %d %d", kind, pre, &n_tokens, &n_merges, &bos,
                        &eos, &unk, &prefix) != 8) {
        fprintf(stderr, "%s: the head is wrong\n", path);
        return -1;
    }
    v->kind = strcmp(kind, "bpe") == 0 ? RF_VOCAB_BPE : RF_VOCAB_SENTENCEPIECE;
    v->pre = (struct rf_str){strchr(line, ' ') + 1, strlen(pre)};
    v->n_tokens = n_tokens;
    v->n_merges = (size_t)n_merges;
    v->bos = bos;
    v->eos = eos;
    v->unk = unk;
    v->pad = v->eot = v->sep = -1;
    v->add_bos = v->add_eos = v->ignore_merges = v->nfc = v->remove_extra_whitespaces = -1;
    v->add_space_prefix = (int8_t)prefix;
    v->tokens = calloc((size_t)n_tokens, sizeof *v->tokens);
    v->scores = calloc((size_t)n_tokens, sizeof *v->scores);
    v->types = calloc((size_t)n_tokens, sizeof *v->types);
    v->merges = calloc((size_t)n_merges + 1, sizeof *v->merges);
    for (int i = 0; i < n_tokens && (line = fixture_line(&at)); i++) {
        char *rest;
        v->types[i] = (uint8_t)strtol(line, &rest, 10);
        v->scores[i] = strtof(rest, &rest);
        rest++;
        v->tokens[i] = (struct rf_str){rest, fixture_unescape(rest)};
    }
    for (int i = 0; i < n_merges && (line = fixture_line(&at)); i++) {
        char *rest;
        long left = strtol(line, &rest, 10), right = strtol(rest, NULL, 10);
        v->merges[i] = (struct rf_merge){v->tokens[left], v->tokens[right]};
    }
    return 0;
}

void fixture_vocab_close(struct fixture_vocab *fixture)
{
    free(fixture->vocab.tokens);
    free(fixture->vocab.scores);
    free(fixture->vocab.types);
    free(fixture->vocab.merges);
    free(fixture->data);
}

int fixture_strings_open(struct fixture_strings *fixture, const char *path)
{
    *fixture = (struct fixture_strings){0};
    char *data = fixture_read(path, NULL), *at = data;
    if (!data) return -1;
    for (char *line; (line = fixture_line(&at));) {
        long repeat = 1;
        if (*line == '@') repeat = strtol(line + 1, &line, 10), line++;
        size_t n = fixture_unescape(line);
        char *text = malloc(n * (size_t)repeat + 1);
        for (long i = 0; i < repeat; i++) memcpy(text + (size_t)i * n, line, n);
        fixture->strings = realloc(fixture->strings, (fixture->n + 1) * sizeof *fixture->strings);
        fixture->strings[fixture->n++] = (struct rf_str){text, n * (size_t)repeat};
    }
    free(data);
    return 0;
}

void fixture_strings_close(struct fixture_strings *fixture)
{
    for (size_t i = 0; i < fixture->n; i++) free((void *)(uintptr_t)fixture->strings[i].data);
    free(fixture->strings);
}

int fixture_same_ids(const char *line, const int32_t *ids, size_t n)
{
    if (strcmp(line, "-") == 0) return n == 0;
    if (*line == '#') {
        uint64_t hash = 0xcbf29ce484222325u;
        for (size_t i = 0; i < n; i++)
            for (int shift = 0; shift < 32; shift += 8)
                hash = (hash ^ ((uint32_t)ids[i] >> shift & 0xff)) * 0x100000001b3u;
        char *rest;
        return strtoull(line + 1, &rest, 10) == n && strtoull(rest, NULL, 16) == hash;
    }
    size_t at = 0;
    for (char *rest; *line; line = rest) {
        long id = strtol(line, &rest, 10), count = 1;
        if (*rest == '*') count = strtol(rest + 1, &rest, 10);
        for (; count > 0; count--)
            if (at == n || ids[at++] != id) return 0;
        if (rest == line) return 0;
    }
    return at == n;
}
