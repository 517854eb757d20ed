"""Export of heedful models as folders for Hugging Face's transformers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.atomic_io import atomic_folder, save_tensors, write_atomic, write_json
from heedful.data.pretrained_tokenizers import (
    HuggingFaceTokenizer,
    MappedSentencePieceTokenizer,
    PretrainedTokenizer,
)
from heedful.data.tokenizers import PAD, SentencePieceTokenizer, Tokenizer
from heedful.foreign.families.bert import add_position_offset, add_single_segment
from heedful.foreign.families.electra import ELECTRA, split_detector_and_generator
from heedful.foreign.families.heads import MODELING_FILE as CODE
from heedful.foreign.families.heads import build_auto_map, build_modeling_code, drop_head_tensors, export_head
from heedful.foreign.families.model_family import ModelConfig, ModelFamily, find_unsupported
from heedful.foreign.families.registry import EXPORTED_FAMILIES
from heedful.foreign.folder_files import BYTE_CLASS, HEEDFUL_SIDES, HEEDFUL_VOCABULARY
from heedful.tasks.portable_model import PortableModel

_DEFAULT_MAX_POSITIONS: Final = 1024
"""Number of positions of an exported Marian or GPT-NeoX, because heedful has no limit if positions are computed."""
_TOKENIZER_CLASSES: Final = {
    "WordPiece": "BertTokenizer",
    "ByteLevel": "RobertaTokenizer",
    "Metaspace": "PreTrainedTokenizerFast",
}
"""Tokenizer classes of families that have none of their own, by how pieces show where words begin."""
_PARTS: Final = ("d_embedding", "share_layers", "distance_bias")
"""Settings that add or remove parts of a model."""
GENERATOR_FOLDER: Final = "generator"
"""Subfolder of an exported detector that holds the generator, which replaced tokens in training."""


def save_hugging_face(
    origin: PortableModel, folder: str | Path, *, family: ModelFamily | None = None
) -> tuple[str, ...]:
    """Export a model into a new or empty folder for transformers, and return notes for the user. `family` is the model
    family to write, by default that of `choose_family`; a detector of replaced tokens is always ELECTRA.
    """
    origin.require_no_adapter("transformers")
    origin.require_no_factors("transformers")
    if "verdict.weight" not in origin.tensors:
        with atomic_folder(Path(folder), purpose="export to") as target:
            return _save_model(origin, target, family=family or choose_family(origin.model))
    detector, generator = split_detector_and_generator(origin)
    with atomic_folder(Path(folder), purpose="export to") as target:
        notes = _save_model(detector, target, family=ELECTRA)
        if not generator.tensors:  # of a folder that has none
            return notes
        (target / GENERATOR_FOLDER).mkdir()
        _save_model(generator, target / GENERATOR_FOLDER, family=ELECTRA)
        return (*notes, f"the model that replaced tokens in training is in {GENERATOR_FOLDER}")


def _save_model(origin: PortableModel, folder: Path, *, family: ModelFamily) -> tuple[str, ...]:
    """Write the model `origin` into an existing folder, in the format of a family, and return notes for the user."""
    if family.position_offset is not None:
        origin = add_position_offset(origin, family.position_offset(_pad_id(_tokenizer_pair(origin)[0]) or 0))
    model_content, tensors = _export_config_and_tensors(origin, family)
    code = _build_model_code(origin, family)
    ids = _special_ids(origin, family)
    sizes = _vocab_sizes(origin)
    content: dict[str, Any] = {"model_type": family.model_type, **model_content, **sizes, **ids}
    if family.computes_positions:
        content["max_position_embeddings"] = _max_positions(origin)
    save_tensors(folder / "model.safetensors", tensors)
    write_json(folder / "config.json", content)
    if family.config_class is not EncoderConfig:
        write_json(folder / "generation_config.json", {**ids, **_search_settings(origin, family)})
    notes = _write_vocabularies(origin, family, folder)
    if code is not None:
        write_atomic(folder / CODE, code.encode())
        notes.append(
            f"transformers has no class whose head reads the mean of all tokens: {CODE} contains one, and "
            "from_pretrained of transformers loads it with trust_remote_code=True"
        )
    return tuple(notes)


def _build_model_code(origin: PortableModel, family: ModelFamily) -> str | None:
    """Return the code of a model class that transformers lacks for the head of `origin`; None if it has the class."""
    if origin.head is None or not family.heads.locations:
        return None
    prefix = family.build_mapping(origin.model).prefix.removesuffix(".")
    return build_modeling_code(prefix, family.heads.locate_head(origin.head, origin.tensors))


def _export_config_and_tensors(origin: PortableModel, family: ModelFamily) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the entries of config.json for the architecture and head of `origin`, and its tensors by the names of the
    family.
    """
    if family.has_segments:
        origin = replace(origin, tensors=add_single_segment(origin.model, origin.tensors))
    head, table = origin.head, family.build_mapping(origin.model)
    if head is None or not family.heads.locations:
        return family.write_config(origin.model, origin.tensors), table.export_tensors(origin.tensors)
    head_location = family.heads.locate_head(head, origin.tensors)
    base_tensors = drop_head_tensors(head_location, origin.tensors)
    head_content, outputs = export_head(head, head_location, origin.tensors)
    if head_location.reads_mean:
        head_content["auto_map"] = build_auto_map(head_location)
    return family.write_config(origin.model, base_tensors) | head_content, table.export_tensors(base_tensors) | outputs


