// The session as data: records of the journal, and what a running session reports.

const KINDS = ['system and tools', 'memory and context', 'prompts', 'answers', 'tool calls', 'tool results', 'summaries'];
const SUMMARY = 6;
const millis = (time) => {
  const parsed = typeof time === 'number' ? time : Date.parse(time);
  return Number.isNaN(parsed) ? undefined : parsed;
};

function sizes(parts) {
  const sum = { text: 0, call: 0, result: 0, context: 0 };
  for (const part of parts ?? []) {
    const length = JSON.stringify(part).length;
    if (part.functionCall) sum.call += length;
    else if (part.functionResponse) sum.result += length;
    else if (part.text?.startsWith('<session_context>')) sum.context += length;
    else sum.text += length;
  }
  return sum;
}

function textOf(parts) {
  return (parts ?? []).filter((part) => typeof part.text === 'string' && !part.thought && !part.text.startsWith('<session_context>')).map((part) => part.text).join('');
}

function outputOf(wire) {
  for (const part of wire ?? []) {
    const response = part.functionResponse?.response;
    if (!response) continue;
    const value = response.error ?? response.output ?? response;
    const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
    return text.replace(/^<untrusted_context>\n([\s\S]*)\n<\/untrusted_context>$/, '$1');
  }
  return '';
}

class Session {
  constructor() {
    Object.assign(this, {
      head: {}, title: '', contents: [], turns: [], requests: [], calls: [], items: [], log: [], compactions: [],
      compacted: null, spent: null, budgets: [], open: [], waiting: [], last: undefined, live: new Map(), liveCalls: new Map(),
      hooks: [], window: undefined, streaming: undefined, recordedAnswer: undefined, dropped: 0, servers: new Map(), approvals: [], messages: [], unreported: new Map(),
    });
  }

  note(level, target, text, time, detail) {
    const line = { at: this.log.length + 1, level, target, text, time: millis(time) ?? this.last, detail };
    // A page that is opened later gets the journal first, and then what was reported meanwhile.
    let at = this.log.length;
    while (at > 0 && this.log[at - 1].time > line.time) at -= 1;
    this.log.splice(at, 0, line);
  }

  /** Takes one record of the journal: an object with one key. */
  record(record) {
    const [[kind, value]] = Object.entries(record);
    const time = millis(value?.time);
    this[`on_${kind}`]?.(value, time);
    if (time && kind !== 'request') this.last = Math.max(time, this.last ?? 0);
  }

  get turn() {
    return this.turns.at(-1);
  }

  /** The turn that something happened in, which may be reported long after. */
  turnAt(time) {
    const at = this.turns.findLastIndex((turn) => turn.start <= time);
    const turn = this.turns[at];
    const next = this.turns[at + 1];
    // Hooks run before the journal has the prompt.
    const isBetween = !turn || turn.end < time;
    return isBetween && next && next.start - time < NEAR ? next : turn ?? this.turn;
  }

  on_session(head) {
    this.head = head;
    this.last = millis(head.startTime);
    this.note('info', 'session', `Session ${head.sessionId} in ${head.project}`, head.startTime);
  }

  on_name(name) {
    this.title = name.text;
  }

  on_content(content, time) {
    const parts = content.wire?.parts ?? [];
    const role = content.wire?.role ?? 'user';
    const hasResults = parts.some((part) => part.functionResponse);
    const isPrompt = role === 'user' && !content.synthetic && !content.command && (content.display !== undefined || !hasResults);
    const kind = role === 'model' ? 3 : content.synthetic ? 1 : 2;
    if (isPrompt) this.prompt(content.display ?? textOf(parts), time);
    if (content.command) this.items.push({ type: 'shell', text: content.command, output: textOf(parts), time });
    if (role === 'model' && !content.synthetic) this.answer(content, parts, time);
    this.push({ role, parts, kind, time, index: this.contents.length });
  }

  push(content) {
    content.size = sizes(content.parts);
    content.chars = content.size.text + content.size.call + content.size.result + content.size.context;
    this.contents.push(content);
  }

