"""The options that name parallel text, and those of the commands that measure runs by it or by a text of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from heedful.cli.arguments import Computing, MaybePath, require_least
from heedful.cli.searching import SearchOptions
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.data.readers import Pair, Reader
    from heedful.metrics.bootstrap import Sampling
    from heedful.tasks.exam import Asking


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


@dataclass(frozen=True, kw_only=True)
class MeasuringOptions:
    """What systems are asked, and how their answers are compared."""

    text: TextOptions = TextOptions()
    lowercase: bool = False
    """compare lowercased text"""
    tokenize: str = "13a"
    """how BLEU cuts words (13a, intl, zh, ja-mecab, char, none)"""
    searching: SearchOptions = field(default_factory=SearchOptions)
    samples: int = 1000
    """corpora, or sets of examples, drawn for confidence intervals and the paired bootstrap"""
    seed: int = 1
    """of the bootstrap"""
    computing: Computing = field(default_factory=Computing)

    def __post_init__(self) -> None:
        require_least(self, samples=1, seed=0)

    def asking(self, **further: Any) -> Asking:
        """What a user wants of an exam; `further` are those of its parts that one command alone has."""
        from heedful.tasks.exam import Asking

        text = self.text.reader() if self.text.named else None
        search = None if self.searching == SearchOptions() else self.searching.config
        return Asking(text=text, lowercase=self.lowercase, tokenize=self.tokenize, search=search, **further)

    def sampling(self) -> Sampling:
        """What is drawn for intervals and tests."""
        from heedful.metrics.bootstrap import Sampling

        return Sampling(self.samples, self.seed)
