"""`heedful split` and `heedful new` hold out whole documents where they are told of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from heedful import load_recipe

Say = Callable[..., Any]
Pairs = list[tuple[str, str]]

DICE = random.Random(3)
DOCUMENTS: list[Pairs] = [
    [
        (f"the dog number {number} is here and it is good {line}", f"der Hund {number} ist hier und er ist gut {line}")
        for line in range(DICE.randint(1, 5))
    ]
    + [("yes .", "ja .")]
    for number in range(120)
]
WHOLE = sum(map(len, DOCUMENTS))


def put_lines(documents: Sequence[Pairs] = DOCUMENTS) -> list[str]:
    for side, name in enumerate(("a.en", "a.de")):
        Path(name).write_text("\n\n".join("\n".join(pair[side] for pair in own) for own in documents) + "\n")
    return ["a.en", "a.de"]


def rows(documents: Iterable[Pairs] = DOCUMENTS) -> list[tuple[str, str, str]]:
    return [(f"d{number}", *pair) for number, own in enumerate(documents) for pair in own]


def blocks(folder: str, part: str) -> list[Pairs]:
    sides = [Path(folder, f"{part}.{language}").read_text().split("\n")[:-1] for language in ("en", "de")]
    found: list[Pairs] = [[]]
    for pair in zip(*sides, strict=True):
        if any(pair):
            found[-1].append((pair[0], pair[1]))
        else:
            found.append([])
    return [own for own in found if own]


def test_two_files_keep_their_documents(say: Say, here: Path) -> None:
    put_lines()
    said = say("split", "a.en", "a.de", "-o", "parts", "--validation", 40, "--test", 30, "--documents")
    assert said.code == 0, said.err
    found = {part: blocks("parts", part) for part in ("train", "validation", "test")}
    assert sorted(own for part in found.values() for own in part) == sorted(DOCUMENTS), "none is broken, none is lost"
    sizes = {part: sum(map(len, own)) for part, own in found.items()}
    assert 30 <= sizes["validation"] <= 40 and 20 <= sizes["test"] <= 30, "empty lines are no pairs"
    assert [line.split(" in ")[0] for line in said.lines[:3]] == [f"{p}: {n:,} pairs" for p, n in sizes.items()]
    for part in found.values():
        assert part == [own for own in DOCUMENTS if own in part], "in their order"
    paths = " ".join(f"parts/{part}.{side}" for part in found for side in ("en", "de"))
    assert said.lines[-1] == f"next: heedful new {paths} --documents"
    broken = say("split", "a.en", "a.de", "-o", "others", "--validation", 40, "--test", 30)
    assert broken.code == 0
    assert any(own not in DOCUMENTS for own in blocks("others", "train")), "which is why one says so"


def test_neither_order_nor_other_documents_matter(say: Say, here: Path) -> None:
    held = []
    for number, documents in enumerate((DOCUMENTS, random.Random(1).sample(DOCUMENTS, len(DOCUMENTS)))):
        put_lines(documents)
        words = ("--validation", 40, "--test", 0, "--documents")
        assert say("split", "a.en", "a.de", "-o", f"parts{number}", *words).code == 0
        held.append(sorted(blocks(f"parts{number}", "validation")))
    assert held[0] == held[1]


def test_a_recipe_of_two_files(say: Say, here: Path) -> None:
    put_lines()
    said = say("new", "a.en", "a.de", "--documents")
    assert said.code == 0, said.err
    assert f"pairs: {WHOLE} for training\n" in said.err
    assert "with an empty text or label" not in said.err
    assert "split by the documents, so that no text is in two parts: " in said.err
    assert sorted(own for part in ("train", "validation", "test") for own in blocks("recipe-data", part)) == sorted(
        DOCUMENTS
    )


def table(form: str) -> str:
    if form == "tsv":
        Path("a.tsv").write_text("".join("\t".join(row) + "\n" for row in rows()))
    elif form == "headed.tsv":
        Path("a.headed.tsv").write_text("".join("\t".join(row) + "\n" for row in [("doc", "en", "de"), *rows()]))
    elif form == "csv":
        Path("a.csv").write_text("".join(",".join(row) + "\n" for row in [("doc", "en", "de"), *rows()]))
    elif form == "jsonl":
        lines = (json.dumps(dict(zip(("doc", "en", "de"), row, strict=True))) for row in rows())
        Path("a.jsonl").write_text("".join(f"{line}\n" for line in lines))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet")
        columns = dict(zip(("doc", "en", "de"), map(list, zip(*rows(), strict=True)), strict=True))
        pyarrow.parquet.write_table(pyarrow.table(columns), "a.parquet")
    return f"a.{form}"


@pytest.mark.parametrize(
    ("form", "column", "key"),
    [
        ("tsv", "0", {"document_column": 0}),
        ("headed.tsv", "doc", {"document_column": 0}),
        ("csv", "doc", {"document_field": "document"}),
        ("jsonl", "doc", {"document_field": "doc"}),
        ("parquet", "doc", {"document_field": "doc"}),
    ],
)
def test_tables_name_their_documents(say: Say, here: Path, form: str, column: str, key: dict[str, Any]) -> None:
    columns = ("1", "2") if form == "tsv" else ("en", "de")
    words = (table(form), "--columns", *columns, "--document-column", column)
    said = say("new", *words)
    assert said.code == 0, said.err
    data = load_recipe("recipe.toml").data
    assert {name: getattr(data.train, name) for name in key} == key
    names: dict[str, set[str]] = {}
    whole: list[tuple[str, str]] = []
    for part in ("train", "validation", "test"):
        pairs = list(data.reader(part))
        names[part] = {pair.document for pair in pairs}
        whole += [(pair.source, pair.target) for pair in pairs]
    assert sorted(whole) == sorted((source, target) for _, source, target in rows())
    assert all(names.values())
    assert sum(map(len, names.values())) == len(set().union(*names.values())) == len(DOCUMENTS)
    assert say("split", *words, "-o", "parts", "--validation", 40, "--test", 0).code == 0
    told = {"tsv": "0", "headed.tsv": "0", "csv": "document"}.get(form, "doc")
    assert (
        say("split", *words, "-o", "more", "--validation", 40, "--test", 0)
        .lines[-1]
        .endswith(f"--document-column {told}")
    )


def test_mistakes(say: Say, here: Path) -> None:
    lines = put_lines()
    tsv, headed = table("tsv"), table("headed.tsv")
    Path("app.po").write_text('msgid "a"\nmsgstr "b"\n' * 30)
    told = {
        (*lines, "--document-column", "0"): "--document-column: is for tables; in two files empty lines end documents: "
        "--documents",
        (
            tsv,
            "--columns",
            "1",
            "2",
            "--documents",
        ): "--documents: is for two files; for a table, give the column: --document-column NAME",
        (headed, "--columns", "en", "de", "--document-column", "dok"): "--document-column: a.headed.tsv has no column "
        "'dok'; did you mean 'doc'?",
        (
            headed,
            "--columns",
            "en",
            "de",
            "--document-column",
            "en",
        ): "--document-column: en contains the text to translate; give another column",
        (
            *lines,
            "--documents",
            "--document-column",
            "0",
        ): "--documents, --document-column: empty lines end documents, or a column names them; give one of them",
        (
            *lines,
            "--task",
            "matching",
            "--documents",
        ): '--documents: task = "matching" has no documents; leave it out',
        (
            "app.po",
            "--documents",
        ): "--documents: translations in a file of PO, which do not mark documents; leave it out",
    }
    for command in (("new",), ("split", "-o", "parts")):
        for words, complaint in told.items():
            assert say(*command, *words).complaint == complaint, words
    put_lines([[pair for own in DOCUMENTS for pair in own]])
    assert "cannot be split into 3 parts" in say("new", *lines, "--documents").complaint
