"""What all tests share: fixtures of a broker, drawn examples that are the same everywhere, compiled functions."""

import ast
import hashlib
from pathlib import Path

import pytest
from hypothesis import settings

import fwonline

pytest_plugins = ["support.kafka_fixtures"]

PACKAGE = Path(fwonline.__file__).parent
COMPILED = PACKAGE / "_kernels" / "__pycache__" / "compiled.sha256"
TESTS = Path(__file__).parent
# Whose results a processor's rounding could change.
NUMERICS = ("cluster", "covariance", "kernels", "linear_model", "monitors", "optim", "reco", "sets")
DECORATORS = ("jit", "fast_jit", "unlocked_jit", "part", "fast_part", "open_part", "inner", "fast_inner", "njit")

# The test command must not depend on luck: what fails, fails everywhere. `python -m tools.soak properties` draws anew.
settings.register_profile("fixed", derandomize=True, database=None)
settings.register_profile("drawn", derandomize=False, database=None, print_blob=True)
settings.load_profile("fixed")


def pytest_configure(config: pytest.Config) -> None:
    """Forget compiled functions when one has changed: numba's cache does not see changes in what a function calls."""
    if hasattr(config, "workerinput"):
        return
    known = COMPILED.read_text() if COMPILED.exists() else None
    if known != (now := digest_of_compiled()):
        for path in (*PACKAGE.rglob("*.nbi"), *PACKAGE.rglob("*.nbc")):
            path.unlink(missing_ok=True)
        COMPILED.parent.mkdir(exist_ok=True)
        COMPILED.write_text(now)


def digest_of_compiled() -> str:
    """A digest of all that numba compiles and of the constants beside it; comments and docstrings do not count."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        compiled = {node for node in tree.body if isinstance(node, ast.FunctionDef) and is_compiled(node)}
        for node in tree.body if compiled else ():
            if node in compiled or isinstance(node, ast.Assign) or path.parent.name == "_kernels":
                digest.update(ast.dump(without_docstrings(node)).encode())
    return digest.hexdigest()


def is_compiled(function: ast.FunctionDef) -> bool:
    """Whether one of its decorators is one of numba's, or of ours that stand for it."""
    names = (getattr(decorator, "func", decorator) for decorator in function.decorator_list)
    return any(getattr(name, "attr", getattr(name, "id", None)) in DECORATORS for name in names)


def without_docstrings(tree: ast.stmt) -> ast.stmt:
    """The statement, and those within it, less what explains them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return tree


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what computes, by its folder, and let one worker run all tests that talk to the session's one broker."""
    for item in items:
        if item.path.parent.name in NUMERICS and item.path.is_relative_to(TESTS):
            item.add_marker(pytest.mark.numerics)
        if item.get_closest_marker("kafka"):
            item.add_marker(pytest.mark.xdist_group("kafka"))
