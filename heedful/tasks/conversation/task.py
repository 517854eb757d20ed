"""The conversation task, with its evaluator: the likelihood of human replies, beside that of n-grams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from heedful.architectures.build import build_conditional_model
from heedful.architectures.interface import DataSizes
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.inspection.page import PageTable
from heedful.metrics.likelihood import KneserNeyModel, Perplexity
from heedful.metrics.metric import Metric, RatioMetric
from heedful.models.generative import ConditionalModel
from heedful.recipes.recipe import Recipe
from heedful.tasks.comparison import RunComparison
from heedful.tasks.conversation.data import Dialogue, DialogueEncoder, Exchange, ExchangeReader
from heedful.tasks.conversation.predictor import ChatPredictor
from heedful.tasks.conversation.recipe import ConversationRecipe
from heedful.tasks.evaluation import Evaluator, EvaluatorOptions
from heedful.tasks.generation_objective import GenerationObjective, build_criterion
from heedful.tasks.objective import UnitNames
from heedful.tasks.report import EvaluationReport
from heedful.tasks.task import Run, Task, VocabSizes, Vocabularies, learn_or_reuse_tokenizer, prefix_data_errors
from heedful.tensors import Tokens

NGRAM_ORDER: Final = 5
"""Order of the n-gram baseline."""
_MAIN_METRIC: Final = "word_perplexity"


@dataclass(frozen=True)
class ReplyLikelihoods:
    """Negative log-likelihood of each reply in nats, and its length.

    Attributes:
        nats: given its context.
        nats_without_context: given the speaker alone.
        ngram_nats: by n-grams of the training dialogues, given the same context in the same tokens.
        tokens: tokens of each reply, its end included.
        words: stretches without white space, and the end.
    """

    nats: Float[np.ndarray, " N"]
    nats_without_context: Float[np.ndarray, " N"]
    ngram_nats: Float[np.ndarray, " N"]
    tokens: Float[np.ndarray, " N"]
    words: Float[np.ndarray, " N"]


@final
class ReplyEvaluator(Evaluator):
    """Evaluator of the likelihood of replies; bootstrap samples consist of replies.

    Args:
        reader: reader of exchanges.
        part: part of the data.

    Raises:
        DataError: there is no reply.
    """

    progress_text = "reading replies"

    def __init__(self, reader: ExchangeReader, *, part: str) -> None:
        self.exchanges = [exchange for exchange in reader if exchange.reply.text]
        self.data_description = " and ".join(map(str, reader.paths))
        self.part = part
        if not self.exchanges:
            raise DataError(f"{self.data_description}: there are no replies to measure on; check data.replier")
        self.inputs: Sequence[tuple[str, ...]] = [
            tuple(t.text for t in exchange.context) for exchange in self.exchanges
        ]
        self.reference_answers: Sequence[str] = [exchange.reply.text for exchange in self.exchanges]
        self.size = len(self.exchanges)

    def predict(self, predictor: ChatPredictor, recipe: Recipe) -> ReplyLikelihoods:
        """Return the negative log-likelihood of each reply by the predictor, with its context and without it, and by
        n-grams that are trained on the recipe's data.
        """
        assert isinstance(recipe, ConversationRecipe)
        without_context = [Exchange((), exchanges.reply) for exchanges in self.exchanges]
        scores = [predictor.score(exchanges) for exchanges in (self.exchanges, without_context)]
        nats, nats_without_context = (np.array([reply.nats for reply in exchanges]) for exchanges in scores)
        tokens = np.array([float(len(reply.tokens)) for reply in scores[0]])
        words = np.array([len(text.split()) + 1.0 for text in self.reference_answers])
        ngram_model = train_ngrams(recipe.data.reader("train").dialogues, predictor.encoder)
        return ReplyLikelihoods(
            nats,
            nats_without_context,
            np.array(list(_iter_ngram_nats(ngram_model, self.exchanges, predictor.encoder))),
            tokens,
            words,
        )

    def compute_metrics(self, answers: ReplyLikelihoods) -> Mapping[str, Metric]:
        """Compute the loss per token, perplexities per token and per word, and the same without context and of n-grams
        from the likelihoods in `answers`.
        """
        return {
            "loss": RatioMetric(answers.nats, answers.tokens),
            "perplexity": Perplexity(answers.nats, answers.tokens),
            "word_perplexity": Perplexity(answers.nats, answers.words),
            "perplexity_without_context": Perplexity(answers.nats_without_context, answers.tokens),
            "word_perplexity_without_context": Perplexity(answers.nats_without_context, answers.words),
            "kneser_ney_perplexity": Perplexity(answers.ngram_nats, answers.tokens),
            "kneser_ney_word_perplexity": Perplexity(answers.ngram_nats, answers.words),
        }


def train_ngrams(
    dialogues: Iterable[Dialogue], encoder: DialogueEncoder, *, order: int = NGRAM_ORDER
) -> KneserNeyModel:
    """Train a Kneser-Ney model of n-grams up to length `order` on whole dialogues of all speakers, in the tokens of
    `encoder`.
    """
    sequences = ([encoder.tokenizer.special.bos, *_iter_dialogue_ids(dialogue, encoder)] for dialogue in dialogues)
    return KneserNeyModel(sequences, vocab_size=encoder.vocab_size, order=order)


def _iter_ngram_nats(
    ngram_model: KneserNeyModel, exchanges: Iterable[Exchange], encoder: DialogueEncoder
) -> Iterator[float]:
    """Yield the negative log-likelihood of the reply of each exchange, given its context and speaker, in the tokens of
    `encoder`.
    """
    for exchange in exchanges:
        context_ids = [
            encoder.tokenizer.special.bos,
            *(n for turn in exchange.context for n in encoder.encode_turn(turn)),
        ]
        reply = encoder.encode_turn(exchange.reply)
        yield sum(ngram_model.score_sequence([*context_ids, *reply])[len(context_ids) :])


def _iter_dialogue_ids(dialogue: Dialogue, encoder: DialogueEncoder) -> Iterator[int]:
    for turn in dialogue.turns:
        yield from encoder.encode_turn(turn)


@final
@dataclass(frozen=True, repr=False)
class ConversationReport(EvaluationReport):
    """Perplexities of replies, with and without their context, beside n-grams."""

    evaluator: ReplyEvaluator
    answers: ReplyLikelihoods

    def format_text(self) -> str:
        """Format a table of perplexities with one line for each model."""
        values = self.metric_values
        tokens, words = int(self.answers.tokens.sum()), int(self.answers.words.sum())
        lines = [
            f"{self.system.name}: {self.evaluator.part}, {self.evaluator.size:,} replies",
            f"{'perplexity':<32}  {'per token':>10}  {'per word':>10}",
        ]
        for label, prefix, suffix in (
            ("the model", "", ""),
            ("the model without past turns", "", "_without_context"),
            (f"Kneser-Ney, {NGRAM_ORDER}-grams", "kneser_ney_", ""),
        ):
            perplexities = (values[f"{prefix}{name}{suffix}"] for name in ("perplexity", "word_perplexity"))
            lines.append(f"{label:<32}  {next(perplexities):>10.4f}  {next(perplexities):>10.4f}")
        lines.append(f"{tokens:,} tokens and {words:,} words, the end of each reply among them")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the perplexities as JSON data."""
        counts = {"part": self.evaluator.part, "replies": self.evaluator.size}
        return {**counts, **self.metric_values, **self.count_text()}

    def count_text(self) -> dict[str, int]:
        """Return the number of tokens and words."""
        return {"tokens": int(self.answers.tokens.sum()), "words": int(self.answers.words.sum())}


