"""The classification task, with the choice of a model by the number of labelled texts and the time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias, final

import numpy as np
import torch
from torch import nn

from heedful.architectures.build import build_text_classifier
from heedful.architectures.classifiers import SiameseConfig, WindowClassifierConfig
from heedful.data.batches import to_segmented_tokens
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.encoder_inputs import encode_texts
from heedful.data.labelled import LabelledExample, MultipleChoiceExample
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RecipeError
from heedful.models.heads import TextClassifier
from heedful.models.interface import Encoder
from heedful.models.pair_encoder import PairEncoder
from heedful.tasks.auto_settings import ComputeBudget, LearningSpeed, Settings, TrainingAmount, is_unspecified
from heedful.tasks.benchmarks.definitions import MetricName
from heedful.tasks.classification.data import build_example_encoding
from heedful.tasks.classification.objective import (
    METRICS,
    ClassificationObjective,
    build_classification_evaluator,
    define_custom_task,
)
from heedful.tasks.classification.predictor import Classifier
from heedful.tasks.classification.recipe import ClassificationDataConfig, ClassificationRecipe
from heedful.tasks.label_evaluation import LabelEvaluator
from heedful.tasks.objective import UnitNames
from heedful.tasks.portable_model import InferenceSettings, OutputHead
from heedful.tasks.task import FineTuningTask, Run, VocabSizes, Vocabularies, read_examples
from heedful.tasks.word_baselines import WordBaseline, predict_by_tfidf
from heedful.tensors import Tokens, move_to_device

WINDOW_SPEED: Final = LearningSpeed(rate=3e-3, tokens_per_second=30_000)
"""Speed of window classifiers."""
PAIR_SPEED: Final = LearningSpeed(rate=3e-3, tokens_per_second=50_000)
"""Speed of models that compare two texts."""
LARGE_D_MODEL: Final = 384
"""Width from which a pre-trained encoder is fine-tuned with a lower learning rate."""
_MIN_TEXTS_SEEN: Final = 16_000
"""Minimum number of texts that training reads, repetitions included."""
_MIN_EPOCHS: Final = (4, 8)
"""Minimum epochs: of large and of small data sets."""
_SMALL_DATASET: Final = 20_000
"""Number of texts up to which a data set is small."""
_TOKENS_PER_WORD: Final = 1.15
"""Tokens per word, punctuation included."""
_VOCAB_SIZE_BOUNDS: Final = (2_000, 8_000)
"""Vocabulary size of text pairs: small, so that unseen words share pieces with known ones."""
_WORDS_PER_PIECE: Final = 100
"""Words of the training text per vocabulary entry, if that gives a larger vocabulary."""
_PIECES_PER_WORD: Final = 1.6
"""Pieces per word of such a vocabulary, punctuation included."""
_BUCKET_BOUNDS: Final = (4096, 262_144)
_MAX_NGRAM_WEIGHTS: Final = 2_000_000
"""Maximum number of n-gram weights."""


@final
@dataclass(frozen=True)
class LabelledDataStats:
    """Size statistics of labelled texts.

    Attributes:
        num_examples: number of examples; a choice counts with each candidate.
        num_words: words in all of them.
        num_classes: number of different labels.
        all_pairs: whether all of them have two texts.
    """

    num_examples: int
    num_words: int
    num_classes: int
    all_pairs: bool = False

    @classmethod
    def from_examples(cls, examples: Iterable[LabelledExample | MultipleChoiceExample]) -> LabelledDataStats:
        """Count the examples (each candidate of a choice as one), words and classes; raise `DataError` if there is no
        text.
        """
        count, words, labels, paired = 0, 0, set[object](), True
        for example in examples:
            texts = example.candidates if isinstance(example, MultipleChoiceExample) else (example.texts,)
            count += len(texts)
            words += sum(len(text.split()) for text_tuple in texts for text in text_tuple)
            paired = paired and all(len(text_tuple) == 2 for text_tuple in texts)
            if isinstance(example, LabelledExample):
                labels.add(example.label)
        if not words:
            raise DataError("there is no text to learn from; check the training files")
        return cls(count, words, len(labels), paired)

    @property
    def training_amount(self) -> TrainingAmount:
        """Training amount, estimated from the number of words."""
        return TrainingAmount(self.num_examples, self.num_words * _TOKENS_PER_WORD + 2 * self.num_examples)

    @property
    def pair_training_amount(self) -> TrainingAmount:
        """Training amount in the pieces of `choose_pair_model`'s vocabulary."""
        return TrainingAmount(self.num_examples, self.num_words * _PIECES_PER_WORD + 3 * self.num_examples)

    @property
    def num_epochs(self) -> int:
        """Number of epochs: a few, and more for small data sets."""
        return max(_MIN_EPOCHS[self.num_examples <= _SMALL_DATASET], math.ceil(_MIN_TEXTS_SEEN / self.num_examples))


