"""The options that name parallel text; shared by the commands that compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from heedful.cli.arguments import MaybePath
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.data.readers import Pair, Reader


@dataclass(frozen=True)
class TextOptions:
    """Which sentences and translations."""

    source: MaybePath = None
    """file of source sentences, one a line, plain or gzipped"""
    target: MaybePath = None
    """file of their translations, line by line"""
    data: MaybePath = None
    """instead of both, a TSV file (source, tab, target) or a JSONL file (fields source and target)"""

    @property
    def named(self) -> bool:
        """Whether any text was named at all."""
        return not (self.source is None and self.target is None and self.data is None)

    def reader(self) -> Reader[Pair]:
        """The parallel text that was named.

        Raises:
            RecipeError: nothing was named, or too much.
        """
        from heedful.data.readers import JsonLines, LineAligned, TabSeparated

        if self.data is not None and self.source is None and self.target is None:
            name = self.data.name.removesuffix(".gz")
            return JsonLines(self.data) if name.endswith((".jsonl", ".ndjson")) else TabSeparated(self.data)
        if self.data is None and self.source is not None and self.target is not None:
            return LineAligned(self.source, self.target)
        raise RecipeError("text: give --source and --target, or --data with a TSV or JSONL file")
