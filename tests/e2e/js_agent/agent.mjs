// A support agent on the Vercel AI SDK, traced as its documentation says: `node agent.mjs STUB SCENE.json`.
//
// STUB is the address of tests.provider_stub; the scene has {system, tools, results, users, turns} as tests.live_apps.texts
// has them. A session for each API: each asks all questions, plainly and in streams by turns; `turns`: with a span
// around each question. Where the spans go is told by OTEL_* variables.
import { readFileSync } from 'node:fs';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { trace } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { NodeSDK } from '@opentelemetry/sdk-node';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';

const [stub, file] = process.argv.slice(2);
const scene = JSON.parse(readFileSync(file, 'utf8'));
const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter(), instrumentations: [] });
sdk.start();

const openai = createOpenAI({ baseURL: `${stub}/v1`, apiKey: 'x' });
const anthropic = createAnthropic({ baseURL: `${stub}/v1`, apiKey: 'x' });
const MODELS = [
  openai.chat('gpt-4o-2024-08-06'),
  openai.responses('gpt-4.1-2025-04-14'),
  anthropic('claude-sonnet-5'),
];
const system = {
  role: 'system',
  content: scene.system,
  providerOptions: { anthropic: { cacheControl: { type: 'ephemeral' } } },
};
const tools = Object.fromEntries(
  Object.entries(scene.tools).map(([name, [description, schema]]) => [
    name,
    tool({ description, inputSchema: jsonSchema(schema), execute: async () => JSON.parse(scene.results[name]) }),
  ]),
);

async function answered(request, streaming) {
  if (!streaming) return (await generateText(request)).response.messages;
  const result = streamText({ ...request, onError: ({ error }) => { throw error; } });
  await result.consumeStream();
  return (await result.response).messages;
}

async function session(model, sessionId) {
  const messages = [];
  for (const [n, question] of scene.users.entries()) {
    messages.push({ role: 'user', content: question });
    const request = {
      model, system, messages, tools,
      stopWhen: stepCountIs(4),
      experimental_telemetry: { isEnabled: true, metadata: { sessionId } },
    };
    const ask = async () => messages.push(...(await answered(request, n % 2 === 1)));
    if (!scene.turns) await ask();
    else await trace.getTracer('shop').startActiveSpan('turn', (span) => ask().finally(() => span.end()));
  }
}

for (const [n, model] of MODELS.entries()) await session(model, `js-${scene.turns ? 'turns' : 'bare'}-${n}`);
await sdk.shutdown();
