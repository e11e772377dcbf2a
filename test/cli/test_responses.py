"""serve: OpenAI's Responses interface, by plain HTTP and as its Python package uses it."""

import json
import signal
import unittest

from harness import TIMEOUT, Case, main, with_template
from test_messages import TEMPLATE, THINKS, TURNS
from test_serve import CHAT, HI, SCHEMA, TOOLS, OneServer, Server, conforms

try:
    import openai
except ImportError:
    openai = None
try:
    import pydantic
except ImportError:
    pydantic = None

RESPONSES = "/v1/responses"
ASK = {"input": "Hi", "max_output_tokens": 12, "temperature": 0}  # what HI asks for
ITS_TOOLS = [{"type": "function", **tool["function"]} for tool in TOOLS]
# An answer that goes on to the end of the context.
LONG = {"text": {"format": {"type": "json_schema", "name": "long", "schema": {"type": "string", "minLength": 20000}}},
        "max_output_tokens": 3000}


def events(server, body, is_cut=lambda: None):
    """The events of a stream; `is_cut` is called when the first one is there."""
    connection, response = server.send("POST", RESPONSES, dict(body, stream=True))
    assert response.status == 200 and response.headers["Content-Type"].startswith("text/event-stream")
    first = response.readline()
    is_cut()
    text = (first + response.read()).decode()
    connection.close()
    assert text.endswith("\n\n"), text
    found = []
    for part in text[:-2].split("\n\n"):
        name, data = part.split("\n")
        assert name.startswith("event: ") and data.startswith("data: "), part
        value = json.loads(data[6:])
        assert value["type"] == name[7:] and value["sequence_number"] == len(found), part
        conforms("ResponsesEvent", value)
        found.append(value)
    return found


def assembled(found):
    """The response that the events of a stream make, as OpenAI's reference has it."""
    assert [event["type"] for event in found[:2]] == ["response.created", "response.in_progress"]
    items, is_open = [], False
    for event in found[:2]:
        assert event["response"]["output"] == [] and event["response"]["usage"] is None
    for event in found[2:-1]:
        kind = event["type"].split(".", 1)[1]
        assert event["output_index"] == len(items) - (kind != "output_item.added"), event
        if kind == "output_item.added":
            assert not is_open and event["item"]["status"] == "in_progress"
            items.append(event["item"])
            is_open = True
            continue
        item = items[-1]
        assert is_open and event.get("item_id", item["id"]) == item["id"] and event.get("content_index", 0) == 0
        if kind == "content_part.added":
            assert item["content"] == [] and event["part"]["text"] == ""
            item["content"].append(event["part"])
        elif kind in ("output_text.delta", "reasoning_text.delta"):
            item["content"][0]["text"] += event["delta"]
        elif kind in ("output_text.done", "reasoning_text.done"):
            assert event["text"] == item["content"][0]["text"]
        elif kind == "content_part.done":
            assert event["part"] == item["content"][0]
        elif kind == "function_call_arguments.delta":
            item["arguments"] += event["delta"]
        elif kind == "function_call_arguments.done":
            assert (event["name"], event["arguments"]) == (item["name"], item["arguments"])
        else:
            assert kind == "output_item.done", kind
            assert event["item"] == dict(item, status=event["item"]["status"])
            items[-1], is_open = event["item"], False
    last = found[-1]["response"]
    assert found[-1]["type"] == "response." + last["status"] and last["output"] == items[:len(last["output"])]
    assert last["status"] == "failed" or not is_open and len(items) == len(last["output"])
    return last


def text_of(response):
    return "".join(p["text"] for item in response["output"] if item["type"] == "message" for p in item["content"])


def same(test, whole, streamed):
    """A stream says what the whole reply says; ids and times of replies and calls are their own."""
    def known(response):
        items = [{k: v for k, v in item.items() if k not in ("id", "call_id")} for item in response["output"]]
        return dict(response, output=items, id=None, created_at=None, usage=response["usage"]["output_tokens"],
                    thought=response["usage"]["output_tokens_details"])
    test.assertEqual(known(streamed), known(whole))


