"""Transfer of a trained model's weights to another vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from heedful.data.vocabulary_mapping import VocabularyMapping, is_same_vocabulary
from heedful.models.model_size import build_without_memory
from heedful.tasks.portable_model import PretrainedSource
from heedful.tasks.task import Run


def transfer_vocabulary(
    origin: PretrainedSource, run: Run[Any, Any], *, log: Callable[[str], None]
) -> Mapping[str, Tensor]:
    """Return the parameters of a model with the entries of its vocabularies replaced by those of the run's
    (`VocabularyMapping`).

    The model itself shows which parameters have an entry for each piece (`find_vocabulary_parameters`), so it may be of
    any family.

    Args:
        origin: the model, which has the architecture of the run.
        run: a run with newly learned vocabularies.
        log: receives the number of known pieces.
    """
    files = run.task.tokenizer_files
    old_tokenizers = dict(zip(files, origin.tokenizers, strict=True))
    descents: dict[str, VocabularyMapping] = {}
    for file in files:
        readers = [
            old_tokenizers[file],
            *(
                tokenizer
                for tokenizer in old_tokenizers.values()
                if tokenizer is not old_tokenizers[file] and is_same_vocabulary(tokenizer, old_tokenizers[file])
            ),
        ]
        descents[file] = VocabularyMapping.from_tokenizers(readers, run.get_tokenizer(file))
    summaries = {file: str(descent) for file, descent in descents.items()}
    if len(set(summaries.values())) == 1:
        summaries = {"": summaries[files[0]]}
    for file, summary in summaries.items():
        log(f"the new vocabulary{file and f' {file}'}: {summary}")
    tensors = dict(origin.tensors)
    for name, (file, dimension) in find_vocabulary_parameters(run).items():
        if name in tensors:
            tensors[name] = descents[file].map_rows(tensors[name].movedim(dimension, 0)).movedim(0, dimension)
    return tensors


def find_vocabulary_parameters(run: Run[Any, Any]) -> Mapping[str, tuple[str, int]]:
    """Return the parameters with an entry for each piece of a vocabulary: by name, the vocabulary's file and the
    dimension of the entries.

    They are the parameters that grow when the vocabulary grows, as measured on models without memory (meta device).
    """

    def compute_shapes(grown_file: str = "") -> dict[str, tuple[int, ...]]:
        """Return the parameter shapes of the model if the vocabulary `grown_file` had one more entry."""
        sizes = {file: size + (file == grown_file) for file, size in run.vocab_sizes.items()}
        with build_without_memory():
            model = run.task.build_model(run.recipe, sizes)
        return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}

    old_shapes, parameters = compute_shapes(), {}
    for file in run.task.tokenizer_files:
        for name, shape in compute_shapes(file).items():
            grown_dimensions = [
                dimension
                for dimension, (new_size, old_size) in enumerate(zip(shape, old_shapes[name], strict=True))
                if new_size != old_size
            ]
            if grown_dimensions:
                parameters[name] = (file, grown_dimensions[0])
    return parameters
