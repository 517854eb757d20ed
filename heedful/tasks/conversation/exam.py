"""What models of conversation are asked, and how surprised they are by what people said, beside n-grams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from jaxtyping import Float

from heedful.errors import DataError
from heedful.metrics.kneser_ney import KneserNey
from heedful.metrics.likelihood import Perplexity
from heedful.metrics.metric import Metric, Ratio
from heedful.recipes.recipe import Recipe
from heedful.tasks.conversation.data import Dialogue, Exchange, Exchanges, Script
from heedful.tasks.conversation.face import Partner
from heedful.tasks.conversation.recipe import ConversationRecipe
from heedful.tasks.exam import Exam

ORDER: Final = 5
"""Of the n-grams."""


@dataclass(frozen=True)
class Surprised:
    """The negative log-likelihood of each reply, in nats, and how much it is.

    Attributes:
        nats: given its context.
        alone: given who speaks, and no turn before.
        n_grams: by n-grams of the training dialogues, given the same context in the same tokens.
        tokens: of each reply, its end included.
        words: stretches without white space, and the end.
    """

    nats: Float[np.ndarray, " N"]
    alone: Float[np.ndarray, " N"]
    n_grams: Float[np.ndarray, " N"]
    tokens: Float[np.ndarray, " N"]
    words: Float[np.ndarray, " N"]


@final
class ReplyExam(Exam):
    """Replies that are predicted from their first to their last token; what is drawn are replies.

    Args:
        reader: of exchanges.
        part: of the data.

    Raises:
        DataError: there is no reply.
    """

    doing = "reading replies"

    def __init__(self, reader: Exchanges, *, part: str) -> None:
        self.exchanges = [each for each in reader if each.reply.text]
        self.text = " and ".join(map(str, reader.paths))
        self.part = part
        if not self.exchanges:
            raise DataError(f"{self.text}: nobody replies here; check data.replier")
        self.asked: Sequence[tuple[str, ...]] = [tuple(t.text for t in each.context) for each in self.exchanges]
        self.right: Sequence[str] = [each.reply.text for each in self.exchanges]
        self.size = len(self.exchanges)

    def answers(self, user: Partner, recipe: Recipe) -> Surprised:
        """The likelihood of each reply, with its context, without, and by n-grams."""
        assert isinstance(recipe, ConversationRecipe)
        alone = [Exchange((), each.reply) for each in self.exchanges]
        scores = [user.score(each) for each in (self.exchanges, alone)]
        nats, without = (np.array([reply.nats for reply in each]) for each in scores)
        tokens = np.array([float(len(reply.tokens)) for reply in scores[0]])
        words = np.array([len(text.split()) + 1.0 for text in self.right])
        n_grams = n_grams_of(recipe.data.reader("train").dialogues, user.script)
        return Surprised(nats, without, np.array(list(_by(n_grams, self.exchanges, user.script))), tokens, words)

    def metrics(self, answers: Surprised) -> Mapping[str, Metric]:
        """Nats per token, perplexities per token and per word, and those without context and of n-grams."""
        return {
            "loss": Ratio(answers.nats, answers.tokens),
            "perplexity": Perplexity(answers.nats, answers.tokens),
            "word_perplexity": Perplexity(answers.nats, answers.words),
            "perplexity_without_context": Perplexity(answers.alone, answers.tokens),
            "word_perplexity_without_context": Perplexity(answers.alone, answers.words),
            "kneser_ney_perplexity": Perplexity(answers.n_grams, answers.tokens),
            "kneser_ney_word_perplexity": Perplexity(answers.n_grams, answers.words),
        }


def n_grams_of(dialogues: Iterable[Dialogue], script: Script, *, order: int = ORDER) -> KneserNey:
    """N-grams of whole dialogues, in the tokens of a model; everybody's turns teach them."""
    sequences = ([script.tokenizer.special.bos, *_ids(each, script)] for each in dialogues)
    return KneserNey(sequences, size=script.size, order=order)


def _by(n_grams: KneserNey, exchanges: Iterable[Exchange], script: Script) -> Iterator[float]:
    """Nats of each reply behind who speaks."""
    for each in exchanges:
        before = [script.tokenizer.special.bos, *(n for turn in each.context for n in script.turn(turn))]
        reply = script.turn(each.reply)
        yield sum(n_grams.nats([*before, *reply])[len(before) :])


def _ids(dialogue: Dialogue, script: Script) -> Iterator[int]:
    for turn in dialogue.turns:
        yield from script.turn(turn)
