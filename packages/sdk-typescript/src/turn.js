// One prompt and its events.
import { ReportedError, TurnCancelledError, TurnError } from "./errors.js";

// The program waits when the reader of the events is this far behind.
const MOST_EVENTS = 1000;
const CANCELLED = "FatalCancellationError";

// The session's side of a turn.
export class TurnState {
  lineNumber = 0;
  // Nothing reads the events any more.
  isAbandoned = false;
  hasEnded = false;
  ended;
  failure;
  result;
  text = "";
  #events = [];
  #sleepers = [];
  #end;

  constructor(line) {
    this.line = line;
    this.ended = new Promise((fulfil) => (this.#end = fulfil));
  }

  get isFull() {
    return this.#events.length >= MOST_EVENTS;
  }

  push(event) {
    this.#collect(event);
    if (!this.isAbandoned) this.#events.push(event);
    if (event.type === "result") {
      this.result = event;
      this.#finish();
    }
    this.#wake();
  }

  // The next event; `undefined` after the last.
  async next() {
    while (this.#events.length === 0) {
      if (this.hasEnded) return undefined;
      await new Promise((fulfil) => this.#sleepers.push(fulfil));
    }
    return this.#events.shift();
  }

  end(failure) {
    this.failure ??= failure;
    this.#finish();
  }

  abandon() {
    this.isAbandoned = true;
    this.#events = [];
  }

  // Why the turn failed.
  error() {
    if (this.failure !== undefined || !this.result || this.result.status === "success") return this.failure;
    const of = this.result.error?.type === CANCELLED ? TurnCancelledError : TurnError;
    return new of(this.result.error, `the turn ended with status ${this.result.status}`);
  }

  #wake() {
    for (const wake of this.#sleepers.splice(0)) wake();
  }

  #finish() {
    this.hasEnded = true;
    this.#end();
    this.#wake();
  }

  // Keeps the text of the last answer: that after the last tool call.
  #collect(event) {
    if (event.type === "message" && event.role === "assistant") this.text += event.content;
    else if (event.type === "retry" && event.dropChars > 0) this.text = [...this.text].slice(0, -event.dropChars).join("");
    else if (event.type === "tool_use") this.text = "";
  }
}

export class Turn {
  #session;
  #state;
  #signal;
  #starting;
  #onAbort = () => this.interrupt();

  constructor(session, line, signal) {
    this.#session = session;
    this.#state = new TurnState(line);
    this.#signal = signal;
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  async next() {
    await this.#start();
    const event = await this.#state.next();
    if (event !== undefined) {
      this.#session._taken();
      return { done: false, value: event };
    }
    this.#signal?.removeEventListener("abort", this.#onAbort);
    const error = this.#state.error();
    if (error === undefined) return { done: true, value: undefined };
    throw this.#signal?.aborted && error instanceof ReportedError ? this.#signal.reason : error;
  }

  // What `break` in a loop over the events calls.
  async return(value) {
    if (this.#starting !== undefined && !this.#state.hasEnded) {
      this.#state.abandon();
      this.#session.interrupt();
      this.#session._taken();
      await this.#state.ended;
    }
    return { done: true, value };
  }

  async result() {
    for await (const _ of this);
    const { stats, structured } = this.#state.result;
    return { text: this.#state.text, sessionId: this.#session.sessionId, stats, structured };
  }

  interrupt() {
    if (this.#starting !== undefined && !this.#state.hasEnded) this.#session.interrupt();
  }

  #start() {
    this.#starting ??= (async () => {
      this.#signal?.throwIfAborted();
      this.#signal?.addEventListener("abort", this.#onAbort, { once: true });
      await this.#session._begin(this.#state);
      // The signal may have come while the program started.
      if (this.#signal?.aborted) this.#session.interrupt();
    })().catch((error) => {
      this.#state.end(error);
      throw error;
    });
    return this.#starting;
  }
}
