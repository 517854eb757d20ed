"""A trained model as its users see it: order, limits, prefixes, scores, alignments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from heedful.architectures.build import Sizes, build_sequence_to_sequence
from heedful.architectures.model import ModelConfig, TransformerConfig
from heedful.architectures.recurrent import BahdanauConfig, ContextConfig, LuongConfig, RecurrentConfig
from heedful.data.tokenizers import BOS, EOS, PAD, Characters
from heedful.errors import DataError, RecipeError
from heedful.generation import Forbid, Wu
from heedful.generation.search import Beam, Greedy, Search
from heedful.tasks.searches import Length
from heedful.tasks.target import Candidate
from heedful.tasks.translation.face import Translator

LETTERS = Characters("abcdef", lowercase=False)
MAX_SOURCE = 12
SENTENCES = ["abc", "", "f", "abcdefabcd", "ba", "  ", "dd", "cafe"]
SILENT = (Forbid((PAD, BOS)),)


TRANSFORMER = TransformerConfig(d_model=12, heads=3, encoder_layers=1, decoder_layers=1, output_bias=True)


def network(seed: int = 0, *, end: float = 0.0, config: ModelConfig = TRANSFORMER) -> Any:
    """A random model; `end` makes the end of sentence likely or unlikely."""
    torch.manual_seed(seed)
    model = build_sequence_to_sequence(config, Sizes(LETTERS.size, LETTERS.size, 40))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    with torch.no_grad():
        model.output.bias[EOS] += end
    return model.double().eval()


def translator(*models: Any, length: Length | None = None, search: Search | None = None) -> Translator:
    return Translator(
        models or (network(),),
        source=LETTERS,
        target=LETTERS,
        search=search or Greedy(EOS, SILENT),
        length=length or Length(),
        max_source=MAX_SOURCE,
    )


@pytest.mark.parametrize(("ratio", "extra"), [(1.0, 0), (1.0, 3), (2.5, 1), (0.0, 4)])
def test_translations_are_no_longer_than_allowed(ratio: float, extra: int) -> None:
    """ratio times the source's tokens, its end included, and `extra` more; the end of the translation counts."""
    never = translator(network(end=-1e4), length=Length(ratio, extra))
    for sentence, found in zip(SENTENCES, never.translate(SENTENCES), strict=True):
        (best,) = found.candidates
        assert len(best.tokens) == (int(ratio * (len(sentence) + 1)) + extra if sentence.strip() else 0)
        assert best.finished == (not sentence.strip())


@pytest.mark.parametrize("batch_tokens", [12, 4096])
@pytest.mark.parametrize("search", [Greedy(EOS, SILENT), Beam(EOS, 3, Wu(0.6), 2, SILENT)], ids=["greedy", "beam"])
def test_order_is_kept_and_neighbours_do_not_matter(batch_tokens: int, search: Search) -> None:
    ours = translator(length=Length(1.0, 4), search=search)
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
            assert list(each.source_tokens) == LETTERS.pieces(LETTERS.encode(sentence))
            assert each.text == "".join(each.candidates[0].tokens)
        else:
            assert (each.text, each.source_tokens) == ("", ())
            assert each.candidates[0].finished


def test_scores_of_what_was_found_are_those_it_was_found_with() -> None:
    """Forced decoding and search agree, and so do batches of any size."""
    ours = translator(network(end=4.0), length=Length(2.0, 9), search=Beam(EOS, 4, Wu(0.0), 4, SILENT))
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
    ours = translator(network(end=-1e4), length=Length(0.0, 2))
    for each, prefix in zip(ours.translate(sentences, prefixes=prefixes), prefixes, strict=True):
        assert each.text.startswith(prefix)
        assert len(each.text) == max(2, len(prefix) + 1)
    free = ours.translate(sentences)
    assert [e.text for e in ours.translate(sentences, prefixes=["", "", ""])] == [e.text for e in free]


def test_a_sentence_beyond_the_model_is_named() -> None:
    ours = translator()
    longest = "a" * (MAX_SOURCE - 1)
    assert ours.translate([longest])[0].source == longest
    for call in (
        lambda: ours.translate(["a", longest + "a"], first=7),
        lambda: ours.score([("a", "b")] * 7 + [(longest + "a", "b")]),
    ):
        with pytest.raises(DataError, match=r"sentence 8: has 12 tokens, this model reads at most 11; split it"):
            call()


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
    candidate = Candidate("told otherwise", tuple(ids), (), 0.0, 0.0, finished=True)
    found, expected = ours.align("abcd", candidate), ours.align("abcd", "efe")
    assert found.target_tokens == ("e", "f", "e", "</s>") == expected.target_tokens
    for path, weights in found.weights.items():
        np.testing.assert_array_equal(weights, expected.weights[path])
