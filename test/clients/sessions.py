#!/usr/bin/env python3
"""Short sessions of real clients with a model that is worth asking: sessions.py RIFFLE MODEL [NAME...]. A client that is
not installed is skipped. Each session returns what it was told; all of it is greedy, and the same where the server drafts
(--chain auto) and where it does not (none). Exit status 1: a session failed, or its answers differ.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0,
          "maximum": 120}}, "required": ["name", "age"], "additionalProperties": False}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
ASK = "Who was Ada Lovelace? One sentence."
SESSIONS = {}


def session(*packages):
    def add(function):
        SESSIONS[function.__name__] = (function, packages)
        return function
    return add


# ---- an agent that edits a file by tools until its test passes ----

TOOLS = {"read_file": ("Reads a file.", {"path": "string"}), "write_file": ("Replaces a file's text.", {"path": "string", "text": "string"}),
         "run_test": ("Runs the test. Says what fails.", {})}
TASK = ("The file calc.py has a mistake, and its test fails. Read calc.py, write the whole mended file with write_file, then run the "
        "test with run_test. Repeat until the test passes, then say DONE.")
BROKEN = "def add(a, b):\n    return a - b\n"
TEST = "from calc import add\nassert add(2, 3) == 5, 'add(2, 3) is %d, not 5' % add(2, 3)\nprint('passed')\n"


def schema_of(members):
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in members.items()}, "required": list(members),
            "additionalProperties": False}


class Project:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        (self.folder / "calc.py").write_text(BROKEN)
        (self.folder / "test_calc.py").write_text(TEST)

    def passes(self):
        return self.use("run_test", {}).startswith("passed")

    def use(self, name, arguments):
        if name == "run_test":
            done = subprocess.run([sys.executable, "-B", "test_calc.py"], cwd=self.folder, capture_output=True, text=True, timeout=60)
            return "passed" if done.returncode == 0 else "failed: " + (done.stderr.strip().splitlines() or ["?"])[-1]
        path = self.folder / pathlib.Path(str(arguments.get("path"))).name
        if name == "read_file":
            return path.read_text() if path.exists() else "there is no such file"
        path.write_text(str(arguments.get("text")))
        return "written"


def agent(ask):
    """ask(conversation) -> (text, [(id, name, arguments)]); conversation: what was said, in no form."""
    project, said, log = Project(), [("user", TASK)], []
    for _ in range(12):
        text, calls = ask(said)
        log.append((text, [(name, arguments) for _, name, arguments in calls]))
        said.append(("assistant", text, calls))
        if not calls and project.passes():
            return log
        said += [("result", call[0], project.use(call[1], call[2])) for call in calls] or [("user", "Go on, by the tools.")]
    raise AssertionError("the agent did not mend the file: %r" % log)


@session("anthropic")
def agent_messages(url):
    import anthropic
    client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
    tools = [{"name": n, "description": d, "input_schema": schema_of(m)} for n, (d, m) in TOOLS.items()]

    def ask(said):
        messages = []
        for kind, *rest in said:
            if kind == "user":
                messages.append({"role": "user", "content": rest[0]})
            elif kind == "assistant":
                blocks = [{"type": "text", "text": rest[0]}] if rest[0] else []
                messages.append({"role": "assistant", "content": blocks + [
                    {"type": "tool_use", "id": i, "name": n, "input": a} for i, n, a in rest[1]]})
            else:
                messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": rest[0], "content": rest[1]}]})
        with client.messages.stream(model="local", max_tokens=400, messages=messages, tools=tools, extra_body={"temperature": 0}) as stream:
            reply = stream.get_final_message()
        return "".join(b.text for b in reply.content if b.type == "text"), [
            (b.id, b.name, b.input) for b in reply.content if b.type == "tool_use"]
    return agent(ask)


@session("openai")
def agent_responses(url):
    import openai
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    tools = [{"type": "function", "name": n, "description": d, "parameters": schema_of(m), "strict": True} for n, (d, m) in TOOLS.items()]

    def ask(said):
        items = []
        for kind, *rest in said:
            if kind == "user":
                items.append({"role": "user", "content": rest[0]})
            elif kind == "assistant":
                items += [{"role": "assistant", "content": rest[0]}] if rest[0] else []
                items += [{"type": "function_call", "call_id": i, "name": n, "arguments": json.dumps(a)} for i, n, a in rest[1]]
            else:
                items.append({"type": "function_call_output", "call_id": rest[0], "output": rest[1]})
        with client.responses.stream(model="local", input=items, tools=tools, temperature=0, max_output_tokens=400, store=False) as stream:
            reply = stream.until_done().get_final_response()
        return reply.output_text, [(o.call_id, o.name, json.loads(o.arguments)) for o in reply.output if o.type == "function_call"]
    return agent(ask)


# ---- packages ----

@session("openai", "pydantic")
def openai_package(url):
    import openai
    import pydantic

    class Person(pydantic.BaseModel):
        name: str
        age: int
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    model = client.models.list().data[0].id
    assert client.models.retrieve(model).id == model
    parsed = client.chat.completions.parse(model=model, messages=[{"role": "user", "content": "Name a person, in JSON."}],
                                           response_format=Person, temperature=0, max_tokens=80).choices[0].message.parsed
    text = client.responses.create(model=model, input=ASK, temperature=0, max_output_tokens=60).output_text
    shaped = client.responses.parse(model=model, input="Name a person, in JSON.", text_format=Person, temperature=0).output_parsed
    with client.chat.completions.stream(model=model, messages=[{"role": "user", "content": ASK}], temperature=0, max_tokens=40) as stream:
        streamed = stream.get_final_completion()
    assert streamed.system_fingerprint and text
    return [parsed.model_dump(), text, shaped.model_dump(), streamed.choices[0].message.content]


@session("anthropic")
def anthropic_package(url):
    import anthropic
    client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
    asked = {"model": "local", "messages": [{"role": "user", "content": ASK}]}
    extra = {"extra_body": {"temperature": 0}}
    counted = client.messages.count_tokens(**asked).input_tokens
    reply = client.messages.create(max_tokens=60, **asked, **extra)
    assert reply.usage.input_tokens + (reply.usage.cache_read_input_tokens or 0) == counted, (reply.usage, counted)
    with client.messages.stream(max_tokens=60, **asked, **extra) as stream:
        assert "".join(stream.text_stream) == reply.content[0].text
    called = client.messages.create(model="local", max_tokens=80, messages=[{"role": "user", "content": "What is the weather in Paris?"}],
                                    tools=[{"name": "weather", "description": "The weather of a city.", "input_schema": CITY}],
                                    tool_choice={"type": "any"}, **extra)
    assert called.stop_reason == "tool_use", called
    return [reply.content[0].text, called.content[-1].input]


@session("ollama")
def ollama_package(url):
    import ollama
    client = ollama.Client(host=url)
    model = client.list().models[0].model
    options = {"temperature": 0, "num_predict": 60}
    chat = client.chat(model, messages=[{"role": "user", "content": ASK}], options=options).message.content
    streamed = "".join(part.message.content for part in client.chat(model, messages=[{"role": "user", "content": ASK}], options=options, stream=True))
    assert streamed == chat
    shaped = client.generate(model, "Name a person, in JSON.", format=SCHEMA, options=options).response
    return [chat, json.loads(shaped), len(client.embed(model, ["a", "b"]).embeddings)]


@session("langchain_openai", "pydantic")
def langchain(url):
    import langchain_openai
    import pydantic

    class Person(pydantic.BaseModel):
        name: str
        age: int
    llm = langchain_openai.ChatOpenAI(base_url=url + "/v1", api_key="none", model="local", temperature=0, max_tokens=80, max_retries=0)
    tool = {"type": "function", "function": {"name": "weather", "description": "The weather of a city.", "parameters": CITY}}
    calls = llm.bind_tools([tool], tool_choice="required").invoke("What is the weather in Paris?").tool_calls
    streamed = "".join(part.content for part in llm.stream(ASK))
    person = llm.with_structured_output(Person).invoke("Name a person, in JSON.")
    assert streamed == llm.invoke(ASK).content and calls
    return [streamed, person.model_dump(), calls[0]["args"]]


@session("litellm")
def litellm_package(url):
    import litellm
    said = {"model": "openai/local", "api_base": url + "/v1", "api_key": "none", "temperature": 0, "max_tokens": 60,
            "messages": [{"role": "user", "content": ASK}]}
    whole = litellm.completion(**said).choices[0].message.content
    streamed = "".join(part.choices[0].delta.content or "" for part in litellm.completion(stream=True, **said))
    other = litellm.completion(**dict(said, model="anthropic/local", api_base=url)).choices[0].message.content
    assert streamed == whole == other, (whole, streamed, other)
    return whole


@session("outlines", "openai")
def outlines_package(url):
    import openai
    import outlines
    model = outlines.from_vllm(openai.OpenAI(base_url=url + "/v1", api_key="none"), "local")
    number = model("How old is Bob? Two digits:", outlines.types.Regex("[0-9]{2}"), temperature=0, max_tokens=8)
    word = model("Is the sky blue? yes or no:", outlines.types.Choice(["yes", "no"]), temperature=0, max_tokens=8)
    person = model("Name a person, in JSON.", outlines.types.JsonSchema(json.dumps(SCHEMA)), temperature=0, max_tokens=80)
    assert number.isdigit() and word in ("yes", "no")
    return [number, word, json.loads(person)]


LM_TASK = """task: toy
dataset_path: json
dataset_kwargs: {data_files: {test: %s}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{ctx}}"
doc_to_target: label
doc_to_choice: "{{choices}}"
target_delimiter: ""
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""


