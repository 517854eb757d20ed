"""`heedful new`: write a recipe for the user's own files."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from heedful.cli.arguments import (
    OptionalInt,
    OptionalPath,
    OptionalText,
    OutputPath,
    PositionalPaths,
    parse_arguments,
    require_minimum,
)
from heedful.cli.option_parser import OptionInfo
from heedful.cli.output import log, require_named_files, require_unused_paths, wrap_write_errors
from heedful.errors import RecipeError
from heedful.files import replace_durably
from heedful.memory_limits import count_cores

if TYPE_CHECKING:
    from heedful.data.detect.dataset_report import DatasetReport
    from heedful.data.detect.file_names import DatasetPart
    from heedful.data.detect.format import CheckResult
    from heedful.data.detect.hash_sample import SplitPlan
    from heedful.recipes.auxiliary_data import AuxiliaryText, SurveyedText
    from heedful.recipes.recipe_writer import DatasetProposal

_STDOUT: Final = Path("-")
_CORE_EXPONENT: Final = 0.8
"""Exponent of the number of cores in the speed-up of training, as in `heedful.tasks.auto_settings`."""
_PROGRAM: Final = "heedful new"


@dataclass(frozen=True)
class NewArguments:
    """Write a recipe for your own files: check them, warn about what may harm training, and split them if necessary.

    Give two files whose lines are translations of each other, or one file with texts and labels, tagged words,
    questions, or plain text. Several files may be given if their names say which part they are, such as train.tsv and
    test.tsv.

        heedful new train.en train.de
    """

    files: PositionalPaths = ()
    """text, TSV, CSV, JSONL, CoNLL-U or SQuAD's JSON, plain or compressed"""
    output: OutputPath = Path("recipe.toml")
    """file for the recipe; - is standard output"""
    data_folder: OptionalPath = None
    """folder for parts that are split off; recipe-data next to recipe.toml unless given"""
    task: OptionalText = None
    """the task, if it is not the one that the files suggest"""
    columns: Annotated[tuple[str, ...], OptionInfo(metavar="NAME")] = ()
    """columns of a table, by name or counted from 0: source and target; one text or two, and then the label; or word
    and tag"""
    documents: bool = False
    """for two files: lines that are empty in both files end documents, which are not split"""
    document_column: OptionalText = None
    """column of a table, by name or counted from 0, that names the document of each pair; documents are not split"""
    also: Annotated[tuple[Path, ...], OptionInfo(metavar="FILE")] = ()
    """further parallel texts for training, such as those from heedful backtranslate; in any format, two plain files
    with the source first; validation and test data are taken from the main text only, and pairs of their content are
    left out of these texts"""
    minutes: float = 15.0
    """training time in minutes"""
    init: OptionalPath = None
    """folder of a pre-trained model to start from, for tasks that support it"""
    processes: OptionalInt = None
    """largest number of processes that check examples, on Linux; the number of cores by default, and one for small
    texts"""
    overwrite: bool = False
    """replace an existing recipe and existing parts"""


def run_new(argv: Sequence[str]) -> int:
    """Run `heedful new`, which writes a recipe for the user's files, and return its exit code."""
    args = parse_arguments(NewArguments, argv, program=_PROGRAM)
    if not 0 < args.minutes < float("inf"):
        raise RecipeError(f"--minutes: {args.minutes:g}; must be a time above 0")
    require_minimum(args, processes=1)
    require_unused_paths(
        [] if args.output == _STDOUT else [args.output],
        sources=(),
        overwrite=args.overwrite,
        remedy="choose another place with --output",
    )
    files = args.files or _ask_for_files()
    from heedful.data.detect.registry import sniff_file
    from heedful.recipes.recipe_writer import keep_documents_whole, propose_datasets

    all_files = [*files, *args.also]
    require_named_files(all_files)
    if duplicates := [
        file for number, file in enumerate(all_files) if file.resolve() in [f.resolve() for f in all_files[:number]]
    ]:
        raise RecipeError(f"{duplicates[0]}: is named twice; name each file once")
    candidates = propose_datasets([sniff_file(file) for file in files], task=args.task, columns=args.columns)
    proposal = _choose_proposal(candidates, may_ask=not args.task and not args.columns)
    _write_recipe(args, files, keep_documents_whole(proposal, blank_lines=args.documents, column=args.document_column))
    return 0


def _ask_for_files() -> Sequence[Path]:
    """Ask a user at a terminal for files; raise `RecipeError` elsewhere."""
    missing_files_error = RecipeError(
        f"{_PROGRAM}: needs FILE; write {_PROGRAM} FILE ..., as in {_PROGRAM} train.en train.de"
    )
    if not _is_interactive():
        raise missing_files_error
    words = shlex.split(_ask_user("Which files? Names with spaces between: "))
    if not words:
        raise missing_files_error
    return [Path(word).expanduser() for word in words]


