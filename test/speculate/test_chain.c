/* Chains as people write them, right and wrong. */
#include "speculate/chain.h"
#include "support/check.h"

struct wanted_level {
    enum rf_level_kind kind;
    enum rf_weight_form form;
    const char *name;
};

#define NGRAM                                        \
    {                                                \
        RF_LEVEL_DRAFTER, RF_WEIGHTS_STORED, "ngram" \
    }
#define MXFP4                                    \
    {                                            \
        RF_LEVEL_SELF, RF_WEIGHTS_MXFP4, "mxfp4" \
    }
#define TARGET                                       \
    {                                                \
        RF_LEVEL_TARGET, RF_WEIGHTS_STORED, "target" \
    }

static const struct {
    const char *text, *shown;
    int32_t n_levels;
    struct wanted_level levels[RF_MAX_LEVELS];
} good[] = {
    {"none", "target", 1, {TARGET}},
    {"target", "target", 1, {TARGET}},
    {"ngram", "ngram > target", 2, {NGRAM, TARGET}},
    {" ngram>mxfp4\t>\ntarget ", "ngram > mxfp4 > target", 3, {NGRAM, MXFP4, TARGET}},
    {"q4", "q4 > target", 2, {{RF_LEVEL_SELF, RF_WEIGHTS_Q4, "q4"}, TARGET}},
    {"mxfp4 > stored",
     "mxfp4 > stored > target",
     3,
     {MXFP4, {RF_LEVEL_SELF, RF_WEIGHTS_STORED, "stored"}, TARGET}},
    {"ngram > mxfp4 > a8 > stored",
     "ngram > mxfp4 > a8 > stored > target",
     5,
     {NGRAM,
      MXFP4,
      {RF_LEVEL_SELF, RF_WEIGHTS_STORED, "a8"},
      {RF_LEVEL_SELF, RF_WEIGHTS_STORED, "stored"},
      TARGET}},
    {"ngram > models/tiny.gguf:mxfp4 > mxfp4",
     "ngram > tiny:mxfp4 > mxfp4 > target",
     4,
     {NGRAM, {RF_LEVEL_MODEL, RF_WEIGHTS_MXFP4, "models/tiny.gguf"}, MXFP4, TARGET}},
    {"draft", "draft > target", 2, {{RF_LEVEL_MODEL, RF_WEIGHTS_STORED, "draft"}, TARGET}},
    {"w4", "w4 > target", 2, {{RF_LEVEL_SELF, RF_WEIGHTS_W4, "w4"}, TARGET}},
    {"a:w4 > w4 : kv4 > w4:window",
     "a:w4 > w4:kv4 > w4:window > target",
     4,
     {{RF_LEVEL_MODEL, RF_WEIGHTS_W4, "a"},
      {RF_LEVEL_SELF, RF_WEIGHTS_W4, "w4:kv4"},
      {RF_LEVEL_SELF, RF_WEIGHTS_W4, "w4:window"},
      TARGET}},
    {"draft : q4", "draft:q4 > target", 2, {{RF_LEVEL_MODEL, RF_WEIGHTS_Q4, "draft"}, TARGET}},
    {"a.gguf:stored > a.gguf:bf16",
     "a > a:bf16 > target",
     3,
     {{RF_LEVEL_MODEL, RF_WEIGHTS_STORED, "a.gguf"},
      {RF_LEVEL_MODEL, RF_WEIGHTS_BF16, "a.gguf"},
      TARGET}},
    /* A ':' that belongs to the path. */
    {"nfs:/models/x.gguf",
     "x > target",
     2,
     {{RF_LEVEL_MODEL, RF_WEIGHTS_STORED, "nfs:/models/x.gguf"}, TARGET}},
    {"x:1.5b.gguf:q4",
     "x:1.5b:q4 > target",
     2,
     {{RF_LEVEL_MODEL, RF_WEIGHTS_Q4, "x:1.5b.gguf"}, TARGET}},
    {"x:q4/", "x:q4 > target", 2, {{RF_LEVEL_MODEL, RF_WEIGHTS_STORED, "x:q4/"}, TARGET}},
    {"x:q4:stored", "x:q4 > target", 2, {{RF_LEVEL_MODEL, RF_WEIGHTS_STORED, "x:q4"}, TARGET}},
    {"kv4", "kv4 > target", 2, {{RF_LEVEL_SELF, RF_WEIGHTS_STORED, "kv4"}, TARGET}},
    {"ngram > mxfp4:kv4 > q4",
     "ngram > mxfp4:kv4 > q4 > target",
     4,
     {NGRAM,
      {RF_LEVEL_SELF, RF_WEIGHTS_MXFP4, "mxfp4:kv4"},
      {RF_LEVEL_SELF, RF_WEIGHTS_Q4, "q4"},
      TARGET}},
    {"window > mxfp4 : window > mxfp4:kv4",
     "window > mxfp4:window > mxfp4:kv4 > target",
     4,
     {{RF_LEVEL_SELF, RF_WEIGHTS_STORED, "window"},
      {RF_LEVEL_SELF, RF_WEIGHTS_MXFP4, "mxfp4:window"},
      {RF_LEVEL_SELF, RF_WEIGHTS_MXFP4, "mxfp4:kv4"},
      TARGET}},
    /* Names that are hard to shorten. */
    {"./q4", "q4 > target", 2, {{RF_LEVEL_MODEL, RF_WEIGHTS_STORED, "./q4"}, TARGET}},
    {"a model/with spaces//",
     "with spaces > target",
     2,
     {{RF_LEVEL_MODEL, RF_WEIGHTS_STORED, "a model/with spaces//"}, TARGET}},
    {".gguf", ".gguf > target", 2, {{RF_LEVEL_MODEL, RF_WEIGHTS_STORED, ".gguf"}, TARGET}},
    {"/", "/ > target", 2, {{RF_LEVEL_MODEL, RF_WEIGHTS_STORED, "/"}, TARGET}},
    {"ngram > a > b > c > d > e > f", /* the most levels there may be */
     "ngram > a > b > c > d > e > f > target",
     8,
     {NGRAM,
      {RF_LEVEL_MODEL, RF_WEIGHTS_STORED, "a"},
      {RF_LEVEL_MODEL, RF_WEIGHTS_STORED, "b"},
      {RF_LEVEL_MODEL, RF_WEIGHTS_STORED, "c"},
      {RF_LEVEL_MODEL, RF_WEIGHTS_STORED, "d"},
      {RF_LEVEL_MODEL, RF_WEIGHTS_STORED, "e"},
      {RF_LEVEL_MODEL, RF_WEIGHTS_STORED, "f"},
      TARGET}},
};

