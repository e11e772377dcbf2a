"""serve: Anthropic's Messages interface, by plain HTTP and as its Python package uses it."""

import json
import unittest

from harness import MODEL, Case, main, with_template
from test_serve import CHAT, HI, TOOLS, OneServer, Server, conforms

try:
    import anthropic
except ImportError:
    anthropic = None

MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"
ASK = dict(HI)  # the same members in both interfaces
ITS_TOOLS = [{"name": t["function"]["name"], "input_schema": t["function"]["parameters"],
              **({"description": t["function"]["description"]} if "description" in t["function"] else {})} for t in TOOLS]
# Shows all that a conversation may have.
TEMPLATE = ("{%- for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}{{ m.role }}: {{ m.content }}"
            "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
            "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}"
            "{% if m.tool_call_id %}({{ m.tool_call_id }}){% endif %}\n{% endfor %}"
            "{% if enable_thinking is defined %}{{ enable_thinking }}{{ thinking_budget }}{% endif %}"
            "{% if reasoning_effort %}{{ reasoning_effort }}{% endif %}")
THINKS = ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
          "{% if add_generation_prompt and enable_thinking is not false %}<think>\n{% endif %}")

# Refuses roles that do not take turns.
TURNS = ("{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}"
         "{% endif %}{{ m.role }}: {{ m.content }}{{ m.reasoning_content }}\n{% endfor %}")


def events(server, body):
    """(name, data) of each event."""
    connection, response = server.send("POST", MESSAGES, dict(body, stream=True))
    assert response.status == 200 and response.headers["Content-Type"].startswith("text/event-stream")
    text = response.read().decode()
    connection.close()
    assert text.endswith("\n\n"), text
    found = []
    for part in text[:-2].split("\n\n"):
        name, data = part.split("\n")
        assert name.startswith("event: ") and data.startswith("data: "), part
        value = json.loads(data[6:])
        assert value["type"] == name[7:], part
        conforms("MessagesEvent", value)
        found.append(value)
    return found


def assembled(found):
    """The message that the events of a stream make, as Anthropic's reference has it."""
    message, parts = None, {}
    for event in found:
        kind = event["type"]
        if kind == "message_start":
            assert message is None
            message = event["message"]
            assert message["content"] == [] and message["stop_reason"] is None
        elif kind == "content_block_start":
            assert event["index"] == len(message["content"]) and not parts, event
            message["content"].append(event["content_block"])
            parts = {"json": ""}
        elif kind == "content_block_delta":
            block, delta = message["content"][event["index"]], event["delta"]
            assert parts and event["index"] == len(message["content"]) - 1, event
            if delta["type"] == "input_json_delta":
                parts["json"] += delta["partial_json"]
            else:
                name = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}[delta["type"]]
                block[name] += delta[name]
        elif kind == "content_block_stop":
            if parts["json"]:
                message["content"][event["index"]]["input"] = json.loads(parts["json"])
            parts = {}
        elif kind == "message_delta":
            message.update(event["delta"], usage=event["usage"])
        else:
            assert kind in ("ping", "message_stop"), kind
    assert found[-1]["type"] == "message_stop" and not parts
    return message


def same(test, whole, streamed):
    """A stream says what the whole reply says; ids of replies and calls are their own."""
    def known(message):
        return [{k: v for k, v in block.items() if k != "id"} for block in message["content"]]
    test.assertEqual(known(streamed), known(whole))
    for name in ("type", "role", "model", "stop_reason", "stop_sequence"):
        test.assertEqual(streamed[name], whole[name])
    test.assertEqual(streamed["usage"]["output_tokens"], whole["usage"]["output_tokens"])


