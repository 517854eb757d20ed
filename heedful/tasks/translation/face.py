"""A trained translation model as its users see it: sentences in, sentences out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import chain, count, repeat
from types import MappingProxyType
from typing import Final, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.attention.probe import SOURCE
from heedful.data.batches import collate_encoded
from heedful.data.context import Following, Readable, before, following, text_of
from heedful.data.factors import Encoded, Factor, Reading
from heedful.data.links import word_numbers
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RecipeError
from heedful.generation import Ensemble, Hypothesis
from heedful.generation.completion import PartialWord
from heedful.generation.search import Search
from heedful.generation.start import Looked
from heedful.given_texts import pair_list, require_text, text_list
from heedful.inspection.capture import places as attentions_of
from heedful.inspection.record import Axis, Record
from heedful.inspection.watch import watch
from heedful.models.encoders import mean_of_tokens
from heedful.models.interface import Encoder, Engine
from heedful.recipes.directed import language_tag
from heedful.recipes.generation import BeamConfig, GenerationConfig
from heedful.tasks.faces import Asked, Face, Saying, Unread, at_once, in_batches
from heedful.tasks.inspecting import Scope, widened
from heedful.tasks.searches import Length
from heedful.tasks.target import Candidate, ForcedScore, Request, Target
from heedful.tasks.translation.confidence import Confidence
from heedful.tasks.translation.directions import languages_of
from heedful.tasks.translation.finding import Ends, Finding, Wanted
from heedful.tasks.translation.glossary import Term
from heedful.tasks.translation.guidance import Guided, headed
from heedful.tasks.translation.recipe import GuidedConfig
from heedful.tasks.translation.source import Part, Source, holding
from heedful.tasks.translation.translations import (
    Alignment,
    Links,
    Translation,
    TranslationLines,
    joined,
    link_words,
)
from heedful.values import Tokens, move

_Pair = tuple[Encoded, list[int]]
_Beginning = tuple[Sequence[int], PartialWord | None]
_NOTHING: Final[_Beginning] = ((), None)
_STREAMS: Final = 2**30
"""Between the sources of chance of two parts of a sentence; that of the first is the sentence's own."""


