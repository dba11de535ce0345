// A session: a conversation in one process of the program.
import { answer, denial } from "./approvals.js";
import { InputRejectedError, ParallaxError, StartError } from "./errors.js";
import { Program, programPath, warn } from "./program.js";
import { SessionFiles } from "./session-files.js";
import { ToolServer } from "./tool-server.js";
import { jsonSchema } from "./tools.js";
import { Turn } from "./turn.js";

// An argument of a program cannot be longer on Linux.
const LONGEST_INSTRUCTIONS = 120_000;
const LONGEST_SHUTDOWN = 2000;
const EARLY_EVENTS = 100;
const PROTOCOL = ["--input-format", "stream-json", "-o", "stream-json", "--stream-version", "2"];

export class Session {
  #resume;
  #newId;
  #program;
  #server;
  #files = new SessionFiles();
  #starting;
  #opening;
  #turn;
  #early = [];
  #waiters = [];
  // Approval requests that a callback is working on, by id.
  #asks = new Map();
  // Requests by the number of the line that answers them.
  #answers = new Map();
  #failure;
  #closing;

  constructor(agent, { newId, resume }) {
    this.agent = agent;
    this.sessionId = newId ?? "";
    this.model = agent.model;
    this.mode = agent.mode;
    this.#newId = newId;
    this.#resume = resume;
  }

