"""`heedful new`: what it makes of files of every form, and all that it says of what spoils trainings."""

# ruff: noqa: E501  # messages stand in one piece

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from heedful import load_recipe
from heedful.cli.new import _check_init
from heedful.data.detect.format import DataFormat, HintOnlyFormat
from heedful.errors import RecipeError
from heedful.recipes.recipe import get_recipe_class
from heedful.recipes.recipe_writer import get_forms
from heedful.recipes.reference import list_keys
from heedful.registry import list_tasks

Say = Callable[..., Any]

ANIMALS = ["dog", "cat", "horse", "cow", "hen", "pig", "goat", "bird", "fish", "mouse"]
TIERE = ["Hund", "Katze", "Pferd", "Kuh", "Huhn", "Schwein", "Ziege", "Vogel", "Fisch", "Maus"]
PLACES = ["house", "garden", "street", "river", "forest", "town", "field", "kitchen", "barn", "school"]
ORTE = ["Haus", "Garten", "Straße", "Fluss", "Wald", "Stadt", "Feld", "Küche", "Scheune", "Schule"]
MANNERS = ["slowly", "quickly", "happily", "sadly", "often", "never", "today", "again", "alone", "together"]
WEISEN = ["langsam", "schnell", "fröhlich", "traurig", "oft", "nie", "heute", "wieder", "allein", "zusammen"]
PAIRS = [
    (
        f"the {ANIMALS[n % 10]} was in the {PLACES[n // 10 % 10]} and it slept {MANNERS[n // 100 % 10]}{' and well' * (n % 7)}",
        f"das {TIERE[n % 10]} war in dem {ORTE[n // 10 % 10]} und es schlief {WEISEN[n // 100 % 10]}{' und gut' * (n % 7)}",
    )
    for n in range(1000)
]
ENGLISH = [english for english, _ in PAIRS]
GERMAN = [german for _, german in PAIRS]


def text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def table(rows: Sequence[Sequence[object]], *, head: Sequence[str] = (), delimiter: str = "\t") -> str:
    out = io.StringIO()
    quoting = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n", quoting=quoting)
    writer.writerows([head, *rows] if head else rows)
    return out.getvalue()


def jsonl(rows: Sequence[dict[str, object]]) -> str:
    return text([json.dumps(row, ensure_ascii=False) for row in rows])


def recipe_text(folder: Path) -> str:
    return (folder / "recipe.toml").read_text(encoding="utf-8")


def put(files: Mapping[str, str | bytes]) -> list[str]:
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return list(files)


TONES = [(line, ("good", "bad")[n % 2]) for n, line in enumerate(ENGLISH)]
TAGGED = text(
    "\n".join(f"{word}\t{'D' if word in ('the', 'it') else 'O'}" for word in words) + "\n"
    for words in (line.split() for line in ENGLISH)
)
CONLLU = text(
    f"# text = {line}\n"
    + "".join(
        f"{n}\t{word}\t{word}\t{'DET' if word == 'the' else 'NOUN'}\t_\t_\t0\troot\t_\t_\n"
        for n, word in enumerate(line.split(), 1)
    )
    for line in ENGLISH[:300]
)
SQUAD = json.dumps(
    {
        "data": [
            {
                "title": "animals",
                "paragraphs": [
                    {
                        "context": line,
                        "qas": [
                            {
                                "id": str(n),
                                "question": f"who slept in number {n}?",
                                "answers": [{"text": line.split()[1], "answer_start": 4}],
                            }
                        ],
                    }
                    for n, line in enumerate(ENGLISH[:300])
                ],
            }
        ]
    }
)
ASKED = [
    {"question": f"who slept in number {n}?", "context": line, "answer": line.split()[1]}
    for n, line in enumerate(ENGLISH[:300])
]
PLACED = [
    {"question": row["question"], "context": row["context"], "answers": [{"text": row["answer"], "start": 4}]}
    for row in ASKED
]
DIALOGUES = [
    {"turns": [{"speaker": "customer", "text": line}, {"speaker": "clerk", "text": f"so {line}"}]} for line in ENGLISH
]
EN_DE = {"source_language": "en", "target_language": "de"}
DE_EN = {"source_language": "de", "target_language": "en"}
SPLIT = {part: f"recipe-data/{part}" for part in ("train", "validation", "test")}

