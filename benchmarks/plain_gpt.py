"""A GPT and a training loop in plain torch, as the description of nanoGPT has them, without code of heedful."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


class PlainBlock(nn.Module):
    """Pre-norm attention and feed-forward; one product for queries, keys and values; torch's fused attention."""

    def __init__(self, d_model: int, *, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(d_model, bias=False)
        self.all_three = nn.Linear(d_model, 3 * d_model, bias=False)
        self.join = nn.Linear(d_model, d_model, bias=False)
        self.before_network = nn.LayerNorm(d_model, bias=False)
        self.inner = nn.Linear(d_model, 4 * d_model, bias=False)
        self.outer = nn.Linear(4 * d_model, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.share = dropout

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        query, key, value = (
            part.view(rows, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.all_three(self.before_attention(x)).split(width, dim=2)
        )
        context = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, dropout_p=self.share if self.training else 0.0
        )
        x = x + self.dropout(self.join(context.transpose(1, 2).contiguous().view(rows, length, width)))
        return x + self.dropout(self.outer(functional.gelu(self.inner(self.before_network(x)))))


class PlainGpt(nn.Module):
    """GPT that returns the mean loss of a batch; embedding and output share their weights."""

    def __init__(self, vocabulary: int, d_model: int, *, heads: int, layers: int, length: int, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, d_model)
        self.places = nn.Embedding(length, d_model)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(PlainBlock(d_model, heads=heads, dropout=dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(d_model, bias=False)
        self.output = nn.Linear(d_model, vocabulary, bias=False)
        self.output.weight = self.words.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                last = name.endswith(("join.weight", "outer.weight"))
                nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * layers) if last else 1))

    def forward(self, ids: Tensor, labels: Tensor) -> Tensor:
        x = self.dropout(self.words(ids) + self.places(torch.arange(ids.size(1), device=ids.device)))
        for block in self.blocks:
            x = block(x)
        logits = self.output(self.norm(x))
        return functional.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1), ignore_index=-1)


class PlainLoop:
    """Loop over random pieces: loss, backward pass, clipping, AdamW, fused or not; it reads every tenth loss."""

    def __init__(
        self, model: PlainGpt, stream: np.ndarray, *, rows: int, length: int, rate: float, fused: bool
    ) -> None:
        self.model = model.train()
        self.stream = stream
        self.rows, self.length, self.rate = rows, length, rate
        matrices = [p for p in model.parameters() if p.dim() >= 2]
        vectors = [p for p in model.parameters() if p.dim() < 2]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
        self.adam = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.99), fused=fused or None)
        self.loss = math.nan

    def train(self, updates: int) -> None:
        for number in range(updates):
            for group in self.adam.param_groups:
                group["lr"] = self.rate
            ids, labels = self._draw_batch()
            loss = self.model(ids, labels)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.adam.step()
            self.adam.zero_grad(set_to_none=True)
            if number % 10 == 0 or number == updates - 1:
                self.loss = loss.item()

    def _draw_batch(self) -> tuple[Tensor, Tensor]:
        starts = torch.randint(len(self.stream) - self.length, (self.rows,))
        read, written = (
            torch.stack(
                [torch.from_numpy(self.stream[i + shift : i + shift + self.length].astype(np.int64)) for i in starts]
            )
            for shift in (0, 1)
        )
        return read, written
