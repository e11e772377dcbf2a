"""A generation as an iterator.

riffle_generate calls back and returns at the end, so it runs in a thread of its own. That thread
waits in its callback until the next piece is asked for: the session never is ahead of the reader.
"""

from __future__ import annotations

import atexit
import ctypes
import enum
import os
import queue
import threading
from contextlib import nullcontext
import weakref
from typing import Any, Iterator

from . import _native as native
from ._handle import Handle
from ._native import lib


class Finish(enum.Enum):
    """Why a generation ended."""

    NONE = native.FINISH_NONE
    STOP = native.FINISH_STOP  #: an end-of-text token or a stop text
    LENGTH = native.FINISH_LENGTH  #: max_tokens, or the context is full
    CANCELLED = native.FINISH_CANCELLED  #: Session.cancel(), or the stream was closed
    REPETITION = native.FINISH_REPETITION  #: the answer only repeated itself


def last_finish(session: ctypes.c_void_p) -> tuple[Finish, str]:
    sentence = ctypes.c_char_p()
    why = lib.riffle_session_finish(session, ctypes.byref(sentence))
    return Finish(why), (sentence.value or b"").decode(errors="replace")


class _Work:
    """What the thread and the reader share. It does not refer to the stream, so that a stream that
    nobody reads any more is collected, and thereby closed."""

    def __init__(
        self, handle: Handle, options: native.GenerateOptions, grammar: Handle | None
    ) -> None:
        self.handle = handle
        self.options = options
        self.grammar = grammar
        self.tokens: list[int] = []
        self.finish = Finish.NONE
        self.sentence = ""
        self.closing = False
        self.items: queue.SimpleQueue[str | None | BaseException] = queue.SimpleQueue()
        self.turn = threading.Semaphore(0)

    def on_event(self, user: object, pointer: Any) -> int:
        try:
            event = pointer.contents
            if event.token >= 0:
                self.tokens.append(event.token)
            if event.text_bytes and not self.closing:
                self.items.put(ctypes.string_at(event.text, event.text_bytes).decode())
                self.turn.acquire()
        except BaseException as exception:
            self.items.put(exception)
            return 1
        return 1 if self.closing else 0

    def run(self, session: ctypes.c_void_p) -> None:
        end: BaseException | None = None
        try:
            call = native.EVENT_FN(self.on_event)
            with self.grammar.use() if self.grammar else nullcontext() as self.options.grammar:
                native.check(lib.riffle_generate(session, self.options, call, None))
            self.finish, self.sentence = last_finish(session)
        except BaseException as exception:
            end = exception
        self.handle.leave(self)
        self.items.put(end)

    def stop(self) -> None:
        """Lets the callback return, and end the generation."""
        self.closing = True
        self.turn.release()


class Stream(Iterator[str]):
    """Pieces of text as they are generated. It begins with the first piece that is asked for.

    Leaving a `for` loop early, close() and Ctrl-C end the generation after the piece read last; the
    session can be used at once. next() alone leaves the stream open. While it is open, no other
    call may use its session.
    """

    def __init__(
        self,
        session: object,
        handle: Handle,
        options: native.GenerateOptions,
        grammar: Handle | None = None,
    ) -> None:
        self._session = session  # stays open while this is read
        self._handle = handle
        self._work = _Work(handle, options, grammar)
        self._thread: threading.Thread | None = None
        self._ended = False
        self._process = os.getpid()

    def __iter__(self) -> Iterator[str]:
        return _Pieces(self)

    def __next__(self) -> str:
        if self._ended:
            raise StopIteration
        try:
            if self._thread is None:
                self._start()
            else:
                self._work.turn.release()
            item = self._work.items.get()
        except BaseException:
            self.close()
            raise
        if isinstance(item, str):
            return item
        self._ended = True
        if item is not None:
            raise item
        raise StopIteration

    def _start(self) -> None:
        work = self._work
        session = self._handle.enter(work, work.stop)
        thread = threading.Thread(target=work.run, args=(session,), name="riffle", daemon=True)
        try:
            thread.start()
        except BaseException:
            self._handle.leave(work)
            raise
        self._thread = thread
        _open.add(self)

    def close(self) -> None:
        """Ends the generation. Further reading gives nothing."""
        self._ended = True
        work, thread = self._work, self._thread
        if thread is None or self._process != os.getpid():
            return
        if thread.is_alive():
            self._handle.cancel()
        work.stop()
        # The collector may run in any thread, also in ours.
        if thread is not threading.current_thread():
            thread.join()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            self.close()

    def read(self) -> str:
        """All text that is left."""
        return "".join(self)

    @property
    def tokens(self) -> list[int]:
        """The tokens generated so far."""
        return list(self._work.tokens)

    @property
    def finish(self) -> Finish:
        """Why the generation ended; Finish.NONE before its end."""
        return self._work.finish

    @property
    def sentence(self) -> str:
        """Explains `finish` to people; it may be empty."""
        return self._work.sentence


class _Pieces(Iterator[str]):
    """A loop's hold on a stream. Python drops it when the loop is left, which closes the stream
    even if a variable refers to that."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __next__(self) -> str:
        return next(self._stream)

    def __del__(self) -> None:
        self._stream.close()


# The interpreter must not end while threads are in callbacks.
_open: weakref.WeakSet[Stream] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for stream in list(_open):
        stream.close()
