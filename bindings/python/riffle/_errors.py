"""Exceptions: one class for each negative code of riffle.h."""

from __future__ import annotations


class RiffleError(Exception):
    """A call of the library failed. The text is its sentence; `code` its negative code."""

    code = 0


class ArgumentError(RiffleError, ValueError):
    """An argument is out of range, or calls came in a wrong order."""

    code = -1


class OutOfMemoryError(RiffleError, MemoryError):
    """An allocation failed, or the machine has too little memory for what was asked."""

    code = -2


class FileError(RiffleError, OSError):
    """The operating system could not open, read or write a file."""

    code = -3


class FormatError(RiffleError, ValueError):
    """A file violates its own format."""

    code = -4


class UnsupportedError(RiffleError):
    """Valid, but not supported by this version or machine."""

    code = -5


class ContextError(RiffleError):
    """The tokens do not fit the session's context."""

    code = -6


class CancelledError(RiffleError):
    """Session.cancel() or a callback stopped the call."""

    code = -7


class SystemServiceError(RiffleError):
    """Threads, clocks or another system service failed; or the process is a forked child."""

    code = -8


BY_CODE: dict[int, type[RiffleError]] = {
    kind.code: kind
    for kind in (
        ArgumentError,
        OutOfMemoryError,
        FileError,
        FormatError,
        UnsupportedError,
        ContextError,
        CancelledError,
        SystemServiceError,
    )
}
