"""Records of trained models: they say what scoring, aligning and searching say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from heedful.architectures.attention import LearnedConfig
from heedful.architectures.build import DataSizes, build_language_model, build_sequence_to_sequence
from heedful.architectures.model import ConvolutionalConfig, ModelConfig, TransformerConfig
from heedful.architectures.recurrent import (
    BahdanauConfig,
    ContextConfig,
    LuongConfig,
    RecurrentConfig,
    RecurrentDecoderConfig,
)
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import BOS, EOS, PAD, CharacterTokenizer
from heedful.errors import DataError, RecipeError
from heedful.generation import GNMTLengthPenalty, SuppressTokens
from heedful.generation.search import BeamSearch, GreedySearch
from heedful.inspection.capture import watch_attention
from heedful.inspection.heads import compute_head_measures
from heedful.inspection.record import InspectionRecord
from heedful.metrics.error_rates import GoldAlignment
from heedful.metrics.translation import bleu
from heedful.models.heads import TextClassifier, TokenClassifier
from heedful.tasks.classification.predictor import Classifier
from heedful.tasks.classification.recipe import AnswerType
from heedful.tasks.embedder import Embedder
from heedful.tasks.inspection_records import InspectionSelection, build_memory_axes
from heedful.tasks.language.predictor import TextGenerator
from heedful.tasks.pretraining.predictor import MaskedLanguageModelPredictor
from heedful.tasks.pretraining.task import build_masked_language_model
from heedful.tasks.search_factory import LengthLimits
from heedful.tasks.spans.data import WindowSettings
from heedful.tasks.spans.predictor import QuestionAnsweringPredictor
from heedful.tasks.tagging.predictor import Tagger
from heedful.tasks.translation.head_statistics import collect_head_statistics, list_heads, measure_head_importance
from heedful.tasks.translation.translator import Translator
from heedful.tensors import FrameLayout, GridLayout, Memory, MemoryLayout, SequenceLayout

LETTERS = CharacterTokenizer("abcdef ", lowercase=False)
SILENT = (SuppressTokens((PAD, BOS)),)
GREEDY, BEAM = GreedySearch(EOS, SILENT), BeamSearch(EOS, 3, GNMTLengthPenalty(0.6), 1, SILENT)
MODELS: dict[str, ModelConfig] = {
    "transformer": TransformerConfig(d_model=12, heads=3, encoder_layers=2, decoder_layers=2),
    "bahdanau": RecurrentConfig(d_model=8, reading=BahdanauConfig()),
    "luong": RecurrentConfig(d_model=8, reading=LuongConfig(input_feeding=False)),
    "context": RecurrentConfig(d_model=8, reading=ContextConfig()),
    "convolutional": ConvolutionalConfig(d_model=8, d_hidden=12, positions_length=40),
    "copying": TransformerConfig(d_model=12, heads=3, encoder_layers=1, decoder_layers=1, copy=True),
}
ATTENTIVE = [name for name in MODELS if name != "context"]


def translator(name: str) -> Translator:
    model: Any = build_sequence_to_sequence(MODELS[name], DataSizes(LETTERS.size, LETTERS.size, 40))
    _shake(model)
    return Translator(
        (model.double().eval(),),
        source=LETTERS,
        target=LETTERS,
        search=BEAM,
        length=LengthLimits(1.0, 3),
        max_source=30,
    )


def _shake(model: nn.Module) -> None:
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)


@pytest.mark.parametrize("target", [None, "fade", ""])
@pytest.mark.parametrize("name", MODELS)
def test_a_record_says_what_the_model_does(name: str, target: str | None) -> None:
    ours = translator(name)
    record = ours.inspect("abc deb", target)
    found = ours.translate(["abc deb"])[0].candidates[0]
    tokens = [each.token for each in record.written]
    assert tokens == [*(found.tokens if target is None else target), "</s>"]
    assert [axis.tokens for axis in record.axes] == [
        (*LETTERS.to_pieces(LETTERS.encode("abc deb")), "</s>"),
        ("<s>", *tokens[:-1]),
        tuple(tokens),
    ]
    told = ours.score([("abc deb", found.text if target is None else target)])[0].token_log_probabilities
    assert [each.log_probability for each in record.written] == pytest.approx(list(told), abs=1e-6)
    for each in record.written:
        names = [other.token for other in each.alternatives]
        values = [other.log_probability for other in each.alternatives]
        assert values == sorted(values, reverse=True)
        if each.token in names:
            assert each.log_probability == values[names.index(each.token)]
        else:
            assert each.log_probability <= values[-1]
    for each in record.maps:
        assert each.weights.shape[1:] == tuple(len(record.get_axis(axis).tokens) for axis in (each.queries, each.keys))
        assert each.visible.shape == each.weights.shape[1:]
        assert each.walk is not None
        np.testing.assert_allclose(each.weights @ each.walk.values, each.walk.contexts, atol=1e-5)
    best = [branch.token for branch in record.tree if branch.best]
    assert best == (["", *tokens] if target is None and found.finished else best[: len(tokens)] if record.tree else [])
    assert bool(record.tree) == (target is None)


@torch.no_grad()
def test_a_record_has_the_probability_of_copying_each_token() -> None:
    """With a gate that always copies, and the pointer's weights, it explains the whole distribution."""
    copying, plain = translator("copying"), translator("transformer")
    assert all(each.copy_probability is None for each in plain.inspect("abc", "fade").written)
    gate = copying.models[0].get_submodule("gate").get_submodule("linear")
    for parameter, value in zip(gate.parameters(), (0.0, -1.0), strict=True):
        nn.init.constant_(parameter, value)
    record = copying.inspect("abc", "fade")
    assert [each.copy_probability for each in record.written] == pytest.approx([1 / (1 + np.exp(-1))] * 5)
    nn.init.constant_(gate.get_parameter("bias"), -40.0)
    record = copying.inspect("abc", "fade")
    pointer = record.find_map("cross", layer=-1)
    assert pointer.path == "pointer"
    for each, weights in zip(record.written, pointer.weights[0], strict=True):
        copied = dict(zip(record.get_axis("source").tokens, weights.tolist(), strict=True))
        known = {other.token: np.exp(other.log_probability) for other in each.alternatives[:4]}
        assert known == pytest.approx(copied, abs=1e-6), "the letters of the source and its end, each once"


