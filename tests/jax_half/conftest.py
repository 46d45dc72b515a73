import jax
import pytest

jax.config.update("jax_num_cpu_devices", 8)  # for the tests of sharding; before any array is made


@pytest.fixture
def double():
    """Double precision for one test."""
    with jax.enable_x64(True):
        yield
