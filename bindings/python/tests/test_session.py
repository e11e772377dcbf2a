"""Sessions: reading, streaming, leaving early, threads, closing in any order, fork()."""

import asyncio
import gc
import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest

from cases import PROMPT, TINY, Case, real_model, riffle
from riffle import Finish

LONG = {"ignore_eos": True, "max_tokens": 0}


class Grammars(Case):
    def test_answers_are_of_the_grammar(self):
        with riffle.Grammar(self.model, 'root ::= [a-z]{3} " " [a-z]{2} "!"') as grammar:
            session = self.session()
            answer = session.generate(PROMPT, grammar=grammar).read()
            self.assertRegex(answer, r"\A[a-z]{3} [a-z]{2}!\Z")
            self.assertIs(session.finish()[0], Finish.STOP)
        with self.assertRaises(riffle.ArgumentError):
            session.generate(grammar=grammar).read()

    def test_json_schema(self):
        schema = {"type": "array", "items": {"enum": ["a", 7]}, "minItems": 2, "maxItems": 3}
        grammar = riffle.Grammar(self.model, json_schema=schema)
        found = json.loads(self.session().generate(PROMPT, grammar=grammar).read())
        self.assertTrue(2 <= len(found) <= 3 and set(found) <= {"a", 7})
        grammar = riffle.Grammar(self.model, json_schema={"const": [0.1, 2**64]})
        self.assertEqual(json.loads(self.session().generate(PROMPT, grammar=grammar).read()), [0.1, 2**64])
        riffle.Grammar(self.model, json_schema=True).close()
        with self.assertRaisesRegex(riffle.FormatError, "no JSON meets the schema"):
            riffle.Grammar(self.model, json_schema=False)

    def test_errors(self):
        with self.assertRaisesRegex(riffle.FormatError, "line 1, column 10"):
            riffle.Grammar(self.model, 'root ::= "')
        with self.assertRaises(riffle.UnsupportedError):
            riffle.Grammar(self.model, json_schema={"not": {}})
        with self.assertRaises(riffle.ArgumentError):
            riffle.Grammar(self.model)


class Reading(Case):
    def test_prefill_rewind_and_stats(self):
        session = self.session()
        n = session.prefill(PROMPT)
        self.assertEqual(session.tokens, self.model.tokenize(PROMPT, bos=True))
        self.assertEqual((len(session.tokens), session.n_ctx), (n, 256))
        session.prefill([300, 301])
        session.rewind(2)
        self.assertEqual(len(session.tokens), 2)
        self.assertEqual(session.stats.prefill_tokens, n + 2)
        session.reset_stats()
        self.assertEqual(session.stats.prefill_tokens, 0)
        self.assertEqual(session.stats.levels[-1].name, "target")

    def test_logits_and_scores_agree_with_the_greedy_choice(self):
        session = self.session()
        session.prefill(PROMPT)
        logits = session.logits()
        self.assertEqual((len(logits), logits.typecode), (512, "f"))
        best = max(range(512), key=logits.__getitem__)
        n = len(session.tokens)
        self.assertEqual(session.step(1), [best])
        session.rewind(n)
        (score,) = session.score([best])
        self.assertLess(score, 0)
        self.assertEqual(len(self.session().score(self.model.tokenize(PROMPT))), n - 2)

    def test_progress_and_exceptions_in_it(self):
        calls = []
        session = self.session(n_ctx=600, progress=lambda *report: calls.append(report))
        session.prefill(range(260, 500))
        session.prefill(range(200, 500))
        self.assertIn(("prefill", 0, 300), calls)
        self.assertEqual(calls[-1], ("prefill", 300, 300))

        def fail(stage, done, total):
            if done:
                raise LookupError("mine")

        failing = self.session(n_ctx=600, progress=fail)
        with self.assertRaisesRegex(LookupError, "mine"):
            failing.prefill([300] * 500)
        self.assertLess(len(failing.tokens), 500)
        self.assertEqual(failing.step(1), failing.tokens[-1:])

    def test_a_callback_cannot_use_its_session(self):
        errors = []

        def call(stage, done, total):
            for wrong in (lambda: session.rewind(0), lambda: session.tokens, session.close):
                with self.assertRaises(riffle.ArgumentError) as caught:
                    wrong()
                errors.append(str(caught.exception))

        session = self.session(n_ctx=600, progress=call)
        session.prefill([300] * 500)
        self.assertGreaterEqual(len(errors), 3)
        self.assertEqual(len(session.tokens), 500)

    def test_errors(self):
        session = self.session(n_ctx=32)
        with self.assertRaisesRegex(riffle.ContextError, "33"):
            session.prefill([300] * 33)
        with self.assertRaises(riffle.ArgumentError):
            session.rewind(1)
        with self.assertRaises(riffle.ArgumentError):
            session.set_sampling(riffle.Sampling(top_p=2))
        with self.assertRaises(riffle.ArgumentError):
            session.generate(stop="text")
        with self.assertRaises(riffle.ArgumentError):
            session.step(0)
        with self.assertRaisesRegex(riffle.FileError, "nothing"):
            session.load(self.folder / "nothing")
        with self.assertRaises(riffle.ArgumentError):
            next(session.generate())  # nothing to continue
        self.assertEqual(session.prefill([300]), 1)


