"""The recipe of a speech recognition run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.frames import FrameEncoderConfig, FrameTransformerConfig
from heedful.recipes.config import Config, FieldRole, PositiveInt, add_inferred_kind, config_error
from heedful.recipes.generation import BeamConfig, GenerationConfig, SamplingConfig
from heedful.recipes.recipe import DataConfig, MemoryRecipe
from heedful.recipes.text import ColumnIndex, FileConfig, NonEmptyName, TokenizerConfig
from heedful.recipes.training import DecoderTrainingConfig, PositiveFloat

if TYPE_CHECKING:
    from heedful.data.sound import LogMel


class RecordingsTableConfig(FileConfig):
    """A file with a sound file and its text on each line, tab-separated; plain or gzipped."""

    read_by: ClassVar = "heedful.tasks.speech.data:read_recordings_table"

    kind: Literal["tsv"] = "tsv"
    sound_column: ColumnIndex = 0
    """column of the files of sound, counted from 0; the files are counted from the folder of the table"""
    text_column: ColumnIndex = 1
    """column of the spoken text, counted from 0"""

    @field_validator("text_column")
    @classmethod
    def _check_columns_differ(cls, text_column: int, info: ValidationInfo) -> int:
        if text_column == info.data.get("sound_column"):
            raise ValueError("must be another column than sound_column")
        return text_column


class RecordingsJsonlConfig(FileConfig):
    """A file with a JSON object per line, plain or gzipped."""

    read_by: ClassVar = "heedful.tasks.speech.data:read_recordings_jsonl"

    kind: Literal["jsonl"] = "jsonl"
    sound_field: NonEmptyName = "sound"
    """name of the field that holds the file of sound, counted from the folder of the list"""
    text_field: NonEmptyName = "text"
    """name of the field that holds the spoken text"""


class LibriSpeechConfig(FileConfig):
    """A folder in LibriSpeech's layout; `path` is the folder."""

    read_by: ClassVar = "heedful.tasks.speech.data:read_librispeech"

    kind: Literal["librispeech"] = "librispeech"


def _guess_recordings_kind(table: Mapping[str, Any]) -> str:
    """Return the kind of a table that names recordings by its keys and file name: jsonl or tsv; a LibriSpeech folder
    must name its kind.
    """
    name = str(table.get("path", "")).removesuffix(".gz")
    if "sound_field" in table or "text_field" in table or name.endswith((".jsonl", ".ndjson")):
        return "jsonl"
    return "tsv"


RecordingsConfig = Annotated[
    RecordingsTableConfig | RecordingsJsonlConfig | LibriSpeechConfig,
    Field(discriminator="kind"),
    add_inferred_kind(_guess_recordings_kind),
]


class FramesConfig(Config):
    """Acoustic features of a sound: power in mel-spaced frequency bands, frame by frame."""

    rate: Annotated[int, Field(ge=2000, le=192_000)] = 16000
    """samples per second to which all sounds are converted"""
    bands: Annotated[int, Field(ge=4)] = 40
    """bands from 20 Hz to half the rate, evenly spaced on the mel scale"""
    window: Annotated[float, Field(ge=5, le=200)] = 25.0
    """milliseconds that a frame looks at"""
    hop: Annotated[float, Field(ge=1, le=100)] = 10.0
    """milliseconds from one frame to the next"""
    normalise: bool = True
    """whether each band has mean 0 and variance 1 over the frames of a sound"""

    def build_frontend(self) -> LogMel:
        """Build the acoustic frontend."""
        from heedful.data.sound import LogMel

        return LogMel(**self.model_dump())


class SpeechDataConfig(DataConfig):
    """Recordings for training, for choosing the best checkpoint, and for evaluation."""

    train: RecordingsConfig
    """the recordings to learn from"""
    validation: RecordingsConfig
    """the recordings that checkpoints are compared on"""
    test: Annotated[RecordingsConfig | None, FieldRole.FREE] = None
    """the recordings that `heedful evaluate` takes, instead of those of validation"""
    frames: Annotated[FramesConfig, FieldRole.ENCODING] = FramesConfig()
    """how a sound becomes the input of a model"""
    max_seconds: Annotated[PositiveFloat, FieldRole.ENCODING] = 20.0
    """longest sound; longer ones are left out of training, and not transcribed"""
    max_length: Annotated[PositiveInt, FieldRole.ENCODING] = 400
    """longest text, in tokens, end token included; longer ones are left out of training, and never written"""

    def count_max_slots(self, frames_per_slot: int) -> int:
        """Return the number of memory slots of the longest sound."""
        return int(self.max_seconds * 1000 / self.frames.hop) // frames_per_slot + 1


