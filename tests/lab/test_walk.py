"""How far a reader follows `gradagrad reproduce figure3`: the files of the lab whose functions it runs."""

import subprocess
import sys

PROGRAM = """
import sys
files = set()

def called(frame, event, argument):
    if event == "call" and "gradagrad_lab" in frame.f_code.co_filename and frame.f_code.co_name != "<module>":
        files.add(frame.f_code.co_filename)

sys.setprofile(called)
from gradagrad_lab.cli import app
code = app.run(["reproduce", "figure3", "--only", "iris", "--seeds", "1", "--workers", "1", "--out", sys.argv[1]])
sys.setprofile(None)
print(*sorted(files), sep="\\n", file=sys.stderr)
sys.exit(code)
"""


def test_figure_3_runs_functions_of_few_files(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADAGRAD_OFFLINE", "1")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    files = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    assert 20 <= len(files) <= 45, files
