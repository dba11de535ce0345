class CostView {
  constructor(session) {
    this.session = session;
    this.element = h('div.page');
  }

  groups(key, limit = 500) {
    const sums = new Map();
    for (const request of this.session.requests) {
      const name = key(request);
      const sum = sums.get(name) ?? { name, requests: 0, input: 0, cached: 0, output: 0, cost: 0, isPriced: false, ms: 0 };
      sum.requests += 1;
      sum.input += inputOf(request);
      sum.cached += cachedOf(request);
      sum.output += outputTokens(request);
      sum.cost += request.cost ?? 0;
      sum.isPriced ||= request.cost !== undefined;
      sum.ms += request.latency ?? 0;
      sums.set(name, sum);
    }
    return [...sums.values()].slice(-limit);
  }

  table(title, rows) {
    const most = Math.max(...rows.map((row) => row.input + row.output), 1);
    const line = (row) => {
      const bar = h('div.meter', { 'aria-hidden': 'true' });
      for (const [kind, value] of [['cached', row.cached], ['fresh', Math.max(0, row.input - row.cached)], ['out', row.output], ['rest', most - row.input - row.output]]) {
        const piece = h(`i.${kind}`);
        piece.style.flexGrow = String(Math.max(0, value));
        bar.append(piece);
      }
      return h('tr', h('th', { scope: 'row', title: String(row.name) }, row.label ?? String(row.name)), h('td', count(row.requests)), h('td', tokens(row.input)), h('td', tokens(row.cached)), h('td', percent(row.cached, row.input)), h('td', tokens(row.output)), h('td', row.isPriced ? dollars(row.cost) : '–'), h('td.bar', bar));
    };
    return section(title, h('div.wide', h('table.numbers', h('thead', h('tr', ['', 'Requests', 'Input', 'Cached', 'Cached share', 'Output', 'Cost', 'Tokens'].map((name) => h('th', { scope: 'col' }, name)))), h('tbody', rows.map(line)))));
  }

  show() {
    const { requests, spent, budgets } = this.session;
    if (requests.length === this.drawn && spent === this.spent) return;
    Object.assign(this, { drawn: requests.length, spent });
    const [all] = this.groups(() => 'all');
    const turns = this.groups((request) => request.turn?.number ?? 0).map((row) => ({ ...row, label: row.name ? `${row.name}. ${firstLine(this.session.turns[row.name - 1]?.prompt ?? '', 60)}` : 'before the first turn' }));
    const total = spent?.cost ?? (all?.isPriced ? all.cost : undefined);
    const lines = budgets.map((one) => {
      const used = one.used ?? (one.kind === 'cost' ? total ?? 0 : one.kind === 'tokens' ? spent?.tokens ?? 0 : undefined);
      const text = (value) => (one.kind === 'cost' ? dollars(value) : one.kind === 'tokens' ? count(value) : duration(1000 * value));
      return h('li', `Budget (${one.kind}, ${one.scope}): ${used === undefined ? '' : `${text(used)} of `}${text(one.limit)}${used === undefined ? '' : ` (${percent(used, one.limit)})`}`);
    });
    this.element.replaceChildren(
      h('h2', 'Cost'),
      pairs([['Total cost', dollars(total)], ['Requests', count(requests.length)], ['Input tokens', count(all?.input)], ['Cached share', percent(all?.cached ?? 0, all?.input ?? 0)], ['Output tokens', count(all?.output)]]),
      lines.length ? h('ul.marks', lines) : h('p.muted', 'No budget is set.'),
      this.curve(),
      h('p.legend', [['cached', 'input, cached'], ['fresh', 'input, not cached'], ['out', 'output']].map(([kind, text]) => [h('span', h(`i.swatch.${kind}`), text), ' '])),
      this.table('By model', this.groups((request) => request.model)), this.table('By purpose', this.groups((request) => request.role)), this.table('By turn', turns),
    );
  }

  /** Cost over the requests, and the line of the budget. */
  curve() {
    const { requests, budgets } = this.session;
    let sum = 0;
    const sums = requests.map((request) => (sum += request.cost ?? 0));
    if (!sum) return h('span');
    const limit = budgets.find((one) => one.kind === 'cost' && one.scope === 'session')?.limit;
    const most = Math.max(sum, limit && limit < sum * 4 ? limit : 0);
    const steps = Math.min(sums.length, 300);
    const point = (at) => `${((900 * at) / Math.max(1, steps - 1)).toFixed(1)},${(118 - (110 * sums[Math.ceil(((at + 1) * sums.length) / steps) - 1]) / most).toFixed(1)}`;
    const points = Array.from({ length: steps }, (_, at) => point(at));
    const line = limit && limit <= most ? svg('line', { x1: 0, x2: 900, y1: 118 - (110 * limit) / most, y2: 118 - (110 * limit) / most, class: 'limit' }) : null;
    return h('div.chart', svg('svg', { viewBox: '0 0 900 120', preserveAspectRatio: 'none', class: 'low', role: 'img', 'aria-label': `Cost grows to ${dollars(sum)}` }, svg('polygon', { points: `0,118 ${points.join(' ')} 900,118`, class: 'area' }), svg('polyline', { points: points.join(' '), class: 'line' }), line));
  }
}

