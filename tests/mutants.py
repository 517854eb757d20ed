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


INSPECTING = "tests/unit/tasks/test_inspecting.py"
TREE = "tests/unit/generation/test_tree.py"
PARTIAL_WORDS = "tests/unit/tasks/test_partial_words.py"
MEMORY = "tests/unit/localisation/test_memory.py"
MEMORY_COMMAND = "tests/unit/cli/test_memory.py"
BANS = "tests/unit/generation/test_bans.py"
NEAREST = "tests/unit/data/test_nearest.py"
ERROR_PAGE = "tests/unit/tasks/test_error_page.py"
BOOTSTRAP_COUNTS = "tests/unit/metrics/test_bootstrap.py"
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
DETACHMENT = "tests/unit/tasks/test_detachment.py"
SIGNED = "tests/unit/cli/test_calibrate.py"
KNESER_NEY = "tests/unit/metrics/test_kneser_ney.py"
FACES = "tests/unit/tasks/test_faces.py"
LOOKING = "tests/unit/inspection/test_looking.py"
UNROLLED = "tests/unit/inspection/test_unrolled.py"
FLOW = "tests/unit/inspection/test_flow.py"
HEADS = "tests/unit/inspection/test_heads.py"
DIFFERENCE = "tests/unit/inspection/test_difference.py"
RECORD = "tests/unit/inspection/test_record.py"
WATCH = "tests/unit/inspection/test_watch.py"
CAPTURE = "tests/unit/inspection/test_capture.py"
LAWS = "tests/laws/test_decoder_laws.py"
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
OPTIMIZERS = "tests/unit/training/test_optimizers.py"
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

COSTS = (
    Mutant(
        "time left forgets that evaluations take time",
        "training/forecast.py",
        "updates * self.per_update + pauses * (self.pause or 0.0)",
        "updates * self.per_update",
        (FORECAST,),
    ),
    Mutant(
        "time left goes by the last limit instead of the first",
        "training/forecast.py",
        "return min(found, key=lambda ending: ending.seconds, default=None)",
        "return max(found, key=lambda ending: ending.seconds, default=None)",
        (FORECAST,),
    ),
    Mutant(
        "a run that goes on begins its epoch anew in the forecast",
        "training/trainer.py",
        "return Plan(self.progress, len(updates), min(done, len(updates)), sum(sizes), examples, every)",
        "return Plan(self.progress, len(updates), 0, sum(sizes), examples, every)",
        (FORECAST,),
    ),
    Mutant(
        "losses part already where validation rises for once",
        "training/trend.py",
        "rising >= _RISING and _apart",
        "rising and _apart",
        ("tests/unit/training/test_trend.py",),
    ),
    Mutant(
        "overfitting is told at every evaluation",
        "training/trend.py",
        "if before.parted is not None or low is None or now is None:",
        "if low is None or now is None:",
        ("tests/unit/training/test_trend.py",),
    ),
    Mutant(
        "validation examples are sought by their sources alone",
        "data/corpus.py",
        "identity=lambda pair: (pair.source, pair.target),",
        "identity=lambda pair: pair.source,",
        ("tests/unit/data/test_corpus.py::test_examples_that_occur_in_another_corpus_are_counted",),
    ),
    Mutant(
        "what is left out of a corpus has a digest there",
        "data/corpus.py",
        """        encoded = encode(example)
""",
        """        encoded = encode(example)
        if digests is not None and any(items is None for items in encoded):
            digests.add(example)
""",
        ("tests/unit/data/test_corpus.py",),
    ),
    Mutant(
        "a curve draws the smoothed loss of training",
        "runs/learning_curve.py",
        'for name in ("nll", "loss") if',
        'for name in ("loss", "nll") if',
        ("tests/unit/runs/test_learning_curve.py",),
    ),
    Mutant(
        "none removes keys that need a value",
        "recipes/overrides.py",
        'if override.text == "none" and NoneType in kinds:',
        'if override.text == "none":',
        ("tests/unit/recipes/test_overrides.py",),
    ),
    Mutant(
        "the languages of a TMX file are exchanged",
        "recipes/parallel.py",
        "source_language=self.source_language, target_language=self.target_language",
        "source_language=self.target_language, target_language=self.source_language",
        ("tests/unit/recipes/test_parallel_text.py",),
    ),
    Mutant(
        "a linear schedule ends before min_steps",
        "runs/loop.py",
        "by_epochs = max(sum(per_epoch), limits.min_steps)",
        "by_epochs = sum(per_epoch)",
        ("tests/unit/cli/test_compare_labels.py",),
    ),
    Mutant(
        "an adapter is lost on a base of bytes",
        "runs/worn.py",
        "replace(weights, exact=floats, rounded={})",
        "replace(weights, exact=floats)",
        ("tests/unit/runs/test_worn.py",),
    ),
    Mutant(
        "one test part of several tasks is enough to measure the test parts",
        "runs/examine.py",
        '"validation" if any(',
        '"validation" if all(',
        ("tests/unit/runs/test_multitask_run.py",),
    ),
    Mutant(
        "memory is estimated for a length that is the number of examples in a batch",
        "runs/costs.py",
        "plan.batches / max(1, plan.examples)",
        "plan.examples / max(1, plan.batches)",
        ("tests/unit/runs/test_costs.py",),
    ),
    Mutant(
        "keys of a run that never learned mean what they meant in older versions",
        "runs/load.py",
        "begun=is_begun(folder))",
        "begun=True)",
        ("tests/unit/runs/test_older_runs.py",),
    ),
    Mutant(
        "f1 is that of another class than the positive one",
        "tasks/classification/exam.py",
        "(*(name for name in labels if name != positive), positive)",
        "(positive, *(name for name in labels if name != positive))",
        ("tests/unit/tasks/test_classification.py",),
    ),
    Mutant(
        "a reply looks at itself on the page of a dialogue",
        "tasks/conversation/transcript.py",
        "self.turns[: number - 1]",
        "self.turns[:number]",
        ("tests/unit/tasks/test_partner.py",),
    ),
    Mutant(
        "the vector of a text that is too long is that of its end",
        "tasks/embedder.py",
        "ids = ids[: self.room]",
        "ids = ids[-self.room :]",
        ("tests/unit/tasks/test_pretraining.py",),
    ),
    Mutant(
        "a part of a loss is a mean over the labels of the loss",
        "tasks/examples.py",
        "counts[name] += part.count",
        "counts[name] += loss.count",
        ("tests/unit/training/test_own_loop.py",),
    ),
    Mutant(
        "a spectrogram has its high tones below",
        "tasks/speech/face.py",
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
        "tasks/target.py",
        "min(each.least, limit - 1) - len(each.prefix)",
        "min(each.least, limit - 1)",
        ("tests/unit/tasks/test_translator.py",),
    ),
    Mutant(
        "words that two parts of a sentence share are tagged twice",
        "tasks/tagging/face.py",
        "if word in stretch.taken",
        "if word in stretch.read",
        ("tests/unit/tasks/test_tagging.py",),
    ),
)

