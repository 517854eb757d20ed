"""Data that are split by whole documents: empty lines end them, or a column of a table names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heedful.data.forms.form import Found
from heedful.data.forms.parallel import ColumnsFound, LinesFound
from heedful.data.forms.parquet import ParquetFound
from heedful.errors import RecipeError
from heedful.recipes.proposals import Proposal
from heedful.recipes.reference import keys_of


def by_documents(chosen: Proposal, *, ended: bool, column: str | None) -> Proposal:
    """The same data, of which a document is in one part.

    Args:
        chosen: what the files are for.
        ended: whether lines that are empty end documents.
        column: that names them, of a table.

    Raises:
        RecipeError: this task or form of data has no documents of this kind.
    """
    if not ended and column is None:
        return chosen
    option, found = "--documents" if ended else "--document-column", chosen.found
    if all(key.path != "data.train.document_column" for key in keys_of(chosen.task)):
        raise RecipeError(f'{option}: task = "{chosen.task}" knows no documents; leave it away')
    if ended and column is not None:
        raise RecipeError("--documents, --document-column: lines end documents, or a column names them; give one")
    if isinstance(found, LinesFound) and ended:
        return replace(chosen, found=replace(found, documents=True))
    if isinstance(found, ColumnsFound) and column is not None:
        named = [table.column(column, option=option).name for table in found.tables.values()]
        _require_another(named[0], found.columns)
        return replace(chosen, found=replace(found, document=named[0]))
    if isinstance(found, ParquetFound) and column is not None:
        _require_another(column, found.columns)
        return replace(chosen, found=replace(found, document=column))
    if ended and isinstance(found, ColumnsFound | ParquetFound):
        raise RecipeError("--documents: is for two files; of a table name the column: --document-column NAME")
    if isinstance(found, LinesFound):
        raise RecipeError("--document-column: is for tables; in two files empty lines end documents: --documents")
    raise RecipeError(f"{option}: {found.seen}, which tell no documents; leave it away")


def asked_again(found: Found) -> list[str]:
    """The options by which parts that were written are read by documents too."""
    match found:
        case LinesFound(documents=True):
            return ["--documents"]
        case ColumnsFound(document=str(column)):
            table = found.tables[found.present[0]]
            name = "document" if found.as_json else column if table.fields else str(table.number(column))
            return ["--document-column", name]
        case ParquetFound(document=str(column)):
            return ["--document-column", column]
    return []


def _require_another(column: str, columns: Sequence[str]) -> None:
    if column in columns:
        raise RecipeError(f"--document-column: {column} is what is translated; name another column")