  prompt(text, time) {
    this.waiting = [];
    const running = this.turn;
    if (running?.isLive && running.prompt === text && !running.item) {
      running.item = { type: 'user', text, time, turn: running.number };
      this.items.push(running.item);
      return;
    }
    const turn = { number: this.turns.length + 1, prompt: text, start: time, end: undefined, reason: undefined, requests: [], calls: [], hooks: [] };
    this.turns.push(turn);
    // A request can be reported before the journal has the prompt.
    for (const request of this.requests.slice(-50)) {
      if (request.isLive && request.start >= time - NEAR && (!request.turn || request.turn.end)) this.moveRequest(request, turn);
    }
    turn.item = { type: 'user', text, time, turn: turn.number };
    this.items.push(turn.item);
    this.title ||= firstLine(text, 90);
  }

  answer(content, parts, time) {
    let request = this.waiting.findLast((one) => one.role === 'main' && !one.error && !one.content);
    if (!request) {
      const start = this.last ?? time;
      request = this.addRequest({ start, end: time, latency: time - start, isEstimate: true, model: content.model, role: 'main', usage: content.usage ?? {} });
    }
    this.waiting = [];
    // The journal has what was shown while it streamed.
    this.recordedAnswer = this.streaming?.item ?? this.recordedAnswer;
    this.streaming = undefined;
    Object.assign(request, { base: this.contents, sent: this.contents.length, compacted: this.compacted, content: { parts, thoughts: content.thoughts ?? [] } });
    request.isPartial = content.partial;
    for (const text of content.thoughts ?? []) this.items.push({ type: 'thought', text, time });
    const text = textOf(parts);
    if (text.trim()) this.items.push({ type: 'text', text, time, model: content.model, partial: content.partial });
    this.open = [];
    for (const part of parts) {
      if (!part.functionCall) continue;
      const { name, args, id } = part.functionCall;
      const known = this.reportedCall(name, this.open.length);
      const call = Object.assign(known ?? {}, { id, name, args, asked: time, turn: this.turn, request, status: 'running' });
      this.open.push(call);
      this.addCall(call);
      this.items.push({ type: 'call', call, time });
    }
  }

  addCall(call) {
    call.turn ??= this.turn;
    this.calls.push(call);
    call.turn?.calls.push(call);
  }

  moveRequest(request, turn) {
    if (request.turn) request.turn.requests = request.turn.requests.filter((one) => one !== request);
    request.turn = turn;
    turn?.requests.push(request);
  }

  /** A call can be reported before the journal has the prompt of its turn. */
  moveCall(call, turn) {
    if (call.turn) call.turn.calls = call.turn.calls.filter((one) => one !== call);
    call.turn = turn;
    turn?.calls.push(call);
  }

  /** The MCP server of a tool, by its name. */
  serverOf(tool) {
    const names = [...this.servers.keys(), ...this.calls.map((call) => call.server).filter(Boolean)];
    return names.find((name) => tool.startsWith(`mcp_${name}_`)) ?? /^mcp_([^_]+)_/.exec(tool)?.[1];
  }

  /** The calls of a subagent, which the result of its call lists. */
  agentCalls(outer, progress) {
    if (!Array.isArray(progress?.steps)) return;
    const reported = this.calls.slice(-2000).filter((call) => call.agent === progress.agent && !call.isRecorded && (!call.outer || call.outer === outer));
    outer.steps = progress.steps.map((step) => {
      const asked = step.started ?? outer.start;
      const at = reported.findIndex((call) => (call.requested ?? call.name) === step.name && Math.abs(call.asked - asked) < NEAR);
      const call = at < 0 ? { agent: progress.agent, name: step.name, asked, start: asked, turn: outer.turn } : reported.splice(at, 1)[0];
      Object.assign(call, { outer, isRecorded: true, title: step.title, status: step.status ?? 'cancelled', server: call.server ?? this.serverOf(step.name) });
      call.duration ??= step.durationMs;
      call.end ??= asked + (step.durationMs ?? 0);
      call.output ??= step.error;
      if (at < 0) {
        this.addCall(call);
        this.expectReport(call);
      } else if (call.turn !== outer.turn) {
        this.moveCall(call, outer.turn);
      }
      return call;
    });
  }

