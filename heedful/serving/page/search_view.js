/** Search passages that answer a question, and mark the words or the answers in them. */

import { createAnswerRegion, createField, createRequestForm, createSelect, formatPercent, markText } from "./components.js";
import { createElement } from "./dom.js";
import { sendRequest } from "./requests.js";

/** @import { PageView } from "./components.js" */
/** @import { Passage } from "./requests.js" */

/** Names of the orders of an index for users, by their names in requests. @type {Record<string, string>} */
const ORDER_NAMES = { "": "default of the index", bm25: "BM25", encoder: "vectors", product: "BM25 and vectors" };

/** @type {PageView} */
export const searchView = {
  id: "search",
  title: "Search",
  about: "The server finds passages that answer a question, and shows the best first.",
  isAvailable: (server) => server.indices.length > 0,
  show,
};

/** @type {PageView["show"]} */
function show(host, server) {
  const order = createSelect([]);
  const fillOrders = () => order.replaceChildren(...["", ...server.orders[index.value]].map((name) => createElement("option", { value: name }, ORDER_NAMES[name] ?? name)));
  const index = createSelect(server.indices.map((name) => [name, name]), fillOrders);
  fillOrders();
  const readers = server.models.filter(({ does }) => does.includes("answer"));
  const reader = createSelect([["", "words of the question"], ...readers.map(({ name }) => /** @type {[string, string]} */ ([name, `answers of ${name}`]))]);
  const query = createElement("input", { type: "search", dir: "auto", maxlength: server.limits.characters });
  const hasOrders = Object.values(server.orders).some((names) => names.length > 1);
  const region = createAnswerRegion("Passages");
  const form = createRequestForm({
    label: "Search",
    fields: [
      server.indices.length > 1 && createField("Index", index),
      createField("Question", query),
      hasOrders && createField("Order", order),
      readers.length > 0 && createField("Mark", reader),
    ],
    onSubmit: async (signal) => {
      const [answer] = await sendRequest("search", {
        index: index.value, query: query.value,
        ...(order.value ? { by: order.value } : {}),
        ...(reader.value ? { answers: reader.value } : {}),
      }, signal);
      const [[by, passages]] = Object.entries(answer.orders);
      region.replaceChildren(
        createElement("p", { class: "soft" }, passages.length ? `${passages.length} passages, ordered by ${ORDER_NAMES[by] ?? by}` : "No passage was found."),
        createElement("ol", { class: "passages" }, passages.map(createPassage)),
      );
    },
  });
  host.append(form, region);
}

/** @param {Passage} passage */
function createPassage({ id, title, text, marks, bm25, cosine, answer, probability }) {
  const scores = ` BM25 ${bm25.toFixed(2)}${cosine === null ? "" : `, cosine ${cosine.toFixed(3)}`}`;
  const percentage = probability === undefined ? "" : ` (${formatPercent(probability)})`;
  return createElement("li", { class: "card" },
    createElement("h3", { dir: "auto" }, title || id, createElement("span", { class: "soft" }, scores)),
    createElement("p", { class: "passage", dir: "auto" }, markText(text, marks)),
    answer !== undefined && createElement("p", { class: "soft" }, answer ? `Answer: ${answer}${percentage}` : `This passage contains no answer${percentage}`));
}
