from src.time.duration import parse_duration


def test_seconds():
    assert parse_duration("5s") == 5
