// Prompts, events, limits of lines, and the choice of a session.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import {
  agent, InputRejectedError, ParallaxError, ProgramExitedError, ProgramNotFoundError, StartError, tool, TurnCancelledError, TurnError,
} from "../src/index.js";
import { answer, begun, call, collect, isAnswer, PROGRAM, programs, skip, withModel } from "./scripted.mjs";

describe("prompts", { skip, timeout: 60_000 }, () => {
  test("events are streamed and the last answer is the result", async () => {
    const replies = [answer("First. ", call("list_directory", { dir_path: "." })), answer("Grüße 👋"), answer("more")];
    await withModel(replies, async (model) => {
      const session = model.session({ instructions: "Say 👋.", model: "gemini-2.5-flash" });
      const turn = session.sendStream('ä\n\u2028"x"');
      const events = await collect(turn);
      const texts = events.filter((event) => event.type === "message").map((event) => event.content);
      assert.deepEqual(texts, ['ä\n\u2028"x"', "First. ", "Grüße 👋"]);
      assert.equal(events.at(-1).type, "result");
      assert.equal((await turn.result()).text, "Grüße 👋");
      assert.ok(model.requests()[0].includes("Say 👋."));
      const result = await session.send("more");
      assert.equal(result.text, "more");
      assert.equal(result.sessionId, session.sessionId);
      assert.equal(result.stats.models["gemini-2.5-flash"].input_tokens, 300);
    });
  });

  test("answer of megabytes arrives whole", async () => {
    const text = randomBytes(1_000_000).toString("hex");
    await withModel([answer(text)], async (model) => {
      assert.ok((await model.session().send("go")).text === text);
    });
  });

  test("events can be requested ahead", async () => {
    await withModel([answer("done")], async (model) => {
      const turn = model.session().sendStream("go");
      const [first, second, third] = await Promise.all([turn.next(), turn.next(), turn.next()]);
      assert.equal(first.value.type, "message");
      assert.ok(!second.done && !third.done);
      assert.equal((await turn.result()).text, "done");
    });
  });

  test("slow reader gets every event", async () => {
    const chunks = Array.from({ length: 5000 }, () => ({ text: randomBytes(8).toString("hex") }));
    await withModel([{ chunks: [...chunks, { finish: "STOP" }] }], async (model) => {
      let length = 0;
      let text = "";
      for await (const event of model.session().sendStream("go")) {
        if (!isAnswer(event)) continue;
        if (length++ % 200 === 0) await new Promise((fulfil) => setTimeout(fulfil, 5));
        text += event.content;
      }
      assert.ok(text === chunks.map((chunk) => chunk.text).join(""));
    });
  });

  test("text of a broken attempt is not in the result", async () => {
    const broken = { chunks: [{ text: "half 👋 and" }, { cut: "reset" }] };
    await withModel([broken, answer("whole")], async (model) => {
      assert.equal((await model.session().send("go")).text, "whole");
    });
  });

  test("prompt with a slash is sent as text", async () => {
    await withModel([answer("done")], async (model) => {
      const session = model.session();
      assert.equal((await session.send("/etc/hosts has what?")).text, "done");
      assert.ok(model.requests()[0].includes("/etc/hosts has what?"));
      assert.ok("sessionId" in (await session.command("/stats")).structured);
      await assert.rejects(session.command("/nope"), InputRejectedError);
    });
  });

  test("failed turn throws after its events", async () => {
    const refused = { status: 400, error: { code: 400, message: "no way", status: "INVALID_ARGUMENT" } };
    await withModel([refused, answer("fine")], async (model) => {
      const session = model.session();
      const kinds = [];
      await assert.rejects(
        async () => {
          for await (const event of session.sendStream("go")) kinds.push(event.type);
        },
        (error) => error instanceof TurnError && error.type === "ApiError" && error.status === 400,
      );
      assert.equal(kinds.at(-1), "result");
      assert.equal((await session.send("again")).text, "fine");
    });
  });

  test("answer is corrected to match a schema", async () => {
    const outputSchema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
    await withModel([answer("five"), answer('{"n": 5}'), answer('{"n": 6}')], async (model) => {
      const session = model.session({ outputSchema });
      assert.deepEqual((await session.send("go")).structured, { n: 5 });
      assert.deepEqual((await session.send("go")).structured, { n: 6 });
    });
  });

  test("model and mode change", async () => {
    await withModel([answer("done")], async (model) => {
      const session = model.session();
      await session.setModel("gemini-2.5-pro");
      await session.setMode("plan");
      assert.deepEqual([session.model, session.mode], ["gemini-2.5-pro", "plan"]);
      await assert.rejects(session.setMode("fast"), /unknown mode/);
      assert.deepEqual(Object.keys((await session.send("go")).stats.models), ["gemini-2.5-pro"]);
    });
  });

  test("changes are undone", async () => {
    const replies = [answer(call("write_file", { file_path: "a.txt", content: "x" })), answer("done")];
    await withModel(replies, async (model) => {
      const session = model.session({ mode: "auto_edit" });
      await session.send("write");
      assert.ok(existsSync(join(model.project, "a.txt")));
      assert.deepEqual((await session.undo()).restored.map((path) => basename(path)), ["a.txt"]);
      assert.ok(!existsSync(join(model.project, "a.txt")));
      assert.ok((await session.context()).window > 0);
    });
  });

  test("malformed line becomes an error event", async () => {
    await withModel([answer("done")], async (model) => {
      const session = model.session();
      await session.start();
      session.write({ type: "nonsense" });
      const errors = (await collect(session.sendStream("go"))).filter((event) => event.type === "error");
      assert.equal(errors.length, 1);
      assert.match(errors[0].message, /nonsense/);
    });
  });
});

