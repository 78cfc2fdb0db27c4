/** HTTP over TLS: creates the server, and replaces its certificate while it runs. */
import { createServer, type Server } from 'node:https'
import type { FastifyBaseLogger, FastifyInstance, FastifyServerFactory } from 'fastify'
import { ALLOW_MISSING_HOST } from '../requests/unreadable-requests.ts'
import { renewCertificate } from './renewed-certificate.ts'
import { type Certificate, readCertificate, type TlsPair } from './tls-files.ts'

const NAMES = { cert: 'TLS_CERT', key: 'TLS_KEY' } as const

/** Reads the configured certificate; undefined without one. @throws ConfigError */
export async function requireCertificate(settings: {
  tlsCert: string | undefined
  tlsKey: string | undefined
}): Promise<Certificate | undefined> {
  const { tlsCert: cert, tlsKey: key } = settings
  if (cert === undefined || key === undefined) return undefined
  return await readCertificate({ cert, key }, NAMES)
}

/** Creates the server for Fastify. `timeoutMs`: time limit of a handshake, and of the head of a request. */
export function httpsServer({ pair }: Certificate, timeoutMs: number): FastifyServerFactory {
  return (handler, options): Server => {
    const server = createServer(
      {
        ...pair,
        ...ALLOW_MISSING_HOST,
        handshakeTimeout: timeoutMs,
        headersTimeout: timeoutMs,
        // No limit for a whole request: bodies have their own limits.
        requestTimeout: 0,
        connectionsCheckingInterval: Math.min(timeoutMs / 4, 5000),
      },
      handler,
    )
    // Fastify sets these only on servers that it creates.
    if (typeof options.keepAliveTimeout === 'number') server.keepAliveTimeout = options.keepAliveTimeout
    return server
  }
}

/** New connections to the server of `app` get the current certificate files; open ones continue. */
export function renewHttps(
  app: FastifyInstance,
  certificate: Certificate,
  log: FastifyBaseLogger,
  everyMs?: number,
): void {
  const use = (pair: TlsPair) => {
    // The app's type has a server without TLS.
    const { server }: { server: object } = app
    if (!('setSecureContext' in server) || typeof server.setSecureContext !== 'function') return
    Reflect.apply(server.setSecureContext, server, [pair])
  }
  const stop = renewCertificate(certificate, use, log, everyMs)
  app.addHook('onClose', async () => stop())
}
