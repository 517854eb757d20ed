/** Files in another language, in which only the texts change. */

import { translatedFile } from "./asking.js";
import { element } from "./dom.js";
import { choice, field } from "./parts.js";
import { both } from "./reading.js";

/** @typedef {{source: string, target: string, title: string, language: string}} Way */

export const view = {
  id: "files",
  title: "Files",
  about: "Choose a file, such as a page, a document, subtitles or a catalogue of texts: its texts are translated, and everything else stays.",
  there: (/** @type {any} */ served) => waysOf(served).length > 0,
  show,
};

/**
 * @param {HTMLElement} host
 * @param {import("./parts.js").Served} served
 */
function show(host, served) {
  const ways = waysOf(served);
  const direction = choice(ways.map(({ title }, place) => [String(place), title]));
  const input = element("input", { type: "file" });
  both(host, "Translate the file", [field("Direction", direction), field("File", input)], [], async (signal) => {
    const [file] = input.files ?? [];
    if (!file) throw new Error("choose a file first");
    const { source, target, language } = ways[Number(direction.value)];
    const form = new FormData();
    for (const [name, value] of Object.entries({ source, target, file })) form.append(name, value);
    const address = await translatedFile(form, signal);
    return [element("p", {}, element("a", { href: address, download: "" }, `Save ${file.name} in ${language}`))];
  });
}

/**
 * Each way that some model goes, once.
 * @param {any} served
 * @returns {Way[]}
 */
function waysOf(served) {
  const found = new Map();
  for (const { ways = [], languages = {} } of served.models) {
    const called = (/** @type {string} */ code) => languages[code] ?? code;
    for (const [source, target] of ways) {
      if (!source || !target) continue;
      const language = called(target);
      found.set(`${source} ${target}`, { source, target, language, title: `${called(source)} → ${language}` });
    }
  }
  return [...found.values()];
}
