"""The recipes of runs that caption pictures and clips."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.vision import (
    AnyVisionConfig,
    ConvolutionalVisionConfig,
    MemoryModelArchitecture,
    MotionConfig,
)
from heedful.compression import strip_compression_suffix
from heedful.recipes.config import FieldRole, InputPath, PositiveInt, add_inferred_kind, config_error
from heedful.recipes.generation import BeamConfig, GenerationConfig
from heedful.recipes.recipe import DataConfig, MemoryRecipe
from heedful.recipes.text import ColumnIndex, FileConfig, TokenizerConfig
from heedful.recipes.training import DecoderTrainingConfig, NonNegativeFloat

if TYPE_CHECKING:
    from heedful.data.clips import Clip
    from heedful.data.pictures import SquareResize


def _require_other_column(name: str) -> Callable[[int, ValidationInfo], int]:
    """Return a pydantic check that raises `ValueError` if a column number equals the one in the key `name`."""

    def check_column(column: int, info: ValidationInfo) -> int:
        if column == info.data.get(name):
            raise ValueError(f"must be another column than {name}")
        return column

    return check_column


class CaptionFileConfig(FileConfig):
    """Base class of caption files with a folder of pictures."""

    pictures: InputPath | None = None
    """folder of the pictures; the folder of the file if not given"""
    only: InputPath | None = None
    """file with the name of one picture per line; only these are used, as in an official split"""


class TsvCaptionsConfig(CaptionFileConfig):
    """A tab-separated file with a picture's file name and a caption on each line; plain or compressed."""

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

    _check_columns = field_validator("caption_column")(_require_other_column("picture_column"))


class CocoCaptionsConfig(CaptionFileConfig):
    """COCO's JSON: images, and annotations with captions or boxes."""

    read_by: ClassVar = "heedful.tasks.captioning.data:CocoCaptions"

    kind: Literal["coco"] = "coco"
    instances: InputPath | None = None
    """another such file, whose boxes say where the things named in captions are"""


def _guess_captions_kind(table: Mapping[str, Any]) -> str:
    return "coco" if strip_compression_suffix(str(table.get("path", ""))).endswith(".json") else "tsv"


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


class BaseCaptionRecipe(MemoryRecipe):
    """Recipe of a run that generates captions.

    Abstract: the task defines the inputs.

    Attributes:
        vision_key: key below `model` of the network that reads pictures or frames.
    """

    vision_key: ClassVar[str]

    if TYPE_CHECKING:
        data: CaptioningDataConfig | VideoDataConfig
        model: CaptionerConfig | VideoCaptionerConfig
        training: CaptioningTrainingConfig | VideoTrainingConfig
        generation: GenerationConfig

    @property
    def vision(self) -> AnyVisionConfig:
        """The network that reads pictures or frames."""
        config: AnyVisionConfig = getattr(self.model, self.vision_key)
        return config

    @property
    def has_frozen_vision(self) -> bool:
        """Whether this network is not trained, so that its outputs are stored."""
        return self.vision.is_frozen

    @property
    def input_size(self) -> int:
        """Pixels along each side of a picture or frame."""
        raise NotImplementedError


class CaptioningRecipe(BaseCaptionRecipe):
    """Captions are generated for pictures."""

    vision_key: ClassVar = "pictures"

    made_by: ClassVar = "heedful.tasks.captioning.task:TASK"
    shown_by: ClassVar = "heedful.tasks.captioning.demonstration:CaptioningDemonstration"
    forms: ClassVar = "heedful.tasks.data_formats:PICTURES"

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
        """Check that `data.picture_size` is a multiple of a region's size and that captions of `data.max_length` tokens
        fit the decoder.
        """
        data = info.data.get("data")
        if data is None:
            return model
        if data.picture_size % model.pictures.region_stride:
            raise config_error(
                "data.picture_size",
                f"= {data.picture_size} must be a multiple of {model.pictures.region_stride}, the pixels of a region "
                "of model.pictures",
            )
        longest = model.length_limit
        if longest is not None:
            longest.require_above(data.max_length, "a caption")
        return model

    @property
    def input_size(self) -> int:
        """Pixels along each side of a picture."""
        return self.data.picture_size


