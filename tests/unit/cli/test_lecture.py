"""`heedful lecture`: mistakes at once, and a whole deck with models that are hardly trained."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heedful.lecture.contents import load_deck
from heedful.lecture.figures import FIGURES
from heedful.lecture.models import MODELS, RecipeModel, StudyModel

Say = Callable[..., Any]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--deck", "5"), "--deck: 5; there are decks 0 to 4"),
        (("--deck", "-1"), "--deck: -1"),
        (("--jobs", "0"), "--jobs"),
    ],
)
def test_mistakes(say: Say, here: Path, words: tuple[str, ...], problem: str) -> None:
    assert problem in say("lecture", *words).complaint
    assert not list(here.iterdir())


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_deck_is_written_and_continued(say: Say, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures do not depend on what the models have learned; here they make two updates each."""
    short = {"training.steps": "2", "training.evaluate_every": "2", "training.schedule.warmup": "0"}
    models = {
        name: replace(model, settings={**model.settings, **short}) if isinstance(model, RecipeModel) else model
        for name, model in MODELS.items()
    }
    deck = load_deck(3)
    names = {name for slide in deck.slides for name in slide.figures}
    quick = {name for name in names if all(isinstance(models[model], RecipeModel) for model in FIGURES[name].models)}
    shown = replace_slides(deck, quick)
    monkeypatch.setattr("heedful.lecture.models.MODELS", models)
    monkeypatch.setattr("heedful.lecture.contents.load_deck", lambda _: shown)
    said = say("lecture", "-o", "site", "--deck", "3", "--jobs", "2")
    assert said.code == 0, said.err
    page = Path("site/deck-3.html").read_text(encoding="utf-8")
    for name in quick:
        assert FIGURES[name].title in page
        assert (Path("site/figures") / f"{name}.svg").exists()
    for link in re.findall(r'href="(?!data:)([^"#]+)', page):
        assert (Path("site") / link).exists(), link
    assert "failed" not in said.err
    before = {path: path.read_bytes() for path in Path("site/runs").glob("*/model.safetensors")}
    assert before
    assert say("lecture", "-o", "site", "--deck", "3", "--jobs", "2").code == 0
    assert {path: path.read_bytes() for path in before} == before, "what is trained stays"


def replace_slides(deck: Any, names: set[str]) -> Any:
    """The deck with only these figures."""
    slides = [
        slide.model_copy(update={"figures": tuple(name for name in slide.figures if name in names)})
        for slide in deck.slides
    ]
    return deck.model_copy(update={"slides": tuple(slides)})


def test_studies_have_no_recipe_but_a_table() -> None:
    studies = [model for model in MODELS.values() if isinstance(model, StudyModel)]
    assert studies
    for study in studies:
        assert study.build_command(Path("x"))[:2] == ["study", study.study]
