"""The predictor of translation models: translates, scores, aligns and embeds sentences."""

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

from heedful.argument_checks import require_text, to_pair_list, to_text_list
from heedful.attention.hooks import SOURCE_AXIS
from heedful.data.batches import collate_encoded_sources
from heedful.data.context import SentenceInContext, SourceSentence, get_context, get_text, iter_with_context
from heedful.data.factors import EncodedText, Factor, SourceEncoder
from heedful.data.tokenizers import Tokenizer
from heedful.data.word_alignments import map_pieces_to_words
from heedful.deprecation import keep_old_names
from heedful.errors import DataError, RecipeError
from heedful.generation import Ensemble, Hypothesis
from heedful.generation.logits_masks import PartialWord
from heedful.generation.prefill import AttentionLookup
from heedful.generation.search import SearchStrategy
from heedful.inspection.capture import find_attention_sites as attentions_of
from heedful.inspection.capture import watch_attention
from heedful.inspection.record import InspectionRecord, MapAxis
from heedful.models.interface import Encoder, Engine
from heedful.models.transformer import mean_pool
from heedful.recipes.generation import BeamConfig, GenerationConfig
from heedful.tasks.decoder_target import DecoderTarget, ForcedScore, TargetRequest, TextCandidate
from heedful.tasks.inspection_records import InspectionSelection, set_beam_width
from heedful.tasks.predictor import (
    BatchMethod,
    InspectRequest,
    Predictor,
    UnreadableInput,
    default_batch_tokens,
    run_batched,
)
from heedful.tasks.search_factory import LengthLimits
from heedful.tasks.translation.glossary import TargetTerm
from heedful.tasks.translation.guided_alignment import GuidedAttention, select_head
from heedful.tasks.translation.languages import (
    choose_language_tags,
    find_direction_problem,
    list_source_languages,
    list_tag_languages,
    list_target_tags,
)
from heedful.tasks.translation.quality_estimation import ConfidenceCurve
from heedful.tasks.translation.recipe import GuidedConfig
from heedful.tasks.translation.source_reader import (
    SentenceCounter,
    SourcePart,
    SourceReader,
    TranslationRequest,
    TranslationSearch,
    assign_constraints,
)
from heedful.tasks.translation.translations import (
    TokenAlignment,
    Translation,
    TranslationLineFormat,
    WordLinks,
    join_translations,
    link_words,
)
from heedful.tensors import Tokens, move_to_device

_EncodedPair = tuple[EncodedText, list[int]]
_TargetPrefix = tuple[Sequence[int], PartialWord | None]
_EMPTY_PREFIX: Final[_TargetPrefix] = ((), None)
_PART_SEED_STEP: Final = 2**30
"""Distance between the random seeds of two parts of a sentence; the first part has the sentence's own seed."""


