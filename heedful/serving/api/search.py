"""Route for searching passages in indices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ConfigDict

from heedful.retrieval.index import PassageIndex
from heedful.retrieval.rankings import ORDERINGS, Ordering, QueryResultRecord, build_search_record, highlight_passages
from heedful.serving.api.handlers import InputTexts, IntAtLeast1, RequestName, check_limits, to_list
from heedful.serving.capabilities import Capability, find_capable_model
from heedful.serving.http_errors import bad_request, not_found
from heedful.serving.registry import LoadedModel
from heedful.serving.routes import RequestContext, StrictMessage, declare_route
from heedful.tasks.predictor import AnswerRecord, dump_record

CAPABILITIES = (Capability("search", (PassageIndex,), "find passages", lambda predictor: predictor.search("a", top=1)),)


class SearchRequest(StrictMessage):
    """A request to search an index of passages, as `heedful search` does."""

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    index: RequestName | None = None
    """name of the index; not needed if there is only one"""
    query: InputTexts
    """one question or several"""
    top: IntAtLeast1 = 10
    """number of passages to return"""
    by: Literal["bm25", "encoder", "product", "all"] | None = None
    """ordering of the passages, or all three; the default is product if the index has vectors, else bm25"""
    answers: RequestName | None = None
    """name of a model that answers questions, whose answers are marked in the passages"""


class SearchAnswers(AnswerRecord):
    """The passages that an index returns for each query."""

    index: str
    answers: list[QueryResultRecord]


@declare_route(
    "/v1/heedful/search",
    "find passages that answer questions",
    response_type=SearchAnswers,
    group="search",
    examples=({"query": "Who runs?"},),
    is_served=lambda registry: bool(registry.indices),
)
async def _answer_search(context: RequestContext, message: SearchRequest) -> Mapping[str, Any]:
    """Search an index for the queries of a request, and return the index's name and, for each query, the record of the
    passages.
    """
    queries = to_list(message.query)
    check_limits(context, message, num_texts=len(queries))
    served_index = _find_index(context.registry.indices, message.index)
    answerer = (
        None if message.answers is None else find_capable_model(context.registry, "answer", message.answers).predictor
    )
    index, orderings = served_index.predictor, _choose_orderings(served_index.predictor, message)

    def work() -> list[Mapping[str, Any]]:
        results: list[Mapping[str, Any]] = []
        for query, orders in zip(
            queries, index.compare_orderings(queries, top=message.top, orderings=orderings), strict=True
        ):
            context.deadline.raise_if_over()
            marked_orders = highlight_passages(
                query, orders, rare_terms=index.select_rare_terms(query), answerer=answerer
            )
            results.append(dump_record(build_search_record(query, marked_orders)))
        return results

    return {"index": served_index.name, "answers": await served_index.run(context.deadline, work)}


def _find_index(indices: Mapping[str, LoadedModel[PassageIndex]], name: str | None) -> LoadedModel[PassageIndex]:
    """Return the one of these indices that has this name, or the only one if the name is None; raise an `HTTPError` if
    there is none of this name, or there are several and none is named.
    """
    names = ", ".join(indices)
    if name is None:
        if len(indices) > 1:
            raise bad_request(f"index: there are several: {names}; name one", param="index")
        return next(iter(indices.values()))
    if name not in indices:
        raise not_found(f"index: {name!r} is not served here; available: {names}", param="index")
    return indices[name]


def available_orderings(index: PassageIndex) -> tuple[Ordering, ...]:
    """Return the orderings by which an index can sort passages."""
    return ORDERINGS if index.has_vectors else ("bm25",)


def _choose_orderings(index: PassageIndex, message: SearchRequest) -> tuple[Ordering, ...]:
    """Return the orderings that a message requests: one, the default of the index, or for `all` those that the index
    supports. Raise an `HTTPError` if it is one that needs vectors and the index has none.
    """
    if message.by == "all":
        return available_orderings(index)
    if message.by not in (None, "bm25") and not index.has_vectors:
        raise bad_request(
            f"by: this index has no vectors, so nothing can be found by {message.by}; take bm25", param="by"
        )
    return (message.by or ("product" if index.has_vectors else "bm25"),)
