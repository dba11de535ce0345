// Tools that the model can call, and skill directories.
import { resolve } from "node:path";

const EMPTY = { type: "object", properties: {} };

export function tool(definition, run) {
  const { name, description, inputSchema = EMPTY } = definition;
  if (typeof name !== "string" || !/^[A-Za-z0-9_-]+$/.test(name)) {
    throw new TypeError(`tool name ${JSON.stringify(name)}: use letters, digits, "_", and "-"`);
  }
  if (typeof description !== "string" || typeof run !== "function") {
    throw new TypeError(`tool "${name}": it needs a description and a function`);
  }
  const schema = jsonSchema(inputSchema);
  if (schema?.type !== "object") {
    throw new TypeError(`tool "${name}": the type of \`inputSchema\` must be "object"`);
  }
  return Object.freeze({
    name,
    description,
    inputSchema: schema,
    sendErrorsToModel: definition.sendErrorsToModel ?? false,
    needsApproval: definition.needsApproval ?? false,
    readOnly: definition.readOnly ?? false,
    run,
  });
}

// Zod and other libraries convert their schemas themselves.
export function jsonSchema(schema) {
  return typeof schema?.toJSONSchema === "function" ? schema.toJSONSchema() : schema;
}

// The result of a call as text: a string as it is, everything else as JSON.
export async function callTool(tool, params, context) {
  const result = await tool.run(params, context);
  if (result === undefined || result === null) return "";
  if (typeof result === "string") return result;
  const text = JSON.stringify(result);
  if (text === undefined) throw new TypeError("the result of the tool is not a JSON value");
  return text;
}

export function skillDir(path) {
  return Object.freeze({ path: resolve(path) });
}
