"""Reading and writing Hugging Face folders of speech recognition models (Whisper)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NoReturn

import torch
from torch import Tensor, nn

from heedful.architectures.build import build_frame_encoder, build_memory_decoder
from heedful.architectures.frames import FrameTransformerConfig
from heedful.atomic_io import atomic_folder, save_tensors, write_json
from heedful.data.pretrained_tokenizers import HuggingFaceTokenizer, PretrainedTokenizer
from heedful.data.sound import PaddedLogMel
from heedful.engines.int8_weights import split_int8
from heedful.engines.select_engine import prepare_for_inference
from heedful.errors import RunError
from heedful.foreign.families.whisper import WHISPER
from heedful.foreign.folder_files import (
    TranslationSide,
    read_forbidden_tokens,
    read_json_or_empty,
    read_text_vocabulary,
    read_token_id,
)
from heedful.foreign.folders import CONFIG_FILE
from heedful.foreign.hugging_face import HuggingFaceFolder, require_enough_tensors
from heedful.foreign.quantized_folders import copy_files_except_weights, read_folder_weights
from heedful.models.generative import SequenceToSequence
from heedful.models.parameters import skip_initialization
from heedful.recipes.generation import GreedyConfig
from heedful.recipes.recipe import EngineName
from heedful.tasks.portable_model import PortableModel, PretrainedSource
from heedful.tasks.speech.prompted import TASKS, PromptedRecognizer, SpeechPrompt, build_prompted_recognizer
from heedful.tensors import SOURCE, FeatureBatch

_PREPROCESSOR_FILES: Final = ("preprocessor_config.json", "processor_config.json")
_FRAME_KEYS: Final[Mapping[str, tuple[str, int]]] = {
    "sampling_rate": ("rate", 16000),
    "feature_size": ("bands", 80),
    "n_fft": ("frame_length", 400),
    "hop_length": ("hop_length", 160),
    "chunk_length": ("seconds", 30),
}
"""Keys of a preprocessor, with the attributes of `PaddedLogMel` and their values if they are not given."""
_TABLE: Final = "decoder.stack.embedding.table.weight"
_LANGUAGE_PIECE: Final = re.compile(r"<\|([a-z]{2,3})\|>")
_CONTROL_PIECE: Final = re.compile(r"<\|.*\|>")
_TIME_PIECE: Final = re.compile(r"<\|\d+\.\d\d\|>")
_NO_TIMESTAMPS: Final = "<|notimestamps|>"
_MULTILINGUAL_SIZE: Final = 51865
"""Size of the smallest vocabulary of a model of many languages; those of English have fewer pieces."""


@dataclass(frozen=True)
class SpeechModel:
    """A speech recognition model, independent of the format of its files.

    Attributes:
        folder: its run folder or Hugging Face folder; an export copies the files of a Hugging Face folder.
        config: its architecture.
        frontend: computes its frames.
        tensors: its parameters by heedful's names.
        tokenizer: its vocabulary; None for a Hugging Face folder, whose vocabulary files are copied.
        max_length: tokens of the longest text, prompt and end included; 0 if `tokenizer` is None.
    """

    folder: Path
    config: FrameTransformerConfig
    frontend: PaddedLogMel
    tensors: Mapping[str, Tensor]
    tokenizer: HuggingFaceTokenizer | None = None
    max_length: int = 0

    def build(self) -> SequenceToSequence[FeatureBatch]:
        """Build a model with a parameter for each tensor, of arbitrary values."""
        decoder_config = self.config.decoder
        assert decoder_config is not None
        vocabulary, slots = len(self.tensors[_TABLE]), self.frontend.num_frames // self.config.frames_per_slot
        with skip_initialization():
            encoder = build_frame_encoder(self.config, bands=self.frontend.bands, longest=slots)
            decoder, output = build_memory_decoder(
                decoder_config, vocabulary=vocabulary, slots={SOURCE: self.config.d_output}, longest=slots
            )
        return SequenceToSequence(encoder, decoder, output=output)


@dataclass(frozen=True)
class SpeechFolder(HuggingFaceFolder):
    """A Hugging Face folder of Whisper."""

    @cached_property
    def origin(self) -> NoReturn:
        """Raise `RunError`, because the model reads no text."""
        raise RunError(
            f"{self.folder}: its model is of the kind whisper; only Transformers that read or write text can be used: "
            "give a folder that has one"
        )

    @cached_property
    def speech_model(self) -> SpeechModel:
        """Configuration, frontend and tensors by heedful's names.

        Raises:
            RunError: a part is missing, damaged, or has no counterpart in heedful.
        """
        location, weights = str(self.folder), read_folder_weights(self.folder)
        config: FrameTransformerConfig = self.family.read_config(
            self.content, weights.names, str(self.folder / CONFIG_FILE)
        )
        require_enough_tensors(config, len(weights.names), location=location)
        mapping = self.family.build_mapping(config)
        tensors = weights.convert(
            lambda published: mapping.import_tensors(_add_key_biases(published), location=location)
        )
        frontend = self._read_frontend()
        positions = tensors["encoder.encoder.stack.embedding.position.table.weight"]
        if frontend.num_frames != config.frames_per_slot * len(positions):
            raise RunError(
                f"{self.folder}: {frontend.num_frames} frames of {frontend.seconds} s need "
                f"{frontend.num_frames // config.frames_per_slot} positions, and max_source_positions is "
                f"{len(positions)}; take a complete copy"
            )
        return SpeechModel(self.folder, config, frontend, tensors)

    @property
    def weights(self) -> Mapping[str, Tensor]:
        """The weights by heedful's names."""
        return self.speech_model.tensors

    def build_model(self) -> nn.Module:
        """Build the model with arbitrary parameter values."""
        return self.speech_model.build()

    @cached_property
    def tokenizer(self) -> PretrainedTokenizer:
        """The vocabulary; its tags are the languages, and its texts begin with the last ids of the prompt."""
        return self._read_vocabulary(len(self.speech_model.tensors[_TABLE]))

    @cached_property
    def predecessor(self) -> PretrainedSource:
        """The model in a form that another one can start from; its frames are settings of the recipe."""
        origin, frontend = self.speech_model, self.speech_model.frontend
        frames = {
            "rate": frontend.rate,
            "bands": frontend.bands,
            "window": frontend.window,
            "hop": frontend.hop,
            "seconds": frontend.seconds,
        }
        return PretrainedSource(
            self.folder,
            origin.config,
            (self.tokenizer,),
            origin.tensors,
            input_settings={f"data.frames.{key}": value for key, value in frames.items()},
        )

    def build_predictor(
        self,
        *,
        device: torch.device,
        step: int | None = None,
        engine: EngineName | None = None,
        log: Callable[[str], None] | None = None,
        adapt: Callable[[PortableModel], PortableModel] | None = None,
    ) -> PromptedRecognizer:
        """Build the speech recogniser of the model; see `HuggingFaceFolder.build_predictor`.

        Raises:
            RunError: a file is missing or damaged, or the model is to be adapted.
        """
        self.require_no_step(step)
        if adapt is not None:
            raise RunError(f"{self.folder}: is a model of speech, and adapters are for models of text; leave it out")
        origin = self.speech_model
        tokenizer = self.tokenizer
        model = prepare_for_inference(
            origin.build(), *split_int8(origin.tensors), origin=str(self.folder), device=device, engine=engine, log=log
        )
        positions = len(origin.tensors["decoder.stack.embedding.position.table.weight"])
        return build_prompted_recognizer(
            model,
            tokenizer,
            frontend=origin.frontend,
            generation=GreedyConfig(),
            frames_per_slot=origin.config.frames_per_slot,
            max_length=positions - 1,
        )

    def _read_frontend(self) -> PaddedLogMel:
        """Read how frames are computed; raise RunError if a number is none."""
        path = next((path for name in _PREPROCESSOR_FILES if (path := self.folder / name).exists()), None)
        content = {} if path is None else read_json_or_empty(path)
        content = content.get("feature_extractor", content)
        bands = self.content.get("num_mel_bins", 80)
        values = {"bands": bands}
        for key, (attribute, default) in _FRAME_KEYS.items():
            value = content.get(key, bands if attribute == "bands" else default)
            if type(value) is not int or value < 1:
                raise RunError(f"{path}: {key} = {value!r}: must be a whole number above 0; take another copy")
            values[attribute] = value
        if values["bands"] != bands:
            raise RunError(
                f"{path}: feature_size = {values['bands']}: the model reads num_mel_bins = {bands}; take another copy"
            )
        return PaddedLogMel(**values)

    def _read_vocabulary(self, size: int) -> PretrainedTokenizer:
        """Read the vocabulary of `size` pieces; its tags are the languages, and its texts begin with the last ids of
        the prompt that the model was trained with.
        """
        settings = self.generation_settings
        start = read_token_id(settings, "decoder_start_token_id")
        side = TranslationSide(start=start, forbidden=read_forbidden_tokens(settings))
        tokenizer = read_text_vocabulary(self.folder, family=self.family, size=size, side=side)
        pieces = dict(zip(tokenizer.to_pieces(range(size)), range(size), strict=True))
        control_ids = {number for piece, number in pieces.items() if _CONTROL_PIECE.fullmatch(piece)}
        is_multilingual = settings.get("is_multilingual", size >= _MULTILINGUAL_SIZE)
        has_tasks = all(f"<|{task}|>" in pieces for task in TASKS)
        languages = {
            piece: number
            for piece, number in pieces.items()
            if is_multilingual and has_tasks and _LANGUAGE_PIECE.fullmatch(piece)
        }
        start_ids = settings.get("begin_suppress_tokens") or []
        if not isinstance(start_ids, list) or not all(type(each) is int and 0 <= each < size for each in start_ids):
            raise RunError(
                f"{self.folder}: begin_suppress_tokens: is not a list of ids; correct generation_config.json"
            )
        last_ids = (pieces[_NO_TIMESTAMPS],) if _NO_TIMESTAMPS in pieces else ()
        suppressed = tokenizer.with_suppressed_ids(frozenset(control_ids), start_ids=start_ids)
        return suppressed.with_prefix(last_ids, tag_ids=languages)


