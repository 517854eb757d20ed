"""Laws of vision transformers, tested with all variants that a recipe can build."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heedful.architectures.build_stack import build_vision_transformer
from heedful.architectures.vision import VisionTransformerConfig
from heedful.attention.hooks import PATCHES, assign_roles
from heedful.inspection.capture import capture_attention
from heedful.models.vision import VisionTransformer
from heedful.tensors import GridLayout

SHAPE = (2, 6, 9)
VARIANTS: dict[str, dict[str, Any]] = {
    "learned": {},
    "sinusoidal": {"positions": {"kind": "sinusoidal"}},
    "none": {"positions": {"kind": "none"}},
    "post-norm": {"residual": "post_norm"},
    "modern": {"gated": True, "norm": "rms", "query_key_norm": True, "key_value_heads": 1, "bias": False},
    "scaled": {"scale_embedding": True, "mean": (0.2, 0.7), "deviation": (0.3, 0.1)},
}


def build_encoder(options: dict[str, Any]) -> VisionTransformer:
    torch.manual_seed(3)
    sizes = {"d_model": 12, "heads": 3, "layers": 2, "patch": 3, "dropout": 0.0}
    config = VisionTransformerConfig.model_validate({**sizes, **options})
    encoder = build_vision_transformer(config, picture=SHAPE).double().eval()
    for parameter in encoder.parameters():
        nn.init.normal_(parameter, std=0.5)
    return encoder


def build_pictures(count: int) -> Tensor:
    return torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(1)).double()


@pytest.mark.parametrize("name", VARIANTS)
def test_row_law(name: str) -> None:
    """The memory of a picture does not depend on the others; its slots are the patches, row by row."""
    encoder, pictures = build_encoder(VARIANTS[name]), build_pictures(3)
    memory = encoder(pictures)
    assert memory.layout == GridLayout(2, 3)
    assert memory.positions.tolist() == [list(range(6))] * 3
    for row in range(3):
        alone = encoder(pictures[row : row + 1])
        torch.testing.assert_close(alone.values[0], memory.values[row])
        torch.testing.assert_close(alone.summary[0], memory.summary[row])


@pytest.mark.parametrize("name", VARIANTS)
def test_order_law(name: str) -> None:
    """Without positions, patches that change places take their slots with them, and the class token stays the same;
    with positions, it does not.
    """
    encoder, picture = build_encoder(VARIANTS[name]), build_pictures(1)
    turned = torch.cat((picture[..., 3:, 6:], picture[..., 3:, :6]), -1)
    changed = torch.cat((turned, picture[..., :3, :]), -2)
    first, second = encoder(picture), encoder(changed)
    is_same = torch.allclose(first.summary, second.summary)
    assert is_same == (name == "none")
    if is_same:
        torch.testing.assert_close(second.values, first.values[:, [5, 3, 4, 0, 1, 2]])


@pytest.mark.parametrize("name", VARIANTS)
def test_capture_law(name: str) -> None:
    """The captured weights are those of the class token and all patches, and capturing changes nothing."""
    encoder, pictures = build_encoder(VARIANTS[name]), build_pictures(2)
    assign_roles(encoder, PATCHES)
    plain = encoder(pictures)
    with capture_attention(encoder) as captured:
        torch.testing.assert_close(encoder(pictures).summary, plain.summary)
    assert [site.declaration for site in captured.sites.values()] == [PATCHES, PATCHES]
    for (weights,) in captured.weights.values():
        assert weights.shape == (2, 3, 7, 7)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 7).double())


def test_patches_are_projected_one_by_one() -> None:
    """Equation 1 of the paper in a loop over patches: z_0 = [x_class; x_1 E; x_2 E; ...] + E_pos."""
    encoder, picture = build_encoder({"mean": (0.2, 0.7), "deviation": (0.3, 0.1)}), build_pictures(1)
    inputs: list[Tensor] = []
    encoder.stack.embedding.register_forward_hook(lambda _module, _args, output: inputs.append(output))
    encoder(picture)
    colours = (picture[0] - torch.tensor([0.2, 0.7]).view(2, 1, 1)) / torch.tensor([0.3, 0.1]).view(2, 1, 1)
    kernel, bias = encoder.patches.projection.weight.flatten(1), encoder.patches.projection.bias
    table: Any = encoder.stack.embedding.position
    expected = [encoder.patches.class_token + table.table.weight[0]]
    for row in range(2):
        for column in range(3):
            patch = colours[:, 3 * row : 3 * row + 3, 3 * column : 3 * column + 3].flatten()
            expected.append(kernel @ patch + bias + table.table.weight[1 + 3 * row + column])
    torch.testing.assert_close(inputs[0][0], torch.stack(expected), atol=1e-6, rtol=1e-6)
