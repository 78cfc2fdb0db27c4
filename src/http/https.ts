/** HTTP over TLS: the server, and a certificate that is replaced while the server runs. */
import { createServer, type Server } from 'node:https'
import type { FastifyBaseLogger, FastifyInstance, FastifyServerFactory } from 'fastify'
import { ConfigError } from '../config.ts'
import { readTls, type TlsFiles, type TlsPair } from './tls-files.ts'

const NAMES = { cert: 'TLS_CERT', key: 'TLS_KEY' } as const

/** A certificate in use, and the files that it came from. */
export interface Certificate {
  files: TlsFiles
  pair: TlsPair
}

/** Reads the certificate of the settings; undefined when they name none. @throws ConfigError */
export async function requireCertificate(settings: {
  tlsCert: string | undefined
  tlsKey: string | undefined
}): Promise<Certificate | undefined> {
  const { tlsCert: cert, tlsKey: key } = settings
  if (cert === undefined || key === undefined) return undefined
  const files = { cert, key }
  return { files, pair: await readTls(files, NAMES) }
}

/** Makes the server for fastify. `timeoutMs`: how long a handshake, and then the head of a request, may take. */
export function httpsServer({ pair }: Certificate, timeoutMs: number): FastifyServerFactory {
  return (handler, options): Server => {
    const server = createServer(
      {
        ...pair,
        handshakeTimeout: timeoutMs,
        headersTimeout: timeoutMs,
        // No limit for a whole request: bodies have limits of their own.
        requestTimeout: 0,
        connectionsCheckingInterval: Math.min(timeoutMs / 4, 5000),
      },
      handler,
    )
    // What fastify sets on the servers that it makes itself.
    if (typeof options.keepAliveTimeout === 'number') server.keepAliveTimeout = options.keepAliveTimeout
    return server
  }
}

/** Certificates are renewed days before they end, so this is soon enough. */
const LOOK_EVERY_MS = 30_000

/**
 * Looks at the files again and again. When both have changed to a pair that fits, new connections get it; those that
 * are open go on. Files that cannot be used are logged once, and the certificate in use stays.
 */
export function renewCertificate(
  app: FastifyInstance,
  { files, pair }: Certificate,
  log: FastifyBaseLogger,
  everyMs = LOOK_EVERY_MS,
): void {
  let current = pair
  let problem = ''
  let isLooking = false

  async function look(): Promise<void> {
    try {
      const next = await readTls(files, NAMES)
      problem = ''
      if (next.cert.equals(current.cert) && next.key.equals(current.key)) return
      // Typed as a server without TLS, because the routes do not care.
      const { server }: { server: object } = app
      if (!('setSecureContext' in server) || typeof server.setSecureContext !== 'function') return
      Reflect.apply(server.setSecureContext, server, [next])
      current = next
      log.info({ certificate: files.cert }, 'new connections get the new certificate')
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      if (error.message !== problem) log.warn(`${error.message}; the certificate in use stays`)
      problem = error.message
    }
  }

  const timer = setInterval(() => {
    if (isLooking) return
    isLooking = true
    look()
      .catch((error: unknown) => log.error({ err: error }, 'the certificate could not be replaced'))
      .finally(() => {
        isLooking = false
      })
  }, everyMs).unref()
  app.addHook('onClose', async () => clearInterval(timer))
}
