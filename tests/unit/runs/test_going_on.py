"""Translation runs that begin with another model: weights, vocabularies old and new, rehearsal, what does not fit."""

from __future__ import annotations

import json
import shutil
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from untrained_runs import create_untrained_run

import heedful
from heedful.__main__ import main
from heedful.data.word_vectors import VocabularyMapping
from heedful.errors import DataError, HeedfulError, RecipeError, RunError
from heedful.recipes.error_messages import find_risks
from heedful.runs.export import export_hugging_face
from heedful.runs.initialization import create_run, find_vocabulary_parameters, init_model
from heedful.runs.load import open_run
from heedful.runs.prepare import open_corpus
from heedful.runs.resolve import fit_recipe, open_predecessor, resolve_recipe
from heedful.runs.train import train
from heedful.training.callbacks import Callback, StepMetrics, ValidationResult

CPU = torch.device("cpu")
SITTING = """\
[training]
steps = 4
batch_tokens = 150
schedule = { kind = "constant", rate = 1e-2 }
precision = "fp32"
evaluate_every = 2
threads = 1
"""


@pytest.fixture
def going(tmp_path: Path) -> Callable[..., Path]:
    """A recipe that begins with a run, and learns new words beside old ones."""
    for part, count in (("train", 60), ("validation", 8)):
        words = ("eins", "zwei", "drei")
        pairs = [(f"{n % 7} plus {n % 5}", f"{'abc'[n % 3]} und {words[n % 3]}") for n in range(count)]
        (tmp_path / f"{part}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))

    def write(init: Path, tables: str = "", *, data: str = "") -> Path:
        path = tmp_path / "going.toml"
        path.write_text(
            f'init = "{init}"\noutput = "{tmp_path / "new"}"\nseed = 5\n[data]\ntrain = {{ path = "train.tsv" }}\n'
            f'validation = {{ path = "validation.tsv" }}\nmax_length = 16\n{data}\n{tables}\n{SITTING}'
        )
        return path

    return write


def begun(path: Path, *words: str) -> tuple[dict[str, Tensor], list[str], Any]:
    """The parameters that training would begin with, what is said about them, and the run."""
    said: list[str] = []
    resolved = resolve_recipe(heedful.load_recipe(path, list(words)))
    run = create_run(resolved.recipe.output, resolved.recipe, resolved.origin)
    model = init_model(run, resolved.origin, log=said.append)
    return {name: parameter.detach() for name, parameter in model.named_parameters()}, said, run


MODELS: dict[str, dict[str, Any]] = {
    "three-way": {},
    "two tables": {"tie": "two_way"},
    "apart, biased": {"tie": "none", "output_bias": True, "residual": "pre_norm"},
    "learned positions": {"positions": {"kind": "learned", "length": 17}, "tie": "two_way"},
    "recurrent": {"kind": "recurrent", "heads": None, "d_ff": None, "tie": "none"},
    "convolutional": {"kind": "convolutional", "heads": None, "d_ff": None, "positions_length": 20},
}


@pytest.fixture(params=MODELS)
def old(request: pytest.FixtureRequest, small: Path) -> Path:
    """A run of each family, with weights that nobody trained."""
    given = {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 1} | MODELS[request.param]
    model = {key: value for key, value in given.items() if value is not None}
    return _old(small, model, joint=model.get("tie", "three_way") == "three_way")


def _old(small: Path, model: dict[str, Any], *, joint: bool) -> Path:
    text = {"source": str(small.parent / "train.en"), "target": str(small.parent / "train.de")}
    return create_untrained_run(
        {
            "output": str(small.parent / "old"),
            "data": {"train": text, "validation": text, "max_length": 16},
            "tokenizer": {"kind": "words", "joint": joint},
            "model": model,
            "training": {"steps": 1},
        }
    )


def test_all_weights_and_both_vocabularies_are_taken_over(old: Path, going: Callable[..., Path]) -> None:
    weights, said, run = begun(going(old))
    origin = open_predecessor(old)
    assert weights.keys() == origin.tensors.keys()
    assert all(torch.equal(weights[name], origin.tensors[name]) for name in weights)
    assert [text for text in said if "taken over" in text] == said
    assert "new: nothing; not used: nothing" in said[0]
    joint = open_run(old).recipe.tokenizer.joint
    given = {"kind": "given", "joint": joint, "lowercase": False, "normalization": "nfkc"}
    assert run.recipe.tokenizer.model_dump() == given
    for file, tokenizer in zip(run.task.tokenizer_files, origin.tokenizers, strict=True):
        assert run.get_tokenizer(file).encode("1 2 drei vier neu") == tokenizer.encode("1 2 drei vier neu")
    assert resolve_recipe(run.recipe).recipe == run.recipe


def test_each_table_of_a_new_vocabulary_descends_from_its_own(old: Path, going: Callable[..., Path]) -> None:
    weights, said, run = begun(going(old, '[tokenizer]\nkind = "words"'))
    origin = open_predecessor(old)
    found = find_vocabulary_parameters(run)
    tables = {name for name in weights if weights[name].shape != origin.tensors[name].shape}
    assert tables
    assert tables <= found.keys()
    assert found.keys() == {name for name in weights if ".embedding.table." in name or name.startswith("output.")}
    for name, weight in weights.items():
        if name not in found:
            assert torch.equal(weight, origin.tensors[name]), name
            continue
        side = 0 if name.startswith("encoder.") and not run.recipe.tokenizer.joint else 1
        descent = VocabularyMapping.from_tokenizers(
            [origin.tokenizers[side]], run.get_tokenizer(run.task.tokenizer_files[side])
        )
        torch.testing.assert_close(weight, descent.map_rows(origin.tensors[name]))
    assert sum("the new vocabulary" in text for text in said) == (1 if run.recipe.tokenizer.joint else 2)
    assert run.recipe.tokenizer.joint == open_run(old).recipe.tokenizer.joint, "unless somebody says something else"
    assert resolve_recipe(run.recipe).recipe == run.recipe


def test_known_words_keep_their_vectors_and_others_are_counted(trained: Path, going: Callable[..., Path]) -> None:
    weights, said, run = begun(going(trained, '[tokenizer]\nkind = "words"'))
    origin = open_predecessor(trained)
    new, was = run.tokenizer, origin.tokenizers[1]
    (name,) = find_vocabulary_parameters(run)
    for word in ("1", "drei", "eins"):
        assert torch.equal(weights[name][new.encode(word)[0]], origin.tensors[name][was.encode(word)[0]])
    unknown = origin.tensors[name][4:].mean(0)
    torch.testing.assert_close(weights[name][new.encode("plus")[0]], unknown)
    fresh_words = {"plus", "und", "a", "b", "c"}
    assert (
        f"the new vocabulary: {new.size - 5} pieces kept, 0 started from their parts, {len(fresh_words)} new" == said[0]
    )


def test_two_tables_may_come_to_share_a_vocabulary_each_from_its_own(small: Path, going: Callable[..., Path]) -> None:
    old = _old(small, {"d_model": 16, "heads": 2, "layers": 1, "tie": "two_way"}, joint=False)
    weights, said, run = begun(going(old, '[tokenizer]\nkind = "words"\njoint = true'))
    origin = open_predecessor(old)
    source = run.get_tokenizer("tokenizer/source")
    assert (run.tokenizer.sha256, source.uses_nfkc_first) == (source.sha256, True)
    for name, side in (("encoder.stack.embedding.table.weight", 0), ("decoder.stack.embedding.table.weight", 1)):
        descent = VocabularyMapping.from_tokenizers([origin.tokenizers[side]], run.tokenizer)
        torch.testing.assert_close(weights[name], descent.map_rows(origin.tensors[name]))
    assert len(said) == 3


def test_word_vectors_that_a_model_began_with_have_learned_on(small: Path, going: Callable[..., Path]) -> None:
    (small.parent / "vectors.txt").write_text(f"drei {' '.join(['0.5'] * 16)}\n")
    vectors = {"target_vectors": str(small.parent / "vectors.txt"), "freeze_vectors": True}
    old = _old(small, {"d_model": 16, "heads": 2, "layers": 1, **vectors}, joint=True)
    weights, _, run = begun(going(old))
    origin = open_predecessor(old).tensors
    assert all(torch.equal(weights[name], origin[name]) for name in weights)
    assert (run.recipe.model.target_vectors, run.recipe.model.freeze_vectors) == (None, False)


def test_case_is_folded_as_it_was_unless_somebody_says_something_else(small: Path, going: Callable[..., Path]) -> None:
    folded = heedful.load_recipe(small, ["--tokenizer.lowercase", "true", "--training.steps", "1"])
    old = train(folded, device="cpu").folder
    words = '[tokenizer]\nkind = "words"'
    for table, expected in (("", True), (words, True), (f"{words}\nlowercase = false", False)):
        recipe = resolve_recipe(heedful.load_recipe(going(old, table))).recipe
        assert recipe.tokenizer.model_dump()["lowercase"] is expected


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"], ids=["Marian", "BART"])
@pytest.mark.parametrize("table", ["", '[tokenizer]\nkind = "words"'], ids=["given", "anew"])
def test_folders_of_hugging_face_are_begun_with(
    small: Path, going: Callable[..., Path], tmp_path: Path, positions: str, table: str
) -> None:
    more: dict[str, Any] = {"positions": {"kind": positions}}
    if positions == "learned":
        more = {"positions": {"kind": "learned", "length": 20, "offset": 2}, "embedding_norm": True}
    old = _old(small, {"d_model": 16, "heads": 2, "layers": 1, **more}, joint=True)
    export_hugging_face(old, tmp_path / "theirs")
    weights, said, run = begun(going(tmp_path / "theirs", table))
    origin = open_predecessor(old)
    tables = find_vocabulary_parameters(run) if table else {}
    for name in weights.keys() & origin.tensors.keys() - tables.keys():
        torch.testing.assert_close(weights[name], origin.tensors[name], msg=name)
    assert len(said) == (2 if table else 1)
    found = train(heedful.load_recipe(going(tmp_path / "theirs", table)), device="cpu").folder
    assert heedful.load(found, device="cpu").translate(["1 2 plus"])[0].text is not None


def test_an_adapted_run_translates_is_adapted_again_and_needs_its_init_no_more(
    trained: Path, going: Callable[..., Path], tmp_path: Path
) -> None:
    init = tmp_path / "init"
    shutil.copytree(trained, init)
    outcome = train(heedful.load_recipe(going(init, "", data=""), ["--training.monitor", "bleu"]), device="cpu")
    shutil.rmtree(init)
    translator = heedful.load(outcome.folder, device="cpu", kind=heedful.Translator)
    sides = translator.source.sha256, translator.target.sha256
    assert sides[0] == sides[1], "one vocabulary for both languages, as it was"
    assert translator.translate(["1 2"])[0].text is not None
    shutil.move(outcome.folder, init)
    weights, _, _ = begun(going(init, "[tokenizer]\nsize = 60"), "--training.steps", "9")
    assert weights


def test_dropout_may_change_and_is_kept(trained: Path, going: Callable[..., Path]) -> None:
    found = resolve_recipe(heedful.load_recipe(going(trained), ["--model.dropout", "0.4"])).recipe
    assert (found.model.model_dump()["dropout"], found.model.model_dump()["d_model"]) == (0.4, 16)


BAD = [
    (["--model.d_model", "32"], r"model.d_model = 32: init = .* has 16, and its weights fit no other value; leave"),
    (["--model.kind", "recurrent"], r'model.kind = "recurrent": init = .* is of the kind "transformer"; leave'),
    (["--init", "nowhere"], r"init = .*nowhere: no such folder; give the folder of a run"),
    (["--init", "none", "--tokenizer.kind", "given"], r'tokenizer.kind = "given": needs init'),
    (
        ["--tokenizer.kind", "given", "--tokenizer.joint", "false"],
        r"tokenizer.joint: init = .* has true, and its vocabulary is given; leave it out",
    ),
    (["--tokenizer.kind", "words", "--tokenizer.joint", "false"], r'model.tie = "three_way" needs one vocabulary'),
    (["--data.rehearse", '{ path = "a", share = 1 }'], r"data.rehearse.share = 1 must be below 1"),
    (["--data.rehearse", '{ path = "a", share = 0.0 }'], r"data.rehearse.share = 0.0 must be above 0"),
    (["--data.rehearse.share", "0.5"], r"data.rehearse is not complete: give source and target"),
    (["--training.freeze", "decoder"], r"training.freeze = .decoder."),
    (["--training.layer_decay", "0"], r"training.layer_decay = 0 must be above 0"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_what_does_not_fit_is_refused_in_a_sentence(
    trained: Path, going: Callable[..., Path], words: list[str], message: str
) -> None:
    path = going(trained)
    with pytest.raises(HeedfulError, match=message):
        resolve_recipe(heedful.load_recipe(path, words))


def test_other_models_are_no_translators(pretrained: Path, going: Callable[..., Path]) -> None:
    with pytest.raises(RecipeError, match=r'is an encoder, and task = "translation" needs a model that translates'):
        resolve_recipe(heedful.load_recipe(going(pretrained)))


def test_a_translator_of_more_than_two_texts_is_none(
    trained: Path, going: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one is that talks: it has one vocabulary, for all that is said."""
    found = open_predecessor(trained)
    one = replace(found, tokenizers=found.tokenizers[:1])
    monkeypatch.setattr("heedful.runs.resolve.open_predecessor", lambda _: one)
    with pytest.raises(RecipeError, match=r"has 1 vocabularies of text instead of 2, and task = .translation. needs a"):
        resolve_recipe(heedful.load_recipe(going(trained)))


def test_a_model_of_shorter_sentences_is_refused(small: Path, going: Callable[..., Path]) -> None:
    old = _old(
        small, {"d_model": 16, "heads": 2, "layers": 1, "positions": {"kind": "learned", "length": 17}}, joint=True
    )
    with pytest.raises(RecipeError, match=r"model.positions.length = 17 must be above data.max_length = 17"):
        resolve_recipe(heedful.load_recipe(going(old), ["--data.max_length", "17"]))


# --- what training does with them ---------------------------------------------------------------------------


def rehearsing(small: Path, going: Callable[..., Path], init: Path, *, share: float = 0.5) -> Path:
    old = f'{{ source = "{small.parent}/train.en", target = "{small.parent}/train.de", share = {share} }}'
    return going(init, '[tokenizer]\nkind = "words"', data=f"rehearse = {old}")


def test_rehearsed_text_is_in_the_vocabulary_in_batches_and_in_the_record(
    small: Path, trained: Path, going: Callable[..., Path]
) -> None:
    said: list[str] = []
    folder = train(heedful.load_recipe(rehearsing(small, going, trained)), device="cpu", say=said.append).folder
    run = open_run(folder)
    assert {"neun", "plus"} <= {*run.tokenizer.to_pieces(range(run.tokenizer.size))}
    assert any("120 of these are from data.rehearse, 50% of each epoch" in text for text in said)
    about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert about["data"]["train"]["files"] == ["train.tsv", "train.en", "train.de"]
    assert about["examples"]["train"]["kept"] == 180
    corpora = [open_corpus(run, part, log=said.append) for part in ("train", "validation")]
    task = run.task.build_objective(run, *corpora, device=CPU)
    tokens = corpora[0]["target"].lengths
    plans = [np.concatenate(task.plan_epoch(epoch)) for epoch in range(4)]
    assert {*np.concatenate(plans)} == {*range(180)}, "all that is old has come by then"
    for rows in plans:
        assert sorted(rows[rows < 60]) == list(range(60))
        # about as many pairs as make half of the tokens; lengths differ
        assert tokens[rows[rows >= 60]].sum() / tokens[rows].sum() == pytest.approx(0.5, abs=0.05)


def test_a_run_that_rehearses_goes_on_byte_for_byte(small: Path, trained: Path, going: Callable[..., Path]) -> None:
    path, whole = rehearsing(small, going, trained, share=0.4), ["--training.steps", "12"]
    one = train(heedful.load_recipe(path, [*whole, "--output", str(path.parent / "one")]), device="cpu").folder
    for count in ("5", "12"):
        two = train(heedful.load_recipe(path, ["--training.steps", count]), device="cpu").folder
    last = "checkpoints/step-00000012.safetensors"
    assert (one / last).read_bytes() == (two / last).read_bytes()


def test_another_share_is_another_run(small: Path, trained: Path, going: Callable[..., Path]) -> None:
    train(heedful.load_recipe(rehearsing(small, going, trained)), device="cpu")
    with pytest.raises(RunError, match=r"whose recipe differs in data.rehearse.share"):
        train(heedful.load_recipe(rehearsing(small, going, trained, share=0.25)), device="cpu")


def test_rehearsed_text_may_move_and_must_be_there(
    small: Path, trained: Path, going: Callable[..., Path], tmp_path: Path
) -> None:
    path = rehearsing(small, going, trained)
    train(heedful.load_recipe(path), device="cpu")
    for side in ("en", "de"):
        shutil.copy(small.parent / f"train.{side}", tmp_path / f"moved.{side}")
    moved = [f"--data.rehearse.{key}={tmp_path}/moved.{side}" for key, side in (("source", "en"), ("target", "de"))]
    train(heedful.load_recipe(path, [*moved, "--training.steps", "6"]), device="cpu")
    (tmp_path / "moved.de").unlink()
    with pytest.raises(DataError, match=r"moved\.de: there is no such file"):
        train(heedful.load_recipe(path, [*moved, "--training.steps", "8"]), device="cpu")


def test_the_other_model_is_opened_once_and_freed(
    trained: Path, going: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[weakref.ref[Any]] = []
    was_freed: list[bool] = []

    def open_counted(folder: Path) -> Any:
        origin = open_predecessor(folder)
        opened.append(weakref.ref(origin))
        return origin

    class Watcher(Callback):
        def on_step_end(self, update: StepMetrics) -> None:
            was_freed.append(opened[0]() is None)

        def on_evaluate(self, evaluation: ValidationResult) -> None: ...

    monkeypatch.setattr("heedful.runs.resolve.open_predecessor", open_counted)
    train(heedful.load_recipe(going(trained)), device="cpu", listeners=[Watcher()])
    assert len(opened) == 1
    assert was_freed
    assert all(was_freed), "its weights take no memory while this model is trained"


@pytest.mark.parametrize("freeze", ["embeddings", "1", "encoder"])
def test_what_is_frozen_keeps_its_weights(small: Path, going: Callable[..., Path], freeze: str) -> None:
    old = _old(small, {"d_model": 16, "heads": 2, "encoder_layers": 3, "decoder_layers": 2}, joint=True)
    outcome = train(heedful.load_recipe(going(old), ["--training.freeze", freeze]), device="cpu")
    now, before = open_predecessor(outcome.folder).tensors, open_predecessor(old).tensors
    still = {name for name in now if torch.equal(now[name], before[name])}
    lowest = {name for name in now if ".embedding." in name}
    expected = {
        "embeddings": lowest,
        "1": lowest | {name for name in now if ".layers.0." in name},
        "encoder": {name for name in now if name.startswith("encoder.")},
    }
    assert still == expected[freeze]


@pytest.mark.parametrize(
    ("freeze", "message"),
    [("1", r"training.freeze = 1: no parameter of this model would be trained; freeze less"), ("2", "has 1 layers")],
)
def test_something_must_be_left_to_learn(trained: Path, going: Callable[..., Path], freeze: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        train(heedful.load_recipe(going(trained), ["--training.freeze", freeze]), device="cpu")


def test_lower_layers_of_both_stacks_learn_less(small: Path, going: Callable[..., Path]) -> None:
    shape = {"d_model": 16, "heads": 2, "encoder_layers": 3, "decoder_layers": 2, "tie": "none"}
    old = _old(small, shape, joint=True)
    few = ["--training.layer_decay=1e-2", "--training.steps=1", "--training.evaluate_every=1"]
    after = open_predecessor(train(heedful.load_recipe(going(old), few), device="cpu").folder).tensors
    before = open_predecessor(old).tensors

    def moved(name: str) -> float:
        return float((after[name] - before[name]).abs().max())

    # Adam's first step is the learning rate itself, 1e-2 in the head; sums of fp32 are right to 1e-7
    assert moved("output.weight") == pytest.approx(1e-2, rel=1e-2)
    assert moved("encoder.stack.layers.2.feed_forward.inner.weight") == pytest.approx(1e-4, rel=1e-2)
    assert moved("decoder.stack.layers.1.feed_forward.inner.weight") == pytest.approx(1e-4, rel=1e-2)
    assert moved("encoder.stack.layers.1.feed_forward.inner.weight") == pytest.approx(1e-6, rel=0.2)
    assert moved("decoder.stack.layers.0.feed_forward.inner.weight") == pytest.approx(1e-6, rel=0.2)


def test_frozen_embeddings_of_new_pieces_are_a_risk(trained: Path, going: Callable[..., Path]) -> None:
    path = going(trained, '[tokenizer]\nkind = "words"')
    assert list(find_risks(heedful.load_recipe(path))) == []
    (told,) = find_risks(heedful.load_recipe(path, ["--training.freeze", "embeddings"]))
    kept = 'training.freeze = "embeddings" keeps the initial values of new pieces of the vocabulary; leave it'
    assert told.startswith(kept)
    assert list(find_risks(heedful.load_recipe(going(trained), ["--training.freeze", "1"]))) == []


def test_what_is_left_open_suits_a_model_that_goes_on(old: Path, going: Callable[..., Path]) -> None:
    """Whatever its family; its shape is not touched."""
    path = going(old, "[tokenizer]")
    text = path.read_text().replace('schedule = { kind = "constant", rate = 1e-2 }\n', "")
    path.write_text(text)
    known = resolve_recipe(heedful.load_recipe(path)).recipe
    found = fit_recipe(known, device=CPU)
    assert found.model == known.model
    assert found.tokenizer.model_dump()["size"] == 2000
    assert found.training.schedule.kind == "linear"
    path.write_text(text.replace("[tokenizer]", ""))
    given = fit_recipe(resolve_recipe(heedful.load_recipe(path)).recipe, device=CPU)
    assert given.tokenizer.kind == "given"
    assert 0 < given.training.schedule.rate < found.training.schedule.rate, "new pieces have more to learn"


def test_a_model_that_goes_on_learns_more_slowly_than_one_that_begins(small: Path, going: Callable[..., Path]) -> None:
    shape = {"d_model": 16, "heads": 2, "d_ff": 24, "encoder_layers": 1, "decoder_layers": 1, "residual": "pre_norm"}
    path = going(_old(small, shape, joint=True))
    path.write_text(path.read_text().replace('schedule = { kind = "constant", rate = 1e-2 }\n', ""))
    on = fit_recipe(resolve_recipe(heedful.load_recipe(path)).recipe, device=CPU)
    path.write_text(path.read_text().replace("init = ", "#"))
    anew = fit_recipe(heedful.load_recipe(path, [f"--model.{key}={value}" for key, value in shape.items()]), device=CPU)
    assert 0 < on.training.schedule.rate < anew.training.schedule.rate


def test_what_was_chosen_stays_when_a_run_that_began_with_another_goes_on(
    trained: Path, going: Callable[..., Path]
) -> None:
    path, said = going(trained, "[tokenizer]"), list[str]()
    path.write_text(path.read_text().replace('schedule = { kind = "constant", rate = 1e-2 }\n', ""))
    folder = train(heedful.load_recipe(path), device="cpu").folder
    before = open_run(folder).recipe
    again = heedful.load_recipe(path, ["--training.steps", "6", "--training.minutes", "900"])
    train(again, device="cpu", say=said.append)
    assert said[0] == "resuming this run"
    assert open_run(folder).recipe == before


def test_it_is_described_before_it_is_trained(
    trained: Path, going: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    count = sum(tensor.numel() for tensor in open_predecessor(trained).tensors.values())
    assert main(["describe", str(going(trained))]) == 0
    assert f"parameters  {count:,} " in capsys.readouterr().out
    words = going(trained, '[tokenizer]\nkind = "words"')
    old = open_predecessor(trained).tokenizers[0].size
    assert main(["describe", str(words), "--tokenizer.size", "60"]) == 0
    assert f"parameters  {count + (60 - old) * 16:,} " in capsys.readouterr().out
    assert main(["describe", str(words)]) == 2
    assert "the size of a vocabulary of all words depends on the text; set it with" in capsys.readouterr().err


ADAPTED = {
    "lora": ("--training.adapter.rank=2", "--training.adapter.on", '["query", "value", "feed_forward"]'),
    "bottleneck": ("--training.adapter.kind=bottleneck", "--training.adapter.width=3"),
}


@pytest.mark.parametrize("kind", ADAPTED)
def test_a_translator_may_learn_an_adapter_alone(kind: str, trained: Path, going: Callable[..., Path]) -> None:
    """Which is all that is stored, in both stacks; the model that is adapted stays what it was."""
    recipe = heedful.load_recipe(going(trained), list(ADAPTED[kind]))
    run = heedful.train(recipe, device="cpu").folder
    own = load_file(run / "model.safetensors")
    assert {name.partition(".")[0] for name in own} == {"encoder", "decoder"}
    assert all(".lora." in name or ".behind." in name for name in own)
    model = heedful.load(run, kind=heedful.Translator, device="cpu")
    base = heedful.load(trained, kind=heedful.Translator, device="cpu")
    pairs = [("1 plus 2", "a und zwei"), ("3 plus 4", "b und drei")]
    better = [after.log_probability - before.log_probability
              for after, before in zip(model.score(pairs), base.score(pairs), strict=True)]  # fmt: skip
    assert min(better) > 0.1, "of what it has learned it knows more than the model that it adapts"
    worn = heedful.load(trained, kind=heedful.Translator, device="cpu", adapter=run)
    for one, other in zip(worn.score(pairs), model.score(pairs), strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)  # products of either order


def test_an_adapter_leaves_no_room_for_new_words(trained: Path, going: Callable[..., Path]) -> None:
    path = going(trained, "[tokenizer]\nsize = 60\n")
    with pytest.raises(RecipeError, match=r"tokenizer: the vectors of a new vocabulary must be trained"):
        heedful.train(heedful.load_recipe(path, list(ADAPTED["lora"])), device="cpu")