def _add_key_biases(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a file, with biases of zeros for the projections of keys, which have none there."""
    biases = {
        name.removesuffix("weight") + "bias": weight.new_zeros(len(weight))
        for name, weight in tensors.items()
        if name.endswith("k_proj.weight")
    }
    return {**biases, **tensors}


def save_speech_model(origin: SpeechModel, folder: str | Path) -> None:
    """Write a model with its vocabulary, its frames and its prompt as a new or empty folder for transformers; of a
    Hugging Face folder the files are copied. A bias of keys is left out: it adds the same number to all scores of a
    query.

    Raises:
        RunError: Whisper does not have a setting of the model, or the folder is not empty.
    """
    content = WHISPER.write_config(origin.config, origin.tensors)
    tensors = WHISPER.build_mapping(origin.config).export_tensors(origin.tensors)
    with atomic_folder(Path(folder), purpose="export to") as target:
        if origin.tokenizer is None:
            copy_files_except_weights(origin.folder, target)
            content = read_json_or_empty(origin.folder / CONFIG_FILE) | content
        else:
            content |= _write_transformers_files(origin, origin.tokenizer, target)
        write_json(target / CONFIG_FILE, content)
        kept = {name: tensor for name, tensor in tensors.items() if not name.endswith("k_proj.bias")}
        save_tensors(target / "model.safetensors", kept)


def _write_transformers_files(origin: SpeechModel, tokenizer: HuggingFaceTokenizer, target: Path) -> dict[str, Any]:
    """Write the vocabulary, generation settings and frame settings of a model that heedful trained, in the files of
    transformers; return the keys to add to config.json.
    """
    prompt, special = SpeechPrompt.from_tokenizer(tokenizer), tokenizer.special
    ids = {
        "bos_token_id": special.eos,
        "eos_token_id": special.eos,
        "pad_token_id": special.eos,
        "decoder_start_token_id": special.bos,
    }
    suppressed_ids = [
        number
        for number, piece in zip(special.suppressed_ids, tokenizer.to_pieces(special.suppressed_ids), strict=True)
        if number < tokenizer.num_known_ids and not _TIME_PIECE.fullmatch(piece)
    ]
    languages = {f"<|{code}|>": number for code, number in prompt.languages.items()}
    settings: dict[str, Any] = {
        **ids,
        "max_length": origin.max_length - len(tokenizer.prefix_ids),  # which counts what follows the prompt
        "is_multilingual": bool(languages),
        "return_timestamps": False,
        "suppress_tokens": suppressed_ids,
        "begin_suppress_tokens": list(special.suppressed_start_ids),
    }
    if languages:
        settings |= {"lang_to_id": languages, "task_to_id": dict(prompt.task_ids)}
    if prompt.language is not None:
        task = "translate" if prompt.to_english else "transcribe"
        settings |= {"language": f"<|{prompt.language}|>", "task": task}
    if (number := tokenizer.ids.get(_NO_TIMESTAMPS)) is not None:
        settings["no_timestamps_token_id"] = number
    write_json(target / "generation_config.json", settings)
    write_json(target / "tokenizer.json", tokenizer.content)
    (end_piece,) = tokenizer.to_pieces([special.eos])
    names = dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), end_piece)
    write_json(target / "tokenizer_config.json", {"tokenizer_class": WHISPER.tokenizer_class, **names})
    frames = {key: getattr(origin.frontend, attribute) for key, (attribute, _) in _FRAME_KEYS.items()}
    write_json(target / _PREPROCESSOR_FILES[0], {"feature_extractor_type": "WhisperFeatureExtractor", **frames})
    return {
        **ids,
        "model_type": WHISPER.model_type,
        "architectures": ["WhisperForConditionalGeneration"],
        "vocab_size": tokenizer.size,
        "num_mel_bins": origin.frontend.bands,
    }
