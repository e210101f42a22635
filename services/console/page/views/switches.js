// Switches: what each feature gives now, one click to give less or more, and one to take that back.

import { get, post } from '../api.js';
import { attr, h, keyed, put, text } from '../dom.js';
import { rate, time, words } from '../format.js';
import { ask, reasonField, reasonIn } from '../dialog.js';
import { latest } from '../live.js';
import { chip, empty, loader, panel, setChip, table } from '../parts.js';
import { toast } from '../toasts.js';

/** What each feature is, and what each of its values gives. */
const ABOUT = {
  recommendation: ['Suggestions beside a product or an order.', { live: 'asked for each time', cache: 'the last known ones', default: 'one fixed list', off: 'none' }],
  coupon: ['The discount of a code.', { on: 'checked and taken off', pending: 'full price, settled later', off: 'codes are refused' }],
  payment: ['Which way charges go.', { on: 'primary, then backup', backup_only: 'the backup alone', defer: 'small orders are charged later', off: 'no order is charged' }],
  availability: ['Stock on product pages.', { live: 'asked for each time', cache: 'a snapshot, with its age' }],
  admission: ['Who may place orders.', { all: 'everybody', allow_list: 'users on the list' }],
};
const AGAIN_MS = 3_000;

export const switches = { name: 'switches', title: 'Switches', create };

function create() {
  const box = h('div', null);
  const list = h('ul', { class: 'switches' });
  const log = h('div', null);
  /** What was there before a change of this page, by feature: it is one click away. */
  const before = new Map();
  let loadedAt = 0;

  const load = loader(box, {
    what: 'the switches',
    fetch: () => get('/v1/switches'),
    draw({ items }) {
      loadedAt = Date.now();
      if (!items.length) return void put(box, empty('No switches', 'No rules are in force from here yet.'));
      if (!list.isConnected) put(box, list);
      keyed(list, items, (item) => item.feature, createSwitch, updateSwitch);
    },
  });
  const loadLog = loader(log, {
    what: 'what was done',
    fetch: () => get('/v1/audit?limit=15'),
    draw: ({ items }) => put(log, items.length ? audit(items) : empty('Nothing was done yet')),
  });
  const root = h('section', { 'aria-labelledby': 'title-switches' }, h('p', { class: 'lead muted' }, 'Each change is a version of the rules with only this line different, in force at once.'),
    box, panel('What operators did', { class: 'audit-panel' }, log));

  function createSwitch(item) {
    const [about, meaning] = ABOUT[item.feature] ?? ['', {}];
    const name = `switch-${item.feature}`;
    const choices = h('div', { class: 'choices', role: 'group', 'aria-labelledby': name }, item.values.map((value) =>
      h('button', { class: 'choice', type: 'button', 'data-value': value, onclick: () => choose(item.feature, value) },
        h('span', { class: 'choice-name' }, words(value)), h('span', { class: 'choice-about' }, meaning[value] ?? ''))));
    const back = h('button', { class: 'button', type: 'button', hidden: true, onclick: () => takeBack(item.feature) });
    return h('li', { class: 'switch panel', 'data-feature': item.feature },
      h('div', { class: 'switch-head' }, h('h2', { id: name }, words(item.feature)), chip('off', ''), h('span', { class: 'switch-hits muted' })),
      h('p', { class: 'muted' }, about), choices, back);
  }

  function updateSwitch(element, item) {
    const normal = item.value === item.normal;
    element.current = item.value;
    attr(element, 'data-value', item.value);
    setChip(element.querySelector('.chip'), normal ? 'ok' : 'warn', normal ? 'normal' : 'degraded on purpose', normal ? 'ok' : 'half');
    for (const choice of element.querySelectorAll('.choice')) attr(choice, 'aria-pressed', String(choice.dataset.value === item.value));
    const back = element.querySelector(':scope > .button');
    const to = before.get(item.feature) ?? (normal ? null : item.normal);
    back.hidden = to === null || to === item.value;
    if (!back.hidden) text(back, `Take back: ${words(to)}`);
    back.dataset.to = to ?? '';
  }

  const of = (feature) => list.querySelector(`[data-feature="${CSS.escape(feature)}"]`);

  function choose(feature, value) {
    if (of(feature).current === value) return;
    ask({
      title: `Switch ${words(feature)} to “${words(value)}”?`,
      body: h('p', null, ABOUT[feature]?.[1][value] ? `What customers get: ${ABOUT[feature][1][value]}.` : ''),
      fields: [reasonField()],
      confirm: 'Switch',
      act: (values) => change(feature, value, reasonIn(values)),
    });
  }

  /** One click: the reason is that it is taken back. */
  async function takeBack(feature) {
    const button = of(feature).querySelector(':scope > .button');
    const value = button.dataset.to;
    button.disabled = true;
    try {
      await change(feature, value, `taken back from ${of(feature).current}`);
      before.delete(feature);
    } catch (error) {
      toast('bad', `${words(feature)} could not be switched. ${error.message}`);
    } finally {
      button.disabled = false;
      await load();
      of(feature)?.querySelector('[aria-pressed="true"]')?.focus();
    }
  }

  async function change(feature, value, reason) {
    const was = of(feature).current;
    await post('/v1/switches', { feature, value, reason });
    before.set(feature, was);
    toast('ok', `${words(feature)} is switched to ${words(value)}.`);
    await Promise.all([load(), loadLog()]);
    return true;
  }

  return {
    root,
    show(_, changed) {
      if (!changed) return;
      load();
      loadLog();
    },
    update(snapshot) {
      for (const item of snapshot?.degraded ?? latest()?.degraded ?? []) {
        const hits = of(item.feature)?.querySelector('.switch-hits');
        if (hits) text(hits, item.hit_rate > 0 ? `${rate(item.hit_rate)} degraded answers` : '');
      }
      if (Date.now() - loadedAt > AGAIN_MS && !box.hasAttribute('aria-busy')) {
        loadedAt = Date.now();
        load();
      }
    },
  };
}

function audit(items) {
  return table('What operators did, newest first', ['When', 'Who', 'What', 'Reason'], h('tbody', null, items.map((item) =>
    h('tr', null, h('td', null, time(item.at)), h('td', null, item.operator), h('td', null, `${words(item.action)} ${item.target ?? ''}`), h('td', null, item.reason ?? '')))));
}
