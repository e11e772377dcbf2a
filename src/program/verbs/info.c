/* The verb info: the contents of a model's file, and the memory that it will need here. Only the
 * header is read. */
#include <stdio.h>
#include <string.h>

#include "output/errors.h"
#include "output/output.h"
#include "platform/memory.h"
#include "riffle_experimental.h"
#include "session/engine.h"
#include "verbs/verbs.h"

enum { KV_TYPES = 3 };
static const char *const kv_types[KV_TYPES] = {"f16", "q8", "q4"};

/* The memory that the opened model will need. */
struct cost {
    int32_t n_ctx;
    uint64_t weight_bytes, kv_bytes, total_bytes;
    uint64_t
        of_type[KV_TYPES]; /* bytes of that context in each type; 0: more than the machine has */
};

static int is_encoder(const struct engine *engine)
{
    return riffle_model_get_kind(engine->model) != RIFFLE_KIND_DECODER;
}

/* CLI_OK, or CLI_FAILED with a sentence: a session could not have that context. */
static int find_cost(const struct engine *engine, const struct cli_options *asked,
                     struct cost *cost)
{
    const riffle_model_info *info = &engine->info;
    riffle_session_options options;
    riffle_session_options_init(&options, sizeof options);
    options.n_ctx = asked->n_ctx;
    options.kv = asked->kv;
    int code = riffle_session_cost(engine->model, &options, &cost->n_ctx, &cost->kv_bytes);
    cost->weight_bytes = info->mapped_bytes + info->resident_bytes;
    if (is_encoder(engine)) cost->kv_bytes = 0; /* passes keep those of one layer */
    cost->total_bytes = cost->weight_bytes + cost->kv_bytes + info->draft_bytes;
    if (code < 0) return cli_status(code);
    options.n_ctx = cost->n_ctx;
    for (int i = 0; i < KV_TYPES; i++) {
        options.kv = kv_types[i];
        if (riffle_session_cost(engine->model, &options, NULL, &cost->of_type[i]) < 0)
            cost->of_type[i] = 0;
    }
    return CLI_OK;
}

static void write_model(struct json_writer *json, const struct engine *engine)
{
    static const char *const
        kinds[] = {"decoder", "encoder", "reranker"},
        *const poolings[] = {
            [RIFFLE_POOL_MEAN] = "mean", [RIFFLE_POOL_LAST] = "last", [RIFFLE_POOL_CLS] = "cls"};
    const riffle_model_info *info = &engine->info;
    jw_put(json, "path %s name %s arch %s", engine->path, engine_model_name(engine),
           info->architecture);
    jw_put(json, "container %s file_type %s stored_types %s", info->container, info->file_type,
           info->stored_types);
    jw_put(json, "weights %s weights_note %s weights_reason %s", info->weights, info->weights_note,
           info->weights_reason);
    jw_put(json, "activation_bits %d activations_reason %s device %s", info->activation_bits,
           info->activations_reason, info->device);
    jw_put(json, "device_layers %d layers_note %s", info->device_layers, info->layers_note);
    jw_put(json, "tokenizer %s", info->tokenizer);
    jw_string(json, "chat_template", info->chat_template[0] ? info->chat_template : NULL);
    jw_put(json, "n_params %" PRIu64 " file_bytes %" PRIu64 " weight_bytes %" PRIu64,
           info->n_params, info->file_bytes, info->weight_bytes);
    jw_put(json, "n_layer %d n_embd %d n_head %d", info->n_layer, info->n_embd, info->n_head);
    jw_put(json, "n_head_kv %d head_dim %d n_ff %d", info->n_head_kv, info->head_dim, info->n_ff);
    jw_put(json, "n_expert %d n_expert_used %d experts_note %s", info->n_expert,
           info->n_expert_used, info->experts_note);
    jw_put(json, "n_vocab %d n_ctx_train %d", info->n_vocab, info->n_ctx_train);
    jw_put(json, "rope_theta %g bos_token %d eos_token %d", (double)info->rope_theta,
           info->bos_token, info->eos_token);
    jw_bool(json, "adds_bos", info->adds_bos);
    jw_put(json, "kind %s pooling %s", kinds[riffle_model_get_kind(engine->model)],
           poolings[riffle_model_get_pooling(engine->model)]);
    jw_put(json, "prompts [");
    for (size_t i = 0; riffle_model_get_prompt_name(engine->model, i); i++)
        jw_string(json, NULL, riffle_model_get_prompt_name(engine->model, i));
    jw_put(json, "]");
    jw_put(json, "chain %s chain_note %s", info->chain, info->chain_note);
    jw_string(json, "head", info->head[0] ? info->head : NULL);
    jw_put(json, "head_bytes %" PRIu64 " head_recipe %s", info->head_bytes, info->head_recipe);
}

