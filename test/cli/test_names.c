/* Names of hubs, types in names of files, and the model that suits a machine, without a network. */
#include <stdlib.h>
#include <string.h>

#include "hubs/name.h"
#include "hubs/types.h"
#include "models/propose.h"
#include "support/check.h"

#define LINE(name, bytes, read, purpose) \
    name "\t-\tMIT\t" bytes "\t-\t-\t-\thf.co/o/" name ":Q4_0\t-\t" purpose "\t" read "\n"

/* The list of this test. */
const char known_models_tsv[] = "# a comment\n" LINE("small", "1000000000", "1000000000", "chat")
    LINE("middle", "5000000000", "5000000000", "chat")
        LINE("sparse", "20000000000", "2000000000", "chat")
            LINE("large", "21000000000", "21000000000", "chat")
                LINE("coder", "4000000000", "100", "code")
                    LINE("tiny", "500000000", "500000000", "embedding") "broken\tline\n";

static void check_name(const char *text, enum hub hub, const char *written, const char *folder)
{
    struct hub_name name, again;
    char shown[HUB_NAME_TEXT], place[HUB_NAME_TEXT];
    CHECK_MSG(hub_name_parse(text, &name) == (hub != HUB_NONE), "%s", text);
    CHECK_MSG(name.hub == hub || hub == HUB_NONE, "%s", text);
    if (hub == HUB_NONE) return;
    hub_name_write(&name, shown);
    hub_name_folder(&name, place);
    CHECK_MSG(strcmp(shown, written) == 0, "%s: %s, not %s", text, shown, written);
    CHECK_MSG(strcmp(place, folder) == 0, "%s: %s, not %s", text, place, folder);
    /* The written calls mean the same. */
    CHECK_MSG(hub_name_parse(shown, &again) && again.hub == hub && !strcmp(again.repo, name.repo) &&
                  !strcmp(again.owner, name.owner),
              "%s: %s", text, shown);
}

static void check_names(void)
{
    check_name("o/r", HUB_HUGGINGFACE, "o/r", "hf.co/o/r");
    check_name("o/r:Q8_0", HUB_HUGGINGFACE, "o/r:Q8_0", "hf.co/o/r");
    check_name("HF.co/o/r:q8_0", HUB_HUGGINGFACE, "o/r:q8_0", "hf.co/o/r");
    check_name("https://HuggingFace.co/o/r?x=y", HUB_HUGGINGFACE, "o/r", "hf.co/o/r");
    check_name("tiny:1b", HUB_OLLAMA, "tiny:1b", "ollama.com/library/tiny");
    check_name("ollama.com/u/t", HUB_OLLAMA, "ollama.com/u/t:latest", "ollama.com/u/t");
    check_name("modelscope.cn/o/r", HUB_MODELSCOPE, "modelscope.cn/o/r", "modelscope.cn/o/r");
    static const char *const none[] = {"",
                                       "/",
                                       ":",
                                       "a",
                                       "a/",
                                       "/a",
                                       "a/b/",
                                       "a/b/c",
                                       "a//b",
                                       ":a",
                                       "a:",
                                       "c:model",
                                       "C:\\models\\a",
                                       "a\\b:c",
                                       "../b",
                                       "a/..",
                                       "a/b:../c",
                                       "a/b:c/d",
                                       "a:b:c",
                                       "~/models",
                                       "a/model.gguf",
                                       "model.gguf",
                                       "http://huggingface.co/o/r",
                                       "https://example.com/o/r",
                                       "https://huggingface.co/datasets/o/r",
                                       "https://huggingface.co/o",
                                       "https://huggingface.co/o/r/raw/main/%2e%2e%00",
                                       "ollama.com/a/b/c",
                                       "ftp://hf.co/o/r",
                                       "hf.co",
                                       "hf.co/o"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) check_name(none[i], HUB_NONE, "", "");
}

static void check_type(const char *file, const char *wanted)
{
    char type[TYPE_TEXT];
    type_of_file(file, type);
    CHECK_MSG(strcmp(type, wanted) == 0, "%s: '%s', not '%s'", file, type, wanted);
}

