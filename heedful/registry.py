"""Registry of tasks and model architectures, with those of installed packages.

A task is defined by its recipe class, whose module is imported on demand. Packages add tasks by entry points of the
group `heedful.tasks`, as in `multi_label = "own_task.recipe:MultiLabelRecipe"`, and model architectures by those of
`heedful.architectures`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

from heedful.english_words import closest_match
from heedful.errors import RecipeError

DEFAULT_TASK: Final = "translation"
"""Task of a recipe that does not name one."""
_BUILTIN_TASKS: Final[Mapping[str, str]] = {
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
    "video": "heedful.tasks.captioning.recipe:VideoRecipe",
    "multitask": "heedful.tasks.multitask.recipe:MultitaskRecipe",
    "glimpses": "heedful.tasks.glimpses.recipe:GlimpsesRecipe",
}
_TASK_SYNONYMS: Final[Mapping[str, str]] = {
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
"""Other names of tasks."""


@cache
def list_tasks() -> Mapping[str, str]:
    """Return the location of each task's recipe class as "module:name"; built-in names cannot be replaced."""
    return {point.name: point.value for point in entry_points(group="heedful.tasks")} | dict(_BUILTIN_TASKS)


@cache
def load_installed_architectures() -> tuple[type[Any], ...]:
    """Load the config classes of model architectures that installed packages add."""
    points = entry_points(group="heedful.architectures")
    return tuple(load_object(point.value, context=f"model.kind = {point.name!r}") for point in points)


def suggest_task(word: str) -> str | None:
    """Return the task that an unknown name probably means; None if there is no good match."""
    return _TASK_SYNONYMS.get(word.lower()) or closest_match(word, list_tasks())


def load_object(location: str, *, context: str) -> Any:
    """Import the object at "module:name"; `context` says in the message of an error where this location stands.

    Raises:
        RecipeError: the package that declares it cannot be imported; `context` begins the message.
    """
    module, _, name = location.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise RecipeError(
            f"{context}: its package cannot be used ({location}: {error}); repair or remove the package"
        ) from error
