"""A trained model as its users see it: order, limits, prefixes, scores, alignments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import ModelConfig, TransformerConfig
from heedful.architectures.recurrent import BahdanauConfig, ContextConfig, LuongConfig, RecurrentConfig
from heedful.data.token_offsets import find_term
from heedful.data.tokenizers import BOS, EOS, PAD, CharacterTokenizer
from heedful.errors import DataError, RecipeError
from heedful.generation import GNMTLengthPenalty, MultinomialSampler, SuppressTokens
from heedful.generation.search import BeamSearch, GreedySearch, SamplingSearch, SearchStrategy
from heedful.tasks.decoder_target import TextCandidate
from heedful.tasks.predictor import UnreadableInput
from heedful.tasks.search_factory import LengthLimits
from heedful.tasks.translation.translations import Translation, join_translations
from heedful.tasks.translation.translator import Translator

LETTERS = CharacterTokenizer("abcdef", lowercase=False)
MAX_SOURCE = 12
SENTENCES = ["abc", "", "f", "abcdefabcd", "ba", "  ", "dd", "cafe"]
SILENT = (SuppressTokens((PAD, BOS)),)


TRANSFORMER = TransformerConfig(d_model=12, heads=3, encoder_layers=1, decoder_layers=1, output_bias=True)


def network(seed: int = 0, *, end: float = 0.0, config: ModelConfig = TRANSFORMER) -> Any:
    """A random model; `end` makes the end of sentence likely or unlikely."""
    torch.manual_seed(seed)
    model = build_sequence_to_sequence(config, DataSizes(LETTERS.size, LETTERS.size, 40))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    with torch.no_grad():
        model.output.bias[EOS] += end
    return model.double().eval()


def translator(*models: Any, length: LengthLimits | None = None, search: SearchStrategy | None = None) -> Translator:
    return Translator(
        models or (network(),),
        source=LETTERS,
        target=LETTERS,
        search=search or GreedySearch(EOS, SILENT),
        length=length or LengthLimits(),
        max_source=MAX_SOURCE,
    )


@pytest.mark.parametrize(("ratio", "extra"), [(1.0, 0), (1.0, 3), (2.5, 1), (0.0, 4)])
def test_translations_are_no_longer_than_allowed(ratio: float, extra: int) -> None:
    """ratio times the source's tokens, its end included, and `extra` more; the end of the translation counts."""
    never = translator(network(end=-1e4), length=LengthLimits(ratio, extra))
    for sentence, found in zip(SENTENCES, never.translate(SENTENCES), strict=True):
        (best,) = found.candidates
        assert len(best.tokens) == (int(ratio * (len(sentence) + 1)) + extra if sentence.strip() else 0)
        assert best.finished == (not sentence.strip())


@pytest.mark.parametrize("batch_tokens", [12, 4096])
@pytest.mark.parametrize(
    "search", [GreedySearch(EOS, SILENT), BeamSearch(EOS, 3, GNMTLengthPenalty(0.6), 2, SILENT)], ids=["greedy", "beam"]
)
def test_order_is_kept_and_neighbours_do_not_matter(batch_tokens: int, search: SearchStrategy) -> None:
    ours = translator(length=LengthLimits(1.0, 4), search=search)
    ticks: list[int] = []
    found = ours.translate(SENTENCES, batch_tokens=batch_tokens, tick=ticks.append)
    assert sum(ticks) == len(SENTENCES)
    assert [each.source for each in found] == SENTENCES
    backwards = ours.translate(SENTENCES[::-1], batch_tokens=1)[::-1]
    for sentence, each, alone in zip(SENTENCES, found, backwards, strict=True):
        assert [c.text for c in each.candidates] == [c.text for c in alone.candidates]
        for mine, other in zip(each.candidates, alone.candidates, strict=True):
            assert mine.log_probability == pytest.approx(other.log_probability)
        if sentence.strip():
            assert list(each.source_tokens) == LETTERS.to_pieces(LETTERS.encode(sentence))
            assert each.text == "".join(each.candidates[0].tokens)
        else:
            assert (each.text, each.source_tokens) == ("", ())
            assert each.candidates[0].finished