class Translator(Face):
    """Models of one vocabulary, with the tokenizers they were trained with; several models vote as an ensemble.

    Args:
        models: in evaluation mode, on one device.
        source: tokenizer of the source language.
        target: tokenizer of the target language.
        search: how translations are looked for unless a call says otherwise.
        length: how long they may become.
        max_source: longest source in tokens, the one that ends it included.
        max_target: longest translation, likewise; None where the model's positions have no end.
        generation: what `search` and `length` were made of.
        confidence: how good translations probably are, where that was learned.
        guided: which attention of the first model was taught by links of words, if one was.
        context: sentences before another one that are read with it, at most.
        factors: what models read of source words besides their pieces.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        *,
        source: Tokenizer,
        target: Tokenizer,
        search: Search,
        length: Length,
        max_source: int,
        max_target: int | None = None,
        generation: GenerationConfig = BeamConfig(),  # noqa: B008 - frozen
        confidence: Confidence | None = None,
        guided: GuidedConfig | None = None,
        context: int = 0,
        factors: Mapping[str, Factor] = MappingProxyType({}),
    ) -> None:
        self.models = tuple(models)
        self.source = source
        self.target = target
        self.search = search
        self.length = length
        self.max_source = max_source
        self.generation = generation
        self.confidence = confidence
        self.guided = guided
        self.context = context
        self.factors = factors
        self.device = next(self.models[0].parameters()).device
        self._written = Target(target, device=self.device, longest=max_target)
        # a module that is an Engine; mypy has no type for both
        self._engine: Engine[Tokens] = self.models[0] if len(self.models) == 1 else Ensemble(self.models)  # type: ignore[assignment, arg-type]

    @property
    def reading(self) -> Reading:
        """How sources are read."""
        return Reading(self.source, self.factors)

    @property
    def _reads(self) -> Source:
        return Source(self.reading, self.max_source, self.context)

    @property
    def languages(self) -> tuple[str, ...]:
        """Those that it can be asked for with `towards`; none where it writes one."""
        return languages_of(self.source.tags)

    def towards(self, language: str | None, *, tags: Sequence[str] = ()) -> Translator:
        """A translator into one of its languages, of texts that have further tags; it shares everything with this one.

        Args:
            language: one of `languages`; None where there are none.
            tags: others that it has learned, which stand before every source.

        Raises:
            RecipeError: it does not know the language, or a tag.
        """
        if language is not None and language not in self.languages:
            known = f"{', '.join(self.languages)}: choose one of these" if self.languages else "one: leave it away"
            raise RecipeError(f"{language}: is no language that this model can be asked for; it writes {known}")
        return self.tagged([*([] if language is None else [language_tag(language)]), *tags])

    def tagged(self, tags: Sequence[str]) -> Translator:
        """A translator that puts tags before every source, behind those that it puts there already.

        Raises:
            RecipeError: it has not learned a tag.
        """
        if not tags:
            return self
        other = copy(self)
        other.source = self.source.opened(tags)
        return other

    def following(self, lines: Iterable[str]) -> Iterator[Readable]:
        """Sentences with as many before them as the model reads with them; an empty one ends a document.

        They are what all methods take instead of sentences that stand by themselves.
        """
        return following(lines, sentences=self.context)

    def translate(
        self,
        sentences: Sequence[Readable],
        *,
        search: Search | None = None,
        length: Length | None = None,
        prefixes: Sequence[str] | None = None,
        constraints: Sequence[Sequence[Term | str]] | None = None,
        batch_tokens: int = 4096,
        tick: Callable[[int], None] | None = None,
        first: int = 1,
        heard: Callable[[int, Candidate], None] | None = None,
    ) -> list[Translation]:
        """Translates sentences, in their order; inside, long ones first and many at a time.

        A sentence that is longer than the model reads is translated in parts (`heedful.data.parts`), which are joined
        as they are in it; of a part that is too long and cannot be split the end is not read (`Translation.cut`). Terms
        that are annotated in it (`Annotation`) stay in one part.

        Args:
            sentences: one string each, or what `following` makes of it; an empty one gives an empty translation, and
                one alone is a list of one.
            search: instead of the translator's own.
            length: likewise.
            prefixes: how each translation must begin. Its last word may be unfinished, unless a space stands behind it.
            constraints: what each translation must hold, if the search is a beam; see `Translation.unmet`.
            batch_tokens: padded source tokens that are translated at one time.
            tick: told how many sentences each batch finished.
            first: number of the first sentence, for messages and as its source of chance when sampling.
            heard: told of a sentence, by its place from 0, the best text so far, whenever there is more of it; of a
                sentence in parts the text of one of them.

        Raises:
            DataError: a prefix is longer than the model can read; the message names its sentence.
            RecipeError: there are constraints, and the search is no beam; or it asks for coverage, and the model has no
                attention to its source; or a sentence follows others, and the model reads each by itself.
        """
        sentences = text_list(sentences, name="sentences", also=(Following,))
        read = self._read(sentences, constraints)
        begins = [_NOTHING] * len(read) if prefixes is None else self._read_prefixes(prefixes, first=first)
        filled = [
            Wanted(row, part.read, self._request(part, length or self.length, stream=stream, begin=begin))
            for row, (own, given) in enumerate(zip(read, begins, strict=True))
            for part, stream, begin in zip(
                own, count(first + row, _STREAMS), chain([given], repeat(_NOTHING)), strict=False
            )
            if part.read.ids
        ]
        say = Finding(self._engine, search or self.search, self._written, self._sources, self._looked)
        ends = Ends(
            [each.row for each in filled], tick, empty=sum(not any(part.read.ids for part in own) for own in read)
        )
        grows = None if heard is None else partial(self._grown, filled, heard)
        found = iter(in_batches(filled, say, size=_longest, tokens=batch_tokens, rows=64, told=ends, heard=grows))
        told = [[self._translation(part, next(found) if part.read.ids else []) for part in own] for own in read]
        if self.confidence is not None:
            told = self._doubted(told, self.confidence, batch_tokens=batch_tokens)
        return [_whole(sentence, own) for sentence, own in zip(sentences, told, strict=True)]

    def _read_prefixes(self, prefixes: Sequence[str], *, first: int) -> list[_Beginning]:
        """Return how each translation begins; `DataError`, which names its sentence, where a prefix is too long."""
        numbered = enumerate(text_list(prefixes, name="prefixes"), first)
        return [self._written.begun(text, place=f"sentence {number}: its translation") for number, text in numbered]

    def score(self, pairs: Sequence[tuple[Readable, str]], *, batch_tokens: int = 4096) -> list[ForcedScore]:
        """Log-probabilities of given translations, in order.

        Raises:
            DataError: a sentence or its translation is longer than the model can read; the message names it, and
                `unread` finds all of them.
        """
        return in_batches(self._pairs(pairs), self._scores, size=_longer, tokens=batch_tokens, rows=256)

    def unread(self, pairs: Sequence[tuple[Readable, str]], *, first: int = 1) -> dict[int, Unread]:
        """Which pairs can be neither scored nor aligned because they are too long, by their places from 0.

        Args:
            pairs: sentences and their translations.
            first: number of the first, for the messages.
        """
        found = {}
        for place, (source, target) in enumerate(pairs):
            try:
                self._reads.whole(source, first + place)
                self._forcible(target, first + place)
            except DataError as error:
                found[place] = Unread(str(error))
        return found

    def embed(
        self,
        texts: Sequence[str],
        *,
        batch_tokens: int | None = None,
        first: int = 1,
        cut: Callable[[int], None] | None = None,
    ) -> Float[np.ndarray, "N d_model"]:
        """A vector for each text of the source language, as the encoder reads it; see `Embedder.embed`.

        Where one model was trained to translate from several languages, their sentences share one space.

        Raises:
            RecipeError: several models vote here, and their spaces differ.
        """
        if len(self.models) > 1:
            raise RecipeError("several models make different vectors of one text; load one of them")
        encoder = cast(Encoder[Tokens], self.models[0].get_submodule("encoder"))
        reads = self._reads
        read = [reads.beginning(text, number, cut) for number, text in enumerate(text_list(texts), first)]
        tokens = batch_tokens or at_once(encoder)
        means = Saying[Encoded, np.ndarray](self._means, (encoder,))
        vectors = in_batches(read, means, size=lambda each: len(each) + 1, tokens=tokens, rows=256)
        return np.stack(vectors) if vectors else np.zeros((0, 0), np.float32)

    def _means(self, rows: list[Encoded], encoder: Encoder[Tokens]) -> Float[np.ndarray, "B d_model"]:
        memory = encoder(self._sources(rows))
        found: np.ndarray = mean_of_tokens(memory.values, memory.positions).float().cpu().numpy()
        return found

    def align(self, source: Readable, target: str | Candidate) -> Alignment:
        """What each token of a translation, the end of sentence included, looked at in the source; what it looked at in
        sentences that the source follows is left out.

        A candidate is read in the pieces in which it was generated, a text in those into which the tokenizer cuts it;
        they differ where the model, when sampling above all, put a word together in its own way. The source of a
        candidate is read as far as it was for the translation (`Translation.cut`).

        Raises:
            DataError: a sentence is longer than the model can read.
            RecipeError: the model reads its source as one vector and has no attention.
        """
        return self.align_all([(source, target)])[0]

    def align_all(
        self, pairs: Sequence[tuple[Readable, str | Candidate]], *, batch_tokens: int = 4096
    ) -> list[Alignment]:
        """`align` for many sentences, in their order; an ensemble's first model is asked."""
        return in_batches(self._pairs(pairs), self._alignments, size=_longer, tokens=batch_tokens, rows=256)

    @property
    def attentive(self) -> bool:
        """Whether the first model looks at its source by attention, so that words can be aligned."""
        return bool(self._looking())

    def link(self, pairs: Sequence[tuple[Readable, str]], *, batch_tokens: int = 4096) -> list[Links]:
        """Which words of given translations, between white space, belong together; see `link_words`.

        By the attention that was taught to say so, otherwise by the last one to the source.

        Raises:
            DataError: a sentence is longer than the model can read, or its pieces are not found again in it.
            RecipeError: the model has no attention to its source.
        """
        pairs = pair_list(pairs, name="pairs", parts="a sentence and its translation", also=(Following,))
        words = [
            (word_numbers(self.source, self.reading.plain(text_of(source))), word_numbers(self.target, target))
            for source, target in pairs
        ]
        return [
            link_words(alignment.telling, source_words=source, target_words=target)
            for alignment, (source, target) in zip(self.align_all(pairs, batch_tokens=batch_tokens), words, strict=True)
        ]

    def inspect(
        self, source: Readable, target: str | None = None, *, search: Search | None = None, scope: Scope | None = None
    ) -> Record:
        """Everything the model attends to, what the sentence follows included, while it translates a sentence, or while
        it reads a given translation.

        An ensemble's first model is asked.

        Args:
            source: the sentence.
            target: a translation of it; unless given, the best one that is found, whose beam is recorded too.
            search: instead of the translator's own.
            scope: layers, heads and details that are kept; all unless given.

        Raises:
            DataError: no words, or a sentence that is longer than the model can read.
            RecipeError: no such layer or head.
        """
        require_text(source, name="source", also=(Following,))
        scope, read = scope or Scope(), self._reads.whole(source, 1)
        if not read.ids:
            raise DataError("no words to look at: give a sentence")
        return self._written.look(
            self.models[0],
            scope.padded(self._sources([read])),
            self._request(Part(source, read), self.length) if target is None else self._forcible(target, 1),
            search=search or self.search,
            scope=scope,
            axes=[Axis(SOURCE, scope.named([*self.source.pieces(read.ids), "</s>"]))],
            title=text_of(source),
            looked=self._looked([read]),
        )

    def lines(self) -> TranslationLines:
        """A sentence a line."""
        return TranslationLines(self)

    def look(self, asked: Asked) -> Record:
        """See `inspect`; of a sentence that is longer than the model reads the first part is looked at, and of several
        lines, where the model reads what a sentence follows, the last one.
        """
        *lead, last = asked.source.strip("\n").split("\n") if self.context else [asked.source]
        *_, sentence = self.following([*lead, last])
        search, parts = self.search, self._reads.parts(sentence)
        if asked.beam is not None:
            search = widened(search, asked.beam)
        if len(parts) > 1:
            asked.say(f"the text is longer than the model reads: this is the first of its {len(parts)} parts")
        return self.inspect(parts[0].sentence, asked.target, search=search, scope=asked.scope)

    def read_words(self, sentence: Readable) -> list[int]:
        """For each piece of a sentence as the model reads it the number of its word (`Source.words`)."""
        return self._reads.words(sentence)

    def _pairs(self, pairs: Sequence[tuple[Readable, str | Candidate]]) -> list[_Pair]:
        pairs = pair_list(pairs, name="pairs", parts="a sentence and its translation", also=(Following, Candidate))
        reads = self._reads
        sources = [
            reads.whole(source, number) if isinstance(target, str) else reads.part(source).read
            for number, (source, target) in enumerate(pairs, 1)
        ]
        targets = [
            self._forcible(target, number) if isinstance(target, str) else list(target.ids)
            for number, (_, target) in enumerate(pairs, 1)
        ]
        return list(zip(sources, targets, strict=True))

    def _scores(self, pairs: list[_Pair]) -> Iterator[ForcedScore]:
        source = self._sources([source for source, _ in pairs])
        return self._written.scores(self._engine, source, [target for _, target in pairs])

    def _alignments(self, pairs: list[_Pair]) -> Iterator[Alignment]:
        calls, end = self._across(pairs), "</s>"
        weights = {name: _told(each, None) for name, each in calls.items()}
        guided = None if self.guided is None else Guided.of(self.models[0], self.guided)
        taught = None if guided is None else _told(calls[guided.path], guided.head)
        for row, (source, target) in enumerate(pairs):
            own = self._reads.own_places(source)
            rows, columns = slice(len(target) + 1), [*own, len(source)]
            mine = {name: each[row, rows][:, columns] for name, each in weights.items()}
            tokens = (*self.source.pieces(source.ids[at] for at in own), end), (*self.target.pieces(target), end)
            yield Alignment(*tokens, mine, None if taught is None else taught[row, rows][:, columns])

    def _looked(self, sources: Sequence[Encoded]) -> Looked:
        """By the last layer and the mean of its heads, as `align`; an ensemble's first model is asked."""

        def looked(rows: Sequence[int], texts: Sequence[tuple[int, ...]]) -> list[Tensor]:
            pairs = [(sources[row], list(ids)) for row, ids in zip(rows, texts, strict=True)]
            alignments = in_batches(pairs, self._alignments, size=_longer, tokens=4096, rows=256)
            return [torch.from_numpy(list(each.weights.values())[-1]) for each in alignments]

        return looked

    def _across(self, pairs: list[_Pair]) -> dict[str, list[Tensor]]:
        source = self._sources([source for source, _ in pairs])
        read, _ = self._written.forced([target for _, target in pairs])
        model, across = self.models[0], self._looking()
        if not across:
            raise RecipeError("this model has no attention to its source, so nothing says what it looked at")
        with torch.inference_mode(), watch(model, only=across) as weights:
            model.step(read, model.begin(source))  # type: ignore[operator]  # every model here is an Engine
        return weights

    def _looking(self) -> list[str]:
        return [path for path, place in attentions_of(self.models[0]).items() if place.look.role == "cross"]

    def _forcible(self, text: str, number: int) -> list[int]:
        return self._written.encode(text, place=f"sentence {number}: its translation")

    def _read(
        self, sentences: Sequence[Readable], constraints: Sequence[Sequence[Term | str]] | None
    ) -> list[list[Part]]:
        reads = self._reads
        read = [reads.parts(sentence) for sentence in sentences]
        return read if constraints is None else list(map(holding, read, constraints))

    def _grown(
        self, filled: Sequence[Wanted], heard: Callable[[int, Candidate], None], place: int, ids: Sequence[int]
    ) -> None:
        grown = Hypothesis(tuple(ids), 0.0, 0.0, (), finished=False)
        heard(filled[place].row, self._written.candidate(grown))

    def _request(self, part: Part, length: Length, *, stream: int = 1, begin: _Beginning = _NOTHING) -> Request:
        tokens = len(self._reads.own_places(part.read)) + 1
        terms = dict.fromkeys(ids for term in part.terms if (ids := term.ids(self.target)))
        prefix, word = begin
        return Request(
            length.limit(tokens), stream, prefix or self.target.opening, length.fewest(tokens), tuple(terms), word
        )

    def _translation(self, part: Part, hypotheses: list[Hypothesis]) -> Translation:
        if not part.read.ids:
            nothing = Candidate("", (), (), 0.0, 0.0, finished=True)
            return Translation(part.text, (), (nothing,), (), 0, _texts(part.terms), _texts(part.terms))
        candidates = tuple(map(self._written.candidate, hypotheses))
        unmet = [term for term in part.terms if not term.held(candidates[0].text, self.target)]
        pieces = tuple(self.source.pieces(part.read.ids[at] for at in self._reads.own_places(part.read)))
        lead = before(part.sentence)
        return Translation(part.text, pieces, candidates, (), part.cut, _texts(part.terms), _texts(unmet), lead)

    def _doubted(
        self, told: list[list[Translation]], confidence: Confidence, *, batch_tokens: int
    ) -> list[list[Translation]]:
        """With what is suspicious of each part; where attention tells, they are read once more."""
        alignments: Iterator[Alignment | None] = repeat(None)
        if confidence.widest is not None and self.attentive:
            pairs = [(part.asked, part.candidates[0]) for own in told for part in own if part.source_tokens]
            alignments = iter(self.align_all(pairs, batch_tokens=batch_tokens))

        def doubted(part: Translation) -> Translation:
            if not part.source_tokens:
                return part
            alignment = next(alignments)
            weights = None if alignment is None else alignment.telling
            return replace(part, doubts=confidence.doubts(part.candidates[0], weights))

        return [list(map(doubted, own)) for own in told]

    def _sources(self, sentences: Sequence[Encoded]) -> Tokens:
        return move(collate_encoded(sentences, eos=self.source.special.eos), self.device)


def _whole(sentence: Readable, told: list[Translation]) -> Translation:
    """The translation of a sentence, of which there may be parts."""
    found = told[0] if len(told) == 1 else joined(text_of(sentence), told)
    return replace(found, before=before(sentence))


def _texts(terms: Iterable[Term]) -> tuple[str, ...]:
    return tuple(term.text for term in terms)


def _told(calls: list[Tensor], head: int | None) -> Float[np.ndarray, "B T S"]:
    return headed(calls, head).float().cpu().numpy()


def _longest(wanted: Wanted) -> int:
    return len(wanted.read) + 1


def _longer(pair: _Pair) -> int:
    source, target = pair
    return max(len(source), len(target)) + 1
