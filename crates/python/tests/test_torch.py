"""CPU tensors of PyTorch, where it is installed."""

import numpy as np
import pytest

import warpfold
from kernels import VECTOR_ADD

torch = pytest.importorskip("torch")


def test_ptx_writes_tensors_in_place():
    base = torch.zeros(200)
    a, b, c = torch.arange(64.0), torch.ones(64), base[100:164]
    report = warpfold.run(VECTOR_ADD, None, 1, 64, [a, b, c, 64], check="deny")
    assert torch.equal(base[100:164], a + 1) and not base[:100].any() and not base[164:].any()
    assert report.outputs[2] is c


def test_tensors_on_other_devices_are_refused():
    with pytest.raises(warpfold.ArgumentError, match=r"a is on meta; the virtual GPU takes tensors on the CPU"):
        warpfold.run(VECTOR_ADD, None, 1, 64, [torch.zeros(64, device="meta"), None, None, 64])


def test_tensors_come_and_go_by_dlpack():
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(torch.from_dlpack(warpfold.Tensor(x).softmax(-1)), x.softmax(-1))
    assert warpfold.Tensor(x, dtype=torch.float64).dtype == np.float64
    assert warpfold.from_dlpack(x.t()).tolist() == x.t().tolist()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int64"])
def test_triton_takes_tensors(dtype):
    pytest.importorskip("triton")
    import triton_kernels as kernels

    x = torch.arange(1000).to(getattr(torch, dtype))
    out = torch.empty_like(x)
    with warpfold.interpret_triton(check="deny"):
        kernels.add_kernel[(4,)](x, x, out, 1000, BLOCK=256)
    assert torch.equal(out, x + x)


def test_functions_agree_with_pytorchs():
    import torch.nn.functional as T

    import warpfold.functional as F

    torch.manual_seed(0)
    x, w, b = torch.randn(4, 6), torch.randn(5, 6), torch.randn(5)
    for ours, theirs in [
        (F.linear(x, w, b), T.linear(x, w, b)),
        (F.gelu(x), T.gelu(x)),
        (F.gelu(x, approximate="tanh"), T.gelu(x, approximate="tanh")),
        (F.layer_norm(x, (6,), eps=1e-5), T.layer_norm(x, (6,), eps=1e-5)),
        (F.addmm(b, x, w.T, beta=0.5, alpha=2), torch.addmm(b, x, w.T, beta=0.5, alpha=2)),
        (F.var(x, dim=1), torch.var(x, dim=1)),
        (F.logsumexp(x, dim=0), torch.logsumexp(x, dim=0)),
        (F.cross_entropy(x, torch.tensor([1, -100, 3, 0])), T.cross_entropy(x, torch.tensor([1, -100, 3, 0]))),
        (F.remainder(x, -0.7), torch.remainder(x, -0.7)),
        (F.fmod(x, -0.7), torch.fmod(x, -0.7)),
        (F.conv2d(x.reshape(1, 1, 4, 6), w.reshape(1, 1, 5, 6), padding=(2, 3)),
         T.conv2d(x.reshape(1, 1, 4, 6), w.reshape(1, 1, 5, 6), padding=(2, 3))),
        (F.addcmul(x, x, x, value=3), torch.addcmul(x, x, x, value=3)),
        (F.topk(x, 2, dim=0)[0], torch.topk(x, 2, dim=0)[0]),
        (F.argmax(x, dim=1), torch.argmax(x, dim=1)),
    ]:  # fmt: skip
        torch.testing.assert_close(torch.from_dlpack(ours), theirs, rtol=1e-5, atol=1e-5)
    q, k, v = (torch.randn(1, 2, 8, 64) for _ in range(3))
    for options in ({}, {"is_causal": True}, {"scale": 0.5}, {"attn_mask": torch.randn(8, 8)}):
        ours = F.scaled_dot_product_attention(q, k, v, **options)
        theirs = T.scaled_dot_product_attention(q, k, v, **options)
        torch.testing.assert_close(torch.from_dlpack(ours), theirs, rtol=1e-4, atol=1e-4)


