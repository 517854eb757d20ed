"""The tasks of captioning pictures and clips: vocabularies, model, objective, evaluator and predictor of a recipe."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, final

import numpy as np
import torch
from torch import nn

from heedful.architectures.build import build_memory_decoder
from heedful.architectures.build_vision import (
    build_clip_encoder,
    build_region_encoder,
    build_vision_backbone,
    load_backbone_weights,
)
from heedful.data.batches import PairBatch
from heedful.data.clips import Clip
from heedful.data.corpus import ArraySpec, Corpus, ExampleEncoder
from heedful.data.pictures import Picture, read_picture
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.models.generative import SequenceToSequence
from heedful.models.interface import Encoder
from heedful.models.vision import PictureEncoder
from heedful.recipes.generation import GreedyConfig
from heedful.tasks.captioning.data import (
    CAPTION_SIDE,
    CaptionedInput,
    FrozenVisionFeatures,
    PictureFeatures,
    PixelFeatures,
    build_caption_encoding,
    collate_captions,
    collate_clips,
    explain_unreadable,
    split_by_caption,
)
from heedful.tasks.captioning.evaluation import build_caption_evaluator, build_video_evaluator
from heedful.tasks.captioning.predictor import Captioner, VideoCaptioner, evaluate_captions
from heedful.tasks.captioning.recipe import BaseCaptionRecipe, CaptioningRecipe, VideoRecipe
from heedful.tasks.generation_objective import (
    DoublyStochasticCriterion,
    GenerationMetrics,
    GenerationObjective,
    build_criterion,
)
from heedful.tasks.label_evaluation import LabelEvaluator
from heedful.tasks.objective import UnitNames
from heedful.tasks.search_factory import build_search
from heedful.tasks.task import LabelTask, Run, VocabSizes, Vocabularies, learn_or_reuse_tokenizer
from heedful.tensors import SOURCE

CAPTIONS: Final = "tokenizer/captions"
Model: TypeAlias = SequenceToSequence[Any]
AnyCaptionRecipe = TypeVar("AnyCaptionRecipe", bound=BaseCaptionRecipe)
CaptioningRun: TypeAlias = Run[CaptioningRecipe, Model]
VideoRun: TypeAlias = Run[VideoRecipe, Model]


class BaseCaptioningTask(LabelTask[AnyCaptionRecipe, Model]):
    """Captioning; a frozen vision network is stored with the run like a vocabulary.

    Abstract: the inputs differ.

    Attributes:
        vision_file: file of a frozen vision network in the run folder.
        encoder_noun: noun for the encoder, for messages.
        collate_fn: collates rows of a corpus of single captions.
    """

    tokenizer_files: ClassVar = (CAPTIONS,)
    vision_file: ClassVar[str]
    encoder_noun: ClassVar[str]
    collate_fn: ClassVar[Callable[..., PairBatch[Any]]]

    @abstractmethod
    def read_input(self, recipe: AnyCaptionRecipe, path: Path) -> Any:
        """Read the picture or clip in a file; raise `DataError` if that fails."""

    @abstractmethod
    def make_extractor(self, run: Run[AnyCaptionRecipe, Model]) -> tuple[ArraySpec, Callable[[Path], np.ndarray]]:
        """Return the type and shape of what is stored of a picture or frame, and a function that extracts it from a
        file, [1 or frames, ...]; it raises `DataError` if the file cannot be read.
        """

    @abstractmethod
    def build_encoder(self, recipe: AnyCaptionRecipe) -> tuple[Encoder[Any], int]:
        """Build the encoder of the inputs, and return it with its maximum number of memory slots."""

    def learn_vocabularies(self, recipe: AnyCaptionRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Learn the caption vocabulary, unless `existing` is a tokenizer to use instead, and load the vision network if
        it is frozen.
        """
        texts = chain.from_iterable(example.captions for example in recipe.data.reader("train"))
        tokenizer = learn_or_reuse_tokenizer(recipe, texts, existing=existing, generated=True)
        if not recipe.has_frozen_vision:
            return {CAPTIONS: tokenizer}
        config = recipe.vision
        network = load_backbone_weights(config, build_vision_backbone(config, size=recipe.input_size))
        vision = FrozenVisionFeatures(network, size=recipe.input_size, step=config.region_stride)
        return {CAPTIONS: tokenizer, self.vision_file: vision}

    def load_vocabularies(self, recipe: AnyCaptionRecipe, folder: Path) -> Vocabularies:
        """Load the caption vocabulary, and the frozen vision network if there is one."""
        tokenizer = load_tokenizer(folder / CAPTIONS)
        if not recipe.has_frozen_vision:
            return {CAPTIONS: tokenizer}
        vision = FrozenVisionFeatures.load(recipe.vision, folder / self.vision_file, size=recipe.input_size)
        return {CAPTIONS: tokenizer, self.vision_file: vision}

    def build_encoding(self, run: Run[AnyCaptionRecipe, Model]) -> ExampleEncoder[tuple[int, CaptionedInput[Any]]]:
        """Return the encoding of captioned inputs, each paired with its number in the data."""
        spec, extract = self.make_extractor(run)
        max_length = run.recipe.data.max_length
        return build_caption_encoding(run.tokenizer, input_spec=spec, extract=extract, max_length=max_length)

    def prepare_examples(self, run: Run[AnyCaptionRecipe, Model], examples: Iterable[Any]) -> Iterable[Any]:
        """Attach a number to each example, so that inputs that were left out can be reported."""
        return enumerate(examples)

    def data_warnings(self, run: Run[AnyCaptionRecipe, Model], corpus: Corpus) -> Sequence[str]:
        """Return a warning for each input of a part of the data that is missing in its corpus because it cannot be
        read.
        """
        examples = run.read_examples(corpus.folder.name)
        missing = explain_unreadable(examples, corpus, extract=partial(self.read_input, run.recipe))
        return [f"left out: {message}" for message in missing]

    def check_files(self, recipe: AnyCaptionRecipe) -> None:
        """Raise `DataError` if a file that the recipe names is missing, pre-trained vision weights included."""
        super().check_files(recipe)
        weights = recipe.vision.weights_file
        if weights is not None and not weights.exists():
            raise DataError(f"{weights}: does not exist; check model.{recipe.vision_key}.weights")

    def build_model(self, recipe: AnyCaptionRecipe, sizes: VocabSizes) -> Model:
        """Build the encoder of the inputs (without its vision network if that is frozen) and the caption decoder;
        `sizes` has the vocabulary size.
        """
        encoder, slots = self.build_encoder(recipe)
        decoder, output = build_memory_decoder(
            recipe.model.decoder,
            vocabulary=sizes[CAPTIONS],
            slots={SOURCE: recipe.model.d_model},
            longest=max(slots, recipe.data.max_length),
        )
        return SequenceToSequence(encoder, decoder, output=output)

    def init_weights(self, run: Run[AnyCaptionRecipe, Model], model: Model, *, log: Callable[[str], None]) -> None:
        """Load pre-trained vision weights into a network that is trained further, and report their file to `log`."""
        super().init_weights(run, model, log=log)
        config, network = run.recipe.vision, getattr(model.encoder, "vision", None)
        if config.weights_file is not None and network is not None:
            load_backbone_weights(config, network).train()
            log(f"{config.weights_file}: the {self.encoder_noun} begins with these weights")

    def build_objective(
        self, run: Run[AnyCaptionRecipe, Model], train: Corpus, validation: Corpus, *, device: torch.device
    ) -> GenerationObjective:
        """Build the caption likelihood objective on a training and a validation corpus, with doubly stochastic
        attention if the recipe asks for it.
        """
        config, special = run.recipe.training, run.tokenizer.special
        criterion = build_criterion(config)
        if weight := getattr(config, "doubly_stochastic", 0.0):
            criterion = DoublyStochasticCriterion(criterion, weight=weight)
        return GenerationObjective(
            split_by_caption(train, eos=special.eos),
            split_by_caption(validation, eos=special.eos),
            target_side=CAPTION_SIDE,
            collate_fn=partial(self.collate_fn, bos=special.bos),
            criterion=criterion,
            generation_metrics=None if config.monitor == "loss" else self._build_validation_score(run),
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def _build_validation_score(self, run: Run[AnyCaptionRecipe, Model]) -> GenerationMetrics:
        """Return a measure of BLEU-4 and CIDEr-D of greedy captions on the validation part; unreadable inputs are left
        out.
        """
        greedy = build_search(GreedyConfig(), run.tokenizer)

        def measure(model: nn.Module) -> Mapping[str, float]:
            assert isinstance(model, SequenceToSequence)
            examples = ((example.file, example.captions) for example in run.read_examples("validation"))
            return evaluate_captions(self.build_predictor(run, model), examples, search=greedy)

        return GenerationMetrics(frozenset({"bleu", "cider"}), measure)

    def describe_part(self, recipe: AnyCaptionRecipe, part: str) -> str:
        """Name the caption file of a part of the data."""
        return str(getattr(recipe.data, part).path)

    def get_captioner_options(self, run: Run[AnyCaptionRecipe, Model]) -> dict[str, Any]:
        """Return the arguments that all captioners take besides the model, by name."""
        longest = run.recipe.model.length_limit
        return {
            "tokenizer": run.tokenizer,
            "generation": run.recipe.generation,
            "longest": None if longest is None else longest.tokens,
        }


@final
class CaptioningTask(BaseCaptioningTask[CaptioningRecipe]):
    """Captioning of pictures."""

    unit_names: ClassVar = UnitNames(examples="captions", corpus_examples="pictures")
    default_example_command: ClassVar = "caption RUN photo.jpg"
    vision_file: ClassVar = "tokenizer/pictures"
    encoder_noun: ClassVar = "picture encoder"
    collate_fn: ClassVar = staticmethod(collate_captions)

    def read_input(self, recipe: CaptioningRecipe, path: Path) -> Picture:
        """Read a picture."""
        return read_picture(path)

    def make_extractor(self, run: CaptioningRun) -> tuple[ArraySpec, Callable[[Path], np.ndarray]]:
        """Return the type and shape of a picture's features, and a function that extracts them from a file, [1, ...] as
        for a clip of one frame.
        """
        picture_features, framing = self._get_picture_features(run), run.recipe.data.framing
        return picture_features.array_spec, lambda path: picture_features(framing(read_picture(path)))[None]

    def build_encoder(self, recipe: CaptioningRecipe) -> tuple[Encoder[Any], int]:
        """Build the picture encoder, and return it with its number of memory slots, one per region."""
        config, size = recipe.model, recipe.data.picture_size
        slots = (-(-size // config.pictures.region_stride)) ** 2
        regions = build_region_encoder(config.pictures, d_model=config.d_model, size=size)
        if config.pictures.is_frozen:
            return regions, slots
        return PictureEncoder(build_vision_backbone(config.pictures, size=size), regions), slots

    def build_part_evaluator(self, recipe: CaptioningRecipe, part: str) -> LabelEvaluator:
        """Build the evaluator of the captioned pictures of a part of the data."""
        return build_caption_evaluator(list(recipe.data.reader(part)), train=list(recipe.data.reader("train")))

    def build_predictor(self, run: CaptioningRun, model: Model, *, step: int | None = None) -> Captioner:
        """Build the captioner of a trained model; `step` is not used."""
        picture_features = self._get_picture_features(run).to_device(next(model.parameters()).device)
        options = self.get_captioner_options(run)
        return Captioner(model, picture_features=picture_features, framing=run.recipe.data.framing, **options)

    def _get_picture_features(self, run: CaptioningRun) -> PictureFeatures:
        """Return the frozen vision network of a run, or raw pixels if there is none."""
        if run.recipe.has_frozen_vision:
            return run.get_vocabulary(self.vision_file, FrozenVisionFeatures)
        return PixelFeatures(run.recipe.data.picture_size)


@final
class VideoTask(BaseCaptioningTask[VideoRecipe]):
    """Captioning of clips."""

    unit_names: ClassVar = UnitNames(examples="captions", corpus_examples="clips")
    default_example_command: ClassVar = "caption RUN clip.mp4"
    vision_file: ClassVar = "tokenizer/frames"
    encoder_noun: ClassVar = "frame encoder"
    collate_fn: ClassVar = staticmethod(collate_clips)

    def read_input(self, recipe: VideoRecipe, path: Path) -> Clip:
        """Read a clip."""
        return recipe.data.read_clip(path)

    def make_extractor(self, run: VideoRun) -> tuple[ArraySpec, Callable[[Path], np.ndarray]]:
        """Return the type and shape of a frame's features, and a function that extracts those of all frames from a
        clip's file.
        """
        read_clip = self._make_clip_reader(run)
        return _get_frame_spec(run.recipe), lambda path: read_clip(path).frames

    def build_encoder(self, recipe: VideoRecipe) -> tuple[Encoder[Any], int]:
        """Build the frame encoder, and return it with its maximum number of memory slots, one per frame."""
        config = recipe.model
        encoder = build_clip_encoder(
            config.frames,
            config.motion if config.local else None,
            size=recipe.input_size,
            d_model=config.d_model,
            encode_times=config.times,
            d_features=recipe.num_features,
        )
        return encoder, recipe.data.frames

    def build_part_evaluator(self, recipe: VideoRecipe, part: str) -> LabelEvaluator:
        """Build the evaluator of the captioned clips of a part of the data."""
        clips, train = (list(recipe.data.reader(name)) for name in (part, "train"))
        return build_video_evaluator(clips, train=train, read_clip=recipe.data.read_clip)

    def build_predictor(self, run: VideoRun, model: Model, *, step: int | None = None) -> VideoCaptioner:
        """Build the video captioner of a trained model; `step` is not used."""
        data = run.recipe.data
        return VideoCaptioner(
            model,
            read_clip=self._make_clip_reader(run, next(model.parameters()).device),
            read_frames=data.read_clip,
            decoded_size=data.decoded_size,
            peak_memory=data.peak_memory,
            array_spec=_get_frame_spec(run.recipe),
            **self.get_captioner_options(run),
        )

    def _make_clip_reader(self, run: VideoRun, device: torch.device | str = "cpu") -> Callable[[Path], Clip]:
        """Return a function that reads the clip at a path: pixels, stored features, or features that a frozen network
        on `device` computes.
        """
        read_pixels = run.recipe.data.read_clip
        if not run.recipe.has_frozen_vision:
            return read_pixels
        picture_features = run.get_vocabulary(self.vision_file, FrozenVisionFeatures).to_device(torch.device(device))
        return _FeatureReader(read_pixels, picture_features)


@final
@dataclass(frozen=True)
class _FeatureReader:
    """Reads a clip and returns the features that a frozen network computes of its frames."""

    read_pixels: Callable[[Path], Clip]
    picture_features: FrozenVisionFeatures

    def __call__(self, path: Path) -> Clip:
        """Return the mean feature vector of the regions of each frame."""
        clip = self.read_pixels(path)
        frames = [self.picture_features(frame).mean((0, 1), dtype=np.float32) for frame in clip.frames]
        return Clip(np.stack(frames), clip.frame_indices)


TASK: Final = CaptioningTask()
VIDEO_TASK: Final = VideoTask()


def _get_frame_spec(recipe: VideoRecipe) -> ArraySpec:
    """Return the type and shape of a frame's stored input: pixels or features."""
    side, features = recipe.data.frame_size, recipe.num_features
    return ArraySpec("<u1", (side, side, 3)) if features is None else ArraySpec("<f4", (features,))