ATTENTION = (
    Mutant(
        "frozen vectors learn after a pause",
        "runs/train.py",
        "    run.kind.hold(run, model)",
        "    if snapshot is None: run.kind.hold(run, model)",
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
        "log.rewind(progress, snapshot.gathered if snapshot else {})",
        "log.rewind(progress, {})",
        ("tests/unit/runs/test_training_run.py::test_lines_of_training_are_those_of_one_sitting",),
    ),
    Mutant(
        "updates that will be made again stay in a line",
        "runs/metrics_log.py",
        "self._gathered = _Gathered.of(gathered.get(_LINE, {}))",
        "self._gathered = _Gathered.of(gathered[_LINE]) if gathered else self._gathered",
        ("tests/unit/runs/test_metrics.py::test_an_older_checkpoint_has_gathered_nothing",),
    ),
    Mutant(
        "parts are means over the labels of the loss",
        "training/sums.py",
        "torch.tensor((float(part.total.detach()), float(part.count)), dtype",
        "torch.tensor((float(part.total.detach()), float(loss.count)), dtype",
        (f"{TRAINER}::test_parts_have_counts_of_their_own_however_a_batch_is_dealt_out",),
    ),
    Mutant(
        "each process tells its own parts",
        "training/sums.py",
        "        world.sum_([everywhere])\n",
        "        world.sum_([everywhere[:1]])\n",
        (f"{TRAINER}::test_parts_have_counts_of_their_own_however_a_batch_is_dealt_out",),
    ),
    Mutant(
        "a question about passages counts as its hidden tokens",
        "tasks/pretraining/objectives.py",
        "Part(sums[second].detach(), sums[questions])",
        'Part(sums[second].detach(), sums["tokens"])',
        (f"{PRETRAINED}::test_parts_count_what_they_are_of",),
    ),
    Mutant(
        "a line of training mixes tasks",
        "training/listeners.py",
        'return {f"{self.task}/{name}": part for name, part in self.parts.items()}',
        "return dict(self.parts)",
        ("tests/unit/runs/test_metrics.py::test_several_tasks_have_their_own_means",),
    ),
    Mutant(
        "raw regions are smooth",
        "inspection/figures/pictures.py",
        "kernel = spread if chosen.smooth else overlap",
        "kernel = spread",
        (f"{LOOKING}::test_raw_regions_have_the_colours_of_their_weights",),
    ),
    Mutant(
        "rows and columns of a glimpse are swapped",
        "inspection/figures/pictures.py",
        "centres = [(each.column * width, each.row * height)",
        "centres = [(each.row * width, each.column * height)",
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
        "inspection/chain.py",
        "chance * given[path[-1], key]",
        "chance * joint[path[-1], key]",
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
        "return tuple(map(_turned, (first, *others))) if self.order is REVERSED else (first, *others)",
        "return (first, *others)",
        (f"{UNROLLED}::test_a_box_needs_the_tokens_that_its_numbers_depend_on",),
    ),
    Mutant(
        "every task hears of all updates",
        "tasks/multitask/problem.py",
        "        self.members[member].task.learned(nll)",
        "        [each.task.learned(nll) for each in self.members.values()]",
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
        "with suppress(TrainingError):  # this",
        "with suppress(KeyError):  # this",
        (f"{DISTRIBUTED}::test_a_lost_process_is_one_sentence",),
    ),
    Mutant(
        "orphans train on",
        "training/trainer.py",
        "if self.world.orphaned:",
        "if False:",
        (f"{INTERRUPTION}::test_a_process_whose_parent_is_gone_saves_and_leaves",),
    ),
    Mutant(
        "a shell that ends takes processes with it that were started by hand",
        "training/distributed.py",
        "os.getppid() if _LAUNCHED in os.environ else None",
        "os.getppid()",
        (f"{DISTRIBUTED}::test_processes_of_torchrun_know_when_it_is_gone",),
    ),
    Mutant(
        "a moment of another shape goes to the kernel",
        "training/optimizers.py",
        "        require_alike(tensors, wanted, place=place, prefix=prefix)\n",
        "",
        (f"{OPTIMIZERS}::test_moments_that_are_not_those_of_a_parameter_are_refused",),
    ),
    Mutant(
        "a weight is spread over a parameter of another shape",
        "training/trainer.py",
        "        require_alike(snapshot.weights, parameters, place=weights)\n",
        "",
        (f"{TRAINER}::test_a_snapshot_of_another_shape_is_refused_before_anything_changes",),
    ),
    Mutant(
        "types of restored tensors are not looked at",
        "training/restoring.py",
        "if (tensor.shape, tensor.dtype) != (wanted[name].shape, wanted[name].dtype):",
        "if tensor.shape != wanted[name].shape:",
        (f"{OPTIMIZERS}::test_moments_that_are_not_those_of_a_parameter_are_refused",),
    ),
    Mutant(
        "checkpoints of several shapes are averaged",
        "runs/checkpoints.py",
        "        require_alike(model, models[0], place=str(folder / _weights(step)))\n",
        "        pass\n",
        (f"{CHECKPOINTS}::test_checkpoints_that_differ_in_shape_are_not_averaged",),
    ),
    Mutant(
        "a risk is seen in the first table alone",
        "recipes/problems.py",
        "                yield from risks(each, f",
        "                yield from each.risks(f",
        (
            f"{PROBLEMS}::test_exponentials_of_exponentials_are_a_risk",
            f"{PROBLEMS}::test_the_risk_of_one_of_several_tasks_is_named_after_it",
        ),
    ),
    Mutant(
        "additive scores have a bias that nobody asked for",
        "architectures/build_attention.py",
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
        '"proportional" if given["score"] in POSITIVE_SCORES else "softmax"',
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
        "d_k = d_v if shared_key_value else d_model // heads",
        "d_k = d_v = d_model // heads if shared_key_value else d_model // heads",
        (f"{LOOPS}::test_equals_the_loops",),
    ),
    Mutant(
        "a sentence's last word is not 1",
        "attention/positions.py",
        "places.amax(1, keepdim=True).clamp(min=1)",
        "(places.amax(1, keepdim=True) + 1)",
        (f"{POSITIONS}::test_the_first_rejected_idea",),
    ),
    Mutant(
        "all sentences of a batch are as long as its longest",
        "attention/positions.py",
        "places.amax(1, keepdim=True).clamp(min=1)",
        "places.amax().clamp(min=1)",
        (f"{POSITIONS}::test_the_first_rejected_idea",),
    ),
    Mutant(
        "a decoder takes what it has read for the whole sentence",
        "architectures/build_stack.py",
        'None if whole and of == "sentence" else longest',
        'None if of == "sentence" else longest',
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
        "recipe_from(completed(table, _kind(table, place=place)), place=place)",
        "recipe_from(table, place=place)",
        (OLDER,),
    ),
    Mutant(
        "an older run can only go on with new keys",
        "runs/prepare.py",
        "    recipe = taking_up_run(folder, recipe)\n",
        "",
        (OLDER,),
    ),
    Mutant(
        "what was asked for gives way to what an older run meant",
        "recipes/load.py",
        "and name not in found.model_fields_set",
        "and True",
        (OLDER, STORED),
    ),
    Mutant(
        "explained scores lack the relative bias",
        "attention/multihead.py",
        "weights = self.weigher.choose(scores.clone(), sight=sight)",
        "weights = self.weigher.choose(scores := self.weigher.score(query, memory.key), sight=sight)",
        (f"{LAWS}::test_capture_law[shaw-keys-pre_norm-inference]",),
    ),
    Mutant(
        "explained keys are not what is attended to",
        "attention/multihead.py",
        "context=self._combined(weights, memory, sight=sight),",
        "context=kernels.combined(weights, memory.value),",
        (f"{LAWS}::test_capture_law[shaw-post_norm-inference]",),
    ),
    Mutant(
        "explained weights ignore where a query looks",
        "attention/attention.py",
        "        weights = self._weights(scores, query, visible=visible)\n        parts",
        "        weights = self.choose(scores, visible)\n        parts",
        (f"{LAWS}::test_capture_law[luong-predicted-inference]",),
    ),
    Mutant(
        "layers are counted over all roles",
        "inspection/capture.py",
        "found[path] = Place(look, counts[look.role], module.heads)",
        "found[path] = Place(look, counts.total(), module.heads)",
        (f"{INSPECTING}::test_its_weights_are_those_of_alignments",),
    ),
    Mutant(
        "everything is watched whatever was asked for",
        "inspection/capture.py",
        "if layers is None or place.layer in layers}",
        "if layers is None or place.layer in layers or True}",
        (f"{INSPECTING}::test_only_what_was_asked_for_is_kept",),
    ),
    Mutant(
        "a silenced head is another one",
        "inspection/watch.py",
        "silent[:, head] = 0",
        "silent[:, head - 1] = 0",
        (f"{INSPECTING}::test_a_head_is_worth_what_its_part_of_the_output_map_is_worth",),
    ),
    Mutant(
        "the tree ends branches that were ranked too low",
        "generation/tree.py",
        "if ends and rank < self.width:",
        "if ends:",
        (f"{TREE}::test_the_tree_holds_what_was_ranked",),
    ),
    Mutant(
        "the tree grows from the wrong beam",
        "generation/tree.py",
        "= sorted(live, key=lambda number: -self.nodes[number].total)",
        "= live[::-1]",
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
        "np.log(seen.sum(1)[several])",
        "np.log(seen.shape[1])",
        (HEADS,),
    ),
    Mutant(
        "flow never takes back what was sent down",
        "inspection/pipes.py",
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
        "_difference(each, head, other.head(head)) for head in heads",
        "_difference(each, head, other.weights[each.heads.index(head)]) for head in heads",
        (f"{DIFFERENCE}::test_heads_are_paired_by_their_numbers",),
    ),
    Mutant(
        "integrated gradients are taken at the word alone",
        "inspection/attribution.py",
        "return (nodes + 1) / 2, weights / 2",
        "return nodes * 0 + 1, weights / 2",
        (
            "tests/laws/test_attribution_laws.py::test_of_a_cube_integrated_gradients_are_exact_in_two_steps_and_the_"
            "gradient_is_three_times_as_large",
        ),
    ),
    Mutant(
        "the baseline of an attribution has words",
        "inspection/attribution.py",
        "whole.at([0.0])",
        "whole.at([0.5])",
        (
            "tests/laws/test_attribution_laws.py::test_positions_and_the_norm_stay_and_columns_without_a_token_have_no_"
            "score",
        ),
    ),
    Mutant(
        "watching hears other threads",
        "inspection/watch.py",
        "if mine not in _LISTENING.get():",
        "if False:",
        (f"{WATCH}::test_other_threads_are_not_seen",),
    ),
    Mutant(
        "who leaves a watch first ends those inside it",
        "attention/probe.py",
        "tuple(each for each in _READERS.get() if each is not readers)",
        "()",
        (WATCH,),
    ),
    Mutant(
        "what an attention looks at may be said again",
        "attention/explained.py",
        "and module.probe.look is None:",
        ":",
        (f"{CAPTURE}::test_places_are_what_attentions_declare",),
    ),
    Mutant(
        "the divergence is one-sided",
        "inspection/heads.py",
        "(_relative(p, middle) + _relative(q, middle)) / 2",
        "_relative(p, middle)",
        (DIFFERENCE,),
    ),
    Mutant(
        "scores are not scaled",
        "attention/weigher.py",
        "return 1 / math.sqrt(d_k)",
        "return 1.0",
        (f"{TORCH}::test_multi_head_attention",),
    ),
    Mutant(
        "scores are scaled by the width of the model",
        "attention/weigher.py",
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
        "query.dtype != torch.bfloat16 or key.size(2) > _LONG",
        "query.dtype == torch.bfloat16 or key.size(2) > _LONG",
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
        "attention/sight.py",
        "return self.owned is None and positions.stride(0) == 0 and self.positions.stride(0) == 0",
        "return self.owned is None",
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
        "attention/choice.py",
        "torch.where(visible, scores, floor).softmax(-1) * visible",
        "torch.where(visible, scores, floor).softmax(-2) * visible",
        (f"{SCORES}::test_attention",),
    ),
    Mutant(
        "queries that see nothing look at padding",
        "attention/kernels.py",
        "return weights if blind is None else weights.masked_fill(blind, 0.0)",
        "return weights",
        (f"{KERNELS}::test_the_softmax_in_place_is_the_softmax",),
    ),
    Mutant(
        "queries that see nothing look at everything in the fused kernel",
        "attention/kernels.py",
        "return context if blind is None else context.masked_fill(blind, 0.0)",
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
        "attention/visibility.py",
        "(key >= 0) & (key <= query)\n",
        "(key >= 0) & (key <= query + 1)\n",
        (f"{VISIBILITY}::test_the_rule_holds_for_each_pair",),
    ),
    Mutant(
        "a token does not see itself",
        "attention/visibility.py",
        "(key >= 0) & (key <= query)\n",
        "(key >= 0) & (key < query)\n",
        (f"{VISIBILITY}::test_the_rule_holds_for_each_pair",),
    ),
    Mutant(
        "padding is seen",
        "attention/visibility.py",
        "(key >= 0).expand(",
        "(key >= -1).expand(",
        (f"{LAWS}::test_padding_law_source[sinusoidal-post_norm-inference]",),
    ),
    Mutant(
        "a window is one too narrow",
        "attention/visibility.py",
        "(key >= query - self.before)",
        "(key > query - self.before)",
        (f"{VISIBILITY}::test_the_rule_holds_for_each_pair",),
    ),
    Mutant(
        "a spot lies on the other side of the query",
        "attention/positions.py",
        "self._pixel(key_positions).unsqueeze(1) - self._pixel(positions).unsqueeze(2)",
        "self._pixel(positions).unsqueeze(2) - self._pixel(key_positions).unsqueeze(1)",
        (f"{LOOPS}::test_equals_the_loops",),
    ),
    Mutant(
        "a quadratic encoding forgets the distance",
        "attention/positions.py",
        "delta.square().sum(-1).unsqueeze(1) - 2 * toward",
        "delta.sum(-1).unsqueeze(1) - 2 * toward",
        (f"{LOOPS}::test_equals_the_loops",),
    ),
    Mutant(
        "blocks of a band look at the keys beside theirs",
        "attention/sight.py",
        "(keys - queries - window.before) + place",
        "(keys - queries - window.before + 1) + place",
        (f"{BAND}::test_a_band_is_its_window", f"{LAWS}::test_chunk_law[windows-bands]"),
    ),
    Mutant(
        "a band sees keys beyond the ends again",
        "attention/sight.py",
        "torch.where(inside, key_positions[:, near], -1)",
        "key_positions[:, near]",
        (f"{BAND}::test_a_band_is_its_window",),
    ),
    Mutant(
        "a band where tokens do not stand in line",
        "attention/sight.py",
        "return bool((most <= least).all())",
        "return bool((most <= least).any())",
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
        "attention/sight.py",
        "if looked_at and bool(mask.all()):",
        "if looked_at and bool(mask[:, :, -1].all()):",
        (f"{SIGHT}::test_a_mask_that_hides_nothing_is_no_mask", f"{LAWS}::test_cause_law"),
    ),
    Mutant(
        "keys are left behind that a beam descends from",
        "attention/sight.py",
        "return used & self.owned.view(len(used), self.width, -1).any(1)",
        "return used & self.owned.view(len(used), self.width, -1).all(1)",
        (f"{SIGHT}::test_each_row_sees_what_it_descends_from_and_nothing_else",),
    ),
    Mutant(
        "keys that are needed by one change their order",
        "attention/sight.py",
        "return used.byte().sort(dim=1, stable=True).indices[:, keys - most :]",
        "return used.byte().sort(dim=1, stable=True).indices[:, keys - most :].flip(1)",
        (f"{SIGHT}::test_each_row_sees_what_it_descends_from_and_nothing_else",),
    ),
    Mutant(
        "what fills up a group is looked at",
        "attention/sight.py",
        "torch.where(self._used(), self.positions, -1).gather(1, columns)",
        "self.positions.gather(1, columns)",
        (f"{SIGHT}::test_each_row_sees_what_it_descends_from_and_nothing_else",),
    ),
    Mutant(
        "ancestry keeps its columns where keys lose theirs",
        "attention/sight.py",
        "self.owned.gather(1, columns.repeat_interleave(self.width, 0))",
        "self.owned[:, : columns.size(1)]",
        (f"{SIGHT}::test_each_row_sees_what_it_descends_from_and_nothing_else",),
    ),
    Mutant(
        "nothing is left behind but where groups are dropped",
        "blocks/state.py",
        "and not past.has_room(newest):",
        "and not past.has_room(0):",
        ("tests/unit/blocks/test_transformer.py::test_what_no_beam_descends_from_is_left_behind",),
    ),
    Mutant(
        "groups that are copied keep all keys",
        "blocks/state.py",
        "return state if groups is None else state._lean(groups)",
        "return state if groups is None else replace(state, picks=self.picks.then(groups, None))",
        ("tests/unit/blocks/test_transformer.py::test_what_no_beam_descends_from_is_left_behind",),
    ),
    Mutant(
        "all heads keep the columns of the first",
        "attention/keys.py",
        "each = groups.unsqueeze(1) * heads + torch.arange(heads, device=columns.device)",
        "each = groups.unsqueeze(1) * heads + torch.zeros(heads, dtype=torch.long, device=columns.device)",
        (f"{STORAGE}::test_each_group_keeps_columns_of_its_own",),
    ),
    Mutant(
        "groups picked of groups are those of the first",
        "attention/keys.py",
        "own = groups if own is None else own.index_select(0, groups)",
        "own = groups",
        (f"{STACK_STATE}::test_rows_are_picked_again_before_they_are_read",),
    ),
    Mutant(
        "columns of groups that were picked stay in the order of the first",
        "attention/keys.py",
        "kept = None if kept is None else kept.index_select(0, groups)",
        "kept = None if kept is None else kept[: len(groups)]",
        (f"{STACK_STATE}::test_rows_are_picked_again_before_they_are_read",),
    ),
    Mutant(
        "columns picked of columns are those of the first",
        "attention/keys.py",
        "kept = columns if kept is None else kept.gather(1, columns)",
        "kept = columns",
        (f"{STACK_STATE}::test_rows_are_picked_again_before_they_are_read",),
    ),
    Mutant(
        "memories are joined in the order in which they were stored",
        "blocks/state.py",
        "Picks(part.picks.groups, part.memories[name].columns(size[name]))",
        "Picks(None, part.memories[name].columns(size[name]))",
        (f"{LAWS}::test_join_law",),
    ),
    Mutant(
        "beams see what their neighbours wrote",
        "attention/sight.py",
        "mine = torch.eye(self.width, dtype=torch.bool, device=positions.device)",
        "mine = torch.ones(self.width, self.width, dtype=torch.bool, device=positions.device)",
        (f"{SIGHT}::test_each_row_sees_what_it_descends_from_and_nothing_else",),
    ),
    Mutant(
        "ancestry does not follow the beams",
        "attention/sight.py",
        "owned = None if self.owned is None else self.owned.index_select(0, rows.origin)",
        "owned = self.owned",
        (f"{LAWS}::test_rows_in_groups_are_rows[sinusoidal-post_norm-inference]",),
    ),
    Mutant(
        "heads take each other's parts",
        "attention/multihead.py",
        "x.view(x.size(0), x.size(1), self.heads, width).transpose(1, 2)",
        "x.view(x.size(0), x.size(1), width, self.heads).permute(0, 3, 1, 2)",
        (f"{TORCH}::test_multi_head_attention",),
    ),
    Mutant(
        "keys and values are exchanged",
        "attention/multihead.py",
        "key, value = linear(keys).split([cut, self.heads * self.d_v], -1)",
        "value, key = linear(keys).split([cut, self.heads * self.d_v], -1)",
        (f"{TORCH}::test_multi_head_attention",),
    ),
    Mutant(
        "values of their own are projected like keys",
        "attention/multihead.py",
        "linear(values)[..., cut:]",
        "linear(keys)[..., cut:]",
        (f"{TORCH}::test_multi_head_attention_over_another_width_with_values_of_their_own",),
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
        "attention/keys.py",
        "torch.cat((self.value, newer.value), 2)",
        "torch.cat((newer.value, self.value), 2)",
        (f"{STORAGE}::test_keys_and_values_grow_alike_with_and_without_gradients",),
    ),
    Mutant(
        "two continuations write to one place",
        "attention/space.py",
        "granted = begin == free and end <= self.size",
        "granted = end <= self.size",
        (f"{STORAGE}::test_a_tree_of_states_is_what_concatenation_makes_of_it",),
    ),
    Mutant(
        "positions are counted from 1",
        "attention/positions.py",
        "angle = positions.unsqueeze(-1) * self.rate",
        "angle = (positions.unsqueeze(-1) + 1) * self.rate",
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
        "key = self.relative.rotate(self._split(key, self.d_k), positions)",
        "key = self._split(key, self.d_k)",
        (f"{LOOPS}::test_only_differences_of_positions_count",),
    ),
    Mutant(
        "rotations turn the other way",
        "attention/positions.py",
        "even * cos - odd * sin, even * sin + odd * cos",
        "even * cos + odd * sin, odd * cos - even * sin",
        (f"{LOOPS}::test_rotations_keep_norms_and_leave_position_0_alone",),
    ),
    Mutant(
        "relative distances have the other sign",
        "attention/positions.py",
        "(key_positions[:, None, :] - positions[:, :, None])",
        "(positions[:, :, None] - key_positions[:, None, :])",
        (f"{LOOPS}::test_equals_the_loops[project-False-shaw]",),
    ),
    Mutant(
        "relative distances are clipped one too early",
        "attention/positions.py",
        ".clamp(-self.clip, self.clip) + self.clip",
        ".clamp(1 - self.clip, self.clip - 1) + self.clip",
        (f"{LOOPS}::test_distances_beyond_the_clip_are_one",),
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
        "attention/dropout.py",
        ".to(dtype), _LEVELS / (_LEVELS - threshold)",
        ".to(dtype), 1.0",
        (f"{DROPOUT}::test_a_share_of_p_goes_and_the_rest_grows_so_that_the_mean_stays",),
    ),
    Mutant(
        "one byte too many is dropped",
        "attention/dropout.py",
        "np.greater_equal(words",
        "np.greater(words",
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
        "visible=torch.cat([each.visible for each in self.explained[path]], 1)[0]",
        "visible=torch.cat([self.explained[path][0].visible for _ in self.explained[path]], 1)[0]",
        (f"{INSPECTING}::test_what_each_step_may_see_is_told_step_by_step",),
    ),
    Mutant(
        "the outputs of a walk are its inputs",
        "inspection/capture.py",
        "outputs=_joined(self.outputs[path], 1)",
        "outputs=_joined(self.inputs[path], 1)",
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
        "self.places(tokens.positions, like=words)",
        "self.places(tokens.positions, like=words) * self.scale",
        (f"{BLOCKS}::test_token_embedding",),
    ),
    Mutant(
        "a token of a slot may follow itself without a blank",
        "generation/ctc.py",
        "(silent if token == last else both)",
        "both",
        (f"{CTC}::test_a_wide_beam_finds_the_most_probable_texts",),
    ),
    Mutant(
        "a prefix is worth its best path alone",
        "generation/ctc.py",
        "_sum(grown[longer][1], reached)",
        "max(grown[longer][1], reached)",
        (CTC,),
    ),
    Mutant(
        "what stands behind a sound is heard by the second convolution",
        "blocks/subsampling.py",
        "x = torch.where(real[:, None, :, None], x, 0.0)",
        "x = x + 0.0",
        ("tests/unit/blocks/test_subsampling.py::test_padding_says_nothing_wherever_it_is",),
    ),
    Mutant(
        "padding says something in the slots",
        "models/recogniser.py",
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
        "tasks/speech/ways.py",
        "(1 - self.weight) * each.score + self.weight * other",
        "self.weight * each.score + (1 - self.weight) * other",
        (f"{SPEECH}::test_hybrids_rank_by_both",),
    ),
    Mutant(
        "pre-norm normalises its shortcut",
        "blocks/residual.py",
        "return self.dropout.add(x, self._through(self.norm(x), sublayer))",
        "return self.dropout.add(self.norm(x), self._through(self.norm(x), sublayer))",
        (f"{BLOCKS}::test_residuals",),
    ),
    Mutant(
        "post-norm normalises the sublayer alone",
        "blocks/residual.py",
        "self.norm(self.dropout.add(x, self._through(x, sublayer)))",
        "x + self.norm(self.dropout(self._through(x, sublayer)))",
        (f"{BLOCKS}::test_residuals",),
    ),
    Mutant(
        "the activation comes last",
        "blocks/feedforward.py",
        "self.outer(self.dropout(self.activation(self.inner(x))))",
        "self.activation(self.outer(self.dropout(self.inner(x))))",
        (f"{BLOCKS}::test_feed_forward",),
    ),
    Mutant(
        "no shortcut around the attention across",
        "blocks/transformer.py",
        "x = around(x, partial(attention, memory=state.memories[name], sight=across[name]))",
        "x = attention(x, state.memories[name], sight=across[name])",
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
        "blocks/state.py",
        "whole = Picks(picks.groups)",
        "whole = Picks()",
        (f"{LAWS}::test_rows_in_groups_are_rows[sinusoidal-post_norm-inference]",),
    ),
    Mutant(
        "the summary counts padding",
        "models/encoders.py",
        "(hidden * real).sum(1) / real.sum(1).clamp(min=1)",
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
        "(self.places, self.segments, self.factors)",
        "(self.places, self.factors)",
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
        "models/initialisation.py",
        "std=_DEVIATION / math.sqrt(2 * len(layers))",
        "std=_DEVIATION / math.sqrt(len(layers))",
        (f"{INITIAL}::test_gpt2_begins_small_and_its_sublayers_together_as_one",),
    ),
    Mutant(
        "only attention's way into the shortcut is scaled",
        "models/initialisation.py",
        "for last in (layer.attention.aggregation, layer.feed_forward.outer):",
        "for last in (layer.attention.aggregation,):",
        (f"{INITIAL}::test_gpt2_begins_small_and_its_sublayers_together_as_one",),
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
        'source = target if config.tie == "three_way" else',
        'source = target if config.tie == "all" else',
        (f"{BUILD}::test_tied_tables_are_one_tensor_and_their_gradients_add_up",),
    ),
    Mutant(
        "relative positions between source and target",
        "architectures/build_stack.py",
        "_attention(config, heads, longest=longest, relative=None)",
        "_attention(config, heads, longest=longest, relative=relative)",
        (f"{BUILD}::test_positions_stand_on_both_sides_and_never_between_them",),
    ),
    Mutant(
        "post-norm gets the final norm of pre-norm",
        "architectures/build_stack.py",
        'return _norm(config) if config.residual == "pre_norm" else None',
        'return _norm(config) if config.residual == "post_norm" else None',
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
        "visibility=_visibility(config.decoder_visibility)",
        "visibility=_visibility(config.encoder_visibility)",
        (f"{LAWS}::test_cause_law[sinusoidal-post_norm-inference]",),
    ),
    Mutant(
        "a window looks ahead",
        "architectures/build_stack.py",
        "return window(before, 0)",
        "return window(before, 1)",
        (f"{LAWS}::test_cause_law[windows-inference]",),
    ),
    Mutant(
        "tied tables count twice",
        "models/size.py",
        "None if first == name else first",
        "None",
        (f"{SIZE}::test_a_tied_matrix_counts_once_and_says_with_what_it_is_tied",),
    ),
    Mutant(
        "left padding shifts positions",
        "values.py",
        "torch.where(real, real.cumsum(1) - 1, -1)",
        "torch.where(real, torch.arange(ids.size(1)).expand_as(ids), -1)",
        (f"{LAWS}::test_padding_law_source[sinusoidal-post_norm-inference]",),
    ),
    Mutant(
        "the dropout of embeddings is forgotten",
        "blocks/embedding.py",
        "dropped: Tensor = self.dropout(x)",
        "dropped: Tensor = x",
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
        ("tests/unit/tasks/test_words.py",),
    ),
    Mutant(
        "possible links count for nothing",
        "metrics/alignment.py",
        "hits += len(mine & truth.sure) + len(mine & truth.possible)",
        "hits += 2 * len(mine & truth.sure)",
        ("tests/unit/metrics/test_alignment.py",),
    ),
    Mutant(
        "padding is learned like a word",
        "tasks/criteria.py",
        "real = (batch.labels >= 0).flatten()",
        "real = (batch.labels >= -1).flatten()",
        (f"{TASK}::test_the_loss_is_the_sum_over_labels",),
    ),
    Mutant(
        "smoothing spares one word",
        "tasks/likelihood.py",
        "mean_weight = weight.mean(0, dtype=exact)",
        "mean_weight = weight.sum(0, dtype=exact) / (weight.size(0) - 1)",
        (f"{LIKELIHOOD}::test_values_and_gradients",),
    ),
    Mutant(
        "smoothing takes nothing from the label",
        "tasks/likelihood.py",
        "spread += (logits[rows, label].to(exact) - h.to(exact) @ mean_weight - mean_bias).sum()",
        "spread -= (h.to(exact) @ mean_weight + mean_bias).sum()",
        (f"{LIKELIHOOD}::test_values_and_gradients",),
    ),
    Mutant(
        "smoothing without its gradient",
        "tasks/likelihood.py",
        "d_hidden.sub_((smoothing * mean_weight).to(d_hidden.dtype))",
        "pass",
        (f"{LIKELIHOOD}::test_values_and_gradients",),
    ),
    Mutant(
        "the output's gradient is smoothed too little",
        "tasks/likelihood.py",
        "d_weight.sub_((smoothing / weight.size(0)) * hidden.sum(0))",
        "d_weight.sub_((smoothing / weight.size(0)) * hidden.mean(0))",
        (f"{LIKELIHOOD}::test_values_and_gradients",),
    ),
    Mutant(
        "what is too rare to be a number costs nothing that can be told",
        "tasks/likelihood.py",
        "tiny = probability < torch.finfo(logits.dtype).tiny",
        "tiny = probability < 0",
        (f"{LIKELIHOOD}::test_huge_logits_neither_overflow_nor_lose_the_rare",),
    ),
    Mutant(
        "the gradient of the label is not smoothed",
        "tasks/likelihood.py",
        "probable[rows, label] = chosen - (1 - smoothing)",
        "probable[rows, label] = chosen - 1",
        (f"{LIKELIHOOD}::test_values_and_gradients",),
    ),
    Mutant(
        "the output's bias hears of the last chunk alone",
        "tasks/likelihood.py",
        "d_bias += probable.sum(0)",
        "d_bias = probable.sum(0)",
        (f"{LIKELIHOOD}::test_values_and_gradients",),
    ),
    Mutant(
        "narrow models are trained in bf16",
        "training/precision.py",
        "_WIDE = 128",
        "_WIDE = 64",
        (f"{PRECISION}::test_on_a_processor_only_wide_models_gain_from_bf16",),
    ),
    Mutant(
        "the last incomplete chunk is forgotten",
        "tasks/likelihood.py",
        "range(0, hidden.size(0), _CHUNK)",
        "range(0, max(1, hidden.size(0) - _CHUNK + 1), _CHUNK)",
        (f"{LIKELIHOOD}::test_values_and_gradients",),
    ),
    Mutant(
        "the loss forgets what it is multiplied by",
        "tasks/likelihood.py",
        "factor = upstream[0]",
        "factor = torch.ones_like(upstream[0])",
        (f"{LIKELIHOOD}::test_values_and_gradients",),
    ),
    Mutant(
        "heads are pushed towards nothing",
        "tasks/decorrelation.py",
        "(gram - identity).square()",
        "gram.square()",
        (f"{PENALTIES}::test_decorrelation",),
    ),
    Mutant(
        "padding is penalised",
        "tasks/criteria.py",
        "each * asked[place.look.queries][:, None, :, None]",
        "each",
        (f"{TASK}::test_losses_of_parts_add_up_to_that_of_the_whole",),
    ),
    Mutant(
        "validation measures the smoothed loss",
        "tasks/writing.py",
        "nll, hits = judged(taught, labels, output=model.output)",
        "nll, hits = self.criterion.loss(model, batch).total, judged(taught, labels, output=model.output)[1]",
        (f"{TASK}::test_validation_is_the_mean_over_labels_however_it_is_batched",),
    ),
    Mutant(
        "translations come in the order of their lengths",
        "tasks/faces.py",
        "zip(places, said, strict=True)",
        "zip(sorted(places), said, strict=True)",
        (f"{TRANSLATOR}::test_order_is_kept_and_neighbours_do_not_matter", FACES),
    ),
    Mutant(
        "a label with a line feed adds a line to a table",
        "tasks/faces.py",
        """.replace("\\n", r"\\n")""",
        "",
        (FACES,),
    ),
    Mutant(
        "control characters reach a terminal",
        "cli/output.py",
        "shown(text) if self.stream.isatty() else text",
        "text",
        ("tests/unit/cli/test_output.py",),
    ),
    Mutant(
        "a file is emptied before there are results",
        "cli/output.py",
        "        self._replaces = replaces\n",
        "        self._replaces = replaces\n        _ = self.stream\n",
        ("tests/unit/cli/test_output.py::test_a_file_keeps_its_content_until_the_first_result",),
    ),
    Mutant(
        "the longest translation is one too short",
        "tasks/translation/face.py",
        "tokens = len(self._reads.own_places(part.read)) + 1",
        "tokens = len(self._reads.own_places(part.read))",
        (f"{TRANSLATOR}::test_translations_are_no_longer_than_allowed",),
    ),
    Mutant(
        "parts of a sentence share one source of chance",
        "tasks/translation/face.py",
        "_STREAMS: Final = 2**30",
        "_STREAMS: Final = 0",
        (f"{TRANSLATOR}::test_parts_are_drawn_apart_from_each_other",),
    ),
    Mutant(
        "every part of a sentence begins with the prefix",
        "tasks/translation/face.py",
        "chain([given], repeat(_NOTHING))",
        "repeat(given)",
        (f"{TRANSLATOR}::test_the_first_part_alone_begins_with_the_prefix",),
    ),
    Mutant(
        "a long text is split at its first word and not in the middle",
        "data/parts.py",
        "key=lambda end: abs(2 * end - len(text))",
        "key=lambda end: end",
        (f"{PARTS}::test_seams", f"{PARTS}::test_a_long_text_is_not_measured_too_often"),
    ),
    Mutant(
        "a sentence counts as finished with its first part",
        "tasks/translation/finding.py",
        "sum(not self._waiting[row] for row in set(rows))",
        "len(set(rows))",
        (f"{TRANSLATOR}::test_a_sentence_is_finished_once_all_its_parts_are",),
    ),
    Mutant(
        "one input that cannot be read looks like success",
        "cli/lines.py",
        "return 2 if unread else 0",
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
        "data/bucketing.py",
        "np.random.SeedSequence([seed, epoch])",
        "np.random.SeedSequence([seed, 0])",
        (f"{BUCKETING}::test_the_plan_depends_on_seed_and_epoch_and_nothing_else",),
    ),
    Mutant(
        "a sentence is expected to earn what a label does",
        "tasks/criteria.py",
        "real.sum(1, keepdim=True)",
        "real.any(1, keepdim=True)",
        (DRAWS,),
    ),
    Mutant(
        "padding learns from its draws",
        "tasks/criteria.py",
        "torch.where(real, terms, 0.0)",
        "terms",
        (DRAWS,),
    ),
    Mutant(
        "sentences earn what others earned",
        "tasks/criteria.py",
        "real // labels.size(1), each",
        "real % len(labels), each",
        (DRAWS,),
    ),
    Mutant(
        "the surrogate's value is reported",
        "tasks/criteria.py",
        "(lesson - lesson.detach())",
        "lesson",
        (DRAWS,),
    ),
    Mutant(
        "only what was earned is weighted",
        "tasks/criteria.py",
        "baseline=weight * expected",
        "baseline=expected",
        (DRAWS,),
    ),
    Mutant(
        "the baseline is of the wrong sign",
        "tasks/criteria.py",
        "torch.tensor(-nll,",
        "torch.tensor(nll,",
        (DRAWS,),
    ),
    Mutant(
        "gradients flow beyond the cut",
        "tasks/language/problem.py",
        "model(chunk, detach(state))",
        "model(chunk, state)",
        (LANGUAGE,),
    ),
    Mutant(
        "a text follows a beginning, not an end",
        "tasks/language/problem.py",
        ".astype(np.int64), self.before)",
        ".astype(np.int64), self.before - 1)",
        (LANGUAGE,),
    ),
    Mutant(
        "pieces count on from their place in the text",
        "tasks/language/problem.py",
        "torch.arange(inside.shape[1]).expand(inside.shape)",
        "torch.from_numpy(inside)",
        (LANGUAGE,),
    ),
    Mutant(
        "a token reads itself",
        "tasks/language/problem.py",
        "self.stream[np.maximum(inside - 1, 0)]",
        "self.stream[inside]",
        (LANGUAGE,),
    ),
    Mutant(
        "text is always cut at the same places",
        "tasks/language/problem.py",
        "random.random_raw(1)[0] % self.length)",
        "random.random_raw(1)[0] % 1)",
        (LANGUAGE,),
    ),
    Mutant(
        "a word's tag stands at its last token",
        "tasks/tagging/data.py",
        "        begins.append(len(ids))\n        ids += tokenizer.encode(word) or [unknown]\n",
        "        ids += tokenizer.encode(word) or [unknown]\n        begins.append(len(ids) - 1)\n",
        (TAGGED,),
    ),
    Mutant(
        "tags are one off",
        "tasks/tagging/data.py",
        "padded(rows) - 1, -1)",
        "padded(rows), -1)",
        (
            TAGGED,
            TAGGING,
        ),
    ),
    Mutant(
        "text is learned without smoothing",
        "tasks/language/problem.py",
        "self._sums(model, batch, smoothing=self.smoothing)",
        "self._sums(model, batch, smoothing=0.0)",
        (LANGUAGE,),
    ),
    Mutant(
        "tags are measured with smoothing",
        "tasks/tagging/problem.py",
        "total += float(cross_entropy(*taught, output=model.output)[1])",
        "total += float(cross_entropy(*taught, output=model.output, smoothing=self.smoothing)[0])",
        (TAGGING,),
    ),
    Mutant(
        "tags are learned without smoothing",
        "tasks/tagging/problem.py",
        "output=model.output, smoothing=self.smoothing)",
        "output=model.output)",
        (TAGGING,),
    ),
    Mutant(
        "the last word of a long sentence is searched for in all of it",
        "data/sentences.py",
        "text[max(start, stop - 40) : stop]",
        "text[start:stop]",
        ("tests/unit/data/test_sentences.py::test_the_work_for_a_mark_does_not_grow_with_the_text",),
    ),
    Mutant(
        "every sentence is looked at when batches are planned",
        "data/bucketing.py",
        "    order = shuffled[np.lexsort((rising",
        "    _ = [int(row) for row in shuffled]\n    order = shuffled[np.lexsort((rising",
        (f"{BUCKETING}::test_lines_of_python_are_run_for_batches_and_not_for_sentences",),
    ),
    Mutant(
        "an answer may end at the end of its context",
        "tasks/spans/windows.py",
        "(places < lengths - 1)",
        "(places < lengths)",
        ("tests/unit/data/test_windows.py",),
    ),
    Mutant(
        "foreign text loses its beginning when it is decoded",
        "data/foreign_tokenizers.py",
        "return str(_called(self._tokenizer.decode, ids, skip_special_tokens=False))",
        "return str(_called(self._tokenizer.decode, ids, skip_special_tokens=False)).lstrip()[1:]",
        ("tests/reference/test_hugging_face.py::test_vocabularies_cut_alike",),
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
        "generation/beam.py",
        "scores = totals / divisors[lengths].unsqueeze(1)",
        "scores = totals * divisors[lengths].unsqueeze(1)",
        (f"{BEAM}::test_equals_the_longhand_search",),
    ),
    Mutant(
        "a text that lives is lost to one that ended alike",
        "generation/groups.py",
        "(ids.unsqueeze(1) == ids.unsqueeze(2)).all(3) & (ended.unsqueeze(1) == ended.unsqueeze(2))",
        "(ids.unsqueeze(1) == ids.unsqueeze(2)).all(3)",
        ("tests/unit/generation/test_groups.py::test_a_text_that_lives_is_not_lost_to_one_that_ended_alike",),
    ),
    Mutant(
        "rows without segments get segment 1 beside others",
        "generation/running.py",
        "torch.zeros_like(p.ids) if p.segments is None",
        "torch.ones_like(p.ids) if p.segments is None",
        ("tests/unit/generation/test_running.py::test_tokens_without_segments_get_segment_0_beside_others",),
    ),
    Mutant(
        "a token without a segment gets segment 1 before a prompt",
        "generation/hypotheses.py",
        "torch.zeros_like(part.ids) if part.segments is None",
        "torch.ones_like(part.ids) if part.segments is None",
        ("tests/unit/generation/test_running.py::test_a_prompt_behind_tokens_without_segments_leaves_these_segment_0",),
    ),
    Mutant(
        "memories are read in the order in which they are given",
        "values.py",
        "return {name: found[name] for name in wanted}",
        "return dict(found)",
        ("tests/laws/test_memories.py::test_the_order_in_which_memories_are_given_means_nothing",),
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
        "generation/completion.py",
        "if least[size] < word.tokens:",
        "if least[size] <= word.tokens:",
        (f"{PARTIAL_WORDS}::test_tokens_that_may_come_are_those_that_lead_to_the_end",),
    ),
    Mutant(
        "what was written of a word must be written again",
        "generation/completion.py",
        "PartialWord(word.characters[size:], word.tokens - 1)",
        "PartialWord(word.characters[size - 1 :], word.tokens - 1)",
        (f"{PARTIAL_WORDS}::test_tokens_that_may_come_are_those_that_lead_to_the_end",),
    ),
    Mutant(
        "a word behind which a space stands goes on",
        "tasks/partial_words.py",
        "if text[-1:].isspace() and not",
        "if text[-1:].isspace() and",
        (f"{PARTIAL_WORDS}::test_a_finished_word_is_not_gone_on_with",),
    ),
    Mutant(
        "a word that a writer completes is repeated",
        "tasks/stop_strings.py",
        "self._before = len(tokenizer.decode(prompt)) + unread",
        "self._before = len(tokenizer.decode(self._prompt))",
        (f"{PARTIAL_WORDS}::test_a_writer_completes_the_last_word_of_a_prompt_if_it_is_asked_to",),
    ),
    Mutant(
        "the last word of a prefix is cut as if it ended there",
        "tasks/partial_words.py",
        "if choices and [*choices] != [ids[first]]:",
        "if not choices:",
        (f"{PARTIAL_WORDS}::test_a_word_that_was_begun_may_become_any_that_begins_so",),
    ),
    Mutant(
        "the end of sentence does not count as a token",
        "generation/beam.py",
        "lengths = front.forced + front.counts + 1\n",
        "lengths = (front.forced + front.counts).clamp(min=1)\n",
        (f"{BEAM}::test_equals_the_longhand_search",),
    ),
    Mutant(
        "caches stay when beams change places",
        "generation/beam.py",
        "return select(state, Rows.within(beams)) if moved else state",
        "return state",
        (f"{BEAM}::test_equals_the_longhand_search",),
    ),
    Mutant(
        "beam search writes on after the end of sentence",
        "generation/beam.py",
        "ending, still = found.ends,",
        "ending, still = found.ids < 0,",
        (f"{BEAM}::test_equals_the_longhand_search",),
    ),
    Mutant(
        "the first finished hypothesis wins",
        "generation/beam.py",
        "| (lengths >= front.limits) | beaten",
        "| (lengths >= front.limits) | (ended[:, -1, 0] > -math.inf)",
        (f"{BEAM}::test_equals_the_longhand_search",),
    ),
    Mutant(
        "a token is read one position too late",
        "generation/beam.py",
        "torch.where(front.done, -1, front.first + front.counts - 1)",
        "torch.where(front.done, -1, front.first + front.counts)",
        (f"{BEAM}::test_equals_the_longhand_search",),
    ),
    Mutant(
        "greedy search writes on after the end of sentence",
        "generation/stopping.py",
        "return ids == self.id",
        "return ids < 0",
        (f"{SAMPLING}::test_greedy_search_equals_taking_the_best_each_time",),
    ),
    Mutant(
        "temperature makes it hotter that should be colder",
        "generation/pick.py",
        "else logits / self.temperature",
        "else logits * self.temperature",
        ("tests/unit/generation/test_pick.py::test_frequencies_are_the_probabilities",),
    ),
    Mutant(
        "the token that fills up p is left out",
        "generation/pick.py",
        "needed = functional.pad(mass[:, :-1] < self.p, (1, 0), value=True)",
        "needed = mass < self.p",
        ("tests/unit/generation/test_filters.py::test_top_p_leaves_the_smallest_set_that_is_probable_enough",),
    ),
    Mutant(
        "a penalty forgets what a beam wrote",
        "generation/penalties.py",
        "state.scatter(1, ids.unsqueeze(1), True)",
        "state.scatter(1, ids.unsqueeze(1), False)",
        ("tests/unit/generation/test_repetition.py::test_beams_carry_their_own_past",),
    ),
    Mutant(
        "a penalty rewards tokens that are improbable",
        "generation/penalties.py",
        "torch.where(logits > 0, logits / self.theta, logits * self.theta)",
        "logits / self.theta",
        ("tests/unit/generation/test_repetition.py::test_greedy_search_equals_the_formula",),
    ),
    Mutant(
        "the oldest part of a context is read again",
        "generation/window.py",
        "places = (sizes - counts).unsqueeze(1) + torch.arange(self.longest, device=real.device)",
        "places = torch.arange(self.longest, device=real.device).expand(len(real), -1)",
        ("tests/unit/generation/test_window.py::test_any_chunks_equal_cropping_by_hand",),
    ),
    Mutant(
        "a stretch is asked for one token twice",
        "tasks/language/problem.py",
        "starts + context - stride, starts)",
        "starts + context - stride - 1, starts)",
        ("tests/unit/tasks/test_pieces.py::test_every_token_is_predicted_once_behind_enough_others",),
    ),
    Mutant(
        "an n-gram of a lower order counts as often as it occurs",
        "metrics/kneser_ney.py",
        "kinds = Counter(gram[1:] for gram in raw[n])",
        "kinds = Counter(raw[n - 1])",
        (f"{KNESER_NEY}::test_probabilities_are_those_of_the_paper",),
    ),
    Mutant(
        "n-grams that begin a text have nothing before them, and so do not count",
        "metrics/kneser_ney.py",
        "adjusted.append(kinds | begun)",
        "adjusted.append(kinds)",
        (f"{KNESER_NEY}::test_probabilities_are_those_of_the_paper",),
    ),
    Mutant(
        "an answer counts its positions from 0 behind its prompt too",
        "models/decoder_only.py",
        "tokens.positions + first.unsqueeze(1)",
        "tokens.positions",
        ("tests/unit/models/test_decoder_only.py",),
    ),
    Mutant(
        "a reply reads the oldest turns of its window that fit",
        "tasks/conversation/data.py",
        "if len(ids) > room and any(found):\n                break",
        "if len(ids) > room and any(found):\n                continue",
        ("tests/unit/tasks/test_dialogues.py::test_behind_a_turn_that_does_not_fit_none_is_read",),
    ),
    Mutant(
        "a turn that does not fit loses its newer end",
        "tasks/conversation/data.py",
        "*ids[max(1, len(ids) - room + 1) :]",
        "*ids[1:room]",
        ("tests/unit/tasks/test_dialogues.py::test_of_what_does_not_fit_the_newest_is_read",),
    ),
    Mutant(
        "speakers may be written as words",
        "tasks/conversation/data.py",
        "others = own.others | frozenset(range(self.tokenizer.size, self.size))",
        "others = own.others",
        ("tests/unit/tasks/test_partner.py::test_no_speaker_is_ever_said",),
    ),
    Mutant(
        "wrong advice helps where a ticket follows",
        "tasks/conversation/helpdesk.py",
        "self.helped = self.advised and self.stubborn",
        "self.helped = True",
        ("tests/unit/tasks/test_helpdesk.py",),
    ),
    Mutant(
        "the beginning of a stop string is shown",
        "tasks/stop_strings.py",
        "kept[: len(kept) - max(begun, default=0)]",
        "kept",
        ("tests/unit/tasks/test_stop_strings.py::test_what_is_certain_of_a_growing_text_never_changes",),
    ),
    Mutant(
        "an ensemble multiplies instead of adding",
        "generation/ensemble.py",
        "return each.logsumexp(0) - math.log(len(logits))",
        "return each.mean(0)",
        (f"{TRANSLATOR}::test_several_models_vote",),
    ),
    Mutant(
        "scores are not normalised",
        "generation/scoring.py",
        "torch.where(labels >= 0, chosen - logits.logsumexp(2), 0.0)",
        "torch.where(labels >= 0, chosen, 0.0)",
        (f"{TRANSLATOR}::test_scores_of_what_was_found_are_those_it_was_found_with",),
    ),
    Mutant(
        "one token too many where the probability is exactly p",
        "generation/pick.py",
        "mass[:, :-1] < self.p, (1, 0)",
        "mass[:, :-1] <= self.p, (1, 0)",
        ("tests/unit/generation/test_filters.py",),
    ),
    Mutant(
        "a second sample takes the chance of the next row",
        "generation/columns.py",
        "(rows if streams is None else streams) << 20",
        "rows if streams is None else streams",
        (SAMPLING,),
    ),
    Mutant(
        "lists of the best show log-probabilities",
        "tasks/translation/translations.py",
        "{each.score:.4f}",
        "{each.log_probability:.4f}",
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
        "accumulation divides by batches",
        "training/trainer.py",
        "norm = scaled(gradients, count=loss.count, clip",
        "norm = scaled(gradients, count=self.habits.accumulate, clip",
        (f"{TRAINER}::test_accumulated_batches_are_the_big_batch",),
    ),
    Mutant(
        "the sum of gradients is clipped, not their mean",
        "training/sums.py",
        "if clip is not None and norm > clip:",
        "if clip is not None and norm * count > clip:",
        (f"{CHANCE}::test_a_mean_gradient_within_the_limit_is_left_alone",),
    ),
    Mutant(
        "each process reads what the others read",
        "training/trainer.py",
        "share = rows[self.world.rank :: self.world.size]",
        "share = rows[self.world.rank :]",
        (f"{TRAINER}::test_processes_share_the_work_and_change_nothing",),
    ),
    Mutant(
        "resuming begins the epoch anew",
        "training/trainer.py",
        "self.progress = snapshot.progress\n",
        "self.progress = replace(snapshot.progress, position=0)\n",
        (f"{TRAINER}::test_going_on_from_any_checkpoint_is_as_if_nothing_happened",),
    ),
    Mutant(
        "resuming forgets the moments",
        "training/trainer.py",
        'self.optimizer.restore(_under("adam.", snapshot.training), place=training, prefix="adam.")',
        "self.optimizer.restore({})",
        (f"{TRAINER}::test_going_on_from_any_checkpoint_is_as_if_nothing_happened",),
    ),
    Mutant(
        "every update drops the same entries",
        "training/trainer.py",
        "_seed(self.habits.seed, step, self.world.rank)",
        "_seed(self.habits.seed, 0, self.world.rank)",
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
        "self.model.eval()\n",
        "pass\n",
        (f"{TRAINER}::test_evaluations_come_on_time_and_once",),
    ),
    Mutant(
        "no dropout after the first validation",
        "training/trainer.py",
        "measured = self.task.evaluate(self.model)\n        self.model.train()\n",
        "measured = self.task.evaluate(self.model)\n",
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
        "rate = self.schedule.rate(step, spent=self._spent)\n",
        "rate = self.schedule.rate(max(1, step - 1), spent=self._spent)\n",
        (f"{TRAINER}::test_the_rate_is_the_schedules",),
    ),
    Mutant(
        "Noam warms up one update too late",
        "training/schedules.py",
        "step * self.warmup**-1.5)",
        "(step - 1) * self.warmup**-1.5)",
        (f"{SCHEDULES}::test_noam_is_the_papers_equation",),
    ),
    Mutant(
        "the cosine turns too early",
        "training/schedules.py",
        "done = min(1.0, (step - self.warmup) / max(1, self.steps - self.warmup))",
        "done = min(1.0, step / max(1, self.steps))",
        (f"{SCHEDULES}::test_the_cosine_turns_around_its_middle_and_ends_at_its_floor",),
    ),
    Mutant(
        "Adam has another epsilon",
        "training/optimizers.py",
        "eps=self._epsilon,",
        "eps=10 * self._epsilon,",
        (f"{OPTIMIZERS}::test_adam_is_the_papers_and_decays_matrices_only",),
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
        "_Group(tuple(names), factor, weight_decay if matrices else 0.0)",
        "_Group(tuple(names), factor, weight_decay)",
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
        "model[name].double() for model in models",
        "model[name] for model in models",
        ("tests/unit/runs/test_checkpoints.py::test_the_mean_loses_no_digits",),
    ),
    Mutant(
        "resuming forgets what the task remembers",
        "training/trainer.py",
        "self.task.restore(taught)",
        "self.task.restore(self.task.tensors())",
        (f"{TRAINER}::test_what_a_task_remembers_is_saved_and_taken_up",),
    ),
    Mutant(
        "a task hears of sums",
        "training/trainer.py",
        "self.task.learned(nll, member=member)",
        'self.task.learned(parts["nll"].total, member=member)',
        (f"{TRAINER}::test_the_task_hears_in_every_process_what_all_of_them_learned",),
    ),
    Mutant(
        "positions that Marian computes are read as parameters",
        "foreign/families/marian.py",
        'computed={r"model\\.(encoder|decoder)\\.embed_positions\\.weight": _sines_first}',
        'computed={r"model\\.encoder\\.embed\\.weight": _sines_first}',
        ("tests/reference/test_hugging_face.py::test_positions_that_marian_does_not_compute",),
    ),
    Mutant(
        "the exported head of the mean counts padding",
        "foreign/families/mean_heads.py",
        "(hidden * real).sum(1)",
        "hidden.sum(1)",
        ("tests/unit/runs/test_fine_tuned_export.py::test_the_mean_of_all_tokens",),
    ),
    Mutant(
        "heads of GPT-NeoX turn neighbours",
        "foreign/families/gpt_neox.py",
        "halves = torch.arange(width).view(-1, 2).t().flatten()",
        "halves = torch.arange(width)",
        ("tests/reference/test_hugging_face.py::test_ours_are_theirs",),
    ),
    Mutant(
        "an adapter of GPT-NeoX has its rows in our order",
        "foreign/peft.py",
        "arrangement is WRITES_SINES_FIRST or arrangement.rows",
        "arrangement is WRITES_SINES_FIRST",
        ("tests/reference/test_peft.py::test_transformers_computes_the_same_with_the_adapter_on",),
    ),
    Mutant(
        "a foreign list of pieces folds case whatever its settings say",
        "foreign/vocabularies.py",
        'lowercase=_chosen(settings, "do_lower_case"),',
        "lowercase=True,",
        ("tests/reference/test_word_pieces.py::test_letters_of_a_list_of_pieces",),
    ),
    Mutant(
        "settings of case do not outrank a foreign tokenizer.json",
        "foreign/vocabularies.py",
        '"do_lower_case": "lowercase",',
        "",
        ("tests/reference/test_word_pieces.py::test_settings_outrank_the_file_of_a_tokenizer",),
    ),
    Mutant(
        "accents of foreign vocabularies stay or go with case",
        "foreign/vocabularies.py",
        'strip_accents=settings.get("strip_accents"),',
        "strip_accents=None,",
        ("tests/reference/test_word_pieces.py::test_letters_of_a_list_of_pieces",),
    ),
    Mutant(
        "what is unknown is called as in BERT in every foreign vocabulary",
        "foreign/vocabularies.py",
        "            unk=unk,\n",
        "",
        ("tests/reference/test_word_pieces.py::test_what_is_unknown_has_a_name_of_its_own",),
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
        "runs/initial.py",
        "        if name in tensors:\n            found.setdefault(first, name)\n",
        "        if name in tensors and False:\n            found.setdefault(first, name)\n",
        ("tests/unit/runs/test_going_on_with_weights.py::test_a_detector_begins_from_an_encoder",),
    ),
    Mutant(
        "a grown vocabulary begins with its last entries",
        "runs/initial.py",
        "whole.narrow(side, 0, given.size(side))",
        "whole.narrow(side, whole.size(side) - given.size(side), given.size(side))",
        ("tests/unit/runs/test_going_on_with_weights.py::test_a_conversation_begins_from_a_language_model",),
    ),
    Mutant(
        "what a folder says of pooling is passed over",
        "foreign/hugging_face.py",
        "summary = settings.summary or MeanOfTokens()",
        "summary = MeanOfTokens()",
        ("tests/reference/test_sentence_transformers.py::test_tokens_are_pooled_as_the_folder_says",),
    ),
    Mutant(
        "padding counts among the largest numbers",
        "models/sentence_vectors.py",
        "hidden.masked_fill(~real, -torch.inf).amax(1)",
        "(hidden * real).amax(1)",
        ("tests/reference/test_sentence_transformers.py::test_tokens_are_pooled_as_the_folder_says",),
    ),
    Mutant(
        "texts are read beyond what a folder says of their length",
        "foreign/hugging_face.py",
        "min(settings.max_length or self.longest, self.longest)",
        "self.longest",
        ("tests/reference/test_sentence_transformers.py::test_longer_texts_lose_their_ends",),
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
        "tuple(numbered[number] for number in range(len(given)))",
        "tuple(numbered.values())",
        ("tests/reference/test_fine_tuned_hugging_face.py::test_what_does_not_fit_is_named",),
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
        "runs/initial.py",
        "tensors = origin.named if given else",
        "tensors = origin.tensors if given else",
        ("tests/unit/runs/test_fine_tuning.py::test_tables_that_are_stored_under_another_name_are_found",),
    ),
    Mutant(
        "an adapted run forgets under which name its base stores a table",
        "runs/adapted.py",
        "stored = {name: shared[name] for name in taken if name in shared}",
        "stored: dict[str, str] = {}",
        ("tests/unit/runs/test_fine_tuning.py::test_an_adapter_finds_them_again",),
    ),
    Mutant(
        "the vector of the only part of a text is left out",
        "foreign/families/segments.py",
        "tensors[_POSITIONS] + tensors[_SEGMENTS]",
        "tensors[_POSITIONS]",
        ("tests/reference/test_hugging_face.py::test_the_vector_of_the_only_part_of_a_text_counts",),
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
        "_name_special(spec, tokenizer)\n    spec.config.layer_norm_epsilon = _epsilon(weights.model)",
        "_name_special(spec, tokenizer)",
        ("tests/reference/test_ctranslate2.py::test_language_models_of_runs",),
    ),
    Mutant(
        "exported translators have another epsilon",
        "foreign/ctranslate2_export.py",
        "spec.config.add_source_eos = True\n    spec.config.layer_norm_epsilon = _epsilon(weights.model)",
        "spec.config.add_source_eos = True\n    spec.config.layer_norm_epsilon = 1e-6",
        ("tests/reference/test_ctranslate2.py::test_translators_keep_the_epsilon_of_their_norms",),
    ),
    Mutant(
        "exported encoders forget the epsilon of their norms",
        "foreign/ctranslate2_export.py",
        "tokenizer.special.unk]\n    spec.config.layer_norm_epsilon = _epsilon(weights.model)",
        "tokenizer.special.unk]",
        ("tests/reference/test_ctranslate2.py::test_encoders_of_runs",),
    ),
    Mutant(
        "what of words is not known has the vector of the first label",
        "foreign/ctranslate2_export.py",
        "table[:1].expand(",
        "table[1:2].expand(",
        ("tests/reference/test_ctranslate2.py::test_factors_are_read_behind_pieces",),
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
        "return scores + before + after",
        "return scores + before",
        (STRUCTURED,),
    ),
    Mutant(
        "the baseline is added to the reward",
        "attention/hard.py",
        "(reward - baseline)",
        "(reward + baseline)",
        (HARD,),
    ),
    Mutant(
        "the bell of a window is too wide",
        "attention/choice.py",
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
        "torch.where(real, -place if backward else place, length)",
        "torch.where(real, place, length)",
        (CELLS,),
    ),
    Mutant(
        "a row without tokens changes its state",
        "blocks/recurrent.py",
        "return back, keep_where(real.any(1, keepdim=True), after, state)",
        "return back, after",
        (CELLS,),
    ),
    Mutant(
        "padding advances the state of a step",
        "blocks/recurrent.py",
        "after.append(keep_where(real, cell.advance(gates, state), state))",
        "after.append(cell.advance(gates, state))",
        (f"{LAWS}::test_padding_law_target",),
    ),
    Mutant(
        "padding is fed back",
        "models/recurrent_decoder.py",
        "fed = torch.where(real[:, t], attentional.squeeze(1), fed)",
        "fed = attentional.squeeze(1)",
        (f"{LAWS}::test_padding_law_target",),
    ),
    Mutant(
        "the context does not enter the gates",
        "blocks/recurrent.py",
        "gates = projected + self.more(more)",
        "gates = projected",
        (RECURRENCE,),
    ),
    Mutant(
        "the first state asks at every step",
        "models/recurrent_decoder.py",
        "asking, at = cells[0][0].unsqueeze(1)",
        "asking, at = state.cells[0][0].unsqueeze(1)",
        (RECURRENCE,),
    ),
    Mutant(
        "the attentional vector is not fed back",
        "models/recurrent_decoder.py",
        "self.column.advance(projected[:, t], fed, states",
        "self.column.advance(projected[:, t], state.fed, states",
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
        "return ends[-1][len(ends[-1]) // 2]\n",
        "return ends[-1][0]\n",
        (RECURRENCE,),
    ),
    Mutant(
        "arcs to the left hand nothing down",
        "attention/eisner.py",
        "mul_((right + left).unsqueeze(1)))",
        "mul_(right.unsqueeze(1)))",
        (TREES,),
    ),
    Mutant(
        "arcs to the left score like arcs to the right",
        "attention/eisner.py",
        "right, left = joined + scores.diagonal(-width).T, joined + scores.diagonal(width).T",
        "right, left = joined + scores.diagonal(-width).T, joined + scores.diagonal(-width).T",
        (TREES,),
    ),
    Mutant(
        "trees forget how their spans moved",
        "attention/eisner.py",
        "mul_(moved.completed(width)).sum(2)",
        "mul_(moved.completed(width)).amax(2)",
        (TREES,),
    ),
    Mutant(
        "slots that see nobody are no part of a tree",
        "attention/structured.py",
        "within = seen.any(1)",
        "within = seen.any(2)",
        (TREES,),
    ),
    Mutant(
        "cells are not carried on",
        "models/recurrent_encoder.py",
        "[part for state in ends for part in state]",
        "[state[0] for state in ends for _ in state]",
        (RECURRENCE,),
    ),
    Mutant(
        "layers go on where others ended",
        "models/recurrent_encoder.py",
        "[part for state in ends for part in state]",
        "[part for state in ends[::-1] for part in state]",
        (RECURRENCE,),
    ),
    Mutant(
        "the numbers of a paper are positive",
        "models/initialisation.py",
        "uniform_(parameter, -bound, bound)",
        "uniform_(parameter, 0.0, bound)",
        (START,),
    ),
    Mutant(
        "attention begins with a preference",
        "models/initialisation.py",
        "nn.init.zeros_(module.energy.weight)",
        "nn.init.normal_(module.energy.weight, std=0.001)",
        (START,),
    ),
    Mutant(
        "recurrent matrices are orthogonal as a whole",
        "models/initialisation.py",
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
        "outputs = self.dropout(self.order.restore(outputs))",
        "outputs = self.order.restore(outputs)",
        ("tests/laws/test_dropout_law.py",),
    ),
    Mutant(
        "the dropout between recurrent layers is forgotten",
        "blocks/recurrent.py",
        "layer(self.dropout(x) if number else x, before",
        "layer(x, before",
        ("tests/laws/test_dropout_law.py",),
    ),
    Mutant(
        "the dropout between cells is forgotten",
        "blocks/recurrent.py",
        "cell.input(self.dropout(after[-1][0]))",
        "cell.input(after[-1][0])",
        ("tests/laws/test_dropout_law.py",),
    ),
    Mutant(
        "the first layer says how the source ends backwards",
        "models/recurrent_encoder.py",
        "return ends[-1][len(ends[-1]) // 2]",
        "return ends[0][len(ends[0]) // 2]",
        (RECURRENCE,),
    ),
    Mutant(
        "the first layer says how the source ends",
        "models/recurrent_encoder.py",
        "return ends[-1][0]\n",
        "return ends[0][0]\n",
        (RECURRENCE,),
    ),
    Mutant(
        "the highest cell asks in Bahdanau's decoder",
        "models/recurrent_decoder.py",
        "asking, at = cells[0][0].unsqueeze(1)",
        "asking, at = cells[-1][0].unsqueeze(1)",
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
        "return x if self.real is None else torch.where(self.real, x, 0.0)",
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
        "pasts.append(after)",
        "pasts.append(before)",
        (f"{LAWS}::test_chunk_law",),
    ),
    Mutant(
        "the encoder's gradients are scaled for half the layers",
        "architectures/build_convolutional.py",
        "1 / (2 * config.decoder_layers)",
        "1 / config.decoder_layers",
        (CONVOLUTION_BY_HAND,),
    ),
)

