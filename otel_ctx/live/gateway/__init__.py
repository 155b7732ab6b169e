"""OTLP in, the same OTLP out, with what the analysis says added to the spans of model calls."""
