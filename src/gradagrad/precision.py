"""bf16 with stochastic rounding: half the memory, and small changes add up instead of being lost.

bf16 keeps 8 significant bits. Rounded to nearest, an accumulator stops moving once its increments fall below 1/512 of
it. Rounded up or down at random, so that the mean is exact, it keeps growing at the right rate. The method relies on
two properties that survive: growth and accumulator never fall, because a number that bf16 can hold is kept, and an
unchanged block stays unchanged.

The random bits are a hash of (seed, step, parameter, element) and of nothing else. So a run is reproducible, resumes
bit for bit, does not depend on the number of threads, and is the same on every backend: kernels compute the same hash.
Each field has a lane of 16 bits, so that numbers of an element that change together share none. Lanes 2k and 2k + 1 of
element n are the halves of number n + k, which is cheaper than hashing more numbers.
"""

from typing import Any

import torch
from torch import Tensor

SEED = 0
_MASK = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9
_LARGEST = torch.finfo(torch.bfloat16).max


def is_rounded(state_dtype: torch.dtype | str) -> bool:
    """Whether state is kept in bf16. ZeroRedundancyOptimizer hands param groups on as a state dict holds them."""
    return state_dtype in (torch.bfloat16, "bfloat16")


class RandomBits:
    """The random bits of a parameter's elements at one step, made when they are first asked for.

    ``step`` is the number of the step, counted from 1, ``stream`` the parameter's place in the optimizer. Elements are
    numbered by their place in the memory of ``like``; ``index`` picks rows or entries.
    """

    def __init__(self, like: Tensor, step: Tensor, stream: int, index: tuple[Any, ...] = ()) -> None:
        self._like, self._step, self._stream, self._index = like, step, stream, index
        self._hashes: dict[int, Tensor] = {}

    def lane(self, lane: int) -> Tensor:
        """16 bits for each element: two lanes, low and high, come from one number."""
        number = lane // 2
        if number not in self._hashes:
            self._hashes[number] = random_bits(self._like, self._step, self._stream, self._index, number)
        bits = self._hashes[number]
        return bits >> 16 if lane % 2 else bits & 0xFFFF


def random_bits(like: Tensor, step: Tensor, stream: int, index: tuple[Any, ...] = (), further: int = 0) -> Tensor:
    """32 random bits for each element, as int64, or those of the element so much further.

    Elements n and n + 8 of sixteen share a hash with its halves exchanged: half the hashes, and no lane of an element
    has bits in common with another of it.
    """
    key = _scramble(_FIRST_KEY ^ step)  # A number on the host combines with tensors on any device.
    key = _scramble(key ^ stream)
    places = torch.full((), further, dtype=torch.int64, device=like.device)
    for dim, (size, stride) in enumerate(zip(like.shape, like.stride(), strict=True)):
        chosen = index[dim] if dim < len(index) else slice(size)
        if isinstance(chosen, slice):
            chosen, places = torch.arange(*chosen.indices(size), device=like.device), places.unsqueeze(-1)
        places = places + chosen * stride
    places = places & _MASK
    hashes = _scramble(key ^ (((((places >> 4) << 3) | (places & 7)) * _GOLDEN) & _MASK))
    return torch.where((places & 8) != 0, ((hashes << 16) | (hashes >> 16)) & _MASK, hashes)


def _scramble(a: Any) -> Any:
    """A permutation of 32-bit numbers in which every bit of the result depends on every bit of the argument."""
    a = a & _MASK
    a = a ^ (a >> 16)
    a = (a * 0x7FEB352D) & _MASK
    a = a ^ (a >> 15)
    a = (a * 0x846CA68B) & _MASK
    return a ^ (a >> 16)


_FIRST_KEY: int = _scramble(SEED + _GOLDEN)


def rounded(values: Tensor, random16: Tensor) -> Tensor:
    """``values`` in bf16, away from zero with the probability that makes the mean exact.

    Values that bf16 can hold are kept, infinities and NaN included. Larger finite values become the largest bf16.
    """
    if values.dtype == torch.float64:  # Casting to float32 would turn large values into infinities.
        values = torch.where(values.isinf(), values, values.clamp(-_LARGEST, _LARGEST))
    values = values.to(torch.float32)
    # The sign is the highest bit, so adding to the bits adds to the magnitude.
    up = random16.masked_fill(~(values.abs() < _LARGEST), 0)
    result = ((values.view(torch.int32) + up) >> 16).to(torch.int16).view(torch.bfloat16)
    return result.masked_fill(values.isnan(), torch.nan)


def stored(target: Tensor, values: Tensor, bits: RandomBits | None, lane: int) -> Tensor:
    """Computed values in the format of ``target``, rounded with a lane of the random bits if there are any."""
    if target.dtype != torch.bfloat16 or bits is None:
        return values if values.dtype == target.dtype else values.to(target.dtype)
    return rounded(values, bits.lane(lane))