static void check_types(void)
{
    check_type("Qwen3-4B-Q4_K_M.gguf", "Q4_K_M");
    check_type("qwen2.5-7b-instruct-q4_k_m-00001-of-00002.gguf", "Q4_K_M");
    check_type("model.i1-IQ4_XS.gguf", "IQ4_XS");
    check_type("m-UD-Q2_K_XL.gguf", "UD-Q2_K_XL");
    check_type("Llama-3.2-1B-Instruct-Q4_0_4_4.gguf", "Q4_0_4_4");
    check_type("gpt-oss-20b-mxfp4.GGUF", "MXFP4");
    check_type("BF16/model.gguf", "BF16");
    check_type("Qwen3-4B.gguf", "");
    check_type("queen-q.gguf", "");
    check_type("Q4_K_M", "");
    check_type(".gguf", "");
    CHECK_MSG(type_rank("Q4_K_M") == 0 && type_rank("q8_0") > 0 && type_rank("IQ4_XS") > 0 &&
                  type_rank("IQ3_XS") > type_rank("Q3_K_S") && type_rank("NVFP4") < 0,
              "ranks");
    static const char *const files[] = {"mmproj-F16.gguf", "a-IQ2_S.gguf",
                                        "a-Q8_0-00001-of-00002.gguf", "a-Q8_0-00002-of-00002.gguf",
                                        "b/a-Q6_K.gguf"};
    CHECK_MSG(type_choose(files, 5, "") == 4, "%d", type_choose(files, 5, ""));
    CHECK_MSG(type_choose(files, 5, "q8_0") == 2, "%d", type_choose(files, 5, "q8_0"));
    CHECK_MSG(type_choose(files, 5, "a-q6_k") == 4, "%d", type_choose(files, 5, "a-q6_k"));
    CHECK_MSG(type_matches("m-fp16.gguf", "F16") == 2 && type_matches("m-F32.gguf", "fp32") == 2 &&
                  !type_matches("m-fp16.gguf", "F32") && !type_matches("m-BF16.gguf", "F16"),
              "floats");
    CHECK_MSG(type_choose(files, 5, "F16") == -1, "%d", type_choose(files, 5, "F16"));
    CHECK_MSG(type_choose(files, 0, "") == -1, "none");
    char other[64];
    int number, count;
    CHECK_MSG(type_part(files[3], &number, &count) && number == 2 && count == 2, "%s", files[3]);
    type_other_part(files[3], 1, other, sizeof other);
    CHECK_MSG(strcmp(other, files[2]) == 0, "%s", other);
}

/* Random texts of the characters that names are made of: nothing is read or written elsewhere, and
 * a name is plain. */
static void check_random(void)
{
    static const char letters[] = "a/:.-_%Q48KM~\\ hfco?#";
    char text[64], type[TYPE_TEXT], label[HUB_TYPE], file[256];
    struct hub_name name;
    unsigned state = 1;
    for (int n = 0; n < 200000; n++) {
        size_t length = (state >> 16) % 40;
        for (size_t i = 0; i < length; i++) {
            state = state * 1664525 + 1013904223;
            text[i] = letters[(state >> 16) % (sizeof letters - 1)];
        }
        state = state * 1664525 + 1013904223;
        snprintf(text + length, sizeof text - length, "%s",
                 state >> 31   ? ""
                 : state >> 30 ? ".gguf"
                               : "-00001-of-00002.gguf");
        if (hub_name_parse(text, &name))
            CHECK_MSG(hub_is_plain(name.owner) && hub_is_plain(name.repo), "%s", text);
        type_of_file(text, type);
        type_label(text, label);
        if (type_file_name(text, file, sizeof file) == 0) CHECK_MSG(hub_is_plain(file), "%s", text);
    }
}

static void check_proposals(void)
{
    static const struct {
        double gigabytes, gigabytes_per_second;
        const char *name;
    } machines[] = {{64, 200, "large"}, {64, 20, "sparse"},  {27, 20, "small"}, {27, 30, "middle"},
                    {28, 10, "sparse"}, {8.1, 25, "middle"}, {8, 24, "small"},  {7, 1000, "small"},
                    {4, 4, "tiny"},     {1, 100, "tiny"}};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        const struct known_model *model = propose_for((uint64_t)(machines[i].gigabytes * 1e9),
                                                      machines[i].gigabytes_per_second * 1e9);
        const char *wanted = machines[i].name;
        CHECK_MSG(strcmp(model->name, wanted) == 0, "%g GB: %s, not %s", machines[i].gigabytes,
                  model->name, wanted);
    }
}

int main(void)
{
    check_names();
    check_types();
    check_random();
    check_proposals();
    return check_result();
}
