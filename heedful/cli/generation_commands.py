"""`heedful generate` and `heedful chat`: continue prompts, and converse in the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from heedful.cli.arguments import (
    DeviceOptions,
    OptionalPage,
    PositionalPath,
    TextsOrPositionals,
    require_minimum,
)
from heedful.cli.line_commands import (
    check_number_of_outputs,
    is_interactive,
    open_lines,
    read_recipe_of_task,
    write_answers,
)
from heedful.cli.option_parser import RenamedFrom
from heedful.cli.options import ContinuationOptions
from heedful.cli.output import ResultOutput, log, open_output, require_writable, wrap_write_errors
from heedful.errors import HeedfulError, RecipeError

if TYPE_CHECKING:
    from heedful.generation.search import GreedySearch, SamplingSearch
    from heedful.tasks.conversation.data import DialogueTurn
    from heedful.tasks.conversation.predictor import ChatPredictor
    from heedful.tasks.language.predictor import TextGenerator


@dataclass(frozen=True)
class GenerateArguments:
    """Continue prompts with a language model; a single continuation appears while it is written."""

    run: PositionalPath
    """run folder"""
    prompt: TextsOrPositionals = ()
    """text to continue, one or several; without one, a new document is written; it may also follow the run"""
    input: Annotated[Path | None, RenamedFrom("--prompts-file")] = None
    """file with a prompt on each line, plain or compressed; - is standard input"""
    output: Path | None = None
    """file for the results; standard output if not given"""
    searching: ContinuationOptions = field(default_factory=ContinuationOptions)
    complete: bool = False
    """complete the last word of each prompt, unless a space follows it"""
    n_best: Annotated[int, RenamedFrom("--samples")] = 1
    """number of continuations of each prompt"""
    seed: int = 1
    """random seed of sampling"""
    format: Literal["text", "jsonl"] = "text"
    """plain text, or JSON with scores"""
    step: int | None = None
    """update of a kept checkpoint, to use it instead of the finished model"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)

    def execute(self) -> int:
        """Run the command; return the exit code."""
        require_minimum(self, n_best=1)
        if self.prompt and self.input is not None:
            raise RecipeError("--prompt and --input: give one of them")
        _check_generation(self)

        from heedful.generation.search import GreedySearch, SamplingSearch
        from heedful.tasks.language.predictor import TextGenerator
        from heedful.tasks.search_factory import build_continuation_search

        prompts = _read_prompts(self)
        language_model = self.computing.load_predictor(TextGenerator, self.run, use="writes", step=self.step)
        config = self.searching.apply_to(language_model.generation)
        search, limit = build_continuation_search(
            config, language_model.tokenizer.special, n=self.n_best, seed=self.seed
        )
        language_model.limit, language_model.stop = limit, config.stop
        is_single = self.input is None and len(self.prompt) <= 1 and self.n_best == 1
        checked_prompts = _warn_long_prompts(language_model, prompts)
        if is_single and self.format == "text" and isinstance(search, GreedySearch | SamplingSearch):
            _stream_continuation(language_model, next(checked_prompts), search=search, args=self)
            return 0
        # a user who types waits for an answer to each line
        is_interactive_input = self.input is not None and is_interactive(self.input)
        line_format = replace(language_model.line_format(), search=search, complete=self.complete)
        return write_answers(
            line_format,
            checked_prompts,
            output=self.output,
            as_json=self.format == "jsonl",
            chunk=1 if is_interactive_input else None,
        )


def _check_generation(args: GenerateArguments) -> None:
    """Raise an error, before the model is loaded, if greedy search is to find several continuations or the output
    cannot be written.
    """
    recipe = read_recipe_of_task(args.run, ("language_modelling",))
    if recipe is not None:
        config = args.searching.apply_to(recipe.generation)  # type: ignore[attr-defined]  # of this task
        check_number_of_outputs(config, args.n_best, noun="continuation", alternative="sampling")
    if args.output is not None:
        require_writable(args.output, "--output")


def _read_prompts(args: GenerateArguments) -> Iterator[str]:
    """Return the prompts; a file is opened at once."""
    if args.input is None:
        return iter(args.prompt or ("",))
    return open_lines(args.input)


def _warn_long_prompts(language_model: TextGenerator, prompts: Iterator[str]) -> Iterator[str]:
    """Yield the prompts; warn about those that are too long for the language model, whose beginning is not read."""
    for number, prompt in enumerate(prompts, 1):
        if num_lost := language_model.count_dropped_tokens(prompt):
            log(
                f"heedful generate: prompt {number} is too long for the model's {language_model.max_context:,} "
                f"positions; its first {num_lost:,} tokens are not read"
            )
        yield prompt


def _stream_continuation(
    language_model: TextGenerator, prompt: str, *, search: GreedySearch | SamplingSearch, args: GenerateArguments
) -> None:
    """Write a prompt, and its continuation by the language model while it is generated."""
    with open_output(args.output) as out:
        out.write(prompt)
        for chunk in language_model.stream(prompt, search=search, complete=args.complete):
            out.write(chunk)
            out.flush()
        out.write("\n")
        out.flush()


