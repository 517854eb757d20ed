"""Who of the served models translates what, and which language a text is in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, final

from heedful.data.identification import Identified, Profiles
from heedful.generation.search import Search
from heedful.recipes.generation import BeamConfig, GreedyConfig
from heedful.serving.house import Model
from heedful.serving.languages import Way, found_in
from heedful.serving.refusal import wrong
from heedful.tasks.searches import build_search
from heedful.tasks.translation.face import Translator

AUTO: Final = "auto"
"""What is asked for instead of a source language that is to be found out."""


@final
class Interpreter:
    """A model that goes one way.

    Args:
        model: that is served.
        target: the language that it is asked for.
    """

    def __init__(self, model: Model[Translator], target: str) -> None:
        self.model = model
        self.target = target
        self.translator = model.face.towards(target) if model.face.languages else model.face
        self._searches: dict[int, Search] = {0: self.translator.search}

    def search(self, alternatives: int) -> Search:
        """How translations are looked for, the same object for everybody who wants as many besides the best; a model
        that searches greedily does so with a beam where there are to be several.
        """
        if alternatives not in self._searches:
            config = self.translator.generation
            if isinstance(config, GreedyConfig):
                config = BeamConfig(**config.model_dump(exclude={"kind"}))
            # of two that are built at one time the first is everybody's
            self._searches.setdefault(
                alternatives, build_search(config, self.translator.target, n_best=alternatives + 1)
            )
        return self._searches[alternatives]


@final
class Interpreters:
    """All ways that served models go; of several models for one way, the first is asked.

    Args:
        models: that translate, in the order in which they were named.
    """

    def __init__(self, models: Iterable[Model[Translator]]) -> None:
        self._ways: dict[Way, Interpreter] = {}
        several = list(models)
        for model in several:
            ways = model.spoken.ways
            into = {target: Interpreter(model, target) for target in dict.fromkeys(target for _, target in ways)}
            for source, target in ways:
                self._ways.setdefault((source, target), into[target])
        known = (model.spoken.profiles for model in several)
        self.profiles = Profiles.together(filter(None, known), languages=self.languages)

    @property
    def ways(self) -> Mapping[Way, Interpreter]:
        """Who goes each of them."""
        return self._ways

    @property
    def languages(self) -> Sequence[str]:
        """All that are read or written, sorted."""
        return sorted({language for way in self._ways for language in way})

    def targets(self, source: str) -> Sequence[str]:
        """What is made of a language."""
        return [target for own, target in self._ways if own == source]

    def sources(self, target: str) -> Sequence[str]:
        """Of what a language is made."""
        return [source for source, own in self._ways if own == target]

    def language(self, asked: str, *, param: str) -> str:
        """The one that somebody means; `Refusal` where it is not served."""
        found = found_in(asked, self.languages)
        if found is None:
            raise wrong(f"{param}: {asked[:40]!r} is not served; there are {', '.join(self.languages)}", param=param)
        return found

    def between(self, source: str, target: str) -> Interpreter | None:
        """Who translates; None where a text stays as it is, since it is to be in its own language.

        Raises:
            Refusal: nobody does.
        """
        found = self._ways.get((source, target))
        if found is None and source != target:
            possible = ", ".join(self.sources(target)) or "nothing"
            raise wrong(
                f"source: no model here translates {source} to {target}; what becomes {target} is {possible}",
                param="source",
            )
        return found

    def identified(self, text: str, *, target: str) -> Identified:
        """The language of a text that is to become another one: the most probable of those that can.

        A text without letters is taken for what the first model reads, with probability 0.

        Raises:
            Refusal: several are possible, and it is not known how each of them looks.
        """
        sources = self.sources(target)
        if not sources:
            raise wrong(f"target: nothing is translated to {target} here; see GET /languages", param="target")
        unknown = set(sources).difference(() if self.profiles is None else self.profiles.languages)
        if self.profiles is None or unknown:
            if len(sources) == 1:
                return Identified(sources[0], 1.0)
            raise wrong(
                f"source: {AUTO} needs models that know how {' and '.join(sorted(unknown))} look, as those do whose "
                f"recipes name source_language and target_language of their texts; say which of {', '.join(sources)} "
                "it is",
                param="source",
            )
        possible = (each for each in self.profiles.ranked(text) if each.language in (*sources, target))
        return next(possible, Identified(sources[0], 0.0))

    def ranked(self, text: str) -> Sequence[Identified]:
        """All languages that can be told apart, the most probable first; of a text without letters none is probable.

        Raises:
            Refusal: there are none.
        """
        if self.profiles is None:
            raise wrong(
                "q: no model here knows languages apart; serve one whose recipe names source_language and "
                "target_language of its texts",
                param="q",
            )
        return self.profiles.ranked(text) or [Identified(language, 0.0) for language in self.profiles.languages]
