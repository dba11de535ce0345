// The views. Each has `element`, and `show()`, which draws what is new.

const statusOf = (request) => {
  if (request.isRunning) return pill('run', 'running');
  if (request.error) {
    const text = request.status ? `${request.status} ${request.error}` : request.error;
    return h('span.pill.bad', { title: text }, text);
  }
  return pill('good', 'OK');
};
const inputOf = (request) => request.usage?.promptTokenCount ?? 0;
const outputTokens = (request) => (request.usage?.candidatesTokenCount ?? 0) + (request.usage?.thoughtsTokenCount ?? 0);
/** What fails costs nothing that is known. */
const costOf = (request) => (request.error && !request.cost ? undefined : request.cost);
const cachedOf = (request) => request.usage?.cachedContentTokenCount ?? 0;

function section(title, ...children) {
  return h('section.part', h('h3', title), children);
}

/** A list beside the details of what is selected in it; below it on narrow screens. */
function split(list, details) {
  return h('div.split', list, details);
}

class RequestsView {
  constructor(session) {
    this.session = session;
    this.details = h('div.details', { tabindex: 0, role: 'region', 'aria-label': 'Details of the request' }, empty('Select a request to see what was sent and what came back.'));
    this.list = new VirtualList({
      label: 'Requests',
      head: ['Time', 'Model', 'Purpose', 'Status', 'Retries', '1st token', 'Duration', 'Input', 'Cached', 'Output', 'Cost'].map((name, at) => h(`span.c${at}`, name)),
      row: (request) => [
        h('span.c0', clock(request.start)), h('span.c1', { title: request.model }, request.model), h('span.c2', request.role), h('span.c3', statusOf(request)),
        h('span.c4', request.retries ? String(request.retries) : '0'), h('span.c5', duration(request.first)),
        h('span.c6', `${request.isEstimate ? '≈ ' : ''}${duration(request.latency ?? Date.now() - request.start)}`),
        h('span.c7', tokens(inputOf(request))), h('span.c8', tokens(cachedOf(request))), h('span.c9', tokens(outputTokens(request))), h('span.c10', dollars(costOf(request))),
      ],
      select: (request) => this.detail(request),
      // The duration of one that runs grows.
      state: (request) => [request.retries, request.isRunning ? Date.now() : request.latency, request.first, inputOf(request), outputTokens(request), request.cost, request.error, request.status, request.model, request.role, request.start].join(),
    });
    this.list.element.classList.add('requests');
    this.element = split(this.list.element, this.details);
  }

  show() {
    this.list.set(this.session.requests, true);
    if (this.list.selected < 0 && this.session.requests.length) this.list.choose(0);
    else if (this.shown && this.drawn !== this.stateOf(this.shown)) this.detail(this.shown);
    else if (this.shown && this.chunks !== this.shown.chunks.length) this.progress(this.shown);
  }

  /** Draws the chunks that arrived. */
  progress(request) {
    this.chunks = request.chunks.length;
    for (const [part, made] of [['facts', this.factsOf(request)], ['stream', this.timeline(request)]]) {
      this.parts[part].replaceWith(made);
      this.parts[part] = made;
    }
  }

  factsOf(request) {
    return pairs([
      ['Model', request.model], ['Purpose', request.role], ['Status', statusOf(request)], ['Retries', String(request.retries ?? 0)],
      ['Started', clock(request.start)], ['Time to first token', duration(request.first)], ['Duration', `${request.isEstimate ? '≈ ' : ''}${duration(request.latency)}`],
      ['Input tokens', count(inputOf(request))], ['Cached', `${count(cachedOf(request))} (${percent(cachedOf(request), inputOf(request))})`],
      ['Output tokens', count(outputTokens(request))], ['Cost', dollars(costOf(request))], request.bytes ? ['Size', bytes(request.bytes)] : null,
    ]);
  }