  start() {
    if (this.#closing !== undefined) return Promise.reject(new ParallaxError("the session is closed"));
    this.#starting ??= this.#open().catch(async (error) => {
      await this.close();
      await this.#release();
      throw error;
    });
    return this.#starting;
  }

  sendStream(prompt, signal) {
    // A line that begins with a slash would be a command.
    const content = prompt.startsWith("/") ? ` ${prompt}` : prompt;
    return new Turn(this, { type: "message", content }, signal);
  }

  send(prompt, signal) {
    return this.sendStream(prompt, signal).result();
  }

  command(text, signal) {
    return new Turn(this, { type: "command", text }, signal).result();
  }

  continueTurn(signal) {
    return new Turn(this, { type: "continue" }, signal).result();
  }

  steer(text) {
    this.write({ type: "steer", content: text });
  }

  interrupt() {
    if (this.#program !== undefined && this.#failure === undefined) this.write({ type: "interrupt" });
  }

  async setModel(model) {
    await this.#request({ type: "set_model", model }, "session");
  }

  async setMode(mode) {
    await this.#request({ type: "set_mode", mode }, "session");
  }

  undo({ turn = null, force = false } = {}) {
    return this.#request({ type: "undo", turn, force }, "undone");
  }

  context() {
    return this.#request({ type: "context" }, "context");
  }

  write(line) {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#program === undefined) throw new ParallaxError("the session has not started");
    return this.#program.write(line);
  }

  close() {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose]() {
    return this.close();
  }

  async #close() {
    const turn = this.#turn;
    if (turn !== undefined) {
      turn.abandon();
      this.interrupt();
      this.#program?.resume();
      let timer;
      const patience = new Promise((fulfil) => (timer = setTimeout(fulfil, LONGEST_SHUTDOWN)));
      await Promise.race([turn.ended, patience]);
      clearTimeout(timer);
    }
    this.#fail(new ParallaxError("the session is closed"));
    await this.#program?.close();
    await this.#release();
  }

  async #release() {
    await this.#server?.close();
    this.#files.remove();
  }

  async #open() {
    const { agent } = this;
    const flags = [...PROTOCOL, ...(await this.#flags())];
    if (this.#closing !== undefined) throw new ParallaxError("the session is closed");
    const opened = new Promise((fulfil, reject) => (this.#opening = { fulfil, reject }));
    this.#program = new Program(programPath(agent.executable), flags, {
      cwd: agent.cwd,
      env: this.#environment(),
      onLine: (line) => this.#handle(line),
    });
    this.#program.exited.then((error) => this.#fail(error));
    await opened;
    this.#files.remove();
    this.#updateRef();
  }

  async #flags() {
    const { agent } = this;
    const given = [
      ["--model", agent.model], ["--approval-mode", agent.mode], ["--resume", this.#resume], ["--session-id", this.#newId],
      ["--max-turns", agent.maxTurns], ["--record", agent.record], ["--replay", agent.replay],
    ];
    const flags = given.filter(([, value]) => value !== undefined).map(([flag, value]) => `${flag}=${value}`);
    flags.push(...agent.skills.map(({ path }) => `--skill-dir=${path}`));
    if (agent.trust) flags.push("--skip-trust");
    const { instructions } = agent;
    const text = typeof instructions === "function" ? await instructions(this) : instructions;
    if (text) {
      if (Buffer.byteLength(text) > LONGEST_INSTRUCTIONS) {
        throw new RangeError(`instructions must be shorter than ${LONGEST_INSTRUCTIONS} bytes`);
      }
      flags.push(`--append-system-prompt=${text}`);
    }
    if (agent.outputSchema !== undefined) {
      flags.push(`--output-schema=${this.#files.write("schema.json", jsonSchema(agent.outputSchema))}`);
    }
    if (agent.tools.length > 0) {
      this.#server = new ToolServer(this, agent.tools);
      await this.#server.start();
      const entry = { ...this.#server.entry(), timeout: agent.toolTimeout };
      flags.push(`--mcp-config=${this.#files.write("mcp.json", { mcpServers: { [agent.name]: entry } })}`);
    }
    return [...flags, ...agent.args];
  }

  #environment() {
    const environment = { ...process.env, ...this.agent.env };
    if (this.agent.tools.length > 0) {
      // A proxy cannot reach the tools.
      const known = environment.NO_PROXY || environment.no_proxy;
      environment.NO_PROXY = known ? `${known},127.0.0.1` : "127.0.0.1";
    }
    return environment;
  }

  #handle(event) {
    switch (event.type) {
      case "init":
        this.sessionId = event.session_id;
        this.model = event.model;
        break;
      case "session":
        this.model = event.model;
        this.mode = event.mode;
        // The first of them ends the start: it answers no request.
        if (this.#opening !== undefined) {
          this.#opening.fulfil();
          this.#opening = undefined;
          return;
        }
        break;
      case "result":
        this.#opening?.reject(new StartError(event.error, "the session could not be opened"));
        this.#opening = undefined;
        break;
      case "ask":
        void this.#answer(event);
        break;
      case "ask_closed":
        this.#asks.get(event.id)?.abort();
        break;
      case "error":
        if (this.#reject(event.message)) return;
        break;
    }
    this.#resolve(event);
    if (this.#turn !== undefined) {
      this.#turn.push(event);
      if (event.type === "result") this.#endTurn();
      else if (this.#turn.isFull) this.#program.pause();
    } else if (event.type === "error" && this.#early.length < EARLY_EVENTS) {
      this.#early.push(event);
    }
  }

  // An error about a line that something waits for.
  #reject(message) {
    const [, digits, text] = /^line (\d+): ([^]*)$/.exec(message) ?? [];
    if (digits === undefined) return false;
    const number = Number(digits);
    const error = new InputRejectedError(text);
    const index = this.#waiters.findIndex((waiter) => waiter.number === number);
    const ask = this.#answers.get(number);
    if (index !== -1) {
      this.#waiters.splice(index, 1)[0].reject(error);
    } else if (ask !== undefined) {
      // The request is still open, unless the session has ended.
      this.#answers.delete(number);
      if (this.#failure === undefined) this.write(denial(ask));
      this._failTurn(error);
    } else if (this.#turn?.lineNumber === number) {
      this.#turn.end(error);
      this.#turn = undefined;
    } else {
      return false;
    }
    this.#updateRef();
    return true;
  }

  #resolve(event) {
    const index = this.#waiters.findIndex((waiter) => waiter.answer === event.type);
    if (index === -1) return;
    this.#waiters.splice(index, 1)[0].fulfil(event);
    this.#updateRef();
  }

  async #request(line, answer) {
    await this.start();
    const number = this.write(line);
    return new Promise((fulfil, reject) => {
      this.#waiters.push({ number, answer, fulfil, reject });
      this.#updateRef();
    });
  }

  async _begin(turn) {
    await this.start();
    while (this.#turn !== undefined) {
      if (!this.#turn.isAbandoned) {
        throw new ParallaxError("a turn is running: wait for its end, steer it, or interrupt it");
      }
      await this.#turn.ended;
    }
    if (turn.isAbandoned) throw new ParallaxError("the turn has not begun");
    turn.lineNumber = this.write(turn.line);
    this.#turn = turn;
    for (const event of this.#early.splice(0)) turn.push(event);
    this.#updateRef();
  }

  // A reader took an event.
  _taken() {
    if (this.#turn === undefined || !this.#turn.isFull) this.#program?.resume();
  }

  #endTurn() {
    this.#turn = undefined;
    this.#answers.clear();
    this.#updateRef();
    if (this.#server !== undefined && !this.#server.wasListed) {
      warn(
        "the program does not use the tools of this agent: its settings disable or replace the MCP server " +
          `\`${this.agent.name}\``,
      );
    }
  }

  // Ends the turn because of an error in this process.
  _failTurn(error) {
    if (this.#turn === undefined || this.#turn.failure !== undefined) return;
    this.#turn.failure = error;
    this.interrupt();
  }

  async #answer(ask) {
    const aborting = new AbortController();
    this.#asks.set(ask.id, aborting);
    let line;
    try {
      line = await answer(this.agent, ask, aborting.signal, this.#server?.wasListed ?? false);
    } catch (error) {
      line = denial(ask);
      if (!aborting.signal.aborted) this._failTurn(error);
    }
    this.#asks.delete(ask.id);
    if (this.#failure === undefined && !aborting.signal.aborted) this.#answers.set(this.write(line), ask);
  }

  // Nothing more comes from the program.
  #fail(error) {
    this.#failure ??= error;
    this.#opening?.reject(error);
    this.#opening = undefined;
    for (const waiter of this.#waiters.splice(0)) waiter.reject(error);
    this.#turn?.end(error);
    this.#turn = undefined;
    for (const aborting of this.#asks.values()) aborting.abort();
  }

  #updateRef() {
    this.#program?.setRef(this.#turn !== undefined || this.#waiters.length > 0);
  }
}
