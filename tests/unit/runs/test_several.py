"""Several texts in one run: how they are mixed, tags and languages, and how a model is asked for one of these."""

from __future__ import annotations

import json
import math
from itertools import zip_longest
from pathlib import Path

import pytest

import heedful
from heedful.__main__ import main
from heedful.errors import DataError, HeedfulError, RecipeError
from heedful.recipes.load import load_recipe
from heedful.recipes.recipe import Recipe
from heedful.runs.prepare import open_corpus, open_or_create_run
from heedful.runs.train import train
from heedful.tasks.translation.evaluation import run_by_tags
from heedful.tasks.translation.translator import Translator

WORDS = {
    "en": ("one", "two", "three", "four"),
    "de": ("eins", "zwei", "drei", "vier"),
    "fr": ("un", "deux", "trois", "quatre"),
}
TEXT = """\
[data.{part}.texts.{name}]
source = "{file}.en"
target = "{file}.{other}"
source_language = "en"
target_language = "{other}"
both_ways = true
"""
TRAINING = """\
[tokenizer]
kind = "words"
[model]
d_model = 32
d_ff = 64
heads = 2
layers = 1
dropout = 0
residual = "pre_norm"
[training]
steps = 400
batch_tokens = 300
schedule = { kind = "linear", rate = 1e-2, warmup_share = 0.1 }
precision = "fp32"
evaluate_every = 200
threads = 1
[generation]
kind = "greedy"
"""


def lines(language: str, count: int, *, start: int = 0) -> str:
    words = WORDS[language]
    return "".join(f"{words[n % 4]} {words[n // 4 % 4]} {words[n // 16 % 4]}\n" for n in range(start, start + count))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("several")
    for language in WORDS:
        (found / f"all.{language}").write_text(lines(language, 64))
        (found / f"some.{language}").write_text(lines(language, 16, start=3))
        for part in (1, 2):
            (found / f"part-{part}.{language}").write_text(lines(language, 10, start=10 * part))
    texts = "".join(
        TEXT.format(part=part, name=f"en-{other}", file="all" if part == "train" else "some", other=other)
        for part in ("train", "validation", "test")
        for other in ("de", "fr")
    )
    (found / "recipe.toml").write_text(f'output = "{found / "run"}"\n{texts}{TRAINING}')
    return found


def changed(folder: Path, *overrides: str) -> Recipe:
    return load_recipe(folder / "recipe.toml", overrides)


def table(text: str) -> str:
    return f"--data.train={{ {text} }}"


@pytest.fixture(scope="module")
def told(folder: Path) -> list[str]:
    said: list[str] = []
    train(load_recipe(folder / "recipe.toml"), say=said.append, device="cpu")
    return said


@pytest.fixture
def translator(folder: Path, told: list[str]) -> Translator:
    found = heedful.load(folder / "run")
    assert isinstance(found, Translator)
    return found


@pytest.mark.slow
def test_all_texts_and_directions_are_told(told: list[str]) -> None:
    assert "64 of these are from data.train.texts.en-de (en to de), 25% of each epoch" in told
    assert "64 of these are from data.train.texts.en-fr (fr to en), 25% of each epoch" in told


@pytest.mark.parametrize(("source", "target"), [("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en")])
def test_one_model_writes_what_it_is_asked_for(translator: Translator, source: str, target: str) -> None:
    sources, targets = (lines(each, 64).splitlines() for each in (source, target))
    found = translator.towards(target).translate(sources)
    assert sum(each.text == text for each, text in zip(found, targets, strict=True)) > 60
    assert translator.languages == ("de", "en", "fr")


def test_a_language_must_be_said_and_known(translator: Translator) -> None:
    with pytest.raises(RecipeError, match="writes de, en, fr: choose one"):
        translator.translate(["one two three"])
    with pytest.raises(RecipeError, match=r"it: this model does not write.*de, en, fr: choose one"):
        translator.towards("it")
    with pytest.raises(RecipeError, match="<captions>: is not a tag"):
        translator.towards("de", tags=["<captions>"])


def test_answers_keep_their_order_whatever_is_asked(translator: Translator) -> None:
    asked = [("one two three", "de"), ("un deux trois", "en"), ("four one two", "de"), ("one one two", "fr")]
    found = run_by_tags(
        translator,
        asked,
        tags=lambda each: (f"<2{each[1]}>",),
        run_group=lambda user, some: [each.text for each in user.translate([text for text, _ in some])],
    )
    assert found == ["eins zwei drei", "one two three", "vier eins zwei", "un un deux"]


def test_links_of_words_know_no_tags(translator: Translator) -> None:
    towards = translator.towards("de")
    weights = list(towards.align("one two three", "eins zwei drei").weights.values())[-1]
    (links,) = towards.link([("one two three", "eins zwei drei")])
    assert links == tuple((int(row[1:4].argmax()), word) for word, row in enumerate(weights[:3]))


