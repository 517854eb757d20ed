"""The text matching task: contrastive loss with in-batch negatives, and an evaluator that finds the partner of each
text among all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from heedful.architectures.build import build_encoder
from heedful.data.batches import batch_by_length, batch_randomly, to_tokens
from heedful.data.corpus import Corpus, CorpusSide, ExampleEncoder
from heedful.data.encoder_inputs import encode_texts
from heedful.data.readers import SentencePair
from heedful.errors import DataError
from heedful.metrics.classification import rank_paired_targets
from heedful.metrics.metric import Metric, build_mean_metric
from heedful.models.heads import TextMatcher
from heedful.models.interface import Encoder
from heedful.tasks.embedder import Embedder, TextEmbedder
from heedful.tasks.label_evaluation import LabelEvaluator
from heedful.tasks.matching.recipe import MatchingRecipe
from heedful.tasks.objective import Loss, LossPart, RowIndices, TrainingObjective, UnitNames
from heedful.tasks.task import FineTuningTask, Run, VocabSizes, read_examples
from heedful.tensors import Tokens, move_to_device

SIDES = ("source", "target")


@dataclass(frozen=True)
class TextChunks:
    """Texts in chunks of similar length, and the row of each text in the concatenated chunks."""

    chunks: tuple[Tokens, ...]
    row_indices: Int[Tensor, " B"]

    def embed(self, model: TextMatcher) -> Float[Tensor, "B d_output"]:
        """Embed the texts with a model and return one row for each, in the order of `row_indices`."""
        return torch.cat([model(chunk) for chunk in self.chunks]).index_select(0, self.row_indices)


@dataclass(frozen=True)
class TextPairBatch:
    """A batch of text pairs.

    Attributes:
        source, target: the two sides.
        shares_text: which pairs have a text in common, besides each with itself; they are not negatives of each other.
    """

    source: TextChunks
    target: TextChunks
    shares_text: Bool[Tensor, "B B"]


def contrastive_loss(
    source: Float[Tensor, "B d"],
    target: Float[Tensor, "B d"],
    shares_text: Bool[Tensor, "B B"],
    *,
    scale: Float[Tensor, ""],
    margin: float = 0.0,
) -> Float[Tensor, ""]:
    """Compute the symmetric InfoNCE, summed over pairs of unit vectors, in nats (van den Oord et al. 2018, eq. 4;
    Radford et al. 2021, 2.3). Pairs that share a text are not compared.

    -log(e^(s(c_ii - m)) / (e^(s(c_ii - m)) + sum_j e^(s c_ij))) over the sources j of other pairs, and over their
    targets, the mean of both; c are cosines, m the margin (Yang et al. 2019, eq. 5).

    Args:
        source, target: vectors of length 1.
        shares_text: see `TextPairBatch`.
        scale: s, 1 / temperature.
        margin: m.
    """
    identity = torch.eye(len(source), dtype=source.dtype, device=source.device)
    logits = (scale * (source @ target.T - margin * identity)).masked_fill(shares_text, -torch.inf)
    labels = torch.arange(len(source), device=source.device)
    loss = functional.cross_entropy(logits, labels, reduction="sum") + functional.cross_entropy(
        logits.T, labels, reduction="sum"
    )
    return loss / 2


def number_texts(*sides: Sequence[Hashable]) -> Int[np.ndarray, "sides B"]:
    """Assign a number to each text of each side; equal texts of a side get the same number."""
    numbers = [{text: number for number, text in enumerate(dict.fromkeys(side))} for side in sides]
    return np.array(
        [[number_by_text[text] for text in side] for number_by_text, side in zip(numbers, sides, strict=True)]
    )


def find_shared_texts(text_numbers: Int[np.ndarray, "sides B"]) -> Bool[np.ndarray, "B B"]:
    """Return for each two rows whether they have an equal text on some side; a row does not share with itself."""
    shared: np.ndarray = (text_numbers[:, :, None] == text_numbers[:, None]).any(0)
    np.fill_diagonal(shared, val=False)
    return shared


@dataclass(eq=False)
class MatchingObjective(TrainingObjective[TextPairBatch]):
    """Training objective that distinguishes text pairs from the others of their batch.

    Attributes:
        train: training pairs.
        validation: validation pairs.
        batch_pairs: pairs in a batch.
        batch_tokens: padded tokens that are encoded at one time.
        margin: see `contrastive_loss`.
        seed: seed of the order of examples.
        device: the model's device.
    """

    train: Corpus
    validation: Corpus
    batch_pairs: int
    batch_tokens: int
    margin: float
    seed: int
    device: torch.device
    metric_names = frozenset({"loss", "recall"})
    part_names = frozenset({"nll"})

    def plan_epoch(self, epoch: int) -> Sequence[RowIndices]:
        """Return batches of pairs of any length, because lengths must not reveal which texts belong together."""
        return batch_randomly(len(self.train), max_rows=self.batch_pairs, seed=self.seed, epoch=epoch)

    def build_batch(self, rows: RowIndices) -> TextPairBatch:
        """Build the batch of the training pairs in `rows`."""
        return self._collate_on_device(self.train, rows)

    def loss(self, model: TextMatcher, batch: TextPairBatch) -> Loss:
        """Compute the contrastive loss of a batch; its part `nll` is without the margin."""
        source, target = batch.source.embed(model), batch.target.embed(model)
        total = contrastive_loss(source, target, batch.shares_text, scale=model.scale, margin=self.margin)
        plain_loss = (
            total if not self.margin else contrastive_loss(source, target, batch.shares_text, scale=model.scale)
        )
        return Loss(total, len(source), {"nll": LossPart(plain_loss.detach(), len(source))})

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Compute `loss`, the contrastive loss per pair among the pairs of each batch, and `recall`, the share of texts
        whose closest text among all is their partner.
        """
        assert isinstance(model, TextMatcher)
        total = 0.0
        sources, targets = [], []
        batches = np.array_split(np.arange(len(self.validation)), -(-len(self.validation) // self.batch_pairs))
        for rows in batches:
            batch = self._collate_on_device(self.validation, rows)
            source, target = batch.source.embed(model), batch.target.embed(model)
            total += float(contrastive_loss(source, target, batch.shares_text, scale=model.scale))
            sources.append(source.cpu().numpy())
            targets.append(target.cpu().numpy())
        text_numbers = number_texts(*(_text_keys(self.validation[side], np.concatenate(batches)) for side in SIDES))
        ranks = rank_paired_targets(np.concatenate(sources), np.concatenate(targets), text_numbers)
        return {"loss": total / len(self.validation), "recall": float((ranks == 1).mean())}

    def _collate_on_device(self, corpus: Corpus, rows: RowIndices) -> TextPairBatch:
        source, target = (_chunk_texts(corpus[side], rows, tokens=self.batch_tokens) for side in SIDES)
        alike = find_shared_texts(number_texts(*(_text_keys(corpus[side], rows) for side in SIDES)))
        return move_to_device(TextPairBatch(source, target, torch.from_numpy(alike)), self.device)


def _text_keys(side: CorpusSide, rows: RowIndices) -> list[bytes]:
    """Return each text of a side as bytes."""
    return [side[row].tobytes() for row in rows]


def _chunk_texts(side: CorpusSide, rows: RowIndices, *, tokens: int) -> TextChunks:
    """Collate the texts of a side in these rows into chunks of similar length and about `tokens` tokens."""
    plan = batch_by_length(side.lengths[rows], max_tokens=tokens, max_rows=len(rows))
    chunks = tuple(to_tokens(side.collate_ids(rows[chunk])) for chunk in plan)
    return TextChunks(chunks, torch.from_numpy(np.argsort(np.concatenate(plan))))


Ranks = Int[np.ndarray, "2 N"]


def build_matching_evaluator(pairs: Sequence[SentencePair], *, num_train_pairs: int) -> LabelEvaluator:
    """Build the evaluator that searches each text's partner among all texts of the other side, by cosine similarity,
    in both directions.

    Answers are the ranks of the partners, those of targets first. Recall@k is the share of texts whose partner is among
    the first k, MRR the mean of 1 / rank. Texts that occur twice, or whose partners do, are not distinguished.

    Args:
        pairs: the test pairs; those with an empty side are left out.
        num_train_pairs: number of training pairs.

    Raises:
        DataError: there is no pair.
    """
    complete_pairs = [pair for pair in pairs if pair.source and pair.target]
    if not complete_pairs:
        raise DataError("there are no pairs of texts; check the file")
    sources, targets = [pair.source for pair in complete_pairs], [pair.target for pair in complete_pairs]
    text_numbers = number_texts(sources, targets)

    file_ranks = np.arange(1, len(complete_pairs) + 1)
    return LabelEvaluator(
        sources,
        targets,
        predict_labels=lambda user: rank_paired_targets(
            embed_normalized(user, sources), embed_normalized(user, targets), text_numbers
        ),
        measure=_compute_metrics,
        size=len(complete_pairs),
        num_train_examples=num_train_pairs,
        constant_answer="the order of the file",
        baseline_answers=np.stack([file_ranks, file_ranks]),
        main_metric="targets recall@1",
        data_warnings=(f"{num_left_out:,} pairs with an empty side are left out",)
        if (num_left_out := len(pairs) - len(complete_pairs))
        else (),
    )


def embed_normalized(predictor: TextEmbedder, texts: Sequence[str]) -> Float[np.ndarray, "N d"]:
    """Embed texts as vectors of length 1; a text that is too long is truncated."""
    vectors = predictor.embed(texts, cut=lambda _: None)
    unit_vectors: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
    return unit_vectors


def _compute_metrics(ranks: Ranks) -> Mapping[str, Metric]:
    """Compute recall@1, recall@5 and MRR of the ranks of targets and of sources, by name."""
    metrics: dict[str, Metric] = {}
    for side, side_ranks in zip(("targets", "sources"), ranks, strict=True):
        metrics |= {f"{side} recall@{k}": build_mean_metric(side_ranks <= k) for k in (1, 5)}
        metrics[f"{side} MRR"] = build_mean_metric(1 / side_ranks)
    return metrics


TEXT_FILE: Final = "tokenizer/text"
MatchingRun: TypeAlias = Run[MatchingRecipe, TextMatcher]


@final
class MatchingTask(FineTuningTask[MatchingRecipe, TextMatcher]):
    """Task that embeds the texts of a pair close together."""

    tokenizer_files: ClassVar = (TEXT_FILE,)
    unit_names: ClassVar = UnitNames(examples="pairs", labels="pairs", corpus_examples="pairs")
    default_example_command: ClassVar = "index INDEX PASSAGES --model RUN"

    def iter_texts(self, recipe: MatchingRecipe) -> Iterator[str]:
        """Iterate over the texts of both sides."""
        return (text for pair in read_examples(recipe, "train") for text in (pair.source, pair.target))

    def build_encoding(self, run: MatchingRun) -> ExampleEncoder[SentencePair]:
        """Build the encoding of both sides, each between begin and end, truncated if too long."""
        tokenizer, length = run.tokenizer, run.recipe.data.max_length

        def encode_side(text: str) -> tuple[int, ...]:
            """Encode one side; empty if it has no text."""
            return encode_texts(tokenizer, (text,), max_length=length).ids if text else ()

        return ExampleEncoder(
            dict.fromkeys(SIDES, run.tokenizer.size),
            lambda pair: (encode_side(pair.source), encode_side(pair.target)),
            identity_key=lambda pair: (pair.source, pair.target),
        )

    def build_encoder_with_head(
        self, recipe: MatchingRecipe, sizes: VocabSizes, *, encoder: Encoder[Tokens] | None = None
    ) -> TextMatcher:
        """Build a matching model from the given encoder, or a new one, with a temperature; `sizes` has the vocabulary
        size.
        """
        if encoder is None:
            encoder = build_encoder(recipe.model, vocabulary=sizes[TEXT_FILE], longest=recipe.data.max_length)
        config = recipe.training
        return TextMatcher(encoder, temperature=config.temperature, is_trainable=config.learn_temperature)

    def build_objective(
        self, run: MatchingRun, train: Corpus, validation: Corpus, *, device: torch.device
    ) -> MatchingObjective:
        """Build the contrastive objective on a training and a validation corpus."""
        config = run.recipe.training
        return MatchingObjective(
            train,
            validation,
            batch_pairs=config.pairs,
            batch_tokens=config.batch_tokens,
            margin=config.margin,
            seed=run.recipe.seed,
            device=device,
        )

    def build_part_evaluator(self, recipe: MatchingRecipe, part: str) -> LabelEvaluator:
        """Build the evaluator of the pairs of a part of the data."""
        total = sum(1 for pair in recipe.data.reader("train") if pair.source and pair.target)
        return build_matching_evaluator(list(recipe.data.reader(part)), num_train_pairs=total)

    def primary_metric(self, run: MatchingRun) -> str:
        """Return `recall`, the share of texts whose closest text is their partner."""
        return "recall"

    def build_predictor(self, run: MatchingRun, model: TextMatcher, *, step: int | None = None) -> Embedder:
        """Build the embedder of a trained model; `step` is not used."""
        return Embedder(model.encoder, tokenizer=run.tokenizer, max_length=run.recipe.data.max_length)


TASK: Final = MatchingTask()
