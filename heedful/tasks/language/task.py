"""The language modelling task."""

from __future__ import annotations

from typing import ClassVar, Final, final

import torch

from heedful.architectures.build import build_language_model
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.documents import DocumentChunk, build_document_encoder
from heedful.data.tokenizers import Tokenizer
from heedful.models.generative import LanguageModel
from heedful.tasks.auto_settings import ComputeBudget, Settings
from heedful.tasks.evaluation import EvaluatorOptions
from heedful.tasks.language.auto_settings import choose_language_settings, count_characters
from heedful.tasks.language.evaluation import LanguageComparison, LanguageReport, TextEvaluator, choose_window
from heedful.tasks.language.objective import DocumentPieces, LanguageModelingObjective, PackedPieces
from heedful.tasks.language.predictor import TextGenerator
from heedful.tasks.language.recipe import LanguageRecipe
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
from heedful.tasks.unit_names import UnitNames

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
        """Choose a small GPT that suits the text and the time."""
        train_characters, validation_characters = (
            count_characters(read_examples(recipe, part)) for part in ("train", "validation")
        )
        return choose_language_settings(
            train_characters, budget, recipe=recipe, validation_characters=validation_characters
        )

    def learn_vocabularies(self, recipe: LanguageRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Learn or reuse the tokenizer."""
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
        """Build the objective: likelihood of each token given those before it."""
        config = run.recipe.training
        return LanguageModelingObjective(
            train["text"].stream,
            validation["text"].stream,
            start_id=run.tokenizer.special.eos,
            length=run.recipe.data.length,
            pieces_class=DocumentPieces if run.recipe.data.documents == "apart" else PackedPieces,
            truncation=config.truncation,
            smoothing=config.label_smoothing,
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def build_evaluator(self, recipe: LanguageRecipe | None, options: EvaluatorOptions) -> TextEvaluator:
        """Build the evaluator of the text's likelihood."""
        assert recipe is not None, "only a run predicts a text"
        choose_window(recipe, options)
        part = recipe.data.evaluation_part
        with prefix_data_errors(f"data.{part}"):
            reader = recipe.data.reader(part)
            return TextEvaluator(
                list(reader), data_description=" and ".join(map(str, reader.paths)), part=part, options=options
            )

    def build_predictor(
        self, run: Run[LanguageRecipe, LanguageModel], model: LanguageModel, *, step: int | None = None
    ) -> TextGenerator:
        """Build the text generator."""
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
