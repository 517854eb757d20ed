"""Multi-head attention as convolution: exact by construction, and close to it after training on digits.

Cordonnier et al. 2020 prove (theorem 1) that K^2 heads with the quadratic relative encoding express any K x K
convolution. Each head looks at one pixel of the kernel's window, its values are the pixel itself, and W_O holds the
kernel. They also find that heads which learn where to look move to a grid around the query, like the window of a
convolution.

The study first rebuilds a random 3 x 3 convolution from nine heads and compares the results. A softmax must put its
weight somewhere: where the window leaves the image, a head would take the nearest pixel instead of a zero. The keys
therefore have a ring of zero pixels around the image, which is zero padding. Without the ring only the interior is a
convolution.

Then a small stack of attention layers learns handwritten digits from blocks of 2 x 2 of their 14 x 14 pixels. These
layers have no queries: only the centres of the heads decide where they look. The study draws the path of each centre.

    python studies/attention_as_convolution.py --digits data/mnist10k --output runs/heads
    python studies/attention_as_convolution.py --digits data/mnist10k --output runs/heads --quick    # a quick test
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from digits import read_digits
from torch import Tensor, nn
from torch.nn import functional

from heedful.attention import AttentionMask, MultiHeadAttention, QuadraticPosition
from heedful.blocks.feedforward import FeedForward
from heedful.blocks.residual import PreNorm
from heedful.blocks.transformer import LayerState, TransformerLayer
from heedful.cli.arguments import parse_script_arguments
from heedful.errors import DataError
from heedful.inspection.plots import PlotLine, draw_line_plot

OFFSETS = tuple((row, column) for row in (-1, 0, 1) for column in (-1, 0, 1))
"""Offsets (row, column) in the window of a 3 x 3 kernel, in the order of its weights."""
_SIDE, _PATCH = 14, 2


@dataclass(frozen=True)
class Sizes:
    """Sizes and hyperparameters of the study.

    Attributes:
        alpha: sharpness of the attention in the construction.
        layers, d: depth and width of the digit classifier, which has nine heads.
        digits: maximum number of images of each digit; a tenth of all images is the test set.
        epochs, batch, rate: of the training with Adam; the rate falls to 0 along a cosine.
        seed: random seed of weights, digits and order.
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
    """folder with digit0.u8.gz ... digit9.u8.gz, images of 28 x 28 bytes"""
    output: Path
    """output folder for the table, the numbers and the figures"""
    quick: bool = False
    """use small sizes, to test that the study works"""
    epochs: int | None = None
    """number of passes over the digits, instead of the default"""
    seed: int = 1
    """random seed of weights, digits and order"""


class AttentiveConvolution(nn.Module):
    """A 3 x 3 convolution computed by nine attention heads (Cordonnier et al. 2020, theorem 1).

    Args:
        kernel: [outputs, inputs, 3, 3].
        bias: [outputs].
        columns: number of pixels in a row of the image.
        alpha: sharpness of the attention.
        ring: whether to add a ring of zero pixels around the image.
    """

    def __init__(self, kernel: Tensor, bias: Tensor, *, columns: int, alpha: float, ring: bool = True) -> None:
        super().__init__()
        outputs, inputs = kernel.shape[:2]
        width, heads = len(OFFSETS) * inputs, len(OFFSETS)
        assert outputs <= width, f"{heads} heads of {inputs} entries give at most {width} outputs"
        self.outputs, self.ring = outputs, ring
        relative = QuadraticPosition(heads, columns + 2 * ring, alpha=alpha)
        self.attention = MultiHeadAttention(width, heads, d_memory=inputs, relative=relative)
        with torch.no_grad():
            for parameter in self.attention.parameters():
                parameter.zero_()
            relative.alpha.fill_(alpha)
            relative.centre.copy_(torch.tensor(OFFSETS))
            values = self.attention.key_value.weight[width:]
            values.copy_(torch.eye(inputs).repeat(heads, 1))  # the value of each head is the pixel itself
            output_map = self.attention.aggregation.output
            output_map.weight[:outputs].copy_(kernel.permute(0, 2, 3, 1).flatten(1))
            output_map.bias[:outputs].copy_(bias)

    def forward(self, images: Tensor) -> Tensor:
        """Map images [B, inputs, rows, columns] to [B, outputs, rows, columns]."""
        edge = int(self.ring)
        padded = functional.pad(images, (edge,) * 4)
        rows, columns = padded.shape[2:]
        grid = torch.arange(rows * columns).view(rows, columns)
        query_positions = grid[edge : rows - edge, edge : columns - edge].flatten().expand(len(images), -1)
        keys, key_positions = padded.flatten(2).mT, grid.flatten().expand(len(images), -1)
        queries = images.new_zeros(*query_positions.shape, self.attention.query.in_features)
        mask = AttentionMask(query_positions, key_positions, None, None, None)
        contexts = self.attention(queries, self.attention.project_memory(keys, keys, key_positions), mask=mask)
        return contexts[..., : self.outputs].mT.unflatten(2, images.shape[2:])


