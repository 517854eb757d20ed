"""What recognising speech makes of a recipe."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Final, TypeAlias, final

import torch
from torch import nn

from heedful.architectures.build import build_frame_encoder, build_memory_decoder
from heedful.blocks.linear import xavier_linear
from heedful.data.bucketing import plan_batches
from heedful.data.corpus import Corpus, Encoding
from heedful.data.tokenizers import Tokenizer
from heedful.models.recogniser import Hybrid, SlotLabeller, SlotLabels
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.recipes.generation import GreedyConfig
from heedful.tasks.counted import Counted
from heedful.tasks.criteria import Likelihood, build_criterion
from heedful.tasks.exam import Asking
from heedful.tasks.kind import Entries, Kind, Run, Vocabularies, learned
from heedful.tasks.speech.data import TEXT, Utterance, collate_spoken, paired, spoken_encoding
from heedful.tasks.speech.exam import SpeechExam
from heedful.tasks.speech.face import Recogniser
from heedful.tasks.speech.problem import Joint, Labelling
from heedful.tasks.speech.recipe import SpeechRecipe
from heedful.tasks.speech.report import SpeechComparison, SpeechReport
from heedful.tasks.speech.ways import build_way
from heedful.tasks.target import Target
from heedful.tasks.task import Task
from heedful.tasks.writing import Score, Writing
from heedful.values import SOURCE, move

WORDS: Final = "tokenizer/text"
SpeechRun: TypeAlias = Run[SpeechRecipe, nn.Module]


@final
class SpeechKind(Kind[SpeechRecipe, nn.Module]):
    """What is said is learned from recordings and their texts."""

    words: ClassVar = (WORDS,)
    counted: ClassVar = Counted(examples="recordings", stored="recordings", side=TEXT)
    trial: ClassVar = "transcribe RUN sound.wav"
    understood: ClassVar = frozenset({"text", "search"})
    reported: ClassVar = SpeechReport
    compared: ClassVar = SpeechComparison

    def learn(self, recipe: SpeechRecipe, *, given: Tokenizer | None) -> Vocabularies:
        """That of the texts."""
        return {WORDS: learned(recipe, (each.text for each in recipe.data.reader("train")), given=given, writes=True)}

    def encoding(self, run: SpeechRun) -> Encoding[Utterance]:
        """Frames and texts."""
        data = run.recipe.data
        return spoken_encoding(
            run.tokenizer,
            data.frames.front(),
            seconds=data.max_seconds,
            max_length=data.max_length,
            aligned=run.recipe.model.ctc_weight > 0,
        )

    def build(self, recipe: SpeechRecipe, sizes: Entries) -> nn.Module:
        """An encoder, and what writes from its memory."""
        config, data, vocabulary = recipe.model, recipe.data, sizes[WORDS]
        encoder = build_frame_encoder(config, bands=data.frames.bands, longest=data.slots)
        labels = SlotLabels(xavier_linear(config.d_output, vocabulary))
        if config.decoder is None:
            return SlotLabeller(encoder, labels)
        longest, slots = max(data.max_length, data.slots), {SOURCE: config.d_output}
        decoder, output = build_memory_decoder(config.decoder, vocabulary=vocabulary, slots=slots, longest=longest)
        if config.ctc_weight == 0:
            return SequenceToSequence(encoder, decoder, output=output)
        return Hybrid(encoder, decoder, output=output, labels=labels)

    def problem(self, run: SpeechRun, train: Corpus, validation: Corpus, *, device: torch.device) -> Task[Any]:
        """Likelihood, by one way or by both."""
        config, special = run.recipe.training, run.tokenizer.special
        score = _exact(run, validation) if config.monitor == "exact" else None
        common: dict[str, Any] = {
            "score": score,
            "batch_tokens": config.batch_tokens,
            "seed": run.recipe.seed,
            "device": device,
        }
        if (weight := run.recipe.model.ctc_weight) == 1:
            return Labelling(train, validation, begins=special.bos, ends=special.eos, **common)
        criterion = build_criterion(config)
        if weight > 0:
            criterion = Joint(Likelihood(config.label_smoothing), weight=weight, ends=special.eos, blank=special.bos)
        collated = partial(collate_spoken, bos=special.bos)
        return Writing(train, validation, paired=collated, criterion=criterion, **common)

    def exam(self, recipe: SpeechRecipe | None, asking: Asking) -> SpeechExam:
        """The recordings that a user names, or the test part, or the validation part where there is no other."""
        assert recipe is not None, "nothing but a run listens"
        if asking.search is not None:
            asking.search(recipe.generation)
        if asking.text is not None:
            return SpeechExam(list(paired(asking.text)), text=str(asking.text.paths[0]), asking=asking)
        part = recipe.data.measured
        reader = recipe.data.reader(part)
        return SpeechExam(list(reader), text=str(getattr(recipe.data, part).path), part=part, asking=asking)

    def face(self, run: SpeechRun, model: nn.Module, *, step: int | None = None) -> Recogniser:
        """Files of sound in, texts out."""
        data, target = run.recipe.data, _target(run, model)
        return Recogniser(
            model,
            target=target,
            front=data.frames.front(),
            seconds=data.max_seconds,
            generation=run.recipe.generation,
            way=partial(build_way, target=target, ctc_weight=run.recipe.model.ctc_weight),
        )


KIND: Final = SpeechKind()


def _target(run: SpeechRun, model: nn.Module) -> Target:
    device = next(model.parameters()).device
    return Target(run.tokenizer, device=device, longest=run.recipe.data.max_length)


def _exact(run: SpeechRun, validation: Corpus) -> Score:
    """The share of texts that greedy search finds without an error."""
    special, tokens = run.tokenizer.special, run.recipe.training.batch_tokens

    def measure(model: nn.Module) -> dict[str, float]:
        target, right = _target(run, model), 0
        way = build_way(GreedyConfig(), target=target, ctc_weight=run.recipe.model.ctc_weight)
        for rows in plan_batches(validation.lengths, tokens=tokens, seed=0, epoch=0):
            source = move(collate_spoken(validation, rows, bos=special.bos).source, target.device)
            found = way.find(model, source, numbers=rows.tolist())
            right += sum(
                (*texts[0].ids, special.eos) == tuple(validation[TEXT][row].tolist())
                for texts, row in zip(found, rows, strict=True)
            )
        return {"exact": right / len(validation)}

    return Score(frozenset({"exact"}), measure)