class ConsoleView {
  constructor(session) {
    this.session = session;
    this.level = h('select', { 'aria-label': 'Level' }, ['debug', 'info', 'warning', 'error'].map((level) => h('option', { value: level, selected: level === 'debug' }, level === 'debug' ? 'all levels' : `${level} and above`)));
    this.target = h('select', { 'aria-label': 'Target' }, h('option', { value: '' }, 'all targets'));
    this.search = h('input', { type: 'search', placeholder: 'Search', 'aria-label': 'Search the console' });
    this.found = h('span.muted', { role: 'status' });
    for (const control of [this.level, this.target, this.search]) control.addEventListener('input', () => this.show(true));
    this.list = new VirtualList({
      label: 'Console', height: 30,
      row: (line) => [h('span.muted', clock(line.time)), h('span', pill({ error: 'bad', warning: 'warn', info: 'calm', debug: 'calm' }[line.level], line.level)), h('span.muted', { title: line.target }, line.target), h('span.text', firstLine(line.text, 400))],
      select: (line, _, isUser) => isUser && this.opened.replaceChildren(h('pre.block', line.text), line.detail ? tree(line.detail, 'details', true) : ''),
    });
    this.list.element.classList.add('console');
    this.opened = h('div');
    this.targets = new Set();
    this.element = h('div.fill', h('div.filters', this.level, this.target, this.search, this.found), this.list.element, this.opened);
  }

  show(isChanged) {
    const { log } = this.session;
    if (!isChanged && log.length === this.drawn) return;
    this.drawn = log.length;
    for (const line of log) {
      const target = line.target.split('.')[0];
      if (this.targets.has(target)) continue;
      this.targets.add(target);
      this.target.append(h('option', { value: target }, target));
    }
    const levels = ['debug', 'info', 'warning', 'error'];
    const least = levels.indexOf(this.level.value);
    const words = this.search.value.toLowerCase();
    const lines = least === 0 && !words && !this.target.value ? log : log.filter((line) => levels.indexOf(line.level) >= least && (!this.target.value || line.target.split('.')[0] === this.target.value) && (!words || `${line.target} ${line.text}`.toLowerCase().includes(words)));
    this.found.textContent = plural(lines.length, 'line');
    this.list.set(lines, true);
  }
}

const PAGE = 150;

/** Who decided about a call, and what; undefined while nothing is decided. */
function decisionOf(call) {
  const told = call.told ?? {};
  const decided = { accept: 'allowed', reject: 'refused', auto_accept: 'allowed for all such calls' }[told.decision];
  if (decided || !call.status || call.status === 'running') return decided;
  const error = told.error ?? '';
  return {
    policy_violation: /hook/i.test(call.output ?? '') ? 'blocked by a hook' : 'refused',
    stop_execution: 'stopped by a hook', tool_not_registered: 'none: the tool does not exist', invalid_tool_params: 'none: the arguments are invalid',
  }[error] ?? (call.status === 'cancelled' ? 'none: canceled before' : call.status === 'error' ? 'none: failed before' : undefined);
}

class SessionView {
  constructor(session) {
    this.session = session;
    this.element = h('div.page.transcript');
    this.drawn = 0;
    this.first = 0;
  }