@final
@dataclass(frozen=True, repr=False)
class ConversationComparison(RunComparison):
    """Comparison by perplexity per word, which needs no common vocabulary."""

    reports: tuple[ConversationReport, ...]

    @property
    def heading(self) -> str:
        """Number of runs, task, number of replies and data."""
        return (
            f"{self.run_count_text} of {self.recipes[0].task} on {self.exam.size:,} replies of "
            f"{self.exam.data_description}"
        )

    def build_results_table(self) -> PageTable:
        """Return a table with a row for each run."""
        columns = ["run", "model", "parameters", "minutes", "word perplexity", "95 % interval", "p", "without context"]
        rows = []
        for report, row in zip(self.reports, self.describe_runs(), strict=True):
            baselines = ("word_perplexity_without_context", "kneser_ney_word_perplexity")
            values = [f"{report.metrics[name].value:.3f}" for name in baselines]
            rows.append([*row, *report.format_score(_MAIN_METRIC, ".3f"), *values])
        return PageTable("", [*columns, "Kneser-Ney"], rows, self.collect_notes())

    def table_notes(self) -> list[str]:
        """Return notes that explain the columns."""
        note = f"Kneser-Ney: {NGRAM_ORDER}-grams of the training dialogues in the tokens of the run"
        return [*self.explain_p_values(" of replies"), note]

    def draw_plots(self) -> list[str]:
        """Plot perplexity over model size, and the loss curves; return each as HTML."""
        plot = self.plot_by_size(
            _MAIN_METRIC, title="Perplexity per word", y_name="perplexity per word, with its 95 % interval"
        )
        return [plot, *self.plot_loss_curves()]

    def build_json_fields(self) -> dict[str, Any]:
        """Return the part, the number of replies and the sampling as JSON data."""
        return {"part": self.exam.part, "replies": self.exam.size, **self.sampling_json}

    def build_run_json(self, report: EvaluationReport) -> dict[str, Any]:
        """Return all metrics of the run that a report is about, and the counts behind them, as JSON data."""
        assert isinstance(report, ConversationReport)
        return {**report.count_text(), **report.scores_to_json()}


