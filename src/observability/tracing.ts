/**
 * Traces with OpenTelemetry, loaded only when `OTEL_EXPORTER_OTLP_ENDPOINT` is set. The context of a request is kept
 * here: no global tracer is registered.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import {
  type Attributes,
  type Context,
  defaultTextMapGetter,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import type { FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { watchProcesses } from '../git/process/process-watch.ts'
import { watchCommands } from '../projections/store/mongodb/watch.ts'
import type { EndedRequest } from './requests.ts'

/** Maximum number of spans waiting for a slow collector; further ones are dropped. */
const MAX_WAITING = 2048
const EXPORT_MS = 5000
/** Maximum wait of a stop for the export of the last spans, in milliseconds. */
const STOP_WAIT_MS = 2000
/** Maximum number of requests whose events may still reach the projector and the processes. */
const MAX_REMEMBERED = 10_000
/** Maximum number of traces that show one batch of the projector. */
const MAX_SHARING = 64

export type Tracing = ReturnType<typeof openTracing>

/** `endpoint`: the collector, as `http://localhost:4318`. `node`: the name of this node. */
export function openTracing({ endpoint, node }: { endpoint: string; node: string }) {
  const exporter = new OTLPTraceExporter({
    url: `${endpoint.replace(/\/$/, '')}/v1/traces`,
    timeoutMillis: EXPORT_MS,
  })
  const processor = new BatchSpanProcessor({
    exporter,
    maxQueueSize: MAX_WAITING,
    exportTimeoutMillis: EXPORT_MS,
    scheduledDelayMillis: 1000,
  })
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.name': 'mergelog', 'service.instance.id': node }),
    spanProcessors: [processor],
  })
  const tracer = provider.getTracer('mergelog')
  const propagator = new W3CTraceContextPropagator()
  const current = new AsyncLocalStorage<Context>()
  const requests = new WeakMap<FastifyRequest, { span: Span; context: Context }>()
  /** The span in which a request has appended, by trace id. */
  const appends = new LRUCache<string, SpanContext>({ max: MAX_REMEMBERED })

  const callerOf = (carrier: object) => propagator.extract(ROOT_CONTEXT, carrier, defaultTextMapGetter)

  function failed(span: Span, error: unknown): void {
    span.setStatus({ code: SpanStatusCode.ERROR, message: error instanceof Error ? error.name : 'failed' })
  }

  /** Starts a client span for work of another server or process; undefined outside of a trace. */
  function child(name: string, attributes: Attributes): Span | undefined {
    const context = current.getStore()
    return context && tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes }, context)
  }

  async function within<T>(context: Context, span: Span, work: () => Promise<T>): Promise<T> {
    try {
      return await current.run(trace.setSpan(context, span), work)
    } catch (error) {
      failed(span, error)
      throw error
    } finally {
      span.end()
    }
  }

  const endWatches = [
    watchProcesses((command) => {
      const span = child(`git ${command}`, { 'process.command': command })
      return ({ code }) => {
        if (code !== 0 && span !== undefined) failed(span, undefined)
        span?.end()
      }
    }),
    watchCommands((command) => {
      const span = child(`mongodb ${command}`, { 'db.system.name': 'mongodb', 'db.operation.name': command })
      return (isFailed) => {
        if (isFailed && span !== undefined) failed(span, undefined)
        span?.end()
      }
    }),
  ]

  return {
    /** Begins the span of a request, in the trace of its caller. Returns the id of the trace. */
    begin(request: FastifyRequest): string {
      const caller = callerOf(request.headers)
      const span = tracer.startSpan(request.method, { kind: SpanKind.SERVER }, caller)
      requests.set(request, { span, context: trace.setSpan(caller, span) })
      return span.spanContext().traceId
    },
    /** Runs the rest of a request within its trace. */
    enter(request: FastifyRequest, next: () => void): void {
      const begun = requests.get(request)
      if (begun === undefined) next()
      else current.run(begun.context, next)
    },
    end({ request, method, route, status, aborted }: EndedRequest): void {
      const span = requests.get(request)?.span
      if (span === undefined) return
      span.updateName(`${method} ${route}`)
      span.setAttributes({
        'http.request.method': method,
        'http.route': route,
        'http.response.status_code': status,
        'mergelog.request_id': request.id,
        ...(aborted && { 'mergelog.aborted': true }),
      })
      if (status >= 500) failed(span, undefined)
      span.end()
    },
    /** Begins the span of a call over gRPC; the returned function ends it. */
    call(method: string, traceparent: string | undefined): (code: string) => void {
      const span = tracer.startSpan(`gRPC ${method}`, { kind: SpanKind.SERVER }, callerOf({ traceparent }))
      return (code) => {
        span.setAttribute('rpc.grpc.status', code)
        span.end()
      }
    },
    /** Runs work in a span of the current trace, if any. */
    async step<T>(name: string, attributes: Attributes, work: () => Promise<T>): Promise<T> {
      const context = current.getStore()
      const span = child(name, attributes)
      return context === undefined || span === undefined ? work() : within(context, span, work)
    },
    /** Starts a span of the current trace, if any; the returned function ends it. */
    part(name: string, attributes: Attributes): () => void {
      const span = child(name, attributes)
      return () => span?.end()
    },
    /** Records that the current trace has appended events, so that later work on them joins the trace. */
    appended(): void {
      const span = trace.getSpan(current.getStore() ?? ROOT_CONTEXT)?.spanContext()
      if (span !== undefined) appends.set(span.traceId, span)
    },
    /** Runs later work on events as a span of the traces that appended them. The first one gets the child spans. */
    async following<T>(name: string, correlationIds: Iterable<string>, work: () => Promise<T>): Promise<T> {
      const parents = [...new Set(correlationIds)]
        .flatMap((id) => appends.get(id) ?? [])
        .slice(0, MAX_SHARING)
      const [first, ...others] = parents
      if (first === undefined) return work()
      const startTime = Date.now()
      const context = trace.setSpanContext(ROOT_CONTEXT, first)
      const span = tracer.startSpan(name, { startTime }, context)
      try {
        return await within(context, span, work)
      } finally {
        for (const parent of others) {
          const links = [{ context: span.spanContext() }]
          tracer.startSpan(name, { startTime, links }, trace.setSpanContext(ROOT_CONTEXT, parent)).end()
        }
      }
    },
    /** Flushes the pending spans within two seconds. */
    async close(): Promise<void> {
      for (const end of endWatches) end()
      const done = new AbortController()
      const late = delay(STOP_WAIT_MS, undefined, { signal: done.signal }).catch(() => undefined)
      await Promise.race([provider.shutdown().catch(() => undefined), late])
      done.abort()
    },
  }
}
