"""Figures of what the lectures claim: positions, scaling, heads, gradients, costs and sizes."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from heedful.attention import IntegerPosition, ScaledDotScore, SinusoidalPosition, UnitIntervalPosition
from heedful.inspection.plots import LOGARITHMIC, PlotLine, draw_line_plot
from heedful.lecture.data.parallel import VISIT
from heedful.lecture.figures.figure import FigureContent, LectureRuns, register_figure, stack_pictures

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from heedful.attention.positions import AbsolutePosition
    from heedful.tasks.comparison import RunComparison

_POSITION_MODELS: Final = {
    "reversal-sinusoidal": "sinusoidal",
    "reversal-learned": "learned",
    "reversal-unit-interval": "0 to 1",
    "reversal-integer": "1, 2, 3",
    "reversal-shaw": "relative (Shaw)",
    "reversal-rotary": "rotary",
    "reversal-none": "none",
}
_HEAD_MODELS: Final = {f"neighbours-heads-{count}": f"{count}" for count in (1, 2, 4, 8)}
_AGGREGATION_MODELS: Final = {
    "neighbours-mean": "mean",
    "neighbours-concat": "concatenation",
    "neighbours-heads-4": "projection",
}
_SEEDS: Final = (1, 2, 3)
"""Seeds of the models that fetch three letters; a single one may stay in a local minimum."""
_STAGES: Final = ("french", "german", "german-rehearsed")
_STUDY_FIGURES: Final = {
    "gradient-lag": (
        "gradient-lag", "gradient_lag_trained.svg", "How far back a gradient reaches",
        "The lines show how strongly an input acts on the last state, by the number of steps between them, after a "
        "short training. In a recurrent network each step multiplies a Jacobian; attention needs one step.",
    ),
    "norm-batches": (
        "normalisation", "normalisation_batch_4.svg", "Normalization with batches of four",
        "A GRU reads digits row by row with batches of four. Statistics over so few examples are poor, and each step "
        "needs its own. Layer normalization takes its statistics from one example at one step.",
    ),
    "complexity-length": (
        "complexity", "complexity-time-length.svg", "Time by length",
        "Measured time of one layer. Doubling the length doubles the time of recurrence and convolution; in the end "
        "it quadruples that of self-attention, which in return needs one sequential step.",
    ),
    "attention-as-convolution": (
        "convolution", "attention_as_convolution_1.svg", "Where heads look that compute a convolution",
        "Each head looks at one pixel around the query. Nine such heads compute any convolution of 3 by 3 pixels, and "
        "training moves the heads.",
    ),
}  # fmt: skip
"""Run, file, title and explanation of each figure that a study draws, by name."""


def compare_on_test(runs: LectureRuns, names: Sequence[str]) -> RunComparison:
    """Evaluate runs that share a test set on it, and compare them."""
    from heedful.metrics.metric import BootstrapOptions
    from heedful.runs.evaluate import ComparedRun, build_shared_evaluator, compare_runs
    from heedful.tasks.evaluation import EvaluatorOptions

    compared = [ComparedRun.from_folder(runs.get_run_folder(name)) for name in names]
    evaluator = build_shared_evaluator(compared, EvaluatorOptions())
    return compare_runs(compared, evaluator, BootstrapOptions(samples=100), device="cpu", log=lambda _: None)


@register_figure("positions-longer", "Longer texts than in training", models=tuple(_POSITION_MODELS))
def draw_longer_texts(runs: LectureRuns) -> FigureContent:
    """Plot how well models with each kind of positions reverse sequences, by length."""
    from heedful.metrics.translation import exact_match

    rows = [line.split("\t") for line in _read_test(runs, "reversal")]
    lines, texts = [], []
    for name, kind in _POSITION_MODELS.items():
        outputs = [translation.text for translation in runs.load(name).translate([source for source, _ in rows])]
        points = []
        for shortest in range(2, 18, 3):
            chosen = [n for n, (source, _) in enumerate(rows) if shortest <= len(source.split()) < shortest + 3]
            share = exact_match([outputs[n] for n in chosen], [rows[n][1] for n in chosen]).value
            points.append((shortest + 1, share))
        lines.append(PlotLine(kind, tuple(points)))
        texts.append(f"{kind} {points[0][1]:.0f}, {points[2][1]:.0f} and {points[4][1]:.0f} %")
    return FigureContent(
        draw_line_plot(
            lines, title="Sequences reversed without a mistake", x_name="words", y_name="percent", y_include=0
        ),
        "The models learned to reverse sequences of 2 to 10 words. Right ones among sequences of 2 to 4, of 8 to 10 "
        f"and of 14 to 16 words: {'; '.join(texts)}.",
        command="heedful evaluate runs/reversal-sinusoidal",
    )


def _read_test(runs: LectureRuns, data: str) -> list[str]:
    """Read the lines of the test file of a data set."""
    return (runs.folder / "data" / data / "test.tsv").read_text(encoding="utf-8").splitlines()


@register_figure("positions-criteria", "What a position should be")
def draw_position_criteria(_runs: LectureRuns) -> FigureContent:
    """Plot the distance of the first two positions by the length of the text, and the largest entry by position, for
    three kinds of positions.
    """
    width = 16
    kinds: dict[str, AbsolutePosition] = {
        "0 to 1": UnitIntervalPosition(width),
        "1, 2, 3": IntegerPosition(width),
        "sines and cosines": SinusoidalPosition(width),
    }
    lengths = [2, 5, 10, 20, 50]

    def encode(position: AbsolutePosition, length: int) -> torch.Tensor:
        vectors: torch.Tensor = position(torch.arange(length)[None])[0]
        return vectors

    neighbours = [
        PlotLine(name, tuple((n, float((encode(kind, n)[1] - encode(kind, n)[0]).norm())) for n in lengths))
        for name, kind in kinds.items()
    ]
    entries = [
        PlotLine(name, tuple((place + 1, float(encode(kind, 50)[place].abs().max())) for place in range(0, 50, 7)))
        for name, kind in kinds.items()
    ]
    plots = [
        draw_line_plot(
            neighbours,
            title="Distance between the first two positions",
            x_name="words in the text",
            y_name="distance of the vectors",
            y_include=0,
        ),
        draw_line_plot(
            entries,
            title="Largest entry of a position's vector",
            x_name="position",
            y_name="absolute value",
            y_include=0,
        ),
    ]
    return FigureContent(
        stack_pictures(plots),
        "From 0 to 1, neighbours are nearer in longer texts, so a distance has no fixed meaning. With 1, 2, 3 the "
        "numbers grow without a bound. Distances of sines and cosines are fixed, and entries are at most 1.",
    )


@register_figure("scaled-scores", "Why the root of d")
def draw_scaled_scores(_runs: LectureRuns) -> FigureContent:
    """Plot the size of the gradient through softmax by the width of queries and keys, with and without scaling."""
    generator = torch.Generator().manual_seed(1)
    widths = [4, 16, 64, 256, 1024]
    gradients: dict[str, list[tuple[float, float]]] = {"q · k": [], "q · k / √d": []}
    for width in widths:
        queries, keys = (torch.randn(64, count, width, generator=generator) for count in (1, 16))
        scaled = ScaledDotScore()(queries, keys)
        for name, scores in (("q · k", scaled * math.sqrt(width)), ("q · k / √d", scaled)):
            weights = scores.softmax(-1)[:, 0]
            jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None]
            gradients[name].append((width, float(jacobian.flatten(1).norm(dim=1).mean())))
    lost = gradients["q · k"][-1][1] / gradients["q · k / √d"][-1][1]
    return FigureContent(
        draw_line_plot(
            [PlotLine(name, tuple(points)) for name, points in gradients.items()],
            title="Gradient through softmax over 16 keys",
            x_name="d",
            y_name="norm of the Jacobian",
            x_scale=LOGARITHMIC,
            x_ticks=[(width, f"{width}") for width in widths],
            y_include=0,
        ),
        "Entries of queries and keys have mean 0 and variance 1, so their product has variance d. Without the division "
        f"softmax gives nearly everything to one key: at d = 1,024 its gradient is {lost:.2f} times that with the "
        "division.",
    )


def _list_seed_runs(models: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the models of each seed."""
    return tuple(f"{model}-{seed}" for model in models for seed in _SEEDS)


