// What a running session reports beside its journal: requests as they go over the wire, tool calls
// while they run, runs of hooks, notices.

/** Characters of bodies that are kept. */
const BODIES = 16e6;
/** Milliseconds by which the times of a journal and a tap may differ. */
const MAX_CLOCK_SKEW_MS = 1500;
const CHUNKS = 2000;

// The tap names the agent of a subagent's request, the journal only says that it is one.
const isOfRole = (role, wire) => role === wire || role === 'subagent';

/** Items are numbered in each run of an agent: `runs` are the items of the calls that started it. */
const runKey = ({ runs, agents }) => (runs ?? agents ?? []).join('/');
const liveKey = (call) => [runKey(call), call.item].filter(Boolean).join('/');

/** The bodies of one process. Most are kept as differences to an earlier one. */
class Bodies {
  constructor() {
    this.deltas = new Map();
    this.size = 0;
  }

  add(body) {
    this.deltas.set(body.key, body);
    this.size += body.text.length;
    for (const [key, oldest] of this.deltas) {
      if (this.size <= BODIES || key === body.key) return;
      this.deltas.delete(key);
      this.size -= oldest.text.length;
    }
  }

  /** The text; undefined if what it refers to is not kept any more. */
  restore(key) {
    const body = this.deltas.get(key);
    if (!body?.base) return body?.text;
    const base = this.restore(body.base);
    if (base === undefined) return undefined;
    return base.slice(0, body.prefix) + body.text + base.slice(base.length - body.suffix);
  }
}