# Files, and for what their recipe is: its task, the table of its training data, other keys of [data].
FORMS: dict[str, tuple[dict[str, str | bytes], str, dict[str, Any], dict[str, Any]]] = {
    "lines": (
        {"a.en": text(ENGLISH), "a.de": text(GERMAN)},
        "translation",
        {"source": "recipe-data/train.en", "target": "recipe-data/train.de", **EN_DE},
        {},
    ),
    "lines without languages": (
        {"in.txt": text([f"{n} x" for n in range(200)]), "out.txt": text([f"x {n}" for n in range(200)])},
        "translation",
        {"source": "recipe-data/train.source", "target": "recipe-data/train.target"},
        {},
    ),
    "lines in parts": (
        {
            "train.de": text(GERMAN[:900]),
            "train.en": text(ENGLISH[:900]),
            "dev.en": text(ENGLISH[900:]),
            "dev.de": text(GERMAN[900:]),
        },
        "translation",
        {"source": "train.de", "target": "train.en", **DE_EN},
        {},
    ),
    "pairs between tabs, gzipped": (
        {"a.tsv.gz": table(PAIRS)},
        "translation",
        {"path": "recipe-data/train.tsv.gz", **EN_DE},
        {},
    ),
    "three columns": (
        {"a.tsv": table([("short", german, english) for english, german in PAIRS])},
        "translation",
        {"path": "recipe-data/train.tsv", "source_column": 1, "target_column": 2, **DE_EN},
        {},
    ),
    "pairs below a header": (
        {"a.tsv": table(PAIRS, head=("source", "target"))},
        "translation",
        {"path": "recipe-data/train.tsv", **EN_DE},
        {},
    ),
    "pairs in CSV": (
        {"a.csv": table(PAIRS, delimiter=",")},
        "translation",
        {"path": "recipe-data/train.jsonl", "source_field": "source", "target_field": "target", **EN_DE},
        {},
    ),
    "pairs in JSON": (
        {"a.jsonl": jsonl([{"id": n, "en": english, "de": german} for n, (english, german) in enumerate(PAIRS)])},
        "translation",
        {"path": "recipe-data/train.jsonl", "source_field": "en", "target_field": "de", **EN_DE},
        {},
    ),
    "classes between tabs": (
        {"a.tsv": table(TONES)},
        "classification",
        {"path": "recipe-data/train.tsv", "text": "0", "label": "1", "header": False},
        {},
    ),
    "classes below a header": (
        {
            "train.tsv": table(TONES[:800], head=("sentence", "label")),
            "dev.tsv": table(TONES[800:], head=("sentence", "label")),
        },
        "classification",
        {"path": "train.tsv", "text": "sentence", "label": "label"},
        {},
    ),
    "classes in CSV": (
        {"a.csv": table([(f"{line}, said he", tone) for line, tone in TONES], delimiter=",", head=("text", "label"))},
        "classification",
        {"path": "recipe-data/train.csv", "text": "text", "label": "label"},
        {},
    ),
    "classes between semicolons": (
        {"a.csv": table(TONES, delimiter=";", head=("text", "label"))},
        "classification",
        {"path": "recipe-data/train.csv", "text": "text", "label": "label"},
        {},
    ),
    "classes in JSON": (
        {"a.jsonl": jsonl([{"label": n % 2, "text": line} for n, (line, _) in enumerate(TONES)])},
        "classification",
        {"path": "recipe-data/train.jsonl", "text": "text", "label": "label"},
        {},
    ),
    "two texts and a class": (
        {
            "a.tsv": table(
                [(n, ENGLISH[n], ENGLISH[-n], n % 3 % 2) for n in range(1, 900)],
                head=("index", "sentence1", "sentence2", "label"),
            )
        },
        "classification",
        {"path": "recipe-data/train.tsv", "text": "sentence1", "pair": "sentence2", "label": "label"},
        {},
    ),
    "numbers": (
        {
            "a.tsv": table(
                [(line, f"{n * 37 % 100 / 20:.2f}") for n, line in enumerate(ENGLISH)], head=("text", "score")
            )
        },
        "classification",
        {"path": "recipe-data/train.tsv", "text": "text", "label": "score"},
        {"numbers": True},
    ),
    "tags": ({"a.txt": TAGGED}, "tagging", {"path": "recipe-data/train.txt"}, {}),
    "CoNLL-U": ({"a.conllu.gz": CONLLU}, "tagging", {"path": "recipe-data/train.conllu.gz"}, {}),
    "SQuAD": ({"a.json": SQUAD}, "spans", {"path": "recipe-data/train.json"}, {}),
    "questions in CSV": (
        {"a.csv": table([tuple(row.values()) for row in ASKED], delimiter=",", head=tuple(ASKED[0]))},
        "spans",
        {"path": "recipe-data/train.jsonl"},
        {},
    ),
    "questions with answers in place": (
        {"a.jsonl": jsonl(PLACED)},
        "spans",
        {"path": "recipe-data/train.jsonl"},
        {},
    ),
    "questions in Hugging Face's way": (
        {
            "a.jsonl": jsonl(
                [{**row, "answers": {"text": [row["answer"]], "answer_start": [4]}, "answer": None} for row in ASKED]
            ).replace('"answer": null, ', "")
        },
        "spans",
        {"path": "recipe-data/train.jsonl"},
        {},
    ),
    "one text": (
        {"a.txt": text([f"{line.capitalize()}.\n" for line in ENGLISH])},
        "language_modelling",
        {"path": "recipe-data/train.txt"},
        {},
    ),
    "a text a line": (
        {"a.txt": text([f"{line.capitalize()}." for line in ENGLISH])},
        "language_modelling",
        {"path": "recipe-data/train.txt", "kind": "lines"},
        {},
    ),
    "a text without paragraphs": (
        {"a.txt": text(ENGLISH)},
        "language_modelling",
        {"path": "recipe-data/train.txt"},
        {},
    ),
    "texts in JSON": (
        {"a.jsonl": jsonl([{"text": line} for line in ENGLISH])},
        "language_modelling",
        {"path": "recipe-data/train.jsonl", "field": "text"},
        {},
    ),
    "dialogues": (
        {"a.jsonl": jsonl(DIALOGUES)},
        "conversation",
        {"path": "recipe-data/train.jsonl"},
        {"replier": "clerk"},
    ),
}


def listed(lines: str | bytes, *, indent: int | None) -> str:
    assert isinstance(lines, str)
    return json.dumps([json.loads(line) for line in lines.splitlines()], indent=indent)


