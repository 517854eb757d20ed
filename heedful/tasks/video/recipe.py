"""The recipe of a video captioning run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.clips import MotionConfig
from heedful.architectures.memory_models import MemoryModelArchitecture
from heedful.architectures.pictures import AnyVisionConfig, ConvolutionalVisionConfig
from heedful.recipes.config import FieldRole, InputPath, PositiveInt, add_inferred_kind, config_error
from heedful.recipes.generation import BeamConfig, GenerationConfig
from heedful.recipes.recipe import DataConfig, MemoryRecipe
from heedful.recipes.text import ColumnIndex, FileConfig, TokenizerConfig
from heedful.recipes.training import DecoderTrainingConfig

if TYPE_CHECKING:
    from heedful.data.clips import Clip


class ClipFileConfig(FileConfig):
    """Base class of caption files with a folder of clips."""

    clips: InputPath | None = None
    """folder of the clips; the folder of the file if not given"""


class TsvClipsConfig(ClipFileConfig):
    """A tab-separated file with a clip and a caption on each line; plain or gzipped."""

    read_by: ClassVar = "heedful.tasks.video.data:ClipColumns"

    kind: Literal["tsv"] = "tsv"
    clip_column: ColumnIndex = 0
    """column of the clips, counted from 0; a clip may be on several lines"""
    caption_column: ColumnIndex = 1
    """column of the captions, counted from 0"""
    header: bool = False
    """whether the first line names the columns"""

    @field_validator("caption_column")
    @classmethod
    def _check_columns_differ(cls, caption_column: int, info: ValidationInfo) -> int:
        """Check that captions and clips are in different columns."""
        if caption_column == info.data.get("clip_column"):
            raise ValueError("must be another column than clip_column")
        return caption_column


class JsonlClipsConfig(ClipFileConfig):
    """A JSON object per line: `clip`, `captions`, and optional `events` with `phrase`, `start` and `stop`."""

    read_by: ClassVar = "heedful.tasks.video.data:ClipRecords"

    kind: Literal["jsonl"] = "jsonl"


def _guess_clips_kind(table: Mapping[str, Any]) -> str:
    """Guess the file format from the file name."""
    return "jsonl" if str(table.get("path", "")).removesuffix(".gz").endswith(".jsonl") else "tsv"


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
        """Check that motion is encoded only where pixels are available."""
        frames = info.data.get("frames")
        if local and frames is not None and frames.is_frozen:
            raise config_error(
                "model.local",
                "= true looks at pixels, but they are not kept for frames that a frozen network reads only once: set "
                "model.local or model.frames.frozen to false",
            )
        return local

    @field_validator("times")
    @classmethod
    def _check_even_width(cls, times: bool, info: ValidationInfo) -> bool:
        """Check that the width is even where sinusoidal time encodings are added."""
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


class VideoRecipe(MemoryRecipe):
    """Captions are generated for clips."""

    made_by: ClassVar = "heedful.tasks.video.task:TASK"
    shown_by: ClassVar = "heedful.tasks.video.demonstration:VideoDemonstration"
    forms: ClassVar = "heedful.tasks.video.data_formats:DATA_FORMATS"

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
        """Check that motion is not encoded from features, and that captions fit the decoder."""
        data = info.data.get("data")
        if data is not None and data.features is not None and model.local:
            raise config_error(
                "model.local",
                "= true looks at pixels, but data.features has none: set model.local = false; add features of "
                "motion to the other numbers of each frame",
            )
        longest = model.length_limit
        if data is not None and longest is not None:
            longest.require_above(data.max_length, "a caption")
        return model

    @property
    def num_features(self) -> int | None:
        """Number of features per frame; None if pixels are stored."""
        frames = self.model.frames
        return frames.d_annotation if self.data.features is None and frames.is_frozen else self.data.features

    @property
    def has_frozen_vision(self) -> bool:
        """Whether a frozen network computes the features."""
        return self.data.features is None and self.model.frames.is_frozen
