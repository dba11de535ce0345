// Custom tools, skills, and approvals.
import assert from "node:assert/strict";
import { request } from "node:http";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { InputRejectedError, ModelVisibleError, skillDir, tool, ToolError, TurnCancelledError } from "../src/index.js";
import { answer, call, collect, skip, withModel } from "./scripted.mjs";

const NUMBERS = {
  type: "object",
  properties: { a: { type: "number" }, b: { type: "number" } },
  required: ["a", "b"],
};
const add = tool({ name: "add", description: "Adds two numbers.", inputSchema: NUMBERS }, ({ a, b }) => a + b);
const results = (events) => events.filter((event) => event.type === "tool_result");
const sleep = (time) => new Promise((fulfil) => setTimeout(fulfil, time));

// Runs a turn with one call of a tool; gives the events, and what the model then read.
async function runTool(made, args, options, check) {
  await withModel([answer(call(`mcp_sdk_${made.name}`, args)), answer("done")], async (model) => {
    const session = model.session({ tools: [made], ...options });
    const events = await collect(session.sendStream("go"));
    await check(events, model.requests()[1], session, model);
  });
}

describe("tools", { skip, timeout: 90_000 }, () => {
  test("model calls a tool and reads its result", async () => {
    await withModel([answer(call("mcp_sdk_add", { a: 1, b: 2 })), answer("It is 3.")], async (model) => {
      assert.equal((await model.session({ tools: [add] }).send("1 + 2?")).text, "It is 3.");
      const [declared, answered] = model.requests();
      assert.ok(declared.includes("Adds two numbers."));
      assert.ok(answered.includes("\\n3\\n"));
    });
  });

  test("tool knows its session and is found behind a proxy", async () => {
    const seen = [];
    const look = tool({ name: "look", description: "Looks." }, async (params, context) => {
      seen.push([params, context.sessionId, context.cwd, context.agent.name, context.timestamp instanceof Date]);
      return { größe: [1, "👋"] };
    });
    // Nothing answers there.
    const env = { HTTP_PROXY: "http://127.0.0.1:1", http_proxy: "http://127.0.0.1:1" };
    await runTool(look, {}, { env }, (_, read, session, model) => {
      assert.ok(read.includes("größe") && read.includes("👋"));
      assert.deepEqual(seen, [[{}, session.sessionId, model.project, "sdk", true]]);
    });
  });

  test("wrong arguments never reach the function", async () => {
    let called = 0;
    const made = tool({ name: "add", description: "Adds.", inputSchema: NUMBERS }, () => called++);
    await runTool(made, { a: "one" }, {}, (events) => {
      assert.equal(results(events)[0].status, "error");
      assert.equal(called, 0);
    });
  });

  test("visible error goes to the model", async () => {
    const fail = tool({ name: "fail", description: "Fails." }, () => {
      throw new ModelVisibleError("only on Mondays");
    });
    await runTool(fail, {}, {}, (events, read) => {
      assert.equal(results(events)[0].status, "error");
      assert.ok(read.includes("only on Mondays"));
    });
  });

  test("other error ends the turn", async () => {
    const fail = tool({ name: "fail", description: "Fails." }, async () => {
      throw new RangeError("apricot");
    });
    await withModel([answer(call("mcp_sdk_fail")), answer("done"), answer("done")], async (model) => {
      const session = model.session({ tools: [fail] });
      await assert.rejects(session.send("go"), (error) => {
        assert.ok(error instanceof ToolError && error.cause instanceof RangeError && error.tool === "fail");
        return true;
      });
      assert.ok(!model.requests().join().includes("apricot"));
      assert.equal((await session.send("more")).text, "done");
    });
  });

  test("other error goes to the model if wanted", async () => {
    const fail = tool({ name: "fail", description: "Fails.", sendErrorsToModel: true }, () => {
      throw new RangeError("visible");
    });
    await runTool(fail, {}, {}, (_, read) => assert.ok(read.includes("RangeError: visible")));
  });

  test("result that is not JSON is an error of the tool", async () => {
    const strange = tool({ name: "strange", description: "Strange." }, () => () => 1);
    await assert.rejects(runTool(strange, {}, {}, () => {}), ToolError);
  });

  test("large result arrives", async () => {
    const much = tool({ name: "much", description: "Much." }, () => "0123456789".repeat(1_000_000));
    await runTool(much, {}, {}, (events) => assert.equal(results(events)[0].status, "success"));
  });

  test("progress is an event and extends the time limit", async () => {
    const slow = tool({ name: "slow", description: "Slow." }, async (_, context) => {
      for (let step = 1; step <= 3; step++) {
        await sleep(500);
        context.progress(step, 3, `step ${step}`);
      }
      return "ready";
    });
    await runTool(slow, {}, { toolTimeout: 1000 }, (events, read) => {
      assert.ok(events.some((event) => event.type === "tool_progress" && event.message === "step 1"));
      assert.ok(read.includes("ready"));
    });
  });

  test("interrupt and close abort a running tool", async () => {
    let began;
    const started = new Promise((fulfil) => (began = fulfil));
    const reasons = [];
    const slow = tool({ name: "slow", description: "Slow." }, (_, { signal }) => {
      began();
      return new Promise((_, reject) => {
        signal.addEventListener("abort", () => {
          reasons.push("aborted");
          reject(signal.reason);
        });
      });
    });
    const replies = [answer(call("mcp_sdk_slow")), answer("done"), answer(call("mcp_sdk_slow"))];
    await withModel(replies, async (model) => {
      const session = model.session({ tools: [slow] });
      const turn = assert.rejects(session.send("go"), TurnCancelledError);
      await started;
      session.interrupt();
      await turn;
      assert.equal((await session.send("more")).text, "done");
      assert.equal(reasons.length, 1);
      const last = assert.rejects(session.send("again"));
      await sleep(700);
      await session.close();
      await last;
      assert.equal(reasons.length, 2);
    });
  });

  test("sessions of one agent run at once with their own tools", async () => {
    const names = ["one", "two", "three"];
    const calls = names.map((name) => ({
      ...answer(call("mcp_sdk_who", { name })),
      match: { promptContains: `I am ${name}.` },
    }));
    const ends = names.map((name) => ({
      ...answer(`done ${name}`),
      match: { lastToolResultContains: `seen ${name}.` },
    }));
    const sessions = new Map();
    let release;
    const together = new Promise((fulfil) => (release = fulfil));
    const who = tool(
      { name: "who", description: "Who?", inputSchema: { type: "object", properties: { name: { type: "string" } } } },
      async ({ name }, { session }) => {
        sessions.set(name, session);
        if (sessions.size === names.length) release();
        await together;
        return `seen ${name}.`;
      },
    );
    await withModel([...calls, ...ends], async (model) => {
      const agent = model.agent({ tools: [who] });
      const own = new Map(names.map((name) => [name, model.keep(agent.session())]));
      const results = await Promise.all(names.map((name) => own.get(name).send(`I am ${name}.`)));
      assert.deepEqual(results.map((result) => result.text), names.map((name) => `done ${name}`));
      for (const name of names) assert.equal(sessions.get(name), own.get(name));
    });
  });

  test("only requests with the token are answered", async () => {
    await withModel([], async (model) => {
      const flags = join(model.root, "flags");
      const wrapper = join(model.root, "wrapper");
      const program = model.agent().executable;
      // Keeps what is removed after the start.
      writeFileSync(
        wrapper,
        `#!/bin/sh\nfor f in "$@"; do case "$f" in --mcp-config=*) p=\${f#--mcp-config=}; cp -p "$p" ${flags}; ` +
          `stat -c '%a' "$p" "$(dirname "$p")" > ${flags}.modes;; esac; done\nexec ${program} "$@"\n`,
        { mode: 0o755 },
      );
      const session = model.session({ tools: [add], executable: wrapper });
      await session.start();
      const config = JSON.parse(readFileSync(flags, "utf8"));
      assert.equal(readFileSync(`${flags}.modes`, "utf8").trim(), "600\n700");
      const { httpUrl, headers } = config.mcpServers.sdk;
      const ping = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
      for (const [given, body, method, expected] of [
        [headers, ping, "POST", 200],
        [{}, ping, "POST", 401],
        [{ Authorization: "Bearer x" }, ping, "POST", 401],
        [{ ...headers, Host: "evil.example" }, ping, "POST", 403],
        [{ ...headers, Origin: "http://evil.example" }, ping, "POST", 403],
        [{ ...headers, "Content-Length": String(2 ** 40) }, "", "POST", 413],
        [headers, "{", "POST", 400],
        [headers, "", "GET", 405],
      ]) {
        assert.equal(await status(httpUrl, given, body, method), expected, JSON.stringify([given, body, method]));
      }
    });
  });

  test("disabled server is reported", async () => {
    await withModel([answer("done")], async (model) => {
      mkdirSync(join(model.root, "home/.parallax"));
      writeFileSync(join(model.root, "home/.parallax/settings.json"), '{"mcp": {"excluded": ["sdk"]}}');
      const warnings = [];
      const listen = (warning) => warnings.push(warning.message);
      process.on("warning", listen);
      await model.session({ tools: [add] }).send("go");
      await sleep(20);
      process.off("warning", listen);
      assert.ok(warnings.some((text) => text.includes("`sdk`")), warnings.join());
    });
  });

  test("wrong declarations are rejected", () => {
    assert.throws(() => tool({ name: "two words", description: "x" }, () => ""), TypeError);
    assert.throws(() => tool({ name: "a", description: "x", inputSchema: { type: "string" } }, () => ""), TypeError);
    assert.throws(() => tool({ name: "a", description: "x" }), TypeError);
    const own = { toJSONSchema: () => NUMBERS };
    assert.equal(tool({ name: "a", description: "x", inputSchema: own }, () => "").inputSchema, NUMBERS);
  });
});

