"""Train, evaluate and inspect attention models.

What is listed in `__all__` is stable; everything else may move. Names that need torch are loaded when they
are first used, so that `import heedful` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from heedful.errors import DataError, HeedfulError, MissingExtraError, RecipeError, RunError, TrainingError
from heedful.version import __version__

if TYPE_CHECKING:
    from heedful.inspection.record_files import load_record as load_record
    from heedful.inspection.record_files import save_record as save_record
    from heedful.metrics.report import evaluate as evaluate
    from heedful.recipes.load import load_recipe as load_recipe
    from heedful.retrieval.index import load_index as load_index
    from heedful.runs.load import load as load
    from heedful.runs.quantize import quantize as quantize
    from heedful.runs.train import train as train
    from heedful.tasks.captioning.face import Captioner as Captioner
    from heedful.tasks.classification.face import Classifier as Classifier
    from heedful.tasks.conversation.face import Partner as Partner
    from heedful.tasks.embedder import Embedder as Embedder
    from heedful.tasks.glimpses.face import Looker as Looker
    from heedful.tasks.heads import Heads as Heads
    from heedful.tasks.language.face import Writer as Writer
    from heedful.tasks.pretraining.face import Detector as Detector
    from heedful.tasks.pretraining.face import Reader as Reader
    from heedful.tasks.spans.face import Answerer as Answerer
    from heedful.tasks.speech.face import Recogniser as Recogniser
    from heedful.tasks.stories.face import StoryReader as StoryReader
    from heedful.tasks.tagging.face import Tagger as Tagger
    from heedful.tasks.translation.face import Translator as Translator
    from heedful.tasks.video.face import VideoCaptioner as VideoCaptioner

_LAZY = {
    "Answerer": "heedful.tasks.spans.face",
    "Captioner": "heedful.tasks.captioning.face",
    "Classifier": "heedful.tasks.classification.face",
    "Detector": "heedful.tasks.pretraining.face",
    "Embedder": "heedful.tasks.embedder",
    "Heads": "heedful.tasks.heads",
    "Looker": "heedful.tasks.glimpses.face",
    "Partner": "heedful.tasks.conversation.face",
    "Reader": "heedful.tasks.pretraining.face",
    "Recogniser": "heedful.tasks.speech.face",
    "StoryReader": "heedful.tasks.stories.face",
    "Tagger": "heedful.tasks.tagging.face",
    "Translator": "heedful.tasks.translation.face",
    "VideoCaptioner": "heedful.tasks.video.face",
    "Writer": "heedful.tasks.language.face",
    "evaluate": "heedful.metrics.report",
    "load": "heedful.runs.load",
    "load_index": "heedful.retrieval.index",
    "load_recipe": "heedful.recipes.load",
    "load_record": "heedful.inspection.record_files",
    "quantize": "heedful.runs.quantize",
    "save_record": "heedful.inspection.record_files",
    "train": "heedful.runs.train",
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


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'heedful' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
