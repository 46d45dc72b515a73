"""The command: exit codes, one message per mistake, interrupted and killed runs."""

import io
import json
import signal
import subprocess
import sys
import time

import pytest

from gradagrad_lab.cli import app as cli
from gradagrad_lab.cli import entry
from gradagrad_lab.errors import DATA, INTERRUPTED, USAGE
from gradagrad_lab.records import MARKER
from lab.store import recorded


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    previous = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, previous)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["train", "irris"], USAGE, "data must be one of glass,"),
        (["train", "iris", "--optimizer", "adamm"], USAGE, "optimizer must be one of gradagrad, adagrad,"),
        (["train", "iris", "-o", "rh=3"], USAGE, "an option of GradaGrad must be one of lr, rho,"),
        (["train", "iris", "-o", "rho=-1"], USAGE, "rho must be"),
        (["train", "iris", "-o", "rho"], USAGE, "an option must have the form name=value, got 'rho'."),
        (["train", "iris", "-o", "rho=1", "-o", "rho=2"], USAGE, "option 'rho' must be given once"),
        (["train", "iris", "--epochs", "0"], USAGE, "--epochs"),
        (["train", "vowel"], DATA, "gradagrad data fetch vowel"),
        (["train", "missing.svm"], DATA, "The data file missing.svm does not exist."),
        (["train", "iris", "--optimizer", "sgd", "-o", "lr=-1"], USAGE, "Invalid learning rate"),
        (["compare", "iris", "adam:lr"], USAGE, "an option must have the form name=value, got 'lr'."),
        (["reproduce", "figure9"], USAGE, "experiment must be one of figure1, figure2, figure3, "),
        (["reproduce", "--data-dir=nowhere"], DATA, "The data folder nowhere (from --data-dir) does not exist; name"),
        (["reproduce", "--seeds", "0"], USAGE, "--seeds"),
        (["data", "fetch", "glas"], USAGE, "got 'glas'. Did you mean 'glass'?"),
        (["reproduce", "figure3", "--rho", "2"], USAGE, "figure3 has no option --rho; it belongs to figure4."),
        (["reproduce", "figure1", "--gamma0", "1"], USAGE, "figure1 has no option --gamma0; it belongs to figure2."),
        (["reproduce", "figure2", "--gamma0", "-1"], USAGE, "--gamma0 may be given at most 7 times, each above 0 and"),
        (["reproduce", "figure2", "--gamma0", "1e308"], USAGE, "each above 0 and below 1e38."),
        (["reproduce", "figure3", "--only", "glas,vowel"], USAGE, "Did you mean 'glass'?"),
        (["reproduce", "figure3", "--data", "no.csv"], USAGE, "The data file no.csv does not exist."),
        (["reproduce", "figure33"], USAGE, "Did you mean 'figure3'?"),
        (["data", "fetch", "iris"], USAGE, "data must be one of glass,"),
        (["frobnicate"], USAGE, "No such command"),
        (["train", "iris", "--frobnicate"], USAGE, "No such option"),
    ],
)
def test_a_mistake_is_one_sentence_and_an_exit_code(arguments, code, sentence, capsys):
    assert cli.run(arguments) == code
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert "Traceback" not in shown.err + shown.out


