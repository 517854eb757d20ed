"""Configuration of translation runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from heedful.architectures.interface import TiedArchitecture, TranslationArchitecture
from heedful.architectures.model import ModelConfig, TransformerConfig
from heedful.recipes import toml
from heedful.recipes.config import Config, FieldRole, InputPath, PositiveInt, Probability, config_error
from heedful.recipes.generation import BeamConfig, GenerationConfig
from heedful.recipes.parallel_data import (
    DirectedTextConfig,
    MixedTextConfig,
    SeveralTextsConfig,
    TranslationDirection,
    TranslationTextConfig,
    compute_epoch_tokens,
    format_language_tag,
    list_texts,
)
from heedful.recipes.recipe import DataConfig, FineTunableRecipe, dump_text_settings
from heedful.recipes.text import GivenPairConfig, TokenizerConfig, infer_tokenizer_kind
from heedful.recipes.training import DecoderTrainingConfig, FineTunableTrainingConfig, NonNegativeFloat, PositiveFloat

if TYPE_CHECKING:
    from heedful.data.readers import ExampleReader, SentencePair


class DocumentContextConfig(Config):
    """Read previous sentences of the document with each source (Tiedemann and Scherrer 2017); an empty line ends a
    document, in both files if there are two, and so does another name in `document_column` or `document_field`.
    """

    sentences: PositiveInt = 1
    """maximum number of previous sentences; the earliest are cut if all together are longer than `data.max_length`"""


class TranslationDataConfig(DataConfig):
    """Parallel text for training, validation and testing."""

    train: DirectedTextConfig
    """the parallel text to learn from"""
    validation: DirectedTextConfig
    """the parallel text that checkpoints are compared on"""
    test: Annotated[DirectedTextConfig | None, FieldRole.FREE] = None
    """the parallel text that `heedful evaluate` takes unless it is given another"""
    rehearse: MixedTextConfig | None = None
    """parallel text that is mixed into the training text, such as the training text of `init`, so that it is not
    forgotten; an epoch is one pass over `train`, with as much of this text as its `share` says"""
    max_length: Annotated[int, Field(ge=1), FieldRole.ENCODING] = 256
    """longest sentence, in tokens, end token and tags included; pairs with a longer side are left out of
    training"""
    context: DocumentContextConfig | None = None
    """sentences of its document that are read with each source; none if not given"""

    @classmethod
    def migrate(cls, _: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Migrate older recipes, in which each sentence was read by itself."""
        return {"context": None}

    @model_validator(mode="after")
    def _check_languages(self) -> Self:
        """Check that all training texts name their languages if one does, and that other texts use only trained
        languages and tags.
        """
        target_languages, tags = (
            _list_target_languages(self._training_texts.values()),
            _list_tags(self._training_texts.values()),
        )
        for key, text in self._training_texts.items():
            if target_languages and text.target_language is None:
                problem = f"is not given, but other texts are in {', '.join(target_languages)}: give it too"
                raise config_error(f"data.{key}.target_language", problem)
        for key, text in self._training_texts.items():
            if text.references:
                raise config_error(
                    f"data.{key}.references", "have no effect there: they belong to the texts for validation and test"
                )
        for part in ("validation", "test"):
            for key, text in list_texts(getattr(self, part), part).items():
                for target in (direction.target for direction in text.directions if len(target_languages) > 1):
                    if target not in target_languages:
                        problem = (
                            f"is {target or 'not given'}, but the training text is in {', '.join(target_languages)}"
                        )
                        raise config_error(f"data.{key}.target_language", f"{problem}: give one of these")
                for name in ("alignments", "sentence_weights"):
                    if getattr(text, name) is not None:
                        raise config_error(
                            f"data.{key}.{name}", "have no effect there: they belong to the training text"
                        )
                if unknown := [tag for tag in text.tags if tag not in tags]:
                    raise config_error(f"data.{key}.tags", f"has {unknown[0]}, which no training text has")
        return self

    @model_validator(mode="after")
    def _check_separator(self) -> Self:
        """Check that no tag equals the separator of context sentences."""
        for key, text in self._training_texts.items():
            if conflicts := set(self._separators).intersection(text.tags):
                problem = f"has {min(conflicts)}, which separates the sentences of data.context: choose another word"
                raise config_error(f"data.{key}.tags", problem)
        return self

    @property
    def context_size(self) -> int:
        """Maximum number of previous sentences that are read with a source."""
        return 0 if self.context is None else self.context.sentences

    @property
    def languages(self) -> tuple[str, ...]:
        """Target languages that are chosen by a tag; empty if there is at most one."""
        target_languages = _list_target_languages(self._training_texts.values())
        return target_languages if len(target_languages) > 1 else ()

    def find_target_language(self, part: str) -> str | None:
        """Return the target language of all texts of a part; None if the recipe does not name it, or names several."""
        tables = self.get_tables(part)
        texts = [text for key, table in tables.items() for text in list_texts(table, key).values()]
        languages = {direction.target for text in texts for direction in text.directions}
        return languages.pop() if len(languages) == 1 else None

    @property
    def training_directions(self) -> tuple[TranslationDirection, ...]:
        """The direction of each training text, and both of a text that is used both ways."""
        return tuple(direction for text in self._training_texts.values() for direction in text.directions)

    @property
    def directed_readers(self) -> Sequence[tuple[TranslationDirection, ExampleReader[SentencePair]]]:
        """Direction and reader of each training text whose languages are both named."""
        texts = [
            (text.directions[0], text.build_readers(key, add_language_tag=False))
            for key, text in self._training_texts.items()
        ]
        return [
            (direction, next(iter(pairs.values())))
            for direction, pairs in texts
            if direction.source and direction.target
        ]

    @property
    def tags(self) -> tuple[str, ...]:
        """All tags that may stand before a source: language tags first, the separator of context sentences last."""
        return (
            *map(format_language_tag, self.languages),
            *_list_tags(self._training_texts.values()),
            *self._separators,
        )

    @property
    def has_alignments(self) -> bool:
        """Whether some training text has word alignments."""
        return any(text.alignments is not None for text in self._training_texts.values())

    @property
    def has_weights(self) -> bool:
        """Whether the pairs of some training text have weights."""
        return any(text.sentence_weights is not None for text in self._training_texts.values())

    @property
    def labelled_keys(self) -> Sequence[str]:
        """Keys of texts whose source words have labels in a file."""
        tables = {**self.get_tables("train"), "validation": self.validation, "test": self.test}
        texts = (list_texts(table, key).items() for key, table in tables.items())
        return [key for key, text in chain.from_iterable(texts) if text.factors is not None]

    def get_tables(self, part: str) -> Mapping[str, TranslationTextConfig | SeveralTextsConfig]:
        """Return the tables with the texts of a part by key, with the rehearsed text if the part is "train"."""
        tables = {part: getattr(self, part)}
        return tables if part != "train" or self.rehearse is None else {**tables, "rehearse": self.rehearse}

    def reader(self, part: str) -> ExampleReader[SentencePair]:
        """Return a reader of all texts of a part, without rehearsed text."""
        from heedful.data.readers import ConcatenatedReader

        readers = list(self._build_readers({part: getattr(self, part)}).values())
        return readers[0] if len(readers) == 1 else ConcatenatedReader(readers)

    def readers(self, part: str) -> Mapping[str, ExampleReader[SentencePair]]:
        """Return a reader for each text of a part in each direction, by key, rehearsed text included."""
        return self._build_readers(self.get_tables(part))

    def compute_epoch_tokens(self, part: str, tokens: Sequence[int]) -> Sequence[float]:
        """Return how many tokens of each text of a part an epoch has: by weights and temperature, and for rehearsed
        texts by their share. `tokens` are the sizes of the texts, rehearsed ones last.
        """
        num_rehearsed = len(self.rehearse.directions) if part == "train" and self.rehearse is not None else 0
        own_tokens, rehearsed = tokens[: len(tokens) - num_rehearsed], tokens[len(tokens) - num_rehearsed :]
        amounts = list(compute_epoch_tokens(getattr(self, part), own_tokens))
        if self.rehearse is not None and rehearsed:
            rehearsed_amount = sum(own_tokens) / (1 - self.rehearse.share) * self.rehearse.share
            amounts += [rehearsed_amount * count / sum(rehearsed) for count in rehearsed]
        return amounts

    def list_settings(self, part: str) -> Sequence[str]:
        """Return the settings that the encoding of a part depends on: those of its texts, the target languages and
        the context.
        """
        texts_of_tables = (list_texts(table, key) for key, table in self.get_tables(part).items())
        context = [] if self.context is None else [self.context.model_dump_json()]
        return [
            *(dump_text_settings(text) for texts in texts_of_tables for text in texts.values()),
            *self.languages,
            *context,
        ]

    @property
    def _separators(self) -> tuple[str, ...]:
        """Separator of context sentences, if they are read."""
        if self.context is None:
            return ()
        from heedful.data.context import CONTEXT_SEPARATOR

        return (CONTEXT_SEPARATOR,)

    @property
    def _training_texts(self) -> Mapping[str, TranslationTextConfig]:
        """Training texts by the keys of their tables."""
        tables = self.get_tables("train")
        return dict(chain.from_iterable(list_texts(table, key).items() for key, table in tables.items()))

    def _build_readers(
        self, tables: Mapping[str, TranslationTextConfig | SeveralTextsConfig]
    ) -> Mapping[str, ExampleReader[SentencePair]]:
        """Build a reader for each text of these tables in each direction, by key."""
        tags_languages = bool(self.languages)
        readers: dict[str, ExampleReader[SentencePair]] = {}
        for name, table in tables.items():
            for key, text in list_texts(table, name).items():
                readers.update(text.build_readers(key, add_language_tag=tags_languages, context=self.context_size))
        return readers


