"""What captioning makes of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import ClassVar, Final, TypeAlias, final

import torch
from torch import Tensor, nn

from heedful.architectures.build import build_memory_decoder
from heedful.architectures.build_pictures import build_regions, build_vision, load_trained
from heedful.data.corpus import Corpus, Encoding
from heedful.data.pictures import read_picture
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError
from heedful.models.pictures import PictureEncoder
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.recipes.generation import GreedyConfig
from heedful.tasks.caption_writer import caption_score
from heedful.tasks.captioning.data import Captioned, collate_captions, seen_by
from heedful.tasks.captioning.exam import caption_exam
from heedful.tasks.captioning.face import Captioner
from heedful.tasks.captioning.recipe import CaptioningRecipe
from heedful.tasks.captions import by_caption, caption_encoding, unseen
from heedful.tasks.counted import Counted
from heedful.tasks.criteria import DoublyStochastic, build_criterion
from heedful.tasks.exam import Asking
from heedful.tasks.kind import Entries, Kind, Run, Vocabularies, learned, placed
from heedful.tasks.labelled import LabelledComparison, LabelledExam, LabelledReport
from heedful.tasks.searches import build_length, build_search
from heedful.tasks.sight import FrozenVision, Pixels, Sight
from heedful.tasks.writing import Score, Writing
from heedful.values import SOURCE

CAPTIONS: Final = "tokenizer/captions"
PICTURES: Final = "tokenizer/pictures"
Model: TypeAlias = SequenceToSequence[Tensor]
CaptioningRun: TypeAlias = Run[CaptioningRecipe, Model]


@final
class CaptioningKind(Kind[CaptioningRecipe, Model]):
    """Captions of pictures are learned; a network that learns nothing is a file of the run, as a vocabulary is."""

    words: ClassVar = (CAPTIONS,)
    counted: ClassVar = Counted(examples="captions", stored="pictures")
    trial: ClassVar = "caption RUN photo.jpg"
    reported: ClassVar = LabelledReport
    compared: ClassVar = LabelledComparison

    def learn(self, recipe: CaptioningRecipe, *, given: Tokenizer | None) -> Vocabularies:
        """Words, and what looks at pictures where it learns nothing."""
        texts = chain.from_iterable(each.captions for each in recipe.data.reader("train"))
        found: Vocabularies = {CAPTIONS: learned(recipe, texts, given=given, writes=True)}
        config = recipe.model.pictures
        if config.apart:
            network = load_trained(config, build_vision(config))
            found = {**found, PICTURES: FrozenVision(network, size=recipe.data.picture_size, step=config.step)}
        return found

    def load(self, recipe: CaptioningRecipe, folder: Path) -> Vocabularies:
        """Words, and what looks at pictures where it learns nothing."""
        found: Vocabularies = {CAPTIONS: load_tokenizer(folder / CAPTIONS)}
        if (config := recipe.model.pictures).apart:
            network = FrozenVision.load(config, folder / PICTURES, size=recipe.data.picture_size)
            found = {**found, PICTURES: network}
        return found

    def encoding(self, run: CaptioningRun) -> Encoding[tuple[int, Captioned]]:
        """Each picture with its captions."""
        sight, data = _sight(run), run.recipe.data
        see = seen_by(sight, data.framing)
        return caption_encoding(run.tokenizer, items=sight.items, see=see, longest=data.max_length)

    def prepared(self, run: CaptioningRun, examples: Iterable[Captioned]) -> Iterable[tuple[int, Captioned]]:
        """With their numbers, so that it can be told which were left out."""
        return enumerate(examples)

    def remarks(self, run: CaptioningRun, corpus: Corpus) -> Sequence[str]:
        """Which pictures cannot be read."""
        missing = unseen(run.examples(corpus.folder.name), corpus, see=lambda each: read_picture(each.picture))
        return [f"left out: {said}" for said in missing]

    def require(self, recipe: CaptioningRecipe) -> None:
        """Looks for weights of trained networks too."""
        super().require(recipe)
        weights = recipe.model.pictures.source
        if weights is not None and not weights.exists():
            raise DataError(f"{weights}: there are no such weights; check model.pictures.weights")

    def build(self, recipe: CaptioningRecipe, sizes: Entries) -> Model:
        """What looks at pictures, unless it stands apart, and what writes."""
        config, data = recipe.model, recipe.data
        regions = build_regions(config.pictures, d_model=config.d_model, size=data.picture_size)
        encoder = regions if config.pictures.apart else PictureEncoder(build_vision(config.pictures), regions)
        slots = (-(-data.picture_size // config.pictures.step)) ** 2
        decoder, output = build_memory_decoder(
            config.decoder,
            vocabulary=sizes[CAPTIONS],
            slots={SOURCE: config.d_model},
            longest=max(slots, data.max_length),
        )
        return SequenceToSequence(encoder, decoder, output=output)

    def warm(self, run: CaptioningRun, model: Model, *, say: Callable[[str], None]) -> None:
        """A trained network that learns on begins with its weights."""
        super().warm(run, model, say=say)
        config = run.recipe.model.pictures
        if config.source is not None and isinstance(model.encoder, PictureEncoder):
            load_trained(config, model.encoder.vision).train()
            say(f"{config.source}: what looks at pictures begins with these weights")

    def problem(self, run: CaptioningRun, train: Corpus, validation: Corpus, *, device: torch.device) -> Writing:
        """Likelihood of the captions, and what may stand beside it."""
        config, special = run.recipe.training, run.tokenizer.special
        criterion = build_criterion(config)
        if config.doubly_stochastic:
            criterion = DoublyStochastic(criterion, weight=config.doubly_stochastic)
        return Writing(
            by_caption(train, eos=special.eos),
            by_caption(validation, eos=special.eos),
            paired=partial(collate_captions, bos=special.bos),
            criterion=criterion,
            score=None if config.monitor == "loss" else _score(run),
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def exam(self, recipe: CaptioningRecipe | None, asking: Asking) -> LabelledExam:
        """The test part, or the validation part where there is no other."""
        assert recipe is not None, "nothing but a run writes captions"
        part = recipe.data.measured
        reader = recipe.data.reader(part)
        with placed(f"data.{part}"):
            found = caption_exam(list(reader), train=list(recipe.data.reader("train")))
        return found.placed(part, str(reader.paths[0]), table="data")

    def face(self, run: CaptioningRun, model: Model, *, step: int | None = None) -> Captioner:
        """Pictures in, captions out."""
        recipe, end = run.recipe, run.recipe.model.longest
        return Captioner(
            model,
            tokenizer=run.tokenizer,
            sight=_sight(run).on(next(model.parameters()).device),
            framing=recipe.data.framing,
            search=build_search(recipe.generation, run.tokenizer),
            length=build_length(recipe.generation),
            generation=recipe.generation,
            longest=None if end is None else end.tokens,
        )


KIND: Final = CaptioningKind()


def _sight(run: CaptioningRun) -> Sight:
    if run.recipe.model.pictures.apart:
        return run.vocabulary(PICTURES, FrozenVision)
    return Pixels(run.recipe.data.picture_size)


def _score(run: CaptioningRun) -> Score:
    """BLEU-4 and CIDEr-D of greedy captions of the validation part; pictures that cannot be read are left out."""
    greedy = build_search(GreedyConfig(), run.tokenizer)

    def measure(model: nn.Module) -> Mapping[str, float]:
        assert isinstance(model, SequenceToSequence)
        examples = ((each.picture, each.captions) for each in run.examples("validation"))
        return caption_score(KIND.face(run, model), examples, search=greedy)

    return Score(frozenset({"bleu", "cider"}), measure)
