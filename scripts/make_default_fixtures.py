#!/usr/bin/env python3
"""Writes test/data/config/transformers.jsonl: config.json files that leave values out or state them in several ways, and
the values that transformers' classes of configurations and models then have.

    pip install torch transformers==5.24; scripts/make_default_fixtures.py

test/model/test_defaults.c compares them with the reader's. Cases that transformers itself refuses are left out.
"""
import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

CLASSES = {
    "llama": "Llama", "mistral": "Mistral", "mixtral": "Mixtral", "qwen2": "Qwen2", "qwen3": "Qwen3",
    "qwen3_moe": "Qwen3Moe", "qwen2_moe": "Qwen2Moe", "gpt_oss": "GptOss", "granite": "Granite", "olmo2": "Olmo2", "olmo3": "Olmo3",
    "smollm3": "SmolLM3", "phi3": "Phi3", "gemma2": "Gemma2", "gemma3_text": "Gemma3", "gemma3": "Gemma3",
    "lfm2": "Lfm2", "lfm2_moe": "Lfm2Moe", "seed_oss": "SeedOss", "glm4": "Glm4", "exaone4": "Exaone4",
    "cohere2": "Cohere2", "starcoder2": "Starcoder2", "ministral3": "Ministral3", "mistral3": "Mistral3",
    "qwen3_5_text": "Qwen3_5", "qwen3_5": "Qwen3_5", "deepseek_v2": "DeepseekV2", "deepseek_v3": "DeepseekV3",
    "glm4_moe_lite": "Glm4MoeLite", "qwen3_next": "Qwen3Next"}
GEMMA3 = {"gemma3_text", "gemma3"}
TWO_ROTATIONS = GEMMA3 | {"olmo3"}
BY_WINDOW = {"olmo3", "exaone4", "cohere2"}
VISION = {"gemma3", "mistral3", "qwen3_5"}
DELTA = {"qwen3_5_text", "qwen3_5", "qwen3_next"}
LATENT = {"deepseek_v2", "deepseek_v3", "glm4_moe_lite"}
EPSILONS = {"lfm2": "norm_eps", "lfm2_moe": "norm_eps", "cohere2": "layer_norm_eps", "starcoder2": "norm_epsilon"}
EIGHT = {"num_hidden_layers": 8}
SMALL = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16,
         "num_key_value_heads": 2}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
SHORT, LONG = [1 + i / 8 for i in range(8)], [1.5 + i for i in range(8)]
LONGROPE = {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 512}
TYPES = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"] * 2