@pytest.mark.parametrize("name", ATTENTIVE)
def test_its_weights_are_those_of_alignments(name: str) -> None:
    ours = translator(name)
    record, alignment = ours.inspect("abc", "fade"), ours.align("abc", "fade")
    across = [each for each in record.maps if each.role == "cross"]
    assert [each.path for each in across] == list(alignment.weights)
    for each in across:
        np.testing.assert_allclose(each.mean_weights, alignment.weights[each.path], atol=1e-6)
    assert [each.layer for each in across] == list(range(len(across)))
    assert record.find_map("cross", layer=-1) is across[-1]


def test_a_walk_leads_from_what_the_attention_is_given_to_what_it_returns() -> None:
    """Queries are a map of the inputs, and the outputs W_O of the heads' contexts."""
    ours = translator("transformer")
    for each in ours.inspect("abc deb", "fade").maps:
        attention: Any = ours.models[0].get_submodule(each.path)
        walk = each.walk
        assert walk is not None
        with torch.no_grad():
            queries = attention.query(torch.from_numpy(walk.inputs).double()).view(-1, 3, 4).transpose(0, 1)
            contexts = torch.from_numpy(walk.contexts).double().transpose(0, 1).unsqueeze(0)
            outputs = attention.aggregation(contexts)[0]
        np.testing.assert_allclose(walk.queries, queries.numpy(), atol=1e-5)
        np.testing.assert_allclose(walk.outputs, outputs.numpy(), atol=1e-5)


