"""riffle.h in ctypes: where the library is, its structures, its calls.

tests/test_native.py compiles every size, offset, constant and prototype below against the header.
A new call of the header needs its row in PROTOTYPES, a new field its row in a structure.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64
from ctypes import c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from ._errors import BY_CODE, RiffleError

VERSION = (0, 1)  # of the header that this file follows: major and minor

OPEN_HEADER = 1
OPEN_COPY = 2
TOKENIZE_BOS = 1
TOKENIZE_SPECIAL = 2
DETOKENIZE_SPECIAL = 1
DETOKENIZE_START = 2
CORES_MEASURE = 1
MAX_LEVELS = 8
MAX_DRAFT = 15
FINISH_NONE = 0
FINISH_STOP = 1
FINISH_LENGTH = 2
FINISH_CANCELLED = 3
FINISH_REPETITION = 4
GRAMMAR_GBNF = 1
GRAMMAR_JSON_SCHEMA = 2

PROGRESS_FN = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_uint64, c_uint64)
FIND_MODEL_FN = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, POINTER(c_char), c_size_t)


class ModelOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("flags", c_uint32),
        ("threads", c_int32),
        ("weights", c_char_p),
        ("chat_template", c_char_p),
        ("progress", PROGRESS_FN),
        ("progress_user", c_void_p),
        ("allocator", c_void_p),
        ("chain", c_char_p),
        ("draft", c_char_p),
        ("find_model", FIND_MODEL_FN),
        ("find_user", c_void_p),
        ("cache_folder", c_char_p),
        ("cores", c_char_p),
        ("metadata_bytes", c_uint64),
        ("metadata_items", c_uint64),
        ("corpus", c_char_p),
        ("activations", c_char_p),
        ("device", c_char_p),
        ("expert_bytes", c_uint64),
        ("gpu_layers", c_char_p),
        ("session_kv", c_char_p),
        ("session_ctx", c_int32),
        ("head", c_char_p),
        ("head_folder", c_char_p),
        ("reserved", c_uint64 * 6),
    ]


class ModelInfo(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("architecture", c_char_p),
        ("container", c_char_p),
        ("stored_types", c_char_p),
        ("weights", c_char_p),
        ("weights_note", c_char_p),
        ("tokenizer", c_char_p),
        ("chat_template", c_char_p),
        ("n_params", c_uint64),
        ("file_bytes", c_uint64),
        ("weight_bytes", c_uint64),
        ("mapped_bytes", c_uint64),
        ("resident_bytes", c_uint64),
        ("kv_bytes_per_token", c_uint64),
        ("chain", c_char_p),
        ("chain_note", c_char_p),
        ("draft_bytes", c_uint64),
        ("n_layer", c_int32),
        ("n_embd", c_int32),
        ("n_head", c_int32),
        ("n_head_kv", c_int32),
        ("head_dim", c_int32),
        ("n_ff", c_int32),
        ("n_vocab", c_int32),
        ("n_ctx_train", c_int32),
        ("bos_token", c_int32),
        ("eos_token", c_int32),
        ("adds_bos", c_int32),
        ("rope_theta", c_float),
        ("weights_reason", c_char_p),
        ("activations_reason", c_char_p),
        ("activation_bits", c_int32),
        ("device", c_char_p),
        ("device_note", c_char_p),
        ("n_expert", c_int32),
        ("n_expert_used", c_int32),
        ("experts_note", c_char_p),
        ("device_layers", c_int32),
        ("layers_note", c_char_p),
        ("file_type", c_char_p),
        ("head", c_char_p),
        ("head_recipe", c_char_p),
        ("head_bytes", c_uint64),
    ]


class Message(ctypes.Structure):
    _fields_ = [("role", c_char_p), ("content", c_char_p)]


class Text(ctypes.Structure):
    """riffle_text of riffle_experimental.h."""

    _fields_ = [("data", c_char_p), ("bytes", c_size_t)]


class SessionOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("n_ctx", c_int32),
        ("threads", c_int32),
        ("kv", c_char_p),
        ("progress", PROGRESS_FN),
        ("progress_user", c_void_p),
        ("chain", c_char_p),
        ("gamma", c_int32),
        ("min_confidence", c_float),
        ("cores", c_char_p),
        ("reserved", c_uint64 * 7),
    ]


class Sampling(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("temperature", c_float),
        ("top_k", c_int32),
        ("top_p", c_float),
        ("min_p", c_float),
        ("repeat_penalty", c_float),
        ("repeat_last_n", c_int32),
        ("seed", c_uint64),
        ("frequency_penalty", c_float),
        ("presence_penalty", c_float),
        ("reserved", c_uint64 * 7),
    ]


class Event(ctypes.Structure):
    # `text` is no c_char_p: it has a length and no terminating zero.
    _fields_ = [
        ("token", c_int32),
        ("level", c_int32),
        ("text", c_void_p),
        ("text_bytes", c_size_t),
    ]


EVENT_FN = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Event))


class GenerateOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("max_tokens", c_int32),
        ("ignore_eos", c_int32),
        ("stop", POINTER(c_char_p)),
        ("n_stop", c_size_t),
        ("ignore_repetition", c_int32),
        ("grammar", c_void_p),
        ("reserved", c_uint64 * 6),
    ]


class LevelStats(ctypes.Structure):
    _fields_ = [
        ("name", c_char * 32),
        ("passes", c_uint64),
        ("drafted", c_uint64),
        ("accepted", c_uint64),
        ("seconds", c_double),
        ("judged_at", c_uint64 * MAX_DRAFT),
        ("accepted_at", c_uint64 * MAX_DRAFT),
    ]


class Stats(ctypes.Structure):
    _fields_ = [
        ("prefill_tokens", c_uint64),
        ("generated_tokens", c_uint64),
        ("prefill_seconds", c_double),
        ("decode_seconds", c_double),
        ("threads", c_int32),
        ("n_levels", c_int32),
        ("chain", c_char * 128),
        ("levels", LevelStats * MAX_LEVELS),
        ("level_threads", c_int32 * MAX_LEVELS),
    ]


class Machine(ctypes.Structure):
    _fields_ = [
        ("cpu", c_char * 16),
        ("cpu_best", c_char * 16),
        ("cores", c_int32),
        ("memory_bytes", c_uint64),
        ("peak_rss_bytes", c_uint64),
        ("note", c_char * 256),
    ]


class QuantizeOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("threads", c_int32),
        ("rule", c_char_p),
        ("progress", PROGRESS_FN),
        ("progress_user", c_void_p),
        ("allocator", c_void_p),
        ("calibration", c_char_p),
        ("calibration_bytes", c_uint64),
        ("calibration_windows", c_int32),
        ("group", c_int32),
        ("rotate", c_int32),
        ("high_share", c_int32),
        ("reserved", c_uint64 * 4),
    ]


class Core(ctypes.Structure):
    _fields_ = [
        ("cpu", c_int32),
        ("core", c_int32),
        ("package", c_int32),
        ("sibling", c_int32),
        ("l2", c_int32),
        ("l3", c_int32),
        ("max_mhz", c_int32),
        ("worker", c_int32),
        ("decode_share", c_double),
        ("prompt_share", c_double),
        ("kind", c_char_p),
        ("reason", c_char_p),
    ]


CORE_FN = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Core))


class CoresInfo(ctypes.Structure):
    _fields_ = [
        ("source", c_char * 256),
        ("model", c_char * 96),
        ("note", c_char * 256),
        ("n_cpus", c_int32),
        ("n_cores", c_int32),
        ("n_packages", c_int32),
        ("n_workers", c_int32),
        ("n_placed", c_int32),
        ("quota", c_int32),
        ("binds", c_int32),
        ("measured", c_int32),
        ("read_bytes_per_second", c_double),
    ]


class CoresOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("cores", c_char_p),
        ("threads", c_int32),
        ("flags", c_uint32),
        ("reserved", c_uint64 * 8),
    ]


# The names of the structures in C.
STRUCTURES: dict[str, type[ctypes.Structure]] = {
    "riffle_model_options": ModelOptions,
    "riffle_model_info": ModelInfo,
    "riffle_message": Message,
    "riffle_session_options": SessionOptions,
    "riffle_sampling": Sampling,
    "riffle_event": Event,
    "riffle_generate_options": GenerateOptions,
    "riffle_level_stats": LevelStats,
    "riffle_stats": Stats,
    "riffle_machine": Machine,
    "riffle_quantize_options": QuantizeOptions,
    "riffle_core": Core,
    "riffle_cores_info": CoresInfo,
    "riffle_cores_options": CoresOptions,
}

MODEL = c_void_p
SESSION = c_void_p
GRAMMAR = c_void_p
TOKENS = POINTER(c_int32)

# Call: its result, then its arguments.
PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "riffle_version": (c_char_p,),
    "riffle_strerror": (c_char_p, c_int),
    "riffle_last_error": (c_char_p,),
    "riffle_model_options_init": (None, POINTER(ModelOptions), c_size_t),
    "riffle_model_open": (c_int, POINTER(MODEL), c_char_p, POINTER(ModelOptions)),
    "riffle_model_close": (None, MODEL),
    "riffle_model_get_info": (c_int, MODEL, POINTER(ModelInfo), c_size_t),
    "riffle_tokenize": (c_int64, MODEL, c_char_p, c_size_t, c_uint32, TOKENS, c_size_t),
    "riffle_detokenize": (
        c_int64,
        MODEL,
        TOKENS,
        c_size_t,
        c_uint32,
        POINTER(c_char),
        c_size_t,
    ),
    "riffle_chat_format": (
        c_int64,
        MODEL,
        POINTER(Message),
        c_size_t,
        c_int,
        POINTER(c_char),
        c_size_t,
    ),
    "riffle_session_options_init": (None, POINTER(SessionOptions), c_size_t),
    "riffle_session_open": (c_int, POINTER(SESSION), MODEL, POINTER(SessionOptions)),
    "riffle_session_close": (None, SESSION),
    "riffle_session_cost": (
        c_int,
        MODEL,
        POINTER(SessionOptions),
        POINTER(c_int32),
        POINTER(c_uint64),
    ),
    "riffle_session_tokens": (c_int32, SESSION, POINTER(TOKENS)),
    "riffle_session_n_ctx": (c_int32, SESSION),
    "riffle_prefill": (c_int, SESSION, TOKENS, c_size_t),
    "riffle_chat_prefill": (c_int64, SESSION, POINTER(Message), c_size_t),
    "riffle_sampling_init": (None, POINTER(Sampling), c_size_t),
    "riffle_model_get_sampling": (c_int, MODEL, POINTER(Sampling), c_size_t, POINTER(c_char_p)),
    "riffle_session_set_sampling": (c_int, SESSION, POINTER(Sampling)),
    "riffle_grammar_new": (c_int, POINTER(GRAMMAR), MODEL, c_int, c_char_p, c_size_t),
    "riffle_grammar_free": (None, GRAMMAR),
    "riffle_generate_options_init": (None, POINTER(GenerateOptions), c_size_t),
    "riffle_generate": (c_int64, SESSION, POINTER(GenerateOptions), EVENT_FN, c_void_p),
    "riffle_session_finish": (c_int, SESSION, POINTER(c_char_p)),
    "riffle_cancel": (None, SESSION),
    "riffle_rewind": (c_int, SESSION, c_int32),
    "riffle_session_get_stats": (c_int, SESSION, POINTER(Stats), c_size_t),
    "riffle_session_reset_stats": (None, SESSION),
    "riffle_step": (c_int64, SESSION, TOKENS, c_size_t),
    "riffle_token_is_end": (c_int, MODEL, c_int32),
    "riffle_logits": (c_int, SESSION, POINTER(c_float), c_size_t),
    "riffle_score": (c_int, SESSION, TOKENS, c_size_t, c_size_t, POINTER(c_double)),
    "riffle_fork": (c_int, POINTER(SESSION), SESSION),
    "riffle_state_save": (c_int, SESSION, c_char_p),
    "riffle_state_load": (c_int, SESSION, c_char_p),
    "riffle_guard_files": (c_int,),
    "riffle_set_cpu": (c_int, c_char_p),
    "riffle_machine_get": (c_int, POINTER(Machine), c_size_t),
    "riffle_quantize_options_init": (None, POINTER(QuantizeOptions), c_size_t),
    "riffle_quantize": (c_int, c_char_p, c_char_p, c_char_p, POINTER(QuantizeOptions)),
    "riffle_cores_options_init": (None, POINTER(CoresOptions), c_size_t),
    "riffle_cores": (
        c_int,
        POINTER(CoresOptions),
        POINTER(CoresInfo),
        c_size_t,
        CORE_FN,
        c_void_p,
    ),
}

#: Of riffle_experimental.h, as far as this package uses it.
EXPERIMENTAL: dict[str, tuple[Any, ...]] = {
    "riffle_chat_format_json": (
        c_int64,
        MODEL,
        c_char_p,
        c_size_t,
        c_int,
        POINTER(c_char),
        c_size_t,
    ),
    "riffle_chat_prefill_json": (c_int64, SESSION, c_char_p, c_size_t),
    "riffle_embed": (c_int64, MODEL, POINTER(Text), c_size_t, POINTER(c_float), c_size_t),
    "riffle_answer_message": (
        c_int64,
        MODEL,
        TOKENS,
        c_size_t,
        c_size_t,
        c_char_p,
        c_size_t,
        POINTER(c_char),
        c_size_t,
    ),
}


def _load() -> ctypes.CDLL:
    """The library that RIFFLE_LIBRARY names, else the wheel's own, else the system's."""
    name = "riffle.dll" if os.name == "nt" else "libriffle.so.0"
    bundled = Path(__file__).parent / "lib" / name
    path = os.environ.get("RIFFLE_LIBRARY") or (str(bundled) if bundled.exists() else name)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"riffle: cannot load the library: {error}; RIFFLE_LIBRARY=PATH names another"
        ) from None
    for name, (result, *arguments) in (PROTOTYPES | EXPERIMENTAL).items():
        try:
            call = getattr(library, name)
        except AttributeError:
            raise ImportError(f"riffle: {path} has no {name}: it is another version") from None
        call.restype = result
        call.argtypes = arguments
    found = library.riffle_version().decode()
    if tuple(int(part) for part in found.split(".")[:2]) != VERSION:
        raise ImportError(
            f"riffle: {path} is version {found}, this package needs {VERSION[0]}.{VERSION[1]}"
        )
    return library


lib: Any = _load()


def error(code: int, text: str | None = None) -> RiffleError:
    """The exception of a code; its text is by default this thread's last sentence."""
    sentence = text if text is not None else lib.riffle_last_error().decode(errors="replace")
    return BY_CODE.get(code, RiffleError)(sentence)


def check(result: int) -> int:
    """The result of a call, unless it is a negative code."""
    if result < 0:
        raise error(result)
    return result


def text(value: str, name: str) -> bytes:
    """A C string."""
    encoded = value.encode()
    if b"\0" in encoded:
        raise error(-1, f"{name} contains a zero byte")
    return encoded


def path(value: str | os.PathLike[str]) -> bytes:
    encoded = os.fsencode(value)
    if b"\0" in encoded:
        raise error(-1, "path contains a zero byte")
    return encoded
