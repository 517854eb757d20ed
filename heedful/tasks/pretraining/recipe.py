"""The recipe of a pre-training run."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from heedful.architectures.stack import EncoderConfig
from heedful.recipes.config import (
    Config,
    FieldRole,
    InputPath,
    PositiveInt,
    Probability,
    add_default_kind,
    config_error,
)
from heedful.recipes.recipe import DataConfig, FineTunableRecipe, is_model_known
from heedful.recipes.text import DocumentsConfig, TokenizerConfig, WordsTokenizerConfig
from heedful.recipes.training import FineTunableTrainingConfig, NonNegativeFloat


class PretrainingDataConfig(DataConfig):
    """Documents for training, for choosing the best checkpoint, and for evaluation."""

    train: DocumentsConfig
    """the documents to learn from"""
    validation: DocumentsConfig
    """the documents that checkpoints are compared on"""
    test: Annotated[DocumentsConfig | None, FieldRole.FREE] = None
    """the documents that `heedful evaluate` takes unless it is given others"""
    max_length: Annotated[int, Field(ge=8), FieldRole.ENCODING] = 128
    """longest passage, in tokens, begin and end tokens included; documents are cut into passages at sentences"""


class MaskingConfig(Config):
    """Which tokens are masked: of those chosen, 80 % become a mask, 10 % a random token, 10 % are kept."""

    kind: Literal["tokens", "words", "spans"] = "tokens"
    """single tokens, whole words, or stretches of words (Joshi et al. 2020)"""
    share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """of all tokens; models are always measured on 15 % of single tokens, so that they can be compared"""


class HiddenTokensConfig(Config):
    """Masked tokens are predicted, as in BERT (Devlin et al. 2019)."""

    kind: Literal["hidden_tokens"] = "hidden_tokens"


class ReplacedTokensConfig(Config):
    """A generator fills masks; the model detects replaced tokens (Clark et al. 2020, ELECTRA).

    The generator has the width of the model and shares its embeddings, but has fewer layers.
    """

    kind: Literal["replaced_tokens"] = "replaced_tokens"
    generator_layers: PositiveInt = 1
    """layers of the small model"""
    weight: NonNegativeFloat = 50.0
    """weight of the detector's loss, relative to the loss of the small model"""


ObjectiveConfig = Annotated[
    HiddenTokensConfig | ReplacedTokensConfig, Field(discriminator="kind"), add_default_kind("hidden_tokens")
]


class PretrainingTrainingConfig(FineTunableTrainingConfig):
    """The training loop; it ends at the first limit reached of `steps`, `epochs` and `minutes`; give at least one."""

    objective: Annotated[ObjectiveConfig, FieldRole.FIXED] = HiddenTokensConfig()
    """what the model predicts about passages with hidden tokens"""
    masking: Annotated[MaskingConfig, FieldRole.FIXED] = MaskingConfig()
    """which tokens are hidden and must be predicted"""
    pairing: Annotated[Literal["next_sentence", "sentence_order", "alone"], FieldRole.FIXED] = "next_sentence"
    """what the second part of a passage is: in half of the cases one from another document, the two parts in the wrong
    order (Lan et al. 2020), or no second part at all (Liu et al. 2019); if not given, "alone" for a model of one
    segment and for replaced_tokens"""
    short: Annotated[Probability, FieldRole.FIXED] = 0.1
    """share of passages that are cut to a random smaller length"""
    monitor: Annotated[Literal["loss", "masked_accuracy"], FieldRole.FIXED] = "loss"
    """metric that selects the best checkpoint on the validation documents: both losses together, or the share of hidden
    tokens that are found"""


class PretrainingRecipe(FineTunableRecipe):
    """Masked tokens are predicted, and whether two passages belong together."""

    made_by: ClassVar = "heedful.tasks.pretraining.task:TASK"
    forms: ClassVar = "heedful.tasks.data_formats:DOCUMENTS"
    body: ClassVar = "encoder"
    heads: ClassVar = ("masked", "relation", "generator", "dense", "verdict")
    required_init: ClassVar = "an encoder"

    task: Literal["pretraining"] = "pretraining"
    """the task to learn"""
    data: PretrainingDataConfig
    """the table [data] names the texts to train and validate on"""
    init: InputPath | None = None
    """folder of a trained encoder whose vocabulary, architecture and weights training goes on with, its heads of
    pre-training among them"""
    tokenizer: WordsTokenizerConfig = TokenizerConfig()
    """how text is cut into tokens; with `init` in the same way as that model"""
    model: EncoderConfig = EncoderConfig()
    """the architecture; with `init` that of the given model, where only dropout can be changed"""
    training: Annotated[PretrainingTrainingConfig, FieldRole.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""

    @classmethod
    def accepts_init(cls, model: Config) -> bool:
        """Return whether the model is an encoder."""
        return isinstance(model, EncoderConfig)

    @field_validator("model")
    @classmethod
    def _check_max_length(cls, model: EncoderConfig, info: ValidationInfo) -> EncoderConfig:
        """Reject models that have fewer positions than `data.max_length`."""
        data, longest = info.data.get("data"), model.length_limit
        if data is not None and longest is not None and is_model_known(info) and longest.tokens < data.max_length:
            raise config_error(longest.key, f"= {longest.tokens} must not be below data.max_length = {data.max_length}")
        return model

    @field_validator("training")
    @classmethod
    def _check_pairing(cls, training: PretrainingTrainingConfig, info: ValidationInfo) -> PretrainingTrainingConfig:
        """Choose passages without a second part for objectives that only detect replaced tokens, and for models with
        fewer than two segments; reject other values of `pairing` for these.
        """
        model = info.data.get("model")
        only_detects = training.objective.kind == "replaced_tokens"
        has_one_segment = model is not None and is_model_known(info) and model.segments < 2
        if "pairing" not in training.model_fields_set and (only_detects or has_one_segment):
            return training.model_copy(update={"pairing": "alone"})
        if training.pairing == "alone":
            return training
        if only_detects:
            raise config_error(
                "training.pairing",
                f'= "{training.pairing}" needs passages, but training.objective.kind = "replaced_tokens" judges '
                'only single tokens: set training.pairing = "alone"',
            )
        if model is not None and has_one_segment:
            raise config_error(
                "model.segments",
                f"= {model.segments} cannot distinguish two parts: set model.segments = 2 or training.pairing = "
                '"alone"',
            )
        return training
