"""Figures of captions, clips and glimpses: where a model looks while it writes, or before it answers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from heedful.inspection.figures import draw_figure
from heedful.inspection.plots import PlotLine, draw_line_plot
from heedful.lecture.figures.figure import FigureContent, LectureRuns, register_figure, stack_pictures

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from heedful.metrics.metric import Metric

_VIDEO_MODELS = {
    "clips": "local and global",
    "clips-global": "global",
    "clips-local": "local",
    "clips-basic": "basic",
}
"""The four ways of Yao et al. 2015, by run."""


def _measure_captions(runs: LectureRuns, name: str) -> Mapping[str, Metric]:
    """Measure the captions of a run on its test data."""
    from heedful.tasks.captioning.data import ClipRecords, CocoCaptions
    from heedful.tasks.captioning.evaluation import build_caption_evaluator, build_video_evaluator

    predictor = runs.load(name)
    if name in _VIDEO_MODELS:
        folder = runs.folder / "data" / "clips"
        clips, train = (list(ClipRecords(folder / f"{part}.jsonl")) for part in ("test", "train"))
        evaluator: Any = build_video_evaluator(clips, train=train, read_clip=predictor.read_clip)
    else:
        folder = runs.folder / "data" / "captions"
        test, train_pictures = (
            list(CocoCaptions(folder / f"{part}.json", pictures=folder / "pictures")) for part in ("test", "train")
        )
        evaluator = build_caption_evaluator(test, train=train_pictures)
    metrics: Mapping[str, Metric] = evaluator.compute_metrics(evaluator.predict_labels(predictor))
    return metrics


def _get_first_picture(runs: LectureRuns) -> Path:
    return runs.folder / "data" / "captions" / "pictures" / "test00000.png"


def _draw_caption(runs: LectureRuns, *, view: str, explanation: str) -> FigureContent:
    """Draw where the captioner looked at the first test picture."""
    picture = _get_first_picture(runs)
    record = runs.load("captions").inspect(picture)
    metrics = _measure_captions(runs, "captions")
    return FigureContent(
        draw_figure(record, view=view),
        f"It wrote: {record.said}. {explanation} Of 500 pictures whose captions never occurred in training, "
        f"{metrics['exact match'].value:.0f} % are described without a mistake, and {metrics['pointing'].value:.0f} % "
        "of the words for things look mostly at the thing.",
        record,
        view,
        f"heedful inspect runs/captions --text {picture.relative_to(runs.folder)} --figure {view}.svg --view {view}",
    )


register_figure("regions-shapes", "Regions, word by word", models=("captions",))(
    partial(
        _draw_caption,
        view="regions",
        explanation="Above each word is its probability; bright regions had a high weight when it was written.",
    )
)
register_figure("decoding-shapes", "The probabilities of the words", models=("captions",))(
    partial(_draw_caption, view="decoding", explanation="Each step shows what else the model could have written.")
)


@register_figure("soft-hard", "Soft and hard attention", models=("captions", "captions-hard"))
def draw_soft_and_hard(runs: LectureRuns) -> FigureContent:
    """Draw the regions of the same picture by soft and by hard attention, below each other."""
    picture = _get_first_picture(runs)
    records = {name: runs.load(name).inspect(picture) for name in ("captions", "captions-hard")}
    shares = {name: _measure_captions(runs, name)["exact match"].value for name in records}
    return FigureContent(
        stack_pictures([draw_figure(record, view="regions") for record in records.values()]),
        f"Above, soft attention takes the mean of all regions: {records['captions'].said}. Below, hard attention draws "
        f"one region for each word and learns by REINFORCE: {records['captions-hard'].said}. Captions without a "
        f"mistake: soft {shares['captions']:.0f} %, hard {shares['captions-hard']:.0f} %.",
        records["captions-hard"],
        "regions",
        f"heedful inspect runs/captions-hard --text {picture.relative_to(runs.folder)} --figure regions.svg "
        "--view regions",
    )


def _draw_clip(runs: LectureRuns, *, model: str) -> FigureContent:
    """Draw the frames of the first test clip with the weights of a model."""
    from heedful.tasks.captioning.data import ClipRecords

    clip = next(iter(ClipRecords(runs.folder / "data" / "clips" / "test.jsonl")))
    record = runs.load(model).inspect(clip.file)
    said = {_VIDEO_MODELS[name]: runs.load(name).caption([clip.file])[0].text for name in _VIDEO_MODELS}
    texts = "; ".join(f"{name}: {text}" for name, text in said.items())
    return FigureContent(
        draw_figure(record, view="frames"),
        f"The clip shows: {clip.captions[0]}. The four ways wrote: {texts}.",
        record,
        "frames",
        f"heedful inspect runs/{model} --text {clip.file.relative_to(runs.folder)} --figure frames.svg --view frames",
    )


register_figure("frames-clip", "Frames for each word", models=tuple(_VIDEO_MODELS))(partial(_draw_clip, model="clips"))


@register_figure("clip-scores", "The four ways compared", models=tuple(_VIDEO_MODELS))
def draw_clip_scores(runs: LectureRuns) -> FigureContent:
    """Plot exact matches and BLEU-4 of the four models of Yao et al. 2015."""
    metrics = {name: _measure_captions(runs, name) for name in _VIDEO_MODELS}
    lines = [
        PlotLine(title, tuple((place, metrics[name][title].value) for place, name in enumerate(_VIDEO_MODELS, 1)))
        for title in ("exact match", "BLEU-4")
    ]
    exact = ", ".join(f"{kind} {metrics[name]['exact match'].value:.0f} %" for name, kind in _VIDEO_MODELS.items())
    return FigureContent(
        draw_line_plot(
            lines,
            title="Captions of 300 clips",
            x_name="model",
            y_name="percent",
            x_ticks=list(enumerate(_VIDEO_MODELS.values(), 1)),
            y_include=0,
        ),
        f"Captions without a mistake: {exact}. Attention says when, and motion says what; both are needed.",
        command="heedful evaluate runs/clips",
    )


@register_figure("glimpse-path", "A path of glimpses", models=("glimpses",))
def draw_glimpse_path(runs: LectureRuns) -> FigureContent:
    """Draw where the glimpse model looks in a test picture, and how often it is right after each glimpse."""
    import numpy as np

    from heedful.lecture.models import DEMONSTRATIONS
    from heedful.tasks.glimpses.data import CanvasRenderer, render_scenes
    from heedful.tasks.glimpses.demonstration import MAZE, GlimpsesDemonstration

    demonstration = DEMONSTRATIONS["glimpses"]
    assert isinstance(demonstration, GlimpsesDemonstration)
    digits = demonstration.parts["test"]
    pictures = [digit.pixels for digit in digits]
    mazes = render_scenes(CanvasRenderer(**MAZE), pictures, others=pictures, numbers=range(len(pictures)))
    predictor = runs.load("glimpses")
    predictions = predictor.look_at(list(mazes))
    right = np.array(
        [
            [name == str(digit.label) for name in prediction.labels_after]
            for prediction, digit in zip(predictions, digits, strict=True)
        ]
    )
    place = int(right[:, -1].argmax())
    record = predictor.inspect(mazes[place], title=f"a {digits[place].label} among clutter")
    shares = ", ".join(f"{share:.0%}" for share in right.mean(0))
    return FigureContent(
        draw_figure(record, view="glimpses"),
        f"Each glimpse sees a small square sharply and larger ones coarsely. Right after each glimpse, on "
        f"{len(digits)} digits: {shares}. Where to look is sampled, so it is learned by REINFORCE.",
        record,
        "glimpses",
        "heedful evaluate runs/glimpses",
    )
