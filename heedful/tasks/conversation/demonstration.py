"""`heedful quickstart` of conversation: a help desk model learns to solve unseen problems."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final, final

from heedful.recipes.toml import format_value
from heedful.tasks.conversation.help_desk_simulator import (
    CUSTOMER,
    HelpDeskAgent,
    HelpDeskSimulator,
    SimulatedCustomer,
    SpokenTurns,
    simulate_dialogues,
)
from heedful.tasks.demonstration import Demonstration, print_command, print_now, write_files

if TYPE_CHECKING:
    from heedful.tasks.conversation.data import DialogueTurn
    from heedful.tasks.conversation.predictor import ChatPredictor

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
    """Train a small Transformer as a help desk, and let simulated customers call it with unseen problems.

    No download is needed: dialogues of an expert with customers are generated. A problem is a service, a failure and a
    system. A customer is helped if the model asks for what it does not know yet, and then gives the advice, and opens
    the ticket, that belong to all three.
    """

    output: Path = Path("runs/quickstart-conversation")
    """folder for the dialogues, the recipe and the run"""
    steps: int = 700
    """updates; a minute on an idle core"""
    size: int = 1500
    """dialogues to learn from"""

    @cached_property
    def simulator(self) -> HelpDeskSimulator:
        """The simulator that generates the dialogues."""
        return HelpDeskSimulator(self.seed, self.size)

    def write_recipe(self) -> Path:
        """Write the dialogues as JSONL files, and the recipe beside them."""
        recipe = self.output / "recipe.toml"
        dialogues = {part: list(self.simulator.generate_dialogues(part)) for part in ("train", "validation", "test")}
        texts = {
            f"dialogues/{part}.jsonl": "".join(map(_format_json_line, part_dialogues))
            for part, part_dialogues in dialogues.items()
        }
        run = format_value(str(self.output / "run"))
        content = _RECIPE.format(recipe=quote(str(recipe)), run=run, seed=self.seed, steps=self.steps)
        write_files(self.output, {**texts, recipe.name: content})
        print_now(f"{len(dialogues['train']):,} dialogues such as\n")
        print_now(_format_dialogue(dialogues["train"][0]))
        return recipe

    def show_results(self, predictor: ChatPredictor, run_folder: Path) -> None:
        """Print the share of helped customers and two dialogues, and write a page of what the model attended to."""
        from heedful.tasks.conversation.transcript import render_transcript

        customers = self.simulator.create_customers("test", 4 * HelpDeskSimulator.held_out_counts["test"])
        dialogues = simulate_dialogues(customers, ModelAgent(predictor))
        helped = [customer.helped for customer in customers]
        print_now(f"\n{len(customers)} customers called, with problems that were never in the dialogues:")
        print_now(f"  {100 * sum(helped) / len(helped):.1f} % were helped\n")
        stubborn_dialogue = next(
            dialogue for dialogue, caller in zip(dialogues, customers, strict=True) if caller.stubborn
        )
        print_now(f"{_format_dialogue(dialogues[0])}\n{_format_dialogue(stubborn_dialogue)}")
        page = run_folder.parent / "transcript.html"
        page.write_text(render_transcript(predictor, to_turns(stubborn_dialogue)), encoding="utf-8")
        print_now(f"what it looked at: {page}  (open it in a browser)\n\nwhere to go next")
        print_command("chat", run_folder)
        print_command("evaluate", run_folder)
        print_now("  heedful train RECIPE    with a recipe for your own dialogues; begin with a copy of")
        print_now(f"                          {run_folder.parent / 'recipe.toml'}")


@final
@dataclass(frozen=True)
class ModelAgent(HelpDeskAgent):
    """A help desk agent that replies with a trained model."""

    partner: ChatPredictor

    def reply(self, dialogues: Sequence[SpokenTurns]) -> list[str]:
        """Generate the replies as in a chat."""
        return [reply.text for reply in self.partner.reply([to_turns(dialogue) for dialogue in dialogues])]


def measure_success(partner: ChatPredictor, customers: Sequence[SimulatedCustomer]) -> float:
    """Return the share of customers that a model helps."""
    simulate_dialogues(customers, ModelAgent(partner))
    return sum(customer.helped for customer in customers) / len(customers)


def to_turns(dialogue: SpokenTurns) -> tuple[DialogueTurn, ...]:
    """Convert a simulated dialogue to the model's turns."""
    from heedful.tasks.conversation.data import DialogueTurn

    return tuple(DialogueTurn(speaker, text) for speaker, text in dialogue)


def _format_json_line(dialogue: SpokenTurns) -> str:
    """Format a dialogue as a line of JSON."""
    turns = [{"speaker": speaker, "text": text} for speaker, text in dialogue]
    return json.dumps({"turns": turns}) + "\n"


def _format_dialogue(dialogue: SpokenTurns) -> str:
    """Format a dialogue for the terminal."""
    return "".join(f"  {'customer' if speaker == CUSTOMER else 'desk':>8}: {text}\n" for speaker, text in dialogue)
