// How numbers, times and money are written. One way for each, everywhere.

const NARROW = '\u202f';
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat('en', { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });

export const NONE = '–';
const missing = (value) => value === null || value === undefined || Number.isNaN(value);

export const count = (value) => (missing(value) ? NONE : whole.format(value));

/** A number of things a second. */
export function rate(value) {
  if (missing(value)) return NONE;
  if (value === 0) return '0/s';
  if (value < 0.1) return '<0.1/s';
  return `${value < 100 ? tenth.format(value) : whole.format(value)}/s`;
}

export function millis(value) {
  if (missing(value)) return NONE;
  if (value < 1) return `<1${NARROW}ms`;
  if (value < 1000) return `${whole.format(value)}${NARROW}ms`;
  return `${(value / 1000).toFixed(value < 10_000 ? 2 : 1)}${NARROW}s`;
}

/** How long something has lasted: the two largest units. */
export function age(seconds) {
  if (missing(seconds)) return NONE;
  const total = Math.max(0, Math.floor(seconds));
  const parts = [[86_400, 'd'], [3_600, 'h'], [60, 'min'], [1, 's']];
  const first = parts.findIndex(([size]) => total >= size);
  if (first < 0) return `0${NARROW}s`;
  const [size, unit] = parts[first];
  const next = parts[first + 1];
  const rest = next ? Math.floor((total % size) / next[0]) : 0;
  const head = `${Math.floor(total / size)}${NARROW}${unit}`;
  return rest > 0 ? `${head} ${rest}${NARROW}${next[1]}` : head;
}

export function percent(ratio) {
  if (missing(ratio)) return NONE;
  const value = ratio * 100;
  return `${value > 0 && value < 1 ? '<1' : whole.format(value)}${NARROW}%`;
}

export function bytes(value) {
  return missing(value) ? NONE : `${whole.format(value / 1_048_576)}${NARROW}MiB`;
}

export function money(minor, currency) {
  if (missing(minor)) return NONE;
  try {
    return new Intl.NumberFormat('en', { style: 'currency', currency }).format(minor / 100);
  } catch {
    return `${(minor / 100).toFixed(2)} ${currency ?? ''}`.trim();
  }
}

/** A time of today as a clock shows it; of another day with the day. */
export function time(value) {
  const at = new Date(value);
  if (missing(value) || Number.isNaN(at.getTime())) return NONE;
  const today = at.toDateString() === new Date().toDateString();
  return today ? clock.format(at) : `${day.format(at)} ${clock.format(at)}`;
}

/** The end of an id, which is what differs: ids of one moment begin alike. */
export const shortId = (id) => (id && id.length > 12 ? `…${id.slice(-8)}` : id ?? NONE);

/** `payment_in_flight` as it is read. */
export const words = (name) => String(name ?? NONE).replaceAll('_', ' ');

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** A value out of JSON, in one line. */
export function inline(value) {
  if (value === null || value === undefined) return NONE;
  return typeof value === 'string' ? value : JSON.stringify(value);
}
