"""`heedful generate`: continue a prompt with a language model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from heedful.cli.arguments import (
    DeviceOptions,
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
from heedful.cli.output import log, open_output, require_writable
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.generation.search import GreedySearch, SamplingSearch
    from heedful.tasks.language.predictor import TextGenerator


@dataclass(frozen=True)
class GenerateArguments:
    """Continue prompts with a language model; a single continuation appears while it is written."""

    run: PositionalPath
    """run folder"""
    prompt: TextsOrPositionals = ()
    """text to continue, one or several; without one, a new document is written; it may also follow the run"""
    input: Annotated[Path | None, RenamedFrom("--prompts-file")] = None
    """file with a prompt on each line, plain or gzipped; - is standard input"""
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
        _check_early(self)

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


def _check_early(args: GenerateArguments) -> None:
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
