/** Send requests to the server, with an API key if it needs one, and define the types of its answers. */

/** @typedef {{name: string, does: string[], ways?: [source: string | null, target: string | null][], languages?: Record<string, string>, takes?: string}} ServedModel */
/**
 * What the server offers.
 * @typedef {object} ServerInfo
 * @property {ServedModel[]} models
 * @property {string[]} indices
 * @property {Record<string, string[]>} orders in which each index can sort passages
 * @property {Record<string, number>} limits
 */
/** @typedef {{source: string[], target: string[], weights: number[][]}} TokenAlignment */
/**
 * @typedef {object} TranslationAnswer
 * @property {string} translation
 * @property {{text: string, score: number}[]} candidates best first
 * @property {TokenAlignment} [alignment]
 * @property {number} [confidence]
 * @property {string[]} [signs] warnings about the translation
 */
/** @typedef {{text: string, tokens: string[], finished: boolean, log_probability: number}} ContinuationAnswer */
/** @typedef {{text: string}} ReplyAnswer */
/** @typedef {{text: string, gaps: {piece: string, probability: number}[][]}} FilledAnswer */
/**
 * @typedef {object} ClassAnswer
 * @property {string | number} [label] a class, or a number
 * @property {number} [number] index of the chosen candidate
 * @property {Record<string, number> | number[] | null} [probabilities] of classes by name, or of candidates
 */
/** @typedef {{word: string, name: string, probability: number}} TaggedWord */
/** @typedef {{piece: string, probability: number}} ReplacedToken */
/** @typedef {{answer: string, spans: {text: string, start: number, stop: number, probability: number}[], none: number}} SpanAnswer */
/**
 * @typedef {object} StoryAnswer
 * @property {string} answer
 * @property {number} probability
 * @property {[answer: string, probability: number][]} others
 * @property {number[][]} weights of each hop, of each sentence
 */
/**
 * @typedef {object} Passage
 * @property {string} id
 * @property {string} title
 * @property {string} text
 * @property {number} bm25
 * @property {number | null} cosine
 * @property {[start: number, stop: number][]} marks
 * @property {string} [answer]
 * @property {number} [probability]
 */
/** @typedef {{orders: Record<string, Passage[]>}} SearchAnswer */
/**
 * @typedef {object} CaptionAnswer
 * @property {string} caption
 * @property {{tokens: string[], weights: number[][][], frames?: null} | {tokens: string[], weights: number[][], frames: number[]} | null} [looked]
 *   weights of each token: rows and columns of a picture, or frames of a clip
 */
/** @typedef {{row: number, column: number, sizes: number[], options: {name: string, probability: number}[]}} Glimpse */
/** @typedef {{class: string, probabilities: Record<string, number>, glimpses: Glimpse[]}} PictureClassAnswer */
/** @typedef {{text: string, seconds: number, candidates: {score: number}[]}} TranscriptAnswer */
/**
 * Types of the answers, by the last part of the path of their request.
 * @typedef {object} AnswerTypes
 * @property {TranslationAnswer} translate
 * @property {ContinuationAnswer} generate
 * @property {ReplyAnswer} chat
 * @property {FilledAnswer} fill
 * @property {ClassAnswer} classify
 * @property {TaggedWord[]} tag
 * @property {ReplacedToken[]} detect
 * @property {SpanAnswer} answer
 * @property {StoryAnswer} ask
 * @property {SearchAnswer} search
 * @property {CaptionAnswer} caption
 * @property {PictureClassAnswer} look
 * @property {TranscriptAnswer} transcribe
 */
/**
 * Types of the events of answers that are sent piece by piece.
 * @typedef {object} EventTypes
 * @property {{text: string, alignment?: TokenAlignment}} translate the translation so far
 * @property {{piece: string}} generate the next piece
 * @property {{piece: string}} chat the next piece
 */

const STORAGE_KEY = "heedful-key";

