"""`heedful identify`: texts in, the language of each out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from heedful.cli.arguments import PositionalPath, TextsBehind, parse
from heedful.cli.lines import LineOptions


@dataclass(frozen=True, kw_only=True)
class Arguments(LineOptions):
    """Which of the languages of a translation run each text is in, and how probable that is.

    A run knows the languages that its recipe names, `source_language` and `target_language`; a text of any other is
    taken for the one that is most alike.
    """

    run: PositionalPath
    """run folder of a translation model"""
    text: TextsBehind = ()
    """texts instead of a file; they may also stand behind the run, without the option"""
    format: Literal["columns", "jsonl"] = "columns"
    """the language, a tab and its probability on each line, or JSON; a text without a letter has no language"""

    def read(self) -> Iterator[str]:
        """What was given, wherever it stands."""
        return iter(self.text) if self.text else super().read()


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful identify")
    texts = given.read()
    from heedful.tasks.translation.identified import IdentifiedLines, read_profiles

    lines = IdentifiedLines(read_profiles(given.run))
    return given.answer(lines, lines.inputs(texts, name=given.place), as_json=given.format == "jsonl")
