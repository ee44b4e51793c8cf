"""InferenceSession: with onnxruntime's names, shapes, types and answers."""
import threading
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest

import braze
from networks import conv_relu, make_model, random, two_outputs


def both(model, **options):
    data = model.SerializeToString()
    return (braze.InferenceSession(data, **options),
            onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]))


@pytest.mark.parametrize("model", [conv_relu(), conv_relu("batch", "side"), two_outputs(),
                                   conv_relu(None, None)], ids=["fixed", "symbols", "two", "?"])
def test_inputs_and_outputs_are_described_as_there(model):
    mine, theirs = both(model)
    for got, want in ((mine.get_inputs(), theirs.get_inputs()),
                      (mine.get_outputs(), theirs.get_outputs())):
        assert [(a.name, a.type) for a in got] == [(a.name, a.type) for a in want]
    assert [a.shape for a in mine.get_inputs()] == [a.shape for a in theirs.get_inputs()]
    meta = mine.get_modelmeta()
    assert meta.custom_metadata_map == theirs.get_modelmeta().custom_metadata_map
    assert meta.graph_name == "net"


def test_runs_by_name_and_gives_what_is_asked_for():
    mine, theirs = both(two_outputs())
    feed = {"b": random(2, 3, seed=1), "a": random(2, 3)}
    for names in (None, [], ["product"], ["product", "sum"], ["sum", "sum"]):
        got, want = mine.run(names, feed), theirs.run(names, feed)
        assert isinstance(got, list) and len(got) == len(want)
        for a, b in zip(got, want):
            np.testing.assert_array_equal(a, b)


def test_lists_are_taken_as_there():
    mine, _ = both(make_model([("Neg", ["x"], ["y"])], [("x", [2], 11)], [("y", [2], 11)]))
    np.testing.assert_array_equal(mine.run(None, {"x": [1.0, 2.0]})[0], [-1, -2])


def test_dimensions_may_change_from_run_to_run():
    mine, theirs = both(conv_relu("batch", "side"), cached_networks=2)
    for batch, side in ((1, 8), (2, 5), (1, 8), (3, 9), (2, 5), (1, 8)):
        x = random(batch, 3, side, side)
        np.testing.assert_allclose(mine.run(None, {"x": x})[0], theirs.run(None, {"x": x})[0],
                                   rtol=1e-4, atol=1e-5)
    assert len(mine._networks) == 2
    x = random(1, 3, 8, 8)
    kept = mine.network({"batch": 1, "side": 8})
    mine.run(None, {"x": x})
    assert mine.network({"batch": 1, "side": 8}) is kept


@pytest.mark.parametrize("computed", [False, True])
def test_inputs_may_decide_shapes(computed):
    """The target of a Reshape: an input, or a value computed from one."""
    nodes = [("Reshape", ["x", "t" if computed else "s"], ["y"])]
    if computed:
        nodes.insert(0, ("Add", ["s", "s"], ["t"]))
    mine, theirs = both(make_model(nodes, [("x", ["n"]), ("s", [2], 7)], [("y", [None, None])]))
    for count, shape in ((24, [2, 12]), (24, [4, 6]), (48, [2, 24]), (24, [2, 12])):
        target = np.array(shape) // 2 if computed else np.array(shape)
        feed = {"x": random(count), "s": target.astype(np.int64)}
        np.testing.assert_array_equal(mine.run(None, feed)[0], theirs.run(None, feed)[0])
    assert len(mine._networks) == 3


def test_wrong_feeds_are_named():
    mine, _ = both(conv_relu("batch", "side"))
    for feed, message in (
            ({}, "not given: x"), ({"x": random(1, 3, 8, 8), "z": 1}, "unknown: z"),
            ({"x": random(1, 3, 8)}, r"input 'x' is \[1, 3, 8\]; expected \[batch, 3, side, side\]"),
            ({"x": random(1, 3, 8, 9)}, r"\[1, 3, 8, 9\]; expected"),
            ({"x": random(1, 4, 8, 8)}, r"\[1, 4, 8, 8\]; expected"),
            ({"x": random(0, 3, 8, 8)}, r"\[0, 3, 8, 8\]; expected"),
            ({"x": random(1, 3, 8, 8).astype(np.float64)}, "input 'x' is double")):
        with pytest.raises(braze.InputError, match=message):
            mine.run(None, feed)
    with pytest.raises(braze.UsageError, match="no output 'q'; it has y"):
        mine.run(["q"], {"x": random(1, 3, 8, 8)})