def test_what_each_step_may_see_is_told_step_by_step() -> None:
    """A window that moves along with the target (Luong et al. 2015, 3.2, local-m), attention called for each token."""
    config = RecurrentConfig(d_model=8, reading=LuongConfig(window="monotonic", reach=1))
    model: Any = build_sequence_to_sequence(config, DataSizes(LETTERS.size, LETTERS.size, 40)).double().eval()
    _shake(model)
    ours = Translator((model,), source=LETTERS, target=LETTERS, search=BEAM, length=LengthLimits(1.0, 3), max_source=30)
    (each,) = ours.inspect("abc deb", "fade").maps
    steps, slots = np.arange(5)[:, None], np.arange(8)
    np.testing.assert_array_equal(each.visible, np.abs(steps - slots) <= 1)


def test_only_what_was_asked_for_is_kept() -> None:
    ours = translator("transformer")
    whole, part = (
        ours.inspect("abc", "fa"),
        ours.inspect("abc", "fa", scope=InspectionSelection((1,), (0, 2), attention_steps=False)),
    )
    assert [(each.role, each.layer, each.heads) for each in part.maps] == [
        (role, 1, (0, 2)) for role in ("encoder", "decoder", "cross")
    ]
    for each in part.maps:
        assert each.walk is None
        other = whole.find_map(each.role, layer=1)
        np.testing.assert_array_equal(each.weights, other.weights[[0, 2]])
        np.testing.assert_array_equal(each.get_head_weights(2), other.get_head_weights(2))
        with pytest.raises(DataError, match="has heads 0, 2 in this record, not 1"):
            each.get_head_weights(1)
    assert part.written == whole.written
    chosen = whole.keep_maps(layers=[1], heads=[0, 2])
    assert [each.heads for each in chosen.maps] == [(0, 2)] * 3
    assert chosen.maps[0].walk is not None
    assert chosen.maps[0].walk.scores.shape[0] == 2


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        (InspectionSelection(layers=(0, 2)), "layers: 2; this model has layers 0 to 1"),
        (InspectionSelection(heads=(3,)), r"heads: 3; this model has heads 0 to 2"),
    ],
)
def test_layers_and_heads_that_are_not_there(scope: InspectionSelection, said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        translator("transformer").inspect("abc", scope=scope)


def test_no_words_are_nothing_to_look_at() -> None:
    with pytest.raises(DataError, match="no words"):
        translator("transformer").inspect("  ")
    with pytest.raises(DataError, match="reads at most 29"):
        translator("transformer").inspect("a" * 30)


def test_large_walks_are_left_out_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.tasks.inspection_records._MAX_STEP_NUMBERS", 100)
    record = translator("transformer").inspect("abc", "fa")
    assert all(each.walk is None for each in record.maps)
    assert "choose fewer layers" in record.notes[0]
    assert all(
        each.walk
        for each in translator("transformer").inspect("abc", "fa", scope=InspectionSelection(attention_steps=True)).maps
    )


def writer() -> TextGenerator:
    model = build_language_model(RecurrentDecoderConfig(d_model=8, layers=1), vocabulary=LETTERS.size)
    _shake(model)
    return TextGenerator(model.double().eval(), tokenizer=LETTERS, search=GREEDY, limit=6)


@pytest.mark.parametrize("prompt", ["", "abba"])
def test_language_models_are_records_of_probabilities(prompt: str) -> None:
    ours = writer()
    record = ours.inspect(prompt)
    text = "".join(each.token for each in record.written)
    (continuation,) = ours.write([prompt])[0]
    assert text.removesuffix("</s>") == prompt + continuation.text
    assert record.maps == ()
    alone = ours.inspect(text.removesuffix("</s>"), limit=0)
    (surprise,) = ours.surprise([text.removesuffix("</s>")])
    told = [each.log_probability for each in alone.written]
    assert told == pytest.approx(list(surprise.token_log_probabilities), abs=1e-6)
    assert told == pytest.approx([each.log_probability for each in record.written][: len(told)], abs=1e-6)
    with pytest.raises(DataError, match="nothing to show"):
        ours.inspect("", limit=0)


def test_a_gpt_shows_its_heads() -> None:
    """Rows of weights over what was read, nothing ahead, and the summands of what entered the first layer."""
    config = DecoderConfig(d_model=12, heads=3, layers=2, positions=LearnedConfig(length=20), dropout=0.0)
    model = build_language_model(config, vocabulary=LETTERS.size)
    _shake(model)
    ours = TextGenerator(model.double().eval(), tokenizer=LETTERS, search=GREEDY, limit=6)
    record = ours.inspect("abba", scope=InspectionSelection(attention_steps=True))
    assert [(each.role, each.layer, each.heads) for each in record.maps] == [
        ("decoder", layer, (0, 1, 2)) for layer in range(2)
    ]
    length = len(record.get_axis("read").tokens)
    for each in record.maps:
        assert each.weights.shape == (3, length, length)
        assert (each.weights[:, ~np.tri(length, dtype=bool)] == 0).all()
        assert each.weights.sum(-1) == pytest.approx(1, abs=1e-5)
    (embedded,) = record.embedded
    assert embedded.segments is None
    assert embedded.places is not None
    position = model.decoder.stack.embedding.position.table.weight[:length].detach().numpy()
    assert embedded.places == pytest.approx(position, abs=1e-6)
    assert record.maps[0].walk is not None


PAIRS = [("abc", "fade"), ("dd a", "c"), ("", "a"), ("fed", "deaf a")]


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ATTENTIVE)
def test_a_survey_averages_over_queries(name: str) -> None:
    ours = translator(name)
    found = collect_head_statistics(ours, PAIRS)
    assert [habits.head for habits in found] == list(list_heads(ours))
    for habits in found:
        rows = []
        for source, target in PAIRS:
            if source:
                each = next(m for m in ours.inspect(source, target).maps if m.path == habits.head.path)
                head = [habits.head.number]
                one = compute_head_measures(each.weights[head], each.visible, same_axis=each.role != "cross")
                rows += [one.entropy[0]] * each.weights.shape[1]
        assert habits.averages["entropy"] == pytest.approx(np.mean(rows))
        assert (habits.averages["texts"], habits.averages["queries"]) == (3, len(rows))
        assert habits.error_rate is None


