// Tabs, facts, theme, and where the session comes from.

const VIEWS = [['Requests', RequestsView], ['Turns', TurnsView], ['Context', ContextView], ['Cost', CostView], ['Console', ConsoleView], ['Session', SessionView], ['MCP', McpView]];
const $ = (id) => document.getElementById(id);

let session = new Session();
let views = new Map();
let current = 'Requests';
let planned = false;
let drawnAt = 0;
/** Milliseconds between two drawings of what arrives. */
const PAUSE = 40;

function view(name) {
  if (!views.has(name)) views.set(name, new (VIEWS.find(([one]) => one === name)[1])(session));
  return views.get(name);
}

function draw() {
  planned = false;
  drawnAt = performance.now();
  const { head, requests, turns, calls } = session;
  const title = session.title || head.sessionId || 'A session';
  $('title').textContent = clean(title);
  document.title = `${firstLine(title, 60)} · Parallax DevTools`;
  const input = requests.reduce((sum, one) => sum + inputOf(one), 0);
  const cached = requests.reduce((sum, one) => sum + cachedOf(one), 0);
  const cost = session.spent?.cost ?? (requests.some((one) => one.cost !== undefined) ? requests.reduce((sum, one) => sum + (one.cost ?? 0), 0) : undefined);
  const facts = [['Turns', count(turns.length)], ['Requests', count(requests.length)], ['Tool calls', count(calls.length)], ['Input tokens', tokens(input)], ['Cached', percent(cached, input)], ['Output tokens', tokens(requests.reduce((sum, one) => sum + outputTokens(one), 0))], ['Cost', dollars(cost)], ['Project', head.project ?? '–'], ['Started', head.startTime ? new Date(head.startTime).toLocaleString() : '–']];
  showFacts(facts);
  view(current).show();
}

/** Only what changed is written: each of them costs a layout. */
function showFacts(facts) {
  const shown = $('facts').querySelectorAll('dd');
  if (shown.length !== facts.length) {
    $('facts').replaceChildren(...facts.map(([name, value]) => h('div', h('dt', name), h('dd', { title: value }, value))));
    return;
  }
  facts.forEach(([, value], at) => {
    const text = clean(value);
    if (shown[at].textContent === text) return;
    shown[at].textContent = text;
    shown[at].title = value;
  });
}

/** Draws soon, once for all that arrives until then. */
function plan() {
  if (planned) return;
  planned = true;
  const wait = drawnAt + PAUSE - performance.now();
  if (wait > 0) setTimeout(() => requestAnimationFrame(draw), wait);
  else requestAnimationFrame(draw);
}

function open(name, isUser) {
  current = name;
  for (const tab of $('tabs').children) {
    const isOpen = tab.dataset.view === name;
    tab.setAttribute('aria-selected', String(isOpen));
    tab.tabIndex = isOpen ? 0 : -1;
    if (isOpen && isUser) {
      tab.focus();
      tab.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    }
  }
  $('view').setAttribute('aria-label', name);
  $('view').replaceChildren(view(name).element);
  view(name).show();
  if (isUser) history.replaceState(null, '', `#${name.toLowerCase()}`);
}

function tabs() {
  $('tabs').replaceChildren(...VIEWS.map(([name], at) => {
    const tab = h('button.tab', { type: 'button', role: 'tab', 'data-view': name, 'aria-controls': 'view', id: `tab-${name}` }, name);
    tab.addEventListener('click', () => open(name, true));
    tab.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, Home: -at, End: VIEWS.length - 1 - at }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      open(VIEWS[(at + step + VIEWS.length) % VIEWS.length][0], true);
    });
    return tab;
  }));
}

function theme() {
  const root = document.documentElement;
  let saved;
  try {
    saved = localStorage.getItem('parallax-theme');
  } catch {
    // A file may have no storage.
  }
  if (saved) root.dataset.theme = saved;
  $('theme').addEventListener('click', () => {
    const isDark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = isDark ? 'light' : 'dark';
    try {
      localStorage.setItem('parallax-theme', root.dataset.theme);
    } catch {
      // Then it holds for this page.
    }
  });
}

function take(lines) {
  for (const line of lines.split('\n')) {
    if (!line.trim()) continue;
    try {
      let record = JSON.parse(line);
      if (typeof record.escaped === 'string') record = JSON.parse(record.escaped);
      session.record(record);
    } catch (error) {
      session.note('warning', 'devtools', `A record cannot be shown: ${error.message}`);
    }
  }
}

function say(kind, text) {
  $('state').className = `state ${kind}`;
  $('state').textContent = text;
}

function follow() {
  const events = new EventSource('events');
  events.addEventListener('session', (event) => {
    session = new Session();
    views = new Map();
    take(event.data);
    say('calm', 'saved');
    open(current);
    openTarget();
    plan();
  });
  events.addEventListener('records', (event) => {
    take(event.data);
    plan();
  });
  events.addEventListener('live', (event) => {
    for (const line of event.data.split('\n')) {
      if (line) session.report(JSON.parse(line));
    }
    plan();
  });
  events.addEventListener('state', (event) => {
    const { running } = JSON.parse(event.data);
    session.isRunning = running;
    say(running ? 'good' : 'calm', running ? 'live' : 'ended');
    plan();
  });
  // Durations of what runs grow without a message.
  setInterval(() => session.isRunning && current === 'Turns' && session.turn && !session.turn.end && plan(), 500);
  events.addEventListener('problem', (event) => say('bad', JSON.parse(event.data).message));
  events.addEventListener('error', () => say('warn', 'disconnected'));
}

/** Opens what the address names, such as `#call=3` or `#request=2` of the main agent. */
function openTarget() {
  const [, kind, number] = /^#(call|request)=(\d+)$/.exec(location.hash) ?? [];
  if (!kind) return;
  open(kind === 'call' ? 'Session' : 'Requests');
  view(current).reveal(Number(number));
}

tabs();
theme();
const wanted = VIEWS.find(([name]) => `#${name.toLowerCase()}` === location.hash);
open(wanted ? wanted[0] : 'Requests');
const saved = $('session-data');
if (saved) {
  take(saved.textContent);
  say('calm', 'exported');
  open(current);
  openTarget();
  plan();
} else {
  follow();
}