def choose_family(model: ModelConfig) -> ModelFamily:
    """Return the model family that a heedful configuration is exported as: the first that supports it, or the one with
    the fewest settings that it does not support.
    """

    def count_differences(family: ModelFamily) -> tuple[int, int]:
        """Return how many parts of the architecture, and how many settings, the family does not support."""
        unsupported = find_unsupported(model, family.exportable)
        return sum(key.endswith(".kind") or key in _PARTS for key in unsupported), len(unsupported)

    return min(
        (family for family in EXPORTED_FAMILIES if isinstance(model, family.config_class)), key=count_differences
    )


def list_pieces(tokenizer: Tokenizer) -> list[str]:
    """List all pieces of a vocabulary in the order of their ids."""
    return tokenizer.to_pieces(range(tokenizer.size))


def _tokenizer_pair(origin: PortableModel) -> tuple[Tokenizer, Tokenizer]:
    """Return source and target tokenizer; the same one twice if the model has one."""
    return (origin.tokenizer, origin.tokenizer) if isinstance(origin.tokenizer, Tokenizer) else origin.tokenizer


def _vocab_sizes(origin: PortableModel) -> dict[str, int]:
    """Return the vocabulary size for config.json, and that of the target if it differs."""
    source, target = _tokenizer_pair(origin)
    return {"vocab_size": source.size} | ({"decoder_vocab_size": target.size} if target.size != source.size else {})


def _max_positions(origin: PortableModel) -> int:
    """Return the number of positions for config.json: that of the model or, without a limit, the number that it was
    trained for, or 1,024.
    """
    limit = origin.model.length_limit
    return limit.tokens if limit is not None else origin.max_tokens or _DEFAULT_MAX_POSITIONS


def _pad_id(tokenizer: Tokenizer) -> int | None:
    return tokenizer.pad_id if isinstance(tokenizer, PretrainedTokenizer) else PAD


def _special_ids(origin: PortableModel, family: ModelFamily) -> dict[str, int | None]:
    """Return the entries of config.json for special tokens: padding for an encoder, also begin and end for decoders,
    and the tokens that begin a translation.
    """
    source, target = _tokenizer_pair(origin)
    ids: dict[str, int | None] = {"pad_token_id": _pad_id(target)}
    if family.config_class is EncoderConfig:
        return ids
    special = target.special
    if family.config_class is DecoderConfig:
        # before a document comes the end of the previous one
        return ids | {"bos_token_id": special.eos, "eos_token_id": special.eos}
    bos_id = source.prefix_ids[0] if source.prefix_ids and family.opens_source else special.bos
    return ids | {
        "bos_token_id": bos_id,
        "eos_token_id": special.eos,
        "decoder_start_token_id": special.bos,
        "forced_bos_token_id": target.prefix_ids[0] if target.prefix_ids else None,
        "forced_eos_token_id": None,
    }


def _search_settings(origin: PortableModel, family: ModelFamily) -> dict[str, Any]:
    """Return the generation settings of a translation model, which forbid the tokens that heedful's own search never
    writes: padding and a second begin of sentence. They are empty for a language model.
    """
    if family.config_class is DecoderConfig:
        return {}
    _, tokenizer = _tokenizer_pair(origin)
    size = getattr(tokenizer, "num_known_ids", tokenizer.size)
    forbidden = [[number] for number in tokenizer.special.suppressed_ids if number < size]
    return {"bad_words_ids": forbidden, "max_length": _max_positions(origin)} if forbidden else {}


