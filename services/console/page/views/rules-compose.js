// Writing a new version: checked while one types, kept until it is published, and kept too when somebody was faster.

import { explain, get, post } from '../api.js';
import { h, put } from '../dom.js';
import { ask, field, firstInvalid, reasonField } from '../dialog.js';
import { note, panel } from '../parts.js';
import { toast } from '../toasts.js';
import { changesTable } from './rules-diff.js';
import { editor } from './rules-editor.js';

const KEPT = 'console.rules.draft';
const PAUSE_MS = 350;
const START = '# An empty document is valid: every rule has a default.\n';

/**
 * @param {{items: any[], active: number|null}} known  the versions, newest first
 * @param {{published: (version: number) => void}} acts
 */
export function composer(known, { published }) {
  const text = editor({ changed: typed });
  const conflict = h('div', { class: 'conflict', role: 'alert' });
  const origin = h('p', { class: 'muted' });
  const owner = h('input', { name: 'owner', required: true, maxlength: 100, autocomplete: 'off', 'data-missing': 'Who answers for it?', oninput: keep });
  const reason = reasonField();
  const why = reason.querySelector('input');
  why.addEventListener('input', keep);
  const go = h('button', { class: 'button is-primary', type: 'submit' }, 'Publish as draft');
  const drop = h('button', { class: 'button', type: 'button', onclick: startOver }, 'Start over');
  const form = h('form', { class: 'compose', novalidate: true, onsubmit: publish, 'aria-label': 'New version of the rules' }, conflict, origin, text.root,
    h('div', { class: 'pair-fields' }, field('Owner', owner, 'a person or a team'), reason),
    h('p', { class: 'muted' }, 'A draft changes nothing yet: it goes to chosen instances as a canary, or to all of them, when you say so.'),
    h('div', { class: 'form-actions' }, go, drop));
  const root = panel('New version', { class: 'compose-panel' }, form);

  /** The version that the text began as; undefined until there is a text. */
  let basedOn;
  let began = '';
  let timer = null;
  let turn = 0;
  let warnedOf = null;

  const newest = () => known.items[0]?.version ?? null;
  const isDirty = () => basedOn !== undefined && text.value() !== began;

  function typed() {
    keep();
    check();
  }

  function keep() {
    try {
      sessionStorage.setItem(KEPT, JSON.stringify({ basedOn, began, text: text.value(), owner: owner.value, reason: why.value }));
    } catch {
      // A browser that keeps nothing: the text lives as long as the page.
    }
  }

  function check() {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const mine = (turn += 1);
      try {
        const said = await post('/v1/rules/validate', { document: text.value() });
        if (mine === turn) text.mark(said.valid ? [] : said.errors);
      } catch (error) {
        if (mine === turn) text.mark([{ detail: `It could not be checked. ${explain(error)}` }]);
      }
    }, PAUSE_MS);
  }

  function begin(document, version) {
    basedOn = version;
    began = document;
    text.set(document);
    warnedOf = null;
    conflict.replaceChildren();
    drawOrigin();
    text.mark(null);
    check();
  }

  function drawOrigin() {
    put(origin, basedOn ? `Begins from version ${basedOn}.` : 'The first version.');
  }

  async function startFromNewest() {
    const version = newest();
    const document = version ? (await get(`/v1/rules/${version}`)).document : START;
    begin(document, version);
    forget();
  }

  function forget() {
    try { sessionStorage.removeItem(KEPT); } catch { /* nothing was kept */ }
  }

  async function startOver() {
    if (isDirty()) {
      await ask({ title: 'Drop what you have written?', confirm: 'Drop it', danger: true, act: startFromNewest });
    } else {
      await startFromNewest();
    }
  }

  async function publish(event) {
    event.preventDefault();
    if (firstInvalid(form)) return;
    go.disabled = true;
    try {
      const item = await post('/v1/rules', { document: text.value(), owner: owner.value.trim(), reason: why.value.trim(), based_on: basedOn });
      forget();
      began = text.value();
      basedOn = item.version;
      why.value = '';
      warnedOf = null;
      conflict.replaceChildren();
      drawOrigin();
      toast('ok', `Version ${item.version} is a draft now.`);
      published(item.version);
    } catch (error) {
      if (error.slug === 'version-conflict') await warn(true);
      else if (error.status === 422 && error.errors.length) refused(error.errors);
      else put(conflict, note('bad', h('strong', null, 'Not published.'), ` ${explain(error)}`));
    } finally {
      go.disabled = false;
    }
  }

  /** What is wrong with the document goes to its line; what is wrong with the form above it. */
  function refused(errors) {
    turn += 1;
    clearTimeout(timer);
    const fields = errors.filter((one) => ['owner', 'reason', 'based_on'].includes(one.field));
    text.mark(errors.filter((one) => !fields.includes(one)));
    put(conflict, note('bad', h('strong', null, 'Refused, and nothing is lost.'), ' What is wrong stands at its line.',
      fields.length ? h('ul', null, fields.map((one) => h('li', null, `${one.field}: ${one.detail}`))) : null));
  }

  /** Somebody published meanwhile: said at once, or when one's own was refused for it. */
  async function warn(afresh) {
    let head = newest();
    let changes = null;
    try {
      const page = await get('/v1/rules?limit=1');
      head = page.items[0]?.version ?? head;
      if (basedOn) changes = (await get(`/v1/rules/${head}/diff?against=${basedOn}`)).changes;
    } catch {
      // Without the list of changes the warning still holds.
    }
    if (!afresh && warnedOf === head) return;
    warnedOf = head;
    const item = known.items.find((one) => one.version === head);
    const rebase = () => { basedOn = head; warnedOf = null; conflict.replaceChildren(); drawOrigin(); keep(); };
    put(conflict, note('warn', h('strong', null, `Version ${head} was published${item ? ` by ${item.author}` : ''} while you wrote.`),
      ' Your text is all here. It began from version ', String(basedOn ?? '–'), ', so what is new since then is not in it:',
      changes ? changesTable(changes, `Changes from version ${basedOn} to ${head}`) : null,
      h('div', { class: 'form-actions' },
        h('button', { class: 'button', type: 'button', onclick: rebase }, `Keep my text, on top of ${head}`),
        h('button', { class: 'button is-quiet', type: 'button', onclick: startOver }, `Take ${head} instead`))));
  }

  function restore() {
    try {
      const kept = JSON.parse(sessionStorage.getItem(KEPT));
      if (!kept?.text) return false;
      begin(kept.began, kept.basedOn);
      text.set(kept.text);
      owner.value = kept.owner ?? '';
      why.value = kept.reason ?? '';
      return true;
    } catch {
      return false;
    }
  }

  const restored = restore();
  return {
    root,
    isDirty,
    /** After the versions were looked at. */
    update() {
      if (basedOn === undefined && !restored) {
        basedOn = null;
        startFromNewest().catch(() => { basedOn = undefined; });
      } else if (basedOn !== undefined && newest() !== null && newest() !== basedOn) {
        if (isDirty()) warn(false);
        else if (!conflict.childElementCount) startFromNewest().catch(() => {});
      }
    },
    /** A new text from an old version; it still builds on the newest. */
    take(item) {
      begin(item.document, newest());
      began = null;
      owner.value = item.owner ?? '';
      keep();
    },
  };
}
