"""Embeddings that start from vectors somebody else trained."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from heedful.data.tokenizers import Tokenizer, Words, learn_sentencepiece
from heedful.recipes.load import load_recipe
from heedful.runs.checkpoints import read_weights
from heedful.runs.initial import fresh as fresh_of
from heedful.runs.load import open_run
from heedful.runs.train import train
from heedful.tasks.kind import Run
from heedful.tasks.translation.recipe import TranslationRecipe
from heedful.tasks.translation.run import SOURCE, TARGET

D_MODEL = 8
WORDS = ["dog", "cat", "house", "."]


def recipe(folder: Path, **model: object) -> TranslationRecipe:
    text = {"source": folder / "a", "target": folder / "b"}
    return TranslationRecipe.model_validate(
        {
            "format": 1,
            "output": folder / "run",
            "tokenizer": {"kind": "words"},
            "model": {"d_model": D_MODEL, "heads": 2, "layers": 1, **model},
            "data": {"train": text, "validation": text},
            "training": {"steps": 1},
        }
    )


def write(path: Path, vectors: dict[str, torch.Tensor]) -> Path:
    lines = [" ".join([word, *(f"{x:.6f}" for x in vector.tolist())]) for word, vector in vectors.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def in_order(tokenizer: Tokenizer) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(tokenizer.pieces(range(tokenizer.size)))}


@pytest.mark.parametrize("tie", ["three_way", "two_way", "none"])
def test_known_words_start_from_their_vectors_and_the_rest_stays_random(tmp_path: Path, tie: str) -> None:
    """Directions and relative lengths are kept; the mean square of the lengths becomes 1, that of random rows."""
    vectors = {word: torch.randn(D_MODEL) * 3 for word in ("dog", "house", "unheard")}
    path = write(tmp_path / "v", vectors)
    tokenizer = Words(WORDS, lowercase=False)
    run = Run(tmp_path, recipe(tmp_path, tie=tie, source_vectors=path), {SOURCE: tokenizer, TARGET: tokenizer})
    model, before = run.model(), run.model()
    said: list[str] = []
    run.kind.warm(run, model, say=said.append)
    assert said == [f"2 of {tokenizer.size} pieces start from {path}"]
    ids = in_order(tokenizer)
    table, random = (m.encoder.stack.embedding.table.weight.detach() for m in (model, before))
    rows = [ids["dog"], ids["house"]]
    given = torch.stack([vectors["dog"], vectors["house"]])
    torch.testing.assert_close(table[rows], given / given.square().sum(1).mean().sqrt(), rtol=1e-4, atol=1e-5)
    others = [row for row in range(tokenizer.size) if row not in rows]
    assert torch.equal(table[others], random[others])
    target = model.decoder.stack.embedding.table.weight
    assert (target is model.encoder.stack.embedding.table.weight) == (tie == "three_way")
    assert torch.equal(target, before.decoder.stack.embedding.table.weight) == (tie != "three_way")
    assert (model.output.weight is target) == (tie != "none"), "tied tables are still one"


def test_both_sides_may_have_vectors_of_their_own(tmp_path: Path) -> None:
    ours, theirs = ({"dog": torch.randn(D_MODEL)} for _ in range(2))
    paths = {
        "source_vectors": write(tmp_path / "s", ours),
        "target_vectors": write(tmp_path / "t", theirs),
    }
    tokenizer = Words(WORDS, lowercase=False)
    run = Run(tmp_path, recipe(tmp_path, tie="none", **paths), {SOURCE: tokenizer, TARGET: tokenizer})
    model, row = run.model(), in_order(tokenizer)["dog"]
    run.kind.warm(run, model, say=lambda _: None)
    for stack, vectors in ((model.encoder.stack, ours), (model.decoder.stack, theirs)):
        found = stack.embedding.table.weight[row].detach()
        torch.testing.assert_close(found, vectors["dog"] / vectors["dog"].norm(), rtol=1e-4, atol=1e-5)


def test_the_end_of_a_word_is_not_the_word(tmp_path: Path) -> None:
    """Subwords that begin a word carry a mark; without it a piece is the end of some longer word."""
    texts = ["dog dogs hotdog dog .", "hot cat cats bobcat cat ."] * 20
    tokenizer = learn_sentencepiece(texts, kind="bpe", size=34, lowercase=False)
    ids = in_order(tokenizer)
    assert "▁dog" in ids
    vector = torch.randn(D_MODEL)
    path = write(tmp_path / "v", {"dog": vector, "s": torch.randn(D_MODEL)})
    run = Run(tmp_path, recipe(tmp_path, source_vectors=path), {SOURCE: tokenizer, TARGET: tokenizer})
    model, before = run.model(), run.model()
    run.kind.warm(run, model, say=lambda _: None)
    table, random = (m.encoder.stack.embedding.table.weight.detach() for m in (model, before))
    assert not torch.equal(table[ids["▁dog"]], random[ids["▁dog"]])
    assert torch.equal(table[ids["s"]], random[ids["s"]]), "the s of dogs is not the word s"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("tie", ["three_way", "none"])
def test_frozen_vectors_outlive_two_sittings_while_other_pieces_learn(small: Path, tie: str, precision: str) -> None:
    """Also where the table is the output; the second sitting takes the weights from a checkpoint."""
    path = write(small.parent / "v", {str(digit): torch.randn(16) for digit in range(0, 10, 2)})
    words = ["--model.source_vectors", str(path), "--model.freeze_vectors", "--model.tie", tie]
    words += ["--training.precision", precision, "--training.ema", "0.5"]
    run = train(load_recipe(small, [*words, "--training.steps", "4"]), device="cpu").folder
    opened = open_run(run)
    fresh = fresh_of(opened, say=lambda _: None).encoder.stack.embedding.table.weight.detach()
    train(load_recipe(small, words), device="cpu")
    found = read_weights(run, step=12)["encoder.stack.embedding.table.weight"]
    ids = in_order(opened.text(SOURCE))
    frozen = [ids[str(digit)] for digit in range(0, 10, 2)]
    torch.testing.assert_close(found[frozen], fresh[frozen], rtol=0, atol=0)
    learned = [ids[str(digit)] for digit in range(1, 10, 2)]
    assert (found[learned] != fresh[learned]).any(1).all()


def test_vectors_that_are_not_frozen_learn(small: Path) -> None:
    path = write(small.parent / "v", {"2": torch.randn(16)})
    run = train(load_recipe(small, ["--model.source_vectors", str(path)]), device="cpu").folder
    opened = open_run(run)
    fresh = fresh_of(opened, say=lambda _: None).encoder.stack.embedding.table.weight.detach()
    found = read_weights(run, step=12)["encoder.stack.embedding.table.weight"]
    assert (found != fresh).any(1)[in_order(opened.text(SOURCE))["2"]]


def test_a_file_without_any_known_word_freezes_nothing(small: Path) -> None:
    path = write(small.parent / "v", {"unheard": torch.randn(16)})
    words = ["--model.source_vectors", str(path), "--model.freeze_vectors", "--training.steps", "1"]
    said: list[str] = []
    train(load_recipe(small, words), device="cpu", say=said.append)
    assert any(line.startswith("0 of ") for line in said)