describe("cancelling", { skip, timeout: 60_000 }, () => {
  test("interrupted turn keeps its text and the session continues", async () => {
    await withModel([begun("half"), answer("whole")], async (model) => {
      const session = model.session();
      const turn = session.sendStream("go");
      const texts = [];
      await assert.rejects(async () => {
        for await (const event of turn) {
          if (!isAnswer(event)) continue;
          texts.push(event.content);
          turn.interrupt();
        }
      }, TurnCancelledError);
      assert.deepEqual(texts, ["half"]);
      assert.equal((await session.send("again")).text, "whole");
    });
  });

  test("interrupt directly behind the prompt ends the turn", async () => {
    await withModel([begun("half"), begun("half")], async (model) => {
      const session = model.session();
      await session.start();
      for (let i = 0; i < 2; i++) {
        const turn = session.sendStream("go");
        const sending = assert.rejects(turn.result(), TurnCancelledError);
        // The line of the prompt is written, and nothing has come back.
        await Promise.resolve();
        turn.interrupt();
        await sending;
      }
    });
  });

  test("aborted signal interrupts the turn with its reason", async () => {
    await withModel([begun("half"), answer("whole")], async (model) => {
      const session = model.session();
      await assert.rejects(session.send("go", AbortSignal.timeout(500)), { name: "TimeoutError" });
      await assert.rejects(session.send("go", AbortSignal.abort()), { name: "AbortError" });
      assert.equal((await session.send("again")).text, "whole");
    });
  });

  test("leaving the loop interrupts the turn", async () => {
    await withModel([begun("half"), answer("whole")], async (model) => {
      const session = model.session();
      for await (const event of session.sendStream("go")) if (isAnswer(event)) break;
      assert.equal((await session.send("again")).text, "whole");
    });
  });

  test("turn that is left before it begins sends nothing", async () => {
    await withModel([answer("whole")], async (model) => {
      const session = model.session();
      const turn = session.sendStream("left");
      const first = assert.rejects(turn.next(), /has not begun/);
      await turn.return();
      await first;
      assert.equal((await session.send("go")).text, "whole");
      assert.ok(!model.requests().join().includes('"left"'));
    });
  });

  test("close during the start starts nothing", async () => {
    await withModel([], async (model) => {
      const instructions = () => new Promise((fulfil) => setTimeout(() => fulfil("Be brief."), 200));
      const tools = [tool({ name: "none", description: "None." }, () => "")];
      const session = model.session({ instructions, tools });
      const sending = assert.rejects(session.send("go"), /closed/);
      await session.close();
      await sending;
      assert.deepEqual(programs(model.project), []);
    });
  });

  test("second prompt during a turn is refused", async () => {
    await withModel([begun("half")], async (model) => {
      const session = model.session();
      const turn = session.sendStream("go");
      await turn.next();
      await assert.rejects(session.send("more"), /a turn is running/);
      await turn.return();
    });
  });

  test("close during a turn ends its reader", async () => {
    await withModel([begun("half")], async (model) => {
      const session = model.session();
      const sending = assert.rejects(session.send("go"), ParallaxError);
      await new Promise((fulfil) => setTimeout(fulfil, 500));
      await session.close();
      await sending;
      await assert.rejects(session.send("more"), /closed/);
    });
  });
});

