"""Sessions: a text with what the model has computed of it."""

from __future__ import annotations

import ctypes
import os
from array import array
from dataclasses import dataclass, fields
from typing import Any, Iterable, Mapping, Sequence

from . import _native as native
from ._async import AsyncStream
from ._grammar import Grammar
from ._handle import Handle, Progress, Raised, convert
from ._model import MessageLike, Model, Sampling, conversation, session_options, token_array
from ._native import lib
from ._stream import Finish, Stream, last_finish


@dataclass(frozen=True)
class LevelStats:
    name: str
    passes: int
    drafted: int
    accepted: int
    seconds: float
    judged_at: tuple[int, ...]
    accepted_at: tuple[int, ...]
    threads: int


@dataclass(frozen=True)
class Stats:
    """Sums since the session was opened or reset_stats() was called; riffle_stats."""

    prefill_tokens: int
    generated_tokens: int
    prefill_seconds: float
    decode_seconds: float
    threads: int
    chain: str
    levels: tuple[LevelStats, ...]


def _level_stats(stats: native.Stats, i: int) -> LevelStats:
    level = stats.levels[i]
    found: LevelStats = convert(
        LevelStats,
        level,
        judged_at=tuple(level.judged_at),
        accepted_at=tuple(level.accepted_at),
        threads=stats.level_threads[i],
    )
    return found


