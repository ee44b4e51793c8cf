"""Plans: what they hold, and how they print."""
import dataclasses

import pytest

import braze
from networks import conv_relu, make_model, random


@pytest.fixture(scope="module")
def model():
    """Convolutions, one of whose sum with something that varies along the width stays apart."""
    proto = make_model(
        [("Conv", ["x", "w"], ["c"], {"name": "conv"}),
         ("Relu", ["c"], ["r"], {"name": "relu"}),
         ("Softmax", ["r"], ["p"], {"name": "soft", "axis": 1}),
         ("Conv", ["p", "v"], ["q"], {"name": "middle"}),
         ("Add", ["q", "wide"], ["s"], {"name": "add"}),
         ("Conv", ["s", "v"], ["y"], {"name": "last<1>"})],
        [("x", [1, 3, 8, 8])], [("y", [1, 8, 8, 8]), ("c", [1, 8, 8, 8])],
        [("w", random(8, 3, 1, 1)), ("v", random(8, 8, 1, 1)), ("wide", random(1, 1, 1, 8))])
    return braze.compile(proto)


def test_every_node_is_in_a_kernel_or_folded(model):
    plan = model.plan
    nodes = [node for kernel in plan.kernels for node in kernel.nodes]
    nodes += [folded.node for folded in plan.folded]
    assert sorted(nodes) == ["add", "conv", "last<1>", "middle", "relu", "soft"]
    assert plan.launches == len(plan.kernels) and plan.device == "cpu"
    assert plan.est_us == pytest.approx(sum(kernel.est_us for kernel in plan.kernels))


def test_plans_are_plain_records(model):
    kernel = model.plan.kernels[0]
    assert dataclasses.asdict(kernel)["name"] == kernel.name
    with pytest.raises(dataclasses.FrozenInstanceError):
        kernel.name = "other"
    assert model.plan is model.plan


def test_a_plan_prints_as_a_table(model):
    lines = repr(model.plan).splitlines()
    assert lines[0].startswith(f"{len(model.plan.kernels)} kernels on cpu")
    assert lines[2].split()[:3] == ["kernel", "kind", "MFLOP"]
    assert len(lines) == 3 + len(model.plan.kernels)
    assert "soft" in repr(model.plan)
    assert repr(braze.compile(conv_relu()).plan).startswith("1 kernel on cpu, ")


def test_a_plan_is_a_table_in_a_notebook(model):
    text = model.plan._repr_html_()
    assert text.count("<tr>") == 1 + len(model.plan.kernels)
    assert "last&lt;1&gt;" in text and "last<1>" not in text


def test_explain_tells_what_was_not_fused_and_why(model):
    text = model.explain()
    assert "folded: " in text and "not fused: " in text
    assert "broadcast" in {join.rule for join in model.plan.not_fused}
    for join in model.plan.not_fused:
        assert join.reason in text and join.rule in text
    for kernel in model.plan.kernels:
        assert kernel.detail in text


def test_source_of_a_kernel(model):
    assert model.source(model.plan.kernels[0].name) == ""  # in the library
    with pytest.raises(braze.UsageError, match="no kernel is called 'k99'"):
        model.source("k99")
