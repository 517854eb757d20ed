"""What classification makes of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias, final

import numpy as np
import torch
from torch import nn

from heedful.architectures.build import build_text_classifier
from heedful.architectures.classifiers import SiameseConfig, WindowClassifierConfig
from heedful.data.batches import paired_tokens
from heedful.data.corpus import Corpus, Encoding
from heedful.data.labelled import Choice, Labelled
from heedful.data.labels import Labels
from heedful.data.sequences import frame
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError
from heedful.models.interface import Encoder
from heedful.models.pair_encoder import PairEncoder
from heedful.models.text_classifier import TextClassifier
from heedful.tasks.benchmarks.definitions import MetricName
from heedful.tasks.classification import fitting
from heedful.tasks.classification.exam import class_exam, own_definition
from heedful.tasks.classification.examples import example_encoding
from heedful.tasks.classification.face import Classifier
from heedful.tasks.classification.problem import METRICS, Classification
from heedful.tasks.classification.recipe import ClassificationDataConfig, ClassificationRecipe
from heedful.tasks.counted import Counted
from heedful.tasks.fine_tuning_fit import Pace, is_left
from heedful.tasks.fitting import Means, Settings
from heedful.tasks.kind import Entries, FineTuningKind, Run, Vocabularies, examples
from heedful.tasks.labelled import LabelledExam
from heedful.tasks.origin import Head, Reading
from heedful.values import Tokens, move

TEXT: Final = "tokenizer/text"
LABELS: Final = "tokenizer/labels"
_TOGETHER: Final = 64
"""Pairs that are compared at one time before training."""
ClassificationRun: TypeAlias = Run[ClassificationRecipe, TextClassifier]


@final
class ClassificationKind(FineTuningKind[ClassificationRecipe, TextClassifier]):
    """The classes or numbers of texts are learned; classes of the whole training text, whatever is learned from."""

    words: ClassVar = (TEXT,)
    outputs: ClassVar = "classes"
    counted: ClassVar = Counted(labels="examples")
    trial: ClassVar = 'classify RUN --text "..."'

    def fit(self, recipe: ClassificationRecipe, means: Means) -> Settings:
        """A model of words and what suits it, or what suits the encoder that training begins with."""
        amount, seen = (fitting.Amount.of(examples(recipe, part)) for part in ("train", "validation"))
        monitored: dict[str, Any] = {"recipe": recipe, "monitor": _primary(recipe), "validation": seen.lessons}
        if recipe.init is not None:
            rate = 3e-4 if recipe.model.d_model >= fitting.LARGE else 5e-4
            chosen = amount.lessons.tuning(means, model=recipe.model, rate=rate, **monitored)
            return {"model.summary": {"kind": "mean"}, **chosen, "training.layer_decay": 0.9}
        pace, chosen, lessons = Pace.of(recipe.model), {}, amount.lessons
        comparable = amount.paired and seen.paired and recipe.data.answered != "choice"
        if comparable and is_left(recipe.model, SiameseConfig):
            pace, chosen, lessons = fitting.PAIR_PACE, fitting.pairs_from_scratch(amount), amount.pair_lessons
        elif is_left(recipe.model, WindowClassifierConfig):
            pace, chosen = fitting.PACE, fitting.from_scratch(amount, voting=recipe.data.answered == "class")
        return {**chosen, **lessons.settings(means, passes=amount.passes, pace=pace, **monitored)}

    def labels(self, recipe: ClassificationRecipe, folder: Path | None) -> Vocabularies:
        """Classes, where there are some."""
        if recipe.data.answered != "class":
            return {}
        return {LABELS: classes(recipe.data) if folder is None else Labels.load(folder / LABELS)}

    def texts(self, recipe: ClassificationRecipe) -> Iterator[str]:
        """Each text once, those that all candidates of a choice share too."""
        for example in examples(recipe, "train"):
            if isinstance(example, Labelled):
                yield from example.texts
            else:
                yield from dict.fromkeys(text for candidate in example.candidates for text in candidate)

    def encoding(self, run: ClassificationRun) -> Encoding[Labelled | Choice]:
        """Texts and what is right of them."""
        data = run.recipe.data
        return example_encoding(
            run.tokenizer,
            _labels(run),
            answered=data.answered,
            max_length=data.max_length,
            paired=run.recipe.model.paired,
        )

    def remarks(self, run: ClassificationRun, corpus: Corpus) -> Sequence[str]:
        """How many texts lost their ends, and that there is nothing to tell apart."""
        found = []
        labels = corpus["label"].stream
        if run.recipe.data.answered != "choice" and len(labels) > 1 and bool((labels == labels[0]).all()):
            known = _labels(run)
            label = f"{float(labels[0]):g}" if known is None else repr(known.names[int(labels[0])])
            found.append(
                f"warning: all {len(labels):,} examples have the label {label}, so there is nothing to tell apart"
            )
        cut = corpus["cut"].stream
        texts = int(np.count_nonzero(cut))
        if not texts:
            return found
        return (
            *found,
            f"{texts:,} of {len(cut):,} texts have more than data.max_length = {run.recipe.data.max_length} tokens; "
            f"their ends were cut off, {int(cut.sum(dtype=np.int64)):,} tokens",
        )

    def headed(
        self, recipe: ClassificationRecipe, sizes: Entries, *, encoder: Encoder[Tokens] | None = None
    ) -> TextClassifier:
        """An encoder and a head."""
        return build_text_classifier(
            recipe.model,
            vocabulary=sizes[TEXT],
            outputs=sizes.get(LABELS, 1),
            longest=recipe.data.max_length,
            encoder=encoder,
        )

    def problem(
        self,
        run: ClassificationRun,
        train: Corpus,
        validation: Corpus,
        *,
        device: torch.device,
    ) -> Classification:
        """Likelihood of the classes, or squared errors."""
        config, data, labels = run.recipe.training, run.recipe.data, _labels(run)
        positive = data.positive_class
        if positive is not None and (labels is None or labels.id(positive) is None):
            raise RecipeError(
                f'data.positive = "{positive}": the training text has no such class; name one that it has'
            )
        return Classification(
            train,
            validation,
            answered=data.answered,
            labels=labels,
            positive=positive,
            smoothing=config.label_smoothing,
            decorrelation=config.decorrelation or 0.0,
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def warm(self, run: ClassificationRun, model: TextClassifier, *, say: Callable[[str], None]) -> None:
        """Set word vectors and what is counted of the training text; compared pairs begin with the mean number."""
        super().warm(run, model, say=say)
        if isinstance(model.encoder, PairEncoder):
            _fit_pairs(run, model.encoder)
            if run.recipe.data.answered == "number":  # other encoders learn more slowly from such a beginning
                numbers = [label for label in map(_number, examples(run.recipe, "train")) if label is not None]
                nn.init.constant_(model.output.bias, sum(numbers) / max(1, len(numbers)))
        bag, labels = model.bag, _labels(run)
        if bag is None or labels is None:
            return
        config = run.recipe.model.votes
        assert config is not None, "what has a bag was told so"
        texts, right = [], []
        for example in examples(run.recipe, "train"):
            if isinstance(example, Labelled) and (label := labels.id(str(example.label))) is not None:
                row = frame(run.tokenizer, example.texts, max_length=run.recipe.data.max_length)
                texts.append(torch.tensor(row.ids))
                right.append(label)
        marks = [number for number, piece in _pieces(run.tokenizer) if not any(map(str.isalnum, piece))]
        bag.learn(texts, torch.tensor(right), inverse_penalty=config, ignored=marks)

    def hold(self, run: ClassificationRun, model: nn.Module) -> None:
        """Word vectors, and what was counted."""
        super().hold(run, model)
        if isinstance(model, TextClassifier) and isinstance(model.encoder, PairEncoder):
            model.encoder.hold()
        if isinstance(model, TextClassifier) and model.bag is not None:
            model.bag.requires_grad_(False)

    def examine(self, recipe: ClassificationRecipe, part: str) -> LabelledExam:
        """Texts and what is right of them."""
        data = recipe.data
        train, examples = list(data.reader("train")), list(data.reader(part))
        definition = data.definition(part) or own_definition(
            data, classes(data).names if data.answered == "class" else ()
        )
        return class_exam(definition, train=train, examples=examples)

    def primary(self, run: ClassificationRun) -> str:
        """The benchmark's first metric that is measured while training; else accuracy, or Pearson's r of numbers."""
        return _primary(run.recipe)

    def is_regression(self, recipe: ClassificationRecipe) -> bool:
        """Where labels are numbers."""
        return recipe.data.answered == "number"

    def head(self, run: ClassificationRun) -> Head:
        """A class, a number or the score of a candidate."""
        labels, reading = _labels(run), Reading(max_length=run.recipe.data.max_length)
        if labels is not None:
            return Head("class", labels.names, reading=reading)
        return Head("number" if run.recipe.data.answered == "number" else "candidate", reading=reading)

    def face(self, run: ClassificationRun, model: TextClassifier, *, step: int | None = None) -> Classifier:
        """Texts in, classes out."""
        return Classifier(
            model,
            tokenizer=run.tokenizer,
            answered=run.recipe.data.answered,
            labels=_labels(run),
            max_length=run.recipe.data.max_length,
            paired=run.recipe.model.paired,
            pairs=run.recipe.data.pairs,
            marked=run.recipe.data.marked,
        )


KIND: Final = ClassificationKind()


def classes(data: ClassificationDataConfig) -> Labels:
    """Those of a benchmark task, or of all training examples."""
    if (definition := data.definition()) is not None:
        return Labels(definition.labels)
    labels = (each.label for each in data.reader("train") if isinstance(each, Labelled))
    return Labels.learn(str(label) for label in labels if label is not None)


def _number(example: Labelled | Choice) -> float | None:
    return float(example.label) if isinstance(example, Labelled) and example.label is not None else None


def _fit_pairs(run: ClassificationRun, encoder: PairEncoder) -> None:
    """Lets an encoder count what its training pairs have in common."""
    rows = [
        frame(run.tokenizer, example.texts, max_length=run.recipe.data.max_length)
        for example in examples(run.recipe, "train")
        if isinstance(example, Labelled)
    ]
    rows.sort(key=lambda row: len(row.ids))  # so that little of a batch is padding
    device, training = next(encoder.parameters()).device, encoder.training
    encoder.eval()
    encoder.fit(
        [
            move(paired_tokens([row.ids for row in part], [row.segments.count(0) for row in part]), device)
            for part in (rows[start : start + _TOGETHER] for start in range(0, len(rows), _TOGETHER))
        ],
        silent=sorted(run.tokenizer.special.silent),
    )
    encoder.train(training)


def _pieces(tokenizer: Tokenizer) -> Iterator[tuple[int, str]]:
    """All that stands for a text, with its number."""
    numbers = [number for number in range(tokenizer.size) if number not in tokenizer.special.silent]
    return zip(numbers, tokenizer.pieces(numbers), strict=True)


def _primary(recipe: ClassificationRecipe) -> MetricName:
    definition, known = recipe.data.definition(), METRICS[recipe.data.answered]
    own = definition.metrics if definition is not None else ()
    return next((name for name in own if name in known or name == "f1"), known[0])


def _labels(run: ClassificationRun) -> Labels | None:
    return run.vocabulary(LABELS, Labels) if LABELS in run.vocabularies else None
