"""Train, evaluate and inspect attention models.

The names in `__all__` are stable; everything else may change. Names that need torch are loaded on first use, so that
`import heedful` is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from heedful.deprecation import get_renamed, install_old_modules
from heedful.errors import DataError, HeedfulError, MissingExtraError, RecipeError, RunError, TrainingError
from heedful.version import __version__

if TYPE_CHECKING:
    from heedful.inspection.record_files import load_record as load_record
    from heedful.inspection.record_files import save_record as save_record
    from heedful.metrics.report import evaluate as evaluate
    from heedful.recipes.load import load_recipe as load_recipe
    from heedful.retrieval.index import load_index as load_index
    from heedful.runs.export import quantize as quantize
    from heedful.runs.export import trim as trim
    from heedful.runs.load import load as load
    from heedful.runs.train import train as train
    from heedful.tasks.captioning.predictor import Captioner as Captioner
    from heedful.tasks.captioning.predictor import VideoCaptioner as VideoCaptioner
    from heedful.tasks.classification.predictor import Classifier as Classifier
    from heedful.tasks.conversation.predictor import ChatPredictor as ChatPredictor
    from heedful.tasks.embedder import Embedder as Embedder
    from heedful.tasks.glimpses.predictor import GlimpsePredictor as GlimpsePredictor
    from heedful.tasks.language.predictor import TextGenerator as TextGenerator
    from heedful.tasks.predictor import MultiHeadPredictor as MultiHeadPredictor
    from heedful.tasks.pretraining.predictor import MaskedLanguageModelPredictor as MaskedLanguageModelPredictor
    from heedful.tasks.pretraining.predictor import ReplacedTokenPredictor as ReplacedTokenPredictor
    from heedful.tasks.spans.predictor import QuestionAnsweringPredictor as QuestionAnsweringPredictor
    from heedful.tasks.speech.predictor import SpeechRecognizer as SpeechRecognizer
    from heedful.tasks.stories.predictor import StoryPredictor as StoryPredictor
    from heedful.tasks.tagging.predictor import Tagger as Tagger
    from heedful.tasks.translation.translator import Translator as Translator

_LAZY = {
    "Captioner": "heedful.tasks.captioning.predictor",
    "ChatPredictor": "heedful.tasks.conversation.predictor",
    "Classifier": "heedful.tasks.classification.predictor",
    "Embedder": "heedful.tasks.embedder",
    "GlimpsePredictor": "heedful.tasks.glimpses.predictor",
    "MaskedLanguageModelPredictor": "heedful.tasks.pretraining.predictor",
    "MultiHeadPredictor": "heedful.tasks.predictor",
    "QuestionAnsweringPredictor": "heedful.tasks.spans.predictor",
    "ReplacedTokenPredictor": "heedful.tasks.pretraining.predictor",
    "SpeechRecognizer": "heedful.tasks.speech.predictor",
    "StoryPredictor": "heedful.tasks.stories.predictor",
    "Tagger": "heedful.tasks.tagging.predictor",
    "TextGenerator": "heedful.tasks.language.predictor",
    "Translator": "heedful.tasks.translation.translator",
    "VideoCaptioner": "heedful.tasks.captioning.predictor",
    "evaluate": "heedful.metrics.report",
    "load": "heedful.runs.load",
    "load_index": "heedful.retrieval.index",
    "load_recipe": "heedful.recipes.load",
    "load_record": "heedful.inspection.record_files",
    "quantize": "heedful.runs.export",
    "save_record": "heedful.inspection.record_files",
    "train": "heedful.runs.train",
    "trim": "heedful.runs.export",
}

__all__ = [  # noqa: PLE0604 - the lazy names are strings too
    "DataError",
    "HeedfulError",
    "MissingExtraError",
    "RecipeError",
    "RunError",
    "TrainingError",
    "__version__",
    *_LAZY,
]

_OLD_NAMES = {
    "Answerer": "QuestionAnsweringPredictor",
    "Detector": "ReplacedTokenPredictor",
    "Heads": "MultiHeadPredictor",
    "Looker": "GlimpsePredictor",
    "Partner": "ChatPredictor",
    "Reader": "MaskedLanguageModelPredictor",
    "Recogniser": "SpeechRecognizer",
    "StoryReader": "StoryPredictor",
    "Writer": "TextGenerator",
}
"""Names of version 0.1, each with its new name; they are kept for one version."""


install_old_modules()


def __getattr__(name: str) -> Any:
    if name in _OLD_NAMES:
        return get_renamed(__name__, name, _OLD_NAMES)
    if name not in _LAZY:
        raise AttributeError(f"module 'heedful' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
