"""Route for searching passages in indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from heedful.retrieval.highlights import build_search_record, highlight_passages
from heedful.retrieval.index import PassageIndex
from heedful.retrieval.rankings import ORDERINGS, Ordering
from heedful.serving.api.handlers import check_limits, to_list
from heedful.serving.api.requests import SearchRequest
from heedful.serving.api.responses import SearchAnswers
from heedful.serving.capabilities import Capability, find_capable_model
from heedful.serving.http_errors import bad_request, not_found
from heedful.serving.registry import LoadedModel, ModelRegistry
from heedful.serving.routes import RequestContext, Route

CAPABILITIES = (Capability("search", (PassageIndex,), "find passages", lambda face: face.search("a", top=1)),)


def iter_routes(registry: ModelRegistry) -> Iterator[Route]:
    """Yield the search route, if any index is served."""
    if registry.indices:
        yield Route(
            path="/v1/heedful/search",
            handler=_answer_search,
            summary="find passages that answer questions",
            request_type=SearchRequest,
            response_type=SearchAnswers,
            group="search",
            examples=({"query": "Who runs?"},),
        )


async def _answer_search(context: RequestContext, message: SearchRequest) -> Mapping[str, Any]:
    """Search an index for passages, and mark the answers in them if a model is named."""
    queries = to_list(message.query)
    check_limits(context, message, num_texts=len(queries))
    served_index = _find_index(context.registry.indices, message.index)
    answerer = (
        None if message.answers is None else find_capable_model(context.registry, "answer", message.answers).predictor
    )
    index, orderings = served_index.predictor, _choose_orderings(served_index.predictor, message)

    def work() -> list[Mapping[str, Any]]:
        """Search and mark the passages in a worker thread."""
        results: list[Mapping[str, Any]] = []
        for query, orders in zip(
            queries, index.compare_orderings(queries, top=message.top, orderings=orderings), strict=True
        ):
            context.deadline.raise_if_over()
            marked_orders = highlight_passages(
                query, orders, rare_terms=index.select_rare_terms(query), answerer=answerer
            )
            results.append(build_search_record(query, marked_orders))
        return results

    return {"index": served_index.name, "answers": await served_index.run(context.deadline, work)}


def _find_index(indices: Mapping[str, LoadedModel[PassageIndex]], name: str | None) -> LoadedModel[PassageIndex]:
    """Return the index of this name, or the only one; raise an `HTTPError` if that is not clear."""
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
    """Return the requested orderings; for `all`, those that the index supports."""
    if message.by == "all":
        return available_orderings(index)
    if message.by not in (None, "bm25") and not index.has_vectors:
        raise bad_request(
            f"by: this index has no vectors, so nothing can be found by {message.by}; take bm25", param="by"
        )
    return (message.by or ("product" if index.has_vectors else "bm25"),)
