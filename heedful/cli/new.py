"""`heedful new`: a recipe for files of one's own."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import tyro

from heedful.cli.arguments import MaybePath, MaybeText, PositionalPaths, parse
from heedful.cli.output import say, writing
from heedful.errors import RecipeError

if TYPE_CHECKING:
    from heedful.data.forms.faults import Remark
    from heedful.data.forms.naming import Part
    from heedful.data.forms.split import Plan
    from heedful.data.forms.survey import Survey
    from heedful.recipes.beside import Beside, Looked
    from heedful.recipes.proposals import Proposal

_PRINTED: Final = Path("-")
_PROGRAM: Final = "heedful new"


@dataclass(frozen=True)
class Arguments:
    """Write a recipe for files of your own: look at them, say what may spoil training, split them if they are whole.

    Two files whose lines translate each other, or one with texts and labels, tagged words, questions, or bare text;
    several where names tell the parts apart, such as train.tsv and test.tsv: heedful new train.en train.de
    """

    files: Annotated[PositionalPaths, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = ()
    """text, TSV, CSV, JSONL, CoNLL-U or SQuAD's JSON, plain or gzipped"""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="PATH")] = Path("recipe.toml")
    """of the recipe; - is standard output"""
    data_folder: Annotated[MaybePath, tyro.conf.arg(metavar="PATH", help_behavior_hint="")] = None
    """for parts that are split off; recipe-data beside recipe.toml unless given"""
    task: MaybeText = None
    """what is to be learned, where it is not what the files look like"""
    columns: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = ()
    """of a table, by name or counted from 0: source and target, one text or two and then the label, or word and tag"""
    documents: bool = False
    """of two files: lines that are empty in both end documents, and these stay whole"""
    document_column: MaybeText = None
    """of a table, by name or counted from 0: says of which document a pair is, and documents stay whole"""
    also: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = ()
    """more parallel text to learn from, such as heedful backtranslate makes, in any form, of two plain files the source
    first; validation and test are held out of the main text alone, and what they hold is left out of these"""
    minutes: float = 15.0
    """time that training takes"""
    init: MaybePath = None
    """folder of a pre-trained model to begin with, in tasks that can"""
    overwrite: bool = False
    """replace a recipe and parts that are there already"""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program=_PROGRAM)
    if not 0 < given.minutes < float("inf"):
        raise RecipeError(f"--minutes: {given.minutes:g}; must be a time above 0")
    _require_free([] if given.output == _PRINTED else [given.output], overwrite=given.overwrite, option="--output")
    files = given.files or _asked_files()
    from heedful.data.forms.glance import glance
    from heedful.recipes.proposals import proposals
    from heedful.recipes.whole import by_documents

    named = [*files, *given.also]
    if any(str(file) == "-" for file in named):
        raise RecipeError("-: files are read more than once, and standard input cannot be; save it to a file first")
    if twice := [file for number, file in enumerate(named) if file.resolve() in [f.resolve() for f in named[:number]]]:
        raise RecipeError(f"{twice[0]}: is named twice; name each file once")
    found = proposals([glance(file) for file in files], task=given.task, columns=given.columns)
    chosen = _decided(found, asked=not given.task and not given.columns)
    _write(given, files, by_documents(chosen, ended=given.documents, column=given.document_column))
    return 0


def _asked_files() -> Sequence[Path]:
    """What somebody types at a terminal; elsewhere files must be named."""
    needed = RecipeError(f"{_PROGRAM}: needs FILE; write {_PROGRAM} FILE ..., as in {_PROGRAM} train.en train.de")
    if not _is_conversing():
        raise needed
    words = shlex.split(_ask("Which files? Names with spaces between: "))
    if not words:
        raise needed
    return [Path(word).expanduser() for word in words]


def _is_conversing() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask(question: str) -> str:
    print(question, end="", file=sys.stderr, flush=True)
    return _typed().strip()


def _typed() -> str:
    """A line that somebody types; nothing where the input ends."""
    return sys.stdin.readline()


def _decided(found: Sequence[Proposal], *, asked: bool) -> Proposal:
    """The first, or that which somebody chooses where it is not certain."""
    first, *others = found
    if not asked or first.certain:
        return first
    ways = [f"{each.task}: {each.found.taken}" for each in found]
    if not others or not _is_conversing():
        say(f"This is taken for {ways[0]}, which is not certain.")
        for each, way in zip(others, ways[1:], strict=True):
            say(f"It may also be for {way}: --task {each.task}")
        say("Other columns are named as in --columns NAME NAME.")
        return first
    say("What shall be learned?")
    for number, way in enumerate(ways, 1):
        say(f"  {number}  {way}")
    answer = _ask("Number, or nothing for 1: ")
    if answer and not (answer.isdecimal() and 1 <= int(answer) <= len(found)):
        raise RecipeError(f"{answer!r} is no number from 1 to {len(found)}; call {_PROGRAM} again, perhaps with --task")
    return found[int(answer or 1) - 1]


