"""Attention over trees: random formulas from prefix to infix notation (Kim et al. 2017, section 4.1, table 2).

    $ ( * ( + ( + 15 7 ) 1 8 ) ( + 19 0 11 ) )      becomes      ( ( 15 + 7 ) + 1 + 8 ) * ( 19 + 0 + 11 )

Operators must move, and their new position depends on brackets far away. The decoder reads a memory slot for each
source symbol. The slot is the embedding alone, x_j, or the embedding with a soft parent,
[x_j; sum_k p(head of j = k) x_k]. The probabilities come from the same scores in one of two ways: by a softmax
(simple), or as the marginals of projective dependency trees (structured).

From the paper: the symbols; a fixed training set of 5,000 formulas for each depth from 2 to 4, and tests on 200 unseen
formulas for each depth from 2 to 6; 2 to 4 expressions in a pair of brackets; embeddings as the only memory, with a
bidirectional LSTM for the scores only, s . tanh(W h_j + U h_k + b) (A.1); an LSTM decoder with bilinear attention and
tanh(U [m; h]) in front of the output (A.2); the measure, which is the share of the output that is correct before the
first mistake.

Our own choices: the distribution of the formulas, for which the paper gives no more detail (see `sample_formula`);
scores without the paper's outer tanh, which would prevent a softmax over many symbols from choosing one clearly; a
decoder that starts at zero; Adam; the numbers in `Sizes`.

    python studies/tree_transduction.py --output runs/tree_transduction
    python studies/tree_transduction.py --output runs/tree_transduction --quick        # a quick test of about a minute
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
from torch import Tensor, nn

from heedful.attention import AdditiveScore, Attention, DependencyTree, GeneralScore, Normalizer, softmax
from heedful.blocks.embedding import TokenEmbedding, build_embedding
from heedful.blocks.feedforward import DeepOutput
from heedful.blocks.recurrent import LSTM, BidirectionalLayer, CellState, RecurrentStack, UnidirectionalLayer
from heedful.cli.arguments import parse_script_arguments
from heedful.data.batches import batch_by_size
from heedful.data.tokenizers import BOS, EOS, PAD, UNK
from heedful.inspection.plots import PlotLine, draw_line_plot
from heedful.models.generative import SequenceToSequence
from heedful.models.interface import Encoder
from heedful.models.predictions import cross_entropy
from heedful.models.recurrent_decoder import LuongDecoder, SourceAttention, StateInit
from heedful.tensors import Memory, Tokens
from heedful.training.optimizers import Adam, CosineSchedule

OPERATORS = ("+", "*")
SYMBOLS = ("$", "(", ")", *OPERATORS, *map(str, range(21)))
IDS = {symbol: number for number, symbol in enumerate(SYMBOLS, start=max(PAD, BOS, EOS, UNK) + 1)}
NESTED = 0.3
"""Probability that an expression is a formula where it may also be a number."""

CHOICES: Mapping[str, Callable[[], Normalizer] | None] = {
    "none": None,
    "simple": lambda: softmax,
    "structured": DependencyTree,
}


@dataclass(frozen=True)
class Sizes:
    """Sizes and hyperparameters of the study.

    Attributes:
        train_depths, test_depths: depths of the formulas.
        train, test: number of formulas of each depth.
        d: width of embeddings and states.
        epochs: passes over the training formulas.
        batch_symbols: number of target symbols in an update, padding included.
        rate: highest learning rate of Adam; it rises for a twentieth of the updates and falls to 0 as half a cosine.
        clip: maximum norm of a gradient.
        seed: random seed of the formulas, of the weights and of the order.
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
    """How much of a formula each kind of soft parent (none, simple, structured) rewrites correctly, by depth."""

    output: Path
    """output folder for the table, the numbers and the figure"""
    quick: bool = False
    """use small sizes, to test that the study works"""
    seed: int = 1
    """random seed of formulas and weights"""