Object.assign(Session.prototype, {
  now() {
    return this.isRunning ? Date.now() : this.last ?? Date.now();
  },

  /** Takes one message of a tap: an object with one key. */
  report(message) {
    const [[kind, value]] = Object.entries(message);
    this[`live_${kind}`]?.(value, value.time);
  },

  live_hello() {
    this.live = new Map();
    this.bodies = new Bodies();
  },

  live_dropped({ count: lost }) {
    this.dropped += lost;
    this.note('warning', 'devtools', `${plural(lost, 'message')} of the session dropped because the page was too slow`);
  },

  live_request(sent, time) {
    const before = this.live.get(sent.id);
    // Sent again without a reported retry: with new credentials.
    if (before?.isRunning) Object.assign(before, { isRunning: false, end: time, latency: time - before.start, error: 'rejected' });
    this.bodies ??= new Bodies();
    this.bodies.add(sent.body);
    const recorded = this.requests.slice(-2000).findLast((one) => !one.wire && isOfRole(one.role, sent.role) && Math.abs(one.start - time) < MAX_CLOCK_SKEW_MS && (!one.bytes || one.bytes === sent.size));
    const request = recorded ?? this.addRequest({ start: time, turn: this.turnAt(time), model: sent.model, role: sent.role, usage: {}, bytes: sent.size, isRunning: true, isLive: true });
    request.wire = { id: sent.id, attempt: sent.attempt, method: sent.method, url: sent.url, headers: sent.headers, body: sent.body.key, bytes: sent.body.bytes, sent: time, bodies: this.bodies };
    if (!recorded && sent.role === 'main') Object.assign(request, { base: this.contents, sent: this.contents.length, compacted: this.compacted });
    this.live.set(sent.id, request);
  },

  live_response({ id, status, headers }, time) {
    const wire = this.live.get(id)?.wire;
    if (wire) Object.assign(wire, { status, response: headers, answered: time });
  },

  live_chunk({ id, bytes: length }, time) {
    const request = this.live.get(id);
    if (!request) return;
    const at = Math.max(0, time - request.wire.sent);
    request.wire.received = (request.wire.received ?? 0) + length;
    // The body of an error is no token.
    if (request.isRunning && !(request.wire.status >= 400)) request.first ??= at;
    if (request.chunks.length < CHUNKS) request.chunks.push({ at, length });
  },

  live_answer({ item }) {
    if (item !== this.recordedAnswer) this.streaming = { item, text: '' };
  },

  live_answer_text({ item, text }) {
    if (item === this.recordedAnswer) return;
    // The page may have been opened after its beginning.
    if (this.streaming?.item !== item) this.streaming = { item, text: '… ' };
    this.streaming.text += text;
  },

  live_answer_end({ item, dropped }) {
    if (dropped && this.streaming?.item === item) this.streaming = undefined;
  },

  live_retry(retry, time) {
    const request = this.live.get(retry.id);
    if (!request) return;
    request.wire.retry = retry;
    if (!request.isLive) return;
    Object.assign(request, { isRunning: false, end: time, latency: time - request.start, error: retry.class, status: retry.status ?? undefined });
  },

  live_end({ id, error }, time) {
    const request = this.live.get(id);
    if (!request) return;
    this.live.delete(id);
    request.wire.failure = error ?? undefined;
    if (!request.isLive) return;
    Object.assign(request, { isRunning: false, end: time, latency: time - request.start });
    if (error) request.error ??= 'failed';
  },

  /** The row of a request that the tap reported, when the journal has it too. */
  reported(record, start) {
    const fits = (one) => one.isLive && isOfRole(record.role, one.role) && Math.abs(one.start - start) < MAX_CLOCK_SKEW_MS;
    const rows = this.requests.slice(-200).filter(fits);
    const same = rows.filter((one) => one.bytes === record.bytes);
    const found = (same.length ? same : rows).find((one) => Boolean(one.error) === Boolean(record.error)) ?? same[0] ?? rows[0];
    if (!found) return undefined;
    // A request beside the conversation is recorded once, whatever it took.
    const others = record.role === 'main' || record.role === 'subagent' ? [found] : rows.filter((one) => one.wire.id === found.wire.id);
    for (const one of others) one.isLive = false;
    if (found.turn !== this.turn) this.moveRequest(found, this.turn);
    return found;
  },

  live_call(call, time) {
    const key = liveKey(call);
    if (call.agents.length) {
      const agent = call.agents.at(-1);
      const facts = { item: call.item, args: call.args, states: [], outer: this.liveCalls.get(runKey(call)) };
      const recorded = this.recordedAgentCall(agent, call.name, time);
      facts.outer ??= recorded?.outer;
      const nested = Object.assign(recorded ?? { agent, name: call.name, asked: time, start: time, turn: this.turnAt(time), status: 'running', server: this.serverOf(call.name) }, facts);
      this.liveCalls.set(key, nested);
      if (!recorded) this.addCall(nested);
      return;
    }
    const facts = { item: call.item, states: [], liveTime: time, index: call.index };
    const known = this.calls.slice(-500).findLast((one) => !one.item && !one.agent && (one.requested ?? one.name) === call.name && Math.abs(one.asked - time) < MAX_CLOCK_SKEW_MS);
    this.liveCalls.set(key, known ? Object.assign(known, facts) : { name: call.name, isWaiting: true, ...facts });
  },

  /** Remembers a call of a subagent that so far only the journal has. */
  expectReport(call) {
    const key = `${call.agent}/${call.name}`;
    const waiting = this.unreported.get(key);
    if (waiting) waiting.push(call);
    else this.unreported.set(key, [call]);
  },

  /** The call of a subagent, if the journal had it before the tap. */
  recordedAgentCall(agent, name, time) {
    const waiting = this.unreported.get(`${agent}/${name}`) ?? [];
    const at = waiting.findIndex((call) => Math.abs(call.asked - time) < MAX_CLOCK_SKEW_MS);
    return at < 0 ? undefined : waiting.splice(at, 1)[0];
  },

  /** What the tap knew of a call before the journal. */
  reportedCall(name, index) {
    const from = (this.turn?.start ?? 0) - MAX_CLOCK_SKEW_MS;
    for (const [key, call] of this.liveCalls) {
      if (!call.isWaiting || call.name !== name || call.index !== index || call.liveTime < from) continue;
      call.isWaiting = false;
      if (call.isEnded) this.liveCalls.delete(key);
      return call;
    }
    return undefined;
  },

  live_call_state(state, time) {
    const call = this.liveCalls.get(liveKey(state));
    if (!call) return;
    call.states.push({ phase: state.phase, at: time });
    call.title ??= state.title ?? undefined;
  },

  live_call_end(end) {
    const call = this.liveCalls.get(liveKey(end));
    if (!call) return;
    // The journal may not have it yet.
    if (call.isWaiting) call.isEnded = true;
    else this.liveCalls.delete(liveKey(end));
    call.ran = end.arguments ?? undefined;
    call.data = end.data ?? undefined;
    if (call.agent && end.tool !== end.name) Object.assign(call, { requested: end.name, name: end.tool });
    if (call.agent) Object.assign(call, { status: end.status, duration: end.duration, end: end.time, start: end.time - end.duration, server: end.server ?? call.server });
  },

  /** A message of a server's connection. Calls of tools are shown with what the journal has of them. */
  live_mcp(message, time) {
    const { server, method, id, sent } = message;
    if (!this.servers.has(server)) this.servers.set(server, server);
    if (message.is_response) {
      const request = this.messages.slice(-500).findLast((one) => one.server === server && one.id === id && one.sent !== sent && !one.end);
      if (!request) return;
      Object.assign(request, { end: time, duration: time - request.asked, status: message.failed ? 'error' : 'success', answer: message.message ?? `${bytes(message.bytes)}, not shown` });
      this.noteMcp(request);
      return;
    }
    if (method === 'tools/call' && sent) return;
    const isRequest = id !== undefined && id !== null;
    const row = { server, name: method, sent, id, asked: time, start: time, status: isRequest ? 'running' : 'success', isMessage: true, isNotification: !isRequest, content: message.message ?? `${bytes(message.bytes)}, not shown` };
    this.messages.push(row);
    if (this.messages.length > 5000) this.messages.shift();
    if (!isRequest && method !== 'notifications/progress') this.noteMcp(row);
  },

  noteMcp(row) {
    const failed = row.status === 'error';
    const took = row.duration === undefined ? '' : ` ${failed ? 'failed' : 'answered'} in ${duration(row.duration)}`;
    this.note(failed ? 'warning' : 'debug', `mcp.${row.server}`, `${row.sent ? '→' : '←'} ${row.name}${took}`, row.end ?? row.asked);
  },

  live_hook(hook, time) {
    const run = { name: hook.name, event: hook.event, start: time, end: time + hook.duration, success: hook.success };
    this.hooks.push(run);
    this.turnAt(time)?.hooks.push(run);
    this.note(hook.success ? 'info' : 'warning', 'hook', `${hook.event}: ${hook.name} ${hook.success ? 'ran' : 'failed'} in ${duration(hook.duration)}${hook.exit_code === null ? '' : `, exit code ${hook.exit_code}`}`, time, hook);
  },

  live_log({ level, target, text }, time) {
    this.note(level, target, text, time);
  },
});