static const struct {
    const char *text, *says;
} bad[] = {
    {"", "empty"},
    {" \t\n", "empty"},
    {">", "level 1 is empty"},
    {"ngram >", "level 2 is empty"},
    {"ngram > > mxfp4", "level 2 is empty"},
    {"ngram > ngram", "\"ngram\" occurs twice"},
    {"mxfp4 > mxfp4", "\"mxfp4\" occurs twice"},
    {"a.gguf > a.gguf:stored", "\"a.gguf\" occurs twice"},
    {"target > target", "after the target"},
    {"mxfp4 > ngram", "\"ngram\" is one of the cheapest levels and can only be the first"},
    {"target > mxfp4", "\"mxfp4\" stands after the target"},
    {"none > mxfp4", "\"none\" is a whole chain"},
    {"ngram > auto", "\"auto\" is a whole chain"},
    {"mxfp4 > tiny.gguf", "\"mxfp4\" stands before the model \"tiny.gguf\""},
    {"tiny.gguf:q5", "the form \"q5\", which is not known; known are mxfp4"},
    {"tiny.gguf:", "the form \"\""},
    {"tiny.gguf:MXFP4", "the form \"MXFP4\""},
    {":mxfp4", "no model before the ':'"},
    {"ngram:q4", "\"ngram\" takes no form"},
    {"mxfp4:q4", "\"mxfp4\" takes no form"},
    {"kv4:q4", "\"kv4\" takes no form"},
    {"mxfp4:kv4 > mxfp4:kv4", "occurs twice"},
    {"tiny.gguf:kv4", "the form \"kv4\""},
    {"tiny.gguf:window", "the form \"window\""},
    {"mxfp4:window:kv4", "the form \"kv4\""},
    {"q4:window > q4:window", "occurs twice"},
    {"target:bf16", "\"target\" takes no form"},
    {"bf16", "not \"bf16\""},
    {"a > b > c > d > e > f > g > h", "more than 7 levels"},
    {"a\nb:q9", "the form \"q9\""},
};

static void check_good(void)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct rf_chain chain;
        struct rf_error error = {0};
        char shown[256];
        int code = rf_chain_parse(&chain, good[i].text, &error);
        CHECK_MSG(code == 0, "\"%s\": %s", good[i].text, error.text);
        if (code) continue;
        CHECK_INT(chain.choice, RF_CHAIN_LEVELS);
        CHECK_INT(chain.n_levels, good[i].n_levels);
        for (int32_t k = 0; k < chain.n_levels; k++) {
            CHECK_INT(chain.levels[k].kind, good[i].levels[k].kind);
            CHECK_INT(chain.levels[k].form, good[i].levels[k].form);
            CHECK_STR(chain.levels[k].name, good[i].levels[k].name);
            const struct rf_drafter *drafter = chain.levels[k].drafter;
            CHECK((drafter != NULL) == (chain.levels[k].kind == RF_LEVEL_DRAFTER));
            if (drafter) CHECK_STR(drafter->name, good[i].levels[k].name);
        }
        rf_chain_format(&chain, shown, sizeof shown);
        CHECK_STR(shown, good[i].shown);
    }
}

