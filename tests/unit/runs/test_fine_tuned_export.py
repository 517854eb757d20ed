"""Fine-tuned encoders have the same logits in transformers."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import heedful
from heedful.__main__ import main
from heedful.architectures.build import build_tagger, build_text_classifier
from heedful.architectures.build_classifiers import build_span_classifier
from heedful.architectures.classifiers import EncoderClassifierConfig
from heedful.architectures.stack import EncoderConfig
from heedful.data.tokenizers import learn_words
from heedful.errors import RunError
from heedful.foreign.hugging_face_export import save_hugging_face
from heedful.runs.export import export_hugging_face
from heedful.runs.resolve import open_origin
from heedful.tasks.portable_model import OutputHead, PortableModel
from heedful.tensors import Tokens

transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra: dev)")
GOLDEN = Path(__file__).parents[2] / "golden"
CLOSE: Mapping[str, Any] = {"atol": 1e-5, "rtol": 1e-5}
"""The same fp32 sums in another order."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what others warn of
        yield


def tokens(vocabulary: int) -> tuple[Tokens, dict[str, Tensor]]:
    """Two texts of different length, in two segments, as both sides read them."""
    ids = torch.randint(5, vocabulary, (2, 9))
    positions = torch.arange(9).expand(2, 9).clone()
    positions[1, 6:] = -1
    segments = (torch.arange(9) >= 4).long().expand(2, 9).contiguous()
    mask = (positions >= 0).long()
    theirs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
    return Tokens(ids, positions, segments), theirs


def theirs_of(folder: Path, kind: str) -> nn.Module:
    """Their model, which found each tensor and knew each of the file."""
    model, told = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True)
    assert not any(told.values()), told
    loaded: nn.Module = model.eval()
    return loaded


def test_a_classifier(tuned: Callable[[str], Path], tmp_path: Path) -> None:
    run = tuned("classification")
    export_hugging_face(run, tmp_path / "out")
    mine = heedful.load(run, kind=heedful.Classifier, device="cpu")
    theirs: Any = theirs_of(tmp_path / "out", "BertForSequenceClassification")
    ours, batch = tokens(mine.tokenizer.size)
    with torch.no_grad():
        found, expected = theirs(**batch).logits, mine.model.output(mine.model(ours))
    assert expected.std() > 1e-3
    torch.testing.assert_close(found, expected, **CLOSE)
    assert mine.labels is not None
    assert theirs.config.id2label == dict(enumerate(mine.labels.names))
    assert theirs.config.problem_type == "single_label_classification"
    auto = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    assert type(auto) is type(theirs)


def test_a_tagger(tuned: Callable[[str], Path], tmp_path: Path) -> None:
    run = tuned("tagging")
    export_hugging_face(run, tmp_path / "out")
    mine = heedful.load(run, kind=heedful.Tagger, device="cpu")
    theirs: Any = theirs_of(tmp_path / "out", "BertForTokenClassification")
    ours, batch = tokens(mine.tokenizer.size)
    with torch.no_grad():
        found, expected = theirs(**batch).logits, mine.model.output(mine.model(ours))
    real = ours.positions >= 0
    torch.testing.assert_close(found[real], expected[real], **CLOSE)
    assert theirs.config.id2label == dict(enumerate(mine.tags.names))
    assert theirs.config.label2id == {name: number for number, name in enumerate(mine.tags.names)}


def test_a_span_finder(tuned: Callable[[str], Path], tmp_path: Path) -> None:
    run = tuned("spans")
    export_hugging_face(run, tmp_path / "out")
    mine = heedful.load(run, kind=heedful.QuestionAnsweringPredictor, device="cpu")
    theirs: Any = theirs_of(tmp_path / "out", "BertForQuestionAnswering")
    ours, batch = tokens(mine.tokenizer.size)
    with torch.no_grad():
        found, expected = theirs(**batch), mine.model.output(mine.model(ours))
    real = ours.positions >= 0
    for side, logits in enumerate((found.start_logits, found.end_logits)):
        torch.testing.assert_close(logits[real], expected[..., side][real], **CLOSE)


