"""Our models as folders that Hugging Face's transformers reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from heedful.architectures.attention import LearnedConfig, RotaryConfig
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.data.foreign_tokenizers import HuggingFace, MarianPieces
from heedful.data.tokenizers import PAD, SentencePiece, Tokenizer
from heedful.foreign.families.bart import BART
from heedful.foreign.families.bert import BERT
from heedful.foreign.families.electra import ELECTRA, detector_and_generator
from heedful.foreign.families.gpt2 import GPT2
from heedful.foreign.families.gpt_neox import GPT_NEOX
from heedful.foreign.families.heads import HEADS, place_of, without_head, written_head
from heedful.foreign.families.marian import MARIAN
from heedful.foreign.families.mean_heads import FILE as CODE
from heedful.foreign.families.mean_heads import auto_map, code_of
from heedful.foreign.families.roberta_prelayernorm import ROBERTA_PRELAYERNORM, behind_padding
from heedful.foreign.families.segments import with_only_segment
from heedful.foreign.families.settings import Family, StackConfigs
from heedful.foreign.vocabularies import OWN, OWN_SIDES
from heedful.store import save_tensors, whole_folder, write_json, write_whole
from heedful.tasks.origin import Origin

_LONGEST: Final = 1024
"""Positions that an exported Marian or GPT-NeoX has; ours has no limit of its own where positions are computed."""
ENCODERS: Final = (BERT, ROBERTA_PRELAYERNORM, ELECTRA)
_WRITERS: Final = (GPT2, GPT_NEOX)
GENERATOR: Final = "generator"
"""The folder inside of an exported one that holds the model which replaced tokens when a detector learned."""
_CLASSES: Final = {
    "bert": "BertTokenizer",
    "electra": "ElectraTokenizer",
    "gpt2": "GPT2Tokenizer",
    "bart": "BartTokenizer",
}


def save_hugging_face(origin: Origin, folder: str | Path, *, family: Family | None = None) -> tuple[str, ...]:
    """`export_hugging_face` of an origin that is already open; `family` chooses the kind of model."""
    origin.require_plain("transformers")
    origin.require_no_factors("transformers")
    if "verdict.weight" not in origin.tensors:
        with whole_folder(Path(folder), use="export to") as target:
            return _save(origin, target, family=family or family_for(origin.model))
    detector, generator = detector_and_generator(origin)
    with whole_folder(Path(folder), use="export to") as target:
        notes = _save(detector, target, family=ELECTRA)
        if not generator.tensors:  # of a folder that has none
            return notes
        (target / GENERATOR).mkdir()
        _save(generator, target / GENERATOR, family=ELECTRA)
        return (*notes, f"the model that replaced tokens in training is in {GENERATOR}")


def _save(origin: Origin, folder: Path, *, family: Family) -> tuple[str, ...]:
    """Writes one model into a folder that is there."""
    if family is ROBERTA_PRELAYERNORM:
        origin = behind_padding(origin, _pad(_both(origin)[0]) or 0)
    written, tensors = _written(origin, family)
    code = _code(origin, family)
    ids = _ids(origin, family)
    sizes = _sizes(origin)
    content: dict[str, Any] = {"model_type": family.model_type, **written, **sizes, **ids}
    if family in (MARIAN, GPT_NEOX):
        content["max_position_embeddings"] = _longest(origin)
    save_tensors(folder / "model.safetensors", tensors)
    write_json(folder / "config.json", content)
    if family not in ENCODERS:
        write_json(folder / "generation_config.json", {**ids, **_search(origin, family)})
    notes = _write_vocabularies(origin, family, folder)
    if code is not None:
        write_whole(folder / CODE, code.encode())
        notes.append(
            f"transformers has no class whose head reads the mean of all tokens: {CODE} has it, and from_pretrained of "
            "transformers reads it with trust_remote_code=True"
        )
    return tuple(notes)


def _code(origin: Origin, family: Family) -> str | None:
    """The class of a head that transformers lacks."""
    if origin.head is None or family.model_type not in HEADS:
        return None
    return code_of(family.model_type, place_of(family.model_type, origin.head, origin.tensors))


def _written(origin: Origin, family: Family) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What config.json says of the model, and its tensors."""
    origin = replace(origin, tensors=with_only_segment(origin.model, origin.tensors))
    head, table = origin.head, family.table(origin.model)
    if head is None or family.model_type not in HEADS:
        return family.write(origin.model, origin.tensors), table.write(origin.tensors)
    placed = place_of(family.model_type, head, origin.tensors)
    ours = without_head(placed, origin.tensors)
    told, outputs = written_head(head, placed, origin.tensors)
    if placed.reads_mean:
        told["auto_map"] = auto_map(placed)
    return family.write(origin.model, ours) | told, table.write(ours) | outputs


