"""`heedful calibrate`: how good translations probably are, learned from some whose references are known."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF

import heedful
from heedful.atomic_io import write_run_files
from heedful.data.readers import SentencePair, TsvPairReader
from heedful.metrics.judge import fit_isotonic
from heedful.tasks.translation.calibration import CalibrationResult, _compute_scatter, calibrate
from heedful.tasks.translation.quality_estimation import (
    SCATTERED_SIGN,
    UNSURE_SIGN,
    ConfidenceCurve,
    attention_entropy,
    get_certainty,
)

Say = Callable[..., Any]
NUMBERS = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]
PAIRS = [
    (f"{n % 10} {n // 10}", f"{NUMBERS[n % 10]} {NUMBERS[n // 10]}" if n % 3 else "etwas ganz anderes")
    for n in range(100)
]


@pytest.fixture
def run(trained: Path, here: Path) -> Path:
    """A copy that may be changed."""
    (here / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS), encoding="utf-8")
    return Path(shutil.copytree(trained, here / "run"))


def test_confidence_is_the_curve_through_what_translations_had(run: Path, say: Say) -> None:
    said = say("calibrate", run, "--data", "pairs.tsv", "--device", "cpu")
    assert said.code == 0, said.err
    assert "expected chrF" in said.out
    assert said.lines[-1] == f"written: {run / 'confidence.json'}"
    translator = heedful.load(run, kind=heedful.Translator, device="cpu")
    found = translator.translate([source for source, _ in PAIRS])
    xs = [each.candidates[0].log_probability / (len(each.candidates[0].ids) + 1) for each in found]
    ys = [
        CHRF().sentence_score(each.text, [target]).score / 100 for each, (_, target) in zip(found, PAIRS, strict=True)
    ]
    curve = fit_isotonic(xs, ys)
    (here := Path("s.txt")).write_text("1 2\n\n7\n")
    told = say("translate", run, "--input", here, "--format", "jsonl", "--device", "cpu")
    records = [json.loads(line) for line in told.lines]
    assert "confidence" not in records[1], "nothing was translated"
    for record in (records[0], records[2]):
        best = record["candidates"][0]
        expected = curve(best["log_probability"] / (len(best["tokens"]) + 1))
        assert record["confidence"] == pytest.approx(expected, abs=2e-3)  # both sides are rounded


def test_folds_do_not_see_what_they_are_asked(run: Path) -> None:
    translator = heedful.load(run, kind=heedful.Translator, device="cpu")
    learned = calibrate(translator, [SentencePair(*pair, "") for pair in PAIRS], weights="x")
    found = translator.translate([source for source, _ in PAIRS])
    xs = [get_certainty(each.candidates[0]) for each in found]
    others = [place for place in range(100) if place % 5 != 3]
    curve = fit_isotonic([xs[place] for place in others], [learned.actual[place] for place in others])
    mine = list(range(3, 100, 5))
    assert [learned.expected[place] for place in mine] == pytest.approx([curve(xs[place]) for place in mine], abs=1e-9)


@pytest.mark.slow
def test_signs_stand_at_one_in_a_hundred(run: Path, say: Say) -> None:
    """By longhand, with the attention of each sentence alone."""
    translator = heedful.load(run, kind=heedful.Translator, device="cpu")
    learned = calibrate(translator, [SentencePair(*pair, "") for pair in PAIRS], weights="x")
    sources = [source for source, _ in PAIRS]
    found = translator.translate(sources)
    best = [each.candidates[0] for each in found]
    own = [attention_entropy(translator.align(*pair).best_weights) for pair in zip(sources, best, strict=True)]
    other = [
        attention_entropy(translator.align(source, best[at - 1]).best_weights) for at, source in enumerate(sources)
    ]
    told = _compute_scatter(translator, [(SentencePair(each.source, "", ""), each) for each in found])
    assert [each[0] for each in told] == [pytest.approx([value], abs=1e-5) for value in own]
    assert [each[1] for each in told] == [pytest.approx([value], abs=1e-5) for value in other]
    assert own != pytest.approx(other, abs=1e-4)
    assert learned.confidence.widest == pytest.approx(np.quantile(own, 0.99), abs=1e-5)
    assert learned.confidence.least == pytest.approx(
        np.quantile([get_certainty(each) for each in best], 0.01), abs=1e-5
    )
    assert learned.mismatched == pytest.approx(np.mean(np.array(other) > np.quantile(own, 0.99)), abs=0.02)
    assert f"{100 * learned.mismatched:.0f} in 100 that are read with the source" in learned.to_table().format_text()


def test_a_calibrated_run_signs_its_translations(run: Path, say: Say) -> None:
    assert say("calibrate", run, "--data", "pairs.tsv", "--device", "cpu").code == 0
    kept = json.loads((run / "confidence.json").read_text())
    Path("s.txt").write_text("1 2\n\n" + "3 " * 60 + "\n")
    words = ("translate", run, "--input", "s.txt", "--format", "jsonl", "--device", "cpu")

    def signs(**changes: float | None) -> list[set[str]]:
        write_run_files(run, {"confidence.json": {**kept, **changes}})
        return [set(json.loads(line).get("signs", ())) & {UNSURE_SIGN, SCATTERED_SIGN} for line in say(*words).lines]

    assert signs(least=-1e9, widest=1) == [set(), set(), set()]
    assert signs(least=1, widest=1) == [{UNSURE_SIGN}, set(), {UNSURE_SIGN}]
    assert signs(least=-1e9, widest=0) == [{SCATTERED_SIGN}, set(), {SCATTERED_SIGN}], "an empty line has no attention"
    assert signs(least=None, widest=None) == [set(), set(), set()]
    write_run_files(run, {"confidence.json": {**kept, "widest": 0}})
    said = say(*words)
    assert f"2 of 3 texts: {SCATTERED_SIGN}" in said.err
    assert all(SCATTERED_SIGN in part["signs"] for part in json.loads(said.lines[2])["parts"])
    assert say("evaluate", run, "--samples", "20", "--page", "page.html", "--device", "cpu").code == 0
    assert SCATTERED_SIGN in Path("page.html").read_text()
    del kept["least"], kept["widest"]
    assert signs() == [set(), set(), set()], "what was calibrated before there were signs"


def test_models_that_look_nowhere_are_calibrated_too(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heedful.Translator, "has_attention", False)
    translator = heedful.load(run, kind=heedful.Translator, device="cpu")
    learned = calibrate(translator, [SentencePair(*pair, "") for pair in PAIRS], weights="x")
    assert (learned.confidence.widest, learned.mismatched) == (None, None)
    assert learned.confidence.least is not None
    assert len(learned.to_table().notes) == 1


def test_a_translation_that_fills_all_positions_is_looked_at(run: Path, say: Say) -> None:
    (run / "confidence.json").unlink(missing_ok=True)
    assert say("calibrate", run, "--data", "pairs.tsv", "--device", "cpu").code == 0
    words = ("--min-length", "200", "--max-extra", "300", "--format", "jsonl", "--align", "--device", "cpu")
    said = say("translate", run, "1 2", *words)
    assert said.code == 0, said.err
    record = json.loads(said.out)
    assert len(record["candidates"][0]["tokens"]) >= 46, "the model has 48 positions"
    assert len(record["alignment"]["weights"]) == len(record["alignment"]["target"])


def test_the_table_has_all_sentences_and_honest_errors() -> None:
    rng = np.random.default_rng(1)
    actual = rng.random(53)
    expected = np.clip(actual + rng.normal(size=53) * 0.1, 0, 1)
    learned = CalibrationResult(ConfidenceCurve(weights="x", points=((0.0, 0.0),)), list(expected), list(actual))
    table = learned.to_table()
    assert sum(int(row[1]) for row in table.rows) == 53
    assert learned.correlation == pytest.approx(np.corrcoef(expected, actual)[0, 1], abs=1e-9)
    weighted = sum(int(row[1]) * float(row[3]) for row in table.rows) / 53
    assert weighted == pytest.approx(actual.mean(), abs=1e-3)
    assert f"mean error {np.abs(expected - actual).mean():.3f}" in table.notes[0]


def test_other_weights_are_not_judged_by_it(run: Path, trained: Path, say: Say) -> None:
    assert say("calibrate", run, "--data", "pairs.tsv", "--device", "cpu", "--sentences", "60").code == 0
    assert heedful.load(run, device="cpu").confidence is not None
    assert heedful.load(run, run, device="cpu").confidence is None, "several models are sure of other things"
    manifest = json.loads((run / "manifest.json").read_text())
    step = manifest["checkpoints"][0]
    assert heedful.load(run, device="cpu", step=step).confidence is None
    content = json.loads((run / "confidence.json").read_text())
    write_run_files(run, {"confidence.json": {**content, "weights": "0" * 64}})
    assert heedful.load(run, device="cpu").confidence is None
    write_run_files(run, {"confidence.json": "{"})
    assert "confidence.json: is damaged" in say("translate", run, "1", "--device", "cpu").complaint
    (run / "confidence.json").unlink()
    assert "confidence.json: cannot be read" in say("translate", run, "1", "--device", "cpu").complaint


def test_many_sentences_are_thinned_out_evenly(run: Path, say: Say) -> None:
    said = say("calibrate", run, "--data", "pairs.tsv", "--device", "cpu", "--sentences", "51")
    assert "translating 51 sentences of pairs.tsv" in said.err
    assert (
        say("calibrate", run, "--device", "cpu").complaint
        == "20 sentences are too few for calibration; give at least 50"
    )


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--data", "few.tsv"], "3 sentences are too few for calibration; give at least 50"),
        (["--data", "none.tsv"], "none.tsv"),
        (["--data", "pairs.tsv", "--sentences", "0"], "sentences"),
        (["--data", "pairs.tsv", "--source", "few.tsv"], "--data"),
    ],
)
def test_mistakes(words: list[str], complaint: str, run: Path, say: Say) -> None:
    Path("few.tsv").write_text("1\teins\n" * 3)
    assert complaint in say("calibrate", run, *words).complaint
    assert not (run / "confidence.json").exists()


def test_runs_of_other_kinds_and_unfinished_ones_are_not_taken(
    run: Path, tuned: Callable[[str], Path], say: Say
) -> None:
    assert "its task is tagging, but translation is needed" in say("calibrate", tuned("tagging")).complaint
    manifest = json.loads((run / "manifest.json").read_text())
    del manifest["files"]["model.safetensors"]
    (run / "manifest.json").write_text(json.dumps({**manifest, "finished": False}))
    assert "its training is not finished" in say("calibrate", run, "--data", "pairs.tsv").complaint
    assert len(list(TsvPairReader(Path("pairs.tsv")))) == 100


@pytest.mark.parametrize("command", ["calibrate", "evaluate"])
def test_a_missing_validation_text_is_named_with_its_key(command: str, here: Path, say: Say) -> None:
    golden = Path(__file__).parents[2] / "golden" / "translation-transformer" / "run"
    run = shutil.copytree(golden, here / "run")
    complaint = say(command, run).complaint
    assert complaint.startswith("data.validation: validation.en: there is no such file; check the path")
