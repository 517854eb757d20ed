"""Attention over trees: random formulas from prefix to infix notation (Kim et al. 2017, section 4.1, table 2).

    $ ( * ( + ( + 15 7 ) 1 8 ) ( + 19 0 11 ) )      becomes      ( ( 15 + 7 ) + 1 + 8 ) * ( 19 + 0 + 11 )

Operators have to move, and where to depends on brackets far away. The decoder reads source symbols that know nothing of
each other, x_j, or that are joined by a soft parent, [x_j; sum_k p(head of j = k) x_k], which is chosen in one of two
ways from the same scores: by a softmax (simple), or as the marginals of projective dependency trees (structured).

From the paper: the symbols; a fixed set of 5,000 formulas to learn from for each depth from 2 to 4, tests on 200
unseen ones for each depth from 2 to 6; 2 to 4 expressions in a pair of brackets; embeddings as the only memory, a
bidirectional LSTM for the scores alone, s . tanh(W h_j + U h_k + b) (A.1); an LSTM decoder with bilinear attention
and tanh(U [m; h]) in front of the output (A.2); the measure, which is how much of the output is right before the
first mistake. Ours: how formulas are drawn, of which the paper says no more (see `formula`); scores without the
paper's outer tanh, which would keep a softmax over many symbols from being sure of one; a decoder that begins at
zero; Adam; all that stands in `Sizes`.

    python studies/tree_transduction.py --output runs/tree_transduction
    python studies/tree_transduction.py --output runs/tree_transduction --quick        # a minute, to see that it works
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
import tyro
from torch import Tensor, nn

from heedful.attention import Additive, Attention, Choice, DependencyTree, General, softmax
from heedful.blocks.embedding import TokenEmbedding, embedding_table
from heedful.blocks.readout import DeepOutput
from heedful.blocks.recurrent import LSTM, Bidirectional, CellState, Forward, RecurrentStack
from heedful.data.bucketing import plan_batches
from heedful.data.tokenizers import BOS, EOS, PAD, UNK
from heedful.inspection.plots import Line, line_plot
from heedful.models.interface import Encoder
from heedful.models.recurrent_decoder import LuongDecoder, Reading, Start
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.tasks.likelihood import cross_entropy
from heedful.training.optimizers import Adam
from heedful.training.schedules import Cosine
from heedful.values import Memory, Tokens

OPERATORS = ("+", "*")
SYMBOLS = ("$", "(", ")", *OPERATORS, *map(str, range(21)))
IDS = {symbol: number for number, symbol in enumerate(SYMBOLS, start=max(PAD, BOS, EOS, UNK) + 1)}
NESTED = 0.3
"""How often an expression is a formula where it could as well be a number."""

CHOICES: Mapping[str, Callable[[], Choice] | None] = {
    "none": None,
    "simple": lambda: softmax,
    "structured": DependencyTree,
}


@dataclass(frozen=True)
class Sizes:
    """How much is computed.

    Attributes:
        train_depths, test_depths: of formulas.
        train, test: formulas of each depth.
        d: width of embeddings and states.
        epochs: over the formulas of training.
        batch_symbols: target symbols of an update, padding included.
        rate: of Adam at its highest; it rises for a twentieth of the updates and falls as half a cosine to nothing.
        clip: largest norm of a gradient.
        seed: of formulas, weights and their order.
    """

    train_depths: tuple[int, ...] = (2, 3, 4)
    test_depths: tuple[int, ...] = (2, 3, 4, 5, 6)
    train: int = 5000
    test: int = 200
    d: int = 50
    epochs: int = 25
    batch_symbols: int = 1500
    rate: float = 3e-3
    clip: float = 1.0
    seed: int = 1


QUICK = Sizes(train=600, test=30, epochs=4, d=32, batch_symbols=600)


@dataclass(frozen=True)
class Options:
    """Soft parents by none, simple and structured attention, and how far each rewrites formulas of each depth."""

    output: Path
    """folder for table, numbers and figure"""
    quick: bool = False
    """small sizes: whether it works"""
    seed: int = 1
    """of formulas and weights"""


@dataclass(frozen=True)
class Formula:
    """An operator over expressions, which are numbers or formulas."""

    operator: str
    parts: tuple[Formula | int, ...]

    def depth(self) -> int:
        """Brackets around the innermost numbers."""
        return 1 + max(part.depth() if isinstance(part, Formula) else 0 for part in self.parts)

    def prefix(self) -> list[str]:
        """The operator, then what it is applied to."""
        inner = [
            symbol for part in self.parts for symbol in (part.prefix() if isinstance(part, Formula) else [str(part)])
        ]
        return ["(", self.operator, *inner, ")"]

    def infix(self) -> list[str]:
        """The operator between what it is applied to; no brackets around the whole."""
        symbols: list[str] = []
        for part in self.parts:
            symbols += [self.operator, *(["(", *part.infix(), ")"] if isinstance(part, Formula) else [str(part)])]
        return symbols[1:]


def formula(depth: int, *, dice: random.Random) -> Formula:
    """A formula of this depth: one of its two to four expressions is one less deep, and `NESTED` of the others are
    formulas of any smaller depth."""
    count = dice.randint(2, 4)
    deepest = dice.randrange(count)
    depths = [dice.randint(1, depth - 1) if depth > 1 and dice.random() < NESTED else 0 for _ in range(count)]
    depths[deepest] = depth - 1
    parts = tuple(formula(each, dice=dice) if each else dice.randint(0, 20) for each in depths)
    return Formula(dice.choice(OPERATORS), parts)


def formulas(depths: Sequence[int], count: int, *, dice: random.Random, seen: set[Formula]) -> list[Formula]:
    """So many new ones of each depth, in the order of depths; they are added to what was seen."""
    found: list[Formula] = []
    for depth in depths:
        wanted = len(found) + count
        while len(found) < wanted:
            drawn = formula(depth, dice=dice)
            if drawn not in seen:
                seen.add(drawn)
                found.append(drawn)
    return found


@dataclass(frozen=True)
class Pair:
    """A formula as ids: `$` and the prefix form; the infix form and an end."""

    source: tuple[int, ...]
    target: tuple[int, ...]

    @classmethod
    def of(cls, each: Formula) -> Pair:
        """Both forms."""
        source = (IDS["$"], *(IDS[symbol] for symbol in each.prefix()))
        return cls(source, (*(IDS[symbol] for symbol in each.infix()), EOS))


@dataclass(frozen=True)
class Batch:
    """Pairs, padded on the right; at each place of the target the model reads `target` and should write `labels`."""

    source: Tokens
    target: Tokens
    labels: Tensor

    @classmethod
    def of(cls, pairs: Sequence[Pair]) -> Batch:
        """Side by side."""
        source = _padded([each.source for each in pairs])
        target = _padded([(BOS, *each.target[:-1]) for each in pairs])
        return cls(Tokens.of(source, pad=PAD), Tokens.of(target, pad=PAD), _padded([each.target for each in pairs]))


def data(sizes: Sizes) -> tuple[list[Pair], dict[int, list[Pair]]]:
    """Pairs to learn from, and by depth pairs to be tested on; no formula occurs twice."""
    dice, seen = random.Random(sizes.seed), set[Formula]()
    learned = formulas(sizes.train_depths, sizes.train, dice=dice, seen=seen)
    tested = {depth: formulas([depth], sizes.test, dice=dice, seen=seen) for depth in sizes.test_depths}
    return [Pair.of(each) for each in learned], {
        depth: [Pair.of(each) for each in some] for depth, some in tested.items()
    }


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


class SoftParent(nn.Module):
    """sum_k p(head of j = k) x_k, with scores from both directions of an LSTM."""

    def __init__(self, d: int, choose: Choice) -> None:
        super().__init__()
        self.stack = RecurrentStack([Bidirectional(LSTM(d, d), LSTM(d, d))])
        self.attention = Attention(Additive(2 * d, 2 * d, d), choose)

    def forward(self, x: Tensor, *, positions: Tensor) -> Tensor:
        """[B, T, d] to [B, T, d]."""
        states, _ = self.stack(x, self.stack.begin(len(x), x), positions=positions)
        real = positions >= 0
        visible = real.unsqueeze(1) & real.unsqueeze(2)
        context: Tensor = self.attention(states, self.attention.score.project(states), value=x, visible=visible)
        return context


class Symbols(Encoder[Tokens]):
    """Embeddings as they are, each beside its soft parent if there is one."""

    def __init__(self, embedding: TokenEmbedding, parent: SoftParent | None) -> None:
        super().__init__()
        self.embedding = embedding
        self.parent = parent

    def forward(self, source: Tokens) -> Memory:
        """A slot for each symbol, and zeros to start from."""
        x = self.embedding(source)
        slots = x if self.parent is None else torch.cat((x, self.parent(x, positions=source.positions)), 2)
        return Memory(slots, slots, source.positions, torch.zeros_like(x[:, 0]))


class FromNothing(Start):
    """The summary, which is zeros, and an empty cell."""

    def forward(self, summary: Tensor) -> tuple[CellState, ...]:
        """One layer."""
        return (LSTM.begin(summary),)


def transducer(choose: Choice | None, *, d: int) -> SequenceToSequence[Tokens]:
    """The whole model, with this choice of parents."""
    size = len(SYMBOLS) + min(IDS.values())
    d_memory = d if choose is None else 2 * d
    encoder = Symbols(TokenEmbedding(embedding_table(size, d)), None if choose is None else SoftParent(d, choose))
    decoder = LuongDecoder(
        TokenEmbedding(embedding_table(size, d)),
        RecurrentStack([Forward(LSTM(d, d))]),
        reading=Reading(Attention(General(d, d_memory)), start=FromNothing()),
        readout=DeepOutput((d, d_memory), d, activation=nn.Tanh()),
    )
    return SequenceToSequence(encoder, decoder, output=nn.Linear(d, size))


def right_until_failure(model: SequenceToSequence[Tokens], pairs: Sequence[Pair]) -> list[float]:
    """For each pair the share of its output, the end included, that stands before the first mistake.

    Until it makes a mistake, greedy search reads what is right, so one pass over the right output finds its place; 1 is
    an output that is right as a whole.
    """
    shares: list[float] = []
    for start in range(0, len(pairs), 20):
        batch = Batch.of(pairs[start : start + 20])
        with torch.no_grad():
            logits = model.output(model(batch.source, batch.target))
        logits[..., PAD] = -torch.inf
        right = (logits.argmax(-1) == batch.labels).long().cumprod(1).sum(1)
        shares += (right / (batch.labels != PAD).sum(1)).tolist()
    return shares


@dataclass(frozen=True)
class Outcome:
    """What became of one training.

    Attributes:
        losses: mean negative log-likelihood of a symbol, in nats, of each epoch.
        until_failure: by depth, percent of the output that is right before the first mistake.
        exact: by depth, percent of formulas rewritten without a mistake.
        parameters: numbers that were learned.
        minutes: of training.
    """

    losses: tuple[float, ...]
    until_failure: dict[int, float]
    exact: dict[int, float]
    parameters: int
    minutes: float


def learn(name: str, *, sizes: Sizes, say: Callable[[str], None]) -> Outcome:
    """Trains one model; formulas depend on the seed alone, so all models learn and are tested on the same ones."""
    train, tests = data(sizes)
    torch.manual_seed(sizes.seed)
    choose = CHOICES[name]
    model = transducer(None if choose is None else choose(), d=sizes.d)
    lengths = np.array([(len(each.source), len(each.target)) for each in train])
    plans = [
        plan_batches(lengths, tokens=sizes.batch_symbols, seed=sizes.seed, epoch=epoch) for epoch in range(sizes.epochs)
    ]
    adam = Adam(dict(model.named_parameters()))
    steps = sum(map(len, plans))
    schedule = Cosine(sizes.rate, warmup=steps // 20, steps=steps)
    losses: list[float] = []
    step, began = 0, time.perf_counter()
    for plan in plans:
        total, count = 0.0, 0
        for rows in plan:
            step += 1
            loss, symbols = _update(model, Batch.of([train[row] for row in rows]), clip=sizes.clip)
            adam.update(schedule.rate(step))
            total, count = total + loss, count + symbols
        losses.append(total / count)
        minutes = (time.perf_counter() - began) / 60
        say(f"{name}, epoch {len(losses)} of {sizes.epochs}: {losses[-1]:.4f} nats a symbol, {minutes:.1f} minutes")
    shares = {depth: right_until_failure(model, pairs) for depth, pairs in tests.items()}
    return Outcome(
        tuple(losses),
        {depth: 100 * sum(each) / len(each) for depth, each in shares.items()},
        {depth: 100 * sum(share == 1 for share in each) / len(each) for depth, each in shares.items()},
        sum(parameter.numel() for parameter in model.parameters()),
        minutes,
    )


def _update(model: SequenceToSequence[Tokens], batch: Batch, *, clip: float) -> tuple[float, int]:
    """Leaves the gradient of the mean loss in the parameters; the loss of all symbols, and how many there are."""
    real = (batch.labels != PAD).flatten().nonzero().squeeze(1)
    hidden = model(batch.source, batch.target).flatten(0, 1).index_select(0, real)
    loss, _ = cross_entropy(hidden, batch.labels.flatten().index_select(0, real), output=model.output)
    (loss / len(real)).backward()  # type: ignore[no-untyped-call]  # torch's
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    return loss.item(), len(real)


def table(found: Mapping[str, Outcome]) -> str:
    """Markdown: both measures by depth, and what a model costs."""
    depths = list(next(iter(found.values())).exact)
    head = ["parents", *(f"depth {depth}" for depth in depths), "parameters", "minutes"]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for name, each in found.items():
        shares = [f"{each.until_failure[depth]:.1f} ({each.exact[depth]:.1f})" for depth in depths]
        rows.append([name, *shares, f"{each.parameters:,}", f"{each.minutes:.1f}"])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def figure(found: Mapping[str, Outcome]) -> str:
    """The share before the first mistake by depth, as SVG."""
    lines = [Line(name, tuple(each.until_failure.items())) for name, each in found.items()]
    ticks = [(depth, str(depth)) for depth in next(iter(found.values())).exact]
    return line_plot(
        lines,
        title="Formulas from prefix to infix",
        x_name="depth of the formula",
        y_name="percent of the output before the first mistake",
        x_ticks=ticks,
        y_from=0,
    )


def publish(found: Mapping[str, Outcome], sizes: Sizes, *, output: Path) -> None:
    """table.md, numbers.json and tree_transduction.svg into the folder; the table on the screen too."""
    output.mkdir(parents=True, exist_ok=True)
    print(text := table(found), end="")
    (output / "table.md").write_text(text, encoding="utf-8")
    content = {"sizes": asdict(sizes), "found": {name: asdict(each) for name, each in found.items()}}
    (output / "numbers.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (output / "tree_transduction.svg").write_text(figure(found), encoding="utf-8")


def main() -> None:
    """Reads the command line, trains, prints the table and writes everything down."""
    options = tyro.cli(Options, description=__doc__)
    torch.set_num_threads(1)
    sizes = replace(QUICK if options.quick else Sizes(), seed=options.seed)
    found = {name: learn(name, sizes=sizes, say=lambda line: print(line, flush=True)) for name in CHOICES}
    publish(found, sizes, output=options.output)


if __name__ == "__main__":
    main()
