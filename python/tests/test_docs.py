"""The notebook runs from top to bottom."""
import contextlib
import io
import json
import pathlib

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def test_the_notebook():
    cells = json.loads((DOCS / "quick-start.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 8
    names = {}
    for cell in code:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec("".join(cell["source"]), names)
        shown = any(output["output_type"] == "stream" for output in cell["outputs"])
        assert bool(printed.getvalue()) == shown
    assert names["model"].verify()