class Answers(OneServer):
    def chat(self, **more):
        return self.server.post(CHAT, dict(HI, **more))

    def test_same_as_chat(self):
        """The same tokens, whatever the form of the request."""
        for more in ({}, {"temperature": 0.9, "seed": 5, "top_p": 0.9, "top_k": 40}, {"temperature": 2, "seed": 2 ** 40}):
            chat = self.chat(**more)
            whole = self.server.post(MESSAGES, dict(ASK, **more))
            self.assertEqual(whole["content"], [{"type": "text", "text": chat["choices"][0]["message"]["content"]}])
            self.assertEqual((whole["type"], whole["role"], whole["model"]), ("message", "assistant", self.server.model))
            self.assertTrue(whole["id"].startswith("msg_"))
            self.assertEqual((whole["stop_reason"], whole["stop_sequence"]), ("max_tokens", None))
            usage = whole["usage"]
            self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], chat["usage"]["prompt_tokens"])
            self.assertEqual(usage["output_tokens"], 12)
            same(self, whole, assembled(events(self.server, dict(ASK, **more))))

    def test_texts(self):
        """A content is a text or blocks; the system's text is its first message."""
        chat = self.chat(messages=[{"role": "system", "content": "Tell a story."}, {"role": "user", "content": "A dog"},
                                   {"role": "assistant", "content": "Once"}, {"role": "user", "content": "More"}])
        text = chat["choices"][0]["message"]["content"]
        plain = [{"role": "user", "content": "A dog"}, {"role": "assistant", "content": "Once"}, {"role": "user", "content": "More"}]
        blocks = [{"role": "user", "content": [{"type": "text", "text": "A "}, {"type": "text", "text": "dog", "cache_control": {
            "type": "ephemeral"}}]}, {"role": "assistant", "content": [{"type": "text", "text": "Once"}]}, plain[2]]
        status, whole = self.server.ask("POST", MESSAGES + "?beta=true", dict(ASK, messages=[
            {"role": "system", "content": "Tell a story."}, *plain]))
        self.assertEqual((status, whole["content"][0]["text"]), (200, text))
        for system in ("Tell a story.", [{"type": "text", "text": "Tell a "}, {"type": "text", "text": "story."}]):
            for messages in (plain, blocks):
                whole = self.server.post(MESSAGES, dict(ASK, system=system, messages=messages))
                self.assertEqual(whole["content"][0]["text"], text)
                self.assertEqual(self.server.post(COUNT, {"system": system, "messages": messages}),
                                 {"input_tokens": chat["usage"]["prompt_tokens"]})

    def test_template_without_tools(self):
        """They become text, as for a chat."""
        chat = self.chat(tools=TOOLS)
        whole = self.server.post(MESSAGES, dict(ASK, tools=ITS_TOOLS))
        self.assertEqual(whole["content"][0]["text"], chat["choices"][0]["message"]["content"])
        self.assertEqual(self.server.post(COUNT, dict(ASK, tools=ITS_TOOLS)), {"input_tokens": chat["usage"]["prompt_tokens"]})

    def test_stop_sequences(self):
        text = self.chat(max_tokens=40)["choices"][0]["message"]["content"]
        stop = text.split()[4]
        whole = self.server.post(MESSAGES, dict(ASK, max_tokens=40, stop_sequences=["never in here", stop]))
        self.assertEqual(whole["content"][0]["text"], text[:text.index(stop)])
        self.assertEqual((whole["stop_reason"], whole["stop_sequence"]), ("stop_sequence", stop))
        same(self, whole, assembled(events(self.server, dict(ASK, max_tokens=40, stop_sequences=["never in here", stop]))))
        whole = self.server.post(MESSAGES, dict(ASK, stop_sequences=["never in here"]))
        self.assertEqual((whole["stop_reason"], whole["stop_sequence"]), ("max_tokens", None))

    def test_events(self):
        found = events(self.server, ASK)
        names = [event["type"] for event in found]
        self.assertEqual(names[:3], ["message_start", "ping", "content_block_start"])
        self.assertEqual(names[-3:], ["content_block_stop", "message_delta", "message_stop"])
        self.assertGreater(names.count("content_block_delta"), 3)
        total = self.chat()["usage"]["prompt_tokens"]
        self.assertEqual(found[0]["message"]["usage"]["input_tokens"], total)
        usage = found[-2]["usage"]
        self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], total)

    def test_harmless_members(self):
        more = {"metadata": {"user_id": "u"}, "service_tier": "auto", "cache_control": {"type": "ephemeral"}, "tools": [],
                "thinking": None, "stop_sequences": [], "stream": False, "system": None, "mcp_servers": [], "container": None,
                "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}, "tool_choice": None,
                "workspace_id": "w", "user_profile_id": "p", "diagnostics": {"a": 1}, "speed": "standard"}
        headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "something", "x-api-key": "whatever"}
        status, whole = self.server.ask("POST", MESSAGES, dict(ASK, **more), headers)
        self.assertEqual(status, 200)
        self.assertEqual(whole["content"], self.server.post(MESSAGES, ASK)["content"])

    def test_wrong_requests(self):
        def user(*blocks):
            return {"messages": [{"role": "user", "content": list(blocks)}]}
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
        result = {"type": "tool_result", "tool_use_id": "a"}
        tool = ITS_TOOLS[0]
        refused = [
            (400, "max_tokens", {"max_tokens": None}), (400, "max_tokens", {"max_tokens": 0}), (400, "max_tokens", {"max_tokens": -1}),
            (400, "top_k", {"top_k": -1}), (400, "temperature", {"temperature": -1}), (400, "top_p", {"top_p": 1.5}),
            (400, "stream", {"stream": 1}), (400, "system", {"system": 7}), (400, "system", {"system": [image]}),
            (400, "stop_sequences", {"stop_sequences": "a"}), (400, "stop_sequences", {"stop_sequences": [""]}),
            (400, "stop_sequences", {"stop_sequences": ["a\0"]}), (400, "stop_sequences", {"stop_sequences": ["a"] * 17}),
            (400, "messages", {"messages": []}), (400, "messages", {"messages": None}), (400, "messages[0]", {"messages": [1.10]}),
            (400, "messages[0].role", {"messages": [{"role": "tool", "content": "a"}]}),
            (400, "messages[0].content", {"messages": [{"role": "user"}]}),
            (400, "messages[0].content[0] is no text; images", user(image)),
            (400, "messages[0].content[1]", user({"type": "text", "text": "a"}, {"type": "text"})),
            (400, "messages[0].content[0] is no text", {"messages": [{"role": "system", "content": [result]}]}),
            (400, "messages[0].content[0]", user({"type": "tool_use", "id": "a", "name": "b", "input": {}})),
            (400, "messages[0].content[0] has no tool_use_id", user({"type": "tool_result"})),
            (400, "messages[0].content[0] has a content", user(dict(result, content=[image]))),
            (400, "messages[1] is the assistant's", {"messages": [*HI["messages"], {"role": "assistant", "content": "I"}]}),
            (400, "messages[1].content[0]", {"messages": [*HI["messages"], {"role": "assistant", "content": [
                {"type": "tool_use", "id": "a", "name": "b", "input": "{}"}]}, *HI["messages"]]}),
            (400, "tools", {"tools": 7}), (400, "tools", {"tools": [{"name": "a"}]}), (400, "tools", {"tools": [dict(tool, name=1)]}),
            (400, "tools[1].type web_search_20250305", {"tools": [tool, {"type": "web_search_20250305", "name": "web_search"}]}),
            (400, "tools[0].defer_loading", {"tools": [dict(tool, defer_loading=True)]}),
            (400, "tool_choice", {"tool_choice": "auto"}), (400, "tool_choice", {"tool_choice": {"type": "some"}}),
            (400, "tool_choice", {"tool_choice": {"type": "tool"}}), (400, "tool_choice", {"tool_choice": {"type": "any"}}),
            (400, "disable_parallel", {"tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}}),
            (400, "tool x", {"tools": [tool], "tool_choice": {"type": "tool", "name": "x"}}),
            (400, "thinking", {"thinking": {"type": "much"}}), (400, "thinking", {"thinking": True}),
            (400, "budget_tokens", {"thinking": {"type": "enabled", "budget_tokens": "x"}}),
            (400, "output_config.effort", {"output_config": {"effort": "low"}}),
            (400, "output_config.format", {"output_config": {"format": {"type": "xml"}}}),
            (400, "context_management", {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}),
            (400, "mcp_servers", {"mcp_servers": [{"name": "a"}]}), (400, "container", {"container": "a"}),
            (400, "service_tier", {"service_tier": "priority"}), (400, "logprobs", {"logprobs": True}), (400, "n is", {"n": 2}),
            (400, "stop is not supported", {"stop": ["a"]}), (400, "nonsense", {"nonsense": 1}),
            (404, "claude", {"model": "claude"}), (400, "n_ctx", user({"type": "text", "text": "a dog " * 20000}))]
        for status, says, more in refused:
            got, reply = self.server.ask("POST", MESSAGES, dict(ASK, **more))
            self.assertEqual(got, status, (says, reply))
            self.assertEqual((set(reply), reply["type"], set(reply["error"])), ({"type", "error"}, "error", {"type", "message"}))
            self.assertEqual(reply["error"]["type"], "not_found_error" if status == 404 else "invalid_request_error")
            self.assertIn(says, reply["error"]["message"])

    def test_errors_of_http(self):
        for status, kind, method, path, body, headers in (
                (405, "invalid_request_error", "GET", MESSAGES, None, {}), (405, "invalid_request_error", "GET", COUNT, None, {}),
                (413, "request_too_large", "POST", MESSAGES, " " * 5000000, {}), (400, "invalid_request_error", "POST", COUNT, "{", {}),
                (403, "permission_error", "POST", MESSAGES, "{}", {"Host": "evil.example"}),
                (415, "invalid_request_error", "POST", COUNT, "{}", {"Content-Type": "text/plain"})):
            got, reply = self.server.ask(method, path, body, headers)
            self.assertEqual((got, reply["type"], reply["error"]["type"]), (status, "error", kind))

    def test_document(self):
        for body in (ASK, dict(ASK, tools=ITS_TOOLS, tool_choice={"type": "any"}, system="a", stream=True)):
            conforms("MessagesRequest", body)
        before = self.server.metric("prompt_tokens_total")
        self.assertGreater(self.server.post(COUNT, dict(ASK, max_tokens=None))["input_tokens"], 5)
        self.assertEqual(self.server.metric("prompt_tokens_total"), before)  # nothing was read


class Tools(Case):
    def server_of(self, template):
        return Server(self, model=self.path("model.gguf", with_template(template)), template=None)

    def test_round_trip(self):
        server = self.server_of(TEMPLATE)
        for choice, names in (({"type": "any"}, ("age_of", "weather")), ({"type": "tool", "name": "weather"}, ("weather",)),
                              ({"type": "any", "disable_parallel_tool_use": True}, ("age_of", "weather"))):
            body = dict(ASK, tools=ITS_TOOLS, tool_choice=choice, max_tokens=200)
            whole = server.post(MESSAGES, body)
            self.assertEqual((whole["stop_reason"], [b["type"] for b in whole["content"]]), ("tool_use", ["tool_use"]))
            call = whole["content"][0]
            self.assertIn(call["name"], names)
            self.assertEqual(list(call["input"]), ["name", "age"] if call["name"] == "age_of" else ["now"])
            wanted = "required" if choice["type"] == "any" else {"type": "function", "function": {"name": "weather"}}
            chat = server.post(CHAT, dict(HI, tools=TOOLS, tool_choice=wanted, max_tokens=200))["choices"][0]["message"]
            self.assertEqual(json.loads(chat["tool_calls"][0]["function"]["arguments"]), call["input"])
            same(self, whole, assembled(events(server, body)))
        self.check_results(server, call)

    def check_results(self, server, call):
        """Results are messages of tools, in their order, and the texts beside them the user's."""
        other = dict(call, id="other")
        ours = [*HI["messages"], {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm", "signature": ""}, {"type": "redacted_thinking", "data": "x"},
            {"type": "text", "text": "So"}, call, other]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": call["id"], "content": "12"},
                {"type": "tool_result", "tool_use_id": "other", "is_error": True, "content": [{"type": "text", "text": "no"}]},
                {"type": "text", "text": "Go on"}]}]
        calls = [{"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": json.dumps(c["input"])}}
                 for c in (call, other)]
        theirs = [*HI["messages"], {"role": "assistant", "content": "So", "reasoning_content": "Hm", "tool_calls": calls},
                  {"role": "tool", "tool_call_id": call["id"], "content": "12"},
                  {"role": "tool", "tool_call_id": "other", "content": "Error: no"}, {"role": "user", "content": "Go on"}]
        for mine, its in (({}, {}), ({"thinking": {"type": "enabled", "budget_tokens": 1024}},
                                     {"chat_template_kwargs": {"enable_thinking": True, "thinking_budget": 1024}}),
                          ({"thinking": {"type": "disabled"}}, {"chat_template_kwargs": {"enable_thinking": False}}),
                          ({"output_config": {"effort": "low"}}, {"reasoning_effort": "low"}),
                          ({"tool_choice": {"type": "none"}}, {"tool_choice": "none"})):
            chat = server.post(CHAT, dict(HI, messages=theirs, tools=TOOLS, **its))
            whole = server.post(MESSAGES, dict(ASK, messages=ours, tools=ITS_TOOLS, **mine))
            self.assertEqual("".join(b.get("text", "") for b in whole["content"]), chat["choices"][0]["message"]["content"])
            count = server.post(COUNT, {"messages": ours, "tools": ITS_TOOLS, **mine})
            self.assertEqual(count["input_tokens"], chat["usage"]["prompt_tokens"])
        counts = [server.post(COUNT, {"messages": ours, **more})["input_tokens"] for more in (
            {}, {"tools": ITS_TOOLS}, {"thinking": {"type": "disabled"}})]
        self.assertEqual(len(set(counts)), 3)

    def test_turns(self):
        """Messages of one role that follow each other are one, with a blank line between their texts."""
        server = self.server_of(TURNS)

        def message(role, *texts):
            return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}
        thought = {"type": "thinking", "thinking": "Hm", "signature": ""}
        ours = [message("user", "A ", "dog"), {"role": "user", "content": "A cat"}, message("user"), message("assistant", "Once"),
                {"role": "assistant", "content": [thought]}, {"role": "assistant", "content": [thought, *message("", "Twice")["content"]]},
                message("user", "Go"), message("user", "on", "!")]
        theirs = [{"role": "user", "content": "A dog\n\nA cat"},
                  {"role": "assistant", "content": "Once\n\nTwice", "reasoning_content": "Hm\n\nHm"},
                  {"role": "user", "content": "Go\n\non!"}]
        chat = server.post(CHAT, dict(HI, messages=theirs))
        whole = server.post(MESSAGES, dict(ASK, messages=ours))
        self.assertEqual(whole["content"][0]["text"], chat["choices"][0]["message"]["content"])
        self.assertEqual(server.post(COUNT, {"messages": ours}), {"input_tokens": chat["usage"]["prompt_tokens"]})
        self.assertEqual(server.ask("POST", CHAT, dict(HI, messages=[theirs[0], theirs[0]]))[0], 400)
        server = self.server_of(TEMPLATE)  # the system's too
        counts = [server.post(COUNT, dict(more, messages=[*first, theirs[0]]))["input_tokens"] for more, first in (
            ({"system": "a\n\nb"}, []), ({"system": "a"}, [{"role": "system", "content": "b"}]),
            ({}, [message("system", "a"), message("system", "b")]))]
        self.assertEqual(len(set(counts)), 1)

    def test_schema(self):
        server = self.server_of(TEMPLATE)
        schema = {"type": "json_schema", "schema": ITS_TOOLS[0]["input_schema"]}
        whole = server.post(MESSAGES, dict(ASK, max_tokens=200, output_config={"format": schema}))
        self.assertEqual(list(json.loads(whole["content"][0]["text"])), ["name", "age"])

    def test_thoughts(self):
        """The prompt opens a thought, which a story of this model never ends."""
        server = self.server_of(THINKS)
        whole = server.post(MESSAGES, ASK)
        self.assertEqual([b["type"] for b in whole["content"]], ["thinking"])
        chat = server.post(CHAT, HI)["choices"][0]["message"]
        self.assertEqual(whole["content"][0]["thinking"], chat["reasoning_content"])
        found = events(server, ASK)
        self.assertIn("signature_delta", [e["delta"]["type"] for e in found if e["type"] == "content_block_delta"])
        same(self, whole, assembled(found))
        whole = server.post(MESSAGES, dict(ASK, thinking={"type": "disabled"}))
        self.assertEqual([b["type"] for b in whole["content"]], ["text"])


