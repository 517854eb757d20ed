"""The speech recognition task: objective, evaluator, vocabularies, model and predictor of a recipe."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, TypeAlias, final

import torch
from jaxtyping import Int
from torch import Tensor, nn

from heedful.architectures.build import build_frame_encoder, build_memory_decoder
from heedful.atomic_io import compute_digest
from heedful.blocks.feedforward import build_xavier_linear
from heedful.data.batches import PairBatch, batch_by_size
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.pretrained_tokenizers import PretrainedTokenizer
from heedful.data.sound import PaddedLogMel
from heedful.data.tokenizers import Tokenizer
from heedful.errors import DataError, RecipeError
from heedful.generation.ctc import ctc_loss
from heedful.inspection.page import PageTable
from heedful.metrics.error_rates import character_error_rate, word_error_rate
from heedful.metrics.metric import Metric, build_mean_metric
from heedful.models.generative import CTCHead, CTCModel, HybridCTCAttention, SequenceToSequence
from heedful.models.predictions import SoftmaxPredictions
from heedful.recipes.generation import GreedyConfig
from heedful.recipes.recipe import Recipe
from heedful.tasks.auto_settings import ADAPTER_RATE_FACTOR, ComputeBudget, Settings
from heedful.tasks.comparison import RunComparison
from heedful.tasks.decoder_target import DecoderTarget
from heedful.tasks.evaluation import DEFAULT_OPTIONS, Evaluator, EvaluatorOptions
from heedful.tasks.generation_objective import (
    Criterion,
    GenerationMetrics,
    GenerationObjective,
    LikelihoodCriterion,
    build_criterion,
)
from heedful.tasks.objective import CorpusObjective, Loss, LossPart, RowIndices, TrainingObjective, UnitNames
from heedful.tasks.report import EvaluationReport
from heedful.tasks.report_text import format_interval
from heedful.tasks.speech.data import TEXT, Utterance, build_speech_encoding, collate_speech, read_recording_pairs
from heedful.tasks.speech.decoding import build_decoding
from heedful.tasks.speech.predictor import SpeechRecognizer
from heedful.tasks.speech.prompted import SpeechPrompt, build_prompted_recognizer
from heedful.tasks.speech.recipe import SpeechRecipe
from heedful.tasks.task import Run, Task, VocabSizes, Vocabularies, learn_or_reuse_tokenizer, prefix_data_errors
from heedful.tensors import SOURCE, FeatureBatch, move_to_device


@dataclass(frozen=True)
class SpeechOutputs:
    """The transcripts of a system, and how long it took.

    Attributes:
        texts: one per sound.
        decoding_seconds: time that transcription took.
        sound_seconds: total length of the sounds.
    """

    texts: tuple[str, ...]
    decoding_seconds: float
    sound_seconds: float


@final
class SpeechEvaluator(Evaluator):
    """Evaluator of transcripts; case counts, runs of spaces count as one.

    Args:
        utterances: the utterances to transcribe; those without a text are left out.
        text: the file that they come from.
        part: of the data; empty if a file was named.
        options: evaluation options; `search` applies to sounds.

    Raises:
        DataError: there are no utterances.
    """

    progress_text = "listening"

    def __init__(
        self, utterances: Sequence[Utterance], *, text: str, part: str = "", options: EvaluatorOptions = DEFAULT_OPTIONS
    ) -> None:
        self.utterances = [utterance for utterance in utterances if utterance.text]
        if not self.utterances:
            raise DataError(f"{text}: no recordings to measure on; give a part that has some")
        self.data_description, self.part, self.options = text, part, options
        self.size = len(self.utterances)
        self.inputs = [compute_digest(utterance.sound) for utterance in self.utterances]
        self.reference_answers = self.texts = [" ".join(utterance.text.split()) for utterance in self.utterances]

    def predict(self, predictor: SpeechRecognizer, recipe: Recipe) -> SpeechOutputs:
        """Transcribe all sounds with the predictor and measure the time; the recipe is not used."""
        generation = predictor.generation if self.options.search is None else self.options.search(predictor.generation)
        start_time = time.perf_counter()
        transcriptions = predictor.transcribe([each.sound for each in self.utterances], generation=generation)
        seconds = time.perf_counter() - start_time
        return SpeechOutputs(
            tuple(each.text for each in transcriptions), seconds, sum(each.seconds for each in transcriptions)
        )

    def compute_metrics(self, answers: SpeechOutputs) -> Mapping[str, Metric]:
        """Compare the transcripts in `answers` with the references, and return word error rate, character error rate
        and exact match, in percent.
        """
        texts = [" ".join(text.split()) for text in answers.texts]
        return {
            "word errors": word_error_rate(texts, self.texts),
            "character errors": character_error_rate(texts, self.texts),
            "exact": build_mean_metric(
                [100.0 * (text == reference) for text, reference in zip(texts, self.reference_answers, strict=True)]
            ),
        }


@final
@dataclass(frozen=True, repr=False)
class SpeechReport(EvaluationReport):
    """Report of error rates with confidence intervals."""

    digits: ClassVar = 2

    evaluator: SpeechEvaluator
    answers: SpeechOutputs

    def format_text(self) -> str:
        """Format a heading and one line per metric."""
        outputs = self.answers
        lines = [
            f"{self.system.name}: {self.evaluator.part or self.evaluator.data_description}, {self.evaluator.size:,} "
            f"recordings of {outputs.sound_seconds:,.0f} s together, heard in {outputs.decoding_seconds:.1f} s",
            "",
            f"{'metric':<16}  {'percent':>7}  95 % interval",
        ]
        lines += [
            f"{name:<16}  {interval.value:>7.2f}  {format_interval(interval, 2)}"
            for name, interval in self.intervals.items()
        ]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the number of recordings, the times and the metrics with their intervals as JSON data."""
        return {
            "part": self.evaluator.part,
            "recordings": self.evaluator.size,
            "sound_seconds": self.answers.sound_seconds,
            "seconds": self.answers.decoding_seconds,
            "metrics": self.scores_to_json()["metrics"],
        }


