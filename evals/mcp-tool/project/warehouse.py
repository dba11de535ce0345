"""A small MCP server over stdio with one tool."""
import json
import sys

TOOL = {
    "name": "stock",
    "description": "How many pieces of an item are in stock",
    "inputSchema": {
        "type": "object",
        "properties": {"item": {"type": "string"}},
        "required": ["item"],
    },
}

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    if method == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "warehouse", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    elif method == "tools/call":
        pieces = {"bolt": 1204}.get(message["params"]["arguments"]["item"], 0)
        result = {"content": [{"type": "text", "text": str(pieces)}]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