def _is_interactive() -> bool:
    """Whether the user can be asked questions."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask_user(question: str) -> str:
    """Print a question and return the answer."""
    print(question, end="", file=sys.stderr, flush=True)
    return _read_answer().strip()


def _read_answer() -> str:
    """Read a line from standard input; empty at its end."""
    return sys.stdin.readline()


def _choose_proposal(candidates: Sequence[DatasetProposal], *, may_ask: bool) -> DatasetProposal:
    """Return the first of the candidates, or the one that the user chooses if the first is uncertain and the user may
    be asked.
    """
    first, *others = candidates
    if not may_ask or first.is_certain:
        return first
    descriptions = [f"{proposal.task}: {proposal.dataset.learning_description}" for proposal in candidates]
    if not others or not _is_interactive():
        log(f"This seems to be {descriptions[0]}, which is not certain.")
        for proposal, description in zip(others, descriptions[1:], strict=True):
            log(f"It may also be {description}: --task {proposal.task}")
        log("Choose other columns with --columns NAME NAME.")
        return first
    log("What should the model learn?")
    for number, description in enumerate(descriptions, 1):
        log(f"  {number}  {description}")
    answer = _ask_user("Number (Enter for 1): ")
    if answer and not (answer.isdecimal() and 1 <= int(answer) <= len(candidates)):
        raise RecipeError(
            f"{answer!r} is not a number from 1 to {len(candidates)}; start {_PROGRAM} again, perhaps with --task"
        )
    return candidates[int(answer or 1) - 1]


def _write_recipe(args: NewArguments, files: Sequence[Path], proposal: DatasetProposal) -> None:
    """Split the data of the proposal, write the parts, and write the recipe. `files` are the user's files."""
    from heedful.cli.progress import CountingProgress
    from heedful.data.detect.dataset_report import build_report, describe_dataset
    from heedful.data.detect.hash_sample import build_default_plan, write_parts
    from heedful.recipes.auxiliary_data import (
        build_text_tables,
        derive_name,
        find_auxiliary_texts,
        find_common_languages,
    )
    from heedful.recipes.recipe_writer import RecipeDraft, format_path

    _check_init(args, proposal)
    is_stdout = args.output == _STDOUT
    folder = Path() if is_stdout else args.output.parent
    data = args.data_folder or folder / f"{'recipe' if is_stdout else args.output.stem}-data"
    split_plan = build_default_plan(proposal.dataset, data)
    auxiliary_texts = find_auxiliary_texts(args.also, proposal, data, columns=args.columns) if args.also else []
    possible_outputs = [*split_plan.paths, *(path for auxiliary in auxiliary_texts for path in auxiliary.saver.paths)]
    require_unused_paths(
        possible_outputs,
        sources=[*files, *args.also],
        overwrite=args.overwrite,
        remedy="choose another place with --data-folder",
    )
    processes = args.processes or count_cores()
    with CountingProgress(f"{proposal.dataset.noun} read") as on_progress:
        data_survey = build_report(proposal.dataset, processes=processes, on_progress=on_progress)
    surveyed_texts = _survey_auxiliary(auxiliary_texts, proposal, split_plan, data_survey, processes=processes)
    max_length = _find_max_length(proposal, [data_survey, *(auxiliary.survey for auxiliary in surveyed_texts)])
    languages = find_common_languages(proposal.dataset, surveyed_texts, proposal.task)
    language_notes = _describe_languages(proposal, languages)
    _print_findings(proposal, data_survey, surveyed_texts, max_length, language_notes=language_notes)
    tables = {
        part: proposal.dataset.to_recipe_table([format_path(path, folder) for path in paths])
        for part, paths in split_plan.get_files(proposal.dataset).items()
    }
    texts: Mapping[str, Mapping[str, Any]] = {}
    if surveyed_texts:
        texts = build_text_tables(
            tables.pop("train"), derive_name(proposal.dataset), surveyed_texts, folder, languages=languages
        )
    else:
        tables["train"] = {**tables["train"], **languages}
    written_paths = [*split_plan.paths, *(path for auxiliary in surveyed_texts for path in auxiliary.paths)]
    with wrap_write_errors(data if written_paths else args.output, "--data-folder" if written_paths else "--output"):
        for directory in {folder, *(path.parent for path in written_paths)}:
            directory.mkdir(parents=True, exist_ok=True)
        counts = write_parts(split_plan, proposal.dataset, data_survey.splitter, data_survey.example_counts)
        for auxiliary in surveyed_texts:
            auxiliary.write()
        _print_parts(
            args,
            split_plan.new_parts,
            proposal,
            counts,
            data,
            num_auxiliary=sum(auxiliary.num_pairs for auxiliary in surveyed_texts),
        )
        also = ["--also", *map(str, args.also)] if args.also else []
        draft = RecipeDraft(
            shlex.join(["heedful", "new", *map(str, files), *also]),
            proposal.task,
            [
                *describe_dataset(proposal.dataset, data_survey),
                *language_notes,
                *proposal.dataset.notes,
                *_describe_parts(args, split_plan.new_parts, proposal, counts, data),
                *(line for auxiliary in surveyed_texts for line in auxiliary.description_lines),
            ],
            tables,
            proposal.dataset.data_keys,
            max_length,
            args.minutes,
            None if args.init is None else format_path(args.init, folder),
            texts,
        )
        _save_recipe(draft.to_toml(), args.output, folder, written_paths)
    _print_next_command(args)