class ClipFileConfig(FileConfig):
    """Base class of caption files with a folder of clips."""

    clips: InputPath | None = None
    """folder of the clips; the folder of the file if not given"""


class TsvClipsConfig(ClipFileConfig):
    """A tab-separated file with a clip and a caption on each line; plain or compressed."""

    read_by: ClassVar = "heedful.tasks.captioning.data:ClipColumns"

    kind: Literal["tsv"] = "tsv"
    clip_column: ColumnIndex = 0
    """column of the clips, counted from 0; a clip may be on several lines"""
    caption_column: ColumnIndex = 1
    """column of the captions, counted from 0"""
    header: bool = False
    """whether the first line names the columns"""

    _check_columns = field_validator("caption_column")(_require_other_column("clip_column"))


class JsonlClipsConfig(ClipFileConfig):
    """A JSON object per line: `clip`, `captions`, and optional `events` with `phrase`, `start` and `stop`."""

    read_by: ClassVar = "heedful.tasks.captioning.data:ClipRecords"

    kind: Literal["jsonl"] = "jsonl"


def _guess_clips_kind(table: Mapping[str, Any]) -> str:
    return "jsonl" if strip_compression_suffix(str(table.get("path", ""))).endswith(".jsonl") else "tsv"


ClipsConfig = Annotated[
    TsvClipsConfig | JsonlClipsConfig, Field(discriminator="kind"), add_inferred_kind(_guess_clips_kind)
]


class VideoDataConfig(DataConfig):
    """Captioned clips for training, for choosing the best checkpoint, and for evaluation."""

    train: ClipsConfig
    """the clips to learn from"""
    validation: ClipsConfig
    """the clips that checkpoints are compared on"""
    test: Annotated[ClipsConfig | None, FieldRole.FREE] = None
    """the clips that `heedful evaluate` takes, instead of those of validation"""
    frames: Annotated[PositiveInt, FieldRole.ENCODING] = 26
    """frames that are taken of a clip, evenly spaced in time; shorter clips are taken whole"""
    frame_size: Annotated[int, Field(ge=8, le=2048), FieldRole.ENCODING] = 112
    """pixels along each side, as the model sees frames"""
    fit: Annotated[Literal["crop", "stretch", "pad"], FieldRole.ENCODING] = "crop"
    """what happens to frames that are not square: their middle is cut out, they are stretched, or grey is added"""
    features: Annotated[PositiveInt | None, FieldRole.ENCODING] = None
    """numbers per frame of precomputed features: clips are then safetensors files with `features` [frames, numbers]"""
    max_length: Annotated[int, Field(ge=2), FieldRole.ENCODING] = 64
    """longest caption, in tokens, end token included; longer ones are left out of training"""

    def read_clip(self, clip: Path) -> Clip:
        """Read a clip's frames, or the features in its file; `DataError` if it cannot be read."""
        from heedful.data.clips import read_clip, read_clip_features
        from heedful.data.pictures import SquareResize

        if self.features is not None:
            return read_clip_features(clip, width=self.features, max_frames=self.frames)
        return read_clip(clip, resize=SquareResize(self.frame_size, self.fit), max_frames=self.frames)

    def decoded_size(self, clip: Path) -> int:
        """Return the bytes of the decoded clip in a file; `DataError` if it cannot be read."""
        from heedful.data.clips import count_frame_bytes

        return count_frame_bytes(clip) if self.features is None else clip.stat().st_size

    def peak_memory(self, clip: Path) -> int:
        """Return the bytes of memory that reading the clip takes; `DataError` if it cannot be read."""
        from heedful.data.clips import estimate_clip_memory

        return estimate_clip_memory(clip) if self.features is None else 3 * clip.stat().st_size


