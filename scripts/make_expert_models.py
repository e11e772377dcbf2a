#!/usr/bin/env python3
"""Writes test/data/experts: small random models with experts, made and computed by transformers' own code.

    pip install torch transformers gguf safetensors; scripts/make_expert_models.py [NAME...]

Of each family: NAME (a folder with a safetensors file), NAME.gguf with the same values under the names that llama.cpp
gives them, and NAME.golden: 64 token ids (int32), transformers' F32 logits [64][n_vocab] after each of them, and
N_GREEDY ids (int32) that greedy decoding appends. Values are exact in BF16 or MXFP4. Seeds are tried until no choice
of experts and no greedy token hangs on less than the rounding of activations to BF16 may move.
"""
import json
import pathlib
import shutil
import sys

import gguf
import numpy as np
import torch
import transformers
from gguf.constants import GGMLQuantizationType as Type
from safetensors.torch import load_file, save_file

OUT = pathlib.Path(__file__).resolve().parent.parent / "test" / "data" / "experts"
N_VOCAB, N_TOKENS, N_GREEDY, EOS = 272, 64, 12, 256
LEAST_GAP, LEAST_LEAD = 0.04, 0.3  # of the router's values, of logits
COMMON = dict(vocab_size=N_VOCAB, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
              max_position_embeddings=512, bos_token_id=EOS, eos_token_id=EOS, pad_token_id=EOS, tie_word_embeddings=True)
LATENT_YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
               "mscale": 0.707, "mscale_all_dim": 0.707, "original_max_position_embeddings": 32}
