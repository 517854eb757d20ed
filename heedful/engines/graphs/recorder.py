"""Recording of a step as a CUDA graph, and its stand-in on other devices."""

from __future__ import annotations

import math
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

import torch
from jaxtyping import Float
from torch import Tensor

_WARM_UP_RUNS: Final = 3
"""Runs before a capture, in which libraries choose their kernels and allocate what they keep."""


@dataclass(frozen=True)
class RecordedStep:
    """A step with tensors whose places in memory never change.

    Attributes:
        replay: computes the step from what the input tensors hold now.
        output: the result of the last replay, until any other step of the same recorder is replayed; undefined before
            the first replay.
    """

    replay: Callable[[], None]
    output: Float[Tensor, "*S"]


class StepRecorder(ABC):
    """Base class: records functions without arguments that read and write fixed tensors.

    Functions must be idempotent, because recording may run them several times.
    """

    @abstractmethod
    def record(self, function: Callable[[], Float[Tensor, "*S"]]) -> RecordedStep:
        """Record a function; its result is the output of the step."""


@final
class CudaGraphRecorder(StepRecorder):
    """Records CUDA graphs that share their memory, so a replay may overwrite the outputs of all other graphs.

    Args:
        device: the GPU of the tensors.
    """

    def __init__(self, device: torch.device) -> None:
        self._device, self._memory = device, torch.cuda.graph_pool_handle()

    def record(self, function: Callable[[], Float[Tensor, "*S"]]) -> RecordedStep:
        """Run the function on a stream of its own, then capture it there."""
        side = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]  # torch's
        main = torch.cuda.current_stream(self._device)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP_RUNS):
                function()
        graph, mode = torch.cuda.CUDAGraph(), "thread_local"  # other threads may compute meanwhile
        with torch.cuda.graph(graph, pool=self._memory, stream=side, capture_error_mode=mode):
            output = function()
        main.wait_stream(side)
        return RecordedStep(graph.replay, output)


@final
class EagerRecorder(StepRecorder):
    """Stand-in for CUDA graphs on other devices: each replay runs the function again, and copies its result.

    As with graphs that share their memory, a replay destroys the outputs of all other steps. It fills them with NaN, so
    that tests find code that reads an old output.
    """

    def __init__(self) -> None:
        self._outputs: list[weakref.ref[Tensor]] = []

    def record(self, function: Callable[[], Float[Tensor, "*S"]]) -> RecordedStep:
        """Run the function once for the shape of its result."""
        result = function()
        with torch.inference_mode(mode=False):  # the output outlives any block of inference mode
            output = torch.empty_like(result, requires_grad=False)
        self._outputs = [other for other in self._outputs if other() is not None] + [weakref.ref(output)]

        def replay() -> None:
            for reference in self._outputs:
                if (other := reference()) is not None:
                    other.fill_(math.nan)
            output.copy_(function())

        return RecordedStep(replay, output)


def build_recorder(device: torch.device) -> StepRecorder:
    """Build the recorder for a device."""
    return CudaGraphRecorder(device) if device.type == "cuda" else EagerRecorder()
