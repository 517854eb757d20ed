"""Laws of all decoders, tested with all variants that a recipe can build.

Laws compare two ways to compute the same result. References (tests/reference) find errors that both ways share.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import memory_models
import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor, nn

from heedful.architectures.build import (
    DataSizes,
    build_conditional_model,
    build_language_model,
    build_sequence_to_sequence,
)
from heedful.architectures.model import ConditionalModelConfig, LanguageModelConfig, ModelConfig
from heedful.attention import kernels
from heedful.attention.hooks import HookPoint, TraceableAttention
from heedful.blocks.embedding import TokenEmbedding
from heedful.engines import int8
from heedful.engines.bfloat16 import BFloat16Attention, BFloat16Linear, convert_to_bfloat16
from heedful.engines.graphs import pages
from heedful.engines.graphs.stack import replace_with_graphs
from heedful.engines.int8 import Int8Product
from heedful.engines.native.linear import NativeProduct, replace_linear_maps
from heedful.engines.native.stack import replace_with_native
from heedful.generation import (
    Ensemble,
    GNMTLengthPenalty,
    Hypotheses,
    LogProbabilityMean,
    NoLengthPenalty,
    RollingContextEngine,
    beam_search,
    greedy_search,
)
from heedful.generation.continuous_batch import ContinuousBatch
from heedful.generation.prefill import GenerationRequest
from heedful.generation.search import BeamSearch, DiverseBeamSearch, GreedySearch, SearchStrategy
from heedful.inspection.capture import capture_attention, watch_attention
from heedful.models.generative import LanguageModel
from heedful.models.interface import Engine, State
from heedful.native import load_library
from heedful.tensors import RowSelection, Tokens, concat_rows, select_rows

VOCABULARY, PAD, EOS, WIDTH = 7, 0, 2, 16

POSITIONS: dict[str, dict[str, Any]] = {
    "sinusoidal": {"kind": "sinusoidal"},
    "learned": {"kind": "learned", "length": 32},
    "unit_interval": {"kind": "unit_interval"},
    "unit_interval-longest": {"kind": "unit_interval", "of": "longest"},
    "integer": {"kind": "integer"},
    "integer-from-0": {"kind": "integer", "first": 0},
    "rotary": {"kind": "rotary"},
    "shaw": {"kind": "shaw", "clip": 3},
    "shaw-keys": {"kind": "shaw", "clip": 2, "values": False},
    "alibi": {"kind": "alibi"},
    "buckets": {"kind": "buckets", "count": 8, "max_distance": 6},
    "none": {"kind": "none"},
}
TRANSFORMERS: dict[str, dict[str, Any]] = (
    {
        f"{name}-{residual}": {"positions": positions, "residual": residual}
        for (name, positions), residual in itertools.product(POSITIONS.items(), ("post_norm", "pre_norm"))
    }
    | {
        "mean": {"aggregation": "mean"},
        "mean-shaw": {"aggregation": "mean", "positions": {"kind": "shaw", "clip": 3}},
        "mean-shared": {"aggregation": "mean", "shared_key_value": True, "positions": {"kind": "rotary"}},
        "mean-shared-shaw": {
            "aggregation": "mean",
            "shared_key_value": True,
            "positions": {"kind": "shaw", "clip": 3},
            "self_attention": {"score": "additive", "alignment_bias": True},
        },
        "concat": {"aggregation": "concat"},
        "shared-key-value": {"shared_key_value": True, "positions": {"kind": "rotary"}},
        "windows": {
            "encoder_visibility": {"kind": "window", "before": 1, "after": 1},
            "decoder_visibility": {"kind": "window", "before": 2},
        },
        "untied-gelu": {"tie": "none", "activation": "gelu", "output_bias": True, "scale_embedding": False},
        "one-head": {"heads": 1},
        "copying": {"copy": True},
        "multi-query": {"key_value_heads": 1, "query_key_norm": True, "positions": {"kind": "rotary", "share": 0.5}},
        "t5": {
            "head_width": 6,
            "gated": True,
            "activation": "gelu_tanh",
            "norm": "rms",
            "bias": False,
            "residual": "pre_norm",
            "positions": {"kind": "buckets", "count": 8, "max_distance": 6},
            "self_attention": {"score": "dot"},
            "cross_attention": {"score": "dot"},
        },
    }
    | {
        f"heads-{score}-{weights}": {
            "self_attention": {"score": score, "weights": weights},
            "cross_attention": {"score": score, "weights": weights},
            "positions": {"kind": positions},
        }
        for score, weights, positions in (
            ("dot", "softmax", "rotary"),
            ("general", "linear_chain", "sinusoidal"),
            ("additive", "straight_through", "shaw"),
            ("concat", "softmax", "learned"),
            ("location", "softmax", "none"),
            ("exp_dot", "proportional", "rotary"),
        )
    }
)
READINGS: dict[str, dict[str, Any]] = {
    "context": {"kind": "context"},
    "context-at-start": {"kind": "context", "enters": "start"},
    "bahdanau": {"kind": "bahdanau"},
    "luong": {"kind": "luong"},
    "luong-without-feeding": {"kind": "luong", "input_feeding": False},
}
CELLS = ("elman", "gru", "lstm")
RECURRENT: dict[str, dict[str, Any]] = {
    f"{name}-{cell}": {"reading": reading, "cell": cell}
    for (name, reading), cell in itertools.product(READINGS.items(), CELLS)
} | {
    "reversed": {"source_order": "reversed", "reading": {"kind": "context"}},
    "doubled": {"source_order": "doubled", "bidirectional": False},
    "luong-predicted": {"reading": {"kind": "luong", "window": "predicted", "reach": 2}},
    "luong-monotonic": {"reading": {"kind": "luong", "window": "monotonic", "reach": 1, "input_feeding": False}},
    "bahdanau-chain": {"reading": {"kind": "bahdanau", "weights": "linear_chain"}},
    "bahdanau-hard": {"reading": {"kind": "bahdanau", "weights": "straight_through"}},
    "exp-proportional": {
        "bidirectional": False,
        "reading": {"kind": "luong", "score": "exp_dot", "weights": "proportional"},
    },
    "tanh-untied": {"tie": "none", "readout": "tanh", "d_embedding": 6},
    "bahdanau-bias": {"reading": {"kind": "bahdanau", "alignment_bias": True}},
    "bahdanau-sampled": {"reading": {"kind": "bahdanau", "weights": "sampled"}},
    "bahdanau-state": {"readout": "state", "cell": "lstm"},
    "copying-doubled": {
        "copy": True,
        "source_order": "doubled",
        "bidirectional": False,
        "reading": {"kind": "context"},
    },
    "copying-luong": {"copy": True, "reading": {"kind": "luong"}},
    "sutskever": {
        "cell": "lstm",
        "bidirectional": False,
        "source_order": "reversed",
        "reading": {"kind": "context", "enters": "start"},
        "start": "carried",
        "readout": "state",
    },
}
RECURRENT |= {
    f"carried-{name}": {"bidirectional": False, "start": "carried", "cell": cell, "reading": READINGS[name]}
    for name, cell in (("context", "lstm"), ("bahdanau", "lstm"), ("luong", "gru"), ("luong-without-feeding", "elman"))
}
SCORES = ("dot", "scaled_dot", "general", "concat", "location")
RECURRENT |= {
    f"luong-{score}": {"bidirectional": score not in SCORES[:2], "reading": {"kind": "luong", "score": score}}
    for score in SCORES
}
CONVOLUTIONAL: dict[str, dict[str, Any]] = {
    "convolutional": {"d_hidden": 12, "positions_length": 32},
    "convolutional-wide": {"kernel_width": 5, "weight_norm": False, "tie": "none"},
    "convolutional-location": {"score": "location", "weights": "straight_through"},
    "convolutional-chain": {"score": "additive", "weights": "linear_chain"},
    "convolutional-copying": {"copy": True},
    "convolutional-dilated": {"dilation": 2, "encoder_layers": 3, "decoder_layers": 3},
}
REACH = dict.fromkeys(
    (
        "windows",
        "convolutional",
        "convolutional-location",
        "convolutional-chain",
        "convolutional-copying",
        "gpt-window",
    ),
    4,
)
REACH["language-memory"] = 3
"""How far decoders with two layers and a window look back."""
CHAINS = ("bahdanau-chain", "convolutional-chain", "heads-general-linear_chain")
"""Neighbours in a chain are neighbouring columns, and the weights of a chain do not sum to 1."""
UNNORMALISED = ("luong-predicted", *CHAINS)
FAMILIES = (
    ({"kind": "transformer", "heads": 2}, TRANSFORMERS),
    ({"kind": "recurrent"}, RECURRENT),
    ({"kind": "convolutional"}, CONVOLUTIONAL),
)
VARIANTS = {
    name: {"d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2, **common, **options}
    for common, family in FAMILIES
    for name, options in family.items()
}
LANGUAGE_MODELS: dict[str, dict[str, Any]] = {
    f"language-{cell}": {
        "kind": "recurrent",
        "d_model": WIDTH,
        "d_embedding": d_embedding,
        "cell": cell,
        "layers": layers,
    }
    for cell, d_embedding, layers in (("elman", WIDTH, 1), ("gru", 6, 2), ("lstm", WIDTH, 3))
}
DECODERS: dict[str, dict[str, Any]] = {
    "gpt": {"positions": {"length": 32}},
    "gpt-post_norm": {"residual": "post_norm", "positions": {"kind": "sinusoidal"}, "scale_embedding": True},
    "gpt-rotary": {"positions": {"kind": "rotary"}, "bias": False, "activation": "gelu_tanh"},
    "gpt-shaw-untied": {"positions": {"kind": "shaw", "clip": 3}, "tie": False, "output_bias": True},
    "gpt-unit_interval": {"positions": {"kind": "unit_interval"}, "residual": "post_norm"},
    "gpt-window": {"visibility": {"kind": "window", "before": 2}, "shared_key_value": True},
    "gpt-llama": {
        "key_value_heads": 1,
        "query_key_norm": True,
        "gated": True,
        "activation": "silu",
        "norm": "rms",
        "bias": False,
        "query_key_value_bias": True,
        "positions": {"kind": "rotary", "base": 5000, "scaling": {"kind": "yarn", "factor": 4, "length": 8}},
    },
    "gpt-parallel": {
        "parallel": True,
        "positions": {"kind": "rotary", "share": 0.5, "scaling": {"kind": "band", "factor": 8, "length": 16}},
    },
    "gpt-location": {"self_attention": {"score": "location"}, "aggregation": "concat", "heads": 1},
}
LANGUAGE_MODELS |= {
    name: {"kind": "transformer", "d_model": WIDTH, "heads": 2, "layers": 2, **options}
    for name, options in DECODERS.items()
}
LANGUAGE_MODELS |= {
    "language-memory": {"kind": "memory_network", "d_model": WIDTH, "hops": 3, "memory": 4, "deviation": 0.5},
    "language-memory-long": {"kind": "memory_network", "d_model": 5, "hops": 1, "rectified": 1.0, "deviation": 0.5},
}
SEVERAL_STACKS: dict[str, Callable[..., nn.Module]] = {
    "two-memories": memory_models.build_transformer,
    "two-memories-post_norm": partial(memory_models.build_transformer, post_norm=True),
    "two-memories-parted": partial(memory_models.build_transformer, parted=True),
}
SEVERAL = SEVERAL_STACKS | {
    f"two-memories-{reading}": partial(memory_models.build_recurrent, reading=reading)
    for reading in ("bahdanau", "feeding", "luong")
}
"""Decoders that attend to two memories, which no recipe can build yet."""
ENGINES: dict[str, Callable[[], Engine[Any]]] = {
    "ensemble": lambda: Ensemble([_copy_model("rotary-pre_norm"), _copy_model("luong-gru")]),
    "ensemble-of-one-kind": lambda: Ensemble(
        [_copy_model("convolutional"), _copy_model("convolutional", seed=2)], LogProbabilityMean()
    ),
    "windowed": lambda: SourceEngine(RollingContextEngine(_copy_model("gpt").model, max_context=5)),
    "windowed-recurrent": lambda: SourceEngine(
        RollingContextEngine(_copy_model("language-gru").model, max_context=3, kept_tokens=2)
    ),
}
"""Objects that are not modules but obey the laws of `begin` and `step`."""
WITHOUT_SOURCE = (*LANGUAGE_MODELS, "windowed", "windowed-recurrent")
"""Their states have no rows before the first token."""
DECODERS_ONLY: dict[str, dict[str, Any]] = {
    f"decoder_only-{name}": {"kind": "decoder_only", "decoder": LANGUAGE_MODELS[name]}
    for name in ("gpt-rotary", "language-gru")
}
"""Language models whose source is a prompt."""
NAMES = (*VARIANTS, *DECODERS_ONLY, *LANGUAGE_MODELS, *SEVERAL, *ENGINES)


@dataclass(frozen=True)
class Case:
    name: str
    model: Any
    source: Tokens
    target: Tokens

    def compute_logits(
        self, cuts: Sequence[int], *, source: Tokens | None = None, target: Tokens | None = None
    ) -> Tensor:
        """Compute the logits of the target, read in chunks."""
        tokens = target or self.target
        state = self.model.init_state(source or self.source)
        parts = []
        for start, stop in itertools.pairwise(cuts):
            part, state = self.model.step(tokens.slice_columns(start, stop), state)
            parts.append(part)
        return torch.cat(parts, 1)


WITH_GRADIENTS = (
    *("sinusoidal-post_norm", "rotary-pre_norm", "shaw-post_norm", "mean-shaw", "windows"),
    *("context-lstm", "bahdanau-gru", "luong-lstm", "luong-without-feeding-elman", "convolutional", "language-lstm"),
    *("copying", "copying-luong"),
    *("gpt", "gpt-rotary", "gpt-llama", "gpt-parallel", "t5", "two-memories", "two-memories-bahdanau"),
)
WORLDS = [(name, "inference") for name in NAMES] + [(name, "gradients") for name in WITH_GRADIENTS]
WORLDS += [("windows", "bands"), ("gpt-window", "bands")]
WORLDS += [
    (name, "int8")
    for name in (
        *("sinusoidal-post_norm", "rotary-pre_norm", "shaw-keys-post_norm", "mean-shared-shaw", "windows"),
        *("bahdanau-gru", "luong-lstm", "convolutional", "gpt", "language-gru", "decoder_only-gpt-rotary"),
        *("gpt-llama", "t5", "copying", "two-memories", "two-memories-bahdanau"),
    )
]
WORLDS += [
    (name, "torch-bfloat16")
    for name in (
        *("sinusoidal-post_norm", "rotary-pre_norm", "shaw-keys-post_norm", "mean-shared-shaw", "windows", "concat"),
        *("bahdanau-gru", "luong-lstm", "convolutional", "gpt", "language-gru", "decoder_only-gpt-rotary"),
        *("gpt-llama", "gpt-window", "t5", "copying-luong", "two-memories", "two-memories-bahdanau", "language-memory"),
    )
]
GRAPHS = (
    *("sinusoidal-post_norm", "learned-pre_norm", "rotary-pre_norm", "shaw-post_norm", "alibi-pre_norm", "mean"),
    *("buckets-pre_norm", "t5", "windows", "copying", "gpt", "gpt-llama", "gpt-parallel", "gpt-window"),
    *("shared-key-value", "two-memories", "two-memories-parted", "decoder_only-gpt-rotary", "multi-query"),
)
WORLDS += [(name, "torch-graphs") for name in GRAPHS]
WORLDS += [
    (name, "torch-graphs-bfloat16") for name in ("rotary-pre_norm", "gpt-llama", "two-memories", "shaw-post_norm")
]
NATIVE = (
    *("sinusoidal-post_norm", "learned-pre_norm", "integer-post_norm", "rotary-pre_norm", "none-pre_norm"),
    *("concat", "windows", "untied-gelu", "one-head", "copying"),
    *("gpt", "gpt-rotary", "two-memories", "decoder_only-gpt-rotary"),
)
"""Variants that compute everything between tokens and hidden vectors in native code; others would compare
single-precision sums in different orders, rounded to 8-bit integers."""
NATIVE_WORLDS = ("native", "native-float32", "native-bfloat16")
HIDDEN_BY_BF16 = ("untied-gelu", "native-bfloat16")
"""Its small weights change a later token by less than a step of bf16, so the law of causes cannot see them."""
WORLDS += [
    (name, world)
    for world, name in itertools.product(NATIVE_WORLDS, NATIVE)
    if load_library() is not None and (name, world) != HIDDEN_BY_BF16
]
"""Worlds in which the laws hold: caches grow in place only without gradients. In the world of bands, windows are small,
and also short texts are cut into blocks. In the worlds of int8 and native code, all matrices are 8-bit integers, and
vectors are quantized before each product; in the other native worlds, they are floating-point numbers. In the world of
torch-bfloat16, all matrices are bf16. The rest is in double precision there: what differs by the order of sums is then
rounded to the same bf16 number, up to one case in 2^40."""
QUICK = {
    "inference": (
        *("sinusoidal-post_norm", "rotary-pre_norm", "shaw-post_norm", "mean-shared-shaw", "windows", "untied-gelu"),
        *("heads-general-linear_chain", "heads-additive-straight_through", "context-lstm", "context-at-start-gru"),
        *("bahdanau-gru", "bahdanau-sampled", "luong-lstm", "luong-predicted", "carried-luong", "sutskever"),
        *("convolutional", "convolutional-location", "language-gru", "language-memory", "gpt", "gpt-window"),
        *("decoder_only-gpt-rotary", "two-memories-post_norm", "two-memories-feeding", "ensemble", "windowed"),
        *("t5", "gpt-llama", "gpt-parallel", "alibi-pre_norm", "copying", "copying-doubled"),
    ),
    "gradients": ("rotary-pre_norm", "bahdanau-gru", "convolutional", "two-memories", "gpt-llama", "copying-luong"),
    "bands": ("windows", "gpt-window"),
    "int8": ("rotary-pre_norm", "luong-lstm", "convolutional", "gpt", "two-memories"),
    "torch-bfloat16": ("rotary-pre_norm", "bahdanau-gru", "gpt-window"),
    "torch-graphs": ("rotary-pre_norm", "gpt-window", "two-memories"),
    "torch-graphs-bfloat16": ("gpt-llama",),
    "native": ("rotary-pre_norm", "windows", "gpt", "decoder_only-gpt-rotary", "two-memories"),
    "native-float32": ("rotary-pre_norm", "gpt"),
    "native-bfloat16": ("windows", "two-memories"),
}
"""Variants that run each path through the code once, by world; slow tests run the whole grid."""


def mark_slow(name: str, world: str = "inference") -> Any:
    return () if name in QUICK[world] else pytest.mark.slow


def parametrize_models(names: Sequence[str] = NAMES) -> pytest.MarkDecorator:
    """Parametrize a law with these variants."""
    return pytest.mark.parametrize("name", [pytest.param(name, marks=mark_slow(name)) for name in names])


def parametrize_cases(wanted: Callable[[str], bool]) -> pytest.MarkDecorator:
    """Parametrize a law with the variants of these names, in their worlds."""
    return pytest.mark.parametrize("case", _list_worlds(wanted), indirect=True)


def _list_worlds(wanted: Callable[[str], bool] = lambda _: True) -> list[Any]:
    return [pytest.param(world, marks=mark_slow(*world), id="-".join(world)) for world in WORLDS if wanted(world[0])]


@pytest.fixture(params=_list_worlds())
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    """Return each variant in each of its worlds."""
    yield from _open_world(*request.param)


ATTENTIVE = (*TRANSFORMERS, *DECODERS, *SEVERAL_STACKS)
"""Variants whose tokens may stand in any column: only positions say where they are."""


again = pytest.mark.usefixtures("unchecked")
"""Disable shape checks in laws whose calls have the same shapes as those of the laws of chunks, groups and capture."""


def _open_world(name: str, world: str) -> Iterator[Case]:
    with torch.set_grad_enabled(world == "gradients"), pytest.MonkeyPatch.context() as patch:
        if world == "bands":
            for name_of_limit, limit in {"_MIN_BLOCK_QUERIES": 2, "_MIN_BAND_KEYS": 1, "_MIN_BAND_GAIN": 0}.items():
                patch.setattr(kernels, name_of_limit, limit)
        case = _build_case(name)
        if world == "native":
            patch.setattr(int8, "MIN_ELEMENTS", 1)
            int8.quantize_to_int8(case.model.float(), product_class=NativeProduct)
            assert replace_with_native(case.model)
        if world in ("native-float32", "native-bfloat16"):
            patch.setattr(int8, "MIN_ELEMENTS", 1)
            precision = "float32" if world == "native-float32" else "bfloat16"
            replace_linear_maps(case.model.float(), precision, engine_name=world)
            assert replace_with_native(case.model, engine_name=world)
        if world in ("torch-bfloat16", "torch-graphs-bfloat16"):
            patch.setattr(int8, "MIN_ELEMENTS", 1)
            if name == "convolutional":  # as below
                case = replace(case, model=_build_random_model.__wrapped__(name, 1))
            convert_to_bfloat16(case.model)
            assert any(isinstance(module, BFloat16Linear) for module in case.model.modules())
        if world in ("torch-graphs", "torch-graphs-bfloat16"):
            patch.setattr(pages, "PAGE_TOKENS", 2)  # so that texts have several
            patch.setattr(pages, "_INITIAL_PAGES", 2)
            assert replace_with_graphs(case.model) == 1
        if world == "int8":
            patch.setattr(int8, "MIN_ELEMENTS", 1)
            patch.setattr(Int8Product, "min_elements", 1)
            if name == "convolutional":  # from one of several copies, PyTorch cannot remove a parametrization
                case = replace(case, model=_build_random_model.__wrapped__(name, 1))
            int8.quantize_to_int8(case.model)
        yield case


class LanguageModelWithSource(nn.Module):
    """A language model with a source, and a state with as many rows as the source."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model
        self.decoder = model.decoder

    def init_state(self, source: Tokens) -> State:
        nothing = Tokens(source.ids[:, :0], source.positions[:, :0])
        _, state = self.model.step(nothing, self.model.init_state())
        return state

    def step(self, tokens: Tokens, state: State) -> tuple[Tensor, State]:
        return self.model.step(tokens, state)


