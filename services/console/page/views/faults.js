// Faults on the links between services: put one in, watch what holds, take it out.

import { explain, get, post, remove } from '../api.js';
import { attr, h, keyed, put, text } from '../dom.js';
import { count, inline, words } from '../format.js';
import { joined } from '../hops.js';
import { icon } from '../icons.js';
import { chip, empty, loader, panel, setChip } from '../parts.js';
import { toast } from '../toasts.js';
import { faultForm } from './faults-form.js';

const AGAIN_MS = 2_000;

export const faults = {
  name: 'faults',
  title: 'Faults',
  badge: (snapshot) => joined(snapshot.hops).filter((hop) => hop.faults.length).length,
  create,
};

function create() {
  const box = h('div', null);
  const list = h('ul', { class: 'links' });
  const form = faultForm(inject);
  const clear = h('button', { class: 'button is-danger', type: 'button', onclick: () => removeAll() }, 'Remove all faults');
  const content = h('div', { class: 'faults-grid' }, panel('Put in a fault', { class: 'inject-panel' }, form.root), panel('Links', { class: 'links-panel' }, h('div', { class: 'form-actions' }, clear), list));
  const root = h('section', { 'aria-labelledby': 'title-faults' }, h('p', { class: 'lead muted' }, 'A link stands in front of every hop and carries everything, until it is told to break it. What the guards make of that is on the map.'), box);
  let loadedAt = 0;

  const load = loader(box, {
    what: 'the links',
    fetch: () => get('/v1/faults').catch((error) => {
      if (error.status === 404) return { available: false, detail: error.message };
      throw error;
    }),
    draw(data) {
      loadedAt = Date.now();
      if (!data.available) return void put(box, empty('No links run', data.detail ?? 'The system was started with --direct: there is nothing to put faults into.'));
      if (!content.isConnected) put(box, content);
      form.update(data);
      const any = data.links.some((link) => link.faults.length);
      clear.disabled = !any;
      keyed(list, data.links, (link) => link.link, createLink, updateLink);
    },
  });

  async function inject(fault) {
    await post('/v1/faults', fault);
    toast('warn', `${words(fault.kind)} is put into ${fault.link}.`);
    await load();
  }

  async function act(work, done) {
    try {
      await work();
      toast('ok', done);
    } catch (error) {
      toast('bad', explain(error));
    }
    await load();
  }

  const removeAll = () => act(() => remove('/v1/faults'), 'All faults are removed.');

  function createLink(link) {
    return h('li', { class: 'link', 'data-link': link.link }, h('div', { class: 'link-head' }, h('h3', null, link.link.replace('->', ' → ')), chip('off', '')), h('ul', { class: 'link-faults' }));
  }

  function updateLink(element, link) {
    const broken = link.faults.length > 0;
    setChip(element.querySelector('.chip'), broken ? 'bad' : 'ok', broken ? 'fault in' : 'carries all', broken ? 'fault' : 'ok');
    attr(element, 'data-faults', link.faults.length);
    keyed(element.lastChild, link.faults, (fault) => fault.name, (fault) => h('li', { class: 'fault', 'data-fault': fault.name },
      icon('fault'), h('span', { class: 'fault-kind' }, words(fault.kind)), h('span', { class: 'muted fault-settings' }), h('span', { class: 'fault-applied' }),
      h('button', { class: 'button', type: 'button', 'aria-label': `Remove ${words(fault.kind)} from ${link.link}`, onclick: () => act(() => remove(`/v1/faults/${encodeURIComponent(link.link)}/${encodeURIComponent(fault.name)}`), `${words(fault.kind)} is removed from ${link.link}.`) }, 'Remove')),
    (row, fault) => {
      text(row.children[2], Object.entries(fault.settings ?? {}).filter(([, value]) => value !== null).map(([name, value]) => `${words(name)} ${inline(value)}`).join(', '));
      text(row.children[3], `struck ${count(fault.applied)} times`);
    });
  }

  return {
    root,
    show: (_, changed) => changed && load(),
    update() {
      if (Date.now() - loadedAt > AGAIN_MS && !box.hasAttribute('aria-busy')) {
        loadedAt = Date.now();
        load();
      }
    },
  };
}
