"""`heedful chat`: a conversation with a trained model, in the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from heedful.cli.arguments import Computing, MaybeInt, MaybePage, PositionalPath, parse
from heedful.cli.options import WritingOptions
from heedful.cli.output import Output, destination, require_room, say, writing
from heedful.errors import HeedfulError

if TYPE_CHECKING:
    from heedful.generation.search import Greedy, Sampling
    from heedful.tasks.conversation.data import Turn
    from heedful.tasks.conversation.face import Partner

_HELP: Final = (
    "/reset forgets what was said, /save FILE adds the dialogue to a file as a line of JSON, /quit ends; what begins "
    "with // is said with one slash"
)


@dataclass(frozen=True)
class Arguments:
    """Talk to a trained model of conversation; replies appear as they are written.

    A line is a turn. Lines that begin with a slash are commands: /reset forgets what was said, /save FILE adds the
    dialogue to a file as a line of JSON, /quit ends, and so does the end of the input.
    """

    run: PositionalPath
    """run folder"""
    searching: WritingOptions = field(default_factory=WritingOptions)
    seed: int = 1
    """of sampling"""
    page: MaybePage = None
    """file for a page with the dialogue and what each reply looked at, written at the end"""
    step: MaybeInt = None
    """a kept checkpoint instead of the finished model"""
    computing: Computing = field(default_factory=Computing)


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parse(Arguments, arguments, program="heedful chat")
    if given.page is not None:
        require_room(given.page, "--page")

    from heedful.generation.search import Greedy, Sampling
    from heedful.tasks.conversation.face import Partner
    from heedful.tasks.searches import build_continuation

    partner = given.computing.load(Partner, given.run, use="talks", step=given.step)
    config = given.searching.config(partner.generation)
    search, partner.limit = build_continuation(config, partner.script.special, seed=given.seed)
    partner.stop = config.stop
    assert isinstance(search, Greedy | Sampling), "continuations are not searched for with a beam"
    with destination(None) as out:
        chat = Chat(partner, search, out, typed=sys.stdin.isatty())
        chat.go_on()
    if given.page is not None:
        from heedful.inspection.page import write_page
        from heedful.tasks.conversation.transcript import transcript

        write_page(transcript(partner, chat.turns, title=f"A conversation with {given.run}"), given.page)
        say(f"wrote {given.page}")
    return 0


class Chat:
    """What is said so far, and the way on.

    Args:
        partner: who replies.
        search: how.
        out: where replies go.
        typed: whether somebody types, who is told whose turn it is.
    """

    def __init__(self, partner: Partner, search: Greedy | Sampling, out: Output, *, typed: bool) -> None:
        self.partner = partner
        self.turns: list[Turn] = []
        self._search = search
        self._out = out
        self._typed = typed
        self._other = partner.other
        self._said = 0

    def go_on(self) -> None:
        """Line by line, until there are no more or /quit; whoever interrupts while he is to say something ends too."""
        if self._typed:
            say(_HELP)
        with suppress(KeyboardInterrupt):
            for line in self._lines():
                word, _, rest = line.strip().partition(" ")
                if word == "/quit":
                    return
                if word.startswith("/") and not word.startswith("//"):
                    self._command(word, rest.strip())
                elif line.strip():
                    self._reply(line.strip().removeprefix("/") if word.startswith("//") else line.strip())

    def _lines(self) -> Iterator[str]:
        from heedful.data.readers import read_lines

        if not self._typed:
            yield from read_lines(sys.stdin.buffer)
            return
        while True:
            try:
                yield input(f"{self._other}: ")
            except EOFError:
                self._show("\n")
                return

    def _command(self, word: str, rest: str) -> None:
        if word == "/reset":
            self.turns.clear()
        elif word == "/save" and rest:
            try:
                self._save(Path(rest))
            except HeedfulError as error:
                say(str(error))
        else:
            say(f"{word}: {_HELP}")

    def _save(self, path: Path) -> None:
        turns = [turn._asdict() for turn in self.turns]
        with writing(path, "file"), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"turns": turns}, ensure_ascii=False) + "\n")
        say(f"{path}: {len(turns)} turns added")

    def _reply(self, text: str) -> None:
        """What was written before an interruption counts as said."""
        from heedful.tasks.conversation.data import Turn

        self.turns.append(Turn(self._other, text))
        self._said += 1
        if self._typed:
            self._show(f"{self.partner.speaker}: ")
        reply = ""
        try:
            for piece in self.partner.stream(self.turns, search=self._search, number=self._said):
                reply += piece
                self._show(piece)
        except KeyboardInterrupt:
            say("")
        self._show("\n")
        if reply.strip():
            self.turns.append(Turn(self.partner.speaker, reply.strip()))

    def _show(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
