# Holds what act saw of action.yml against what the runs say: how each step ended, what it hands on,
# and each annotation as the runner reads it; and the example in docs/ci.md against the inputs that
# there are.

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import yaml

place, surtax, root = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
steps = json.loads((place / "steps.json").read_text())
log = [json.loads(line) for line in (place / "act.json").read_text().splitlines() if line[0] == "{"]
action = yaml.safe_load((root / "action.yml").read_text())

# Exit code of each step, and the thresholds that it was held to.
STEPS = {
    "kept": (0, ["wall > +50%"]),
    "crossed": (1, ["simulated:seed=1,cost=1.07: wall > +3%", "wall > 1.01x"]),
    "undecided": (4, ["wall > +7%"]),
    "passed": (0, ["wall > +7%", "--undecided=pass"]),
    "impossible": (2, None),
    "forged": (70, None),
}
LEVELS = {"notice", "warning", "error"}


def shown(*arguments):
    done = subprocess.run([surtax, "--quiet", *arguments], capture_output=True, text=True)
    assert done.stdout, done.stderr
    return done.stdout


def annotations(step):
    """Returns level, title and text of each annotation of a step, as act took them apart."""
    found = []
    for line in log:
        if line.get("stepID", [None])[0] != step or line.get("command") not in LEVELS:
            continue
        title = line["kvPairs"].get("title")
        if title is None:
            # act drops a property whose value has a `=`, which the runner does not.
            title = re.match(r"::\w+( title=(.*?))?::", line["raw"])[2] or ""
            for escape, meant in [
                ("%3A", ":"),
                ("%2C", ","),
                ("%0D", "\r"),
                ("%0A", "\n"),
                ("%25", "%"),
            ]:
                title = title.replace(escape, meant)
        found.append((line["command"], title, line["arg"]))
    return found


def wanted(answer, said):
    """Returns the annotations that an answer has, by its JSON."""
    listed = [("notice", answer["run"]["title"], said)]
    for arm in answer["arms"]:
        if arm["verdict"]["is"] == "invalid":
            level = "warning" if arm["verdict"]["gap"] == "not-available" else "error"
            listed.append((level, arm["name"], arm["verdict"]["reason"]))
    for held in answer["thresholds"]:
        if not held["passes"]:
            listed.append(("error", held["threshold"], None))
    for caution in answer["cautions"]:
        listed.append(("warning", caution["code"], f"{caution['finding']}; {caution['advice']}"))
    # A line break is shown as two characters.
    return [(level, f"surtax: {title}".replace("\n", "\\n"), text) for level, title, text in listed]


def hold_annotations(step, run, thresholds):
    limits = [word if word.startswith("--") else f"--fail-if={word}" for word in thresholds]
    answer = json.loads(shown("show", run, "--format", "json", *limits))
    said = re.search(r"\*\*: (.*)", shown("export", run, "--as", "brief"))[1]
    found, left = annotations(step), wanted(answer, re.sub(r"\\(.)", r"\1", said))
    assert len(found) == len(left), f"{step}: {len(found)} annotations, not {len(left)}: {found}"
    for level, title, text in found:
        same = [it for it in left if it[:2] == (level, title) and it[2] in (text, None)]
        assert same, f"{step}: {(level, title, text)} is none of {left}"
        left.remove(same[0])
        if same[0][2] is None:
            held = [
                held for held in answer["thresholds"] if f"surtax: {held['threshold']}" == title
            ]
            assert any(
                f"`{held['threshold']}`" in text and held["name"] in text for held in held
            ), text
    return found


for step in action["runs"]["steps"]:
    inputs = re.findall(r"\${{.*?}}", step["run"])
    assert (
        not inputs
    ), f"action.yml: a script has {inputs} in it, where an input could be obeyed: use env"
assert not (place / "injected").exists(), "an input was obeyed"
ignored = [line["raw"] for line in log if line.get("command") == "ignored"]
assert len(ignored) == 2 and all(
    "forged" in line for line in ignored
), f"what was forged: {ignored}"
results = {path.name: path for path in place.glob("surtax-results.*")}
everything = []
for step, (code, thresholds) in STEPS.items():
    outputs, outcome = steps[step]["outputs"], steps[step]["outcome"]
    assert outputs["exit-code"] == str(
        code
    ), f"{step}: exit code {outputs['exit-code']}, not {code}"
    assert (outcome == "success") == (code == 0), f"{step}: {outcome} with exit code {code}"
    if thresholds is None:
        assert not (outputs["run"] or outputs["brief"] or outputs["junit"]), f"{step}: {outputs}"
        assert not annotations(step), f"{step}: {annotations(step)}"
        continue
    files = {
        name: results[Path(outputs[name]).parent.name] / Path(outputs[name]).name
        for name in ("run", "brief", "junit")
    }
    everything += hold_annotations(step, files["run"], thresholds)
    failures = ElementTree.parse(files["junit"]).getroot().iter("testcase")
    failed = any(
        case.find("failure") is not None or case.find("error") is not None for case in failures
    )
    assert failed == (code != 0), f"{step}: its tests say something else than exit code {code}"
    summary = [
        line["content"]
        for line in log
        if line.get("command") == "summary" and line["stepID"] == [step, "compare"]
    ]
    assert summary and files["brief"].read_text() == summary[0], f"{step}: its summary is {summary}"

everything += hold_annotations("direct", place / "direct.surtax", [])
said = " ".join(title + text for _, title, text in everything)
assert "100 %, or: more\\n::error" in said and "100%/run:c;" in said, "the annotations try nothing"

example = re.search(r"```yaml\n(on:.*?)```", (root / "docs/ci.md").read_text(), re.DOTALL)
uses = [step for job in yaml.safe_load(example[1])["jobs"].values() for step in job["steps"]]
[used] = [step["with"] for step in uses if "surtax@" in step.get("uses", "")]
assert (
    used.keys() <= action["inputs"].keys()
), f"docs/ci.md: {used.keys() - action['inputs'].keys()}"
needed = {name for name, given in action["inputs"].items() if given.get("required")}
assert needed <= used.keys(), f"docs/ci.md: the example lacks {needed - used.keys()}"
handed_on = set(re.findall(r"outputs\.([\w-]+)", example[1]))
assert handed_on and handed_on <= action["outputs"].keys(), f"docs/ci.md: outputs {handed_on}"
print(f"act: {len(STEPS)} uses of action.yml, {len(everything)} annotations")
