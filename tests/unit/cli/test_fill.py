"""`heedful fill` and `heedful embed`, and pre-training from a recipe to them."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from shape_checks import disable_shape_checks

import heedful
from heedful.__main__ import main
from heedful.tasks.pretraining.predictor import MaskedLanguageModelPredictor, ReplacedTokenPredictor

RECIPE = """
task = "pretraining"
output = "{folder}/run"
[data]
train = {{ path = "text.txt" }}
validation = {{ path = "text.txt" }}
max_length = 20
[tokenizer]
kind = "words"
[model]
d_model = 32
heads = 2
layers = 1
dropout = 0.0
initialisation = "xavier"
positions = {{ kind = "learned", length = 32 }}
[training]
steps = {steps}
batch_tokens = 400
evaluate_every = 100
precision = "fp32"
masking = {{ share = 0.35 }}
schedule = {{ kind = "constant", rate = 4e-3 }}
"""


def recipe(folder: Path, *, steps: int = 700) -> Path:
    """Documents about cats and dogs, each of which says one thing alone."""
    folder.mkdir(exist_ok=True)
    dice, documents = random.Random(3), []
    for _ in range(80):
        sentences = []
        for _ in range(4):
            animal, says = dice.choice([("cat", "miaow"), ("dog", "woof")])
            forms = [f"the {animal} says {says}.", f"a {animal} can say {says}.", f"{says} is what the {animal} says."]
            sentences.append(dice.choice(forms))
        documents.append("\n".join(sentences))
    (folder / "text.txt").write_text("\n\n".join(documents) + "\n")
    path = folder / "r.toml"
    path.write_text(RECIPE.format(folder=folder, steps=steps))
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with disable_shape_checks():
        return heedful.train(heedful.load_recipe(recipe(tmp_path_factory.mktemp("bert"))), device="cpu").folder


@pytest.mark.slow
def test_it_learns_who_says_what(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fill", str(trained), "--text", "the [MASK] says woof.", "a cat can say [MASK]."]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [lines[0], lines[2]] == ["the dog says woof.", "a cat can say miaow."]
    assert lines[1].split()[0] == "dog"
    assert float(lines[1].split()[1]) > 0.6
    assert main(["evaluate", str(trained), "--format", "json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["masked_accuracy"] > 0.6
    assert set(measured) >= {"masked_loss", "pair_loss", "pair_accuracy", "loss"}


def test_results_as_json_and_from_files(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("the ___ says ___.\n")
    output = tmp_path / "out.jsonl"
    options = ["--input", str(texts), "--output", str(output), "--blank", "___", "--top", "3", "--format", "jsonl"]
    assert main(["fill", str(trained), *options]) == 0
    record = json.loads(output.read_text())
    assert [len(gap) for gap in record["gaps"]] == [3, 3]
    assert record["gaps"][0][0]["piece"] in ("cat", "dog")
    assert capsys.readouterr().out == ""


def test_texts_are_numbered_through_all_parts_that_are_read(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("heedful.tasks.pretraining.predictor.FillLineFormat.chunk_size", 2)
    assert main(["fill", str(trained), "--text", "[MASK]", "a [MASK]", "no gap here"]) == 2
    assert "text 3: has no [MASK]" in capsys.readouterr().err


def test_of_texts_that_are_too_long_the_end_is_not_read(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("pretraining.predictor.FillLineFormat", "embedder.EmbeddingLineFormat"):
        monkeypatch.setattr(f"heedful.tasks.{name}.chunk_size", 2)
    note = "1 of 3 texts: longer than the model reads, the end not read\n"
    long, read = "[MASK]" + " cat" * 30 + " [MASK]", "[MASK]" + " cat" * 17
    assert main(["fill", str(trained), "--format", "jsonl", "--text", "[MASK]", "a [MASK]", long]) == 0
    told = capsys.readouterr()
    assert told.err == note
    found = json.loads(told.out.splitlines()[2])
    assert (found["cut"], len(found["gaps"])) == (14, 1), "the second gap was not read"
    assert main(["fill", str(trained), "--format", "jsonl", "--text", read]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert alone["cut"] == 0
    assert [guess["piece"] for guess in found["gaps"][0]] == [guess["piece"] for guess in alone["gaps"][0]]
    texts = ["a", "a cat", "cat " * 30]
    assert main(["embed", str(trained), "--text", *texts]) == 0
    told = capsys.readouterr()
    assert told.err == note
    assert main(["embed", str(trained), "--text", "cat " * 18, "--output", str(tmp_path / "v.npy")]) == 0
    assert capsys.readouterr().err == ""
    expected = np.load(tmp_path / "v.npy")[0]
    assert json.loads(told.out.splitlines()[2]) == pytest.approx(expected, abs=1e-5)
    assert main(["embed", str(trained), "--text", *texts, "--output", str(tmp_path / "v.npy")]) == 0
    assert capsys.readouterr().err == note
    assert np.load(tmp_path / "v.npy")[2] == pytest.approx(expected, abs=1e-5)


def test_texts_about_the_same_lie_close(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["the cat says miaow.", "a cat can say miaow.", "a dog can say woof."]
    assert main(["embed", str(trained), "--normalise", "--text", *texts]) == 0
    vectors = np.array([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    assert vectors.shape == (3, 32)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(3), abs=1e-4)
    file = tmp_path / "v.npy"
    assert main(["embed", str(trained), "--text", *texts, "--output", str(file)]) == 0
    saved = np.load(file, allow_pickle=False)
    assert saved / np.linalg.norm(saved, axis=1, keepdims=True) == pytest.approx(vectors, abs=1e-4)
    reader = heedful.load(trained, device="cpu")
    assert isinstance(reader, MaskedLanguageModelPredictor)
    assert reader.embed(texts) == pytest.approx(saved, abs=1e-6)


def test_standard_input_is_read(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"the [MASK] says woof.\n"), isatty=bool))
    assert main(["fill", str(trained)]) == 0
    assert capsys.readouterr().out.startswith("the dog says woof.")


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        ("fill", ["--text", "no gap here"], "text 1: has no \\[MASK\\]"),
        ("fill", ["--text", "[MASK]", "--top", "0"], "--top: 0; must be at least 1"),
        ("fill", ["--text", "[MASK]", "--blank", " "], "--blank: is empty"),
        ("fill", ["--text", "[MASK]", "--input", "x"], "give one of them"),
        ("embed", ["--input", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    trained: Path, command: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(trained), *words]) == 2
    told = capsys.readouterr()
    import re

    assert re.search(message, told.err)
    assert "Traceback" not in told.err


def test_one_document_is_no_text_for_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recipe(tmp_path / "one", steps=2)
    (tmp_path / "one/text.txt").write_text("one two three.\nfour five six.\nseven eight nine.\n")
    assert main(["train", str(path), "--device", "cpu"]) == 2
    assert "put an empty line between documents" in capsys.readouterr().err
    assert main(["train", str(path), "--training.pairing", "alone", "--device", "cpu"]) == 0


@pytest.mark.parametrize("pairing", ["sentence_order", "alone"])
@pytest.mark.parametrize("masking", ["words", "spans"])
def test_other_questions_train_too(tmp_path: Path, pairing: str, masking: str) -> None:
    options = ["--training.pairing", pairing, "--training.masking.kind", masking]
    outcome = heedful.train(heedful.load_recipe(recipe(tmp_path / "r", steps=3), options), device="cpu")
    assert len(heedful.load(outcome.folder, device="cpu").fill(["the [MASK] says woof."])) == 1


DETECTS = ("--training.objective.kind", "replaced_tokens", "--training.pairing", "alone")


def detector(folder: Path, *, steps: int) -> ReplacedTokenPredictor:
    outcome = heedful.train(heedful.load_recipe(recipe(folder, steps=steps), DETECTS), device="cpu")
    found = heedful.load(outcome.folder, device="cpu")
    assert isinstance(found, ReplacedTokenPredictor)
    return found


@pytest.fixture(scope="module")
def detects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = recipe(tmp_path_factory.mktemp("electra"), steps=3)
    return heedful.train(heedful.load_recipe(path, DETECTS), device="cpu").folder


def test_replaced_tokens_are_looked_for(tmp_path: Path) -> None:
    """What finds them after a few updates finds nothing, but says so of each token."""
    found = detector(tmp_path / "r", steps=3)
    ((*tokens,),) = found.detect(["the cat says miaow."])
    assert [each.piece for each in tokens] == ["the", "cat", "says", "miaow", "."]
    assert all(0 < each.probability < 1 for each in tokens)
    assert found.embed(["a", "b"]).shape == (2, 32)


@pytest.mark.slow
def test_replaced_tokens_are_found_out(tmp_path: Path) -> None:
    right, wrong = detector(tmp_path / "r", steps=700).detect(["the cat says miaow.", "the cat says woof."])
    assert max(each.probability for each in wrong) > max(each.probability for each in right)


def test_a_long_text_is_searched_for_replaced_tokens_in_parts(detects: Path) -> None:
    """Each piece has its line, and what a part says is what it would say alone."""
    ours = heedful.load(detects, device="cpu")
    room, sentence = ours.embedder.max_text_tokens, "the cat says miaow. "
    text = sentence.capitalize() * room
    (found,) = ours.detect([text])
    assert [each.piece for each in found] == ours.tokenizer.to_pieces(ours.tokenizer.encode(text))
    alone = ours.detect([sentence.capitalize()])[0]
    assert [each.probability for each in found] == pytest.approx([each.probability for each in alone] * room, abs=1e-5)
    (word,) = ours.detect(["x" * 300])
    assert [each.piece for each in word] == ours.tokenizer.to_pieces(ours.tokenizer.encode("x" * 300))


def test_what_was_replaced_is_told_token_by_token(detects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["the cat says miaow.", "", "the cat says woof."]
    expected = heedful.load(detects, device="cpu").detect(texts)
    assert main(["detect", str(detects), "--text", *texts]) == 0
    rows = ["".join(f"{each.piece}\t{each.probability:.4f}\n" for each in found) for found in expected]
    assert capsys.readouterr().out == "".join(f"{row}\n" for row in rows)
    assert main(["detect", str(detects), "--text", *texts, "--format", "jsonl"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [[each["piece"] for each in found] for found in told] == [[each.piece for each in row] for row in expected]
    assert main(["fill", str(detects), "--text", "the [MASK]"]) == 2
    assert (
        "is a replaced token predictor and not a model that fills gaps; use it with heedful detect, or give another "
        in capsys.readouterr().err
    )


def test_a_detector_can_be_looked_at(detects: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "record"
    assert main(["inspect", str(detects), "--text", "the cat says woof.", "--save", str(file)]) == 0
    record, found = heedful.load_record(file), heedful.load(detects, device="cpu").detect(["the cat says woof."])[0]
    assert {each.role for each in record.maps} == {"encoder"}
    assert len(record.maps) == 1, "the small model does not count"
    assert [(each.about, each.subject, each.place) for each in record.answers] == [
        ("replaced", each.piece, place) for place, each in enumerate(found, 1)
    ]
    for answer, each in zip(record.answers, found, strict=True):
        chances = {option.name: option.probability for option in answer.options}
        assert chances["yes"] == pytest.approx(each.probability, abs=1e-5)  # fp32, and other kernels while watched
        assert [answer.answer_text] == [name for name, chance in chances.items() if chance == max(chances.values())]
    capsys.readouterr()
    assert main(["inspect", str(detects), "--text", "a", "--pair", "b"]) == 2
    assert "give a detector's text with --text alone" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "command"), [((), "fill"), (DETECTS, "detect")])
def test_what_comes_next_fits_what_was_learned(
    tmp_path: Path, options: tuple[str, ...], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", str(recipe(tmp_path / "r", steps=2)), "--device", "cpu", *options]) == 0
    told = capsys.readouterr().err.splitlines()[-1]
    assert told == f'next: heedful {command} {tmp_path}/r/run --text "..."'
    words = told.removeprefix("next: heedful ").replace('"..."', "[MASK]").split()
    assert main(words) == 0
