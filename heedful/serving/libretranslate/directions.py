"""Who of the served models translates what, and which language a text is in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, final

from heedful.data.language_identification import LanguageIdentifier, LanguagePrediction
from heedful.generation.search import SearchStrategy
from heedful.recipes.generation import BeamConfig, GreedyConfig
from heedful.serving.http_errors import bad_request
from heedful.serving.languages import LanguagePair, match_language
from heedful.serving.registry import LoadedModel
from heedful.tasks.search_factory import build_search
from heedful.tasks.translation.translator import Translator

AUTO: Final = "auto"
"""What is asked for instead of a source language that is to be found out."""


@final
class DirectedModel:
    """A model that goes one way.

    Args:
        model: that is served.
        target: the language that it is asked for.
    """

    def __init__(self, model: LoadedModel[Translator], target: str) -> None:
        self.model = model
        self.target = target
        self.translator = model.predictor.towards(target) if model.predictor.languages else model.predictor
        self._searches: dict[int, SearchStrategy] = {0: self.translator.search}

    def get_search(self, alternatives: int) -> SearchStrategy:
        """How translations are looked for, the same object for everybody who wants as many besides the best; a model
        that searches greedily does so with a beam where there are to be several.
        """
        if alternatives not in self._searches:
            generation = self.translator.generation
            if isinstance(generation, GreedyConfig):
                generation = BeamConfig(**generation.model_dump(exclude={"kind"}))
            # of two that are built at one time the first is everybody's
            self._searches.setdefault(
                alternatives, build_search(generation, self.translator.target, n_best=alternatives + 1)
            )
        return self._searches[alternatives]


@final
class TranslationDirections:
    """All ways that served models go; of several models for one way, the first is asked.

    Args:
        models: that translate, in the order in which they were named.
    """

    def __init__(self, models: Iterable[LoadedModel[Translator]]) -> None:
        self._models_by_pair: dict[LanguagePair, DirectedModel] = {}
        model_list = list(models)
        for model in model_list:
            pairs = model.model_languages.pairs
            by_target = {
                target: DirectedModel(model, target) for target in dict.fromkeys(target for _, target in pairs)
            }
            for source, target in pairs:
                self._models_by_pair.setdefault((source, target), by_target[target])
        all_profiles = (model.model_languages.profiles for model in model_list)
        self.profiles = LanguageIdentifier.merge(filter(None, all_profiles), languages=self.languages)

    @property
    def models_by_pair(self) -> Mapping[LanguagePair, DirectedModel]:
        """Who goes each of them."""
        return self._models_by_pair

    @property
    def languages(self) -> Sequence[str]:
        """All that are read or written, sorted."""
        return sorted({language for pair in self._models_by_pair for language in pair})

    def find_targets(self, source: str) -> Sequence[str]:
        """What is made of a language."""
        return [target for other, target in self._models_by_pair if other == source]

    def find_sources(self, target: str) -> Sequence[str]:
        """Of what a language is made."""
        return [source for source, other in self._models_by_pair if other == target]

    def match_served(self, requested: str, *, param: str) -> str:
        """The one that somebody means; `HTTPError` where it is not served."""
        language = match_language(requested, self.languages)
        if language is None:
            raise bad_request(
                f"{param}: {requested[:40]!r} is not served; there are {', '.join(self.languages)}", param=param
            )
        return language

    def find_model(self, source: str, target: str) -> DirectedModel | None:
        """Who translates; None where a text stays as it is, since it is to be in its own language.

        Raises:
            Refusal: nobody does.
        """
        directed_model = self._models_by_pair.get((source, target))
        if directed_model is None and source != target:
            possible = ", ".join(self.find_sources(target)) or "nothing"
            raise bad_request(
                f"source: no model here translates {source} to {target}; what becomes {target} is {possible}",
                param="source",
            )
        return directed_model

    def identify_source(self, text: str, *, target: str) -> LanguagePrediction:
        """The language of a text that is to become another one: the most probable of those that can.

        A text without letters is taken for what the first model reads, with probability 0.

        Raises:
            Refusal: several are possible, and it is not known how each of them looks.
        """
        sources = self.find_sources(target)
        if not sources:
            raise bad_request(f"target: nothing is translated to {target} here; see GET /languages", param="target")
        unprofiled = set(sources).difference(() if self.profiles is None else self.profiles.languages)
        if self.profiles is None or unprofiled:
            if len(sources) == 1:
                return LanguagePrediction(sources[0], 1.0)
            raise bad_request(
                f"source: {AUTO} needs models that know how {' and '.join(sorted(unprofiled))} look, as those do whose "
                f"recipes name source_language and target_language of their texts; say which of {', '.join(sources)} "
                "it is",
                param="source",
            )
        candidates = (
            candidate for candidate in self.profiles.rank_languages(text) if candidate.language in (*sources, target)
        )
        return next(candidates, LanguagePrediction(sources[0], 0.0))

    def rank_languages(self, text: str) -> Sequence[LanguagePrediction]:
        """All languages that can be told apart, the most probable first; of a text without letters none is probable.

        Raises:
            Refusal: there are none.
        """
        if self.profiles is None:
            raise bad_request(
                "q: no model here knows languages apart; serve one whose recipe names source_language and "
                "target_language of its texts",
                param="q",
            )
        return self.profiles.rank_languages(text) or [
            LanguagePrediction(language, 0.0) for language in self.profiles.languages
        ]
