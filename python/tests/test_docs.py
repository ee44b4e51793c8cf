"""The notebook runs from top to bottom, and prints what it shows, but for times."""
import contextlib
import io
import json
import pathlib
import re

DOCS = pathlib.Path(__file__).parents[2] / "docs"
NUMBERS = re.compile(r"[\d.e+-]+|\(2?\d+ iterations\)")


def test_the_notebook():
    cells = json.loads((DOCS / "quick-start.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 8
    names = {}
    for cell in code:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec("".join(cell["source"]), names)
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                assert NUMBERS.sub("", printed.getvalue()) == NUMBERS.sub(
                    "", "".join(output["text"]))