# For every class.
COMMON = {
    "silent": {},
    "windows by the class": EIGHT | {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 3},
    "windows from the first layer on": EIGHT | {"use_sliding_window": True, "max_window_layers": 0},
    "windows not wanted": EIGHT | {"use_sliding_window": False, "sliding_window": 64},
    "windows by layer": EIGHT | {"use_sliding_window": True, "sliding_window": 64, "layer_types": TYPES},
    "no window": EIGHT | {"use_sliding_window": True, "sliding_window": None},
    "a period": EIGHT | {"sliding_window": 64, "sliding_window_pattern": 3},
    "rotation by layer": EIGHT | {"no_rope_layers": [1, 0, 0, 1, 1, 0, 1, 1], "use_sliding_window": True,
                                  "sliding_window": 32},
    "rotation by interval": EIGHT | {"no_rope_layer_interval": 3},
    "biases": SMALL | {"attention_bias": True, "mlp_bias": True, "qkv_bias": True},
    "no biases": SMALL | {"mlp_bias": False, "qkv_bias": False},
    "numbers": SMALL | {"rms_norm_eps": 3e-5, "max_position_embeddings": 777, "intermediate_size": 96,
                        "tie_word_embeddings": True},
    "heads": {"num_hidden_layers": 2, "hidden_size": 96, "num_attention_heads": 6, "num_key_value_heads": 3},
    "not tied": SMALL | {"tie_word_embeddings": False},
    "factors": SMALL | {"embedding_multiplier": 3.0, "residual_multiplier": 0.5, "attention_multiplier": 0.25,
                        "logits_scaling": 4.0, "query_pre_attn_scalar": 64, "attn_logit_softcapping": 20.0,
                        "final_logit_softcapping": None},
    "experts": SMALL | {"num_experts_per_tok": 3, "norm_topk_prob": True, "moe_intermediate_size": 48,
                        "shared_expert_intermediate_size": 80},
    "theta": SMALL | {"rope_theta": 5e5},
    "theta in rope_scaling": SMALL | {"rope_theta": 5e5, "rope_scaling": {"rope_type": "default", "rope_theta": 2e4}},
    "theta in rope_parameters": SMALL | {"rope_parameters": {"rope_type": "default", "rope_theta": 3e4}},
    "an empty rope_scaling": SMALL | {"rope_scaling": {}},
    "a null rope_scaling": SMALL | {"rope_scaling": None, "rope_theta": 4e4},
    "linear": SMALL | {"rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    "linear, by type": SMALL | {"rope_scaling": {"type": "linear", "factor": 8.0}},
    "linear, twice": SMALL | {"rope_scaling": {"rope_type": "linear", "factor": 8.0},
                              "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 7e4}},
    "yarn": SMALL | {"rope_scaling": YARN},
    "yarn in rope_parameters": SMALL | {"rope_parameters": YARN | {"rope_theta": 1e5, "truncate": False}},
    "yarn, original beside": SMALL | {"rope_scaling": YARN, "original_max_position_embeddings": 512},
    "yarn, no original": SMALL | {"max_position_embeddings": 2048, "rope_scaling": {"rope_type": "yarn", "factor": 2.0}},
    "yarn, numbers": SMALL | {"rope_scaling": YARN | {"attention_factor": 1.25, "beta_fast": 16.0, "beta_slow": 2.0,
                                                      "mscale": 1.0, "mscale_all_dim": 0.5}},
    "llama3": SMALL | {"max_position_embeddings": 4096, "rope_scaling": LLAMA3},
    "dynamic": SMALL | {"max_position_embeddings": 512, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}},
    "longrope": SMALL | {"max_position_embeddings": 8192, "original_max_position_embeddings": 1024,
                         "rope_scaling": LONGROPE},
    "longrope, original inside": SMALL | {"max_position_embeddings": 8192, "rope_scaling": LONGROPE | {
        "original_max_position_embeddings": 1024}},
    "longrope, factor": SMALL | {"max_position_embeddings": 8192, "rope_scaling": LONGROPE | {
        "original_max_position_embeddings": 1024, "factor": 2.0}},
    "longrope, attention factor": SMALL | {"max_position_embeddings": 8192, "rope_scaling": LONGROPE | {
        "original_max_position_embeddings": 2048, "attention_factor": 1.5}},
}
FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"
TWO = {
    "two rotations": {"rope_parameters": {FULL: YARN | {"rope_theta": 1e6}, SLIDING: {
        "rope_type": "linear", "factor": 4.0, "rope_theta": 2e4}}},
    "local yarn": {"rope_parameters": {FULL: {"rope_type": "default"}, SLIDING: YARN}},
    "local dynamic": {"max_position_embeddings": 256, "rope_parameters": {
        FULL: YARN, SLIDING: {"rope_type": "dynamic", "factor": 2.0}}},
    "global dynamic": {"max_position_embeddings": 256, "rope_parameters": {
        FULL: {"rope_type": "dynamic", "factor": 2.0}, SLIDING: {"rope_type": "llama3"} | LLAMA3}},
    "global longrope": {"rope_parameters": {FULL: LONGROPE | {"original_max_position_embeddings": 1024},
                                            SLIDING: {"rope_type": "default"}}},
    "truncate inside": {"rope_parameters": {FULL: YARN | {"truncate": False}, SLIDING: {"rope_type": "default"}}},
    "truncate outside": {"rope_parameters": {FULL: YARN, SLIDING: {"rope_type": "default"}, "truncate": False}},
    "one of two": {"rope_parameters": {FULL: {"rope_type": "linear", "factor": 8.0}}, "rope_local_base_freq": 5e3},
    "both places": {"rope_theta": 2e6, "rope_local_base_freq": 3e4,
                    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
                    "rope_parameters": {FULL: {"rope_type": "default"}, SLIDING: {"rope_type": "default"}}},
    "null": {"rope_parameters": {FULL: None, SLIDING: None}},
}
SMALL_LATENT = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "kv_lora_rank": 48,
                "qk_rope_head_dim": 16, "num_experts_per_tok": 3, "first_k_dense_replace": 1}
