"""Which languages served models are known to translate, and how they are told apart and called."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from live_server import LiveServer, open_registry, run_server
from untrained_runs import create_language_model_run

from heedful import RecipeError, load
from heedful.serving.languages import find_languages, language_name, match_language
from heedful.serving.load_models import load_registry
from heedful.serving.registry import ModelRegistry
from heedful.serving.settings import ModelSettings, ServerSettings


@pytest.fixture(autouse=True)
def _shapes(unchecked: None) -> None:
    """Threads of the server call what is checked where it has its units."""


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    language_name.cache_clear()
    yield
    language_name.cache_clear()


def told(models: Mapping[str, Any]) -> tuple[ModelRegistry, str]:
    """A registry, and what was said when it was opened."""
    said: list[str] = []
    given = {name: {"run": str(each)} if isinstance(each, Path) else each for name, each in models.items()}
    settings = ServerSettings.model_validate({"models": given, "port": 0, "device": "cpu", "log": "none"})
    return load_registry(settings, said.append), "\n".join(said)


def ask(live: LiveServer, **sent: Any) -> Any:
    return live.ask("/translate", {"q": "1 2", **sent}).json


def test_a_recipe_says_the_ways(interpreting: Mapping[str, Path]) -> None:
    registry, said = told(interpreting)
    assert registry.models["both"].model_languages.pairs == (("en", "de"), ("de", "en"))
    assert registry.models["french"].model_languages.pairs == (("fr", "de"),)
    assert registry.models["french"].language_pair == ("fr", "de") and registry.models["both"].language_pair == (
        None,
        None,
    )
    assert said == ""


def test_languages_are_read_from_the_recipe_alone(interpreting: Mapping[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(interpreting["french"], run)
    predictor = load(run, device="cpu")
    shutil.rmtree(run / "tokenizer")
    found = find_languages(predictor, ModelSettings(run=run), name="french", log=lambda _: None)
    assert found.pairs == (("fr", "de"),)


def test_settings_say_what_a_recipe_does_not(trained: Path) -> None:
    given = {"run": str(trained), "source_language": "en", "target_language": "de"}
    registry, said = told({"mine": given})
    assert registry.models["mine"].model_languages.pairs == (("en", "de"),) and said == ""
    assert registry.models["mine"].model_languages.profiles is None


def test_settings_choose_among_the_ways_of_a_recipe(interpreting: Mapping[str, Path]) -> None:
    run = str(interpreting["both"])
    registry, _ = told({"mine": {"run": run, "target_language": "en"}})
    assert registry.models["mine"].model_languages.pairs == (("de", "en"),)
    with pytest.raises(
        RecipeError, match=r"models\.mine: is requested to translate fr to anything, but has learned en to de, de"
    ):
        told({"mine": {"run": run, "source_language": "fr"}})


@pytest.mark.parametrize(
    ("name", "way"), [("en-de", ("en", "de")), ("small-en-de", ("en", "de")), ("en-pt-BR", ("en", "pt-BR"))]
)
def test_a_name_says_the_way(trained: Path, name: str, way: tuple[str, str]) -> None:
    registry, said = told({name: trained})
    assert registry.models[name].model_languages.pairs == (way,)
    assert said == f"{name}: translates {way[0]} to {way[1]}, according to its name"


@pytest.mark.parametrize("name", ["mine", "my-model", "pt-BR", "en-en"])
def test_where_nobody_says_it_nothing_is_served(trained: Path, name: str) -> None:
    registry, said = told({name: trained})
    assert registry.models[name].model_languages.pairs == ()
    assert f"name its languages, as in heedful serve en-sw={trained}, or write source_language and" in said
    with run_server(registry) as live:
        assert live.ask("/languages").status == live.ask("/translate", {"q": "1"}).status == 404


def test_what_does_not_translate_has_no_languages(tmp_path: Path) -> None:
    registry, said = told({"en-de": create_language_model_run(tmp_path, ["once upon a time"])})
    assert registry.models["en-de"].model_languages.pairs == () and said == ""


def test_of_two_models_for_one_way_the_first_is_asked(trained: Path, interpreting: Mapping[str, Path]) -> None:
    given = {"run": str(trained), "source_language": "fr", "target_language": "de"}
    with run_server(told({"first": given, "second": interpreting["french"]})[0]) as live:
        first = live.registry.models["first"].predictor.translate(["1 2"])[0].text
        second = live.registry.models["second"].predictor.translate(["1 2"])[0].text
        assert ask(live, source="fr", target="de")["translatedText"] == first != second


def test_without_profiles_auto_is_the_only_language(trained: Path) -> None:
    with run_server(open_registry({"en-de": trained})) as live:
        alone = ask(live, source="en", target="de")["translatedText"]
        found = ask(live, source="auto", target="de")
        assert found == {"translatedText": alone, "detectedLanguage": {"language": "en", "confidence": 100.0}}
        answer = live.ask("/detect", {"q": "one"})
        assert answer.status == 400 and "identifies languages" in answer.json["error"]
        assert live.ask("/frontend/settings").json["language"]["source"] == {"code": "en", "name": "English"}


def test_without_profiles_of_all_auto_is_refused(trained: Path, interpreting: Mapping[str, Path]) -> None:
    both = {"mine-es-de": trained, "french": interpreting["french"]}
    with run_server(told(both)[0]) as live:
        answer = live.ask("/translate", {"q": "1", "source": "auto", "target": "de"})
        assert answer.status == 400
        assert "language profiles of es," in answer.json["error"] and "es, fr" in answer.json["error"]


def test_languages_are_called_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [language_name(each) for each in ("de", "pt-BR", "zh_Hans", "deu", "xx", "digits")] == [
        "German",
        "Portuguese (Brazil)",
        "Chinese (Simplified)",
        "German",
        "xx",
        "digits",
    ]
    language_name.cache_clear()
    monkeypatch.setitem(sys.modules, "babel", None)
    assert [language_name(each) for each in ("de", "deu", "digits")] == ["German", "German", "digits"]


def test_languages_are_found_however_they_are_written() -> None:
    languages = ["pt", "pt-BR", "de", "zh-Hans"]
    for asked, found in {
        "pt_br": "pt-BR",
        "pt": "pt",
        "pt-PT": "pt",
        "DE": "de",
        "deu": "de",
        "de-AT": "de",
        "zh": "zh-Hans",
        "zh-CN": "zh-Hans",
        "zh-TW": None,
        "xx": None,
        "": None,
    }.items():
        assert match_language(asked, languages) == found