/** An error message of the server. */
export class RequestError extends Error {
  /**
   * @param {number} status HTTP status; 0 if there was no answer
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The API key, which is stored until the tab is closed. */
export const apiKey = {
  get: () => sessionStorage.getItem(STORAGE_KEY) ?? "",
  set: (/** @type {string} */ value) => sessionStorage.setItem(STORAGE_KEY, value),
};

/**
 * Send a request, and return its answers.
 * @template {keyof AnswerTypes} Name
 * @param {Name} name the last part of the path
 * @param {object} message
 * @param {AbortSignal} [signal]
 * @returns {Promise<AnswerTypes[Name][]>}
 */
export async function sendRequest(name, message, signal) {
  const response = await fetchResponse(`/v1/heedful/${name}`, message, signal);
  return (await response.json()).answers;
}

/**
 * Request what the server offers.
 * @returns {Promise<ServerInfo>}
 */
export async function fetchServerInfo() {
  return (await fetchResponse("/v1/heedful")).json();
}

/**
 * Translate a file.
 * @param {FormData} form
 * @param {AbortSignal} [signal]
 * @returns {Promise<string>} the path of the translated file on this server
 */
export async function translateFile(form, signal) {
  const { translatedFileUrl } = await (await fetchResponse("/translate_file", form, signal)).json();
  return new URL(translatedFileUrl).pathname;
}

/**
 * Send a request whose answer arrives piece by piece.
 * @template {keyof EventTypes} Name
 * @param {Name} name the last part of the path
 * @param {object} message
 * @param {(content: EventTypes[Name]) => void} onGrow is called for each piece
 * @param {AbortSignal} [signal]
 * @returns {Promise<AnswerTypes[Name]>} the whole answer
 */
export async function streamRequest(name, message, onGrow, signal) {
  const response = await fetchResponse(`/v1/heedful/${name}`, { ...message, stream: true }, signal);
  let record = null;
  for await (const { event, data } of readEvents(response)) {
    const content = JSON.parse(data);
    if (event === "growing") onGrow(content);
    if (event === "record") record = content;
    if (event === "error") throw new RequestError(500, content.error.message);
  }
  if (!record) throw new RequestError(0, "the answer is incomplete; send the request again");
  return record.answers[0];
}

/**
 * Open the page of an inspection in a new tab.
 * @param {object} message
 */
export async function openInspection(message) {
  const tab = window.open("", "_blank"); // before the first await, or browsers block the tab
  try {
    const { page } = await (await fetchResponse("/v1/heedful/inspect", { ...message, format: "link" })).json();
    if (!tab) throw new RequestError(0, "the browser blocked the new tab; allow this page to open tabs");
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
async function fetchResponse(path, message, signal) {
  /** @type {Record<string, string>} */
  const headers = apiKey.get() ? { Authorization: `Bearer ${apiKey.get()}` } : {};
  const isForm = message instanceof FormData;
  if (message && !isForm) headers["Content-Type"] = "application/json";
  const body = isForm ? message : message && JSON.stringify(message);
  let response;
  try {
    response = await fetch(path, { method: message ? "POST" : "GET", headers, body, signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new RequestError(0, "the server cannot be reached; check that it is running");
  }
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({}));
  throw new RequestError(response.status, error?.message ?? error ?? `the server answered with status ${response.status}`);
}

/**
 * Read the server-sent events of a response.
 * @param {Response} response
 * @returns {AsyncGenerator<{event: string, data: string}>}
 */
async function* readEvents(response) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let buffer = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      buffer += decoder.decode(value, { stream: !done });
      const blocks = buffer.split("\n\n");
      buffer = blocks.pop() ?? "";
      for (const block of blocks) {
        const lines = block.split("\n");
        const getField = (/** @type {string} */ field) => lines.find((line) => line.startsWith(`${field}: `))?.slice(field.length + 2) ?? "";
        yield { event: getField("event"), data: getField("data") };
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
