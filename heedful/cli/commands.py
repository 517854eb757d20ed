"""Table of all commands; a command's module is imported only when it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True)
class Command:
    """A subcommand of `heedful`.

    Attributes:
        module: name of its module, which has `run(arguments) -> exit code`.
        summary: its line in the help.
    """

    module: str
    summary: str

    def run(self, argv: Sequence[str]) -> int:
        """Run the command and return its exit code; errors are reported by `main`."""
        run_command: Callable[[Sequence[str]], int] = import_module(self.module).run
        return run_command(argv)


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
            "quickstart": Command("heedful.cli.quickstart", "watch a small model learn a task from made-up data"),
            "new": Command(
                "heedful.cli.new", "write a recipe for files of your own: look at them, check and split them"
            ),
            "filter": Command("heedful.cli.filter", "take out of parallel text what spoils training, and say why"),
            "annotate": Command(
                "heedful.cli.annotate", "write terms of a glossary into sources, so that a model learns to use them"
            ),
            "split": Command("heedful.cli.split", "take parts for validation and test out of data, by their texts"),
            "recipes": Command(
                "heedful.cli.recipes", "the recipes that come with heedful, and copies of them to begin with"
            ),
            "recipe": Command("heedful.cli.recipe", "what a key of a recipe means: its type, default and range"),
            "completion": Command(
                "heedful.cli.completion", "what lets bash, zsh or fish complete commands, options and keys"
            ),
        },
    ),
    CommandGroup(
        "Train",
        "heedful train my-recipe.toml --training.steps 2000",
        {
            "train": Command("heedful.cli.train", "train a model as a recipe says, or go on with a run"),
            "curve": Command("heedful.cli.curve", "draw how training and validation loss went, or go, by updates"),
            "describe": Command("heedful.cli.describe", "layers, parameters, FLOPs and memory of a recipe's model"),
            "quantize": Command(
                "heedful.cli.quantize", "write a trained run with weights in 8 bits, a quarter as large"
            ),
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
                "heedful.cli.backtranslate", "make parallel text of text in one language, to train on"
            ),
            "identify": Command("heedful.cli.identify", "tell which of a translation model's languages texts are in"),
            "generate": Command("heedful.cli.generate", "continue a prompt with a trained language model"),
            "chat": Command("heedful.cli.chat", "talk to a model of conversation in the terminal"),
            "fill": Command("heedful.cli.fill", "fill the gaps of texts with a pre-trained encoder"),
            "detect": Command("heedful.cli.detect", "find replaced tokens with a pre-trained detector"),
            "embed": Command("heedful.cli.embed", "make vectors of texts with an encoder"),
            "tag": Command("heedful.cli.tag", "tag the words of sentences with a trained tagger"),
            "classify": Command("heedful.cli.classify", "a class or a number for each text, with a trained classifier"),
            "answer": Command("heedful.cli.answer", "answer questions by parts of texts, with a trained model"),
            "look": Command("heedful.cli.look", "tell the classes of pictures, glimpse by glimpse"),
            "caption": Command("heedful.cli.caption", "say what pictures or clips show, with a trained captioner"),
            "transcribe": Command(
                "heedful.cli.transcribe", "write what is said in files of sound, with a trained model"
            ),
            "ask": Command("heedful.cli.ask", "answer questions about a story, and tell what was looked at"),
            "predict": Command("heedful.cli.predict", "what the model of any task says of lines"),
            "serve": Command("heedful.cli.serve", "answer over HTTP, to programs and in browsers"),
        },
    ),
    CommandGroup(
        "Search",
        "heedful index indices/mine passages.txt --model runs/my-run",
        {
            "index": Command("heedful.cli.index", "make an index of passages, by their words and by an encoder"),
            "search": Command(
                "heedful.cli.search", "find the passages of an index that answer questions, and measure that"
            ),
        },
    ),
    CommandGroup(
        "Measure",
        "heedful evaluate runs/my-run --against runs/other",
        {
            "evaluate": Command("heedful.cli.evaluate", "how good a run is: BLEU, chrF, TER, perplexity, accuracy, F1"),
            "compare": Command(
                "heedful.cli.compare", "trained runs side by side: scores, speed, learning; a table and plots"
            ),
            "calibrate": Command(
                "heedful.cli.calibrate", "learn how far a translation model's own scores say how good it is"
            ),
            "score": Command("heedful.cli.score", "how probable given translations are to a trained model"),
        },
    ),
    CommandGroup(
        "Look inside",
        'heedful inspect runs/my-run "a dog" -o page.html',
        {
            "inspect": Command(
                "heedful.cli.inspect", "what a model attends to: a page with all views, figures, numbers"
            ),
            "align": Command("heedful.cli.align", "which words of translations belong to which words of their sources"),
            "study": Command("heedful.cli.study", "small experiments that make a claim of a paper visible"),
        },
    ),
)
COMMANDS: Mapping[str, Command] = {name: command for group in GROUPS for name, command in group.commands.items()}
