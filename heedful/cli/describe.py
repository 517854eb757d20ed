"""`heedful describe`: how large a model is, without allocating it, and what benchmark tasks there are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from heedful.cli.arguments import MaybeText, parse
from heedful.errors import RecipeError
from heedful.recipes.load import load_recipe
from heedful.recipes.recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

    from heedful.models.size import Part, Size
    from heedful.tasks.benchmarks.definitions import Definition

_NUMBER = re.compile(r"\.(\d+)(?=\.)")


@dataclass(frozen=True)
class Arguments:
    """Layers, shapes, parameters, FLOPs per token and memory of a recipe's model; nothing is allocated.

    Any key of the recipe can be changed: --model.d_model 512 --tokenizer.size 37000

    With --preset the model is that of a paper, such as bert-base or gpt-2-xl; --sizes lists them all.

    With --tasks or --task, what heedful knows of benchmarks instead: GLUE, SuperGLUE, Russian SuperGLUE, SQuAD, SubjQA.
    """

    recipe: Annotated[Path | None, tyro.conf.Positional] = None
    """TOML file of a run, or a folder with a trained Transformer"""
    length: int = 25
    """tokens in a sentence, for the cost of attention"""
    preset: MaybeText = None
    """instead of a recipe's model, that of a paper"""
    sizes: bool = False
    """instead of one model, list those of papers with their parameters"""
    tasks: bool = False
    """instead of a model, list the benchmark tasks: what a model must answer, metrics and files"""
    task: MaybeText = None
    """instead of a model, tell all of one benchmark task, such as glue/cola"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given, overrides = parse(Arguments, arguments, program="heedful describe", extra=True)
    if given.tasks or given.task is not None:
        return _benchmarks(given, overrides)
    if given.length < 1:
        raise RecipeError(f"--length: {given.length}; a sentence has at least 1 token")
    if given.sizes or given.preset is not None:
        return _published(given, overrides)
    if given.recipe is None:
        raise RecipeError(
            "heedful describe: no recipe; name a TOML file, list models of papers with --sizes, or benchmark tasks "
            "with --tasks"
        )
    if given.recipe.is_dir():
        return _folder(given.recipe, overrides, length=given.length)
    recipe, vocabulary = _complete(load_recipe(given.recipe, overrides), given.recipe)

    from heedful.models.size import imagined, measure

    with imagined():
        size = measure(_model(recipe, vocabulary), length=given.length)
    _show(size)
    return 0


def _folder(folder: Path, overrides: Sequence[str], *, length: int) -> int:
    """Of what is there already: a run, or a folder of Hugging Face."""
    if overrides:
        raise RecipeError(f"{folder}: is trained already, its keys cannot be changed; give a recipe to change keys of")

    from heedful.foreign.hugging_face import build
    from heedful.models.size import imagined, measure
    from heedful.runs.origin import open_origin

    origin = open_origin(folder)
    with imagined():
        _show(measure(build(origin), length=length))
    return 0


def _complete(recipe: Recipe, path: Path) -> tuple[Recipe, int]:
    """The recipe with the model that its `init` names, and the entries of its vocabulary."""
    if getattr(recipe, "init", None) is not None:
        from heedful.runs.initial import given_tokenizer, resolved

        recipe = resolved(recipe)
        given = given_tokenizer(recipe)
        assert given is not None
        return recipe, given.size
    size = getattr(recipe.tokenizer, "size", None)
    if size is None:
        raise RecipeError(
            f"{path}: a vocabulary of all {recipe.tokenizer.kind} is as large as the text makes it; say how large "
            "with --tokenizer.size"
        )
    return recipe, int(size)


def _published(given: Arguments, overrides: Sequence[str]) -> int:
    from heedful.cli.published import published_size, show_sizes

    if given.recipe is not None or overrides:
        raise RecipeError("heedful describe: a recipe and its keys cannot be combined with --preset or --sizes")
    if given.preset is None:
        show_sizes()
    else:
        _show(published_size(given.preset, length=given.length))
    return 0


def _benchmarks(given: Arguments, overrides: Sequence[str]) -> int:
    from heedful.tasks.benchmarks.table import DEFINITIONS, find

    if given.recipe is not None or overrides:
        raise RecipeError("heedful describe: a recipe and its keys cannot be combined with --tasks or --task")
    if given.task is not None:
        _show_task(find(given.task))
        return 0
    rows = [("task", "head", "metrics", "files"), *(_task_row(task) for task in DEFINITIONS.values())]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print("  ".join((*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3])))
    return 0


def _task_row(task: Definition) -> tuple[str, str, str, str]:
    files = ", ".join(source.files[0] for source in task.sources.values())
    return task.name, task.head, ", ".join(task.metrics), f"{task.folders[0]}/: {files}"


def _show_task(task: Definition) -> None:
    rows = [
        ("task", task.name),
        ("asks", task.title),
        ("head", task.head),
        ("labels", ", ".join(task.labels)),
        ("metrics", ", ".join(task.metrics)),
        ("texts", task.texts),
        ("folder", " or ".join(task.folders)),
        *((split, f"{' or '.join(source.files)}: {source.fields}") for split, source in task.sources.items()),
        ("trained on", task.trained_on or ""),
    ]
    for name, text in rows:
        if text:
            print(f"{name:<10}  {text}")


def _model(recipe: Recipe, vocabulary: int) -> nn.Module:
    from heedful.tasks.kind import kind_of

    kind = kind_of(recipe)
    if kind.outputs is not None:
        raise RecipeError(f"task: {recipe.task} has as many outputs as the text has {kind.outputs}; train first")
    model: nn.Module = kind.build(recipe, dict.fromkeys(kind.words, vocabulary))
    return model


def _rows(parts: Sequence[Part]) -> Iterator[tuple[str, str, str, str]]:
    """Name, shape, how often and parameters in all; layers that are alike share a line."""
    alike: dict[tuple[str, tuple[int, ...], str | None], list[Part]] = {}
    for part in parts:
        alike.setdefault((_NUMBER.sub(".*", part.name), part.shape, part.tied_to), []).append(part)
    for (pattern, shape, tied_to), members in alike.items():
        first, last = (_NUMBER.findall(members[at].name) for at in (0, -1))
        name = pattern
        for start, end in zip(first, last, strict=True):
            name = name.replace("*", start if start == end else f"{start}-{end}", 1)
        count = f"{sum(member.parameters for member in members):,}" if tied_to is None else f"= {tied_to}"
        repeats = f"x {len(members)}" if len(members) > 1 else ""
        yield name, " x ".join(map(str, shape)), repeats, count


def _show(size: Size) -> None:
    """Plain lines, whatever the terminal's width."""
    rows = list(_rows(size.parts))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for name, shape, repeats, count in rows:
        print(f"{name:<{widths[0]}}  {shape:<{widths[1]}}  {repeats:>{widths[2]}}  {count:>{widths[3]}}".rstrip())
    mib = 2**20
    print(f"\nparameters  {size.parameters:,} ({size.parameters / 1e6:.1f}M)")
    print(f"FLOPs       {size.forward_flops / 1e6:,.1f}M to use it, {size.training_flops / 1e6:,.1f}M to train")
    sides = {part.name.partition(".")[0] for part in size.parts}
    tokens = "one token on each side" if {"encoder", "decoder"} <= sides else "one token"
    print(f"            (for {tokens}, in texts of {size.length})")
    weights, training = size.weight_bytes / mib, size.training_bytes / mib
    print(f"memory      {weights:,.1f} MiB of weights, {training:,.1f} MiB in training")
    print("            (fp32, activations aside)")
