"""`heedful inspect`: what a model attends to, as a page, a figure, numbers or text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from heedful.cli.arguments import (
    Computing,
    MaybeFigure,
    MaybeInt,
    MaybePath,
    MaybeText,
    TextBehind,
    parse,
    require_least,
)
from heedful.cli.directions import DirectionOptions
from heedful.cli.grammar import Ending, Formerly
from heedful.cli.output import say
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.inspection.record import Record

_ROLES = Literal["encoder", "decoder", "cross", "summary"]
_OTHERS = "; --figure writes .svg, .pdf or .png, --numbers .npz or .csv, --save the record (.safetensors)"
_SHOWN_ROLES = "{encoder,decoder,cross,summary}"


@dataclass(frozen=True)
class Arguments:
    """What a model attends to while it reads one text, or reads and writes it; or the habits of its heads over many.

    Without an option that names a file, the terminal shows it.
    """

    run: Annotated[Path | None, tyro.conf.Positional] = None
    """run folder; not needed with --record and --compare"""
    text: Annotated[TextBehind, Formerly("--source")] = None
    """sentence to translate, prompt to continue, text to judge or to tag, question; [MASK] where a token is hidden; it
    may also stand behind the run, without the option"""
    pair: Annotated[TextBehind, Formerly("--target")] = None
    """a translation to read instead of the one that the model finds; the second of two texts; a question's context"""
    output: Annotated[
        Path | None,
        tyro.conf.arg(metavar="PATH", aliases=["-o"], help_behavior_hint=""),
        Ending((".html", ".htm"), _OTHERS),
    ] = None
    """page (HTML) with all views; needs nothing but a browser"""
    save: MaybePath = None
    """file for the record itself (safetensors)"""
    record: MaybePath = None
    """a record that was saved, instead of a run and a text"""
    figure: MaybeFigure = None
    """picture of one view: .svg, .pdf or .png"""
    view: str = "alignment"
    """of --figure: alignment, heads, model, rollout, flow, positions, masks, tree, decoding, answers or unrolled;
    of pictures regions or glimpses, of clips and sound frames, of stories hops or chain, of dialogues turns"""
    role: Annotated[_ROLES | None, tyro.conf.arg(metavar=_SHOWN_ROLES, help_behavior_hint="")] = None
    """of --figure and --terminal: who looks at whom; cross where there is any, else summary"""
    layer: int = -1
    """of both: counted from 0; -1 is the last"""
    head: MaybeInt = None
    """of both: counted from 0; the mean over heads if not given"""
    raw: bool = False
    """of --view regions: weights fill their regions, instead of being spread smoothly around their centres"""
    numbers: Annotated[MaybePath, Ending((".npz", ".csv"))] = None
    """file for all weights: .npz or .csv"""
    terminal: bool = False
    """show it here, too"""
    layers: MaybeText = None
    """layers to record, as in 0,2; the others keep their fast kernels"""
    heads: MaybeText = None
    """heads to record, as in 0,2"""
    detail: Literal["auto", "yes", "no"] = "auto"
    """record queries, keys, values and scores, too; auto leaves them out where they are many"""
    attribution: Literal["auto", "none", "gradient", "integrated"] = "auto"
    """which tokens mattered for what was said: gradient times input, or integrated gradients; auto takes the gradient
    where that costs little"""
    attribution_steps: int = 32
    """of --attribution integrated: forward and backward passes for each token that was said"""
    padding: int = 0
    """columns without a token behind the source, as in a batch with a longer text: see that nobody looks at them"""
    beam: MaybeInt = None
    """width of the search, whose tree is recorded; the recipe's if not given"""
    tokens: MaybeInt = None
    """of language models: longest continuation; 0 reads the prompt alone"""
    compare: Annotated[tuple[Path, Path] | None, tyro.conf.arg(metavar="PATH PATH", help_behavior_hint="")] = None
    """two saved records of the same text: how far their heads are apart"""
    data: MaybePath = None
    """TSV or JSONL file of sentences and translations: the habits of all heads over it"""
    gold: MaybePath = None
    """with --data: alignments by people, line by line; the error rate of each head"""
    importance: bool = False
    """with --data: BLEU without each head, one at a time"""
    sentences: int = 200
    """with --data: how many of its first sentences"""
    json: MaybePath = None
    """with --data or --compare: file for the numbers"""
    task: MaybeText = None
    """of runs with several tasks: which one; --head is a head of attention"""
    direction: Annotated[DirectionOptions, tyro.conf.OmitArgPrefixes] = field(default_factory=DirectionOptions)
    step: MaybeInt = None
    """a kept checkpoint instead of the finished model"""
    computing: Annotated[Computing, tyro.conf.OmitArgPrefixes] = field(default_factory=Computing)


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful inspect")
    _check(given)
    given.computing.begin()
    if given.compare is not None:
        from heedful.cli.inspected import compare_records

        compare_records(*given.compare, json_file=given.json)
    elif given.data is not None:
        from heedful.cli.inspected import survey_heads

        assert given.run is not None
        survey_heads(
            given.run,
            given.data,
            gold=given.gold,
            importance=given.importance,
            sentences=given.sentences,
            page=given.output,
            json_file=given.json,
            direction=given.direction,
            **given.computing.how,
        )
    else:
        _show(_record(given), given)
    return 0


