"""Recipe of conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.model import ConditionalModelConfig, DecoderOnlyConfig, TransformerConfig
from heedful.architectures.stack import DecoderConfig
from heedful.recipes.config import Config, FieldRole, InputPath, add_default_kind, add_inferred_kind, config_error
from heedful.recipes.generation import GreedyContinuationConfig, SampledContinuationConfig
from heedful.recipes.recipe import ArchitectureConfig, DataConfig, FineTunableRecipe, is_model_known
from heedful.recipes.text import FileConfig, NonEmptyName, TokenizerConfig, WordsTokenizerConfig
from heedful.recipes.training import DecoderTrainingConfig, FineTunableTrainingConfig, FloatBelowOne

if TYPE_CHECKING:
    from heedful.data.readers import ExampleReader
    from heedful.tasks.conversation.data import Dialogue, ExchangeReader


class JsonlDialoguesConfig(FileConfig):
    """One file with a JSON object per line, whose `turns` have a `speaker` and a `text` each; plain or compressed."""

    read_by: ClassVar = "heedful.tasks.conversation.data:JsonlDialogueReader"

    kind: Literal["jsonl"] = "jsonl"


class CamRestConfig(FileConfig):
    """The file of CamRest676, plain or compressed, with the speakers user and system."""

    read_by: ClassVar = "heedful.tasks.conversation.data:CamRestReader"

    kind: Literal["camrest"] = "camrest"
    part: Literal["train", "validation", "test"]
    """part of the dialogues in the order of the file: the first three fifths, the fourth fifth or the last"""


def _guess_dialogue_kind(table: Mapping[str, Any]) -> str:
    """Return the kind of a dialogue table: camrest if it names a part, else jsonl."""
    return "camrest" if "part" in table else "jsonl"


DialoguesConfig = Annotated[
    JsonlDialoguesConfig | CamRestConfig, Field(discriminator="kind"), add_inferred_kind(_guess_dialogue_kind)
]


ReplyingConfig = Annotated[
    GreedyContinuationConfig | SampledContinuationConfig, Field(discriminator="kind"), add_default_kind("greedy")
]


class ConversationDataConfig(DataConfig):
    """Dialogues for training, for choosing the best checkpoint, and for evaluation."""

    train: DialoguesConfig
    """the dialogues to learn from"""
    validation: DialoguesConfig
    """the dialogues that checkpoints are compared on"""
    test: Annotated[DialoguesConfig | None, FieldRole.FREE] = None
    """the dialogues that `heedful evaluate` takes"""
    replier: NonEmptyName = "system"
    """whose turns are measured and written"""
    learned: Literal["replier", "everybody", "dialogues"] = "replier"
    """whose turns are learned; or whole dialogues as one text each, which is fast: for models of kind "decoder_only",
    and dialogues that fit into max_length"""
    window: Annotated[int, Field(ge=0), FieldRole.ENCODING] = 6
    """turns before a reply that are read, at most; 0 replies to nothing"""
    max_length: Annotated[int, Field(ge=4), FieldRole.ENCODING] = 128
    """longest context, and longest reply, in tokens with those of speakers and ends; of longer contexts the oldest
    turns are not read, longer replies are left out of training"""

    def reader(self, part: str) -> ExchangeReader:
        """Open a reader of the replies of the data `part` (train, validation or test) with their context; raise
        `DataError` if a file is missing.
        """
        from heedful.tasks.conversation.data import ExchangeReader

        config: JsonlDialoguesConfig | CamRestConfig = getattr(self, part)
        learned = self.learned if part == "train" else "replier"
        dialogues: ExampleReader[Dialogue] = config.reader()
        replier = self.replier if learned == "replier" else None
        return ExchangeReader(dialogues, window=self.window, replier=replier, whole_dialogues=learned == "dialogues")


class ConversationTrainingConfig(FineTunableTrainingConfig, DecoderTrainingConfig):
    """The training loop; it ends at the first limit reached of `steps`, `epochs` and `minutes`; give at least one."""

    stacks: ClassVar = ("decoder",)

    label_smoothing: Annotated[FloatBelowOne, FieldRole.FIXED] = 0.0
    """probability taken from the right token and spread over all"""
    monitor: Annotated[Literal["loss"], FieldRole.FIXED] = "loss"
    """metric that selects the best checkpoint on the validation dialogues: the likelihood"""


class ConversationRecipe(FineTunableRecipe):
    """The next turn of a dialogue is generated."""

    made_by: ClassVar = "heedful.tasks.conversation.task:TASK"
    shown_by: ClassVar = "heedful.tasks.conversation.demonstration:ConversationDemonstration"
    forms: ClassVar = "heedful.tasks.data_formats:DIALOGUES"
    body: ClassVar = ""
    required_init: ClassVar = "a language model"

    task: Literal["conversation"] = "conversation"
    """the task to learn"""
    data: ConversationDataConfig
    """the table [data] names the dialogues to train and validate on"""
    init: InputPath | None = None
    """folder of a trained language model whose vocabulary, architecture and weights training begins with; speakers are
    new pieces behind those of its vocabulary"""
    tokenizer: WordsTokenizerConfig = TokenizerConfig()
    """how turns are cut into tokens; with `init` in the same way as that model"""
    model: ConditionalModelConfig = TransformerConfig()
    """the architecture: an encoder and a decoder, or a language model that reads context and reply as one text; with
    `init` the latter, where only dropout can be changed"""
    training: Annotated[ConversationTrainingConfig, FieldRole.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""
    generation: Annotated[ReplyingConfig, FieldRole.FREE] = GreedyContinuationConfig()
    """how the finished model replies unless a command option says otherwise"""

    @classmethod
    def accepts_init(cls, model: Config) -> bool:
        """Return whether the model is a language model."""
        return isinstance(model, DecoderConfig)

    @classmethod
    def wrap_architecture(cls, model: ArchitectureConfig) -> ArchitectureConfig:
        """Wrap a language model so that it reads context and reply as one text."""
        return DecoderOnlyConfig(decoder=model) if isinstance(model, DecoderConfig) else model

    @field_validator("training")
    @classmethod
    def _check_training(cls, training: ConversationTrainingConfig, info: ValidationInfo) -> ConversationTrainingConfig:
        """Return the training config, with REINFORCE settings added if the model samples its attention; reject such
        settings if it does not.
        """
        model = info.data.get("model")
        return (
            training
            if model is None or not is_model_known(info)
            else training.fit_to_attention(is_sampled=model.samples_attention, key="model.reading.weights")
        )

    @field_validator("model")
    @classmethod
    def _check_positions(cls, model: ConditionalModelConfig, info: ValidationInfo) -> ConditionalModelConfig:
        """Reject `learned = "dialogues"` for models with an encoder, and models with fewer positions than a context and
        a reply of `data.max_length` need.
        """
        data, longest = info.data.get("data"), model.length_limit
        if not is_model_known(info):
            return model
        if data is not None and data.learned == "dialogues" and not model.is_single_text:
            raise config_error(
                "data.learned",
                f'= "dialogues" leaves nothing for the encoder of a model of kind "{model.kind}" to read: set it to '
                '"everybody", or model.kind = "decoder_only"',
            )
        if data is None or longest is None:
            return model
        num_positions = model.count_positions(data.max_length, data.max_length)
        if longest.tokens < num_positions:
            raise config_error(
                longest.key,
                f"= {longest.tokens} must be at least {num_positions}, which is what a context and a reply of "
                f"data.max_length = {data.max_length} need",
            )
        return model
