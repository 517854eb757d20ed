/** The speech in a sound, as text. */

import { ask } from "./asking.js";
import { element } from "./dom.js";
import { looking, modelChoice } from "./parts.js";
import { both } from "./reading.js";
import { KINDS, sending } from "./sending.js";

export const view = {
  id: "transcribe",
  title: "Transcribe",
  about: "Drop a sound: the model writes the words that are spoken in it.",
  there: (/** @type {any} */ served) => served.models.some((/** @type {any} */ each) => each.does.includes("transcribe")),
  show,
};

/**
 * @param {HTMLElement} host
 * @param {import("./parts.js").Served} served
 */
function show(host, served) {
  const { control, model } = modelChoice(served, "transcribe");
  const drop = sending(KINDS.sound);
  both(host, "Transcribe", [control, drop.node], [], async (signal) => {
    const asked = { model: model().name, sound: drop.file() };
    const { answers: [found] } = await ask("transcribe", asked, signal);
    return [
      element("p", { class: "said-text", dir: "auto" }, found.text || "No speech was found."),
      element("p", { class: "soft" }, `${found.seconds.toFixed(1)} seconds · score ${found.candidates[0].score.toFixed(2)}`),
      looking(() => asked),
    ];
  });
}