@keep_old_names(reading="source_encoder", tagged="with_tags", attentive="has_attention", read_words="get_word_numbers")
class Translator(Predictor):
    """Translation models with their tokenizers; several models with one vocabulary form an ensemble.

    Args:
        models: in evaluation mode, on one device.
        source: tokenizer of the source language.
        target: tokenizer of the target language.
        search: default search.
        length: default length limits.
        max_source: maximum length of a source in tokens, end included.
        max_target: maximum length of a translation, end included; None if the model's positions have no limit.
        generation: configuration from which `search` and `length` were built.
        confidence: calibrated quality estimation, if there is one.
        guided: configuration of the first model's attention that was trained with word alignments, if there is one.
        context: maximum number of previous sentences that are read with a sentence.
        factors: what models read of source words besides their pieces.
    """

    command = "translate"

    def __init__(
        self,
        models: Sequence[nn.Module],
        *,
        source: Tokenizer,
        target: Tokenizer,
        search: SearchStrategy,
        length: LengthLimits,
        max_source: int,
        max_target: int | None = None,
        generation: GenerationConfig = BeamConfig(),  # noqa: B008 - frozen
        confidence: ConfidenceCurve | None = None,
        guided: GuidedConfig | None = None,
        context: int = 0,
        factors: Mapping[str, Factor] = MappingProxyType({}),
    ) -> None:
        self.models = tuple(models)
        self.source, self.target = source, target
        self.search = search
        self.length = length
        self.max_source = max_source
        self.generation = generation
        self.confidence = confidence
        self.guided = guided
        self.context = context
        self.factors = factors
        self.device = next(self.models[0].parameters()).device
        self._decoder_target = DecoderTarget(target, device=self.device, max_length=max_target)
        # a module that is an Engine; mypy has no type for both
        self._engine: Engine[Tokens] = self.models[0] if len(self.models) == 1 else Ensemble(self.models)  # type: ignore[assignment, arg-type]

    @property
    def source_encoder(self) -> SourceEncoder:
        """Encoder of source texts into pieces and factors."""
        return SourceEncoder(self.source, self.factors)

    @property
    def _source_reader(self) -> SourceReader:
        """Reader of sources with the model's limits."""
        limits = self.max_source, self.context
        return SourceReader(self.source_encoder, *limits, find_direction_problem(self.source, self.target))

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages that can be chosen with `towards`; empty if the model writes one language."""
        return list_tag_languages([*self.source.tag_ids, *list_target_tags(self.source, self.target)])

    @property
    def source_languages(self) -> tuple[str, ...]:
        """Languages that can be named as those of the texts with `towards`; empty if the model does not read it."""
        return list_source_languages(self.source.tag_ids)

    def towards(self, language: str | None, *, source: str | None = None, tags: Sequence[str] = ()) -> Translator:
        """Return a translator into one of its languages, for texts with these tags; it shares everything with this one.

        Args:
            language: one of `languages`, or a tag that means one; None if there are none, or for the model's default.
            source: one of `source_languages`, or a tag that means one; None if there are none, or for the default.
            tags: further tags that the model has learned, which are put before every source.

        Raises:
            RecipeError: the model does not know the language, or a tag.
        """
        language_tags = choose_language_tags((source, self.source_languages), (language, self.languages))
        return self.with_tags([*language_tags, *tags])

    def with_tags(self, tags: Sequence[str]) -> Translator:
        """Return a translator that puts these tags before every source, after those that it adds already; tags that
        only the target knows begin its translations.

        Raises:
            RecipeError: the model has not learned a tag.
        """
        translator = copy(self)
        target_tags = [tag for tag in tags if tag in list_target_tags(self.source, self.target)]
        translator.source = self.source.with_tags([tag for tag in tags if tag not in target_tags])
        if target_tags:
            translator.target = self.target.with_tags(target_tags)
            translator._decoder_target = self._decoder_target.with_tokenizer(translator.target)
        return translator

    def following(self, lines: Iterable[str]) -> Iterator[SourceSentence]:
        """Attach to each sentence the previous ones that the model reads with it; an empty one ends a document.

        All methods accept the results instead of plain sentences.
        """
        return iter_with_context(lines, max_sentences=self.context)

    def translate(
        self,
        sentences: Sequence[SourceSentence],
        *,
        search: SearchStrategy | None = None,
        length: LengthLimits | None = None,
        prefixes: Sequence[str] | None = None,
        constraints: Sequence[Sequence[TargetTerm | str]] | None = None,
        batch_tokens: int = 4096,
        tick: Callable[[int], None] | None = None,
        first: int = 1,
        heard: Callable[[int, TextCandidate], None] | None = None,
    ) -> list[Translation]:
        """Translate sentences in their order, numbered from `first`; inside, they are sorted by length and batched.
        `search` and `length` replace the defaults; `prefixes` and `constraints` are required beginnings and terms.
        `tick` is called with the number of newly finished sentences, `heard` with the index of a sentence and its text
        so far.

        A sentence that is longer than the model reads is translated in parts (`heedful.data.text_splitting`), which are
        joined as in the source; the end of a part that is too long and cannot be split is not read (`Translation.cut`).
        Annotated terms (`TermAnnotator`) stay in one part.

        Args:
            sentences: one string each, or a result of `following`; an empty one gives an empty translation, and a
                single string counts as a list of one.
            search: replaces the default search.
            length: replaces the default length limits.
            prefixes: the beginning of each translation. Its last word may be unfinished, unless a space follows it.
            constraints: terms that each translation must contain, for beam search only; see `Translation.unmet`.
            batch_tokens: padded source tokens of a batch.
            tick: called with the number of sentences that each batch finished.
            first: number of the first sentence, for messages and as its random seed when sampling.
            heard: called with the index of a sentence, from 0, and its best text so far, whenever there is more of it;
                for a sentence in parts the text of one of them.

        Raises:
            DataError: a prefix is longer than the model can read; the message names its sentence.
            RecipeError: there are constraints without beam search; or the search uses coverage, and the model has no
                attention to its source; or a sentence has previous ones, and the model reads each sentence by itself.
        """
        sentences = to_text_list(sentences, name="sentences", extra_types=(SentenceInContext,))
        parts = self._read_parts(sentences, constraints)
        prefixes_read = [_EMPTY_PREFIX] * len(parts) if prefixes is None else self._read_prefixes(prefixes, start=first)
        requests = [
            TranslationRequest(
                row, part.tokens, self._build_request(part, length or self.length, stream=stream, target_prefix=begin)
            )
            for row, (sentence_parts, prefix) in enumerate(zip(parts, prefixes_read, strict=True))
            for part, stream, begin in zip(
                sentence_parts,
                count(first + row, _PART_SEED_STEP),
                chain([prefix], repeat(_EMPTY_PREFIX)),
                strict=False,
            )
            if part.tokens.ids
        ]
        search_call = TranslationSearch(
            self._engine,
            search or self.search,
            self._decoder_target,
            self._collate_sources,
            self._build_coverage_function,
        )
        finished_counter = SentenceCounter(
            [item.row for item in requests],
            tick,
            empty=sum(not any(part.tokens.ids for part in sentence_parts) for sentence_parts in parts),
        )
        on_tokens = None if heard is None else partial(self._report_progress, requests, heard)
        results = iter(
            run_batched(
                requests,
                search_call,
                size=_source_length,
                batch_tokens=batch_tokens,
                max_rows=64,
                on_answered=finished_counter,
                on_tokens=on_tokens,
            )
        )
        translations = [
            [self._build_translation(part, next(results) if part.tokens.ids else []) for part in sentence_parts]
            for sentence_parts in parts
        ]
        if self.confidence is not None:
            translations = self._add_doubts(translations, self.confidence, batch_tokens=batch_tokens)
        return [
            _join_parts(sentence, sentence_parts)
            for sentence, sentence_parts in zip(sentences, translations, strict=True)
        ]

    def _read_prefixes(self, prefixes: Sequence[str], *, start: int) -> list[_TargetPrefix]:
        """Encode the prefix of each translation; raise DataError, which names its sentence (counted from `start`), if
        it is too long.
        """
        numbered = enumerate(to_text_list(prefixes, name="prefixes"), start)
        return [
            self._decoder_target.encode_prefix(text, name=f"sentence {number}: its translation")
            for number, text in numbered
        ]

    def score(self, pairs: Sequence[tuple[SourceSentence, str]], *, batch_tokens: int = 4096) -> list[ForcedScore]:
        """Compute the log-probability of the given translation of each pair, in order.

        Raises:
            DataError: a sentence or its translation is longer than the model can read; the message names it, and
                `unread` finds all of them.
        """
        return run_batched(
            self._encode_pairs(pairs), self._score_batch, size=_pair_length, batch_tokens=batch_tokens, max_rows=256
        )

    def unread(self, pairs: Sequence[tuple[SourceSentence, str]], *, first: int = 1) -> dict[int, UnreadableInput]:
        """Find the pairs that are too long to be scored or aligned, by index from 0; messages count from `first`.

        Args:
            pairs: sentences and their translations.
            first: number of the first pair, for messages.
        """
        errors = {}
        for index, (source, target) in enumerate(pairs):
            try:
                self._source_reader.encode_whole(source, first + index)
                self._encode_target(target, first + index)
            except DataError as error:
                errors[index] = UnreadableInput(str(error))
        return errors

    def embed(
        self,
        texts: Sequence[str],
        *,
        batch_tokens: int | None = None,
        first: int = 1,
        cut: Callable[[int], None] | None = None,
    ) -> Float[np.ndarray, "N d_model"]:
        """Compute the encoder's mean vector of each text in the source language; see `Embedder.embed`. `cut` is called
        with the number, from `first`, of each text that is too long and truncated; by default, such a text is an error.

        A model that was trained to translate from several languages embeds their sentences in one space.

        Raises:
            RecipeError: the translator is an ensemble, whose models have different vector spaces.
        """
        if len(self.models) > 1:
            raise RecipeError("several models give different vectors for one text; load one of them")
        encoder = cast(Encoder[Tokens], self.models[0].get_submodule("encoder"))
        source_reader = self._source_reader
        encoded = [
            source_reader.encode_truncated(text, number, cut) for number, text in enumerate(to_text_list(texts), first)
        ]
        tokens = batch_tokens or default_batch_tokens(encoder)
        batch_method = BatchMethod[EncodedText, np.ndarray](self._embed_batch, (encoder,))
        vectors = run_batched(
            encoded, batch_method, size=lambda text_encoded: len(text_encoded) + 1, batch_tokens=tokens, max_rows=256
        )
        return np.stack(vectors) if vectors else np.zeros((0, 0), np.float32)

    def _embed_batch(self, sources: list[EncodedText], encoder: Encoder[Tokens]) -> Float[np.ndarray, "B d_model"]:
        """Return the mean encoder vector of each source in a batch."""
        memory = encoder(self._collate_sources(sources))
        vectors: np.ndarray = mean_pool(memory.values, memory.positions).float().cpu().numpy()
        return vectors

    def align(self, source: SourceSentence, target: str | TextCandidate) -> TokenAlignment:
        """Return the attention of each target token, end included, to the source tokens, without previous sentences.

        A candidate is read in the pieces in which it was generated, a text in those of the tokenizer; they can differ,
        above all after sampling. The source of a candidate is read as far as it was for the translation
        (`Translation.cut`).

        Raises:
            DataError: a sentence is longer than the model can read.
            RecipeError: the model reads its source as one vector and has no attention.
        """
        return self.align_all([(source, target)])[0]

    def align_all(
        self, pairs: Sequence[tuple[SourceSentence, str | TextCandidate]], *, batch_tokens: int = 4096
    ) -> list[TokenAlignment]:
        """Align pairs of a sentence and its translation like `align`, in order; an ensemble uses its first model."""
        return run_batched(
            self._encode_pairs(pairs), self._align_batch, size=_pair_length, batch_tokens=batch_tokens, max_rows=256
        )

    @property
    def has_attention(self) -> bool:
        """Whether the first model attends to its source, so that words can be aligned."""
        return bool(self._cross_attention_paths())

    def link(self, pairs: Sequence[tuple[SourceSentence, str]], *, batch_tokens: int = 4096) -> list[WordLinks]:
        """Align the words (between white space) of given translations with those of their sources; see `link_words`.

        Uses the attention that was trained with word alignments, otherwise the last cross-attention.

        Raises:
            DataError: a sentence is longer than the model can read, or its pieces cannot be located in it.
            RecipeError: the model has no attention to its source.
        """
        pairs = to_pair_list(
            pairs, name="pairs", parts="a sentence and its translation", extra_types=(SentenceInContext,)
        )
        words = [
            (
                map_pieces_to_words(self.source, self.source_encoder.strip_labels(get_text(source))),
                map_pieces_to_words(self.target, target),
            )
            for source, target in pairs
        ]
        return [
            link_words(alignment.best_weights, source_words=source, target_words=target)
            for alignment, (source, target) in zip(self.align_all(pairs, batch_tokens=batch_tokens), words, strict=True)
        ]

    def inspect(
        self,
        source: SourceSentence,
        target: str | None = None,
        *,
        search: SearchStrategy | None = None,
        scope: InspectionSelection | None = None,
    ) -> InspectionRecord:
        """Record the attention of the model, including to previous sentences, while it translates a sentence or reads a
        given translation. `scope` selects layers, heads and details; all by default.

        An ensemble uses its first model.

        Args:
            source: the sentence.
            target: a translation of it; by default the best one that is found, whose beam is recorded too.
            search: replaces the default search.
            scope: layers, heads and details to record; all by default.

        Raises:
            DataError: the source is empty, or a sentence is longer than the model can read.
            RecipeError: there is no such layer or head.
        """
        require_text(source, name="source", extra_types=(SentenceInContext,))
        scope, source_tokens = scope or InspectionSelection(), self._source_reader.encode_whole(source, 1)
        if not source_tokens.ids:
            raise DataError("there are no words to show: give a sentence")
        return self._decoder_target.inspect(
            self.models[0],
            scope.pad_tokens(self._collate_sources([source_tokens])),
            self._build_request(SourcePart(source, source_tokens), self.length)
            if target is None
            else self._encode_target(target, 1),
            search=search or self.search,
            selection=scope,
            axes=[MapAxis(SOURCE_AXIS, scope.name_columns([*self.source.to_pieces(source_tokens.ids), "</s>"]))],
            title=get_text(source),
            attention_lookup=self._build_coverage_function([source_tokens]),
        )

    def line_format(self) -> TranslationLineFormat:
        """Return the line format with one sentence per line."""
        return TranslationLineFormat(self)

    def inspect_request(self, request: InspectRequest) -> InspectionRecord:
        """Inspect the sentence of a request; the first part of one that is too long, and with document context the
        last of several lines.
        """
        *previous, last_line = request.source.strip("\n").split("\n") if self.context else [request.source]
        *_, sentence = self.following([*previous, last_line])
        search, parts = self.search, self._source_reader.split_into_parts(sentence)
        if request.beam is not None:
            search = set_beam_width(search, request.beam)
        if len(parts) > 1:
            request.log(f"the text is longer than the model reads: this is the first of its {len(parts)} parts")
        return self.inspect(parts[0].sentence, request.target, search=search, scope=request.selection)

    def get_word_numbers(self, sentence: SourceSentence) -> list[int]:
        """Return the word number of each piece that the model reads (`SourceReader.get_word_numbers`)."""
        return self._source_reader.get_word_numbers(sentence)

    def _encode_pairs(self, pairs: Sequence[tuple[SourceSentence, str | TextCandidate]]) -> list[_EncodedPair]:
        """Encode pairs of a sentence and its translation; raise DataError if a text is too long. A candidate keeps the
        pieces in which it was generated, and its source is read as far as the model can.
        """
        pairs = to_pair_list(
            pairs, name="pairs", parts="a sentence and its translation", extra_types=(SentenceInContext, TextCandidate)
        )
        source_reader = self._source_reader
        sources = [
            source_reader.encode_whole(source, number)
            if isinstance(target, str)
            else source_reader.read_part(source).tokens
            for number, (source, target) in enumerate(pairs, 1)
        ]
        targets = [
            self._encode_target(target, number) if isinstance(target, str) else list(target.ids)
            for number, (_, target) in enumerate(pairs, 1)
        ]
        return list(zip(sources, targets, strict=True))

    def _score_batch(self, pairs: list[_EncodedPair]) -> Iterator[ForcedScore]:
        source = self._collate_sources([source for source, _ in pairs])
        return self._decoder_target.score_texts(self._engine, source, [target for _, target in pairs])

    def _align_batch(self, pairs: list[_EncodedPair]) -> Iterator[TokenAlignment]:
        """Yield the alignment of each encoded pair, by the attention of the first model, without previous sentences."""
        attention_calls, end = self._record_cross_attention(pairs), "</s>"
        weights = {
            name: _attention_to_numpy(weights_of_layer, None) for name, weights_of_layer in attention_calls.items()
        }
        guided_attention = None if self.guided is None else GuidedAttention.from_config(self.models[0], self.guided)
        guided_weights = (
            None
            if guided_attention is None
            else _attention_to_numpy(attention_calls[guided_attention.path], guided_attention.head)
        )
        for row, (source, target) in enumerate(pairs):
            source_positions = self._source_reader.own_positions(source)
            rows, columns = slice(len(target) + 1), [*source_positions, len(source)]
            row_weights = {name: weights_of_layer[row, rows][:, columns] for name, weights_of_layer in weights.items()}
            tokens = (
                (*self.source.to_pieces(source.ids[position] for position in source_positions), end),
                (*self.target.to_pieces(target), end),
            )
            yield TokenAlignment(
                *tokens, row_weights, None if guided_weights is None else guided_weights[row, rows][:, columns]
            )

    def _build_coverage_function(self, sources: Sequence[EncodedText]) -> AttentionLookup:
        """Return a function that computes the attention of partial translations of these sources for coverage, by the
        last layer and the mean of its heads; an ensemble uses its first model.
        """

        def compute_attention(rows: Sequence[int], texts: Sequence[tuple[int, ...]]) -> list[Tensor]:
            """Return the attention of each text, given by token ids, to the source of its row."""
            pairs = [(sources[row], list(ids)) for row, ids in zip(rows, texts, strict=True)]
            alignments = run_batched(pairs, self._align_batch, size=_pair_length, batch_tokens=4096, max_rows=256)
            return [torch.from_numpy(list(alignment.weights.values())[-1]) for alignment in alignments]

        return compute_attention

    def _record_cross_attention(self, pairs: list[_EncodedPair]) -> dict[str, list[Tensor]]:
        """Run the first model on a batch of pairs and return the weights of its cross-attentions by path; raise
        RecipeError if it has none.
        """
        source = self._collate_sources([source for source, _ in pairs])
        target_tokens, _ = self._decoder_target.build_forced_batch([target for _, target in pairs])
        model, cross_attention_paths = self.models[0], self._cross_attention_paths()
        if not cross_attention_paths:
            raise RecipeError("this model has no attention to its source, so there is no attention to show")
        with torch.inference_mode(), watch_attention(model, paths=cross_attention_paths) as weights:
            model.step(target_tokens, model.init_state(source))  # type: ignore[operator]  # every model here is an Engine
        return weights

    def _cross_attention_paths(self) -> list[str]:
        """Return the paths of the first model's cross-attentions."""
        return [
            path
            for path, attention_info in attentions_of(self.models[0]).items()
            if attention_info.declaration.kind == "cross"
        ]

    def _encode_target(self, text: str, number: int) -> list[int]:
        """Encode a given translation; raise DataError if it is too long."""
        return self._decoder_target.encode(text, name=f"sentence {number}: its translation")

    def _read_parts(
        self, sentences: Sequence[SourceSentence], constraints: Sequence[Sequence[TargetTerm | str]] | None
    ) -> list[list[SourcePart]]:
        """Split sentences into parts that the model can read, with the constraints of each."""
        source_reader = self._source_reader
        parts = [source_reader.split_into_parts(sentence) for sentence in sentences]
        return parts if constraints is None else list(map(assign_constraints, parts, constraints))

    def _report_progress(
        self,
        requests: Sequence[TranslationRequest],
        on_text: Callable[[int, TextCandidate], None],
        index: int,
        ids: Sequence[int],
    ) -> None:
        """Call `on_text` with the index of a sentence and its text so far while its search runs; `index` is that of the
        request, and `ids` are its tokens so far.
        """
        on_text(requests[index].row, self._decoder_target.to_growing_candidate(ids))

    def _build_request(
        self, part: SourcePart, length: LengthLimits, *, stream: int = 1, target_prefix: _TargetPrefix = _EMPTY_PREFIX
    ) -> TargetRequest:
        """Build the generation request of a part: length limits, random stream (`stream`), prefix and constraints."""
        num_tokens = len(self._source_reader.own_positions(part.tokens)) + 1
        terms = dict.fromkeys(ids for term in part.terms if (ids := term.encode(self.target)))
        prefix, word = target_prefix
        return TargetRequest(
            length.max_tokens(num_tokens),
            stream,
            prefix or self.target.prefix_ids,
            length.min_tokens(num_tokens),
            tuple(terms),
            word,
        )

    def _build_translation(self, part: SourcePart, hypotheses: list[Hypothesis]) -> Translation:
        """Build the translation of a part from the hypotheses of the search, best first; that of an empty part is empty
        and meets no terms.
        """
        if not part.tokens.ids:
            empty_candidate = TextCandidate("", (), (), 0.0, 0.0, finished=True)
            return Translation(
                part.text, (), (empty_candidate,), (), 0, _get_term_texts(part.terms), _get_term_texts(part.terms)
            )
        candidates = tuple(map(self._decoder_target.to_candidate, hypotheses))
        unmet = [term for term in part.terms if not term.is_in(candidates[0].text, self.target)]
        pieces = tuple(
            self.source.to_pieces(
                part.tokens.ids[position] for position in self._source_reader.own_positions(part.tokens)
            )
        )
        previous = get_context(part.sentence)
        return Translation(
            part.text, pieces, candidates, (), part.cut, _get_term_texts(part.terms), _get_term_texts(unmet), previous
        )

    def _add_doubts(
        self, translations: list[list[Translation]], confidence: ConfidenceCurve, *, batch_tokens: int
    ) -> list[list[Translation]]:
        """Add the warning signs of the calibration `confidence` to the translations of the parts of each sentence; if
        attention is needed, the parts are read once more.
        """
        alignments: Iterator[TokenAlignment | None] = repeat(None)
        if confidence.widest is not None and self.has_attention:
            pairs = [
                (part.input_text, part.candidates[0]) for parts in translations for part in parts if part.source_tokens
            ]
            alignments = iter(self.align_all(pairs, batch_tokens=batch_tokens))

        def add_doubts(part: Translation) -> Translation:
            """Add the warning signs to one part."""
            if not part.source_tokens:
                return part
            alignment = next(alignments)
            weights = None if alignment is None else alignment.best_weights
            return replace(part, doubts=confidence.find_doubts(part.candidates[0], weights))

        return [list(map(add_doubts, parts)) for parts in translations]

    def _collate_sources(self, sentences: Sequence[EncodedText]) -> Tokens:
        """Collate encoded sources into a batch on the model's device."""
        return move_to_device(collate_encoded_sources(sentences, eos=self.source.special.eos), self.device)


def _join_parts(sentence: SourceSentence, translations: list[Translation]) -> Translation:
    translation = translations[0] if len(translations) == 1 else join_translations(get_text(sentence), translations)
    return replace(translation, before=get_context(sentence))


def _get_term_texts(terms: Iterable[TargetTerm]) -> tuple[str, ...]:
    return tuple(term.text for term in terms)


def _attention_to_numpy(attention_calls: list[Tensor], head: int | None) -> Float[np.ndarray, "B T S"]:
    """Return the weights of one head, or the mean of all heads, as an array."""
    return select_head(attention_calls, head).float().cpu().numpy()


def _source_length(request: TranslationRequest) -> int:
    """Return the source length of a request, end included."""
    return len(request.source) + 1


def _pair_length(pair: _EncodedPair) -> int:
    """Return the length of the longer side of a pair, end included."""
    source, target = pair
    return max(len(source), len(target)) + 1
