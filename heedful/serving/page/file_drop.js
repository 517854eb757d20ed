/** Create a place for a file, which users choose or drop, with a preview. */

import { createField } from "./components.js";
import { createElement } from "./dom.js";

/** @typedef {{accept: string, label: string, missing: string, createPreview: () => HTMLElement}} FileKind */

/** Kinds of files that models take. */
export const FILE_KINDS = {
  picture: {
    accept: "image/*",
    label: "Picture: choose a file, or drop it here",
    missing: "choose a picture first",
    createPreview: () => createElement("img", { alt: "the picture that you chose" }),
  },
  clip: {
    accept: "video/*,.npz,.safetensors",
    label: "Clip: choose a file, or drop it here",
    missing: "choose a clip first",
    createPreview: () => createElement("video", { controls: true, "aria-label": "the clip that you chose" }),
  },
  sound: {
    accept: "audio/*",
    label: "Sound: choose a file, or drop it here",
    missing: "choose a sound first",
    createPreview: () => createElement("audio", { controls: true, "aria-label": "the sound that you chose" }),
  },
};

/**
 * Create the place of a file. A new file sends the form around it.
 * @param {FileKind} kind
 * @returns {{node: HTMLElement, getFile: () => string}} `getFile` returns a data URL, and throws an error if there is no file
 */
export function createFileDrop(kind) {
  const input = createElement("input", { type: "file", accept: kind.accept, onchange: () => { loadFile(input.files?.[0]); } });
  const preview = createElement("div", { hidden: true });
  const node = createElement("div", {
    class: "drop",
    ondragover: (/** @type {DragEvent} */ event) => {
      event.preventDefault();
      node.classList.add("over");
    },
    ondragleave: () => { node.classList.remove("over"); },
    ondrop: (/** @type {DragEvent} */ event) => {
      event.preventDefault();
      node.classList.remove("over");
      loadFile(event.dataTransfer?.files[0]);
    },
  }, preview, createField(kind.label, input));
  let address = "";
  return { node, getFile: () => {
    if (!address) throw new Error(kind.missing);
    return address;
  } };

  /** @param {File | undefined} file */
  async function loadFile(file) {
    if (!file) return;
    address = await readDataUrl(file);
    const shown = kind.createPreview();
    shown.addEventListener("error", () => { preview.hidden = true; }); // browsers cannot show an array of frames
    shown.setAttribute("src", address);
    preview.replaceChildren(shown);
    preview.hidden = false;
    node.closest("form")?.requestSubmit();
  }
}

/**
 * @param {File} file
 * @returns {Promise<string>}
 */
function readDataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
