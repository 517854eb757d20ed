from __future__ import annotations

import hashlib
import math
from pathlib import Path

import pytest
import torch
from judge_models import create_untrained_judge, update_json
from safetensors.torch import load_file, save_file

from heedful.atomic_io import compute_digest
from heedful.errors import RecipeError, RunError
from heedful.foreign.judges import open_judge
from heedful.metrics.judge import JudgeScores, TranslationJudge
from heedful.tasks.portable_model import OutputHead

CPU = torch.device("cpu")
WORDS = ["der", "die", "das", "Hund", "Katze", "Haus", "schläft", "läuft", "rot", "blau"]
REFERENCES = ["der Hund läuft", "die Katze schläft", "das Haus", "rot"]
CANDIDATES = ["der Hund schläft", "die Katze schläft", "", "das rot Haus läuft blau"]
WEIGHTS = "model.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return create_untrained_judge(tmp_path / "tiny-judge", [" ".join(WORDS)])


def said(
    judge: TranslationJudge, candidates: list[str] = CANDIDATES, references: list[str] = REFERENCES
) -> JudgeScores:
    return judge.score_translations(sources=[""] * len(candidates), candidates=candidates, references=references)


def test_one_number_for_each_whatever_stands_beside_it(folder: Path) -> None:
    judge = open_judge(folder, device=CPU)
    together = said(judge).scores
    assert len({round(score, 3) for score in together}) == 4
    alone = [
        said(judge, [candidate], [reference]).scores[0]
        for candidate, reference in zip(CANDIDATES, REFERENCES, strict=True)
    ]
    assert together == pytest.approx(alone, abs=1e-5)
    turned = said(judge, REFERENCES, CANDIDATES).scores
    assert min(abs(one - other) for one, other in zip(together[::2], turned[::2], strict=True)) > 1e-3
    assert said(judge, [], []) == JudgeScores(())


def test_opened_twice_the_same(folder: Path) -> None:
    state = torch.random.get_rng_state()
    first, second = (open_judge(folder, device=CPU) for _ in range(2))
    assert torch.equal(state, torch.random.get_rng_state())
    assert said(first) == said(second)
    assert first.signature == second.signature


def test_the_signature_names_what_decides(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = open_judge(folder, device=CPU)
    parts = dict(part.split(":") for part in judge.signature.split("|"))
    vocabulary = compute_digest(folder / "heedful.vocabulary")
    assert parts == {
        "kind": "bert-regression",
        "model": "tiny-judge",
        "weights": compute_digest(folder / WEIGHTS)[:12],
        "vocabulary": vocabulary[:12],
        "reads": "reference+candidate",
        "tokens": "40",
    }
    assert (judge.name, judge.metric_name) == ("tiny-judge", "judge: tiny-judge")
    monkeypatch.chdir(folder)
    assert open_judge(Path(), device=CPU).name == "tiny-judge"
    scores = said(judge).scores  # before older versions of safetensors write into the file that the judge has open
    tensors = load_file(folder / WEIGHTS)
    tensors["classifier.bias"] += 1
    save_file(tensors, folder / WEIGHTS)
    again = open_judge(folder, device=CPU)
    assert again.signature != judge.signature
    assert said(again).scores == pytest.approx([score + 1 for score in scores], abs=1e-5)


def test_weights_in_several_files(folder: Path) -> None:
    whole = open_judge(folder, device=CPU)
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = sorted(tensors)
    files = {"b.safetensors": names[::2], "a.safetensors": names[1::2]}
    for file, own in files.items():
        save_file({name: tensors[name] for name in own}, folder / file)
    index = {name: file for file, own in files.items() for name in own}
    update_json(folder / "model.safetensors.index.json", weight_map=index)
    parts = open_judge(folder, device=CPU)
    assert said(parts) == said(whole)
    told = "".join(f"{compute_digest(folder / name)}  {name}\n" for name in sorted(files))
    assert f"|weights:{hashlib.sha256(told.encode()).hexdigest()[:12]}|" in parts.signature


def test_what_is_too_long_loses_its_end_and_is_counted(folder: Path) -> None:
    judge = open_judge(folder, device=CPU)
    long = " ".join(["der Hund"] * 30)
    once = said(judge, [long, "rot", long], ["blau", "rot", long])
    assert once.num_truncated == 2
    # 40 positions, of which three are begin and ends: one word of the reference leaves 36
    assert once.scores[0] == pytest.approx(said(judge, [" ".join(["der Hund"] * 18)], ["blau"]).scores[0], abs=1e-5)
    assert said(judge, [" ".join(["der Hund"] * 18)], ["blau"]).num_truncated == 0
    update_json(folder / "tokenizer_config.json", model_max_length=8)
    fewer = open_judge(folder, device=CPU)
    assert fewer.signature.endswith("|tokens:8")
    assert said(fewer, [long], ["blau"]).scores[0] == pytest.approx(
        said(judge, ["der Hund der Hund"], ["blau"]).scores[0], abs=1e-5
    )
    update_json(folder / "tokenizer_config.json", model_max_length=1e30)  # as transformers says that it does not know
    assert open_judge(folder, device=CPU).signature == judge.signature


def test_other_heads_beside_it_do_not_disturb(folder: Path) -> None:
    expected = said(open_judge(folder, device=CPU))
    tensors = load_file(folder / WEIGHTS)
    tensors |= {"cls.seq_relationship.weight": torch.ones(2, 16), "cls.seq_relationship.bias": torch.zeros(2)}
    save_file(tensors, folder / WEIGHTS)
    update_json(folder / "config.json", architectures=None)
    assert said(open_judge(folder, device=CPU)) == expected


def test_half_precision_becomes_single(folder: Path) -> None:
    exact = said(open_judge(folder, device=CPU)).scores
    save_file({name: tensor.half() for name, tensor in load_file(folder / WEIGHTS).items()}, folder / WEIGHTS)
    assert said(open_judge(folder, device=CPU)).scores == pytest.approx(exact, abs=0.05)


def test_no_folder_at_all(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("none", "file"):
        with pytest.raises(RecipeError, match=f"{name}: there is no such folder; name one that contains a judge"):
            open_judge(tmp_path / name, device=CPU)
    with pytest.raises(RunError, match="does not contain a judge; take a folder with a BertForSequenceClassification"):
        open_judge(tmp_path, device=CPU)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("hparams.yaml", "COMET model with pickled weights.*score them with comet-score"),
        ("checkpoints/model.ckpt", "COMET"),
        ("bleurt_config.json", "TensorFlow model; take one that was converted to a BertForSequenceClassification"),
        ("saved_model.pb", "TensorFlow"),
        ("manifest.json", "run of heedful; write it with heedful export"),
    ],
)
def test_folders_of_others_are_told_apart(tmp_path: Path, file: str, message: str) -> None:
    path = tmp_path / "model" / file
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x80\x04")  # nobody looks inside
    with pytest.raises(RunError, match=f"model: is a .*{message}"):
        open_judge(tmp_path / "model", device=CPU)