def measure_construction_errors(sizes: Sizes) -> dict[str, float]:
    """Return the largest errors of the nine heads against a random convolution, for all pixels and inside only."""
    torch.manual_seed(sizes.seed)
    convolution, images = nn.Conv2d(5, 7, 3, padding=1), torch.randn(4, 5, 9, 11)
    errors = {}
    with torch.no_grad():
        expected = convolution(images)
        for name, ring in (("with a ring of zeros", True), ("without", False)):
            attentive = AttentiveConvolution(
                convolution.weight, convolution.bias, columns=11, alpha=sizes.alpha, ring=ring
            )
            error = (attentive(images) - expected).abs()
            errors[f"{name}, all pixels"] = float(error.max())
            errors[f"{name}, inside"] = float(error[..., 1:-1, 1:-1].max())
    return errors


class DigitClassifier(nn.Module):
    """Classifier of digits: pixel blocks, attention by relative position only, the mean of the outputs, ten logits."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.side = _SIDE // _PATCH
        self.embedding = nn.Linear(_PATCH**2, sizes.d)
        self.layers = nn.ModuleList(_build_layer(sizes.d, self.side) for _ in range(sizes.layers))
        self.norm, self.logits = nn.LayerNorm(sizes.d), nn.Linear(sizes.d, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Map images [B, 14, 14] to logits [B, 10]."""
        blocks = images.unflatten(1, (self.side, _PATCH)).unflatten(3, (self.side, _PATCH))
        x = self.embedding(blocks.permute(0, 1, 3, 2, 4).flatten(3).flatten(1, 2))
        positions = torch.arange(x.size(1)).expand(len(x), -1)
        mask = AttentionMask(positions, positions, None, None, None)
        for layer in self.layers:
            x, _ = layer(x, LayerState(), mask=mask, cross_masks={})
        return self.logits(self.norm(x).mean(1))

    def get_centres(self) -> Tensor:
        """Return the current centres of all heads, [layers, heads, 2]."""
        return torch.stack([layer.attention.relative.centre.detach().clone() for layer in self.layers])


def _build_layer(d: int, side: int) -> TransformerLayer:
    attention = MultiHeadAttention(d, len(OFFSETS), relative=QuadraticPosition(len(OFFSETS), side))
    for parameter in attention.query.parameters():
        nn.init.zeros_(parameter).requires_grad_(False)  # the content of a pixel does not decide where to look
    return TransformerLayer(attention, FeedForward(d, 2 * d, activation=nn.GELU()), residual=lambda: PreNorm(d))