@dataclass(frozen=True)
class SourceEngine:
    """The same for an engine that is not a module."""

    engine: Engine[None]

    @property
    def device(self) -> torch.device:
        return self.engine.device

    def init_state(self, source: Tokens) -> State:
        return self.engine.step(Tokens(source.ids[:, :0], source.positions[:, :0]), self.engine.init_state(None))[1]

    def step(self, tokens: Tokens, state: State) -> tuple[Tensor, State]:
        return self.engine.step(tokens, state)


def _build_model(name: str) -> nn.Module:
    if name in SEVERAL:
        return SEVERAL[name](WIDTH, VOCABULARY)
    if name in LANGUAGE_MODELS:
        config = TypeAdapter(LanguageModelConfig).validate_python(LANGUAGE_MODELS[name])
        return LanguageModelWithSource(build_language_model(config, vocabulary=VOCABULARY))
    if name in DECODERS_ONLY:
        prompted = TypeAdapter(ConditionalModelConfig).validate_python(DECODERS_ONLY[name])
        return build_conditional_model(prompted, DataSizes(VOCABULARY, VOCABULARY, 24))
    config = TypeAdapter(ModelConfig).validate_python(VARIANTS[name])
    return build_sequence_to_sequence(config, DataSizes(VOCABULARY, VOCABULARY, 24))


