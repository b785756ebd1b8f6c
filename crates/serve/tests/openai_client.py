"""The openai package against a server: python openai_client.py http://127.0.0.1:PORT/v1 KEY MODEL."""

import json
import struct
import sys
import typing

import openai
import pydantic

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
assert usage.total_tokens == whole.usage.total_tokens and whole.usage.prompt_tokens_details.cached_tokens >= 0

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

# Embeddings, which the package asks for as bytes unless told otherwise.
texts = ["the quick", "brown fox"]
found = client.embeddings.create(model=model, input=texts)
floats = client.embeddings.create(model=model, input=texts, encoding_format="float")
bits = lambda list: [struct.pack(f"{len(e.embedding)}f", *e.embedding) for e in list.data]
assert bits(found) == bits(floats) and len(bits(found)) == 2 and found.usage.total_tokens >= 2
assert len(client.embeddings.create(model=model, input=[5, 6, 7], dimensions=3).data[0].embedding) == 3

# Errors arrive as the package's own.
def refused(kind, param, **change):
    try:
        client.chat.completions.create(**{"model": model, "messages": [{"role": "user", "content": "Hi"}], **change})
    except kind as error:
        assert error.param == param, error
    else:
        raise AssertionError(f"{change} was not refused")


refused(openai.BadRequestError, "tools[0]", tools=[{"type": "web_search"}])
refused(openai.BadRequestError, "temperature", temperature=-1)
refused(openai.BadRequestError, "best_of", extra_body={"best_of": 2})
refused(openai.NotFoundError, "model", **{"model": "another"})
try:
    openai.OpenAI(base_url=base_url, api_key="wrong", max_retries=0).models.list()
except openai.AuthenticationError:
    pass
else:
    raise AssertionError("a wrong key was not refused")

# Tools: called whole and streamed, and a history with the call goes on.
parameters = {"type": "object", "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["days"], "additionalProperties": False}
tools = [{"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": parameters, "strict": True}}]
said = [{"role": "user", "content": "Hi"}]
ask = dict(model=model, messages=said, tools=tools, tool_choice="required", parallel_tool_calls=False, max_tokens=120, seed=5)
message = client.chat.completions.create(**ask).choices[0].message
call = message.tool_calls[0]
assert call.function.name == "weather" and 1 <= json.loads(call.function.arguments)["days"] <= 9
with client.chat.completions.stream(**ask) as stream:
    streamed = stream.get_final_completion().choices[0]
assert streamed.finish_reason == "tool_calls" and streamed.message.tool_calls[0].function.parsed_arguments == json.loads(call.function.arguments)
history = said + [message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "sun"}]
client.chat.completions.create(**{**ask, "messages": history, "tool_choice": "none", "max_tokens": 4})

# Structured output, by the package's own helper.
class Weather(pydantic.BaseModel):
    days: int
    kind: typing.Literal["sun", "rain"]


parsed = client.chat.completions.parse(model=model, messages=said, response_format=Weather, max_tokens=120, seed=5)
assert isinstance(parsed.choices[0].message.parsed, Weather)

# Responses: whole, streamed, continued.
ask = dict(model=model, input="Hi", max_output_tokens=12, temperature=0)
whole = client.responses.create(**ask)
with client.responses.stream(**ask) as stream:
    last = list(stream)[-1]
assert last.type in ("response.completed", "response.incomplete") and last.response.output_text == whole.output_text
client.responses.create(**{**ask, "input": "More", "previous_response_id": whole.id})
assert client.responses.retrieve(whole.id).output_text == whole.output_text
client.responses.delete(whole.id)
tool = {"type": "function", "name": "weather", "parameters": parameters, "strict": True}
called = client.responses.create(**{**ask, "tools": [tool], "tool_choice": "required", "max_output_tokens": 120})
assert json.loads(called.output[0].arguments)["days"]

# A client that leaves a stream.
with client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hi"}], stream=True) as stream:
    next(iter(stream))
print("all right")
