// What a request looked like on the wire.

/** New values up to this many characters are shown whole. */
const OPENED = 4000;

/** The texts of values, which are compared often. */
const written = new WeakMap();

function jsonOf(value) {
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? '';
  let text = written.get(value);
  if (text === undefined) {
    text = JSON.stringify(value);
    written.set(value, text);
  }
  return text;
}

const isObject = (value) => value !== null && typeof value === 'object';

/** A tree in which what is the same as before is grey and closed, and what is new stands out. */
function changes(value, before, name) {
  if (jsonOf(value) === jsonOf(before)) {
    if (!isObject(value)) return h('div.leaf.same', h('span.key', `${name}: `), h('span.muted', `${firstLine(jsonOf(value), 90)} as before`));
    const summary = h('summary', h('span.key', `${name}: `), h('span.muted', `as before, ${bytes(jsonOf(value).length)}`));
    return lazily(h('details.branch.same', summary), () => h('div.children', Object.entries(value).slice(0, 500).map(([key, child]) => tree(child, key))));
  }
  if (!isObject(value) || !isObject(before) || Array.isArray(value) !== Array.isArray(before)) return h('div.added', tree(value, name, jsonOf(value).length < OPENED ? 'all' : true));
  const details = h('details.branch', { open: true }, h('summary', h('span.key', `${name}: `), h('span.size', Array.isArray(value) ? `[${value.length}]` : `{${Object.keys(value).length}}`)));
  return lazily(details, () => h('div.children', Array.isArray(value) ? arrayChanges(value, before) : Object.entries(value).map(([key, child]) => changes(child, before[key], key))));
}

function arrayChanges(value, before) {
  let shared = 0;
  while (shared < value.length && shared < before.length && jsonOf(value[shared]) === jsonOf(before[shared])) shared += 1;
  const size = value.slice(0, shared).reduce((sum, child) => sum + jsonOf(child).length, 0);
  const same = h('details.branch.same', h('summary', h('span.muted', `${plural(shared, 'entry').replace('entrys', 'entries')} as before, ${bytes(size)}`)));
  const rest = value.slice(shared, shared + 500).map((child, at) => changes(child, before[shared + at], shared + at));
  return [shared ? lazily(same, () => h('div.children', value.slice(0, shared).slice(0, 500).map((child, at) => tree(child, at)))) : null, ...rest];
}

/** The body, and what it shares with the one before; undefined where none is known. */
function wireBody(session, request) {
  const { wire } = request;
  if (!wire) return undefined;
  const text = wire.bodies.restore(wire.body);
  const earlier = session.requests.slice(0, request.number - 1).findLast((one) => one.wire && one.role === request.role && one.wire.bodies === wire.bodies);
  const before = earlier && earlier.wire.bodies.restore(earlier.wire.body);
  return { text, earlier: before === undefined ? undefined : earlier, before };
}

function sharedStart(one, other) {
  const most = Math.min(one.length, other.length);
  let at = 0;
  while (at < most && one.charCodeAt(at) === other.charCodeAt(at)) at += 1;
  return at;
}

function bodySection(session, request, meter) {
  const body = wireBody(session, request);
  if (!body) return null;
  if (body.text === undefined) return section('Body', h('p.muted', 'The body is not kept any more.'));
  let value;
  let before;
  try {
    value = JSON.parse(body.text);
    if (body.earlier) before = JSON.parse(body.before);
  } catch {
    const cut = request.wire.bytes > body.text.length ? ` of ${bytes(request.wire.bytes)}` : '';
    return section('Body', h('p.muted', `The first ${bytes(body.text.length)}${cut}`), h('pre.block', body.text.slice(0, 200000)));
  }
  if (!body.earlier) return section('Body', h('p', `${bytes(request.wire.bytes)}. There is no earlier body to compare it with.`), tree(value, undefined, true));
  const shared = sharedStart(body.text, body.before);
  const added = body.text.length - shared;
  return section('Body', h('p', `The first ${bytes(shared)} are the same as those of request ${body.earlier.number}; ${bytes(added)} follow.`), meter(shared, added), h('div.wire-body', Object.entries(value).map(([key, child]) => changes(child, before[key], key))));
}

function headerSection(title, headers) {
  return headers ? section(title, pairs(Object.entries(headers))) : null;
}

function wireSections(session, request, meter) {
  const { wire } = request;
  if (!wire) return [];
  const { retry, failure } = wire;
  return [
    section('Request', pairs([['Address', h('code', `${wire.method} ${wire.url}`)], ['Attempt', String(wire.attempt)], wire.status ? ['HTTP status', String(wire.status)] : null, wire.answered ? ['Response began after', duration(wire.answered - wire.sent)] : null, failure ? ['Failed', failure] : null])),
    retry ? section('Retry', h('p', `Attempt ${retry.attempt} of ${retry.max} failed: ${retry.class}${retry.status ? ` (HTTP ${retry.status})` : ''}. ${retry.message}`), h('p.muted', `Retried after ${duration(retry.delay)}.`)) : null,
    headerSection('Request headers', wire.headers), headerSection('Response headers', wire.response),
    bodySection(session, request, meter),
  ].filter(Boolean);
}
