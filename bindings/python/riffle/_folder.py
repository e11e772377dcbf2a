"""The folders of models and draft heads, and the models' names."""

from __future__ import annotations

import os
from pathlib import Path

from . import _places
from ._errors import FileError

#: The wheel has a copy; in a checkout the file is where the program's build finds it.
_TABLES = (
    Path(__file__).parent / "models.tsv",
    Path(__file__).resolve().parents[3] / "scripts" / "models.tsv",
)
_HEADS = (
    Path(__file__).parent / "heads",
    Path(__file__).resolve().parents[3] / "training" / "heads",
)


def heads_folder() -> Path | None:
    """$RIFFLE_HEADS, else the draft heads that came with the package."""
    chosen = os.environ.get("RIFFLE_HEADS")
    if chosen:
        return Path(chosen)
    return next((folder for folder in _HEADS if folder.is_dir()), None)


def models_folder() -> Path:
    """$RIFFLE_MODELS, else `riffle/models` in the user's data folder, as the program has it."""
    chosen = os.environ.get("RIFFLE_MODELS")
    if chosen:
        return Path(chosen)
    if os.name == "nt":
        data = os.environ.get("LOCALAPPDATA")
        return Path(data or Path.home() / "AppData" / "Local") / "riffle" / "models"
    data = os.environ.get("XDG_DATA_HOME")
    # A relative one is to be ignored, by the XDG base directory specification.
    base = Path(data) if data and os.path.isabs(data) else Path.home() / ".local" / "share"
    return base / "riffle" / "models"


def known_files() -> dict[str, str]:
    """The names of the known models, and their files, or the names that a hub has for them."""
    for table in _TABLES:
        if table.exists():
            lines = table.read_text(encoding="utf-8").splitlines()
            rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
            return {row[0]: row[7] if row[1] == "-" else row[1] for row in rows}
    return {}


def find_path(model: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The path of a model: what exists, else a file in the models' folder, else a hub's name.

    A hub's name means a model that is on the disk, in Riffle's folder or another program's.
    """
    name = os.fsdecode(model)
    if not name or "\0" in name or os.path.exists(name):
        return model
    folder = models_folder()
    known = known_files().get(name)
    found = _places.find(known or name, folder)
    if found:
        return found
    if _places.parse(name):
        raise FileError(f"the model {name} is not on this disk; `riffle pull {name}` fetches it")
    if os.path.basename(name) != name:
        return model
    for file in (known, name, name + ".gguf"):
        if file and (folder / file).exists():
            return folder / file
    remedy = f"; `riffle pull {name}` fetches it" if known else ""
    raise FileError(f"there is no file or folder {name}, and no such model in {folder}{remedy}")
