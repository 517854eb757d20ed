"""Multi-head attention as convolution: exactly by construction, and nearly so when it learns to read digits.

Cordonnier et al. 2020 prove (theorem 1) that K^2 heads with the quadratic relative encoding express any K x K
convolution: each head looks at one pixel of the kernel's window, its values are the pixel itself, and W_O holds the
kernel. And they find that heads which learn where to look go to a grid around the query, as a convolution's window.

First, a random 3 x 3 convolution is rebuilt from nine heads and compared. A softmax must look somewhere: where the
window leaves the image, a head would take the nearest pixel instead of a zero. So the keys have a ring of zero pixels
around the image, which is what zero padding is; without it only the interior is a convolution.

Then a small stack of attention layers without queries (only the spots of the heads decide where they look) learns
handwritten digits from blocks of 2 x 2 of their 14 x 14 pixels; the way of each head's centre is drawn.

    python studies/attention_as_convolution.py --digits data/mnist10k --output runs/heads
    python studies/attention_as_convolution.py --digits data/mnist10k --output runs/heads --quick    # whether it works
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
import tyro
from digits import read_digits
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention import MultiHeadAttention, Quadratic, Sight
from heedful.blocks.feedforward import FeedForward
from heedful.blocks.residual import PreNorm
from heedful.blocks.state import LayerState
from heedful.blocks.transformer import TransformerLayer
from heedful.errors import DataError
from heedful.inspection.plots import Line, line_plot

OFFSETS = tuple((row, column) for row in (-1, 0, 1) for column in (-1, 0, 1))
"""Of the window of a 3 x 3 kernel, in the order of its weights."""
_SIDE, _PATCH = 14, 2


@dataclass(frozen=True)
class Sizes:
    """How much is computed.

    Attributes:
        alpha: how narrowly the heads of the construction look.
        layers, d: of the reader of digits; nine heads.
        digits: at most so many of each; a tenth of them are kept for testing.
        epochs, batch, rate: of the training with Adam, the rate falling to 0 as a cosine does.
        seed: of weights, digits and order.
    """

    alpha: float = 50.0
    layers: int = 3
    d: int = 72
    digits: int = 1000
    epochs: int = 40
    batch: int = 100
    rate: float = 2e-3
    seed: int = 1


QUICK = Sizes(layers=2, digits=100, epochs=3)


@dataclass(frozen=True)
class Options:
    """Multi-head attention as convolution."""

    digits: Path
    """folder of digit0.u8.gz ... digit9.u8.gz, images of 28 x 28 bytes"""
    output: Path
    """folder for table, numbers and figures"""
    quick: bool = False
    """small sizes: whether it works"""
    epochs: int | None = None
    """passes over the digits, if others than usual"""
    seed: int = 1
    """of weights, digits and order"""


class AttentiveConvolution(nn.Module):
    """A given 3 x 3 convolution as nine heads of attention (Cordonnier et al. 2020, theorem 1).

    Args:
        kernel: [outputs, inputs, 3, 3].
        bias: [outputs].
        columns: pixels in a row of the image.
        alpha: how narrowly heads look.
        ring: whether there are zero pixels around the image to look at.
    """

    def __init__(self, kernel: Tensor, bias: Tensor, *, columns: int, alpha: float, ring: bool = True) -> None:
        super().__init__()
        outputs, inputs = kernel.shape[:2]
        width, heads = len(OFFSETS) * inputs, len(OFFSETS)
        assert outputs <= width, f"{heads} heads of {inputs} entries make at most {width} outputs"
        self.outputs, self.ring = outputs, ring
        relative = Quadratic(heads, columns + 2 * ring, alpha=alpha)
        self.attention = MultiHeadAttention(width, heads, d_memory=inputs, relative=relative)
        with torch.no_grad():
            for parameter in self.attention.parameters():
                parameter.zero_()
            relative.alpha.fill_(alpha)
            relative.centre.copy_(torch.tensor(OFFSETS))
            values = self.attention.key_value.weight[width:]
            values.copy_(torch.eye(inputs).repeat(heads, 1))  # each head sees the pixel as it is
            joined = self.attention.aggregation.output
            joined.weight[:outputs].copy_(kernel.permute(0, 2, 3, 1).flatten(1))
            joined.bias[:outputs].copy_(bias)

    def forward(self, images: Tensor) -> Tensor:
        """[B, inputs, rows, columns] to [B, outputs, rows, columns]."""
        edge = int(self.ring)
        padded = functional.pad(images, (edge,) * 4)
        rows, columns = padded.shape[2:]
        grid = torch.arange(rows * columns).view(rows, columns)
        asked = grid[edge : rows - edge, edge : columns - edge].flatten().expand(len(images), -1)
        keys, there = padded.flatten(2).mT, grid.flatten().expand(len(images), -1)
        nothing = images.new_zeros(*asked.shape, self.attention.query.in_features)
        sight = Sight(asked, there, None, None, None)
        found = self.attention(nothing, self.attention.remember(keys, keys, there), sight=sight)
        return found[..., : self.outputs].mT.unflatten(2, images.shape[2:])


def construction_errors(sizes: Sizes) -> dict[str, float]:
    """The largest differences to a random convolution with zero padding, everywhere and inside alone."""
    torch.manual_seed(sizes.seed)
    convolution, images = nn.Conv2d(5, 7, 3, padding=1), torch.randn(4, 5, 9, 11)
    found = {}
    with torch.no_grad():
        expected = convolution(images)
        for name, ring in (("with a ring of zeros", True), ("without", False)):
            attentive = AttentiveConvolution(
                convolution.weight, convolution.bias, columns=11, alpha=sizes.alpha, ring=ring
            )
            error = (attentive(images) - expected).abs()
            found[f"{name}, all pixels"] = float(error.max())
            found[f"{name}, inside"] = float(error[..., 1:-1, 1:-1].max())
    return found


class Reader(nn.Module):
    """Blocks of pixels, attention that knows where heads look and nothing else, their mean, ten logits."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.side = _SIDE // _PATCH
        self.embedding = nn.Linear(_PATCH**2, sizes.d)
        self.layers = nn.ModuleList(_layer(sizes.d, self.side) for _ in range(sizes.layers))
        self.norm, self.logits = nn.LayerNorm(sizes.d), nn.Linear(sizes.d, 10)

    def forward(self, images: Tensor) -> Tensor:
        """[B, 14, 14] to [B, 10]."""
        blocks = images.unflatten(1, (self.side, _PATCH)).unflatten(3, (self.side, _PATCH))
        x = self.embedding(blocks.permute(0, 1, 3, 2, 4).flatten(3).flatten(1, 2))
        at = torch.arange(x.size(1)).expand(len(x), -1)
        sight = Sight(at, at, None, None, None)
        for layer in self.layers:
            x, _ = layer(x, LayerState(), sight=sight, across={})
        return self.logits(self.norm(x).mean(1))

    def centres(self) -> Tensor:
        """[layers, heads, 2]."""
        return torch.stack([layer.attention.relative.centre.detach().clone() for layer in self.layers])


