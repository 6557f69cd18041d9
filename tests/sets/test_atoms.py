"""What is particular to each kind of atom; what all share is tried on every set's atoms."""

import numpy as np
import pytest

from fwonline.checkpoint import codec
from fwonline.exceptions import CheckpointError
from fwonline.sets import CoordinateAtom, DenseAtom, ProductAtom, ProjectorAtom, RankOneAtom, SparseAtom, ZeroAtom


def test_a_coordinate_costs_one_entry():
    atom = CoordinateAtom(2, -3.0, (4,))
    assert atom.nnz == 1
    assert atom.dot(np.array([1.0, 2.0, 4.0, 8.0])) == -12.0
    assert repr(atom) == "CoordinateAtom(index=2, value=-3.0, shape=(4,))"


def test_a_coordinate_of_a_matrix_counts_in_c_order_whatever_the_layout():
    atom = CoordinateAtom(1, 5.0, (2, 3))
    for order in "CF":
        out = np.zeros((2, 3), order=order)
        atom.add_to(out, 2.0)
        assert out[0, 1] == 10.0
        assert np.count_nonzero(out) == 1
        assert atom.dot(out) == 50.0


def test_a_dense_atom_cannot_be_written_to():
    atom = DenseAtom(np.array([1.0, -0.0]))
    with pytest.raises(ValueError, match="read-only"):
        atom.values[0] = 2.0
    assert atom == DenseAtom(np.array([1.0, 0.0]))
    assert hash(atom) == hash(DenseAtom(np.array([1.0, 0.0])))
    dense = atom.to_dense()
    dense[0] = 7.0
    assert atom.values[0] == 1.0


def test_atoms_are_keys():
    weights = {CoordinateAtom(0, 1.0, (3,)): 0.25, ZeroAtom((3,)): 0.75}
    weights[CoordinateAtom(0, 1.0, (3,))] += 0.25
    assert len(weights) == 2
    assert CoordinateAtom(0, 1.0, (3,)) != CoordinateAtom(0, -1.0, (3,))
    assert CoordinateAtom(0, 1.0, (3,)) != CoordinateAtom(0, 1.0, (4,))
    assert ZeroAtom((3,)) != DenseAtom(np.zeros(3))


ATOMS = [
    CoordinateAtom(1, 2.0, (3,)),
    ZeroAtom((2, 2)),
    DenseAtom(np.ones((2, 3))),
    SparseAtom(np.array([0, 3]), np.array([1.0, -1.0]), (2, 2)),
    RankOneAtom(2.0, np.array([1.0, 0.0]), np.array([0.0, -1.0, 0.0])),
    ProjectorAtom(np.eye(3)[:, :2].copy()),
    ProductAtom((CoordinateAtom(1, 2.0, (3,)), ZeroAtom((2,)))),
]


@pytest.mark.parametrize("atom", ATOMS)
def test_atoms_come_back_from_a_file(atom):
    again = codec.loads(codec.dumps(atom))
    assert again == atom
    np.testing.assert_array_equal(again.to_dense(), atom.to_dense())


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (0, {"index": 3}),
        (0, {"index": -1}),
        (0, {"value": np.nan}),
        (0, {"shape": (0,)}),
        (0, {"shape": [3]}),
        (0, {"shape": (1 << 60,)}),
        (1, {"shape": ()}),
        (2, {"values": np.ones((3, 2))}),
        (2, {"values": np.full((2, 3), np.inf)}),
        (2, {"values": np.ones((2, 3), np.float32)}),
        (3, {"indices": np.array([0, 4])}),
        (3, {"indices": np.array([0, 0])}),
        (3, {"indices": np.array([0.0, 1.0])}),
        (3, {"values": np.ones(3)}),
        (4, {"u": np.ones(3)}),
        (4, {"sigma": np.nan}),
        (4, {"shape": (2,)}),
        (5, {"vectors": np.ones((3, 2))}),
        (5, {"vectors": np.eye(2)}),
        (6, {"atoms": (ZeroAtom((3,)),)}),
        (6, {"atoms": (1, 2)}),
    ],
)
def test_a_damaged_atom_is_refused(kind, changes):
    good = ATOMS[kind]
    atom = type(good).__new__(type(good))
    for name in ("shape", *type(good).__slots__):
        setattr(atom, name, changes.get(name, getattr(good, name)))
    with pytest.raises(CheckpointError, match=type(good).__name__):
        codec.loads(codec.dumps(atom))
