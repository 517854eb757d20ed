"""The size of a model by the formulas of the paper, without the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heedful.architectures.build import DataSizes, build_sequence_to_sequence
from heedful.architectures.model import PUBLISHED_MODELS, TransformerConfig
from heedful.architectures.published import get_published_size
from heedful.architectures.recurrent import RecurrentConfig
from heedful.blocks.transformer import TransformerStack
from heedful.data.batches import build_pair_batch, to_tokens
from heedful.models.model_size import TrainingMemory, estimate_training_memory, measure_model
from heedful.tasks.generation_objective import LikelihoodCriterion

BASE = {"d_model": 512, "heads": 8, "d_ff": 2048, "layers": 6}


def on_paper(vocabulary: int = 37000, **given: Any) -> nn.Module:
    with torch.device("meta"):
        return build_sequence_to_sequence(
            TransformerConfig.model_validate({**BASE, **given}), DataSizes(vocabulary, vocabulary, 256)
        )


def formula(*, d: int, d_ff: int, layers: int, tables: int, norms: int = 0) -> int:
    """W_q, W_k, W_v, W_O with their biases; W_1, W_2 with theirs; a gain and a bias for each norm."""
    attention = 4 * (d * d + d)
    network = d * d_ff + d_ff + d_ff * d + d
    norm = 2 * d
    encoder_layer = attention + network + 2 * norm
    decoder_layer = 2 * attention + network + 3 * norm
    return layers * (encoder_layer + decoder_layer) + tables + norms * norm


@pytest.mark.parametrize(("tie", "tables"), [("three_way", 1), ("two_way", 2), ("none", 3)])
@pytest.mark.parametrize("residual", ["post_norm", "pre_norm"])
def test_parameters_of_the_papers_base(tie: str, tables: int, residual: str) -> None:
    size = measure_model(on_paper(tie=tie, residual=residual))
    norms = 2 if residual == "pre_norm" else 0
    expected = formula(d=512, d_ff=2048, layers=6, tables=tables * 37000 * 512, norms=norms)
    assert size.num_parameters == expected
    if tables == 1 and not norms:
        assert size.num_parameters == 63_082_496, "what the paper rounds to 65 million"
    assert size.weight_bytes == 4 * expected
    assert size.training_bytes == 4 * 4 * expected, "weights, gradients and two moments"


def test_a_tied_matrix_counts_once_and_says_with_what_it_is_tied() -> None:
    size = measure_model(on_paper())
    tied = {part.name: part.tied_to for part in size.parameters_info if part.tied_to is not None}
    first = "encoder.stack.embedding.table.weight"
    assert tied == {"decoder.stack.embedding.table.weight": first, "output.weight": first}
    assert all(part.num_parameters == 0 for part in size.parameters_info if part.tied_to is not None)
    assert len({part.name for part in size.parameters_info}) == len(size.parameters_info)


@pytest.mark.parametrize("length", [1, 25, 400])
def test_operations_of_a_source_and_a_target_token(length: int) -> None:
    """Twice the entries of each matrix that a token is multiplied with, and 2 d for each key's score and value."""
    d, d_ff, layers, vocabulary = 512, 2048, 6, 37000
    attention, network = 4 * d * d, 2 * d * d_ff
    looking = 2 * length * d
    expected = 2 * (layers * (attention + network + looking + 2 * attention + network + 2 * looking) + d * vocabulary)
    size = measure_model(on_paper(), length=length)
    assert size.forward_flops == expected
    assert size.training_flops == 3 * expected
    assert measure_model(on_paper(tie="none"), length=length).forward_flops == expected, (
        "tables are looked up, for nothing"
    )


def test_positions_that_are_learned_count() -> None:
    plain = measure_model(on_paper()).num_parameters
    assert measure_model(on_paper(positions={"kind": "learned", "length": 300})).num_parameters == plain + 2 * 300 * 512
    shaw = measure_model(on_paper(positions={"kind": "shaw", "clip": 16})).num_parameters
    assert shaw == plain + 12 * 2 * 33 * 64, "keys and values, in each self-attention"
    assert measure_model(on_paper(positions={"kind": "rotary"})).num_parameters == plain


def test_nothing_is_allocated() -> None:
    """A model of several hundred gigabytes is measured on any machine."""
    model = on_paper(d_model=2**15, heads=64, d_ff=2**17)
    assert all(parameter.is_meta for parameter in model.parameters())
    assert measure_model(model).weight_bytes > 2 * 10**11


def test_on_paper_and_in_memory_are_the_same_model() -> None:
    small = {"d_model": 16, "heads": 2, "d_ff": 32, "layers": 1, "aggregation": "mean"}
    on, off = (
        on_paper(11, **small),
        build_sequence_to_sequence(TransformerConfig.model_validate(small), DataSizes(11, 11, 9)),
    )
    assert measure_model(on) == measure_model(off)
    assert measure_model(off).num_parameters == sum(parameter.numel() for parameter in off.parameters())


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("transformer-base", 63_082_496),
        ("bert-base", 109_482_240),
        ("bert-large", 335_141_888),
        ("gpt-2", 124_439_808),
        ("gpt-2-xl", 1_557_611_200),
    ],
)
def test_models_of_papers_have_as_many_as_those_that_were_given_away(name: str, parameters: int) -> None:
    """The numbers of the checkpoints that Google and OpenAI published; the Transformer's by the formula above."""
    assert get_published_size(name, length=1).num_parameters == parameters


