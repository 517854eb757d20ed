"""`heedful generate`: a language model goes on where a prompt ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from heedful.cli.arguments import MaybeFloat, MaybeInt, MaybePath, MaybeText, parse
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.generation.search import Greedy, Sampling, Search
    from heedful.recipes.generation import ContinuationConfig
    from heedful.tasks.language.face import Writer

_TOGETHER = 32
"""Prompts that are written side by side."""


@dataclass(frozen=True)
class Arguments:
    """Continue a prompt with a language model; one continuation appears as it is written."""

    run: Annotated[Path, tyro.conf.Positional]
    """run folder"""
    prompt: tuple[str, ...] = ()
    """what to continue, one or several; nothing begins a document"""
    prompts_file: MaybePath = None
    """file with a prompt on each line; - is standard input"""
    search: Annotated[
        Literal["greedy", "sampling"] | None,
        tyro.conf.arg(metavar="{greedy,sampling}", help_behavior_hint=""),
    ] = None
    """how tokens are chosen; the recipe's way if not given"""
    temperature: MaybeFloat = None
    """of sampling: below 1 is bolder, above 1 more varied"""
    top_k: MaybeInt = None
    """sample from this many most probable tokens only"""
    top_p: MaybeFloat = None
    """sample from the fewest tokens with this probability together"""
    min_p: MaybeFloat = None
    """sample only tokens at least so many times as probable as the most probable one"""
    repetition_penalty: MaybeFloat = None
    """above 1 makes tokens less probable that were there before, in the prompt too"""
    stop: tuple[str, ...] = ()
    """end before the first of these strings, one or several; the recipe's if not given"""
    tokens: MaybeInt = None
    """longest continuation"""
    samples: int = 1
    """continuations of each prompt"""
    seed: int = 1
    """of sampling"""
    format: Literal["text", "jsonl"] = "text"
    """plain text, or JSON with scores"""
    device: MaybeText = None
    """where to compute; a GPU where there is one"""
    threads: MaybeInt = None
    """CPU threads"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful generate")
    _check(given)

    import torch

    from heedful.generation.search import Greedy, Sampling
    from heedful.runs.load import load_as
    from heedful.tasks.language.face import Writer
    from heedful.tasks.searches import build_continuation

    if given.threads is not None:
        torch.set_num_threads(given.threads)
    parts = _parts(given)
    writer = load_as(Writer, given.run, use="writes", device=given.device)
    config = _config(given, writer.generation)
    search, limit = build_continuation(config, writer.tokenizer.special, n=given.samples, seed=given.seed)
    writer.limit, writer.stop = limit, config.stop
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # pytest's stand-in lacks it
    alone = given.prompts_file is None and len(given.prompt) <= 1 and given.samples == 1
    done = 0
    for prompts in parts:
        _note(writer, prompts, first=done + 1)
        if alone and given.format == "text" and isinstance(search, Greedy | Sampling):
            _stream(writer, prompts[0], search=search)
        else:
            _write(writer, prompts, search=search, first=done, records=given.format == "jsonl")
        done += len(prompts)
    return 0


def _check(given: Arguments) -> None:
    for name, least in (("samples", 1), ("threads", 1)):
        number = getattr(given, name)
        if number is not None and number < least:
            raise RecipeError(f"--{name}: {number}; must be at least {least}")
    if given.prompt and given.prompts_file is not None:
        raise RecipeError("--prompt and --prompts-file: give one of them")


def _parts(given: Arguments) -> Iterator[list[str]]:
    """Prompts as many at a time as are written side by side; a file is looked for at once."""
    from heedful.data.readers import read_lines

    if given.prompts_file is None:
        return _cut(iter(given.prompt or ("",)), size=_TOGETHER)
    if str(given.prompts_file) != "-":
        return _cut(read_lines(given.prompts_file), size=_TOGETHER)
    # whoever types waits for an answer to each line
    return _cut(read_lines(sys.stdin.buffer), size=1 if sys.stdin.isatty() else _TOGETHER)


def _cut(lines: Iterator[str], *, size: int) -> Iterator[list[str]]:
    while part := list(islice(lines, size)):
        yield part


def _note(writer: Writer, prompts: Sequence[str], *, first: int) -> None:
    """Says what of long prompts is not read."""
    if writer.max_context is None:
        return
    for number, prompt in enumerate(prompts, first):
        lost = writer.forgotten(prompt)
        if lost:
            print(
                f"heedful generate: prompt {number} is too long for the model's {writer.max_context:,} positions; "
                f"its first {lost:,} tokens are not read",
                file=sys.stderr,
            )


def _stream(writer: Writer, prompt: str, *, search: Greedy | Sampling) -> None:
    sys.stdout.write(prompt)
    for piece in writer.stream(prompt, search=search):
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
    sys.stdout.flush()


def _write(writer: Writer, prompts: Sequence[str], *, search: Search, first: int, records: bool) -> None:
    found = writer.write(prompts, search=search, first=first)
    for prompt, continuations in zip(prompts, found, strict=True):
        for continuation in continuations:
            if records:
                print(json.dumps({"prompt": prompt, **asdict(continuation)}, ensure_ascii=False))
            else:
                print(f"{prompt}{continuation.text}\n")
    sys.stdout.flush()


def _config(given: Arguments, recipe: ContinuationConfig) -> ContinuationConfig:
    """The recipe's way to write, changed by what was given."""
    from pydantic import TypeAdapter, ValidationError

    from heedful.recipes.generation import ContinuationConfig

    options = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "tokens")
    changed = {name: getattr(given, name) for name in options if getattr(given, name) is not None}
    if given.stop:
        changed["stop"] = given.stop
    shared = ("tokens", "repetition_penalty", "stop")
    kind = given.search or ("sampling" if changed.keys() - shared else recipe.kind)
    before = recipe.model_dump(exclude_none=True)
    kept = before if recipe.kind == kind else {name: before[name] for name in shared}
    try:
        return TypeAdapter(ContinuationConfig).validate_python({**kept, **changed, "kind": kind})
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][1] if len(first["loc"]) > 1 else first["loc"][0]).replace("_", "-")
        odd = "is no option of it" if first["type"] == "extra_forbidden" else first["msg"].lower()
        raise RecipeError(f"--{option}: does not fit --search {kind} ({odd}); see heedful generate --help") from None
