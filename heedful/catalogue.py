"""Which tasks there are, where each is defined, and what installed packages add.

A task is its recipe, whose module waits until it is asked for. Packages add theirs by entry points of the group
`heedful.tasks`, as in `multi_label = "own_task.recipe:MultiLabelRecipe"`, and families of models by those of
`heedful.architectures`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

from heedful.errors import RecipeError
from heedful.words import near

if TYPE_CHECKING:
    from heedful.recipes.recipe import Recipe

DEFAULT: Final = "translation"
"""The task of a recipe that names none."""
_OWN: Final[Mapping[str, str]] = {
    "translation": "heedful.tasks.translation.recipe:TranslationRecipe",
    "conversation": "heedful.tasks.conversation.recipe:ConversationRecipe",
    "language_modelling": "heedful.tasks.language.recipe:LanguageRecipe",
    "pretraining": "heedful.tasks.pretraining.recipe:PretrainingRecipe",
    "speech": "heedful.tasks.speech.recipe:SpeechRecipe",
    "tagging": "heedful.tasks.tagging.recipe:TaggingRecipe",
    "classification": "heedful.tasks.classification.recipe:ClassificationRecipe",
    "spans": "heedful.tasks.spans.recipe:SpansRecipe",
    "captioning": "heedful.tasks.captioning.recipe:CaptioningRecipe",
    "matching": "heedful.tasks.matching.recipe:MatchingRecipe",
    "stories": "heedful.tasks.stories.recipe:StoriesRecipe",
    "video": "heedful.tasks.video.recipe:VideoRecipe",
    "multitask": "heedful.tasks.multitask.recipe:MultitaskRecipe",
    "glimpses": "heedful.tasks.glimpses.recipe:GlimpsesRecipe",
}
_CALLED: Final[Mapping[str, str]] = {
    word: task
    for task, words in (
        ("translation", "translate mt nmt seq2seq machine_translation"),
        ("conversation", "chat dialogue dialog chatbot"),
        ("language_modelling", "lm language_model language_modeling generation gpt causal_lm clm text_generation"),
        ("pretraining", "pre-training pre_training bert mlm masked_lm electra"),
        ("speech", "asr transcription speech_recognition stt"),
        ("tagging", "tagger ner pos token_classification sequence_labelling sequence_labeling"),
        ("classification", "classify classifier sentiment sequence_classification text_classification nli regression"),
        ("spans", "qa question_answering squad reading_comprehension"),
        ("captioning", "caption captions image_captioning"),
        ("matching", "retrieval similarity embedding dual_encoder"),
        ("stories", "babi story memory_network"),
        ("video", "video_captioning clips"),
        ("multitask", "multi_task multi-task several"),
        ("glimpses", "ram attention_glimpses digits mnist"),
    )
    for word in words.split()
}
"""What tasks are called elsewhere."""


@cache
def tasks() -> Mapping[str, str]:
    """Where the recipe of each task is, as "module:name"; nobody can take the name of one of ours."""
    return {point.name: point.value for point in entry_points(group="heedful.tasks")} | dict(_OWN)


@cache
def installed() -> tuple[type[Any], ...]:
    """The families of models that installed packages add, as the classes of their tables."""
    points = entry_points(group="heedful.architectures")
    return tuple(find(point.value, about=f"model.kind = {point.name!r}") for point in points)


def called(word: str) -> str | None:
    """The task that somebody means by a word which is none; None where that cannot be told."""
    return _CALLED.get(word.lower()) or near(word, tasks())


def recipe_of(task: str) -> type[Recipe]:
    """The recipe of a task."""
    found: type[Recipe] = find(tasks()[task], about=f"task = {task!r}")
    return found


def find(place: str, *, about: str) -> Any:
    """What stands at "module:name"; `RecipeError` where what an installed package says of itself is not true."""
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise RecipeError(f"{about}: the package that has it cannot be used ({place}: {error}); mend it") from error
