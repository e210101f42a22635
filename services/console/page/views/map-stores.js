// Databases, Redis and Kafka, as far as services measure them: connections in use, messages that wait.

import { h, keyed, text } from '../dom.js';
import { count, rate } from '../format.js';
import { breaker, isStore, joined } from '../hops.js';
import { chip, meter, setChip } from '../parts.js';

export function storesCard() {
  const pools = h('ul', { 'aria-label': 'Database connections in use' });
  const hops = h('ul', { 'aria-label': 'Hops to stores' });
  const root = h('article', { class: 'stores' }, h('h3', null, 'Stores'), pools, hops);
  return {
    root,
    update(snapshot) {
      const measured = (snapshot.services ?? []).filter((one) => one.db);
      keyed(pools, measured, (one) => one.instance, createPool, (element, one) => {
        element.children[1].set(one.db.used, one.db.max);
        text(element.lastChild, `${count(one.db.used)} of ${count(one.db.max)}`);
      });
      keyed(hops, joined(snapshot.hops).filter((hop) => isStore(hop.to) && (hop.to !== 'postgres' || hop.faults.length)), (hop) => hop.key, (hop) =>
        h('li', { 'data-store': hop.key }, h('span', null, `${hop.from} → ${hop.to}`), h('span', { class: 'store-text' }), chip('off', '')), (element, hop) => {
        const state = breaker(hop);
        text(element.children[1], hop.rate !== null ? rate(hop.rate) : hop.waiting !== null ? `${count(hop.waiting)} wait` : '');
        element.lastChild.hidden = hop.breaker === null && !hop.faults.length;
        setChip(element.lastChild, hop.faults.length ? 'bad' : state.level, hop.faults.length ? 'fault' : state.word, hop.faults.length ? 'fault' : state.icon);
      });
    },
  };
}

const createPool = (one) => h('li', null, h('span', null, `${one.instance} → postgres`), meter(`Connections of ${one.instance} to its database`), h('span', { class: 'store-text' }));