  on_result(result, time) {
    const call = this.open[result.index] ?? { name: result.name, args: {}, asked: time };
    const told = result.told ?? {};
    Object.assign(call, {
      end: time, duration: told.durationMs, status: result.status, title: told.title, told, display: result.display,
      server: told.server ?? call.server, output: outputOf(result.wire), wire: result.wire, sandbox: told.sandbox, ran: told.arguments ?? call.ran,
    });
    // A hook replaced the call.
    if (told.tool) Object.assign(call, { requested: result.name, name: told.tool });
    call.start = time - (told.durationMs ?? 0);
    this.agentCalls(call, result.display);
    const rule = told.rule ? `; rule: ${told.rule}` : '';
    const level = result.status === 'error' ? 'error' : result.status === 'cancelled' ? 'warning' : 'info';
    const why = result.status === 'error' ? `: ${call.output}` : '';
    this.note(level, call.server ? `mcp.${call.server}` : 'tool', `${call.name} ${result.status} in ${duration(told.durationMs)}${rule}${why}`, time, { tool: call.name, requested: call.requested, arguments: call.ran ?? call.args, error: told.error });
  }

  on_round(round, time) {
    const parts = this.open.flatMap((call) => call.wire ?? []).concat(Array.isArray(round.tail) ? round.tail : []);
    for (const text of round.said ?? []) this.items.push({ type: 'steer', text, time: this.last });
    this.push({ role: 'user', parts, kind: 5, time: this.open.at(-1)?.end ?? time, index: this.contents.length });
    this.open = [];
  }

  on_request(record, start) {
    const end = start + record.latencyMs;
    const live = this.reported(record, start);
    const facts = {
      start, end, latency: record.latencyMs, first: record.firstChunkMs, model: record.model, role: record.role,
      usage: record.usage ?? {}, cost: record.cost, bytes: record.bytes, window: record.window, error: record.error, status: record.status,
    };
    let request = live;
    if (live) {
      Object.assign(live, facts, { isRunning: false });
    } else {
      request = this.addRequest(facts);
    }
    if (record.window) this.window = record.window;
    Object.assign(request, { base: this.contents, sent: this.contents.length, compacted: this.compacted });
    const failures = this.waiting.filter((one) => one.role === record.role && one.error).length;
    if (!record.error) request.retries = failures;
    this.waiting.push(request);
    if (record.error && !live) {
      this.note('error', 'request', `${record.model}: ${record.error}${record.status ? ` (HTTP ${record.status})` : ''}`, end);
    }
  }

  addRequest(facts) {
    const request = { number: this.requests.length + 1, retries: 0, turn: this.turn, chunks: [], ...facts };
    this.requests.push(request);
    request.turn?.requests.push(request);
    return request;
  }

  on_turn_end(end, time) {
    if (this.turn) Object.assign(this.turn, { end: time, reason: end.reason, detail: end.detail, isLive: false });
    if (end.reason !== 'done') this.items.push({ type: 'ended', text: end.detail ?? end.reason, time });
    this.note(end.reason === 'done' ? 'info' : 'warning', 'turn', `Turn ${this.turn?.number ?? ''} ended: ${end.detail ?? end.reason}`, time);
  }

  on_truncate({ keep }) {
    this.note('info', 'session', `Rewound: ${plural(this.contents.length - keep, 'content')} removed`);
    this.contents = this.contents.slice(0, keep);
    this.items.push({ type: 'ended', text: 'The conversation was rewound; later content is no longer sent' });
  }

  on_compaction(compaction, time) {
    const before = this.compacted;
    this.compacted = { ...compaction, time, base: this.contents, earlier: before };
    this.compactions.push({ ...compaction, time, after_request: this.requests.length });
    const text = `Compaction (${compaction.how}): ${tokens(compaction.before)} → ${tokens(compaction.after)} tokens`;
    this.items.push({ type: 'compaction', text, time });
    this.note('info', 'compaction', text, time);
  }

