#!/usr/bin/env python3
"""Tiny random models of each architecture, with what transformers' own code computes with them.

    pip install torch transformers gguf
    scripts/make_architecture_models.py test/data/architectures [NAME...]

writes for each name a folder with config.json, model.safetensors, tokenizer.json, model.gguf (names, metadata and
permutations as llama.cpp's converter writes them) and expected.txt. Weights are exact in BF16. The forward passes are
transformers' own in F32, with two roundings that the engine has: the input rows of linear layers to BF16, keys (after
rotation) and values to F16. So what is left is the order of F32 sums, and roundings that it tips over.

The weights are random and of no licence; transformers (Apache-2.0) is only run.
"""
import json
import math
import os
import sys

import gguf
import numpy as np
import torch
import transformers
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import eager_attention_forward as llama_attention

N_VOCAB, N_CTX, WINDOW, LOCAL_DIM, FULL_DIM = 288, 2048, 48, 16, 32
SIZES = dict(vocab_size=N_VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=N_CTX, bos_token_id=286, eos_token_id=287,
             pad_token_id=None)
SMALLER = {"intermediate_size": 32, "tie_word_embeddings": True}
SLIDING_FULL = SMALLER | {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
GEMMA4 = {"intermediate_size": 32, "head_dim": LOCAL_DIM, "global_head_dim": FULL_DIM, "sliding_window": WINDOW,
          "vocab_size_per_layer_input": N_VOCAB, "tie_word_embeddings": True}
LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 512,
            "short_factor": [1.0, 1.1, 1.2, 1.3, 1.5, 1.7], "long_factor": [1.0, 1.5, 2.0, 3.0, 4.0, 6.0]}

