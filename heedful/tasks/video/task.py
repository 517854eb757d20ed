"""The video captioning task: vocabularies, model, objective, evaluator and predictor of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import ClassVar, Final, TypeAlias, final

import numpy as np
import torch
from torch import nn

from heedful.architectures.build import build_memory_decoder
from heedful.architectures.build_clips import build_clip_encoder
from heedful.architectures.build_pictures import build_vision_backbone, load_backbone_weights
from heedful.data.clips import Clip
from heedful.data.corpus import ArraySpec, Corpus, ExampleEncoder
from heedful.data.tokenizer_loading import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.models.clips import ClipBatch, FrameEncoder
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.recipes.generation import GreedyConfig
from heedful.tasks.base_captioner import evaluate_captions
from heedful.tasks.captions import build_caption_encoding, explain_unreadable, split_by_caption
from heedful.tasks.criteria import build_criterion
from heedful.tasks.evaluation import EvaluatorOptions
from heedful.tasks.generation_objective import GenerationMetrics, GenerationObjective
from heedful.tasks.label_evaluation import LabelComparison, LabelEvaluator, LabelReport
from heedful.tasks.picture_features import FrozenVisionFeatures
from heedful.tasks.search_factory import build_length_limits, build_search
from heedful.tasks.task import Run, Task, VocabSizes, Vocabularies, learn_or_reuse_tokenizer, prefix_data_errors
from heedful.tasks.unit_names import UnitNames
from heedful.tasks.video.data import CaptionedClip, collate_clips
from heedful.tasks.video.evaluation import build_video_evaluator
from heedful.tasks.video.predictor import VideoCaptioner
from heedful.tasks.video.recipe import VideoRecipe
from heedful.tensors import SOURCE

CAPTIONS: Final = "tokenizer/captions"
FRAMES: Final = "tokenizer/frames"
Model: TypeAlias = SequenceToSequence[ClipBatch]
VideoRun: TypeAlias = Run[VideoRecipe, Model]


@final
class VideoTask(Task[VideoRecipe, Model]):
    """Captioning of clips; a frozen vision network is stored with the run like a vocabulary."""

    tokenizer_files: ClassVar = (CAPTIONS,)
    unit_names: ClassVar = UnitNames(examples="captions", corpus_examples="clips")
    default_example_command: ClassVar = "caption RUN clip.mp4"
    report_class: ClassVar = LabelReport
    comparison_class: ClassVar = LabelComparison

    def learn_vocabularies(self, recipe: VideoRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Learn the caption vocabulary, and load the vision network if it is frozen."""
        texts = chain.from_iterable(example.captions for example in recipe.data.reader("train"))
        vocabularies: Vocabularies = {
            CAPTIONS: learn_or_reuse_tokenizer(recipe, texts, existing=existing, generated=True)
        }
        if not recipe.has_frozen_vision:
            return vocabularies
        config = recipe.model.frames
        network = load_backbone_weights(config, build_vision_backbone(config))
        return {
            **vocabularies,
            FRAMES: FrozenVisionFeatures(network, size=recipe.data.frame_size, step=config.region_stride),
        }

    def load_vocabularies(self, recipe: VideoRecipe, folder: Path) -> Vocabularies:
        """Load the caption vocabulary, and the frozen vision network if there is one."""
        vocabularies: Vocabularies = {CAPTIONS: load_tokenizer(folder / CAPTIONS)}
        if not recipe.has_frozen_vision:
            return vocabularies
        network = FrozenVisionFeatures.load(recipe.model.frames, folder / FRAMES, size=recipe.data.frame_size)
        return {**vocabularies, FRAMES: network}

    def build_encoding(self, run: VideoRun) -> ExampleEncoder[tuple[int, CaptionedClip]]:
        """Return the encoding of numbered clips with their captions."""
        read_clip = _make_clip_reader(run)
        return build_caption_encoding(
            run.tokenizer,
            input_spec=_get_frame_spec(run.recipe),
            extract=lambda example: read_clip(example.clip).frames,
            max_length=run.recipe.data.max_length,
        )

    def prepare_examples(self, run: VideoRun, examples: Iterable[CaptionedClip]) -> Iterable[tuple[int, CaptionedClip]]:
        """Attach a number to each example, so that clips that were left out can be reported."""
        return enumerate(examples)

    def data_warnings(self, run: VideoRun, corpus: Corpus) -> Sequence[str]:
        """Return a warning for each clip that cannot be read."""
        examples = run.read_examples(corpus.folder.name)
        missing = explain_unreadable(examples, corpus, extract=lambda example: run.recipe.data.read_clip(example.clip))
        return [f"left out: {message}" for message in missing]

    def check_files(self, recipe: VideoRecipe) -> None:
        """Check that the files of pre-trained weights exist too."""
        super().check_files(recipe)
        weights = recipe.model.frames.weights_file
        if weights is not None and not weights.exists():
            raise DataError(f"{weights}: does not exist; check model.frames.weights")

    def build_model(self, recipe: VideoRecipe, sizes: VocabSizes) -> Model:
        """Build the frame encoder and the caption decoder."""
        config, data = recipe.model, recipe.data
        encoder = build_clip_encoder(
            config.frames,
            config.motion if config.local else None,
            d_model=config.d_model,
            encode_times=config.times,
            d_features=recipe.num_features,
        )
        decoder, output = build_memory_decoder(
            config.decoder,
            vocabulary=sizes[CAPTIONS],
            slots={SOURCE: config.d_model},
            longest=max(data.frames, data.max_length),
        )
        return SequenceToSequence(encoder, decoder, output=output)

    def init_weights(self, run: VideoRun, model: Model, *, log: Callable[[str], None]) -> None:
        """Load pre-trained vision weights into a network that is trained further."""
        super().init_weights(run, model, log=log)
        config, encoder = run.recipe.model.frames, model.encoder
        assert isinstance(encoder, FrameEncoder)
        if config.weights_file is not None and encoder.vision is not None:
            load_backbone_weights(config, encoder.vision).train()
            log(f"{config.weights_file}: the frame encoder begins with these weights")

    def build_objective(
        self, run: VideoRun, train: Corpus, validation: Corpus, *, device: torch.device
    ) -> GenerationObjective:
        """Build the caption likelihood objective."""
        config, special = run.recipe.training, run.tokenizer.special
        return GenerationObjective(
            split_by_caption(train, eos=special.eos),
            split_by_caption(validation, eos=special.eos),
            collate_fn=partial(collate_clips, bos=special.bos),
            criterion=build_criterion(config),
            generation_metrics=None if config.monitor == "loss" else _build_validation_score(run),
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def build_evaluator(self, recipe: VideoRecipe | None, options: EvaluatorOptions) -> LabelEvaluator:
        """Build the evaluator of the test part, or of the validation part if there is no test part."""
        assert recipe is not None, "only a run writes captions"
        part = recipe.data.evaluation_part
        reader = recipe.data.reader(part)
        with prefix_data_errors(f"data.{part}"):
            evaluator = build_video_evaluator(
                list(reader), train=list(recipe.data.reader("train")), read_clip=recipe.data.read_clip
            )
        return evaluator.with_location(part, str(reader.paths[0]), table="data")

    def build_predictor(self, run: VideoRun, model: Model, *, step: int | None = None) -> VideoCaptioner:
        """Build the video captioner."""
        recipe, longest = run.recipe, run.recipe.model.length_limit
        return VideoCaptioner(
            model,
            read_clip=_make_clip_reader(run, next(model.parameters()).device),
            read_frames=recipe.data.read_clip,
            decoded_size=recipe.data.decoded_size,
            peak_memory=recipe.data.peak_memory,
            array_spec=_get_frame_spec(recipe),
            tokenizer=run.tokenizer,
            search=build_search(recipe.generation, run.tokenizer),
            length=build_length_limits(recipe.generation),
            generation=recipe.generation,
            longest=None if longest is None else longest.tokens,
        )


TASK: Final = VideoTask()


def _get_frame_spec(recipe: VideoRecipe) -> ArraySpec:
    """Return the type and shape of a frame's stored input: pixels or features."""
    side, features = recipe.data.frame_size, recipe.num_features
    return ArraySpec("<u1", (side, side, 3)) if features is None else ArraySpec("<f4", (features,))


def _make_clip_reader(run: VideoRun, device: torch.device | str = "cpu") -> Callable[[Path], Clip]:
    """Return a function that reads the clip at a path: pixels, stored features, or features computed now."""
    read_pixels = run.recipe.data.read_clip
    if not run.recipe.has_frozen_vision:
        return read_pixels
    picture_features = run.get_vocabulary(FRAMES, FrozenVisionFeatures).to_device(torch.device(device))

    def read_features(path: Path) -> Clip:
        """Read a clip and compute the features of its frames."""
        clip = read_pixels(path)
        return Clip(
            np.stack([picture_features(frame).mean((0, 1), dtype=np.float32) for frame in clip.frames]),
            clip.frame_indices,
        )

    return read_features


def _build_validation_score(run: VideoRun) -> GenerationMetrics:
    """Return BLEU-4 and CIDEr-D of greedy captions on the validation part; unreadable clips are left out."""
    greedy = build_search(GreedyConfig(), run.tokenizer)

    def measure(model: nn.Module) -> Mapping[str, float]:
        """Caption the validation clips greedily and return their scores."""
        assert isinstance(model, SequenceToSequence)
        examples = ((example.clip, example.captions) for example in run.read_examples("validation"))
        return evaluate_captions(TASK.build_predictor(run, model), examples, search=greedy)

    return GenerationMetrics(frozenset({"bleu", "cider"}), measure)