def test_scores_of_what_was_found_are_those_it_was_found_with() -> None:
    """Forced decoding and search agree, and so do batches of any size."""
    ours = translator(
        network(end=4.0), length=LengthLimits(2.0, 9), search=BeamSearch(EOS, 4, GNMTLengthPenalty(0.0), 4, SILENT)
    )
    found = [each for each in ours.translate(SENTENCES) if each.source.strip()]
    pairs = [(each.source, c.text) for each in found for c in each.candidates if c.finished]
    wanted = [c.log_probability for each in found for c in each.candidates if c.finished]
    assert len(wanted) > len(found)
    for batch_tokens in (1, 4096):
        scores = ours.score(pairs, batch_tokens=batch_tokens)
        assert [score.log_probability for score in scores] == pytest.approx(wanted)
        for (_, target), score in zip(pairs, scores, strict=True):
            assert score.count == len(target) + 1 == len(score.token_log_probabilities)
            assert sum(score.token_log_probabilities) == pytest.approx(score.log_probability)
            assert "".join(score.tokens) == target


def test_a_prefix_is_kept_even_where_it_fills_the_limit() -> None:
    sentences, prefixes = ["abc", "f", "dd"], ["fade", "", "b"]
    ours = translator(network(end=-1e4), length=LengthLimits(0.0, 2))
    for each, prefix in zip(ours.translate(sentences, prefixes=prefixes), prefixes, strict=True):
        assert each.text.startswith(prefix)
        assert len(each.text) == max(2, len(prefix) + 1)
    free = ours.translate(sentences)
    assert [e.text for e in ours.translate(sentences, prefixes=["", "", ""])] == [e.text for e in free]


def test_constraints_are_held_as_words_of_their_own() -> None:
    """Whatever a model without sense would make of the letters beside them."""
    letters = CharacterTokenizer("abcdef ", lowercase=False)
    torch.manual_seed(1)
    model = build_sequence_to_sequence(TRANSFORMER, DataSizes(letters.size, letters.size, 60))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    search = BeamSearch(EOS, 4, GNMTLengthPenalty(0.6), 4, SILENT)
    ours = Translator(
        [model.eval()], source=letters, target=letters, search=search, length=LengthLimits(), max_source=20
    )
    wanted = [["ab"], ["f", "bad cab"], [], ["cab", "cabs"]]
    found = ours.translate(["abc", "fade", "bed", "cab"], constraints=wanted)
    assert [each.unmet for each in found] == [(), (), (), ("cabs",)]
    for each, terms in zip(found, wanted, strict=True):
        for candidate in each.candidates:
            assert not candidate.finished or all(list(find_term(t, candidate.text)) for t in terms if t != "cabs")


def test_a_least_length_beyond_the_longest_leaves_room_for_the_end() -> None:
    ours = translator(network(end=50.0), length=LengthLimits(0.0, 6, min_length=99))
    for each in ours.translate(["abc", "f"]):
        assert (len(each.candidates[0].ids), each.candidates[0].finished) == (5, True)


def test_a_prefix_counts_for_the_least_length() -> None:
    ours = translator(network(end=50.0), length=LengthLimits(0.0, 9, min_length=4))
    for prefix in ("", "ab", "abcd", "abcdef"):
        (found,) = ours.translate(["abc"], prefixes=[prefix])
        assert len(found.candidates[0].ids) == max(4, len(prefix)), prefix


