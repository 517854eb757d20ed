"""`heedful inspect`: what a model attends to, as a page, a figure, numbers or text."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from heedful.cli.arguments import (
    DeviceOptions,
    OptionalFigure,
    TextOrPositional,
    require_minimum,
)
from heedful.cli.option_parser import FileSuffixes, OptionInfo, Positional, RenamedFrom
from heedful.cli.options import DirectionOptions
from heedful.cli.output import log
from heedful.english_words import add_article
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.inspection.record import InspectionRecord

_ROLES = Literal["encoder", "decoder", "cross", "summary"]
_OTHER_OUTPUTS = "; --figure writes .svg, .pdf or .png, --numbers .npz or .csv, --save the record (.safetensors)"
_ROLES_METAVAR = "{encoder,decoder,cross,summary}"


@dataclass(frozen=True)
class InspectArguments:
    """Show what a model attends to when it reads one text, or reads and writes it; or statistics of its heads over
    many texts.

    Without an option that names a file, the result is shown in the terminal.
    """

    run: Annotated[Path | None, Positional] = None
    """run folder; not needed with --record and --compare"""
    text: Annotated[TextOrPositional, RenamedFrom("--source")] = None
    """sentence to translate, prompt to continue, text to classify or tag, or question; [MASK] for a hidden token; it
    may also follow the run, without the option"""
    pair: Annotated[TextOrPositional, RenamedFrom("--target")] = None
    """a translation to read instead of the one that the model finds; the second of two texts; the context of a
    question"""
    output: Annotated[
        Path | None,
        OptionInfo(["-o"]),
        FileSuffixes((".html", ".htm"), _OTHER_OUTPUTS),
    ] = None
    """page (HTML) with all views; needs only a browser"""
    save: Path | None = None
    """file for the record itself (safetensors)"""
    record: Path | None = None
    """a saved record, instead of a run and a text"""
    figure: OptionalFigure = None
    """picture of one view: .svg, .pdf or .png"""
    view: str = "alignment"
    """for --figure: alignment, heads, model, rollout, flow, steps, inputs, positions, masks, tree, decoding, answers or
    unrolled; for pictures regions or glimpses, for clips and sound frames, for stories hops or chain, for dialogues
    turns"""
    role: _ROLES | None = None
    """for --figure and --terminal: which attention to show; cross if there is any, otherwise summary"""
    layer: int = -1
    """for --figure and --terminal: layer, counted from 0; -1 is the last"""
    head: int | None = None
    """for --figure and --terminal: head, counted from 0; the mean over heads if not given"""
    raw: bool = False
    """for --view regions: draw weights as whole regions, instead of smoothly around their centres"""
    numbers: Annotated[Path | None, FileSuffixes((".npz", ".csv"))] = None
    """file for all weights: .npz or .csv"""
    terminal: bool = False
    """also show it in the terminal"""
    layers: str | None = None
    """layers to record, as in 0,2; the others keep their fast kernels"""
    heads: str | None = None
    """heads to record, as in 0,2"""
    detail: Literal["auto", "yes", "no"] = "auto"
    """also record queries, keys, values and scores; auto omits them if they are many"""
    attribution: Literal["auto", "none", "gradient", "integrated"] = "auto"
    """importance of each input token for the output: gradient times input, or integrated gradients; auto computes
    integrated gradients where that is cheap"""
    attribution_steps: int = 32
    """of integrated gradients: forward and backward passes for each output token; auto doubles them until the scores
    are complete"""
    padding: int = 0
    """number of padding columns after the source, as in a batch with a longer text: shows that nothing attends to
    them"""
    beam: int | None = None
    """width of the search, whose tree is recorded; that of the recipe if not given"""
    tokens: int | None = None
    """for language models: maximum number of new tokens; 0 only reads the prompt"""
    compare: tuple[Path, Path] | None = None
    """two saved records of the same text: shows how different their heads are"""
    data: Path | None = None
    """TSV or JSONL file of sentences and translations: shows statistics of all heads over it"""
    gold: Path | None = None
    """with --data: gold alignments, line by line; shows the error rate of each head"""
    importance: bool = False
    """with --data: BLEU without each head, one at a time"""
    sentences: int = 200
    """with --data: how many of the first sentences to read"""
    json: Path | None = None
    """with --data or --compare: file for the numbers"""
    task: str | None = None
    """for runs with several tasks: name of the task; --head is an attention head"""
    direction: DirectionOptions = field(default_factory=DirectionOptions)
    step: int | None = None
    """update of a kept checkpoint, to use it instead of the finished model"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)

    def execute(self) -> int:
        """Run the command; return the exit code."""
        _check_arguments(self)
        self.computing.set_num_threads()
        if self.compare is not None:
            from heedful.cli.inspect_corpus import compare_records

            compare_records(*self.compare, json_file=self.json)
        elif self.data is not None:
            from heedful.cli.inspect_corpus import survey_heads

            assert self.run is not None
            survey_heads(
                self.run,
                self.data,
                gold=self.gold,
                importance=self.importance,
                sentences=self.sentences,
                page=self.output,
                json_file=self.json,
                direction=self.direction,
                **self.computing.load_kwargs,
            )
        else:
            _write_views(_make_record(self), self)
        return 0


