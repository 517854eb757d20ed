"""`heedful search`: questions in, passages out, by words, by vectors and by both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from heedful.cli.arguments import Computing, MaybePath, PositionalPath, TextsBehind, maybe, parse, require_least
from heedful.cli.grammar import Formerly
from heedful.cli.lines import is_typed, read_or_typed
from heedful.cli.output import destination
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.cli.found import Found
    from heedful.retrieval.index import PassageIndex
    from heedful.retrieval.orders import Ordering

_CHUNK = 64


@dataclass(frozen=True)
class Arguments:
    """Find the passages that answer questions: by their words (bm25), by vectors (encoder), or by both (product).

    What is marked in a passage is its answer, if --answers names a model for that, else the words of the question
    that at most half of the passages have.
    """

    index: PositionalPath
    """folder that heedful index made"""
    query: TextsBehind = ()
    """questions, instead of a file; they may also stand behind the index, without the option"""
    input: Annotated[MaybePath, Formerly("--queries")] = None
    """file with a question on each line, plain or gzipped; standard input if not given, or if it is -"""
    top: int = 10
    """passages to tell"""
    by: Annotated[Literal["bm25", "encoder", "product", "all"] | None, maybe("{bm25,encoder,product,all}")] = None
    """what to order by, or all three side by side; product where the index has vectors, else bm25, if not given"""
    answers: MaybePath = None
    """folder of a model that answers questions (task "spans"), whose answers are marked"""
    measure: MaybePath = None
    """file of questions whose passages are known: recall and mean reciprocal rank of each ordering, and no passages;
    JSON with "question" and "passages" (ids) on each line, or .json in SQuAD's form"""
    model: MaybePath = None
    """folder of the encoder, where it is no longer where the index was made from"""
    output: MaybePath = None
    """file for the results, a page if it ends with .html; standard output if not given"""
    format: Literal["text", "jsonl"] = "text"
    """for reading, or JSON with all scores and places, a line for each question"""
    computing: Computing = field(default_factory=Computing)


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful search")
    _check(given)

    from heedful.retrieval.index import load_index

    given.computing.begin()
    index = load_index(given.index, model=given.model, **given.computing.how)
    if given.measure is not None:
        _measure(index, given.measure, given)
        return 0
    found = _found(index, given)
    if given.output is not None and given.output.suffix == ".html":
        from heedful.cli.found import page
        from heedful.store import replacing

        text = page(list(found), name=str(given.index))
        with replacing(given.output) as beside:
            beside.write_text(text, encoding="utf-8")
        return 0
    with destination(given.output) as out:
        for each in found:
            if given.format == "jsonl":
                out.write(each.json() + "\n")
            else:
                each.print(out.stream)
            out.flush()
    return 0


def _check(given: Arguments) -> None:
    ways = [name for name in ("query", "input", "measure") if getattr(given, name)]
    if len(ways) > 1:
        raise RecipeError(f"--{ways[0]} and --{ways[1]}: give one of them")
    if given.measure is not None and given.answers is not None:
        raise RecipeError("--answers: marks passages, and --measure shows none; drop one of them")
    if given.format == "jsonl" and given.output is not None and given.output.suffix == ".html":
        raise RecipeError("--format jsonl: --output ends with .html, which is a page; drop one of them")
    require_least(given, top=1)


def _orderings(index: PassageIndex, given: Arguments) -> tuple[Ordering, ...]:
    """Those that were asked for; of `all`, those that the index has."""
    from heedful.retrieval.orders import ORDERINGS

    if given.by == "all" or (given.by is None and given.measure is not None):
        return ORDERINGS if index.has_vectors else ("bm25",)
    return (given.by or ("product" if index.has_vectors else "bm25"),)


def _found(index: PassageIndex, given: Arguments) -> Iterator[Found]:
    from heedful.cli.found import found
    from heedful.tasks.faces import chunked
    from heedful.tasks.spans.face import Answerer

    orderings, answerer = _orderings(index, given), None
    if given.answers is not None:
        own = replace(given.computing, adapter=None)  # which is that of the encoder
        answerer = own.load(Answerer, given.answers, use="answers questions")
    lines = iter(given.query) if given.query else read_or_typed(given.input)
    size = 1 if not given.query and is_typed(given.input) else _CHUNK
    for part in chunked(lines, size):
        for query, orders in zip(part, index.compare(part, top=given.top, orderings=orderings), strict=True):
            yield found(query, orders, telling=index.telling(query), answerer=answerer)


def _measure(index: PassageIndex, path: Path, given: Arguments) -> None:
    from heedful.cli.progress import Counting
    from heedful.inspection.page import Table, html_page
    from heedful.retrieval.collection import judged_questions
    from heedful.retrieval.measure import FIRST, measure_search

    with Counting("questions") as tick:
        measured, count = measure_search(index, judged_questions(path), orderings=_orderings(index, given), tick=tick)
    columns = ["ordering", *(f"recall@{first}" for first in FIRST), "MRR"]
    rows = [
        [each.ordering, *(f"{100 * each.recall[first]:.1f}" for first in FIRST), f"{each.mrr:.3f}"] for each in measured
    ]
    title = f"{count:,} questions of {path.name}, {len(index):,} passages"
    with destination(given.output) as out:
        if given.format == "jsonl":
            content = {"questions": count, "passages": len(index), "orderings": [asdict(each) for each in measured]}
            out.write(json.dumps(content) + "\n")
        elif given.output is not None and given.output.suffix == ".html":
            out.write(html_page(title, tables=[Table("", columns, rows)], pictures=[]))
        else:
            out.write(Table(title, columns, rows).text())
