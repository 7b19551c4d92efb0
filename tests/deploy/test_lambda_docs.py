"""``docs/lambda.md`` against what it speaks of: the template, the limits, the figures of cost."""

from __future__ import annotations

import re
from typing import Any

import pytest
import sam_tools
import yaml

from jobroom.aws.events import LoadBalancerEvent, RestApiEvent
from jobroom.settings import ON_LAMBDA, JobLibSettings


class Loader(yaml.SafeLoader):
    """Reads CloudFormation's short forms as what stands behind them."""


def _behind(loader: yaml.SafeLoader, _name: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_mapping(node, deep=True)


Loader.add_multi_constructor("!", _behind)

PAGE = (sam_tools.ROOT / "joblib" / "docs" / "lambda.md").read_text()
TEMPLATE = yaml.load(sam_tools.TEMPLATE.read_text(), Loader)  # noqa: S506 - a safe one
MONTH_SECONDS = 30 * 24 * 3600
GB, CALL_SECONDS, BEAT_SECONDS = 0.5, 0.05, 20
PER_GB_SECOND, PER_REQUEST = 0.0000133334, (0.20 + 1.00) / 1e6


def rows_of(heading: str) -> list[list[str]]:
    """The rows of the tables under a heading, without the first two."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r" \| ?|\| ", line)][1:-1] for line in lines[2:]]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_page_has_each_parameter_with_its_default() -> None:
    told: dict[str, str] = {}
    for parameters, defaults, *_ in rows_of("Parameters"):
        names = names_in(parameters)
        told.update(zip(names, names_in(defaults) or [""] * len(names), strict=True))
    assert told == {
        name: str(said.get("Default", "")) for name, said in TEMPLATE["Parameters"].items()
    }


def test_the_page_says_of_each_alarm_what_to_do() -> None:
    alarms = [
        name
        for name, made in TEMPLATE["Resources"].items()
        if made["Type"] == "AWS::CloudWatch::Alarm"
    ]
    rows = rows_of("Alarms")
    assert sorted(names_in(row[0])[0] for row in rows) == sorted(alarms)
    assert all(row[1] and row[2] for row in rows)


def test_the_limits_are_those_of_a_function() -> None:
    limits = {row[0]: row[1] for row in rows_of("Limits")}
    settings = JobLibSettings(**ON_LAMBDA)
    assert settings.max_body_bytes == 1024**2
    assert settings.max_result_bytes == 4 * 1024**2
    assert limits["a request"] == "1 MiB; 4 MiB for a report"
    assert settings.max_answer_bytes == 4.5e6
    rest, balanced = (kind.room_for_a_body() / 1e6 for kind in (RestApiEvent, LoadBalancerEvent))
    narrower = f"{rest:.1f} MB through a REST API, {balanced:.1f} MB behind a load balancer"
    assert limits["an answer"] == f"4.5 MB; {narrower}"
    seconds = f"{settings.gateway_reserve_seconds} s before the gateway's"
    assert seconds in limits["a wait"]
    assert f"{settings.gateway_timeout_seconds:.0f} s or the function's 29 s" in limits["a wait"]


def cost_of(*, interval: int, waits: bool) -> tuple[int, float]:
    """Requests and GB-seconds of an idle worker in a month."""
    claims, beats = MONTH_SECONDS // interval, MONTH_SECONDS // BEAT_SECONDS
    claim_seconds = interval if waits else CALL_SECONDS
    return claims + beats, GB * (claims * claim_seconds + beats * CALL_SECONDS)


@pytest.mark.parametrize("row", rows_of("What waiting costs"), ids=lambda row: row[0])
def test_the_cost_of_an_idle_worker_is_what_its_figures_make(row: list[str]) -> None:
    said, requests, gb_seconds, dollars = row
    interval = int(re.search(r"interval=(\d+)", said)[1])  # type: ignore[index]
    calls, seconds = cost_of(interval=interval, waits="granted" in said)
    assert requests == f"{calls:,}"
    assert gb_seconds == f"{seconds:,.0f}"
    assert dollars == f"${seconds * PER_GB_SECOND + calls * PER_REQUEST:.2f}"


def test_the_cost_of_a_wait_and_of_the_sweep_is_what_their_figures_make() -> None:
    sweeps = MONTH_SECONDS // 60
    swept = sweeps * (0.5 * GB * PER_GB_SECOND + 0.20 / 1e6)
    assert f"20 s are {20 * GB:.0f} GB-seconds, ${20 * GB * PER_GB_SECOND:.5f}" in PAGE
    assert f"half a second long, is ${swept:.2f} a month" in PAGE


def metrics_watched(alarm: dict[str, Any]) -> int:
    return max(1, sum("MetricStat" in each for each in alarm.get("Metrics", [])))


def test_the_alarms_look_at_six_metrics() -> None:
    made = TEMPLATE["Resources"].values()
    alarms = [each["Properties"] for each in made if each["Type"] == "AWS::CloudWatch::Alarm"]
    assert sum(map(metrics_watched, alarms)) == 6
    assert "metric that they look at, six in all" in PAGE


def test_the_picture_names_what_is_deployed() -> None:
    picture = PAGE.split("```")[1]
    for name in re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", picture):
        known = {*TEMPLATE["Resources"], *TEMPLATE["Parameters"], "CloudWatch"}
        assert name in known, name
