/** Passages that answer a question, with what answers it marked. */

import { ask } from "./asking.js";
import { element } from "./dom.js";
import { answerPlace, asking, choice, field, marked, percent } from "./parts.js";

/** How the orders of an index are called, which the API knows by other names. @type {Record<string, string>} */
const ORDERS = { "": "the index's own", bm25: "BM25", encoder: "vectors", product: "BM25 and vectors" };

export const search = {
  id: "search",
  title: "Search",
  about: "Passages that answer a question, the best first.",
  there: (/** @type {any} */ served) => served.indices.length > 0,
  show,
};

/**
 * @param {HTMLElement} host
 * @param {import("./parts.js").Served} served
 */
function show(host, served) {
  const order = choice([]);
  const orders = () => order.replaceChildren(...["", ...served.orders[index.value]].map((name) => element("option", { value: name }, ORDERS[name] ?? name)));
  const index = choice(served.indices.map((name) => [name, name]), orders);
  orders();
  const answerers = served.models.filter(({ does }) => does.includes("answer"));
  const answers = choice([["", "words of the question"], ...answerers.map(({ name }) => /** @type {[string, string]} */ ([name, `answers of ${name}`]))]);
  const query = element("input", { type: "search", dir: "auto", maxlength: served.limits.characters });
  const place = answerPlace("Passages");
  const form = asking({
    label: "Search",
    fields: [served.indices.length > 1 && field("Index", index), field("Question", query), Object.values(served.orders).some((names) => names.length > 1) && field("Order", order), answerers.length > 0 && field("Mark", answers)],
    work: async (signal) => {
      const { answers: [found] } = await ask("search", { index: index.value, query: query.value, ...(order.value ? { by: order.value } : {}), ...(answers.value ? { answers: answers.value } : {}) }, signal);
      const [[by, hits]] = Object.entries(found.orders);
      place.replaceChildren(
        element("p", { class: "soft" }, hits.length ? `${hits.length} passages, ordered by ${ORDERS[by] ?? by}` : "Nothing was found."),
        element("ol", { class: "hits" }, hits.map((/** @type {any} */ hit) => element("li", { class: "card" },
          element("h3", { dir: "auto" }, hit.title || hit.id, element("span", { class: "soft" }, ` BM25 ${hit.bm25.toFixed(2)}${hit.cosine === null ? "" : `, cosine ${hit.cosine.toFixed(3)}`}`)),
          element("p", { class: "passage", dir: "auto" }, marked(hit.text, hit.marks)),
          hit.answer === undefined ? null : element("p", { class: "soft" }, hit.answer ? `answer: ${hit.answer} (${percent(hit.probability)})` : `no answer in it (${percent(hit.probability)})`)))),
      );
    },
  });
  host.append(form, place);
}
