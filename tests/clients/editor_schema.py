"""Drives the program as an editor and checks each of its messages against the public JSON schema.

usage: editor_schema.py PROGRAM MODEL_SERVER SCHEMA
"""
import json
import queue
import subprocess
import sys
import threading

import jsonschema

from scripted_model import answer, call, scripted_model

PROGRAM, SERVER, SCHEMA = sys.argv[1:4]
with open(SCHEMA, encoding="utf-8") as schema_file:
    DEFINITIONS = json.load(schema_file)["$defs"]

RESULTS = {
    "initialize": "InitializeResponse", "session/new": "NewSessionResponse",
    "session/load": "LoadSessionResponse", "session/resume": "ResumeSessionResponse",
    "session/prompt": "PromptResponse", "session/set_mode": "SetSessionModeResponse",
    "session/set_config_option": "SetSessionConfigOptionResponse",
    "session/list": "ListSessionsResponse", "session/close": "CloseSessionResponse",
    "session/delete": "DeleteSessionResponse", "authenticate": "AuthenticateResponse",
    "logout": "LogoutResponse",
}
PARAMETERS = {
    "session/update": "SessionNotification",
    "session/request_permission": "RequestPermissionRequest",
    "elicitation/create": "CreateElicitationRequest",
    "fs/read_text_file": "ReadTextFileRequest", "fs/write_text_file": "WriteTextFileRequest",
}

COLORS = [{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}]
REPLIES = [
    answer({"text": "**Plan**\nthinking", "thought": True},
           call("write_file", file_path="b.txt", content="hello\n"),
           call("run_shell_command", command="touch q; echo hi; sleep 0.6; echo ho"),
           call("write_todos", todos=[{"description": "a", "status": "in_progress"}])),
    answer(call("ask_user", questions=[{"question": "Which color?", "header": "Color",
                                        "type": "choice", "options": COLORS}])),
    answer({"text": "Done"}),
]


class Editor:
    def __init__(self, project, env):
        self.process = subprocess.Popen([PROGRAM, "--acp"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=env, cwd=project)
        self.messages, self.checked, self.id = queue.Queue(), 0, 0
        self.kinds = set()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.messages.put(json.loads(line))

    def send(self, **message):
        line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()

    def check(self, name, value):
        schema = {"$ref": f"#/$defs/{name}", "$defs": DEFINITIONS}
        jsonschema.Draft202012Validator(schema).validate(value)
        self.checked += 1

    def call(self, method, **params):
        self.id += 1
        self.send(id=self.id, method=method, params=params)
        while True:
            message = self.messages.get(timeout=20)
            if "method" in message:
                self.incoming(message)
            elif message.get("id") == self.id:
                assert "result" in message, message
                self.check(RESULTS[method], message["result"])
                return message["result"]

    def incoming(self, message):
        method, params = message["method"], message["params"]
        self.check(PARAMETERS[method], params)
        self.kinds.add(params.get("update", {}).get("sessionUpdate", method))
        if "id" not in message:
            return
        if method == "fs/read_text_file":
            error = {"code": -32002, "message": "Resource not found"}
            return self.send(id=message["id"], error=error)
        if method == "fs/write_text_file":
            with open(params["path"], "w", encoding="utf-8") as file:
                file.write(params["content"])
            return self.send(id=message["id"], result={})
        if method == "elicitation/create":
            result = {"action": "accept", "content": {"0": "Red"}}
        else:
            result = {"outcome": {"outcome": "selected", "optionId": "proceed_once"}}
        return self.send(id=message["id"], result=result)


def talk(editor, project):
    files = {"readTextFile": True, "writeTextFile": True}
    offers = {"fs": files, "elicitation": {"form": {}}, "session": {"configOptions": {}}}
    editor.call("initialize", protocolVersion=1, clientCapabilities=offers)
    session = editor.call("session/new", cwd=project, mcpServers=[])["sessionId"]
    prompt = [{"type": "text", "text": "go"},
              {"type": "resource_link", "name": "h", "uri": "file:///etc/hostname"}]
    done = editor.call("session/prompt", sessionId=session, prompt=prompt)
    assert done["stopReason"] == "end_turn", done
    with open(project + "/b.txt", encoding="utf-8") as file:
        assert file.read() == "hello\n"
    editor.call("session/set_mode", sessionId=session, modeId="autoEdit")
    editor.call("session/set_config_option", sessionId=session, configId="model",
                value="gemini-2.5-pro")
    assert editor.call("session/list")["sessions"], "no sessions"
    for method in ("session/load", "session/resume"):
        editor.call("session/close", sessionId=session)
        editor.call(method, sessionId=session, cwd=project, mcpServers=[])
    editor.call("session/close", sessionId=session)
    editor.call("session/delete", sessionId=session)
    editor.call("authenticate", methodId="gemini-api-key")
    editor.call("logout")
    expected = {"agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "tool_call",
                "tool_call_update", "plan", "usage_update", "available_commands_update",
                "current_mode_update", "config_option_update", "session_info_update",
                "session/request_permission", "elicitation/create", "fs/read_text_file",
                "fs/write_text_file"}
    assert expected <= editor.kinds, expected - editor.kinds


with scripted_model(SERVER, REPLIES) as (directory, environment):
    client = Editor(directory, environment)
    try:
        talk(client, directory)
        client.process.stdin.close()
        assert client.process.wait(5) == 0
    finally:
        client.process.kill()
print(f"editor_schema: {client.checked} messages are valid")
