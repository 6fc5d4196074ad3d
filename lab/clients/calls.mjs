// One streamed call of a client in JavaScript: node calls.mjs CLIENT BASE MODEL KEY MILLISECONDS
//
// Prints how it ended and after how many seconds, as one line of JSON.

import { createAnthropic } from '@ai-sdk/anthropic';
import { createGoogleGenerativeAI } from '@ai-sdk/google';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { streamText } from 'ai';
import { Ollama } from 'ollama';

const [client, base, model, apiKey, milliseconds] = process.argv.slice(2);
const timeout = Number(milliseconds);
globalThis.AI_SDK_LOG_WARNINGS = false;

const models = {
  'ai-chat': () => createOpenAICompatible({ name: 'swink', baseURL: `${base}/v1`, apiKey })(model),
  'ai-responses': () => createOpenAI({ baseURL: `${base}/v1`, apiKey }).responses(model),
  'ai-messages': () => createAnthropic({ baseURL: `${base}/v1`, apiKey })(model),
  'ai-gemini': () => createGoogleGenerativeAI({ baseURL: `${base}/v1beta`, apiKey })(model),
};

async function aiSdk() {
  let failure;
  let reason = 'none';
  const result = streamText({
    model: models[client](),
    prompt: 'Hi',
    abortSignal: AbortSignal.timeout(timeout),
    onError: () => {},
  });
  for await (const part of result.fullStream) {
    if (part.type === 'error') failure ??= part.error;
    if (part.type === 'abort') failure ??= new Error('aborted');
    if (part.type === 'finish') reason = part.finishReason;
  }
  if (failure) throw failure;
  return `nothing, finish reason ${reason}`;
}

async function ollama() {
  const headers = { Authorization: `Bearer ${apiKey}` };
  const signal = AbortSignal.timeout(timeout);
  const caller = new Ollama({ host: base, headers, fetch: (u, o) => fetch(u, { ...o, signal }) });
  const messages = [{ role: 'user', content: 'Hi' }];
  let last;
  for await (const part of await caller.chat({ model, messages, stream: true })) last = part;
  return `nothing, done ${last?.done}`;
}

const began = performance.now();
let ending;
try {
  ending = await (client === 'ollama' ? ollama() : aiSdk());
} catch (error) {
  const cause = error?.lastError ?? error;
  const status = cause?.statusCode ?? cause?.status_code ?? cause?.error?.code ?? '';
  const name = cause?.name ?? cause?.error?.type ?? typeof cause;
  ending = `${error?.lastError ? 'RetryError, ' : ''}${name} ${status}`.trim();
}
console.log(JSON.stringify({ ending, seconds: (performance.now() - began) / 1000 }));
process.exit(0);
