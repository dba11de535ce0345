// Answers to the approval requests and questions of the program.
import { realpathSync } from "node:fs";
import { join, sep } from "node:path";
import { InputRejectedError } from "./errors.js";

const NO_CALLBACK = "The program that runs this session does not approve tool calls.";
const MALFORMED = "`onApproval` must return true, false, one of the outcomes, or an object with an `outcome`";

// The line that answers the request. `servesTools`: the program uses the tool server of the session.
// Throws what the callback throws.
export async function answer(agent, ask, signal, servesTools) {
  if (ask.kind === "question") {
    const value = agent.onQuestion ? await agent.onQuestion(ask, signal) : undefined;
    return { type: "answer", id: ask.id, value: value ?? null };
  }
  return { ...(await decision(agent, ask, signal, servesTools)), type: "decide", id: ask.id };
}

async function decision(agent, ask, signal, servesTools) {
  if (isOwn(agent, ask, servesTools)) return { outcome: "proceed_once" };
  if (!agent.onApproval) return { outcome: "cancel", feedback: NO_CALLBACK };
  const given = await agent.onApproval(ask, signal);
  if (given === true) return { outcome: "proceed_once" };
  if (given === false || given === undefined || given === null) return { outcome: "cancel" };
  if (typeof given === "string") return { outcome: given };
  // Never approve what was not said clearly.
  if (typeof given !== "object" || typeof given.outcome !== "string") throw new InputRejectedError(MALFORMED);
  return given;
}

// Whether it is about something that the agent itself brought: a tool, or a skill of its directories.
// Settings can replace the tool server by another one of the same name, whose tools need approval.
function isOwn(agent, { preview }, servesTools) {
  if (preview?.type === "mcp" && preview.server === agent.name && servesTools) {
    return agent.tools.some((tool) => tool.name === preview.tool && !tool.needsApproval);
  }
  if (preview?.type === "skill") {
    const folder = real(preview.folder);
    return agent.skills.some(({ path }) => `${folder}${sep}`.startsWith(join(real(path), sep)));
  }
  return false;
}

function real(path) {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

// The line that denies the request.
export function denial(ask) {
  return ask.kind === "question"
    ? { type: "answer", id: ask.id, value: null }
    : { type: "decide", id: ask.id, outcome: "cancel" };
}
