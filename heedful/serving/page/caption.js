/** What a picture shows, and where each word of that looked. */

import { ask } from "./asking.js";
import { canvasFor, element } from "./dom.js";
import { answerPlace, asking, field, looking, modelChoice } from "./parts.js";

const SIDE = 320;

export const view = {
  id: "caption",
  title: "Caption",
  about: "Drop a picture: the model says what it shows. Point at a word to see where it looked.",
  there: (/** @type {any} */ served) => served.models.some((/** @type {any} */ each) => each.does.includes("caption")),
  show,
};

/**
 * @param {HTMLElement} host
 * @param {import("./parts.js").Served} served
 */
function show(host, served) {
  const { control, model } = modelChoice(served, "caption");
  const file = element("input", { type: "file", accept: "image/*", onchange: () => file.files?.[0] && take(file.files[0]) });
  const preview = element("img", { alt: "the picture that you chose", hidden: true });
  const drop = element("div", {
    class: "drop",
    ondragover: (/** @type {DragEvent} */ event) => { event.preventDefault(); drop.classList.add("over"); },
    ondragleave: () => drop.classList.remove("over"),
    ondrop: (/** @type {DragEvent} */ event) => {
      event.preventDefault();
      drop.classList.remove("over");
      const [dropped] = event.dataTransfer?.files ?? [];
      if (dropped) take(dropped);
    },
  }, preview, field("A picture: choose its file, or drop it here", file));
  const place = answerPlace("Caption");
  let image = "";
  const form = asking({ label: "Say what it shows", fields: [control, drop], work: async (signal) => {
    if (!image) throw new Error("choose a picture first");
    const shown = image;
    const { answers: [found] } = await ask("caption", { model: model().name, image: shown, align: true }, signal);
    const where = found.looked && element("div", { class: "where" });
    const said = element("p", { class: "said-text", dir: "auto" });
    if (where) {
      const overlay = await overlaid(shown, where);
      said.append(...found.looked.tokens.slice(0, -1).flatMap((/** @type {string} */ token, /** @type {number} */ i) => {
        const see = () => overlay(found.looked.weights[i]);
        return [element("button", { type: "button", class: "word", onpointerenter: see, onfocus: see, onclick: see }, token.replace(/▁/gu, " ").trim() || token), " "];
      }));
      overlay(null);
    } else said.textContent = found.caption;
    place.replaceChildren(element("article", { class: "card" }, said, where, looking(() => ({ model: model().name, image: shown, pair: found.caption }))));
  } });
  host.append(element("div", { class: "two" }, form, place));

  /** @param {File} chosen */
  async function take(chosen) {
    image = await new Promise((resolve, reject) => {
      const reader = new FileReader();
      reader.onload = () => resolve(String(reader.result));
      reader.onerror = () => reject(reader.error);
      reader.readAsDataURL(chosen);
    });
    preview.src = image;
    preview.hidden = false;
    form.requestSubmit();
  }
}

/**
 * The middle square of a picture, on which weights can be shown.
 * @param {string} address
 * @param {HTMLElement} host
 * @returns {Promise<(weights: number[][] | null) => void>}
 */
async function overlaid(address, host) {
  const picture = new Image();
  picture.src = address;
  await picture.decode();
  const { canvas, context } = canvasFor(SIDE, SIDE);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "where the word looked");
  host.append(canvas);
  const side = Math.min(picture.width, picture.height);
  const middle = [(picture.width - side) / 2, (picture.height - side) / 2, side, side];
  return (weights) => {
    context.globalAlpha = 1;
    context.drawImage(picture, middle[0], middle[1], middle[2], middle[3], 0, 0, SIDE, SIDE);
    if (!weights) return;
    const most = Math.max(...weights.flat());
    weights.forEach((row, i) => row.forEach((weight, j) => {
      context.globalAlpha = 0.75 * (1 - weight / most);
      context.fillStyle = "#000";
      const [width, height] = [SIDE / row.length, SIDE / weights.length];
      context.fillRect(j * width, i * height, width + 0.5, height + 0.5);
    }));
  };
}