class Session:
    """A text that a model continues. One thread at a time may use it; cancel() may come from any.

    Options that are None have the defaults of riffle.h. `progress` is called with (stage, done,
    total) while long prompts are read.
    """

    def __init__(
        self,
        model: Model,
        *,
        n_ctx: int = 0,
        threads: int = 0,
        kv: str | None = None,
        chain: str | None = None,
        gamma: int = 0,
        min_confidence: float = 0.0,
        cores: str | None = None,
        sampling: Sampling | None = None,
        progress: Progress | None = None,
    ) -> None:
        options = session_options(n_ctx, kv)
        self._raised = Raised()
        self._progress = self._raised.progress(progress)
        options.progress = self._progress
        options.threads = threads
        options.gamma = gamma
        options.min_confidence = min_confidence
        for name, value in (("chain", chain), ("cores", cores)):
            if value is not None:
                setattr(options, name, native.text(value, name))
        pointer = native.SESSION()
        with model._handle.use() as opened:
            native.check(lib.riffle_session_open(ctypes.byref(pointer), opened, options))
            self._adopt(model, pointer)
        if sampling is not None:
            self.set_sampling(sampling)

    def _adopt(self, model: Model, pointer: ctypes.c_void_p) -> None:
        """Makes this the owner of a C session, for whose life the model stays open."""
        user = object()
        model._handle.enter(user)

        def free(session: ctypes.c_void_p) -> None:
            lib.riffle_session_close(session)
            model._sessions.discard(handle)
            model._handle.leave(user)

        handle = Handle("session", pointer, free, lib.riffle_cancel)
        model._sessions.add(handle)
        self.model = model
        self._handle = handle

    def close(self) -> None:
        """Closes the session. Its calls in other threads and its open stream are cancelled."""
        self._handle.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_handle"):  # it was opened
            self._handle.drop()

    @property
    def n_ctx(self) -> int:
        """The capacity in tokens."""
        with self._handle.use() as session:
            return int(lib.riffle_session_n_ctx(session))

    @property
    def tokens(self) -> list[int]:
        """The committed tokens."""
        pointer = native.TOKENS()
        with self._handle.use() as session:
            n = lib.riffle_session_tokens(session, ctypes.byref(pointer))
            return pointer[:n]

    def prefill(self, prompt: str | Sequence[int]) -> int:
        """Appends a text or tokens and reads them. Returns how many. A text at the beginning of a
        session gets the model's BOS token."""
        if isinstance(prompt, str):
            prompt = self.model.tokenize(prompt, bos=not self.tokens)
        ids = token_array(prompt)
        with self._handle.use() as session:
            self._raised.check(lib.riffle_prefill(session, ids, len(ids)))
        return len(ids)

    def chat_prefill(
        self,
        messages: Iterable[MessageLike],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> int:
        """Makes the session hold a conversation, ready for the assistant's answer. Returns how many
        tokens had to be read. The options are those of Model.chat_format."""
        document = conversation(messages, tools, variables)
        with self._handle.use() as session:
            return self._raised.check(
                lib.riffle_chat_prefill_json(session, document, len(document))
            )

    def set_sampling(self, sampling: Sampling) -> None:
        """Applies from the next token on."""
        options = native.Sampling()
        lib.riffle_sampling_init(options, ctypes.sizeof(options))
        for field in fields(Sampling):
            setattr(options, field.name, getattr(sampling, field.name))
        with self._handle.use() as session:
            native.check(lib.riffle_session_set_sampling(session, options))

    def generate(
        self,
        prompt: str | Sequence[int] | None = None,
        *,
        max_tokens: int = 0,
        stop: Sequence[str] = (),
        ignore_eos: bool = False,
        ignore_repetition: bool = False,
        grammar: Grammar | None = None,
    ) -> Stream:
        """Reads the prompt, if there is one. Returns an iterator over the text that follows.

        `stop`: texts that end the answer and are not part of it. max_tokens 0: until the model ends
        its answer, only repeats itself, or the context is full. `grammar`: the whole answer is a
        text of it.
        """
        if isinstance(stop, str):
            raise native.error(-1, "stop is a text; it has to be a list of texts")
        if prompt is not None:
            self.prefill(prompt)
        options = native.GenerateOptions()
        lib.riffle_generate_options_init(options, ctypes.sizeof(options))
        options.max_tokens = max_tokens
        options.ignore_eos = ignore_eos
        options.ignore_repetition = ignore_repetition
        texts = [native.text(text, "stop") for text in stop]
        options.stop = (ctypes.c_char_p * len(texts))(*texts)
        options.n_stop = len(texts)
        return Stream(self, self._handle, options, grammar._handle if grammar else None)

    def chat(
        self,
        messages: Iterable[MessageLike],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        max_tokens: int = 0,
        stop: Sequence[str] = (),
        ignore_eos: bool = False,
        ignore_repetition: bool = False,
        grammar: Grammar | None = None,
    ) -> Stream:
        """Reads what is new of a conversation. Returns an iterator over the assistant's answer."""
        self.chat_prefill(messages, tools=tools, variables=variables)
        return self.generate(
            max_tokens=max_tokens,
            stop=stop,
            ignore_eos=ignore_eos,
            ignore_repetition=ignore_repetition,
            grammar=grammar,
        )

    def generate_async(
        self, prompt: str | Sequence[int] | None = None, **options: Any
    ) -> AsyncStream:
        """generate() for asyncio, with the same options: an asynchronous iterator. The prompt is
        read when the first piece is asked for. A cancelled task ends the generation."""
        return AsyncStream(lambda: self.generate(prompt, **options), self.cancel)

    def chat_async(self, messages: Iterable[MessageLike], **options: Any) -> AsyncStream:
        """chat() for asyncio, as generate_async()."""
        return AsyncStream(lambda: self.chat(messages, **options), self.cancel)

    def step(self, most: int = native.MAX_DRAFT + 1) -> list[int]:
        """Generates between 1 and `most` tokens, for loops of one's own."""
        if most < 1:
            raise native.error(-1, f"most {most} is less than 1")
        room = (ctypes.c_int32 * most)()
        with self._handle.use() as session:
            return room[: native.check(lib.riffle_step(session, room, most))]

    def finish(self) -> tuple[Finish, str]:
        """Why the last generation ended, and a sentence that explains it, perhaps empty."""
        with self._handle.use() as session:
            return last_finish(session)

    def cancel(self) -> None:
        """Stops the current prefill or generation, from any thread."""
        self._handle.cancel()

    def rewind(self, n_tokens: int) -> None:
        """Drops all tokens after the first n_tokens."""
        with self._handle.use() as session:
            native.check(lib.riffle_rewind(session, n_tokens))

    def fork(self) -> Session:
        """An independent copy, which shares memory and threads with this session."""
        copy = Session.__new__(Session)
        copy._raised, copy._progress = self._raised, self._progress
        pointer = native.SESSION()
        with self._handle.use() as session:
            native.check(lib.riffle_fork(ctypes.byref(pointer), session))
            copy._adopt(self.model, pointer)
        return copy

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes tokens and KV cache to a file."""
        with self._handle.use() as session:
            native.check(lib.riffle_state_save(session, native.path(path)))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Replaces the session's content by a saved one of the same model."""
        with self._handle.use() as session:
            native.check(lib.riffle_state_load(session, native.path(path)))

    def logits(self) -> array[float]:
        """The logits of the next token: an array("f") of n_vocab values."""
        found = array("f", bytes(4 * self.model.info.n_vocab))
        room = (ctypes.c_float * len(found)).from_buffer(found)
        with self._handle.use() as session:
            native.check(lib.riffle_logits(session, room, len(found)))
        return found

    def score(self, tokens: Sequence[int], first: int | None = None) -> list[float]:
        """Appends tokens and returns log p(token | all before it) of those from index `first` on;
        by default 0, or 1 in an empty session, where nothing is before the first token."""
        ids = token_array(tokens)
        if first is None:
            first = 0 if self.tokens else min(1, len(ids))
        room = (ctypes.c_double * max(0, len(ids) - first))()
        with self._handle.use() as session:
            native.check(lib.riffle_score(session, ids, len(ids), first, room))
        return list(room)

    @property
    def stats(self) -> Stats:
        found = native.Stats()
        with self._handle.use() as session:
            native.check(lib.riffle_session_get_stats(session, found, ctypes.sizeof(found)))
        levels = tuple(_level_stats(found, i) for i in range(found.n_levels))
        stats: Stats = convert(Stats, found, levels=levels)
        return stats

    def reset_stats(self) -> None:
        with self._handle.use() as session:
            lib.riffle_session_reset_stats(session)
