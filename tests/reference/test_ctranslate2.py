"""CTranslate2 computes the same as heedful: generators, encoders and translators, from runs and from Hugging Face."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from untrained_runs import create_classifier_run, create_language_model_run, create_translation_run

import heedful
from heedful.data.tokenizer_files import load_tokenizer
from heedful.errors import RunError
from heedful.runs.export import export_ctranslate2
from heedful.tensors import Tokens

ctranslate2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from reference.test_hugging_face import MAKERS  # noqa: E402 - needs transformers

TEXTS = ["the dog", "a red dog sees the old man", "never"]


def load_encoders(folder: Path) -> tuple[Any, Any]:
    return ctranslate2.Encoder(str(folder), intra_threads=1), load_tokenizer(folder / "heedful.text")


@pytest.mark.parametrize(
    "kind",
    [
        "bert",
        "bert_masked",
        "bert_plain",
        "roberta",
        "roberta_prelayernorm",
        "roberta_prelayernorm_plain",
        "distilbert_plain",
    ],
)
def test_an_encoder_computes_the_same_vectors(kind: str, tmp_path: Path) -> None:
    MAKERS[kind](tmp_path / "theirs")
    notes = export_ctranslate2(tmp_path / "theirs", tmp_path / "ct2")
    assert bool(notes) == (not kind.endswith("_plain"))
    ours = heedful.load(tmp_path / "theirs", device="cpu")
    encoder = getattr(ours, "model", ours).encoder
    theirs, tokenizer = load_encoders(tmp_path / "ct2")
    rows = [[7, 8, 9, 10, 11], [12, 13]]
    segments = [[0, 0, 0, 1, 1], [0, 0]] if kind.startswith("bert") else [[0] * 5, [0] * 2]
    found = theirs.forward_batch(rows, token_type_ids=None if kind.startswith("distilbert") else segments)
    hidden = np.array(found.last_hidden_state)
    for number, (ids, parts) in enumerate(zip(rows, segments, strict=True)):
        with torch.no_grad():
            memory = encoder(Tokens(torch.tensor([ids]), torch.arange(len(ids)).unsqueeze(0), torch.tensor([parts])))
        np.testing.assert_allclose(hidden[number, : len(ids)], memory.values[0], atol=1e-4)
        if found.pooler_output is not None:
            np.testing.assert_allclose(np.array(found.pooler_output)[number], memory.summary[0], atol=1e-4)
    own = getattr(ours, "embedder", ours).tokenizer
    assert tokenizer.encode(TEXTS[0]) == own.encode(TEXTS[0])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("albert", r"model\.d_embedding = 10: CTranslate2 has only None"),
        ("mpnet", r"model\.distance_bias\.kind = buckets: CTranslate2 has only None"),
    ],
)
def test_encoders_that_it_does_not_have_are_refused(kind: str, message: str, tmp_path: Path) -> None:
    MAKERS[kind](tmp_path / "theirs")
    with pytest.raises(RunError, match=message):
        export_ctranslate2(tmp_path / "theirs", tmp_path / "ct2")


def test_encoders_whose_layers_share_their_weights(tmp_path: Path) -> None:
    run = create_classifier_run(tmp_path, {"red dog": "a", "old man": "b"}, model={"share_layers": True, "layers": 3})
    export_ctranslate2(run, tmp_path / "ct2")
    encoder = heedful.load(run, kind=heedful.Classifier, device="cpu").model.encoder
    ids = [7, 8, 9, 10, 11, 7]
    found = load_encoders(tmp_path / "ct2")[0].forward_batch([ids], token_type_ids=[[0] * 6])
    with torch.no_grad():
        memory = encoder(Tokens(torch.tensor([ids]), torch.arange(6).unsqueeze(0)))
    np.testing.assert_allclose(np.array(found.last_hidden_state)[0], memory.values[0].numpy(), atol=5e-5)
    (tmp_path / "relu").mkdir()
    relu = create_classifier_run(
        tmp_path / "relu", {"red dog": "a", "old man": "b"}, model={"summary": {"activation": "relu"}}
    )
    with pytest.raises(RunError, match=r"model\.summary\.activation = relu: CTranslate2 has only tanh"):
        export_ctranslate2(relu, tmp_path / "never")


@pytest.mark.parametrize("kind", ["gpt2", "gpt2_untied", "opt"])
def test_a_generator_gives_the_same_scores(kind: str, tmp_path: Path) -> None:
    MAKERS[kind](tmp_path / "theirs")
    assert export_ctranslate2(tmp_path / "theirs", tmp_path / "ct2") == ()
    writer = heedful.load(tmp_path / "theirs", kind=heedful.TextGenerator, device="cpu")
    require_alike(writer, tmp_path / "ct2")


def require_alike(writer: heedful.TextGenerator, folder: Path, *, within: float = 1e-4) -> None:
    generator = ctranslate2.Generator(str(folder), intra_threads=1)
    size = writer.tokenizer.size
    for ids in ([5, 9, 7, 11, 8, 6], [size - 1, 5]):
        tokens = Tokens(torch.tensor([ids]), torch.arange(len(ids)).unsqueeze(0))
        with torch.no_grad():
            logits, _ = writer.model.step(tokens, writer.model.init_state())
        expected = logits[0].log_softmax(-1)[torch.arange(len(ids) - 1), ids[1:]]
        (found,) = generator.score_batch([writer.tokenizer.to_pieces(ids)])
        assert found.log_probs == pytest.approx(expected.tolist(), abs=within)


@pytest.mark.parametrize("kind", ["marian", "marian_apart", "bart"])
def test_translators_of_hugging_face_are_exported_to_ctranslate2(kind: str, tmp_path: Path) -> None:
    MAKERS[kind](tmp_path / "theirs")
    assert export_ctranslate2(tmp_path / "theirs", tmp_path / "ct2") == ()
    ours = heedful.load(tmp_path / "theirs", kind=heedful.Translator, device="cpu")
    translator = ctranslate2.Translator(str(tmp_path / "ct2"), intra_threads=1)
    sources, targets = TEXTS, [TEXTS[1], TEXTS[2], TEXTS[0]]
    found = translator.score_batch(
        [ours.source.to_pieces(ours.source.encode(text)) for text in sources],
        [ours.target.to_pieces(ours.target.encode(text)) for text in targets],
    )
    for each, mine in zip(found, ours.score(list(zip(sources, targets, strict=True))), strict=True):
        assert each.log_probs == pytest.approx(mine.token_log_probabilities, abs=1e-4)


def test_language_models_of_runs(tmp_path: Path, language: Callable[..., Path]) -> None:
    plain = language(tmp_path / "plain", positions={"kind": "sinusoidal"}, residual="post_norm", bias=False)
    export_ctranslate2(plain, tmp_path / "ct2")
    require_alike(heedful.load(plain, kind=heedful.TextGenerator, device="cpu"), tmp_path / "ct2")
    require_same_generator(language, tmp_path / "rotary", positions={"kind": "rotary"}, norm_epsilon=0.05)
    require_same_generator(language, tmp_path / "shaw", positions={"kind": "shaw", "clip": 2}, norm_epsilon=0.2)
    require_same_generator(language, tmp_path / "none", positions={"kind": "none"}, residual="post_norm")
    for number, (model, message) in enumerate(
        (
            ({"key_value_heads": 1}, "key_value_heads = 1: CTranslate2 has only None"),
            ({"norm": "rms"}, "norm = rms: CTranslate2 has only layer"),
            ({"gated": True}, "gated = True: CTranslate2 has only False"),
            ({"parallel": True}, "parallel = True: CTranslate2 has only False"),
            ({"positions": {"kind": "rotary", "base": 500.0}}, r"positions\.base = 500\.0: CTranslate2 has only 10000"),
            ({"positions": {"kind": "alibi"}}, r"positions\.kind = alibi: CTranslate2 has only sinusoidal"),
        )
    ):
        folder = language(tmp_path / f"unsupported-{number}", **model)
        with pytest.raises(RunError, match=message):
            export_ctranslate2(folder, tmp_path / "never")
    window = language(tmp_path / "window", visibility={"kind": "window", "before": 2})
    with pytest.raises(RunError, match=r"model\.visibility\.kind = window: CTranslate2 has only causal"):
        export_ctranslate2(window, tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


def require_same_generator(language: Callable[..., Path], folder: Path, **model: Any) -> None:
    run = language(folder, **model)
    assert export_ctranslate2(run, folder / "ct2") == ()
    require_alike(heedful.load(run, kind=heedful.TextGenerator, device="cpu"), folder / "ct2", within=5e-5)


@pytest.mark.parametrize("positions", [{"kind": "rotary"}, {"kind": "shaw", "clip": 2}], ids=["rotary", "shaw"])
def test_encoders_of_runs(positions: dict[str, Any], tmp_path: Path) -> None:
    model = {"positions": positions, "residual": "pre_norm", "norm_epsilon": 0.1}
    run = create_classifier_run(tmp_path, {"red dog": "a", "old man": "b"}, model=model)
    assert len(export_ctranslate2(run, tmp_path / "ct2")) == 1  # the head is left out
    encoder = heedful.load(run, kind=heedful.Classifier, device="cpu").model.encoder
    rows = [[7, 8, 9, 10, 11, 7], [9, 8]]
    found = load_encoders(tmp_path / "ct2")[0].forward_batch(rows, token_type_ids=[[0] * 6, [0] * 2])
    for number, ids in enumerate(rows):
        with torch.no_grad():
            memory = encoder(Tokens(torch.tensor([ids]), torch.arange(len(ids)).unsqueeze(0)))
        expected = memory.values[0].numpy()
        np.testing.assert_allclose(np.array(found.last_hidden_state)[number, : len(ids)], expected, atol=5e-5)


@pytest.fixture
def language() -> Callable[..., Path]:
    """Return a function that creates a run of a small GPT with random weights."""

    def make(folder: Path, **model: Any) -> Path:
        folder.mkdir()
        return create_language_model_run(folder, TEXTS, **model)

    return make


PAIRS = [
    ("the dog sees a red cat", "der Hund sieht eine rote Katze"),
    ("a man runs", "ein Mann rennt"),
    ("the old man sees the dog and the cat runs", "der alte Mann sieht den Hund und die Katze rennt"),
]
LONG = [(" ".join(source for source, _ in PAIRS), " ".join(target for _, target in PAIRS))]


@pytest.mark.parametrize(
    "model",
    [
        {"positions": {"kind": "rotary"}, "residual": "pre_norm"},
        {"positions": {"kind": "rotary"}, "self_attention": {"score": "dot"}, "heads": 4},
        {"positions": {"kind": "shaw", "clip": 3}},
        {"positions": {"kind": "shaw", "clip": 2, "values": False}, "residual": "pre_norm"},
        {"positions": {"kind": "shaw", "clip": 2}, "self_attention": {"score": "dot"}},
        {"positions": {"kind": "none"}, "cross_attention": {"score": "dot"}, "output_bias": True},
        {"shared_key_value": True, "aggregation": "concat", "embedding_norm": True},
    ],
    ids=["rotary", "rotary_dot", "shaw", "shaw_keys", "shaw_dot", "none", "shared_concat"],
)
def test_translators_of_runs(model: dict[str, Any], tmp_path: Path) -> None:
    run = create_translation_run(tmp_path, PAIRS, model=model)
    assert export_ctranslate2(run, tmp_path / "ct2") == ()
    ours = heedful.load(run, kind=heedful.Translator, device="cpu")
    sources = [ours.source.to_pieces(ours.source.encode(source)) for source, _ in PAIRS + LONG]
    require_same_translations(ours, tmp_path / "ct2", PAIRS + LONG, sources)


def require_same_translations(
    ours: heedful.Translator, folder: Path, pairs: list[tuple[str, str]], sources: list[list[str]]
) -> None:
    """Require the same scores of given translations, and the same translations."""
    translator, target = require_same_scores(ours, folder, pairs, sources), ours.target
    never = [[piece] for piece in target.to_pieces(target.special.suppressed_ids)]
    written = translator.translate_batch(
        sources, beam_size=1, max_decoding_length=12, min_decoding_length=0, suppress_sequences=never
    )
    expected = ours.translate([source for source, _ in pairs])
    assert len({each.text for each in expected}) > 1
    assert [target.decode_pieces(each.hypotheses[0]) for each in written] == [each.text for each in expected]


def test_translators_keep_the_epsilon_of_their_norms(tmp_path: Path) -> None:
    """With vectors this short, the epsilon that is added to the variance decides the result of the norm; the output
    layer, the third table, makes logits of it that differ.
    """
    tables: list[torch.nn.Parameter] = []

    def draw(parameter: torch.nn.Parameter) -> None:
        if parameter.dim() > 1 and (not tables or parameter.shape == tables[0].shape):
            tables.append(parameter)
        if not (parameter == 1).all():  # the gains of norms keep their size
            torch.nn.init.normal_(parameter, std=1e-3 if len(tables) < 3 or parameter is not tables[2] else 0.5)

    model = {"positions": {"kind": "rotary"}, "residual": "pre_norm", "tie": "none"}
    run = create_translation_run(tmp_path, PAIRS, model=model, draw=draw)
    export_ctranslate2(run, tmp_path / "ct2")
    ours = heedful.load(run, kind=heedful.Translator, device="cpu")
    sources = [ours.source.to_pieces(ours.source.encode(source)) for source, _ in PAIRS]
    assert len(tables) == 3
    require_same_scores(ours, tmp_path / "ct2", PAIRS, sources)


@pytest.mark.parametrize("positions", [{"kind": "rotary"}, {"kind": "sinusoidal"}], ids=["rotary", "sinusoidal"])
def test_factors_are_combined_with_pieces(positions: dict[str, Any], tmp_path: Path) -> None:
    """Labels that the training knows and one that it does not, and words in all cases."""
    pairs = [("The|D dog|N books|V", PAIRS[0][1]), ("a|D BOOK|N", PAIRS[1][1]), ("McDog|X", PAIRS[2][1])]
    marked = [(source.replace("|", "\N{HALFWIDTH FORMS LIGHT VERTICAL}"), target) for source, target in pairs]
    model, factors = {"positions": positions}, {"case": {"kind": "case"}, "pos": {"kind": "given"}}
    run = create_translation_run(tmp_path, marked, model=model, factors=factors)
    (note,) = export_ctranslate2(run, tmp_path / "ct2")
    assert "piece\N{HALFWIDTH FORMS LIGHT VERTICAL}case\N{HALFWIDTH FORMS LIGHT VERTICAL}pos" in note
    ours = heedful.load(run, kind=heedful.Translator, device="cpu")
    unknown = "The\N{HALFWIDTH FORMS LIGHT VERTICAL}Q dog\N{HALFWIDTH FORMS LIGHT VERTICAL}N"
    marked = [*marked, (unknown, "Hund")]
    sources = [
        ["the|title|D", "dog|lower|N", "books|lower|V"],
        ["a|lower|D", "book|upper|N"],
        ["mcdog|mixed|X"],
        ["the|title|Q", "dog|lower|N"],
    ]
    given = [[piece.replace("|", "\N{HALFWIDTH FORMS LIGHT VERTICAL}") for piece in source] for source in sources]
    require_same_translations(ours, tmp_path / "ct2", marked, given)
    assert {path.name for path in (tmp_path / "ct2").glob("heedful.factor-*")} == {
        "heedful.factor-case.json",
        "heedful.factor-pos.json",
    }


def test_a_label_may_not_have_the_name_of_a_mark(tmp_path: Path) -> None:
    separator = "\N{HALFWIDTH FORMS LIGHT VERTICAL}"
    pairs = [(f"dog{separator}</s>", "Hund"), (f"cat{separator}N", "Katze")]
    run = create_translation_run(tmp_path, pairs, factors={"pos": {"kind": "given"}})
    with pytest.raises(RunError, match=r"factors\.pos: has the label '</s>', which CTranslate2 would read as one"):
        export_ctranslate2(run, tmp_path / "ct2")


def require_same_scores(
    ours: heedful.Translator, folder: Path, pairs: list[tuple[str, str]], sources: list[list[str]]
) -> Any:
    """Require the same probabilities of all tokens; return CTranslate2's translator."""
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    found = translator.score_batch(sources, [ours.target.to_pieces(ours.target.encode(text)) for _, text in pairs])
    for each, mine in zip(found, ours.score(pairs), strict=True):
        assert each.log_probs == pytest.approx(mine.token_log_probabilities, abs=5e-5)
    return translator
