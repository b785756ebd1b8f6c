"""Chat templates as transformers renders them: python templates.py FOLDER.

Renders twenty conversations with every *.jinja of a folder. Prints a line of JSON for the conversations, and one for each
template: its name, and by conversation the text, or the error of a template that refuses it.
"""

import json
import os
import sys
import time
from pathlib import Path

os.environ.update(TZ="UTC", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", USE_TORCH="0")
time.tzset()

from transformers.utils.chat_template_utils import render_jinja_template  # noqa: E402


def said(role, content, **more):
    return {"role": role, "content": content, **more}


def tool(name, description, properties, **more):
    parameters = {"type": "object", "properties": properties, **more}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def call(name, arguments, number=1):
    return {"id": f"call00{number:03}", "type": "function", "function": {"name": name, "arguments": arguments}}


HI, HELLO = said("user", "Hi"), said("assistant", "Hello! How can I help?")
BRIEF = said("system", "Be brief.")
WEATHER = tool(
    "weather", "The weather of a place: \"now\", <b>not</b> then & there.",
    {"place": {"type": "string", "description": "A town, such as Zürich"}, "unit": {"type": "string", "enum": ["°C", "°F"]}},
    required=["place"],
)
NESTED = tool(
    "plan", "Plans.\nIn two lines.",
    {
        "days": {"type": "array", "items": {"type": "object", "properties": {"at": {"type": "integer", "minimum": 0}}}},
        "limit": {"type": ["number", "null"], "default": None, "maximum": 1.5},
        "strict": {"type": "boolean", "default": True},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    },
    required=[], additionalProperties=False,
)
NONE = tool("now", "The time.", {})
ASKED = said("user", "What is the weather in Zürich?")
CALLED = said("assistant", "", tool_calls=[call("weather", {"place": "Zürich", "unit": "°C"})])
TOLD = said("tool", '{"degrees": 21.5, "sky": "<clear> & \\"blue\\""}', tool_call_id="call00001", name="weather")
BOTH = said("assistant", "", tool_calls=[call("weather", {"place": "Bern"}), call("plan", {"days": [{"at": 1}], "limit": None, "strict": True}, 2)])
TOLD_BOTH = [
    said("tool", "rain", tool_call_id="call00001", name="weather"), said("tool", "[1, 2]", tool_call_id="call00002", name="plan"),
]
THOUGHT = said("assistant", "Four.", reasoning_content="Two and two.\nThat is four.")
DOCUMENTS = [{"title": "A", "text": "One."}, {"title": "B", "text": "Two: \"x\"."}]

# Messages, tools, variables, and whether the model's turn comes.
CONVERSATIONS = {
    "one question": ([HI], [], {}, True),
    "a system message": ([BRIEF, HI], [], {}, True),
    "several turns": ([BRIEF, HI, HELLO, said("user", "Bye")], [], {}, True),
    "no turn of the model": ([HI, HELLO, said("user", "Bye")], [], {}, False),
    "an answer at the end": ([HI, HELLO], [], {}, False),
    "spaces and lines": ([said("user", "  a\n\n b\t "), said("assistant", "\n c \n"), said("user", "d\n")], [], {}, True),
    "letters of all kinds": ([said("system", "日本語 🙂"), said("user", "<b>&amp;</b> {{ x }} 'é' \"\\n\"")], [], {}, True),
    "an empty system message": ([said("system", ""), HI], [], {}, True),
    "a system message later": ([HI, HELLO, BRIEF, said("user", "Bye")], [], {}, True),
    "two questions at once": ([HI, said("user", "Hello?")], [], {}, True),
    "no thinking": ([HI], [], {"enable_thinking": False}, True),
    "thinking": ([BRIEF, HI], [], {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}, True),
    "thoughts of before": ([said("user", "2 + 2?"), THOUGHT, said("user", "Sure?")], [], {}, True),
    "a tool": ([ASKED], [WEATHER], {}, True),
    "tools and a system message": ([BRIEF, ASKED], [WEATHER, NESTED, NONE], {}, True),
    "a call and its result": ([ASKED, CALLED, TOLD], [WEATHER], {}, True),
    "calls side by side": ([BRIEF, ASKED, BOTH, *TOLD_BOTH], [WEATHER, NESTED], {}, True),
    "a call, an answer, a question": ([ASKED, CALLED, TOLD, HELLO, HI], [WEATHER], {}, True),
    "thoughts and a call": ([ASKED, {**CALLED, "reasoning_content": "I ask."}, TOLD], [WEATHER, NONE], {}, True),
    "documents": ([ASKED], [], {"documents": DOCUMENTS}, True),
}
NAMES = ("messages", "tools", "variables", "add_generation_prompt")
print(json.dumps({name: dict(zip(NAMES, of)) for name, of in CONVERSATIONS.items()}))
for path in sorted(Path(sys.argv[1]).glob("*.jinja")):
    texts = {}
    for name, (messages, tools, variables, begins) in CONVERSATIONS.items():
        try:
            documents = variables.get("documents")
            more = {key: value for key, value in variables.items() if key != "documents"}
            rendered, _ = render_jinja_template(
                conversations=[json.loads(json.dumps(messages))], tools=tools or None, documents=documents,
                chat_template=path.read_text(), add_generation_prompt=begins, bos_token="<s>", eos_token="</s>", **more,
            )
            texts[name] = {"text": rendered[0]}
        except Exception as error:
            texts[name] = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps({"template": path.name, "texts": texts}))