def _draw_accuracies(
    runs: LectureRuns, *, models: Mapping[str, str], title: str, x_name: str, explanation: str
) -> FigureContent:
    """Plot the accuracy of taggers on sequences whose tags need three letters at once: each seed, and the mean."""
    comparison = compare_on_test(runs, _list_seed_runs(models))
    values = np.array([100 * report.metrics["accuracy"].value for report in comparison.reports])
    by_model = values.reshape(len(models), len(_SEEDS))
    lines = [PlotLine("mean", tuple(enumerate(by_model.mean(1), 1)))]
    lines += [PlotLine(f"seed {seed}", tuple(enumerate(by_model[:, n], 1))) for n, seed in enumerate(_SEEDS)]
    shares = ", ".join(f"{label}: {row.mean():.0f} %" for label, row in zip(models.values(), by_model, strict=True))
    return FigureContent(
        draw_line_plot(
            lines,
            title=title,
            x_name=x_name,
            y_name="percent of the tags that are right",
            x_ticks=[(place, label) for place, label in enumerate(models.values(), 1)],
            y_include=0,
        ),
        f"{explanation} Right tags, mean of {len(_SEEDS)} seeds: {shares}.",
        command=f"heedful compare {' '.join(f'runs/{name}' for name in _list_seed_runs(models))}",
    )