  /** Selects a request of the main agent by its number among those that were answered. */
  reveal(number) {
    const all = this.session.requests.filter((one) => one.role === 'main');
    const request = all.filter((one) => !one.error)[number - 1] ?? all.at(-1);
    if (request) this.list.choose(this.session.requests.indexOf(request));
  }

  detail(request) {
    if (!request) return;
    // What is open stays open while more is reported.
    const opened = this.shown === request ? [...this.details.querySelectorAll('details')].map((one) => one.open) : [];
    const { scrollTop } = this.details;
    this.shown = request;
    this.drawn = this.stateOf(request);
    const { body, shared, earlier, sharedSize, addedSize } = difference(this.session, request);
    const isMain = request.role === 'main';
    this.chunks = request.chunks.length;
    this.parts = { facts: this.factsOf(request), stream: this.timeline(request) };
    const change = isMain && request.base ? section('What changed',
      earlier
        ? h('p', `The same as request ${earlier.number} up to content ${shared}: ${plural(shared, 'content')}, ${bytes(sharedSize)}. New: ${plural(body.length - shared, 'content')}, ${bytes(addedSize)}.`)
        : h('p', `The first request: ${plural(body.length, 'content')}, ${bytes(addedSize)}.`),
      this.meter(sharedSize, addedSize),
      this.contents(body, shared)) : null;
    const answer = request.content;
    this.details.replaceChildren(...[
      h('h2', `Request ${request.number}`), this.parts.facts,
      this.parts.stream, change, ...wireSections(this.session, request, (shared, added) => this.meter(shared, added)),
      answer ? section('Response', answer.thoughts?.map((text) => h('details.branch', h('summary', 'Thought: ', firstLine(text)), prose(text))), answer.parts?.map((part, at) => tree(part, at, 'all'))) : null,
    ].filter(Boolean));
    [...this.details.querySelectorAll('details')].forEach((one, at) => {
      if (opened[at] && !one.open) one.open = true;
    });
    if (opened.length) this.details.scrollTop = scrollTop;
  }

  /** What of a request may have changed since it was drawn, beside chunks. */
  stateOf(request) {
    return [request.isRunning, request.latency, request.wire?.status, request.wire?.retry?.attempt, request.content ? 1 : 0, request.error].join();
  }

  meter(shared, added) {
    const bar = h('div.meter', { role: 'img', 'aria-label': `${percent(shared, shared + added)} shared` });
    for (const [kind, value] of [['old', shared], ['new', added]]) {
      const piece = h(`i.${kind}`);
      piece.style.flexGrow = String(value);
      bar.append(piece);
    }
    return bar;
  }

  contents(body, shared) {
    const one = (content, at) => {
      const details = h(`details.branch${at < shared ? '.same' : '.added'}`, h('summary', h('span.key', `${at + 1} ${content.role}`), h('span.muted', ` ${KINDS[content.kind]}, ${bytes(content.chars)} `), h('span', firstLine(textOf(content.parts) || content.parts?.map((part) => part.functionCall?.name ?? part.functionResponse?.name ?? '').join(' '), 80))));
      return lazily(details, () => h('div.children', content.parts.map((part, index) => tree(part, index, true))));
    };
    const list = h('div.contents');
    if (shared > 0) {
      const same = h('details.branch.same', h('summary', `${plural(shared, 'content')} as before`));
      list.append(lazily(same, () => h('div.children', body.slice(0, Math.min(shared, 400)).map(one), shared > 400 ? h('p.muted', `… ${count(shared - 400)} more`) : null)));
    }
    list.append(...body.slice(shared, shared + 200).map((content, at) => one(content, at + shared)));
    return list;
  }

