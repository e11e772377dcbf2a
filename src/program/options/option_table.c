/* The table of all options, in the order in which every verb's help shows them. A name may have
 * several rows for different verbs; a verb has at most one of them. */
#include "options/option_table.h"

#define AT(field) offsetof(struct cli_options, field)
#define LITERAL(x) #x
#define TEXT(x) LITERAL(x)

enum {
    GENERATES = VERB_CHAT | VERB_RUN,
    ANSWERS = GENERATES | VERB_SERVE,
    COMPUTES = ANSWERS | VERB_BENCH | VERB_PERPLEXITY | VERB_EMBED,
    OPENS = COMPUTES | VERB_TOKENIZE | VERB_INFO,
    READS = VERB_RUN | VERB_TOKENIZE
};

const struct option option_table[] = {
    {"--prompt", "-p", "TEXT", OPTION_TEXT, READS, AT(prompt), 0, 0, NULL, "the text"},
    {"--file", "-f", "FILE", OPTION_TEXT, READS | VERB_PERPLEXITY, AT(file), 0, 0, NULL,
     "read the text from FILE, or from standard input if FILE is -; without it, from standard "
     "input if that is not a terminal"},
    {"--file", "-f", "FILE", OPTION_TEXT, VERB_EMBED, AT(file), 0, 0, NULL,
     "read the texts from the lines of FILE, or of standard input if FILE is -"},
    {"--prefix", NULL, "TEXT", OPTION_TEXT, VERB_EMBED, AT(prefix), 0, 0, NULL,
     "what comes before each text, as models want it: 'query: ', 'search_document: '"},
    {"--prompt", NULL, "NAME", OPTION_TEXT, VERB_EMBED, AT(prompt_name), 0, 0, NULL,
     "the same by the name that the model's folder gives it: query, document"},
    {"--format", NULL, "F", OPTION_CHOICE, VERB_EMBED, AT(format), 0, 0, "jsonl|npy",
     "'jsonl' (default), or 'npy': one array for NumPy, a row for each text"},
    {"--system", NULL, "TEXT", OPTION_TEXT, GENERATES, AT(system), 0, 0, NULL,
     "instructions before the conversation"},
    {"--raw", NULL, NULL, OPTION_FLAG, VERB_RUN | VERB_BENCH, AT(raw), 0, 0, NULL,
     "read the text as it is, without the chat template; BOS comes first if the model adds one"},
    {"--messages", NULL, NULL, OPTION_FLAG, VERB_RUN, AT(messages), 0, 0, NULL,
     "the text is a conversation in JSON, as /save of chat writes it, perhaps with tools"},
    {"--special", NULL, NULL, OPTION_FLAG, READS, AT(special), 0, 0, NULL,
     "read the text of a special token, such as <|im_start|>, as that token (run: with --raw)"},
    {"--no-bos", NULL, NULL, OPTION_FLAG, VERB_TOKENIZE, AT(no_bos), 0, 0, NULL,
     "omit the BOS token that the model adds before a text"},
    {"--template", NULL, "NAME|FILE", OPTION_TEXT, ANSWERS | VERB_BENCH, AT(chat_template), 0, 0,
     NULL,
     "chat template to use instead of the one in the file: a built-in one, or the Jinja source in "
     "FILE, a path with a slash or with the ending .jinja"},
    {"--max-tokens", NULL, "N", OPTION_INT, GENERATES, AT(max_tokens), 0, INT32_MAX, NULL,
     "most tokens of an answer; 0 (default): until the model ends it or the context is full"},
    {"--prompt-tokens", "-p", "N", OPTION_LIST, VERB_BENCH, AT(prompt_tokens), 0, 0, NULL,
     "lengths of the prompts to read, such as 128,512 (default 128)"},
    {"--gen", "-n", "N", OPTION_INT, VERB_BENCH, AT(n_gen), 1, INT32_MAX, NULL,
     "tokens to decode (default 24)"},
    {"--depth", "-d", "N", OPTION_LIST, VERB_BENCH, AT(depths), 0, 0, NULL,
     "tokens that the context already holds, such as 0,4096,16384: how speed falls (default 0)"},
    {"--suite", NULL, "SUITE", OPTION_TEXT, VERB_BENCH, AT(suite), 0, 0, NULL,
     "prompts to answer with every chain and with plain decoding: code, qa, hard, long, or a FILE "
     "(JSONL, or text as one prompt)"},
    {"--format", NULL, "F", OPTION_CHOICE, VERB_BENCH, AT(format), 0, 0,
     "llama-bench|llama-bench-csv|llama-bench-jsonl",
     "time prompts (-p, default 512) and answers (-n, default 128) alone, and print the columns of "
     "llama-bench: Markdown, CSV or JSON lines"},
    {"--preset", NULL, "P", OPTION_CHOICE, VERB_BENCH, AT(preset), 0, 0, "mlperf-client",
     "lengths of prompts and answers of another benchmark: MLPerf Client's categories"},
    {"--prompts", NULL, "N", OPTION_INT, VERB_BENCH, AT(n_prompts), 1, INT32_MAX, NULL,
     "with --suite: only its first N prompts"},
    {"--max-tokens", NULL, "N", OPTION_INT, VERB_BENCH, AT(max_tokens), 1, INT32_MAX, NULL,
     "with --suite: tokens of each answer; an end-of-text token does not stop it (default 160)"},
    {"--stop", NULL, "TEXT", OPTION_TEXTS, GENERATES, AT(stop), 0, 0, NULL,
     "end the answer before this text; may be given several times"},
    {"--json-schema", NULL, "FILE", OPTION_TEXT, GENERATES, AT(json_schema), 0, 0, NULL,
     "answers are JSON that meets the schema in FILE, or the schema that is given itself: a text "
     "that begins with {"},
    {"--grammar", NULL, "FILE", OPTION_TEXT, GENERATES, AT(grammar), 0, 0, NULL,
     "answers are texts of the grammar in FILE (GBNF)"},
    {"--temp", NULL, "T", OPTION_FLOAT, GENERATES, AT(sampling.temperature), 0, 100, NULL,
     "temperature; 0 (run's default): always the most likely token. A chat's defaults for this and "
     "what follows are those that suit the model; /set shows them"},
    {"--top-k", NULL, "K", OPTION_INT, GENERATES, AT(sampling.top_k), 0, INT32_MAX, NULL,
     "choose among the K most likely tokens (run: 40; 0: all)"},
    {"--top-p", NULL, "P", OPTION_FLOAT, GENERATES, AT(sampling.top_p), 0, 1, NULL,
     "choose among the most likely tokens with total probability P (run: 0.95; 1: all)"},
    {"--min-p", NULL, "P", OPTION_FLOAT, GENERATES, AT(sampling.min_p), 0, 1, NULL,
     "exclude tokens less likely than P times the most likely one (run: 0.05; 0: none)"},
    {"--repeat-penalty", NULL, "R", OPTION_FLOAT, GENERATES, AT(sampling.repeat_penalty), 0.01, 100,
     NULL, "make recent tokens less likely (1, run's default: off)"},
    {"--repeat-last-n", NULL, "N", OPTION_INT, GENERATES, AT(sampling.repeat_last_n), -1, INT32_MAX,
     NULL, "tokens that count as recent (default 64; -1: the whole context)"},
    {"--frequency-penalty", NULL, "F", OPTION_FLOAT, GENERATES, AT(sampling.frequency_penalty), -2,
     2, NULL, "make tokens less likely each time that the answer has them (default 0: off)"},
    {"--presence-penalty", NULL, "P", OPTION_FLOAT, GENERATES, AT(sampling.presence_penalty), -2, 2,
     NULL, "make tokens less likely that the answer has (default 0: off)"},
    {"--seed", NULL, "S", OPTION_SEED, GENERATES, AT(sampling.seed), 0, 0, NULL,
     "the same seed gives the same text; by default each run with T above 0 differs"},
    {"--ignore-repetition", NULL, NULL, OPTION_FLAG, GENERATES, AT(ignore_repetition), 0, 0, NULL,
     "continue an answer that only repeats itself; without it, such an answer is stopped"},
    {"--overflow", NULL, "O", OPTION_CHOICE, VERB_CHAT, AT(overflow), 0, 0, "stop|drop",
     "what a full context does: 'stop' (default) ends the answer, 'drop' forgets the oldest turns "
     "and goes on"},
    {"--chunks", NULL, "N", OPTION_INT, VERB_PERPLEXITY, AT(chunks), 1, INT32_MAX, NULL,
     "score only the first N windows (default: all)"},
    {"--repeats", "-r", "N", OPTION_INT, VERB_BENCH, AT(repeats), 1, 1000, NULL,
     "rounds of measurement; medians and quartiles are shown (default 5; with --suite 1)"},
    {"--chain", NULL, "CHAIN", OPTION_TEXTS, VERB_BENCH, AT(chains), 0, 0, NULL,
     "with --suite: how to speculate, as in chat and run (default auto); may be given several "
     "times"},
    {"--chain", NULL, "CHAIN", OPTION_TEXT, ANSWERS | VERB_INFO, AT(chain), 0, 0, NULL,
     "how to speculate: 'auto' (default), 'none', or levels from cheap to expensive, such as "
     "'ngram > draft > mxfp4'. A level is ngram, corpus, head, a model, mxfp4, q4, stored or a8. "
     "The "
     "chain does not change the answer. For long texts: with --kv q8, the levels kv4, mxfp4:kv4, "
     "q4:kv4 and stored:kv4 read the KV cache in 4 bits; window, mxfp4:window, q4:window and "
     "stored:window read the text's beginning and its last 1,000 to 1,500 tokens alone"},
    {"--draft", NULL, "MODEL", OPTION_TEXT, ANSWERS | VERB_BENCH | VERB_INFO, AT(draft), 0, 0, NULL,
     "a small model for drafts, used by 'auto' and by a level called draft (bench: with --suite)"},
    {"--head", NULL, "FILE", OPTION_TEXT, ANSWERS | VERB_BENCH | VERB_INFO, AT(head), 0, 0, NULL,
     "a draft head of this model, used by 'auto' and by a level called head (bench: with --suite); "
     "default: the one that came with the program, or is in the model's file; 'none': none"},
    {"--corpus", NULL, "FILE", OPTION_TEXT, ANSWERS | VERB_BENCH | VERB_INFO, AT(corpus), 0, 0,
     NULL,
     "a file of `riffle corpus build`, looked up for drafts by 'auto' and by a level called corpus "
     "(bench: with --suite)"},
    {"--gamma", NULL, "N", OPTION_INT, ANSWERS | VERB_BENCH, AT(gamma), 1, RIFFLE_MAX_DRAFT, NULL,
     "draft N tokens in every round (default: adaptive, by measurement; bench: with --suite)"},
    {"--min-confidence", NULL, "P", OPTION_FLOAT, ANSWERS | VERB_BENCH, AT(min_confidence), 0, 1,
     NULL, "with --gamma: end a draft before a token of lower probability"},
    {"--weights", NULL, "W", OPTION_CHOICE, OPENS & ~(unsigned)VERB_TOKENIZE, AT(weights), 0, 0,
     "auto|stored|bf16",
     "the precision of the weights: 'stored' (also 'auto', the default): quantised types in their "
     "own bits; or 'bf16'"},
    {"--kv", NULL, "K", OPTION_CHOICE, ANSWERS | VERB_BENCH | VERB_PERPLEXITY | VERB_INFO, AT(kv),
     0, 0, "f16|bf16|q8|q4",
     "the type of the KV cache: 'f16' (default), 'bf16', or the newest 129 to 256 positions in F16 "
     "and older ones in 8 ('q8') or 4 bits ('q4')"},
    {"--activations", NULL, "A", OPTION_CHOICE, OPENS & ~(unsigned)VERB_TOKENIZE, AT(activations),
     0, 0, "auto|8|16",
     "bits of activations beside quantised weights: '16' is closer to the model, '8' reads prompts "
     "and drafts twice as fast; 'auto' (default): 16 for small models"},
    {"--device", NULL, "D", OPTION_TEXT, COMPUTES | VERB_INFO | VERB_ROOFLINE, AT(device), 0, 0,
     NULL,
     "where the model computes: cpu (default), cuda, cuda:N, or auto: the first CUDA device, else "
     "the processor; `riffle devices` lists them"},
    {"--gpu-layers", NULL, "N", OPTION_TEXT, COMPUTES | VERB_INFO, AT(gpu_layers), 0, 0, NULL,
     "with --device: layers on the device, the others on the processor: 'auto' (default: as many "
     "as its free memory holds with the context), 'all', or a number"},
    {"--expert-memory", NULL, "MB", OPTION_INT, COMPUTES | VERB_INFO, AT(expert_memory), 1,
     INT32_MAX, NULL,
     "memory for the experts of a model that has them; others stay in the file until a token needs "
     "them (default: for all, or what the machine has)"},
    {"--threads", NULL, "N", OPTION_INT, COMPUTES | VERB_CORES | VERB_CORPUS, AT(threads), 1, 1024,
     NULL, "worker threads (default: one for each core that --cores selects)"},
    {"--cores", NULL, "CORES", OPTION_TEXT, COMPUTES | VERB_CORES, AT(cores), 0, 0, NULL,
     "cores to use: auto (default: P and E cores), p, e, all (low-power cores as well), or CPU "
     "numbers such as 0-3,8; `riffle cores` shows the plan"},
    {"--type", NULL, "T", OPTION_CHOICE, VERB_QUANTIZE, AT(type), 0, 0,
     "mxfp4|q4|q4_0|w4a8|w4a8i|q6|q8_0|bf16",
     "the new type of the matrices: mxfp4, q4 (Q4_K, or Q4_1 if the row length is no multiple of "
     "256), q4_0, w4a8 (QQQ, with --calibrate), w4a8i (the same, for sums of integers), q6 (Q6_K, "
     "or Q8_0), q8_0 or bf16"},
    {"--model", NULL, "MODEL", OPTION_TEXT, VERB_CORPUS, AT(model), 0, 0, NULL,
     "the model whose drafts the corpus is for"},
    {"--keep", NULL, "P", OPTION_FLOAT, VERB_CORPUS, AT(keep), 0.001, 1, NULL,
     "the share of the text to keep, what the model finds likeliest (default 0.5)"},
    {"--no-refine", NULL, NULL, OPTION_FLAG, VERB_CORPUS, AT(no_refine), 0, 0, NULL,
     "keep all the text, without reading it with the model"},
    {"--rule", NULL, "R", OPTION_CHOICE, VERB_QUANTIZE, AT(rule), 0, 0, "best|floor",
     "with --type mxfp4, how exponents are chosen: 'best' (default): of two, the one with less "
     "squared error; 'floor': as OCP specifies"},
    {"--calibrate", NULL, "FILE", OPTION_TEXT, VERB_QUANTIZE, AT(calibrate), 0, 0, NULL,
     "with --type mxfp4, q4, w4a8 or w4a8i, a text on which the new weights lose least: slow, but "
     "as good "
     "as more bits. Ctrl-C stops; the same command continues"},
    {"--group", NULL, "G", OPTION_CHOICE, VERB_QUANTIZE, AT(group), 0, 0, "128|channel",
     "with --type w4a8 or w4a8i, weights that share a scale: 128 (default) of a row, or 'channel', "
     "all of "
     "it"},
    {"--high-share", NULL, "P", OPTION_INT, VERB_QUANTIZE, AT(high_share), 0, 100, NULL,
     "with --calibrate, percent of the weights in Q6_K (Q8_0 if the row length is no multiple of "
     "256), as whole matrices, those whose rounding matters most (default: 25 with q4, w4a8 and "
     "w4a8i, "
     "else 0)"},
    {"--rotate", NULL, NULL, OPTION_FLAG, VERB_QUANTIZE, AT(rotate), 0, 0, NULL,
     "rotate hidden states and heads first, so that weights round better; tied embeddings become "
     "two tensors (default: with w4a8 and w4a8i, if the model allows it and has no four bits yet)"},
    {"--no-rotate", NULL, NULL, OPTION_FLAG, VERB_QUANTIZE, AT(no_rotate), 0, 0, NULL,
     "with --type w4a8 or w4a8i, do not rotate"},
    {"--chunks", NULL, "N", OPTION_INT, VERB_QUANTIZE, AT(chunks), 1, INT32_MAX, NULL,
     "with --calibrate, N windows of 512 tokens, spread over the text (default: 128)"},
    {"--threads", NULL, "N", OPTION_INT, VERB_QUANTIZE, AT(threads), 1, 1024, NULL,
     "worker threads (default: one for each core)"},
    {"--kernel", NULL, "NAME", OPTION_LIST, VERB_ROOFLINE, AT(kernels), 0, 0, NULL,
     "only kernels whose name contains NAME, such as mxfp4 or attention (default: all)"},
    {"--tier", NULL, "TIER", OPTION_LIST, VERB_ROOFLINE, AT(tiers), 0, 0, NULL,
     "the kernels of this tier, such as avx2 (default: the tier in use)"},
    {"--shape", NULL, "MxK", OPTION_LIST, VERB_ROOFLINE, AT(shapes), 0, 0, NULL,
     "M outputs and K inputs of a linear layer, K a multiple of 256 (default 8192x8192)"},
    {"--rows", NULL, "N", OPTION_LIST, VERB_ROOFLINE, AT(rows), 0, 0, NULL,
     "rows of activations (default 1,2,4,8,16,128; attention takes up to 16)"},
    {"--threads", NULL, "N", OPTION_INT, VERB_ROOFLINE, AT(threads), 1, 1024, NULL,
     "worker threads (default: one, then one for each core)"},
    {"--repeats", "-r", "N", OPTION_INT, VERB_ROOFLINE, AT(rounds), 1, 1000, NULL,
     "rounds of measurement; medians are shown (default 11)"},
    {"--pool", NULL, "MIB", OPTION_INT, VERB_ROOFLINE, AT(pool_mib), 64, INT32_MAX, NULL,
     "memory to stream weights from (default: four times the last-level cache, at least 1024, at "
     "most 2048 or a quarter of the memory)"},
    {"--svg", NULL, "FILE", OPTION_TEXT, VERB_ROOFLINE, AT(svg), 0, 0, NULL,
     "also write the roofline plot to FILE as SVG"},
    {"--ctx", NULL, "N", OPTION_INT, ANSWERS | VERB_INFO, AT(n_ctx), 8, INT32_MAX, NULL,
     "capacity of the context in tokens (default: what the model was trained on and memory holds, "
     "at most " TEXT(RIFFLE_DEFAULT_CTX) ")"},
    {"--ctx", NULL, "N", OPTION_INT, VERB_BENCH, AT(n_ctx), 8, INT32_MAX, NULL,
     "capacity of the context in tokens (default: what the depths and prompts need)"},
    {"--ctx", NULL, "N", OPTION_INT, VERB_PERPLEXITY, AT(n_ctx), 8, INT32_MAX, NULL,
     "tokens of a window (default 512)"},
    {"--host", NULL, "HOST", OPTION_TEXT, VERB_SERVE, AT(host), 0, 0, NULL,
     "the address to listen on, in digits (default localhost); others than localhost need a key"},
    {"--port", NULL, "N", OPTION_INT, VERB_SERVE, AT(port), 0, 65535, NULL,
     "the port to listen on (default 8080; 0: any free one)"},
    {"--api-key", NULL, "KEY", OPTION_TEXT, VERB_SERVE, AT(api_key), 0, 0, NULL,
     "what requests must have as `Authorization: Bearer KEY` (default: $RIFFLE_API_KEY)"},
    {"--cors", NULL, "ORIGIN", OPTION_TEXTS, VERB_SERVE, AT(origins), 0, 0, NULL,
     "pages of this origin, such as https://chat.example, may ask in a browser; '*': all pages "
     "(repeatable; default: none)"},
    {"--parallel", NULL, "N", OPTION_INT, VERB_SERVE, AT(answers), 1, 32, NULL,
     "most answers under way at the same time (default 8)"},
    {"--queue", NULL, "N", OPTION_INT, VERB_SERVE, AT(queue), 1, 1024, NULL,
     "most requests that wait; others are refused with 429 (default 64)"},
    {"--kept-size", NULL, "MB", OPTION_INT, VERB_SERVE, AT(kept_mb), 1, INT32_MAX, NULL,
     "keys and values to keep for prompts that begin alike, in million bytes (default: 1074, or an "
     "eighth of the memory)"},
    {"--name", NULL, "NAME", OPTION_TEXT, VERB_SERVE, AT(name), 0, 0, NULL,
     "the name of the model in requests (default: MODEL without folder and ending)"},
    {"--prompt-cache", NULL, "DIR", OPTION_TEXT, VERB_SERVE, AT(store), 0, 0, NULL,
     "keep what prompts begin with in this folder, so that a restart does not read it again; it is "
     "made if it is not there"},
    {"--prompt-cache-size", NULL, "MB", OPTION_INT, VERB_SERVE, AT(store_mb), 1, INT32_MAX, NULL,
     "million bytes that the folder may take; what was not used for long goes first (default "
     "4000)"},
    {"--models-memory", NULL, "MB", OPTION_INT, VERB_SERVE, AT(models_mb), 1, INT32_MAX, NULL,
     "memory for open models and the texts that they keep, in million bytes; the least recently "
     "used ones are closed for others (default: three quarters of the memory; for one MODEL: no "
     "limit)"},
    {"--keep-alive", NULL, "S", OPTION_INT, VERB_SERVE, AT(keep_alive), -1, INT32_MAX, NULL,
     "seconds that a model stays open without a request (default 600; where MODEL is given, and "
     "for -1: until others need its memory)"},
    {"--model-wait", NULL, "S", OPTION_INT, VERB_SERVE, AT(model_wait), 1, 86400, NULL,
     "seconds that a request waits for its model to be open; then it is refused with 503 "
     "(default 120)"},
    {"--pull", NULL, NULL, OPTION_FLAG, VERB_SERVE, AT(pulls), 0, 0, NULL,
     "without MODEL: requests may name known models and those of hubs, which are fetched first"},
    {"--sha256", NULL, "HEX", OPTION_TEXT, VERB_PULL, AT(sha256), 0, 0, NULL,
     "what the SHA-256 of a URL's file must be; without it the file is not verified"},
    {"--name", NULL, "NAME", OPTION_TEXT, VERB_PULL, AT(name), 0, 0, NULL,
     "the name of a URL's file here (default: the last part of the URL)"},
    {"--max-size", NULL, "MB", OPTION_INT, VERB_PULL, AT(max_mb), 1, INT32_MAX, NULL,
     "refuse files of more than so many million bytes (default: what fits on the disk)"},
    {"--timeout", NULL, "S", OPTION_INT, VERB_PULL, AT(timeout), 1, 86400, NULL,
     "give up after S seconds without a connection, or without another byte (default 60)"},
    {"--verify", NULL, NULL, OPTION_FLAG, VERB_PULL | VERB_LIST, AT(verify), 0, 0, NULL,
     "read files again whose SHA-256 is known, and compare"},
    {"--clear", NULL, NULL, OPTION_FLAG, VERB_CACHE, AT(clear), 0, 0, NULL,
     "remove it; the next runs compute it again"},
    {"--yes", "-y", NULL, OPTION_FLAG, VERB_RM, AT(yes), 0, 0, NULL, "do not ask"},
    {"--json", NULL, NULL, OPTION_FLAG,
     (OPENS | VERB_LIST | VERB_ROOFLINE | VERB_QUANTIZE | VERB_CORES | VERB_DEVICES | VERB_DOCTOR |
      VERB_CORPUS | VERB_CACHE) &
         ~(unsigned)(VERB_CHAT | VERB_SERVE | VERB_EMBED),
     AT(json), 0, 0, NULL,
     "print one JSON object at the end, and nothing else, on standard output"},
    {"--csv", NULL, NULL, OPTION_FLAG, VERB_BENCH, AT(csv), 0, 0, NULL,
     "print the figures as CSV, one in a line, and nothing else, on standard output"},
    {"--ids", NULL, NULL, OPTION_FLAG, VERB_RUN, AT(ids), 0, 0, NULL,
     "with --json: also the token ids of the answer"},
    {"--verbose", NULL, NULL, OPTION_FLAG, GENERATES, AT(verbose), 0, 0, NULL,
     "report the model, speeds and the drafts of a round on standard error even if that is not a "
     "terminal"},
    {NULL, NULL, NULL, OPTION_FLAG, 0, 0, 0, 0, NULL, NULL},
};