def choose_word_model(stats: LabelledDataStats, *, voting: bool) -> Settings:
    """Choose a model of words that is trained from scratch, for data of the size `stats`; `voting` adds a logistic
    regression on n-grams.
    """
    buckets = 2 ** math.ceil(math.log2(2 * stats.num_words))
    max_buckets = 2 ** int(math.log2(_MAX_NGRAM_WEIGHTS / max(2, stats.num_classes)))
    bag_config = {"buckets": max(_BUCKET_BOUNDS[0], min(buckets, max_buckets, _BUCKET_BOUNDS[1]))}
    return {
        "tokenizer": {"kind": "words", "lowercase": True},
        "model.kind": "windows",
        "model.embedding_dropout": 0.3,
        **({"model.bag": bag_config} if voting else {}),
        "training.precision": "fp32",
        "training.average": 3,
    }


def choose_pair_model(stats: LabelledDataStats) -> Settings:
    """Choose a model that compares two texts, with a small subword vocabulary whose size depends on the data size
    `stats`.
    """
    smallest, largest = _VOCAB_SIZE_BOUNDS
    size = max(smallest, min(largest, stats.num_words // _WORDS_PER_PIECE))
    return {
        "tokenizer": {"kind": "bpe", "size": size, "lowercase": True},
        "model.kind": "siamese",
        "training.precision": "fp32",
        "training.average": 3,
    }


TEXT_FILE: Final = "tokenizer/text"
LABELS_FILE: Final = "tokenizer/labels"
_PAIR_BATCH_SIZE: Final = 64
"""Text pairs per batch when the pair encoder is initialised."""
ClassificationRun: TypeAlias = Run[ClassificationRecipe, TextClassifier]


@final
class ClassificationTask(FineTuningTask[ClassificationRecipe, TextClassifier]):
    """Task that predicts classes or numbers of texts; classes come from the whole training data, even if fewer
    examples are used.
    """

    tokenizer_files: ClassVar = (TEXT_FILE,)
    output_noun: ClassVar = "classes"
    unit_names: ClassVar = UnitNames(labels="examples")
    default_example_command: ClassVar = 'classify RUN --text "..."'

    def choose_settings(self, recipe: ClassificationRecipe, budget: ComputeBudget) -> Settings:
        """Choose settings within a compute budget: a word model or pair model where the recipe leaves the model open,
        or settings that suit the pre-trained encoder.
        """
        stats, validation_stats = (
            LabelledDataStats.from_examples(read_examples(recipe, part)) for part in ("train", "validation")
        )
        common: dict[str, Any] = {
            "recipe": recipe,
            "monitor": _primary_metric(recipe),
            "validation_amount": validation_stats.training_amount,
        }
        if recipe.init is not None:
            rate = 3e-4 if recipe.model.d_model >= LARGE_D_MODEL else 5e-4
            chosen = stats.training_amount.choose_tuning_settings(budget, model=recipe.model, rate=rate, **common)
            return {"model.summary": {"kind": "mean"}, **chosen, "training.layer_decay": 0.9}
        speed, chosen, training_amount = LearningSpeed.from_architecture(recipe.model), {}, stats.training_amount
        is_comparable = stats.all_pairs and validation_stats.all_pairs and recipe.data.answer_type != "choice"
        if is_comparable and is_unspecified(recipe.model, SiameseConfig):
            speed, chosen, training_amount = (
                PAIR_SPEED,
                choose_pair_model(stats),
                stats.pair_training_amount,
            )
        elif is_unspecified(recipe.model, WindowClassifierConfig):
            speed, chosen = (
                WINDOW_SPEED,
                choose_word_model(stats, voting=recipe.data.answer_type == "class"),
            )
        return {**chosen, **training_amount.choose_settings(budget, epochs=stats.num_epochs, speed=speed, **common)}

    def load_labels(self, recipe: ClassificationRecipe, folder: Path | None) -> Vocabularies:
        """Load the classes from a run folder, or learn them from the training data if `folder` is None; empty if there
        are no classes.
        """
        if recipe.data.answer_type != "class":
            return {}
        return {
            LABELS_FILE: collect_classes(recipe.data) if folder is None else LabelVocabulary.load(folder / LABELS_FILE)
        }

    def iter_texts(self, recipe: ClassificationRecipe) -> Iterator[str]:
        """Iterate over all texts of the training part; the common text of a choice's candidates is not repeated."""
        for example in read_examples(recipe, "train"):
            if isinstance(example, LabelledExample):
                yield from example.texts
            else:
                yield from dict.fromkeys(text for candidate in example.candidates for text in candidate)

    def build_encoding(self, run: ClassificationRun) -> ExampleEncoder[LabelledExample | MultipleChoiceExample]:
        """Build the encoding of texts and labels."""
        data = run.recipe.data
        return build_example_encoding(
            run.tokenizer,
            _get_labels(run),
            answer_type=data.answer_type,
            max_length=data.max_length,
            requires_pairs=run.recipe.model.requires_pairs,
        )

    def data_warnings(self, run: ClassificationRun, corpus: Corpus) -> Sequence[str]:
        """Warn if texts of a corpus were truncated, or if all its labels are equal."""
        messages = []
        labels = corpus["label"].stream
        if run.recipe.data.answer_type != "choice" and len(labels) > 1 and bool((labels == labels[0]).all()):
            class_labels = _get_labels(run)
            label = f"{float(labels[0]):g}" if class_labels is None else repr(class_labels.names[int(labels[0])])
            messages.append(
                f"warning: all {len(labels):,} examples have the label {label}, so there is nothing to learn"
            )
        truncated = corpus["cut"].stream
        texts = int(np.count_nonzero(truncated))
        if not texts:
            return messages
        return (
            *messages,
            f"{texts:,} of {len(truncated):,} texts have more than data.max_length = {run.recipe.data.max_length} "
            f"tokens; their ends were cut off, {int(truncated.sum(dtype=np.int64)):,} tokens",
        )

    def build_encoder_with_head(
        self, recipe: ClassificationRecipe, sizes: VocabSizes, *, encoder: Encoder[Tokens] | None = None
    ) -> TextClassifier:
        """Build a text classifier on the given encoder, or on a new one; `sizes` has the number of tokens and of
        classes.
        """
        return build_text_classifier(
            recipe.model,
            vocabulary=sizes[TEXT_FILE],
            outputs=sizes.get(LABELS_FILE, 1),
            longest=recipe.data.max_length,
            encoder=encoder,
        )

    def build_objective(
        self,
        run: ClassificationRun,
        train: Corpus,
        validation: Corpus,
        *,
        device: torch.device,
    ) -> ClassificationObjective:
        """Build the objective on a training and a validation corpus: likelihood of the classes or candidates, or
        squared errors of numbers.
        """
        config, data, labels = run.recipe.training, run.recipe.data, _get_labels(run)
        positive = data.positive_class
        if positive is not None and (labels is None or labels.get_id(positive) is None):
            raise RecipeError(
                f'data.positive = "{positive}": the training text has no such class; name one that it has'
            )
        return ClassificationObjective(
            train,
            validation,
            answer_type=data.answer_type,
            labels=labels,
            positive=positive,
            smoothing=config.label_smoothing,
            decorrelation=config.decorrelation or 0.0,
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def init_weights(self, run: ClassificationRun, model: TextClassifier, *, log: Callable[[str], None]) -> None:
        """Initialise word vectors, n-gram statistics and pair statistics from the training data, and for pairs with
        numbers the output bias with the mean number. `log` receives messages for the user.
        """
        super().init_weights(run, model, log=log)
        if isinstance(model.encoder, PairEncoder):
            _fit_pair_encoder(run, model.encoder)
            if run.recipe.data.answer_type == "number":  # other encoders learn more slowly with such a start
                numbers = [
                    label for label in map(_read_number, read_examples(run.recipe, "train")) if label is not None
                ]
                nn.init.constant_(model.output.bias, sum(numbers) / max(1, len(numbers)))
        ngram_classifier, labels = model.bag, _get_labels(run)
        if ngram_classifier is None or labels is None:
            return
        config = run.recipe.model.ngram_inverse_penalty
        assert config is not None, "a model with a bag has its penalty"
        texts, class_ids = [], []
        for example in read_examples(run.recipe, "train"):
            if isinstance(example, LabelledExample) and (label := labels.get_id(str(example.label))) is not None:
                row = encode_texts(run.tokenizer, example.texts, max_length=run.recipe.data.max_length)
                texts.append(torch.tensor(row.ids))
                class_ids.append(label)
        ignored_ids = [number for number, piece in _list_pieces(run.tokenizer) if not any(map(str.isalnum, piece))]
        ngram_classifier.fit(texts, torch.tensor(class_ids), inverse_penalty=config, ignored_ids=ignored_ids)

    def freeze_weights(self, run: ClassificationRun, model: nn.Module) -> None:
        """Freeze word vectors, pair statistics and n-gram weights."""
        super().freeze_weights(run, model)
        if isinstance(model, TextClassifier) and isinstance(model.encoder, PairEncoder):
            model.encoder.freeze_statistics()
        if isinstance(model, TextClassifier) and model.bag is not None:
            model.bag.requires_grad_(False)

    def build_part_evaluator(self, recipe: ClassificationRecipe, part: str) -> LabelEvaluator:
        """Build the evaluator of the texts and labels of the data `part`."""
        data = recipe.data
        train, examples = list(data.reader("train")), list(data.reader(part))
        definition = data.get_definition(part) or define_custom_task(
            data, collect_classes(data).names if data.answer_type == "class" else ()
        )
        return build_classification_evaluator(definition, train=train, examples=examples)

    def measure_word_baseline(self, run: ClassificationRun, part: str) -> WordBaseline | None:
        """Measure TF-IDF with logistic regression on texts with classes; None for numbers and choices."""
        data = run.recipe.data
        if data.answer_type != "class":
            return None
        train, examples = (
            [example for example in examples if isinstance(example, LabelledExample)]
            for examples in (run.read_examples("train"), data.reader(part))
        )
        labelled = [example for example in train if example.label is not None]
        name, answers = predict_by_tfidf(
            [" ".join(example.texts) for example in labelled],
            [str(example.label) for example in labelled],
            examples=[" ".join(example.texts) for example in examples],
        )
        metrics = self.build_part_evaluator(run.recipe, part).compute_metrics(answers)
        return WordBaseline(name, part, {metric_name: metric.value for metric_name, metric in metrics.items()})

    def primary_metric(self, run: ClassificationRun) -> str:
        """Return the benchmark's first metric that training measures; else accuracy, or Pearson's r for numbers."""
        return _primary_metric(run.recipe)

    def is_regression(self, recipe: ClassificationRecipe) -> bool:
        """Return whether labels are numbers."""
        return recipe.data.answer_type == "number"

    def output_head(self, run: ClassificationRun) -> OutputHead:
        """Describe the output head: a class, a number or the score of a candidate."""
        labels, reading = _get_labels(run), InferenceSettings(max_length=run.recipe.data.max_length)
        if labels is not None:
            return OutputHead("class", labels.names, settings=reading)
        return OutputHead("number" if run.recipe.data.answer_type == "number" else "candidate", settings=reading)

    def build_predictor(self, run: ClassificationRun, model: TextClassifier, *, step: int | None = None) -> Classifier:
        """Build the classifier that users call; `step` is not used."""
        return Classifier(
            model,
            tokenizer=run.tokenizer,
            answer_type=run.recipe.data.answer_type,
            labels=_get_labels(run),
            max_length=run.recipe.data.max_length,
            requires_pairs=run.recipe.model.requires_pairs,
            trained_on_pairs=run.recipe.data.has_pairs,
            trained_on_marked=run.recipe.data.has_marked_words,
        )


TASK: Final = ClassificationTask()


def collect_classes(data: ClassificationDataConfig) -> LabelVocabulary:
    """Return the classes of the benchmark task that the data belong to, or of all training examples."""
    if (definition := data.get_definition()) is not None:
        return LabelVocabulary(definition.labels)
    labels = (example.label for example in data.reader("train") if isinstance(example, LabelledExample))
    return LabelVocabulary.learn(str(label) for label in labels if label is not None)


def _read_number(example: LabelledExample | MultipleChoiceExample) -> float | None:
    """Return the label of an example as a number; None if it has no label or is a choice."""
    return float(example.label) if isinstance(example, LabelledExample) and example.label is not None else None


def _fit_pair_encoder(run: ClassificationRun, encoder: PairEncoder) -> None:
    """Let a pair encoder collect statistics of its training pairs."""
    rows = [
        encode_texts(run.tokenizer, example.texts, max_length=run.recipe.data.max_length)
        for example in read_examples(run.recipe, "train")
        if isinstance(example, LabelledExample)
    ]
    rows.sort(key=lambda row: len(row.ids))  # so that little of a batch is padding
    device, training = next(encoder.parameters()).device, encoder.training
    encoder.eval()
    encoder.fit(
        [
            move_to_device(
                to_segmented_tokens([row.ids for row in batch_rows], [row.segments.count(0) for row in batch_rows]),
                device,
            )
            for batch_rows in (
                rows[start : start + _PAIR_BATCH_SIZE] for start in range(0, len(rows), _PAIR_BATCH_SIZE)
            )
        ],
        ignored_ids=sorted(run.tokenizer.special.skipped_ids),
    )
    encoder.train(training)


def _list_pieces(tokenizer: Tokenizer) -> Iterator[tuple[int, str]]:
    """Return all ids that stand for text, each with its piece."""
    numbers = [number for number in range(tokenizer.size) if number not in tokenizer.special.skipped_ids]
    return zip(numbers, tokenizer.to_pieces(numbers), strict=True)


def _primary_metric(recipe: ClassificationRecipe) -> MetricName:
    definition, metrics = recipe.data.get_definition(), METRICS[recipe.data.answer_type]
    official_metrics = definition.metrics if definition is not None else ()
    return next((name for name in official_metrics if name in metrics or name == "f1"), metrics[0])


def _get_labels(run: ClassificationRun) -> LabelVocabulary | None:
    return run.get_vocabulary(LABELS_FILE, LabelVocabulary) if LABELS_FILE in run.vocabularies else None
