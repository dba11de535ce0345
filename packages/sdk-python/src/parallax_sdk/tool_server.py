"""Serves the tools of a session to the program: MCP over HTTP on a loopback port."""
import asyncio
import hmac
import json
import secrets
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from .errors import ModelVisibleError, ToolError
from .tools import Tool, ToolContext

if TYPE_CHECKING:
    from .session import Session

PROTOCOL_VERSIONS = ("2025-06-18", "2025-03-26")
LARGEST_HEAD = 64 * 1024
LARGEST_BODY = 64 * 1024 * 1024
Headers = Dict[str, str]
Answer = Optional[Dict[str, Any]]


class RequestRefused(Exception):
    """A request that is answered with a status and nothing else."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


class ToolServer:
    """Answers only requests with its token, which only the program knows."""

    def __init__(self, session: "Session", tools: List[Tool]) -> None:
        self._session = session
        self._tools = {tool.name: tool for tool in tools}
        self._token = secrets.token_urlsafe(32)
        self._server: Optional[asyncio.AbstractServer] = None
        self._port = 0
        self._calls: Dict[Any, "asyncio.Task[Answer]"] = {}
        self._connections: Dict["asyncio.Task[None]", asyncio.StreamWriter] = {}
        self.was_listed = False
        """Whether the program has asked for the tools."""

    async def start(self) -> None:
        """Listens on a free port of the loopback interface."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=LARGEST_HEAD)
        self._port = self._server.sockets[0].getsockname()[1]

    def entry(self) -> Dict[str, Any]:
        """The entry of `mcpServers` that leads here."""
        return {"httpUrl": f"http://127.0.0.1:{self._port}/mcp",
                "headers": {"Authorization": f"Bearer {self._token}"}}

    async def close(self) -> None:
        """Cancels running calls and closes all connections."""
        if self._server is None:
            return
        self._server.close()
        tasks = [*self._calls.values(), *self._connections]
        for task in tasks:
            task.cancel()
        for writer in self._connections.values():
            writer.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        try:
            while await self._request(reader, writer):
                pass
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass
        finally:
            del self._connections[task]
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answers one request; false: the connection ends."""
        try:
            method, headers = read_head(await reader.readuntil(b"\r\n\r\n"))
            self._check(headers)
            length = int(headers.get("content-length", "0"))
            if not 0 <= length <= LARGEST_BODY or "transfer-encoding" in headers:
                raise RequestRefused("413 Content Too Large")
            body = await reader.readexactly(length)
            if method != "POST":
                raise RequestRefused("405 Method Not Allowed")
        except RequestRefused as refused:
            await send(writer, refused.status, "text/plain", b"")
            return False
        try:
            message = json.loads(body)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            text = json.dumps(failure(None, -32700, "the body must be one JSON object"))
            await send(writer, "400 Bad Request", "application/json", text.encode())
        else:
            await self._answer(message, writer)
        return True

    def _check(self, headers: Headers) -> None:
        """Pages in a browser have an `Origin`, and name another host after DNS rebinding."""
        token = headers.get("authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(token, f"Bearer {self._token}".encode()):
            raise RequestRefused("401 Unauthorized")
        if "origin" in headers or headers.get("host") != f"127.0.0.1:{self._port}":
            raise RequestRefused("403 Forbidden")

    async def _answer(self, message: Dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if "id" not in message:
            if message.get("method") == "notifications/cancelled":
                call = self._calls.get(fields(message, "params").get("requestId"))
                if call is not None:
                    call.cancel()
            await send(writer, "202 Accepted", "application/json", b"")
            return
        events = EventStream(writer, message)
        if message.get("method") == "tools/call":
            task = asyncio.ensure_future(self._call(message, events))
            self._calls[message["id"]] = task
            try:
                await asyncio.wait({task})
            finally:
                del self._calls[message["id"]]
                task.cancel()
            answer = failure(message["id"], -32800, "cancelled") if task.cancelled() else task.result()
        else:
            answer = self._plain(message)
        text = json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")
        if events.is_open:
            await events.end(text)
        else:
            await send(writer, "200 OK", "application/json", text)

    def _plain(self, message: Dict[str, Any]) -> Answer:
        method = message.get("method")
        if method == "initialize":
            asked = fields(message, "params").get("protocolVersion")
            version = asked if asked in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[0]
            return success(message, {"protocolVersion": version, "capabilities": {"tools": {}},
                                     "serverInfo": {"name": "parallax-sdk", "version": "0.1.0"}})
        if method == "ping":
            return success(message, {})
        if method == "tools/list":
            self.was_listed = True
            return success(message, {"tools": [declaration(tool) for tool in self._tools.values()]})
        return failure(message["id"], -32601, f"unknown method {method!r}")

    async def _call(self, message: Dict[str, Any], events: "EventStream") -> Answer:
        params = fields(message, "params")
        tool = self._tools.get(str(params.get("name")))
        if tool is None:
            return failure(message["id"], -32602, f"unknown tool {params.get('name')!r}")
        context = ToolContext(self._session, datetime.now(timezone.utc), events.progress)
        try:
            text, is_error = await tool.call(fields(params, "arguments"), context), False
        except ModelVisibleError as error:
            text, is_error = str(error), True
        except Exception as error:  # What a tool raises is not known here.
            text, is_error = f"{type(error).__name__}: {error}", True
            if not tool.send_errors_to_model:
                text = "The tool failed."
                self._session._fail_turn(ToolError(tool.name, error))
        return success(message, {"content": [{"type": "text", "text": text}], "isError": is_error})


class EventStream:
    """The answer to a call as server-sent events, for calls that report progress."""

    def __init__(self, writer: asyncio.StreamWriter, message: Dict[str, Any]) -> None:
        self._writer = writer
        self._token = fields(fields(message, "params"), "_meta").get("progressToken")
        self.is_open = False

    async def progress(self, progress: float, total: Optional[float], message: Optional[str]) -> None:
        if self._token is None:
            return
        params = {"progressToken": self._token, "progress": progress}
        params.update({key: value for key, value in [("total", total), ("message", message)] if value is not None})
        if not self.is_open:
            self.is_open = True
            self._writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               b"Transfer-Encoding: chunked\r\nCache-Control: no-cache\r\n\r\n")
        notification = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        await self._event(json.dumps(notification, ensure_ascii=False).encode("utf-8", "replace"))

    async def end(self, text: bytes) -> None:
        await self._event(text)
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def _event(self, text: bytes) -> None:
        data = b"data: " + text + b"\n\n"
        self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self._writer.drain()


def read_head(head: bytes) -> Tuple[str, Headers]:
    """The method and the headers, with names in lower case."""
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    return first.split(" ")[0], {name.strip().lower(): value.strip() for name, _, value in pairs}


async def send(writer: asyncio.StreamWriter, status: str, kind: str, body: bytes) -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


def fields(of: Dict[str, Any], name: str) -> Dict[str, Any]:
    """The object of that name; an empty one if there is none."""
    value = of.get(name)
    return value if isinstance(value, dict) else {}


def success(message: Dict[str, Any], result: Dict[str, Any]) -> Answer:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def failure(request: Any, code: int, text: str) -> Answer:
    return {"jsonrpc": "2.0", "id": request, "error": {"code": code, "message": text}}


def declaration(tool: Tool) -> Dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema,
            "annotations": {"readOnlyHint": tool.read_only}}