@final
@dataclass(frozen=True, repr=False)
class SpeechComparison(RunComparison):
    """Comparison of several runs' error rates."""

    reports: tuple[SpeechReport, ...]

    @property
    def heading(self) -> str:
        """Heading with the number of recordings."""
        return (
            f"{self.run_count_text} of {self.recipes[0].task} on {self.exam.size:,} recordings of "
            f"{self.exam.data_description}"
        )

    def build_results_table(self) -> PageTable:
        """Build the table with one row per run."""
        columns = ["run", "model", "parameters", "minutes", "heard in s"]
        for name in self.reports[0].metrics:
            columns += [name, "95 % interval", "p"]
        rows = []
        for report, row in zip(self.reports, self.describe_runs(), strict=True):
            scores = [cell for name in report.intervals for cell in report.format_score(name, ".2f")]
            rows.append([*row, f"{report.answers.decoding_seconds:.1f}", *scores])
        return PageTable("", columns, rows, self.collect_notes())

    def table_notes(self) -> list[str]:
        """Return an explanation of the columns."""
        return self.explain_p_values()

    def build_json_fields(self) -> dict[str, Any]:
        """Return the number of recordings and the resampling settings."""
        return {"recordings": self.exam.size, **self.sampling_json}

    def build_run_json(self, report: EvaluationReport) -> dict[str, Any]:
        """Return all metrics and tests of one run."""
        return report.scores_to_json()


@final
class JointCTCCriterion(Criterion):
    """(1 - weight) L + weight CTC, where L is the likelihood of the decoder's text (Watanabe et al. 2017, eq. 9).

    Args:
        likelihood: of the decoder's targets.
        weight: of CTC, above 0 and below 1.
        eos: the end token, which CTC does not emit.
        blank: the blank label.
    """

    part_names = frozenset({"nll", "ctc"})

    def __init__(self, likelihood: LikelihoodCriterion, *, weight: float, eos: int, blank: int) -> None:
        self.likelihood = likelihood
        self.weight = weight
        self.eos = eos
        self.blank = blank

    def loss(self, model: Any, batch: PairBatch[Any]) -> Loss:
        """Compute the weighted sum of the decoder's loss and the CTC loss of a batch."""
        assert isinstance(model, HybridCTCAttention)
        memory = model.encoder(batch.source)
        hidden, _ = model.decoder(batch.target, model.decoder.init_state(memory))
        decoder_loss = self.likelihood.compute_loss(SoftmaxPredictions(hidden.flatten(0, 1), model.output), batch)
        labels = mask_eos(batch.labels, eos=self.eos)
        log_probabilities, slots = model.labels(memory)
        ctc_total = ctc_loss(log_probabilities, slots, labels, blank=self.blank).sum()
        total = (1 - self.weight) * decoder_loss.total + self.weight * ctc_total
        parts = {**decoder_loss.parts, "ctc": LossPart(ctc_total.detach(), decoder_loss.count)}
        return replace(decoder_loss, total=total, parts=parts)


