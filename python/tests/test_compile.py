"""What can be compiled, with which options, and what is said where it cannot."""
import signal
import warnings

import numpy as np
import onnx
import pytest

import braze
import lock
from networks import conv_relu, make_model, random


def test_a_file_bytes_and_a_model_are_one(tmp_path):
    proto = conv_relu()
    onnx.save(proto, tmp_path / "net.onnx")
    x = random(1, 3, 8, 8)
    want = braze.compile(proto)(x)
    for model in (tmp_path / "net.onnx", str(tmp_path / "net.onnx"), proto.SerializeToString()):
        np.testing.assert_array_equal(braze.compile(model)(x), want)


def test_external_data_is_found_beside_the_file(tmp_path):
    proto = conv_relu()
    want = braze.compile(proto)(random(1, 3, 8, 8))
    onnx.save(proto, tmp_path / "net.onnx", save_as_external_data=True, size_threshold=0,
              location="weights.bin")
    assert (tmp_path / "weights.bin").exists()
    np.testing.assert_array_equal(braze.compile(tmp_path / "net.onnx")(random(1, 3, 8, 8)), want)


def test_save_and_load(tmp_path):
    model = braze.compile(conv_relu())
    model.save(tmp_path / "net.brz")
    loaded = braze.load(tmp_path / "net.brz")
    x = random(1, 3, 8, 8)
    np.testing.assert_array_equal(loaded(x), model(x))
    assert loaded.plan.kernels == model.plan.kernels
    with pytest.raises(braze.UnsupportedError, match="no reference graph"):
        loaded.verify()


def test_options_reach_the_compiler():
    joined, apart = braze.compile(conv_relu()), braze.compile(conv_relu(), fusion="off")
    assert (len(joined.plan.kernels), len(apart.plan.kernels)) == (1, 2)
    nhwc = braze.compile(conv_relu(), io_layout="nhwc")
    assert nhwc.inputs[0].shape == (1, 8, 8, 3) and nhwc.plan.nhwc_io
    x = random(1, 3, 8, 8)
    np.testing.assert_allclose(nhwc(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2), joined(x),
                               rtol=1e-5, atol=1e-6)
    sized = braze.compile(conv_relu("N", "S"), dims={"N": 2, "S": 5})
    assert sized.inputs[0].shape == (2, 3, 5, 5)
    shaped = braze.compile(
        make_model([("Reshape", ["x", "s"], ["y"])], [("x", [6]), ("s", [2], 7)],
                   [("y", [None, None])]), constants={"s": np.array([2, 3], np.int64)})
    assert shaped(random(6)).shape == (2, 3)


def test_a_plan_for_a_gpu_that_is_not_here():
    model = braze.compile(conv_relu(), device="cuda:sm_90", precision="fp16", io_dtype="compute")
    assert model.plan.device == "cuda:sm_90" and model.inputs[0].dtype == "float16"
    assert "__global__" in model.source(model.plan.kernels[0].name)
    with pytest.raises(braze.DeviceError, match="made without a GPU"):
        model(random(1, 3, 8, 8).astype(np.float16))


@pytest.mark.parametrize("options, message", [
    ({"precision": "fp8"}, "precision is 'fp8'; expected fp32, tf32, fp16, bf16"),
    ({"fusion": "all"}, "fusion is 'all'; expected off, epilogue, full"),
    ({"io_layout": "NHWC"}, "io_layout is 'NHWC'; expected model or nhwc"),
    ({"device": "tpu"}, "device 'tpu' is unknown"),
    ({"dims": {"Q": 3}}, "no such dimension"),
    ({"threads": -1}, "threads is -1"),
    ({"inputs": 3}, "inputs are examples for a torch module"),
])
def test_wrong_options_are_named(options, message):
    with pytest.raises(braze.UsageError, match=message) as caught:
        braze.compile(conv_relu(), **options)
    assert isinstance(caught.value, ValueError) and caught.value.exit_code == 2


def test_wrong_models_are_named(tmp_path):
    with pytest.raises(braze.UsageError, match="model is a int; expected a path, bytes"):
        braze.compile(3)
    with pytest.raises(braze.ModelError, match="nowhere.onnx"):
        braze.compile(tmp_path / "nowhere.onnx")
    with pytest.raises(braze.ModelError, match="not an ONNX model"):
        braze.compile(b"not a model")
    unknown = make_model([("Unique", ["x"], ["y"], {"name": "lonely"})], [("x", [3])],
                         [("y", [None])])
    with pytest.raises(braze.UnsupportedError, match=r"node 'lonely' \(Unique\)") as caught:
        braze.compile(unknown)
    assert isinstance(caught.value, NotImplementedError) and caught.value.exit_code == 3
    with pytest.raises(braze.FileError):
        braze.compile(conv_relu()).save(tmp_path / "no" / "such" / "folder.brz")


@pytest.mark.parametrize("wrong, message", [
    (np.zeros((1, 3, 8, 8)), r"input 'x' is double \[1,3,8,8\]; expected float \[1,3,8,8\]"),
    (np.zeros((1, 3, 8, 9), np.float32), r"input 'x' is float \[1,3,8,9\]"),
    (np.zeros((1, 3, 8, 8), np.dtype(">f4")), "elements of type >f4"),
    (np.zeros((1, 3, 8, 8), np.complex64), "elements of type complex64"),
    ([1, 2], "input 'x' is a list; expected an array"),
    (None, "input 'x' is a NoneType"),
])
def test_wrong_inputs_are_named(wrong, message):
    model = braze.compile(conv_relu())
    with pytest.raises(braze.InputError, match=message):
        model(wrong)


def test_wrong_calls_are_named():
    model, x = braze.compile(conv_relu()), random(1, 3, 8, 8)
    with pytest.raises(braze.InputError, match="2 inputs were given; expected 1"):
        model(x, x)
    with pytest.raises(braze.InputError, match="inputs are x; not given: x"):
        model({})
    with pytest.raises(braze.InputError, match="unknown, or given twice: z"):
        model(x, z=x)
    with pytest.raises(braze.InputError, match="output 'y' has gaps"):
        model(x, out=np.empty((1, 8, 8, 16), np.float32)[..., ::2])
    fixed = np.empty((1, 8, 8, 8), np.float32)
    fixed.flags.writeable = False
    with pytest.raises(braze.InputError, match="output 'y' cannot be used: .*(writ|read-only)"):
        model(x, out=fixed)
    with pytest.raises(braze.InputError, match=r"output 'y' is float \[1,8,8,7\]"):
        model(x, out=np.empty((1, 8, 8, 7), np.float32))


def test_compiling_releases_pythons_lock():
    wide = make_model([("Conv", ["x", "w"], ["y"])], [("x", [1, 512, 8, 8])],
                      [("y", [1, 512, 6, 6])], [("w", random(512, 512, 3, 3))])
    data = wide.SerializeToString()
    assert lock.is_released_by(lambda: braze.compile(data, threads=1))


def test_nothing_is_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        braze.compile(conv_relu())(random(1, 3, 8, 8))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
