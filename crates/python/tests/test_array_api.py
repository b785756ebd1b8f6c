"""``warpfold.array_api``: the array API standard as far as the operators go."""

import numpy as np
import pytest

import warpfold
import warpfold.array_api as xp

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "function",
    [
        lambda n, x: n.sum(x, axis=(0, 2)),
        lambda n, x: n.cumulative_sum(x, axis=1),
        lambda n, x: n.permute_dims(x, (2, 0, 1)),
        lambda n, x: n.moveaxis(x, 0, -1),
        lambda n, x: n.roll(x, 2, axis=-1),
        lambda n, x: n.tile(x, (2, 1, 3)),
        lambda n, x: n.repeat(x, 2, axis=1),
        lambda n, x: n.flip(x),
        lambda n, x: n.tril(x, k=1),
        lambda n, x: n.triu(x, k=-1),
        lambda n, x: n.tensordot(x, x, axes=([0, 2], [0, 2])),
        lambda n, x: n.matmul(x, n.matrix_transpose(x)),
        lambda n, x: n.vecdot(x, x),
        lambda n, x: n.meshgrid(x[0, 0, :], x[0, :, 0])[0],
        lambda n, x: n.where(n.greater(x, n.asarray(5.0, dtype=n.float32)), x, -x),
        lambda n, x: n.var(x, axis=1, correction=1),
        lambda n, x: n.remainder(n.astype(x, n.int32) - 12, n.asarray(5, dtype=n.int32)),
        lambda n, x: n.broadcast_to(x[:, :1, :], (2, 5, 4)),
        lambda n, x: n.take(x, n.asarray([2, 0]), axis=1),
        lambda n, x: n.eye(3, 4, k=1, dtype=n.float32) + n.linspace(0, 1, 4, dtype=n.float32),
        lambda n, x: n.argmax(x, axis=-1),
        lambda n, x: n.clip(x, 3, 9),
    ],
)
def test_functions_agree_with_numpys(function):
    found, expected = function(xp, xp.asarray(X)), np.asarray(function(np, X))
    assert found.shape == expected.shape and found.dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_a_tensor_knows_its_namespace():
    assert xp.asarray([1.0]).__array_namespace__() is xp
    assert xp.__array_namespace_info__().dtypes(kind="real floating") == {"float32": xp.float32, "float64": xp.float64}


def test_what_the_standard_leaves_undefined_is_refused():
    with pytest.raises(warpfold.DtypeError, match="integers and floats"):
        xp.add(xp.asarray([1]), xp.asarray([1.0]))
    with pytest.raises(warpfold.DtypeError, match="sqrt does not take elements of type int64"):
        xp.sqrt(xp.asarray([1]))
    with pytest.raises(warpfold.AxisError, match="an index is of whole numbers or booleans, not of float32"):
        xp.asarray([1.0, 2.0])[xp.asarray([1.0])]
