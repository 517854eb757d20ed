"""`heedful translate RUN FILE`: documents in, documents out."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from localisation_documents import OFFICE, SAMPLES, build_zip
from untrained_runs import create_untrained_run

from heedful.localisation.files import read_document

Say = Callable[..., Any]
LANGUAGES = ("--source-language", "en", "--target-language", "de")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights that know letters, the same ones whatever ran before."""
    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("files")
    letters = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    (folder / "text.tsv").write_text(f"{letters}\t{letters.lower()}\n" * 20, encoding="utf-8")
    text = {"path": str(folder / "text.tsv")}
    return create_untrained_run(
        {
            "output": str(folder / "run"),
            "data": {"train": text, "validation": text},
            "tokenizer": {"kind": "characters"},
            "model": {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 1},
            "training": {"steps": 1},
        }
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_a_document_is_filled(say: Say, run: Path, tmp_path: Path, name: str) -> None:
    path, out = tmp_path / name, tmp_path / f"out{Path(name).suffix}"
    path.write_text(SAMPLES[name], encoding="utf-8")
    languages = LANGUAGES if name.endswith(".tmx") else ()
    said = say("translate", run, path, "-o", out, *languages)
    assert (said.code, said.out) == (0, ""), said
    assert "lost: 0" in said.err
    assert path.read_text(encoding="utf-8") == SAMPLES[name]
    before = read_document(path, source="en", target="de")
    after = read_document(out, source="en", target="de")
    assert len(before.units) == len(after.units)
    assert before.content.text != after.content.text
    if before.keeps_source:
        for one, two in zip(before.units, after.units, strict=True):
            assert one.source == two.source
            assert one.translatable or one.target == two.target
            assert one.target is None or one.target == two.target, "what was there is left alone"
        assert any(
            two.state == "review" and one.target is None for one, two in zip(before.units, after.units, strict=True)
        )
    again = say("translate", run, "--input", path, "--output", out, *languages)
    assert (again.code, again.err) == (0, said.err)


@pytest.mark.parametrize("name", OFFICE)
def test_an_office_document_is_filled(
    say: Say, run: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = tmp_path / name, tmp_path / f"out{Path(name).suffix}"
    path.write_bytes(build_zip(OFFICE[name]))
    said = say("translate", run, path, "-o", out)
    assert (said.code, said.out) == (0, ""), said
    assert "lost: 0" in said.err
    before, after = read_document(path), read_document(out)
    assert len(before.units) == len(after.units)
    assert any(one.source != two.source for one, two in zip(before.units, after.units, strict=True))
    with monkeypatch.context() as patch:
        patch.setattr(sys.stdout, "isatty", lambda: True)
        assert "its format cannot be shown in a terminal" in say("translate", run, path).complaint


def test_what_is_left_and_what_no_rule_knows_is_said(say: Say, run: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "a.po", tmp_path / "b.po"
    path.write_text('msgid "{n, plural, one {a} other {b}}"\nmsgstr ""\n\nmsgid "see [your-name]"\nmsgstr ""\n')
    told = say("translate", run, path, "-o", out).err
    assert "1 of 2 units translated" in told
    assert "lost: 0, unchecked: 1" in told
    assert "'[your-name]'" in told
    assert "1 of 2 units: not translated, since a message of several forms" in told
    assert f"{path}:1" in told
    assert 'msgid "{n, plural, one {a} other {b}}"\nmsgstr ""\n' in out.read_text()


def test_translations_can_be_made_anew(say: Say, run: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "a.po", tmp_path / "b.po"
    path.write_text(SAMPLES["a.po"], encoding="utf-8")

    def changed(*words: str) -> set[str]:
        assert say("translate", run, path, "-o", out, *words).code == 0
        pairs = zip(read_document(path).units, read_document(out).units, strict=True)
        return {one.state for one, two in pairs if one.target is not None and one.target != two.target}

    assert changed() == set()
    assert changed("--retranslate", "review") <= {"review"}
    assert changed("--retranslate", "all") & {"review", "translated"}


def test_a_document_to_standard_output(say: Say, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = tmp_path / "a.po", tmp_path / "b.po"
    path.write_text(SAMPLES["a.po"], encoding="utf-8")
    say("translate", run, path, "-o", out)
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        from heedful.cli.commands import run_command

        assert run_command("translate", [str(run), str(path)]) == 0
    assert stream.buffer.getvalue() == out.read_bytes()  # type: ignore[attr-defined]


def test_lines_are_protected(say: Say, run: Path) -> None:
    said = say("translate", run, "--protect", "--format", "jsonl", "--text", "open %s now", "", "%d")
    records = [json.loads(line) for line in said.lines]
    assert [record["source"] for record in records] == ["open %s now", "", "%d"]
    assert "%s" in records[0]["translation"]
    assert records[2]["translation"] == "%d"
    assert {record["protected"] for record in records} <= {"bare", "copied", "placed", "pieces", "lost", "forms"}
    assert say("translate", run, "--protect", "--text", "%d").lines == ["%d"]


def test_a_glossary_counts_in_files_and_beside_placeholders(say: Say, run: Path, tmp_path: Path) -> None:
    po, out, terms = tmp_path / "a.po", tmp_path / "b.po", tmp_path / "terms.tsv"
    po.write_text('msgid "open <b>the door</b> now"\nmsgstr ""\n\nmsgid "no"\nmsgstr ""\n', encoding="utf-8")
    terms.write_text("door\tzyx\n", encoding="utf-8")
    limits = ("--max-ratio", "3", "--max-extra", "30")
    assert say("translate", run, po, "-o", out, "--glossary", terms, *limits).code == 0
    filled = out.read_text(encoding="utf-8")
    assert "zyx" in filled.replace("<b>", "").replace("</b>", "")
    assert filled.count("<b>") == filled.count("</b>") == 2
    said = say("translate", run, "--protect", "--glossary", terms, *limits, "--text", "the door %s")
    assert "zyx" in said.lines[0]
    assert "%s" in said.lines[0]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("{run}", "{po}", "--n-best", "2"), "--n-best: cannot be combined with"),
        (("{run}", "{po}", "--prefix", "a"), "--prefix: cannot be combined with"),
        (("{run}", "{po}", "--replace-unknown"), "--replace-unknown: cannot be combined with"),
        (("{run}", "{po}", "--format", "jsonl"), "is written in its own format"),
        (("{run}", "{po}", "{po}"), "one file is filled at a time"),
        (("{run}", "{po}", "--text", "a"), "other text is given too"),
        (("{run}", "{po}", "-o", "{po}"), "is read as well"),
        (("{run}", "{po}", *LANGUAGES), "names its languages itself"),
        (("{run}", "a", *LANGUAGES), "is for a TMX file"),
        (("{run}", "a", "--retranslate", "all"), "is for a file"),
        (("{po}",), "needs a run before"),
        (("{run}", "{tmx}"), "--source-language en"),
        (("{run}", "{tmx}", "--source-language", "xx", "--target-language", "de"), "available: "),
        (("{run}", "{folder}/none.po"), "no such file"),
        (("{run}", "{broken}"), "not well-formed"),
        (("{run}", "{po}", "--constrain", "a"), "--constrain: cannot be combined with"),
        (("{run}", "{po}", "--input-format", "jsonl"), "--input-format: cannot be combined with"),
        (("{run}", "--protect", "--align", "--format", "jsonl", "--text", "a"), "--align: cannot be combined"),
    ],
)
def test_mistakes(say: Say, run: Path, tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    po, tmx, broken = tmp_path / "a.po", tmp_path / "a.tmx", tmp_path / "a.xlf"
    po.write_text(SAMPLES["a.po"], encoding="utf-8")
    tmx.write_text(SAMPLES["a.tmx"], encoding="utf-8")
    broken.write_text("<xliff", encoding="utf-8")
    names = {"run": run, "po": po, "tmx": tmx, "broken": broken, "folder": tmp_path}
    said = say("translate", *(word.format(**names) for word in words))
    assert sentence in said.complaint
    assert po.read_text(encoding="utf-8") == SAMPLES["a.po"]
