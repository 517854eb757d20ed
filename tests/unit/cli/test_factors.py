# ruff: noqa: RUF001  (U+FFE8 looks like a letter)
"""Models that read factors of words, by all commands that translate with them, and what refuses them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.errors import DataError, RunError
from heedful.inspection.capture import watch_attention
from tests.untrained_runs import create_untrained_run

Say = Callable[..., Any]
SOURCES = ["The dog books a cat", "a DOG book", "McDog x"]
LABELS = ["D N V D N", "D N N", "N X"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text with labels, and a run with random weights whose model reads case and labels."""
    made = tmp_path_factory.mktemp("factors")
    (made / "t.en").write_text("".join(f"{line}\n" for line in SOURCES * 9))
    (made / "t.de").write_text("".join(f"{line}\n" for line in ["der Hund x", "Ein y", "Buch"] * 9))
    (made / "t.pos").write_text("".join(f"{line}\n" for line in LABELS * 9))
    return made


def table(folder: Path, name: str, **more: Any) -> dict[str, Any]:
    text = {"source": str(folder / "t.en"), "target": str(folder / "t.de"), "factors": str(folder / "t.pos")}
    return {
        "task": "translation",
        "output": str(folder / name),
        "data": {"train": text, "validation": text, "max_length": 24},
        "tokenizer": {"kind": "characters"},
        "model": {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 1},
        "factors": {"case": {"kind": "case"}, "pos": {"kind": "given"}},
        "training": {"steps": 1},
        **more,
    }


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    torch.manual_seed(1)
    return create_untrained_run(table(folder, "run"))


@pytest.fixture
def cased(tmp_path: Path, folder: Path) -> Path:
    """A run that reads case alone."""
    torch.manual_seed(1)
    made = table(folder, "", output=str(tmp_path / "cased"), factors={"case": {"kind": "case"}})
    for part in ("train", "validation"):
        made["data"][part] = {key: value for key, value in made["data"][part].items() if key != "factors"}
    return create_untrained_run(made)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def inline(number: int) -> str:
    return " ".join(
        f"{word}￨{label}" for word, label in zip(SOURCES[number].split(), LABELS[number].split(), strict=True)
    )


