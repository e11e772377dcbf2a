"""Models by the names of hubs, in the places where `riffle pull` and other programs keep them.

The rules are those of the program (src/program/hubs, src/program/models); nothing is fetched here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

#: The order in which types are taken where none is asked for, as in src/program/hubs/types.c.
TYPES = (
    "Q4_K_M UD-Q4_K_XL Q4_K_L Q4_K_S Q4_K IQ4_XS IQ4_NL Q4_1 Q4_0 Q4 Q5_K_M Q5_K_S UD-Q5_K_XL "
    "Q5_K_L Q5_K Q5_1 Q5_0 MXFP4 MXFP4_MOE Q6_K UD-Q6_K_XL Q6_K_L Q8_0 Q8 Q3_K_L Q3_K_M Q3_K "
    "Q3_K_S UD-Q3_K_XL IQ3_M IQ3_S IQ3_XS UD-IQ3_XXS IQ3_XXS Q2_K Q2_K_L UD-Q2_K_XL Q2_K_S IQ2_M "
    "UD-IQ2_M IQ2_S IQ2_XS UD-IQ2_XXS IQ2_XXS TQ2_0 TQ1_0 UD-TQ1_0 IQ1_M UD-IQ1_M IQ1_S UD-IQ1_S "
    "BF16 F16 FP16 F32 FP32"
).split()
_HOSTS = {
    "hf.co": "hf.co",
    "huggingface.co": "hf.co",
    "ollama.com": "ollama.com",
    "registry.ollama.ai": "ollama.com",
    "modelscope.cn": "modelscope.cn",
}
_PLAIN = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9_+.-]*")
_PART = re.compile(r"-(\d{5})-of-(\d{5})$")
_TYPE = re.compile(
    r"(?:^|(?<=[-._/]))((?:UD-)?(?:[IT]?Q\d|BF16|F16|F32|FP16|FP32|MXFP|NVFP4)[A-Z0-9_]*)"
)


class Name(NamedTuple):
    """A model on a hub. An empty type means the best one."""

    hub: str
    owner: str
    repo: str
    type: str


def parse(text: str) -> Name | None:
    """The model that a hub's name means; None: it is a path, or a name of another kind."""
    bare = re.sub(r"^https://", "", text)
    host, _, rest = re.sub(r"^www\.", "", bare).partition("/")
    hub = _HOSTS.get(host.lower())
    parts = (rest if hub else text).partition("?")[0].partition("#")[0].strip("/").split("/")
    if not hub and bare == text and text.strip("/") == text:
        if text.lower().endswith(".gguf") and ":" not in text:
            return None
        hub = "hf.co" if len(parts) == 2 else "ollama.com" if ":" in text[2:] else None
        if len(parts) > 2 or (len(parts) == 2 and os.path.exists(parts[0])):
            return None
    if not hub:
        return None
    if hub == "ollama.com":
        parts = ["library", *parts] if len(parts) == 1 else parts
    elif hub == "modelscope.cn" and parts[0] == "models":
        parts = parts[1:]
    if len(parts) < 2 or (hub == "ollama.com" and len(parts) > 2):
        return None
    repo, colon, kind = parts[1].partition(":")
    if len(parts) > 4 and parts[2] in ("resolve", "blob", "raw"):
        kind = parts[-1]
    elif hub == "ollama.com":
        kind = kind or "latest"
    elif kind.lower() == "latest":
        colon = kind = ""
    if not all(_PLAIN.fullmatch(part) for part in (parts[0], repo, kind or "x")):
        return None
    return None if colon and not kind else Name(hub, parts[0], repo, kind)


def type_of(path: str) -> str:
    """The type in a file's name, or ""."""
    found: list[str] = _TYPE.findall(_PART.sub("", path.removesuffix(".gguf")).upper())
    return found[-1] if found else ""


def _is_model(path: Path) -> bool:
    name = path.name.lower()
    part = _PART.search(path.stem)
    return (
        name.endswith(".gguf")
        and not name.startswith(".")
        and "mmproj" not in name
        and "imatrix" not in name
        and (not part or part[1] == "00001")
        and path.is_file()
    )