def without(folder: Path, *names: str, **others: torch.Tensor) -> None:
    tensors = {name: each for name, each in load_file(folder / WEIGHTS).items() if name not in names}
    save_file({**tensors, **{name.replace("_", "."): each for name, each in others.items()}}, folder / WEIGHTS)


def test_what_is_no_judge(folder: Path, tmp_path: Path) -> None:
    three = create_untrained_judge(tmp_path / "three", [" ".join(WORDS)], head=OutputHead("class", ("a", "b", "c")))
    with pytest.raises(RunError, match="three: its classifier has 3 outputs, and a judge has one; take a Bert"):
        open_judge(three, device=CPU)
    for key, value, message in (
        (
            "architectures",
            ["BertForMultipleChoice"],
            r"architectures = \['BertForMultipleChoice'\]: this is not a judge",
        ),
        ("model_type", "gpt2", "config.json: model_type = 'gpt2': judges have 'bert'; take"),
        ("model_type", "reformer", "model_type = 'reformer': heedful reads bert"),
    ):
        before = (folder / "config.json").read_text()
        update_json(folder / "config.json", **{key: value})
        with pytest.raises(RunError, match=message):
            open_judge(folder, device=CPU)
        (folder / "config.json").write_text(before)


def test_what_is_damaged(folder: Path) -> None:
    weights = (folder / WEIGHTS).read_bytes()
    without(folder, "classifier.weight", "classifier.bias")
    with pytest.raises(RunError, match=r"does not contain tensor classifier\.weight, which turns a text into a number"):
        open_judge(folder, device=CPU)
    (folder / WEIGHTS).write_bytes(weights)
    without(folder, "bert.pooler.dense.weight", "bert.pooler.dense.bias")
    with pytest.raises(RunError, match=r"does not contain tensor bert\.pooler\.dense\.weight; take a complete copy"):
        open_judge(folder, device=CPU)
    (folder / WEIGHTS).write_bytes(weights)
    without(folder, classifier_weight=torch.full((1, 16), math.nan))
    with pytest.raises(RunError, match="tiny-judge: gives nan for sentence 1, which is not a score; take another copy"):
        said(open_judge(folder, device=CPU))
    (folder / WEIGHTS).write_bytes(weights[:100])
    with pytest.raises(RunError, match="cannot be read"):
        open_judge(folder, device=CPU)
    (folder / WEIGHTS).unlink()
    with pytest.raises(RunError, match=r"tiny-judge: does not contain model\.safetensors; take a complete copy"):
        open_judge(folder, device=CPU)
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04")
    with pytest.raises(
        RunError, match=r"not read pickled weights.*AutoModelForSequenceClassification\.from_pretrained"
    ):
        open_judge(folder, device=CPU)


@pytest.mark.parametrize("value", ["many", 4, -1, math.nan])
def test_a_length_that_is_none(folder: Path, value: object) -> None:
    update_json(folder / "tokenizer_config.json", model_max_length=value)
    with pytest.raises(
        RunError, match=r"tokenizer_config\.json: model_max_length = .*: a judge reads at least 5 tokens"
    ):
        open_judge(folder, device=CPU)


def test_no_vocabulary(folder: Path) -> None:
    (folder / "heedful.vocabulary").unlink()
    with pytest.raises(RunError, match=r"does not contain a vocabulary; it needs tokenizer\.json, or vocab\.txt"):
        open_judge(folder, device=CPU)
