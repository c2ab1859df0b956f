"""Positive features that cannot overflow and do not depend on later keys.

    φ(q_t) = e^{a_t - max a_t}                            a_t, b_t: the logarithms of the features, F numbers each
    M_t = max(M_{t-1}, max b_t),   φ(k_t) = e^{b_t - M_t},   g_t = M_{t-1} - M_t

The sum S_t = e^{g_t} S_{t-1} + φ(k_t)ᵀ v_t is then the true sum divided by e^{M_t}. M is a running maximum, so it is
causal; it is one number per head, so the decay is one per head.

Source: the running maximum is that of online softmax, Milakov and Gimelshein, arXiv:1805.02867.
"""

import torch
from torch import Tensor

LOWEST = -1e38
"""the peak before the first token: below any exponent, and finite, so that differences are not NaN"""


def exponentials(
    q: Tensor, k: Tensor, peak: Tensor | None, keep: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """See `positive` in `seqloom.ops.random_features`; `keep` (B, T) is True at real keys, None where all are."""
    q = (q - q.detach().amax(-1, keepdim=True)).exp()
    if q.shape[2] == 0:
        return q, k, None, peak
    highest = k.detach().amax(-1)  # (B, H, T)
    if keep is not None:
        highest = torch.where(keep[:, None], highest, LOWEST)
    M = highest.cummax(2).values
    if peak is None:
        earlier_M = torch.cat([M[:, :, :1], M[:, :, :-1]], 2)
    else:
        M = torch.maximum(M, peak[:, :, None])
        earlier_M = torch.cat([peak[:, :, None], M[:, :, :-1]], 2)
    k = (k - M[..., None]).exp()
    if keep is not None:
        k = torch.where(keep[:, None, :, None], k, 0.0)
    return q, k, earlier_M - M, M[:, :, -1].clone()


def whole(q: Tensor, k: Tensor, keep: Tensor | None) -> tuple[Tensor, Tensor]:
    """The features of whole rows, without a state: M is the largest exponent of all kept keys of a head."""
    highest = k.detach().amax(-1, keepdim=True)
    if keep is not None:
        highest = torch.where(keep[:, None, :, None], highest, LOWEST)
        k = torch.where(keep[:, None, :, None], k, LOWEST)
    return (q - q.detach().amax(-1, keepdim=True)).exp(), (k - highest.amax(2, keepdim=True)).exp()
