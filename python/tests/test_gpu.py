"""Networks on a GPU: arrays in its memory, in the caller's stream. Skipped where there is none."""
import numpy as np
import pytest

import braze
from networks import conv_relu, random, two_outputs

if braze.get_device() != "GPU":
    pytest.skip(f"no GPU: {braze.devices()['cuda']}", allow_module_level=True)

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def model():
    return braze.compile(conv_relu(), device="cuda")


def test_arrays_of_the_host_are_copied(model):
    x = random(1, 3, 8, 8)
    got = model(x)
    assert isinstance(got, np.ndarray)
    np.testing.assert_allclose(got, braze.compile(conv_relu())(x), rtol=1e-4, atol=1e-5)
    assert model.verify(x) and model.bench().min_us > 0


def test_a_session_runs_there():
    session = braze.InferenceSession(conv_relu("batch", "side"),
                                     providers=[("CUDAExecutionProvider", {"device_id": 0})])
    assert session.get_providers() == ["CUDAExecutionProvider", "CPUExecutionProvider"]
    x = random(2, 3, 9, 9)
    np.testing.assert_allclose(session.run(None, {"x": x})[0],
                               braze.compile(conv_relu(2, 9))(x), rtol=1e-4, atol=1e-5)


def test_tensors_of_the_gpu_stay_there(model):
    torch = pytest.importorskip("torch")
    host = random(1, 3, 8, 8)
    x = torch.from_numpy(host).cuda()
    want = model(host)
    for _ in range(3):  # copied on the GPU, then in place
        got = model(x)
        assert got.device == x.device
        np.testing.assert_allclose(got.cpu().numpy(), want, rtol=1e-6)
    out = torch.empty_like(got)
    for _ in range(3):
        out.fill_(float("nan"))
        assert model(x, out=out) is out
        np.testing.assert_allclose(out.cpu().numpy(), want, rtol=1e-6)
    with pytest.raises(braze.InputError, match="on cuda:0, or all in host memory"):
        model(x.cpu(), out=out)


def test_the_callers_stream_is_respected(model):
    """A long kernel in a side stream makes the input; the output is read in that stream."""
    torch = pytest.importorskip("torch")
    side = torch.cuda.Stream()
    host = random(1, 3, 8, 8)
    want = model(host)
    for _ in range(10):
        with torch.cuda.stream(side):
            x = torch.zeros(1, 3, 8, 8, device="cuda")
            torch.cuda._sleep(20_000_000)
            x.copy_(torch.from_numpy(host))
            got = model(x) + 0
        side.synchronize()
        np.testing.assert_allclose(got.cpu().numpy(), want, rtol=1e-6)


def test_io_binding_on_the_gpu():
    torch = pytest.importorskip("torch")
    session = braze.InferenceSession(two_outputs(), providers=["CUDAExecutionProvider"])
    a, b = torch.randn(2, 3, device="cuda"), torch.randn(2, 3, device="cuda")
    total = torch.empty_like(a)
    binding = session.io_binding()
    binding.bind_input("a", "cuda", 0, np.float32, (2, 3), a.data_ptr())
    binding.bind_ortvalue_input("b", braze.OrtValue.from_dlpack(b))
    binding.bind_output("sum", "cuda", 0, np.float32, (2, 3), total.data_ptr())
    binding.bind_output("product", "cuda")
    torch.cuda.synchronize()
    session.run_with_iobinding(binding)
    host = binding.copy_outputs_to_cpu()
    np.testing.assert_allclose(host[0], (a + b).cpu().numpy())
    np.testing.assert_allclose(host[1], (a * b).cpu().numpy())
    np.testing.assert_allclose(total.cpu().numpy(), host[0])


def test_torch_compile_on_the_gpu():
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU()).cuda().eval()
    x = torch.randn(1, 3, 16, 16, device="cuda")
    with torch.no_grad():
        got = torch.compile(net, backend="braze")(x)
        torch.testing.assert_close(got, net(x), rtol=1e-3, atol=1e-3)
