"""Where nothing may stand in front of ``python``: the first lines of the app do what opentelemetry-instrument does."""

from opentelemetry.instrumentation.auto_instrumentation import initialize

initialize()  # before anything else is imported

import agent  # noqa: E402, F401
