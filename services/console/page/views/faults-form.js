// The form for a fault: its settings are those of its kind, as the API lists them.

import { explain } from '../api.js';
import { h, put } from '../dom.js';
import { words } from '../format.js';
import { field, firstInvalid } from '../dialog.js';

const ABOUT = {
  latency: 'Answers come later.',
  refuse: 'Connections are refused.',
  reset: 'Connections break off.',
  hang: 'Nothing ever answers.',
  http_status: 'Answers with a status of its own.',
  lose_reply: 'The request arrives and its answer is lost.',
  duplicate: 'Every request arrives twice.',
  bandwidth: 'Bytes trickle.',
  bottleneck: 'So many at a time, the rest stands in line.',
};

/** @param {(fault: {link: string, kind: string, settings: Record<string, unknown>}) => Promise<void>} inject */
export function faultForm(inject) {
  const link = h('select', { name: 'link', onchange: drawKinds });
  const kind = h('select', { name: 'kind', onchange: drawSettings });
  const about = h('p', { class: 'muted' });
  const settings = h('div', { class: 'settings' });
  const trouble = h('p', { class: 'note is-bad', role: 'alert', hidden: true });
  const go = h('button', { class: 'button is-primary', type: 'submit' }, 'Put it in');
  const root = h('form', { class: 'inject', novalidate: true, 'aria-label': 'Put in a fault', onsubmit: submit },
    field('Link', link), field('Kind', kind), about, settings, trouble, h('div', { class: 'form-actions' }, go));
  let kinds = [];
  let links = [];

  /** What fits the protocol of the link; the kind that was chosen stays if it does. */
  function drawKinds() {
    const protocol = links.find((one) => one.link === link.value)?.protocol;
    const before = kind.value;
    const fitting = kinds.filter((one) => !one.protocols || !protocol || one.protocols.includes(protocol));
    put(kind, fitting.map((one) => h('option', { value: one.kind }, words(one.kind))));
    if (fitting.some((one) => one.kind === before)) kind.value = before;
    drawSettings();
  }

  function drawSettings() {
    const chosen = kinds.find((one) => one.kind === kind.value);
    about.textContent = ABOUT[kind.value] ?? '';
    put(settings, (chosen?.settings ?? []).map((setting) => field(nameOf(setting), input(setting), setting.unit ?? null)));
  }

  async function submit(event) {
    event.preventDefault();
    trouble.hidden = true;
    if (firstInvalid(root)) return;
    go.disabled = true;
    try {
      const given = {};
      for (const element of settings.querySelectorAll('[data-setting]')) {
        if (element.value !== '') given[element.dataset.setting] = element.type === 'number' ? Number(element.value) : element.value;
      }
      await inject({ link: link.value, kind: kind.value, settings: given });
    } catch (error) {
      put(trouble, explain(error));
      trouble.hidden = false;
    } finally {
      go.disabled = false;
    }
  }

  return {
    root,
    /** Built once: a choice that is being made is not taken away. */
    update(data) {
      if (kinds.length) return;
      ({ kinds, links } = data);
      put(link, data.links.map((one) => h('option', { value: one.link }, one.link.replace('->', ' → '))));
      if (data.links.some((one) => one.link === 'order->payment')) link.value = 'order->payment';
      drawKinds();
    },
  };
}

/** `latency_ms`, whose unit stands beside it, is a latency. */
const nameOf = ({ name, unit }) => words(unit && name.endsWith(`_${unit}`) ? name.slice(0, -unit.length - 1) : name);

function input(setting) {
  const common = { name: setting.name, 'data-setting': setting.name };
  if (setting.choices) return h('select', common, setting.choices.map((value) => h('option', { value }, words(value))));
  const step = setting.type === 'number' ? 'any' : 1;
  return h('input', { ...common, type: 'number', step, min: setting.min, max: setting.max, value: setting.default ?? '', placeholder: setting.default === null ? 'for good' : null });
}