def _write(given: Arguments, files: Sequence[Path], chosen: Proposal) -> None:
    from heedful.data.forms.split import carry_out, plan
    from heedful.data.forms.survey import described, survey
    from heedful.recipes.beside import common_languages, in_tables, name_of, texts_beside
    from heedful.recipes.draft import Draft, told

    _require_origin(given, chosen)
    printed = given.output == _PRINTED
    folder = Path() if printed else given.output.parent
    data = given.data_folder or folder / f"{'recipe' if printed else given.output.stem}-data"
    todo = plan(chosen.found, data)
    others = texts_beside(given.also, chosen, data, columns=given.columns) if given.also else []
    possible = [*todo.paths, *(path for each in others for path in each.saver.paths)]
    _require_free(possible, overwrite=given.overwrite, option="--data-folder", sources=[*files, *given.also])
    seen = survey(chosen.found)
    beside = _looked(others, chosen, todo, seen)
    longer = _longer(chosen, [seen, *(each.seen for each in beside)])
    languages = common_languages(chosen.found, beside, chosen.task)
    spoken = _languages_told(chosen, languages)
    _tell(chosen, seen, beside, longer, spoken=spoken)
    tables = {
        part: chosen.found.table([told(path, folder) for path in paths])
        for part, paths in todo.files(chosen.found).items()
    }
    texts: Mapping[str, Mapping[str, Any]] = {}
    if beside:
        texts = in_tables(tables.pop("train"), name_of(chosen.found), beside, folder, languages=languages)
    else:
        tables["train"] = {**tables["train"], **languages}
    written = [*todo.paths, *(path for each in beside for path in each.paths)]
    with writing(data if written else given.output, "--data-folder" if written else "--output"):
        for place in {folder, *(path.parent for path in written)}:
            place.mkdir(parents=True, exist_ok=True)
        counts = carry_out(todo, chosen.found, seen.splitter, seen.counts)
        for each in beside:
            each.carry_out()
        _tell_parts(given, todo.split, chosen, counts, data, more=sum(each.size for each in beside))
        also = ["--also", *map(str, given.also)] if given.also else []
        draft = Draft(
            shlex.join(["heedful", "new", *map(str, files), *also]),
            chosen.task,
            [
                *described(chosen.found, seen),
                *spoken,
                *chosen.found.notes,
                *_parts_told(given, todo.split, chosen, counts, data),
                *(line for each in beside for line in each.described),
            ],
            tables,
            chosen.found.keys,
            longer,
            given.minutes,
            None if given.init is None else told(given.init, folder),
            texts,
        )
        _save(draft.text(), given.output, folder, written)
    _tell_next(given)


def _require_origin(given: Arguments, chosen: Proposal) -> None:
    """`RecipeError` where --init names nothing that can be begun with."""
    from heedful.recipes.draft import can_begin_with_another

    if given.init is not None and not can_begin_with_another(chosen.task):
        raise RecipeError(f'--init: models of task = "{chosen.task}" begin with no other one; leave it away')
    if given.init is not None and not given.init.is_dir():
        raise RecipeError(f"--init: {given.init} is no folder; give that of a trained model")


