"""``warpfold.ops``: every operator of ``warpfold run`` is called, by PyTorch's names of its options."""

import numpy as np
import pytest

import warpfold
from warpfold import Tensor, ops

warpfold.set_default_device("virtual")
RNG = np.random.default_rng(11)
X = RNG.random((3, 4), dtype=np.float32) + 0.5
IMAGE = RNG.random((1, 2, 6, 6), dtype=np.float32)
HEADS = [RNG.random((1, 2, 3, 16), dtype=np.float32) for _ in range(3)]
PAGES = RNG.random((2, 4, 2, 16), dtype=np.float32)
ANGLES = RNG.random((1, 3, 8), dtype=np.float32)
INTEGERS = np.array([3, 1, 3, 0], np.int32)
REDUCED = {"dim": -1, "keepdim": True}

#: Inputs and options of the operators that do not go element by element.
CALLS = {
    **{name: ((X,), REDUCED) for name in (
        "prod mean min max min_max any all count_nonzero argmin argmax l1 l2 linf abs_max sum_squares log_sum"
        " log_sum_exp max_sum_exp reproducible_sum unique_count").split()},
    "sum": ((X,), {"dim": (0, 1), "dtype": "float64", "initial": 1}),
    **{name: ((X,), {**REDUCED, "correction": 0}) for name in ("var", "mean_var")},
    "std": ((X,), {"dim": 0, "unbiased": False}),
    "dot": ((X, X), REDUCED),
    **{name: ((X,), {"dim": 0}) for name in ("softmax", "log_softmax", "abs_max_scale", "cumsum", "cumprod")},
    "quantize": ((X,), {"dim": -1, "dtype": np.int8}),
    "layer_norm": ((X, X[0], X[1]), {"normalized_shape": (4,), "eps": 1e-5}),
    "rms_norm": ((X, X[0]), {"normalized_shape": 4, "eps": 1e-6}),
    "matmul": ((X, X.T.copy(), X[:, 0].copy()), {"bias": True, "activation": "relu", "alpha": 2.0}),
    "conv2d": ((IMAGE, RNG.random((4, 1, 3, 3), dtype=np.float32)),
               {"stride": 2, "padding": (1, 1), "dilation": 1, "groups": 2}),
    "cross_entropy": ((X, np.array([1, -100, 3])), {"ignore_index": -100}),
    "softmax_v": ((X[:, :3], X), {}),
    "attention": (HEADS, {"is_causal": True, "scale": 0.5}),
    "paged_attention": ((PAGES[0, :2], PAGES, PAGES, np.array([[0, 1], [1, 0]], np.int32), np.array([3, 5], np.int32)),
                        {"scale": 0.5}),
    "rotary_embedding": ((HEADS[0], ANGLES, ANGLES), {"interleaved": False}),
    "gemv": ((X, X[0]), {"transpose": False}),
    "gather": ((X, INTEGERS[:2] % 3), {}),
    "scatter": ((X, INTEGERS[None] % 3, X), {"dim": 0, "reduce": "sum"}),
    "index_scatter": ((X, INTEGERS[:2], X[:, :2]), {"dim": 1, "reduce": "max", "exclude_self": True}),
    "interpolate": ((IMAGE,), {"output_size": (4, 9), "mode": "linear", "align_corners": True}),
    "histogram": ((INTEGERS,), {"minlength": 5}),
    "unique": ((INTEGERS,), {"sorted": False}),
    "sort": ((X,), {"dim": 0, "descending": True}),
    "transpose": ((X,), {"dim": (1, 0)}),
    "topk": ((X,), {"k": 2, "dim": 0}),
    "nms": ((np.array([[0, 0, 2, 2], [0, 0, 2, 2.1]], np.float32), np.array([1, 2], np.float32)), {"iou_threshold": 0.5}),
    "max_pool": ((IMAGE,), {"kernel_size": 2, "stride": 2, "padding": 1, "dilation": 1, "ceil_mode": True}),
    "avg_pool": ((IMAGE,), {"output_size": (2, 3)}),
    "lp_pool": ((IMAGE,), {"norm_type": 2, "kernel_size": (2, 3)}),
    "cast": ((X,), {"dtype": "float16"}),
    "scale": ((X,), {"alpha": 2.0, "beta": 1.0}),
    "where": ((X > 1, X, -X), {}),
    "not": ((X > 1,), {}),
    **{name: ((INTEGERS, INTEGERS), {}) for name in ("and", "or", "xor", "shl", "shr")},
}  # fmt: skip


@pytest.mark.parametrize("name", ops.names())
def test_every_operator_is_called(name):
    number = next(least for each, _, least, *_ in warpfold._native.operators() if each.replace("-", "_") == name)
    inputs, options = CALLS.get(name, ([X] * number, {}))
    results = getattr(ops, name)(*inputs, **options)
    for result in results if isinstance(results, tuple) else (results,):
        assert isinstance(result, Tensor)
        assert not (result.numpy() != result.numpy()).any()


def test_names_of_options_are_pytorchs_or_the_libraries():
    for ours, theirs in [({"axes": [0], "keepdims": True}, {"dim": 0, "keepdim": True}), ({"axes": [0]}, {"dim": [0]})]:
        assert np.array_equal(ops.sum(X, **ours).numpy(), ops.sum(X, **theirs).numpy())
    assert np.array_equal(ops.var(X, dim=1, unbiased=True).numpy(), ops.var(X, axes=[1], ddof=1).numpy())
    with pytest.raises(warpfold.ArgumentError, match="sum is given the option 'axes' twice, by two names"):
        ops.sum(X, axes=[0], dim=0)
    with pytest.raises(warpfold.ArgumentError, match="abs takes no option 'dim'; it takes: none"):
        ops.abs(X, dim=0)
    for theirs, (ours, _) in ops.PYTORCH.items():
        takes = [name for name in ops.names() if f"{theirs} for {ours}" in getattr(ops, name).__doc__]
        assert takes, f"no operator takes {theirs}"


def test_the_table_of_calls_names_operators():
    assert set(CALLS) <= set(ops.names())
