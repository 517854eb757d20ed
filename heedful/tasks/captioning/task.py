"""The captioning task: vocabularies, model, objective, evaluator and predictor of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import ClassVar, Final, TypeAlias, final

import torch
from torch import Tensor, nn

from heedful.architectures.build import build_memory_decoder
from heedful.architectures.build_pictures import build_region_encoder, build_vision_backbone, load_backbone_weights
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.pictures import read_picture
from heedful.data.tokenizer_loading import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.models.pictures import PictureEncoder
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.recipes.generation import GreedyConfig
from heedful.tasks.base_captioner import evaluate_captions
from heedful.tasks.captioning.data import CaptionedPicture, collate_captions, make_picture_loader
from heedful.tasks.captioning.evaluation import build_caption_evaluator
from heedful.tasks.captioning.predictor import Captioner
from heedful.tasks.captioning.recipe import CaptioningRecipe
from heedful.tasks.captions import build_caption_encoding, explain_unreadable, split_by_caption
from heedful.tasks.criteria import DoublyStochasticCriterion, build_criterion
from heedful.tasks.evaluation import EvaluatorOptions
from heedful.tasks.generation_objective import GenerationMetrics, GenerationObjective
from heedful.tasks.label_evaluation import LabelComparison, LabelEvaluator, LabelReport
from heedful.tasks.picture_features import FrozenVisionFeatures, PictureFeatures, PixelFeatures
from heedful.tasks.search_factory import build_length_limits, build_search
from heedful.tasks.task import Run, Task, VocabSizes, Vocabularies, learn_or_reuse_tokenizer, prefix_data_errors
from heedful.tasks.unit_names import UnitNames
from heedful.tensors import SOURCE

CAPTIONS: Final = "tokenizer/captions"
PICTURES: Final = "tokenizer/pictures"
Model: TypeAlias = SequenceToSequence[Tensor]
CaptioningRun: TypeAlias = Run[CaptioningRecipe, Model]


@final
class CaptioningTask(Task[CaptioningRecipe, Model]):
    """Captioning of pictures; a frozen vision network is stored with the run like a vocabulary."""

    tokenizer_files: ClassVar = (CAPTIONS,)
    unit_names: ClassVar = UnitNames(examples="captions", corpus_examples="pictures")
    default_example_command: ClassVar = "caption RUN photo.jpg"
    report_class: ClassVar = LabelReport
    comparison_class: ClassVar = LabelComparison

    def learn_vocabularies(self, recipe: CaptioningRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Learn the caption vocabulary, and load the vision network if it is frozen."""
        texts = chain.from_iterable(example.captions for example in recipe.data.reader("train"))
        vocabularies: Vocabularies = {
            CAPTIONS: learn_or_reuse_tokenizer(recipe, texts, existing=existing, generated=True)
        }
        config = recipe.model.pictures
        if config.is_frozen:
            network = load_backbone_weights(config, build_vision_backbone(config))
            vocabularies = {
                **vocabularies,
                PICTURES: FrozenVisionFeatures(network, size=recipe.data.picture_size, step=config.region_stride),
            }
        return vocabularies

    def load_vocabularies(self, recipe: CaptioningRecipe, folder: Path) -> Vocabularies:
        """Load the caption vocabulary, and the frozen vision network if there is one."""
        vocabularies: Vocabularies = {CAPTIONS: load_tokenizer(folder / CAPTIONS)}
        if (config := recipe.model.pictures).is_frozen:
            network = FrozenVisionFeatures.load(config, folder / PICTURES, size=recipe.data.picture_size)
            vocabularies = {**vocabularies, PICTURES: network}
        return vocabularies

    def build_encoding(self, run: CaptioningRun) -> ExampleEncoder[tuple[int, CaptionedPicture]]:
        """Return the encoding of numbered pictures with their captions."""
        picture_features, data = _get_picture_features(run), run.recipe.data
        see = make_picture_loader(picture_features, data.framing)
        return build_caption_encoding(
            run.tokenizer, input_spec=picture_features.array_spec, extract=see, max_length=data.max_length
        )

    def prepare_examples(
        self, run: CaptioningRun, examples: Iterable[CaptionedPicture]
    ) -> Iterable[tuple[int, CaptionedPicture]]:
        """Attach a number to each example, so that pictures that were left out can be reported."""
        return enumerate(examples)

    def data_warnings(self, run: CaptioningRun, corpus: Corpus) -> Sequence[str]:
        """Return a warning for each picture that cannot be read."""
        missing = explain_unreadable(
            run.read_examples(corpus.folder.name), corpus, extract=lambda example: read_picture(example.picture)
        )
        return [f"left out: {message}" for message in missing]

    def check_files(self, recipe: CaptioningRecipe) -> None:
        """Check that the files of pre-trained weights exist too."""
        super().check_files(recipe)
        weights = recipe.model.pictures.weights_file
        if weights is not None and not weights.exists():
            raise DataError(f"{weights}: does not exist; check model.pictures.weights")

    def build_model(self, recipe: CaptioningRecipe, sizes: VocabSizes) -> Model:
        """Build the picture encoder (without its vision network if that is frozen) and the caption decoder."""
        config, data = recipe.model, recipe.data
        regions = build_region_encoder(config.pictures, d_model=config.d_model, size=data.picture_size)
        encoder = (
            regions if config.pictures.is_frozen else PictureEncoder(build_vision_backbone(config.pictures), regions)
        )
        slots = (-(-data.picture_size // config.pictures.region_stride)) ** 2
        decoder, output = build_memory_decoder(
            config.decoder,
            vocabulary=sizes[CAPTIONS],
            slots={SOURCE: config.d_model},
            longest=max(slots, data.max_length),
        )
        return SequenceToSequence(encoder, decoder, output=output)

    def init_weights(self, run: CaptioningRun, model: Model, *, log: Callable[[str], None]) -> None:
        """Load pre-trained vision weights into a network that is trained further."""
        super().init_weights(run, model, log=log)
        config = run.recipe.model.pictures
        if config.weights_file is not None and isinstance(model.encoder, PictureEncoder):
            load_backbone_weights(config, model.encoder.vision).train()
            log(f"{config.weights_file}: the picture encoder begins with these weights")

    def build_objective(
        self, run: CaptioningRun, train: Corpus, validation: Corpus, *, device: torch.device
    ) -> GenerationObjective:
        """Build the caption likelihood objective, with doubly stochastic attention if the recipe asks for it."""
        config, special = run.recipe.training, run.tokenizer.special
        criterion = build_criterion(config)
        if config.doubly_stochastic:
            criterion = DoublyStochasticCriterion(criterion, weight=config.doubly_stochastic)
        return GenerationObjective(
            split_by_caption(train, eos=special.eos),
            split_by_caption(validation, eos=special.eos),
            collate_fn=partial(collate_captions, bos=special.bos),
            criterion=criterion,
            generation_metrics=None if config.monitor == "loss" else _build_validation_score(run),
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def build_evaluator(self, recipe: CaptioningRecipe | None, options: EvaluatorOptions) -> LabelEvaluator:
        """Build the evaluator of the test part, or of the validation part if there is no test part."""
        assert recipe is not None, "only a run writes captions"
        part = recipe.data.evaluation_part
        reader = recipe.data.reader(part)
        with prefix_data_errors(f"data.{part}"):
            evaluator = build_caption_evaluator(list(reader), train=list(recipe.data.reader("train")))
        return evaluator.with_location(part, str(reader.paths[0]), table="data")

    def build_predictor(self, run: CaptioningRun, model: Model, *, step: int | None = None) -> Captioner:
        """Build the captioner."""
        recipe, longest = run.recipe, run.recipe.model.length_limit
        return Captioner(
            model,
            tokenizer=run.tokenizer,
            picture_features=_get_picture_features(run).to_device(next(model.parameters()).device),
            framing=recipe.data.framing,
            search=build_search(recipe.generation, run.tokenizer),
            length=build_length_limits(recipe.generation),
            generation=recipe.generation,
            longest=None if longest is None else longest.tokens,
        )


TASK: Final = CaptioningTask()


def _get_picture_features(run: CaptioningRun) -> PictureFeatures:
    """Return the frozen vision network of a run, or raw pixels if there is none."""
    if run.recipe.model.pictures.is_frozen:
        return run.get_vocabulary(PICTURES, FrozenVisionFeatures)
    return PixelFeatures(run.recipe.data.picture_size)


def _build_validation_score(run: CaptioningRun) -> GenerationMetrics:
    """Return BLEU-4 and CIDEr-D of greedy captions on the validation part; unreadable pictures are left out."""
    greedy = build_search(GreedyConfig(), run.tokenizer)

    def measure(model: nn.Module) -> Mapping[str, float]:
        """Caption the validation pictures greedily and return their scores."""
        assert isinstance(model, SequenceToSequence)
        examples = ((example.picture, example.captions) for example in run.read_examples("validation"))
        return evaluate_captions(TASK.build_predictor(run, model), examples, search=greedy)

    return GenerationMetrics(frozenset({"bleu", "cider"}), measure)
