# Has Prometheus collect what surtax exported, by a node exporter as people do, and asks it what
# each panel of the dashboard asks: each must have an answer, for every choice of run, machine and
# stack, and the costs must be those of the JSON.

import json
import re
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from itertools import product
from pathlib import Path

place, programs, path = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
board = json.loads(path.read_text())
panels = [panel for panel in board["panels"] if panel["type"] != "row"]
exported = list((place / "collected").glob("*.prom"))
samples = [line for file in exported for line in file.read_text().splitlines() if line[0] != "#"]

COSTS = "Cost over the baseline"


def panel_of(title):
    return next(panel for panel in panels if panel["title"] == title)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def ask(what, **parameters):
    """Returns the data of Prometheus' answer to an HTTP query."""
    url = f"http://127.0.0.1:{PORT}/api/v1/{what}?{urllib.parse.urlencode(parameters, doseq=True)}"
    try:
        with urllib.request.urlopen(url) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{parameters}: {json.load(error)['error']}") from None


def wait_for_samples():
    for _ in range(300):
        try:
            found = ask("query", query='count({__name__=~"surtax_.+"})')["result"]
            if found and int(found[0]["value"][1]) == len(samples):
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError("Prometheus did not collect all samples in 30 s: see collect.log")


def in_a_query(value):
    """Escapes a chosen value as Grafana does for `=~`, where several may be chosen."""
    return re.sub(r"[$^*{}\[\]'+?.()|]", r"\\\\\g<0>", value.replace("\\", "\\\\\\\\"))


def filled(text, chosen):
    """Puts the chosen values in the place of the dashboard's variables."""
    text = re.sub(r"\$\{?(\w+)\}?", lambda name: chosen.get(name[1], name[0]), text)
    assert "$" not in re.sub(
        r"\\\\\$", "", text
    ), f"a variable that the dashboard does not have: {text}"
    return text


def choices(variable, chosen):
    """Returns the values that a variable offers."""
    assert variable["type"] == "query", f"variable {variable['name']}: {variable['type']}"
    query = variable["query"]["query"]
    parts = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
    assert parts, f"variable {variable['name']}: `{query}` is no label_values(SERIES, LABEL)"
    found = ask(f"label/{parts[2]}/values", **{"match[]": filled(parts[1], chosen)})
    assert found, f"variable {variable['name']} offers nothing"
    return found


def answer_of(panel, target, chosen):
    """Returns the series that answer a query of a panel."""
    where = f"panel `{panel['title']}`, query {target['refId']}"
    assert target["datasource"] == DATASOURCE, f"{where}: another data source"
    assert target["instant"] != target["range"], f"{where}: at an instant or over a range"
    query = filled(target["expr"], chosen)
    if target["instant"]:
        found = ask("query", query=query)["result"]
    else:
        now = time.time()
        found = ask("query_range", query=query, start=now - 60, end=now, step=1)["result"]
    assert found, f"{where}: no data: {query}"
    for label in re.findall(r"{{(\w+)}}", target.get("legendFormat", "")):
        assert all(label in series["metric"] for series in found), f"{where}: no label `{label}`"
    return found


def columns(panel, answers):
    """Returns the rows of a table as Grafana makes them of its queries: merged by label, then named."""
    rows = {}
    for target, found in answers:
        value = f"Value #{target['refId']}" if len(answers) > 1 else "Value"
        for series in found:
            row = rows.setdefault(
                tuple(sorted(series["metric"].items())), {"Time": 0, **series["metric"]}
            )
            row[value] = float(series["value"][1])
    organize = panel["transformations"][-1]["options"]
    there = set().union(*rows.values())
    for kind in ("excludeByName", "indexByName", "renameByName"):
        lacking = set(organize[kind]) - there
        assert not lacking, f"panel `{panel['title']}`: {kind} names {lacking}, which no query has"
    hidden = organize["excludeByName"]
    shown = {
        name: organize["renameByName"].get(name, name) for name in there if not hidden.get(name)
    }
    unnamed = {name for name in shown if name not in organize["renameByName"]}
    assert not unnamed, f"panel `{panel['title']}`: {unnamed} are neither named nor hidden"
    partial = [row for row in rows.values() if not row.keys() >= shown.keys()]
    assert not partial, f"panel `{panel['title']}`: its queries have different rows: {partial}"
    return [
        {shown[name]: value for name, value in row.items() if name in shown}
        for row in rows.values()
    ]


def hold_overrides(panel, names):
    for override in panel["fieldConfig"]["overrides"]:
        matcher = override["matcher"]
        assert matcher["id"] in ("byName", "byRegexp"), f"panel `{panel['title']}`: {matcher}"
        wanted = (
            matcher["options"].strip("/")
            if matcher["id"] == "byRegexp"
            else re.escape(matcher["options"]) + "$"
        )
        found = any(re.search(wanted, name) for name in names)
        assert (
            found
        ), f"panel `{panel['title']}`: an override for {matcher['options']}, which is not there"


