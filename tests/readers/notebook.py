# Runs the notebook of docs/ on a run's two files, and once more on an answer that is wrong, which
# it must refuse.

import json
import os
import sys
from copy import deepcopy
from pathlib import Path

import nbclient
import nbformat
from traitlets.config import Config

place, path, wrong = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[1]) / "wrong.json"
book = nbformat.read(path, as_version=4)
nbformat.validate(book)
code = [cell for cell in book.cells if cell.cell_type == "code"]
written = [cell.id for cell in code if cell.outputs or cell.execution_count is not None]
assert not written, f"{path.name}: the outputs of {written} are not for the repository: clear them"


def run(answer):
    """Returns the outputs of the notebook, each with its kind."""
    os.environ |= {"SURTAX_TRIALS": str(place / "trials.parquet"), "SURTAX_ANSWER": str(answer)}
    # By sockets in the file system nobody else hears what the kernel is told.
    config = Config(KernelManager={"transport": "ipc"})
    copy = deepcopy(book)
    nbclient.NotebookClient(copy, timeout=120, config=config).execute()
    return [output for cell in copy.cells if cell.cell_type == "code" for output in cell.outputs]


outputs = run(place / "answer.json")
text = "".join(output.text for output in outputs if output.output_type == "stream")
answer = json.loads((place / "answer.json").read_text())
compared = [arm for arm in answer["arms"] if arm["overhead"] is not None]
said = f"{len(compared)} of {len(compared)} overheads are within their intervals"
assert said in text, f"{path.name} does not say `{said}`: {text}"
pictures = sum("image/png" in output.get("data", {}) for output in outputs)
assert pictures == 1, f"{path.name} draws {pictures} pictures"

# The interval of the first stack is somewhere else.
interval = compared[0]["overhead"]
interval["low"], interval["high"] = 2 * interval["high"], 3 * interval["high"]
wrong.write_text(json.dumps(answer))
try:
    run(wrong)
except nbclient.exceptions.CellExecutionError as error:
    assert "not within the interval" in str(error), error
else:
    raise AssertionError(f"{path.name} takes an interval that is wrong")
print(
    f"nbclient {nbclient.__version__}, {path.name}: {len(code)} cells, and a wrong answer refused"
)
