// The page: who is signed in, which view is shown, what streams in.
//
// Reading order: session.js (who) · live.js (the stream) · headline.js (what it means, in a sentence) · status.js (the
// top of every view) · views/ (one file a view, and its parts) · dom.js, parts.js, dialog.js (what they are built of).

import { attr, h, keyed, put, text } from './dom.js';
import { icon } from './icons.js';
import * as live from './live.js';
import * as session from './session.js';
import * as status from './status.js';
import { faults } from './views/faults.js';
import { map } from './views/map.js';
import { orders } from './views/orders.js';
import { reviews } from './views/reviews.js';
import { rules } from './views/rules.js';
import { switches } from './views/switches.js';

/** @type {{name: string, title: string, badge?: (snapshot: any) => number, create: () => any}[]} */
const VIEWS = [map, orders, rules, switches, reviews, faults];
const built = new Map();
let shown = null;

const element = (id) => document.getElementById(id);

/** `#orders/ID` is the view `orders`, shown for `ID`. */
function place() {
  const [name, ...rest] = decodeURIComponent(location.hash.slice(1)).split('/');
  const view = VIEWS.find((one) => one.name === name) ?? VIEWS[0];
  return { view, argument: rest.join('/') || null };
}

function go({ focus }) {
  if (element('app').hidden) return;
  const { view, argument } = place();
  if (!built.has(view.name)) {
    const made = view.create();
    const title = h('h1', { tabindex: -1, id: `title-${view.name}` }, view.title);
    made.root.prepend(title);
    made.title = title;
    attr(made.root, 'class', `view view-${view.name}`);
    attr(made.root, 'id', `view-${view.name}`);
    element('main').append(made.root);
    built.set(view.name, made);
  }
  const next = built.get(view.name);
  const changed = next !== shown;
  for (const one of built.values()) one.root.hidden = one !== next;
  if (changed) shown?.hide?.();
  shown = next;
  document.body.dataset.view = view.title;
  next.show?.(argument, changed);
  drawNav(view.name);
  update(live.latest());
  if (changed) scrollTo({ top: 0 });
  if (focus && changed) next.title.focus({ preventScroll: true });
}

function drawNav(current) {
  keyed(element('nav'), VIEWS, (view) => view.name, (view) =>
    h('li', null, h('a', { href: `#${view.name}` }, icon(view.name), h('span', { class: 'rail-label' }, view.title), h('span', { class: 'badge', hidden: true }))),
  (item, view) => attr(item.firstChild, 'aria-current', view.name === current ? 'page' : null));
}

function update(snapshot) {
  status.update(snapshot);
  if (!snapshot) return;
  shown?.update?.(snapshot);
  VIEWS.forEach((view, at) => {
    const badge = element('nav').children[at]?.querySelector('.badge');
    const number = view.badge?.(snapshot) ?? 0;
    if (!badge) return;
    badge.hidden = !number;
    if (number) put(badge, number, h('span', { class: 'sr-only' }, ' to look at'));
  });
}

function drawTheme() {
  const now = window.consoleTheme.current();
  const button = element('theme');
  put(button, icon(now), h('span', { class: 'tool-label' }, { auto: 'Auto', light: 'Light', dark: 'Dark' }[now]));
  attr(button, 'aria-label', `Theme: ${now}. Change it`);
}

function start() {
  status.build(element('status'));
  drawTheme();
  element('theme').addEventListener('click', () => { window.consoleTheme.next(); drawTheme(); });
  // The address names the view: the skip link must not.
  element('skip').addEventListener('click', (event) => {
    event.preventDefault();
    (element('app').hidden ? element('login-title') : element('main')).focus();
  });
  addEventListener('hashchange', () => go({ focus: true }));
  document.addEventListener('stream-refused', () => session.look());
  live.onChange(update);
  session.begin({
    begin() {
      live.start();
      go({ focus: false });
    },
    end() {
      live.stop();
      text(element('announcer'), '');
    },
  });
}

start();
