"""The language modelling task, and the settings that it chooses by the amount of text and the time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, final

import torch

from heedful.architectures.build import build_language_model
from heedful.architectures.stack import DecoderConfig
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.documents import DocumentChunk, build_document_encoder
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.models.generative import LanguageModel
from heedful.tasks.auto_settings import ComputeBudget, Settings, choose_evaluation_interval, is_unspecified
from heedful.tasks.evaluation import EvaluatorOptions
from heedful.tasks.language.evaluation import LanguageComparison, LanguageReport, TextEvaluator, choose_window
from heedful.tasks.language.objective import DocumentPieces, LanguageModelingObjective, PackedPieces
from heedful.tasks.language.predictor import TextGenerator
from heedful.tasks.language.recipe import LanguageRecipe
from heedful.tasks.objective import UnitNames
from heedful.tasks.search_factory import build_continuation_search
from heedful.tasks.task import (
    Run,
    Task,
    VocabSizes,
    Vocabularies,
    learn_or_reuse_tokenizer,
    prefix_data_errors,
    read_examples,
)
from heedful.tasks.word_baselines import WordBaseline, measure_kneser_ney

_MIN_SUBWORD_CHARACTERS: Final = 3_000_000
"""Characters of text from which a subword vocabulary is worth its parameters."""
_DEFAULT_UPDATES: Final = 2000.0
"""Number of updates if nothing determines it."""
_DROPOUT_EPOCHS: Final = (8.0, 20.0, 60.0)
"""Epochs from which dropout is used against overfitting, and from which it is raised."""
_DROPOUT: Final = (0.0, 0.1, 0.2, 0.3)


@final
@dataclass(frozen=True)
class DecoderSize:
    """Size of a decoder of four layers, and its training batches.

    Attributes:
        d_model: its width.
        length: context length in tokens.
        batch_tokens: tokens of an update.
        min_seconds: seconds on one core from which it is worth its time.
    """

    d_model: int
    length: int
    batch_tokens: int
    min_seconds: float

    def model_settings(self, dropout: float) -> Settings:
        """Return the model settings of a recipe, by key, with the given dropout."""
        return {
            "model.d_model": self.d_model,
            "model.layers": 4,
            "model.heads": 4,
            "model.dropout": dropout,
            "model.bias": False,
            "model.positions": {"kind": "rotary"},
        }


_DECODER_SIZES: Final = (DecoderSize(128, 64, 768, 0), DecoderSize(256, 128, 2048, 1500))
"""Sizes from small to large."""
_WEIGHT_TOKENS_PER_SECOND: Final = 7.9e9
"""Weights times training tokens that one core processes per second."""
_RATE_SCALING: Final = (3e-3, 0.6)
"""Highest learning rate at width 128, and the exponent of the width by which it falls."""


def count_characters(documents: Iterable[DocumentChunk]) -> int:
    """Count the characters of documents; raise `DataError` if there are none."""
    count = sum(len(document.text) for document in documents)
    if not count:
        raise DataError("there is no text to learn from; check the training files")
    return count


def choose_language_settings(
    num_characters: int, budget: ComputeBudget, *, recipe: LanguageRecipe, validation_characters: int
) -> Settings:
    """Choose values by recipe key: a vocabulary, a GPT if the recipe leaves its size open, and training settings.

    Args:
        num_characters: characters of the training text.
        budget: compute that training may use; the smaller model if unlimited.
        recipe: recipe, which may set some of it.
        validation_characters: characters of the validation text.
    """
    training, seconds = recipe.training, budget.seconds or 0.0
    decoder_size = [decoder_size for decoder_size in _DECODER_SIZES if seconds >= decoder_size.min_seconds][-1]
    is_open = is_unspecified(recipe.model, DecoderConfig)
    width, layers = (decoder_size.d_model, 4) if is_open else (recipe.model.d_model, getattr(recipe.model, "layers", 1))
    is_small = num_characters < _MIN_SUBWORD_CHARACTERS
    tokens = num_characters if is_small else num_characters / 4
    affordable_tokens = seconds * _WEIGHT_TOKENS_PER_SECOND / (12 * width**2 * layers)
    limits = (
        training.epochs and training.epochs * tokens / decoder_size.batch_tokens,
        training.steps,
        affordable_tokens / decoder_size.batch_tokens,
    )
    updates = max(1.0, min((limit for limit in limits if limit), default=_DEFAULT_UPDATES))
    epochs = updates * decoder_size.batch_tokens / tokens
    dropout = _DROPOUT[sum(epochs >= threshold for threshold in _DROPOUT_EPOCHS)]
    rate, exponent = _RATE_SCALING
    return {
        "data.length": decoder_size.length,
        "tokenizer": {"kind": "characters"} if is_small else {"kind": "bpe", "size": 8000},
        **(decoder_size.model_settings(dropout) if is_open else {}),
        "training.batch_tokens": decoder_size.batch_tokens,
        "training.optimizer": {"kind": "adam", "beta2": 0.99, "weight_decay": 0.1},
        "training.schedule": {
            "kind": "linear",
            "rate": float(f"{rate * (128 / width) ** exponent:.2g}"),
            "warmup_share": 0.05,
        },
        "training.clip": 1.0,
        "training.evaluate_every": min(
            1000,
            choose_evaluation_interval(
                updates * decoder_size.batch_tokens,
                decoder_size.batch_tokens,
                validation_tokens=validation_characters * tokens / num_characters,
            ),
        ),
    }


TEXT_FILE: Final = "tokenizer/text"


@final
class LanguageTask(Task[LanguageRecipe, LanguageModel]):
    """Task that continues texts."""

    tokenizer_files: ClassVar = (TEXT_FILE,)
    unit_names: ClassVar = UnitNames(examples="pieces")
    default_example_command: ClassVar = 'generate RUN --prompt "..."'
    supported_options: ClassVar = frozenset({"context", "stride"})
    report_class: ClassVar = LanguageReport
    comparison_class: ClassVar = LanguageComparison

    def choose_settings(self, recipe: LanguageRecipe, budget: ComputeBudget) -> Settings:
        """Choose a small GPT and training settings that suit the amount of text and the compute budget."""
        train_characters, validation_characters = (
            count_characters(read_examples(recipe, part)) for part in ("train", "validation")
        )
        return choose_language_settings(
            train_characters, budget, recipe=recipe, validation_characters=validation_characters
        )

    def learn_vocabularies(self, recipe: LanguageRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Learn the tokenizer from the training text, unless `existing` is a tokenizer to use instead."""
        return {
            TEXT_FILE: learn_or_reuse_tokenizer(
                recipe,
                (document.text for document in read_examples(recipe, "train")),
                existing=existing,
                generated=True,
            )
        }

    def build_encoding(self, run: Run[LanguageRecipe, LanguageModel]) -> ExampleEncoder[DocumentChunk]:
        """Build the encoding of documents as one token stream."""
        return build_document_encoder(run.tokenizer)

    def build_model(self, recipe: LanguageRecipe, sizes: VocabSizes) -> LanguageModel:
        """Build a decoder with causal self-attention, or another language model."""
        return build_language_model(recipe.model, vocabulary=sizes[TEXT_FILE], longest=recipe.data.length)

    def build_objective(
        self, run: Run[LanguageRecipe, LanguageModel], train: Corpus, validation: Corpus, *, device: torch.device
    ) -> LanguageModelingObjective:
        """Build the objective on a training and a validation corpus: likelihood of each token given those before it."""
        config = run.recipe.training
        return LanguageModelingObjective(
            train["text"].stream,
            validation["text"].stream,
            start_id=run.tokenizer.special.document_start,
            length=run.recipe.data.length,
            pieces_class=DocumentPieces if run.recipe.data.documents == "apart" else PackedPieces,
            truncation=config.truncation,
            smoothing=config.label_smoothing,
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def build_evaluator(self, recipe: LanguageRecipe | None, options: EvaluatorOptions) -> TextEvaluator:
        """Build the evaluator of the text's likelihood; `options` may set context and stride."""
        assert recipe is not None, "only a run predicts a text"
        choose_window(recipe, options)
        part = recipe.data.evaluation_part
        with prefix_data_errors(f"data.{part}"):
            reader = recipe.data.reader(part)
            return TextEvaluator(
                list(reader), data_description=" and ".join(map(str, reader.paths)), part=part, options=options
            )

    def measure_word_baseline(self, run: Run[LanguageRecipe, LanguageModel], part: str) -> WordBaseline:
        """Measure Kneser-Ney 5-grams over the tokens of the run's vocabulary."""
        train, documents = run.read_examples("train"), list(run.recipe.data.reader(part))
        name, metrics = measure_kneser_ney(train, documents, tokenizer=run.tokenizer)
        return WordBaseline(name, part, metrics)

    def build_predictor(
        self, run: Run[LanguageRecipe, LanguageModel], model: LanguageModel, *, step: int | None = None
    ) -> TextGenerator:
        """Build the text generator of a trained model; `step` is not used."""
        config = run.recipe.generation
        search, tokens = build_continuation_search(config, run.tokenizer.special)
        return TextGenerator(
            model,
            tokenizer=run.tokenizer,
            search=search,
            limit=tokens,
            stop=config.stop,
            max_context=_max_context(run.recipe),
            generation=config,
        )


TASK: Final = LanguageTask()


def _max_context(recipe: LanguageRecipe) -> int | None:
    """Return the number of tokens that the model was trained to read; None if its positions are unlimited."""
    if recipe.model.is_unbounded:
        return None
    # the initial model may have learned from longer pieces
    longest = recipe.model.length_limit if recipe.init is not None else None
    return recipe.data.length if longest is None else longest.tokens