FAMILIES = {
    "mixtral": transformers.MixtralConfig(**COMMON, intermediate_size=40, num_local_experts=4, num_experts_per_tok=2,
                                          rope_theta=1e6),
    "gpt-oss": transformers.GptOssConfig(
        **COMMON, head_dim=32, intermediate_size=32, num_local_experts=4, num_experts_per_tok=2, sliding_window=16,
        rope_parameters={"rope_type": "yarn", "rope_theta": 150000.0, "factor": 4.0, "beta_fast": 32.0,
                         "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 64}),
    "qwen3moe": transformers.Qwen3MoeConfig(**COMMON, head_dim=32, intermediate_size=96, moe_intermediate_size=32,
                                            num_experts=6, num_experts_per_tok=3, norm_topk_prob=True, rope_theta=1e6),
    "qwen2moe": transformers.Qwen2MoeConfig(**COMMON, intermediate_size=96, moe_intermediate_size=32,
                                            shared_expert_intermediate_size=80, num_experts=6, num_experts_per_tok=3,
                                            norm_topk_prob=False, mlp_only_layers=[0]),
    "qwen2moe-plain": transformers.Qwen2MoeConfig(**COMMON, intermediate_size=32, moe_intermediate_size=32,
                                                  shared_expert_intermediate_size=32, num_experts=4,
                                                  num_experts_per_tok=2, norm_topk_prob=False, qkv_bias=False),
    "qwen3moe-bias": transformers.Qwen3MoeConfig(**COMMON, head_dim=16, intermediate_size=32, moe_intermediate_size=32,
                                                 num_experts=4, num_experts_per_tok=2, norm_topk_prob=True,
                                                 attention_bias=True),
    "lfm2moe": transformers.Lfm2MoeConfig(**COMMON | {"num_hidden_layers": 3}, intermediate_size=96,
                                          moe_intermediate_size=32, num_experts=5, num_experts_per_tok=2,
                                          num_dense_layers=1, conv_L_cache=3, layer_types=[
                                              "conv", "full_attention", "conv"]),
    "granitehybrid": transformers.GraniteMoeHybridConfig(
        **COMMON | {"num_hidden_layers": 2}, intermediate_size=32, shared_intermediate_size=40, num_local_experts=6,
        num_experts_per_tok=3, mamba_n_heads=8, mamba_n_groups=2, mamba_d_state=16, rms_norm_eps=0.02,
        residual_multiplier=0.5, attention_multiplier=0.25, embedding_multiplier=2.0, logits_scaling=0.5,
        layer_types=["linear_attention", "full_attention"]),
    "nemotron_h_moe": transformers.NemotronHConfig(
        **{k: v for k, v in COMMON.items() if k != "num_hidden_layers"}, head_dim=16, intermediate_size=48,
        moe_intermediate_size=32, moe_shared_expert_intermediate_size=40, n_routed_experts=4, num_experts_per_tok=2,
        routed_scaling_factor=2.5, mamba_num_heads=4, mamba_head_dim=16, n_groups=2, ssm_state_size=16,
        layer_norm_epsilon=0.02, layers_block_type=["linear_attention", "full_attention", "moe"]),
    "qwen35moe": transformers.Qwen3_5MoeTextConfig(
        **COMMON | {"num_hidden_layers": 2}, head_dim=32, moe_intermediate_size=32, shared_expert_intermediate_size=40,
        num_experts=6, num_experts_per_tok=3, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16,
        linear_value_head_dim=16, layer_types=["linear_attention", "full_attention"], rms_norm_eps=0.02,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5,
                         "mrope_section": [4, 2, 2], "mrope_interleaved": True}),
    "qwen3next": transformers.Qwen3NextConfig(
        **COMMON | {"num_hidden_layers": 2}, head_dim=32, intermediate_size=96, moe_intermediate_size=32,
        shared_expert_intermediate_size=40, num_experts=6, num_experts_per_tok=3, linear_num_key_heads=3,
        linear_num_value_heads=6, linear_key_head_dim=16, linear_value_head_dim=16, rms_norm_eps=0.02,
        layer_types=["linear_attention", "full_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5}),
    "deepseek2-v2": transformers.DeepseekV2Config(
        **COMMON | {"num_key_value_heads": 4}, intermediate_size=96, moe_intermediate_size=32, n_routed_experts=6,
        num_experts_per_tok=3, n_shared_experts=2, first_k_dense_replace=1, q_lora_rank=None, kv_lora_rank=32,
        qk_rope_head_dim=16, qk_nope_head_dim=32, v_head_dim=16, rms_norm_eps=1e-6, topk_method="greedy",
        rope_parameters=LATENT_YARN),
    "deepseek2-groups": transformers.DeepseekV2Config(
        **COMMON | {"num_key_value_heads": 4}, intermediate_size=96, moe_intermediate_size=32, n_routed_experts=6,
        num_experts_per_tok=3, n_shared_experts=1, first_k_dense_replace=0, q_lora_rank=32, kv_lora_rank=32,
        qk_rope_head_dim=16, qk_nope_head_dim=32, v_head_dim=16, topk_method="group_limited_greedy", n_group=3,
        topk_group=2),
    "deepseek2-v3": transformers.DeepseekV3Config(
        **COMMON | {"num_key_value_heads": 4}, intermediate_size=96, moe_intermediate_size=32, n_routed_experts=8,
        num_experts_per_tok=3, n_shared_experts=1, n_group=4, topk_group=2, first_k_dense_replace=1, q_lora_rank=48,
        kv_lora_rank=64, qk_rope_head_dim=32, qk_nope_head_dim=32, v_head_dim=32, rms_norm_eps=1e-6,
        routed_scaling_factor=2.5, rope_parameters=LATENT_YARN),
    "deepseek2-glm": transformers.Glm4MoeLiteConfig(
        **COMMON | {"num_key_value_heads": 4}, intermediate_size=96, moe_intermediate_size=32, n_routed_experts=5,
        num_experts_per_tok=2, n_shared_experts=1, q_lora_rank=40, kv_lora_rank=48, qk_rope_head_dim=16,
        qk_nope_head_dim=24, v_head_dim=40, rms_norm_eps=1e-6, rope_theta=1e6),
}
FOLDER_ONLY = {"deepseek2-groups"}  # llama.cpp chooses groups in another way
# Saved with one tensor for all experts, as newer files have them.
FUSED = {"qwen2moe"}
GGUF_ARCH = {name: "deepseek2" for name in FAMILIES if name.startswith("deepseek2")} | {
    "mixtral": "llama", "qwen2moe-plain": "qwen2moe", "qwen3moe-bias": "qwen3moe"}


def byte_tokens():
    """GPT-2's characters for the 256 bytes."""
    shown = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    rest = [b for b in range(256) if b not in shown]
    text = {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(rest)}
    return [text[b] for b in range(256)]


def tokens():
    return byte_tokens() + ["<|end|>", "\u0120t"] + [f"<|{i}|>" for i in range(258, N_VOCAB)]


def tokenizer():
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, t in enumerate(tokens()) if i >= 256 and i != 257]
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": bytes_,
            "post_processor": None, "decoder": bytes_,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
                      "vocab": {t: i for i, t in enumerate(tokens()) if i != 256 and i < 258},
                      "merges": ["\u0120 t"]}}