@dataclass(frozen=True)
class Formula:
    """An operator with two to four operands, which are numbers or formulas."""

    operator: str
    parts: tuple[Formula | int, ...]

    def compute_depth(self) -> int:
        """Return the number of brackets around the innermost numbers."""
        return 1 + max(part.compute_depth() if isinstance(part, Formula) else 0 for part in self.parts)

    def to_prefix(self) -> list[str]:
        """Return the symbols in prefix notation: the operator, then its operands."""
        inner = [
            symbol for part in self.parts for symbol in (part.to_prefix() if isinstance(part, Formula) else [str(part)])
        ]
        return ["(", self.operator, *inner, ")"]

    def to_infix(self) -> list[str]:
        """Return the symbols in infix notation, without brackets around the whole formula."""
        symbols: list[str] = []
        for part in self.parts:
            symbols += [self.operator, *(["(", *part.to_infix(), ")"] if isinstance(part, Formula) else [str(part)])]
        return symbols[1:]


def sample_formula(depth: int, *, rng: random.Random) -> Formula:
    """Sample a formula of this depth, with two to four operands.

    One operand has depth `depth - 1`. Each of the others is a formula of any smaller depth with probability `NESTED`,
    and otherwise a number.
    """
    count = rng.randint(2, 4)
    deepest = rng.randrange(count)
    depths = [rng.randint(1, depth - 1) if depth > 1 and rng.random() < NESTED else 0 for _ in range(count)]
    depths[deepest] = depth - 1
    parts = tuple(sample_formula(part_depth, rng=rng) if part_depth else rng.randint(0, 20) for part_depth in depths)
    return Formula(rng.choice(OPERATORS), parts)


def sample_formulas(depths: Sequence[int], count: int, *, rng: random.Random, seen: set[Formula]) -> list[Formula]:
    """Sample `count` formulas of each depth that are not in `seen`, and add them to `seen`."""
    samples: list[Formula] = []
    for depth in depths:
        target_count = len(samples) + count
        while len(samples) < target_count:
            sample = sample_formula(depth, rng=rng)
            if sample not in seen:
                seen.add(sample)
                samples.append(sample)
    return samples


@dataclass(frozen=True)
class Pair:
    """A formula as token ids: the source is `$` and the prefix form, the target the infix form and EOS."""

    source: tuple[int, ...]
    target: tuple[int, ...]

    @classmethod
    def from_formula(cls, formula: Formula) -> Pair:
        """Encode both notations of a formula."""
        source = (IDS["$"], *(IDS[symbol] for symbol in formula.to_prefix()))
        return cls(source, (*(IDS[symbol] for symbol in formula.to_infix()), EOS))


@dataclass(frozen=True)
class Batch:
    """Pairs padded on the right; at each position the decoder reads `target` and should predict `labels`."""

    source: Tokens
    target: Tokens
    labels: Tensor

    @classmethod
    def from_pairs(cls, pairs: Sequence[Pair]) -> Batch:
        """Pad and stack the pairs."""
        source = _pad_rows([pair.source for pair in pairs])
        target = _pad_rows([(BOS, *pair.target[:-1]) for pair in pairs])
        labels = _pad_rows([pair.target for pair in pairs])
        return cls(Tokens.from_ids(source, pad=PAD), Tokens.from_ids(target, pad=PAD), labels)


def sample_pairs(sizes: Sizes) -> tuple[list[Pair], dict[int, list[Pair]]]:
    """Sample the training pairs, and the test pairs by depth; no formula occurs twice."""
    rng, seen = random.Random(sizes.seed), set[Formula]()
    train = sample_formulas(sizes.train_depths, sizes.train, rng=rng, seen=seen)
    tests = {depth: sample_formulas([depth], sizes.test, rng=rng, seen=seen) for depth in sizes.test_depths}
    return [Pair.from_formula(sample) for sample in train], {
        depth: [Pair.from_formula(sample) for sample in samples] for depth, samples in tests.items()
    }


def _pad_rows(rows: Sequence[Sequence[int]]) -> Tensor:
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