def _layer(d: int, side: int) -> TransformerLayer:
    attention = MultiHeadAttention(d, len(OFFSETS), relative=Quadratic(len(OFFSETS), side))
    for parameter in attention.query.parameters():
        nn.init.zeros_(parameter).requires_grad_(False)  # what is in a pixel says nothing about where to look
    return TransformerLayer(attention, FeedForward(d, 2 * d, activation=nn.GELU()), residual=lambda: PreNorm(d))


def halved(pixels: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Images [N, 14, 14] between 0 and 1, each pixel the mean of four, and the digits [N]."""
    images = torch.cat(pixels).unsqueeze(1).float() / 255
    digits = [torch.full((len(some),), digit) for digit, some in enumerate(pixels)]
    return functional.avg_pool2d(images, 2).squeeze(1), torch.cat(digits)


@dataclass(frozen=True)
class Learned:
    """What became of the training.

    Attributes:
        accuracy: on digits that were kept for testing, after each epoch.
        centres: [epochs + 1, layers, heads, 2], where heads looked before and after each epoch.
        alpha: [layers, heads], in the end.
        seconds: of the training.
    """

    accuracy: list[float]
    centres: list[list[list[list[float]]]]
    alpha: list[list[float]]
    seconds: float


def learn(images: Tensor, digits: Tensor, sizes: Sizes, *, say: Callable[[str], None]) -> Learned:
    """Trains a reader on nine tenths of the digits."""
    torch.manual_seed(sizes.seed)
    order = torch.randperm(len(images))
    test, training = order[: len(order) // 10], order[len(order) // 10 :]
    reader = Reader(sizes)
    adam = torch.optim.Adam([p for p in reader.parameters() if p.requires_grad], sizes.rate)
    steps = sizes.epochs * -(-len(training) // sizes.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    accuracy: list[float] = []
    centres, began = [reader.centres().tolist()], time.perf_counter()
    for epoch in range(sizes.epochs):
        reader.train()
        for rows in training[torch.randperm(len(training))].split(sizes.batch):
            adam.zero_grad()
            functional.cross_entropy(reader(_shifted(images[rows])), digits[rows]).backward()
            adam.step()
            schedule.step()
        reader.eval()
        with torch.no_grad():
            right = [(reader(images[rows]).argmax(1) == digits[rows]).sum() for rows in test.split(500)]
        accuracy.append(float(sum(right)) / len(test))
        centres.append(reader.centres().tolist())
        say(f"epoch {epoch + 1}: accuracy {accuracy[-1]:.4f}, {time.perf_counter() - began:.0f} s")
    alpha = [layer.attention.relative.alpha.tolist() for layer in reader.layers]
    return Learned(accuracy, centres, alpha, time.perf_counter() - began)


def _shifted(images: Tensor) -> Tensor:
    """Each batch moved by at most a pixel, so that places are not learnt by heart."""
    down, right = torch.randint(3, (2,)).tolist()
    return functional.pad(images, (1, 1, 1, 1))[:, down : down + images.size(1), right : right + images.size(2)]


def on_the_grid(centres: list[list[float]]) -> int:
    """How many of the nine cells around the query have the centre of a head nearest to theirs."""
    return len({tuple(round(place) for place in centre) for centre in centres} & set(OFFSETS))


def table(errors: dict[str, float], learned: Learned) -> str:
    """Markdown: the construction, and what was learned."""
    lines = ["| nine heads as a 3 x 3 convolution | largest error |", "| --- | ---: |"]
    lines += [f"| {name} | {error:.1e} |" for name, error in errors.items()]
    lines += ["", "| layer | cells of the 3 x 3 grid with a head, at first | in the end | mean alpha |"]
    lines += ["| --- | ---: | ---: | ---: |"]
    for layer, (first, last) in enumerate(zip(learned.centres[0], learned.centres[-1], strict=True)):
        alpha = sum(learned.alpha[layer]) / len(learned.alpha[layer])
        lines.append(f"| {layer + 1} | {on_the_grid(first)} | {on_the_grid(last)} | {alpha:.2f} |")
    lines += ["", f"Accuracy {learned.accuracy[-1]:.2%} after {learned.seconds / 60:.1f} minutes."]
    return "\n".join(lines) + "\n"


def figure(learned: Learned, layer: int) -> str:
    """The way of each head's centre from epoch to epoch, as SVG."""
    lines = [
        Line(f"head {head + 1}", tuple((of[layer][head][1], -of[layer][head][0]) for of in learned.centres))
        for head in range(len(OFFSETS))
    ]
    title = f"Where the heads of layer {layer + 1} look, epoch by epoch"
    return line_plot(lines, title=title, x_name="blocks to the right of the query", y_name="blocks above the query")


def main() -> None:
    """Reads the command line, computes, prints the table and writes everything down."""
    options = tyro.cli(Options, description=__doc__)
    torch.set_num_threads(1)
    sizes = replace(QUICK if options.quick else Sizes(), seed=options.seed)
    if options.epochs is not None:
        sizes = replace(sizes, epochs=options.epochs)
    try:
        images, digits = halved(read_digits(options.digits, each=sizes.digits))
    except DataError as error:
        raise SystemExit(str(error)) from None
    errors = construction_errors(sizes)
    publish(
        errors, learn(images, digits, sizes, say=lambda line: print(line, flush=True)), sizes, output=options.output
    )


def publish(errors: dict[str, float], learned: Learned, sizes: Sizes, *, output: Path) -> None:
    """table.md, numbers.json and a figure for each layer into the folder; the table on the screen too."""
    output.mkdir(parents=True, exist_ok=True)
    print(text := table(errors, learned), end="")
    (output / "table.md").write_text(text, encoding="utf-8")
    content = {"sizes": asdict(sizes), "errors": errors, "learned": asdict(learned)}
    (output / "numbers.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for layer in range(sizes.layers):
        name = f"attention_as_convolution_{layer + 1}.svg"
        (output / name).write_text(figure(learned, layer), encoding="utf-8")


if __name__ == "__main__":
    main()