@cache
def _build_random_model(name: str, seed: int) -> nn.Module:
    """Build a model with random weights once, because that takes longer than most laws."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = _build_model(name)
        for parameter in model.parameters():  # gains of 1 and biases of 0 would hide errors
            nn.init.normal_(parameter, std=0.4)
    return model.double().eval()


def _build_case(name: str) -> Case:
    model = ENGINES[name]() if name in ENGINES else _copy_model(name)
    source = Tokens.from_ids(torch.tensor([[3, 4, 5, 6, 3], [5, 4, 6, PAD, PAD], [4, 3, 3, 5, PAD]]), pad=PAD)
    target = Tokens.from_ids(torch.randint(3, VOCABULARY, (3, 7)), pad=PAD)
    return Case(name, model, source, target)


def _copy_model(name: str, *, seed: int = 1) -> Any:
    return deepcopy(_build_random_model(name, seed))


@parametrize_models()
def test_models_and_their_wrappers_are_engines(name: str) -> None:
    engine = _build_case(name).model
    if name in (*SEVERAL, *LANGUAGE_MODELS):
        engine = engine.model
    assert isinstance(engine, Engine)
    assert engine.device == torch.device("cpu")


def test_chunk_law(case: Case) -> None:
    """Chunks of 3, 1, 0, 1 and 2 tokens: a prompt, single tokens, nothing, and a chunk after them."""
    torch.testing.assert_close(case.compute_logits((0, 3, 4, 4, 5, 7)), case.compute_logits((0, 7)))


@again
def test_row_law(case: Case) -> None:
    """Rows change places, occur twice, and increase in number."""
    chosen = torch.tensor([2, 0, 2, 1])
    _, state = case.model.step(case.target.slice_columns(0, 3), case.model.init_state(case.source))
    later = case.target.slice_columns(3)
    expected, _ = case.model.step(later, state)
    found, _ = case.model.step(select_rows(later, chosen), select_rows(state, chosen))
    torch.testing.assert_close(found, expected[chosen])


def test_rows_in_groups_are_rows(case: Case) -> None:
    """Branching, reordering and dropping rows of groups, with caches in place, equals copying them."""
    width, groups = 3, len(case.source.ids)
    state = shared = case.model.init_state(case.source)
    tokens = torch.full((groups, 1), 3)
    history = tokens
    steps = [RowSelection.expand(groups, width, device=torch.device("cpu"))]
    steps += [RowSelection.within_groups(torch.randint(width, (groups, width))) for _ in range(3)]
    steps += [RowSelection.keep_groups(torch.tensor([0, 2]), width)]
    steps += [RowSelection.within_groups(torch.randint(width, (2, width))) for _ in range(2)]
    for position, rows in enumerate(steps):
        now = Tokens(history[:, -1:], torch.full((len(history), 1), position))
        logits, shared = case.model.step(now, shared)
        expected, state = case.model.step(now, state)
        torch.testing.assert_close(logits, expected)
        shared, state = select_rows(shared, rows), select_rows(state, rows.origin)
        history = history[rows.origin]
        history = torch.cat((history, torch.randint(3, VOCABULARY, (len(history), 1))), 1)
    again = Tokens(history[:, :-1], torch.arange(history.size(1) - 1).expand(len(history), -1))
    whole, _ = case.model.step(again, select_rows(case.model.init_state(case.source), torch.tensor([0] * 3 + [2] * 3)))
    last = Tokens(history[:, -1:], torch.full((len(history), 1), len(steps)))
    continued, _ = case.model.step(last, shared)
    read, _ = case.model.step(last, _read_prefix(case, again))
    torch.testing.assert_close(continued, read)
    assert not whole.isnan().any()


def _read_prefix(case: Case, tokens: Tokens) -> Any:
    sentences = torch.tensor([0] * 3 + [2] * 3)
    _, state = case.model.step(tokens, select_rows(case.model.init_state(case.source), sentences))
    return state


@again
def test_free_selection_from_groups(case: Case) -> None:
    """Rows selected from shared groups keep what belongs to them and nothing else."""
    groups, width = len(case.source.ids), 2
    state = select_rows(
        case.model.init_state(case.source), RowSelection.expand(groups, width, device=torch.device("cpu"))
    )
    plain = select_rows(case.model.init_state(case.source), torch.arange(groups).repeat_interleave(width))
    ids = torch.randint(3, VOCABULARY, (groups * width, 4))
    positions = torch.arange(4).expand(len(ids), -1)
    for column in range(3):
        now = Tokens(ids[:, column : column + 1], positions[:, column : column + 1])
        _, state = case.model.step(now, state)
        _, plain = case.model.step(now, plain)
    rows = torch.tensor([5, 0, 3, 3])
    last = Tokens(ids[rows, 3:], positions[rows, 3:])
    found, _ = case.model.step(last, select_rows(state, rows))
    expected, _ = case.model.step(last, select_rows(plain, rows))
    torch.testing.assert_close(found, expected)


PARTS = [([0], [1, 2]), ([2, 0], [1]), ([1], [0], [2, 2])]


@again
@pytest.mark.parametrize(
    "parts", [pytest.param(each, marks=pytest.mark.slow if len(each) == 2 else ()) for each in PARTS], ids=str
)
def test_join_law(case: Case, parts: Sequence[Sequence[int]]) -> None:
    """Rows that are separated and joined again step like the whole."""
    _, state = case.model.step(case.target.slice_columns(0, 3), case.model.init_state(case.source))
    expected, _ = case.model.step(case.target.slice_columns(3), state)
    joined = concat_rows([select_rows(state, torch.tensor(part)) for part in parts])
    rows = torch.tensor([row for part in parts for row in part])
    for cuts in ((3, 7), (3, 4, 7)):
        again, found = joined, []
        for start, stop in itertools.pairwise(cuts):
            logits, again = case.model.step(select_rows(case.target.slice_columns(start, stop), rows), again)
            found.append(logits)
        torch.testing.assert_close(torch.cat(found, 1), expected[rows])


@again
def test_states_of_different_age_are_joined(case: Case) -> None:
    """Each row continues as if it were alone, and attends to its own source."""
    ages, states, expected = (2, 5, 1), [], []
    for row, age in enumerate(ages):
        source, target = (select_rows(each, torch.tensor([row])) for each in (case.source, case.target))
        source = source.slice_columns(0, int(source.positions.max()) + 1)
        _, state = case.model.step(target.slice_columns(0, age), case.model.init_state(source))
        states.append(state)
        expected.append(case.model.step(target.slice_columns(age, age + 2), state)[0])
    later = concat_rows(
        [select_rows(case.target, torch.tensor([n])).slice_columns(age, age + 2) for n, age in enumerate(ages)]
    )
    for joined in (
        concat_rows(states),
        concat_rows([states[0], concat_rows(states[1:])]),
        concat_rows([concat_rows(states[:2]), states[2]]),
    ):
        torch.testing.assert_close(case.model.step(later, joined)[0], torch.cat(expected))
        one, state = case.model.step(later.slice_columns(0, 1), joined)
        other, _ = case.model.step(
            select_rows(later.slice_columns(1), torch.tensor([2, 1])), select_rows(state, torch.tensor([2, 1]))
        )
        torch.testing.assert_close(one, torch.cat(expected)[:, :1])
        torch.testing.assert_close(other, torch.cat((expected[2], expected[1]))[:, 1:])
    torch.testing.assert_close(case.model.step(select_rows(later, torch.tensor([1])), states[1])[0], expected[1])


@again
@parametrize_cases(lambda name: name not in WITHOUT_SOURCE)
def test_a_row_that_has_read_nothing_is_joined(case: Case) -> None:
    first, others = torch.tensor([0]), torch.tensor([1, 2])
    _, older = case.model.step(
        select_rows(case.target.slice_columns(0, 3), others), case.model.init_state(select_rows(case.source, others))
    )
    for states in (
        (case.model.init_state(select_rows(case.source, first)), older),
        (older, case.model.init_state(select_rows(case.source, first))),
    ):
        rows = torch.cat((first, others) if states[1] is older else (others, first))
        tokens = [
            select_rows(case.target.slice_columns(0, 2), first),
            select_rows(case.target.slice_columns(3, 5), others),
        ]
        now = concat_rows(tokens if states[1] is older else tokens[::-1])
        expected = torch.cat(
            (
                case.compute_logits((0, 2), target=case.target.slice_columns(0, 2))[:1],
                case.compute_logits((0, 5))[1:, 3:],
            )
        )
        torch.testing.assert_close(case.model.step(now, concat_rows(states))[0], expected[rows])


@again
def test_groups_are_joined_with_groups(case: Case) -> None:
    """Join beams of sentences that started at different times, with what each group shares."""
    width, cpu = 2, torch.device("cpu")
    rows = [torch.tensor([0, 2]), torch.tensor([1])]
    shared, plain = [], []
    for chosen, steps in zip(rows, (2, 4), strict=True):
        state = select_rows(
            case.model.init_state(select_rows(case.source, chosen)), RowSelection.expand(len(chosen), width, device=cpu)
        )
        copied = select_rows(
            case.model.init_state(select_rows(case.source, chosen)), torch.arange(len(chosen)).repeat_interleave(width)
        )
        for position in range(steps):
            now = Tokens(*(torch.full((len(chosen) * width, 1), n) for n in (3 + position % 3, position)))
            now = Tokens((now.ids + torch.arange(len(now.ids)).unsqueeze(1)) % 4 + 3, now.positions)
            order = RowSelection.within_groups(torch.tensor([[1, 1], [1, 0]][: len(chosen)]))
            state, copied = case.model.step(now, state)[1], case.model.step(now, copied)[1]
            state, copied = select_rows(state, order), select_rows(copied, order.origin)
        shared.append(state)
        plain.append(copied)
    now = Tokens(torch.tensor([[3], [4], [5], [6], [4], [3]]), torch.tensor([[2]] * 4 + [[4]] * 2))
    found, after = case.model.step(now, concat_rows(shared))
    expected, alone = case.model.step(now, concat_rows(plain))
    torch.testing.assert_close(found, expected)
    order = RowSelection.within_groups(torch.tensor([[1, 0], [0, 0], [1, 1]]))
    then = Tokens(now.ids, now.positions + 1)
    found, _ = case.model.step(then, select_rows(after, order))
    expected, _ = case.model.step(then, select_rows(alone, order.origin))
    torch.testing.assert_close(found, expected)
    parts = [
        case.model.step(select_rows(now, torch.arange(*span)), state)[0]
        for span, state in zip(((0, 4), (4, 6)), plain, strict=True)
    ]
    torch.testing.assert_close(case.model.step(now, concat_rows(plain))[0], torch.cat(parts))


@again
def test_cause_law(case: Case) -> None:
    changed = case.target.ids.clone()
    changed[:, 5:] = 3 + (changed[:, 5:] - 2) % (VOCABULARY - 3)
    before = case.compute_logits((0, 7))
    after = case.compute_logits((0, 7), target=Tokens(changed, case.target.positions))
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert (before[:, 5:] - after[:, 5:]).abs().amax(-1).min() > 1e-6


@again
@parametrize_cases(lambda name: name not in (*ENGINES, *DECODERS_ONLY))
def test_gradients_come_from_what_an_output_attends_to(case: Case) -> None:
    """The gradient of an output comes from its row, from the past inside the window, and from source tokens."""
    row, at, reach = 1, 5, REACH.get(case.name, 5)
    embedded: dict[str, Tensor] = {}
    sides = {"target": case.model.decoder}
    if case.name not in LANGUAGE_MODELS:
        sides["source"] = case.model.encoder

    def capture_leaf(name: str) -> Any:
        def detach_vectors(_module: nn.Module, _inputs: object, vectors: Tensor) -> Tensor:
            return embedded.setdefault(name, vectors.detach().requires_grad_()) if vectors.size(1) else vectors

        return detach_vectors

    handles = [find_embedding(side).register_forward_hook(capture_leaf(name)) for name, side in sides.items()]
    with torch.enable_grad():
        one = case.compute_logits((0, 7))[row, at].square().sum()
        gradients = torch.autograd.grad(one, [embedded[name] for name in sides])
        target, *source = (gradient.abs().sum(-1) > 0 for gradient in gradients)
    for handle in handles:
        handle.remove()
    mine = torch.arange(3).unsqueeze(1) == row
    for found in source:
        assert torch.equal(found, mine & (case.source.positions >= 0))
    positions = case.target.positions
    assert torch.equal(target, mine & (positions <= at) & (positions >= at - reach))


def find_embedding(side: nn.Module) -> TokenEmbedding:
    return next(module for module in side.modules() if isinstance(module, TokenEmbedding))


@again
def test_padding_law_source(case: Case) -> None:
    pad = torch.full((3, 2), PAD)
    for ids in (torch.cat((case.source.ids, pad), 1), torch.cat((pad, case.source.ids), 1)):
        wide = Tokens.from_ids(ids, pad=PAD)
        torch.testing.assert_close(case.compute_logits((0, 7), source=wide), case.compute_logits((0, 7)))


@again
def test_ids_of_padding_do_not_matter(case: Case) -> None:
    """Only positions say what is padding."""
    other = torch.where(case.source.positions < 0, 5, case.source.ids)
    filled = Tokens(other, case.source.positions)
    torch.testing.assert_close(case.compute_logits((0, 7), source=filled), case.compute_logits((0, 7)))


@again
def test_padding_law_target(case: Case) -> None:
    """Padding in one chunk, and in chunks of padding only, of one token or more, with padding first, and without."""
    padded = Tokens.from_ids(torch.cat((torch.full((3, 3), PAD), case.target.ids), 1), pad=PAD)
    expected = case.compute_logits((0, 7))
    for cuts in ((0, 10), (0, 1, 2, 5, 6, 10)):
        found = case.compute_logits(cuts, target=padded)
        assert not found.isnan().any()
        torch.testing.assert_close(found[:, 3:], expected)


@again
def test_branch_law(case: Case) -> None:
    one, other = (
        case.target.slice_columns(3, 4),
        Tokens((case.target.ids[:, 3:4] - 2) % 4 + 3, case.target.positions[:, 3:4]),
    )
    later = case.target.slice_columns(4, 5)
    state = case.model.init_state(case.source)
    for part in (
        case.target.slice_columns(0, 2),
        case.target.slice_columns(2, 3),
    ):  # the second leaves free space in the storage
        _, state = case.model.step(part, state)
    _, alone = case.model.step(one, state)
    expected, _ = case.model.step(later, alone)
    _, first = case.model.step(one, state)
    case.model.step(other, state)
    torch.testing.assert_close(case.model.step(later, first)[0], expected)


@again
@parametrize_cases(lambda name: name not in (*ENGINES, *DECODERS_ONLY))
def test_watch_law(case: Case) -> None:
    plain = case.compute_logits((0, 7))
    with watch_attention(case.model) as weights:
        watched = case.compute_logits((0, 7))
    torch.testing.assert_close(watched, plain)
    probes = {name.removesuffix(".probe") for name, each in case.model.named_modules() if isinstance(each, HookPoint)}
    assert set(weights) == probes
    for name, calls in weights.items():
        for each in calls:
            sums = each.sum(-1)
            sighted = sums != 0
            if case.name not in UNNORMALISED:
                torch.testing.assert_close(sums[sighted], torch.ones_like(sums[sighted]), msg=name)
            assert (each >= 0).all()


@parametrize_cases(lambda name: name not in (*ENGINES, *DECODERS_ONLY))
def test_capture_law(case: Case) -> None:
    """The captured weights are the weights that the attention uses."""
    plain = case.compute_logits((0, 7))
    with capture_attention(case.model) as captured:
        torch.testing.assert_close(case.compute_logits((0, 7)), plain)
    attentions = {path for path, each in case.model.named_modules() if isinstance(each, TraceableAttention)}
    assert set(captured.explained) == set(captured.weights) == set(captured.sites) == attentions
    for path, calls in captured.explained.items():
        module = case.model.get_submodule(path)
        for told, weights, output in zip(calls, captured.weights[path], captured.outputs[path], strict=True):
            torch.testing.assert_close(told.weights, weights.view_as(told.weights), msg=path)
            assert (told.weights.masked_select(~told.visible.unsqueeze(1)) == 0).all()
            told_output = told.context.transpose(1, 2)
            joined = module.aggregation(told_output) if hasattr(module, "aggregation") else told_output.squeeze(2)
            torch.testing.assert_close(joined, output, msg=path)


@again
@parametrize_cases(lambda name: name in ATTENTIVE)
def test_kernel_law(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention gives the same result with and without explicit weights, and while it is recorded.

    A fused kernel rounds weights and contexts of the engine torch-bfloat16 to steps of 2^-8; the logits are sums of a
    few dozens of them.
    """
    is_rounded = any(isinstance(module, BFloat16Attention) for module in case.model.modules())
    tolerance: dict[str, float] = {"atol": 0.05, "rtol": 0.05} if is_rounded else {}
    padded = Tokens.from_ids(torch.cat((torch.full((3, 2), PAD), case.target.ids), 1), pad=PAD)
    monkeypatch.setattr(kernels, "prefer_fused", lambda *_: False)
    expected = case.compute_logits((0, 9), target=padded)[:, 2:]
    monkeypatch.setattr(kernels, "prefer_fused", lambda *_: True)
    for cuts in ((0, 9), (0, 4, 5, 9)):
        torch.testing.assert_close(case.compute_logits(cuts, target=padded)[:, 2:], expected, **tolerance)
    with watch_attention(case.model):
        torch.testing.assert_close(case.compute_logits((0, 9), target=padded)[:, 2:], expected)