static void info_print_json(const struct engine *engine, const riffle_machine *machine,
                            const struct cost *cost)
{
    const riffle_model_info *info = &engine->info;
    struct json_writer json = {0};
    jw_put(&json, "{");
    write_model(&json, engine);
    jw_put(&json, "memory { context %d mapped_bytes %" PRIu64 " resident_bytes %" PRIu64,
           cost->n_ctx, info->mapped_bytes, info->resident_bytes);
    jw_put(&json, "kv_bytes_per_token %" PRIu64 " kv_bytes %" PRIu64 " draft_bytes %" PRIu64,
           info->kv_bytes_per_token, cost->kv_bytes, info->draft_bytes);
    jw_put(&json, "kv_bytes_of { f16 %" PRIu64 " q8 %" PRIu64 " q4 %" PRIu64 " }", cost->of_type[0],
           cost->of_type[1], cost->of_type[2]);
    jw_put(&json, "total_bytes %" PRIu64 " machine_bytes %" PRIu64 " }", cost->total_bytes,
           machine->memory_bytes);
    jw_put(&json, "machine { cpu %s cpu_best %s cores %d } }", machine->cpu, machine->cpu_best,
           machine->cores);
    jw_print(&json);
}

/* Facts that a chat depends on. */
static void print_answers(const struct engine *engine)
{
    const riffle_model_info *info = &engine->info;
    char a[32];
    printf("chat template %s\n", info->chat_template[0]
                                     ? info->chat_template
                                     : "none recognised; --template NAME chooses one");
    printf("trained for   %d tokens of context\n", info->n_ctx_train);
    printf("chain         %s: %s\n", info->chain, info->chain_note);
    if (info->head[0]) {
        printf("draft head    ");
        print_name(stdout, info->head);
        printf(", %s read for each drafted token%s%s\n", human_bytes(info->head_bytes, a),
               info->head_recipe[0] ? ": " : "", info->head_recipe);
    }
    if (engine->draft.name && !engine->draft.path)
        printf("draft model   not on this disk: `riffle pull %s` fetches the one that drafts "
               "for this model\n",
               engine->draft.name);
}

/* Facts that vectors and scores depend on. */
static void print_vectors(const struct engine *engine)
{
    static const char *const rows[] = {[RIFFLE_POOL_MEAN] = "the mean of its tokens' rows",
                                       [RIFFLE_POOL_LAST] = "its last token's row",
                                       [RIFFLE_POOL_CLS] = "its first token's row"};
    const riffle_model *model = engine->model;
    const char *name;
    if (riffle_model_get_kind(model) == RIFFLE_KIND_RERANKER)
        printf("gives         a score for a query and a document\n");
    else
        printf("gives         %d values for a text: %s\n", engine->info.n_embd,
               rows[riffle_model_get_pooling(model)]);
    printf("reads         texts of at most %d tokens\n", engine->info.n_ctx_train);
    for (size_t i = 0; (name = riffle_model_get_prompt_name(model, i)) != NULL; i++) {
        fputs(i ? ", " : "prompts       ", stdout);
        print_name(stdout, name);
    }
    if (riffle_model_get_prompt_name(model, 0)) putchar('\n');
}

