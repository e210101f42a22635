// The changes from one version to another, value by value.

import { h } from '../dom.js';
import { inline, plural } from '../format.js';
import { empty, table } from '../parts.js';

/** @param {{path: string, before: unknown, after: unknown}[]} changes */
export function changesTable(changes, caption) {
  if (!changes.length) return empty('No difference', 'Both say the same, defaults included.');
  const rows = changes.map((change) => h('tr', { 'data-path': change.path },
    h('th', { scope: 'row' }, h('code', null, change.path)),
    h('td', null, h('del', null, inline(change.before))),
    h('td', null, h('ins', null, inline(change.after)))));
  return [h('p', { class: 'muted' }, plural(changes.length, 'value differs', 'values differ')), table(caption, ['Rule', 'Before', 'After'], h('tbody', null, rows))];
}
