/** Transcribe the speech of sounds. */

import { addFormAndAnswer, createInspectButton, createModelSelect, hasCapability } from "./components.js";
import { createElement } from "./dom.js";
import { createFileDrop, FILE_KINDS } from "./file_drop.js";
import { sendRequest } from "./requests.js";

/** @import { PageView } from "./components.js" */

/** @type {PageView} */
export const transcribeView = {
  id: "transcribe",
  title: "Transcribe",
  about: "Choose a sound. The model writes the words that are spoken in it.",
  isAvailable: (server) => hasCapability(server, "transcribe"),
  show,
};

/** @type {PageView["show"]} */
function show(host, server) {
  const { control, getModel } = createModelSelect(server, "transcribe");
  const drop = createFileDrop(FILE_KINDS.sound);
  addFormAndAnswer(host, { label: "Transcribe", fields: [control, drop.node], load: async (signal) => {
    const request = { model: getModel().name, sound: drop.getFile() };
    const [answer] = await sendRequest("transcribe", request, signal);
    return [
      createElement("p", { class: "answer-text", dir: "auto" }, answer.text || "No speech was found."),
      createElement("p", { class: "soft" }, `${answer.seconds.toFixed(1)} seconds · score ${answer.candidates[0].score.toFixed(2)}`),
      createInspectButton(() => request),
    ];
  } });
}
