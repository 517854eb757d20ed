"""Fine-tuned encoders of Hugging Face give the same classes, numbers, tags and answers as in transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import heedful
from heedful.__main__ import main
from heedful.errors import RunError
from heedful.runs.export import export_hugging_face

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed (extra: hf)")

from reference.test_hugging_face import (  # noqa: E402, F401 - a fixture
    _silence_transformers,
    create_bert,
    create_electra,
    create_roberta_prelayernorm,
    write,
)

TEXTS = ["red dogs sleep", "Naïve cats don't sleep , 42", "walking"]
PAIRS = [("red dogs", "cats sleep"), ("walking", "dogs"), ("unwashed cats don't sleep", "42")]
NAMES = {0: "bad", 1: "so-so", 2: "good"}


def compute_logits(model: Any, folder: Path, texts: list[Any]) -> Tensor:
    """Compute the logits of transformers for each text or pair, one by one."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    found = []
    for each in texts:
        parts = (each,) if isinstance(each, str) else each
        with torch.no_grad():
            found.append(model(**tokenizer(*parts, return_tensors="pt")).logits[0])
    return torch.stack(found)


def create_bert_classifier(folder: Path, **options: Any) -> nn.Module:
    return create_bert(folder, "BertForSequenceClassification", id2label=NAMES, **options)


@pytest.mark.parametrize("texts", [TEXTS, PAIRS], ids=["texts", "pairs"])
@pytest.mark.parametrize("problem", [None, "single_label_classification", "multi_label_classification"])
def test_classes(problem: str | None, texts: list[Any], tmp_path: Path) -> None:
    theirs = create_bert_classifier(tmp_path, problem_type=problem)
    ours = heedful.load(tmp_path, kind=heedful.Classifier, device="cpu")
    several = problem == "multi_label_classification"
    told = compute_logits(theirs, tmp_path, texts)
    expected = told.sigmoid() if several else told.softmax(-1)
    assert expected.std() > 1e-2
    for each, chances in zip(ours.classify(texts), expected, strict=True):
        assert list(each.probabilities) == [NAMES[number] for number in chances.argsort(descending=True).tolist()]
        assert each.label == NAMES[int(chances.argmax())]
        found = torch.tensor([each.probabilities[name] for name in NAMES.values()])
        torch.testing.assert_close(found, chances, atol=1e-5, rtol=0)
    assert ours.inspect(texts[0]).answers[0].options[0].probability == pytest.approx(float(expected[0].max()), abs=1e-5)


@pytest.mark.parametrize("problem", [None, "regression"])
def test_a_number(problem: str | None, tmp_path: Path) -> None:
    theirs = create_bert(tmp_path, "BertForSequenceClassification", num_labels=1, problem_type=problem)
    ours = heedful.load(tmp_path, kind=heedful.Classifier, device="cpu")
    expected = compute_logits(theirs, tmp_path, TEXTS)[:, 0].tolist()
    assert [each.label for each in ours.classify(TEXTS)] == pytest.approx(expected, abs=1e-4)


def test_classes_without_names(tmp_path: Path) -> None:
    create_bert(tmp_path, "BertForSequenceClassification", num_labels=4)
    content = json.loads((tmp_path / "config.json").read_text())
    assert content.pop("id2label", None)
    content.pop("label2id")
    write(tmp_path / "config.json", {**content, "num_labels": 4})
    labels = heedful.load(tmp_path, kind=heedful.Classifier, device="cpu").labels
    assert labels is not None
    assert labels.names == ("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3")


def test_candidates(tmp_path: Path) -> None:
    theirs: Any = create_bert(tmp_path, "BertForMultipleChoice")
    ours = heedful.load(tmp_path, kind=heedful.Classifier, device="cpu")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    candidates = ["cats sleep", "dogs", "42 unwashed"]
    rows = tokenizer(["red dogs"] * 3, candidates, return_tensors="pt", padding=True)
    with torch.no_grad():
        expected = theirs(**{name: each.unsqueeze(0) for name, each in rows.items()}).logits[0].softmax(-1)
    (found,) = ours.choose([[("red dogs", each) for each in candidates]])
    assert found.probabilities == pytest.approx(expected.tolist(), abs=1e-5)


TAGGERS: dict[str, Callable[..., nn.Module]] = {
    "BertForTokenClassification": create_bert,
    "ElectraForTokenClassification": create_electra,
    "RobertaPreLayerNormForTokenClassification": create_roberta_prelayernorm,
}