class VideoCaptionerConfig(MemoryModelArchitecture):
    """A frame encoder, an optional motion encoder over neighbouring frames, and a caption decoder.

    Yao et al. 2015 compare four of them, whose decoder.kind is "recurrent": without `local` and with
    decoder.reading.kind = "context" (Basic), with one of `local` and temporal attention, which is "bahdanau", or with
    both.
    """

    kind: Literal["video_captioner"] = "video_captioner"
    frames: AnyVisionConfig = ConvolutionalVisionConfig()
    """the encoder of each frame, averaged over its regions; left out if data.features is given"""
    local: bool = True
    """whether space-time convolutions look at what moves between neighbouring frames (section 3.1)"""
    motion: MotionConfig = MotionConfig()
    """these convolutions"""
    times: bool = True
    """whether frames carry their time too, as sinusoids"""

    @field_validator("local")
    @classmethod
    def _check_local(cls, local: bool, info: ValidationInfo) -> bool:
        """Reject `local = true` with a frozen frame network, because motion is encoded from pixels, which are then not
        kept.
        """
        frames = info.data.get("frames")
        if local and frames is not None and frames.is_frozen:
            raise config_error(
                "model.local",
                "= true reads pixels, but they are not kept for frames that a frozen network reads only once: set "
                "model.local or model.frames.frozen to false",
            )
        return local

    @field_validator("times")
    @classmethod
    def _check_even_width(cls, times: bool, info: ValidationInfo) -> bool:
        """Reject an odd `d_model` with `times = true`, because sinusoidal time encodings need an even width."""
        width = info.data.get("d_model", 0)
        if times and width % 2:
            raise config_error(
                "model.d_model", f"= {width} must be even where model.times = true: sinusoids come in pairs"
            )
        return times


class VideoTrainingConfig(DecoderTrainingConfig):
    """The training loop; it ends at the first limit reached of `steps`, `epochs` and `minutes`; give at least one."""

    monitor: Annotated[Literal["loss", "bleu", "cider"], FieldRole.FIXED] = "loss"
    """metric that selects the best checkpoint on the validation part: the likelihood, or BLEU-4 or CIDEr-D of greedy
    captions"""


class VideoRecipe(BaseCaptionRecipe):
    """Captions are generated for clips."""

    vision_key: ClassVar = "frames"

    made_by: ClassVar = "heedful.tasks.captioning.task:VIDEO_TASK"
    shown_by: ClassVar = "heedful.tasks.captioning.demonstration:VideoDemonstration"
    forms: ClassVar = "heedful.tasks.data_formats:CLIPS"

    task: Literal["video"] = "video"
    """the task to learn"""
    data: VideoDataConfig
    """the table [data] names the clips to train and validate on"""
    tokenizer: TokenizerConfig = TokenizerConfig(kind="words")
    """how captions are cut into tokens"""
    model: VideoCaptionerConfig = VideoCaptionerConfig()
    """the architecture"""
    training: Annotated[VideoTrainingConfig, FieldRole.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""
    generation: Annotated[GenerationConfig, FieldRole.FREE] = BeamConfig()
    """how the finished model writes unless a command option says otherwise; a clip counts as one token"""

    @field_validator("model")
    @classmethod
    def _check_features(cls, model: VideoCaptionerConfig, info: ValidationInfo) -> VideoCaptionerConfig:
        """Reject `model.local = true` for clips that are stored as features, frames that regions do not divide evenly
        where they must, and captions of `data.max_length` tokens that do not fit the decoder.
        """
        data = info.data.get("data")
        if data is not None and model.frames.needs_whole_regions and data.frame_size % model.frames.region_stride:
            raise config_error(
                "data.frame_size",
                f"= {data.frame_size} must be a multiple of {model.frames.region_stride}, the pixels of a region of "
                "model.frames",
            )
        if data is not None and data.features is not None and model.local:
            raise config_error(
                "model.local",
                "= true reads pixels, but data.features has none: set model.local = false; add features of "
                "motion to the other numbers of each frame",
            )
        longest = model.length_limit
        if data is not None and longest is not None:
            longest.require_above(data.max_length, "a caption")
        return model

    @property
    def num_features(self) -> int | None:
        """Number of features per frame; None if pixels are stored."""
        return self.vision.d_annotation if self.has_frozen_vision else self.data.features

    @property
    def has_frozen_vision(self) -> bool:
        """Whether a frozen network computes the features."""
        return self.data.features is None and super().has_frozen_vision

    @property
    def input_size(self) -> int:
        """Pixels along each side of a frame."""
        return self.data.frame_size
