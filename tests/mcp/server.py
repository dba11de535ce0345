#!/usr/bin/env python3
"""An MCP server that behaves badly on demand. Only the standard library.

    server.py [--http FILE | --sse FILE] [--log FILE] [--do WORD,WORD,…]

Over stdio by default; with `--http` or `--sse` on a free port of 127.0.0.1,
whose address is written to FILE. Each message received is appended to the log
as one JSON line. The words of `--do`:

    pages      tools come in two pages        repeat    the cursor repeats for ever
    endless    each page has a cursor to another one
    names      names with spaces, 90 long     malformed some entries are invalid
    mute       never answers `initialize`     die       ends at once, with a last word
    noise      lines that are not messages     stubborn  ignores end of input and TERM
    shouts     30 MB on standard error        empty     offers nothing
    floods     notifications without end      changed   another description of `echo`
    puts       `put` writes a file
    asks       asks without end when it is called, and reads no answers
    auth       401 with a header              bare401   401 without one
    hidden     where to sign in is known by the header alone, and of another issuer
    late401    only calls want a sign-in      query     the token is in the address, as `key`
    tok        tokens at /tok, which nothing announces; refresh-0 counts
    nostream   GET is answered with 404       ask       `ask` elicits a form
    heavy      a hundred tools with long descriptions
    roots      `roots` asks for the folders   oldest    speaks 2024-11-05
    sample     `sample` wants the model to answer
    open       the stream of GET wants no sign-in
    garbled    `garbled` answers with what cannot be read; one schema is too deep
    shallow    none is
    many       2,500 tools               html       calls are answered with a page
    json       requests are answered with JSON, not with events
    secret     programs that register get a secret, and have to show it
    closed     programs cannot register        denied    every sign-in is denied
    scope      calls want another scope      nameless  does not say who it is
    form       tokens come as a form, not as JSON
    twice      lists `echo` twice, the second time with another description
    nullid     calls are answered with an error whose id is null
    stray      an answer to nothing comes before each other message
    early      a stray answer with the id of `initialize` comes before it is read
    future     answers `initialize` with a protocol version that is not published
    chatty     3 MB of other lines on standard output when a tool is called
    tls        speaks TLS, certified by authority.pem beside this file
"""

import http.server
import itertools
import json
import os
import queue
import signal
import ssl
import sys
import threading
import time
import urllib.parse

ARGS = sys.argv[1:]


def option(name):
    return ARGS[ARGS.index(name) + 1] if name in ARGS else None


DO = set((option("--do") or "").split(","))
LOG = option("--log")
LOCK = threading.Lock()
STATE = {"extra": False, "calls": 0, "cancelled": [], "answers": {}, "next": 1000}


def log(message):
    if LOG:
        with LOCK, open(LOG, "a", encoding="utf-8") as file:
            file.write(json.dumps(message) + "\n")


def tool(name, description="", schema=None, **more):
    schema = schema or {"type": "object", "properties": {}}
    return {"name": name, "description": description, "inputSchema": schema, **more}


