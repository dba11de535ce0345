"""Prompts, events, limits of lines, and the choice of a session."""
import asyncio
import os
import random
import stat
import sys
import unittest

from base import WithProgram, add
from parallax_sdk import (
    Agent, InputRejectedError, ParallaxError, ProgramExitedError, ProgramNotFoundError, StartError, TurnCancelledError,
    TurnError)
from scripted import PROGRAM, answer, begun, call, is_running


class Prompts(WithProgram):
    async def test_events_are_streamed_and_the_last_answer_is_the_result(self):
        model = self.model(answer("First. ", call("list_directory", dir_path=".")), answer("Grüße 👋"), answer("more"))
        session = self.session(self.agent(model, instructions="Say 👋.", model="gemini-2.5-flash"))
        turn = session.send_stream("ä\n\u2028\"x\"")
        events = [event async for event in turn]
        self.assertEqual([event["content"] for event in events if event["type"] == "message"],
                         ["ä\n\u2028\"x\"", "First. ", "Grüße 👋"])
        self.assertEqual(events[-1]["type"], "result")
        self.assertEqual((await turn.result()).text, "Grüße 👋")
        self.assertTrue("Say 👋." in model.requests()[0])
        result = await session.send("more")
        self.assertEqual((result.text, result.session_id), ("more", session.session_id))
        self.assertEqual(result.stats["models"]["gemini-2.5-flash"]["input_tokens"], 300)

    async def test_answer_of_megabytes_arrives_whole(self):
        text = random.Random(1).randbytes(1_000_000).hex()
        session = self.session(self.agent(self.model(answer(text))))
        self.assertEqual((await session.send("go")).text, text)

    async def test_text_of_a_broken_attempt_is_not_in_the_result(self):
        broken = {"chunks": [{"text": "half 👋 and"}, {"cut": "reset"}]}
        session = self.session(self.agent(self.model(broken, answer("whole"))))
        self.assertEqual((await session.send("go")).text, "whole")

    async def test_prompt_with_a_slash_is_sent_as_text(self):
        model = self.model(answer("done"))
        session = self.session(self.agent(model))
        self.assertEqual((await session.send("/etc/hosts has what?")).text, "done")
        self.assertTrue("/etc/hosts has what?" in model.requests()[0])
        self.assertIn("sessionId", (await session.command("/stats")).structured)
        with self.assertRaisesRegex(InputRejectedError, "/nope"):
            await session.command("/nope")

    async def test_failed_turn_raises_after_its_events(self):
        refused = {"status": 400, "error": {"code": 400, "message": "no way", "status": "INVALID_ARGUMENT"}}
        session = self.session(self.agent(self.model(refused, answer("fine"))))
        kinds = []
        with self.assertRaisesRegex(TurnError, "400") as caught:
            async for event in session.send_stream("go"):
                kinds.append(event["type"])
        self.assertEqual(kinds[-1], "result")
        self.assertEqual((caught.exception.type, caught.exception.status), ("ApiError", 400))
        self.assertEqual((await session.send("again")).text, "fine")

    async def test_answer_is_corrected_to_match_a_schema(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        model = self.model(answer("five"), answer('{"n": 5}'), answer('{"n": 6}'))
        session = self.session(self.agent(model, output_schema=schema))
        self.assertEqual((await session.send("go")).structured, {"n": 5})
        self.assertEqual((await session.send("go")).structured, {"n": 6})

    async def test_model_and_mode_change(self):
        model = self.model(answer("done"))
        session = self.session(self.agent(model))
        await session.set_model("gemini-2.5-pro")
        await session.set_mode("plan")
        self.assertEqual((session.model, session.mode), ("gemini-2.5-pro", "plan"))
        with self.assertRaisesRegex(InputRejectedError, "unknown mode"):
            await session.set_mode("fast")
        self.assertEqual(list((await session.send("go")).stats["models"]), ["gemini-2.5-pro"])

    async def test_changes_are_undone(self):
        model = self.model(answer(call("write_file", file_path="a.txt", content="x")), answer("done"))
        session = self.session(self.agent(model, mode="auto_edit"))
        await session.send("write")
        path = os.path.join(model.project, "a.txt")
        self.assertTrue(os.path.exists(path))
        undone = await session.undo()
        self.assertEqual([os.path.basename(name) for name in undone["restored"]], ["a.txt"])
        self.assertFalse(os.path.exists(path))
        self.assertGreater((await session.context())["window"], 0)

    async def test_malformed_line_becomes_an_error_event(self):
        session = self.session(self.agent(self.model(answer("done"))))
        await session.start()
        session.write({"type": "nonsense"})
        messages = [event["message"] async for event in session.send_stream("go") if event["type"] == "error"]
        self.assertEqual(len(messages), 1)
        self.assertIn("nonsense", messages[0])


class Cancelling(WithProgram):
    async def test_interrupted_turn_keeps_its_text_and_the_session_continues(self):
        session = self.session(self.agent(self.model(begun("half"), answer("whole"))))
        turn = session.send_stream("go")
        texts = []
        with self.assertRaises(TurnCancelledError):
            async for event in turn:
                if event["type"] == "message" and event["role"] == "assistant":
                    texts.append(event["content"])
                    turn.interrupt()
        self.assertEqual(texts, ["half"])
        self.assertEqual((await session.send("again")).text, "whole")

    async def test_interrupt_directly_behind_the_prompt_ends_the_turn(self):
        session = self.session(self.agent(self.model(begun("half"), begun("half"), answer("whole"))))
        await session.start()
        for _ in range(2):
            turn = asyncio.ensure_future(session.send("go"))
            # The line of the prompt is written, and nothing has come back.
            await asyncio.sleep(0)
            session.interrupt()
            with self.assertRaises(TurnCancelledError):
                await asyncio.wait_for(turn, 10)

    async def test_cancelled_task_interrupts_the_turn(self):
        model = self.model(begun("half"), answer("whole"))
        session = self.session(self.agent(model))
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(session.send("go"), 1)
        self.assertEqual((await session.send("again")).text, "whole")

    async def test_dropped_iterator_interrupts_the_turn(self):
        session = self.session(self.agent(self.model(begun("half"), answer("whole"))))
        async for event in session.send_stream("go"):
            if event["type"] == "message" and event["role"] == "assistant":
                break
        self.assertEqual((await session.send("again")).text, "whole")

    async def test_cancelled_start_leaves_the_session_usable(self):
        slow = asyncio.Event()

        async def instructions(session):
            await slow.wait()
            return "Be brief."

        session = self.session(self.agent(self.model(answer("whole")), instructions=instructions))
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(session.send("go"), 0.1)
        slow.set()
        self.assertEqual((await session.send("again")).text, "whole")

    async def test_close_during_the_start_starts_nothing(self):
        async def instructions(session):
            await asyncio.sleep(60)

        session = self.session(self.agent(self.model(), instructions=instructions, tools=[add]))
        sending = asyncio.ensure_future(session.send("go"))
        await asyncio.sleep(0.1)
        await session.close()
        with self.assertRaisesRegex(ParallaxError, "closed"):
            await sending
        self.assertIsNone(session._program)

    async def test_second_prompt_during_a_turn_is_refused(self):
        session = self.session(self.agent(self.model(begun("half"))))
        turn = session.send_stream("go")
        await turn.__anext__()
        with self.assertRaisesRegex(ParallaxError, "a turn is running"):
            await session.send("more")
        await turn.aclose()

    async def test_close_during_a_turn_ends_its_reader(self):
        session = self.session(self.agent(self.model(begun("half"))))
        sending = asyncio.ensure_future(session.send("go"))
        await asyncio.sleep(0.5)
        await session.close()
        with self.assertRaises(ParallaxError):
            await sending
        with self.assertRaisesRegex(ParallaxError, "closed"):
            await session.send("more")


class Processes(WithProgram):
    async def test_session_is_resumed_by_another_process(self):
        model = self.model(answer("one"), answer("two"))
        agent = self.agent(model)
        async with self.session(agent, "my-session") as first:
            await first.send("remember the word apricot")
        second = await agent.resume_session("my-session")
        self.sessions.append(second)
        self.assertEqual((await second.send("which word?")).text, "two")
        self.assertTrue("apricot" in model.requests()[1])

    async def test_unknown_session_is_reported(self):
        agent = self.agent(self.model())
        with self.assertRaisesRegex(StartError, "no previous sessions") as caught:
            await agent.resume_session("nowhere")
        self.assertEqual(caught.exception.code, 42)

    async def test_missing_key_is_reported(self):
        session = self.session(self.agent(self.model(), env={"GEMINI_API_KEY": "", "GOOGLE_GEMINI_BASE_URL": ""}))
        with self.assertRaises(StartError) as caught:
            await session.send("go")
        self.assertEqual(caught.exception.code, 41)

    async def test_missing_program_is_named(self):
        agent = self.agent(self.model())
        agent.executable = "/nowhere/parallax"
        with self.assertRaisesRegex(ProgramNotFoundError, "program not found: /nowhere/parallax.*Install"):
            await self.session(agent).send("go")

    async def test_missing_directory_is_named(self):
        agent = self.agent(self.model(), cwd="/nowhere/project")
        with self.assertRaisesRegex(NotADirectoryError, "/nowhere/project"):
            await self.session(agent).send("go")

    async def test_unknown_flag_is_reported(self):
        agent = self.agent(self.model(), arguments=["--no-such-flag"])
        with self.assertRaisesRegex(ParallaxError, "no-such-flag"):
            await self.session(agent).send("go")

    async def test_killed_program_ends_the_turn_with_an_error(self):
        session = self.session(self.agent(self.model(begun("half"))))
        with self.assertRaises(ProgramExitedError) as caught:
            async for event in session.send_stream("go"):
                if event["type"] == "message" and event["role"] == "assistant":
                    session._program._process.kill()
        self.assertEqual(caught.exception.exit_code, -9)
        with self.assertRaises(ProgramExitedError):
            await session.send("more")

    async def test_program_ends_with_its_user(self):
        model = self.model(begun("half"))
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../src")
        code = f"""
import asyncio, sys
sys.path.insert(0, {source!r})
from parallax_sdk import Agent
async def main():
    session = Agent(executable={PROGRAM!r}, cwd={model.project!r}, env={model.environment!r}).session()
    async for event in session.send_stream("go"):
        if event["type"] == "message" and event["role"] == "assistant":
            print(session._program.pid, flush=True)
asyncio.run(main())
"""
        user = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
        pid = int(await user.stdout.readline())
        user.kill()
        await user.wait()
        await self.until(lambda: not is_running(pid), "the end of the program")

    async def test_other_output_of_a_wrapper_is_skipped(self):
        model = self.model(answer("done"))
        wrapper = os.path.join(model.root, "wrapper")
        with open(wrapper, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho hello\necho '[1]'\nexec {PROGRAM} \"$@\"\n")
        os.chmod(wrapper, os.stat(wrapper).st_mode | stat.S_IXUSR)
        agent = self.agent(model)
        agent.executable = wrapper
        with self.assertLogs("parallax_sdk", "WARNING") as logged:
            self.assertEqual((await self.session(agent).send("go")).text, "done")
        self.assertEqual(len(logged.output), 2)

    async def test_two_sessions_run_at_once(self):
        one, two = self.model(answer("one")), self.model(answer("two"))
        answers = await asyncio.gather(self.session(self.agent(one)).send("go"), self.session(self.agent(two)).send("go"))
        self.assertEqual([result.text for result in answers], ["one", "two"])

    async def test_close_twice_and_without_a_start(self):
        session = self.session(self.agent(self.model()))
        await session.close()
        await session.close()

    def test_agent_rejects_wrong_values(self):
        with self.assertRaises(TypeError):
            Agent(modle="x")
        with self.assertRaises(ValueError):
            asyncio.run(Agent(instructions="x" * 200_000, executable="/bin/true").session().start())


if __name__ == "__main__":
    unittest.main()
