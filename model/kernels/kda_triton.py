"""Launches the Triton kernels of the delta rule: `kda` for any lengths, `step` for one more token."""

import torch
import triton
from torch import Tensor

from k3scope.model.kernels import kda_triton_kernels as kernels
from k3scope.model.kernels.triton_setup import INTERPRETED, block, configuration

CHUNK = kernels.CHUNK.value


def kda(q, k, v, decay, write, initial_state=None, cu_seqlens=None) -> tuple[Tensor, Tensor]:
    """Same arguments and results as `reference.kda`: in chunks for bfloat16, exactly for float32."""
    sequences = q.shape[0] if cu_seqlens is None else len(cu_seqlens) - 1
    shape = (sequences, q.shape[2], q.shape[3], v.shape[-1])
    if initial_state is None:
        state = torch.zeros(shape, device=q.device)
    else:
        state = initial_state.to(torch.float32, copy=True).contiguous()
    bounds = None if cu_seqlens is None else cu_seqlens.to(q.device, torch.int64)
    if q.dtype == torch.float32 or (bounds is None and q.shape[1] == 1):
        return loop(q, k, v, decay, write, state, bounds), state
    return chunked(q, k, v, decay, write, state, bounds)


def loop(q, k, v, decay, write, state, bounds=None) -> Tensor:
    """Token by token; `state` [N, heads, K, V], float32 and contiguous, changes in place. Decodes, too."""
    _, steps, heads, key_dim = q.shape
    q, k, v, decay, write = (t.contiguous() for t in (q, k, v, decay, write))
    width, out = v.shape[-1], torch.empty_like(v)
    tile, options = configuration("kda_loop")
    columns = min(tile, block(width))
    grid = (triton.cdiv(width, columns), len(state) * heads)
    sizes = {"H": heads, "K": key_dim, "V": width, "BK": block(key_dim), "BV": columns}
    kernels.kda_loop[grid](q, k, v, decay, write, bounds, state, out, steps, **sizes, **options)
    return out


def chunked(q, k, v, decay, write, state, bounds=None) -> tuple[Tensor, Tensor]:
    """Chunk by chunk from `state`. ValueError for decays that 16 tokens of float32 cannot hold."""
    q, k, v, decay, write = (t.contiguous() for t in (q, k, v, decay, write))
    return _prefill(q, k, v, decay, write, state, *_chunks(*q.shape[:2], bounds, q.device))


def _chunks(batch: int, steps: int, bounds: Tensor | None, device) -> tuple[Tensor, Tensor, Tensor]:
    """Where each chunk starts, where its sequence ends, and the first chunk of each sequence; all int64."""
    total = batch * triton.cdiv(steps, CHUNK)
    if bounds is None:
        bounds = torch.arange(batch + 1, device=device) * steps
        counts = torch.full((batch,), triton.cdiv(steps, CHUNK), device=device)
    else:
        counts = (bounds.diff() + CHUNK - 1) // CHUNK
        total = int(counts.sum())
    first = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    chunk = torch.arange(total, device=device)
    sequence = torch.searchsorted(first, chunk, right=True) - 1
    return bounds[sequence] + (chunk - first[sequence]) * CHUNK, bounds[sequence + 1], first


def _prefill(q, k, v, decay, write, state, starts, stops, first) -> tuple[Tensor, Tensor]:
    heads, key_dim, width = q.shape[2], q.shape[3], v.shape[-1]
    chunks, sequences = len(starts), len(first) - 1
    inner = torch.float32 if INTERPRETED else q.dtype  # the interpreter cannot multiply bfloat16
    make = lambda *shape, dtype=inner: torch.empty(chunks, heads, *shape, dtype=dtype, device=q.device)  # noqa: E731
    from_state, readers, keys = (make(CHUNK, key_dim) for _ in range(3))
    values, attention = make(CHUNK, width), make(CHUNK, CHUNK)
    retained, spread = make(key_dim, dtype=torch.float32), make(dtype=torch.float32)
    out, final = torch.empty_like(v), torch.empty_like(state)
    sizes = {"H": heads, "K": key_dim, "V": width, "BK": block(key_dim)}
    precision = "ieee" if INTERPRETED else "tf32"
    if chunks:
        _, options = configuration("kda_within")
        kernels.kda_within[(chunks, heads)](
            q, k, v, decay, write, starts, stops,
            from_state, values, readers, keys, attention, retained, spread,
            **sizes, BV=block(width), PREC=precision, **options,
        )  # fmt: skip
    tile, options = configuration("kda_scan")
    columns = min(tile, block(width))
    kernels.kda_scan[(triton.cdiv(width, columns), sequences * heads)](
        from_state, values, readers, keys, attention, retained, starts, stops, first, state, out, final,
        **sizes, BV=columns, PREC=precision, **options,
    )  # fmt: skip
    if chunks and spread.amax() > kernels.SAFE:  # what is not a number passes and shows itself
        deepest = decay.amin().item()
        raise ValueError(
            f"a decay of {deepest:.1f} in one step is too steep for chunks of {CHUNK} tokens in float32; "
            "K3SCOPE_KERNELS=torch takes any"
        )
    return out, final
