"""The recipe of a run that classifies pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.vision import GlimpsesConfig, PictureModelConfig
from heedful.recipes.config import (
    Config,
    FieldRole,
    InputPath,
    PositiveInt,
    add_default_kind,
    add_inferred_kind,
    config_error,
)
from heedful.recipes.recipe import DataConfig, Recipe
from heedful.recipes.training import FineTuningScheduleConfig, FloatBelowOne, LinearConfig, TrainingConfig
from heedful.registry import load_object

if TYPE_CHECKING:
    from heedful.tasks.glimpses.data import PictureReader, PictureShape, SceneRenderer

StartIndex = Annotated[int, Field(ge=0)]


class PicturesConfig(Config):
    """Base class of files with labelled pictures.

    Attributes:
        read_by: the reader class, as "module:NAME".
    """

    read_by: ClassVar[str]

    kind: str
    path: InputPath
    """where the pictures are"""
    start: StartIndex = 0
    """number of pictures to skip, in the order of a hash of their pixels"""
    stop: PositiveInt | None = None
    """where to stop, in that order; at the last picture if not given"""

    @field_validator("stop")
    @classmethod
    def _check_stop(cls, stop: int | None, info: ValidationInfo) -> int | None:
        if stop is not None and stop <= info.data.get("start", 0):
            raise ValueError(f"must be above start = {info.data['start']}")
        return stop

    def reader(self, shape: PictureShape) -> PictureReader:
        """Build the reader of the pictures, which returns them in `shape` and can be iterated many times; raise
        `DataError` if a file is missing.
        """
        reader_class = load_object(self.read_by, context=f"kind = {self.kind!r}")
        reader: PictureReader = reader_class(
            shape=shape, **{key: getattr(self, key) for key in type(self).model_fields if key != "kind"}
        )
        return reader


class IdxConfig(PicturesConfig):
    """A file of pictures and a file of labels in MNIST's IDX format (bytes), plain or compressed."""

    read_by = "heedful.tasks.glimpses.data:IdxPictures"

    kind: Literal["idx"] = "idx"
    path: InputPath
    """the file of pictures"""
    labels: InputPath
    """the file of the numbers of their classes"""


class ByteFilesConfig(PicturesConfig):
    """A folder with one file per class that holds the raw bytes of its pictures, plain or compressed."""

    read_by = "heedful.tasks.glimpses.data:ByteFilePictures"

    kind: Literal["bytes"] = "bytes"
    path: InputPath
    """the folder"""


class PictureFoldersConfig(PicturesConfig):
    """A folder with one folder of picture files per class; pictures of other sizes are resized to the recipe's."""

    read_by = "heedful.tasks.glimpses.data:FolderPictures"

    kind: Literal["folders"] = "folders"
    path: InputPath
    """the folder"""


def _guess_pictures_kind(table: Mapping[str, Any]) -> str:
    """Return the kind of a table that names pictures: idx if it names a file of labels, else folders."""
    return "idx" if "labels" in table else "folders"


AnyPicturesConfig = Annotated[
    IdxConfig | ByteFilesConfig | PictureFoldersConfig,
    Field(discriminator="kind"),
    add_inferred_kind(_guess_pictures_kind),
]


class PlainConfig(Config):
    """Pictures are shown unchanged."""

    kind: Literal["plain"] = "plain"

    def build_renderer(self) -> SceneRenderer:
        """Build the scene renderer."""
        from heedful.tasks.glimpses.data import PlainRenderer

        return PlainRenderer()


class TranslatedConfig(Config):
    """Each picture is placed at a random position on a dark square."""

    kind: Literal["translated"] = "translated"
    side: PositiveInt = 60
    """pixels along each side of the square"""

    def build_renderer(self) -> SceneRenderer:
        """Build the scene renderer."""
        from heedful.tasks.glimpses.data import CanvasRenderer

        return CanvasRenderer(**self.model_dump(exclude={"kind"}))


class ClutteredConfig(TranslatedConfig):
    """Each picture is placed on a dark square with clutter: pieces of other pictures of the same part of the data."""

    kind: Literal["cluttered"] = "cluttered"  # type: ignore[assignment]  # pydantic needs it
    pieces: PositiveInt = 4
    """how many"""
    piece: PositiveInt = 8
    """pixels along a side of each"""


SceneConfig = Annotated[
    PlainConfig | TranslatedConfig | ClutteredConfig, Field(discriminator="kind"), add_default_kind("plain")
]


