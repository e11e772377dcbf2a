"""Models: files opened for use by sessions, and their text."""

from __future__ import annotations

import ctypes
import json
import os
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping, Sequence

from . import _native as native
from ._folder import find_path, heads_folder
from ._handle import Handle, Progress, Raised, convert, measured
from ._native import lib


@dataclass(frozen=True)
class Message:
    role: str  #: "system", "user" or "assistant"
    content: str


#: A message; its role and content; or a mapping as transformers and OpenAI have it, with "role",
#: "content" (a text, or a list of {"type": "text", "text": ...}), and maybe "tool_calls",
#: "tool_call_id", "reasoning_content" and others that the model's chat template knows.
MessageLike = Message | Mapping[str, Any] | tuple[str, str]


@dataclass(frozen=True)
class ModelInfo:
    """What is in a file and what it costs; the fields of riffle_model_info."""

    name: str
    architecture: str
    container: str
    stored_types: str
    weights: str
    weights_note: str
    tokenizer: str
    chat_template: str
    n_params: int
    file_bytes: int
    weight_bytes: int
    mapped_bytes: int
    resident_bytes: int
    kv_bytes_per_token: int
    chain: str
    chain_note: str
    draft_bytes: int
    n_layer: int
    n_embd: int
    n_head: int
    n_head_kv: int
    head_dim: int
    n_ff: int
    n_vocab: int
    n_ctx_train: int
    bos_token: int
    eos_token: int
    adds_bos: bool
    rope_theta: float
    weights_reason: str
    activations_reason: str
    activation_bits: int
    device: str
    device_note: str
    n_expert: int
    n_expert_used: int
    experts_note: str
    device_layers: int
    layers_note: str
    file_type: str
    head: str
    head_recipe: str
    head_bytes: int


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen; the fields of riffle_sampling. The default is greedy."""

    temperature: float = 0.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    seed: int = 0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0


@dataclass(frozen=True)
class SessionCost:
    """What Model.session_cost() found."""

    n_ctx: int  #: the capacity in tokens
    kv_bytes: int  #: bytes of the KV cache when it is full


def session_options(n_ctx: int, kv: str | None) -> native.SessionOptions:
    options = native.SessionOptions()
    lib.riffle_session_options_init(options, ctypes.sizeof(options))
    options.n_ctx = n_ctx
    if kv is not None:
        options.kv = native.text(kv, "kv")
    return options


def _content(content: Any) -> str:
    """One text of a message's content, which may have parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    for part in content:
        if part["type"] != "text":
            raise ValueError(f"a part of its content is of type {part['type']}, not text")
    return "".join(part["text"] for part in content)


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call whose arguments are an object, which templates write as JSON themselves."""
    function = dict(call.get("function", call))
    if isinstance(function.get("arguments"), str):
        try:
            function["arguments"] = json.loads(function["arguments"])
        except ValueError:
            pass  # a model's mistake: the template gets it as it is
    return {**call, "function": function} if "function" in call else function


def _message(message: MessageLike) -> dict[str, Any]:
    if isinstance(message, Message):
        message = (message.role, message.content)
    if not isinstance(message, Mapping):
        role, content = message
        message = {"role": role, "content": content}
    calls = message.get("tool_calls")
    content = _content(message.get("content") if calls else message["content"])
    made = {**message, "role": message["role"], "content": content}
    native.text(made["role"], "role")
    native.text(made["content"], "content")
    if calls:
        made["tool_calls"] = [_call(call) for call in calls]
    return made


def conversation(
    messages: Iterable[MessageLike],
    tools: Sequence[Mapping[str, Any]] | None,
    variables: Mapping[str, Any] | None,
) -> bytes:
    """The JSON of a conversation, for riffle_chat_*_json."""
    made: list[dict[str, Any]] = []
    for message in messages:
        try:
            made.append(_message(message))
        except KeyError as missing:
            raise native.error(-1, f"message {len(made)} has no {missing}") from None
        except (TypeError, AttributeError, ValueError) as wrong:
            raise native.error(-1, f"message {len(made)}: {wrong}") from None
    document: dict[str, Any] = {**(variables or {}), "messages": made}
    if tools:
        document["tools"] = list(tools)
    try:
        return json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as wrong:
        raise native.error(-1, f"the conversation cannot be JSON: {wrong}") from None


def token_array(tokens: Sequence[int]) -> ctypes.Array[ctypes.c_int32]:
    for i, token in enumerate(tokens):
        if not 0 <= token < 1 << 31:
            raise native.error(-1, f"token {token} at index {i} is not a token id")
    return (ctypes.c_int32 * len(tokens))(*tokens)


class Model:
    """An open model. Any number of threads and sessions may share it.

    `path` is a .gguf file, a folder with safetensors, or the name of a model that `riffle pull` has
    fetched ("smollm2-135m"). Options that are None have the defaults of
    riffle.h, which describes all of them. `header_only` and `copy` are its RIFFLE_OPEN_HEADER and
    _COPY. `progress` is called with (stage, done, total).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        weights: str | None = None,
        activations: str | None = None,
        device: str | None = None,
        gpu_layers: int | str | None = None,
        session_kv: str | None = None,
        session_ctx: int = 0,
        chat_template: str | None = None,
        chain: str | None = None,
        draft: str | os.PathLike[str] | None = None,
        head: str | os.PathLike[str] | None = None,
        head_folder: str | os.PathLike[str] | None = None,
        find_model: Callable[[str], str | None] | None = None,
        cache_folder: str | os.PathLike[str] | None = None,
        cores: str | None = None,
        threads: int = 0,
        header_only: bool = False,
        copy: bool = False,
        metadata_bytes: int = 0,
        metadata_items: int = 0,
        corpus: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        options = native.ModelOptions()
        lib.riffle_model_options_init(options, ctypes.sizeof(options))
        raised = Raised()
        options.flags = (
            (native.OPEN_HEADER if header_only else 0)
            | (native.OPEN_COPY if copy else 0)
        )
        options.threads = threads
        options.session_ctx = session_ctx
        options.metadata_bytes = metadata_bytes
        options.metadata_items = metadata_items
        options.progress = raised.progress(progress)
        for name, value in (
            ("weights", weights),
            ("activations", activations),
            ("device", device),
            ("gpu_layers", None if gpu_layers is None else str(gpu_layers)),
            ("session_kv", session_kv),
            ("chat_template", chat_template),
            ("chain", chain),
            ("cores", cores),
        ):
            if value is not None:
                setattr(options, name, native.text(value, name))
        if draft is not None:
            options.draft = native.path(draft)
        if head is not None:
            options.head = native.path(head)
        heads = head_folder or heads_folder()
        if heads is not None:
            options.head_folder = native.path(heads)
        if corpus is not None:
            options.corpus = native.path(corpus)
        if cache_folder is not None:
            options.cache_folder = native.path(cache_folder)

        def find(user: object, name: bytes, room: ctypes._Pointer[ctypes.c_char], cap: int) -> int:
            def answer() -> bool:
                found = find_model(name.decode()) if find_model else None
                if found is None or len(native.path(found)) >= cap:
                    return True
                ctypes.memmove(room, native.path(found) + b"\0", len(native.path(found)) + 1)
                return False

            return raised.guard(answer)

        if find_model:
            options.find_model = native.FIND_MODEL_FN(find)
        pointer = native.MODEL()
        raised.check(lib.riffle_model_open(ctypes.byref(pointer), native.path(find_path(path)), options))
        self._handle = Handle("model", pointer, lib.riffle_model_close)
        self._sessions: set[Handle] = set()
        self._grammars: set[Handle] = set()

    def close(self) -> None:
        """Closes the model, and first its sessions. Their calls in other threads are cancelled."""
        for session in list(self._sessions):
            session.close()
        for grammar in list(self._grammars):
            grammar.close()
        self._handle.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_sessions"):  # it was opened
            for session in list(self._sessions):
                session.drop()
            self._handle.drop()

    @property
    def info(self) -> ModelInfo:
        found = native.ModelInfo()
        with self._handle.use() as model:
            native.check(lib.riffle_model_get_info(model, found, ctypes.sizeof(found)))
            info: ModelInfo = convert(ModelInfo, found, adds_bos=bool(found.adds_bos))
            return info

    def recommended_sampling(self, *, seed: int = 0) -> tuple[Sampling, str]:
        """What suits a chat with the model, as its file recommends, and where the values are from.
        Sessions are greedy until they get it."""
        found, source = native.Sampling(), ctypes.c_char_p()
        with self._handle.use() as model:
            native.check(
                lib.riffle_model_get_sampling(
                    model, found, ctypes.sizeof(found), ctypes.byref(source)
                )
            )
            sentence = (source.value or b"").decode(errors="replace")
        return convert(Sampling, found, seed=seed), sentence

    def session_cost(self, *, n_ctx: int = 0, kv: str | None = None) -> SessionCost:
        """What a session with these options takes, without opening one."""
        room, capacity = ctypes.c_uint64(), ctypes.c_int32()
        with self._handle.use() as model:
            native.check(
                lib.riffle_session_cost(
                    model, session_options(n_ctx, kv), ctypes.byref(capacity), ctypes.byref(room)
                )
            )
        return SessionCost(capacity.value, room.value)

    def tokenize(self, text: str, *, bos: bool = False, special: bool = False) -> list[int]:
        """The tokens of a text. `special` reads names of special tokens as these: not for content
        of users."""
        data = text.encode()
        flags = (native.TOKENIZE_BOS if bos else 0) | (native.TOKENIZE_SPECIAL if special else 0)
        with self._handle.use() as model:
            return list(
                measured(
                    lambda room, cap: lib.riffle_tokenize(model, data, len(data), flags, room, cap),
                    ctypes.c_int32,
                )
            )

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of texts, each of length 1, pooled as the model's file says."""
        encoded = [text.encode() for text in texts]
        given = (native.Text * len(encoded))(*(native.Text(data, len(data)) for data in encoded))
        with self._handle.use() as model:
            width = native.check(lib.riffle_embed(model, given, len(encoded), None, 0))
            if not encoded:
                return []
            room = (ctypes.c_float * (width * len(encoded)))()
            native.check(lib.riffle_embed(model, given, len(encoded), room, len(room)))
        return [list(room[i : i + width]) for i in range(0, len(room), width)]

    def detokenize_bytes(
        self, tokens: Sequence[int], *, special: bool = False, start: bool = False
    ) -> bytes:
        """The text of tokens, which may begin or end inside a character."""
        ids = token_array(tokens)
        flags = (native.DETOKENIZE_SPECIAL if special else 0) | (
            native.DETOKENIZE_START if start else 0
        )
        with self._handle.use() as model:
            return bytes(
                measured(
                    lambda room, cap: lib.riffle_detokenize(model, ids, len(ids), flags, room, cap),
                    ctypes.c_char,
                )
            )

    def detokenize(
        self, tokens: Sequence[int], *, special: bool = False, start: bool = False
    ) -> str:
        """The text of tokens; parts of characters become U+FFFD."""
        return self.detokenize_bytes(tokens, special=special, start=start).decode(errors="replace")

    def token_is_end(self, token: int) -> bool:
        """Whether the token ends an answer."""
        with self._handle.use() as model:
            return bool(lib.riffle_token_is_end(model, token))

    def answer_message(
        self,
        tokens: Sequence[int],
        *,
        prompt: Sequence[int] = (),
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """The message that an answer's tokens are: "role", "content", and, where there are any,
        "reasoning_content" and "tool_calls". `prompt`: the tokens before it, whose end may have
        opened a thought. `tools`: the functions that were offered. It goes into the conversation as
        it is: `messages.append(...)`."""
        ids = token_array([*prompt, *tokens])
        offered = json.dumps(list(tools)).encode() if tools else None
        with self._handle.use() as model:
            text = bytes(
                measured(
                    lambda room, cap: lib.riffle_answer_message(
                        model, ids, len(ids), len(prompt), offered, len(offered or b""), room, cap
                    ),
                    ctypes.c_char,
                )
            )
        message: dict[str, Any] = json.loads(text)
        return message

    def chat_format(
        self,
        messages: Iterable[MessageLike],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """A conversation in the model's chat template. `tools`: functions that are offered, as
        JSON schemas. `variables`: others of the template, like enable_thinking."""
        document = conversation(messages, tools, variables)
        with self._handle.use() as model:
            return bytes(
                measured(
                    lambda room, cap: lib.riffle_chat_format_json(
                        model, document, len(document), add_generation_prompt, room, cap
                    ),
                    ctypes.c_char,
                )
            ).decode(errors="replace")
