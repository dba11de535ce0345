"""A server made with the official Python SDK, for the test of real servers.

    python_server.py [PORT]     over streamable HTTP on that port, else over stdio
"""

import sys

try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:  # before version 2
    from mcp.server.fastmcp import FastMCP as Server

server = Server("python")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


if len(sys.argv) < 2:
    server.run()
elif hasattr(server, "settings") and hasattr(server.settings, "port"):
    server.settings.port = int(sys.argv[1])
    server.run("streamable-http")
else:
    server.run("streamable-http", port=int(sys.argv[1]))
