"""The glimpses task: the hybrid loss of Mnih et al. 2014, evaluator, vocabularies, model and predictor of a recipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Final, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn import functional

from heedful.architectures.build_vision import build_picture_classifier, load_backbone_weights
from heedful.architectures.vision import VisionTransformerConfig
from heedful.data.batches import batch_by_size
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.metrics.classification import accuracy
from heedful.metrics.metric import Metric
from heedful.models.picture_classifier import PictureClassifier
from heedful.tasks.glimpses.data import (
    LabelledPicture,
    SceneRenderer,
    build_picture_encoding,
    hash_pixels,
    render_scenes,
    run_glimpses,
    sample_training_noise,
    to_floats,
    warp_pictures,
)
from heedful.tasks.glimpses.predictor import GlimpsePredictor
from heedful.tasks.glimpses.recipe import GlimpsesRecipe, GlimpsesTrainingConfig, LookingConfig
from heedful.tasks.label_evaluation import LabelEvaluator
from heedful.tasks.objective import Loss, LossPart, RowIndices, TrainingObjective, UnitNames
from heedful.tasks.portable_model import OutputHead
from heedful.tasks.task import LabelTask, Run, VocabSizes, Vocabularies
from heedful.tensors import move_to_device


@dataclass(frozen=True)
class GlimpsesBatch:
    """Pictures, their classes, and the random numbers that place the glimpses of each copy."""

    pictures: Float[Tensor, "B C H W"]
    labels: Int[Tensor, " B"]
    noise: Float[Tensor, "B copies draws 2"]


@dataclass(eq=False)
class GlimpsesObjective(TrainingObjective[GlimpsesBatch]):
    """Learn p(class | glimpses), and where to look, with a policy gradient.

    The last glimpse gets reward 1 if the most probable class is correct, else 0. With R the reward, l_t the glimpse
    positions and b_t the baseline, the loss of one copy of a picture is

        -log p(class | all glimpses) + mean over t of ((b_t - R)^2 - (R - b_t) log pi(l_t | what was seen before))

    where no gradient passes R - b_t (section 3.2, with M = `copies`). The three terms share no parameters, since
    neither policy nor baseline passes a gradient to the core; so under Adam weights between them would change nothing.

    A training example is a function of the seed and of its number, which differs in each epoch.

    Attributes:
        train: training pictures.
        validation: validation pictures, always in the same scenes.
        renderer: renders scenes from pictures.
        config: of training.
        looking: how a trained model looks.
        draws: glimpse positions per copy.
        seed: of the order of pictures, of scenes and of glimpse positions.
        device: of the model.
    """

    train: Corpus
    validation: Corpus
    _: KW_ONLY
    renderer: SceneRenderer
    config: GlimpsesTrainingConfig
    looking: LookingConfig
    draws: int
    seed: int
    device: torch.device
    metric_names = frozenset({"loss", "accuracy"})
    part_names = frozenset({"nll", "baseline", "reward"})

    def plan_epoch(self, epoch: int) -> Sequence[RowIndices]:
        """Return batches of example numbers: each is a row plus the number of pictures in all earlier epochs."""
        count = len(self.train)
        batches = batch_by_size(
            _make_unit_lengths(count), max_tokens=self.config.batch_tokens, seed=self.seed, epoch=epoch
        )
        return [rows + epoch * count for rows in batches]

    def build_batch(self, rows: RowIndices) -> GlimpsesBatch:
        """Render the pictures with the example numbers `rows` (see `plan_epoch`) as a batch."""
        stream, corpus_rows = self.train["pictures"].stream, rows % len(self.train)
        pictures = stream[corpus_rows]
        if self.config.warp is not None:
            pictures = warp_pictures(pictures, rows, **self.config.warp.model_dump(), seed=self.seed)
        rendered = render_scenes(self.renderer, pictures, others=stream, numbers=rows.tolist(), seed=self.seed)
        noise = sample_training_noise(rows, copies=self.config.copies, draws=self.draws, seed=self.seed)
        return move_to_device(
            GlimpsesBatch(to_floats(rendered), _read_labels(self.train, corpus_rows), noise), self.device
        )

    def loss(self, model: PictureClassifier, batch: GlimpsesBatch) -> Loss:
        """Compute the hybrid loss (see the class) of a batch, summed over pictures and averaged over copies."""
        outputs = model(batch.pictures, batch.noise)
        copies, glimpses = outputs.logits.shape[1], max(1, outputs.locations.size(2))
        logits = outputs.logits if self.config.after_each else outputs.logits[:, :, -1:]
        targets = batch.labels[:, None, None].expand(logits.shape[:3])
        nll = functional.cross_entropy(logits.flatten(0, 2), targets.flatten(), reduction="sum") / targets[0].numel()
        reward = (outputs.logits[:, :, -1].argmax(-1) == batch.labels[:, None]).float().unsqueeze(-1)
        baseline = ((outputs.baselines - reward) ** 2).sum() / (copies * glimpses)
        advantage = reward - outputs.baselines.detach()
        policy = -(advantage * outputs.log_probabilities).sum() / (copies * glimpses)
        count = len(batch.labels)
        terms = {"nll": nll.detach(), "baseline": baseline.detach(), "reward": reward.sum() / copies}
        return Loss(nll + baseline + policy, count, {name: LossPart(term, count) for name, term in terms.items()})

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Return loss (nats per picture) and accuracy on the validation pictures."""
        assert isinstance(model, PictureClassifier)
        total, num_correct = 0.0, 0
        for rendered, labels in self._iter_validation():
            probabilities = run_glimpses(
                model,
                rendered,
                copies=self.looking.copies,
                draws=self.draws,
                seed=self.looking.seed,
                device=self.device,
            )[1][:, -1].cpu()
            total -= float(probabilities.gather(1, labels[:, None]).log().sum())
            num_correct += int((probabilities.argmax(-1) == labels).sum())
        return {"loss": total / len(self.validation), "accuracy": num_correct / len(self.validation)}

    def _iter_validation(self) -> Iterator[tuple[UInt8[np.ndarray, "B C H W"], Int[Tensor, " B"]]]:
        """Yield the rendered validation pictures and their class numbers in batches."""
        stream = self.validation["pictures"].stream
        for start in range(0, len(stream), self.config.batch_tokens):
            rows = np.arange(start, min(start + self.config.batch_tokens, len(stream)))
            yield (
                render_scenes(self.renderer, stream[rows], others=stream, numbers=rows.tolist()),
                _read_labels(self.validation, rows),
            )