  timeline(request) {
    const { chunks } = request;
    const total = request.latency ?? chunks.at(-1)?.at ?? 0;
    if (!total) return h('span');
    const chart = svg('svg', { class: 'timeline', viewBox: '0 0 600 44', preserveAspectRatio: 'none', role: 'img', 'aria-label': 'When chunks arrived' });
    const x = (value) => (600 * value) / total;
    if (request.first !== undefined) {
      chart.append(svg('rect', { x: 0, y: 14, width: x(request.first), height: 16, class: 'wait' }), svg('rect', { x: x(request.first), y: 14, width: Math.max(1, 600 - x(request.first)), height: 16, class: 'stream' }));
    } else {
      chart.append(svg('rect', { x: 0, y: 14, width: 600, height: 16, class: request.error || request.isRunning ? 'wait' : 'stream' }));
    }
    // One element, however many chunks there are.
    const places = new Set(chunks.map((chunk) => x(chunk.at).toFixed(1)));
    if (places.size) chart.append(svg('path', { d: [...places].map((place) => `M${place} 6h1.5v32h-1.5z`).join(''), class: 'chunk' }));
    const words = [
      request.first === undefined ? null : `first token after ${duration(request.first)}`, `total ${duration(total)}`,
      chunks.length ? `${plural(chunks.length, 'chunk')}, ${bytes(request.wire?.received ?? 0)}` : null,
    ].filter(Boolean);
    return section('Stream', chart, h('p.muted', words.join(' · ')));
  }
}

const busyFrom = (row) => row.busy ?? row.start;

/** The call whose agent made a request, if only one of these can have. */
function agentOf(calls, request) {
  if (request.role !== 'subagent') return undefined;
  const running = calls.filter((call) => (call.start ?? call.asked) - 2 <= request.start && request.start <= (call.end ?? Infinity));
  return running.length === 1 ? running[0] : undefined;
}

/** Puts what an agent did below the call that started it. */
function nest(rows) {
  const known = new Set(rows.map((row) => row.call).filter(Boolean));
  const inner = Map.groupBy(rows, (row) => (known.has(row.outer) ? row.outer : undefined));
  const below = (call, depth) => (inner.get(call) ?? []).flatMap((row) => {
    row.depth = depth;
    return row.call && row.call !== call ? [row, ...below(row.call, depth + 1)] : [row];
  });
  return below(undefined, 0);
}

/** Marks the critical path: from the end, always what ended last before what is marked already. */
function markCritical(rows) {
  let edge = Infinity;
  // Of what ended together, the longest held up the rest.
  for (const row of [...rows].sort((one, other) => other.end - one.end || busyFrom(one) - busyFrom(other))) {
    if (row.end > edge + 2 || row.end <= busyFrom(row)) continue;
    row.isCritical = true;
    edge = busyFrom(row);
  }
}

const executingSince = (call) => call.states?.find((state) => state.phase === 'executing')?.at;

class TurnsView {
  constructor(session) {
    this.session = session;
    this.list = new VirtualList({
      label: 'Turns', height: 56,
      row: (turn) => [h('span.turn', h('b', String(turn.number)), h('span.text', firstLine(turn.prompt) || '(no text)')),
        h('span.muted', `${duration(this.endOf(turn) - turn.start)} · ${plural(turn.requests.length, 'request')} · ${plural(turn.calls.length, 'tool call')}${turn.reason && turn.reason !== 'done' ? ` · ${turn.reason}` : turn.end ? '' : ' · running'}`)],
      select: (turn) => this.detail(turn),
      state: (turn) => [this.endOf(turn), turn.requests.length, turn.calls.length, turn.reason].join(),
    });
    this.list.element.classList.add('turns');
    this.waterfall = new VirtualList({
      label: 'Waterfall', height: 34,
      row: (row) => {
        const name = h('span.name', { title: row.note }, h(`i.dot.${row.kind}`), row.name, h('span.muted', row.note && ` ${firstLine(row.note, 70)}`));
        if (row.depth) name.style.paddingInlineStart = `${Math.min(row.depth, 3)}rem`;
        return [
          name,
          h('span.track', row.pieces.map(([kind, start, end]) => this.place(h(`i.bar.${kind}`), start, end))),
          h('span.time', row.isBad ? pill('bad', 'failed') : null, row.isCritical ? h('span.critical', { title: 'On the critical path' }, '◆ ') : null, duration(row.end - busyFrom(row))),
        ];
      },
    });
    this.waterfall.element.classList.add('waterfall');
    this.details = h('div.details', { tabindex: 0, role: 'region', 'aria-label': 'Waterfall of the turn' }, empty('Select a turn.'));
    this.element = split(this.list.element, this.details);
  }

