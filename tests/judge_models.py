"""Small judges of translations in the format of transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from heedful.architectures.build import build_text_classifier
from heedful.architectures.classifiers import EncoderClassifierConfig
from heedful.data.tokenizers import learn_words
from heedful.foreign.hugging_face_export import save_hugging_face
from heedful.tasks.portable_model import OutputHead, PortableModel

_MODEL: Final = {"d_model": 16, "heads": 2, "d_ff": 24, "layers": 2, "summary": {"kind": "first"}}
_NUMBER: Final = OutputHead("number")


def create_untrained_judge(folder: Path, texts: Sequence[str], *, head: OutputHead = _NUMBER, length: int = 40) -> Path:
    """Create a judge with random weights and the words of some texts."""
    words = learn_words(texts, size=None, lowercase=False, masked=True)
    positions = {"kind": "learned", "length": length}
    config = EncoderClassifierConfig.model_validate({**_MODEL, "positions": positions})
    outputs = len(head.class_names) or 1
    model: nn.Module = build_text_classifier(config, vocabulary=words.size, longest=length, outputs=outputs)
    torch.manual_seed(1)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    tensors = {name: parameter.detach() for name, parameter in model.named_parameters()}
    save_hugging_face(PortableModel(Path("run"), config, words, tensors, head=head), folder)
    return folder


def update_json(path: Path, **content: Any) -> None:
    """Update the values of a JSON file; None deletes a key."""
    found = json.loads(path.read_text()) if path.exists() else {}
    found |= content
    path.write_text(json.dumps({key: value for key, value in found.items() if value is not None}))
