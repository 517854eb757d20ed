"""The tagging task: settings, evaluator, vocabularies, model, objective and predictor of a recipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias, final

import torch
from torch import Tensor, nn

from heedful.architectures.build import build_tagger
from heedful.architectures.recurrent import RecurrentEncoderConfig
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.labels import LabelVocabulary
from heedful.data.tagged import TaggedSentence
from heedful.errors import DataError
from heedful.metrics.spans import are_entity_tags, is_entity_tag
from heedful.models.heads import TokenClassifier
from heedful.models.interface import Encoder
from heedful.models.predictions import SoftmaxPredictions, cross_entropy
from heedful.tasks.auto_settings import ComputeBudget, LearningSpeed, Settings, TrainingAmount, is_unspecified
from heedful.tasks.label_evaluation import LabelEvaluator
from heedful.tasks.objective import CorpusObjective, Loss, LossPart, RowIndices, UnitNames
from heedful.tasks.portable_model import InferenceSettings, OutputHead
from heedful.tasks.tagging.data import (
    TaggedBatch,
    build_tagging_encoding,
    collate_tagged,
    compute_tag_metrics,
    get_placeholder_tag,
    list_tags_with_placeholders,
)
from heedful.tasks.tagging.predictor import Tagger
from heedful.tasks.tagging.recipe import TaggingRecipe
from heedful.tasks.task import FineTuningTask, Run, VocabSizes, Vocabularies, read_examples
from heedful.tensors import Tokens


@dataclass(eq=False)
class TaggingObjective(CorpusObjective[TaggedBatch]):
    """Learn p(tag | sentence) at the first token of each word.

    Attributes:
        smoothing: label smoothing over all tags.
        tags: the tag names.
    """

    _: KW_ONLY
    smoothing: float = 0.0
    tags: LabelVocabulary
    part_names = frozenset({"nll"})
    has_predictions = True

    def __post_init__(self) -> None:
        self.has_entities = are_entity_tags(self.tags.names)
        self.metric_names = frozenset({"loss", "accuracy", *(("f1",) if self.has_entities else ())})

    def collate(self, corpus: Corpus, rows: RowIndices) -> TaggedBatch:
        """Collate sentences."""
        return collate_tagged(corpus, rows)

    def loss(self, model: TokenClassifier, batch: TaggedBatch) -> Loss:
        """Compute the label-smoothed negative log-likelihood of the tags of a batch."""
        hidden, labels = _select_tagged(model, batch)
        smoothed, nll = cross_entropy(hidden, labels, output=model.output, smoothing=self.smoothing)
        predictions = SoftmaxPredictions(hidden, model.output)
        return Loss(smoothed, len(labels), {"nll": LossPart(nll, len(labels))}, predictions)

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Compute the loss (nats per word with a known tag), tag accuracy, and F1 of entities if tags mark them."""
        assert isinstance(model, TokenClassifier)
        names = list_tags_with_placeholders(self.tags)
        total, count = 0.0, 0
        predictions: list[list[str]] = []
        golds: list[list[str]] = []
        for batch in self.validation_batches():
            hidden, labels = _select_tagged(model, batch)
            known = (labels < self.tags.size).nonzero().squeeze(1)
            known_inputs = (hidden.index_select(0, known), labels.index_select(0, known))
            total += float(cross_entropy(*known_inputs, output=model.output)[1])
            count += len(known)
            words = (batch.tags >= 0).sum(1).tolist()
            predictions += _split_by_sentence(model.output(hidden).argmax(-1), words, names)
            golds += _split_by_sentence(labels, words, names)
        metrics = compute_tag_metrics(predictions, golds, entities=self.has_entities)
        return {"loss": total / max(count, 1)} | {name: metrics[name].value for name in self.metric_names - {"loss"}}


def _split_by_sentence(numbers: Tensor, words: Sequence[int], names: Sequence[str]) -> list[list[str]]:
    """Split flat tag numbers into lists of tag names, one list per sentence; `words` has the number of words of each
    sentence.
    """
    return [[names[number] for number in part.tolist()] for part in torch.split(numbers, list(words))]


def _select_tagged(model: TokenClassifier, batch: TaggedBatch) -> tuple[Tensor, Tensor]:
    """Return the hidden states of tokens that have a tag, and those tags."""
    indices = (batch.tags >= 0).flatten().nonzero().squeeze(1)
    hidden: Tensor = model(batch.tokens)
    return hidden.flatten(0, 1).index_select(0, indices), batch.tags.flatten().index_select(0, indices)