MXFP4_VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def random_mxfp4(shape):
    """Codes [..., blocks, 32], exponents [..., blocks] and values [...] of rows of shape[-1]."""
    codes = torch.randint(0, 16, (*shape[:-1], shape[-1] // 32, 32))
    exponents = torch.randint(-1, 2, codes.shape[:-1]) + round(float(np.log2(shape[-1] ** -0.5 / 2.5)))
    return codes, exponents + 127, (MXFP4_VALUES[codes] * 2.0 ** exponents[..., None]).reshape(shape)


def adds_one(config, name):
    """Whether the norm's weights count from 1 on."""
    return config.model_type in ("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next") and "linear_attn" not in name


def tiled(config, name, values):
    """llama.cpp's order of the heads of v: those of one head of k stand apart."""
    keys, heads, dim = config.linear_num_key_heads, config.linear_num_value_heads, config.linear_value_head_dim
    order = lambda size: torch.arange(heads * size).reshape(keys, heads // keys, size).swapaxes(0, 1).flatten()
    n_qk = 2 * keys * config.linear_key_head_dim
    if "in_proj_qkv" in name or "conv1d" in name:
        return torch.cat([values[:n_qk], values[n_qk:][order(dim)]])
    if "out_proj" in name:
        return values[:, order(dim)]
    if "in_proj_z" in name:
        return values[order(dim)]
    return values if "norm" in name else values[order(1)]


def by_kind(config, name, values):
    """llama.cpp's tensors of in_proj_qkvz, which has q, k, v and z of one head of k after the other."""
    if "in_proj_qkvz" not in name:
        return {name: values}
    dims = [config.linear_key_head_dim] * 2 + [
        config.linear_num_value_heads // config.linear_num_key_heads * config.linear_value_head_dim] * 2
    q, k, v, z = (part.flatten(0, 1) for part in values.reshape(config.linear_num_key_heads, sum(dims), -1).split(dims, 1))
    return {name.replace("qkvz", "qkv"): torch.cat([q, k, v]), name.replace("qkvz", "z"): z}


def for_gguf(config, state):
    """The tensors of a model with the delta rule as llama.cpp's converter changes them, each expert's apart."""
    made = {}
    for name, tensor in state.items():
        tensor = tensor.float()
        if "norm.weight" in name and adds_one(config, name):
            tensor = tensor + 1
        if "linear_attn" in name:
            tensor = tensor.squeeze(1) if "conv1d" in name else tensor
            tensor = tensor if config.model_type == "qwen3_next" else tiled(config, name, tensor)
        if name.endswith("A_log"):
            tensor = -tensor.exp()
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            made |= by_kind(config, name, tensor)
            continue
        layer = name.split(".experts.")[0] + ".experts."
        parts = [("gate_proj", 0), ("up_proj", 1)] if name.endswith("gate_up_proj") else [("down_proj", 0)]
        for expert, values in enumerate(tensor):
            for part, values_of_part in zip(parts, values.chunk(len(parts))):
                made[f"{layer}{expert}.{part[0]}.weight"] = values_of_part
    return made


def mamba_parts(config, state):
    """The tensors of a model with Mamba-2 as llama.cpp's converter changes them, each expert's apart."""
    made = {}
    for name, tensor in state.items():
        tensor = tensor.float()
        layer, _, rest = name.partition("block_sparse_moe.")
        if rest in ("input_linear.weight", "output_linear.weight"):
            parts = ["gate_proj", "up_proj"] if rest[0] == "i" else ["down_proj"]
            for expert, values in enumerate(tensor):
                for part, of_part in zip(parts, values.chunk(len(parts))):
                    made[f"{layer}mlp.experts.{expert}.{part}.weight"] = of_part
        elif name.endswith("shared_mlp.input_linear.weight"):
            for part, values in zip(("gate_proj", "up_proj"), tensor.chunk(2)):
                made[name.replace("shared_mlp.input_linear", "mlp.shared_expert." + part)] = values
        elif name.endswith("A_log"):
            made[name] = -tensor.exp()[:, None]
        elif name.endswith(("mamba.D", "mixer.D")):
            made[name] = tensor[:, None]
        elif name.endswith(("mamba.norm.weight", "mixer.norm.weight")):
            groups = config.n_groups if config.model_type == "nemotron_h" else config.mamba_n_groups
            made[name] = tensor.reshape(groups, -1)
        else:
            made[name] = tensor.squeeze(1) if "conv1d.weight" in name else tensor
    return made


def random_model(config, seed):
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    model.mxfp4 = {}
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("conv.conv.weight", "conv1d.weight", "A_log", "dt_bias")):
                p.copy_(torch.randn_like(p) / 2)
            elif name.endswith((".D")):
                p.copy_(1 + torch.randn_like(p) / 2)
            elif "norm.weight" in name:
                p.copy_((0 if adds_one(config, name) else 1) + 0.1 * torch.randn_like(p))
            elif name.endswith(("mlp.gate.weight", "mlp.router.weight", "feed_forward.gate.weight",
                                "block_sparse_moe.router.weight", "mixer.gate.weight")):
                p.copy_(3 * torch.randn_like(p) / p.shape[-1] ** 0.5)
            elif name.endswith(("gate_up_proj", "down_proj")) and config.model_type == "gpt_oss":
                codes, exponents, values = random_mxfp4((p.shape[0], p.shape[2], p.shape[1]))
                p.copy_(values.transpose(1, 2))
                model.mxfp4[name] = codes, exponents
            elif "bias" in name or "sinks" in name:
                p.copy_(0.5 * torch.randn_like(p))
            elif p.dim() > 1:
                p.copy_(torch.randn_like(p) / p.shape[-1] ** 0.5 * (4 if "embed" in name or "lm_head" in name else 1))
            p.copy_(p.bfloat16().float())
        for name, buffer in model.named_buffers():
            if name.endswith(("expert_bias", "e_score_correction_bias")):
                buffer.copy_((0.5 * torch.randn_like(buffer)).bfloat16())
    return model


class Gaps:
    """The least distance between the last expert that is chosen and the first that is not."""

    def __init__(self, model, used):
        self.least = float("inf")
        for name, module in model.named_modules():
            if name.endswith(("mlp.gate", "mlp.router", "feed_forward.gate", "block_sparse_moe.router", "mixer.gate")):
                module.register_forward_hook(lambda m, i, o: self.take(m, i, o, used))

    def take(self, module, given, out, used):
        logits = out[0] if isinstance(out, tuple) else out
        bias = given[1] if len(given) > 1 else getattr(module, "e_score_correction_bias", None)
        if bias is not None:  # the values that choose are sigmoids, whose slope is about a tenth
            logits = 10 * (logits.sigmoid() + bias)
        if getattr(module, "topk_method", "grouped") != "greedy" and getattr(module, "num_group", None) and module.num_group > 1:
            groups = logits.reshape(*logits.shape[:-1], module.num_group, -1)
            best = 1 if hasattr(module, "topk_method") else 2
            sums = groups.topk(best, -1).values.sum(-1).sort(-1, descending=True)
            gap = sums.values[..., module.topk_group - 1] - sums.values[..., module.topk_group]
            self.least = min(self.least, gap.min().item())
            kept = sums.indices[..., :module.topk_group, None].expand(*groups.shape[:-2], -1, groups.shape[-1])
            logits = groups.gather(-2, kept).flatten(-2)
        top = logits.float().sort(-1, descending=True).values
        self.least = min(self.least, (top[..., used - 1] - top[..., used]).min().item())


def compute(model, used, seed):
    """Ids, logits after each of them, greedy ids; None where something hangs on rounding."""
    gaps = Gaps(model, used)
    ids = torch.randint(0, 256, (1, N_TOKENS), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        logits = model(ids).logits[0]
        greedy = []
        while len(greedy) < N_GREEDY:
            last = model(torch.cat([ids, torch.tensor([greedy], dtype=torch.long)], 1)).logits[0, -1]
            lead = last.sort(descending=True).values
            if lead[0] - lead[1] < LEAST_LEAD or gaps.least < LEAST_GAP:
                return None
            greedy.append(int(last.argmax()))
    return ids[0], logits, greedy


def is_stable(model, ids, logits):
    """Whether the same experts are chosen where the inputs of linear layers are rounded to BF16."""
    hooks = [module.register_forward_pre_hook(lambda m, i: (i[0].bfloat16().float(), *i[1:]))
             for module in model.modules()
             if isinstance(module, torch.nn.Linear) or type(module).__name__.lower().endswith("topkrouter")]
    with torch.no_grad():
        off = (model(ids[None]).logits[0] - logits).norm(dim=-1) / logits.norm(dim=-1)
    for hook in hooks:
        hook.remove()
    return off.max().item() < 0.02


def published(model, state):
    """The tensors as gpt-oss publishes them: codes in bytes, the first of two in the lower half."""
    for name, (codes, exponents) in model.mxfp4.items():
        del state[name]
        state[name + "_blocks"] = (codes[..., ::2] | codes[..., 1::2] << 4).to(torch.uint8)
        state[name + "_scales"] = exponents.to(torch.uint8)
    return state


def gguf_blocks(blocks, scales):
    """The same values in GGUF's blocks: the exponent, then values j and 16 + j in a byte."""
    codes = np.stack([blocks & 15, blocks >> 4], -1).reshape(*blocks.shape[:-1], 32)
    data = np.concatenate([scales[..., None], codes[..., :16] | codes[..., 16:] << 4], -1).astype(np.uint8)
    return data.reshape(*data.shape[:-2], -1)


def permuted(weight, n_head):
    """A llama's q and k as GGUF files have them: pairs that rotate together lie side by side."""
    shape = weight.shape
    return weight.reshape(n_head, 2, shape[0] // n_head // 2, *shape[1:]).transpose(0, 2, 1, *range(3, weight.ndim + 2))\
        .reshape(shape)


def write_nemotron_metadata(writer, config):
    kinds = config.layers_block_type
    writer.add_feed_forward_length([config.moe_intermediate_size * (t == "moe") for t in kinds])
    writer.add_head_count_kv([config.num_key_value_heads * (t == "full_attention") for t in kinds])
    writer.add_ssm_conv_kernel(config.conv_kernel)
    writer.add_ssm_state_size(config.ssm_state_size)
    writer.add_ssm_group_count(config.n_groups)
    writer.add_ssm_time_step_rank(config.mamba_num_heads)
    writer.add_ssm_inner_size(config.mamba_num_heads * config.mamba_head_dim)
    writer.add_rope_scaling_finetuned(False)
    writer.add_expert_shared_feed_forward_length(config.moe_shared_expert_intermediate_size)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_weights_norm(config.norm_topk_prob)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_group_count(config.n_group)


def write_latent_metadata(writer, config):
    writer.add_head_count_kv(1)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    writer.add_q_lora_rank(config.q_lora_rank or 0)  # llama.cpp leaves 0 out in models of 26 or 27 layers alone
    writer.add_key_length(config.kv_lora_rank + config.qk_rope_head_dim)
    writer.add_value_length(config.kv_lora_rank)
    writer.add_key_length_mla(config.qk_nope_head_dim + config.qk_rope_head_dim)
    writer.add_value_length_mla(config.v_head_dim)
    writer.add_rope_dimension_count(config.qk_rope_head_dim)
    writer.add_leading_dense_block_count(1)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    is_v2 = config.model_type == "deepseek_v2"
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SOFTMAX if is_v2 else gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_expert_weights_norm(not is_v2)
    if not is_v2:
        writer.add_expert_group_count(config.n_group)
        writer.add_expert_group_used_count(config.topk_group)
    if "mscale_all_dim" in config.rope_parameters:
        writer.add_rope_scaling_yarn_log_mul(0.1 * config.rope_parameters["mscale_all_dim"])


def latent_parts(config, state):
    """The tensors of a model with latent attention as llama.cpp's converter changes them."""
    made = {}
    for name, tensor in state.items():
        if not name.endswith("kv_b_proj.weight"):
            made[name.replace("shared_experts", "shared_expert")] = tensor
            continue
        heads = tensor.reshape(config.num_attention_heads, -1, config.kv_lora_rank)
        made[name.replace("kv_b", "k_b")] = heads[:, :config.qk_nope_head_dim].transpose(1, 2).contiguous()
        made[name.replace("kv_b", "v_b")] = heads[:, config.qk_nope_head_dim:].contiguous()
    return made


def write_gguf(path, arch, config, state):
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    if arch == "nemotron_h_moe":
        write_nemotron_metadata(writer, config)
        state = mamba_parts(config, state)
    elif hasattr(config, "intermediate_size"):
        writer.add_feed_forward_length(config.intermediate_size)
    if arch in ("qwen35", "qwen35moe", "qwen3next"):
        writer.add_rope_dimension_count(int(config.head_dim * config.rope_parameters["partial_rotary_factor"]))
        writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
        writer.add_ssm_state_size(config.linear_key_head_dim)
        writer.add_ssm_group_count(config.linear_num_key_heads)
        writer.add_ssm_time_step_rank(config.linear_num_value_heads)
        writer.add_ssm_inner_size(config.linear_num_value_heads * config.linear_value_head_dim)
        writer.add_array(f"{arch}.attention.recurrent_layers", [t == "linear_attention" for t in config.layer_types])
        if any(".nextn." in name for name in state):  # make_mtp_models.py
            writer.add_nextn_predict_layers(1)
            if "mrope_section" in config.rope_parameters:
                writer.add_rope_dimension_sections([*config.rope_parameters["mrope_section"], 0])
        state = for_gguf(config, state)
    writer.add_head_count(config.num_attention_heads)
    if arch == "lfm2moe":
        writer.add_head_count_kv([config.num_key_value_heads * (t != "conv") for t in config.layer_types])
        writer.add_shortconv_l_cache(config.conv_L_cache)
        writer.add_leading_dense_block_count(config.num_dense_layers)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    elif arch == "granitehybrid":
        writer.add_head_count_kv([config.num_key_value_heads * (t == "full_attention") for t in config.layer_types])
        writer.add_ssm_conv_kernel(config.mamba_d_conv)
        writer.add_ssm_state_size(config.mamba_d_state)
        writer.add_ssm_group_count(config.mamba_n_groups)
        writer.add_ssm_time_step_rank(config.mamba_n_heads)
        writer.add_ssm_inner_size(config.mamba_expand * config.hidden_size)
        writer.add_rope_scaling_finetuned(False)
        writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_logit_scale(config.logits_scaling)
        state = mamba_parts(config, state)
    elif arch == "deepseek2":
        write_latent_metadata(writer, config)
        state = latent_parts(config, state)
    elif arch != "nemotron_h_moe":
        writer.add_head_count_kv(config.num_key_value_heads)
    if arch == "nemotron_h_moe":
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_layer_norm_rms_eps(config.norm_eps if arch == "lfm2moe" else config.rms_norm_eps)
    rope = getattr(config, "rope_parameters", {"rope_theta": 10000.0, "rope_type": "default"})
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    if hasattr(config, "num_experts_per_tok"):
        writer.add_expert_used_count(config.num_experts_per_tok)
    if getattr(config, "head_dim", None) and arch != "deepseek2":
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    if hasattr(config, "moe_intermediate_size"):
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if hasattr(config, "shared_expert_intermediate_size"):
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens())
    writer.add_token_types([1] * 256 + [3, 1] + [3] * (N_VOCAB - 258))
    writer.add_token_merges(["\u0120 t"])
    writer.add_bos_token_id(EOS)
    writer.add_eos_token_id(EOS)
    tensors, experts = {}, {}
    for name, tensor in state.items():
        parts = name.removeprefix("model.").removeprefix("backbone.").split(".")
        short = {"embeddings": "token_embd", "norm_f": "output_norm", "embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output",
                 "embedding_norm": "token_embd_norm"}.get(parts[0])
        if short:
            tensors[short + ".weight"] = tensor
            continue
        layer, rest = f"blk.{parts[1]}.", ".".join(parts[2:])
        if arch == "gpt-oss" and ".experts." in rest:
            both, kind = "gate_up" in rest, rest.split("_")[-1]
            if kind == "scales":
                continue
            values = tensor.float().numpy() if kind == "bias" else \
                gguf_blocks(tensor.numpy(), state[name.replace("_blocks", "_scales")].numpy())
            for i, short in enumerate(("gate", "up") if both else ("down",)):
                part = values[:, i::2] if both else values
                end = "bias" if kind == "bias" else "weight"
                tensors[f"{layer}ffn_{short}_exps.{end}"] = np.ascontiguousarray(part)
            continue
        if ".experts." in rest:
            number, kind = int(parts[-3]), parts[-2]
            short = {"w1": "ffn_gate", "w3": "ffn_up", "w2": "ffn_down", "gate_proj": "ffn_gate", "up_proj": "ffn_up",
                     "down_proj": "ffn_down"}[kind]
            experts.setdefault(f"{layer}{short}_exps.weight", {})[number] = tensor
            continue
        short = {"self_attn.q_proj.weight": "attn_q", "self_attn.k_proj.weight": "attn_k",
                 "self_attn.v_proj.weight": "attn_v", "self_attn.o_proj.weight": "attn_output",
                 "self_attn.q_norm.weight": "attn_q_norm", "self_attn.k_norm.weight": "attn_k_norm",
                 "input_layernorm.weight": "attn_norm", "post_attention_layernorm.weight": "ffn_norm",
                 "block_sparse_moe.gate.weight": "ffn_gate_inp", "mlp.gate.weight": "ffn_gate_inp",
                 "mlp.router.weight": "ffn_gate_inp", "self_attn.sinks": "attn_sinks",
                 "mlp.gate_proj.weight": "ffn_gate", "mlp.up_proj.weight": "ffn_up",
                 "mlp.down_proj.weight": "ffn_down",
                 "operator_norm.weight": "attn_norm", "ffn_norm.weight": "ffn_norm",
                 "self_attn.out_proj.weight": "attn_output", "self_attn.q_layernorm.weight": "attn_q_norm",
                 "self_attn.k_layernorm.weight": "attn_k_norm", "conv.in_proj.weight": "shortconv.in_proj",
                 "conv.out_proj.weight": "shortconv.out_proj", "conv.conv.weight": "shortconv.conv",
                 "feed_forward.w1.weight": "ffn_gate", "feed_forward.w3.weight": "ffn_up",
                 "feed_forward.w2.weight": "ffn_down", "feed_forward.gate.weight": "ffn_gate_inp",
                 "linear_attn.in_proj_qkv.weight": "attn_qkv", "linear_attn.in_proj_z.weight": "attn_gate",
                 "linear_attn.in_proj_b.weight": "ssm_beta", "linear_attn.in_proj_a.weight": "ssm_alpha",
                 "linear_attn.in_proj_ba.weight": "ssm_ba",
                 "linear_attn.conv1d.weight": "ssm_conv1d", "linear_attn.norm.weight": "ssm_norm",
                 "linear_attn.out_proj.weight": "ssm_out",
                 "mamba.in_proj.weight": "ssm_in", "mamba.conv1d.weight": "ssm_conv1d", "mamba.norm.weight": "ssm_norm",
                 "mamba.out_proj.weight": "ssm_out", "block_sparse_moe.router.layer.weight": "ffn_gate_inp",
                 "shared_mlp.output_linear.weight": "ffn_down_shexp",
                 "norm.weight": "attn_norm", "mixer.in_proj.weight": "ssm_in", "mixer.conv1d.weight": "ssm_conv1d",
                 "mixer.norm.weight": "ssm_norm", "mixer.out_proj.weight": "ssm_out", "mixer.q_proj.weight": "attn_q",
                 "mixer.k_proj.weight": "attn_k", "mixer.v_proj.weight": "attn_v", "mixer.o_proj.weight": "attn_output",
                 "mixer.gate.weight": "ffn_gate_inp", "mixer.shared_experts.up_proj.weight": "ffn_up_shexp",
                 "mixer.shared_experts.down_proj.weight": "ffn_down_shexp",
                 "self_attn.q_a_proj.weight": "attn_q_a", "self_attn.q_a_layernorm.weight": "attn_q_a_norm",
                 "self_attn.q_b_proj.weight": "attn_q_b", "self_attn.kv_a_proj_with_mqa.weight": "attn_kv_a_mqa",
                 "self_attn.kv_a_layernorm.weight": "attn_kv_a_norm", "self_attn.k_b_proj.weight": "attn_k_b",
                 "self_attn.v_b_proj.weight": "attn_v_b",
                 "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp",
                 "mlp.shared_expert.gate_proj.weight": "ffn_gate_shexp",
                 "mlp.shared_expert.up_proj.weight": "ffn_up_shexp",
                 "mlp.shared_expert.down_proj.weight": "ffn_down_shexp"}.get(rest)
        if rest in ("feed_forward.expert_bias", "mlp.gate.e_score_correction_bias", "mixer.gate.e_score_correction_bias"):
            tensors[f"{layer}exp_probs_b.bias"] = tensor
            continue
        kind, _, end = rest.partition(".")
        if kind == "nextn":
            tensors[layer + rest] = tensor
            continue
        if kind in ("mamba", "mixer") and end in ("A_log", "D", "dt_bias", "conv1d.bias"):
            tensors[layer + {"A_log": "ssm_a", "D": "ssm_d", "dt_bias": "ssm_dt.bias",
                             "conv1d.bias": "ssm_conv1d.bias"}[end]] = tensor
            continue
        if rest in ("linear_attn.A_log", "linear_attn.dt_bias"):
            tensors[layer + ("ssm_a" if rest.endswith("A_log") else "ssm_dt.bias")] = tensor
            continue
        if rest == "conv.conv.weight":
            tensor = tensor.squeeze(1)
        if rest.endswith(".bias"):
            short = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output",
                     "mlp.router.bias": "ffn_gate_inp"}[rest if "router" in rest else rest.split(".")[1][0]]
            tensors[f"{layer}{short}.bias"] = tensor
            continue
        if short == "ffn_gate_inp_shexp":
            tensor = tensor.flatten()
        if arch in ("gpt-oss", "qwen35", "qwen35moe", "qwen3next") and short == "ffn_norm":
            short = "post_attention_norm"
        if arch in ("llama", "granitehybrid") and short in ("attn_q", "attn_k"):
            heads = config.num_attention_heads if short == "attn_q" else config.num_key_value_heads
            tensor = torch.from_numpy(np.ascontiguousarray(permuted(tensor.float().numpy(), heads)))
        tensors[f"{layer}{short}.weight"] = tensor
    for name, numbered in experts.items():
        tensors[name] = torch.stack([numbered[e] for e in range(len(numbered))])
    if hasattr(config, "num_experts_per_tok"):
        writer.add_expert_count(getattr(config, "num_local_experts", None) or config.num_experts)
    for name, tensor in tensors.items():
        if isinstance(tensor, np.ndarray):
            writer.add_tensor(name, tensor, raw_dtype=Type.MXFP4 if tensor.dtype == np.uint8 else None)
            continue
        values = tensor.float().contiguous().numpy()
        if values.ndim == 1 or "ffn_gate_inp" in name or any(n in name for n in (
                "shortconv.conv", "ssm_conv1d", "ssm_a", "ssm_d", "ssm_norm")):
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, gguf.quants.quantize(values, Type.BF16), raw_dtype=Type.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(name):
    config = FAMILIES[name]
    for seed in range(10000):
        model = random_model(config, seed)
        found = compute(model, config.num_experts_per_tok, seed)
        if found and (name not in ("lfm2moe", "qwen35moe", "qwen3next", "granitehybrid", "nemotron_h_moe",
                                    "deepseek2-v2", "deepseek2-v3", "deepseek2-glm", "deepseek2-groups") or is_stable(model, *found[:2])):
            break
    ids, logits, greedy = found
    print(f"{name}: seed {seed}, logits of standard deviation {logits.std():.2f}")
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    model.bfloat16().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if model.mxfp4:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": {"quant_method": "mxfp4"}},
                                   indent=2))
        save_file(published(model, load_file(folder / "model.safetensors")), folder / "model.safetensors")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(), ensure_ascii=False))
    if name not in FOLDER_ONLY:
        write_gguf(OUT / f"{name}.gguf", GGUF_ARCH.get(name, name), config, load_file(folder / "model.safetensors"))
    if name in FUSED:
        state = {k: v.contiguous() for k, v in model.state_dict().items() if k != "lm_head.weight"}
        save_file(state, folder / "model.safetensors")
    (OUT / f"{name}.golden").write_bytes(ids.numpy().astype("<i4").tobytes() + logits.numpy().astype("<f4").tobytes() +
                                         np.array(greedy, "<i4").tobytes())


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for wanted in sys.argv[1:] or FAMILIES:
        make(wanted)
