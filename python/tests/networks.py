"""Small networks, and arrays to run them on."""
import numpy as np
import onnx
from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT


def make_model(nodes, inputs, outputs, constants=(), opset=17, **metadata):
    """An onnx.ModelProto. inputs, outputs: (name, shape) or (name, shape, type)."""
    def info(name, shape, dtype=FLOAT):
        return helper.make_tensor_value_info(name, dtype, shape)

    graph = helper.make_graph(
        [helper.make_node(*node[:3], **(node[3] if len(node) > 3 else {})) for node in nodes],
        "net", [info(*i) for i in inputs], [info(*o) for o in outputs],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    helper.set_model_props(model, metadata)
    onnx.checker.check_model(model)
    return model


def conv_relu(batch=1, size=8):
    """x [batch, 3, size, size] -> conv 3x3 -> relu -> y [batch, 8, size, size]."""
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((8, 3, 3, 3)).astype(np.float32)
    bias = rng.standard_normal(8).astype(np.float32)
    return make_model(
        [("Conv", ["x", "w", "b"], ["c"], {"pads": [1, 1, 1, 1], "name": "conv"}),
         ("Relu", ["c"], ["y"], {"name": "relu"})],
        [("x", [batch, 3, size, size])], [("y", [batch, 8, size, size])],
        [("w", weights), ("b", bias)], author="nobody")


def two_outputs():
    """a, b [2, 3] -> (a + b, a * b)."""
    return make_model([("Add", ["a", "b"], ["sum"]), ("Mul", ["a", "b"], ["product"])],
                      [("a", [2, 3]), ("b", [2, 3])], [("sum", [2, 3]), ("product", [2, 3])])


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