def _list_target_languages(texts: Iterable[TranslationTextConfig]) -> tuple[str, ...]:
    """List the target languages of texts, each once, in their order."""
    return tuple(
        dict.fromkeys(
            direction.target for text in texts for direction in text.directions if direction.target is not None
        )
    )


def _list_tags(texts: Iterable[TranslationTextConfig]) -> tuple[str, ...]:
    """List the tags of texts, each once."""
    return tuple(dict.fromkeys(tag for text in texts for tag in text.tags))


class CaseFactorConfig(Config):
    """Factor for the case of each run of letters (lower, Title, UPPER or mixed); sources are lowercased, so that
    "The" and "the" share their pieces.
    """

    kind: Literal["case"] = "case"


class GivenFactorConfig(Config):
    """Factor for a label of each source word, such as its part of speech, given in a separate file
    (`data.train.factors`) or after the word with U+FFE8 between.
    """

    kind: Literal["given"] = "given"


FactorConfig = Annotated[
    CaseFactorConfig | GivenFactorConfig,
    Field(discriminator="kind"),
]


class GuidedConfig(Config):
    """Training of one attention with word alignments (Chen et al. 2016; one head of a Transformer: Garg et al.
    2019) from the file `data.train.alignments`.
    """

    weight: PositiveFloat = 0.1
    """weight of the cross entropy between attention and links, added to the likelihood of the targets"""
    layer: Annotated[int, Field(ge=0)] | None = None
    """the decoder's layer whose attention to the source is guided, counted from 0; the last if not given"""
    head: Annotated[int, Field(ge=0)] | Literal["mean"] = 0
    """the head of that layer that is guided, counted from 0, or the mean of all heads"""


