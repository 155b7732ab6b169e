"""A test bed for the prompt cache's causes: sessions whose every loss is known because it was built in.

It shares nothing with ``otel_ctx.cache``: ``provider`` simulates the providers' documented caches block by block over what
was sent, ``mutations`` spoils a session at a known place, ``score`` compares what the report says with what was done.
"""
