"""Arrays that lie on a GPU, and a driver that does all but run kernels (tests/exec_cuda/fake): which
protocols they are asked for, in which order, and what a call does on the GPU. The folders of the
fakes are in BRAZE_FAKE_CUDA and BRAZE_FAKE_CUDNN; a process that has opened them sees no real GPU."""
import collections
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

if "BRAZE_FAKE_CUDA" not in os.environ:
    pytest.skip("no fake driver: BRAZE_FAKE_CUDA is not set", allow_module_level=True)

import braze
import fakes
from networks import conv_relu, random, two_outputs

SHAPES = (1, 3, 8, 8), (1, 8, 8, 8)


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """Counts a function's calls."""
    folder = tmp_path_factory.mktemp("cuda")
    for file in pathlib.Path(os.environ["BRAZE_FAKE_CUDA"]).glob("*/lib*"):
        if file.parent.name in ("driver", "cuda12"):
            (folder / file.name).symlink_to(file)
    os.environ["BRAZE_CUDA_PATH"] = str(folder)
    os.environ["BRAZE_CACHE_DIR"] = str(folder / "cache")
    assert braze.devices()["cuda:0"].startswith("Fake H200"), braze.devices()
    library = ctypes.CDLL(str(folder / "libcuda.so.1"))
    return lambda name: library.fake_calls(name.encode())


@pytest.fixture(scope="module")
def model(driver):
    return braze.compile(conv_relu(), device="cuda")


@pytest.fixture
def calls(driver):
    """What a call does on the GPU, without what is asked only."""
    names = ["cuEventRecord", "cuStreamWaitEvent", "cuGraphLaunch", "cuMemcpyDtoDAsync_v2",
             "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuMemAlloc_v2"]

    def count(action):
        before = collections.Counter({name: driver(name) for name in names})
        action()
        after = collections.Counter({name: driver(name) for name in names})
        return dict(after - before)
    return count


# A run in the stream of the one before: one launch, and an event for whoever comes next.
QUICK = {"cuGraphLaunch": 1, "cuEventRecord": 1, "cuStreamWaitEvent": 1}


def test_devices_say_which_file_and_why(driver):
    found = braze.devices()
    for name in ("cuda", "nvrtc"):
        assert f"{os.environ['BRAZE_CUDA_PATH']}/lib" in found[name]
        assert "(BRAZE_CUDA_PATH)" in found[name]


def test_which_cudnn_is_taken(tmp_path):
    """The one somebody names, the one that is loaded, that of the process's own packages."""
    fake = pathlib.Path(os.environ["BRAZE_FAKE_CUDNN"]) / "libcudnn_graph.so.9"
    packages = tmp_path / "site-packages"
    folders = {name: tmp_path / name for name in ("named", "loaded", "site-packages/nvidia/cudnn/lib")}
    for folder in folders.values():
        folder.mkdir(parents=True)
        shutil.copy(fake, folder)
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    environment.pop("BRAZE_CUDA_PATH", None)
    script = ("import ctypes, sys; loaded = [ctypes.CDLL(file) for file in sys.argv[1:]]; "
              "import braze; print(braze.devices()['cudnn'])")

    def taken(*loaded, **more):
        done = subprocess.run([sys.executable, "-c", script, *map(str, loaded)], text=True,
                              capture_output=True, env={**environment, **more}, check=True)
        return done.stdout.strip()
    lib = "libcudnn_graph.so.9"
    assert taken() == f"9.8.1 {packages}/nvidia/cudnn/lib/{lib} (PyPI package of this process)"
    loaded = folders["loaded"] / lib
    assert taken(loaded) == f"9.8.1 {loaded} (loaded already)"
    # Another part of it is enough.
    shutil.copy(fake, folders["loaded"] / "libcudnn_ops.so.9")
    assert taken(folders["loaded"] / "libcudnn_ops.so.9") == f"9.8.1 {loaded} (loaded already)"
    assert taken(loaded, BRAZE_CUDA_PATH=str(folders["named"])) == (
        f"9.8.1 {folders['named'] / lib} (BRAZE_CUDA_PATH)")