FORMS |= {
    f"{name}, as a list": (
        {"a.json": listed(files["a.jsonl"], indent=number % 2 or None)},
        task,
        train,
        keys,
    )
    for number, (name, (files, task, train, keys)) in enumerate(FORMS.items())
    if "a.jsonl" in files
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_becomes_a_recipe(say: Say, here: Path, form: str) -> None:
    import tomllib

    files, task, train, keys = FORMS[form]
    said = say("new", *put(files))
    assert said.code == 0, said.err
    assert said.out == "written: recipe.toml\nnext: heedful train recipe.toml\nthen: heedful evaluate runs/recipe\n"
    written = tomllib.loads((here / "recipe.toml").read_text(encoding="utf-8"))
    data = dict(written["data"])
    found = {part: data.pop(part) for part in ("train", "validation", "test") if part in data}
    assert (written["task"], found["train"], data) == (task, train, keys)
    assert written["training"] == {"minutes": 15}
    assert set(written) == {"task", "data", "training"}
    recipe = load_recipe("recipe.toml")
    assert all(sum(1 for _ in recipe.data.reader(part)) > 0 for part in found)
    assert not list(here.rglob("*.new*")), "something was left behind"


def test_the_comments_tell_what_was_seen(say: Say, here: Path) -> None:
    put({"a.en": text(ENGLISH), "a.de": text(GERMAN)})
    assert say("new", "a.en", "a.de", "--minutes", "90").code == 0
    lines = (here / "recipe.toml").read_text(encoding="utf-8").splitlines()
    assert lines[:11] == [
        "# Written by: heedful new a.en a.de",
        "# What it found:",
        "# - form: two files whose lines belong together",
        "# - learned: a line of a.en becomes the same line of a.de (English (en) to German (de))",
        "# - pairs: 1,000 for training",
        "# - words of a source: 16 (median), 22 (95th percentile)",
        "# - words of a target: 16 (median), 22 (95th percentile)",
        "# - languages: en to de; if that is wrong, correct it in the recipe before training",
        "# - split by the texts themselves, so that no text is in two parts: 100 for validation, 100 for test, 800",
        "#   pairs are left for training (in recipe-data)",
        "",
    ]
    assert lines[11:25] == [
        'task = "translation"',
        "",
        "[data]",
        'validation = { source = "recipe-data/validation.en", target = "recipe-data/validation.de" }',
        'test = { source = "recipe-data/test.en", target = "recipe-data/test.de" }',
        "",
        "[data.train]",
        'source = "recipe-data/train.en"',
        'target = "recipe-data/train.de"',
        'source_language = "en"',
        'target_language = "de"',
        "",
        "[training]",
        "minutes = 90  # training time; more time gives a better model; steps or epochs are also possible",
    ]
    assert all(len(line) <= 120 for line in lines)
    known = {key.path for key in list_keys("translation")}
    named = [line.split()[1] for line in lines[28:]]
    assert len(named) >= 5
    assert set(named) <= known


def test_labels_stand_in_the_comments_with_their_counts(say: Say, here: Path) -> None:
    assert say("new", *put({"a.tsv": table(TONES)})).code == 0
    assert "# - 2 classes: 'good' 500, 'bad' 500\n" in (here / "recipe.toml").read_text(encoding="utf-8")


def test_the_recipe_may_go_to_standard_output(say: Say, here: Path) -> None:
    said = say("new", *put({"a.tsv": table(TONES)}), "-o", "-", "--data-folder", "parts")
    assert said.code == 0
    assert 'train = { path = "parts/train.tsv", text = "0", label = "1", header = false }' in said.out
    assert sorted(path.name for path in here.iterdir()) == ["a.tsv", "parts"]
    assert said.err.endswith("then: heedful train recipe.toml\n")


def test_paths_are_counted_from_the_recipe_and_quoted_for_the_shell(say: Say, here: Path) -> None:
    put({"my data/train.tsv": table(TONES[:800]), "my data/dev.tsv": table(TONES[800:])})
    said = say("new", "my data/train.tsv", "my data/dev.tsv", "-o", "my recipes/tone's.toml")
    assert said.code == 0
    assert said.out == (
        "written: my recipes/tone's.toml\n"
        "next: heedful train 'my recipes/tone'\"'\"'s.toml'\n"
        "then: heedful evaluate 'runs/tone'\"'\"'s'\n"
    )
    recipe = (here / "my recipes/tone's.toml").read_text(encoding="utf-8")
    assert 'train = { path = "../my data/train.tsv"' in recipe
    absolute = say("new", here / "my data/train.tsv", here / "my data/dev.tsv", "-o", "-")
    assert f'train = {{ path = "{here}/my data/train.tsv"' in absolute.out


def test_a_missing_validation_is_split_off_and_a_given_test_stays(say: Say, here: Path) -> None:
    put({"train.tsv": table(TONES[:900]), "test.tsv": table(TONES[900:])})
    assert say("new", "train.tsv", "test.tsv").code == 0
    recipe = (here / "recipe.toml").read_text(encoding="utf-8")
    assert 'test = { path = "test.tsv"' in recipe
    assert sorted(path.name for path in (here / "recipe-data").iterdir()) == ["train.tsv", "validation.tsv"]


def test_long_examples_ask_for_a_larger_max_length(say: Say, here: Path) -> None:
    put({"a.tsv": table([(f"{line} " * 12, tone) for line, tone in TONES])})
    assert say("new", "a.tsv").code == 0
    found = re.search(r"max_length = (\d+)  # too many are longer than the default, 128 tokens", recipe_text(here))
    assert found is not None
    assert 256 <= int(found[1]) <= 512
    assert int(found[1]) % 64 == 0


def test_init_is_passed_on(say: Say, here: Path) -> None:
    (here / "runs/bert").mkdir(parents=True)
    assert say("new", *put({"a.tsv": table(TONES)}), "--init", "runs/bert", "-o", "sub/r.toml").code == 0
    assert 'init = "../runs/bert"\n' in (here / "sub/r.toml").read_text()


def test_columns_can_be_named(say: Say, here: Path) -> None:
    rows = [(english, german, english.upper(), "x") for english, german in PAIRS]
    put({"a.tsv": table(rows, head=("en", "de", "loud", "x"))})
    assert say("new", "a.tsv", "--columns", "loud", "de").code == 0
    assert "source_column = 2, target_column = 1" in (here / "recipe.toml").read_text()
    said = say("new", "a.tsv", "--columns", "lout", "de", "-o", "b.toml")
    assert said.code == 2
    assert "--columns: a.tsv has no column 'lout'; did you mean 'loud'?" in said.err


def test_another_task_can_be_asked_for(say: Say, here: Path) -> None:
    put({"a.en": text(ENGLISH), "a.de": text(GERMAN), "b.txt": text([f"{line}.\n" for line in ENGLISH])})
    assert say("new", "a.en", "a.de", "--task", "matching").code == 0
    assert load_recipe("recipe.toml").task == "matching"
    assert say("new", "b.txt", "--task", "pretraining", "-o", "b.toml").code == 0
    assert load_recipe("b.toml").task == "pretraining"


# What is uncertain

UNCERTAIN = {"a.tsv": table([(line, n % 5) for n, line in enumerate(ENGLISH)])}


def test_what_is_uncertain_is_told_in_a_pipe(say: Say, here: Path) -> None:
    said = say("new", *put(UNCERTAIN))
    assert said.code == 0
    assert said.err.startswith(
        "This seems to be classification: column 0 gets a class, from column 1, which is not certain.\nChoose other columns with --columns NAME NAME.\n"
    )
    assert (
        "note: '1' holds 5 whole numbers, which are read as classes; if they measure something, add numbers = true below [data]"
        in said.err
    )


def test_two_numbers_and_an_empty_cell_are_two_classes(say: Say, here: Path) -> None:
    said = say("new", *put({"a.tsv": table([*((line, n % 2) for n, line in enumerate(ENGLISH)), ("so", "")])}))
    assert said.code == 0
    assert "not certain" not in said.err
    assert "whole numbers" not in said.err


SAME = {"a.tsv": table([(line, f"so {other}") for line, other in zip(ENGLISH, reversed(ENGLISH), strict=True)])}


@pytest.mark.parametrize(("answer", "task"), [("\n", "translation"), ("2\n", "matching"), ("", "translation")])
def test_somebody_at_a_terminal_is_asked(
    say: Say, here: Path, monkeypatch: pytest.MonkeyPatch, answer: str, task: str
) -> None:
    put(SAME)
    monkeypatch.setattr("heedful.cli.new._is_interactive", lambda: True)
    monkeypatch.setattr("heedful.cli.new._read_answer", lambda: answer)
    said = say("new", "a.tsv")
    assert said.code == 0, said.err
    assert said.err.startswith(
        "What should the model learn?\n"
        "  1  translation: column 0 becomes column 1 (English (en) to English (en))\n"
        "  2  matching: column 0 becomes column 1 (English (en) to English (en))\n"
        "Number (Enter for 1): "
    )
    assert load_recipe("recipe.toml").task == task


def test_a_wrong_answer_is_told(say: Say, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(SAME)
    monkeypatch.setattr("heedful.cli.new._is_interactive", lambda: True)
    monkeypatch.setattr("heedful.cli.new._read_answer", lambda: "7\n")
    said = say("new", "a.tsv")
    assert said.code == 2
    assert "'7' is not a number from 1 to 2; start heedful new again, perhaps with --task" in said.err


def test_files_are_asked_for_at_a_terminal_only(say: Say, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put({"my tones.tsv": table(TONES)})
    said = say("new")
    assert said.complaint == "heedful new: needs FILE; write heedful new FILE ..., as in heedful new train.en train.de"
    monkeypatch.setattr("heedful.cli.new._is_interactive", lambda: True)
    monkeypatch.setattr("heedful.cli.new._read_answer", lambda: "'my tones.tsv'\n")
    assert say("new").code == 0


# What spoils trainings: the files, and all that is said of them


def replaced(lines: Sequence[str], **at: str) -> list[str]:
    found = list(lines)
    for place, line in at.items():
        found[int(place[1:])] = line
    return found


SPOILED: dict[str, tuple[dict[str, str | bytes], str]] = {
    "nothing": ({"a.en": text(ENGLISH), "a.de": text(GERMAN)}, "\nNothing was found that harms training.\n"),
    "empty sides": (
        {"a.en": text(replaced(ENGLISH, n5="", n7=" ")), "a.de": text(replaced(GERMAN, n9=""))},
        "- 3 pairs (0.3 %) with an empty text or label\n"
        f"    a.en:6: (empty) | {GERMAN[5][:70]}...\n"
        f"    a.en:8: (empty) | {GERMAN[7]}\n"
        "  training leaves them out\n",
    ),
    "repeated pairs": (
        {"a.en": text([*ENGLISH, *ENGLISH[:20]]), "a.de": text([*GERMAN, *GERMAN[:20]])},
        "- 20 of 1,020 pairs (2.0 %) for training repeat another one\n"
        f"    a.en:1001 (as line 1): {ENGLISH[0]} | {GERMAN[0]}\n"
        f"    a.en:1002 (as line 2): {ENGLISH[1]} | {GERMAN[1]}\n"
        "  they get more weight than others; keep them if such texts are really that frequent, else take them out\n",
    ),
    "several targets": (
        {"a.en": text([*ENGLISH, *ENGLISH[:20]]), "a.de": text([*GERMAN, *(f"ja {line}" for line in GERMAN[:20])])},
        "- 20 sources with more than one target, as when several people translated them\n"
        f"    a.en:1001 (and line 1): {ENGLISH[0]} | ja {GERMAN[0]}\n"
        f"    a.en:1002 (and line 2): {ENGLISH[1]} | ja {GERMAN[1]}\n"
        "  fine if all of them are right; a model learns their mean\n",
    ),
    "copies": (
        {"a.en": text(ENGLISH), "a.de": text([*ENGLISH[:50], *GERMAN[50:]])},
        "- 50 pairs (5.0 %) with the same text on both sides\n"
        f"    a.en:1: {ENGLISH[0]}\n"
        f"    a.en:2: {ENGLISH[1]}\n"
        "  the model learns to copy from them: take them out unless that is intended\n",
    ),
    "unequal lengths": (
        {"a.en": text(ENGLISH), "a.de": text(replaced(GERMAN, n3="ja", n4="nein", n5="gut"))},
        "- 3 pairs (0.3 %) with a side at least four times as long as usual compared with the other\n"
        f"    a.en:6: {ENGLISH[5][:70]}... | gut\n",
    ),
    "one language on both sides": (
        {"a.en": text(ENGLISH), "a.de": text([f"well {line}" for line in ENGLISH[:50]] + GERMAN[50:])},
        "- 50 pairs (5.0 %) probably have the same language on both sides\n"
        f"    a.en:1: {ENGLISH[0]} | well {ENGLISH[0]}\n",
    ),
    "sides that are swapped in places": (
        {"a.en": text(ENGLISH[:900] + GERMAN[900:]), "a.de": text(GERMAN[:900] + ENGLISH[900:])},
        "pairs (10.0 %) probably have German (de) first and English (en) second\n",
    ),
    "files with each other's names": (
        {"a.en": text(GERMAN), "a.de": text(ENGLISH)},
        f"- a.en should be English (en) and is German (de), and a.de is English (en)\n    a.en: {GERMAN[0]}\n",
    ),
    "a part in the other order": (
        {
            "train.tsv": table(PAIRS[:900]),
            "validation.tsv": table([(german, english) for english, german in PAIRS[900:]]),
        },
        "- validation.tsv (column 0) should be English (en) and is German (de), and validation.tsv (column 1) is English "
        "(en)\n",
    ),
    "lines that do not belong together": (
        {"a.en": text(random.Random(1).sample(ENGLISH, 1000)), "a.de": text(GERMAN)},
        "- the lines of a.en and a.de do not seem to translate each other: long lines are paired with short ones\n",
    ),
    "lines that part and meet again": (
        {"a.en": text(ENGLISH * 4), "a.de": text([*GERMAN * 2, *GERMAN[3:], *GERMAN, *GERMAN[:3]])},
        "- the lines of a.en and a.de do not seem to translate each other from about a.en:2001 on\n",
    ),
    "leaks": (
        {
            "train.tsv": table(TONES),
            "dev.tsv": table([*((f"new {line}", tone) for line, tone in TONES[:90]), *TONES[:10]]),
            "test.tsv": table([(f"other {line}", tone) for line, tone in TONES[:90]]),
        },
        "- 10 of the 100 different texts for validation (10.0 %) are in the data for training too\n"
        f"    dev.tsv:91 (as train.tsv:1): {ENGLISH[0]}\n"
        f"    dev.tsv:92 (as train.tsv:2): {ENGLISH[1]}\n"
        "  texts from training make the model look better than it is: take them out of one of the parts, or give only one file and let heedful new split it\n",
    ),
    "rare labels": (
        {"a.tsv": table([*TONES[:-1], (ENGLISH[-1], "godo")])},
        "- 1 class of 3 occurs only once or twice: 'godo'\n",
    ),
    "unbalanced labels": (
        {"a.tsv": table([(line, "bad" if n % 10 else "good") for n, line in enumerate(ENGLISH)])},
        "- class 'bad' has 900 of 1,000 texts (90.0 %), the rarest class 100\n"
        "  a model that always predicts the first looks good: compare macro-F1 (training.monitor), and find more examples of the others\n",
    ),
    "labels that training lacks": (
        {
            "train.tsv": table(TONES[:900]),
            "dev.tsv": table([(line, "so so") for line in ENGLISH[900:]] + TONES[800:900]),
        },
        "- 1 class of the data for validation or test is not in the training data: 'so so'\n",
    ),
    "contradictions": (
        {"a.tsv": table([*TONES, *((line, "bad") for line, tone in TONES[:20] if tone == "good")])},
        f"- 10 texts with two labels or more\n    a.tsv:1001 (and line 1): {ENGLISH[0]} | bad\n",
    ),
    "an empty label": (
        {"a.tsv": table([*TONES[:-1], (ENGLISH[-1], "")])},
        f"- 1 text (0.1 %) with an empty text or label\n    a.tsv:1000: {ENGLISH[-1][:70]}",
    ),
    "an empty label among numbers": (
        {"a.tsv": table([*((line, n % 2) for n, line in enumerate(ENGLISH[:-1])), (ENGLISH[-1], "")])},
        f"- 1 text (0.1 %) with an empty text or label\n    a.tsv:1000: {ENGLISH[-1][:70]}",
    ),
    "a wrong encoding, saved again": (
        {"a.txt": text([f"{line}.\n" for line in (*ENGLISH, "schÃ¶n und gut")])},
        "- 1 paragraph (less than 0.1 %) with letters such as Ã¼ where ü is meant\n    a.txt:2001: schÃ¶n und gut.\n",
    ),
    "lost letters": (
        {"a.txt": text([f"{line}.\n" for line in (*ENGLISH, "sch\ufffdn")])},
        "- 1 paragraph (less than 0.1 %) with a sign for an unreadable character (U+FFFD)\n",
    ),
    "HTML": (
        {"a.txt": text([f"{line}.\n" for line in (*ENGLISH, "this &amp; that", "line<br/>line")])},
        "- 2 paragraphs (0.2 %) with remains of HTML\n"
        "    a.txt:2001: this &amp; that.\n"
        "    a.txt:2003: line<br/>line.\n"
        "  the model learns to write and read them: take them out, as with Python's html.unescape\n",
    ),
    "control characters": (
        {"a.txt": text([f"{line}.\n" for line in (*ENGLISH, "a\x1b[31mred")])},
        "- 1 paragraph (less than 0.1 %) with control characters\n    a.txt:2001: a [31mred.\n",
    ),
    "too long": (
        {"a.tsv": table([*TONES[:-1], (f"{ENGLISH[0]} " * 40, "bad")])},
        "- 1 text (0.1 %) is probably longer than data.max_length = 128 tokens\n",
    ),
    "sentences tagged in two ways": (
        {"a.txt": TAGGED + TAGGED.split("\n\n")[0].replace("\tO", "\tX") + "\n"},
        "- 1 sentence with tags in two ways or more\n",
    ),
    "few examples": (
        {"a.tsv": table(TONES[:100])},
        "split by the texts themselves, so that no text is in two parts: 10 for validation, 10 for test, 80 texts are left for training (in recipe-data)\n80 texts are few for training: expect a weak model, and start from a pre-trained model if the task allows it (--init)\n",
    ),
}


@pytest.mark.parametrize("fault", SPOILED)
def test_what_spoils_training_is_told(say: Say, here: Path, fault: str) -> None:
    files, sentence = SPOILED[fault]
    said = say("new", *put(files))
    assert said.code == 0, said.err
    assert sentence in said.err, said.err
    assert "Traceback" not in said.err


def test_what_cannot_be_learned_from_is_left_out_of_what_is_written(say: Say, here: Path) -> None:
    assert say("new", *put({"a.tsv": table([*TONES[:-1], (ENGLISH[-1], "")])})).code == 0
    recipe = load_recipe("recipe.toml")
    assert sum(1 for part in ("train", "validation", "test") for _ in recipe.data.reader(part)) == 999


# What is refused


def shifted() -> list[str]:
    return [*GERMAN[:400], *GERMAN[403:]]


REFUSED: dict[str, tuple[dict[str, str | bytes], str, str]] = {
    "lines that part": (
        {"a.en": text(ENGLISH), "a.de": text(shifted())},
        "a.en a.de",
        "a.en has 1,000 lines and a.de has 997; line-aligned files must have the same number. They seem to stop matching at line ",
    ),
    "an empty line at the end": (
        {"a.en": text(ENGLISH), "a.de": text([*GERMAN, ""])},
        "a.en a.de",
        "a.en has 1,000 lines and a.de has 1,001; line-aligned files must have the same number. a.de has 1 extra empty line at its end: remove it",
    ),
    "no file": ({}, "nowhere.txt", "nowhere.txt: there is no such file; check the path"),
    "a file twice": ({"a.tsv": table(TONES)}, "a.tsv ./a.tsv", "a.tsv: is named twice; name each file once"),
    "standard input": (
        {},
        "-",
        "-: files are read more than once, and standard input cannot be; save it to a file first",
    ),
    "no task": ({"a.tsv": table(TONES)}, "a.tsv --task ner", "--task: 'ner' is not a task; did you mean tagging?"),
    "a task without forms": (
        {"a.tsv": table(TONES)},
        "a.tsv --task multitask",
        'no recipe is made for task = "multitask": copy one that comes with heedful (heedful recipes lists them) and '
        "set the paths of your data in it",
    ),
    "another form": (
        {"a.tsv": table(TONES)},
        "a.tsv --task tagging",
        'cannot tell how to learn from this for task = "tagging":\n           a.tsv: a table of 2 columns\n',
    ),
    "a wrong time": ({"a.tsv": table(TONES)}, "a.tsv --minutes 0", "--minutes: 0; must be a time above 0"),
    "no process": ({"a.tsv": table(TONES)}, "a.tsv --processes 0", "--processes: 0; must be at least 1"),
    "no such model": (
        {"a.tsv": table(TONES)},
        "a.tsv --init x",
        "--init: x is not a folder; give the folder of a trained model",
    ),
    "three languages": (
        {f"train.{code}": text(ENGLISH) for code in ("en", "de", "fr")},
        "train.en train.de train.fr",
        "train.en, train.de, train.fr: 3 files for train, but translations need two; give two text files for each "
        "part, the source first, as in heedful new train.en train.de",
    ),
    "one side of a part": (
        {"train.en": text(ENGLISH), "train.de": text(GERMAN), "dev.en": text(ENGLISH)},
        "train.en train.de dev.en",
        "dev.en: 1 file for validation, but translations need two; give two text files for each part",
    ),
    "too few texts": (
        {"a.tsv": table([("the same text", tone) for _, tone in TONES])},
        "a.tsv --columns 0 1",
        "1,000 texts of 1 different texts cannot be split into 3 parts without the same text in two of them; give more "
        "data, or name the files of each part, such as train.tsv validation.tsv",
    ),
    "labels that are no numbers": (
        {
            "a.tsv": table(
                [*((line, f"{n / 7:.3f}") for n, line in enumerate(ENGLISH)), ("so", "none")], head=("t", "score")
            )
        },
        "a.tsv",
        "a.tsv:1002: the label 'none' is not a number; correct the line or choose other columns with --columns",
    ),
    "a short row": (
        {"a.tsv": table([*TONES, ("no label",)])},
        "a.tsv",
        "a.tsv:1001: 1 column where the other rows have 2; correct the line",
    ),
    "an answer that is not there": (
        {"a.jsonl": jsonl([*ASKED, {**ASKED[0], "answer": "zebra"}])},
        "a.jsonl",
        "a.jsonl:301: the answer 'zebra' does not occur in its context; correct or delete the line",
    ),
    "another encoding": (
        {"a.txt": "schön\n".encode("latin-1")},
        "a.txt",
        "a.txt:1: this line is not UTF-8; probably it is CP1252 (Western Europe): convert it, as with: iconv -f CP1252 -t "
        "UTF-8 a.txt > utf8-a.txt",
    ),
    "sounds": (
        {"sounds/a.wav": b"RIFF\0\0\0\0WAVE"},
        "sounds",
        "sounds: these are sounds; speech training needs a table of their files and the spoken texts: copy a recipe "
        "with heedful recipes speech-transformer and name your files there",
    ),
    "pictures": ({"p/a.jpg": b"\xff\xd8\xff"}, "p", "copy a recipe with heedful recipes flickr8k-soft"),
    "captions": (
        {"c.tsv": table([(f"{n}.jpg", line) for n, line in enumerate(ENGLISH)])},
        "c.tsv",
        "c.tsv: these are pictures, or names of their files; captioning needs pictures and captions: copy a recipe with heedful "
        "recipes flickr8k-soft and name your files there",
    ),
    "clips": (
        {"v/a.mp4": b"\0\0\0\x18ftyp"},
        "v",
        "copy a recipe with heedful recipes video and name your files there",
    ),
    "stories": (
        {"s.txt": "1 Mary moved to the bathroom.\n2 Where is Mary? \tbathroom\t1\n1 John went out.\n" * 9},
        "s.txt",
        "s.txt: these are stories with questions, as bAbI has them; copy a recipe with heedful recipes babi-task and name "
        "your files there",
    ),
    "an archive": (
        {"a.zip": b"PK\x03\x04"},
        "a.zip",
        "a.zip: not text but a zip archive or an office document; unpack it, or save it as CSV",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_told_and_nothing_is_written(say: Say, here: Path, case: str) -> None:
    files, words, sentence = REFUSED[case]
    put(files)
    said = say("new", *words.split())
    assert said.code == 2, said
    assert sentence in said.err, said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    assert not (here / "recipe.toml").exists()
    assert not list(here.glob("recipe-data/*"))


def test_lists_of_json_are_told_of_and_keep_their_parts(say: Say, here: Path) -> None:
    rows = [{"text": line, "label": tone} for line, tone in TONES]
    said = say("new", *put({"train.json": json.dumps(rows[:800], indent=2), "dev.json": json.dumps(rows[800:])}))
    assert said.code == 0
    assert "a list of JSON objects, with text, label" in said.err
    assert "objects are read line by line, so the list is written as lines of JSON" in said.err
    train, dev = (Path(f"recipe-data/{part}.jsonl").read_text().splitlines() for part in ("train", "validation"))
    assert [json.loads(line) for line in (*train, *dev)] == rows


def test_a_place_in_a_list_of_json_is_a_line(say: Say, here: Path) -> None:
    rows = [*ASKED, {**ASKED[0], "answer": "zebra"}]
    said = say("new", *put({"a.json": json.dumps(rows, indent=1)}))
    assert f"a.json:{5 * len(ASKED) + 2}: the answer 'zebra' does not occur in its context" in said.err


@pytest.mark.parametrize("at", [1, 200, 400, 700])
def test_the_place_where_lines_part_is_found(say: Say, here: Path, at: int) -> None:
    draw = random.Random(at)
    order = draw.sample(range(1000), 1000)
    put({"a.en": text([ENGLISH[n] for n in order]), "a.de": text([GERMAN[n] for n in order[:at] + order[at + 1 :]])})
    said = say("new", "a.en", "a.de")
    assert said.code == 2
    assert "a.en has 1,000 lines and a.de has 999" in said.err
    found = int(said.err.split("seem to stop matching at line ")[1].split(",")[0])
    assert abs(found - (at + 1)) <= 5


def test_nothing_is_written_over_without_being_told_to(say: Say, here: Path) -> None:
    put({"a.tsv": table(TONES), "recipe.toml": "mine"})
    assert (
        say("new", "a.tsv").complaint
        == "recipe.toml: already exists; choose another place with --output, or add --overwrite"
    )
    put({"other-data/train.tsv": "mine"})
    assert (
        say("new", "a.tsv", "-o", "other.toml").complaint
        == "other-data/train.tsv: already exists; choose another place with --data-folder, or add --overwrite"
    )
    assert (here / "recipe.toml").read_text() == (here / "other-data/train.tsv").read_text() == "mine"
    assert say("new", "a.tsv", "-o", "other.toml", "--overwrite").code == 0
    assert (here / "other-data/train.tsv").read_text() != "mine"


def test_what_is_read_is_never_written_over(say: Say, here: Path) -> None:
    put({"recipe-data/train.tsv": table(TONES)})
    assert (
        say("new", "recipe-data/train.tsv", "--overwrite").complaint
        == "recipe-data/train.tsv: would be overwritten while it is read; choose another place with --data-folder"
    )


def test_what_a_killed_process_left_beside_the_recipe_is_removed(say: Say, here: Path) -> None:
    put({"t.en": text(ENGLISH), "t.de": text(GERMAN)})
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    (here / f".new.toml.{int(ended.stdout)}").write_text("left")
    (here / f".new.toml.{os.getppid()}").write_text("of a process that runs")
    say("new", "t.en", "t.de")
    assert [path.name for path in here.iterdir() if path.name.startswith(".")] == [f".new.toml.{os.getppid()}"]


def test_a_recipe_that_does_not_load_leaves_nothing(say: Say, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.recipes.recipe_writer.RecipeDraft.to_toml", lambda _: "task = 5\n")
    said = say("new", *put({"a.tsv": table(TONES)}))
    assert said.code == 1  # a bug of ours, with its traceback
    assert not list(here.glob("recipe-data/*"))
    assert not (here / "recipe.toml").exists()


# What tasks declare


@pytest.mark.parametrize("task", list_tasks())
def test_forms_of_every_task_can_be_loaded(task: str) -> None:
    assert all(form.get_hint([]) == "" for form in get_forms(task))


def test_a_task_that_declares_nothing_has_no_forms() -> None:
    assert get_recipe_class("multitask").forms == ""
    assert get_forms("multitask") == ()


def test_a_task_from_elsewhere_breaks_nothing(say: Say, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose package is gone, and one that declares no forms."""
    known = {
        "gone": "no.such.package:Recipe",
        "plain": "heedful.tasks.multitask.recipe:MultitaskRecipe",
        **list_tasks(),
    }
    monkeypatch.setattr("heedful.recipes.recipe.list_tasks", lambda: known)
    monkeypatch.setattr("heedful.recipes.recipe_writer.list_tasks", lambda: known)
    assert say("new", *put({"a.tsv": table(TONES)})).code == 0
    said = say("new", "a.tsv", "-o", "b.toml", "--task", "gone")
    assert said.code == 2
    assert "task = 'gone': its package cannot be used" in said.err


def test_a_task_from_elsewhere_takes_part_by_its_forms(say: Say, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.recipes.recipe.Recipe.forms", "elsewhere:FORMS")
    monkeypatch.setattr("heedful.recipes.recipe_writer.load_object", lambda place, **_: OTHERS.get(place, ()))
    put({"a.xyz": "xyz file\n"})
    said = say("new", "a.xyz")
    assert said.code == 2
    assert "a.xyz: this is told by somebody else" in said.err


OTHERS: dict[str, tuple[DataFormat, ...]] = {
    "elsewhere:FORMS": (HintOnlyFormat(lambda file: file.path.suffix == ".xyz", "this is told by somebody else"),)
}


XLIFF = (
    '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" datatype="plaintext" '
    'source-language="en-GB" target-language="pt-BR"><body>'
    + "".join(
        f'<trans-unit id="{n}"><source>{one} {n}</source><target state="final">{other} {n}</target></trans-unit>'
        for n, (one, other) in enumerate(PAIRS[:60])
    )
    + "</body></file></xliff>"
)
PO = 'msgid ""\nmsgstr ""\n"Language: de_AT\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n' + "\n".join(
    f'msgid "{english}"\nmsgstr "{german}"\n' for english, german in PAIRS[:60]
)
SPOKEN: dict[str, tuple[dict[str, str | bytes], tuple[str, str] | None]] = {
    "endings of names": ({"a.en": text(ENGLISH[:60]), "a.yo": text(GERMAN[:60])}, ("en", "yo")),
    "endings with regions": ({"a.pt_PT": text(ENGLISH[:60]), "a.pt_BR": text(GERMAN[:60])}, ("pt-PT", "pt-BR")),
    "codes of FLORES": ({"a.swh_Latn": text(ENGLISH[:60]), "a.zho_Hant": text(GERMAN[:60])}, ("sw", "zh-Hant")),
    "folders": ({"ha/train.txt": text(ENGLISH[:60]), "ig/train.txt": text(GERMAN[:60])}, ("ha", "ig")),
    "a header of codes": ({"a.csv": table(PAIRS[:60], head=("sw", "en_US"), delimiter=",")}, ("sw", "en-US")),
    "a header of names": ({"a.tsv": table(PAIRS[:60], head=("English", "Haitian Creole"))}, ("en", "ht")),
    "names of fields": ({"a.jsonl": jsonl([{"text_yo": a, "text_en": b} for a, b in PAIRS[:60]])}, ("yo", "en")),
    "a pair in a name": (
        {"a.en-sw.tsv": table([(f"foo bar {n}", f"{n} baz bar foo") for n in range(60)])},
        ("en", "sw"),
    ),
    "texts alone": ({"a.txt": text(ENGLISH[:60]), "b.txt": text(GERMAN[:60])}, ("en", "de")),
    "XLIFF": ({"a.xlf": XLIFF}, ("en-GB", "pt-BR")),
    "PO": ({"a.po": PO}, ("en", "de-AT")),
    "one language": ({"a.txt": text(ENGLISH[:60]), "b.txt": text(ENGLISH[60:120])}, None),
    "nothing to tell by": (
        {"in.txt": text([f"x {n}" for n in range(60)]), "out.txt": text([f"{n} x" for n in range(60)])},
        None,
    ),
}


@pytest.mark.parametrize("what", SPOKEN)
def test_the_recipe_says_the_languages(say: Say, here: Path, what: str) -> None:
    files, expected = SPOKEN[what]
    said = say("new", *put(files), "--task", "translation")
    assert said.code == 0, said.err
    data = load_recipe("recipe.toml").data
    found = (data.train.source_language, data.train.target_language)
    assert found == (expected or (None, None))
    assert (len(data.directed_readers) == 1) == (expected is not None), "what a server detects languages by"
    told = f"languages: {' to '.join(expected)};" if expected else "languages: not in the recipe,"
    assert told in said.err
    assert told in recipe_text(here)


def test_only_recipes_that_have_languages_say_them(say: Say, here: Path) -> None:
    files = put({"a.en": text(ENGLISH[:60]), "a.de": text(GERMAN[:60])})
    said = say("new", *files, "--task", "matching")
    assert said.code == 0, said.err
    assert "source_language" not in recipe_text(here)
    assert "languages:" not in said.err


def test_short_good_pairs_of_czech_are_not_advised_to_be_taken_out(say: Say, here: Path) -> None:
    chlapci = ["pes", "kluk", "muž", "lékař", "král", "pták", "kůň"]
    boys = ["dog", "boy", "man", "doctor", "king", "bird", "horse"]
    english = [f"A {one} sees a {other} near a tree." for one in boys for other in boys if one != other]
    czech = [
        f"Tam je {one} a ten {other}, který se dívá na strom." for one in chlapci for other in chlapci if one != other
    ]
    said = say("new", *put({"a.en": text(english), "a.cs": text(czech)}))
    assert said.code == 0, said.err
    assert "same language" not in said.err
    both = ["He was not with us and they said that it is so."] * 5
    put({"a.en": text(english + both), "a.cs": text(czech + [f"Well, {line}" for line in both])})
    said = say("new", "a.en", "a.cs", "--overwrite")
    assert "- 5 pairs (10.6 %) probably have the same language on both sides\n" in said.err
    assert "  check them, and take out those that are not translated, unless" in said.err


CLASSES = [("pos", "neg")[n % 2] for n in range(200)]
SENTENCES = ENGLISH[:200]


def labelled(rows: Sequence[tuple[str, str]], **how: Any) -> str:
    return table(rows, head=("text", "label"), delimiter=",", **how)


TOLD_FIRST: dict[str, dict[str, str | bytes]] = {
    "of fastText": {"a.txt": text([f"__label__{name} {line}" for line, name in zip(SENTENCES, CLASSES, strict=True)])},
    "of fastText, behind a tab": {
        "a.txt": text([f"__label__{name}\t{line}" for line, name in zip(SENTENCES, CLASSES, strict=True)])
    },
    "of fastText, at the end": {
        "a.txt.gz": text([f"{line} __label__{name}" for line, name in zip(SENTENCES, CLASSES, strict=True)])
    },
    "of fastText, in a file called CSV": {
        "a.csv": text([f"__label__{name} {line}, so" for line, name in zip(SENTENCES, CLASSES, strict=True)])
    },
    "words": {"a.txt": text([f"{name}  {line}" for line, name in zip(SENTENCES, CLASSES, strict=True)])},
    "numbers": {"a.txt": text([f"{int(name == 'pos')} {line}" for line, name in zip(SENTENCES, CLASSES, strict=True)])},
    "signed numbers": {
        "a.data": text(
            [f"{'+1' if name == 'pos' else '-1'} {line}" for line, name in zip(SENTENCES, CLASSES, strict=True)]
        )
    },
}


@pytest.mark.parametrize("what", TOLD_FIRST)
def test_labels_before_texts_become_a_table(say: Say, here: Path, what: str) -> None:
    said = say("new", *put(TOLD_FIRST[what]))
    assert said.code == 0, said.err
    assert said.err.startswith(
        "task: classification\nform: a label at the beginning of each line, followed by a text\n"
    )
    recipe = load_recipe("recipe.toml")
    found = {each.texts[0]: each.label for part in ("train", "validation", "test") for each in recipe.data.reader(part)}
    names = {"numbers": ("1", "0"), "signed numbers": ("+1", "-1")}.get(what, ("pos", "neg"))
    so = ", so" if "CSV" in what else ""
    assert found == {f"{line}{so}": names[n % 2] for n, line in enumerate(SENTENCES)}


@pytest.mark.parametrize(
    "lines",
    [
        [f"{n} {line}" for n, line in enumerate(ENGLISH)],
        [f"{n % 2} {n}" for n in range(200)],
        [f"{('he', 'she')[n % 2]} slept in {line}" for n, line in enumerate(ENGLISH)],
        ["1 one.", "2 two.", "1 one again."],
    ],
)
def test_other_texts_are_not_taken_for_labelled_ones(say: Say, here: Path, lines: Sequence[str]) -> None:
    said = say("new", *put({"a.txt": text(lines)}), "--task", "classification")
    assert said.code == 2
    assert "cannot tell how to learn from this" in said.err


def test_several_labels_of_fasttext_are_refused(say: Say, here: Path) -> None:
    lines = ["__label__a so", "__label__a __label__b and so"]
    said = say("new", *put({"a.txt": text(lines)}))
    assert (said.code, "a.txt:2: has several labels" in said.err) == (2, True)


def test_classes_that_differ_in_writing_are_told(say: Say, here: Path) -> None:
    names = ["positive", "Positive", "positive ", "negative", "NaN", "caf\u00e9", "cafe\u0301", "1", "1.0", "2"]
    rows = [(line, names[n % len(names)]) for n, line in enumerate(SENTENCES)]
    said = say("new", *put({"a.csv": labelled(rows)}), "--columns", "text", "label")
    assert said.code == 0, said.err
    assert "- 6 classes of 9 differ only in their spelling" in said.err
    assert "    'positive' 40 and 'Positive' 20\n" in said.err
    assert "    'caf\u00e9' 20 (with U+00E9) and 'cafe\u0301' 20 (with U+0301)\n" in said.err
    assert "    '1' 20 and '1.0' 20\n" in said.err
    assert "- 20 texts (10.0 %) with a label that may mean unknown: 'NaN'\n" in said.err


def test_classes_that_are_different_are_not_told(say: Say, here: Path) -> None:
    rows = [(line, ("none", "some", "1", "10", "u", "\u00fc")[n % 6]) for n, line in enumerate(SENTENCES)]
    said = say("new", *put({"a.csv": labelled(rows)}))
    assert said.code == 0, said.err
    assert "differ only" not in said.err
    assert "may mean unknown" not in said.err


@pytest.mark.parametrize(("label", "what"), [("pos", "class 'pos'"), ("1", "class '1'")])
@pytest.mark.parametrize("head", [("text", "label"), ()])
def test_one_class_everywhere_is_told(say: Say, here: Path, label: str, what: str, head: Sequence[str]) -> None:
    said = say("new", *put({"a.tsv": table([(line, label) for line in SENTENCES], head=head)}))
    assert said.code == 0, said.err
    assert "task: classification\n" in said.err
    assert f"- all texts have the {what}\n" in said.err
    assert f"1 class: {label!r} 200\n" in said.err


def test_one_number_everywhere_is_told(say: Say, here: Path) -> None:
    rows = [(line, ("0.5", "50%", "0,5")[n % 3]) for n, line in enumerate(SENTENCES)]
    said = say("new", *put({"a.csv": labelled(rows)}))
    assert said.code == 0, said.err
    assert "- all texts have the number 0.5\n" in said.err


@pytest.mark.parametrize(
    ("written", "value"),
    [("{}%", 0.01), ("{} %", 0.01), ("{}", 1.0), ("\u2212{}", -1.0), ("{},25", None), (" {}.5 ", None)],
)
def test_numbers_are_read_as_people_write_them(say: Say, here: Path, written: str, value: float | None) -> None:
    rows = [(line, written.format(n * 7 % 100)) for n, line in enumerate(SENTENCES)]
    said = say("new", *put({"a.csv": table(rows, head=("text", "score"), delimiter=";")}))
    assert said.code == 0, said.err
    recipe = load_recipe("recipe.toml")
    assert recipe.data.numbers
    found = {each.texts[0]: each.label for part in ("train", "validation", "test") for each in recipe.data.reader(part)}
    more = {"{},25": 0.25, " {}.5 ": 0.5}.get(written, 0)
    assert found == pytest.approx({line: (value or 1) * (n * 7 % 100) + more for n, line in enumerate(SENTENCES)})
    assert ("percentages are read as shares of 1: '0%' is 0\n" in said.err) == (written == "{}%")


def test_missing_numbers_are_left_out(say: Say, here: Path) -> None:
    rows = [(line, "NaN" if n % 9 == 0 else f"{n / 7}") for n, line in enumerate(SENTENCES)]
    said = say("new", *put({"a.csv": labelled(rows)}))
    assert said.code == 0, said.err
    assert "- 23 texts (11.5 %) with an empty text or label\n" in said.err
    recipe = load_recipe("recipe.toml")
    assert sum(1 for part in ("train", "validation", "test") for _ in recipe.data.reader(part)) == 177


def test_a_column_called_label_may_be_empty_in_places(say: Say, here: Path) -> None:
    rows = [(line, "" if n % 3 == 0 else CLASSES[n]) for n, line in enumerate(SENTENCES)]
    said = say("new", *put({"a.csv": labelled(rows)}))
    assert said.code == 0, said.err
    assert "task: classification\n" in said.err
    assert "- 67 texts (33.5 %) with an empty text or label\n" in said.err


@pytest.mark.parametrize("line", ["sep=;", "SEP=;\r", '"sep=;"', "sep=|", "sep=,", "sep=\t", "sep=\\t", "sep=;;;"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_first_line_that_names_the_separator_is_no_header(say: Say, here: Path, line: str, mark: str) -> None:
    between = {"\t": "\t", "\\t": "\t", "|": "|", ",": ","}.get(line.removeprefix("sep="), ";")
    rows = table(list(zip(SENTENCES, CLASSES, strict=True)), head=("text", "label"), delimiter=between)
    put({"a.csv": f"{mark}{line}\n{rows}"})
    said = say("new", "a.csv")
    assert said.code == 0, said.err
    assert "with a header (text, label)\n" in said.err
    assert "texts: 200 for training\n" in said.err
    recipe = load_recipe("recipe.toml")
    found = {each.texts[0]: each.label for part in ("train", "validation", "test") for each in recipe.data.reader(part)}
    assert found == dict(zip(SENTENCES, CLASSES, strict=True))


def test_a_file_with_nothing_but_its_separator_is_refused(say: Say, here: Path) -> None:
    said = say("new", *put({"a.csv": "sep=;\n"}))
    assert (said.code, "a.csv: has no row below the line that names the separator" in said.err) == (2, True)


def test_fields_of_csv_are_of_any_length(say: Say, here: Path) -> None:
    long = "a good film " * 20_000
    rows = [*zip(SENTENCES, CLASSES, strict=True), (long, "pos")]
    said = say("new", *put({"a.csv": labelled(rows)}))
    assert said.code == 0, said.err
    recipe = load_recipe("recipe.toml")
    found = [each.texts[0] for part in ("train", "validation", "test") for each in recipe.data.reader(part)]
    assert long in found


def test_a_task_whose_models_begin_with_no_other_one_is_named() -> None:
    given, chosen = SimpleNamespace(init=Path("runs/a")), SimpleNamespace(task="captioning")
    with pytest.raises(
        RecipeError, match='models of task = "captioning" cannot start from another model; leave it out'
    ):
        _check_init(given, chosen)  # type: ignore[arg-type]  # what it reads of both


@pytest.mark.parametrize(("minutes", "warned"), [("1", True), ("15", False)])
def test_too_little_time_for_translation_is_said(
    say: Say, here: Path, minutes: str, warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    for name, word in (("a.en", "word"), ("a.de", "Wort")):
        (here / name).write_text("".join(f"{word} {number} {word}\n" for number in range(1500)), encoding="utf-8")
    said = say("new", "a.en", "a.de", "--minutes", minutes)
    assert said.code == 0, said.err
    assert (
        f"--minutes {minutes} is short: on 1 idle CPU core a useful model takes about 14 minutes" in said.err
    ) is warned


@pytest.mark.parametrize("content", ["#", "{}\n", "{}\n{}\n", "[{}]", "[]"])
def test_json_without_fields_is_no_data(say: Say, here: Path, content: str) -> None:
    said = say("new", *put({"a.jsonl": content}))
    assert said.code == 2
    assert "cannot tell how to learn from this" in said.err
    assert "a.jsonl: one JSON value" in said.err if content == "[]" else "without fields\n" in said.err


def test_parts_without_the_fields_of_training_are_left_out(say: Say, here: Path) -> None:
    said = say("new", *put({"train.jsonl": "{}\n", "test.jsonl": '{"a": 1}\n'}))
    assert said.code == 2
    assert "train.jsonl: lines of JSON without fields, for train by its name" in said.err


def test_names_of_many_fields_are_not_all_shown(say: Say, here: Path) -> None:
    said = say("new", *put({"a.jsonl": "".join(f'{{"{"n" * 100}{number}": 1}}\n' for number in range(50))}))
    assert said.code == 2
    assert f"{'n' * 60}, " in said.err
    assert " and 30 others\n" in said.err