def family_for(model: StackConfigs) -> Family:
    """The kind of model that one of ours becomes."""
    match model:
        case EncoderConfig(residual="pre_norm"):
            return ROBERTA_PRELAYERNORM
        case EncoderConfig():
            return BERT
        case DecoderConfig(positions=RotaryConfig()):
            return GPT_NEOX
        case DecoderConfig():
            return GPT2
        case TransformerConfig(positions=LearnedConfig()):
            return BART
    return MARIAN


def pieces(tokenizer: Tokenizer) -> list[str]:
    """All pieces in the order of their ids."""
    return tokenizer.pieces(range(tokenizer.size))


def _both(origin: Origin) -> tuple[Tokenizer, Tokenizer]:
    return (origin.tokenizer, origin.tokenizer) if isinstance(origin.tokenizer, Tokenizer) else origin.tokenizer


def _sizes(origin: Origin) -> dict[str, int]:
    source, target = _both(origin)
    return {"vocab_size": source.size} | ({"decoder_vocab_size": target.size} if target.size != source.size else {})


def _longest(origin: Origin) -> int:
    longest = origin.model.longest
    return longest.tokens if longest is not None else origin.longest or _LONGEST


def _pad(tokenizer: Tokenizer) -> int | None:
    return tokenizer.pad if isinstance(tokenizer, HuggingFace | MarianPieces) else PAD


def _ids(origin: Origin, family: Family) -> dict[str, int | None]:
    source, target = _both(origin)
    found: dict[str, int | None] = {"pad_token_id": _pad(target)}
    if family in ENCODERS:
        return found
    special = target.special
    if family in _WRITERS:
        # what stands before a document is the end of the one before it
        return found | {"bos_token_id": special.eos, "eos_token_id": special.eos}
    begins = source.opening[0] if source.opening else special.bos
    return found | {
        "bos_token_id": begins,
        "eos_token_id": special.eos,
        "decoder_start_token_id": special.bos,
        "forced_bos_token_id": target.opening[0] if target.opening else None,
        "forced_eos_token_id": None,
    }


def _search(origin: Origin, family: Family) -> dict[str, Any]:
    """As our own search does, never write padding or a second begin of sentence."""
    if family in _WRITERS:
        return {}
    special = _both(origin)[1].special
    known = _both(origin)[1]
    never = [number for number in special.unspeakable if number < getattr(known, "known", known.size)]
    return {"bad_words_ids": [[number] for number in never], "max_length": _longest(origin)} if never else {}


def _write_vocabularies(origin: Origin, family: Family, folder: Path) -> list[str]:
    """The vocabulary files; what transformers cannot do with them."""
    source, target = _both(origin)
    if isinstance(source, HuggingFace):
        _write_theirs(source, origin, family=family, folder=folder)
        return []
    if not isinstance(source, MarianPieces):
        for name, tokenizer in (
            zip(OWN_SIDES, (source, target), strict=True) if family in (MARIAN, BART) else [(OWN, source)]
        ):
            tokenizer.save(folder / name)
    if family is MARIAN:
        return _write_marian(source, target, folder)
    return [
        f"transformers has no tokenizer for this vocabulary; it takes the ids that heedful gives, {OWN} holds it"
        if family in (*ENCODERS, *_WRITERS)
        else f"transformers has no tokenizer for this vocabulary; {' and '.join(OWN_SIDES)} hold it"
    ]


def _write_theirs(tokenizer: HuggingFace, origin: Origin, *, family: Family, folder: Path) -> None:
    write_json(folder / "tokenizer.json", tokenizer.content)
    is_word_piece = tokenizer.content["model"].get("type") == "WordPiece"
    named = _CLASSES.get(family.model_type, "BertTokenizer" if is_word_piece else "RobertaTokenizer")
    write_json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": named, "model_max_length": _longest(origin), **tokenizer.names},
    )


def _write_marian(source: Tokenizer, target: Tokenizer, folder: Path) -> list[str]:
    separate = pieces(source) != pieces(target)
    lists = {"vocab.json": source, **({"target_vocab.json": target} if separate else {})}
    for name, tokenizer in lists.items():
        own = tokenizer.ids if isinstance(tokenizer, MarianPieces) else None
        write_json(folder / name, own or {piece: number for number, piece in enumerate(pieces(tokenizer))})
    special = {"eos": target.special.eos, "unk": target.special.unk, "pad": _pad(target)}
    if not isinstance(target, MarianPieces):
        special["bos"] = target.special.bos
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "MarianTokenizer",
            "separate_vocabs": separate,
            "model_max_length": _LONGEST,
            **{f"{name}_token": target.pieces([number])[0] for name, number in special.items() if number is not None},
        },
    )
    for side, tokenizer in (("source", source), ("target", target)):
        if not isinstance(tokenizer, SentencePiece | MarianPieces):
            return [
                "transformers cuts text for Marian with sentencepiece alone; it takes the ids that heedful gives, "
                f"{' and '.join(OWN_SIDES)} hold the vocabularies"
            ]
        (folder / f"{side}.spm").write_bytes(tokenizer.model)
    return []
