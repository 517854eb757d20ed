"""`heedful index`: passages in, a folder that can be searched out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from heedful.cli.arguments import Computing, MaybeInt, MaybePath, MaybeText, PositionalPath, parse
from heedful.cli.output import say
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.retrieval.collection import Passages


@dataclass(frozen=True)
class Arguments:
    """Make an index of passages for `heedful search`, by their words (BM25) and, with --model, by their vectors.

    The name of the file says how it is read: .json is SQuAD's form (its contexts), .jsonl has an object on each line,
    .tsv has columns, and any other a passage on each line; each may be gzipped.
    """

    index: PositionalPath
    """folder to make"""
    passages: PositionalPath
    """file of passages"""
    model: MaybePath = None
    """folder of a model with an encoder, a run or one of Hugging Face; words alone if not given"""
    text_field: MaybeText = None
    """of .jsonl: the field of the text ("text" if not given)"""
    title_field: MaybeText = None
    """of .jsonl: the field of the title, where there is one ("title" if not given)"""
    id_field: MaybeText = None
    """of .jsonl: the field of the id ("id" if not given); lines without it are called by their number"""
    text_column: MaybeInt = None
    """of .tsv: the column of the text, from 0 (0 if not given)"""
    title_column: MaybeInt = None
    """of .tsv: the column of the title; no titles if not given"""
    id_column: MaybeInt = None
    """of .tsv: the column of the id; lines are called by their number if not given"""
    rebuild: bool = False
    """replace the index that is there"""
    computing: Computing = field(default_factory=Computing)


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful index")

    from heedful.cli.progress import Counting
    from heedful.retrieval.folder import build_index
    from heedful.runs.load import load_embedder

    given.computing.begin()
    passages = _passages(given)
    encoder = None
    if given.model is None and given.computing.adapter is not None:
        raise RecipeError("--adapter: is put on the encoder, and none is named; give --model too")
    if given.model is not None:
        encoder = load_embedder(given.model, **given.computing.how)
    with Counting("vectors") as tick:
        made = build_index(
            given.index,
            passages,
            encoder=encoder,
            model=given.model,
            rebuild=given.rebuild,
            tick=tick,
            say=say,
        )
    if made.cut:
        say(
            f"{made.cut:,} of them are longer than the model reads: their vectors know the beginning only, their words "
            "are known in full; cut long texts into shorter passages for better results"
        )
    say(f"written: {given.index}")
    return 0


def _passages(given: Arguments) -> Passages:
    from heedful.retrieval.collection import PassageColumns, PassageLines, PassageObjects, SquadPassages, is_json

    plain = Path(given.passages.name.lower().removesuffix(".gz")).suffix
    kind = {".jsonl": "field", ".tsv": "column"}.get(plain)
    for name in ("text_field", "title_field", "id_field", "text_column", "title_column", "id_column"):
        if getattr(given, name) is not None and not name.endswith(str(kind)):
            ending = ".jsonl" if name.endswith("field") else ".tsv"
            raise RecipeError(
                f"--{name.replace('_', '-')}: {given.passages.name} has none; it is for files that end with {ending}"
            )
    if kind == "field":
        return PassageObjects(
            given.passages,
            text=given.text_field or "text",
            title=given.title_field or "title",
            id=given.id_field or "id",
        )
    if kind == "column":
        return PassageColumns(given.passages, text=given.text_column or 0, title=given.title_column, id=given.id_column)
    return SquadPassages(given.passages) if is_json(given.passages) else PassageLines(given.passages)