@again
@parametrize_cases(lambda name: name in ATTENTIVE and name not in CHAINS)
def test_columns_are_a_set(case: Case) -> None:
    """The column of a token does not matter; its position does, and the outputs move with it."""
    order, back = torch.tensor([2, 0, 4, 1, 3]), torch.tensor([6, 1, 0, 4, 2, 5, 3])
    source = Tokens(case.source.ids[:, order], case.source.positions[:, order])
    target = Tokens(case.target.ids[:, back], case.target.positions[:, back])
    expected = case.compute_logits((0, 7))
    torch.testing.assert_close(case.compute_logits((0, 7), source=source), expected)
    torch.testing.assert_close(case.compute_logits((0, 7), target=target), expected[:, back])


@again
@parametrize_cases(lambda name: name in TRANSFORMERS)
def test_without_positions_a_source_is_a_set_of_words(case: Case) -> None:
    """Attention alone has no order: a permuted source is the same, unless there are positions.

    The lectures reject positions that add one number to all entries of a vector. A pre-norm removes this number.
    """
    rows = torch.tensor([0])
    source, target = select_rows(case.source, rows), select_rows(case.target, rows)
    permuted = Tokens(source.ids[:, [3, 1, 4, 0, 2]], source.positions)
    before, after = (case.compute_logits((0, 7), source=each, target=target) for each in (source, permuted))
    blind = case.name.startswith("none-") or (
        case.name.startswith(("unit_interval", "integer")) and case.name.endswith("pre_norm")
    )
    assert torch.allclose(before, after, atol=1e-6) == blind


