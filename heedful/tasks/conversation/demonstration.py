"""`heedful quickstart` of conversation: a help desk learns to solve problems that it never heard of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final, final

from heedful.recipes.toml import value
from heedful.tasks.conversation.helpdesk import CUSTOMER, Customer, Desk, HelpDesk, Said, converse
from heedful.tasks.demonstration import Demonstration, command, say, write_files

if TYPE_CHECKING:
    from heedful.tasks.conversation.data import Turn
    from heedful.tasks.conversation.face import Partner

_RECIPE: Final = """\
# Written by: heedful quickstart. Go on with it: heedful train {recipe} --training.steps 2000

task = "conversation"
seed = {seed}
output = {run}

[data]
train = {{ path = "dialogues/train.jsonl" }}
validation = {{ path = "dialogues/validation.jsonl" }}
test = {{ path = "dialogues/test.jsonl" }}
replier = "system"
learned = "dialogues"         # whole ones, each as one text
window = 10
max_length = 160

[tokenizer]
kind = "words"

[model]
kind = "decoder_only"

[model.decoder]
d_model = 96
heads = 4
d_ff = 192
layers = 2
positions = {{ kind = "learned", length = 320 }}

[training]
steps = {steps}
batch_tokens = 1600
schedule = {{ kind = "cosine", rate = 4e-3, warmup = 60 }}
clip = 1.0
evaluate_every = 200

[generation]
kind = "greedy"
tokens = 40
"""


@final
@dataclass(frozen=True, kw_only=True)
class ConversationDemonstration(Demonstration):
    """Train a small Transformer as a help desk, and let customers call it whose problems it never heard of.

    Everything needed is on this machine: dialogues of an expert with customers are made up. A problem is a service, a
    failure and a system. A customer is helped where the model asks for what it was not told, and then gives the advice,
    and opens the ticket, that belong to all three.
    """

    output: Path = Path("runs/quickstart-conversation")
    """folder for the dialogues, the recipe and the run"""
    steps: int = 700
    """updates; a minute on an idle core"""
    size: int = 1500
    """dialogues to learn from"""

    @cached_property
    def desk(self) -> HelpDesk:
        """The dialogues."""
        return HelpDesk(self.seed, self.size)

    def write(self) -> Path:
        """The dialogues as JSONL files and the recipe beside them, as a user would have them."""
        recipe = self.output / "recipe.toml"
        dialogues = {part: list(self.desk.dialogues(part)) for part in ("train", "validation", "test")}
        texts = {f"dialogues/{part}.jsonl": "".join(map(_line, each)) for part, each in dialogues.items()}
        run = value(str(self.output / "run"))
        content = _RECIPE.format(recipe=quote(str(recipe)), run=run, seed=self.seed, steps=self.steps)
        write_files(self.output, {**texts, recipe.name: content})
        say(f"{len(dialogues['train']):,} dialogues such as\n")
        say(_shown(dialogues["train"][0]))
        return recipe

    def show(self, face: Partner, run: Path) -> None:
        """How many customers were helped, two dialogues, and a page with what the model looked at."""
        from heedful.tasks.conversation.transcript import transcript

        customers = self.desk.customers("test", 4 * HelpDesk.kept["test"])
        dialogues = converse(customers, Modelled(face))
        helped = [customer.helped for customer in customers]
        say(f"\n{len(customers)} customers called, with problems that were never in the dialogues:")
        say(f"  {100 * sum(helped) / len(helped):.1f} % were helped\n")
        stubborn = next(said for said, each in zip(dialogues, customers, strict=True) if each.stubborn)
        say(f"{_shown(dialogues[0])}\n{_shown(stubborn)}")
        page = run.parent / "transcript.html"
        page.write_text(transcript(face, turns_of(stubborn)), encoding="utf-8")
        say(f"what it looked at: {page}  (open it in a browser)\n\nwhere to go next")
        command("chat", run)
        command("evaluate", run)
        say("  heedful train RECIPE    with a recipe for your own dialogues; begin with a copy of")
        say(f"                          {run.parent / 'recipe.toml'}")


@final
@dataclass(frozen=True)
class Modelled(Desk):
    """A trained model answers customers."""

    partner: Partner

    def reply(self, dialogues: Sequence[Said]) -> list[str]:
        """As it would in a chat."""
        return [reply.text for reply in self.partner.reply([turns_of(said) for said in dialogues])]


def success(partner: Partner, customers: Sequence[Customer]) -> float:
    """The share of customers whom a model helps."""
    converse(customers, Modelled(partner))
    return sum(customer.helped for customer in customers) / len(customers)


def turns_of(said: Said) -> tuple[Turn, ...]:
    """Turns as models have them."""
    from heedful.tasks.conversation.data import Turn

    return tuple(Turn(speaker, text) for speaker, text in said)


def _line(said: Said) -> str:
    turns = [{"speaker": speaker, "text": text} for speaker, text in said]
    return json.dumps({"turns": turns}) + "\n"


def _shown(said: Said) -> str:
    return "".join(f"  {'customer' if speaker == CUSTOMER else 'desk':>8}: {text}\n" for speaker, text in said)