const struct verb verb_table[] = {
#define VERB(name, NAME, ...) {#name, VERB_##NAME, __VA_ARGS__},
#include "options/verbs.def"
    {NULL, 0, 0, NULL, NULL, NULL},
};

const struct variable variable_table[] = {
    {"RIFFLE_CPU", "a lower instruction tier: scalar, avx2, avxvnni, avxvnniint8, avx512 or amx"},
    {"RIFFLE_CUDA_MODULE", "the file of the CUDA backend (default: libriffle-cuda.so)"},
    {"RIFFLE_API_KEY", "the key that requests to `riffle serve` must have"},
    {"RIFFLE_HEADS", "the folder of draft heads (default: the one that came with the program)"},
    {"RIFFLE_MODELS", "the folder of the models (default: riffle/models in $XDG_DATA_HOME)"},
    {"XDG_DATA_HOME", "the parent of riffle/models (default: ~/.local/share)"},
    {"XDG_CACHE_HOME", "the parent of what `riffle cache` lists (default: ~/.cache)"},
    {"XDG_STATE_HOME", "the parent of the chats' history (default: ~/.local/state)"},
    {"HWLOC_XMLFILE", "`riffle cores` plans for the machine that this file describes"},
    {"HF_TOKEN", "your token for models of Hugging Face that are not for everybody"},
    {"HF_ENDPOINT", "a mirror of Hugging Face (default: https://huggingface.co)"},
    {"RIFFLE_OLLAMA_REGISTRY", "a mirror of ollama's registry"},
    {"MODELSCOPE_DOMAIN", "a mirror of ModelScope (default: modelscope.cn)"},
    {"MODELSCOPE_API_TOKEN", "your token for models of ModelScope"},
    {"HF_HUB_CACHE", "the cache of Hugging Face's programs, which is read (default: in $HF_HOME)"},
    {"OLLAMA_MODELS", "ollama's models, which are read (default: ~/.ollama/models)"},
    {"SSL_CERT_FILE", "the certificates that `riffle pull` trusts (default: the system's)"},
    {"NO_COLOR", "turns colours off"},
    {NULL, NULL},
};
