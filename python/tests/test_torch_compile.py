"""torch.compile(model, backend="braze"). Skipped where torch is not installed."""
import subprocess
import sys
import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import braze.torch_backend as torch_backend  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(torch_backend, "_said", set())


@pytest.fixture
def networks(monkeypatch):
    """The networks that the backend compiles."""
    made = []
    compile = torch_backend.compile

    def note(*arguments, **options):
        made.append(compile(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(torch_backend, "compile", note)
    return made


def net():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8),
                               torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 1)).eval()


def test_a_module_runs_as_braze_runs_it(networks):
    module, x = net(), torch.randn(2, 3, 9, 9)
    compiled = torch.compile(module, backend="braze")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
        compiled(x)
    assert len(networks) == 1
    assert len(networks[0].plan.kernels) <= 2
    assert len(networks[0].inputs) == 1  # the weights are compiled in


def test_the_name_is_known_without_importing_braze():
    script = ("import torch\n"
              "assert 'braze' in torch.compiler.list_backends()\n"
              "net = torch.compile(torch.nn.Conv2d(1, 1, 1), backend='braze')\n"
              "with torch.no_grad(): print(net(torch.ones(1, 1, 2, 2)).shape)\n")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "torch.Size([1, 1, 2, 2])\n"


def test_shapes_may_change(networks):
    module = net()
    compiled = torch.compile(module, backend="braze")
    with torch.no_grad():
        for size in (8, 9, 10, 8):
            x = torch.randn(1, 3, size, size)
            torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
    assert {network.inputs[0].shape[2] for network in networks} == {8, 9, 10}


def test_weights_that_change_are_seen(networks):
    module, x = net(), torch.randn(1, 3, 8, 8)
    compiled = torch.compile(module, backend="braze")
    with torch.no_grad():
        compiled(x)
        module[0].weight.mul_(2)
        module[1].running_mean.add_(1)
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
        module.load_state_dict({name: value + 1 for name, value in module.state_dict().items()})
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-3)
    assert len(networks) == 3


def test_what_has_no_onnx_form_is_left_to_torch_and_said_once(capfd):
    class Odd(torch.nn.Module):
        def forward(self, x):
            return torch.special.i0(x)

    compiled, x = torch.compile(Odd(), backend="braze"), torch.randn(3, 3)
    with torch.no_grad():
        with pytest.warns(UserWarning, match="left to torch: torch cannot export") as told:
            got = compiled(x)
        assert len([w for w in told if "braze" in str(w.message)]) == 1
        torch.testing.assert_close(got, Odd()(x))
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            compiled(x)
            compiled(torch.randn(4, 4))
    assert capfd.readouterr().out == ""


def test_what_braze_does_not_run_is_left_to_torch_and_said_once():
    class Odd(torch.nn.Module):
        def forward(self, x):
            return torch.unique(x)

    compiled, x = torch.compile(Odd(), backend="braze"), torch.tensor([3.0, 1.0, 3.0])
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(compiled(x), torch.tensor([1.0, 3.0]))


def test_the_parts_that_can_be_are_compiled():
    """A convolution, something that has no ONNX form, a convolution."""
    class Middle(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = net(), torch.nn.Conv2d(4, 2, 3)

        def forward(self, x):
            y = torch.relu(self.first(x))
            y = y + torch.special.i0(y).mean()
            return torch.relu(self.last(y)), y.shape[0]

    module, x = Middle().eval(), torch.randn(2, 3, 8, 8)
    made = []
    original = torch_backend._Whole.__init__

    def note(self, *arguments):
        original(self, *arguments)
        made.append(self._network)

    compiled = torch.compile(module, backend="braze")
    torch_backend._Whole.__init__ = note
    try:
        with torch.no_grad(), pytest.warns(UserWarning, match="parts of a graph left to torch"):
            got = compiled(x)
    finally:
        torch_backend._Whole.__init__ = original
    want = module(x)
    torch.testing.assert_close(got[0], want[0], rtol=1e-4, atol=1e-5)
    assert got[1] == 2
    assert len(made) == 2  # before and after
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        module.last.weight.mul_(2)
        torch.testing.assert_close(compiled(x)[0], module(x)[0], rtol=1e-4, atol=1e-5)


def test_what_a_graph_writes_to_is_written():
    """Running statistics in training mode, and an input."""
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4)).train()
    other = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4)).train()
    other.load_state_dict(module.state_dict())
    x = torch.randn(2, 3, 4, 4)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.testing.assert_close(torch.compile(module, backend="braze")(x), other(x))
        for name, value in other.state_dict().items():
            torch.testing.assert_close(module.state_dict()[name], value)

        def double(x):
            x.mul_(2)
            return x + 1

        x = torch.ones(2, 2)
        assert torch.equal(torch.compile(double, backend="braze")(x), torch.full((2, 2), 3.0))
        assert torch.equal(x, torch.full((2, 2), 2.0))


def test_dropout_in_training_is_torchs():
    module, x = torch.nn.Sequential(torch.nn.Dropout(0.5)).train(), torch.ones(64, 64)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = torch.compile(module, backend="braze")(x)
    assert 0.3 < (y == 0).float().mean() < 0.7


def test_inputs_that_are_not_read_and_inference_mode(networks):
    def second(a, b):
        return torch.relu(b), b

    compiled = torch.compile(second, backend="braze")
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = compiled(a, b)
    assert torch.equal(got[0], torch.relu(b)) and torch.equal(got[1], b)


def test_gradients_are_torchs(networks):
    module, x = net(), torch.randn(1, 3, 8, 8)
    compiled = torch.compile(module, backend="braze")
    with pytest.warns(UserWarning, match="needs gradients"):
        compiled(x).sum().backward()
    assert module[0].weight.grad is not None and not networks


def test_options_are_handed_on(networks):
    compiled = torch.compile(net(), backend="braze", options={"fusion": "off"})
    with torch.no_grad():
        compiled(torch.randn(1, 3, 8, 8))
    assert len(networks[0].plan.kernels) > 2
