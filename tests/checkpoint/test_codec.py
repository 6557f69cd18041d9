"""The codec: what was saved comes back, to the bit, and a hostile document never runs, hangs or loads."""

import collections
import contextlib
import copy
import datetime
import functools
import importlib
import math
import pickle
import pkgutil
import random
import struct

import msgspec
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from river import (
    cluster,
    compose,
    datasets,
    drift,
    ensemble,
    facto,
    forest,
    linear_model,
    metrics,
    naive_bayes,
    neighbors,
    preprocessing,
    stats,
    time_series,
    utils,
)

from fwonline.checkpoint import codec
from fwonline.checkpoint.allowed import find, name_of
from fwonline.checkpoint.document import FORMAT
from fwonline.exceptions import CheckpointError


def again(value):
    return codec.loads(codec.dumps(value))


def bits(number: float) -> bytes:
    return struct.pack("<d", number)


def same(one, other) -> bool:
    """Equal in type, order and bits, NaNs included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return bits(one) == bits(other)
    if isinstance(one, complex):
        return bits(one.real) == bits(other.real) and bits(one.imag) == bits(other.imag)
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            same(k, j) and same(one[k], other[j]) for k, j in zip(one, other, strict=True)
        )
    if isinstance(one, (list, tuple, collections.deque)):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return one == other


keys = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.floats(allow_nan=False),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
leaves = keys | st.floats() | st.complex_numbers(allow_nan=False) | st.text(st.characters(exclude_categories=()))
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=12)
        | st.lists(st.floats(), min_size=9, max_size=12)
        | st.lists(st.integers(-(2**70), 2**70), min_size=9, max_size=12)
        | st.dictionaries(keys, inner, max_size=12)
        | st.lists(inner, max_size=4).map(tuple)
        | st.sets(keys, max_size=4)
        | st.lists(inner, max_size=4).map(lambda v: collections.deque(v, maxlen=7))
    ),
    max_leaves=30,
)


@given(values)
@settings(max_examples=300, deadline=None)
def test_plain_values_come_back_to_the_bit(value):
    assert same(again(value), value)


@given(hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, min_side=0)), st.sampled_from(["C", "F"]))
@settings(max_examples=200, deadline=None)
def test_arrays_come_back_to_the_bit(array, order):
    array = np.array(array, order=order)
    if not array.dtype.itemsize:
        return
    back = again(array)
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()
    assert back.flags.f_contiguous == array.flags.f_contiguous
    assert back.flags.writeable


@given(hnp.from_dtype(np.dtype("f8")) | hnp.from_dtype(np.dtype("i4")) | hnp.from_dtype(np.dtype("M8[s]")))
@settings(deadline=None)
def test_numpy_scalars_keep_type_and_bits(scalar):
    back = again(scalar)
    assert type(back) is type(scalar)
    assert back.tobytes() == scalar.tobytes()


def test_every_kind_of_float_is_exact():
    numbers = [0.0, -0.0, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1, 1e22]
    numbers.append(struct.unpack("<d", (0xFFF8_0000_0000_0123).to_bytes(8, "little"))[0])  # a NaN with a payload
    assert [bits(again(number)) for number in numbers] == list(map(bits, numbers))
    assert list(map(bits, again(numbers))) == list(map(bits, numbers))


def test_structured_and_sparse_arrays():
    array = np.zeros(3, dtype=[("a", "f8"), ("b", "i4", (2,)), ("c", [("d", "u1")])])
    array["b"] = 7
    back = again(array)
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()
    for kind in (scipy.sparse.csr_matrix, scipy.sparse.csr_array):
        matrix = kind(np.eye(3))
        back = again(matrix)
        assert type(back) is kind
        assert (back != matrix).nnz == 0


def test_read_only_arrays_stay_read_only():
    array = np.arange(3)
    array.flags.writeable = False
    assert not again(array).flags.writeable


def test_what_is_shared_stays_shared():
    model = linear_model.LogisticRegression()
    array = np.arange(4.0)
    state = again({"model": model, "monitors": [model, array], "array": array})
    assert state["monitors"][0] is state["model"]
    assert state["monitors"][1] is state["array"]


def test_cycles_close():
    ring = [1]
    ring.append((ring, {"self": ring}))
    back = again(ring)
    assert back[1][0] is back
    assert back[1][1]["self"] is back


def test_views_of_one_memory_stay_views_of_one_memory():
    for order in "CF":
        grown = np.asarray(np.arange(24.0).reshape(4, 6), order=order)
        state = again({"all": grown, "part": grown[1:3, ::2], "turned": grown[::-1]})
        state["all"][2, 2] = -1.0
        assert state["part"][1, 1] == -1.0
        assert state["turned"][1, 2] == -1.0
        assert state["part"].strides == grown[1:3, ::2].strides
    buffer = np.arange(10)
    low, high = again((buffer[:6], buffer[4:]))  # the memory itself is not part of the state
    low[5] = 99
    assert high[1] == 99
    assert len(codec.dumps(np.zeros(100_000)[:2])) < 500  # one view alone carries its own numbers only


def test_generators_go_on_where_they_were():
    rng = np.random.default_rng(7)
    rng.random(5)
    rng.spawn(2)
    state = again([rng, rng.bit_generator])
    assert state[0].bit_generator is state[1]
    twin = copy.deepcopy(rng)
    assert state[0].random(3).tolist() == twin.random(3).tolist()
    assert state[0].spawn(1)[0].random() == twin.spawn(1)[0].random()

    for kind in (np.random.MT19937, np.random.Philox, np.random.SFC64, np.random.PCG64DXSM):
        rng = np.random.Generator(kind(3))
        rng.integers(9, size=5, dtype=np.int32)
        back = again(rng)
        assert back.integers(9, size=9, dtype=np.int32).tolist() == rng.integers(9, size=9, dtype=np.int32).tolist()

    old, plain = np.random.RandomState(5), random.Random(5)
    old.normal(), plain.gauss(0, 1)
    state = again({"old": old, "draw": plain.random, "plain": plain})
    assert state["old"].normal(size=3).tolist() == old.normal(size=3).tolist()
    assert state["draw"]() == plain.random()
    assert state["plain"].gauss(0, 1) == plain.gauss(0, 1)


def test_dates():
    utc = datetime.UTC
    moments = [
        datetime.datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=utc),
        datetime.date(1, 1, 1),
        datetime.time(4, 5),
        datetime.timedelta(-1, 3, 5),
    ]
    assert again(moments) == moments


MODELS = {
    "pipeline": lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(),
    "factories": naive_bayes.GaussianNB,
    "forest": lambda: forest.ARFClassifier(n_models=3, seed=1),
    "bagging": lambda: ensemble.LeveragingBaggingClassifier(linear_model.LogisticRegression(), n_models=3, seed=3),
    "knn": lambda: neighbors.KNNClassifier(n_neighbors=3),
    "union": lambda: (
        ((compose.SelectType(float) | preprocessing.RobustScaler()) + preprocessing.MinMaxScaler())
        | linear_model.LogisticRegression()
    ),
    "embedded numpy": lambda: facto.FMClassifier(seed=1),
}


@pytest.mark.parametrize("name", MODELS)
def test_river_models_go_on_to_the_bit(name):
    stream = list(datasets.Phishing().take(300))
    model = MODELS[name]()
    for x, y in stream[:200]:
        model.learn_one(x, y)
    back = again(model)
    for x, y in stream[200:]:
        assert same(back.predict_proba_one(x), model.predict_proba_one(x))
        back.learn_one(x, y)
        model.learn_one(x, y)


def test_rust_and_other_parts_of_river():
    window = drift.ADWIN()
    auc = metrics.RollingROCAUC(window_size=50)
    quantile = utils.Rolling(stats.Mean, window_size=10)
    centres = cluster.KMeans(n_clusters=3, seed=1)
    forecast = time_series.HoltWinters(alpha=0.3, beta=0.1, gamma=0.2, seasonality=4)
    for i, (x, y) in enumerate(datasets.Phishing().take(80)):
        window.update(float(i % 7))
        auc.update(y, (i % 10) / 10)
        quantile.update(i)
        centres.learn_one(x)
        forecast.learn_one(float(i % 4) + 1.0)
    back = again([window, auc, quantile, centres, forecast])
    assert back[0].estimation == window.estimation
    assert back[1].get() == auc.get()
    assert back[2].get() == quantile.get()
    assert back[3].centers == centres.centers
    assert back[4].forecast(3) == forecast.forecast(3)


def test_a_counter_keeps_zeros_and_negatives():
    counter = collections.Counter({"a": 0, "b": -2})
    assert same(again(counter), counter)


@codec.register
class Mine:
    def __init__(self):
        self.array = np.arange(3.0)
        self.rebuild()

    def rebuild(self):
        self.call = (self.array, memoryview(b"a cache that cannot be saved"))

    def __getstate__(self):
        return {"array": self.array}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.rebuild()


@codec.register
class Slotted:
    __slots__ = ("a", "b")


@codec.register
class Pair(collections.namedtuple("Pair", "one two")):
    pass


@codec.register
def double(x):
    return {name: 2 * value for name, value in x.items()}


def test_registered_classes_and_functions():
    mine = again(Mine())
    assert mine.call[0] is mine.array
    slotted = Slotted()
    slotted.a = [1]
    back = again(slotted)
    assert back.a == [1]
    assert not hasattr(back, "b")
    assert again(Pair(1, [2])) == Pair(1, [2])
    assert again(compose.FuncTransformer(double)).transform_one({"a": 2}) == {"a": 4}


class Stranger:
    pass


def test_what_cannot_be_saved_is_named_with_its_place():
    model = preprocessing.StandardScaler() | compose.FuncTransformer(lambda x: x) | linear_model.LogisticRegression()
    with pytest.raises(CheckpointError, match=r"^model\.steps\['<lambda>'\]\.func cannot be saved.*function.*register"):
        codec.dumps({"model": model})
    model = linear_model.LogisticRegression()
    model.extra = {"deep": [1, Stranger()]}
    with pytest.raises(CheckpointError, match=r"^model\.extra\['deep'\]\[1\] cannot be saved.*Stranger"):
        codec.dumps({"model": model})
    for value in (np.array([object()]), np.array(["a"], object), iter([1]), open, Stranger, ValueError("x")):
        with pytest.raises(CheckpointError, match="cannot be saved"):
            codec.dumps([value])


def test_what_no_name_leads_back_to_cannot_be_registered():
    class Local:
        pass

    with pytest.raises(CheckpointError, match="top of a module"):
        codec.register(Local)
    with pytest.raises(CheckpointError, match="class or a function"):
        codec.register(3)


def test_deep_structures_do_not_exhaust_the_stack():
    chain = []
    for _ in range(50_000):
        chain = [chain]
    back, depth = again(chain), 0
    while back:
        back, depth = back[0], depth + 1
    assert depth == 50_000
    nested = ()
    for _ in range(200):
        nested = (nested,)
    with pytest.raises(CheckpointError, match="nested"):
        codec.dumps(nested)


def test_filling_in_place_reaches_parts_that_the_caller_holds():
    def make():
        final = linear_model.LogisticRegression()
        return final, preprocessing.StandardScaler() | final

    _, trained = make()
    for x, y in datasets.Phishing().take(50):
        trained.learn_one(x, y)
    document = codec.dumps({"model": trained, "monitors": [trained]})
    final, model = make()
    state = codec.loads(document, into={"model": model, "monitors": []})
    assert state["model"] is model
    assert state["monitors"][0] is model
    assert model["LogisticRegression"] is final
    assert final.weights == trained["LogisticRegression"].weights
    model.predict_proba_one(x)
    assert model._last_step_cached is final


# Hostile documents


def forge(objects=(), root=None, blobs=(), order=None, **extra):
    """A document as an attacker would write it, with all the lengths right."""
    text = msgspec.json.encode(
        {
            "format": FORMAT,
            "root": ["r", 0] if root is None and objects else root,
            "objects": list(objects),
            "order": list(range(len(objects))) if order is None else order,
            "blobs": [len(blob) for blob in blobs],
            **extra,
        }
    )
    return b"".join([len(text).to_bytes(8, "little"), text, *blobs])


def taken_apart(document: bytes) -> tuple[dict, bytes]:
    size = int.from_bytes(document[:8], "little")
    return msgspec.json.decode(document[8 : 8 + size]), document[8 + size :]


def put_together(document: dict, blobs: bytes) -> bytes:
    text = msgspec.json.encode(document)
    return len(text).to_bytes(8, "little") + text + blobs


def instance(module, name, how="new", arguments=(), state=None):
    return ["obj", module, name, how, ["n", list(arguments)], state, None, None]


@pytest.mark.parametrize("package", ["cluster", "covariance", "linear_model", "monitors", "optim", "reco", "sets"])
def test_a_class_is_named_by_its_package_and_found_again(package):
    name = f"fwonline.{package}"
    module = importlib.import_module(name)
    parts = [importlib.import_module(info.name) for info in pkgutil.walk_packages(module.__path__, f"{name}.")]
    classes = {
        value
        for part in parts
        for value in vars(part).values()
        if isinstance(value, type) and value.__module__ == part.__name__ and not issubclass(value, BaseException)
    }
    assert classes
    for cls in classes:
        assert name_of(cls) == (name, cls.__qualname__), "two classes of one name: a file would hold their modules"
        assert find(*name_of(cls)) is cls
        with pytest.raises(CheckpointError, match="not allowed"):
            find(cls.__module__, cls.__qualname__)


def test_a_document_of_another_format_is_refused_by_name():
    with pytest.raises(CheckpointError, match=r"format 1 by version 0\.1\.0 of fwonline; this version reads format 2"):
        codec.loads(forge(root=1, format=1))
    with pytest.raises(CheckpointError, match="format 9; this version reads format 2 only"):
        codec.loads(forge(root=1, format=9))


FORBIDDEN = [
    ("os", "system"),
    ("posix", "system"),
    ("builtins", "eval"),
    ("builtins", "exec"),
    ("builtins", "getattr"),
    ("builtins", "open"),
    ("builtins", "__import__"),
    ("builtins", "type"),
    ("subprocess", "Popen"),
    ("importlib", "import_module"),
    ("pickle", "loads"),
    ("numpy", "load"),
    ("numpy", "fromfile"),
    ("numpy", "memmap"),
    ("river.datasets.base", "RemoteDataset"),
    ("river.datasets.phishing", "Phishing"),
    ("river.stream.cache", "Cache"),
    ("river.stream.iter_csv", "iter_csv"),
    ("river.base.base", "log_method_calls"),
    ("river.base.base", "sys"),
    ("river.base.base", "sys.modules"),
    ("river.preprocessing.scale", "functools"),
    ("river.preprocessing.scale", "functools.partial"),
    ("river.base.base", "Base.__init__.__globals__"),
    ("river.base.base", "Base.__class__"),
    ("river.base", "Base"),  # not its true name
    ("river", "os"),
    ("river..os", "system"),
    ("fwonline.stream.files", "JsonlSink"),
    ("fwonline.checkpoint.codec", "loads"),
    ("fwonline.checkpoint.allowed", "register"),
    ("fwonline.cli", "main"),
    ("fwonline.__main__", "main"),
    ("fwonline.exceptions", "SampleError"),
    ("fwonline._cli", "RunFolder"),
    ("fwonline.loop", "EventLoop"),
    ("fwonline.stream", "CSVSource"),
    ("fwonline.optim.online.sfw", "SFW"),  # named by its package
    ("riverrun", "x"),
    ("fwonline_evil", "x"),
    ("", ""),
    (None, None),
    (["os"], "system"),
]


@pytest.mark.parametrize(("module", "name"), FORBIDDEN)
def test_forbidden_names_are_refused_in_every_place(module, name):
    names = ["c", module, name]
    forgeries = [
        forge(root=names),
        forge(root=["nt", module, name, ["n", ["x"]]]),
        forge(root=["e", module, name, "x"]),
        forge([instance(module, name)]),
        forge([instance(module, name, "call", ["x"])]),
        forge([["ddict", ["n", []], ["n", []], names]]),
        forge(root=["p", names, ["n", ["x"]], {}]),
        forge([instance("river.compose.func", "FuncTransformer", state={"func": names})]),
    ]
    for document in forgeries:
        with pytest.raises(CheckpointError):
            codec.loads(document)


def test_a_forged_import_imports_nothing_outside(tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("evil", "river.evil", "fwonline.evil"):
        with pytest.raises(CheckpointError):
            codec.loads(forge(root=["c", module, "x"]))


@pytest.mark.parametrize(
    "document",
    [
        # constructors are not the file's to call
        forge([instance("river.stats.mean", "Mean", "call")]),
        forge([instance("river.linear_model.log_reg", "LogisticRegression", "call", ["x"])]),
        # methods: no dunder, no instance of what is not ours
        forge([instance("river.stats.mean", "Mean")], root=["m", ["r", 0], "__init__"]),
        forge([instance("river.stats.mean", "Mean")], root=["m", ["r", 0], "__reduce__"]),
        forge([["list", ["n", []]]], root=["m", ["r", 0], "append"]),
        forge(root=["m", "text", "format"]),
        forge(root=["m", ["c", "builtins", "str"], "format"]),
        # classes as what they are not
        forge(root=["nt", "river.stats.mean", "Mean", ["n", []]]),
        forge([instance("builtins", "list")]),
        forge([instance("builtins", "object", state={"x": 1})]),
        forge([["ddict", ["n", []], ["n", []], 5]]),
        forge(root=["p", 5, ["n", []], {}]),
        # an object made of itself; references into the void
        forge([instance("river._river_rust.vectordict", "VectorDict", "call", [["r", 0]])]),
        forge([["rng", ["r", 0]]]),
        forge([["list", ["n", [["r", 5]]]]]),
        forge([["list", ["n", [["r", "x"]]]]]),
        forge([["list", ["n", []]]], order=[0, 0]),
        forge([["list", ["n", []]]], order=[]),
        # unknown kinds
        forge([["pickle", "x"]]),
        forge(root=["pickle", "x"]),
        forge(root=[]),
        forge([[]]),
        forge([["list", ["O", 0]]], blobs=[b"12345678"]),
        # arrays
        forge([["array", "|O", [1], "C", True, 0]], blobs=[b"12345678"]),
        forge([["array", [["a", "|O"]], [1], "C", True, 0]], blobs=[b"12345678"]),
        forge([["array", "<f8", [2**40], "C", True, 0]], blobs=[b"12345678"]),
        forge([["array", "<f8", [-1], "C", True, 0]], blobs=[b"12345678"]),
        forge([["array", "<f8", [2**32, 2**32], "C", True, 0]], blobs=[b""]),
        forge([["array", "|V0", [2**40], "C", True, 0]], blobs=[b""]),
        forge([["array", "|S0", [2**62], "C", True, 0]], blobs=[b""]),
        forge([["array", "evil", [1], "C", True, 0]], blobs=[b"12345678"]),
        # the same bytes many times: a small file for a large value
        forge([["list", ["n", [["b", 0], ["b", 0]]]]], blobs=[b"x" * 100]),
        # views beyond their memory
        forge([["array", "<f8", [2], "C", True, 0], ["view", 0, "<f8", [3], 0, [8], True]], blobs=[b"x" * 16], root=1),
        forge([["array", "<f8", [2], "C", True, 0], ["view", 0, "<f8", [1], 16, [8], True]], blobs=[b"x" * 16], root=1),
        forge([["array", "<f8", [2], "C", True, 0], ["view", 0, "<f8", [2], 0, [-8], True]], blobs=[b"x" * 16], root=1),
        forge([["array", "<f8", [2], "C", True, 0], ["view", 0, "|O", [1], 0, [8], True]], blobs=[b"x" * 16], root=1),
        # numpy multiplies (5 - 1) and 2^62 to 0
        forge([["array", "<f8", [4], "C", True, 0], ["view", 0, "<f8", [5], 0, [2**62], True]], blobs=[b"x" * 32]),
        # eight bytes that look like many, until somebody copies them
        forge([["array", "<f8", [1], "C", True, 0], ["view", 0, "<f8", [10**9], 0, [0], True]], blobs=[b"x" * 8]),
        # no rows of very many columns
        forge([["array", "<f8", [0, 10**12], "C", True, 0]], blobs=[b""]),
        # an array of arrays
        forge([["array", "(2,)<f8", [1], "C", True, 0]], blobs=[b"x" * 16]),
        # sparse indices that would make compiled code read elsewhere
        forge(
            [
                ["array", "<f8", [1], "C", True, 0],
                ["array", "<i4", [1], "C", True, 1],
                ["array", "<i4", [2], "C", True, 2],
                ["sparse", "csr_matrix", [1, 3], ["r", 0], ["r", 1], ["r", 2]],
            ],
            root=["r", 3],
            blobs=[b"x" * 8, (10**9).to_bytes(4, "little"), b"\0\0\0\0\1\0\0\0"],
        ),
        # random generators
        forge(
            [
                ["bits", "PCG64", ["r", 1], ["t", ["n", [1, ["t", ["n", []]], 10**12, 0]]]],
                ["dict", ["n", []], ["n", []]],
            ],
            order=[1, 0],
        ),
        forge([["bits", "os", None, None]]),
        forge([["random", 3, 0, None]], blobs=[b"1234"]),
        # windows of Rust that would take all memory, and state that makes Rust panic
        forge([instance("river._river_rust.stats", "RsRollingQuantile", arguments=[0.5, 2**50])]),
        forge([instance("river._river_rust.stats", "RsRollingROCAUC", arguments=[1, 2**31 - 1])]),
        forge([instance("river._river_rust.stats", "RsQuantile", state=["x", ["b", 0]])], blobs=[b"\xff" * 9]),
        # slots that the class does not have
        forge([instance("river.stats.mean", "Mean", state=["slots", None, {"__class__": 1}])]),
        # the frame
        b"",
        b"\xff" * 8,
        (2**63).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        forge(root=1) + b"x",
        forge(root=1)[:-1],
        forge(root=1, blobs=[b"1234"])[:-1],
        forge(root=1, blobs=[b"1234"]) + b"1",
        pickle.dumps({"model": 1}),
    ],
)
def test_hostile_documents_are_refused(document):
    with pytest.raises(CheckpointError):
        codec.loads(document)


@pytest.mark.parametrize(
    ("bits", "changes"),
    [
        (np.random.MT19937, {"state": {"pos": 10**6}}),
        (np.random.MT19937, {"state": {"pos": -1}}),
        (np.random.MT19937, {"state": {"key": np.zeros(624, np.uint32)}}),  # would draw zeros for ever
        (np.random.Philox, {"buffer_pos": -3}),
        (np.random.Philox, {"buffer_pos": 5}),
        (np.random.PCG64, {"state": {"inc": 4}}),
        (np.random.PCG64DXSM, {"has_uint32": 3}),
    ],
)
def test_random_bits_in_a_state_that_they_cannot_have_are_refused(bits, changes):
    """numpy takes them, and reads outside of its arrays at the next draw, or draws for ever."""
    state = bits(1).state
    for name, value in changes.items():
        state[name] = {**state[name], **value} if isinstance(value, dict) else value
    document, blobs = taken_apart(codec.dumps([state, bits(1)]))
    lines = document["objects"]
    (line,) = (line for line in lines if line[0] == "bits")
    line[2] = lines[0][1][1][0]
    document["order"].sort(key=lambda index: lines[index][0] in ("bits", "list"))
    with pytest.raises(CheckpointError, match="state that it cannot have"):
        codec.loads(put_together(document, blobs))


def test_a_twister_of_zeros_is_refused():
    made = random.Random()
    made.setstate((3, (0,) * 624 + (624,), None))
    with pytest.raises(CheckpointError, match="state that it cannot have"):
        again(made)


def test_what_shows_its_memory_several_times_is_written_as_it_looks():
    base = np.arange(3.0)
    wide = np.broadcast_to(base, (4, 3))
    back = again([base, wide])
    assert back[0].tolist() == base.tolist()
    assert back[1].tolist() == wide.tolist()


@codec.register
class Picky:
    """Fits only what has as many names as numbers."""

    def __init__(self):
        self.names, self.numbers = ["a", "b"], np.zeros(2)

    def _check_loaded(self):
        if len(self.names) != self.numbers.size:
            raise ValueError("names and numbers differ")


@pytest.mark.parametrize("parts_first", [True, False])
def test_an_instance_is_asked_once_all_are_filled(parts_first):
    picky = Picky()
    assert again(picky).names == ["a", "b"]
    picky.names = ["a"]
    document, blobs = taken_apart(codec.dumps(picky))
    if not parts_first:
        document["order"].sort(key=lambda index: document["objects"][index][0] != "obj")
    with pytest.raises(CheckpointError, match="Picky is inconsistent: ValueError: names and numbers differ"):
        codec.loads(put_together(document, blobs))


def test_no_value_takes_the_place_of_a_method():
    for module, name, attribute in (
        ("fwonline.sets", "L1Ball", "diameter"),
        ("fwonline.sets", "L1Ball", "can_project"),
        ("fwonline.covariance", "State", "grow"),
    ):
        with pytest.raises(CheckpointError, match=f"in the place of a [a-z]+, {attribute}"):
            codec.loads(forge([instance(module, name, state={attribute: ["c", "builtins", "len"]})]))


def test_deeply_nested_documents_are_refused():
    for opening, closing in (('["t",["n",[', "]]]"), ("[", "]"), ('{"a":', "}")):
        depth = 100_000
        text = ('{"root":' + opening * depth + "1" + closing * depth + ',"objects":[],"order":[],"blobs":[]}').encode()
        with pytest.raises(CheckpointError):
            codec.loads(len(text).to_bytes(8, "little") + text)


def test_a_hostile_state_is_only_attributes():
    """Attributes land in the instance; no setter, no method of the file's choice runs."""
    state = {"predict_one": ["c", "copy", "deepcopy"], "__class__": 5, "steps": 1}
    made = codec.loads(forge([instance("river.compose.pipeline", "Pipeline", state=state)]))
    assert type(made) is compose.Pipeline
    assert made.predict_one is copy.deepcopy


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_random_damage_is_refused_or_harmless(data):
    """Without the checksum of the checkpoint in front of it: any damage is an error or another plain value."""
    document = bytearray(DAMAGED)
    for _ in range(data.draw(st.integers(1, 4))):
        document[data.draw(st.integers(0, len(document) - 1))] = data.draw(st.integers(0, 255))
    try:
        value = codec.loads(bytes(document))
    except CheckpointError:
        return
    with contextlib.suppress(CheckpointError):  # an attribute may have become something that does not fit
        assert codec.dumps(value)


DAMAGED = codec.dumps(
    {
        "rng": np.random.default_rng(1),
        "array": np.arange(5.0),
        "partial": functools.partial(float, 1),
        "counter": collections.Counter("hello"),
        "model": preprocessing.StandardScaler() | linear_model.LogisticRegression(),
    }
)
