"""Model code for heads that read the mean of all tokens, which transformers has no class for; saved beside the
weights.
"""

from __future__ import annotations

from typing import Final

from heedful.foreign.families.heads import HeadLocation

MODELING_FILE: Final = "modeling_heedful.py"
"""Name of the file with the model classes, in the folder of a model."""
_AUTO: Final = {
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForMultipleChoice": "AutoModelForMultipleChoice",
}
_CODE_TEMPLATE: Final = '''"""An encoder whose head reads the mean of the vectors of all tokens; written by heedful."""

import torch
from torch.nn import functional
from transformers import {name}Model, {name}PreTrainedModel
from transformers.modeling_outputs import MultipleChoiceModelOutput, SequenceClassifierOutput


class _Mean({name}PreTrainedModel):
    def __init__(self, config, outputs):
        super().__init__(config)
        self.{prefix} = {name}Model(config, add_pooling_layer=False)
        self.classifier = torch.nn.Linear(config.hidden_size, outputs)
        self.post_init()

    def said(self, input_ids, attention_mask, token_type_ids, position_ids):
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        hidden = self.{prefix}(
            input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids, position_ids=position_ids
        ).last_hidden_state
        real = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return self.classifier((hidden * real).sum(1) / real.sum(1).clamp(min=1))


class {name}MeanForSequenceClassification(_Mean):
    def __init__(self, config):
        super().__init__(config, config.num_labels)

    def forward(
        self, input_ids, attention_mask=None, token_type_ids=None, position_ids=None, labels=None, **_
    ):
        logits = self.said(input_ids, attention_mask, token_type_ids, position_ids)
        if labels is None:
            return SequenceClassifierOutput(logits=logits)
        if self.config.problem_type == "regression":
            loss = functional.mse_loss(logits.squeeze(-1), labels.to(logits.dtype).view(-1))
        elif self.config.problem_type == "multi_label_classification":
            loss = functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
        else:
            loss = functional.cross_entropy(logits, labels.view(-1))
        return SequenceClassifierOutput(loss=loss, logits=logits)


class {name}MeanForMultipleChoice(_Mean):
    def __init__(self, config):
        super().__init__(config, 1)

    def forward(
        self, input_ids, attention_mask=None, token_type_ids=None, position_ids=None, labels=None, **_
    ):
        rows, choices = input_ids.shape[:2]
        given = (input_ids, attention_mask, token_type_ids, position_ids)
        flat = (None if each is None else each.flatten(0, 1) for each in given)
        logits = self.said(*flat).view(rows, choices)
        loss = None if labels is None else functional.cross_entropy(logits, labels)
        return MultipleChoiceModelOutput(loss=loss, logits=logits)
'''


def build_modeling_code(model_type: str, head_location: HeadLocation) -> str | None:
    """Return the content of `FILE` for a head that reads the mean; None if transformers has the class itself."""
    if not head_location.reads_mean:
        return None
    return _CODE_TEMPLATE.format(
        name=head_location.architecture.partition("MeanFor")[0], prefix=model_type.replace("-", "_")
    )


def build_auto_map(head_location: HeadLocation) -> dict[str, str]:
    """Return the `auto_map` entry of config.json, by which transformers finds the class in that file."""
    suffix = "For" + head_location.architecture.partition("MeanFor")[2]
    return {_AUTO[suffix]: f"{MODELING_FILE.removesuffix('.py')}.{head_location.architecture}"}
