"""Engines write on a GPU what they write on a CPU. See `test_tasks.py` for the device."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from untrained_runs import create_language_model_run, create_translation_run

import heedful
from heedful.generation.continuous_batch import ContinuousBatch
from heedful.generation.penalties import NoLengthPenalty
from heedful.generation.prefill import GenerationRequest
from heedful.generation.search import BeamSearch, GreedySearch, SearchStrategy
from heedful.recipes.recipe import EngineName
from heedful.tensors import Tokens

DEVICE = os.environ.get("HEEDFUL_GPU_DEVICE", "cuda")
EOS = 2
SENTENCES = ["one two three", "three", "two two one three two", "four one"]
ENGINES: tuple[EngineName, ...] = ("torch", "torch-bfloat16", "torch-graphs", "torch-graphs-bfloat16")
SLACK = {"torch": 1e-3, "torch-graphs": 1e-3, "torch-bfloat16": 0.2, "torch-graphs-bfloat16": 0.2}
"""Largest difference of log-probabilities: of sums in another order, and of numbers that are rounded to bf16."""
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("unchecked"),
    pytest.mark.skipif(DEVICE == "cuda" and not torch.cuda.is_available(), reason="there is no GPU"),
]


@pytest.fixture(autouse=True)
def _round_small_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round matrices of any size: the models are small."""
    monkeypatch.setattr("heedful.engines.int8.MIN_ELEMENTS", 1)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("search", [GreedySearch(EOS), BeamSearch(EOS, 4, NoLengthPenalty(), n_best=2)], ids=str)
def test_translations_and_their_scores(tmp_path: Path, engine: EngineName, search: SearchStrategy) -> None:
    pairs = [("one two three four", "eins zwei drei vier"), ("two one", "zwei eins")]
    run = create_translation_run(tmp_path, pairs)
    expected, found = (
        heedful.load(run, kind=heedful.Translator, device=device, engine=name)
        for device, name in (("cpu", "torch"), (DEVICE, engine))
    )
    for _ in range(2):  # the second time, recorded steps are replayed
        mine, others = found.translate(SENTENCES, search=search), expected.translate(SENTENCES, search=search)
        texts = [each.text for each in others]
        if "bfloat16" not in engine:
            assert [each.text for each in mine] == texts
        given = list(zip(SENTENCES, texts, strict=True))
        for scored, exact in zip(found.score(given), expected.score(given), strict=True):
            assert scored.log_probability == pytest.approx(exact.log_probability, rel=0.02, abs=SLACK[engine])


@pytest.mark.parametrize("engine", ENGINES)
def test_texts_that_join_and_leave(tmp_path: Path, engine: EngineName) -> None:
    """Each text of a continuous batch is the one that the same engine writes alone on a CPU."""
    run = create_language_model_run(tmp_path, ["once upon a time there was a fox"])
    writers: list[Any] = [
        heedful.load(run, kind=heedful.TextGenerator, device=device, engine=engine) for device in ("cpu", DEVICE)
    ]
    requests = []
    for number in range(6):
        ids = torch.randint(4, writers[0].tokenizer.size, (1, 1 + number % 3))
        requests.append((Tokens(ids, torch.arange(ids.size(1)).unsqueeze(0)), 5 + 7 * (number % 4)))
    search, model = GreedySearch(EOS), writers[1].model
    running, found = ContinuousBatch(model.step, width=1), {}
    for tokens, limit in requests:
        moved = Tokens(tokens.ids.to(DEVICE), tokens.positions.to(DEVICE))
        _, finished = running.add_requests(model.init_state(), GenerationRequest(moved, limit), search)
        found.update({each.request_id: each for each in [*finished, *running.step(), *running.step()]})
    while len(running):
        found.update({each.request_id: each for each in running.step()})
    plain = writers[0].model
    for number, (tokens, limit) in enumerate(requests):
        alone = search.decode_request(plain.step, plain.init_state(), GenerationRequest(tokens, limit)).hypotheses[0][0]
        written = found[number].hypotheses[0]
        if "bfloat16" not in engine:
            assert written.ids == alone.ids
        pairs = zip(written.token_log_probabilities, alone.token_log_probabilities, strict=False)
        first, expected = next(pairs)
        assert first == pytest.approx(expected, abs=SLACK[engine])
