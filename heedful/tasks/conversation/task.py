"""The conversation task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, TypeAlias, final

import torch
from torch import nn

from heedful.architectures.build import build_conditional_model
from heedful.architectures.interface import DataSizes
from heedful.data.corpus import Corpus, ExampleEncoder
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizers import Tokenizer
from heedful.models.generative import ConditionalModel
from heedful.tasks.conversation.data import DialogueEncoder, Exchange
from heedful.tasks.conversation.evaluation import ConversationComparison, ConversationReport, ReplyEvaluator
from heedful.tasks.conversation.predictor import ChatPredictor
from heedful.tasks.conversation.recipe import ConversationRecipe
from heedful.tasks.evaluation import EvaluatorOptions
from heedful.tasks.generation_objective import GenerationObjective, build_criterion
from heedful.tasks.objective import UnitNames
from heedful.tasks.task import Run, Task, VocabSizes, Vocabularies, learn_or_reuse_tokenizer, prefix_data_errors
from heedful.tensors import Tokens

TEXT_FILE: Final = "tokenizer/text"
SPEAKERS_FILE: Final = "tokenizer/speakers"
ConversationModel: TypeAlias = ConditionalModel[Tokens]
ConversationRun: TypeAlias = Run[ConversationRecipe, ConversationModel]


@final
class ConversationTask(Task[ConversationRecipe, ConversationModel]):
    """Task that generates replies in dialogues."""

    tokenizer_files: ClassVar = (TEXT_FILE,)
    label_files: ClassVar = (SPEAKERS_FILE,)
    output_noun: ClassVar = "speakers"
    unit_names: ClassVar = UnitNames(examples="replies")
    default_example_command: ClassVar = "chat RUN"
    report_class: ClassVar = ConversationReport
    comparison_class: ClassVar = ConversationComparison

    def learn_vocabularies(self, recipe: ConversationRecipe, *, existing: Tokenizer | None) -> Vocabularies:
        """Learn the tokenizer of all turns, unless `existing` is one to use instead, and collect the speakers."""
        dialogues = recipe.data.reader("train").dialogues
        tokenizer = learn_or_reuse_tokenizer(
            recipe, (turn.text for dialogue in dialogues for turn in dialogue.turns), existing=existing, generated=True
        )
        return {
            TEXT_FILE: tokenizer,
            SPEAKERS_FILE: LabelVocabulary.learn(turn.speaker for dialogue in dialogues for turn in dialogue.turns),
        }

    def build_encoding(self, run: ConversationRun) -> ExampleEncoder[Exchange]:
        """Build the encoding of contexts and replies."""
        return build_dialogue_encoder(run).build_encoding()

    def build_model(self, recipe: ConversationRecipe, sizes: VocabSizes) -> ConversationModel:
        """Build the model with one vocabulary for source and target; `sizes` has the number of tokens and of speakers,
        which are added.
        """
        size = sizes[TEXT_FILE] + sizes[SPEAKERS_FILE]
        return build_conditional_model(recipe.model, DataSizes(size, size, recipe.data.max_length))

    def embedding_modules(
        self, run: ConversationRun, model: ConversationModel
    ) -> Mapping[str, tuple[Tokenizer, nn.Module]]:
        """Return the tokenizer and the encoder or decoder for each recipe key that names word vectors."""
        modules = {"source_vectors": "encoder", "target_vectors": "decoder", "decoder.vectors": "decoder"}
        return {key: (run.tokenizer, model.get_submodule(modules[key])) for key in run.recipe.model.word_vectors}

    def build_objective(
        self, run: ConversationRun, train: Corpus, validation: Corpus, *, device: torch.device
    ) -> GenerationObjective:
        """Build the objective on a training and a validation corpus: likelihood of the replies."""
        config = run.recipe.training
        return GenerationObjective(
            train,
            validation,
            collate_fn=build_dialogue_encoder(run).collate,
            criterion=build_criterion(config),
            batch_tokens=config.batch_tokens,
            seed=run.recipe.seed,
            device=device,
        )

    def build_evaluator(self, recipe: ConversationRecipe | None, options: EvaluatorOptions) -> ReplyEvaluator:
        """Build the evaluator of the replies in the recipe's dialogues; the options are not used."""
        assert recipe is not None, "only a run replies"
        part = recipe.data.evaluation_part
        with prefix_data_errors(f"data.{part}"):
            return ReplyEvaluator(recipe.data.reader(part), part=part)

    def build_predictor(
        self, run: ConversationRun, model: ConversationModel, *, step: int | None = None
    ) -> ChatPredictor:
        """Build the chat predictor of a trained model; `step` is not used."""
        return ChatPredictor(
            model,
            encoder=build_dialogue_encoder(run),
            speaker=run.recipe.data.replier,
            generation=run.recipe.generation,
        )


TASK: Final = ConversationTask()


def build_dialogue_encoder(run: ConversationRun) -> DialogueEncoder:
    """Build the dialogue encoder of a run."""
    data = run.recipe.data
    return DialogueEncoder(
        run.tokenizer, run.get_vocabulary(SPEAKERS_FILE, LabelVocabulary), data.window, data.max_length
    )
