// A scripted model, and a home and a project for a program that uses it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import assert from "node:assert/strict";
import { agent } from "../src/index.js";

const built = (name) => fileURLToPath(new URL(`../../../target/debug/${name}`, import.meta.url));
export const PROGRAM = process.env.PARALLAX_EXECUTABLE ?? built("parallax");
const SERVER = process.env.PARALLAX_MODEL_SERVER ?? built("model-server");

export const skip = [PROGRAM, SERVER].every(isExecutable) ? false : "build the program and the model server first";

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

const part = (one) => (typeof one === "string" ? { text: one } : one);

// A reply of the model: texts and calls.
export const answer = (...parts) => ({
  chunks: [{ candidates: [{ content: { role: "model", parts: parts.map(part) }, finishReason: "STOP" }] }],
});

// A reply that begins with this text and never ends.
export const begun = (text) => ({
  chunks: [{ candidates: [{ content: { role: "model", parts: [{ text }] } }] }, { hang: true }],
});

// A function call in a reply.
export const call = (name, args = {}) => ({ functionCall: { name, args } });

// Runs a test with a model server, and checks at its end that no process and no file is left.
export async function withModel(replies, run) {
  const root = mkdtempSync(join(tmpdir(), "sdk-test-"));
  const temporary = join(root, "tmp");
  for (const folder of ["home", "project", "tmp"]) mkdirSync(join(root, folder));
  writeFileSync(join(root, "script.json"), JSON.stringify({ replies }));
  const server = spawn(SERVER, [join(root, "script.json"), "--log", join(root, "log")], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [line] = await once(createInterface({ input: server.stdout }), "line");
  const env = {
    HOME: join(root, "home"), GEMINI_API_KEY: "x", GEMINI_CLI_TRUST_WORKSPACE: "true", TMPDIR: temporary,
    GOOGLE_GEMINI_BASE_URL: line.split(" ").at(-1),
  };
  const sessions = [];
  const before = process.env.TMPDIR;
  // Files of the sessions go to a directory of the test.
  process.env.TMPDIR = temporary;
  const model = {
    root,
    project: join(root, "project"),
    requests: () => readFileSync(join(root, "log"), "utf8").trim().split("\n"),
    agent: (options = {}) =>
      agent({ executable: PROGRAM, cwd: join(root, "project"), ...options, env: { ...env, ...options.env } }),
    session(options, sessionId) {
      sessions.push(model.agent(options).session({ sessionId }));
      return sessions.at(-1);
    },
    keep(session) {
      sessions.push(session);
      return session;
    },
  };
  try {
    await run(model);
    await Promise.all(sessions.map((session) => session.close()));
    assert.deepEqual(programs(join(root, "project")), [], "the program runs on");
    assert.deepEqual(readdirSync(temporary).filter((name) => name.startsWith("parallax-sdk")), []);
    assert.equal(existsSync(join(root, "home/.parallax/mcp-cache")), false);
  } finally {
    await Promise.all(sessions.map((session) => session.close()));
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
    server.kill("SIGKILL");
    rmSync(root, { recursive: true, force: true });
  }
}

// The processes that work in a directory, where the system shows them.
export function programs(directory) {
  if (!existsSync("/proc/self/environ")) return [];
  return readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid) || pid === String(process.pid)) return false;
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("stream-json") &&
        readFileSync(`/proc/${pid}/environ`, "utf8").includes(join(directory, "..", "home"));
    } catch {
      return false;
    }
  });
}

export async function collect(turn) {
  const events = [];
  for await (const event of turn) events.push(event);
  return events;
}

export const isAnswer = (event) => event.type === "message" && event.role === "assistant";
