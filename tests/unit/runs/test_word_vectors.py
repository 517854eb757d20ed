"""Embeddings that start from vectors somebody else trained."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from heedful.data.tokenizers import Tokenizer, WordTokenizer, learn_sentencepiece
from heedful.errors import DataError, RecipeError
from heedful.recipes.load import load_recipe
from heedful.runs.checkpoints import read_weights
from heedful.runs.initialization import init_model as fresh_of
from heedful.runs.load import open_run
from heedful.runs.train import train
from heedful.tasks.task import Run
from heedful.tasks.translation.recipe import TranslationRecipe
from heedful.tasks.translation.task import SOURCE_TOKENIZER, TARGET_TOKENIZER

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
    return {piece: number for number, piece in enumerate(tokenizer.to_pieces(range(tokenizer.size)))}


@pytest.mark.parametrize("tie", ["three_way", "two_way", "none"])
def test_known_words_start_from_their_vectors_and_the_rest_stays_random(tmp_path: Path, tie: str) -> None:
    """Directions and relative lengths are kept; the mean square of the lengths becomes 1, that of random rows."""
    vectors = {word: torch.randn(D_MODEL) * 3 for word in ("dog", "house", "unheard")}
    path = write(tmp_path / "v", vectors)
    tokenizer = WordTokenizer(WORDS, lowercase=False)
    run = Run(
        tmp_path,
        recipe(tmp_path, tie=tie, source_vectors=path),
        {SOURCE_TOKENIZER: tokenizer, TARGET_TOKENIZER: tokenizer},
    )
    model, before = run.init_model(), run.init_model()
    said: list[str] = []
    run.task.init_weights(run, model, log=said.append)
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
    tokenizer = WordTokenizer(WORDS, lowercase=False)
    run = Run(
        tmp_path, recipe(tmp_path, tie="none", **paths), {SOURCE_TOKENIZER: tokenizer, TARGET_TOKENIZER: tokenizer}
    )
    model, row = run.init_model(), in_order(tokenizer)["dog"]
    run.task.init_weights(run, model, log=lambda _: None)
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
    run = Run(
        tmp_path, recipe(tmp_path, source_vectors=path), {SOURCE_TOKENIZER: tokenizer, TARGET_TOKENIZER: tokenizer}
    )
    model, before = run.init_model(), run.init_model()
    run.task.init_weights(run, model, log=lambda _: None)
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
    fresh = fresh_of(opened, log=lambda _: None).encoder.stack.embedding.table.weight.detach()
    train(load_recipe(small, words), device="cpu")
    found = read_weights(run, step=12)["encoder.stack.embedding.table.weight"]
    ids = in_order(opened.get_tokenizer(SOURCE_TOKENIZER))
    frozen = [ids[str(digit)] for digit in range(0, 10, 2)]
    torch.testing.assert_close(found[frozen], fresh[frozen], rtol=0, atol=0)
    learned = [ids[str(digit)] for digit in range(1, 10, 2)]
    assert (found[learned] != fresh[learned]).any(1).all()


def test_vectors_that_are_not_frozen_learn(small: Path) -> None:
    path = write(small.parent / "v", {"2": torch.randn(16)})
    run = train(load_recipe(small, ["--model.source_vectors", str(path)]), device="cpu").folder
    opened = open_run(run)
    fresh = fresh_of(opened, log=lambda _: None).encoder.stack.embedding.table.weight.detach()
    found = read_weights(run, step=12)["encoder.stack.embedding.table.weight"]
    assert (found != fresh).any(1)[in_order(opened.get_tokenizer(SOURCE_TOKENIZER))["2"]]


def test_a_file_without_any_known_word_freezes_nothing(small: Path) -> None:
    path = write(small.parent / "v", {"unheard": torch.randn(16)})
    words = ["--model.source_vectors", str(path), "--model.freeze_vectors", "--training.steps", "1"]
    said: list[str] = []
    train(load_recipe(small, words), device="cpu", say=said.append)
    assert any(line.startswith("0 of ") for line in said)


# --- other tasks ------------------------------------------------------------------------------------------------------

TASKS = {
    "tagging-recurrent": ('task = "tagging"\nmodel.kind = "recurrent"\n', "t.tsv"),
    "tagging-transformer": ('task = "tagging"\n', "t.tsv"),
    "classification-recurrent": ('task = "classification"\nmodel.kind = "recurrent"\n', "c.tsv"),
    "classification-conditional": ('task = "classification"\nmodel.kind = "conditional"\n', "p.tsv"),
    "language-recurrent": ('task = "language_modelling"\nmodel.kind = "recurrent"\n', "l.txt"),
    "language-transformer": ('task = "language_modelling"\n', "l.txt"),
}
LEARNING = """
tokenizer.kind = "words"
model.d_model = 8
model.dropout = 0.0
training.steps = STEPS
training.evaluate_every = 4
training.batch_tokens = 60
training.precision = "fp32"
training.threads = 1
training.optimizer.weight_decay = 0.0
training.schedule = { kind = "constant", rate = 1e-2 }
"""


def texts(folder: Path) -> None:
    lines = ["dog cat house", "cat dog", "house house dog cat", "cat house"] * 4
    (folder / "l.txt").write_text("\n".join(lines) + "\n")
    (folder / "t.tsv").write_text(
        "".join(f"{w}\tT{len(w)}\n" if w else "\n" for li in lines for w in [*li.split(), ""])
    )
    (folder / "c.tsv").write_text("text\tlabel\n" + "".join(f"{each}\t{each[0]}\n" for each in lines))
    (folder / "p.tsv").write_text("text\tpair\tlabel\n" + "".join(f"{each}\tdog cat\t{each[0]}\n" for each in lines))


@pytest.mark.parametrize("name", TASKS)
def test_models_of_every_task_keep_the_vectors_that_they_start_from(tmp_path: Path, name: str) -> None:
    texts(tmp_path)
    path = write(tmp_path / "v", {word: torch.randn(8) for word in ("dog", "house")})
    table, file = TASKS[name]
    heads = "model.heads = 2\n" if "transformer" in name else ""
    data = f'data.train.path = "{file}"\ndata.validation.path = "{file}"\n' + (
        'data.train.pair = "pair"\ndata.validation.pair = "pair"\n' if "conditional" in name else ""
    )
    learned, kept = [], []
    for freeze in ("false", "true"):
        recipe_file = tmp_path / "r.toml"
        vectors = f'model.vectors = "v"\nmodel.freeze_vectors = {freeze}\n'
        recipe_file.write_text(table + heads + data + vectors + LEARNING.replace("STEPS", "4"))
        run = train(load_recipe(recipe_file, ["--output", str(tmp_path / freeze)]), device="cpu").folder
        opened = open_run(run)
        said: list[str] = []
        begun = dict(fresh_of(opened, log=said.append).named_parameters())
        assert said == [f"2 of {opened.tokenizer.size} pieces start from {path}"]
        found = read_weights(run, step=4)
        (key,) = (key for key in found if key.endswith("embedding.table.weight"))
        ids = in_order(opened.tokenizer)
        moved = {
            word: float((found[key][ids[word]] - begun[key][ids[word]].detach()).abs().max()) for word in WORDS[:3]
        }
        learned.append(moved["cat"])
        kept.append((moved["dog"], moved["house"]))
    assert min(learned) > 0
    assert min(kept[0]) > 0
    assert kept[1] == (0, 0)


def test_who_begins_with_a_model_does_not_begin_with_its_vectors(tmp_path: Path) -> None:
    """They have learned on; and vectors of one's own do not go with weights of another."""
    texts(tmp_path)
    write(tmp_path / "v", {"dog": torch.randn(8)})
    data = 'data.train.path = "l.txt"\ndata.validation.path = "l.txt"\n'
    first = tmp_path / "first.toml"
    first.write_text(
        f'task = "language_modelling"\nmodel.heads = 2\nmodel.vectors = "v"\n{data}' + LEARNING.replace("STEPS", "4")
    )
    run = train(load_recipe(first, ["--output", str(tmp_path / "first")]), device="cpu").folder
    second = tmp_path / "second.toml"
    second.write_text(
        f'task = "language_modelling"\ninit = "{run}"\n{data}'
        + LEARNING.replace("STEPS", "1").split("dropout = 0.0")[1]
    )
    say: list[str] = []
    made = train(load_recipe(second, ["--output", str(tmp_path / "second")]), device="cpu", say=say.append).folder
    assert open_run(made).recipe.model.word_vectors == {}
    assert not any("pieces start from" in line for line in say)
    with pytest.raises(RecipeError, match=r"model.vectors = .*its weights fit no other value; leave out model.vectors"):
        train(load_recipe(second, ["--output", str(tmp_path / "third"), "--model.vectors", str(tmp_path / "v")]))


def test_what_is_wrong_with_vectors_is_told_in_every_task(tmp_path: Path) -> None:
    texts(tmp_path)
    file = tmp_path / "r.toml"
    file.write_text(
        'task = "tagging"\ndata.train.path = "t.tsv"\ndata.validation.path = "t.tsv"\n' + LEARNING.replace("STEPS", "1")
    )
    with pytest.raises(
        RecipeError, match=r"model\.freeze_vectors = true has nothing to keep: give vectors, or leave it"
    ):
        load_recipe(file, ["--model.freeze_vectors"])
    words = ["--model.freeze_vectors", "--model.vectors", "v", "--training.optimizer.weight_decay", "0.1"]
    with pytest.raises(RecipeError, match=r"would shrink the vectors that model\.freeze_vectors keeps"):
        load_recipe(file, words)
    with pytest.raises(DataError, match=r"nowhere: there is no such file; check model.vectors"):
        train(load_recipe(file, ["--model.vectors", "nowhere", "--output", str(tmp_path / "run")]))
