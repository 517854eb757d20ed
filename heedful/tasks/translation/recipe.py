"""What a translation run is, as data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from heedful.architectures.interface import TranslationArchitecture
from heedful.architectures.model import ModelConfig, TransformerConfig
from heedful.recipes import toml
from heedful.recipes.directed import (
    Directed,
    DirectedTextConfig,
    Direction,
    MixedTextConfig,
    SeveralConfig,
    language_tag,
    mixed,
    named_texts,
)
from heedful.recipes.generation import BeamConfig, GenerationConfig
from heedful.recipes.recipe import DataConfig, TunedRecipe, settings_of
from heedful.recipes.section import Count, InputPath, Mark, Section, default_kind, misfit
from heedful.recipes.text import GivenPairConfig, TokenizerConfig
from heedful.recipes.training import Positive, TunedTrainingConfig, Weight, WritingTrainingConfig

if TYPE_CHECKING:
    from heedful.data.readers import Pair, Reader


class DocumentContextConfig(Section):
    """Sentences before a source in its document are read with it (Tiedemann and Scherrer 2017); an empty line ends a
    document, in both files where there are two, and so does another name in `document_column` or `document_field`."""

    sentences: Count = 1
    """how many of them at most; they are cut at the far end where all would be longer than `data.max_length`"""


class TranslationDataConfig(DataConfig):
    """Parallel text to train on, to choose the best checkpoint by, and to report a score of."""

    train: DirectedTextConfig
    """the parallel text to learn from"""
    validation: DirectedTextConfig
    """the parallel text that checkpoints are compared on"""
    test: Annotated[DirectedTextConfig | None, Mark.FREE] = None
    """the parallel text that `heedful evaluate` takes unless it is given another"""
    rehearse: MixedTextConfig | None = None
    """parallel text that is mixed into what is learned from, such as that which `init` learned from, lest it be
    forgotten; an epoch is one pass over `train`, with as much of this text as its `share` says"""
    max_length: Annotated[int, Field(ge=1), Mark.ENCODES] = 256
    """longest sentence, in tokens with the one that ends it and with tags; pairs with a longer side are left out of
    training"""
    context: DocumentContextConfig | None = None
    """what of its document is read with each source; nothing unless given"""

    @classmethod
    def formerly(cls, _: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Each sentence was read by itself."""
        return {"context": None}

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        """All texts that are learned from say their languages if one does; others want nothing that is not learned."""
        written, tags = _written(self._learned.values()), _tags(self._learned.values())
        for key, text in self._learned.items():
            if written and text.target_language is None:
                told = f"is not given, and other texts are of {', '.join(written)}: give it too"
                raise misfit(f"data.{key}.target_language", told)
        for part in ("validation", "test"):
            for key, text in named_texts(getattr(self, part), part).items():
                for target in (each.target for each in text.directions if len(written) > 1):
                    if target not in written:
                        told = f"is {target or 'not given'}, and what is learned from is of {', '.join(written)}"
                        raise misfit(f"data.{key}.target_language", f"{told}: give one of these")
                if text.alignments is not None:
                    raise misfit(f"data.{key}.alignments", "teach nothing there: they belong to what is learned from")
                if unknown := [tag for tag in text.tags if tag not in tags]:
                    raise misfit(f"data.{key}.tags", f"has {unknown[0]}, which no text has that is learned from")
        return self

    @model_validator(mode="after")
    def _parted(self) -> Self:
        """What stands between sentences is nobody's tag."""
        for key, text in self._learned.items():
            if between := set(self._between).intersection(text.tags):
                told = f"has {min(between)}, which stands between the sentences of data.context: choose another word"
                raise misfit(f"data.{key}.tags", told)
        return self

    @property
    def sentences(self) -> int:
        """How many before a source are read with it, at most."""
        return 0 if self.context is None else self.context.sentences

    @property
    def languages(self) -> tuple[str, ...]:
        """Those that a model is asked for by a tag; none where there is at most one to be written."""
        written = _written(self._learned.values())
        return written if len(written) > 1 else ()

    @property
    def spoken(self) -> Sequence[tuple[Direction, Reader[Pair]]]:
        """What is learned from of which both languages are named."""
        texts = [(text.directions[0], text.pairs(key, asked=False)) for key, text in self._learned.items()]
        return [(first, next(iter(pairs.values()))) for first, pairs in texts if first.source and first.target]

    @property
    def tags(self) -> tuple[str, ...]:
        """All pieces that may stand before a source, those that ask for languages first; what parts sentences last."""
        return (*map(language_tag, self.languages), *_tags(self._learned.values()), *self._between)

    @property
    def is_aligned(self) -> bool:
        """Whether links of words are known of some of what is learned from."""
        return any(text.alignments is not None for text in self._learned.values())

    @property
    def labelled(self) -> Sequence[str]:
        """The keys of texts whose source words have labels in a file."""
        tables = {**self.tables("train"), "validation": self.validation, "test": self.test}
        found = (named_texts(table, key).items() for key, table in tables.items())
        return [key for key, text in chain.from_iterable(found) if text.factors is not None]

    def tables(self, part: str) -> Mapping[str, Directed | SeveralConfig]:
        """With what is rehearsed, of the training text."""
        own = {part: getattr(self, part)}
        return own if part != "train" or self.rehearse is None else {**own, "rehearse": self.rehearse}

    def reader(self, part: str) -> Reader[Pair]:
        """All texts of a part, without what is rehearsed."""
        from heedful.data.composed import Chained

        own = list(self._readers({part: getattr(self, part)}).values())
        return own[0] if len(own) == 1 else Chained(own)

    def readers(self, part: str) -> Mapping[str, Reader[Pair]]:
        """Every text of a part in each of its directions, and what is rehearsed."""
        return self._readers(self.tables(part))

    def amounts(self, part: str, tokens: Sequence[int]) -> Sequence[float]:
        """As weights and temperature say, and as much as is to be rehearsed on top."""
        behind = len(self.rehearse.directions) if part == "train" and self.rehearse is not None else 0
        own, rehearsed = tokens[: len(tokens) - behind], tokens[len(tokens) - behind :]
        found = list(mixed(getattr(self, part), own))
        if self.rehearse is not None and rehearsed:
            whole = sum(own) / (1 - self.rehearse.share) * self.rehearse.share
            found += [whole * count / sum(rehearsed) for count in rehearsed]
        return found

    def settings(self, part: str) -> Sequence[str]:
        """Those of each text, and what the texts of all parts together decide: whether languages are asked for; with
        the context.
        """
        found = (named_texts(table, key) for key, table in self.tables(part).items())
        context = [] if self.context is None else [self.context.model_dump_json()]
        return [*(settings_of(text) for texts in found for text in texts.values()), *self.languages, *context]

    @property
    def _between(self) -> tuple[str, ...]:
        """The piece that parts a sentence from those before it, where these are read."""
        if self.context is None:
            return ()
        from heedful.data.context import SEPARATOR

        return (SEPARATOR,)

    @property
    def _learned(self) -> Mapping[str, Directed]:
        """The texts that are learned from, by the keys of their tables."""
        tables = self.tables("train")
        return dict(chain.from_iterable(named_texts(table, key).items() for key, table in tables.items()))

    def _readers(self, tables: Mapping[str, Directed | SeveralConfig]) -> Mapping[str, Reader[Pair]]:
        asked = bool(self.languages)
        found: dict[str, Reader[Pair]] = {}
        for name, table in tables.items():
            for key, text in named_texts(table, name).items():
                found.update(text.pairs(key, asked=asked, context=self.sentences))
        return found