# name: (model type, changes to SIZES)
MODELS = {
    "llama": ("llama", {}),
    "mistral": ("mistral", {"sliding_window": WINDOW}),
    "mistral-nemo": ("mistral", {"sliding_window": None, "head_dim": 24}),
    "granite": ("granite", {"embedding_multiplier": 6.0, "residual_multiplier": 0.22, "attention_multiplier": 0.125,
                            "logits_scaling": 3.0, "tie_word_embeddings": True}),
    "olmo2": ("olmo2", {}),
    # A scaling of the layers without a window alone.
    "olmo3": ("olmo3", SLIDING_FULL | {"tie_word_embeddings": False, "rope_parameters": {
        "full_attention": {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0,
                           "original_max_position_embeddings": 256, "attention_factor": 1.2079441541679836},
        "sliding_attention": {"rope_type": "default", "rope_theta": 20000.0}}}),
    "smollm3": ("smollm3", {"num_hidden_layers": 4, "use_sliding_window": False, "tie_word_embeddings": True}),
    "phi3": ("phi3", {"sliding_window": WINDOW}),
    "phi4-mini": ("phi3", {"num_attention_heads": 2, "num_key_value_heads": 1, "partial_rotary_factor": 0.75, "sliding_window": None,
                           "tie_word_embeddings": True, "original_max_position_embeddings": 512,
                           "rope_parameters": LONGROPE | {"partial_rotary_factor": 0.75}}),
    "gemma2": ("gemma2", {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": WINDOW,
                          "attn_logit_softcapping": 3.0, "final_logit_softcapping": 6.0}),
    "gemma3": ("gemma3_text", {"num_hidden_layers": 6, "head_dim": 16, "query_pre_attn_scalar": 16,
                               "sliding_window": WINDOW}),
    # Two kinds of layers with heads of different sizes; the last three read the keys and values of those before, and have
    # wider feed-forwards; embeddings of the layers.
    "gemma4": ("gemma4_text", GEMMA4 | {
        "num_hidden_layers": 6, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 3, "hidden_size_per_layer_input": 16, "use_double_wide_mlp": True,
        "final_logit_softcapping": 6.0}),
    # The same parts in other places: v is k in layers without a window, which have fewer heads of k; nothing is shared.
    "gemma4-dense": ("gemma4_text", GEMMA4 | {
        "num_hidden_layers": 4, "layer_types": ["full_attention", "sliding_attention"] * 2, "attention_k_eq_v": True,
        "num_global_key_value_heads": 1, "num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0}),
    "llama-bias": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "qwen3-bias": ("qwen3", {"head_dim": 16, "attention_bias": True, "use_sliding_window": True,
                             "sliding_window": WINDOW, "max_window_layers": 0}),
    "granite-bias": ("granite", {"attention_bias": True, "mlp_bias": True, "residual_multiplier": 0.5}),
    "olmo2-bias": ("olmo2", {"attention_bias": True}),
    "smollm3-bias": ("smollm3", {"num_hidden_layers": 4, "attention_bias": True, "mlp_bias": True,
                                 "use_sliding_window": True, "sliding_window": WINDOW}),
    "gemma2-bias": ("gemma2", {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": WINDOW,
                               "attention_bias": True}),
    # Each of two rotations has a scaling of its own.
    "gemma3-yarn": ("gemma3_text", {
        "num_hidden_layers": 4, "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": WINDOW,
        "layer_types": ["sliding_attention", "full_attention"] * 2, "rope_parameters": {
            "full_attention": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0,
                               "original_max_position_embeddings": 128},
            "sliding_attention": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}}}),
    # The greedy tokens after the longer text get over the border.
    "llama-longrope": ("llama", {"rope_parameters": {
        "rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 610,
        "short_factor": [1.0, 1.1, 1.3, 1.7], "long_factor": [1.0, 2.0, 4.0, 6.0]}}),
    # So do those after the shorter text.
    "llama-dynamic": ("llama", {"max_position_embeddings": 210, "rope_parameters": {
        "rope_type": "dynamic", "rope_theta": 10000.0, "factor": 5.0}}),
    # Layers with convolutions, whose number of rows is odd, before, between and after attention.
    "lfm2": ("lfm2", {"num_hidden_layers": 5, "head_dim": 12, "conv_L_cache": 3, "block_auto_adjust_ff_dim": False,
                      "layer_types": ["conv", "conv", "full_attention", "conv", "full_attention"]}),
    # The same by the keys of older files, with a width that is adjusted, biases, and more rows than most.
    "lfm2-bias": ("lfm2", {"num_hidden_layers": 4, "conv_L_cache": 6, "conv_bias": True, "block_ff_dim": 110,
                           "block_multiple_of": 32, "block_ffn_dim_multiplier": 1.2, "full_attn_idxs": [0, 2],
                           "tie_word_embeddings": False}),
    # Layers with the gated delta rule, two heads of v to one of k, and gated attention with partial rotation.
    "qwen35": ("qwen3_5_text", {"num_hidden_layers": 4, "head_dim": 16, "linear_num_key_heads": 2,
                                "linear_num_value_heads": 4, "linear_key_head_dim": 12, "linear_value_head_dim": 20,
                                "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                                                    "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1],
                                                    "mrope_interleaved": True}}),
    # Another order of layers, a longer convolution, heads of v and k one to one, of 16 and 32 columns; biases.
    "qwen35-bias": ("qwen3_5_text", {"num_hidden_layers": 4, "head_dim": 16, "linear_num_key_heads": 2,
                                     "linear_num_value_heads": 2, "linear_key_head_dim": 16,
                                     "linear_value_head_dim": 32, "linear_conv_kernel_dim": 6, "attention_bias": True,
                                     "layer_types": ["full_attention", "linear_attention", "linear_attention",
                                                     "full_attention"], "tie_word_embeddings": True}),
    # Layers with Mamba-2, two heads to a group, of 16 columns, before, between and after attention that is not rotated.
    "granitehybrid": ("granitemoehybrid", {
        "num_hidden_layers": 5, "num_local_experts": 0, "shared_intermediate_size": 64, "mamba_n_heads": 4,
        "mamba_n_groups": 2, "mamba_d_state": 12, "embedding_multiplier": 6.0, "residual_multiplier": 0.5,
        "attention_multiplier": 0.25, "logits_scaling": 3.0,
        "layer_types": ["linear_attention", "full_attention", "linear_attention", "linear_attention", "full_attention"]}),
    # One group, heads of 20 columns, no bias of a longer convolution; rotation, biases of attention, limits of steps.
    "granitehybrid-rope": ("granitemoehybrid", {
        "num_hidden_layers": 4, "hidden_size": 40, "num_local_experts": 0, "shared_intermediate_size": 48,
        "mamba_n_heads": 4, "mamba_d_state": 20, "mamba_d_conv": 6, "mamba_conv_bias": False, "attention_bias": True,
        "position_embedding_type": "rope", "time_step_limit": (0.25, 1.5), "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "layer_types": ["full_attention", "linear_attention", "full_attention", "linear_attention"]}),
    # Layers of one branch each: Mamba-2 in three groups, attention that is not rotated, squared relu; biases of the latter.
    "nemotron-h": ("nemotron_h", {
        "num_hidden_layers": None, "head_dim": 12, "mamba_num_heads": 6, "mamba_head_dim": 20, "n_groups": 3,
        "ssm_state_size": 12, "mlp_bias": True, "layer_norm_epsilon": 1e-3, "layers_block_type": [
            "linear_attention", "mlp", "full_attention", "linear_attention", "mlp", "full_attention", "mlp"]}),
    # Biases of queries, keys and values by default, a head wider than its share; another of the output by its own key.
    "seed-oss": ("seed_oss", SMALLER | {"head_dim": 16, "attention_out_bias": True, "mlp_bias": True}),
    # Norms on both sides of the branches, half of a head rotates, neighbours together.
    "glm4": ("glm4", SMALLER | {"head_dim": 16}),
    # Rotation in the layers with a window alone.
    "exaone4": ("exaone4", SLIDING_FULL),
    # The same, with LayerNorm, and the feed-forward beside attention.
    "cohere2": ("cohere2", SLIDING_FULL | {"logit_scale": 0.25}),
    # LayerNorm with biases, a feed-forward without a gate.
    "starcoder2": ("starcoder2", SMALLER),
    # Queries grow with their position, by steps of 128.
    "ministral3": ("ministral3", SMALLER | {"head_dim": 16, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 128,
        "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5}}),
    # A text model of the older class in a model with a vision tower, whose output head is not the embedding although
    # its class says so.
    "mistral3-vision": ("mistral", {"intermediate_size": 32, "head_dim": 16, "sliding_window": None}),
    "gemma3-vision": ("gemma3_text", {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": WINDOW}),
}
# Kept only as safetensors: its vision tower is left out, so GGUF files of it are gemma3's.
VISION = {"gemma3-vision", "mistral3-vision"}
# GGUF has no keys for such rotations, widths and limits of steps, no such biases.
NO_GGUF = VISION | {"gemma3-yarn", "llama-dynamic", "lfm2-bias", "granitehybrid-rope"}
PERMUTED = {"llama", "mistral", "granite", "granitemoehybrid", "smollm3", "ministral3"}
GGUF_ARCH = {"mistral": "llama", "gemma3_text": "gemma3", "gemma4_text": "gemma4", "olmo3": "olmo2", "ministral3": "mistral3",
             "qwen3_5_text": "qwen35", "granitemoehybrid": "granitehybrid", "nemotron_h": "nemotron_h"}


def attention(module, query, key, value, mask, **kwargs):
    """Eager attention over keys and values in F16, with the caps that a module may have."""
    kwargs.pop("softcap", None)
    key, value = key.half().float(), value.half().float()
    cap = getattr(module, "attn_logit_softcapping", None)
    if cap is None:
        return llama_attention(module, query, key, value, mask, **kwargs)
    from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward
    return eager_attention_forward(module, query, key, value, mask, softcap=cap, **kwargs)


ALL_ATTENTION_FUNCTIONS.register("rounded", attention)
transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS.register(
    "rounded", transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS["eager"])


def make_config(kind, changes):
    config = transformers.AutoConfig.for_model(kind, **(SIZES | changes))
    config._attn_implementation = "rounded"
    return config


def make_vision_model(config):
    if config.model_type == "mistral":
        config = transformers.Mistral3Config(
            text_config=config, image_token_index=285, spatial_merge_size=1,
            vision_config=dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, head_dim=8,
                               image_size=8, patch_size=4))
        return transformers.Mistral3ForConditionalGeneration(config)
    config = transformers.Gemma3Config(
        text_config=config, image_token_index=285, boi_token_index=284, eoi_token_index=283, mm_tokens_per_image=4,
        vision_config=dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
                           image_size=8, patch_size=4))
    return transformers.Gemma3ForConditionalGeneration(config)


def adds_one(kind, name):
    """Whether the norm's weights count from 1 on."""
    return kind in {"gemma2", "gemma3_text"} or kind == "qwen3_5_text" and "linear_attn" not in name


def make_model(name, kind, changes):
    config = make_config(kind, changes)
    new = make_vision_model if name in VISION else transformers.AutoModelForCausalLM.from_config
    model = new(config).float().eval()
    generator, name_of_model = torch.Generator().manual_seed(20), name
    if name == "mistral3-vision":
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
    for name, tensor in model.named_parameters():
        # A coarse grid: exact in BF16, and small when compressed.
        noise = torch.randn(tensor.shape, generator=generator).mul(2).round().div(2)
        if "conv.conv.weight" in name or "conv1d.weight" in name or name.endswith("A_log"):
            tensor.data = noise / 2
        elif name.endswith("dt_bias"):
            tensor.data = noise / 2
        elif name.endswith(("mamba.D", "mixer.D")):
            tensor.data = noise / 4 + 1
        elif "norm" in name:
            tensor.data = noise / 4 + (0 if adds_one(kind, name) else 1)
            if kind == "gemma4_text" and ("q_norm" in name or "k_norm" in name):
                tensor.data /= 2 # scores have no other factor, and sharp ones would amplify roundings
        elif "embed" in name or "lm_head" in name:
            tensor.data = noise / 2
        elif tensor.dim() == 2:
            tensor.data = noise / 2 ** round(math.log2(tensor.shape[1]) / 2)
        elif name.endswith(".bias"):
            tensor.data = noise / 4
    for name, tensor in model.named_buffers():
        if name.endswith("layer_scalar"):
            tensor.data = torch.tensor([0.5 + int(name.split(".")[-2]) / 8])
    if name_of_model != "mistral3-vision":
        model.tie_weights()
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(lambda module, args: (args[0].bfloat16().float(),))
    return model


# ---- the tokenizer: bytes, and some pairs of letters ----

def byte_alphabet():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}


def tokens_and_merges():
    pairs = [a + b for a in "aeiou" for b in "nrstlm"]
    return [*byte_alphabet().values(), *pairs, "<s>", "</s>"], [f"{p[0]} {p[1]}" for p in pairs]


def write_tokenizer(folder):
    tokens, merges = tokens_and_merges()
    special = [{"id": i, "content": tokens[i], "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False} for i in (286, 287)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens[:286])}, "merges": merges}
    with open(f"{folder}/tokenizer.json", "w") as file:
        json.dump({"added_tokens": special, "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
                   "decoder": byte_level, "model": model}, file)


# ---- GGUF ----

def permute(weight, n_head):
    """llama.cpp's: halves of a head interleaved, for rotation of neighbours."""
    rows = weight.shape[0]
    return weight.reshape(n_head, 2, rows // n_head // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def write_metadata(writer, name, kind, config):
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    if kind == "nemotron_h":
        writer.add_feed_forward_length([config.intermediate_size * (t == "mlp") for t in config.layers_block_type])
    else:
        writer.add_feed_forward_length(config.intermediate_size)
    if kind == "gemma4_text":
        write_layer_metadata(writer, config)
        return
    writer.add_head_count(config.num_attention_heads)
    if kind == "lfm2":
        writer.add_head_count_kv([config.num_key_value_heads * (t != "conv") for t in config.layer_types])
        writer.add_shortconv_l_cache(config.conv_L_cache)
        writer.add_vocab_size(config.vocab_size)
    elif kind in {"granitemoehybrid", "nemotron_h"}:
        write_mamba_metadata(writer, kind, config)
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
    if kind in {"cohere2", "starcoder2", "nemotron_h"}:
        writer.add_layer_norm_eps(getattr(config, {"cohere2": "layer_norm_eps", "starcoder2": "norm_epsilon",
                                                   "nemotron_h": "layer_norm_epsilon"}[kind]))
    else:
        writer.add_layer_norm_rms_eps(config.norm_eps if kind == "lfm2" else config.rms_norm_eps)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    rope = getattr(config, "rope_parameters", None) or {"rope_theta": 10000.0, "rope_type": "default"}
    if kind in {"gemma3_text", "olmo3"}:
        local, rope = rope["sliding_attention"], rope["full_attention"]
        if kind == "olmo3":
            writer.add_rope_freq_base_swa(local["rope_theta"])
            writer.add_sliding_window_pattern([t == "sliding_attention" for t in config.layer_types])
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(int(head_dim * rope.get("partial_rotary_factor", 1)))
    if kind == "exaone4":
        writer.add_sliding_window_pattern([t == "sliding_attention" for t in config.layer_types])
    if kind == "cohere2":
        writer.add_logit_scale(config.logit_scale)
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
        writer.add_sliding_window_pattern(2) # the converter writes none; 4 is the default
    if kind == "ministral3":
        writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
        writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    if kind in {"granite", "granitemoehybrid"}:
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    if kind == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        for key, add in (("attention_factor", writer.add_rope_scaling_yarn_attn_factor),
                         ("beta_fast", writer.add_rope_scaling_yarn_beta_fast),
                         ("beta_slow", writer.add_rope_scaling_yarn_beta_slow)):
            if rope.get(key) is not None:
                add(rope[key])
    if kind == "qwen3_5_text":
        write_delta_metadata(writer, config)
    if rope["rope_type"] == "longrope":
        if kind != "phi3":
            writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        longer = N_CTX / rope["original_max_position_embeddings"]
        magnitude = math.sqrt(1 + math.log(longer) / math.log(rope["original_max_position_embeddings"]))
        writer.add_rope_scaling_attn_factors(magnitude)
        for which in ("long", "short"):
            writer.add_tensor(f"rope_factors_{which}.weight", np.array(rope[f"{which}_factor"], np.float32))


def write_layer_metadata(writer, config):
    """Gemma 4's sizes that differ between layers."""
    is_local = [t == "sliding_attention" for t in config.layer_types]
    wide = config.intermediate_size * (2 if config.use_double_wide_mlp else 1)
    shared = config.num_hidden_layers - config.num_kv_shared_layers
    kv_heads = lambda local: SIZES["num_key_value_heads"] if local or not config.attention_k_eq_v else 1
    del writer.kv_data[0][f"{writer.arch}.feed_forward_length"]
    writer.add_feed_forward_length([config.intermediate_size if i < shared else wide for i in range(config.num_hidden_layers)]
                                   if config.num_kv_shared_layers else config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv([kv_heads(local) for local in is_local] if config.attention_k_eq_v else SIZES["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_key_length(FULL_DIM)
    writer.add_value_length(FULL_DIM)
    writer.add_key_length_swa(LOCAL_DIM)
    writer.add_value_length_swa(LOCAL_DIM)
    writer.add_rope_freq_base(config.rope_parameters["full_attention"]["rope_theta"])
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    writer.add_rope_dimension_count(FULL_DIM)
    writer.add_rope_dimension_count_swa(LOCAL_DIM)
    writer.add_sliding_window(config.sliding_window)
    writer.add_sliding_window_pattern(is_local)
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    if config.final_logit_softcapping:
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    turned = int(FULL_DIM * config.rope_parameters["full_attention"]["partial_rotary_factor"] / 2)
    writer.add_tensor("rope_freqs.weight", np.array([1] * turned + [1e30] * (FULL_DIM // 2 - turned), np.float32))


def write_delta_metadata(writer, config):
    writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
    writer.add_ssm_state_size(config.linear_key_head_dim)
    writer.add_ssm_group_count(config.linear_num_key_heads)
    writer.add_ssm_time_step_rank(config.linear_num_value_heads)
    writer.add_ssm_inner_size(config.linear_num_value_heads * config.linear_value_head_dim)
    writer.add_rope_dimension_sections([11, 11, 10, 0])
    if config.layer_types[0] == "full_attention":
        writer.add_array("qwen35.attention.recurrent_layers", [t == "linear_attention" for t in config.layer_types])
    else:
        writer.add_full_attention_interval(config.layer_types.index("full_attention") + 1)


def write_mamba_metadata(writer, kind, config):
    rows, state, groups, heads, dim = (
        (config.conv_kernel, config.ssm_state_size, config.n_groups, config.mamba_num_heads, config.mamba_head_dim)
        if kind == "nemotron_h" else
        (config.mamba_d_conv, config.mamba_d_state, config.mamba_n_groups, config.mamba_n_heads, config.mamba_d_head))
    writer.add_head_count_kv([config.num_key_value_heads * (t == "full_attention") for t in config.layers_block_type])
    writer.add_ssm_conv_kernel(rows)
    writer.add_ssm_state_size(state)
    writer.add_ssm_group_count(groups)
    writer.add_ssm_inner_size(heads * dim)
    writer.add_ssm_time_step_rank(heads)
    writer.add_rope_scaling_finetuned(False)


def mamba_parts(config, name, values):
    """The tensors that llama.cpp's converter makes of one of a model with Mamba-2 without experts."""
    if name.endswith("shared_mlp.input_linear.weight"):
        gate, up = np.split(values, 2)
        return [("ffn_gate.weight", gate), ("ffn_up.weight", up)]
    if name.endswith("shared_mlp.output_linear.weight"):
        return [("ffn_down.weight", values)]
    if name.endswith((".A_log", "mamba.D", "mixer.D")):
        values = values.reshape(-1, 1)
    if name.endswith(("mamba.norm.weight", "mixer.norm.weight")):
        values = values.reshape(getattr(config, "mamba_n_groups", None) or config.n_groups, -1)
    return [(None, values)]


def tiled(config, name, values):
    """llama.cpp's order of the heads of v: those of one head of k stand apart."""
    keys, heads, dim = config.linear_num_key_heads, config.linear_num_value_heads, config.linear_value_head_dim
    order = lambda size: np.arange(heads * size).reshape(keys, heads // keys, size).swapaxes(0, 1).ravel()
    n_qk = 2 * keys * config.linear_key_head_dim
    if "in_proj_qkv" in name or "conv1d" in name:
        return np.concatenate([values[:n_qk], values[n_qk:][order(dim)]])
    if "out_proj" in name:
        return values[:, order(dim)]
    if "in_proj_z" in name:
        return values[order(dim)]
    return values if "norm" in name else values[order(1)]


def write_vocabulary(writer):
    tokens, merges = tokens_and_merges()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * 286 + [gguf.TokenType.CONTROL] * 2)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(286)
    writer.add_eos_token_id(287)
    writer.add_add_bos_token(False)


def write_gguf(path, name, kind, model):
    config = model.config
    arch = GGUF_ARCH.get(kind, kind)
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(name)
    write_metadata(writer, name, kind, config)
    write_vocabulary(writer)
    number = next(n for n, a in gguf.MODEL_ARCH_NAMES.items() if a == arch)
    names = gguf.get_tensor_name_map(number, config.num_hidden_layers)
    for hf_name, tensor in model.state_dict().items():
        if hf_name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = tensor.float().numpy()
        if hf_name.endswith("layer_scalar"):
            hf_name += ".weight"
        if "norm" in hf_name and adds_one(kind, hf_name):
            values = values + 1
        if "conv1d.weight" in hf_name:
            values = values.squeeze(1)
        if "linear_attn" in hf_name:
            values = tiled(config, hf_name, values)
        if hf_name.endswith("A_log"):
            values = -np.exp(values)
        hf_name = hf_name.replace("dt_bias", "dt_proj.bias")
        if kind in PERMUTED and hf_name.endswith(("q_proj.weight", "k_proj.weight", "q_proj.bias", "k_proj.bias")):
            values = permute(values, config.num_attention_heads if "q_proj" in hf_name else config.num_key_value_heads)
        if "conv.conv" in hf_name:
            values = values.squeeze(1)
        has_mamba = kind in {"granitemoehybrid", "nemotron_h"}
        if kind == "nemotron_h":
            hf_name = hf_name.replace("model.", "backbone.").replace("dt_proj.bias", "dt.bias")
        parts = mamba_parts(config, hf_name, values) if has_mamba else [(None, values)]
        for part, values in parts:
            new = (f"blk.{hf_name.split('.')[2]}.{part}" if part
                   else names.get_name(hf_name, try_suffixes=(".weight", ".bias")))
            if values.ndim == 1 or any(n in hf_name for n in ("conv.conv", "conv1d", ".A_log", "mamba.D", "mixer.D", "norm")):
                writer.add_tensor(new, values.astype(np.float32))
            else:
                bits = (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
                writer.add_tensor(new, bits.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---- what is expected ----

SHORT, LONG, N_GREEDY, N_SPREAD = 200, 600, 24, 24


def some_text(n):
    """Ids with repetitions, as n-grams need them."""
    rng = np.random.default_rng(7)
    ids = list(rng.integers(0, 286, 40))
    while len(ids) < n:
        if rng.random() < 0.5:
            at = int(rng.integers(0, len(ids) - 20))
            ids += ids[at:at + 20]
        else:
            ids += list(rng.integers(0, 286, 10))
    return [int(i) for i in ids[:n]]


@torch.no_grad()
def logits_of(model, ids):
    """What follows each token: of longrope as if the text ended there, so the first rows are those of a short text; with
    dynamic scaling as if the text was read token by token."""
    rope = getattr(model.config.get_text_config(), "rope_parameters", {})
    if rope.get("rope_type") == "longrope" and len(ids) > rope["original_max_position_embeddings"]:
        short = rope["original_max_position_embeddings"]
        return np.concatenate([whole_logits(model, ids[:short]), whole_logits(model, ids)[short:]])
    if rope.get("rope_type") != "dynamic":
        return whole_logits(model, ids)
    at = min(len(ids), model.config.max_position_embeddings - 1)
    cache = transformers.DynamicCache(config=model.config)
    rows = [model(torch.tensor([ids[:at]]), past_key_values=cache, use_cache=True).logits[0].numpy()]
    for i in ids[at:]:
        rows.append(model(torch.tensor([[i]]), past_key_values=cache, use_cache=True).logits[0].numpy())
    return np.concatenate(rows)


def whole_logits(model, ids):
    return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


def write_case(file, model, n_ctx, ids, positions, n_greedy):
    logits = logits_of(model, ids)
    print(f"case {n_ctx}", file=file)
    print(f"text {len(ids)}", *ids, file=file)
    for p in positions:
        spread = [(p * 7 + j * 11) % N_VOCAB for j in range(N_SPREAD)]
        print(f"position {p}", *(f"{i}:{logits[p][i]:.4f}" for i in [*spread, int(np.argmax(logits[p]))]), file=file)
    ids = list(ids)
    print(f"greedy {n_greedy}", end="", file=file)
    for _ in range(n_greedy):
        last = logits_of(model, ids)[-1]
        best = np.argsort(-last)[:2]
        print(f" {best[0]}:{last[best[0]] - last[best[1]]:.4f}", end="", file=file)
        ids.append(int(best[0]))
    print(file=file)
    return logits


def write_model(root, name):
    kind, changes = MODELS[name]
    folder = f"{root}/{name}"
    os.makedirs(folder, exist_ok=True)
    model = make_model(name, kind, changes)
    text = some_text(LONG)
    with open(f"{folder}/expected.txt", "w") as file:
        write_case(file, model, 256, text[:SHORT], [*range(0, 64, 4), *range(60, SHORT, 20), SHORT - 1], N_GREEDY)
        logits = write_case(file, model, 1024, text, [*range(239, 260, 3), *range(300, LONG, 25), LONG - 1], N_GREEDY)
    if name not in NO_GGUF:
        write_gguf(f"{folder}/model.gguf", name, kind, model)
    model.to(torch.bfloat16).save_pretrained(folder)
    if os.path.exists(f"{folder}/generation_config.json"):
        os.remove(f"{folder}/generation_config.json")
    write_tokenizer(folder)
    print(f"{name}: logits of standard deviation {logits.std():.2f}, "
          f"{sum(os.path.getsize(f'{folder}/{f}') for f in os.listdir(folder)) // 1000} kB")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[2:] or MODELS:
        write_model(sys.argv[1], name)
