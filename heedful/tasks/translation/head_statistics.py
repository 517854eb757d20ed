"""Statistics of a translation model's attention heads: where they attend, alignment quality and importance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from heedful.attention.hooks import AttentionKind
from heedful.data.context import SourceSentence, get_text
from heedful.data.word_alignments import map_pieces_to_words
from heedful.errors import RecipeError
from heedful.generation.search import SearchStrategy
from heedful.inspection.capture import disable_head, find_attention_sites
from heedful.inspection.heads import HeadMeasureSums, measure_map
from heedful.inspection.record import AttentionMap
from heedful.metrics.error_rates import GoldAlignment, alignment_error_rate
from heedful.metrics.translation import bleu, select_bleu_tokenizer
from heedful.tasks.inspection_records import InspectionSelection
from heedful.tasks.translation.translations import WordLinks, link_words
from heedful.tasks.translation.translator import Translator


@dataclass(frozen=True)
class AttentionHead:
    """A head of a model, counted from 0; `path` is that of its attention."""

    path: str
    role: AttentionKind
    layer: int
    number: int

    @property
    def title(self) -> str:
        """Display name, such as `cross 2.0`."""
        return f"{self.role} {self.layer}.{self.number}"


@dataclass(frozen=True)
class HeadStatistics:
    """Where a head attends, averaged over queries.

    Attributes:
        head: the head.
        averages: of its measures; see `HeadMeasureSums.averages`.
        error_rate: of its alignments against human ones; None for heads that do not attend to the source, or without
            human alignments.
    """

    head: AttentionHead
    averages: Mapping[str, float]
    error_rate: float | None


@dataclass(frozen=True)
class HeadImportance:
    """Loss of quality without a head.

    Attributes:
        head: the head.
        bleu: loss in BLEU points; negative if the model translates better without it.
        nats: loss in log-probability of the references, in nats for each token.
    """

    head: AttentionHead
    bleu: float
    nats: float


@dataclass(frozen=True)
class ModelImportance:
    """Importance of all heads, with BLEU and nats per token of the whole model."""

    bleu: float
    nats: float
    heads: tuple[HeadImportance, ...]


def collect_head_statistics(
    translator: Translator,
    pairs: Sequence[tuple[SourceSentence, str]],
    *,
    gold: Sequence[GoldAlignment] | None = None,
    selection: InspectionSelection | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> tuple[HeadStatistics, ...]:
    """Collect the statistics of all heads while a model reads given translations; with the human alignments `gold` also
    the error rates of their alignments.

    Args:
        translator: whose first model is used.
        pairs: sentences and their translations; pairs with an empty side are skipped.
        gold: human alignments, one for each pair.
        selection: layers and heads to include.
        on_progress: called after each pair.

    Raises:
        DataError: a sentence is longer than the model can read.
        RecipeError: the model has no attention.
    """
    if not list_heads(translator):
        raise RecipeError("this model has no attention, so it has no heads to measure")
    sums: dict[AttentionHead, HeadMeasureSums] = {}
    links: dict[AttentionHead, list[WordLinks]] = {}
    gold_alignments: list[GoldAlignment] = []
    selection_used = selection or InspectionSelection()
    for number, (source, target) in enumerate(pairs):
        if get_text(source).strip() and target.strip():
            map_selection = InspectionSelection(
                selection_used.layers, selection_used.heads, attention_steps=False, alternatives=1
            )
            record = translator.inspect(source, target, scope=map_selection)
            words = translator.get_word_numbers(source), map_pieces_to_words(translator.target, target)
            for item in record.maps:
                _add_measures(item, sums)
                if gold is not None and item.role == "cross":
                    for head, weights in zip(_list_map_heads(item), item.weights, strict=True):
                        links_found = link_words(weights, source_words=words[0], target_words=words[1])
                        links.setdefault(head, []).append(links_found)
            if gold is not None:
                gold_alignments.append(gold[number])
        if on_progress is not None:
            on_progress(1)
    return tuple(
        HeadStatistics(
            head, item.averages, alignment_error_rate(links[head], gold_alignments) if head in links else None
        )
        for head, item in sums.items()
    )


def measure_head_importance(
    translator: Translator,
    pairs: Sequence[tuple[SourceSentence, str]],
    *,
    search: SearchStrategy,
    lowercase: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> ModelImportance:
    """Measure BLEU and log-probability without each head, one at a time (Michel et al. 2019, 3.2).

    Args:
        translator: of one model; its heads are disabled in turn.
        pairs: sentences and their references.
        search: for the translations.
        lowercase: for BLEU.
        on_progress: called after each head.
    """
    assert len(translator.models) == 1, "heads belong to one model"
    model = translator.models[0]

    def evaluate_model() -> tuple[float, float]:
        """Return BLEU and mean log-probability of the model."""
        texts = [item.text for item in translator.translate([source for source, _ in pairs], search=search)]
        scores = translator.score(pairs)
        nats = sum(item.log_probability for item in scores) / sum(item.count for item in scores)
        references = [target for _, target in pairs]
        return bleu(texts, references, lowercase=lowercase, tokenize=select_bleu_tokenizer(references)).value, nats

    full_scores = evaluate_model()
    results = []
    for head in list_heads(translator):
        with disable_head(model, head.path, head=head.number):
            scores_without = evaluate_model()
        results.append(HeadImportance(head, full_scores[0] - scores_without[0], full_scores[1] - scores_without[1]))
        if on_progress is not None:
            on_progress(1)
    return ModelImportance(*full_scores, tuple(results))


def list_heads(translator: Translator) -> tuple[AttentionHead, ...]:
    """List all heads of a translator's first model, in the order of its layers."""
    model = translator.models[0]
    return tuple(
        AttentionHead(path, info.declaration.kind, info.layer, number)
        for path, info in find_attention_sites(model).items()
        for number in range(info.heads)
    )


def _list_map_heads(attention_map: AttentionMap) -> list[AttentionHead]:
    """Return the heads whose attention a map holds, in its order."""
    return [
        AttentionHead(attention_map.path, attention_map.role, attention_map.layer, number)
        for number in attention_map.heads
    ]


def _add_measures(attention_map: AttentionMap, sums: dict[AttentionHead, HeadMeasureSums]) -> None:
    """Add the measures of each head in a map to those in `sums`, which is changed."""
    measured = measure_map(attention_map)
    for index, head in enumerate(_list_map_heads(attention_map)):
        previous = sums.get(head)
        current = HeadMeasureSums.from_measures(measured, index)
        sums[head] = current if previous is None else previous + current
