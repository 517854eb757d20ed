/** How the page sends requests to the server: JSON there, JSON or events back, with a key where one is needed. */

const KEY = "heedful-key";

/** The error that the server sends. */
export class Refused extends Error {
  /**
   * @param {number} status of HTTP
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The key of this tab; it is forgotten with it. */
export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (/** @type {string} */ value) => sessionStorage.setItem(KEY, value),
};

/**
 * @param {string} name the request, the last part of its path
 * @param {object} message
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function ask(name, message, signal) {
  return (await sent(`/v1/heedful/${name}`, message, signal)).json();
}

/** What is served. @returns {Promise<any>} */
export async function served() {
  return (await sent("/v1/heedful")).json();
}

/**
 * A file in another language.
 * @param {FormData} form
 * @param {AbortSignal} [signal]
 * @returns {Promise<string>} the path of the file on this server
 */
export async function translatedFile(form, signal) {
  const { translatedFileUrl } = await (await sent("/translate_file", form, signal)).json();
  return new URL(translatedFileUrl).pathname;
}

/**
 * An answer that grows.
 * @param {string} name
 * @param {object} message
 * @param {(content: any) => void} grown called with the content so far
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>} the whole answer
 */
export async function hear(name, message, grown, signal) {
  const answer = await sent(`/v1/heedful/${name}`, { ...message, stream: true }, signal);
  let record = null;
  for await (const { event, data } of events(answer)) {
    if (event === "growing") grown(data);
    if (event === "record") record = data;
    if (event === "error") throw new Refused(500, data.error.message);
  }
  if (!record) throw new Refused(0, "the answer was cut off; ask again");
  return record;
}

/**
 * Opens the page of what a model attends to, in a tab of its own.
 * @param {object} message
 */
export async function look(message) {
  const tab = window.open("", "_blank"); // at once, or browsers take it for an advertisement
  try {
    const { page } = await ask("inspect", { ...message, format: "link" });
    if (!tab) throw new Refused(0, "the browser blocked the new tab; allow this page to open tabs");
    tab.opener = null;
    tab.location.replace(new URL(page, location.href).href);
  } catch (error) {
    tab?.close();
    throw error;
  }
}

/**
 * @param {string} path
 * @param {object} [message] sent as JSON, unless it is a form
 * @param {AbortSignal} [signal]
 * @returns {Promise<Response>}
 */
async function sent(path, message, signal) {
  /** @type {Record<string, string>} */
  const headers = key.get() ? { Authorization: `Bearer ${key.get()}` } : {};
  const isForm = message instanceof FormData;
  if (message && !isForm) headers["Content-Type"] = "application/json";
  const body = isForm ? message : message && JSON.stringify(message);
  let answer;
  try {
    answer = await fetch(path, { method: message ? "POST" : "GET", headers, body, signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(0, "the server cannot be reached; is it still running?");
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, told.error?.message ?? told.error ?? `the server answered ${answer.status}`);
}

/**
 * Server-sent events of an answer.
 * @param {Response} answer
 * @returns {AsyncGenerator<{event: string, data: any}>}
 */
async function* events(answer) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
  const decoder = new TextDecoder();
  let waiting = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      waiting += decoder.decode(value, { stream: !done });
      const blocks = waiting.split("\n\n");
      waiting = blocks.pop() ?? "";
      for (const block of blocks) {
        const lines = block.split("\n");
        const of = (/** @type {string} */ field) => lines.find((line) => line.startsWith(`${field}: `))?.slice(field.length + 2) ?? "";
        yield { event: of("event"), data: JSON.parse(of("data")) };
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