LATENTS = {
    "silent": {},
    "numbers": {"rms_norm_eps": 3e-5, "intermediate_size": 96, "moe_intermediate_size": 40, "n_routed_experts": 24,
                "n_shared_experts": 3, "q_lora_rank": 24, "qk_nope_head_dim": 20, "v_head_dim": 28},
    "no q_lora_rank": {"q_lora_rank": None},
    "no experts": {"first_k_dense_replace": 2},
    "experts": {"routed_scaling_factor": 1.5, "norm_topk_prob": False, "n_group": 1, "topk_group": 1},
    "groups": {"topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2, "n_routed_experts": 16},
    "groups without a method": {"n_group": 4, "topk_group": 2, "n_routed_experts": 16},
    "tied": {"tie_word_embeddings": True},
    "linear": {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "yarn": {"rope_scaling": YARN},
    "yarn, mscales": {"rope_scaling": YARN | {"mscale": 1.0, "mscale_all_dim": 0.5}},
    "yarn, mscale_all_dim": {"rope_scaling": YARN | {"mscale_all_dim": 0.7}},
    "yarn, equal mscales": {"rope_parameters": YARN | {"mscale": 0.7, "mscale_all_dim": 0.7, "rope_theta": 3e4}},
}
SPECIAL = {
    "gemma3_text": TWO,
    "olmo3": TWO,
    "phi3": {
        "su": {"max_position_embeddings": 8192, "rope_scaling": {
            "type": "su", "short_factor": SHORT, "long_factor": LONG, "original_max_position_embeddings": 2048}},
        "yarn means longrope": {"max_position_embeddings": 8192, "rope_scaling": LONGROPE | {"rope_type": "yarn"}},
        "partial": {"partial_rotary_factor": 0.5},
    },
    "lfm2": {
        "layers by type": {"num_hidden_layers": 4, "conv_L_cache": 5,
                           "layer_types": ["conv", "full_attention", "conv", "conv"]},
        "layers by index": {"num_hidden_layers": 4, "full_attn_idxs": [1, 3], "conv_bias": True},
        "both": {"num_hidden_layers": 3, "full_attn_idxs": [0], "layer_types": ["conv", "conv", "full_attention"]},
        "width": {"block_ff_dim": 100, "intermediate_size": 77, "block_multiple_of": 24, "block_ffn_dim_multiplier": 1.3},
        "width without a factor": {"intermediate_size": 100, "block_ffn_dim_multiplier": None},
        "width as it is": {"intermediate_size": 100, "block_auto_adjust_ff_dim": False},
        "epsilon, tied": {"norm_eps": 2e-5, "rms_norm_eps": 3e-4, "tie_embedding": False, "tie_word_embeddings": True}},
    "lfm2_moe": {
        "layers by type": {"num_hidden_layers": 4, "conv_L_cache": 5, "num_dense_layers": 1,
                           "layer_types": ["conv", "full_attention", "conv", "conv"]},
        "experts": {"num_experts": 7, "norm_topk_prob": False, "layer_types": ["full_attention", "conv"],
                    "num_dense_layers": 1, "tie_embedding": False}},
    "qwen3_5_text": {
        "layers by type": {"num_hidden_layers": 4, "linear_conv_kernel_dim": 5,
                           "layer_types": [FULL, LINEAR, LINEAR, FULL]},
        "layers by interval": {"num_hidden_layers": 7, "full_attention_interval": 3},
        "both": {"num_hidden_layers": 3, "full_attention_interval": 2, "layer_types": [LINEAR, LINEAR, FULL]},
        "sizes": {"linear_num_key_heads": 3, "linear_num_value_heads": 6, "linear_key_head_dim": 24,
                  "linear_value_head_dim": 40, "full_attention_interval": 2},
        "partial": {"partial_rotary_factor": 0.5, "full_attention_interval": 2},
        "partial in rope_parameters": {"full_attention_interval": 2, "rope_parameters": {
            "rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1],
            "mrope_interleaved": True}},
        "partial twice": {"partial_rotary_factor": 0.5, "full_attention_interval": 2, "rope_parameters": {
            "rope_type": "default", "partial_rotary_factor": 1.0}},
        "partial left out": {"full_attention_interval": 2, "rope_parameters": {"rope_type": "default"}}},
    "mixtral": {"num_local_experts": {"num_local_experts": 5}},
    "gpt_oss": {"num_local_experts": {"num_local_experts": 16, "swiglu_limit": 5.0},
                "an empty rope_parameters": {"rope_parameters": {}},
                "original beside": {"original_max_position_embeddings": 2048},
                "no biases": {"attention_bias": False}},
    "seed_oss": {"biases of both": {"attention_bias": False, "attention_out_bias": True, "mlp_bias": True}},
    "glm4": {"partial": {"partial_rotary_factor": 0.25},
             "partial inside": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e5, "partial_rotary_factor": 0.75}},
             "partial, scaled": {"rope_scaling": YARN}},
    "exaone4": {"a pattern of letters": EIGHT | {"sliding_window": 64, "sliding_window_pattern": "LLLG", "layer_types": TYPES},
                "no window, by layer": EIGHT | {"sliding_window": None, "layer_types": [FULL] * 8}},
    "cohere2": {"a factor": {"logit_scale": 0.5, "layer_norm_eps": 3e-5}},
    "starcoder2": {"no biases at all": {"use_bias": False}, "a window": {"sliding_window": 64, "norm_epsilon": 3e-5}},
    "ministral3": {"temperature": {"rope_parameters": YARN | {"llama_4_scaling_beta": 0.25, "mscale": 1.0, "mscale_all_dim": 1.0}},
                   "temperature, magnitude": {"rope_parameters": YARN | {"llama_4_scaling_beta": 0.25}},
                   "a window": {"sliding_window": 64}},
    "qwen2_moe": {"num_experts": {"num_experts": 16}},
    "qwen3_moe": {"num_experts": {"num_experts": 16}},
}
SPECIAL["qwen3_next"] = SPECIAL["qwen3_5_text"] | {
    "experts": {"num_experts": 16, "num_experts_per_tok": 3, "norm_topk_prob": False, "moe_intermediate_size": 48,
                "shared_expert_intermediate_size": 40, "full_attention_interval": 2}}


