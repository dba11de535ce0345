// Serves the tools of a session to the program: MCP over HTTP on a loopback port.
import { randomBytes, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import { ModelVisibleError, ToolError } from "./errors.js";
import { callTool } from "./tools.js";

const PROTOCOL_VERSIONS = ["2025-06-18", "2025-03-26"];
const LARGEST_BODY = 64 * 1024 * 1024;

// Answers only requests with its token, which only the program knows.
export class ToolServer {
  #session;
  #tools;
  #authorization = `Bearer ${randomBytes(32).toString("base64url")}`;
  #server;
  #port = 0;
  #calls = new Map();
  // Whether the program has asked for the tools.
  wasListed = false;

  constructor(session, tools) {
    this.#session = session;
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]));
  }

  async start() {
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch(() => response.destroy());
    });
    // A connection that the program keeps must not be closed under its next request.
    this.#server.keepAliveTimeout = 0;
    // A running turn keeps the process alive; an idle session does not.
    this.#server.unref();
    this.#server.on("connection", (socket) => socket.unref());
    await new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(0, "127.0.0.1", resolve);
    });
    this.#port = this.#server.address().port;
  }

  // The entry of `mcpServers` that leads here.
  entry() {
    return {
      httpUrl: `http://127.0.0.1:${this.#port}/mcp`,
      headers: { Authorization: this.#authorization },
    };
  }

  async close() {
    for (const call of this.#calls.values()) call.abort();
    if (!this.#server?.listening) return;
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request, response) {
    const refusal = this.#refusal(request);
    if (refusal) return refuse(response, refusal);
    const body = await read(request);
    if (body === undefined) return refuse(response, 413);
    if (request.method !== "POST") return refuse(response, 405);
    const message = parse(body);
    if (message === undefined) {
      return send(response, 400, failure(null, -32700, "the body must be one JSON object"));
    }
    if (message.id === undefined) {
      if (message.method === "notifications/cancelled") this.#calls.get(message.params?.requestId)?.abort();
      response.writeHead(202).end();
    } else if (message.method === "tools/call") {
      await this.#call(message, response);
    } else {
      send(response, 200, this.#plain(message));
    }
  }

  // Pages in a browser have an `Origin`, and name another host after DNS rebinding.
  #refusal({ headers }) {
    const given = Buffer.from(headers.authorization ?? "");
    const own = Buffer.from(this.#authorization);
    if (given.length !== own.length || !timingSafeEqual(given, own)) return 401;
    if (headers.origin !== undefined || headers.host !== `127.0.0.1:${this.#port}`) return 403;
    return Number(headers["content-length"] ?? 0) > LARGEST_BODY ? 413 : 0;
  }

  #plain({ id, method, params }) {
    switch (method) {
      case "initialize": {
        const asked = params?.protocolVersion;
        return success(id, {
          protocolVersion: PROTOCOL_VERSIONS.includes(asked) ? asked : PROTOCOL_VERSIONS[0],
          capabilities: { tools: {} },
          serverInfo: { name: "parallax-sdk", version: "0.1.0" },
        });
      }
      case "ping":
        return success(id, {});
      case "tools/list":
        this.wasListed = true;
        return success(id, { tools: [...this.#tools.values()].map(declaration) });
      default:
        return failure(id, -32601, `unknown method ${JSON.stringify(method)}`);
    }
  }

  async #call({ id, params }, response) {
    const tool = this.#tools.get(params?.name);
    if (tool === undefined) return send(response, 200, failure(id, -32602, "unknown tool"));
    const aborting = new AbortController();
    this.#calls.set(id, aborting);
    response.once("close", () => aborting.abort());
    const cancelled = new Promise((resolve) => {
      aborting.signal.addEventListener("abort", () => resolve(failure(id, -32800, "cancelled")));
    });
    const answer = await Promise.race([this.#run(tool, id, params, response, aborting.signal), cancelled]);
    this.#calls.delete(id);
    if (response.headersSent) response.end(`data: ${JSON.stringify(answer)}\n\n`);
    else send(response, 200, answer);
  }

  async #run(tool, id, params, response, signal) {
    const session = this.#session;
    const context = {
      session,
      agent: session.agent,
      sessionId: session.sessionId,
      cwd: session.agent.cwd,
      timestamp: new Date(),
      signal,
      progress: (progress, total, message) => {
        report(response, params._meta?.progressToken, signal, { progress, total, message });
      },
    };
    try {
      return success(id, content(await callTool(tool, params.arguments ?? {}, context), false));
    } catch (error) {
      if (error instanceof ModelVisibleError) return success(id, content(error.message, true));
      if (tool.sendErrorsToModel) return success(id, content(String(error), true));
      // After a cancellation, the function fails because it was asked to.
      if (!signal.aborted) session._failTurn(new ToolError(tool.name, error));
      return success(id, content("The tool failed.", true));
    }
  }
}

// Progress turns the answer into a stream of server-sent events.
function report(response, progressToken, signal, progress) {
  if (progressToken === undefined || signal.aborted || response.writableEnded) return;
  if (!response.headersSent) {
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-cache" });
  }
  const params = { progressToken, ...progress };
  response.write(`data: ${JSON.stringify({ jsonrpc: "2.0", method: "notifications/progress", params })}\n\n`);
}

// The body; `undefined` if it is too long.
async function read(request) {
  const chunks = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length > LARGEST_BODY) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function parse(body) {
  try {
    const message = JSON.parse(body);
    return typeof message === "object" && message !== null && !Array.isArray(message) ? message : undefined;
  } catch {
    return undefined;
  }
}

function refuse(response, status) {
  response.writeHead(status, { Connection: "close" }).end();
}

function send(response, status, answer) {
  const text = Buffer.from(JSON.stringify(answer));
  response.writeHead(status, { "Content-Type": "application/json", "Content-Length": text.length }).end(text);
}

const content = (text, isError) => ({ content: [{ type: "text", text }], isError });
const success = (id, result) => ({ jsonrpc: "2.0", id, result });
const failure = (id, code, message) => ({ jsonrpc: "2.0", id, error: { code, message } });
const declaration = ({ name, description, inputSchema, readOnly }) => ({
  name,
  description,
  inputSchema,
  annotations: { readOnlyHint: readOnly },
});
