"""``warpfold.Tensor``, and the operators by PyTorch's names."""

import numpy as np
import pytest

import warpfold
import warpfold.functional as F
from warpfold import Tensor

warpfold.set_default_device("virtual")


def close(found, expected, **tolerance):
    expected = np.asarray(expected)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found.numpy(), expected, **{"rtol": 2e-6, "atol": 2e-6, **tolerance})


X = np.random.default_rng(3).standard_normal((3, 5)).astype(np.float32)


@pytest.mark.parametrize("dtype", "bool u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8".split())
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3), (2, 1, 3, 2)])
def test_arrays_come_back_as_they_went(dtype, shape):
    array = np.asarray(np.random.default_rng(1).random(shape) * 100).astype(dtype)
    tensor = Tensor(array)
    assert tensor.shape == shape and tensor.dtype == array.dtype
    assert np.array_equal(tensor.numpy(), array) and np.array_equal(np.asarray(tensor), array)
    assert np.array_equal(np.from_dlpack(tensor), array)
    assert np.array_equal(warpfold.from_dlpack(np.asarray(array)).numpy(), array)


def test_any_layout_of_numpy_is_taken():
    big_endian = X.astype(">f4")
    for array in (X.T, X[::2, ::-1], np.asfortranarray(X), big_endian, np.broadcast_to(X[0], (4, 5))):
        assert np.array_equal(Tensor(array).numpy(), array)


def test_views_are_as_numpys():
    t = Tensor(X)
    for view in (lambda a: a.T, lambda a: a[1], lambda a: a[-1, 2:], lambda a: a[:, ::-1], lambda a: a[::2, 1::2],
                 lambda a: a[..., None, 1], lambda a: a[[2, 0, -1]], lambda a: a[:, [4, 0]], lambda a: a.reshape(5, -1),
                 lambda a: a[3:1], lambda a: a[a > 0], lambda a: a[:, np.array([True, False, True, True, False])],
                 lambda a: a[[0, 2], [1, -1]], lambda a: a[1, [0, 3]], lambda a: a[[[0], [2]], [[1, 2]]],
                 lambda a: a[[[1, 0], [2, -3]]], lambda a: a[[]], lambda a: a[a[:, 0] > 9], lambda a: a.T.reshape(15), lambda a: a[2:0:-1]):  # fmt: skip
        assert np.array_equal(np.asarray(view(t)), view(X)) and view(t).shape == view(X).shape
    assert t.flatten().shape == (15,) and t.unsqueeze(1).squeeze(1).shape == (3, 5)
    assert np.array_equal(t[0].expand(4, -1).numpy(), np.broadcast_to(X[0], (4, 5)))
    assert len(list(t)) == 3 and t[1, 2].item() == X[1, 2]


