// The same in tables: every hop of every instance, and every instance. What the map draws can be read here.

import { attr, h, keyed, text } from '../dom.js';
import { bytes, count, millis, percent, rate, words } from '../format.js';
import { breaker, joined } from '../hops.js';
import { series } from '../live.js';
import { chip, panel, setChip, table } from '../parts.js';
import { sparkline } from '../chart.js';

export function tables() {
  const hops = hopTable();
  const instances = instanceTable();
  return {
    root: h('div', { class: 'map-tables' }, hops.root, instances.root),
    update(snapshot) {
      hops.update(snapshot);
      instances.update(snapshot);
    },
  };
}

const cells = (row, values) => values.forEach((value, at) => text(row.children[at], value));

function hopTable() {
  const body = h('tbody', null);
  const right = (label) => [label, 'is-number'];
  const heads = ['Hop', 'Breaker', right('Rate'), 'Trend', right('p99'), right('In flight'), right('Waiting'), right('Failing'), right('Rejected'), right('Retries'), right('Opened')];
  const root = panel('Every hop', { class: 'hops-panel' }, table('Every hop, by instance', heads, body));
  return {
    root,
    update(snapshot) {
      const rows = joined(snapshot.hops).flatMap((hop) => hop.parts.map((part) => ({ hop, part: joined([part])[0], instance: part.instance })));
      keyed(body, rows, (row) => `${row.hop.key} ${row.instance ?? ''}`, createHop, updateHop);
    },
  };
}

function createHop(row) {
  const number = () => h('td', { class: 'is-number' });
  const label = row.instance ? [row.hop.key, h('small', null, ` ${row.instance}`)] : row.hop.key;
  return h('tr', null, h('th', { scope: 'row' }, label), h('td', null, chip('off', '')), number(), h('td', { class: 'spark-cell' }, sparkline('is-accent')),
    number(), number(), number(), number(), number(), number(), number());
}

function updateHop(element, { hop, part }) {
  const state = breaker(part);
  attr(element, 'data-breaker', part.breaker ?? 'none');
  setChip(element.children[1].firstChild, state.level, state.word, state.icon);
  text(element.children[2], rate(part.rate));
  element.children[3].firstChild.set(series((reading) => reading.hops.get(hop.key) ?? 0));
  const load = part.cap === null && part.inFlight === null ? '–' : `${count(part.inFlight)} / ${count(part.cap)}`;
  const numbers = [millis(part.p99), load, count(part.waiting), percent(part.failure), rate(part.rejected), rate(part.retries), count(part.opened)];
  numbers.forEach((value, at) => text(element.children[at + 4], value));
}

const STATES = { up: ['ok', 'up'], not_ready: ['warn', 'not ready'], unreachable: ['bad', 'unreachable'] };

function instanceTable() {
  const body = h('tbody', null);
  const right = (label) => [label, 'is-number'];
  const heads = ['Instance', 'State', 'Rules', right('Rate'), right('p50'), right('p99'), right('Errors'), right('Refused'), right('In flight'), right('Database'), right('Memory')];
  const root = panel('Every instance', { class: 'instances-panel' }, table('Every instance', heads, body));
  return {
    root,
    update(snapshot) {
      keyed(body, snapshot.services ?? [], (one) => one.instance, (one) =>
        h('tr', null, h('th', { scope: 'row' }, one.instance), h('td', null, chip('off', '')), h('td', null), ['', '', '', '', '', '', '', ''].map(() => h('td', { class: 'is-number' }))),
      (element, one) => {
        const [level, word] = STATES[one.state] ?? STATES.unreachable;
        setChip(element.children[1].firstChild, level, one.reason ? `${word}: ${one.reason}` : word);
        const rules = one.rules ? `${one.rules.version || 'built in'} · ${words(one.rules.origin)}` : '–';
        const load = `${count(one.in_flight)} / ${count(one.in_flight_cap)}`;
        const database = one.db ? `${count(one.db.used)} / ${count(one.db.max)}` : '–';
        cells({ children: [...element.children].slice(2) }, [rules, rate(one.rate), millis(one.p50_ms), millis(one.p99_ms), rate(one.error_rate), rate(one.refused_rate), load, database, bytes(one.memory_bytes)]);
      });
    },
  };
}