def _check_init(args: NewArguments, proposal: DatasetProposal) -> None:
    """Raise `RecipeError` if --init does not name a folder or the proposal's task cannot use it; nothing is checked
    without it.
    """
    from heedful.recipes.recipe_writer import supports_init

    if args.init is not None and not supports_init(proposal.task):
        raise RecipeError(f'--init: models of task = "{proposal.task}" cannot start from another model; leave it out')
    if args.init is not None and not args.init.is_dir():
        raise RecipeError(f"--init: {args.init} is not a folder; give the folder of a trained model")


def _save_recipe(text: str, output: Path, folder: Path, written_paths: Sequence[Path]) -> None:
    """Write the recipe `text` to `output` after loading it with its data, whose paths are relative to `folder`; if that
    fails, remove `written_paths`, the data that were written for it.
    """
    from heedful.recipes.recipe_writer import check_recipe

    try:
        check_recipe(text, folder)
    except BaseException:
        for path in written_paths:
            path.unlink(missing_ok=True)
        raise
    if output == _STDOUT:
        sys.stdout.write(text)
        return
    temporary_file = output.with_name(f".{output.name}.new")
    temporary_file.write_text(text, encoding="utf-8")
    replace_durably(temporary_file, output)


def _survey_auxiliary(
    auxiliary_texts: Sequence[AuxiliaryText],
    proposal: DatasetProposal,
    split_plan: SplitPlan,
    data_survey: DatasetReport,
    *,
    processes: int,
) -> Sequence[SurveyedText]:
    """Read the auxiliary texts without the held-out pairs of the main text, which are chosen by the split plan."""
    if not auxiliary_texts:
        return ()
    from heedful.data.detect.hash_sample import compute_split
    from heedful.recipes.auxiliary_data import collect_held_out

    held_out_fingerprints = collect_held_out(
        proposal.dataset, compute_split(split_plan, proposal.dataset, data_survey.splitter)
    )
    return [text.survey(held_out_fingerprints, processes=processes) for text in auxiliary_texts]


def _find_max_length(proposal: DatasetProposal, surveys: Sequence[DatasetReport]) -> int | None:
    """Return the maximum length that the examples need, if it exceeds the default of the proposal's task; otherwise
    None. `surveys` are those of all texts.
    """
    default = _get_default_length(proposal)
    if default is None:
        return None
    lengths = [
        length_needed.suggest_max_length(default, joint_texts=proposal.dataset.joint_texts) for length_needed in surveys
    ]
    return max((length_needed for length_needed in lengths if length_needed is not None), default=None)


def _get_default_length(proposal: DatasetProposal) -> int | None:
    """Return the default maximum length of the proposal's task; None if longer examples would not lose content."""
    from heedful.recipes.recipe_writer import get_default_length

    return get_default_length(proposal.task) if proposal.dataset.truncates else None


def _describe_languages(proposal: DatasetProposal, languages: Mapping[str, str]) -> Sequence[str]:
    """Return a line about the languages in the recipe, source and target, or that they are missing; empty for tasks
    other than translation.
    """
    from heedful.recipes.auxiliary_data import allows_multiple_texts

    if not allows_multiple_texts(proposal.task):
        return ()
    if languages:
        source, target = languages.values()
        return [f"languages: {source} to {target}; if that is wrong, correct it in the recipe before training"]
    return [
        "languages: not in the recipe, since the files do not show both; add source_language and target_language to "
        "the table of the training text, so that a server can say what it translates"
    ]


