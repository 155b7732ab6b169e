"""What calls cost at list price, what their lost tokens cost, and what a conversation would save with its findings fixed."""

from otel_ctx.cost.calls import cost_of
from otel_ctx.cost.prices import lifetimes, prices_of
from otel_ctx.cost.savings import savings_of

__all__ = ["cost_of", "lifetimes", "prices_of", "savings_of"]