@again
def test_batch_law(case: Case) -> None:
    together = case.compute_logits((0, 7))
    for row in range(3):
        alone = case.compute_logits(
            (0, 7),
            source=select_rows(case.source, torch.tensor([row])),
            target=select_rows(case.target, torch.tensor([row])),
        )
        torch.testing.assert_close(alone[0], together[row])


@again
def test_a_source_of_padding_alone_gives_finite_numbers(case: Case) -> None:
    empty = Tokens(case.source.ids, torch.where(torch.tensor([[True], [False], [True]]), case.source.positions, -1))
    found = case.compute_logits((0, 7), source=empty)
    assert not found.isnan().any()
    torch.testing.assert_close(found[0], case.compute_logits((0, 7))[0])


@again
def test_a_beam_as_wide_as_the_tree_is_exact(case: Case) -> None:
    """Each hypothesis has its exact score, and the best of all is found, with any model."""
    length = 2
    prompt = Tokens(torch.full((3, 1), 1), torch.zeros(3, 1, dtype=torch.long))
    found = beam_search(
        case.model.step,
        case.model.init_state(case.source),
        prompt,
        width=VOCABULARY**length,
        eos=EOS,
        max_new_tokens=length,
        length_penalty=NoLengthPenalty(),
        n_best=VOCABULARY,
    )
    torch.set_grad_enabled(False)
    first, state = case.model.step(prompt, case.model.init_state(case.source))
    first = first[:, -1].log_softmax(-1)
    truth: list[dict[tuple[int, ...], float]] = [{(): float(row[EOS])} for row in first]
    for word in (w for w in range(VOCABULARY) if w != EOS):
        after, _ = case.model.step(Tokens(torch.full((3, 1), word), torch.ones(3, 1, dtype=torch.long)), state)
        for row, second in enumerate(after[:, -1].log_softmax(-1)):
            truth[row][(word,)] = float(first[row, word] + second[EOS])
    for row, hypotheses in enumerate(found):
        assert hypotheses[0].ids == max(truth[row], key=lambda ids: truth[row][ids])
        for hypothesis in hypotheses:
            if hypothesis.finished:
                exact = 1e-9 if first.dtype == torch.float64 else 1e-5  # sums in single precision
                assert hypothesis.log_probability == pytest.approx(truth[row][hypothesis.ids], abs=exact)