def tools():
    changed = "changed" in DO or os.path.exists((LOG or "/tmp/mcp-server") + ".changed")
    said = "Says the text again, and obeys." if changed else "Says the text again."
    found = [
        tool("echo", said, {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"text": {"type": "string"}, "mark": {"type": ["string", "null"]}},
            "required": ["text"],
            "additionalProperties": False,
        }, annotations={"readOnlyHint": True}),
        tool("env", "The variables."),
        tool("blocks", "Every kind of block."),
        tool("fail", "Fails with isError."),
        tool("error", "Fails with a JSON-RPC error."),
        tool("crash", "Ends the server."),
        tool("flood", "Sends more messages than the client reads."),
        tool("crash_once", "Ends the server the first time.", annotations={"idempotentHint": True}),
        tool("hang", "Never answers."),
        tool("slow", "Tells progress, then answers."),
        tool("bump", "Adds a tool and tells of it many times."),
        tool("structured", "A structured result.", outputSchema={"type": "object"}),
        tool("ref", "A schema with references.", {
            "type": "object",
            "properties": {"node": {"$ref": "#/$defs/node"}},
            "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        }),
    ]
    if STATE["extra"]:
        found.append(tool("extra", "It came later."))
    if "ask" in DO:
        found.append(tool("ask", "Asks the user."))
        found.append(tool("ask_much", "Asks the user for a form with many field types."))
        found.append(tool("ask_nested", "Asks the user for a nested form."))
        found.append(tool("ask_url", "Asks the user to open an invalid page."))
        found.append(tool("ask_often", "Asks the user twenty things at once."))
    if "sample" in DO:
        found.append(tool("sample", "Asks the model."))
    if "puts" in DO:
        found.append(tool("put", "Writes a file."))
    if "roots" in DO:
        found.append(tool("roots", "Asks for the folders."))
    if "heavy" in DO:
        found += [tool(f"heavy_{number}", "Weighs much. " * 300) for number in range(100)]
    if "twice" in DO:
        found.append(tool("echo", "The later one."))
    if "names" in DO:
        found += [tool("with blank"), tool("x" * 90)]
    if "many" in DO:
        found += [tool(f"many_{number}", "One of many. " * 20) for number in range(2_500)]
    if "garbled" in DO:
        found.append(tool("garbled", "Cannot be read."))
        if "shallow" not in DO:
            found.append(tool("too_deep", "Neither can this.", {"type": "object", "not": "@deep@"}))
    if "malformed" in DO:
        found += [{"name": "bare"}, {"description": "no name"}, 3, {"name": "odd", "inputSchema": 7}]
    return found


# Answers that no reader of JSON likes, by the `how` of `garbled`.
GARBLED = {
    "latin1": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"caf\xe9"}]}}',
    "half": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"caf\\ud83d"}]}}',
    "deep": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":"@deep@"}}',
    "cut": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[',
    "shape": b'{"jsonrpc":"2.0","id":%d,"error":"oops"}',
    "anonymous": b'{"result":{"content":[NaN]},"jsonrpc":"2.0","id":%d}',
}


def text_of(message):
    if not isinstance(message, bytes):
        message = json.dumps(message).encode()
    return message.replace(b'"@deep@"', b"[" * 100_000 + b"]" * 100_000)


class Failure(Exception):
    pass


