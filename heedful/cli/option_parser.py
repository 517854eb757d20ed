"""Parser for the options of a command, which are the fields of its dataclass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from heedful.cli.option_types import (
    ChoiceType,
    FloatType,
    IntType,
    OptionType,
    PathType,
    TextType,
    count_leading_paths,
    is_file_name,
    path_exists,
    require_text,
)
from heedful.english_words import closest_match
from heedful.errors import RecipeError

OPTION_SYNONYMS: Final[Mapping[str, Sequence[str]]] = {
    "beams": ("beam",),
    "beam-size": ("beam",),
    "beam-width": ("beam",),
    "checkpoint": ("step",),
    "cpu": ("device",),
    "cuda": ("device",),
    "decoding": ("search",),
    "do-sample": ("search",),
    "file": ("input", "data"),
    "gpu": ("device",),
    "html": ("page", "output"),
    "i": ("input", "data"),
    "infile": ("input",),
    "json": ("format",),
    "length": ("tokens",),
    "max-length": ("tokens", "max-extra"),
    "max-new-tokens": ("tokens", "max-extra"),
    "max-tokens": ("tokens", "max-extra"),
    "num-beams": ("beam",),
    "num-return-sequences": ("n-best",),
    "num-samples": ("n-best", "samples"),
    "num-threads": ("threads",),
    "o": ("output", "page"),
    "outfile": ("output",),
    "sentence": ("text",),
    "strategy": ("search",),
    "temp": ("temperature",),
}
"""Options of heedful by those names, the likeliest first."""

_PLAIN_TYPES: Final[Mapping[Any, OptionType]] = {str: TextType(), Path: PathType(), int: IntType(), float: FloatType()}
_ASSIGNMENT: Final = re.compile(r"[a-z]\w*([.-]\w+)*=")
"""An assignment as other programs accept it, such as key=value."""


class Positional:
    """Marks positional arguments."""


class PositionalAlias:
    """Marks options whose values may also follow the positional arguments, without the option."""


@dataclass(frozen=True)
class OptionInfo:
    """Further names of an option, and the word for its values in the help (by default that of their type)."""

    aliases: Sequence[str] = ()
    metavar: str = ""


@dataclass(frozen=True)
class RenamedFrom:
    """Marks options that had another name, `--name`, in the previous version."""

    name: str


@dataclass(frozen=True)
class FileSuffixes:
    """Marks paths of output files: their allowed suffixes, and a hint for other suffixes."""

    suffixes: tuple[str, ...]
    hint: str = ""


@dataclass(frozen=True)
class CommandOption:
    """An option or positional argument of a command: a field of its dataclass, or of one nested in it.

    Attributes:
        key: name of the field.
        names: all its names, the first one for messages; empty for a positional argument.
        value_type: type of its words; None for a flag.
        min_words: minimum number of words.
        max_words: maximum number of words; None if unlimited.
        required: whether it must be given.
        is_positional_alias: whether its words may follow the positional arguments.
        former_name: its name in the previous version.
        default: the value that it has if it is not given.
        metavar: the word for its values in the help; empty for a flag.
        group: the dataclass that has the field.
    """

    key: str
    names: tuple[str, ...]
    value_type: OptionType | None
    min_words: int
    max_words: int | None
    required: bool
    is_positional_alias: bool = False
    former_name: str | None = None
    default: Any = None
    metavar: str = ""
    group: Any = None

    @property
    def display_name(self) -> str:
        """The name used in messages."""
        return self.names[0] if self.names else self.key.upper()

    def convert(self, words: Sequence[str]) -> Any:
        """Convert the option's words to its value; raise `RecipeError` if they are invalid."""
        if self.value_type is None:
            return not words  # of a flag; `--no-flag` comes as one word
        try:
            values = tuple(map(self.value_type.convert, words))
        except ValueError as error:
            raise RecipeError(f"{self.display_name}: {error}") from None
        return values[0] if self.max_words == 1 else values


@dataclass
class ParsedWords:
    """Words of a command line, sorted by option.

    Attributes:
        option_words: the words of each option, by its key.
        positional_words: the words that belong to no option.
        renamed_options: the options that were given by their former name.
    """

    option_words: dict[str, Sequence[str]] = field(default_factory=dict)
    positional_words: list[str] = field(default_factory=list)
    renamed_options: list[CommandOption] = field(default_factory=list)