def test_a_survey_of_no_heads_says_so() -> None:
    with pytest.raises(RecipeError, match="no attention, so it has no heads"):
        collect_head_statistics(translator("context"), PAIRS)


def test_a_survey_scores_alignments_of_every_head() -> None:
    ours = translator("bahdanau")
    pairs = [(source, target) for source, target in PAIRS if source]
    mine = ours.link(pairs)
    right = [GoldAlignment(frozenset(links), frozenset(links)) for links in mine]
    (habits,) = collect_head_statistics(ours, pairs, gold=right)
    assert habits.error_rate == 0
    wrong = [GoldAlignment(frozenset({(9, 9)}), frozenset({(9, 9)})) for _ in pairs]
    (habits,) = collect_head_statistics(ours, pairs, gold=wrong)
    assert habits.error_rate == 1


def test_gold_belongs_to_its_own_pair_where_others_are_passed_over() -> None:
    """Wrong links beside the empty pair count for nothing; beside any other they would."""
    ours, nothing = translator("bahdanau"), GoldAlignment(frozenset({(9, 9)}), frozenset({(9, 9)}))
    mine = [ours.link([(source, target)])[0] if source else None for source, target in PAIRS]
    gold = [nothing if links is None else GoldAlignment(frozenset(links), frozenset(links)) for links in mine]
    (habits,) = collect_head_statistics(ours, PAIRS, gold=gold)
    assert habits.error_rate == 0


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_a_head_is_worth_what_its_part_of_the_output_map_is_worth() -> None:
    """Silencing a head is clearing its columns of W_O, which is another way to the same."""
    ours = translator("transformer")
    pairs = [(source, target) for source, target in PAIRS if source]
    done: list[int] = []
    found = measure_head_importance(ours, pairs, search=GREEDY, on_progress=done.append)
    assert len(found.heads) == len(done) == 2 * 3 * 3
    model = ours.models[0]

    def judged() -> tuple[float, float]:
        texts = [each.text for each in ours.translate([source for source, _ in pairs], search=GREEDY)]
        scores = ours.score(pairs)
        nats = sum(each.log_probability for each in scores) / sum(each.count for each in scores)
        return bleu(texts, [target for _, target in pairs]).value, nats

    assert (found.bleu, found.nats) == judged()
    for worth in found.heads:
        weight = model.get_submodule(worth.head.path).aggregation.output.weight  # type: ignore[union-attr]
        before = weight.detach().clone()  # type: ignore[union-attr, operator]
        with torch.no_grad():
            weight[:, 4 * worth.head.number : 4 * (worth.head.number + 1)] = 0  # type: ignore[index, operator]
        without = judged()
        with torch.no_grad():
            weight.copy_(before)  # type: ignore[union-attr, operator]
        assert (worth.bleu, worth.nats) == pytest.approx((found.bleu - without[0], found.nats - without[1]), abs=1e-9)
    assert max(abs(worth.nats) for worth in found.heads) > 1e-3


