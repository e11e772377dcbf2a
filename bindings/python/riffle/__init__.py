"""Riffle runs large language models on the CPU.

import riffle

with riffle.Model("model.gguf") as model, riffle.Session(model) as session:
    for piece in session.chat([("user", "Why is the sky blue?")]):
        print(piece, end="", flush=True)
"""

from ._errors import (
    ArgumentError,
    CancelledError,
    ContextError,
    FileError,
    FormatError,
    OutOfMemoryError,
    RiffleError,
    SystemServiceError,
    UnsupportedError,
)
from ._grammar import Grammar
from ._machine import Core, Cores, Machine, cores, guard_files, machine, quantize, set_cpu
from ._model import Message, MessageLike, Model, ModelInfo
from ._native import lib as _lib
from ._session import LevelStats, Sampling, Session, Stats
from ._stream import Finish, Stream

__version__: str = _lib.riffle_version().decode()

__all__ = [
    "ArgumentError",
    "CancelledError",
    "ContextError",
    "Core",
    "Cores",
    "FileError",
    "Finish",
    "FormatError",
    "Grammar",
    "LevelStats",
    "Machine",
    "Message",
    "MessageLike",
    "Model",
    "ModelInfo",
    "OutOfMemoryError",
    "RiffleError",
    "Sampling",
    "Session",
    "Stats",
    "Stream",
    "SystemServiceError",
    "UnsupportedError",
    "cores",
    "guard_files",
    "machine",
    "quantize",
    "set_cpu",
]