def test_labels_are_read_from_a_file_or_behind_words(say: Say, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.en").write_text("".join(f"{line}\n" for line in SOURCES))
    (tmp_path / "in.pos").write_text("".join(f"{line}\n" for line in LABELS))
    labels = ("--factors", tmp_path / "in.pos")
    by_file = say("translate", run, "--input", tmp_path / "in.en", *labels)
    assert by_file.code == 0, by_file
    assert by_file.lines == say("translate", run, "--text", *map(inline, range(3))).lines
    assert by_file.lines == say("translate", run, "--text", *SOURCES, *labels).lines
    model = heedful.load(run, device="cpu")
    assert by_file.lines == [each.text for each in model.translate(list(map(inline, range(3))))]
    records = say("translate", run, "--input", tmp_path / "in.en", *labels, "--format", "jsonl", "--align").lines
    assert [json.loads(each)["source"] for each in records] == list(map(inline, range(3)))


def test_scores_alignments_vectors_and_pages_read_factors(say: Say, run: Path, tmp_path: Path) -> None:
    """All of them see what stands in the labels and in the case."""
    model = heedful.load(run, device="cpu")
    texts = ["dog￨N book￨N", "dog￨N book￨V", "Dog￨N book￨N", "dog￨N book￨unseen"]
    pairs = [(text, "Hund x") for text in texts]
    scores = [each.log_probability for each in model.score(pairs)]
    assert len({round(each, 6) for each in scores}) == 4, scores
    alone = [model.score([pair])[0].log_probability for pair in pairs]
    np.testing.assert_allclose(scores, alone, rtol=1e-4)
    vectors = model.embed(texts)
    assert len({tuple(each) for each in vectors.round(5)}) == 4
    np.testing.assert_allclose(vectors, [model.embed([text])[0] for text in texts], atol=1e-5)
    assert {link[0] for link in model.link([("The￨D dog￨N  books￨V", "der Hund x")])[0]} <= {0, 1, 2}
    (tmp_path / "p.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    assert len(say("align", run, "--data", tmp_path / "p.tsv").lines) == 4
    told = say("score", run, "--data", tmp_path / "p.tsv")
    np.testing.assert_allclose([float(line.split("\t")[0]) for line in told.lines], scores, atol=1e-3)
    record = model.inspect("Dog￨N", "Hund")
    side = next(each for each in record.embedded if each.side == "encoder")
    assert side.factors is not None
    encoder = model.models[0].encoder.stack.embedding
    case, pos = (table.weight for table in encoder.factors)
    noun = model.factors["pos"].labels.get_id("N") + 1
    of_word = ((case[2] + pos[noun]) * encoder.scale).detach().numpy()
    of_end = ((case[0] + pos[0]) * encoder.scale).detach().numpy()
    np.testing.assert_allclose(side.factors, [of_word] * 3 + [of_end], rtol=1e-5)
    heedful.save_record(record, tmp_path / "r.safetensors")
    again = heedful.load_record(tmp_path / "r.safetensors")
    assert np.array_equal(next(each for each in again.embedded if each.side == "encoder").factors, side.factors)
    with pytest.raises(DataError, match="text 1: has 25 tokens"):
        model.embed(["dog￨N " * 6 + "d￨N"])


def test_batches_of_training_and_of_use_are_the_same(run: Path) -> None:
    """The likelihood of the validation text, by the task and by the face."""
    from heedful.runs.load import load_trained_model, open_run
    from heedful.runs.prepare import open_corpus

    opened = open_run(run)
    corpora = {part: open_corpus(opened, part, log=lambda _: None) for part in ("train", "validation")}
    problem = opened.task.build_objective(opened, corpora["train"], corpora["validation"], device=torch.device("cpu"))
    model = load_trained_model(opened, device=torch.device("cpu"))
    loss = problem.evaluate(model)["loss"]
    scores = heedful.load(run, device="cpu").score([(p.source, p.target) for p in opened.recipe.data.reader("train")])
    nats = -sum(each.log_probability for each in scores) / sum(each.count for each in scores)
    assert nats == pytest.approx(loss, rel=1e-4)


def test_a_run_is_measured_with_its_labels(say: Say, run: Path) -> None:
    said = say("evaluate", run, "--format", "json")
    assert said.code == 0, said
    told = json.loads(said.out)
    model = heedful.load(run, device="cpu")
    scores = model.score([(inline(each), ["der Hund x", "Ein y", "Buch"][each]) for each in range(3)])
    nats = -sum(each.log_probability for each in scores) / sum(each.count for each in scores)
    assert told["perplexity"] == pytest.approx(np.exp(nats), rel=1e-3)


def test_long_texts_are_read_in_parts_with_their_labels(run: Path) -> None:
    model = heedful.load(run, device="cpu")
    text = " ".join(map(inline, (0, 1, 2, 0)))
    (found,) = model.translate([text])
    assert len(found.parts) > 1
    assert " ".join(part.source for part in found.parts) == text
    for part in found.parts:
        assert model.translate([part.source])[0].text == part.text


def test_words_of_the_source_take_the_place_of_unknown_pieces_as_they_were_written(cased: Path) -> None:
    from heedful.tasks.translation.translations import replace_unknown

    model = heedful.load(cased, device="cpu")
    assert model.source_encoder.get_surfaces("McDog") == list("McDog")
    (found,) = model.translate(["McDog"])
    unknown = model.target.special.unk
    one = found.candidates[0]
    other = type(one)("⁇", (unknown,), ("<unk>",), -1.0, -1.0, True)
    (replaced,) = replace_unknown(model, [type(found)(found.source, found.source_tokens, (other,))])
    assert replaced.text in set("McDog")
    assert replaced.text == "McDog"[int(model.align("McDog", other).best_weights[0, :5].argmax())]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--text", "a dog"), "'a' is not word￨pos: this model reads labels after each word"),
        (("--text", "a￨D dog"), "'dog' is not word￨pos"),
        (("--text", "a dog", "--factors", "one.pos"), "one.pos:1: has 1 labels, but its sentence has 2 words"),
        (("--text", "a", "b", "--factors", "one.pos"), "one.pos: has fewer lines than there are sentences"),
        (("--text", "a￨X", "--factors", "one.pos"), "one.pos:1: its sentence has labels already"),
        (("--text", "a", "--factors", "none.pos"), "none.pos"),
        (("--factors", "-"), "--factors: standard input cannot hold the sentences too"),
        (("--text", "a", "--factors", "one.pos", "--protect"), "--factors: cannot be combined with --protect"),
        (
            ("--text", "a", "--factors", "one.pos", "--glossary", "g.tsv", "--annotate", "append"),
            "--factors: annotated terms have no labels",
        ),
    ],
)
def test_labels_that_do_not_fit_are_told(say: Say, run: Path, here: Path, words: tuple[str, ...], message: str) -> None:
    (here / "one.pos").write_text("N\n")
    (here / "g.tsv").write_text("a\tb\n")
    assert message in say("translate", run, *words).complaint