def test_commands_are_told_the_direction(folder: Path, told: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run = str(folder / "run")
    assert main(["translate", run, "--to", "fr", "--text", "one two three"]) == 0
    assert capsys.readouterr().out == "un deux trois\n"
    sides = ["--source", str(folder / "some.de"), "--target", str(folder / "some.en")]
    assert main(["score", run, *sides, "--to", "en"]) == 0
    right = sum(float(line.split("\t")[0]) for line in capsys.readouterr().out.splitlines())
    assert main(["score", run, *sides, "--to", "fr"]) == 0
    wrong = sum(float(line.split("\t")[0]) for line in capsys.readouterr().out.splitlines())
    assert right > wrong
    assert main(["align", run, *sides, "--to", "en"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 16
    assert main(["inspect", run, "--to", "de", "--text", "one two", "--terminal"]) == 0
    lines = capsys.readouterr().out.splitlines()
    columns = ["".join(column) for column in zip_longest(*lines, fillvalue=" ")]
    assert any("<2de>" in text for text in (*lines, *columns)), "labels stand along a row or down a column"
    assert main(["translate", run, "--text", "one two three"]) == 2
    assert "choose one with --to" in capsys.readouterr().err
    assert main(["evaluate", run, "--to", "de"]) == 2
    assert "--to, --from, --tags: need --source and --target, or --data" in capsys.readouterr().err


def test_one_run_translates_and_judges(
    folder: Path, translator: Translator, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(folder / "run")
    words = ["rerank", run, "--to", "de", "--reverse", run, "--text", "one two three"]
    assert main([*words, "--source-language", "en", "--beam", "3", "--format", "jsonl", "--n-best", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["translation"] == "eins zwei drei"
    for each in found["candidates"]:
        (back,) = translator.towards("en").score([(each["text"], "one two three")])
        assert each["reverse"] == pytest.approx(back.log_probability, abs=1e-3)
    for other, complaint in (
        (
            words,
            "is the run that translates; give one of the other direction, or, if it writes several languages, --so",
        ),
        ([*words, "--source-language", "it"], "it: this model does not write this language"),
        (["rerank", "--reverse", run, "--input", "-"], "writes de, en, fr; name the language of the sources with"),
        (["rerank", run, "--reverse", run, "--source-language", "en", "--text", "one"], "choose one with --to"),
    ):
        assert main([*other, *(["--beam", "2"] if run in other[1:2] else [])]) == 2
        assert complaint in capsys.readouterr().err


@pytest.mark.slow
def test_one_of_one_language_is_measured_beside_one_of_several(
    folder: Path, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = (folder / "recipe.toml").read_text()
    (folder / "one.toml").write_text(
        f'output = "{folder / "one"}"\ndata.train = {{ source = "all.en", target = "all.de" }}\n'
        f'data.validation = {{ source = "some.en", target = "some.de" }}\n{text[text.index("[tokenizer]") :]}'
    )
    train(load_recipe(folder / "one.toml", ["--training.steps", "150", "--training.evaluate_every", "50"]))
    capsys.readouterr()
    runs, sides = [str(folder / name) for name in ("one", "run")], ["--source", str(folder / "some.en"), "--target"]
    words = ["compare", *runs, *sides, str(folder / "some.de"), "--samples", "2"]
    assert main([*words, "--to", "de"]) == 0
    found = capsys.readouterr().out
    rows = [line.split() for line in found.splitlines() if "transformer" in line]
    assert [Path(row[0]).name for row in rows] == ["one", "run"]
    assert min(float(row[-5]) for row in rows) > 90, "chrF"
    differing = next(line for line in found.splitlines() if "the recipes differ in" in line)
    assert "data.train, " in differing and "data.train." not in differing
    assert main(words) == 2
    assert "writes de, en, fr: choose one with --to" in capsys.readouterr().err
    assert main([*words, "--to", "de", "--tags", "<web>"]) == 2
    assert "<web>: is not a tag of this vocabulary (it has: none)" in capsys.readouterr().err


def test_a_direction_that_means_nothing_is_told(
    folder: Path, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(folder / "run")
    assert main(["calibrate", run, "--to", "fr"]) == 2
    assert "--to, --from, --tags: need --source and --target, or --data" in capsys.readouterr().err
    assert main(["translate", run, "--to", "de", "--tags", "<2fr>", "--text", "one"]) == 2
    assert "--tags: <2fr> is the tag of a language; leave it out, and give --to fr" in capsys.readouterr().err


@pytest.mark.slow
def test_an_export_tells_of_tags(folder: Path, translator: Translator, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    assert main(["export", str(folder / "run"), str(tmp_path / "graphs"), "--format", "onnx"]) == 0
    source = json.loads((tmp_path / "graphs" / "heedful.json").read_text())["source"]
    assert (source["before"], source["tags"]) == ([], translator.source.tag_ids)
    assert translator.towards("de").source.encode("one")[0] == source["tags"]["<2de>"]


def test_each_text_is_scored_by_itself(folder: Path, told: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(folder / "run"), "--samples", "10"]) == 0
    out = capsys.readouterr().out
    assert "64 sentences" in out
    assert "document BLEU" not in out, "a text is no document"
    for name in ("en-de (en to de)", "en-de (de to en)", "en-fr (en to fr)", "en-fr (fr to en)"):
        assert name in out


def test_a_run_goes_on_with_all_its_texts(folder: Path, told: list[str]) -> None:
    said: list[str] = []
    recipe = changed(folder, "--training.steps", "410")
    assert open_corpus(open_or_create_run(recipe, log=said.append), "train", log=said.append).report.kept == 256
    assert not [line for line in said if "encoding again" in line]


@pytest.mark.parametrize(
    ("settings", "amounts"),
    [
        ("", [100, 900]),
        ("temperature = 2", [1000 * 10 / 40, 1000 * 30 / 40]),
        ("weights = { a = 9 }", [500, 500]),
        ("temperature = 2, weights = { b = 2 }", [1000 * 10 / 70, 1000 * 60 / 70]),
    ],
)
def test_weights_and_temperature_say_how_often_texts_are_read(
    folder: Path, settings: str, amounts: list[float]
) -> None:
    texts = 'texts = { a = { source = "all.en", target = "all.de" }, b = { source = "all.en", target = "some.de" } }'
    plain = ["--data.validation={ source = 'a', target = 'b' }", "--data.test", "none"]
    recipe = changed(folder, table(", ".join(filter(None, (texts, settings)))), *plain)
    found = recipe.data.compute_epoch_tokens("train", [100, 900])
    assert found == pytest.approx(amounts)
    more = changed(
        folder,
        table(", ".join(filter(None, (texts, settings)))),
        *plain,
        "--data.rehearse={ source = 'c', target = 'd', share = 0.2 }",
    )
    both = more.data.compute_epoch_tokens("train", [100, 900, 7])
    assert both[:2] == pytest.approx(amounts)
    assert both[2] / math.fsum(both) == pytest.approx(0.2)


def test_stars_stand_for_files_in_the_order_of_their_names(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    recipe = changed(
        folder,
        table('source = "part-*.en", target = "part-*.de"'),
        "--data.validation={ source = 'some.en', target = 'some.de' }",
        "--data.test",
        "none",
    )
    reader = recipe.data.reader("train")
    assert [path.name for path in reader.paths] == ["part-1.en", "part-1.de", "part-2.en", "part-2.de"]
    assert [pair.source for pair in reader] == lines("en", 20, start=10).splitlines()
    uneven = changed(
        folder,
        table('source = "part-*.en", target = "some*.de"'),
        "--data.validation={ source = 'some.en', target = 'some.de' }",
        "--data.test",
        "none",
    )
    with pytest.raises(DataError, match=r"2 files .*part-\*\.en and 1 files .*some\*\.de; each file needs its partner"):
        uneven.data.reader("train")
    nothing = changed(
        folder,
        table('source = "none-*.en", target = "none-*.de"'),
        "--data.validation={ source = 'some.en', target = 'some.de' }",
        "--data.test",
        "none",
    )
    with pytest.raises(DataError, match=r"none-\*\.en: no file matches"):
        nothing.data.reader("train")


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (("--data.train.texts.en-de.tags", '["captions"]'), "one word in angle brackets"),
        (("--data.train.texts.en-de.tags", '["<s>"]'), "not one of the model's own tokens"),
        (("--data.train.texts.en-de.target_language", "d e"), "one word without angle brackets"),
        (("--data.train.texts.en-de.target_language", "en"), "another language than source_language"),
        (("--data.train.weights.nobody", "2"), "names nobody, but the texts are en-de, en-fr"),
        (("--data.train.temperature", "0.5"), "at least 1"),
        (("--data.test.texts.en-de.tags", '["<web>"]'), "has <web>, which no training text has"),
        (("--data.validation.texts.en-fr.target_language", "it"), "is it, but the training text is in de, en, fr"),
        (("--data.rehearse={ path = 'a.tsv' }",), "data.rehearse.target_language.*is not given"),
        (("--data.train.texts={}",), "data.train.texts"),
    ],
)
def test_what_does_not_fit_is_told_by_its_key(folder: Path, overrides: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(HeedfulError, match=sentence):
        changed(folder, *overrides)


def test_a_vocabulary_that_lacks_a_tag_is_refused(folder: Path, told: list[str], tmp_path: Path) -> None:
    text = (folder / "recipe.toml").read_text().replace('[tokenizer]\nkind = "words"\n', "")
    text = text[: text.index("[model]")] + text[text.index("[training]") :]
    (folder / "tagged.toml").write_text(
        f'init = "{folder / "run"}"\n' + text.replace(str(folder / "run") + '"\n[', str(tmp_path / "new") + '"\n[')
    )
    recipe = load_recipe(
        folder / "tagged.toml", ["--data.train.texts.en-de.tags", '["<web>"]', "--output", str(tmp_path / "new")]
    )
    with pytest.raises(RecipeError, match=r"<web> is put before sources.*give the table \[tokenizer\]"):
        train(recipe, device="cpu")
