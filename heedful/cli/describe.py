"""`heedful describe`: size of a model without allocating it, and the known benchmark tasks."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from heedful.cli.arguments import OptionalFigure, parse_known_arguments
from heedful.cli.option_parser import Positional, RenamedFrom
from heedful.errors import RecipeError
from heedful.files import check_path_name
from heedful.recipes.load import load_recipe

if TYPE_CHECKING:
    from torch import nn

    from heedful.adapters.adapter import Adapter
    from heedful.models.model_size import ModelSize, ParameterInfo
    from heedful.recipes.config import Config
    from heedful.tasks.benchmarks.definitions import BenchmarkDefinition

_LAYER_NUMBER = re.compile(r"\.(\d+)(?=\.)")


@dataclass(frozen=True)
class DescribeArguments:
    """Show layers, shapes, parameters, FLOPs per token and memory of a recipe's model; nothing is allocated.

    Any key of the recipe can be changed by an option:

        heedful describe recipe.toml --model.d_model 512 --tokenizer.size 37000

    With --preset, show the model of a paper, such as bert-base or gpt-2-xl; --sizes lists them all.

    With --tasks or --task, show the known benchmarks instead: GLUE, SuperGLUE, Russian SuperGLUE, SQuAD, SubjQA.
    """

    recipe: Annotated[Path | None, Positional] = None
    """TOML file of a run, or a folder with a trained Transformer"""
    length: int = 25
    """number of tokens in a sentence, for the cost of attention"""
    figure: Annotated[OptionalFigure, RenamedFrom("--diagram")] = None
    """for a recipe: also draw the model unrolled over a few tokens, with the steps in which it can be computed: .svg,
    .pdf or .png"""
    preset: str | None = None
    """instead of a recipe's model, that of a paper"""
    sizes: bool = False
    """instead of one model, list those of papers with their parameters"""
    tasks: bool = False
    """instead of a model, list the benchmark tasks: outputs, metrics and files"""
    task: str | None = None
    """instead of a model, describe one benchmark task, such as glue/cola"""


def run_describe(argv: Sequence[str]) -> int:
    """Run `heedful describe`, which shows the size of a model or the benchmark tasks, and return its exit code."""
    args, overrides = parse_known_arguments(DescribeArguments, argv, program="heedful describe")
    if args.tasks or args.task is not None:
        _show_benchmarks(args, overrides)
        return 0
    if args.figure is not None and args.recipe is None:
        raise RecipeError(
            "--figure: draws the model of a recipe or a folder; name one, and leave out --preset and --sizes"
        )
    if args.length < 1:
        raise RecipeError(f"--length: {args.length}; a sentence has at least 1 token")
    if args.sizes or args.preset is not None:
        _describe_published(args, overrides)
    elif args.recipe is None:
        raise RecipeError(
            "heedful describe: no recipe; name a TOML file, list models of papers with --sizes, or benchmark tasks "
            "with --tasks"
        )
    else:
        check_path_name(args.recipe)
        described = (_describe_folder if args.recipe.is_dir() else _describe_recipe)(args.recipe, overrides)
        model = described.build
        _show_size(_measure_size(model, length=args.length), num_trainable=described.num_trainable)
        for line in described.adapter_lines:
            print(line)
        if args.figure is not None:
            _draw_unrolled(model, args.figure, title=args.recipe.stem)
    return 0


def _measure_size(build: Callable[[], nn.Module], *, length: int) -> ModelSize:
    """Measure the size of the model that `build` builds, without memory for it, in sentences of `length` tokens."""
    from heedful.models.model_size import build_without_memory, measure_model

    with build_without_memory():
        return measure_model(build(), length=length)


def _draw_unrolled(build: Callable[[], nn.Module], path: Path, *, title: str) -> None:
    """Draw the model that `build` builds unrolled over five tokens on each side; write the picture to `path`."""
    from heedful.inspection.figures.unrolled import draw_diagram_svg
    from heedful.inspection.record_files import write_figure
    from heedful.inspection.unrolled import collect_levels, unroll_model
    from heedful.models.model_size import build_without_memory
    from heedful.tasks.inspection_records import find_token_readers

    with build_without_memory():
        model_levels = collect_levels(find_token_readers(build()))
    if not model_levels:
        raise RecipeError(f"--figure: no part of the model of {title} reads a text level by level; leave it out")
    letters = {"encoder": "x", "decoder": "y"}
    texts = {level.axis: [f"{letters[level.side]}{number}" for number in range(1, 6)] for level in model_levels}
    write_figure(draw_diagram_svg(unroll_model(model_levels, texts), title=title), path)
    print(f"written: {path}", file=sys.stderr)


@dataclass(frozen=True)
class _DescribedModel:
    """A model to describe.

    Attributes:
        build: function that builds it.
        adapter_lines: lines about its adapter.
        num_trainable: number of trainable parameters; None for all.
    """

    build: Callable[[], nn.Module]
    adapter_lines: tuple[str, ...] = ()
    num_trainable: int | None = None


