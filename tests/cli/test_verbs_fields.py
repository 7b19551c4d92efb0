"""What is typed after a job's name becomes the payload that the job's schema asks for."""

from __future__ import annotations

import io
import json
from enum import StrEnum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from jobroom.cli import exits, fields, fieldtable, values
from jobroom.errors import FieldError, PayloadInvalid, ValidationFailed


class Axis(StrEnum):
    X = "x"
    Y = "y"


class Cell(BaseModel):
    a: float = Field(description="Length of the edge.")
    b: float = 1.0


class Everything(BaseModel):
    angle: float = Field(description="Degrees.")
    steps: int = 1
    name: str = ""
    flag: bool = False
    axis: Axis = Axis.X
    order: Literal[1, 2] = 1
    nick: str | None = None
    most: int | None = None
    either: float | str = 0
    tags: list[str] = []
    scores: list[float] = []
    cell: Cell | None = None
    home: Cell = Cell(a=1)
    counts: dict[str, int] = {}
    free: Any = None


SCHEMA = Everything.model_json_schema()

GOOD = [
    (["angle=90"], {"angle": 90}),
    (["angle=-1.5e2"], {"angle": -150.0}),
    (["angle=.5"], {"angle": 0.5}),
    (["angle=12345678901234567890"], {"angle": 12345678901234567890}),
    (["steps=3"], {"steps": 3}),
    (["steps=1e3"], {"steps": 1000}),
    (["name=90"], {"name": "90"}),
    (["name="], {"name": ""}),
    (["name=a=b"], {"name": "a=b"}),
    (["flag=true"], {"flag": True}),
    (["flag=no"], {"flag": False}),
    (["flag:=true"], {"flag": True}),
    (["axis=y"], {"axis": "y"}),
    (["order=2"], {"order": 2}),
    (["nick=null"], {"nick": "null"}),
    (["nick:=null"], {"nick": None}),
    (["most=null"], {"most": None}),
    (["most=7"], {"most": 7}),
    (["either=7"], {"either": 7}),
    (["either=seven"], {"either": "seven"}),
    (['tags=["a", "b"]'], {"tags": ["a", "b"]}),
    (["tags=a"], {"tags": ["a"]}),
    (["tags=a", "tags=b"], {"tags": ["a", "b"]}),
    (["scores=1", "scores=2.5"], {"scores": [1, 2.5]}),
    (["cell.a=2", "cell.b=3"], {"cell": {"a": 2, "b": 3}}),
    (['home={"a": 2}'], {"home": {"a": 2}}),
    (["counts.x=3"], {"counts": {"x": 3}}),
    (["free=[1]"], {"free": [1]}),
    (["free=NaN"], {"free": "NaN"}),
    (["free=word"], {"free": "word"}),
    (['{"angle": 1, "steps": 2}', "steps=3"], {"angle": 1, "steps": 3}),
    ([], {}),
]
BAD = [
    ("angle=x", "angle: is not a number"),
    ("angle=nan", "angle: is not a number"),
    ("angle=1e999", "angle: is not a number"),
    ("steps=1.5", "steps: is not an integer"),
    ("flag=maybe", "flag: is not a boolean (true or false)"),
    ("axis=z", 'axis: is none of "x", "y"'),
    ("order=3", "order: is none of 1, 2"),
    ("most=x", "most: is not an integer or null"),
    ("scores=x", "scores: is not a number"),
    ("tags=[1", "tags: is not a list (write it as JSON: [1, 2])"),
    ("home=x", "home: is not an object (write it as JSON, or its fields as a.b=1)"),
    ("cell.a=x", "cell.a: is not a number"),
    ("counts.x=y", "counts.x: is not an integer"),
    ("name:=word", "name: is not JSON (after := comes JSON: a text is in quotes)"),
]


@pytest.mark.parametrize(("typed", "payload"), GOOD, ids=lambda value: str(value)[:30])
def test_what_is_typed_gets_the_type_of_the_schema(typed, payload):
    built = fields.payload_of(typed, SCHEMA)
    assert json.dumps(built) == json.dumps(payload)


@pytest.mark.parametrize(("typed", "line"), BAD, ids=lambda value: str(value)[:30])
def test_what_the_schema_does_not_take_is_told_field_by_field(typed, line):
    with pytest.raises(PayloadInvalid) as caught:
        fields.payload_of([typed], SCHEMA)
    assert [exits.line_of(fault) for fault in caught.value.errors] == [line]


def test_all_faults_are_told_at_once():
    with pytest.raises(PayloadInvalid, match="2 fields are not") as caught:
        fields.payload_of(["angle=x", "steps=y"], SCHEMA)
    assert len(caught.value.errors) == 2


def test_a_field_may_be_a_files_text(tmp_path):
    (tmp_path / "notes.txt").write_text("two\nlines\n")
    (tmp_path / "scores.json").write_text("[1, 2]\n")
    typed = [f"name=@{tmp_path}/notes.txt", f"scores=@{tmp_path}/scores.json"]
    assert fields.payload_of(typed, SCHEMA) == {"name": "two\nlines\n", "scores": [1, 2]}


def test_a_whole_payload_comes_from_a_file(tmp_path):
    (tmp_path / "payload.json").write_text('{"angle": 12345678901234567890}')
    built = fields.payload_of([f"@{tmp_path}/payload.json", "steps=2"], SCHEMA)
    assert built == {"angle": 12345678901234567890, "steps": 2}


class Piped(io.TextIOWrapper):
    def isatty(self):
        return False


def test_a_whole_payload_comes_from_stdin(monkeypatch):
    monkeypatch.setattr("sys.stdin", Piped(io.BytesIO(b'{"angle": 1}')))
    assert fields.payload_of(["-"], SCHEMA) == {"angle": 1}


