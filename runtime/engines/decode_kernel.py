"""The whole decoding loop of a small model as one numba function: embed, attend, sample, look for ends,
again.

A model of a hundred thousand parameters spends its time on calling operations, not in them, and on streaming
the cache. Here a step makes no calls, each row attends over exactly its own past, and a conversation's
numbers do not depend on the other rows at all: rows are computed in blocks of four by the same code, and
spare rows of the last block are computed and dropped. So the same conversation gives the same bits in every
batch.

Dimensions: M rows, S slots, C context, Y layers, D width, H query heads, K key heads, A head width, Q = (H +
2K) A, F feed-forward width, V vocabulary. Cache: keys and values (Y, S, K, A, C), positions last, so that
sums over the past run along memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

ROWS = 4  # rows per block of the matrix product
BLOCK = 32  # positions per block of keys; a context is padded to whole blocks
_COLUMNS = 256  # columns per block, so that a block of weights stays in the cache over all rows

_jit = njit(cache=True, fastmath=True, error_model="numpy", nogil=True)


@_jit
def exponential(x: Any) -> Any:
    """exp in float32 to 2e-7, without calls, so that loops over it become vector code; 1e-38 below -87."""
    y = min(max(x * np.float32(1.4426950408889634), np.float32(-126.0)), np.float32(126.0))
    whole = np.floor(y)
    part = y - whole
    # minimax polynomial of 2 ** part on [0, 1)
    p = np.float32(1.535336188319500e-4)
    p = p * part + np.float32(1.339887440266574e-3)
    p = p * part + np.float32(9.618437357674640e-3)
    p = p * part + np.float32(5.550332471162809e-2)
    p = p * part + np.float32(2.402264791363012e-1)
    p = p * part + np.float32(6.931472028550421e-1)
    p = p * part + np.float32(1.0)
    return p * np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)).view(np.float32)


@_jit
def add_product(x: Any, w: Any, y: Any, rows: int) -> None:
    """y[:rows] += x[:rows] @ w; rows is a multiple of ROWS, x's width of 4."""
    inner, outer = w.shape
    for first in range(0, outer, _COLUMNS):
        last = min(first + _COLUMNS, outer)
        size = last - first
        for n in range(0, rows, ROWS):
            # slices, and indices that plainly start at 0: else every access is checked for a negative index
            y0, y1, y2, y3 = y[n, first:last], y[n + 1, first:last], y[n + 2, first:last], y[n + 3, first:last]
            for k in range(0, inner, 4):
                w0, w1, w2, w3 = w[k, first:last], w[k + 1, first:last], w[k + 2, first:last], w[k + 3, first:last]
                a0, a1, a2, a3 = x[n, k], x[n, k + 1], x[n, k + 2], x[n, k + 3]
                b0, b1, b2, b3 = x[n + 1, k], x[n + 1, k + 1], x[n + 1, k + 2], x[n + 1, k + 3]
                c0, c1, c2, c3 = x[n + 2, k], x[n + 2, k + 1], x[n + 2, k + 2], x[n + 2, k + 3]
                d0, d1, d2, d3 = x[n + 3, k], x[n + 3, k + 1], x[n + 3, k + 2], x[n + 3, k + 3]
                for j in range(size):
                    v0, v1, v2, v3 = w0[j], w1[j], w2[j], w3[j]
                    y0[j] += a0 * v0 + a1 * v1 + a2 * v2 + a3 * v3
                    y1[j] += b0 * v0 + b1 * v1 + b2 * v2 + b3 * v3
                    y2[j] += c0 * v0 + c1 * v1 + c2 * v2 + c3 * v3
                    y3[j] += d0 * v0 + d1 * v1 + d2 * v2 + d3 * v3


@_jit
def normalise(x: Any, weight: Any, eps: Any, out: Any) -> None:
    """out = x / rms(x) * weight, all (D,)."""
    total = np.float32(0)
    for i in range(x.shape[0]):
        total += x[i] * x[i]
    scale = np.float32(1) / np.sqrt(total / np.float32(x.shape[0]) + eps)
    for i in range(x.shape[0]):
        out[i] = x[i] * scale * weight[i]


@_jit
def _rotate(x: Any, cos: Any, sin: Any, scale: Any) -> None:
    """Rotary position of one head, in place; x (A,), cos and sin (A / 2,)."""
    half = cos.shape[0]
    first, second = x[:half], x[half:]
    for i in range(half):
        a, b = first[i] * scale, second[i] * scale
        first[i] = a * cos[i] - b * sin[i]
        second[i] = b * cos[i] + a * sin[i]