class GlimpsesDataConfig(DataConfig):
    """Labelled pictures for training, for choosing the best checkpoint, and for evaluation."""

    train: AnyPicturesConfig
    """the pictures to learn from"""
    validation: AnyPicturesConfig
    """the pictures that checkpoints are compared on"""
    test: Annotated[AnyPicturesConfig | None, FieldRole.FREE] = None
    """the pictures that `heedful evaluate` takes, instead of those of validation"""
    channels: Annotated[Literal[1, 3], FieldRole.ENCODING] = 1
    """1 for grey pictures, 3 for colours"""
    height: Annotated[PositiveInt, FieldRole.ENCODING] = 28
    """pixels from top to bottom"""
    width: Annotated[PositiveInt, FieldRole.ENCODING] = 28
    """pixels from left to right"""
    scene: SceneConfig = PlainConfig()
    """what is looked at: each picture alone, or a larger one that is made of it, anew in each epoch of training"""

    @field_validator("scene")
    @classmethod
    def _check_scene_size(cls, scene: Any, info: ValidationInfo) -> Any:
        """Reject a scene that is smaller than the pictures, and clutter pieces that are larger than them."""
        sides = [info.data[name] for name in ("height", "width") if name in info.data]
        if isinstance(scene, TranslatedConfig) and scene.side < max(sides, default=0):
            raise config_error("data.scene.side", f"= {scene.side} must hold a picture of {sides[0]} x {sides[-1]}")
        if isinstance(scene, ClutteredConfig) and scene.piece > min(sides, default=scene.piece):
            raise config_error(
                "data.scene.piece", f"= {scene.piece} must fit into a picture of {sides[0]} x {sides[-1]}"
            )
        return scene

    @property
    def picture_shape(self) -> PictureShape:
        """Channels, height and width of a picture."""
        return self.channels, self.height, self.width

    @property
    def scene_shape(self) -> PictureShape:
        """Channels, height and width of a scene."""
        return self.scene.build_renderer().output_shape(self.picture_shape)

    def reader(self, part: str) -> PictureReader:
        """Build the reader of the data `part`: train, validation or test."""
        config: PicturesConfig = getattr(self, part)
        return config.reader(self.picture_shape)


class WarpConfig(Config):
    """Random augmentation of training pictures; each amount is drawn uniformly from minus to plus its value."""

    degrees: Annotated[float, Field(ge=0, le=180)] = 10.0
    """degrees of rotation"""
    scale: FloatBelowOne = 0.1
    """share by which height and width become larger or smaller, independently"""
    shear: Annotated[float, Field(ge=0, le=45)] = 5.0
    """degrees by which upright lines are slanted"""
    shift: Annotated[float, Field(ge=0)] = 1.5
    """pixels to each side"""


class GlimpsesTrainingConfig(TrainingConfig):
    """The training loop; it ends at the first limit reached of `steps`, `epochs` and `minutes`; give at least one."""

    batch_tokens: Annotated[PositiveInt, FieldRole.FIXED] = 128
    """pictures in a batch"""
    schedule: FineTuningScheduleConfig = LinearConfig(rate=1e-3, warmup_share=0.05)
    """the learning rate of each step"""
    copies: Annotated[PositiveInt, FieldRole.FIXED] = 1
    """looks at each picture, whose losses and gradients are averaged (Mnih et al. 2014: Monte-Carlo samples)"""
    after_each: Annotated[bool, FieldRole.FIXED] = False
    """learn to predict the class after each glimpse; else only after the last one, as in the paper"""
    warp: Annotated[WarpConfig | None, FieldRole.FIXED] = None
    """turn, stretch, shear and shift the training pictures, in a new way in each epoch"""
    monitor: Annotated[Literal["loss", "accuracy"], FieldRole.FIXED] = "accuracy"
    """metric that selects the best checkpoint: the likelihood, or the share of right classes"""


class LookingConfig(Config):
    """How a trained model looks at pictures."""

    copies: PositiveInt = 1
    """number of looks at each picture; their probabilities are averaged"""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    """seed of the places, which depend only on this seed and on the picture"""


class GlimpsesRecipe(Recipe):
    """Pictures are classified: after several glimpses, by attention over their patches, or all at once."""

    made_by: ClassVar = "heedful.tasks.glimpses.task:TASK"
    shown_by: ClassVar = "heedful.tasks.glimpses.demonstration:GlimpsesDemonstration"

    task: Literal["glimpses"] = "glimpses"
    """the task to learn"""
    data: GlimpsesDataConfig
    """the table [data] names the pictures to train and validate on"""
    model: PictureModelConfig = GlimpsesConfig()
    """the architecture"""
    training: Annotated[GlimpsesTrainingConfig, FieldRole.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""
    looking: Annotated[LookingConfig, FieldRole.FREE] = LookingConfig()
    """how the trained model looks at pictures"""

    @field_validator("training")
    @classmethod
    def _check_copies(cls, training: GlimpsesTrainingConfig, info: ValidationInfo) -> GlimpsesTrainingConfig:
        """Reject `training.copies` above 1 for models that do not sample glimpse positions."""
        model = info.data.get("model")
        if model is not None and not model.num_glimpses and training.copies > 1:
            raise config_error(
                "training.copies",
                f'= {training.copies}: has no effect for model.kind = "{model.kind}", which reads each copy alike; '
                "leave it out",
            )
        return training
