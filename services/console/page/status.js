// The top of every view: the headline, the four readings, and whether the stream still runs.

import { attr, h, put, text } from './dom.js';
import { age, time } from './format.js';
import { headline, readings } from './headline.js';
import { icon } from './icons.js';
import { condition } from './live.js';

const TILES = [
  ['healthy', 'Healthy', '#map', 'ok'],
  ['refused', 'Refused', '#map', 'open'],
  ['degraded', 'Degraded', '#switches', 'half'],
  ['waiting', 'Waiting', '#orders', 'wait'],
];

let sign;
let line;
let stale;
let announced = null;
const tiles = new Map();

export function build(root) {
  sign = h('span', { class: 'headline-sign' });
  line = h('p', { class: 'headline', id: 'headline' });
  stale = h('p', { class: 'stale-note', hidden: true });
  const list = h('ul', { class: 'tiles' }, TILES.map(([name, label, where, shape]) => {
    const value = h('strong', { class: 'tile-value' });
    const detail = h('span', { class: 'tile-detail' });
    const element = h('a', { class: 'tile', href: where, 'data-tile': name }, h('span', { class: 'tile-label' }, icon(shape), label), value, detail);
    tiles.set(name, { element, value, detail });
    return h('li', null, element);
  }));
  put(root, h('div', { class: 'headline-row' }, sign, h('div', null, line, stale)), list);
}

export function update(snapshot) {
  const head = headline(snapshot);
  attr(document.getElementById('status'), 'data-level', head.level);
  text(line, head.text);
  if (sign.dataset.level !== head.level) {
    sign.dataset.level = head.level;
    put(sign, icon(head.level));
  }
  if (snapshot) {
    for (const [name, reading] of Object.entries(readings(snapshot))) {
      const tile = tiles.get(name);
      attr(tile.element, 'data-level', reading.level);
      text(tile.value, reading.value);
      text(tile.detail, reading.detail);
    }
  }
  drawStream();
  announce(head);
  const mark = head.level === 'bad' || head.level === 'warn' ? '(!) ' : '';
  document.title = `${mark}${document.body.dataset.view ?? 'Order console'} · Order console`;
}

function drawStream() {
  const { state, since } = condition();
  const root = document.getElementById('stream');
  const ago = since === null ? 0 : (Date.now() - since) / 1_000;
  attr(document.body, 'data-stream', state);
  const short = { connecting: 'Connecting …', live: 'Live', unreachable: 'No stream yet, trying again' };
  if (root.dataset.state !== state) {
    root.dataset.state = state;
    put(root, icon({ live: 'ok', connecting: 'wait' }[state] ?? 'warn'), h('span', null, state === 'stale' ? `Stale since ${time(since)}` : short[state]));
  }
  stale.hidden = state !== 'stale';
  if (state === 'stale') text(stale, `What you see is from ${time(since)}, ${age(ago)} ago: the console does not answer. The services do not need it. Trying again …`);
}

/** Aloud only when the news itself changes, not with every number. */
function announce(head) {
  if (head.kinds === announced) return;
  announced = head.kinds;
  text(document.getElementById('announcer'), `Status: ${head.text}`);
}
