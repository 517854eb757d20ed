"""What is made of a recipe that says what happens in clips."""

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
from heedful.architectures.build_clips import build_frames
from heedful.architectures.build_pictures import build_vision, load_trained
from heedful.data.clips import Clip
from heedful.data.corpus import Corpus, Encoding, Items
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.models.clips import Clips, FrameEncoder
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.recipes.generation import GreedyConfig
from heedful.tasks.caption_writer import caption_score
from heedful.tasks.captions import by_caption, caption_encoding, unseen
from heedful.tasks.counted import Counted
from heedful.tasks.criteria import build_criterion
from heedful.tasks.exam import Asking
from heedful.tasks.kind import Entries, Kind, Run, Vocabularies, learned, placed
from heedful.tasks.labelled import LabelledComparison, LabelledExam, LabelledReport
from heedful.tasks.searches import build_length, build_search
from heedful.tasks.sight import FrozenVision
from heedful.tasks.video.data import CaptionedClip, collate_clips
from heedful.tasks.video.exam import video_exam
from heedful.tasks.video.face import VideoCaptioner
from heedful.tasks.video.recipe import VideoRecipe
from heedful.tasks.writing import Score, Writing
from heedful.values import SOURCE

CAPTIONS: Final = "tokenizer/captions"
FRAMES: Final = "tokenizer/frames"
Model: TypeAlias = SequenceToSequence[Clips]
VideoRun: TypeAlias = Run[VideoRecipe, Model]