def test_dlpack_is_asked_before_host_memory(model, calls):
    x, out = fakes.OnGpu(SHAPES[0]), fakes.OnGpu(SHAPES[1])
    assert model(x, out=out) is out
    for array in (x, out):
        assert set(array.asked) == {"device", "dlpack 1"} and array.asked[-1] == "dlpack 1"
    x.asked.clear()
    model(x, out=out, stream=77)
    assert x.asked[-1] == "dlpack 77"


def test_addresses_that_come_again_cost_one_launch(driver, calls, monkeypatch):
    model = braze.compile(conv_relu(), device="cuda")  # one that has seen none
    cupy = fakes.cupy()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    x, out = cupy.ndarray(SHAPES[0]), cupy.ndarray(SHAPES[1])
    first = calls(lambda: model(x, out=out))
    assert first["cuMemcpyDtoDAsync_v2"] == 2 and first["cuGraphLaunch"] == 1
    model(x, out=out)
    for _ in range(3):
        assert calls(lambda: model(x, out=out)) == QUICK


def test_cupys_arrays_come_back_in_kind_and_in_its_stream(model, calls, monkeypatch):
    cupy = fakes.cupy(stream=4096)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    x = cupy.ndarray(SHAPES[0])
    got = model(x)
    assert type(got) is cupy.ndarray and got.shape == SHAPES[1]
    assert x.asked[-1] == got.asked[-1] == "dlpack 4096"
    assert model.bench(x, iterations=1).min_us > 0  # to host memory
    # One with gaps is copied where it is used, after what is under way where it was made.
    x.host = np.moveaxis(fakes.aligned((1, 8, 8, 3)), 3, 1)
    model(x, stream=77)
    assert cupy.copies == [(77, [4096])]


def test_jaxs_arrays_come_back_in_kind_and_are_waited_for(model, calls, monkeypatch):
    numpy, jaxlib = fakes.jax()
    monkeypatch.setitem(sys.modules, "jax.numpy", numpy)
    x = jaxlib.ArrayImpl(SHAPES[0])
    did = calls(lambda: setattr(x, "got", model(x)))
    assert type(x.got) is jaxlib.ArrayImpl and x.got.taken[0] == 2
    assert x.asked[-1] == "dlpack 1"
    assert did["cuStreamSynchronize"] >= 1
    monkeypatch.delattr(jaxlib.ArrayImpl, "__array_namespace__")  # versions before 0.4.32
    assert type(model(x)) is jaxlib.ArrayImpl
    assert calls(lambda: model(x, out=fakes.OnGpu(SHAPES[1])))["cuStreamSynchronize"] >= 1
    assert model.bench(x, iterations=1).min_us > 0


def test_outputs_of_nobodys_kind_have_dlpack(model):
    got = model(fakes.OnGpu(SHAPES[0]))
    assert got.__dlpack_device__() == (2, 0) and tuple(got.shape) == SHAPES[1]
    assert got.__dlpack__(stream=-1) and got.__dlpack__() and got.__dlpack__(stream=None)


def test_the_reader_of_an_output_waits_in_its_stream(driver, calls):
    session = braze.InferenceSession(conv_relu(), providers=["CUDAExecutionProvider"])
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", braze.OrtValue.from_dlpack(fakes.OnGpu(SHAPES[0])))
    binding.bind_output("y", "cuda")
    session.run_with_iobinding(binding)
    (got,) = binding.get_outputs()
    assert calls(lambda: got.array.__dlpack__(stream=-1)) == {}
    driver_waits = {"cuEventRecord": 1, "cuStreamWaitEvent": 1}
    # The fake driver says of all streams that they are the same one, that of the run.
    assert calls(lambda: got.array.__dlpack__(stream=1)) in ({}, driver_waits)
    assert binding.copy_outputs_to_cpu()[0].shape == SHAPES[1]


