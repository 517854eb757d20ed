"""`heedful describe`: how large a model is, without allocating it, and what benchmark tasks there are."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from heedful.cli.arguments import MaybeFigure, MaybeText, parse_apart
from heedful.cli.grammar import Formerly
from heedful.errors import RecipeError
from heedful.files import require_name
from heedful.recipes.load import load_recipe
from heedful.words import near

if TYPE_CHECKING:
    from torch import nn

    from heedful.adapters.adapter import Adapter
    from heedful.architectures.published import Published
    from heedful.models.size import Part, Size
    from heedful.recipes.section import Section
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
    figure: Annotated[MaybeFigure, Formerly("--diagram")] = None
    """of a recipe: also draw the model unrolled over a few tokens, with the steps in which it can be computed: .svg,
    .pdf or .png"""
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
    given, overrides = parse_apart(Arguments, arguments, program="heedful describe")
    if given.tasks or given.task is not None:
        _benchmarks(given, overrides)
        return 0
    if given.figure is not None and given.recipe is None:
        raise RecipeError(
            "--figure: draws the model of a recipe or a folder; name one, and leave out --preset and --sizes"
        )
    if given.length < 1:
        raise RecipeError(f"--length: {given.length}; a sentence has at least 1 token")
    if given.sizes or given.preset is not None:
        _published(given, overrides)
    elif given.recipe is None:
        raise RecipeError(
            "heedful describe: no recipe; name a TOML file, list models of papers with --sizes, or benchmark tasks "
            "with --tasks"
        )
    else:
        require_name(given.recipe)
        found = (_of_folder if given.recipe.is_dir() else _of_recipe)(given.recipe, overrides)
        model = found.build
        _show(_size(model, length=given.length), learned=found.learned)
        for line in found.adapted:
            print(line)
        if given.figure is not None:
            _draw(model, given.figure, title=given.recipe.stem)
    return 0


def _size(build: Callable[[], nn.Module], *, length: int) -> Size:
    from heedful.models.size import imagined, measure

    with imagined():
        return measure(build(), length=length)


def _draw(build: Callable[[], nn.Module], path: Path, *, title: str) -> None:
    """The model over five tokens that an encoder reads, and five that a decoder does."""
    from heedful.inspection.figures.unrolled import diagram_svg
    from heedful.inspection.record_files import write_figure
    from heedful.inspection.unrolled import levels, unrolled
    from heedful.models.size import imagined
    from heedful.tasks.inspecting import sides_of

    with imagined():
        found = levels(sides_of(build()))
    if not found:
        raise RecipeError(f"--figure: no part of the model of {title} reads a text level by level; leave it out")
    letters = {"encoder": "x", "decoder": "y"}
    texts = {level.axis: [f"{letters[level.side]}{number}" for number in range(1, 6)] for level in found}
    write_figure(diagram_svg(unrolled(found, texts), title=title), path)
    print(f"written: {path}", file=sys.stderr)


@dataclass(frozen=True)
class _Found:
    """What builds a model, what is said of its adapter, and how many of its numbers learn; all unless given."""

    build: Callable[[], nn.Module]
    adapted: tuple[str, ...] = ()
    learned: int | None = None


def _of_folder(folder: Path, overrides: Sequence[str]) -> _Found:
    """What builds the model that is there already, of a run or of Hugging Face."""
    if overrides:
        raise RecipeError(f"{folder}: is trained already, its keys cannot be changed; give a recipe to change keys of")

    from heedful.foreign.folders import is_hugging_face
    from heedful.foreign.hugging_face import build
    from heedful.runs.adapted import adapter_of, model_of, read_file, sizes
    from heedful.runs.load import open_run
    from heedful.runs.origin import open_origin

    if is_hugging_face(folder):
        return _Found(partial(build, open_origin(folder)))
    run, about = open_run(folder), read_file(folder)
    numbers, adapter = sizes(run), adapter_of(run.recipe)
    if about is None or numbers is None:
        return _Found(partial(model_of, run))
    beside = numbers.learned - numbers.adapter
    head = f", {beside:,} of them of what is new beside the adapter" if beside else ""
    return _Found(
        partial(_adapted, run.build, adapter),
        (
            f"adapter     {_said(about.adapter)}",
            f"learned     {numbers.learned:,} of {numbers.whole:,} numbers{head}",
            f"base        {about.base.folder} (sha256 {about.base.sha256[:12]})",
        ),
        numbers.learned,
    )


def _adapted(build: Callable[[], nn.Module], adapter: Adapter | None) -> nn.Module:
    model = build()
    if adapter is not None:
        adapter.put_on(model)
    return model


def _said(adapter: Section) -> str:
    """Kind and sizes, as in: lora, rank 8, alpha 16, on query and value."""
    kind, *sizes = adapter.model_dump().items()
    told = (f"{key} {' and '.join(value) if isinstance(value, tuple) else f'{value:g}'}" for key, value in sizes)
    return ", ".join((kind[1], *told))


def _of_recipe(path: Path, overrides: Sequence[str]) -> _Found:
    """What builds the model of a recipe, of which its `init` may decide, and the entries of its vocabulary."""
    recipe = load_recipe(path, overrides)
    given = None
    if getattr(recipe, "init", None) is not None:
        from heedful.runs.initial import given_tokenizers, resolved

        recipe = resolved(recipe)
        given = given_tokenizers(recipe)
    if given is None and recipe.is_open:
        from heedful.runs.device import find_device
        from heedful.runs.fitted import fitted

        recipe = fitted(recipe, device=find_device(None))
    cut = getattr(recipe, "tokenizer", None)  # pictures have none
    if given is None and cut is not None and cut.size is None:
        raise RecipeError(
            f"{path}: a vocabulary of all {cut.kind} is as large as the text makes it; say how large with "
            "--tokenizer.size"
        )

    from heedful.tasks.kind import build_model, kind_of

    kind = kind_of(recipe)
    if kind.outputs is not None:
        raise RecipeError(f"task: {recipe.task} has as many outputs as the data have {kind.outputs}; train first")
    if given is None:
        sizes = dict.fromkeys(kind.words, 0 if cut is None else int(cut.size))
    else:
        sizes = {file: each.size for file, each in zip(kind.words, given, strict=True)}
    build = partial(build_model, recipe, sizes)
    config = getattr(recipe.training, "adapter", None)
    if config is None:
        return _Found(build)

    from heedful.runs.adapted import adapter_from

    return _Found(partial(_adapted, build, adapter_from(config)), (f"adapter     {_said(config)}",))


def _published(given: Arguments, overrides: Sequence[str]) -> None:
    """The model of a paper, or what papers say of all their models and what counting gives."""
    from heedful.architectures.model import TransformerConfig
    from heedful.architectures.published import PUBLISHED

    if given.recipe is not None or overrides:
        raise RecipeError("heedful describe: a recipe and its keys cannot be combined with --preset or --sizes")
    if given.preset is not None:
        _show(published_size(given.preset, length=given.length))
        return
    rows = [("model", "layers", "d_model", "heads", "vocabulary", "parameters", "as published")]
    for name, published in PUBLISHED.items():
        config = published.config
        if isinstance(config, TransformerConfig):
            layers = f"{config.encoder_layers}+{config.decoder_layers}"
        else:
            layers = str(config.layers)
        count = published_size(name, length=1).parameters
        numbers = (str(config.d_model), str(config.heads), f"{published.vocabulary:,}", f"{count:,}")
        rows.append((name, layers, *numbers, f"{published.said} million ({published.source})"))
    _print_table(rows, sides="<>>>>><")


def published_size(name: str, *, length: int) -> Size:
    """The size of the model of this name.

    Raises:
        RecipeError: no such model is known.
    """
    from heedful.architectures.published import PUBLISHED

    if name not in PUBLISHED:
        meant = near(name, PUBLISHED)
        hint = f"did you mean {meant}?" if meant else f"there are {', '.join(PUBLISHED)}"
        raise RecipeError(f"--preset: {name} is no model that heedful knows the size of; {hint}")
    return _size(lambda: _of_paper(PUBLISHED[name], length=length), length=length)


def _of_paper(published: Published, *, length: int) -> nn.Module:
    from heedful.architectures.build import build_language_model, build_sequence_to_sequence
    from heedful.architectures.build_stack import transformer_encoder
    from heedful.architectures.interface import Sizes
    from heedful.architectures.model import TransformerConfig
    from heedful.architectures.stack import DecoderConfig
    from heedful.models.encoders import FirstToken

    config, vocabulary = published.config, published.vocabulary
    match config:
        case TransformerConfig():
            return build_sequence_to_sequence(config, Sizes(vocabulary, vocabulary, length))
        case DecoderConfig():
            return build_language_model(config, vocabulary=vocabulary)
    summary = FirstToken(config.d_model)
    return transformer_encoder(config, vocabulary=vocabulary, longest=length, summary=summary)


def _benchmarks(given: Arguments, overrides: Sequence[str]) -> None:
    from heedful.tasks.benchmarks.table import DEFINITIONS, find

    if given.recipe is not None or overrides:
        raise RecipeError("heedful describe: a recipe and its keys cannot be combined with --tasks or --task")
    if given.task is not None:
        _show_task(find(given.task))
        return
    rows = [("task", "head", "metrics", "files")]
    for task in DEFINITIONS.values():
        files = ", ".join(source.files[0] for source in task.sources.values())
        rows.append((task.name, task.head, ", ".join(task.metrics), f"{task.folders[0]}/: {files}"))
    _print_table(rows, sides="<<<<")


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


def _print_table(rows: Sequence[Sequence[str]], *, sides: str) -> None:
    """Plain lines, whatever the terminal's width; `sides` says for each column whether it stands left (<) or right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True))
        print("  ".join(cells).rstrip())


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


def _show(size: Size, *, learned: int | None = None) -> None:
    _print_table(list(_rows(size.parts)), sides="<<>>")
    mib = 2**20
    print(f"\nparameters  {size.parameters:,} ({size.parameters / 1e6:.1f}M)")
    print(f"FLOPs       {size.forward_flops / 1e6:,.1f}M to use it, {size.training_flops / 1e6:,.1f}M to train")
    sides = {part.name.partition(".")[0] for part in size.parts}
    tokens = "one token on each side" if {"encoder", "decoder"} <= sides else "one token"
    print(f"            (for {tokens}, in texts of {size.length})")
    still = 0 if learned is None else size.parameters - learned  # without gradients and moments
    weights, training = size.weight_bytes / mib, (size.training_bytes - 12 * still) / mib
    print(f"memory      {weights:,.1f} MiB of weights, {training:,.1f} MiB in training")
    print("            (fp32, activations aside)")
