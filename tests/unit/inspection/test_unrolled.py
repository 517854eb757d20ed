"""Unrolled models: what a box needs is what the model's numbers depend on, and steps are counted longhand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from random_records import build_random_record
from torch import nn

from heedful.architectures.attention import WindowConfig
from heedful.architectures.build import DataSizes, build_language_model, build_sequence_to_sequence
from heedful.architectures.model import ConvolutionalConfig, TransformerConfig
from heedful.architectures.recurrent import (
    BahdanauConfig,
    ContextConfig,
    LuongConfig,
    RecurrentConfig,
    RecurrentDecoderConfig,
)
from heedful.blocks.layer_info import LayerInfo
from heedful.inspection.figures import draw_figure
from heedful.inspection.figures.unrolled import lay_out_diagram
from heedful.inspection.record import InspectionRecord
from heedful.inspection.unrolled import MAX_TOKENS, ModelDiagram, collect_levels, unroll_model
from heedful.inspection.web import build_payload
from heedful.tasks.inspection_records import find_token_readers
from heedful.tensors import Tokens, as_mapping

SOURCE, TARGET, VOCABULARY = 6, 5, 11
SIZES = DataSizes(VOCABULARY, VOCABULARY, 20)
TEXTS = {"source": [f"x{i}" for i in range(SOURCE)], "read": [f"y{i}" for i in range(TARGET)]}
MODELS: dict[str, Any] = {
    "transformer": TransformerConfig(d_model=8, heads=2, encoder_layers=2, decoder_layers=2),
    "windows": TransformerConfig(
        d_model=8, heads=2, encoder_layers=2, decoder_layers=2, encoder_visibility=WindowConfig(before=1, after=1)
    ),
    "bahdanau": RecurrentConfig(d_model=6, reading=BahdanauConfig()),
    "bahdanau, two layers": RecurrentConfig(d_model=6, encoder_layers=2, decoder_layers=2, reading=BahdanauConfig()),
    "luong": RecurrentConfig(d_model=6, decoder_layers=2, reading=LuongConfig(input_feeding=False)),
    "feeding": RecurrentConfig(d_model=6, decoder_layers=2, reading=LuongConfig(input_feeding=True)),
    "context at the start": RecurrentConfig(d_model=6, reading=ContextConfig(enters="start")),
    "context at every step": RecurrentConfig(d_model=6, reading=ContextConfig(enters="every_step")),
    "one direction": RecurrentConfig(d_model=6, bidirectional=False, reading=LuongConfig()),
    "reversed": RecurrentConfig(d_model=6, bidirectional=False, source_order="reversed", reading=LuongConfig()),
    "doubled": RecurrentConfig(d_model=6, bidirectional=False, source_order="doubled", reading=LuongConfig()),
    "convolutional": ConvolutionalConfig(
        d_model=6, d_hidden=6, encoder_layers=2, decoder_layers=2, positions_length=40
    ),
}


def tokens(ids: list[int]) -> Tokens:
    return Tokens(torch.tensor([ids]), torch.arange(len(ids)).unsqueeze(0))


def needed(diagram: ModelDiagram, node: int) -> set[str]:
    """Names of the tokens that a node depends on."""
    found, waiting = {node}, [node]
    while waiting:
        at = waiting.pop()
        before = {link.start for link in diagram.links if link.end == at} - found
        found |= before
        waiting += before
    return {diagram.nodes[each].name for each in found if diagram.nodes[each].row == 0}


def tops(diagram: ModelDiagram, level: LayerInfo, place: int, first: int) -> list[int]:
    """The nodes of the highest level of a side at one of its places."""
    of_side = [node for node in diagram.nodes if f", {level.side} level" in node.about]
    highest = max(int(node.about.split(" level ")[1].split(",")[0]) for node in of_side)
    return [
        number
        for number, node in enumerate(diagram.nodes)
        if node.column == first + place and f", {level.side} level {highest}," in node.about
    ]


def read(model: Any, source: list[int], target: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory slots and hidden vectors, each [places, d]."""
    memory = model.encoder(tokens(source))
    hidden, _ = model.decoder(tokens(target), model.decoder.init_state(memory))
    [slots] = as_mapping(memory).values()
    return slots.keys[0], hidden[0]


