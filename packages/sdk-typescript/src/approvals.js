// Answers to the approval requests and questions of the program.
import { realpathSync } from "node:fs";
import { join, sep } from "node:path";

const NO_CALLBACK = "The program that runs this session does not approve tool calls.";

// The line that answers the request. `servesTools`: the program uses the tool server of the session.
// Throws what the callback throws.
export async function answer(agent, ask, signal, servesTools) {
  if (ask.kind === "question") {
    const value = agent.onQuestion ? await agent.onQuestion(ask, signal) : undefined;
    return { type: "answer", id: ask.id, value: value ?? null };
  }
  return { type: "decide", id: ask.id, ...(await decision(agent, ask, signal, servesTools)) };
}

async function decision(agent, ask, signal, servesTools) {
  if (isOwn(agent, ask, servesTools)) return { outcome: "proceed_once" };
  if (!agent.onApproval) return { outcome: "cancel", feedback: NO_CALLBACK };
  const given = await agent.onApproval(ask, signal);
  if (typeof given === "object" && given !== null) return { outcome: "proceed_once", ...given };
  if (typeof given === "string") return { outcome: given };
  return { outcome: given === true ? "proceed_once" : "cancel" };
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