def _check_arguments(args: InspectArguments) -> None:
    """Raise `RecipeError` unless one of --text, --record, --compare and --data is given, with a run if it needs one,
    and with only the options that belong to it.
    """
    modes = {
        "--text": args.text is not None,
        "--record": args.record is not None,
        "--compare": args.compare is not None,
        "--data": args.data is not None,
    }
    chosen = [name for name, is_given in modes.items() if is_given]
    if len(chosen) != 1:
        raise RecipeError(
            f"heedful inspect: give one of {', '.join(modes)}" + (f", not {' and '.join(chosen)}" * bool(chosen))
        )
    needs_run = chosen[0] in ("--text", "--data")
    if needs_run and args.run is None:
        raise RecipeError(f"{chosen[0]}: needs a run folder; write heedful inspect RUN {chosen[0]} ...")
    if not needs_run and args.run is not None:
        raise RecipeError(f"{args.run}: {chosen[0]} needs no run; leave one of them out")
    if not needs_run and args.direction != DirectionOptions():
        raise RecipeError(f"--to, --tags: {chosen[0]} does not read text; leave them out")
    if args.gold is not None and args.data is None:
        raise RecipeError("--gold: has the alignments of the lines of --data; give --data too, or leave --gold out")
    require_minimum(args, sentences=1, attribution_steps=1)


def _make_record(args: InspectArguments) -> InspectionRecord:
    """Load the saved record, or run the model on the text and record it."""
    from heedful.inspection.record_files import load_record

    if args.record is not None:
        record = load_record(args.record)
        record = record.keep_maps(
            layers=_parse_numbers("layers", args.layers), heads=_parse_numbers("heads", args.heads)
        )
        return _select_attributions(record, args, missing="the record was saved without it; inspect the run again")

    from heedful.runs.load import load
    from heedful.tasks.inspection_records import InspectionSelection
    from heedful.tasks.predictor import InspectRequest, MultiHeadPredictor, Predictor

    assert args.run is not None
    assert args.text is not None
    predictor: object = load(args.run, step=args.step, **args.computing.load_kwargs)
    if isinstance(predictor, MultiHeadPredictor):
        predictor = predictor.find_head(object, purpose="can be inspected", name=args.task)
    elif args.task is not None:
        raise RecipeError(f"--task: {args.run} has one task; leave it out")
    if args.direction != DirectionOptions():
        predictor = args.direction.apply_to(predictor)
    if not isinstance(predictor, Predictor):
        raise RecipeError(
            f"{args.run}: is {add_article(type(predictor).__name__)}, which cannot be inspected with --text; give "
            "another model"
        )
    record_scores = {"auto": None, "yes": True, "no": False}[args.detail]
    selection = InspectionSelection(
        _parse_numbers("layers", args.layers),
        _parse_numbers("heads", args.heads),
        attention_steps=record_scores,
        padding=args.padding,
        attribution=None if args.attribution == "none" else args.attribution,
        steps=args.attribution_steps,
    )
    request = InspectRequest(args.text, args.pair, beam=args.beam, max_tokens=args.tokens, selection=selection, log=log)
    record = predictor.inspect_request(request)
    return _select_attributions(
        record,
        args,
        missing="the input of this model has no token embeddings, or its output cannot be attributed to them; leave it "
        "out",
    )


def _select_attributions(record: InspectionRecord, args: InspectArguments, *, missing: str) -> InspectionRecord:
    """Return the record with only the requested attributions; raise `RecipeError` with the reason `missing` if
    there are none.
    """
    if args.attribution == "auto":
        return record
    selected = tuple(attribution for attribution in record.attributions if attribution.method == args.attribution)
    if args.attribution != "none" and not selected:
        raise RecipeError(f"--attribution {args.attribution}: {missing}")
    return replace(record, attributions=selected)


def _parse_numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    """Parse the value of an option, a list of numbers such as 0,2; None if it was not given. Raise `RecipeError` for
    other text.
    """
    if text is None:
        return None
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise RecipeError(f"--{option}: {text!r} is not a list of numbers; write them as in 0,2") from None


def _write_views(record: InspectionRecord, args: InspectArguments) -> None:
    """Write the record in all requested formats; show it in the terminal if requested or if no file was named."""
    from heedful.inspection.figures import draw_figure
    from heedful.inspection.page import write_page
    from heedful.inspection.record_files import save_record, write_figure, write_weights
    from heedful.inspection.web import render_viewer

    def draw_to_file(path: Path) -> None:
        """Draw one view of the record and write it to a file."""
        picture = draw_figure(
            record, view=args.view, role=args.role, layer=args.layer, head=args.head, smooth=not args.raw
        )
        write_figure(picture, path)

    outputs: tuple[tuple[Path | None, Callable[[Path], None]], ...] = (
        (args.output, lambda path: write_page(render_viewer(record), path)),
        (args.save, lambda path: save_record(record, path)),
        (args.figure, draw_to_file),
        (args.numbers, lambda path: write_weights(record, path)),
    )
    selected = [(path, write) for path, write in outputs if path is not None]
    for path, write in selected:
        write(path)
    for path, _ in selected:
        print(f"written: {path}", file=sys.stderr)
    if args.terminal or not selected:
        from rich.console import Console

        from heedful.inspection.terminal import render_terminal

        Console(soft_wrap=True, highlight=False).print(
            render_terminal(
                record, role=args.role, layer=args.layer, head=args.head, show_attributions=args.attribution != "auto"
            )
        )