def hold(panel, chosen):
    """Asks a panel's queries, and returns the rows if it is a table."""
    answers = [(target, answer_of(panel, target, chosen)) for target in panel["targets"]]
    if panel["type"] == "table":
        rows = columns(panel, answers)
        hold_overrides(panel, {name for row in rows for name in row})
        return rows
    legends = {
        re.sub(r"{{(\w+)}}", lambda label: series["metric"][label[1]], target["legendFormat"])
        for target, found in answers
        for series in found
    }
    hold_overrides(panel, legends)
    return []


def hold_layout():
    taken = set()
    for panel in board["panels"]:
        grid = panel["gridPos"]
        cells = set(
            product(
                range(grid["x"], grid["x"] + grid["w"]), range(grid["y"], grid["y"] + grid["h"])
            )
        )
        assert not taken & cells, f"panel `{panel['title']}` lies on another"
        taken |= cells
    for panel in panels:
        for words in (
            panel["title"],
            panel["description"],
            panel["fieldConfig"]["defaults"]["unit"],
        ):
            assert words, f"panel {panel['id']} has no title, description or unit"
        assert panel["datasource"] == DATASOURCE, f"panel `{panel['title']}`: another data source"
    asked = " ".join(target["expr"] for panel in panels for target in panel["targets"])
    for metric in {re.match(r"\w+", sample)[0] for sample in samples}:
        assert f"{metric}{{" in asked, f"no panel shows `{metric}`"


def hold_costs():
    """Holds the table of costs against the JSON of the run."""
    answer = json.loads((place / "answer.json").read_text())
    rows = hold(panel_of(COSTS), OPENED | {"metric": "wall"})
    shown = {row["Stack"]: row for row in rows if row["Run"] == answer["run"]["title"]}
    wanted = {arm["name"]: arm["overhead"] for arm in answer["arms"] if arm["overhead"] is not None}
    assert wanted and shown.keys() == wanted.keys(), f"costs of {shown.keys()}, not {wanted.keys()}"
    for stack, cost in wanted.items():
        for column, field in [("Cost", "ratio"), ("Low", "low"), ("High", "high")]:
            assert (
                abs(shown[stack][column] - cost[field]) < 1e-9
            ), f"{stack}: {column} {shown[stack]}"
        side = (cost["low"] > 1) - (cost["high"] < 1)
        assert shown[stack]["Interval"] == side, f"{stack}: the interval's side {shown[stack]}"


PORT, exporter = free_port(), f"127.0.0.1:{free_port()}"
(place / "prometheus.yml").write_text(
    "scrape_configs:\n  - job_name: node\n    scrape_interval: 1s\n    scrape_timeout: 1s\n"
    f"    static_configs: [{{targets: ['{exporter}']}}]\n"
)
commands = [
    [
        programs / "prometheus-node-exporter",
        "--collector.disable-defaults",
        "--collector.uname",
        "--collector.textfile",
        f"--collector.textfile.directory={place / 'collected'}",
        f"--web.listen-address={exporter}",
    ],
    [
        programs / "prometheus",
        f"--config.file={place / 'prometheus.yml'}",
        f"--storage.tsdb.path={place / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{PORT}",
    ],
]
with open(place / "collect.log", "wb") as log:
    running = [subprocess.Popen(command, stdout=log, stderr=log) for command in commands]
try:
    wait_for_samples()
    first, *variables = board["templating"]["list"]
    assert (first["type"], first["query"]) == ("datasource", "prometheus"), first
    DATASOURCE = {"type": "prometheus", "uid": f"${{{first['name']}}}"}
    hold_layout()

    # What the dashboard opens with; then each value alone, where a row or a panel is about it.
    OPENED, offered = {}, {}
    for variable in variables:
        name = variable["name"]
        offered[name] = choices(variable, OPENED)
        opens = variable["current"]["value"]
        OPENED[name] = variable["allValue"] if opens == ["$__all"] else opens
    queries = 0
    for panel in panels:
        hold(panel, OPENED)
        queries += len(panel["targets"])
        for value in offered[panel["repeat"]] if "repeat" in panel else []:
            hold(panel, OPENED | {panel["repeat"]: in_a_query(value)})
    for name, title in [
        ("title", "Runs"),
        ("machine", "Runs"),
        ("stack", "Runs"),
        ("metric", COSTS),
    ]:
        for value in offered[name]:
            hold(panel_of(title), OPENED | {name: in_a_query(value)})
    hold_costs()
finally:
    for process in running:
        process.terminate()
    for process in running:
        process.wait(timeout=10)

print(f"Prometheus: {len(panels)} panels, {queries} queries answered from {len(samples)} samples")