PASSES: Final = 15
"""Over all sentences, from scratch."""
RECURRENT_PACE: Final = LearningSpeed(rate=3e-3, tokens_per_second=8000)
"""Of recurrent layers."""
_TOKENS_PER_WORD: Final = 1.4
"""Tokens of a word."""
_VOCAB_SIZE_LIMITS: Final = (500, 8000)
_WORDS_PER_PIECE: Final = 25
"""Words of text for each piece of the vocabulary."""


@final
@dataclass(frozen=True)
class TaggedTextSize:
    """Size of a tagged text: sentences, words, and the set of tags."""

    sentences: int
    words: int
    tags: frozenset[str]

    @classmethod
    def from_sentences(cls, sentences: Iterable[TaggedSentence]) -> TaggedTextSize:
        """Count the sentences and words that are read, and collect the tags; raise `DataError` without words."""
        count, words, tags = 0, 0, set[str]()
        for sentence in sentences:
            count += 1
            words += len(sentence.words)
            tags.update(sentence.tags)
        if not words:
            raise DataError("there is no text to learn from; check the training files")
        return cls(count, words, frozenset(tags))

    @property
    def training_amount(self) -> TrainingAmount:
        """The amount of training data in examples and tokens."""
        return TrainingAmount(self.sentences, self.words * _TOKENS_PER_WORD + 2 * self.sentences, max_batch_tokens=2048)

    def choose_scratch_settings(self) -> Settings:
        """Choose a vocabulary size and a recurrent model, which needs less text than attention."""
        low, high = _VOCAB_SIZE_LIMITS
        return {
            "tokenizer": {"kind": "bpe", "size": max(low, min(high, 500 * round(self.words / _WORDS_PER_PIECE / 500)))},
            "model.kind": "recurrent",
            "model.d_model": 128,
            "model.dropout": 0.4,
        }


def build_tag_evaluator(sentences: Sequence[TaggedSentence], *, train: Iterable[TaggedSentence]) -> LabelEvaluator:
    """Build the evaluator of tagged sentences; answers are the tags of their words, resampled by sentences.

    It measures accuracy, and precision, recall and F1 of entities if tags mark entities.

    Args:
        sentences: the sentences to tag; a tag that the training text lacks always counts as wrong.
        train: training sentences, which tell the known tags and the most frequent one.

    Raises:
        DataError: there are no sentences.
    """
    counts, total = Counter[str](), 0
    for sentence in train:
        counts.update(sentence.tags)
        total += 1
    if not counts or not sentences:
        raise DataError("there are no sentences; check the file")
    most_frequent = min(counts, key=lambda tag: (-counts[tag], tag))
    words, references = [sentence.words for sentence in sentences], [sentence.tags for sentence in sentences]
    entities = are_entity_tags(list(counts))
    golds = references
    if entities:
        golds = [tuple(tag if is_entity_tag(tag) else get_placeholder_tag(tag) for tag in tags) for tags in references]
    unknown = Counter(tag for tags in references for tag in tags if tag not in counts)
    tag_list = ", ".join(sorted(unknown)[:8])
    warning = f"{unknown.total():,} words have a tag that the training text lacks ({tag_list}), and count as wrong"

    def tag_sentences(tagger: Tagger) -> list[list[str]]:
        return [[tag.name for tag in tags] for tags in tagger.tag(words)]

    return LabelEvaluator(
        words,
        references,
        predict_labels=tag_sentences,
        measure=lambda answers: compute_tag_metrics(answers, golds, entities=entities),
        size=sum(map(len, references)),
        num_train_examples=total,
        constant_answer=most_frequent,
        baseline_answers=[[most_frequent] * len(tags) for tags in references],
        main_metric="f1" if entities else "accuracy",
        data_warnings=(warning,) if unknown else (),
    )


WORDS: Final = "tokenizer/words"
TAGS_FILE: Final = "tokenizer/tags"
TaggingRun: TypeAlias = Run[TaggingRecipe, TokenClassifier]


