// A small part of Markdown as elements: headings, lists, quotes, code, emphasis. Links stay text.

function inline(text) {
  const found = [];
  const pattern = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*/g;
  let last = 0;
  for (const match of text.matchAll(pattern)) {
    found.push(text.slice(last, match.index));
    if (match[1] !== undefined) found.push(h('code', match[1]));
    else if (match[2] !== undefined) found.push(h('strong', match[2]));
    else found.push(h('em', match[3]));
    last = match.index + match[0].length;
  }
  found.push(text.slice(last));
  return found;
}

function prose(text) {
  const box = h('div.prose');
  const lines = clean(text).split('\n');
  let paragraph = [];
  let list;
  const flush = () => {
    if (paragraph.length) box.append(h('p', inline(paragraph.join('\n'))));
    paragraph = [];
    list = undefined;
  };
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at];
    const fence = /^\s*(```+|~~~+)\s*(\S*)/.exec(line);
    if (fence) {
      flush();
      const code = [];
      for (at += 1; at < lines.length && !lines[at].trim().startsWith(fence[1]); at += 1) code.push(lines[at]);
      box.append(h('pre.block', fence[2] ? { 'data-language': fence[2] } : {}, code.join('\n')));
      continue;
    }
    const heading = /^(#{1,6})\s+(.*)/.exec(line);
    const item = /^\s*(?:[-*+]|(\d+)[.)])\s+(.*)/.exec(line);
    if (heading) {
      flush();
      box.append(h(`h${Math.min(6, heading[1].length + 2)}`, inline(heading[2])));
    } else if (item) {
      const tag = item[1] ? 'ol' : 'ul';
      if (list?.localName !== tag) {
        flush();
        list = h(tag);
        box.append(list);
      }
      list.append(h('li', inline(item[2])));
    } else if (/^\s*>/.test(line)) {
      flush();
      box.append(h('blockquote', inline(line.replace(/^\s*>\s?/, ''))));
    } else if (/^\s*\|.*\|\s*$/.test(line)) {
      flush();
      const rows = [];
      for (; at < lines.length && /^\s*\|.*\|\s*$/.test(lines[at]); at += 1) rows.push(lines[at]);
      at -= 1;
      const cells = (row) => row.trim().slice(1, -1).split('|').map((cell) => cell.trim());
      const body = rows.filter((row) => !/^[\s|:-]+$/.test(row)).map(cells);
      box.append(h('div.wide', h('table', body.map((row, index) => h('tr', row.map((cell) => h(index ? 'td' : 'th', inline(cell))))))));
    } else if (line.trim()) {
      if (list) flush();
      paragraph.push(line);
    } else {
      flush();
    }
  }
  flush();
  return box;
}