def test_an_attention_without_heads_can_be_silenced_too() -> None:
    ours = translator("bahdanau")
    pairs = [("abc", "fade")]
    (worth,) = measure_head_importance(ours, pairs, search=GREEDY).heads
    assert worth.nats != 0
    assert worth.head.title == "cross 0.0"


@pytest.mark.parametrize("name", MODELS)
def test_nothing_stays_behind_in_the_model(name: str) -> None:
    """Whoever translates afterwards pays for nothing."""
    ours = translator(name)
    model = ours.models[0]
    before = ours.translate(["abc"])[0].candidates[0]
    ours.inspect("abc")
    with pytest.raises(RecipeError):
        ours.inspect("abc", scope=InspectionSelection(heads=(99,), layers=(99,)))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert ours.translate(["abc"])[0].candidates[0] == before


MASKED = CharacterTokenizer("abcdef ", lowercase=False, masked=True)
CLASSES = LabelVocabulary(["good", "bad", "odd"])


def reader() -> MaskedLanguageModelPredictor:
    config = EncoderConfig.model_validate({"d_model": 12, "heads": 3, "layers": 2, "dropout": 0.0})
    model = build_masked_language_model(config, vocabulary=MASKED.size, longest=24, paired=True)
    _shake(model)
    return MaskedLanguageModelPredictor(model.double().eval(), tokenizer=MASKED, max_length=24)


def said(record: InspectionRecord, about: str) -> list[dict[str, float]]:
    """The options of all answers of a kind."""
    answers = [each for each in record.answers if each.about == about]
    return [{option.name: option.probability for option in each.options} for each in answers]


def test_a_reader_shows_what_it_reads_and_the_candidates_for_what_is_hidden() -> None:
    ours = reader()
    record = ours.inspect("ab[MASK]d [MASK]", scope=InspectionSelection(attention_steps=True, alternatives=4))
    tokens = record.get_axis("source").tokens
    assert tokens == ("<s>", "a", "b", "<mask>", "d", "▁", "<mask>", "</s>")
    assert [(each.place, each.subject) for each in record.answers] == [(3, "<mask>"), (6, "<mask>")]
    (filled,) = ours.fill(["ab[MASK]d [MASK]"], top=4)
    assert said(record, "hidden token") == [
        pytest.approx({guess.piece: guess.probability for guess in gap}, abs=1e-9) for gap in filled.gaps
    ]
    assert [(each.role, each.layer, each.heads) for each in record.maps] == [
        ("encoder", layer, (0, 1, 2)) for layer in range(2)
    ]
    row = ours.embedder.pad_rows([[BOS, *MASKED.encode_with_masks("ab[MASK]d [MASK]"), EOS]])
    with torch.inference_mode(), watch_attention(ours.model) as seen:
        ours.model(row)
    for each in record.maps:
        np.testing.assert_allclose(each.weights, seen[each.path][0][0], atol=1e-6)
        assert each.weights.shape == (3, len(tokens), len(tokens))
        assert each.walk is not None
    assert record.encodings
    assert not record.written


