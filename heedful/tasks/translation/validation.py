"""Metrics of the greedy translations of validation text, which training can monitor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

import torch
from torch import nn

from heedful.data.factors import SourceEncoder
from heedful.data.readers import SentencePair
from heedful.metrics.judge import TranslationJudge, score_with_judge
from heedful.metrics.translation import MetricScore, bleu, chrf, select_bleu_tokenizer, ter
from heedful.recipes.generation import GreedyConfig
from heedful.registry import load_object
from heedful.tasks.generation_objective import GenerationMetrics
from heedful.tasks.search_factory import LengthLimits, build_search
from heedful.tasks.task import Run
from heedful.tasks.translation.evaluation import list_pair_references, translate_pairs
from heedful.tasks.translation.recipe import TranslationRecipe

TranslationRun: TypeAlias = Run[TranslationRecipe, Any]
_LENGTH_LIMITS: Final = LengthLimits(1.5, 10)
_OPEN_JUDGE: Final = "heedful.foreign.judges:open_judge"
"""What opens a learned metric; it is in a room above tasks, so it is named as recipes name code."""


class _ValidationMetric(ABC):
    """Abstract base of metrics of translations.

    Args:
        run: whose recipe says whether case counts, and which language is written.
    """

    def __init__(self, run: TranslationRun) -> None:
        self.lowercase = run.recipe.tokenizer.target_config.lowercase
        self.language = run.recipe.data.find_target_language("validation")

    @abstractmethod
    def measure(self, pairs: Sequence[SentencePair], texts: Sequence[str]) -> float:
        """Return the metric of `texts`, a translation of each pair."""


@final
class _CorpusScore(_ValidationMetric):
    """A metric of sacrebleu; `compute` returns it for translations, their references, and whether case is ignored."""

    def __init__(self, run: TranslationRun, compute: Callable[..., MetricScore]) -> None:
        super().__init__(run)
        self.compute = compute

    def measure(self, pairs: Sequence[SentencePair], texts: Sequence[str]) -> float:
        """Return the score; BLEU splits words as suits the language."""
        options: dict[str, str] = {}
        if self.compute is bleu:
            options["tokenize"] = select_bleu_tokenizer([pair.target for pair in pairs], language=self.language)
        return self.compute(texts, list_pair_references(pairs), lowercase=self.lowercase, **options).value


@final
class _JudgeMean(_ValidationMetric):
    """The mean score of a learned metric."""

    def __init__(self, run: TranslationRun, judge: TranslationJudge) -> None:
        super().__init__(run)
        self.judge = judge

    def measure(self, pairs: Sequence[SentencePair], texts: Sequence[str]) -> float:
        """Return the mean of the scores of all translations."""
        sources, references = [pair.source for pair in pairs], list_pair_references(pairs)
        return score_with_judge(
            self.judge, sources=sources, candidates=texts, references=references, lowercase=self.lowercase
        ).metric.value


_CORPUS_SCORES: Final[Mapping[str, Callable[..., MetricScore]]] = {"bleu": bleu, "chrf": chrf, "ter": ter}
"""Metrics of sacrebleu that `training.monitor` names."""


def build_validation_metric(run: TranslationRun, *, device: torch.device) -> GenerationMetrics | None:
    """Build the metric of validation translations that the recipe monitors; None if it monitors another metric.

    Args:
        run: the run.
        device: where a learned metric computes.

    Raises:
        RecipeError: there is no folder of the learned metric.
        RunError: the folder does not hold a learned metric.
    """
    config = run.recipe.training
    metric: _ValidationMetric
    if config.judge is not None:
        open_judge = load_object(_OPEN_JUDGE, context="training.judge")
        metric = _JudgeMean(run, open_judge(config.judge, device=device))
    elif config.monitor in _CORPUS_SCORES:
        metric = _CorpusScore(run, _CORPUS_SCORES[config.monitor])
    else:
        return None
    pairs = [pair for pair in run.read_examples("validation") if pair.source and pair.target]

    def measure(model: nn.Module) -> dict[str, float]:
        """Translate the validation text and return the metric of the translations."""
        return {config.monitor: metric.measure(*translate_greedily(run, model, pairs))}

    return GenerationMetrics(frozenset({config.monitor}), measure)


_MAX_CHECKED: Final = 60
"""Number of validation sentences that are translated to see whether a model is useful."""
_POOR_BLEU, _POOR_CHRF = 5.0, 30.0
"""Scores below which translations cannot be understood. Both count, because a single word has no n-grams for BLEU."""
_CLEAR_ACCURACY: Final = 0.8
"""Share of the tokens that a model predicts right, from which on its translations need not be looked at."""


def describe_poor_translations(run: TranslationRun, metrics: Mapping[str, float], model: nn.Module) -> str:
    """Return a warning if greedy translations of some validation sentences have a very low BLEU and chrF; empty if they
    are better. `metrics` are those of the model on the validation data.
    """
    pairs = [pair for pair in run.read_examples("validation") if pair.source and pair.target]
    if metrics["accuracy"] >= _CLEAR_ACCURACY or not pairs:
        return ""
    checked, texts = translate_greedily(run, model, pairs[:: -(-len(pairs) // _MAX_CHECKED)])
    if not checked:
        return ""
    scores = [_CorpusScore(run, compute).measure(checked, texts) for compute in (bleu, chrf)]
    if scores[0] >= _POOR_BLEU or scores[1] >= _POOR_CHRF:
        return ""
    return (
        f"translations of {len(checked)} validation sentences have BLEU {scores[0]:.1f} and chrF {scores[1]:.1f}, and "
        f"below {_POOR_BLEU:g} and {_POOR_CHRF:g} they cannot be understood"
    )


def translate_greedily(
    run: TranslationRun, model: nn.Module, pairs: Sequence[SentencePair]
) -> tuple[list[SentencePair], list[str]]:
    """Return those of the pairs whose sources a model can read as a whole, and its greedy translations of them."""
    translator = run.task.build_predictor(run, model)
    source = SourceEncoder(run.get_tokenizer(run.task.tokenizer_files[0]), run.task.source_factors(run))
    short_pairs = [
        pair for pair in pairs if len(source.with_tags(pair.tags).encode(pair.source)) < translator.max_source
    ]
    search = build_search(GreedyConfig(), run.tokenizer)
    translations = translate_pairs(translator, short_pairs, search=search, length=_LENGTH_LIMITS)
    return short_pairs, [translation.text for translation in translations]
