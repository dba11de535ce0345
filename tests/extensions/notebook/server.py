"""An MCP server that writes lines into a file; no packages are needed."""

import json
import os
import sys

TOOL = {
    "name": "add_note",
    "description": "Adds a line to the notebook",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
}


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "notebook", "version": "1.0.0"},
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        with open(os.environ["NOTES"], "a", encoding="utf-8") as notes:
            notes.write(params["arguments"]["text"] + "\n")
        return {"content": [{"type": "text", "text": "noted"}]}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params") or {})
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        print(json.dumps(reply), flush=True)
