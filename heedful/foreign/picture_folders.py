"""Vision transformers in folders of Hugging Face's transformers: config.json, preprocessor_config.json, safetensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NoReturn

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from heedful.architectures.build_vision import build_picture_classifier
from heedful.architectures.vision import PatchTransformerConfig, VisionTransformerConfig
from heedful.atomic_io import atomic_folder, save_tensors, write_json
from heedful.data.labels import LabelVocabulary
from heedful.data.pictures import Resampling
from heedful.engines.int8_weights import split_int8
from heedful.engines.select_engine import prepare_for_inference
from heedful.errors import RunError
from heedful.foreign.families.heads import drop_head_tensors, export_head, read_head_tensors
from heedful.foreign.families.vit import VIT
from heedful.foreign.folder_files import read_json_or_empty
from heedful.foreign.folders import CONFIG_FILE, is_hugging_face_folder
from heedful.foreign.hugging_face import HuggingFaceFolder, open_hugging_face, require_enough_tensors
from heedful.foreign.quantized_folders import read_folder_weights
from heedful.models.parameters import skip_initialization
from heedful.models.picture_classifier import TransformerPictureClassifier
from heedful.models.transformer import FirstTokenPooler
from heedful.models.vision import TransformerBackbone
from heedful.recipes import toml
from heedful.recipes.recipe import EngineName
from heedful.tasks.glimpses.data import PictureShape
from heedful.tasks.glimpses.predictor import GlimpsePredictor
from heedful.tasks.glimpses.recipe import LookingConfig
from heedful.tasks.portable_model import OutputHead, PortableModel

PREPROCESSOR_FILE: Final = "preprocessor_config.json"
_RESAMPLING: Final[Mapping[int, Resampling]] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
"""Filters by Pillow's numbers, which these folders give."""
_SUPPORTED_STEPS: Final[Mapping[str, tuple[Any, ...]]] = {
    "do_resize": (True,),
    "do_rescale": (True,),
    "do_center_crop": (False, None),
    "rescale_factor": (1 / 255,),
}
"""Settings of the preparation of pictures, with the values that heedful supports."""
_CHANGEABLE_KEYS: Final = frozenset(
    {"kind", "weights", "dropout", "attention_dropout", "activation_dropout", "embedding_dropout", "places", "frozen"}
)
"""Keys of a recipe's model that may differ from those of the weights that it starts from."""
_SUMMARY: Final = "encoder.summary.dense.weight"
_POSITIONS: Final = "stack.embedding.position.table.weight"


@dataclass(frozen=True)
class PictureModel:
    """A trained vision transformer with this package's parameter names, in a form that other formats can hold.

    Attributes:
        folder: folder of the model.
        config: its architecture.
        shape: channels, height and width of its pictures.
        tensors: its parameters.
        head: its classes; None if it has no classifier.
        resampling: filter that resizes pictures.
    """

    folder: Path
    config: VisionTransformerConfig
    shape: PictureShape
    tensors: Mapping[str, Tensor]
    head: OutputHead | None
    resampling: Resampling = "bicubic"

    def build(self) -> nn.Module:
        """Build a model with a parameter for each tensor, of arbitrary values; `encoder` is its only part if there is
        no classifier.
        """
        classes = 1 if self.head is None else len(self.head.class_names)
        with skip_initialization():
            model = build_picture_classifier(self.config, picture=self.shape, classes=classes)
        assert isinstance(model, TransformerPictureClassifier)
        if _SUMMARY in self.tensors:
            model.encoder.summary = FirstTokenPooler(self.config.d_model)
        if self.head is not None:
            return model
        encoder_alone = nn.Module()
        encoder_alone.encoder = model.encoder
        return encoder_alone


