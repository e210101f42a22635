// Who is signed in: the form, the session's token, and coming back to where one was when a session ends.

import { Problem, get, onSignedOut, post, remove, useToken } from './api.js';
import { explain } from './api.js';
import { firstInvalid } from './dialog.js';

let begun = () => {};
let ended = () => {};
let operator = null;

const element = (id) => document.getElementById(id);

/** @param {{begin: (operator: string) => void, end: () => void}} acts */
export async function begin(acts) {
  begun = acts.begin;
  ended = acts.end;
  onSignedOut(() => operator && over('Your session is over. Sign in again: what you typed is still there.'));
  element('login-form').addEventListener('submit', signIn);
  element('sign-out').addEventListener('click', signOut);
  await look();
}

/** Asks whether there is a session, at the start and when a stream is refused. */
export async function look() {
  try {
    enter(await get('/v1/session'));
  } catch (error) {
    if (error.status === 401 && operator) over('Your session is over. Sign in again: what you typed is still there.');
    else if (error.status === 401) show(null);
    else if (!operator) show(explain(error));
  }
}

function enter(session) {
  useToken(session.csrf);
  element('login').hidden = true;
  element('app').hidden = false;
  document.body.dataset.signedIn = 'yes';
  if (operator === session.operator) return;
  operator = session.operator;
  element('operator').textContent = session.operator;
  begun(session.operator);
}

function over(why) {
  operator = null;
  useToken(null);
  ended();
  for (const dialog of document.querySelectorAll('dialog[open]')) dialog.close();
  show(why);
}

/** The page behind the form stays as it is: nothing typed is lost. */
function show(why) {
  element('app').hidden = true;
  element('login').hidden = false;
  document.body.dataset.signedIn = 'no';
  const trouble = element('login-error');
  trouble.textContent = why ?? '';
  trouble.hidden = !why;
  document.title = 'Sign in · Order console';
  element('login-form').elements.namedItem('name').focus();
}

async function signIn(event) {
  event.preventDefault();
  const form = event.currentTarget;
  const trouble = element('login-error');
  if (firstInvalid(form)) {
    trouble.textContent = 'Name and password are both needed.';
    trouble.hidden = false;
    return;
  }
  const button = form.querySelector('button');
  button.disabled = true;
  try {
    const values = new FormData(form);
    enter(await post('/v1/session', { name: values.get('name'), password: values.get('password') }));
    trouble.hidden = true;
    form.reset();
  } catch (error) {
    const wrong = error instanceof Problem && error.status === 401;
    trouble.textContent = wrong ? 'Name and password do not belong together.' : explain(error);
    trouble.hidden = false;
    form.elements.namedItem('password').focus();
  } finally {
    button.disabled = false;
  }
}

async function signOut() {
  try {
    await remove('/v1/session');
  } catch {
    // The page forgets it in any case; on the server it ends by itself.
  }
  over(null);
}