def _written(texts: Iterable[Directed]) -> tuple[str, ...]:
    """The languages that texts are translated into, each once, in their order."""
    return tuple(dict.fromkeys(each.target for text in texts for each in text.directions if each.target is not None))


def _tags(texts: Iterable[Directed]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tag for text in texts for tag in text.tags))


class CaseFactorConfig(Section):
    """The case of each run of letters, lower, Title, UPPER or mixed, beside its pieces; sources are read in lower case,
    so that "The" and "the" share theirs."""

    kind: Literal["case"] = "case"


class GivenFactorConfig(Section):
    """A label beside each source word, such as its part of speech: in a file of its own (`data.train.factors`), or
    behind the word with U+FFE8 between."""

    kind: Literal["given"] = "given"


FactorConfig = Annotated[
    CaseFactorConfig | GivenFactorConfig,
    Field(discriminator="kind"),
]


class GuidedConfig(Section):
    """One attention learns to look where links of words say (Chen et al. 2016; one head of a Transformer: Garg et al.
    2019); the training text has a file of them, `data.train.alignments`."""

    weight: Positive = 0.1
    """of the cross entropy between the attention and the links, beside the likelihood of the targets"""
    layer: Annotated[int, Field(ge=0)] | None = None
    """the decoder's layer whose attention to the source is guided, counted from 0; the last if not given"""
    head: Annotated[int, Field(ge=0)] | Literal["mean"] = 0
    """its head that is guided, counted from 0, or the mean of all of them"""


