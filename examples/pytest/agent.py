"""The agent under test: it asks a model, with all that was said before."""

from openai import OpenAI

INSTRUCTIONS = (
    "You are the support agent of a shop. Answer in one sentence, and never promise a refund. " * 20
)


class Agent:
    def __init__(self, instructions: str = INSTRUCTIONS) -> None:
        self.client = OpenAI()  # reads OPENAI_API_KEY and OPENAI_BASE_URL
        self.instructions = instructions
        self.history: list[dict] = []

    def ask(self, question: str) -> str:
        self.history.append({"role": "user", "content": question})
        system = {"role": "system", "content": self.instructions}
        answer = self.client.chat.completions.create(model="gpt-4.1-mini", messages=[system, *self.history])
        self.history.append({"role": "assistant", "content": answer.choices[0].message.content})
        return self.history[-1]["content"]
