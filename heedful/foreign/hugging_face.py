"""Folders as Hugging Face's transformers keeps them: config.json, safetensors and a vocabulary."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, assert_never

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from heedful.architectures.build import build_encoder, build_language_model, build_sequence_to_sequence
from heedful.architectures.interface import Sizes
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.data.labels import Labels
from heedful.data.tokenizer_files import load_tokenizer
from heedful.data.tokenizers import Tokenizer
from heedful.engines.arrange import arranged
from heedful.errors import RunError
from heedful.foreign.families.bart import BART
from heedful.foreign.families.bert import BERT
from heedful.foreign.families.electra import ELECTRA
from heedful.foreign.families.gpt2 import GPT2
from heedful.foreign.families.gpt_neox import GPT_NEOX
from heedful.foreign.families.heads import head_of, named_place, read_head
from heedful.foreign.families.marian import MARIAN
from heedful.foreign.families.roberta_prelayernorm import ROBERTA_PRELAYERNORM
from heedful.foreign.families.segments import without_only_segment
from heedful.foreign.families.settings import Family, StackConfigs
from heedful.foreign.folders import CONFIG
from heedful.foreign.generation import forbidden, generation_settings, token, translating, writing
from heedful.foreign.safetensors_files import pickled_file
from heedful.foreign.sentence_transformers import SentenceSettings, sentence_settings
from heedful.foreign.vocabularies import (
    OWN,
    OWN_SIDES,
    Side,
    read_json,
    read_json_if_there,
    read_marian,
    read_text_vocabulary,
)
from heedful.machine import memory_limit
from heedful.models.encoders import FirstToken, MeanOfTokens, TransformerEncoder
from heedful.models.initialisation import unfilled
from heedful.models.language_model import LanguageModel
from heedful.models.masked_language_model import MaskedLanguageModel
from heedful.models.replaced_token_detector import ReplacedTokenDetector
from heedful.models.size import limited
from heedful.models.text_classifier import TextClassifier
from heedful.models.token_classifier import TokenClassifier
from heedful.recipes.generation import ContinuationConfig, GenerationConfig
from heedful.recipes.recipe import EngineName
from heedful.store import read_tensors as read_file
from heedful.store import reason
from heedful.tasks.classification.face import Classifier
from heedful.tasks.classification.recipe import Verdict
from heedful.tasks.embedder import Embedder
from heedful.tasks.language.face import Writer
from heedful.tasks.origin import Head, HeadOf, Origin
from heedful.tasks.pretraining.face import Detector, Reader
from heedful.tasks.pretraining.run import build_detector_alone, build_masked_language_model
from heedful.tasks.searches import build_continuation, build_length, build_search
from heedful.tasks.spans.face import Answerer
from heedful.tasks.spans.windows import Cutting
from heedful.tasks.tagging.face import Tagger
from heedful.tasks.translation.face import Translator

_ALL: Final = (BERT, ROBERTA_PRELAYERNORM, ELECTRA, GPT2, GPT_NEOX, MARIAN, BART)
FAMILIES: Final[Mapping[str, Family]] = {family.model_type: family for family in _ALL}
"""By the model_type of config.json."""

_SOURCE: Final = "encoder.stack.embedding.table.weight"
_TARGET: Final = "decoder.stack.embedding.table.weight"
_TASKS: Final[Mapping[HeadOf, str]] = {
    "class": "classification",
    "number": "classification",
    "candidate": "classification",
    "token": "tagging",
    "ends": "spans",
}
_VERDICTS: Final[Mapping[HeadOf, Verdict]] = {"class": "class", "number": "number", "candidate": "choice"}
_SHORTEST: Final = 5
"""Tokens that a model of two texts must read: one of each, begin and ends."""
_LONGEST_QUESTION: Final = 64
_LONGEST_ANSWER: Final = 30
_WINDOW: Final = 384
"""Tokens that are read at a time where answers are looked for, as transformers does it."""
_WEIGHTS: Final = "model.safetensors"
_INDEX: Final = "model.safetensors.index.json"
_PICKLED: Final = (
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "tf_model.h5",
    "flax_model.msgpack",
    "model.ckpt",
)


def open_hugging_face(folder: Path) -> HuggingFaceFolder:
    """The model in a folder; weights and vocabulary are read when asked for.

    Raises:
        RunError: heedful knows no such kind of model.
    """
    content = read_json(folder / CONFIG)
    kind = content.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise RunError(f"{folder / CONFIG}: model_type = {kind!r}: heedful reads {known}; take a model of these kinds")
    return HuggingFaceFolder(folder, content, FAMILIES[kind])


@dataclass(frozen=True)
class HuggingFaceFolder:
    """A model of Hugging Face; `content` is that of its config.json."""

    folder: Path
    content: Mapping[str, Any]
    family: Family

    @cached_property
    def origin(self) -> Origin:
        """Configuration, vocabulary and tensors by our names.

        Raises:
            RunError: something is missing, damaged, or has no counterpart in heedful.
            MissingExtraError: the vocabulary needs a package that is not installed.
        """
        return self.made_of(read_tensors(self.folder))

    def made_of(self, tensors: Mapping[str, Tensor]) -> Origin:
        """The same of tensors of the folder that are read already; raises as `origin` does."""
        place = str(self.folder)
        config = self.family.read(self.content, frozenset(tensors), str(self.folder / CONFIG))
        require_layers(config, len(tensors), place=place)
        ours = without_only_segment(config, self.family.table(config).read(tensors, place=place))
        tokenizer, head = self._tokenizer(ours), self.head
        if head is not None:
            placed = named_place(self.family.model_type, head, self.content["architectures"])
            ours |= read_head(head, placed, tensors, place=place, width=config.d_model)
            if placed.reads_whole and "encoder.summary.dense.weight" not in ours:
                pooler = f"{self.family.table(config).prefix}pooler.dense.weight"
                raise RunError(f"{place}: holds no tensor {pooler}; take a complete copy of this model")
        return Origin(self.folder, config, tokenizer, ours, self.longest, head=head)

    @cached_property
    def head(self) -> Head | None:
        """What its outputs say, where it was fine-tuned; None where config.json names no architecture with a head.

        Raises:
            RunError: what config.json says of classes does not fit.
        """
        return head_of(self.family.model_type, self.content, place=str(self.folder / CONFIG))

    @property
    def task(self) -> str:
        """What its models are for, as recipes call it."""
        return self.family.task if self.head is None else _TASKS[self.head.of]

    @property
    def longest(self) -> int:
        """Tokens that its positions are enough for."""
        value = self.content.get("max_position_embeddings", self.content.get("n_positions"))
        if type(value) is not int:
            raise RunError(f"{self.folder / CONFIG}: says nothing of max_position_embeddings; take a complete copy")
        # RoBERTa counts from behind the id of padding
        pad = token({"pad_token_id": 1, **self.content}, "pad_token_id") or 0
        return value - pad - 1 if self.family is ROBERTA_PRELAYERNORM else value

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """What the folder says of generation."""
        return generation_settings(self.folder, self.content)

    @property
    def generation(self) -> GenerationConfig:
        """How a model of two languages searches unless told otherwise."""
        return translating(self.settings, longest=self.longest, place=str(self.folder))

    @property
    def continuation(self) -> ContinuationConfig:
        """How a language model writes unless told otherwise."""
        return writing(self.settings, place=str(self.folder))

    @cached_property
    def sentences(self) -> SentenceSettings:
        """How the folder makes a vector of a text, where sentence-transformers has said it.

        Raises:
            RunError: it asks for something that heedful has not.
        """
        width = self.content.get("hidden_size")
        return sentence_settings(self.folder, width=width) if isinstance(width, int) else SentenceSettings()

    def user(
        self,
        *,
        device: torch.device,
        step: int | None = None,
        engine: EngineName | None = None,
        say: Callable[[str], None] | None = None,
        adapted: Callable[[Origin], Origin] | None = None,
    ) -> Translator | Writer | Reader | Detector | Classifier | Tagger | Answerer | Embedder:
        """The model as its users see it; `arranged` says what is given, `adapted` puts something on it.

        Raises:
            RunError: there are no checkpoints to choose one of, or see `origin`.
        """
        if step is not None:
            raise RunError(f"{self.folder}: is no run of heedful and keeps no checkpoint of step {step}")
        origin = self.origin if adapted is None else adapted(self.origin)
        model = ready(origin, device=device, engine=engine, say=say)
        if isinstance(self.origin.tokenizer, tuple):
            return self._translator(model, *self.origin.tokenizer)
        tokenizer = self.origin.tokenizer
        match model:
            case LanguageModel():
                search, limit = build_continuation(self.continuation, tokenizer.special)
                return Writer(
                    model,
                    tokenizer=tokenizer,
                    search=search,
                    limit=limit,
                    max_context=self.longest,
                    generation=self.continuation,
                )
            case MaskedLanguageModel():
                return Reader(
                    model, tokenizer=tokenizer, max_length=self.longest, embedder=self._embedder(model, tokenizer)
                )
            case ReplacedTokenDetector():
                return Detector(
                    model, tokenizer=tokenizer, max_length=self.longest, embedder=self._embedder(model, tokenizer)
                )
            case TextClassifier() | TokenClassifier():
                assert origin.head is not None
                return self._labeller(model, tokenizer, origin.head)
        return self._embedder(model, tokenizer)

    def _embedder(self, model: nn.Module, tokenizer: Tokenizer) -> Embedder:
        """The vectors that the folder speaks of; means of all tokens where it speaks of none."""
        encoder, settings = model.get_submodule("encoder"), self.sentences
        assert isinstance(encoder, TransformerEncoder)
        summary = settings.summary or MeanOfTokens()
        return Embedder(
            encoder,
            tokenizer=tokenizer,
            max_length=min(settings.max_length or self.longest, self.longest),
            summary=summary.to(next(encoder.parameters()).device),
            lowercase=settings.lowercase,
        )

    def _labeller(
        self, model: TextClassifier | TokenClassifier, tokenizer: Tokenizer, head: Head
    ) -> Classifier | Tagger | Answerer:
        """What answers with classes, numbers, tags or parts of texts."""
        reading = head.reading
        longest = self.longest_text if reading.max_length is None else min(reading.max_length, self.longest)
        if isinstance(model, TextClassifier):
            return Classifier(
                model,
                tokenizer=tokenizer,
                answered=_VERDICTS[head.of],
                labels=Labels(head.names) if head.names else None,
                max_length=longest,
                independent=head.independent,
            )
        if head.of == "token":
            return Tagger(model, tokenizer=tokenizer, tags=Labels(head.names), framed=True, max_length=longest)
        length = longest if reading.max_length is not None else min(longest, _WINDOW)
        question = min(reading.max_question or _LONGEST_QUESTION, length // 3)
        room = length - question - 3
        stride = min(reading.stride or max(1, room // 2), room)
        return Answerer(
            model,
            tokenizer=tokenizer,
            cutting=Cutting(length, stride=stride, max_question=question),
            max_answer=reading.max_answer or _LONGEST_ANSWER,
            threshold=reading.threshold,
        )

    @property
    def longest_text(self) -> int:
        """Tokens of a text: what its positions are enough for, or fewer where its tokenizer stops before.

        Raises:
            RunError: tokenizer_config.json says something that is no number of tokens.
        """
        path = self.folder / "tokenizer_config.json"
        value = read_json_if_there(path).get("model_max_length", self.longest)
        if not isinstance(value, int | float) or isinstance(value, bool) or not value >= _SHORTEST:
            raise RunError(
                f"{path}: model_max_length = {value!r}: a text has at least {_SHORTEST} tokens; mend the file"
            )
        return int(min(value, self.longest))

    def _translator(self, model: nn.Module, source: Tokenizer, target: Tokenizer) -> Translator:
        return Translator(
            [model],
            source=source,
            target=target,
            search=build_search(self.generation, target),
            length=build_length(self.generation),
            max_source=self.longest,
            max_target=self.longest,
            generation=self.generation,
        )

    def _tokenizer(self, tensors: Mapping[str, Tensor]) -> Tokenizer | tuple[Tokenizer, Tokenizer]:
        kind = self.family.model_type
        source = tensors.get(_SOURCE, tensors.get(_TARGET))
        assert source is not None, "every model has a table of embeddings"
        sizes = len(source), len(tensors.get(_TARGET, source))
        if (own := self._own()) is not None:
            return own
        if self.family.task != "translation":
            return read_text_vocabulary(self.folder, kind=kind, size=sizes[0])
        start = token(self.settings, "decoder_start_token_id")
        if start is None:
            start = token(self.settings, "pad_token_id" if kind == "marian" else "eos_token_id")
        if start is None:
            raise RunError(f"{self.folder / CONFIG}: says nothing of decoder_start_token_id; take a complete copy")
        silent = forbidden(self.settings)
        if kind == "marian":
            return read_marian(self.folder, sizes=sizes, start=start, silent=silent)
        begins = token(self.settings, "bos_token_id")
        forced = token(self.settings, "forced_bos_token_id")
        if forced is None and self.settings.get("force_bos_token_to_be_generated"):
            forced = begins
        return (
            read_text_vocabulary(self.folder, kind=kind, size=sizes[0], side=Side(opening=begins)),
            read_text_vocabulary(self.folder, kind=kind, size=sizes[1], side=Side(forced, start, silent)),
        )

    def _own(self) -> Tokenizer | tuple[Tokenizer, Tokenizer] | None:
        """The vocabulary of ours that heedful put into a folder it wrote."""
        if (self.folder / OWN).exists():
            return load_tokenizer(self.folder / OWN)
        source, target = (self.folder / name for name in OWN_SIDES)
        return (load_tokenizer(source), load_tokenizer(target)) if source.exists() else None


def ready(
    origin: Origin,
    *,
    device: torch.device,
    engine: EngineName | None = None,
    say: Callable[[str], None] | None = None,
) -> nn.Module:
    """The model of an origin with its weights, arranged for use."""
    with unfilled():
        model: nn.Module = build(origin)
    return arranged(model, origin.tensors, place=str(origin.folder), device=device, engine=engine, say=say)


def require_layers(config: StackConfigs, tensors: int, *, place: str) -> None:
    """A `RunError` where a config.json speaks of more layers than there are tensors for."""
    for key in ("layers", "encoder_layers", "decoder_layers"):
        if (layers := getattr(config, key, 0)) > tensors:
            raise RunError(
                f"{place}: {CONFIG} speaks of {layers:,} layers, and there are {tensors:,} tensors; restore it"
            )


def build(origin: Origin) -> nn.Module:
    """A model that has a parameter for each tensor of an origin; of random numbers.

    Raises:
        ModelTooLargeError: it has no room in this machine's memory.
    """
    limit = memory_limit()
    with torch.random.fork_rng(devices=[]), limited(most_bytes=math.inf if limit is None else float(limit)):
        model = _plain(origin)
        if origin.adapter is not None:
            origin.adapter.put_on(model)
    return model


def _plain(origin: Origin) -> nn.Module:
    match origin.model:
        case EncoderConfig() as config:
            return _encoder(config, origin)
        case DecoderConfig() as config:
            assert isinstance(origin.size, int)
            return build_language_model(config, vocabulary=origin.size)
        case TransformerConfig() as config:
            assert isinstance(origin.size, tuple)
            return build_sequence_to_sequence(config, Sizes(*origin.size, max_length=512))
    assert_never(origin.model)


def _encoder(config: EncoderConfig, origin: Origin) -> nn.Module:
    """With the heads of pre-training that are there."""
    longest = config.longest
    assert isinstance(origin.size, int)
    sizes = {"vocabulary": origin.size, "longest": 512 if longest is None else longest.tokens}
    paired = "relation.weight" in origin.tensors
    model: nn.Module
    if "masked.dense.weight" in origin.tensors:
        model = build_masked_language_model(config, **sizes, paired=paired)
    elif "verdict.weight" in origin.tensors:
        model = build_detector_alone(config, **sizes)
    else:
        model = nn.Module()
        model.encoder = build_encoder(config, **sizes)
        if paired:
            model.relation = nn.Linear(config.d_model, 2)
    if "encoder.summary.dense.weight" in origin.tensors:
        model.get_submodule("encoder").summary = FirstToken(config.d_model)
    return model if origin.head is None else _headed(origin, model)


def _headed(origin: Origin, model: nn.Module) -> nn.Module:
    """With the head of a fine-tuned encoder instead, whose outputs are as many as its tensors say."""
    encoder, head = model.get_submodule("encoder"), origin.head
    assert head is not None
    assert isinstance(encoder, TransformerEncoder)
    output = nn.Linear(origin.model.d_model, len(origin.tensors["output.weight"]))
    if head.of in ("token", "ends"):
        return TokenClassifier(encoder, output=output)
    return TextClassifier(encoder, output=output)


def weight_files(folder: Path) -> list[Path]:
    """The files that a folder's tensors are in, in the order of their names.

    Raises:
        RunError: the list of them is damaged.
    """
    names = _indexed(folder)
    if names is None:
        return [folder / _WEIGHTS]
    for file in names.values():
        if Path(file).name != file:
            raise RunError(f"{folder / _INDEX}: names {file!r}, which is no file beside it; take another copy")
    return [folder / file for file in sorted(set(names.values()))]


def _indexed(folder: Path) -> dict[str, str] | None:
    """The file of each tensor, where a list says it."""
    if not (folder / _INDEX).exists():
        return None
    names = read_json(folder / _INDEX).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise RunError(f"{folder / _INDEX}: does not say where tensors are; take another copy of this file")
    return names


def read_tensors(folder: Path, *, auto: str = "AutoModel") -> dict[str, Tensor]:
    """All tensors of a folder, in single precision.

    Args:
        folder: where.
        auto: the class of transformers that reads all of such a model, for messages.

    Raises:
        RunError: there are none, they are pickled, or a file is missing or damaged.
    """
    names, files = _indexed(folder), weight_files(folder)
    if names is None and not (folder / _WEIGHTS).exists():
        known = (folder / name for name in _PICKLED if (folder / name).exists())
        if (pickled := next(known, pickled_file(folder))) is not None:
            raise RunError(
                f"{pickled}: heedful reads no pickled weights, because opening them may run a program; save "
                "the model as safetensors, with transformers: "
                f"{auto}.from_pretrained(FOLDER).save_pretrained(NEW, safe_serialization=True)"
            )
        raise RunError(f"{folder}: holds no {_WEIGHTS}; take a complete copy of this model")
    tensors: dict[str, Tensor] = {}
    for file in files:
        try:
            tensors |= read_file(file)
        except (OSError, SafetensorError, ValueError) as error:
            raise RunError(f"{file}: cannot be read ({reason(error)}); take a complete copy of this model") from None
    if names is not None and (lost := sorted(names.keys() - tensors.keys())):
        raise RunError(f"{folder}: {lost[0]} is in none of its files; take a complete copy of this model")
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