@pytest.mark.parametrize("kind", TAGGERS)
def test_tags(kind: str, tmp_path: Path) -> None:
    theirs: Any = TAGGERS[kind](tmp_path, kind, id2label={0: "O", 1: "B-X", 2: "I-X"})
    if kind.startswith("Roberta"):  # as tagging with this model expects
        write(tmp_path / "tokenizer_config.json", {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True})
    ours = heedful.load(tmp_path, kind=heedful.Tagger, device="cpu")
    words = ["red", "unwashed", "dogs", "sleep"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    row = tokenizer(words, is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        chances = theirs(**row).logits[0].softmax(-1)
    firsts = [row.word_ids().index(number) for number in range(len(words))]
    (found,) = ours.tag([words])
    assert [each.probability for each in found] == pytest.approx(chances[firsts].max(-1).values.tolist(), abs=1e-5)
    assert [each.name for each in found] == [theirs.config.id2label[n] for n in chances[firsts].argmax(-1).tolist()]


@pytest.mark.parametrize(("kind", "make"), [("Bert", create_bert), ("Electra", create_electra)])
def test_answers(kind: str, make: Callable[..., nn.Module], tmp_path: Path) -> None:
    theirs: Any = make(tmp_path, f"{kind}ForQuestionAnswering")
    ours = heedful.load(tmp_path, kind=heedful.QuestionAnsweringPredictor, device="cpu")
    question, context = "red dogs", "unwashed cats don't sleep , walking dogs sleep"
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    row = tokenizer(question, context, return_tensors="pt", return_offsets_mapping=True)
    places = row.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        said = theirs(**row)
    inside = [number for number, part in enumerate(row.sequence_ids()) if part == 1]
    best = max(
        (float(said.start_logits[0, a] + said.end_logits[0, b]), places[a][0], places[b][1])
        for a in inside
        for b in inside
        if a <= b < a + 30
    )
    found = ours.answer(question, context)
    assert found.text == context[best[1] : best[2]]
    assert found.spans[0].score == pytest.approx(best[0], abs=1e-4)


def test_pre_norm_classes(tmp_path: Path) -> None:
    theirs = create_roberta_prelayernorm(tmp_path, "RobertaPreLayerNormForSequenceClassification", id2label=NAMES)
    ours = heedful.load(tmp_path, kind=heedful.Classifier, device="cpu")
    expected = compute_logits(theirs, tmp_path, TEXTS).softmax(-1)
    for each, chances in zip(ours.classify(TEXTS), expected, strict=True):
        found = torch.tensor([each.probabilities[name] for name in NAMES.values()])
        torch.testing.assert_close(found, chances, atol=1e-5, rtol=0)


@pytest.mark.parametrize("problem", ["single_label_classification", "multi_label_classification", "regression"])
def test_an_exported_model_gives_the_same_answers(problem: str, tmp_path: Path) -> None:
    names = {0: "one"} if problem == "regression" else NAMES
    create_bert(tmp_path / "theirs", "BertForSequenceClassification", id2label=names, problem_type=problem)
    export_hugging_face(tmp_path / "theirs", tmp_path / "again")
    before, after = (heedful.load(tmp_path / each, device="cpu").classify(PAIRS) for each in ("theirs", "again"))
    assert before == after
    content = json.loads((tmp_path / "again/config.json").read_text())
    assert content["problem_type"] == problem


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id2label": {"0": "a", "1": "a", "2": "b"}}, "id2label does not give the numbers from 0 different names"),
        ({"id2label": {"0": "a", "2": "b", "3": "c"}}, "id2label does not give the numbers from 0 different names"),
        ({"id2label": ["a", "b", "c"]}, "id2label does not give the numbers from 0 different names"),
        ({"id2label": {"0": "a", "1": "b"}}, "classifier.weight is 3 x 24 but config.json gives 2 outputs of 24"),
        ({"problem_type": "regression"}, "heedful reads models that give one number for a text"),
        ({"architectures": ["BertForQuestionAnswering"]}, "does not contain tensor qa_outputs.weight"),
    ],
)
def test_mismatches_are_reported(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    create_bert_classifier(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    write(tmp_path / "config.json", {**content, **changes})
    with pytest.raises(RunError, match=message):
        heedful.load(tmp_path, device="cpu")


def test_commands_use_the_heads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create_bert_classifier(tmp_path / "classes")
    create_bert(tmp_path / "tags", "BertForTokenClassification", id2label=NAMES)
    assert main(["classify", str(tmp_path / "classes"), "--text", "red dogs", "--device", "cpu"]) == 0
    assert capsys.readouterr().out.split("\t")[0] in NAMES.values()
    assert main(["tag", str(tmp_path / "tags"), "--text", "red dogs", "--device", "cpu"]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["red", "dogs", ""]
    assert main(["tag", str(tmp_path / "classes"), "--text", "red dogs", "--device", "cpu"]) == 2
    assert "is a classifier and not a model that tags words" in capsys.readouterr().err