@dataclass(frozen=True)
class OptionParser:
    """Parser for the options of one command."""

    options: Sequence[CommandOption]

    @property
    def positionals(self) -> list[CommandOption]:
        """The positional arguments, in order."""
        return [option for option in self.options if not option.names]

    @property
    def options_by_name(self) -> Mapping[str, CommandOption]:
        """All options by each of their current names."""
        return {name: option for option in self.options for name in option.names}

    def find_option(self, name: str) -> CommandOption | None:
        """Return the option with a name, also a former one; `-` and `_` are the same. None if there is none."""
        normalized = name.replace("_", "-")
        former_names = {option.former_name: option for option in self.options if option.former_name}
        return self.options_by_name.get(normalized) or former_names.get(normalized)

    def format_usage(self, program: str) -> str:
        """Format the usage line: the name of the program, positional arguments and required options."""
        names = (f"{option.display_name}{' ...' if option.max_words is None else ''}" for option in self.positionals)
        names = (name if option.required else f"[{name}]" for name, option in zip(names, self.positionals, strict=True))
        required_options = (
            f"{option.display_name} {_format_example(option)}"
            for option in self.options
            if option.names and option.required
        )
        return " ".join((program, *names, *required_options))

    def parse(self, argv: Sequence[str], *, program: str) -> ParsedWords:
        """Sort the words of a command line by option; `program` is the command in messages.

        Raises:
            RecipeError: an option is unknown, or has too few or too many words.
        """
        parsed = ParsedWords()
        remaining = list(argv)
        while remaining:
            word = remaining.pop(0)
            if word == "--":
                parsed.positional_words += remaining
                break
            if not is_option_name(word):
                parsed.positional_words.append(word)
                continue
            self._parse_option(word, remaining, parsed, program=program)
        self._assign_positionals(parsed, program=program)
        return parsed

    def _parse_option(self, word: str, remaining: list[str], parsed: ParsedWords, *, program: str) -> None:
        """Parse the option `word`, remove its values from the remaining words, and add them to `parsed`; `program` is
        the command in messages.
        """
        name, equals, text = word.partition("=")
        option = self.find_option(name)
        if option is None:
            raise RecipeError(f"{program}: {name} is not an option; {self.suggest_option(name, program=program)}")
        if name.replace("_", "-") == option.former_name:
            parsed.renamed_options.append(option)
        if option.value_type is None:
            if equals:
                raise RecipeError(f"{name}: takes no value; leave out ={text}")
            flag_words = ("no",) if name.startswith("--no") and name != option.names[0] else ()
            if parsed.option_words.setdefault(option.key, flag_words) != flag_words:
                raise RecipeError(f"{name}: is given together with its opposite; leave one of them out")
            return
        values = [text] if equals else list(self._take_values(option, remaining, parsed))
        if len(values) < option.min_words:
            count_text = "no value" if not values else f"{len(values)} value{'s' * (len(values) > 1)}"
            expected = option.value_type.noun if option.min_words == 1 else f"{option.min_words} of them"
            raise RecipeError(f"{name}: has {count_text}; give {expected}, as in {name} {_format_example(option)}")
        option.convert(values)  # invalid values are reported before missing options
        previous = parsed.option_words.get(option.key, [])
        if previous and option.max_words is not None:
            raise RecipeError(
                f"{name}: is given twice, as {' '.join(previous)!r} and as {' '.join(values)!r}; give it once"
            )
        parsed.option_words[option.key] = [*previous, *values]

    def _take_values(self, option: CommandOption, remaining: list[str], parsed: ParsedWords) -> Iterator[str]:
        """Remove the words of an option from the remaining ones and yield them; an option that takes any number leaves
        words for the required positional arguments, as far as these are not `parsed` yet.
        """
        num_reserved = sum(positional.min_words for positional in self.positionals if positional.required) - len(
            parsed.positional_words
        )
        count = 0
        while remaining and remaining[0] != "--" and not is_option_name(remaining[0]):
            has_enough = count >= option.min_words and option.max_words is None
            if count == option.max_words or (has_enough and len(remaining) <= num_reserved):
                return
            yield remaining.pop(0)
            count += 1

    def suggest_option(self, name: str, *, program: str) -> str:
        """Return a question or hint for an unknown option: a similar option or a synonym, otherwise the help of the
        program.
        """
        normalized = name.lstrip("-").replace("_", "-")
        candidates = [f"--{name_of_option}" for name_of_option in OPTION_SYNONYMS.get(normalized, ())]
        names_by_word = {
            name_of_option[2:]: name_of_option for name_of_option in self.options_by_name if len(name_of_option) > 2
        }
        suggestion = next(
            (name_of_option for name_of_option in candidates if name_of_option in self.options_by_name), None
        ) or names_by_word.get(closest_match(normalized, names_by_word) or "")
        return f"did you mean {suggestion}?" if suggestion else f"see {program} --help"

    def _assign_positionals(self, parsed: ParsedWords, *, program: str) -> None:
        """Assign the words without an option in `parsed` to the positional arguments, and the rest to options that also
        accept them. Raise `RecipeError` if words or required options are missing, or words are left.
        """
        remaining = list(parsed.positional_words)
        missing = []
        for index, option in enumerate(self.positionals):
            count = min(option.max_words or self._count_words(remaining, index), len(remaining))
            if count < option.min_words and option.required:
                missing.append(option.display_name)
            if count:
                parsed.option_words[option.key] = [remaining.pop(0) for _ in range(count)]
        missing += (
            other.display_name
            for other in self.options
            if other.required and other.names and other.key not in parsed.option_words
        )
        if missing:
            raise RecipeError(f"{program}: needs {' and '.join(missing)}; write {self.format_usage(program)}")
        for option in self._positional_aliases():
            if remaining and option.key in parsed.option_words:
                raise RecipeError(f"{option.display_name}: is given, and so is {remaining[0]!r}; give one of them")
            if remaining:
                count = len(remaining) if option.max_words is None else option.max_words
                parsed.option_words[option.key], remaining = remaining[:count], remaining[count:]
                for word in parsed.option_words[option.key]:
                    require_text(word, option=option.display_name, input_option=self._input_option)
        if remaining:
            self._reject_word(remaining[0], program=program)

    def _reject_word(self, word: str, *, program: str) -> NoReturn:
        """Raise `RecipeError` for a word that no argument accepts; `program` is the command in the message."""
        if _ASSIGNMENT.match(word):
            raise RecipeError(f"{program}: {word!r} is not an option; write --{word}")
        if self._input_option and is_file_name(word):
            state = (
                "is a file, which is read with" if path_exists(word) else "there is no such file; files are read with"
            )
            raise RecipeError(f"{word}: {state} {self._input_option} {word}")
        raise RecipeError(
            f"{program}: {word!r} is one word too many; put quotes around words that belong together, or see "
            f"{program} --help"
        )

    @property
    def _input_option(self) -> str | None:
        """The option that names a file of texts; None if the command has none."""
        return next((name for name in ("--input", "--data") if name in self.options_by_name), None)

    def _count_words(self, words: Sequence[str], index: int) -> int:
        """Return how many words belong to the positional argument with this index, which accepts any number.

        Words for later positional arguments are left over. If texts may follow, the argument takes the first word and
        those after it that are paths or look like one.
        """
        num_reserved = sum(option.min_words for option in self.positionals[index + 1 :] if option.required)
        return count_leading_paths(words) if self._positional_aliases() else max(len(words) - num_reserved, 0)

    def _positional_aliases(self) -> list[CommandOption]:
        """Return the options whose words may follow the positional arguments."""
        return [option for option in self.options if option.is_positional_alias]


