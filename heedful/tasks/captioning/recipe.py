"""The recipe of a captioning run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.memory_models import MemoryModelArchitecture
from heedful.architectures.pictures import AnyVisionConfig, ConvolutionalVisionConfig
from heedful.recipes.config import FieldRole, InputPath, add_inferred_kind, config_error
from heedful.recipes.generation import BeamConfig, GenerationConfig
from heedful.recipes.recipe import DataConfig, MemoryRecipe
from heedful.recipes.text import ColumnIndex, FileConfig, TokenizerConfig
from heedful.recipes.training import DecoderTrainingConfig, NonNegativeFloat

if TYPE_CHECKING:
    from heedful.data.pictures import SquareResize


class CaptionFileConfig(FileConfig):
    """Base class of caption files with a folder of pictures."""

    pictures: InputPath | None = None
    """folder of the pictures; the folder of the file if not given"""
    only: InputPath | None = None
    """file with the name of one picture per line; only these are used, as in an official split"""


class TsvCaptionsConfig(CaptionFileConfig):
    """A tab-separated file with a picture's file name and a caption on each line; plain or gzipped."""

    read_by: ClassVar = "heedful.tasks.captioning.data:CaptionColumns"

    kind: Literal["tsv"] = "tsv"
    picture_column: ColumnIndex = 0
    """column of the file names, counted from 0; a picture may be on several lines"""
    caption_column: ColumnIndex = 1
    """column of the captions, counted from 0"""
    header: bool = False
    """whether the first line names the columns"""
    numbered: bool = False
    """whether file names end in #0, the number of the caption, as in Flickr8k.token.txt"""

    @field_validator("caption_column")
    @classmethod
    def _check_columns_differ(cls, caption_column: int, info: ValidationInfo) -> int:
        """Check that captions and pictures are in different columns."""
        if caption_column == info.data.get("picture_column"):
            raise ValueError("must be another column than picture_column")
        return caption_column


class CocoCaptionsConfig(CaptionFileConfig):
    """COCO's JSON: images, and annotations with captions or boxes."""

    read_by: ClassVar = "heedful.tasks.captioning.data:CocoCaptions"

    kind: Literal["coco"] = "coco"
    instances: InputPath | None = None
    """another such file, whose boxes say where the things named in captions are"""


def _guess_captions_kind(table: Mapping[str, Any]) -> str:
    """Guess the file format from the file name."""
    return "coco" if str(table.get("path", "")).removesuffix(".gz").endswith(".json") else "tsv"


CaptionsConfig = Annotated[
    TsvCaptionsConfig | CocoCaptionsConfig, Field(discriminator="kind"), add_inferred_kind(_guess_captions_kind)
]


class CaptioningDataConfig(DataConfig):
    """Captioned pictures for training, for choosing the best checkpoint, and for evaluation."""

    train: CaptionsConfig
    """the pictures to learn from"""
    validation: CaptionsConfig
    """the pictures that checkpoints are compared on"""
    test: Annotated[CaptionsConfig | None, FieldRole.FREE] = None
    """the pictures that `heedful evaluate` takes, instead of those of validation"""
    picture_size: Annotated[int, Field(ge=8, le=2048), FieldRole.ENCODING] = 224
    """pixels along each side, as the model sees pictures"""
    fit: Annotated[Literal["crop", "stretch", "pad"], FieldRole.ENCODING] = "crop"
    """what happens to pictures that are not square: their middle is cut out, they are stretched, or grey is added"""
    max_length: Annotated[int, Field(ge=2), FieldRole.ENCODING] = 64
    """longest caption, in tokens, end token included; longer ones are left out of training"""

    @property
    def framing(self) -> SquareResize:
        """How pictures are made square."""
        from heedful.data.pictures import SquareResize

        return SquareResize(self.picture_size, self.fit)


class CaptionerConfig(MemoryModelArchitecture):
    """A picture encoder and a caption decoder."""

    kind: Literal["captioner"] = "captioner"
    pictures: AnyVisionConfig = ConvolutionalVisionConfig()
    """the encoder of pictures"""


class CaptioningTrainingConfig(DecoderTrainingConfig):
    """The training loop; it ends at the first limit reached of `steps`, `epochs` and `minutes`; give at least one."""

    doubly_stochastic: Annotated[NonNegativeFloat, FieldRole.FIXED] = 0.0
    """lambda: weight of the sum over regions of (1 - all attention that a caption pays to it)^2, which makes it look
    everywhere (Xu et al. 2015, eq. 14; there 1)"""
    monitor: Annotated[Literal["loss", "bleu", "cider"], FieldRole.FIXED] = "loss"
    """metric that selects the best checkpoint on the validation part: the likelihood, or BLEU-4 or CIDEr-D of greedy
    captions"""


class CaptioningRecipe(MemoryRecipe):
    """Captions are generated for pictures."""

    made_by: ClassVar = "heedful.tasks.captioning.task:TASK"
    shown_by: ClassVar = "heedful.tasks.captioning.demonstration:CaptioningDemonstration"
    forms: ClassVar = "heedful.tasks.captioning.data_formats:DATA_FORMATS"

    task: Literal["captioning"] = "captioning"
    """the task to learn"""
    data: CaptioningDataConfig
    """the table [data] names the pictures to train and validate on"""
    tokenizer: TokenizerConfig = TokenizerConfig(kind="words")
    """how captions are cut into tokens"""
    model: CaptionerConfig = CaptionerConfig()
    """the architecture"""
    training: Annotated[CaptioningTrainingConfig, FieldRole.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""
    generation: Annotated[GenerationConfig, FieldRole.FREE] = BeamConfig()
    """how the finished model writes unless a command option says otherwise; a picture counts as one token"""

    @field_validator("model")
    @classmethod
    def _check_sizes(cls, model: CaptionerConfig, info: ValidationInfo) -> CaptionerConfig:
        """Check that pictures divide into regions and that captions fit the decoder."""
        data = info.data.get("data")
        if data is None:
            return model
        if data.picture_size % model.pictures.region_stride:
            raise config_error(
                "data.picture_size",
                f"= {data.picture_size} must be a multiple of {model.pictures.region_stride}, the pixels of a region "
                "of "
                "model.pictures",
            )
        longest = model.length_limit
        if longest is not None:
            longest.require_above(data.max_length, "a caption")
        return model
