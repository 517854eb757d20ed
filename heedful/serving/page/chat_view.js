/** Hold a dialogue with a model, whose replies appear while they are generated. */

import { createField, createInspectButton, createModelSelect, createRequestForm, hasCapability } from "./components.js";
import { createElement } from "./dom.js";
import { streamRequest } from "./requests.js";

/** @import { PageView } from "./components.js" */

/** @type {PageView} */
export const chatView = {
  id: "chat",
  title: "Chat",
  about: "You and the model take turns.",
  isAvailable: (server) => hasCapability(server, "chat"),
  show,
};

/** @type {PageView["show"]} */
function show(host, server) {
  const { control, getModel } = createModelSelect(server, "chat", () => startDialogue());
  /** @type {string[]} */
  let turns = [];
  const log = createElement("ol", { class: "log", role: "log", "aria-label": "Dialogue", tabindex: "0" });
  const input = createElement("input", { type: "text", dir: "auto", autocomplete: "off", maxlength: server.limits.characters });
  let seed = 0;
  const form = createRequestForm({
    label: "Send",
    fields: [control, createField("Your message", input)],
    buttons: [createElement("button", { type: "button", onclick: () => startDialogue() }, "New dialogue")],
    onSubmit: async (signal) => {
      const message = input.value.trim();
      if (!message) return;
      input.value = "";
      turns.push(message);
      const before = [...turns];
      addBubble("mine", "You", createElement("span", { dir: "auto" }, message));
      const text = createElement("span", { dir: "auto" });
      const reply = addBubble("theirs", "Model", text);
      reply.setAttribute("aria-busy", "true");
      try {
        const answer = await streamRequest("chat", { model: getModel().name, turns: before, seed: seed++ }, ({ piece }) => text.append(piece), signal);
        text.textContent = answer.text || "(empty reply)";
        reply.append(createInspectButton(() => ({ model: getModel().name, text: before.join("\t"), pair: answer.text })));
      } finally {
        reply.removeAttribute("aria-busy");
        if (text.textContent) turns.push(text.textContent);
        else {
          reply.remove();
          turns = before.slice(0, -1);
          input.value = message;
          log.lastElementChild?.remove();
        }
        log.scrollTop = log.scrollHeight;
      }
    },
  });
  host.append(log, form);

  function startDialogue() {
    turns = [];
    log.replaceChildren();
    input.focus();
  }

  /**
   * @param {string} className
   * @param {string} speaker
   * @param {HTMLElement} text
   */
  function addBubble(className, speaker, text) {
    const bubble = createElement("li", { class: `bubble ${className}` }, createElement("span", { class: "visually-hidden" }, `${speaker}: `), text);
    log.append(bubble);
    log.scrollTop = log.scrollHeight;
    return bubble;
  }
}
