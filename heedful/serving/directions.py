"""Choose the model for the languages of a request, and identify the language of a text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final, final

from heedful.data.language_identification import LanguageIdentifier, LanguagePrediction
from heedful.generation.search import SearchStrategy
from heedful.recipes.generation import BeamConfig, GreedyConfig
from heedful.serving.capabilities import find_capable_model
from heedful.serving.http_errors import bad_request
from heedful.serving.languages import LanguagePair, match_language
from heedful.serving.registry import LoadedModel, ModelRegistry
from heedful.tasks.search_factory import build_search
from heedful.tasks.translation.languages import list_briefly
from heedful.tasks.translation.translator import Translator

AUTO: Final = "auto"
"""Source language with which a client requests language identification."""


def find_translator(
    registry: ModelRegistry, model_name: str | None, *, capability: str, source: str | None, target_language: str | None
) -> tuple[LoadedModel[Any], Translator]:
    """Return the translation model that a request means, and its predictor for one target language.

    Args:
        registry: with the models.
        model_name: may be None if the languages determine the model.
        capability: that the model must have.
        source: language that it reads.
        target_language: language that it writes.

    Raises:
        HTTPError: the model is not clear, or it does not translate these languages.
    """
    candidates = [
        model for model in registry.find_models(Translator) if find_pairs(model, source=source, target=target_language)
    ]
    model = (
        candidates[0]
        if model_name is None and len(candidates) == 1
        else find_capable_model(registry, capability, model_name)
    )
    pairs = find_pairs(model, source=source, target=target_language)
    if not pairs:
        available = list_briefly(
            [
                f"{source_tag or 'anything'} to {target_tag or 'anything'}"
                for source_tag, target_tag in find_pairs(model)
            ]
        )
        raise bad_request(f"source, to: {model.name} translates {available}; ask for one of these", param="to")
    translator: Translator = model.predictor
    if not translator.languages:
        return model, translator
    targets = dict.fromkeys(target for _, target in pairs)
    if len(targets) > 1:
        known = list_briefly(tuple(filter(None, targets)))
        raise bad_request(f"to: {model.name} writes {known}; name one of these", param="to")
    (target,) = targets
    sources = dict.fromkeys(language for language, _ in pairs)
    if not translator.source_languages:
        return model, translator.towards(target)
    if len(sources) > 1:
        known = list_briefly(tuple(filter(None, sources)))
        raise bad_request(f"source: {model.name} reads {known}; name one of these", param="source")
    return model, translator.towards(target, source=next(iter(sources)))


def find_pairs(
    model: LoadedModel[Any], *, source: str | None = None, target: str | None = None
) -> list[tuple[str | None, str | None]]:
    """Return the (source, target) directions of a model that agree with the requested languages; a requested None
    agrees with every language. None in a returned pair stands for an unknown language.
    """
    translator: Translator = model.predictor
    known_pairs: list[tuple[str | None, str | None]] = [*model.model_languages.pairs]
    target_pairs: list[tuple[str | None, str | None]] = [(None, language) for language in translator.languages]
    return [
        pair
        for pair in known_pairs or target_pairs or [(None, None)]
        if _matches_language(source, pair[0]) and _matches_language(target, pair[1])
    ]


@lru_cache(maxsize=4096)
def _matches_language(requested: str | None, available: str | None) -> bool:
    """Return whether a requested and a known language agree; None agrees with every language."""
    return requested is None or available is None or match_language(requested, [available]) is not None


@final
class DirectedModel:
    """A translation model that translates into one language.

    Args:
        model: that is served.
        target: language to translate into.
        source: language of the texts, for a model that reads it; else None.
    """

    def __init__(self, model: LoadedModel[Translator], target: str, *, source: str | None = None) -> None:
        self.model = model
        self.target = target
        self.source = source
        self._searches: dict[int, SearchStrategy] = {0: model.predictor.search}

    @cached_property
    def translator(self) -> Translator:
        """The model with its languages set."""
        predictor = self.model.predictor
        return predictor.towards(self.target, source=self.source) if predictor.languages else predictor

    def get_search(self, alternatives: int) -> SearchStrategy:
        """Return the search that finds this number of alternatives besides the best translation.

        Equal numbers get the same object, so that their requests are batched together; a greedy model uses a beam if
        there are alternatives.
        """
        if alternatives not in self._searches:
            generation = self.translator.generation
            if isinstance(generation, GreedyConfig):
                generation = BeamConfig(**generation.model_dump(exclude={"kind"}))
            # if two threads build one at the same time, both use the first
            self._searches.setdefault(
                alternatives, build_search(generation, self.translator.target, n_best=alternatives + 1)
            )
        return self._searches[alternatives]


@final
class TranslationDirections:
    """All translation directions of the served models; if several models share a direction, the first one is used.

    Args:
        models: that translate, in the order of the settings.
    """

    def __init__(self, models: Iterable[LoadedModel[Translator]]) -> None:
        self._models_by_pair: dict[LanguagePair, DirectedModel] = {}
        model_list = list(models)
        for model in model_list:
            pairs = model.model_languages.pairs
            reads_language = bool(model.predictor.source_languages)
            directed = {
                key: DirectedModel(model, key[1], source=key[0])
                for key in dict.fromkeys((source if reads_language else None, target) for source, target in pairs)
            }
            for source, target in pairs:
                key = (source if reads_language else None, target)
                self._models_by_pair.setdefault((source, target), directed[key])
        all_profiles = (model.model_languages.profiles for model in model_list)
        self.profiles = LanguageIdentifier.merge(filter(None, all_profiles), languages=self.languages)

    @property
    def models_by_pair(self) -> Mapping[LanguagePair, DirectedModel]:
        """The model for each pair of languages."""
        return self._models_by_pair

    @property
    def languages(self) -> Sequence[str]:
        """All source and target languages, sorted."""
        return sorted({language for pair in self._models_by_pair for language in pair})

    def find_targets(self, source: str) -> Sequence[str]:
        """Return the languages into which a language is translated."""
        return [target for other, target in self._models_by_pair if other == source]

    def find_sources(self, target: str) -> Sequence[str]:
        """Return the languages from which a language is translated."""
        return [source for source, other in self._models_by_pair if other == target]

    def match_served(self, requested: str, *, param: str) -> str:
        """Return the served language that a requested tag means; raise an `HTTPError`, which names the request field
        `param`, if it is not served.
        """
        language = match_language(requested, self.languages)
        if language is None:
            raise bad_request(
                f"{param}: {requested[:40]!r} is not served; there are {', '.join(self.languages)}", param=param
            )
        return language

    def find_model(self, source: str, target: str) -> DirectedModel | None:
        """Return the model that translates from `source` to `target`; None if they are the same language.

        Raises:
            HTTPError: no model does.
        """
        directed_model = self._models_by_pair.get((source, target))
        if directed_model is None and source != target:
            possible = ", ".join(self.find_sources(target)) or "nothing"
            raise bad_request(
                f"source: no model here translates {source} to {target}; what becomes {target} is {possible}",
                param="source",
            )
        return directed_model

    def find_source(self, text: str, requested: str, *, target: str) -> LanguagePrediction:
        """Return the source language of a text that is translated to `target`: the served language that the tag
        `requested` means, with probability 1, or the identified language if the tag is `auto`.

        Raises:
            HTTPError: see `match_served` and `identify_source`.
        """
        if requested == AUTO:
            return self.identify_source(text, target=target)
        return LanguagePrediction(self.match_served(requested, param="source"), 1.0)

    def identify_source(self, text: str, *, target: str) -> LanguagePrediction:
        """Identify the language of a text among those that are translated to the target, and the target itself.

        A text without letters counts as the source language of the first model, with probability 0.

        Raises:
            HTTPError: several languages are possible, and some of them have no profile.
        """
        sources = self.find_sources(target)
        if not sources:
            raise bad_request(f"target: nothing is translated to {target} here; see GET /languages", param="target")
        unprofiled = set(sources).difference(() if self.profiles is None else self.profiles.languages)
        if self.profiles is None or unprofiled:
            if len(sources) == 1:
                return LanguagePrediction(sources[0], 1.0)
            raise bad_request(
                f"source: {AUTO} needs models with language profiles of {' and '.join(sorted(unprofiled))}, which runs "
                "have whose recipes name source_language and target_language of their texts; give one of "
                f"{', '.join(sources)}",
                param="source",
            )
        candidates = (
            candidate for candidate in self.profiles.rank_languages(text) if candidate.language in (*sources, target)
        )
        return next(candidates, LanguagePrediction(sources[0], 0.0))

    def rank_languages(self, text: str) -> Sequence[LanguagePrediction]:
        """Rank all languages that have profiles by their probability for a text; a text without letters gives each
        probability 0.

        Raises:
            HTTPError: no language has a profile.
        """
        if self.profiles is None:
            raise bad_request(
                "q: no model here identifies languages; serve one whose recipe names source_language and "
                "target_language of its texts",
                param="q",
            )
        return self.profiles.rank_languages(text) or [
            LanguagePrediction(language, 0.0) for language in self.profiles.languages
        ]
