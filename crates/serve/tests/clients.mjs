// Clients of npm against a server: node clients.mjs http://127.0.0.1:PORT/v1 KEY MODEL; prints what clients.py puts into its
// table, as JSON. It lies where the packages are.

import assert from "node:assert/strict";

const [URL_, KEY, MODEL] = process.argv.slice(2);
const ROOT = URL_.replace(/\/v1$/, "");
globalThis.AI_SDK_LOG_WARNINGS = false;
const messages = [{ role: "user", content: "Hi" }];
const parameters = { type: "object", properties: { kind: { type: "string", enum: ["sun", "rain"] } }, required: ["kind"], additionalProperties: false };
const isCall = (name, input) => assert(name === "weather" && ["sun", "rain"].includes(input.kind), `${name} ${JSON.stringify(input)}`);
const gathered = async (parts, of) => {
  let text = "";
  for await (const part of parts) text += of(part) ?? "";
  return text;
};

const clients = {
  "openai (npm)": async () => {
    const { default: OpenAI } = await import("openai");
    const talk = new OpenAI({ baseURL: URL_, apiKey: KEY, maxRetries: 0 });
    const ask = { model: MODEL, messages, max_tokens: 12, seed: 5 };
    const tool = { type: "function", function: { name: "weather", parameters } };
    return {
      chat: async () => {
        assert((await talk.chat.completions.create(ask)).choices[0].message.content);
        assert((await talk.responses.create({ model: MODEL, input: "Hi", max_output_tokens: 12 })).output_text);
      },
      stream: async () => {
        const whole = (await talk.chat.completions.create(ask)).choices[0].message.content;
        assert.equal(await gathered(await talk.chat.completions.create({ ...ask, stream: true }), (c) => c.choices[0]?.delta.content), whole);
        assert.equal(await talk.chat.completions.stream(ask).finalContent(), whole);
      },
      tools: async () => {
        const runner = talk.chat.completions.runTools({
          ...ask, max_tokens: 200, tool_choice: "required",
          tools: [{ type: "function", function: { ...tool.function, parse: JSON.parse, function: ({ kind }) => kind } }],
        }, { maxChatCompletions: 1 });
        for (const call of [await runner.finalFunctionToolCall()]) isCall(call.name, JSON.parse(call.arguments));
      },
      schema: async () => {
        const response_format = { type: "json_schema", json_schema: { name: "x", strict: true, schema: parameters } };
        const answer = await talk.chat.completions.parse({ ...ask, max_tokens: 120, response_format });
        assert(["sun", "rain"].includes(answer.choices[0].message.parsed.kind));
      },
      embeddings: async () => assert.equal((await talk.embeddings.create({ model: MODEL, input: ["a", "b"] })).data.length, 2),
      completions: async () => await talk.completions.create({ model: MODEL, prompt: "Once", max_tokens: 3 }),
    };
  },
  "@anthropic-ai/sdk": async () => {
    const { default: Anthropic } = await import("@anthropic-ai/sdk");
    const talk = new Anthropic({ baseURL: ROOT, apiKey: KEY, maxRetries: 0 });
    const ask = { model: MODEL, messages, max_tokens: 12, top_k: 1 };
    return {
      chat: async () => assert.equal((await talk.messages.create(ask)).content[0].type, "text"),
      stream: async () => assert.equal(await talk.messages.stream(ask).finalText(), (await talk.messages.create(ask)).content[0].text),
      tools: async () => {
        const tools = [{ name: "weather", description: "of a kind", input_schema: parameters }];
        const used = (await talk.messages.create({ ...ask, max_tokens: 200, tools, tool_choice: { type: "any" } })).content.at(-1);
        isCall(used.name, used.input);
      },
      schema: async () => {
        const { jsonSchemaOutputFormat } = await import("@anthropic-ai/sdk/helpers/json-schema");
        const output_config = { format: jsonSchemaOutputFormat(parameters) };
        const { parsed_output } = await talk.messages.parse({ ...ask, max_tokens: 120, output_config });
        assert(["sun", "rain"].includes(parsed_output.kind));
      },
    };
  },
  "ai": async () => ai((await import("@ai-sdk/openai-compatible")).createOpenAICompatible({
    name: "warpfold", baseURL: URL_, apiKey: KEY, includeUsage: true, supportsStructuredOutputs: true,
  })),
  "ai, @ai-sdk/openai": async () => {
    const provider = (await import("@ai-sdk/openai")).createOpenAI({ baseURL: URL_, apiKey: KEY });
    return ai(Object.assign((name) => provider(name), { textEmbeddingModel: provider.textEmbeddingModel, completionModel: provider.completion }));
  },
  "ai, @ai-sdk/anthropic": async () => {
    const { embeddings, completions, ...cases } = await ai((await import("@ai-sdk/anthropic")).createAnthropic({ baseURL: URL_, apiKey: KEY }));
    return cases;
  },
};

async function ai(provider) {
  const { embed, generateObject, generateText, jsonSchema, streamText, tool } = await import("ai");
  const model = provider(MODEL);
  const ask = { model, prompt: "Hi", maxOutputTokens: 12, maxRetries: 0 };
  return {
    chat: async () => assert((await generateText(ask)).text),
    stream: async () => {
      const result = streamText(ask);
      assert(await gathered(result.textStream, (text) => text));
      assert((await result.usage).outputTokens > 0);
    },
    tools: async () => {
      const tools = { weather: tool({ description: "of a kind", inputSchema: jsonSchema(parameters), execute: async ({ kind }) => kind }) };
      const { toolCalls, toolResults } = await generateText({ ...ask, maxOutputTokens: 200, tools, toolChoice: "required" });
      isCall(toolCalls[0].toolName, toolCalls[0].input);
      assert(toolResults.length);
    },
    schema: async () => {
      const { object } = await generateObject({ ...ask, maxOutputTokens: 200, schema: jsonSchema(parameters) });
      assert(["sun", "rain"].includes(object.kind));
    },
    embeddings: async () => assert((await embed({ model: provider.textEmbeddingModel(MODEL), value: "a", maxRetries: 0 })).embedding.length),
    completions: async () => (await generateText({ ...ask, model: provider.completionModel(MODEL) })).text,
  };
}

const rows = {};
for (const [name, make] of Object.entries(clients)) {
  let cases;
  try {
    cases = await make();
  } catch (error) {
    if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
    rows[name] = null;
    continue;
  }
  rows[name] = {};
  for (const [feature, run] of Object.entries(cases)) {
    try {
      await run();
      rows[name][feature] = "yes";
    } catch (error) {
      rows[name][feature] = "differs";
      console.error(`${name} ${feature}: ${error.name} ${error.message} ${error.responseBody ?? ""} ${JSON.stringify(error.cause?.value ?? "")}`);
    }
  }
}
console.log(JSON.stringify(rows));
