"""What translations must hold, and may not, whatever computes them."""

from __future__ import annotations

from pathlib import Path

import pytest

import heedful
from heedful.engines import int8
from heedful.engines.int8 import Int8Product
from heedful.native import load_library
from heedful.recipes.generation import BeamConfig, GreedyConfig
from heedful.tasks.search_factory import build_length_limits, build_search

SENTENCES = ["1 2 3", "7 7", "4"]
ENGINES = ["torch", "int8", *(["native"] if load_library() is not None else [])]


@pytest.fixture(autouse=True)
def _all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "MIN_ELEMENTS", 1)
    monkeypatch.setattr(Int8Product, "min_elements", 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_terms_are_held(engine: str, trained: Path) -> None:
    translator = heedful.load(trained, kind=heedful.Translator, device="cpu", engine=engine)
    wanted = [["neun"], [], ["acht", "drei"]]
    found = translator.translate(SENTENCES, constraints=wanted)
    assert [each.unmet for each in found] == [(), (), ()]
    for each, terms in zip(found, wanted, strict=True):
        assert {*terms} <= {*each.text.split()}
    assert found[1].text == translator.translate([SENTENCES[1]])[0].text


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "config",
    [GreedyConfig(), BeamConfig(width=3), BeamConfig(width=4, groups=2), BeamConfig(width=3, coverage=0.3)],
    ids=["greedy", "beam", "groups", "coverage"],
)
def test_forbidden_words_are_not_written(engine: str, config: GreedyConfig | BeamConfig, trained: Path) -> None:
    translator = heedful.load(trained, kind=heedful.Translator, device="cpu", engine=engine)
    length = build_length_limits(config)
    plain = build_search(config, translator.target)
    written = sorted({word for each in translator.translate(SENTENCES, search=plain, length=length)
                      for word in each.text.split()})  # fmt: skip
    assert written, "the model writes something"
    barred = build_search(config.model_copy(update={"forbid": (written[0],)}), translator.target)
    for each in translator.translate(SENTENCES, search=barred, length=length):
        assert not each.candidates[0].finished or written[0] not in each.text.split()
    once = build_search(config.model_copy(update={"no_repeat_ngram": 1}), translator.target)
    for each in translator.translate(SENTENCES, search=once, length=length):
        assert len({*each.candidates[0].ids}) == len(each.candidates[0].ids)