_CHAT_HELP: Final = (
    "/reset clears the dialogue, /save FILE appends the dialogue to a file as a line of JSON, /quit ends; a turn that "
    "begins with // is read with one slash"
)


@dataclass(frozen=True)
class ChatArguments:
    """Talk to a conversation model; replies appear while they are written.

    A line is a turn. Lines that begin with a slash are commands: /reset clears the dialogue, /save FILE appends the
    dialogue to a file as a line of JSON, /quit ends the conversation, and so does the end of the input.
    """

    run: PositionalPath
    """run folder"""
    searching: ContinuationOptions = field(default_factory=ContinuationOptions)
    seed: int = 1
    """random seed of sampling"""
    page: OptionalPage = None
    """file for a page with the dialogue and the attention of each reply, written at the end"""
    step: int | None = None
    """update of a kept checkpoint, to use it instead of the finished model"""
    computing: DeviceOptions = field(default_factory=DeviceOptions)

    def execute(self) -> int:
        """Run the command; return the exit code."""
        if self.page is not None:
            require_writable(self.page, "--page")

        from heedful.generation.search import GreedySearch, SamplingSearch
        from heedful.tasks.conversation.predictor import ChatPredictor
        from heedful.tasks.search_factory import build_continuation_search

        chat_model = self.computing.load_predictor(ChatPredictor, self.run, use="talks", step=self.step)
        config = self.searching.apply_to(chat_model.generation)
        search, chat_model.limit = build_continuation_search(config, chat_model.encoder.special_ids, seed=self.seed)
        chat_model.stop = config.stop
        assert isinstance(search, GreedySearch | SamplingSearch), "continuations are not searched with a beam"
        with open_output(None) as out:
            chat = ChatSession(chat_model, search, out, is_interactive=sys.stdin.isatty())
            chat.run()
        if self.page is not None:
            from heedful.inspection.page import write_page
            from heedful.tasks.conversation.predictor import render_transcript

            write_page(render_transcript(chat_model, chat.turns, title=f"A conversation with {self.run}"), self.page)
            log(f"wrote {self.page}")
        return 0


class ChatSession:
    """A conversation: its turns, and the loop that continues it.

    Args:
        model: the model that replies.
        search: how replies are generated.
        out: stream for the replies.
        is_interactive: whether a user types at a terminal and is prompted.
    """

    def __init__(
        self, model: ChatPredictor, search: GreedySearch | SamplingSearch, out: ResultOutput, *, is_interactive: bool
    ) -> None:
        self.model = model
        self.turns: list[DialogueTurn] = []
        self._search = search
        self._out = out
        self._is_interactive = is_interactive
        self._user_name = model.other_speaker
        self._num_user_turns = 0

    def run(self) -> None:
        """Read and answer lines until /quit, the end of the input, or an interruption."""
        if self._is_interactive:
            log(_CHAT_HELP)
        with suppress(KeyboardInterrupt):
            for line in self._iter_lines():
                command, _, rest = line.strip().partition(" ")
                if command == "/quit":
                    return
                if command.startswith("/") and not command.startswith("//"):
                    self._run_command(command, rest.strip())
                elif line.strip():
                    self._reply(line.strip().removeprefix("/") if command.startswith("//") else line.strip())

    def _iter_lines(self) -> Iterator[str]:
        """Yield the lines of the user, typed at a prompt or read from standard input, until they end."""
        from heedful.data.readers import read_lines

        if not self._is_interactive:
            yield from read_lines(sys.stdin.buffer)
            return
        while True:
            try:
                yield input(f"{self._user_name}: ")
            except EOFError:
                self._write("\n")
                return

    def _run_command(self, word: str, rest: str) -> None:
        """Run the command `word`, which begins with a slash, with the `rest` of the line; show the help if it is
        unknown.
        """
        if word == "/reset":
            self.turns.clear()
        elif word == "/save" and rest:
            try:
                self._save(Path(rest))
            except HeedfulError as error:
                log(str(error))
        else:
            log(f"{word}: {_CHAT_HELP}")

    def _save(self, path: Path) -> None:
        """Append the dialogue to a file as a line of JSON."""
        turns = [turn._asdict() for turn in self.turns]
        with wrap_write_errors(path, "file"), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"turns": turns}, ensure_ascii=False) + "\n")
        log(f"{path}: {len(turns)} turns added")

    def _reply(self, text: str) -> None:
        """Add the user's turn `text` and stream the reply; a reply that is interrupted is kept as far as it was
        written.
        """
        from heedful.tasks.conversation.data import DialogueTurn

        self.turns.append(DialogueTurn(self._user_name, text))
        self._num_user_turns += 1
        if self._is_interactive:
            self._write(f"{self.model.speaker}: ")
        reply = ""
        try:
            for chunk in self.model.stream(self.turns, search=self._search, number=self._num_user_turns):
                reply += chunk
                self._write(chunk)
        except KeyboardInterrupt:
            log("")
        self._write("\n")
        if reply.strip():
            self.turns.append(DialogueTurn(self.model.speaker, reply.strip()))

    def _write(self, text: str) -> None:
        """Write text at once."""
        self._out.write(text)
        self._out.flush()
