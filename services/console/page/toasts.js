// Short messages about what was done; said aloud politely.

import { h, put } from './dom.js';
import { icon } from './icons.js';

const STAY_MS = 10_000;

/**
 * @param {'ok'|'bad'|'warn'} level
 * @param {string} message
 */
export function toast(level, message) {
  const root = document.getElementById('toasts');
  const close = h('button', { class: 'button is-quiet is-icon', type: 'button', 'aria-label': 'Dismiss', onclick: () => element.remove() }, icon('close'));
  const element = h('div', { class: `toast is-${level}`, role: 'status' }, icon(level), h('p', null, message), close);
  put(root, element);
  const leave = () => {
    // Not from under a hand or a reader.
    if (element.matches(':hover, :focus-within')) setTimeout(leave, STAY_MS);
    else element.remove();
  };
  setTimeout(leave, STAY_MS);
}