def test_list_names_files_that_it_does_not_know(tmp_path, capsys):
    (tmp_path / "glass").mkdir()
    for name in ("glass.scale", "mine.svm", "glass/other.txt"):
        (tmp_path / name).write_text("1 1:1\n2 1:2\n")
    assert cli.run(["data", "list", "--data-dir", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "bundled" in shown
    assert f"Not known, in {tmp_path}: mine.svm, glass/other.txt" in shown


def test_a_terminal_without_greek_and_signs_gets_all_words(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    with pytest.raises(SystemExit) as ended:
        entry.main(["train", "iris", "--epochs=1", "--out=new"])
    assert ended.value.code == 0
    stream.flush()
    assert b"\\xd7" in stream.buffer.getvalue()  # ×


def test_train_leaves_a_record_and_a_plot(tmp_path, capsys):
    arguments = ["train", "iris", "--epochs=3", "--seeds=2", "-o", "lr=2^-1", "-o", "gamma_max=inf", "--out=new"]
    assert cli.run(arguments) == 0
    (path,) = (tmp_path / "new" / "records").glob("*.json")
    content = json.loads(path.read_text())
    record, other = content["runs"].values()
    assert {record["seed"], other["seed"]} == {0, 1}
    assert record["config"]["options"] == {"lr": 0.5, "gamma_max": float("inf")}
    assert record["config"]["problem"]["data"] == "iris (replacement from scikit-learn)"
    assert {"python", "torch", "gradagrad", "date", "commit"} <= set(content["made"][record["made"]])
    assert len(record["curves"]["loss"]) == 3
    assert len(list((tmp_path / "new" / "figures").glob("train-*.png"))) == 1
    assert "replacement" in capsys.readouterr().out
    # The same command again trains nothing.
    before = path.stat().st_mtime_ns
    assert cli.run(arguments) == 0
    assert path.stat().st_mtime_ns == before
    assert cli.run([*arguments, "--no-resume"]) == 0
    assert path.stat().st_mtime_ns > before


def test_compare_tuned_and_not(tmp_path, capsys):
    arguments = ["compare", "iris", "sgd", "gradagrad", "gradagrad:rho=10,granularity=group", "--tuned"]
    assert cli.run([*arguments, "--epochs", "3", "--seeds", "2", "--out", "new"]) == 0
    shown = capsys.readouterr().out
    assert "tuned, lr 2^" in shown
    assert "rho = 10" in shown
    assert len(recorded(tmp_path / "new")) >= 2 * (19 + 2)


def test_reproduce_writes_the_report_and_figures_can_be_changed(tmp_path, capsys):
    assert cli.run(["reproduce", "figure2", "--gamma0", "0.3", "--gamma0", "1e-5", "--out", "new"]) == 0
    assert "report.html" in capsys.readouterr().out
    assert (tmp_path / "new" / "report.html").exists()
    assert "γ₀ = 0.3" in (tmp_path / "new" / "data" / "figure2.csv").read_text(encoding="utf-8")
    (tmp_path / "mine.csv").write_text("a,b,class\n" + "\n".join(f"{n % 7},{n % 3},{'xy'[n % 2]}" for n in range(40)))
    assert cli.run(["compare", "mine.csv", "adagrad", "autogradagrad", "--epochs", "2", "--seeds", "1"]) == 0
    shown = capsys.readouterr().out
    assert "40 rows × 2 features, 2 classes; 1 seed, " in shown
    assert "–" not in next(line for line in shown.splitlines() if "AutoGradaGrad" in line)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_stops_soon_and_keeps_what_is_finished(tmp_path, workers):
    """A command of two jobs, one of them far too long to finish, is interrupted after the first has left a record."""
    out = tmp_path / "out"
    assert cli.run(["train", "iris", "--epochs", "2", "--seeds", "1", "--out", str(out)]) == 0
    kept = recorded(out)
    (out / MARKER).unlink()  # the next command writes it again just before it begins to train
    command = [sys.executable, "-m", "gradagrad_lab", "compare", "iris", "adam", "gradagrad", "--epochs", "100000"]
    process = subprocess.Popen(
        [*command, "--workers", workers, "--out", str(out)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        # Whoever runs the tests in the background (nohup) has them ignore Ctrl-C, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while not (out / MARKER).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=240)
    assert process.returncode == INTERRUPTED, said
    assert "Interrupted; finished work is kept" in said
    assert "Traceback" not in said
    assert recorded(out) == kept


@pytest.mark.parametrize("arguments", [["--help"], ["train", "iris", "--frobnicate"], ["reproduce", "figure9"]])
def test_an_answer_imports_nothing_slow(arguments):
    """`gradagrad --help` took 2.6 s of CPU while it imported these."""
    slow = ("torch", "scipy", "sklearn", "matplotlib")
    code = f"import sys; from gradagrad_lab.cli import app; app.run({arguments}); print(set({slow}) & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "set()"