@register_figure("heads-decorrelated", "Heads that agree less", models=("translator", "translator-decorrelated"))
def draw_head_similarity(runs: LectureRuns) -> FigureContent:
    """Plot how similar the heads of each attention are, with and without the penalty of Lin et al. 2017."""
    labels = {"translator": "without penalty", "translator-decorrelated": "with penalty"}
    lines, means = [], []
    names: list[str] = []
    reports = compare_on_test(runs, tuple(labels)).reports
    scores = [
        f"{label} {report.metrics['BLEU'].value:.1f}" for label, report in zip(labels.values(), reports, strict=True)
    ]
    for model, label in labels.items():
        record = runs.load(model).inspect(VISIT[1])
        names = [attention_map.name for attention_map in record.maps]
        overlaps = []
        for attention_map in record.maps:
            rows = attention_map.weights / np.linalg.norm(attention_map.weights, axis=-1, keepdims=True)
            cosines = np.einsum("hqk,gqk->hg", rows, rows) / rows.shape[1]
            overlaps.append(float((cosines.sum() - np.trace(cosines)) / (len(rows) * (len(rows) - 1))))
        lines.append(PlotLine(label, tuple(enumerate(overlaps, 1))))
        means.append(f"{label} {np.mean(overlaps):.2f}")
    return FigureContent(
        draw_line_plot(
            lines,
            title="Mean cosine between the weights of two heads",
            x_name="attention, in the order below",
            y_name="cosine",
            x_ticks=[(place, str(place)) for place in range(1, len(names) + 1)],
            y_include=0,
        ),
        f"The penalty ‖AA' - I‖² pushes the heads apart. Mean over all attentions: {', '.join(means)}. BLEU on "
        f"held-out sentences: {', '.join(scores)}; with a weight thirty times as large it is lost. The attentions are "
        f"{', '.join(names)}.",
        command="heedful train recipes/translator.toml --training.decorrelation 0.01 "
        "--output runs/translator-decorrelated",
    )


@register_figure(
    "forgetting-language",
    "The second language, and what is left of the first",
    models=tuple(f"{stage}{ending}" for ending in ("", "-attention") for stage in _STAGES),
)
def draw_forgotten_language(runs: LectureRuns) -> FigureContent:
    """Plot the percentage of French and German sentences that are right: after French, then after German alone, or
    after German with rehearsal.
    """
    from heedful.metrics.translation import exact_match

    def measure(model: str, language: str) -> float:
        """Return the percentage of test sentences that are translated without a mistake."""
        text = (runs.folder / "data" / "languages" / f"{language}-test.tsv").read_text(encoding="utf-8")
        rows = [line.split("\t") for line in text.splitlines()]
        outputs = [translation.text for translation in runs.load(model).translate([source for source, _ in rows])]
        return exact_match(outputs, [target for _, target in rows]).value

    lines, texts = [], []
    for ending, label in (("", "one vector"), ("-attention", "attention")):
        for language in ("french", "german"):
            shares = [measure(f"{stage}{ending}", language) for stage in _STAGES]
            lines.append(PlotLine(f"{label}: {language}", tuple(enumerate(shares, 1))))
            texts.append(f"{label}, {language}: {', '.join(f'{share:.0f} %' for share in shares)}")
    return FigureContent(
        draw_line_plot(
            lines,
            title="Sentences without a mistake",
            x_name="what was learned",
            y_name="percent",
            x_ticks=[(1, "French"), (2, "then German"), (3, "with rehearsal")],
            y_include=0,
        ),
        "The network learns French, and then either German alone, or German with an eighth of the French sentences. "
        f"{'; '.join(texts)}. The gradient of new sentences changes all weights, also those that the old ones need.",
        command="heedful train recipes/second-language.toml --output runs/german",
    )


