// What can go wrong.

export class ParallaxError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }
}

export class ProgramNotFoundError extends ParallaxError {}

export class ProgramExitedError extends ParallaxError {
  constructor(exitCode, signal, stderr) {
    const how = signal === null ? `ended with exit code ${exitCode}` : `was terminated by signal ${signal}`;
    super(`parallax ${how}${stderr ? `: ${stderr}` : ""}`);
    this.exitCode = exitCode;
    this.signal = signal;
    this.stderr = stderr;
  }
}

// A failure that the program reported, with the fields of `error` in its `result` line.
export class ReportedError extends ParallaxError {
  constructor(error, fallback) {
    super(error?.message ?? fallback);
    this.type = error?.type ?? "";
    this.code = error?.code ?? 1;
    this.status = error?.status ?? undefined;
  }
}

export class StartError extends ReportedError {}

export class TurnError extends ReportedError {}

export class TurnCancelledError extends TurnError {}

export class InputRejectedError extends ParallaxError {}

export class ToolError extends ParallaxError {
  constructor(tool, cause) {
    super(`tool \`${tool}\` failed: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.tool = tool;
  }
}

// Not a failure of the turn: the model reads the message.
export class ModelVisibleError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = "ModelVisibleError";
  }
}
