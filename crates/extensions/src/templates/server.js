// An MCP server without dependencies: JSON-RPC, one message per line.
const lines = require('node:readline').createInterface({ input: process.stdin });

const tool = {
  name: 'greet',
  description: 'Greets a person by name',
  inputSchema: {
    type: 'object',
    properties: { name: { type: 'string' } },
    required: ['name'],
  },
  annotations: { readOnlyHint: true },
};

const answers = {
  initialize: (params) => ({
    protocolVersion: params.protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: 'greeter', version: '1.0.0' },
  }),
  ping: () => ({}),
  'tools/list': () => ({ tools: [tool] }),
  'tools/call': (params) => ({
    content: [{ type: 'text', text: `Hello, ${params.arguments.name}!` }],
  }),
};

lines.on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const answer = answers[method];
  const reply = answer
    ? { result: answer(params ?? {}) }
    : { error: { code: -32601, message: `unknown method ${method}` } };
  process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, ...reply }) + '\n');
});
