#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/engine.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/output.h"

/* The memory that the opened model will need. */
struct cost {
    int32_t n_ctx;
    uint64_t weight_bytes, kv_bytes, draft_bytes, total_bytes, memory_bytes;
};

static struct cost cost_of(const riffle_model_info *info, const riffle_machine *machine,
                           int32_t n_ctx)
{
    struct cost cost = {.n_ctx = n_ctx};
    if (cost.n_ctx == 0)
        cost.n_ctx =
            info->n_ctx_train < RIFFLE_DEFAULT_CTX ? info->n_ctx_train : RIFFLE_DEFAULT_CTX;
    cost.weight_bytes = info->mapped_bytes + info->resident_bytes;
    cost.kv_bytes = info->kv_bytes_per_token * (uint64_t)cost.n_ctx;
    cost.draft_bytes = info->draft_bytes;
    cost.total_bytes = cost.weight_bytes + cost.kv_bytes + cost.draft_bytes;
    cost.memory_bytes = machine->memory_bytes;
    return cost;
}

static void print_json(const struct engine *engine, const riffle_machine *machine,
                       const struct cost *cost)
{
    const riffle_model_info *info = &engine->info;
    struct json_writer json = {0};
    jw_object(&json, NULL);
    jw_string(&json, "path", engine->path);
    jw_string(&json, "name", engine_model_name(engine));
    jw_string(&json, "arch", info->architecture);
    jw_string(&json, "container", info->container);
    jw_string(&json, "stored_types", info->stored_types);
    jw_string(&json, "weights", info->weights);
    jw_string(&json, "weights_note", info->weights_note);
    jw_string(&json, "tokenizer", info->tokenizer);
    if (info->chat_template[0])
        jw_string(&json, "chat_template", info->chat_template);
    else
        jw_null(&json, "chat_template");
    jw_uint(&json, "n_params", info->n_params);
    jw_uint(&json, "file_bytes", info->file_bytes);
    jw_uint(&json, "weight_bytes", info->weight_bytes);
    jw_int(&json, "n_layer", info->n_layer);
    jw_int(&json, "n_embd", info->n_embd);
    jw_int(&json, "n_head", info->n_head);
    jw_int(&json, "n_head_kv", info->n_head_kv);
    jw_int(&json, "head_dim", info->head_dim);
    jw_int(&json, "n_ff", info->n_ff);
    jw_int(&json, "n_vocab", info->n_vocab);
    jw_int(&json, "n_ctx_train", info->n_ctx_train);
    jw_number(&json, "rope_theta", (double)info->rope_theta);
    jw_int(&json, "bos_token", info->bos_token);
    jw_int(&json, "eos_token", info->eos_token);
    jw_bool(&json, "adds_bos", info->adds_bos);
    jw_string(&json, "chain", info->chain);
    jw_string(&json, "chain_note", info->chain_note);
    jw_object(&json, "memory");
    jw_int(&json, "context", cost->n_ctx);
    jw_uint(&json, "mapped_bytes", info->mapped_bytes);
    jw_uint(&json, "resident_bytes", info->resident_bytes);
    jw_uint(&json, "kv_bytes_per_token", info->kv_bytes_per_token);
    jw_uint(&json, "kv_bytes", cost->kv_bytes);
    jw_uint(&json, "draft_bytes", cost->draft_bytes);
    jw_uint(&json, "total_bytes", cost->total_bytes);
    jw_uint(&json, "machine_bytes", cost->memory_bytes);
    jw_end_object(&json);
    jw_object(&json, "machine");
    jw_string(&json, "cpu", machine->cpu);
    jw_string(&json, "cpu_best", machine->cpu_best);
    jw_int(&json, "cores", machine->cores);
    jw_end_object(&json);
    jw_end_object(&json);
    jw_print(&json);
}

static void print_text(const struct engine *engine, const riffle_machine *machine,
                       const struct cost *cost)
{
    const riffle_model_info *info = &engine->info;
    char a[32], b[32], c[32];
    printf("model         ");
    print_name(stdout, engine_model_name(engine));
    printf("\nfile          ");
    print_name(stdout, engine->path);
    putchar('\n');
    printf("container     %s, %s\n", info->container, human_bytes(info->file_bytes, a));
    printf("architecture  %s: %d layers, width %d, feed-forward %d, %d heads of %d (%d for keys "
           "and values)\n",
           info->architecture, info->n_layer, info->n_embd, info->n_ff, info->n_head,
           info->head_dim, info->n_head_kv);
    printf("parameters    %s\n", human_count(info->n_params, a));
    printf("stored as     %s\n", info->stored_types);
    if (strcmp(info->weights, "stored") == 0)
        printf("computes in   the stored types%s%s%s, activations in 8 bits\n",
               info->weights_note[0] ? " (" : "", info->weights_note,
               info->weights_note[0] ? ")" : "");
    else
        printf("computes in   %s\n", info->weights);
    printf("tokenizer     %s, %d tokens%s\n", info->tokenizer, info->n_vocab,
           info->adds_bos ? ", BOS before a text" : "");
    printf("chat template %s\n", info->chat_template[0]
                                     ? info->chat_template
                                     : "none recognised; --template NAME chooses one");
    printf("trained for   %d tokens of context\n", info->n_ctx_train);
    printf("chain         %s: %s\n", info->chain, info->chain_note);
    if (engine->listed.name && !engine->listed.path)
        printf("draft model   not on this disk: `scripts/get-model %s` fetches the one that drafts "
               "for this model\n",
               engine->listed.name);

    printf("\nmemory\n");
    printf(
        "  weights     %s (%s of it used in place from the file), read once for each token: %s\n",
        human_bytes(cost->weight_bytes, a), human_bytes(info->mapped_bytes, b),
        human_bytes(info->weight_bytes, c));
    printf("  context     %s for %d tokens, %s each\n", human_bytes(cost->kv_bytes, a), cost->n_ctx,
           human_bytes(info->kv_bytes_per_token, b));
    if (cost->draft_bytes)
        printf("  drafts      %s for the chain's other weights\n",
               human_bytes(cost->draft_bytes, a));
    printf("  total       %s of this machine's %s%s\n", human_bytes(cost->total_bytes, a),
           human_bytes(cost->memory_bytes, b),
           cost->total_bytes > cost->memory_bytes ? ": too much" : "");
    printf("machine       %s%s%s, %d core%s\n", machine->cpu,
           strcmp(machine->cpu, machine->cpu_best) ? " of " : "",
           strcmp(machine->cpu, machine->cpu_best) ? machine->cpu_best : "", machine->cores,
           machine->cores == 1 ? "" : "s");
}

int verb_info(const struct cli_options *options)
{
    struct engine engine;
    riffle_machine machine;
    int status = engine_open_model(&engine, options, RIFFLE_OPEN_HEADER);
    if (status != CLI_OK) return status;

    int code = riffle_machine_get(&machine, sizeof machine);
    if (code == RIFFLE_OK) {
        struct cost cost = cost_of(&engine.info, &machine, options->n_ctx);
        if (options->json)
            print_json(&engine, &machine, &cost);
        else
            print_text(&engine, &machine, &cost);
    } else {
        status = cli_library_failed(code);
    }
    engine_close(&engine);
    return status;
}
