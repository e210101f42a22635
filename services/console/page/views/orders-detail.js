// One order: what it is now, and every step that led there.

import { get } from '../api.js';
import { h, put } from '../dom.js';
import { inline, money, time, words } from '../format.js';
import { chip, empty, facts, loader, panel } from '../parts.js';
import { ORDER_LEVELS } from './order-states.js';

const FINAL = new Set(['confirmed', 'rejected', 'cancelled']);
const AGAIN_MS = 1_000;

export function orderDetail() {
  const box = h('div', { class: 'order-detail' });
  const root = panel('One order', { class: 'order-panel' }, box);
  let id = null;
  let askedAt = 0;
  let drawnState = '';
  let settled = false;

  const load = loader(box, {
    what: 'the order',
    fetch: async () => {
      const asked = encodeURIComponent(id);
      // One that is not there does not come by waiting.
      const order = await get(`/v1/orders/${asked}`).catch((error) => { settled = error.status === 404; throw error; });
      const history = await get(`/v1/orders/${asked}/history`);
      return { order, history: history.items ?? history };
    },
    draw({ order, history }) {
      settled = FINAL.has(order.status) && !['refund_due', 'pending'].includes(order.payment?.state) && order.coupon?.state !== 'pending';
      // Drawn anew only when something happened: a reader's place stays.
      const state = JSON.stringify([order, history.length]);
      if (state === drawnState && box.childElementCount) return;
      drawnState = state;
      put(box, summary(order), timeline(history));
    },
  });

  return {
    root,
    show(next) {
      if (next === id && box.childElementCount) return;
      id = next;
      drawnState = '';
      settled = false;
      if (id) {
        askedAt = Date.now();
        box.replaceChildren();
        load();
      } else {
        put(box, empty('No order chosen', 'Choose one in the list, or place one.'));
      }
    },
    /** Watched until nothing more will happen to it. */
    update() {
      if (!id || settled || Date.now() - askedAt < AGAIN_MS || box.hasAttribute('aria-busy')) return;
      askedAt = Date.now();
      load();
    },
  };
}

function summary(order) {
  const [level, sign] = ORDER_LEVELS[order.status] ?? ['off', 'off'];
  const cash = (minor) => money(minor, order.currency);
  const payment = order.payment ?? {};
  const refunded = payment.refunded_minor ? `, ${cash(payment.refunded_minor)} refunded` : '';
  return h('div', { class: 'order-summary', 'data-order': order.id, 'data-status': order.status },
    h('p', { class: 'order-head' }, chip(level, words(order.status), sign), order.status_reason ? h('span', { class: 'muted' }, words(order.status_reason)) : null),
    h('p', { class: 'mono order-id' }, order.id),
    h('ul', { class: 'items' }, (order.items ?? []).map((item) => h('li', null, h('span', { class: 'is-number' }, `${item.quantity} ×`), h('span', null, item.name || item.sku), h('span', { class: 'is-number' }, cash(item.unit_price_minor))))),
    facts([
      ['Total', [h('strong', null, cash(order.total_minor)), order.discount_minor ? ` after ${cash(order.discount_minor)} off` : '']],
      ['Payment', `${words(payment.state)}${payment.channel ? ` on ${payment.channel}` : ''}${refunded}`],
      order.coupon?.code ? ['Coupon', `${order.coupon.code}, ${words(order.coupon.state)}`] : null,
      order.degraded?.length ? ['Degraded', order.degraded.map(words).join(', ')] : null,
      order.user_id ? ['User', h('span', { class: 'mono' }, order.user_id)] : null,
      ['Placed', time(order.created_at)],
    ]));
}

function timeline(history) {
  const steps = history.map((step, at) => {
    const [level, sign] = ORDER_LEVELS[step.to] ?? ['off', 'off'];
    const since = at > 0 ? Date.parse(step.at) - Date.parse(history[at - 1].at) : null;
    return h('li', { class: `step is-${level}` },
      h('div', { class: 'step-head' }, chip(level, words(step.to), sign), h('span', { class: 'muted' }, words(step.event))),
      h('p', { class: 'step-time' }, h('time', { datetime: step.at }, time(step.at)), since === null ? '' : ` · +${since} ms`),
      step.detail && inline(step.detail) !== '{}' ? h('p', { class: 'step-detail mono' }, inline(step.detail)) : null);
  });
  return [h('h3', null, 'History'), steps.length ? h('ol', { class: 'timeline' }, steps) : empty('No steps yet')];
}