class Keys(Case):
    def test_keys(self):
        server = Server(self, "--api-key", "secret")
        for headers in ({}, {"x-api-key": "secre"}, {"x-api-key": "Bearer secret"}, {"Authorization": "Bearer x"}):
            status, reply = server.ask("POST", MESSAGES, ASK, headers)
            self.assertEqual((status, reply["error"]["type"]), (401, "authentication_error"))
        for headers in ({"x-api-key": "secret"}, {"Authorization": "Bearer secret"},
                        {"x-api-key": "secret", "Authorization": "Bearer x"}):
            self.assertEqual(server.ask("POST", MESSAGES, ASK, headers)[0], 200)
            self.assertEqual(server.ask("GET", "/v1/models", headers=headers)[0], 200)


@unittest.skipUnless(anthropic, "the package anthropic is not installed")
class Package(Case):
    def setUp(self):
        super().setUp()
        self.server = Server(self, "--api-key", "secret", model=self.path("model.gguf", with_template(TEMPLATE)), template=None)
        self.client = anthropic.Anthropic(base_url="http://127.0.0.1:%d" % self.server.port, api_key="secret", max_retries=0)
        self.addCleanup(self.client.close)
        self.question = {"model": self.server.model, "messages": [{"role": "user", "content": "A dog"}], "max_tokens": 30,
                         "extra_body": {"temperature": 0}}  # which some versions of the package do not name

    def test_answers(self):
        whole = self.client.messages.create(**self.question)
        self.assertEqual((whole.stop_reason, whole.usage.output_tokens), ("max_tokens", 30))
        with self.client.messages.stream(**self.question) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual((text, final.content[0].text), (whole.content[0].text,) * 2)
        self.assertEqual((final.stop_reason, final.usage.output_tokens), ("max_tokens", 30))
        counted = self.client.messages.count_tokens(model=self.server.model, messages=self.question["messages"])
        self.assertEqual(counted.input_tokens, whole.usage.input_tokens + whole.usage.cache_read_input_tokens)

    def test_tools(self):
        asked = dict(self.question, tools=ITS_TOOLS, tool_choice={"type": "any"}, max_tokens=200)
        whole = self.client.messages.create(**asked)
        with self.client.messages.stream(**asked) as stream:
            final = stream.get_final_message()
        self.assertEqual(final.content[0].input, whole.content[0].input)
        self.assertEqual(final.stop_reason, "tool_use")
        messages = [*self.question["messages"], {"role": "assistant", "content": whole.content}, {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": whole.content[0].id, "content": "12"}]}]
        self.assertTrue(self.client.messages.create(**dict(self.question, messages=messages, tools=ITS_TOOLS)).content)

    def test_errors(self):
        with self.assertRaises(anthropic.NotFoundError):
            self.client.messages.create(**dict(self.question, model="claude"))
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.client.messages.create(**dict(self.question, stop_sequences=[""]))
        self.assertEqual(caught.exception.body["error"]["type"], "invalid_request_error")
        with self.assertRaises(anthropic.AuthenticationError):
            self.client.with_options(api_key="wrong").messages.create(**self.question)


if __name__ == "__main__":
    main()