PRETRAINING = (
    Mutant(
        "follows and does not follow are exchanged",
        "tasks/pretraining/passages.py",
        "text.ids(range(cut, stretch.stop)), follows=True), len(stretch)",
        "text.ids(range(cut, stretch.stop)), follows=False), len(stretch)",
        (PASSAGES,),
    ),
    Mutant(
        "a third of the pairs follow",
        "tasks/pretraining/passages.py",
        "        if chance.number() < 0.5:",
        "        if chance.number() < 0.33:",
        (PASSAGES,),
    ),
    Mutant(
        "passages in the right order are called wrong",
        "tasks/pretraining/passages.py",
        "parts if follows else parts[::-1]",
        "parts[::-1] if follows else parts",
        (PASSAGES,),
    ),
    Mutant(
        "85 % of what is hidden is a mask",
        "tasks/pretraining/masking.py",
        "(dice < 0.8)",
        "(dice < 0.85)",
        (MASKING,),
    ),
    Mutant(
        "no hidden token stays what it is",
        "tasks/pretraining/masking.py",
        "chosen & (dice >= 0.9)",
        "chosen & (dice >= 0.8)",
        (MASKING,),
    ),
    Mutant(
        "random tokens are of the lower half of the vocabulary",
        "tasks/pretraining/masking.py",
        "(drawn * len(words))",
        "(drawn * len(words) / 2)",
        (MASKING,),
    ),
    Mutant(
        "the same places are hidden in every passage",
        "tasks/pretraining/problem.py",
        "chance = Chance(self.passages.seed, number, _HIDING)",
        "chance = Chance(self.passages.seed, 0, _HIDING)",
        (PRETRAINED,),
    ),
    Mutant(
        "begin and end may be hidden",
        "tasks/pretraining/problem.py",
        "places = np.flatnonzero((ids != self.special.bos) & (ids != self.special.eos))",
        "places = np.arange(len(ids))",
        (PRETRAINED,),
    ),
    Mutant(
        "the separator belongs to the second part",
        "tasks/pretraining/problem.py",
        "return np.concatenate(([bos], first, [eos], second, [eos])), len(first) + 2, int(passage.follows)",
        "return np.concatenate(([bos], first, [eos], second, [eos])), len(first) + 1, int(passage.follows)",
        (PRETRAINED,),
    ),
    Mutant(
        "the question about pairs counts once, not its weight",
        "tasks/pretraining/objectives.py",
        'sums["masked"] + self.weight * sums[second]',
        'sums["masked"] + sums[second]',
        (PRETRAINED,),
    ),
    Mutant(
        "the first token is squashed by a sigmoid",
        "models/encoders.py",
        "self.dense(hidden[rows, first]).tanh()",
        "self.dense(hidden[rows, first]).sigmoid()",
        (ENCODERS,),
    ),
    Mutant(
        "the first token is the first of the row, padding or not",
        "models/encoders.py",
        "first = (positions == 0).byte().argmax(1)",
        "first = positions.new_zeros(len(hidden))",
        (ENCODERS,),
    ),
    Mutant(
        "a lucky draw counts as a replacement",
        "tasks/pretraining/objectives.py",
        "replaced = hidden & (ids != batch.labels)",
        "replaced = hidden",
        (PRETRAINED,),
    ),
    Mutant(
        "the detector reads the text with its masks",
        "tasks/pretraining/objectives.py",
        "read = Tokens(ids, batch",
        "read = Tokens(batch.tokens.ids, batch",
        (PRETRAINED,),
    ),
    Mutant(
        "the generator takes its best token instead of drawing",
        "tasks/pretraining/objectives.py",
        "    return (logits + noise).argmax(-1)",
        "    return logits.argmax(-1)",
        (PRETRAINED,),
    ),
    Mutant(
        "pairs with a text in common are told from each other",
        "tasks/matching/problem.py",
        ".masked_fill(alike, -torch.inf)",
        "",
        (f"{MATCHING}::test_the_loss_is_that_of_the_papers_in_plain_loops",),
    ),
    Mutant(
        "texts are compared in the order of their lengths",
        "tasks/matching/problem.py",
        "np.argsort(np.concatenate(plan))",
        "np.concatenate(plan)",
        (f"{MATCHING}::test_a_batch_that_is_read_in_pieces_is_the_batch",),
    ),
    Mutant(
        "only one side is told from the others",
        "tasks/matching/problem.py",
        'logits.T, right, reduction="sum"',
        'logits, right, reduction="sum"',
        (f"{MATCHING}::test_the_loss_is_that_of_the_papers_in_plain_loops",),
    ),
    Mutant(
        "the margin is measured too",
        "tasks/matching/problem.py",
        "total += float(contrast(source, target, batch.alike, scale=model.scale))",
        "total += float(contrast(source, target, batch.alike, scale=model.scale, margin=self.margin))",
        (f"{MATCHING}::test_what_is_measured_is_what_is_lost",),
    ),
    Mutant(
        "who says the same of all finds everything",
        "metrics/ranking.py",
        "(cosines >= cosines[:, rows].diagonal()[:, None] - _ROUNDING)",
        "(cosines > cosines[:, rows].diagonal()[:, None] + _ROUNDING)",
        (f"{MATCHING}::test_who_says_the_same_of_all_finds_nothing",),
    ),
    Mutant(
        "the target is cut as the source is",
        "tasks/translation/run.py",
        "config.written.learn(",
        "config.learn(",
        ("tests/unit/tasks/test_translation.py::test_the_target_may_be_cut_in_another_way",),
    ),
    Mutant(
        "the mean of a text is over the batch's longest",
        "models/encoders.py",
        "(hidden * real).sum(1) / real.sum(1).clamp(min=1)",
        "(hidden * real).sum(1) / real.size(1)",
        (PRETRAINED,),
    ),
    Mutant(
        "padding counts in the mean of a text",
        "models/encoders.py",
        "(hidden * real).sum(1)",
        "hidden.sum(1)",
        (ENCODERS,),
    ),
    Mutant(
        "special tokens are drawn at random",
        "tasks/pretraining/problem.py",
        "for number in range(tokenizer.size) if number not in silent])",
        "for number in range(tokenizer.size)])",
        (f"{PRETRAINED}::test_a_token_at_random_is_any_word_and_nothing_else",),
    ),
    Mutant(
        "spans are shorter than documented",
        "tasks/pretraining/masking.py",
        "_SPAN_END = 0.2",
        "_SPAN_END = 0.3",
        (MASKING,),
    ),
    Mutant(
        "a span may be any number of words",
        "tasks/pretraining/masking.py",
        "-chance.number() * _UP_TO_LONGEST",
        "-chance.number()",
        (MASKING,),
    ),
)

SUMMARIES = (
    Mutant(
        "hops look at padding",
        "models/encoders.py",
        "        visible = (positions >= 0).unsqueeze(1)\n        matrix",
        "        visible = (positions >= -1).unsqueeze(1)\n        matrix",
        (f"{SENTENCES}::test_each_hop_shares_out_one_and_nothing_goes_to_padding",),
    ),
    Mutant(
        "keys of hops lack their tanh",
        "models/encoders.py",
        "self.keys(hidden).tanh()",
        "self.keys(hidden)",
        (f"{SENTENCES}::test_the_matrix_is_that_of_the_paper",),
    ),
    Mutant(
        "all hops ask what the first one asks",
        "attention/attention.py",
        "scores = queries @ key.unsqueeze(1).transpose(-2, -1)",
        "scores = queries[:, :1].expand_as(queries) @ key.unsqueeze(1).transpose(-2, -1)",
        (f"{SENTENCES}::test_the_matrix_is_that_of_the_paper",),
    ),
    Mutant(
        "rows of the matrix are mixed up with its columns",
        "attention/attention.py",
        "(weights @ value.unsqueeze(1)).transpose(1, 2).flatten(2)",
        "(weights @ value.unsqueeze(1)).permute(0, 2, 3, 1).flatten(2)",
        (f"{SENTENCES}::test_the_matrix_is_that_of_the_paper",),
    ),
    Mutant(
        "the penalty on hops is not weighed",
        "tasks/classification/problem.py",
        "plain.total + self.decorrelation * penalty",
        "plain.total + penalty",
        (f"{CLASSIFIED}::test_the_penalty_on_hops_is_added_and_told",),
    ),
    Mutant(
        "the penalty on hops teaches nothing",
        "tasks/classification/problem.py",
        "watch(model.summary, detach=False)",
        "watch(model.summary, detach=True)",
        (f"{CLASSIFIED}::test_the_penalty_on_hops_is_added_and_told",),
    ),
    Mutant(
        "the output of the premise is handed on",
        "models/conditional_encoder.py",
        "return (torch.zeros_like(output), *memory)",
        "return (output, *memory)",
        (f"{ENTAILMENT}::test_pairs_are_read_as_in_the_paper",),
    ),
    Mutant(
        "the hypothesis is read without the premise",
        "models/conditional_encoder.py",
        "return (torch.zeros_like(output), *memory)",
        "return (torch.zeros_like(output), *(torch.zeros_like(part) for part in memory))",
        (f"{ENTAILMENT}::test_pairs_are_read_as_in_the_paper",),
    ),
    Mutant(
        "a word does not know what was found before",
        "models/conditional_encoder.py",
        "torch.cat((output, found), -1)",
        "torch.cat((output, torch.zeros_like(found)), -1)",
        (f"{ENTAILMENT}::test_pairs_are_read_as_in_the_paper",),
    ),
    Mutant(
        "what was found before is handed on as it is",
        "models/conditional_encoder.py",
        "context + self.recurrent(found).tanh()",
        "context + self.recurrent(found)",
        (f"{ENTAILMENT}::test_pairs_are_read_as_in_the_paper",),
    ),
    Mutant(
        "padding of the hypothesis looks at the premise too",
        "models/conditional_encoder.py",
        "torch.where(real.unsqueeze(1), context",
        "torch.where(real.unsqueeze(1) | True, context",
        (f"{ENTAILMENT}::test_pairs_are_read_alike_alone_and_beside_others",),
    ),
    Mutant(
        "the first word of the hypothesis stands for its last",
        "models/conditional_encoder.py",
        "ends = (self.positions >= 0).sum(1) - 1",
        "ends = (self.positions >= 0).sum(1) * 0",
        (f"{ENTAILMENT}::test_pairs_are_read_as_in_the_paper",),
    ),
)

LABELLED = (
    Mutant(
        "the weight of a task does not reach its loss",
        "tasks/multitask/problem.py",
        "Loss(own.total * member.weight, own.count, {",
        "Loss(own.total, own.count, {",
        (MULTITASK,),
    ),
    Mutant(
        "the temperature is left out",
        "tasks/multitask/problem.py",
        "        sizes, power = self._sizes, 1 / self.temperature",
        "        sizes, power = self._sizes, 1.0",
        (MULTITASK,),
    ),
    Mutant(
        "an update may mix tasks",
        "tasks/multitask/problem.py",
        "        return [next(waiting[order[place]]) for place in shuffled]",
        "        mixed = [rows for place in shuffled for rows in next(waiting[order[place]])]\n"
        "        return [mixed[at : at + accumulate] for at in range(0, len(mixed), accumulate)]",
        (MULTITASK,),
    ),
    Mutant(
        "each epoch begins each task anew",
        "tasks/multitask/problem.py",
        "for number in (epoch, epoch + 1))",
        "for number in (0, 1))",
        (MULTITASK,),
    ),
    Mutant(
        "what is drawn does not depend on the seed",
        "data/chance.py",
        "Chance(self.seed, _STREAM)",
        "Chance(_STREAM)",
        (DRAWN,),
    ),
    Mutant(
        "the first examples are taken instead of any",
        "data/chance.py",
        'np.argsort(Chance(self.seed, _STREAM).uniform(total), kind="stable")',
        "np.arange(total)",
        (DRAWN,),
    ),
    Mutant(
        "a ratio is the mean of ratios",
        "metrics/metric.py",
        "        return divided(weights @ self.above, weights @ self.below)",
        "        return divided(weights @ divided(self.above, self.below), weights.sum(1))",
        (METRIC,),
    ),
    Mutant(
        "paired systems are exchanged",
        "tasks/report.py",
        "paired_tests(theirs, {name: mine[name] for name in theirs}, self.sampling)",
        "paired_tests({name: mine[name] for name in theirs}, theirs, self.sampling)",
        (f"{SYSTEMS}::test_the_first_system_is_the_one_that_is_evaluated",),
    ),
    Mutant(
        "the seed of the bootstrap is forgotten",
        "cli/options.py",
        "Sampling(self.samples, self.seed)",
        "Sampling(self.samples)",
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
        "tasks/language/exam.py",
        "ends[_WORDS - 1 : -1 : _WORDS]",
        "[end + 1 for end in ends[_WORDS - 1 : -1 : _WORDS]]",
        (f"{SYSTEMS}::test_pieces_are_the_same_for_every_vocabulary",),
    ),
    Mutant(
        "an unknown tag is right where it is said",
        "tasks/tagging/data.py",
        "tag if tags.id(tag) is not None else stand_in(tag)",
        "tag if tags.id(tag) is not None else tags.names[0]",
        ("tests/unit/tasks/test_tagging.py",),
    ),
    Mutant(
        "a threshold silences what lies above it alone",
        "tasks/spans/face.py",
        "silence >= threshold",
        "silence > threshold",
        (f"{CLASSIFIED}::test_the_best_span_is_the_best_of_all_that_are_allowed",),
    ),
)

