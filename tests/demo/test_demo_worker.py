"""The job that the demo's workers register."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from jobroom.client.extension import category_of
from jobroom.demo import molecule, scans
from jobroom.demo.worker import Bench, MethylScan, main


def test_the_class_is_the_job_that_the_demo_submits_to() -> None:
    assert f"{scans.ROOM}:{category_of(MethylScan)}:{MethylScan.__name__}" == scans.FULL_NAME


def test_every_planned_payload_fits_the_class() -> None:
    for scan in scans.plan_scans(40):
        assert MethylScan(**scan.payload).model_dump() == scan.payload


def test_a_scan_tells_each_step_and_returns_a_curve_that_passes_the_check() -> None:
    told: list[tuple[float, str]] = []
    scan = scans.plan_scans(3)[2]
    bench = Bench(molecule.caffeine(), lambda fraction, message: told.append((fraction, message)))
    result = MethylScan(**scan.payload).run(bench)
    assert [fraction for fraction, _ in told] == [(step + 1) / 36 for step in range(36)]
    assert told[-1][1].startswith("350 degrees: ")
    curve = scans.read_curve({**result, "angles": list(result["angles"])})
    assert scans.find_fault(scan, curve) is None
    assert (result["barrier"], result["lowest_angle"]) == (curve.barrier, curve.lowest_angle)


@pytest.mark.parametrize(
    "change", [{"methyl": "N9"}, {"radius_scale": 0.1}, {"steps": 2}, {"steps": 361}]
)
def test_a_payload_out_of_range_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MethylScan(**{**scans.plan_scans(1)[0].payload, **change})


def test_an_address_that_is_none_ends_the_worker_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JOBROOM_TOKEN", "secret")
    assert main(["nowhere"]) == 1
    errors = capsys.readouterr().err
    assert "must begin with http://" in errors
    assert "secret" not in errors