@final
class VideoKind(Kind[VideoRecipe, Model]):
    """Captions of clips are learned; a network that learns nothing is a file of the run, as a vocabulary is."""

    words: ClassVar = (CAPTIONS,)
    counted: ClassVar = Counted(examples="captions", stored="clips")
    trial: ClassVar = "caption RUN clip.mp4"
    reported: ClassVar = LabelledReport
    compared: ClassVar = LabelledComparison

    def learn(self, recipe: VideoRecipe, *, given: Tokenizer | None) -> Vocabularies:
        """Words, and what looks at frames where it learns nothing."""
        texts = chain.from_iterable(each.captions for each in recipe.data.reader("train"))
        found: Vocabularies = {CAPTIONS: learned(recipe, texts, given=given, writes=True)}
        if not recipe.looks_once:
            return found
        config = recipe.model.frames
        network = load_trained(config, build_vision(config))
        return {**found, FRAMES: FrozenVision(network, size=recipe.data.frame_size, step=config.step)}

    def load(self, recipe: VideoRecipe, folder: Path) -> Vocabularies:
        """Words, and what looks at frames where it learns nothing."""
        found: Vocabularies = {CAPTIONS: load_tokenizer(folder / CAPTIONS)}
        if not recipe.looks_once:
            return found
        network = FrozenVision.load(recipe.model.frames, folder / FRAMES, size=recipe.data.frame_size)
        return {**found, FRAMES: network}

    def encoding(self, run: VideoRun) -> Encoding[tuple[int, CaptionedClip]]:
        """Each clip with its captions."""
        read = _read(run)
        return caption_encoding(
            run.tokenizer,
            items=_items(run.recipe),
            see=lambda example: read(example.clip).frames,
            longest=run.recipe.data.max_length,
        )

    def prepared(self, run: VideoRun, examples: Iterable[CaptionedClip]) -> Iterable[tuple[int, CaptionedClip]]:
        """With their numbers, so that it can be told which were left out."""
        return enumerate(examples)

    def remarks(self, run: VideoRun, corpus: Corpus) -> Sequence[str]:
        """Which clips cannot be read."""
        examples = run.examples(corpus.folder.name)
        missing = unseen(examples, corpus, see=lambda each: run.recipe.data.see(each.clip))
        return [f"left out: {said}" for said in missing]

    def require(self, recipe: VideoRecipe) -> None:
        """Looks for weights of trained networks too."""
        super().require(recipe)
        weights = recipe.model.frames.source
        if weights is not None and not weights.exists():
            raise DataError(f"{weights}: there are no such weights; check model.frames.weights")

    def build(self, recipe: VideoRecipe, sizes: Entries) -> Model:
        """What looks at frames, and what writes."""
        config, data = recipe.model, recipe.data
        encoder = build_frames(
            config.frames,
            config.motion if config.local else None,
            d_model=config.d_model,
            times=config.times,
            features=recipe.features,
        )
        decoder, output = build_memory_decoder(
            config.decoder,
            vocabulary=sizes[CAPTIONS],
            slots={SOURCE: config.d_model},
            longest=max(data.frames, data.max_length),
        )
        return SequenceToSequence(encoder, decoder, output=output)

    def warm(self, run: VideoRun, model: Model, *, say: Callable[[str], None]) -> None:
        """A trained network begins with its weights."""
        super().warm(run, model, say=say)
        config, encoder = run.recipe.model.frames, model.encoder
        assert isinstance(encoder, FrameEncoder)
        if config.source is not None and encoder.vision is not None:
            load_trained(config, encoder.vision).train()
            say(f"{config.source}: what looks at frames begins with these weights")

    def problem(self, run: VideoRun, train: Corpus, validation: Corpus, *, device: torch.device) -> Writing:
        """Likelihood of the captions, and what may stand beside it."""
        config, special = run.recipe.training, run.tokenizer.special
        return Writing(
            by_caption(train, eos=special.eos),
            by_caption(validation, eos=special.eos),
            paired=partial(collate_clips, bos=special.bos),
            criterion=build_criterion(config),
            score=None if config.monitor == "loss" else _score(run),
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def exam(self, recipe: VideoRecipe | None, asking: Asking) -> LabelledExam:
        """The test part, or the validation part where there is no other."""
        assert recipe is not None, "nothing but a run writes captions"
        part = recipe.data.measured
        reader = recipe.data.reader(part)
        with placed(f"data.{part}"):
            found = video_exam(list(reader), train=list(recipe.data.reader("train")), see=recipe.data.see)
        return found.placed(part, str(reader.paths[0]), table="data")

    def face(self, run: VideoRun, model: Model, *, step: int | None = None) -> VideoCaptioner:
        """Clips in, captions out."""
        recipe, end = run.recipe, run.recipe.model.longest
        return VideoCaptioner(
            model,
            read=_read(run, next(model.parameters()).device),
            show=recipe.data.see,
            size=recipe.data.size,
            memory=recipe.data.memory,
            items=_items(recipe),
            tokenizer=run.tokenizer,
            search=build_search(recipe.generation, run.tokenizer),
            length=build_length(recipe.generation),
            generation=recipe.generation,
            longest=None if end is None else end.tokens,
        )


KIND: Final = VideoKind()


def _items(recipe: VideoRecipe) -> Items:
    """What is kept of a frame: its pixels, or what was made of it."""
    side, features = recipe.data.frame_size, recipe.features
    return Items("<u1", (side, side, 3)) if features is None else Items("<f4", (features,))


def _read(run: VideoRun, device: torch.device | str = "cpu") -> Callable[[Path], Clip]:
    """What is kept of the clip at a path: its pixels, or of each frame what was made of it before or is made now."""
    see = run.recipe.data.see
    if not run.recipe.looks_once:
        return see
    sight = run.vocabulary(FRAMES, FrozenVision).on(torch.device(device))

    def looked(path: Path) -> Clip:
        clip = see(path)
        return Clip(np.stack([sight(frame).mean((0, 1), dtype=np.float32) for frame in clip.frames]), clip.numbers)

    return looked


def _score(run: VideoRun) -> Score:
    """Of the validation part; clips that cannot be read are left out."""
    greedy = build_search(GreedyConfig(), run.tokenizer)

    def measure(model: nn.Module) -> Mapping[str, float]:
        assert isinstance(model, SequenceToSequence)
        examples = ((each.clip, each.captions) for each in run.examples("validation"))
        return caption_score(KIND.face(run, model), examples, search=greedy)

    return Score(frozenset({"bleu", "cider"}), measure)
