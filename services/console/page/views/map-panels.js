// Beside the map: where orders stand, what waits, what is refused, what is degraded.

import { attr, h, keyed, text } from '../dom.js';
import { age, count, rate, words } from '../format.js';
import { isStore, joined } from '../hops.js';
import { chip, panel, setChip } from '../parts.js';

const FUNNEL = ['created', 'stock_reserved', 'payment_in_flight', 'payment_pending', 'confirmed', 'rejected', 'cancelled'];
const LEVELS = { payment_pending: 'wait', confirmed: 'ok', rejected: 'bad', cancelled: 'off' };

export function panels() {
  const made = [funnel(), waiting(), refused(), degraded()];
  return {
    root: made.map((one) => one.root),
    update: (snapshot) => made.forEach((one) => one.update(snapshot)),
  };
}

/** A row with a bar: its label, how long the bar is, and numbers. */
function bar() {
  const label = h('span', { class: 'bar-label' });
  const fill = h('span', { class: 'bar-fill' });
  const value = h('span', { class: 'bar-value' });
  const aside = h('span', { class: 'bar-aside' });
  const element = h('li', { class: 'bar' }, label, h('span', { class: 'bar-track', 'aria-hidden': 'true' }, fill), value, aside);
  element.set = ({ name, share, number, more, level }) => {
    text(label, name);
    fill.style.setProperty('inline-size', `${(Math.min(1, share || 0) * 100).toFixed(1)}%`);
    text(value, number);
    text(aside, more ?? '');
    attr(element, 'data-level', level);
  };
  return element;
}

function funnel() {
  const list = h('ol', { class: 'bars' });
  const root = panel('Order funnel', { class: 'funnel' }, list);
  return {
    root,
    update(snapshot) {
      const byName = new Map((snapshot.funnel ?? []).map((step) => [step.status, step]));
      const known = FUNNEL.map((status) => byName.get(status) ?? { status, total: 0, rate: 0 });
      const most = Math.max(1, ...known.map((step) => step.total));
      keyed(list, known, (step) => step.status, bar, (element, step) => element.set({
        name: words(step.status),
        // The roots, so that a handful beside a million is still to be seen.
        share: Math.sqrt(step.total / most),
        number: count(step.total),
        more: rate(step.rate),
        level: LEVELS[step.status] ?? 'accent',
      }));
    },
  };
}

function waiting() {
  const oldest = h('strong', { class: 'big', 'data-reading': 'oldest-pending' });
  const said = h('span', { class: 'muted' });
  const list = h('ul', { class: 'pairs' });
  const root = panel('Waiting', { class: 'waiting' }, h('p', { class: 'big-row' }, oldest, said), list);
  return {
    root,
    update(snapshot) {
      const { count: orders = 0, oldest_seconds: seconds = null } = snapshot.pending ?? {};
      text(oldest, orders ? age(seconds) : 'Nothing');
      text(said, orders ? `oldest pending payment, of ${count(orders)}` : 'no payment is pending');
      attr(oldest, 'data-level', orders ? 'wait' : 'ok');
      const rows = [
        ['To review', snapshot.reviews, '#reviews'],
        ['Dead letters', snapshot.dead_letters, '#reviews'],
        ['Coupons to settle', snapshot.compensations, null],
        ...(snapshot.outbox ?? []).map((box) => [`Outbox of ${box.service}`, box.backlog, null, box.oldest_seconds]),
        ...lags(snapshot),
      ];
      keyed(list, rows, ([name]) => name, ([name, , where]) => h('li', null, where ? h('a', { href: where }, name) : h('span', null, name), h('span', { class: 'pair-value' })), (element, [, number, , seconds]) => {
        text(element.lastChild, `${count(number)}${number && seconds ? `, ${age(seconds)} old` : ''}`);
        attr(element, 'data-level', number ? 'wait' : null);
      });
    },
  };
}

/** One row a consumer: its topics together, and only the ones that are behind by name. */
function lags(snapshot) {
  const behind = (snapshot.lag ?? []).filter((one) => one.lag > 0);
  if (!behind.length) return [['Messages not yet read', 0, null]];
  return behind.map((one) => [`${one.topic} to ${one.consumer}`, one.lag, null]);
}

function refused() {
  const list = h('ul', { class: 'bars' });
  const nothing = h('p', { class: 'muted' }, 'Nothing is refused.');
  const root = panel('Refused', { class: 'refused' }, nothing, list);
  return {
    root,
    update(snapshot) {
      const own = (snapshot.refused ?? []).filter((item) => item.rate > 0);
      const hops = joined(snapshot.hops).filter((hop) => hop.rejected > 0 && !isStore(hop.to));
      const items = own.length ? own : hops.map((hop) => ({ mechanism: `before ${hop.to}`, rate: hop.rejected }));
      items.sort((a, b) => b.rate - a.rate);
      const most = Math.max(0.1, ...items.map((item) => item.rate));
      nothing.hidden = items.length > 0;
      keyed(list, items.slice(0, 8), (item) => item.mechanism, bar, (element, item) => element.set({
        name: item.mechanism, share: item.rate / most, number: rate(item.rate), level: 'bad',
      }));
    },
  };
}

function degraded() {
  const list = h('ul', { class: 'degraded-list' });
  const root = panel('Degraded', { class: 'degraded' }, list, h('p', { class: 'panel-foot' }, h('a', { href: '#switches' }, 'Switches')));
  return {
    root,
    update(snapshot) {
      keyed(list, snapshot.degraded ?? [], (item) => item.feature, (item) =>
        h('li', null, h('span', { class: 'bar-label' }, words(item.feature)), chip('off', ''), h('span', { class: 'bar-value' })), (element, item) => {
        const hit = item.hit_rate > 0;
        setChip(element.children[1], !item.normal || hit ? 'warn' : 'ok', words(item.level), !item.normal || hit ? 'half' : 'ok');
        text(element.children[2], hit ? rate(item.hit_rate) : '');
      });
    },
  };
}