TEXT_FILE: Final = "tokenizer/text"
SPEAKERS_FILE: Final = "tokenizer/speakers"
ConversationModel: TypeAlias = ConditionalModel[Tokens]
ConversationRun: TypeAlias = Run[ConversationRecipe, ConversationModel]


@final
class ConversationTask(Task[ConversationRecipe, ConversationModel]):
    """Task that generates replies in dialogues."""

    tokenizer_files: ClassVar = (TEXT_FILE,)
    label_files: ClassVar = (SPEAKERS_FILE,)
    output_noun: ClassVar = "speakers"
    unit_names: ClassVar = UnitNames(examples="replies")
    default_example_command: ClassVar = "chat RUN"
    report_class: ClassVar = ConversationReport
    comparison_class: ClassVar = ConversationComparison

    def learn_vocabularies(self, recipe: ConversationRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Learn the tokenizer of all turns, unless `existing` is one to use instead, and collect the speakers."""
        dialogues = recipe.data.reader("train").dialogues
        tokenizer = learn_or_reuse_tokenizer(
            recipe, (turn.text for dialogue in dialogues for turn in dialogue.turns), existing=existing, generated=True
        )
        return {
            TEXT_FILE: tokenizer,
            SPEAKERS_FILE: LabelVocabulary.learn(turn.speaker for dialogue in dialogues for turn in dialogue.turns),
        }

    def build_encoding(self, run: ConversationRun) -> ExampleEncoder[Exchange]:
        """Build the encoding of contexts and replies."""
        return build_dialogue_encoder(run).build_encoding()

    def build_model(self, recipe: ConversationRecipe, sizes: VocabSizes) -> ConversationModel:
        """Build the model with one vocabulary for source and target; `sizes` has the number of tokens and of speakers,
        which are added.
        """
        size = sizes[TEXT_FILE] + sizes[SPEAKERS_FILE]
        return build_conditional_model(recipe.model, DataSizes(size, size, recipe.data.max_length))

    def embedding_modules(
        self, run: ConversationRun, model: ConversationModel
    ) -> Mapping[str, tuple[Tokenizer, nn.Module]]:
        """Return the tokenizer and the encoder or decoder for each recipe key that names word vectors."""
        modules = {"source_vectors": "encoder", "target_vectors": "decoder", "decoder.vectors": "decoder"}
        return {key: (run.tokenizer, model.get_submodule(modules[key])) for key in run.recipe.model.word_vectors}

    def build_objective(
        self, run: ConversationRun, train: Corpus, validation: Corpus, *, device: torch.device
    ) -> GenerationObjective:
        """Build the objective on a training and a validation corpus: likelihood of the replies."""
        config = run.recipe.training
        return GenerationObjective(
            train,
            validation,
            collate_fn=build_dialogue_encoder(run).collate,
            criterion=build_criterion(config),
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def build_evaluator(self, recipe: ConversationRecipe | None, options: EvaluatorOptions) -> ReplyEvaluator:
        """Build the evaluator of the replies in the recipe's dialogues; the options are not used."""
        assert recipe is not None, "only a run replies"
        part = recipe.data.evaluation_part
        with prefix_data_errors(f"data.{part}"):
            return ReplyEvaluator(recipe.data.reader(part), part=part)

    def build_predictor(
        self, run: ConversationRun, model: ConversationModel, *, step: int | None = None
    ) -> ChatPredictor:
        """Build the chat predictor of a trained model; `step` is not used."""
        return ChatPredictor(
            model,
            encoder=build_dialogue_encoder(run),
            speaker=run.recipe.data.replier,
            generation=run.recipe.generation,
        )


TASK: Final = ConversationTask()


def build_dialogue_encoder(run: ConversationRun) -> DialogueEncoder:
    """Build the dialogue encoder of a run."""
    data = run.recipe.data
    return DialogueEncoder(
        run.tokenizer, run.get_vocabulary(SPEAKERS_FILE, LabelVocabulary), data.window, data.max_length
    )
