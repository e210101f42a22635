// One version: who made it and why, what it changes, its text, and what can be done with it.

import { Problem, get, post } from '../api.js';
import { h, put } from '../dom.js';
import { time, words } from '../format.js';
import { ask, reasonField, reasonIn } from '../dialog.js';
import { chip, facts, loader, panel } from '../parts.js';
import { toast } from '../toasts.js';
import { changesTable } from './rules-diff.js';
import { VERSION_LEVELS } from './version-states.js';

/**
 * @param {{items: any[], active: number|null, instances: any[]}} known
 * @param {{changed: () => Promise<any>, editFrom: (item: any) => void}} acts
 */
export function versionView(known, { changed, editFrom }) {
  const head = h('div', { class: 'version-detail' });
  const diff = h('div', { class: 'version-diff' });
  const against = h('select', { name: 'against', onchange: () => loadDiff() });
  const text = h('pre', { class: 'document', tabindex: 0, 'aria-label': 'Text of this version' });
  const root = panel('Version', { class: 'version-panel', hidden: true }, head,
    h('div', { class: 'diff-head' }, h('h3', null, 'Changes'), h('label', { class: 'field is-row' }, 'Compared with', against)), diff,
    h('details', { class: 'document-box', open: true }, h('summary', null, 'Text'), text));
  let number = null;
  let shownState = '';

  const load = loader(head, { what: 'the version', fetch: () => get(`/v1/rules/${encodeURIComponent(number)}`), draw });
  const loadDiff = loader(diff, {
    what: 'the changes',
    fetch: () => get(`/v1/rules/${encodeURIComponent(number)}/diff?against=${against.value}`),
    draw: (data) => put(diff, changesTable(data.changes, `Changes from ${data.against ? `version ${data.against}` : 'the built-in defaults'} to version ${number}`)),
  });

  function draw(item) {
    const [level, sign] = VERSION_LEVELS[item.state] ?? ['off', 'off'];
    shownState = item.state;
    root.querySelector('h2').textContent = `Version ${item.version}`;
    root.dataset.state = item.state;
    put(text, item.document);
    put(head, h('div', { class: 'version-top' }, chip(level, words(item.state), sign), h('div', { class: 'form-actions' }, actions(item))),
      facts([
        ['Reason', item.reason],
        ['Author', item.author],
        ['Owner', item.owner],
        ['Made', time(item.created_at)],
        item.activated_at ? ['In force', `from ${time(item.activated_at)}`] : null,
        item.canary?.length ? ['Canary on', item.canary.join(', ')] : null,
        ['Based on', item.based_on ? h('a', { href: `#rules/${item.based_on}` }, `version ${item.based_on}`) : 'nothing'],
      ]));
    drawAgainst(item);
  }

  function drawAgainst(item) {
    const others = known.items.filter((one) => one.version !== item.version);
    const usual = known.active && known.active !== item.version ? known.active : item.based_on ?? others.find((one) => one.version < item.version)?.version;
    put(against, others.map((one) => h('option', { value: one.version }, `${one.version} · ${words(one.state)}`)), h('option', { value: 0 }, 'Built-in defaults'));
    against.value = String(usual ?? 0);
    loadDiff();
  }

  function actions(item) {
    const button = (label, act, kind = '') => h('button', { class: `button ${kind}`, type: 'button', onclick: act }, label);
    const made = [];
    // What was written before the rules in force does not come over them: it would take back what it does not know.
    const outdated = item.version < (known.active ?? 0);
    if (item.state === 'draft' && outdated) return [h('span', { class: 'muted' }, `Older than version ${known.active}, which is in force: it can only be written anew.`), button('Edit from here', () => editFrom(item))];
    if (item.state === 'draft') made.push(button('Canary …', () => canary(item)));
    if (item.state === 'draft' || item.state === 'canary') made.push(button('Promote …', () => act(item, 'promote', 'Promote', `Every instance gets version ${item.version}.`), 'is-primary'));
    if (item.state === 'canary' || item.state === 'active') made.push(button('Roll back …', () => act(item, 'rollback', 'Roll back', back(item), true), 'is-danger'));
    made.push(button('Edit from here', () => editFrom(item)));
    return made;
  }

  const back = (item) => {
    if (item.state === 'canary') return 'Its instances return to the version in force.';
    const before = known.items.find((one) => one.state === 'superseded');
    return before ? `Version ${before.version} is in force again.` : 'There is no version before it.';
  };

  const act = (item, path, label, body, danger = false) => ask({
    title: `${label} version ${item.version}?`,
    body: h('p', null, body),
    fields: [reasonField()],
    confirm: label,
    danger,
    act: async (values) => done(await post(`/v1/rules/${item.version}/${path}`, { reason: reasonIn(values) }), label),
  });

  function canary(item) {
    const seen = known.instances.map((one) => one.instance);
    const boxes = seen.map((name) => h('label', { class: 'check' }, h('input', { type: 'checkbox', name: 'instances', value: name }), name));
    return ask({
      title: `Try version ${item.version} on some instances`,
      body: h('p', null, 'The others stay on the version in force.'),
      fields: [h('fieldset', { class: 'checks' }, h('legend', null, 'Instances'), seen.length ? boxes : h('p', { class: 'muted' }, 'None has reported yet.')), reasonField()],
      confirm: 'Start canary',
      act: async (values) => {
        const instances = values.getAll('instances');
        if (!instances.length) throw new Problem(0, { detail: 'Choose at least one instance.' });
        return done(await post(`/v1/rules/${item.version}/canary`, { instances, reason: reasonIn(values) }), 'Canary');
      },
    });
  }

  async function done(answer, label) {
    toast('ok', `Version ${number}: ${label.toLowerCase()} is done.`);
    await changed();
    await load();
    return answer ?? true;
  }

  return {
    root,
    show(next) {
      root.hidden = !next;
      if (next && next !== number) {
        number = next;
        root.querySelector('h2').textContent = `Version ${next}`;
        load();
      } else if (next) {
        load();
      }
    },
    /** Somebody else may have moved it on. */
    update() {
      const item = known.items.find((one) => String(one.version) === number);
      if (!root.hidden && item && shownState && item.state !== shownState) load();
    },
  };
}
