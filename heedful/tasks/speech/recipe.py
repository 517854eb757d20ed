"""The recipe of a speech recognition run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.frames import FrameEncoderArchitecture, FrameEncoderConfig, FrameTransformerConfig
from heedful.compression import strip_compression_suffix
from heedful.recipes.config import (
    Config,
    FieldRole,
    InputPath,
    PositiveInt,
    add_default_kind,
    add_inferred_kind,
    config_error,
)
from heedful.recipes.generation import BeamConfig, GenerationConfig, SamplingConfig
from heedful.recipes.recipe import DataConfig, FineTunableRecipe, MemoryRecipe, is_model_known
from heedful.recipes.text import ColumnIndex, FileConfig, GivenTokenizerConfig, NonEmptyName, TokenizerConfig
from heedful.recipes.training import DecoderTrainingConfig, FineTunableTrainingConfig, PositiveFloat

if TYPE_CHECKING:
    from heedful.data.sound import Frontend


class RecordingsTableConfig(FileConfig):
    """A file with a sound file and its text on each line, tab-separated; plain or compressed."""

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
    """A file with a JSON object per line, plain or compressed."""

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
    name = strip_compression_suffix(str(table.get("path", "")))
    if "sound_field" in table or "text_field" in table or name.endswith((".jsonl", ".ndjson")):
        return "jsonl"
    return "tsv"


RecordingsConfig = Annotated[
    RecordingsTableConfig | RecordingsJsonlConfig | LibriSpeechConfig,
    Field(discriminator="kind"),
    add_inferred_kind(_guess_recordings_kind),
]


class AcousticFramesConfig(Config):
    """Acoustic features of a sound: power in mel-spaced frequency bands, frame by frame."""

    example_file: ClassVar = "sound.wav"

    kind: Literal["mel"] = "mel"
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
    seconds: PositiveInt | None = None
    """length to which sounds are padded with silence, with Whisper's bands and values instead (Radford et al. 2023,
    2.2); longer ones are transcribed in windows; not padded if not given"""

    @classmethod
    def migrate(cls, _: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Migrate older recipes, in which frames were of one kind and no sound was padded."""
        return {"kind": "mel", "seconds": None}

    def build_frontend(self) -> Frontend:
        """Build the acoustic frontend."""
        from heedful.data.sound import LogMel, PaddedLogMel

        if self.seconds is None:
            return LogMel(**self.model_dump(exclude={"kind", "seconds"}))
        lengths = {
            "frame_length": round(self.rate * self.window / 1000),
            "hop_length": round(self.rate * self.hop / 1000),
        }
        return PaddedLogMel(rate=self.rate, bands=self.bands, seconds=self.seconds, **lengths)


class PixelColumnsConfig(Config):
    """Pictures of lines of writing instead of sounds: each column of pixels is a frame, and 100 columns count as a
    second.
    """

    seconds: ClassVar[None] = None
    hop: ClassVar[float] = 10.0
    example_file: ClassVar = "line.png"

    kind: Literal["columns"] = "columns"
    height: Annotated[int, Field(ge=4, le=1024)] = 28
    """pixels to which all pictures are made high; their widths change in proportion"""

    @property
    def bands(self) -> int:
        """Numbers in a frame."""
        return self.height

    def build_frontend(self) -> Frontend:
        """Build the frontend that reads pictures."""
        from heedful.data.pixel_columns import PixelColumns

        return PixelColumns(self.height)


FramesConfig = Annotated[
    AcousticFramesConfig | PixelColumnsConfig, Field(discriminator="kind"), add_default_kind("mel")
]