def _describe_folder(folder: Path, overrides: Sequence[str]) -> _DescribedModel:
    """Describe the trained model of a run folder or a Hugging Face folder; `RecipeError` if keys are changed
    (`overrides`).
    """
    if overrides:
        flags = ", ".join(word.partition("=")[0] for word in overrides if word.startswith("--"))
        raise RecipeError(
            f"{folder}: is already trained, so its keys cannot be changed ({flags}); give a recipe to change keys, or "
            "see heedful describe --help"
        )

    from heedful.foreign.folders import is_hugging_face_folder
    from heedful.foreign.hugging_face import open_hugging_face
    from heedful.runs.adapter_runs import build_uninitialized_model, count_parameters, get_adapter, read_adapter_file
    from heedful.runs.load import open_run

    if is_hugging_face_folder(folder):
        opened = open_hugging_face(folder)
        assert opened.weights, "they are read here, because the model is built where nothing can be read"
        return _DescribedModel(opened.build_model)
    run, adapter_file = open_run(folder), read_adapter_file(folder)
    counts, adapter = count_parameters(run), get_adapter(run.recipe)
    if adapter_file is None or counts is None:
        return _DescribedModel(partial(build_uninitialized_model, run))
    num_outside_adapter = counts.trainable - counts.adapter
    head_text = f", {num_outside_adapter:,} of them in new parts outside the adapter" if num_outside_adapter else ""
    return _DescribedModel(
        partial(_build_with_adapter, run.build_model, adapter),
        (
            f"adapter     {_format_adapter(adapter_file.adapter)}",
            f"learned     {counts.trainable:,} of {counts.total:,} numbers{head_text}",
            f"base        {adapter_file.base.folder} (sha256 {adapter_file.base.sha256[:12]})",
        ),
        counts.trainable,
    )


def _build_with_adapter(build: Callable[[], nn.Module], adapter: Adapter | None) -> nn.Module:
    """Build a model and attach an adapter to it, if there is one."""
    model = build()
    if adapter is not None:
        adapter.attach(model)
    return model


def _format_adapter(adapter: Config) -> str:
    """Format kind and sizes of an adapter, as in: lora, rank 8, alpha 16, on query and value."""
    kind, *sizes = adapter.model_dump().items()
    settings = (f"{key} {' and '.join(value) if isinstance(value, tuple) else f'{value:g}'}" for key, value in sizes)
    return ", ".join((kind[1], *settings))


def _describe_recipe(path: Path, overrides: Sequence[str]) -> _DescribedModel:
    """Describe the model of a recipe, changed by the options `overrides`; `init` may determine its architecture and
    vocabulary sizes.
    """
    recipe = load_recipe(path, overrides)
    tokenizers = None
    if getattr(recipe, "init", None) is not None:
        from heedful.runs.resolve import resolve_recipe

        resolved = resolve_recipe(recipe)
        recipe, tokenizers = resolved.recipe, resolved.tokenizers
    if tokenizers is None and recipe.needs_fitting:
        from heedful.runs.device import find_device
        from heedful.runs.resolve import fit_recipe

        recipe = fit_recipe(recipe, device=find_device(None))
    tokenizer_config = getattr(recipe, "tokenizer", None)  # pictures have none
    if tokenizers is None and tokenizer_config is not None and tokenizer_config.size is None:
        raise RecipeError(
            f"{path}: the size of a vocabulary of all {tokenizer_config.kind} depends on the text; set it with "
            "--tokenizer.size"
        )

    from heedful.tasks.task import build_model, get_task

    task = get_task(recipe)
    if task.output_noun is not None:
        raise RecipeError(
            f"task: the number of outputs for {recipe.task} is the number of {task.output_noun} in the data; train "
            "first"
        )
    if tokenizers is None:
        sizes = dict.fromkeys(task.tokenizer_files, 0 if tokenizer_config is None else int(tokenizer_config.size))
    else:
        sizes = {file: tokenizer.size for file, tokenizer in zip(task.tokenizer_files, tokenizers, strict=True)}
    build = partial(build_model, recipe, sizes)
    config = getattr(recipe.training, "adapter", None)
    if config is None:
        return _DescribedModel(build)

    from heedful.runs.adapter_runs import build_adapter

    return _DescribedModel(
        partial(_build_with_adapter, build, build_adapter(config)), (f"adapter     {_format_adapter(config)}",)
    )