def test_what_chooses(tmp_path: Path) -> None:
    run = GOLDEN / "classification-choice/run"
    export_hugging_face(run, tmp_path / "out")
    mine = heedful.load(run, kind=heedful.Classifier, device="cpu")
    theirs: Any = theirs_of(tmp_path / "out", "BertForMultipleChoice")
    ours, batch = tokens(mine.tokenizer.size)
    with torch.no_grad():
        found = theirs(**{name: each.unsqueeze(0) for name, each in batch.items()}).logits
        expected = mine.model.output(mine.model(ours)).T
    torch.testing.assert_close(found, expected, **CLOSE)


def test_what_says_a_number(tuned: Callable[[str], Path], tmp_path: Path) -> None:
    origin = open_origin(tuned("classification"))
    one = {name: each[:1] if name.startswith("output.") else each for name, each in origin.tensors.items()}
    save_hugging_face(replace(origin, tensors=one, head=OutputHead("number")), tmp_path / "out")
    theirs: Any = theirs_of(tmp_path / "out", "BertForSequenceClassification")
    assert theirs.config.problem_type == "regression"
    assert theirs.config.num_labels == 1
    with torch.no_grad():
        assert theirs(**tokens(origin.tokenizer.size)[1]).logits.shape == (2, 1)  # type: ignore[union-attr]


