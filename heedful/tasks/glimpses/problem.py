"""Learning where to look, and what is there: the hybrid loss of Mnih et al. 2014."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn import functional

from heedful.data.bucketing import plan_batches
from heedful.data.corpus import Corpus
from heedful.models.picture_classifier import PictureClassifier
from heedful.tasks.glimpses.looking import floats, looked, scenes, training_chance, warped
from heedful.tasks.glimpses.recipe import GlimpsesTrainingConfig, LookingConfig
from heedful.tasks.glimpses.scenes import Scene
from heedful.tasks.task import Loss, Part, Rows, Task
from heedful.values import move


@dataclass(frozen=True)
class Batch:
    """Pictures, their classes, and what decides where each copy looks."""

    pictures: Float[Tensor, "B C H W"]
    labels: Int[Tensor, " B"]
    chance: Float[Tensor, "B copies draws 2"]


@dataclass(eq=False)
class Glimpses(Task[Batch]):
    """Learning p(class | glimpses), and to place glimpses so that the class is told.

    The last glimpse is rewarded with 1 where the most probable class is right, else with 0. With R the reward, l_t the
    places and b_t the baseline, a look at a picture costs

        -log p(class | all glimpses) + mean over t of ((b_t - R)^2 - (R - b_t) log pi(l_t | what was seen before))

    where no gradient passes R - b_t (section 3.2, with M = `copies`). The three parts have no parameters in common,
    since neither policy nor baseline leads a gradient to the core; so under Adam weights between them would change
    nothing.

    What an example is made of in training is a function of the seed and of its number, which is another one in each
    epoch.

    Attributes:
        train: pictures to learn from.
        validation: pictures to be measured on, always in the same scenes.
        scene: makes what is looked at.
        config: of training.
        looking: how a trained model looks.
        draws: places of each look.
        seed: of the order of pictures, of scenes and places.
        device: where the model is.
    """

    train: Corpus
    validation: Corpus
    _: KW_ONLY
    scene: Scene
    config: GlimpsesTrainingConfig
    looking: LookingConfig
    draws: int
    seed: int
    device: torch.device
    metrics = frozenset({"loss", "accuracy"})
    parts = frozenset({"nll", "baseline", "reward"})

    def plan(self, epoch: int) -> Sequence[Rows]:
        """Numbers of pictures: their rows, and how many pictures earlier epochs had."""
        count = len(self.train)
        batches = plan_batches(_ones(count), tokens=self.config.batch_tokens, seed=self.seed, epoch=epoch)
        return [rows + epoch * count for rows in batches]

    def batch(self, rows: Rows) -> Batch:
        """The pictures with these numbers."""
        stream, places = self.train["pictures"].stream, rows % len(self.train)
        pictures = stream[places]
        if self.config.warp is not None:
            pictures = warped(pictures, rows, warp=self.config.warp, seed=self.seed)
        shown = scenes(self.scene, pictures, others=stream, numbers=rows.tolist(), seed=self.seed)
        chance = training_chance(rows, copies=self.config.copies, draws=self.draws, seed=self.seed)
        return move(Batch(floats(shown), _labels(self.train, places), chance), self.device)

    def loss(self, model: PictureClassifier, batch: Batch) -> Loss:
        """See above; summed over pictures, the mean over copies."""
        looks = model(batch.pictures, batch.chance)
        copies, glimpses = looks.logits.shape[1], max(1, looks.places.size(2))
        logits = looks.logits if self.config.after_each else looks.logits[:, :, -1:]
        targets = batch.labels[:, None, None].expand(logits.shape[:3])
        nll = functional.cross_entropy(logits.flatten(0, 2), targets.flatten(), reduction="sum") / targets[0].numel()
        reward = (looks.logits[:, :, -1].argmax(-1) == batch.labels[:, None]).float().unsqueeze(-1)
        baseline = ((looks.expected - reward) ** 2).sum() / (copies * glimpses)
        advantage = reward - looks.expected.detach()
        policy = -(advantage * looks.log_probabilities).sum() / (copies * glimpses)
        count = len(batch.labels)
        told = {"nll": nll.detach(), "baseline": baseline.detach(), "reward": reward.sum() / copies}
        return Loss(nll + baseline + policy, count, {name: Part(each, count) for name, each in told.items()})

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Nats for each picture, and the share whose class is told."""
        assert isinstance(model, PictureClassifier)
        total, right = 0.0, 0
        for shown, labels in self._measured():
            chances = looked(
                model, shown, copies=self.looking.copies, draws=self.draws, seed=self.looking.seed, device=self.device
            )[1][:, -1].cpu()
            total -= float(chances.gather(1, labels[:, None]).log().sum())
            right += int((chances.argmax(-1) == labels).sum())
        return {"loss": total / len(self.validation), "accuracy": right / len(self.validation)}

    def _measured(self) -> Iterator[tuple[UInt8[np.ndarray, "B C H W"], Int[Tensor, " B"]]]:
        stream = self.validation["pictures"].stream
        for first in range(0, len(stream), self.config.batch_tokens):
            rows = np.arange(first, min(first + self.config.batch_tokens, len(stream)))
            yield scenes(self.scene, stream[rows], others=stream, numbers=rows.tolist()), _labels(self.validation, rows)


def _labels(corpus: Corpus, rows: Rows) -> Int[Tensor, " B"]:
    return torch.from_numpy(corpus["labels"].stream[rows].astype(np.int64))


def _ones(count: int) -> Int[np.ndarray, "N 2"]:
    """The lengths of pictures, as batches are planned."""
    return np.ones((count, 2), dtype=np.int64)