class TranscriptTokenizerConfig(TokenizerConfig):
    """How texts are cut into tokens; learned deterministically from the training part."""

    kind: Literal["bpe", "unigram", "characters", "words"] = "characters"
    """single characters, words between spaces, byte-pair encoding or a unigram language model"""


class SpeechTrainingConfig(DecoderTrainingConfig):
    """The training loop; it ends at the first limit reached of `steps`, `epochs` and `minutes`; give at least one."""

    batch_tokens: Annotated[PositiveInt, FieldRole.FIXED] = 16_000
    """frames in a batch, padding included"""
    label_smoothing: Annotated[float, Field(ge=0, lt=1), FieldRole.FIXED] = 0.1
    """for the output of attention: probability taken from the right token and spread over all"""
    monitor: Annotated[Literal["loss", "exact"], FieldRole.FIXED] = "loss"
    """metric that selects the best checkpoint on the validation part: the likelihood, or the share of texts without an
    error"""


class SpeechRecipe(MemoryRecipe):
    """Sounds are transcribed."""

    made_by: ClassVar = "heedful.tasks.speech.task:TASK"
    shown_by: ClassVar = "heedful.tasks.speech.demonstration:SpeechDemonstration"
    forms: ClassVar = "heedful.tasks.data_formats:SOUNDS"

    task: Literal["speech"] = "speech"
    """the task to learn"""
    data: SpeechDataConfig
    """the table [data] names the recordings to train and validate on"""
    tokenizer: TranscriptTokenizerConfig = TranscriptTokenizerConfig()
    """how text is cut into tokens"""
    model: FrameEncoderConfig = FrameTransformerConfig()
    """the architecture"""
    training: Annotated[SpeechTrainingConfig, FieldRole.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""
    generation: Annotated[GenerationConfig, FieldRole.FREE] = BeamConfig()
    """how the finished model writes unless a command option says otherwise"""

    @field_validator("model")
    @classmethod
    def _check_sizes(cls, model: FrameEncoderConfig, info: ValidationInfo) -> FrameEncoderConfig:
        """Reject a decoder that does not fit the width of the encoder, and models with fewer positions than the longest
        text or sound needs.
        """
        data, longest, decoder = info.data.get("data"), model.length_limit, model.decoder
        decoder_longest = None if decoder is None else decoder.length_limit
        if decoder is not None and decoder.d_slot not in (None, model.d_output):
            raise config_error(
                "model.decoder.d_model",
                f"= {decoder.d_slot} must be {model.d_output}, the width of the encoder's output for each slot, for a "
                f'decoder of kind "{decoder.kind}"',
            )
        if data is not None and decoder_longest is not None and decoder_longest.tokens < data.max_length:
            key = decoder_longest.key.replace("model.", "model.decoder.")
            raise config_error(key, f"= {decoder_longest.tokens} must be at least data.max_length = {data.max_length}")
        if data is not None and longest is not None:
            slots = data.count_max_slots(model.frames_per_slot)
            if longest.tokens < slots:
                raise config_error(
                    longest.key,
                    f"= {longest.tokens} must be at least {slots}, one for each {model.frames_per_slot} frames of "
                    f"data.max_seconds = {data.max_seconds:g}",
                )
        return model

    @field_validator("generation")
    @classmethod
    def _check_search(cls, generation: GenerationConfig, info: ValidationInfo) -> GenerationConfig:
        """Reject sampling for models with CTC alone, and minimum Bayes risk for all models with CTC."""
        model = info.data.get("model")
        if model is not None and model.ctc_weight == 1 and isinstance(generation, SamplingConfig):
            raise config_error(
                "generation.kind",
                '= "sampling" draws token after token, but a model with model.ctc_weight = 1 writes all tokens at '
                'once: set generation.kind = "beam" or "greedy"',
            )
        if model is not None and model.ctc_weight > 0 and getattr(generation, "risk", None) is not None:
            raise config_error(
                "generation.risk",
                "is for outputs that only the decoder ranks, but with model.ctc_weight above 0 CTC ranks them too: "
                "leave it out",
            )
        return generation
