/** Translate files. Only their texts change. */

import { addFormAndAnswer, createField, createSelect } from "./components.js";
import { createElement } from "./dom.js";
import { translateFile } from "./requests.js";

/** @import { PageView } from "./components.js" */
/** @import { ServerInfo } from "./requests.js" */
/** @typedef {{source: string, target: string, title: string, language: string}} LanguagePair */

/** @type {PageView} */
export const filesView = {
  id: "files",
  title: "Files",
  about: "Choose a file, such as a web page, a document, subtitles or a catalogue of messages. Its texts are translated, and everything else stays as it is.",
  isAvailable: (server) => listLanguagePairs(server).length > 0,
  show,
};

/** @type {PageView["show"]} */
function show(host, server) {
  const pairs = listLanguagePairs(server);
  const direction = createSelect(pairs.map(({ title }, place) => [String(place), title]));
  const input = createElement("input", { type: "file" });
  addFormAndAnswer(host, { label: "Translate the file", fields: [createField("Direction", direction), createField("File", input)], load: async (signal) => {
    const [file] = input.files ?? [];
    if (!file) throw new Error("choose a file first");
    const { source, target, language } = pairs[Number(direction.value)];
    const form = new FormData();
    for (const [name, value] of Object.entries({ source, target, file })) form.append(name, value);
    const address = await translateFile(form, signal);
    return [createElement("p", {}, createElement("a", { href: address, download: "" }, `Save ${file.name} in ${language}`))];
  } });
}

/**
 * List the language pairs that a model translates, each once.
 * @param {ServerInfo} server
 * @returns {LanguagePair[]}
 */
function listLanguagePairs(server) {
  /** @type {Map<string, LanguagePair>} */ const pairs = new Map();
  for (const { ways = [], languages = {} } of server.models) {
    for (const [source, target] of ways) {
      if (!source || !target) continue;
      const language = languages[target] ?? target;
      pairs.set(`${source} ${target}`, { source, target, language, title: `${languages[source] ?? source} → ${language}` });
    }
  }
  return [...pairs.values()];
}