METRICS = (
    Mutant(
        "gold links of an empty pair go to the next one",
        "tasks/translation/survey.py",
        "truth.append(gold[number])",
        "truth.append(gold[len(truth)])",
        (f"{INSPECTING}::test_gold_belongs_to_its_own_pair_where_others_are_passed_over",),
    ),
    Mutant(
        "macro F1 is that of all classes together",
        "metrics/classes.py",
        "    return Mean(tuple(f1(predicted, gold, positive=name) for name in classes))",
        "    parts = [f1(predicted, gold, positive=name) for name in classes]\n"
        "    return Mean((Ratio(sum(part.above for part in parts), sum(part.below for part in parts)),))",
        ("tests/unit/metrics/test_classes.py",),
    ),
    Mutant(
        "classes that are only predicted do not count",
        "metrics/classes.py",
        "positive=name) for name in classes))",
        "positive=name) for name in classes if name in gold))",
        ("tests/unit/metrics/test_classes.py",),
    ),
    Mutant(
        "Matthews' table is read the wrong way round",
        "metrics/classes.py",
        "above = right * total - (guesses",
        "above = right * total + (guesses",
        ("tests/unit/metrics/test_classes.py",),
    ),
    Mutant(
        "one right option makes a group exact",
        "metrics/classes.py",
        "[count == 0 for count in errors.above]",
        "[count < size for count, size in zip(errors.above, errors.below, strict=True)]",
        ("tests/unit/metrics/test_classes.py",),
    ),
    Mutant(
        "entities of one type side by side are one",
        "metrics/entities.py",
        "previous in _CLOSES or kind != inside))\n",
        "kind != inside))\n",
        ("tests/unit/metrics/test_entities.py",),
    ),
    Mutant(
        "an entity is right wherever its type is",
        "metrics/entities.py",
        "= len(found & there), ",
        "= sum(span.type in {each.type for each in there} for span in found), ",
        ("tests/unit/metrics/test_entities.py",),
    ),
    Mutant(
        "articles inside words are taken out",
        "metrics/answers.py",
        'r"\\b(a|an|the)\\b"',
        'r"(a|an|the)"',
        ("tests/unit/metrics/test_answers.py",),
    ),
    Mutant(
        "repeated words of an answer all count",
        "metrics/answers.py",
        "sum((Counter(words) & Counter(gold)).values())",
        "sum(word in gold for word in words)",
        ("tests/unit/metrics/test_answers.py",),
    ),
    Mutant(
        "the worst of several gold answers counts",
        "metrics/answers.py",
        "return max(_overlap(words, gold.split())",
        "return min(_overlap(words, gold.split())",
        ("tests/unit/metrics/test_answers.py",),
    ),
    Mutant(
        "equal numbers get different ranks",
        "metrics/correlation.py",
        "_, which = np.unique(values, return_inverse=True)",
        'which = np.argsort(np.argsort(values, kind="stable"))',
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
        "metrics/bootstrap.py",
        "        for weights in _draws(size, sampling):\n"
        "            for found, system in zip(parts, systems, strict=True):\n",
        "        for number, (found, system) in enumerate(zip(parts, systems, strict=True)):\n"
        "            for weights in _draws(size, Sampling(sampling.samples, sampling.seed + number)):\n",
        ("tests/unit/metrics/test_bootstrap.py",),
    ),
    Mutant(
        "p counts only differences in one direction",
        "metrics/bootstrap.py",
        "np.abs(drawn - drawn.mean()) >= abs(observed)",
        "(drawn - drawn.mean()) >= abs(observed)",
        ("tests/unit/metrics/test_bootstrap.py",),
    ),
    Mutant(
        "chrF weighs precision more",
        "metrics/counted.py",
        "divisor = weight * precision + recall",
        "divisor = precision + weight * recall",
        ("tests/unit/metrics/test_bootstrap.py",),
    ),
    Mutant(
        "a resampled rank counts each example once",
        "metrics/correlation.py",
        "counts = np.add.reduceat(weights[:, order], begins, axis=1)",
        "counts = np.add.reduceat((weights[:, order] > 0).astype(float), begins, axis=1)",
        (METRIC,),
    ),
    Mutant(
        "single examples are drawn instead of groups",
        "metrics/metric.py",
        "which = np.array([numbers[group] for group in groups])",
        "which = np.arange(len(groups)) % len(numbers)",
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
        "{SOURCE: Slots(memory[0])} if memory",
        "{SOURCE: Slots(memory[0].clamp(min=0))} if memory",
        (f"{ONNX}::test_a_trained_translator",),
    ),
    Mutant(
        "an exported embedding is the encoder's own summary",
        "foreign/onnx_graphs.py",
        "return memory.values, mean_of_tokens(memory.values, memory.positions)",
        "return memory.values, memory.summary",
        (f"{ONNX}::test_an_encoder_makes_the_same_vectors",),
    ),
    Mutant(
        "an exported classifier takes two texts for one",
        "foreign/onnx_graphs.py",
        "self.model.output(self.model(Tokens(ids, positions, segments)))",
        "self.model.output(self.model(Tokens(ids, positions)))",
        (f"{ONNX}::test_heads_say_the_same",),
    ),
    Mutant(
        "an exported graph has one length of caches",
        "foreign/onnx_graphs.py",
        'return {0: "batch", place: name}',
        'return {0: "batch"} if name == "past" else {0: "batch", place: name}',
        (f"{ONNX}::test_a_trained_writer",),
    ),
    Mutant(
        "whoever calls an exported translator never hears of the end of a source",
        "foreign/onnx_card.py",
        '"after": [special.eos]}',
        '"after": []}',
        (f"{ONNX}::test_a_trained_translator",),
    ),
    Mutant(
        "an exported writer is never to end a document",
        "foreign/onnx_card.py",
        "never = {*special.unspeakable, *(",
        "never = {*special.silent, *(",
        (f"{ONNX}::test_a_trained_writer",),
    ),
    Mutant(
        "scores across that look at places are exported as if they did not",
        "foreign/onnx_export.py",
        'has |= {"cross_attention.score": _SCORES, "cross',
        'has |= {"cross',
        (f"{ONNX}::test_what_no_graph_can_say_is_refused",),
    ),
    Mutant(
        "a mask is looked at while a graph is written",
        "attention/sight.py",
        'mask.device.type == "cpu" and not kernels.traced()',
        'mask.device.type == "cpu"',
        (f"{ONNX}::test_a_trained_writer",),
    ),
)

COMMANDS = (
    Mutant(
        "the systems compared are exchanged",
        "metrics/bootstrap.py",
        "one, two = _resampled(",
        "two, one = _resampled(",
        ("tests/unit/cli/test_evaluate.py::test_a_file_of_translations_and_another_one",),
    ),
    Mutant(
        "intervals ignore the seed",
        "tasks/report.py",
        "return intervals(self.resampled, self.sampling)",
        "return intervals(self.resampled, Sampling(self.sampling.samples))",
        ("tests/unit/cli/test_evaluate.py::test_the_bootstrap_follows_its_seed",),
    ),
    Mutant(
        "the paired bootstrap ignores the seed",
        "tasks/report.py",
        "for name in theirs}, self.sampling)",
        "for name in theirs}, Sampling(self.sampling.samples, seed=1))",
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
        "[len(pair.source.split()) for pair in self.exam.pairs]",
        "[len(pair.target.split()) for pair in self.exam.pairs]",
        ("tests/unit/cli/test_evaluate.py::test_bands_of_length_count_words_of_the_sources",),
    ),
    Mutant(
        "as good as the same answer to everything is better than it",
        "tasks/labelled.py",
        "else reached > always:",
        "else reached >= always:",
        ("tests/unit/tasks/test_baselines.py",),
    ),
    Mutant(
        "more errors are better than fewer",
        "tasks/labelled.py",
        "reached < always if name in LOWER_IS_BETTER else reached > always",
        "reached > always",
        ("tests/unit/tasks/test_baselines.py",),
    ),
    Mutant(
        "numbers are compared by their correlation",
        "tasks/labelled.py",
        "if isinstance(self.constant, float):",
        "if False:",
        ("tests/unit/tasks/test_baselines.py",),
    ),
    Mutant(
        "numbers are learned from 0 on",
        "tasks/classification/run.py",
        "nn.init.constant_(model.output.bias, sum(numbers) / max(1, len(numbers)))",
        "nn.init.constant_(model.output.bias, 0.0)",
        ("tests/unit/tasks/test_baselines.py",),
    ),
    Mutant(
        "what is right most often is compared with the last run",
        "tasks/labelled.py",
        "        first = self.reports[0]\n",
        "        first = self.reports[-1]\n",
        ("tests/unit/cli/test_compare_labels.py::test_curves_by_examples",),
    ),
    Mutant(
        "families are compared where sizes differ",
        "tasks/labelled.py",
        "[(others[size], report) for report in family if (size := self._examples(report)) in others]",
        "[(others.get(self._examples(report), self.families[0][0]), report) for report in family]",
        ("tests/unit/cli/test_compare_labels.py::test_curves_by_examples",),
    ),
    Mutant(
        "candidates stand before what they share",
        "tasks/classification/face.py",
        "[[(text, candidate) for candidate in others] for text, *others in inputs]",
        "[[(candidate, text) for candidate in others] for text, *others in inputs]",
        ("tests/unit/cli/test_classify.py::test_the_best_candidate_is_chosen_behind_what_all_share",),
    ),
    Mutant(
        "pairs with an empty side are scored",
        "tasks/translation/exam.py",
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
        "tasks/translation/exam.py",
        "sides = [(asked(pair), pair.target) for pair in pairs]",
        "sides = [(asked(pair), pair.source) for pair in pairs]",
        ("tests/unit/cli/test_evaluate.py::test_a_run_is_measured_on_its_own_text",),
    ),
    Mutant(
        "texts behind the run are taken for runs",
        "cli/file_names.py",
        "while count < len(words) and (is_there(words[count]) or looks_like_file(words[count])):",
        "while count < len(words):",
        ("tests/unit/cli/test_arguments.py::test_words_find_their_fields",),
    ),
    Mutant(
        "the name of a file is answered as a text",
        "cli/grammar.py",
        "                    require_text(word, option=option.shown, reads=self._reads)\n",
        "                    continue\n",
        ("tests/unit/cli/test_file_names.py::test_the_name_of_a_file_is_never_answered",),
    ),
    Mutant(
        "the first answer waits for the end of the input",
        "cli/lines.py",
        "            out.flush()\n",
        "",
        ("tests/unit/cli/test_lines.py::test_answers_are_there_before_more_is_read",),
    ),
    Mutant(
        "a text alone is classified by a model of pairs without a word",
        "tasks/classification/face.py",
        "if self.pairs and len(parts) == 1:",
        "if self.pairs and not parts:",
        ("tests/unit/cli/test_classify.py::test_a_text_alone_and_one_without_marks_are_doubted",),
    ),
    Mutant(
        "a text is a list of its letters",
        "given_texts.py",
        "    if isinstance(items, kinds):\n        return [cast(Item, items)]\n",
        "",
        ("tests/unit/tasks/test_given_texts.py::test_one_text_is_a_list_of_one",),
    ),
    Mutant(
        "the place of what is no text is counted from 1",
        "given_texts.py",
        "{name}[{place}]: {shown(each)} is not a {noun}; give {remedy}",
        "{name}[{place + 1}]: {shown(each)} is not a {noun}; give {remedy}",
        ("tests/unit/tasks/test_given_texts.py::test_what_is_no_text_is_named_with_its_place",),
    ),
    Mutant(
        "only words that end with es have a singular",
        "words.py",
        "noun.endswith(_HISSING)",
        'noun.endswith("sses")',
        ("tests/unit/test_words.py::test_singulars",),
    ),
    Mutant(
        "memory that is not there is a bug",
        "cli/failures.py",
        "isinstance(error, MemoryError) or ",
        "",
        ("tests/unit/cli/test_main.py::test_errors_of_the_machine_are_no_bugs",),
    ),
    Mutant(
        "a high perplexity is told of the first evaluation",
        "runs/learning_curve.py",
        'perplexity, epoch = record["perplexity"], record.get("epoch")',
        'perplexity, epoch = perplexity or record["perplexity"], record.get("epoch")',
        ("tests/unit/runs/test_learning_curve.py::test_a_high_perplexity_is_told",),
    ),
    Mutant(
        "names of files have no spaces",
        "cli/file_names.py",
        """    if any(map(str.isspace, word)):
        return False
    return bool""",
        "    return bool",
        ("tests/unit/cli/test_file_names.py",),
    ),
    Mutant(
        "any document is written under the name of any other",
        "localisation/files.py",
        "readers[0] is not None and readers[0] == readers[1] and not BINARY.intersection(endings)",
        "readers[0] is not None",
        ("tests/unit/cli/test_file_names.py::test_no_file_is_written_under_the_name_of_another_format",),
    ),
    Mutant(
        "required options are not asked for",
        "cli/grammar.py",
        "each.shown for each in self.options if each.required and each.names and each.key not in given.options",
        "each.shown for each in self.options if each.required and each.names and each.key in given.options",
        ("tests/unit/cli/test_main.py::test_what_a_command_needs_is_asked_for_by_name",),
    ),
    Mutant(
        "the last of several values counts",
        "cli/grammar.py",
        "if before and option.most is not None:",
        "if before and option.most is None:",
        ("tests/unit/cli/test_arguments.py::test_an_option_is_given_once",),
    ),
    Mutant(
        "a mistyped kind speaks for another task",
        "recipes/load.py",
        'each["type"] in _STRANGE or (each["type"] == "literal_error" and each["loc"][-1:] == ("kind",))',
        'each["type"] in _STRANGE',
        ("tests/unit/recipes/test_problems.py::test_a_mistyped_kind_does_not_speak_for_another_task",),
    ),
    Mutant(
        "an option that takes any number of words takes the run too",
        "cli/grammar.py",
        "enough and len(waiting) <= needed",
        "enough and not waiting",
        ("tests/unit/cli/test_arguments.py::test_words_find_their_fields",),
    ),
    Mutant(
        "a former name of an option is taken without a word",
        "cli/arguments.py",
        "    for option in given.renamed:\n",
        "    for option in given.renamed[:0]:\n",
        ("tests/unit/cli/test_arguments.py::test_a_former_name_is_taken_with_a_note",),
    ),
    Mutant(
        "whoever types waits for the end of all lines",
        "cli/lines.py",
        "chunk=1 if self.typed else None)",
        "chunk=None)",
        ("tests/unit/cli/test_lines.py::test_whoever_types_is_answered_line_by_line",),
    ),
    Mutant(
        "a synonym leads to a key of another kind without a word",
        "recipes/problems.py",
        "        if wanted not in keys(chosen):\n",
        "        if False:\n",
        (f"{PROBLEMS}::test_the_sentence_for_each_mistake",),
    ),
    Mutant(
        "a task is guessed where one was given",
        "recipes/load.py",
        'if "task" not in table and error.error_count()',
        "if error.error_count()",
        (f"{PROBLEMS}::test_a_task_that_was_forgotten_is_guessed",),
    ),
    Mutant(
        "nobody is told that a text has changed since",
        "runs/texts.py",
        'if old is not None and old != text["sha256"]:',
        "if old is None:",
        ("tests/unit/runs/test_training_run.py::test_text_that_changed_is_encoded_again",),
    ),
    Mutant(
        "shells are offered the options of another command",
        "cli/completion.py",
        "[option for each in _grammars(name, command.module) for option in each.options]",
        "[option for each in _grammars(name, COMMANDS['chat'].module) for option in each.options]",
        ("tests/unit/cli/test_completion.py::test_bash_completes",),
    ),
    Mutant(
        "shells are offered the tables of settings",
        "cli/completion.py",
        "elif get_origin(kind) is not dict:",
        "else:",
        ("tests/unit/cli/test_completion.py::test_every_command_and_option_is_in_every_script",),
    ),
    Mutant(
        "lists of the best are numbered from 0",
        "cli/lines.py",
        "    first = 1\n",
        "    first = 0\n",
        ("tests/unit/cli/test_translate.py::test_n_best_lines",),
    ),
    Mutant(
        "runs are compared with the one before them",
        "runs/comparing.py",
        "sampling, reports[0] if reports else None",
        "sampling, reports[-1] if reports else None",
        ("tests/unit/cli/test_compare.py::test_all_runs_are_tested_against_the_first",),
    ),
    Mutant(
        "the heads that are farthest apart come last",
        "cli/inspected.py",
        "key=lambda each: -each.divergence)",
        "key=lambda each: each.divergence)",
        ("tests/unit/cli/test_inspect.py::test_two_records_are_compared",),
    ),
    Mutant(
        "texts of a later part are numbered anew",
        "cli/lines.py",
        "first += len(part)",
        "first += 0",
        ("tests/unit/cli/test_fill.py::test_texts_are_numbered_through_all_parts_that_are_read",),
    ),
    Mutant(
        "heads that nobody needs come first",
        "cli/inspected.py",
        "sorted(found.heads, key=lambda each: -each.nats)",
        "sorted(found.heads, key=lambda each: each.nats)",
        ("tests/unit/cli/test_inspect.py::test_the_habits_and_the_worth_of_heads",),
    ),
    Mutant(
        "a passage is marked where another one has its answer",
        "retrieval/marked.py",
        "Shown(hit, *known[hit.passage.id])",
        "Shown(hit, *next(iter(known.values())))",
        ("tests/unit/cli/test_search.py::test_every_passage_is_marked_where_its_own_answer_stands",),
    ),
)

MEMORIES = (
    Mutant(
        "the first of several memories is looked at alone",
        "blocks/transformer.py",
        "        for name in self.names:\n            attention",
        "        for name in self.names[:1]:\n            attention",
        ("tests/reference/test_memories.py::test_a_layer_looks_at_one_memory_after_the_other",),
    ),
    Mutant(
        "every memory is seen as the first one is",
        "blocks/transformer.py",
        "sight=across[name]))",
        "sight=next(iter(across.values()))))",
        (f"{MEMORIES_LAWS}::test_each_memory_is_seen_under_its_own_name[transformer]",),
    ),
    Mutant(
        "layers look at memories in the order given",
        "values.py",
        "return {name: found[name] for name in wanted}",
        "return found",
        (f"{MEMORIES_LAWS}::test_memories_are_told_apart_by_their_names_alone",),
    ),
    Mutant(
        "a decoder begins where the first memory's summary says",
        "models/recurrent_decoder.py",
        "_beside([each.summary for each in memories.values()])",
        "_beside([next(iter(memories.values())).summary] * len(memories))",
        ("tests/reference/test_memories.py::test_a_recurrent_reading_puts_contexts_and_summaries_side_by_side",),
    ),
    Mutant(
        "shorter pasts are filled up with first tokens",
        "attention/sight.py",
        "positions = laid_under([part.positions for part in parts], axis=1, fill=-1, left=left)",
        "positions = laid_under([part.positions for part in parts], axis=1, fill=0, left=left)",
        (f"{LAWS}::test_states_of_different_age_are_joined[gpt-rotary-inference]",),
    ),
    Mutant(
        "joined groups own what others wrote",
        "attention/sight.py",
        "torch.ones(groups * self.width, keys",
        "torch.zeros(groups * self.width, keys",
        (f"{LAWS}::test_rows_in_groups_are_rows[gpt-inference]",),
    ),
    Mutant(
        "keys are filled up at the other end than their positions",
        "blocks/state.py",
        "KeyValues.together(pasts, left=True, room=",
        "KeyValues.together(pasts, left=False, room=",
        (f"{LAWS}::test_states_of_different_age_are_joined[gpt-inference]",),
    ),
    Mutant(
        "a batch keeps the columns of rows that left",
        "blocks/state.py",
        "parts = tuple(part._lean(None) for part in (self, *others))",
        "parts = (self, *others)",
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
        "values.py",
        "return int(something.nonzero()[-1]) + 1",
        "return int(something.sum())",
        ("tests/unit/test_values.py::test_columns_count_up_to_the_last_that_has_something",),
    ),
    Mutant(
        "rows that left early are forgotten",
        "generation/columns.py",
        "if request.keep and done:",
        "if request.keep and done > 1:",
        (f"{CONVERSATION}::test_a_conversation_goes_on_as_if_it_had_been_read_at_once",),
    ),
    Mutant(
        "states stay in the order in which rows ended",
        "generation/columns.py",
        "places = rows.argsort()[order]",
        "places = order",
        (f"{CONVERSATION}::test_a_conversation_goes_on_as_if_it_had_been_read_at_once",),
    ),
    Mutant(
        "the last token of a beam is read twice",
        "generation/beam.py",
        "torch.where(written.positions < after.unread.positions, written.positions, -1)",
        "written.positions",
        (f"{CONVERSATION}::test_a_conversation_goes_on_as_if_it_had_been_read_at_once",),
    ),
    Mutant(
        "the next turn begins at the place of the last token",
        "generation/hypotheses.py",
        "return cls(state, unread, first + sizes)",
        "return cls(state, unread, first + sizes - 1)",
        (f"{CONVERSATION}::test_a_conversation_goes_on_as_if_it_had_been_read_at_once",),
    ),
    Mutant(
        "a search takes another step before it stops",
        "generation/columns.py",
        "running = done < count and not until()",
        "running = done < count and running",
        (f"{CONVERSATION}::test_a_search_that_is_told_to_stop_gives_what_it_has",),
    ),
    Mutant(
        "only unfinished answers of a beam say that it was cut",
        "generation/beam.py",
        "cut = ~front.done.unsqueeze(1).expand_as(finished)",
        "cut = ~front.done.unsqueeze(1).expand_as(finished) & ~ended",
        (f"{CONVERSATION}::test_a_beam_that_is_told_to_stop_gives_what_it_has",),
    ),
    Mutant(
        "written tokens are of the first segment of the prompt",
        "generation/start.py",
        "following = prompt.segments.gather(1, newest)",
        "following = prompt.segments[:, :1]",
        (f"{CONVERSATION}::test_written_tokens_are_of_the_segment_of_the_last_one_given",),
    ),
    Mutant(
        "a head comes with an encoder of its own",
        "architectures/build_fine_tuning.py",
        "if encoder is None:\n        encoder = transformer_encoder(config, vocabulary=vocabulary, longest=longest)\n",
        "encoder = transformer_encoder(config, vocabulary=vocabulary, longest=longest)\n",
        ("tests/unit/recipes/test_build.py::test_a_head_is_built_on_the_encoder_that_is_given",),
    ),
    Mutant(
        "both ends are the same end",
        "models/recurrent_encoder.py",
        "torch.cat((last_state(ends), first_backward(ends)), -1)",
        "torch.cat((last_state(ends), last_state(ends)), -1)",
        ("tests/unit/models/test_encoders.py::test_summaries_of_ends_are_those_of_both_cells",),
    ),
    Mutant(
        "one memory keeps its rows when others are rearranged",
        "blocks/state.py",
        "memories=select(self.memories, rows), width",
        "memories={n: s.rearrange(rows) if n != 'motion' else s for n, s in self.memories.items()}, width",
        (f"{LAWS}::test_row_law[two-memories-inference]",),
    ),
    Mutant(
        "weights below zero are widths too",
        "inspection/pipes.py",
        "np.rint(np.maximum(step, 0) * _UNITS)",
        "np.rint(step * _UNITS)",
        (f"{FLOW}::test_nothing_flows_where_weights_are_below_zero",),
    ),
    Mutant(
        "all passages are of one example",
        "tasks/pretraining/exam.py",
        "example = text.number(place) if self.whole else place * self.size // len(text)",
        "example = 0",
        (f"{SYSTEMS}::test_pre_trained_models_are_asked_for_the_same_tokens",),
    ),
    Mutant(
        "each pre-trained model is asked what its own seed hides",
        "tasks/pretraining/exam.py",
        "passages = self.hidden(corpus, user.tokenizer)",
        "passages = self.hidden(corpus, user.tokenizer); passages.passages.seed = recipe.seed",
        (f"{SYSTEMS}::test_pre_trained_models_are_asked_for_the_same_tokens",),
    ),
    Mutant(
        "models of other pairings are asked too",
        "tasks/pretraining/exam.py",
        "if theirs != ours:",
        "if not theirs:",
        (f"{SYSTEMS}::test_pre_trained_models_that_cannot_be_asked_the_same",),
    ),
    Mutant(
        "what a kill leaves stays",
        "store.py",
        "    finally:\n        shutil.rmtree(folder, ignore_errors=True)\n",
        "    finally:\n        beside.unlink(missing_ok=True)\n",
        ("tests/unit/runs/test_files.py::test_what_a_kill_leaves_is_gone_when_the_file_is_written_again",),
    ),
    Mutant(
        "links inside a run are followed",
        "runs/prepare.py",
        "if inside.is_symlink() and inside.is_dir():",
        "if inside.is_symlink() and not inside.exists():",
        ("tests/unit/runs/test_training_run.py::test_what_a_link_leads_to_is_left_alone",),
    ),
    Mutant(
        "what a chain hears from behind knows no links",
        "attention/chain.py",
        "after.append((links[:, step - 1] + (single",
        "after.append((0 * links[:, step - 1] + (single",
        (f"{CHAIN}::test_marginals_are_those_of_all_paths",),
    ),
    Mutant(
        "a chain stays where it is",
        "attention/chain.py",
        "links.to(wide.dtype).masked_fill(torch.eye(keys, dtype=torch.bool, device=links.device), never / 2)",
        "links.to(wide.dtype)",
        (f"{CHAIN}::test_marginals_are_those_of_all_paths",),
    ),
    Mutant(
        "a memory network that writes remembers a word too many",
        "models/memory_network_decoder.py",
        "self.visibility = window(memory - 1, 0)",
        "self.visibility = window(memory, 0)",
        (MEMORY_DECODER,),
    ),
    Mutant(
        "its keys are its values",
        "models/memory_network_decoder.py",
        "key, value = tables.chunk(2, -1)",
        "value, key = tables.chunk(2, -1)",
        (MEMORY_DECODER,),
    ),
    Mutant(
        "its words are scaled as those of a Transformer",
        "models/memory_network_decoder.py",
        "scaled=False, ",
        "",
        (MEMORY_DECODER,),
    ),
    Mutant(
        "the first half goes through the ReLU",
        "models/memory_network_decoder.py",
        "return torch.cat((straight, functional.relu(bent)), -1)",
        "return torch.cat((functional.relu(straight), bent), -1)",
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
        "there.sum(1, keepdim=True).clamp(min=1)",
        "there.size(1)",
        (f"{MEMORY_NETWORK}::test_logits_are_those_of_the_equations",),
    ),
    Mutant(
        "a resumed run begins its linear start again",
        "tasks/stories/problem.py",
        'self.done = int(tensors["done"])',
        "self.done = 0",
        (f"{STORIES}::test_a_run_that_is_cut_in_its_linear_start_ends_as_one_that_is_not",),
    ),
    Mutant(
        "empty memories make newer facts older, not those before them",
        "tasks/stories/problem.py",
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
        "tasks/stories/exam.py",
        "bool(want) and want <= set(each.looked)",
        "bool(want & set(each.looked))",
        (f"{STORIES}::test_what_answers_are_worth",),
    ),
    Mutant(
        "facts of a long story are counted from the first that is read",
        "tasks/stories/face.py",
        "int(place) + row.first for place",
        "int(place) for place",
        (f"{STORIES}::test_of_a_long_story_the_last_facts_are_read",),
    ),
)

GLIMPSING = (
    Mutant(
        "coarse patches begin where the sharp one does",
        "blocks/retina.py",
        "(centres - size / 2)",
        "(centres - self.patch / 2)",
        (f"{GLIMPSES_BY_HAND}::test_the_retina_sees_means_of_squares",),
    ),
    Mutant(
        "rewards change what the core remembers",
        "models/glimpses.py",
        "self.mean(hidden.detach())",
        "self.mean(hidden)",
        (f"{GLIMPSES_BY_HAND}::test_the_hybrid_loss_and_its_gradient",),
    ),
    Mutant(
        "the baseline learns from REINFORCE",
        "tasks/glimpses/problem.py",
        "advantage = reward - looks.expected.detach()",
        "advantage = reward - looks.expected",
        (f"{GLIMPSES_BY_HAND}::test_the_hybrid_loss_and_its_gradient",),
    ),
    Mutant(
        "the first glimpse is rewarded",
        "tasks/glimpses/problem.py",
        "(looks.logits[:, :, -1].argmax(-1) ==",
        "(looks.logits[:, :, 0].argmax(-1) ==",
        (f"{GLIMPSES_BY_HAND}::test_the_hybrid_loss_and_its_gradient",),
    ),
    Mutant(
        "where to look depends on the batch",
        "tasks/glimpses/looking.py",
        "(Chance(seed, picture_key(pixels)) for pixels in shown)",
        "(Chance(seed, row) for row, _ in enumerate(shown))",
        (f"{GLIMPSES}::test_chance_is_of_a_picture_whatever_stands_beside_it",),
    ),
    Mutant(
        "a picture that occurs twice is in two parts",
        "tasks/glimpses/data.py",
        "while 0 < place < len(found) and found[place].key == found[place - 1].key:",
        "while not 0 <= place <= len(found):",
        (f"{GLIMPSES}::test_parts_have_no_picture_in_common_and_are_all_of_them",),
    ),
)

