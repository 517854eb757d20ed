/** A dialogue with a model, whose replies appear as they are written. */

import { hear } from "./asking.js";
import { element } from "./dom.js";
import { asking, field, looking, modelChoice } from "./parts.js";

export const view = {
  id: "chat",
  title: "Chat",
  about: "You and the model take turns.",
  there: (/** @type {any} */ served) => served.models.some((/** @type {any} */ each) => each.does.includes("chat")),
  show,
};

/**
 * @param {HTMLElement} host
 * @param {import("./parts.js").Served} served
 */
function show(host, served) {
  const { control, model } = modelChoice(served, "chat", () => forget());
  /** @type {string[]} */
  let turns = [];
  const log = element("ol", { class: "log", role: "log", "aria-label": "Dialogue", tabindex: "0" });
  const input = element("input", { type: "text", dir: "auto", autocomplete: "off", maxlength: served.limits.characters });
  const again = element("button", { type: "button", onclick: () => forget() }, "Start again");
  let number = 0;
  const form = asking({
    label: "Say",
    fields: [control, field("Your turn", input)],
    more: [again],
    work: async (signal) => {
      const said = input.value.trim();
      if (!said) return;
      input.value = "";
      turns.push(said);
      const before = [...turns];
      bubble("mine", said);
      const text = element("span", { dir: "auto" });
      const reply = bubble("theirs", "", text);
      reply.setAttribute("aria-busy", "true");
      try {
        const { answers: [record] } = await hear("chat", { model: model().name, turns: before, seed: number++ },
          ({ piece }) => text.append(piece), signal);
        text.textContent = record.text || "(nothing)";
        reply.append(looking(() => ({ model: model().name, text: before.join("\t"), pair: record.text }), "How?"));
      } finally {
        reply.removeAttribute("aria-busy");
        if (text.textContent) turns.push(text.textContent);
        else {
          reply.remove();
          turns = before.slice(0, -1);
          input.value = said;
          log.lastElementChild?.remove();
        }
        log.scrollTop = log.scrollHeight;
      }
    },
  });
  host.append(log, form);

  function forget() {
    turns = [];
    log.replaceChildren();
    input.focus();
  }

  /**
   * @param {string} whose
   * @param {string} said
   * @param {HTMLElement} [more]
   */
  function bubble(whose, said, more) {
    const made = element("li", { class: `bubble ${whose}` }, element("span", { class: "unseen" }, whose === "mine" ? "You: " : "Model: "),
      more ?? element("span", { dir: "auto" }, said));
    log.append(made);
    log.scrollTop = log.scrollHeight;
    return made;
  }
}
