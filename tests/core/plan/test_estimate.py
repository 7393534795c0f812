"""What recorded starts come to; the estimate built on them is seen in ``test_plan``."""

from orchestrator.core.config import Config
from orchestrator.core.plan.estimate import LaunchTimes, launch_times

ONE, OTHER = Config(flags={"pp-size": 8}), Config(flags={"pp-size": 4})


def test_medians_by_config_and_over_all() -> None:
    times = launch_times([(ONE.id, 300.0), (OTHER.id, 500.0), (ONE.id, 340.0), (ONE.id, 900.0)])
    assert times == LaunchTimes(by_config={ONE.id: 340.0, OTHER.id: 500.0}, usual_s=420.0)
    assert [times.of(config) for config in (ONE, OTHER, Config(flags={}))] == [340.0, 500.0, 420.0]


def test_no_start_is_no_time() -> None:
    assert launch_times([]) == LaunchTimes(by_config={}, usual_s=None)
