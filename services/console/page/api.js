// The console's API: every request of the page goes through here.

/** An answer that is not the one wanted; status 0: there was none. */
export class Problem extends Error {
  /** @param {number} status @param {any} body */
  constructor(status, body) {
    super(body?.detail || body?.title || `The console answered ${status}.`);
    this.status = status;
    this.body = body ?? {};
    this.slug = String(this.body.type ?? '').replace('urn:problem:', '');
    /** @type {{field: string, detail: string, line?: number}[]} */
    this.errors = Array.isArray(this.body.errors) ? this.body.errors : [];
  }
}

const PATIENCE_MS = 15_000;
let csrf = null;
let signedOut = () => {};

/** The token that shows that a change was asked for by this page. */
export function useToken(token) {
  csrf = token;
}

/** What to do when the session turns out to be over. */
export function onSignedOut(act) {
  signedOut = act;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {Record<string, string>} [more]  headers
 * @returns {Promise<{status: number, headers: Headers, body: any}>}  of any status
 */
export async function ask(method, path, body, more = {}) {
  const headers = { accept: 'application/json', ...more };
  if (method !== 'GET' && csrf) headers['x-csrf-token'] = csrf;
  if (body !== undefined) headers['content-type'] = 'application/json';
  const sent = body === undefined ? undefined : JSON.stringify(body);
  let answer;
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    answer = await fetch(path, { method, headers, body: sent, credentials: 'same-origin', cache: 'no-store', signal });
  } catch {
    throw new Problem(0, { title: 'No answer', detail: 'The console does not answer. Whether this was done is not known.' });
  }
  if (answer.status === 401 && path !== '/v1/session') signedOut();
  return { status: answer.status, headers: answer.headers, body: await readJson(answer) };
}

async function readJson(answer) {
  try {
    const said = await answer.text();
    return said ? JSON.parse(said) : null;
  } catch {
    return null;
  }
}

/** The body of a good answer. @throws {Problem} of any other */
async function good(method, path, body) {
  const answer = await ask(method, path, body);
  if (answer.status >= 400) throw new Problem(answer.status, answer.body);
  return answer.body;
}

export const get = (path) => good('GET', path);
export const post = (path, body = {}) => good('POST', path, body);
export const remove = (path) => good('DELETE', path);

/** `/v1/orders` with what is set of `{status, user_id}`. */
export function withQuery(path, query) {
  const set = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  return set.length ? `${path}?${new URLSearchParams(set)}` : path;
}

/** What went wrong, in a sentence. */
export function explain(error) {
  if (!(error instanceof Problem)) return 'Something went wrong in the page itself; loading it again may help.';
  const { mechanism, retry_after_ms: wait } = error.body;
  const parts = [error.message.replace(/\.?$/, '.')];
  if (mechanism) parts.push(`Refused by ${mechanism}.`);
  if (wait) parts.push(`Try again in ${Math.ceil(wait / 1000)} s.`);
  return parts.join(' ');
}
