"""Records that no model made, of pictures, clips, glimpses, stories and dialogues: what their views are tested with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from inspected import judged, made_up

from heedful.attention.hooks import READ_AXIS, SOURCE_AXIS, WRITTEN_AXIS
from heedful.blocks.layer_info import LayerInfo
from heedful.inspection.record import (
    AnswerOption,
    AttentionMap,
    GeneratedToken,
    Glimpse,
    InspectionRecord,
    MapAxis,
    TokenAlternative,
    TokenSpan,
)

FACTS = (
    "Mary went to the kitchen.",
    "John moved to the garden.",
    "Mary took the milk.",
    "Sandra went to the office.",
    "Mary travelled to the hall.",
)
QUESTION = "Where is the milk?"
TURNS = (
    ("user", ("my", "printer", "is", "dead", "<eou>")),
    ("agent", ("which", "model", "?", "<eou>")),
    ("user", ("a", "laser", "one", "<eou>")),
)


def scene(height: int = 60, width: int = 90) -> np.ndarray:
    """A picture of a red ball on a blue ground, a little brighter to the right: [1, H, W, 3]."""
    row, column = np.mgrid[0:height, 0:width]
    pixels = np.stack([0 * row + 30, 60 + 0 * row, 120 + column], -1)
    pixels[(row - 0.5 * height) ** 2 + (column - 0.7 * width) ** 2 < (0.25 * height) ** 2] = (220, 40, 40)
    return pixels.clip(0, 255).astype(np.uint8)[None]


def peaked(queries: int, keys: int, *, heads: int = 1, seed: int = 1) -> np.ndarray:
    """Rows of weights that add up to 1, with a peak that moves."""
    dice = np.random.default_rng(seed)
    draws = dice.standard_gamma(0.3, (heads, queries, keys)) + 1e-3
    for query in range(queries):
        draws[:, query, (query * keys) // max(1, queries)] += 2
    weights: np.ndarray = (draws / draws.sum(-1, keepdims=True)).astype(np.float32)
    return weights


def mapped(weights: np.ndarray, *, keys: str, queries: str = WRITTEN_AXIS, layer: int = 0) -> AttentionMap:
    """An attention from what is written to a memory."""
    heads, rows, columns = weights.shape
    everything = np.ones((rows, columns), bool)
    return AttentionMap(
        f"decoder.{layer}.across",
        "cross",
        layer,
        tuple(range(heads)),
        queries,
        keys,
        weights.astype(np.float32),
        everything,
    )


def written(words: Sequence[str], chances: Sequence[float]) -> tuple[GeneratedToken, ...]:
    """Each word with its probability, and one other."""
    return tuple(
        GeneratedToken(
            word, float(np.log(chance)), (TokenAlternative(word, float(np.log(chance))), TokenAlternative("an", -5.0))
        )
        for word, chance in zip(words, chances, strict=True)
    )


def captioned(words: Sequence[str] = ("A", "red", "ball", "</s>"), *, heads: int = 2) -> InspectionRecord:
    """A caption of a picture of 4 x 6 regions, and a decoder that reads what it wrote."""
    chances = [1.0, *np.linspace(0.87, 0.4, len(words) - 1).tolist()]
    axes = (
        MapAxis.from_grid("regions", rows=4, columns=6, pictures=scene()),
        MapAxis(READ_AXIS, ("<s>", *words[:-1])),
        MapAxis(WRITTEN_AXIS, tuple(words)),
    )
    maps = (mapped(peaked(len(words), 24, heads=heads), keys="regions"),)
    return InspectionRecord(
        "grid encoder, decoder (made up)", axes, maps, written=written(words, chances), title="a ball"
    )


def filmed(count: int = 8, *, pictures: bool = True, words: Sequence[str] = ("a", "ball", "falls")) -> InspectionRecord:
    """A clip whose frames 2 and 3 show it."""
    film = np.concatenate([np.roll(scene(40, 60), 4 * number, 2) for number in range(count)]) if pictures else None
    axes = (MapAxis.from_frames("frames", count, pictures=film, marked=(2, 3)), MapAxis(WRITTEN_AXIS, tuple(words)))
    maps = (mapped(peaked(len(words), count), keys="frames"),)
    return InspectionRecord("clip (made up)", axes, maps, written=written(words, [0.9] * len(words)), title="a clip")


def heard(count: int = 30, *, words: Sequence[str] = ("h", "e", "y")) -> InspectionRecord:
    """A spectrogram that frames divide."""
    picture = np.zeros((1, 16, 3 * count, 3), np.uint8)
    picture[0, :, :, 0] = np.arange(3 * count) % 256
    axes = (MapAxis.from_frames("frames", count, pictures=picture), MapAxis(WRITTEN_AXIS, tuple(words)))
    return InspectionRecord(
        "listener (made up)", axes, (mapped(peaked(len(words), count), keys="frames"),), title="hey"
    )


def glimpsed(words: Sequence[str] = ("7", "1")) -> InspectionRecord:
    """Three glimpses at a picture, more and more certain of the first word."""
    picture = MapAxis.from_grid("picture", rows=1, columns=1, pictures=scene())
    glimpses = tuple(
        Glimpse(
            row,
            column,
            (0.2, 0.4),
            (AnswerOption(words[0], chance), *(AnswerOption(word, (1 - chance) / len(words)) for word in words[1:])),
        )
        for row, column, chance in ((0.2, 0.3, 0.4), (0.5, 0.55, 0.7), (0.5, 0.7, 0.95))
    )
    return InspectionRecord("glimpses (made up)", (picture,), (), glimpses=glimpses, title="a digit")


def told(hops: int = 3, *, facts: Sequence[str] = FACTS) -> InspectionRecord:
    """Hops over the facts of a story, of which 2 and 3 answer the question."""
    axes = (MapAxis("facts", tuple(facts), marked=(2, 3)), MapAxis("question", (QUESTION,)))
    maps = tuple(
        replace(
            mapped(peaked(1, len(facts), seed=hop + 5), keys="facts", queries="question", layer=hop), path=f"hops.{hop}"
        )
        for hop in range(hops)
    )
    return InspectionRecord("memory network (made up)", axes, maps, title=QUESTION)


def chained(steps: int = 3, *, heads: int = 1, facts: Sequence[str] = FACTS, seed: int = 1) -> InspectionRecord:
    """A chain of facts with its joint probabilities: drawn transitions, so that nodes follow from edges."""
    dice = np.random.default_rng(seed)
    first = dice.dirichlet(np.full(len(facts), 0.3), heads)
    moves = dice.dirichlet(np.full(len(facts), 0.3), (heads, steps - 1, len(facts)))
    nodes, edges = [first], []
    for step in range(steps - 1):
        edges.append(nodes[-1][:, :, None] * moves[:, step])
        nodes.append(edges[-1].sum(1))
    axes = (
        MapAxis("facts", tuple(facts), marked=(2, 3)),
        MapAxis("chain", tuple(f"step {step + 1}" for step in range(steps))),
    )
    each = mapped(np.stack(nodes, 1), keys="facts", queries="chain")
    joint = np.stack([np.zeros((heads, len(facts), len(facts))), *edges], 1)[:, 1:].astype(np.float32)
    return InspectionRecord("chain (made up)", axes, (replace(each, edges=joint),), title=QUESTION)


def spoken(words: Sequence[str] = ("try", "another", "cable", "</s>")) -> InspectionRecord:
    """A dialogue of three turns and the answer to it."""
    tokens = [token for _, turn in TURNS for token in turn]
    spans, start = [], 0
    for name, turn in TURNS:
        spans.append(TokenSpan(name, start, start + len(turn)))
        start += len(turn)
    axes = (MapAxis(SOURCE_AXIS, tuple(tokens), spans=tuple(spans)), MapAxis(WRITTEN_AXIS, tuple(words)))
    maps = (mapped(peaked(len(words), len(tokens), heads=2), keys=SOURCE_AXIS),)
    return InspectionRecord(
        "conversation (made up)", axes, maps, written=written(words, [0.8] * len(words)), title="printer"
    )


def leveled(words: Sequence[str] = ("A", "red", "ball", "</s>")) -> InspectionRecord:
    """A caption and the levels of what wrote it: two recurrent ones that read a text, one that attends to it."""
    record = captioned(words)
    axes = (MapAxis(SOURCE_AXIS, tuple(words)), *record.axes[1:])
    encoder = LayerInfo("LSTM", carries=("forward", "backward"), side="encoder", axis=SOURCE_AXIS)
    decoder = LayerInfo("GRU", carries=("forward",), starts="summary", fed=True, side="decoder", axis=READ_AXIS)
    top = LayerInfo("attention", across=(SOURCE_AXIS,), side="decoder", axis=READ_AXIS)
    return replace(record, axes=axes, maps=(), levels=(encoder, encoder, decoder, top))


def holding(view: str, tokens: Sequence[str], *, layers: int, heads: int) -> InspectionRecord:
    """A record with what the view shows, whose tokens are these."""
    makers: dict[str, Callable[[], InspectionRecord]] = {
        "answers": lambda: judged(tokens),
        "regions": lambda: captioned(tokens, heads=heads),
        "frames": lambda: filmed(words=tokens),
        "glimpses": lambda: glimpsed(tokens),
        "hops": lambda: told(facts=tokens),
        "chain": lambda: chained(heads=heads, facts=tokens),
        "turns": lambda: spoken(tokens),
        "unrolled": lambda: leveled(tokens),
    }
    return makers[view]() if view in makers else made_up(layers, heads, source=tokens, written=tokens)