def test_options_mean_what_they_say(tmp_path):
    onnx.save(conv_relu("batch", 8), tmp_path / "net.onnx")
    options = braze.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = braze.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.add_session_config_entry("session.x", "1")
    options.add_free_dimension_override_by_name("batch", 2)
    session = braze.InferenceSession(tmp_path / "net.onnx", options,
                                     providers=["CPUExecutionProvider"])
    network = session.network({})
    assert len(network.plan.kernels) == 2 and network.inputs[0].shape == (2, 3, 8, 8)
    assert session.get_session_options() is options
    assert options.get_session_config_entry("session.x") == "1"
    with pytest.raises(braze.InputError):
        session.run(None, {"x": random(1, 3, 8, 8)})
    assert len(braze.InferenceSession(tmp_path / "net.onnx", fusion="full", dims={"batch": 1})
               .network({}).plan.kernels) == 1


def test_providers_are_devices():
    data = conv_relu().SerializeToString()
    for providers in (None, ["CPUExecutionProvider"], ["cpu"], [("CPUExecutionProvider", {})]):
        session = braze.InferenceSession(data, providers=providers)
        assert session.get_providers() == ["CPUExecutionProvider"]
    with pytest.warns(UserWarning, match="XyzExecutionProvider cannot be used.*cpu is used"):
        braze.InferenceSession(data, providers=["XyzExecutionProvider", "cpu"])
    with pytest.raises(braze.DeviceError, match="XyzExecutionProvider cannot be used"):
        braze.InferenceSession(data, providers=["XyzExecutionProvider"])
    assert "CPUExecutionProvider" in braze.get_available_providers()
    assert braze.get_device() in ("CPU", "GPU")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        braze.InferenceSession(data, providers=braze.get_available_providers()[-1:])


def test_a_model_that_cannot_be_read_is_told_when_it_is_opened(tmp_path):
    with pytest.raises(braze.ModelError, match="missing.onnx"):
        braze.InferenceSession(tmp_path / "missing.onnx")
    unknown = make_model([("Unique", ["x"], ["y"], {"name": "lonely"})], [("x", [3])],
                         [("y", [None])])
    with pytest.raises(braze.UnsupportedError, match="lonely"):
        braze.InferenceSession(unknown)


def test_io_binding():
    mine, theirs = both(two_outputs())
    a, b = random(2, 3), random(2, 3, seed=1)
    product = np.empty((2, 3), np.float32)
    for session, module in ((mine, braze), (theirs, onnxruntime)):
        product.fill(0)
        binding = session.io_binding()
        binding.bind_cpu_input("a", a)
        value = module.OrtValue.ortvalue_from_numpy(b)
        binding.bind_ortvalue_input("b", value)
        assert value.data_type() == "tensor(float)" and value.shape() == [2, 3]
        assert value.device_name() == "cpu" and value.is_tensor()
        binding.bind_output("product", "cpu", 0, np.float32, [2, 3], product.ctypes.data)
        binding.bind_output("sum")
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(product, a * b)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[1], a + b)
        assert [value.shape() for value in binding.get_outputs()] == [[2, 3], [2, 3]]
    binding = mine.io_binding()
    binding.bind_input("a", "cpu", 0, np.float32, a.shape, a.ctypes.data)
    binding.bind_input("b", "cpu", 0, "tensor(float)", b.shape, b.ctypes.data)
    kept = braze.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding.bind_ortvalue_output("sum", kept)
    binding.run()
    np.testing.assert_array_equal(kept.numpy(), a + b)
    assert kept.data_ptr() == kept.array.ctypes.data
    binding.clear_binding_outputs()
    binding.run()
    assert binding.get_outputs() == []
    binding.bind_output("nothing")
    with pytest.raises(braze.UsageError, match="no output 'nothing'"):
        mine.run_with_iobinding(binding)


def test_ort_values():
    mine, _ = both(two_outputs())
    a = braze.OrtValue.from_dlpack(random(2, 3))
    total, _ = mine.run_with_ort_values(None, {"a": a, "b": a})
    np.testing.assert_array_equal(total.numpy(), 2 * a.numpy())
    with pytest.raises(braze.InputError, match="from_dlpack"):
        braze.OrtValue.ortvalue_from_numpy(random(2), "cuda", 0)


def test_threads_share_a_session():
    mine, _ = both(conv_relu("batch", "side"), cached_networks=1)
    wrong = []

    def work(side):
        x = random(1, 3, side, side)
        want = braze.compile(conv_relu(1, side))(x)
        for _ in range(20):
            if not np.array_equal(mine.run(None, {"x": x})[0], want):
                wrong.append(side)

    threads = [threading.Thread(target=work, args=(side,)) for side in (4, 5, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