  show() {
    const { items } = this.session;
    const open = this.session.streaming?.text;
    if (this.first + this.drawn !== items.length) {
      if (!this.drawn) {
        this.first = Math.max(0, items.length - PAGE);
        this.element.replaceChildren();
        if (this.first) this.earlier();
      }
      this.tail?.remove();
      const fresh = items.slice(this.first + this.drawn);
      this.element.append(...fresh.map((item) => this.item(item)));
      this.drawn += fresh.length;
      // Not more than some hundred elements, however long the session runs.
      if (this.drawn > 4 * PAGE && !this.wantsEarlier) {
        this.drawn = 0;
        this.show();
        return;
      }
    }
    for (const [item, element] of this.running ?? []) {
      if (item.call.status === 'running') continue;
      this.running.delete(item);
      element.replaceWith(this.item(item));
    }
    if (open) {
      this.tail ??= h('div.item.text.live');
      // Markdown is parsed again for each piece, which takes too long for a book.
      this.tail.replaceChildren(open.length > 20000 ? h('pre.block', open) : prose(open));
      this.element.append(this.tail);
    } else {
      this.tail?.remove();
      this.tail = undefined;
    }
    if (!items.length && !open) this.element.replaceChildren(empty('Nothing was said yet.'));
  }

  earlier() {
    const button = h('button.quiet', { type: 'button' }, `Show earlier (${count(this.first)} more)`);
    button.addEventListener('click', () => {
      this.wantsEarlier = true;
      const from = Math.max(0, this.first - PAGE);
      const before = this.session.items.slice(from, this.first).map((item) => this.item(item));
      this.drawn += this.first - from;
      this.first = from;
      button.replaceWith(...before);
      if (from) this.earlier();
    });
    this.element.prepend(button);
  }

  /** Opens a tool call of the main agent by its number. */
  reveal(number) {
    const item = this.session.items.filter((one) => one.type === 'call' && !one.call.agent)[number - 1];
    if (!item) return;
    this.show();
    const at = this.session.items.indexOf(item);
    while (this.first > at) this.element.querySelector('button.quiet').click();
    item.element.open = true;
    item.element.scrollIntoView({ block: 'center' });
  }

  item(item) {
    switch (item.type) {
      case 'user':
        return h('section.item.user', h('h3', `You · turn ${item.turn}`, h('time', clock(item.time))), h('div.said', item.text));
      case 'steer':
        return h('section.item.user', h('h3', 'You (steering)'), h('div.said', item.text));
      case 'shell':
        return h('section.item.user', h('h3', 'You ran'), h('pre.block', `$ ${item.text}`), h('pre.block', item.output));
      case 'thought':
        return lazily(h('details.item.thought', h('summary', firstLine(item.text.replace(/\*\*/g, '')))), () => prose(item.text));
      case 'text':
        return h('section.item.text', prose(item.text), item.partial ? h('p.muted', 'The answer was cut off here.') : null);
      case 'call':
        return this.call(item);
      default:
        return h('p.item.ended', item.text);
    }
  }

  call(item) {
    const { call } = item;
    const kind = { success: 'good', error: 'bad', cancelled: 'warn', running: 'run' }[call.status] ?? 'calm';
    const title = call.title || firstLine(JSON.stringify(call.args ?? {}), 120);
    const details = h('details.item.call', h('summary', h('code', call.name), h('span.text', firstLine(title)), pill(kind, call.status ?? 'no result'), h('span.muted', duration(call.duration))));
    item.element = details;
    if (call.status === 'running') (this.running ??= new Map()).set(item, details);
    return lazily(details, () => {
      const told = call.told ?? {};
      const decision = decisionOf(call);
      const diff = call.display?.fileDiff ?? call.display?.diff;
      return h('div.inside', pairs([
        decision ? ['Decision', decision] : null, told.rule ? ['Rule', told.rule] : null, told.denied ? ['Denied by', `${told.denied[0]}: ${told.denied[1]}`] : null,
        told.exitCode !== undefined ? ['Exit code', String(told.exitCode)] : null, call.server ? ['MCP server', call.server] : null,
        call.requested ? ['Requested', `${call.requested}; a hook replaced it`] : null, call.sandbox ? ['Sandbox', duration(call.sandbox.before + call.sandbox.after)] : null,
      ]), tree(call.ran ?? call.args ?? {}, 'arguments', true), call.ran ? tree(call.args ?? {}, 'arguments of the model') : null, this.steps(call), typeof diff === 'string' ? this.diff(diff) : null, call.output ? h('pre.block', call.output.slice(0, 200000)) : null);
    });
  }