class Streaming(Case):
    def test_pieces_are_the_text_of_the_tokens(self):
        session = self.session()
        stream = session.generate(PROMPT, max_tokens=40, ignore_eos=True)
        pieces = list(stream)
        self.assertEqual((len(stream.tokens), stream.finish), (40, Finish.LENGTH))
        self.assertEqual(self.model.detokenize(session.tokens[-40:]), "".join(pieces))
        self.assertGreater(len(pieces), 10)
        self.assertEqual(list(stream), [])
        self.assertEqual(session.finish()[0], Finish.LENGTH)

    def test_seeds_repeat(self):
        sampling = riffle.Sampling(temperature=1.5, seed=7)
        texts = []
        for _ in range(2):
            session = self.session(sampling=sampling)
            texts.append(session.generate(PROMPT, max_tokens=30).read())
        greedy = self.session().generate(PROMPT, max_tokens=30).read()
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], greedy)

    def test_stop_texts(self):
        whole = self.session().generate(PROMPT, max_tokens=30).read()
        stop = whole[20:24]
        session = self.session()
        stream = session.generate(PROMPT, max_tokens=30, stop=[stop, "\x01never"])
        self.assertEqual(stream.read(), whole[: whole.index(stop)])
        self.assertEqual(stream.finish, Finish.STOP)

    def test_a_full_context_is_explained(self):
        stream = self.session(n_ctx=32).generate(PROMPT, **LONG)
        stream.read()
        self.assertEqual(stream.finish, Finish.LENGTH)
        self.assertIn("32", stream.sentence)

    def test_leaving_early_ends_after_what_was_read(self):
        session = self.session()
        n = session.prefill(PROMPT)
        pieces = []
        for piece in session.generate(**LONG):
            pieces.append(piece)
            if len(pieces) == 5:
                break
        told = session.tokens[n:]  # at once: the stream is gone
        self.assertEqual(self.model.detokenize(told), "".join(pieces))
        self.assertEqual(session.finish()[0], Finish.CANCELLED)
        with session.generate(**LONG) as stream:
            first = next(stream)
            with self.assertRaisesRegex(riffle.ArgumentError, "in use"):
                session.rewind(0)
        self.assertEqual(list(stream), [])
        self.assertTrue(first)
        session.rewind(0)

    def test_a_loop_that_is_left_closes_a_stream_in_a_variable(self):
        session = self.session()
        stream = session.generate(PROMPT, **LONG)
        for piece in stream:
            break
        session.rewind(0)  # the session is free, though `stream` is not
        self.assertEqual((list(stream), stream.finish), ([], Finish.CANCELLED))
        failing = session.generate(PROMPT, **LONG)
        with self.assertRaises(KeyError):
            for piece in failing:
                raise KeyError(piece)
        session.rewind(0)

    def test_generators_close_it(self):
        session = self.session()

        def lines():
            yield from session.generate(PROMPT, **LONG)

        generator = lines()
        list(itertools.islice(generator, 3))
        generator.close()
        session.rewind(0)

    def test_a_stream_keeps_its_session(self):
        stream = riffle.Session(self.model, n_ctx=64).generate(PROMPT, max_tokens=5)
        gc.collect()
        self.assertTrue(stream.read())

    def test_an_unread_stream_holds_nothing(self):
        session = self.session()
        stream = session.generate(PROMPT)
        session.rewind(0)
        stream.close()
        self.assertEqual(list(stream), [])

    def test_cancel_from_a_thread(self):
        session = self.session()
        with session.generate(PROMPT, **LONG) as stream:
            next(stream)
            thread = threading.Thread(target=session.cancel)
            thread.start()
            thread.join()
            rest = list(stream)
        self.assertEqual(stream.finish, Finish.CANCELLED)
        self.assertLessEqual(len(rest), 2)

    def test_closing_with_an_open_stream(self):
        session = self.session()
        stream = session.generate(PROMPT, **LONG)
        next(stream)
        session.close()
        self.assertEqual(list(stream), [])
        with self.assertRaisesRegex(riffle.ArgumentError, "closed"):
            session.tokens

    def test_unicode_comes_in_whole_characters(self):
        with riffle.Model(real_model(), threads=2) as model, riffle.Session(model) as session:
            text = "".join(session.chat([("user", "Repeat: 🙂 你好 größer")], max_tokens=40))
            self.assertNotIn("\ufffd", text)

    def test_chat(self):
        with riffle.Model(real_model(), threads=2) as model, riffle.Session(model) as session:
            messages = [{"role": "user", "content": "What is the capital of France?"}]
            stream = session.chat(messages, max_tokens=4)
            answer = stream.read()
            self.assertEqual(len(stream.tokens), 4)
            read = session.stats.prefill_tokens
            messages += [
                {"role": "assistant", "content": answer},
                {"role": "user", "content": "And of Italy?"},
            ]
            self.assertLess(session.chat_prefill(messages), read)