CAPTIONED = (
    Mutant(
        "channels of a plane are normed in fewer groups",
        "blocks/plane.py",
        "nn.GroupNorm(next(n for n in (8, 4, 2, 1) if",
        "nn.GroupNorm(next(n for n in (4, 2, 1) if",
        (f"{VISION}::test_channels_are_normed_in_the_largest_groups_that_there_can_be",),
    ),
    Mutant(
        "a region looks beside what it stands for",
        "blocks/plane.py",
        "size, stride = (4, 2) if halved",
        "size, stride = (3, 2) if halved",
        (f"{VISION}::test_what_halves_a_plane_looks_at_the_middle_of_what_it_stands_for",),
    ),
    Mutant(
        "what was found is read whatever the gate says",
        "models/recurrent_decoder.py",
        "read: Tensor = torch.sigmoid(self.map(query)) * context",
        "read: Tensor = (torch.sigmoid(self.map(query)) * 0 + 1) * context",
        (f"{ATTEND}::test_the_decoder_is_the_papers",),
    ),
    Mutant(
        "padding pays attention to a picture",
        "tasks/criteria.py",
        "torch.where(real, weights, 0.0).sum(1)).square()",
        "weights.sum(1)).square()",
        (f"{ATTEND}::test_the_penalty_is_that_of_plain_loops_and_has_a_gradient",),
    ),
    Mutant(
        "a caption is of the next picture",
        "tasks/captions.py",
        "np.searchsorted(corpus[CAPTIONS].stops, stops)",
        'np.minimum(np.searchsorted(corpus[CAPTIONS].stops, stops, side="right"), len(corpus) - 1)',
        (f"{CAPTIONING}::test_a_picture_is_stored_once_and_shared_by_its_captions",),
    ),
    Mutant(
        "attention points to the right where it should point down",
        "tasks/captioning/exam.py",
        "return (column + 0.5) / spread.shape[1], (row + 0.5) / spread.shape[0]",
        "return (row + 0.5) / spread.shape[0], (column + 0.5) / spread.shape[1]",
        (f"{CAPTIONING}::test_the_pointing_game_is_won_by_who_looks_at_what_is_named",),
    ),
    Mutant(
        "said again and again is worth as much",
        "metrics/captions.py",
        "min(weight, theirs[gram]) * theirs[gram]",
        "weight * theirs[gram]",
        (f"{CAPTIONS}::test_cider_is_the_longhand_one",),
    ),
)

CLIP_FILES = "tests/unit/data/test_clips.py"
CLIP_MODELS = "tests/unit/models/test_clips.py"
VIDEO = "tests/unit/tasks/test_video.py"

