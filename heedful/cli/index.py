"""`heedful index`: build a searchable index of passages."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from heedful.cli.arguments import (
    DeviceOptions,
    PositionalPath,
)
from heedful.cli.output import log
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.retrieval.passages import PassageReader


@dataclass(frozen=True)
class IndexArguments:
    """Build an index of passages for `heedful search`, by words (BM25) and, with --model, by vectors.

    The file name determines the format: .json is the format of SQuAD (its contexts), .jsonl has an object on each line,
    .tsv has columns, and any other file has a passage on each line; each may be gzipped.
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

    suffix = Path(args.passages.name.lower().removesuffix(".gz")).suffix
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
