"""Records: found again, whole or not there, and refused in one sentence when they cannot be read."""

import errno
import json
import math
from typing import Any

import pytest

from gradagrad_lab.errors import OUTPUT, UserError
from gradagrad_lab.records import MARKER, Record, RecordStore, key_of, prepare, read_record

CONFIG = {"optimizer": "adam", "options": {"lr": 0.1, "gamma_max": math.inf}}


def a_record(**changes: Any) -> Record:
    content: dict[str, Any] = {
        "config": CONFIG,
        "seeds": [0, 1],
        "status": "done",
        "curves": {"loss": [[2.0, 1.0], [2.0, math.nan]]},
    }
    return Record(**{**content, **changes})


def test_round_trip_keeps_numbers_that_json_does_not_know(tmp_path):
    store = RecordStore(tmp_path)
    path = store.save(a_record())
    assert json.loads(path.read_text())["curves"]["loss"][1][1] == "nan"
    found = store.find(CONFIG, [0, 1])
    assert found is not None
    assert found.config == CONFIG
    assert math.isnan(found.curves["loss"][1][1])
    assert found.versions["torch"]
    assert found.key == path.stem == key_of(CONFIG, [0, 1])


def test_key_depends_on_every_setting_and_on_the_seeds():
    keys = {
        key_of(CONFIG, [0, 1]),
        key_of(CONFIG, [0]),
        key_of({**CONFIG, "optimizer": "sgd"}, [0, 1]),
        key_of({**CONFIG, "options": {"lr": 0.1000001}}, [0, 1]),
    }
    assert len(keys) == 4


def test_ensure_trains_once(tmp_path):
    calls = []

    def train():
        calls.append(1)
        return a_record()

    store = RecordStore(tmp_path)
    for _ in range(3):
        store.ensure(CONFIG, [0, 1], train)
    assert len(calls) == 1


def test_without_reuse_old_records_are_trained_again_but_own_ones_are_read(tmp_path):
    RecordStore(tmp_path).save(a_record())
    assert RecordStore(tmp_path).find(CONFIG, [0, 1]) is not None
    fresh = RecordStore(tmp_path, reuse=False)
    assert fresh.find(CONFIG, [0, 1]) is None
    fresh.save(a_record())
    assert fresh.find(CONFIG, [0, 1]) is not None


def test_a_failed_run_is_tried_again(tmp_path):
    store = RecordStore(tmp_path)
    store.save(a_record(status="failed", curves={}, message="boom"))
    assert store.find(CONFIG, [0, 1]) is None


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda text: text[: len(text) // 2], "is damaged"),
        (lambda text: text.replace('"schema":1', '"schema":99'), "has format 99, this version reads format 1"),
        (lambda text: text.replace('"status":"done"', '"status":"odd"'), "unknown status 'odd'"),
        (lambda text: text.replace('"seconds"', '"sekunden"'), "is damaged"),
        (lambda text: "[]", "is not a record"),
    ],
)
def test_unreadable_records(tmp_path, change, part):
    path = RecordStore(tmp_path).save(a_record())
    path.write_text(change(path.read_text()))
    with pytest.raises(UserError, match=part) as caught:
        read_record(path)
    assert caught.value.exit_code == OUTPUT
    assert str(path) in str(caught.value)


def test_folder_of_another_version(tmp_path):
    prepare(tmp_path)
    prepare(tmp_path)
    (tmp_path / MARKER).write_text('{"schema": 7}')
    with pytest.raises(UserError, match="was written in format 7, this version writes format 1"):
        prepare(tmp_path)
    (tmp_path / MARKER).write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        prepare(tmp_path)


def test_output_folder_that_is_a_file(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(UserError, match="cannot be written") as caught:
        prepare(tmp_path / "out")
    assert caught.value.exit_code == OUTPUT


def test_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch):
    store = RecordStore(tmp_path)
    prepare(tmp_path)

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match=r"The disk is full.*finished runs are kept"):
        store.save(a_record())
    assert list(store.folder.iterdir()) == []
