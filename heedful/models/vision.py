"""Image networks, and encoders that make memories of pictures and video clips."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

import torch
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from torch import Tensor, nn

from heedful.attention import AbsolutePosition
from heedful.attention.dropout import Dropout
from heedful.attention.hooks import PATCH_AXIS, SOURCE_AXIS
from heedful.blocks.feedforward import build_xavier_linear
from heedful.blocks.transformer import TransformerStack
from heedful.blocks.vision import (
    ConvActivation,
    ConvNormReLU,
    PatchProjection,
    build_basic_block,
    build_bottleneck_block,
    build_inverted_block,
    relu6,
)
from heedful.models.interface import Encoder
from heedful.models.transformer import MeanPooler, Pooler
from heedful.tensors import FeatureBatch, FrameLayout, GridLayout, Memory

Pixels: TypeAlias = UInt8[Tensor, "B H W 3"]
Annotations: TypeAlias = Float[Tensor, "B rows columns d_annotation"]

_IMAGENET: Final = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class VisionBackbone(nn.Module, ABC):
    """Image network without its classifier.

    Abstract: subclasses define the network.

    Attributes:
        d_annotation: channels of a region.
        token_axis: see `Encoder`.
    """

    d_annotation: int
    token_axis: ClassVar[str] = SOURCE_AXIS

    @abstractmethod
    def forward(self, pictures: Pixels) -> Annotations:
        """Return an annotation of each region; images are as `heedful.data.pictures` reads them."""


class ConvolutionalBackbone(VisionBackbone):
    """Convolutional image network without its classifier.

    Abstract: subclasses define the layers.

    Attributes:
        mean: of each colour channel, from 0 to 1, in the training images.
        deviation: likewise.
        layers: from colour channels to annotations.
    """

    mean: ClassVar[Sequence[float]] = (0.5, 0.5, 0.5)
    deviation: ClassVar[Sequence[float]] = (0.5, 0.5, 0.5)

    def __init__(self, layers: nn.Sequential, *, d_annotation: int) -> None:
        super().__init__()
        self.layers = layers
        self.d_annotation = d_annotation

    def forward(self, pictures: Pixels) -> Annotations:
        """Return an annotation of each region; images are as `heedful.data.pictures` reads them."""
        reference = next(self.parameters())
        mean, deviation = (reference.new_tensor(values) for values in (self.mean, self.deviation))
        colours = ((pictures.to(reference.dtype) / 255 - mean) / deviation).permute(0, 3, 1, 2)
        feature_map: Tensor = self.layers(colours)
        return feature_map.permute(0, 2, 3, 1)


class SmallVisionBackbone(ConvolutionalBackbone):
    """Small backbone to train from scratch: per width, one convolution of stride 2 and `extra_convolutions` of
    stride 1.
    """

    def __init__(self, widths: Sequence[int], *, extra_convolutions: int = 0) -> None:
        layers: list[nn.Module] = []
        for d_input, width in zip((3, *widths), widths, strict=False):
            layers += [
                ConvNormReLU(d_input, width, halved=True),
                *(ConvNormReLU(width, width) for _ in range(extra_convolutions)),
            ]
        super().__init__(nn.Sequential(*layers), d_annotation=widths[-1])


class ResNet(ConvolutionalBackbone):
    """Residual networks (He et al. 2016, table 1), up to the stage with the wanted region size.

    Args:
        depth: 18, 34, 50 or 101, layers of the whole network.
        stride: pixels from one region to the next, 8, 16 or 32.
    """

    mean, deviation = _IMAGENET
    stages: ClassVar = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}

    def __init__(self, depth: int, *, stride: int = 32) -> None:
        block, width = (build_bottleneck_block, 256) if depth >= 50 else (build_basic_block, 64)
        parts: list[nn.Module] = [ConvActivation(3, 64, size=7, stride=2), nn.MaxPool2d(3, 2, padding=1)]
        d_input = 64
        for stage, count in enumerate(self.stages[depth][: {8: 2, 16: 3, 32: 4}[stride]]):
            blocks = []
            for number in range(count):
                blocks.append(block(d_input, width, stride=2 if stage and not number else 1))
                d_input = width
            parts.append(nn.Sequential(*blocks))
            width *= 2
        super().__init__(nn.Sequential(*parts), d_annotation=d_input)


class EfficientNetLite0(ConvolutionalBackbone):
    """EfficientNet-lite0: B0 without squeeze and excitation, with ReLU6 (Tan and Le 2019, table 1; TensorFlow's lite0).

    Args:
        stride: pixels from one region to the next: 32 for the last layer, or 16 for the last block with such regions.
    """

    mean, deviation = (127 / 255,) * 3, (128 / 255,) * 3
    # expansion, window, stride, channels and number of each group of blocks
    groups: ClassVar = (
        (1, 3, 1, 16, 1),
        (6, 3, 2, 24, 2),
        (6, 5, 2, 40, 2),
        (6, 3, 2, 80, 3),
        (6, 5, 1, 112, 3),
        (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    )

    def __init__(self, *, stride: int = 32) -> None:
        parts: list[nn.Module] = [ConvActivation(3, 32, stride=2, activation=relu6, leading=True)]
        d_input = 32
        for expansion, size, step, width, count in self.groups[: {16: 5, 32: 7}[stride]]:
            for number in range(count):
                block = build_inverted_block(
                    d_input, width, expansion=expansion, size=size, stride=1 if number else step
                )
                parts.append(block)
                d_input = width
        if stride == 32:
            parts.append(ConvActivation(d_input, 1280, size=1, activation=relu6))
            d_input = 1280
        super().__init__(nn.Sequential(*parts), d_annotation=d_input)


class VisionTransformer(Encoder[Float[Tensor, "B C H W"]]):
    """Transformer encoder of the patches of a picture and a class token (Dosovitskiy et al. 2021, ViT, 3.1).

    The summary is the hidden vector of the class token (eq. 4), or what a pooler makes of it.

    Args:
        patches: projects the patches, and adds the class token.
        stack: embedding and layers.
        grid: rows and columns of patches in a picture.
        mean: of each colour channel, from 0 to 1, in the training images; a single number holds for all channels.
        deviation: likewise.
        summary: pooler of the hidden vectors; none if not given.
    """

    token_axis = PATCH_AXIS

    def __init__(
        self,
        patches: PatchProjection,
        stack: TransformerStack,
        *,
        grid: tuple[int, int],
        mean: Sequence[float] = (0.5,),
        deviation: Sequence[float] = (0.5,),
        summary: Pooler | None = None,
    ) -> None:
        super().__init__()
        self.patches = patches
        self.stack = stack
        self.grid = grid
        self.mean = tuple(mean)
        self.deviation = tuple(deviation)
        self.summary = summary

    def forward(self, source: Float[Tensor, "B C H W"]) -> Memory:
        """Return a slot for each patch, row by row; pixel values are from 0 to 1."""
        pictures = source.to(self.patches.class_token.dtype)
        mean, deviation = (pictures.new_tensor(values).view(-1, 1, 1) for values in (self.mean, self.deviation))
        tokens: FeatureBatch = self.patches((pictures - mean) / deviation)
        hidden, _ = self.stack(tokens, self.stack.init_state(None))
        summary = hidden[:, 0] if self.summary is None else self.summary(hidden, tokens.positions)
        slots, positions = hidden[:, 1:], tokens.positions[:, 1:] - 1
        return Memory(slots, slots, positions, summary, GridLayout(*self.grid))


class TransformerBackbone(VisionBackbone):
    """A vision transformer as image network: the annotations are the hidden vectors of its patches."""

    token_axis = PATCH_AXIS

    def __init__(self, encoder: VisionTransformer, *, d_annotation: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.d_annotation = d_annotation

    def forward(self, pictures: Pixels) -> Annotations:
        """Return an annotation of each patch."""
        memory: Memory = self.encoder(pictures.permute(0, 3, 1, 2).float() / 255)
        assert isinstance(memory.layout, GridLayout)
        return memory.values.view(len(pictures), memory.layout.rows, memory.layout.columns, self.d_annotation)


class RegionEncoder(Encoder[Annotations]):
    """Encodes the regions of an image as a memory: linear map, norm and location embedding.

    The summary is the mean of the slots, which initialises decoders (Xu et al. 2015, 3.1.2).

    Args:
        d_annotation: channels of the image network.
        d_model: width of the slots.
        rows: maximum number of rows and columns of regions for the location embedding; None adds no locations.
        dropout: dropout of the slots.
    """

    def __init__(self, d_annotation: int, d_model: int, *, rows: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.map = build_xavier_linear(d_annotation, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)
        self.places = None if rows is None else nn.Parameter(0.02 * torch.randn(2, rows, d_model))

    def forward(self, source: Annotations) -> Memory:
        """Return a slot for each region, row by row."""
        slots = self.map(source.to(self.map.weight.dtype))
        if self.places is not None:
            row_vectors, column_vectors = self.places
            slots = slots + row_vectors[: slots.size(1), None] + column_vectors[: slots.size(2)]
        rows, columns = slots.shape[1:3]
        slots = self.dropout(self.norm(slots)).flatten(1, 2)
        positions = torch.arange(rows * columns, device=slots.device).expand(len(slots), -1)
        return Memory(slots, slots, positions, slots.mean(1), GridLayout(rows, columns))


class PictureEncoder(Encoder[Pixels]):
    """Image network and region encoder that are trained together."""

    def __init__(self, vision: VisionBackbone, regions: RegionEncoder) -> None:
        super().__init__()
        self.vision = vision
        self.token_axis = vision.token_axis
        self.regions = regions

    def forward(self, source: Pixels) -> Memory:
        """Return a slot for each region."""
        memory: Memory = self.regions(self.vision(source))
        return memory


_GROUPS: Final = (8, 4, 2, 1)


@dataclass(frozen=True)
class ClipBatch:
    """A batch of clips; -1 in `positions` marks padding frames."""

    frames: Shaped[Tensor, "B T ..."]
    positions: Int[Tensor, "B T"]


class SpaceTimeConv(nn.Module):
    """Space-time convolution relu(norm(conv(x))) over 3 frames and 3 x 3 pixels, halving height and width (Tran et al.
    2015, 3.1).

    The norm is over groups of channels of one frame (Wu and He 2018), and frames beyond the ends of a clip are zeros,
    so that no clip depends on its neighbours or on padding.
    """

    def __init__(self, d_input: int, d_output: int) -> None:
        super().__init__()
        self.conv = nn.Conv3d(d_input, d_output, 3, (1, 2, 2), 1)
        self.norm = nn.GroupNorm(next(n for n in _GROUPS if d_output % n == 0), d_output)

    def forward(
        self, x: Float[Tensor, "B d_input T H W"], frame_mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B d T h w"]:
        """Apply the layer to clips; `frame_mask` says which frames exist, and the others get zeros."""
        convolved = self.conv(x).transpose(1, 2)
        normed = torch.relu(self.norm(convolved.flatten(0, 1))).view_as(convolved)
        return torch.where(frame_mask[:, :, None, None, None], normed, 0).transpose(1, 2)


class MotionNetwork(nn.Module):
    """Space-time convolutions followed by the mean over pixels: a motion vector for each frame.

    Args:
        widths: channels of each layer.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(SpaceTimeConv(*pair) for pair in zip((3, *widths), widths, strict=False))
        self.d_motion = widths[-1]

    def forward(
        self, frames: UInt8[Tensor, "B T H W 3"], frame_mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T d_motion"]:
        """Return the motion features of each frame and its neighbours, as far as the layers reach; `frame_mask` says
        which frames exist.
        """
        reference = next(self.parameters())
        x = (frames.to(reference.dtype) / 127.5 - 1).permute(0, 4, 1, 2, 3)
        x = torch.where(frame_mask[:, None, :, None, None], x, 0)
        for layer in self.layers:
            x = layer(x, frame_mask)
        motion: Tensor = x.mean((3, 4)).transpose(1, 2)
        return motion


class FrameEncoder(Encoder[ClipBatch]):
    """Encodes the frames of clips as a memory: linear map, time encoding and norm.

    The summary is the mean of the slots, which a decoder without temporal attention uses (Yao et al. 2015, section 4.2,
    "Basic").

    Args:
        vision: image network for each frame; None if frames are precomputed vectors.
        motion: motion network over neighbouring frames; None for none.
        d_frame: width of a region of `vision`, or of the precomputed vectors.
        d_model: width of the slots.
        times: encoding of the frame's number among the sampled frames; None adds nothing.
        dropout: dropout of the slots.
    """

    def __init__(
        self,
        vision: VisionBackbone | None,
        motion: MotionNetwork | None,
        *,
        d_frame: int,
        d_model: int,
        times: AbsolutePosition | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.vision = vision
        self.token_axis = SOURCE_AXIS if vision is None else vision.token_axis
        self.motion = motion
        self.map = build_xavier_linear(d_frame + (0 if motion is None else motion.d_motion), d_model)
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)
        self.times = times
        self.summary = MeanPooler()

    def forward(self, source: ClipBatch) -> Memory:
        """Return a memory with a slot for each frame."""
        frame_mask = source.positions >= 0
        features = [self._encode_frames(source.frames, frame_mask)]
        if self.motion is not None:
            features.append(self.motion(source.frames, frame_mask))
        slots = self.map(torch.cat(features, -1))
        if self.times is not None:
            slots = slots + self.times(source.positions).to(slots.dtype)
        slots = self.dropout(self.norm(slots))
        summary = self.summary(slots, source.positions)
        return Memory(slots, slots, source.positions, summary, FrameLayout(slots.size(1)))

    def _encode_frames(
        self, frames: Shaped[Tensor, "B T ..."], frame_mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T d_frame"]:
        """Return the image features of each frame; frames outside the mask are skipped. Without an image network the
        frames are features already.
        """
        if self.vision is None:
            return frames.to(self.map.weight.dtype)
        annotations: Tensor = self.vision(frames[frame_mask]).mean((1, 2))
        features = annotations.new_zeros(*frame_mask.shape, annotations.size(-1))
        features[frame_mask] = annotations
        return features