  show() {
    const { turns } = this.session;
    this.list.set(turns, true);
    if (this.list.selected < 0 && turns.length) this.list.choose(turns.length - 1);
    else if (this.shown && (this.shown.end === undefined || this.drawn !== this.stateOf(this.shown))) this.detail(this.shown);
  }

  /** When a turn ended: now, if it runs in a running session. */
  endOf(turn) {
    return turn.end ?? (turn === this.session.turn ? this.session.now() : this.session.last);
  }

  /** What of a turn that ended can still be reported. */
  stateOf({ end, requests, calls, hooks }) {
    return [end, requests.length, calls.length, hooks.length, calls.reduce((sum, call) => sum + (call.states?.length ?? 0), 0)].join();
  }

  place(element, start, end) {
    const { from, to } = this;
    element.style.left = `${(100 * (start - from)) / (to - from)}%`;
    element.style.width = `max(2px, ${(100 * Math.max(0, end - start)) / (to - from)}%)`;
    return element;
  }

  bars(turn) {
    const rows = [];
    const agents = [...new Set(turn.calls.map((call) => call.outer).filter(Boolean))];
    for (const request of turn.requests) {
      const end = request.end ?? this.session.now();
      // Journals of earlier versions do not say when the first token came.
      const isWaiting = request.error || request.isRunning || request.isLive;
      const pieces = request.first === undefined ? [[isWaiting ? 'wait' : 'stream', request.start, end]] : [['wait', request.start, request.start + request.first], ['stream', request.start + request.first, end]];
      rows.push({ start: request.start, end, name: `Request ${request.number}`, note: request.role === 'main' ? request.model : `${request.role}, ${request.model}`, pieces, kind: 'request', isBad: request.error, outer: agentOf(agents, request) });
    }
    for (const call of turn.calls) {
      const end = call.end ?? this.session.now();
      const ran = call.start ?? executingSince(call) ?? end;
      const start = Math.min(call.asked ?? end, ran);
      const pieces = call.states?.length
        ? call.states.map((state, at) => [{ validating: 'prepare', awaiting_approval: 'approval', executing: 'tool' }[state.phase] ?? 'tool', state.at, call.states[at + 1]?.at ?? end])
        : [['wait', start, ran], ['tool', ran, end]];
      const own = pieces.at(-1);
      if (call.sandbox && own[0] === 'tool') {
        // What the sandbox took at both ends of the run.
        const from = Math.min(own[2], own[1] + call.sandbox.before);
        const to = Math.max(from, own[2] - call.sandbox.after);
        pieces.splice(-1, 1, ['sandbox', own[1], from], ['tool', from, to], ['sandbox', to, own[2]]);
      }
      // Waiting for calls before it is not time that the call took.
      const busy = Math.min(end, call.states?.length ? call.states[0].at : ran);
      rows.push({ start, busy, end, name: call.name, note: [call.agent, call.title, call.sandbox ? `sandbox ${duration(call.sandbox.before + call.sandbox.after)}` : null].filter(Boolean).join(': '), pieces, kind: call.server ? 'mcp' : 'tool', isBad: call.status === 'error', status: call.status, call, outer: call.outer });
    }
    for (const hook of turn.hooks) rows.push({ start: hook.start, end: hook.end, name: `Hook ${hook.name}`, note: hook.event, pieces: [['hook', hook.start, hook.end]], kind: 'hook', isBad: !hook.success });
    return nest(rows.sort((one, other) => one.start - other.start));
  }