class SpeechDataConfig(DataConfig):
    """Recordings for training, for choosing the best checkpoint, and for evaluation."""

    train: RecordingsConfig
    """the recordings to learn from"""
    validation: RecordingsConfig
    """the recordings that checkpoints are compared on"""
    test: Annotated[RecordingsConfig | None, FieldRole.FREE] = None
    """the recordings that `heedful evaluate` takes, instead of those of validation"""
    frames: Annotated[FramesConfig, FieldRole.ENCODING] = AcousticFramesConfig()
    """how a sound, or a picture, becomes the input of a model"""
    max_seconds: Annotated[PositiveFloat, FieldRole.ENCODING] = Field(
        default_factory=lambda given: float(given["frames"].seconds or 20)
    )
    """longest sound, 20 or data.frames.seconds if not given; longer ones are left out of training, and not
    transcribed unless in windows"""
    max_length: Annotated[PositiveInt, FieldRole.ENCODING] = 400
    """longest text, in tokens, end token included; longer ones are left out of training, and never written"""
    language: Annotated[NonEmptyName | None, FieldRole.ENCODING] = None
    """language of the recordings, as in "de", if the model of `init` knows several"""
    to_english: Annotated[bool, FieldRole.ENCODING] = False
    """whether texts are translations into English, for such a model"""

    @classmethod
    def migrate(cls, _: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Migrate older recipes, in which a model knew one language."""
        return {"language": None, "to_english": False}

    @field_validator("max_seconds")
    @classmethod
    def _check_max_seconds(cls, max_seconds: float, info: ValidationInfo) -> float:
        """Reject sounds that are longer than what they are padded to."""
        frames = info.data.get("frames")
        if frames is not None and frames.seconds is not None and max_seconds > frames.seconds:
            raise ValueError(f"must be at most data.frames.seconds = {frames.seconds}")
        return max_seconds

    def count_max_slots(self, frames_per_slot: int) -> int:
        """Return the number of memory slots of the longest sound."""
        if self.frames.seconds is not None:
            return round(self.frames.seconds * 1000 / self.frames.hop) // frames_per_slot
        return int(self.max_seconds * 1000 / self.frames.hop) // frames_per_slot + 1


class TranscriptTokenizerConfig(TokenizerConfig):
    """How texts are cut into tokens; learned deterministically from the training part."""

    kind: Literal["bpe", "unigram", "characters", "words"] = "characters"
    """single characters, words between spaces, byte-pair encoding or a unigram language model"""


TranscriptVocabularyConfig = Annotated[
    TranscriptTokenizerConfig | GivenTokenizerConfig, Field(discriminator="kind"), add_default_kind("characters")
]


class SpeechTrainingConfig(FineTunableTrainingConfig, DecoderTrainingConfig):
    """The training loop; it ends at the first limit reached of `steps`, `epochs` and `minutes`; give at least one."""

    stacks: ClassVar = ("encoder", "decoder")

    batch_tokens: Annotated[PositiveInt, FieldRole.FIXED] = 16_000
    """frames in a batch, padding included"""
    label_smoothing: Annotated[float, Field(ge=0, lt=1), FieldRole.FIXED] = 0.1
    """for the output of attention: probability taken from the right token and spread over all"""
    monitor: Annotated[Literal["loss", "exact", "word_errors"], FieldRole.FIXED] = "loss"
    """metric that selects the best checkpoint on the validation part: the likelihood, or, of greedy transcripts, the
    share without an error or the word error rate"""


class SpeechRecipe(MemoryRecipe, FineTunableRecipe):
    """Sounds are transcribed."""

    made_by: ClassVar = "heedful.tasks.speech.task:TASK"
    shown_by: ClassVar = "heedful.tasks.speech.demonstration:SpeechDemonstration"
    forms: ClassVar = "heedful.tasks.data_formats:SOUNDS"
    auto_keys: ClassVar = ("training.schedule", "training.clip")

    body: ClassVar = ""
    required_init: ClassVar = "a model that transcribes sounds"

    task: Literal["speech"] = "speech"
    """the task to learn"""
    data: SpeechDataConfig
    """the table [data] names the recordings to train and validate on"""
    init: InputPath | None = None
    """folder of a trained model, such as Whisper, whose frames, vocabulary, architecture and weights training goes on
    with"""
    tokenizer: TranscriptVocabularyConfig = TranscriptTokenizerConfig()
    """how text is cut into tokens; with `init` in the same way as that model"""
    model: FrameEncoderConfig = FrameTransformerConfig()
    """the architecture; with `init` that of the given model, where only dropout and masks can be changed"""
    training: Annotated[SpeechTrainingConfig, FieldRole.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""
    generation: Annotated[GenerationConfig, FieldRole.FREE] = BeamConfig()
    """how the finished model writes unless a command option says otherwise"""

    @property
    def max_written_tokens(self) -> int:
        """Number of tokens of the longest text that is written, prompt and end included: one fewer than the decoder has
        positions at most, because the begin of the text takes one.
        """
        limit = None if self.model.decoder is None else self.model.decoder.length_limit
        return self.data.max_length if limit is None else min(self.data.max_length, limit.tokens - 1)

    @property
    def needs_fitting(self) -> bool:
        """Whether the learning rate for a given model is left to be chosen."""
        return self.init is not None and not self.training.has_schedule

    @classmethod
    def accepts_init(cls, model: Config) -> bool:
        """Return whether the model reads frames of sound."""
        return isinstance(model, FrameEncoderArchitecture)

    @field_validator("tokenizer")
    @classmethod
    def _check_language(
        cls, tokenizer: TranscriptTokenizerConfig | GivenTokenizerConfig, info: ValidationInfo
    ) -> TranscriptTokenizerConfig | GivenTokenizerConfig:
        """Reject a language, or translations, without a model that knows several languages."""
        data, init = (
            info.data.get("data"),
            info.data.get("init", ...),
        )  # which is missing if it has a problem of its own
        if data is None or init is not None or isinstance(tokenizer, GivenTokenizerConfig):
            return tokenizer
        if data.language is not None or data.to_english:
            key = "data.to_english" if data.language is None else "data.language"
            raise config_error(key, "is for the model that init names, and there is none: leave it out")
        return tokenizer

    @field_validator("model")
    @classmethod
    def _check_sizes(cls, model: FrameEncoderConfig, info: ValidationInfo) -> FrameEncoderConfig:
        """Reject a decoder that does not fit the width of the encoder, and models with fewer positions than the longest
        text or sound needs.
        """
        data, longest, decoder = info.data.get("data"), model.length_limit, model.decoder
        if not is_model_known(info):
            return model
        if data is not None and data.frames.seconds is not None and model.ctc_weight > 0:
            raise config_error(
                "model.ctc_weight",
                f"= {model.ctc_weight:g} must be 0 with data.frames.seconds, because the silence that sounds are "
                "padded with has no text",
            )
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
