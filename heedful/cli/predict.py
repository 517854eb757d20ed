"""`heedful predict`: lines in, what the model of a run says of them out, whatever its task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from heedful.cli.arguments import parse
from heedful.cli.lines import TextOptions


@dataclass(frozen=True, kw_only=True)
class Arguments(TextOptions):
    """Answer lines as the task of a run does: translations of sentences, tags of words, labels of texts.

    Commands such as `heedful translate` and `heedful tag` do the same with more options; this one also serves tasks
    that installed packages have added.
    """

    format: Literal["text", "jsonl"] = "text"
    """as people read it, or JSON with all that the model says"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful predict")

    from heedful.tasks.faces import Face

    return given.serve(Face, use="answers lines", as_json=given.format == "jsonl")  # type: ignore[type-abstract]  # any