def list_tools(params):
    cursor = (params or {}).get("cursor")
    if "empty" in DO:
        return {"tools": []}
    if "endless" in DO:
        number = int(cursor or 0)
        return {"tools": [tool(f"page_{number}")], "nextCursor": str(number + 1)}
    if "repeat" in DO:
        return {"tools": tools(), "nextCursor": "again"}
    if "pages" in DO:
        if cursor is None:
            return {"tools": tools(), "nextCursor": "second"}
        return {"tools": [tool("second_page")]}
    return {"tools": tools()}


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def call(params, session, identity):
    STATE["calls"] += 1
    name = params.get("name")
    arguments = params.get("arguments") or {}
    if name == "echo":
        return text("echo: " + str(arguments.get("text")))
    if name == "env":
        return text(json.dumps(dict(os.environ)))
    if name == "blocks":
        return {"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "iVBORw0KGgoAAAAN", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "note://1", "text": "inside", "mimeType": "text/plain"}},
            {"type": "resource", "resource": {"uri": "note://2", "blob": "AAAA", "mimeType": "x/y"}},
            {"type": "resource_link", "uri": "note://3", "name": "third"},
            {"type": "hologram", "data": 1},
        ]}
    if name == "fail":
        return {"isError": True, **text("it went wrong")}
    if name == "error":
        raise Failure("no such luck")
    if name == "crash":
        sys.stderr.write("the end is near\n")
        sys.stderr.flush()
        os._exit(3)
    if name == "crash_once":
        mark = (LOG or "/tmp/mcp-server") + ".crashed"
        if not os.path.exists(mark):
            open(mark, "w").close()
            os._exit(3)
        return text("second life")
    if name == "hang":
        return None
    if name == "garbled":
        session.send(GARBLED[arguments["how"]] % identity, last=True)
        return None
    if name == "flood":
        session.repeat({"jsonrpc": "2.0", "method": "notifications/message",
                        "params": {"level": "info", "data": "x"}}, 5000)
        return text("flooded")
    if name == "slow":
        token = (params.get("_meta") or {}).get("progressToken")
        for step in range(1, arguments.get("steps", 3) + 1):
            session.send({"jsonrpc": "2.0", "method": "notifications/progress",
                          "params": {"progressToken": token, "progress": step,
                                     "total": arguments.get("steps", 3) + 1,
                                     "message": f"step {step}"}})
            time.sleep(arguments.get("pause", 0.05))
        return text("slow done")
    if name == "bump":
        STATE["extra"] = True
        for _ in range(50):
            session.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        return text("bumped")
    if name == "structured":
        return {"content": [], "structuredContent": {"answer": 42}}
    if name == "ask":
        answer = session.ask("elicitation/create", {
            "mode": "form", "message": "Your name?",
            "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}},
                                "required": ["name"]}})
        return text(json.dumps(answer))
    if name == "ask_much":
        form = {"type": "object", "required": ["age", "colours"], "properties": {
            "age": {"type": "integer", "maximum": 9, "default": 3},
            "code": {"type": "string", "minLength": 3},
            "colours": {"type": "array", "minItems": 1, "items": {"type": "string", "enum": ["red", "green"]}}}}
        return text(json.dumps(session.ask("elicitation/create", {
            "mode": "form", "message": "Some things?", "requestedSchema": form})))
    if name == "ask_nested":
        form = {"type": "object", "properties": {"home": {
            "type": "object", "properties": {"street": {"type": "string"}}}}}
        return text(json.dumps(session.ask("elicitation/create", {
            "mode": "form", "message": "Your home?", "requestedSchema": form})))
    if name == "ask_url":
        return text(json.dumps(session.ask("elicitation/create", {
            "mode": "url", "message": "Look there", "elicitationId": "1", "url": "javascript:alert(1)"})))
    if name == "ask_often":
        for number in range(20):
            session.send({"jsonrpc": "2.0", "id": f"often-{number}", "method": "elicitation/create",
                          "params": {"mode": "form", "message": f"Question {number}?",
                                     "requestedSchema": {"type": "object", "properties": {
                                         "name": {"type": "string"}}}}})
        time.sleep(float(arguments.get("wait", 0.3)))
        return text("asked often")
    if name == "sample":
        words = arguments.get("text", "Which colour?")
        content = arguments.get("content", {"type": "text", "text": words})
        return text(json.dumps(session.ask("sampling/createMessage", {
            "messages": [{"role": "user", "content": content}], "systemPrompt": "Be brief.",
            "maxTokens": arguments.get("most", 100), "temperature": 0.5})))
    if name == "put":
        with open(arguments["path"], "w", encoding="utf-8") as file:
            file.write(arguments["text"])
        return text("written")
    if name == "roots":
        return text(json.dumps(session.ask("roots/list", {})))
    if name in ("extra", "second_page", "with blank", "ref", "bare", "odd") or name == "x" * 90:
        return text(f"{name} was called with {json.dumps(arguments)}")
    raise Failure(f"no tool {name}")


