"""What is learned from the files of translators, and how `heedful new` takes them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from localisation_documents import SAMPLES

from heedful.data.detect.registry import sniff_file
from heedful.data.translation_files import ConfirmedTranslations, TranslationFileFormat
from heedful.errors import DataError, RecipeError
from heedful.recipes.load import build_recipe, load_recipe
from heedful.recipes.recipe_writer import propose_datasets


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in SAMPLES.items():
        Path(name).write_text(text, encoding="utf-8")
    return tmp_path


def told(table: dict[str, object]) -> dict[str, object]:
    """The table of a recipe."""
    return {"output": "run", "data": {"train": table, "validation": table}, "training": {"steps": 1}}


def pairs(path: str, **languages: str) -> list[tuple[str, str]]:
    return [pair[:2] for pair in ConfirmedTranslations(Path(path), **languages)]


def test_only_what_somebody_confirmed_is_learned() -> None:
    assert pairs("a.po") == [("Save %d", "Sichern %d")], "without the fuzzy, the obsolete, the header, the empty ones"
    assert pairs("a.xlf") == [("yes", "ja"), ("A. B.", "X")]
    assert pairs("b.xliff") == [("stop", "halt")]
    assert pairs("a.tmx", source_language="en", target_language="de") == [("A big cat", "Eine Katze")]
    assert pairs("a.tmx", source_language="en", target_language="de-AT") == [("A big cat", "Ein Kater")]
    assert pairs("a.tmx", source_language="EN-us", target_language="fr") == [("dog", "chien")]
    assert pairs("a.tmx", source_language="de", target_language="en") == [("Eine Katze", "A big cat")]


def test_what_was_filled_is_not_learned() -> None:
    from heedful.localisation.files import read_document

    for name in ("a.po", "a.xlf", "b.xliff", "a.tmx"):
        document = read_document(Path(name), source="en", target="de")
        numbers = [number for number, unit in enumerate(document.units) if unit.state == "untranslated"]
        languages = {"source_language": "en", "target_language": "de"} if name == "a.tmx" else {}
        before = pairs(name, **languages)
        Path(name).write_bytes(document.fill_targets(dict.fromkeys(numbers, ("machine",))))
        assert pairs(name, **languages) == before


def test_places_are_lines_and_files_may_be_gzipped() -> None:
    Path("a.tmx.gz").write_bytes(gzip.compress(SAMPLES["a.tmx"].encode()))
    plain, packed = (
        list(ConfirmedTranslations(Path(n), source_language="en", target_language="de")) for n in ("a.tmx", "a.tmx.gz")
    )
    assert [pair[:2] for pair in plain] == [pair[:2] for pair in packed]
    assert plain[0].location == "a.tmx:6"
    with pytest.raises(DataError, match="no such file"):
        ConfirmedTranslations(Path("none.po"))


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ({"path": "a.tmx", "source_language": "en", "target_language": "de"}, "tmx"),
        ({"path": "a.PO"}, "po"),
        ({"path": "a.po.gz"}, "po"),
        ({"path": "b.xliff"}, "xliff"),
        ({"path": "a.tsv"}, "tsv"),
        ({"path": "a.po", "source_column": 0}, "tsv"),
    ],
)
def test_a_recipe_knows_the_kind_by_the_name(table: dict[str, object], kind: str) -> None:
    recipe = build_recipe(told(table), source="here")
    assert recipe.data.train.kind == kind  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"path": "a.tmx"}, "source_language"),
        ({"path": "a.tmx", "source_language": "en", "target_language": "en"}, "another language"),
        ({"path": "a.po", "both_ways": True}, "source_language"),
    ],
)
def test_languages_must_be_said(table: dict[str, object], sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        build_recipe(told(table), source="here")


def many(name: str) -> Path:
    words = [f"{one} {two} {n}" for n in range(20) for one in ("red", "old", "big") for two in ("house", "dog", "car")]
    units = "".join(
        f'<tu><tuv xml:lang="de"><seg>das {w}</seg></tuv><tuv xml:lang="en"><seg>the {w}</seg></tuv></tu>'
        for w in words
    )
    messages = "".join(f'msgid "the {w}"\nmsgstr "das {w}"\n\n' for w in words)
    Path(name).write_text(f"<tmx><body>{units}</body></tmx>" if name.endswith("tmx") else messages, encoding="utf-8")
    return Path(name)


@pytest.mark.parametrize("name", ["memory.tmx", "messages.po"])
def test_new_writes_a_recipe(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from heedful.__main__ import main

    assert main(["new", str(many(name))]) == 0
    assert "translations in a file of" in capsys.readouterr().err
    recipe = load_recipe(Path("recipe.toml"))
    assert recipe.task == "translation"
    found = list(recipe.data.train.reader())  # type: ignore[attr-defined]
    assert len(found) > 100
    assert all(pair.source.startswith("the ") for pair in found), "English is read unless somebody says otherwise"


def test_parts_stay_as_they_are_where_there_are_all() -> None:
    for part in ("train", "dev", "test"):
        many(f"{part}.tmx")
    (proposal,) = propose_datasets(
        [sniff_file(Path(f"{part}.tmx")) for part in ("train", "dev", "test")], task=None, columns=()
    )
    assert proposal.dataset.to_recipe_table(["train.tmx"]) == {
        "path": "train.tmx",
        "source_language": "en",
        "target_language": "de",
    }
    assert len(list(proposal.dataset.read_examples("test"))) == 180


def test_which_languages_of_many() -> None:
    file = sniff_file(Path("a.tmx"))
    assert not list(TranslationFileFormat().detect([file], ()))
    assert "--columns en de" in TranslationFileFormat().get_hint([file])
    (found,) = TranslationFileFormat().detect([file], ("en", "fr"))
    assert [example.texts for example in found.read_examples("train")] == [("dog", "chien")]


def test_damage_is_told() -> None:
    Path("a.tmx").write_text("<tmx>", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.tmx:1"):
        sniff_file(Path("a.tmx"))
    Path("a.po").write_text("hello", encoding="utf-8")
    (found,) = TranslationFileFormat().detect([sniff_file(Path("a.po"))], ())
    with pytest.raises(DataError, match=r"a\.po:1"):
        list(found.read_examples("train"))