class PairTokenizerConfig(TokenizerConfig):
    """How both languages are cut into tokens; learned from the training text, always the same way."""

    target: TokenizerConfig | None = None
    """how the language that is written is cut, where it is otherwise: letters that become phonemes between spaces"""
    joint: bool = Field(default_factory=lambda given: given.get("target") is None)
    """one vocabulary for both languages, or one for each; true if not given, unless there is a `target`"""

    @field_validator("joint")
    @classmethod
    def _one_way(cls, joint: bool, info: ValidationInfo) -> bool:
        if joint and info.data.get("target") is not None:
            raise ValueError("must be false where tokenizer.target cuts one of the languages in another way")
        return joint

    @property
    def written(self) -> TokenizerConfig:
        """How the target is cut."""
        return self.target or self


VocabulariesConfig = Annotated[PairTokenizerConfig | GivenPairConfig, Field(discriminator="kind"), default_kind("bpe")]


class TranslationTrainingConfig(TunedTrainingConfig, WritingTrainingConfig):
    """The training loop; whichever of `steps`, `epochs` and `minutes` is over first ends it; give at least one."""

    stacks: ClassVar = ("encoder", "decoder")

    decorrelation: Annotated[Weight, Mark.FIXED] = 0.0
    """weight of the penalty |A A^T - I|^2 on attention weights that look alike"""
    guided: Annotated[GuidedConfig | None, Mark.FIXED] = None
    """one attention that learns to look where `data.train.alignments` says, so that links of words are better"""
    monitor: Annotated[Literal["loss", "accuracy", "bleu"], Mark.FIXED] = "loss"
    """what finds the best checkpoint on the validation text: the likelihood, how often the right token is the most
    probable one, or BLEU of greedy translations"""