@pytest.mark.parametrize("name", MODELS)
def test_a_box_needs_the_tokens_that_its_numbers_depend_on(name: str) -> None:
    """Another token changes what depends on it, and nothing else; in 64 bits, so that small changes are seen."""
    torch.manual_seed(1)
    model = build_sequence_to_sequence(MODELS[name], SIZES).double().eval()
    found = collect_levels(find_token_readers(model))
    diagram = unroll_model(found, TEXTS)
    texts = {"source": [3, 4, 5, 6, 7, 8], "read": [2, 9, 4, 8, 5]}
    before = dict(zip(TEXTS, read(model, *texts.values()), strict=True))
    depends: dict[tuple[str, int], set[str]] = {}
    for axis, ids in texts.items():
        for place in range(len(ids)):
            changed = {**texts, axis: [*ids[:place], 10, *ids[place + 1 :]]}
            after = dict(zip(TEXTS, read(model, *changed.values()), strict=True))
            for side, vectors in before.items():
                for at in ((vectors - after[side]).abs().amax(1) > 1e-13).nonzero().flatten().tolist():
                    depends.setdefault((side, at), set()).add(TEXTS[axis][place])
    for side, first in (("encoder", 0), ("decoder", SOURCE + 1)):
        axis = "source" if side == "encoder" else "read"
        level = next(level for level in found if level.side == side)
        for place in range(len(TEXTS[axis])):
            said = set().union(*(needed(diagram, node) for node in tops(diagram, level, place, first)))
            assert said == depends[axis, place], f"{side} at {place}"


def steps_of(*given: LayerInfo, length: int) -> np.ndarray:
    """Steps of all rows above the tokens, [rows, places]."""
    diagram = unroll_model(
        [replace(level, side="encoder", axis="source") for level in given], {"source": "abcdefghij"[:length]}
    )
    rows = max(node.row for node in diagram.nodes)
    found = np.zeros((rows, length), int)
    for node in diagram.nodes:
        if node.row:
            found[node.row - 1, node.column] = node.step
    return found


def test_steps_are_counted_longhand() -> None:
    recurrent = LayerInfo("GRU", carries=("forward",))
    expected = [[level + place + 1 for place in range(5)] for level in range(3)]
    np.testing.assert_array_equal(steps_of(recurrent, recurrent, recurrent, length=5), expected)
    both = LayerInfo("GRU", carries=("forward", "backward"))
    np.testing.assert_array_equal(steps_of(both, length=4), [[1, 2, 3, 4], [4, 3, 2, 1]])
    everywhere = LayerInfo("self-attention", before=None, after=None)
    np.testing.assert_array_equal(steps_of(everywhere, everywhere, length=4), [[1] * 4, [2] * 4])
    window = LayerInfo("convolution", before=4, after=0, every=2)
    diagram = unroll_model([replace(window, side="encoder", axis="source")], {"source": "abcdef"})
    at_last = next(number for number, node in enumerate(diagram.nodes) if node.row and node.column == 5)
    assert needed(diagram, at_last) == {"b", "d", "f"}


def test_a_decoder_waits_for_its_source() -> None:
    model = build_sequence_to_sequence(MODELS["bahdanau"], SIZES)
    diagram = unroll_model(collect_levels(find_token_readers(model)), TEXTS)
    steps = [node.step for node in diagram.nodes if "decoder level" in node.about]
    assert steps == [SOURCE + 1 + place for place in range(TARGET)]
    assert diagram.num_steps == SOURCE + TARGET
    model = build_sequence_to_sequence(MODELS["transformer"], SIZES)
    assert unroll_model(collect_levels(find_token_readers(model)), TEXTS).num_steps == 4


