"""Public names of version 0.1 still work, and say what they are called now."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

import heedful
from heedful.deprecation import keep_old_names, read_old_modules

OLD_NAMES = {
    "heedful": {
        "Answerer": "QuestionAnsweringPredictor",
        "Detector": "ReplacedTokenPredictor",
        "Heads": "MultiHeadPredictor",
        "Looker": "GlimpsePredictor",
        "Partner": "ChatPredictor",
        "Reader": "MaskedLanguageModelPredictor",
        "Recogniser": "SpeechRecognizer",
        "StoryReader": "StoryPredictor",
        "Writer": "TextGenerator",
    },
    "heedful.attention": {"Additive": "AdditiveScore", "KeyValues": "KVCache", "Sight": "AttentionMask"},
    "heedful.generation": {"Ban": "LogitsMask", "Found": "SearchResult", "sampled_search": "sampling_search"},
    "heedful.training": {"Habits": "TrainerConfig", "Keeper": "CheckpointSaver", "Listener": "Callback"},
}


@pytest.mark.parametrize("module", OLD_NAMES)
def test_old_names_of_modules_warn_and_mean_the_new_ones(module: str) -> None:
    loaded = import_module(module)
    for old, new in OLD_NAMES[module].items():
        with pytest.warns(DeprecationWarning, match=rf"{module}\.{old} is now called {module}\.{new};"):
            assert getattr(loaded, old) is getattr(loaded, new)


def test_unknown_names_are_attribute_errors() -> None:
    for module in OLD_NAMES:
        with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'Nothing'"):
            _ = import_module(module).Nothing
    assert "Writer" not in dir(heedful)


@keep_old_names(told="message")
@dataclass(frozen=True)
class Report:
    message: str


@keep_old_names(place="row")
@dataclass(frozen=True)
class NumberedReport(Report):
    row: int = 0


def test_old_names_of_attributes_warn_and_mean_the_new_ones() -> None:
    report = NumberedReport("good", 3)
    with pytest.warns(DeprecationWarning, match=r"NumberedReport\.told is now called message"):
        assert report.told == "good"  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match=r"NumberedReport\.place is now called row"):
        assert report.place == 3  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="'Report' object has no attribute 'place'"):
        _ = Report("good").place  # type: ignore[attr-defined]


def test_old_names_of_results_are_kept() -> None:
    from heedful.tasks.spans.predictor import SpanAnswer
    from heedful.tasks.translation.translator import Translator

    assert SpanAnswer._old_names["none"] == "no_answer_probability"  # type: ignore[attr-defined]
    assert Translator._old_names["lines"] == "line_format"  # type: ignore[attr-defined]
    assert all(hasattr(Translator, new) for new in Translator._old_names.values())  # type: ignore[attr-defined]


def test_old_names_of_modules_can_be_imported() -> None:
    with pytest.warns(
        DeprecationWarning, match=r"heedful\.generation\.party is now called heedful\.generation\.decode_"
    ):
        old = import_module("heedful.generation.party")
    assert old.Party is import_module("heedful.generation.decode_batch").DecodeBatch
    with pytest.raises(ModuleNotFoundError, match=r"heedful\.generation\.nothing"):
        import_module("heedful.generation.nothing")


def test_each_old_module_has_its_new_one() -> None:
    root = Path(heedful.__file__).parent
    for old, (new, renames) in read_old_modules().items():
        assert _find_source(root, new).is_file(), old
        for location in renames.values():
            module, _, name = location.rpartition(":")
            assert name in _find_source(root, module or new).read_text(encoding="utf-8"), (old, location)


def _find_source(root: Path, module: str) -> Path:
    path = root / module.replace(".", "/")
    return path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"


def test_what_moved_to_several_modules_is_found() -> None:
    with pytest.warns(DeprecationWarning, match=r"heedful\.catalogue is now called heedful\.registry"):
        old = import_module("heedful.catalogue")
    assert old.recipe_of is import_module("heedful.recipes.recipe").get_recipe_class
    assert old.tasks is import_module("heedful.registry").list_tasks
