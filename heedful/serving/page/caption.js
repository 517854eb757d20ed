/** What a picture or a clip shows, and where the model looked for each word. */

import { ask } from "./asking.js";
import { canvasFor, element } from "./dom.js";
import { answerPlace, asking, looking, modelChoice } from "./parts.js";
import { KINDS, sending } from "./sending.js";

const SIDE = 320;
const FIELDS = { picture: "image", clip: "clip" };

export const view = {
  id: "caption",
  title: "Caption",
  about: "Drop a picture or a clip, as the model needs: it describes what is shown. Point at a word to see where the model looked.",
  there: (/** @type {any} */ served) => served.models.some((/** @type {any} */ each) => each.does.includes("caption")),
  show,
};

/**
 * @param {HTMLElement} host
 * @param {import("./parts.js").Served} served
 */
function show(host, served) {
  const { control, model } = modelChoice(served, "caption", () => adapt());
  const kind = () => /** @type {"picture" | "clip"} */ (model().takes);
  const places = { picture: sending(KINDS.picture), clip: sending(KINDS.clip) };
  const adapt = () => {
    for (const each of /** @type {const} */ (["picture", "clip"])) places[each].node.hidden = each !== kind();
  };
  adapt();
  const place = answerPlace("Caption");
  const form = asking({ label: "Describe it", fields: [control, places.picture.node, places.clip.node], work: async (signal) => {
    const asked = { model: model().name, [FIELDS[kind()]]: places[kind()].file() };
    const { answers: [found] } = await ask("caption", { ...asked, align: true }, signal);
    const where = found.looked && element("div", { class: "where" });
    const said = element("p", { class: "said-text", dir: "auto" });
    if (where) {
      const overlay = found.looked.frames ? overFrames(found.looked.frames, where) : await overlaid(asked.image, where);
      said.append(...found.looked.tokens.slice(0, -1).flatMap((/** @type {string} */ token, /** @type {number} */ i) => {
        const see = () => overlay(found.looked.weights[i]);
        return [element("button", { type: "button", class: "word", onpointerenter: see, onfocus: see, onclick: see }, token.replace(/▁/gu, " ").trim() || token), " "];
      }));
      overlay(null);
    } else said.textContent = found.caption;
    place.replaceChildren(element("article", { class: "card" }, said, where, looking(() => ({ ...asked, pair: found.caption }))));
  } });
  host.append(element("div", { class: "two" }, form, place));
}

/**
 * The frames of a clip that were seen, on which weights can be shown.
 * @param {number[]} frames
 * @param {HTMLElement} host
 * @returns {(weights: number[] | null) => void}
 */
function overFrames(frames, host) {
  const list = element("ol", { class: "strip", "aria-label": "frames that were seen, and how much the word looked at each" },
    frames.map((number) => element("li", {}, number)));
  host.append(list);
  return (weights) => [...list.children].forEach((each, i) => {
    each.style.setProperty("--weight", String(weights ? weights[i] / Math.max(...weights) : 0));
    each.title = weights ? `frame ${frames[i]}: ${weights[i].toFixed(2)}` : `frame ${frames[i]}`;
  });
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