@pytest.fixture
def _modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where transformers copies code of folders to."""
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))


@pytest.mark.usefixtures("_modules")
@pytest.mark.parametrize(
    "base",
    [
        pytest.param({}, id="bert"),
        pytest.param({"residual": "pre_norm"}, id="pre_norm"),
        pytest.param({"d_embedding": 6}, id="electra"),
        pytest.param({"d_embedding": 6, "share_layers": True}, id="albert"),
        pytest.param({"distance_bias": {}, "segments": 1}, id="mpnet"),
    ],
)
@pytest.mark.parametrize(
    "head",
    [OutputHead("class", ("x", "y", "z")), OutputHead("number"), OutputHead("candidate")],
    ids=lambda h: h.output_type,
)
def test_the_mean_of_all_tokens(head: OutputHead, base: dict[str, Any], tmp_path: Path) -> None:
    """Which is what a classifier reads that begins with another model, unless its recipe says otherwise."""
    words = learn_words(["a b c d e f g h"], size=None, lowercase=False, masked=True)
    table = {"d_model": 16, "heads": 2, "layers": 2, "summary": {"kind": "mean"}, **base}
    config = EncoderClassifierConfig.model_validate(table | {"positions": {"kind": "learned", "length": 30}})
    mine = build_text_classifier(config, vocabulary=words.size, longest=30, outputs=len(head.class_names) or 1)
    for parameter in mine.parameters():
        nn.init.normal_(parameter, std=0.8)
    tensors = {name: parameter.detach() for name, parameter in mine.eval().named_parameters()}
    notes = save_hugging_face(PortableModel(Path("run"), config, words, tensors, head=head), tmp_path / "out")
    assert "modeling_heedful.py contains one" in notes[-1]
    use = "MultipleChoice" if head.output_type == "candidate" else "SequenceClassification"
    auto = getattr(transformers, f"AutoModelFor{use}")
    theirs, told = auto.from_pretrained(tmp_path / "out", trust_remote_code=True, output_loading_info=True)
    assert not any(told.values()), told
    ours, batch = tokens(words.size)
    with torch.no_grad():
        expected = mine.output(mine(ours))
        given = {name: each.unsqueeze(0) for name, each in batch.items()} if head.output_type == "candidate" else batch
        found = theirs.eval()(**given).logits
    assert expected.std() > 1e-2
    torch.testing.assert_close(found.T if head.output_type == "candidate" else found, expected, **CLOSE)
    again = heedful.load(tmp_path / "out", kind=heedful.Classifier, device="cpu")
    with torch.no_grad():
        torch.testing.assert_close(again.model.output(again.model(ours)), expected, **CLOSE)


@pytest.mark.usefixtures("_modules")
def test_a_run_that_was_tuned_by_default_can_leave(tuning: Path, tmp_path: Path) -> None:
    words = [f"--output={tmp_path / 'run'}", "--training.steps=1", "--model.summary.kind=mean"]
    run = heedful.train(heedful.load_recipe(tuning / "classification.toml", words), device="cpu").folder
    export_hugging_face(run, tmp_path / "out")
    before, after = (heedful.load(folder, device="cpu") for folder in (run, tmp_path / "out"))
    for (name, numbers), (again, found) in zip(classified(before), classified(after), strict=True):
        assert (name, found) == (again, pytest.approx(numbers, abs=1e-5))
    auto = transformers.AutoModelForSequenceClassification
    theirs = auto.from_pretrained(tmp_path / "out", trust_remote_code=True).eval()
    ours, batch = tokens(before.tokenizer.size)
    with torch.no_grad():
        torch.testing.assert_close(theirs(**batch).logits, before.model.output(before.model(ours)), **CLOSE)


PRE_NORM: Mapping[str, Any] = {
    "d_model": 16,
    "heads": 2,
    "layers": 2,
    "residual": "pre_norm",
    "positions": {"kind": "learned", "length": 30, "offset": 3},
}


def pre_norm(head: OutputHead) -> tuple[PortableModel, nn.Module]:
    """A model of ours whose weights nobody trained, all of them different from 0 and 1."""
    words = learn_words(["a b c d e f g h"], size=None, lowercase=False, masked=True)
    sizes = {"vocabulary": words.size, "longest": 30}
    config = EncoderClassifierConfig.model_validate(PRE_NORM)
    model: nn.Module
    if head.output_type == "token":
        model = build_tagger(EncoderConfig.model_validate(PRE_NORM), tags=3, **sizes)
    elif head.output_type == "ends":
        model = build_span_classifier(config, **sizes)
    else:
        model = build_text_classifier(config, outputs=len(head.class_names) or 1, **sizes)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.8)
    tensors = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return PortableModel(Path("run"), config, words, tensors, head=head), model.eval()


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (OutputHead("class", ("x", "y", "z")), "RobertaPreLayerNormForSequenceClassification"),
        (OutputHead("number"), "RobertaPreLayerNormForSequenceClassification"),
        (OutputHead("candidate"), "RobertaPreLayerNormForMultipleChoice"),
        (OutputHead("token", ("x", "y", "z")), "RobertaPreLayerNormForTokenClassification"),
        (OutputHead("ends"), "RobertaPreLayerNormForQuestionAnswering"),
    ],
    ids=lambda each: each.output_type if isinstance(each, OutputHead) else "",
)
def test_pre_norm_encoders(head: OutputHead, kind: str, tmp_path: Path) -> None:
    origin, mine = pre_norm(head)
    save_hugging_face(origin, tmp_path / "out")
    theirs: Any = theirs_of(tmp_path / "out", kind)
    ours, batch = tokens(origin.tokenizer.size)  # type: ignore[union-attr]  # one vocabulary
    real = ours.positions >= 0
    with torch.no_grad():
        expected: Tensor = mine.output(mine(ours))  # type: ignore[operator]  # a map
        if head.output_type == "candidate":
            found = theirs(**{name: each.unsqueeze(0) for name, each in batch.items()}).logits.T
        elif head.output_type == "ends":
            said = theirs(**batch)
            found, expected = torch.stack((said.start_logits, said.end_logits), -1)[real], expected[real]
        else:
            found = theirs(**batch).logits
            found, expected = (found[real], expected[real]) if head.output_type == "token" else (found, expected)
    assert expected.std() > 1e-2
    torch.testing.assert_close(found, expected, **CLOSE)


def test_a_detector_of_replaced_tokens(tmp_path: Path) -> None:
    """The detector and the model that replaced tokens, whose embeddings are one, and are stored under one name."""
    run = GOLDEN / "pretraining-replaced-tokens/run"
    notes = export_hugging_face(run, tmp_path / "out")
    assert notes[-1] == "the model that replaced tokens in training is in generator"
    mine = heedful.load(run, kind=heedful.ReplacedTokenPredictor, device="cpu")
    detector: Any = theirs_of(tmp_path / "out", "ElectraForPreTraining")
    generator: Any = theirs_of(tmp_path / "out/generator", "ElectraForMaskedLM")
    ours, batch = tokens(mine.tokenizer.size)
    batch["token_type_ids"] = torch.zeros_like(batch["token_type_ids"])  # it knows one part of a text
    smaller, real = mine.model.generator, ours.positions >= 0
    assert smaller is not None
    with torch.no_grad():
        torch.testing.assert_close(detector(**batch).logits[real], mine.model(ours)[real], **CLOSE)
        filled = smaller.masked.output(smaller.masked(smaller(ours).values[real]))
        torch.testing.assert_close(generator(**batch).logits[real], filled, **CLOSE)
    again = heedful.load(tmp_path / "out", kind=heedful.ReplacedTokenPredictor, device="cpu")
    texts = ["eins zwei drei", "vier"]
    for before, after in zip(mine.detect(texts), again.detect(texts), strict=True):
        assert [each.piece for each in after] == [each.piece for each in before]
        chances = [each.probability for each in before]
        assert [each.probability for each in after] == pytest.approx(chances, abs=1e-5)
    export_hugging_face(tmp_path / "out", tmp_path / "twice")
    assert not (tmp_path / "twice/generator").exists()


def test_a_command_writes_it(tuned: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(tuned("tagging")), str(tmp_path / "out")]) == 0
    assert "written: " in capsys.readouterr().err
    assert json.loads((tmp_path / "out/config.json").read_text())["architectures"] == ["BertForTokenClassification"]


def classified(model: heedful.Classifier) -> list[tuple[str, list[float]]]:
    """Of texts, one of them longer than it reads, and of pairs."""
    found = model.classify(["eins zwei", "vier " * 40, ("eins", "fünf"), ("sechs " * 20, "neun " * 20)])
    return [(str(each.label), [*each.probabilities.values(), each.cut]) for each in found]


def tagged(model: heedful.Tagger) -> list[tuple[str, list[float]]]:
    found = model.tag([["eins", "zwei"], ["vier"] * 40])
    return [(each.name, [each.probability]) for sentence in found for each in sentence]


def answered(model: heedful.QuestionAnsweringPredictor) -> list[tuple[str, list[float]]]:
    """Also of a context that is longer than it reads, and where there may be no answer."""
    contexts = ["zwei drei", "vier fünf sechs " * 20, "eins"]
    found = model.answer_all([("eins", context) for context in contexts], n_best=3)
    return [
        (each.text, [each.no_answer_margin, each.no_answer_probability, *(span.score for span in each.spans)])
        for each in found
    ]


@pytest.mark.parametrize(
    ("task", "said"), [("classification", classified), ("tagging", tagged), ("spans", answered)], ids=lambda each: each
)
def test_heedful_reads_again_what_it_wrote(
    task: str, said: Callable[[Any], list[tuple[str, list[float]]]], tuned: Callable[[str], Path], tmp_path: Path
) -> None:
    export_hugging_face(tuned(task), tmp_path / "out")
    before, after = (heedful.load(folder, device="cpu") for folder in (tuned(task), tmp_path / "out"))
    assert type(before) is type(after)
    for (name, numbers), (again, found) in zip(said(before), said(after), strict=True):
        assert name == again
        assert found == pytest.approx(numbers, abs=1e-5)
    if isinstance(before, heedful.QuestionAnsweringPredictor):
        assert (after.threshold, after.settings, after.max_answer) == (
            before.threshold,
            before.settings,
            before.max_answer,
        )


def test_what_is_known_of_reading_must_fit(tuned: Callable[[str], Path], tmp_path: Path) -> None:
    export_hugging_face(tuned("spans"), tmp_path / "out")
    content = json.loads((tmp_path / "out/config.json").read_text())
    content["heedful"]["stride"] = 0
    (tmp_path / "out/config.json").write_text(json.dumps(content))
    with pytest.raises(RunError, match=r"heedful\.stride: Input should be greater than or equal to 1"):
        heedful.load(tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("classification-self-attentive", "only Transformers that read or write text can be used"),
        ("tagging-transformer", r"model\.positions\.kind = rotary: BERT has only learned"),
        ("tagging-recurrent", "only Transformers that read or write text can be used"),
    ],
)
def test_what_has_no_counterpart_is_refused(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=message):
        export_hugging_face(GOLDEN / name / "run", tmp_path / "out")
    assert not (tmp_path / "out").exists()
