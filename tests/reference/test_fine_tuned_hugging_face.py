"""Fine-tuned encoders of Hugging Face give the same classes, numbers, tags and answers as in transformers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

import heedful
from heedful.__main__ import main
from heedful.data.encoder_inputs import build_windows, encode_texts
from heedful.data.token_offsets import compute_offsets
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RunError
from heedful.foreign.hugging_face import load_for_inference
from heedful.runs.export import export_hugging_face
from heedful.runs.resolve import open_origin
from heedful.runs.train import train
from heedful.tensors import Tokens

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed (extra: hf)")

from reference.test_hugging_face import (  # noqa: E402, F401 - a fixture
    MODELS_OF_HEADS,
    _silence_transformers,
    batch,
    create_albert,
    create_bert,
    create_electra,
    create_mpnet,
    create_roberta,
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


HEADS = ("SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice")
SLOW_HEADS = ("XLMRoberta", "Camembert", "RobertaPreLayerNorm")
"""Models whose heads take the same way through the code as those of RoBERTa."""


def compute_head_outputs(theirs: Any, ours: Any, kind: str) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield logits and, where both sides define it alike, the loss of ours and theirs for a padded batch."""
    ids, positions = batch(85)
    segments, real = (torch.arange(11) > 3).long().repeat(3, 1), positions >= 0
    inputs = {"input_ids": ids, "attention_mask": real.long()}
    if theirs.config.model_type not in ("distilbert", "mpnet"):
        inputs["token_type_ids"] = segments
    logits = ours.output(ours(Tokens(ids, positions, segments)))
    if kind == "QuestionAnswering":
        found = theirs(**inputs)
        yield logits[real], torch.stack((found.start_logits, found.end_logits), -1)[real]
        return
    if kind == "TokenClassification":
        labels = torch.where(real, ids % 3, -100)
        found = theirs(**inputs, labels=labels)
        yield logits[real], found.logits[real]
        yield functional.cross_entropy(logits[real], labels[real]), found.loss
        return
    if kind == "MultipleChoice":
        logits, labels = logits.T, torch.tensor([2])
        inputs = {name: each.unsqueeze(0) for name, each in inputs.items()}
    else:
        labels = torch.tensor([2, 0, 1])
    found = theirs(**inputs, labels=labels)
    yield logits, found.logits
    yield functional.cross_entropy(logits, labels), found.loss


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW_HEADS else ()) for name in MODELS_OF_HEADS]
)
def test_every_head_both_ways(name: str, kind: str, tmp_path: Path) -> None:
    """Heads compute the same numbers, and an export has the same tensors, bit by bit, which transformers loads."""
    labels = {"id2label": NAMES} if kind in HEADS[:2] else {}
    theirs = MODELS_OF_HEADS[name](tmp_path / "theirs", f"{name}For{kind}", **labels)
    ours = load_for_inference(open_origin(tmp_path / "theirs"), device=torch.device("cpu"))
    assert export_hugging_face(tmp_path / "theirs", tmp_path / "again") == ()
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "again"))
    assert before.keys() == after.keys()
    assert not [each for each in before if not torch.equal(before[each], after[each])]
    again, told = type(theirs).from_pretrained(tmp_path / "again", output_loading_info=True)
    assert not any(told.values()), told
    with torch.no_grad():
        for model in (theirs, again.eval()):
            for found, expected in compute_head_outputs(model, ours, kind):
                assert expected.dim() == 0 or expected.std() > 0.1
                torch.testing.assert_close(
                    found, expected, atol=1e-5 * max(1.0, float(expected.abs().max())), rtol=1e-5
                )


@pytest.mark.parametrize("make", [create_bert, create_roberta, create_mpnet], ids=lambda make: make.__name__)
def test_pairs_are_joined_as_in_transformers(make: Callable[..., nn.Module], tmp_path: Path) -> None:
    """RoBERTa and MPNet put two separators between two texts, and both texts into the same segment."""
    make(tmp_path / "theirs")
    origin = open_origin(tmp_path / "theirs").tokenizer
    assert isinstance(origin, Tokenizer)
    origin.save(tmp_path / "vocabulary")
    theirs, count = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs"), 1 + (make is not create_bert)
    for mine in (origin, load_tokenizer(tmp_path / "vocabulary")):
        for pair in [*PAIRS, ("", "42")]:
            expected = theirs(*pair, return_token_type_ids=True)
            row = encode_texts(mine, pair, max_length=40)
            assert list(row.ids) == expected["input_ids"]
            assert list(row.segments) == expected["token_type_ids"]
            (window,) = build_windows(
                mine.encode(pair[0]), mine.encode(pair[1]), compute_offsets(mine, pair[1]), special=mine.special,
                max_length=40, stride=5,
            )  # fmt: skip
            assert (window.ids, window.segments) == (row.ids, row.segments)
            assert [*row.ids[: window.context_start]].count(mine.special.eos) == count
        shortened = encode_texts(mine, PAIRS[2], max_length=9)
        assert len(shortened.ids) == 9
        assert list(shortened.ids).count(mine.special.eos) == count + 1