def same(ours, theirs):
    if isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            same(mine, other)
        return
    torch.testing.assert_close(torch.from_dlpack(ours).clone(), theirs, rtol=1e-5, atol=1e-5)


FUNCTIONS = {
    "sort": lambda f, x: f.sort(x, dim=0, descending=True),
    "argsort": lambda f, x: f.argsort(x, dim=1),
    "msort": lambda f, x: f.msort(x),
    "topk": lambda f, x: f.topk(x, k=2, dim=1, largest=True, sorted=True),
    "topk of the smallest": lambda f, x: f.topk(x, k=2, dim=1, largest=False),
    "kthvalue": lambda f, x: f.kthvalue(x, k=3, dim=1, keepdim=True),
    "median": lambda f, x: (f.median(x), *f.median(x, dim=1)),
    "unique": lambda f, x: f.unique((x * 2).round(), sorted=True, return_inverse=True, return_counts=True),
    "unique along": lambda f, x: f.unique((x[:, :1] > 0), dim=0, return_inverse=True),
    "nonzero": lambda f, x: (f.nonzero(x > 0), *f.nonzero(x > 0, as_tuple=True)),
    "masked_select": lambda f, x: f.masked_select(x, x > 0),
    "masked_fill": lambda f, x: f.masked_fill(x, x > 0, -1.0),
    "take": lambda f, x: f.take(x, f.argsort(x, dim=1)),
    "gather": lambda f, x: f.gather(x, 1, f.argsort(x, dim=1)[:, :2]),
    "take_along_dim": lambda f, x: f.take_along_dim(x, f.argmax(x, dim=1, keepdim=True), dim=1),
    "cat": lambda f, x: f.cat((x, x[:1]), dim=0),
    "stack": lambda f, x: f.stack((x, x), dim=-1),
    "split": lambda f, x: (*f.split(x, 4, dim=1), *f.split(x, [1, 5], dim=1)),
    "chunk": lambda f, x: f.chunk(x, 4, dim=1),
    "unbind": lambda f, x: f.unbind(x, dim=1),
    "var": lambda f, x: (f.var(x, dim=1, unbiased=False), f.var(x, dim=0, correction=2, keepdim=True)),
    "std_mean": lambda f, x: f.std_mean(x, dim=1, keepdim=True),
    "amin": lambda f, x: (f.amin(x, dim=(0, 1)), *f.aminmax(x, dim=1, keepdim=True)),
    "prod": lambda f, x: f.prod(x, dim=1, keepdim=True),
    "norm": lambda f, x: f.norm(x, p=1, dim=1),
    "cumsum": lambda f, x: f.cumsum(x, dim=1),
    "baddbmm": lambda f, x: f.baddbmm(x[None], x[None, :, :4], x[None], beta=0.5, alpha=2),
    "outer": lambda f, x: f.outer(x[0], x[1]),
    "index_select": lambda f, x: f.index_select(x, 1, f.argsort(x, dim=1)[0]),
    "scatter": lambda f, x: f.scatter(x, 1, f.argsort(x, dim=1)[:3, :2], x * 10),
    "scatter of a number": lambda f, x: f.scatter(x, dim=0, index=f.argsort(x, dim=0), value=2.5),
    "scatter that adds": lambda f, x: f.scatter(x, 1, f.argsort(x, dim=1), x, reduce="add"),
    "scatter_add": lambda f, x: f.scatter_add(x, 0, f.argsort(x, dim=0) // 2, x),
    "scatter_reduce": lambda f, x: [
        f.scatter_reduce(x, 1, f.argsort(x, dim=1) // 2, x, reduce=reduce, include_self=include_self)
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for include_self in (True, False)
    ],
    "index_add": lambda f, x: f.index_add(x, 1, f.argsort(x, dim=1)[0] // 2, x, alpha=0.5),
    "index_copy": lambda f, x: f.index_copy(x, 0, f.argsort(x, dim=0)[:, 0], x * 2),
    "index_fill": lambda f, x: f.index_fill(x, 1, f.argsort(x, dim=1)[0, :2], -1.0),
    "index_reduce": lambda f, x: [
        f.index_reduce(x, 0, f.argsort(x, dim=0)[:, 0] // 2, x, reduce) for reduce in ("prod", "mean", "amax", "amin")
    ],
    "slice_scatter": lambda f, x: (f.slice_scatter(x, x[:2], 0, 1, 3), f.slice_scatter(x, x[:, :3], dim=1, step=2)),
    "select_scatter": lambda f, x: f.select_scatter(x, x[0], 0, -1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_pytorchs_arguments_and_give_what_pytorch_gives(name):
    import warpfold.functional as F

    torch.manual_seed(1)
    x = torch.randn(4, 6)
    same(FUNCTIONS[name](F, warpfold.Tensor(x)), FUNCTIONS[name](torch, x))


LAYERS = {
    "max_pool2d": lambda f, x: f.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True, return_indices=True),
    "max_pool1d": lambda f, x: f.max_pool1d(x[:, :, 0], kernel_size=2, dilation=2),
    "max_pool3d": lambda f, x: f.max_pool3d(x[None], (1, 2, 2), return_indices=True),
    "avg_pool2d": lambda f, x: (f.avg_pool2d(x, (2, 3), padding=1, count_include_pad=False), f.avg_pool2d(x[0], 2)),
    "lp_pool2d": lambda f, x: f.lp_pool2d(x.abs(), 2, 2, stride=1),
    "adaptive": lambda f, x: (f.adaptive_avg_pool2d(x, 3), *f.adaptive_max_pool2d(x, (2, 5), return_indices=True)),
    "conv1d": lambda f, x: f.conv1d(x[:, :, 0], x[:, :, 1, :3], stride=2, padding=1),
    "conv2d": lambda f, x: (f.conv2d(x, x[:, :, :3, :3], padding="same"), f.conv2d(x, x[:, :, :2, :2], padding="valid")),
    "rms_norm": lambda f, x: (f.rms_norm(x, (7,)), f.rms_norm(x, (7,), weight=x[0, 0, 0], eps=0.5)),
    "layer_norm": lambda f, x: f.layer_norm(x, (6, 7), x[0, 0], x[0, 1], eps=1e-3),
    "softmax": lambda f, x: (f.softmax(x, dim=1), f.log_softmax(x, dim=2)),
    "interpolate": lambda f, x: (f.interpolate(x, size=(9, 3)), f.interpolate(x, scale_factor=2)),
    "bilinear": lambda f, x: (
        f.interpolate(x, size=(9, 4), mode="bilinear"),
        f.interpolate(x, size=(4, 13), mode="bilinear", align_corners=True),
        f.interpolate(x, scale_factor=(0.5, 3), mode="bilinear", align_corners=False),
    ),
    "linear and trilinear": lambda f, x: (
        f.interpolate(x[0], 11, mode="linear"),
        f.interpolate(x[None], (3, 5, 8), mode="trilinear", align_corners=True),
    ),
    "area": lambda f, x: f.interpolate(x, (2, 5), mode="area"),
    "bicubic": lambda f, x: (
        f.interpolate(x, size=(9, 4), mode="bicubic"),
        f.interpolate(x, size=(4, 13), mode="bicubic", align_corners=True),
        f.interpolate(x, size=(1, 7), mode="bicubic"),
        f.interpolate(x, scale_factor=(1.1, 0.37), mode="bicubic"),
    ),
    "factors that make no whole size": lambda f, x: (
        *(f.interpolate(x, scale_factor=s, mode="nearest") for s in (1.7, 0.4, (2.1, 0.9))),
        *(f.interpolate(x, scale_factor=s, mode="nearest-exact") for s in (1.7, 0.4, 1.01)),
        *(f.interpolate(x, scale_factor=s, mode="bilinear") for s in (1.7, 0.4, 1.01)),
        f.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=True),
        f.interpolate(x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True),
        f.interpolate(x, scale_factor=1.7, mode="bicubic", recompute_scale_factor=True),
        f.interpolate(x, scale_factor=0.4, mode="area"),
        f.interpolate(x[0], scale_factor=1.3, mode="linear"),
    ),
    "nearest-exact": lambda f, x: tuple(f.interpolate(x, size=(n, n + 1), mode="nearest-exact") for n in (1, 4, 9, 13)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_take_pytorchs_arguments_and_give_what_pytorch_gives(name):
    import torch.nn.functional as T

    import warpfold.functional as F

    torch.manual_seed(1)
    x = torch.randn(2, 2, 6, 7)
    same(LAYERS[name](F, warpfold.Tensor(x)), LAYERS[name](T, x))


def test_attention_takes_pytorchs_masks_and_groups():
    import torch.nn.functional as T

    import warpfold.functional as F

    torch.manual_seed(1)
    q, k, v = torch.randn(1, 4, 8, 64), torch.randn(1, 2, 8, 64), torch.randn(1, 2, 8, 64)
    options = {"attn_mask": torch.rand(8, 8) > 0.3, "enable_gqa": True, "dropout_p": 0.0}
    same(F.scaled_dot_product_attention(q, k, v, **options), T.scaled_dot_product_attention(q, k, v, **options))
    with pytest.raises(warpfold.ArgumentError, match="4 heads, keys 2: that takes enable_gqa=True"):
        F.scaled_dot_product_attention(q, k, v)
    with pytest.raises(warpfold.ArgumentError, match="there is no dropout"):
        F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)


def test_segments_are_pytorchs():
    import warpfold.functional as F

    x = torch.arange(6.0)
    for reduce in ("sum", "mean", "max", "min", "prod"):
        theirs = torch.segment_reduce(x, reduce, lengths=torch.tensor([2, 3, 1]))
        same(F.segment_reduce(x, reduce, lengths=torch.tensor([2, 3, 1])), theirs)
        same(F.segment_reduce(x, reduce, offsets=torch.tensor([0, 2, 5, 6])), theirs)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "bool", "uint8", "int64"])
def test_every_element_type_comes_and_goes_by_dlpack(dtype):
    x = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    ours = warpfold.from_dlpack(x.t())
    back = torch.from_dlpack(ours)
    assert back.dtype == x.dtype and torch.equal(back.float(), x.t().float())
    # The same memory, for PyTorch asks by a version.
    assert back.data_ptr() == torch.from_dlpack(ours).data_ptr()


def test_what_torch_empty_gives_is_not_initialised_until_something_writes_it():
    pytest.importorskip("triton")
    import triton_kernels as kernels

    n = 1000
    with warpfold.interpret_triton() as session, pytest.warns(warpfold.FindingWarning):
        out = torch.empty(n)
        for make in (lambda: torch.empty(n), lambda: torch.empty_like(out), lambda: out.new_empty(n)):
            before = len(session.findings)
            x = make()
            kernels.add_kernel[(4,)](x, torch.ones(n), out, n, BLOCK=256)
            assert [f.kind for f in session.findings[before:]] == ["uninitialized"], session.findings[before:]

    with warpfold.interpret_triton(check="deny") as session:
        x, y, out = torch.empty(n), torch.empty(n, dtype=torch.float32), torch.empty(n)
        x.fill_(2)
        y.numpy()[:] = 3
        kernels.add_kernel[(4,)](x, y, out, n, BLOCK=256)
        # A kernel has written it, too.
        kernels.add_kernel[(4,)](out, y, x, n, BLOCK=256)
        assert torch.equal(x, torch.full((n,), 8.0)) and not session.findings
    assert torch.empty.__module__ != "warpfold.unwritten"


def test_a_part_that_a_kernel_has_written_is_initialised():
    pytest.importorskip("triton")
    import triton_kernels as kernels

    with warpfold.interpret_triton() as session:
        out, ones = torch.empty(1000), torch.ones(1000)
        kernels.add_kernel[(4,)](ones, ones, out, 900, BLOCK=256)
        kernels.add_kernel[(4,)](out, ones, torch.zeros(1000), 900, BLOCK=256)
        assert not session.findings
        with pytest.warns(warpfold.FindingWarning):
            kernels.add_kernel[(4,)](out, ones, torch.zeros(1000), 901, BLOCK=256)
        assert [f.kind for f in session.findings] == ["uninitialized"]