  detail(turn) {
    if (!turn) return;
    if (this.shown !== turn) {
      this.waterfall.selected = -1;
      this.waterfall.body.scrollTop = 0;
    }
    this.shown = turn;
    this.drawn = this.stateOf(turn);
    const rows = this.bars(turn);
    const from = rows.reduce((first, row) => Math.min(first, row.start), turn.start);
    const to = rows.reduce((last, row) => Math.max(last, row.end), Math.max(turn.end ?? 0, from + 1));
    markCritical(rows);
    Object.assign(this, { from, to });
    const list = this.waterfall;
    const now = this.session.now();
    const model = turn.requests.reduce((sum, one) => sum + (one.latency ?? (one.isRunning ? now - one.start : 0)), 0);
    const tools = turn.calls.reduce((sum, one) => sum + (one.duration ?? (one.status === 'running' ? now - (executingSince(one) ?? now) : 0)), 0);
    const hooks = turn.hooks.reduce((sum, one) => sum + (one.end - one.start), 0);
    const sandbox = turn.calls.reduce((sum, { sandbox: took }) => sum + (took ? took.before + took.after : 0), 0);
    this.details.replaceChildren(
      h('h2', `Turn ${turn.number}`), h('p.prompt', firstLine(turn.prompt, 400)),
      pairs([
        ['Duration', duration(to - from)], ['Waiting for the model', duration(model)], ['Tools', duration(tools)], hooks ? ['Hooks', duration(hooks)] : null, sandbox ? ['Sandbox', duration(sandbox)] : null,
        ['Requests', count(turn.requests.length)], ['Tool calls', `${count(turn.calls.length)}${turn.calls.some((call) => call.status === 'error') ? ` (${turn.calls.filter((call) => call.status === 'error').length} failed)` : ''}`],
        ['Ended', turn.end ? turn.detail ?? turn.reason ?? 'done' : 'still running'],
      ]),
      h('p.legend', Object.entries({ wait: 'waiting', stream: 'streaming', prepare: 'preparing', approval: 'awaiting approval', sandbox: 'sandbox', tool: 'running', hook: 'hook' }).map(([kind, text]) => [h('span', h(`i.swatch.${kind}`), text), ' ']), h('span', h('b.critical', '◆'), ' critical path')),
      list.element,
    );
    list.element.style.setProperty('--rows', String(Math.min(rows.length, 24)));
    list.set(rows);
  }
}

class ContextView {
  constructor(session) {
    this.session = session;
    this.chart = h('div.chart');
    this.details = h('div.details.flat');
    this.element = h('div.stack', this.chart, this.details);
  }

  show() {
    const requests = this.session.requests.filter((one) => one.role === 'main' && !one.error && !one.isRunning && one.base);
    if (!requests.length) {
      this.chart.replaceChildren(empty('No request yet.'));
      return;
    }
    if (requests.length === this.drawn && this.isDrawn === this.session.compactions.length) return;
    const follows = this.at === undefined || this.at === this.drawn - 1;
    Object.assign(this, { drawn: requests.length, isDrawn: this.session.compactions.length });
    this.requests = requests;
    if (follows) this.at = requests.length - 1;
    this.draw();
  }