CLIPS = (
    Mutant(
        "clips: channels are normed in fewer groups",
        "models/clips.py",
        "_GROUPS: Final = (8, 4, 2, 1)",
        "_GROUPS: Final = (4, 2, 1)",
        (CLIP_MODELS,),
    ),
    Mutant(
        name="clips: padding between layers is looked at",
        file="models/clips.py",
        old="torch.where(real[:, :, None, None, None], normed, 0).transpose(1, 2)",
        new="normed.transpose(1, 2)",
        tests=(CLIP_MODELS,),
    ),
    Mutant(
        name="clips: padding counts in the mean",
        file="models/clips.py",
        old="summary = self.summary(slots, source.positions)",
        new="summary = slots.mean(1)",
        tests=(CLIP_MODELS,),
    ),
    Mutant(
        name="clips: parts by their beginnings",
        file="data/clips.py",
        old="(np.arange(most) + 0.5 + _ROUNDING)",
        new="(np.arange(most) + _ROUNDING)",
        tests=(CLIP_FILES,),
    ),
    Mutant(
        name="clips: playlists are followed",
        file="data/clips.py",
        old=', "format_whitelist": _FORMATS}',
        new="}",
        tests=(CLIP_FILES,),
    ),
    Mutant(
        name="clips: events among the frames that were taken",
        file="tasks/video/exam.py",
        old="return ((event.start <= clip.numbers) & (clip.numbers < event.stop)).astype(np.float64)",
        new="return np.array([event.start <= n < event.stop for n in range(len(clip.numbers))], np.float64)",
        tests=(VIDEO,),
    ),
    Mutant(
        name="clips: padding is a frame",
        file="tasks/video/data.py",
        old="positions = np.full(block.shape[:2], -1)",
        new="positions = np.full(block.shape[:2], 0)",
        tests=(VIDEO,),
    ),
    Mutant(
        name="clips: one chance for each chunk",
        file="tasks/caption_writer.py",
        old="enumerate(part, first + len(found))",
        new="enumerate(part, first)",
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

FIRST_HOUR = (
    Mutant(
        "every label as probable as the first counts as right",
        "tasks/likelihood.py",
        "(logits.argmax(-1) == label).sum()",
        "(logits.gather(1, label.unsqueeze(1)) >= logits.amax(-1, keepdim=True)).sum()",
        (LIKELIHOOD,),
    ),
    Mutant(
        "what is monitored gets better wherever losses part",
        "runs/remarks.py",
        "if parted and evaluation.improved",
        "if parted",
        ("tests/unit/runs/test_learning_curve.py",),
    ),
    Mutant(
        "accuracy is of batches, not of labels",
        "tasks/writing.py",
        '"accuracy": right / count',
        '"accuracy": right / len(list(self.measured()))',
        (TASK,),
    ),
    Mutant(
        "a choice is one example, however many candidates are read",
        "tasks/classification/fitting.py",
        "count += len(texts)",
        "count += 1",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "few texts are read as often as many",
        "tasks/classification/fitting.py",
        "_PASSES[self.examples <= _FEW]",
        "_PASSES[self.examples > _FEW]",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "rows of n-grams are rounded up past their limit",
        "tasks/classification/fitting.py",
        "2 ** int(math.log2(_ROWS",
        "2 ** math.ceil(math.log2(_ROWS",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "windows of questions do not overlap",
        "tasks/spans/fitting.py",
        "max(1, round(2 * context / room) - 1)",
        "max(1, round(context / room))",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "entities are judged by accuracy",
        "tasks/tagging/run.py",
        '"f1" if are_entities(sorted(amount.tags)) else "accuracy"',
        '"accuracy" if are_entities(sorted(amount.tags)) else "f1"',
        (LABELLED_FITTING,),
    ),
    Mutant(
        "a long time for a text gives no larger GPT",
        "tasks/language/fitting.py",
        "if seconds >= shape.seconds][-1]",
        "if seconds >= shape.seconds][0]",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "a GPT expects the last of its limits, not the first",
        "tasks/language/fitting.py",
        "max(1.0, min((limit",
        "max(1.0, max((limit",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "few pairs get as deep a model as many",
        "tasks/translation/fitting.py",
        "return self.amount.pairs >= pairs and self._by_clock",
        "return self._by_clock",
        (FITTING,),
    ),
    Mutant(
        "who says when training ends is read to the last limit",
        "tasks/translation/fitting.py",
        "return min(limits)",
        "return max(limits)",
        (FITTING,),
    ),
    Mutant(
        "whoever names a family has said all of a model",
        "tasks/fine_tuning_fit.py",
        "(isinstance(model, family) and not model.sized)",
        "(isinstance(model, family) and model.sized)",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "of few examples a trained encoder reads no more",
        "tasks/fine_tuning_fit.py",
        "max(3, min(8, math.ceil(16_000 / self.examples)))",
        "min(3, max(8, math.ceil(16_000 / self.examples)))",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "looking may take all the time",
        "tasks/fine_tuning_fit.py",
        "_LOOKING * tokens / max(1.0, _FORWARD * read)",
        "tokens / max(1.0, _FORWARD * read)",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "how many updates there are says nothing of how much is read",
        "tasks/fine_tuning_fit.py",
        "asked.steps and asked.steps * each",
        "0",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "who says when training ends has no clock",
        "tasks/fine_tuning_fit.py",
        "done = time if slow else whole",
        "done = whole",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "batches that nobody gave are as large as the default",
        "tasks/translation/fitting.py",
        "training.accumulate * _batch(training)",
        "training.accumulate * training.batch_tokens",
        (FITTING,),
    ),
    Mutant(
        "several GPUs are one",
        "tasks/fitting.py",
        "_GPU * processes if gpu",
        "_GPU if gpu",
        (FITTING,),
    ),
    Mutant(
        "what is chosen goes before what was given",
        "runs/fitted.py",
        ".items() if left_open(recipe, key)}",
        ".items()}",
        (FITTED,),
    ),
    Mutant(
        "threads that a recipe asks for count for nothing",
        "runs/fitted.py",
        "config.threads or torch.get_num_threads()",
        "torch.get_num_threads()",
        (FITTED,),
    ),
    Mutant(
        "what is given as its default was not given",
        "recipes/load.py",
        "and name not in found.model_fields_set",
        "and getattr(found, name) == type(found).model_fields[name].default",
        (FITTED, STORED),
    ),
    Mutant(
        "a nought that was fitted is forgotten",
        "recipes/load.py",
        "(kept := _at(stored, path)) is not None:",
        "(kept := _at(stored, path)):",
        (LABELLED_FITTING,),
    ),
    Mutant(
        "a run of which nothing was trained means what an older one meant",
        "recipes/load.py",
        "if begun and _left_open(recipe, path)}",
        "if _left_open(recipe, path)}",
        (STORED,),
    ),
    Mutant(
        "two words are the same backwards",
        "models/bag.py",
        "(number * _FACTOR + ids.narrow(1, place, windows))",
        "((number + ids.narrow(1, place, windows)) * _FACTOR)",
        (BAGS,),
    ),
    Mutant(
        "padding of a text is among its n-grams",
        "models/bag.py",
        "rare = torch.where(ends < lineup.counts.unsqueeze(1), rare, 0.0)",
        "rare = torch.where(ends <= lineup.counts.unsqueeze(1), rare, 0.0)",
        (BAGS,),
    ),
    Mutant(
        "a word that a text repeats is more common",
        "models/bag.py",
        "having = torch.bincount(column, minlength=size)",
        "having = torch.bincount(torch.cat(columns), minlength=size)",
        (BAGS,),
    ),
    Mutant(
        "a token that a text of a pair repeats is more common",
        "models/pair_encoder.py",
        "seen = torch.unique(row * len(having) + tokens.ids[there]) % len(having)",
        "seen = tokens.ids[there]",
        ("tests/reference/test_pair_encoder.py",),
    ),
    Mutant(
        "the begin and the ends of a pair are in common",
        "models/pair_encoder.py",
        "        rarity[list(silent)] = 0.0\n",
        "",
        ("tests/reference/test_pair_encoder.py",),
    ),
    Mutant(
        "the n-grams of the second text are looked for in itself",
        "models/pair_encoder.py",
        "(_shares(weights_too) * common.amax(1)).sum(1)",
        "(_shares(weights_too) * common.amax(1).clamp(min=1)).sum(1)",
        ("tests/reference/test_pair_encoder.py",),
    ),
    Mutant(
        "both texts of a pair look at the first",
        "models/pair_encoder.py",
        "self._aligned(self.second_looks, second, first)",
        "self._aligned(self.second_looks, second, second)",
        ("tests/reference/test_pair_encoder.py",),
    ),
    Mutant(
        "what was counted of pairs learns",
        "models/pair_encoder.py",
        "counted.requires_grad_(False)",
        "counted.requires_grad_(True)",
        ("tests/reference/test_pair_encoder.py",),
    ),
    Mutant(
        "a window ends at its token",
        "models/windows.py",
        "(0, 0, 0, self.width - 1)",
        "(0, 0, self.width - 1, 0)",
        (WINDOWS,),
    ),
    Mutant(
        "windows find things behind the end of a text",
        "models/windows.py",
        "strongest = lineup.blank(found).amax(1)",
        "strongest = found.amax(1)",
        (WINDOWS,),
    ),
    Mutant(
        "the clock starts again at each update",
        "training/schedules.py",
        "1 + int(spent * self.TICKS)",
        "step + int(spent * self.TICKS)",
        (SCHEDULES,),
    ),
    Mutant(
        "a clock that ends training first is not heard",
        "training/schedules.py",
        '''falls evenly; where time runs faster than updates, with the time."""
        step = max(step, int(spent * self.steps))''',
        '''falls evenly; where time runs faster than updates, with the time."""
        step = max(step, 0)''',
        (SCHEDULES,),
    ),
    Mutant(
        "a warm-up beside the clock is over at once",
        "training/schedules.py",
        "return rising * self.schedule.rate(",
        "return self.schedule.rate(",
        (SCHEDULES,),
    ),
    Mutant(
        "an empty label is a number",
        "data/forms/columns.py",
        "numbers = (number_in(value) for value in self.counts)",
        "numbers = (float(value) for value in self.counts)",
        (GLANCES,),
    ),
    Mutant(
        "names above numbers are no header",
        "data/forms/columns.py",
        "any(cell and column.numeric > 0.95 for",
        "any(cell and column.numeric < 0.05 for",
        (GLANCES,),
    ),
    Mutant(
        "what gives most columns separates them",
        "data/forms/glance.py",
        "worth = (sizes.count(width) / len(sizes), width)",
        "worth = (width, sizes.count(width) / len(sizes))",
        (GLANCES,),
    ),
    Mutant(
        "lines are counted anew in each block",
        "data/forms/glance.py",
        "number += len(whole)",
        "number = 1 + len(whole)",
        (GLANCES,),
    ),
    Mutant(
        "a folder's name goes before a file's",
        "data/forms/naming.py",
        "_part(name) or _part(path.parent.name.lower())",
        "_part(path.parent.name.lower()) or _part(name)",
        (NAMES,),
    ),
    Mutant(
        "a Chinese text has few tokens",
        "data/forms/faults.py",
        "return wide + max(words",
        "return max(words",
        (FAULTS,),
    ),
    Mutant(
        "what repeats itself in a sample is all there is",
        "data/forms/faults.py",
        "again = round(sum(known) / self._whole.share)",
        "again = round(sum(known))",
        (FAULTS,),
    ),
    Mutant(
        "one doubled quote is worth a word",
        "data/forms/faults.py",
        '            if count and count >= least * whole:\n                yield Remark(f"{counted',
        '            if count:\n                yield Remark(f"{counted',
        (FAULTS,),
    ),
    Mutant(
        "parts that are measured on may share texts",
        "data/forms/faults.py",
        "if earlier != part and mark in places",
        'if part == "train" and mark in places',
        (FAULTS,),
    ),
    Mutant(
        "what comes first is in a part, however often it comes",
        "data/forms/sketch.py",
        "if count <= room:",
        "if count <= room or room == wanted:",
        (SPLITS,),
    ),
    Mutant(
        "where a coarse key does not split, it counts all the same",
        "data/forms/sketch.py",
        "fingerprint(keys[self._level])",
        "fingerprint(keys[0])",
        (SPLITS,),
    ),
    Mutant(
        "a given validation does not keep training whole",
        "data/forms/split.py",
        'if missing and "test" not in found.files:',
        'if "test" not in found.files:',
        (NEW,),
    ),
    Mutant(
        "a recipe is checked by its training data alone",
        "recipes/draft.py",
        'for part in ("train", "validation", "test"):\n        if getattr',
        'for part in ("train",):\n        if getattr',
        (DRAFTS,),
    ),
    Mutant(
        "the end of a line in a file's name ends a comment",
        "recipes/draft.py",
        'plain = "".join(letter if letter.isprintable() else " " for letter in line)',
        'plain = "".join(line)',
        (DRAFTS,),
    ),
    Mutant(
        "what is less probable is proposed",
        "recipes/proposals.py",
        "each.certainty > found[name].found.certainty",
        "each.certainty < found[name].found.certainty",
        (DRAFTS,),
    ),
    Mutant(
        "every other proposal is told",
        "recipes/proposals.py",
        "if each.found.certainty >= _WORTH)]",
        "if each.found.certainty >= 0)]",
        (DRAFTS,),
    ),
    Mutant(
        "of several steps of a number one counts",
        "inspection/attribution.py",
        "sums[axis].index_add_(0, torch.tensor(numbers, device=each.device), each * share.to(each).unsqueeze(1))",
        "sums[axis][numbers] += each * share.to(each).unsqueeze(1)",
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
        "torch.where((positions >= 0).unsqueeze(-1), leaf.gather(1, known), summands.words)",
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
        "of a long text the last part is looked at",
        "tasks/translation/face.py",
        "self.inspect(parts[0].sentence, asked.target",
        "self.inspect(parts[-1].sentence, asked.target",
        (INSPECT,),
    ),
)

ENGINES = (
    Mutant(
        "bytes: vectors share the scale of their batch",
        "engines/products.py",
        "x.abs().amax(-1, keepdim=True)",
        "x.abs().amax().view(1, 1)",
        (f"{PRODUCTS}::test_what_comes_of_a_vector_depends_on_no_other",),
    ),
    Mutant(
        "bytes: a vector of zeros is divided by zero",
        "engines/products.py",
        "keepdim=True).clamp_(min=_TINY)\n        product = ",
        "keepdim=True)\n        product = ",
        (f"{PRODUCTS}::test_it_is_near_the_exact_product_and_of_zeros_it_is_the_bias",),
    ),
    Mutant(
        "bytes: a kernel that overflows is used",
        "engines/products.py",
        "return bool(torch.allclose(found, expected, rtol=1e-5, atol=1e-2))",
        "return bool(found.isfinite().all())",
        (f"{PRODUCTS}::test_a_kernel_that_overflows_is_none",),
    ),
    Mutant(
        "bytes: oneDNN's vectors are off by one step",
        "engines/products.py",
        "round_().add_(LEVELS + 1).to(torch.uint8)",
        "round_().add_(LEVELS).to(torch.uint8)",
        (
            f"{PRODUCTS}::test_a_kernel_makes_the_sums_that_whole_numbers_make",
            f"{PRODUCTS}::test_where_products_of_bytes_are_fast_they_are_right",
        ),
    ),
    Mutant(
        "bytes: the fastest kernel is looked for in every call",
        "engines/products.py",
        "found = self._fastest[place] = min(",
        "found = min(",
        (f"{PRODUCTS}::test_the_fastest_kernel_is_looked_for_once_for_each_shape_and_number_of_vectors",),
    ),
    Mutant(
        "bytes: PyTorch's own kernels are changed for everybody",
        "engines/products.py",
        "            torch.backends.quantized.engine = before\n",
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
        "made.get(id(module.weight)) or made.setdefault(id(module.weight), Bytes.of(module.weight))",
        "made.get(id(module.weight)) or Bytes.of(module.weight)",
        (f"{INT8}::test_tied_weights_are_one_matrix_and_a_module_in_two_places_stays_one",),
    ),
    Mutant(
        "bytes: a module in two places becomes two",
        "engines/int8.py",
        "        if id(module) not in replaced:\n",
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
        "            made[id(module.weight)] = matrix\n",
        "            pass\n",
        (f"{INT8}::test_what_is_stored_is_taken_instead_of_rounding_again",),
    ),
    Mutant(
        "bytes: recurrent cells go on with PyTorch's kernels",
        "engines/int8.py",
        "            module.by_kernel = False\n",
        "            module.by_kernel = True\n",
        (
            f"{INT8}::test_cells_whose_vectors_are_rounded_advance_step_by_step",
            f"{LAWS}::test_chunk_law[language-gru-int8]",
        ),
    ),
    Mutant(
        "bytes: a cell from right to left advances from left to right",
        "blocks/recurrent.py",
        "range(real.size(1))[:: -1 if backward else 1]",
        "range(real.size(1))",
        (f"{INT8}::test_cells_whose_vectors_are_rounded_advance_step_by_step",),
    ),
    Mutant(
        "bytes: padding advances a cell",
        "blocks/recurrent.py",
        "state = keep_where(there, cell.advance(projected[:, t], state), state)",
        "state = cell.advance(projected[:, t], state)",
        (f"{INT8}::test_cells_whose_vectors_are_rounded_advance_step_by_step",),
    ),
    Mutant(
        "bytes: stored ones become floating-point numbers",
        "engines/arrange.py",
        'engine or ("int8" if rounded and device.type == "cpu" else "torch")',
        'engine or "torch"',
        (f"{ARRANGE}::test_stored_bytes_stay_bytes_unless_floating_point_is_asked_for",),
    ),
    Mutant(
        "bytes: stored ones need not fit",
        "engines/arrange.py",
        "otherwise={each: matrix.rows for each, matrix in kept.items()}",
        "otherwise={each: dict(model.named_parameters())[each] for each in kept}",
        (f"{ARRANGE}::test_stored_bytes_stay_bytes_unless_floating_point_is_asked_for",),
    ),
    Mutant(
        "bytes: floats are made of them to be arranged",
        "engines/columns.py",
        "if type(child) is not nn.Linear or",
        "if not isinstance(child, nn.Linear) or",
        ("tests/unit/cli/test_quantize.py",),
    ),
    Mutant(
        "bytes: auto takes what is slower",
        "engines/arrange.py",
        'bytes_ if share < _CLEARLY[bytes_] else "torch"',
        '"torch" if share < _CLEARLY[bytes_] else bytes_',
        (f"{ARRANGE}::test_auto_takes_what_is_faster_and_says_so",),
    ),
    Mutant(
        "bytes: learn on",
        "runs/prepare.py",
        "    elif is_for_use(folder):\n",
        "    elif is_for_use(folder) and not folder:\n",
        ("tests/unit/cli/test_quantize.py::test_bytes_do_not_learn",),
    ),
    Mutant(
        "a model that is filled from a file draws random numbers first",
        "models/initialisation.py",
        "    with _Unfilled():\n        yield\n",
        "    yield\n",
        (f"{ARRANGE}::test_a_model_that_is_filled_at_once_draws_no_random_numbers",),
    ),
)

ADAPTED = (
    Mutant(
        "adapters: dropout is behind A",
        "adapters/lora.py",
        "self.up(self.down(self.dropout(x)))",
        "self.up(self.dropout(self.down(x)))",
        (f"{ADAPTERS}::test_dropout_is_of_what_the_change_reads",),
    ),
    Mutant(
        "adapters: values change the rows of keys",
        "adapters/lora.py",
        'slice(-len(up), None) if meant["part"] == _BELOW else slice(len(up))',
        "slice(len(up))",
        (f"{ADAPTERS}::test_complete_weights_compute_what_the_adapted_model_does",),
    ),
    Mutant(
        "adapters: one that is put on changes its base",
        "adapters/lora.py",
        "base[weight].detach().clone()",
        "base[weight].detach()",
        (f"{ADAPTERS}::test_complete_weights_compute_what_the_adapted_model_does",),
    ),
    Mutant(
        "adapters: bottlenecks are cut at 2 instead of two deviations",
        "adapters/bottleneck.py",
        "a=-2 * _DEVIATION, b=2 * _DEVIATION",
        "a=-2, b=2",
        (f"{ADAPTERS}::test_bottlenecks_begin_with_normal_weights_cut_at_two_deviations",),
    ),
    Mutant(
        "adapters: native code leaves bottlenecks out",
        "engines/native/plan.py",
        " and around.behind is None",
        "",
        (f"{ADAPTERS}::test_native_code_is_given_no_stack_with_bottlenecks",),
    ),
    Mutant(
        "adapters: checkpoints hold the base too",
        "training/precision.py",
        "for name, parameter in every.items() if name not in still}",
        "for name, parameter in every.items()}",
        (f"{ADAPTED_RUNS}::test_a_checkpoint_holds_the_adapter_and_the_head_alone",),
    ),
    Mutant(
        "adapters: any weights are a base",
        "runs/adapted.py",
        "if base_digest(place) == base.sha256]",
        "]",
        (f"{ADAPTED_RUNS}::test_the_base_must_be_there_and_what_it_was",),
    ),
    Mutant(
        "adapters: PEFT's matrices have our order of dimensions",
        "foreign/peft.py",
        "return arrangement is READS_SINES_FIRST",
        "return arrangement is WRITES_SINES_FIRST",
        (f"{PEFT}::test_transformers_computes_the_same_with_the_adapter_on",),
    ),
)

NATIVE = (
    Mutant(
        "native: two continuations write to one place",
        "engines/native/state.py",
        "self.space.claim(begin, end):",
        "(self.space.claim(begin, end) or end <= self.space.size):",
        (f"{STACK}::test_continuations_of_one_state_and_copies_do_not_disturb_each_other",),
    ),
    Mutant(
        "native: joined rows look at the sentences of others",
        "engines/native/state.py",
        "of.append(rows.int() + begin)",
        "of.append(rows.int())",
        (f"{STACK}::test_a_joined_state_keeps_no_sentence_that_nobody_looks_at_and_no_key_that_is_gone",),
    ),
    Mutant(
        "native: a joined state keeps what nobody needs",
        "engines/native/state.py",
        "indices[:, self.read - most :]",
        "indices",
        (f"{STACK}::test_a_joined_state_keeps_no_sentence_that_nobody_looks_at_and_no_key_that_is_gone",),
    ),
    Mutant(
        "native: whoever listens hears nothing",
        "engines/native/stack.py",
        "anybody_reads() or any(part._forward_hooks for part in self._parts)",
        "anybody_reads()",
        (f"{STACK}::test_whoever_looks_inside_sees_what_the_modules_do",),
    ),
    Mutant(
        "native: no gradient where it began without",
        "engines/native/stack.py",
        "        if torch.is_grad_enabled() or anybody_reads():\n            plan",
        "        if anybody_reads():\n            plan",
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
        "native: strides go beyond the longest context",
        "generation/window.py",
        "min(bounds.steps, self.longest - int(state.counts.amax()))",
        "bounds.steps",
        (f"{STEPS}::test_strides_are_steps",),
    ),
    Mutant(
        "native: strides where somebody is asked between tokens",
        "generation/columns.py",
        "asked = request.until is not never or not manner.free",
        "asked = not manner.free",
        (f"{STEPS}::test_strides_are_for_plain_greedy_search_alone",),
    ),
    Mutant(
        "native: strides forget where the answer begins",
        "models/decoder_only.py",
        "self.decoder.stride(self.output, _moved(tokens, state.first), state.inner",
        "self.decoder.stride(self.output, tokens, state.inner",
        (f"{STEPS}::test_strides_are_steps",),
    ),
    Mutant(
        "native: log-probabilities are those after penalties",
        "generation/beam.py",
        "offsets, of=(logits, own))\n        candidates",
        "offsets, of=(changed, own))\n        candidates",
        (f"{STEPS}::test_hypotheses_are_the_same",),
    ),
    Mutant(
        "native: any library will do",
        "native.py",
        "if found.INTERFACE != _INTERFACE:",
        "if not found.INTERFACE == found.INTERFACE:",
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
        "tasks/translation/sieve.py",
        "not score >= least",
        "not score > least",
        (SIEVE,),
    ),
    Mutant(
        "filter: a share is rounded down", "tasks/translation/sieve.py", "ceil(bar.share", "int(bar.share", (SIEVE,)
    ),
    Mutant(
        "filter: examples are the first ones",
        "tasks/translation/sieve.py",
        "seen[number] * _SHOWN >= len(shown[number]) * counts[number] and ",
        "",
        (SIEVE,),
    ),
    Mutant(
        "filter: what models say of no pair is their worst",
        "tasks/translation/sieve.py",
        "unread if isnan(score) else low",
        "low",
        (SIEVE,),
    ),
    Mutant(
        "filter: models need not agree",
        "tasks/translation/agreement.py",
        "abs(entropies[0] - entropies[1]) + sum(entropies) / 2",
        "sum(entropies) / 2",
        (SIEVE,),
    ),
    Mutant(
        "filter: the model back is asked for the way there",
        "tasks/translation/agreement.py",
        "backward.score([turned[place]",
        "backward.score([pairs[place]",
        (SIEVE,),
    ),
    Mutant(
        "filter: languages are exchanged",
        "data/forms/rules.py",
        "side(text) == 1 - side:",
        "side(text) == side:",
        (RULES,),
    ),
    Mutant(
        "filter: repeated numbers count once",
        "data/forms/rules.py",
        "return sorted(_NO_DIGIT",
        "return set(_NO_DIGIT",
        (RULES,),
    ),
    Mutant(
        "filter: every language is as long as the other",
        "data/forms/rules.py",
        "usual=self._balance.usual)",
        "usual=0)",
        (RULES,),
    ),
    Mutant("filter: the median lies too low", "data/forms/pairing.py", "if seen > half:", "if seen >= half:", (RULES,)),
    Mutant(
        "filter: a rule that is skipped is asked",
        "cli/filter.py",
        "left_out = {*given.skip, *(",
        "left_out = {*(",
        (FILTER,),
    ),
    Mutant(
        "filter: what is rejected stays",
        "cli/filter.py",
        "                saver.add(example.raw)\n            elif",
        "                saver.add(example.raw)\n            saver.add(example.raw)\n            if",
        (FILTER,),
    ),
    Mutant("backtranslate: chance begins anew", "cli/backtranslate.py", "first=done + 1)", "first=1)", (BACK,)),
    Mutant("backtranslate: a torn line stays", "cli/backtranslate.py", "        file.truncate()\n", "", (BACK,)),
    Mutant(
        "backtranslate: another tag is gone on with",
        "cli/backtranslate.py",
        ' or not line.startswith((tag, b"\\t"))',
        "",
        (BACK,),
    ),
    Mutant(
        "split: parts have the usual sizes",
        "data/forms/split.py",
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
        "data/descent.py",
        "return [self._inside.get(letters, ids[0]), *ids[1:]] if letters else ids[1:]",
        "return ids",
        (DESCENT,),
    ),
    Mutant(
        "every epoch rehearses the same examples",
        "data/mixing.py",
        "first, last = epoch * take, (epoch + 1) * take",
        "first, last = 0, take",
        (MIXING,),
    ),
    Mutant(
        "what is rehearsed is a share of the new text alone",
        "tasks/translation/recipe.py",
        "whole = sum(own) / (1 - self.rehearse.share) * self.rehearse.share",
        "whole = sum(own) * self.rehearse.share",
        (SEVERAL,),
    ),
    Mutant(
        "the table of the target descends from that of the source",
        "runs/relearned.py",
        "descents[file].carried(",
        "descents[files[0]].carried(",
        (BEGUN_ANEW,),
    ),
    Mutant(
        "rehearsed text that has moved is another text",
        "runs/prepare.py",
        "for key in data.tables(part)",
        "for key in (part,)",
        (MOVED,),
    ),
)

IN_DOCUMENTS = (
    Mutant(
        "documents: another name is the same document",
        "data/context.py",
        "(ended or pair.document != name)",
        "ended",
        (CONTEXT,),
    ),
    Mutant(
        "documents: an empty line ends none",
        "data/context.py",
        "            seen.append(line)\n        else:\n            seen.clear()",
        "            seen.append(line)",
        (CONTEXT,),
    ),
    Mutant(
        "documents: the nearest is cut",
        "data/context.py",
        "*ids[cut:]",
        "*ids[: len(ids) - cut]",
        (CONTEXT,),
    ),
    Mutant(
        "documents: what a sentence follows stands before its tags",
        "data/context.py",
        "[*own.ids[:first], *ids[cut:], *own.ids[first:]]",
        "[*ids[cut:], *own.ids]",
        (CONTEXT,),
    ),
    Mutant(
        "documents: what is not translated is not followed",
        "data/context.py",
        "        if pair.source:\n            seen.append(pair.source)",
        "        if pair.target:\n            seen.append(pair.source)",
        (CONTEXT,),
    ),
    Mutant(
        "documents: a sentence is left out for what it follows",
        "data/corpus.py",
        "Encoded(ids), before, longest=max_length - 1)",
        "Encoded(ids), before, longest=max_length)",
        (CONTEXT,),
    ),
    Mutant(
        "documents: links count words before the sentence",
        "data/links.py",
        "led_numbers(tokenizer, pair.source, list(read)[:-1])",
        "word_numbers(tokenizer, pair.source)",
        (CONTEXT,),
    ),
    Mutant(
        "documents: they go on in the next file",
        "data/composed.py",
        "_OfFile(each, str(number)) for",
        "each for",
        (CONTEXT,),
    ),
    Mutant(
        "documents: lengths count what a sentence follows",
        "tasks/translation/face.py",
        "tokens = len(self._reads.own_places(part.read)) + 1",
        "tokens = len(part.read) + 1",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: alignments begin with what a sentence follows",
        "tasks/translation/face.py",
        "rows, columns = slice(len(target) + 1), [*own, len(source)]",
        "rows, columns = slice(len(target) + 1), slice(len(own) + 1)",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: parts follow what the sentence follows",
        "tasks/translation/source.py",
        "readable(seen[at], seen[max(0, at - self.context) : at])",
        "readable(seen[at], before(sentence))",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: more is read than was learned of",
        "tasks/translation/source.py",
        "lead[-self.context :]",
        "lead",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: a model reads what the measured run reads",
        "tasks/translation/exam.py",
        "zip(in_context(self._all, sentences=sentences), self._real, strict=True)",
        "zip(self._all, self._real, strict=True)",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: each sentence is one",
        "tasks/translation/exam.py",
        "if 1 < len(joined[0]) < self.size:",
        "if 1 < len(joined[0]):",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: files are followed by their gaps alone",
        "tasks/translation/filling.py",
        "_before(possible, document.units",
        "_before(asked, document.units",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: sentences of a segment do not follow each other",
        "tasks/translation/protecting.py",
        "if (text := protect(frame.core).text).strip():",
        "if number < len(earlier) and (text := protect(frame.core).text).strip():",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: what is encoded stays for another context",
        "tasks/translation/recipe.py",
        "*self.languages, *context]",
        "*self.languages]",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: lines stand by themselves",
        "tasks/translation/translations.py",
        "yield replace(sentence, before=before(found))",
        "yield sentence",
        (IN_ORDER,),
    ),
    Mutant(
        "documents: back-translation forgets where they end",
        "cli/backtranslate.py",
        '"" if not line.strip() else line for line in read_lines(given.text))\n    return (each',
        "line for line in read_lines(given.text) if line.strip())\n    return (each",
        (IN_ORDER,),
    ),
)

TAGGED = (
    Mutant(
        "what is turned back keeps its sides",
        "data/composed.py",
        "each._replace(source=each.target, target=each.source, links=links)",
        "each._replace(links=links)",
        (SEVERAL,),
    ),
    Mutant(
        "tags are read where they were learned, and not asked for",
        "tasks/translation/face.py",
        "other.source = self.source.opened(tags)",
        "other.source = self.source",
        (SEVERAL,),
    ),
    Mutant(
        "answers of several directions come in the order of the directions",
        "tasks/translation/directions.py",
        "found.update(zip(places, answers, strict=True))",
        "found.update(zip(range(len(found), len(found) + len(places)), answers, strict=True))",
        (SEVERAL,),
    ),
    Mutant(
        "temperature makes large texts larger",
        "recipes/directed.py",
        "count ** (1 / table.temperature)",
        "count**table.temperature",
        (SEVERAL,),
    ),
    Mutant(
        "every source has a tag for the first language",
        "recipes/directed.py",
        "tags = [*([language_tag(target)] if asked",
        "tags = [*([language_tag(self.target_language or target)] if asked",
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
        "localisation/po.py",
        "entry, current = _Entry(start + len(line)), None",
        "entry, current = entry, None",
        ("tests/unit/localisation/test_po.py",),
    ),
    Mutant(
        "a subtitle's number needs an empty line before it",
        "localisation/srt.py",
        "alone = place == times - 1 or place",
        "alone = place",
        ("tests/unit/localisation/test_srt.py",),
    ),
    Mutant(
        "times that are broken are translated",
        "localisation/srt.py",
        "if broken is not None:",
        "if False:",
        ("tests/unit/localisation/test_srt.py",),
    ),
    Mutant(
        "a space stands beside the end of a line",
        "localisation/projection.py",
        "if left is None or _is_break(left) or _is_break(right):",
        "if left is None:",
        (PROTECTION,),
    ),
    Mutant(
        "a message of several forms ends where its line does",
        "localisation/placeholder_rules.py",
        "return MESSAGE, self._unquoted.get(brace) or self._closing.get(brace) or len(self._text)",
        'return MESSAGE, (self._text + "\\n").index("\\n", brace)',
        (PROTECTION,),
    ),
    Mutant(
        "the forms of a message are translated with its key words",
        "tasks/translation/protecting.py",
        """    if has_forms(segment):
        return Outcome(None, Way.FORMS)
""",
        "",
        (PROTECTING,),
    ),
    Mutant(
        "what no rule knows is not counted",
        "tasks/translation/protecting.py",
        "lacking(segment, target), tuple(unchecked(segment))",
        "lacking(segment, target)",
        (PROTECTING,),
    ),
    Mutant(
        "an accelerator goes before any letter, wherever in a word",
        "localisation/placeholders.py",
        'for pattern in (rf"\\b{wanted}", wanted,',
        "for pattern in (wanted,",
        (PROTECTION,),
    ),
    Mutant(
        "codes of text files are taken for encodings of documents",
        "localisation/encodings.py",
        "if encoding not in _OF_DOCUMENTS:",
        "if not encoding:",
        (DOCUMENTS,),
    ),
    Mutant(
        "a document type ends in its comments",
        "localisation/tags.py",
        r"(?:\[(?:<!--.*?-->|<\?.*?\?>|<!(?:[^>\"']|\"[^\"]*\"|'[^']*')*+>|[^\]<])*+\]\s*)?>",
        r"(?:\[.*?\]\s*)?>",
        (DOCUMENTS,),
    ),
    Mutant(
        "pairs are read however deep they are",
        "localisation/segments.py",
        "if len(self._levels) >= DEEPEST:",
        "if False:",
        ("tests/unit/localisation/test_segments.py",),
    ),
    Mutant(
        "a placeholder that a model makes up passes for kept",
        "localisation/protection.py",
        "if lacking(source, target) or any(name != NUMBER for name, _ in strange):",
        "if lacking(source, target):",
        (PROTECTION,),
    ),
    Mutant(
        "pairs of tags are put around each other's words",
        "localisation/projection.py",
        "if any(one < stop and start < other for one, other in taken if one < other):",
        "if False:",
        (PROTECTION,),
    ),
    Mutant(
        "entities of a file's own are expanded",
        "localisation/tags.py",
        "    parser.EntityDeclHandler = refuse\n",
        "",
        (DOCUMENTS,),
    ),
    Mutant(
        "a group that is not to be translated is",
        "localisation/xliff.py",
        '(place.unit.inherited("translate") or "yes")',
        '(place.unit.get("translate") or "yes")',
        (UNITS,),
    ),
    Mutant(
        "a part whose end was not read is written as the whole",
        "tasks/translation/protecting.py",
        "strict=True) if not found.cut}",
        "strict=True)}",
        (PROTECTING,),
    ),
)

LETTERS = (
    Mutant(
        "office: runs that differ in their language alone are a pair of codes",
        "localisation/docx.py",
        'frozenset(["lang", "noProof", "rPrChange"])',
        'frozenset(["noProof", "rPrChange"])',
        (OFFICE,),
    ),
    Mutant(
        "office: copies of text boxes for older programs are translated",
        "localisation/docx.py",
        'frozenset(("Fallback", "del", "moveFrom"))',
        'frozenset(("del", "moveFrom"))',
        (OFFICE,),
    ),
    Mutant(
        "office: results of all fields are text",
        "localisation/docx.py",
        "words[0].upper() in _FOLLOWED and ",
        "",
        (OFFICE,),
    ),
    Mutant(
        "office: text of a pair is written with the usual look",
        "localisation/docx.py",
        "looks.append(raw)",
        "looks.append(looks[0])",
        (OFFICE,),
    ),
    Mutant(
        "office: a paragraph loses what was filled inside of it",
        "localisation/office.py",
        "parts += [self.content.text[start : edit.start], edit.text]",
        "parts += [self.content.text[start : edit.stop]]",
        (OFFICE,),
    ),
    Mutant(
        "office: what was deleted is translated",
        "localisation/odf.py",
        '"tracked-changes", "deletion"',
        '"nothing"',
        (OFFICE,),
    ),
    Mutant(
        "office: styles that say who wrote what are looks",
        "localisation/odf.py",
        '_EMPTY.sub("", _INVISIBLE.sub("", text[style.inside : style.inside_stop]))',
        '_EMPTY.sub("", text[style.inside : style.inside_stop])',
        (OFFICE,),
    ),
    Mutant(
        "office: what unpacks to more than is read is unpacked",
        "localisation/archives.py",
        "if sum(member.file_size for member in members) > MOST_BYTES:",
        "if False:",
        (OFFICE,),
    ),
)

COLUMNS = (
    Mutant(
        "parquet: rows are counted anew in each piece",
        "data/parquet.py",
        "                for source, target, *document in zip(",
        "                number = 0\n                for source, target, *document in zip(",
        (PARQUET,),
    ),
    Mutant(
        "parquet: what is no text is read",
        "data/parquet.py",
        "if not _is_text(kinds[0]):",
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
        "data/forms/parquet.py",
        "names = tuple(columns or shapes[0].texts)",
        "names = tuple(name for name in shapes[0].texts if not columns or name in columns)",
        (PARQUET,),
    ),
    Mutant(
        "parquet: a file is read whole",
        "data/parquet.py",
        "file.iter_batches(_ROWS, columns=names)",
        "file.read(columns=names).to_batches()",
        (PARQUET,),
    ),
)

COUNTED_RIGHT = (
    Mutant(
        "accuracy: a word of a translation counts for several terms",
        "tasks/translation/accuracy.py",
        "if left[term] and not any(here.start < other.stop and other.start < here.stop for other in taken):",
        "if left[term]:",
        (ACCURACY,),
    ),
    Mutant(
        "accuracy: short terms are counted first",
        "tasks/translation/accuracy.py",
        "sorted(left, key=len, reverse=True)",
        "sorted(left, key=len)",
        (ACCURACY,),
    ),
    Mutant(
        "accuracy: one of the wrong texts may be more probable",
        "tasks/translation/accuracy.py",
        "return all(right.log_probability",
        "return any(right.log_probability",
        (ACCURACY,),
    ),
    Mutant(
        "accuracy: rounding tells apart what is cut into the same pieces",
        "tasks/translation/accuracy.py",
        " and right.tokens != each.tokens",
        "",
        (ACCURACY,),
    ),
    Mutant(
        "accuracy: contrasts that were not read count as wrong",
        "tasks/translation/accuracy.py",
        "read = np.array([answer is not None for",
        "read = np.array([True for",
        (ACCURACY,),
    ),
    Mutant(
        "accuracy: contrasts get the scores of their neighbours",
        "tasks/translation/exam.py",
        "islice(scores, 1 + len(each.wrong))",
        "islice(scores, 2)",
        (ACCURACY_TOLD,),
    ),
    Mutant(
        "accuracy: tags do not stand before the sources of contrasts",
        "cli/options.py",
        "Contrasts(self.contrasts, self.text.direction.before)",
        "Contrasts(self.contrasts)",
        (ACCURACY_TOLD,),
    ),
    Mutant(
        "accuracy: references are counted in the place of translations",
        "tasks/translation/exam.py",
        "**self._listed(answers.texts)",
        "**self._listed(self.references)",
        (ACCURACY_TOLD,),
    ),
    Mutant(
        "numerals: a number counts for two of the source",
        "metrics/numerals.py",
        "            del there[match]\n",
        "",
        (NUMERALS,),
    ),
    Mutant(
        "numerals: a fraction may be three digits of a whole number behind a nought",
        "metrics/numerals.py",
        '        and not runs[0].startswith("0")\n',
        "",
        (NUMERALS,),
    ),
    Mutant(
        "numerals: any run of digits joins the one before it",
        "metrics/numerals.py",
        "and len(runs[-1]) == 3",
        "and len(runs[-1]) >= 2",
        (NUMERALS,),
    ),
)
DETACHED = (
    Mutant(
        "detached: long sources look more scattered than short ones",
        "tasks/translation/detachment.py",
        " / np.log(weights.shape[1]))",
        ")",
        (DETACHMENT,),
    ),
    Mutant(
        "detached: rows that do not sum to 1 count more",
        "tasks/translation/detachment.py",
        "shares = shares / np.maximum(shares.sum(1, keepdims=True), np.finfo(np.float64).tiny)",
        "pass",
        (DETACHMENT,),
    ),
    Mutant(
        "detached: a model is doubted where it is surer",
        "tasks/translation/confidence.py",
        "certainty(found) < self.least",
        "certainty(found) > self.least",
        (DETACHMENT,),
    ),
    Mutant(
        "detached: the end of what is rare is the other one",
        "tasks/translation/calibrated.py",
        "np.quantile(mine, 1 - _RARE)",
        "np.quantile(mine, _RARE)",
        (SIGNED,),
    ),
    Mutant(
        "detached: translations are read beside their own sources",
        "tasks/translation/calibrated.py",
        "read[at - step][0].candidates[0]",
        "part.candidates[0]",
        (SIGNED,),
    ),
    Mutant(
        "detached: sentences without words take the attention of the next one",
        "tasks/translation/face.py",
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
        "tasks/translation/least_risk.py",
        "candidates=chosen, doubts=())",
        "candidates=chosen)",
        ("tests/unit/tasks/test_least_risk.py",),
    ),
)
JUDGED = (
    Mutant(
        "judges: the candidate is read before its reference",
        "foreign/judges.py",
        "sides = zip(references, candidates, strict=True)",
        "sides = zip(candidates, references, strict=True)",
        (JUDGES_OF_OTHERS,),
    ),
    Mutant(
        "judges: tokens that are cut are counted, not sentences",
        "foreign/judges.py",
        "sum(row.cut > 0 for row in rows)",
        "sum(row.cut for row in rows)",
        (JUDGES,),
    ),
    Mutant(
        "judges: a shorter length of the tokenizer counts for nothing",
        "foreign/judges.py",
        "return int(min(told, opened.longest))",
        "return opened.longest",
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
        "tasks/translation/exam.py",
        "([*map(fold, side)] for side in (self.sources, texts, self.references))",
        "([*side] for side in (self.sources, texts, self.references))",
        (JUDGED_EXAM,),
    ),
    Mutant(
        "judges: pairs that are left out have the scores of the next ones",
        "tasks/translation/exam.py",
        "return [next(scores) if real else None for real in self._real]",
        "return [*scores]",
        (JUDGED_EXAM,),
    ),
    Mutant(
        "judges: what they say is rounded as percents are",
        "tasks/translation/report.py",
        "return _FINE if name in self._judged else self.digits",
        "return self.digits",
        (JUDGED_TOLD,),
    ),
    Mutant(
        "judges: what they say is not tested",
        "tasks/translation/report.py",
        '"TER", *_RATES, *self._judged)',
        '"TER", *_RATES)',
        (JUDGED_TOLD,),
    ),
)

WORTH_READING = (
    Mutant(
        "likeness: short and long sources weigh the same",
        "data/nearest.py",
        "_K1 * (1 - _B + _B * longer)",
        "_K1",
        (NEAREST,),
    ),
    Mutant(
        "likeness: the order of words tells nothing",
        "data/nearest.py",
        "_LONGEST: Final = 3",
        "_LONGEST: Final = 1",
        (NEAREST,),
    ),
    Mutant(
        "likeness: the same pair comes again",
        "data/nearest.py",
        "if all(new.pair[:2] != each.pair[:2] for each in self.found):",
        "if True:",
        (NEAREST,),
    ),
    Mutant(
        "worse and better than sure are exchanged",
        "tasks/translation/cases.py",
        '"worse than sure": -surprise - _SURPRISING',
        '"worse than sure": surprise - _SURPRISING',
        (ERROR_PAGE,),
    ),
    Mutant(
        "what is right is shown among the worst",
        "tasks/translation/cases.py",
        "for row in order if much[row] > 0]",
        "for row in order]",
        (ERROR_PAGE,),
    ),
    Mutant(
        "the words that a translation lacks are marked where it has them",
        "tasks/translation/error_page.py",
        'if how != "equal":',
        'if how == "equal":',
        (ERROR_PAGE,),
    ),
    Mutant(
        "alignments are given to the next sentence",
        "tasks/translation/exam.py",
        "tuple(islice(aligned, len(own))),",
        "tuple(islice(aligned, 1, 1 + len(own))),",
        (ERROR_PAGE,),
    ),
    Mutant(
        "chrF++: marks stay at the ends of words",
        "metrics/counted.py",
        "if len(word) > 1 and word[-1] in punctuation:",
        "if False:",
        (BOOTSTRAP_COUNTS,),
    ),
)

REMEMBERED = (
    Mutant(
        "memory: translations of another region are finished",
        "localisation/memory.py",
        "takeable = (number for number in numbers if self._all[number].takeable)",
        "takeable = numbers",
        (MEMORY,),
    ),
    Mutant(
        "memory: files of another region count as those of the same",
        "tasks/translation/remembering.py",
        "own is None or asked is None or is_same_variety(own, asked)",
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
        "localisation/memory.py",
        "            if left < needed:",
        "            if left <= needed:",
        (MEMORY,),
    ),
    Mutant(
        "memory: rapidfuzz leaves out what is just like enough",
        "localisation/memory.py",
        "score_cutoff=max(0.0, self._least - _ROUNDED)",
        "score_cutoff=max(0.0, self._least - _SLACK)",
        (MEMORY,),
    ),
    Mutant(
        "memory: a translation without a placeholder is taken",
        "localisation/memory.py",
        "            if kept(segment, target):",
        "            if True:",
        (MEMORY,),
    ),
    Mutant(
        "memory: what is rare among translations is taken",
        "localisation/memory.py",
        "return sorted(takeable, key=self._worth.__getitem__, reverse=True)",
        "return sorted(takeable, key=self._worth.__getitem__)",
        (MEMORY,),
    ),
    Mutant(
        "memory: markup counts for nothing where texts are compared",
        "localisation/memory.py",
        "else (part.raw,) for part",
        "else (part.role,) for part",
        (MEMORY,),
    ),
    Mutant(
        "memory: the accelerator of another text is kept",
        "localisation/memory.py",
        "_spaced(without_accelerator(self._all[number].target)[0], like=segment)",
        "_spaced(self._all[number].target, like=segment)",
        (MEMORY,),
    ),
    Mutant(
        "memory: letters do not decide",
        "localisation/memory.py",
        "key=lambda each: (by_letters(text, self._texts[each]), self._worth[each])",
        "key=lambda each: self._worth[each]",
        (MEMORY,),
    ),
    Mutant(
        "memory: a message of which a machine made one form counts as finished",
        "localisation/po.py",
        "if number not in matches or matches[number].taken is None:",
        "if not any(each.taken for each in matches.values()):",
        (MEMORY,),
    ),
    Mutant(
        "memory: all candidates are those of the first segment",
        "localisation/xliff.py",
        """said = f'ref="#{name}" similarity""",
        """said = f'ref="#{own[0][0].unit.get("id")}" similarity""",
        (MEMORY,),
    ),
    Mutant(
        "memory: answers of the model go to the sentences before theirs",
        "tasks/translation/remembering.py",
        "asked = [each for each, match in zip(inputs, matches, strict=True) if not _is_taken(match)]",
        "asked = list(inputs)",
        (MEMORY_COMMAND,),
    ),
    Mutant(
        "memory: what is taken is translated too",
        "tasks/translation/filling.py",
        "chunked((number for number in asked if number not in targets), _AT_ONCE)",
        "chunked(asked, _AT_ONCE)",
        (MEMORY_COMMAND,),
    ),
    Mutant(
        "memory: of a TMX with two languages the wrong one is read",
        "tasks/translation/remembering.py",
        "(others[0] if target else None), target or",
        "(there[0] if target else None), target or",
        (MEMORY_COMMAND,),
    ),
    Mutant(
        "memory: a file of another language is taken",
        "tasks/translation/remembering.py",
        "and not agree(own, asked):",
        "and agree(own, asked):",
        (MEMORY_COMMAND,),
    ),
    Mutant(
        "a file's own language goes before the one that was asked for",
        "cli/directions.py",
        "if to is None and document is not None and user.languages:",
        "if document is not None and user.languages:",
        (MEMORY_COMMAND,),
    ),
)

CONSTRAINED = (
    Mutant(
        "bans: what is forbidden makes the rest more probable",
        "generation/beam.py",
        "    changed = manner.allowed(changed, history)",
        "    changed = manner.allowed(changed, history)\n    totals = normalisers(changed)",
        (f"{BANS}::test_no_n_gram_comes_twice",),
    ),
    Mutant(
        "bans: a text may end in a forbidden word",
        "generation/bans.py",
        "row[self._eos] = _NEVER",
        "pass",
        (f"{BANS}::test_forbidden_words_come_in_no_cutting_and_everything_else_may",),
    ),
    Mutant(
        "terms: a hypothesis ends before it holds all",
        "generation/terms.py",
        "if token != self.eos or states[beam].complete",
        "if True",
        (f"{TERMS}::test_equals_the_longhand_search",),
    ),
    Mutant(
        "terms: a longer word holds a term",
        "generation/terms.py",
        "met = self.met if token in joined else self.written",
        "met = self.written",
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
        "generation/beam.py",
        "totals=candidates.totals + taken.gather(1, candidates.ids)",
        "totals=candidates.totals",
        (GROUPS,),
    ),
    Mutant(
        "groups: hypotheses that have ended count as tokens taken",
        "generation/groups.py",
        "(chosen.totals > -math.inf) & ~chosen.ends & ~before.done.unsqueeze(1)",
        "chosen.totals.isfinite() | True",
        (GROUPS,),
    ),
    Mutant(
        "groups: a group takes its continuations by the model's order",
        "generation/groups.py",
        "found.ends & (torch.arange(2 * width, device=found.ends.device) < width)",
        "found.ends",
        (GROUPS,),
    ),
    Mutant(
        "groups: texts of several groups come several times",
        "generation/groups.py",
        "scores.masked_fill(again, -math.inf)",
        "scores",
        (GROUPS,),
    ),
    Mutant(
        "groups: beams of all groups go on from those of the first",
        "generation/groups.py",
        "chosen.beams + number * group.width",
        "chosen.beams",
        (GROUPS,),
    ),
    Mutant(
        "groups: bans of one group overwrite what the others are given",
        "generation/groups.py",
        "logits if number == len(groups) - 1 else logits.clone()",
        "logits",
        (GROUPS,),
    ),
    Mutant(
        "coverage: what got more than one token's attention counts more",
        "generation/coverage.py",
        ".clamp(_LEAST, 1)",
        ".clamp(_LEAST)",
        (COVERAGE,),
    ),
    Mutant(
        "coverage: what was cut goes before what ended",
        "generation/coverage.py",
        "(not each.finished, -score, place)",
        "(-score, place)",
        (COVERAGE,),
    ),
    Mutant(
        "coverage: the beam holds no more than is told",
        "tasks/searches.py",
        "Covering(_found(config, tokenizer, n_best=max(width, n_best), seed=seed), beta, n_best)",
        "Covering(_found(config, tokenizer, n_best=n_best, seed=seed), beta, n_best)",
        (WEIGHED,),
    ),
    Mutant(
        "ranked anew, the model stands where it stood",
        "generation/hypotheses.py",
        "rows = [first + place for",
        "rows = [first for",
        (COVERAGE,),
    ),
    Mutant(
        "rerank: the language model never sees an end",
        "cli/rerank.py",
        "writer.surprise(texts, ended=True,",
        "writer.surprise(texts, ended=False,",
        (RERANK,),
    ),
    Mutant(
        "rerank: the reverse model is asked for the way there",
        "tasks/translation/channel.py",
        "(each.text, own.source) for own in translations for each in own.candidates))",
        "(own.source, each.text) for own in translations for each in own.candidates))",
        (RERANK,),
    ),
    Mutant(
        "rerank: usual weights go before those of a file",
        "cli/rerank.py",
        "USUAL if given.weights is None else read_weights(given.weights)",
        "USUAL",
        (RERANK,),
    ),
    Mutant(
        "tuning: what is told of other text is measured on the same half",
        "tasks/translation/tuning.py",
        "(halves[1 - at], lists.ascended(free, half))",
        "(half, lists.ascended(free, half))",
        (TUNING,),
    ),
    Mutant(
        "tuning: weights stay where they began",
        "tasks/translation/tuning.py",
        "                    weights, value = tried[values.argmax()], float(values.max())",
        "                    value = float(values.max())",
        (TUNING,),
    ),
)

LINKS = "tests/unit/data/test_links.py"
GUIDANCE = "tests/unit/tasks/test_guidance.py"
GUIDED = "tests/unit/cli/test_guided.py"

ALIGNED = (
    Mutant(
        "links: a number beyond the words is none",
        "data/links.py",
        "if number >= count:",
        "if number > count:",
        (LINKS,),
    ),
    Mutant(
        "links: those of a pair that is dropped go to the next",
        "data/links.py",
        "return (*sides, np.array([*found, *ends]))",
        "return (*sides, np.array([*found, *ends]) if read and written else np.empty((0, 2)))",
        (LINKS,),
    ),
    Mutant("links: spaces are parts of words", "data/links.py", "numbers.append(-1)", "numbers.append(word)", (LINKS,)),
    Mutant(
        "links: labels share what other rows have",
        "data/links.py",
        "np.unique(np.stack([row, target]), axis=1,",
        "np.unique(np.stack([target]), axis=1,",
        (LINKS,),
    ),
    Mutant(
        "links: a label has as many shares as links",
        "data/links.py",
        "shares = (1 / counts[label.reshape(-1)])",
        "shares = (0 * counts[label.reshape(-1)] + 1)",
        (LINKS,),
    ),
    Mutant(
        "guidance: the first layer is guided",
        "tasks/translation/guidance.py",
        "layer = len(found) - 1 if config.layer is None",
        "layer = 0 if config.layer is None",
        (GUIDANCE,),
    ),
    Mutant(
        "guidance: no gradient",
        "tasks/translation/guidance.py",
        "watch(model, detach=False, only={guided.path})",
        "watch(model, only={guided.path})",
        (GUIDANCE,),
    ),
    Mutant(
        "guidance: a chance of nothing has no logarithm",
        "tasks/translation/guidance.py",
        ".float().clamp_min(_LEAST)",
        ".float()",
        (GUIDANCE,),
    ),
    Mutant(
        "guidance: links are asked of the mean of heads",
        "tasks/translation/face.py",
        "_told(calls[guided.path], guided.head)",
        "_told(calls[guided.path], None)",
        (GUIDED,),
    ),
    Mutant(
        "guidance: links of pieces take places in batches",
        "tasks/translation/run.py",
        'Counted(examples="sentences", side="target")',
        'Counted(examples="sentences")',
        (GUIDED,),
    ),
)
ANNOTATION = "tests/unit/tasks/test_annotation.py"
ANNOTATE = "tests/unit/cli/test_annotate.py"

ANNOTATED = (
    Mutant(
        "annotation: the target need not have the term",
        "tasks/translation/annotation.py",
        "if has(target, self.glossary.entries[each[1]])",
        "if True",
        (ANNOTATION,),
    ),
    Mutant(
        "annotation: a mark that stands there already is no matter",
        "tasks/translation/annotation.py",
        "if not places or any(mark in text for mark in (marks.begin, marks.between, marks.end)):",
        "if not places:",
        (ANNOTATION,),
    ),
    Mutant(
        "annotation: endings may be as long as they like",
        "tasks/translation/annotation.py",
        "stem >= _STEM and longer - stem <= _ENDING",
        "stem >= _STEM",
        (ANNOTATION,),
    ),
    Mutant(
        "annotation: accents count",
        "tasks/translation/annotation.py",
        "if not unicodedata.combining(letter)",
        "if True",
        (ANNOTATION,),
    ),
    Mutant(
        "annotation: letters that make no spaces are not looked for",
        "tasks/translation/annotation.py",
        "yield from (range(at, at + len(term)) for at in occurrences(lowered(term), lowered(text)))",
        "yield from ()",
        (ANNOTATION,),
    ),
    Mutant(
        "annotation: terms come in the order of their lengths",
        "tasks/translation/glossary.py",
        "return sorted(self._chosen(sentence))",
        "return list(self._chosen(sentence))",
        (ANNOTATION,),
    ),
    Mutant(
        "annotation: all pairs draw alike",
        "cli/annotate.py",
        "Chance(given.seed, _STREAM, pairs)",
        "Chance(given.seed, _STREAM)",
        (ANNOTATE,),
    ),
    Mutant(
        "annotation: a vocabulary that lacks marks will do",
        "cli/translated.py",
        "Marks().require_known(translator.source)",
        "Marks()",
        (ANNOTATE,),
    ),
    Mutant(
        "annotation: terms are forced as well",
        "cli/translated.py",
        "constraints=(*always, *sentence.constraints))\n        found",
        "constraints=(*always, *sentence.constraints, *glossary.terms(sentence.text)))\n        found",
        (ANNOTATE,),
    ),
)
LOOSE_ENDS = (
    Mutant(
        "loose: reverse model is not told its language",
        "cli/rerank.py",
        "reverse = several.towards(given.source_language)",
        "reverse = several.towards(several.languages[0] if several.languages else None)",
        (f"{SEVERAL}::test_one_run_translates_and_judges",),
    ),
    Mutant(
        "loose: who reranks ignores --to",
        "cli/rerank.py",
        'translator = given.direction.of(given.computing.load(Translator, *given.runs, use="translates"))',
        'translator = given.computing.load(Translator, *given.runs, use="translates")',
        (f"{SEVERAL}::test_one_run_translates_and_judges",),
    ),
    Mutant(
        "loose: a model of one language is asked for one",
        "tasks/translation/directions.py",
        "own if translator.languages else _without_languages(own)",
        "own",
        (f"{SEVERAL}::test_one_of_one_language_is_measured_beside_one_of_several",),
    ),
    Mutant(
        "loose: a model of one language forgets all tags",
        "tasks/translation/directions.py",
        "tag for tag in tags if not _LANGUAGE.fullmatch(tag)",
        "tag for tag in tags if False",
        (f"{SEVERAL}::test_one_of_one_language_is_measured_beside_one_of_several",),
    ),
    Mutant(
        "loose: annotated terms are torn",
        "tasks/translation/source.py",
        "parts(text_of(sentence), self._fits, whole=Marks().annotated)",
        "parts(text_of(sentence), self._fits)",
        (ANNOTATE,),
    ),
    Mutant(
        "loose: parts of parts are torn",
        "data/parts.py",
        "parts(text[start:stop], fits, whole=whole)",
        "parts(text[start:stop], fits)",
        (PARTS,),
    ),
    Mutant(
        "loose: the border of what is whole is no seam",
        "data/parts.py",
        "range(found.start() + 1, found.end())",
        "range(found.start(), found.end())",
        (PARTS,),
    ),
    Mutant(
        "loose: groups grow from the first group's beams",
        "generation/tree.py",
        "self._live.get(growth.group, [0])",
        "self._live.get(0, [0])",
        (TREE,),
    ),
    Mutant(
        "loose: beams of a group are in the order of its choice",
        "generation/tree.py",
        "sorted(live, key=lambda number: -self.nodes[number].total)",
        "live",
        (TREE,),
    ),
    Mutant(
        "loose: the page says that it reads once",
        "data/nearest.py",
        "tick(pairs + number, 2 * pairs)",
        "tick(number, pairs)",
        ("tests/unit/cli/test_evaluate.py::test_a_page_tells_how_far_it_is",),
    ),
)
ALSO = "tests/unit/cli/test_also.py"
BESIDE = (
    Mutant(
        "new --also: a translation that is held out is learned from beside another source",
        "recipes/beside.py",
        "for side, text in enumerate(texts) if text.strip())",
        "for side, text in enumerate(texts[:1]) if text.strip())",
        (f"{ALSO}::test_what_is_held_out_is_left_out_of_the_other_text",),
    ),
    Mutant(
        "new --also: parts that there are already may be learned from",
        "recipes/beside.py",
        'if part != "train" or (split',
        'if part == "train" and (split',
        (f"{ALSO}::test_parts_that_there_are_are_held_out_too",),
    ),
    Mutant(
        "new --also: a text keeps its own direction",
        "recipes/beside.py",
        "return found.turned(), ()",
        "return found, ()",
        (
            f"{ALSO}::test_every_form_is_taken_in_the_direction_of_the_main_text",
            f"{ALSO}::test_the_other_direction",
        ),
    ),
    Mutant(
        "new: the languages are exchanged in the recipe",
        "recipes/beside.py",
        "zip(_SIDES, found.direction, strict=True)",
        "zip(_SIDES, found.direction[::-1], strict=True)",
        ("tests/unit/cli/test_new.py::test_the_recipe_says_the_languages",),
    ),
    Mutant(
        "new: two varieties of one language are no direction",
        "data/forms/parallel.py",
        "tags[0] != tags[1] else None",
        "self.languages[0] != self.languages[1] else None",
        ("tests/unit/cli/test_new.py::test_the_recipe_says_the_languages",),
    ),
    Mutant(
        "new: a single letter is a sign of a language",
        "data/forms/languages.py",
        "for word in words if len(word) > 1) for words in own]",
        "for word in words) for words in own]",
        ("tests/unit/data/test_languages.py::test_single_letters_are_no_signs",),
    ),
    Mutant(
        "new: words that mislead are signs of a language",
        "data/forms/languages.py",
        "sum(not self._misleads(word) for word in words & self._words[side])",
        "len(words & self._words[side])",
        ("tests/unit/data/test_languages.py::test_words_beside_those_of_the_other_language_are_no_signs",),
    ),
    Mutant(
        "new: a word counts as often as it is said",
        "data/forms/languages.py",
        "sum(not self._misleads(word) for word in words & self._words[side])",
        "sum(word in self._words[side] and not self._misleads(word) for word in _WORD.findall(text.lower()))",
        ("tests/unit/data/test_languages.py::test_one_word_said_often_is_one_sign",),
    ),
    Mutant(
        "new: forms of Unicode make classes that look alike, without a word",
        "data/forms/faults.py",
        'unicodedata.normalize("NFKC", plain).casefold()',
        "plain.casefold()",
        ("tests/unit/cli/test_new.py::test_classes_that_differ_in_writing_are_told",),
    ),
    Mutant(
        "new: one class is enough",
        "data/forms/faults.py",
        "if len(given) == 1 and self._balanced:",
        "if not given and self._balanced:",
        ("tests/unit/cli/test_new.py::test_one_class_everywhere_is_told",),
    ),
    Mutant(
        "labels: a percentage is read as a hundred times its share",
        "data/written_numbers.py",
        "value /= 100",
        "value /= 1",
        (
            "tests/unit/cli/test_new.py::test_numbers_are_read_as_people_write_them",
            "tests/unit/cli/test_new.py::test_one_number_everywhere_is_told",
        ),
    ),
    Mutant(
        "csv: the line that names the separator is a row",
        "data/labelled.py",
        "kept = lines if skipped else chain([first], lines)",
        "kept = chain([first], lines)",
        ("tests/unit/cli/test_new.py::test_a_first_line_that_names_the_separator_is_no_header",),
    ),
    Mutant(
        "csv: fields are as long as the module wants them",
        "data/labelled.py",
        "csv.field_size_limit(_LONGEST_FIELD)",
        "csv.field_size_limit(131_072)",
        ("tests/unit/cli/test_new.py::test_fields_of_csv_are_of_any_length",),
    ),
    Mutant(
        "new: words that a text begins with are taken for labels",
        "data/forms/glance.py",
        "and all(_CLASS_FIRST.fullmatch(label) for label in counts)",
        "",
        ("tests/unit/cli/test_new.py::test_other_texts_are_not_taken_for_labelled_ones",),
    ),
    Mutant(
        "pretraining: padding counts as right verdicts",
        "tasks/pretraining/objectives.py",
        '"right": ((said == replaced) & real).sum(),',
        '"right": (said == replaced).sum(),',
        ("tests/unit/tasks/test_pretraining.py::test_padding_is_no_verdict",),
    ),
    Mutant(
        "language models: ends of lines are counted once a document",
        "tasks/language/exam.py",
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
        'normalization_rule_name="identity" if composes else rules(lowercase=lowercase),',
        "normalization_rule_name=rules(lowercase=lowercase),",
        ("tests/unit/data/test_tokenizers.py::test_what_is_written_keeps_its_own_marks",),
    ),
    Mutant(
        "tokenizers: sources of a shared vocabulary keep marks that look like others",
        "data/tokenizers.py",
        "other.compatible = True",
        "other.compatible = False",
        ("tests/unit/data/test_tokenizers.py::test_sources_of_a_shared_vocabulary_are_read_alike",),
    ),
    Mutant(
        "translation: the source side forgets its form when a run is loaded",
        "tasks/translation/run.py",
        "source.for_sources() if source is target and target.composes else source",
        "source",
        ("tests/unit/tasks/test_translation.py::test_translations_keep_their_marks_and_sources_are_read_alike",),
    ),
    Mutant(
        "metrics: TER's case flag is exchanged",
        "metrics/counted.py",
        "metric = TER(case_sensitive=not self.lowercase)",
        "metric = TER(case_sensitive=self.lowercase)",
        ("tests/unit/metrics/test_translation.py::test_edit_rates_leave_case_aside_where_they_are_asked",),
    ),
    Mutant(
        "metrics: Chinese is cut as Japanese is",
        "metrics/translation.py",
        "if 10 * kana <= han + kana:",
        "if 10 * kana > han + kana:",
        (
            "tests/unit/metrics/test_translation.py::test_words_are_cut_as_the_language_of_references_wants",
            "tests/unit/metrics/test_translation.py::test_bleu_of_chinese_counts_words",
        ),
    ),
    Mutant(
        "new: folders do not say languages",
        "data/forms/parallel.py",
        "(folder if apart else guessed(",
        "(guessed(",
        ("tests/unit/cli/test_new.py::test_the_recipe_says_the_languages",),
    ),
    Mutant(
        "new --also: regions make languages that nobody asked for",
        "recipes/beside.py",
        "said[0] if len(said) == 1 else wider[0]",
        "said[0]",
        (f"{ALSO}::test_the_other_direction",),
    ),
)

LEAST_RISK = "tests/unit/tasks/test_least_risk.py"
WEIGHED = "tests/unit/cli/test_weighed.py"
RISKED = (
    Mutant(
        "risk of a beam: what was found counts alike",
        "tasks/least_risk.py",
        "None if isinstance(self.search, Sampling) else [each.log_probability for each in hypotheses]",
        "None",
        (f"{WEIGHED}::test_risk_of_a_beam_is_among_what_it_holds",),
    ),
    Mutant(
        "risk of a beam: penalties of the search count",
        "tasks/translation/least_risk.py",
        "[each.log_probability for each in translation.candidates]",
        "[each.score for each in translation.candidates]",
        (f"{LEAST_RISK}::test_one_that_is_far_more_probable_than_all_others_is_the_answer",),
    ),
    Mutant(
        "risk of a beam: samples count by their probability, too",
        "tasks/least_risk.py",
        "None if isinstance(self.search, Sampling) else [each.log",
        "[each.log",
        ("tests/unit/cli/test_mbr.py::test_it_chooses_among_samples",),
    ),
    Mutant(
        "risk of a beam: small probabilities are nothing",
        "tasks/least_risk.py",
        "np.exp(np.array(log_probabilities) - max(log_probabilities))",
        "np.exp(np.array(log_probabilities))",
        (f"{LEAST_RISK}::test_what_a_beam_found_counts_by_its_probability",),
    ),
    Mutant(
        "risk of a beam: equal texts count as the last of them",
        "tasks/least_risk.py",
        "counted.get(text, 0.0) + share",
        "share",
        (f"{LEAST_RISK}::test_what_a_beam_found_counts_by_its_probability",),
    ),
)

THEIR_LANGUAGES = "tests/unit/cli/test_languages_of_others.py"
OTHERS_ASKED = (
    Mutant(
        "languages of others: a sentence that asks by itself is asked for a language",
        "tasks/translation/source.py",
        "and not opened and not own:",
        "and not opened:",
        (f"{THEIR_LANGUAGES}::test_a_language_is_asked_for_as_a_text_asks",),
    ),
    Mutant(
        "languages of others: two languages are asked for at once",
        "tasks/translation/source.py",
        "        if opened and own:\n",
        "        if False:\n",
        (f"{THEIR_LANGUAGES}::test_on_a_command_line",),
    ),
    Mutant(
        "languages of others: who goes on with one language is asked for it",
        "tasks/translation/run.py",
        "source = source.untold()",
        "pass",
        (f"{THEIR_LANGUAGES}::test_who_goes_on_may_ask_or_have_it_forgotten",),
    ),
    Mutant(
        "languages of others: a run forgets that it is asked",
        "data/tokenizer_files.py",
        'asks=bool(record.get("asks"))',
        "asks=False",
        (f"{THEIR_LANGUAGES}::test_a_vocabulary_keeps_whether_it_is_asked",),
    ),
)

PROTECTED_TERMS = (
    Mutant(
        "annotated: terms stand in a line before it is protected",
        "cli/translated.py",
        "sentences if given.protect else map(",
        "map(",
        (f"{ANNOTATE}::test_protected_lines_are_annotated_once_as_files_are",),
    ),
    Mutant(
        "annotated: what is protected has no terms",
        "cli/translated.py",
        "sentences = [add(Sentence(text_of(each), before=before(each))) for each in texts]",
        "sentences = [Sentence(text_of(each), before=before(each)) for each in texts]",
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
        "data/forms/parallel.py",
        "if example is None or not example.texts[0].strip():",
        "if example is None or not own[:-1] or not own[-2].texts[0].strip():",
        (f"{WHOLE_DOCUMENTS}::test_two_files_keep_their_documents",),
    ),
    Mutant(
        "whole documents: empty lines are pairs of a part",
        "data/forms/split.py",
        "counts[goal] += not found.parts_documents(example)",
        "counts[goal] += 1",
        (f"{WHOLE_DOCUMENTS}::test_two_files_keep_their_documents",),
    ),
    Mutant(
        "whole documents: pairs of a table go by their sources",
        "data/forms/parallel.py",
        "(*document[:1],) or (source,)",
        "(source,)",
        (f"{WHOLE_DOCUMENTS}::test_tables_name_their_documents",),
    ),
)

IDENTIFIED = (
    Mutant(
        "identified: runs of one length are not told from those of another",
        "data/identification.py",
        "run = (run[: len(behind)] + behind + np.uint64(1)) * _MULTIPLIER",
        "run = (run[: len(behind)] * np.uint64(0) + behind + np.uint64(1)) * _MULTIPLIER",
        (IDENTIFICATION,),
    ),
    Mutant(
        "identified: languages keep the order in which they came, and a file gives them in another",
        "data/identification.py",
        "names = sorted(known)",
        "names = list(known)",
        (IDENTIFICATION,),
    ),
    Mutant(
        "identified: runs of a letter count as often as there are lengths",
        "data/identification.py",
        "scores = self._logarithms[:, runs].sum(1, dtype=np.float64) / _LONGEST",
        "scores = self._logarithms[:, runs].sum(1, dtype=np.float64)",
        (IDENTIFICATION,),
    ),
    Mutant(
        "identified: digits count",
        "data/identification.py",
        're.compile(r"[\\W\\d_]+")',
        're.compile(r"[\\W_]+")',
        (IDENTIFICATION,),
    ),
    Mutant(
        "identified: a target is of the source's language",
        "tasks/translation/identified.py",
        "yield direction.target, pair.target",
        "yield direction.source, pair.target",
        (IDENTIFY,),
    ),
    Mutant(
        "identified: only the first text is known",
        "tasks/translation/run.py",
        "for direction, pairs in recipe.data.spoken])",
        "for direction, pairs in recipe.data.spoken[:1]])",
        (IDENTIFY,),
    ),
    Mutant(
        "identified: a run that goes on knows nothing",
        "tasks/translation/run.py",
        "return _vocabularies(source, target, {}, _profiles(recipe))",
        "return _vocabularies(source, target, {}, None)",
        (IDENTIFY,),
    ),
)
CLIENTS_OPENAI = "tests/unit/serving/test_clients_openai.py"
TOKENS_OPENAI = "tests/unit/serving/test_openai_tokens.py"
ASKED_AS_OPENAI = (
    Mutant(
        "OpenAI: each request without a seed has the same chance",
        "serving/openai/completions.py",
        "first=way.first, until=self.over",
        "first=0, until=self.over",
        (f"{CLIENTS_OPENAI}::test_a_seed_is_a_text_and_no_seed_is_any",),
    ),
    Mutant(
        "OpenAI: the prompts of a stream have one chance",
        "serving/openai/completions.py",
        "number=way.first + self._index",
        "number=way.first",
        (f"{CLIENTS_OPENAI}::test_a_stream_tells_tokens_and_prompts_as_the_whole_does",),
    ),
    Mutant(
        "OpenAI: a stream tells tokens before their text is certain",
        "serving/openai/completions.py",
        "[each for each in waiting if each.start < shown])",
        "waiting)",
        (f"{CLIENTS_OPENAI}::test_tokens_that_may_begin_a_stop_string_wait",),
    ),
    Mutant(
        "OpenAI: tokens of a stop string are told",
        "serving/openai/completions.py",
        "written if each.stop is None else (entry for entry in written if entry.start < end)",
        "written",
        (f"{CLIENTS_OPENAI}::test_tokens_end_where_a_stop_string_ends_the_text",),
    ),
    Mutant(
        "OpenAI: places of tokens are counted without the prompt",
        "serving/openai/tokens.py",
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
        "serving/openai/events.py",
        'end="data: [DONE]\\n\\n"',
        'end=""',
        ("tests/unit/serving/test_openai.py::test_events_are_lines_of_json_and_an_end",),
    ),
    Mutant(
        "a bias stays for the next token",
        "generation/frequencies.py",
        "return logits.index_add(",
        "return logits.index_add_(",
        ("tests/unit/generation/test_frequencies.py::test_a_bias_forbids_and_forces",),
    ),
    Mutant(
        "a document that is read as it comes always begins anew",
        "tasks/language/expected.py",
        "self._last, self._count = piece[-1], self._count + len(piece)",
        "self._last, self._count = piece[-1], 0",
        ("tests/unit/tasks/test_expected.py::test_a_document_may_be_read_as_it_comes",),
    ),
)
RUNNING = "tests/unit/generation/test_running.py"
GATHERING = "tests/unit/serving/test_gathering.py"
IN_COMPANY = (
    Mutant(
        "running: what ended early hides what lives and is better",
        "generation/party.py",
        "front.ended.masked_fill(worse, -math.inf)",
        "front.ended",
        (f"{RUNNING}::test_what_ended_early_and_is_worse_hides_nothing",),
    ),
    Mutant(
        "running: a step is kept at another place",
        "generation/party.py",
        "            whole[rows, steps] = step",
        "            whole[rows, steps.amax()] = step",
        (f"{RUNNING}::test_company_changes_nothing",),
    ),
    Mutant(
        "running: parties become one whatever their rows hold",
        "generation/party.py",
        "    free = manner.free and isinstance(manner.stop, AtToken)",
        "    free = True",
        (f"{RUNNING}::test_company_changes_nothing",),
    ),
    Mutant(
        "running: the newest stand behind another party",
        "generation/running.py",
        "        if behind < whole:",
        "        if behind > whole:",
        (f"{RUNNING}::test_company_changes_nothing",),
    ),
    Mutant(
        "running: who has left goes on",
        "generation/running.py",
        "        self._drop(worth=_WORTH_DROPPING)",
        "        self._drop(worth=2.0)",
        (f"{RUNNING}::test_rows_are_shared", f"{RUNNING}::test_it_does_not_grow"),
    ),
    Mutant(
        "running: samples of a sentence share their chance",
        "generation/party.py",
        "streams=live.streams + copy",
        "streams=live.streams",
        (f"{RUNNING}::test_company_changes_nothing",),
    ),
    Mutant(
        "running: who is told to end goes on",
        "generation/running.py",
        "        left = self._told()",
        "        left = []",
        (f"{RUNNING}::test_a_search_that_is_told_to_end_gives_what_it_has",),
    ),
    Mutant(
        "native: sentences that join one state share their room",
        "engines/native/state.py",
        "not self.space.claim(begin, begin + count)",
        "not (self.space.claim(begin, begin + count) or begin + count <= self.space.size)",
        (f"{STACK}::test_guests_of_one_state_do_not_disturb_each_other",),
    ),
    Mutant(
        "native: a memory that is longer is cut",
        "engines/native/state.py",
        "-(-max(slots, own) // _SLOTS) * _SLOTS",
        "max(own, min(slots, _SLOTS))",
        (f"{STACK}::test_a_state_whose_rows_come_and_go_stays_small",),
    ),
    Mutant(
        "native: columns are read where they no longer begin",
        "engines/native/stack.py",
        "numbers[:, :, self._begin :].data_ptr()",
        "numbers.data_ptr()",
        (f"{STACK}::test_a_state_whose_rows_come_and_go_stays_small",),
    ),
    Mutant(
        "native: columns that nobody has are kept",
        "engines/native/state.py",
        "table = self.table[:, min(int(kept[0]), self.read - columns) :]",
        "table = self.table",
        (f"{STACK}::test_a_state_whose_rows_come_and_go_stays_small",),
    ),
    Mutant(
        "native: a copy of pages holds their first columns",
        "engines/native/state.py",
        "self.numbers[:, :used, columns]",
        "self.numbers[:, :used, :read]",
        (f"{STACK}::test_a_state_whose_rows_come_and_go_stays_small",),
    ),
    Mutant(
        "native: what is gathered is read from the first columns",
        "engines/native/state.py",
        "slots.clamp(min=0), order + self.begin]",
        "slots.clamp(min=0), order]",
        (f"{STACK}::test_a_state_whose_rows_come_and_go_stays_small",),
    ),
    Mutant(
        "native: a copy of pages forgets whose rows are taken",
        "engines/native/state.py",
        "taken[:read], taken[read : read + newest] = told, rows",
        "taken[:read], taken[read : read + newest] = 0, 0",
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
        "            self.taken.take(slice(begin, end), rows)",
        "            self.taken.take(slice(begin, end), 0)",
        (f"{STACK}::test_guests_of_one_state_do_not_disturb_each_other",),
    ),
    Mutant(
        "faces: what several ask alike is answered one by one",
        "tasks/faces.py",
        "@final\n@dataclass(frozen=True)\nclass Saying(",
        "@final\n@dataclass(frozen=True, eq=False)\nclass Saying(",
        ("tests/unit/serving/test_uses.py::test_what_two_ask_alike_may_be_answered_together",),
    ),
    Mutant(
        "gathering: a term that ends stops nothing",
        "serving/gathering.py",
        "over = {waiting for waiting in self._all() if waiting.over}",
        "over = set[Waiting]()",
        (f"{GATHERING}::test_a_term_that_ends_stops_the_work_and_frees_the_place",),
    ),
    Mutant(
        "gathering: one's fault is everybody's",
        "serving/gathering.py",
        "        if len(callers) == 1:\n            places[0].waiting.failed(error)\n            return",
        "        for caller in callers.values():\n            caller.failed(error)\n        return",
        (f"{GATHERING}::test_what_is_asked_alike_is_answered_in_one_batch",),
    ),
    Mutant(
        "gathering: who asks for many goes before all others",
        "serving/gathering.py",
        "                growing.append(caller)",
        "                growing.appendleft(caller)",
        (f"{GATHERING}::test_many_short_questions_do_not_wait_for_a_long_one",),
    ),
    Mutant(
        "gathering: whoever asks no search that is shared gets what others asked",
        "serving/gathering.py",
        "if caller.lane is None and caller.waiting.questions.say == say]",
        "if caller.lane is None]",
        (f"{GATHERING}::test_only_what_is_asked_alike_is_answered_together",),
    ),
    Mutant(
        "gathering: a search of its own holds up all others",
        "serving/gathering.py",
        "            self._let_others()\n",
        "",
        (f"{GATHERING}::test_a_search_of_its_own_lets_others_have_their_turn",),
    ),
    Mutant(
        "gathering: who asks for a search of its own first has all turns",
        "serving/gathering.py",
        "        self._callers.append(first)\n",
        "        self._callers.appendleft(first)\n",
        (f"{GATHERING}::test_a_search_of_its_own_lets_others_have_their_turn",),
    ),
    Mutant(
        "gathering: pieces of wide beams are as many texts as those of narrow ones",
        "serving/gathering.py",
        "_APART * self._rows // say.search.rows",
        "_APART * self._rows",
        (f"{GATHERING}::test_a_search_of_its_own_lets_others_have_their_turn",),
    ),
    Mutant(
        "opening: the threads of the settings are left as they are",
        "serving/opening.py",
        "        torch.set_num_threads(settings.threads)",
        "        _ = torch",
        (f"{GATHERING}::test_the_threads_of_the_settings_are_those_that_compute",),
    ),
    Mutant(
        "keys: a file is known by its length",
        "serving/keys.py",
        "    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino",
        "    return (stat.st_size,)",
        ("tests/unit/serving/test_keys.py::test_a_file_of_equal_length_is_noticed",),
    ),
    Mutant(
        "rates: who asks often is forgotten first",
        "serving/rates.py",
        "self._buckets.pop(who, (float(self._minute), now))",
        "self._buckets.get(who, (float(self._minute), now))",
        ("tests/unit/serving/test_rates.py::test_who_asked_longest_ago_is_forgotten_first",),
    ),
    Mutant(
        "guard: a method that a path lacks gets the route of another",
        "serving/guard.py",
        'self.routes.get("GET" if method == "HEAD" else method)',
        'self.routes.get("GET" if method == "HEAD" else method, self.any)',
        ("tests/unit/serving/test_guard.py::test_each_method_has_its_own_route",),
    ),
    Mutant(
        "guard: the first path that fits is asked, whatever its methods",
        "serving/guard.py",
        "next((place for place in found if place.route(method)), found[0] if found else None)",
        "found[0] if found else None",
        ("tests/unit/serving/test_guard.py::test_each_method_has_its_own_route",),
    ),
    Mutant(
        "guard: bodies are not counted together",
        "serving/guard.py",
        "        receiving = partial(body.receive, receive)",
        "        receiving = receive",
        ("tests/unit/serving/test_bodies.py::test_unfinished_bodies_hold_no_more_than_the_server_grants",),
    ),
    Mutant(
        "bodies: the fastest loses its place",
        "serving/bodies.py",
        "        return min(late,",
        "        return max(late,",
        ("tests/unit/serving/test_bodies.py::test_the_slowest_body_loses_its_place",),
    ),
    Mutant(
        "bodies: what has arrived may lose its place",
        "serving/bodies.py",
        "            self._budget.complete(self)",
        "            pass",
        ("tests/unit/serving/test_bodies.py::test_what_has_arrived_keeps_its_place",),
    ),
    Mutant(
        "budget: small requests pass large ones that wait",
        "serving/budget.py",
        "            if self._used + size > self.capacity:\n                return",
        "            if self._used + size > self.capacity:\n                return self._waiting.rotate(-1)",
        ("tests/unit/serving/test_budget.py::test_who_waits_does_so_until_the_deadline_and_in_order",),
    ),
    Mutant(
        "budget: any number of requests decode at one time",
        "serving/budget.py",
        "            if self._used + size > self.capacity:",
        "            if size > self.capacity:",
        ("tests/unit/serving/test_budget.py::test_the_sum_of_what_is_reserved_is_bounded",),
    ),
    Mutant(
        "interruption: a deadline interrupts nothing",
        "serving/interruption.py",
        "        timer.start()",
        "        pass",
        ("tests/unit/serving/test_interruption.py::test_a_deadline_stops_it",),
    ),
    Mutant(
        "files: parsing is not interrupted",
        "serving/libretranslate/interface.py",
        "asked.house.files.run(asked.term, partial(interruptible, asked.term, parse))",
        "asked.house.files.run(asked.term, parse)",
        ("tests/unit/serving/test_libretranslate_files.py::test_parsing_ends_at_the_deadline",),
    ),
    Mutant(
        "files: any number of them are parsed or wait",
        "serving/libretranslate/interface.py",
        "file = await asked.house.files.run(asked.term, partial(interruptible, asked.term, parse))",
        "file = parse()",
        ("tests/unit/serving/test_libretranslate_files.py::test_files_wait_in_a_queue",),
    ),
    Mutant(
        "sent: pictures are decoded without a reservation",
        "serving/own/sent.py",
        'with asked.house.decoding.reserve(size, asked.term, name="image"):',
        "if size:",
        ("tests/unit/serving/test_perceiving.py::test_pictures_are_decoded_one_behind_the_other",),
    ),
    Mutant(
        "protocol: requests of any version are answered",
        "serving/protocol.py",
        '_VERSIONS: Final = ("1.0", "1.1")',
        '_VERSIONS: Final = ("0.9", "1.0", "1.1", "2.0")',
        ("tests/unit/serving/test_slow_clients.py::test_what_is_too_much_or_no_request",),
    ),
    Mutant(
        "protocol: a refusal has an id of its own",
        "serving/protocol.py",
        'return request_id(next(given, ""))',
        "return new_id()",
        ("tests/unit/serving/test_slow_clients.py::test_refusals_of_the_protocol_are_known_by_an_id",),
    ),
    Mutant(
        "processes: one that is stopped is left",
        "serving/apart/processes.py",
        "            self._process.kill()\n            self._process.join(_PARTING)",
        "            pass",
        ("tests/unit/serving/test_apart.py::test_they_end_with_the_server",),
    ),
    Mutant(
        "jsons: half characters are let in",
        "serving/jsons.py",
        '    if "\\\\u" in text:',
        "    if not text:",
        ("tests/unit/serving/test_jsons.py::test_what_is_refused",),
    ),
    Mutant(
        "openai: top_p 0 draws from nothing",
        "serving/openai/writing.py",
        "    if message.temperature == 0 or message.top_p == 0:",
        "    if message.temperature == 0:",
        ("tests/unit/serving/test_clients_openai.py",),
    ),
    Mutant(
        "gathering: a stream that is closed goes on",
        "serving/waiting.py",
        "            waiting.failed(Gone())",
        "            pass",
        (f"{GATHERING}::test_a_stream_that_is_closed_frees_its_place",),
    ),
    Mutant(
        "finding: translators of other tags share no search",
        "tasks/translation/finding.py",
        "    sources: Callable[[Sequence[Encoded]], Tokens] = field(compare=False)",
        "    sources: Callable[[Sequence[Encoded]], Tokens] = field()",
        ("tests/unit/tasks/test_finding.py::test_translators_of_two_languages_ask_alike",),
    ),
)


APART = "tests/unit/serving/test_apart.py"
IN_OTHER_PROCESSES = (
    Mutant(
        "apart: models are copied",
        "serving/apart/parts.py",
        "        place = self._parts.place(value)\n",
        "        place = None\n",
        (f"{APART}::test_what_a_model_is_made_of_is_named_and_all_else_is_copied",),
    ),
    Mutant(
        "apart: exceptions are made anew",
        "serving/apart/parts.py",
        "isinstance(value, BaseException) else",
        "False else",
        (f"{APART}::test_what_goes_wrong_there_is_told_here",),
    ),
    Mutant(
        "apart: who leaves is not told of",
        "serving/apart/processes.py",
        "        waiting.when_over(partial(self._leaving.put, (member, number)))",
        "        pass",
        (f"{APART}::test_a_stream_that_is_closed_and_one_whose_reader_leaves_stop_the_work",),
    ),
    Mutant(
        "apart: a stream that is closed goes on there",
        "serving/waiting.py",
        "        self._ended.append(tell)\n        self.term",
        "        self.term",
        (f"{APART}::test_a_stream_that_is_closed_and_one_whose_reader_leaves_stop_the_work",),
    ),
    Mutant(
        "apart: who leaves is heard of and goes on",
        "serving/apart/computing.py",
        "                    term.leave()",
        "                    pass",
        (f"{APART}::test_a_stream_that_is_closed_and_one_whose_reader_leaves_stop_the_work",),
    ),
    Mutant(
        "apart: all ask the first process",
        "serving/apart/processes.py",
        "min(ready, key=lambda each: each.load)",
        "ready[0]",
        (f"{APART}::test_those_that_have_least_to_do_are_asked",),
    ),
    Mutant(
        "apart: what a process was asked that ended waits on",
        "serving/apart/processes.py",
        "            lost = [*self._asked]",
        "            lost = list[int]()",
        (f"{APART}::test_one_that_ends_fails_its_own_and_begins_again",),
    ),
    Mutant(
        "apart: a process that has ended is asked on",
        "serving/apart/processes.py",
        "            self.is_ready = False\n            self._how",
        "            self._how",
        (f"{APART}::test_one_that_ends_fails_its_own_and_begins_again",),
    ),
    Mutant(
        "apart: a server without a process is healthy",
        "serving/house.py",
        "if not all(model.answering.is_ready for",
        "if not all(True for",
        (f"{APART}::test_where_all_have_ended_whoever_asks_is_told_to_come_again",),
    ),
    Mutant(
        "apart: auto is asked again in each process",
        "serving/apart/processes.py",
        'name: each.model_copy(update={"engine": engine_in(_modules(house, name))})',
        "name: each",
        (f"{APART}::test_they_compute_with_the_engines_that_are_here",),
    ),
    Mutant(
        "apart: what is done there is not counted",
        "serving/apart/processes.py",
        "                self._count(letter)",
        "                pass",
        (f"{APART}::test_what_computes_there_is_counted_here",),
    ),
    Mutant(
        "apart: nobody hears how texts grow",
        "serving/apart/computing.py",
        "heard if ask.heard else None",
        "None",
        (f"{APART}::test_texts_are_heard_while_they_grow",),
    ),
    Mutant(
        "apart: what goes wrong there is told without its place",
        "serving/apart/computing.py",
        "        if not isinstance(error, HeedfulError | Gone):",
        "        if False:",
        (f"{APART}::test_what_goes_wrong_there_is_told_here",),
    ),
    Mutant(
        "apart: a signal for all ends what still loads",
        "serving/apart/processes.py",
        "        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)",
        "        pass",
        (f"{APART}::test_signals_for_the_server_do_not_end_one_that_loads",),
    ),
    Mutant(
        "gathering: memory is not given back in a rest",
        "serving/gathering.py",
        "                self._tidy(0.0)",
        "                pass",
        (f"{GATHERING}::test_memory_is_given_back_in_a_rest_once_and_at_times_in_work",),
    ),
    Mutant(
        "gathering: memory is not given back in work",
        "serving/gathering.py",
        "                    self._tidy(_WORK)",
        "                    pass",
        (f"{GATHERING}::test_memory_is_given_back_in_a_rest_once_and_at_times_in_work",),
    ),
    Mutant(
        "parting: what was written is lost where a connection ends",
        "serving/parting.py",
        "        self._flush()\n        self._ends",
        "        self._ends",
        ("tests/unit/serving/test_slow_clients.py",),
    ),
    Mutant(
        "guard: the parts of paths are not read",
        "serving/guard.py",
        'scope["path_params"] = place.parts(scope["path"])',
        'scope["path_params"] = {}',
        ("tests/unit/serving/test_libretranslate_files.py",),
    ),
)


OWN = "tests/unit/serving/test_own.py"
ASKED_IN_OUR_WORDS = (
    Mutant(
        "own: texts may be of any length",
        "serving/own/asking.py",
        "if characters > limits.characters:",
        "if False:",
        (f"{OWN}::test_what_is_wrong_is_said",),
    ),
    Mutant(
        "own: what is drawn depends on where a part of the texts begins",
        "serving/own/asking.py",
        "answers = lines.answers(part, first=done + 1)",
        "answers = lines.answers(part, first=1)",
        (f"{OWN}::test_what_is_drawn_depends_on_the_number_of_a_text",),
    ),
    Mutant(
        "own: translations may be made as long as anybody likes",
        "serving/own/translating.py",
        "if message.lengthened and most > limits.tokens:",
        "if False:",
        (f"{OWN}::test_what_is_wrong_is_said",),
    ),
    Mutant(
        "own: languages do not tell which model is meant",
        "serving/own/ways.py",
        "return asked is None or known is None or found_in(asked, [known]) is not None",
        "return True",
        (f"{OWN}::test_languages_say_which_model_is_meant",),
    ),
    Mutant(
        "own: pages are kept for ever",
        "serving/own/inspected.py",
        "or until < self._clock()",
        "",
        (f"{OWN}::test_pages_are_kept_for_a_while",),
    ),
    Mutant(
        "own: stop strings are forgotten",
        "serving/own/writing.py",
        '"stop": config.stop, ',
        '"stop": (), ',
        (f"{OWN}::test_what_is_written_is_that_of_the_commands",),
    ),
    Mutant(
        "own: a stream begins before there is something to tell",
        "serving/streams.py",
        "first = await anext(events)\n    return",
        'first: Any = ("growing", {})\n    return',
        (f"{OWN}::test_what_is_wrong_with_a_stream_has_a_status",),
    ),
    Mutant(
        "own: pictures may be as large as anybody likes",
        "serving/own/sent.py",
        "if len(content) > most:",
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
        "most = longest * rate + 1\n",
        "most = math.inf\n",
        (f"{SOUND_FILES}::test_a_long_silence_in_few_bytes_is_not_decoded",),
    ),
    Mutant(
        "perceived: a sound may have any rate",
        "data/sound.py",
        "if not 1 <= rate <= _FASTEST:",
        "if not 1 <= rate:",
        (f"{SOUND_FILES}::test_heads_that_say_what_no_sound_has",),
    ),
    Mutant(
        "files: a pipe is read as a file",
        "files.py",
        "if not stat.S_ISREG(about.st_mode):",
        "if stat.S_ISDIR(about.st_mode):",
        (f"{GATE}::test_a_file_says_what_it_is_instead",),
    ),
    Mutant(
        "files: the size of a file is not bounded",
        "files.py",
        "if most is not None and about.st_size > most:",
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
        "    if containers > DEEPEST:\n",
        "    if False:\n",
        (f"{GATE}::test_json_is_bounded_in_depth_and_in_its_numbers",),
    ),
    Mutant(
        "files: a manifest names files anywhere",
        "store.py",
        "if (strange := next((name for name in files if not is_plain_name(name)), None)) is not None:",
        "if (strange := next((name for name in files if not is_plain_name(name)), None)):",
        (f"{GATE}::test_names_that_lead_out_of_a_folder",),
    ),
    Mutant(
        "files: what a task found out is verified by nobody",
        "runs/load.py",
        "sorted(name for name in manifest.files if not is_weights(name))",
        "sorted(name for name in manifest.files if name.startswith(('tokenizer/', 'tasks/')))",
        (f"{ROOM}::test_what_a_task_found_out_is_in_the_manifest",),
    ),
    Mutant(
        "files: a kill while findings are written spoils the run",
        "store.py",
        "    if manifest.files.keys() & contents.keys():\n",
        "    if False:\n",
        (f"{ROOM}::test_a_kill_while_findings_are_written_leaves_a_run_that_opens",),
    ),
    Mutant(
        "files: the curve is not synced at a checkpoint",
        "runs/checkpoints.py",
        "        sync_file(self.folder / METRICS)",
        "        pass",
        (f"{ROOM}::test_the_curve_is_on_the_disk_before_the_checkpoint_counts",),
    ),
    Mutant(
        "files: an index whose manifest was being written is not taken up",
        "retrieval/folder.py",
        "ours = (_LOCK, unfinished)",
        "ours = (_LOCK,)",
        (f"{HOSTILE}::test_an_index_may_have_been_killed_while_its_manifest_was_written",),
    ),
    Mutant(
        "files: a vocabulary may have any size",
        "data/foreign_tokenizers.py",
        "if size - len(set(ids.values())) > _MOST_UNUSED:",
        "if False:",
        (f"{HOSTILE}::test_lists_of_pieces_with_impossible_ids",),
    ),
    Mutant(
        "files: a branch of a record may continue itself",
        "inspection/consistency.py",
        "if not -1 <= branch.parent < number:",
        "if not -1 <= branch.parent <= number:",
        (f"{HOSTILE}::test_records_whose_parts_do_not_fit",),
    ),
    Mutant(
        "files: parts of a model that are gone still count",
        "models/size.py",
        "        self._parameters = _alive(self._parameters)\n",
        "",
        (f"{ROOM}::test_tied_parameters_and_those_of_parts_that_were_thrown_away_count_once",),
    ),
    Mutant(
        "files: training needs no more room than its weights",
        "runs/costs.py",
        "moments=2 if isinstance(config.optimizer, AdamConfig) else 0,\n        half=False",
        "moments=0,\n        half=False",
        (f"{ROOM}::test_a_training_needs_more_room_than_its_model",),
    ),
    Mutant(
        "perceived: a sound without a size ends before it begins",
        "data/sound.py",
        "size in unsaid or size > _left(file)",
        "size > _left(file)",
        (f"{SOUND_FILES}::test_sounds_of_writers_that_could_not_go_back",),
    ),
    Mutant(
        "perceived: an odd part of a sound has no byte behind it",
        "data/sound.py",
        "file.seek(size - len(taken) + size % 2, SEEK_CUR)",
        "file.seek(size - len(taken), SEEK_CUR)",
        (f"{SOUND_FILES}::test_sounds_of_writers_that_could_not_go_back",),
    ),
    Mutant(
        "perceived: an archive with a password is a failure",
        "data/clips.py",
        "OverflowError, RuntimeError, struct.error",
        "OverflowError, struct.error",
        ("tests/unit/data/test_clips.py::test_archives_that_cannot_be_opened_are_named",),
    ),
    Mutant(
        "perceived: a clip may have any number of frames",
        "serving/own/seeing.py",
        "if path.is_file() and (size := face.size(path)) > granted:",
        "if path.is_file() and (size := face.size(path)) < 0:",
        (f"{PERCEIVING}::test_a_small_file_of_many_frames_is_not_decoded",),
    ),
    Mutant(
        "perceived: frames may have any number of pixels together",
        "serving/own/sent.py",
        "        pixels, largest = pixels - own, max(largest, own)",
        "        largest = max(largest, own)",
        (f"{PERCEIVING}::test_pictures_of_a_clip_may_not_claim_any_number_of_pixels",),
    ),
    Mutant(
        "perceived: frames have the bytes of one file each",
        "serving/own/sent.py",
        "        most -= len(content)\n",
        "",
        (f"{PERCEIVING}::test_files_have_a_limit_of_their_own",),
    ),
    Mutant(
        "perceived: frames go backwards",
        "serving/own/sent.py",
        'f"{number}.png"',
        'f"{1000 - number}.png"',
        (f"{PERCEIVING}::test_frames_are_in_the_order_in_which_they_are_sent",),
    ),
    Mutant(
        "perceived: errors tell where a file was put",
        "serving/own/sent.py",
        "str(error).replace(str(path), name)",
        "str(error)",
        (f"{PERCEIVING}::test_what_is_no_clip_is_refused",),
    ),
    Mutant(
        "perceived: records tell where a file was put",
        "serving/own/seeing.py",
        'return replace(found, title="1")',
        "return found",
        (f"{PERCEIVING}::test_what_is_sent_can_be_looked_at",),
    ),
    Mutant(
        "perceived: of two files one is left aside",
        "serving/own/sent.py",
        "if len(given) != 1 or given[0] not in names:",
        "if not given or given[0] not in names:",
        (f"{PERCEIVING}::test_what_is_wrong_with_what_is_sent_is_said",),
    ),
    Mutant(
        "perceived: frames are counted among those that were seen",
        "serving/own/seeing.py",
        "shown.numbers.tolist()",
        "list(range(len(shown.numbers)))",
        (f"{PERCEIVING}::test_where_a_caption_of_a_clip_looked",),
    ),
    Mutant(
        "perceived: transcripts may be made as long as anybody likes",
        "serving/own/hearing.py",
        "    length_for(message, build_length(config), limits, longest=longest)\n",
        "",
        (f"{PERCEIVING}::test_what_is_wrong_with_what_is_sent_is_said",),
    ),
    Mutant(
        "perceived: each transcript is drawn alike",
        "serving/own/hearing.py",
        "seed=message.seed",
        "seed=1",
        (f"{PERCEIVING}::test_options_of_a_transcript",),
    ),
    Mutant(
        "perceived: detectors do nothing but make vectors",
        "serving/own/reading.py",
        '    Use("detect", (Detector,)',
        '    Use("detect", ()',
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
        "serving/streams.py",
        'await end(closed("ending"))',
        "pass",
        (f"{STREAMS}::test_the_end_of_the_server_is_told",),
    ),
    Mutant(
        "streams: what is wrong with the rest of a request is not told",
        "serving/streams.py",
        "if not goes_on:",
        "if True:",
        (f"{STREAMS}::test_what_is_wrong_with_the_rest_of_a_request_is_told",),
    ),
    Mutant(
        "LibreTranslate: any number of tokens is written for a sentence",
        "serving/libretranslate/texts.py",
        "length = replace(translator.length, most=self.tokens)",
        "length = translator.length",
        ("tests/unit/serving/test_libretranslate.py::test_what_is_written_for_a_sentence_is_bounded",),
    ),
    Mutant(
        "proxies: anybody is believed who asks",
        "serving/proxies.py",
        "        if nearest not in self:\n            return scope\n",
        "",
        (f"{PROXIES}::test_who_is_no_proxy_does_not_hide_behind_others",),
    ),
    Mutant(
        "proxies: the first address of a chain is believed",
        "serving/proxies.py",
        "if address not in self:",
        "if False:",
        (f"{PROXIES}::test_the_nearest_that_is_no_proxy_asks",),
    ),
    Mutant(
        "proxies: a scheme is that which the last proxy was asked by",
        "serving/proxies.py",
        "len(schemes) - 1 - passed",
        "len(schemes) - 1",
        (f"{PROXIES}::test_how_it_was_asked",),
    ),
    Mutant(
        "OpenAI: tokens are told when nobody waits",
        "serving/openai/completions.py",
        "            self.asked.term.check()\n            yield item",
        "            yield item",
        ("tests/unit/serving/test_openai.py::test_tokens_are_told_until_the_deadline",),
    ),
    Mutant(
        "OpenAI: prompts of streams are read at once",
        "serving/openai/completions.py",
        "self._job.awaited(chunked(ids, _PART))",
        "[ids]",
        ("tests/unit/serving/test_openai.py::test_a_prompt_of_a_stream_is_read_until_the_deadline",),
    ),
    Mutant(
        "guard: files are read before there is a key",
        "serving/guard.py",
        "min(limits.file if files and not held else limits.body, limits.bodies)",
        "min(limits.file if files else limits.body, limits.bodies)",
        (f"{KEYS}::test_no_file_is_read_before_there_is_a_key",),
    ),
    Mutant(
        "guard: bodies are read that cannot hold a key",
        "serving/guard.py",
        "route is not None and route.holds_key",
        "route is not None and route.reads is not None",
        (f"{KEYS}::test_who_has_no_key_is_told_so_before_the_body_is_there",),
    ),
    Mutant(
        "logs: what is left out is not counted",
        "serving/scribe.py",
        "self._lost += 1",
        "pass",
        (f"{SCRIBE}::test_what_is_left_out_at_last_is_told_in_the_end",),
    ),
    Mutant(
        "logs: what a file does not take at once is lost",
        "serving/scribe.py",
        "time.sleep(_PAUSE)",
        "return",
        (f"{SCRIBE}::test_a_file_that_does_not_wait_gets_all",),
    ),
    Mutant(
        "Ray: replicas have no log",
        "serving/spread.py",
        "with logging_as(self._house.settings):",
        "if True:",
        ("tests/unit/serving/test_spread.py::test_a_replica_has_the_log_and_the_limits_of_the_settings",),
    ),
    Mutant(
        "Ray: headers have no end",
        "serving/spread.py",
        'elif self._is_large(scope["headers"]):',
        "elif False:",
        ("tests/unit/serving/test_spread.py::test_a_replica_has_the_log_and_the_limits_of_the_settings",),
    ),
    Mutant(
        "crowds: one address may have all connections",
        "serving/protocol.py",
        "elif own > limits.connections_per_address:",
        "elif False:",
        (f"{CROWDS}::test_one_address_has_so_many_and_others_have_theirs",),
    ),
    Mutant(
        "crowds: who is refused may stay in any number",
        "serving/protocol.py",
        " or own > 2 * limits.connections_per_address",
        "",
        (f"{CROWDS}::test_who_is_refused_and_stays_takes_no_place_of_others",),
    ),
    Mutant(
        "crowds: who leaves is counted for ever",
        "serving/protocol.py",
        "        self._crowds.leave(self._address)\n",
        "",
        (f"{CROWDS}::test_one_address_has_so_many_and_others_have_theirs",),
    ),
    Mutant(
        "crowds: proxies are one address",
        "serving/crowds.py",
        "if address in self._proxies:\n            return 0",
        "if False:\n            return 0",
        (f"{CROWDS}::test_proxies_may_have_as_many_as_there_are",),
    ),
)
GUARDED = (
    Mutant(
        "guard: any host is ours",
        "serving/guard.py",
        "self._origins.require_host(scope, headers)",
        "pass",
        (f"{GUARD}::test_hosts",),
    ),
    Mutant(
        "guard: pages of other sites may ask",
        "serving/guard.py",
        "self._origins.require_page(scope, headers)",
        "pass",
        (f"{GUARD}::test_pages_of_other_sites_may_not_ask",),
    ),
    Mutant(
        "guard: bodies in chunks have no end",
        "serving/guard.py",
        "if seen > most:",
        "if False:",
        (f"{GUARD}::test_bodies_without_a_length_have_a_size",),
    ),
    Mutant(
        "guard: paths that are none need no key",
        "serving/guard.py",
        "if not held and (route is None or not route.free):",
        "if not held and (route is not None and not route.free):",
        (f"{KEYS}::test_nothing_but_what_is_free_is_told",),
    ),
    Mutant(
        "guard: what is told while a server ends keeps connections",
        "serving/guard.py",
        'if self._house.state == "ending":',
        "if False:",
        (f"{DRAINING}::test_requests_on_their_way_are_told_to_come_again",),
    ),
    Mutant(
        "routes: a key in a body is not looked for",
        "serving/routes.py",
        'asked.house.door.admit(request.scope, key_in(getattr(request.state, "table", {})))',
        "pass",
        (f"{KEYS}::test_no_route_answers_who_has_no_key",),
    ),
    Mutant(
        "routes: what a model says tells folders",
        "serving/refusal.py",
        'return wrong(_FOLDERS.sub("", str(error)))',
        "return wrong(str(error))",
        (f"{GUARD}::test_what_a_model_says_of_a_text_hides_folders",),
    ),
    Mutant(
        "keys: a file is read once",
        "serving/keys.py",
        "        self._renew()\n",
        "",
        (f"{KEYS}::test_the_file_is_read_again_when_it_changes",),
    ),
    Mutant(
        "rates: keys of one address share their rate",
        "serving/door.py",
        'f"key {name}" if name else network(address)',
        "network(address)",
        (f"{KEYS}::test_rates_of_keys",),
    ),
    Mutant(
        "rates: who asked is remembered for ever",
        "serving/rates.py",
        "self._buckets.popitem(last=False)",
        "pass",
        (f"{RATES}::test_memory_is_bounded_and_the_newest_are_kept",),
    ),
    Mutant(
        "logs: messages of errors tell what was asked",
        "serving/logs.py",
        'trace = trace.replace(text, "…").replace(repr(text)[1:-1], "…")',
        "pass",
        (f"{LOGS}::test_tracebacks_are_found_by_the_id_of_the_answer",),
    ),
    Mutant(
        "logs: keys are texts",
        "serving/logs.py",
        "exclude=_SECRETS, ",
        "",
        (f"{LOGS}::test_keys_in_messages_are_no_texts",),
    ),
    Mutant(
        "protocol: headers have no end",
        "serving/protocol.py",
        "if self._silent > self._limits.header_bytes + LINE:",
        "if False:",
        (f"{SLOW_CLIENTS}::test_what_is_too_much_or_no_request",),
    ),
    Mutant(
        "protocol: there may be any number of connections",
        "serving/protocol.py",
        "elif len(self.connections) > limits.connections:",
        "elif False:",
        (f"{SLOW_CLIENTS}::test_connections_are_counted",),
    ),
    Mutant(
        "protocol: requests may arrive as slowly as they like",
        "serving/protocol.py",
        "            self._refuse(408,",
        "            print(408,",
        (f"{SLOW_CLIENTS}::test_what_does_not_arrive_is_not_waited_for",),
    ),
    Mutant(
        "protocol: answers may be taken as slowly as anybody likes",
        "serving/protocol.py",
        "if self._taking is None:",
        "if False:",
        (f"{SLOW_CLIENTS}::test_who_does_not_take_an_answer_loses_it",),
    ),
    Mutant(
        "protocol: what offers another protocol loses its body",
        "serving/protocol.py",
        "self._decline(data[offer.args[0] :])",
        "pass",
        (f"{SLOW_CLIENTS}::test_offers_of_other_protocols_are_left_aside",),
    ),
    Mutant(
        "parting: an answer to what is too large is lost",
        "serving/parting.py",
        "if not (self._awaits() and self._transport.can_write_eof()):",
        "if True:",
        (f"{SLOW_CLIENTS}::test_what_is_too_much_or_no_request",),
    ),
    Mutant(
        "parting: who is refused may stay",
        "serving/parting.py",
        "self._ends = self._loop.call_later(LINGERING, self._transport.abort)",
        "self._ends = self._loop.call_later(1_000, self._transport.abort)",
        (f"{SLOW_CLIENTS}::test_who_is_refused_and_stays_is_left",),
    ),
    Mutant(
        "server: nothing is waited for in the end",
        "serving/server.py",
        "await self._until(lambda: not self._is_busy, seconds=self._house.settings.limits.drain)",
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
        "serving/loading.py",
        'if self._house.state == "loading":',
        "if True:",
        (f"{DRAINING}::test_models_that_are_loaded_too_late_open_nothing",),
    ),
)


MUTANTS = (
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
    *EXPORTED,
    *COMMANDS,
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
