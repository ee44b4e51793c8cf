#!/usr/bin/env python3
"""Writes the cases of this folder: FOLDER/{model.onnx, test_data_set_0/*.pb, case.json}.

A case (networks.py) is a small network that a fusing compiler is likely to get wrong, or must be seen to get
right. case.json says what is expected besides the numbers:

    {"tolerance": 1e-5,                  largest error, as a fraction of the output's range
     "refused": "training_mode",         compiling fails with kUnsupported and this text
     "plans": {"full": {"kernels": [["c", "y"], ...],   the nodes of each kernel, in any order
                        "folded": {"a": "c"},           what these nodes became part of
                        "not_fused": ["graph-output"]}  rules, each recorded at least once
               "off": ..., "full cuda:sm_90": ...}}

Numbers come from ONNX Runtime with optimisation off, and must agree with onnx.reference where that
knows the operators. Inputs and weights are eighths, so that sums of products are exact in float.

    generate.py [NAME...]     all cases, or those given
"""
import json
import pathlib
import shutil
import sys
import zlib

import numpy as np
import onnx
import onnx.parser
import onnx.reference
from onnx import helper, numpy_helper

import networks  # noqa: F401 (fills CASES)
from catalogue import CASES
from oracles import run_onnxruntime

HERE = pathlib.Path(__file__).resolve().parent


def eighths(rng, shape, dtype):
    """Random multiples of 1/8 in [-1, 1]; for integers 0 to 7; for bools either."""
    if np.issubdtype(dtype, np.floating):
        return (rng.integers(-8, 9, shape) / 8).astype(dtype)
    return rng.integers(0, 2 if dtype == np.bool_ else 8, shape).astype(dtype)


def build(c, rng):
    text = (f'<ir_version: {c["ir"]}, opset_import: ["" : {c["opset"]}]>\n'
            f'{c["name"]} ({c["inputs"]}) => ({c["outputs"]}) {{\n{c["body"]}\n}}')
    model = onnx.parser.parse_model(text)
    for name, value in (c["weights"] or {}).items():
        if isinstance(value, tuple):
            value = eighths(rng, value, np.float32)
        tensor = numpy_helper.from_array(np.asarray(value), name)
        model.graph.initializer.append(tensor)
        if name in c["in_inputs"]:
            model.graph.input.append(
                helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))
    return model


def expected_outputs(c, model, feeds):
    if c["expect"] is not None:
        return c["expect"](feeds, {i.name: numpy_helper.to_array(i)
                                   for i in model.graph.initializer})
    outputs = run_onnxruntime(model, feeds)
    if c["opset"] < 14 and "BatchNormalization" in c["body"]:
        return outputs  # onnx.reference mixes in the batch's own statistics there
    try:
        with np.errstate(all="ignore"):
            others = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        print(f'{c["name"]}: one oracle only ({type(error).__name__})')
        return outputs
    for got, other in zip(outputs, others):
        np.testing.assert_allclose(got.astype(np.float64), np.asarray(other, np.float64),
                                   rtol=2e-5 if got.dtype == np.float32 else 2e-3, atol=2e-5,
                                   err_msg=c["name"])
    return outputs


def write(c):
    rng = np.random.default_rng(zlib.crc32(c["name"].encode()))
    model = build(c, rng)
    folder = HERE / c["name"]
    shutil.rmtree(folder, ignore_errors=True)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")

    record = {"tolerance": c["tolerance"]}
    for key in ("refused", "plans"):
        if c[key]:
            record[key] = c[key]
    (folder / "case.json").write_text(json.dumps(record) + "\n")
    if c["refused"]:
        return

    feeds = {}
    for value in model.graph.input:
        if value.name in c["in_inputs"]:
            continue
        given = (c["data"] or {}).get(value.name)
        if given is None:
            tensor_type = value.type.tensor_type
            dtype = helper.tensor_dtype_to_np_dtype(tensor_type.elem_type)
            given = eighths(rng, [d.dim_value or 2 for d in tensor_type.shape.dim], dtype)
        feeds[value.name] = np.asarray(given)
    outputs = expected_outputs(c, model, feeds)
    for kind, names, values in (("input", feeds, feeds.values()),
                                ("output", [o.name for o in model.graph.output], outputs)):
        for i, (name, value) in enumerate(zip(names, values)):
            tensor = numpy_helper.from_array(np.asarray(value), name)
            (data / f"{kind}_{i}.pb").write_bytes(tensor.SerializeToString())


def main():
    for name in sys.argv[1:] or CASES:
        write(CASES[name])
    if not sys.argv[1:]:
        for folder in HERE.iterdir():
            if (folder / "model.onnx").exists() and folder.name not in CASES:
                shutil.rmtree(folder)


if __name__ == "__main__":
    main()
