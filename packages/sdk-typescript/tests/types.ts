// Compiled, not run: uses the package as a program in TypeScript does.
import { agent, tool, skillDir, ModelVisibleError, TurnError, type AskEvent, type Event } from "@parallax/sdk";

const lookup = tool<{ order: number }>(
  {
    name: "lookup",
    description: "Looks up an order by its number.",
    inputSchema: { type: "object", properties: { order: { type: "integer" } }, required: ["order"] },
  },
  async ({ order }, context) => {
    context.progress(1, 2, `order ${order.toFixed(0)}`);
    if (context.signal.aborted) throw new ModelVisibleError("cancelled");
    return { order, session: context.session.sessionId };
  },
);

const approve = async (ask: AskEvent, signal: AbortSignal) => {
  if (signal.aborted || ask.preview?.type !== "diff") return { outcome: "cancel", feedback: "No." } as const;
  return ask.preview.linesAdded < 100;
};

function shown(event: Event): string | undefined {
  switch (event.type) {
    case "message":
      return event.content;
    case "tool_use":
      return `${event.tool_name} ${JSON.stringify(event.parameters)}`;
    case "retry":
      return event.class;
    default:
      return undefined;
  }
}

export async function main(): Promise<void> {
  const helper = agent({
    tools: [lookup],
    skills: [skillDir("skills")],
    mode: "auto_edit",
    onApproval: approve,
    onQuestion: () => ({ "0": "yes" }),
    instructions: async (session) => `You are in ${session.agent.cwd}.`,
  });
  await using session = helper.session({ sessionId: "mine" });
  try {
    for await (const event of session.sendStream("Where is order 7?", AbortSignal.timeout(1000))) {
      console.log(shown(event));
    }
  } catch (error) {
    if (error instanceof TurnError) console.error(error.type, error.code, error.status);
  }
  const { text, stats } = await session.send("Thanks");
  console.log(text, stats.models["m"]?.input_tokens);
  session.write({ type: "pin", place: { content: 1, part: 0 }, on: true });
  // @ts-expect-error: not a mode
  await session.setMode("fast");
  // @ts-expect-error: no outcome
  agent({ onApproval: () => ({ feedback: "No." }) });
  // @ts-expect-error: not an option
  agent({ modle: "x" });
}
