"""A row sum, two lines of which call Triton's library; compiled into a cache for `warpfold sim --triton`."""

import triton
import triton.language as tl


@triton.jit
def scaled_row_sum(values, out, n, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(values + row * n + columns, mask=columns < n, other=0.0)
    tl.store(out + row, tl.sum(x, axis=0) * scale)


if __name__ == "__main__":
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source = ASTSource(
        scaled_row_sum,
        {"values": "*fp32", "out": "*fp32", "n": "i32", "scale": "fp32", "BLOCK": "constexpr"},
        {(4,): 256},
        {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]},
    )
    triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4, "ptx_version": 80})
