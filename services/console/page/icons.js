// The signs of the console. States have shapes of their own, so that none is told by its colour alone.

import { s } from './dom.js';

// On a field of 16 × 16; what begins with `!` is filled, the rest is drawn as a line.
const SHAPES = {
  ok: ['!M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Zm3.6 5.3-4.2 4.6a.8.8 0 0 1-1.1 0L4.4 9a.8.8 0 1 1 1.1-1.1l1.3 1.3 3.6-4a.8.8 0 0 1 1.2 1.1Z'],
  open: ['!M5 1h6l4 4v6l-4 4H5l-4-4V5l4-4Zm-.5 6.1v1.8h7V7.1h-7Z'],
  bad: ['!M5 1h6l4 4v6l-4 4H5l-4-4V5l4-4Zm2.1 2.9v5h1.8v-5H7.1Zm0 6.4v1.8h1.8v-1.8H7.1Z'],
  warn: ['!M8 1.2 15.5 14.6H.5L8 1.2Zm-.9 4.6v4.4h1.8V5.8H7.1Zm0 5.4V13h1.8v-1.8H7.1Z'],
  half: ['M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8Z', '!M8 1.8a6.2 6.2 0 0 1 0 12.4V1.8Z'],
  ramp: ['!M1.5 11h3v3.5h-3V11Zm5-4h3v7.5h-3V7Zm5-5.5h3v13h-3v-13Z'],
  wait: ['M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8Z', 'M8 4.6V8l2.4 1.6'],
  off: ['M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3Z'],
  fault: ['!M9.5.8 2.8 9h4.1l-.9 6.2L13.2 7H8.8L9.5.8Z'],
  map: ['M2 8h3.4m5.2 0H14M8 5.4a2.6 2.6 0 1 0 0 5.2 2.6 2.6 0 0 0 0-5.2Z', 'M9.6 5.8 13 3m-3.4 7.2L13 13'],
  orders: ['M3 2.2h10v11.6l-2-1.4-1.6 1.4L8 12.4l-1.4 1.4L5 12.4l-2 1.4V2.2Z', 'M5.6 5.6h4.8m-4.8 3h4.8'],
  rules: ['M5.8 3 2 8l3.8 5m4.4-10L14 8l-3.8 5'],
  switches: ['M5 3.6h6a4.4 4.4 0 0 1 0 8.8H5a4.4 4.4 0 0 1 0-8.8Z', '!M11 5.6a2.4 2.4 0 1 1 0 4.8 2.4 2.4 0 0 1 0-4.8Z'],
  reviews: ['M2.2 9.2 4 2.8h8l1.8 6.4v4H2.2v-4Zm0 0h3.4l1 1.8h2.8l1-1.8h3.4'],
  faults: ['M9.4 1.6 3.2 9h4l-.7 5.4L12.8 7H8.6l.8-5.4Z'],
  auto: ['M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8Z', '!M8 1.8a6.2 6.2 0 0 0 0 12.4V1.8Z'],
  light: ['M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6Z', 'M8 1v1.6m0 10.8V15m7-7h-1.6M2.6 8H1m12-5-1.2 1.2M4.2 11.8 3 13m10 0-1.2-1.2M4.2 4.2 3 3'],
  dark: ['M13.6 9.6A6 6 0 0 1 6.4 2.4a6 6 0 1 0 7.2 7.2Z'],
  plus: ['M8 3v10M3 8h10'],
  close: ['m4 4 8 8m0-8-8 8'],
  back: ['M6 3.4 2.6 6.8 6 10.2', 'M2.8 6.8h6.4a3.6 3.6 0 0 1 0 7.2H6.4'],
  arrow: ['M2.6 8h10.6M9.4 4.2 13.2 8l-3.8 3.8'],
};

/** A sign beside a word; by itself it says nothing to a screen reader. */
export function icon(name, extra = '') {
  const shape = (path) =>
    path.startsWith('!') ? s('path', { d: path.slice(1), fill: 'currentColor', 'fill-rule': 'evenodd' })
      : s('path', { d: path, fill: 'none', stroke: 'currentColor', 'stroke-width': 1.5, 'stroke-linecap': 'round', 'stroke-linejoin': 'round' });
  const shapes = (SHAPES[name] ?? SHAPES.off).map(shape);
  return s('svg', { class: `icon ${extra}`.trim(), viewBox: '0 0 16 16', width: 16, height: 16, 'aria-hidden': 'true', 'data-icon': name }, shapes);
}
