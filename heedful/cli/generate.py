"""`heedful generate`: a language model goes on where a prompt ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Literal

from heedful.cli.arguments import Computing, MaybeInt, MaybePath, PositionalPath, TextsBehind, parse, require_least
from heedful.cli.grammar import Formerly
from heedful.cli.lines import answer, is_typed, read_or_typed
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
    prompt: TextsBehind = ()
    """what to continue, one or several; nothing begins a document; it may also stand behind the run"""
    input: Annotated[MaybePath, Formerly("--prompts-file")] = None
    """file with a prompt on each line, plain or gzipped; - is standard input"""
    output: MaybePath = None
    """file for the results; standard output if not given"""
    searching: WritingOptions = field(default_factory=WritingOptions)
    complete: bool = False
    """complete the last word of each prompt, unless a space stands behind it"""
    n_best: Annotated[int, Formerly("--samples")] = 1
    """continuations of each prompt"""
    seed: int = 1
    """of sampling"""
    format: Literal["text", "jsonl"] = "text"
    """plain text, or JSON with scores"""
    step: MaybeInt = None
    """a kept checkpoint instead of the finished model"""
    computing: Computing = field(default_factory=Computing)


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful generate")
    require_least(given, n_best=1)
    if given.prompt and given.input is not None:
        raise RecipeError("--prompt and --input: give one of them")

    from heedful.generation.search import Greedy, Sampling
    from heedful.tasks.language.face import Writer
    from heedful.tasks.searches import build_continuation

    prompts = _prompts(given)
    writer = given.computing.load(Writer, given.run, use="writes", step=given.step)
    config = given.searching.config(writer.generation)
    search, limit = build_continuation(config, writer.tokenizer.special, n=given.n_best, seed=given.seed)
    writer.limit, writer.stop = limit, config.stop
    alone = given.input is None and len(given.prompt) <= 1 and given.n_best == 1
    told = _noted(writer, prompts)
    if alone and given.format == "text" and isinstance(search, Greedy | Sampling):
        _stream(writer, next(told), search=search, given=given)
        return 0
    # whoever types waits for an answer to each line
    typed = given.input is not None and is_typed(given.input)
    lines = replace(writer.lines(), search=search, complete=given.complete)
    return answer(lines, told, output=given.output, as_json=given.format == "jsonl", chunk=1 if typed else None)


def _prompts(given: Arguments) -> Iterator[str]:
    """A file is looked for at once."""
    if given.input is None:
        return iter(given.prompt or ("",))
    return read_or_typed(given.input)


def _noted(writer: Writer, prompts: Iterator[str]) -> Iterator[str]:
    """The prompts; says what of long ones is not read."""
    for number, prompt in enumerate(prompts, 1):
        if lost := writer.forgotten(prompt):
            say(
                f"heedful generate: prompt {number} is too long for the model's {writer.max_context:,} positions; "
                f"its first {lost:,} tokens are not read"
            )
        yield prompt


def _stream(writer: Writer, prompt: str, *, search: Greedy | Sampling, given: Arguments) -> None:
    with destination(given.output) as out:
        out.write(prompt)
        for piece in writer.stream(prompt, search=search, complete=given.complete):
            out.write(piece)
            out.flush()
        out.write("\n")
        out.flush()