def test_arithmetic_is_numpys():
    t, i = Tensor(X), np.arange(-7, 8, dtype=np.int32).reshape(3, 5)
    n = Tensor(i)
    close(t + t * 2 - 1, X + X * 2 - 1)
    close(1 / (t.abs() + 1), 1 / (np.abs(X) + 1))
    close(n // 3, i // 3)
    close(n % 3, i % 3)
    close(-7 // (n * n + 1), -7 // (i * i + 1))
    close(n + np.int64(1) * 2**40, i + np.int64(2**40))
    close(n / 2, (i / 2).astype(np.float32))
    close(n + 0.5, (i + 0.5).astype(np.float32))
    close(n << 2, i << 2)
    close(~n ^ 5, ~i ^ 5)
    close((t > 0) & ~(t > 1), (X > 0) & ~(X > 1))
    close(n + Tensor(np.ones(5, np.int64)), i + np.ones(5, np.int64))
    close(t.T @ t, X.T @ X)
    close(t @ np.ones(5, np.float32), X @ np.ones(5, np.float32))
    close(t.clamp(min=0), X.clip(0))
    close(F.where(t > 0, t, 0), np.where(X > 0, X, np.float32(0)))


def test_reductions_take_pytorchs_arguments():
    t = Tensor(X)
    close(t.sum(), X.sum())
    close(t.sum(dim=-1, keepdim=True), X.sum(-1, keepdims=True))
    close(t.mean(dim=(0, 1)), X.mean())
    close(t.var(dim=1), X.var(1, ddof=1))
    close(t.std(dim=0, correction=0), X.std(0))
    close(t.amax(1), X.max(1))
    assert [part.tolist() for part in t.max(dim=1)] == [X.max(1).tolist(), X.argmax(1).tolist()]
    close(t.softmax(dim=-1), np.exp(X) / np.exp(X).sum(-1, keepdims=True))
    close(t.logsumexp(dim=0), np.log(np.exp(X).sum(0)))
    close(t.cumsum(dim=1), X.cumsum(1), atol=1e-5)
    close(Tensor([1, 2, 3]).sum(), np.int64(6))
    close((t > 0).sum(), (X > 0).sum())
    values, indices = t.topk(2, dim=1)
    assert np.array_equal(indices.numpy(), np.argsort(-X, 1)[:, :2])
    assert np.array_equal(values.numpy(), -np.sort(-X, 1)[:, :2])


def test_layers_take_pytorchs_arguments():
    weight, bias = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    normed = (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-5)
    close(F.layer_norm(X, (5,), weight, bias, eps=1e-5), normed * weight + bias, atol=1e-5)
    close(F.rms_norm(X, [5], eps=1e-6), X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-6))
    matrix = np.random.default_rng(5).standard_normal((4, 5)).astype(np.float32)
    close(F.linear(X, matrix, np.ones(4, np.float32)), X @ matrix.T + 1, atol=1e-5)
    close(F.addmm(np.ones(4, np.float32), X, matrix.T, beta=2, alpha=0.5), 2 + X @ matrix.T / 2, atol=1e-5)
    images, filters = np.ones((1, 1, 4, 4), np.float32), np.ones((2, 1, 3, 3), np.float32)
    close(F.conv2d(images, filters, padding=1)[0, 1, 1:3, 1:3], np.full((2, 2), 9, np.float32))
    q, k, v = (np.random.default_rng(i).standard_normal((1, 2, 4, 64)).astype(np.float32) for i in range(3))
    scores = np.exp(q @ k.swapaxes(-1, -2) / 8)
    close(F.scaled_dot_product_attention(q, k, v), scores / scores.sum(-1, keepdims=True) @ v, atol=1e-5)
    close(F.embedding(Tensor([[2, 0]]), X), X[[[2, 0]]])
    logits, labels = Tensor(X), Tensor([1, 0, 4])
    expected = np.log(np.exp(X).sum(1)) - X[[0, 1, 2], [1, 0, 4]]
    close(F.cross_entropy(logits, labels), expected.mean())
    close(F.cross_entropy(logits, labels, reduction="none"), expected)


def test_every_operator_has_its_function():
    assert len(warpfold.ops.names()) > 100
    for name in warpfold.ops.names():
        assert callable(getattr(warpfold.ops, name)) and getattr(warpfold.ops, name).__doc__
    close(warpfold.ops.log_sum_exp(X, dim=-1, keepdim=True), np.log(np.exp(X).sum(-1, keepdims=True)))
    scaled, magnitudes = warpfold.ops.abs_max_scale(X)
    close(magnitudes, np.abs(X).max(-1, keepdims=True))
    with pytest.raises(warpfold.ArgumentError, match="softmax takes no option 'dims'; it takes: alpha, axes"):
        warpfold.ops.softmax(X, dims=1)
    with pytest.raises(AttributeError, match="unknown operation 'sofmax'"):
        warpfold.ops.sofmax  # noqa: B018


def test_types_that_numpy_lacks_are_cast_first():
    t = Tensor(X, dtype="bfloat16")
    assert t.to("float32").dtype == np.float32
    assert np.allclose(t.tolist(), X, rtol=1e-2)
    assert "bf16" in repr(t) or "bfloat16" in repr(t)
    close((t + t).to("f32"), 2 * t.to("f32").numpy())


def test_errors_are_exceptions_with_the_libraries_sentences():
    t = Tensor(X)
    with pytest.raises(warpfold.AxisError, match=r"axis 5 is out of range for 2 dimension\(s\)"):
        t.sum(dim=5)
    with pytest.raises(warpfold.ArgumentError, match="shapes|inner|fit"):
        t + Tensor(np.ones(4, np.float32))
    with pytest.raises(warpfold.DtypeError):
        Tensor(np.array(["a"]))
    with pytest.raises(warpfold.DeviceError, match="unknown device 'gpu'"):
        Tensor(X, device="gpu")
    with pytest.raises(warpfold.ArgumentError):
        Tensor([1, 2]).item()
    with pytest.raises(warpfold.AxisError, match="index 3 is out of range for a dimension of 3"):
        t[3]
    for error in (warpfold.AxisError, warpfold.ArgumentError, warpfold.DtypeError, warpfold.PtxError):
        assert issubclass(error, warpfold.Error)


def test_the_virtual_gpu_checks_our_own_kernels():
    device = warpfold.Device("virtual:a100")
    device.set_checks("all")
    Tensor(X, device=device).softmax(-1)
    reports = device.take_reports()
    assert reports and not any(report["findings"] for report in reports)


def test_a_tensor_says_what_it_is():
    assert repr(Tensor([1.5, 2])) == "Tensor([1.5, 2. ], dtype=float32, device='virtual:h200')"
    assert Tensor(3).item() == 3 and float(Tensor(2.5)) == 2.5 and [10, 20][Tensor(1)] == 20
