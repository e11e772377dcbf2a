#!/usr/bin/env python3
"""Writes test/data/rope/transformers.jsonl: for several config.json, the frequencies and the attention factor of the
rotary embedding in transformers (its own code, in F32).

    pip install torch transformers; scripts/make_rope_fixtures.py
"""
import json
import pathlib

from transformers import AutoConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

KINDS = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}


def config(kind, max_positions, theta, head_dim=128, **more):
    return {"architectures": [KINDS[kind]], "model_type": kind, "num_hidden_layers": 2, "hidden_size": 2 * head_dim,
            "intermediate_size": 512, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": head_dim,
            "max_position_embeddings": max_positions, "rope_theta": theta, **more}


def yarn(factor, original=None, **more):
    places = {"original_max_position_embeddings": original} if original else {}
    return {"rope_type": "yarn", "factor": factor, **places, **more}


def llama3(factor, original=8192):
    return {"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": original}


CASES = {
    "none": config("qwen2", 32768, 1e6),
    "linear": config("llama", 16384, 1e5, rope_scaling={"type": "linear", "factor": 4.0}),
    "llama3, as Llama 3.1": config("llama", 131072, 5e5, rope_scaling=llama3(8.0)),
    "llama3, as Llama 3.2": config("llama", 131072, 5e5, 64, rope_scaling=llama3(32.0)),
    "llama3, original context from max_position_embeddings": config(
        "llama", 4096, 1e4, 64, rope_scaling={"rope_type": "llama3", "factor": 4, "low_freq_factor": 1, "high_freq_factor": 4}),
    "yarn, as Qwen2.5": config("qwen2", 32768, 1e6, rope_scaling=yarn(4.0, 32768)),
    "yarn, as Qwen3 in newer files": config("qwen3", 40960, 1e4, rope_parameters=yarn(4.0, 32768, rope_theta=1e6)),
    "yarn, as Yarn-Llama-2": config("llama", 65536, 1e4, rope_scaling=yarn(16.0, 4096, finetuned=True)),
    "yarn, betas and attention factor": config(
        "llama", 8192, 1e4, 64, rope_scaling=yarn(8.0, 2048, beta_fast=16, beta_slow=2.5, attention_factor=0.75)),
    "yarn, mscale as DeepSeek": config(
        "llama", 163840, 1e4, 64, rope_scaling=yarn(40, 4096, mscale=1.0, mscale_all_dim=0.8)),
    "yarn, mscale alone, zeros": config("llama", 16384, 1e4, rope_scaling=yarn(4, 4096, mscale=0.5, mscale_all_dim=0)),
    "yarn, a fractional ramp as GPT-OSS": config("llama", 131072, 150000.0, 64, rope_scaling=yarn(
        32.0, 4096, beta_fast=32.0, beta_slow=1.0, truncate=False)),
    "yarn, original context from max_position_embeddings": config("qwen2", 32768, 1e6, rope_scaling=yarn(2.0)),
    "yarn, original context beside the scaling": config(
        "llama", 16384, 1e4, original_max_position_embeddings=4096, rope_scaling=yarn(4.0)),
    "yarn, no factor": config("llama", 163840, 1e4, 64, rope_scaling=yarn(None, 4096)),
    "yarn, factor 1": config("llama", 4096, 1e4, 64, rope_scaling=yarn(1.0, 4096)),
}

path = pathlib.Path(__file__).resolve().parent.parent / "test" / "data" / "rope" / "transformers.jsonl"
path.parent.mkdir(exist_ok=True)
with path.open("w") as out:
    for name, fields in CASES.items():
        fields = json.loads(json.dumps(fields))
        rope = LlamaRotaryEmbedding(AutoConfig.for_model(**json.loads(json.dumps(fields))))
        frequencies = [float(f"{x:.9g}") for x in rope.inv_freq.tolist()]
        line = {"name": name, "config": fields, "attention_factor": float(rope.attention_scaling), "inv_freq": frequencies}
        out.write(json.dumps(line) + "\n")
