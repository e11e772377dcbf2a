"""Grammars, which limit the text of answers."""

from __future__ import annotations

import ctypes
import json
from typing import Any, Mapping

from . import _native as native
from ._handle import Handle
from ._model import Model
from ._native import lib


class Grammar:
    """A GBNF grammar, or a JSON schema: its text, or the object. Any number of sessions and threads
    may use it."""

    def __init__(
        self,
        model: Model,
        gbnf: str | None = None,
        *,
        json_schema: str | bool | Mapping[str, Any] | None = None,
    ) -> None:
        if (gbnf is None) == (json_schema is None):
            raise native.error(-1, "a grammar is either gbnf or json_schema")
        kind = native.GRAMMAR_GBNF if gbnf is not None else native.GRAMMAR_JSON_SCHEMA
        source = gbnf if gbnf is not None else json_schema
        text = (source if isinstance(source, str) else json.dumps(source)).encode()
        pointer = native.GRAMMAR()
        user = object()
        opened = model._handle.enter(user)

        def free(grammar: ctypes.c_void_p) -> None:
            lib.riffle_grammar_free(grammar)
            model._grammars.discard(handle)
            model._handle.leave(user)

        try:
            native.check(
                lib.riffle_grammar_new(ctypes.byref(pointer), opened, kind, text, len(text))
            )
        except BaseException:
            model._handle.leave(user)
            raise
        handle = Handle("grammar", pointer, free)
        model._grammars.add(handle)
        self.model = model
        self._handle = handle

    def close(self) -> None:
        """Waits for generations that use it."""
        self._handle.close()

    def __enter__(self) -> Grammar:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_handle"):  # it was compiled
            self._handle.drop()