@_jit
def _softmax(score: Any, length: int) -> Any:
    """score[:length] becomes exp(score - max), and 0 up to the next multiple of 4; returns 1 / sum."""
    top = score[0]
    for t in range(length):
        top = max(top, score[t])
    total = np.float32(0)
    for t in range(length):
        weight = exponential(score[t] - top)
        score[t] = weight
        total += weight
    for t in range(length, (length + 3) // 4 * 4):
        score[t] = np.float32(0)
    return np.float32(1) / total


@_jit
def _attend_pair(keys: Any, values: Any, q: Any, r: Any, s: Any, z: Any, length: int, out: Any) -> None:
    """Two query heads (q, r: (A,)) over the past of their key head; keys (C / BLOCK, A, BLOCK), values (C,
    A), out (2A,); s and z are scratch (C,)."""
    width = q.shape[0]
    for block in range((length + BLOCK - 1) // BLOCK):
        part = keys[block]
        sb, zb = s[block * BLOCK :], z[block * BLOCK :]
        for t in range(BLOCK):
            sb[t] = np.float32(0)
            zb[t] = np.float32(0)
        for i in range(0, width, 4):
            k0, k1, k2, k3 = part[i], part[i + 1], part[i + 2], part[i + 3]
            q0, q1, q2, q3 = q[i], q[i + 1], q[i + 2], q[i + 3]
            r0, r1, r2, r3 = r[i], r[i + 1], r[i + 2], r[i + 3]
            for t in range(BLOCK):
                a, b, c, d = k0[t], k1[t], k2[t], k3[t]
                sb[t] += q0 * a + q1 * b + q2 * c + q3 * d
                zb[t] += r0 * a + r1 * b + r2 * c + r3 * d
    s_scale, z_scale = _softmax(s, length), _softmax(z, length)
    left, right = out[:width], out[width:]
    for i in range(width):
        left[i] = np.float32(0)
        right[i] = np.float32(0)
    for t in range(0, (length + 3) // 4 * 4, 4):
        v0, v1, v2, v3 = values[t], values[t + 1], values[t + 2], values[t + 3]
        s0, s1, s2, s3 = s[t] * s_scale, s[t + 1] * s_scale, s[t + 2] * s_scale, s[t + 3] * s_scale
        z0, z1, z2, z3 = z[t] * z_scale, z[t + 1] * z_scale, z[t + 2] * z_scale, z[t + 3] * z_scale
        for i in range(width):
            a, b, c, d = v0[i], v1[i], v2[i], v3[i]
            left[i] += s0 * a + s1 * b + s2 * c + s3 * d
            right[i] += z0 * a + z1 * b + z2 * c + z3 * d


@_jit
def _attend_one(keys: Any, values: Any, q: Any, s: Any, length: int, out: Any) -> None:
    """As `_attend_pair`, for one query head."""
    width = q.shape[0]
    for block in range((length + BLOCK - 1) // BLOCK):
        part = keys[block]
        sb = s[block * BLOCK :]
        for t in range(BLOCK):
            sb[t] = np.float32(0)
        for i in range(0, width, 4):
            k0, k1, k2, k3 = part[i], part[i + 1], part[i + 2], part[i + 3]
            q0, q1, q2, q3 = q[i], q[i + 1], q[i + 2], q[i + 3]
            for t in range(BLOCK):
                sb[t] += q0 * k0[t] + q1 * k1[t] + q2 * k2[t] + q3 * k3[t]
    scale = _softmax(s, length)
    for i in range(width):
        out[i] = np.float32(0)
    for t in range(0, (length + 3) // 4 * 4, 4):
        v0, v1, v2, v3 = values[t], values[t + 1], values[t + 2], values[t + 3]
        s0, s1, s2, s3 = s[t] * scale, s[t + 1] * scale, s[t + 2] * scale, s[t + 3] * scale
        for i in range(width):
            out[i] += s0 * v0[i] + s1 * v1[i] + s2 * v2[i] + s3 * v3[i]


@_jit
def forward(tokens: Any, slots: Any, at: Any, count: int, weights: Any, cache: Any, sizes: Any, room: Any) -> None:
    """`count` rows consume one token each: tokens, slots, at (position) are (M,). The states behind the last
    norm are left in room's second array (M, D)."""
    embedding, before, qkv, qkv_bias, norms, out, out_bias, between, gate_up, down, last, _, eps = weights
    keys, values, cos, sin = cache
    heads, key_heads, width, normed = sizes
    x, h, projected, mixed, opened, scratch = room
    rows = (count + ROWS - 1) // ROWS * ROWS
    group = heads // key_heads
    hidden = down.shape[1]
    scale = np.float32(1) / np.sqrt(np.float32(width))
    for m in range(count):
        x[m] = embedding[tokens[m]]
    for layer in range(before.shape[0]):
        for m in range(rows):
            normalise(x[m], before[layer], eps, h[m])
            projected[m] = qkv_bias[layer]
        add_product(h, qkv[layer], projected, rows)
        for m in range(count):
            slot, position, row = slots[m], at[m], projected[m]
            for n in range(heads + key_heads):
                head = row[n * width : (n + 1) * width]
                if normed:
                    normalise(head, norms[layer, 0 if n < heads else 1], eps, head)
                _rotate(head, cos[position], sin[position], scale if n < heads else np.float32(1))
            for n in range(key_heads):
                past, content = keys[layer, slot, n], values[layer, slot, n]
                key, value = (heads + n) * width, (heads + key_heads + n) * width
                block, within = position // BLOCK, position % BLOCK
                for i in range(width):
                    past[block, i, within] = row[key + i]
                    content[position, i] = row[value + i]
                first = n * group
                for g in range(first, first + group - 1, 2):
                    q, r = row[g * width : (g + 1) * width], row[(g + 1) * width : (g + 2) * width]
                    to = mixed[m, g * width : (g + 2) * width]
                    _attend_pair(past, content, q, r, scratch[0], scratch[1], position + 1, to)
                if group % 2:
                    g = first + group - 1
                    to = mixed[m, g * width : (g + 1) * width]
                    _attend_one(past, content, row[g * width : (g + 1) * width], scratch[0], position + 1, to)
        for m in range(rows):
            x[m] += out_bias[layer]
        add_product(mixed, out[layer], x, rows)
        for m in range(rows):
            normalise(x[m], between[layer], eps, h[m])
            opened[m, : 2 * hidden] = np.float32(0)
        add_product(h, gate_up[layer], opened, rows)
        for m in range(rows):
            row = opened[m]
            for i in range(hidden):
                row[i] = row[i] / (np.float32(1) + exponential(-row[i])) * row[hidden + i]
        add_product(opened, down[layer], x, rows)
    for m in range(rows):
        normalise(x[m], last, eps, h[m])


@_jit
def draw(logits: Any, uniform: float, sharpness: Any) -> Any:
    """(token, its log-probability): inverse distribution function of softmax(logits * sharpness); logits (V,)
    are overwritten. Sums are in float64."""
    size = logits.shape[0]
    top = logits[0]
    for j in range(size):
        top = max(top, logits[j])
    total = 0.0
    for j in range(size):
        mass = exponential((logits[j] - top) * sharpness)
        logits[j] = mass
        total += mass
    target = uniform * total
    token = 0
    reached = 0.0
    for j in range(size):
        if logits[j] > np.float32(1e-37):  # the smallest result of `exponential` stands for nothing
            token = j
            reached += logits[j]
            if reached > target:
                break
    return token, np.log(np.float64(logits[token])) - np.log(total)


@_jit
def run(
    rows: Any, tables: Any, limits: Any, stops: Any, weights: Any, cache: Any, sizes: Any, room: Any, more: Any
) -> int:
    """Steps of these rows (M,) until at least one message ends; returns how many have, and marks them in
    more's `ended` (M,): 1 stop, 2 turn limit, 3 context limit."""
    tokens, uniforms, logprobs, versions, length, read, turn = tables
    context, longest, version, sharpness = limits
    states = room[1]
    head = weights[11]
    consumed, positions, ended, sampling, gathered, logits = more
    count = rows.shape[0]
    ends = 0
    while ends == 0:
        wanted = 0
        for m in range(count):
            slot = rows[m]
            positions[m] = read[slot]
            consumed[m] = tokens[slot, read[slot]]
            ended[m] = 0
        forward(consumed, rows, positions, count, weights, cache, sizes, room)
        for m in range(count):
            slot = rows[m]
            read[slot] += 1
            if read[slot] == length[slot]:
                sampling[wanted] = m
                gathered[wanted] = states[m]
                wanted += 1
        if wanted == 0:
            continue
        padded = (wanted + ROWS - 1) // ROWS * ROWS
        logits[:padded] = np.float32(0)
        add_product(gathered, head, logits, padded)
        for n in range(wanted):
            m = sampling[n]
            slot = rows[m]
            p = length[slot]
            token, logprob = draw(logits[n], uniforms[slot, p], sharpness)
            tokens[slot, p] = token
            logprobs[slot, p] = logprob
            versions[slot, p] = version
            length[slot] = p + 1
            for stop in stops:
                if token == stop:
                    ended[m] = 1
            if ended[m] == 0 and p + 1 - turn[slot] >= longest:
                ended[m] = 2
            elif ended[m] == 0 and p + 1 >= context:
                ended[m] = 3
            if ended[m] != 0:
                ends += 1
    return ends
