"""--grammar and --json-schema: on a tiny model, and answers of a real one (RIFFLE_TEST_MODEL) that are validated."""

import json
import os
import unittest

from harness import BRIEF, MODEL, Case, main

REAL = os.environ.get("RIFFLE_TEST_MODEL")
RAW = ["--raw", "-p", "Once upon a time"]

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 24},
        "age": {"type": "integer", "minimum": 18, "maximum": 65},
        "email": {"type": "string", "pattern": "^[a-z]{1,9}@[a-z]{2,8}\\.(com|org)$"},
        "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 3},
        "born": {"type": "string", "format": "date"},
        "home": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]},
    },
    "required": ["name", "age", "email", "tags", "born", "home"],
    "additionalProperties": False,
    "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"]}},
}


def check_person(case, person):
    case.assertEqual(list(person), PERSON["required"])
    case.assertTrue(2 <= len(person["name"]) <= 24)
    case.assertTrue(isinstance(person["age"], int) and 18 <= person["age"] <= 65)
    case.assertRegex(person["email"], r"\A[a-z]{1,9}@[a-z]{2,8}\.(com|org)\Z")
    case.assertTrue(1 <= len(person["tags"]) <= 3 and set(person["tags"]) <= {"red", "green", "blue"})
    case.assertRegex(person["born"], r"\A\d{4}-\d\d-\d\d\Z")
    case.assertTrue(person["home"] is None or len(person["home"]["city"]) <= 20)


COLOURS = {"type": "array", "minItems": 3, "maxItems": 3,
           "items": {"type": "object", "properties": {"colour": {"type": "string", "maxLength": 12},
                                                      "share": {"type": "number", "minimum": 0, "maximum": 1}},
                     "required": ["colour", "share"]}}


def check_colours(case, colours):
    case.assertEqual(len(colours), 3)
    for one in colours:
        case.assertEqual(list(one), ["colour", "share"])
        case.assertTrue(len(one["colour"]) <= 12 and 0 <= one["share"] <= 1)


class Tiny(Case):
    def test_grammar(self):
        path = self.path("words.gbnf", 'root ::= [a-z]{2,5} (" " [a-z]{2,5}){3} "!"\n')
        plain = self.json("run", MODEL, *RAW, "--grammar", path, "--chain", "none")
        self.assertRegex(plain["text"], r"\A[a-z]{2,5}( [a-z]{2,5}){3}!\Z")
        self.assertEqual(plain["finish"], "stop")
        for chain in ("ngram", "mxfp4", "auto"):
            self.assertEqual(self.json("run", MODEL, *RAW, "--grammar", path, "--chain", chain)["text"], plain["text"])

    def test_cut(self):
        path = self.path("words.gbnf", 'root ::= [a-z ]{20,}\n')
        shown = self.json("run", MODEL, *RAW, "--grammar", path, "--max-tokens", "5")
        self.assertEqual((shown["finish"], shown["generated_tokens"]), ("length", 5))

    def test_chat(self):
        path = self.path("yes.gbnf", 'root ::= "yes" | "no"\n')
        shown = self.ok("chat", MODEL, "--template", "chatml", "--grammar", path, stdin="Well?\nReally?\n")
        self.assertRegex(shown.out, r"\A(yes|no)\n(yes|no)\n\Z")

    def test_errors_name_the_file(self):
        grammar = self.path("bad.gbnf", 'root ::= "a\n')
        schema = self.path("bad.json", '{"type": "integer", "minimum": 2, "maximum": 1}')
        self.fails(1, "run", MODEL, *RAW, "--grammar", grammar, says=(grammar, "line 1, column 10"))
        self.fails(1, "run", MODEL, *RAW, "--json-schema", schema, says=(schema, "no number is between"))
        self.fails(1, "run", MODEL, *RAW, "--json-schema", "missing.json", says="missing.json")
        self.fails(2, "run", MODEL, *RAW, "--grammar", grammar, "--json-schema", schema, says="exclude each other")


@unittest.skipUnless(REAL, "RIFFLE_TEST_MODEL is not set")
class Real(Case):
    def check(self, schema, check, prompt):
        path = self.path("schema.json", json.dumps(schema))
        for sampling in [[], ["--temp", "0.8", "--seed", "4"]][BRIEF:]:
            shown = [self.json("run", REAL, "-p", prompt, "--json-schema", path, "--chain", chain, "--ids",
                               "--max-tokens", "400", *sampling) for chain in ("none", "auto")]
            self.assertEqual(shown[0]["tokens"], shown[1]["tokens"])
            self.assertEqual(shown[0]["finish"], "stop", shown[0]["text"])
            check(self, json.loads(shown[0]["text"]))

    def test_person(self):
        self.check(PERSON, check_person, "Describe a person in JSON.")

    def test_colours(self):
        self.check(COLOURS, check_colours, "Three colours with their shares, as JSON.")


if __name__ == "__main__":
    main()