def answer(message, session):
    method, params = message.get("method"), message.get("params") or {}
    if method == "initialize":
        if "mute" in DO:
            return None
        version = "2024-11-05" if "oldest" in DO else params.get("protocolVersion", "2025-06-18")
        if "future" in DO:
            version = "2031-01-01"
        if "nameless" in DO:
            return {"protocolVersion": version, "capabilities": {"tools": {}}}
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {"listChanged": True}} if "empty" in DO
            else {"tools": {"listChanged": True}, "prompts": {}, "resources": {}},
            "serverInfo": {"name": "test", "version": "1"},
            "instructions": "Be kind to the test server.",
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return list_tools(params)
    if method == "tools/call":
        return call(params, session, message.get("id"))
    if method == "prompts/list":
        return {"prompts": [{"name": "greet me", "description": "Greets.", "arguments": [
            {"name": "who", "required": True}, {"name": "how"}]}]}
    if method == "prompts/get":
        return {"messages": [
            {"role": "user", "content": {"type": "text", "text": "Greet " + json.dumps(params.get("arguments"))}},
            {"role": "assistant", "content": {"type": "text", "text": "Gladly."}}]}
    if method == "resources/list":
        return {"resources": [{"uri": "note://1", "name": "first", "description": "a note"}]}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": "note://{id}", "name": "notes"}]}
    if method == "resources/read":
        if params.get("uri", "").startswith("note://"):
            return {"contents": [{"uri": params["uri"], "text": "the text of " + params["uri"]}]}
        raise Failure("no such resource")
    raise Failure(f"no method {method}")


def handle(message, session):
    log(message)
    if "method" not in message:
        waiting = STATE["answers"].pop(message.get("id"), None)
        if waiting:
            waiting.put(message.get("result", message.get("error")))
        return
    if "id" not in message:
        if message["method"] == "notifications/cancelled":
            STATE["cancelled"].append(message["params"].get("requestId"))
        if message["method"] == "notifications/initialized" and "floods" in DO:
            threading.Thread(target=flood, args=(session,), daemon=True).start()
        return
    if message["method"] == "tools/call" and "asks" in DO:
        for number in itertools.count():
            session.send({"jsonrpc": "2.0", "id": f"again-{number}", "method": "roots/list"})
    if "stray" in DO:
        session.send({"jsonrpc": "2.0", "id": 4711, "result": {}})
        session.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": "stray"}})
    if "nullid" in DO and message["method"] == "tools/call":
        return session.send({"jsonrpc": "2.0", "id": None,
                             "error": {"code": -32603, "message": "out of order"}}, last=True)
    if "chatty" in DO and message["method"] == "tools/call":
        for _ in range(3_000):
            session.send(b"x" * 1_000)
    try:
        result = answer(message, session)
        if result is not None:
            session.send({"jsonrpc": "2.0", "id": message["id"], "result": result}, last=True)
    except Failure as failure:
        session.send({"jsonrpc": "2.0", "id": message["id"],
                      "error": {"code": -32000, "message": str(failure)}}, last=True)


def flood(session):
    while True:
        session.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        session.send({"jsonrpc": "2.0", "method": "notifications/message",
                      "params": {"level": "info", "data": "x" * 1000}})


class Session:
    def ask(self, method, params):
        with LOCK:
            STATE["next"] += 1
            identity = STATE["next"]
        waiting = queue.Queue()
        STATE["answers"][identity] = waiting
        self.send({"jsonrpc": "2.0", "id": identity, "method": method, "params": params})
        return waiting.get(timeout=10)


class Stdio(Session):
    def send(self, message, last=False):
        with LOCK:
            sys.stdout.buffer.write(text_of(message) + b"\n")
            sys.stdout.buffer.flush()

    def repeat(self, message, count):
        """Sends a message many times at once, as fast on a busy machine."""
        with LOCK:
            sys.stdout.buffer.write((text_of(message) + b"\n") * count)
            sys.stdout.buffer.flush()


