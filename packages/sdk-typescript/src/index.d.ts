// Drive the terminal AI agent Parallax from TypeScript and JavaScript.
import type {
  ApprovalMode,
  AskEvent,
  AskOutcome,
  ContextEvent,
  DecideLine,
  Event,
  InputLine,
  StreamStats,
  UndoneEvent,
} from "./events.js";

export * from "./events.js";

/**
 * True: run it. False or nothing: do not. A string: one of `outcomes`. An object: the fields of a `decide` line, with its
 * `outcome`. Anything else denies the call and ends the turn with an `InputRejectedError`.
 */
export type ApprovalAnswer =
  | boolean
  | AskOutcome
  | (Pick<DecideLine, "outcome"> & Partial<Omit<DecideLine, "id">>)
  | undefined
  | null;

export interface AgentOptions {
  /** Text that is appended to the system prompt, or a function of the session that returns it. */
  instructions?: string | ((session: Session) => string | Promise<string>);
  tools?: readonly Tool[];
  skills?: readonly SkillDirectory[];
  model?: string;
  /** The approval mode at the start. */
  mode?: ApprovalMode;
  /** The working directory. Default: that of this process. */
  cwd?: string;
  /**
   * Decides about each tool call that needs approval. Without it, such calls are denied. The signal is aborted when
   * the request is obsolete.
   */
  onApproval?: (ask: AskEvent, signal: AbortSignal) => ApprovalAnswer | Promise<ApprovalAnswer>;
  /** Answers the questions of the model (`ask.preview.questions`): the answers by index, such as `{ "0": "blue" }`. */
  onQuestion?: (ask: AskEvent, signal: AbortSignal) => unknown;
  /** Trust the working directory for these sessions (`--skip-trust`). */
  trust?: boolean;
  /** Stop after this many model requests. */
  maxTurns?: number;
  /** The schema of final answers, which are then in `structured`. */
  outputSchema?: Schema;
  /** Record all model requests and responses in this file. */
  record?: string;
  /** Replay the responses of a recording instead of calling a model. */
  replay?: string;
  /** The name of the MCP server that has the tools: the model sees them as `mcp_NAME_TOOL`. Default: `sdk`. */
  name?: string;
  /** How many milliseconds a tool may run without reporting progress. Default: 600,000. */
  toolTimeout?: number;
  /** Environment variables, on top of those of this process. */
  env?: Record<string, string>;
  /** More flags of the program. */
  args?: readonly string[];
  /** The binary. Default: the environment variable `PARALLAX_EXECUTABLE`, or `parallax` on the path. */
  executable?: string;
}

/** The settings that sessions share. */
export class Agent {
  constructor(options?: AgentOptions);
  readonly cwd: string;
  readonly name: string;
  readonly tools: readonly Tool[];
  readonly skills: readonly SkillDirectory[];
  readonly model?: string;
  readonly mode?: ApprovalMode;
  /** A new session, with this id if one is given. The program starts with the first use. */
  session(options?: { sessionId?: string }): Session;
  /** Continues a session that an earlier process saved. `latest`: the newest of the directory. */
  resumeSession(sessionId: string): Promise<Session>;
}

/** Makes an agent. */
export function agent(options?: AgentOptions): Agent;

