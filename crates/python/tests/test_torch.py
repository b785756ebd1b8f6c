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
