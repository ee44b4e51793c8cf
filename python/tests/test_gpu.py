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


def test_two_streams_take_turns(model):
    """A model's memory is shared by its runs: the second waits for the first, which is late."""
    torch = pytest.importorskip("torch")
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    hosts = random(1, 3, 8, 8, seed=1), random(1, 3, 8, 8, seed=2)
    xs = [torch.zeros(1, 3, 8, 8, device="cuda") for _ in streams]
    outs = [torch.empty(1, 8, 8, 8, device="cuda") for _ in streams]
    torch.cuda.synchronize()
    for _ in range(5):
        for k, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(0 if k else 10_000_000)
                xs[k].copy_(torch.from_numpy(hosts[k]))
                model(xs[k], out=outs[k])
        torch.cuda.synchronize()
        for host, out in zip(hosts, outs):
            np.testing.assert_allclose(out.cpu().numpy(), model(host), rtol=1e-6)


def test_a_stream_that_is_not_the_current_one(model):
    """The input is made in the current stream, late; the work goes into another one."""
    torch = pytest.importorskip("torch")
    side = torch.cuda.Stream()
    host = random(1, 3, 8, 8)
    for layout in (torch.contiguous_format, torch.channels_last):
        x = torch.zeros(1, 3, 8, 8, device="cuda").to(memory_format=layout)
        torch.cuda._sleep(10_000_000)
        x.copy_(torch.from_numpy(host))
        got = model(x, stream=side.cuda_stream)
        side.synchronize()
        np.testing.assert_allclose(got.cpu().numpy(), model(host), rtol=1e-6)


def test_cupys_arrays_stay_there(model):
    cupy = pytest.importorskip("cupy")
    host = random(1, 3, 8, 8)
    x, want = cupy.asarray(host), model(host)
    for _ in range(3):
        got = model(x)
        assert isinstance(got, cupy.ndarray)
        np.testing.assert_allclose(cupy.asnumpy(got), want, rtol=1e-6)
    out = cupy.empty_like(got)
    assert model(cupy.asfortranarray(x), out=out) is out
    np.testing.assert_allclose(cupy.asnumpy(out), want, rtol=1e-6)
    assert model.verify(x)


def test_jaxs_arrays_stay_there(model, monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    if jax.devices()[0].platform != "gpu":
        pytest.skip("jax sees no GPU")
    host = random(1, 3, 8, 8)
    want = model(host)
    for _ in range(10):
        got = model(jax.device_put(host) + 0) + 0  # temporaries, whose memory jax uses again
        assert isinstance(got, jax.Array)
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)


def test_there_is_one_cudnn(model):
    """torch's cuDNN and the one that Braze has opened, here or for torch, are the same files."""
    torch = pytest.importorskip("torch")
    braze.devices()
    with torch.no_grad():
        torch.nn.Conv2d(3, 8, 3).cuda()(torch.zeros(1, 3, 8, 8, device="cuda"))
    with open("/proc/self/maps", encoding="utf-8") as maps:
        files = {line.split()[-1] for line in maps if "/libcudnn" in line}
    assert len({file.rpartition("/")[0] for file in files}) <= 1, files


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
