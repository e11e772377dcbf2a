"""A chat in a terminal: python3 chat.py MODEL. Ctrl-C ends an answer, and at the prompt the chat."""

import sys

import riffle


def print_answer(session, messages):
    """Returns the answer, or what there is of it."""
    answer = ""
    try:
        stream = session.chat(messages)
        for piece in stream:
            answer += piece
            print(piece, end="", flush=True)
        print(stream.sentence and "\n" + stream.sentence)
    except KeyboardInterrupt:  # has ended the stream
        print()
    except riffle.RiffleError as error:  # a full context, for example
        print(error)
    return answer


def main(path):
    sampling = riffle.Sampling(temperature=0.7)
    with riffle.Model(path) as model, riffle.Session(model, sampling=sampling) as session:
        messages = []  # the whole conversation; only what is new is read
        while True:
            question = [("user", input("> "))]
            answer = print_answer(session, messages + question)
            if answer:  # else the turn is forgotten
                messages += question + [("assistant", answer)]


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except (EOFError, KeyboardInterrupt):
        print()
    except (IndexError, riffle.RiffleError) as error:
        sys.exit(str(error) if len(sys.argv) > 1 else "usage: chat.py MODEL")