def _check(given: Arguments) -> None:
    modes = {
        "--text": given.text is not None,
        "--record": given.record is not None,
        "--compare": given.compare is not None,
        "--data": given.data is not None,
    }
    chosen = [name for name, is_there in modes.items() if is_there]
    if len(chosen) != 1:
        raise RecipeError(
            f"what to look at: give one of {', '.join(modes)}" + (f", not {' and '.join(chosen)}" * bool(chosen))
        )
    needs_run = chosen[0] in ("--text", "--data")
    if needs_run and given.run is None:
        raise RecipeError(f"{chosen[0]}: needs a run folder; heedful inspect RUN {chosen[0]} ...")
    if not needs_run and given.run is not None:
        raise RecipeError(f"{given.run}: {chosen[0]} needs no run; leave one of them out")
    if not needs_run and given.direction != DirectionOptions():
        raise RecipeError(f"--to, --tags: {chosen[0]} reads nothing any more; leave them away")
    if given.gold is not None and given.data is None:
        raise RecipeError("--gold: belongs to --data, whose lines it aligns")
    require_least(given, sentences=1, attribution_steps=1)


def _record(given: Arguments) -> Record:
    from heedful.inspection.record_files import load_record

    if given.record is not None:
        record = load_record(given.record)
        record = record.only(layers=_numbers("layers", given.layers), heads=_numbers("heads", given.heads))
        return _attributed(record, given, missing="it was saved without; inspect the run again")

    from heedful.runs.load import load
    from heedful.tasks.faces import Asked, Face
    from heedful.tasks.heads import Heads
    from heedful.tasks.inspecting import Scope

    assert given.run is not None
    assert given.text is not None
    face: object = load(given.run, step=given.step, **given.computing.how)
    if isinstance(face, Heads):
        face = face.only(object, use="can be inspected", name=given.task)
    elif given.task is not None:
        raise RecipeError(f"--task: {given.run} has one task; leave it out")
    if given.direction != DirectionOptions():
        face = given.direction.of(face)
    if not isinstance(face, Face):
        raise RecipeError(f"a {type(face).__name__.lower()} cannot be looked at one text at a time")
    walks = {"auto": None, "yes": True, "no": False}[given.detail]
    scope = Scope(
        _numbers("layers", given.layers),
        _numbers("heads", given.heads),
        walks=walks,
        padding=given.padding,
        attribution=None if given.attribution == "none" else given.attribution,
        steps=given.attribution_steps,
    )
    asked = Asked(given.text, given.pair, beam=given.beam, tokens=given.tokens, scope=scope, say=say)
    record = face.look(asked)
    return _attributed(
        record,
        given,
        missing="nothing that this model read has embeddings of tokens, or it says nothing that could be attributed to "
        "them; leave it out",
    )


def _attributed(record: Record, given: Arguments, *, missing: str) -> Record:
    """With the attributions that were asked for; `RecipeError`, which says why, where there are none."""
    if given.attribution == "auto":
        return record
    kept = tuple(each for each in record.attributions if each.method == given.attribution)
    if given.attribution != "none" and not kept:
        raise RecipeError(f"--attribution {given.attribution}: {missing}")
    return replace(record, attributions=kept)


def _numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise RecipeError(f"--{option}: {text!r} is no list of numbers; write them as in 0,2") from None


def _show(record: Record, given: Arguments) -> None:
    from heedful.inspection.figures import figure
    from heedful.inspection.page import write_page
    from heedful.inspection.record_files import save_record, write_figure, write_numbers
    from heedful.inspection.web import viewer_html

    def draw(path: Path) -> None:
        picture = figure(
            record, view=given.view, role=given.role, layer=given.layer, head=given.head, smooth=not given.raw
        )
        write_figure(picture, path)

    asked: tuple[tuple[Path | None, Callable[[Path], None]], ...] = (
        (given.output, lambda path: write_page(viewer_html(record), path)),
        (given.save, lambda path: save_record(record, path)),
        (given.figure, draw),
        (given.numbers, lambda path: write_numbers(record, path)),
    )
    written = [(path, write) for path, write in asked if path is not None]
    for path, write in written:
        write(path)
    for path, _ in written:
        print(f"written: {path}", file=sys.stderr)
    if given.terminal or not written:
        from rich.console import Console

        from heedful.inspection.terminal import terminal_view

        Console(soft_wrap=True, highlight=False).print(
            terminal_view(
                record, role=given.role, layer=given.layer, head=given.head, mattered=given.attribution != "auto"
            )
        )
