"""Plants known bugs, one at a time, and sees whether the tests notice.

    python tests/mutants.py [--only NAME] [--jobs N]

Each bug is planted in a copy of the package in a temporary folder, and only the tests that should notice are run. A bug
that survives means that a test is missing: write it. `tests/architecture/test_mutants.py` keeps the texts of this
catalogue in step with the package.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

ROOT = Path(__file__).parents[1]
CPU_SECONDS = 120
"""Of one run; a bug that makes a program run forever has been noticed."""
UNPLANTED_CPU_SECONDS = 1800
"""Of all tests together, which are run once before any bug is planted."""


@dataclass(frozen=True)
class Mutant:
    """A bug: in `file`, `old` (which occurs once) becomes `new`; `tests` should notice."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


OPERATORS = "tests/unit/native/test_training_operators.py"
COMPILER = "tests/unit/blocks/test_layer_compiler.py"
FINE_TUNED = "tests/reference/test_fine_tuned_hugging_face.py"
PUBLISHED = "tests/reference/test_published_vocabularies.py"
SAMPLED = "tests/unit/data/test_subword_sampling.py"
GRAPHS = "tests/unit/engines/graphs"
BFLOAT16 = "tests/unit/engines/test_bfloat16.py"
INSPECTING = "tests/unit/tasks/test_inspecting.py"
TREE = "tests/unit/generation/test_tree.py"
PARTIAL_WORDS = "tests/unit/tasks/test_partial_words.py"
MEMORY = "tests/unit/localisation/test_memory.py"
MEMORY_COMMAND = "tests/unit/cli/test_memory.py"
BANS = "tests/unit/generation/test_bans.py"
NEAREST = "tests/unit/data/test_nearest.py"
ERROR_PAGE = "tests/unit/tasks/test_error_page.py"
TERMS = "tests/unit/generation/test_terms.py"
ACCURACY = "tests/unit/tasks/test_accuracy.py"
ACCURACY_TOLD = "tests/unit/cli/test_accuracy.py"
JUDGES = "tests/unit/foreign/test_judges.py"
JUDGED_EXAM = "tests/unit/metrics/test_judge.py"
JUDGED_TOLD = "tests/unit/cli/test_judge.py"
JUDGES_OF_OTHERS = "tests/reference/test_judges.py"
NUMERALS = "tests/unit/metrics/test_numerals.py"
IDENTIFICATION = "tests/unit/data/test_identification.py"
IDENTIFY = "tests/unit/cli/test_identify.py"
DETACHMENT = "tests/unit/tasks/test_quality_estimation.py"
SIGNED = "tests/unit/cli/test_calibrate.py"
KNESER_NEY = "tests/unit/metrics/test_kneser_ney.py"
FACES = "tests/unit/tasks/test_faces.py"
SEARCH_OPTIONS = "tests/unit/recipes/test_search_options.py"
LOOKING = "tests/unit/inspection/test_looking.py"
UNROLLED = "tests/unit/inspection/test_unrolled.py"
FLOW = "tests/unit/inspection/test_flow.py"
HEADS = "tests/unit/inspection/test_heads.py"
DIFFERENCE = "tests/unit/inspection/test_difference.py"
RECORD = "tests/unit/inspection/test_record.py"
WATCH = "tests/unit/inspection/test_watch.py"
CAPTURE = "tests/unit/inspection/test_capture.py"
LAWS = "tests/laws/test_decoder_laws.py"
TRACKERS = "tests/unit/runs/test_trackers.py"
PRODUCTS = "tests/unit/engines/test_products.py"
STACK = "tests/unit/native/test_stack.py"
STEPS = "tests/unit/native/test_search.py"
INT8 = "tests/unit/engines/test_int8.py"
ARRANGE = "tests/unit/engines/test_arrange.py"
ADAPTERS = "tests/unit/adapters/test_adapters.py"
ADAPTED_RUNS = "tests/unit/runs/test_adapted.py"
PEFT = "tests/reference/test_peft.py"
MEMORIES_LAWS = "tests/laws/test_memories.py"
CONVERSATION = "tests/unit/generation/test_conversation.py"
BLOCKS = "tests/reference/test_blocks.py"
BATCH_NORM = "tests/unit/blocks/test_batch_norm.py"
INITIAL = "tests/reference/test_initialisation.py"
CAPTIONING = "tests/unit/tasks/test_captioning.py"
VISION = "tests/unit/models/test_pictures.py"
ATTEND = "tests/reference/test_show_attend_tell.py"
CAPTIONS = "tests/unit/metrics/test_captions.py"
CTC = "tests/unit/generation/test_ctc.py"
SPEECH = "tests/unit/tasks/test_speech.py"
MATCHING = "tests/unit/tasks/test_matching.py"
LIKELIHOOD = "tests/reference/test_likelihood.py"
LOOPS = "tests/reference/test_multihead.py"
PENALTIES = "tests/reference/test_penalties.py"
POSITIONS = "tests/reference/test_positions.py"
SCORES = "tests/reference/test_scores.py"
TORCH = "tests/reference/test_torch_modules.py"
BAND = "tests/unit/attention/test_band.py"
ONNX = "tests/reference/test_onnx.py"
DROPOUT = "tests/unit/attention/test_dropout.py"
KERNELS = "tests/unit/attention/test_kernels.py"
SIGHT = "tests/unit/attention/test_sight.py"
STORAGE = "tests/unit/attention/test_storage.py"
STACK_STATE = "tests/unit/blocks/test_transformer.py"
VISIBILITY = "tests/unit/attention/test_visibility.py"
BUILD = "tests/unit/recipes/test_build.py"
BATCHES = "tests/unit/data/test_batches.py"
CHAIN = "tests/unit/attention/test_chain.py"
MEMORY_NETWORK = "tests/reference/test_memory_network.py"
MEMORY_DECODER = "tests/reference/test_memory_network_decoder.py"
STORIES = "tests/unit/tasks/test_stories.py"
STRUCTURED = "tests/unit/attention/test_structured.py"
HARD = "tests/unit/attention/test_hard.py"
CHOICE = "tests/unit/attention/test_choice.py"
CONVOLUTIONAL = "tests/unit/models/test_convolutional.py"
CONVOLUTION_BY_HAND = "tests/reference/test_convolutional.py"
CELLS = "tests/unit/blocks/test_recurrent.py"
GLIMPSES = "tests/unit/tasks/test_glimpses.py"
GLIMPSES_BY_HAND = "tests/reference/test_glimpses.py"
RECURRENCE = "tests/reference/test_recurrent.py"
TREES = "tests/reference/test_dependency_tree.py"
START = "tests/unit/models/test_initialisation.py"
BUCKETING = "tests/unit/data/test_bucketing.py"
BEAM = "tests/unit/generation/test_beam.py"
SAMPLING = "tests/unit/generation/test_sampling.py"
ENCODERS = "tests/unit/models/test_encoders.py"
SIZE = "tests/unit/models/test_size.py"
TASK = "tests/unit/tasks/test_translation.py"
SENTENCES = "tests/reference/test_sentence_embedding.py"
ENTAILMENT = "tests/reference/test_conditional_encoder.py"
CLASSIFIED = "tests/unit/tasks/test_classification.py"
DRAWS = "tests/unit/tasks/test_reinforcement.py"
MASKING = "tests/unit/data/test_masking.py"
PASSAGES = "tests/unit/data/test_passages.py"
PRETRAINED = "tests/unit/tasks/test_pretraining.py"
MULTITASK = "tests/unit/tasks/test_multitask.py"
DRAWN = "tests/unit/data/test_drawn.py"
PROBLEMS = "tests/unit/recipes/test_problems.py"
CHECKPOINTS = "tests/unit/runs/test_checkpoints.py"
DISTRIBUTED = "tests/unit/training/test_distributed.py"
INTERRUPTION = "tests/unit/training/test_interruption.py"
VECTORS = "tests/unit/runs/test_word_vectors.py"
OLDER = "tests/unit/runs/test_older_runs.py"
STORED = "tests/unit/recipes/test_stored.py"
METRIC = "tests/unit/metrics/test_metric.py"
SYSTEMS = "tests/unit/cli/test_systems.py"
LANGUAGE = "tests/unit/tasks/test_language_modelling.py"
TAGGED = "tests/unit/data/test_tagged.py"
TAGGING = "tests/unit/tasks/test_tagging.py"
TRANSLATOR = "tests/unit/tasks/test_translator.py"
PARTS = "tests/unit/data/test_parts.py"
CHANCE = "tests/unit/training/test_chance.py"
WORD_BASELINES_TOLD = "tests/unit/cli/test_word_baselines.py"
WORD_BASELINES = "tests/unit/tasks/test_word_baselines.py"
USEFULNESS = "tests/unit/runs/test_usefulness.py"
MONITORED = "tests/unit/runs/test_monitored_translations.py"
BLEU_TOLD = "tests/unit/metrics/test_translation.py"
SEVERAL_REFERENCES = "tests/unit/metrics/test_several_references.py"
SEVERAL_REFERENCES_TOLD = "tests/unit/cli/test_several_references.py"
OPTIMIZERS = "tests/unit/training/test_optimizers.py"
SHARDING = "tests/unit/training/test_sharding.py"
PRECISION = "tests/unit/training/test_precision.py"
SCHEDULES = "tests/unit/training/test_schedules.py"
TRAINER = "tests/unit/training/test_trainer.py"
FORECAST = "tests/unit/training/test_forecast.py"
PROTECTION = "tests/unit/localisation/test_protection.py"
PROTECTING = "tests/unit/tasks/test_protecting.py"
DOCUMENTS = "tests/unit/localisation/test_documents.py"
UNITS = "tests/unit/localisation/test_units.py"
OFFICE = "tests/unit/localisation/test_office.py"
PARQUET = "tests/unit/data/test_parquet.py"
CONTEXT = "tests/unit/data/test_context.py"
IN_ORDER = "tests/unit/cli/test_documents_in_order.py"

MEASURES = (
    Mutant(
        "only the first reference of a sentence counts",
        "metrics/translation.py",
        "return list(zip_longest(*list_references(references)))",
        "return list(zip_longest(*list_references(references)))[:1]",
        (f"{SEVERAL_REFERENCES}::test_values_and_signatures_are_those_of_sacrebleu",),
    ),
    Mutant(
        "edits are divided by the length of the longest reference",
        "metrics/error_rates.py",
        "lengths.append(fmean(map(len, items)))",
        "lengths.append(float(max(map(len, items))))",
        (f"{SEVERAL_REFERENCES}::test_error_rates_take_the_fewest_edits_and_the_mean_length",),
    ),
    Mutant(
        "a judge takes the reference that it scores last",
        "metrics/judge.py",
        "best[row] = max(best[row], score)",
        "best[row] = score",
        (f"{SEVERAL_REFERENCES}::test_a_judge_takes_the_reference_that_it_scores_highest",),
    ),
    Mutant(
        "an empty line is a reference",
        "data/readers.py",
        "references=tuple(filter(None, map(_clean_text, lines)))",
        "references=tuple(map(_clean_text, lines))",
        (f"{SEVERAL_REFERENCES_TOLD}::test_scores_are_sacrebleus_with_both_references",),
    ),
    Mutant(
        "a comparison shows the interval of the first run for all",
        "tasks/report.py",
        "interval, test = self.intervals[metric], self.tests.get(metric)\n        bounds",
        "interval, test = (self.reference or self).intervals[metric], self.tests.get(metric)\n        bounds",
        ("tests/unit/cli/test_compare.py::test_edit_rates_are_tested_against_the_first_run",),
    ),
    Mutant(
        "the end of a document is not counted among the bytes of n-grams",
        "tasks/word_baselines.py",
        "len(tokenizer.normalise(document.text).encode()) + document.is_last",
        "len(tokenizer.normalise(document.text).encode())",
        (f"{WORD_BASELINES}::test_kneser_ney_predicts_tokens_and_ends",),
    ),
    Mutant(
        "the parts of a long document are documents",
        "tasks/word_baselines.py",
        "        if document.is_last:\n            yield [*ids, end]",
        "        if document.text:\n            yield [*ids, end]",
        (f"{WORD_BASELINES}::test_kneser_ney_predicts_tokens_and_ends",),
    ),
    Mutant(
        "a baseline that fails ends the command",
        "runs/evaluate.py",
        "except Exception as error:",
        "except LookupError as error:",
        (f"{WORD_BASELINES_TOLD}::test_what_fails_does_not_end_the_command",),
    ),
    Mutant(
        "a model that knows only frequencies is useful",
        "runs/usefulness.py",
        'metrics["loss"] >= unigram_loss',
        'metrics["loss"] > 2 * unigram_loss',
        (f"{USEFULNESS}::test_a_model_must_know_more_than_frequencies",),
    ),
    Mutant(
        "translations of one word are poor whatever their letters are",
        "tasks/translation/validation.py",
        "if scores[0] >= _POOR_BLEU or scores[1] >= _POOR_CHRF:",
        "if scores[0] >= _POOR_BLEU:",
        (f"{USEFULNESS}::test_poor_translations_are_a_weakness",),
    ),
    Mutant(
        "the time before the estimate is forgotten",
        "runs/usefulness.py",
        "forecast.labels_per_second * (forecast.elapsed + seconds)",
        "forecast.labels_per_second * seconds",
        (f"{USEFULNESS}::test_too_little_time_is_said_at_the_measured_speed",),
    ),
    Mutant(
        "more edits are better",
        "recipes/training.py",
        'LOWER_IS_BETTER: Final = frozenset({"loss", "ter", "word_errors"})',
        'LOWER_IS_BETTER: Final = frozenset({"loss", "word_errors"})',
        (MONITORED,),
    ),
    Mutant(
        "validation compares with the first reference only",
        "tasks/translation/validation.py",
        "self.compute(texts, list_pair_references(pairs), ",
        "self.compute(texts, [pair.target for pair in pairs], ",
        (MONITORED,),
    ),
    Mutant(
        "the letters decide how words are split, whatever the recipe says",
        "metrics/translation.py",
        "if by_language is not None:",
        "if not references:",
        (f"{BLEU_TOLD}::test_a_known_language_decides_as_in_sacrebleu",),
    ),
    Mutant(
        "the language of a recipe is not used where its own text is measured",
        "tasks/translation/task.py",
        'language=recipe.data.find_target_language(part) or recipe.data.find_target_language("train"),',
        "",
        (f"{SEVERAL_REFERENCES_TOLD}::test_the_language_of_a_recipe_decides_how_words_are_split",),
    ),
)

COSTS = (
    Mutant(
        "time left forgets that evaluations take time",
        "training/eta.py",
        "updates * self.seconds_per_update + num_evaluations * (self.evaluation_seconds or 0.0)",
        "updates * self.seconds_per_update",
        (FORECAST,),
    ),
    Mutant(
        "time left goes by the last limit instead of the first",
        "training/eta.py",
        "return min(ends, key=lambda end: end.seconds, default=None)",
        "return max(ends, key=lambda end: end.seconds, default=None)",
        (FORECAST,),
    ),
    Mutant(
        "a run that goes on begins its epoch anew in the forecast",
        "training/trainer.py",
        "return EpochPlan(self.progress, len(updates), min(num_done, len(updates)), sum(sizes), examples, "
        "evaluate_every)",
        "return EpochPlan(self.progress, len(updates), 0, sum(sizes), examples, evaluate_every)",
        (FORECAST,),
    ),
    Mutant(
        "losses part already where validation rises for once",
        "training/history.py",
        "rising >= _RISING_EVALUATIONS and _is_overfitting",
        "rising and _is_overfitting",
        ("tests/unit/training/test_trend.py",),
    ),
    Mutant(
        "overfitting is told at every evaluation",
        "training/history.py",
        "if before.overfitting_at is not None or lowest is None or current is None:",
        "if lowest is None or current is None:",
        ("tests/unit/training/test_trend.py",),
    ),
    Mutant(
        "validation examples are sought by their sources alone",
        "data/corpus.py",
        "identity_key=lambda pair: (pair.source, pair.target),",
        "identity_key=lambda pair: pair.source,",
        ("tests/unit/data/test_corpus.py::test_examples_that_occur_in_another_corpus_are_counted",),
    ),
    Mutant(
        "chunks of several processes come back in another order",
        "data/chunk_workers.py",
        "pending.popleft()",
        "pending.pop()",
        ("tests/unit/data/test_chunk_workers.py",),
    ),
    Mutant(
        "a process that works on chunks outlives its parent",
        "data/chunk_workers.py",
        "initargs=(self.function, os.getpid()),",
        "initargs=(self.function, os.getpid() + 1),",
        ("tests/unit/data/test_chunk_workers.py",),
    ),
    Mutant(
        "a corpus goes on after the examples that were kept",
        "data/corpus.py",
        "islice(text, sum(progress.counts[-1]), None)",
        "islice(text, progress.counts[-1][0], None)",
        ("tests/unit/data/test_corpus.py",),
    ),
    Mutant(
        "what was written after the last save stays in a corpus",
        "data/corpus_writer.py",
        "            os.truncate(folder / name, size)",
        "            pass",
        ("tests/unit/data/test_corpus.py",),
    ),
    Mutant(
        "the first texts are the sample that pieces are learned from",
        "data/learning_sample.py",
        "if number >= bound:",
        "if len(numbers) >= max_texts:",
        ("tests/unit/data/test_learning_sample.py",),
    ),
    Mutant(
        "what is left out of a corpus has a digest there",
        "data/corpus_writer.py",
        """            encoded = self.encode(example)
""",
        (
            "            encoded = self.encode(example)\n"
            "            if self.identity_key is not None and any(side is None for side in encoded):\n"
            "                digests.append(_compute_digest(self.identity_key(example)))\n"
        ),
        ("tests/unit/data/test_corpus.py",),
    ),
    Mutant(
        "a curve draws the smoothed loss of training",
        "runs/metrics_log.py",
        'for name in ("nll", "loss") if',
        'for name in ("loss", "nll") if',
        ("tests/unit/runs/test_learning_curve.py",),
    ),
    Mutant(
        "none removes keys that need a value",
        "recipes/overrides.py",
        'if override.text == "none" and NoneType in types:',
        'if override.text == "none":',
        ("tests/unit/recipes/test_overrides.py",),
    ),
    Mutant(
        "the languages of a TMX file are exchanged",
        "recipes/parallel_data.py",
        "return open_matching_files(partial(reader_class, **given)",
        "return open_matching_files(partial(reader_class, **dict(zip(given, reversed(given.values()), strict=True)))",
        ("tests/unit/recipes/test_parallel_text.py",),
    ),
    Mutant(
        "a linear schedule ends before min_steps",
        "runs/trainer_factory.py",
        "by_epochs = max(sum(per_epoch), limits.min_steps)",
        "by_epochs = sum(per_epoch)",
        ("tests/unit/cli/test_compare_labels.py",),
    ),
    Mutant(
        "an adapter is lost on a base of bytes",
        "runs/adapter_runs.py",
        "replace(weights, exact=tensors, quantized={})",
        "replace(weights, exact=tensors)",
        ("tests/unit/runs/test_worn.py",),
    ),
    Mutant(
        "one test part of several tasks is enough to measure the test parts",
        "runs/evaluate.py",
        '"validation" if any(',
        '"validation" if all(',
        ("tests/unit/runs/test_multitask_run.py",),
    ),
    Mutant(
        "memory is estimated for a length that is the number of examples in a batch",
        "runs/trainer_factory.py",
        "plan.batches / max(1, plan.examples)",
        "plan.examples / max(1, plan.batches)",
        ("tests/unit/runs/test_costs.py",),
    ),
    Mutant(
        "keys of a run that never learned mean what they meant in older versions",
        "runs/load.py",
        "has_checkpoint=has_checkpoint(folder))",
        "has_checkpoint=True)",
        ("tests/unit/runs/test_older_runs.py",),
    ),
    Mutant(
        "f1 is that of another class than the positive one",
        "tasks/classification/objective.py",
        "(*(name for name in labels if name != positive), positive)",
        "(positive, *(name for name in labels if name != positive))",
        ("tests/unit/tasks/test_classification.py",),
    ),
    Mutant(
        "a reply looks at itself on the page of a dialogue",
        "tasks/conversation/predictor.py",
        "self.turns[: number - 1]",
        "self.turns[:number]",
        ("tests/unit/tasks/test_partner.py",),
    ),
    Mutant(
        "the vector of a text that is too long is that of its end",
        "tasks/embedder.py",
        "ids = ids[: self.max_text_tokens]",
        "ids = ids[-self.max_text_tokens :]",
        ("tests/unit/tasks/test_pretraining.py",),
    ),
    Mutant(
        "a part of a loss is a mean over the labels of the loss",
        "tasks/objective.py",
        "counts[name] += part.count",
        "counts[name] += loss.count",
        ("tests/unit/training/test_own_loop.py",),
    ),
    Mutant(
        "a spectrogram has its high tones below",
        "tasks/speech/predictor.py",
        "bands = source.vectors[0].T.flip(0)",
        "bands = source.vectors[0].T",
        ("tests/unit/tasks/test_speech.py",),
    ),
    Mutant(
        "a question names facts of the story before",
        "tasks/stories/data.py",
        "            facts, numbers = [], {}\n",
        "            facts = []\n",
        ("tests/unit/tasks/test_stories.py",),
    ),
    Mutant(
        "a prefix does not count for the least length",
        "tasks/decoder_target.py",
        "min(request.min_tokens, limit - 1) - len(request.prefix)",
        "min(request.min_tokens, limit - 1)",
        ("tests/unit/tasks/test_translator.py",),
    ),
    Mutant(
        "words that two parts of a sentence share are tagged twice",
        "tasks/tagging/predictor.py",
        "if word in window.kept",
        "if word in window.words",
        ("tests/unit/tasks/test_tagging.py",),
    ),
)

ATTENTION = (
    Mutant(
        "frozen vectors learn after a pause",
        "runs/train.py",
        "    run.task.freeze_weights(run, model)",
        "    if snapshot is None: run.task.freeze_weights(run, model)",
        (f"{VECTORS}::test_frozen_vectors_outlive_two_sittings_while_other_pieces_learn",),
    ),
    Mutant(
        "with frozen vectors no piece learns",
        "tasks/word_vectors.py",
        "gradient.index_fill(0, ids, 0.0)",
        "gradient * 0.0",
        (f"{VECTORS}::test_frozen_vectors_outlive_two_sittings_while_other_pieces_learn",),
    ),
    Mutant(
        "a resumed line tells of its last sitting alone",
        "runs/train.py",
        "metrics_log.rewind(past, callback_state, run_id=read_run_id(run.folder))",
        "metrics_log.rewind(past, {}, run_id=read_run_id(run.folder))",
        ("tests/unit/runs/test_training_run.py::test_lines_of_training_are_those_of_one_sitting",),
    ),
    Mutant(
        "updates that will be made again stay in a line",
        "runs/metrics_log.py",
        "self._sums = _UpdateSums.from_dict(stored.get(_LINE_KEY, {}))",
        "self._sums = _UpdateSums.from_dict(stored[_LINE_KEY]) if stored else self._sums",
        ("tests/unit/runs/test_metrics.py::test_an_older_checkpoint_has_gathered_nothing",),
    ),
    Mutant(
        "parts are means over the labels of the loss",
        "training/distributed.py",
        "torch.tensor((float(part.total.detach()), float(part.count)), dtype",
        "torch.tensor((float(part.total.detach()), float(loss.count)), dtype",
        (f"{TRAINER}::test_parts_have_counts_of_their_own_however_a_batch_is_dealt_out",),
    ),
    Mutant(
        "each process tells its own parts",
        "training/distributed.py",
        "        distributed.all_reduce_([global_sums])\n",
        "        distributed.all_reduce_([global_sums[:1]])\n",
        (f"{TRAINER}::test_parts_have_counts_of_their_own_however_a_batch_is_dealt_out",),
    ),
    Mutant(
        "a question about passages counts as its hidden tokens",
        "tasks/pretraining/objective.py",
        "LossPart(sums[second_name].detach(), sums[count_name])",
        'LossPart(sums[second_name].detach(), sums["tokens"])',
        (f"{PRETRAINED}::test_parts_count_what_they_are_of",),
    ),
    Mutant(
        "a line of training mixes tasks",
        "training/callbacks.py",
        'return {f"{self.task}/{name}": part for name, part in self.parts.items()}',
        "return dict(self.parts)",
        ("tests/unit/runs/test_metrics.py::test_several_tasks_have_their_own_means",),
    ),
    Mutant(
        "raw regions are smooth",
        "inspection/figures/pictures.py",
        "kernel = build_gaussian_kernel if selection.smooth else build_overlap_kernel",
        "kernel = build_gaussian_kernel",
        (f"{LOOKING}::test_raw_regions_have_the_colours_of_their_weights",),
    ),
    Mutant(
        "rows and columns of a glimpse are swapped",
        "inspection/figures/pictures.py",
        "centres = [(glimpse.column * width, glimpse.row * height)",
        "centres = [(glimpse.row * width, glimpse.column * height)",
        (f"{LOOKING}::test_glimpses_stand_where_they_looked",),
    ),
    Mutant(
        "the last word of a turn belongs to nobody",
        "inspection/figures/stories.py",
        "weights[:, span.start : span.stop].sum(1)",
        "weights[:, span.start : span.stop - 1].sum(1)",
        (f"{LOOKING}::test_turns_get_the_sums_of_their_words",),
    ),
    Mutant(
        "chains take joint probabilities for conditional ones",
        "inspection/figures/stories.py",
        "probability * conditional[path[-1], key]",
        "probability * joint[path[-1], key]",
        (f"{LOOKING}::test_the_most_probable_chains_are_those_of_counting_all",),
    ),
    Mutant(
        "a state from right to left is drawn from left to right",
        "inspection/unrolled.py",
        'order = list(row) if direction != "backward" else list(row)[::-1]',
        "order = list(row)",
        (f"{UNROLLED}::test_a_box_needs_the_tokens_that_its_numbers_depend_on",),
    ),
    Mutant(
        "a source read backwards is drawn as written",
        "models/recurrent_encoder.py",
        "return tuple(map(_reverse_layer, (lowest, *others))) if self.order is REVERSED else (lowest, *others)",
        "return (lowest, *others)",
        (f"{UNROLLED}::test_a_box_needs_the_tokens_that_its_numbers_depend_on",),
    ),
    Mutant(
        "every task hears of all updates",
        "tasks/multitask/objective.py",
        "        self.members[member].objective.on_update(nll)",
        "        [key.objective.on_update(nll) for key in self.members.values()]",
        (f"{MULTITASK}::test_each_task_hears_of_its_updates_alone_and_finds_its_own_again",),
    ),
    Mutant(
        "a lost process is taken for a bug",
        "training/distributed.py",
        "    except RuntimeError as error:\n        reason",
        "    except KeyError as error:\n        reason",
        (f"{DISTRIBUTED}::test_a_lost_process_is_one_sentence",),
    ),
    Mutant(
        "who left hides what went wrong first",
        "training/distributed.py",
        "with suppress(TrainingError):  # the original",
        "with suppress(KeyError):  # the original",
        (f"{DISTRIBUTED}::test_a_lost_process_is_one_sentence",),
    ),
    Mutant(
        "orphans train on",
        "training/trainer.py",
        "if self.distributed.is_orphaned:",
        "if False:",
        (f"{INTERRUPTION}::test_a_process_whose_parent_is_gone_saves_and_leaves",),
    ),
    Mutant(
        "a shell that ends takes processes with it that were started by hand",
        "training/distributed.py",
        "os.getppid() if _TORCHRUN_VARIABLE in os.environ else None",
        "os.getppid()",
        (f"{DISTRIBUTED}::test_processes_of_torchrun_know_when_it_is_gone",),
    ),
    Mutant(
        "a moment of another shape goes to the kernel",
        "training/optimizers.py",
        ("        require_same_tensors(tensors, expected, location=location, prefix=prefix)\n"),
        "",
        (f"{OPTIMIZERS}::test_moments_that_are_not_those_of_a_parameter_are_refused",),
    ),
    Mutant(
        "a weight is spread over a parameter of another shape",
        "training/trainer.py",
        ("        require_same_tensors(snapshot.weights, parameters, location=weights_file)\n"),
        "",
        (f"{TRAINER}::test_a_snapshot_of_another_shape_is_refused_before_anything_changes",),
    ),
    Mutant(
        "types of restored tensors are not looked at",
        "training/callbacks.py",
        "if (tensor.shape, tensor.dtype) != (expected[name].shape, expected[name].dtype):",
        "if tensor.shape != expected[name].shape:",
        (f"{OPTIMIZERS}::test_moments_that_are_not_those_of_a_parameter_are_refused",),
    ),
    Mutant(
        "checkpoints of several shapes are averaged",
        "runs/checkpoints.py",
        "require_same_tensors(model.templates, models[0].templates, location=str(folder / _weights_name(step)))",
        "pass",
        (f"{CHECKPOINTS}::test_checkpoints_that_differ_in_shape_are_not_averaged",),
    ),
    Mutant(
        "a risk is seen in the first table alone",
        "recipes/error_messages.py",
        "                yield from find_risks(table, f",
        "                yield from table.find_risks(f",
        (
            f"{PROBLEMS}::test_exponentials_of_exponentials_are_a_risk",
            f"{PROBLEMS}::test_the_risk_of_one_of_several_tasks_is_named_after_it",
        ),
    ),
    Mutant(
        "additive scores have a bias that nobody asked for",
        "architectures/build.py",
        "bias=config.alignment_bias",
        "bias=True",
        (f"{BUILD}::test_additive_scores_have_a_bias_where_it_is_asked_for",),
    ),
    Mutant(
        "additive scores of an older run lose their bias",
        "architectures/attention.py",
        'return {"alignment_bias": table.get("score") == "additive", "weights": "softmax"}',
        'return {"weights": "softmax"}',
        (OLDER,),
    ),
    Mutant(
        "exponentials take a softmax unless told otherwise",
        "architectures/attention.py",
        '"proportional" if table["score"] in POSITIVE_SCORES else "softmax"',
        '"softmax"',
        (PROBLEMS,),
    ),
    Mutant(
        "shares of negative scores are no risk",
        "architectures/attention.py",
        'if self.weights == "proportional" and self.score not in POSITIVE_SCORES:',
        'if self.weights == "proportional" and self.score == "dot":',
        (PROBLEMS,),
    ),
    Mutant(
        "older runs with exponentials get another norm",
        "architectures/attention.py",
        ', "weights": "softmax"}',
        "}",
        (PROBLEMS,),
    ),
    Mutant(
        "the mean of heads with W_k = W_v is of narrow values",
        "attention/multihead.py",
        "d_k = d_v if shared_key_value else d_head",
        "d_k = d_v = d_head if shared_key_value else d_head",
        (f"{LOOPS}::test_equals_the_loops",),
    ),
    Mutant(
        "a sentence's last word is not 1",
        "attention/positions.py",
        "values.amax(1, keepdim=True).clamp(min=1)",
        "(values.amax(1, keepdim=True) + 1)",
        (f"{POSITIONS}::test_the_first_rejected_idea",),
    ),
    Mutant(
        "all sentences of a batch are as long as its longest",
        "attention/positions.py",
        "values.amax(1, keepdim=True).clamp(min=1)",
        "values.amax().clamp(min=1)",
        (f"{POSITIONS}::test_the_first_rejected_idea",),
    ),
    Mutant(
        "a decoder takes what it has read for the whole sentence",
        "architectures/build_stack.py",
        'None if full_texts and unit_length == "sentence" else longest',
        'None if unit_length == "sentence" else longest',
        (
            f"{LAWS}::test_chunk_law[unit_interval-post_norm-inference]",
            f"{BUILD}::test_who_cannot_know_the_end_counts_to_the_longest_sentence",
        ),
    ),
    Mutant(
        "words are counted from 0 in new runs",
        "architectures/attention.py",
        "    first: Literal[0, 1] = 1",
        "    first: Literal[0, 1] = 0",
        (f"{BUILD}::test_who_cannot_know_the_end_counts_to_the_longest_sentence",),
    ),
    Mutant(
        "an older run is read as one of today",
        "recipes/load.py",
        "build_recipe(fill_missing_keys(table, _find_recipe_class(table, source=source)), source=source)",
        "build_recipe(table, source=source)",
        (OLDER,),
    ),
    Mutant(
        "an older run can only go on with new keys",
        "runs/prepare.py",
        "    recipe = resume_run_recipe(folder, recipe)\n",
        "",
        (OLDER,),
    ),
    Mutant(
        "what was asked for gives way to what an older run meant",
        "recipes/load.py",
        "and name not in table.model_fields_set",
        "and True",
        (OLDER, STORED),
    ),
    Mutant(
        "explained scores lack the relative bias",
        "attention/multihead.py",
        "weights = self.weigher.normalize(scores.clone(), mask=mask)",
        "weights = self.weigher.normalize(scores := self.weigher.score(query, memory.key), mask=mask)",
        (f"{LAWS}::test_capture_law[shaw-keys-pre_norm-inference]",),
    ),
    Mutant(
        "explained keys are not what is attended to",
        "attention/multihead.py",
        "context=self._combine_values(weights, memory, mask=mask),",
        "context=kernels.weighted_sum(weights, memory.value),",
        (f"{LAWS}::test_capture_law[shaw-post_norm-inference]",),
    ),
    Mutant(
        "explained weights ignore where a query looks",
        "attention/attention.py",
        ("        weights = self._compute_weights(scores, query, visible=visible)\n        parts"),
        "        weights = self.choose(scores, visible)\n        parts",
        (f"{LAWS}::test_capture_law[luong-predicted-inference]",),
    ),
    Mutant(
        "layers are counted over all roles",
        "inspection/capture.py",
        "sites[path] = AttentionSite(declaration, counts[declaration.kind], module.heads)",
        "sites[path] = AttentionSite(declaration, counts.total(), module.heads)",
        (f"{INSPECTING}::test_its_weights_are_those_of_alignments",),
    ),
    Mutant(
        "everything is watched whatever was asked for",
        "inspection/capture.py",
        "if layers is None or site.layer in layers}",
        "if layers is None or site.layer in layers or True}",
        (f"{INSPECTING}::test_only_what_was_asked_for_is_kept",),
    ),
    Mutant(
        "a silenced head is another one",
        "inspection/capture.py",
        "zeroed[:, head] = 0",
        "zeroed[:, head - 1] = 0",
        (f"{INSPECTING}::test_a_head_is_worth_what_its_part_of_the_output_map_is_worth",),
    ),
    Mutant(
        "the tree ends branches that were ranked too low",
        "generation/beam_state.py",
        "if ends and rank < self.width:",
        "if ends:",
        (f"{TREE}::test_the_tree_holds_what_was_ranked",),
    ),
    Mutant(
        "the tree grows from the wrong beam",
        "generation/beam_state.py",
        "= sorted(live_nodes, key=lambda number: -self.nodes[number].total)",
        "= live_nodes[::-1]",
        (f"{TREE}::test_the_tree_holds_what_was_ranked",),
    ),
    Mutant(
        "rollout forgets the way around attention",
        "inspection/flow.py",
        "step[rows] *= 0.5",
        "step[rows] *= 0.0",
        (FLOW,),
    ),
    Mutant(
        "entropy is not relative to what is visible",
        "inspection/heads.py",
        "np.log(visible_rows.sum(1)[sees_several])",
        "np.log(visible_rows.shape[1])",
        (HEADS,),
    ),
    Mutant(
        "flow never takes back what was sent down",
        "inspection/flow.py",
        "if level < levels - 1:",
        "if level < 0:",
        (FLOW,),
    ),
    Mutant(
        "the mean over heads is their maximum",
        "inspection/record.py",
        "self.weights.mean(0)",
        "self.weights.max(0)",
        (f"{RECORD}::test_the_mean_over_heads_is_a_mean",),
    ),
    Mutant(
        "heads of records are paired by place",
        "inspection/heads.py",
        "_compare_head(attention_map, head, second_map.get_head_weights(head)) for head in heads",
        "_compare_head(attention_map, get_head_weights, "
        "second_map.weights[attention_map.heads.index(get_head_weights)]) for get_head_weights in heads",
        (f"{DIFFERENCE}::test_heads_are_paired_by_their_numbers",),
    ),
    Mutant(
        "integrated gradients are taken at the word alone",
        "inspection/attribution.py",
        "return (nodes + 1) / 2, weights / 2",
        "return nodes * 0 + 1, weights / 2",
        ("tests/laws/test_attribution_laws.py::test_integrated_gradients_of_a_cube_are_exact_in_two_steps",),
    ),
    Mutant(
        "the baseline of an attribution has words",
        "inspection/attribution.py",
        "embeddings_of_words.scale_words([0.0])",
        "embeddings_of_words.scale_words([0.5])",
        ("tests/laws/test_attribution_laws.py::test_positions_and_norms_do_not_change_and_padding_has_no_score",),
    ),
    Mutant(
        "watching hears other threads",
        "inspection/capture.py",
        "if token not in _ACTIVE_HOOKS.get():",
        "if False:",
        (f"{WATCH}::test_other_threads_are_not_seen",),
    ),
    Mutant(
        "who leaves a watch first ends those inside it",
        "attention/hooks.py",
        "tuple(active for active in _ACTIVE_HOOKS.get() if active is not hooks)",
        "()",
        (WATCH,),
    ),
    Mutant(
        "what an attention looks at may be said again",
        "attention/hooks.py",
        "and child.probe.role is None:",
        ":",
        (f"{CAPTURE}::test_places_are_what_attentions_declare",),
    ),
    Mutant(
        "the divergence is one-sided",
        "inspection/heads.py",
        "(_compute_kl_divergence(p, middle) + _compute_kl_divergence(q, middle)) / 2",
        "_compute_kl_divergence(p, middle)",
        (DIFFERENCE,),
    ),
    Mutant(
        "scores are not scaled",
        "attention/scores.py",
        "return 1 / math.sqrt(d_k)",
        "return 1.0",
        (f"{TORCH}::test_multi_head_attention",),
    ),
    Mutant(
        "scores are scaled by the width of the model",
        "attention/scores.py",
        "scale=self.scale(query.size(-1))",
        "scale=self.scale(query.size(-1) * query.size(1))",
        (f"{TORCH}::test_multi_head_attention",),
    ),
    Mutant(
        "the gradient of keys forgets the scale",
        "attention/kernels.py",
        "query.transpose(2, 3), scale=ctx.scale)",
        "query.transpose(2, 3), scale=1.0)",
        (f"{KERNELS}::test_products_in_one_node_are_the_formula",),
    ),
    Mutant(
        "bf16 trains by the slow gradient of the fused kernel",
        "attention/kernels.py",
        "query.dtype != torch.bfloat16 or key.size(2) > _LONG_KEYS",
        "query.dtype == torch.bfloat16 or key.size(2) > _LONG_KEYS",
        (f"{KERNELS}::test_in_bf16_the_gradient_of_explicit_products_is_the_faster_one",),
    ),
    Mutant(
        "the gradient of weights forgets which were dropped",
        "attention/kernels.py",
        "d_kept if factors is None else d_kept.mul_(factors)",
        "d_kept",
        (f"{KERNELS}::test_products_in_one_node_are_the_formula",),
    ),
    Mutant(
        "rows see what the first row sees",
        "attention/mask.py",
        "return self.key_mask is None and positions.stride(0) == 0 and self.positions.stride(0) == 0",
        "return self.key_mask is None",
        (LAWS,),
    ),
    Mutant(
        "softmax over the queries",
        "attention/kernels.py",
        "        return scores.softmax(-1)\n    if not",
        "        return scores.softmax(-2)\n    if not",
        (f"{KERNELS}::test_the_softmax_in_place_is_the_softmax",),
    ),
    Mutant(
        "softmax of few keys over the queries",
        "attention/kernels.py",
        "return exponent.div_(exponent.sum(-1, keepdim=True))",
        "return exponent.div_(exponent.sum(-2, keepdim=True))",
        (f"{KERNELS}::test_the_softmax_in_place_is_the_softmax",),
    ),
    Mutant(
        "single-head softmax over the queries",
        "attention/normalizers.py",
        "torch.where(visible, scores, floor).softmax(-1) * visible",
        "torch.where(visible, scores, floor).softmax(-2) * visible",
        (f"{SCORES}::test_attention",),
    ),
    Mutant(
        "queries that see nothing look at padding",
        "attention/kernels.py",
        "return weights if fully_masked is None else weights.masked_fill(fully_masked, 0.0)",
        "return weights",
        (f"{KERNELS}::test_the_softmax_in_place_is_the_softmax",),
    ),
    Mutant(
        "queries that see nothing look at everything in the fused kernel",
        "attention/kernels.py",
        "return context if fully_masked is None else context.masked_fill(fully_masked, 0.0)",
        "return context",
        (f"{KERNELS}::test_the_fused_kernel_is_the_formula",),
    ),
    Mutant(
        "the fused kernel takes the mask for its opposite",
        "attention/kernels.py",
        "attn_mask=visible,",
        "attn_mask=None if visible is None else ~visible,",
        (f"{KERNELS}::test_the_fused_kernel_is_the_formula",),
    ),
    Mutant(
        "the fused kernel drops weights outside training",
        "attention/multihead.py",
        "dropout = self.dropout.p if self.training else 0.0",
        "dropout = self.dropout.p",
        (f"{KERNELS}::test_a_module_gives_the_same_with_either_kernel",),
    ),
    Mutant(
        "a token sees the next one",
        "attention/mask_functions.py",
        "(key >= 0) & (key <= query)\n",
        "(key >= 0) & (key <= query + 1)\n",
        (f"{VISIBILITY}::test_the_rule_holds_for_each_pair",),
    ),
    Mutant(
        "a token does not see itself",
        "attention/mask_functions.py",
        "(key >= 0) & (key <= query)\n",
        "(key >= 0) & (key < query)\n",
        (f"{VISIBILITY}::test_the_rule_holds_for_each_pair",),
    ),
    Mutant(
        "padding is seen",
        "attention/mask_functions.py",
        "(key >= 0).expand(",
        "(key >= -1).expand(",
        (f"{LAWS}::test_padding_law_source[sinusoidal-post_norm-inference]",),
    ),
    Mutant(
        "a window is one too narrow",
        "attention/mask_functions.py",
        "(key >= query - self.before)",
        "(key > query - self.before)",
        (f"{VISIBILITY}::test_the_rule_holds_for_each_pair",),
    ),
    Mutant(
        "a spot lies on the other side of the query",
        "attention/positions.py",
        "self._to_pixel(key_positions).unsqueeze(1) - self._to_pixel(positions).unsqueeze(2)",
        "self._to_pixel(positions).unsqueeze(2) - self._to_pixel(key_positions).unsqueeze(1)",
        (f"{LOOPS}::test_equals_the_loops",),
    ),
    Mutant(
        "a quadratic encoding forgets the distance",
        "attention/positions.py",
        "delta.square().sum(-1).unsqueeze(1) - 2 * products",
        "delta.sum(-1).unsqueeze(1) - 2 * products",
        (f"{LOOPS}::test_equals_the_loops",),
    ),
    Mutant(
        "blocks of a band look at the keys beside theirs",
        "attention/mask.py",
        "(keys - queries - window.before) + offsets",
        "(keys - queries - window.before + 1) + offsets",
        (f"{BAND}::test_a_band_is_its_window", f"{LAWS}::test_chunk_law[windows-bands]"),
    ),
    Mutant(
        "a band sees keys beyond the ends again",
        "attention/mask.py",
        "torch.where(exists, key_positions[:, key_columns], -1)",
        "key_positions[:, key_columns]",
        (f"{BAND}::test_a_band_is_its_window",),
    ),
    Mutant(
        "a band where tokens do not stand in line",
        "attention/mask.py",
        "return bool((largest <= smallest).all())",
        "return bool((largest <= smallest).any())",
        (f"{BAND}::test_tokens_out_of_line_have_no_band",),
    ),
    Mutant(
        "a window is always a mask",
        "attention/kernels.py",
        "return queries > 0 and keys >= max(",
        "return queries < 0 and keys >= max(",
        (f"{BAND}::test_nothing_as_large_as_the_square_of_the_text_is_made",),
    ),
    Mutant(
        "a mask is dropped though it hides something",
        "attention/mask.py",
        "if can_inspect and bool(mask.all()):",
        "if can_inspect and bool(mask[:, :, -1].all()):",
        (f"{SIGHT}::test_a_mask_that_hides_nothing_is_no_mask", f"{LAWS}::test_cause_law"),
    ),
    Mutant(
        "keys are left behind that a beam descends from",
        "attention/mask.py",
        "return exists & self.key_mask.view(len(exists), self.width, -1).any(1)",
        "return exists & self.key_mask.view(len(exists), self.width, -1).all(1)",
        (f"{SIGHT}::test_each_row_sees_what_it_descends_from_and_nothing_else",),
    ),
    Mutant(
        "keys that are needed by one change their order",
        "attention/mask.py",
        "return is_used.byte().sort(dim=1, stable=True).indices[:, keys - max_used :]",
        "return is_used.byte().sort(dim=1, stable=True).indices[:, keys - max_used :].flip(1)",
        (f"{SIGHT}::test_each_row_sees_what_it_descends_from_and_nothing_else",),
    ),
    Mutant(
        "what fills up a group is looked at",
        "attention/mask.py",
        "torch.where(self._find_used_keys(), self.positions, -1).gather(1, columns)",
        "self.positions.gather(1, columns)",
        (f"{SIGHT}::test_each_row_sees_what_it_descends_from_and_nothing_else",),
    ),
    Mutant(
        "ancestry keeps its columns where keys lose theirs",
        "attention/mask.py",
        "self.key_mask.gather(1, columns.repeat_interleave(self.width, 0))",
        "self.key_mask[:, : columns.size(1)]",
        (f"{SIGHT}::test_each_row_sees_what_it_descends_from_and_nothing_else",),
    ),
    Mutant(
        "nothing is left behind but where groups are dropped",
        "blocks/transformer.py",
        "and not past.has_room(new_keys):",
        "and not past.has_room(0):",
        ("tests/unit/blocks/test_transformer.py::test_what_no_beam_descends_from_is_left_behind",),
    ),
    Mutant(
        "groups that are copied keep all keys",
        "blocks/transformer.py",
        "return state if groups is None else state._drop_unneeded_keys(groups)",
        "return state if groups is None else replace(state, selection=self.selection.compose(groups, None))",
        ("tests/unit/blocks/test_transformer.py::test_what_no_beam_descends_from_is_left_behind",),
    ),
    Mutant(
        "all heads keep the columns of the first",
        "attention/kv_cache.py",
        "rows = groups.unsqueeze(1) * heads + torch.arange(heads, device=columns.device)",
        "rows = groups.unsqueeze(1) * heads + torch.zeros(heads, dtype=torch.long, device=columns.device)",
        (f"{STORAGE}::test_each_group_keeps_columns_of_its_own",),
    ),
    Mutant(
        "groups picked of groups are those of the first",
        "attention/kv_cache.py",
        "new_groups = groups if new_groups is None else new_groups.index_select(0, groups)",
        "new_groups = groups",
        (f"{STACK_STATE}::test_rows_are_picked_again_before_they_are_read",),
    ),
    Mutant(
        "columns of groups that were picked stay in the order of the first",
        "attention/kv_cache.py",
        "new_columns = None if new_columns is None else new_columns.index_select(0, groups)",
        "new_columns = None if new_columns is None else new_columns[: len(groups)]",
        (f"{STACK_STATE}::test_rows_are_picked_again_before_they_are_read",),
    ),
    Mutant(
        "columns picked of columns are those of the first",
        "attention/kv_cache.py",
        "new_columns = columns if new_columns is None else new_columns.gather(1, columns)",
        "new_columns = columns",
        (f"{STACK_STATE}::test_rows_are_picked_again_before_they_are_read",),
    ),
    Mutant(
        "memories are joined in the order in which they were stored",
        "blocks/transformer.py",
        "PendingSelection(state.selection.groups, state.memories[name].first_columns(lengths[name]))",
        "PendingSelection(None, state.memories[name].first_columns(lengths[name]))",
        (f"{LAWS}::test_join_law",),
    ),
    Mutant(
        "beams see what their neighbours wrote",
        "attention/mask.py",
        "new_mask = torch.eye(self.width, dtype=torch.bool, device=positions.device)",
        "new_mask = torch.ones(self.width, self.width, dtype=torch.bool, device=positions.device)",
        (f"{SIGHT}::test_each_row_sees_what_it_descends_from_and_nothing_else",),
    ),
    Mutant(
        "ancestry does not follow the beams",
        "attention/mask.py",
        "owned = None if self.key_mask is None else self.key_mask.index_select(0, rows.origin)",
        "key_mask = self.key_mask",
        (f"{LAWS}::test_rows_in_groups_are_rows[sinusoidal-post_norm-inference]",),
    ),
    Mutant(
        "heads take each other's parts",
        "attention/multihead.py",
        "x.view(x.size(0), x.size(1), x.size(2) // width, width).transpose(1, 2)",
        "x.view(x.size(0), x.size(1), width, x.size(2) // width).permute(0, 3, 1, 2)",
        (f"{TORCH}::test_multi_head_attention",),
    ),
    Mutant(
        "keys and values are exchanged",
        "attention/multihead.py",
        "key, value = torch.split(apply_linear(keys, linear), [d_keys, self.key_value_heads * self.d_v], -1)",
        "value, key = torch.split(apply_linear(keys, linear), [d_keys, self.key_value_heads * self.d_v], -1)",
        (f"{TORCH}::test_multi_head_attention",),
    ),
    Mutant(
        "values of their own are projected like keys",
        "attention/multihead.py",
        "linear(values)[..., d_keys:]",
        "linear(keys)[..., d_keys:]",
        (f"{TORCH}::test_multi_head_attention_over_another_width_with_separate_values",),
    ),
    Mutant(
        "the mean of the heads is their sum",
        "attention/multihead.py",
        "return contexts.mean(2)",
        "return contexts.sum(2)",
        (f"{LOOPS}::test_equals_the_loops[mean-False-unaware]",),
    ),
    Mutant(
        "heads are interleaved",
        "attention/multihead.py",
        "return contexts.flatten(2)\n",
        "return contexts.transpose(2, 3).flatten(2)\n",
        (f"{LOOPS}::test_equals_the_loops[concat-False-unaware]",),
    ),
    Mutant(
        "values are initialised as a part of the keys",
        "attention/multihead.py",
        "nn.init.xavier_uniform_(self.key_value.weight[:keys])\n",
        "nn.init.xavier_uniform_(self.key_value.weight)\n",
        (f"{INITIAL}::test_matrices_are_uniform_within_xaviers_bounds",),
    ),
    Mutant(
        "caches put newer values in front",
        "attention/kv_cache.py",
        "torch.cat((self.value, newer.value), 2)",
        "torch.cat((newer.value, self.value), 2)",
        (f"{STORAGE}::test_keys_and_values_grow_alike_with_and_without_gradients",),
    ),
    Mutant(
        "two continuations write to one place",
        "attention/kv_cache.py",
        "is_granted = begin == first_free and end <= self.size",
        "is_granted = end <= self.size",
        (f"{STORAGE}::test_a_tree_of_states_is_what_concatenation_makes_of_it",),
    ),
    Mutant(
        "positions are counted from 1",
        "attention/positions.py",
        "angle = (positions + self.first).unsqueeze(-1) * self.rate",
        "angle = (positions + self.first + 1).unsqueeze(-1) * self.rate",
        (f"{POSITIONS}::test_sinusoidal_formula",),
    ),
    Mutant(
        "wavelengths begin one too late",
        "attention/positions.py",
        "torch.exp(torch.arange(0, width, 2)",
        "torch.exp(torch.arange(1, width + 1, 2)",
        (f"{POSITIONS}::test_sinusoidal_formula",),
    ),
    Mutant(
        "keys are not rotated",
        "attention/multihead.py",
        "        key = self.relative.rotate(key, positions)\n",
        "",
        (f"{LOOPS}::test_only_differences_of_positions_matter",),
    ),
    Mutant(
        "rotations turn the other way",
        "attention/positions.py",
        "torch.view_as_complex(pairs) * factors)",
        "torch.view_as_complex(pairs) * factors.conj())",
        (f"{LOOPS}::test_rotations_keep_norms_and_do_not_change_position_0",),
    ),
    Mutant(
        "rotations turn the other way in exports",
        "attention/positions.py",
        "even * cos - odd * sin, even * sin + odd * cos",
        "even * cos + odd * sin, odd * cos - even * sin",
        (f"{POSITIONS}::test_rotations_equal_the_formula",),
    ),
    Mutant(
        "rotations in bf16 multiply in bf16",
        "attention/positions.py",
        "pairs = heads.to(torch.promote_types(heads.dtype, torch.float32))",
        "factors_dtype = sin.to(heads.dtype), cos.to(heads.dtype); sin, cos = factors_dtype; pairs = heads.float()",
        (f"{POSITIONS}::test_rotations_in_bf16_round_once",),
    ),
    Mutant(
        "relative distances have the other sign",
        "attention/positions.py",
        "(key_positions[:, None, :] - positions[:, :, None]).clamp",
        "(positions[:, :, None] - key_positions[:, None, :]).clamp",
        (f"{LOOPS}::test_equals_the_loops[project-False-shaw]",),
    ),
    Mutant(
        "relative distances are clipped one too early",
        "attention/positions.py",
        ".clamp(-self.clip, self.clip) + self.clip",
        ".clamp(1 - self.clip, self.clip - 1) + self.clip",
        (f"{LOOPS}::test_distances_beyond_the_clip_are_equal",),
    ),
    Mutant(
        "relative scores are not scaled",
        "attention/positions.py",
        "return products / math.sqrt(self.key.size(1))",
        "return products",
        (f"{LOOPS}::test_equals_the_loops[project-False-shaw-keys]",),
    ),
    Mutant(
        "dropout outside training",
        "attention/dropout.py",
        "if not self.training or self.p == 0:\n            return x\n",
        "if self.p == 0:\n            return x\n",
        (f"{DROPOUT}::test_nothing_is_dropped_outside_training_or_with_probability_0",),
    ),
    Mutant(
        "residual dropout outside training",
        "attention/dropout.py",
        "if not self.training or self.p == 0:\n            return x + branch\n",
        "if self.p == 0:\n            return x + branch\n",
        (f"{DROPOUT}::test_nothing_is_dropped_outside_training_or_with_probability_0",),
    ),
    Mutant(
        "what dropout leaves is not scaled",
        "fused_operators.py",
        "return threshold, _DROPOUT_LEVELS / (_DROPOUT_LEVELS - threshold)",
        "return threshold, 1.0",
        (f"{DROPOUT}::test_a_share_of_p_goes_and_the_rest_grows_so_that_the_mean_stays",),
    ),
    Mutant(
        "one byte too many is dropped",
        "attention/dropout.py",
        "np.greater_equal(random_bytes",
        "np.greater(random_bytes",
        (f"{DROPOUT}::test_a_share_of_p_goes_and_the_rest_grows_so_that_the_mean_stays",),
    ),
    Mutant(
        "dropout drops the shortcut",
        "attention/dropout.py",
        "torch.addcmul(x, branch, keep, value=scale)",
        "torch.addcmul(x * keep, branch, keep, value=scale)",
        (f"{DROPOUT}::test_the_fused_residual_is_the_sum_of_its_parts",),
    ),
    Mutant(
        "dropout scales values but not gradients",
        "attention/dropout.py",
        "(gradient * keep).mul_(ctx.scale)",
        "gradient * keep",
        (f"{DROPOUT}::test_the_fused_residual_is_the_sum_of_its_parts",),
    ),
    Mutant(
        "learned positions begin at the first row of their table",
        "attention/positions.py",
        "self.table(positions.clamp(min=0) + self.offset)",
        "self.table(positions.clamp(min=0))",
        (POSITIONS,),
    ),
    Mutant(
        "all steps are said to see what the first one sees",
        "inspection/capture.py",
        "visible=torch.cat([call.visible for call in self.explained[path]], 1)[0]",
        "visible=torch.cat([self.explained[path][0].visible for _ in self.explained[path]], 1)[0]",
        (f"{INSPECTING}::test_what_each_step_may_see_is_told_step_by_step",),
    ),
    Mutant(
        "the outputs of a walk are its inputs",
        "inspection/capture.py",
        "outputs=_concat_calls(self.outputs[path], 1)",
        "outputs=_concat_calls(self.inputs[path], 1)",
        (f"{INSPECTING}::test_a_walk_leads_from_what_the_attention_is_given_to_what_it_returns",),
    ),
)

MODELS = (
    Mutant(
        "embeddings are not scaled",
        "blocks/embedding.py",
        "math.sqrt(table.embedding_dim) if scaled else 1.0",
        "1.0",
        (f"{BLOCKS}::test_token_embedding",),
    ),
    Mutant(
        "positions are scaled like embeddings",
        "blocks/embedding.py",
        "self.embed_positions(tokens.positions, reference=token_vectors)",
        "self.embed_positions(tokens.positions, reference=token_vectors) * self.scale",
        (f"{BLOCKS}::test_token_embedding",),
    ),
    Mutant(
        "a token of a slot may follow itself without a blank",
        "generation/ctc.py",
        "(ends_in_blank if token == last else total)",
        "total",
        (f"{CTC}::test_a_wide_beam_finds_the_most_probable_texts",),
    ),
    Mutant(
        "a prefix is worth its best path alone",
        "generation/ctc.py",
        "_logaddexp(extended[longer][1], new_score)",
        "max(extended[longer][1], new_score)",
        (CTC,),
    ),
    Mutant(
        "what stands behind a sound is heard by the second convolution",
        "blocks/convolution.py",
        "x = torch.where(token_mask[:, None, :, None], x, 0.0)",
        "x = x + 0.0",
        ("tests/unit/blocks/test_subsampling.py::test_padding_says_nothing_wherever_it_is",),
    ),
    Mutant(
        "padding says something in the slots",
        "models/generative.py",
        "(memory.positions >= 0).sum(1)",
        "torch.full_like(memory.positions[:, 0], memory.positions.size(1))",
        (f"{SPEECH}::test_losses_are_those_of_each_recording_alone[ctc]",),
    ),
    Mutant(
        "bytes of sound have a sign",
        "data/sound.py",
        ".astype(np.float32) - 128.0",
        ".astype(np.float32)",
        ("tests/unit/data/test_sound.py::test_files_hold_the_mean_of_their_channels",),
    ),
    Mutant(
        "attention and slots have each other's weight",
        "tasks/speech/decoding.py",
        "(1 - self.weight) * hypothesis.score + self.weight * other",
        "self.weight * hypothesis.score + (1 - self.weight) * other",
        (f"{SPEECH}::test_hybrids_rank_by_both",),
    ),
    Mutant(
        "batch norm forgets its running averages",
        "blocks/residual.py",
        "            momentum=_BATCH_MOMENTUM,\n",
        "            momentum=1.0,\n",
        (f"{BATCH_NORM}::test_training_takes_the_statistics_of_the_batch",),
    ),
    Mutant(
        "batch norm takes the statistics of the batch in evaluation",
        "blocks/residual.py",
        "uses_batch = self.training and self.weight.requires_grad\n",
        "uses_batch = self.weight.requires_grad\n",
        (f"{BATCH_NORM}::test_evaluation_does_not_depend_on_the_other_tokens",),
    ),
    Mutant(
        "a frozen batch norm goes on counting",
        "blocks/residual.py",
        "uses_batch = self.training and self.weight.requires_grad\n",
        "uses_batch = self.training\n",
        (f"{BATCH_NORM}::test_running_averages_replace_missing_statistics",),
    ),
    Mutant(
        "batch norm trains its running averages",
        "blocks/residual.py",
        "self.mean = nn.Parameter(torch.zeros(width), requires_grad=False)",
        "self.mean = nn.Parameter(torch.zeros(width))",
        (f"{BATCH_NORM}::test_statistics_are_saved_but_not_trained",),
    ),
    Mutant(
        "frozen training trains running averages",
        "runs/trainer_factory.py",
        "parameter.requires_grad_(parameter.requires_grad and name not in frozen)",
        "parameter.requires_grad_(name not in frozen)",
        ("tests/unit/models/test_depth.py::test_freezing_does_not_train_running_averages",),
    ),
    Mutant(
        "batch norm is trained by several processes",
        "runs/trainer_factory.py",
        "    if world.size > 1:\n        raise RecipeError(\n            f'model.norm",
        "    if world.size > 2:\n        raise RecipeError(\n            f'model.norm",
        ("tests/unit/runs/test_training_run.py::test_batch_norm_in_several_processes_is_an_error",),
    ),
    Mutant(
        "batch norm trains in bf16 where it is asked to",
        "runs/trainer_factory.py",
        '    if config.precision == "bf16":\n        raise RecipeError(\'training.precision = "bf16": model.norm',
        '    if config.precision == "b16":\n        raise RecipeError(\'training.precision = "bf16": model.norm',
        ("tests/unit/runs/test_training_run.py::test_batch_norm_in_bf16_is_an_error",),
    ),
    Mutant(
        "pre-norm normalises its shortcut",
        "blocks/residual.py",
        "return self.dropout.add_dropped(x, self.compute_branch(x, sublayer))",
        "return self.dropout.add_dropped(self.norm(x), self.compute_branch(x, sublayer))",
        (f"{BLOCKS}::test_residuals",),
    ),
    Mutant(
        "post-norm normalises the sublayer alone",
        "blocks/residual.py",
        "self.norm(self.dropout.add_dropped(x, self._apply_sublayer(x, sublayer)))",
        "x + self.norm(self.dropout(self._apply_sublayer(x, sublayer)))",
        (f"{BLOCKS}::test_residuals",),
    ),
    Mutant(
        "the activation comes last",
        "blocks/feedforward.py",
        "apply_linear(self.dropout(apply_linear(x, self.inner, self.activation)), self.outer)",
        "apply_linear(self.dropout(apply_linear(x, self.inner)), self.outer, self.activation)",
        (f"{BLOCKS}::test_feed_forward",),
    ),
    Mutant(
        "no shortcut around the attention across",
        "blocks/transformer.py",
        "x = residual(x, partial(attention, memory=state.memories[name], mask=cross_masks[name]))",
        "x = attention(x, state.memories[name], mask=cross_masks[name])",
        (f"{TORCH}::test_encoder_decoder",),
    ),
    Mutant(
        "feed-forward before the attention across",
        "blocks/transformer.py",
        "        x = self.around_attention(x, attend)\n",
        "        x = self.around_feed_forward(self.around_attention(x, attend), self.feed_forward)\n",
        (f"{TORCH}::test_encoder_decoder",),
    ),
    Mutant(
        "the memory is dropped with other rows than the past",
        "blocks/transformer.py",
        "group_selection = PendingSelection(selection.groups)",
        "group_selection = PendingSelection()",
        (f"{LAWS}::test_rows_in_groups_are_rows[sinusoidal-post_norm-inference]",),
    ),
    Mutant(
        "the summary counts padding",
        "models/transformer.py",
        "(hidden * token_mask).sum(1) / token_mask.sum(1).clamp(min=1)",
        "hidden.mean(1)",
        (ENCODERS,),
    ),
    Mutant(
        "every token is in the first part of its text",
        "blocks/embedding.py",
        "vectors: Tensor = self.segments(tokens.segments)",
        "vectors: Tensor = self.segments(tokens.segments.clamp(max=0))",
        (f"{BLOCKS}::test_token_embedding_of_bert",),
    ),
    Mutant(
        "segments are left out of the sum",
        "blocks/embedding.py",
        "(self.positions, self.segments, self.factors)",
        "(self.positions, self.factors)",
        (f"{BLOCKS}::test_token_embedding_of_bert",),
    ),
    Mutant(
        "the embedding's norm comes before positions and segments",
        "blocks/embedding.py",
        "            x = self.norm(x)",
        "            x = self.norm(self.table(tokens.ids)) + x - self.table(tokens.ids)",
        (f"{BLOCKS}::test_token_embedding_of_bert",),
    ),
    Mutant(
        "learned positions are one off",
        "attention/positions.py",
        "vectors: Tensor = self.table(positions.clamp(min=0) + self.offset)",
        "vectors: Tensor = self.table((positions - 1).clamp(min=0) + self.offset)",
        (f"{BLOCKS}::test_token_embedding_of_bert",),
    ),
    Mutant(
        "what enters the shortcut is scaled for half the sublayers",
        "models/parameters.py",
        "std=_DEVIATION / math.sqrt(2 * len(layers))",
        "std=_DEVIATION / math.sqrt(len(layers))",
        (f"{INITIAL}::test_gpt2_starts_small_and_its_sublayers_sum_to_one",),
    ),
    Mutant(
        "only attention's way into the shortcut is scaled",
        "models/parameters.py",
        "for last in (layer.attention.aggregation, layer.feed_forward.outer):",
        "for last in (layer.attention.aggregation,):",
        (f"{INITIAL}::test_gpt2_starts_small_and_its_sublayers_sum_to_one",),
    ),
    Mutant(
        "the output is a copy of the table",
        "blocks/embedding.py",
        "output.weight = table.weight",
        "output.weight.data.copy_(table.weight.data)",
        (f"{BUILD}::test_tied_tables_are_one_tensor_and_their_gradients_add_up",),
    ),
    Mutant(
        "three-way tying leaves the source out",
        "architectures/build_stack.py",
        "source = target if config.shares_embeddings else",
        "source = target if config.tie is None else",
        (f"{BUILD}::test_tied_tables_are_one_tensor_and_their_gradients_add_up",),
    ),
    Mutant(
        "relative positions between source and target",
        "architectures/build_stack.py",
        "_build_attention(config, heads, longest=longest, relative=None)",
        "_build_attention(config, heads, longest=longest, relative=relative)",
        (f"{BUILD}::test_positions_stand_on_both_sides_and_never_between_them",),
    ),
    Mutant(
        "post-norm gets the final norm of pre-norm",
        "architectures/build_stack.py",
        'final_norm=build_norm(config, config.d_model) if config.residual == "pre_norm" else None',
        'final_norm=build_norm(config, config.d_model) if config.residual == "post_norm" else None',
        (f"{BUILD}::test_numbers_arrive",),
    ),
    Mutant(
        "attention weights get the sublayers' dropout",
        "architectures/build_stack.py",
        "dropout=config.attention_dropout",
        "dropout=config.dropout",
        (f"{BUILD}::test_each_dropout_is_set_at_its_place_and_nowhere_else",),
    ),
    Mutant(
        "the decoder sees as the encoder does",
        "architectures/build_stack.py",
        "layers=config.decoder_layers,\n        visibility=config.decoder_visibility,",
        "layers=config.decoder_layers,\n        visibility=config.encoder_visibility,",
        (f"{LAWS}::test_cause_law[sinusoidal-post_norm-inference]",),
    ),
    Mutant(
        "a window looks ahead",
        "architectures/build_stack.py",
        "return sliding_window(before, 0)",
        "return sliding_window(before, 1)",
        (f"{LAWS}::test_cause_law[windows-inference]",),
    ),
    Mutant(
        "tied tables count twice",
        "models/model_size.py",
        "tied.get(name)",
        "None",
        (f"{SIZE}::test_a_tied_matrix_counts_once_and_says_with_what_it_is_tied",),
    ),
    Mutant(
        "left padding shifts positions",
        "tensors.py",
        "torch.where(is_token, is_token.cumsum(1) - 1, -1)",
        "torch.where(is_token, torch.arange(ids.size(1)).expand_as(ids), -1)",
        (f"{LAWS}::test_padding_law_source[sinusoidal-post_norm-inference]",),
    ),
    Mutant(
        "the dropout of embeddings is forgotten",
        "blocks/embedding.py",
        "result: Tensor = self.dropout(x)",
        "result: Tensor = x",
        ("tests/laws/test_dropout_law.py",),
    ),
    Mutant(
        "learned positions start as large as sinusoids",
        "attention/positions.py",
        "self.table = nn.Embedding(offset + length, d_model)\n"
        "        nn.init.normal_(self.table.weight, std=d_model**-0.5)",
        "self.table = nn.Embedding(offset + length, d_model)\n        nn.init.normal_(self.table.weight, std=1.0)",
        (POSITIONS,),
    ),
)

TASKS = (
    Mutant(
        "a word is linked by its last piece alone",
        "tasks/translation/translations.py",
        "np.add.at(total, (rows, columns), weights[: len(target_words), : len(source_words)])",
        "total[rows, columns] = weights[: len(target_words), : len(source_words)]",
        ("tests/unit/tasks/test_translations.py",),
    ),
    Mutant(
        "possible links count for nothing",
        "metrics/error_rates.py",
        "hits += len(predicted_links & gold_links.sure) + len(predicted_links & gold_links.possible)",
        "hits += 2 * len(predicted_links & gold_links.sure)",
        ("tests/unit/metrics/test_alignment.py",),
    ),
    Mutant(
        "padding is learned like a word",
        "tasks/generation_objective.py",
        "has_label = batch.labels >= 0",
        "has_label = batch.labels >= -1",
        (f"{TASK}::test_the_loss_is_the_sum_over_labels",),
    ),
    Mutant(
        "smoothing spares one word",
        "models/predictions.py",
        "mean_weight = weight.mean(0, dtype=exact)",
        "mean_weight = weight.sum(0, dtype=exact) / (weight.size(0) - 1)",
        (f"{LIKELIHOOD}::test_values_and_gradients",),
    ),
    Mutant(
        "smoothing takes nothing from the label",
        "models/predictions.py",
        "margins = label_logits - h.to(exact) @ mean_weight - mean_bias",
        "margins = -(h.to(exact) @ mean_weight + mean_bias)",
        (f"{LIKELIHOOD}::test_values_and_gradients",),
    ),
    Mutant(
        "smoothing without its gradient",
        "models/predictions.py",
        "shift = smoothing * mean_weight",
        "shift = 0 * mean_weight",
        (f"{LIKELIHOOD}::test_values_and_gradients",),
    ),
    Mutant(
        "the output's gradient is smoothed too little",
        "models/predictions.py",
        "hidden_sum = hidden.sum(0) if weights is None",
        "hidden_sum = hidden.mean(0) if weights is None",
        (f"{LIKELIHOOD}::test_values_and_gradients",),
    ),
    Mutant(
        "what is too rare to be a number costs nothing that can be told",
        "models/predictions.py",
        "tiny = probability < torch.finfo(logits.dtype).tiny",
        "tiny = probability < 0",
        (f"{LIKELIHOOD}::test_large_logits_do_not_overflow_and_keep_rare_words",),
    ),
    Mutant(
        "the gradient of the label is not smoothed",
        "models/predictions.py",
        "labels] = chosen - confidence",
        "labels] = chosen - 1",
        (f"{LIKELIHOOD}::test_values_and_gradients",),
    ),
    Mutant(
        "the output's bias hears of the last chunk alone",
        "models/predictions.py",
        "d_bias += d_logits.sum(0)",
        "d_bias = d_logits.sum(0)",
        (f"{LIKELIHOOD}::test_values_and_gradients",),
    ),
    Mutant(
        "narrow models are trained in bf16",
        "training/precision.py",
        "_MIN_BF16_WIDTH = 128",
        "_MIN_BF16_WIDTH = 64",
        (f"{PRECISION}::test_on_a_processor_only_wide_models_gain_from_bf16",),
    ),
    Mutant(
        "the last incomplete chunk is forgotten",
        "models/predictions.py",
        "range(0, hidden.size(0), size)",
        "range(0, max(1, hidden.size(0) - size + 1), size)",
        (f"{LIKELIHOOD}::test_values_and_gradients",),
    ),
    Mutant(
        "the loss forgets what it is multiplied by",
        "models/predictions.py",
        "factor = upstream[0]",
        "factor = torch.ones_like(upstream[0])",
        (f"{LIKELIHOOD}::test_values_and_gradients",),
    ),
    Mutant(
        "heads are pushed towards nothing",
        "tasks/generation_objective.py",
        "(gram - identity).square()",
        "gram.square()",
        (f"{PENALTIES}::test_decorrelation",),
    ),
    Mutant(
        "padding is penalised",
        "tasks/generation_objective.py",
        "call_weights * real_queries[site.declaration.queries][:, None, :, None]",
        "call_weights",
        (f"{TASK}::test_losses_of_parts_add_up_to_that_of_the_whole",),
    ),
    Mutant(
        "validation measures the smoothed loss",
        "tasks/generation_objective.py",
        "nll, hits = predictions.score_labels(labels)",
        "nll, hits = self.criterion.loss(model, batch).total, predictions.score_labels(labels)[1]",
        (f"{TASK}::test_validation_is_the_mean_over_labels_however_it_is_batched",),
    ),
    Mutant(
        "translations come in the order of their lengths",
        "tasks/predictor.py",
        "zip(indices, batch_answers, strict=True)",
        "zip(sorted(indices), batch_answers, strict=True)",
        (f"{TRANSLATOR}::test_order_is_kept_and_neighbours_do_not_matter", FACES),
    ),
    Mutant(
        "a label with a line feed adds a line to a table",
        "tasks/predictor.py",
        """.replace("\\n", r"\\n")""",
        "",
        (FACES,),
    ),
    Mutant(
        "control characters reach a terminal",
        "cli/output.py",
        "escape_control_characters(text) if self.stream.isatty() else text",
        "text",
        ("tests/unit/cli/test_output.py",),
    ),
    Mutant(
        "a file is emptied before there are results",
        "cli/output.py",
        "        self._truncate = truncate\n",
        ("        self._truncate = truncate\n        _ = self.stream\n"),
        ("tests/unit/cli/test_output.py::test_a_file_keeps_its_content_until_the_first_result",),
    ),
    Mutant(
        "the longest translation is one too short",
        "tasks/translation/translator.py",
        "num_tokens = len(self._source_reader.own_positions(part.tokens)) + 1",
        "num_tokens = len(self._source_reader.own_positions(part.tokens))",
        (f"{TRANSLATOR}::test_translations_are_no_longer_than_allowed",),
    ),
    Mutant(
        "parts of a sentence share one source of chance",
        "tasks/translation/translator.py",
        "_PART_SEED_STEP: Final = 2**30",
        "_PART_SEED_STEP: Final = 0",
        (f"{TRANSLATOR}::test_parts_are_drawn_apart_from_each_other",),
    ),
    Mutant(
        "every part of a sentence begins with the prefix",
        "tasks/translation/translator.py",
        "chain([prefix], repeat(_EMPTY_PREFIX))",
        "repeat(prefix)",
        (f"{TRANSLATOR}::test_the_first_part_alone_begins_with_the_prefix",),
    ),
    Mutant(
        "a long text is split at its first word and not in the middle",
        "data/text_splitting.py",
        "key=lambda end: abs(2 * end - len(text))",
        "key=lambda end: end",
        (f"{PARTS}::test_seams", f"{PARTS}::test_a_long_text_is_not_measured_too_often"),
    ),
    Mutant(
        "a sentence counts as finished with its first part",
        "tasks/translation/source_reader.py",
        "sum(not self._remaining[row] for row in set(rows))",
        "len(set(rows))",
        (f"{TRANSLATOR}::test_a_sentence_is_finished_once_all_its_parts_are",),
    ),
    Mutant(
        "one input that cannot be read looks like success",
        "cli/line_commands.py",
        "return 2 if num_unread else 0",
        "return 0",
        ("tests/unit/cli/test_score.py::test_a_pair_that_is_too_long_loses_no_other",),
    ),
    Mutant(
        "the decoder reads what it should predict",
        "data/batches.py",
        "target[:, 1:] = labels[:, :-1]",
        "target[:, 1:] = labels[:, 1:]",
        (f"{BATCHES}::test_each_label_is_what_the_decoder_reads_next",),
    ),
    Mutant(
        "every epoch has the same order",
        "data/batches.py",
        "np.random.SeedSequence([seed, epoch])",
        "np.random.SeedSequence([seed, 0])",
        (f"{BUCKETING}::test_the_plan_depends_on_seed_and_epoch_and_nothing_else",),
    ),
    Mutant(
        "a sentence is expected to earn what a label does",
        "tasks/generation_objective.py",
        "real.sum(1, keepdim=True)",
        "real.any(1, keepdim=True)",
        (DRAWS,),
    ),
    Mutant(
        "padding learns from its draws",
        "tasks/generation_objective.py",
        "torch.where(real, terms, 0.0)",
        "terms",
        (DRAWS,),
    ),
    Mutant(
        "sentences earn what others earned",
        "tasks/generation_objective.py",
        "rows // labels.size(1), token_log_likelihoods",
        "rows % len(labels), token_log_likelihoods",
        (DRAWS,),
    ),
    Mutant(
        "the surrogate's value is reported",
        "tasks/generation_objective.py",
        "(surrogate_loss - surrogate_loss.detach())",
        "surrogate_loss",
        (DRAWS,),
    ),
    Mutant(
        "only what was earned is weighted",
        "tasks/generation_objective.py",
        "baseline=weight * expected_reward",
        "baseline=expected_reward",
        (DRAWS,),
    ),
    Mutant(
        "the baseline is of the wrong sign",
        "tasks/generation_objective.py",
        "torch.tensor(-nll,",
        "torch.tensor(nll,",
        (DRAWS,),
    ),
    Mutant(
        "gradients flow beyond the cut",
        "tasks/language/objective.py",
        "start + step), detach(state))",
        "start + step), state)",
        (LANGUAGE,),
    ),
    Mutant(
        "a text follows a beginning, not an end",
        "tasks/language/objective.py",
        ".astype(np.int64), self.start_id)",
        ".astype(np.int64), self.start_id - 1)",
        (LANGUAGE,),
    ),
    Mutant(
        "pieces count on from their place in the text",
        "tasks/language/objective.py",
        "torch.arange(indices.shape[1]).expand(indices.shape)",
        "torch.from_numpy(indices)",
        (LANGUAGE,),
    ),
    Mutant(
        "a token reads itself",
        "tasks/language/objective.py",
        "self.stream[np.maximum(indices - 1, 0)]",
        "self.stream[indices]",
        (LANGUAGE,),
    ),
    Mutant(
        "text is always cut at the same places",
        "tasks/language/objective.py",
        "rng.random_raw(1)[0] % self.length)",
        "rng.random_raw(1)[0] % 1)",
        (LANGUAGE,),
    ),
    Mutant(
        "a word's tag stands at its last token",
        "tasks/tagging/data.py",
        ("        word_starts.append(len(ids))\n        ids += tokenizer.encode(word) or [unknown]\n"),
        ("        ids += tokenizer.encode(word) or [unknown]\n        word_starts.append(len(ids) - 1)\n"),
        (TAGGED,),
    ),
    Mutant(
        "tags are one off",
        "tasks/tagging/data.py",
        "collate_ids(rows) - 1, -1)",
        "collate_ids(rows), -1)",
        (
            TAGGED,
            TAGGING,
        ),
    ),
    Mutant(
        "text is learned without smoothing",
        "tasks/language/objective.py",
        "output=model.output, smoothing=self.smoothing)",
        "output=model.output, smoothing=0.0)",
        (LANGUAGE,),
    ),
    Mutant(
        "tags are measured with smoothing",
        "tasks/tagging/task.py",
        "total += float(cross_entropy(*known_inputs, output=model.output)[1])",
        "total += float(cross_entropy(*known_inputs, output=model.output, smoothing=self.smoothing)[0])",
        (TAGGING,),
    ),
    Mutant(
        "tags are learned without smoothing",
        "tasks/tagging/task.py",
        "output=model.output, smoothing=self.smoothing)",
        "output=model.output)",
        (TAGGING,),
    ),
    Mutant(
        "the last word of a long sentence is searched for in all of it",
        "data/text_splitting.py",
        "text[max(start, stop - 40) : stop]",
        "text[start:stop]",
        ("tests/unit/data/test_sentences.py::test_the_work_for_a_mark_does_not_grow_with_the_text",),
    ),
    Mutant(
        "every sentence is looked at when batches are planned",
        "data/batches.py",
        "        sorting = np.lexsort((rising",
        "        _ = [row for row in padded]\n        sorting = np.lexsort((rising",
        (f"{BUCKETING}::test_python_reads_batches_and_not_sentences",),
    ),
    Mutant(
        "an answer may end at the end of its context",
        "tasks/spans/data.py",
        "(positions < lengths - 1)",
        "(positions < lengths)",
        ("tests/unit/data/test_windows.py",),
    ),
    Mutant(
        "foreign text loses its beginning when it is decoded",
        "data/pretrained_tokenizers.py",
        "return str(_call_tokenizers(self._tokenizer.decode, ids, skip_special_tokens=False))",
        "return str(_call_tokenizers(self._tokenizer.decode, ids, skip_special_tokens=False)).lstrip()[1:]",
        ("tests/reference/test_hugging_face.py::test_vocabularies_give_the_same_tokens",),
    ),
)

GENERATION = (
    Mutant(
        "the length penalty has another offset",
        "generation/penalties.py",
        "((5.0 + lengths) / 6.0) ** self.alpha",
        "(lengths / 6.0) ** self.alpha",
        (f"{PENALTIES}::test_length_penalties",),
    ),
    Mutant(
        "long hypotheses are punished",
        "generation/beam_decoding.py",
        "scores = totals / divisors[lengths].unsqueeze(1)",
        "scores = totals * divisors[lengths].unsqueeze(1)",
        (f"{BEAM}::test_equals_the_longhand_search",),
    ),
    Mutant(
        "a text that lives is lost to one that ended alike",
        "generation/diverse_beam_decoding.py",
        "(ids.unsqueeze(1) == ids.unsqueeze(2)).all(3) & (has_ended.unsqueeze(1) == has_ended.unsqueeze(2))",
        "(ids.unsqueeze(1) == ids.unsqueeze(2)).all(3)",
        ("tests/unit/generation/test_groups.py::test_a_text_that_lives_is_not_lost_to_one_that_ended_alike",),
    ),
    Mutant(
        "rows without segments get segment 1 beside others",
        "generation/continuous_batch.py",
        "torch.zeros_like(p.ids) if p.segments is None",
        "torch.ones_like(p.ids) if p.segments is None",
        ("tests/unit/generation/test_running.py::test_tokens_without_segments_get_segment_0_beside_others",),
    ),
    Mutant(
        "a token without a segment gets segment 1 before a prompt",
        "generation/results.py",
        "torch.zeros_like(part.ids) if part.segments is None",
        "torch.ones_like(part.ids) if part.segments is None",
        ("tests/unit/generation/test_running.py::test_a_prompt_behind_tokens_without_segments_leaves_these_segment_0",),
    ),
    Mutant(
        "memories are read in the order in which they are given",
        "tensors.py",
        "return {name: memory_by_name[name] for name in expected}",
        "return dict(memory_by_name)",
        ("tests/laws/test_memories.py::test_the_order_of_memories_does_not_matter",),
    ),
    Mutant(
        "what was learned before a point counts for the next one, too",
        "training/history.py",
        "self._total, self._labels = 0.0, 0",
        "pass",
        ("tests/unit/training/test_history.py::test_each_point_has_the_mean_of_what_was_learned_since_the_one_before",),
    ),
    Mutant(
        "a word that was begun need not be written within its tokens",
        "generation/logits_masks.py",
        "if fewest[size] < word.max_tokens:",
        "if fewest[size] <= word.max_tokens:",
        (f"{PARTIAL_WORDS}::test_tokens_that_may_come_are_those_that_lead_to_the_end",),
    ),
    Mutant(
        "what was written of a word must be written again",
        "generation/logits_masks.py",
        "PartialWord(word.characters[size:], word.max_tokens - 1)",
        "PartialWord(word.characters[size - 1 :], word.max_tokens - 1)",
        (f"{PARTIAL_WORDS}::test_tokens_that_may_come_are_those_that_lead_to_the_end",),
    ),
    Mutant(
        "a word behind which a space stands goes on",
        "tasks/continuations.py",
        "if text[-1:].isspace() and not",
        "if text[-1:].isspace() and",
        (f"{PARTIAL_WORDS}::test_a_finished_word_is_not_gone_on_with",),
    ),
    Mutant(
        "a word that a writer completes is repeated",
        "tasks/continuations.py",
        "self._prompt_length = len(tokenizer.decode(prompt)) + num_unspelled",
        "self._prompt_length = len(tokenizer.decode(self._prompt))",
        (f"{PARTIAL_WORDS}::test_a_writer_completes_the_last_word_of_a_prompt_if_it_is_asked_to",),
    ),
    Mutant(
        "the last word of a prefix is cut as if it ended there",
        "tasks/continuations.py",
        "if choices and [*choices] != [ids[position]]:",
        "if not choices:",
        (f"{PARTIAL_WORDS}::test_a_word_that_was_begun_may_become_any_that_begins_so",),
    ),
    Mutant(
        "the end of sentence does not count as a token",
        "generation/beam_decoding.py",
        "lengths = beam_state.lengths + 1\n",
        "lengths = beam_state.lengths.clamp(min=1)\n",
        (f"{BEAM}::test_equals_the_longhand_search",),
    ),
    Mutant(
        "caches stay when beams change places",
        "generation/continuous_batch.py",
        "self._state = select_rows(self._state, RowSelection.within_groups(chosen_beams))",
        "del chosen_beams",
        (f"{BEAM}::test_equals_the_longhand_search",),
    ),
    Mutant(
        "beam search writes on after the end of sentence",
        "generation/beam_decoding.py",
        "is_final, was_done = candidates.ends,",
        "is_final, was_done = candidates.ids < 0,",
        (f"{BEAM}::test_equals_the_longhand_search",),
    ),
    Mutant(
        "the first finished hypothesis wins",
        "generation/beam_decoding.py",
        "| (lengths >= beam_state.prefill.limits) | is_beaten",
        "| (lengths >= beam_state.prefill.limits) | (finished[:, -1, 0] > -math.inf)",
        (f"{BEAM}::test_equals_the_longhand_search",),
    ),
    Mutant(
        "a token is read one position too late",
        "generation/beam_state.py",
        "torch.where(self.done, -1, self.prefill.positions + self.counts - 1)",
        "torch.where(self.done, -1, self.prefill.positions + self.counts)",
        (f"{BEAM}::test_equals_the_longhand_search",),
    ),
    Mutant(
        "greedy search writes on after the end of sentence",
        "generation/prefill.py",
        "return ids == self.token_id",
        "return ids < 0",
        (f"{SAMPLING}::test_greedy_search_equals_taking_the_best_each_time",),
    ),
    Mutant(
        "temperature makes it hotter that should be colder",
        "generation/samplers.py",
        "else logits / self.temperature",
        "else logits * self.temperature",
        ("tests/unit/generation/test_pick.py::test_frequencies_are_the_probabilities",),
    ),
    Mutant(
        "the token that fills up p is left out",
        "generation/samplers.py",
        "needed = functional.pad(mass[:, :-1] < self.p, (1, 0), value=True)",
        "needed = mass < self.p",
        ("tests/unit/generation/test_filters.py::test_top_p_leaves_the_smallest_set_that_is_probable_enough",),
    ),
    Mutant(
        "a penalty forgets what a beam wrote",
        "generation/penalties.py",
        "torch.cat((state, self.mask_exempt_ids(ids.unsqueeze(1))), 1)",
        "state",
        ("tests/unit/generation/test_repetition.py::test_beams_carry_their_own_past",),
    ),
    Mutant(
        "a penalty rewards tokens that are improbable",
        "generation/penalties.py",
        "torch.where(earlier > 0, earlier / self.theta, earlier * self.theta)",
        "earlier / self.theta",
        ("tests/unit/generation/test_repetition.py::test_greedy_search_equals_the_formula",),
    ),
    Mutant(
        "a penalty below 1 does not encourage repetition",
        "generation/penalties.py",
        'else ("amax", -math.inf)',
        'else ("amin", math.inf)',
        ("tests/unit/generation/test_repetition.py::test_penalties_and_masks_equal_loops_over_tokens",),
    ),
    Mutant(
        "an engine applies processors that it does not know",
        "generation/processors.py",
        "len(self._repetition_penalties) == len(self.penalties) <= 1",
        "len(self.penalties) <= 1",
        ("tests/unit/native/test_search.py::test_several_steps_in_one_call_are_for_searches_that_engines_know",),
    ),
    Mutant(
        "the presence of a token is penalised each time",
        "generation/penalties.py",
        "(state.ids != ids).all(1, keepdim=True)",
        "(ids == ids)",
        ("tests/unit/generation/test_repetition.py::test_penalties_and_masks_equal_loops_over_tokens",),
    ),
    Mutant(
        "an exempt token does not end a repeated n-gram",
        "generation/logits_masks.py",
        "is_repeated &= ids != token_id",
        "pass",
        ("tests/unit/generation/test_repetition.py::test_penalties_and_masks_equal_loops_over_tokens",),
    ),
    Mutant(
        "the oldest part of a context is read again",
        "generation/wrapped_engines.py",
        "columns = (sizes - counts).unsqueeze(1) + torch.arange(self.max_context, device=is_token.device)",
        "columns = torch.arange(self.max_context, device=is_token.device).expand(len(is_token), -1)",
        ("tests/unit/generation/test_window.py::test_any_chunks_equal_cropping_by_hand",),
    ),
    Mutant(
        "a stretch is asked for one token twice",
        "tasks/language/objective.py",
        "starts + context - stride, starts)",
        "starts + context - stride - 1, starts)",
        ("tests/unit/tasks/test_pieces.py::test_every_token_is_predicted_once_behind_enough_others",),
    ),
    Mutant(
        "an n-gram of a lower order counts as often as it occurs",
        "metrics/likelihood.py",
        "num_predecessors = Counter(gram[1:] for gram in raw[n])",
        "num_predecessors = Counter(raw[n - 1])",
        (f"{KNESER_NEY}::test_probabilities_are_those_of_the_paper",),
    ),
    Mutant(
        "n-grams that begin a text have nothing before them, and so do not count",
        "metrics/likelihood.py",
        "adjusted.append(num_predecessors | initial_counts)",
        "adjusted.append(num_predecessors)",
        (f"{KNESER_NEY}::test_probabilities_are_those_of_the_paper",),
    ),
    Mutant(
        "an answer counts its positions from 0 behind its prompt too",
        "models/generative.py",
        "tokens.positions + offsets.unsqueeze(1)",
        "tokens.positions",
        ("tests/unit/models/test_decoder_only.py",),
    ),
    Mutant(
        "a reply reads the oldest turns of its window that fit",
        "tasks/conversation/data.py",
        ("if len(ids) > remaining and any(encoded_turns):\n                break"),
        ("if len(ids) > remaining and any(encoded_turns):\n                continue"),
        ("tests/unit/tasks/test_dialogues.py::test_behind_a_turn_that_does_not_fit_none_is_read",),
    ),
    Mutant(
        "a turn that does not fit loses its newer end",
        "tasks/conversation/data.py",
        "*ids[max(1, len(ids) - remaining + 1) :]",
        "*ids[1:remaining]",
        ("tests/unit/tasks/test_dialogues.py::test_of_what_does_not_fit_the_newest_is_read",),
    ),
    Mutant(
        "speakers may be written as words",
        "tasks/conversation/data.py",
        "others = text_special.others | frozenset(range(self.tokenizer.size, self.vocab_size))",
        "others = text_special.others",
        ("tests/unit/tasks/test_partner.py::test_no_speaker_is_ever_said",),
    ),
    Mutant(
        "wrong advice helps where a ticket follows",
        "tasks/conversation/demonstration.py",
        "self.helped = self.has_advice and self.stubborn",
        "self.helped = True",
        ("tests/unit/tasks/test_helpdesk.py",),
    ),
    Mutant(
        "the beginning of a stop string is shown",
        "tasks/continuations.py",
        "kept[: len(kept) - max(partial_sizes, default=0)]",
        "kept",
        ("tests/unit/tasks/test_stop_strings.py::test_what_is_certain_of_a_growing_text_never_changes",),
    ),
    Mutant(
        "an ensemble multiplies instead of adding",
        "generation/wrapped_engines.py",
        "return log_probabilities.logsumexp(0) - math.log(len(logits))",
        "return log_probabilities.mean(0)",
        (f"{TRANSLATOR}::test_several_models_vote",),
    ),
    Mutant(
        "scores are not normalised",
        "generation/results.py",
        "torch.where(labels >= 0, label_logits - logits.logsumexp(2), 0.0)",
        "torch.where(labels >= 0, label_logits, 0.0)",
        (f"{TRANSLATOR}::test_scores_of_what_was_found_are_those_it_was_found_with",),
    ),
    Mutant(
        "one token too many where the probability is exactly p",
        "generation/samplers.py",
        "mass[:, :-1] < self.p, (1, 0)",
        "mass[:, :-1] <= self.p, (1, 0)",
        ("tests/unit/generation/test_filters.py",),
    ),
    Mutant(
        "a second sample takes the chance of the next row",
        "generation/sampling.py",
        "(sentences if rng_streams is None else rng_streams) << 20",
        "sentences if rng_streams is None else rng_streams",
        (SAMPLING,),
    ),
    Mutant(
        "lists of the best show log-probabilities",
        "tasks/translation/translations.py",
        "{candidate.score:.4f}",
        "{candidate.log_probability:.4f}",
        ("tests/unit/cli/test_translate.py::test_n_best_lines_show_the_scores_that_rank",),
    ),
    Mutant(
        "a power of the length is one of its logarithm",
        "generation/penalties.py",
        "return lengths**self.alpha",
        "return lengths.log1p() ** self.alpha",
        (PENALTIES,),
    ),
)

TRAINING = (
    Mutant(
        "split parameters: what was gathered for an evaluation stays",
        "training/sharding.py",
        "                if not torch.is_grad_enabled():",
        "                if False:",
        (f"{SHARDING}::test_parameters_are_whole_only_inside_calls",),
    ),
    Mutant(
        "split parameters: scalars count in each process",
        "training/sharding.py",
        "if name in self._split_parameters or distributed.is_leader:",
        "if name in self._split_parameters:",
        (f"{SHARDING}::test_the_norm_counts_everything_once",),
    ),
    Mutant(
        "split parameters: moments are taken as they are",
        "training/sharding.py",
        "templates = build_templates(snapshot.training)\n",
        "templates = {}\n",
        (f"{SHARDING}::test_snapshots_that_do_not_fit_are_refused",),
    ),
    Mutant(
        "split parameters: shared layers are split twice",
        "training/sharding.py",
        " and all(counts[number] == 1 for number in numbers)",
        "",
        (f"{SHARDING}::test_split_parameters_are_trained_like_whole_ones",),
    ),
    Mutant(
        "tensors are written in the order of their names alone",
        "lazy_tensors.py",
        "(-tensors.templates[name].element_size(), name)",
        "name",
        ("tests/unit/test_lazy_tensors.py::test_files_are_those_of_safetensors",),
    ),
    Mutant(
        "accumulation divides by batches",
        "training/trainer.py",
        "norm_of_sum=norm_of_sum, num_labels=loss.count, max_norm",
        "norm_of_sum=norm_of_sum, num_labels=self.config.accumulate, max_norm",
        (f"{TRAINER}::test_accumulated_batches_are_the_big_batch",),
    ),
    Mutant(
        "the sum of gradients is clipped, not their mean",
        "training/distributed.py",
        "if max_norm is not None and norm > max_norm:",
        "if max_norm is not None and norm * num_labels > max_norm:",
        (f"{CHANCE}::test_a_mean_gradient_within_the_limit_is_left_alone",),
    ),
    Mutant(
        "each process reads what the others read",
        "training/trainer.py",
        "own_rows = rows[self.distributed.rank :: self.distributed.size]",
        "own_rows = rows[self.distributed.rank :]",
        (f"{TRAINER}::test_processes_share_the_work_and_change_nothing",),
    ),
    Mutant(
        "resuming begins the epoch anew",
        "training/trainer.py",
        "self.progress = snapshot.progress\n",
        ("self.progress = replace(snapshot.progress, position=0)\n"),
        (f"{TRAINER}::test_going_on_from_any_checkpoint_is_as_if_nothing_happened",),
    ),
    Mutant(
        "resuming forgets the moments",
        "training/trainer.py",
        (
            "self.optimizer.load_state_dict("
            "_select_prefix(prefix, snapshot.training), location=training_file, prefix=prefix)"
        ),
        "self.optimizer.load_state_dict({})",
        (f"{TRAINER}::test_going_on_from_any_checkpoint_is_as_if_nothing_happened",),
    ),
    Mutant(
        "every update drops the same entries",
        "training/trainer.py",
        "_combine_seeds(self.config.seed, step, self.distributed.rank)",
        "_combine_seeds(self.config.seed, 0, self.distributed.rank)",
        (f"{CHANCE}::test_every_update_drops_other_entries",),
    ),
    Mutant(
        "dropout depends on what was drawn before",
        "training/trainer.py",
        "torch.default_generator.manual_seed(seed)",
        "pass",
        (f"{TRAINER}::test_going_on_from_any_checkpoint_is_as_if_nothing_happened",),
    ),
    Mutant(
        "validation with dropout",
        "training/trainer.py",
        "self.model.eval()\n        with torch.no_grad(), self._use_average():",
        "with torch.no_grad(), self._use_average():",
        (f"{TRAINER}::test_evaluations_come_on_time_and_once",),
    ),
    Mutant(
        "no dropout after the first validation",
        "training/trainer.py",
        "metrics = self.precision.call(self.objective.evaluate)\n        self.model.train()\n",
        "metrics = self.precision.call(self.objective.evaluate)\n",
        (f"{CHANCE}::test_evaluations_neither_end_dropout_nor_change_it",),
    ),
    Mutant(
        "a loss that is no number becomes the best",
        "training/trainer.py",
        "if not math.isfinite(value) or any(map(math.isnan, metrics.values())):",
        "if any(map(math.isinf, metrics.values())):",
        (f"{TRAINER}::test_a_metric_that_is_not_finite_never_becomes_best",),
    ),
    Mutant(
        "rates are those of the update before",
        "training/trainer.py",
        "rate = self._get_rate(step)\n",
        "rate = self._get_rate(max(1, step - 1))\n",
        (f"{TRAINER}::test_the_rate_is_the_schedules",),
    ),
    Mutant(
        "Noam warms up one update too late",
        "training/optimizers.py",
        "step * self.warmup**-1.5)",
        "(step - 1) * self.warmup**-1.5)",
        (f"{SCHEDULES}::test_noam_is_the_papers_equation",),
    ),
    Mutant(
        "the cosine turns too early",
        "training/optimizers.py",
        "decay_fraction = min(1.0, (step - self.warmup) / max(1, self.steps - self.warmup))",
        "decay_fraction = min(1.0, step / max(1, self.steps))",
        (f"{SCHEDULES}::test_the_cosine_turns_around_its_middle_and_ends_at_its_floor",),
    ),
    Mutant(
        "Adam has another epsilon",
        "training/optimizers.py",
        "eps=self._epsilon,\n            weight_decay=group",
        "eps=10 * self._epsilon,\n            weight_decay=group",
        (f"{OPTIMIZERS}::test_adam_is_the_papers_and_decays_matrices_only",),
    ),
    Mutant(
        "Adafactor's rows are not divided by their mean",
        "training/optimizers.py",
        "row_shares = rows / rows.mean(-1, keepdim=True)",
        "row_shares = rows",
        (f"{OPTIMIZERS}::test_adafactor_is_hugging_faces",),
    ),
    Mutant(
        "Adafactor clips after scaling",
        "training/optimizers.py",
        "            change /= (_compute_rms(change) / self._clip_threshold).clamp(min=1.0)\n"
        "            if self._scale_parameter:\n"
        "                change *= _compute_rms(parameter).clamp(min=self._min_scale)\n",
        "            if self._scale_parameter:\n"
        "                change *= _compute_rms(parameter).clamp(min=self._min_scale)\n"
        "            change /= (_compute_rms(change) / self._clip_threshold).clamp(min=1.0)\n",
        (f"{OPTIMIZERS}::test_adafactor_is_hugging_faces",),
    ),
    Mutant(
        "a restored optimizer shares the tensors it was given",
        "training/optimizers.py",
        'tensors[f"{name}.{part}"].clone().to(device)',
        'tensors[f"{name}.{part}"].to(device)',
        (f"{OPTIMIZERS}::test_restored_moments_go_on_bit_for_bit",),
    ),
    Mutant(
        "a plateau reduces the rate in each evaluation after its patience",
        "training/optimizers.py",
        "return stale > 0 and stale % self.patience == 0",
        "return stale >= self.patience",
        (f"{SCHEDULES}::test_a_plateau_is_reduced_by_its_factor_down_to_its_floor",),
    ),
    Mutant(
        "a resumed run forgets how often its rate was reduced",
        "training/trainer.py",
        "        return rate * self.schedule.get_reduction(self.progress.reductions)\n",
        "        return rate * self.schedule.get_reduction(self.progress.stale)\n",
        (f"{TRAINER}::test_a_plateau_reduces_the_rate_also_after_a_resumption",),
    ),
    Mutant(
        "the first reduction comes an interval late",
        "training/optimizers.py",
        "count = 0 if step <= self.start else 1 + (step - self.start - 1) // self.every",
        "count = 0 if step <= self.start else (step - self.start - 1) // self.every",
        (f"{SCHEDULES}::test_luongs_rate_is_halved_after_every_epoch_from_the_fifth_on",),
    ),
    Mutant(
        "layers that are watched are computed again",
        "blocks/transformer.py",
        "            and not any(isinstance(module, HookPoint) and module.is_watched for module in layer.modules())\n",
        "",
        ("tests/laws/test_dropout_law.py::test_only_training_computes_layers_again_and_never_watched_ones",),
    ),
    Mutant(
        "layers that are computed again drop others",
        "blocks/transformer.py",
        "checkpoint(run_layer, x, old_state, use_reentrant=False)",
        "checkpoint(run_layer, x, old_state, use_reentrant=False, preserve_rng_state=False)",
        ("tests/laws/test_dropout_law.py::test_layers_that_are_computed_again_have_the_same_gradients",),
    ),
    Mutant(
        "evaluation is compiled",
        "blocks/transformer.py",
        "if self.compiler is None or not (self.training and torch.is_grad_enabled()):",
        "if self.compiler is None:",
        (f"{COMPILER}::test_evaluation_is_not_compiled",),
    ),
    Mutant(
        "compiled layers hide their weights from hooks",
        "blocks/transformer.py",
        "return None if any(map(has_inner_hooks, self._iter_layers())) else self.compiler",
        "return self.compiler",
        (f"{COMPILER}::test_hooks_see_what_they_would_see_without_a_compiler",),
    ),
    Mutant(
        "equal sizes of the first batch become a rule of compiled code",
        "blocks/layer_compiler.py",
        "patch(use_duck_shape=False)",
        "patch(use_duck_shape=True)",
        (f"{COMPILER}::test_one_graph_computes_all_layers_and_batches",),
    ),
    Mutant(
        "the first layer has a graph of its own",
        "blocks/transformer.py",
        "            x = x.clone()  # not a view, like the result of a layer\n",
        "",
        (f"{COMPILER}::test_one_graph_computes_all_layers_and_batches",),
    ),
    Mutant(
        "training.compile does nothing",
        "runs/layer_compilation.py",
        "        stack.compiler = LayerCompiler(backend or _BACKEND, device=device)\n",
        "        stack.compiler = None\n",
        ("tests/unit/runs/test_compiled_training.py::test_all_stacks_of_a_model_are_compiled",),
    ),
    Mutant(
        "training.gradient_checkpointing does nothing",
        "runs/trainer_factory.py",
        "        stack.gradient_checkpointing = True\n",
        "        stack.gradient_checkpointing = False\n",
        ("tests/unit/runs/test_costs.py::test_layers_that_are_computed_again_need_less_memory",),
    ),
    Mutant(
        "weights of pairs miss the smoothing",
        "models/predictions.py",
        "spread += _sum_weighted(margins, row_weights)",
        "spread += margins.sum()",
        ("tests/reference/test_likelihood.py::test_rows_with_weights",),
    ),
    Mutant(
        "a weighted loss is divided by the number of labels",
        "tasks/generation_objective.py",
        "count = len(labels) if labelled.weights is None else float(labelled.weights.double().sum())",
        "count = len(labels)",
        ("tests/unit/data/test_sentence_weights.py::test_a_weight_of_three_is_three_times_the_pair",),
    ),
    Mutant(
        "aligned batches lose the weights of their pairs",
        "data/word_alignments.py",
        ", weights=pairs.weights)",
        ")",
        ("tests/unit/data/test_sentence_weights.py::test_batches_hold_the_weights_of_their_rows",),
    ),
    Mutant(
        "R-Drop compares in one direction",
        "tasks/objective.py",
        "((log_p.exp() - log_q.exp()) * (log_p - log_q))",
        "(2 * log_p.exp() * (log_p - log_q))",
        ("tests/unit/training/test_r_drop.py::test_the_loss_and_its_gradient_are_those_of_the_paper",),
    ),
    Mutant(
        "R-Drop adds both losses",
        "tasks/objective.py",
        "total=(first.total + second.total) / 2 +",
        "total=first.total + second.total +",
        ("tests/unit/training/test_r_drop.py::test_without_dropout_both_passes_are_one",),
    ),
    Mutant(
        "training.r_drop does nothing",
        "runs/trainer_factory.py",
        "            r_drop=_get_r_drop(config, objective),\n",
        "            r_drop=0 * _get_r_drop(config, objective),\n",
        ("tests/unit/runs/test_training_run.py::test_two_passes_without_dropout_are_one_in_every_task[tagging]",),
    ),
    Mutant(
        "dropped tokens lose their positions too",
        "blocks/embedding.py",
        "        vectors = terms.tokens if terms.factors is None else terms.tokens + terms.factors\n"
        "        return replace(terms, tokens=vectors * kept, factors=None)\n",
        "        vectors = terms.compute_sum()\n        return EmbeddingSum(vectors * kept, None, None)\n",
        ("tests/unit/blocks/test_token_dropout.py::test_whole_tokens_are_dropped_and_keep_their_positions",),
    ),
    Mutant(
        "each number of a token is dropped alone",
        "blocks/embedding.py",
        "self.token_dropout.draw_factors((*terms.tokens.shape[:-1], 1), reference=terms.tokens)",
        "self.token_dropout.draw_factors((*terms.tokens.shape,), reference=terms.tokens)",
        ("tests/unit/blocks/test_token_dropout.py::test_whole_tokens_are_dropped_and_keep_their_positions",),
    ),
    Mutant(
        "dropout_target drops source words",
        "tasks/translation/task.py",
        "(model.decoder, training.dropout_target)",
        "(model.encoder, training.dropout_target)",
        ("tests/unit/blocks/test_token_dropout.py::test_each_side_has_its_own_dropout",),
    ),
    Mutant(
        "Adam's decays are exchanged",
        "training/optimizers.py",
        "beta1, beta2 = self._betas",
        "beta2, beta1 = self._betas",
        (f"{OPTIMIZERS}::test_adam_is_the_papers_and_decays_matrices_only",),
    ),
    Mutant(
        "biases decay",
        "training/optimizers.py",
        "_ParameterGroup(tuple(names), factor, weight_decay if matrices else 0.0)",
        "_ParameterGroup(tuple(names), factor, weight_decay)",
        (f"{OPTIMIZERS}::test_adam_is_the_papers_and_decays_matrices_only",),
    ),
    Mutant(
        "the moving average moves too fast",
        "training/optimizers.py",
        "for n in self.weights], 1 - decay)",
        "for n in self.weights], decay)",
        (f"{OPTIMIZERS}::test_the_moving_average_is_the_sum_written_out",),
    ),
    Mutant(
        "half-precision gradients replace each other",
        "training/precision.py",
        "master.grad += parameter.grad\n",
        "master.grad = parameter.grad.float()\n",
        (f"{PRECISION}::test_half_gradients_are_summed_in_single_precision",),
    ),
    Mutant(
        "the first checkpoints are averaged",
        "runs/checkpoints.py",
        "steps = manifest.checkpoints[-average:]",
        "steps = manifest.checkpoints[:average]",
        ("tests/unit/runs/test_checkpoints.py::test_the_average_is_the_mean_of_the_last_ones",),
    ),
    Mutant(
        "checkpoints are averaged in their own precision",
        "runs/checkpoints.py",
        "model[name].double() for model in self._models",
        "model[name] for model in self._models",
        ("tests/unit/runs/test_checkpoints.py::test_the_mean_loses_no_digits",),
    ),
    Mutant(
        "resuming forgets what the task remembers",
        "training/trainer.py",
        "self.objective.load_state_dict(objective_tensors)",
        "self.objective.load_state_dict(self.objective.state_dict())",
        (f"{TRAINER}::test_what_a_task_remembers_is_saved_and_taken_up",),
    ),
    Mutant(
        "a task hears of sums",
        "training/trainer.py",
        "self.objective.on_update(nll, member=member_name)",
        'self.objective.on_update(part_names["nll"].total, member_name=member_name)',
        (f"{TRAINER}::test_the_task_hears_in_every_process_what_all_of_them_learned",),
    ),
    Mutant(
        "positions that Marian computes are read as parameters",
        "foreign/families/marian.py",
        'computed={r"model\\.(encoder|decoder)\\.embed_positions\\.weight": _compute_positions}',
        'computed={r"model\\.encoder\\.embed\\.weight": _compute_positions}',
        ("tests/reference/test_hugging_face.py::test_positions_that_marian_cannot_compute",),
    ),
    Mutant(
        "the exported head of the mean counts padding",
        "foreign/families/heads.py",
        "(hidden * real).sum(1)",
        "hidden.sum(1)",
        ("tests/unit/runs/test_fine_tuned_export.py::test_the_mean_of_all_tokens",),
    ),
    Mutant(
        "heads of GPT-NeoX turn neighbours",
        "foreign/families/gpt_neox.py",
        "torch.arange(turned).view(-1, 2).t().flatten()",
        "torch.arange(turned)",
        ("tests/reference/test_hugging_face.py::test_models_of_heedful_compute_the_same_in_transformers",),
    ),
    Mutant(
        "an adapter of GPT-NeoX has its rows in our order",
        "foreign/peft.py",
        "arrangement is WRITES_SINES_FIRST or arrangement.rows",
        "arrangement is WRITES_SINES_FIRST",
        ("tests/reference/test_peft.py::test_transformers_computes_the_same_with_the_adapter",),
    ),
    Mutant(
        "a foreign list of pieces folds case whatever its settings say",
        "foreign/folder_files.py",
        'lowercase=_get_flag(settings, "do_lower_case"),',
        "lowercase=True,",
        ("tests/reference/test_word_pieces.py::test_letters_with_a_list_of_pieces",),
    ),
    Mutant(
        "settings of case do not outrank a foreign tokenizer.json",
        "foreign/folder_files.py",
        '"do_lower_case": "lowercase",',
        "",
        ("tests/reference/test_word_pieces.py::test_settings_have_priority_over_the_tokenizer_file",),
    ),
    Mutant(
        "accents of foreign vocabularies stay or go with case",
        "foreign/folder_files.py",
        'strip_accents=settings.get("strip_accents"),',
        "strip_accents=None,",
        ("tests/reference/test_word_pieces.py::test_letters_with_a_list_of_pieces",),
    ),
    Mutant(
        "what is unknown is called as in BERT in every foreign vocabulary",
        "foreign/folder_files.py",
        "            unk=unk,\n",
        "",
        ("tests/reference/test_word_pieces.py::test_the_unknown_piece_may_have_any_name",),
    ),
    Mutant(
        "pre-training that goes on leaves heads behind",
        "tasks/pretraining/recipe.py",
        'heads: ClassVar = ("masked", "relation", "generator", "dense", "verdict")',
        'heads: ClassVar = ("relation", "generator", "dense", "verdict")',
        ("tests/unit/runs/test_going_on_with_weights.py::test_pre_training_goes_on_where_the_other_one_ended",),
    ),
    Mutant(
        "shared parameters are looked for under one of their names",
        "runs/initialization.py",
        ("        if name in tensors:\n            matches.setdefault(first, name)\n"),
        ("        if name in tensors and False:\n            matches.setdefault(first, name)\n"),
        ("tests/unit/runs/test_going_on_with_weights.py::test_a_detector_begins_from_an_encoder",),
    ),
    Mutant(
        "a grown vocabulary begins with its last entries",
        "runs/initialization.py",
        "value.narrow(vocabulary_dimension, 0, pretrained.size(vocabulary_dimension))",
        "value.narrow(vocabulary_dimension, value.size(vocabulary_dimension) - pretrained.size(vocabulary_dimension), "
        "pretrained.size(vocabulary_dimension))",
        ("tests/unit/runs/test_going_on_with_weights.py::test_a_conversation_begins_from_a_language_model",),
    ),
    Mutant(
        "what a folder says of pooling is passed over",
        "foreign/hugging_face.py",
        "summary = settings.summary or MeanPooler()",
        "summary = MeanPooler()",
        ("tests/reference/test_sentence_transformers.py::test_tokens_are_pooled_as_the_folder_specifies",),
    ),
    Mutant(
        "padding counts among the largest numbers",
        "models/transformer.py",
        "hidden.masked_fill(~is_token, -torch.inf).amax(1)",
        "(hidden * is_token).amax(1)",
        ("tests/reference/test_sentence_transformers.py::test_tokens_are_pooled_as_the_folder_specifies",),
    ),
    Mutant(
        "texts are read beyond what a folder says of their length",
        "foreign/hugging_face.py",
        "min(settings.max_length or self.max_positions, self.max_positions)",
        "self.max_positions",
        ("tests/reference/test_sentence_transformers.py::test_longer_texts_are_truncated",),
    ),
    Mutant(
        "classes that are judged by themselves share their probability",
        "foreign/families/heads.py",
        'independent=problem == "multi_label_classification"',
        "independent=False",
        ("tests/reference/test_fine_tuned_hugging_face.py::test_classes",),
    ),
    Mutant(
        "one output without a problem_type is a class",
        "foreign/families/heads.py",
        'problem == "regression" or (problem is None and len(names) == 1)',
        'problem == "regression"',
        ("tests/reference/test_fine_tuned_hugging_face.py::test_a_number",),
    ),
    Mutant(
        "classes of others come in the order of the file",
        "foreign/families/heads.py",
        "tuple(numbered[number] for number in range(len(labels)))",
        "tuple(numbered.values())",
        ("tests/reference/test_fine_tuned_hugging_face.py::test_mismatches_are_reported",),
    ),
    Mutant(
        "an exported answerer forgets when it says nothing",
        "foreign/hugging_face.py",
        "threshold=reading.threshold",
        "threshold=None",
        ("tests/unit/runs/test_fine_tuned_export.py::test_heedful_reads_again_what_it_wrote",),
    ),
    Mutant(
        "a model that begins with another one looks for shared tables under one name alone",
        "runs/initialization.py",
        "tensors = origin.all_tensors if has_given_tokenizer else",
        "tensors = origin.tensors if has_given_tokenizer else",
        ("tests/unit/runs/test_fine_tuning.py::test_tables_that_are_stored_under_another_name_are_found",),
    ),
    Mutant(
        "an adapted run forgets under which name its base stores a table",
        "runs/adapter_runs.py",
        "stored = {name: shared_names[name] for name in taken if name in shared_names}",
        "stored: dict[str, str] = {}",
        ("tests/unit/runs/test_fine_tuning.py::test_an_adapter_finds_them_again",),
    ),
    Mutant(
        "the vector of the only part of a text is left out",
        "foreign/families/bert.py",
        "tensors[_POSITIONS] + tensors[_SEGMENTS]",
        "tensors[_POSITIONS]",
        ("tests/reference/test_hugging_face.py::test_the_segment_vector_of_single_texts_is_used",),
    ),
    Mutant(
        "exported rotary positions turn halves instead of neighbours",
        "foreign/ctranslate2_export.py",
        '"rotary_dim": 0, "rotary_interleave": True',
        '"rotary_dim": 0, "rotary_interleave": False',
        ("tests/reference/test_ctranslate2.py::test_translators_of_runs",),
    ),
    Mutant(
        "exported generators forget the epsilon of their norms",
        "foreign/ctranslate2_export.py",
        ("_set_special_tokens(spec, tokenizer)\n    spec.config.layer_norm_epsilon = _get_norm_epsilon(weights.model)"),
        "_set_special_tokens(spec, tokenizer)",
        ("tests/reference/test_ctranslate2.py::test_language_models_of_runs",),
    ),
    Mutant(
        "exported translators have another epsilon",
        "foreign/ctranslate2_export.py",
        ("spec.config.add_source_eos = True\n    spec.config.layer_norm_epsilon = _get_norm_epsilon(weights.model)"),
        "spec.config.add_source_eos = True\n    spec.config.layer_norm_epsilon = 1e-6",
        ("tests/reference/test_ctranslate2.py::test_translators_keep_the_epsilon_of_their_norms",),
    ),
    Mutant(
        "exported encoders forget the epsilon of their norms",
        "foreign/ctranslate2_export.py",
        ("tokenizer.special.unk]\n    spec.config.layer_norm_epsilon = _get_norm_epsilon(weights.model)"),
        "tokenizer.special.unk]",
        ("tests/reference/test_ctranslate2.py::test_encoders_of_runs",),
    ),
    Mutant(
        "what of words is not known has the vector of the first label",
        "foreign/ctranslate2_export.py",
        "table[:1].expand(",
        "table[1:2].expand(",
        ("tests/reference/test_ctranslate2.py::test_factors_are_combined_with_pieces",),
    ),
    Mutant(
        "Shaw's vectors are scaled as dot products are not",
        "foreign/ctranslate2_export.py",
        'keys / config.d_key**0.5 if heads.score == "dot" else keys',
        "keys",
        ("tests/reference/test_ctranslate2.py::test_translators_of_runs",),
    ),
)

RECURRENT = (
    Mutant(
        "a linear chain forgets what comes behind a slot",
        "attention/structured.py",
        "return scores + left_messages + right_messages",
        "return scores + left_messages",
        (STRUCTURED,),
    ),
    Mutant(
        "the baseline is added to the reward",
        "attention/normalizers.py",
        "(reward - baseline)",
        "(reward + baseline)",
        (HARD,),
    ),
    Mutant(
        "the bell of a window is too wide",
        "attention/normalizers.py",
        "torch.exp(-2 *",
        "torch.exp(-0.5 *",
        (CHOICE,),
    ),
    Mutant(
        "a location beyond the longest memory is scored",
        "attention/scores.py",
        "positions >= self.longest",
        "positions > self.longest",
        (SCORES, "tests/unit/attention/test_scores.py"),
    ),
    Mutant(
        "the update gate keeps what it should replace",
        "blocks/recurrent.py",
        "return (torch.lerp(candidate, h, update),)",
        "return (torch.lerp(h, candidate, update),)",
        (CELLS,),
    ),
    Mutant(
        "the reset gate is forgotten",
        "blocks/recurrent.py",
        "torch.addcmul(candidate, reset, recurrent_candidate)",
        "candidate + recurrent_candidate",
        (CELLS,),
    ),
    Mutant(
        "the forget gate writes and the input gate forgets",
        "blocks/recurrent.py",
        "i, f, candidate, o = ",
        "f, i, candidate, o = ",
        (CELLS,),
    ),
    Mutant(
        "the cell that reads backwards reads forwards",
        "blocks/recurrent.py",
        "torch.where(token_mask, -columns if backward else columns, length)",
        "torch.where(token_mask, columns, length)",
        (CELLS,),
    ),
    Mutant(
        "a row without tokens changes its state",
        "blocks/recurrent.py",
        "return result, masked_update(token_mask.any(1, keepdim=True), final_state, state)",
        "return result, final_state",
        (CELLS,),
    ),
    Mutant(
        "padding advances the state of a step",
        "blocks/recurrent.py",
        "new_states.append(masked_update(token_mask, cell.step(gates, state), state))",
        "new_states.append(cell.step(gates, state))",
        (f"{LAWS}::test_padding_law_target",),
    ),
    Mutant(
        "padding is fed back",
        "models/recurrent_decoder.py",
        "fed_vector = torch.where(token_mask[:, t], attentional.squeeze(1), fed_vector)",
        "fed_vector = attentional.squeeze(1)",
        (f"{LAWS}::test_padding_law_target",),
    ),
    Mutant(
        "the context does not enter the gates",
        "blocks/recurrent.py",
        "gates = projected + self.more(extra)",
        "gates = projected",
        (RECURRENCE,),
    ),
    Mutant(
        "the first state asks at every step",
        "models/recurrent_decoder.py",
        "query, step_positions = cells[0][0].unsqueeze(1)",
        "query, step_positions = state.cells[0][0].unsqueeze(1)",
        (RECURRENCE,),
    ),
    Mutant(
        "the attentional vector is not fed back",
        "models/recurrent_decoder.py",
        "self.column.step(projected[:, t], fed_vector, states",
        "self.column.step(projected[:, t], state.fed_vector, states",
        (RECURRENCE,),
    ),
    Mutant(
        "dropped sentences keep the memory of others",
        "attention/attention.py",
        "part.index_select(0, groups) for part in (self.keys, self.values, self.positions)",
        "part[: len(groups)] for part in (self.keys, self.values, self.positions)",
        (f"{LAWS}::test_rows_in_groups_are_rows", f"{LAWS}::test_row_law"),
    ),
    Mutant(
        "slots of a reversed source stay reversed",
        "models/recurrent_encoder.py",
        "lambda outputs: outputs.flip(1)",
        "lambda outputs: outputs",
        (RECURRENCE,),
    ),
    Mutant(
        "the first reading of a doubled source is remembered",
        "models/recurrent_encoder.py",
        "outputs[:, outputs.size(1) // 2 :]",
        "outputs[:, : outputs.size(1) // 2]",
        (RECURRENCE,),
    ),
    Mutant(
        "the decoder starts from the last backward state",
        "models/recurrent_encoder.py",
        "return final_states[-1][len(final_states[-1]) // 2]\n",
        "return final_states[-1][0]\n",
        (RECURRENCE,),
    ),
    Mutant(
        "arcs to the left hand nothing down",
        "attention/structured.py",
        "mul_((right + left).unsqueeze(1))\n        )",
        "mul_(right.unsqueeze(1)))",
        (TREES,),
    ),
    Mutant(
        "arcs to the left score like arcs to the right",
        "attention/structured.py",
        "right, left = split_sums + scores.diagonal(-width).T, split_sums + scores.diagonal(width).T",
        "right, left = split_sums + scores.diagonal(-width).T, split_sums + scores.diagonal(-width).T",
        (TREES,),
    ),
    Mutant(
        "trees forget how their spans moved",
        "attention/structured.py",
        "mul_(tangents.sum_complete_splits(width)).sum(2)",
        "mul_(tangents.sum_complete_splits(width)).amax(2)",
        (TREES,),
    ),
    Mutant(
        "slots that see nobody are no part of a tree",
        "attention/structured.py",
        "in_sentence = visible_pairs.any(1)",
        "in_sentence = visible_pairs.any(2)",
        (TREES,),
    ),
    Mutant(
        "cells are not carried on",
        "models/recurrent_encoder.py",
        "[part for state in final_states for part in state]",
        "[state[0] for state in final_states for _ in state]",
        (RECURRENCE,),
    ),
    Mutant(
        "layers go on where others ended",
        "models/recurrent_encoder.py",
        "[part for state in final_states for part in state]",
        "[part for state in final_states[::-1] for part in state]",
        (RECURRENCE,),
    ),
    Mutant(
        "the numbers of a paper are positive",
        "models/parameters.py",
        "uniform_(parameter, -bound, bound)",
        "uniform_(parameter, 0.0, bound)",
        (START,),
    ),
    Mutant(
        "attention begins with a preference",
        "models/parameters.py",
        "nn.init.zeros_(module.energy.weight)",
        "nn.init.normal_(module.energy.weight, std=0.001)",
        (START,),
    ),
    Mutant(
        "recurrent matrices are orthogonal as a whole",
        "models/parameters.py",
        "for gate in torch.split(module.recurrent.weight, module.d_state):",
        "for gate in [module.recurrent.weight]:",
        (START,),
    ),
    Mutant(
        "the embeddings of a paper are scaled",
        "architectures/build_recurrent.py",
        'scaled = config.initialisation == "modern"',
        "scaled = True",
        (START,),
    ),
    Mutant(
        "the dropout of a recurrent encoder is forgotten",
        "models/recurrent_encoder.py",
        "outputs = self.dropout(self.order.to_source_order(outputs))",
        "outputs = self.order.to_source_order(outputs)",
        ("tests/laws/test_dropout_law.py",),
    ),
    Mutant(
        "the dropout between recurrent layers is forgotten",
        "blocks/recurrent.py",
        "layer(self.dropout(x) if number else x, old_state",
        "layer(x, old_state",
        ("tests/laws/test_dropout_law.py",),
    ),
    Mutant(
        "the dropout between cells is forgotten",
        "blocks/recurrent.py",
        "cell.input(self.dropout(new_states[-1][0]))",
        "cell.input(new_states[-1][0])",
        ("tests/laws/test_dropout_law.py",),
    ),
    Mutant(
        "the first layer says how the source ends backwards",
        "models/recurrent_encoder.py",
        "return final_states[-1][len(final_states[-1]) // 2]",
        "return final_states[0][len(final_states[0]) // 2]",
        (RECURRENCE,),
    ),
    Mutant(
        "the first layer says how the source ends",
        "models/recurrent_encoder.py",
        "return final_states[-1][0]\n",
        "return final_states[0][0]\n",
        (RECURRENCE,),
    ),
    Mutant(
        "the highest cell asks in Bahdanau's decoder",
        "models/recurrent_decoder.py",
        "query, step_positions = cells[0][0].unsqueeze(1)",
        "query, step_positions = cells[-1][0].unsqueeze(1)",
        (RECURRENCE,),
    ),
    Mutant(
        "the lowest cell asks where attentional vectors are fed",
        "models/recurrent_decoder.py",
        "hidden = cells[-1][0].unsqueeze(1)\n            context",
        "hidden = cells[0][0].unsqueeze(1)\n            context",
        (RECURRENCE,),
    ),
)

CONVOLUTIONS = (
    Mutant(
        "residuals are halved, not scaled by the root of a half",
        "blocks/convolution.py",
        "(x + branch) * math.sqrt(0.5)",
        "(x + branch) * 0.5",
        (CONVOLUTION_BY_HAND,),
    ),
    Mutant(
        "padding enters windows",
        "blocks/convolution.py",
        "return x if self.token_mask is None else torch.where(self.token_mask, x, 0.0)",
        "return x",
        (CONVOLUTIONAL,),
    ),
    Mutant(
        "the taps of a window are reversed",
        "blocks/convolution.py",
        "torch.cat(taps, -1)",
        "torch.cat(taps[::-1], -1)",
        (CONVOLUTION_BY_HAND,),
    ),
    Mutant(
        "a centred window looks back only",
        "blocks/convolution.py",
        "(0, 0, side, side)",
        "(0, 0, 2 * side, 0)",
        (CONVOLUTION_BY_HAND,),
    ),
    Mutant(
        "the memory's values are its keys",
        "models/convolutional.py",
        "Memory(z, z + embedded,",
        "Memory(z, z,",
        (CONVOLUTION_BY_HAND,),
    ),
    Mutant(
        "contexts shrink with the length of the source",
        "models/convolutional.py",
        "scaled = memory.values * count.sqrt()",
        "scaled = memory.values",
        (CONVOLUTION_BY_HAND,),
    ),
    Mutant(
        "the last word does not ask",
        "models/convolutional.py",
        "query = self.query(h) + embedded",
        "query = self.query(h)",
        (CONVOLUTION_BY_HAND,),
    ),
    Mutant(
        "a layer keeps what it saw a step too long",
        "models/convolutional.py",
        "pasts.append(new_past)",
        "pasts.append(old_past)",
        (f"{LAWS}::test_chunk_law",),
    ),
    Mutant(
        "the encoder's gradients are scaled for half the layers",
        "architectures/build.py",
        "1 / (2 * config.decoder_layers)",
        "1 / config.decoder_layers",
        (CONVOLUTION_BY_HAND,),
    ),
)

PRETRAINING = (
    Mutant(
        "follows and does not follow are exchanged",
        "tasks/pretraining/data.py",
        ("documents.find_id_range(range(split, sentences.stop)), follows=True\n            ), len(sentences)"),
        "documents.find_id_range(range(split, sentences.stop)), follows=False), len(sentences)",
        (PASSAGES,),
    ),
    Mutant(
        "a third of the pairs follow",
        "tasks/pretraining/data.py",
        "        if rng.next_float() < 0.5:",
        "        if rng.next_float() < 0.33:",
        (PASSAGES,),
    ),
    Mutant(
        "passages in the right order are called wrong",
        "tasks/pretraining/data.py",
        "segments if follows else segments[::-1]",
        "segments[::-1] if follows else segments",
        (PASSAGES,),
    ),
    Mutant(
        "85 % of what is hidden is a mask",
        "tasks/pretraining/data.py",
        "(action_draws < 0.8)",
        "(action_draws < 0.85)",
        (MASKING,),
    ),
    Mutant(
        "no hidden token stays what it is",
        "tasks/pretraining/data.py",
        "chosen & (action_draws >= 0.9)",
        "chosen & (action_draws >= 0.8)",
        (MASKING,),
    ),
    Mutant(
        "random tokens are of the lower half of the vocabulary",
        "tasks/pretraining/data.py",
        "(word_draws * len(words))",
        "(word_draws * len(words) / 2)",
        (MASKING,),
    ),
    Mutant(
        "the same places are hidden in every passage",
        "tasks/pretraining/objective.py",
        "rng = SeededRandom(self.passages.seed, number, _MASKING_STREAM)",
        "rng = SeededRandom(self.passages.seed, 0, _MASKING_STREAM)",
        (PRETRAINED,),
    ),
    Mutant(
        "begin and end may be hidden",
        "tasks/pretraining/objective.py",
        "text_indices = np.flatnonzero((ids != self.special.bos) & (ids != self.special.eos))",
        "text_indices = np.arange(len(ids))",
        (PRETRAINED,),
    ),
    Mutant(
        "the separator belongs to the second part",
        "tasks/pretraining/objective.py",
        "return np.concatenate(([bos], first, [eos], second, [eos])), len(first) + 2, int(passage.follows)",
        "return np.concatenate(([bos], first, [eos], second, [eos])), len(first) + 1, int(passage.follows)",
        (PRETRAINED,),
    ),
    Mutant(
        "the question about pairs counts once, not its weight",
        "tasks/pretraining/objective.py",
        'sums["masked"] + self.weight * sums[second_name]',
        'sums["masked"] + sums[second_name]',
        (PRETRAINED,),
    ),
    Mutant(
        "texts of RoBERTa are joined with one separator",
        "data/tokenizers.py",
        "(2 if self.doubles_separator else 1)",
        "1",
        (f"{FINE_TUNED}::test_pairs_are_joined_as_in_transformers",),
    ),
    Mutant(
        "layers with the same weights have one hook point",
        "blocks/transformer.py",
        "isinstance(module, HookPoint | MultiHeadAttention)",
        "isinstance(module, MultiHeadAttention)",
        ("tests/unit/recipes/test_build_stack.py::test_layers_may_share_their_weights",),
    ),
    Mutant(
        "each of several layers with the same map gets a change of its own",
        "adapters/adapter.py",
        "if linear not in adapted_maps:",
        "if linear not in adapted_maps or layer is not None:",
        ("tests/unit/adapters/test_adapters.py::test_complete_weights_compute_what_the_adapted_model_does",),
    ),
    Mutant(
        "positions of RoBERTa count from the id of padding",
        "foreign/families/roberta.py",
        "position_offset=lambda pad: pad + 1",
        "position_offset=lambda pad: pad",
        ("tests/reference/test_hugging_face.py::test_import_and_export[roberta]",),
    ),
    Mutant(
        "the heads of ELECTRA have tanh",
        "foreign/families/electra.py",
        '        activation="gelu",\n',
        "",
        (f"{FINE_TUNED}::test_every_head_both_ways[Electra-SequenceClassification]",),
    ),
    Mutant(
        "the first token is squashed by a sigmoid",
        "models/transformer.py",
        "self.activation(self.dense(hidden[rows, first]))",
        "self.dense(hidden[rows, first]).sigmoid()",
        (ENCODERS,),
    ),
    Mutant(
        "the first token is the first of the row, padding or not",
        "models/transformer.py",
        "first = (positions == 0).byte().argmax(1)",
        "first = positions.new_zeros(len(hidden))",
        (ENCODERS,),
    ),
    Mutant(
        "a lucky draw counts as a replacement",
        "tasks/pretraining/objective.py",
        "is_replaced = is_masked & (ids != batch.labels)",
        "is_replaced = is_masked",
        (PRETRAINED,),
    ),
    Mutant(
        "the detector reads the text with its masks",
        "tasks/pretraining/objective.py",
        "detector_input = Tokens(ids, batch",
        "detector_input = Tokens(batch.tokens.ids, batch",
        (PRETRAINED,),
    ),
    Mutant(
        "the generator takes its best token instead of drawing",
        "tasks/pretraining/objective.py",
        "    return (logits + noise).argmax(-1)",
        "    return logits.argmax(-1)",
        (PRETRAINED,),
    ),
    Mutant(
        "pairs with a text in common are told from each other",
        "tasks/matching/task.py",
        ".masked_fill(shares_text, -torch.inf)",
        "",
        (f"{MATCHING}::test_the_loss_is_that_of_the_papers_in_plain_loops",),
    ),
    Mutant(
        "texts are compared in the order of their lengths",
        "tasks/matching/task.py",
        "np.argsort(np.concatenate(plan))",
        "np.concatenate(plan)",
        (f"{MATCHING}::test_a_batch_that_is_read_in_pieces_is_the_batch",),
    ),
    Mutant(
        "only one side is told from the others",
        "tasks/matching/task.py",
        'logits.T, labels, reduction="sum"',
        'logits, labels, reduction="sum"',
        (f"{MATCHING}::test_the_loss_is_that_of_the_papers_in_plain_loops",),
    ),
    Mutant(
        "the margin is measured too",
        "tasks/matching/task.py",
        "total += float(contrastive_loss(source, target, batch.shares_text, scale=model.scale))",
        "total += float(contrastive_loss(source, target, batch.shares_text, scale=model.scale, margin=self.margin))",
        (f"{MATCHING}::test_what_is_measured_is_what_is_lost",),
    ),
    Mutant(
        "who says the same of all finds everything",
        "metrics/classification.py",
        "(cosines >= cosines[:, rows].diagonal()[:, None] - _ROUNDING)",
        "(cosines > cosines[:, rows].diagonal()[:, None] + _ROUNDING)",
        (f"{MATCHING}::test_who_says_the_same_of_all_finds_nothing",),
    ),
    Mutant(
        "the target is cut as the source is",
        "tasks/translation/task.py",
        "config.target_config.learn_tokenizer(",
        "config.learn_tokenizer(",
        ("tests/unit/tasks/test_translation.py::test_the_target_may_be_cut_in_another_way",),
    ),
    Mutant(
        "the mean of a text is over the batch's longest",
        "models/transformer.py",
        "(hidden * token_mask).sum(1) / token_mask.sum(1).clamp(min=1)",
        "(hidden * token_mask).sum(1) / token_mask.size(1)",
        (PRETRAINED,),
    ),
    Mutant(
        "padding counts in the mean of a text",
        "models/transformer.py",
        "(hidden * token_mask).sum(1)",
        "hidden.sum(1)",
        (ENCODERS,),
    ),
    Mutant(
        "special tokens are drawn at random",
        "tasks/pretraining/objective.py",
        "for number in range(tokenizer.size) if number not in silent])",
        "for number in range(tokenizer.size)])",
        (f"{PRETRAINED}::test_a_token_at_random_is_any_word_and_nothing_else",),
    ),
    Mutant(
        "spans are shorter than documented",
        "tasks/pretraining/data.py",
        "_SPAN_END_PROBABILITY = 0.2",
        "_SPAN_END_PROBABILITY = 0.3",
        (MASKING,),
    ),
    Mutant(
        "a span may be any number of words",
        "tasks/pretraining/data.py",
        "-rng.next_float() * _SPAN_PROBABILITY_MASS",
        "-rng.next_float()",
        (MASKING,),
    ),
)

SUMMARIES = (
    Mutant(
        "hops look at padding",
        "models/transformer.py",
        "        visible = (positions >= 0).unsqueeze(1)\n        matrix",
        "        visible = (positions >= -1).unsqueeze(1)\n        matrix",
        (f"{SENTENCES}::test_the_weights_of_each_hop_sum_to_one_and_padding_has_none",),
    ),
    Mutant(
        "keys of hops lack their tanh",
        "models/transformer.py",
        "self.keys(hidden).tanh()",
        "self.keys(hidden)",
        (f"{SENTENCES}::test_the_matrix_equals_that_of_the_paper",),
    ),
    Mutant(
        "all hops ask what the first one asks",
        "attention/attention.py",
        "scores = queries @ key.unsqueeze(1).transpose(-2, -1)",
        "scores = queries[:, :1].expand_as(queries) @ key.unsqueeze(1).transpose(-2, -1)",
        (f"{SENTENCES}::test_the_matrix_equals_that_of_the_paper",),
    ),
    Mutant(
        "rows of the matrix are mixed up with its columns",
        "attention/attention.py",
        "(weights @ value.unsqueeze(1)).transpose(1, 2).flatten(2)",
        "(weights @ value.unsqueeze(1)).permute(0, 2, 3, 1).flatten(2)",
        (f"{SENTENCES}::test_the_matrix_equals_that_of_the_paper",),
    ),
    Mutant(
        "the penalty on hops is not weighed",
        "tasks/classification/objective.py",
        "loss.total + self.decorrelation * penalty",
        "loss.total + penalty",
        (f"{CLASSIFIED}::test_the_penalty_on_hops_is_added_and_told",),
    ),
    Mutant(
        "the penalty on hops teaches nothing",
        "tasks/classification/objective.py",
        "watch_attention(model.summary, detach=False)",
        "watch_attention(model.summary, detach=True)",
        (f"{CLASSIFIED}::test_the_penalty_on_hops_is_added_and_told",),
    ),
    Mutant(
        "the output of the premise is handed on",
        "models/recurrent_encoder.py",
        "return (torch.zeros_like(output), *memory)",
        "return (output, *memory)",
        (f"{ENTAILMENT}::test_pairs_are_encoded_as_in_the_paper",),
    ),
    Mutant(
        "the hypothesis is read without the premise",
        "models/recurrent_encoder.py",
        "return (torch.zeros_like(output), *memory)",
        "return (torch.zeros_like(output), *(torch.zeros_like(part) for part in memory))",
        (f"{ENTAILMENT}::test_pairs_are_encoded_as_in_the_paper",),
    ),
    Mutant(
        "a word does not know what was found before",
        "models/recurrent_encoder.py",
        "torch.cat((output, attended), -1)",
        "torch.cat((output, torch.zeros_like(attended)), -1)",
        (f"{ENTAILMENT}::test_pairs_are_encoded_as_in_the_paper",),
    ),
    Mutant(
        "what was found before is handed on as it is",
        "models/recurrent_encoder.py",
        "context + self.recurrent(attended).tanh()",
        "context + self.recurrent(attended)",
        (f"{ENTAILMENT}::test_pairs_are_encoded_as_in_the_paper",),
    ),
    Mutant(
        "padding of the hypothesis looks at the premise too",
        "models/recurrent_encoder.py",
        "torch.where(token_mask.unsqueeze(1), context",
        "torch.where(token_mask.unsqueeze(1) | True, context",
        (f"{ENTAILMENT}::test_other_pairs_of_the_batch_do_not_matter",),
    ),
    Mutant(
        "the first word of the hypothesis stands for its last",
        "models/recurrent_encoder.py",
        "ends = (self.positions >= 0).sum(1) - 1",
        "ends = (self.positions >= 0).sum(1) * 0",
        (f"{ENTAILMENT}::test_pairs_are_encoded_as_in_the_paper",),
    ),
)

LABELLED = (
    Mutant(
        "the weight of a task does not reach its loss",
        "tasks/multitask/objective.py",
        ("Loss(\n            member_loss.total * member.weight,\n            member_loss.count,\n            {"),
        "Loss(member_loss.total, member_loss.count, {",
        (MULTITASK,),
    ),
    Mutant(
        "the temperature is left out",
        "tasks/multitask/objective.py",
        "        sizes, exponent = self._batch_counts, 1 / self.temperature",
        "        sizes, exponent = self._batch_counts, 1.0",
        (MULTITASK,),
    ),
    Mutant(
        "an update may mix tasks",
        "tasks/multitask/objective.py",
        "        return [next(updates_by_task[task_order[index]]) for index in shuffled]",
        (
            "        mixed = [rows for index in shuffled for rows in next(updates_by_task[task_order[index]])]\n"
            "        return [mixed[start : start + accumulate] for start in range(0, len(mixed), accumulate)]"
        ),
        (MULTITASK,),
    ),
    Mutant(
        "each epoch begins each task anew",
        "tasks/multitask/objective.py",
        "for number in (epoch, epoch + 1))",
        "for number in (0, 1))",
        (MULTITASK,),
    ),
    Mutant(
        "what is drawn does not depend on the seed",
        "data/random_numbers.py",
        "SeededRandom(self.seed, _SUBSAMPLE_STREAM)",
        "SeededRandom(_SUBSAMPLE_STREAM)",
        (DRAWN,),
    ),
    Mutant(
        "the first examples are taken instead of any",
        "data/random_numbers.py",
        'np.argsort(SeededRandom(self.seed, _SUBSAMPLE_STREAM).uniform(total), kind="stable")',
        "np.arange(total)",
        (DRAWN,),
    ),
    Mutant(
        "a ratio is the mean of ratios",
        "metrics/metric.py",
        "        return safe_divide(weights @ self.numerators, weights @ self.denominators)",
        "        return safe_divide(weights @ safe_divide(self.numerators, self.denominators), weights.sum(1))",
        (METRIC,),
    ),
    Mutant(
        "paired systems are exchanged",
        "tasks/report.py",
        (
            "run_paired_tests(\n"
            "            reference_metrics, {name: own_metrics[name] for name in reference_metrics}, self.sampling\n"
            "        )"
        ),
        "run_paired_tests({name: own_metrics[name] for name in reference_metrics}, reference_metrics, self.sampling)",
        (f"{SYSTEMS}::test_the_first_system_is_the_one_that_is_evaluated",),
    ),
    Mutant(
        "the seed of the bootstrap is forgotten",
        "cli/options.py",
        "BootstrapOptions(self.samples, self.seed)",
        "BootstrapOptions(self.samples)",
        (f"{SYSTEMS}::test_the_seed_decides_intervals_and_tests",),
    ),
    Mutant(
        "exact match minds the case whatever it is told",
        "metrics/report.py",
        "exact_match(hypotheses, references, lowercase=lowercase)",
        "exact_match(hypotheses, references)",
        (f"{SYSTEMS}::test_exact_match_leaves_case_aside_when_told",),
    ),
    Mutant(
        "a space belongs to the word before it, and its token to the next piece",
        "tasks/language/evaluation.py",
        "ends[_WORDS_PER_PIECE - 1 : -1 : _WORDS_PER_PIECE]",
        "[end + 1 for end in ends[_WORDS_PER_PIECE - 1 : -1 : _WORDS_PER_PIECE]]",
        (f"{SYSTEMS}::test_pieces_are_the_same_for_every_vocabulary",),
    ),
    Mutant(
        "an unknown tag is right where it is said",
        "tasks/tagging/data.py",
        "tag if tags.get_id(tag) is not None else get_placeholder_tag(tag)",
        "tag if tags.get_id(tag) is not None else tags.names[0]",
        ("tests/unit/tasks/test_tagging.py",),
    ),
    Mutant(
        "a threshold silences what lies above it alone",
        "tasks/spans/predictor.py",
        "silence >= threshold",
        "silence > threshold",
        (f"{CLASSIFIED}::test_the_best_span_is_the_best_of_all_that_are_allowed",),
    ),
)

METRICS = (
    Mutant(
        "gold links of an empty pair go to the next one",
        "tasks/translation/head_statistics.py",
        "gold_alignments.append(gold[number])",
        "gold_alignments.append(gold[len(gold_alignments)])",
        (f"{INSPECTING}::test_gold_belongs_to_its_own_pair_where_others_are_passed_over",),
    ),
    Mutant(
        "macro F1 is that of all classes together",
        "metrics/classification.py",
        "    return MeanMetric(tuple(f1_score(predicted, gold, positive=name) for name in classes))",
        (
            "    parts = [f1_score(predicted, gold, positive=label) for label in classes]\n"
            "    return MeanMetric((RatioMetric(sum(part.numerator for part in parts), sum(part.denominator for part "
            "in parts)),))"
        ),
        ("tests/unit/metrics/test_classes.py",),
    ),
    Mutant(
        "classes that are only predicted do not count",
        "metrics/classification.py",
        "positive=name) for name in classes))",
        "positive=name) for name in classes if name in gold))",
        ("tests/unit/metrics/test_classes.py",),
    ),
    Mutant(
        "Matthews' table is read the wrong way round",
        "metrics/classification.py",
        "numerator = num_matches * total - (predicted_counts",
        "numerator = num_matches * total + (predicted_counts",
        ("tests/unit/metrics/test_classes.py",),
    ),
    Mutant(
        "one right option makes a group exact",
        "metrics/classification.py",
        "[count == 0 for count in errors.numerators]",
        "[count < size for count, size in zip(errors.numerators, errors.denominator, strict=True)]",
        ("tests/unit/metrics/test_classes.py",),
    ),
    Mutant(
        "entities of one type side by side are one",
        "metrics/spans.py",
        ("previous_prefix in _CLOSES or entity_type != current_type)\n        )"),
        "entity_type != current_type))\n",
        ("tests/unit/metrics/test_entities.py",),
    ),
    Mutant(
        "an entity is right wherever its type is",
        "metrics/spans.py",
        "= len(predicted_spans & gold_spans), ",
        "= sum(span.type in {each.type for each in gold_spans} for span in predicted_spans), ",
        ("tests/unit/metrics/test_entities.py",),
    ),
    Mutant(
        "articles inside words are taken out",
        "metrics/spans.py",
        'r"\\b(a|an|the)\\b"',
        'r"(a|an|the)"',
        ("tests/unit/metrics/test_answers.py",),
    ),
    Mutant(
        "repeated words of an answer all count",
        "metrics/spans.py",
        "sum((Counter(words) & Counter(gold)).values())",
        "sum(word in gold for word in words)",
        ("tests/unit/metrics/test_answers.py",),
    ),
    Mutant(
        "the worst of several gold answers counts",
        "metrics/spans.py",
        "return max(_compute_overlap(words, gold.split())",
        "return min(_compute_overlap(words, gold.split())",
        ("tests/unit/metrics/test_answers.py",),
    ),
    Mutant(
        "equal numbers get different ranks",
        "metrics/classification.py",
        "_, value_index = np.unique(values, return_inverse=True)",
        'value_index = np.argsort(np.argsort(values, kind="stable"))',
        ("tests/unit/metrics/test_correlation.py",),
    ),
    Mutant(
        "perplexity has base 2",
        "metrics/likelihood.py",
        "return math.exp(-log_probability_sum / count)",
        "return 2 ** (-log_probability_sum / count)",
        ("tests/unit/metrics/test_likelihood.py",),
    ),
    Mutant(
        "two systems are resampled apart",
        "metrics/metric.py",
        (
            "        for weights in _draw_weights(size, options):\n"
            "            for system_blocks, system in zip(blocks_by_system, systems, strict=True):\n"
        ),
        (
            "        for number, (system_blocks, system) in enumerate(zip(blocks_by_system, systems, strict=True)):\n"
            "            for weights in _draw_weights(size, BootstrapOptions(options.samples, options.seed + "
            "number)):\n"
        ),
        ("tests/unit/metrics/test_bootstrap.py",),
    ),
    Mutant(
        "p counts only differences in one direction",
        "metrics/metric.py",
        "np.abs(sample_differences - sample_differences.mean()) >= abs(observed)",
        "(sample_differences - sample_differences.mean()) >= abs(observed)",
        ("tests/unit/metrics/test_bootstrap.py",),
    ),
    Mutant(
        "a resampled rank counts each example once",
        "metrics/classification.py",
        "counts = np.add.reduceat(weights[:, order], group_starts, axis=1)",
        "counts = np.add.reduceat((weights[:, order] > 0).astype(float), group_starts, axis=1)",
        (METRIC,),
    ),
    Mutant(
        "single examples are drawn instead of groups",
        "metrics/metric.py",
        "group_of_example = np.array([group_numbers[group] for group in groups])",
        "group_of_example = np.arange(len(groups)) % len(group_numbers)",
        (METRIC,),
    ),
)

EXPORTED = (
    Mutant(
        "an exported cache has values where keys belong",
        "foreign/onnx_graphs.py",
        "        yield part.key\n        yield part.value\n",
        "        yield part.value\n        yield part.key\n",
        (f"{ONNX}::test_a_trained_writer",),
    ),
    Mutant(
        "an exported step sees the padding of its source",
        "foreign/onnx_graphs.py",
        "{SOURCE: CacheLayout(memory[0])} if memory",
        "{SOURCE: CacheLayout(memory[0].clamp(min=0))} if memory",
        (f"{ONNX}::test_a_trained_translator",),
    ),
    Mutant(
        "an exported embedding is the encoder's own summary",
        "foreign/onnx_graphs.py",
        "return memory.values, mean_pool(memory.values, memory.positions)",
        "return memory.values, memory.summary",
        (f"{ONNX}::test_an_encoder_computes_the_same_vectors",),
    ),
    Mutant(
        "an exported classifier takes two texts for one",
        "foreign/onnx_graphs.py",
        "self.model.output(self.model(Tokens(ids, positions, segments)))",
        "self.model.output(self.model(Tokens(ids, positions)))",
        (f"{ONNX}::test_heads_give_the_same_answers",),
    ),
    Mutant(
        "an exported graph has one length of caches",
        "foreign/onnx_graphs.py",
        'return {0: "batch", index: name}',
        'return {0: "batch"} if name == "past" else {0: "batch", index: name}',
        (f"{ONNX}::test_a_trained_writer",),
    ),
    Mutant(
        "whoever calls an exported translator never hears of the end of a source",
        "foreign/onnx_export.py",
        '"after": [special.eos]}',
        '"after": []}',
        (f"{ONNX}::test_a_trained_translator",),
    ),
    Mutant(
        "an exported writer is never to end a document",
        "foreign/onnx_export.py",
        "forbidden = {*special.suppressed_ids, *(",
        "forbidden = {*special.silent, *(",
        (f"{ONNX}::test_a_trained_writer",),
    ),
    Mutant(
        "scores across that look at places are exported as if they did not",
        "foreign/onnx_export.py",
        '            "cross_attention.score": _SCORES,\n',
        "",
        (f"{ONNX}::test_models_that_no_graph_can_express_are_errors",),
    ),
    Mutant(
        "a mask is looked at while a graph is written",
        "attention/mask.py",
        'mask.device.type == "cpu" and not kernels.is_tracing()',
        'mask.device.type == "cpu"',
        (f"{ONNX}::test_a_trained_writer",),
    ),
)

COMMANDS = (
    Mutant(
        "the systems compared are exchanged",
        "metrics/metric.py",
        "first_scores, second_scores = resample_scores(",
        "second_scores, first_scores = resample_scores(",
        ("tests/unit/cli/test_evaluate.py::test_a_file_of_translations_and_another_one",),
    ),
    Mutant(
        "intervals ignore the seed",
        "tasks/report.py",
        "return compute_intervals(self.resampled_metrics, self.sampling)",
        "return compute_intervals(self.resampled_metrics, BootstrapOptions(self.sampling.samples))",
        ("tests/unit/cli/test_evaluate.py::test_the_bootstrap_follows_its_seed",),
    ),
    Mutant(
        "the paired bootstrap ignores the seed",
        "tasks/report.py",
        "for name in reference_metrics}, self.sampling\n        )",
        "for name in reference_metrics}, BootstrapOptions(self.sampling.samples, seed=1))",
        ("tests/unit/cli/test_evaluate.py::test_the_bootstrap_follows_its_seed",),
    ),
    Mutant(
        "alignments are of the first layer",
        "tasks/translation/translations.py",
        "return list(self.weights.values())[-1]",
        "return list(self.weights.values())[0]",
        ("tests/unit/cli/test_translate.py::test_alignments_are_those_of_the_last_layer",),
    ),
    Mutant(
        "BLEU by length counts words of the references",
        "tasks/translation/report.py",
        "[len(pair.source.split()) for pair in self.evaluator.pairs]",
        "[len(pair.target.split()) for pair in self.evaluator.pairs]",
        ("tests/unit/cli/test_evaluate.py::test_bands_of_length_count_words_of_the_sources",),
    ),
    Mutant(
        "as good as the same answer to everything is better than it",
        "tasks/label_evaluation.py",
        "else value > baseline_value:",
        "else value >= baseline_value:",
        ("tests/unit/tasks/test_baselines.py",),
    ),
    Mutant(
        "more errors are better than fewer",
        "tasks/label_evaluation.py",
        "value < baseline_value if name in LOWER_IS_BETTER else value > baseline_value",
        "value > baseline_value",
        ("tests/unit/tasks/test_baselines.py",),
    ),
    Mutant(
        "numbers are compared by their correlation",
        "tasks/label_evaluation.py",
        "if isinstance(self.constant_answer, float):",
        "if False:",
        ("tests/unit/tasks/test_baselines.py",),
    ),
    Mutant(
        "numbers are learned from 0 on",
        "tasks/classification/task.py",
        "nn.init.constant_(model.output.bias, sum(numbers) / max(1, len(numbers)))",
        "nn.init.constant_(model.output.bias, 0.0)",
        ("tests/unit/tasks/test_baselines.py",),
    ),
    Mutant(
        "what is right most often is compared with the last run",
        "tasks/label_evaluation.py",
        "        first = self.reports[0]\n",
        "        first = self.reports[-1]\n",
        ("tests/unit/cli/test_compare_labels.py::test_curves_by_examples",),
    ),
    Mutant(
        "families are compared where sizes differ",
        "tasks/label_evaluation.py",
        (
            "[\n"
            "            (reference_reports[size], report)\n"
            "            for report in family\n"
            "            if (size := self._num_examples(report)) in reference_reports\n"
            "        ]"
        ),
        "[(reference_reports.get(self._num_examples(report), self.run_families[0][0]), report) for report in family]",
        ("tests/unit/cli/test_compare_labels.py::test_curves_by_examples",),
    ),
    Mutant(
        "candidates stand before what they share",
        "tasks/classification/predictor.py",
        "[[(text, candidate) for candidate in others] for text, *others in inputs]",
        "[[(candidate, text) for candidate in others] for text, *others in inputs]",
        ("tests/unit/cli/test_classify.py::test_the_best_candidate_is_chosen_behind_what_all_share",),
    ),
    Mutant(
        "pairs with an empty side are scored",
        "tasks/translation/evaluation.py",
        "[bool(pair.source and pair.target) for pair in pairs]",
        "[True for _ in pairs]",
        ("tests/unit/cli/test_evaluate.py::test_pairs_with_an_empty_side_do_not_count",),
    ),
    Mutant(
        "a run is measured on its validation set first",
        "recipes/recipe.py",
        'return "validation" if self.test is None else "test"',
        'return "validation"',
        ("tests/unit/cli/test_evaluate.py::test_the_runs_test_set_comes_before_its_validation_set",),
    ),
    Mutant(
        "perplexity is that of the sources",
        "tasks/translation/evaluation.py",
        "texts = [(get_source_with_context(pair), pair.target) for pair in pairs]",
        "texts = [(get_source_with_context(pair), pair.source) for pair in pairs]",
        ("tests/unit/cli/test_evaluate.py::test_a_run_is_measured_on_its_own_text",),
    ),
    Mutant(
        "texts behind the run are taken for runs",
        "cli/option_types.py",
        "while count < len(words) and (path_exists(words[count]) or is_file_name(words[count])):",
        "while count < len(words):",
        ("tests/unit/cli/test_arguments.py::test_words_find_their_fields",),
    ),
    Mutant(
        "the name of a file is answered as a text",
        "cli/option_parser.py",
        ("                    require_text(word, option=option.display_name, input_option=self._input_option)\n"),
        "                    continue\n",
        ("tests/unit/cli/test_file_names.py::test_the_name_of_a_file_is_never_answered",),
    ),
    Mutant(
        "the first answer waits for the end of the input",
        "cli/line_commands.py",
        "            out.store(num_answered=num_answered, num_unread=num_unread)\n",
        "",
        ("tests/unit/cli/test_lines.py::test_answers_are_there_before_more_is_read",),
    ),
    Mutant(
        "a text alone is classified by a model of pairs without a word",
        "tasks/classification/predictor.py",
        "if self.trained_on_pairs and len(parts) == 1:",
        "if self.trained_on_pairs and not parts:",
        ("tests/unit/cli/test_classify.py::test_a_text_alone_and_one_without_marks_are_doubted",),
    ),
    Mutant(
        "a text is a list of its letters",
        "argument_checks.py",
        ("    if isinstance(items, types):\n        return [cast(Item, items)]\n"),
        "",
        ("tests/unit/tasks/test_given_texts.py::test_one_text_is_a_list_of_one",),
    ),
    Mutant(
        "the place of what is no text is counted from 1",
        "argument_checks.py",
        "{name}[{index}]: {format_value(element)} is not a {noun}; give {remedy}",
        "{name}[{index + 1}]: {format_value(element)} is not a {noun}; give {remedy}",
        ("tests/unit/tasks/test_given_texts.py::test_what_is_no_text_is_named_with_its_place",),
    ),
    Mutant(
        "only words that end with es have a singular",
        "english_words.py",
        "noun.endswith(_SIBILANT_ENDINGS)",
        'noun.endswith("sses")',
        ("tests/unit/test_words.py::test_singulars",),
    ),
    Mutant(
        "memory that is not there is a bug",
        "cli/output.py",
        "isinstance(error, MemoryError) or ",
        "",
        ("tests/unit/cli/test_main.py::test_errors_of_the_machine_are_no_bugs",),
    ),
    Mutant(
        "a high perplexity is told of the first evaluation",
        "runs/metrics_log.py",
        'perplexity, epoch = record["perplexity"], record.get("epoch")',
        'perplexity, epoch = perplexity or record["perplexity"], record.get("epoch")',
        ("tests/unit/runs/test_learning_curve.py::test_a_high_perplexity_is_told",),
    ),
    Mutant(
        "names of files have no spaces",
        "cli/option_types.py",
        """    if any(map(str.isspace, word)):
        return False
    return bool""",
        "    return bool",
        ("tests/unit/cli/test_file_names.py",),
    ),
    Mutant(
        "any document is written under the name of any other",
        "localisation/files.py",
        "readers[0] is not None and readers[0] == readers[1] and not BINARY_SUFFIXES.intersection(suffixes)",
        "readers[0] is not None",
        ("tests/unit/cli/test_file_names.py::test_no_file_is_written_under_the_name_of_another_format",),
    ),
    Mutant(
        "required options are not asked for",
        "cli/option_parser.py",
        (
            "other.display_name\n"
            "            for other in self.options\n"
            "            if other.required and other.names and other.key not in parsed.option_words"
        ),
        "other.display_name for other in self.option_words if other.required and other.names and other.key in "
        "parsed.option_words",
        ("tests/unit/cli/test_main.py::test_what_a_command_needs_is_asked_for_by_name",),
    ),
    Mutant(
        "the last of several values counts",
        "cli/option_parser.py",
        "if previous and option.max_words is not None:",
        "if previous and option.max_words is None:",
        ("tests/unit/cli/test_arguments.py::test_an_option_is_given_once",),
    ),
    Mutant(
        "a mistyped kind speaks for another task",
        "recipes/load.py",
        'detail["type"] in _UNKNOWN_KEY_ERRORS or (detail["type"] == "literal_error" and detail["loc"][-1:] == '
        '("kind",))',
        'detail["type"] in _UNKNOWN_KEY_ERRORS',
        ("tests/unit/recipes/test_problems.py::test_a_mistyped_kind_does_not_speak_for_another_task",),
    ),
    Mutant(
        "an option that takes any number of words takes the run too",
        "cli/option_parser.py",
        "has_enough and len(remaining) <= num_reserved",
        "has_enough and not remaining",
        ("tests/unit/cli/test_arguments.py::test_words_find_their_fields",),
    ),
    Mutant(
        "a former name of an option is taken without a word",
        "cli/arguments.py",
        "    for option in parsed.renamed_options:\n",
        "    for option in parsed.renamed_options[:0]:\n",
        ("tests/unit/cli/test_arguments.py::test_a_former_name_is_taken_with_a_note",),
    ),
    Mutant(
        "whoever types waits for the end of all lines",
        "cli/line_commands.py",
        "chunk=1 if self.is_interactive else None\n        )",
        "chunk=None)",
        ("tests/unit/cli/test_lines.py::test_whoever_types_is_answered_line_by_line",),
    ),
    Mutant(
        "a synonym leads to a key of another kind without a word",
        "recipes/error_messages.py",
        ("        if wanted_key not in get_key_types(chosen_class):\n"),
        "        if False:\n",
        (f"{PROBLEMS}::test_the_sentence_for_each_mistake",),
    ),
    Mutant(
        "a task is guessed where one was given",
        "recipes/load.py",
        ('if (\n            "task" not in table\n            and error.error_count'),
        ("if (\n            error.error_count"),
        (f"{PROBLEMS}::test_a_task_that_was_forgotten_is_guessed",),
    ),
    Mutant(
        "nobody is told that a text has changed since",
        "runs/prepare.py",
        'if old_digest is not None and old_digest != text["sha256"]:',
        "if old_digest is None:",
        ("tests/unit/runs/test_training_run.py::test_text_that_changed_is_encoded_again",),
    ),
    Mutant(
        "shells are offered the options of another command",
        "cli/completion.py",
        "[option for parser in _iter_parsers(name) for option in parser.options]",
        "[option for parser in _iter_parsers('chat') for option in parser.options]",
        ("tests/unit/cli/test_completion.py::test_bash_completes",),
    ),
    Mutant(
        "shells are offered the tables of settings",
        "cli/completion.py",
        "elif get_origin(annotation) is not dict:",
        "else:",
        ("tests/unit/cli/test_completion.py::test_every_command_and_option_is_in_every_script",),
    ),
    Mutant(
        "lists of the best are numbered from 0",
        "cli/line_commands.py",
        "start=num_answered + 1",
        "start=num_answered",
        ("tests/unit/cli/test_translate.py::test_n_best_lines",),
    ),
    Mutant(
        "runs are compared with the one before them",
        "runs/evaluate.py",
        "sampling, reports[0] if reports else None",
        "sampling, reports[-1] if reports else None",
        ("tests/unit/cli/test_compare.py::test_all_runs_are_tested_against_the_first",),
    ),
    Mutant(
        "the heads that are farthest apart come last",
        "cli/inspect_corpus.py",
        "key=lambda head_difference: -head_difference.divergence)",
        "key=lambda head_difference: head_difference.divergence)",
        ("tests/unit/cli/test_inspect.py::test_two_records_are_compared",),
    ),
    Mutant(
        "texts of a later part are numbered anew",
        "cli/line_commands.py",
        "start=num_answered + 1",
        "start=1",
        ("tests/unit/cli/test_fill.py::test_texts_are_numbered_through_all_parts_that_are_read",),
    ),
    Mutant(
        "heads that nobody needs come first",
        "cli/inspect_corpus.py",
        "sorted(importance.heads, key=lambda loss: -loss.nats)",
        "sorted(importance.heads, key=lambda loss: loss.nats)",
        ("tests/unit/cli/test_inspect.py::test_the_habits_and_the_worth_of_heads",),
    ),
    Mutant(
        "a passage is marked where another one has its answer",
        "retrieval/rankings.py",
        "HighlightedPassage(hit, *highlights_by_id[hit.passage.id])",
        "HighlightedPassage(hit, *next(iter(highlights_by_id.values())))",
        ("tests/unit/cli/test_search.py::test_every_passage_is_marked_where_its_own_answer_stands",),
    ),
)

MEMORIES = (
    Mutant(
        "the first of several memories is looked at alone",
        "blocks/transformer.py",
        ("        for name in self.memory_names:\n            attention"),
        ("        for name in self.memory_names[:1]:\n            attention"),
        ("tests/reference/test_memories.py::test_a_layer_attends_to_one_memory_after_the_other",),
    ),
    Mutant(
        "every memory is seen as the first one is",
        "blocks/transformer.py",
        "mask=cross_masks[name]))",
        "mask=next(iter(cross_masks.values()))))",
        (f"{MEMORIES_LAWS}::test_each_memory_is_captured_under_its_own_name[transformer]",),
    ),
    Mutant(
        "layers look at memories in the order given",
        "tensors.py",
        "return {name: memory_by_name[name] for name in expected}",
        "return memory_by_name",
        (f"{MEMORIES_LAWS}::test_memories_are_distinguished_only_by_their_names",),
    ),
    Mutant(
        "a decoder begins where the first memory's summary says",
        "models/recurrent_decoder.py",
        "_concat_features([item.summary for item in memories.values()])",
        "_concat_features([next(iter(memories.values())).summary] * len(memories))",
        ("tests/reference/test_memories.py::test_a_recurrent_decoder_concatenates_contexts_and_summaries",),
    ),
    Mutant(
        "shorter pasts are filled up with first tokens",
        "attention/mask.py",
        "positions = pad_and_concat([part.positions for part in layouts], axis=1, fill=-1, pad_left=pad_left)",
        "positions = pad_and_concat([part.positions for part in layouts], axis=1, fill=0, pad_left=pad_left)",
        (f"{LAWS}::test_states_of_different_age_are_joined[gpt-rotary-inference]",),
    ),
    Mutant(
        "joined groups own what others wrote",
        "attention/mask.py",
        "torch.ones(groups * self.width, keys",
        "torch.zeros(groups * self.width, keys",
        (f"{LAWS}::test_rows_in_groups_are_rows[gpt-inference]",),
    ),
    Mutant(
        "keys are filled up at the other end than their positions",
        "blocks/transformer.py",
        "KVCache.concat_groups(pasts, pad_left=True, spare_keys=",
        "KVCache.concat_groups(pasts, pad_left=False, spare_keys=",
        (f"{LAWS}::test_states_of_different_age_are_joined[gpt-inference]",),
    ),
    Mutant(
        "a batch keeps the columns of rows that left",
        "blocks/transformer.py",
        "states = tuple(part._drop_unneeded_keys(None) for part in (self, *others))",
        "states = (self, *others)",
        ("tests/unit/blocks/test_transformer.py::test_what_no_beam_descends_from_is_left_behind",),
    ),
    Mutant(
        "joined sources are visible where they are shorter",
        "models/convolutional.py",
        "axis=2, fill=False),",
        "axis=2, fill=True),",
        (f"{LAWS}::test_states_of_different_age_are_joined[convolutional-inference]",),
    ),
    Mutant(
        "used slots are cut off",
        "tensors.py",
        "return int(is_used.nonzero()[-1]) + 1",
        "return int(is_used.sum())",
        ("tests/unit/test_values.py::test_columns_count_up_to_the_last_that_has_something",),
    ),
    Mutant(
        "rows that left early are forgotten",
        "generation/continuous_batch.py",
        "collect_resume_state(finished) if request.keep_state",
        "collect_resume_state(finished[-1:]) if request.keep_state",
        (f"{CONVERSATION}::test_a_conversation_goes_on_as_if_it_had_been_read_at_once",),
    ),
    Mutant(
        "states stay in the order in which rows ended",
        "generation/continuous_batch.py",
        "ordered = sorted(finished, key=lambda sentence: sentence.request_id)",
        "ordered = list(finished)",
        (f"{CONVERSATION}::test_a_conversation_goes_on_as_if_it_had_been_read_at_once",),
    ),
    Mutant(
        "the last token of a beam is read twice",
        "generation/beam_decoding.py",
        "torch.where(generated.positions < resume_state.pending_tokens.positions, generated.positions, -1)",
        "generated.positions",
        (f"{CONVERSATION}::test_a_conversation_goes_on_as_if_it_had_been_read_at_once",),
    ),
    Mutant(
        "the next turn begins at the place of the last token",
        "generation/results.py",
        "return cls(state, pending_tokens, first_positions + counts)",
        "return cls(state, pending_tokens, first_positions + counts - 1)",
        (f"{CONVERSATION}::test_a_conversation_goes_on_as_if_it_had_been_read_at_once",),
    ),
    Mutant(
        "a search takes another step before it stops",
        "generation/continuous_batch.py",
        "int(batch.done_mask.sum())) + self._finish_interrupted(entry)",
        "int(batch.done_mask.sum()))",
        (f"{CONVERSATION}::test_a_search_that_is_told_to_stop_gives_what_it_has",),
    ),
    Mutant(
        "only unfinished answers of a beam say that it was cut",
        "generation/beam_decoding.py",
        "interrupted = ~beam_state.done.unsqueeze(1).expand_as(finished)",
        "interrupted = ~beam_state.done.unsqueeze(1).expand_as(finished) & ~finished",
        (f"{CONVERSATION}::test_a_beam_that_is_told_to_stop_gives_what_it_has",),
    ),
    Mutant(
        "written tokens are of the first segment of the prompt",
        "generation/prefill.py",
        "next_segments = prompt.segments.gather(1, last_prompt_columns)",
        "next_segments = prompt.segments[:, :1]",
        (f"{CONVERSATION}::test_written_tokens_are_of_the_segment_of_the_last_one_given",),
    ),
    Mutant(
        "a head comes with an encoder of its own",
        "architectures/build_classifiers.py",
        (
            "if encoder is None:\n"
            "        encoder = build_transformer_encoder(config, vocabulary=vocabulary, longest=longest)\n"
        ),
        ("encoder = build_transformer_encoder(config, vocabulary=vocabulary, longest=longest)\n"),
        ("tests/unit/recipes/test_build.py::test_a_head_is_built_on_the_encoder_that_is_given",),
    ),
    Mutant(
        "both ends are the same end",
        "models/recurrent_encoder.py",
        "torch.cat((take_last_state(final_states), take_first_backward(final_states)), -1)",
        "torch.cat((take_last_state(final_states), take_last_state(final_states)), -1)",
        ("tests/unit/models/test_encoders.py::test_summaries_of_ends_are_those_of_both_cells",),
    ),
    Mutant(
        "one memory keeps its rows when others are rearranged",
        "blocks/transformer.py",
        "memories=select_rows(self.memories, rows), width",
        "memories={n: s.reorder(rows) if n != 'motion' else s for n, s in self.memories.items()}, width",
        (f"{LAWS}::test_row_law[two-memories-inference]",),
    ),
    Mutant(
        "weights below zero are widths too",
        "inspection/flow.py",
        "np.rint(np.maximum(step, 0) * _UNITS)",
        "np.rint(step * _UNITS)",
        (f"{FLOW}::test_nothing_flows_where_weights_are_below_zero",),
    ),
    Mutant(
        "all passages are of one example",
        "tasks/pretraining/task.py",
        (
            "unit = (\n"
            "                    documents.get_document_number(number) if self.by_document else number * self.size // "
            "len(documents"
        ),
        ("unit = (\n                    0 if self.by_document else 0 * len(documents"),
        (f"{SYSTEMS}::test_pre_trained_models_are_asked_for_the_same_tokens",),
    ),
    Mutant(
        "each pre-trained model is asked what its own seed hides",
        "tasks/pretraining/task.py",
        "passages = self.build_passages(corpus, predictor.tokenizer)",
        "passages = self.build_passages(corpus, predictor.tokenizer); passages.passages.seed = recipe.seed",
        (f"{SYSTEMS}::test_pre_trained_models_are_asked_for_the_same_tokens",),
    ),
    Mutant(
        "models of other pairings are asked too",
        "tasks/pretraining/task.py",
        "if other_value != own_value:",
        "if not other_value:",
        (f"{SYSTEMS}::test_pre_trained_models_that_cannot_be_asked_the_same",),
    ),
    Mutant(
        "what a kill leaves stays",
        "atomic_io.py",
        "    finally:\n        shutil.rmtree(folder, ignore_errors=True)\n",
        ("    finally:\n        temporary.unlink(missing_ok=True)\n"),
        ("tests/unit/runs/test_files.py::test_what_a_kill_leaves_is_gone_when_the_file_is_written_again",),
    ),
    Mutant(
        "links inside a run are followed",
        "runs/prepare.py",
        "if path.is_symlink() and path.is_dir():",
        "if path.is_symlink() and not path.exists():",
        ("tests/unit/runs/test_training_run.py::test_what_a_link_leads_to_is_left_alone",),
    ),
    Mutant(
        "what a chain hears from behind knows no links",
        "attention/structured.py",
        "after.append((links[:, step - 1] + (unary_scores",
        "after.append((0 * links[:, step - 1] + (unary_scores",
        (f"{CHAIN}::test_marginals_are_those_of_all_paths",),
    ),
    Mutant(
        "a chain stays where it is",
        "attention/structured.py",
        (
            "links.to(exact_scores.dtype).masked_fill(\n"
            "        torch.eye(keys, dtype=torch.bool, device=links.device), forbidden / 2\n"
            "    )"
        ),
        "links.to(exact_scores.dtype)",
        (f"{CHAIN}::test_marginals_are_those_of_all_paths",),
    ),
    Mutant(
        "a memory network that writes remembers a word too many",
        "models/memory_network.py",
        "self.visibility = sliding_window(memory - 1, 0)",
        "self.visibility = sliding_window(memory, 0)",
        (MEMORY_DECODER,),
    ),
    Mutant(
        "its keys are its values",
        "models/memory_network.py",
        "key, value = tables.chunk(2, -1)",
        "value, key = tables.chunk(2, -1)",
        (MEMORY_DECODER,),
    ),
    Mutant(
        "its words are scaled as those of a Transformer",
        "models/memory_network.py",
        "scaled=False, ",
        "",
        (MEMORY_DECODER,),
    ),
    Mutant(
        "the first half goes through the ReLU",
        "models/memory_network.py",
        "return torch.cat((linear_part, functional.relu(relu_part)), -1)",
        "return torch.cat((functional.relu(linear_part), relu_part), -1)",
        (MEMORY_DECODER,),
    ),
    Mutant(
        "ages are counted from the oldest",
        "attention/positions.py",
        "(positions[:, :, None] - key_positions[:, None, :]).clamp(0, self.key.size(0) - 1)",
        "(key_positions[:, None, :] + 0 * positions[:, :, None]).clamp(0, self.key.size(0) - 1)",
        (MEMORY_DECODER,),
    ),
    Mutant(
        "a word's place is counted from the end of the longest sentence",
        "models/memory_network.py",
        "word_mask.sum(1, keepdim=True).clamp(min=1)",
        "word_mask.size(1)",
        (f"{MEMORY_NETWORK}::test_logits_equal_those_of_the_equations",),
    ),
    Mutant(
        "a resumed run begins its linear start again",
        "tasks/stories/task.py",
        'self.updates_done = int(tensors["done"])',
        "self.updates_done = 0",
        (f"{STORIES}::test_a_run_that_is_cut_in_its_linear_start_ends_as_one_that_is_not",),
    ),
    Mutant(
        "empty memories make newer facts older, not those before them",
        "tasks/stories/task.py",
        "gaps.flip(1).cumsum(1).flip(1)",
        "gaps.cumsum(1)",
        (f"{STORIES}::test_gaps_make_facts_older_and_keep_their_order",),
    ),
    Mutant(
        "supporting facts are counted by lines, among which questions stand",
        "tasks/stories/data.py",
        "numbers[match[1]] = len(facts)",
        "numbers[match[1]] = int(match[1]) - 1",
        (f"{STORIES}::test_babi_is_read_from_a_folder_and_from_an_archive",),
    ),
    Mutant(
        "one of two supporting facts is enough",
        "tasks/stories/task.py",
        "bool(supporting) and supporting <= set(each.looked)",
        "bool(supporting & set(each.looked))",
        (f"{STORIES}::test_what_answers_are_worth",),
    ),
    Mutant(
        "facts of a long story are counted from the first that is read",
        "tasks/stories/predictor.py",
        "int(index) + row.first_fact for index",
        "int(index) for index",
        (f"{STORIES}::test_of_a_long_story_the_last_facts_are_read",),
    ),
)

PATCH_LAWS = "tests/laws/test_vision_transformers.py"
VIT = "tests/reference/test_vit.py"

PATCHED = (
    Mutant(
        "patches are read column by column",
        "blocks/vision.py",
        "self.projection(pictures).flatten(2).transpose(1, 2)",
        "self.projection(pictures).transpose(2, 3).flatten(2).transpose(1, 2)",
        (f"{PATCH_LAWS}::test_patches_are_projected_one_by_one",),
    ),
    Mutant(
        "colours are divided before the mean is subtracted",
        "models/vision.py",
        "self.patches((pictures - mean) / deviation)",
        "self.patches(pictures / deviation - mean)",
        (f"{VIT}::test_import_and_export",),
    ),
    Mutant(
        "the first patch is the class token",
        "models/vision.py",
        "summary = hidden[:, 0] if",
        "summary = hidden[:, 1] if",
        (f"{VIT}::test_import_and_export",),
    ),
    Mutant(
        "pictures of other models are resized as our own",
        "tasks/glimpses/predictor.py",
        "fit_picture_to_shape(picture, self.shape, resampling=self.resampling)",
        "fit_picture_to_shape(picture, self.shape)",
        (f"{VIT}::test_pictures_are_prepared_like_theirs",),
    ),
    Mutant(
        "weights of other sizes are taken if the tensors fit",
        "foreign/picture_folders.py",
        "if own[key] != foreign[key])",
        "if own[key] != foreign[key] and key != 'heads')",
        (f"{VIT}::test_weights_that_do_not_fit",),
    ),
)

GLIMPSING = (
    Mutant(
        "coarse patches begin where the sharp one does",
        "blocks/vision.py",
        "(centres - size / 2)",
        "(centres - self.patch / 2)",
        (f"{GLIMPSES_BY_HAND}::test_the_retina_computes_means_of_squares",),
    ),
    Mutant(
        "rewards change what the core remembers",
        "models/picture_classifier.py",
        "self.mean(hidden.detach())",
        "self.mean(hidden)",
        (f"{GLIMPSES_BY_HAND}::test_the_hybrid_loss_and_its_gradient",),
    ),
    Mutant(
        "the baseline learns from REINFORCE",
        "tasks/glimpses/task.py",
        "advantage = reward - outputs.baselines.detach()",
        "advantage = reward - outputs.baselines",
        (f"{GLIMPSES_BY_HAND}::test_the_hybrid_loss_and_its_gradient",),
    ),
    Mutant(
        "the first glimpse is rewarded",
        "tasks/glimpses/task.py",
        "(outputs.logits[:, :, -1].argmax(-1) ==",
        "(outputs.logits[:, :, 0].argmax(-1) ==",
        (f"{GLIMPSES_BY_HAND}::test_the_hybrid_loss_and_its_gradient",),
    ),
    Mutant(
        "where to look depends on the batch",
        "tasks/glimpses/data.py",
        "(SeededRandom(seed, hash_pixels(pixels)) for pixels in pictures)",
        "(SeededRandom(seed, row) for row, _ in enumerate(pictures))",
        (f"{GLIMPSES}::test_chance_is_of_a_picture_whatever_stands_beside_it",),
    ),
    Mutant(
        "a picture that occurs twice is in two parts",
        "tasks/glimpses/data.py",
        "while 0 < index < len(pictures) and pictures[index].content_hash == pictures[index - 1].content_hash:",
        "while not 0 <= index <= len(pictures):",
        (f"{GLIMPSES}::test_parts_have_no_picture_in_common_and_are_all_of_them",),
    ),
)

CAPTIONED = (
    Mutant(
        "channels of a plane are normed in fewer groups",
        "blocks/vision.py",
        "nn.GroupNorm(next(n for n in (8, 4, 2, 1) if",
        "nn.GroupNorm(next(n for n in (4, 2, 1) if",
        (f"{VISION}::test_channels_are_normed_in_the_largest_groups_that_there_can_be",),
    ),
    Mutant(
        "a region looks beside what it stands for",
        "blocks/vision.py",
        "size, stride = (4, 2) if halved",
        "size, stride = (3, 2) if halved",
        (f"{VISION}::test_what_halves_a_plane_looks_at_the_middle_of_what_it_stands_for",),
    ),
    Mutant(
        "what was found is read whatever the gate says",
        "models/recurrent_decoder.py",
        "gated: Tensor = torch.sigmoid(self.map(query)) * context",
        "gated: Tensor = (torch.sigmoid(self.map(query)) * 0 + 1) * context",
        (f"{ATTEND}::test_the_decoder_equals_that_of_the_paper",),
    ),
    Mutant(
        "padding pays attention to a picture",
        "tasks/generation_objective.py",
        "torch.where(real, weights, 0.0).sum(1)).square()",
        "weights.sum(1)).square()",
        (f"{ATTEND}::test_the_penalty_equals_plain_loops_and_has_a_gradient",),
    ),
    Mutant(
        "a caption is of the next picture",
        "tasks/captioning/data.py",
        "np.searchsorted(corpus[CAPTION_SIDE].stops, stops)",
        'np.minimum(np.searchsorted(corpus[CAPTION_SIDE].stops, stops, side="right"), len(corpus) - 1)',
        (f"{CAPTIONING}::test_a_picture_is_stored_once_and_shared_by_its_captions",),
    ),
    Mutant(
        "attention points to the right where it should point down",
        "tasks/captioning/evaluation.py",
        "return (column + 0.5) / spread.shape[1], (row + 0.5) / spread.shape[0]",
        "return (row + 0.5) / spread.shape[0], (column + 0.5) / spread.shape[1]",
        (f"{CAPTIONING}::test_the_pointing_game_is_won_by_who_looks_at_what_is_named",),
    ),
    Mutant(
        "said again and again is worth as much",
        "metrics/captions.py",
        "min(weight, reference_weights[gram]) * reference_weights[gram]",
        "weight * reference_weights[gram]",
        (f"{CAPTIONS}::test_cider_is_the_longhand_one",),
    ),
)

CLIP_FILES = "tests/unit/data/test_clips.py"
CLIP_MODELS = "tests/unit/models/test_clips.py"
VIDEO = "tests/unit/tasks/test_video.py"

CLIPS = (
    Mutant(
        "clips: channels are normed in fewer groups",
        "models/vision.py",
        "_GROUPS: Final = (8, 4, 2, 1)",
        "_GROUPS: Final = (4, 2, 1)",
        (CLIP_MODELS,),
    ),
    Mutant(
        name="clips: padding between layers is looked at",
        file="models/vision.py",
        old="torch.where(frame_mask[:, :, None, None, None], normed, 0).transpose(1, 2)",
        new="normed.transpose(1, 2)",
        tests=(CLIP_MODELS,),
    ),
    Mutant(
        name="clips: padding counts in the mean",
        file="models/vision.py",
        old="summary = self.summary(slots, source.positions)",
        new="summary = slots.mean(1)",
        tests=(CLIP_MODELS,),
    ),
    Mutant(
        name="clips: parts by their beginnings",
        file="data/clips.py",
        old="(np.arange(max_frames) + 0.5 + _ROUNDING_TOLERANCE)",
        new="(np.arange(max_frames) + _ROUNDING_TOLERANCE)",
        tests=(CLIP_FILES,),
    ),
    Mutant(
        name="clips: playlists are followed",
        file="data/clips.py",
        old=', "format_whitelist": _VIDEO_FORMATS}',
        new="}",
        tests=(CLIP_FILES,),
    ),
    Mutant(
        name="clips: events among the frames that were taken",
        file="tasks/captioning/evaluation.py",
        old="return ((event.start <= clip.frame_indices) & (clip.frame_indices < event.stop)).astype(np.float64)",
        new="return np.array([event.start <= n < event.stop for n in range(len(clip.frame_indices))], np.float64)",
        tests=(VIDEO,),
    ),
    Mutant(
        name="clips: padding is a frame",
        file="tasks/captioning/data.py",
        old="positions = np.full(block.shape[:2], -1)",
        new="positions = np.full(collate_arrays.shape[:2], 0)",
        tests=(VIDEO,),
    ),
    Mutant(
        name="clips: one chance for each chunk",
        file="tasks/captioning/predictor.py",
        old="enumerate(chunk, first + len(captions))",
        new="enumerate(chunk, start)",
        tests=(VIDEO,),
    ),
)

FITTING = "tests/unit/tasks/test_fitting.py"
FITTED = "tests/unit/runs/test_fitted.py"
LABELLED_FITTING = "tests/unit/tasks/test_labelled_fitting.py"
BAGS = "tests/reference/test_bag.py"
WINDOWS = "tests/reference/test_windows.py"
GLANCES = "tests/unit/data/test_glance.py"
NAMES = "tests/unit/data/test_languages.py"
SPLITS = "tests/unit/data/test_split.py"
FAULTS = "tests/unit/data/test_faults.py"
DRAFTS = "tests/unit/recipes/test_drafts.py"
NEW = "tests/unit/cli/test_new.py"
INSPECT = "tests/unit/cli/test_inspect.py"
ATTRIBUTED = "tests/laws/test_attribution_laws.py"
PIXEL_COLUMNS = "tests/unit/data/test_pixel_columns.py"
ATTRIBUTED_RECORDS = "tests/unit/inspection/test_attribution.py"

FIRST_HOUR = (
    Mutant(
        "every label as probable as the first counts as right",
        "models/predictions.py",
        "(log_probabilities.argmax(1) == label).sum()",
        "(log_probabilities.gather(1, label.unsqueeze(1)) >= log_probabilities.amax(-1, keepdim=True)).sum()",
        (LIKELIHOOD,),
    ),
    Mutant(
        "what is monitored gets better wherever losses part",
        "runs/trainer_factory.py",
        "if overfitting_warning and evaluation.improved",
        "if overfitting_warning",
        ("tests/unit/runs/test_learning_curve.py",),
    ),
    Mutant(
        "accuracy is of batches, not of labels",
        "tasks/generation_objective.py",
        '"accuracy": right / count',
        '"accuracy": right / len(list(self.validation_batches()))',
        (TASK,),
    ),
    Mutant(
        "a choice is one example, however many candidates are read",
        "tasks/classification/task.py",
        "count += len(texts)",
        "count += 1",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "few texts are read as often as many",
        "tasks/classification/task.py",
        "_MIN_EPOCHS[self.num_examples <= _SMALL_DATASET]",
        "_MIN_EPOCHS[self.num_examples > _SMALL_DATASET]",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "rows of n-grams are rounded up past their limit",
        "tasks/classification/task.py",
        "2 ** int(math.log2(_MAX_NGRAM_WEIGHTS",
        "2 ** math.ceil(math.log2(_MAX_NGRAM_WEIGHTS",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "windows of questions do not overlap",
        "tasks/spans/task.py",
        "max(1, round(2 * context_tokens / context_room) - 1)",
        "max(1, round(context_tokens / context_room))",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "entities are judged by accuracy",
        "tasks/tagging/task.py",
        '"f1" if are_entity_tags(sorted(train_size.tags)) else "accuracy"',
        '"accuracy" if are_entity_tags(sorted(train_size.tags)) else "f1"',
        (LABELLED_FITTING,),
    ),
    Mutant(
        "a long time for a text gives no larger GPT",
        "tasks/language/task.py",
        "if seconds >= decoder_size.min_seconds][-1]",
        "if min_seconds >= decoder_size.min_seconds][0]",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "a GPT expects the last of its limits, not the first",
        "tasks/language/task.py",
        "max(1.0, min((limit",
        "max(1.0, max((limit",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "few pairs get as deep a model as many",
        "tasks/translation/auto_settings.py",
        "return self.amount.pairs >= pairs and self._passes_in_time",
        "return self._passes_in_time",
        (FITTING,),
    ),
    Mutant(
        "who says when training ends is read to the last limit",
        "tasks/translation/auto_settings.py",
        "return min(limits)",
        "return max(limits)",
        (FITTING,),
    ),
    Mutant(
        "whoever names a family has said all of a model",
        "tasks/auto_settings.py",
        "(isinstance(model, family) and not model.has_size)",
        "(isinstance(model, family) and model.has_size)",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "of few examples a trained encoder reads no more",
        "tasks/auto_settings.py",
        "max(3, min(8, math.ceil(16_000 / self.num_examples)))",
        "min(3, max(8, math.ceil(16_000 / self.num_examples)))",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "looking may take all the time",
        "tasks/auto_settings.py",
        "_EVALUATION_SHARE * train_tokens / max(1.0, _FORWARD_COST * validation_tokens)",
        "train_tokens / max(1.0, _FORWARD_COST * validation_tokens)",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "how many updates there are says nothing of how much is read",
        "tasks/auto_settings.py",
        "training.steps and training.steps * batch_tokens",
        "0",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "who says when training ends has no clock",
        "tasks/auto_settings.py",
        "trained_tokens = affordable_tokens if is_slow else all_tokens",
        "trained_tokens = all_tokens",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "batches that nobody gave are as large as the default",
        "tasks/translation/auto_settings.py",
        "training.accumulate * _get_batch_tokens(training)",
        "training.accumulate * training.batch_tokens",
        (FITTING,),
    ),
    Mutant(
        "several GPUs are one",
        "tasks/auto_settings.py",
        "_GPU_CORES * processes if gpu",
        "_GPU_CORES if gpu",
        (FITTING,),
    ),
    Mutant(
        "what is chosen goes before what was given",
        "runs/resolve.py",
        ".items() if is_unset(recipe, key)\n    }",
        ".items()}",
        (FITTED,),
    ),
    Mutant(
        "threads that a recipe asks for count for nothing",
        "runs/resolve.py",
        "config.threads or torch.get_num_threads()",
        "torch.get_num_threads()",
        (FITTED,),
    ),
    Mutant(
        "what is given as its default was not given",
        "recipes/load.py",
        "and name not in table.model_fields_set",
        "and getattr(table, name) == type(table).model_fields[name].default",
        (FITTED, STORED),
    ),
    Mutant(
        "a nought that was fitted is forgotten",
        "recipes/load.py",
        "(fitted_value := _get_key(stored, path)) is not None:",
        "(fitted_value := _get_key(stored, path)):",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "a run of which nothing was trained means what an older one meant",
        "recipes/load.py",
        "if has_checkpoint and _is_unset(recipe, path)\n    }",
        "if _is_unset(recipe, path)}",
        (STORED,),
    ),
    Mutant(
        "two words are the same backwards",
        "models/heads.py",
        "(hashes * _HASH_FACTOR + ids.narrow(1, offset, windows))",
        "((hashes + ids.narrow(1, offset, windows)) * _HASH_FACTOR)",
        (BAGS,),
    ),
    Mutant(
        "padding of a text is among its n-grams",
        "models/heads.py",
        "ngram_rarity = torch.where(ends < packed.lengths.unsqueeze(1), ngram_rarity, 0.0)",
        "ngram_rarity = torch.where(ends <= packed.lengths.unsqueeze(1), ngram_rarity, 0.0)",
        (BAGS,),
    ),
    Mutant(
        "a word that a text repeats is more common",
        "models/heads.py",
        "document_counts = torch.bincount(column, minlength=size)",
        "document_counts = torch.bincount(torch.cat(columns), minlength=size)",
        (BAGS,),
    ),
    Mutant(
        "a token that a text of a pair repeats is more common",
        "models/pair_encoder.py",
        "token_ids = torch.unique(row * len(document_counts) + tokens.ids[token_mask]) % len(document_counts)",
        "token_ids = tokens.ids[token_mask]",
        ("tests/reference/test_pair_encoder.py",),
    ),
    Mutant(
        "the begin and the ends of a pair are in common",
        "models/pair_encoder.py",
        "        rarity[list(ignored_ids)] = 0.0\n",
        "",
        ("tests/reference/test_pair_encoder.py",),
    ),
    Mutant(
        "the n-grams of the second text are looked for in itself",
        "models/pair_encoder.py",
        "(_normalize_weights(weights_too) * matches.amax(1)).sum(1)",
        "(_normalize_weights(weights_too) * matches.amax(1).clamp(min=1)).sum(1)",
        ("tests/reference/test_pair_encoder.py",),
    ),
    Mutant(
        "both texts of a pair look at the first",
        "models/pair_encoder.py",
        "self._align_sides(self.second_looks, second, first)",
        "self._align_sides(self.second_looks, second, second)",
        ("tests/reference/test_pair_encoder.py",),
    ),
    Mutant(
        "what was counted of pairs learns",
        "models/pair_encoder.py",
        "parameter.requires_grad_(False)",
        "parameter.requires_grad_(True)",
        ("tests/reference/test_pair_encoder.py",),
    ),
    Mutant(
        "a window ends at its token",
        "models/convolutional.py",
        "(0, 0, 0, self.width - 1)",
        "(0, 0, self.width - 1, 0)",
        (WINDOWS,),
    ),
    Mutant(
        "windows find things behind the end of a text",
        "models/convolutional.py",
        "max_features = packed.zero_padding(features).amax(1)",
        "max_features = features.amax(1)",
        (WINDOWS,),
    ),
    Mutant(
        "the clock starts again at each update",
        "training/optimizers.py",
        "1 + int(time_fraction * self.TICKS)",
        "step + int(time_fraction * self.TICKS)",
        (SCHEDULES,),
    ),
    Mutant(
        "a clock that ends training first is not heard",
        "training/optimizers.py",
        (
            "then falls linearly. `time_fraction` is\n"
            "        the share of the training time that has passed; it counts if it is ahead of the updates.\n"
            '        """\n        step = max(step, int(time_fraction * self.steps))'
        ),
        (
            "then falls linearly. `time_fraction` is\n"
            "        the share of the training time that has passed; it counts if it is ahead of the updates.\n"
            '        """\n        step = max(step, 0)'
        ),
        (SCHEDULES,),
    ),
    Mutant(
        "a warm-up beside the clock is over at once",
        "training/optimizers.py",
        "return warmup_factor * self.schedule.get_rate(",
        "return self.schedule.get_rate(",
        (SCHEDULES,),
    ),
    Mutant(
        "an empty label is a number",
        "data/detect/column_profiles.py",
        "numbers = (parse_number(value) for value in self.value_counts)",
        "numbers = (float(value) for value in self.value_counts)",
        (GLANCES,),
    ),
    Mutant(
        "names above numbers are no header",
        "data/detect/column_profiles.py",
        "any(cell and column.numeric_share > 0.95 for",
        "any(cell and column.numeric_share < 0.05 for",
        (GLANCES,),
    ),
    Mutant(
        "what gives most columns separates them",
        "data/detect/sniff.py",
        "score = (sizes.count(width) / len(sizes), width)",
        "score = (width, sizes.count(width) / len(sizes))",
        (GLANCES,),
    ),
    Mutant(
        "lines are counted anew in each block",
        "data/detect/sniff.py",
        "line_number += len(lines)",
        "line_number = 1 + len(lines)",
        (GLANCES,),
    ),
    Mutant(
        "a folder's name goes before a file's",
        "data/detect/file_names.py",
        "_parse_part(name) or _parse_part(path.parent.name.lower())",
        "_parse_part(path.parent.name.lower()) or _parse_part(name)",
        (NAMES,),
    ),
    Mutant(
        "a Chinese text has few tokens",
        "data/detect/checks.py",
        "return num_wide + max(words",
        "return max(words",
        (FAULTS,),
    ),
    Mutant(
        "what repeats itself in a sample is all there is",
        "data/detect/checks.py",
        "num_repeated = round(sum(kept_counts) / self._examples_seen.sampling_rate)",
        "num_repeated = round(sum(kept_counts))",
        (FAULTS,),
    ),
    Mutant(
        "one doubled quote is worth a word",
        "data/detect/checks.py",
        "if count > self._check.min_share * total:",
        "if count:",
        (FAULTS,),
    ),
    Mutant(
        "parts that are measured on may share texts",
        "data/detect/checks.py",
        "if earlier != part and text_hash in locations",
        'if part == "train" and text_hash in locations',
        (FAULTS,),
    ),
    Mutant(
        "what comes first is in a part, however often it comes",
        "data/detect/hash_sample.py",
        "if count <= room:",
        "if count <= room or room == size:",
        (SPLITS,),
    ),
    Mutant(
        "where a coarse key does not split, it counts all the same",
        "data/detect/hash_sample.py",
        "hash_texts(keys[self._level])",
        "hash_texts(keys[0])",
        (SPLITS,),
    ),
    Mutant(
        "a given validation does not keep training whole",
        "data/detect/hash_sample.py",
        'if missing and "test" not in dataset.files:',
        'if "test" not in dataset.files:',
        (NEW,),
    ),
    Mutant(
        "a recipe is checked by its training data alone",
        "recipes/recipe_writer.py",
        'for part in ("train", "validation", "test"):\n        if getattr',
        'for part in ("train",):\n        if getattr',
        (DRAFTS,),
    ),
    Mutant(
        "the end of a line in a file's name ends a comment",
        "recipes/recipe_writer.py",
        'printable = "".join(letter if letter.isprintable() else " " for letter in line)',
        'printable = "".join(line)',
        (DRAFTS,),
    ),
    Mutant(
        "what is less probable is proposed",
        "recipes/recipe_writer.py",
        "dataset.confidence > best[name].dataset.confidence",
        "dataset.confidence < best[name].dataset.confidence",
        (DRAFTS,),
    ),
    Mutant(
        "every other proposal is told",
        "recipes/recipe_writer.py",
        "_MIN_ALTERNATIVE_CERTAINTY if task is None else 0.0",
        "0.0",
        (DRAFTS,),
    ),
    Mutant(
        "of several steps of a number one counts",
        "inspection/attribution.py",
        (
            "sums[axis].index_add_(\n"
            "                0, torch.tensor(numbers, device=each.device), each * row_weights.to(each).unsqueeze(1)\n"
            "            )"
        ),
        "sums[axis][numbers] += each * row_weights.to(each).unsqueeze(1)",
        (ATTRIBUTED,),
    ),
    Mutant(
        "steps are between -1 and 1",
        "inspection/attribution.py",
        "return (nodes + 1) / 2, weights / 2",
        "return nodes, weights / 2",
        (ATTRIBUTED,),
    ),
    Mutant(
        "padding has the first word's vector",
        "inspection/attribution.py",
        "torch.where((positions >= 0).unsqueeze(-1), leaf.gather(1, known), summands.tokens)",
        "leaf.gather(1, known)",
        (ATTRIBUTED,),
    ),
    Mutant(
        "columns without a token stand in front",
        "inspection/attribution.py",
        "((0, 0), (0, width - scores.shape[1]))",
        "((0, 0), (width - scores.shape[1], 0))",
        (ATTRIBUTED,),
    ),
    Mutant(
        "the columns of a picture are read from the top",
        "data/pixel_columns.py",
        "(ink / ink.max().clamp(min=1)).flip(0).T.flatten()",
        "(ink / ink.max().clamp(min=1)).T.flatten()",
        (PIXEL_COLUMNS,),
    ),
    Mutant(
        "paper is white",
        "data/pixel_columns.py",
        "(grey - grey.median()).abs()",
        "(grey - 255).abs()",
        (PIXEL_COLUMNS,),
    ),
    Mutant(
        "a sound of another rate is read as a picture",
        "data/pixel_columns.py",
        "if sound.rate != self.rate or len(sound.samples) % self.bands:",
        "if len(sound.samples) % self.bands:",
        (PIXEL_COLUMNS,),
    ),
    Mutant(
        "attribution that is not requested is the gradient",
        "tasks/inspection_records.py",
        'method: Method = "gradient" if selection.attribution == "gradient" else "integrated"',
        'method: Method = "integrated" if selection.attribution == "integrated" else "gradient"',
        (ATTRIBUTED_RECORDS,),
    ),
    Mutant(
        "one complete row of scores is enough",
        "tasks/inspection_records.py",
        "not np.all(attribution.complete)",
        "not np.any(attribution.complete)",
        (ATTRIBUTED_RECORDS,),
    ),
    Mutant(
        "only positive completeness errors count",
        "inspection/record.py",
        "abs(self.gaps) <= _MAX_GAP",
        "self.gaps <= _MAX_GAP",
        (ATTRIBUTED_RECORDS,),
    ),
    Mutant(
        "of a long text the last part is looked at",
        "tasks/translation/translator.py",
        "self.inspect(parts[0].sentence, request.target",
        "self.inspect(parts[-1].sentence, request.target",
        (INSPECT,),
    ),
)

ENGINES = (
    Mutant(
        "bytes: vectors share the scale of their batch",
        "engines/int8.py",
        "x.abs().amax(-1, keepdim=True)",
        "x.abs().amax().view(1, 1)",
        (f"{PRODUCTS}::test_what_comes_of_a_vector_depends_on_no_other",),
    ),
    Mutant(
        "bytes: a vector of zeros is divided by zero",
        "engines/int8.py",
        "keepdim=True).clamp_(min=_TINY)\n        product = ",
        "keepdim=True)\n        product = ",
        (f"{PRODUCTS}::test_it_is_near_the_exact_product_and_of_zeros_it_is_the_bias",),
    ),
    Mutant(
        "bytes: a kernel that overflows is used",
        "engines/int8.py",
        "return bool(torch.allclose(result, expected, rtol=1e-5, atol=1e-2))",
        "return bool(result.isfinite().all())",
        (f"{PRODUCTS}::test_a_kernel_that_overflows_is_none",),
    ),
    Mutant(
        "bytes: oneDNN's vectors are off by one step",
        "engines/int8.py",
        "round_().add_(INPUT_LEVELS + 1).to(torch.uint8)",
        "round_().add_(INPUT_LEVELS).to(torch.uint8)",
        (
            f"{PRODUCTS}::test_a_kernel_makes_the_sums_that_whole_numbers_make",
            f"{PRODUCTS}::test_where_products_of_bytes_are_fast_they_are_right",
        ),
    ),
    Mutant(
        "bytes: the fastest kernel is looked for in every call",
        "engines/int8.py",
        "fastest = self._fastest_kernels[key] = min(",
        "fastest = min(",
        (f"{PRODUCTS}::test_the_fastest_kernel_is_looked_for_once_for_each_shape_and_number_of_vectors",),
    ),
    Mutant(
        "bytes: PyTorch's own kernels are changed for everybody",
        "engines/int8.py",
        ("            torch.backends.quantized.engine = previous_engine\n"),
        "            pass\n",
        (f"{PRODUCTS}::test_pytorch_goes_on_with_its_own_kernels",),
    ),
    Mutant(
        "bytes: weights are cut off instead of rounded",
        "engines/int8.py",
        ".unsqueeze(1)).round_().to(torch.int8)",
        ".unsqueeze(1)).to(torch.int8)",
        (f"{INT8}::test_the_nearest_bytes_are_off_by_half_a_step_and_use_the_whole_range",),
    ),
    Mutant(
        "bytes: a tied weight is rounded for each of its places",
        "engines/int8.py",
        (
            "matrices_by_id.get(id(module.weight)) or matrices_by_id.setdefault(\n"
            "                id(module.weight), Int8Matrix.from_weight(module.weight)\n"
            "            )"
        ),
        "matrices_by_id.get(id(module.weight)) or Int8Matrix.from_weight(module.weight)",
        (f"{INT8}::test_tied_weights_are_one_matrix_and_a_module_in_two_places_stays_one",),
    ),
    Mutant(
        "bytes: a module in two places becomes two",
        "engines/int8.py",
        "        if id(module) not in replacements:\n",
        "        if name:\n",
        (f"{INT8}::test_tied_weights_are_one_matrix_and_a_module_in_two_places_stays_one",),
    ),
    Mutant(
        "bytes: gradients stop at a product",
        "engines/int8.py",
        "if self.product is None or (x.requires_grad and torch.is_grad_enabled()):",
        "if self.product is None:",
        (f"{INT8}::test_gradients_of_what_is_read_are_those_of_the_rounded_weights",),
    ),
    Mutant(
        "bytes: what is stored is rounded again",
        "engines/int8.py",
        "            matrices_by_id[id(module.weight)] = matrix\n",
        "            pass\n",
        (f"{INT8}::test_what_is_stored_is_taken_instead_of_rounding_again",),
    ),
    Mutant(
        "bytes: recurrent cells go on with PyTorch's kernels",
        "engines/int8.py",
        "            module.uses_kernel = False\n",
        "            module.uses_kernel = True\n",
        (
            f"{INT8}::test_cells_whose_vectors_are_rounded_advance_step_by_step",
            f"{LAWS}::test_chunk_law[language-gru-int8]",
        ),
    ),
    Mutant(
        "bytes: a cell from right to left advances from left to right",
        "blocks/recurrent.py",
        "range(token_mask.size(1))[:: -1 if backward else 1]",
        "range(token_mask.size(1))",
        (f"{INT8}::test_cells_whose_vectors_are_rounded_advance_step_by_step",),
    ),
    Mutant(
        "bytes: padding advances a cell",
        "blocks/recurrent.py",
        "state = masked_update(step_mask, cell.step(projected[:, t], state), state)",
        "state = cell.step(projected[:, t], state)",
        (f"{INT8}::test_cells_whose_vectors_are_rounded_advance_step_by_step",),
    ),
    Mutant(
        "bytes: stored ones become floating-point numbers",
        "engines/select_engine.py",
        'return "native" if has_library else "int8"',
        'return "torch"',
        (f"{ARRANGE}::test_stored_bytes_stay_bytes_unless_floating_point_is_asked_for",),
    ),
    Mutant(
        "bytes: stored ones need not fit",
        "engines/select_engine.py",
        "provided={weight_name: matrix.rows for weight_name, matrix in kept_int8.items()}",
        "provided={weight_name: dict(model.named_parameters())[weight_name] for weight_name in kept_int8}",
        (f"{ARRANGE}::test_stored_bytes_stay_bytes_unless_floating_point_is_asked_for",),
    ),
    Mutant(
        "bytes: floats are made of them to be arranged",
        "engines/select_engine.py",
        "if type(child) is not nn.Linear or",
        "if not isinstance(child, nn.Linear) or",
        ("tests/unit/cli/test_quantize.py",),
    ),
    Mutant(
        "bytes: auto takes what is slower",
        "engines/select_engine.py",
        "int8_engine if time_ratio < _MAX_TIME_RATIO[int8_engine] else exact_engine",
        "exact_engine if time_ratio < _MAX_TIME_RATIO[int8_engine] else int8_engine",
        (f"{ARRANGE}::test_auto_takes_what_is_faster_and_says_so",),
    ),
    Mutant(
        "bytes: learn on",
        "runs/prepare.py",
        "    elif is_inference_only(folder):\n",
        "    elif is_inference_only(folder) and not folder:\n",
        ("tests/unit/cli/test_quantize.py::test_bytes_do_not_learn",),
    ),
    Mutant(
        "a model that is filled from a file draws random numbers first",
        "models/parameters.py",
        ("    with _SkipRandomInit():\n        yield\n"),
        "    yield\n",
        (f"{ARRANGE}::test_a_model_that_is_filled_at_once_draws_no_random_numbers",),
    ),
)

ADAPTED = (
    Mutant(
        "adapters: dropout is behind A",
        "adapters/adapter.py",
        "self.up(self.down(self.dropout(x)))",
        "self.up(self.dropout(self.down(x)))",
        (f"{ADAPTERS}::test_dropout_is_of_what_the_change_reads",),
    ),
    Mutant(
        "adapters: values change the rows of keys",
        "adapters/adapter.py",
        'slice(-len(up), None) if match["part"] == _LAST_PART else slice(len(up))',
        "slice(len(up))",
        (f"{ADAPTERS}::test_complete_weights_compute_what_the_adapted_model_does",),
    ),
    Mutant(
        "adapters: one that is put on changes its base",
        "adapters/adapter.py",
        "base[weight].detach().clone()",
        "base[weight].detach()",
        (f"{ADAPTERS}::test_complete_weights_compute_what_the_adapted_model_does",),
    ),
    Mutant(
        "adapters: bottlenecks are cut at 2 instead of two deviations",
        "adapters/adapter.py",
        "a=-2 * _DEVIATION, b=2 * _DEVIATION",
        "a=-2, b=2",
        (f"{ADAPTERS}::test_bottlenecks_begin_with_normal_weights_cut_at_two_deviations",),
    ),
    Mutant(
        "adapters: native code leaves bottlenecks out",
        "engines/native/plan.py",
        " and residual.behind is None",
        "",
        (f"{ADAPTERS}::test_native_code_is_given_no_stack_with_bottlenecks",),
    ),
    Mutant(
        "adapters: checkpoints hold the base too",
        "training/precision.py",
        "name: parameter for name, parameter in all_parameters.items() if name not in frozen",
        "name: parameter for name, parameter in all_parameters.items()",
        (f"{ADAPTED_RUNS}::test_a_checkpoint_holds_the_adapter_and_the_head_alone",),
    ),
    Mutant(
        "adapters: any weights are a base",
        "runs/adapter_runs.py",
        "if compute_base_digest(candidate) == base.sha256]",
        "]",
        (f"{ADAPTED_RUNS}::test_the_base_must_be_there_and_what_it_was",),
    ),
    Mutant(
        "adapters: PEFT's matrices have our order of dimensions",
        "foreign/peft.py",
        "return arrangement is READS_SINES_FIRST",
        "return arrangement is WRITES_SINES_FIRST",
        (f"{PEFT}::test_transformers_computes_the_same_with_the_adapter",),
    ),
)

NATIVE = (
    Mutant(
        "native: the gradient of dropout has a mask of its own",
        "fused_operators.py",
        "(random_bytes,) = ctx.saved_tensors",
        "random_bytes = draw_random_bytes(gradient.numel())",
        (f"{OPERATORS}::test_a_dropped_residual_and_its_gradients_have_one_mask",),
    ),
    Mutant(
        "native: attention forgets its scale in the backward pass",
        "fused_operators.py",
        "factors=factors, scale=ctx.scale)",
        "factors=factors, scale=1.0)",
        (f"{OPERATORS}::test_attention",),
    ),
    Mutant(
        "native: the mask of another query hides keys",
        "fused_operators.py",
        "batch.hidden_row, _, batch.hidden_query, batch.hidden_key = hidden.stride()",
        "batch.hidden_row, batch.hidden_query, _, batch.hidden_key = hidden.stride()",
        (f"{OPERATORS}::test_attention",),
    ),
    Mutant(
        "native: all kinds of GELU are one",
        "fused_operators.py",
        'getattr(activation, "approximate", "none") == "tanh"',
        "False",
        (f"{OPERATORS}::test_linear_maps_with_an_activation",),
    ),
    Mutant(
        "native: hooks of linear maps are forgotten",
        "fused_operators.py",
        "type(linear) is not nn.Linear or linear.weight.dtype != x.dtype or _has_hooks(linear)",
        "type(linear) is not nn.Linear or linear.weight.dtype != x.dtype",
        (f"{OPERATORS}::test_where_native_code_is_not_used",),
    ),
    Mutant(
        "native: two continuations write to one place",
        "engines/native/state.py",
        "self.capacity.claim(first_new, end):",
        "(self.capacity.claim(first_new, end) or end <= self.capacity.size):",
        (f"{STACK}::test_continuations_of_one_state_and_copies_do_not_disturb_each_other",),
    ),
    Mutant(
        "native: joined rows look at the sentences of others",
        "engines/native/state.py",
        "indices.append(rows.int() + start)",
        "indices.append(rows.int())",
        (f"{STACK}::test_a_joined_state_keeps_no_sentence_that_nobody_looks_at_and_no_key_that_is_gone",),
    ),
    Mutant(
        "native: a joined state keeps what nobody needs",
        "engines/native/state.py",
        "indices[:, self.num_columns - max_columns :]",
        "indices",
        (f"{STACK}::test_a_joined_state_keeps_no_sentence_that_nobody_looks_at_and_no_key_that_is_gone",),
    ),
    Mutant(
        "native: whoever listens hears nothing",
        "engines/native/stack.py",
        "has_weight_hooks() or any(module._forward_hooks for module in self._submodules)",
        "has_weight_hooks()",
        (f"{STACK}::test_whoever_looks_inside_sees_what_the_modules_do",),
    ),
    Mutant(
        "native: no gradient where it began without",
        "engines/native/stack.py",
        ("        if torch.is_grad_enabled() or has_weight_hooks():\n            plan"),
        "        if has_weight_hooks():\n            plan",
        (f"{STACK}::test_whoever_looks_inside_sees_what_the_modules_do",),
    ),
    Mutant(
        "native: a copy shares its addresses",
        "engines/native/stack.py",
        'return {**self.__dict__, "_plan": None}',
        "return dict(self.__dict__)",
        (f"{STACK}::test_continuations_of_one_state_and_copies_do_not_disturb_each_other",),
    ),
    Mutant(
        "native: values are made of keys",
        "engines/native/stack.py",
        "out[:, :, 1] = values[:, :, 1]",
        "pass",
        (f"{STACK}::test_values_may_be_others_than_keys",),
    ),
    Mutant(
        "native: a stack with shared keys and values is taken for a usual one",
        "engines/native/plan.py",
        "        and not attention.shared_key_value\n",
        "",
        (f"{STACK}::test_what_native_code_does_not_know_stays_a_stack_of_modules",),
    ),
    Mutant(
        "native: the two kinds of GELU are one",
        "engines/native/plan.py",
        'getattr(activation, "approximate", "none") == "tanh"',
        "False",
        (f"{STACK}::test_it_computes_what_the_modules_compute",),
    ),
    Mutant(
        "native: several steps go beyond the longest context",
        "generation/wrapped_engines.py",
        "min(search.max_steps, self.max_context - int(state.counts.amax()))",
        "search.max_steps",
        (f"{STEPS}::test_several_steps_in_one_call_find_the_same",),
    ),
    Mutant(
        "native: several steps in one call though a search may be interrupted",
        "generation/continuous_batch.py",
        " or self._entries[0].until is not never_interrupt:",
        ":",
        (f"{STEPS}::test_several_steps_in_one_call_are_for_searches_that_engines_know",),
    ),
    Mutant(
        "native: several steps in one call forget where the answer begins",
        "models/generative.py",
        (
            "self.decoder.decode_steps(\n"
            "            self.output, _shift_positions(tokens, state.target_start), state.decoder_state"
        ),
        "self.decoder.decode_steps(self.output, tokens, state.decoder_state",
        (f"{STEPS}::test_several_steps_in_one_call_find_the_same",),
    ),
    Mutant(
        "native: bf16 weights stay fp32",
        "engines/native/linear.py",
        'matrix.to_bfloat16 if precision == "bfloat16" else matrix.from_float32',
        "matrix.from_float32",
        ("tests/unit/native/test_products.py::test_a_native_map_is_the_map_of_pytorch",),
    ),
    Mutant(
        "bf16: results of products are rounded",
        "engines/bfloat16.py",
        "return x.to(dtype) @ weight.to(dtype).t()",
        "return (x @ weight.t()).to(dtype)",
        (f"{BFLOAT16}::test_products_are_those_of_rounded_numbers_with_exact_sums",),
    ),
    Mutant(
        "bf16: cached keys stay fp32",
        "engines/bfloat16.py",
        "return _convert_cache(memory, torch.bfloat16)",
        "return memory",
        (f"{BFLOAT16}::test_logits_are_in_single_precision_and_keys_are_cached_in_bf16",),
    ),
    Mutant(
        "graphs: an output is the tensor that the next replay overwrites",
        "engines/graphs/runner.py",
        "recorded.output[:rows].clone()",
        "recorded.output[:rows]",
        (f"{GRAPHS}/test_stack.py::test_hidden_vectors_are_not_overwritten_by_the_next_step",),
    ),
    Mutant(
        "graphs: recordings of a smaller storage are replayed",
        "engines/graphs/runner.py",
        "            self._recordings.clear()",
        "            pass",
        (f"{GRAPHS}/test_stack.py::test_any_order_of_steps_gives_what_the_modules_give",),
    ),
    Mutant(
        "graphs: two states write to one page",
        "engines/graphs/pages.py",
        "is_first & (self._used[pages] == used)",
        "is_first",
        (f"{GRAPHS}/test_pages.py::test_a_page_is_copied_where_two_states_write",),
    ),
    Mutant(
        "graphs: pages are never free again",
        "engines/graphs/pages.py",
        "        self._released.append(pages)",
        "        pass",
        (f"{GRAPHS}/test_pages.py::test_pages_are_free_when_no_state_refers_to_them",),
    ),
    Mutant(
        "graphs: keys of the earlier owner of a page are seen",
        "engines/graphs/state.py",
        "return torch.where(columns < self.lengths.unsqueeze(1), positions, -1)",
        "return positions",
        (f"{GRAPHS}/test_stack.py::test_any_order_of_steps_gives_what_the_modules_give",),
    ),
    Mutant(
        "native: the default rounds",
        "engines/select_engine.py",
        'return "native-float32" if has_library and is_single',
        'return "native" if has_library and is_single',
        (f"{ARRANGE}::test_the_default_is_native_code_that_rounds_nothing",),
    ),
    Mutant(
        "native: models of any size are copied",
        "engines/select_engine.py",
        " and size <= _MAX_COPIED_BYTES",
        "",
        (f"{ARRANGE}::test_the_default_is_native_code_that_rounds_nothing",),
    ),
    Mutant(
        "native: a copy frees the matrix of its original",
        "engines/native/linear.py",
        'return {**self.__dict__, "_packed": None}',
        "return self.__dict__",
        ("tests/unit/native/test_products.py::test_a_native_map_is_the_map_of_pytorch",),
    ),
    Mutant(
        "native: the state stays in the order before the last of several steps",
        "generation/continuous_batch.py",
        "        self._reorder_state([result.beams])\n        return finished",
        "        return finished",
        (f"{STEPS}::test_several_steps_in_one_call_find_the_same",),
    ),
    Mutant(
        "native: several steps in one call though each step has a callback",
        "generation/beam_decoding.py",
        "is_known = self.on_step is None and self.pipeline.is_supported_by_engines",
        "is_known = self.pipeline.is_supported_by_engines",
        (f"{STEPS}::test_several_steps_in_one_call_are_for_searches_that_engines_know",),
    ),
    Mutant(
        "native: log-probabilities are those after penalties",
        "generation/beam_decoding.py",
        ("offsets, model_logits=(logits, log_normalizers)\n        )\n        candidates"),
        ("offsets, model_logits=(processed, log_normalizers))\n        candidates"),
        (f"{STEPS}::test_hypotheses_are_the_same",),
    ),
    Mutant(
        "native: any library will do",
        "native.py",
        "if module.INTERFACE != _INTERFACE_VERSION:",
        "if not module.INTERFACE == module.INTERFACE:",
        ("tests/unit/native/test_engine.py::test_a_library_of_another_version_or_in_pieces_says_what_to_do",),
    ),
)
RULES = "tests/unit/data/test_rules.py"
SIEVE = "tests/unit/tasks/test_sieve.py"
FILTER = "tests/unit/cli/test_filter.py"
BACK = "tests/unit/cli/test_backtranslate.py"
SPLIT = "tests/unit/cli/test_split.py"

CORPORA = (
    Mutant(
        "filter: a pair at the bar falls",
        "tasks/translation/corpus_filter.py",
        "not score >= min_score",
        "not score > min_score",
        (SIEVE,),
    ),
    Mutant(
        "filter: a share is rounded down",
        "tasks/translation/corpus_filter.py",
        "ceil(threshold.share",
        "int(threshold.share",
        (SIEVE,),
    ),
    Mutant(
        "filter: examples are the first ones",
        "tasks/translation/corpus_filter.py",
        ("num_seen[number] * _MAX_SHOWN >= len(shown_rows[number]) * counts[number]\n            and"),
        "",
        (SIEVE,),
    ),
    Mutant(
        "filter: what models say of no pair is their worst",
        "tasks/translation/corpus_filter.py",
        "unread_number if isnan(score) else low_number",
        "low_number",
        (SIEVE,),
    ),
    Mutant(
        "filter: models need not agree",
        "tasks/translation/corpus_filter.py",
        "abs(entropies[0] - entropies[1]) + sum(entropies) / 2",
        "sum(entropies) / 2",
        (SIEVE,),
    ),
    Mutant(
        "filter: the model back is asked for the way there",
        "tasks/translation/corpus_filter.py",
        "backward.score([reversed_pairs[index]",
        "backward.score([pairs[index]",
        (SIEVE,),
    ),
    Mutant(
        "filter: languages are exchanged",
        "data/detect/pair_checks.py",
        "(source, target) == expected[::-1]:",
        "(source, target) == expected:",
        (RULES,),
    ),
    Mutant(
        "filter: repeated numbers count once",
        "data/detect/pair_checks.py",
        "return sorted(_NON_DIGITS",
        "return set(_NON_DIGITS",
        (RULES,),
    ),
    Mutant(
        "filter: every language is as long as the other",
        "data/detect/pair_checks.py",
        "median_ratio = find_median(counts)",
        "median_ratio = 0",
        (RULES,),
    ),
    Mutant(
        "filter: the median lies too low",
        "data/detect/pair_checks.py",
        "if cumulative > half_total:",
        "if cumulative >= half_total:",
        (RULES,),
    ),
    Mutant(
        "filter: a rule that is skipped is asked",
        "cli/data_commands.py",
        "disabled = {*args.skip, *(",
        "disabled = {*(",
        (FILTER,),
    ),
    Mutant(
        "filter: what is rejected stays",
        "cli/data_commands.py",
        ("                saver.write_example(example.raw)\n            elif"),
        (
            "                saver.write_example(example.raw)\n"
            "            saver.write_example(example.raw)\n"
            "            if"
        ),
        (FILTER,),
    ),
    Mutant(
        "backtranslate: chance begins anew", "cli/translation_commands.py", "start=num_done + 1)", "start=1)", (BACK,)
    ),
    Mutant(
        "backtranslate: a torn line stays", "cli/translation_commands.py", "            file.truncate()\n", "", (BACK,)
    ),
    Mutant(
        "backtranslate: another tag is gone on with",
        "cli/translation_commands.py",
        ' or not line.startswith((tag, b"\\t"))',
        "",
        (BACK,),
    ),
    Mutant(
        "split: parts have the usual sizes",
        "data/detect/hash_sample.py",
        "[sizes.get(part) for part in",
        "[None for part in",
        (SPLIT,),
    ),
)


DESCENT = "tests/unit/data/test_descent.py"
SEVERAL = "tests/unit/runs/test_several.py"
MIXING = "tests/unit/data/test_mixing.py"
BEGUN_ANEW = "tests/unit/runs/test_going_on.py::test_each_table_of_a_new_vocabulary_descends_from_its_own"
MOVED = "tests/unit/runs/test_going_on.py::test_rehearsed_text_may_move_and_must_be_there"
GOING_ON = (
    Mutant(
        "a piece inside a word begins as pieces that begin words",
        "data/word_vectors.py",
        "return [self._continuing_ids.get(letters, ids[0]), *ids[1:]] if letters else ids[1:]",
        "return ids",
        (DESCENT,),
    ),
    Mutant(
        "every epoch rehearses the same examples",
        "data/batches.py",
        "first, last = epoch * num_selected, (epoch + 1) * num_selected",
        "first, last = 0, num_selected",
        (MIXING,),
    ),
    Mutant(
        "what is rehearsed is a share of the new text alone",
        "tasks/translation/recipe.py",
        "rehearsed_amount = sum(own_tokens) / (1 - self.rehearse.share) * self.rehearse.share",
        "rehearsed_amount = sum(own_tokens) * self.rehearse.share",
        (SEVERAL,),
    ),
    Mutant(
        "the table of the target descends from that of the source",
        "runs/initialization.py",
        "descents[file].map_rows(",
        "descents[files[0]].map_rows(",
        (BEGUN_ANEW,),
    ),
    Mutant(
        "rehearsed text that has moved is another text",
        "runs/prepare.py",
        "for key in data.get_tables(part)",
        "for key in (part,)",
        (MOVED,),
    ),
)

IN_DOCUMENTS = (
    Mutant(
        "documents: another name is the same document",
        "data/context.py",
        "(has_ended or pair.document != name)",
        "has_ended",
        (CONTEXT,),
    ),
    Mutant(
        "documents: an empty line ends none",
        "data/context.py",
        ("            previous.append(line)\n        else:\n            previous.clear()"),
        "            previous.append(line)",
        (CONTEXT,),
    ),
    Mutant(
        "documents: the nearest is cut",
        "data/context.py",
        "*ids[num_dropped:]",
        "*ids[: len(ids) - num_dropped]",
        (CONTEXT,),
    ),
    Mutant(
        "documents: what a sentence follows stands before its tags",
        "data/context.py",
        "[*encoded.ids[:num_tags], *ids[num_dropped:], *encoded.ids[num_tags:]]",
        "[*ids[num_dropped:], *encoded.ids]",
        (CONTEXT,),
    ),
    Mutant(
        "documents: what is not translated is not followed",
        "data/context.py",
        ("        if pair.source:\n            previous.append(pair.source)"),
        ("        if pair.target:\n            previous.append(pair.source)"),
        (CONTEXT,),
    ),
    Mutant(
        "documents: a sentence is left out for what it follows",
        "data/corpus.py",
        "EncodedText(ids), context, max_pieces=max_length - 1)",
        "EncodedText(ids), context, max_pieces=max_length)",
        (CONTEXT,),
    ),
    Mutant(
        "documents: links count words before the sentence",
        "data/word_alignments.py",
        "map_context_pieces_to_words(tokenizer, pair.source, list(source_ids)[:-1])",
        "map_pieces_to_words(tokenizer, pair.source)",
        (CONTEXT,),
    ),
    Mutant(
        "documents: they go on in the next file",
        "data/readers.py",
        "_SingleFilePairs(reader, str(index)) for",
        "reader for",
        (CONTEXT,),
    ),
    Mutant(
        "documents: lengths count what a sentence follows",
        "tasks/translation/translator.py",
        "num_tokens = len(self._source_reader.own_positions(part.tokens)) + 1",
        "num_tokens = len(part.tokens) + 1",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: alignments begin with what a sentence follows",
        "tasks/translation/translator.py",
        "rows, columns = slice(len(target) + 1), [*source_positions, len(source)]",
        "rows, columns = slice(len(target) + 1), slice(len(source_positions) + 1)",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: parts follow what the sentence follows",
        "tasks/translation/source_reader.py",
        "attach_context(sentences[index], sentences[max(0, index - self.context) : index])",
        "attach_context(sentences[index], get_context(sentence))",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: more is read than was learned of",
        "tasks/translation/source_reader.py",
        "previous[-self.context :]",
        "previous",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: a model reads what the measured run reads",
        "tasks/translation/evaluation.py",
        "zip(add_context(self._all_pairs, max_sentences=num_sentences), self._is_complete, strict=True)",
        "zip(self._all_pairs, self._is_complete, strict=True)",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: each sentence is one",
        "tasks/translation/evaluation.py",
        "if 1 < len(documents := self._join_documents(answers.texts)) < self.size:",
        "if 1 < len(documents := self._join_documents(answers.texts)):",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: files are followed by their gaps alone",
        "tasks/translation/document_translation.py",
        "_list_previous_sources(translatable, document.units",
        "_list_previous_sources(requested, document.units",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: sentences of a segment do not follow each other",
        "tasks/translation/markup_translation.py",
        "if (text := protect_codes(frame.core).text).strip():",
        "if index < len(previous) and (text := protect_codes(frame.core).text).strip():",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: what is encoded stays for another context",
        "tasks/translation/recipe.py",
        ("*self.languages,\n            *context,\n        ]"),
        "*self.languages]",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: lines stand by themselves",
        "tasks/translation/translations.py",
        "yield replace(sentence, before=get_context(with_context))",
        "yield sentence",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: back-translation forgets where they end",
        "cli/translation_commands.py",
        ('"" if not line.strip() else line for line in read_lines(args.text))\n    return (sentence'),
        ("line for line in read_lines(args.text) if line.strip())\n    return (sentence"),
        (IN_ORDER,),
    ),
)

TAGGED = (
    Mutant(
        "what is turned back keeps its sides",
        "data/readers.py",
        "pair._replace(source=pair.target, target=pair.source, links=links)",
        "pair._replace(links=links)",
        (SEVERAL,),
    ),
    Mutant(
        "published vocabularies: a language stands before a text twice",
        "data/pretrained_tokenizers.py",
        "others = [number for number in self.prefix_ids if number not in self.tag_ids.values()]",
        "others = list(self.prefix_ids)",
        (f"{PUBLISHED}::test_languages_stand_before_texts",),
    ),
    Mutant(
        "published vocabularies: all special pieces have the numbers of the model",
        "foreign/families/model_family.py",
        "return ids | {piece: number for number, piece in enumerate(self.first)}",
        "return ids",
        (f"{PUBLISHED}::test_the_same_tokens_as_in_transformers",),
    ),
    Mutant(
        "published vocabularies: a Llama begins with the end",
        "foreign/folder_files.py",
        "document_bos=start if begins_documents and start != eos else None,",
        "document_bos=None,",
        (f"{PUBLISHED}::test_llama_writes_behind_its_first_token",),
    ),
    Mutant(
        "trimmed vocabularies: pieces that are merged later are left out",
        "data/vocabulary_trimming.py",
        "        _add_merged_parts(tokenizer, needed)",
        "        pass",
        ("tests/reference/test_trimmed_vocabularies.py",),
    ),
    Mutant(
        "trimmed vocabularies: the last tables keep their rows",
        "runs/export.py",
        'rows = kept_ids[0 if name.startswith("encoder.") else -1]',
        "rows = torch.arange(new)",
        ("tests/reference/test_trimmed_vocabularies.py",),
    ),
    Mutant(
        "BPE-dropout: the last merge is made first",
        "data/subword_sampling.py",
        "for _, position in sorted(merges))",
        "for _, position in sorted(merges, reverse=True))",
        (SAMPLED,),
    ),
    Mutant(
        "subword regularisation: all splits are alike",
        "data/subword_sampling.py",
        "(start, totals[start] + weight)",
        "(start, totals[start])",
        (SAMPLED,),
    ),
    Mutant(
        "sampled pieces: validation is sampled too",
        "data/subword_sampling.py",
        "if corpus is not train:",
        "if False:",
        (SAMPLED,),
    ),
    Mutant(
        "subword-nmt: a merge drops what stands before it",
        "data/adopted_tokenizers.py",
        "                    merged[-1] = first + second",
        "                    merged = [first + second]",
        ("tests/unit/data/test_adopted_tokenizers.py",),
    ),
    Mutant(
        "a frozen output table gets a gradient",
        "models/predictions.py",
        "d_weight = torch.zeros_like(weight) if wants_weight else None",
        "d_weight = torch.zeros_like(weight)",
        ("tests/reference/test_likelihood.py",),
    ),
    Mutant(
        "tags are read where they were learned, and not asked for",
        "tasks/translation/translator.py",
        "translator.source = self.source.with_tags([tag for tag in tags if tag not in target_tags])",
        "translator.source = self.source",
        (SEVERAL,),
    ),
    Mutant(
        "answers of several directions come in the order of the directions",
        "tasks/translation/evaluation.py",
        "results.update(zip(indices, answers, strict=True))",
        "results.update(zip(range(len(results), len(results) + len(indices)), answers, strict=True))",
        (SEVERAL,),
    ),
    Mutant(
        "temperature makes large texts larger",
        "recipes/parallel_data.py",
        "count ** (1 / table.temperature)",
        "count**table.temperature",
        (SEVERAL,),
    ),
    Mutant(
        "every source has a tag for the first language",
        "recipes/parallel_data.py",
        "tags = [*([format_language_tag(target)] if add_language_tag",
        "tags = [*([format_language_tag(self.target_language or target)] if add_language_tag",
        (SEVERAL,),
    ),
    Mutant(
        "a model may write a tag",
        "data/tokenizers.py",
        "others=frozenset((PAD, *tags.values()))",
        "others=frozenset((PAD,))",
        ("tests/unit/data/test_tags.py",),
    ),
    Mutant(
        "a vocabulary forgets its tags when it is stored",
        "data/tokenizer_files.py",
        'tags, kind = record.get("tags", []), str(',
        "tags, kind = [], str(",
        ("tests/unit/data/test_tags.py",),
    ),
)

TRANSLATORS = (
    Mutant(
        "obsolete messages hand their comments on",
        "localisation/po_document.py",
        "entry, current = _PoEntry(start + len(line)), None",
        "entry, current = entry, None",
        ("tests/unit/localisation/test_po.py",),
    ),
    Mutant(
        "a subtitle's number needs an empty line before it",
        "localisation/srt_document.py",
        ("is_number = (\n        index == times - 1\n        or index"),
        "is_number = (\n        index",
        ("tests/unit/localisation/test_srt.py",),
    ),
    Mutant(
        "times that are broken are translated",
        "localisation/srt_document.py",
        "if broken is not None:",
        "if False:",
        ("tests/unit/localisation/test_srt.py",),
    ),
    Mutant(
        "a space stands beside the end of a line",
        "localisation/markup_projection.py",
        "if left is None or _is_break_part(left) or _is_break_part(right):",
        "if left is None:",
        (PROTECTION,),
    ),
    Mutant(
        "a message of several forms ends where its line does",
        "localisation/placeholders.py",
        (
            "return MESSAGE_NAME, self._unquoted_closing_braces.get(brace) or self._closing_braces.get(brace) or len(\n"
            "                self._text\n"
            "            )"
        ),
        'return MESSAGE_NAME, (self._text + "\\n").index("\\n", brace)',
        (PROTECTION,),
    ),
    Mutant(
        "the forms of a message are translated with its key words",
        "tasks/translation/markup_translation.py",
        ("    if has_message(segment):\n        return SegmentResult(None, Strategy.FORMS)\n"),
        "",
        (PROTECTING,),
    ),
    Mutant(
        "what no rule knows is not counted",
        "tasks/translation/markup_translation.py",
        ("count_missing_codes(segment, target),\n        tuple(list_unknown_marks(segment))"),
        "count_missing_codes(segment, target)",
        (PROTECTING,),
    ),
    Mutant(
        "an accelerator goes before any letter, wherever in a word",
        "localisation/placeholders.py",
        'for pattern in (rf"\\b{escaped_letter}", escaped_letter,',
        "for pattern in (escaped_letter,",
        (PROTECTION,),
    ),
    Mutant(
        "codes of text files are taken for encodings of documents",
        "localisation/documents.py",
        "if encoding not in _DOCUMENT_ENCODINGS:",
        "if not encoding:",
        (DOCUMENTS,),
    ),
    Mutant(
        "a document type ends in its comments",
        "localisation/xml_elements.py",
        r"(?:\[(?:<!--.*?-->|<\?.*?\?>|<!(?:[^>\"']|\"[^\"]*\"|'[^']*')*+>|[^\]<])*+\]\s*)?>",
        r"(?:\[.*?\]\s*)?>",
        (DOCUMENTS,),
    ),
    Mutant(
        "pairs are read however deep they are",
        "localisation/segments.py",
        "if len(self._levels) >= MAX_DEPTH:",
        "if False:",
        ("tests/unit/localisation/test_segments.py",),
    ),
    Mutant(
        "a placeholder that a model makes up passes for kept",
        "localisation/protection.py",
        "if count_missing_codes(source, target) or any(name != NUMBER_NAME for name, _ in added):",
        "if count_missing_codes(source, target):",
        (PROTECTION,),
    ),
    Mutant(
        "pairs of tags are put around each other's words",
        "localisation/markup_projection.py",
        (
            "if any(\n"
            "                    begin_other < stop and start < end_other\n"
            "                    for begin_other, end_other in occupied\n"
            "                    if begin_other < end_other\n"
            "                ):"
        ),
        "if False:",
        (PROTECTION,),
    ),
    Mutant(
        "entities of a file's own are expanded",
        "localisation/xml_elements.py",
        "    parser.EntityDeclHandler = reject_entity\n",
        "",
        (DOCUMENTS,),
    ),
    Mutant(
        "a group that is not to be translated is",
        "localisation/xliff_document.py",
        '(xliff_unit.unit.get_inherited("translate") or "yes")',
        '(xliff_unit.unit.get_attribute("translate") or "yes")',
        (UNITS,),
    ),
    Mutant(
        "a part whose end was not read is written as the whole",
        "tasks/translation/markup_translation.py",
        "if translation.cut:",
        "if False:",
        (PROTECTING,),
    ),
)

LETTERS = (
    Mutant(
        "office: runs that differ in their language alone are a pair of codes",
        "localisation/docx_document.py",
        'frozenset(["lang", "noProof", "rPrChange"])',
        'frozenset(["noProof", "rPrChange"])',
        (OFFICE,),
    ),
    Mutant(
        "office: copies of text boxes for older programs are translated",
        "localisation/docx_document.py",
        'frozenset(("Fallback", "del", "moveFrom"))',
        'frozenset(("del", "moveFrom"))',
        (OFFICE,),
    ),
    Mutant(
        "office: results of all fields are text",
        "localisation/docx_document.py",
        "words[0].upper() in _TEXT_FIELDS and ",
        "",
        (OFFICE,),
    ),
    Mutant(
        "office: text of a pair is written with the usual look",
        "localisation/docx_document.py",
        "run_starts.append(raw)",
        "run_starts.append(run_starts[0])",
        (OFFICE,),
    ),
    Mutant(
        "office: a paragraph loses what was filled inside of it",
        "localisation/office_document.py",
        "parts += [self.content.text[start : edit.start], edit.text]",
        "parts += [self.content.text[start : edit.stop]]",
        (OFFICE,),
    ),
    Mutant(
        "office: what was deleted is translated",
        "localisation/odf_document.py",
        '"tracked-changes", "deletion"',
        '"nothing"',
        (OFFICE,),
    ),
    Mutant(
        "office: styles that say who wrote what are looks",
        "localisation/odf_document.py",
        (
            "_EMPTY_PROPERTIES.sub(\n"
            '                "", _INVISIBLE_PROPERTIES.sub("", text[style.inside : style.inside_stop])\n'
            "            )"
        ),
        '_EMPTY_PROPERTIES.sub("", text[style.inside : style.inside_stop])',
        (OFFICE,),
    ),
    Mutant(
        "office: what unpacks to more than is read is unpacked",
        "localisation/office_document.py",
        "if sum(member.file_size for member in members) > MAX_BYTES:",
        "if False:",
        (OFFICE,),
    ),
)

COLUMNS = (
    Mutant(
        "parquet: rows are counted anew in each piece",
        "data/parquet.py",
        "                for source, target, *document in zip(",
        ("                row_number = 0\n                for source, target, *document in zip("),
        (PARQUET,),
    ),
    Mutant(
        "parquet: what is no text is read",
        "data/parquet.py",
        "if not _is_text_type(types[0]):",
        "if False:",
        (PARQUET,),
    ),
    Mutant(
        "parquet: a text of white space is no empty side",
        "data/parquet.py",
        "text is not None and text.strip()",
        "text is not None",
        (PARQUET,),
    ),
    Mutant(
        "parquet: columns that are named are taken in the order of the table",
        "data/parquet.py",
        "names = tuple(columns or shapes[0].texts)",
        "names = tuple(name for name in shapes[0].texts if not columns or name in columns)",
        (PARQUET,),
    ),
    Mutant(
        "parquet: a file is read whole",
        "data/parquet.py",
        "file.iter_batches(_BATCH_ROWS, columns=names)",
        "file.read(columns=names).to_batches()",
        (PARQUET,),
    ),
)

COUNTED_RIGHT = (
    Mutant(
        "accuracy: a word of a translation counts for several terms",
        "tasks/translation/accuracy.py",
        (
            "if remaining[term] and not any(\n"
            "                    span.start < taken_span.stop and taken_span.start < span.stop for taken_span in "
            "spans\n"
            "                ):"
        ),
        "if remaining[term]:",
        (ACCURACY,),
    ),
    Mutant(
        "accuracy: short terms are counted first",
        "tasks/translation/accuracy.py",
        "sorted(remaining, key=len, reverse=True)",
        "sorted(remaining, key=len)",
        (ACCURACY,),
    ),
    Mutant(
        "accuracy: one of the wrong texts may be more probable",
        "tasks/translation/accuracy.py",
        "return all(first.log_probability",
        "return any(first.log_probability",
        (ACCURACY,),
    ),
    Mutant(
        "accuracy: rounding tells apart what is cut into the same pieces",
        "tasks/translation/accuracy.py",
        " and first.tokens != other.tokens",
        "",
        (ACCURACY,),
    ),
    Mutant(
        "accuracy: contrasts that were not read count as wrong",
        "tasks/translation/accuracy.py",
        "is_read = np.array([answer is not None for",
        "is_read = np.array([True for",
        (ACCURACY,),
    ),
    Mutant(
        "accuracy: contrasts get the scores of their neighbours",
        "tasks/translation/evaluation.py",
        "islice(scores, 1 + len(example.wrong))",
        "islice(scores, 2)",
        (ACCURACY_TOLD,),
    ),
    Mutant(
        "accuracy: tags do not stand before the sources of contrasts",
        "cli/options.py",
        "ContrastiveReader(self.contrasts, self.text.direction.source_tags)",
        "ContrastiveReader(self.contrasts)",
        (ACCURACY_TOLD,),
    ),
    Mutant(
        "accuracy: references are counted in the place of translations",
        "tasks/translation/evaluation.py",
        "**self._compute_text_accuracy(answers.texts)",
        "**self._compute_text_accuracy(self.references)",
        (ACCURACY_TOLD,),
    ),
    Mutant(
        "numerals: a number counts for two of the source",
        "metrics/judge.py",
        "            del target_numbers[match]\n",
        "",
        (NUMERALS,),
    ),
    Mutant(
        "numerals: a fraction may be three digits of a whole number behind a nought",
        "metrics/judge.py",
        '        and not runs[0].startswith("0")\n',
        "",
        (NUMERALS,),
    ),
    Mutant(
        "numerals: any run of digits joins the one before it",
        "metrics/judge.py",
        "and len(runs[-1]) == 3",
        "and len(runs[-1]) >= 2",
        (NUMERALS,),
    ),
)
DETACHED = (
    Mutant(
        "detached: long sources look more scattered than short ones",
        "tasks/translation/quality_estimation.py",
        " / np.log(weights.shape[1]))",
        ")",
        (DETACHMENT,),
    ),
    Mutant(
        "detached: rows that do not sum to 1 count more",
        "tasks/translation/quality_estimation.py",
        "shares = shares / np.maximum(shares.sum(1, keepdims=True), np.finfo(np.float64).tiny)",
        "pass",
        (DETACHMENT,),
    ),
    Mutant(
        "detached: a model is doubted where it is surer",
        "tasks/translation/quality_estimation.py",
        "get_certainty(candidate) < self.least",
        "get_certainty(candidate) > self.least",
        (DETACHMENT,),
    ),
    Mutant(
        "detached: the end of what is rare is the other one",
        "tasks/translation/calibration.py",
        "np.quantile(own_scatter, 1 - _SIGN_SHARE)",
        "np.quantile(own_scatter, _SIGN_SHARE)",
        (SIGNED,),
    ),
    Mutant(
        "detached: translations are read beside their own sources",
        "tasks/translation/calibration.py",
        "parts[index - shift][0].candidates[0]",
        "part.candidates[0]",
        (SIGNED,),
    ),
    Mutant(
        "detached: sentences without words take the attention of the next one",
        "tasks/translation/translator.py",
        "            if not part.source_tokens:\n                return part\n            alignment",
        "            alignment",
        (SIGNED,),
    ),
    Mutant(
        "detached: doubts of parts are forgotten",
        "tasks/translation/translations.py",
        "        doubts=tuple(dict.fromkeys(doubt for part in parts for doubt in part.doubts)),\n",
        "",
        (DETACHMENT, SIGNED),
    ),
    Mutant(
        "detached: what others choose is doubted as what the search found first",
        "tasks/translation/translations.py",
        "candidates=candidates, doubts=())",
        "candidates=candidates)",
        ("tests/unit/tasks/test_translations.py",),
    ),
)
JUDGED = (
    Mutant(
        "judges: the candidate is read before its reference",
        "foreign/judges.py",
        "pairs = zip(references, candidates, strict=True)",
        "pairs = zip(candidates, references, strict=True)",
        (JUDGES_OF_OTHERS,),
    ),
    Mutant(
        "judges: tokens that are cut are counted, not sentences",
        "foreign/judges.py",
        "sum(row.num_truncated > 0 for row in rows)",
        "sum(row.num_truncated for row in rows)",
        (JUDGES,),
    ),
    Mutant(
        "judges: a shorter length of the tokenizer counts for nothing",
        "foreign/hugging_face.py",
        "return int(min(value, self.max_positions))",
        "return self.max_positions",
        (JUDGES,),
    ),
    Mutant(
        "judges: of weights in several files one is signed",
        "foreign/judges.py",
        "if len(files) == 1:",
        "if files:",
        (JUDGES,),
    ),
    Mutant(
        "judges: what is no number is a score",
        "foreign/judges.py",
        "if not math.isfinite(score):",
        "if math.isinf(score):",
        (JUDGES,),
    ),
    Mutant(
        "judges: both texts are one segment",
        "foreign/judges.py",
        "[row.segments.count(0) for row in rows]",
        "[len(row.ids) for row in rows]",
        (JUDGES_OF_OTHERS,),
    ),
    Mutant(
        "judges: case counts where it should be left aside",
        "metrics/judge.py",
        "normalise = str.lower if lowercase else str",
        "normalise = str",
        (JUDGED_EXAM,),
    ),
    Mutant(
        "judges: pairs that are left out have the scores of the next ones",
        "tasks/translation/evaluation.py",
        "return [next(scores) if is_complete else None for is_complete in self._is_complete]",
        "return [*scores]",
        (JUDGED_EXAM,),
    ),
    Mutant(
        "judges: what they say is rounded as percents are",
        "tasks/translation/report.py",
        "return _JUDGE_DIGITS if name in self._judge_scores else self.digits",
        "return self.digits",
        (JUDGED_TOLD,),
    ),
    Mutant(
        "judges: what they say is not tested",
        "tasks/translation/report.py",
        '"TER", *_EDIT_RATES, *self._judge_scores)',
        '"TER", *_EDIT_RATES)',
        (JUDGED_TOLD,),
    ),
)

WORTH_READING = (
    Mutant(
        "likeness: short and long sources weigh the same",
        "data/similar_pairs.py",
        "_K1 * (1 - _B + _B * length_ratio)",
        "_K1",
        (NEAREST,),
    ),
    Mutant(
        "likeness: the order of words tells nothing",
        "data/similar_pairs.py",
        "_MAX_NGRAM: Final = 3",
        "_MAX_NGRAM: Final = 1",
        (NEAREST,),
    ),
    Mutant(
        "likeness: the same pair comes again",
        "data/similar_pairs.py",
        "if all(new_pair.pair[:2] != pair.pair[:2] for pair in self.pairs):",
        "if True:",
        (NEAREST,),
    ),
    Mutant(
        "worse and better than sure are exchanged",
        "tasks/translation/error_page.py",
        '"worse than sure": -surprise - _MIN_SURPRISE',
        '"worse than sure": surprise - _MIN_SURPRISE',
        (ERROR_PAGE,),
    ),
    Mutant(
        "what is right is shown among the worst",
        "tasks/translation/error_page.py",
        "for index in order if severity[index] > 0]",
        "for index in order]",
        (ERROR_PAGE,),
    ),
    Mutant(
        "the words that a translation lacks are marked where it has them",
        "tasks/translation/error_page.py",
        'if operation != "equal":',
        'if operation == "equal":',
        (ERROR_PAGE,),
    ),
    Mutant(
        "alignments are given to the next sentence",
        "tasks/translation/evaluation.py",
        "tuple(islice(alignments, len(parts_of_one))),",
        "tuple(islice(alignments, 1, 1 + len(parts_of_one))),",
        (ERROR_PAGE,),
    ),
)

REMEMBERED = (
    Mutant(
        "memory: translations of another region are finished",
        "localisation/translation_memory.py",
        "reusable = (number for number in numbers if self._entries[number].reusable)",
        "reusable = numbers",
        (MEMORY,),
    ),
    Mutant(
        "memory: files of another region count as those of the same",
        "tasks/translation/memory_lookup.py",
        "language is None or expected is None or is_same_variety(language, expected)",
        "True",
        ("tests/unit/cli/test_memory.py",),
    ),
    Mutant(
        "a language alone may be answered in any script before its usual one",
        "language_tags.py",
        "script = wanted.likely_script != other.likely_script",
        "script = wanted.script != other.script",
        ("tests/unit/test_language_tags.py",),
    ),
    Mutant(
        "marks part words",
        "characters.py",
        'return rf"\\w{combining_marks()}"',
        'return r"\\w"',
        (
            "tests/unit/test_characters.py",
            "tests/unit/metrics/test_captions.py",
        ),
    ),
    Mutant(
        "soft hyphens are read",
        "characters.py",
        "[\\u00ad\\u034f",
        "[\\u034f",
        ("tests/unit/data/test_normalisation.py",),
    ),
    Mutant(
        "memory: one rare word fewer is looked up",
        "localisation/translation_memory.py",
        "            if remaining < needed:",
        "            if remaining <= needed:",
        (MEMORY,),
    ),
    Mutant(
        "memory: rapidfuzz leaves out what is just like enough",
        "localisation/translation_memory.py",
        "score_cutoff=max(0.0, self._min_similarity - _RAPIDFUZZ_TOLERANCE)",
        "score_cutoff=max(0.0, self._min_similarity - _SIMILARITY_TOLERANCE)",
        (MEMORY,),
    ),
    Mutant(
        "memory: a translation without a placeholder is taken",
        "localisation/translation_memory.py",
        "            if has_same_codes(segment, target):",
        "            if True:",
        (MEMORY,),
    ),
    Mutant(
        "memory: what is rare among translations is taken",
        "localisation/translation_memory.py",
        "return sorted(reusable, key=self._ranks.__getitem__, reverse=True)",
        "return sorted(reusable, key=self._ranks.__getitem__)",
        (MEMORY,),
    ),
    Mutant(
        "memory: markup counts for nothing where texts are compared",
        "localisation/translation_memory.py",
        "else (part.raw,) for part",
        "else (part.role,) for part",
        (MEMORY,),
    ),
    Mutant(
        "memory: the accelerator of another text is kept",
        "localisation/translation_memory.py",
        "_copy_outer_space(remove_accelerator(self._entries[number].target)[0], source=segment)",
        "_copy_outer_space(self._entries[number].target, source=segment)",
        (MEMORY,),
    ),
    Mutant(
        "memory: letters do not decide",
        "localisation/translation_memory.py",
        "key=lambda index: (letter_similarity(text, self._texts[index]), self._ranks[index])",
        "key=lambda index: self._ranks[index]",
        (MEMORY,),
    ),
    Mutant(
        "memory: a message of which a machine made one form counts as finished",
        "localisation/po_document.py",
        "if number not in matches or matches[number].exact_target is None:",
        "if not any(each.exact_target for each in matches.values()):",
        (MEMORY,),
    ),
    Mutant(
        "memory: all candidates are those of the first segment",
        "localisation/xliff_document.py",
        'attributes = f\'ref="#{name}" similarity',
        'attributes = f\'ref="#{unit_matches[0][0].unit.get_attribute("id")}" similarity',
        (MEMORY,),
    ),
    Mutant(
        "memory: lines after one that is taken are numbered and drawn as others",
        "tasks/translation/memory_lookup.py",
        'TranslationInput("") if _is_exact(match) else input_ for input_, match in zip(inputs, matches, strict=True)',
        "input_ for input_, match in zip(inputs, matches, strict=True) if not _is_exact(match)",
        (MEMORY_COMMAND,),
    ),
    Mutant(
        "memory: what is taken is translated too",
        "tasks/translation/document_translation.py",
        "iter_chunks((number for number in requested if number not in targets), _CHUNK_SIZE)",
        "iter_chunks(requested, _CHUNK_SIZE)",
        (MEMORY_COMMAND,),
    ),
    Mutant(
        "memory: of a TMX with two languages the wrong one is read",
        "tasks/translation/memory_lookup.py",
        ("(other_languages[0] if target else None),\n            target or"),
        "(available[0] if target else None), target or",
        (MEMORY_COMMAND,),
    ),
    Mutant(
        "memory: a file of another language is taken",
        "tasks/translation/memory_lookup.py",
        "and not is_same_language(language, expected):",
        "and is_same_language(language, expected):",
        (MEMORY_COMMAND,),
    ),
    Mutant(
        "a file's own language goes before the one that was asked for",
        "cli/options.py",
        "if target is None and document is not None and predictor.languages:",
        "if document is not None and predictor.languages:",
        (MEMORY_COMMAND,),
    ),
)

CONSTRAINED = (
    Mutant(
        "bans: what is forbidden makes the rest more probable",
        "generation/beam_decoding.py",
        "    processed = pipeline.apply_masks(processed, pipeline_state)",
        (
            "    processed = pipeline.apply_masks(processed, pipeline_state)\n"
            "    ranking_normalizers = compute_logsumexp(processed)"
        ),
        (f"{BANS}::test_no_n_gram_comes_twice",),
    ),
    Mutant(
        "bans: a text may end in a forbidden word",
        "generation/logits_masks.py",
        "row[self._eos] = _FORBIDDEN",
        "pass",
        (f"{BANS}::test_forbidden_words_come_in_no_cutting_and_everything_else_may",),
    ),
    Mutant(
        "terms: a hypothesis ends before it holds all",
        "generation/lexical_constraints.py",
        "if token != self.eos or progress[beam].is_complete",
        "if True",
        (f"{TERMS}::test_equals_the_longhand_search",),
    ),
    Mutant(
        "terms: a longer word holds a term",
        "generation/lexical_constraints.py",
        "met_terms = self.met_terms if token in continuation_ids else self.satisfied_terms",
        "met_terms = self.satisfied_terms",
        (f"{TERMS}::test_equals_the_longhand_search",),
    ),
)
GROUPS = "tests/unit/generation/test_groups.py"
COVERAGE = "tests/unit/generation/test_coverage.py"
WEIGHED = "tests/unit/cli/test_weighed.py"
RERANK = "tests/unit/cli/test_rerank.py"
TUNING = "tests/unit/tasks/test_tuning.py"
CHOSEN = (
    Mutant(
        "groups: what a group avoids stays in its scores",
        "generation/beam_decoding.py",
        "totals=candidates.totals + diversity_penalty.gather(1, candidates.ids)",
        "totals=candidates.totals",
        (GROUPS,),
    ),
    Mutant(
        "groups: hypotheses that have ended count as tokens taken",
        "generation/diverse_beam_decoding.py",
        "(selected.totals > -math.inf) & ~selected.ends & ~group.beam_state.done.unsqueeze(1)",
        "selected.totals.isfinite() | True",
        (GROUPS,),
    ),
    Mutant(
        "groups: a group takes its continuations by the model's order",
        "generation/beam_decoding.py",
        "candidates.ends & (torch.arange(2 * width, device=candidates.ends.device) < width)",
        "candidates.ends",
        (GROUPS,),
    ),
    Mutant(
        "groups: texts of several groups come several times",
        "generation/diverse_beam_decoding.py",
        "scores.masked_fill(is_duplicate, -math.inf)",
        "scores",
        (GROUPS,),
    ),
    Mutant(
        "groups: beams of all groups go on from those of the first",
        "generation/diverse_beam_decoding.py",
        "selected.beams + number * group_width",
        "selected.beams",
        (GROUPS,),
    ),
    Mutant(
        "groups: bans of one group overwrite what the others are given",
        "generation/diverse_beam_decoding.py",
        "logits if number == len(self.groups) - 1 else logits.clone()",
        "logits",
        (GROUPS,),
    ),
    Mutant(
        "coverage: what got more than one token's attention counts more",
        "generation/search.py",
        ".clamp(_MIN_ATTENTION, 1)",
        ".clamp(_MIN_ATTENTION)",
        (COVERAGE,),
    ),
    Mutant(
        "coverage: what was cut goes before what ended",
        "generation/search.py",
        "(not hypothesis.finished, -score, index)",
        "(-score, index)",
        (COVERAGE,),
    ),
    Mutant(
        "options: what is not set has a rule too",
        "tasks/search_factory.py",
        "and value != field.default:",
        "and value is not None:",
        (f"{SEARCH_OPTIONS}::test_a_new_option_needs_only_its_key_and_its_filter",),
    ),
    Mutant(
        "options: an option of one kind does not imply it",
        "recipes/generation.py",
        "if [kind] in owners_of_keys)",
        "if [kind] == owners_of_keys)",
        (f"{SEARCH_OPTIONS}::test_an_option_of_one_kind_implies_it",),
    ),
    Mutant(
        "options: requests have no bounds of the server",
        "serving/routes.py",
        "if option.value_type in (int, float) and not any(",
        "if option.value_type in (int, float) and any(",
        (f"{SEARCH_OPTIONS}::test_requests_have_the_bounds_of_recipes_and_of_the_server",),
    ),
    Mutant(
        "help: flags that are off show a default",
        "cli/arguments.py",
        "if option.value_type is None or option.default in",
        "if option.default in",
        ("tests/unit/cli/test_arguments.py::test_help_shows_types_defaults_and_groups",),
    ),
    Mutant(
        "coverage: the beam holds no more than is told",
        "tasks/search_factory.py",
        (
            "CoverageReranker(\n"
            "                _build_base_search(config, tokenizer, n_best=max(width, n_best), seed=seed), "
            "coverage_weight, n_best\n"
            "            )"
        ),
        "CoverageReranker(_build_base_search(config, tokenizer, n_best=n_best, seed=seed), coverage_weight, n_best)",
        (WEIGHED,),
    ),
    Mutant(
        "ranked anew, the model stands where it stood",
        "generation/results.py",
        "rows = [first + index for",
        "rows = [first for",
        (COVERAGE,),
    ),
    Mutant(
        "rerank: the language model never sees an end",
        "cli/rerank.py",
        "language_model.surprise(texts, ended=True,",
        "language_model.surprise(texts, ended=False,",
        (RERANK,),
    ),
    Mutant(
        "rerank: the reverse model is asked for the way there",
        "tasks/translation/noisy_channel.py",
        (
            "(candidate.text, translation.source)\n"
            "                for translation in translations\n"
            "                for candidate in translation.candidates\n"
            "            )\n"
            "        )"
        ),
        "(translation.source, candidate.text) for translation in translations for candidate in "
        "translation.candidates))",
        (RERANK,),
    ),
    Mutant(
        "rerank: usual weights go before those of a file",
        "cli/rerank.py",
        "DEFAULT_WEIGHTS if args.weights is None else read_channel_weights(args.weights)",
        "DEFAULT_WEIGHTS",
        (RERANK,),
    ),
    Mutant(
        "tuning: what is told of other text is measured on the same half",
        "tasks/translation/noisy_channel.py",
        "(halves[1 - index], lists.optimize_weights(free, half))",
        "(half, lists.optimize_weights(free, half))",
        (TUNING,),
    ),
    Mutant(
        "tuning: weights stay where they began",
        "tasks/translation/noisy_channel.py",
        "                    weights, value = candidates[scores.argmax()], float(scores.max())",
        "                    value = float(scores.max())",
        (TUNING,),
    ),
)

LINKS = "tests/unit/data/test_links.py"
GUIDANCE = "tests/unit/tasks/test_guidance.py"
GUIDED = "tests/unit/cli/test_guided.py"

ALIGNED = (
    Mutant(
        "links: a number beyond the words is none",
        "data/word_alignments.py",
        "if index >= count:",
        "if index > count:",
        (LINKS,),
    ),
    Mutant(
        "links: those of a pair that is dropped go to the next",
        "data/word_alignments.py",
        "return (*sides, np.array([*piece_links, *ends]))",
        "return (*sides, np.array([*piece_links, *ends]) if source_ids and target_ids else np.empty((0, 2)))",
        (LINKS,),
    ),
    Mutant(
        "links: spaces are parts of words",
        "data/word_alignments.py",
        "word_indices.append(-1)",
        "word_indices.append(word)",
        (LINKS,),
    ),
    Mutant(
        "links: labels share what other rows have",
        "data/word_alignments.py",
        "np.unique(np.stack([row, target]), axis=1,",
        "np.unique(np.stack([target]), axis=1,",
        (LINKS,),
    ),
    Mutant(
        "links: a label has as many shares as links",
        "data/word_alignments.py",
        "weights = (1 / counts[label.reshape(-1)])",
        "weights = (0 * counts[label.reshape(-1)] + 1)",
        (LINKS,),
    ),
    Mutant(
        "records: empty fields are written",
        "tasks/predictor.py",
        "Field(exclude_if=operator.not_)",
        "Field()",
        ("tests/unit/tasks/test_records.py",),
    ),
    Mutant(
        "records: fields that were not set are written",
        "tasks/predictor.py",
        "exclude_unset=True",
        "exclude_unset=False",
        ("tests/unit/tasks/test_records.py",),
    ),
    Mutant(
        "guidance: the first layer is guided",
        "tasks/translation/guided_alignment.py",
        "layer = len(attentions) - 1 if config.layer is None",
        "layer = 0 if config.layer is None",
        (GUIDANCE,),
    ),
    Mutant(
        "guidance: no gradient",
        "tasks/translation/guided_alignment.py",
        "watch_attention(model, detach=False, paths={guided.path})",
        "watch_attention(model, paths={guided.path})",
        (GUIDANCE,),
    ),
    Mutant(
        "guidance: a chance of nothing has no logarithm",
        "tasks/translation/guided_alignment.py",
        ".float().clamp_min(_MIN_WEIGHT)",
        ".float()",
        (GUIDANCE,),
    ),
    Mutant(
        "guidance: links are asked of the mean of heads",
        "tasks/translation/translator.py",
        "_attention_to_numpy(attention_calls[guided_attention.path], guided_attention.head)",
        "_attention_to_numpy(attention_calls[guided_attention.path], None)",
        (GUIDED,),
    ),
    Mutant(
        "guidance: links of pieces take places in batches",
        "tasks/translation/task.py",
        'UnitNames(examples="sentences", contents_side="target")',
        'UnitNames(examples="sentences")',
        (GUIDED,),
    ),
)
ANNOTATION = "tests/unit/tasks/test_annotation.py"
ANNOTATE = "tests/unit/cli/test_annotate.py"

ANNOTATED = (
    Mutant(
        "annotation: the target need not have the term",
        "tasks/translation/glossary.py",
        "if contains_term(target, self.glossary.entries[occurrence[1]])",
        "if True",
        (ANNOTATION,),
    ),
    Mutant(
        "annotation: a mark that stands there already is no matter",
        "tasks/translation/glossary.py",
        "if not occurrences or any(mark in text for mark in (marks.begin, marks.between, marks.end)):",
        "if not occurrences:",
        (ANNOTATION,),
    ),
    Mutant(
        "annotation: endings may be as long as they like",
        "tasks/translation/glossary.py",
        "stem_length >= _MIN_STEM and longer - stem_length <= _MAX_ENDING",
        "stem_length >= _MIN_STEM",
        (ANNOTATION,),
    ),
    Mutant(
        "annotation: accents count",
        "tasks/translation/glossary.py",
        "if not unicodedata.combining(letter)",
        "if True",
        (ANNOTATION,),
    ),
    Mutant(
        "annotation: letters that make no spaces are not looked for",
        "tasks/translation/glossary.py",
        (
            "yield from (\n"
            "        range(start, start + len(term))\n"
            "        for start in find_term(to_lowercase_same_length(term), to_lowercase_same_length(text))\n"
            "    )"
        ),
        "yield from ()",
        (ANNOTATION,),
    ),
    Mutant(
        "annotation: terms come in the order of their lengths",
        "tasks/translation/glossary.py",
        "return sorted(self._select_occurrences(sentence))",
        "return list(self._select_occurrences(sentence))",
        (ANNOTATION,),
    ),
    Mutant(
        "annotation: all pairs draw alike",
        "cli/translation_commands.py",
        "SeededRandom(self.seed, _ANNOTATION_STREAM, pairs)",
        "SeededRandom(self.seed, _ANNOTATION_STREAM)",
        (ANNOTATE,),
    ),
    Mutant(
        "annotation: a vocabulary that lacks marks will do",
        "cli/translate_options.py",
        "AnnotationMarks().require_known(translator.source)",
        "AnnotationMarks()",
        (ANNOTATE,),
    ),
    Mutant(
        "annotation: terms are forced as well",
        "cli/translate_options.py",
        ("constraints=(*fixed_terms, *sentence.constraints))\n        glossary_terms"),
        (
            "constraints=(*fixed_terms, *sentence.constraints, *glossary.find_terms(sentence.text)))\n"
            "        glossary_terms"
        ),
        (ANNOTATE,),
    ),
)
LOOSE_ENDS = (
    Mutant(
        "loose: reverse model is not told its language",
        "cli/rerank.py",
        "reverse = translator.towards(args.source_language)",
        "reverse = translator.towards(translator.languages[0] if translator.languages else None)",
        (f"{SEVERAL}::test_one_run_translates_and_judges",),
    ),
    Mutant(
        "loose: who reranks ignores --to",
        "cli/rerank.py",
        'translator = args.direction.apply_to(args.computing.load_predictor(Translator, *args.runs, use="translates"))',
        'translator = args.computing.load_predictor(Translator, *args.runs, use="translates")',
        (f"{SEVERAL}::test_one_run_translates_and_judges",),
    ),
    Mutant(
        "loose: a model of one language is asked for one",
        "tasks/translation/evaluation.py",
        "own_tags if translator.languages else _drop_language_tags(own_tags)",
        "own_tags",
        (f"{SEVERAL}::test_one_of_one_language_is_measured_beside_one_of_several",),
    ),
    Mutant(
        "loose: a model of one language forgets all tags",
        "tasks/translation/evaluation.py",
        "tag for tag in tags if not LANGUAGE_TAG.fullmatch(tag)",
        "tag for tag in tags if False",
        (f"{SEVERAL}::test_one_of_one_language_is_measured_beside_one_of_several",),
    ),
    Mutant(
        "loose: annotated terms are torn",
        "tasks/translation/source_reader.py",
        "split_text(get_text(sentence), self._fits, protected=AnnotationMarks().pattern)",
        "split_text(get_text(sentence), self._fits)",
        (ANNOTATE,),
    ),
    Mutant(
        "loose: parts of parts are torn",
        "data/text_splitting.py",
        "split_text(text[start:stop], fits, protected=protected)",
        "split_text(text[start:stop], fits)",
        (PARTS,),
    ),
    Mutant(
        "loose: the border of what is whole is no seam",
        "data/text_splitting.py",
        "range(match.start() + 1, match.end())",
        "range(match.start(), match.end())",
        (PARTS,),
    ),
    Mutant(
        "loose: groups grow from the first group's beams",
        "generation/beam_state.py",
        "self._live.get(beam_step.group, [0])",
        "self._live.get(0, [0])",
        (TREE,),
    ),
    Mutant(
        "loose: beams of a group are in the order of its choice",
        "generation/beam_state.py",
        "sorted(live_nodes, key=lambda number: -self.nodes[number].total)",
        "live_nodes",
        (TREE,),
    ),
    Mutant(
        "loose: the page says that it reads once",
        "data/similar_pairs.py",
        "on_progress(num_pairs + number, 2 * num_pairs)",
        "on_progress(number, num_pairs)",
        ("tests/unit/cli/test_evaluate.py::test_a_page_tells_how_far_it_is",),
    ),
)
ALSO = "tests/unit/cli/test_also.py"
BESIDE = (
    Mutant(
        "new --also: a translation that is held out is learned from beside another source",
        "recipes/auxiliary_data.py",
        "for side, text in enumerate(texts) if text.strip())",
        "for side, text in enumerate(texts[:1]) if text.strip())",
        (f"{ALSO}::test_what_is_held_out_is_left_out_of_the_other_text",),
    ),
    Mutant(
        "new --also: parts that there are already may be learned from",
        "recipes/auxiliary_data.py",
        'if part != "train" or (split',
        'if part == "train" and (split',
        (f"{ALSO}::test_parts_that_there_are_are_held_out_too",),
    ),
    Mutant(
        "new --also: a text keeps its own direction",
        "recipes/auxiliary_data.py",
        "return dataset.swap_sides(), ()",
        "return dataset, ()",
        (
            f"{ALSO}::test_every_form_is_taken_in_the_direction_of_the_main_text",
            f"{ALSO}::test_the_other_direction",
        ),
    ),
    Mutant(
        "new: the languages are exchanged in the recipe",
        "recipes/auxiliary_data.py",
        "zip(_LANGUAGE_KEYS, dataset.direction, strict=True)",
        "zip(_LANGUAGE_KEYS, dataset.direction[::-1], strict=True)",
        ("tests/unit/cli/test_new.py::test_the_recipe_says_the_languages",),
    ),
    Mutant(
        "new: two varieties of one language are no direction",
        "data/detect/parallel.py",
        "tags[0] != tags[1] else None",
        "self.languages[0] != self.languages[1] else None",
        ("tests/unit/cli/test_new.py::test_the_recipe_says_the_languages",),
    ),
    Mutant(
        "new: little evidence is enough for a language",
        "data/detect/languages.py",
        "if probability >= _MIN_PROBABILITY and code",
        "if code",
        ("tests/unit/data/test_languages.py::test_what_cannot_be_told_is_unknown",),
    ),
    Mutant(
        "sharding: each process draws the whole model",
        "runs/train.py",
        "return process_group.is_leader or not is_sharded(run.recipe.training, process_group)",
        "return True",
        ("tests/unit/runs/test_sharding.py::test_only_the_leading_process_builds_weights",),
    ),
    Mutant(
        "server: compressed uploads are unpacked",
        "serving/libretranslate/translation.py",
        "if (compression := detect_compression(upload.content)) is not None:",
        "if (compression := detect_compression(upload.content)) is not None and compression.suffix == '.gz':",
        ("tests/unit/serving/test_libretranslate_files.py",),
    ),
    Mutant(
        "compression: a damaged bzip2 file is a file that cannot be read",
        "compression.py",
        "if error.errno is None:",
        "if error.errno == -1:",
        ("tests/unit/test_compression.py::test_damaged_files_are_refused",),
    ),
    Mutant(
        "compression: names say how files are compressed",
        "compression.py",
        "if beginning.startswith(each.magic)",
        "if each.magic == b'' or beginning[:2] == each.magic",
        ("tests/unit/test_compression.py",),
    ),
    Mutant(
        "languages: texts of a block get the scores of others",
        "data/detect/language_scorer.py",
        "probabilities[block] = self._score_block",
        "probabilities[np.sort(block)] = self._score_block",
        ("tests/unit/data/test_language_scorer.py",),
    ),
    Mutant(
        "languages: an n-gram that occurs often counts in full",
        "data/detect/language_scorer.py",
        "weights = np.log1p(counts, dtype=np.float32)",
        "weights = counts.astype(np.float32)",
        ("tests/unit/data/test_language_scorer.py",),
    ),
    Mutant(
        "filter: a rule judges pairs that an earlier one rejected",
        "tasks/translation/corpus_filter.py",
        "passed = [index for index in passed if numbers[index] == KEPT_NUMBER]",
        "pass",
        ("tests/unit/cli/test_filter.py", RULES),
    ),
    Mutant(
        "new: a language that nobody can identify is taken for another one",
        "data/detect/languages.py",
        "return expected.code in _list_codes()",
        "return True",
        ("tests/unit/data/test_languages.py::test_only_what_is_known_contradicts",),
    ),
    Mutant(
        "filter: languages that are hard to distinguish are distinguished",
        "data/detect/pair_checks.py",
        "return guessed == other_expected and not is_similar_language(guessed, expected)",
        "return guessed == other_expected",
        (RULES,),
    ),
    Mutant(
        "new: forms of Unicode make classes that look alike, without a word",
        "data/detect/label_checks.py",
        'unicodedata.normalize("NFKC", plain).casefold()',
        "plain.casefold()",
        ("tests/unit/cli/test_new.py::test_classes_that_differ_in_writing_are_told",),
    ),
    Mutant(
        "new: one class is enough",
        "data/detect/label_checks.py",
        "if len(label_counts) == 1 and self._balanced:",
        "if not label_counts and self._balanced:",
        ("tests/unit/cli/test_new.py::test_one_class_everywhere_is_told",),
    ),
    Mutant(
        "labels: a percentage is read as a hundred times its share",
        "data/labels.py",
        "value /= 100",
        "value /= 1",
        (
            "tests/unit/cli/test_new.py::test_numbers_are_read_as_people_write_them",
            "tests/unit/cli/test_new.py::test_one_number_everywhere_is_told",
        ),
    ),
    Mutant(
        "csv: the line that names the separator is a row",
        "data/readers.py",
        "table_lines = lines if num_skipped else chain([first], lines)",
        "table_lines = chain([first], lines)",
        ("tests/unit/cli/test_new.py::test_a_first_line_that_names_the_separator_is_no_header",),
    ),
    Mutant(
        "csv: fields are as long as the module wants them",
        "data/readers.py",
        "csv.field_size_limit(_MAX_FIELD_CHARACTERS)",
        "csv.field_size_limit(131_072)",
        ("tests/unit/cli/test_new.py::test_fields_of_csv_are_of_any_length",),
    ),
    Mutant(
        "new: words that a text begins with are taken for labels",
        "data/detect/sniff.py",
        "and all(_LEADING_CLASS.fullmatch(label) for label in counts)",
        "",
        ("tests/unit/cli/test_new.py::test_other_texts_are_not_taken_for_labelled_ones",),
    ),
    Mutant(
        "pretraining: padding counts as right verdicts",
        "tasks/pretraining/objective.py",
        '"right": ((is_detected == is_replaced) & is_token).sum(),',
        '"right": (is_detected == is_replaced).sum(),',
        ("tests/unit/tasks/test_pretraining.py::test_padding_is_no_verdict",),
    ),
    Mutant(
        "language models: ends of lines are counted once a document",
        "tasks/language/evaluation.py",
        "Perplexity(answers.nats, answers.words + answers.lines)",
        "Perplexity(answers.nats, words)",
        (
            "tests/unit/cli/test_generate.py::test_ends_of_lines_count_as_words_where_results_are_published_so",
            "tests/unit/cli/test_generate.py::test_language_models_are_measured_by_words_characters_and_bytes",
        ),
    ),
    Mutant(
        "tokenizers: what is written loses its marks",
        "data/tokenizers.py",
        'normalization_rule_name="identity" if uses_nfc or not normalizes else get_rule_name(lowercase=lowercase),',
        "normalization_rule_name=get_rule_name(lowercase=lowercase),",
        ("tests/unit/data/test_tokenizers.py::test_what_is_written_keeps_its_own_marks",),
    ),
    Mutant(
        "tokenizers: sources of a shared vocabulary keep marks that look like others",
        "data/tokenizers.py",
        "tokenizer.uses_nfkc_first = True",
        "tokenizer.uses_nfkc_first = False",
        ("tests/unit/data/test_tokenizers.py::test_sources_of_a_shared_vocabulary_are_read_alike",),
    ),
    Mutant(
        "translation: the source side forgets its form when a run is loaded",
        "tasks/translation/task.py",
        "source.with_nfkc() if source is target and target.uses_nfc and reads_nfkc else source",
        "source",
        ("tests/unit/tasks/test_translation.py::test_translations_keep_their_marks_and_sources_are_read_alike",),
    ),
    Mutant(
        "metrics: TER's case flag is exchanged",
        "metrics/weighted_sacrebleu.py",
        "self.metric = TER(case_sensitive=not lowercase)",
        "self.metric = TER(case_sensitive=lowercase)",
        ("tests/unit/metrics/test_translation.py::test_edit_rates_leave_case_aside_where_they_are_asked",),
    ),
    Mutant(
        "metrics: Chinese is cut as Japanese is",
        "metrics/translation.py",
        'return "zh" if 10 * kana <= han + kana else "ja-mecab"',
        'return "ja-mecab"',
        (
            "tests/unit/metrics/test_translation.py::test_words_are_cut_as_the_language_of_references_wants",
            "tests/unit/metrics/test_translation.py::test_bleu_of_chinese_counts_words",
        ),
    ),
    Mutant(
        "new: folders do not say languages",
        "data/detect/parallel.py",
        "(folder if has_different_folders else guess_language(",
        "(guess_language(",
        ("tests/unit/cli/test_new.py::test_the_recipe_says_the_languages",),
    ),
    Mutant(
        "new --also: regions make languages that nobody asked for",
        "recipes/auxiliary_data.py",
        "tags[0] if len(tags) == 1 else base_languages[0]",
        "tags[0]",
        (f"{ALSO}::test_the_other_direction",),
    ),
)

LEAST_RISK = "tests/unit/tasks/test_translations.py"
WEIGHED = "tests/unit/cli/test_weighed.py"
RISKED = (
    Mutant(
        "risk of a beam: what was found counts alike",
        "tasks/search_factory.py",
        (
            "None\n"
            "            if isinstance(self.search, SamplingSearch)\n"
            "            else [hypothesis.log_probability for hypothesis in hypotheses]"
        ),
        "None",
        (f"{WEIGHED}::test_risk_of_a_beam_is_among_what_it_holds",),
    ),
    Mutant(
        "risk of a beam: penalties of the search count",
        "tasks/translation/translations.py",
        "[candidate.log_probability for candidate in translation.candidates]",
        "[candidate.score for candidate in translation.candidates]",
        (f"{LEAST_RISK}::test_one_that_is_far_more_probable_than_all_others_is_the_answer",),
    ),
    Mutant(
        "risk of a beam: samples count by their probability, too",
        "tasks/search_factory.py",
        ("None\n            if isinstance(self.search, SamplingSearch)\n            else [hypothesis.log"),
        "[hypothesis.log",
        ("tests/unit/cli/test_mbr.py::test_it_chooses_among_samples",),
    ),
    Mutant(
        "risk of a beam: small probabilities are nothing",
        "tasks/search_factory.py",
        "np.exp(np.array(log_probabilities) - max(log_probabilities))",
        "np.exp(np.array(log_probabilities))",
        (f"{LEAST_RISK}::test_what_a_beam_found_counts_by_its_probability",),
    ),
    Mutant(
        "risk of a beam: equal texts count as the last of them",
        "tasks/search_factory.py",
        "weight_by_text.get(text, 0.0) + weight",
        "weight",
        (f"{LEAST_RISK}::test_what_a_beam_found_counts_by_its_probability",),
    ),
)

THEIR_LANGUAGES = "tests/unit/cli/test_languages_of_others.py"
OTHERS_ASKED = (
    Mutant(
        "languages of others: a sentence that asks by itself is asked for a language",
        "tasks/translation/source_reader.py",
        "and not requested and not in_text:",
        "and not requested:",
        (f"{THEIR_LANGUAGES}::test_a_language_is_asked_for_as_a_text_asks",),
    ),
    Mutant(
        "languages of others: two languages are asked for at once",
        "tasks/translation/source_reader.py",
        "        if requested and in_text:\n",
        "        if False:\n",
        (f"{THEIR_LANGUAGES}::test_on_a_command_line",),
    ),
    Mutant(
        "languages of others: who goes on with one language is asked for it",
        "tasks/translation/task.py",
        "source = source.without_tags()",
        "pass",
        (f"{THEIR_LANGUAGES}::test_who_goes_on_may_ask_or_have_it_forgotten",),
    ),
    Mutant(
        "languages of others: a run forgets that it is asked",
        "data/tokenizer_files.py",
        'if record.get("asks"):',
        "if False:",
        (f"{THEIR_LANGUAGES}::test_a_vocabulary_keeps_whether_it_is_asked",),
    ),
)

WHISPER = "tests/reference/test_whisper.py"
PROMPTED_SPEECH = (
    Mutant(
        "whisper: bands have the height of their triangles",
        "data/sound.py",
        "(triangles * (2 / (peaks[2:] - peaks[:-2])))",
        "triangles",
        (f"{WHISPER}::test_frames_are_those_of_transformers",),
    ),
    Mutant(
        "whisper: the loudest frame of a sound sets no limit",
        "data/sound.py",
        "logarithms.max() - 8.0",
        "logarithms.min()",
        (f"{WHISPER}::test_frames_are_those_of_transformers",),
    ),
    Mutant(
        "whisper: a transcript may begin with its end",
        "tasks/decoder_target.py",
        "return (*completions, *end_bans, *start_bans)",
        "return (*completions, *end_bans)",
        (f"{WHISPER}::test_transcripts_are_those_of_transformers",),
    ),
    Mutant(
        "whisper: the language is that of the first sound of a batch",
        "tasks/speech/prompted.py",
        "logits[:, 0, ids].argmax(1)",
        "logits[:1, 0, ids].argmax(1).expand(rows)",
        (f"{WHISPER}::test_transcripts_are_those_of_transformers",),
    ),
    Mutant(
        "whisper: what is translated is transcribed",
        "tasks/speech/prompted.py",
        '"translate" if self.to_english else "transcribe"',
        '"transcribe"',
        (f"{WHISPER}::test_transcripts_are_those_of_transformers",),
    ),
    Mutant(
        "whisper: long sounds are cut where they are loudest",
        "tasks/speech/prompted.py",
        "energies.argmin()",
        "energies.argmax()",
        (f"{WHISPER}::test_long_sounds_are_read_in_windows",),
    ),
    Mutant(
        "whisper: padding leaks into the second convolution",
        "blocks/convolution.py",
        "torch.where(is_frame.unsqueeze(1), x, 0.0)",
        "x",
        ("tests/laws/test_frame_encoders.py::test_padding_law",),
    ),
)

POINTER = "tests/reference/test_pointer_generator.py"
TUNED_WHISPER = "tests/reference/test_whisper_fine_tuning.py"
SWEEPS = (
    Mutant(
        "sweeps: the error of the seeds is forgotten",
        "metrics/seeds.py",
        "errors = resampled - resampled.mean() + _draw_seed_errors(values, degrees, options)",
        "errors = resampled - resampled.mean()",
        ("tests/unit/metrics/test_seeds.py",),
    ),
    Mutant(
        "sweeps: the error of the seeds does not fall with their number",
        "metrics/seeds.py",
        "sum(1 / len(seeds) for seeds in values)",
        "2.0",
        ("tests/unit/metrics/test_seeds.py",),
    ),
    Mutant(
        "sweeps: processes are left behind",
        "runs/sweep.py",
        """            for process in active:
                process.process.terminate()
            for""",
        """            for process in ():
                process.process.terminate()
            for""",
        ("tests/unit/runs/test_sweep.py::test_no_process_is_left_when_the_caller_stops",),
    ),
    Mutant(
        "sweeps: a search that goes on draws the same again",
        "runs/sweep_search.py",
        "RandomSampler(seed=seed + len(study.trials))",
        "RandomSampler(seed=seed)",
        ("tests/unit/runs/test_sweep.py::test_halving_stops_the_worse_and_goes_on_where_it_ended",),
    ),
    Mutant(
        "sweeps: all GPUs are the first",
        "runs/sweep.py",
        "devices[slot % len(devices)]",
        "devices[0]",
        ("tests/unit/runs/test_sweep.py::test_gpus_are_shared_and_threads_are_then_free",),
    ),
    Mutant(
        "sweeps: groups of seeds differ in their seed",
        "tasks/seed_groups.py",
        'exclude={"output", "seed"}',
        'exclude={"output"}',
        ("tests/unit/cli/test_compare.py::test_table_and_page_say_the_same_as_json",),
    ),
    Mutant(
        "sweeps: options are read without the swept values",
        "cli/sweep.py",
        "recipe = load_recipe(args.recipe, [*overrides, *first_values])",
        "recipe = load_recipe(args.recipe, overrides)",
        ("tests/unit/cli/test_sweep.py::test_an_option_may_exist_only_with_the_swept_values",),
    ),
    Mutant(
        "sweeps: a run and its copy are two seeds",
        "tasks/seed_groups.py",
        "setdefault(recipe.seed, report)",
        "setdefault(len(members[_get_key(recipe)]), report)",
        ("tests/unit/cli/test_compare.py::test_a_seed_counts_once_among_seeds",),
    ),
    Mutant(
        "sweeps: the GPUs that are visible are counted anew",
        "runs/sweep.py",
        "devices = visible or [str(number) for number in range(self.gpus)]",
        "devices = [str(number) for number in range(self.gpus)]",
        ("tests/unit/runs/test_sweep.py::test_gpus_are_shared_and_threads_are_then_free",),
    ),
    Mutant(
        "sweeps: a search continues with other values",
        "runs/sweep_search.py",
        "if any(trial.distributions != self._distributions for trial in self._study.trials):",
        "if any(trial.distributions.keys() != self._distributions.keys() for trial in self._study.trials):",
        ("tests/unit/runs/test_sweep.py::test_a_search_continues_only_with_its_own_keys_and_values",),
    ),
)

LECTURE = (
    Mutant(
        "lecture: data that was half written stays",
        "lecture/models.py",
        'partial_folder = folder.with_name(f"{folder.name}.part")',
        "partial_folder = folder",
        ("tests/unit/lecture/test_site.py::test_data_that_was_half_written_is_written_again",),
    ),
    Mutant(
        "lecture: finished studies are run again",
        "lecture/training.py",
        "    models = [model for model in models if not model.is_finished(folder)]\n",
        "",
        ("tests/unit/lecture/test_site.py::test_a_finished_study_is_not_run_again",),
    ),
    Mutant(
        "lecture: the sentences of the decks are trained on",
        "lecture/data/parallel.py",
        "dice, seen = Random(seed), {VISIT[0], AREA[0]}",
        "dice, seen = Random(seed), set()",
        ("tests/unit/lecture/test_contents.py::test_the_sentences_of_the_decks_are_held_out",),
    ),
    Mutant(
        "lecture: pronouns always stand for the animal",
        "lecture/data/coreference.py",
        "{meant if word == 'it' else word}",
        "{animal if word == 'it' else word}",
        ("tests/unit/lecture/test_contents.py::test_pronouns_stand_for_what_the_last_word_says",),
    ),
    Mutant(
        "lecture: a gap follows from its left side alone",
        "lecture/data/sequences.py",
        "verb = _VERBS[(subject + place) % len(_VERBS)]",
        "verb = _VERBS[subject]",
        ("tests/unit/lecture/test_contents.py::test_gaps_follow_from_both_sides_together_and_from_none_alone",),
    ),
    Mutant(
        "lecture: a repeated picture is twice in a page",
        "lecture/site.py",
        "        drawn.update(slide.figures)\n",
        "",
        ("tests/unit/lecture/test_site.py::test_a_site_has_each_slide_and_its_files",),
    ),
    Mutant(
        "lecture: links to recipes have two suffixes",
        "lecture/site.py",
        '<a href="{model.description_file.as_posix()}">',
        '<a href="{model.description_file.as_posix()}.toml">',
        ("tests/unit/lecture/test_site.py::test_the_contents_link_to_recipes_data_and_runs",),
    ),
    Mutant(
        "lecture: a model does not wait for the one it starts from",
        "lecture/training.py",
        "if not model.starts_from or model.starts_from in self._trained:",
        "if True:",
        ("tests/unit/lecture/test_site.py::test_models_wait_for_those_that_they_start_from",),
    ),
    Mutant(
        "lecture: pictures lie on each other",
        "lecture/figures/figure.py",
        "top += height + gap",
        "top += gap",
        ("tests/unit/lecture/test_site.py::test_pictures_are_stacked_without_overlap",),
    ),
    Mutant(
        "lecture: a dropped thing goes on with its holder",
        "lecture/data/stories.py",
        "            del holders[thing]\n",
        "",
        ("tests/unit/lecture/test_contents.py::test_things_are_where_the_story_says",),
    ),
    Mutant(
        "lecture: steps show the numbers of another head",
        "inspection/figures/steps.py",
        "index, walk = attention_map.heads.index(head), attention_map.walk",
        "index, walk = 0, attention_map.walk",
        ("tests/unit/inspection/test_figures.py::test_steps_show_the_numbers_of_the_head",),
    ),
)

QUANTIZED_FOLDERS = (
    Mutant(
        "a quantized folder keeps the weights in floating point",
        "foreign/quantized_folders.py",
        "path.suffix not in _WEIGHT_SUFFIXES",
        'path.suffix not in (".bin",)',
        ("tests/reference/test_quantized_folders.py::test_the_command_and_what_reads_its_folder",),
    ),
    Mutant(
        "modules of sentence-transformers are not copied",
        "foreign/quantized_folders.py",
        "elif path.is_dir() and",
        "elif False and",
        ("tests/reference/test_quantized_folders.py::test_the_command_and_what_reads_its_folder",),
    ),
    Mutant(
        "int8 weights of a folder are rounded twice in floating point",
        "engines/int8_weights.py",
        "return (weights.exact, weights.quantized) if isinstance(weights, Int8Weights) else (weights, {})",
        "return weights, {}",
        ("tests/reference/test_quantized_folders.py::test_the_numbers_are_those_of_the_engine[llama]",),
    ),
    Mutant(
        "an adapter on a quantized folder is computed in floating point",
        "foreign/hugging_face.py",
        'engine = engine or "int8"',
        'engine = engine or "torch"',
        ("tests/reference/test_quantized_folders.py::test_an_adapter_on_a_quantized_folder_is_computed_in_int8",),
    ),
    Mutant(
        "a quantized folder is quantized again",
        "foreign/hugging_face.py",
        "if weights.quantized is not None:\n            raise",
        "if weights.quantized is None and False:\n            raise",
        ("tests/reference/test_quantized_folders.py::test_what_cannot_be_quantized",),
    ),
    Mutant(
        "a checkpoint of a Hugging Face folder is ignored when it is quantized",
        "runs/export.py",
        "opened_folder.require_no_step(step)",
        "pass",
        ("tests/reference/test_quantized_folders.py::test_what_cannot_be_quantized",),
    ),
    Mutant(
        "scales without a matrix are no damage",
        "engines/int8_weights.py",
        "name not in stored or not Int8Matrix",
        "name in stored and not Int8Matrix",
        ("tests/reference/test_quantized_folders.py::test_damaged_folders_name_the_remedy",),
    ),
    Mutant(
        "a published encoder of one segment needs a key of the recipe to go on with pre-training",
        "tasks/pretraining/recipe.py",
        "(only_detects or has_one_segment)",
        "only_detects",
        ("tests/unit/tasks/test_pretraining.py::test_passages_stand_alone_where_a_model_cannot_distinguish_two",),
    ),
    Mutant(
        "a detector of replaced tokens needs a key of the recipe",
        "tasks/pretraining/recipe.py",
        "(only_detects or has_one_segment)",
        "has_one_segment",
        ("tests/unit/tasks/test_pretraining.py::test_passages_stand_alone_where_a_model_cannot_distinguish_two",),
    ),
)

NATIVE_LLAMA = (
    Mutant(
        "native code forgets YaRN's factor of queries and keys",
        "engines/native/plan.py",
        "amplitude = 1.0 if self._rotary is None else self._rotary.amplitude",
        "amplitude = 1.0",
        ("tests/unit/native/test_stack.py::test_it_computes_what_the_modules_compute",),
    ),
    Mutant(
        "native code takes RMSNorm for LayerNorm",
        "engines/native/plan.py",
        "epsilon, isinstance(norm, nn.LayerNorm))",
        "epsilon, True)",
        ("tests/unit/native/test_stack.py::test_it_computes_what_the_modules_compute",),
    ),
    Mutant(
        "native code leaves out gates",
        "engines/native/plan.py",
        "gate=self._build_linear(layer.feed_forward.gate)",
        "gate=self.library.Linear()",
        ("tests/unit/native/test_stack.py::test_it_computes_what_the_modules_compute",),
    ),
    Mutant(
        "keys of a memory are not normalised in native code",
        "engines/native/plan.py",
        "is not None:\n            keys = out",
        "is None:\n            keys = out",
        ("tests/unit/native/test_stack.py::test_it_computes_what_the_modules_compute",),
    ),
    Mutant(
        "native code rotates whole heads",
        "engines/native/plan.py",
        "self._rotary.width // 2",
        "self._head_width // 2",
        ("tests/unit/native/test_stack.py::test_it_computes_what_the_modules_compute",),
    ),
)

FINE_TUNED_SPEECH = (
    Mutant(
        "a fine-tuned Whisper recognises the language anew",
        "tasks/speech/prompted.py",
        "language=chosen[0] if chosen else None",
        "language=None",
        (f"{TUNED_WHISPER}::test_a_run_transcribes_as_the_folder_does_and_knows_its_languages",),
    ),
    Mutant(
        "a fine-tuned Whisper forgets that it translates",
        "tasks/speech/prompted.py",
        'to_english=task_ids.get("translate") in tokenizer.prefix_ids',
        "to_english=False",
        (f"{TUNED_WHISPER}::test_a_translating_run_translates",),
    ),
    Mutant(
        "texts of a fine-tuned Whisper may begin with anything",
        "data/tokenizer_files.py",
        'tuple(record.get("suppressed_start", ()))',
        "()",
        (f"{TUNED_WHISPER}::test_a_run_transcribes_as_the_folder_does_and_knows_its_languages",),
    ),
    Mutant(
        "fine-tuning Whisper: texts have the prompt of another task",
        "tasks/speech/task.py",
        "prompt.with_language(language, to_english=data.to_english)",
        "prompt.with_language(language, to_english=False)",
        (f"{TUNED_WHISPER}::test_the_loss_is_that_of_transformers[fr-True]",),
    ),
    Mutant(
        "fine-tuning Whisper: other frames than its own are accepted",
        "runs/resolve.py",
        "elif own_value != value:",
        "elif False:",
        (f"{TUNED_WHISPER}::test_what_does_not_fit_the_model_is_refused",),
    ),
    Mutant(
        "padding makes a sound too long",
        "tasks/speech/data.py",
        "if is_padded else len(frames)",
        "if False else len(frames)",
        ("tests/unit/tasks/test_speech.py::test_a_padded_sound_is_as_long_as_it_was",),
    ),
    Mutant(
        "a padded sound has a slot more than the model has positions",
        "tasks/speech/recipe.py",
        "return round(self.frames.seconds * 1000 / self.frames.hop) // frames_per_slot",
        "return round(self.frames.seconds * 1000 / self.frames.hop) // frames_per_slot + 1",
        (f"{TUNED_WHISPER}::test_a_model_of_one_language_needs_none",),
    ),
    Mutant(
        "an exported Whisper does not say its language",
        "foreign/speech_folders.py",
        "if prompt.language is not None:",
        "if False:",
        (f"{TUNED_WHISPER}::test_transformers_reads_the_exported_run",),
    ),
    Mutant(
        "an exported Whisper writes more tokens than the run",
        "foreign/speech_folders.py",
        "origin.max_length - len(tokenizer.prefix_ids)",
        "origin.max_length",
        (f"{TUNED_WHISPER}::test_transformers_reads_the_exported_run",),
    ),
    Mutant(
        "a run that goes on from another one computes other frames",
        "tasks/speech/task.py",
        'return {f"data.frames.{key}": value for key, value in frames.items()}',
        "return {}",
        (f"{TUNED_WHISPER}::test_another_run_starts_from_the_first_with_its_frames",),
    ),
    Mutant(
        "int8 weights that were used in inference have no gradients afterwards",
        "engines/int8.py",
        "with torch.inference_mode(mode=False):  # it stays",
        "with torch.no_grad():  # it stays",
        ("tests/unit/engines/test_int8.py::test_gradients_of_what_is_read_are_those_of_the_rounded_weights",),
    ),
    Mutant(
        "init: texts are longer than the model has positions",
        "runs/resolve.py",
        "getattr(data, name, 0) > longest",
        "getattr(data, name, 0) > longest + 999",
        ("tests/reference/test_hugging_face.py::test_lengths_fit_the_positions_of_init",),
    ),
)

COPYING = (
    Mutant(
        "copying: the gate opens the other way",
        "models/pointer_generator.py",
        "torch.sigmoid(-gate)",
        "torch.sigmoid(gate)",
        (f"{POINTER}::test_the_distributions_are_those_of_the_paper",),
    ),
    Mutant(
        "copying: a token that stands in the source twice is copied from one place",
        "models/pointer_generator.py",
        "scatter_add(1, self.source_ids[self.sources], copy_weights)",
        "scatter(1, self.source_ids[self.sources], copy_weights)",
        (f"{POINTER}::test_the_distributions_are_those_of_the_paper",),
    ),
    Mutant(
        "copying: all targets copy from the first source",
        "models/pointer_generator.py",
        "self.source_ids[self.sources], copy_weights",
        "self.source_ids[self.sources * 0], copy_weights",
        (f"{POINTER}::test_the_distributions_are_those_of_the_paper",),
    ),
    Mutant(
        "copying: what cannot be copied has no gradient",
        "models/pointer_generator.py",
        "copied.clamp_min(torch.finfo(dtype).tiny).log()",
        "copied.log()",
        (f"{POINTER}::test_the_loss_and_its_gradient_are_those_of_the_distributions",),
    ),
    Mutant(
        "copying: rows of a group copy from the sources of other groups",
        "models/pointer_generator.py",
        "self.ids.repeat_interleave(self.memory.width, 0)",
        "self.ids.repeat(self.memory.width, 1)",
        (f"{LAWS}::test_rows_in_groups_are_rows[copying-inference]",),
    ),
    Mutant(
        "copying: a loss of chunks forgets the weights of pairs",
        "models/predictions.py",
        "-(terms @ weight.to(terms.dtype))",
        "-terms.sum()",
        (f"{POINTER}::test_the_loss_and_its_gradient_are_those_of_the_distributions",),
    ),
    Mutant(
        "copying: a record has the probability of generating",
        "tasks/decoder_target.py",
        "torch.sigmoid(-gate_logits[0][0, :, 0].float())",
        "torch.sigmoid(gate_logits[0][0, :, 0].float())",
        ("tests/unit/tasks/test_inspecting.py::test_a_record_has_the_probability_of_copying_each_token",),
    ),
)

PROTECTED_TERMS = (
    Mutant(
        "annotated: terms stand in a line before it is protected",
        "cli/translate_options.py",
        "sentences if args.protect else map(",
        "map(",
        (f"{ANNOTATE}::test_protected_lines_are_annotated_once_as_files_are",),
    ),
    Mutant(
        "annotated: what is protected has no terms",
        "cli/translate_options.py",
        "sentences = [add_terms(TranslationInput(get_text(text), before=get_context(text))) for text in texts]",
        "sentences = [TranslationInput(get_text(text), get_context=get_context(text)) for text in texts]",
        (
            f"{ANNOTATE}::test_protected_lines_are_annotated_once_as_files_are",
            f"{ANNOTATE}::test_protected_lines_hold_terms_as_files_do",
        ),
    ),
)

WHOLE_DOCUMENTS = "tests/unit/cli/test_whole_documents.py"
HELD_WHOLE = (
    Mutant(
        "whole documents: the line that ends one goes elsewhere",
        "data/detect/parallel.py",
        "if example is None or not example.texts[0].strip():",
        "if example is None or not document[:-1] or not document[-2].texts[0].strip():",
        (f"{WHOLE_DOCUMENTS}::test_two_files_keep_their_documents",),
    ),
    Mutant(
        "whole documents: empty lines are pairs of a part",
        "data/detect/hash_sample.py",
        "counts[target_part] += not dataset.is_document_end(example)",
        "counts[target_part] += 1",
        (f"{WHOLE_DOCUMENTS}::test_two_files_keep_their_documents",),
    ),
    Mutant(
        "whole documents: pairs of a table go by their sources",
        "data/detect/parallel.py",
        "(*document[:1],) or (source,)",
        "(source,)",
        (f"{WHOLE_DOCUMENTS}::test_tables_name_their_documents",),
    ),
)

IDENTIFIED = (
    Mutant(
        "identified: runs of one length are not told from those of another",
        "data/language_identification.py",
        "rolling_hash = (rolling_hash[: len(last_letters)] + last_letters + np.uint64(1)) * _MULTIPLIER",
        "rolling_hash = (rolling_hash[: len(last_letters)] * np.uint64(0) + last_letters + np.uint64(1)) * _MULTIPLIER",
        (IDENTIFICATION,),
    ),
    Mutant(
        "identified: languages keep the order in which they came, and a file gives them in another",
        "data/language_identification.py",
        "names = sorted(texts_by_language)",
        "names = list(texts_by_language)",
        (IDENTIFICATION,),
    ),
    Mutant(
        "identified: runs of a letter count as often as there are lengths",
        "data/language_identification.py",
        "scores = self._log_probs[:, ngrams].sum(1, dtype=np.float64) / _MAX_NGRAM",
        "scores = self._log_probs[:, ngrams].sum(1, dtype=np.float64)",
        (IDENTIFICATION,),
    ),
    Mutant(
        "identified: digits count",
        "data/language_identification.py",
        're.compile(r"[\\W\\d_]+")',
        're.compile(r"[\\W_]+")',
        (IDENTIFICATION,),
    ),
    Mutant(
        "identified: a target is of the source's language",
        "tasks/translation/languages.py",
        "yield direction.target, pair.target",
        "yield direction.source, pair.target",
        (IDENTIFY,),
    ),
    Mutant(
        "identified: only the first text is known",
        "tasks/translation/task.py",
        "for direction, pairs in recipe.data.directed_readers]\n    )",
        "for direction, pairs in recipe.data.directed_readers[:1]])",
        (IDENTIFY,),
    ),
    Mutant(
        "identified: a run that goes on knows nothing",
        "tasks/translation/task.py",
        "return _collect_vocabularies(source, target, {}, _learn_profiles(recipe), reads_nfkc=reads_nfkc)",
        "return _collect_vocabularies(source, target, {}, None, reads_nfkc=reads_nfkc)",
        (IDENTIFY,),
    ),
)
CLIENTS_OPENAI = "tests/unit/serving/test_clients_openai.py"
TOKENS_OPENAI = "tests/unit/serving/test_openai_tokens.py"
ASKED_AS_OPENAI = (
    Mutant(
        "OpenAI: each request without a seed has the same chance",
        "serving/openai/completion.py",
        "first=plan.stream_index, until=self.is_over",
        "stream_index=0, until=self.is_over",
        (f"{CLIENTS_OPENAI}::test_a_seed_is_a_text_and_no_seed_is_any",),
    ),
    Mutant(
        "OpenAI: the prompts of a stream have one chance",
        "serving/openai/completion.py",
        "number=plan.stream_index + self._index",
        "number=plan.stream_index",
        (f"{CLIENTS_OPENAI}::test_a_stream_tells_tokens_and_prompts_as_the_whole_does",),
    ),
    Mutant(
        "OpenAI: a stream tells tokens before their text is certain",
        "serving/openai/completion.py",
        "[entry for entry in pending if entry.start < num_shown])",
        "pending)",
        (f"{CLIENTS_OPENAI}::test_tokens_that_may_begin_a_stop_string_wait",),
    ),
    Mutant(
        "OpenAI: tokens of a stop string are told",
        "serving/openai/completion.py",
        (
            "continuation_entries\n"
            "                if continuation.stop is None\n"
            "                else (entry for entry in continuation_entries if entry.start < end)"
        ),
        "continuation_entries",
        (f"{CLIENTS_OPENAI}::test_tokens_end_where_a_stop_string_ends_the_text",),
    ),
    Mutant(
        "OpenAI: places of tokens are counted without the prompt",
        "serving/openai/generation.py",
        "start = len(self.text) + self._length",
        "start = self._length",
        (f"{CLIENTS_OPENAI}::test_log_probabilities_of_what_was_written_need_no_second_reading", TOKENS_OPENAI),
    ),
    Mutant(
        "OpenAI: vectors are sent with the other end first",
        "serving/openai/embeddings.py",
        'dtype="<f4"',
        'dtype=">f4"',
        (f"{CLIENTS_OPENAI}::test_vectors_are_those_of_the_model_however_they_are_sent",),
    ),
    Mutant(
        "OpenAI: a stream has no end",
        "serving/sse.py",
        'end="data: [DONE]\\n\\n"',
        'end=""',
        ("tests/unit/serving/test_openai.py::test_events_are_lines_of_json_and_an_end",),
    ),
    Mutant(
        "a bias stays for the next token",
        "generation/penalties.py",
        "return logits.index_add(",
        "return logits.index_add_(",
        ("tests/unit/generation/test_frequencies.py::test_a_bias_forbids_and_forces",),
    ),
    Mutant(
        "a document that is read as it comes always begins anew",
        "tasks/language/token_predictions.py",
        "self._last, self._count = chunk[-1], self._count + len(chunk)",
        "self._last, self._count = chunk[-1], 0",
        ("tests/unit/tasks/test_expected.py::test_a_document_may_be_read_as_it_comes",),
    ),
)
RUNNING = "tests/unit/generation/test_running.py"
GATHERING = "tests/unit/serving/test_gathering.py"
IN_COMPANY = (
    Mutant(
        "running: what ended early hides what lives and is better",
        "generation/beam_decoding.py",
        "beam_state.finished.masked_fill(finished_is_worse, -math.inf)",
        "beam_state.finished",
        (f"{RUNNING}::test_what_ended_early_and_is_worse_hides_nothing",),
    ),
    Mutant(
        "running: a step is kept at another place",
        "generation/decode_batch.py",
        "[starts + (size - fields[0].size(1)) for starts, fields in parts]",
        "[starts for starts, fields in parts]",
        (f"{RUNNING}::test_company_changes_nothing",),
    ),
    Mutant(
        "running: rows without a token have no id that a model can read",
        "generation/continuous_batch.py",
        "Tokens(torch.zeros_like(no_positions), no_positions)",
        "Tokens(no_positions, no_positions)",
        (f"{RUNNING}::test_rows_of_a_sentence_that_fails_at_once_hold_ids_that_a_model_can_read",),
    ),
    Mutant(
        "running: parties become one whatever their rows hold",
        "generation/decode_batch.py",
        "    is_mergeable = pipeline.is_plain and request.constraints is None and not request.keep_state",
        "    is_mergeable = True",
        (f"{RUNNING}::test_company_changes_nothing",),
    ),
    Mutant(
        "running: the newest stand behind another party",
        "generation/continuous_batch.py",
        "        if insert_at < first_new:",
        "        if insert_at > first_new:",
        (f"{RUNNING}::test_company_changes_nothing",),
    ),
    Mutant(
        "running: who has left goes on",
        "generation/continuous_batch.py",
        "        self._compact(threshold=_COMPACTION_THRESHOLD)",
        "        self._compact(threshold=2.0)",
        (f"{RUNNING}::test_rows_are_shared", f"{RUNNING}::test_it_does_not_grow"),
    ),
    Mutant(
        "running: samples of a sentence share their chance",
        "generation/sampling.py",
        "streams + rows % num_samples",
        "streams",
        (f"{RUNNING}::test_samples_of_a_sentence_are_drawn_apart",),
    ),
    Mutant(
        "running: who is told to end goes on",
        "generation/continuous_batch.py",
        "        finished = [request for entry in self._entries for request in self._finish_interrupted(entry)]",
        "        finished = list[FinishedRequest]()",
        (f"{RUNNING}::test_a_search_that_is_told_to_end_gives_what_it_has",),
    ),
    Mutant(
        "native: sentences that join one state share their room",
        "engines/native/state.py",
        "not self.capacity.claim(start, start + num_new)",
        "not (self.capacity.claim(start, start + num_new) or start + num_new <= self.capacity.size)",
        (f"{STACK}::test_guests_of_one_state_do_not_disturb_each_other",),
    ),
    Mutant(
        "native: a memory that is longer is cut",
        "engines/native/state.py",
        "-(-max(slots, num_slots) // _SLOT_MULTIPLE) * _SLOT_MULTIPLE",
        "max(num_slots, min(slots, _SLOT_MULTIPLE))",
        (f"{STACK}::test_a_state_whose_rows_come_and_go_stays_small",),
    ),
    Mutant(
        "native: columns are read where they no longer begin",
        "engines/native/stack.py",
        "numbers[:, :, self._first_column :].data_ptr()",
        "numbers.data_ptr()",
        (f"{STACK}::test_a_state_whose_rows_come_and_go_stays_small",),
    ),
    Mutant(
        "native: columns that nobody has are kept",
        "engines/native/state.py",
        "table = self.table[:, min(int(used_columns[0]), self.num_columns - columns) :]",
        "table = self.table",
        (f"{STACK}::test_a_state_whose_rows_come_and_go_stays_small",),
    ),
    Mutant(
        "native: a copy of pages holds their first columns",
        "engines/native/state.py",
        "self.numbers[:, :max_rows, columns]",
        "self.numbers[:, :max_rows, :num_columns]",
        (f"{STACK}::test_a_state_whose_rows_come_and_go_stays_small",),
    ),
    Mutant(
        "native: what is gathered is read from the first columns",
        "engines/native/state.py",
        "slots.clamp(min=0), order + self.first_column]",
        "slots.clamp(min=0), order]",
        (f"{STACK}::test_a_state_whose_rows_come_and_go_stays_small",),
    ),
    Mutant(
        "native: a copy of pages forgets whose rows are taken",
        "engines/native/state.py",
        "used_counts[:num_columns], used_counts[num_columns : num_columns + new_columns] = counts, rows",
        "used_counts[:num_columns], used_counts[num_columns : num_columns + new_columns] = 0, 0",
        (f"{STACK}::test_guests_of_one_state_do_not_disturb_each_other",),
    ),
    Mutant(
        "native: guests of one state share their rows",
        "engines/native/state.py",
        "            self._rows[columns] = first + rows",
        "            self._rows[columns] = first",
        (f"{STACK}::test_guests_of_one_state_do_not_disturb_each_other",),
    ),
    Mutant(
        "native: guests write over their host",
        "engines/native/state.py",
        "            self.used_rows.set_counts(slice(first_new, end), rows)",
        "            self.used_rows.set_counts(slice(first_new, end), 0)",
        (f"{STACK}::test_guests_of_one_state_do_not_disturb_each_other",),
    ),
    Mutant(
        "faces: what several ask alike is answered one by one",
        "tasks/predictor.py",
        ("@final\n@dataclass(frozen=True)\nclass BatchMethod("),
        ("@final\n@dataclass(frozen=True, eq=False)\nclass BatchMethod("),
        ("tests/unit/serving/test_uses.py::test_what_two_ask_alike_may_be_answered_together",),
    ),
    Mutant(
        "gathering: a term that ends stops nothing",
        "serving/scheduler.py",
        "over_requests = {request for request in self._iter_requests() if request.is_over}",
        "over_requests = set[InferenceRequest]()",
        (f"{GATHERING}::test_a_term_that_ends_stops_the_work_and_frees_the_place",),
    ),
    Mutant(
        "gathering: one's fault is everybody's",
        "serving/scheduler.py",
        ("        if len(requests) == 1:\n            examples[0].request.fail(error)\n            return"),
        ("        for request in requests.values():\n            request.fail(error)\n        return"),
        (f"{GATHERING}::test_what_is_asked_alike_is_answered_in_one_batch",),
    ),
    Mutant(
        "gathering: who asks for many goes before all others",
        "serving/scheduler.py",
        "                candidates.append(queued)",
        "                candidates.appendleft(queued)",
        (f"{GATHERING}::test_many_short_questions_do_not_wait_for_a_long_one",),
    ),
    Mutant(
        "gathering: whoever asks no search that is shared gets what others asked",
        "serving/scheduler.py",
        ("if queued.batch_key is None and queued.request.job.answer_batch == answer_batch\n        ]"),
        "if queued.batch_key is None]",
        (f"{GATHERING}::test_only_what_is_asked_alike_is_answered_together",),
    ),
    Mutant(
        "gathering: a search of its own holds up all others",
        "serving/scheduler.py",
        "            self._advance_others()\n",
        "",
        (f"{GATHERING}::test_a_search_of_its_own_lets_others_have_their_turn",),
    ),
    Mutant(
        "gathering: who asks for a search of its own first has all turns",
        "serving/scheduler.py",
        "        self._queue.append(head)\n",
        "        self._queue.appendleft(head)\n",
        (f"{GATHERING}::test_a_search_of_its_own_lets_others_have_their_turn",),
    ),
    Mutant(
        "gathering: pieces of wide beams are as many texts as those of narrow ones",
        "serving/scheduler.py",
        "_SEPARATE_FACTOR * self._max_rows // answer_batch.search.rows_per_sentence",
        "_SEPARATE_FACTOR * self._max_rows",
        (f"{GATHERING}::test_a_search_of_its_own_lets_others_have_their_turn",),
    ),
    Mutant(
        "opening: the threads of the settings are left as they are",
        "serving/load_models.py",
        "        torch.set_num_threads(settings.threads)",
        "        _ = torch",
        (f"{GATHERING}::test_the_threads_of_the_settings_are_those_that_compute",),
    ),
    Mutant(
        "keys: a file is known by its length",
        "serving/auth.py",
        "    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino",
        "    return (stat.st_size,)",
        ("tests/unit/serving/test_keys.py::test_a_file_of_equal_length_is_noticed",),
    ),
    Mutant(
        "rates: who asks often is forgotten first",
        "serving/clients.py",
        "self._buckets.pop(client, (float(self._per_minute), now))",
        "self._buckets.get(client, (float(self._per_minute), now))",
        ("tests/unit/serving/test_rates.py::test_who_asked_longest_ago_is_forgotten_first",),
    ),
    Mutant(
        "guard: a method that a path lacks gets the route of another",
        "serving/app.py",
        'self.routes.get("GET" if method == "HEAD" else method)',
        'self.routes.get("GET" if method == "HEAD" else method, self.first_route)',
        ("tests/unit/serving/test_guard.py::test_each_method_has_its_own_route",),
    ),
    Mutant(
        "guard: the first path that fits is asked, whatever its methods",
        "serving/app.py",
        (
            "next(\n"
            "            (path_routes for path_routes in matches if path_routes.get_route(method)), matches[0] if "
            "matches else None\n"
            "        )"
        ),
        "matches[0] if matches else None",
        ("tests/unit/serving/test_guard.py::test_each_method_has_its_own_route",),
    ),
    Mutant(
        "guard: bodies are not counted together",
        "serving/app.py",
        "        bounded_receive = partial(body.receive, receive)",
        "        bounded_receive = receive",
        ("tests/unit/serving/test_bodies.py::test_unfinished_bodies_hold_no_more_than_the_server_grants",),
    ),
    Mutant(
        "bodies: the fastest loses its place",
        "serving/resource_limits.py",
        "        return min(candidates,",
        "        return max(candidates,",
        ("tests/unit/serving/test_bodies.py::test_the_slowest_body_loses_its_place",),
    ),
    Mutant(
        "bodies: what has arrived may lose its place",
        "serving/resource_limits.py",
        "            self._budget.mark_complete(self)",
        "            pass",
        ("tests/unit/serving/test_bodies.py::test_what_has_arrived_keeps_its_place",),
    ),
    Mutant(
        "budget: small requests pass large ones that wait",
        "serving/resource_limits.py",
        "            if self._used + size > self.capacity:\n                return",
        "            if self._used + size > self.capacity:\n                return self._waiting.rotate(-1)",
        ("tests/unit/serving/test_budget.py::test_who_waits_does_so_until_the_deadline_and_in_order",),
    ),
    Mutant(
        "budget: any number of requests decode at one time",
        "serving/resource_limits.py",
        "            if self._used + size > self.capacity:",
        "            if size > self.capacity:",
        ("tests/unit/serving/test_budget.py::test_the_sum_of_what_is_reserved_is_bounded",),
    ),
    Mutant(
        "interruption: a deadline interrupts nothing",
        "serving/deadline.py",
        "        timer.start()",
        "        pass",
        ("tests/unit/serving/test_interruption.py::test_a_deadline_stops_it",),
    ),
    Mutant(
        "files: parsing is not interrupted",
        "serving/libretranslate/interface.py",
        (
            "context.registry.file_queue.run(\n"
            "                context.deadline, partial(run_interruptible, context.deadline, parse)\n"
            "            )"
        ),
        "context.registry.file_queue.run(context.deadline, parse)",
        ("tests/unit/serving/test_libretranslate_files.py::test_parsing_ends_at_the_deadline",),
    ),
    Mutant(
        "files: any number of them are parsed or wait",
        "serving/libretranslate/interface.py",
        (
            "file = await context.registry.file_queue.run(\n"
            "                context.deadline, partial(run_interruptible, context.deadline, parse)\n"
            "            )"
        ),
        "file = parse()",
        ("tests/unit/serving/test_libretranslate_files.py::test_files_wait_in_a_queue",),
    ),
    Mutant(
        "sent: pictures are decoded without a reservation",
        "serving/api/uploads.py",
        'with context.registry.decoding_memory.reserve(size, context.deadline, name="image"):',
        "if size:",
        ("tests/unit/serving/test_perceiving.py::test_pictures_are_decoded_one_behind_the_other",),
    ),
    Mutant(
        "protocol: requests of any version are answered",
        "serving/http_protocol.py",
        '_HTTP_VERSIONS: Final = ("1.0", "1.1")',
        '_HTTP_VERSIONS: Final = ("0.9", "1.0", "1.1", "2.0")',
        ("tests/unit/serving/test_slow_clients.py::test_what_is_too_much_or_no_request",),
    ),
    Mutant(
        "protocol: a refusal has an id of its own",
        "serving/http_protocol.py",
        'return choose_request_id(next(header_values, ""))',
        "return new_request_id()",
        ("tests/unit/serving/test_slow_clients.py::test_refusals_of_the_protocol_are_known_by_an_id",),
    ),
    Mutant(
        "processes: one that is stopped is left",
        "serving/workers/worker_pool.py",
        ("            self._process.kill()\n            self._process.join(_CLOSE_SECONDS)"),
        "            pass",
        ("tests/unit/serving/test_apart.py::test_a_stopped_process_ends_while_the_server_lives",),
    ),
    Mutant(
        "jsons: half characters are let in",
        "serving/request_body.py",
        '    if "\\\\u" in text:',
        "    if not text:",
        ("tests/unit/serving/test_jsons.py::test_what_is_refused",),
    ),
    Mutant(
        "openai: top_p 0 draws from nothing",
        "serving/openai/generation.py",
        "    if message.temperature == 0 or message.top_p == 0:",
        "    if message.temperature == 0:",
        ("tests/unit/serving/test_clients_openai.py",),
    ),
    Mutant(
        "gathering: a stream that is closed goes on",
        "serving/inference_request.py",
        "            request.fail(ClientDisconnected())",
        "            pass",
        (f"{GATHERING}::test_a_stream_that_is_closed_frees_its_place",),
    ),
    Mutant(
        "finding: translators of other tags share no search",
        "tasks/translation/source_reader.py",
        "    collate_sources: Callable[[Sequence[EncodedText]], Tokens] = field(compare=False)",
        "    collate_sources: Callable[[Sequence[EncodedText]], Tokens] = field()",
        ("tests/unit/tasks/test_finding.py::test_translators_of_two_languages_ask_alike",),
    ),
)


APART = "tests/unit/serving/test_apart.py"
IN_OTHER_PROCESSES = (
    Mutant(
        "apart: models are copied",
        "serving/workers/messages.py",
        "        path = self._shared_objects.find_path(value)\n",
        "        path = None\n",
        (f"{APART}::test_what_a_model_is_made_of_is_named_and_all_else_is_copied",),
    ),
    Mutant(
        "apart: exceptions are made anew",
        "serving/workers/messages.py",
        "isinstance(value, BaseException)\n            else",
        "False else",
        (f"{APART}::test_what_goes_wrong_there_is_told_here",),
    ),
    Mutant(
        "apart: who leaves is not told of",
        "serving/workers/worker_pool.py",
        "        request.add_done_callback(partial(self._cancel_if_pending, worker, request_number))",
        "        pass",
        (f"{APART}::test_a_stream_that_is_closed_and_one_whose_reader_leaves_stop_the_work",),
    ),
    Mutant(
        "apart: whoever has an answer is told to have left",
        "serving/workers/worker_pool.py",
        "        if worker.is_pending(request_number):\n            self._cancellations",
        "        if True:\n            self._cancellations",
        (f"{APART}::test_only_what_is_not_answered_is_cancelled",),
    ),
    Mutant(
        "apart: models are inspected where their weights are not",
        "serving/inference_request.py",
        "        if not self._sends_calls:",
        "        if True:",
        (f"{APART}::test_models_are_inspected_there_as_here",),
    ),
    Mutant(
        "apart: weights are held where requests are prepared",
        "engines/select_engine.py",
        "    if loads_placeholders():",
        "    if False:",
        (f"{APART}::test_no_weight_is_held_here",),
    ),
    Mutant(
        "apart: an encoder is loaded when it is asked first",
        "serving/load_models.py",
        "            if passage_index.has_vectors:",
        "            if False:",
        (f"{APART}::test_passages_are_found_by_vectors_that_are_computed_there",),
    ),
    Mutant(
        "gathering: whoever listens hears of several steps at once",
        "serving/scheduler.py",
        "max_steps = 1 if has_listener else",
        "max_steps =",
        ("tests/unit/serving/test_gathering.py::test_native_steps_are_taken_together",),
    ),
    Mutant(
        "speech: texts that are told while they grow are not ranked by CTC",
        "tasks/speech/predictor.py",
        "        if isinstance(decoding, CTCRescoring):",
        "        if False:",
        ("tests/unit/tasks/test_speech.py::test_a_text_is_told_while_it_grows",),
    ),
    Mutant(
        "apart: a stream that is closed goes on there",
        "serving/inference_request.py",
        ("        self._callbacks.append(callback)\n        self.deadline"),
        "        self.deadline",
        (f"{APART}::test_a_stream_that_is_closed_and_one_whose_reader_leaves_stop_the_work",),
    ),
    Mutant(
        "apart: who leaves is heard of and goes on",
        "serving/workers/worker.py",
        "                    deadline.cancel()",
        "                    pass",
        (f"{APART}::test_a_stream_that_is_closed_and_one_whose_reader_leaves_stop_the_work",),
    ),
    Mutant(
        "apart: all ask the first process",
        "serving/workers/worker_pool.py",
        "min(ready_workers, key=lambda candidate: candidate.load)",
        "ready_workers[0]",
        (f"{APART}::test_those_that_have_least_to_do_are_asked",),
    ),
    Mutant(
        "apart: what a process was asked that ended waits on",
        "serving/workers/worker_pool.py",
        "            pending = [*self._requests]",
        "            pending = list[int]()",
        (f"{APART}::test_one_that_ends_fails_its_own_and_begins_again",),
    ),
    Mutant(
        "apart: a process that has ended is asked on",
        "serving/workers/worker_pool.py",
        ("            self.is_ready = False\n            self._exit_reason"),
        "            self._exit_reason",
        (f"{APART}::test_one_that_ends_fails_its_own_and_begins_again",),
    ),
    Mutant(
        "apart: a server without a process is healthy",
        "serving/registry.py",
        "return all(model.backend.is_ready for",
        "return all(True for",
        (f"{APART}::test_where_all_have_ended_whoever_asks_is_told_to_come_again",),
    ),
    Mutant(
        "a resumed run gets another id",
        "runs/train.py",
        '"run_id": read_run_id(run.folder) or new_run_id',
        '"run_id": new_run_id',
        ("tests/unit/cli/test_training_log.py::test_a_resumed_run_keeps_its_id_in_python",),
    ),
    Mutant(
        "labels of earlier sessions are counted in each epoch",
        "training/prometheus.py",
        "if self._num_labels is None:",
        "if True:",
        ("tests/unit/training/test_prometheus.py::test_labels_of_earlier_sessions_are_counted_once",),
    ),
    Mutant(
        "spans have the messages of errors",
        "serving/tracing.py",
        "            span.end(type(error).__name__)",
        "            span.end(repr(error))",
        ("tests/unit/serving/test_tracing.py::test_work_is_traced_with_the_class_of_its_error",),
    ),
    Mutant(
        "whoever has no key sees the details of health",
        "serving/health.py",
        "    if key is None:\n        return False\n",
        "    if key is None:\n        return True\n",
        ("tests/unit/serving/test_health.py::test_with_keys_only_those_who_have_one_see_details",),
    ),
    Mutant(
        "a process that loads models does not live",
        "serving/app.py",
        'if self._registry.state != "ready" and (route is None or not route.answers_always):',
        'if self._registry.state != "ready":',
        ("tests/unit/serving/test_health.py::test_a_server_that_loads_or_ends_lives_and_is_not_ready",),
    ),
    Mutant(
        "apart: auto is asked again in each process",
        "serving/workers/worker_pool.py",
        'name: model_settings.model_copy(update={"engine": detect_engine(_find_modules(registry, name))})',
        "name: model_settings",
        (f"{APART}::test_they_compute_with_the_engines_that_are_here",),
    ),
    Mutant(
        "apart: what is done there is not counted",
        "serving/workers/worker_pool.py",
        "                self._update_metrics(message)",
        "                pass",
        (f"{APART}::test_what_computes_there_is_counted_here",),
    ),
    Mutant(
        "apart: nobody hears how texts grow",
        "serving/workers/worker.py",
        "send_partial if message.with_partials else None",
        "None",
        (f"{APART}::test_texts_are_heard_while_they_grow",),
    ),
    Mutant(
        "apart: what goes wrong there is told without its place",
        "serving/workers/worker.py",
        "        if not isinstance(error, HeedfulError | ClientDisconnected):",
        "        if False:",
        (f"{APART}::test_what_goes_wrong_there_is_told_here",),
    ),
    Mutant(
        "apart: a signal for all ends what still loads",
        "serving/workers/worker_pool.py",
        "        signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED_SIGNALS)",
        "        pass",
        (f"{APART}::test_signals_for_the_server_do_not_end_one_that_loads",),
    ),
    Mutant(
        "gathering: memory is not given back in a rest",
        "serving/scheduler.py",
        "                self._return_free_memory(0.0)",
        "                pass",
        (f"{GATHERING}::test_memory_is_given_back_in_a_rest_once_and_at_times_in_work",),
    ),
    Mutant(
        "gathering: memory is not given back in work",
        "serving/scheduler.py",
        "                    self._return_free_memory(_BUSY_SECONDS)",
        "                    pass",
        (f"{GATHERING}::test_memory_is_given_back_in_a_rest_once_and_at_times_in_work",),
    ),
    Mutant(
        "parting: what was written is lost where a connection ends",
        "serving/http_protocol.py",
        "        self._flush()\n        self._abort_timer",
        "        self._abort_timer",
        ("tests/unit/serving/test_slow_clients.py",),
    ),
    Mutant(
        "guard: the parts of paths are not read",
        "serving/app.py",
        'scope["path_params"] = path_routes.parse_parameters(scope["path"])',
        'scope["path_params"] = {}',
        ("tests/unit/serving/test_libretranslate_files.py",),
    ),
)


OWN = "tests/unit/serving/test_own.py"
ASKED_IN_OUR_WORDS = (
    Mutant(
        "own: texts may be of any length",
        "serving/api/handlers.py",
        "if characters > limits.characters:",
        "if False:",
        (f"{OWN}::test_what_is_wrong_is_said",),
    ),
    Mutant(
        "own: what is drawn depends on where a part of the texts begins",
        "serving/api/handlers.py",
        "answers = line_format.answer_inputs(chunk, start=num_done + 1)",
        "answer_inputs = line_format.answer_inputs(chunk, start=1)",
        (f"{OWN}::test_what_is_drawn_depends_on_the_number_of_a_text",),
    ),
    Mutant(
        "own: translations may be made as long as anybody likes",
        "serving/api/translation.py",
        "if message.changes_length and max_tokens > limits.tokens:",
        "if False:",
        (f"{OWN}::test_what_is_wrong_is_said",),
    ),
    Mutant(
        "own: languages do not tell which model is meant",
        "serving/directions.py",
        "return requested is None or available is None or match_language(requested, [available]) is not None",
        "return True",
        (f"{OWN}::test_languages_say_which_model_is_meant",),
    ),
    Mutant(
        "own: pages and files are kept for ever",
        "serving/resource_limits.py",
        "asyncio.get_running_loop().call_later(self.seconds, self._items.pop, name, None)",
        "pass",
        ("tests/unit/serving/test_budget.py::test_results_that_nobody_fetches_go",),
    ),
    Mutant(
        "own: stop strings are forgotten",
        "serving/api/generation.py",
        '"stop": config.stop, ',
        '"stop": (), ',
        (f"{OWN}::test_what_is_written_is_that_of_the_commands",),
    ),
    Mutant(
        "own: a stream begins before there is something to tell",
        "serving/sse.py",
        "first = await anext(events)\n    return",
        'first: Any = ("growing", {})\n    return',
        (f"{OWN}::test_what_is_wrong_with_a_stream_has_a_status",),
    ),
    Mutant(
        "own: pictures may be as large as anybody likes",
        "serving/api/uploads.py",
        "if len(content) > max_bytes:",
        "if False:",
        (f"{OWN}::test_pictures_have_a_limit_of_their_own",),
    ),
)


PERCEIVING = "tests/unit/serving/test_perceiving.py"
SOUND_FILES = "tests/unit/data/test_sound.py"
GATE = "tests/unit/test_file_gate.py"
HOSTILE = "tests/unit/runs/test_hostile.py"
ROOM = "tests/unit/runs/test_room.py"
AUDIO_OPENAI = "tests/unit/serving/test_clients_openai_audio.py"
USES = "tests/unit/serving/test_uses.py"
PERCEIVED = (
    Mutant(
        "perceived: all of a sound is decoded, however long",
        "data/sound.py",
        "remaining = max_seconds * rate + 1\n",
        "remaining = math.inf\n",
        (f"{SOUND_FILES}::test_a_long_silence_in_few_bytes_is_not_decoded",),
    ),
    Mutant(
        "perceived: a sound may have any rate",
        "data/sound.py",
        "if not 1 <= rate <= _MAX_RATE:",
        "if not 1 <= rate:",
        (f"{SOUND_FILES}::test_heads_that_say_what_no_sound_has",),
    ),
    Mutant(
        "files: a pipe is read as a file",
        "files.py",
        "if not stat.S_ISREG(status.st_mode):",
        "if stat.S_ISDIR(status.st_mode):",
        (f"{GATE}::test_a_file_says_what_it_is_instead",),
    ),
    Mutant(
        "files: the size of a file is not bounded",
        "files.py",
        "if max_bytes is not None and status.st_size > max_bytes:",
        "if False:",
        (f"{GATE}::test_a_file_says_what_it_is_instead",),
    ),
    Mutant(
        "files: a link leads out of a folder",
        "files.py",
        "if not path.resolve().is_relative_to(folder.resolve()):",
        "if not path.absolute().is_relative_to(folder.absolute()):",
        (f"{GATE}::test_links_lead_out_of_no_folder",),
    ),
    Mutant(
        "files: JSON is as deep as Python reads it",
        "files.py",
        "    if num_containers > MAX_JSON_DEPTH:\n",
        "    if False:\n",
        (f"{GATE}::test_json_is_bounded_in_depth_and_in_its_numbers",),
    ),
    Mutant(
        "files: a manifest names files anywhere",
        "atomic_io.py",
        "if (invalid_name := next((name for name in files if not is_plain_name(name)), None)) is not None:",
        "if (invalid_name := next((name for name in files if not is_plain_name(name)), None)):",
        (f"{GATE}::test_names_that_lead_out_of_a_folder",),
    ),
    Mutant(
        "files: what a task found out is verified by nobody",
        "runs/load.py",
        "sorted(name for name in manifest.files if not is_weights_file(name))",
        "sorted(name for name in manifest.files if name.startswith(('tokenizer/', 'tasks/')))",
        (f"{ROOM}::test_what_a_task_found_out_is_in_the_manifest",),
    ),
    Mutant(
        "files: a kill while findings are written spoils the run",
        "atomic_io.py",
        "    if manifest.files.keys() & contents.keys():\n",
        "    if False:\n",
        (f"{ROOM}::test_a_kill_while_findings_are_written_leaves_a_run_that_opens",),
    ),
    Mutant(
        "files: the curve is not synced at a checkpoint",
        "runs/checkpoints.py",
        "        sync_file(self.folder / METRICS_FILE)",
        "        pass",
        (f"{ROOM}::test_the_curve_is_on_the_disk_before_the_checkpoint_counts",),
    ),
    Mutant(
        "files: an index whose manifest was being written is not taken up",
        "retrieval/index_folder.py",
        "own_names = (_LOCK, unfinished)",
        "own_names = (_LOCK,)",
        (f"{HOSTILE}::test_an_index_may_have_been_killed_while_its_manifest_was_written",),
    ),
    Mutant(
        "files: a vocabulary may have any size",
        "data/pretrained_tokenizers.py",
        "if size - len(set(ids.values())) > _MAX_UNUSED_IDS:",
        "if False:",
        (f"{HOSTILE}::test_lists_of_pieces_with_impossible_ids",),
    ),
    Mutant(
        "files: a branch of a record may continue itself",
        "inspection/record_files.py",
        "if not -1 <= branch.parent < number:",
        "if not -1 <= branch.parent <= number:",
        (f"{HOSTILE}::test_records_whose_parts_do_not_fit",),
    ),
    Mutant(
        "files: parts of a model that are gone still count",
        "models/model_size.py",
        ("        self._parameters = _drop_dead_references(self._parameters)\n"),
        "",
        (f"{ROOM}::test_tied_parameters_and_those_of_parts_that_were_thrown_away_count_once",),
    ),
    Mutant(
        "files: training needs no more room than its weights",
        "runs/trainer_factory.py",
        "_build_optimizer(config, trained, factors={}).count_state_numbers()",
        "0",
        (f"{ROOM}::test_a_training_needs_more_room_than_its_model",),
    ),
    Mutant(
        "perceived: a sound without a size ends before it begins",
        "data/sound.py",
        "size in unknown_sizes or size > _count_remaining_bytes(file)",
        "size > _count_remaining_bytes(file)",
        (f"{SOUND_FILES}::test_sounds_of_writers_that_could_not_go_back",),
    ),
    Mutant(
        "perceived: an odd part of a sound has no byte behind it",
        "data/sound.py",
        "file.seek(size - len(block) + size % 2, SEEK_CUR)",
        "file.seek(size - len(block), SEEK_CUR)",
        (f"{SOUND_FILES}::test_sounds_of_writers_that_could_not_go_back",),
    ),
    Mutant(
        "perceived: an archive with a password is a failure",
        "data/clips.py",
        "OverflowError,\n    RuntimeError,\n    struct.error",
        "OverflowError,\n    struct.error",
        ("tests/unit/data/test_clips.py::test_archives_that_cannot_be_opened_are_named",),
    ),
    Mutant(
        "perceived: a clip may have any number of frames",
        "serving/api/media.py",
        "if path.is_file() and (size := predictor.decoded_size(path)) > max_bytes:",
        "if path.is_file() and (decoded_size := predictor.decoded_size(path)) < 0:",
        (f"{PERCEIVING}::test_a_small_file_of_many_frames_is_not_decoded",),
    ),
    Mutant(
        "perceived: frames may have any number of pixels together",
        "serving/api/uploads.py",
        "        pixels_left, largest = pixels_left - num_pixels, max(largest, num_pixels)",
        "        largest = max(largest, num_pixels)",
        (f"{PERCEIVING}::test_pictures_of_a_clip_may_not_claim_any_number_of_pixels",),
    ),
    Mutant(
        "perceived: frames have the bytes of one file each",
        "serving/api/uploads.py",
        "        bytes_left -= len(content)\n",
        "",
        (f"{PERCEIVING}::test_files_have_a_limit_of_their_own",),
    ),
    Mutant(
        "perceived: frames go backwards",
        "serving/api/uploads.py",
        'f"{number}.png"',
        'f"{1000 - number}.png"',
        (f"{PERCEIVING}::test_frames_are_in_the_order_in_which_they_are_sent",),
    ),
    Mutant(
        "perceived: errors tell where a file was put",
        "serving/api/uploads.py",
        "str(error).replace(str(path), name)",
        "str(error)",
        (f"{PERCEIVING}::test_what_is_no_clip_is_refused",),
    ),
    Mutant(
        "perceived: records tell where a file was put",
        "serving/api/media.py",
        'return replace(record, title="1")',
        "return record",
        (f"{PERCEIVING}::test_what_is_sent_can_be_looked_at",),
    ),
    Mutant(
        "perceived: of two files one is left aside",
        "serving/api/uploads.py",
        "if len(present) != 1 or present[0] not in names:",
        "if not present or present[0] not in names:",
        (f"{PERCEIVING}::test_what_is_wrong_with_what_is_sent_is_said",),
    ),
    Mutant(
        "perceived: frames are counted among those that were seen",
        "serving/api/media.py",
        "model_input.frame_indices.tolist()",
        "list(range(len(model_input.frame_indices)))",
        (f"{PERCEIVING}::test_where_a_caption_of_a_clip_looked",),
    ),
    Mutant(
        "perceived: transcripts may be made as long as anybody likes",
        "serving/api/media.py",
        ("    check_length(message, build_length_limits(config), limits, max_source_tokens=predictor.max_slots)\n"),
        "",
        (f"{PERCEIVING}::test_what_is_wrong_with_what_is_sent_is_said",),
    ),
    Mutant(
        "perceived: each transcript is drawn alike",
        "serving/api/media.py",
        "generation=config, n_best=message.n_best, seed=message.seed",
        "generation=config, n_best=message.n_best, seed=1",
        (f"{PERCEIVING}::test_options_of_a_transcript",),
    ),
    Mutant(
        "perceived: detectors do nothing but make vectors",
        "serving/api/encoders.py",
        "(ReplacedTokenPredictor,),",
        "(),",
        (f"{USES}::test_every_kind_of_face_does_something_of_its_own",),
    ),
    Mutant(
        "perceived: no temperature draws for OpenAI's clients",
        "serving/openai/audio.py",
        "if message.temperature else {}",
        "if not message else {}",
        (f"{AUDIO_OPENAI}::test_a_temperature_draws",),
    ),
    Mutant(
        "perceived: lists in forms are left aside where they are refused in JSON",
        "serving/openai/audio.py",
        'name.removesuffix("[]")',
        "name",
        (f"{AUDIO_OPENAI}::test_what_is_not_done_is_refused",),
    ),
)


GUARD = "tests/unit/serving/test_guard.py"
KEYS = "tests/unit/serving/test_keys.py"
DRAINING = "tests/unit/serving/test_draining.py"
SLOW_CLIENTS = "tests/unit/serving/test_slow_clients.py"
RATES = "tests/unit/serving/test_rates.py"
LOGS = "tests/unit/serving/test_logs.py"
STREAMS = "tests/unit/serving/test_streams.py"
PROXIES = "tests/unit/serving/test_proxies.py"
CROWDS = "tests/unit/serving/test_crowds.py"
SCRIBE = "tests/unit/serving/test_scribe.py"
MENDED = (
    Mutant(
        "streams: those that the end of a server cuts do not say so",
        "serving/sse.py",
        'await send_error(unavailable("ending"))',
        "pass",
        (f"{STREAMS}::test_the_end_of_the_server_is_told",),
    ),
    Mutant(
        "streams: what is wrong with the rest of a request is not told",
        "serving/sse.py",
        "if not has_more:",
        "if True:",
        (f"{STREAMS}::test_what_is_wrong_with_the_rest_of_a_request_is_told",),
    ),
    Mutant(
        "LibreTranslate: any number of tokens is written for a sentence",
        "serving/libretranslate/translation.py",
        "length = replace(translator.length, max_length=self.max_tokens)",
        "length = translator.length",
        ("tests/unit/serving/test_libretranslate.py::test_what_is_written_for_a_sentence_is_bounded",),
    ),
    Mutant(
        "proxies: anybody is believed who asks",
        "serving/clients.py",
        "        if nearest not in self:\n            return scope\n",
        "",
        (f"{PROXIES}::test_who_is_no_proxy_does_not_hide_behind_others",),
    ),
    Mutant(
        "proxies: the first address of a chain is believed",
        "serving/clients.py",
        "if address not in self:",
        "if False:",
        (f"{PROXIES}::test_the_nearest_that_is_no_proxy_asks",),
    ),
    Mutant(
        "proxies: a scheme is that which the last proxy was asked by",
        "serving/clients.py",
        "len(schemes) - 1 - num_passed",
        "len(schemes) - 1",
        (f"{PROXIES}::test_how_it_was_asked",),
    ),
    Mutant(
        "OpenAI: tokens are told when nobody waits",
        "serving/openai/completion.py",
        ("            self.context.deadline.raise_if_over()\n            yield item"),
        "            yield item",
        ("tests/unit/serving/test_openai.py::test_tokens_are_told_until_the_deadline",),
    ),
    Mutant(
        "OpenAI: prompts of streams are read at once",
        "serving/openai/completion.py",
        "self._job.iter_while_awaited(iter_chunks(ids, _CHUNK_TOKENS))",
        "[ids]",
        ("tests/unit/serving/test_openai.py::test_a_prompt_of_a_stream_is_read_until_the_deadline",),
    ),
    Mutant(
        "guard: files are read before there is a key",
        "serving/app.py",
        "min(limits.file if accepts_files and not key_in_body else limits.body, limits.bodies)",
        "min(limits.file if accepts_files else limits.body, limits.bodies)",
        (f"{KEYS}::test_no_file_is_read_before_there_is_a_key",),
    ),
    Mutant(
        "guard: bodies are read that cannot hold a key",
        "serving/app.py",
        "route is not None and route.key_in_body",
        "route is not None and route.reads is not None",
        (f"{KEYS}::test_who_has_no_key_is_told_so_before_the_body_is_there",),
    ),
    Mutant(
        "logs: what is left out is not counted",
        "serving/request_log.py",
        "self._num_dropped += 1",
        "pass",
        (f"{SCRIBE}::test_what_is_left_out_at_last_is_told_in_the_end",),
    ),
    Mutant(
        "logs: what a file does not take at once is lost",
        "serving/request_log.py",
        "time.sleep(_RETRY_SECONDS)",
        "return",
        (f"{SCRIBE}::test_a_file_that_does_not_wait_gets_all",),
    ),
    Mutant(
        "Ray: replicas have no log",
        "serving/ray_serve.py",
        "with use_server_logging(self._registry.settings):",
        "if True:",
        ("tests/unit/serving/test_spread.py::test_a_replica_has_the_log_and_the_limits_of_the_settings",),
    ),
    Mutant(
        "Ray: the second replica gets no body",
        "serving/ray_proxy.py",
        "            request.rewind()\n",
        "",
        ("tests/unit/serving/test_ray_proxy.py::test_a_request_is_sent_to_another_replica",),
    ),
    Mutant(
        "Ray: progress of other work is continued",
        "cli/answer_file.py",
        'stored["fingerprint"] != self._fingerprint or ',
        "",
        ("tests/unit/cli/test_answer_file.py::test_only_the_same_work_is_continued",),
    ),
    Mutant(
        "Ray: what was not stored stays in a file",
        "cli/answer_file.py",
        "        self._file.truncate()\n",
        "",
        ("tests/unit/cli/test_answer_file.py::test_a_file_without_valid_progress_is_begun_again",),
    ),
    Mutant(
        "Ray: headers have no end",
        "serving/ray_serve.py",
        'elif self._has_excess_headers(scope["headers"]):',
        "elif False:",
        ("tests/unit/serving/test_spread.py::test_a_replica_has_the_log_and_the_limits_of_the_settings",),
    ),
    Mutant(
        "crowds: one address may have all connections",
        "serving/http_protocol.py",
        "elif num_from_address > limits.connections_per_address:",
        "elif False:",
        (f"{CROWDS}::test_one_address_has_so_many_and_others_have_theirs",),
    ),
    Mutant(
        "crowds: who is refused may stay in any number",
        "serving/http_protocol.py",
        " or num_from_address > 2 * limits.connections_per_address",
        "",
        (f"{CROWDS}::test_who_is_refused_and_stays_takes_no_place_of_others",),
    ),
    Mutant(
        "crowds: who leaves is counted for ever",
        "serving/http_protocol.py",
        ("        self._connection_counter.remove_connection(self._client_address)\n"),
        "",
        (f"{CROWDS}::test_one_address_has_so_many_and_others_have_theirs",),
    ),
    Mutant(
        "crowds: proxies are one address",
        "serving/clients.py",
        "if address in self._proxies:\n            return 0",
        "if False:\n            return 0",
        (f"{CROWDS}::test_proxies_may_have_as_many_as_there_are",),
    ),
)
GUARDED = (
    Mutant(
        "guard: any host is ours",
        "serving/app.py",
        "self._origins.require_host(scope, headers)",
        "pass",
        (f"{GUARD}::test_hosts",),
    ),
    Mutant(
        "guard: pages of other sites may ask",
        "serving/app.py",
        "self._origins.require_origin(scope, headers)",
        "pass",
        (f"{GUARD}::test_pages_of_other_sites_may_not_ask",),
    ),
    Mutant(
        "guard: bodies in chunks have no end",
        "serving/app.py",
        "if num_bytes > max_bytes:",
        "if False:",
        (f"{GUARD}::test_bodies_without_a_length_have_a_size",),
    ),
    Mutant(
        "guard: paths that are none need no key",
        "serving/app.py",
        "if not key_in_body and (route is None or not route.public):",
        "if not key_in_body and (route is not None and not route.public):",
        (f"{KEYS}::test_nothing_but_what_is_free_is_told",),
    ),
    Mutant(
        "guard: what is told while a server ends keeps connections",
        "serving/app.py",
        'if self._registry.state == "ending":',
        "if False:",
        (f"{DRAINING}::test_requests_on_their_way_are_told_to_come_again",),
    ),
    Mutant(
        "routes: a key in a body is not looked for",
        "serving/routes.py",
        'context.registry.authenticator.authenticate(request.scope, find_key(getattr(request.state, "table", {})))',
        "pass",
        (f"{KEYS}::test_no_route_answers_who_has_no_key",),
    ),
    Mutant(
        "routes: what a model says tells folders",
        "serving/http_errors.py",
        'return bad_request(_FOLDER_PATTERN.sub("", str(error)))',
        "return bad_request(str(error))",
        (f"{GUARD}::test_what_a_model_says_of_a_text_hides_folders",),
    ),
    Mutant(
        "keys: a file is read once",
        "serving/auth.py",
        "        self._reload_if_changed()\n",
        "",
        (f"{KEYS}::test_the_file_is_read_again_when_it_changes",),
    ),
    Mutant(
        "rates: keys of one address share their rate",
        "serving/auth.py",
        'f"key {name}" if name else client_network(address)',
        "client_network(address)",
        (f"{KEYS}::test_rates_of_keys",),
    ),
    Mutant(
        "rates: who asked is remembered for ever",
        "serving/clients.py",
        "self._buckets.popitem(last=False)",
        "pass",
        (f"{RATES}::test_memory_is_bounded_and_the_newest_are_kept",),
    ),
    Mutant(
        "logs: messages of errors tell what was asked",
        "serving/request_log.py",
        'traceback_text = traceback_text.replace(text, "…").replace(repr(text)[1:-1], "…")',
        "pass",
        (f"{LOGS}::test_tracebacks_are_found_by_the_id_of_the_answer",),
    ),
    Mutant(
        "logs: keys are texts",
        "serving/request_log.py",
        "exclude=_SECRET_FIELDS, ",
        "",
        (f"{LOGS}::test_keys_in_messages_are_no_texts",),
    ),
    Mutant(
        "protocol: headers have no end",
        "serving/http_protocol.py",
        ("if (\n            self._bytes_without_body > self._limits.header_bytes + MAX_URL_BYTES\n        ):"),
        "if False:",
        (f"{SLOW_CLIENTS}::test_what_is_too_much_or_no_request",),
    ),
    Mutant(
        "protocol: there may be any number of connections",
        "serving/http_protocol.py",
        "elif len(self.connections) > limits.connections:",
        "elif False:",
        (f"{SLOW_CLIENTS}::test_connections_are_counted",),
    ),
    Mutant(
        "protocol: requests may arrive as slowly as they like",
        "serving/http_protocol.py",
        "            self._send_error(408,",
        "            print(408,",
        (f"{SLOW_CLIENTS}::test_what_does_not_arrive_is_not_waited_for",),
    ),
    Mutant(
        "protocol: answers may be taken as slowly as anybody likes",
        "serving/http_protocol.py",
        "if self._write_timer is None:",
        "if False:",
        (f"{SLOW_CLIENTS}::test_who_does_not_take_an_answer_loses_it",),
    ),
    Mutant(
        "protocol: what offers another protocol loses its body",
        "serving/http_protocol.py",
        "self._decline_upgrade(data[upgrade.args[0] :])",
        "pass",
        (f"{SLOW_CLIENTS}::test_offers_of_other_protocols_are_left_aside",),
    ),
    Mutant(
        "parting: an answer to what is too large is lost",
        "serving/http_protocol.py",
        "if not (self._expects_input() and self._transport.can_write_eof()):",
        "if True:",
        (f"{SLOW_CLIENTS}::test_what_is_too_much_or_no_request",),
    ),
    Mutant(
        "parting: who is refused may stay",
        "serving/http_protocol.py",
        "self._abort_timer = self._loop.call_later(LINGER_SECONDS, self._transport.abort)",
        "self._abort_timer = self._loop.call_later(1_000, self._transport.abort)",
        (f"{SLOW_CLIENTS}::test_who_is_refused_and_stays_is_left",),
    ),
    Mutant(
        "server: nothing is waited for in the end",
        "serving/server.py",
        "await self._wait_until(lambda: not self._is_busy, timeout=self._registry.settings.limits.drain)",
        "pass",
        (f"{DRAINING}::test_a_signal_lets_answers_be_finished",),
    ),
    Mutant(
        "server: a second signal is like the first",
        "serving/server.py",
        "os._exit(128 + sig)",
        "pass",
        (f"{DRAINING}::test_a_second_signal_ends_at_once",),
    ),
    Mutant(
        "server: answers that take too long are waited for",
        "serving/server.py",
        "            task.cancel()\n",
        "            pass\n",
        (f"{DRAINING}::test_answers_that_take_too_long_are_not_waited_for",),
    ),
    Mutant(
        "server: models that are loaded too late open it",
        "serving/server.py",
        'if self._registry.state == "loading":',
        "if True:",
        (f"{DRAINING}::test_models_that_are_loaded_too_late_open_nothing",),
    ),
)


TRACKED = (
    Mutant(
        "a resumed training begins another run of its tracker",
        "runs/trackers.py",
        "self._run_ids = dict(stored.get(_RUNS_KEY, {}))",
        "self._run_ids = {}",
        (f"{TRACKERS}::test_a_tracker_gets_all_numbers_and_goes_on",),
    ),
    Mutant(
        "a tracker that fails is asked again after each update",
        "runs/trackers.py",
        "                del self._trackers[name]\n",
        "",
        (f"{TRACKERS}::test_one_that_fails_is_switched_off_with_one_warning",),
    ),
    Mutant(
        "an interrupted training is a finished run of its tracker",
        "runs/trackers.py",
        "if self._is_finished else RunOutcome.INTERRUPTED",
        "if self._is_finished else RunOutcome.FINISHED",
        (f"{TRACKERS}::test_a_tracker_gets_all_numbers_and_goes_on",),
    ),
    Mutant(
        "numbers go to Weights & Biases though nobody asked for it",
        "runs/tracker_backends.py",
        '"online" if os.environ.get("WANDB_API_KEY") else "offline"',
        '"online"',
        (f"{TRACKERS}::test_wandb_sends_only_if_the_environment_says_so",),
    ),
    Mutant(
        "TensorBoard shows updates that were trained again twice",
        "runs/tracker_backends.py",
        "purge_step=resumed_at + 1 if resumed_at else None",
        "purge_step=None",
        (f"{TRACKERS}::test_tensorboard_drops_what_is_trained_again",),
    ),
    Mutant(
        "a password in the address of a tracker is shown",
        "runs/trackers.py",
        're.sub(r"://[^/@ ]*@", "://", line)',
        "line",
        (f"{TRACKERS}::test_one_that_cannot_start_is_an_error_before_the_first_update",),
    ),
)
MUTANTS = (
    *TRACKED,
    *ASKED_AS_OPENAI,
    *ASKED_IN_OUR_WORDS,
    *IN_OTHER_PROCESSES,
    *PERCEIVED,
    *IN_COMPANY,
    *GUARDED,
    *MENDED,
    *IDENTIFIED,
    *HELD_WHOLE,
    *PROTECTED_TERMS,
    *SWEEPS,
    *LECTURE,
    *QUANTIZED_FOLDERS,
    *NATIVE_LLAMA,
    *FINE_TUNED_SPEECH,
    *COPYING,
    *PROMPTED_SPEECH,
    *OTHERS_ASKED,
    *RISKED,
    *BESIDE,
    *ADAPTED,
    *ANNOTATED,
    *ALIGNED,
    *TRANSLATORS,
    *LETTERS,
    *COLUMNS,
    *CONSTRAINED,
    *REMEMBERED,
    *CHOSEN,
    *COUNTED_RIGHT,
    *JUDGED,
    *DETACHED,
    *WORTH_READING,
    *NATIVE,
    *CORPORA,
    *LOOSE_ENDS,
    *ENGINES,
    *CLIPS,
    *COSTS,
    *ATTENTION,
    *MODELS,
    *MEMORIES,
    *SUMMARIES,
    *RECURRENT,
    *CONVOLUTIONS,
    *TASKS,
    *GENERATION,
    *TRAINING,
    *PRETRAINING,
    *LABELLED,
    *METRICS,
    *MEASURES,
    *EXPORTED,
    *COMMANDS,
    *PATCHED,
    *GLIMPSING,
    *CAPTIONED,
    *FIRST_HOUR,
    *GOING_ON,
    *TAGGED,
    *IN_DOCUMENTS,
)


@contextmanager
def copied() -> Iterator[Path]:
    """The package and its tests in a temporary folder, with what was compiled of them."""
    with tempfile.TemporaryDirectory(prefix="heedful-mutant-") as name:
        folder = Path(name)
        for part in ("heedful", "tests"):
            shutil.copytree(ROOT / part, folder / part)
        shutil.copy2(ROOT / "pyproject.toml", folder)
        yield folder


def plant(mutant: Mutant, folder: Path) -> None:
    """Changes the copy; `LookupError` where the text is not there or not alone."""
    path = folder / "heedful" / mutant.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise LookupError(f"{mutant.file}: the text to change occurs {text.count(mutant.old)} times")
    for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        stale.unlink()
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


@dataclass(frozen=True)
class Trial:
    """Tests that run in a process of their own."""

    process: BaseProcess
    log: Path
    began: float

    @classmethod
    def of(cls, folder: Path, tests: Sequence[str], *, seconds: int = CPU_SECONDS) -> Trial:
        log = folder / "log"
        process = multiprocessing.get_context("fork").Process(target=_run, args=(folder, tests, log, seconds))
        process.start()
        return cls(process, log, time.perf_counter())

    def outcome(self) -> tuple[int, str]:
        """The exit code of pytest, and what it said."""
        self.process.join()
        assert self.process.exitcode is not None
        return self.process.exitcode, self.log.read_text(encoding="utf-8", errors="replace")


def _run(folder: Path, tests: Sequence[str], log: Path, seconds: int) -> None:
    import pytest

    file = os.open(log, os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(file, stream)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    import heedful

    assert Path(heedful.__file__).is_relative_to(folder), "another heedful is in the way"
    known = "ignore:Module already imported so cannot be rewritten"
    code = pytest.main(["-x", "-p", "no:cacheprovider", "-W", known, "--no-header", "--tb=line", *tests])
    sys.stdout.flush()
    os._exit(int(code))


def load_what_all_need() -> None:
    """Once, before processes are forked: loading torch takes longer than most of the tests."""
    import beartype
    import jaxtyping
    import numpy
    import pydantic
    import pytest
    import sacrebleu
    import safetensors.torch
    import sentencepiece
    import torch

    torch.set_num_threads(1)
    assert all((beartype, jaxtyping, numpy, pydantic, pytest, sacrebleu, safetensors, sentencepiece))
    assert "heedful" not in sys.modules


def judge(mutants: Sequence[Mutant], *, jobs: int) -> int:
    """Tries each bug, `jobs` at a time; tells what became of it, and returns how many were not caught."""
    waiting, running, failures = list(mutants), {}, 0
    with ExitStack() as folders:
        while waiting or running:
            while waiting and len(running) < jobs:
                mutant, here = waiting.pop(0), ExitStack()
                folder = folders.enter_context(here).enter_context(copied())
                try:
                    plant(mutant, folder)
                except LookupError as error:
                    failures += 1
                    report("pattern-not-found", mutant, 0.0)
                    print(error, file=sys.stderr)
                    continue
                trial = Trial.of(folder, mutant.tests)
                running[trial.process.sentinel] = (mutant, trial, here)
            for sentinel in wait(list(running)):
                mutant, trial, here = running.pop(sentinel)
                code, log = trial.outcome()
                word = {0: "survived", 1: "caught", -signal.SIGXCPU: "caught"}.get(code, f"broken ({code})")
                report(word, mutant, time.perf_counter() - trial.began)
                if word != "caught":
                    failures += 1
                    print(log, file=sys.stderr, flush=True)
                here.close()
    return failures


def report(word: str, mutant: Mutant, seconds: float) -> None:
    print(f"{word:<18} {seconds:5.1f} s  {mutant.file:<26} {mutant.name}", flush=True)


def main() -> int:
    """1 where a bug survived or a record is wrong, 2 where the tests fail without any bug."""
    parser = argparse.ArgumentParser(description="Plants known bugs and sees whether the tests notice.")
    parser.add_argument("--only", metavar="NAME", help="mutants whose names contain this")
    parser.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count() or 1, help="processes at a time")
    given = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if (given.only or "") in mutant.name]
    if not chosen:
        parser.error(f"--only {given.only}: no mutant has this in its name")
    load_what_all_need()
    tests = list(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
    with copied() as folder:
        code, log = Trial.of(folder, tests, seconds=UNPLANTED_CPU_SECONDS).outcome()
    if code:
        print(log, "the tests fail before any bug is planted; mend them first", sep="\n", file=sys.stderr)
        return 2
    failures = judge(chosen, jobs=given.jobs)
    print(f"{len(chosen) - failures} of {len(chosen)} caught")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