/** A conversation in one process of the program. Call `close` at the end, or declare it with `await using`. */
export class Session implements AsyncDisposable {
  private constructor();
  readonly agent: Agent;
  /** Empty until the session has started, unless it was given. */
  readonly sessionId: string;
  readonly model: string | undefined;
  readonly mode: string | undefined;
  /** Starts the program, if it does not run yet. Prompts do this by themselves. */
  start(): Promise<void>;
  /** Sends a prompt when its events are read. The signal interrupts the turn. */
  sendStream(prompt: string, signal?: AbortSignal): Turn;
  /** Sends a prompt, and waits for the final answer. */
  send(prompt: string, signal?: AbortSignal): Promise<TurnResult>;
  /** Runs a slash command, such as `/stats`. */
  command(text: string, signal?: AbortSignal): Promise<TurnResult>;
  /** Continues a turn that was interrupted, perhaps in an earlier process. */
  continueTurn(signal?: AbortSignal): Promise<TurnResult>;
  /** Adds a message to the running turn: the model reads it with the next tool results. */
  steer(text: string): void;
  /** Ends the running turn, if there is one, and keeps what was received. */
  interrupt(): void;
  /** Uses another model from the next request on. */
  setModel(model: string): Promise<void>;
  /** Changes the approval mode, as far as settings and trust permit. */
  setMode(mode: ApprovalMode): Promise<void>;
  /** Reverts the file changes of the last turn that changed any, or of that turn. */
  undo(options?: { turn?: number; force?: boolean }): Promise<UndoneEvent>;
  /** What fills the context window. */
  context(): Promise<ContextEvent>;
  /** Writes an input line as it is, for what has no method here. Returns its number. */
  write(line: InputLine): number;
  /** Interrupts a running turn and ends the program. The session stays on disk, and can be resumed. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * The events of one turn. The iteration ends after the `result` event; when the turn failed, it then throws the
 * reason. Leaving the loop early interrupts the turn.
 */
export class Turn implements AsyncIterableIterator<Event> {
  private constructor();
  [Symbol.asyncIterator](): this;
  next(): Promise<IteratorResult<Event, undefined>>;
  return(value?: undefined): Promise<IteratorResult<Event, undefined>>;
  /** Waits for the end. Throws `TurnError` when the turn failed. */
  result(): Promise<TurnResult>;
  /** Ends the turn. The iteration continues until the `result` event, then throws `TurnCancelledError`. */
  interrupt(): void;
}

/** How a turn ended. */
export interface TurnResult {
  /** The last answer of the model. */
  text: string;
  sessionId: string;
  stats: StreamStats;
  /** With `outputSchema`, the answer as JSON; for a slash command, its data. */
  structured?: unknown;
}

/** A JSON Schema, or a schema that converts itself to one, as those of Zod 4 do. */
export type Schema = { [key: string]: unknown } | { toJSONSchema(): object };

export interface ToolDefinition {
  name: string;
  description: string;
  /** Of the type `object`. Arguments that do not match it never reach the function. */
  inputSchema?: Schema;
  /** The model reads every error. Otherwise, only a `ModelVisibleError` does, and others end the turn. */
  sendErrorsToModel?: boolean;
  /** Calls go through `onApproval`. */
  needsApproval?: boolean;
  /** The tool is available in plan mode. */
  readOnly?: boolean;
}

/** A tool that the model can call. */
export interface Tool extends Readonly<Required<ToolDefinition>> {
  readonly run: (params: any, context: ToolContext) => unknown;
}

/** What a tool can know about a call. */
export interface ToolContext {
  readonly session: Session;
  readonly agent: Agent;
  readonly sessionId: string;
  readonly cwd: string;
  /** When the call arrived. */
  readonly timestamp: Date;
  /** Aborted when the turn is interrupted or the session is closed. */
  readonly signal: AbortSignal;
  /** Reports progress, which becomes a `tool_progress` event. It also extends the time limit of the call. */
  progress(progress: number, total?: number, message?: string): void;
}

/** Makes a tool of a function. Its result is sent as it is if it is a string, and as JSON otherwise. */
export function tool<Params = Record<string, unknown>>(
  definition: ToolDefinition,
  run: (params: Params, context: ToolContext) => unknown,
): Tool;

/** Made by `skillDir`. */
export interface SkillDirectory {
  readonly path: string;
}

/** A skill (a directory with `SKILL.md`), or a directory of skills. */
export function skillDir(path: string): SkillDirectory;

/** Every error of this package except `ModelVisibleError`. */
export class ParallaxError extends Error {}

/** The binary is not installed, or not where the agent looks for it. */
export class ProgramNotFoundError extends ParallaxError {}

/** The program ended while it was needed. */
export class ProgramExitedError extends ParallaxError {
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** The end of what it wrote to standard error. */
  readonly stderr: string;
}

/** A failure that the program reported. */
export class ReportedError extends ParallaxError {
  /** The class of the failure, such as `ApiError`. */
  readonly type: string;
  /** The exit code; for a failure of the model service, its HTTP status. */
  readonly code: number;
  /** The HTTP status of the model service, if there was one. */
  readonly status: number | undefined;
}

/** The session could not be opened: no key, an untrusted directory, an unknown session id. */
export class StartError extends ReportedError {}

/** The turn failed. */
export class TurnError extends ReportedError {}

/** The turn was interrupted. */
export class TurnCancelledError extends TurnError {}

/** The program did not accept a line: an unknown mode, an unknown command. */
export class InputRejectedError extends ParallaxError {}

/** A tool threw an error that is not meant for the model. `cause` has it. */
export class ToolError extends ParallaxError {
  readonly tool: string;
}

/** Throw it in a tool: the model reads the message as the result of the call. */
export class ModelVisibleError extends Error {}