class Asynchronous(Case):
    def test_pieces_are_those_of_a_stream(self):
        expected = self.session().generate(PROMPT, max_tokens=30).read()

        async def read():
            stream = self.session().generate_async(PROMPT, max_tokens=30)
            self.assertEqual((stream.tokens, stream.finish), ([], Finish.NONE))
            text = await stream.read()
            self.assertEqual((len(stream.tokens), stream.finish), (30, Finish.LENGTH))
            return text

        self.assertEqual(asyncio.run(read()), expected)

    def test_the_event_loop_goes_on_meanwhile(self):
        inside, leave = threading.Event(), threading.Event()

        def wait(stage, done, total):
            inside.set()
            leave.wait()

        async def read():
            session = self.session(n_ctx=600, progress=wait)
            task = asyncio.ensure_future(session.generate_async([300] * 500, max_tokens=3).read())
            while not inside.is_set():
                await asyncio.sleep(0)
            leave.set()  # only a running loop comes here
            return await task

        self.assertTrue(asyncio.run(read()))

    def test_leaving_the_loop_frees_the_session(self):
        async def read():
            session = self.session()
            stream = session.generate_async(PROMPT, **LONG)
            async for piece in stream:
                break
            session.rewind(0)
            async with session.generate_async(PROMPT, **LONG) as other:
                self.assertTrue(await other.__anext__())
            session.rewind(0)
            self.assertEqual(await stream.read() + await other.read(), "")

        asyncio.run(read())

    def test_a_cancelled_task_frees_the_session(self):
        for prompt in (PROMPT, [300] * 500):  # in the answer; while the prompt is read

            async def read(prompt=prompt):
                begun = asyncio.Event()
                loop = asyncio.get_running_loop()

                def begin(*report):
                    loop.call_soon_threadsafe(begun.set)
                    time.sleep(0.01)

                session = self.session(n_ctx=600, progress=begin)

                async def work():
                    async for piece in session.generate_async(prompt, **LONG):
                        begun.set()

                task = asyncio.ensure_future(work())
                await begun.wait()
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                session.rewind(0)

            asyncio.run(read())

    def test_errors_reach_the_reader(self):
        async def read():
            await self.session(n_ctx=32).generate_async([300] * 33).read()

        with self.assertRaisesRegex(riffle.ContextError, "33"):
            asyncio.run(read())


