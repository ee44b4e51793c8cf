"""The list of cases, and how one is added to it."""
CASES = {}


def case(name, inputs, outputs, body, weights=None, *, data=None, opset=15, ir=8, expect=None,
         plans=None, refused=None, tolerance=1e-5, in_inputs=()):
    """Adds a case: `body` in ONNX's text form; `weights` are shapes (random values) or arrays;
    `data` replaces the random inputs; `expect` replaces the oracles; `in_inputs` names
    initializers that are listed as graph inputs too."""
    assert name not in CASES, name
    CASES[name] = dict(locals())


def plan(*kernels, folded=None, not_fused=()):
    """What --fusion full is expected to make of a case."""
    record = {"kernels": [kernel.split() for kernel in kernels]}
    if folded:
        record["folded"] = folded
    if not_fused:
        record["not_fused"] = list(not_fused)
    return {"full": record}


def grouped(*kernels, parts):
    """--fusion full makes these kernels, and --fusion epilogue those of `parts`."""
    return {"full": plan(*kernels)["full"], "epilogue": parts["full"]}


def both(full, off):
    return {"full": full["full"], "off": off["full"]}


def on(device, record):
    """What is expected of a plan for a GPU."""
    return {f"full {device}": record["full"]}
