#!/usr/bin/env python3
"""Writes test/data/mtp: small random models with a draft in their files (`mtp`), and what it drafts.

    pip install torch transformers gguf safetensors; scripts/make_mtp_models.py [NAME...]

transformers has no code of such drafts. One is a model of one layer here, whose input is fc of the norms of an
embedding and of the target's last row, and whose last norm is the draft's. Of each model: NAME (a folder with a
safetensors file), NAME.gguf as llama.cpp's converter writes it, further files of the draft alone, NAME.json with a text
and lines that are drafted behind the first `position` + 1 tokens of it (as make_head_fixtures.py has them), and NAME.golden: F32 logits of each token of
these lines, of all rows that the draft has. Values are exact in BF16; sums are transformers' F32.
"""
import copy
import json
import pathlib
import shutil
import sys

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

import make_expert_models as experts

OUT = experts.OUT.parent / "mtp"
N_TEXT, N_READ, N_LINES, N_DRAFTS, N_CHOSEN = 160, 48, 6, 5, 100
Q8_0 = gguf.GGMLQuantizationType.Q8_0
QWEN35 = dict(head_dim=32, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16,
              linear_value_head_dim=16, layer_types=["linear_attention", "full_attention"], rms_norm_eps=0.02,
              rope_parameters={"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5,
                               "mrope_section": [4, 2, 2], "mrope_interleaved": True})
# `own`: the draft has embeddings and output rows of its own; `chosen`: a file of the draft alone that has some of the
# target's output rows, matrices in Q8_0, and the target's norm before the output.
MODELS = {
    "qwen35": (transformers.Qwen3_5TextConfig(**experts.COMMON | QWEN35, intermediate_size=96), {}),
    "qwen35-chosen": (transformers.Qwen3_5TextConfig(**experts.COMMON | QWEN35, intermediate_size=96), {"chosen"}),
    "qwen35moe": (experts.FAMILIES["qwen35moe"], {"own"}),
    "qwen3next": (experts.FAMILIES["qwen3next"], set()),
}
NEXTN = {"fc": "eh_proj", "pre_fc_norm_embedding": "enorm", "pre_fc_norm_hidden": "hnorm", "norm": "shared_head_norm",
         "embed_tokens": "embed_tokens", "shared_head.head": "shared_head_head"}


class Draft(torch.nn.Module):
    def __init__(self, config, target, kinds, seed):
        super().__init__()
        of_layer = copy.deepcopy(config)
        of_layer.num_hidden_layers, of_layer.layer_types = 1, ["full_attention"]
        self.layer = experts.random_model(of_layer, seed + 1000).model
        n = config.hidden_size
        norm = type(target.model.norm)
        self.fc = torch.nn.Linear(2 * n, n, bias=False)
        self.embedding_norm, self.row_norm = norm(n, eps=config.rms_norm_eps), norm(n, eps=config.rms_norm_eps)
        self.embed, self.output = target.model.embed_tokens.weight, target.lm_head.weight
        generator = torch.Generator().manual_seed(seed)
        noise = lambda shape, gain: (gain * torch.randn(shape, generator=generator)).bfloat16().float()
        with torch.no_grad():
            self.fc.weight.copy_(noise((n, 2 * n), (2 * n) ** -0.5))
            self.embedding_norm.weight.copy_(noise(n, 0.1))
            self.row_norm.weight.copy_(noise(n, 0.1))
            if "chosen" in kinds:
                self.layer.norm.weight.copy_(target.model.norm.weight)
            if "own" in kinds:
                self.embed, self.output = (torch.nn.Parameter(noise(self.embed.shape, 0.5)) for _ in range(2))
        self.rows = sorted(torch.randperm(len(self.output), generator=generator)[:N_CHOSEN].tolist()) \
            if "chosen" in kinds else list(range(len(self.output)))

    def results(self, rows, tokens):
        embeddings = self.embed[torch.tensor(tokens)]
        x = self.fc(torch.cat([self.embedding_norm(embeddings), self.row_norm(rows)], -1))
        return self.layer(inputs_embeds=x[None]).last_hidden_state[0]

    def line(self, rows, text, position):
        """Logits of each draft and the drafts."""
        rows, tokens, logits = rows[:position], text[1:position + 1], []
        for _ in range(N_DRAFTS):
            result = self.results(rows, tokens)
            logits.append(result[-1] @ self.output[self.rows].T)
            tokens = [*tokens, self.rows[int(logits[-1].argmax())]]
            rows = torch.cat([rows, result[-1:]])
        return torch.stack(logits), tokens[position:]

    def tensors(self, kinds):
        """By their names in a folder."""
        made = {"mtp.fc.weight": self.fc.weight, "mtp.pre_fc_norm_embedding.weight": self.embedding_norm.weight,
                "mtp.pre_fc_norm_hidden.weight": self.row_norm.weight}
        for name, tensor in self.layer.state_dict().items():
            if name.startswith("layers."):
                made["mtp." + name] = tensor
        if "chosen" not in kinds:
            made["mtp.norm.weight"] = self.layer.norm.weight
        if "own" in kinds:
            made |= {"mtp.embed_tokens.weight": self.embed, "mtp.shared_head.head.weight": self.output}
        return {name: tensor.detach().bfloat16().contiguous() for name, tensor in made.items()}


def lead(logits):
    top = logits.sort(descending=True).values
    return ((top[:, 0] - top[:, 1]) / logits.std()).min().item()


