"""Inspection records with random but consistent attention, to test views and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from heedful.attention.hooks import READ_AXIS, SOURCE_AXIS, WHOLE_AXIS, WRITTEN_AXIS, AttentionKind
from heedful.inspection.record import (
    AnswerOption,
    AttentionMap,
    AttentionSteps,
    BeamNode,
    EmbeddedTokens,
    GeneratedToken,
    InspectionRecord,
    MapAxis,
    ModelAnswer,
    PositionEncoding,
    TokenAlternative,
)

ENGLISH = ("a", "man", "in", "a", "blue", "shirt", "is", "standing", ".", "</s>")
GERMAN = ("ein", "mann", "in", "einem", "blauen", "hemd", "steht", ".", "</s>")
D_MODEL, D_K = 8, 4


def build_random_record(
    layers: int = 2,
    heads: int = 2,
    source: Sequence[str] = ENGLISH,
    written: Sequence[str] = GERMAN,
    *,
    walk: bool = False,
    roles: Sequence[AttentionKind] = ("encoder", "decoder", "cross"),
    sharpness: float = 3.0,
    seed: int = 1,
) -> InspectionRecord:
    """Build a record of a Transformer whose parts are consistent: weights and outputs follow from the scores.

    Args:
        layers: number of layers of each role.
        heads: number of heads of each layer.
        source: tokens of the source.
        written: tokens of the target.
        walk: whether the maps contain all steps of the computation.
        roles: roles of the maps.
        sharpness: standard deviation of the scores; 0 makes all weights of a query equal.
        seed: seed of all numbers.
    """
    dice = np.random.default_rng(seed)
    axes = (
        MapAxis(SOURCE_AXIS, tuple(source)),
        MapAxis(READ_AXIS, ("<s>", *written[:-1])),
        MapAxis(WRITTEN_AXIS, tuple(written)),
        *((MapAxis(WHOLE_AXIS, ("the text",)),) if "summary" in roles else ()),
    )
    sides = {
        "encoder": (SOURCE_AXIS, SOURCE_AXIS),
        "decoder": (WRITTEN_AXIS, READ_AXIS),
        "cross": (WRITTEN_AXIS, SOURCE_AXIS),
        "summary": (WHOLE_AXIS, SOURCE_AXIS),
    }
    lengths = {axis.name: len(axis.tokens) for axis in axes}
    maps = []
    for role in roles:
        queries, keys = sides[role]
        shape = lengths[queries], lengths[keys]
        visible = np.tri(*shape, dtype=bool) if role == "decoder" else np.ones(shape, dtype=bool)
        for layer in range(layers):
            path = f"{role}.layers.{layer}.attention"
            steps, weights = _draw_attention(heads, visible, dice, sharpness)
            kept = steps if walk else None
            maps.append(AttentionMap(path, role, layer, tuple(range(heads)), queries, keys, weights, visible, kept))
    return InspectionRecord(
        model="transformer (random)",
        axes=axes,
        maps=tuple(maps),
        embedded=(_draw_embeddings("encoder", axes[0], dice), _draw_embeddings("decoder", axes[1], dice)),
        written=tuple(_draw_generated_token(token, written, dice) for token in written),
        tree=_draw_beam_tree(written, dice),
        encodings=(_compute_sinusoids(max(lengths.values())),),
    )


def build_dirichlet_record(
    layers: int, heads: int, length: int, *, concentration: float = 0.1, seed: int = 1
) -> InspectionRecord:
    """Build the record of an encoder with Dirichlet weights; small concentrations give sharp heads."""
    dice = np.random.default_rng(seed)
    draws = dice.standard_gamma(concentration, (layers, heads, length, length)) + 1e-30
    weights = (draws / draws.sum(-1, keepdims=True)).astype(np.float32)
    everyone = np.ones((length, length), dtype=bool)
    axis = MapAxis(SOURCE_AXIS, tuple(f"word{i}" for i in range(length)))
    maps = tuple(
        AttentionMap(
            f"encoder.layers.{i}", "encoder", i, tuple(range(heads)), SOURCE_AXIS, SOURCE_AXIS, weights[i], everyone
        )
        for i in range(layers)
    )
    return InspectionRecord("encoder (random)", (axis,), maps)


def build_answer_record(
    source: Sequence[str] = ENGLISH, *, hidden: int = 4, walk: bool = False, seed: int = 1
) -> InspectionRecord:
    """Build the record of an encoder with answers: a hidden token, tags, a class, a number and answer spans."""
    source = [*source[:hidden], "[MASK]", *source[hidden + 1 :]]
    record = build_random_record(source=source, walk=walk, roles=("encoder",), seed=seed)
    dice = np.random.default_rng(seed)

    def draw_options(names: Sequence[str], places: Sequence[int | None] | None = None) -> tuple[AnswerOption, ...]:
        chances = np.sort(dice.dirichlet(np.ones(len(names) + 1)))[:0:-1].tolist()
        return tuple(map(AnswerOption, names, chances, places or [None] * len(names)))

    begins = dice.permutation(len(source))[:5].tolist()
    answers = (
        ModelAnswer("hidden token", "[MASK]", hidden, draw_options(["blue", "</script>", "\u202ered", ""])),
        *(
            ModelAnswer("tag", token, place, draw_options(["NOUN", "VERB"]))
            for place, token in enumerate(source)
            if place != hidden
        ),
        ModelAnswer("class", "", None, draw_options(["entailment", "neutral", "contradiction"])),
        ModelAnswer("number", "", None, (), number=-2.5),
        ModelAnswer("first token of the answer", "", None, draw_options([source[place] for place in begins], begins)),
    )
    return replace(record, axes=record.axes[:1], embedded=record.embedded[:1], written=(), tree=(), answers=answers)


def _compute_softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    weights: np.ndarray = (powers / powers.sum(-1, keepdims=True)).astype(np.float32)
    return weights


def _draw_attention(
    heads: int, visible: np.ndarray, dice: np.random.Generator, sharpness: float
) -> tuple[AttentionSteps, np.ndarray]:
    """Draw the steps of an attention and its weights."""
    length, width = visible.shape
    queries, keys, values = (dice.normal(size=(heads, n, D_K)).astype(np.float32) for n in (length, width, width))
    queries *= sharpness
    scale = D_K**-0.5
    scores = scale * queries @ keys.transpose(0, 2, 1)
    weights = _compute_softmax(np.where(visible, scores, -np.inf))
    contexts = weights @ values
    inputs = dice.normal(size=(length, D_MODEL)).astype(np.float32)
    mixing = dice.normal(size=(heads * D_K, D_MODEL)).astype(np.float32)
    outputs = contexts.transpose(1, 0, 2).reshape(length, heads * D_K) @ mixing
    return AttentionSteps(queries, keys, values, scale, None, scores, contexts, inputs, outputs), weights


def _draw_embeddings(side: str, axis: MapAxis, dice: np.random.Generator) -> EmbeddedTokens:
    words = dice.normal(size=(len(axis.tokens), D_MODEL)).astype(np.float32)
    return EmbeddedTokens(side, axis.name, words, _compute_sinusoids(len(axis.tokens)).vectors)


def _compute_sinusoids(length: int) -> PositionEncoding:
    places = np.arange(length)
    angles = places[:, None] / 10_000 ** (np.arange(0, D_MODEL, 2) / D_MODEL)
    vectors = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, D_MODEL).astype(np.float32)
    return PositionEncoding("sinusoidal, added to the embeddings", places, vectors)


def _draw_generated_token(token: str, others: Sequence[str], dice: np.random.Generator) -> GeneratedToken:
    names = list(dict.fromkeys([token, *dice.permutation(list(others)).tolist()]))[:4]
    chances = np.sort(dice.dirichlet(np.ones(len(names) + 1)))[::-1]
    logs = np.log(chances).tolist()
    found = [TokenAlternative(name, log) for name, log in zip(names, logs, strict=False)]
    return GeneratedToken(token, found[0].log_probability, tuple(found))


def _draw_beam_tree(written: Sequence[str], dice: np.random.Generator) -> tuple[BeamNode, ...]:
    """Draw a beam tree: the returned path, a pruned node beside each of its nodes, and another finished hypothesis."""
    tree = [BeamNode(-1, "", 0.0, None, "lived", True)]
    parent, total = 0, 0.0
    for i, token in enumerate(written):
        last = i + 1 == len(written)
        other = total - float(dice.uniform(2, 4))
        total -= float(dice.uniform(0.05, 1))
        score = total / (i + 1) if last else None
        tree.append(BeamNode(parent, token, total, score, "ended" if last else "lived", True))
        lost = other / (i + 1) if last else None
        tree.append(BeamNode(parent, f"{token}?", other, lost, "ended" if last else "pruned", False))
        parent = len(tree) - 2
    return tuple(tree)
