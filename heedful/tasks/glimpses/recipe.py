"""What a run that learns to look at pictures is, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.glimpses import GlimpsesConfig, PictureModelConfig
from heedful.catalogue import find
from heedful.recipes.recipe import DataConfig, Recipe
from heedful.recipes.section import Count, InputPath, Mark, Section, default_kind, kind_from, misfit
from heedful.recipes.training import Below1, FineTuningScheduleConfig, LinearConfig, TrainingConfig

if TYPE_CHECKING:
    from heedful.tasks.glimpses.data import Pictures, Shape
    from heedful.tasks.glimpses.scenes import Scene

From = Annotated[int, Field(ge=0)]


class PicturesConfig(Section):
    """Pictures with classes; abstract.

    Attributes:
        read_by: what reads them, as "module:NAME".
    """

    read_by: ClassVar[str]

    kind: str
    path: InputPath
    """where they are"""
    start: From = 0
    """how many are passed over, in the order of a hash of what is to be seen"""
    stop: Count | None = None
    """where to end, in that order; at the last if not given"""

    @field_validator("stop")
    @classmethod
    def _behind(cls, stop: int | None, info: ValidationInfo) -> int | None:
        if stop is not None and stop <= info.data.get("start", 0):
            raise ValueError(f"must be above start = {info.data['start']}")
        return stop

    def reader(self, shape: Shape) -> Pictures:
        """The pictures, to be read as often as one likes; `DataError` where a file is missing."""
        make = find(self.read_by, about=f"kind = {self.kind!r}")
        made: Pictures = make(
            shape=shape, **{key: getattr(self, key) for key in type(self).model_fields if key != "kind"}
        )
        return made


class IdxConfig(PicturesConfig):
    """A file of pictures and one of labels, in the format of MNIST (IDX, of bytes), plain or gzipped."""

    read_by = "heedful.tasks.glimpses.data:Idx"

    kind: Literal["idx"] = "idx"
    path: InputPath
    """the file of pictures"""
    labels: InputPath
    """the file of the numbers of their classes"""


class ByteFilesConfig(PicturesConfig):
    """A folder with a file for each class, of nothing but the bytes of its pictures, plain or gzipped."""

    read_by = "heedful.tasks.glimpses.data:ByteFiles"

    kind: Literal["bytes"] = "bytes"
    path: InputPath
    """the folder"""


class PictureFoldersConfig(PicturesConfig):
    """A folder with a folder of picture files for each class; those of another size are drawn out to the recipe's."""

    read_by = "heedful.tasks.glimpses.data:PictureFolders"

    kind: Literal["folders"] = "folders"
    path: InputPath
    """the folder"""


def _kind_of_pictures(table: Mapping[str, Any]) -> str:
    """IDX where labels have a file of their own."""
    return "idx" if "labels" in table else "folders"


AnyPicturesConfig = Annotated[
    IdxConfig | ByteFilesConfig | PictureFoldersConfig, Field(discriminator="kind"), kind_from(_kind_of_pictures)
]


class PlainConfig(Section):
    """Pictures as they are."""

    kind: Literal["plain"] = "plain"

    def scene(self) -> Scene:
        """What makes scenes."""
        from heedful.tasks.glimpses.scenes import Plain

        return Plain()


class TranslatedConfig(Section):
    """Each picture somewhere on a dark square."""

    kind: Literal["translated"] = "translated"
    side: Count = 60
    """pixels along each side of the square"""

    def scene(self) -> Scene:
        """What makes scenes."""
        from heedful.tasks.glimpses.scenes import Canvas

        return Canvas(self.side)


class ClutteredConfig(TranslatedConfig):
    """The same, and pieces of other pictures of the same part of the data lie about."""

    kind: Literal["cluttered"] = "cluttered"  # type: ignore[assignment]  # as pydantic wants it
    pieces: Count = 4
    """how many"""
    piece: Count = 8
    """pixels along a side of each"""

    def scene(self) -> Scene:
        """What makes scenes."""
        from heedful.tasks.glimpses.scenes import Canvas

        return Canvas(self.side, self.pieces, self.piece)


SceneConfig = Annotated[
    PlainConfig | TranslatedConfig | ClutteredConfig, Field(discriminator="kind"), default_kind("plain")
]


