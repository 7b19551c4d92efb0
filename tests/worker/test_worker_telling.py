"""What tasks say: kept, bounded, sent once."""

from __future__ import annotations

import pytest

from jobroom.client import logbook
from jobroom.client.holds import Alarm
from jobroom.client.logbook import Logbook
from jobroom.worker import idle
from jobroom.worker.telling import TaskTell


class Task:
    """A task that takes, or does not take, what it is to send."""

    id = "t"
    has_log = False

    def __init__(self):
        self.alarm = Alarm()
        self.sent = []
        self.taken = True

    def send(self, news, *, patience):
        self.sent.append(news)
        return self.taken


def test_the_newest_progress_is_sent_once():
    tell = TaskTell(task := Task())
    tell.progress(0.1, "one")
    tell.progress(0.2)
    tell.flush()
    tell.flush()
    assert task.sent == [{"progress": 0.2, "message": "one"}]


def test_what_was_not_taken_goes_with_the_next():
    tell = TaskTell(task := Task())
    task.taken = False
    tell.progress(0.1, "one")
    tell.flush()
    tell.progress(0.2)
    assert tell.last_words() == {"progress": 0.2, "message": "one"}


@pytest.mark.parametrize(
    ("fraction", "sent"), [(-1, {"progress": 0.0}), (7, {"progress": 1.0}), (float("nan"), {})]
)
def test_a_fraction_that_is_none_does_no_harm(fraction, sent):
    tell = TaskTell(Task())
    tell.progress(fraction)
    assert tell.last_words() == sent


def test_a_log_goes_on_where_the_server_is():
    book = Logbook()
    book.write("ä1")
    first = book.changes()
    assert first == {"log": "ä1", "log_offset": 0}
    book.write("2")
    book.sent(first, {"log_bytes": 3})
    assert book.changes() == {"log": "2", "log_offset": 3}


def test_a_lost_answer_sends_the_same_again_from_the_same_place():
    book = Logbook()
    book.write("1")
    book.changes()
    book.write("2")
    assert book.changes() == {"log": "12", "log_offset": 0}


def test_the_oldest_is_kept_and_a_line_says_what_was_dropped(monkeypatch):
    monkeypatch.setattr(logbook, "MOST_WAITING_BYTES", 5)
    book = Logbook()
    book.write("abcä")
    book.write("é")
    book.write("z")
    changes = book.changes()
    assert changes["log"] == "abcä"
    book.sent(changes, {"log_bytes": 5})
    assert "(3 bytes of the log were dropped here" in book.changes()["log"]


def test_a_full_server_is_sent_no_more():
    book = Logbook()
    book.write("abc")
    book.sent(book.changes(), {"log_bytes": 2})
    book.write("more")
    assert book.changes() == {}


def test_what_is_no_utf_8_is_shown_as_what_it_is():
    book = Logbook()
    book.write("\ud800")
    assert book.changes()["log"] == "\\ud800"


def test_the_line_of_an_idle_and_of_a_busy_worker():
    known = {"jobs": [f"r1:modifiers:J{n}" for n in range(5)], "slots": 4, "idle_seconds": 7200}
    away = idle.heard(90, is_away=True)
    assert idle.sentence(**known, running=[], server=away) == (
        "idle for 2 h: no task for r1:modifiers:J0, r1:modifiers:J1, r1:modifiers:J2 and 2 more;"
        " 4 of 4 slots free; the server is away, it answered 1 min ago"
    )
    busy = idle.sentence(
        **known, running=[("r1:modifiers:J1", 3)], server=idle.heard(1, is_away=False)
    )
    assert busy == "busy: r1:modifiers:J1 for 3 s; 3 of 4 slots free; server answered 1 s ago"
