"""`heedful evaluate`: how good a run is, with all settings needed to reproduce the numbers."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from heedful.cli.arguments import OptionalPage, PositionalPath
from heedful.cli.line_commands import STANDARD_INPUT
from heedful.cli.option_parser import RenamedFrom
from heedful.cli.options import EvaluationOptions
from heedful.cli.output import log, require_writable, wrap_write_errors
from heedful.errors import RecipeError, RunError
from heedful.files import check_path_name

if TYPE_CHECKING:
    from heedful.tasks.evaluation import Evaluator, EvaluatorOptions
    from heedful.tasks.report import EvaluationReport
    from heedful.tasks.task import Run, Task
    from heedful.tasks.word_baselines import WordBaseline


@dataclass(frozen=True, kw_only=True)
class EvaluateArguments(EvaluationOptions):
    """Evaluate a run, and test whether it differs significantly from another one.

    Without text options the run's own test set is used, or its validation set. Translation runs, and files of
    translations with one per line, are measured by BLEU, chrF and TER with signatures, perplexity, and BLEU by source
    length; language models by perplexity per token, word and character; models that predict labels by the metrics of
    the task, compared with always answering the most frequent label; pre-trained models by the metrics of training.
    """

    system: PositionalPath
    """run folder, or file of translations; - is standard input"""
    against: Path | None = None
    """a second system of the same task, evaluated on the same data and compared by paired bootstrap"""
    context: int | None = None
    """for language models: number of tokens read at a time; data.length if not given"""
    stride: int | None = None
    """for language models: how many of these tokens are scored; the others are only read; all if not given"""
    output: Annotated[Path | None, RenamedFrom("--save")] = None
    """file for the translations themselves, one per line"""
    format: Literal["text", "json"] = "text"
    """a table, or JSON"""
    page: OptionalPage = None
    """for translations: file for a page (HTML) of the worst and the most misjudged ones, with attention and the most
    similar training text"""
    task: str | None = None
    """for runs with several tasks: evaluate only this one"""
    baseline: Literal["words", "none"] = "words"
    """for classification and language modelling: also measure a model that only counts words"""

    def execute(self) -> int:
        """Run the command; return the exit code."""
        for path in (self.system, self.against):
            if path is not None:
                check_path_name(path)
            if path is not None and not path.exists() and path != STANDARD_INPUT:
                raise RecipeError(f"{path}: no such run folder or file; check the path")

        from heedful.runs.load import open_run

        self.computing.set_num_threads()
        opened_run = open_run(self.system) if self.system.is_dir() else None
        if opened_run is None and self.computing.adapter is not None:
            raise RecipeError(f"--adapter: is for a model, but {self.system} is a file; leave it out")
        if opened_run is None or opened_run.task.report_class is not None:
            _report_systems(self, opened_run)
        else:
            _print_metrics(self, opened_run)
        sys.stdout.flush()
        return 0


def _report_systems(args: EvaluateArguments, opened_run: Run[Any, Any] | None) -> None:
    """Evaluate one system or two, and print the reports. `opened_run` is the first system; None if that is a file of
    translations.
    """
    from heedful.runs.evaluate import build_run_evaluator, get_default_task

    request, task = _build_request(args), get_default_task() if opened_run is None else opened_run.task
    if opened_run is None and request.text is None:
        raise RecipeError(f"{args.system}: a file of translations needs --source and --target, or --data")
    if opened_run is None and request.contrasts is not None:
        raise RecipeError(
            f"--contrasts: {args.system} is a file and gives no probabilities; give a run, or leave it out"
        )
    evaluator = (
        task.build_evaluator(None, request)
        if opened_run is None
        else build_run_evaluator(args.system, opened_run.recipe, request)
    )
    if args.output is not None:
        if not evaluator.has_answer_files:
            raise RecipeError(f"--output: the answers of {args.system} are not written to files; leave it out")
        require_writable(args.output, "--output")
    if args.page is not None:
        require_writable(args.page, "--page")
    for line in (*(f"measuring on {location}" for location in evaluator.recipe_keys), *evaluator.data_warnings):
        log(line)
    first_report = _build_report(args.system, opened_run, evaluator, args=args, task=task)
    if args.output is not None:
        with wrap_write_errors(args.output, "--output"):
            args.output.write_text(
                "".join(f"{line}\n" for line in evaluator.format_answers(first_report.answers)), encoding="utf-8"
            )
    if args.page is not None:
        from heedful.cli.progress import CountingProgress

        with CountingProgress("reading text for training") as on_progress:
            page = first_report.to_html(on_progress)
        with wrap_write_errors(args.page, "--page"):
            args.page.write_text(page, encoding="utf-8")
        log(f"written: {args.page}")
    baseline = _measure_baseline(args, opened_run, evaluator)
    other_reports = [] if args.against is None else [_report_second(args.against, first_report, args=args, task=task)]
    if args.format == "json":
        content = {"system": str(args.system), **first_report.to_json()}
        if baseline is not None:
            content["word_baseline"] = asdict(baseline)
        for other_report in other_reports:
            tests = [asdict(test) for test in other_report.tests.values()]
            content["against"] = {"system": other_report.system.name, "comparisons": tests}
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        print(
            "\n\n".join(
                (
                    first_report.format_text(),
                    *([] if baseline is None else [str(baseline)]),
                    *(other_report.format_tests() for other_report in other_reports),
                )
            )
        )


def _measure_baseline(
    args: EvaluateArguments, opened_run: Run[Any, Any] | None, evaluator: Evaluator
) -> WordBaseline | None:
    """Measure the baseline of word counts on the part that the evaluator measures; None if it is not wanted, for a file
    of translations, for a text of the user's own, and for tasks that have none.
    """
    if opened_run is None or not evaluator.part or args.baseline == "none":
        return None
    from heedful.runs.evaluate import measure_word_baseline

    return measure_word_baseline(opened_run, evaluator.part, log=log)


def _report_second(
    path: Path, first_report: EvaluationReport, *, args: EvaluateArguments, task: Task[Any, Any]
) -> EvaluationReport:
    """Evaluate the second system on the same data as the first and return its report."""
    from heedful.runs.load import open_run
    from heedful.tasks.task import get_task

    other_run = open_run(path) if path.is_dir() else None
    if other_run is not None and get_task(other_run.recipe) is not task:
        raise RunError(
            f"{path}: its task is {other_run.recipe.task}, not that of {first_report.system.name}; give another run"
        )
    return _build_report(path, other_run, first_report.evaluator, args=args, task=task, against=first_report)


def _build_report(
    path: Path,
    opened_run: Run[Any, Any] | None,
    evaluator: Evaluator,
    *,
    args: EvaluateArguments,
    task: Task[Any, Any],
    against: EvaluationReport | None = None,
) -> EvaluationReport:
    """Evaluate the system at `path` and build its report, with tests `against` the report of a first system if given.
    `opened_run` is the run there; None if it is a file of translations.
    """
    from heedful.runs.evaluate import compute_answers, describe_system
    from heedful.tasks.report import EvaluatedSystem

    assert task.report_class is not None
    system_info = EvaluatedSystem(str(path)) if opened_run is None else describe_system(opened_run)
    load_kwargs = {**args.computing.load_kwargs, "adapter": args.computing.adapter if against is None else None}
    answers = (
        evaluator.read_answers(path) if opened_run is None else compute_answers(opened_run, evaluator, **load_kwargs)
    )
    return task.report_class(evaluator, system_info, answers, args.build_sampling(), against)


def _print_metrics(args: EvaluateArguments, opened_run: Run[Any, Any]) -> None:
    """Print the metrics of a run whose task has no evaluator, on its own test or validation set; `RecipeError` for
    options that need an evaluator.
    """
    from heedful.runs.evaluate import evaluate_run

    if _build_request(args).changed_options or args.against is not None or args.output is not None:
        raise RecipeError(
            f"{args.system}: its task is {opened_run.recipe.task}; runs of this task are only measured on their own "
            "test or validation set"
        )
    part, metrics = evaluate_run(opened_run, **args.computing.load_kwargs)
    if args.format == "json":
        print(json.dumps({"system": str(args.system), "part": part, **metrics}, indent=2))
        return
    print(f"{args.system}: {part}")
    for name, value in sorted(metrics.items()):
        print(f"{name:<10}  {value:9.4f}")


def _build_request(args: EvaluateArguments) -> EvaluatorOptions:
    """Build the evaluation request from the options."""
    return args.build_request(context=args.context, stride=args.stride, task=args.task, paged=args.page is not None)
