"""The pre-training task, with its evaluator: passages that are masked in the same way for all models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from heedful.architectures.build_stack import build_activation, build_transformer_encoder, get_initializer
from heedful.architectures.stack import EncoderConfig
from heedful.blocks.embedding import TokenEmbedding, build_output_layer
from heedful.data.corpus import Corpus, ExampleEncoder, write_corpus
from heedful.data.documents import DocumentChunk
from heedful.data.text_splitting import split_sentences as split
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError, RunError
from heedful.inspection.page import PageTable
from heedful.metrics.metric import Metric, SummedCountsMetric
from heedful.models.heads import MaskedLanguageModel, MaskedLMHead, ReplacedTokenDetector
from heedful.models.transformer import FirstTokenPooler, TransformerEncoder
from heedful.recipes.recipe import Recipe
from heedful.tasks.comparison import RunComparison
from heedful.tasks.evaluation import Evaluator, EvaluatorOptions
from heedful.tasks.objective import UnitNames
from heedful.tasks.pretraining.data import (
    MaskingStrategy,
    NextSentencePairing,
    NoPairing,
    PassagePairing,
    PassageSampler,
    SentenceOrderPairing,
    SpanMasking,
    TokenMasking,
    WholeWordMasking,
    build_sentence_encoding,
    encode_sentences,
)
from heedful.tasks.pretraining.objective import (
    MaskedPassageBatches,
    MaskedTokenLoss,
    PretrainingLoss,
    PretrainingObjective,
    ReplacedTokenLoss,
)
from heedful.tasks.pretraining.predictor import MaskedLanguageModelPredictor, ReplacedTokenPredictor
from heedful.tasks.pretraining.recipe import PretrainingRecipe, PretrainingTrainingConfig, ReplacedTokensConfig
from heedful.tasks.report import INTERVAL_COLUMNS, EvaluationReport
from heedful.tasks.task import (
    Run,
    Task,
    VocabSizes,
    Vocabularies,
    learn_or_reuse_tokenizer,
    prefix_data_errors,
    read_examples,
)
from heedful.tensors import move_to_device

_MIN_DOCUMENTS: Final = 50
"""Documents that an interval needs; where there are fewer, stretches of the text are drawn."""
_NUM_STRETCHES: Final = 100
ExampleSums: TypeAlias = Mapping[str, Float[np.ndarray, " N"]]
"""What an objective sums, for each document or stretch."""


@final
@dataclass(frozen=True)
class PretrainingMetric(SummedCountsMetric):
    """One metric of a pre-training loss, computed from sums over examples."""

    pretraining_loss: PretrainingLoss
    name: str
    sums: ExampleSums

    @cached_property
    def counts(self) -> Float[np.ndarray, "N counts"]:
        """The sums, one column each."""
        return np.stack(list(self.sums.values()), 1)

    def score_sums(self, sums: Float[np.ndarray, "samples counts"]) -> Float[np.ndarray, " samples"]:
        """Compute the metric from each row of resampled sums, whose columns are those of `counts`."""
        metrics = self.pretraining_loss.compute_metrics(dict(zip(self.sums, sums.T, strict=True)))
        return np.asarray(metrics[self.name], dtype=np.float64)


@final
@dataclass(eq=False)
class PassageEvaluator(Evaluator):
    """Evaluator on masked passages; documents are resampled or, if there are few, 100 stretches of the text.

    Attributes:
        inputs: the documents.
        recipe: of the run that decides how passages are made and masked.
        pretraining_loss: computes the metrics.
        build_passages: builds the masked passages of a corpus with a tokenizer.
    """

    progress_text = "filling hidden tokens"

    inputs: Sequence[DocumentChunk]
    recipe: PretrainingRecipe
    pretraining_loss: PretrainingLoss
    build_passages: Callable[[Corpus, Tokenizer], MaskedPassageBatches]
    data_description: str
    part: str
    reference_answers: Sequence[str] = ()

    def __post_init__(self) -> None:
        documents = sum(document.is_last for document in self.inputs[:-1]) + 1
        self.by_document = documents >= _MIN_DOCUMENTS
        self.size = documents if self.by_document else _NUM_STRETCHES

    @property
    def unit_description(self) -> str:
        """Number and kind of the resampled units, in words."""
        return f"{self.size:,} {'documents' if self.by_document else 'stretches of the text'}"

    def predict(self, predictor: MaskedLanguageModelPredictor | ReplacedTokenPredictor, recipe: Recipe) -> ExampleSums:
        """Return the sums of the predictor's losses and correct answers for each resampled unit, by name.

        Raises:
            RecipeError: the model was trained with another objective, or reads shorter passages.
        """
        assert isinstance(recipe, PretrainingRecipe)
        self._require_compatible(recipe)
        device = next(predictor.model.parameters()).device
        sums: dict[str, Float[np.ndarray, " N"]] = defaultdict(lambda: np.zeros(self.size))
        with TemporaryDirectory() as folder:
            encoded_sentences = encode_sentences(self.inputs, predictor.tokenizer, split)
            corpus = write_corpus(
                Path(folder) / "text", encoded_sentences, encoder=build_sentence_encoding(predictor.tokenizer)
            )
            passages = self.build_passages(corpus, predictor.tokenizer)
            documents = passages.passages.documents
            for number in passages.passages.plan(0)[0]:
                unit = (
                    documents.get_document_number(number) if self.by_document else number * self.size // len(documents)
                )
                batch = move_to_device(passages.build_batch(np.array([number])), device)
                with torch.inference_mode():
                    batch_sums = self.pretraining_loss.compute_batch_sums(predictor.model, batch)
                for name, value in batch_sums.items():
                    sums[name][unit] += value
        return sums

    def compute_metrics(self, answers: ExampleSums) -> Mapping[str, Metric]:
        """Compute the metrics that training reports from the sums in `answers`."""
        return {
            name: PretrainingMetric(self.pretraining_loss, name, answers)
            for name in sorted(self.pretraining_loss.metrics)
        }

    def _require_compatible(self, recipe: PretrainingRecipe) -> None:
        """Raise `RecipeError` if the objective or the pairing of a recipe differs from those of the first run, or its
        passages are shorter.
        """
        for key, other_value, own_value in (
            ("training.objective.kind", recipe.training.objective.kind, self.recipe.training.objective.kind),
            ("training.pairing", recipe.training.pairing, self.recipe.training.pairing),
        ):
            if other_value != own_value:
                raise RecipeError(
                    f'{recipe.output}: {key} = "{other_value}", and "{own_value}" in the first run, so they cannot be '
                    "compared; leave it out"
                )
        if (length := recipe.data.max_length) < self.recipe.data.max_length:
            raise RecipeError(
                f"{recipe.output}: data.max_length = {length}, and passages of the first run have "
                f"{self.recipe.data.max_length} tokens; name the run that reads least first"
            )


@final
@dataclass(frozen=True, repr=False)
class PassageReport(EvaluationReport):
    """Report of the pre-training metrics on a text."""

    evaluator: PassageEvaluator
    reference: PassageReport | None = None

    @property
    def resampled_metrics(self) -> Mapping[str, Metric]:
        """All metrics; `RunError` if the first system has another vocabulary, and so other masked tokens."""
        if (
            self.reference is not None
            and self.reference.system.required_summary.vocabulary != self.system.required_summary.vocabulary
        ):
            raise RunError(
                f"{self.system.name}: has another vocabulary than {self.reference.system.name}, so that other tokens "
                "are hidden and their losses cannot be compared; leave it out"
            )
        return self.metrics

    def format_text(self) -> str:
        """Format one line per metric."""
        lines = [f"{name:<16}  {value:9.4f}" for name, value in self.metric_values.items()]
        return "\n".join((f"{self.system.name}: {self.evaluator.part}", *lines))

    def to_json(self) -> dict[str, Any]:
        """Return the part and the metrics."""
        return {"part": self.evaluator.part, **self.metric_values}


@final
@dataclass(frozen=True, repr=False)
class PassageComparison(RunComparison):
    """Comparison of runs with one vocabulary on the same masked tokens."""

    reports: tuple[PassageReport, ...]

    @property
    def exam(self) -> PassageEvaluator:
        """The evaluator of all runs."""
        return self.reports[0].evaluator

    @property
    def heading(self) -> str:
        """Heading that names the text."""
        return f"{self.run_count_text} of pretraining on {self.exam.data_description}"

    def build_results_table(self) -> PageTable:
        """Build the table with one row per run: its name, model, number of parameters and minutes of training, then
        each metric with its confidence interval and p-value.
        """
        names = list(self.reports[0].metrics)
        columns = ["run", "model", "parameters", "minutes"]
        columns += [column for name in names for column in (name, *INTERVAL_COLUMNS)]
        rows = [
            [*row, *(cell for name in names for cell in report.format_score(name))]
            for report, row in zip(self.reports, self.describe_runs(), strict=True)
        ]
        return PageTable("", columns, rows, self.collect_notes())

    def table_notes(self) -> list[str]:
        """Return an explanation of the columns."""
        return [
            f"p: how often chance alone makes a difference from {self.reports[0].system.name} at least this large "
            f"(paired bootstrap, {self.sampling.samples:,} samples of {self.exam.unit_description})"
        ]

    def build_json_fields(self) -> dict[str, Any]:
        """Return the part, the resampled units and the resampling settings."""
        sampling_units = {"drawn": self.exam.unit_description, "examples": self.exam.size}
        return {"part": self.exam.part, **sampling_units, **self.sampling_json}

    def build_run_json(self, report: EvaluationReport) -> dict[str, Any]:
        """Return all metrics and tests of one run."""
        return report.scores_to_json()


TEXT_FILE: Final = "tokenizer/text"
_MASKING_CLASSES: Final[dict[str, type[MaskingStrategy]]] = {
    "tokens": TokenMasking,
    "words": WholeWordMasking,
    "spans": SpanMasking,
}
_PAIRING_CLASSES: Final[dict[str, type[PassagePairing]]] = {
    "next_sentence": NextSentencePairing,
    "sentence_order": SentenceOrderPairing,
    "alone": NoPairing,
}
PretrainedModel: TypeAlias = MaskedLanguageModel | ReplacedTokenDetector
_EVALUATION_SHARE: Final = 0.15
"""Share of tokens that are hidden where models are measured, so that their losses can be compared."""


@final
class PretrainingTask(Task[PretrainingRecipe, PretrainedModel]):
    """Pre-training of encoders on masked tokens."""

    tokenizer_files: ClassVar = (TEXT_FILE,)
    unit_names: ClassVar = UnitNames(examples="passages", labels="labels", corpus_examples="sentences")
    default_example_command: ClassVar = 'fill RUN --text "..."'
    report_class: ClassVar = PassageReport
    comparison_class: ClassVar = PassageComparison

    def example_command(self, recipe: PretrainingRecipe) -> str:
        """Return the command that fills masks, or the one that detects replaced tokens, as the objective requires."""
        detects = isinstance(recipe.training.objective, ReplacedTokensConfig)
        return 'detect RUN --text "..."' if detects else self.default_example_command

    def learn_vocabularies(self, recipe: PretrainingRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Learn a text vocabulary with a mask token, or check and return the tokenizer `existing`.

        Raises:
            RecipeError: the given vocabulary has no mask token.
        """
        if existing is not None and existing.special.mask is None:
            raise RecipeError(
                f"init = {recipe.init}: its vocabulary has no piece that hides a token, and pre-training needs one; "
                "name a model that was pre-trained with hidden tokens"
            )
        texts = (document.text for document in read_examples(recipe, "train"))
        return {TEXT_FILE: learn_or_reuse_tokenizer(recipe, texts, existing=existing, masked=True)}

    def prepare_examples(
        self, run: Run[PretrainingRecipe, PretrainedModel], examples: Iterable[DocumentChunk]
    ) -> Iterable[Any]:
        """Split the documents into encoded sentences."""
        return encode_sentences(examples, run.tokenizer, split)

    def build_encoding(self, run: Run[PretrainingRecipe, PretrainedModel]) -> ExampleEncoder[Any]:
        """Return the encoding of sentences and document boundaries."""
        return build_sentence_encoding(run.tokenizer)

    def build_model(self, recipe: PretrainingRecipe, sizes: VocabSizes) -> PretrainedModel:
        """Build the encoder with the heads that the loss needs."""
        longest = recipe.data.max_length
        return build_pretrained(recipe.model, recipe.training, vocabulary=sizes[TEXT_FILE], longest=longest)

    def build_objective(
        self, run: Run[PretrainingRecipe, PretrainedModel], train: Corpus, validation: Corpus, *, device: torch.device
    ) -> PretrainingObjective:
        """Build the pre-training objective on a training and a validation corpus."""
        config = run.recipe.training
        return PretrainingObjective(
            _build_passages(
                run.recipe, train, run.tokenizer, masking=_MASKING_CLASSES[config.masking.kind](config.masking.share)
            ),
            _build_passages(run.recipe, validation, run.tokenizer, masking=TokenMasking(_EVALUATION_SHARE)),
            pretraining_loss=_build_loss(run.recipe),
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def build_evaluator(self, recipe: PretrainingRecipe | None, options: EvaluatorOptions) -> PassageEvaluator:
        """Build the evaluator of passages of the evaluated part, made as in training; the options are not used."""
        assert recipe is not None, "only a run fills hidden tokens"
        part = recipe.data.evaluation_part
        with prefix_data_errors(f"data.{part}"):
            reader = recipe.data.reader(part)
            return PassageEvaluator(
                list(reader),
                recipe=recipe,
                pretraining_loss=_build_loss(recipe),
                build_passages=partial(_build_passages, recipe, masking=TokenMasking(_EVALUATION_SHARE)),
                data_description=" and ".join(map(str, reader.paths)),
                part=part,
            )

    def build_predictor(
        self, run: Run[PretrainingRecipe, PretrainedModel], model: PretrainedModel, *, step: int | None = None
    ) -> MaskedLanguageModelPredictor | ReplacedTokenPredictor:
        """Build the predictor that fills masks, or the one that detects replaced tokens, by the class of the model;
        `step` is not used.
        """
        length = run.recipe.data.max_length  # positions beyond it were never learned
        if isinstance(model, MaskedLanguageModel):
            return MaskedLanguageModelPredictor(model, tokenizer=run.tokenizer, max_length=length)
        return ReplacedTokenPredictor(model, tokenizer=run.tokenizer, max_length=length)


TASK: Final = PretrainingTask()


def build_masked_language_model(
    config: EncoderConfig, *, vocabulary: int, longest: int, paired: bool
) -> MaskedLanguageModel:
    """Build a freshly initialised encoder with BERT's heads; the sentence-pair head only if `paired`. `vocabulary` is
    its number of tokens, `longest` the tokens of the longest input.
    """
    pooling = FirstTokenPooler(config.d_model) if paired else None
    encoder = build_transformer_encoder(config, vocabulary=vocabulary, longest=longest, summary=pooling)
    output = build_output_layer(_get_embedding(encoder), tied=True)
    activation = build_activation(config.activation)
    head = MaskedLMHead(config.d_model, output=output, activation=activation, epsilon=config.norm_epsilon)
    model = MaskedLanguageModel(encoder, masked=head, relation=nn.Linear(config.d_model, 2) if paired else None)
    get_initializer(config)(model)
    return model


def build_detector(
    config: EncoderConfig, *, vocabulary: int, longest: int, generator_layers: int
) -> ReplacedTokenDetector:
    """Build a freshly initialised detector and a generator of `generator_layers` layers that share their embedding.
    `vocabulary` is their number of tokens, `longest` the tokens of the longest input.
    """
    encoder = build_transformer_encoder(config, vocabulary=vocabulary, longest=longest)
    generator_config = config.model_copy(update={"layers": generator_layers})
    generator = build_masked_language_model(generator_config, vocabulary=vocabulary, longest=longest, paired=False)
    assert isinstance(generator.encoder, TransformerEncoder)
    generator.encoder.stack.embedding = encoder.stack.embedding
    generator.masked.output.weight = _get_embedding(encoder).weight
    model = ReplacedTokenDetector(
        generator, encoder=encoder, d_model=config.d_model, activation=build_activation(config.activation)
    )
    get_initializer(config)(model)
    return model


def build_detector_alone(config: EncoderConfig, *, vocabulary: int, longest: int) -> ReplacedTokenDetector:
    """Build a freshly initialised detector without a generator; it can be used but not trained. `vocabulary` is its
    number of tokens, `longest` the tokens of the longest input.
    """
    encoder = build_transformer_encoder(config, vocabulary=vocabulary, longest=longest)
    model = ReplacedTokenDetector(
        None, encoder=encoder, d_model=config.d_model, activation=build_activation(config.activation)
    )
    get_initializer(config)(model)
    return model


def build_pretrained(
    config: EncoderConfig, training: PretrainingTrainingConfig, *, vocabulary: int, longest: int
) -> PretrainedModel:
    """Build the freshly initialised model that the objective in `training` needs: a detector with a generator, or a
    masked language model. `vocabulary` is its number of tokens, `longest` the tokens of the longest input.
    """
    objective = training.objective
    if isinstance(objective, ReplacedTokensConfig):
        layers = objective.generator_layers
        return build_detector(config, vocabulary=vocabulary, longest=longest, generator_layers=layers)
    paired = training.pairing != "alone"
    return build_masked_language_model(config, vocabulary=vocabulary, longest=longest, paired=paired)


def _build_passages(
    recipe: PretrainingRecipe, corpus: Corpus, tokenizer: Tokenizer, *, masking: MaskingStrategy
) -> MaskedPassageBatches:
    """Build the batches of masked passages of a corpus, as the recipe configures them, with the given choice of masked
    tokens.
    """
    config = recipe.training
    passages = PassageSampler(
        corpus,
        pairing=_PAIRING_CLASSES[config.pairing](),
        max_length=recipe.data.max_length,
        short_share=config.short,
        seed=recipe.seed,
    )
    return MaskedPassageBatches(passages, tokenizer=tokenizer, masking=masking)


def _build_loss(recipe: PretrainingRecipe) -> PretrainingLoss:
    """Build the loss; a sentence pair weighs as much as all masked tokens of a full passage."""
    config, share = recipe.training.objective, recipe.training.masking.share
    if isinstance(config, ReplacedTokensConfig):
        return ReplacedTokenLoss(weight=config.weight, share=share)
    return MaskedTokenLoss(weight=share * recipe.data.max_length)


def _get_embedding(encoder: TransformerEncoder) -> nn.Embedding:
    embedding = encoder.stack.embedding
    assert isinstance(embedding, TokenEmbedding)
    return embedding.table
