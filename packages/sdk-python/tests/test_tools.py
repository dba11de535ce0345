"""Custom tools, skills, and approvals."""
import asyncio
import http.client
import json
import os
import time
import unittest

from base import NUMBERS, WithProgram, add
from parallax_sdk import InputRejectedError, ModelVisibleError, ParallaxError, ToolError, TurnCancelledError, skill_dir, tool
from scripted import answer, call


def results(events):
    return [event for event in events if event["type"] == "tool_result"]


class Tools(WithProgram):
    async def run_tool(self, made, arguments, **options):
        """The events of a turn with one call of a tool, and what the model then read."""
        model = self.model(answer(call(f"mcp_sdk_{made.name}", **arguments)), answer("done"))
        session = self.session(self.agent(model, tools=[made], **options))
        events = [event async for event in session.send_stream("go")]
        return events, json.loads(model.requests()[1])

    async def test_model_calls_a_tool_and_reads_its_result(self):
        model = self.model(answer(call("mcp_sdk_add", a=1, b=2)), answer("It is 3."))
        session = self.session(self.agent(model, tools=[add]))
        self.assertEqual((await session.send("1 + 2?")).text, "It is 3.")
        declared, answered = model.requests()
        self.assertTrue("Adds two numbers." in declared)
        self.assertTrue("\\n3\\n" in answered)

    async def test_tool_knows_its_session_and_is_found_behind_a_proxy(self):
        seen = []

        @tool("look", "Looks.")
        async def look(params, context):
            seen.append((params, context.session_id, context.cwd, context.agent.name, context.timestamp.year > 2000))
            return {"größe": [1, "👋"]}

        # Nothing answers there.
        proxy = "http://127.0.0.1:1"
        _, request = await self.run_tool(look, {}, env={"HTTP_PROXY": proxy, "http_proxy": proxy})
        text = json.dumps(request, ensure_ascii=False)
        self.assertTrue("größe" in text and "👋" in text)
        self.assertEqual(seen, [({}, self.sessions[0].session_id, self.models[0].project, "sdk", True)])

    async def test_wrong_arguments_never_reach_the_function(self):
        called = []
        made = tool("add", "Adds.", NUMBERS)(lambda params, context: called.append(params))
        events, _ = await self.run_tool(made, {"a": "one"})
        self.assertEqual(results(events)[0]["status"], "error")
        self.assertEqual(called, [])

    async def test_visible_error_goes_to_the_model(self):
        @tool("fail", "Fails.")
        def fail(params, context):
            raise ModelVisibleError("only on Mondays")

        events, request = await self.run_tool(fail, {})
        self.assertEqual(results(events)[0]["status"], "error")
        self.assertTrue("only on Mondays" in json.dumps(request))

    async def test_other_error_ends_the_turn(self):
        @tool("fail", "Fails.")
        def fail(params, context):
            raise KeyError("apricot")

        model = self.model(answer(call("mcp_sdk_fail")), answer("done"), answer("done"))
        session = self.session(self.agent(model, tools=[fail]))
        with self.assertRaises(ToolError) as caught:
            await session.send("go")
        self.assertIsInstance(caught.exception.__cause__, KeyError)
        self.assertEqual(caught.exception.tool, "fail")
        self.assertFalse("apricot" in "".join(model.requests()))
        self.assertEqual((await session.send("more")).text, "done")

    async def test_other_error_goes_to_the_model_if_wanted(self):
        @tool("fail", "Fails.", send_errors_to_model=True)
        def fail(params, context):
            raise KeyError("visible")

        _, request = await self.run_tool(fail, {})
        self.assertTrue("KeyError: 'visible'" in json.dumps(request))

    async def test_result_that_is_not_json_is_an_error_of_the_tool(self):
        made = tool("strange", "Strange.")(lambda params, context: object())
        with self.assertRaises(ToolError):
            await self.run_tool(made, {})

    async def test_large_result_arrives(self):
        made = tool("much", "Much.")(lambda params, context: "0123456789" * 1_000_000)
        events, _ = await self.run_tool(made, {})
        self.assertEqual(results(events)[0]["status"], "success")

    async def test_progress_is_an_event_and_extends_the_time_limit(self):
        @tool("slow", "Slow.")
        async def slow(params, context):
            for step in range(1, 4):
                await asyncio.sleep(0.5)
                await context.progress(step, 3, f"step {step}")
            return "ready"

        events, request = await self.run_tool(slow, {}, tool_timeout=1.0)
        progress = [event for event in events if event["type"] == "tool_progress"]
        self.assertIn("step 1", [event.get("message") for event in progress])
        self.assertTrue("ready" in json.dumps(request))

    async def test_function_that_blocks_does_not_block_events(self):
        ticks = []

        async def tick():
            while True:
                ticks.append(1)
                await asyncio.sleep(0.05)

        made = tool("block", "Blocks.")(lambda params, context: time.sleep(0.6))
        ticking = asyncio.ensure_future(tick())
        await self.run_tool(made, {})
        ticking.cancel()
        self.assertGreater(len(ticks), 8)

    async def test_interrupt_cancels_a_running_tool(self):
        started, cancelled = asyncio.Event(), asyncio.Event()

        @tool("slow", "Slow.")
        async def slow(params, context):
            started.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.set()
                raise

        model = self.model(answer(call("mcp_sdk_slow")), answer("done"))
        session = self.session(self.agent(model, tools=[slow]))
        turn = asyncio.ensure_future(session.send("go"))
        await asyncio.wait_for(started.wait(), 10)
        session.interrupt()
        with self.assertRaises(TurnCancelledError):
            await turn
        await asyncio.wait_for(cancelled.wait(), 5)
        self.assertEqual((await session.send("more")).text, "done")

    async def test_close_cancels_a_running_tool(self):
        started = asyncio.Event()

        @tool("slow", "Slow.")
        async def slow(params, context):
            started.set()
            await asyncio.sleep(60)

        session = self.session(self.agent(self.model(answer(call("mcp_sdk_slow"))), tools=[slow]))
        turn = asyncio.ensure_future(session.send("go"))
        await asyncio.wait_for(started.wait(), 10)
        begin = time.monotonic()
        await session.close()
        self.assertLess(time.monotonic() - begin, 5)
        with self.assertRaises(Exception):
            await turn

    async def test_sessions_of_one_agent_run_at_once_with_their_own_tools(self):
        names = ["one", "two", "three"]
        calls = [{**answer(call("mcp_sdk_who", name=name)), "match": {"promptContains": f"I am {name}."}} for name in names]
        ends = [{**answer(f"done {name}"), "match": {"lastToolResultContains": f"seen {name}."}} for name in names]
        sessions, together = {}, asyncio.Event()

        @tool("who", "Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
        async def who(params, context):
            sessions[params["name"]] = context.session
            if len(sessions) == len(names):
                together.set()
            await asyncio.wait_for(together.wait(), 10)
            return f"seen {params['name']}."

        agent = self.agent(self.model(*calls, *ends), tools=[who])
        own = {name: self.session(agent) for name in names}
        answers = await asyncio.gather(*(own[name].send(f"I am {name}.") for name in names))
        self.assertEqual([result.text for result in answers], [f"done {name}" for name in names])
        self.assertEqual(sessions, own)

    async def test_only_requests_with_the_token_are_answered(self):
        session = self.session(self.agent(self.model(), tools=[add]))
        await session.start()
        entry = session._server.entry()
        host = entry["httpUrl"].split("/")[2]
        ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})

        def status(headers, body=ping, method="POST"):
            connection = http.client.HTTPConnection(host, timeout=5)
            connection.request(method, "/mcp", body, headers)
            response = connection.getresponse()
            response.read()
            connection.close()
            return response.status

        own = entry["headers"]
        for headers, expected in [
                (own, 200), ({}, 401), ({"Authorization": "Bearer x"}, 401), ({**own, "Host": "evil.example"}, 403),
                ({**own, "Origin": "http://evil.example"}, 403), ({**own, "Content-Length": str(1 << 40)}, 413)]:
            self.assertEqual(await asyncio.to_thread(status, headers), expected, headers)
        self.assertEqual(await asyncio.to_thread(status, own, "{"), 400)
        self.assertEqual(await asyncio.to_thread(status, own, None, "GET"), 405)

    async def test_disabled_server_is_reported(self):
        model = self.model(answer("done"))
        os.mkdir(os.path.join(model.root, "home/.parallax"))
        with open(os.path.join(model.root, "home/.parallax/settings.json"), "w", encoding="utf-8") as file:
            file.write('{"mcp": {"excluded": ["sdk"]}}')
        with self.assertLogs("parallax_sdk", "WARNING") as logged:
            await self.session(self.agent(model, tools=[add])).send("go")
        self.assertIn("`sdk`", logged.output[0])

    def test_wrong_declarations_are_rejected(self):
        with self.assertRaises(ValueError):
            tool("two words", "x")
        with self.assertRaises(ValueError):
            tool("a", "x", {"type": "string"})
        with self.assertRaises(ValueError):
            self.agent(self.model(), tools=[add, add])


