"""What users see: exported names, commands, and the modules that help imports."""

from __future__ import annotations

import subprocess
import sys

import heedful
from heedful.cli.commands import COMMANDS, GROUPS

EXPORTED = [
    "Captioner",
    "ChatPredictor",
    "Classifier",
    "DataError",
    "Embedder",
    "GlimpsePredictor",
    "HeedfulError",
    "MaskedLanguageModelPredictor",
    "MissingExtraError",
    "MultiHeadPredictor",
    "QuestionAnsweringPredictor",
    "RecipeError",
    "ReplacedTokenPredictor",
    "RunError",
    "SpeechRecognizer",
    "StoryPredictor",
    "Tagger",
    "TextGenerator",
    "TrainingError",
    "Translator",
    "VideoCaptioner",
    "__version__",
    "evaluate",
    "load",
    "load_index",
    "load_recipe",
    "load_record",
    "quantize",
    "save_record",
    "train",
    "trim",
]
HEAVY = {"torch", "numpy", "pydantic", "rich", "sentencepiece", "sacrebleu"}


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def list_heavy_imports(code: str) -> set[str]:
    words = run_python(f"import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n{code}\n"
                   "import sys; print(*sys.modules)").split()  # fmt: skip
    return HEAVY & {word.split(".")[0] for word in words}


def test_exported_names_are_frozen() -> None:
    assert sorted(heedful.__all__) == EXPORTED
    assert dir(heedful) == EXPORTED


def test_each_exported_name_can_be_imported() -> None:
    assert all(getattr(heedful, name) is not None for name in heedful.__all__)
    names: dict[str, object] = {}
    exec("from heedful import *", names)
    assert all(names[name] is getattr(heedful, name) for name in heedful.__all__)


def test_commands_are_frozen() -> None:
    assert {group.title: list(group.commands) for group in GROUPS} == {
        "Begin": ["quickstart", "lecture", "new", "filter", "annotate", "split", "recipes", "recipe", "completion"],
        "Train": ["train", "sweep", "curve", "describe", "quantize", "trim", "export"],
        "Use": [
            *(
                "translate",
                "rerank",
                "backtranslate",
                "identify",
                "generate",
                "chat",
                "fill",
                "detect",
                "embed",
                "tag",
                "classify",
                "answer",
                "look",
            ),
            *("caption", "transcribe", "ask", "predict", "serve"),
        ],
        "Search": ["index", "search"],
        "Measure": ["evaluate", "compare", "calibrate", "score"],
        "Look inside": ["inspect", "align", "study"],
    }
    assert list(COMMANDS) == [name for group in GROUPS for name in group.commands]
    shared = {f"heedful.cli.{name}" for name in ("export", "search", "train")}
    for name, command in COMMANDS.items():
        assert command.module in {f"heedful.cli.{name}", *shared} or command.module.endswith("_commands")


def test_importing_heedful_loads_nothing_heavy() -> None:
    assert list_heavy_imports("    import heedful") == set()


def test_help_loads_nothing_heavy() -> None:
    for words in ([], ["--help"], ["--version"], ["trian"]):
        code = f"    from heedful.__main__ import main; main({words!r})"
        assert list_heavy_imports(code) == set(), words


def test_recipes_are_read_without_torch() -> None:
    assert (
        list_heavy_imports("    import heedful.recipes.load, heedful.cli.arguments")
        & {"torch", "numpy", "sentencepiece"}
        == set()
    )


def test_help_opens_eight_modules_of_heedful_and_no_package() -> None:
    """Help needs no other time: it also imports a few modules of Python itself."""
    code = "import sys; before = set(sys.modules)\nfrom heedful.__main__ import main; main(['--help'])\n"
    code += "print(*sorted(name for name in set(sys.modules) - before))"
    loaded = run_python(code).splitlines()[-1].split()
    ours = [name for name in loaded if name.split(".")[0] == "heedful"]
    assert ours == [
        "heedful",
        *(
            f"heedful.{name}"
            for name in ("__main__", "cli", "cli.commands", "cli.output", "deprecation", "errors", "version")
        ),
    ]
    others = {name.split(".")[0] for name in loaded} - {"heedful"}
    assert others <= sys.stdlib_module_names
    assert len(others) < 60