def stdio():
    if "die" in DO:
        sys.stderr.write("cannot find my configuration\n")
        sys.exit(3)
    if "stubborn" in DO:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "shouts" in DO:
        for _ in range(30 * 1024):
            sys.stderr.write("x" * 1023 + "\n")
    session = Stdio()
    if "early" in DO:
        session.send({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-06-18"}})
    for line in sys.stdin:
        if "noise" in DO:
            with LOCK:
                sys.stdout.buffer.write("listening…\n\n{\"half\": \n".encode())
        message = json.loads(line)
        if "asks" in DO and message.get("method") == "tools/call":
            # Here, where nothing is read meanwhile.
            handle(message, session)
        threading.Thread(target=handle, args=(message, session), daemon=True).start()
    if "stubborn" in DO:
        while True:
            time.sleep(60)


# --- over HTTP ---------------------------------------------------------------

TOKENS = {"access": None, "refresh": "refresh-0" if "tok" in DO else None, "count": 0, "code": None}
STREAMS = []


class Stream(Session):
    """Messages to one client, in order."""

    def __init__(self):
        self.queue = queue.Queue()

    def send(self, message, last=False):
        self.queue.put((message, last))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", kind="application/json", headers=()):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def json(self, status, value):
        self.reply(status, json.dumps(value).encode())

    @property
    def base(self):
        return base(self.server)

    def token(self):
        if "query" in DO:
            query = dict(urllib.parse.parse_qsl(urllib.parse.urlparse(self.path).query))
            return query.get("key") if "Authorization" not in self.headers else None
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ")

    def refused(self, message=None):
        if not ({"auth", "bare401"} & DO):
            return False
        if "late401" in DO and (message or {}).get("method") != "tools/call":
            return False
        if TOKENS["access"] and self.token() == TOKENS["access"]:
            return False
        headers = []
        if "auth" in DO:
            where = self.base + "/.well-known/oauth-protected-resource/mcp"
            if "hidden" in DO:
                where = self.base + "/meta/here"
            headers.append(("WWW-Authenticate", f'Bearer resource_metadata="{where}"'))
        self.reply(401, b"{}", headers=headers)
        return True

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_DELETE(self):
        self.reply(200)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = urllib.parse.urlparse(self.path)
        log({"http": "GET", "path": self.path, "headers": dict(self.headers)})
        if path.path.startswith("/.well-known/") and "tok" in DO:
            return self.reply(404)
        if "hidden" in DO:
            if path.path == "/meta/here":
                return self.json(200, {"resource": self.base + "/mcp",
                                       "authorization_servers": [self.base + "/tenant"]})
            if path.path == "/tenant/.well-known/openid-configuration":
                return self.metadata(self.base + "/tenant")
            if path.path.startswith("/.well-known/"):
                return self.reply(404)
        if path.path.startswith("/.well-known/oauth-protected-resource"):
            return self.json(200, {"resource": self.base + "/mcp", "authorization_servers": [self.base],
                                   "scopes_supported": ["all"]})
        if path.path.startswith("/.well-known/oauth-authorization-server"):
            return self.metadata(self.base)
        if path.path == "/authorize":
            query = dict(urllib.parse.parse_qsl(path.query))
            TOKENS["code"] = "code-1"
            if "denied" in DO:
                where = query["redirect_uri"] + "?" + urllib.parse.urlencode(
                    {"error": "access_denied", "error_description": "Not for you.",
                     "state": query.get("state", "")})
                return self.reply(302, headers=[("Location", where)])
            where = query["redirect_uri"] + "?" + urllib.parse.urlencode(
                {"code": "code-1", "state": query.get("state", ""),
                 "iss": self.base + ("/tenant" if "hidden" in DO else "")})
            return self.reply(302, headers=[("Location", where)])
        if path.path == "/sse":
            if self.refused():
                return None
            return self.stream(first=True)
        if path.path == "/mcp":
            if "open" not in DO and self.refused():
                return None
            if "nostream" in DO or "--sse" in ARGS:
                return self.reply(404)
            return self.stream(first=False)
        return self.reply(404)

    def metadata(self, issuer):
        register = {} if "closed" in DO else {"registration_endpoint": self.base + "/register"}
        return self.json(200, {
            "issuer": issuer, "authorization_endpoint": self.base + "/authorize",
            "token_endpoint": self.base + "/token", **register,
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported":
                ["client_secret_post"] if "secret" in DO else ["none"]})

    def stream(self, first):
        stream = Stream()
        STREAMS.append(stream)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.close_connection = True
        if first:
            self.wfile.write(f"event: endpoint\ndata: /messages?id={len(STREAMS) - 1}\n\n".encode())
            self.wfile.flush()
        while True:
            message, _ = stream.queue.get()
            if message is None:
                return
            try:
                self.wfile.write(b"event: message\ndata: " + text_of(message) + b"\n\n")
                self.wfile.flush()
            except OSError:
                return

    def do_POST(self):
        path = urllib.parse.urlparse(self.path)
        body = self.body()
        if path.path == "/register":
            log({"http": "register", "body": json.loads(body)})
            registered = json.loads(body)
            secret = {"client_secret": "s3cret"} if "secret" in DO else {}
            return self.json(201, {**registered, "client_id": "client-1", **secret})
        if path.path == ("/tok" if "tok" in DO else "/token"):
            form = dict(urllib.parse.parse_qsl(body.decode()))
            log({"http": "token", "form": form})
            good = (form.get("grant_type") == "authorization_code" and form.get("code") == TOKENS["code"]
                    and form.get("code_verifier")) or (
                        form.get("grant_type") == "refresh_token"
                        and form.get("refresh_token") == TOKENS["refresh"])
            if "secret" in DO and form.get("client_secret") != "s3cret":
                return self.json(401, {"error": "invalid_client"})
            if not good:
                return self.json(400, {"error": "invalid_grant"})
            TOKENS["count"] += 1
            TOKENS["access"] = f"access-{TOKENS['count']}"
            TOKENS["refresh"] = f"refresh-{TOKENS['count']}"
            given = {"access_token": TOKENS["access"], "token_type": "Bearer",
                     "expires_in": 3600, "refresh_token": TOKENS["refresh"], "scope": "all"}
            if "form" in DO:
                form = urllib.parse.urlencode(given).encode()
                return self.reply(200, form, kind="application/x-www-form-urlencoded")
            return self.json(200, given)
        if path.path == "/revoke":
            TOKENS.update(access="gone", refresh="gone")
            return self.json(200, {})
        if path.path == "/accept":
            TOKENS["access"] = path.query
            return self.json(200, {})
        if path.path == "/expire":
            TOKENS["access"] = "gone"
            return self.json(200, {})
        if path.path == "/mcp" and "--sse" in ARGS:
            return self.reply(405)
        log({"http": "POST", "path": self.path, "headers": dict(self.headers)})
        message = json.loads(body)
        if self.refused(message):
            return None
        if "html" in DO and message.get("method") == "tools/call":
            return self.reply(200, b"<html>", kind="text/html")
        if "scope" in DO and message.get("method") == "tools/call":
            challenge = 'Bearer error="insufficient_scope", scope="files:write"'
            return self.reply(403, headers=[("WWW-Authenticate", challenge)])
        if path.path == "/messages":
            number = int(dict(urllib.parse.parse_qsl(path.query)).get("id", -1))
            stream = STREAMS[number]
            threading.Thread(target=handle, args=(message, stream), daemon=True).start()
            return self.reply(202)
        if "id" not in message or "method" not in message:
            handle(message, Stream())
            return self.reply(202)
        stream = Stream()
        threading.Thread(target=handle, args=(message, stream), daemon=True).start()
        if "json" in DO:
            while True:
                sent, last = stream.queue.get(timeout=60)
                if last:
                    return self.reply(200, text_of(sent))
        headers = [("Mcp-Session-Id", "session-1")] if message["method"] == "initialize" else []
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        while True:
            try:
                sent, last = stream.queue.get(timeout=60)
                self.wfile.write(b"data: " + text_of(sent) + b"\n\n")
                self.wfile.flush()
            except (OSError, queue.Empty):
                return None
            if last:
                return None


def base(server):
    where = "https://localhost" if "tls" in DO else "http://127.0.0.1"
    return f"{where}:{server.server_port}"


def serve(place, path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if "tls" in DO:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(os.path.dirname(__file__), "localhost.pem"))
        # Not while others are let in: each connection greets in a thread of its own.
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False)
    with open(place + ".part", "w", encoding="utf-8") as file:
        file.write(base(server) + path)
    os.rename(place + ".part", place)
    server.serve_forever()


if option("--http"):
    serve(option("--http"), "/mcp")
elif option("--sse"):
    serve(option("--sse"), "/sse")
else:
    stdio()