describe("processes", { skip, timeout: 60_000 }, () => {
  test("session is resumed by another process", async () => {
    await withModel([answer("one"), answer("two")], async (model) => {
      const first = model.session({}, "my-session");
      await first.send("remember the word apricot");
      await first.close();
      const second = model.keep(await model.agent().resumeSession("my-session"));
      assert.equal((await second.send("which word?")).text, "two");
      assert.ok(model.requests()[1].includes("apricot"));
    });
  });

  test("unknown session is reported", async () => {
    await withModel([], async (model) => {
      await assert.rejects(model.agent().resumeSession("nowhere"), (error) => error instanceof StartError && error.code === 42);
    });
  });

  test("missing key is reported", async () => {
    await withModel([], async (model) => {
      const session = model.session({ env: { GEMINI_API_KEY: "", GOOGLE_GEMINI_BASE_URL: "" } });
      await assert.rejects(session.send("go"), (error) => error instanceof StartError && error.code === 41);
    });
  });

  test("missing program and directory are named", async () => {
    await withModel([], async (model) => {
      const lost = model.session({ executable: "/nowhere/parallax" });
      await assert.rejects(lost.send("go"), (error) => {
        assert.ok(error instanceof ProgramNotFoundError);
        assert.match(error.message, /program not found: \/nowhere\/parallax.*Install/);
        return true;
      });
      await assert.rejects(model.session({ cwd: "/nowhere/project" }).send("go"), /working directory does not exist/);
    });
  });

  test("unknown flag is reported", async () => {
    await withModel([], async (model) => {
      await assert.rejects(model.session({ args: ["--no-such-flag"] }).send("go"), /no-such-flag/);
    });
  });

  test("killed program ends the turn with an error", async () => {
    await withModel([begun("half")], async (model) => {
      const session = model.session();
      const turn = session.sendStream("go");
      await assert.rejects(
        async () => {
          for await (const event of turn) {
            if (isAnswer(event)) programs(model.project).forEach((pid) => process.kill(Number(pid), "SIGKILL"));
          }
        },
        (error) => error instanceof ProgramExitedError && error.signal === "SIGKILL",
      );
      await assert.rejects(session.send("more"), ProgramExitedError);
    });
  });

  test("other output of a wrapper is skipped", async () => {
    await withModel([answer("done")], async (model) => {
      const wrapper = join(model.root, "wrapper");
      writeFileSync(wrapper, `#!/bin/sh\necho hello\necho '[1]'\nexec ${PROGRAM} "$@"\n`, { mode: 0o755 });
      const warnings = [];
      const listen = (warning) => warnings.push(warning.message);
      process.on("warning", listen);
      assert.equal((await model.session({ executable: wrapper }).send("go")).text, "done");
      process.off("warning", listen);
      assert.equal(warnings.filter((text) => text.includes("not a JSON object")).length, 2);
    });
  });

  test("two sessions run at once", async () => {
    await withModel([answer("one")], (one) =>
      withModel([answer("two")], async (two) => {
        const results = await Promise.all([one.session().send("go"), two.session().send("go")]);
        assert.deepEqual(results.map((result) => result.text), ["one", "two"]);
      }),
    );
  });

  test("close works twice and without a start", async () => {
    await withModel([], async (model) => {
      const session = model.session();
      await session.close();
      await session.close();
    });
  });

  test("program ends with its user", async () => {
    await withModel([begun("half")], async (model) => {
      const { cwd, env } = model.agent();
      const library = new URL("../src/index.js", import.meta.url).href;
      const code = `import { agent } from ${JSON.stringify(library)};
        const session = agent({ executable: ${JSON.stringify(PROGRAM)} }).session();
        for await (const event of session.sendStream("go")) if (event.role === "assistant") console.log("begun");`;
      const child = spawn(process.execPath, ["--input-type=module", "-e", code], {
        cwd, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "inherit"],
      });
      await once(child.stdout, "data");
      assert.equal(programs(model.project).length > 0, existsSync("/proc/self/environ"));
      child.kill("SIGKILL");
      for (let i = 0; i < 100 && programs(model.project).length > 0; i++) {
        await new Promise((fulfil) => setTimeout(fulfil, 50));
      }
    });
  });

  test("session that is not closed does not keep its process alive", async () => {
    await withModel([answer("done")], async (model) => {
      const { cwd, env } = model.agent();
      const library = new URL("../src/index.js", import.meta.url).href;
      const code = `import { agent, tool } from ${JSON.stringify(library)};
        const tools = [tool({ name: "none", description: "None." }, () => "")];
        const session = agent({ executable: ${JSON.stringify(PROGRAM)}, tools }).session();
        console.log((await session.send("go")).text);`;
      const child = spawn(process.execPath, ["--input-type=module", "-e", code], {
        cwd, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "inherit"],
      });
      let text = "";
      child.stdout.on("data", (chunk) => (text += chunk));
      const [exitCode] = await once(child, "close");
      assert.deepEqual([exitCode, text], [0, "done\n"]);
      for (let i = 0; i < 100 && programs(model.project).length > 0; i++) {
        await new Promise((fulfil) => setTimeout(fulfil, 50));
      }
    });
  });

  test("agent rejects wrong options", async () => {
    assert.throws(() => agent({ modle: "x" }), TypeError);
    await assert.rejects(agent({ instructions: "x".repeat(200_000) }).session().start(), RangeError);
  });
});
