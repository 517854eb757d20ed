"""The text matching task, with its evaluator: find the partner of each text among all texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int

from heedful.architectures.build import build_encoder
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.encoder_inputs import encode_texts
from heedful.data.readers import SentencePair
from heedful.errors import DataError
from heedful.metrics.metric import Metric, build_mean_metric
from heedful.metrics.ranking import rank_paired_targets
from heedful.models.heads import TextMatcher
from heedful.models.interface import Encoder
from heedful.tasks.embedder import Embedder, TextEmbedder
from heedful.tasks.label_evaluation import LabelEvaluator
from heedful.tasks.matching.objective import SIDES, MatchingObjective, number_texts
from heedful.tasks.matching.recipe import MatchingRecipe
from heedful.tasks.objective import UnitNames
from heedful.tasks.task import FineTuningTask, Run, VocabSizes, read_examples
from heedful.tensors import Tokens

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
