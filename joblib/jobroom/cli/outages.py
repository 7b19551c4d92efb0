"""What the client's log says of an outage, told to people as sentences."""

from __future__ import annotations

import logging

from jobroom.cli import exits

SENTENCES = {
    "server.away": "the server does not answer ({reason}); trying again ...",
    "server.back": "the server answers again.",
    "token.refused": "the token is refused ({reason}); trying again ...",
    "token.accepted": "the token is accepted again.",
}


class People(logging.Handler):
    """Says on stderr what people can use of the client's log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say it, with the reason if the event has one."""
        event = str(record.msg).partition(" ")[0]
        sentence = SENTENCES.get(_back(event, record))
        if sentence is None:
            return
        args = record.args if isinstance(record.args, tuple) else ()
        exits.say(sentence.format(reason=_reason(args[-1] if args else "")))


def tell_people() -> None:
    """From now on tell people about outages; once is enough."""
    log = logging.getLogger("jobroom.client")
    if not any(isinstance(handler, People) for handler in log.handlers):
        log.addHandler(People())
        log.propagate = False


def _back(event: str, record: logging.LogRecord) -> str:
    # The name of the event is an argument there.
    return str(record.args[0]) if event == "%s" and isinstance(record.args, tuple) else event


def _reason(text: object) -> str:
    said = str(text)
    return said.removeprefix("The server did not answer: ").rstrip(".")
