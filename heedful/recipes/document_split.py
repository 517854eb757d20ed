"""Splitting of data by whole documents, which end at empty lines or are named in a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heedful.data.detect.format import DetectedDataset
from heedful.data.detect.parallel import DetectedColumnPair, DetectedLineFiles
from heedful.data.detect.parquet import DetectedParquet
from heedful.errors import RecipeError
from heedful.recipes.dataset_proposals import DatasetProposal
from heedful.recipes.reference import list_keys


def keep_documents_whole(proposal: DatasetProposal, *, blank_lines: bool, column: str | None) -> DatasetProposal:
    """Return the proposal with data that are split by whole documents.

    Args:
        proposal: the proposed task and data.
        blank_lines: whether empty lines end documents.
        column: the column of a table that names the document.

    Raises:
        RecipeError: this task or form of data has no such documents.
    """
    if not blank_lines and column is None:
        return proposal
    option, dataset = "--documents" if blank_lines else "--document-column", proposal.dataset
    if all(key.path != "data.train.document_column" for key in list_keys(proposal.task)):
        raise RecipeError(f'{option}: task = "{proposal.task}" has no documents; leave it out')
    if blank_lines and column is not None:
        raise RecipeError(
            "--documents, --document-column: empty lines end documents, or a column names them; give one of them"
        )
    if isinstance(dataset, DetectedLineFiles) and blank_lines:
        return replace(proposal, dataset=replace(dataset, has_documents=True))
    if isinstance(dataset, DetectedColumnPair) and column is not None:
        column_names = [table.find_column(column, option=option).name for table in dataset.tables.values()]
        _require_other_column(column_names[0], dataset.columns)
        return replace(proposal, dataset=replace(dataset, document_column=column_names[0]))
    if isinstance(dataset, DetectedParquet) and column is not None:
        _require_other_column(column, dataset.columns)
        return replace(proposal, dataset=replace(dataset, document_column=column))
    if blank_lines and isinstance(dataset, DetectedColumnPair | DetectedParquet):
        raise RecipeError("--documents: is for two files; for a table, give the column: --document-column NAME")
    if isinstance(dataset, DetectedLineFiles):
        raise RecipeError("--document-column: is for tables; in two files empty lines end documents: --documents")
    raise RecipeError(f"{option}: {dataset.format_description}, which do not mark documents; leave it out")


def list_document_options(dataset: DetectedDataset) -> list[str]:
    """Return the command-line options with which the written parts are read by documents again."""
    match dataset:
        case DetectedLineFiles(has_documents=True):
            return ["--documents"]
        case DetectedColumnPair(document_column=str(column)):
            table = dataset.tables[dataset.present_parts[0]]
            name = "document" if dataset.as_json else column if table.is_json else str(table.get_column_index(column))
            return ["--document-column", name]
        case DetectedParquet(document_column=str(column)):
            return ["--document-column", column]
    return []


def _require_other_column(column: str, columns: Sequence[str]) -> None:
    """Raise `RecipeError` if the document column is also a text column."""
    if column in columns:
        raise RecipeError(f"--document-column: {column} contains the text to translate; give another column")