def test_two_texts_have_segments_and_say_how_they_belong_together() -> None:
    ours = reader()
    record = ours.inspect("ab", "c[MASK]", scope=InspectionSelection(attention_steps=True))
    assert record.get_axis("source").tokens == ("<s>", "a", "b", "</s>", "c", "<mask>", "</s>")
    (embedded,) = record.embedded
    table = ours.model.get_submodule("encoder.stack.embedding.segments").weight.detach().numpy()  # type: ignore[union-attr, operator]
    assert embedded.segments == pytest.approx(table[[0, 0, 0, 0, 1, 1, 1]], abs=1e-6)
    (related,) = said(record, "the second text belongs to the first")
    assert sum(related.values()) == pytest.approx(1)
    with torch.inference_mode():
        memory = ours.model(ours.embedder.build_single_row([MASKED.encode("ab"), MASKED.encode_with_masks("c[MASK]")]))
        assert ours.model.relation is not None
        no, yes = ours.model.relation(memory.summary)[0].softmax(-1).tolist()
    assert related == pytest.approx({"no": no, "yes": yes}, abs=1e-9)
    assert ours.inspect("abc").answers == ()


def test_texts_that_are_too_long_to_look_at() -> None:
    ours = reader()
    with pytest.raises(DataError, match="text 1: has 23 tokens, this model reads at most 22"):
        ours.inspect("a" * 23)
    with pytest.raises(DataError, match="the texts have 25 tokens with begin and ends, this model reads at most 24"):
        ours.inspect("a" * 20, "bc")
    with pytest.raises(RecipeError, match="layers: 2; this model has layers 0 to 1"):
        ours.inspect("a", scope=InspectionSelection(layers=(2,)))


def test_an_embedder_has_the_maps_of_its_encoder() -> None:
    ours = reader()
    record = Embedder(ours.model.encoder, tokenizer=MASKED, max_length=24).inspect("abc", "de")
    other = ours.inspect("abc", "de")
    assert record.model == other.model == "transformer encoder"
    assert record.answers == ()
    assert [(each.path, each.role) for each in record.maps] == [(each.path, "encoder") for each in other.maps]
    for mine, theirs in zip(record.maps, other.maps, strict=True):
        np.testing.assert_array_equal(mine.weights, theirs.weights)


def classifier(answered: AnswerType, *, labels: LabelVocabulary | None = None) -> Classifier:
    outputs = 1 if labels is None else labels.size
    model = TextClassifier(reader().model.encoder, output=nn.Linear(12, outputs)).double().eval()
    return Classifier(model, tokenizer=MASKED, answer_type=answered, labels=labels, max_length=12)


@pytest.mark.parametrize("texts", ["abc", ("ab", "cd"), "a" * 15])
def test_a_classifier_shows_what_it_says(texts: str | tuple[str, str]) -> None:
    ours = classifier("class", labels=CLASSES)
    record, (found,) = ours.inspect(texts), ours.classify([texts])
    assert said(record, "class") == [pytest.approx(dict(found.probabilities), abs=1e-6)]
    assert [option.name for option in record.answers[0].options] == list(found.probabilities)
    assert bool(found.cut) == any("5 tokens at its end" in note for note in record.notes)
    assert {each.role for each in record.maps} == {"encoder"}


def test_numbers_and_scores_of_candidates() -> None:
    ours = classifier("number")
    (answer,) = ours.inspect("abc").answers
    assert answer.number == pytest.approx(ours.classify(["abc"])[0].label, abs=1e-6)
    assert answer.answer_text == f"{answer.number:.4g}"
    chooses = classifier("choice")
    scores = [chooses.inspect(text).answers[0].number for text in ("abc", "de")]
    chances = torch.tensor(scores).softmax(0).tolist()
    assert chances == pytest.approx(chooses.choose([["abc", "de"]])[0].probabilities, abs=1e-5)


