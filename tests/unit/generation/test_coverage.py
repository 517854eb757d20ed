"""What a search found, ranked by coverage as well."""

from __future__ import annotations

import math

import pytest
import torch

from heedful.errors import RecipeError
from heedful.generation.penalties import GNMTLengthPenalty
from heedful.generation.prefill import GenerationRequest
from heedful.generation.search import BeamSearch, CoverageReranker, compute_coverage

EOS = 1
KEYS = [5, 2, 77]
PROMPTS = [(0,), (0, 4), (0, 2, 3)]


def attended(row: int, ids: tuple[int, ...]) -> torch.Tensor:
    """Weights that depend on the row and the tokens, the end among them; each row of them adds up to 1."""
    scores = torch.tensor([[math.sin(7 * row + 3 * token + 5 * at) for at in range(4)] for token in (*ids, EOS)])
    return (4 * scores).softmax(1)


def test_coverage_is_the_logarithm_of_what_each_source_token_got_but_no_more_than_one() -> None:
    weights = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.75, 0.15, 0.1, 0.0]])
    expected = math.log(1.0) + math.log(0.65) + math.log(0.1) + math.log(1e-4)
    assert compute_coverage(weights) == pytest.approx(expected, abs=1e-5)
    assert compute_coverage(torch.eye(3)) == 0.0


def test_what_ended_is_ranked_by_scores_and_coverage(history_model, prompts) -> None:
    model, beam = history_model(6, seed=1, bias=1.0), BeamSearch(EOS, 5, GNMTLengthPenalty(0.6), 5)
    asked = []

    def looked(rows, texts):
        asked.append((list(rows), list(texts)))
        return [attended(row, ids) for row, ids in zip(rows, texts, strict=True)]

    def found(search, **more):
        request = GenerationRequest(prompts(PROMPTS), torch.tensor([7, 2, 5]), **more)
        return search.decode_request(model.step, model.init_state(KEYS), request)

    plain = found(beam).hypotheses
    changed = 0
    for n_best in (1, 5):
        mine = found(CoverageReranker(beam, 1.5, n_best), attention_lookup=looked, keep_state=True)
        for row, (own, others) in enumerate(zip(mine.hypotheses, plain, strict=True)):
            scores = {(h.ids, h.finished): h.score + 1.5 * compute_coverage(attended(row, h.ids)) for h in others}
            order = sorted(others, key=lambda h: (not h.finished, -scores[h.ids, h.finished]))[:n_best]
            assert [(h.ids, h.finished) for h in own] == [(h.ids, h.finished) for h in order]
            assert [h.score for h in own] == pytest.approx([scores[h.ids, h.finished] for h in own])
            assert [h.log_probability for h in own] == [h.log_probability for h in order]
            changed += own[0].ids != others[0].ids
        assert asked.pop() == (
            [row for row, own in enumerate(plain) for _ in own],
            [h.ids for own in plain for h in own],
        )
        assert mine.resume_state is not None
        written = [(*h.ids, *([EOS] if h.finished else [])) for own in mine.hypotheses for h in own]
        assert mine.resume_state.pending_tokens.ids.squeeze(1).tolist() == [ids[-1] for ids in written], (
            "the model stands there too"
        )
    assert changed, "or nothing was ranked anew"
    none = found(CoverageReranker(beam, 0.0, 5), attention_lookup=looked).hypotheses
    assert none == plain


def test_nobody_who_cannot_say_what_was_looked_at_is_asked(history_model, prompts) -> None:
    model = history_model(6)
    with pytest.raises(RecipeError, match="coverage: needs attention to"):
        CoverageReranker(BeamSearch(EOS, 2, GNMTLengthPenalty(0.6), 2), 0.2).decode_request(
            model.step, model.init_state([1]), GenerationRequest(prompts([(0,)]), 4)
        )
