"""A shuffle of 0 … size-1, each entry of which is computed without the rest.

    x = L·b + R,  L < a, R < b,  a = ⌈√size⌉, b = ⌈size / a⌉
    L ← (L + f(R, key_0)) mod a,  R ← (R + f(L, key_1)) mod b,  …            8 rounds; each is invertible
    while x ≥ size: repeat                                                    cycle walking; a·b - size < a

A Feistel network on mixed radices: a bijection for every key. Keys come from (seed, epoch) by SHA-256 and splitmix64
alone, never from numpy's generators, whose streams may change. Source: Black and Rogaway, Ciphers with Arbitrary
Finite Domains, CT-RSA 2002 (the generalized Feistel construction). What differs: f mixes well, but is not a cipher.
"""

import functools
import hashlib
import math

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]

_ROUNDS = 8
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S16, _S27, _S30, _S31 = (np.uint64(bits) for bits in (16, 27, 30, 31))


def permute(index: npt.ArrayLike, epoch: npt.ArrayLike, size: int, seed: int) -> npt.NDArray[np.int64]:
    """The position of `index` in the shuffle of 0 … size-1 that belongs to (seed, epoch).

    index: (n,) integers in [0, size); epoch: (n,) or () integers; returns (n,) int64 in [0, size). `size` < 2^62.
    """
    x = np.atleast_1d(np.asarray(index, dtype=np.uint64))
    epochs = np.broadcast_to(np.asarray(epoch, dtype=np.uint64), x.shape)
    keys = _mix(_seeds(seed)[:, None] + epochs * _GOLDEN)  # (rounds, n)
    a = math.isqrt(size - 1) + 1 if size > 1 else 1
    b = -(-size // a)
    x = _network(x, keys, np.uint64(a), np.uint64(b))
    while (outside := np.flatnonzero(x >= np.uint64(size))).size:
        x[outside] = _network(x[outside], keys[:, outside], np.uint64(a), np.uint64(b))
    return x.astype(np.int64)


def _network(x: Numbers, keys: Numbers, a: np.uint64, b: np.uint64) -> Numbers:
    """A Feistel network on x = left · b + right, left below a, right below b: a permutation of 0 … a b - 1."""
    left, right = x // b, x % b
    for r in range(0, _ROUNDS, 2):
        # 48 bits of the mix, so that the sum cannot wrap around 2^64, which would not be invertible
        left = (left + (_mix(right + keys[r]) >> _S16)) % a
        right = (right + (_mix(left + keys[r + 1]) >> _S16)) % b
    return left * b + right


def _mix(z: Numbers) -> Numbers:
    """The finalizer of splitmix64 (Steele, Lea and Flood 2014)."""
    z = (z ^ (z >> _S30)) * _FIRST
    z = (z ^ (z >> _S27)) * _SECOND
    return z ^ (z >> _S31)


@functools.lru_cache(maxsize=16)
def _seeds(seed: int) -> Numbers:
    """A 64-bit number for each round, from which its keys are computed."""
    digests = (hashlib.sha256(f"seqloom permutation {seed} {r}".encode()).digest() for r in range(_ROUNDS))
    return np.array([int.from_bytes(digest[:8], "little") for digest in digests], dtype=np.uint64)
