"""The cap, the jumps and the weight of open tickets, from counts and times alone."""

import pytest

from ldpbandits.server.experiments.traffic import HOUR_S, JUMP_LEAST, MINUTE_S, Sample, Samples, Traffic

CAP = 6000
REPORT_AFTER = 300.0
LIFETIME = 3600.0


def watched(cap: int | None = CAP) -> Traffic:
    """Return the traffic of an experiment that was created at second 0."""
    return Traffic(cap, REPORT_AFTER, LIFETIME)


def play(traffic: Traffic, minutes: int, a_minute: int, start: int = 0, before: int = 0) -> list[int]:
    """Let this many decisions and responses come each minute; return the minutes that are jumps."""
    jumps = []
    for minute in range(1, minutes + 1):
        total = before + minute * a_minute
        if traffic.sample((start + minute) * MINUTE_S, total, total, 0):
            jumps.append(start + minute)
    return jumps


def test_a_sample_of_the_past_is_the_last_one_before_it() -> None:
    """Before the first one, the first."""
    samples = Samples(100, 10, Sample(0, 0, 0))
    for time in range(10, 300, 10):
        assert samples.is_due(time)
        samples.add(Sample(time, time, 0))
    assert [samples.at(time).time for time in (255, 190, 195, 20)] == [250, 190, 190, 190]
    assert not samples.is_due(295)


def test_a_clock_that_is_set_back_begins_anew() -> None:
    """Nothing of the wrong future is compared with."""
    samples = Samples(100, 10, Sample(1000, 5, 5))
    assert samples.is_due(20)
    samples.add(Sample(20, 6, 6))
    assert samples.at(0) == samples.last == Sample(20, 6, 6)


def test_the_cap_holds_for_any_hour_to_the_minute() -> None:
    """At the cap no further response is admitted; after an hour they are again."""
    traffic = watched()
    assert traffic.admits(CAP - 1)
    assert not traffic.is_over_cap
    assert not traffic.admits(CAP)
    assert traffic.is_over_cap
    for minute in range(1, 60):
        traffic.sample(minute * MINUTE_S, CAP, CAP, 0)
        assert not traffic.admits(CAP)
    traffic.sample(HOUR_S, CAP, CAP, 0)
    assert not traffic.admits(CAP)  # the first sample, of second 0, is not an hour old for the responses of minute 1
    traffic.sample(HOUR_S + MINUTE_S, CAP, CAP, 0)
    assert traffic.admits(CAP)


def test_responses_that_are_being_written_count_towards_the_cap() -> None:
    """Thousands may be sent before the first of them is on disk."""
    traffic = watched()
    traffic.counting = CAP
    assert not traffic.admits(0)


def test_who_resumes_an_experiment_begins_a_new_hour() -> None:
    """Otherwise it would pause at once."""
    traffic = watched()
    assert not traffic.admits(CAP)
    traffic.resume(CAP, CAP)
    assert not traffic.is_over_cap
    assert traffic.admits(2 * CAP - 1)
    assert not traffic.admits(2 * CAP)


def test_without_a_cap_everything_is_admitted() -> None:
    """However many responses come."""
    assert watched(None).admits(10**9)


def test_a_minute_above_the_pace_of_the_cap_is_a_jump_from_the_start() -> None:
    """An attack on a new experiment has no hour before it to be compared with."""
    traffic = watched()
    assert traffic.sample(MINUTE_S, CAP // 60 + 1, 0, 0)
    assert not traffic.sample(2 * MINUTE_S, 2 * (CAP // 60), CAP // 60, 0)


@pytest.mark.parametrize("cap", [CAP * 100, None])
def test_a_minute_of_five_times_the_usual_is_a_jump_once_an_hour_was_seen(cap: int | None) -> None:
    """A launch is none: there is nothing before it. Nor is a rise of three times, as in the morning."""
    usual = 200
    traffic = watched(cap)
    assert not play(traffic, 60, usual)
    assert not play(traffic, 1, 3 * usual, 60, 60 * usual)
    jumps = play(traffic, 2, 6 * usual, 61, 63 * usual)
    assert jumps
    assert jumps[0] == 62


def test_few_are_never_a_jump() -> None:
    """A site with two visitors a minute has a minute with fifty now and then."""
    traffic = watched()
    assert not play(traffic, 120, 2)
    assert not play(traffic, 1, JUMP_LEAST - 1, 120, 240)


def expected(strangers: int, delay: int, seconds: int) -> float:
    """Return the weighed number of open tickets after a time with this many strangers beside each honest device.

    One honest device asks each second, and answers after `delay` seconds.
    """
    traffic, out = watched(), 0
    for second in range(1, seconds + 1):
        decisions, responses = second * (1 + strangers), max(0, second - delay)
        out = decisions - responses - max(0, second - int(LIFETIME)) * strangers
        if responses:
            traffic.answered(delay)
        if traffic.is_due(second):
            traffic.sample(second, decisions, responses, out)
    return traffic.weight * out


@pytest.mark.parametrize("strangers", [0, 1, 5, 20, 200])
@pytest.mark.parametrize("seconds", [1_000, 10_000])
def test_open_tickets_weigh_what_honest_devices_will_answer(strangers: int, seconds: int) -> None:
    """The weighed number is about that of honest devices that have not answered, before tickets expire and after."""
    assert expected(strangers, 300, seconds) == pytest.approx(300, rel=0.4)


@pytest.mark.parametrize("strangers", [1, 20, 200])
def test_where_answers_come_soon_strangers_are_written_off_soon(strangers: int) -> None:
    """After a minute, though devices have five for their answer."""
    assert expected(strangers, 1, 60) < 30


def test_open_tickets_weigh_in_full_before_any_answer_is_due() -> None:
    """Nothing is known of who answers: they count as they always did."""
    traffic = watched()
    traffic.sample(MINUTE_S, 1000, 0, 1000)
    assert traffic.weight == 1


def test_a_restart_waits_for_the_tickets_that_are_out() -> None:
    """They count as handed out just now."""
    traffic = watched()
    traffic.start(10_000, settled=5000, responses=5000)
    traffic.sample(10_000 + MINUTE_S, 6000, 5000, 1000)
    assert traffic.weight == 1


def test_where_answers_come_at_once_nothing_is_written_off_before_its_ticket_expires() -> None:
    """With report_after = 0 an answer may come at any time of the ticket's life."""
    traffic = Traffic(None, 0.0, LIFETIME)
    for minute in range(1, 50):
        traffic.sample(minute * MINUTE_S, minute * 10, 0, minute * 10)
    assert traffic.weight == 1
