"""The heads of a translation model over many sentences: where they look, how well they align, what they are worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from heedful.attention.probe import Role
from heedful.data.context import Readable, text_of
from heedful.data.links import word_numbers
from heedful.errors import RecipeError
from heedful.generation.search import Search
from heedful.inspection.capture import places
from heedful.inspection.heads import Sums, measures_of
from heedful.inspection.record import Map
from heedful.inspection.watch import without_head
from heedful.metrics.alignment import Gold, alignment_error_rate
from heedful.metrics.translation import bleu, tokenizer_for
from heedful.tasks.inspecting import Scope
from heedful.tasks.translation.face import Translator
from heedful.tasks.translation.translations import Links, link_words


@dataclass(frozen=True)
class Head:
    """Which head of a model, counted from 0; `path` leads to its attention."""

    path: str
    role: Role
    layer: int
    number: int

    @property
    def name(self) -> str:
        """As people call it."""
        return f"{self.role} {self.layer}.{self.number}"


@dataclass(frozen=True)
class Habits:
    """Where a head looks, on average over queries.

    Attributes:
        head: which.
        averages: of its measures; see `Sums.averages`.
        error_rate: of its alignments against those of people; None for heads that do not look at the source, or where
            there is no gold.
    """

    head: Head
    averages: Mapping[str, float]
    error_rate: float | None


@dataclass(frozen=True)
class Worth:
    """What a model loses without a head.

    Attributes:
        head: which.
        bleu: points of BLEU that are lost; below 0 where it translates better.
        nats: log-probability of the references that is lost, in nats for each token.
    """

    head: Head
    bleu: float
    nats: float


@dataclass(frozen=True)
class Importance:
    """What each head is worth, and the BLEU and the nats for each token of the whole model."""

    bleu: float
    nats: float
    heads: tuple[Worth, ...]


def survey(
    translator: Translator,
    pairs: Sequence[tuple[Readable, str]],
    *,
    gold: Sequence[Gold] | None = None,
    scope: Scope | None = None,
    tick: Callable[[int], None] | None = None,
) -> tuple[Habits, ...]:
    """The habits of every head while a model reads given translations.

    Args:
        translator: its first model is asked.
        pairs: sentences and their translations; pairs with an empty side are passed over.
        gold: alignments by people, one for each pair.
        scope: layers and heads that are asked.
        tick: told of each pair that is done.

    Raises:
        DataError: a sentence is longer than the model can read.
        RecipeError: the model has no attention.
    """
    if not heads_of(translator):
        raise RecipeError("this model has no attention, so it has no heads that look anywhere")
    sums: dict[Head, Sums] = {}
    links: dict[Head, list[Links]] = {}
    truth: list[Gold] = []
    chosen = scope or Scope()
    for number, (source, target) in enumerate(pairs):
        if text_of(source).strip() and target.strip():
            quiet = Scope(chosen.layers, chosen.heads, walks=False, alternatives=1)
            record = translator.inspect(source, target, scope=quiet)
            words = translator.read_words(source), word_numbers(translator.target, target)
            for each in record.maps:
                _note(each, sums)
                if gold is not None and each.role == "cross":
                    for head, weights in zip(_heads(each), each.weights, strict=True):
                        found = link_words(weights, source_words=words[0], target_words=words[1])
                        links.setdefault(head, []).append(found)
            if gold is not None:
                truth.append(gold[number])
        if tick is not None:
            tick(1)
    return tuple(
        Habits(head, each.averages, alignment_error_rate(links[head], truth) if head in links else None)
        for head, each in sums.items()
    )


def importance(
    translator: Translator,
    pairs: Sequence[tuple[Readable, str]],
    *,
    search: Search,
    lowercase: bool = False,
    tick: Callable[[int], None] | None = None,
) -> Importance:
    """What every head is worth: BLEU and log-probability without it, one head at a time (Michel et al. 2019, 3.2).

    Args:
        translator: of one model; its heads are silenced in turn.
        pairs: sentences and their references.
        search: how translations are looked for.
        lowercase: for BLEU.
        tick: told of each head that is done.
    """
    assert len(translator.models) == 1, "heads belong to one model"
    model = translator.models[0]

    def judged() -> tuple[float, float]:
        texts = [each.text for each in translator.translate([source for source, _ in pairs], search=search)]
        scores = translator.score(pairs)
        nats = sum(each.log_probability for each in scores) / sum(each.count for each in scores)
        references = [target for _, target in pairs]
        return bleu(texts, references, lowercase=lowercase, tokenize=tokenizer_for(references)).value, nats

    whole = judged()
    found = []
    for head in heads_of(translator):
        with without_head(model, head.path, head=head.number):
            lesser = judged()
        found.append(Worth(head, whole[0] - lesser[0], whole[1] - lesser[1]))
        if tick is not None:
            tick(1)
    return Importance(*whole, tuple(found))


def heads_of(translator: Translator) -> tuple[Head, ...]:
    """Every head of a translator's first model, in the order of its layers."""
    model = translator.models[0]
    return tuple(
        Head(path, place.look.role, place.layer, number)
        for path, place in places(model).items()
        for number in range(place.heads)
    )


def _heads(each: Map) -> list[Head]:
    return [Head(each.path, each.role, each.layer, number) for number in each.heads]


def _note(each: Map, sums: dict[Head, Sums]) -> None:
    measured = measures_of(each)
    for place, head in enumerate(_heads(each)):
        before = sums.get(head)
        now = Sums.of(measured, place)
        sums[head] = now if before is None else before + now
