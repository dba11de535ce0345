"""Lets the official Python client of the Agent Client Protocol run the program as its agent.

usage: official_editor.py PROGRAM MODEL_SERVER
"""
import asyncio
import sys

import acp
from acp import text_block
from acp.schema import AllowedOutcome, ClientCapabilities, RequestPermissionResponse

from scripted_model import answer, call, scripted_model

PROGRAM, SERVER = sys.argv[1:3]

REPLIES = [
    answer({"text": "I will."}, call("write_file", file_path="b.txt", content="hello\n")),
    answer(call("write_todos", todos=[{"description": "a", "status": "in_progress"}])),
    answer({"text": "Done"}),
]


class Editor(acp.Client):
    """Allows everything once."""

    def __init__(self):
        self.updates, self.asked = [], []

    def on_connect(self, conn):
        pass

    async def session_update(self, session_id, update, **kwargs):
        self.updates.append(update)

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.asked.append(tool_call)
        option = next(option for option in options if option.kind == "allow_once")
        outcome = AllowedOutcome(outcome="selected", option_id=option.option_id)
        return RequestPermissionResponse(outcome=outcome)


async def talk(editor, project, env):
    async with acp.spawn_agent_process(editor, PROGRAM, "--acp", env=env, cwd=project) as (agent, _):
        ready = await agent.initialize(1, ClientCapabilities())
        assert ready.agent_capabilities.load_session, ready
        session = await agent.new_session(cwd=project, mcp_servers=[])
        name = session.session_id
        options = [option.id for option in session.config_options]
        assert options == ["mode", "model", "thought_level"], session
        done = await agent.prompt(name, [text_block("write it")])
        assert done.stop_reason == "end_turn", done
        with open(project + "/b.txt", encoding="utf-8") as file:
            assert file.read() == "hello\n"
        assert editor.asked[0].content[0].type == "diff", editor.asked
        kinds = {update.session_update for update in editor.updates}
        assert {"available_commands_update", "plan", "tool_call", "usage_update"} <= kinds, kinds
        await agent.set_session_mode(session_id=name, mode_id="autoEdit")
        await agent.set_config_option(config_id="model", session_id=name, value="gemini-2.5-pro")
        listed = await agent.list_sessions(cwd=project)
        assert listed.sessions[0].session_id == name, listed
        await agent.close_session(session_id=name)
        editor.updates.clear()
        await agent.load_session(cwd=project, session_id=name, mcp_servers=[])
        kinds = {update.session_update for update in editor.updates}
        assert {"user_message_chunk", "agent_message_chunk", "tool_call"} <= kinds, kinds


with scripted_model(SERVER, REPLIES) as (directory, environment):
    asyncio.run(asyncio.wait_for(talk(Editor(), directory, environment), 60))
print("official_editor: ok")
