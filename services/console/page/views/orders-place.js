// The form that places an order, as any user.

import { ask, explain, get, post, Problem } from '../api.js';
import { freshId, h, put } from '../dom.js';
import { money, words } from '../format.js';
import { field, firstInvalid } from '../dialog.js';
import { icon } from '../icons.js';
import { note, panel } from '../parts.js';

const METHODS = [
  ['tok_approve', 'Approved'],
  ['tok_decline', 'Declined'],
  ['tok_lost_reply', 'Charged, and the answer is lost'],
  ['tok_lost_request', 'The request is lost'],
  ['tok_slow_1000', 'Slow by a second'],
  ['tok_error_500', 'The provider fails'],
];
const COUPONS = ['WELCOME10', 'FIVEOFF', 'ONCE20', 'EXPIRED5', 'SOLDOUT5'];
const MOST_ITEMS = 20;

/** @param {(id: string) => void} placed  called with the order that came of it */
export function placeForm(placed) {
  const products = h('datalist', { id: freshId('products') });
  const coupons = h('datalist', { id: freshId('coupons') }, COUPONS.map((code) => h('option', { value: code })));
  const items = h('ul', { class: 'place-items' });
  const answer = h('div', { class: 'place-answer', role: 'status' });
  const add = h('button', { class: 'button is-quiet', type: 'button', onclick: () => addItem(true) }, icon('plus'), 'Another product');
  const method = h('select', { name: 'payment_method' }, METHODS.map(([value, label]) => h('option', { value }, `${label} · ${value}`)));
  const go = h('button', { class: 'button is-primary', type: 'submit' }, 'Place order');
  const form = h('form', { class: 'place', novalidate: true, onsubmit: submit, 'aria-label': 'Place an order' },
    field('User', h('input', { name: 'user', value: 'ada', required: true, autocomplete: 'off', spellcheck: 'false', autocapitalize: 'none', 'data-missing': 'Whose order is it?' }), 'a name or an id'),
    h('fieldset', null, h('legend', null, 'Products'), items, add),
    h('div', { class: 'pair-fields' },
      field('Coupon', h('input', { name: 'coupon_code', list: coupons.id, autocomplete: 'off', spellcheck: 'false' }), 'optional'),
      field('Payment', method)),
    products, coupons, h('div', { class: 'form-actions' }, go), answer);
  const root = panel('Place an order', { class: 'place-panel' }, form);

  function addItem(focus) {
    if (items.childElementCount >= MOST_ITEMS) return;
    const sku = h('input', { name: 'sku', list: products.id, required: true, autocomplete: 'off', spellcheck: 'false', 'data-missing': 'Which product?' });
    if (!items.childElementCount) sku.value = products.firstElementChild?.value ?? 'TEA-EARLGREY-100';
    const quantity = h('input', { name: 'quantity', type: 'number', min: 1, max: 100, value: '1', required: true, 'data-missing': 'From 1 to 100.' });
    const drop = h('button', { class: 'button is-quiet is-icon', type: 'button', 'aria-label': 'Remove this product', onclick: () => { item.remove(); add.focus(); } }, icon('close'));
    const item = h('li', null, field('SKU', sku), field('Quantity', quantity), items.childElementCount ? drop : null);
    items.append(item);
    if (focus) sku.focus();
  }

  /** Until there is an answer the key stays, so that an order whose answer was lost is not placed twice. */
  let key = null;
  const renewKey = () => { key = globalThis.crypto?.randomUUID?.() ?? null; };
  renewKey();
  form.addEventListener('change', renewKey);

  async function submit(event) {
    event.preventDefault();
    if (firstInvalid(form)) return;
    go.disabled = true;
    put(answer, h('p', { class: 'muted' }, 'Placing …'));
    try {
      const said = await ask('POST', '/v1/orders', wish(new FormData(form)), key ? { 'idempotency-key': key } : {});
      renewKey();
      const status = Number(said.headers.get('x-order-status') ?? said.status);
      put(answer, told(status, said.body ?? {}));
      const id = said.body?.id ?? said.body?.order_id;
      if (id) placed(id);
    } catch (error) {
      put(answer, note('bad', explain(error)));
    } finally {
      go.disabled = false;
    }
  }

  addItem(false);
  let listed = false;
  return {
    root,
    async show() {
      if (listed) return;
      try {
        const list = await get('/v1/products?limit=100');
        listed = true;
        put(products, list.items.map((product) => h('option', { value: product.sku }, `${product.name}, ${money(product.unit_price_minor, product.currency)}`)));
      } catch {
        // Names are a help; a SKU can be typed without them.
      }
    },
  };
}

function wish(values) {
  const quantities = values.getAll('quantity');
  const coupon = values.get('coupon_code').trim();
  return {
    user: values.get('user').trim(),
    items: values.getAll('sku').map((sku, at) => ({ sku: sku.trim(), quantity: Number(quantities[at]) })),
    ...(coupon ? { coupon_code: coupon } : {}),
    payment_method: values.get('payment_method'),
  };
}

/** The answer as a client of the shop would have got it. */
function told(status, body) {
  if (status < 300) {
    const pending = status === 202;
    return note(pending ? 'wait' : 'ok', h('strong', null, `${status} ${words(body.status)}`), h('p', null, pending ? 'The payment is pending; the order is watched above.' : `${money(body.total_minor, body.currency)} for ${body.items?.length ?? 0} of our products.`));
  }
  const problem = new Problem(status, body);
  return note(status >= 500 ? 'bad' : 'warn', h('strong', null, `${status} ${body.title ?? 'refused'}`), h('p', null, explain(problem)),
    problem.errors.length ? h('ul', null, problem.errors.map((error) => h('li', null, `${error.field}: ${error.detail}`))) : null);
}
