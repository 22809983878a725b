"""Settings of property tests: equal examples in every run, and no failure for lack of speed.

`pytest --hypothesis-profile=random` draws other examples.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("mucc", settings.get_profile("random"), derandomize=True)
settings.load_profile("mucc")
