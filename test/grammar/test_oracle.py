"""Random schemas beside the Python package jsonschema: every text that a grammar makes is valid, and of small changes to
such texts the grammar accepts those that are valid. Skipped without the package.

    test_oracle.py TEXTS [SEED [SCHEMAS]]     (TEXTS: the program test_texts)
"""

import copy
import json
import random
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    sys.exit(77)

NAMES = ["a", "b", "ab", "id", "na\"me", "é", "x/y"]
PATTERNS = ["^[a-c]{1,3}$", "^(ab|a)*$", "^\\d+-\\d$", "x", "^a", "b$", "^[^a]?$", "^(é|\")+$"]
FORMATS = ["date", "ipv4", "ipv6"]  # those that the package checks by itself
LIMITS = [0, 1, -1, 10, 99, 100, -273.15, 0.1, 0.5, 2.5, 1e3, 12345678901234567890, 2**63, -2**53 + 1, 19.99, 1e-7, 1000.0]
VALUES = [0, 1, -1, 2.5, 0.1, 19.99, 2**63, "a", "ab", "", "é\"\\", True, False, None, [], [1], {}, {"a": 1}]


class Schemas:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def chance(self, one_in):
        return self.random.randrange(one_in) == 0

    def number(self, integer):
        schema = {"type": "integer" if integer else "number"}
        for key in ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"):
            if self.chance(2):
                schema[self.random.choice(key)] = self.random.choice(LIMITS)
        if integer and self.chance(3):
            schema["multipleOf"] = self.random.choice([1, 2, 3, 7, 10, 12, 30, 0.5])
        return schema

    def string(self):
        schema = {"type": "string"}
        kind = self.random.randrange(5)
        if kind == 0:
            schema["pattern"] = self.random.choice(PATTERNS)
        elif kind == 1:
            schema["format"] = self.random.choice(FORMATS)
        elif kind == 2:
            schema["minLength"] = self.random.randrange(4)
            schema["maxLength"] = schema["minLength"] + self.random.randrange(3)
        return schema

    def object(self, depth):
        names = self.random.sample(NAMES, self.random.randrange(4))
        schema = {"type": "object", "properties": {name: self.any(depth + 1) for name in names}}
        if names and self.chance(2):
            schema["required"] = self.random.sample(names, self.random.randrange(1, len(names) + 1))
        if self.chance(3):
            schema["additionalProperties"] = self.random.choice([True, False, self.any(depth + 1)])
        return schema

    def array(self, depth):
        schema = {"type": "array"}
        if self.chance(3):
            schema["prefixItems"] = [self.any(depth + 1) for _ in range(self.random.randrange(1, 3))]
        if self.chance(2):
            schema["items"] = self.random.choice([False, self.any(depth + 1), self.any(depth + 1)])
        if self.chance(2):
            schema["minItems"] = self.random.randrange(3)
        if self.chance(2):
            schema["maxItems"] = schema.get("minItems", 0) + self.random.randrange(3)
        return schema

    def some(self, depth):
        return [self.any(depth + 1) for _ in range(self.random.randrange(1, 4))]

    def any(self, depth=0):
        kind = self.random.randrange(14 if depth < 3 else 8)
        if kind < 2:
            return self.number(kind)
        if kind < 4:
            return self.string()
        if kind == 4:
            return {"enum": self.random.sample(VALUES, self.random.randrange(1, 5))}
        if kind == 5:
            return {"const": self.random.choice(VALUES)}
        if kind == 6:
            return self.random.choice([True, {}, {"type": "boolean"}, {"type": ["null", "integer"]}])
        if kind == 7:
            return {"$ref": "#/$defs/shared"}
        if kind < 10:
            return self.object(depth)
        if kind == 10:
            return self.array(depth)
        if kind == 11:
            return {"anyOf": self.some(depth)}
        if kind == 12:
            return {"oneOf": self.some(depth)}
        return {"allOf": self.some(depth)}

    def root(self):
        schema = self.any()
        if not isinstance(schema, dict):
            return schema
        return dict(schema, **{"$defs": {"shared": self.random.choice([{"type": "integer"}, self.string(), self.any(2)])}})


def change(value, dice):
    """Changes one number, text or word in it, and no names or places of members."""
    if isinstance(value, list) and value:
        i = dice.randrange(len(value))
        return value[:i] + [change(value[i], dice)] + value[i + 1:]
    if isinstance(value, dict) and value:
        key = dice.choice(list(value))
        return {k: change(v, dice) if k == key else v for k, v in value.items()}
    if isinstance(value, bool) or value is None:
        return dice.choice([True, False, None])
    if isinstance(value, int):
        return value + dice.choice([1, -1, 10, -10, 100, -value, 10**18])
    if isinstance(value, float):
        return value + dice.choice([0.25, -0.25, 1.5, -100.5])
    if isinstance(value, str):
        i = dice.randrange(len(value) + 1)
        return value[:i] + dice.choice(["", "a", "9", "é", "-", "b"]) + value[i + dice.randrange(2):]
    return value


def is_rounded(text):
    """Whether a float of the text has more digits than Python's: it compares limits with what is left."""
    lengths = []
    json.loads(text, parse_float=lambda digits: lengths.append(len(digits)))
    return max(lengths, default=0) > 15


def has_fractions_of_integers(value):
    """Numbers that grammars write in another form: 2.0 and -0 for integers, exponents."""
    if isinstance(value, float):
        return value == int(value) if abs(value) < 1e16 else True
    if isinstance(value, dict):
        return any(map(has_fractions_of_integers, value.values()))
    return isinstance(value, list) and any(map(has_fractions_of_integers, value))


class Texts:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        encoding="utf-8")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")


def main():
    texts, first = Texts(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    made = changed = compiled = failures = 0
    for seed in range(first, first + (int(sys.argv[3]) if len(sys.argv) > 3 else 400)):
        schema = Schemas(seed).root()
        written, dice = json.dumps(schema, ensure_ascii=False), random.Random(seed)
        if texts.ask("S " + written) != "ok":
            continue
        compiled += 1
        valid = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        for i in range(12):
            answer = texts.ask("G %d" % (seed * 100 + i))
            if answer == "long":
                continue
            text = bytes.fromhex(answer).decode()
            value = json.loads(text)
            if "0000-" in text:  # a year of RFC 3339, but none of Python
                continue
            if is_rounded(text):
                continue
            made += 1
            if not valid.is_valid(value):
                failures += 1
                print("invalid: %s is no text of %s" % (text, written))
            for _ in range(4):
                other = change(copy.deepcopy(value), dice)
                line = json.dumps(other, ensure_ascii=False, separators=(",", ":"))
                if "0000-" in line or has_fractions_of_integers(other) or "e" in line.lower() and any(c.isdigit() for c in line):
                    continue
                changed += 1
                accepted, wanted = texts.ask("T " + line) == "1", valid.is_valid(other)
                if accepted != wanted:
                    failures += 1
                    print("%s: %s by %s" % ("accepted" if accepted else "refused", line, written))
    print("%d schemas, %d texts, %d changed ones, %d failures" % (compiled, made, changed, failures))
    assert compiled and made and changed
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