class TranslationRecipe(TunedRecipe):
    """Sentences become other sentences."""

    made_by: ClassVar = "heedful.tasks.translation.run:KIND"
    shown_by: ClassVar = "heedful.tasks.translation.demonstration:TranslationDemonstration"
    forms: ClassVar = "heedful.tasks.translation.forms:FORMS"
    fitted: ClassVar = (
        "tokenizer.size",
        *(f"model.{key}" for key in ("d_model", "heads", "d_ff", "encoder_layers", "decoder_layers")),
        *(f"model.{key}" for key in ("dropout", "residual", "positions")),
        *(f"training.{key}" for key in ("batch_tokens", "schedule", "monitor", "evaluate_every")),
    )

    body: ClassVar = ""
    origin: ClassVar = "a model that translates"
    relearns: ClassVar = True

    task: Literal["translation"] = "translation"
    """what is learned"""
    data: TranslationDataConfig
    """the table [data] names the texts to train and validate on"""
    init: InputPath | None = None
    """folder of a trained model whose vocabulary, architecture and weights training begins with"""
    tokenizer: VocabulariesConfig = PairTokenizerConfig()
    """how text is cut into tokens; with `init` as that model does, unless this table is given: then a vocabulary is
    learned anew, and its pieces begin with what that model knows of them"""
    model: ModelConfig = TransformerConfig()
    """the architecture; with `init` that of that model, of which nothing but dropout can be changed"""
    factors: dict[str, FactorConfig] = Field(default_factory=dict)
    """what is known of source words besides which they are, as in [factors.case] or [factors.pos]; each has a table of
    vectors that are added to those of the words. The names are free, and `kind` says what is known"""
    training: Annotated[TranslationTrainingConfig, Mark.FREE]
    """the table [training] says at least when training ends, as in steps = 10000"""
    generation: Annotated[GenerationConfig, Mark.FREE] = BeamConfig()
    """how the finished model translates unless a command is told otherwise"""

    @property
    def is_open(self) -> bool:
        """Where a Transformer is to be trained, and nobody says how large it is, or how fast it learns; of a model that
        is there already the latter alone, whatever its family."""
        if self.init is not None:
            return not self.training.paced
        return isinstance(self.model, TransformerConfig) and not (self.model.sized and self.training.paced)

    @classmethod
    def begins_with(cls, model: Section) -> bool:
        """With any encoder and decoder."""
        return isinstance(model, TranslationArchitecture)

    def risks(self, above: str) -> Iterator[str]:
        """New pieces that may not learn."""
        anew = "tokenizer" in self.model_fields_set and isinstance(self.tokenizer, TokenizerConfig)
        if self.init is not None and anew and self.training.freeze:
            yield (
                f"{above}training.freeze = {toml.value(self.training.freeze)} keeps new pieces of the vocabulary as "
                f"they begin; leave it away, or the table [{above}tokenizer]"
            )

    @field_validator("factors")
    @classmethod
    def _are_read(cls, factors: Mapping[str, FactorConfig], info: ValidationInfo) -> Mapping[str, FactorConfig]:
        model, data = info.data.get("model"), info.data.get("data")
        if odd := [name for name in factors if not re.fullmatch(r"\w+", name, re.ASCII)]:
            raise misfit("factors", f"has {odd[0]!r}, which is no name of letters, digits and _: choose another one")
        if factors and info.data.get("init") is not None:
            raise misfit(
                "factors", "are learned from the beginning, and init goes on with a model: leave one of them away"
            )
        if factors and model is not None and not model.reads_factors:
            raise misfit("factors", f'are nothing that a model of kind "{model.kind}" reads: leave them away')
        if data is not None and not any(isinstance(each, GivenFactorConfig) for each in factors.values()):
            for key in data.labelled:
                told = 'are labels that nothing reads: give a table such as [factors.pos] with kind = "given"'
                raise misfit(f"data.{key}.factors", told)
        return factors

    @field_validator("training")
    @classmethod
    def _suits(cls, training: TranslationTrainingConfig, info: ValidationInfo) -> TranslationTrainingConfig:
        model, data = info.data.get("model"), info.data.get("data")
        if model is None:
            return training
        if data is not None and data.is_aligned != (training.guided is not None):
            raise (
                misfit("training.guided", "needs links of words to learn from: give data.train.alignments")
                if training.guided is not None
                else misfit("data.train.alignments", "teach training.guided alone: give that too, or leave them away")
            )
        if training.guided is not None and (model.draws or training.reinforce is not None):
            raise misfit("training.guided", "teaches attention that is not drawn: leave training.guided away")
        if info.data.get("init") is not None:  # which may have another model
            return training.suited(draws=model.draws or training.reinforce is not None, key="model.reading.weights")
        if training.decorrelation and not model.has_heads:
            raise misfit(
                "training.decorrelation",
                f"= {training.decorrelation} pushes attention heads apart, and a model of kind "
                f'"{model.kind}" has no heads: set training.decorrelation = 0',
            )
        return training.suited(draws=model.draws, key="model.reading.weights")

    @field_validator("model")
    @classmethod
    def _fits(cls, model: ModelConfig, info: ValidationInfo) -> ModelConfig:
        tokenizer, data = info.data.get("tokenizer"), info.data.get("data")
        if info.data.get("init") is not None:  # which may have another one
            return model
        if isinstance(tokenizer, PairTokenizerConfig) and not tokenizer.joint and model.one_table:
            raise misfit(
                "model.tie",
                '= "three_way" needs one vocabulary for both languages: set model.tie = "two_way" or '
                "tokenizer.joint = true",
            )
        longest = model.longest
        if data is not None and longest is not None:
            longest.require(data.max_length, "a sentence")
        return model
