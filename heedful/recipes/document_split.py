"""Splitting of data by whole documents, which end at empty lines or are named in a column."""

from __future__ import annotations

from dataclasses import replace

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
    option = "--documents" if blank_lines else "--document-column"
    if all(key.path != "data.train.document_column" for key in list_keys(proposal.task)):
        raise RecipeError(f'{option}: task = "{proposal.task}" has no documents; leave it out')
    if blank_lines and column is not None:
        raise RecipeError(
            "--documents, --document-column: empty lines end documents, or a column names them; give one of them"
        )
    return replace(proposal, dataset=proposal.dataset.keep_documents_whole(blank_lines=blank_lines, column=column))
