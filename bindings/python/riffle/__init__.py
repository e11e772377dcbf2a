"""Riffle runs large language models on the CPU.

import riffle

with riffle.Model("model.gguf") as model, riffle.Session(model) as session:
    for piece in session.chat([("user", "Why is the sky blue?")]):
        print(piece, end="", flush=True)
"""

from ._async import AsyncStream
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
from ._model import Message, MessageLike, Model, ModelInfo, Sampling, SessionCost
from ._native import lib as _lib
from ._session import LevelStats, Session, Stats
from ._stream import Finish, Stream

__version__: str = _lib.riffle_version().decode()

__all__ = [
    "ArgumentError",
    "AsyncStream",
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
    "SessionCost",
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