def is_option_name(word: str) -> bool:
    """Whether a word is an option: it starts with `-` and a letter; `-`, `-3` and `-inf` are values."""
    inner = word.lstrip("-")
    if not word.startswith("-") or not inner[:1].isalpha():
        return False
    return word.startswith("--") or inner.lower() not in ("inf", "infinity", "nan")


def _format_example(option: CommandOption) -> str:
    """Format example values for an option."""
    assert option.value_type is not None
    return " ".join([next(iter(option.value_type.choices), option.value_type.example)] * option.min_words)


def build_parser(cls: Any) -> OptionParser:
    """Build the option parser of a command from the fields of its dataclass."""
    return OptionParser(tuple(_iter_options(cls)))


def _iter_options(cls: Any) -> Iterator[CommandOption]:
    """Yield the options of a dataclass and of the dataclasses nested in it."""
    hints = get_type_hints(cls, include_extras=True)
    for entry in fields(cls):
        bare_type, notes = _unwrap_annotation(hints[entry.name])
        if is_dataclass(bare_type):
            yield from _iter_options(bare_type)
        else:
            yield _build_option(entry, bare_type, notes, group=cls)


def _unwrap_annotation(annotation: Any) -> tuple[Any, Sequence[Any]]:
    """Return the type without `Annotated` and `None`, and its metadata."""
    notes: list[Any] = []
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *metadata = get_args(annotation)
            notes += metadata
        elif get_origin(annotation) in (Union, UnionType):
            (annotation,) = (member for member in get_args(annotation) if member is not NoneType)
        else:
            return annotation, notes


