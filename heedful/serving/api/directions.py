"""Choose the translation model and direction of a request."""

from __future__ import annotations

from typing import Any

from heedful.serving.capabilities import find_capable_model
from heedful.serving.http_errors import bad_request
from heedful.serving.languages import match_language
from heedful.serving.registry import LoadedModel, ModelRegistry
from heedful.tasks.translation.translator import Translator


def find_translator(
    registry: ModelRegistry, model_name: str | None, *, capability: str, source: str | None, target_language: str | None
) -> tuple[LoadedModel[Any], Translator]:
    """Return the translation model that a request means, and its predictor for one target language.

    Args:
        registry: with the models.
        model_name: may be None if the languages determine the model.
        capability: that the model must have.
        source: language that it reads.
        target: language that it writes.

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
        available = ", ".join(
            f"{source_tag or 'anything'} to {target_tag or 'anything'}" for source_tag, target_tag in find_pairs(model)
        )
        raise bad_request(f"source, to: {model.name} translates {available}; ask for one of these", param="to")
    translator: Translator = model.predictor
    if not translator.languages:
        return model, translator
    targets = dict.fromkeys(target for _, target in pairs)
    if len(targets) > 1:
        raise bad_request(f"to: {model.name} writes {', '.join(filter(None, targets))}; name one of these", param="to")
    (target,) = targets
    return model, translator.towards(target)


def find_pairs(
    model: LoadedModel[Any], *, source: str | None = None, target: str | None = None
) -> list[tuple[str | None, str | None]]:
    """Return the translation directions of a model that agree with the requested languages; None stands for an
    unknown language.
    """
    translator: Translator = model.predictor
    known_pairs: list[tuple[str | None, str | None]] = [*model.model_languages.pairs]
    target_pairs: list[tuple[str | None, str | None]] = [(None, language) for language in translator.languages]
    return [
        pair
        for pair in known_pairs or target_pairs or [(None, None)]
        if _matches_language(source, pair[0]) and _matches_language(target, pair[1])
    ]


def _matches_language(requested: str | None, available: str | None) -> bool:
    """Return whether a requested and a known language agree; None agrees with every language."""
    return requested is None or available is None or match_language(requested, [available]) is not None