@final
@dataclass(eq=False)
class CTCObjective(CorpusObjective[PairBatch[FeatureBatch]]):
    """Learn p(text | sound) by CTC alone.

    Attributes:
        bos, eos: the tokens around a text, which slots do not emit; `bos` is the blank label.
        generation_metrics: what is measured besides the loss (nats per token).
    """

    _: KW_ONLY
    bos: int
    eos: int
    generation_metrics: GenerationMetrics | None = None
    part_names = frozenset({"nll"})

    def __post_init__(self) -> None:
        self.metric_names = frozenset({"loss"} | (self.generation_metrics.names if self.generation_metrics else set()))

    def collate(self, corpus: Corpus, rows: RowIndices) -> PairBatch[FeatureBatch]:
        """Collate utterances."""
        return collate_speech(corpus, rows, bos=self.bos)

    def loss(self, model: CTCModel, batch: PairBatch[FeatureBatch]) -> Loss:
        """Compute the CTC loss of a batch; its count is the number of tokens without ends."""
        labels = mask_eos(batch.labels, eos=self.eos)
        log_probabilities, slots = model(batch.source)
        total = ctc_loss(log_probabilities, slots, labels, blank=self.bos).sum()
        count = int((labels >= 0).sum())
        return Loss(total, count, {"nll": LossPart(total.detach(), count)})

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        """Compute the mean loss per token on the validation part, and the metrics of transcribed texts if there are
        any.
        """
        assert isinstance(model, CTCModel)
        losses = [self.loss(model, batch) for batch in self.validation_batches()]
        mean = sum(float(loss.total) for loss in losses) / sum(loss.count for loss in losses)
        return {"loss": mean, **(self.generation_metrics.measure(model) if self.generation_metrics is not None else {})}


def mask_eos(labels: Int[Tensor, "B T"], *, eos: int) -> Int[Tensor, "B T"]:
    """Replace end tokens in labels by -1, since slots do not emit them."""
    return torch.where(labels == eos, -1, labels)


WORDS: Final = "tokenizer/text"
SpeechRun: TypeAlias = Run[SpeechRecipe, nn.Module]