  on_compaction_undone() {
    this.compacted = this.compacted?.earlier ?? null;
    this.note('info', 'compaction', 'The latest compaction was undone');
  }

  on_route(route, time) {
    this.note('info', 'routing', `${route.model}: ${route.reason ?? route.source ?? ''}`, time);
  }

  on_plan(plan, time) {
    this.note('info', 'plan', plan.approved ? 'The plan was approved' : `The plan was rejected: ${plan.feedback ?? ''}`, time);
  }

  on_budget(budget) {
    this.budgets = this.budgets.filter((one) => one.kind !== budget.kind || one.scope !== budget.scope);
    if (budget.limit) this.budgets.push(budget);
  }

  on_spent(spent) {
    this.spent = spent;
    // Budgets of flags and settings are only here.
    if (spent.budgets) this.budgets = spent.budgets;
  }
}

/** What a request sent, oldest first: contents, with the shorter form of a compaction. */
function bodyOf(request) {
  const { base = [], sent = 0, compacted } = request;
  const later = base.slice(0, sent);
  if (!compacted || compacted.at > sent) return later;
  const content = (wire, kind) => {
    const parts = wire.parts ?? [];
    const size = sizes(parts);
    return { role: wire.role, parts, kind, size, chars: size.text + size.call + size.result + size.context, key: wire };
  };
  const pieces = compacted.pieces.flatMap((piece) => {
    if (piece.kept) return compacted.base.slice(piece.kept[0], piece.kept[1]);
    if (piece.made) return [content(piece.made.wire, SUMMARY)];
    // A content that became shorter is still what it was.
    const { wire } = piece.changed;
    const isResult = wire.parts?.some((part) => part.functionResponse);
    return [content(wire, wire.role === 'model' ? 3 : isResult ? 5 : 2)];
  });
  return [...pieces, ...later.slice(compacted.at)];
}

const isSame = (one, other) => one === other || (one.key && one.key === other?.key);

/** The body, what it shares with the main request before, and what is new. */
function difference(session, request) {
  const body = bodyOf(request);
  const earlier = session.requests.slice(0, request.number - 1).findLast((one) => one.role === 'main' && one.base);
  const before = earlier ? bodyOf(earlier) : [];
  let shared = 0;
  while (shared < body.length && isSame(body[shared], before[shared])) shared += 1;
  const size = (list) => list.reduce((sum, content) => sum + content.chars, 0);
  return { body, shared, earlier, sharedSize: size(body.slice(0, shared)), addedSize: size(body.slice(shared)) };
}

/** The kind of most of a content. */
function mainKind({ kind, size }) {
  if (kind === SUMMARY) return kind;
  const sums = [[size.text, kind === 5 ? 2 : kind], [size.context, 1], [size.call, 4], [size.result, 5]];
  return sums.reduce((most, one) => (one[0] > most[0] ? one : most))[1];
}

/** What was computed of requests that ended: they are drawn often. */
const breakdowns = new WeakMap();

/** Tokens of a request by kind: shares of its size, and the rest of the service's count. */
function breakdown(request) {
  const total = request.usage?.promptTokenCount || 0;
  const known = breakdowns.get(request);
  if (known?.total === total && known.sent === request.sent) return known.sums;
  const sums = computeBreakdown(request, total);
  breakdowns.set(request, { total, sent: request.sent, sums });
  return sums;
}

function computeBreakdown(request, total) {
  const sums = [0, 0, 0, 0, 0, 0, 0];
  for (const content of bodyOf(request)) {
    const { text, call, result, context } = content.size;
    if (content.kind === SUMMARY) {
      sums[SUMMARY] += content.chars / 4;
      continue;
    }
    sums[1] += context / 4;
    sums[content.kind === 5 ? 2 : content.kind] += text / 4;
    sums[4] += call / 4;
    sums[5] += result / 4;
  }
  const estimated = sums.reduce((sum, value) => sum + value, 0);
  if (total > estimated) {
    sums[0] = total - estimated;
  } else if (total > 0) {
    for (let at = 0; at < sums.length; at += 1) sums[at] *= total / estimated;
  }
  return sums;
}
