"""The openai package against a server: python openai_client.py http://127.0.0.1:PORT/v1 KEY MODEL."""

import sys

import openai

base_url, key, model = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=60)

assert [m.id for m in client.models.list()] == [model]
assert client.models.retrieve(model).id == model

# Chat: whole and streamed say the same.
ask = dict(model=model, messages=[{"role": "user", "content": "Hi"}], max_tokens=12, seed=5, logprobs=True, top_logprobs=2, n=2)
whole = client.chat.completions.create(**ask)
assert [c.index for c in whole.choices] == [0, 1] and whole.usage.completion_tokens <= 24
assert whole.choices[0].message.role == "assistant" and whole.choices[0].finish_reason in ("stop", "length")
texts, tokens, usage = ["", ""], [[], []], None
for chunk in client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}):
    usage = chunk.usage or usage
    for choice in chunk.choices:
        texts[choice.index] += choice.delta.content or ""
        tokens[choice.index] += choice.logprobs.content
assert texts == [c.message.content for c in whole.choices], (texts, whole)
assert tokens == [c.logprobs.content for c in whole.choices]
assert usage == whole.usage

# The helper that folds a stream.
with client.chat.completions.stream(model=model, messages=ask["messages"], max_tokens=12, seed=5) as stream:
    deltas = [event.delta for event in stream if event.type == "content.delta"]
assert "".join(deltas) == whole.choices[0].message.content

# Completions, with what vLLM adds.
ask = dict(model=model, prompt="the quick", max_tokens=8, seed=5, logprobs=3, echo=True, stop=["zz"], extra_body={"ignore_eos": True})
whole = client.completions.create(**ask)
assert whole.choices[0].text.startswith("the quick")
assert len(whole.choices[0].logprobs.tokens) == whole.usage.total_tokens
streamed = list(client.completions.create(**ask, stream=True))
assert "".join(c.choices[0].text for c in streamed) == whole.choices[0].text
assert whole.choices[0].seed == 5

# Errors arrive as the package's own.
def refused(kind, param, **change):
    try:
        client.chat.completions.create(**{"model": model, "messages": [{"role": "user", "content": "Hi"}], **change})
    except kind as error:
        assert error.param == param, error
    else:
        raise AssertionError(f"{change} was not refused")


refused(openai.BadRequestError, "tools", tools=[{"type": "function", "function": {"name": "f"}}])
refused(openai.BadRequestError, "temperature", temperature=-1)
refused(openai.BadRequestError, "best_of", extra_body={"best_of": 2})
refused(openai.NotFoundError, "model", **{"model": "another"})
try:
    openai.OpenAI(base_url=base_url, api_key="wrong", max_retries=0).models.list()
except openai.AuthenticationError:
    pass
else:
    raise AssertionError("a wrong key was not refused")

# A client that leaves a stream.
with client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hi"}], stream=True) as stream:
    next(iter(stream))
print("all right")