def test_case_needs_no_labels_and_takes_none(say: Say, cased: Path, run: Path, tmp_path: Path) -> None:
    assert say("translate", cased, "--text", "The dog", "THE DOG").code == 0
    (tmp_path / "x.pos").write_text("N\n")
    said = say("translate", cased, "--text", "dog", "--factors", tmp_path / "x.pos")
    assert "this model reads no labels of words; leave it out" in said.complaint
    assert "has another vocabulary" in say("translate", run, cased, "--text", "dog￨N").complaint
    model = heedful.load(cased, device="cpu")
    vectors = model.embed(["the dog", "The dog", "THE dog"])
    assert len({tuple(each) for each in vectors.round(5)}) == 3


@pytest.mark.parametrize("words", [("--format", "onnx"), ()])
def test_other_formats_refuse_factors(say: Say, run: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    complaint = say("export", run, tmp_path / "out", *words).complaint
    assert "reads factors of source words (case, pos), and" in complaint
    assert "has no input for them; export to ctranslate2" in complaint


def test_engines_give_what_modules_give(run: Path, tmp_path: Path) -> None:
    texts = list(map(inline, range(3)))
    plain = heedful.load(run, device="cpu")
    heedful.quantize(run, tmp_path / "small")
    for made in (heedful.load(run, device="cpu", engine="int8"), heedful.load(tmp_path / "small", device="cpu")):
        np.testing.assert_allclose(made.embed(texts), plain.embed(texts), atol=0.1)
    pytest.importorskip("heedful_native")
    native = heedful.load(run, device="cpu", engine="native")
    pairs = [(text, "Hund") for text in texts]
    found = [each.log_probability for each in native.score(pairs)]
    np.testing.assert_allclose(found, [each.log_probability for each in plain.score(pairs)], atol=0.3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"factors": {"pos": {"kind": "pos"}}}, "factors.pos.kind"),
        ({"factors": {"a b": {"kind": "case"}}}, "a b"),
        ({"factors": {"case": {"kind": "case"}}}, "data.train.factors are labels that no factor reads"),
        ({"init": "run"}, "factors are learned from the beginning, but init continues"),
        ({"training": {"steps": 1, "guided": {}}}, "training.guided needs word links"),
    ],
)
def test_a_recipe_that_cannot_be_meant_is_told(folder: Path, changes: dict[str, Any], message: str) -> None:
    from heedful.errors import RecipeError
    from heedful.recipes.load import build_recipe

    with pytest.raises(RecipeError) as raised:
        build_recipe(table(folder, "new", **changes), source="here")
    assert message in str(raised.value)


def test_labels_know_one_direction(folder: Path) -> None:
    from heedful.errors import RecipeError
    from heedful.recipes.load import build_recipe

    made = table(folder, "new")
    made["data"]["train"] |= {"both_ways": True, "source_language": "en", "target_language": "de"}
    with pytest.raises(RecipeError, match=r"data\.train\.factors .*describes the words of one language"):
        build_recipe(made, source="here")


def test_no_model_begins_with_one_that_reads_factors(run: Path, folder: Path, tmp_path: Path) -> None:
    from heedful.recipes.load import build_recipe
    from heedful.runs.resolve import open_predecessor

    with pytest.raises(RunError, match="reads factors of words"):
        open_predecessor(run)
    assert build_recipe(table(folder, "x"), source="").factors.keys() == {"case", "pos"}
    shutil.rmtree(tmp_path)


def test_attention_is_watched_as_ever(run: Path) -> None:
    model = heedful.load(run, device="cpu")
    with watch_attention(model.models[0]) as weights:
        model.translate([inline(0)])
    assert weights
