"""`heedful quickstart` of conversation: a help desk model learns to solve unseen problems.

Dialogues are simulated: customers with known problems, and an expert who solves them. A problem is a service that
fails in some way on some system. The right advice combines all three, so a model that learned the parts can help with
an unseen combination, which can be checked.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias, final

from heedful.tasks.demonstration import Demonstration, print_now, require_positive

if TYPE_CHECKING:
    from heedful.tasks.conversation.data import DialogueTurn
    from heedful.tasks.conversation.predictor import ChatPredictor

CUSTOMER: Final = "user"
EXPERT: Final = "system"
MAX_TURNS: Final = 12
"""Turns after which a customer gives up."""

SpokenTurns = list[tuple[str, str]]
"""Speakers and texts."""
HelpDeskAgent: TypeAlias = Callable[[Sequence[SpokenTurns]], Sequence[str]]
"""Returns the next turn of each dialogue, whose last turn is a customer's."""

_SETTINGS_PLACES: Final = {
    "Windows": "the control panel",
    "macOS": "the system settings",
    "Ubuntu": "the settings centre",
    "Android": "the quick menu",
    "ChromeOS": "the status tray",
}
_SERVICE_PAGES: Final = {
    "VPN": "the page of tunnels",
    "printer": "the page of devices",
    "mail": "the page of accounts",
    "calendar": "the page of sharing",
    "wireless network": "the page of networks",
    "headset": "the page of sounds",
}
_FAILURE_ACTIONS: Final = {
    "slow": "start the service again",
    "locked": "delete the password that is kept there",
    "missing": "let it look for new ones",
    "broken": "go back to the version before the last",
    "silent": "turn its messages on",
}
_FAILURE_COMPLAINTS: Final[Mapping[str, Sequence[str]]] = {
    "slow": ("it takes minutes to react", "it is terribly slow", "everything takes for ever"),
    "locked": ("it wants my password again and again", "it does not take my password", "it says my login is wrong"),
    "missing": ("it is not in the list any more", "I cannot find it", "it has vanished"),
    "broken": ("it crashes since the update", "it stopped after the update", "the new version does not start"),
    "silent": ("it tells me nothing any more", "I get no messages from it", "it never says when it is done"),
}
_OPENING_TEXTS: Final = (
    "Hello, I need help with my {}.",
    "Hi, there is a problem with the {}.",
    "My {} does not work.",
)
_SYSTEM_MENTIONS: Final = ("I use {}.", "This is on {}.", "My computer has {}.")
_SYSTEM_ANSWERS: Final = ("{}.", "It is {}.", "I have {} here.")
_SYSTEM_QUESTIONS: Final = ("Which system do you use?", "Which system does your computer have?")
_FAILURE_QUESTIONS: Final = ("What exactly happens?", "What happens when you try?")
_SUCCESS_TEXTS: Final = ("Yes, that helped. Thank you.", "Great, it works again.", "Perfect, thanks a lot.")
_FAILURE_TEXTS: Final = ("No, it is still the same.", "I tried that, it did not help.", "That changes nothing.")
_THANKS_TEXTS: Final = ("All right, thank you.", "Thanks, I will wait for it.")
_GOODBYE: Final = "You are welcome. Goodbye."
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

    recipe_template: ClassVar = _RECIPE
    own_data: ClassVar = "dialogues"

    output: Path = Path("runs/quickstart-conversation")
    """folder for the dialogues, the recipe and the run"""
    steps: int = 700
    """number of updates; a minute on an idle core"""
    size: int = 1500
    """number of training dialogues"""

    @cached_property
    def simulator(self) -> HelpDeskSimulator:
        """The simulator that generates the dialogues."""
        return HelpDeskSimulator(self.seed, self.size)

    def iter_files(self) -> Iterator[tuple[str, str | bytes]]:
        """Iterate over the dialogues as JSONL files."""
        require_positive(size=self.size)
        for part in ("train", "validation", "test"):
            yield f"dialogues/{part}.jsonl", "".join(map(_format_json_line, self.simulator.generate_dialogues(part)))

    def print_data(self) -> None:
        """Print a dialogue."""
        print_now(f"{self.size:,} dialogues such as\n")
        print_now(_format_dialogue(next(iter(self.simulator.generate_dialogues("train")))))

    def show_results(self, predictor: ChatPredictor, run_folder: Path) -> None:
        """Print the share of customers that the predictor helped and two dialogues, and write a page beside the run
        folder that shows what the model attended to.
        """
        from heedful.tasks.conversation.predictor import render_transcript

        customers = self.simulator.create_customers("test", 4 * HelpDeskSimulator.held_out_counts["test"])
        dialogues = simulate_dialogues(customers, make_model_agent(predictor))
        helped = [customer.helped for customer in customers]
        print_now(f"\n{len(customers)} customers called, with problems that were never in the dialogues:")
        print_now(f"  {100 * sum(helped) / len(helped):.1f} % were helped\n")
        stubborn_dialogue = next(
            dialogue for dialogue, caller in zip(dialogues, customers, strict=True) if caller.stubborn
        )
        print_now(f"{_format_dialogue(dialogues[0])}\n{_format_dialogue(stubborn_dialogue)}")
        page = run_folder.parent / "transcript.html"
        page.write_text(render_transcript(predictor, to_turns(stubborn_dialogue)), encoding="utf-8")
        self.print_next_steps("what it looked at", page, ("chat", run_folder), ("evaluate", run_folder))