def test_a_given_pair_beyond_the_model_is_named() -> None:
    ours = translator()
    longest = "a" * (MAX_SOURCE - 1)
    pairs = [("a", "b")] * 7 + [(longest + "a", "b"), (longest, "b")]
    message = "sentence 8: has 12 tokens, this model reads at most 11; split it"
    for call in (ours.score, ours.align_all, ours.link):
        with pytest.raises(DataError, match=message):
            call(pairs)
    assert ours.unread(pairs) == {7: UnreadableInput(message)}
    assert list(ours.unread(pairs, first=3)) == [7]
    assert ours.unread(pairs, first=3)[7].message.startswith("sentence 10: ")


LONG = "  abc de. Fa,  b! Dead fed"
"""Eleven letters and spaces are read at a time."""
PARTED = ["abc de.", "Fa,  b!", "Dead fed"]


@pytest.mark.parametrize(
    "search", [GreedySearch(EOS, SILENT), BeamSearch(EOS, 3, GNMTLengthPenalty(0.6), 2, SILENT)], ids=["greedy", "beam"]
)
def test_a_sentence_that_is_too_long_is_translated_in_parts(search: SearchStrategy) -> None:
    """Parts are read as if each were given alone, and stand together as in the source."""
    ours = translator(length=LengthLimits(1.0, 4), search=search)
    found, other = ours.translate([LONG, "cafe"], first=3)
    assert (found.source, found.cut) == (LONG, 0)
    assert [part.source for part in found.parts] == PARTED
    alone = ours.translate(PARTED)
    for part, each in zip(found.parts, alone, strict=True):
        assert [c.ids for c in part.candidates] == [c.ids for c in each.candidates]
    assert found.source_tokens == tuple(piece for each in alone for piece in each.source_tokens)
    for rank, best in enumerate(found.candidates):
        chosen = [each.candidates[rank] for each in alone]
        assert best.text == " ".join(each.text for each in chosen if each.text)
        assert best.tokens == tuple(piece for each in chosen for piece in each.tokens)
        assert best.ids == tuple(number for each in chosen for number in each.ids)
        assert best.score == pytest.approx(sum(each.score for each in chosen))
        assert best.log_probability == pytest.approx(sum(each.log_probability for each in chosen))
        assert best.finished == all(each.finished for each in chosen)
    assert len(found.candidates) == len(alone[0].candidates)
    assert all(part.text for part in found.parts), "or nothing was joined"
    assert other.parts == ()
    assert other.text == ours.translate(["cafe"])[0].text


def test_what_stands_between_parts_stays() -> None:
    def part(source: str, *texts: str, score: float = -1.0) -> Translation:
        return Translation(source, (), tuple(TextCandidate(t, (), (), score, score, finished=True) for t in texts))

    found = join_translations(
        " a.\n\nb.c \td", [part("a.", "A", "AA"), part("b.", "B"), part("c", "C", ""), part("d", "D", "DD")]
    )
    assert [each.text for each in found.candidates] == ["A\n\nBC \tD", "AA\n\nB \tDD"]
    assert found.candidates[0].score == -4
    assert join_translations(" a. b.", [part("a.", ""), part("b.", "B")]).text == "B", "an empty part leaves no space"


def test_a_word_that_is_too_long_is_read_to_the_models_end() -> None:
    ours, word = translator(), "abcdef" * 3
    (alone,) = ours.translate([word])
    assert (alone.source, alone.cut, alone.parts) == (word, 7, ())
    assert alone.text == ours.translate([word[:11]])[0].text
    (among,) = ours.translate([f"fed {word} cab"])
    assert [(part.source, part.cut) for part in among.parts] == [("fed", 0), (word, 7), ("cab", 0)]
    assert among.cut == 7
    assert ours.align(word, alone.candidates[0]).source_tokens == (*word[:11], "</s>")
    with pytest.raises(DataError, match="sentence 1: has 18 tokens"):
        ours.align(word, alone.text)


def test_the_first_part_alone_begins_with_the_prefix() -> None:
    ours = translator(network(end=-1e4), length=LengthLimits(0.0, 3))
    (found,) = ours.translate([LONG], prefixes=["fad"])
    first, *others = [part.text for part in found.parts]
    assert first.startswith("fad")
    assert others == [part.text for part in ours.translate([LONG])[0].parts[1:]]
    assert found.text.startswith("fad")