class Answers(OneServer):
    def chat(self, **more):
        return self.server.post(CHAT, dict(HI, **more))

    def test_same_as_chat(self):
        """The same tokens, whatever the form of the request."""
        for more in ({}, {"temperature": 0.9, "seed": 5, "top_p": 0.9}, {"temperature": 2, "seed": 2 ** 40}):
            chat = self.chat(**more)
            whole = self.server.post(RESPONSES, dict(ASK, **more))
            self.assertEqual([(i["type"], i["status"], i["role"]) for i in whole["output"]], [("message", "incomplete", "assistant")])
            self.assertEqual(text_of(whole), chat["choices"][0]["message"]["content"])
            self.assertEqual((whole["object"], whole["model"], whole["status"]), ("response", self.server.model, "incomplete"))
            self.assertEqual((whole["incomplete_details"], whole["error"]), ({"reason": "max_output_tokens"}, None))
            self.assertEqual((whole["id"][:5], whole["output"][0]["id"][:4]), ("resp_", "msg_"))
            usage = whole["usage"]
            self.assertEqual((usage["input_tokens"], usage["output_tokens"]), (chat["usage"]["prompt_tokens"], 12))
            self.assertEqual(usage["total_tokens"], usage["input_tokens"] + 12)
            self.assertEqual(usage["output_tokens_details"], {"reasoning_tokens": 0})
            same(self, whole, assembled(events(self.server, dict(ASK, **more))))
        again = self.server.post(RESPONSES, ASK)["usage"]
        self.assertGreater(again["input_tokens_details"]["cached_tokens"], again["input_tokens"] // 2)

    def test_conversations(self):
        """An input is a text or items; instructions are the system's first message."""
        chat = self.chat(messages=[{"role": "system", "content": "Tell a story."}, {"role": "user", "content": "A dog"},
                                   {"role": "assistant", "content": "Once"}, {"role": "user", "content": "More"}])
        items = [{"role": "user", "content": "A dog"}, {"role": "assistant", "content": "Once"}, {"role": "user", "content": "More"}]
        typed = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "A "},
                                                                 {"type": "input_text", "text": "dog"}]},
                 {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [
                     {"type": "output_text", "text": "On", "annotations": []}, {"type": "refusal", "refusal": "ce"}]},
                 {"role": "user", "content": [{"type": "input_text", "text": "More"}]}]
        system = [{"role": role, "content": "Tell a story."} for role in ("system", "developer")]
        for body in ({"instructions": "Tell a story.", "input": items}, {"instructions": "Tell a story.", "input": typed},
                     {"input": [system[0], *typed]}, {"input": [system[1], *items], "instructions": ""}):
            whole = self.server.post(RESPONSES, dict(ASK, **body))
            self.assertEqual(text_of(whole), chat["choices"][0]["message"]["content"])
            self.assertEqual(whole["usage"]["input_tokens"], chat["usage"]["prompt_tokens"])
        chat = self.chat(messages=[{"role": "system", "content": "Tell\n\na story."}, {"role": "user", "content": "A\n\ndog"}])
        whole = self.server.post(RESPONSES, dict(ASK, instructions="Tell", input=[
            dict(system[1], content="a story."), {"role": "user", "content": "A"}, {"role": "user", "content": "dog"}]))
        self.assertEqual(text_of(whole), chat["choices"][0]["message"]["content"])
        self.assertEqual(whole["usage"]["input_tokens"], chat["usage"]["prompt_tokens"])

    def test_template_without_tools(self):
        """They become text, as for a chat."""
        chat = self.chat(tools=TOOLS)
        whole = self.server.post(RESPONSES, dict(ASK, tools=ITS_TOOLS))
        self.assertEqual(text_of(whole), chat["choices"][0]["message"]["content"])
        self.assertEqual(whole["usage"]["input_tokens"], chat["usage"]["prompt_tokens"])

    def test_events(self):
        found = events(self.server, ASK)
        names = [event["type"] for event in found]
        self.assertEqual(names[2:4], ["response.output_item.added", "response.content_part.added"])
        self.assertEqual(names[-4:], ["response.output_text.done", "response.content_part.done", "response.output_item.done",
                                      "response.incomplete"])
        self.assertGreater(names.count("response.output_text.delta"), 3)

    def test_told(self):
        """A response repeats what was asked for, digits of numbers too."""
        more = {"instructions": "Be brief.", "metadata": {"a": "b"}, "parallel_tool_calls": False, "tools": ITS_TOOLS,
                "tool_choice": "none", "reasoning": {"summary": "auto"}, "text": {"format": {"type": "text"}, "verbosity": "low"}}
        whole = self.server.post(RESPONSES, dict(ASK, top_p=0.25, **more))
        self.assertEqual({name: whole[name] for name in more}, more)
        self.assertEqual((whole["max_output_tokens"], whole["temperature"], whole["top_p"]), (12, 0, 0.25))
        body = json.dumps(dict(ASK, metadata={"n": "@"}, stream=False)).replace('"@"', "18446744073709551616.10")
        connection, response = self.server.send("POST", RESPONSES, body)
        self.assertIn(b'"metadata":{"n":18446744073709551616.10}', response.read())
        connection.close()

    def test_harmless_members(self):
        more = {"metadata": {"a": "b"}, "service_tier": "auto", "store": True, "tools": [], "user": "u", "safety_identifier": "s",
                "prompt_cache_key": "k", "truncation": "auto", "include": ["reasoning.encrypted_content"], "background": False,
                "previous_response_id": None, "conversation": None, "prompt": None, "top_logprobs": 0, "max_tool_calls": 3,
                "text": {"verbosity": "high"}, "reasoning": {"effort": None, "summary": "detailed"}, "client_metadata": {"a": "b"},
                "prompt_cache_retention": "24h", "stream_options": {"include_obfuscation": True}, "tool_choice": "auto"}
        for given in (more, {name: None for name in more}):
            whole = self.server.post(RESPONSES, dict(ASK, **given))
            self.assertEqual(text_of(whole), self.chat()["choices"][0]["message"]["content"])
            self.assertIs(whole["store"], False)

    def test_wrong_requests(self):
        def item(**members):
            return {"input": [members]}

        def user(*parts):
            return item(role="user", content=list(parts))
        call = {"type": "function_call", "call_id": "a", "name": "b", "arguments": "{}"}
        result = {"type": "function_call_output", "call_id": "a", "output": "x"}
        image = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
        tool = ITS_TOOLS[0]
        refused = [
            (400, "max_output_tokens", {"max_output_tokens": 0}), (400, "max_output_tokens", {"max_output_tokens": -1}),
            (400, "temperature", {"temperature": -1}), (400, "top_p", {"top_p": 1.5}), (400, "stream", {"stream": 1}),
            (400, "seed", {"seed": "x"}), (400, "store", {"store": "yes"}), (400, "metadata", {"metadata": "x"}),
            (400, "instructions", {"instructions": [{"role": "user", "content": "a"}]}), (400, "stream_options", {"stream_options": 1}),
            (400, "stream_options.include_usage", {"stream_options": {"include_usage": True}}),
            (400, "input", {"input": []}), (400, "input", {"input": None}), (400, "input", {"input": 7}),
            (400, "input[0]", {"input": [1.10]}), (400, "input[0]", {"input": ["a"]}),
            (400, "input", {"input": [{"role": "user", "content": []}]}),
            (400, "input[0].role", item(role="tool", content="a")), (400, "input[0].role", item(type="message", content="a")),
            (400, "input[0].content is", item(role="user")), (400, "input[0].content is", item(role="user", content={"a": 1})),
            (400, "input[0].content[1] is no text; images", user({"type": "input_text", "text": "a"}, image)),
            (400, "input[0].content[0]", user({"type": "input_text"})), (400, "input[0].content[0]", user({"type": "input_file"})),
            (400, "input[0].content[0]", user("a")), (400, "input[0] is no function_call ", item(**dict(call, name=None))),
            (400, "input[0] is no function_call ", item(**dict(call, arguments={}))),
            (400, "input[0].arguments", item(**dict(call, arguments="{"))), (400, "input[0].arguments", item(**dict(call, arguments="[]"))),
            (400, "input[0] is no function_call_output", item(**dict(result, call_id=None))),
            (400, "input[0] is no function_call_output", item(**dict(result, output={"a": 1}))),
            (400, "input[0].output[0]", item(**dict(result, output=[image]))),
            (400, "input[0] is no reasoning", item(type="reasoning", summary="a")),
            (400, "input[0].summary[0]", item(type="reasoning", summary=["a"])),
            (400, "input[0].type item_reference is not supported: nothing is stored", item(type="item_reference", id="x")),
            (400, "input[0].type local_shell_call", item(type="local_shell_call")),
            (400, "tools", {"tools": 7}), (400, "tools", {"tools": [{"name": "a"}]}), (400, "tools", {"tools": [dict(tool, name=1)]}),
            (400, "tools", {"tools": TOOLS}), (400, "tools[1].type web_search", {"tools": [tool, {"type": "web_search"}]}),
            (400, "tools", {"tools": [{"type": "namespace", "name": "a"}]}),
            (400, "tools", {"tools": [{"type": "namespace", "tools": []}]}),
            (400, "tools[0].tools[1].type custom", {"tools": [{"type": "namespace", "name": "a", "tools": [
                tool, {"type": "custom", "name": "a"}]}]}),
            (400, "tools[0].tools[0].async", {"tools": [{"type": "namespace", "name": "a", "tools": [{**tool, "async": True}]}]}),
            (400, "input[0] is no function_call ", item(**dict(call, namespace=7))),
            (400, "tools[0].type custom", {"tools": [{"type": "custom", "name": "a"}]}),
            (400, "tools[0].defer_loading", {"tools": [dict(tool, defer_loading=True)]}),
            (400, "tool_choice", {"tool_choice": "any"}), (400, "tool_choice", {"tool_choice": {"type": "web_search"}}),
            (400, "tool_choice", {"tool_choice": {"type": "function"}}), (400, "tool_choice", {"tool_choice": "required"}),
            (400, "tool_choice", {"tools": ITS_TOOLS, "tool_choice": {"type": "allowed_tools", "mode": "some", "tools": []}}),
            (400, "tool_choice", {"tools": ITS_TOOLS, "tool_choice": {"type": "allowed_tools", "mode": "auto",
                                                                      "tools": [{"type": "mcp"}]}}),
            (400, "tool x", {"tools": [tool], "tool_choice": {"type": "function", "name": "x"}}),
            (400, "parallel_tool_calls", {"parallel_tool_calls": "no"}),
            (400, "text is not", {"text": "a"}), (400, "text.format.type", {"text": {"format": {"type": "xml"}}}),
            (400, "text.format.schema", {"text": {"format": {"type": "json_schema", "name": "a"}}}),
            (400, "text.format.schema", {"text": {"format": {"type": "text", "schema": SCHEMA}}}),
            (400, "text.verbosity", {"text": {"verbosity": 1}}), (400, "text.stop", {"text": {"stop": "a"}}),
            (400, "text.format is beside tool_choice", {"tools": ITS_TOOLS, "tool_choice": "required",
                                                        "text": {"format": {"type": "json_object"}}}),
            (400, "reasoning is not", {"reasoning": "low"}), (400, "reasoning.effort", {"reasoning": {"effort": "low"}}),
            (400, "reasoning.effort", {"reasoning": {"effort": 1}}), (400, "reasoning.mode", {"reasoning": {"mode": "pro"}}),
            (400, "include", {"include": "a"}), (400, "message.output_text.logprobs", {"include": ["message.output_text.logprobs"]}),
            (400, "top_logprobs", {"top_logprobs": 2}), (400, "background", {"background": True}),
            (400, "truncation", {"truncation": "all"}),
            (400, "previous_response_id is not supported: nothing is stored", {"previous_response_id": "resp_1"}),
            (400, "conversation", {"conversation": "conv_1"}), (400, "prompt is", {"prompt": {"id": "p"}}),
            (400, "service_tier", {"service_tier": "priority"}), (400, "max_tokens", {"max_tokens": 3}), (400, "messages", HI),
            (400, "stop is not supported", {"stop": ["a"]}), (400, "nonsense", {"nonsense": 1}),
            (404, "gpt-5", {"model": "gpt-5"}), (400, "n_ctx", {"input": "a dog " * 20000})]
        for status, says, more in refused:
            for stream in ({}, {"stream": True}) if "stream" not in more else ({},):
                got, reply = self.server.ask("POST", RESPONSES, dict(ASK, **more, **stream))
                self.assertEqual(got, status, (says, reply))
                self.assertEqual(set(reply["error"]), {"message", "type", "param", "code"})
                self.assertIn(says, reply["error"]["message"])
        self.assertEqual(self.server.ask("POST", RESPONSES, dict(ASK, **user(image)))[1]["error"]["param"], "input")

    def test_errors_of_http(self):
        for status, method, body, headers in (
                (405, "GET", None, {}), (413, "POST", " " * 5000000, {}), (400, "POST", "{", {}),
                (403, "POST", "{}", {"Host": "evil.example"}), (415, "POST", "{}", {"Content-Type": "text/plain"})):
            got, reply = self.server.ask(method, RESPONSES, body, headers)
            self.assertEqual((got, set(reply), reply["error"]["type"]), (status, {"error"}, "invalid_request_error"))

    def test_document(self):
        for body in (ASK, dict(ASK, tools=ITS_TOOLS, tool_choice="required", instructions="a", stream=True), dict(ASK, **LONG)):
            conforms("ResponsesRequest", body)


