// What needs a person: messages that nobody could use, and payments, refunds and coupons that could not be settled.

import { get, post } from '../api.js';
import { attr, h, keyed, put, text } from '../dom.js';
import { age, inline, money, shortId, time, words } from '../format.js';
import { ask, reasonField, reasonIn } from '../dialog.js';
import { chip, empty, facts, loader, panel, setChip } from '../parts.js';
import { toast } from '../toasts.js';

const AGAIN_MS = 3_000;

export const reviews = {
  name: 'reviews',
  title: 'Reviews',
  badge: (snapshot) => (snapshot.reviews ?? 0) + (snapshot.dead_letters ?? 0),
  create,
};

function create() {
  const waiting = listOf({
    what: 'reviews',
    path: '/v1/reviews',
    keyOf: (item) => `${item.kind} ${item.id}`,
    card: reviewCard,
    nothing: ['Nothing to review', 'Every payment, refund and coupon was settled, or still settles by itself.'],
  });
  const letters = listOf({
    what: 'dead letters',
    path: '/v1/dead-letters?limit=50',
    keyOf: (item) => item.id,
    card: letterCard,
    nothing: ['No dead letters', 'Every message was used.'],
  });
  const root = h('section', { 'aria-labelledby': 'title-reviews' }, h('div', { class: 'reviews-grid' },
    panel('To review', { class: 'reviews-panel' }, h('p', { class: 'muted' }, 'Payments whose result is still not known after every question, refunds that the provider does not make, and coupons to settle by hand.'), waiting.root),
    panel('Dead letters', { class: 'letters-panel' }, h('p', { class: 'muted' }, 'Messages that a consumer gave up. Once it can use them, they can be sent again.'), letters.root)));
  let loadedAt = 0;

  function load() {
    loadedAt = Date.now();
    waiting.load();
    letters.load();
  }

  return {
    root,
    show: (_, changed) => changed && load(),
    update: () => Date.now() - loadedAt > AGAIN_MS && load(),
  };
}

function listOf({ what, path, keyOf, card, nothing }) {
  const root = h('div', null);
  const missing = h('p', { class: 'field-error' });
  const list = h('ul', { class: 'cards' });
  const load = loader(root, {
    what,
    fetch: () => get(path),
    draw({ items, unavailable = [] }) {
      text(missing, unavailable.length ? `${unavailable.join(' and ')} gave no answer: what waits there is not shown.` : '');
      if (!items.length) return void put(root, empty(...nothing));
      if (!list.isConnected) put(root, list);
      keyed(list, items, keyOf, (item) => card(item, load), (element, item) => element.set(item));
    },
  });
  return { root: h('div', null, missing, root), load };
}

function letterCard(item, again) {
  const state = chip('off', '');
  const replay = h('button', { class: 'button', type: 'button', onclick: () => confirm() }, 'Replay …');
  const element = h('li', { class: 'card', 'data-letter': item.id },
    h('div', { class: 'card-head' }, h('h3', null, item.event_type ?? 'Unreadable message'), state, replay),
    facts([
      ['Given up', h('span', null, words(item.reason))],
      item.detail ? ['Because', item.detail] : null,
      ['When', time(item.at)],
      ['From', h('span', { class: 'mono' }, item.origin_topic ?? item.topic)],
      ['Found in', h('span', { class: 'mono' }, `${item.topic} / ${item.partition} / ${item.offset}`)],
      item.consumer ? ['By', item.consumer] : null,
      item.order_id ? ['Order', h('a', { href: `#orders/${item.order_id}`, class: 'mono', title: item.order_id }, shortId(item.order_id))] : null,
    ]),
    h('details', null, h('summary', null, 'Message'), h('pre', { class: 'document', tabindex: 0, 'aria-label': 'Message' }, pretty(item.payload))));
  element.set = (now) => {
    setChip(state, now.replayed ? 'ok' : 'bad', now.replayed ? 'sent again' : 'waits', now.replayed ? 'ok' : 'bad');
    attr(element, 'data-replayed', String(Boolean(now.replayed)));
    text(replay, now.replayed ? 'Replay again …' : 'Replay …');
  };

  const confirm = () => ask({
    title: 'Send this message again?',
    body: h('p', null, `It goes to ${item.origin_topic ?? 'where it came from'}. Who has used it already drops it.`),
    fields: [reasonField()],
    confirm: 'Replay',
    act: async (values) => {
      await post(`/v1/dead-letters/${encodeURIComponent(item.id)}/replay`, { reason: reasonIn(values) });
      toast('ok', 'The message was sent again.');
      await again();
    },
  });
  return element;
}

const KINDS = {
  payment: { title: 'Payment', amount: 'Amount' },
  refund: { title: 'Refund', amount: 'Owed' },
  coupon: { title: 'Coupon', amount: 'Order before discount' },
};

function reviewCard(item, again) {
  const { title, amount } = KINDS[item.kind];
  const since = h('span', null);
  const answer = h('span', null);
  const id = item.id;
  const element = h('li', { class: 'card', 'data-review': id },
    h('div', { class: 'card-head' }, h('h3', null, title), chip('wait', 'to review', 'wait'),
      item.kind === 'payment' ? h('button', { class: 'button', type: 'button', onclick: () => confirm() }, 'Ask the provider …') : null),
    facts([
      item.amount_minor === undefined || item.amount_minor === null ? null : [amount, money(item.amount_minor, item.currency)],
      item.order_id ? ['Order', h('a', { href: `#orders/${item.order_id}`, class: 'mono', title: item.order_id }, shortId(item.order_id))] : null,
      item.channel ? ['Channel', item.channel] : null,
      item.coupon_code ? ['Code', h('span', { class: 'mono' }, item.coupon_code)] : null,
      ['Since', since],
      ['Last answer', answer],
    ]));
  element.set = (now) => {
    text(since, now.since ? `${time(now.since)}, ${age((Date.now() - Date.parse(now.since)) / 1_000)}` : '–');
    text(answer, `${inline(now.last_answer)}${now.asked_again_at ? `, ${now.kind === 'refund' ? 'sent' : 'asked'} again at ${time(now.asked_again_at)}` : ''}`);
  };

  const confirm = () => ask({
    title: 'Ask the provider now?',
    body: h('p', null, 'Its answer settles the payment; no answer leaves it as it is.'),
    fields: [reasonField()],
    confirm: 'Ask',
    act: async (values) => {
      await post(`/v1/reviews/${encodeURIComponent(id)}/ask`, { reason: reasonIn(values) });
      toast('ok', 'The provider is asked.');
      await again();
    },
  });
  return element;
}

function pretty(payload) {
  if (typeof payload !== 'string') return JSON.stringify(payload, null, 2);
  try {
    return JSON.stringify(JSON.parse(payload), null, 2);
  } catch {
    return payload;
  }
}