def _build_option(entry: Field[Any], bare_type: Any, notes: Sequence[Any], *, group: Any) -> CommandOption:
    """Build the option of a dataclass field from its type without metadata, and the metadata, `notes`; `group` is the
    dataclass.
    """
    name = f"--{entry.name.rstrip('_').replace('_', '-')}"  # from_ is no keyword
    infos = [note for note in notes if isinstance(note, OptionInfo)]
    value_type, min_words, max_words = _parse_type(bare_type)
    if file_suffixes := next((note for note in notes if isinstance(note, FileSuffixes)), None):
        value_type = PathType(file_suffixes.suffixes, file_suffixes.hint)
    opposite = [] if value_type is not None else [f"--no-{name[2:]}"]
    aliases = [alias for info in infos for alias in info.aliases]
    return CommandOption(
        key=entry.name,
        names=() if Positional in notes else (name, *aliases, *opposite),
        value_type=value_type,
        min_words=min_words,
        max_words=max_words,
        required=entry.default is MISSING and entry.default_factory is MISSING,
        is_positional_alias=any(isinstance(note, PositionalAlias) for note in notes),
        former_name=next((note.name for note in notes if isinstance(note, RenamedFrom)), None),
        default=entry.default,
        metavar=next(
            (info.metavar for info in infos if info.metavar), "" if value_type is None else value_type.metavar
        ),
        group=group,
    )


def _parse_type(bare_type: Any) -> tuple[OptionType | None, int, int | None]:
    """Return the value type of an option, None for a flag, and the minimum and maximum number of its words; no maximum
    is None.
    """
    bare_type, _ = _unwrap_annotation(bare_type)
    if bare_type is bool:
        return None, 0, 0
    if get_origin(bare_type) is tuple:
        item_type, *further_types = get_args(bare_type)
        value_type, _, _ = _parse_type(item_type)
        return (
            (value_type, 1, None)
            if further_types == [...]
            else (value_type, 1 + len(further_types), 1 + len(further_types))
        )
    if get_origin(bare_type) is Literal:
        return ChoiceType(tuple(map(str, get_args(bare_type)))), 1, 1
    if bare_type not in _PLAIN_TYPES:
        raise TypeError(
            f"{bare_type}: an option is a {', '.join(kind.__name__ for kind in _PLAIN_TYPES)}, a choice or a tuple"
        )
    return _PLAIN_TYPES[bare_type], 1, 1


def build_arguments(cls: type[Any], parsed: ParsedWords) -> Any:
    """Build the dataclass `cls` from the parsed words; all other fields have their defaults."""
    options_by_key = {option.key: option for option in build_parser(cls).options}
    return _fill_dataclass(
        cls,
        {
            key: options_by_key[key].convert(words)
            for key, words in parsed.option_words.items()
            if key in options_by_key
        },
    )


def _fill_dataclass(cls: Any, values: Mapping[str, Any]) -> Any:
    """Build a dataclass, nested ones included, from the values of fields by name; the others have their defaults."""
    hints = get_type_hints(cls, include_extras=True)
    fields_given = {}
    for entry in fields(cls):
        bare_type, _ = _unwrap_annotation(hints[entry.name])
        if is_dataclass(bare_type):
            fields_given[entry.name] = _fill_dataclass(bare_type, values)
        elif entry.name in values:
            fields_given[entry.name] = values[entry.name]
    return cls(**fields_given)