def test_a_tagger_shows_the_tags_of_words() -> None:
    model = TokenClassifier(reader().model.encoder, output=nn.Linear(12, 3)).double().eval()
    ours = Tagger(model, tokenizer=MASKED, tags=CLASSES, framed=True, max_length=12)
    words = ["ab", "c", "def"]
    record, (tags,) = ours.inspect(words), ours.tag([words])
    assert [(each.subject, each.place) for each in record.answers] == [("ab", 1), ("c", 3), ("def", 4)]
    assert [(each.answer_text, each.options[0].probability) for each in record.answers] == [
        (tag.name, pytest.approx(tag.probability, abs=1e-6)) for tag in tags
    ]
    assert all(sum(each.values()) == pytest.approx(1, abs=1e-6) for each in said(record, "tag"))
    with pytest.raises(DataError, match="no words to show"):
        ours.inspect([])
    with pytest.raises(DataError, match="read in 2 parts, since this model reads at most 12 tokens"):
        ours.inspect(["abcdef", "abcdef", "abc"])


def test_a_recurrent_tagger_says_that_it_has_no_attention() -> None:
    encoder = translator("context").models[0].encoder
    model = TokenClassifier(encoder, output=nn.Linear(16, 3)).double().eval()  # type: ignore[arg-type]
    ours = Tagger(model, tokenizer=LETTERS, tags=CLASSES)
    record = ours.inspect(["ab", "c"])
    assert record.maps == ()
    assert record.notes == ("This model has no attention, so there are no weights to show.",)
    assert [each.answer_text for each in record.answers] == [tag.name for tag in ours.tag([["ab", "c"]])[0]]
    with pytest.raises(RecipeError, match="layers: 0; this model has no attention"):
        ours.inspect(["ab"], scope=InspectionSelection(layers=(0,)))


def test_attention_that_declares_nothing_is_named() -> None:
    ours = translator("bahdanau")
    across: Any = ours.models[0].get_submodule("decoder.reading.across")
    across.probe.role = None
    record = ours.inspect("abc", "fade")
    assert record.maps == ()
    assert record.notes == (
        "Attention at decoder.reading.across does not declare what attends to what, so it is left out.",
    )


def test_an_answerer_shows_where_it_sees_the_answer() -> None:
    model = TokenClassifier(reader().model.encoder, output=nn.Linear(12, 2)).double().eval()
    cutting = WindowSettings(max_length=16, stride=4, max_question=6)
    ours = QuestionAnsweringPredictor(model, tokenizer=MASKED, settings=cutting, max_answer=4, threshold=None)
    for context in ("abc", "abcdef fedcba abcdef"):
        record, found = ours.inspect("fade", context), ours.answer("fade", context, n_best=10)
        assert (len(record.notes) == 1) == (context != "abc")
        tokens = record.get_axis("source").tokens
        assert tokens[:6] == ("<s>", "f", "a", "d", "e", "</s>")
        answer, first, last = record.answers
        assert {option.name: option.probability for option in answer.options if option.name != "no answer"} == {
            span.text: max(each.probability for each in found.spans if each.text == span.text) for span in found.spans
        } or len({span.text for span in found.spans}) < len(found.spans)
        best = next(option for option in answer.options if option.name == found.text)
        assert best.place is not None, "the window with the answer is shown"
        assert "".join(tokens[best.place :]).replace("▁", " ").startswith(found.text)
        for each in (first, last):
            places = [option.place for option in each.options]
            assert all(place is None or 6 <= place < len(tokens) - 1 for place in places)
            assert all(o.name == ("no answer" if o.place is None else tokens[o.place]) for o in each.options)
            if context == "abc":
                assert sum(option.probability for option in each.options) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_padding_can_be_seen_and_changes_nothing(name: str) -> None:
    ours = translator(name)
    padded, plain = ours.inspect("abc", "fade", scope=InspectionSelection(padding=2)), ours.inspect("abc", "fade")
    assert padded.get_axis("source").tokens == (*plain.get_axis("source").tokens, "<pad>", "<pad>")
    assert [each.log_probability for each in padded.written] == pytest.approx(
        [each.log_probability for each in plain.written]
    )
    for each, other in zip(padded.maps, plain.maps, strict=True):
        assert each.weights.shape[2] == other.weights.shape[2] + 2 * (each.keys == "source")
        if each.keys == "source":
            assert not each.visible[:, -2:].any()
            assert not each.weights[:, :, -2:].any()
        queries, keys = other.visible.shape
        np.testing.assert_allclose(each.weights[:, :queries, :keys], other.weights, atol=1e-6)


