// Drive the terminal AI agent Parallax from JavaScript. The types are in index.d.ts.
export { Agent, agent } from "./agent.js";
export {
  InputRejectedError,
  ModelVisibleError,
  ParallaxError,
  ProgramExitedError,
  ProgramNotFoundError,
  ReportedError,
  StartError,
  ToolError,
  TurnCancelledError,
  TurnError,
} from "./errors.js";
export { Session } from "./session.js";
export { skillDir, tool } from "./tools.js";
export { Turn } from "./turn.js";