@dataclass(frozen=True)
class CacheFreeModel:
    """The same model without a cache: it reads everything from the start in each step."""

    model: Any

    def init_state(self, source: Tokens) -> tuple[Tokens, Tokens]:
        return source, Tokens(source.ids[:, :0], source.positions[:, :0])

    def step(self, tokens: Tokens, state: tuple[Tokens, Tokens]) -> tuple[Tensor, tuple[Tokens, Tokens]]:
        source, past = state
        whole = Tokens(torch.cat((past.ids, tokens.ids), 1), torch.cat((past.positions, tokens.positions), 1))
        logits, _ = self.model.step(whole, self.model.init_state(source))
        return logits[:, past.ids.size(1) :], (source, whole)


@again
@parametrize_models()
def test_searches_find_the_same_with_and_without_caches(name: str) -> None:
    """Compare caches that stay in place while beams change places with no cache; a beam of one is greedy search."""
    case = _build_case(name)
    prompt = Tokens(torch.full((3, 1), 1), torch.zeros(3, 1, dtype=torch.long))
    given: dict[str, Any] = {"eos": EOS, "max_new_tokens": torch.tensor([5, 2, 4])}
    wide, narrow = (
        {"width": 3, "n_best": 3, "length_penalty": GNMTLengthPenalty(0.6)},
        {"width": 1, "length_penalty": NoLengthPenalty()},
    )
    with torch.no_grad():
        begin, plain = case.model.init_state(case.source), CacheFreeModel(case.model)
        cached = beam_search(case.model.step, begin, prompt, **wide, **given)
        assert_same(cached, beam_search(plain.step, plain.init_state(case.source), prompt, **wide, **given))
        groups = DiverseBeamSearch(EOS, 4, 2, 0.5, GNMTLengthPenalty(0.6), 4)
        request = GenerationRequest(prompt, given["max_new_tokens"])
        diverse = groups.decode_request(case.model.step, begin, request).hypotheses
        assert_same(diverse, groups.decode_request(plain.step, plain.init_state(case.source), request).hypotheses)
        greedy = greedy_search(case.model.step, begin, prompt, **given)
        assert_same(greedy, beam_search(case.model.step, begin, prompt, **narrow, **given))