def downsample_digits(pixels: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return images [N, 14, 14] between 0 and 1, each pixel the mean of four, and the labels [N]."""
    images = torch.cat(pixels).unsqueeze(1).float() / 255
    labels = [torch.full((len(images_of_digit),), digit) for digit, images_of_digit in enumerate(pixels)]
    return functional.avg_pool2d(images, 2).squeeze(1), torch.cat(labels)


@dataclass(frozen=True)
class TrainingResult:
    """Results of the training.

    Attributes:
        accuracy: accuracy on the test digits after each epoch.
        centres: centres of the heads before the training and after each epoch, [epochs + 1, layers, heads, 2].
        alpha: sharpness of the heads at the end, [layers, heads].
        seconds: duration of the training.
    """

    accuracy: list[float]
    centres: list[list[list[list[float]]]]
    alpha: list[list[float]]
    seconds: float


def train_classifier(images: Tensor, digits: Tensor, sizes: Sizes, *, log: Callable[[str], None]) -> TrainingResult:
    """Train a classifier on nine tenths of the digits and test it on the others after each epoch."""
    torch.manual_seed(sizes.seed)
    order = torch.randperm(len(images))
    test, training = order[: len(order) // 10], order[len(order) // 10 :]
    classifier = DigitClassifier(sizes)
    adam = torch.optim.Adam([p for p in classifier.parameters() if p.requires_grad], sizes.rate)
    steps = sizes.epochs * -(-len(training) // sizes.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    accuracy: list[float] = []
    centres, start = [classifier.get_centres().tolist()], time.perf_counter()
    for epoch in range(sizes.epochs):
        classifier.train()
        for rows in training[torch.randperm(len(training))].split(sizes.batch):
            adam.zero_grad()
            functional.cross_entropy(classifier(_shift_images(images[rows])), digits[rows]).backward()
            adam.step()
            schedule.step()
        classifier.eval()
        with torch.no_grad():
            correct = [(classifier(images[rows]).argmax(1) == digits[rows]).sum() for rows in test.split(500)]
        accuracy.append(float(sum(correct)) / len(test))
        centres.append(classifier.get_centres().tolist())
        log(f"epoch {epoch + 1}: accuracy {accuracy[-1]:.4f}, {time.perf_counter() - start:.0f} s")
    alpha = [layer.attention.relative.alpha.tolist() for layer in classifier.layers]
    return TrainingResult(accuracy, centres, alpha, time.perf_counter() - start)


def _shift_images(images: Tensor) -> Tensor:
    """Shift a batch by at most one pixel, so that the model does not memorise positions."""
    down, right = torch.randint(3, (2,)).tolist()
    return functional.pad(images, (1, 1, 1, 1))[:, down : down + images.size(1), right : right + images.size(2)]


def count_grid_cells(centres: list[list[float]]) -> int:
    """Count the cells of the 3 x 3 grid around the query that are the nearest cell to the centre of some head."""
    return len({tuple(round(coordinate) for coordinate in centre) for centre in centres} & set(OFFSETS))


def format_table(errors: dict[str, float], result: TrainingResult) -> str:
    """Return Markdown tables of the errors of the construction and of the training."""
    lines = ["| nine heads as a 3 x 3 convolution | largest error |", "| --- | ---: |"]
    lines += [f"| {name} | {error:.1e} |" for name, error in errors.items()]
    lines += ["", "| layer | cells of the 3 x 3 grid with a head, at first | in the end | mean alpha |"]
    lines += ["| --- | ---: | ---: | ---: |"]
    for layer, (first, last) in enumerate(zip(result.centres[0], result.centres[-1], strict=True)):
        alpha = sum(result.alpha[layer]) / len(result.alpha[layer])
        lines.append(f"| {layer + 1} | {count_grid_cells(first)} | {count_grid_cells(last)} | {alpha:.2f} |")
    lines += ["", f"Accuracy {result.accuracy[-1]:.2%} after {result.seconds / 60:.1f} minutes."]
    return "\n".join(lines) + "\n"


def draw_figure(result: TrainingResult, layer: int) -> str:
    """Draw the path of each head's centre over the epochs as SVG."""
    lines = [
        PlotLine(f"head {head + 1}", tuple((epoch[layer][head][1], -epoch[layer][head][0]) for epoch in result.centres))
        for head in range(len(OFFSETS))
    ]
    title = f"Where the heads of layer {layer + 1} look, epoch by epoch"
    return draw_line_plot(
        lines, title=title, x_name="blocks to the right of the query", y_name="blocks above the query"
    )


def main() -> None:
    """Read the command line, run the study, print the table and write all results."""
    options = parse_script_arguments(Options, __file__)
    torch.set_num_threads(1)
    sizes = replace(QUICK if options.quick else Sizes(), seed=options.seed)
    if options.epochs is not None:
        sizes = replace(sizes, epochs=options.epochs)
    try:
        images, digits = downsample_digits(read_digits(options.digits, per_digit=sizes.digits))
    except DataError as error:
        raise SystemExit(str(error)) from None
    errors = measure_construction_errors(sizes)
    write_results(
        errors,
        train_classifier(images, digits, sizes, log=lambda line: print(line, flush=True)),
        sizes,
        output=options.output,
    )


def write_results(errors: dict[str, float], result: TrainingResult, sizes: Sizes, *, output: Path) -> None:
    """Write table.md, numbers.json and a figure for each layer into the folder, and print the table."""
    output.mkdir(parents=True, exist_ok=True)
    print(text := format_table(errors, result), end="")
    (output / "table.md").write_text(text, encoding="utf-8")
    content = {"sizes": asdict(sizes), "errors": errors, "learned": asdict(result)}
    (output / "numbers.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for layer in range(sizes.layers):
        name = f"attention_as_convolution_{layer + 1}.svg"
        (output / name).write_text(draw_figure(result, layer), encoding="utf-8")


if __name__ == "__main__":
    main()
