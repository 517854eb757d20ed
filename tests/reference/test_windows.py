"""Kim 2014 in plain loops: the features of windows, and their maximum."""

from __future__ import annotations

import torch

from heedful.blocks.embedding import TokenEmbedding, build_embedding
from heedful.models.convolutional import ConvWindow, WindowEncoder
from heedful.tensors import Tokens

D_MODEL, WIDTHS, FEATURES = 5, (1, 3), 4


def build_encoder() -> WindowEncoder:
    torch.manual_seed(4)
    embedding = TokenEmbedding(build_embedding(9, D_MODEL), scaled=False)
    return WindowEncoder(embedding, [ConvWindow(D_MODEL, width, features=FEATURES) for width in WIDTHS]).double().eval()


@torch.no_grad()
def compute_windows(encoder: WindowEncoder, text: list[int]) -> torch.Tensor:
    """Compute the features of all widths for one text, [T, features], number by number."""
    vectors = [encoder.embedding.table.weight[token] for token in text]
    vectors += [torch.zeros(D_MODEL).double()] * max(WIDTHS)
    rows = []
    for at in range(len(text)):
        row = []
        for windows in encoder.windows:
            assert isinstance(windows, ConvWindow)
            window = torch.cat(vectors[at : at + windows.width])
            for weight, bias in zip(windows.linear.weight, windows.linear.bias, strict=True):
                row.append(max(0.0, float(weight @ window + bias)))
        rows.append(row)
    return torch.tensor(rows).double()


@torch.no_grad()
def test_slots_are_features_of_windows_and_the_summary_is_their_maximum() -> None:
    encoder = build_encoder()
    for text in ([3, 4, 5, 6, 7], [8], [2, 2]):
        memory = encoder(Tokens.from_ids(torch.tensor([text]), pad=0))
        expected = compute_windows(encoder, text)
        torch.testing.assert_close(memory.values[0], expected)
        mean = encoder.embedding.table.weight[torch.tensor(text)].mean(0)
        torch.testing.assert_close(memory.summary[0], torch.cat((expected.amax(0), mean)))
        assert memory.summary.size(1) == encoder.d_summary
        assert memory.values.size(2) == encoder.d_slot


@torch.no_grad()
def test_other_texts_and_padding_do_not_matter() -> None:
    encoder = build_encoder()
    for windows in encoder.windows:
        assert isinstance(windows, ConvWindow)
        torch.nn.init.ones_(windows.linear.bias)  # so that windows would find something in the padding
    ids = torch.tensor([[3, 4, 5, 6, 7, 8], [0, 0, 0, 3, 5, 4], [7, 6, 0, 0, 0, 0]])
    tokens = Tokens.from_ids(ids, pad=0)
    together = encoder(tokens)
    for row, text in enumerate(([3, 4, 5, 6, 7, 8], [3, 5, 4], [7, 6])):
        alone = encoder(Tokens.from_ids(torch.tensor([text]), pad=0))
        torch.testing.assert_close(together.values[row, tokens.positions[row] >= 0], alone.values[0])
        torch.testing.assert_close(together.summary[row], alone.summary[0])


def test_later_tokens_are_seen_up_to_the_reach_of_a_level() -> None:
    encoder = build_encoder()
    (level,) = encoder.describe_layers()
    text = [3, 4, 5, 6, 7]
    plain = encoder(Tokens.from_ids(torch.tensor([text]), pad=0)).values[0]
    for at in range(len(text)):
        other = [*text[:at], 8, *text[at + 1 :]]
        changed = (encoder(Tokens.from_ids(torch.tensor([other]), pad=0)).values[0] != plain).any(-1)
        assert level.after is not None
        assert {place for place in range(len(text)) if changed[place]} <= {*range(at - level.after, at + 1)}
        assert changed[at]
        assert at < level.after or changed[at - level.after]