def _write_vocabularies(origin: PortableModel, family: ModelFamily, folder: Path) -> list[str]:
    """Write the vocabulary files of `origin`, in the family's format if there is one for its tokenizer, and in
    heedful's if heedful trained it; return notes on what transformers cannot do with them.
    """
    source, target = _tokenizer_pair(origin)
    if isinstance(source, PretrainedTokenizer) and not family.has_side_vocabularies:
        _write_pretrained_tokenizer(source, origin, family=family, folder=folder)
        return []
    if not isinstance(source, MappedSentencePieceTokenizer):
        for name, tokenizer in (
            zip(HEEDFUL_SIDES, (source, target), strict=True)
            if family.task == "translation"
            else [(HEEDFUL_VOCABULARY, source)]
        ):
            tokenizer.save(folder / name)
    if family.has_side_vocabularies:
        return _write_marian_vocabulary(source, target, folder)
    return [
        f"transformers has no tokenizer for this vocabulary; give it token ids from heedful; {HEEDFUL_VOCABULARY} "
        "holds the vocabulary"
        if family.task != "translation"
        else f"transformers has no tokenizer for this vocabulary; {' and '.join(HEEDFUL_SIDES)} hold it"
    ]


def _write_pretrained_tokenizer(
    tokenizer: PretrainedTokenizer, origin: PortableModel, *, family: ModelFamily, folder: Path
) -> None:
    """Write tokenizer_config.json and the vocabulary files of a tokenizer that came with a published model; `origin` is
    the exported model.
    """
    settings: dict[str, Any] = {"model_max_length": _max_positions(origin)}
    if isinstance(tokenizer, HuggingFaceTokenizer):
        write_json(folder / "tokenizer.json", tokenizer.content)
        settings |= {
            "tokenizer_class": family.tokenizer_class or _TOKENIZER_CLASSES[tokenizer.model_kind],
            **tokenizer.special_token_names,
        }
    elif isinstance(tokenizer, MappedSentencePieceTokenizer):
        write_atomic(folder / family.sentencepiece_file, tokenizer.model)
        write_json(folder / "vocab.json", tokenizer.ids)
        settings |= {"tokenizer_class": family.sentencepiece_class or family.tokenizer_class, **family.special_tokens}
        special_ids = tokenizer.special.skipped_ids
        settings["additional_special_tokens"] = [
            piece for piece, number in tokenizer.ids.items() if number in special_ids
        ]
    else:
        settings["tokenizer_class"] = BYTE_CLASS
    if languages := family.find_languages(tokenizer.ids):
        settings["bos_token"] = family.special_tokens["bos_token"]  # a language that begins texts is none
        settings["src_lang"] = next((name for name, n in languages.items() if n in tokenizer.prefix_ids), None)
    write_json(folder / "tokenizer_config.json", settings)


def _write_marian_vocabulary(source: Tokenizer, target: Tokenizer, folder: Path) -> list[str]:
    """Write vocab.json and the SentencePiece models of the source and target tokenizers of a Marian folder; return a
    note if one of them is not SentencePiece.
    """
    separate = list_pieces(source) != list_pieces(target)
    files = {"vocab.json": source, **({"target_vocab.json": target} if separate else {})}
    for name, tokenizer in files.items():
        ids = tokenizer.ids if isinstance(tokenizer, MappedSentencePieceTokenizer) else None
        write_json(folder / name, ids or {piece: number for number, piece in enumerate(list_pieces(tokenizer))})
    special = {"eos": target.special.eos, "unk": target.special.unk, "pad": _pad_id(target)}
    if not isinstance(target, MappedSentencePieceTokenizer):
        special["bos"] = target.special.bos
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "MarianTokenizer",
            "separate_vocabs": separate,
            "model_max_length": _DEFAULT_MAX_POSITIONS,
            **{
                f"{name}_token": target.to_pieces([number])[0] for name, number in special.items() if number is not None
            },
        },
    )
    for side, tokenizer in (("source", source), ("target", target)):
        if not isinstance(tokenizer, SentencePieceTokenizer | MappedSentencePieceTokenizer):
            return [
                "transformers splits text for Marian with sentencepiece only; give it token ids from heedful; "
                f"{' and '.join(HEEDFUL_SIDES)} hold the vocabularies"
            ]
        (folder / f"{side}.spm").write_bytes(tokenizer.model)
    return []
