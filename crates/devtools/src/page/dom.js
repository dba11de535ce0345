// Elements are made here and nowhere else. Strings become text nodes, never markup.

const SVG = 'http://www.w3.org/2000/svg';
const CONTROLS = /\u001b\[[0-?]*[ -/]*[@-~]|[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

/** Text without control sequences and without characters that change its direction. */
function clean(text) {
  return String(text ?? '').replace(/\r\n/g, '\n').replace(CONTROLS, '');
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(3)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(clean(child)));
  }
  return element;
}

/** `h('div.note', {id: 'x'}, 'text', child)`. Attributes may be omitted. */
function h(spec, attributes, ...children) {
  const [tag, ...classes] = spec.split('.');
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(' ');
  const plain = attributes && typeof attributes === 'object' && !(attributes instanceof Node) && !Array.isArray(attributes);
  return plain ? fill(element, attributes, children) : fill(element, {}, [attributes, ...children]);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

const number = new Intl.NumberFormat('en-US');
const count = (value) => number.format(Math.round(value ?? 0));

function tokens(value) {
  if (value === undefined || value === null) return '–';
  if (value < 10000) return count(value);
  return value < 1e6 ? `${(value / 1e3).toFixed(1)}k` : `${(value / 1e6).toFixed(2)}M`;
}

function bytes(value) {
  if (value < 1024) return `${count(value)} B`;
  return value < 1048576 ? `${(value / 1024).toFixed(1)} kB` : `${(value / 1048576).toFixed(1)} MB`;
}

function duration(ms) {
  if (ms === undefined || ms === null || Number.isNaN(ms)) return '–';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  return `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

function dollars(value) {
  if (value === undefined || value === null) return '–';
  if (value === 0) return '$0';
  return `$${value < 0.01 ? value.toFixed(5) : value < 1 ? value.toFixed(4) : value.toFixed(2)}`;
}

function clock(ms) {
  if (!ms) return '–';
  const date = new Date(ms);
  const two = (value) => String(value).padStart(2, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

const plural = (value, word) => `${count(value)} ${word}${value === 1 ? '' : 's'}`;

function percent(part, whole) {
  if (!whole) return '–';
  const share = (100 * part) / whole;
  return share > 0 && share < 0.5 ? '< 1 %' : `${Math.round(share)} %`;
}

function firstLine(text, limit = 160) {
  const line = clean(text).split('\n').find((one) => one.trim()) ?? '';
  return line.length > limit ? `${line.slice(0, limit)}…` : line;
}

/**
 * A list that only has the elements of the rows that can be seen. Arrow keys move the selection.
 * `state(item)` is all of an item that can change: rows with the same state are not made again.
 */
class VirtualList {
  constructor({ label, height = 36, head, row, select, state = () => '' }) {
    this.rowHeight = height;
    this.row = row;
    this.select = select;
    this.state = state;
    this.shown = new Map();
    this.items = [];
    this.selected = -1;
    this.space = h('div.rows', { role: 'presentation' });
    this.body = h('div.list', { role: 'listbox', 'aria-label': label, tabindex: 0 }, this.space);
    this.element = h('div.table', head ? h('div.row.head', { 'aria-hidden': 'true' }, head) : null, this.body);
    this.body.addEventListener('scroll', () => this.schedule(), { passive: true });
    this.body.addEventListener('click', (event) => {
      const row = event.target.closest('[data-at]');
      if (row) this.choose(Number(row.dataset.at), true);
    });
    this.body.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.schedule()).observe(this.body);
  }

  set(items, keepBottom) {
    const { scrollTop, scrollHeight, clientHeight } = this.body;
    const atEnd = keepBottom && scrollTop + clientHeight >= scrollHeight - 40;
    this.items = items;
    this.space.style.height = `${items.length * this.rowHeight}px`;
    if (this.selected >= items.length) this.selected = -1;
    if (atEnd) this.body.scrollTop = this.body.scrollHeight;
    this.draw();
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.body.clientHeight / this.rowHeight) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined || !this.items.length) return;
    event.preventDefault();
    this.choose(Math.min(this.items.length - 1, Math.max(0, this.selected + step)), true);
  }

  choose(at, isUser) {
    this.selected = at;
    const top = at * this.rowHeight;
    const { scrollTop, clientHeight } = this.body;
    if (top < scrollTop) this.body.scrollTop = top;
    else if (top + this.rowHeight > scrollTop + clientHeight) this.body.scrollTop = top + this.rowHeight - clientHeight;
    this.draw();
    this.select?.(this.items[at], at, isUser);
  }

  schedule() {
    this.pending ??= requestAnimationFrame(() => {
      this.pending = undefined;
      this.draw();
    });
  }

  draw() {
    const first = Math.max(0, Math.floor(this.body.scrollTop / this.rowHeight) - 6);
    const shown = Math.ceil((this.body.clientHeight || 600) / this.rowHeight) + 12;
    const before = this.shown;
    this.shown = new Map();
    const rows = this.items.slice(first, first + shown).map((item, offset) => {
      const at = first + offset;
      const state = this.state(item);
      const known = before.get(at);
      const row = known?.item === item && known.state === state ? known.row : this.make(item, at);
      this.shown.set(at, { item, state, row });
      const isSelected = String(at === this.selected);
      if (row.getAttribute('aria-selected') !== isSelected) row.setAttribute('aria-selected', isSelected);
      const size = String(this.items.length);
      if (row.getAttribute('aria-setsize') !== size) row.setAttribute('aria-setsize', size);
      return row;
    });
    const { children } = this.space;
    if (children.length === rows.length && rows.every((row, at) => row === children[at])) return;
    this.space.replaceChildren(...rows);
  }

  make(item, at) {
    const row = h('div.row', { role: 'option', 'data-at': at, id: `${this.body.id || 'row'}-${at}`, 'aria-posinset': at + 1 }, this.row(item, at));
    row.style.top = `${at * this.rowHeight}px`;
    row.style.height = `${this.rowHeight}px`;
    return row;
  }
}

/** A JSON value as a tree; branches are filled when they are opened. `open`: `'all'` opens those below too. */
function tree(value, name, open = false) {
  const label = name === undefined ? null : h('span.key', `${name}: `);
  if (value === null || typeof value !== 'object') {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    const isLong = typeof value === 'string' && (value.length > 100 || value.includes('\n'));
    if (!isLong) return h('div.leaf', label, h(`span.${value === null ? 'null' : typeof value}`, text));
    const details = h('details.branch', { open: Boolean(open) }, h('summary', label, h('span.string', firstLine(value, 90)), h('span.size', ` ${bytes(value.length)}`)));
    return lazily(details, () => h('pre.block', value));
  }
  const entries = Object.entries(value);
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  const details = h('details.branch', { open: Boolean(open) }, h('summary', label, h('span.size', size)));
  return lazily(details, () => h('div.children', entries.slice(0, 500).map(([key, child]) => tree(child, key, open === 'all' && 'all')),
    entries.length > 500 ? h('div.leaf', `… ${count(entries.length - 500)} more`) : null));
}

function lazily(details, content) {
  let isFilled = false;
  const fillNow = () => {
    if (isFilled || !details.open) return;
    isFilled = true;
    details.append(content());
  };
  details.addEventListener('toggle', fillNow);
  fillNow();
  return details;
}

const pill = (kind, text) => h(`span.pill.${kind}`, text);
const empty = (text) => h('p.empty', text);
const pairs = (entries) => h('dl.pairs', entries.filter(Boolean).map(([name, value]) => [h('dt', name), h('dd', value)]));