class PairTokenizerConfig(TokenizerConfig):
    """Tokenization of both languages, learned from the training text deterministically."""

    target: TokenizerConfig | None = None
    """how the target language is cut into tokens if it differs, as phonemes between spaces differ from letters"""
    joint: bool = Field(default_factory=lambda given: given.get("target") is None)
    """one vocabulary for both languages, or one for each; true if not given, unless there is a `target`"""

    @field_validator("joint")
    @classmethod
    def _check_joint(cls, joint: bool, info: ValidationInfo) -> bool:
        """Check that a joint vocabulary has no separate target tokenizer."""
        if joint and info.data.get("target") is not None:
            raise ValueError("must be false where tokenizer.target cuts one of the languages in another way")
        return joint

    @property
    def target_config(self) -> TokenizerConfig:
        """Tokenizer configuration of the target."""
        return self.target or self


VocabulariesConfig = Annotated[PairTokenizerConfig | GivenPairConfig, Field(discriminator="kind"), infer_tokenizer_kind]


class TranslationTrainingConfig(FineTunableTrainingConfig, DecoderTrainingConfig):
    """The training loop, which ends at the first of `steps`, `epochs` and `minutes`; at least one is required."""

    stacks: ClassVar = ("encoder", "decoder")

    subword_sampling: Annotated[Probability, FieldRole.FIXED] = 0.0
    """other pieces of the training text in each epoch, drawn at random; 0 is none. With `tokenizer.kind = "bpe"` the
    probability of leaving out a merge (BPE-dropout; 0.1 in the paper), with `"unigram"` the exponent of the
    probabilities of splits (Kudo 2018; 0.1 to 0.5)"""
    dropout_source: Annotated[Probability, FieldRole.FIXED] = 0.0
    """share of the source tokens whose embeddings are dropped as a whole in each update (Sennrich et al. 2016)"""
    dropout_target: Annotated[Probability, FieldRole.FIXED] = 0.0
    """share of the target tokens whose embeddings are dropped as a whole where the decoder reads them"""
    decorrelation: Annotated[NonNegativeFloat, FieldRole.FIXED] = 0.0
    """weight of the penalty |A A^T - I|^2 on attention weights that look alike"""
    guided: Annotated[GuidedConfig | None, FieldRole.FIXED] = None
    """one attention that learns to follow the links of `data.train.alignments`, so that word links are better"""
    judge: Annotated[InputPath | None, FieldRole.FIXED] = None
    """folder of the learned metric for `monitor` = "judge", as `heedful evaluate --judge` reads it"""
    monitor: Annotated[Literal["loss", "accuracy", "bleu", "chrf", "ter", "judge"], FieldRole.FIXED] = "loss"
    """metric that selects the best checkpoint on the validation text: the likelihood, how often the right token is the
    most probable one, or BLEU, chrF, TER (lower is better) or a learned metric of greedy translations"""

    @field_validator("monitor")
    @classmethod
    def _check_judge(cls, monitor: str, info: ValidationInfo) -> str:
        """Check that a learned metric is given if and only if it is monitored."""
        if "judge" in info.data and (monitor == "judge") != (info.data["judge"] is not None):
            raise (
                config_error("training.judge", 'is missing: training.monitor = "judge" needs the folder of a judge')
                if monitor == "judge"
                else config_error("training.judge", 'has no effect: give training.monitor = "judge", or leave it out')
            )
        return monitor