_NAMES = {"sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
_OPTIONS = {"add_prefix_space": True, "trim_offsets": True}
_BYTES = {"type": "ByteLevel", **_OPTIONS, "use_regex": True}


def build_template(pair: str) -> dict[str, Any]:
    """The post-processor that joins the texts A and B with separators S."""
    text = {name: {"Sequence": {"id": name, "type_id": 0}} for name in "AB"}
    parts = [{**text, "S": {"SpecialToken": {"id": "[SEP]", "type_id": 0}}}[name] for name in pair]
    special = {"[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}
    return {"type": "TemplateProcessing", "single": parts[:2], "pair": parts, "special_tokens": special}


@pytest.mark.parametrize(
    ("processor", "doubled"),
    [
        (None, False),
        ({"type": "BertProcessing", **_NAMES}, False),
        ({"type": "RobertaProcessing", **_NAMES, **_OPTIONS}, True),
        (build_template("SASSBS"), True),
        (build_template("ASBSS"), False),
        ({"type": "Sequence", "processors": [_BYTES, build_template("ASSB")]}, True),
    ],
)
def test_the_file_says_how_pairs_are_joined(processor: Any, doubled: bool, tmp_path: Path) -> None:
    create_bert(tmp_path)
    transformers.AutoTokenizer.from_pretrained(tmp_path, model_max_length=40).save_pretrained(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    write(tmp_path / "tokenizer.json", {**content, "post_processor": processor})
    tokenizer = open_origin(tmp_path).tokenizer
    assert isinstance(tokenizer, Tokenizer)
    assert tokenizer.special.doubles_separator == doubled


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


@pytest.mark.parametrize(
    ("kind", "make"), [("Bert", create_bert), ("Electra", create_electra), ("Roberta", create_roberta)]
)
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


@pytest.mark.parametrize("name", ["RobertaPreLayerNorm", "DistilBert", "MPNet", "Albert"])
def test_classes_of_other_models(name: str, tmp_path: Path) -> None:
    theirs = MODELS_OF_HEADS[name](tmp_path, f"{name}ForSequenceClassification", id2label=NAMES)
    ours = heedful.load(tmp_path, kind=heedful.Classifier, device="cpu")
    texts = [*TEXTS, *PAIRS]
    expected = compute_logits(theirs, tmp_path, texts).softmax(-1)
    for each, chances in zip(ours.classify(texts), expected, strict=True):
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


def write_recipe(folder: Path, init: Path, *, task: str, data: dict[str, Any], model: dict[str, Any]) -> Path:
    part = {key: f'"{value}"' for key, value in data.items()}
    inputs = "{ " + ", ".join(f"{key} = {value}" for key, value in part.items()) + " }"
    tables = "".join(f'model.{key} = "{value}"\n' for key, value in model.items())
    path = folder / "recipe.toml"
    path.write_text(
        f'task = "{task}"\ninit = "{init}"\noutput = "{folder / "run"}"\n{tables}data = {{ train = {inputs}, '
        f"validation = {inputs}, max_length = 32 }}\n[training]\nsteps = 1\nbatch_tokens = 100\nthreads = 1\n"
        'precision = "fp32"\nschedule = { kind = "constant", rate = 1e-3 }\nevaluate_every = 1\n',
        encoding="utf-8",
    )
    return path


STARTS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "roberta": ("Roberta", "RobertaForMaskedLM", {}, {}),
    "albert": ("Albert", "AlbertForPreTraining", {}, {}),
    "mpnet": ("MPNet", "MPNetModel", {}, {}),
    "distilbert": ("DistilBert", "DistilBertForSequenceClassification", {}, {}),
    "electra": ("Electra", "ElectraForPreTraining", {"embedding_size": 10}, {"summary.activation": "gelu"}),
}
"""Models that training starts from: the family, the class, its options, and the table [model] of the recipe."""


@pytest.mark.parametrize(
    "name", ["albert", *(pytest.param(n, marks=pytest.mark.slow) for n in STARTS if n != "albert")]
)
def test_training_starts_from_a_folder_and_ends_as_one(name: str, tmp_path: Path) -> None:
    family, kind, options, model = STARTS[name]
    MODELS_OF_HEADS[family](tmp_path / "theirs", kind, **options)
    lines = "".join(
        f"{text}\t{label}\n" for text, label in (("red dogs sleep", "good"), ("cats", "bad")) for _ in "abcd"
    )
    (tmp_path / "texts.tsv").write_text(f"text\tlabel\n{lines}", encoding="utf-8")
    data = {"path": tmp_path / "texts.tsv", "text": "text", "label": "label"}
    recipe = heedful.load_recipe(
        write_recipe(tmp_path, tmp_path / "theirs", task="classification", data=data, model=model)
    )
    said: list[str] = []
    run = train(recipe, device="cpu", say=said.append).folder
    assert not [line for line in said if "taken over" in line and "new: encoder.stack" in line]
    export_hugging_face(run, tmp_path / "ours")
    content = json.loads((tmp_path / "ours/config.json").read_text(encoding="utf-8"))
    assert content["architectures"] == [f"{family}ForSequenceClassification"]
    theirs, told = getattr(transformers, content["architectures"][0]).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not any(told.values()), told
    expected = compute_logits(theirs.eval(), tmp_path / "theirs", TEXTS).softmax(-1)
    for folder in (run, tmp_path / "ours"):
        classifier = heedful.load(folder, kind=heedful.Classifier, device="cpu")
        assert classifier.labels is not None
        for each, chances in zip(classifier.classify(TEXTS), expected, strict=True):
            found = torch.tensor([each.probabilities[label] for label in classifier.labels.names])
            torch.testing.assert_close(found, chances, atol=1e-5, rtol=0)


def test_pre_training_goes_on_with_the_heads_of_a_folder(tmp_path: Path) -> None:
    create_albert(tmp_path / "theirs")
    (tmp_path / "text.txt").write_text("Red dogs sleep . Cats walk .\n\n" * 20, encoding="utf-8")
    data = {"path": tmp_path / "text.txt", "kind": "blocks"}
    recipe = write_recipe(tmp_path, tmp_path / "theirs", task="pretraining", data=data, model={})
    recipe.write_text(recipe.read_text(encoding="utf-8") + 'pairing = "sentence_order"\n', encoding="utf-8")
    said: list[str] = []
    run = train(heedful.load_recipe(recipe), device="cpu", say=said.append).folder
    assert any("weights taken over; new: nothing; not used: nothing" in line for line in said), said
    assert heedful.load(run, device="cpu").fill(["red [MASK] sleep"])
    export_hugging_face(run, tmp_path / "ours")
    told = transformers.AlbertForPreTraining.from_pretrained(tmp_path / "ours", output_loading_info=True)[1]
    assert not any(told.values()), told


def test_commands_use_the_heads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create_bert_classifier(tmp_path / "classes")
    create_bert(tmp_path / "tags", "BertForTokenClassification", id2label=NAMES)
    assert main(["classify", str(tmp_path / "classes"), "--text", "red dogs", "--device", "cpu"]) == 0
    assert capsys.readouterr().out.split("\t")[0] in NAMES.values()
    assert main(["tag", str(tmp_path / "tags"), "--text", "red dogs", "--device", "cpu"]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["red", "dogs", ""]
    create_roberta(tmp_path / "answers", "RobertaForQuestionAnswering")
    create_albert(tmp_path / "fills")
    question = ["--question", "red dogs", "--context", "unwashed cats don't sleep"]
    assert main(["answer", str(tmp_path / "answers"), *question, "--device", "cpu"]) == 0
    assert main(["fill", str(tmp_path / "fills"), "--text", "red [MASK] sleep", "--device", "cpu"]) == 0
    assert main(["embed", str(tmp_path / "fills"), "--text", "red dogs", "--device", "cpu"]) == 0
    assert len(json.loads(capsys.readouterr().out.splitlines()[-1])) == 24
    assert main(["tag", str(tmp_path / "classes"), "--text", "red dogs", "--device", "cpu"]) == 2
    assert "is a classifier and not a model that tags words" in capsys.readouterr().err
