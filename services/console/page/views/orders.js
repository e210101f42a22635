// Orders: the list with its filter, one order with its history, and the form that places one.

import { get, withQuery } from '../api.js';
import { attr, h, keyed, put, text } from '../dom.js';
import { money, shortId, time, words } from '../format.js';
import { chip, empty, loader, panel, setChip, table } from '../parts.js';
import { ORDER_LEVELS } from './order-states.js';
import { orderDetail } from './orders-detail.js';
import { placeForm } from './orders-place.js';

const AGAIN_MS = 3_000;
const PAGE = 25;

export const orders = { name: 'orders', title: 'Orders', create };

function create() {
  const filter = filterForm(() => { cursor = null; pages = []; load(); });
  const body = h('tbody', null);
  const box = h('div', { class: 'orders-list' });
  const more = h('button', { class: 'button', type: 'button', hidden: true, onclick: loadMore }, 'Older orders');
  const detail = orderDetail();
  const place = placeForm((id) => { location.hash = `#orders/${id}`; load(); });
  const list = panel('Orders', { class: 'orders-panel' }, filter.element, box, more);
  const aside = h('div', { class: 'orders-aside' }, detail.root, place.root);
  const root = h('section', { 'aria-labelledby': 'title-orders' }, h('div', { class: 'orders-grid' }, list, aside));

  let pages = [];
  let cursor = null;
  let selected = null;
  let loadedAt = 0;

  const load = loader(box, { what: 'orders', fetch: () => get(withQuery('/v1/orders', { ...filter.values(), limit: PAGE })), draw });
  const frame = table('Orders, newest first', ['Order', 'Status', ['Total', 'is-number'], 'User', 'Placed'], body);

  function draw(page) {
    loadedAt = Date.now();
    // The first page is looked at again and again; what was asked for below it stays as it was.
    if (!pages.length) cursor = page.next_cursor;
    pages[0] = page.items;
    more.hidden = !cursor;
    drawRows();
  }

  function drawRows() {
    const seen = new Set();
    const items = pages.flat().filter((order) => !seen.has(order.id) && seen.add(order.id));
    if (!items.length) {
      put(box, empty('No orders', filter.isSet() ? 'None fits the filter.' : 'Place one with the form, or start some load.'));
      return;
    }
    if (!frame.isConnected) put(box, frame);
    keyed(body, items, (order) => order.id, createRow, (row, order) => {
      const [level, sign] = ORDER_LEVELS[order.status] ?? ['off', 'off'];
      setChip(row.children[1].firstChild, level, words(order.status), sign);
      text(row.children[2], money(order.total_minor, order.currency));
      attr(row, 'data-status', order.status);
      attr(row.querySelector('a'), 'aria-current', order.id === selected ? 'true' : null);
    });
  }

  async function loadMore() {
    more.disabled = true;
    try {
      const page = await get(withQuery('/v1/orders', { ...filter.values(), limit: PAGE, cursor }));
      pages.push(page.items);
      cursor = page.next_cursor;
      more.hidden = !cursor;
      drawRows();
    } finally {
      more.disabled = false;
    }
  }

  return {
    root,
    show(id, changed) {
      selected = id;
      detail.show(id);
      if (changed) load();
      else if (pages.length) drawRows();
      if (changed) place.show();
    },
    hide: () => detail.show(null),
    update() {
      if (Date.now() - loadedAt > AGAIN_MS && !box.hasAttribute('aria-busy')) {
        loadedAt = Date.now();
        load();
      }
      detail.update();
    },
  };
}

function createRow(order) {
  return h('tr', null,
    h('th', { scope: 'row' }, h('a', { href: `#orders/${order.id}`, title: order.id, class: 'mono' }, shortId(order.id))),
    h('td', null, chip('off', '')), h('td', { class: 'is-number' }),
    h('td', { class: 'mono', title: order.user_id }, shortId(order.user_id)), h('td', null, time(order.created_at)));
}

function filterForm(changed) {
  const status = h('select', { name: 'status', onchange: changed }, h('option', { value: '' }, 'Any status'),
    Object.keys(ORDER_LEVELS).map((name) => h('option', { value: name }, words(name))));
  const user = h('input', { name: 'user', type: 'search', placeholder: 'Name or id', autocomplete: 'off', spellcheck: 'false' });
  const element = h('form', { class: 'filter', role: 'search', 'aria-label': 'Filter orders', onsubmit: (event) => { event.preventDefault(); changed(); } },
    h('label', { class: 'field' }, 'Status', status), h('label', { class: 'field' }, 'User', user), h('button', { class: 'button', type: 'submit' }, 'Filter'));
  const values = () => ({ status: status.value, user_id: user.value.trim() });
  return { element, values, isSet: () => Boolean(status.value || user.value.trim()) };
}
