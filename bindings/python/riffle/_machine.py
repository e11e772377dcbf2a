"""The machine, its cores, and quantising."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Any

from . import _native as native
from ._handle import Progress, Raised, convert
from ._native import lib


@dataclass(frozen=True)
class Machine:
    """The fields of riffle_machine."""

    cpu: str
    cpu_best: str
    cores: int
    memory_bytes: int
    peak_rss_bytes: int
    note: str


@dataclass(frozen=True)
class Core:
    """A hardware thread; the fields of riffle_core."""

    cpu: int
    core: int
    package: int
    sibling: int
    l2: int
    l3: int
    max_mhz: int
    worker: int
    decode_share: float
    prompt_share: float
    kind: str
    reason: str


@dataclass(frozen=True)
class Cores:
    """The fields of riffle_cores_info, and the hardware threads."""

    source: str
    model: str
    note: str
    n_cpus: int
    n_cores: int
    n_packages: int
    n_workers: int
    n_placed: int
    quota: int
    binds: bool
    measured: bool
    read_bytes_per_second: float
    threads: tuple[Core, ...]


def machine() -> Machine:
    """What this process runs on."""
    found = native.Machine()
    native.check(lib.riffle_machine_get(found, ctypes.sizeof(found)))
    result: Machine = convert(Machine, found)
    return result


def guard_files() -> None:
    """riffle_guard_files: a model's file that becomes shorter gives errors instead of SIGBUS."""
    native.check(lib.riffle_guard_files())


def set_cpu(tier: str | None) -> None:
    """Selects the instruction tier of models opened from now on; None: the best."""
    native.check(lib.riffle_set_cpu(None if tier is None else native.text(tier, "tier")))


def cores(cores: str | None = None, *, threads: int = 0, measure: bool = False) -> Cores:
    """Which hardware threads sessions with these options use."""
    options = native.CoresOptions()
    lib.riffle_cores_options_init(options, ctypes.sizeof(options))
    if cores is not None:
        options.cores = native.text(cores, "cores")
    options.threads = threads
    options.flags = native.CORES_MEASURE if measure else 0
    found = native.CoresInfo()
    rows: list[Core] = []
    raised = Raised()

    def on_core(user: object, core: Any) -> int:
        return raised.guard(lambda: rows.append(convert(Core, core.contents)))

    call = native.CORE_FN(on_core)
    raised.check(lib.riffle_cores(options, found, ctypes.sizeof(found), call, None))
    result: Cores = convert(
        Cores,
        found,
        binds=bool(found.binds),
        measured=bool(found.measured),
        threads=tuple(rows),
    )
    return result


def quantize(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    type: str,
    *,
    rule: str | None = None,
    calibration: str | None = None,
    calibration_windows: int = 0,
    group: int = 0,
    rotate: bool | None = None,
    high_share: int | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> None:
    """Writes the GGUF model `source` to `target` with its matrices in another type: "mxfp4", "q4",
    "q4_0", "w4a8", "w4a8i", "q6", "q8_0" or "bf16". `calibration`: a text on which the model shall
    change least."""
    options = native.QuantizeOptions()
    lib.riffle_quantize_options_init(options, ctypes.sizeof(options))
    raised = Raised()
    options.threads = threads
    options.progress = raised.progress(progress)
    if rule is not None:
        options.rule = native.text(rule, "rule")
    if calibration is not None:
        options.calibration = calibration.encode()
        options.calibration_bytes = len(options.calibration)
    options.calibration_windows = calibration_windows
    options.group = group
    options.rotate = 0 if rotate is None else 1 if rotate else -1
    options.high_share = 0 if high_share is None else high_share or -1
    raised.check(
        lib.riffle_quantize(
            native.path(source), native.path(target), native.text(type, "type"), options
        )
    )
