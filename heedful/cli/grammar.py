"""The options of a command as its dataclass has them, and the words of a command line read by them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

import tyro

from heedful.cli.file_names import is_there, leading_paths, looks_like_file, require_text
from heedful.cli.other_names import OTHER_NAMES
from heedful.cli.typed import Chosen, Number, Place, Text, Value, Whole
from heedful.errors import RecipeError
from heedful.words import near

_PLAIN: Final[Mapping[Any, Value]] = {str: Text(), Path: Place(), int: Whole(), float: Number()}
_SETS: Final = re.compile(r"[a-z]\w*([.-]\w+)*=")
"""What sets something for other programs, such as key=value."""


class Behind:
    """Marks options whose values may also stand, without the option, behind the positional arguments."""


@dataclass(frozen=True)
class Formerly:
    """Marks options that were called otherwise until the last version, `--name`."""

    name: str


@dataclass(frozen=True)
class Ending:
    """Marks paths of files that are written, with how their names may end, and what to do about another ending."""

    endings: tuple[str, ...]
    remedy: str = ""


@dataclass(frozen=True)
class Option:
    """A field of a command's dataclass, or of one inside it.

    Attributes:
        key: name of the field.
        names: every way to write it, the first one in messages; none of a positional argument.
        value: what its words are; None where it stands alone.
        least: how many words it must have.
        most: how many words it may have; None for any number.
        required: whether it must be given.
        behind: whether its words may stand behind the positional arguments.
        formerly: its name until the last version.
    """

    key: str
    names: tuple[str, ...]
    value: Value | None
    least: int
    most: int | None
    required: bool
    behind: bool = False
    formerly: str | None = None

    @property
    def shown(self) -> str:
        """What messages call it."""
        return self.names[0] if self.names else self.key.upper()

    def read(self, words: Sequence[str]) -> Any:
        """Its value, of as many words as it may have; `RecipeError` where they are none."""
        if self.value is None:
            return not words  # of a flag; `--no-flag` comes as one word
        try:
            found = tuple(map(self.value.read, words))
        except ValueError as error:
            raise RecipeError(f"{self.shown}: {error}") from None
        return found[0] if self.most == 1 else found


@dataclass
class Given:
    """What the words of a command line say: those of each option by its key, and those of no option."""

    options: dict[str, Sequence[str]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    renamed: list[Option] = field(default_factory=list)


@dataclass(frozen=True)
class Grammar:
    """All options of a command."""

    options: Sequence[Option]

    @property
    def positional(self) -> list[Option]:
        """Those that have no name, in their order."""
        return [option for option in self.options if not option.names]

    @property
    def spellings(self) -> Mapping[str, Option]:
        """Every name that may be written today."""
        return {name: option for option in self.options for name in option.names}

    def find(self, name: str) -> Option | None:
        """The option of this name, also of a former one; `-` and `_` are the same."""
        plain = name.replace("_", "-")
        former = {option.formerly: option for option in self.options if option.formerly}
        return self.spellings.get(plain) or former.get(plain)

    def usage(self, program: str) -> str:
        """How its positional arguments stand behind it, and the options that it cannot do without."""
        names = (f"{option.shown}{' ...' if option.most is None else ''}" for option in self.positional)
        needed = (f"{option.shown} {_example(option)}" for option in self.options if option.names and option.required)
        return " ".join((program, *names, *needed))

    def read(self, words: Sequence[str], *, program: str) -> Given:
        """The words sorted by options.

        Raises:
            RecipeError: an option is not known, or has too few or too many words.
        """
        given = Given()
        waiting = list(words)
        while waiting:
            word = waiting.pop(0)
            if word == "--":
                given.others += waiting
                break
            if not looks_like_option(word):
                given.others.append(word)
                continue
            self._take(word, waiting, given, program=program)
        self._place(given, program=program)
        return given

    def _take(self, word: str, waiting: list[str], given: Given, *, program: str) -> None:
        """One option, and of the words that wait those that are its values."""
        name, equals, text = word.partition("=")
        option = self.find(name)
        if option is None:
            raise RecipeError(f"{program}: {name} is no option; {self.remedy(name, program=program)}")
        if name.replace("_", "-") == option.formerly:
            given.renamed.append(option)
        if option.value is None:
            if equals:
                raise RecipeError(f"{name}: takes no value; leave ={text} away")
            said = ("no",) if name.startswith("--no") and name != option.names[0] else ()
            if given.options.setdefault(option.key, said) != said:
                raise RecipeError(f"{name}: is given together with its opposite; leave one of them out")
            return
        found = [text] if equals else list(self._values(option, waiting, given))
        if len(found) < option.least:
            several = "no value" if not found else f"{len(found)} value{'s' * (len(found) > 1)}"
            needed = option.value.noun if option.least == 1 else f"{option.least} of them"
            raise RecipeError(f"{name}: has {several}; give {needed}, as in {name} {_example(option)}")
        option.read(found)  # what is no value is told before what is missing
        before = given.options.get(option.key, [])
        if before and option.most is not None:
            raise RecipeError(
                f"{name}: is given twice, as {' '.join(before)!r} and as {' '.join(found)!r}; give it once"
            )
        given.options[option.key] = [*before, *found]

    def _values(self, option: Option, waiting: list[str], given: Given) -> Iterator[str]:
        """Words for an option; one that takes any number leaves those that the command cannot do without."""
        needed = sum(each.least for each in self.positional if each.required) - len(given.others)
        count = 0
        while waiting and waiting[0] != "--" and not looks_like_option(waiting[0]):
            enough = count >= option.least and option.most is None
            if count == option.most or (enough and len(waiting) <= needed):
                return
            yield waiting.pop(0)
            count += 1

    def remedy(self, name: str, *, program: str) -> str:
        """Which option somebody meant."""
        plain = name.lstrip("-").replace("_", "-")
        meant = [f"--{each}" for each in OTHER_NAMES.get(plain, ())]
        known = {each[2:]: each for each in self.spellings if len(each) > 2}
        found = next((each for each in meant if each in self.spellings), None) or known.get(near(plain, known) or "")
        return f"did you mean {found}?" if found else f"see {program} --help"

    def _place(self, given: Given, *, program: str) -> None:
        """Gives the words without an option to the positional arguments, and what is left to who takes that."""
        waiting = list(given.others)
        missing = []
        for number, option in enumerate(self.positional):
            count = min(option.most or self._several(waiting, number), len(waiting))
            if count < option.least and option.required:
                missing.append(option.shown)
            if count:
                given.options[option.key] = [waiting.pop(0) for _ in range(count)]
        missing += (
            each.shown for each in self.options if each.required and each.names and each.key not in given.options
        )
        if missing:
            raise RecipeError(f"{program}: needs {' and '.join(missing)}; write {self.usage(program)}")
        for option in self._behind():
            if waiting and option.key in given.options:
                raise RecipeError(f"{option.shown}: is given, and so is {waiting[0]!r}; give one of them")
            if waiting:
                count = len(waiting) if option.most is None else option.most
                given.options[option.key], waiting = waiting[:count], waiting[count:]
                for word in given.options[option.key]:
                    require_text(word, option=option.shown, reads=self._reads)
        if waiting:
            self._refuse(waiting[0], program=program)

    def _refuse(self, word: str, *, program: str) -> NoReturn:
        """`RecipeError` for a word that no argument takes."""
        if _SETS.match(word):
            raise RecipeError(f"{program}: {word!r} is no option; write --{word}")
        if self._reads and looks_like_file(word):
            state = (
                "is a file, which is read with" if is_there(word) else "there is no such file; it would be read with"
            )
            raise RecipeError(f"{word}: {state} {self._reads} {word}")
        raise RecipeError(
            f"{program}: {word!r} is one word too many; put quotes around words that belong together, or see "
            f"{program} --help"
        )

    @property
    def _reads(self) -> str | None:
        """The option that names a file of texts; None where the command has none."""
        return next((name for name in ("--input", "--data") if name in self.spellings), None)

    def _several(self, words: Sequence[str], number: int) -> int:
        """How many words belong to a positional argument that takes any number.

        Those behind it keep theirs. Where texts may follow, the first word is none of them, nor are those behind it
        that are paths, or look like one.
        """
        later = sum(option.least for option in self.positional[number + 1 :] if option.required)
        return leading_paths(words) if self._behind() else max(len(words) - later, 0)

    def _behind(self) -> list[Option]:
        return [option for option in self.options if option.behind]


def looks_like_option(word: str) -> bool:
    """Whether a word is no value: `-` and letters begin it; `-`, `-3` and `-inf` are values."""
    inner = word.lstrip("-")
    if not word.startswith("-") or not inner[:1].isalpha():
        return False
    return word.startswith("--") or inner.lower() not in ("inf", "infinity", "nan")


def _example(option: Option) -> str:
    assert option.value is not None
    return " ".join([next(iter(option.value.choices), option.value.example)] * option.least)


def grammar(cls: Any) -> Grammar:
    """The options of a command, from the fields of its dataclass; `tyro` makes its help of the same ones."""
    return Grammar(tuple(_options(cls)))


def _options(cls: Any) -> Iterator[Option]:
    hints = get_type_hints(cls, include_extras=True)
    for each in fields(cls):
        plain, notes = _unwrapped(hints[each.name])
        if is_dataclass(plain):
            yield from _options(plain)
        else:
            yield _option(each, plain, notes)


def _unwrapped(annotation: Any) -> tuple[Any, Sequence[Any]]:
    """The type without `Annotated` and `None`, and what was noted with it."""
    notes: list[Any] = []
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            notes += more
        elif get_origin(annotation) in (Union, UnionType):
            (annotation,) = (each for each in get_args(annotation) if each is not NoneType)
        else:
            return annotation, notes


def _option(each: Field[Any], plain: Any, notes: Sequence[Any]) -> Option:
    name = f"--{each.name.replace('_', '-')}"
    aliases = [alias for note in notes for alias in getattr(note, "aliases", None) or ()]
    positional = tyro.conf.Positional in notes
    required = each.default is MISSING and each.default_factory is MISSING
    behind = any(isinstance(note, Behind) for note in notes)
    formerly = next((note.name for note in notes if isinstance(note, Formerly)), None)
    value, least, most = _shape(plain)
    if ending := next((note for note in notes if isinstance(note, Ending)), None):
        value = Place(ending.endings, ending.remedy)
    opposite = [] if value is not None or tyro.conf.FlagCreatePairsOff in notes else [f"--no-{name[2:]}"]
    names = () if positional else (name, *aliases, *opposite)
    return Option(each.name, names, value, least, most, required, behind, formerly)


def _shape(plain: Any) -> tuple[Value | None, int, int | None]:
    """Of what words a value is made: their kind, and how many at least and at most."""
    if plain is bool:
        return None, 0, 0
    if get_origin(plain) is tuple:
        inner, *rest = get_args(plain)
        value, _, _ = _shape(inner)
        return (value, 1, None) if rest == [...] else (value, 1 + len(rest), 1 + len(rest))
    if get_origin(plain) is Literal:
        return Chosen(tuple(map(str, get_args(plain)))), 1, 1
    if plain not in _PLAIN:
        raise TypeError(f"{plain}: an option is a {', '.join(kind.__name__ for kind in _PLAIN)}, a choice or a tuple")
    return _PLAIN[plain], 1, 1


def build(cls: type[Any], given: Given) -> Any:
    """The dataclass with what was given; everything else is as its defaults say."""
    known = {option.key: option for option in grammar(cls).options}
    return _built(cls, {key: known[key].read(words) for key, words in given.options.items() if key in known})


def _built(cls: Any, read: Mapping[str, Any]) -> Any:
    hints = get_type_hints(cls, include_extras=True)
    content = {}
    for each in fields(cls):
        plain, _ = _unwrapped(hints[each.name])
        if is_dataclass(plain):
            content[each.name] = _built(plain, read)
        elif each.name in read:
            content[each.name] = read[each.name]
    return cls(**content)
