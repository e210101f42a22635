// Trends of the last minutes, drawn as lines.

import { attr, h, s, text } from './dom.js';
import { REACH } from './live.js';

const WIDTH = 120;
const HEIGHT = 28;

/**
 * The points of a line over the last minutes, newest at the right edge.
 * @param {[number, number][]} points  [seconds ago, value]
 */
function line(points, top) {
  const x = (ago) => (WIDTH * (1 - Math.min(ago, REACH) / REACH)).toFixed(1);
  const y = (value) => (HEIGHT - 2 - (HEIGHT - 5) * Math.min(1, value / top)).toFixed(1);
  return points.map(([ago, value]) => `${x(ago)} ${y(value)}`);
}

/** A line without axes; the number beside it says how much. */
export function sparkline(className = '') {
  const area = s('path', { class: 'spark-area' });
  const stroke = s('path', { class: 'spark-line', fill: 'none' });
  const element = s('svg', { class: `spark ${className}`.trim(), viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' }, area, stroke);
  element.set = (points) => {
    const top = Math.max(1e-9, ...points.map(([, value]) => value));
    const steps = line(points, top);
    if (steps.length < 2) return;
    const first = steps[0].split(' ')[0];
    const last = steps.at(-1).split(' ')[0];
    attr(stroke, 'd', `M${steps.join('L')}`);
    attr(area, 'd', `M${first} ${HEIGHT}L${steps.join('L')}L${last} ${HEIGHT}Z`);
  };
  return element;
}

/** A trend with its name, what it is now, and its highest in the time that is drawn. */
export function trend(label, format, level) {
  const value = h('span', { class: 'trend-now' });
  const peak = h('span', { class: 'muted' });
  const drawing = sparkline(`is-${level}`);
  const element = h('div', { class: 'trend' },
    h('p', { class: 'trend-head' }, h('span', { class: 'trend-label' }, label), value), drawing, h('p', { class: 'trend-foot' }, h('span', { class: 'muted' }, 'last 5 min'), peak));
  element.set = (points) => {
    text(value, points.length ? format(points.at(-1)[1]) : format(null));
    text(peak, points.length ? `peak ${format(Math.max(...points.map((point) => point[1])))}` : '');
    drawing.set(points);
  };
  return element;
}