def some(frequencies):
    """Pairs [index, frequency] of some."""
    values = frequencies.tolist()
    return [[i, float(f"{values[i]:.9g}")] for i in sorted({1, len(values) // 2, len(values) - 1})
            if i < len(values)]


def rotation(config, rotary, layer_type):
    """Numbers of a rotation, and of its other frequencies: of long texts, or with dynamic scaling at a position."""
    parameters = config.rope_parameters if layer_type is None else config.rope_parameters[layer_type]
    kind, name = parameters["rope_type"], "" if layer_type is None else f"{layer_type}_"
    made = {"some": some(getattr(rotary, f"{name}inv_freq")), "magnitude": float(getattr(rotary, f"{name}attention_scaling")),
            "pairs": len(getattr(rotary, f"{name}inv_freq"))}
    if kind == "longrope":
        made["short_text"] = parameters["original_max_position_embeddings"]
        made["long"] = some(ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=made["short_text"] + 1, layer_type=layer_type)[0])
    if kind == "dynamic":
        made["position"] = 2 * config.max_position_embeddings
        made["there"] = some(ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=made["position"] + 1, layer_type=layer_type)[0])
    return made


def longest(config):
    parameters = config.rope_parameters.get(FULL, config.rope_parameters)
    n = config.max_position_embeddings
    if parameters["rope_type"] == "yarn":
        n = max(n, int(parameters["factor"] * parameters["original_max_position_embeddings"]))
    return max(n, int(n * parameters["factor"])) if parameters["rope_type"] == "dynamic" else n


