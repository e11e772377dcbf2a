"""A stream for asyncio.

Reading a prompt and waiting for a piece block, so they run in the event loop's worker threads. A
cancelled task cancels the call of the library and waits for its end: the session is free then.
"""

from __future__ import annotations

import asyncio
from typing import AsyncIterator, Callable, TypeVar

from ._stream import Finish, Stream

T = TypeVar("T")


class AsyncStream(AsyncIterator[str]):
    """Pieces of text as they are generated, for `async for`. The prompt is read when the first
    piece is asked for.

    Leaving the loop, aclose() and a cancelled task end the generation, as Stream says.
    """

    def __init__(self, begin: Callable[[], Stream], cancel: Callable[[], None]) -> None:
        self._begin = begin
        self._cancel = cancel
        self._stream: Stream | None = None
        self._ended = False

    def __aiter__(self) -> AsyncIterator[str]:
        return _AsyncPieces(self)

    async def __anext__(self) -> str:
        piece = None if self._ended else await self._in_thread(self._read)
        if piece is None:
            raise StopAsyncIteration
        return piece

    def _read(self) -> str | None:
        if self._stream is None:
            self._stream = self._begin()
        return next(self._stream, None)

    async def _in_thread(self, function: Callable[[], T]) -> T:
        call = asyncio.ensure_future(asyncio.to_thread(function))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            self._ended = True
            while not call.done():
                # Again: a call that was about to begin has not seen the cancellation.
                self._cancel()
                await asyncio.wait([call], timeout=0.02)
            call.exception()  # seen, whatever it is
            self.close()
            raise

    def close(self) -> None:
        """Ends the generation. Further reading gives nothing."""
        self._ended = True
        if self._stream is not None:
            self._stream.close()

    async def aclose(self) -> None:
        """close(), without blocking the event loop."""
        await self._in_thread(self.close)

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def read(self) -> str:
        """All text that is left."""
        return "".join([piece async for piece in self])

    @property
    def tokens(self) -> list[int]:
        """The tokens generated so far."""
        return self._stream.tokens if self._stream else []

    @property
    def finish(self) -> Finish:
        """Why the generation ended; Finish.NONE before its end."""
        return self._stream.finish if self._stream else Finish.NONE

    @property
    def sentence(self) -> str:
        """Explains `finish` to people; it may be empty."""
        return self._stream.sentence if self._stream else ""


class _AsyncPieces(AsyncIterator[str]):
    """A loop's hold on a stream; dropping it closes that."""

    def __init__(self, stream: AsyncStream) -> None:
        self._stream = stream

    async def __anext__(self) -> str:
        return await self._stream.__anext__()

    def __del__(self) -> None:
        self._stream.close()
