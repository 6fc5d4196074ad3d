// Plays one call for each line of JSON on the standard input, and prints what came of it as JSON.
// A line: {"client": "openai chat", "base": URL, "model": ID, "task": "tools" | "object" | "stream"}
import { createInterface } from 'node:readline'
import { generateText, Output, stepCountIs, streamText, tool } from 'ai'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { GoogleGenAI } from '@google/genai'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { z } from 'zod'

globalThis.AI_SDK_LOG_WARNINGS = false

const apiKey = process.env.KEY

const MODELS = {
  'ai, OpenAI Responses': (base, model) =>
    createOpenAI({ baseURL: `${base}/v1`, apiKey }).responses(model),
  'ai, OpenAI Chat': (base, model) => createOpenAI({ baseURL: `${base}/v1`, apiKey }).chat(model),
  'ai, Anthropic': (base, model) => createAnthropic({ baseURL: `${base}/v1`, apiKey })(model),
  'ai, Google': (base, model) =>
    createGoogleGenerativeAI({ baseURL: `${base}/v1beta`, apiKey })(model),
  'ai, OpenAI-compatible': (base, model) =>
    createOpenAICompatible({ name: 'swink', baseURL: `${base}/v1`, apiKey, includeUsage: true })(
      model,
    ),
}

const PROVIDER_OPTIONS = {
  anthropic: { thinking: { type: 'enabled', budgetTokens: 2000 } },
  google: { thinkingConfig: { includeThoughts: true, thinkingBudget: 1024 } },
  openai: {
    reasoningSummary: 'auto',
    store: false,
    include: ['reasoning.encrypted_content'],
    forceReasoning: true,
  },
}

const WEATHER = tool({
  description: 'Weather of a city.',
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => ({ city, degrees: 21 }),
})

const CITY = z.object({ name: z.string(), degrees: z.number() })

function failureOf(error) {
  const status = error.statusCode ?? error.status ?? error.lastError?.statusCode
  return `${error.name ?? typeof error} ${status ?? ''}`.trim()
}

async function tools({ client, base, model }) {
  const parts = {}
  const errors = []
  const run = streamText({
    model: MODELS[client](base, model),
    messages: [{ role: 'user', content: 'How is the weather?' }],
    tools: { look: WEATHER },
    stopWhen: stepCountIs(4),
    maxRetries: 0,
    providerOptions: PROVIDER_OPTIONS,
    onError: ({ error }) => errors.push(`${failureOf(error)} ${error.message ?? ''}`.slice(0, 200)),
  })
  for await (const part of run.fullStream) parts[part.type] = (parts[part.type] ?? 0) + 1
  const steps = errors.length ? [] : await run.steps
  return {
    text: errors.length ? '' : await run.text,
    errors,
    steps: steps.length,
    calls: parts['tool-call'] ?? 0,
    thoughts: parts['reasoning-delta'] ?? 0,
    warnings: steps.flatMap((step) => step.warnings ?? []).length,
  }
}

async function object({ client, base, model }) {
  const answer = await generateText({
    model: MODELS[client](base, model),
    output: Output.object({ schema: CITY }),
    prompt: 'Name a city.',
    maxRetries: 0,
  })
  return { object: answer.output, errors: [] }
}

const STREAMS = {
  openai: async (base, model) => {
    const api = new OpenAI({ baseURL: `${base}/v1`, apiKey, maxRetries: 0 })
    const messages = [{ role: 'user', content: 'Hi' }]
    for await (const chunk of await api.chat.completions.create({ model, messages, stream: true }))
      void chunk
  },
  anthropic: async (base, model) => {
    const api = new Anthropic({ baseURL: base, apiKey, maxRetries: 0 })
    const messages = [{ role: 'user', content: 'Hi' }]
    const request = { model, max_tokens: 99, messages, stream: true }
    for await (const event of await api.messages.create(request)) void event
  },
  'google-genai': async (base, model) => {
    const api = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: base } })
    for await (const chunk of await api.models.generateContentStream({ model, contents: 'Hi' }))
      void chunk
  },
}

async function stream({ client, base, model }) {
  if (client in STREAMS) {
    await STREAMS[client](base, model)
    return { errors: [] }
  }
  const errors = []
  const run = streamText({ model: MODELS[client](base, model), prompt: 'Hi', maxRetries: 0, onError: () => {} })
  for await (const part of run.fullStream) if (part.type === 'error') errors.push(failureOf(part.error))
  return { errors }
}

const TASKS = { tools, object, stream }

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line)
  let result
  try {
    result = await TASKS[asked.task](asked)
  } catch (error) {
    result = { errors: [asked.task === 'stream' ? failureOf(error) : `${failureOf(error)} ${error.message}`.slice(0, 200)] }
  }
  console.log(JSON.stringify(result))
}
