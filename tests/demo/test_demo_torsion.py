"""The science of the demo: properties that any right answer has."""

from __future__ import annotations

import math

import pytest

from jobroom.demo import molecule, torsion
from jobroom.demo.molecule import Molecule, MoleculeError

METHYLS = ("N1", "N3", "N7")


def curve_of(
    subject: Molecule, name: str, *, steps: int, radius_scale: float = 1.0
) -> torsion.Curve:
    model = torsion.Model(subject, radius_scale=radius_scale)
    return torsion.as_curve(list(torsion.scan(model, name, steps=steps)))


def test_caffeine_has_three_methyl_groups_on_nitrogen() -> None:
    found = torsion.find_methyls(molecule.caffeine())
    assert tuple(found) == METHYLS
    symbols = molecule.caffeine().symbols
    for group in found.values():
        assert symbols[group.anchor] == "N"
        assert symbols[group.carbon] == "C"
        assert [symbols[atom] for atom in group.hydrogens] == ["H"] * 3


def test_atoms_one_or_two_bonds_apart_do_not_feel_each_other() -> None:
    shipped = molecule.caffeine()
    bonds = set(molecule.find_bonds(shipped))
    pairs = {(pair.one, pair.other) for pair in torsion.find_contacts(shipped)}
    assert not pairs & bonds
    assert (0, 2) not in pairs
    assert (0, 6) in pairs


def test_two_atoms_at_their_contact_distance_hold_together_by_its_depth() -> None:
    contact = torsion.Contact(0, 1, 3.0**2, 0.5)
    energy = torsion.contact_energy([(0.0, 0.0, 0.0), (0.0, 3.0, 0.0)], [contact])
    assert energy == pytest.approx(-0.5)


@pytest.mark.parametrize("name", METHYLS)
def test_a_methyl_group_looks_the_same_after_a_third_of_a_turn(name: str) -> None:
    energies = curve_of(molecule.caffeine(), name, steps=12).energies
    assert energies[4:] + energies[:4] == pytest.approx(energies, abs=1e-5)


@pytest.mark.parametrize("name", METHYLS)
def test_the_energy_does_not_depend_on_where_the_molecule_is(name: str) -> None:
    shipped = molecule.caffeine()
    turned = molecule.turn(shipped, degrees=77.0, axis=(1.0, 2.0, 3.0))
    moved = molecule.shift(turned, (3.0, -40.0, 0.1))
    here = curve_of(shipped, name, steps=6)
    there = curve_of(moved, name, steps=6)
    assert there.energies == pytest.approx(here.energies, abs=1e-5)


def test_the_same_scan_gives_the_same_numbers() -> None:
    once, again = (curve_of(molecule.caffeine(), "N3", steps=4) for _ in range(2))
    assert once == again


def test_larger_atoms_make_a_higher_barrier() -> None:
    barriers = [
        curve_of(molecule.caffeine(), "N7", steps=6, radius_scale=scale).barrier
        for scale in (0.85, 0.95, 1.0)
    ]
    assert barriers == sorted(barriers)
    assert 0 < barriers[0] < barriers[-1] < 20


def test_relaxing_never_raises_the_energy() -> None:
    model = torsion.Model(molecule.caffeine())
    model.place("N7", angle=30.0, bend=0.0)
    stiff = model.energy()
    model.relax(held="N7")
    assert model.energy() < stiff


def test_relaxing_leaves_the_held_angle_and_every_bond_length() -> None:
    shipped = molecule.caffeine()
    model = torsion.Model(shipped)
    model.place("N1", angle=40.0, bend=0.0)
    model.relax(held="N1")
    relaxed = shipped._replace(positions=tuple(model.positions))
    assert model.angles["N1"] == 40.0
    assert molecule.find_bonds(relaxed) == molecule.find_bonds(shipped)
    for one, other in molecule.find_bonds(shipped):
        assert relaxed.distance(one, other) == pytest.approx(
            shipped.distance(one, other), abs=0.005
        )


@pytest.mark.parametrize("angle", [-170.0, 0.0, 33.0, 120.0])
def test_a_placed_group_stands_at_the_angle_asked_for(angle: float) -> None:
    model = torsion.Model(molecule.caffeine())
    model.place("N3", angle=angle, bend=0.0)
    measured = torsion.dihedral(model.positions, model.methyls["N3"])
    assert math.cos(math.radians(measured - angle)) == pytest.approx(1.0, abs=1e-12)


def test_the_curve_starts_from_its_lowest_energy() -> None:
    curve = torsion.as_curve([(0.0, 5.0), (60.0, 2.0), (120.0, 5.0), (180.0, 1.5)])
    assert curve.energies == (3.5, 0.5, 3.5, 0.0)
    assert curve.barrier == 3.5
    assert curve.lowest_angle == 60.0


def test_an_unknown_methyl_group_is_refused_by_name() -> None:
    with pytest.raises(MoleculeError, match="no methyl group N9; there are N1, N3, N7"):
        list(torsion.scan(torsion.Model(molecule.caffeine()), "N9", steps=3))