class SoftParent(nn.Module):
    """Attention to the soft parent, sum_k p(head of j = k) x_k, with scores from a bidirectional LSTM."""

    def __init__(self, d: int, choose: Normalizer) -> None:
        super().__init__()
        self.stack = RecurrentStack([BidirectionalLayer(LSTM(d, d), LSTM(d, d))])
        self.attention = Attention(AdditiveScore(2 * d, 2 * d, d), choose)

    def forward(self, x: Tensor, *, positions: Tensor) -> Tensor:
        """Return the soft parent of each symbol, [B, T, d]."""
        states, _ = self.stack(x, self.stack.init_state(len(x), x), positions=positions)
        is_token = positions >= 0
        visible = is_token.unsqueeze(1) & is_token.unsqueeze(2)
        context: Tensor = self.attention(states, self.attention.score.project(states), value=x, visible=visible)
        return context


class SymbolEncoder(Encoder[Tokens]):
    """Encoder whose memory is the embeddings, concatenated with the soft parents if there are any."""

    def __init__(self, embedding: TokenEmbedding, parent: SoftParent | None) -> None:
        super().__init__()
        self.embedding = embedding
        self.parent = parent

    def forward(self, source: Tokens) -> Memory:
        """Return a memory slot for each symbol, and a summary of zeros."""
        x = self.embedding(source)
        slots = x if self.parent is None else torch.cat((x, self.parent(x, positions=source.positions)), 2)
        return Memory(slots, slots, source.positions, torch.zeros_like(x[:, 0]))


class ZeroStateInit(StateInit):
    """Initial decoder state: the summary, which is zeros, and a cell of zeros."""

    def forward(self, summary: Tensor) -> tuple[CellState, ...]:
        """Return the initial state of the only layer."""
        return (LSTM.init_state(summary),)


def build_transducer(choose: Normalizer | None, *, d: int) -> SequenceToSequence[Tokens]:
    """Build the model with this normalizer of the soft parents; None for no parents."""
    size = len(SYMBOLS) + min(IDS.values())
    d_memory = d if choose is None else 2 * d
    encoder = SymbolEncoder(TokenEmbedding(build_embedding(size, d)), None if choose is None else SoftParent(d, choose))
    decoder = LuongDecoder(
        TokenEmbedding(build_embedding(size, d)),
        RecurrentStack([UnidirectionalLayer(LSTM(d, d))]),
        reading=SourceAttention(Attention(GeneralScore(d, d_memory)), start=ZeroStateInit()),
        readout=DeepOutput((d, d_memory), d, activation=nn.Tanh()),
    )
    return SequenceToSequence(encoder, decoder, output=nn.Linear(d, size))


def measure_correct_shares(model: SequenceToSequence[Tokens], pairs: Sequence[Pair]) -> list[float]:
    """Compute for each pair the share of its target, EOS included, that is correct before the first mistake.

    Until the first mistake, greedy search reads the correct symbols, so one pass over the correct target finds the
    position of the mistake. A share of 1 means that the whole output is correct.
    """
    shares: list[float] = []
    for start in range(0, len(pairs), 20):
        batch = Batch.from_pairs(pairs[start : start + 20])
        with torch.no_grad():
            logits = model.output(model(batch.source, batch.target))
        logits[..., PAD] = -torch.inf
        correct = (logits.argmax(-1) == batch.labels).long().cumprod(1).sum(1)
        shares += (correct / (batch.labels != PAD).sum(1)).tolist()
    return shares


@dataclass(frozen=True)
class Outcome:
    """Results of one training.

    Attributes:
        losses: mean negative log-likelihood of a symbol in each epoch, in nats.
        until_failure: percentage of the output that is correct before the first mistake, by depth.
        exact: percentage of formulas rewritten without a mistake, by depth.
        parameters: number of trained parameters.
        minutes: duration of the training.
    """

    losses: tuple[float, ...]
    until_failure: dict[int, float]
    exact: dict[int, float]
    parameters: int
    minutes: float


