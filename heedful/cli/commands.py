"""Table of all commands; the module of a command is imported only when it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Command:
    """A subcommand of `heedful`.

    Attributes:
        module: name of its module. It has a function `run_NAME(words) -> exit code`, where NAME is the command, or only
            the dataclass of the command's options (`load_arguments_class`), with the method `execute() -> exit code`.
        summary: its line in the help.
    """

    module: str
    summary: str


def run_command(name: str, argv: Sequence[str]) -> int:
    """Run the command `name` with the words after it, and return its exit code; errors are reported by `main`."""
    run: Callable[[Sequence[str]], int] | None = getattr(import_module(COMMANDS[name].module), f"run_{name}", None)
    if run is not None:
        return run(argv)
    from heedful.cli.arguments import parse_arguments

    arguments = parse_arguments(load_arguments_class(name), argv, program=f"heedful {name}")
    if getattr(arguments, "ray", ()):
        from heedful.cli.ray_files import answer_files

        return answer_files(arguments)
    exit_code: int = arguments.execute()
    return exit_code


def load_arguments_class(name: str) -> Any:
    """Return the dataclass with the options of a command, such as `TranslateArguments`; None if it has none."""
    return getattr(import_module(COMMANDS[name].module), f"{name.title()}Arguments", None)


@dataclass(frozen=True)
class CommandGroup:
    """Commands of one topic, with a title and an example."""

    title: str
    example: str
    commands: Mapping[str, Command]


GROUPS: Sequence[CommandGroup] = (
    CommandGroup(
        "Begin",
        "heedful quickstart",
        {
            "quickstart": Command("heedful.cli.train", "train a small model of a task on generated data"),
            "lecture": Command(
                "heedful.cli.lecture", "train the models of five lectures about attention, and write their site"
            ),
            "new": Command("heedful.cli.new", "check and split your own files, and write a recipe for them"),
            "filter": Command(
                "heedful.cli.data_commands", "remove pairs from parallel text that harm training, and say why"
            ),
            "annotate": Command(
                "heedful.cli.translation_commands",
                "write terms of a glossary into sources, so that a model learns to use them",
            ),
            "split": Command(
                "heedful.cli.data_commands", "split off validation and test parts by the content of the texts"
            ),
            "recipes": Command("heedful.cli.bundled_commands", "list or copy the recipes that come with heedful"),
            "recipe": Command("heedful.cli.bundled_commands", "explain a key of a recipe: its type, default and range"),
            "completion": Command(
                "heedful.cli.completion", "print a script that completes commands, options and keys in a shell"
            ),
        },
    ),
    CommandGroup(
        "Train",
        "heedful train my-recipe.toml --training.steps 2000",
        {
            "train": Command("heedful.cli.train", "train the model of a recipe, or resume an interrupted run"),
            "sweep": Command(
                "heedful.cli.sweep", "train a recipe with several values of its keys and several seeds, and compare"
            ),
            "curve": Command("heedful.cli.train", "plot training and validation loss over updates"),
            "describe": Command(
                "heedful.cli.describe", "show layers, parameters, FLOPs and memory of a recipe's model"
            ),
            "quantize": Command(
                "heedful.cli.export", "write a trained run with weights in 8 bits, a quarter of the size"
            ),
            "trim": Command("heedful.cli.export", "write a published model with the pieces that your languages need"),
            "export": Command("heedful.cli.export", "write a model in the format of Hugging Face, CTranslate2 or ONNX"),
        },
    ),
    CommandGroup(
        "Use",
        'heedful translate runs/my-run "a dog"',
        {
            "translate": Command("heedful.cli.translate", "translate text with a trained model"),
            "rerank": Command(
                "heedful.cli.rerank", "choose among translations by a model that translates back, and a language model"
            ),
            "backtranslate": Command(
                "heedful.cli.translation_commands", "make parallel text for training from text in one language"
            ),
            "identify": Command(
                "heedful.cli.text_commands", "identify which of a translation model's languages texts are in"
            ),
            "generate": Command("heedful.cli.generation_commands", "continue a prompt with a trained language model"),
            "chat": Command("heedful.cli.generation_commands", "chat with a conversation model in the terminal"),
            "fill": Command("heedful.cli.text_commands", "fill the gaps of texts with a pre-trained encoder"),
            "detect": Command("heedful.cli.text_commands", "find replaced tokens with a pre-trained detector"),
            "embed": Command("heedful.cli.text_commands", "compute vectors of texts with an encoder"),
            "tag": Command("heedful.cli.text_commands", "tag the words of sentences with a trained tagger"),
            "classify": Command(
                "heedful.cli.text_commands", "give each text a class or a number, with a trained classifier"
            ),
            "answer": Command("heedful.cli.text_commands", "answer questions by parts of texts, with a trained model"),
            "look": Command("heedful.cli.text_commands", "classify pictures, glimpse by glimpse"),
            "caption": Command(
                "heedful.cli.media_commands", "describe pictures or clips in words, with a trained captioner"
            ),
            "transcribe": Command(
                "heedful.cli.media_commands", "transcribe the speech in sound files, with a trained model"
            ),
            "ask": Command(
                "heedful.cli.text_commands", "answer questions about a story, and show which facts were used"
            ),
            "predict": Command("heedful.cli.text_commands", "answer lines with the model of any task"),
            "serve": Command("heedful.cli.serve", "serve models over HTTP, to programs and browsers"),
        },
    ),
    CommandGroup(
        "Search",
        "heedful index indices/mine passages.txt --model runs/my-run",
        {
            "index": Command("heedful.cli.search", "build an index of passages, by words and by an encoder's vectors"),
            "search": Command(
                "heedful.cli.search", "find the passages of an index that answer questions, and measure the search"
            ),
        },
    ),
    CommandGroup(
        "Measure",
        "heedful evaluate runs/my-run --against runs/other",
        {
            "evaluate": Command(
                "heedful.cli.evaluate", "measure how good a run is: BLEU, chrF, TER, perplexity, accuracy, F1"
            ),
            "compare": Command(
                "heedful.cli.compare", "compare trained runs: scores, speed, learning; a table and plots"
            ),
            "calibrate": Command(
                "heedful.cli.translation_commands", "learn how well a translation model's scores predict its quality"
            ),
            "score": Command(
                "heedful.cli.translation_commands", "compute how probable given translations are under a trained model"
            ),
        },
    ),
    CommandGroup(
        "Look inside",
        'heedful inspect runs/my-run "a dog" -o page.html',
        {
            "inspect": Command(
                "heedful.cli.inspect", "show what a model attends to: a page with all views, figures, numbers"
            ),
            "align": Command(
                "heedful.cli.translation_commands", "align the words of translations with the words of their sources"
            ),
            "study": Command(
                "heedful.cli.bundled_commands", "run small experiments that demonstrate a claim of a paper"
            ),
        },
    ),
)
COMMANDS: Mapping[str, Command] = {name: command for group in GROUPS for name, command in group.commands.items()}
