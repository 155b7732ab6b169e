"""An app that knows nothing of OpenTelemetry: a support agent on the OpenAI client."""

from openai import OpenAI

SYSTEM = "You are the support agent of the shop Larkspur. Answer briefly, and never promise a refund."
QUESTIONS = (
    "Until when can I return the blue jacket?",
    "And a tent that I have used?",
    "Who pays for the parcel?",
)

client = OpenAI()  # reads OPENAI_API_KEY and OPENAI_BASE_URL
messages = [{"role": "system", "content": SYSTEM}]
for question in QUESTIONS:
    messages.append({"role": "user", "content": question})
    answer = client.chat.completions.create(model="gpt-4.1-mini", messages=messages)
    messages.append({"role": "assistant", "content": answer.choices[0].message.content})
    print(answer.usage.prompt_tokens, "tokens sent")
