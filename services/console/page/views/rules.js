// Rules: the versions, what each instance has applied, one version with its changes, and the editor.

import { get, withQuery } from '../api.js';
import { attr, h, keyed, put, text } from '../dom.js';
import { plural, time, words } from '../format.js';
import { chip, empty, loader, panel, setChip, table } from '../parts.js';
import { VERSION_LEVELS } from './version-states.js';
import { composer } from './rules-compose.js';
import { versionView } from './rules-version.js';

const AGAIN_MS = 3_000;

export const rules = { name: 'rules', title: 'Rules', create };

function create() {
  /** @type {{items: any[], active: number|null, next_cursor: string|null, instances: any[]}} */
  const known = { items: [], active: null, next_cursor: null, instances: [] };
  let loadedAt = 0;
  let selected = null;

  const versionsBox = h('div', null);
  const appliedBox = h('div', null);
  const force = h('p', { class: 'in-force' });
  const more = h('button', { class: 'button', type: 'button', hidden: true, onclick: older }, 'Older versions');
  const edit = h('a', { class: 'button is-primary', href: '#rules' });
  const compose = composer(known, { published: (version) => { refresh(); location.hash = `#rules/${version}`; } });
  const version = versionView(known, { changed: refresh, editFrom: (item) => { compose.take(item); location.hash = '#rules'; } });

  const list = h('ul', { class: 'versions' });
  const body = h('tbody', null);
  const frame = table('Rules applied, by instance', ['Instance', 'Version', 'From'], body);
  const root = h('section', { 'aria-labelledby': 'title-rules' },
    h('div', { class: 'rules-bar' }, force, edit),
    h('div', { class: 'rules-grid' },
      h('div', { class: 'rules-aside' }, panel('Versions', { class: 'versions-panel' }, versionsBox, more), panel('Applied', { class: 'applied-panel' }, appliedBox)),
      h('div', { class: 'rules-main' }, version.root, compose.root)));

  const loadVersions = loader(versionsBox, {
    what: 'the versions',
    fetch: () => get('/v1/rules?limit=30'),
    draw(page) {
      const fresh = new Set(page.items.map((item) => item.version));
      // Older ones that were asked for stay below.
      const rest = known.items.filter((item) => !fresh.has(item.version) && item.version < (page.items.at(-1)?.version ?? 0));
      if (!rest.length) known.next_cursor = page.next_cursor;
      known.items = [...page.items, ...rest];
      known.active = page.active;
      drawVersions();
      compose.update();
      version.update();
    },
  });
  const loadApplied = loader(appliedBox, {
    what: 'what is applied',
    fetch: () => get('/v1/rules/instances'),
    draw(page) {
      known.instances = page.items;
      drawApplied();
    },
  });

  function refresh() {
    loadedAt = Date.now();
    return Promise.all([loadVersions(), loadApplied()]);
  }

  async function older() {
    more.disabled = true;
    try {
      const page = await get(withQuery('/v1/rules', { limit: 30, cursor: known.next_cursor }));
      known.items.push(...page.items);
      known.next_cursor = page.next_cursor;
      drawVersions();
    } finally {
      more.disabled = false;
    }
  }

  function drawVersions() {
    const canary = known.items.filter((item) => item.state === 'canary');
    const tried = canary.map((item) => `version ${item.version} is a canary on ${(item.canary ?? []).join(', ')}`);
    text(force, [known.active ? `Version ${known.active} is in force` : 'Nothing was published yet: the services run on their file or their built-in defaults', ...tried].join('; '));
    more.hidden = !known.next_cursor;
    if (!known.items.length) return void put(versionsBox, empty('No versions yet', 'The first one that you publish is version 1.'));
    if (!list.isConnected) put(versionsBox, list);
    keyed(list, known.items, (item) => item.version, createVersion, (element, item) => {
      const [level, sign] = VERSION_LEVELS[item.state] ?? ['off', 'off'];
      setChip(element.querySelector('.chip'), level, words(item.state), sign);
      attr(element, 'data-state', item.state);
      attr(element.querySelector('a'), 'aria-current', String(item.version) === selected ? 'true' : null);
    });
  }

  function drawApplied() {
    if (!known.instances.length) return void put(appliedBox, empty('No instance has reported', 'Each does when it has taken up rules from here.'));
    if (!frame.isConnected) put(appliedBox, frame);
    keyed(body, known.instances, (one) => one.instance, (one) =>
      h('tr', { 'data-instance': one.instance }, h('th', { scope: 'row' }, one.instance), h('td', null, chip('off', '')), h('td', null)), (row, one) => {
      const due = one.expected === null || one.expected === undefined || one.version === one.expected;
      setChip(row.children[1].firstChild, one.error ? 'bad' : due ? 'ok' : 'wait', `${one.version ?? '–'}${due ? '' : `, ${one.expected} is due`}`, one.error ? 'bad' : due ? 'ok' : 'wait');
      attr(row, 'data-version', one.version);
      text(row.children[2], one.error ? `refused: ${one.error}` : words(one.origin));
      attr(row, 'title', one.at ? `reported ${time(one.at)}` : null);
    });
  }

  return {
    root,
    show(argument, changed) {
      selected = argument;
      const editing = !argument;
      compose.root.hidden = !editing;
      version.show(argument);
      edit.hidden = editing;
      text(edit, compose.isDirty() ? 'Back to your unpublished text' : 'Write a new version');
      if (changed) refresh();
      else drawVersions();
    },
    update() {
      if (Date.now() - loadedAt > AGAIN_MS && !versionsBox.hasAttribute('aria-busy')) refresh();
    },
  };
}

function createVersion(item) {
  const canary = item.canary?.length ? ` on ${plural(item.canary.length, 'instance')}` : '';
  return h('li', null, h('a', { href: `#rules/${item.version}` },
    h('span', { class: 'version-head' }, h('strong', null, item.version), chip('off', ''), canary ? h('span', { class: 'muted' }, canary) : null),
    h('span', { class: 'version-reason' }, item.reason),
    h('span', { class: 'muted' }, `${item.author}${item.owner && item.owner !== item.author ? ` for ${item.owner}` : ''} · ${time(item.created_at)}`)));
}
