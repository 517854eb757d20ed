"""`heedful new --also`: more parallel text, of any form, without what is held out of the main one."""

from __future__ import annotations

import gzip
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heedful import load_recipe
from heedful.data.detect.format import DetectedDataset
from heedful.data.detect.registry import sniff_file
from heedful.recipes.auxiliary_data import allows_multiple_texts, derive_name
from heedful.recipes.recipe_writer import propose_datasets
from heedful.registry import list_tasks

Say = Callable[..., Any]

ANIMALS = [("dog", "Hund"), ("cat", "Katze"), ("horse", "Pferd"), ("cow", "Kuh"), ("hen", "Huhn")]
PLACES = [("house", "Haus"), ("garden", "Garten"), ("town", "Dorf"), ("field", "Feld")]


def pairs(count: int, *, first: int = 0) -> list[tuple[str, str]]:
    found = []
    for number in range(first, first + count):
        (animal, tier), (place, ort) = ANIMALS[number % 5], PLACES[number // 5 % 4]
        found.append(
            (
                f"the {animal} was in the {place} and it slept {number}",
                f"das {tier} war in dem {ort} und schlief {number}",
            )
        )
    return found


MAIN, OTHER = pairs(200), pairs(60, first=1000)


def put(name: str, *columns: str | list[str]) -> str:
    """Lines of one file, with tabs between columns."""
    data = "".join(f"{line}\n" for line in map("\t".join, zip(*columns, strict=True))).encode()
    Path(name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return name


def sides(rows: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    return [source for source, _ in rows], [target for _, target in rows]


def put_main(*, german_first: bool = False) -> list[str]:
    source, target = sides(MAIN)
    names = [put("news.en", source), put("news.de", target)]
    return names[::-1] if german_first else names


def tmx(name: str, rows: list[tuple[str, str]], *, tags: tuple[str, str] = ("en-GB", "de"), more: str = "") -> str:
    units = "".join(
        f'<tu><tuv xml:lang="{tags[1]}"><seg>{target}</seg></tuv><tuv xml:lang="{tags[0]}"><seg>{source}</seg></tuv>'
        f"{more}</tu>"
        for source, target in rows
    )
    Path(name).write_text(f'<?xml version="1.0"?><tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>')
    return name


LANGUAGES = {"source_language": "en", "target_language": "de"}


def texts() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(Path("recipe.toml").read_text(encoding="utf-8"))["data"]["train"]["texts"]
    return found


def learned() -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in load_recipe("recipe.toml").data.reader("train")]


def held() -> list[tuple[str, str]]:
    data = load_recipe("recipe.toml").data
    return [(pair.source, pair.target) for part in ("validation", "test") for pair in data.reader(part)]


def test_what_is_not_held_out_stays_where_it_is(say: Say, here: Path) -> None:
    put("made.tsv", *sides(OTHER))
    said = say("new", *put_main(), "--also", "made.tsv")
    assert said.code == 0, said.err
    assert texts() == {
        "news": {"source": "recipe-data/train.en", "target": "recipe-data/train.de", **LANGUAGES},
        "made": {"path": "made.tsv", **LANGUAGES},
    }
    assert "pairs: 200 for training\n" in said.err
    assert (
        "also, made (made.tsv): 2 columns separated by tabs, without a header, column 0 becomes column 1 "
        "(English (en) to German (de))\npairs of made: 60 for training\n"
    ) in said.err
    assert len(held()) == 40, "of the main text alone"
    assert sorted([*learned(), *held()]) == sorted([*MAIN, *OTHER])
    assert not (here / "recipe-data/made").exists()
    recipe = Path("recipe.toml").read_text(encoding="utf-8")
    assert "# Written by: heedful new news.en news.de --also made.tsv\n" in recipe
    assert "# - pairs of made: 60 for training\n" in recipe
    assert "# weights = { made = 0.5 }  reads that text half as often\n" in recipe


def test_what_is_held_out_is_left_out_of_the_other_text(say: Say, here: Path) -> None:
    assert say("new", *put_main()).code == 0
    (source, _), (_, target) = held()[0], held()[-1]
    rows = [*OTHER, (f" {source.upper()}", "nie gesehen"), ("never seen", target), ("", "leer")]
    put("made.tsv.gz", *sides(rows))
    said = say("new", *put_main(), "--also", "made.tsv.gz", "--overwrite")
    assert said.code == 0, said.err
    told = "pairs of made: 61 for training; 2 left out, whose source or translation is held out, written to "
    assert f"{told}recipe-data/made\n" in said.err
    assert texts()["made"] == {"path": "recipe-data/made/train.tsv.gz", **LANGUAGES}
    assert learned()[-61:] == [*OTHER, ("", "leer")], "in their order, and what is empty with them"
    again = Path("recipe.toml").read_bytes()
    assert say("new", *put_main(), "--also", "made.tsv.gz", "--overwrite").code == 0
    assert Path("recipe.toml").read_bytes() == again


def test_parts_that_there_are_are_held_out_too(say: Say, here: Path) -> None:
    files = [put(f"{part}.tsv", *sides(rows)) for part, rows in (("train", MAIN), ("dev", OTHER[:20]))]
    put("made.tsv", *sides(OTHER))
    said = say("new", *files, "--also", "made.tsv")
    assert said.code == 0, said.err
    assert "pairs of made: 40 for training; 20 left out" in said.err
    assert texts() == {
        "train": {"path": "train.tsv", **LANGUAGES},
        "made": {"path": "recipe-data/made/train.tsv", **LANGUAGES},
    }
    assert learned() == [*MAIN, *OTHER[20:]]


def test_every_form_is_taken_in_the_direction_of_the_main_text(say: Say, here: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow
    import pyarrow.parquet

    source, target = sides(OTHER)
    put("talks-en.txt", source), put("talks-de.txt", target)
    put("web.tsv", target, source)
    put("shop.csv", [f'"{line}",' for line in source], [f'"{line}"' for line in target])
    Path("shop.csv").write_text(Path("shop.csv").read_text().replace("\t", ""))
    Path("old.jsonl").write_text("".join(f'{{"de": "{t}", "en": "{s}"}}\n' for s, t in OTHER))
    pyarrow.parquet.write_table(pyarrow.table({"de": target, "en": source}), "table.parquet")
    Path("app.po").write_text("".join(f'msgid "{s}"\nmsgstr "{t}"\n\n' for s, t in OTHER))
    files = ["talks-en.txt", "talks-de.txt", "web.tsv", "shop.csv", "old.jsonl", "table.parquet", "app.po"]
    said = say("new", *put_main(), "--also", *files, tmx("memory.tmx", OTHER))
    assert said.code == 0, said.err
    assert list(texts()) == ["news", "talks", "web", "shop", "old", "table", "app", "memory"]
    assert all(f"pairs of {name}: 60 for training" in said.err for name in list(texts())[1:])
    assert learned()[160:] == OTHER * 7
    assert texts()["shop"]["path"] == "recipe-data/shop/train.jsonl", "a recipe reads no CSV"
    assert texts()["web"] == {
        "path": "web.tsv",
        "source_column": 1,
        "target_column": 0,
        "source_language": "en-GB",
        "target_language": "de",
    }
    assert load_recipe("recipe.toml").data.languages == (), "one target language, for which nobody asks"


def test_the_other_direction(say: Say, here: Path) -> None:
    source, target = sides(OTHER)
    put("talks.en", source), put("talks.de", target)
    more = '<tuv xml:lang="fr"><seg>le chien</seg></tuv>'
    memories = [tmx("memory.tmx", OTHER, more=more), tmx("british.tmx", OTHER, tags=("en-US", "de-AT"))]
    said = say("new", *put_main(german_first=True), "--also", "talks.en", "talks.de", *memories)
    assert said.code == 0, said.err
    assert learned()[160:] == [(target, source) for source, target in OTHER] * 3
    assert {table["target_language"] for table in texts().values()} == {"en"}, "whatever their regions"
    assert texts()["talks"] == {
        "source": "talks.de",
        "target": "talks.en",
        "source_language": "de",
        "target_language": "en",
    }


def test_columns_are_read_where_they_are(say: Say, here: Path) -> None:
    (source, target), loud = sides(OTHER), [line.upper() for line in sides(OTHER)[0]]
    first, second = sides(MAIN)
    put("main.tsv", ["en", *first], ["de", *second], ["loud", *(line.upper() for line in first)])
    put("same.tsv", ["de", *target], ["loud", *loud], ["en", *source])
    put("bare.tsv", source, target)
    assert say("new", "main.tsv", "--also", "same.tsv", "bare.tsv", "--columns", "loud", "de").code == 0
    assert learned()[160:220] == list(zip(loud, target, strict=True))
    assert learned()[220:] == OTHER


def test_what_is_in_other_languages_is_told(say: Say, here: Path) -> None:
    put("talks.en", sides(OTHER)[0]), put("talks.fr", [f"le chien est dans la maison {n}" for n in range(60)])
    said = say("new", *put_main(), "--also", "talks.en", "talks.fr")
    assert said.code == 0, said.err
    assert (
        "note: that seems to be English (en) to French (fr), but the main text is English (en) to German (de)\n"
        in said.err
    )


def test_names_are_told_apart(say: Say, here: Path) -> None:
    for folder in ("a", "b"):
        Path(folder).mkdir()
        put(f"{folder}/news.tsv", *sides(OTHER))
    put("été!.tsv", *sides(OTHER))
    assert say("new", *put_main(), "--also", "a/news.tsv", "b/news.tsv", "été!.tsv").code == 0
    assert list(texts()) == ["news", "news-2", "news-3", "t"]


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (("made.en", "made.de"), "made"),
        (("made-en.txt", "made-de.txt"), "made"),
        (("deck.txt", "desk.txt"), "deck"),
        (("web.2020.en-de.en.gz", "web.2020.en-de.de.gz"), "web"),
    ],
)
def test_a_text_is_called_by_its_files(here: Path, files: tuple[str, str], name: str) -> None:
    put(files[0], sides(OTHER)[0]), put(files[1], sides(OTHER)[1])
    found: DetectedDataset = propose_datasets([sniff_file(Path(file)) for file in files], task="translation")[0].dataset
    assert derive_name(found) == name


def test_long_pairs_and_faults_of_any_text_are_told(say: Say, here: Path) -> None:
    put("made.tsv", *([f"{line} " * 40 for line in side] for side in sides(OTHER)))
    put("odd.tsv", *sides([*OTHER, ("", "leer"), *OTHER[:9]]))
    said = say("new", *put_main(), "--also", "made.tsv", "odd.tsv")
    assert said.code == 0, said.err
    assert "- 9 of 70 pairs (12.9 %) for training repeat another one\n    odd.tsv:62 (as line 1)" in said.err
    assert load_recipe("recipe.toml").data.max_length > 256


def test_few_are_counted_together(say: Say, here: Path) -> None:
    put("made.tsv", *sides(pairs(900, first=500)))
    assert "are few for training" in say("new", *put_main()).err
    assert "are few for training" not in say("new", *put_main(), "--also", "made.tsv", "--overwrite").err


def test_mistakes(say: Say, here: Path) -> None:
    main = put_main()
    put("made.tsv", *sides(OTHER))
    put("one.en", sides(OTHER)[0])
    put("tones.tsv", sides(OTHER)[0], ["good", "bad"] * 30)
    put("same.tsv", *sides(MAIN[:3]))
    put("dev.tsv", *sides(MAIN[:20])), put("train.tsv", *sides(OTHER))
    Path("empty.tsv").write_text("")
    french = tmx("french.tmx", OTHER, tags=("en", "fr"))
    many = tmx("many.tmx", OTHER, more='<tuv xml:lang="fr"><seg>oui</seg></tuv>')
    put("a.txt", [f"{n} x" for n in range(100)]), put("b.txt", [f"x {n}" for n in range(100)])
    told = {
        (*main, "--also", "one.en"): (
            "--also: one.en: lines of text, but translations need two files; give its translation after it, as in "
            "--also "
            "made.en made.de"
        ),
        (*main, "--also", "made.tsv", "made.tsv"): "made.tsv: is named twice; name each file once",
        (*main, "--also", "news.en", "one.en"): "news.en: is named twice; name each file once",
        (
            *main,
            "--also",
            "-",
        ): "-: files are read more than once, and standard input cannot be; save it to a file first",
        (*main, "--also", "none.tsv"): "none.tsv: there is no such file; check the path",
        (*main, "--also", "empty.tsv"): "empty.tsv: the file is empty; is it the right one?",
        (*main, "--also"): "--also: has no value; give a path, as in --also PATH",
        ("tones.tsv", "--also", "made.tsv"): (
            '--also: task = "classification" trains on one text; leave it out, or add --task translation'
        ),
        (*main, "--task", "matching", "--also", "made.tsv"): (
            '--also: task = "matching" trains on one text; leave it out, or add --task translation'
        ),
        (*main, "--also", french): "--also: french.tmx has fr, en, but nothing in German (de); leave it out",
        ("a.txt", "b.txt", "--also", many): (
            "--also: many.tmx has de, en-GB, fr, but the languages of the main text are unknown; name its files by "
            "language, as in train.en train.de"
        ),
        ("train.tsv", "dev.tsv", "--also", "same.tsv"): (
            "--also: same (same.tsv) has only pairs that are held out; leave it out"
        ),
    }
    for words, complaint in told.items():
        assert say("new", *words).complaint == complaint, words
    assert not Path("recipe.toml").exists()
    assert not Path("recipe-data").exists()
    said = say("new", *main, "--also", ".")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith('heedful: --also: cannot tell how to learn from this for task = "translation"')
    Path("recipe-data/made").mkdir(parents=True)
    Path("recipe-data/made/train.tsv").write_text("mine\n")
    assert say("new", *main, "--also", "made.tsv").complaint == (
        "recipe-data/made/train.tsv: already exists; choose another place with --data-folder, or add --overwrite"
    )


def test_only_recipes_with_texts_take_several() -> None:
    assert [task for task in list_tasks() if allows_multiple_texts(task)] == ["translation"]
