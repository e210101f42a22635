// One sentence that says how the system is, out of one snapshot. Pure: the same snapshot, the same words.

import { age, count, millis, plural, rate, words } from './format.js';
import { joined } from './hops.js';

/** Below this, a refusal now and then is what limits are for. */
const REFUSING = 0.05;
const MOST_PARTS = 3;

/**
 * @param {any} snapshot
 * @returns {{level: 'ok'|'wait'|'warn'|'bad', text: string, kinds: string}}  `kinds` changes only when the news does
 */
export function headline(snapshot) {
  if (!snapshot) return { level: 'wait', text: 'Waiting for the first reading', kinds: 'none' };
  if (snapshot.warming_up) return { level: 'wait', text: 'Warming up: rates need a few seconds of readings', kinds: 'warming' };
  const parts = [...gone(snapshot), ...breakers(snapshot), ...waiting(snapshot), ...degraded(snapshot), ...refusing(snapshot), ...attention(snapshot)];
  if (!parts.length) return { level: 'ok', text: 'All well', kinds: 'ok' };
  const order = ['bad', 'warn', 'wait'];
  parts.sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
  const said = chosen(parts);
  const more = parts.length - said.length;
  const sentence = said.map((part) => part.text).join(', ') + (more > 0 ? `, and ${more} more` : '');
  return { level: parts[0].level, text: sentence, kinds: parts.map((part) => part.kind).join(' ') };
}

/** The worst first; who waits is always among them. */
function chosen(parts) {
  const waits = parts.findIndex((part) => part.kind === 'waiting');
  if (waits < MOST_PARTS) return parts.slice(0, MOST_PARTS);
  return [...parts.slice(0, MOST_PARTS - 1), parts[waits]];
}

function gone(snapshot) {
  const byService = Map.groupBy(snapshot.services ?? [], (instance) => instance.service);
  return [...byService].flatMap(([service, instances]) => {
    const down = instances.filter((instance) => instance.state !== 'up');
    if (!down.length) return [];
    const state = down.some((instance) => instance.state === 'unreachable') ? 'unreachable' : 'not ready';
    const whole = down.length === instances.length;
    const which = whole ? state : `${down.length} of ${instances.length} ${state}`;
    return [{ service, level: whole ? 'bad' : 'warn', kind: `gone:${service}:${which}`, text: `${service}: ${which}` }];
  });
}

function breakers(snapshot) {
  const dead = new Set(gone(snapshot).filter((part) => part.level === 'bad').map((part) => part.service));
  return joined(snapshot.hops).flatMap((hop) => {
    // That nobody calls what is not there is no further news.
    if (dead.has(hop.to)) return [];
    if (hop.breaker === 'open') return [{ level: 'bad', kind: `open:${hop.key}`, text: `${hop.to}: breaker open` }];
    if (hop.breaker === 'half_open') return [{ level: 'warn', kind: `half:${hop.key}`, text: `${hop.to}: breaker half open, probing` }];
    if (hop.breaker === 'ramping') {
      return [{ level: 'warn', kind: `ramp:${hop.key}:${hop.ramp}`, text: `${hop.to}: coming back, ${hop.ramp ?? '?'} % let through` }];
    }
    return [];
  });
}

function waiting(snapshot) {
  const { count: orders, oldest_seconds: oldest } = snapshot.pending ?? {};
  if (!orders) return [];
  const text = `${plural(orders, 'order waits', 'orders wait')}${oldest === null ? '' : `, oldest ${age(oldest)}`}`;
  return [{ level: 'wait', kind: 'waiting', text }];
}

/** Switched to less, or giving less by itself. */
export function degradedFeatures(snapshot) {
  return (snapshot.degraded ?? []).filter((item) => !item.normal || item.hit_rate > 0);
}

function degraded(snapshot) {
  return degradedFeatures(snapshot).map((item) => ({
    level: 'warn',
    kind: `degraded:${item.feature}:${item.level}`,
    text: item.normal ? `${words(item.feature)} degraded` : `${words(item.feature)} switched to ${words(item.level)}`,
  }));
}

function refusing(snapshot) {
  const all = (snapshot.refused ?? []).filter((item) => item.rate >= REFUSING).sort((a, b) => b.rate - a.rate);
  if (!all.length) return [];
  const total = all.reduce((sum, item) => sum + item.rate, 0);
  return [{ level: 'warn', kind: `refusing:${all[0].mechanism}`, text: `refusing ${rate(total)}, most by ${all[0].mechanism}` }];
}

function attention(snapshot) {
  const parts = [];
  if (snapshot.reviews) parts.push({ level: 'warn', kind: 'reviews', text: `${plural(snapshot.reviews, 'thing needs', 'things need')} review` });
  if (snapshot.dead_letters) parts.push({ level: 'warn', kind: 'dead', text: plural(snapshot.dead_letters, 'dead letter') });
  const faults = joined(snapshot.hops).filter((hop) => hop.faults.length);
  if (faults.length) parts.push({ level: 'warn', kind: 'faults', text: `${plural(faults.length, 'link')} with a fault injected` });
  return parts;
}

/** The four readings beside the headline: what is healthy, refused, degraded, and waits. */
export function readings(snapshot) {
  const instances = snapshot.services ?? [];
  const up = instances.filter((instance) => instance.state === 'up').length;
  const troubled = joined(snapshot.hops).filter((hop) => hop.breaker && hop.breaker !== 'closed');
  const refused = (snapshot.refused ?? []).filter((item) => item.rate > 0).sort((a, b) => b.rate - a.rate);
  const total = refused.reduce((sum, item) => sum + item.rate, 0);
  const less = degradedFeatures(snapshot);
  const { count: orders = 0, oldest_seconds: oldest = null } = snapshot.pending ?? {};
  const aside = (snapshot.reviews ?? 0) + (snapshot.dead_letters ?? 0);
  const slowest = Math.max(0, ...instances.filter((one) => one.service === 'order').map((one) => one.p99_ms ?? 0));
  return {
    healthy: {
      level: up < instances.length || troubled.some((hop) => hop.breaker === 'open') ? 'bad' : troubled.length ? 'warn' : 'ok',
      value: `${up} of ${instances.length} up`,
      detail: troubled.length ? `${plural(troubled.length, 'breaker')} not closed` : `p99 of order ${millis(slowest)}`,
    },
    refused: {
      level: total >= REFUSING ? 'warn' : 'ok',
      value: rate(total),
      detail: refused.length ? refused[0].mechanism : 'nothing refused',
    },
    degraded: {
      level: less.length ? 'warn' : 'ok',
      value: less.length ? plural(less.length, 'feature') : 'None',
      detail: less.length ? less.map((item) => words(item.feature)).join(', ') : 'all features whole',
    },
    waiting: {
      level: orders || aside ? 'wait' : 'ok',
      value: plural(orders, 'order'),
      detail: [orders && oldest !== null ? `oldest ${age(oldest)}` : null, aside ? `${count(aside)} to look at` : null].filter(Boolean).join(', ') || 'nothing waits',
    },
  };
}
