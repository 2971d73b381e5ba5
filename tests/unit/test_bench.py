"""Interleaving, statistics and the machine's description, with fake runners and a fake clock."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from aotc import bench
from aotc.bench import Failure, Machine, Timing

FEEDS = {"x": np.zeros(2, np.float32)}


class World:
    """A clock that only moves when a runner runs, and a record of what happened."""

    def __init__(self):
        self.now = 0.0
        self.events = []

    def runner(self, name, seconds):
        pending = list(seconds)

        def run(feeds):
            assert feeds is FEEDS
            self.events.append(name)
            step = pending.pop(0)
            if isinstance(step, Exception):
                raise step
            self.now += step

        return run

    def measure(self, runners, repeat):
        return bench.measure(
            runners,
            FEEDS,
            repeat=repeat,
            settle=lambda: self.events.append("settle"),
            clock=lambda: self.now,
        )


def test_runners_take_turns_and_each_turn_waits_and_warms_up():
    world = World()
    world.measure({"a": world.runner("a", [1] * 4), "b": world.runner("b", [1] * 4)}, repeat=2)
    assert world.events == ["settle", "a", "a", "settle", "b", "b"] * 2


def test_only_the_second_run_of_a_turn_is_timed():
    world = World()
    outcomes = world.measure(
        {"a": world.runner("a", [100, 1, 100, 3]), "b": world.runner("b", [50, 5, 50, 5])}, 2
    )
    assert outcomes["a"] == Timing(count=2, p50=2.0, p95=pytest.approx(2.9), best=1.0)
    assert outcomes["b"] == Timing(count=2, p50=5.0, p95=5.0, best=5.0)


@pytest.mark.parametrize("first", [0, 1], ids=["untimed run", "timed run"])
def test_a_runner_that_raises_has_a_reason_and_no_more_turns(first):
    world = World()
    bad = [1.0] * first + [ValueError("no kernel\nfor this")]
    outcomes = world.measure({"a": world.runner("a", [1] * 4), "bad": world.runner("bad", bad)}, repeat=2)
    assert outcomes["bad"] == Failure("ValueError: no kernel")
    assert isinstance(outcomes["a"], Timing)
    assert world.events.count("bad") == first + 1


def test_an_interrupt_is_not_a_result():
    def interrupted(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.measure({"a": interrupted}, FEEDS, repeat=1)
    assert gc.isenabled()


def test_the_collector_rests_while_runners_run():
    seen = []
    bench.measure({"a": lambda _: seen.append(gc.isenabled())}, FEEDS, repeat=1, settle=lambda: None)
    assert seen == [False, False]
    assert gc.isenabled()


def test_statistics_interpolate():
    timing = bench.summarise([4.0, 1.0, 2.0, 3.0])
    assert timing == Timing(count=4, p50=2.5, p95=pytest.approx(3.85), best=1.0)
    assert bench.summarise([7.0]) == Timing(1, 7.0, 7.0, 7.0)


def test_ratios_are_over_the_base_and_leave_failures_out():
    outcomes = {"a": Timing(1, 2.0, 2.0, 2.0), "b": Timing(1, 3.0, 9.0, 1.0), "c": Failure("why")}
    assert bench.ratios(outcomes, "a") == {"a": 1.0, "b": 1.5}
    assert bench.ratios(outcomes, "c") == {}
    assert bench.ratios({"a": Timing(1, 0.0, 0.0, 0.0)}, "a") == {}


def test_a_long_reason_is_cut():
    assert len(bench.one_line(ValueError("x" * 1000))) == 200
    assert bench.one_line(ValueError()) == "ValueError: "
    assert bench.one_line(TypeError("<f at 0x7f00aa> is bad")) == "TypeError: <f> is bad"


def test_waiting_ends():
    bench.until_asleep()


def test_the_machine_says_what_kernels_are_chosen_by():
    here = bench.machine()
    assert here.cpu
    assert here.cores >= 1
    assert str(Machine("CPU X", 4, ("avx", "avx2", "fma"))) == "CPU X, 4 cores, avx2"
    assert str(Machine("CPU Y", 1, ("riscv",))) == "CPU Y, 1 cores, no vector flags known"


def test_a_machine_without_cpuinfo_still_has_a_name(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "_CPUINFO", tmp_path / "missing")
    assert bench.machine().cpu


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (0.1, 2.0, False),
        (1.5, 1.5, True),
        (0.1, 3.5, True),
        (None, None, False),
        (None, 3.5, True),
    ],
)
def test_load_before_or_more_than_our_own_after_is_busy(before, after, expected):
    assert bench.busy(before, after, cores=2) is expected
