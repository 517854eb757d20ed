"""Passages of indices in our own interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from heedful.retrieval.index import PassageIndex
from heedful.retrieval.marked import marks_of, record
from heedful.retrieval.orders import ORDERINGS, Ordering
from heedful.serving.house import House, Model
from heedful.serving.own.answers import Found
from heedful.serving.own.asking import listed, require_within
from heedful.serving.own.messages import Search
from heedful.serving.refusal import missing, wrong
from heedful.serving.routes import Asked, Route
from heedful.serving.uses import Use, model_for

USES = (Use("search", (PassageIndex,), "find passages", lambda face: face.search("a", top=1)),)


def routes(house: House) -> Iterator[Route]:
    """That of indices, where there are any."""
    if house.indices:
        yield Route(
            path="/v1/heedful/search",
            answer=_search,
            about="find passages that answer questions",
            takes=Search,
            gives=Found,
            group="search",
            examples=({"query": "Who runs?"},),
        )


async def _search(asked: Asked, message: Search) -> Mapping[str, Any]:
    queries = listed(message.query)
    require_within(asked, message, texts=len(queries))
    shelf = _shelf(asked.house.indices, message.index)
    answerer = None if message.answers is None else model_for(asked.house, "answer", message.answers).face
    index, orderings = shelf.face, _orderings(shelf.face, message)

    def work() -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        for query, orders in zip(queries, index.compare(queries, top=message.top, orderings=orderings), strict=True):
            asked.term.check()
            marked = marks_of(query, orders, telling=index.telling(query), answerer=answerer)
            found.append(record(query, marked))
        return found

    return {"index": shelf.name, "answers": await shelf.ask(asked.term, work)}


def _shelf(shelves: Mapping[str, Model[PassageIndex]], name: str | None) -> Model[PassageIndex]:
    names = ", ".join(shelves)
    if name is None:
        if len(shelves) > 1:
            raise wrong(f"index: there are several: {names}; name one", param="index")
        return next(iter(shelves.values()))
    if name not in shelves:
        raise missing(f"index: {name!r} is not served here; those that are: {names}", param="index")
    return shelves[name]


def orders_of(index: PassageIndex) -> tuple[Ordering, ...]:
    """By which an index can order passages."""
    return ORDERINGS if index.has_vectors else ("bm25",)


def _orderings(index: PassageIndex, message: Search) -> tuple[Ordering, ...]:
    """Those that are asked for; of all of them, those that the index has."""
    if message.by == "all":
        return orders_of(index)
    if message.by not in (None, "bm25") and not index.has_vectors:
        raise wrong(f"by: this index has no vectors, so nothing can be found by {message.by}; take bm25", param="by")
    return (message.by or ("product" if index.has_vectors else "bm25"),)
