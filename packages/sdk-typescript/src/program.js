// The process of the program: lines in, lines out.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { ParallaxError, ProgramExitedError, ProgramNotFoundError } from "./errors.js";

const STDERR_TAIL = 8 * 1024;
// After each of these, in milliseconds, the next stronger signal ends the program.
const PATIENCE = [
  [5000, "SIGTERM"],
  [3000, "SIGKILL"],
];

const running = new Set();
process.on("exit", () => {
  for (const child of running) child.kill();
});

// A path is resolved here, because the program runs in another directory.
export function programPath(executable) {
  const wanted = executable || process.env.PARALLAX_EXECUTABLE || "parallax";
  return /[\\/]/.test(wanted) ? resolve(wanted) : wanted;
}

export class Program {
  #child;
  #written = 0;
  #stderr = Buffer.alloc(0);
  #pieces = [];
  // Fulfilled with the error that says how it ended.
  exited;

  // `onLine` gets each line of the output. A line that is not a JSON object is skipped with a warning.
  constructor(executable, flags, { cwd, env, onLine }) {
    this.#child = spawn(executable, flags, { cwd, env, stdio: ["pipe", "pipe", "pipe"], windowsHide: true });
    const child = this.#child;
    running.add(child);
    // The end of the program is reported by `exited`.
    child.stdin.on("error", () => {});
    child.stderr.on("data", (chunk) => {
      this.#stderr = Buffer.concat([this.#stderr, chunk]).subarray(-STDERR_TAIL);
    });
    child.stdout.on("data", (chunk) => this.#split(chunk, onLine));
    this.exited = new Promise((fulfil) => {
      child.once("error", (error) => {
        running.delete(child);
        fulfil(startError(executable, cwd, error));
      });
      child.once("close", (code, signal) => {
        running.delete(child);
        fulfil(new ProgramExitedError(code, signal, this.#stderr.toString("utf8").trim()));
      });
    });
  }

  get pid() {
    return this.#child.pid;
  }

  // Writes a line, and returns its number.
  write(line) {
    this.#child.stdin.write(`${JSON.stringify(line)}\n`);
    this.#written += 1;
    return this.#written;
  }

  pause() {
    this.#child.stdout.pause();
  }

  resume() {
    this.#child.stdout.resume();
  }

  kill(signal) {
    this.#child.kill(signal);
  }

  // An idle session does not keep the process of its user alive.
  setRef(isNeeded) {
    const { stdin, stdout, stderr } = this.#child;
    for (const handle of [this.#child, stdin, stdout, stderr]) {
      if (isNeeded) handle.ref?.();
      else handle.unref?.();
    }
  }

  // Ends the input, then the program, with more force when it does not end by itself.
  async close() {
    this.setRef(true);
    this.resume();
    this.#child.stdin.end();
    const timers = [];
    let after = 0;
    for (const [patience, signal] of PATIENCE) {
      after += patience;
      timers.push(setTimeout(() => this.#child.kill(signal), after));
    }
    await this.exited;
    timers.forEach(clearTimeout);
  }

  #split(chunk, onLine) {
    let begin = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, begin)) {
      this.#pieces.push(chunk.subarray(begin, end));
      const text = Buffer.concat(this.#pieces).toString("utf8");
      this.#pieces = [];
      begin = end + 1;
      const line = parse(text);
      if (line !== undefined) onLine(line);
      else if (text.trim()) warn(`parallax wrote a line that is not a JSON object: ${text.slice(0, 200)}`);
    }
    this.#pieces.push(chunk.subarray(begin));
  }
}

export function warn(message) {
  process.emitWarning(message, "ParallaxWarning");
}

function parse(text) {
  try {
    const line = JSON.parse(text);
    return typeof line === "object" && line !== null && !Array.isArray(line) ? line : undefined;
  } catch {
    return undefined;
  }
}

function startError(executable, cwd, cause) {
  if (!existsSync(cwd)) return new ParallaxError(`the working directory does not exist: ${cwd}`, { cause });
  if (cause.code === "ENOENT") {
    return new ProgramNotFoundError(
      `program not found: ${executable}. Install Parallax, or name its binary with \`executable\` or with the ` +
        "environment variable PARALLAX_EXECUTABLE",
      { cause },
    );
  }
  return new ProgramNotFoundError(`failed to start ${executable}: ${cause.message}`, { cause });
}
