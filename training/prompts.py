"""How texts begin, as token ids: ids.json in the work folder. This step alone needs the program
`riffle`, for its tokenizer, and no GPU. The chat template tells what stands before a question,
between question and answer, and after an answer; no template is known by name."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Callable

from gguf import GGUFReader
from target import Refused, fields

QUESTION, ANSWER, NEXT = "\u27eaquestion\u27eb", "\u27eaanswer\u27eb", "\u27eanext\u27eb"

CONTROL = 3  # in tokenizer.ggml.token_type
HELPER = "You are a helpful assistant."
TOPICS = """writing and rewriting texts; role play; logical reasoning; mathematics word problems;
Python programming; C and C++ programming; JavaScript and web pages; SQL and data; extracting facts
from a text; natural sciences; history and the humanities; translation between languages;
summarising an article; answering a question from a passage that the user quotes; general knowledge;
business e-mails; travel and cooking; explaining code; debugging programs; algorithms and data
structures; classes and object oriented design in Python; health and sports; law and politics; shell
scripts and Linux; creative stories and poems; planning and to-do lists; machine learning;
geography; biology and chemistry; comparing two things; step by step instructions; definitions of
terms; economics and money; philosophy and ethics; probability and statistics; physics problems; a
role that the assistant shall play; evaluating and grading texts; Java and Go programs; regular
expressions and text processing; unit tests; functions with a docstring and type hints to complete;
JSON and configuration files; personal advice""".replace("\n", " ").split("; ")
STARTS = [
    "Write", "Explain", "What is", "How do I", "Why", "Translate", "Summarize", "Who", "Give me",
    "Describe", "Can you", "Solve", "List", "Compare", "Imagine", "Please", "I have", "If",
    "Complete this Python function:\n\n", "Complete this Python function:\n\ndef ",
    "Complete this Python function:\n\nfrom typing import List\n\n\ndef ",
    "Implement the following class in Python:\n\n", "Fix the bug in this code:\n\n```",
    "Read the passage and answer the question.\n\n", "Act as", "A farmer has", "Design"
]


class Template:
    """A chat template, rendered as Hugging Face's transformers do."""

    def __init__(self, source: str, bos: str, eos: str):
        import jinja2
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        def refuse(message: str) -> None:
            raise jinja2.TemplateError(message)

        env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                            extensions=["jinja2.ext.loopcontrols"])
        env.globals.update(raise_exception=refuse, strftime_now=lambda form: "1 January 2025")
        env.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
        self.template, self.error = env.from_string(source), jinja2.TemplateError
        self.names = {"bos_token": bos, "eos_token": eos}

    def render(self, system: str | None, *turns: str, ask: bool = False) -> str:
        messages = [{"role": "system", "content": system}] if system is not None else []
        for i, text in enumerate(turns):
            messages.append({"role": ("user", "assistant")[i % 2], "content": text})
        return self.template.render(messages=messages, add_generation_prompt=ask, tools=None,
                                    **self.names)

    def header(self, system: str | None) -> str | None:
        """What stands before a question; None if the template has no place for instructions."""
        try:
            before, found, _ = self.render(system, QUESTION).partition(QUESTION)
        except self.error:
            return None
        return before if found and (not system or system in before) else None

    def between(self) -> tuple[str, str]:
        """What follows a question, up to the answer, and what follows an answer, up to a
        question."""
        answering = self.render(None, QUESTION, ask=True).partition(QUESTION)[2]
        text = self.render(None, QUESTION, ANSWER, NEXT)
        return answering, text.partition(ANSWER)[2].partition(NEXT)[0]


class Tokenizer:
    """Ids by `riffle tokenize`, without BOS. One call takes all texts, joined by a special token
    that none of them has."""

    def __init__(self, riffle: str, model: str, control: list[str]):
        self.riffle, self.model, self.control = riffle, model, control

    def ids(self, text: str) -> list[int]:
        command = [self.riffle, "tokenize", self.model, "--special", "--json", "--no-bos"]
        try:
            done = subprocess.run(command, input=text.encode(), capture_output=True)
        except OSError as error:
            raise Refused(f"{self.riffle}: {error.strerror} (name the program with --riffle)")
        if done.returncode:
            raise Refused(done.stderr.decode().strip())
        return json.loads(done.stdout)["tokens"]

    def separator(self, texts: list[str]) -> tuple[str, int] | None:
        """A special token that no text has, and its id."""
        for piece in self.control:
            if not any(piece in text for text in texts):
                found = self.ids(piece)
                if len(found) == 1:
                    return piece, found[0]
        return None

    def all(self, texts: list[str]) -> list[list[int]]:
        chosen = self.separator(texts) if len(texts) > 2 else None
        if chosen is not None:
            lists: list[list[int]] = [[]]
            for i in self.ids(chosen[0].join(texts)):
                if i == chosen[1]:
                    lists.append([])
                else:
                    lists[-1].append(i)
            # Some vocabularies treat the input's beginning unlike what follows a special token.
            if len(lists) == len(texts) and lists[-1] == self.ids(texts[-1]):
                return lists
        return [self.ids(text) for text in texts]