@again
@parametrize_models()
@pytest.mark.parametrize(
    "search", [GreedySearch(EOS), BeamSearch(EOS, 3, NoLengthPenalty(), n_best=2)], ids=["greedy", "beam"]
)
def test_a_conversation_continues_from_the_state_after_an_answer(name: str, search: SearchStrategy) -> None:
    """The result equals reading the prompt, the answer and the new words from the start."""
    case = _build_case(name)
    prompt = Tokens(torch.full((3, 1), 1), torch.zeros(3, 1, dtype=torch.long))
    with torch.inference_mode():
        limits, streams = torch.tensor([5, 2, 4]), torch.arange(3)
        given: dict[str, Any] = {"max_new_tokens": limits, "prefix": None, "rng_streams": streams}
        found = search.decode_with_state(case.model.step, case.model.init_state(case.source), prompt, **given)
        assert found.resume_state is not None
        rows = [row for row, answers in enumerate(found.hypotheses) for _ in answers]
        words = Tokens.from_ids(torch.tensor([[4, 6, 5], [3, PAD, PAD], [5, 3, PAD]])[rows], pad=PAD)
        logits, _ = case.model.step(found.resume_state.build_prompt(words), found.resume_state.state)
        answers = [(*h.ids, *([EOS] if h.finished else [])) for answers in found.hypotheses for h in answers]
        for at, (row, said) in enumerate(zip(rows, answers, strict=True)):
            real = words.positions[at] >= 0
            whole = torch.tensor([[1, *said, *words.ids[at, real].tolist()]])
            alone = case.model.init_state(select_rows(case.source, torch.tensor([row])))
            expected, _ = case.model.step(Tokens(whole, torch.arange(whole.size(1)).unsqueeze(0)), alone)
            new = int(real.sum())
            torch.testing.assert_close(logits[at, 1 : 1 + new], expected[0, -new:])


