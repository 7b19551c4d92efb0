"""The molecule of the demo: its file, its bonds, and turning it in space."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from jobroom.demo import molecule, vectors
from jobroom.demo.molecule import Molecule, MoleculeError
from jobroom.demo.vectors import Vector

AXES: list[Vector] = [(0.0, 0.0, 1.0), (1.0, 2.0, 3.0), (-4.0, 0.5, 0.0)]
LENGTHS = {"CC": (1.34, 1.55), "CN": (1.28, 1.50), "CO": (1.20, 1.26), "CH": (0.95, 1.12)}
VALENCES = {"H": {1}, "C": {3, 4}, "N": {2, 3}, "O": {1}}


def bond_kind(subject: Molecule, one: int, other: int) -> str:
    return "".join(sorted(subject.symbols[one] + subject.symbols[other], key="CHNO".index))


def all_distances(subject: Molecule) -> list[float]:
    pairs = itertools.combinations(range(len(subject.symbols)), 2)
    return [subject.distance(one, other) for one, other in pairs]


def test_the_shipped_molecule_is_caffeine() -> None:
    shipped = molecule.caffeine()
    assert shipped.formula == "C8H10N4O2"
    assert len(shipped.positions) == 24


def test_every_bond_of_caffeine_has_a_length_that_a_chemist_expects() -> None:
    shipped = molecule.caffeine()
    bonds = molecule.find_bonds(shipped)
    assert len(bonds) == 25
    for one, other in bonds:
        shortest, longest = LENGTHS[bond_kind(shipped, one, other)]
        assert shortest <= shipped.distance(one, other) <= longest


def test_every_atom_of_caffeine_has_the_neighbours_that_its_element_allows() -> None:
    shipped = molecule.caffeine()
    degree = Counter(itertools.chain.from_iterable(molecule.find_bonds(shipped)))
    assert all(degree[atom] in VALENCES[symbol] for atom, symbol in enumerate(shipped.symbols))


def test_no_two_atoms_of_caffeine_clash() -> None:
    shipped = molecule.caffeine()
    bonds = set(molecule.find_bonds(shipped))
    apart = set(itertools.combinations(range(24), 2)) - bonds
    assert min(shipped.distance(one, other) for one, other in apart) > 1.7


def test_the_nine_ring_atoms_carry_the_chemists_numbers() -> None:
    assert "".join(molecule.caffeine().symbols[:9]) == "NCNCCCNCN"


def test_what_is_written_is_read_back_the_same() -> None:
    shipped = molecule.caffeine()
    assert molecule.read_xyz(molecule.write_xyz(shipped)) == shipped


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "line 1 must be the number of atoms"),
        ("many\n\n", "line 1 must be the number of atoms"),
        ("0\n\n", "line 1 must be the number of atoms"),
        ("²\n\nH 0 0 0\n", "line 1 must be the number of atoms"),
        ("2\n\nH 0 0 0\n", "line 1 says 2, but lines for 1 atoms follow"),
        ("1\n", "line 1 says 1, but lines for 0 atoms follow"),
        ("1\n\nH 0 0\n", "line 3 must be an element and three numbers"),
        ("1\n\nH 0 0 up\n", "line 3 must be an element and three numbers"),
        ("1\n\nXx 0 0 0\n", "line 3 names the element Xx; known are H, C, N, O"),
        ("1\n\nH 0 0 nan\n", "line 3 holds a number that is not finite"),
        ("1\n\nH 0 0 0\nH 0 0 1\n", "line 4 comes after the last of the atoms that line 1 counts"),
    ],
)
def test_a_faulty_file_is_refused_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(MoleculeError, match=f"^{sentence}$"):
        molecule.read_xyz(text)


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("degrees", [17.0, 180.0, -300.0])
def test_turning_a_molecule_keeps_every_distance(axis: Vector, degrees: float) -> None:
    shipped = molecule.caffeine()
    turned = molecule.turn(shipped, degrees=degrees, axis=axis)
    assert all_distances(turned) == pytest.approx(all_distances(shipped), abs=1e-12)


def test_turning_a_molecule_keeps_its_centre() -> None:
    shipped = molecule.caffeine()
    turned = molecule.turn(shipped, degrees=50.0, axis=(1.0, 1.0, 0.0))
    assert molecule.centre(turned) == pytest.approx(molecule.centre(shipped), abs=1e-12)


def test_turning_there_and_back_changes_nothing() -> None:
    shipped = molecule.caffeine()
    there = molecule.turn(shipped, degrees=41.0, axis=(1.0, 2.0, 3.0))
    back = molecule.turn(there, degrees=-41.0, axis=(1.0, 2.0, 3.0))
    for one, other in zip(back.positions, shipped.positions, strict=True):
        assert one == pytest.approx(other, abs=1e-12)


def test_a_quarter_turn_about_z_takes_x_to_y() -> None:
    (point,) = vectors.rotate(
        [(1.0, 0.0, 0.0)], about=(0.0, 0.0, 0.0), axis=(0.0, 0.0, 2.0), degrees=90.0
    )
    assert point == pytest.approx((0.0, 1.0, 0.0), abs=1e-15)


def test_an_axis_of_length_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="length zero"):
        molecule.turn(molecule.caffeine(), degrees=1.0, axis=(0.0, 0.0, 0.0))


def test_shifting_moves_the_centre_by_as_much() -> None:
    shipped = molecule.caffeine()
    x, y, z = molecule.centre(shipped)
    moved = molecule.shift(shipped, (1.0, -2.0, 0.5))
    assert molecule.centre(moved) == pytest.approx((x + 1.0, y - 2.0, z + 0.5))