class GlimpsesDataConfig(DataConfig):
    """Pictures to train on, to choose the best checkpoint by, and to report an accuracy of."""

    train: AnyPicturesConfig
    """the pictures to learn from"""
    validation: AnyPicturesConfig
    """the pictures that checkpoints are compared on"""
    test: Annotated[AnyPicturesConfig | None, Mark.FREE] = None
    """the pictures that `heedful evaluate` takes, instead of those of validation"""
    channels: Annotated[Literal[1, 3], Mark.ENCODES] = 1
    """1 for grey pictures, 3 for colours"""
    height: Annotated[Count, Mark.ENCODES] = 28
    """pixels from top to bottom"""
    width: Annotated[Count, Mark.ENCODES] = 28
    """pixels from left to right"""
    scene: SceneConfig = PlainConfig()
    """what is looked at: each picture alone, or a larger one that is made of it, anew in each epoch of training"""

    @field_validator("scene")
    @classmethod
    def _fits(cls, scene: Any, info: ValidationInfo) -> Any:
        sides = [info.data[name] for name in ("height", "width") if name in info.data]
        if isinstance(scene, TranslatedConfig) and scene.side < max(sides, default=0):
            raise misfit("data.scene.side", f"= {scene.side} must hold a picture of {sides[0]} x {sides[-1]}")
        if isinstance(scene, ClutteredConfig) and scene.piece > min(sides, default=scene.piece):
            raise misfit("data.scene.piece", f"= {scene.piece} must fit into a picture of {sides[0]} x {sides[-1]}")
        return scene

    @property
    def shape(self) -> Shape:
        """Channels, height and width of a picture."""
        return self.channels, self.height, self.width

    @property
    def seen(self) -> Shape:
        """Those of a scene."""
        return self.scene.scene().shape(self.shape)

    def reader(self, part: str) -> Pictures:
        """Pictures and their classes."""
        config: PicturesConfig = getattr(self, part)
        return config.reader(self.shape)


class WarpConfig(Section):
    """How pictures are moved in training, each time by chance, uniformly from minus to plus these values."""

    degrees: Annotated[float, Field(ge=0, le=180)] = 10.0
    """that they are turned by"""
    scale: Below1 = 0.1
    """share by which height and width, each for itself, become larger or smaller"""
    shear: Annotated[float, Field(ge=0, le=45)] = 5.0
    """degrees that upright lines lean over"""
    shift: Annotated[float, Field(ge=0)] = 1.5
    """pixels to each side"""


class GlimpsesTrainingConfig(TrainingConfig):
    """The training loop; whichever of `steps`, `epochs` and `minutes` is over first ends it; give at least one."""

    batch_tokens: Annotated[Count, Mark.FIXED] = 128
    """pictures in a batch"""
    schedule: FineTuningScheduleConfig = LinearConfig(rate=1e-3, warmup_share=0.05)
    """the learning rate of each step"""
    copies: Annotated[Count, Mark.FIXED] = 1
    """looks at each picture, whose losses and gradients are averaged (Mnih et al. 2014: Monte-Carlo samples)"""
    after_each: Annotated[bool, Mark.FIXED] = False
    """learn to tell the class after each glimpse; else after the last alone, as in the paper"""
    warp: Annotated[WarpConfig | None, Mark.FIXED] = None
    """turn, stretch, shear and shift the pictures that are learned from, another way in each epoch"""
    monitor: Annotated[Literal["loss", "accuracy"], Mark.FIXED] = "accuracy"
    """what finds the best checkpoint: the likelihood, or the share of right classes"""


class LookingConfig(Section):
    """How a trained model looks."""

    copies: Count = 1
    """looks at each picture, of which the mean of the probabilities counts"""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    """of the places; they depend on this and on the picture alone"""


class GlimpsesRecipe(Recipe):
    """The class of a picture is told after some glimpses at it."""

    made_by: ClassVar = "heedful.tasks.glimpses.run:KIND"
    shown_by: ClassVar = "heedful.tasks.glimpses.demonstration:GlimpsesDemonstration"

    task: Literal["glimpses"] = "glimpses"
    """what is learned"""
    data: GlimpsesDataConfig
    """the table [data] names the pictures to train and validate on"""
    model: PictureModelConfig = GlimpsesConfig()
    """the architecture"""
    training: Annotated[GlimpsesTrainingConfig, Mark.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""
    looking: Annotated[LookingConfig, Mark.FREE] = LookingConfig()
    """how the trained model looks at pictures"""

    @field_validator("training")
    @classmethod
    def _draws(cls, training: GlimpsesTrainingConfig, info: ValidationInfo) -> GlimpsesTrainingConfig:
        model = info.data.get("model")
        if model is not None and not model.draws and training.copies > 1:
            raise misfit(
                "training.copies",
                f'= {training.copies}: model.kind = "{model.kind}" sees the same in each; leave it out',
            )
        return training