@again
@pytest.mark.parametrize(
    "search", [GreedySearch(EOS), BeamSearch(EOS, 3, GNMTLengthPenalty(0.6), 2)], ids=["greedy", "beam"]
)
@pytest.mark.parametrize(
    "case",
    [pytest.param(world, marks=mark_slow(*world), id="-".join(world)) for world in WORLDS if world[1] != "gradients"],
    indirect=True,
)
def test_company_law(case: Case, search: GreedySearch | BeamSearch) -> None:
    """Sentences that join and leave a running search have the same results as alone."""
    prompt = Tokens(torch.full((1, 1), 1), torch.zeros(1, 1, dtype=torch.long))
    running, found, expected = (
        ContinuousBatch(case.model.step, width=3 if isinstance(search, BeamSearch) else 1),
        {},
        [],
    )
    with torch.inference_mode():
        for row, limit in enumerate((6, 2, 5)):
            source = select_rows(case.source, torch.tensor([row]))
            source = source.slice_columns(0, int(source.positions.max()) + 1)
            wish = GenerationRequest(prompt, limit, rng_streams=torch.tensor([row]))
            expected.append(search.decode_request(case.model.step, case.model.init_state(source), wish).hypotheses[0])
            _, left = running.add_requests(case.model.init_state(source), wish, search)
            found.update({each.request_id: list(each.hypotheses) for each in [*left, *running.step()]})
        while len(running):
            found.update({each.request_id: list(each.hypotheses) for each in running.step()})
    assert_same([found[row] for row in range(3)], expected)


def assert_same(found: Hypotheses, expected: Hypotheses) -> None:
    assert [[h.ids for h in row] for row in found] == [[h.ids for h in row] for row in expected]
    for one, other in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
        assert one.token_log_probabilities == pytest.approx(other.token_log_probabilities, abs=1e-6)