def _print_findings(
    proposal: DatasetProposal,
    data_survey: DatasetReport,
    surveyed_texts: Sequence[SurveyedText],
    max_length: int | None,
    *,
    language_notes: Sequence[str],
) -> None:
    """Print what was found in the main text and the auxiliary texts, and what may harm training; `max_length` is that
    of the recipe, None for the default.
    """
    from heedful.data.detect.dataset_report import describe_dataset

    log(f"task: {proposal.task}")
    for line in [
        *describe_dataset(proposal.dataset, data_survey),
        *language_notes,
        *(f"note: {note}" for note in proposal.dataset.notes),
    ]:
        log(_replace_unprintable(line))
    for line in (line for one_survey in surveyed_texts for line in one_survey.description_lines):
        log(_replace_unprintable(line))
    longest = max_length or _get_default_length(proposal)
    data_warnings: list[CheckResult] = []
    for one_survey in (data_survey, *(other.survey for other in surveyed_texts)):
        length_warning = None if longest is None else one_survey.check_length(longest, noun=proposal.dataset.noun)
        data_warnings += [*one_survey.check_results, *([length_warning] if length_warning else [])]
    log("\nWhat may harm training:" if data_warnings else "\nNothing was found that harms training.")
    for previous, warning in zip([None, *data_warnings], data_warnings, strict=False):
        _print_data_warning(warning, same_remedy=previous is not None and previous.remedy == warning.remedy)
    log("")


def _print_data_warning(warning: CheckResult, *, same_remedy: bool) -> None:
    """Print a warning about the data with examples, and the remedy unless it is the same as before."""
    log(f"- {_replace_unprintable(warning.message)}")
    for example in warning.examples:
        log(f"    {_replace_unprintable(example)}")
    if not same_remedy:
        log(f"  {_replace_unprintable(warning.remedy)}")


def _print_parts(
    args: NewArguments,
    split: Sequence[DatasetPart],
    proposal: DatasetProposal,
    counts: Mapping[DatasetPart, int],
    data: Path,
    *,
    num_auxiliary: int,
) -> None:
    """Print the sizes of the parts, and a warning if there are few training examples, those in auxiliary texts
    included. `split` are the parts that were split off, and `data` is their folder.
    """
    for line in _describe_parts(args, split, proposal, counts, data):
        log(line)
    num_training = counts.get("train", 0) + num_auxiliary
    if num_training < proposal.dataset.min_training_examples:
        log(
            f"{num_training:,} {proposal.dataset.noun} are few for training: expect a weak model, and start from a "
            "pre-trained model if the task allows it (--init)"
        )
    cores = os.cpu_count() or 1
    minutes = proposal.dataset.min_core_minutes / cores**_CORE_EXPONENT
    if args.init is None and args.minutes < minutes and num_training >= proposal.dataset.min_training_examples:
        log(
            f"--minutes {args.minutes:g} is short: on {cores} idle CPU core{'s' * (cores > 1)} a useful model takes "
            f"about {minutes:.0f} minutes or more, on a busy machine longer; heedful train says how long at the speed "
            "that it measures"
        )


def _describe_parts(
    args: NewArguments,
    split: Sequence[DatasetPart],
    proposal: DatasetProposal,
    counts: Mapping[DatasetPart, int],
    data: Path,
) -> list[str]:
    """Describe the files written with the recipe, and how the data were split. `split` are the parts that were split
    off, `data` is their folder, and `counts` are the numbers of examples.
    """
    from heedful.compression import is_compressed

    dataset = proposal.dataset
    lines = [f"written to {data}: {dataset.conversion_reason}"] if dataset.conversion_reason else []
    if split:
        compression_note = ", compressed by gzip" if is_compressed(dataset.get_first_file("train")) else ""
        sizes = ", ".join(f"{counts[part]:,} for {part}" for part in split)
        unit = "documents" if args.documents or args.document_column is not None else "texts themselves"
        lines.append(
            f"split by the {unit}, so that no text is in two parts: {sizes}, {counts['train']:,} {dataset.noun} are "
            f"left for training (in {data}{compression_note})"
        )
    return lines


def _replace_unprintable(text: str) -> str:
    """Replace unprintable characters of file content by spaces, because a terminal may interpret them."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _print_next_command(args: NewArguments) -> None:
    """Print the next command to run."""
    if args.output == _STDOUT:
        log("save it to a file, as in heedful new ... -o recipe.toml, then: heedful train recipe.toml")
        return
    recipe, run_folder = shlex.quote(str(args.output)), shlex.quote(str(Path("runs") / args.output.stem))
    print(f"written: {args.output}\nnext: heedful train {recipe}\nthen: heedful evaluate {run_folder}")