def test_what_is_bound_in_place_is_run_in_place(driver, calls):
    session = braze.InferenceSession(conv_relu(), providers=["CUDAExecutionProvider"])
    x, y = fakes.aligned(SHAPES[0]), fakes.aligned(SHAPES[1])
    binding = session.io_binding()
    binding.bind_input("x", "cuda", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("y", "cuda", 0, np.float32, y.shape, y.ctypes.data)
    for _ in range(3):
        session.run_with_iobinding(binding)
    for _ in range(3):
        assert calls(lambda: session.run_with_iobinding(binding)) == QUICK
    assert [value.data_ptr() for value in binding.get_outputs()] == [y.ctypes.data]
    binding.bind_output("y", "cuda")
    assert calls(lambda: session.run_with_iobinding(binding))["cuMemAlloc_v2"] == 1
    assert binding.get_outputs()[0].data_ptr() != y.ctypes.data


def test_the_cuda_array_interface(model, calls):
    x, out = fakes.Numbas(SHAPES[0]), fakes.Numbas(SHAPES[1])
    model(x, out=out)
    model(x, out=out)
    plain = calls(lambda: model(x, out=out))
    assert plain["cuGraphLaunch"] == 1
    x.__cuda_array_interface__["stream"] = 1  # the default one, as that of the run
    assert calls(lambda: model(x, out=out)) == plain
    x.__cuda_array_interface__["stream"] = 4096
    other = calls(lambda: model(x, out=out))
    assert other["cuStreamWaitEvent"] > plain["cuStreamWaitEvent"]
    for wrong, message in [
            (fakes.Numbas(SHAPES[0], strides=(8, 4, 4, 4)), "input 'x' has gaps"),
            (fakes.Numbas(SHAPES[0], typestr="<c8"), "input 'x' has elements of type"),
            (fakes.Numbas((1, 3, 8, 9)), r"input 'x' is float \[1,3,8,9\]")]:
        with pytest.raises(braze.InputError, match=message):
            model(wrong, out=out)
    with pytest.raises(braze.InputError, match="output 'y' is read-only"):
        model(x, out=fakes.Numbas(SHAPES[1], read_only=True))
    assert fakes.Numbas(SHAPES[0], strides=(768, 256, 32, 4)) is not None
    model(fakes.Numbas(SHAPES[0], strides=(768, 256, 32, 4)), out=out)


def test_arrays_are_all_in_one_place(model):
    x, out = random(*SHAPES[0]), np.empty(SHAPES[1], np.float32)
    with pytest.raises(braze.InputError, match="the inputs are in host memory and the outputs on "
                       "cuda:0; expected all on cuda:0, or all in host memory"):
        model(x, out=fakes.OnGpu(SHAPES[1]))
    with pytest.raises(braze.InputError, match="the inputs are on cuda:0 and the outputs in host "
                       "memory; expected all on cuda:0, or all in host memory"):
        model(fakes.OnGpu(SHAPES[0]), out=out)
    with pytest.raises(braze.InputError, match="input 'x' is on cuda:3; expected all inputs on "
                       "cuda:0, or all in host memory"):
        model(fakes.OnGpu(SHAPES[0], gpu=3), out=fakes.OnGpu(SHAPES[1]))
    pair = braze.compile(two_outputs(), device="cuda")
    with pytest.raises(braze.InputError, match="input 'b' is in host memory; expected all inputs on "
                       "cuda:0, or all in host memory"):
        pair(fakes.OnGpu((2, 3)), random(2, 3))


def test_a_network_on_the_cpu_takes_none():
    model = braze.compile(conv_relu())
    for x in (fakes.OnGpu(SHAPES[0]), fakes.Numbas(SHAPES[0]), fakes.cupy().ndarray(SHAPES[0])):
        with pytest.raises(braze.InputError, match="input 'x' is on cuda:0; expected all inputs in "
                           "host memory: the model runs on the CPU"):
            model(x)
