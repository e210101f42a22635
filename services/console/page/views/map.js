// The live map: services, the hops between them, and what comes of it.

import { h, keyed } from '../dom.js';
import { rate, millis, count } from '../format.js';
import { BREAKERS, isStore, joined } from '../hops.js';
import { latest, series } from '../live.js';
import { chip, loading, panel } from '../parts.js';
import { trend } from '../chart.js';
import { hopCard, serviceCard, updateHop, updateService } from './map-cards.js';
import { storesCard } from './map-stores.js';
import { lines } from './map-lines.js';
import { panels } from './map-panels.js';
import { tables } from './map-tables.js';

/** In reading order: whoever calls comes before whom it calls. */
const CALLEES = { order: ['inventory', 'payment', 'coupon', 'recommendation'], payment: ['provider', 'provider-backup'] };

export const map = { name: 'map', title: 'Map', create };

function create() {
  const cards = h('div', { class: 'map-cards' });
  const stores = storesCard();
  const drawing = lines(cards);
  const trends = {
    arrivals: [trend('Requests at order', rate, 'accent'), (reading) => reading.arrivals],
    p99: [trend('p99 at order', millis, 'accent'), (reading) => reading.p99],
    refused: [trend('Refused', rate, 'bad'), (reading) => reading.refused],
    pending: [trend('Orders waiting', count, 'wait'), (reading) => reading.pending],
  };
  const side = panels();
  const details = tables();
  const content = h('div', { hidden: true, class: 'map-content' },
    h('section', { class: 'map-box panel', 'aria-label': 'Services and hops' }, legend(), h('div', { class: 'map' }, drawing.root, cards)),
    panel('Last minutes', { class: 'trends' }, Object.values(trends).map(([element]) => element)),
    h('div', { class: 'map-panels' }, side.root),
    details.root);
  const waiting = loading('the first snapshot');
  const root = h('section', { 'aria-labelledby': 'title-map' }, waiting, content);
  new ResizeObserver(() => drawing.draw(latest())).observe(cards);

  return {
    root,
    update(snapshot) {
      waiting.remove();
      content.hidden = false;
      drawCards(cards, stores.root, snapshot);
      stores.update(snapshot);
      drawing.draw(snapshot);
      for (const [element, value] of Object.values(trends)) element.set(series(value));
      side.update(snapshot);
      details.update(snapshot);
    },
  };
}

function legend() {
  const kinds = Object.values(BREAKERS).map((kind) => h('li', null, chip(kind.level, kind.word, kind.icon)));
  return h('div', { class: 'map-legend' }, h('h2', null, 'Services and hops'), h('ul', { 'aria-label': 'States of a breaker' }, kinds));
}

/** Cards in the order in which they are read; where each stands is the style sheet's. */
function drawCards(root, stores, snapshot) {
  const hops = joined(snapshot.hops);
  const instances = Map.groupBy(snapshot.services ?? [], (instance) => instance.service);
  const items = [];
  const seen = new Set();
  const visit = (name) => {
    if (seen.has(name)) return;
    seen.add(name);
    items.push({ key: `node ${name}`, name, instances: instances.get(name) ?? [] });
    const known = CALLEES[name] ?? [];
    const rank = (hop) => (known.indexOf(hop.to) + known.length + 1) % (known.length + 1);
    for (const hop of hops.filter((one) => one.from === name && !isStore(one.to)).sort((a, b) => rank(a) - rank(b))) {
      items.push({ key: `hop ${hop.key}`, hop });
      visit(hop.to);
    }
  };
  visit('order');
  for (const name of instances.keys()) visit(name);
  items.push({ key: 'stores', stores });
  keyed(root, items, (item) => item.key, (item) => item.stores ?? (item.hop ? hopCard(item.hop) : serviceCard(item.name)), (element, item) => {
    if (item.hop) updateHop(element, item.hop);
    else if (item.instances) updateService(element, item.instances);
  });
}