@dataclass(frozen=True)
class PictureFolder(HuggingFaceFolder):
    """A Hugging Face folder of a vision transformer."""

    @cached_property
    def origin(self) -> NoReturn:
        """Raise `RunError`, because the model reads no text."""
        raise RunError(
            f"{self.folder}: its model is of the kind vit; only Transformers that read or write text can be used: give "
            "a folder that has one"
        )

    @cached_property
    def picture_model(self) -> PictureModel:
        """Configuration and tensors by heedful's names.

        Raises:
            RunError: a part is missing, damaged, or has no counterpart in heedful.
        """
        weights = read_folder_weights(self.folder)
        steps = self._read_preprocessing()
        config: VisionTransformerConfig = self.family.read_config(
            {**self.content, **steps}, weights.names, str(self.folder / CONFIG_FILE)
        )
        require_enough_tensors(config, len(weights.names), location=str(self.folder))
        if any(side % config.patch for side in self._picture_shape[1:]):
            raise RunError(
                f"{self.folder / CONFIG_FILE}: patch_size = {config.patch}: must divide image_size = "
                f"{self.content.get('image_size')} evenly; take another model"
            )
        head = self.head
        if head is not None and (head.output_type != "class" or head.independent):
            raise RunError(
                f"{self.folder / CONFIG_FILE}: problem_type = {self.content.get('problem_type')!r}: heedful reads "
                "models that give a picture one class; take one of those"
            )
        tensors = weights.convert(lambda published: self._convert_tensors(config, published))
        return PictureModel(
            self.folder, config, self._picture_shape, tensors, head, _RESAMPLING[steps.get("resample", 2)]
        )

    def _convert_tensors(self, config: VisionTransformerConfig, published: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the published tensors of the encoder, and of the classifier if there is one, by heedful's names."""
        location = str(self.folder)
        converted = self.family.build_mapping(config).import_tensors(published, location=location)
        if (head := self.head) is None:
            return converted
        head_location = self.family.heads.find_named_head(head, self.content["architectures"])
        return converted | read_head_tensors(head, head_location, published, location=location, width=config.d_model)

    @property
    def weights(self) -> Mapping[str, Tensor]:
        """The weights by heedful's names."""
        return self.picture_model.tensors

    def build_model(self) -> nn.Module:
        """Build the model with arbitrary parameter values."""
        return self.picture_model.build()

    def build_predictor(
        self,
        *,
        device: torch.device,
        step: int | None = None,
        engine: EngineName | None = None,
        log: Callable[[str], None] | None = None,
        adapt: Callable[[PortableModel], PortableModel] | None = None,
    ) -> GlimpsePredictor:
        """Build the predictor of the model; see `HuggingFaceFolder.build_predictor`.

        Raises:
            RunError: the model has no classifier, or it is to be adapted.
        """
        self.require_no_step(step)
        if adapt is not None:
            raise RunError(f"{self.folder}: is a model of pictures, and adapters are for models of text; leave it out")
        origin = self.picture_model
        if origin.head is None:
            raise RunError(
                f"{self.folder}: has no classifier; name the folder in a recipe, as model.weights or "
                "model.pictures.weights, or take a ViTForImageClassification"
            )
        model = prepare_for_inference(
            origin.build(), *split_int8(origin.tensors), origin=str(self.folder), device=device, engine=engine, log=log
        )
        assert isinstance(model, TransformerPictureClassifier)
        return GlimpsePredictor(
            model,
            labels=LabelVocabulary(origin.head.class_names),
            shape=origin.shape,
            draws=0,
            looking=LookingConfig(),
            resampling=origin.resampling,
        )

    @property
    def _picture_shape(self) -> PictureShape:
        """Channels, height and width in config.json; raise RunError if they are no numbers of pixels."""
        size, channels = self.content.get("image_size", 224), self.content.get("num_channels", 3)
        sides = size if isinstance(size, list) else [size, size]
        if channels not in (1, 3) or len(sides) != 2 or not all(type(side) is int and side > 0 for side in sides):
            raise RunError(
                f"{self.folder / CONFIG_FILE}: image_size = {size!r}, num_channels = {channels!r}: a picture has a "
                "height and a width, and 1 or 3 channels; take another copy"
            )
        return channels, sides[0], sides[1]

    def _read_preprocessing(self) -> dict[str, Any]:
        """Read how pictures are prepared; raise RunError if heedful prepares them otherwise."""
        path = self.folder / PREPROCESSOR_FILE
        content = read_json_or_empty(path)
        for key, supported in _SUPPORTED_STEPS.items():
            if key in content and content[key] not in supported:
                raise RunError(f"{path}: {key} = {content[key]!r}: heedful has only {supported[0]}; take another model")
        channels, height, width = self._picture_shape
        size = content.get("size", self.content.get("image_size", 224))
        if size not in ({"height": height, "width": width}, [height, width], height if height == width else None):
            raise RunError(
                f"{path}: size = {size!r}: heedful resizes pictures to the model's {height} x {width}; take a model "
                "with that"
            )
        if content.get("resample", 2) not in _RESAMPLING:
            choices = ", ".join(map(str, _RESAMPLING))
            raise RunError(
                f"{path}: resample = {content['resample']!r}: heedful has only {choices}; take another model"
            )
        if not content.get("do_normalize", True):
            content |= {"image_mean": [0.0], "image_std": [1.0]}
        for key in ("image_mean", "image_std"):
            numbers = content.get(key, [1.0])
            is_list = isinstance(numbers, list) and all(type(number) in (int, float) for number in numbers)
            if not is_list or len(numbers) not in (1, channels):
                raise RunError(f"{path}: {key} = {numbers!r}: must be a list of {channels} numbers; take another copy")
        return {key: content[key] for key in ("image_mean", "image_std", "resample") if key in content}


def open_picture_folder(folder: Path) -> PictureFolder:
    """Open a Hugging Face folder of a vision transformer.

    Raises:
        RunError: it is none.
    """
    opened = open_hugging_face(folder) if is_hugging_face_folder(folder) else None
    if not isinstance(opened, PictureFolder):
        raise RunError(f"{folder}: is not a Hugging Face folder of a ViT; give one with model_type = vit")
    return opened


def load_encoder_weights(
    network: TransformerBackbone | TransformerPictureClassifier, config: PatchTransformerConfig
) -> None:
    """Load the weights of the published model that the config names into the encoder of a network. For pictures of
    another size, its positions are interpolated (Dosovitskiy et al. 2021, 3.2).

    Raises:
        RunError: there is no such model, or it differs from the config; the message names the keys to set.
    """
    assert config.weights is not None
    origin = open_picture_folder(config.weights).picture_model
    own, foreign = (each.model_dump(mode="json", exclude_none=True) for each in (config, origin.config))
    keys = sorted(key for key in own.keys() & foreign.keys() - _CHANGEABLE_KEYS if own[key] != foreign[key])
    if keys:
        needed = ", ".join(f"{key} = {toml.format_value(foreign[key])}" for key in keys)
        raise RunError(f"{config.weights}: its weights need {needed} in the table of the model; set that")
    channels, rows, columns = origin.shape[0], *(side // config.patch for side in origin.shape[1:])
    if channels != network.encoder.patches.projection.in_channels:
        raise RunError(f"{config.weights}: reads pictures of {channels} channels; set data.channels to that")
    tensors = {name: origin.tensors[f"encoder.{name}"] for name in network.encoder.state_dict()}
    if network.encoder.grid != (rows, columns):
        tensors[_POSITIONS] = _interpolate_positions(tensors[_POSITIONS], (rows, columns), network.encoder.grid)
    network.encoder.load_state_dict(tensors)


def _interpolate_positions(
    table: Float[Tensor, "N d"], old_grid: tuple[int, int], new_grid: tuple[int, int]
) -> Float[Tensor, "M d"]:
    """Interpolate the positions of patches in rows and columns by a cubic filter; that of the class token stays."""
    planes = table[1:].T.reshape(1, -1, *old_grid)
    resized = functional.interpolate(planes, size=new_grid, mode="bicubic", align_corners=False)
    return torch.cat((table[:1], resized[0].flatten(1).T))


def save_picture_model(origin: PictureModel, folder: str | Path) -> None:
    """Write a model as a new or empty folder for transformers.

    Raises:
        RunError: the format cannot express a setting, or the folder is not empty.
    """
    tensors, head_content, outputs = origin.tensors, dict[str, Any](), dict[str, Tensor]()
    if origin.head is not None:
        head_location = VIT.heads.locations["class"]
        head_content, outputs = export_head(origin.head, head_location, tensors)
        tensors = drop_head_tensors(head_location, tensors)
    content = VIT.write_config(origin.config, tensors) | head_content
    channels, height, width = origin.shape
    numbers = {key: content.pop(key) for key in ("image_mean", "image_std")}
    with atomic_folder(Path(folder), purpose="export to") as target:
        save_tensors(target / "model.safetensors", VIT.build_mapping(origin.config).export_tensors(tensors) | outputs)
        write_json(
            target / CONFIG_FILE,
            {
                "model_type": VIT.model_type,
                **content,
                "image_size": height if height == width else [height, width],
                "num_channels": channels,
            },
        )
        write_json(
            target / PREPROCESSOR_FILE,
            {
                "image_processor_type": "ViTImageProcessor",
                **{key: supported[0] for key, supported in _SUPPORTED_STEPS.items() if supported[0]},
                "do_normalize": True,
                **{key: value * (channels // len(value)) for key, value in numbers.items()},
                "resample": next(number for number, name in _RESAMPLING.items() if name == origin.resampling),
                "size": {"height": height, "width": width},
            },
        )
