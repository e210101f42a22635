// Building and changing the page. All text from data goes through text nodes: nothing here reads markup.

const SVG = 'http://www.w3.org/2000/svg';

/**
 * An element: `h('p', {class: 'note', onclick: act, 'data-id': 7}, 'text', child, [more], null)`.
 * @param {string} tag
 * @param {Record<string, unknown>|null} [props]  attributes; functions are listeners; null and false leave one out
 * @param {...unknown} children
 * @returns {HTMLElement}
 */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. @returns {SVGElement} */
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name.slice(2), value);
    else if (name === 'value') element.value = value;
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

/** Replaces what is in an element. */
export function put(element, ...children) {
  const fresh = document.createDocumentFragment();
  append(fresh, children);
  element.replaceChildren(fresh);
  return element;
}

/** Touches the page only where something is different, so that a reader's place and selection stay. */
export function text(element, value) {
  const said = String(value);
  if (element.textContent !== said) element.textContent = said;
}

/** Sets, or with null removes, an attribute; only if that changes it. */
export function attr(element, name, value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, String(value));
  }
}

/**
 * Makes the children of `parent` those of `items`, keeping elements by key: focus and selection survive an update.
 * @param {Element} parent
 * @param {any[]} items
 * @param {(item: any) => string} keyOf
 * @param {(item: any) => Element} create
 * @param {(element: any, item: any) => void} [update]  called for new ones too
 */
export function keyed(parent, items, keyOf, create, update = () => {}) {
  const old = new Map();
  for (const child of [...parent.children]) {
    if (child.dataset?.key === undefined || old.has(child.dataset.key)) child.remove();
    else old.set(child.dataset.key, child);
  }
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let element = old.get(key);
    old.delete(key);
    if (!element) {
      element = create(item);
      element.dataset.key = key;
    }
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
    update(element, item);
  }
  for (const gone of old.values()) gone.remove();
}

let lastId = 0;
/** An id that no other element has. */
export const freshId = (name) => `${name}-${(lastId += 1)}`;
