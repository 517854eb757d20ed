"""`heedful generate`: a language model goes on where a prompt ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from heedful.cli.arguments import MaybeFloat, MaybeInt, MaybeText, parse
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.configs.generation import ContinuationConfig
    from heedful.generation.search import Sampling
    from heedful.tasks.writer import Writer


@dataclass(frozen=True)
class Arguments:
    """Continue a prompt with a language model; one continuation appears as it is written."""

    run: Annotated[Path, tyro.conf.Positional]
    """run folder"""
    prompt: tuple[str, ...] = ("",)
    """what to continue, one or several; nothing begins a document"""
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
    for name in ("samples", "threads"):
        number = getattr(given, name)
        if number is not None and number < 1:
            raise RecipeError(f"--{name}: {number}; must be at least 1")

    import torch

    from heedful.artifacts.device import find_device
    from heedful.artifacts.load import open_language
    from heedful.configs.build_run import build_continuation
    from heedful.generation.search import Sampling

    if given.threads is not None:
        torch.set_num_threads(given.threads)
    opened = open_language(given.run)
    search, limit = build_continuation(_config(given, opened.recipe.generation), n=given.samples, seed=given.seed)
    writer = opened.writer(device=find_device(given.device))
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # pytest's stand-in lacks it
    if given.format == "text" and given.samples == len(given.prompt) == 1 and isinstance(search, Sampling):
        return _stream(writer, given.prompt[0], search=search, limit=limit)
    found = writer.write(given.prompt, search=search, limit=limit)
    for prompt, continuations in zip(given.prompt, found, strict=True):
        for continuation in continuations:
            if given.format == "jsonl":
                print(json.dumps({"prompt": prompt, **asdict(continuation)}, ensure_ascii=False))
            else:
                print(f"{prompt}{continuation.text}\n")
    sys.stdout.flush()
    return 0


def _stream(writer: Writer, prompt: str, *, search: Sampling, limit: int) -> int:
    sys.stdout.write(prompt)
    for piece in writer.stream(prompt, search=search, limit=limit):
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
    return 0


def _config(given: Arguments, recipe: ContinuationConfig) -> ContinuationConfig:
    """The recipe's way to write, changed by what was given."""
    from pydantic import TypeAdapter, ValidationError

    from heedful.configs.generation import ContinuationConfig

    options = ("temperature", "top_k", "top_p", "tokens")
    changed = {name: getattr(given, name) for name in options if getattr(given, name) is not None}
    kind = given.search or ("sampling" if changed.keys() - {"tokens"} else recipe.kind)
    kept = recipe.model_dump(exclude_none=True) if recipe.kind == kind else {"tokens": recipe.tokens}
    try:
        return TypeAdapter(ContinuationConfig).validate_python({**kept, **changed, "kind": kind})
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][-1]).replace("_", "-")
        odd = "is no option of it" if first["type"] == "extra_forbidden" else first["msg"].lower()
        raise RecipeError(f"--{option}: does not fit --search {kind} ({odd}); see heedful generate --help") from None
