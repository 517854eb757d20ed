"""Reading model folders of Hugging Face's transformers: config.json, safetensors and vocabulary."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, assert_never

import torch
from torch import Tensor, nn

from heedful.architectures.build import build_language_model, build_sequence_to_sequence
from heedful.architectures.build_stack import build_activation, build_transformer_encoder
from heedful.architectures.classifiers import EncoderClassifierConfig, FirstTokenConfig
from heedful.architectures.interface import DataSizes
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.atomic_io import load_parameters
from heedful.data.labels import LabelVocabulary
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.engines.int8_weights import Int8Weights, split_int8
from heedful.engines.select_engine import prepare_for_inference
from heedful.errors import RunError
from heedful.foreign.families.bert import fold_single_segment
from heedful.foreign.families.heads import read_head_tensors
from heedful.foreign.families.model_family import ModelFamily
from heedful.foreign.families.registry import MODEL_FAMILIES
from heedful.foreign.folder_files import (
    HEEDFUL_SIDES,
    HEEDFUL_VOCABULARY,
    TranslationSide,
    build_continuation_config,
    build_generation_config,
    read_forbidden_tokens,
    read_generation_settings,
    read_json_object,
    read_json_or_empty,
    read_marian_vocabularies,
    read_text_vocabulary,
    read_token_id,
)
from heedful.foreign.folders import CONFIG_FILE
from heedful.foreign.quantized_folders import read_folder_weights, save_quantized_folder
from heedful.foreign.sentence_transformers import SentenceSettings, read_sentence_settings
from heedful.memory_limits import get_memory_limit
from heedful.models.generative import LanguageModel
from heedful.models.heads import MaskedLanguageModel, ReplacedTokenDetector, TextClassifier, TokenClassifier
from heedful.models.model_size import limit_model_size
from heedful.models.parameters import skip_initialization
from heedful.models.transformer import FirstTokenPooler, MeanPooler, TransformerEncoder
from heedful.recipes.generation import ContinuationConfig, GenerationConfig
from heedful.recipes.parallel_data import format_language_tag, format_source_tag
from heedful.recipes.recipe import ArchitectureConfig, EngineName
from heedful.registry import load_object
from heedful.tasks.classification.predictor import Classifier
from heedful.tasks.classification.recipe import AnswerType
from heedful.tasks.embedder import Embedder
from heedful.tasks.language.predictor import TextGenerator
from heedful.tasks.portable_model import OutputHead, OutputType, PortableModel, PretrainedSource
from heedful.tasks.predictor import Predictor
from heedful.tasks.pretraining.predictor import MaskedLanguageModelPredictor, ReplacedTokenPredictor
from heedful.tasks.pretraining.task import build_detector_alone, build_masked_language_model
from heedful.tasks.search_factory import build_continuation_search, build_length_limits, build_search
from heedful.tasks.spans.data import WindowSettings
from heedful.tasks.spans.predictor import QuestionAnsweringPredictor
from heedful.tasks.tagging.predictor import Tagger
from heedful.tasks.translation.translator import Translator

_SOURCE: Final = "encoder.stack.embedding.table.weight"
_TARGET: Final = "decoder.stack.embedding.table.weight"
_SUMMARY: Final = "encoder.summary.dense"
_TASKS: Final[Mapping[OutputType, str]] = {
    "class": "classification",
    "number": "classification",
    "candidate": "classification",
    "token": "tagging",
    "ends": "spans",
}
_ANSWER_KINDS: Final[Mapping[OutputType, AnswerType]] = {"class": "class", "number": "number", "candidate": "choice"}
_MIN_TOKENS: Final = 5
"""Smallest number of tokens that a model of two texts must read: one of each, begin and two ends."""
_MAX_QUESTION: Final = 64
_MAX_ANSWER: Final = 30
_ANSWER_WINDOW: Final = 384
"""Tokens of each window when answers are searched for in a long text, as in transformers."""


def open_hugging_face(folder: Path) -> HuggingFaceFolder:
    """Open the model in a Hugging Face folder; weights and vocabulary are read when they are first needed.

    Raises:
        RunError: heedful does not support this kind of model.
    """
    content = read_json_object(folder / CONFIG_FILE)
    kind = content.get("model_type")
    if not isinstance(kind, str) or kind not in MODEL_FAMILIES:
        choices = ", ".join(MODEL_FAMILIES)
        raise RunError(
            f"{folder / CONFIG_FILE}: model_type = {kind!r}: heedful reads {choices}; take a model of one of these "
            "kinds"
        )
    family = MODEL_FAMILIES[kind]
    opened: HuggingFaceFolder = load_object(family.folder_class, context=f"model_type = {kind!r}")(
        folder, content, family
    )
    return opened


@dataclass(frozen=True)
class HuggingFaceFolder:
    """A Hugging Face model folder; `content` is that of its config.json."""

    folder: Path
    content: Mapping[str, Any]
    family: ModelFamily

    @cached_property
    def origin(self) -> PortableModel:
        """Configuration, vocabulary and tensors by heedful's names.

        Raises:
            RunError: a part is missing, damaged, or has no counterpart in heedful.
            MissingExtraError: the vocabulary needs a package that is not installed.
        """
        weights = read_folder_weights(self.folder)
        if weights.quantized is None:
            return self.build_origin(weights.published)
        config = self.family.read_config(self.content, weights.names, str(self.folder / CONFIG_FILE))
        return self._build_portable_model(config, weights.quantized)

    @property
    def predecessor(self) -> PretrainedSource:
        """The model in a form that another one can start from; raises the same errors as `origin`."""
        return PretrainedSource(self.folder, self.origin.model, self.origin.tokenizers, self.origin.tensors)

    @property
    def exact_origin(self) -> PortableModel:
        """The same as `origin` for another export to Hugging Face: the vector of the only segment stays a tensor of its
        own, which no model of heedful has.
        """
        weights = read_folder_weights(self.folder)
        return self.origin if weights.quantized else self.build_origin(weights.published, folds_segment=False)

    def build_origin(self, tensors: Mapping[str, Tensor], *, folds_segment: bool = True) -> PortableModel:
        """Build configuration, vocabulary and converted tensors from tensors of the folder that are already read;
        raises the same errors as `origin`. `folds_segment` says whether the vector of the only segment is added to the
        positions.
        """
        location = str(self.folder)
        config = self.family.read_config(self.content, frozenset(tensors), str(self.folder / CONFIG_FILE))
        require_enough_tensors(config, len(tensors), location=location)
        converted = self.family.build_mapping(config).import_tensors(tensors, location=location)
        if folds_segment:
            converted = fold_single_segment(config, converted)
        if (head := self.head) is not None:
            head_location = self.family.heads.find_named_head(head, self.content["architectures"])
            converted |= read_head_tensors(head, head_location, tensors, location=location, width=config.d_model)
        return self._build_portable_model(config, converted)

    def _build_portable_model(
        self, config: EncoderConfig | DecoderConfig | TransformerConfig, tensors: Mapping[str, Tensor]
    ) -> PortableModel:
        """Build the model of an architecture and tensors by heedful's names, with vocabulary and head of the folder."""
        head = self.head
        if head is not None and self.family.heads.find_named_head(head, self.content["architectures"]).reads_summary:
            if f"{_SUMMARY}.weight" not in tensors:
                pooler = self.family.build_mapping(config).find_foreign_name(_SUMMARY)
                raise RunError(
                    f"{self.folder}: does not contain tensor {pooler}.weight; take a complete copy of this model"
                )
            summary = FirstTokenConfig(activation=self.family.heads.activation)
            if summary != FirstTokenConfig():
                config = EncoderClassifierConfig.model_validate({**dict(config), "summary": summary})
        return PortableModel(self.folder, config, self._read_tokenizer(tensors), tensors, self.max_positions, head=head)

    @property
    def weights(self) -> Mapping[str, Tensor]:
        """The weights by heedful's names; raises the same errors as `origin`."""
        return self.origin.tensors

    def build_model(self) -> nn.Module:
        """Build the model with arbitrary parameter values; raises the same errors as `origin`."""
        with skip_initialization():
            return build_from_origin(self.origin)

    def quantize(self, target: Path) -> tuple[int, int]:
        """Write a copy of the folder whose large matrices are stored as int8; return the bytes of the weights before
        and after. `target` must be new or empty.

        Raises:
            RunError: the model cannot be read, is quantized already, or `target` is not empty.
        """
        weights = read_folder_weights(self.folder)
        if weights.quantized is not None:
            raise RunError(f"{self.folder}: is quantized already; give the model that it was made from")
        model, tensors = self.build_model(), self.weights
        load_parameters(model, tensors, location=str(self.folder))
        return save_quantized_folder(self.folder, target, model=model, tensors=tensors, names=weights.names)

    @cached_property
    def head(self) -> OutputHead | None:
        """Head of a fine-tuned model; None if config.json names no architecture with a head.

        Raises:
            RunError: the classes in config.json are not consistent.
        """
        return self.family.heads.read_head_config(self.content, location=str(self.folder / CONFIG_FILE))

    @property
    def task(self) -> str:
        """Task of the model, as recipes name it."""
        return self.family.task if self.head is None else _TASKS[self.head.output_type]

    @property
    def max_positions(self) -> int:
        """Number of tokens that the model's positions allow."""
        value = self.content.get(
            "max_position_embeddings", self.content.get("n_positions", self.family.default_positions)
        )
        if type(value) is not int:
            raise RunError(f"{self.folder / CONFIG_FILE}: does not give max_position_embeddings; take a complete copy")
        return value - self.family.get_position_offset(self.content)

    @cached_property
    def generation_settings(self) -> Mapping[str, Any]:
        """Generation settings of the folder."""
        return read_generation_settings(self.folder, self.content)

    @property
    def generation_config(self) -> GenerationConfig:
        """Default search of a translation model."""
        return build_generation_config(
            self.generation_settings, max_positions=self.max_positions, location=str(self.folder)
        )

    @property
    def continuation_config(self) -> ContinuationConfig:
        """Default generation settings of a language model."""
        return build_continuation_config(self.generation_settings, location=str(self.folder))

    @cached_property
    def sentence_settings(self) -> SentenceSettings:
        """How the folder makes one vector of a text, if it has files of sentence-transformers.

        Raises:
            RunError: it asks for a module that heedful does not support.
        """
        width = self.content.get("hidden_size")
        return read_sentence_settings(self.folder, width=width) if isinstance(width, int) else SentenceSettings()

    def build_predictor(
        self,
        *,
        device: torch.device,
        step: int | None = None,
        engine: EngineName | None = None,
        log: Callable[[str], None] | None = None,
        adapt: Callable[[PortableModel], PortableModel] | None = None,
    ) -> Predictor | Embedder:
        """Build the predictor of the model on a device; `engine` computes it (torch if None). `log` receives messages,
        `adapt` applies an adapter to the model, and `step` must be None.

        Raises:
            RunError: `step` was given, because the folder has no checkpoints; or see `origin`.
        """
        self.require_no_step(step)
        origin = self.origin
        if adapt is not None:
            if isinstance(origin.tensors, Int8Weights) and device.type == "cpu":
                engine = engine or "int8"
            origin = adapt(origin)
        model = load_for_inference(origin, device=device, engine=engine, log=log)
        if isinstance(self.origin.tokenizer, tuple):
            return self._build_translator(model, *self.origin.tokenizer)
        tokenizer = self.origin.tokenizer
        match model:
            case LanguageModel():
                search, limit = build_continuation_search(self.continuation_config, tokenizer.special)
                return TextGenerator(
                    model,
                    tokenizer=tokenizer,
                    search=search,
                    limit=limit,
                    max_context=self.max_positions,
                    generation=self.continuation_config,
                )
            case MaskedLanguageModel():
                return MaskedLanguageModelPredictor(
                    model,
                    tokenizer=tokenizer,
                    max_length=self.max_positions,
                    embedder=self._build_embedder(model, tokenizer),
                )
            case ReplacedTokenDetector():
                return ReplacedTokenPredictor(
                    model,
                    tokenizer=tokenizer,
                    max_length=self.max_positions,
                    embedder=self._build_embedder(model, tokenizer),
                )
            case TextClassifier() | TokenClassifier():
                assert origin.head is not None
                return self._build_labeller(model, tokenizer, origin.head)
        return self._build_embedder(model, tokenizer)

    def require_no_step(self, step: int | None) -> None:
        """Raise `RunError` if a checkpoint is asked for, because the folder has none."""
        if step is not None:
            raise RunError(
                f"{self.folder}: is not a run of heedful and has no checkpoint of step {step}; leave the step out"
            )

    def _build_embedder(self, model: nn.Module, tokenizer: Tokenizer) -> Embedder:
        """Build an embedder with the pooling that the folder defines; the mean of all tokens by default."""
        encoder, settings = model.get_submodule("encoder"), self.sentence_settings
        assert isinstance(encoder, TransformerEncoder)
        summary = settings.summary or MeanPooler()
        return Embedder(
            encoder,
            tokenizer=tokenizer,
            max_length=min(settings.max_length or self.max_positions, self.max_positions),
            summary=summary.to(next(encoder.parameters()).device),
            lowercase=settings.lowercase,
        )

    def _build_labeller(
        self, model: TextClassifier | TokenClassifier, tokenizer: Tokenizer, head: OutputHead
    ) -> Classifier | Tagger | QuestionAnsweringPredictor:
        """Build the predictor of a fine-tuned encoder: classes or numbers of texts, tags of words, or answer spans, by
        the kind of `head`.
        """
        reading = head.settings
        max_length = (
            self.read_max_text_length() if reading.max_length is None else min(reading.max_length, self.max_positions)
        )
        if isinstance(model, TextClassifier):
            return Classifier(
                model,
                tokenizer=tokenizer,
                answer_type=_ANSWER_KINDS[head.output_type],
                labels=LabelVocabulary(head.class_names) if head.class_names else None,
                max_length=max_length,
                independent=head.independent,
            )
        if head.output_type == "token":
            return Tagger(
                model, tokenizer=tokenizer, tags=LabelVocabulary(head.class_names), framed=True, max_length=max_length
            )
        length = max_length if reading.max_length is not None else min(max_length, _ANSWER_WINDOW)
        max_question = min(reading.max_question or _MAX_QUESTION, length // 3)
        text_length = length - max_question - 2 - len(tokenizer.special.separator)
        stride = min(reading.stride or max(1, text_length // 2), text_length)
        return QuestionAnsweringPredictor(
            model,
            tokenizer=tokenizer,
            settings=WindowSettings(length, stride=stride, max_question=max_question),
            max_answer=reading.max_answer or _MAX_ANSWER,
            threshold=reading.threshold,
        )

    def read_max_text_length(self, *, reader: str = "a text has") -> int:
        """Read the maximum number of tokens of a text: the model's positions, or fewer if the tokenizer has a smaller
        limit. `reader` begins the part of an error message that gives the least number.

        Raises:
            RunError: model_max_length in tokenizer_config.json is not a number of tokens.
        """
        path = self.folder / "tokenizer_config.json"
        value = read_json_or_empty(path).get("model_max_length", self.max_positions)
        if not isinstance(value, int | float) or isinstance(value, bool) or not value >= _MIN_TOKENS:
            raise RunError(
                f"{path}: model_max_length = {value!r}: {reader} at least {_MIN_TOKENS} tokens; correct the file"
            )
        return int(min(value, self.max_positions))

    def _build_translator(self, model: nn.Module, source: Tokenizer, target: Tokenizer) -> Translator:
        """Build a translator from the model, the tokenizers of both languages and the folder's default search."""
        return Translator(
            [model],
            source=source,
            target=target,
            search=build_search(self.generation_config, target),
            length=build_length_limits(self.generation_config),
            max_source=self.max_positions,
            max_target=self.max_positions,
            generation=self.generation_config,
        )

    def _read_tokenizer(self, tensors: Mapping[str, Tensor]) -> Tokenizer | tuple[Tokenizer, Tokenizer]:
        """Read the tokenizer of the folder, or the source and target tokenizers of a translation model. Their sizes are
        those of the embedding tables in `tensors`, which has heedful's names.
        """
        family = self.family
        source = tensors.get(_SOURCE, tensors.get(_TARGET))
        assert source is not None, "every model has a table of embeddings"
        sizes = len(source), len(tensors.get(_TARGET, source))
        if (stored := self._load_heedful_tokenizer()) is not None:
            return stored
        if family.task != "translation":
            return read_text_vocabulary(self.folder, family=family, size=sizes[0])
        start_id = read_token_id(self.generation_settings, "decoder_start_token_id")
        if start_id is None:
            start_id = read_token_id(self.generation_settings, family.start_key)
        if start_id is None:
            raise RunError(f"{self.folder / CONFIG_FILE}: does not give decoder_start_token_id; take a complete copy")
        forbidden_ids = read_forbidden_tokens(self.generation_settings)
        if family.has_side_vocabularies:
            return read_marian_vocabularies(
                self.folder, family=family, sizes=sizes, start=start_id, forbidden=forbidden_ids
            )
        bos_id = read_token_id(self.generation_settings, "bos_token_id")
        forced_bos_id = read_token_id(self.generation_settings, "forced_bos_token_id")
        if forced_bos_id is None and self.generation_settings.get("force_bos_token_to_be_generated"):
            forced_bos_id = bos_id
        source_side = TranslationSide(
            opening=bos_id if family.opens_source else None, language_key="src_lang", format_tag=format_source_tag
        )
        target_side = TranslationSide(
            forced_bos_id, start_id, forbidden_ids, language_key="tgt_lang", format_tag=format_language_tag
        )
        source_tokenizer, target_tokenizer = (
            read_text_vocabulary(self.folder, family=family, size=size, side=side)
            for size, side in zip(sizes, (source_side, target_side), strict=True)
        )
        return source_tokenizer, target_tokenizer

    def _load_heedful_tokenizer(self) -> Tokenizer | tuple[Tokenizer, Tokenizer] | None:
        """Load the vocabulary files that heedful stored in a folder that it exported; None if there are none."""
        if (self.folder / HEEDFUL_VOCABULARY).exists():
            return load_tokenizer(self.folder / HEEDFUL_VOCABULARY)
        source, target = (self.folder / name for name in HEEDFUL_SIDES)
        return (load_tokenizer(source), load_tokenizer(target)) if source.exists() else None


def load_for_inference(
    origin: PortableModel,
    *,
    device: torch.device,
    engine: EngineName | None = None,
    log: Callable[[str], None] | None = None,
) -> nn.Module:
    """Build the model that `origin` describes, load its weights and prepare it for inference on a device. `engine`
    computes it; `log` is called with the choice if it is `auto`.
    """
    with skip_initialization():
        model: nn.Module = build_from_origin(origin)
    return prepare_for_inference(
        model, *split_int8(origin.tensors), origin=str(origin.folder), device=device, engine=engine, log=log
    )


def require_enough_tensors(config: ArchitectureConfig, num_tensors: int, *, location: str) -> None:
    """Raise RunError, which names `location`, if a configuration has more layers than there are tensors, although they
    do not share their weights.
    """
    if isinstance(config, EncoderConfig) and config.share_layers:
        return
    for key in ("layers", "encoder_layers", "decoder_layers"):
        if (layers := getattr(config, key, 0)) > num_tensors:
            raise RunError(
                f"{location}: {CONFIG_FILE} gives {layers:,} layers, but there are {num_tensors:,} tensors; restore it"
            )


def build_from_origin(origin: PortableModel) -> nn.Module:
    """Build a model with the architecture of `origin` and a randomly initialised parameter for each of its tensors, its
    adapter included.

    Raises:
        ModelTooLargeError: it does not fit into this machine's memory.
    """
    limit = get_memory_limit()
    with torch.random.fork_rng(devices=[]), limit_model_size(max_bytes=math.inf if limit is None else float(limit)):
        model = _build_base_model(origin)
        if origin.adapter is not None:
            origin.adapter.attach(model)
    return model


def _build_base_model(origin: PortableModel) -> nn.Module:
    """Build the model that `origin` describes without its adapter, with random weights."""
    match origin.model:
        case EncoderConfig() as config:
            return _build_encoder(config, origin)
        case DecoderConfig() as config:
            assert isinstance(origin.vocab_size, int)
            return build_language_model(config, vocabulary=origin.vocab_size)
        case TransformerConfig() as config:
            assert isinstance(origin.vocab_size, tuple)
            return build_sequence_to_sequence(config, DataSizes(*origin.vocab_size, max_length=512))
    assert_never(origin.model)


def _build_encoder(config: EncoderConfig, origin: PortableModel) -> nn.Module:
    """Build an encoder with the pre-training heads, or the fine-tuned head, that the tensors of `origin` contain."""
    max_length = config.length_limit
    assert isinstance(origin.vocab_size, int)
    sizes = {"vocabulary": origin.vocab_size, "longest": 512 if max_length is None else max_length.tokens}
    has_relation = "relation.weight" in origin.tensors
    model: nn.Module
    if "masked.dense.weight" in origin.tensors:
        model = build_masked_language_model(config, **sizes, paired=has_relation)
    elif "verdict.weight" in origin.tensors:
        model = build_detector_alone(config, **sizes)
    else:
        model = nn.Module()
        model.encoder = build_transformer_encoder(config, vocabulary=sizes["vocabulary"], longest=sizes["longest"])
        if has_relation:
            model.relation = nn.Linear(config.d_model, 2)
    if f"{_SUMMARY}.weight" in origin.tensors:
        summary = config.summary if isinstance(config, EncoderClassifierConfig) else None
        name = summary.activation if isinstance(summary, FirstTokenConfig) else "tanh"
        pooler = FirstTokenPooler(config.d_model, activation=build_activation(name))
        model.get_submodule("encoder").summary = pooler
    return model if origin.head is None else _replace_head(origin, model)


def _replace_head(origin: PortableModel, model: nn.Module) -> nn.Module:
    """Replace the heads of an encoder model by the fine-tuned head of `origin`, with as many outputs as its tensor has
    rows.
    """
    encoder, head = model.get_submodule("encoder"), origin.head
    assert head is not None
    assert isinstance(encoder, TransformerEncoder)
    output = nn.Linear(origin.model.d_model, len(origin.tensors["output.weight"]))
    if head.output_type in ("token", "ends"):
        return TokenClassifier(encoder, output=output)
    return TextClassifier(encoder, output=output)
