"""What all tests share: fixtures of a broker, and no compiled function older than its source."""

from pathlib import Path

import pytest

import fwonline

pytest_plugins = ["kafka_fixtures"]

PACKAGE = Path(fwonline.__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Forget compiled functions when a source is newer: numba's cache does not see changes in what a function calls."""
    if hasattr(config, "workerinput"):
        return
    cached = [*PACKAGE.rglob("*.nbi"), *PACKAGE.rglob("*.nbc")]
    sources = [*(PACKAGE / "_kernels").glob("*.py"), *(PACKAGE / "optim").glob("*.py"), PACKAGE / "losses.py"]
    if cached and max(p.stat().st_mtime for p in sources) > min(p.stat().st_mtime for p in cached):
        for path in cached:
            path.unlink()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers, one of them runs all tests that talk to the broker: there is one broker a session."""
    for item in items:
        if item.get_closest_marker("kafka"):
            item.add_marker(pytest.mark.xdist_group("kafka"))