class TranslationRecipe(FineTunableRecipe):
    """Recipe of a translation model."""

    made_by: ClassVar = "heedful.tasks.translation.task:TASK"
    shown_by: ClassVar = "heedful.tasks.translation.demonstration:TranslationDemonstration"
    forms: ClassVar = "heedful.tasks.data_formats:PARALLEL_TEXT"
    auto_keys: ClassVar = (
        "tokenizer.size",
        *(f"model.{key}" for key in ("d_model", "heads", "d_ff", "encoder_layers", "decoder_layers")),
        *(f"model.{key}" for key in ("dropout", "residual", "positions")),
        *(f"training.{key}" for key in ("batch_tokens", "schedule", "monitor", "evaluate_every")),
    )

    body: ClassVar = ""
    required_init: ClassVar = "a model that translates"
    allows_new_vocabulary: ClassVar = True

    task: Literal["translation"] = "translation"
    """the task to learn"""
    data: TranslationDataConfig
    """the table [data] names the texts to train and validate on"""
    init: InputPath | None = None
    """folder of a trained model whose vocabulary, architecture and weights training begins with"""
    tokenizer: VocabulariesConfig = PairTokenizerConfig()
    """how text is cut into tokens; with `init` in the same way as that model, unless this table is given: then a
    vocabulary is learned anew, and its pieces begin with what that model knows of them"""
    model: ModelConfig = TransformerConfig()
    """the architecture; with `init` that of the given model, where only dropout can be changed"""
    factors: dict[str, FactorConfig] = Field(default_factory=dict)
    """further features of source words, as in [factors.case] or [factors.pos]; each has a table of
    vectors that are added to those of the words. The names are free, and `kind` says what the feature is"""
    training: Annotated[TranslationTrainingConfig, FieldRole.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""
    generation: Annotated[GenerationConfig, FieldRole.FREE] = BeamConfig()
    """how the finished model translates unless a command option says otherwise"""

    @property
    def needs_fitting(self) -> bool:
        """Whether model size or learning rate are left to be chosen: of a new Transformer both, of a given model
        the rate only.
        """
        if self.init is not None:
            return not self.training.has_schedule
        return isinstance(self.model, TransformerConfig) and not (self.model.has_size and self.training.has_schedule)

    @classmethod
    def accepts_init(cls, model: Config) -> bool:
        """Return whether training can start from a model: any encoder-decoder."""
        return isinstance(model, TranslationArchitecture)

    def find_risks(self, prefix: str) -> Iterator[str]:
        """Yield a warning if new vocabulary pieces are frozen; `prefix` stands before the keys in it."""
        new_vocabulary = "tokenizer" in self.model_fields_set and isinstance(self.tokenizer, TokenizerConfig)
        if self.init is not None and new_vocabulary and self.training.freeze:
            yield (
                f"{prefix}training.freeze = {toml.format_value(self.training.freeze)} keeps the initial values of new "
                f"pieces of the vocabulary; leave it out, or the table [{prefix}tokenizer]"
            )

    @field_validator("factors")
    @classmethod
    def _check_factors(cls, factors: Mapping[str, FactorConfig], info: ValidationInfo) -> Mapping[str, FactorConfig]:
        """Check the names of factors, and that the model and the data support them."""
        model, data = info.data.get("model"), info.data.get("data")
        if invalid := [name for name in factors if not re.fullmatch(r"\w+", name, re.ASCII)]:
            raise config_error(
                "factors", f"has {invalid[0]!r}, which is not a name of letters, digits and _: choose another one"
            )
        if factors and info.data.get("init") is not None:
            raise config_error(
                "factors",
                "are learned from the beginning, but init continues with a trained model: leave one of them out",
            )
        if factors and model is not None and not model.supports_factors:
            raise config_error("factors", f'cannot be read by a model of kind "{model.kind}": leave them out')
        if data is not None and not any(isinstance(factor, GivenFactorConfig) for factor in factors.values()):
            for key in data.labelled_keys:
                problem = 'are labels that no factor reads: give a table such as [factors.pos] with kind = "given"'
                raise config_error(f"data.{key}.factors", problem)
        return factors

    @field_validator("training")
    @classmethod
    def _check_training(cls, training: TranslationTrainingConfig, info: ValidationInfo) -> TranslationTrainingConfig:
        """Reject guided attention without word alignments and the reverse, guided attention that is sampled, and
        decorrelation without heads; return the options adapted to sampled attention.
        """
        model, data = info.data.get("model"), info.data.get("data")
        if model is None:
            return training
        if training.subword_sampling and (training.guided is not None or info.data.get("factors")):
            other = "factors" if training.guided is None else "training.guided"
            problem = f"does not support {other}, which belongs to fixed pieces: leave one of them out"
            raise config_error("training.subword_sampling", problem)
        if data is not None and data.has_alignments != (training.guided is not None):
            raise (
                config_error("training.guided", "needs word links to learn from: give data.train.alignments")
                if training.guided is not None
                else config_error(
                    "data.train.alignments", "are used only by training.guided: give that too, or leave them out"
                )
            )
        if training.guided is not None and (model.samples_attention or training.reinforce is not None):
            raise config_error(
                "training.guided", "does not support attention that is sampled: leave training.guided out"
            )
        if info.data.get("init", ...) is not None:  # which may have another model
            return training.fit_to_attention(
                is_sampled=model.samples_attention or training.reinforce is not None, key="model.reading.weights"
            )
        if training.decorrelation and not model.has_heads:
            raise config_error(
                "training.decorrelation",
                f"= {training.decorrelation} makes attention heads differ, but a model of kind "
                f'"{model.kind}" has no heads: set training.decorrelation = 0',
            )
        return training.fit_to_attention(is_sampled=model.samples_attention, key="model.reading.weights")

    @field_validator("model")
    @classmethod
    def _check_model(cls, model: ModelConfig, info: ValidationInfo) -> ModelConfig:
        """Reject three-way tied embeddings and copying without a joint vocabulary, and a maximum length above the
        model's own; a model that is given by `init` is not checked.
        """
        tokenizer, data = info.data.get("tokenizer"), info.data.get("data")
        if info.data.get("init", ...) is not None:  # which may have another one
            return model
        is_separate = isinstance(tokenizer, PairTokenizerConfig) and not tokenizer.joint
        if is_separate and isinstance(model, TiedArchitecture) and model.shares_embeddings:
            raise config_error(
                "model.tie",
                f'= "{model.tie}" needs one vocabulary for both languages: set model.tie = "two_way" or '
                "tokenizer.joint = true",
            )
        if is_separate and model.copies_source:
            raise config_error(
                "model.copy",
                "= true needs one vocabulary for both languages: set tokenizer.joint = true or model.copy = false",
            )
        limit = model.length_limit
        if data is not None and limit is not None:
            limit.require_above(data.max_length, "a sentence")
        return model
