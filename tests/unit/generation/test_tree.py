"""The tree of a beam search against the model itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from heedful.generation import GNMTLengthPenalty, beam_search
from heedful.generation.beam_state import BeamTree
from heedful.generation.prefill import GenerationRequest
from heedful.generation.search import BeamSearch, DiverseBeamSearch

EOS, KEY, PROMPT = 1, 31, (0, 4)
PENALTY = GNMTLengthPenalty(0.6)


def spelled(tree, number):
    """The tokens from the root to a node."""
    ids = []
    while number:
        ids.insert(0, tree.nodes[number].id)
        number = tree.nodes[number].parent
    return tuple(ids)


@pytest.mark.parametrize("prefix", [(), (3, 2)])
@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_the_tree_holds_what_was_ranked(history_model, prompts, width, seed, prefix):
    model, tree = history_model(6, seed=seed), BeamTree(width=width, eos=EOS)
    (found,) = beam_search(
        model.step,
        model.init_state([KEY]),
        prompts([PROMPT]),
        width=width,
        eos=EOS,
        max_new_tokens=8,
        length_penalty=PENALTY,
        n_best=width,
        prefix=None if not prefix else prompts([prefix]).ids,
        on_step=tree.add_step,
    )
    given = model.total(KEY, PROMPT, prefix)
    assert tree.nodes[0].id == -1
    live = {()}
    depth = 1
    while any(len(spelled(tree, n)) == depth for n in range(1, len(tree.nodes))):
        level = {spelled(tree, n): node for n, node in enumerate(tree.nodes) if n and len(spelled(tree, n)) == depth}
        every = {(*ids, token): model.total(KEY, PROMPT, (*prefix, *ids, token)) for ids in live for token in range(6)}
        ranked = sorted(every, key=every.get, reverse=True)[: 2 * width]
        assert set(level) == set(ranked)
        for ids, node in level.items():
            assert node.total == pytest.approx(every[ids])
            score = every[ids] / PENALTY.compute_divisors(prompts([[1]]).ids.double() * (len(prefix) + depth)).item()
            assert node.score == (pytest.approx(score) if ids[-1] == EOS else None)
        assert {ids for ids in level if level[ids].fate == "ended"} == {i for i in ranked[:width] if i[-1] == EOS}
        live = {ids for ids in level if level[ids].fate == "lived"}
        assert live == set([ids for ids in ranked if ids[-1] != EOS][:width])
        depth += 1
    assert depth > 2
    for hypothesis in found:
        ids = (*hypothesis.ids[len(prefix) :], *([EOS] if hypothesis.finished else []))
        path = tree.find_path(ids)
        assert spelled(tree, path[-1]) == ids
        last = tree.nodes[path[-1]]
        assert last.total == pytest.approx(hypothesis.log_probability)
        assert last.total <= given
        if hypothesis.finished:
            assert (last.fate, last.score) == ("ended", pytest.approx(hypothesis.score))


def test_tokens_that_nobody_tried_end_the_path(history_model, prompts):
    model, tree = history_model(6, seed=1), BeamTree(width=2, eos=EOS)
    beam_search(
        model.step,
        model.init_state([KEY]),
        prompts([PROMPT]),
        width=2,
        eos=EOS,
        max_new_tokens=3,
        length_penalty=PENALTY,
        on_step=tree.add_step,
    )
    tried = {node.id for node in tree.nodes if node.parent == 0}
    untried = next(token for token in range(6) if token not in tried)
    assert tree.find_path([untried, 2]) == [0]


def grown(search, model, prompts, *, width):
    """The tree of a search, and what it found."""
    tree = BeamTree(width=width, eos=EOS)
    request = GenerationRequest(prompts([PROMPT]), 8)
    found = replace(search, on_step=tree.add_step).decode_request(model.step, model.init_state([KEY]), request)
    return tree, found.hypotheses[0]


@pytest.mark.parametrize("diversity", [0.3, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_groups_grow_one_tree(history_model, prompts, seed, diversity):
    """The first group is a narrow beam; all others lead to what was found, step by step as the model says."""
    model = history_model(6, seed=seed)
    tree, found = grown(DiverseBeamSearch(EOS, 6, 3, diversity, PENALTY, 6), model, prompts, width=2)
    narrow, _ = grown(BeamSearch(EOS, 2, PENALTY, 2), model, prompts, width=2)
    assert [node for node in narrow.nodes if node.parent == 0] == [node for node in tree.nodes if node.parent == 0][:4]
    assert {(spelled(narrow, n), node.fate) for n, node in enumerate(narrow.nodes)} <= {
        (spelled(tree, n), node.fate) for n, node in enumerate(tree.nodes)
    }
    for number, node in enumerate(tree.nodes[1:], 1):
        assert tree.nodes[node.parent].fate == "lived"
        assert node.total == pytest.approx(model.total(KEY, PROMPT, spelled(tree, number)), abs=1e-5)
    lived = Counter(len(spelled(tree, n)) for n, node in enumerate(tree.nodes) if n and node.fate == "lived")
    assert max(lived.values()) <= 6 and lived[1] > 2
    assert len(found) > 1
    for hypothesis in found:
        ids = (*hypothesis.ids, *([EOS] if hypothesis.finished else []))
        path = tree.find_path(ids)
        assert spelled(tree, path[-1]) == ids
        last = tree.nodes[path[-1]]
        assert last.total == pytest.approx(hypothesis.log_probability)
        assert last.fate == ("ended" if hypothesis.finished else "lived")


def test_one_group_is_a_beam(history_model, prompts):
    model = history_model(6, seed=2)
    one, _ = grown(DiverseBeamSearch(EOS, 4, 1, 1.0, PENALTY, 2), model, prompts, width=4)
    beam, _ = grown(BeamSearch(EOS, 4, PENALTY, 2), model, prompts, width=4)
    assert one.nodes == beam.nodes
