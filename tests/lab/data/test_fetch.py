"""Downloads against a local server: complete, broken off, corrupt, missing."""

import bz2
import errno
import hashlib
import http.server
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gradagrad_lab.data import catalogue, fetch
from gradagrad_lab.errors import DATA, OUTPUT, UserError

TEXT = b"".join(b"%d 1:%d\n" % (row % 2, row) for row in range(5000))
PACKED = bz2.compress(TEXT)


@pytest.fixture
def server(monkeypatch):
    """Serves ``files``, and can break off after some bytes, so many times."""
    told = SimpleNamespace(files={}, breaks=0, asked=[], redirects="")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            told.asked.append(self.path)
            content = told.files.get(self.path)
            if told.redirects:
                self.send_response(302)
                self.send_header("Location", told.redirects + self.path)
                self.end_headers()
                return
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[:1000] if len(told.asked) <= told.breaks else content)

        def log_message(self, format, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}).start()
        monkeypatch.setenv("GRADAGRAD_MIRROR", f"http://127.0.0.1:{running.server_port}")
        yield told
        running.shutdown()


@pytest.fixture
def usps(monkeypatch):
    """The catalogue's usps with the hash of our own file."""
    one = catalogue.Download("usps.bz2", md5=hashlib.md5(PACKED, usedforsecurity=False).hexdigest())
    monkeypatch.setitem(catalogue.CATALOGUE, "usps", replace(catalogue.CATALOGUE["usps"], downloads=(one,)))


def test_fetches_verifies_and_unpacks(server, usps, tmp_path):
    server.files["/usps.bz2"] = PACKED
    seen = []
    (path,) = fetch.fetch("usps", tmp_path, lambda done, total: seen.append((done, total)))
    assert path == tmp_path / "usps" / "usps"
    assert path.read_bytes() == TEXT
    assert seen[-1] == (len(PACKED), len(PACKED))
    assert sorted(file.name for file in path.parent.iterdir()) == ["provenance.json", "usps"]
    assert fetch.provenance(path.parent)["usps"]["sha256"] == hashlib.sha256(TEXT).hexdigest()
    assert fetch.provenance(path.parent)["usps"]["source"] == "LIBSVM's page (usps.bz2)"
    fetch.fetch("usps", tmp_path)
    assert len(server.asked) == 1, "a file that is there must not be fetched again"
    server.files["/protein.bz2"] = PACKED + PACKED  # several packed streams are one text
    assert fetch.fetch("protein", tmp_path, training_only=True)[0].read_bytes() == TEXT + TEXT


def test_a_download_that_breaks_off_is_tried_again(server, usps, tmp_path):
    server.files["/usps.bz2"] = PACKED
    server.breaks = 3
    with pytest.raises(UserError, match=r"broke off \(.*\); try again") as caught:
        fetch.fetch("usps", tmp_path)
    assert caught.value.exit_code == DATA
    assert not (tmp_path / "usps").exists(), "never half a file"
    server.asked.clear()
    server.breaks = 2
    fetch.fetch("usps", tmp_path)
    assert len(server.asked) == 3
    assert (tmp_path / "usps" / "usps").read_bytes() == TEXT


FLIPPED = PACKED[:500] + bytes([PACKED[500] ^ 1]) + PACKED[501:]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("usps", FLIPPED, r"its md5 is .*, not .*; try again"),
        ("protein", PACKED[:-30], "cannot be decompressed"),  # no hash of it is known
        ("protein", bz2.compress(bytes(100_001)), r"cannot be decompressed \(it holds more than 100,000 bytes\)"),
        ("protein", bytes(200_000), "too large: it has more than 100,000 bytes"),
    ],
    ids=["flipped", "cut", "bomb", "large"],
)
def test_a_bad_download_is_refused_and_nothing_is_kept(server, usps, tmp_path, monkeypatch, name, content, reason):
    monkeypatch.setattr(fetch, "MOST_BYTES", 100_000)
    server.files[f"/{name}.bz2"] = content
    with pytest.raises(UserError, match=reason) as caught:
        fetch.fetch(name, tmp_path)
    assert caught.value.exit_code == DATA
    assert not (tmp_path / name).exists()
    server.files[f"/{name}.bz2"] = PACKED
    assert fetch.fetch(name, tmp_path, training_only=True)[0].read_bytes() == TEXT


def test_missing_file_unreachable_server_unknown_set(server, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="answered 404"):
        fetch.fetch("glass", tmp_path)
    with pytest.raises(UserError, match=r"data must be one of .*got 'iris'"):
        fetch.fetch("iris", tmp_path)
    monkeypatch.setenv("GRADAGRAD_MIRROR", "http://127.0.0.1:1")
    with pytest.raises(UserError, match=r"cannot be reached .* --data-dir or GRADAGRAD_DATA"):
        fetch.fetch("glass", tmp_path)


@pytest.mark.parametrize("address", ["http://example.org", "file:///etc", "ftp://example.org"])
def test_only_https_is_trusted(server, tmp_path, monkeypatch, address):
    monkeypatch.setattr("urllib.request.OpenerDirector.open", pytest.fail)
    monkeypatch.setenv("GRADAGRAD_MIRROR", address)
    with pytest.raises(UserError, match=f"{address}/glass.scale is not fetched, because it is not https"):
        fetch.fetch("glass", tmp_path)


def test_only_four_files_lack_a_hash():
    files = [file for own in catalogue.CATALOGUE.values() for file in own.downloads]
    lacking = {"letter.scale.t", "protein.bz2", "protein.t.bz2", "vowel.scale.t"}  # SECURITY.md names them.
    assert {file.file for file in files if not (file.sha256 or file.md5)} == lacking
    assert [file.file for file in files if file.md5] == ["usps.bz2"]


def test_redirects_away_from_https_are_refused(server, tmp_path):
    server.redirects = "http://example.org"
    with pytest.raises(UserError, match=r"http://example\.org/glass\.scale is not fetched"):
        fetch.fetch("glass", tmp_path)


def test_full_disk(server, usps, tmp_path, monkeypatch):
    server.files["/usps.bz2"] = PACKED

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="disk is full") as caught:
        fetch.fetch("usps", tmp_path)
    assert caught.value.exit_code == OUTPUT
    assert list((tmp_path / "usps").iterdir()) == []
