"""What a person prints in a notebook says in a line or a table what it is."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from torch import nn

import heedful
from heedful.architectures.build import build_language_model
from heedful.architectures.stack import DecoderConfig
from heedful.attention import (
    AdditiveScore,
    Attention,
    ConcatScore,
    DependencyTree,
    Dropout,
    HardSampling,
    IntegerPosition,
    LearnedPosition,
    LinearChain,
    LocationScore,
    MultiHeadAttention,
    MultiHopAttention,
    PredictedWindow,
    QuadraticPosition,
    RotaryPosition,
    ScoredWeights,
    ShawPosition,
    SinusoidalPosition,
    UnitIntervalPosition,
    normalize_by_sum,
)
from heedful.data.labels import LabelVocabulary
from heedful.inspection.page import PageTable
from heedful.metrics.metric import BootstrapOptions
from heedful.recipes.load import load_recipe
from heedful.runs.evaluate import ComparedRun, build_shared_evaluator, compare_runs
from heedful.runs.load import open_run
from heedful.runs.metrics_log import CurvePlots, LearningCurve, ValidationPoint
from heedful.runs.metrics_log import TrainingPoint as Point
from heedful.runs.train import TrainResult
from heedful.tasks.evaluation import EvaluatorOptions

GOLDEN = Path(__file__).parents[1] / "golden"
SVG = "{http://www.w3.org/2000/svg}svg"
RUNS = sorted(path.name for path in GOLDEN.iterdir() if (path / "run").is_dir())


def is_one_line(text: str) -> bool:
    return "\n" not in text and " object at 0x" not in text and len(text) < 300


def parsed(part: str) -> ET.Element:
    """What a notebook is given; it is well-formed, so nothing in it was left unescaped."""
    return ET.fromstring(f"<div>{part}</div>")


@pytest.mark.parametrize("name", RUNS)
def test_a_loaded_model_says_what_it_is(name: str) -> None:
    model = heedful.load(GOLDEN / name / "run", device="cpu")
    said = repr(model)
    assert is_one_line(said)
    assert said.startswith(f"{type(model).__name__}(")
    count = re.search(r"of ([\d,]+) parameters on cpu", said)
    assert count is not None
    modules = [part for part in vars(model).values() if isinstance(part, nn.Module)]
    for part in [module for module in modules if next(module.parameters(), None) is not None]:
        assert int(count[1].replace(",", "")) == sum(p.numel() for p in part.parameters())


@pytest.mark.parametrize("name", RUNS)
def test_a_run_and_its_vocabularies_say_what_they_are(name: str) -> None:
    run = open_run(GOLDEN / name / "run")
    assert is_one_line(repr(run))
    assert f"task {run.recipe.task}" in repr(run)
    for vocabulary in run.vocabularies.values():
        assert is_one_line(repr(vocabulary)), repr(vocabulary)


def test_a_model_is_told_once_and_each_of_several() -> None:
    one = heedful.load(GOLDEN / "translation-transformer/run", device="cpu")
    assert repr(one) == "Translator(SequenceToSequence of 1,800 parameters on cpu, WordTokenizer(33 ids))"
    both = heedful.load(*[GOLDEN / "translation-transformer/run"] * 2, device="cpu")
    assert repr(both).count("SequenceToSequence of 1,800 parameters") == 2


def test_many_labels_are_cut() -> None:
    assert repr(LabelVocabulary(["a", "b"])) == "LabelVocabulary('a', 'b')"
    assert repr(LabelVocabulary([f"l{number}" for number in range(15)])).endswith("'l11', ... 3 more)")


def test_a_recipe_shows_what_differs_from_the_defaults() -> None:
    recipe = load_recipe(GOLDEN / "tagging-transformer/recipe.toml")
    said = repr(recipe)
    assert "task='tagging'" in said
    assert "d_model=8" in said
    assert "clip=" not in said
    assert "tensorboard" not in said
    assert type(recipe).model_validate(recipe.model_dump()) == recipe


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (Attention(AdditiveScore(2, 3, 4), normalize_by_sum), "choose=normalize_by_sum"),
        (Attention(ConcatScore(2, 3, 4), HardSampling(expected=0.5)), "choose=HardSampling"),
        (Attention(LocationScore(2, 9)), "longest=9"),
        (HardSampling(expected=0.5), "expected=0.5"),
        (MultiHopAttention(3), "hops=3"),
        (PredictedWindow(2, 3, reach=4), "reach=4"),
        (Dropout(0.25), "p=0.25"),
        (MultiHeadAttention(8, 2), "heads=2, d_k=4, d_v=4"),
        (SinusoidalPosition(6), "d_model=6"),
        (LearnedPosition(5, 6, offset=2), "length=5, offset=2"),
        (UnitIntervalPosition(6, 7), "d_model=6, length=7"),
        (IntegerPosition(6), "d_model=6, first=1"),
        (RotaryPosition(4), "d_k=4"),
        (ShawPosition(4, None, clip=3), "clip=3, count=7, d_k=4, values=False"),
        (QuadraticPosition(2, 5), "heads=2, columns=5"),
        (LinearChain(total=2.0), "total=2.0"),
        (ScoredWeights(AdditiveScore(2, 2, 2), normalize_by_sum), "choice=normalize_by_sum"),
        (DependencyTree(), "DependencyTree()"),
    ],
)
def test_attention_says_how_it_was_made(module: nn.Module, said: str) -> None:
    assert said in repr(module)


def test_a_model_can_be_printed_in_whole() -> None:
    windowed = DecoderConfig.model_validate({"d_model": 8, "heads": 2, "layers": 1, "residual": "pre_norm"})
    said = repr(build_language_model(windowed, vocabulary=9))
    assert "visibility=" in said
    assert "Dropout()" not in said
    assert " object at 0x" not in said
    assert "<function" not in said


def test_a_record_is_a_line_and_a_page() -> None:
    record = heedful.load(GOLDEN / "translation-transformer/run", device="cpu").inspect("a dog")
    assert repr(record) == (
        "InspectionRecord('a dog', transformer encoder, transformer decoder; axes source (3), read (7), written (7); "
        "attention encoder (1 of 2 heads), decoder (1 of 2 heads), cross (1 of 2 heads))"
    )
    cross = record.find_map("cross", layer=0)
    assert repr(cross).startswith("AttentionMap(cross layer 0, 2 heads: 7 written look at 3 source; ")
    assert "<iframe" in record._repr_html_()
    assert repr(replace(record, maps=())).endswith("attention none)")


def test_scores_are_a_table() -> None:
    report = heedful.evaluate(["a b <c> d"] * 3, ["a b <c> d", "a b <c> e", "f"], sources=["x y"] * 3, samples=10)
    lines = repr(report).splitlines()
    assert lines[0].split()[:2] == ["metric", "value"]
    assert lines[1].startswith("BLEU ")
    assert f"{report.bleu:.2f}" in lines[1]
    assert len(parsed(report._repr_html_()).findall(".//tr")) == len(lines) == 1 + 6 + len(report.bands)


def test_a_comparison_is_tables_and_a_picture(tuned: Callable[[str], Path]) -> None:
    runs = [ComparedRun.from_folder(tuned("tagging"))] * 2
    found = compare_runs(
        runs,
        build_shared_evaluator(runs, EvaluatorOptions()),
        BootstrapOptions(20, 1),
        device="cpu",
        log=lambda _: None,
    )
    assert repr(found) == found.format_text()
    assert {"table", SVG} <= {part.tag for part in parsed(found._repr_html_()).iter()}
    report = found.reports[0]
    assert repr(report) == report.format_text()
    assert parsed(report._repr_html_()).find("pre") is not None


def test_a_table_escapes_its_cells() -> None:
    table = PageTable("", ["a"], [["<b>"]])
    assert repr(table) == table.format_text()
    assert parsed(table._repr_html_()).find(".//td").text == "<b>"  # type: ignore[union-attr]


def test_curves_are_pictures() -> None:
    curve = LearningCurve(
        (Point(50, 2.0), Point(100, 1.0)), (ValidationPoint(50, 1.0, 2.0), ValidationPoint(100, 2.0, 1.5)), True
    )
    pictures = CurvePlots({"a<b": curve})
    assert "a<b" in repr(pictures)
    page = parsed(pictures._repr_html_())
    assert page.find(SVG) is not None
    assert parsed(CurvePlots({"none": LearningCurve()})._repr_html_()).find(SVG) is None


def test_how_training_ended_shows_its_curve(trained: Path) -> None:
    outcome = TrainResult(trained, 0, True)
    assert repr(outcome) == f"TrainResult({str(trained)!r}, trained)"
    assert repr(TrainResult(trained, 15, True)).endswith("stopped by signal 15)")
    assert parsed(outcome._repr_html_()).find(SVG) is not None


def test_every_step_of_an_attention_is_told_by_shapes() -> None:
    from heedful.inspection.record import AttentionSteps

    heads = np.zeros((2, 3, 4), np.float32)
    scores, inputs = np.zeros((2, 3, 3), np.float32), np.zeros((3, 8), np.float32)
    walk = AttentionSteps(heads, heads, heads, 0.5, None, scores, heads, inputs, inputs)
    assert repr(walk).startswith("AttentionSteps(queries [2, 3, 4], keys [2, 3, 4], ")
    assert "bias" not in repr(walk)