  draw() {
    const { requests } = this;
    // At most so many columns; of neighbors the last is shown.
    const columns = Math.min(requests.length, 160);
    const shown = Array.from({ length: columns }, (_, at) => Math.ceil(((at + 1) * requests.length) / columns) - 1);
    const sums = shown.map((at) => breakdown(requests[at]));
    const totals = sums.map((sum) => sum.reduce((one, other) => one + other, 0));
    const highest = Math.max(...totals, 1);
    const window = this.session.window;
    const width = 900;
    const height = 220;
    const step = width / columns;
    const chart = svg('svg', { viewBox: `0 0 ${width} ${height + 4}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `Context over ${plural(requests.length, 'request')}, at most ${tokens(highest)} tokens` });
    shown.forEach((at, column) => {
      let y = height;
      const group = svg('g', { class: at === this.at ? 'column on' : 'column', 'data-column': at });
      group.append(svg('rect', { x: column * step, y: 0, width: step, height, class: 'hit' }));
      sums[column].forEach((value, kind) => {
        const tall = (value / highest) * (height - 12);
        y -= tall;
        if (tall > 0.2) group.append(svg('rect', { x: column * step + step * 0.08, y, width: step * 0.84, height: tall, class: `k${kind}` }));
      });
      const previous = requests[shown[column - 1] ?? -1];
      if (previous && requests[at].compacted !== previous.compacted) group.append(svg('rect', { x: column * step - 1, y: 0, width: 2, height, class: 'mark' }));
      chart.append(group);
    });
    chart.addEventListener('click', (event) => {
      const column = event.target.closest('[data-column]');
      if (column) this.choose(Number(column.dataset.column));
    });
    const slider = h('input', { type: 'range', min: 0, max: requests.length - 1, value: this.at, 'aria-label': 'Request' });
    slider.addEventListener('input', () => this.choose(Number(slider.value)));
    const compactions = this.session.compactions.map((one, at) => h('li', h('b', `Compaction ${at + 1}`), ` (${one.how}) at ${clock(one.time)}: ${tokens(one.before)} → ${tokens(one.after)} tokens`));
    this.chart.replaceChildren(
      h('p.muted', `Largest request: ${count(highest)} tokens${window ? ` of ${count(window)} (${percent(highest, window)})` : ''}. The shares are estimated from sizes.`),
      chart, slider, compactions.length ? h('ul.marks', compactions) : h('p.muted', 'No compaction.'),
    );
    this.detail();
  }

  choose(at) {
    this.at = at;
    this.draw();
  }

  detail() {
    const request = this.requests[this.at];
    const sums = breakdown(request);
    const total = sums.reduce((one, other) => one + other, 0);
    const window = request.window ?? this.session.window;
    const rows = sums.map((value, kind) => h('tr', h('th', { scope: 'row' }, h(`i.swatch.k${kind}`), KINDS[kind]), h('td', count(value)), h('td', percent(value, total)), window ? h('td', percent(value, window)) : null));
    if (window) rows.push(h('tr', h('th', { scope: 'row' }, h('i.swatch.free'), 'free'), h('td', count(Math.max(0, window - total))), h('td', ''), h('td', percent(Math.max(0, window - total), window))));
    const body = bodyOf(request);
    const list = new VirtualList({
      label: 'Contents', height: 34,
      row: (content, at) => [h('span.muted', String(at + 1)), h('span', h(`i.swatch.k${mainKind(content)}`), KINDS[mainKind(content)]), h('span.muted', `≈ ${tokens(content.chars / 4)}`), h('span.text', firstLine(textOf(content.parts) || content.parts?.map((part) => part.functionCall?.name ?? part.functionResponse?.name ?? '').join(' ')))],
      select: (content, _, isUser) => isUser && opened.replaceChildren(...content.parts.map((part, at) => tree(part, at, true))),
    });
    list.element.classList.add('context-list');
    const opened = h('div.contents');
    this.details.replaceChildren(
      h('h2', `Context of request ${request.number}`),
      h('div.columns', h('table.numbers', h('thead', h('tr', h('th', 'Part'), h('th', 'Tokens'), h('th', 'Of request'), window ? h('th', `Of ${tokens(window)}`) : null)), h('tbody', rows), h('tfoot', h('tr', h('th', 'Total'), h('td', count(total)), h('td', percent(total, total)), window ? h('td', percent(total, window)) : null))), h('div', list.element, opened)),
    );
    list.element.style.setProperty('--rows', String(Math.min(body.length, 12)));
    list.set(body);
  }
}
