// Dialogs that ask before something is done, and stay open, with what was typed, when it could not be.

import { explain } from './api.js';
import { freshId, h, put } from './dom.js';

export const REASON_LIMIT = 200;

/**
 * @param {{title: string, body?: any, fields?: HTMLElement[], confirm: string, danger?: boolean,
 *   act: (values: FormData) => Promise<any>}} question
 * @returns {Promise<any>}  what `act` gave, or undefined when it was called off
 */
export function ask({ title, body, fields = [], confirm, danger = false, act }) {
  return new Promise((settle) => {
    const name = freshId('dialog');
    const trouble = h('p', { class: 'note is-bad', role: 'alert', hidden: true });
    const go = h('button', { class: `button ${danger ? 'is-danger' : 'is-primary'}`, type: 'submit' }, confirm);
    const cancel = h('button', { class: 'button', type: 'button', onclick: () => dialog.close() }, 'Cancel');
    const form = h('form', { onsubmit: submit, novalidate: true }, h('h2', { id: name }, title), body, fields, trouble,
      h('div', { class: 'dialog-actions' }, cancel, go));
    const dialog = h('dialog', { class: 'dialog', 'aria-labelledby': name }, form);
    let given;

    async function submit(event) {
      event.preventDefault();
      const bad = firstInvalid(form);
      if (bad) return;
      go.disabled = true;
      trouble.hidden = true;
      try {
        given = await act(new FormData(form)) ?? true;
        dialog.close();
      } catch (error) {
        put(trouble, explain(error), error.errors?.length ? h('ul', null, error.errors.map((item) => h('li', null, `${item.field}: ${item.detail}`))) : null);
        trouble.hidden = false;
        if (error.status === 401) dialog.close();
      } finally {
        go.disabled = false;
      }
    }

    dialog.addEventListener('close', () => {
      dialog.remove();
      settle(given);
    });
    document.body.append(dialog);
    dialog.showModal();
    (form.querySelector('[data-first], input, select, textarea') ?? cancel).focus();
  });
}

/** Marks what is missing, says so beside it, and goes to the first. */
export function firstInvalid(form) {
  let first = null;
  for (const input of form.querySelectorAll('input, select, textarea')) {
    const bad = !input.validity.valid;
    const told = input.closest('.field')?.querySelector('.field-error');
    if (told) {
      told.textContent = bad ? input.dataset.missing ?? input.validationMessage : '';
      input.setAttribute('aria-invalid', String(bad));
    }
    if (bad) first ??= input;
  }
  first?.focus();
  return first;
}

/** A field with its label and a place for what is wrong with it. */
export function field(label, input, hint = null) {
  const error = freshId('error');
  input.setAttribute('aria-describedby', error);
  return h('label', { class: 'field' }, h('span', null, label, hint ? h('small', null, ` ${hint}`) : null), input, h('span', { class: 'field-error', id: error }));
}

/** Why: kept in the history, so it is asked for every time. */
export function reasonField(value = '') {
  const input = h('input', { name: 'reason', required: true, maxlength: REASON_LIMIT, autocomplete: 'off', pattern: '.*\\S.*', 'data-missing': 'A reason is needed: it is kept in the history.', 'data-first': true, value });
  return field('Reason', input, 'kept in the history');
}

export const reasonIn = (values) => String(values.get('reason') ?? '').trim();
