// Small pieces that every view is made of.

import { attr, h, put, text } from './dom.js';
import { explain } from './api.js';
import { icon } from './icons.js';

/** A state in a word, with its sign: levels are `ok`, `warn`, `bad`, `wait`, `off`. */
export function chip(level, word, sign = level) {
  const label = h('span', null, word);
  const element = h('span', { class: `chip is-${level}` }, icon(sign), label);
  element.dataset.sign = sign;
  return element;
}

export function setChip(element, level, word, sign = level) {
  attr(element, 'class', `chip is-${level}`);
  if (element.dataset.sign !== sign) {
    element.replaceChild(icon(sign), element.firstChild);
    element.dataset.sign = sign;
  }
  text(element.lastChild, word);
}

/** A bar that is full at its cap. @returns {HTMLElement & {set: (value: number|null, cap: number|null) => void}} */
export function meter(label) {
  const bar = h('span', { class: 'meter-fill' });
  const element = h('span', { class: 'meter', role: 'meter', 'aria-label': label, 'aria-valuemin': 0 }, bar);
  element.set = (value, cap) => {
    const known = typeof value === 'number' && typeof cap === 'number' && cap > 0;
    const share = known ? Math.min(1, value / cap) : 0;
    attr(element, 'aria-valuemax', known ? cap : 1);
    attr(element, 'aria-valuenow', known ? Math.min(value, cap) : 0);
    attr(element, 'aria-valuetext', known ? `${value} of ${cap}` : 'not known');
    attr(element, 'data-level', share >= 0.95 ? 'bad' : share >= 0.75 ? 'warn' : 'ok');
    bar.style.setProperty('inline-size', `${(share * 100).toFixed(1)}%`);
  };
  element.set(null, null);
  return element;
}

export function panel(title, props, ...children) {
  return h('section', { ...props, class: `panel ${props?.class ?? ''}`.trim() }, h('h2', null, title), children);
}

export const loading = (what) => h('p', { class: 'blank is-loading', role: 'status' }, `Loading ${what} …`);

export function empty(title, detail) {
  return h('div', { class: 'blank' }, h('p', { class: 'blank-title' }, title), detail ? h('p', { class: 'muted' }, detail) : null);
}

export function failed(words, again) {
  return h('div', { class: 'blank is-failed', role: 'alert' }, icon('bad'),
    h('p', { class: 'blank-title' }, 'This could not be loaded'), h('p', null, words),
    again ? h('button', { class: 'button', type: 'button', onclick: again }, 'Try again') : null);
}

/**
 * What is loaded from the API into an element: waiting, failed, or drawn. While it is loaded again, the old stays.
 * @param {HTMLElement} element
 * @param {{what: string, fetch: () => Promise<any>, draw: (data: any) => void}} how  `draw` fills the element
 */
export function loader(element, { what, fetch, draw }) {
  let turn = 0;
  /** What is to be seen: '' nothing yet, 'data', or the words of a failure. */
  let seen = '';
  const load = async () => {
    const mine = (turn += 1);
    if (!seen) put(element, loading(what));
    element.setAttribute('aria-busy', 'true');
    try {
      const data = await fetch();
      // An answer that was overtaken by a younger question is dropped.
      if (mine !== turn) return;
      if (seen !== 'data') element.replaceChildren();
      seen = 'data';
      draw(data);
    } catch (error) {
      if (mine !== turn || error.status === 401) return;
      const words = explain(error);
      // The same trouble again is not said again.
      if (seen !== words) put(element, failed(words, load));
      seen = words;
    } finally {
      if (mine === turn) element.removeAttribute('aria-busy');
    }
  };
  return load;
}

/** A note above what it is about. */
export function note(level, ...children) {
  return h('div', { class: `note is-${level}` }, icon(level === 'info' ? 'wait' : level), h('div', null, children));
}

/** Rows of a term and what it is. */
export function facts(rows) {
  return h('dl', { class: 'facts' }, rows.filter(Boolean).map(([term, value]) => [h('dt', null, term), h('dd', null, value)]));
}

/** A wide table scrolls by itself, not the page; reachable by keyboard, so that its end is too. */
export function table(caption, heads, body) {
  const cells = heads.map((head) => {
    const [label, kind] = Array.isArray(head) ? head : [head, null];
    return h('th', { scope: 'col', class: kind }, label);
  });
  return h('div', { class: 'table-box', tabindex: 0, role: 'region', 'aria-label': caption },
    h('table', null, h('caption', { class: 'sr-only' }, caption), h('thead', null, h('tr', null, cells)), body));
}