@session("lm_eval")
def lm_eval_program(url):
    folder = pathlib.Path(tempfile.mkdtemp())
    rows = [("The capital of France is", [" Paris", " banana"], 0), ("def add(a, b):\n    return a", [" + b", " qqq"], 0)]
    (folder / "data.jsonl").write_text("".join(json.dumps({"ctx": c, "choices": o, "label": n}) + "\n" for c, o, n in rows))
    (folder / "toy.yaml").write_text(LM_TASK % (folder / "data.jsonl"))
    done = subprocess.run([sys.executable, "-m", "lm_eval", "run", "--model", "local-completions", "--model_args",
                           "model=%s,base_url=%s/v1/completions,tokenizer_backend=remote" % (name_of(url), url), "--tasks", "toy",
                           "--include_path", str(folder)], capture_output=True, text=True, cwd=folder, timeout=300,
                          env=dict(os.environ, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", OPENAI_API_KEY="none"))
    row = [line for line in done.stdout.splitlines() if "|acc" in line.replace(" ", "")]
    assert row and "|1" in row[0].replace(" ", "").replace("1.0", "1"), done.stderr[-1500:]
    return row


@session("aider")
def aider_program(url):
    project = Project()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "begin"]):
        subprocess.run(git + command, cwd=project.folder, check=True)
    done = subprocess.run([os.environ.get("AIDER", "aider"), "--model", "openai/local", "--openai-api-base", url + "/v1", "--openai-api-key", "none",
                           "--yes-always", "--no-check-update", "--no-show-model-warnings", "--no-analytics", "--edit-format", "whole",
                           "--no-stream", "--map-tokens", "0", "--no-auto-commits", "--no-gitignore", "--message",
                           "add() in calc.py must return the sum of a and b. Mend it.", "calc.py"],
                          cwd=project.folder, capture_output=True, text=True, timeout=400, stdin=subprocess.DEVNULL)
    assert project.passes(), done.stdout[-1500:] + done.stderr[-800:]
    return (project.folder / "calc.py").read_text()


