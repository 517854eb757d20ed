"""`training.monitor` by metrics of translations: their values, and which of two is better."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch
from judge_models import create_untrained_judge

import heedful
from heedful.errors import DataError, RecipeError
from heedful.foreign.judges import open_judge
from heedful.generation.search import GreedySearch
from heedful.recipes.load import load_recipe
from heedful.recipes.training import LOWER_IS_BETTER
from heedful.runs.load import open_run
from heedful.runs.train import train
from heedful.tasks.search_factory import LengthLimits

SHORT = ("--training.steps", "6", "--training.evaluate_every", "2", "--training.average", "1", "--training.keep", "9")


def fit(recipe: Path, *words: str) -> tuple[Path, list[dict[str, Any]]]:
    """Train; the folder, and the records of its metrics."""
    folder = train(load_recipe(recipe, [*SHORT, *words]), device="cpu").folder
    return folder, list(map(json.loads, (folder / "metrics.jsonl").read_text().splitlines()))


def translate_validation(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """Sources, greedy translations by the final model, and references of the validation text."""
    pairs = list(open_run(folder).read_examples("validation"))
    model = heedful.load(folder, device="cpu", kind=heedful.Translator)
    search = GreedySearch(model.target.special.eos)
    sources = [pair.source for pair in pairs]
    found = model.translate(sources, search=search, length=LengthLimits(1.5, 10))
    return sources, [each.text for each in found], [pair.target for pair in pairs]


@pytest.mark.parametrize("name", ["chrf", "ter"])
def test_the_monitored_metric_is_that_of_sacrebleu(small: Path, name: str) -> None:
    further = small.parent / "further.de"
    lines = (small.parent / "validation.de").read_text(encoding="utf-8").splitlines()
    further.write_text("".join(f"{line} eins\n" for line in lines), encoding="utf-8")
    folder, records = fit(small, "--training.monitor", name, "--data.validation.references", json.dumps([str(further)]))
    final = records[-1]
    assert final["kind"] == "final"
    _, texts, references = translate_validation(folder)
    metric = {"chrf": sacrebleu.metrics.CHRF(), "ter": sacrebleu.metrics.TER(case_sensitive=True)}[name]
    streams = [references, [f"{line} eins" for line in references]]
    assert final[name] == pytest.approx(metric.corpus_score(texts, streams).score)
    values = [record[name] for record in records if record["kind"] == "validation"]
    assert len(values) == 3
    assert final["best"] == (min if name in LOWER_IS_BETTER else max)(values)
    assert (name in LOWER_IS_BETTER) is (name == "ter")


def test_a_judge_is_monitored(small: Path, tmp_path: Path) -> None:
    words = " ".join((small.parent / "train.de").read_text(encoding="utf-8").split())
    judge = create_untrained_judge(tmp_path / "judge", [words])
    folder, records = fit(small, "--training.monitor", "judge", "--training.judge", str(judge))
    sources, texts, references = translate_validation(folder)
    scores = open_judge(judge, device=torch.device("cpu")).score_translations(
        sources=sources, candidates=texts, references=references
    )
    assert records[-1]["judge"] == pytest.approx(scores.metric.value, rel=1e-4, abs=1e-5)
    values = [record["judge"] for record in records if record["kind"] == "validation"]
    assert records[-1]["best"] == max(values)


def test_a_judge_is_given_where_it_is_monitored(small: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r'training\.judge is missing: training\.monitor = "judge" needs the folder'):
        load_recipe(small, ["--training.monitor", "judge"])
    with pytest.raises(RecipeError, match=r'training\.judge has no effect: give training\.monitor = "judge"'):
        load_recipe(small, ["--training.judge", str(tmp_path)])
    with pytest.raises(DataError, match=r"none: there is no such folder; check training\.judge"):
        fit(small, "--training.monitor", "judge", "--training.judge", str(tmp_path / "none"))