def _answerer() -> QuestionAnsweringPredictor:
    model = TokenClassifier(reader().model.encoder, output=nn.Linear(12, 2)).double().eval()
    cutting = WindowSettings(max_length=16, stride=4, max_question=6)
    return QuestionAnsweringPredictor(model, tokenizer=MASKED, settings=cutting, max_answer=4, threshold=None)


def _tagger() -> Tagger:
    model = TokenClassifier(reader().model.encoder, output=nn.Linear(12, 3)).double().eval()
    return Tagger(model, tokenizer=MASKED, tags=CLASSES, framed=True, max_length=12)


@pytest.mark.parametrize(
    ("face", "texts"),
    [
        (reader, ("ab[MASK]d", "c")),
        (lambda: classifier("class", labels=CLASSES), (("abc", "de"),)),
        (_tagger, (["ab", "c"],)),
        (_answerer, ("fade", "abcd")),
    ],
    ids=["reader", "classifier", "tagger", "answerer"],
)
def test_faces_that_write_nothing_show_padding_too(face: Callable[[], Any], texts: tuple[Any, ...]) -> None:
    ours = face()
    padded, plain = ours.inspect(*texts, scope=InspectionSelection(padding=3)), ours.inspect(*texts)
    assert padded.get_axis("source").tokens == (*plain.get_axis("source").tokens, *["<pad>"] * 3)
    assert not any(each.weights[:, :, -3:].any() or each.visible[:, -3:].any() for each in padded.maps)
    assert len(padded.answers) == len(plain.answers)
    for one, other in zip(padded.answers, plain.answers, strict=True):
        assert (one.about, one.place, [each.name for each in one.options]) == (
            *(other.about, other.place),
            [each.name for each in other.options],
        )
        chances = [each.probability for each in other.options]
        assert [each.probability for each in one.options] == pytest.approx(chances, abs=1e-6)


def test_memories_have_the_axes_of_their_shapes() -> None:
    def memory(slots: int, shape: MemoryLayout) -> Memory:
        return Memory(
            torch.zeros(1, slots, 2), torch.zeros(1, slots, 2), torch.arange(slots)[None], torch.zeros(1, 2), shape
        )

    memories = {
        "regions": memory(6, GridLayout(2, 3)),
        "film": memory(4, FrameLayout(4)),
        "facts": memory(2, SequenceLayout()),
    }
    picture = np.zeros((1, 8, 8, 3), np.uint8)
    axes = build_memory_axes(
        memories, tokens={"facts": ("a", "b")}, pictures={"regions": picture}, marked={"film": (1,)}
    )
    assert [(axis.name, axis.kind, axis.size_text) for axis in axes] == [
        ("regions", "grid", "2 x 3"),
        ("film", "frames", "4"),
        ("facts", "text", "2"),
    ]
    assert axes[0].pictures is picture
    assert axes[1].marked == (1,)
    assert axes[2].tokens == ("a", "b")
    assert [axis.name for axis in build_memory_axes(memories["facts"])] == ["source"]
    with pytest.raises(DataError, match="1 tokens for 2 slots"):
        build_memory_axes(memories, tokens={"facts": ("a",)})
    with pytest.raises(DataError, match="a text has none"):
        build_memory_axes(memories, pictures={"facts": picture})
