"""The anthropic package against a server: python anthropic_client.py http://127.0.0.1:PORT/v1 KEY MODEL."""

import sys

import anthropic

base_url, key, model = sys.argv[1:]
base_url = base_url.removesuffix("/v1")
client = anthropic.Anthropic(base_url=base_url, api_key=key, max_retries=0, timeout=60)

# Whole and streamed say the same.
ask = dict(model=model, max_tokens=12, system="Be kind.", messages=[{"role": "user", "content": "Hi"}], extra_body={"temperature": 0})
whole = client.messages.create(**ask)
assert whole.role == "assistant" and whole.content[0].type == "text" and whole.stop_reason in ("end_turn", "max_tokens")
with client.messages.stream(**ask) as stream:
    text = "".join(stream.text_stream)
    assert text == whole.content[0].text and stream.get_final_message().stop_reason == whole.stop_reason
counted = client.messages.count_tokens(model=model, system=ask["system"], messages=ask["messages"])
assert counted.input_tokens == whole.usage.input_tokens + whole.usage.cache_read_input_tokens

# Tools: used whole and streamed, and their results are taken.
schema = {"type": "object", "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["days"], "additionalProperties": False}
tools = [{"name": "weather", "description": "of a city", "input_schema": schema}]
ask |= dict(tools=tools, tool_choice={"type": "any", "disable_parallel_tool_use": True}, max_tokens=120)
used = client.messages.create(**ask)
call = used.content[-1]
assert used.stop_reason == "tool_use" and call.name == "weather" and 1 <= call.input["days"] <= 9
with client.messages.stream(**ask) as stream:
    assert stream.get_final_message().content[-1].input == call.input
ask["messages"] += [
    {"role": "assistant", "content": used.content},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sun"}]},
]
client.messages.create(**{**ask, "tool_choice": {"type": "auto"}, "max_tokens": 4})

# Errors arrive as the package's own.
for kind, change in [
    (anthropic.BadRequestError, {"max_tokens": -1}),
    (anthropic.NotFoundError, {"model": "another"}),
]:
    try:
        client.messages.create(**{**ask, **change})
    except kind:
        pass
    else:
        raise AssertionError(f"{change} was not refused")
try:
    anthropic.Anthropic(base_url=base_url, api_key="wrong", max_retries=0).messages.create(**ask)
except anthropic.AuthenticationError:
    pass
else:
    raise AssertionError("a wrong key was not refused")
print("all right")
