"""The same agent behind a web server that forks its workers: a WSGI app that knows nothing of OpenTelemetry."""

from functools import cache
from urllib.parse import parse_qs

from openai import OpenAI

SYSTEM = "You are the support agent of the shop Larkspur. Answer briefly, and never promise a refund."


@cache  # one in each worker
def client():
    return OpenAI()  # reads OPENAI_API_KEY and OPENAI_BASE_URL


def app(environ, start_response):
    question = parse_qs(environ["QUERY_STRING"])["q"][0]
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    answer = client().chat.completions.create(model="gpt-4.1-mini", messages=messages)
    start_response("200 OK", [("Content-Type", "text/plain; charset=utf-8")])
    return [answer.choices[0].message.content.encode()]
