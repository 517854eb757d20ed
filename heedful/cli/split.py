"""`heedful split`: split off validation and test parts by the content of the texts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from heedful.cli.arguments import OptionalText, OutputPath, PositionalPaths, parse_arguments
from heedful.cli.option_parser import OptionInfo
from heedful.cli.output import log, require_named_files, require_unused_paths, wrap_write_errors
from heedful.errors import DataError, RecipeError

_MAX_EXAMPLES: Final = 50_000
"""Largest number of examples of a part; that many texts are kept in memory, and some more."""


@dataclass(frozen=True, kw_only=True)
class SplitArguments:
    """Split off validation and test parts; examples with the same text go to the same part.

    The choice depends only on the texts. Neither the order of the lines nor other texts matter. So if the data grow,
    the held-out texts stay held out, as far as the sizes of the parts allow.

        heedful split pairs.tsv -o parts --test 0
    """

    files: PositionalPaths
    """text, TSV, CSV, JSONL, CoNLL-U or SQuAD's JSON, plain or gzipped; for translation two files, or one"""
    output: OutputPath
    """folder for the parts"""
    validation: int = 1000
    """maximum number of examples for validation"""
    test: int = 1000
    """maximum number of examples for test; 0 for none"""
    task: OptionalText = None
    """the task, if it is not the one that the files suggest"""
    columns: Annotated[tuple[str, ...], OptionInfo(metavar="NAME")] = ()
    """columns of a table, by name or counted from 0; see heedful new --help"""
    documents: bool = False
    """for two files: lines that are empty in both files end documents, which are not split"""
    document_column: OptionalText = None
    """column of a table, by name or counted from 0, that names the document of each pair; documents are not split"""
    overwrite: bool = False
    """replace existing parts"""

    def __post_init__(self) -> None:
        for name, minimum in (("validation", 1), ("test", 0)):
            if not minimum <= getattr(self, name) <= _MAX_EXAMPLES:
                raise RecipeError(f"--{name}: {getattr(self, name)}; must be from {minimum} to {_MAX_EXAMPLES:,}")


def run(argv: Sequence[str]) -> int:
    """Run `heedful split`, which splits off validation and test parts, and return its exit code."""
    args = parse_arguments(SplitArguments, argv, program="heedful split")
    from heedful.data.detect.file_names import DatasetPart
    from heedful.data.detect.hash_sample import DatasetSplitter
    from heedful.data.detect.registry import sniff_file
    from heedful.data.detect.split import build_plan, write_parts
    from heedful.recipes.dataset_proposals import keep_documents_whole, propose_datasets

    require_named_files(args.files)
    proposal = propose_datasets([sniff_file(file) for file in args.files], task=args.task, columns=args.columns)[0]
    dataset = keep_documents_whole(proposal, blank_lines=args.documents, column=args.document_column).dataset
    if dataset.present_parts != ("train",):
        raise RecipeError(
            f"{', '.join(map(str, args.files))}: are already parts, by their names "
            f"({', '.join(dataset.present_parts)}); give files that are not split"
        )
    log(f"read as: {proposal.task}, {dataset.learning_description}")
    sizes: dict[DatasetPart, int] = {"validation": args.validation}
    if args.test:
        sizes["test"] = args.test
    split_plan = build_plan(dataset, args.output, list(sizes))
    require_unused_paths(
        split_plan.paths, sources=args.files, overwrite=args.overwrite, remedy="choose another --output"
    )
    splitter, num_examples = DatasetSplitter(), 0
    for example in dataset.read_examples("train"):
        num_examples += not dataset.is_document_end(example)
        if dataset.is_usable(example) and not dataset.is_document_end(example):
            splitter.add_example(example.split_keys)
    if sum(sizes.values()) > num_examples // 2:
        raise DataError(
            f"{dataset.get_first_file('train')}: has {num_examples:,} {dataset.noun}, and "
            f"{' and '.join(f'{n:,}' for n in sizes.values())} "
            "would leave less than half for training; take fewer"
        )
    with wrap_write_errors(args.output, "--output"):
        args.output.mkdir(parents=True, exist_ok=True)
        counts = write_parts(split_plan, dataset, splitter, {"train": num_examples}, sizes=sizes)
    for part, saver in split_plan.writers.items():
        print(f"{part}: {counts[part]:,} {dataset.noun} in {' '.join(map(str, saver.paths))}")
    print(f"next: {shlex.join(['heedful', 'new', *map(str, split_plan.paths), *dataset.document_options])}")
    return 0
