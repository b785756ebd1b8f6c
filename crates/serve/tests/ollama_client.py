"""The ollama package against a server: python ollama_client.py http://127.0.0.1:PORT/v1 KEY MODEL."""

import sys

import ollama

base_url, key, model = sys.argv[1:]
client = ollama.Client(host=base_url.removesuffix("/v1"), headers={"Authorization": f"Bearer {key}"})

assert [m.model for m in client.list().models] == [model]
assert "completion" in client.show(model).capabilities

# Whole and streamed say the same.
options = {"temperature": 0, "num_predict": 12, "num_ctx": 512}
said = [{"role": "user", "content": "Hi"}]
whole = client.chat(model=model, messages=said, options=options)
assert whole.message.role == "assistant" and whole.done and whole.done_reason in ("stop", "length") and whole.eval_count <= 12
parts = list(client.chat(model=f"{model}:latest", messages=said, options=options, stream=True))
assert "".join(p.message.content for p in parts) == whole.message.content and parts[-1].done and parts[-1].eval_count == whole.eval_count
whole = client.generate(model=model, prompt="the quick", raw=True, options=options)
parts = list(client.generate(model=model, prompt="the quick", raw=True, options=options, stream=True))
assert "".join(p.response for p in parts) == whole.response and parts[-1].total_duration > 0

# Structured output, a tool's result, embeddings.
schema = {"type": "object", "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["days"], "additionalProperties": False}
found = client.chat(model=model, messages=said, format=schema, options={"num_predict": 120})
assert '"days"' in found.message.content
call = ollama.Message.ToolCall(function=ollama.Message.ToolCall.Function(name="weather", arguments={"days": 1}))
history = said + [ollama.Message(role="assistant", tool_calls=[call]), {"role": "tool", "tool_name": "weather", "content": "sun"}]
tool = {"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": schema}}
client.chat(model=model, messages=history, tools=[tool], options=options)
assert len(client.embed(model=model, input=["the quick", "brown fox"]).embeddings) == 2

# Errors arrive as the package's own.
for status, change in [(404, {"model": "another"}), (400, {"options": {"mirostat": 2}})]:
    try:
        client.chat(**{**dict(model=model, messages=said), **change})
    except ollama.ResponseError as error:
        assert error.status_code == status and error.error, error
    else:
        raise AssertionError(f"{change} was not refused")

print("all right")
