// A text area with line numbers, and what is wrong written at the line where it is wrong.

import { freshId, h, keyed, put } from '../dom.js';
import { plural } from '../format.js';
import { icon } from '../icons.js';

/**
 * @typedef {{path?: string, field?: string, line?: number|null, detail: string}} Wrong
 * @param {{changed: () => void}} acts
 */
export function editor({ changed }) {
  const problems = freshId('problems');
  const numbers = h('div', { class: 'editor-numbers', 'aria-hidden': 'true' });
  const marks = h('div', { class: 'editor-marks', 'aria-hidden': 'true' });
  const area = h('textarea', { class: 'editor-text', name: 'document', wrap: 'off', spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off', 'aria-label': 'Rules, as TOML', 'aria-describedby': problems, oninput: typed });
  const box = h('div', { class: 'editor' }, numbers, h('div', { class: 'editor-sheet' }, marks, area));
  const summary = h('p', { class: 'editor-summary', role: 'status' });
  const list = h('ul', { class: 'editor-problems' });
  const root = h('div', { class: 'editor-frame' }, box, h('div', { id: problems }, summary, list));
  let wrong = [];

  const lines = () => area.value.split('\n');

  function typed() {
    size();
    changed();
  }

  /** As large as its text: the box around it scrolls, so numbers and marks need no following. */
  function size() {
    const all = lines();
    area.rows = Math.max(12, all.length + 1);
    const longest = all.reduce((most, line) => Math.max(most, line.length), 0);
    area.style.setProperty('min-inline-size', `${longest + 4}ch`);
    const want = area.rows;
    while (numbers.childElementCount < want) numbers.append(h('span', null, numbers.childElementCount + 1));
    while (numbers.childElementCount > want) numbers.lastChild.remove();
    drawMarks();
  }

  function drawMarks() {
    const all = lines();
    const byLine = Map.groupBy(wrong.filter((one) => one.line), (one) => one.line);
    for (const [at, number] of [...numbers.children].entries()) number.classList.toggle('is-wrong', byLine.has(at + 1));
    keyed(marks, [...byLine], ([line]) => line, () => h('p', { class: 'editor-mark' }), (mark, [line, found]) => {
      mark.dataset.line = line;
      mark.style.setProperty('--line', String(line - 1));
      mark.style.setProperty('--column', `${(all[line - 1]?.length ?? 0) + 2}ch`);
      put(mark, h('span', null, found.map((one) => one.detail).join('; ')));
    });
  }

  function goTo(line) {
    const before = lines().slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    area.focus({ preventScroll: true });
    area.setSelectionRange(before, before + (lines()[line - 1]?.length ?? 0));
    const height = area.scrollHeight / area.rows;
    box.scrollTop = Math.max(0, (line - 4) * height);
    box.scrollLeft = 0;
    box.scrollIntoView({ block: 'nearest' });
  }

  size();
  return {
    root,
    value: () => area.value,
    set(value) {
      area.value = value;
      size();
    },
    /** @param {Wrong[]|null} found  null: not known yet */
    mark(found) {
      wrong = found ?? [];
      area.setAttribute('aria-invalid', String(wrong.length > 0));
      summary.dataset.level = found === null ? 'wait' : wrong.length ? 'bad' : 'ok';
      put(summary, icon(summary.dataset.level), found === null ? 'Checking …' : wrong.length ? `${plural(wrong.length, 'problem')}: nothing with these can be published` : 'Valid');
      put(list, wrong.map((one) => {
        const path = one.path ?? one.field ?? '';
        const words = [one.line ? h('span', { class: 'problem-line' }, `Line ${one.line}`) : null, path ? h('code', null, path) : null, h('span', null, one.detail)];
        return h('li', { 'data-line': one.line }, one.line ? h('button', { type: 'button', onclick: () => goTo(one.line) }, words) : h('p', null, words));
      }));
      drawMarks();
    },
  };
}
