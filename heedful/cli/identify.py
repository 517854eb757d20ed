"""`heedful identify`: the language of each text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from heedful.cli.arguments import PositionalPath, TextsOrPositionals, parse_arguments
from heedful.cli.line_commands import LineOptions


@dataclass(frozen=True, kw_only=True)
class IdentifyArguments(LineOptions):
    """Identify which of the languages of a translation run each text is in, with the probability.

    A run knows the languages that its recipe names, `source_language` and `target_language`; a text in another language
    is assigned to the most similar one.
    """

    run: PositionalPath
    """run folder of a translation model"""
    text: TextsOrPositionals = ()
    """texts instead of a file; they may also follow the run, without the option"""
    format: Literal["columns", "jsonl"] = "columns"
    """the language, a tab and its probability on each line, or JSON; a text without letters has no language"""

    def read_lines(self) -> Iterator[str]:
        """Return the given texts, from the command line or the input."""
        return iter(self.text) if self.text else super().read_lines()


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    args = parse_arguments(IdentifyArguments, argv, program="heedful identify")
    texts = args.read_lines()
    from heedful.tasks.translation.languages import LanguageLineFormat, load_run_profiles

    line_format = LanguageLineFormat(load_run_profiles(args.run))
    return args.write_answers(
        line_format, line_format.parse_lines(texts, source_name=args.input_name), as_json=args.format == "jsonl"
    )