class Tools(Case):
    def server_of(self, template):
        return Server(self, model=self.path("model.gguf", with_template(template)), template=None)

    def test_round_trip(self):
        server = self.server_of(TEMPLATE)
        weather = {"type": "function", "name": "weather"}
        for choice, wanted in (("required", "required"), (weather, {"type": "function", "function": {"name": "weather"}}),
                               ({"type": "allowed_tools", "mode": "required", "tools": [weather]},
                                {"type": "function", "function": {"name": "weather"}})):
            body = dict(ASK, tools=ITS_TOOLS, tool_choice=choice, max_output_tokens=200)
            conforms("ResponsesRequest", body)
            whole = server.post(RESPONSES, body)
            self.assertEqual((whole["status"], [i["type"] for i in whole["output"]]), ("completed", ["function_call"]))
            call = whole["output"][0]
            self.assertEqual((call["status"], call["id"][:3]), ("completed", "fc_"))
            chat = server.post(CHAT, dict(HI, tools=TOOLS, tool_choice=wanted, max_tokens=200))["choices"][0]["message"]
            theirs = chat["tool_calls"][0]["function"]
            self.assertEqual({"name": call["name"], "arguments": call["arguments"]}, theirs)
            self.assertEqual(list(json.loads(call["arguments"])), ["name", "age"] if call["name"] == "age_of" else ["now"])
            same(self, whole, assembled(events(server, body)))
        for most in (1, 5):  # a cut call stays text
            body["max_output_tokens"] = most
            whole = server.post(RESPONSES, body)
            chat = server.post(CHAT, dict(HI, tools=TOOLS, tool_choice=wanted, max_tokens=most))
            self.assertEqual([(i["type"], i["status"]) for i in whole["output"]], [("message", "incomplete")])
            self.assertEqual(text_of(whole), chat["choices"][0]["message"]["content"])
            same(self, whole, assembled(events(server, body)))
        self.check_results(server, call)

    def check_results(self, server, call):
        """Thoughts, texts and calls of one turn are one message; results are messages of tools."""
        other = dict(call, call_id="other", arguments="")
        ours = [{"role": "user", "content": "Hi"},
                {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So"}]}, call, other,
                {"type": "function_call_output", "call_id": call["call_id"], "output": "12"},
                {"type": "function_call_output", "call_id": "other", "output": [{"type": "input_text", "text": "no"}]},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}], "encrypted_content": None}, call,
                {"type": "function_call_output", "call_id": call["call_id"], "output": ""},
                {"role": "user", "content": "Go on"}]
        for item in ours:
            conforms("ResponsesInput", item)
        calls = [{"id": c["call_id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"] or "{}"}}
                 for c in (call, other)]
        theirs = [*HI["messages"], {"role": "assistant", "content": "So", "reasoning_content": "Hm", "tool_calls": calls},
                  {"role": "tool", "tool_call_id": call["call_id"], "content": "12"},
                  {"role": "tool", "tool_call_id": "other", "content": "no"},
                  {"role": "assistant", "content": None, "reasoning_content": "Hm", "tool_calls": calls[:1]},
                  {"role": "tool", "tool_call_id": call["call_id"], "content": ""}, {"role": "user", "content": "Go on"}]
        counts = set()
        for mine, its in (({}, {}), ({"reasoning": {"effort": "low"}}, {"reasoning_effort": "low"}),
                          ({"reasoning": {"effort": "none"}}, {"reasoning_effort": "none",
                                                               "chat_template_kwargs": {"enable_thinking": False}}),
                          ({"tool_choice": "none"}, {"tool_choice": "none"}),
                          ({"parallel_tool_calls": False}, {"parallel_tool_calls": False})):
            chat = server.post(CHAT, dict(HI, messages=theirs, tools=TOOLS, **its))
            whole = server.post(RESPONSES, dict(ASK, input=ours, tools=ITS_TOOLS, **mine))
            self.assertEqual(text_of(whole), chat["choices"][0]["message"]["content"])
            self.assertEqual(whole["usage"]["input_tokens"], chat["usage"]["prompt_tokens"])
            counts.add(whole["usage"]["input_tokens"])
        self.assertEqual(len(counts), 4)

    def test_namespaces(self):
        """A function's name begins with its namespace's in the chat, and is apart in calls."""
        server = self.server_of(TEMPLATE)
        for space, joined in (("mcp__a", "mcp__a__weather"), ("mcp__a__", "mcp__a__weather"), ("b", "b__weather")):
            tools = [ITS_TOOLS[0], {"type": "namespace", "name": space, "description": "Some.", "tools": ITS_TOOLS[1:]}]
            theirs = [TOOLS[0], {"type": "function", "function": dict(TOOLS[1]["function"], name=joined)}]
            wanted = {"type": "function", "function": {"name": joined}}
            body = dict(ASK, tools=tools, tool_choice={"type": "function", "namespace": space, "name": "weather"}, max_output_tokens=200)
            conforms("ResponsesRequest", body)
            whole = server.post(RESPONSES, body)
            chat = server.post(CHAT, dict(HI, tools=theirs, tool_choice=wanted, max_tokens=200))
            call = whole["output"][0]
            self.assertEqual((call["namespace"], call["name"], call["arguments"]), (
                space, "weather", chat["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]))
            self.assertEqual(whole["usage"]["input_tokens"], chat["usage"]["prompt_tokens"])
            same(self, whole, assembled(events(server, body)))
            called = {"role": "assistant", "content": None, "tool_calls": [
                {"id": call["call_id"], "type": "function", "function": {"name": joined, "arguments": call["arguments"]}}]}
            result = {"role": "tool", "tool_call_id": call["call_id"], "content": "12"}
            chat = server.post(CHAT, dict(HI, messages=[*HI["messages"], called, result], tools=theirs))
            whole = server.post(RESPONSES, dict(ASK, tools=tools, input=[
                {"role": "user", "content": "Hi"}, call, {"type": "function_call_output", "call_id": call["call_id"], "output": "12"}]))
            self.assertEqual(text_of(whole), chat["choices"][0]["message"]["content"])
            self.assertEqual(whole["usage"]["input_tokens"], chat["usage"]["prompt_tokens"])

    def test_turns(self):
        """A template that wants roles in turns reads what agents send."""
        server = self.server_of(TURNS)
        ours = [{"role": "user", "content": "A dog"}, {"role": "user", "content": "A cat"},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]}, {"role": "assistant", "content": "Once"},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]}, {"role": "assistant", "content": "Twice"},
                {"role": "user", "content": "Go on"}]
        theirs = [{"role": "user", "content": "A dog\n\nA cat"},
                  {"role": "assistant", "content": "Once\n\nTwice", "reasoning_content": "Hm\n\nHm"}, {"role": "user", "content": "Go on"}]
        chat = server.post(CHAT, dict(HI, messages=theirs))
        whole = server.post(RESPONSES, dict(ASK, input=ours))
        self.assertEqual(text_of(whole), chat["choices"][0]["message"]["content"])
        self.assertEqual(whole["usage"]["input_tokens"], chat["usage"]["prompt_tokens"])

    def test_formats(self):
        server = self.server_of(TEMPLATE)
        for name, its in (({"type": "json_schema", "name": "a", "strict": True, "schema": SCHEMA},
                           {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}),
                          ({"type": "json_object"}, {"type": "json_object"}), ({"type": "text"}, {"type": "text"})):
            body = dict(ASK, text={"format": name}, max_output_tokens=100)
            whole = server.post(RESPONSES, body)
            chat = server.post(CHAT, dict(HI, response_format=its, max_tokens=100))
            self.assertEqual(text_of(whole), chat["choices"][0]["message"]["content"])
            same(self, whole, assembled(events(server, body)))
            if name["type"] == "json_schema":
                self.assertEqual(list(json.loads(text_of(whole))), ["name", "age"])

    def test_thoughts(self):
        """The prompt opens a thought, which a story of this model never ends."""
        server = self.server_of(THINKS)
        whole = server.post(RESPONSES, ASK)
        self.assertEqual([i["type"] for i in whole["output"]], ["reasoning"])
        item = whole["output"][0]
        chat = server.post(CHAT, HI)["choices"][0]["message"]
        self.assertEqual(item["content"], [{"type": "reasoning_text", "text": chat["reasoning_content"]}])
        self.assertEqual((item["status"], item["summary"], item["id"][:3]), ("incomplete", [], "rs_"))
        self.assertEqual(whole["usage"]["output_tokens_details"], {"reasoning_tokens": 12})
        found = events(server, ASK)
        self.assertIn("response.reasoning_text.delta", [e["type"] for e in found])
        same(self, whole, assembled(found))
        whole = server.post(RESPONSES, dict(ASK, reasoning={"effort": "none"}))
        self.assertEqual([i["type"] for i in whole["output"]], ["message"])
        self.assertEqual(whole["usage"]["output_tokens_details"], {"reasoning_tokens": 0})