@final
class SpeechTask(Task[SpeechRecipe, nn.Module]):
    """Speech recognition, learned from recordings and their texts."""

    tokenizer_files: ClassVar = (WORDS,)
    unit_names: ClassVar = UnitNames(examples="recordings", corpus_examples="recordings", contents_side=TEXT)
    supported_options: ClassVar = frozenset({"text", "search"})
    report_class: ClassVar = SpeechReport
    comparison_class: ClassVar = SpeechComparison

    def example_command(self, recipe: SpeechRecipe) -> str:
        """Return the command that transcribes a file of the kind that the model reads."""
        return f"transcribe RUN {recipe.data.frames.example_file}"

    def learn_vocabularies(self, recipe: SpeechRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Learn the vocabulary of the training texts, unless `existing` is a tokenizer to use instead."""
        return {
            WORDS: learn_or_reuse_tokenizer(
                recipe, (utterance.text for utterance in recipe.data.reader("train")), existing=existing, generated=True
            )
        }

    def use_tokenizers(self, recipe: SpeechRecipe, tokenizers: Sequence[Tokenizer]) -> Vocabularies:
        """Return the vocabulary of the model that `init` names; if it knows several languages, all texts begin with the
        language and the task. The language is that of the recipe, or else the one that texts of this vocabulary begin
        with.

        Raises:
            RecipeError: the model knows several languages, and neither the recipe nor the vocabulary names one of them;
                or the model knows only one language, and the recipe sets a language or a translation.
        """
        (tokenizer,) = tokenizers
        prompt, data = SpeechPrompt.from_tokenizer(tokenizer), recipe.data
        if not prompt.languages or not isinstance(tokenizer, PretrainedTokenizer):
            if data.language is not None or data.to_english:
                key = "data.to_english" if data.language is None else "data.language"
                raise RecipeError(f"{key}: the model of init knows one language only; leave it out")
            return {WORDS: tokenizer}
        language = prompt.language if data.language is None else data.language
        if language is None or language not in prompt.languages:
            known = ", ".join(sorted(prompt.languages))
            problem = "is not given" if language is None else f'= "{language}"'
            raise RecipeError(f"data.language: {problem}, and the model of init knows {known}; name one of these")
        prompt = prompt.with_language(language, to_english=data.to_english)
        return {WORDS: tokenizer.with_prefix(prompt.build_ids(prompt.languages[language]))}

    def choose_settings(self, recipe: SpeechRecipe, budget: ComputeBudget) -> Settings:
        """Choose a learning-rate schedule and gradient clipping for a model that was trained before. The rate depends
        on its width and on whether an adapter is trained.
        """
        rate = _TUNING_RATE * (_TUNING_WIDTH / recipe.model.d_model) ** _TUNING_EXPONENT
        if recipe.training.adapter is not None:
            rate *= ADAPTER_RATE_FACTOR
        schedule = {"kind": "linear", "rate": float(f"{rate:.2g}"), "warmup_share": 0.1}
        return {"training.schedule": schedule, "training.clip": 1.0}

    def get_input_settings(self, recipe: SpeechRecipe) -> Settings:
        """Return the frame settings by dotted key; a model that starts from one of this recipe must use the same."""
        frames = recipe.data.frames.model_dump(mode="json", exclude_none=True)
        return {f"data.frames.{key}": value for key, value in frames.items()}

    def build_encoding(self, run: SpeechRun) -> ExampleEncoder[Utterance]:
        """Return the encoding of frames and texts."""
        data = run.recipe.data
        return build_speech_encoding(
            run.tokenizer,
            data.frames.build_frontend(),
            max_seconds=data.max_seconds,
            max_length=data.max_length,
            frames_per_token=run.recipe.model.frames_per_slot if run.recipe.model.ctc_weight > 0 else None,
        )

    def build_model(self, recipe: SpeechRecipe, sizes: VocabSizes) -> nn.Module:
        """Build the frame encoder with a CTC output, a decoder, or both, by the recipe's CTC weight; `sizes` has the
        vocabulary size.
        """
        config, data, vocabulary = recipe.model, recipe.data, sizes[WORDS]
        max_slots = data.count_max_slots(config.frames_per_slot)
        encoder = build_frame_encoder(config, bands=data.frames.bands, longest=max_slots)
        labels = CTCHead(build_xavier_linear(config.d_output, vocabulary))
        if config.decoder is None:
            return CTCModel(encoder, labels)
        longest, slots = max(data.max_length, max_slots), {SOURCE: config.d_output}
        decoder, output = build_memory_decoder(config.decoder, vocabulary=vocabulary, slots=slots, longest=longest)
        if config.ctc_weight == 0:
            return SequenceToSequence(encoder, decoder, output=output)
        return HybridCTCAttention(encoder, decoder, output=output, labels=labels)

    def build_objective(
        self, run: SpeechRun, train: Corpus, validation: Corpus, *, device: torch.device
    ) -> TrainingObjective[Any]:
        """Build the objective on a training and a validation corpus: decoder likelihood, CTC, or both."""
        config, special = run.recipe.training, run.tokenizer.special
        score = None if config.monitor == "loss" else _build_transcript_metrics(run, validation)
        shared_arguments: dict[str, Any] = {
            "generation_metrics": score,
            "batch_tokens": config.batch_tokens,
            "seed": run.recipe.seed,
            "device": device,
        }
        if (weight := run.recipe.model.ctc_weight) == 1:
            return CTCObjective(train, validation, bos=special.bos, eos=special.eos, **shared_arguments)
        criterion = build_criterion(config)
        if weight > 0:
            criterion = JointCTCCriterion(
                LikelihoodCriterion(config.label_smoothing), weight=weight, eos=special.eos, blank=special.bos
            )
        collate = partial(collate_speech, bos=special.bos)
        return GenerationObjective(
            train, validation, target_side=TEXT, collate_fn=collate, criterion=criterion, **shared_arguments
        )

    def build_evaluator(self, recipe: SpeechRecipe | None, options: EvaluatorOptions) -> SpeechEvaluator:
        """Build the evaluator of the recordings that `options` names, else of the test or validation part."""
        assert recipe is not None, "only a run transcribes"
        if options.search is not None:
            options.search(recipe.generation)
        if options.text is not None:
            return SpeechEvaluator(
                list(read_recording_pairs(options.text)), text=str(options.text.paths[0]), options=options
            )
        part = recipe.data.evaluation_part
        with prefix_data_errors(f"data.{part}"):
            pairs = list(recipe.data.reader(part))
        return SpeechEvaluator(pairs, text=str(getattr(recipe.data, part).path), part=part, options=options)

    def build_predictor(self, run: SpeechRun, model: nn.Module, *, step: int | None = None) -> SpeechRecognizer:
        """Build the speech recogniser of a trained model; `step` is not used."""
        data, frontend = run.recipe.data, run.recipe.data.frames.build_frontend()
        if isinstance(frontend, PaddedLogMel):
            return build_prompted_recognizer(
                model,
                run.tokenizer,
                frontend=frontend,
                generation=run.recipe.generation,
                frames_per_slot=run.recipe.model.frames_per_slot,
                max_length=run.recipe.max_written_tokens,
            )
        target = _build_target(run, model)
        return SpeechRecognizer(
            model,
            target=target,
            frontend=frontend,
            max_seconds=data.max_seconds,
            generation=run.recipe.generation,
            make_decoding=partial(build_decoding, target=target, ctc_weight=run.recipe.model.ctc_weight),
            frames_per_slot=run.recipe.model.frames_per_slot,
        )


_TUNING_RATE: Final = 1.2e-5
"""Highest learning rate for a model of `_TUNING_WIDTH` that was trained before: a fortieth of that of Whisper small
(Radford et al. 2023, appendix F)."""
_TUNING_WIDTH: Final = 768
_TUNING_EXPONENT: Final = 1.6
"""By how much it falls with the width: Whisper tiny, 384 wide, has three times that of small."""
TASK: Final = SpeechTask()


def _build_target(run: SpeechRun, model: nn.Module) -> DecoderTarget:
    device = next(model.parameters()).device
    return DecoderTarget(run.tokenizer, device=device, max_length=run.recipe.data.max_length)


def _build_transcript_metrics(run: SpeechRun, validation: Corpus) -> GenerationMetrics:
    """Return a measure of greedy transcripts of the validation part: the share without an error, and word errors in
    percent of the words.
    """
    special, tokens = run.tokenizer.special, run.recipe.training.batch_tokens

    def measure(model: nn.Module) -> dict[str, float]:
        """Transcribe the validation part and compare the transcripts with its texts."""
        recognizer, pairs = TASK.build_predictor(run, model), list[tuple[list[int], list[int]]]()
        target, prefix = recognizer.target, run.tokenizer.prefix_ids
        decoding = recognizer.make_decoding(GreedyConfig())
        for rows in batch_by_size(validation.lengths, max_tokens=tokens, seed=0, epoch=0):
            source = move_to_device(collate_speech(validation, rows, bos=special.bos).source, target.device)
            hypotheses = decoding.decode(model, source, numbers=rows.tolist())
            pairs += (
                ([*prefix, *texts[0].ids, special.eos], validation[TEXT][row].tolist())
                for texts, row in zip(hypotheses, rows, strict=True)
            )
        texts, references = ([target.tokenizer.decode(ids) for ids in side] for side in zip(*pairs, strict=True))
        return {
            "exact": sum(ids == right_ids for ids, right_ids in pairs) / len(pairs),
            "word_errors": word_error_rate(texts, references).value,
        }

    return GenerationMetrics(frozenset({"exact", "word_errors"}), measure)
