// Hops as they are shown: those of several instances of a caller joined into one, its worst state on top.

const RANK = { open: 4, half_open: 3, ramping: 2, closed: 1 };

/** How each state of a breaker is written and drawn. */
export const BREAKERS = {
  closed: { word: 'Closed', level: 'ok', icon: 'ok' },
  open: { word: 'Open', level: 'bad', icon: 'open' },
  half_open: { word: 'Half open', level: 'warn', icon: 'half' },
  ramping: { word: 'Ramping', level: 'warn', icon: 'ramp' },
};
const UNGUARDED = { word: 'No breaker', level: 'off', icon: 'off' };

const STORES = new Set(['postgres', 'redis', 'kafka']);
export const isStore = (name) => STORES.has(name);

/**
 * @param {any[]} hops  of a snapshot
 * @returns {any[]}  one for each (from, to), with `parts`, the hop of each instance
 */
export function joined(hops) {
  const groups = new Map();
  for (const hop of hops ?? []) {
    const key = `${hop.from}→${hop.to}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(hop);
  }
  return [...groups].map(([key, parts]) => join(key, parts));
}

function join(key, parts) {
  const worst = parts.reduce((a, b) => ((RANK[b.breaker] ?? 0) > (RANK[a.breaker] ?? 0) ? b : a));
  const numbers = (name) => parts.map((part) => part[name]).filter((value) => typeof value === 'number');
  const sum = (name) => { const all = numbers(name); return all.length ? all.reduce((a, b) => a + b) : null; };
  const max = (name) => { const all = numbers(name); return all.length ? Math.max(...all) : null; };
  const ramps = parts.filter((part) => part.breaker === 'ramping').map((part) => part.ramp_percent ?? 100);
  return {
    key,
    from: parts[0].from,
    to: parts[0].to,
    core: parts.some((part) => part.core),
    rate: sum('rate'),
    p99: max('p99_ms'),
    inFlight: sum('in_flight'),
    cap: sum('cap'),
    waiting: sum('waiting'),
    breaker: worst.breaker ?? null,
    inWorst: parts.filter((part) => part.breaker === worst.breaker).length,
    ramp: ramps.length ? Math.min(...ramps) : null,
    failure: max('failure_ratio'),
    opened: sum('opened_total'),
    retries: sum('retry_rate'),
    rejected: sum('rejected_rate'),
    faults: [...new Set(parts.flatMap((part) => part.faults ?? []))],
    parts,
  };
}

/** What its breaker does: word, level and icon; with the stage of a ramp, and in how many instances if not in all. */
export function breaker(hop) {
  const kind = BREAKERS[hop.breaker] ?? UNGUARDED;
  let word = kind.word;
  if (hop.breaker === 'ramping' && hop.ramp !== null) word = `Ramp ${hop.ramp} %`;
  if (hop.parts?.length > 1 && hop.inWorst < hop.parts.length) word += ` in ${hop.inWorst} of ${hop.parts.length}`;
  return { ...kind, word };
}
