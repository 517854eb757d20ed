"""Connectionist temporal classification beside all paths, one by one."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import pytest
import torch
from torch import Tensor

from heedful.generation.ctc import CTCBestPath, CTCPrefixBeam, count_needed_frames, ctc_loss
from heedful.generation.penalties import AverageLength, NoLengthPenalty

BLANK = 1


def chances(frames: int, tokens: int, *, seed: int = 1, sharp: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (sharp * torch.randn(1, frames, tokens, generator=generator)).log_softmax(-1)


def read(path: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(token for token, _ in itertools.groupby(path) if token != BLANK)


def every_text(said: Tensor) -> dict[tuple[int, ...], float]:
    """The probability of each text, added up path by path."""
    found: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for path in itertools.product(range(said.size(1)), repeat=len(said)):
        found[read(path)] += math.exp(sum(float(said[t, token]) for t, token in enumerate(path)))
    return found


def alpha(said: Tensor, labels: list[int]) -> float:
    """The forward variables of Graves 2006, equations 6 to 8, cell by cell."""
    around = [BLANK, *(each for label in labels for each in (label, BLANK))]
    table = [[0.0] * len(around) for _ in said]
    for t, row in enumerate(said.exp().tolist()):
        for s, label in enumerate(around):
            if t == 0:
                before = float(s < 2)
            else:
                before = table[t - 1][s] + (table[t - 1][s - 1] if s > 0 else 0.0)
                if s > 1 and label != BLANK and label != around[s - 2]:
                    before += table[t - 1][s - 2]
            table[t][s] = before * row[label]
    return table[-1][-1] + (table[-1][-2] if labels else 0.0)


@pytest.mark.parametrize("labels", [[], [2], [0, 2], [2, 2], [3, 0, 3], [0, 0, 0]])
def test_the_loss_is_that_of_the_forward_variables_and_of_all_paths(labels: list[int]) -> None:
    said = chances(5, 4)
    rows = torch.tensor([[*labels, -1][:3]]) if labels else torch.tensor([[-1]])
    loss = float(ctc_loss(said, torch.tensor([5]), rows, blank=BLANK))
    assert loss == pytest.approx(-math.log(alpha(said[0], labels)), rel=1e-5)
    assert loss == pytest.approx(-math.log(every_text(said[0])[tuple(labels)]), rel=1e-5)


def test_rows_do_not_hear_each_other_nor_their_padding() -> None:
    one, other = chances(6, 5), chances(4, 5, seed=2)
    together = torch.cat((one, torch.cat((other, torch.full((1, 2, 5), -3.0)), 1)))
    labels = torch.tensor([[2, 3, 4], [0, -1, -1]])
    found = ctc_loss(together, torch.tensor([6, 4]), labels, blank=BLANK)
    alone = [
        ctc_loss(one, torch.tensor([6]), labels[:1], blank=BLANK),
        ctc_loss(other, torch.tensor([4]), labels[1:, :1], blank=BLANK),
    ]
    torch.testing.assert_close(found, torch.cat(alone))
    search = CTCPrefixBeam(BLANK, (), 20, NoLengthPenalty(), n_best=3)
    limit = torch.tensor([9, 9])
    both = search(together, torch.tensor([6, 4]), max_lengths=limit)
    assert both[1] == search(other, torch.tensor([4]), max_lengths=limit[:1])[0]


@pytest.mark.parametrize(("labels", "frames"), [([], 0), ([2], 1), ([2, 3], 2), ([2, 2], 3), ([2, 2, 2, 3], 6)])
def test_texts_need_a_blank_between_two_that_are_alike(labels: list[int], frames: int) -> None:
    assert count_needed_frames(labels) == frames
    if labels:
        rows = torch.tensor([labels])
        for count in (frames - 1, frames):
            loss = ctc_loss(chances(frames, 4), torch.tensor([count]), rows, blank=BLANK)
            assert bool(loss.isfinite()) == (count == frames)


@pytest.mark.parametrize("seed", range(6))
def test_a_wide_beam_finds_the_most_probable_texts(seed: int) -> None:
    said = chances(5, 4, seed=seed)
    ranked = sorted(every_text(said[0]).items(), key=lambda each: -each[1])
    (found,) = CTCPrefixBeam(BLANK, (), 400, NoLengthPenalty(), n_best=5)(
        said, torch.tensor([5]), max_lengths=torch.tensor([9])
    )
    assert [each.ids for each in found] == [ids for ids, _ in ranked[:5]]
    for each, (_, chance) in zip(found, ranked, strict=False):
        assert each.log_probability == pytest.approx(math.log(chance), rel=1e-4)
        assert each.score == each.log_probability
        assert each.finished


def test_the_beam_adds_up_paths_where_the_best_path_does_not() -> None:
    """Twice 0.6 for the blank, and 0.4 for a token: the best path says nothing, but the token is more probable."""
    said = torch.tensor([[[1e-9, 0.6, 0.4], [1e-9, 0.6, 0.4]]]).log()
    counts, limit = torch.tensor([2]), torch.tensor([9])
    assert CTCBestPath(BLANK, ())(said, counts, max_lengths=limit)[0][0].ids == ()
    (beam,) = CTCPrefixBeam(BLANK, (), 2, NoLengthPenalty())(said, counts, max_lengths=limit)
    assert beam[0].ids == (2,)
    assert beam[0].log_probability == pytest.approx(math.log(1 - 0.36), rel=1e-5)


def test_the_best_path_is_read_by_dropping_repetitions_then_blanks() -> None:
    path = [2, 2, BLANK, 2, 3, 3, BLANK, BLANK, 3]
    said = torch.full((1, len(path), 4), -9.0)
    for t, token in enumerate(path):
        said[0, t, token] = -0.001
    for search in (CTCBestPath(BLANK, ()), CTCPrefixBeam(BLANK, (), 3, NoLengthPenalty())):
        assert search(said, torch.tensor([len(path)]), max_lengths=torch.tensor([9]))[0][0].ids == (2, 2, 3, 3)
        assert search(said, torch.tensor([4]), max_lengths=torch.tensor([9]))[0][0].ids == (2, 2)
        assert len(search(said, torch.tensor([len(path)]), max_lengths=torch.tensor([3]))[0][0].ids) == 3


def test_silent_tokens_are_never_written_and_lengths_weigh() -> None:
    said = chances(6, 5, sharp=2.0)
    everything = every_text(said[0])
    for search in (CTCBestPath(BLANK, (0, 3)), CTCPrefixBeam(BLANK, (0, 3), 50, NoLengthPenalty(), n_best=9)):
        (found,) = search(said, torch.tensor([6]), max_lengths=torch.tensor([9]))
        assert not {0, 3} & {token for each in found for token in each.ids}
        # what is said of a text is said by the model without the silence
        assert found[0].log_probability == pytest.approx(math.log(everything[found[0].ids]), rel=1e-4)
    (found,) = CTCPrefixBeam(BLANK, (), 400, AverageLength(), n_best=4)(
        said, torch.tensor([6]), max_lengths=torch.tensor([9])
    )
    assert [each.score for each in found] == pytest.approx(
        [each.log_probability / (len(each.ids) + 1) for each in found]
    )
    best = max(everything, key=lambda ids: math.log(everything[ids]) / (len(ids) + 1))
    assert found[0].ids == best