def test_a_state_begins_where_the_summary_of_the_source_ends() -> None:
    def starts(name: str) -> set[tuple[str, str]]:
        model = build_sequence_to_sequence(MODELS[name], SIZES)
        diagram = unroll_model(collect_levels(find_token_readers(model)), TEXTS)
        ends = [(link.start, link.end) for link in diagram.links if link.kind == "start"]
        return {(diagram.nodes[start].about, diagram.nodes[end].about) for start, end in ends}

    [(start, end)] = starts("bahdanau")
    assert start == "GRU ←, encoder level 1, at x0 (0)"
    assert end == "GRU →, decoder level 1, at y0 (0)"
    assert {end.split("at ")[1] for _, end in starts("context at every step")} == {f"y{i} ({i})" for i in range(TARGET)}
    assert {end.split("at ")[1] for _, end in starts("context at the start")} == {"y0 (0)"}


def test_what_is_fed_back_makes_the_next_token_wait() -> None:
    model = build_sequence_to_sequence(RecurrentConfig(d_model=6, reading=LuongConfig(input_feeding=True)), SIZES)
    diagram = unroll_model(collect_levels(find_token_readers(model)), TEXTS)
    steps = [node.step for node in diagram.nodes if "decoder level 1" in node.about]
    assert steps == [SOURCE + 1 + 2 * place for place in range(TARGET)]


def test_windows_reach_as_far_as_they_see() -> None:
    model = build_sequence_to_sequence(MODELS["windows"], SIZES)
    found = collect_levels(find_token_readers(model))
    assert [(level.before, level.after) for level in found] == [(1, 1), (1, 1), (None, 0), (None, 0)]
    assert [level.across for level in found] == [(), (), ("source",), ("source",)]


def test_a_language_model_has_one_side() -> None:
    config = RecurrentDecoderConfig(d_model=6, layers=2)
    model = build_language_model(config, vocabulary=VOCABULARY)
    found = collect_levels(find_token_readers(model))
    assert [(level.side, level.axis, level.starts) for level in found] == [("decoder", "read", "nothing")] * 2


def test_long_texts_are_cut_and_this_is_said() -> None:
    level = LayerInfo("GRU", carries=("forward",), side="encoder", axis="source")
    diagram = unroll_model([level], {"source": ["a"] * 40})
    assert sum(node.row == 0 for node in diagram.nodes) == MAX_TOKENS
    assert diagram.cut == ("source",)
    assert "Of source the first tokens" in lay_out_diagram(diagram).note
    assert not unroll_model([level], {"source": ["a"]}).cut
    deep = unroll_model([replace(level, carries=(), before=None, after=None)] * 48, {"source": ["a"] * 40})
    assert len(deep.links) <= 2000


def unrolled_record(name: str = "feeding") -> InspectionRecord:
    model: nn.Module = build_sequence_to_sequence(MODELS[name], SIZES)
    return replace(build_random_record(), levels=collect_levels(find_token_readers(model)))


@pytest.mark.parametrize("name", MODELS)
def test_the_figure_has_a_box_for_each_node_with_its_step(name: str) -> None:
    record = unrolled_record(name)
    diagram = unroll_model(record.levels, {axis.name: axis.tokens for axis in record.axes})
    root = ElementTree.fromstring(draw_figure(record, view="unrolled").encode())
    texts = [node.text or "" for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text.isdigit()] == [str(node.step) for node in diagram.nodes if node.row]
    told = build_payload(record)["unrolled"]
    assert [node[3] for node in told["nodes"]] == [node.step for node in diagram.nodes]
    assert told["links"] == [[link.start, link.end] for link in diagram.links]


def test_records_without_levels_or_without_their_tokens() -> None:
    assert build_payload(build_random_record())["unrolled"] is None
    bare = replace(unrolled_record(), axes=build_random_record().axes[1:2], maps=(), embedded=())
    assert {node[5].split(", ")[1].split(" ")[0] for node in build_payload(bare)["unrolled"]["nodes"] if node[2]} == {
        "decoder"
    }
