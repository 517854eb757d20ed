"""`heedful index` and `heedful search`: build an index of passages, and find passages by words, by vectors and by
both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from heedful.cli.arguments import (
    DeviceOptions,
    PositionalPath,
    TextsOrPositionals,
    require_minimum,
)
from heedful.cli.line_commands import is_interactive, open_lines
from heedful.cli.option_parser import RenamedFrom
from heedful.cli.output import log, open_output
from heedful.compression import strip_compression_suffix
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.cli.search_output import QueryResults
    from heedful.retrieval.index import PassageIndex
    from heedful.retrieval.passages import PassageReader
    from heedful.retrieval.rankings import Ordering


@dataclass(frozen=True)
class IndexArguments:
    """Build an index of passages for `heedful search`, by words (BM25) and, with --model, by vectors.

    The file name determines the format: .json is the format of SQuAD (its contexts), .jsonl has an object on each line,
    .tsv has columns, and any other file has a passage on each line; each may be compressed.
    """

    index: PositionalPath
    """folder to write"""
    passages: PositionalPath
    """file of passages"""
    model: Path | None = None
    """folder of a model with an encoder, a run or a Hugging Face folder; without it, only words are indexed"""
    text_field: str | None = None
    """for .jsonl: field of the text ("text" if not given)"""
    title_field: str | None = None
    """for .jsonl: field of the title, if there is one ("title" if not given)"""
    id_field: str | None = None
    """for .jsonl: field of the id ("id" if not given); lines without it are identified by their number"""
    text_column: int | None = None
    """for .tsv: column of the text, from 0 (0 if not given)"""
    title_column: int | None = None
    """for .tsv: column of the title; no titles if not given"""
    id_column: int | None = None
    """for .tsv: column of the id; lines are identified by their number if not given"""
    rebuild: bool = False
    """replace an existing index"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)

    def execute(self) -> int:
        """Run the command; return the exit code."""
        from heedful.cli.progress import CountingProgress
        from heedful.retrieval.index_folder import build_index
        from heedful.runs.load import load_embedder

        self.computing.set_num_threads()
        passages = _build_passage_reader(self)
        encoder = None
        if self.model is None and self.computing.adapter is not None:
            raise RecipeError("--adapter: is for the encoder, but no encoder is given; give --model too")
        if self.model is not None:
            encoder = load_embedder(self.model, **self.computing.load_kwargs)
        with CountingProgress("vectors") as on_progress:
            built_index = build_index(
                self.index,
                passages,
                encoder=encoder,
                model=self.model,
                rebuild=self.rebuild,
                on_progress=on_progress,
                log=log,
            )
        if built_index.cut:
            log(
                f"{built_index.cut:,} of them are longer than the model reads: their vectors cover only the beginning, "
                "the search by words covers all; cut long texts into shorter passages for better results"
            )
        log(f"written: {self.index}")
        return 0


def _build_passage_reader(args: IndexArguments) -> PassageReader:
    """Build the reader of the passages from the file name and the options."""
    from heedful.retrieval.passages import PassageColumns, PassageLines, PassageObjects, SquadPassages, is_json_file

    suffix = Path(strip_compression_suffix(args.passages.name.lower())).suffix
    option_kind = {".jsonl": "field", ".tsv": "column"}.get(suffix)
    for name in ("text_field", "title_field", "id_field", "text_column", "title_column", "id_column"):
        if getattr(args, name) is not None and not name.endswith(str(option_kind)):
            ending = ".jsonl" if name.endswith("field") else ".tsv"
            raise RecipeError(
                f"--{name.replace('_', '-')}: {args.passages.name} does not have this; the option is for files that "
                f"end with {ending}"
            )
    if option_kind == "field":
        return PassageObjects(
            args.passages,
            text_field=args.text_field or "text",
            title_field=args.title_field or "title",
            id_field=args.id_field or "id",
        )
    if option_kind == "column":
        return PassageColumns(
            args.passages, text_column=args.text_column or 0, title_column=args.title_column, id_column=args.id_column
        )
    return SquadPassages(args.passages) if is_json_file(args.passages) else PassageLines(args.passages)


_BATCH_SIZE = 64


