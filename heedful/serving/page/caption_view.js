/** Describe pictures and clips, and show what the model attends to for each word. */

import { createAnswerRegion, createInspectButton, createModelSelect, createRequestForm, hasCapability } from "./components.js";
import { createCanvas, createElement } from "./dom.js";
import { createFileDrop, FILE_KINDS } from "./file_drop.js";
import { sendRequest } from "./requests.js";

/** @import { PageView } from "./components.js" */
/** @import { CaptionAnswer } from "./requests.js" */

const CANVAS_SIDE = 320;
const REQUEST_FIELDS = { picture: "image", clip: "clip" };

/** @type {PageView} */
export const captionView = {
  id: "caption",
  title: "Caption",
  about: "Choose a picture or a clip, which the model describes. Point at a word to see what the model attends to.",
  isAvailable: (server) => hasCapability(server, "caption"),
  show,
};

/** @type {PageView["show"]} */
function show(host, server) {
  const { control, getModel } = createModelSelect(server, "caption", () => showDrop());
  const getKind = () => (getModel().takes === "clip" ? "clip" : "picture");
  const drops = { picture: createFileDrop(FILE_KINDS.picture), clip: createFileDrop(FILE_KINDS.clip) };
  const showDrop = () => {
    for (const kind of /** @type {const} */ (["picture", "clip"])) drops[kind].node.hidden = kind !== getKind();
  };
  showDrop();
  const region = createAnswerRegion("Caption");
  const form = createRequestForm({ label: "Describe", fields: [control, drops.picture.node, drops.clip.node], onSubmit: async (signal) => {
    const file = drops[getKind()].getFile();
    const request = { model: getModel().name, [REQUEST_FIELDS[getKind()]]: file };
    const [answer] = await sendRequest("caption", { ...request, align: true }, signal);
    region.replaceChildren(createElement("article", { class: "card" },
      ...await createCaption(answer, file),
      createInspectButton(() => ({ ...request, pair: answer.caption }))));
  } });
  host.append(createElement("div", { class: "two" }, form, region));
}

/**
 * Create a caption and the picture, or the frames, that its words attend to.
 * @param {CaptionAnswer} answer
 * @param {string} file address of the picture
 * @returns {Promise<HTMLElement[]>}
 */
async function createCaption({ caption, looked }, file) {
  const text = createElement("p", { class: "answer-text", dir: "auto" });
  if (!looked) {
    text.textContent = caption;
    return [text];
  }
  const picture = looked.frames
    ? createFrameStrip(looked.frames, looked.weights)
    : await createPictureOverlay(file, looked.weights);
  text.append(...looked.tokens.slice(0, -1).flatMap((token, i) => {
    const showWeights = () => picture.show(i);
    return [createElement("button", { type: "button", class: "word", onpointerenter: showWeights, onfocus: showWeights, onclick: showWeights },
      token.replace(/▁/gu, " ").trim() || token), " "];
  }));
  picture.show(null);
  return [text, createElement("div", { class: "caption-picture" }, picture.node)];
}

/** @typedef {{node: HTMLElement, show: (token: number | null) => void}} WeightPicture `show` shows the weights of a token */

/**
 * Create a list of the frames that the model saw, on which weights can be shown.
 * @param {number[]} frames
 * @param {number[][]} weights of each token, of each frame
 * @returns {WeightPicture}
 */
function createFrameStrip(frames, weights) {
  const items = frames.map((number) => createElement("li", {}, number));
  const node = createElement("ol", { class: "strip", "aria-label": "Frames that the model saw, with the weights of the word" }, items);
  return { node, show: (token) => items.forEach((item, i) => {
    const row = token === null ? null : weights[token];
    item.style.setProperty("--weight", String(row ? row[i] / Math.max(...row) : 0));
    item.title = row ? `frame ${frames[i]}: ${row[i].toFixed(2)}` : `frame ${frames[i]}`;
  }) };
}

/**
 * Create the middle square of a picture, on which weights can be shown.
 * @param {string} address
 * @param {number[][][]} weights of each token, of each row and column
 * @returns {Promise<WeightPicture>}
 */
async function createPictureOverlay(address, weights) {
  const picture = new Image();
  picture.src = address;
  await picture.decode();
  const { canvas, context } = createCanvas(CANVAS_SIDE, CANVAS_SIDE);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "The picture, bright where the word attends to it");
  const side = Math.min(picture.width, picture.height);
  return { node: canvas, show: (token) => {
    context.globalAlpha = 1;
    context.drawImage(picture, (picture.width - side) / 2, (picture.height - side) / 2, side, side, 0, 0, CANVAS_SIDE, CANVAS_SIDE);
    if (token === null) return;
    const rows = weights[token];
    const largest = Math.max(...rows.flat());
    rows.forEach((row, i) => row.forEach((weight, j) => {
      context.globalAlpha = 0.75 * (1 - weight / largest);
      context.fillStyle = "#000";
      const [width, height] = [CANVAS_SIDE / row.length, CANVAS_SIDE / rows.length];
      context.fillRect(j * width, i * height, width + 0.5, height + 0.5);
    }));
  } };
}