  /** The calls of the subagent that a call started. */
  steps(call) {
    if (!call.steps?.length) return null;
    const kinds = { success: 'good', error: 'bad' };
    return h('ul.steps', call.steps.map((step) => h('li', h('code', step.name), ' ', pill(kinds[step.status] ?? 'warn', step.status), ' ', h('span.muted', duration(step.duration)), ' ', firstLine(step.title ?? ''))));
  }

  diff(text) {
    return h('pre.block.diff', clean(text).split('\n').slice(0, 3000).map((line) => h(`span.${line.startsWith('+') ? 'add' : line.startsWith('-') ? 'del' : line.startsWith('@@') ? 'gap' : 'same'}`, `${line}\n`)));
  }
}

class McpView {
  constructor(session) {
    this.session = session;
    this.servers = h('div.servers');
    this.details = h('div.details', { tabindex: 0, role: 'region', 'aria-label': 'Details of the message' }, empty('Select a message.'));
    this.list = new VirtualList({
      label: 'MCP messages',
      row: (call) => [h('span.muted', clock(call.asked)), h('span', { title: call.server }, call.server), h('span.text', call.isMessage ? `${call.sent ? '→' : '←'} ${call.name}` : call.agent ? `${call.agent}: ${call.name}` : call.name), h('span', call.isNotification ? pill('calm', 'notification') : pill({ success: 'good', error: 'bad', running: 'run' }[call.status] ?? 'warn', call.status)), h('span.right', call.isNotification ? '' : duration(call.duration))],
      select: (call) => this.detail(call),
      state: (call) => [call.status, call.duration].join(),
    });
    this.list.element.classList.add('mcp');
    this.element = h('div.fill', this.servers, split(this.list.element, this.details));
  }

  show() {
    const calls = this.session.calls.filter((call) => call.server);
    const servers = new Map([...this.session.servers.keys()].map((name) => [name, []]));
    for (const call of calls) {
      if (servers.has(call.server)) servers.get(call.server).push(call);
      else servers.set(call.server, [call]);
    }
    const state = JSON.stringify([calls.length, calls.reduce((sum, call) => sum + (call.duration ?? 0), 0), [...servers.keys()]]);
    if (state !== this.state) this.cards(servers);
    this.state = state;
    const { messages } = this.session;
    const rows = messages.length ? [...calls, ...messages].sort((one, other) => one.asked - other.asked) : calls;
    this.list.element.parentElement.hidden = !rows.length;
    const selected = this.list.items[this.list.selected];
    this.list.set(rows, true);
    if (selected) this.list.selected = rows.indexOf(selected);
    if (this.list.selected < 0 && rows.length) this.list.choose(0);
    else this.list.draw();
  }

  cards(servers) {
    this.servers.replaceChildren(...[...servers].map(([name, list]) => {
      const failed = list.filter((call) => call.status === 'error').length;
      const sum = list.reduce((total, call) => total + (call.duration ?? 0), 0);
      return h('section.card', h('h3', name), h('p.muted', `${plural(list.length, 'call')} · ${failed ? `${failed} failed` : 'no errors'} · ${list.length ? `${duration(sum / list.length)} on average` : 'not called'}`));
    }), servers.size ? '' : empty('No MCP server was called in this session.'));
  }

  message(message) {
    this.details.replaceChildren(h('h2', message.name), pairs([
      ['Server', message.server], ['Direction', message.sent ? 'to the server' : 'from the server'], message.isNotification ? ['Kind', 'notification'] : ['Status', message.status],
      message.isNotification ? null : ['Duration', duration(message.duration)], ['Sent', clock(message.start)],
    ]), section(message.isNotification ? 'Notification' : 'Request', tree(message.content, 'message', true)), ...(message.answer === undefined ? [] : [section('Response', tree(message.answer, 'message', true))]));
  }

  detail(call) {
    if (!call) return;
    if (call.isMessage) {
      this.message(call);
      return;
    }
    this.details.replaceChildren(h('h2', call.name), pairs([['Server', call.server], ['Status', call.status], ['Duration', duration(call.duration)], ['Sent', clock(call.start)]]),
      section('tools/call', tree(call.ran ?? call.args ?? {}, 'arguments', true)), section(call.status === 'error' ? 'Error' : 'Result', h('pre.block', (call.output ?? '').slice(0, 200000))), ...(call.data ? [section('Structured result', tree(call.data, 'data', true))] : []));
  }
}