class Cut(Case):
    def test_cut_stream(self):
        """A stream that the end of the server cuts ends with a failed response."""
        for _ in range(20):  # the answer may have ended before the signals come
            server = Server(self)

            def end():
                for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
                    server.process.send_signal(number)
            found = events(server, dict(ASK, **LONG), end)
            server.process.wait(TIMEOUT)
            last = assembled(found)
            if last["status"] == "failed":
                break
        self.assertEqual((last["status"], last["error"]["code"], last["usage"]), ("failed", "server_error", None))
        self.assertIn("stopped", last["error"]["message"])


@unittest.skipUnless(openai, "the package openai is not installed")
class Package(Case):
    def setUp(self):
        super().setUp()
        self.server = Server(self, "--api-key", "secret", model=self.path("model.gguf", with_template(TEMPLATE)), template=None)
        self.client = openai.OpenAI(base_url="http://127.0.0.1:%d/v1" % self.server.port, api_key="secret", max_retries=0)
        self.addCleanup(self.client.close)
        self.question = {"model": self.server.model, "input": "A dog", "max_output_tokens": 30, "temperature": 0}

    def test_answers(self):
        whole = self.client.responses.create(**self.question)
        self.assertEqual((whole.status, whole.usage.output_tokens), ("incomplete", 30))
        with self.client.responses.create(**self.question, stream=True) as stream:
            found = list(stream)
        self.assertEqual("".join(e.delta for e in found if e.type == "response.output_text.delta"), whole.output_text)
        self.assertEqual(found[-1].response.output_text, whole.output_text)
        with self.client.responses.stream(**self.question) as stream:
            texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
        self.assertEqual("".join(texts), whole.output_text)
        more = self.client.responses.create(**dict(self.question, input=[
            {"role": "user", "content": "A dog"}, *whole.output, {"role": "user", "content": "More"}]))
        self.assertGreater(more.usage.input_tokens, whole.usage.input_tokens + 30)

    def test_tools(self):
        asked = dict(self.question, tools=ITS_TOOLS, tool_choice="required", max_output_tokens=200)
        whole = self.client.responses.create(**asked)
        with self.client.responses.stream(**asked) as stream:
            final = stream.get_final_response()
        call = whole.output[0]
        self.assertEqual((final.output[0].name, final.output[0].arguments), (call.name, call.arguments))
        self.assertEqual(final.status, "completed")
        items = [{"role": "user", "content": "A dog"}, *whole.output,
                 {"type": "function_call_output", "call_id": call.call_id, "output": "12"}]
        self.assertTrue(self.client.responses.create(**dict(self.question, input=items, tools=ITS_TOOLS)).output)

    @unittest.skipUnless(pydantic, "the package pydantic is not installed")
    def test_parse(self):
        class Person(pydantic.BaseModel):
            age: bool
            old: bool
        asked = dict(self.question, text_format=Person, max_output_tokens=200)
        parsed = self.client.responses.parse(**asked).output_parsed
        self.assertIsInstance(parsed, Person)
        with self.client.responses.stream(**asked) as stream:
            self.assertEqual(stream.get_final_response().output_parsed, parsed)

    def test_errors(self):
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.create(**dict(self.question, model="gpt-5"))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.responses.create(**dict(self.question, previous_response_id="resp_1"))
        self.assertEqual(caught.exception.param, "previous_response_id")
        with self.assertRaises(openai.AuthenticationError):
            self.client.with_options(api_key="wrong").responses.create(**self.question)


if __name__ == "__main__":
    main()