@final
class TaggingTask(FineTuningTask[TaggingRecipe, TokenClassifier]):
    """Tagging of words; the tags are those of the whole training text, even if only a part of it is learned from."""

    tokenizer_files: ClassVar = (WORDS,)
    output_noun: ClassVar = "tags"
    unit_names: ClassVar = UnitNames(examples="sentences", labels="words")
    default_example_command: ClassVar = 'tag RUN --text "..."'

    def choose_settings(self, recipe: TaggingRecipe, budget: ComputeBudget) -> Settings:
        """Choose settings within a compute budget: a recurrent model if the recipe leaves the model open, and training
        settings that suit it or the pre-trained encoder.
        """
        train_size, validation_size = (
            TaggedTextSize.from_sentences(read_examples(recipe, part)) for part in ("train", "validation")
        )
        monitor = "f1" if are_entity_tags(sorted(train_size.tags)) else "accuracy"
        monitor_settings: dict[str, Any] = {
            "recipe": recipe,
            "monitor": monitor,
            "validation_amount": validation_size.training_amount,
        }
        if recipe.init is not None:
            settings = train_size.training_amount.choose_tuning_settings(
                budget, model=recipe.model, rate=3e-4, **monitor_settings
            )
            return {**settings, "training.layer_decay": 0.9}
        pace, settings = LearningSpeed.from_architecture(recipe.model), {}
        if is_unspecified(recipe.model, RecurrentEncoderConfig):
            pace, settings = RECURRENT_PACE, train_size.choose_scratch_settings()
        return {
            **settings,
            **train_size.training_amount.choose_settings(budget, epochs=PASSES, speed=pace, **monitor_settings),
        }

    def load_labels(self, recipe: TaggingRecipe, folder: Path | None) -> Vocabularies:
        """Load the tags from a run folder, or collect those of the training text if `folder` is None."""
        if folder is not None:
            return {TAGS_FILE: LabelVocabulary.load(folder / TAGS_FILE)}
        return {
            TAGS_FILE: LabelVocabulary.learn(tag for sentence in recipe.data.reader("train") for tag in sentence.tags)
        }

    def iter_texts(self, recipe: TaggingRecipe) -> Iterator[str]:
        """Yield each sentence with spaces between its words."""
        return (" ".join(sentence.words) for sentence in read_examples(recipe, "train"))

    def build_encoding(self, run: TaggingRun) -> ExampleEncoder[TaggedSentence]:
        """Return the encoding of words and tags."""
        length, framed = run.recipe.data.max_length, run.recipe.model.adds_special_tokens
        return build_tagging_encoding(run.tokenizer, _get_tags(run), max_length=length, framed=framed)

    def data_warnings(self, run: TaggingRun, corpus: Corpus) -> Sequence[str]:
        """Return a warning if some tags of a corpus are unknown, or if there is only one tag."""
        if _get_tags(run).size == 1:
            return (f"warning: all words have the tag {_get_tags(run).names[0]!r}, so there is nothing to learn",)
        num_unknown = int((corpus["tags"].stream > _get_tags(run).size).sum())
        return (
            (f"{num_unknown:,} words have a tag that the training text lacks, and count as wrong",)
            if num_unknown
            else ()
        )

    def build_encoder_with_head(
        self, recipe: TaggingRecipe, sizes: VocabSizes, *, encoder: Encoder[Tokens] | None = None
    ) -> TokenClassifier:
        """Build a token classifier on the given encoder, or on a new one; `sizes` counts tokens and tags."""
        longest = recipe.data.max_length
        return build_tagger(
            recipe.model, vocabulary=sizes[WORDS], tags=sizes[TAGS_FILE], longest=longest, encoder=encoder
        )

    def build_objective(
        self, run: TaggingRun, train: Corpus, validation: Corpus, *, device: torch.device
    ) -> TaggingObjective:
        """Build the tagging objective on a training and a validation corpus."""
        config = run.recipe.training
        return TaggingObjective(
            train,
            validation,
            smoothing=config.label_smoothing,
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
            tags=_get_tags(run),
        )

    def build_part_evaluator(self, recipe: TaggingRecipe, part: str) -> LabelEvaluator:
        """Build the evaluator of the tagged sentences of the data `part`."""
        return build_tag_evaluator(list(recipe.data.reader(part)), train=recipe.data.reader("train"))

    def primary_metric(self, run: TaggingRun) -> str:
        """Return "f1" if tags mark entities, else "accuracy"."""
        return "f1" if are_entity_tags(_get_tags(run).names) else "accuracy"

    def output_head(self, run: TaggingRun) -> OutputHead:
        """Return the head that predicts a tag for each token."""
        return OutputHead(
            "token", _get_tags(run).names, settings=InferenceSettings(max_length=run.recipe.data.max_length)
        )

    def build_predictor(self, run: TaggingRun, model: TokenClassifier, *, step: int | None = None) -> Tagger:
        """Build the tagger of a trained model; `step` is not used."""
        framed = run.recipe.model.adds_special_tokens
        return Tagger(
            model,
            tokenizer=run.tokenizer,
            tags=_get_tags(run),
            framed=framed,
            # most kinds of positions have no meaning beyond the training length; recurrent networks read on
            max_length=run.recipe.data.max_length if framed else None,
        )


TASK: Final = TaggingTask()


def _get_tags(run: TaggingRun) -> LabelVocabulary:
    return run.get_vocabulary(TAGS_FILE, LabelVocabulary)
