import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest
import torch
from lab.chromium import Chromium

os.environ["GRADAGRAD_OFFLINE"] = "1"  # no test waits for a network it did not ask for
if capability := os.environ.get("ATEN_CPU_CAPABILITY"):
    # What torch.compile has kept was written for another instruction set, and would be taken from there.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{tempfile.gettempdir()}/inductor-{os.getuid()}-{capability}"


@pytest.fixture(autouse=True)
def _seeded():
    """Every test starts from the same random state and leaves the thread count alone."""
    torch.default_generator.manual_seed(0)  # torch.manual_seed also queues work for accelerators, which takes longer
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium on this machine; on Debian: apt-get install chromium")
    chromium = Chromium(program, tmp_path_factory.mktemp("profile"))
    yield chromium
    chromium.close()