def _save(text: str, output: Path, folder: Path, written: Sequence[Path]) -> None:
    """The recipe, once it is read with its data; where that fails nothing stays of what was written for it."""
    from heedful.recipes.draft import checked

    try:
        checked(text, folder)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise
    if output == _PRINTED:
        sys.stdout.write(text)
        return
    beside = output.with_name(f".{output.name}.new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(output)


def _looked(others: Sequence[Beside], chosen: Proposal, todo: Plan, seen: Survey) -> Sequence[Looked]:
    """The texts beside the main one, read, without what is held out of that."""
    if not others:
        return ()
    from heedful.data.forms.split import division
    from heedful.recipes.beside import held_out

    held = held_out(chosen.found, division(todo, chosen.found, seen.splitter))
    return [each.look(held) for each in others]


def _longer(chosen: Proposal, seen: Sequence[Survey]) -> int | None:
    """How many tokens must be read of an example, where that is more than the usual number."""
    usual = _usual_length(chosen)
    if usual is None:
        return None
    needed = [each.max_length(usual, together=chosen.found.together) for each in seen]
    return max((each for each in needed if each is not None), default=None)


def _usual_length(chosen: Proposal) -> int | None:
    """How many tokens are read of an example, where longer ones lose something."""
    from heedful.recipes.draft import usual_length

    return usual_length(chosen.task) if chosen.found.bounded else None


def _languages_told(chosen: Proposal, languages: Mapping[str, str]) -> Sequence[str]:
    """From what into what is translated, as the recipe says it, or that it does not; nothing of other tasks."""
    from heedful.recipes.beside import takes_several

    if not takes_several(chosen.task):
        return ()
    if languages:
        source, target = languages.values()
        return [f"languages: {source} to {target}; if that is wrong, correct it in the recipe before training"]
    return [
        "languages: not in the recipe, since the files do not show both; add source_language and target_language to "
        "the table of the training text, so that a server can say what it translates"
    ]


def _tell(
    chosen: Proposal, seen: Survey, beside: Sequence[Looked], longer: int | None, *, spoken: Sequence[str]
) -> None:
    """What was seen, and what may spoil training."""
    from heedful.data.forms.survey import described

    say(f"task: {chosen.task}")
    for line in [*described(chosen.found, seen), *spoken, *(f"note: {note}" for note in chosen.found.notes)]:
        say(_plain(line))
    for line in (line for each in beside for line in each.described):
        say(_plain(line))
    longest = longer or _usual_length(chosen)
    remarks: list[Remark] = []
    for each in (seen, *(other.seen for other in beside)):
        long = None if longest is None else each.too_long(longest, noun=chosen.found.noun)
        remarks += [*each.faults, *([long] if long else [])]
    say("\nWhat may spoil training:" if remarks else "\nNothing was found that spoils training.")
    for before, remark in zip([None, *remarks], remarks, strict=False):
        _tell_remark(remark, again=before is not None and before.remedy == remark.remedy)
    say("")


def _tell_remark(remark: Remark, *, again: bool) -> None:
    """A fault, and what to do about it unless that was said just now."""
    say(f"- {_plain(remark.sentence)}")
    for example in remark.shown:
        say(f"    {_plain(example)}")
    if not again:
        say(f"  {_plain(remark.remedy)}")


def _tell_parts(
    given: Arguments, split: Sequence[Part], chosen: Proposal, counts: Mapping[Part, int], data: Path, *, more: int
) -> None:
    for line in _parts_told(given, split, chosen, counts, data):
        say(line)
    train = counts.get("train", 0) + more
    if train < chosen.found.few:
        say(
            f"{train:,} {chosen.found.noun} are few to learn from: expect little, and begin with a pre-trained model "
            "where that can be (--init)"
        )


def _parts_told(
    given: Arguments, split: Sequence[Part], chosen: Proposal, counts: Mapping[Part, int], data: Path
) -> list[str]:
    """What was written beside the recipe, and how texts were chosen."""
    from heedful.data.forms.glance import is_zipped

    found = chosen.found
    told = [f"written to {data}: {found.converted}"] if found.converted else []
    if split:
        zipped = ", gzipped as before" if is_zipped(found.first("train")) else ""
        sizes = ", ".join(f"{counts[part]:,} for {part}" for part in split)
        what = "documents" if given.documents or given.document_column is not None else "texts themselves"
        told.append(
            f"split by the {what}, so that none is in two parts: {sizes}, {counts['train']:,} {found.noun} "
            f"for training stay (in {data}{zipped})"
        )
    return told


def _plain(text: str) -> str:
    """Text of files, which may hold what terminals obey."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _require_free(paths: Sequence[Path], *, overwrite: bool, option: str, sources: Sequence[Path] = ()) -> None:
    """`RecipeError` where a file is there already, or is one of those that are read."""
    for path in paths:
        if any(source.resolve() == path.resolve() for source in sources):
            raise RecipeError(f"{path}: would be written over while it is read; choose another place with {option}")
        if path.exists() and not overwrite:
            raise RecipeError(f"{path}: is there already; choose another place with {option}, or add --overwrite")


def _tell_next(given: Arguments) -> None:
    """What to call now."""
    if given.output == _PRINTED:
        say("save it to a file, as in heedful new ... -o recipe.toml, then: heedful train recipe.toml")
        return
    recipe, run_folder = shlex.quote(str(given.output)), shlex.quote(str(Path("runs") / given.output.stem))
    print(f"written: {given.output}\nnext: heedful train {recipe}\nthen: heedful evaluate {run_folder}")