@pytest.mark.slow
def test_what_papers_say_is_within_seven_percent() -> None:
    for name, published in PUBLISHED_MODELS.items():
        last = published.reported_parameters.replace(",", "").split()[-1]
        beside = 80 * 16384**2 if name == "gopher" else 0  # maps of relative positions, which its remark names
        counted = (get_published_size(name, length=1).num_parameters + beside) / 1e6
        assert counted == pytest.approx(float(last), rel=0.07), name


@pytest.mark.parametrize(
    ("name", "layers", "d", "rows"),
    [("gpt-1", 12, 768, 40_478 + 512), ("megatron-turing", 105, 20_480, 50_257 + 2048 + 2)],
)
def test_language_models_by_their_formula(name: str, layers: int, d: int, rows: int) -> None:
    """Four maps of attention and two of four times the width, with biases, and two norms; tables of pieces and places.

    A norm behind the last layer is two rows more.
    """
    assert get_published_size(name, length=1).num_parameters == layers * (12 * d * d + 13 * d) + rows * d


def test_gopher_has_no_biases_and_its_remark_tells_what_is_left_out() -> None:
    d, layers = 16_384, 80
    counted = get_published_size("gopher", length=1).num_parameters
    assert counted == layers * (12 * d * d + 2 * d) + 32_000 * d + d
    assert f"{round(layers * d * d / 1e6):,} million" in PUBLISHED_MODELS["gopher"].source
    assert (counted + layers * d * d) / 1e9 == pytest.approx(280, rel=0.002)


def test_gpt3_by_the_rule_of_twelve() -> None:
    """12 L d^2 for the matrices (Kaplan et al. 2020, 2.1), 13 L d for biases and norms, and tables."""
    layers, d, tables = 96, 12288, 50257 + 2048
    expected = 12 * layers * d * d + 13 * layers * d + tables * d + 2 * d
    assert get_published_size("gpt-3", length=1).num_parameters == expected
    assert expected / 1e9 == pytest.approx(175, abs=0.5)


# --- memory ------------------------------------------------------------------------------------------------


def memory(model: nn.Module, **given: Any) -> TrainingMemory:
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    settings: dict[str, Any] = {"state_numbers": 2 * trained, "use_bf16": False, "has_average": False}
    settings |= {"tokens": 4096, "length": 25}
    return estimate_training_memory(model, **settings | given)


def test_training_needs_weights_gradients_and_moments() -> None:
    model = on_paper()
    count = measure_model(model).num_parameters
    exact = memory(model)
    assert (exact.weights, exact.gradients, exact.moments) == (4 * count, 4 * count, 8 * count)
    assert exact.bytes_without_activations == measure_model(model).training_bytes
    half = memory(model, use_bf16=True, has_average=True)
    assert (half.weights, half.gradients) == (10 * count, 6 * count), "bf16 beside fp32, and an average"
    assert exact.activations is not None
    assert half.activations == exact.activations // 2
    assert memory(model, state_numbers=7).moments == 28


def test_of_layers_that_are_computed_again_one_is_stored() -> None:
    model, deeper = (on_paper(100, d_model=64, d_ff=256, layers=layers) for layers in (3, 5))
    plain = memory(model)
    for module in (*model.modules(), *deeper.modules()):
        if isinstance(module, TransformerStack):
            module.gradient_checkpointing = True
    less, deeper_less = memory(model), memory(deeper)
    assert plain.activations is not None
    assert less.activations is not None
    assert deeper_less.activations is not None
    assert less.bytes_without_activations == plain.bytes_without_activations
    assert less.activations < plain.activations / 2
    # the inputs of two more layers on each side
    assert deeper_less.activations - less.activations == 4 * 4096 * 2 * 2 * 64


def test_what_stands_still_has_no_gradients() -> None:
    model = nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 5))
    model[0].requires_grad_(False)
    found = memory(model)
    assert (found.weights, found.gradients, found.moments) == (4 * 165, 4 * 55, 8 * 55)


def test_convolutions_over_pictures_are_not_guessed() -> None:
    assert memory(nn.Conv2d(3, 8, 3)).activations is None


CONFIGS = {
    "transformer": TransformerConfig.model_validate({"d_model": 32, "heads": 4, "d_ff": 64, "layers": 2}),
    "recurrent": RecurrentConfig.model_validate({"kind": "recurrent", "d_model": 32}),
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("length", [8, 64])
def test_activations_are_right_within_a_factor_of_three(name: str, length: int) -> None:
    """What autograd keeps while the loss of a batch is made, besides parameters."""
    model = build_sequence_to_sequence(CONFIGS[name], DataSizes(500, 500, 100)).train()
    ids = torch.randint(4, 500, (512 // length, length))
    batch = build_pair_batch(to_tokens(ids.numpy()), ids.numpy(), bos=1)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = LikelihoodCriterion().loss(model, batch)
    assert loss.count > 0
    right = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    guess = memory(model, tokens=512, length=length).activations
    assert guess is not None
    assert right / 3 < guess < right * 3
