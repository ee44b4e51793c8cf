"""torch modules and tensors. Skipped where torch is not installed."""
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import braze  # noqa: E402

pytestmark = pytest.mark.torch


def net():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8),
                               torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 1)).eval()


def test_the_first_complaint_is_five_lines_and_one_kernel():
    """The script as the README has it."""
    readme = (pathlib.Path(__file__).parents[2] / "README.md").read_text()
    block = next(block for block in readme.split("\n\n") if "    import torch, braze" in block)
    script = textwrap.dedent(block)
    assert len(script.splitlines()) == 5 and "Conv2d(32, 64, 3, padding=1)" in script
    check = "\nassert torch.allclose(y, net(x), atol=1e-4)"
    done = subprocess.run([sys.executable, "-c", script + check], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("1 kernel on cpu")
    assert len(lines) == 4 and lines[3].endswith("/0/Conv + /1/Relu")


def test_tensors_in_tensors_out():
    module, x = net(), torch.randn(2, 3, 9, 9)
    model = braze.compile(module, (x,))
    with torch.no_grad():
        want = module(x)
    got = model(x)
    assert isinstance(got, torch.Tensor) and got.device == x.device
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    out = torch.empty_like(want)
    assert model(x, out=out) is out
    torch.testing.assert_close(out, got, rtol=0, atol=0)
    np.testing.assert_array_equal(model(x.numpy()), got.numpy())
    last = x.to(memory_format=torch.channels_last)  # has gaps: copied
    torch.testing.assert_close(model(last), got, rtol=0, atol=0)
    assert model.verify(x)


def test_a_tensor_is_read_where_it_lies():
    """A view into a larger buffer, 4 bytes into it."""
    model = braze.compile(net(), torch.randn(1, 3, 4, 4))
    buffer = torch.randn(3 * 16 + 1)
    x = buffer[1:].view(1, 3, 4, 4)
    torch.testing.assert_close(model(x), model(x.clone()), rtol=0, atol=0)


def test_a_module_keeps_its_mode_and_dropout_is_off():
    module = torch.nn.Sequential(torch.nn.Dropout(0.9), torch.nn.Conv2d(1, 1, 1)).train()
    x = torch.ones(1, 1, 4, 4)
    got = braze.compile(module, x)(x)
    assert module.training
    torch.testing.assert_close(got, module.eval()(x).detach(), rtol=1e-5, atol=1e-6)


def test_several_inputs_and_outputs():
    class Both(torch.nn.Module):
        def forward(self, a, b):
            return a + b, a * b

    a, b = torch.randn(2, 3), torch.randn(2, 3)
    total, product = braze.compile(Both(), (a, b))(a, b)
    torch.testing.assert_close(total, a + b)
    torch.testing.assert_close(product, a * b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64,
                                   torch.bool])
def test_element_types(dtype):
    class Flip(torch.nn.Module):
        def forward(self, x):
            return x.reshape(3, 2)

    x = torch.arange(6).reshape(2, 3).to(dtype)
    got = braze.compile(Flip(), x)(x)
    assert got.dtype == dtype
    assert torch.equal(got, x.reshape(3, 2))


def test_what_is_wrong_is_named():
    with pytest.raises(braze.UsageError, match="needs an example of each input"):
        braze.compile(net())
    model = braze.compile(net(), torch.randn(1, 3, 4, 4))
    with pytest.raises(braze.InputError, match=r"input 'input' is double"):
        model(torch.randn(1, 3, 4, 4, dtype=torch.float64))
    with pytest.raises(braze.InputError, match="gradient"):
        model(torch.randn(1, 3, 4, 4, requires_grad=True))

    class Fourier(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.eigvals(x).real

    with pytest.raises(braze.UnsupportedError, match="cannot export Fourier"):
        braze.compile(Fourier(), torch.randn(3, 3))


def test_all_kinds_of_tensors_are_read_or_refused():
    """Laid out otherwise, lazily negated, of a class of its own; sparse, complex, with gradients."""
    x = torch.randn(2, 3, 9, 9)
    model = braze.compile(torch.nn.ReLU(), x)

    class Own(torch.Tensor):
        pass
    negated = torch.complex(x, -x).conj().imag  # what it stands for is x
    assert negated.is_neg()
    for same in (x.to(memory_format=torch.channels_last), x.permute(0, 1, 3, 2).clone().permute(
            0, 1, 3, 2), torch.nn.Parameter(x, requires_grad=False), x.as_subclass(Own)):
        torch.testing.assert_close(model(same), x.relu(), rtol=0, atol=0)
    try:
        got = model(negated)
    except braze.InputError:
        pass
    else:
        torch.testing.assert_close(got, negated.relu(), rtol=0, atol=0)
    for wrong, message in ((x.to_sparse(), "input '.*' cannot be used: .*layout"),
                           (torch.nn.Parameter(x), "input '.*' cannot be used: .*grad"),
                           (x.to(torch.complex64), "elements of type .*complex64"),
                           (x.to("meta"), "input '.*' ")):
        with pytest.raises(braze.InputError, match=message):
            model(wrong)
    with pytest.raises(braze.InputError, match="output '.*' has gaps"):
        model(x, out=torch.empty(2, 3, 9, 9).to(memory_format=torch.channels_last))


def test_what_torch_needs_to_export_is_said():
    script = ("import sys; sys.modules['onnx'] = sys.modules['onnxscript'] = None\n"
              "import torch, braze\n"
              "try: braze.compile(torch.nn.ReLU(), torch.ones(2))\n"
              "except braze.UnsupportedError as error: print(error)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "cannot export ReLU" in done.stdout, done.stderr
    assert done.stdout.strip().endswith("need `pip install onnx onnxscript`")
