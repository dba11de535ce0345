"""What the tests share: an agent with a scripted model, and checks after each test that nothing is left."""
import asyncio
import os
import sys
import tempfile
import unittest

import scripted

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../src"))

from parallax_sdk import Agent, tool  # noqa: E402

NUMBERS = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}


@unittest.skipUnless(os.access(scripted.PROGRAM, os.X_OK) and os.access(scripted.SERVER, os.X_OK),
                     "build the program and the model server first")
class WithProgram(unittest.IsolatedAsyncioTestCase):
    """After a test, the processes have ended and no files are left."""

    async def asyncSetUp(self):
        self.models, self.sessions = [], []
        tempfile.tempdir = None

    async def asyncTearDown(self):
        tempfile.tempdir = None
        pids = [session._program.pid for session in self.sessions if session._program is not None]
        for session in self.sessions:
            await session.close()
        for pid in pids:
            self.assertFalse(scripted.is_running(pid), "the program runs on")
        for model in self.models:
            left = [name for name in os.listdir(model.temporary) if name.startswith("parallax-sdk")]
            self.assertEqual(left, [])
            self.assertFalse(os.path.exists(os.path.join(model.root, "home/.parallax/mcp-cache")))

    def model(self, *replies):
        self.models.append(scripted.ScriptedModel(list(replies)))
        self.addCleanup(self.models[-1].close)
        # Files of the sessions go to a directory of the test.
        tempfile.tempdir = self.models[-1].temporary
        return self.models[-1]

    def agent(self, of, **options):
        options.setdefault("cwd", of.project)
        options["env"] = {**of.environment, **options.get("env", {})}
        return Agent(executable=scripted.PROGRAM, **options)

    def session(self, agent, session_id=None):
        self.sessions.append(agent.session(session_id))
        return self.sessions[-1]

    async def until(self, condition, what):
        for _ in range(200):
            if condition():
                return
            await asyncio.sleep(0.05)
        self.fail(f"waited in vain: {what}")


@tool("add", "Adds two numbers.", NUMBERS)
def add(params, context):
    return params["a"] + params["b"]