def read_questions(path: str) -> dict[str, list[str]]:
    """Questions by set, from a file of JSON lines: "prompt" or "text", or the first of "turns"."""
    sets: dict[str, list[str]] = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                text = row.get("prompt") or row.get("text") or row["turns"][0]
            except (ValueError, AttributeError, LookupError):
                raise Refused(f"{path}: line {number} has no prompt, text or turns")
            sets.setdefault(row.get("set", "questions"), []).append(text)
    return sets


def prepare(model: str, riffle: str, questions: str | None, held_out: str | None,
            say: Callable[[str], None]) -> dict[str, Any]:
    """The contents of ids.json:

    headers    beginnings after which the model writes a question
    questions  whole beginnings after which it answers
    turns      ids after a question, and after an answer, that begin the next part
    ends       ids that end a part
    chat       false: no template, so that each text is one part
    eval       beginnings to measure on, by set
    """
    reader = GGUFReader(model)
    keys = fields(reader)
    bos, eos = (keys.get(f"tokenizer.ggml.{n}_token_id") for n in ("bos", "eos"))
    pieces, control = vocabulary_of(reader)
    ends = {
        keys.get(f"tokenizer.ggml.{n}_token_id", -1)
        for n in ("eos", "eot", "eom", "bos", "padding")
    }
    ends = {i for i in ends if 0 <= i < len(pieces)}
    tokenizer, source = Tokenizer(riffle, model, control), keys.get("tokenizer.chat_template")
    asked = sum(read_questions(questions).values(), []) if questions else []
    measured = read_questions(held_out) if held_out else {}
    overlap = {t.strip() for t in asked} & {t.strip() for ts in measured.values() for t in ts}
    asked = [t for t in asked if t.strip() not in overlap]
    if source is None:
        if bos is None:
            raise Refused(
                f"{model}: it has neither a chat template nor a BOS token to begin texts with")
        say("no chat template: texts begin with BOS, and go on freely")
        begun = lambda texts: [[bos] + ids for ids in tokenizer.all(texts)]  # noqa: E731
        return {
            "chat": False, "vocabulary": len(pieces), "headers": [[bos]], "turns": [[bos], [bos]],
            "ends": sorted(ends), "questions": begun(asked),
            "eval": {name: begun(texts) for name, texts in measured.items()}
        }
    name = lambda i: pieces[i] if i is not None and i < len(pieces) else ""  # noqa: E731
    template = Template(source, name(bos), name(eos))
    answering, asking = template.between()
    plain = template.header(None)
    if plain is None or not answering or not asking:
        raise Refused(f"{model}: its chat template renders no plain conversation")
    systems = [HELPER] * (len(TOPICS) // 2)
    systems += [f"{HELPER} The user asks about {t}." for t in TOPICS] * 2
    headers = [plain] * len(TOPICS) + [h for h in map(template.header, systems) if h is not None]
    headers += [(template.header(HELPER) or plain) + s for s in STARTS]
    headers += [plain + s for s in STARTS]
    distinct = sorted(set(headers))
    say(f"tokenizing {len(distinct)} beginnings, {len(asked)} questions to train with and "
        f"{sum(map(len, measured.values()))} to measure on")
    by_text = dict(zip(distinct, tokenizer.all(distinct)))
    whole = lambda texts: tokenizer.all([plain + t + answering for t in texts])  # noqa: E731
    turns = tokenizer.all([answering, asking])
    return {
        "chat": True, "vocabulary": len(pieces), "headers": [by_text[h] for h in headers],
        "turns": turns, "ends": sorted(ends | {turns[0][0], turns[1][0]}),
        "questions": whole(asked), "eval": {name: whole(texts) for name, texts in measured.items()}
    }


def vocabulary_of(reader: GGUFReader) -> tuple[list[str], list[str]]:
    """All tokens, and those of control."""
    pieces = reader.fields["tokenizer.ggml.tokens"].contents()
    kinds = reader.fields["tokenizer.ggml.token_type"].contents()
    return pieces, [piece for piece, kind in zip(pieces, kinds) if kind == CONTROL]
