/** A place for a file: chosen or dropped, shown again, and ready to be sent. */

import { element } from "./dom.js";
import { field } from "./parts.js";

/** @typedef {{accept: string, label: string, missing: string, preview: () => HTMLElement}} Kind */

/** What may be dropped, by what a model takes. @type {Record<string, Kind>} */
export const KINDS = {
  picture: {
    accept: "image/*",
    label: "A picture: choose its file, or drop it here",
    missing: "choose a picture first",
    preview: () => element("img", { alt: "the picture that you chose" }),
  },
  clip: {
    accept: "video/*,.npz,.safetensors",
    label: "A clip: choose its file, or drop it here",
    missing: "choose a clip first",
    preview: () => element("video", { controls: true, "aria-label": "the clip that you chose" }),
  },
  sound: {
    accept: "audio/*",
    label: "A sound: choose its file, or drop it here",
    missing: "choose a sound first",
    preview: () => element("audio", { controls: true, "aria-label": "the sound that you chose" }),
  },
};

/**
 * The place, which is ready as soon as there is a file.
 * @param {Kind} kind
 * @returns {{node: HTMLElement, file: () => string}} `file` is a data URL; it fails where nothing was chosen
 */
export function sending(kind) {
  const input = element("input", { type: "file", accept: kind.accept, onchange: () => input.files?.[0] && take(input.files[0]) });
  const preview = element("div", { hidden: true });
  const node = element("div", {
    class: "drop",
    ondragover: (/** @type {DragEvent} */ event) => { event.preventDefault(); node.classList.add("over"); },
    ondragleave: () => node.classList.remove("over"),
    ondrop: (/** @type {DragEvent} */ event) => {
      event.preventDefault();
      node.classList.remove("over");
      const [dropped] = event.dataTransfer?.files ?? [];
      if (dropped) take(dropped);
    },
  }, preview, field(kind.label, input));
  let address = "";
  return { node, file: () => {
    if (!address) throw new Error(kind.missing);
    return address;
  } };

  /** @param {File} chosen */
  async function take(chosen) {
    address = await new Promise((resolve, reject) => {
      const reader = new FileReader();
      reader.onload = () => resolve(String(reader.result));
      reader.onerror = () => reject(reader.error);
      reader.readAsDataURL(chosen);
    });
    const shown = kind.preview();
    shown.addEventListener("error", () => { preview.hidden = true; }); // as of an array of frames
    shown.setAttribute("src", address);
    preview.replaceChildren(shown);
    preview.hidden = false;
    node.closest("form")?.requestSubmit();
  }
}
