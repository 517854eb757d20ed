"""The engines `torch-graphs` and `torch-graphs-bfloat16`, as users name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from untrained_runs import create_language_model_run

import heedful
from heedful.engines.graphs.stack import GraphStack
from heedful.engines.select_engine import detect_engine, prepare_for_inference
from heedful.generation.penalties import GNMTLengthPenalty
from heedful.generation.samplers import MultinomialSampler
from heedful.generation.search import BeamSearch, GreedySearch, SamplingSearch

SENTENCES = ["march 3, 1999", "3 june 2004", "1 may 1970", "", "on friday"]


def load_both(run: Path, kind: type[Any], engine: Any) -> tuple[Any, Any]:
    """Load a run with an engine, and with `torch`."""
    return tuple(heedful.load(run, kind=kind, device="cpu", engine=name) for name in (engine, "torch"))  # type: ignore[return-value]  # two


def find_stacks(model: Any) -> list[GraphStack]:
    return [module for module in model.modules() if isinstance(module, GraphStack)]


@pytest.mark.parametrize(("engine", "slack"), [("torch-graphs", 1e-4), ("torch-graphs-bfloat16", 0.1)])
def test_a_run_translates(trained: Path, monkeypatch: pytest.MonkeyPatch, engine: Any, slack: float) -> None:
    """Scores differ by the order of sums, or by numbers that were rounded to steps of 2^-8."""
    monkeypatch.setattr("heedful.engines.int8.MIN_ELEMENTS", 1)
    found, exact = load_both(trained, heedful.Translator, engine)
    (stack,) = find_stacks(found.models[0])
    assert detect_engine(found.models[0].modules()) == engine
    for search in (GreedySearch(2), BeamSearch(2, 4, GNMTLengthPenalty(0.6), n_best=2)):
        mine, others = found.translate(SENTENCES, search=search), exact.translate(SENTENCES, search=search)
        assert [each.text for each in mine] == [other.text for other in others]
        for each, other in zip(mine, others, strict=True):
            for candidate, expected in zip(each.candidates, other.candidates, strict=True):
                assert candidate.score == pytest.approx(expected.score, abs=slack)
    assert stack.runner.num_recorded, "steps were recorded"
    pairs = list(zip(SENTENCES[:3], [each.text for each in others[:3]], strict=True))
    for scored, expected in zip(found.score(pairs), exact.score(pairs), strict=True):
        assert scored.log_probability == pytest.approx(expected.log_probability, abs=slack)
    mine, others = (face.inspect(SENTENCES[0]).maps for face in (found, exact))
    for attention_map, expected in zip(mine, others, strict=True):
        assert attention_map.weights == pytest.approx(expected.weights, abs=slack)


def test_a_text_generator_writes_samples_and_streams(tmp_path: Path) -> None:
    run = create_language_model_run(tmp_path, ["once upon a time there was a fox"])
    found, exact = load_both(run, heedful.TextGenerator, "torch-graphs")
    assert find_stacks(found.model)
    for search in (GreedySearch(2), SamplingSearch(2, MultinomialSampler(seed=3))):
        mine, others = (face.write(["once ", "a fox", ""], search=search, limit=20) for face in (found, exact))
        assert [[one.text for one in each] for each in mine] == [[one.text for one in each] for each in others]
        assert "".join(found.stream("once ", search=search, limit=20)) == "".join(
            exact.stream("once ", search=search, limit=20)
        )


def test_it_is_neither_the_default_nor_chosen_by_auto(trained: Path) -> None:
    """It has never run on a GPU."""
    for engine in (None, "auto"):
        face: Any = heedful.load(trained, device="cpu", engine=engine)
        assert not find_stacks(face.models[0])


def test_models_without_a_transformer_decoder_are_computed_as_by_torch() -> None:
    model = torch.nn.Linear(3, 4)
    weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    prepared = prepare_for_inference(model, weights, engine="torch-graphs", device=torch.device("cpu"), origin="here")
    assert type(prepared) is torch.nn.Linear