def test_parts_are_drawn_apart_from_each_other() -> None:
    """Two parts that read alike need not be translated alike; and a sentence is drawn alike with any neighbours."""
    ours = translator(network(end=-2.0), search=SamplingSearch(EOS, MultinomialSampler(1.0, SILENT, seed=5), 1))
    same = "abc def. Abc def. Abc def."
    (found,) = ours.translate([same])
    first, second, third = (part.candidates[0].ids for part in found.parts)
    assert len({first, second, third}) > 1
    assert ours.translate(["cafe", same, "b"], first=0)[1].candidates[0].ids == found.candidates[0].ids
    assert ours.translate(["abc def."])[0].candidates[0].ids == first, "the first part has the chance of its sentence"


@pytest.mark.slow
def test_a_sentence_is_finished_once_all_its_parts_are() -> None:
    ticks: list[int] = []
    translator().translate([LONG, "", "cafe", LONG], batch_tokens=1, tick=ticks.append)
    assert sum(ticks) == 4
    assert ticks[-1] == 1


def test_several_models_vote() -> None:
    """An ensemble scores with the mean of its members' probabilities."""
    one, other = network(1), network(2)
    pairs = [("abc", "fe"), ("d", "abba")]
    both = translator(one, other).score(pairs)
    apart = [translator(model).score(pairs) for model in (one, other)]
    for row, score in enumerate(both):
        each = np.array([scores[row].token_log_probabilities for scores in apart])
        np.testing.assert_allclose(score.token_log_probabilities, np.log(np.exp(each).mean(0)))
    assert [t.text for t in translator(one, one).translate(SENTENCES)] == [
        t.text for t in translator(one).translate(SENTENCES)
    ]


def test_alignments_say_what_each_target_token_looked_at() -> None:
    found = translator().align("abcd", "fe")
    assert found.source_tokens == ("a", "b", "c", "d", "</s>")
    assert found.target_tokens == ("f", "e", "</s>")
    assert list(found.weights) == ["decoder.stack.layers.0.across"]
    (weights,) = found.weights.values()
    assert weights.shape == (3, 5)
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-6)


@pytest.mark.parametrize("reading", [BahdanauConfig(), LuongConfig(), LuongConfig(input_feeding=False)])
def test_alignments_of_recurrent_models_have_a_row_for_each_token(reading: BahdanauConfig | LuongConfig) -> None:
    ours = translator(network(config=RecurrentConfig(d_model=6, reading=reading)))
    found = ours.align("abcd", "fe")
    assert list(found.weights) == ["decoder.reading.across"]
    assert found.weights["decoder.reading.across"].shape == (3, 5)
    np.testing.assert_allclose(found.weights["decoder.reading.across"].sum(1), 1, rtol=1e-6)
    shorter = ours.align("abcd", "f").weights["decoder.reading.across"]
    np.testing.assert_allclose(shorter[:2], found.weights["decoder.reading.across"][:2], rtol=1e-6)


def test_a_model_that_reads_its_source_as_one_vector_has_no_alignment() -> None:
    ours = translator(network(config=RecurrentConfig(d_model=6, reading=ContextConfig())))
    with pytest.raises(RecipeError, match="no attention to its source"):
        ours.align("abcd", "fe")


def test_a_candidate_is_aligned_in_the_pieces_in_which_it_was_generated() -> None:
    ours = translator()
    ids = ours.target.encode("efe")
    candidate = TextCandidate("told otherwise", tuple(ids), (), 0.0, 0.0, finished=True)
    found, expected = ours.align("abcd", candidate), ours.align("abcd", "efe")
    assert found.target_tokens == ("e", "f", "e", "</s>") == expected.target_tokens
    for path, weights in found.weights.items():
        np.testing.assert_array_equal(weights, expected.weights[path])
