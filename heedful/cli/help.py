"""Help of a command: its docstring, and the docstrings of the fields that are its options."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from heedful.cli.option_parser import CommandOption, build_parser
from heedful.recipes.config import read_field_docs

_MAX_WIDTH: Final = 100
_INDENT: Final = 24
"""Column at which the meaning of an option begins."""
_EXAMPLE_INDENT: Final = " " * 4
"""How the lines of an example begin in a docstring."""


def print_help(cls: type[Any], *, program: str) -> None:
    """Print the help of the command `program`, whose options are the fields of `cls`; in colours on a terminal."""
    console = Console(highlight=False, soft_wrap=True)
    for line in _iter_lines(cls, program=program, width=min(console.width, _MAX_WIDTH)):
        console.print(line)


def _iter_lines(cls: type[Any], *, program: str, width: int) -> Iterator[Text]:
    """Yield the lines of a command's help: usage, docstring of `cls`, arguments, options, and the options of nested
    dataclasses.
    """
    parser = build_parser(cls)
    yield Text(f"usage: {parser.format_usage(f'{program} [OPTIONS]')}")
    for paragraph in inspect.cleandoc(cls.__doc__ or "").split("\n\n"):
        yield Text()
        yield from _format_paragraph(paragraph, width=width)
    if parser.positionals:
        yield from _iter_group("Arguments", parser.positionals, width=width)
    named_options = [option for option in parser.options if option.names]
    yield from _iter_group("Options", [option for option in named_options if option.group is cls], width=width)
    yield from _format_option("-h, --help", "", "show this help and exit", width=width)
    for group in dict.fromkeys(option.group for option in named_options if option.group is not cls):
        title = " ".join(inspect.cleandoc(group.__doc__ or "").split()).rstrip(".")
        yield from _iter_group(title, [option for option in named_options if option.group is group], width=width)


def _format_paragraph(paragraph: str, *, width: int) -> Iterator[Text]:
    """Yield the lines of a paragraph of a docstring, filled to `width`; the lines of an indented example stay."""
    lines = paragraph.split("\n")
    if all(line.startswith(_EXAMPLE_INDENT) for line in lines):
        yield from (Text(f"  {line.removeprefix(_EXAMPLE_INDENT)}") for line in lines)
    else:
        yield Text(textwrap.fill(" ".join(paragraph.split()), width, break_on_hyphens=False))


def _iter_group(title: str, options: Sequence[CommandOption], *, width: int) -> Iterator[Text]:
    """Yield the title of some options, and the lines of each with its default."""
    yield Text()
    yield Text(textwrap.fill(f"{title}:", width), style="bold")
    for option in options:
        docs = _describe_fields(option.group)
        repeated = " ..." if option.max_words is None else ""
        if not option.names:
            yield from _format_option(option.display_name + repeated, "", docs.get(option.key, ""), width=width)
            continue
        names = ", ".join(sorted(option.names, key=lambda name: name.startswith("--")))
        metavar = " ".join([option.metavar] * max(option.min_words, 1)) + repeated
        yield from _format_option(names, metavar, docs.get(option.key, "") + _format_default(option), width=width)


def _format_option(names: str, metavar: str, meaning: str, *, width: int) -> Iterator[Text]:
    """Yield the lines of one option: its names and the word for its value (`metavar`), and beside or below them its
    meaning. Lines have at most `width` columns.
    """
    head = Text(f"  {names} ", style="cyan").append(metavar, style="default")
    lines = textwrap.wrap(" ".join(meaning.split()), width - _INDENT, break_on_hyphens=False)
    if lines and len(head) < _INDENT:
        head.pad_right(_INDENT - len(head))
        head.append(lines.pop(0), style="default")
    head.rstrip()
    yield head
    yield from (Text(" " * _INDENT + line) for line in lines)


def _format_default(option: CommandOption) -> str:
    """Format the default of an option; nothing for one that is off, empty or explained by the option's meaning."""
    if option.required:
        return " (required)"
    if option.value_type is None or option.default in (None, (), "", MISSING):
        return " (default: on)" if option.default is True else ""
    values = option.default if isinstance(option.default, tuple) else (option.default,)
    return f" (default: {' '.join(map(str, values))})"


def _describe_fields(cls: type[Any]) -> Mapping[str, str]:
    """Return the docstring of each field of a class, its base classes included.

    A field that was made by code has a function that returns its docstring as `describe` in its metadata.
    """
    docs = {name: text for base in reversed(cls.__mro__) for name, text in read_field_docs(base).items()}
    return docs | {entry.name: entry.metadata["describe"]() for entry in fields(cls) if "describe" in entry.metadata}