def letter_of(kind, layer, window):
    """w: a window; n, N: no rotation, with and without a window; c: a convolution; d: the delta rule."""
    if not hasattr(layer, "self_attn"):
        return "d" if hasattr(layer, "linear_attn") else "c"
    if not rotates(kind, layer.self_attn):
        return "n" if window else "N"
    return "w" if window else "."


def window_of(config, kind, layer):
    if kind.startswith("lfm2") or kind in DELTA | LATENT:
        return 0
    if kind in {"mistral", "mixtral", "qwen3_moe", "phi3", "starcoder2", "ministral3", "mistral3"}:
        return config.sliding_window or 0
    if kind == "exaone4" and not layer.self_attn.is_sliding:
        return 0
    return getattr(layer.self_attn, "sliding_window", None) or 0


def rotates(kind, attention):
    if kind == "cohere2":
        return attention.sliding_window is not None
    if kind == "exaone4":
        return attention.sliding_window is None or attention.is_sliding
    return getattr(attention, "use_rope", 1)


def numbers_of(kind, fields):
    whole = CONFIG_MAPPING[kind].from_dict(json.loads(json.dumps(fields)))
    config = whole.get_text_config()
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config).model
    rotary = type(getattr(model, "rotary_emb", None) or model.pos_emb)(config)
    if kind.startswith("lfm2") and not {"conv", FULL} >= set(config.layer_types):
        raise ValueError("its forward pass has no mask for such layers")
    if kind in BY_WINDOW and SLIDING in config.layer_types and not config.sliding_window:
        raise ValueError("its forward pass has no mask for such layers")
    if kind in DELTA and not {LINEAR, FULL} >= set(config.layer_types):
        raise ValueError("it has no such layers")
    has_state = [not hasattr(layer, "self_attn") for layer in model.layers]
    first = model.layers[has_state.index(False)].self_attn
    moe = getattr(model.layers[-1], "mlp", None) or model.layers[-1].feed_forward
    has = lambda module, name: getattr(getattr(module, name, None), "bias", None) is not None
    kinds = [FULL, SLIDING] if kind in TWO_ROTATIONS else [None]
    windows = [window_of(config, kind, layer) for layer in model.layers]
    made = {
        "n_layer": config.num_hidden_layers, "n_embd": config.hidden_size, "n_head": config.num_attention_heads,
        "n_head_kv": 1 if kind in LATENT else config.num_key_value_heads or config.num_attention_heads,
        "head_dim": config.kv_lora_rank + config.qk_rope_head_dim if kind in LATENT else first.head_dim,
        "n_ff": moe.w1.out_features if kind == "lfm2" else config.intermediate_size, "n_ctx": longest(config), "rms_eps": getattr(config, EPSILONS.get(kind, "rms_norm_eps")),
        "is_tied": bool(whole.tie_word_embeddings), "qkv_bias": has(first, "q_proj"), "o_bias": has(first, "o_proj"),
        "ffn_bias": has(getattr(model.layers[0], "mlp", None), "c_fc" if kind == "starcoder2" else "gate_proj"), "attention_scale": first.scaling,
        "embedding_scale": config.embedding_multiplier if kind == "granite" else
                           config.hidden_size ** 0.5 if "gemma" in kind else 1.0,
        "residual_scale": config.residual_multiplier if kind == "granite" else 1.0,
        "logit_scale": 1 / config.logits_scaling if kind == "granite" else config.logit_scale if kind == "cohere2" else 1.0,
        "attention_cap": getattr(first, "attn_logit_softcapping", None) or 0,
        "logit_cap": getattr(config, "final_logit_softcapping", None) or 0,
        "window": max(windows),
        "layers": "".join(letter_of(kind, layer, window) for layer, window in zip(model.layers, windows)),
        "local": "".join(".l"[kind in TWO_ROTATIONS and t == SLIDING] for t in getattr(config, "layer_types", None) or [FULL]),
        "rotations": [rotation(config, rotary, t) for t in kinds
                      if t is None or t in config.layer_types],
        "n_expert": 0,
    }
    if config.model_type == "ministral3":
        made["temperature"] = config.rope_parameters["llama_4_scaling_beta"]
        made["temperature_step"] = config.rope_parameters["original_max_position_embeddings"]
    if kind in DELTA:
        rule = model.layers[has_state.index(True)].linear_attn
        made |= {"conv_rows": rule.conv_kernel_size, "delta_keys": rule.num_k_heads, "delta_values": rule.num_v_heads,
                 "delta_key_dim": rule.head_k_dim, "delta_value_dim": rule.head_v_dim}
    elif any(has_state):
        conv = model.layers[has_state.index(True)].conv
        made |= {"conv_rows": conv.conv.kernel_size[0], "conv_bias": has(conv, "in_proj")}
    if hasattr(moe, "experts"):
        gate = getattr(moe, "gate", None) or moe.router
        shared = config.n_shared_experts * config.moe_intermediate_size if kind in LATENT else \
            config.shared_expert_intermediate_size if kind in ("qwen2_moe", "qwen3_next") else 0
        made |= {"n_expert": getattr(config, "num_local_experts", None) or config.num_experts,
                 "n_expert_used": config.num_experts_per_tok, "expert_norm": int(getattr(gate, "norm_topk_prob", kind != "deepseek_v2")),
                 "n_ff_expert": config.moe_intermediate_size if "qwen" in kind or "lfm2" in kind or kind in LATENT else config.intermediate_size,
                 "n_ff_shared": shared,
                 "gate_limit": getattr(config, "swiglu_limit", 0), "gate_alpha": getattr(config, "swiglu_alpha", 0)}
    if kind in LATENT:
        has_experts = hasattr(moe, "experts")
        grouped = has_experts and (kind != "deepseek_v2" or config.topk_method == "group_limited_greedy")
        made |= {"latent": config.kv_lora_rank, "latent_q": config.q_lora_rank or 0, "head_nope": config.qk_nope_head_dim,
                 "head_value": config.v_head_dim, "latent_eps": first.kv_a_layernorm.variance_epsilon,
                 "expert_scale": moe.gate.routed_scaling_factor if has_experts else 0, "shared_whole": int(has_experts),
                 "expert_groups": config.n_group if grouped and config.n_group > 1 else 0,
                 "expert_groups_used": config.topk_group if grouped and config.n_group > 1 else 0}
    return made


