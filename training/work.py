"""The work folder, and the processes that share the work. Every file is below 15 MB and appears
whole, by a rename; so a run may be killed at any moment, and the folder can be carried between
machines in small pieces. torchrun starts a process for each GPU: each writes texts of its own and
computes its share of a training step; the first writes everything else."""

from __future__ import annotations

import io
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import distributed

PIECE = 14_000_000
START = time.monotonic()
RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def say(text: str) -> None:
    if RANK == 0:
        print(f"[{time.monotonic() - START:6.0f} s] {text}", flush=True)


def join(device: str) -> str:
    """This process's device, once all processes have met."""
    if RANKS == 1:
        return device
    if device == "cuda":
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    distributed.init_process_group("gloo" if device == "cpu" else "cpu:gloo,cuda:nccl")
    return device


def leave() -> None:
    if RANKS > 1:
        distributed.destroy_process_group()


def wait_for_all() -> None:
    if RANKS > 1:
        distributed.all_reduce(torch.zeros(1))


def agreed(value: float) -> float:
    """The first process's value."""
    if RANKS == 1:
        return value
    shared = torch.tensor([value], dtype=torch.float64)
    distributed.broadcast(shared, 0)
    return shared.item()


def average(gradients: list[torch.Tensor]) -> None:
    """Each gradient becomes the mean of all processes'."""
    if RANKS == 1:
        return
    flat = torch.cat([g.flatten() for g in gradients]) / RANKS
    distributed.all_reduce(flat)
    for gradient, mean in zip(gradients, flat.split([g.numel() for g in gradients])):
        gradient.copy_(mean.view_as(gradient))


def upload(values: torch.Tensor, device: str) -> torch.Tensor:
    """Values on the device. The copy waits for nothing, since it is from pinned memory."""
    return values if device == "cpu" else values.pin_memory().to(device, non_blocking=True)


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def write_json(path: Path, value: Any) -> None:
    write(path, json.dumps(value, separators=(",", ":")).encode())


def write_state(folder: Path, number: int, states: dict[str, Any]) -> None:
    """A checkpoint: pieces of each state in folder, then state.json, which names them. Earlier
    pieces are removed once state.json has changed."""
    pieces: dict[str, list[str]] = {}
    for name, state in states.items():
        buffer = io.BytesIO()
        torch.save(state, buffer)
        data = buffer.getvalue()
        pieces[name] = []
        for i, start in enumerate(range(0, len(data), PIECE)):
            pieces[name].append(f"{name}-{number}.{i}")
            write(folder / pieces[name][-1], data[start:start + PIECE])
    write_json(folder / "state.json", pieces)
    kept = {piece for names in pieces.values() for piece in names} | {"state.json"}
    for path in folder.iterdir():
        if path.name not in kept:
            path.unlink()


def read_state(folder: Path, device: str) -> dict[str, Any] | None:
    """The states of the last complete checkpoint."""
    try:
        pieces = json.loads((folder / "state.json").read_text())
    except FileNotFoundError:
        return None
    return {name: torch.load(io.BytesIO(b"".join((folder / p).read_bytes() for p in names)),
                             map_location=device) for name, names in pieces.items()}
