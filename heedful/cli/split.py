"""`heedful split`: parts for validation and test, held out by what their texts say."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import tyro

from heedful.cli.arguments import MaybeText, PositionalPaths, parse
from heedful.cli.output import say, writing
from heedful.errors import DataError, RecipeError

_MOST: Final = 50_000
"""Examples of a part; so many texts are remembered, and some more."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Take parts for validation and test out of data: what has the same text goes to the same part.

    Which texts they are is decided by the texts alone. Neither the order of the lines nor other texts matter, so when
    the data grow, what was held out stays so as far as there is room. heedful split pairs.tsv -o parts --test 0
    """

    files: Annotated[PositionalPaths, tyro.conf.arg(metavar="FILE")]
    """text, TSV, CSV, JSONL, CoNLL-U or SQuAD's JSON, plain or gzipped; for translation two files, or one"""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="PATH")]
    """folder for the parts"""
    validation: int = 1000
    """examples for validation, at most"""
    test: int = 1000
    """examples for test, at most; 0 for none"""
    task: MaybeText = None
    """what is to be learned, where it is not what the files look like"""
    columns: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = ()
    """of a table, by name or counted from 0; see heedful new"""
    documents: bool = False
    """of two files: lines that are empty in both end documents, and these stay whole"""
    document_column: MaybeText = None
    """of a table, by name or counted from 0: says of which document a pair is, and documents stay whole"""
    overwrite: bool = False
    """replace parts that are there already"""

    def __post_init__(self) -> None:
        for name, least in (("validation", 1), ("test", 0)):
            if not least <= getattr(self, name) <= _MOST:
                raise RecipeError(f"--{name}: {getattr(self, name)}; must be from {least} to {_MOST:,}")


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful split")
    from heedful.data.forms.glance import glance
    from heedful.data.forms.naming import Part
    from heedful.data.forms.sketch import Splitter
    from heedful.data.forms.split import carry_out, planned
    from heedful.recipes.proposals import proposals
    from heedful.recipes.whole import asked_again, by_documents

    if any(str(file) == "-" for file in given.files):
        raise RecipeError("-: files are read more than once, and standard input cannot be; save it to a file first")
    chosen = proposals([glance(file) for file in given.files], task=given.task, columns=given.columns)[0]
    found = by_documents(chosen, ended=given.documents, column=given.document_column).found
    if found.present != ("train",):
        raise RecipeError(
            f"{', '.join(map(str, given.files))}: are parts already, by their names ({', '.join(found.present)}); name "
            "files that are whole"
        )
    say(f"read as: {chosen.task}, {found.taken}")
    sizes: dict[Part, int] = {"validation": given.validation}
    if given.test:
        sizes["test"] = given.test
    todo = planned(found, given.output, list(sizes))
    for path in todo.paths:
        if any(path.resolve() == file.resolve() for file in given.files):
            raise RecipeError(f"{path}: would be written over while it is read; choose another --output")
        if path.exists() and not given.overwrite:
            raise RecipeError(f"{path}: is there already; choose another --output, or add --overwrite")
    splitter, whole = Splitter(), 0
    for example in found.examples("train"):
        whole += not found.parts_documents(example)
        if found.usable(example) and not found.parts_documents(example):
            splitter.add(example.keys)
    if sum(sizes.values()) > whole // 2:
        raise DataError(
            f"{found.first('train')}: has {whole:,} {found.noun}, and {' and '.join(f'{n:,}' for n in sizes.values())} "
            "would leave less than half for training; take fewer"
        )
    with writing(given.output, "--output"):
        given.output.mkdir(parents=True, exist_ok=True)
        counts = carry_out(todo, found, splitter, {"train": whole}, sizes=sizes)
    for part, saver in todo.savers.items():
        print(f"{part}: {counts[part]:,} {found.noun} in {' '.join(map(str, saver.paths))}")
    print(f"next: {shlex.join(['heedful', 'new', *map(str, todo.paths), *asked_again(found)])}")
    return 0
