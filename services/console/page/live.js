// The stream of snapshots: the newest one, the last minutes, and whether what is shown is still true.

import { joined } from './hops.js';

/** Seconds that trends reach back. */
export const REACH = 300;
/** Snapshots come once a second; after this long without one the page says that it shows the past. */
const STALE_MS = 3_500;
const RETRY_MS = 2_000;

/**
 * @typedef {{at: number, arrivals: number, refused: number, p99: number, pending: number, hops: Map<string, number>}} Reading
 */

/** @type {{snapshot: any, seenAt: number|null, broken: boolean, readings: Reading[]}} */
const now = { snapshot: null, seenAt: null, broken: false, readings: [] };
const listeners = new Set();
let source = null;
let retry = null;
let watch = null;

export const latest = () => now.snapshot;

/** `connecting`, `live`, or `stale` with the moment since when. */
export function condition() {
  if (now.seenAt === null) return { state: now.broken ? 'unreachable' : 'connecting', since: null };
  // Not as soon as the stream ends: it does so every few minutes, and goes on at once.
  return { state: Date.now() - now.seenAt > STALE_MS ? 'stale' : 'live', since: now.seenAt };
}

/** @param {(snapshot: any) => void} listener  called for each snapshot, and each second while there is none */
export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const tell = () => listeners.forEach((listener) => listener(now.snapshot));

export function start() {
  stop();
  now.broken = false;
  open();
  watch = setInterval(() => { if (condition().state !== 'live') tell(); }, 1_000);
}

export function stop() {
  source?.close();
  source = null;
  clearTimeout(retry);
  clearInterval(watch);
}

function open() {
  source = new EventSource('/v1/events');
  source.addEventListener('snapshot', (event) => take(event.data));
  source.addEventListener('error', () => {
    now.broken = true;
    // A browser tries again by itself after a lost connection, but not after an answer that is no stream.
    if (source?.readyState === EventSource.CLOSED) {
      clearTimeout(retry);
      retry = setTimeout(reopen, RETRY_MS);
    }
    tell();
  });
}

function reopen() {
  if (!source) return;
  source.close();
  open();
  // Only a request can tell why a stream is refused.
  document.dispatchEvent(new CustomEvent('stream-refused'));
}

function take(data) {
  let snapshot;
  try {
    snapshot = JSON.parse(data);
  } catch {
    return;
  }
  now.snapshot = snapshot;
  now.seenAt = Date.now();
  now.broken = false;
  now.readings.push(read(snapshot));
  while (now.readings.length && now.readings[0].at < Date.now() - REACH * 1_000) now.readings.shift();
  tell();
}

/** @returns {Reading} */
function read(snapshot) {
  const orders = (snapshot.services ?? []).filter((instance) => instance.service === 'order');
  const sum = (list, value) => list.reduce((total, item) => total + (value(item) ?? 0), 0);
  return {
    at: Date.now(),
    arrivals: sum(orders, (instance) => instance.rate),
    refused: sum(snapshot.refused ?? [], (item) => item.rate),
    p99: Math.max(0, ...orders.map((instance) => instance.p99_ms ?? 0)),
    pending: snapshot.pending?.count ?? 0,
    hops: new Map(joined(snapshot.hops).map((hop) => [hop.key, hop.rate ?? 0])),
  };
}

/**
 * The last minutes of a value: [seconds ago, value], oldest first.
 * @param {(reading: Reading) => number} value
 * @returns {[number, number][]}
 */
export function series(value) {
  const end = Date.now();
  return now.readings.map((reading) => [(end - reading.at) / 1_000, value(reading) ?? 0]);
}