class Skills(WithProgram):
    async def test_skill_of_a_directory_is_activated_without_approval(self):
        model = self.model(answer(call("activate_skill", name="review")), answer("done"))
        folder = os.path.join(model.root, "skills/review")
        os.makedirs(folder)
        with open(os.path.join(folder, "SKILL.md"), "w", encoding="utf-8") as file:
            file.write("---\nname: review\ndescription: Use it to review code\n---\nLook twice.\n")
        agent = self.agent(model, skills=[skill_dir(os.path.dirname(folder))])
        await self.session(agent).send("go")
        declared, answered = model.requests()
        self.assertTrue("Use it to review code" in declared)
        self.assertTrue("Look twice." in answered)


class Approvals(WithProgram):
    def writing(self, **options):
        model = self.model(answer(call("write_file", file_path="a.txt", content="x")), answer("done"), answer("more"))
        return model, self.session(self.agent(model, **options))

    async def test_callback_approves(self):
        asked = []

        async def approve(ask):
            asked.append((ask["tool_name"], ask["preview"]["type"]))
            return True

        model, session = self.writing(on_approval=approve)
        await session.send("go")
        self.assertEqual(asked, [("write_file", "diff")])
        self.assertTrue(os.path.exists(os.path.join(model.project, "a.txt")))

    async def test_callback_denies_with_a_reason(self):
        model, session = self.writing(on_approval=lambda ask: {"outcome": "cancel", "feedback": "Use b.txt."})
        await session.send("go")
        self.assertTrue("Use b.txt." in model.requests()[1])
        self.assertEqual(os.listdir(model.project), [])

    async def test_outcome_by_name(self):
        model, session = self.writing(on_approval=lambda ask: "proceed_always")
        await session.send("go")
        self.assertTrue(os.path.exists(os.path.join(model.project, "a.txt")))

    async def test_without_a_callback_calls_are_denied(self):
        model, session = self.writing()
        self.assertEqual((await session.send("go")).text, "done")
        self.assertEqual(os.listdir(model.project), [])
        self.assertTrue("does not approve tool calls" in model.requests()[1])

    async def test_error_of_the_callback_denies_the_call_and_is_raised(self):
        def approve(ask):
            raise RuntimeError("no terminal")

        model, session = self.writing(on_approval=approve)
        with self.assertRaisesRegex(RuntimeError, "no terminal"):
            await session.send("go")
        self.assertEqual(os.listdir(model.project), [])
        self.assertEqual((await session.send("again")).text, "done")

    async def test_unknown_outcome_ends_the_turn(self):
        model, session = self.writing(on_approval=lambda ask: "perhaps")
        with self.assertRaisesRegex(Exception, "perhaps"):
            await asyncio.wait_for(session.send("go"), 20)
        self.assertEqual(os.listdir(model.project), [])

    async def test_answer_without_an_outcome_denies_the_call_and_is_raised(self):
        for given in [{"feedback": "no"}, {"approved": False}, {}, [], [False], {"outcome": None}, 5, 0, object()]:
            with self.subTest(given=given):
                model, session = self.writing(on_approval=lambda ask: given)
                with self.assertRaises(InputRejectedError):
                    await asyncio.wait_for(session.send("go"), 20)
                self.assertEqual(os.listdir(model.project), [])
                self.assertEqual((await session.send("again")).text, "done")

    async def test_rejected_answer_of_a_closed_session_raises_nothing(self):
        def approve(ask):
            raise RuntimeError("no terminal")

        model = self.model(answer("done"))
        session = self.session(self.agent(model, on_approval=approve))
        commands = os.path.join(model.root, "home/.parallax/commands")
        os.makedirs(commands)
        with open(os.path.join(commands, "make.toml"), "w", encoding="utf-8") as file:
            file.write("prompt = '!{touch made}'")
        write = session.write

        def close_after(line):
            number = write(line)
            if line.get("outcome") == "cancel":
                # The program rejects the line, because the request has ended.
                session._fail(ParallaxError("the session is closed"))
            return number

        session.write = close_after
        with self.assertRaisesRegex(RuntimeError, "no terminal"):
            await asyncio.wait_for(session.command("/make"), 20)
        await session.close()
        self.assertIsNone(session._reading.exception())

    async def test_unknown_outcome_for_a_command_is_raised(self):
        for given in ["perhaps", ""]:
            with self.subTest(given=given):
                model = self.model(answer("done"))
                session = self.session(self.agent(model, on_approval=lambda ask: given))
                commands = os.path.join(model.root, "home/.parallax/commands")
                os.makedirs(commands)
                with open(os.path.join(commands, "make.toml"), "w", encoding="utf-8") as file:
                    file.write("prompt = '!{touch made}'")
                with self.assertRaises(InputRejectedError):
                    await asyncio.wait_for(session.command("/make"), 20)
                self.assertEqual(os.listdir(model.project), [])
                self.assertEqual((await session.send("again")).text, "done")

    async def test_interrupt_ends_a_callback_that_waits(self):
        waiting = asyncio.Event()

        async def approve(ask):
            waiting.set()
            await asyncio.sleep(60)

        _, session = self.writing(on_approval=approve)
        turn = asyncio.ensure_future(session.send("go"))
        await asyncio.wait_for(waiting.wait(), 10)
        session.interrupt()
        with self.assertRaises(TurnCancelledError):
            await asyncio.wait_for(turn, 10)
        self.assertEqual(session._asks, {})

    async def test_tool_of_the_agent_can_need_approval(self):
        asked = []
        made = tool("pay", "Pays.", needs_approval=True)(lambda params, context: "paid")
        model = self.model(answer(call("mcp_sdk_pay")), answer("done"))
        agent = self.agent(model, tools=[made], on_approval=lambda ask: asked.append(ask["tool_name"]))
        await self.session(agent).send("go")
        self.assertEqual(asked, ["mcp_sdk_pay"])
        self.assertFalse("paid" in model.requests()[1])

    async def test_question_of_the_model_is_answered(self):
        question = {"question": "Which color?", "header": "Color", "type": "text"}
        model = self.model(answer(call("ask_user", questions=[question])), answer("done"))
        agent = self.agent(model, on_question=lambda ask: {"0": "ultramarine"})
        await self.session(agent).send("go")
        self.assertTrue("ultramarine" in model.requests()[1])


if __name__ == "__main__":
    unittest.main()