class Copies(Case):
    def test_fork(self):
        session = self.session()
        session.prefill(PROMPT)
        copy = session.fork()
        ours = session.generate(max_tokens=20).read()
        self.assertEqual(copy.generate(max_tokens=20).read(), ours)
        session.close()
        copy.rewind(3)
        self.assertEqual(len(copy.tokens), 3)
        copy.close()

    def test_save_and_load(self):
        session, file = self.session(), self.folder / "state"
        session.prefill(PROMPT)
        session.save(file)
        other = self.session()
        other.load(file)
        self.assertEqual(other.tokens, session.tokens)
        self.assertEqual(other.generate(max_tokens=9).read(), session.generate(max_tokens=9).read())

    def test_two_sessions_in_threads(self):
        expected = self.session().generate(PROMPT, max_tokens=60).read()
        found = {}

        def work(i):
            with riffle.Session(self.model, n_ctx=256, threads=1) as session:
                found[i] = session.generate(PROMPT, max_tokens=60).read()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, {0: expected, 1: expected})

    def test_one_session_in_two_threads_is_an_error(self):
        inside, leave = threading.Event(), threading.Event()

        def wait(stage, done, total):
            inside.set()
            leave.wait()

        session = self.session(n_ctx=600, progress=wait)
        thread = threading.Thread(target=session.prefill, args=([300] * 500,))
        thread.start()
        inside.wait()
        with self.assertRaisesRegex(riffle.ArgumentError, "in use"):
            session.rewind(0)
        leave.set()
        thread.join()
        self.assertEqual(len(session.tokens), 500)

    def test_closing_cancels_a_call_of_another_thread(self):
        inside, caught = threading.Event(), []

        def slow(stage, done, total):
            inside.set()
            time.sleep(0.02)

        session = self.session(n_ctx=500, progress=slow)

        def work():
            try:
                while True:
                    session.prefill([300] * 500)
                    session.rewind(0)
            except riffle.RiffleError as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        inside.wait()
        session.close()
        thread.join()
        self.assertIsInstance(caught[0], (riffle.CancelledError, riffle.ArgumentError))


class Closing(Case):
    def test_a_model_closes_its_sessions(self):
        model = riffle.Model(TINY)
        session = riffle.Session(model, n_ctx=64)
        fork = session.fork()
        model.close()
        model.close()
        for closed in (session, fork):
            with self.assertRaisesRegex(riffle.ArgumentError, "closed"):
                closed.prefill([300])
            closed.close()
        with self.assertRaisesRegex(riffle.ArgumentError, "closed"):
            model.tokenize("a")

    def test_a_session_keeps_its_model(self):
        session = riffle.Session(riffle.Model(TINY), n_ctx=64)
        gc.collect()
        self.assertEqual(session.prefill([300]), 1)

    def test_a_failed_opening_leaves_nothing_to_close(self):
        for _ in range(3):
            with self.assertRaises(riffle.ArgumentError):
                riffle.Session(self.model, n_ctx=-1)
        gc.collect()

    def test_cycles_are_collected_in_any_order(self):
        for order in itertools.permutations(range(3)):
            model = riffle.Model(TINY)
            session = riffle.Session(model, n_ctx=64)
            stream = session.generate([300, 301], **LONG)
            next(stream)
            cycle = [(model, session, stream)[i] for i in order]
            cycle.append(cycle)
            for part in (model, session, stream):
                part.cycle = cycle
            del cycle, part, model, session, stream
            gc.collect()


class Processes(Case):
    """Programs that end, are interrupted or fork while a generation is open."""

    def run_program(self, text):
        program = (
            f"import os, signal, sys, warnings, riffle\nmodel = riffle.Model({str(TINY)!r}, threads=2)\n"
        )
        # A shell's background jobs ignore SIGINT, and Python keeps to that.
        program += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        program += "session = riffle.Session(model, n_ctx=512)\n" + textwrap.dedent(text)
        return subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=300
        )

    def test_the_interpreter_ends_with_an_open_stream(self):
        result = self.run_program("""
            stream = session.generate([300, 301], ignore_eos=True)
            next(stream)
            print("end")
            """)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "end\n", ""))

    def test_ctrl_c_in_a_stream(self):
        result = self.run_program("""
            try:
                for piece in session.generate([300, 301], ignore_eos=True):
                    os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                session.rewind(0)
                print("usable")
            """)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "usable\n", ""))

    def test_ctrl_c_in_a_long_prefill(self):
        result = self.run_program("""
            session = riffle.Session(model, n_ctx=512,
                                     progress=lambda *r: os.kill(os.getpid(), signal.SIGINT))
            try:
                session.prefill([300] * 500)
            except KeyboardInterrupt:
                print(len(session.tokens) < 500)
            """)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "True\n", ""))

    def test_a_forked_child(self):
        result = self.run_program("""
            session.prefill([300, 301])
            stream = session.generate(ignore_eos=True)
            next(stream)
            warnings.simplefilter("ignore")  # Python 3.12: fork() of a process with threads
            child = os.fork()
            if child == 0:
                try:
                    session.fork()
                except riffle.SystemServiceError as error:
                    assert "fork()" in str(error), error
                    assert model.tokenize("a")
                    stream.close(), session.close(), model.close()
                    print("child", flush=True)
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            next(stream)
            print("parent")
            """)
        self.assertEqual(
            (result.returncode, result.stdout, result.stderr), (0, "child\nparent\n", "")
        )


if __name__ == "__main__":
    unittest.main()