def train_model(name: str, *, sizes: Sizes, log: Callable[[str], None]) -> Outcome:
    """Train and test one model; the formulas depend only on the seed, so all models get the same ones."""
    train, tests = sample_pairs(sizes)
    torch.manual_seed(sizes.seed)
    choose = CHOICES[name]
    model = build_transducer(None if choose is None else choose(), d=sizes.d)
    lengths = np.array([(len(pair.source), len(pair.target)) for pair in train])
    plans = [
        batch_by_size(lengths, max_tokens=sizes.batch_symbols, seed=sizes.seed, epoch=epoch)
        for epoch in range(sizes.epochs)
    ]
    adam = Adam(dict(model.named_parameters()))
    steps = sum(map(len, plans))
    schedule = CosineSchedule(sizes.rate, warmup=steps // 20, steps=steps)
    losses: list[float] = []
    step, start = 0, time.perf_counter()
    for plan in plans:
        total, count = 0.0, 0
        for rows in plan:
            step += 1
            loss, symbols = _compute_gradients(model, Batch.from_pairs([train[row] for row in rows]), clip=sizes.clip)
            adam.step(schedule.get_rate(step))
            total, count = total + loss, count + symbols
        losses.append(total / count)
        minutes = (time.perf_counter() - start) / 60
        log(f"{name}, epoch {len(losses)} of {sizes.epochs}: {losses[-1]:.4f} nats a symbol, {minutes:.1f} minutes")
    shares = {depth: measure_correct_shares(model, pairs) for depth, pairs in tests.items()}
    return Outcome(
        tuple(losses),
        {depth: 100 * sum(values) / len(values) for depth, values in shares.items()},
        {depth: 100 * sum(share == 1 for share in values) / len(values) for depth, values in shares.items()},
        sum(parameter.numel() for parameter in model.parameters()),
        minutes,
    )


def _compute_gradients(model: SequenceToSequence[Tokens], batch: Batch, *, clip: float) -> tuple[float, int]:
    """Compute the gradient of the mean loss; return the summed loss and the number of symbols."""
    rows = (batch.labels != PAD).flatten().nonzero().squeeze(1)
    hidden = model(batch.source, batch.target).flatten(0, 1).index_select(0, rows)
    loss, _ = cross_entropy(hidden, batch.labels.flatten().index_select(0, rows), output=model.output)
    (loss / len(rows)).backward()  # type: ignore[no-untyped-call]  # torch's
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    return loss.item(), len(rows)


def format_table(outcomes: Mapping[str, Outcome]) -> str:
    """Return a Markdown table of both measures by depth, the parameters and the minutes."""
    depths = list(next(iter(outcomes.values())).exact)
    head = ["parents", *(f"depth {depth}" for depth in depths), "parameters", "minutes"]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for name, outcome in outcomes.items():
        shares = [f"{outcome.until_failure[depth]:.1f} ({outcome.exact[depth]:.1f})" for depth in depths]
        rows.append([name, *shares, f"{outcome.parameters:,}", f"{outcome.minutes:.1f}"])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def draw_figure(outcomes: Mapping[str, Outcome]) -> str:
    """Draw the share before the first mistake by depth as SVG."""
    lines = [PlotLine(name, tuple(outcome.until_failure.items())) for name, outcome in outcomes.items()]
    ticks = [(depth, str(depth)) for depth in next(iter(outcomes.values())).exact]
    return draw_line_plot(
        lines,
        title="Formulas from prefix to infix",
        x_name="depth of the formula",
        y_name="percent of the output before the first mistake",
        x_ticks=ticks,
        y_include=0,
    )


def write_results(outcomes: Mapping[str, Outcome], sizes: Sizes, *, output: Path) -> None:
    """Write table.md, numbers.json and tree_transduction.svg into the folder, and print the table."""
    output.mkdir(parents=True, exist_ok=True)
    print(text := format_table(outcomes), end="")
    (output / "table.md").write_text(text, encoding="utf-8")
    content = {"sizes": asdict(sizes), "found": {name: asdict(outcome) for name, outcome in outcomes.items()}}
    (output / "numbers.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (output / "tree_transduction.svg").write_text(draw_figure(outcomes), encoding="utf-8")


def main() -> None:
    """Read the command line, train all models, print the table and write all results."""
    options = parse_script_arguments(Options, __file__)
    torch.set_num_threads(1)
    sizes = replace(QUICK if options.quick else Sizes(), seed=options.seed)
    outcomes = {name: train_model(name, sizes=sizes, log=lambda line: print(line, flush=True)) for name in CHOICES}
    write_results(outcomes, sizes, output=options.output)


if __name__ == "__main__":
    main()
