"""The five dashboards."""

from otel_ctx_cli.monitoring.boards.cache import CACHE
from otel_ctx_cli.monitoring.boards.conversations import CONVERSATIONS
from otel_ctx_cli.monitoring.boards.health import HEALTH
from otel_ctx_cli.monitoring.boards.overview import OVERVIEW
from otel_ctx_cli.monitoring.boards.waste import WASTE

BOARDS = (OVERVIEW, CACHE, WASTE, CONVERSATIONS, HEALTH)
