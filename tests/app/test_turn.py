"""Without a browser a turn is just a call."""

from app.turn import turn


def test_without_a_document_it_is_done_at_once():
    done = []
    turn(lambda: done.append(1))
    assert done == [1]
