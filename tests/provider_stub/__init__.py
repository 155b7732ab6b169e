"""A model provider on loopback, for tests, examples and demos: ``with ProviderStub() as stub: ... stub.url``.

It speaks OpenAI's Chat Completions and Responses, Anthropic's Messages, Gemini's generateContent and Bedrock's
Converse, plain and streaming. Its answers follow from the request alone, its usage numbers from the documented rules of
prompt caching, and ``stub.requests`` says what went over the wire. By hand: ``python -m tests.provider_stub --port N``.
"""

from tests.provider_stub.server import ProviderStub, Request

__all__ = ["ProviderStub", "Request"]