@final
@dataclass(frozen=True)
class SupportProblem:
    """A failing service, the failure, and the system."""

    service: str
    failure: str
    system: str

    @property
    def advice(self) -> str:
        """The advice, which helps in most cases."""
        return (
            f"In {_SETTINGS_PLACES[self.system]} open {_SERVICE_PAGES[self.service]} and "
            f"{_FAILURE_ACTIONS[self.failure]}."
        )

    @property
    def ticket(self) -> str:
        """The ticket that is opened if the advice does not help."""
        return f"Then I open a ticket: {self.service} on {self.system}, {self.failure}."


PROBLEMS: Final = tuple(SupportProblem(*each) for each in product(_SERVICE_PAGES, _FAILURE_ACTIONS, _SETTINGS_PLACES))


@dataclass
class SimulatedCustomer:
    """A customer with a problem, who answers questions and then says whether the advice was right.

    Attributes:
        problem: the customer's problem.
        rng: random generator of the wording.
        stubborn: whether the right advice does not help, so that a ticket is needed.
        helped: whether the customer got everything needed.
        has_advice: whether the customer got the right advice.
    """

    problem: SupportProblem
    rng: random.Random
    stubborn: bool
    helped: bool = False
    has_advice: bool = False

    def opening_text(self) -> str:
        """Return the first turn. It names the service of the problem and, each in 40 % of the cases at random, the
        failure and the system on which the service runs.
        """
        sentences = [self._choose_text(_OPENING_TEXTS).format(self.problem.service)]
        if self.rng.random() < 0.4:
            sentences.append(self._complaint_text())
        if self.rng.random() < 0.4:
            sentences.append(self._choose_text(_SYSTEM_MENTIONS).format(self.problem.system))
        return " ".join(sentences)

    def answer(self, reply: str) -> str | None:
        """Return the answer to a reply of the help desk; None if the customer hangs up, helped or not."""
        if reply == self.problem.ticket:
            self.helped = self.has_advice and self.stubborn
            return self._choose_text(_THANKS_TEXTS) if self.helped else None
        if reply == self.problem.advice:
            self.has_advice, self.helped = True, not self.stubborn
            return self._choose_text(_FAILURE_TEXTS if self.stubborn else _SUCCESS_TEXTS)
        if reply in _FAILURE_QUESTIONS:
            return self._complaint_text()
        if reply in _SYSTEM_QUESTIONS:
            return self._choose_text(_SYSTEM_ANSWERS).format(self.problem.system)
        return None

    def _complaint_text(self) -> str:
        text = self._choose_text(_FAILURE_COMPLAINTS[self.problem.failure])
        return f"{text[0].upper()}{text[1:]}."

    def _choose_text(self, texts: Sequence[str]) -> str:
        return texts[self.rng.randrange(len(texts))]


