"""What the library's handles need in Python: safe closing, and callbacks that may raise."""

from __future__ import annotations

import ctypes
import os
import threading
from contextlib import contextmanager
from typing import Any, Callable, Iterator

from . import _native as native
from ._errors import ArgumentError

ARGUMENT = ArgumentError.code

# Called with (stage, done, total); a true result cancels the call, as an exception does.
Progress = Callable[[str, int, int], object]


class Handle:
    """A pointer of the library, which is freed when no call uses it any more.

    In a forked child, calls get the library's own error, and closing does nothing: neither the
    library's threads nor the owners of our locks exist there.
    """

    def __init__(
        self,
        what: str,
        pointer: ctypes.c_void_p,
        free: Callable[[ctypes.c_void_p], None],
        interrupt: Callable[[ctypes.c_void_p], None] | None = None,
    ) -> None:
        self._what = what
        self._pointer: ctypes.c_void_p | None = pointer
        self._free = free
        self._interrupt = interrupt  # of sessions, which one call at a time may use
        self._stop: Callable[[], None] | None = None  # of the current stream
        self._users: list[object] = []  # threads; what else entered
        self._closing = False
        # Reentrant, as a signal handler may call cancel().
        self._changed = threading.Condition(threading.RLock())
        self._process = os.getpid()

    def enter(self, user: object = None, stop: Callable[[], None] | None = None) -> ctypes.c_void_p:
        """The pointer, for use until leave(). `user` is by default the calling thread."""
        if self._process != os.getpid():
            return self._given()
        with self._changed:
            pointer = self._given()
            if self._interrupt and self._users:
                raise native.error(
                    ARGUMENT,
                    f"the {self._what} is in use: by another thread, by an open stream, or by the "
                    "call whose callback this is",
                )
            self._users.append(threading.get_ident() if user is None else user)
            self._stop = stop
            return pointer

    def leave(self, user: object = None) -> None:
        if self._process != os.getpid():
            return
        with self._changed:
            self._users.remove(threading.get_ident() if user is None else user)
            self._stop = None
            self._changed.notify_all()
        self._free_if_unused()

    @contextmanager
    def use(self) -> Iterator[ctypes.c_void_p]:
        pointer = self.enter()
        try:
            yield pointer
        finally:
            self.leave()

    def cancel(self) -> None:
        with self._changed:
            if self._pointer and self._interrupt:
                self._interrupt(self._pointer)

    def drop(self) -> None:
        """Refuses new calls, stops those under way, and frees the pointer after the last."""
        if self._process != os.getpid():
            return
        with self._changed:
            self._closing = True
            self.cancel()
            if self._stop:
                self._stop()
        self._free_if_unused()

    def close(self) -> None:
        """The same, and waits until it has happened."""
        if self._process == os.getpid():
            with self._changed:
                if threading.get_ident() in self._users:
                    raise native.error(ARGUMENT, f"a callback cannot close its own {self._what}")
        while True:
            self.drop()
            with self._changed:
                if not self._users or self._process != os.getpid():
                    return
                # Again: a call that was about to begin has not seen the cancellation.
                self._changed.wait(0.05)

    def _given(self) -> ctypes.c_void_p:
        if self._pointer is None or self._closing:
            raise native.error(ARGUMENT, f"the {self._what} is closed")
        return self._pointer

    def _free_if_unused(self) -> None:
        with self._changed:
            if not self._closing or self._users:
                return
            pointer, self._pointer = self._pointer, None
        if pointer:
            self._free(pointer)


class Raised:
    """Keeps an exception of a callback until the call that it cancelled has returned."""

    def __init__(self) -> None:
        self._exception: BaseException | None = None

    def guard(self, function: Callable[[], object]) -> int:
        """Calls the function; 1 cancels."""
        try:
            return 1 if function() else 0
        except BaseException as exception:  # KeyboardInterrupt, too
            self._exception = exception
            return 1

    def check(self, result: int) -> int:
        """The result of a call, unless it failed or a callback raised an exception."""
        exception, self._exception = self._exception, None
        if exception:
            raise exception
        return native.check(result)

    def progress(self, function: Progress | None) -> Any:
        """A callback for the library. Without a function it only lets Ctrl-C in."""

        def call(user: object, stage: bytes, done: int, total: int) -> int:
            return self.guard(lambda: function and function(stage.decode(), done, total))

        return native.PROGRESS_FN(call)


def convert(kind: Any, struct: ctypes.Structure, **given: object) -> Any:
    """A dataclass from the structure's fields of the same names, as far as they are not given."""
    values: dict[str, object] = {}
    for name in kind.__dataclass_fields__:
        value = given[name] if name in given else getattr(struct, name)
        values[name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return kind(**values)


def measured(call: Callable[[Any, int], Any], element: Any) -> Any:
    """The array of a call that writes up to `cap` elements and returns how many there are."""
    count = native.check(call(None, 0))
    array = (element * count)()
    native.check(call(array, count))
    return array
