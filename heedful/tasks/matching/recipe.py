"""Recipe of text matching."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from heedful.architectures.model import TaggerConfig
from heedful.architectures.stack import EncoderConfig
from heedful.recipes.config import FieldRole, PositiveInt
from heedful.recipes.parallel_data import ParallelTextConfig
from heedful.recipes.text import TokenizerConfig, WordsTokenizerConfig
from heedful.recipes.training import FineTuningTrainingConfig, NonNegativeFloat, PositiveFloat
from heedful.tasks.fine_tuning import FineTuningDataConfig, FineTuningRecipe


class MatchingDataConfig(FineTuningDataConfig):
    """Pairs of texts with the same meaning: translations, questions and answers, titles and texts."""

    train: ParallelTextConfig
    """the pairs to learn from"""
    validation: ParallelTextConfig
    """the pairs that checkpoints are compared on"""
    test: Annotated[ParallelTextConfig | None, FieldRole.FREE] = None
    """the pairs that `heedful evaluate` takes"""
    examples: PositiveInt | None = None
    """number of pairs in train that are used, drawn by the seed; a smaller number is a subset of a larger one; all if
    not given"""
    max_length: Annotated[int, Field(ge=3), FieldRole.ENCODING] = 128
    """longest text, in tokens, begin and end tokens included; of longer texts only the beginning is read"""


class MatchingTrainingConfig(FineTuningTrainingConfig):
    """The training loop; it ends at the first limit reached of `steps`, `epochs` and `minutes`; give at least one."""

    pairs: Annotated[Annotated[int, Field(ge=2)], FieldRole.FIXED] = 256
    """pairs in a batch: each text is compared with all others; more are harder, and better. Texts are not compared
    across batches that `accumulate` joins, nor across the shares of several processes"""
    batch_tokens: Annotated[PositiveInt, FieldRole.FIXED] = 4096
    """tokens that are read at one time, padding included: a batch is read in pieces of like lengths"""
    temperature: Annotated[PositiveFloat, FieldRole.FIXED] = 0.05
    """the number that cosines are divided by, at the start"""
    learn_temperature: Annotated[bool, FieldRole.FIXED] = True
    """whether the temperature is learned, down to 0.01 (Radford et al. 2021, 2.4), or stays as it is"""
    margin: Annotated[NonNegativeFloat, FieldRole.FIXED] = 0.0
    """by how much a text must be closer to its own than to any other (Yang et al. 2019, eq. 5)"""
    monitor: Annotated[Literal["loss", "recall"], FieldRole.FIXED] = "loss"
    """metric that selects the best checkpoint on the validation text: the loss, or how often the closest text is the
    right one"""


class MatchingRecipe(FineTuningRecipe):
    """Texts of the same meaning are embedded close together, in any language."""

    made_by: ClassVar = "heedful.tasks.matching.task:TASK"
    shown_by: ClassVar = "heedful.tasks.matching.demonstration:MatchingDemonstration"
    forms: ClassVar = "heedful.tasks.data_formats:TEXT_PAIRS"

    task: Literal["matching"] = "matching"
    """the task to learn"""
    data: MatchingDataConfig
    """the table [data] names the texts to train and validate on"""
    tokenizer: WordsTokenizerConfig = TokenizerConfig()
    """how the texts of both sides are cut into tokens, by one vocabulary; with `init` as that model does"""
    model: TaggerConfig = EncoderConfig()
    """the architecture: one encoder for both sides; with `init` that of the given model, where only dropout can be
    changed"""
    training: Annotated[MatchingTrainingConfig, FieldRole.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""
