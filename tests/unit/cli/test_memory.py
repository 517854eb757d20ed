"""`heedful translate --memory`: what is approved is taken, what is similar is shown, what does not fit is refused."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from localisation_documents import SAMPLES
from untrained_runs import create_untrained_run

import heedful
from heedful.cli.options import DirectionOptions
from heedful.errors import DataError
from heedful.localisation.documents import DocumentLanguages
from heedful.localisation.files import read_document
from heedful.tasks.translation.memory_lookup import load_translation_memory

pytest.importorskip("rapidfuzz", reason="the extra [localisation] is not installed")

Say = Callable[..., Any]
HEAD = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n'
PO = (
    f'{HEAD}\nmsgid "&Open the %s now"\nmsgstr "&Jetzt %s öffnen"\n\n#, fuzzy\nmsgid "unsure"\nmsgstr "unsicher"\n\n'
    'msgid "Delete all old files"\nmsgstr "Alle alten Dateien löschen"\n'
)
TMX = (
    '<tmx version="1.4"><body><tu><tuv xml:lang="en-US"><seg>Yes, please</seg></tuv>'
    '<tuv xml:lang="de"><seg>Ja, bitte</seg></tuv>%s</tu></body></tmx>'
)
FRENCH = '<tuv xml:lang="fr"><seg>Oui</seg></tuv>'
XLIFF = (
    '<xliff version="1.2"><file source-language="%s" target-language="%s"><body><trans-unit id="1">'
    "<source>Good day</source><target>Guten Tag</target></trans-unit></body></file></xliff>"
)
LETTERS = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights that know letters."""
    return model(tmp_path_factory.mktemp("memory"))


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for three languages."""
    return model(tmp_path_factory.mktemp("several"), "de", "fr", "pt-BR")


def model(folder: Path, *languages: str) -> Path:
    (folder / "text.tsv").write_text(f"{LETTERS}\t{LETTERS.lower()}\n" * 20, encoding="utf-8")
    text = {"path": str(folder / "text.tsv")}
    directed = {language: {**text, "target_language": language} for language in languages}
    return create_untrained_run(
        {
            "output": str(folder / "run"),
            "data": {
                "train": {"texts": directed} if languages else text,
                "validation": {**text, "target_language": languages[0]} if languages else text,
            },
            "tokenizer": {"kind": "characters"},
            "model": {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 1},
            "training": {"steps": 1},
        }
    )


@pytest.fixture
def models(run: Path, several: Path) -> tuple[Path, Path]:
    return run, several


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def put(name: str, content: str) -> Path:
        path = tmp_path / name
        path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
        return path

    return put


def found(*paths: Path, source: str | None = None, target: str | None = None, text: str) -> str | None:
    memory = load_translation_memory(paths, languages=DocumentLanguages(source, target), min_similarity=0.75)
    match = memory.find_match((text,))
    return None if match is None or match.exact_target is None else "".join(map(str, match.exact_target))


def test_every_form_of_text_is_read(write: Callable[[str, str], Path]) -> None:
    assert found(write("a.po", PO), text="Delete all old files") == "Alle alten Dateien löschen"
    assert found(write("a.po", PO), text="unsure") is None, "it waits for review"
    assert found(write("a.xlf", XLIFF % ("en", "de")), text="Good day") == "Guten Tag"
    assert found(write("a.tmx", TMX % ""), target="de-AT", text="Yes, please") == "Ja, bitte"
    assert found(write("a.tmx.gz", TMX % ""), source="de", text="Ja, bitte") == "Yes, please"
    assert found(write("a.tmx", TMX % ""), target="en", text="Ja, bitte") == "Yes, please"
    assert found(write("a.tmx", TMX % FRENCH), source="fr", target="de", text="Oui") == "Ja, bitte"
    for name, content in {
        "a.tsv": "Yes\tJa\nNo\tNein\n",
        "b.tsv.gz": "context\tsource\ttarget\nmenu\tYes\tJa\nmenu\tNo\tNein\n",
        "a.csv": "source,target\nNo,Nein\nYes,Ja\n",
        "a.jsonl": '{"id": 1, "source": "Yes", "target": "Ja", "note": "x"}\n',
    }.items():
        assert found(write(name, content), text="Yes") == "Ja", name
    one, other = write("m.en", "Yes\n\nNo\n"), write("m.de", "Ja\n\nNein\n")
    assert found(one, other, text="No") == "Nein"
    assert found(write("a.po", PO), one, other, write("a.tsv", "Yes\tDoch\n"), text="Yes") == "Ja", (
        "the first goes first"
    )


@pytest.mark.parametrize(
    ("own", "wanted", "taken"),
    [
        ("pt_BR", "pt-BR", True),
        ("pt", "pt-PT", True),
        ("pt_BR", "pt-PT", False),
        ("zh_CN", "zh-Hans", True),
        ("zh", "zh_TW", False),
        ("zh_TW", "zh-HK", False),
        ("sr", "sr@latin", False),
        ("de_AT", "de", True),
    ],
)
def test_translations_of_another_region_are_shown_and_never_taken(
    write: Callable[[str, str], Path], own: str, wanted: str, taken: bool
) -> None:
    path = write("m.po", PO.replace("Language: de", f"Language: {own}"))
    memory = load_translation_memory([path], languages=DocumentLanguages("en", wanted), min_similarity=0.75)
    match = memory.find_match(("Delete all old files",))
    assert match is not None
    assert (match.exact_target is not None, match.percent) == (taken, 100)


def test_translations_in_another_script_are_refused(write: Callable[[str, str], Path]) -> None:
    path = write("m.po", PO.replace("Language: de", "Language: zh_CN"))
    with pytest.raises(DataError, match="its translations are in 'zh_CN', but 'zh_TW' is needed"):
        load_translation_memory([path], languages=DocumentLanguages("en", "zh_TW"), min_similarity=0.75)


@pytest.mark.parametrize(
    ("name", "content", "languages", "sentence"),
    [
        ("a.tmx", TMX % "", ("en", "fr"), "no finished translation from 'en' to 'fr' (available: en-US, de)"),
        ("a.tmx", TMX % "", ("it", "de"), "has no unit in 'it'"),
        (
            "a.tmx",
            TMX % "",
            (None, None),
            "does not say which language is translated into which (available: en-US, de)",
        ),
        ("a.tmx", TMX % FRENCH, (None, "de"), "--source-language en"),
        ("a.xlf", XLIFF % ("fr", "en"), ("en", "de"), "its sources are in 'fr', but 'en' is needed"),
        ("a.xlf", XLIFF % ("en", "fr"), (None, "de"), "its translations are in 'fr', but 'de' is needed"),
        ("a.po", PO, (None, "fr"), "its translations are in 'de', but 'fr' is needed"),
        ("a.po", HEAD, (None, None), "has no finished translation"),
        ("a.po", 'msgid "a"\nmsgstr ""\n', (None, None), "has no finished translation"),
        ("a.tsv", "Yes\t\nNo\t\n", (None, None), "a.tsv"),
        ("a.txt", "Yes\nNo\n", (None, None), "give that file after it"),
        ("a.txt", "", (None, None), "the file is empty"),
        ("m.en-de.tsv", "Yes\tJa\n", ("de", "en"), "but German (de) is needed"),
        ("a.bin", "PK\x03\x04", (None, None), "archive"),
    ],
)
def test_what_is_no_memory_for_this(
    write: Callable[[str, str], Path], name: str, content: str, languages: tuple[str | None, str | None], sentence: str
) -> None:
    with pytest.raises(DataError) as caught:
        found(write(name, content), source=languages[0], target=languages[1], text="Yes")
    assert sentence in str(caught.value)
    assert name in str(caught.value)


def test_a_document_takes_and_shows(say: Say, run: Path, tmp_path: Path, write: Callable[[str, str], Path]) -> None:
    memory, out = write("m.po", PO), tmp_path / "out.po"
    texts = ["_Open  the %s now", "Delete all new files", "something else"]
    job = write("job.po", HEAD + "".join(f'\nmsgid "{text}"\nmsgstr ""\n' for text in texts))
    said = say("translate", run, job, "-o", out, "--memory", memory)
    assert (said.code, said.out) == (0, ""), said
    assert "memory: 1 units taken from it, 1 similar to a text of it, 1 to none" in said.err
    units = read_document(out).units
    assert units[0].target == ("_Jetzt %s öffnen",)
    assert [unit.state for unit in units] == ["translated", "review", "review"]
    assert units[1].notes == ('80%: "Delete all old files" = "Alle alten Dateien löschen"'.replace("80", "75"),)
    assert units[2].notes == ()
    without = say("translate", run, job, "-o", out, "--memory", memory, "--match", "0.76")
    assert "1 units taken from it, 0 similar to a text of it, 2 to none" in without.err
    assert "memory" not in say("translate", run, job, "-o", out).err


@pytest.mark.parametrize("name", SAMPLES)
def test_every_document_goes_with_a_memory_of_itself(
    say: Say, run: Path, tmp_path: Path, write: Callable[[str, str], Path], name: str
) -> None:
    path, out = write(name, SAMPLES[name]), tmp_path / f"out{Path(name).suffix}"
    memory = write("m.tsv", "go\tgeh\nHello\tHallo\ndog\tHund\none\teins\nAbout us\tÜber uns\n- Yes. - No.\tJa\n")
    languages = ("--source-language", "en", "--target-language", "de") if name.endswith(".tmx") else ()
    said = say("translate", run, path, "-o", out, *languages, "--memory", memory)
    assert (said.code, said.out) == (0, ""), said
    assert "memory: " in said.err
    assert "lost: 0" in said.err
    read_document(out, source="en", target="de")


def test_lines_take_and_show(say: Say, run: Path, write: Callable[[str, str], Path]) -> None:
    memory = write("m.po", PO)
    texts = ["Delete all  old files", "", "Delete all new files", "x"]
    said = say("translate", run, "--memory", memory, "--format", "jsonl", "--text", *texts)
    records = [json.loads(line) for line in said.lines]
    assert [record["source"] for record in records] == texts
    old = {"source": "Delete all old files", "target": "Alle alten Dateien löschen"}
    assert records[0] == {
        "source": texts[0],
        "translation": "Alle alten Dateien löschen",
        "match": {**old, "similarity": 1.0, "taken": True},
    }
    assert records[2]["match"] == {**old, "similarity": 0.75, "taken": False}
    assert records[2]["candidates"]
    assert "match" not in records[1]
    assert "match" not in records[3]
    for told in ("1 of 4 texts: taken", "1 of 4 texts: similar", "2 of 4 texts: like no text"):
        assert told in said.err
    plain = say("translate", run, "--memory", memory, "--text", *texts)
    alone = say("translate", run, "--text", *texts)
    assert plain.lines == ["Alle alten Dateien löschen", *alone.lines[1:]]
    menu = say("translate", run, "--memory", memory, "--protect", "--text", "O_pen the %s now", "a %d")
    assert menu.lines[0].replace("_", "") == "Jetzt %s öffnen"
    assert "_" in menu.lines[0]
    assert "%d" in menu.lines[1]


def test_lines_are_drawn_as_they_are_without_a_memory(say: Say, run: Path, write: Callable[[str, str], Path]) -> None:
    """Whatever the memory takes before them."""
    memory = write("m.po", PO)
    texts = ["Delete all old files", "open the window", "Delete all old files", "the window opens"]
    options = ["--search", "sampling", "--seed", "3"]
    alone = say("translate", run, *options, "--text", *texts).lines
    lines = say("translate", run, *options, "--memory", memory, "--text", *texts).lines
    taken = "Alle alten Dateien löschen"
    assert lines == [taken, alone[1], taken, alone[3]]
    assert lines[3] != say("translate", run, *options, "--text", texts[3]).lines[0], "draws depend on the line"


def test_a_line_stays_a_line(say: Say, run: Path, write: Callable[[str, str], Path]) -> None:
    memory = write("m.po", 'msgid "a\\nb"\nmsgstr "c\\nd\\n"\n')
    assert say("translate", run, "--memory", memory, "--text", "a b").lines == ["c d"]


def test_the_language_that_was_asked_for_is_that_of_the_memory(
    say: Say, several: Path, write: Callable[[str, str], Path]
) -> None:
    memory = write("m.tmx", TMX % FRENCH)
    words = ("--source-language", "en", "--memory", memory, "--text", "Yes, please")
    assert say("translate", several, "--to", "fr", *words).lines == ["Oui"]
    assert say("translate", several, "--to", "de", *words).lines == ["Ja, bitte"]


@pytest.mark.parametrize(
    ("name", "content", "written"),
    [
        ("a.po", HEAD.replace("de", "fr") + '\nmsgid "x y"\nmsgstr ""\n', "fr"),
        ("a.po", HEAD.replace("de", "pt_BR") + '\nmsgid "x y"\nmsgstr ""\n', "pt-BR"),
        ("a.po", HEAD.replace("de", "pt") + '\nmsgid "x y"\nmsgstr ""\n', "pt-BR"),
        ("a.xlf", (XLIFF % ("en", "de-AT")).replace("Guten Tag", ""), "de"),
    ],
)
def test_a_file_says_the_language_it_is_to_be_in(
    several: Path, write: Callable[[str, str], Path], name: str, content: str, written: str
) -> None:
    model = heedful.load(several, kind=heedful.Translator, device="cpu")
    document = read_document(write(name, content))
    assert (
        DirectionOptions().apply_to(model, document=document).source.prefix_ids
        == model.towards(written).source.prefix_ids
    )
    other = next(each for each in ("de", "fr") if each != written)
    asked = DirectionOptions(to=other).apply_to(model, document=document)
    assert asked.source.prefix_ids == model.towards(other).source.prefix_ids, "the option goes first"


def test_a_file_that_says_its_language_needs_no_option(
    say: Say, several: Path, tmp_path: Path, write: Callable[[str, str], Path]
) -> None:
    path = write("a.po", HEAD + '\nmsgid "x y"\nmsgstr ""\n')
    assert say("translate", several, path, "-o", tmp_path / "out.po").code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("{run}", "a", "--memory", "{folder}/none.tmx"), "no such file"),
        (("{run}", "a", "--memory", "{po}", "--match", "1.5"), "--match: 1.5; must be from 0 to 1"),
        (("{run}", "a", "--memory", "{po}", "--match", "-0.1"), "--match: -0.1; must be from 0 to 1"),
        (("{run}", "a", "--match", "0.5"), "name one with --memory"),
        (("{run}", "a", "--memory", "-"), "save it to a file first"),
        (("{run}", "a", "--memory", "{tmx}"), "--source-language en"),
        (("{run}", "a", "--memory", "{po}", "--n-best", "2"), "--n-best: cannot be combined with --memory"),
        (("{run}", "a", "--memory", "{po}", "--prefix", "b"), "--prefix: cannot be combined with --memory"),
        (("{run}", "a", "--memory", "{po}", "--constrain", "b"), "--constrain: cannot be combined with --memory"),
        (("{run}", "{silent}", "--memory", "{po}", "-o", "{po}"), "is read as well"),
        (("{run}", "{po}", "--source-language", "en"), "names its languages itself"),
        (("{run}", "a", "--target-language", "en"), "is for a TMX file"),
        (("{several}", "{italian}"), "its target language is 'it', but this model writes de, fr, pt-BR"),
        (("{several}", "{silent}"), "choose one with --to"),
        (("{run}", "{silent}", "--memory", "{silent}"), "has no finished translation"),
    ],
)
def test_mistakes(
    say: Say, models: tuple[Path, Path], write: Callable[[str, str], Path], words: tuple[str, ...], sentence: str
) -> None:
    names = {
        "run": models[0],
        "several": models[1],
        "folder": models[0],
        "po": write("m.po", PO),
        "tmx": write("m.tmx", TMX % ""),
        "italian": write("i.po", HEAD.replace("de", "it") + '\nmsgid "x"\nmsgstr ""\n'),
        "silent": write("s.po", 'msgid "x"\nmsgstr ""\n'),
    }
    assert sentence in say("translate", *(word.format(**names) for word in words)).complaint
    assert names["po"].read_text(encoding="utf-8") == PO


def test_without_the_package_it_is_named(
    say: Say, run: Path, write: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    assert "pip install 'heedful[localisation]'" in say("translate", run, "a", "--memory", write("m.po", PO)).complaint
