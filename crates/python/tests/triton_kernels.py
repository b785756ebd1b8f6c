"""Triton kernels, right and wrong; tests look for the lines that end in a note."""

import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=inside) + tl.load(y + offsets, mask=inside), mask=inside)


@triton.jit
def count_kernel(x, total, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = tl.sum(tl.load(x + offsets, mask=offsets < n, other=0.0))
    before = tl.load(total)  # other programs store it: read
    tl.store(total, before + here)  # other programs store it: written


@triton.jit
def overrun_kernel(x, out, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets))  # no mask


@triton.jit
def scale_kernel(x, factor, half: tl.float16, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(x + offsets, tl.load(x + offsets, mask=inside) * factor + half, mask=inside)


@triton.autotune(configs=[triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=["n"])
@triton.jit
def tuned_kernel(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets, mask=offsets < n) + 1, mask=offsets < n)


@triton.jit
def matmul_kernel(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + rows[:, None] * K + inner[None, :])
    right = tl.load(b + inner[:, None] * N + columns[None, :])
    tl.store(c + rows[:, None] * N + columns[None, :], tl.dot(left, right))


@triton.jit
def descriptor_kernel(x, y, out, K, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), tl.float32)
    for k in range(0, K, STEP):
        total = tl.dot(x.load([row, k]), y.load([k, column]), total)
    out.store([row, column], total)


@triton.jit
def same_place_kernel(x, out, N: tl.constexpr):
    tile = x.load([tl.program_id(0) * N])
    out.store([0], tile)  # every program stores here


@triton.jit
def edge_kernel(x, out, N: tl.constexpr):
    tile = x.load([6])
    tl.store(out + tl.arange(0, N), tile)


@triton.jit
def square_kernel(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * n + offsets, mask=offsets < n, other=0.0)
    tl.store(out + tl.program_id(0), tl.sum(row * row) / n)


@triton.jit
def far_kernel(x, y, out, distance, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets + distance) + tl.load(y + offsets))  # beyond x


@triton.jit
def half_matmul_kernel(a, b, c, K, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, STEP)
    total = tl.zeros((M, N), tl.float16)
    for k in range(0, K, STEP):
        left = tl.load(a + rows[:, None] * K + k + inner[None, :])
        right = tl.load(b + (k + inner)[:, None] * N + columns[None, :])
        total += tl.dot(left, right, out_dtype=tl.float16)
    tl.store(c + rows[:, None] * N + columns[None, :], total)
