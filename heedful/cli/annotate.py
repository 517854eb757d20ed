"""`heedful annotate`: parallel text with glossary terms written into its sources."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from heedful.cli.arguments import OutputPath, PositionalPaths
from heedful.cli.options import ParallelTextOptions
from heedful.cli.output import wrap_write_errors
from heedful.errors import DataError, RecipeError

_STREAM: Final = 0x7465726D
"""Separates these random numbers from others that depend on the same seed."""


@dataclass(frozen=True, kw_only=True)
class AnnotateArguments:
    """Write the terms of a glossary into the sources of parallel text, so that a model learns to use them.

    If a source term occurs in a sentence and its target in the translation, perhaps with another ending, the target is
    written after it, between marks (Dinu et al. 2019). A model trained on this text uses terms that it has never seen:

        heedful translate RUN --glossary terms.tsv --annotate append
    """

    files: PositionalPaths
    """TSV (source, tab, target) or JSONL (fields source and target), or two files line by line, the source first"""
    glossary: Path
    """TSV file of source term, tab, target term"""
    output: OutputPath
    """TSV file for all pairs, with and without terms"""
    share: float = 0.1
    """share of the pairs with terms that are annotated; the others stay unchanged, to be translated without terms"""
    way: Literal["append", "replace"] = "append"
    """write a term after its source, or in its place"""
    seed: int = 1
    """seed of this choice"""
    overwrite: bool = False
    """replace an existing output"""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise RecipeError(f"--share: {self.share:g}; must be above 0, and at most 1")
        if self.seed < 0:
            raise RecipeError(f"--seed: {self.seed}; must be at least 0")
        if len(self.files) > 2:
            raise RecipeError(f"{self.files[2]}: pairs are in one file or in two; give at most two files")
        for file in (*self.files, self.glossary):
            if self.output.exists() and file.exists() and self.output.samefile(file):
                raise RecipeError(f"--output: {self.output} is read as well; choose another file")
        if self.output.exists() and not self.overwrite:
            raise RecipeError(f"{self.output}: already exists; choose another --output, or add --overwrite")

    def execute(self) -> int:
        """Run the command; return the exit code."""
        from heedful.data.detect.part_writers import LinePartWriter
        from heedful.data.random_numbers import SeededRandom
        from heedful.tasks.predictor import escape_cell
        from heedful.tasks.translation.glossary import TermAnnotator, TermGlossary

        first_file, *other_files = self.files
        reader = (
            ParallelTextOptions(source=first_file, target=other_files[0])
            if other_files
            else ParallelTextOptions(data=first_file)
        ).build_reader()
        annotation = TermAnnotator(TermGlossary.from_file(self.glossary), self.way)
        pairs = num_with_terms = num_annotated = 0
        with wrap_write_errors(self.output, "--output"), LinePartWriter(self.output) as saver:
            for pairs, pair in enumerate(reader, 1):
                source = annotation.annotate_source(pair.source, pair.target)
                if source != pair.source:
                    num_with_terms += 1
                    is_annotated = SeededRandom(self.seed, _STREAM, pairs).next_float() < self.share
                    num_annotated += is_annotated
                    source = source if is_annotated else pair.source
                saver.write_example(f"{escape_cell(source)}\t{escape_cell(pair.target)}")
            if not pairs:
                raise DataError(f"{first_file}: contains no pair; check the file")
        print(
            f"written: {self.output}, {pairs:,} pairs; {num_with_terms:,} have terms, and {num_annotated:,} were "
            "annotated"
        )
        return 0