def main():
    path = pathlib.Path(__file__).resolve().parent.parent / "test" / "data" / "config" / "transformers.jsonl"
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as out:
        for kind, name in CLASSES.items():
            special = {n: SMALL | fields for n, fields in SPECIAL.get(kind, {}).items()}
            common = COMMON
            if kind in VISION:  # the text model's values are in another place
                common, special = {n: COMMON[n] for n in ("silent", "not tied", "linear")}, {}
            if kind in LATENT:
                common, special = {n: SMALL_LATENT | fields for n, fields in LATENTS.items()}, {}
                if kind == "deepseek_v2":
                    common["all silent"] = {"num_experts_per_tok": 6}
                else:
                    common["all silent"] = {}
            if kind == "mistral3":
                special = {f"{n}, {t}": COMMON[n] | {"model_type": t} for t in ("mistral", "ministral3")
                           for n in ("silent", "numbers", "no window")}
            for case, fields in (common | special).items():
                name_of_class = f"{name}ForConditionalGeneration" if kind in VISION else f"{name}ForCausalLM"
                if kind in DELTA and fields.get("num_hidden_layers") == 2:
                    fields = {"full_attention_interval": 2} | fields  # a layer of each kind
                if kind in TWO_ROTATIONS and fields.get("num_hidden_layers") == 2:  # a layer with each rotation
                    fields = {"layer_types": [SLIDING, FULL]} | fields if kind == "olmo3" else {"sliding_window_pattern": 2} | fields
                fields = {"text_config": fields} if kind in VISION else fields
                fields = {"architectures": [name_of_class], "model_type": kind, **fields}
                try:
                    wanted = numbers_of(kind, fields)
                except Exception as error:
                    print(f"{kind}, {case}: left out: {type(error).__name__}: {str(error)[:90]!r}", file=sys.stderr)
                    continue
                out.write(json.dumps({"name": f"{kind}: {case}", "config": fields, "wanted": wanted},
                                     separators=(",", ":")) + "\n")


main()