def rounds_inputs(module):
    """Rounds what linear layers read, as the engine does; returns the hooks."""
    return [part.register_forward_pre_hook(lambda m, i: (i[0].bfloat16().float(), *i[1:]))
            for part in module.modules()
            if isinstance(part, torch.nn.Linear) or type(part).__name__.lower().endswith("topkrouter")]


@torch.no_grad()
def compute(target, draft, text):
    rows = target.model(torch.tensor([text])).last_hidden_state[0]
    lines = [(position, *draft.line(rows, text, position)) for position in range(3, N_READ)]
    return sorted(lines, key=lambda line: -lead(line[1]))[:N_LINES]


@torch.no_grad()
def is_stable(target, draft, text, lines):
    """Whether rounding moves the logits of the lines little: it may choose other experts."""
    hooks = rounds_inputs(target) + rounds_inputs(draft)
    rows = target.model(torch.tensor([text])).last_hidden_state[0]
    worst = 0
    for position, logits, drafts in lines:
        again, other = draft.line(rows, text, position)
        worst = max(worst, ((again - logits).norm(dim=-1) / logits.norm(dim=-1)).max().item()) if other == drafts else 1
    for hook in hooks:
        hook.remove()
    return worst < 0.02


def for_gguf(config, state):
    """The folder's names as those of a layer behind the model's own."""
    n = config.num_hidden_layers
    made = {}
    for name, tensor in state.items():
        short = name.removeprefix("mtp.")
        if short == name:
            made[name] = tensor
        elif short.startswith("layers.0."):
            made[f"model.layers.{n}.{short.removeprefix('layers.0.')}"] = tensor
        else:
            made[f"model.layers.{n}.nextn.{NEXTN[short.removesuffix('.weight')]}.weight"] = tensor
    longer = copy.deepcopy(config)
    longer.num_hidden_layers, longer.layer_types = n + 1, [*config.layer_types, "full_attention"]
    return longer, made


def write_alone(path, source, chosen):
    """A file of the draft alone, made of the model's file; with `chosen`, matrices in Q8_0 and rows of the output."""
    reader = gguf.GGUFReader(source)
    arch = reader.fields["general.architecture"].contents()
    layer = reader.fields[f"{arch}.block_count"].contents() - 1
    writer = gguf.GGUFWriter(path, arch=arch)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        writer.add_key_value(field.name, field.contents(), kind,
                             field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    if chosen:
        writer.add_array("riffle.head.output_rows", chosen)
    for tensor in reader.tensors:
        if not tensor.name.startswith(f"blk.{layer}.") and tensor.name not in ("token_embd.weight", "output.weight"):
            continue
        kind, data = tensor.tensor_type, tensor.data
        if chosen and tensor.name.startswith("blk.") and kind == gguf.GGMLQuantizationType.BF16:
            data = gguf.quants.quantize(gguf.quants.dequantize(data, kind), Q8_0)
            kind = Q8_0
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def round_matrices(draft):
    """Gives the draft's matrices the values that Q8_0 holds."""
    with torch.no_grad():
        for parameter in [draft.fc.weight, *draft.layer.layers.parameters()]:
            if parameter.dim() == 2:
                coded = gguf.quants.quantize(parameter.numpy(), Q8_0)
                parameter.copy_(torch.from_numpy(gguf.quants.dequantize(coded, Q8_0)))


def make(name):
    config, kinds = MODELS[name]
    arch = name.removesuffix("-chosen")
    for seed in range(1000):
        target = experts.random_model(config, 0 if "chosen" in kinds else seed)  # which is qwen35's
        draft = Draft(config, target, kinds, seed)
        tensors = draft.tensors(kinds)
        if "chosen" in kinds:
            round_matrices(draft)
        text = torch.randint(0, 256, (N_TEXT,), generator=torch.Generator().manual_seed(seed)).tolist()
        lines = compute(target, draft, text[:N_READ])
        if len({tuple(drafts) for _, _, drafts in lines}) > N_LINES // 2 and \
                is_stable(target, draft, text[:N_READ], lines):
            break
    print(f"{name}: seed {seed}, the least lead is {min(lead(line[1]) for line in lines):.2f} of the logits' spread")
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    target.bfloat16().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(experts.tokenizer(), ensure_ascii=False))
    state = load_file(folder / "model.safetensors") | tensors
    save_file(state, folder / "model.safetensors")
    longer, renamed = for_gguf(config, state)
    experts.write_gguf(OUT / f"{name}.gguf", arch, longer, renamed)
    files = [f"{name}.gguf", name]
    if name == "qwen35":
        write_alone(OUT / f"{name}-alone.gguf", OUT / f"{name}.gguf", None)
        files.append(f"{name}-alone.gguf")
    if "chosen" in kinds:
        write_alone(OUT / f"{name}-alone.gguf", OUT / f"{name}.gguf", draft.rows)
        files = [f"{name}-alone.gguf"]
        shutil.rmtree(folder)
        (OUT / f"{name}.gguf").unlink()
    lines.sort(key=lambda line: line[0])
    (OUT / f"{name}.golden").write_bytes(torch.stack([line[1] for line in lines]).numpy().astype("<f4").tobytes())
    (OUT / f"{name}.json").write_text(json.dumps({
        "target": f"{arch}.gguf", "text": text, "heads": [{
            "files": files, "rows": len(draft.rows), "golden": f"{name}.golden",
            "lines": [{"position": position, "drafts": drafts} for position, _, drafts in lines]}]}) + "\n")


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for wanted in sys.argv[1:] or MODELS:
        make(wanted)
