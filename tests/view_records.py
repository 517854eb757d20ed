"""Random inspection records of pictures, clips, glimpses, stories and dialogues, to test their views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from random_records import build_answer_record, build_random_record

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


def draw_scene(height: int = 60, width: int = 90) -> np.ndarray:
    """Draw a red ball on blue ground that is brighter on the right: [1, H, W, 3]."""
    row, column = np.mgrid[0:height, 0:width]
    pixels = np.stack([0 * row + 30, 60 + 0 * row, 120 + column], -1)
    pixels[(row - 0.5 * height) ** 2 + (column - 0.7 * width) ** 2 < (0.25 * height) ** 2] = (220, 40, 40)
    return pixels.clip(0, 255).astype(np.uint8)[None]


def draw_peaked_weights(queries: int, keys: int, *, heads: int = 1, seed: int = 1) -> np.ndarray:
    """Draw weights whose rows sum to 1, with a peak that moves from row to row."""
    dice = np.random.default_rng(seed)
    draws = dice.standard_gamma(0.3, (heads, queries, keys)) + 1e-3
    for query in range(queries):
        draws[:, query, (query * keys) // max(1, queries)] += 2
    weights: np.ndarray = (draws / draws.sum(-1, keepdims=True)).astype(np.float32)
    return weights


def build_cross_map(weights: np.ndarray, *, keys: str, queries: str = WRITTEN_AXIS, layer: int = 0) -> AttentionMap:
    """Build the map of an attention from the output to a memory."""
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


def build_generated_tokens(words: Sequence[str], chances: Sequence[float]) -> tuple[GeneratedToken, ...]:
    """Build tokens with the given probabilities, and one alternative each."""
    return tuple(
        GeneratedToken(
            word, float(np.log(chance)), (TokenAlternative(word, float(np.log(chance))), TokenAlternative("an", -5.0))
        )
        for word, chance in zip(words, chances, strict=True)
    )


def build_caption_record(words: Sequence[str] = ("A", "red", "ball", "</s>"), *, heads: int = 2) -> InspectionRecord:
    """Build the record of a caption of a picture with 4 x 6 regions."""
    chances = [1.0, *np.linspace(0.87, 0.4, len(words) - 1).tolist()]
    axes = (
        MapAxis.from_grid("regions", rows=4, columns=6, pictures=draw_scene()),
        MapAxis(READ_AXIS, ("<s>", *words[:-1])),
        MapAxis(WRITTEN_AXIS, tuple(words)),
    )
    maps = (build_cross_map(draw_peaked_weights(len(words), 24, heads=heads), keys="regions"),)
    return InspectionRecord(
        "grid encoder, decoder (random)", axes, maps, written=build_generated_tokens(words, chances), title="a ball"
    )


def build_clip_record(
    count: int = 8, *, pictures: bool = True, words: Sequence[str] = ("a", "ball", "falls")
) -> InspectionRecord:
    """Build the record of a caption of a clip, with frames 2 and 3 marked."""
    film = np.concatenate([np.roll(draw_scene(40, 60), 4 * number, 2) for number in range(count)]) if pictures else None
    axes = (MapAxis.from_frames("frames", count, pictures=film, marked=(2, 3)), MapAxis(WRITTEN_AXIS, tuple(words)))
    maps = (build_cross_map(draw_peaked_weights(len(words), count), keys="frames"),)
    return InspectionRecord(
        "clip (random)", axes, maps, written=build_generated_tokens(words, [0.9] * len(words)), title="a clip"
    )


def build_speech_record(count: int = 30, *, words: Sequence[str] = ("h", "e", "y")) -> InspectionRecord:
    """Build the record of a transcript of a spectrogram, with frames."""
    picture = np.zeros((1, 16, 3 * count, 3), np.uint8)
    picture[0, :, :, 0] = np.arange(3 * count) % 256
    axes = (MapAxis.from_frames("frames", count, pictures=picture), MapAxis(WRITTEN_AXIS, tuple(words)))
    return InspectionRecord(
        "listener (random)",
        axes,
        (build_cross_map(draw_peaked_weights(len(words), count), keys="frames"),),
        title="hey",
    )


def build_glimpse_record(words: Sequence[str] = ("7", "1")) -> InspectionRecord:
    """Build the record of three glimpses at a picture; the first word becomes more probable."""
    picture = MapAxis.from_grid("picture", rows=1, columns=1, pictures=draw_scene())
    glimpses = tuple(
        Glimpse(
            row,
            column,
            (0.2, 0.4),
            (AnswerOption(words[0], chance), *(AnswerOption(word, (1 - chance) / len(words)) for word in words[1:])),
        )
        for row, column, chance in ((0.2, 0.3, 0.4), (0.5, 0.55, 0.7), (0.5, 0.7, 0.95))
    )
    return InspectionRecord("glimpses (random)", (picture,), (), glimpses=glimpses, title="a digit")


def build_story_record(hops: int = 3, *, facts: Sequence[str] = FACTS) -> InspectionRecord:
    """Build the record of hops over the facts of a story; facts 2 and 3 are marked."""
    axes = (MapAxis("facts", tuple(facts), marked=(2, 3)), MapAxis("question", (QUESTION,)))
    maps = tuple(
        replace(
            build_cross_map(
                draw_peaked_weights(1, len(facts), seed=hop + 5), keys="facts", queries="question", layer=hop
            ),
            path=f"hops.{hop}",
        )
        for hop in range(hops)
    )
    return InspectionRecord("memory network (random)", axes, maps, title=QUESTION)


def build_chain_record(
    steps: int = 3, *, heads: int = 1, facts: Sequence[str] = FACTS, seed: int = 1
) -> InspectionRecord:
    """Build the record of a chain of facts with random transitions and their joint probabilities."""
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
    each = build_cross_map(np.stack(nodes, 1), keys="facts", queries="chain")
    joint = np.stack([np.zeros((heads, len(facts), len(facts))), *edges], 1)[:, 1:].astype(np.float32)
    return InspectionRecord("chain (random)", axes, (replace(each, edges=joint),), title=QUESTION)


def build_dialogue_record(words: Sequence[str] = ("try", "another", "cable", "</s>")) -> InspectionRecord:
    """Build the record of a dialogue with three turns and its answer."""
    tokens = [token for _, turn in TURNS for token in turn]
    spans, start = [], 0
    for name, turn in TURNS:
        spans.append(TokenSpan(name, start, start + len(turn)))
        start += len(turn)
    axes = (MapAxis(SOURCE_AXIS, tuple(tokens), spans=tuple(spans)), MapAxis(WRITTEN_AXIS, tuple(words)))
    maps = (build_cross_map(draw_peaked_weights(len(words), len(tokens), heads=2), keys=SOURCE_AXIS),)
    return InspectionRecord(
        "conversation (random)", axes, maps, written=build_generated_tokens(words, [0.8] * len(words)), title="printer"
    )


def build_level_record(words: Sequence[str] = ("A", "red", "ball", "</s>")) -> InspectionRecord:
    """Build the record of a caption with the layers of its model: recurrent encoders and an attention."""
    record = build_caption_record(words)
    axes = (MapAxis(SOURCE_AXIS, tuple(words)), *record.axes[1:])
    encoder = LayerInfo("LSTM", carries=("forward", "backward"), side="encoder", axis=SOURCE_AXIS)
    decoder = LayerInfo("GRU", carries=("forward",), starts="summary", fed=True, side="decoder", axis=READ_AXIS)
    top = LayerInfo("attention", across=(SOURCE_AXIS,), side="decoder", axis=READ_AXIS)
    return replace(record, axes=axes, maps=(), levels=(encoder, encoder, decoder, top))


def build_view_record(view: str, tokens: Sequence[str], *, layers: int, heads: int) -> InspectionRecord:
    """Build a record for a view, with the given tokens."""
    makers: dict[str, Callable[[], InspectionRecord]] = {
        "answers": lambda: build_answer_record(tokens),
        "regions": lambda: build_caption_record(tokens, heads=heads),
        "frames": lambda: build_clip_record(words=tokens),
        "glimpses": lambda: build_glimpse_record(tokens),
        "hops": lambda: build_story_record(facts=tokens),
        "chain": lambda: build_chain_record(heads=heads, facts=tokens),
        "turns": lambda: build_dialogue_record(tokens),
        "unrolled": lambda: build_level_record(tokens),
        "steps": lambda: build_random_record(layers, heads, source=tokens, written=tokens, walk=True),
    }
    return makers[view]() if view in makers else build_random_record(layers, heads, source=tokens, written=tokens)
