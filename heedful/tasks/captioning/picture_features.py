"""Picture features stored in a corpus: pixels if the vision network is trained, else the output of a frozen network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Shaped, UInt8
from safetensors import SafetensorError
from safetensors.torch import save_file

from heedful.architectures.build_vision import build_vision_backbone
from heedful.architectures.vision import VisionConfig
from heedful.atomic_io import describe_error, read_tensors
from heedful.data.corpus import ArraySpec
from heedful.errors import RunError
from heedful.models.vision import VisionBackbone

_THUMBNAIL = 8


class PictureFeatures(ABC):
    """Base class: extracts the features of pictures of one size.

    Attributes:
        array_spec: data type and shape of the features.
    """

    array_spec: ArraySpec

    @abstractmethod
    def __call__(self, picture: UInt8[np.ndarray, "size size 3"]) -> Shaped[np.ndarray, ...]:
        """Extract the features of one picture, independently of other pictures."""

    def to_device(self, device: torch.device) -> PictureFeatures:
        """Return the extractor on a device."""
        return self

    @abstractmethod
    def summarize(self, features: Shaped[np.ndarray, ...]) -> Float[np.ndarray, " d"]:
        """Return a vector whose distances tell how similar pictures are."""


@final
class PixelFeatures(PictureFeatures):
    """RGB pixels as features."""

    def __init__(self, size: int) -> None:
        self.array_spec = ArraySpec("<u1", (size, size, 3))

    def __call__(self, square: UInt8[np.ndarray, "size size 3"]) -> UInt8[np.ndarray, "size size 3"]:
        """Return the pixels unchanged."""
        return square

    def summarize(self, features: Shaped[np.ndarray, "size size 3"]) -> Float[np.ndarray, " d"]:
        """Return the flattened thumbnail of the picture."""
        edges = np.linspace(0, len(features), min(_THUMBNAIL, len(features)) + 1).astype(int)[:-1]
        rows = np.add.reduceat(features.astype(np.float32), edges, axis=0)
        return np.asarray(np.add.reduceat(rows, edges, axis=1).ravel())


@final
class FrozenVisionFeatures(PictureFeatures):
    """Features of picture regions from a frozen vision network, in half precision; the network is a file of the run.

    Args:
        network: the network in evaluation mode.
        size: pixels along each side.
        step: pixels between two regions.
    """

    def __init__(self, network: VisionBackbone, *, size: int, step: int) -> None:
        self.network = network
        rows = -(-size // step)
        self.array_spec = ArraySpec("<f2", (rows, rows, network.d_annotation))

    @classmethod
    def load(cls, config: VisionConfig, path: Path, *, size: int) -> FrozenVisionFeatures:
        """Load the network that a run has stored."""
        network = build_vision_backbone(config)
        try:
            network.load_state_dict(read_tensors(path))
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:  # the third of other names and shapes
            raise RunError(f"{path}: holds no network of this recipe ({describe_error(error)}); restore it") from None
        return cls(network.eval(), size=size, step=config.region_stride)

    def to_device(self, device: torch.device) -> FrozenVisionFeatures:
        """Move the network to a device and return the extractor."""
        self.network.to(device)
        return self

    @property
    def size(self) -> int:
        """Channels of a region."""
        return self.network.d_annotation

    def save(self, path: Path) -> None:
        """Save the network's tensors."""
        save_file({name: tensor.contiguous() for name, tensor in self.network.state_dict().items()}, path)

    def __call__(self, square: UInt8[np.ndarray, "size size 3"]) -> Float[np.ndarray, "rows columns d_annotation"]:
        """Return the feature vector of each region."""
        device = next(self.network.parameters()).device
        with torch.inference_mode():
            features = self.network(torch.from_numpy(square).unsqueeze(0).to(device))
        return np.asarray(features[0].half().cpu().numpy())

    def summarize(self, features: Shaped[np.ndarray, "rows columns d_annotation"]) -> Float[np.ndarray, " d"]:
        """Return the mean of the feature vectors."""
        return np.asarray(features.astype(np.float32).mean((0, 1)))
