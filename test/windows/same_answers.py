"""The program for Windows, run by wine, gives the answers of the one for Linux.

    same_answers.py LINUX-PROGRAM EMULATOR WINDOWS-PROGRAM MODEL...
"""

import json
import subprocess
import sys

PROMPTS = [
    "What is the capital of France?", "Why is the sky blue?", "Count from one to ten.",
    "Write a haiku about rain.", "def fibonacci(n):", "int main(void) {", "SELECT name FROM",
    "Explain photosynthesis to a child.", "List three primes.", "Ein Satz auf Deutsch: äöüß",
    "日本語で挨拶してください。", "Translate to French: good morning", "1 + 1 =", "Once upon a time",
    "Name a colour. 🎨", "What is a mutex?", "Write JSON with two keys.", "Tell me a joke.",
    "Who wrote Hamlet?", "How do I boil an egg?",
]


def answers(command, model):
    found = []
    for i, prompt in enumerate(PROMPTS):
        chain = ["none", "ngram", "mxfp4"][i % 3]
        done = subprocess.run(
            [*command, "run", model, "-p", prompt, "--json", "--max-tokens", "24", "--chain", chain],
            stdout=subprocess.PIPE, check=True)
        answer = json.loads(done.stdout)
        found.append((prompt, answer["text"], answer["generated_tokens"]))
    return found


def main():
    linux, emulator, windows, *models = sys.argv[1:]
    different = 0
    for model in models:
        for there, here in zip(answers([linux], model), answers([emulator, windows], model)):
            if there != here:
                different += 1
                print("%s: %r\n  Linux:   %r\n  Windows: %r" % (model, *there[:2], here[1]))
    print("%d of %d answers differ" % (different, len(models) * len(PROMPTS)))
    sys.exit(different > 0 or not models)


main()