def _read_labels(corpus: Corpus, rows: RowIndices) -> Int[Tensor, " B"]:
    return torch.from_numpy(corpus["labels"].stream[rows].astype(np.int64))


def _make_unit_lengths(count: int) -> Int[np.ndarray, "N 2"]:
    """Return two lengths of 1 for each of `count` pictures, for planning batches."""
    return np.ones((count, 2), dtype=np.int64)


LABELS_FILE: Final = "tokenizer/labels"
GlimpsesRun: TypeAlias = Run[GlimpsesRecipe, PictureClassifier]


@final
class GlimpsesTask(LabelTask[GlimpsesRecipe, PictureClassifier]):
    """Classification of pictures by glimpses."""

    tokenizer_files: ClassVar = ()
    label_files: ClassVar = (LABELS_FILE,)
    output_noun: ClassVar = "classes"
    unit_names: ClassVar = UnitNames(
        examples="pictures", labels="pictures", corpus_examples="pictures", contents_side=""
    )
    default_example_command: ClassVar = "look RUN PICTURE"

    def learn_vocabularies(self, recipe: GlimpsesRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Collect the class labels of the training pictures; `existing` is not used."""
        return {LABELS_FILE: LabelVocabulary.learn(picture.label for picture in recipe.data.reader("train"))}

    def build_encoding(self, run: GlimpsesRun) -> ExampleEncoder[LabelledPicture]:
        """Return the encoding of pictures and class numbers; scenes are rendered later."""
        return build_picture_encoding(run.get_vocabulary(LABELS_FILE, LabelVocabulary), run.recipe.data.picture_shape)

    def build_model(self, recipe: GlimpsesRecipe, sizes: VocabSizes) -> PictureClassifier:
        """Build the picture classifier."""
        return build_picture_classifier(recipe.model, picture=recipe.data.scene_shape, classes=sizes[LABELS_FILE])

    def init_weights(self, run: GlimpsesRun, model: PictureClassifier, *, log: Callable[[str], None]) -> None:
        """Load the weights of a published model into the encoder if the recipe names one, and report it to `log`."""
        super().init_weights(run, model, log=log)
        config = run.recipe.model
        if isinstance(config, VisionTransformerConfig) and config.weights is not None:
            load_backbone_weights(config, model)
            log(f"{config.weights}: the encoder begins with these weights")

    def output_head(self, run: GlimpsesRun) -> OutputHead:
        """Describe the classes."""
        return OutputHead("class", tuple(run.get_vocabulary(LABELS_FILE, LabelVocabulary).names))

    def build_objective(
        self, run: GlimpsesRun, train: Corpus, validation: Corpus, *, device: torch.device
    ) -> GlimpsesObjective:
        """Build the hybrid-loss objective on a training and a validation corpus."""
        recipe = run.recipe
        return GlimpsesObjective(
            train,
            validation,
            renderer=recipe.data.scene.build_renderer(),
            config=recipe.training,
            looking=recipe.looking,
            draws=recipe.model.num_glimpses,
            seed=recipe.seed,
            device=device,
        )

    def build_part_evaluator(self, recipe: GlimpsesRecipe, part: str) -> LabelEvaluator:
        """Build the evaluator of the pictures of a part of the data."""
        renderer, data = recipe.data.scene.build_renderer(), recipe.data
        return build_picture_evaluator(list(data.reader(part)), renderer=renderer, train=data.reader("train"))

    def build_predictor(
        self, run: GlimpsesRun, model: PictureClassifier, *, step: int | None = None
    ) -> GlimpsePredictor:
        """Build the glimpse predictor of a trained model; `step` is not used."""
        recipe = run.recipe
        return GlimpsePredictor(
            model,
            labels=run.get_vocabulary(LABELS_FILE, LabelVocabulary),
            shape=recipe.data.scene_shape,
            draws=recipe.model.num_glimpses,
            looking=recipe.looking,
        )


TASK: Final = GlimpsesTask()


def build_picture_evaluator(
    pictures: Sequence[LabelledPicture], *, renderer: SceneRenderer, train: Iterable[LabelledPicture]
) -> LabelEvaluator:
    """Build the evaluator of classification accuracy on rendered scenes; an answer is the class after each glimpse.

    It measures the accuracy after the last glimpse, and also the accuracy after fewer glimpses.

    Args:
        pictures: the pictures to classify.
        renderer: renders a scene from a picture.
        train: training pictures, which tell the most frequent class.

    Raises:
        DataError: there are no pictures.
    """
    counts = Counter(picture.label for picture in train)
    if not counts or not pictures:
        raise DataError("there are no pictures; check the files")
    most_frequent = min(counts, key=lambda label: (-counts[label], label))
    pixels_of_pictures = [picture.pixels for picture in pictures]
    rendered = list(
        render_scenes(renderer, pixels_of_pictures, others=pixels_of_pictures, numbers=range(len(pixels_of_pictures)))
    )
    labels = [picture.label for picture in pictures]

    def classify_scenes(predictor: GlimpsePredictor) -> list[tuple[str, ...]]:
        return [prediction.labels_after for prediction in predictor.look_at(rendered)]

    def compute_accuracies(answers: Sequence[tuple[str, ...]]) -> Mapping[str, Metric]:
        *earlier, last = zip(*answers, strict=True)
        fewer = {f"after {number}": accuracy(each, labels) for number, each in enumerate(earlier, 1)}
        return {"accuracy": accuracy(last, labels), **fewer}

    return LabelEvaluator(
        [hash_pixels(pixels) for pixels in rendered],
        labels,
        predict_labels=classify_scenes,
        measure=compute_accuracies,
        size=len(labels),
        num_train_examples=counts.total(),
        constant_answer=most_frequent,
        baseline_answers=[(most_frequent,)] * len(labels),
        main_metric="accuracy",
    )