def _describe_published(args: DescribeArguments, overrides: Sequence[str]) -> None:
    """Show the model of a paper, or list all models of papers with published and counted parameters; `RecipeError` if a
    recipe or changes of its keys (`overrides`) are given too.
    """
    from heedful.architectures.model import PUBLISHED_MODELS, TransformerConfig
    from heedful.architectures.published import get_published_size

    if args.recipe is not None or overrides:
        raise RecipeError("heedful describe: a recipe and its keys cannot be combined with --preset or --sizes")
    if args.preset is not None:
        _show_size(get_published_size(args.preset, length=args.length))
        return
    rows = [("model", "layers", "d_model", "heads", "vocabulary", "parameters", "as published")]
    for name, published in PUBLISHED_MODELS.items():
        config = published.config
        if isinstance(config, TransformerConfig):
            layers = f"{config.encoder_layers}+{config.decoder_layers}"
        else:
            layers = str(config.layers)
        count = get_published_size(name, length=1).num_parameters
        numbers = (str(config.d_model), str(config.heads), f"{published.vocabulary:,}", f"{count:,}")
        rows.append((name, layers, *numbers, f"{published.reported_parameters} million ({published.source})"))
    _print_table(rows, alignments="<>>>>><")


def _show_benchmarks(args: DescribeArguments, overrides: Sequence[str]) -> None:
    """Show one benchmark task, or list all; `RecipeError` if a recipe or changes of its keys (`overrides`) are given
    too.
    """
    from heedful.tasks.benchmarks.table import DEFINITIONS, find_definition

    if args.recipe is not None or overrides:
        raise RecipeError("heedful describe: a recipe and its keys cannot be combined with --tasks or --task")
    if args.task is not None:
        _show_task(find_definition(args.task))
        return
    rows = [("task", "head", "metrics", "files")]
    for task in DEFINITIONS.values():
        files = ", ".join(source.names[0] for source in task.files.values())
        rows.append((task.name, task.head, ", ".join(task.metrics), f"{task.folders[0]}/: {files}"))
    _print_table(rows, alignments="<<<<")


def _show_task(task: BenchmarkDefinition) -> None:
    """Print the description of a benchmark task."""
    rows = [
        ("task", task.name),
        ("asks", task.title),
        ("head", task.head),
        ("labels", ", ".join(task.labels)),
        ("metrics", ", ".join(task.metrics)),
        ("texts", task.texts),
        ("folder", " or ".join(task.folders)),
        *((split, f"{' or '.join(source.names)}: {source.fields}") for split, source in task.files.items()),
        ("trained on", task.trained_on or ""),
    ]
    for name, text in rows:
        if text:
            print(f"{name:<10}  {text}")


def _print_table(rows: Sequence[Sequence[str]], *, alignments: str) -> None:
    """Print rows as plain aligned columns, whatever the terminal's width; `alignments` has < (left) or > (right)
    for each column.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:{alignment}{width}}" for cell, alignment, width in zip(row, alignments, widths, strict=True))
        print("  ".join(cells).rstrip())


def _iter_rows(parts: Sequence[ParameterInfo]) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, shape, number of copies and total parameters of the parts; identical layers share a row."""
    groups: dict[tuple[str, tuple[int, ...], str | None], list[ParameterInfo]] = {}
    for part in parts:
        groups.setdefault((_LAYER_NUMBER.sub(".*", part.name), part.shape, part.tied_to), []).append(part)
    for (pattern, shape, tied_to), members in groups.items():
        first_numbers, last_numbers = (_LAYER_NUMBER.findall(members[index].name) for index in (0, -1))
        name = pattern
        for start, end in zip(first_numbers, last_numbers, strict=True):
            name = name.replace("*", start if start == end else f"{start}-{end}", 1)
        count = f"{sum(member.num_parameters for member in members):,}" if tied_to is None else f"= {tied_to}"
        repeats = f"x {len(members)}" if len(members) > 1 else ""
        yield name, " x ".join(map(str, shape)), repeats, count


def _show_size(size: ModelSize, *, num_trainable: int | None = None) -> None:
    """Print parts, parameters, FLOPs and memory of a model. Only `num_trainable` parameters need gradients in training;
    None is all.
    """
    _print_table(list(_iter_rows(size.parameters_info)), alignments="<<>>")
    mib = 2**20
    print(f"\nparameters  {size.num_parameters:,} ({size.num_parameters / 1e6:.1f}M)")
    print(f"FLOPs       {size.forward_flops / 1e6:,.1f}M to use it, {size.training_flops / 1e6:,.1f}M to train")
    sides = {part.name.partition(".")[0] for part in size.parameters_info}
    tokens = "one token on each side" if {"encoder", "decoder"} <= sides else "one token"
    print(f"            (for {tokens}, in texts of {size.length})")
    num_frozen = 0 if num_trainable is None else size.num_parameters - num_trainable  # without gradients and moments
    weights, training = size.weight_bytes / mib, (size.training_bytes - 12 * num_frozen) / mib
    print(f"memory      {weights:,.1f} MiB of weights, {training:,.1f} MiB in training")
    print("            (fp32, without activations)")
