/* The advice of `riffle doctor`: each fact gives its line, and no other. */
#include <string.h>

#include "report/advice.h"
#include "support/check.h"

/* A fast machine with a model. */
static struct doctor_facts well(void)
{
    return (struct doctor_facts){.machine = {.cpu = "avx512", .cpu_best = "avx512"},
                                 .cores = {.n_cores = 8},
                                 .health = {.load = 0.1, .available_bytes = 16000000000},
                                 .has_huge_pages = 1,
                                 .read_bytes_per_second = 60e9,
                                 .n_models = 2,
                                 .largest = "qwen3-4b",
                                 .largest_bytes = 2500000000};
}

/* `words` is in the only line; NULL: there is none. */
static void expect(const struct doctor_facts *facts, const char *words)
{
    struct buffer lines = {0};
    size_t n = 0;
    doctor_advise(facts, &lines);
    for (const char *at = lines.data; at && *at; at++) n += *at == '\n';
    CHECK_MSG(n == (words ? 1 : 0) && (!words || strstr(lines.data, words)), "%s: %s",
              words ? words : "nothing", lines.data ? lines.data : "");
    buffer_free(&lines);
}

#define EXPECT(words, ...)                  \
    do {                                    \
        struct doctor_facts facts = well(); \
        __VA_ARGS__;                        \
        expect(&facts, words);              \
    } while (0)

int main(void)
{
    EXPECT(NULL, (void)0);
    EXPECT("kernels are those of avx2", strcpy(facts.machine.cpu, "avx2"));
    EXPECT("The system hides AMX.", strcpy(facts.machine.note, "The system hides AMX"));
    EXPECT("the governor powersave", strcpy(facts.health.slow_clocks, "the governor powersave"));
    EXPECT("plug it in", facts.health.is_on_battery = 1);
    EXPECT("slowed 1 time because", facts.health.throttled = 1);
    EXPECT("slowed 7 times because", facts.health.throttled = 7);
    EXPECT("may use 2 of 8 cores", facts.cores.quota = 2);
    EXPECT(NULL, facts.cores.quota = 8);
    EXPECT("kept 2.5 threads busy", facts.health.load = 2.5);
    EXPECT(NULL, facts.health.load = -1);
    EXPECT("virtual machine", facts.health.is_virtual = 1);
    EXPECT("Huge pages are off", facts.has_huge_pages = 0);
    EXPECT("read at 18 GB/s, as one channel", facts.read_bytes_per_second = 18e9);
    EXPECT(NULL, facts.read_bytes_per_second = 18e9; facts.cores.n_cores = 2);
    EXPECT("1.00 GB are swapped out", facts.health.swapped_bytes = 1000000000);
    EXPECT(NULL, facts.health.swapped_bytes = 1000000);
    EXPECT("The model qwen3-4b takes 2.50 GB, and 2.00 GB of memory are free",
           facts.health.available_bytes = 2000000000);
    EXPECT("The model a\\x1bb takes", facts.largest = "a\033b"; facts.health.available_bytes = 1);
    EXPECT("`riffle pull`", facts.n_models = 0; facts.largest = NULL; facts.largest_bytes = 0);
    return check_result();
}