@dataclass(frozen=True)
class SearchArguments:
    """Find the passages that answer questions: by words (bm25), by vectors (encoder), or by both (product).

    The answer is marked in a passage if --answers names a model for that; otherwise the words of the question are
    marked that at most half of the passages contain.
    """

    index: PositionalPath
    """folder made by heedful index"""
    query: TextsOrPositionals = ()
    """questions, instead of a file; they may also follow the index, without the option"""
    input: Annotated[Path | None, RenamedFrom("--queries")] = None
    """file with a question on each line, plain or compressed; standard input if not given or -"""
    top: int = 10
    """number of passages to show"""
    by: Literal["bm25", "encoder", "product", "all"] | None = None
    """ordering, or all three next to each other; by default product if the index has vectors, otherwise bm25"""
    answers: Path | None = None
    """folder of a model that answers questions (task "spans"), whose answers are marked"""
    measure: Path | None = None
    """file of questions with known passages: reports recall and mean reciprocal rank of each ordering, and no passages;
    JSON with "question" and "passages" (ids) on each line, or .json in the format of SQuAD"""
    model: Path | None = None
    """folder of the encoder, if it was moved after the index was made"""
    output: Path | None = None
    """file for the results, a page if it ends with .html; standard output if not given"""
    format: Literal["text", "jsonl"] = "text"
    """plain text, or JSON with all scores and positions, a line for each question"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)

    def execute(self) -> int:
        """Run the command; return the exit code."""
        _check_search_arguments(self)

        from heedful.retrieval.index import load_index

        self.computing.set_num_threads()
        index = load_index(self.index, model=self.model, **self.computing.load_kwargs)
        if self.measure is not None:
            _measure_search(index, self.measure, self)
            return 0
        results = _search_questions(index, self)
        if self.output is not None and self.output.suffix == ".html":
            from heedful.atomic_io import atomic_replace
            from heedful.cli.search_output import render_page

            page_html = render_page(list(results), name=str(self.index))
            with atomic_replace(self.output) as temporary_file:
                temporary_file.write_text(page_html, encoding="utf-8")
            return 0
        with open_output(self.output) as out:
            for result in results:
                if self.format == "jsonl":
                    out.write(result.to_json() + "\n")
                else:
                    result.print_table(out.stream)
                out.flush()
        return 0


def _check_search_arguments(args: SearchArguments) -> None:
    """Raise `RecipeError` if two inputs are given, or --answers with --measure, or JSON for a page."""
    given_inputs = [name for name in ("query", "input", "measure") if getattr(args, name)]
    if len(given_inputs) > 1:
        raise RecipeError(f"--{given_inputs[0]} and --{given_inputs[1]}: give one of them")
    if args.measure is not None and args.answers is not None:
        raise RecipeError("--answers: marks passages, but --measure shows none; leave one of them out")
    if args.format == "jsonl" and args.output is not None and args.output.suffix == ".html":
        raise RecipeError("--format jsonl: --output ends with .html, which is a page; leave one of them out")
    require_minimum(args, top=1)


def _choose_orderings(index: PassageIndex, args: SearchArguments) -> tuple[Ordering, ...]:
    """Return the requested orderings; for `all`, and by default to measure, those that the index supports. Otherwise
    the default is product if the index has vectors, else bm25.
    """
    from heedful.retrieval.rankings import ORDERINGS

    if args.by == "all" or (args.by is None and args.measure is not None):
        return ORDERINGS if index.has_vectors else ("bm25",)
    return (args.by or ("product" if index.has_vectors else "bm25"),)


def _search_questions(index: PassageIndex, args: SearchArguments) -> Iterator[QueryResults]:
    """Search the index for each question that is given, and yield the ranked passages with marks."""
    from heedful.cli.search_output import mark_results
    from heedful.tasks.predictor import iter_chunks
    from heedful.tasks.spans.predictor import QuestionAnsweringPredictor

    orderings, answerer = _choose_orderings(index, args), None
    if args.answers is not None:
        options_without_adapter = replace(args.computing, adapter=None)  # the adapter belongs to the encoder
        answerer = options_without_adapter.load_predictor(
            QuestionAnsweringPredictor, args.answers, use="answers questions"
        )
    questions = iter(args.query) if args.query else open_lines(args.input)
    batch_size = 1 if not args.query and is_interactive(args.input) else _BATCH_SIZE
    for batch in iter_chunks(questions, batch_size):
        for query, orders in zip(batch, index.compare_orderings(batch, top=args.top, orderings=orderings), strict=True):
            yield mark_results(query, orders, informative_words=index.select_rare_terms(query), answerer=answerer)


def _measure_search(index: PassageIndex, path: Path, args: SearchArguments) -> None:
    """Print recall and mean reciprocal rank of each ordering of the index, for the questions in a file."""
    from heedful.cli.progress import CountingProgress
    from heedful.inspection.page import PageTable, render_html_page
    from heedful.retrieval.index import RECALL_CUTOFFS, measure_search
    from heedful.retrieval.passages import read_judged_questions

    with CountingProgress("questions") as on_progress:
        measurements, count = measure_search(
            index, read_judged_questions(path), orderings=_choose_orderings(index, args), on_progress=on_progress
        )
    columns = ["ordering", *(f"recall@{depth}" for depth in RECALL_CUTOFFS), "MRR"]
    rows = [
        [
            measurement.ordering,
            *(f"{100 * measurement.recall[depth]:.1f}" for depth in RECALL_CUTOFFS),
            f"{measurement.mrr:.3f}",
        ]
        for measurement in measurements
    ]
    title = f"{count:,} questions of {path.name}, {len(index):,} passages"
    with open_output(args.output) as out:
        if args.format == "jsonl":
            content = {
                "questions": count,
                "passages": len(index),
                "orderings": [asdict(measurement) for measurement in measurements],
            }
            out.write(json.dumps(content) + "\n")
        elif args.output is not None and args.output.suffix == ".html":
            out.write(render_html_page(title, tables=[PageTable("", columns, rows)], pictures=[]))
        else:
            out.write(PageTable(title, columns, rows).format_text())
