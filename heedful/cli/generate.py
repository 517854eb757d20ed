"""`heedful generate`: a language model goes on where a prompt ends."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from heedful.cli.arguments import Computing, MaybePath, PositionalPath, parse, require_least
from heedful.cli.lines import answer
from heedful.cli.options import WritingOptions
from heedful.cli.output import destination, say
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.generation.search import Greedy, Sampling
    from heedful.tasks.language.face import Writer


@dataclass(frozen=True)
class Arguments:
    """Continue a prompt with a language model; one continuation appears as it is written."""

    run: PositionalPath
    """run folder"""
    prompt: tuple[str, ...] = ()
    """what to continue, one or several; nothing begins a document"""
    prompts_file: MaybePath = None
    """file with a prompt on each line; - is standard input"""
    searching: WritingOptions = field(default_factory=WritingOptions)
    samples: int = 1
    """continuations of each prompt"""
    seed: int = 1
    """of sampling"""
    format: Literal["text", "jsonl"] = "text"
    """plain text, or JSON with scores"""
    computing: Computing = field(default_factory=Computing)


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful generate")
    require_least(given, samples=1)
    if given.prompt and given.prompts_file is not None:
        raise RecipeError("--prompt and --prompts-file: give one of them")

    from heedful.generation.search import Greedy, Sampling
    from heedful.tasks.language.face import Writer
    from heedful.tasks.searches import build_continuation

    prompts = _prompts(given)
    writer = given.computing.load(Writer, given.run, use="writes")
    config = given.searching.config(writer.generation)
    search, limit = build_continuation(config, writer.tokenizer.special, n=given.samples, seed=given.seed)
    writer.limit, writer.stop = limit, config.stop
    alone = given.prompts_file is None and len(given.prompt) <= 1 and given.samples == 1
    told = _noted(writer, prompts)
    if alone and given.format == "text" and isinstance(search, Greedy | Sampling):
        _stream(writer, next(told), search=search)
        return 0
    # whoever types waits for an answer to each line
    typed = str(given.prompts_file) == "-" and sys.stdin.isatty()
    lines = replace(writer.lines(), search=search)
    return answer(lines, told, as_json=given.format == "jsonl", chunk=1 if typed else None)


def _prompts(given: Arguments) -> Iterator[str]:
    """A file is looked for at once."""
    from heedful.data.readers import read_lines

    if given.prompts_file is None:
        return iter(given.prompt or ("",))
    return read_lines(sys.stdin.buffer if str(given.prompts_file) == "-" else given.prompts_file)


def _noted(writer: Writer, prompts: Iterator[str]) -> Iterator[str]:
    """The prompts; says what of long ones is not read."""
    for number, prompt in enumerate(prompts, 1):
        if lost := writer.forgotten(prompt):
            say(
                f"heedful generate: prompt {number} is too long for the model's {writer.max_context:,} positions; "
                f"its first {lost:,} tokens are not read"
            )
        yield prompt


def _stream(writer: Writer, prompt: str, *, search: Greedy | Sampling) -> None:
    with destination(None) as out:
        out.write(prompt)
        for piece in writer.stream(prompt, search=search):
            out.write(piece)
            out.flush()
        out.write("\n")
        out.flush()
