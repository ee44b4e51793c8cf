"""The package itself: what an import costs, and what is typed."""
import email
import json
import pathlib
import statistics
import subprocess
import sys
import sysconfig

import braze


def python(script):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_import_is_quick_and_brings_no_framework():
    """Under 0.2 s of processor time, beyond that of an empty program."""
    script = ("import json, sys, time; begin = time.process_time(); import braze; "
              "print(json.dumps([time.process_time() - begin, sorted(sys.modules)]))")
    runs = [json.loads(python(script)) for _ in range(5)]
    assert statistics.median(seconds for seconds, _ in runs) < 0.2
    assert not {"numpy", "torch", "onnx", "onnxruntime"} & set(runs[0][1])


def test_everything_public_is_documented():
    for name in braze.__all__:
        value = getattr(braze, name)
        assert value.__doc__, name
        if isinstance(value, type):
            for attribute, member in vars(value).items():
                if not attribute.startswith("_") and callable(member):
                    assert member.__doc__, f"{name}.{attribute}"


def test_types_are_there_for_checkers():
    folder = pathlib.Path(braze.__file__).parent
    assert (folder / "py.typed").exists()
    stub = (folder / "_braze.pyi").read_text()
    for name in ("class Model", "class Options", "def compile_file"):
        assert name in stub


def test_the_version_is_the_wheels():
    from importlib.metadata import version

    assert braze.__version__ == version("braze")


def test_the_wheel_is_tagged_for_the_pythons_that_it_serves():
    """3.10 and 3.11 have a wheel each, 3.12 and later one by the stable ABI."""
    from importlib.metadata import distribution

    wheel = email.message_from_string(distribution("braze").read_text("WHEEL"))
    own = f"cp{sys.version_info.major}{sys.version_info.minor}"
    stable = sys.version_info >= (3, 12)
    tags = {tag.rsplit("-", 1)[0] for tag in wheel.get_all("Tag")}
    assert tags == {"cp312-abi3" if stable else f"{own}-{own}"}
    assert wheel["Root-Is-Purelib"] == "false"
    module = pathlib.Path(braze.__file__).parent / (
        "_braze" + (".abi3.so" if stable else sysconfig.get_config_var("EXT_SUFFIX")))
    assert module.exists()


def test_devices_say_what_is_here():
    found = braze.devices()
    assert "threads" in found["cpu"] and {"cuda", "nvrtc", "cudnn"} <= set(found)
