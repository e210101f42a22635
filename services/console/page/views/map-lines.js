// The lines of the map, drawn between cards wherever the style sheet has put those.

import { attr, keyed, s } from '../dom.js';
import { isStore, joined } from '../hops.js';

const ELBOW = { least: 6, most: 14 };
const BEND = 10;

/** @param {HTMLElement} cards  whose children carry `data-node` and `data-hop` */
export function lines(cards) {
  const group = s('g', null);
  const root = s('svg', { class: 'map-lines', 'aria-hidden': 'true' }, group);
  return { root, draw: (snapshot) => snapshot && draw(root, group, cards, snapshot) };
}

function draw(root, group, cards, snapshot) {
  const frame = cards.getBoundingClientRect();
  if (!frame.width) return;
  attr(root, 'viewBox', `0 0 ${frame.width.toFixed(0)} ${frame.height.toFixed(0)}`);
  const boxes = new Map();
  for (const card of cards.children) {
    const box = card.getBoundingClientRect();
    boxes.set(card.dataset.key, { left: box.left - frame.left, right: box.right - frame.left, top: box.top - frame.top, bottom: box.bottom - frame.top });
  }
  const pieces = joined(snapshot.hops).filter((hop) => !isStore(hop.to)).flatMap((hop) => {
    const at = boxes.get(`hop ${hop.key}`);
    const from = boxes.get(`node ${hop.from}`);
    const to = boxes.get(`node ${hop.to}`);
    if (!at || !from || !to) return [];
    return [{ key: `${hop.key} in`, hop, path: path(from, at) }, { key: `${hop.key} out`, hop, path: path(at, to) }];
  });
  keyed(group, pieces, (piece) => piece.key, () => s('g', { class: 'line' }, s('path', { class: 'line-base' }), s('path', { class: 'line-flow' })), (element, piece) => {
    attr(element, 'data-breaker', piece.hop.breaker ?? 'none');
    attr(element, 'data-pace', pace(piece.hop));
    attr(element, 'data-fault', piece.hop.faults.length ? 'yes' : null);
    for (const line of element.children) attr(line, 'd', piece.path);
  });
}

/** How lively a line is: nothing, some, much. */
function pace({ rate, breaker }) {
  if (!rate || breaker === 'open') return 'none';
  return rate < 2 ? 'slow' : rate < 20 ? 'steady' : 'fast';
}

/** From one card to another: across where there is room between them, else down and into its side. */
function path(from, to) {
  const y = (from.top + from.bottom) / 2;
  const into = (to.top + to.bottom) / 2;
  if (to.left >= from.right + 4) {
    const middle = to.left - (to.left - from.right) / 2;
    const turn = Math.sign(into - y) * Math.min(BEND, Math.abs(into - y) / 2);
    if (Math.abs(into - y) < 2) return `M${f(from.right)} ${f(y)}H${f(to.left)}`;
    return `M${f(from.right)} ${f(y)}H${f(middle - BEND)}Q${f(middle)} ${f(y)} ${f(middle)} ${f(y + turn)}V${f(into - turn)}Q${f(middle)} ${f(into)} ${f(middle + BEND)} ${f(into)}H${f(to.left)}`;
  }
  const x = from.left + Math.max(ELBOW.least, Math.min(ELBOW.most, (to.left - from.left) / 2));
  if (to.left <= x) return `M${f(x)} ${f(from.bottom)}V${f(to.top)}`;
  return `M${f(x)} ${f(from.bottom)}V${f(into - BEND)}Q${f(x)} ${f(into)} ${f(Math.min(x + BEND, to.left))} ${f(into)}H${f(to.left)}`;
}

const f = (value) => value.toFixed(1);