describe("skills", { skip, timeout: 30_000 }, () => {
  test("skill of a directory is activated without approval", async () => {
    await withModel([answer(call("activate_skill", { name: "review" })), answer("done")], async (model) => {
      const folder = join(model.root, "skills/review");
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, "SKILL.md"), "---\nname: review\ndescription: Use it to review code\n---\nLook twice.\n");
      await model.session({ skills: [skillDir(join(model.root, "skills"))] }).send("go");
      const [declared, answered] = model.requests();
      assert.ok(declared.includes("Use it to review code"));
      assert.ok(answered.includes("Look twice."));
    });
  });
});

describe("approvals", { skip, timeout: 60_000 }, () => {
  const writing = [answer(call("write_file", { file_path: "a.txt", content: "x" })), answer("done"), answer("more")];
  const isWritten = (model) => existsSync(join(model.project, "a.txt"));

  test("callback approves", async () => {
    await withModel(writing, async (model) => {
      const asked = [];
      const onApproval = async (ask) => asked.push([ask.tool_name, ask.preview.type]) > 0;
      await model.session({ onApproval }).send("go");
      assert.deepEqual(asked, [["write_file", "diff"]]);
      assert.ok(isWritten(model));
    });
  });

  test("callback denies with a reason", async () => {
    await withModel(writing, async (model) => {
      await model.session({ onApproval: () => ({ outcome: "cancel", feedback: "Use b.txt." }) }).send("go");
      assert.ok(model.requests()[1].includes("Use b.txt."));
      assert.deepEqual(readdirSync(model.project), []);
    });
  });

  test("outcome by name", async () => {
    await withModel(writing, async (model) => {
      await model.session({ onApproval: () => "proceed_always" }).send("go");
      assert.ok(isWritten(model));
    });
  });

  test("calls are denied without a callback", async () => {
    await withModel(writing, async (model) => {
      assert.equal((await model.session().send("go")).text, "done");
      assert.ok(!isWritten(model));
      assert.ok(model.requests()[1].includes("does not approve tool calls"));
    });
  });

  test("error of the callback denies the call and is thrown", async () => {
    await withModel(writing, async (model) => {
      const onApproval = () => {
        throw new RangeError("no terminal");
      };
      const session = model.session({ onApproval });
      await assert.rejects(session.send("go"), RangeError);
      assert.ok(!isWritten(model));
      assert.equal((await session.send("again")).text, "done");
    });
  });

  test("unknown outcome ends the turn", async () => {
    await withModel(writing, async (model) => {
      await assert.rejects(model.session({ onApproval: () => "perhaps" }).send("go"), InputRejectedError);
      assert.ok(!isWritten(model));
    });
  });

  for (const given of [{ feedback: "no" }, { approved: false }, {}, [], { outcome: null }, { outcome: true }, 5]) {
    test(`answer without an outcome denies: ${JSON.stringify(given)}`, async () => {
      await withModel(writing, async (model) => {
        const session = model.session({ onApproval: () => given });
        await assert.rejects(session.send("go"), InputRejectedError);
        assert.ok(!isWritten(model));
        assert.equal((await session.send("again")).text, "done");
      });
    });
  }

  for (const outcome of ["perhaps", ""]) {
    test(`unknown outcome for a command is thrown: ${JSON.stringify(outcome)}`, async () => {
      await withModel([answer("done")], async (model) => {
        const commands = join(model.root, "home/.parallax/commands");
        mkdirSync(commands, { recursive: true });
        writeFileSync(join(commands, "make.toml"), "prompt = '!{touch made}'");
        const session = model.session({ onApproval: () => outcome });
        await assert.rejects(session.command("/make"), InputRejectedError);
        assert.deepEqual(readdirSync(model.project), []);
        assert.equal((await session.send("again")).text, "done");
      });
    });
  }

  test("interrupt aborts a callback that waits", async () => {
    await withModel(writing, async (model) => {
      let session;
      let aborted = false;
      const onApproval = async (_, signal) => {
        session.interrupt();
        await new Promise((fulfil) => signal.addEventListener("abort", fulfil));
        aborted = true;
        return true;
      };
      session = model.session({ onApproval });
      await assert.rejects(session.send("go"), TurnCancelledError);
      await sleep(0);
      assert.ok(aborted && !isWritten(model));
    });
  });

  test("tool of the agent can need approval", async () => {
    const pay = tool({ name: "pay", description: "Pays.", needsApproval: true }, () => "paid");
    const asked = [];
    const onApproval = (ask) => void asked.push(ask.tool_name);
    await runTool(pay, {}, { onApproval }, (_, read) => {
      assert.deepEqual(asked, ["mcp_sdk_pay"]);
      assert.ok(!read.includes("paid"));
    });
  });

  test("question of the model is answered", async () => {
    const questions = [{ question: "Which color?", header: "Color", type: "text" }];
    await withModel([answer(call("ask_user", { questions })), answer("done")], async (model) => {
      await model.session({ onQuestion: () => ({ 0: "ultramarine" }) }).send("go");
      assert.ok(model.requests()[1].includes("ultramarine"));
    });
  });
});

function status(url, headers, body, method) {
  return new Promise((fulfil, reject) => {
    const sent = request(url, { method, headers }, (response) => {
      response.resume();
      fulfil(response.statusCode);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