def test_stdin_is_not_read_from_a_terminal(monkeypatch):
    piped = Piped(io.BytesIO())
    monkeypatch.setattr(piped, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", piped)
    with pytest.raises(ValidationFailed, match="pipe it in"):
        fields.payload_of(["-"], SCHEMA)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("angle", "write name=value"),
        ("=1", "write name=value"),
        ("@missing.json", "cannot be read: No such file"),
        ("name=@missing.txt", "cannot be read: No such file"),
        ('{"angle": 1, "angle": 2}', "appears twice"),
        ('{"angle": NaN}', "the payload: "),
        ("{", "the payload: "),
    ],
)
def test_what_cannot_be_read_says_why(typed, words):
    with pytest.raises(ValidationFailed, match=words):
        fields.payload_of([typed], SCHEMA)


def test_a_file_that_is_no_text_is_told(tmp_path):
    (tmp_path / "scan.bin").write_bytes(b"\xff\xfe")
    with pytest.raises(ValidationFailed, match="no UTF-8 text"):
        fields.payload_of([f"name=@{tmp_path}/scan.bin"], SCHEMA)


def test_a_field_inside_one_that_is_no_object_is_told():
    with pytest.raises(PayloadInvalid, match="one field is not"):
        fields.payload_of(["free=1", "free.x=2"], SCHEMA)


def faults_of(payload, schema=SCHEMA):
    try:
        fields.check(payload, schema)
    except PayloadInvalid as fault:
        return [exits.line_of(one) for one in fault.errors]
    return []


def test_a_required_field_that_is_missing_is_told_with_its_description():
    assert faults_of({}) == ["angle: is missing (Degrees.)"]
    assert faults_of({"angle": 1, "cell": {}}) == ["cell.a: is missing (Length of the edge.)"]


def test_a_mistyped_field_is_told_with_the_one_that_was_meant():
    assert faults_of({"angle": 1, "stesp": 2}) == [
        "stesp: is no field of this job; did you mean steps?"
    ]


def test_an_unlike_field_is_told_with_the_fields_that_there_are():
    (line,) = faults_of({"angle": 1, "zzz": 2})
    assert line.startswith("zzz: is no field of this job; the fields are angle, steps, name")


def test_a_schema_that_takes_more_fields_is_not_checked_for_them():
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        angle: float = 0

    assert faults_of({"other": 1}, Open.model_json_schema()) == []
    assert faults_of({"other": 1}, {}) == []
    assert faults_of({"x-1": 1}, {"properties": {}, "patternProperties": {"^x": {}}}) == []


@pytest.mark.parametrize(
    "more",
    [
        {"allOf": [{"properties": {"b": {}}}]},
        {"anyOf": [{"properties": {"b": {}}}]},
        {"if": {}, "then": {"properties": {"b": {}}}},
    ],
    ids=lambda more: next(iter(more)),
)
def test_a_field_that_another_part_of_the_schema_may_name_is_taken(more):
    assert faults_of({"b": 1}, {"properties": {"a": {}}, **more}) == []


def test_a_field_may_have_dots_in_its_name():
    schema = {"properties": {"a.b": {"type": "integer"}}}
    assert fields.payload_of(["a.b=1"], schema) == {"a.b": 1}


def test_references_that_go_in_circles_end():
    schema = {"properties": {"a": {"$ref": "#/properties/b"}, "b": {"$ref": "#/properties/a"}}}
    assert fields.payload_of(["a=1"], schema) == {"a": 1}
    tree = {"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"t": {"$ref": "#/$defs/t"}}}}}
    assert len(list(fieldtable.rows(tree))) == fieldtable.MOST_DEPTH + 1


@pytest.mark.parametrize(
    "schema", [True, None, {"type": 5}, {"anyOf": [True]}, {"$ref": "http://x"}]
)
def test_a_schema_that_says_nothing_takes_anything(schema):
    assert values.convert("word", schema, schema) == "word"
    assert values.convert("1", schema, schema) == 1


def test_an_integer_of_many_thousand_digits_is_not_converted():
    with pytest.raises(values.NotConvertible):
        values.convert("9" * 5000, {"type": "integer"}, {})


def test_a_schema_is_a_table_of_its_fields():
    rows = {row[0]: row[1:] for row in fieldtable.rows(SCHEMA)}
    assert rows["angle"] == ("number", "required", "Degrees.")
    assert rows["axis"] == ('"x" or "y"', '"x"', "")
    assert rows["most"] == ("integer or null", "null", "")
    assert rows["scores"] == ("list of number", "[]", "")
    assert rows["cell.a"] == ("number", "required", "Length of the edge.")
    assert rows["free"] == ("anything", "null", "")


def test_limits_of_a_number_are_in_its_type():
    schema = {"type": "integer", "minimum": 1, "exclusiveMaximum": 9}
    assert fieldtable.type_of(schema, schema) == "integer >= 1 < 9"


def test_a_place_is_told_as_it_is_typed():
    assert exits.line_of(FieldError("/payload/tags/0", "is no text")) == "tags[0]: is no text"
    assert exits.line_of(FieldError("", "is too deep")) == "is too deep"


@pytest.mark.parametrize(
    "typed",
    [
        ["angle=1", "angle=2"],
        ["angle=1", "angle:=2"],
        ["cell.a=1", 'cell={"a": 2}'],
        ["angle=1", '{"angle": 2}'],
    ],
)
def test_a_field_given_twice_is_refused(typed):
    with pytest.raises(PayloadInvalid) as refused:
        fields.payload_of(typed, SCHEMA)
    assert [fault.message for fault in refused.value.errors] == ["is given twice"]
