"""Calls: arrays in, arrays out, in kind and without copies."""
import gc
import sys
import threading

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

import braze
import lock
from networks import conv_relu, make_model, random, two_outputs


@pytest.fixture(scope="module")
def model():
    return braze.compile(conv_relu())


def test_the_answer_is_onnx_runtimes(model, reference):
    x = random(1, 3, 8, 8)
    (want,) = reference(conv_relu(), {"x": x})
    got = model(x)
    assert isinstance(got, np.ndarray) and got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_inputs_and_outputs_are_described(model):
    assert model.inputs == (braze.Tensor("x", "float", (1, 3, 8, 8)),)
    assert str(model.outputs[0]) == "y: float[1, 8, 8, 8]"
    assert "x: float[1, 3, 8, 8]" in repr(model) and "1 kernel on cpu" in repr(model)


def test_inputs_by_order_name_and_mapping():
    model = braze.compile(two_outputs())
    a, b = random(2, 3, seed=1), random(2, 3, seed=2)
    for got in (model(a, b), model(a, b=b), model(b=b, a=a), model({"a": a, "b": b}),
                tuple(model.run({"a": a, "b": b}).values())):
        assert isinstance(got, tuple)
        np.testing.assert_array_equal(got[0], a + b)
        np.testing.assert_array_equal(got[1], a * b)
    assert list(model.run({"a": a, "b": b})) == ["sum", "product"]


def test_out_is_written_in_place(model):
    x, want = random(1, 3, 8, 8), None
    want = model(x)
    out = np.full_like(want, np.nan)
    assert model(x, out=out) is out
    np.testing.assert_array_equal(out, want)
    pair = braze.compile(two_outputs())
    outs = (np.empty((2, 3), np.float32), np.empty((2, 3), np.float32))
    a = random(2, 3)
    assert pair(a, a, out=outs) is outs
    np.testing.assert_array_equal(outs[1], a * a)


def test_an_input_without_gaps_is_not_copied():
    """The output of a network that changes while it runs would tell; the address tells sooner."""
    model = braze.compile(make_model([("Identity", ["x"], ["y"])], [("x", [4])], [("y", [4])]))
    x = random(4)
    x.flags.writeable = False
    before = sys.getrefcount(x)
    np.testing.assert_array_equal(model(x), x)
    gc.collect()
    assert sys.getrefcount(x) == before


@pytest.mark.parametrize("gaps", [
    lambda x: np.asfortranarray(x),
    lambda x: np.repeat(x, 2, axis=3)[..., ::2],
    lambda x: x[:, ::-1][:, ::-1],
])
def test_an_input_with_gaps_is_copied(model, gaps):
    x = random(1, 3, 8, 8)
    np.testing.assert_array_equal(model(gaps(x)), model(x))


class Capsules:
    """An array of some framework: DLPack and nothing else."""

    def __init__(self, array):
        self.array = array
        self.taken = 0

    @property
    def shape(self):
        return self.array.shape

    def __dlpack__(self, **arguments):
        self.taken += 1
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Namespace:
    @staticmethod
    def from_dlpack(array):
        return Standard(np.from_dlpack(array))


class Standard(Capsules):
    """One with an array namespace, which outputs are made with."""

    def __array_namespace__(self):
        return Namespace


def test_any_dlpack_goes_in_and_comes_out_in_kind(model):
    x = random(1, 3, 8, 8)
    want = model(x)
    plain = Capsules(x)
    got = model(plain)
    assert plain.taken == 1 and isinstance(got, np.ndarray)
    np.testing.assert_array_equal(got, want)
    got = model(Standard(x))
    assert isinstance(got, Standard)
    np.testing.assert_array_equal(got.array, want)
    out = np.empty_like(want)
    assert isinstance(model(plain, out=Capsules(out)), Capsules)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("onnx_type, dtype", [
    (TensorProto.FLOAT, np.float32), (TensorProto.DOUBLE, np.float64),
    (TensorProto.FLOAT16, np.float16), (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    (TensorProto.INT8, np.int8), (TensorProto.UINT8, np.uint8), (TensorProto.INT32, np.int32),
    (TensorProto.INT64, np.int64), (TensorProto.BOOL, np.bool_)])
def test_element_types(onnx_type, dtype):
    model = braze.compile(make_model([("Reshape", ["x", "s"], ["y"])], [("x", [2, 3], onnx_type)],
                                     [("y", [3, 2], onnx_type)],
                                     [("s", np.array([3, 2], np.int64))]))
    x = np.arange(6).reshape(2, 3).astype(dtype)
    got = model(x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, x.reshape(3, 2))


def test_scalars_and_empty_arrays():
    model = braze.compile(make_model([("Neg", ["x"], ["y"])], [("x", [])], [("y", [])]))
    assert model(np.float32(3).reshape(())) == -3
    model = braze.compile(make_model([("Neg", ["x"], ["y"])], [("x", [0, 2])], [("y", [0, 2])]))
    assert model(np.empty((0, 2), np.float32)).shape == (0, 2)


def test_threads_share_a_model(model):
    xs = [random(1, 3, 8, 8, seed=i) for i in range(4)]
    wants = [model(x) for x in xs]
    wrong = []

    def work(i):
        for _ in range(200):
            if not np.array_equal(model(xs[i]), wants[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_pythons_lock_is_released_while_it_runs():
    wide = make_model([("Conv", ["x", "w"], ["y"], {"pads": [1, 1, 1, 1]})],
                      [("x", [1, 64, 128, 128])], [("y", [1, 64, 128, 128])],
                      [("w", random(64, 64, 3, 3))])
    model = braze.compile(wide, threads=1)
    x, out = random(1, 64, 128, 128), np.empty((1, 64, 128, 128), np.float32)
    assert lock.is_released_by(lambda: model(x, out=out))


def test_random_inputs_verify_and_bench(model):
    (x,) = model.random_inputs(seed=3)
    assert x.shape == (1, 3, 8, 8) and -1 <= x.min() < x.max() < 1
    assert not np.array_equal(x, model.random_inputs(seed=4)[0])
    report = model.verify(bisect=True)
    assert report and report.ok and report.reference == "interpreter"
    assert [output.what for output in report.outputs] == ["y"]
    assert [kernel.what for kernel in report.kernels] == [k.name for k in model.plan.kernels]
    assert "right" in repr(report)
    timing = model.bench(x, iterations=50, per_kernel=True)
    assert 0 < timing.min_us <= timing.median_us <= timing.p99_us and timing.iterations == 50
    assert [name for name, _ in timing.kernels] == [k.name for k in model.plan.kernels]