/* The context of a session. */
static void print_context(const riffle_model_info *info, const struct cost *cost)
{
    char a[32], b[32];
    printf("  context     %s for %d tokens, %s each\n", human_bytes(cost->kv_bytes, a), cost->n_ctx,
           human_bytes(cost->kv_bytes / (uint64_t)cost->n_ctx, b));
    printf("              ");
    for (int i = 0; i < KV_TYPES; i++)
        printf("%s%s in %s", i ? ", " : "",
               cost->of_type[i] ? human_bytes(cost->of_type[i], a) : "too much", kv_types[i]);
    printf(" (--kv)\n");
    if (info->draft_bytes)
        printf("  drafts      %s for the chain's other weights\n",
               human_bytes(info->draft_bytes, a));
}

static void info_print_text(const struct engine *engine, const riffle_machine *machine,
                            const struct cost *cost)
{
    const riffle_model_info *info = &engine->info;
    char a[32], b[32], activations[RF_ACTIVATIONS_TEXT];
    printf("model         ");
    print_name(stdout, engine_model_name(engine));
    printf("\nfile          ");
    print_name(stdout, engine->path);
    printf("\ncontainer     %s, %s\n", info->container, human_bytes(info->file_bytes, a));
    printf("architecture  %s: %d layers, width %d, feed-forward %d, %d heads of %d (%d for keys "
           "and values)\n",
           info->architecture, info->n_layer, info->n_embd, info->n_ff, info->n_head,
           info->head_dim, info->n_head_kv);
    if (info->n_expert)
        printf("experts       %d of width %d, %d for each token\n", info->n_expert, info->n_ff,
               info->n_expert_used);
    if (info->experts_note[0]) printf("              %s\n", info->experts_note);
    printf("parameters    %s\n", human_count(info->n_params, a));
    printf("stored as     %s%s%s\n", info->file_type, info->file_type[0] ? ": " : "",
           info->stored_types);
    if (strcmp(info->weights, "stored") == 0)
        printf("computes in   the stored types%s%s%s, %s\n", info->weights_note[0] ? " (" : "",
               info->weights_note, info->weights_note[0] ? ")" : "",
               engine_activations(engine, activations));
    else
        printf("computes in   %s\n", info->weights);
    if (strcmp(info->device, "cpu") != 0)
        printf("device        %s, %d of %d layers\n", info->device, info->device_layers,
               info->n_layer);
    printf("tokenizer     %s, %d tokens%s\n", info->tokenizer, info->n_vocab,
           info->adds_bos && !is_encoder(engine) ? ", BOS before a text" : "");
    if (is_encoder(engine))
        print_vectors(engine);
    else
        print_answers(engine);
    printf("\nmemory\n  weights     %s (%s of it used in place from the file), ",
           human_bytes(cost->weight_bytes, a), human_bytes(info->mapped_bytes, b));
    printf("read once for each token: %s\n", human_bytes(info->weight_bytes, a));
    if (!is_encoder(engine)) print_context(info, cost);
    printf("  total       %s of this machine's %s%s\n", human_bytes(cost->total_bytes, a),
           human_bytes(machine->memory_bytes, b),
           cost->total_bytes > machine->memory_bytes ? ": too much" : "");
    printf("  huge pages  %s\n", rf_memory_huge_pages());
    int lower = strcmp(machine->cpu, machine->cpu_best) != 0;
    printf("machine       %s%s%s, %d core%s\n", machine->cpu, lower ? " of " : "",
           lower ? machine->cpu_best : "", machine->cores, plural(machine->cores));
}

int verb_info(const struct cli_options *options)
{
    struct engine engine;
    riffle_machine machine;
    int status = engine_open_model(&engine, options, RIFFLE_OPEN_HEADER);
    if (status != CLI_OK) return status;
    struct cost cost = {0};
    status = cli_status(riffle_machine_get(&machine, sizeof machine));
    if (status == CLI_OK) status = find_cost(&engine, options, &cost);
    if (status == CLI_OK && options->json)
        info_print_json(&engine, &machine, &cost);
    else if (status == CLI_OK)
        info_print_text(&engine, &machine, &cost);
    engine_close(&engine);
    return status;
}