static void check_bad(void)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rf_chain chain;
        struct rf_error error = {0};
        CHECK_INT(rf_chain_parse(&chain, bad[i].text, &error), RF_ERR_ARGUMENT);
        CHECK_MSG(strstr(error.text, bad[i].says) != NULL, "\"%s\" is answered by: %s", bad[i].text,
                  error.text);
        CHECK_INT(chain.n_levels, 0);
    }
}

static void check_auto(void)
{
    struct rf_chain chain;
    char shown[16];
    CHECK_INT(rf_chain_parse(&chain, " auto ", NULL), 0);
    CHECK_INT(chain.choice, RF_CHAIN_AUTO);
    CHECK_INT(chain.n_levels, 0);
    rf_chain_format(&chain, shown, sizeof shown);
    CHECK_STR(shown, "auto");
}

/* The levels of several chains, each once, in a chain's order. */
static void check_all(void)
{
    static const struct {
        const char *text, *shown;
    } all[] = {
        {"none", "target"},
        {"auto", "auto"},
        {"ngram > mxfp4", "ngram > mxfp4 > target"},
        {"ngram;corpus;none;ngram > corpus", "ngram > corpus > target"},
        {"ngram > q4; ngram > corpus > a.gguf", "ngram > corpus > a > q4 > target"},
        {"q4; b.gguf:mxfp4 > mxfp4 ; b.gguf", "b:mxfp4 > b > q4 > mxfp4 > target"},
    };
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"ngram;", "it is empty"},
        {"ngram;auto", "stands alone"},
        {"auto;ngram", "stands alone"},
        {"ngram; q4 > ngram", "can only be the first"},
        {"a > b > c > d; e > f > g > h", "more than 7 levels"},
    };
    struct rf_chain chain;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char shown[256];
        CHECK_INT(rf_chain_parse_all(&chain, all[i].text, NULL), 0);
        rf_chain_format(&chain, shown, sizeof shown);
        CHECK_STR(shown, all[i].shown);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct rf_error error = {0};
        CHECK_INT(rf_chain_parse_all(&chain, wrong[i].text, &error), RF_ERR_ARGUMENT);
        CHECK_MSG(strstr(error.text, wrong[i].says) != NULL, "\"%s\" is answered by: %s",
                  wrong[i].text, error.text);
        CHECK_INT(chain.n_levels, 0);
    }
}

/* Names as long as they may be, and one byte more. */
static void check_long(void)
{
    char text[RF_CHAIN_NAME_BYTES + 8];
    struct rf_chain chain;
    struct rf_error error = {0};
    memset(text, 'x', sizeof text);
    text[RF_CHAIN_NAME_BYTES - 1] = 0;
    CHECK_INT(rf_chain_parse(&chain, text, &error), 0);
    CHECK_STR(chain.levels[0].name, text);
    memcpy(text + RF_CHAIN_NAME_BYTES - 1, ":q4", 4);
    CHECK_INT(rf_chain_parse(&chain, text, &error), 0);
    CHECK_INT(chain.levels[0].form, RF_WEIGHTS_Q4);
    memcpy(text + RF_CHAIN_NAME_BYTES - 1, "x", 2);
    CHECK_INT(rf_chain_parse(&chain, text, &error), RF_ERR_ARGUMENT);
    CHECK(strstr(error.text, "longer than 511 bytes") != NULL);
}

/* A cut never splits a character, and never writes beyond its buffer. */
static void check_cuts(void)
{
    struct rf_chain chain;
    char out[32];
    CHECK_INT(rf_chain_parse(&chain, "ngram > \xc3\xa9\xc3\xa9.gguf:q4", NULL), 0);
    static const char *const cuts[] = {NULL,
                                       "",
                                       "n",
                                       "ng",
                                       "ngr",
                                       "ngra",
                                       "ngram",
                                       "ngram ",
                                       "ngram >",
                                       "ngram > ",
                                       "ngram > ",
                                       "ngram > \xc3\xa9",
                                       "ngram > \xc3\xa9",
                                       "ngram > \xc3\xa9\xc3\xa9"};
    for (size_t cap = 0; cap < sizeof cuts / sizeof *cuts; cap++) {
        memset(out, '#', sizeof out);
        rf_chain_format(&chain, out, cap);
        if (cap) CHECK_STR(out, cuts[cap]);
        for (size_t i = cap; i < sizeof out; i++) CHECK(out[i] == '#');
    }
    rf_chain_level_name(&chain.levels[1], out, sizeof out);
    CHECK_STR(out, "\xc3\xa9\xc3\xa9:q4");
    rf_chain_level_name(&chain.levels[2], out, 4);
    CHECK_STR(out, "tar");
}

int main(void)
{
    check_good();
    check_bad();
    check_auto();
    check_all();
    check_long();
    check_cuts();
    return check_result();
}
