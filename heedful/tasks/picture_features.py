"""What is kept of a picture: its pixels where the network learns, else what a frozen network makes of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Shaped, UInt8
from safetensors import SafetensorError
from safetensors.torch import save_file

from heedful.architectures.build_pictures import build_vision_backbone
from heedful.architectures.pictures import VisionConfig
from heedful.atomic_io import describe_error, read_tensors
from heedful.data.corpus import ArraySpec
from heedful.errors import RunError
from heedful.models.pictures import VisionBackbone

_THUMBNAIL = 8


class PictureFeatures(ABC):
    """Pictures of one size as what an encoder reads.

    Attributes:
        array_spec: type and shape of what is kept.
    """

    array_spec: ArraySpec

    @abstractmethod
    def __call__(self, picture: UInt8[np.ndarray, "size size 3"]) -> Shaped[np.ndarray, ...]:
        """What is kept of a picture, of one alone, so that it does not depend on others."""

    def to_device(self, device: torch.device) -> PictureFeatures:
        """The same, where models are."""
        return self

    @abstractmethod
    def summarize(self, features: Shaped[np.ndarray, ...]) -> Float[np.ndarray, " d"]:
        """A vector by which pictures are near to each other or not."""


@final
class PixelFeatures(PictureFeatures):
    """Red, green and blue."""

    def __init__(self, size: int) -> None:
        self.array_spec = ArraySpec("<u1", (size, size, 3))

    def __call__(self, square: UInt8[np.ndarray, "size size 3"]) -> UInt8[np.ndarray, "size size 3"]:
        """As they are."""
        return square

    def summarize(self, features: Shaped[np.ndarray, "size size 3"]) -> Float[np.ndarray, " d"]:
        """The picture, very small."""
        edges = np.linspace(0, len(features), min(_THUMBNAIL, len(features)) + 1).astype(int)[:-1]
        rows = np.add.reduceat(features.astype(np.float32), edges, axis=0)
        return np.asarray(np.add.reduceat(rows, edges, axis=1).ravel())


@final
class FrozenVisionFeatures(PictureFeatures):
    """Annotations of a network that learns nothing, in half precision; the network is a file of the run.

    Args:
        network: in evaluation mode.
        size: pixels along each side.
        step: pixels from one region to the next.
    """

    def __init__(self, network: VisionBackbone, *, size: int, step: int) -> None:
        self.network = network
        rows = -(-size // step)
        self.array_spec = ArraySpec("<f2", (rows, rows, network.d_annotation))

    @classmethod
    def load(cls, config: VisionConfig, path: Path, *, size: int) -> FrozenVisionFeatures:
        """The one that a run has kept."""
        network = build_vision_backbone(config)
        try:
            network.load_state_dict(read_tensors(path))
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:  # the third of other names and shapes
            raise RunError(f"{path}: holds no network of this recipe ({describe_error(error)}); restore it") from None
        return cls(network.eval(), size=size, step=config.region_stride)

    def to_device(self, device: torch.device) -> FrozenVisionFeatures:
        """The network is moved."""
        self.network.to(device)
        return self

    @property
    def size(self) -> int:
        """Channels of a region."""
        return self.network.d_annotation

    def save(self, path: Path) -> None:
        """The network's tensors."""
        save_file({name: tensor.contiguous() for name, tensor in self.network.state_dict().items()}, path)

    def __call__(self, square: UInt8[np.ndarray, "size size 3"]) -> Float[np.ndarray, "rows columns d_annotation"]:
        """An annotation of each region."""
        device = next(self.network.parameters()).device
        with torch.inference_mode():
            features = self.network(torch.from_numpy(square).unsqueeze(0).to(device))
        return np.asarray(features[0].half().cpu().numpy())

    def summarize(self, features: Shaped[np.ndarray, "rows columns d_annotation"]) -> Float[np.ndarray, " d"]:
        """Their mean."""
        return np.asarray(features.astype(np.float32).mean((0, 1)))