@final
@dataclass(frozen=True)
class ExpertAgent:
    """Asks one customer for missing facts, gives the advice, and opens a ticket if that does not help."""

    customer: SimulatedCustomer

    def __call__(self, dialogues: Sequence[SpokenTurns]) -> list[str]:
        """Return the expert's replies."""
        return list(map(self._reply_to, dialogues))

    def _reply_to(self, dialogue: SpokenTurns) -> str:
        """Return the next turn: goodbye to a helped customer, the ticket after advice, a question for a fact that the
        dialogue lacks, else the advice.
        """
        problem, rng = self.customer.problem, self.customer.rng
        all_text = " ".join(text for _, text in dialogue).lower()
        if self.customer.helped:
            return _GOODBYE
        if self.customer.has_advice:
            return problem.ticket
        if not any(complaint.lower() in all_text for complaint in _FAILURE_COMPLAINTS[problem.failure]):
            return rng.choice(_FAILURE_QUESTIONS)
        return problem.advice if problem.system.lower() in all_text else rng.choice(_SYSTEM_QUESTIONS)


def simulate_dialogues(customers: Sequence[SimulatedCustomer], agent: HelpDeskAgent) -> list[SpokenTurns]:
    """Simulate the dialogues of all customers with one agent, until the customers hang up or the dialogues reach
    `MAX_TURNS`.
    """
    dialogues: list[SpokenTurns] = [[(CUSTOMER, customer.opening_text())] for customer in customers]
    waiting = list(range(len(customers)))
    while waiting:
        replies = agent([dialogues[number] for number in waiting])
        active = []
        for number, reply in zip(waiting, replies, strict=True):
            dialogue = dialogues[number]
            dialogue.append((EXPERT, reply))
            answer = None if len(dialogue) >= MAX_TURNS or reply == _GOODBYE else customers[number].answer(reply)
            if answer is not None:
                dialogue.append((CUSTOMER, answer))
                active.append(number)
        waiting = active
    return dialogues


@final
@dataclass(frozen=True)
class HelpDeskSimulator:
    """Generates dialogues about problems in three disjoint parts.

    Attributes:
        seed: random seed.
        size: number of training dialogues.
    """

    seed: int
    size: int

    held_out_counts: ClassVar[Mapping[str, int]] = {"validation": 15, "test": 30}
    """Number of problems held out for each part."""

    def select_problems(self, part: str) -> list[SupportProblem]:
        """Return the problems of a part: train, validation or test. Each service, failure and system occurs in the
        training part.
        """
        shuffled = list(PROBLEMS)
        random.Random(self.seed).shuffle(shuffled)
        validation, test = (self.held_out_counts[name] for name in ("validation", "test"))
        first, last = {"validation": (0, validation), "test": (validation, validation + test)}.get(
            part, (validation + test, len(shuffled))
        )
        return shuffled[first:last]

    def create_customers(self, part: str, count: int) -> list[SimulatedCustomer]:
        """Create `count` customers with the problems of a part in equal numbers; some are stubborn."""
        rng, problems = random.Random(f"{self.seed} {part}"), self.select_problems(part)
        return [
            SimulatedCustomer(problems[number % len(problems)], random.Random(rng.random()), rng.random() < 0.3)
            for number in range(count)
        ]

    def generate_dialogues(self, part: str) -> Iterator[SpokenTurns]:
        """Generate the dialogues of the expert with the customers of a part."""
        customers = self.create_customers(part, self.size if part == "train" else 4 * self.held_out_counts[part])
        for customer in customers:
            yield from simulate_dialogues([customer], ExpertAgent(customer))


def make_model_agent(predictor: ChatPredictor) -> HelpDeskAgent:
    """Return an agent that replies with a trained model, as in a chat."""
    return lambda dialogues: [reply.text for reply in predictor.reply([to_turns(each) for each in dialogues])]


def to_turns(dialogue: SpokenTurns) -> tuple[DialogueTurn, ...]:
    """Convert a simulated dialogue to the model's turns."""
    from heedful.tasks.conversation.data import DialogueTurn

    return tuple(DialogueTurn(speaker, text) for speaker, text in dialogue)


def _format_json_line(dialogue: SpokenTurns) -> str:
    turns = [{"speaker": speaker, "text": text} for speaker, text in dialogue]
    return json.dumps({"turns": turns}) + "\n"


def _format_dialogue(dialogue: SpokenTurns) -> str:
    return "".join(f"  {'customer' if speaker == CUSTOMER else 'desk':>8}: {text}\n" for speaker, text in dialogue)