register_figure("head-counts", "Why several heads", models=_list_seed_runs(_HEAD_MODELS))(
    partial(
        _draw_accuracies,
        models=_HEAD_MODELS,
        title="One layer that must fetch three letters",
        x_name="heads",
        explanation="The tag of each letter is made of three others. A head has one distribution of weights, so it "
        "mixes them; several heads fetch one each. With few heads it depends on the seed which letters are found.",
    )
)
register_figure("aggregations", "Mean, concatenation and projection", models=_list_seed_runs(_AGGREGATION_MODELS))(
    partial(
        _draw_accuracies,
        models=_AGGREGATION_MODELS,
        title="How four heads are combined",
        x_name="aggregation",
        explanation="A mean adds the heads, so what they found may be confused. A concatenation keeps it apart, and "
        "the projection mixes it by learned weights.",
    )
)


@register_figure("model-sizes", "The models that the lectures name")
def draw_model_sizes(_runs: LectureRuns) -> FigureContent:
    """Plot the parameters of published models, counted on models whose weights are not allocated."""
    from heedful.architectures.model import PUBLISHED_MODELS
    from heedful.architectures.published import get_published_size

    sizes = {name: get_published_size(name, length=1).num_parameters for name in PUBLISHED_MODELS}
    ordered = sorted(sizes.items(), key=lambda item: item[1])
    texts = ", ".join(f"{name} {size / 1e6:,.0f}" for name, size in ordered)
    return FigureContent(
        draw_line_plot(
            [PlotLine("parameters", tuple((place, size) for place, (_, size) in enumerate(ordered, 1)))],
            title="Parameters, as heedful counts them",
            x_name="model, in the order below",
            y_name="parameters",
            y_scale=LOGARITHMIC,
            x_ticks=[(place, str(place)) for place in range(1, len(ordered) + 1)],
        ),
        f"In millions: {texts}.",
        command="heedful describe --sizes",
    )


def _load_study_figure(runs: LectureRuns, *, model: str, file: str, explanation: str) -> FigureContent:
    """Load a figure that a study has drawn; its caption includes the fitted exponents, if there are any."""
    from heedful.lecture.models import MODELS

    folder = runs.get_run_folder(model)
    exponents = json.loads((folder / "numbers.json").read_text(encoding="utf-8")).get("exponents", {})
    words = ["heedful", *MODELS[model].build_command(Path()), "--output", f"runs/{model}"]
    return FigureContent(
        (folder / file).read_text(encoding="utf-8"),
        f"{explanation} {describe_exponents(exponents)}".strip(),
        command=" ".join(words),
    )


def describe_exponents(exponents: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Return sentences with the fitted and, in parentheses, the theoretical exponents of each layer; `exponents` maps
    each layer and quantity to both.
    """
    quantities = {"time n": "time by length", "time d": "time by width", "sequential": "sequential steps by length"}
    sentences = []
    for key, name in quantities.items():
        fitted = ", ".join(f"{layer} {row[key][0]:.1f} ({row[key][1]:g})" for layer, row in exponents.items())
        sentences.append(f"Exponents of {name}, fitted (in theory): {fitted}.")
    return " ".join(sentences) if exponents else ""


for _name, (_model, _file, _title, _explanation) in _STUDY_FIGURES.items():
    register_figure(_name, _title, models=(_model,))(
        partial(_load_study_figure, model=_model, file=_file, explanation=_explanation)
    )
