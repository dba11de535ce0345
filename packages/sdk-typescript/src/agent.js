// An agent: the settings that its sessions share.
import { resolve } from "node:path";
import { Session } from "./session.js";

const OPTIONS = new Set([
  "instructions", "tools", "skills", "model", "mode", "cwd", "onApproval", "onQuestion", "trust", "maxTurns",
  "outputSchema", "record", "replay", "name", "toolTimeout", "env", "args", "executable",
]);

export class Agent {
  constructor(options = {}) {
    for (const name of Object.keys(options)) {
      if (!OPTIONS.has(name)) throw new TypeError(`unknown option of an agent: ${name}`);
    }
    const { tools = [], skills = [], cwd = process.cwd(), name = "sdk", toolTimeout = 600_000, env = {}, args = [] } = options;
    Object.assign(this, options, { tools, skills, cwd: resolve(cwd), name, toolTimeout, env, args });
    const names = tools.map((tool) => tool.name);
    if (new Set(names).size < names.length) throw new TypeError(`tools need different names: ${names.join(", ")}`);
  }

  session({ sessionId } = {}) {
    return new Session(this, { newId: sessionId });
  }

  async resumeSession(sessionId) {
    const session = new Session(this, { resume: sessionId });
    await session.start();
    return session;
  }
}

export function agent(options) {
  return new Agent(options);
}
