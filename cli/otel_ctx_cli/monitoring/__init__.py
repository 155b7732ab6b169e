"""Dashboards and alerts for the metrics of `otel_ctx.outputs.metrics`, as plain data.

`collector_config/` holds what `otelctx dashboards export` writes by default; a test compares. To change a panel or an
alert, change it here and run the tests with `--update`.
"""