# ---- running them ----

def name_of(url):
    return json.load(urllib.request.urlopen(url + "/v1/models"))["data"][0]["id"]


def has(package):
    return package == "aider" and "AIDER" in os.environ or importlib.util.find_spec(package) is not None


def run_all(riffle, model, chain, names):
    server = subprocess.Popen([riffle, "serve", model, "--port", "0", "--ctx", "8192", "--name", "local", "--chain", chain], stdout=subprocess.PIPE, text=True)
    event = json.loads(server.stdout.readline())
    url, found = "http://127.0.0.1:%d" % event["port"], {}
    for name in names:
        try:
            found[name] = SESSIONS[name][0](url)
            print(chain, name, "passed", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            print(chain, name, "FAILED: %s: %.1500s" % (type(error).__name__, error), flush=True)
    server.terminate()
    server.communicate()
    return found


def main():
    riffle, model, *names = sys.argv[1:]
    unknown = [n for n in names if n not in SESSIONS]
    if unknown:
        sys.exit("sessions.py: there is no session %s; there are %s" % (", ".join(unknown), ", ".join(SESSIONS)))
    wanted = [n for n in names or SESSIONS if all(map(has, SESSIONS[n][1]))]
    for name in set(names or SESSIONS) - set(wanted):
        print(name, "skipped: it is not installed")
    drafted, plain = (run_all(riffle, model, chain, wanted) for chain in ("auto", "none"))
    differ = [n for n in wanted if drafted.get(n) != plain.get(n)]
    for name in differ:
        print(name, "differs:\n  %r\n  %r" % (drafted.get(name), plain.get(name)))
    print("%d passed, %d failed" % (len(drafted.keys() & plain.keys()), len(wanted) - len(drafted.keys() & plain.keys())))
    return 1 if differ or len(drafted) + len(plain) < 2 * len(wanted) else 0


if __name__ == "__main__":
    sys.exit(main())