def _in_folder(folder: Path) -> Iterator[tuple[str, Path]]:
    """The models below a repository's folder, with their types."""
    for path in [folder, *sorted(folder.glob("*"))]:
        if (path / "config.json").is_file() and any(path.glob("*.safetensors")):
            yield "safetensors", path
    for path in sorted([*folder.glob("*.gguf"), *folder.glob("*/*.gguf")]):
        if _is_model(path):
            yield type_of(path.name) or _PART.sub("", path.stem), path


def _variable(name: str, otherwise: Path) -> Path:
    chosen = os.environ.get(name)
    return Path(chosen) if chosen else otherwise


def _cached(name: Name) -> Iterator[tuple[str, Path]]:
    """Hugging Face's cache: the main revision first."""
    data = os.environ.get("XDG_CACHE_HOME")
    cache = Path(data) if data and os.path.isabs(data) else Path.home() / ".cache"
    hub = _variable("HF_HOME", cache / "huggingface") / "hub"
    folder = _variable("HF_HUB_CACHE", hub) / f"models--{name.owner}--{name.repo}"
    refs = folder / "refs" / "main"
    if refs.is_file():
        yield from _in_folder(folder / "snapshots" / refs.read_text(encoding="utf-8").strip())
    for snapshot in sorted((folder / "snapshots").glob("*")):
        yield from _in_folder(snapshot)


def _blobs(name: Name) -> Iterator[tuple[str, Path]]:
    """ollama's manifests, which name blobs."""
    places = [_variable("OLLAMA_MODELS", Path.home() / ".ollama" / "models")]
    if not os.environ.get("OLLAMA_MODELS"):
        places.append(Path("/usr/share/ollama/.ollama/models"))
    host = "registry.ollama.ai" if name.hub == "ollama.com" else name.hub
    for place in places:
        for tag in sorted((place / "manifests" / host / name.owner / name.repo).glob("*")):
            try:
                layers = json.loads(tag.read_bytes())["layers"]
                kinds = {layer["mediaType"].rpartition(".")[2]: layer["digest"] for layer in layers}
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue
            digest = kinds.get("model")
            if "adapter" in kinds or not isinstance(digest, str):
                continue
            blob = place / "blobs" / digest.replace(":", "-")
            if re.fullmatch(r"sha256:[0-9a-fA-F]{64}", digest) and blob.is_file():
                yield tag.name, blob


def _places(name: Name, own: Path) -> Iterator[Iterator[tuple[str, Path]]]:
    """Riffle's folder, then those of other programs."""
    if name.hub == "ollama.com":
        files = sorted((own / name.hub / name.owner / name.repo).glob("*.gguf"))
        yield ((path.stem, path) for path in files)
    else:
        yield _in_folder(own / name.hub / name.owner / name.repo)
    others: list[tuple[str, Path]] = []
    if name.hub == "hf.co":
        others += _cached(name)
        for studio in (".lmstudio/models", ".cache/lm-studio/models"):
            others += _in_folder(Path.home() / studio / name.owner / name.repo)
    others += _blobs(name)
    yield iter(others)


def _fits(name: Name, kind: str, path: Path) -> int:
    """Whether a model is meant: 2, 1 but for a maker's prefix, or 0."""
    wanted, own = (text.upper().replace("-", "_") for text in (name.type, kind))
    wanted, own = (re.sub(r"^FP(16|32)$", r"F\1", text) for text in (wanted, own))
    stem = _PART.sub("", path.stem)
    if not name.type or wanted == own:
        return 2
    if name.hub == "ollama.com":
        return 0
    if name.type.lower() in (path.name.lower(), path.stem.lower(), stem.lower()):
        return 2
    return int(own == "UD_" + wanted)


def find(text: str, own: Path) -> Path | None:
    """The path of a model that is on the disk, by the name that a hub has for it."""
    name = parse(text)
    if not name:
        return None
    for place in _places(name, own):
        fitting = [(kind, path, _fits(name, kind, path)) for kind, path in place]
        best = max((fits for _, _, fits in fitting), default=0)
        chosen = [(kind, path) for kind, path, fits in fitting if fits and fits == best]
        if chosen:
            ranks = {kind: rank for rank, kind in enumerate(TYPES)}
            return min(chosen, key=lambda one: ranks.get(one[0].upper(), len(TYPES)))[1]
    return None
