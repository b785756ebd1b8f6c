"""Clients of others against a server: python clients.py http://127.0.0.1:PORT/v1 KEY MODEL [CLIENT…].

Runs what is installed, each client in its own way, and prints the table of docs/book/src/serving.md: a row a client, a
column a feature. A cell is `yes`, `differs` (standard error says how), nothing where the client has no such feature, or
`not installed`. Packages of npm are looked for in the folder that NPM_CLIENTS names. Ends with 1 if a cell differs.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import traceback
import typing
import urllib.request
from pathlib import Path

# What agents do with an answer that was cut off is no feature.
MOST = 2000
FEATURES = ["chat", "stream", "tools", "schema", "embeddings", "completions"]
URL, KEY, MODEL = sys.argv[1:4]
ROOT = URL.removesuffix("/v1")
# That of the model of the tests, for those who count tokens themselves.
TOKENIZER = Path(__file__).resolve().parents[3] / "fixtures/models/llama/tokenizer.json"
SAID = [{"role": "user", "content": "Hi"}]
# None of these packages is to ask anybody else.
os.environ.update(
    OPENAI_API_KEY=KEY, OPENAI_BASE_URL=URL, ANTHROPIC_API_KEY=KEY, LITELLM_LOCAL_MODEL_COST_MAP="True",
    OPENAI_AGENTS_DISABLE_TRACING="1", HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", DO_NOT_TRACK="1",
)
CLIENTS = {}


def client(name):
    def keep(make):
        CLIENTS[name] = make
        return make

    return keep


def schema():
    import pydantic

    class Weather(pydantic.BaseModel):
        kind: typing.Literal["sun", "rain"]
        days: typing.Literal[1, 2, 3]

    return Weather


def weather(kind: typing.Literal["sun", "rain"]) -> str:
    """Says for how long a kind of weather stays.

    Args:
        kind: The kind of weather.
    """
    return f"{kind} for two days"


PARAMETERS = {
    "type": "object",
    "properties": {"kind": {"type": "string", "enum": ["sun", "rain"]}},
    "required": ["kind"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "weather", "description": "of a kind", "parameters": PARAMETERS}}


def is_call(name, arguments):
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert name == "weather" and arguments["kind"] in ("sun", "rain"), (name, arguments)


def tokenizer(folder):
    (folder := Path(folder) / "tokenizer").mkdir()
    (folder / "tokenizer.json").write_bytes(TOKENIZER.read_bytes())
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    return folder


def same(whole, parts):
    parts = "".join(part or "" for part in parts)
    assert whole and whole == parts, (whole, parts)


@client("openai")
def openai_():
    import openai

    talk = openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0)
    ask = dict(model=MODEL, messages=SAID, max_tokens=12, seed=5)
    chat = lambda **more: talk.chat.completions.create(**{**ask, **more}).choices[0]

    def stream():
        chunks = talk.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True})
        same(chat().message.content, (c.choices[0].delta.content for c in chunks if c.choices))

    def tools():
        call = chat(tools=[TOOL], tool_choice="required", parallel_tool_calls=False, max_tokens=120)
        is_call(call.message.tool_calls[0].function.name, call.message.tool_calls[0].function.arguments)
        result = {"role": "tool", "tool_call_id": call.message.tool_calls[0].id, "content": weather("sun")}
        chat(messages=[*SAID, call.message, result], tools=[TOOL])

    def parse():
        parsed = talk.chat.completions.parse(**{**ask, "max_tokens": 120}, response_format=schema())
        assert parsed.choices[0].message.parsed.days in (1, 2, 3)

    def embeddings():
        assert len(talk.embeddings.create(model=MODEL, input=["a", "b"]).data) == 2

    def completions():
        assert talk.completions.create(model=MODEL, prompt="Once", max_tokens=3).usage.completion_tokens == 3

    return dict(chat=chat, stream=stream, tools=tools, schema=parse, embeddings=embeddings, completions=completions)


@client("anthropic")
def anthropic_():
    import anthropic

    talk = anthropic.Anthropic(base_url=ROOT, api_key=KEY, max_retries=0)
    ask = dict(model=MODEL, messages=SAID, max_tokens=12, extra_body={"temperature": 0})

    def chat():
        assert talk.messages.create(**ask).content[0].type == "text"
        # What agents and other packages send.
        body = json.dumps({key: ask[key] for key in ("model", "messages", "max_tokens")}).encode()
        headers = {"x-api-key": KEY, "anthropic-version": "2023-06-01", "content-type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(f"{ROOT}/v1/messages?beta=true", body, headers)) as answer:
            assert json.load(answer)["type"] == "message"

    def stream():
        with talk.messages.stream(**ask) as stream:
            same(talk.messages.create(**ask).content[0].text, stream.text_stream)

    def tools():
        tool = {"name": "weather", "description": "of a kind", "input_schema": PARAMETERS}
        used = talk.messages.create(**{**ask, "max_tokens": 120}, tools=[tool], tool_choice={"type": "any"})
        is_call(used.content[-1].name, used.content[-1].input)

    def parse():
        found = talk.messages.parse(**{**ask, "max_tokens": 120}, output_format=schema())
        assert found.parsed_output.days in (1, 2, 3)

    return dict(chat=chat, stream=stream, tools=tools, schema=parse)


@client("litellm")
def litellm_():
    import litellm

    litellm.suppress_debug_info = True
    ask = dict(model=f"openai/{MODEL}", api_base=URL, api_key=KEY, messages=SAID, max_tokens=12, seed=5)
    complete = lambda **more: litellm.completion(**{**ask, **more})

    def chat():
        assert complete().usage.completion_tokens == 12
        complete(model=f"hosted_vllm/{MODEL}")
        complete(model=f"anthropic/{MODEL}", api_base=ROOT, seed=None)

    def stream():
        chunks = complete(stream=True, stream_options={"include_usage": True})
        same(complete().choices[0].message.content, (c.choices[0].delta.content for c in chunks if c.choices))

    def tools():
        call = complete(tools=[TOOL], tool_choice="required", max_tokens=200).choices[0].message.tool_calls[0]
        is_call(call.function.name, call.function.arguments)

    def parse():
        kind = schema()
        kind.model_validate_json(complete(response_format=kind, max_tokens=120).choices[0].message.content)

    def embeddings():
        found = litellm.embedding(model=f"openai/{MODEL}", api_base=URL, api_key=KEY, input=["a", "b"])
        assert len(found.data) == 2

    def completions():
        model = f"text-completion-openai/{MODEL}"
        litellm.text_completion(model=model, api_base=URL, api_key=KEY, prompt="Once", max_tokens=3)

    return dict(chat=chat, stream=stream, tools=tools, schema=parse, embeddings=embeddings, completions=completions)


def langchain(model, ask):
    def chat():
        said = [("system", "Be brief"), ("human", "Hi"), ("ai", "Hello"), ("human", "Go")]
        assert ask().invoke(said).usage_metadata["output_tokens"] > 0

    def stream():
        assert "".join(part.text for part in ask().stream("Hi"))

        async def go():
            return [part async for part in ask().astream("Hi")]

        assert asyncio.run(go())[-1] is not None

    def tools():
        from langchain_core.tools import tool

        call = ask(MOST).bind_tools([tool(weather)], tool_choice="any").invoke("Hi").tool_calls[0]
        is_call(call["name"], call["args"])

    def parse():
        kind = schema()
        assert isinstance(ask(MOST).with_structured_output(kind).invoke("Hi"), kind)

    return dict(chat=chat, stream=stream, tools=tools, schema=parse)


@client("langchain-openai")
def langchain_openai_():
    from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

    here = dict(model=MODEL, base_url=URL, api_key=KEY, max_retries=0)
    cases = langchain(MODEL, lambda most=8: ChatOpenAI(**here, max_tokens=most))

    def embeddings():
        OpenAIEmbeddings(model=MODEL, base_url=URL, api_key=KEY, check_embedding_ctx_length=False).embed_query("Hi")

    def completions():
        OpenAI(**here, max_tokens=3).invoke("Once")

    # What it does for OpenAI's newer models.
    responses = ChatOpenAI(**here, use_responses_api=True, max_tokens=8)
    chat = cases["chat"]
    return cases | dict(chat=lambda: (chat(), responses.invoke("Hi")), embeddings=embeddings, completions=completions)


@client("langchain-anthropic")
def langchain_anthropic_():
    from langchain_anthropic import ChatAnthropic

    here = dict(model=MODEL, base_url=ROOT, api_key=KEY, max_retries=0)
    return langchain(MODEL, lambda most=8: ChatAnthropic(**here, max_tokens=most))


@client("llama-index")
def llama_index_():
    from llama_index.core.llms import ChatMessage
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike

    def llm(most=8, **more):
        here = dict(model=MODEL, api_base=URL, api_key=KEY, max_retries=0, context_window=4096)
        return OpenAILike(**here, is_chat_model=True, is_function_calling_model=True, max_tokens=most, **more)

    said = [ChatMessage(role="user", content="Hi")]

    def chat():
        assert llm().chat(said).raw.usage.completion_tokens == 8
        llm().complete("Hi")

    def stream():
        assert "".join(part.delta or "" for part in llm().stream_chat(said))

    def tools():
        tool = FunctionTool.from_defaults(weather)
        model = llm(120)
        answer = model.chat_with_tools([tool], user_msg="Hi", tool_required=True)
        call = model.get_tool_calls_from_response(answer)[0]
        is_call(call.tool_name, call.tool_kwargs)

    def parse():
        kind = schema()
        found = llm(120, should_use_structured_outputs=True).as_structured_llm(kind).chat(said)
        assert isinstance(found.raw, kind)

    def completions():
        here = dict(model=MODEL, api_base=URL, api_key=KEY, is_chat_model=False, max_tokens=3)
        OpenAILike(**here).complete("Once")

    return dict(chat=chat, stream=stream, tools=tools, schema=parse, completions=completions)


@client("openai-agents")
def openai_agents_():
    import openai
    from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool

    kinds = [OpenAIChatCompletionsModel, OpenAIResponsesModel]

    def agents(most, **more):
        settings = ModelSettings(max_tokens=most, **more.pop("settings", {}))
        for kind in kinds:
            # Each loop of asyncio has connections of its own.
            talk = openai.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0)
            model = kind(model=MODEL, openai_client=talk)
            yield Agent(name="a", instructions="Be brief", model=model, model_settings=settings, **more)

    def chat():
        for agent in agents(MOST):
            assert Runner.run_sync(agent, "Hi").final_output

    def stream():
        async def go(agent):
            result = Runner.run_streamed(agent, "Hi")
            async for _ in result.stream_events():
                pass
            return result.final_output

        for agent in agents(MOST):
            assert asyncio.run(go(agent))

    def tools():
        for agent in agents(MOST, tools=[function_tool(weather)], settings=dict(tool_choice="required")):
            items = Runner.run_sync(agent, "Hi").new_items
            assert "for two days" in str([item.output for item in items if item.type == "tool_call_output_item"])

    def parse():
        kind = schema()
        for agent in agents(MOST, output_type=kind):
            assert isinstance(Runner.run_sync(agent, "Hi").final_output, kind)

    return dict(chat=chat, stream=stream, tools=tools, schema=parse)


@client("smolagents")
def smolagents_():
    from smolagents import ChatMessage, OpenAIServerModel, ToolCallingAgent, tool

    def model(most=8):
        return OpenAIServerModel(model_id=MODEL, api_base=URL, api_key=KEY, max_tokens=most)

    said = [ChatMessage(role="user", content=[{"type": "text", "text": "Hi"}])]

    def chat():
        assert model().generate(said, stop_sequences=["Observation:"]).content

    def stream():
        assert "".join(part.content or "" for part in model().generate_stream(said))

    def tools():
        call = model(MOST).generate(said, tools_to_call_from=[tool(weather)]).tool_calls[0]
        is_call(call.function.name, call.function.arguments)
        ToolCallingAgent(tools=[tool(weather)], model=model(MOST), max_steps=2, verbosity_level=0).run("Hi")

    def parse():
        kind = schema()
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": kind.model_json_schema()}}
        kind.model_validate_json(model(MOST).generate(said, response_format=form).content)

    return dict(chat=chat, stream=stream, tools=tools, schema=parse)


@client("instructor")
def instructor_():
    import instructor
    import openai

    kind = schema()

    def ask(mode, **more):
        talk = instructor.from_openai(openai.OpenAI(base_url=URL, api_key=KEY), mode=mode)
        return talk.chat.completions.create(
            model=MODEL, response_model=kind, messages=SAID, max_tokens=MOST, max_retries=0, **more
        )

    def tools():
        assert isinstance(ask(instructor.Mode.TOOLS), kind)

    def parse():
        assert isinstance(ask(instructor.Mode.JSON_SCHEMA), kind)

    return dict(tools=tools, schema=parse)


@client("pydantic-ai")
def pydantic_ai_():
    from pydantic_ai import Agent, NativeOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=URL, api_key=KEY))
    kind = schema()
    agent = lambda most, **more: Agent(model, model_settings={"max_tokens": most}, **more)

    def chat():
        assert agent(8).run_sync("Hi").output

    def stream():
        async def go():
            async with agent(8).run_stream("Hi") as result:
                return [part async for part in result.stream_text()]

        assert asyncio.run(go())

    def tools():
        # Its output is a call of a tool by default.
        assert isinstance(agent(MOST, output_type=kind).run_sync("Hi").output, kind)

    def parse():
        assert isinstance(agent(MOST, output_type=NativeOutput(kind)).run_sync("Hi").output, kind)

    return dict(chat=chat, stream=stream, tools=tools, schema=parse)


def installed(package, *command):
    """Runs a program of a package of Python."""
    import importlib.util

    if importlib.util.find_spec(package) is None:
        raise ImportError(package)
    run = lambda *more: subprocess.run([*command, *more], check=True, capture_output=True, text=True, timeout=400)
    return run


@client("lm-eval")
def lm_eval_():
    run = installed("lm_eval", sys.executable, "-m", "lm_eval")

    def completions():
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            items = [json.dumps({"text": f"{i} and", "answer": " on", "wrong": " off"}) for i in range(20)]
            (folder / "items.jsonl").write_text("\n".join(items))
            task = {
                "task": "twenty",
                "dataset_path": "json",
                "dataset_kwargs": {"data_files": {"test": str(folder / "items.jsonl")}},
                "test_split": "test",
                "output_type": "multiple_choice",
                "doc_to_text": "{{text}}",
                "doc_to_choice": "{{[answer, wrong]}}",
                "doc_to_target": 0,
                "metric_list": [{"metric": "acc"}],
            }
            (folder / "twenty.yaml").write_text(json.dumps(task))
            arguments = f"model={MODEL},base_url={URL}/completions,tokenizer={tokenizer(folder)}"
            told = run("--model", "local-completions", "--model_args", arguments, "--tasks", "twenty", "--include_path",
                       folder, "--output_path", folder / "out")  # fmt: skip
            assert "|acc" in told.stdout, told.stdout

    return dict(completions=completions)


@client("guidellm")
def guidellm_():
    run = installed("guidellm", sys.executable, "-m", "guidellm", "run")

    def measure():
        with tempfile.TemporaryDirectory() as folder:
            (data := Path(folder) / "data.jsonl").write_text("".join(f'{{"prompt": "Once {i}"}}\n' for i in range(3)))
            run("--backend", f"kind=openai_http,target={ROOT},model={MODEL},api_key={KEY},request_format=/v1/chat/completions",
                "--profile", "kind=synchronous", "--constraint", "kind=max_requests,count=3", "--disable-console",
                "--data", f"kind=json_file,path={data}", "--tokenizer", f"kind=hf_auto,model={tokenizer(folder)}",
                "--output", f"kind=json,path={folder}/out.json")  # fmt: skip
            told = json.loads(Path(f"{folder}/out.json").read_text())["benchmarks"][0]
            assert len(told["requests"]["successful"]) == 3, told["requests"]["errored"]

    return dict(stream=measure)


@client("vllm bench")
def vllm_bench_():
    # That of a vLLM that is installed, or the folder `benchmarks` of its repository, which wants no more of vLLM than
    # names for types.
    names = {"lora/request": "LoRARequest", "lora/utils": "get_adapter_absolute_path", "multimodal/__init__": "MultiModalDataDict",
             "transformers_utils/tokenizer": "AnyTokenizer = get_lora_tokenizer"}  # fmt: skip
    command, scripts = [sys.executable, "-m", "vllm.entrypoints.cli.main", "bench", "serve"], os.environ.get("VLLM_BENCHMARKS")
    if scripts:
        command = [sys.executable, f"{scripts}/benchmark_serving.py"]
    else:
        installed("vllm")

    def measure(backend, endpoint):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            for module, name in names.items() if scripts else ():
                (file := folder / "vllm" / f"{module}.py").parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"{name} = object\n")
            told = subprocess.run(
                [*command, "--backend", backend, "--base-url", ROOT, "--endpoint", endpoint, "--model", MODEL, "--tokenizer",
                 tokenizer(folder), "--dataset-name", "random", "--random-input-len", "8", "--random-output-len", "8",
                 "--num-prompts", "4", "--disable-tqdm", "--save-result", "--result-dir", folder, "--result-filename", "out.json"],
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}, check=True, capture_output=True, text=True, timeout=400,
            )  # fmt: skip
            found = json.loads((folder / "out.json").read_text())
            assert found["completed"] == 4 and found["total_output_tokens"] > 0, told.stdout

    return dict(
        stream=lambda: measure("openai-chat", "/v1/chat/completions"), completions=lambda: measure("openai", "/v1/completions")
    )


def of_npm():
    """The rows of clients.mjs, which runs what npm has."""
    folder = os.environ.get("NPM_CLIENTS")
    if not folder:
        return {}
    # Packages are found from where the script is.
    script = Path(folder) / "clients.mjs"
    script.write_text((Path(__file__).parent / "clients.mjs").read_text())
    out = subprocess.run(["node", script, URL, KEY, MODEL], stdout=subprocess.PIPE, timeout=300, check=True)
    return json.loads(out.stdout)


def cells(make):
    try:
        cases = make()
    except ImportError:
        return None
    found = {}
    for feature, case in cases.items():
        try:
            case()
            found[feature] = "yes"
        except Exception as error:  # Whatever it is, it is no reason to leave the others out.
            print(f"{make.__name__} {feature}: {type(error).__name__} {error}", file=sys.stderr)
            if isinstance(error, subprocess.CalledProcessError):
                print(error.stderr[-3000:], file=sys.stderr)
            elif os.environ.get("TRACE"):
                traceback.print_exc()
            found[feature] = "differs"
    return found


def main():
    only = sys.argv[4:]
    rows = {name: cells(make) for name, make in CLIENTS.items() if not only or name in only}
    rows |= {name: found for name, found in of_npm().items() if not only or name in only}
    print("| client | " + " | ".join(FEATURES) + " |")
    print("|---" * (1 + len(FEATURES)) + "|")
    for name, found in rows.items():
        row = ["not installed"] * len(FEATURES) if found is None else [found.get(f, "") for f in FEATURES]
        print(f"| {name} | " + " | ".join(row) + " |")
    if any("differs" in (found or {}).values() for found in rows.values()):
        sys.exit(1)
    print("all right")


main()
