// The cards of the map: a service with its instances, and a hop with what governs it.

import { attr, h, keyed, text } from '../dom.js';
import { count, millis, rate, words } from '../format.js';
import { breaker } from '../hops.js';
import { icon } from '../icons.js';
import { chip, meter, setChip } from '../parts.js';

/** What is called but not ours: no instance of it reports. */
const OUTSIDE = { provider: 'Payment provider, primary', 'provider-backup': 'Payment provider, backup' };

const number = (label) => {
  const value = h('dd', null);
  return { value, element: h('div', null, h('dt', null, label), value) };
};

export function serviceCard(name) {
  const outside = OUTSIDE[name];
  const card = h('article', { class: `node${outside ? ' is-outside' : ''}`, 'data-node': name },
    h('header', null, h('h3', null, words(name.replace('-', ' ')))));
  if (outside) {
    card.append(h('p', { class: 'muted' }, outside));
    return card;
  }
  const parts = {
    state: chip('off', 'not seen'),
    dots: h('ul', { class: 'instances', 'aria-label': `Instances of ${name}` }),
    rate: number('rate'),
    p99: number('p99'),
    refused: number('refused'),
    errors: number('errors'),
    meter: meter(`In flight at ${name}`),
    load: h('span', { class: 'meter-text' }),
  };
  card.parts = parts;
  card.firstChild.append(parts.state);
  card.append(
    h('dl', { class: 'numbers' }, parts.rate.element, parts.p99.element, parts.refused.element, parts.errors.element),
    h('div', { class: 'meter-row' }, parts.meter, parts.load),
    parts.dots);
  return card;
}

const STATES = {
  up: ['ok', 'up', 'ok'],
  not_ready: ['warn', 'not ready', 'warn'],
  unreachable: ['bad', 'unreachable', 'bad'],
};

export function updateService(card, instances) {
  const { parts } = card;
  if (!parts) return;
  const sum = (name) => instances.reduce((total, one) => total + (one[name] ?? 0), 0);
  const alive = instances.filter((one) => one.state === 'up');
  const worst = instances.find((one) => one.state === 'unreachable') ?? instances.find((one) => one.state !== 'up');
  const [level, word, sign] = STATES[worst?.state ?? (instances.length ? 'up' : '')] ?? ['off', 'not seen', 'off'];
  setChip(parts.state, level, instances.length > 1 ? `${alive.length} of ${instances.length} up` : word, sign);
  attr(card, 'data-state', worst?.state ?? 'up');
  text(parts.rate.value, rate(sum('rate')));
  text(parts.p99.value, millis(alive.length ? Math.max(...alive.map((one) => one.p99_ms ?? 0)) : null));
  text(parts.refused.value, rate(sum('refused_rate')));
  text(parts.errors.value, rate(sum('error_rate')));
  attr(parts.refused.value, 'data-level', sum('refused_rate') > 0 ? 'warn' : null);
  attr(parts.errors.value, 'data-level', sum('error_rate') > 0 ? 'bad' : null);
  const cap = instances.some((one) => one.in_flight_cap) ? sum('in_flight_cap') : null;
  parts.meter.set(sum('in_flight'), cap);
  text(parts.load, `${count(sum('in_flight'))} of ${count(cap)} in flight`);
  parts.dots.hidden = instances.length < 2;
  keyed(parts.dots, instances, (one) => one.instance, () => h('li', null, chip('off', '')), (element, one) => {
    const [its, said, shape] = STATES[one.state] ?? STATES.unreachable;
    setChip(element.firstChild, its, `${one.instance}${one.state === 'up' ? '' : ` ${said}`}`, shape);
    attr(element, 'title', one.reason);
  });
}

export function hopCard(hop) {
  const parts = {
    state: chip('off', ''),
    rate: number('rate'),
    p99: number('p99'),
    failures: number('failing'),
    meter: meter(`In flight from ${hop.from} to ${hop.to}`),
    load: h('span', { class: 'meter-text' }),
    ramp: h('ol', { class: 'ramp', hidden: true, 'aria-label': 'Stage of the ramp' }),
    faults: h('p', { class: 'faults', hidden: true }, icon('fault'), h('span', null)),
  };
  const card = h('article', { class: 'hop', 'data-hop': hop.key },
    h('header', null,
      h('h3', null, h('span', { class: 'hop-from' }, hop.from), icon('arrow'), h('span', null, hop.to)),
      parts.state),
    h('dl', { class: 'numbers' }, parts.rate.element, parts.p99.element, parts.failures.element),
    parts.ramp,
    h('div', { class: 'meter-row' }, parts.meter, parts.load),
    parts.faults);
  card.parts = parts;
  return card;
}

const STAGES = [10, 30, 100];

export function updateHop(card, hop) {
  const { parts } = card;
  const state = breaker(hop);
  setChip(parts.state, state.level, state.word, state.icon);
  attr(card, 'data-breaker', hop.breaker ?? 'none');
  attr(card, 'data-ramp', hop.ramp);
  text(parts.rate.value, rate(hop.rate));
  text(parts.p99.value, millis(hop.p99));
  text(parts.failures.value, hop.failure === null ? '–' : `${Math.round(hop.failure * 100)} %`);
  attr(parts.failures.value, 'data-level', hop.failure > 0.3 ? 'bad' : hop.failure > 0.05 ? 'warn' : null);
  parts.meter.set(hop.inFlight, hop.cap);
  const waiting = hop.waiting ? `, ${count(hop.waiting)} wait` : '';
  text(parts.load, `${count(hop.inFlight)} of ${count(hop.cap)} in flight${waiting}`);
  parts.ramp.hidden = hop.ramp === null;
  if (hop.ramp !== null) drawRamp(parts.ramp, hop.ramp);
  parts.faults.hidden = !hop.faults.length;
  text(parts.faults.lastChild, `injected: ${hop.faults.map((name) => words(name.replace(/-\d+$/, ''))).join(', ')}`);
}

/** 10 → 30 → 100 %, or the stages that a rule has set instead. */
function drawRamp(root, now) {
  const stages = STAGES.includes(now) ? STAGES : [...STAGES.filter((stage) => stage < now), now, 100];
  keyed(root, [...new Set(stages)], (stage) => stage, (stage) => h('li', null, `${stage} %`),
    (element, stage) => {
      attr(element, 'aria-current', stage === now ? 'step' : null);
      attr(element, 'data-done', stage <= now);
    });
}
