/** Replaces certificates while the server runs, for HTTP and for gRPC. */
import type { FastifyBaseLogger } from 'fastify'
import { ConfigError } from '../../config/config.ts'
import { type Certificate, readCertificate, type TlsPair } from './tls-files.ts'

/** Interval of the checks. Certificates are renewed days before they expire. */
const CHECK_MS = 30_000

/**
 * Watches the files. When both have changed to a matching pair, calls `use`. Unusable files are logged once, and the
 * current certificate stays. Returns a function that ends the watch.
 */
export function renewCertificate(
  { files, names, pair }: Certificate,
  use: (pair: TlsPair) => void,
  log: FastifyBaseLogger,
  everyMs = CHECK_MS,
): () => void {
  let current = pair
  let problem = ''
  let isChecking = false

  async function check(): Promise<void> {
    try {
      const { pair: next } = await readCertificate(files, names)
      problem = ''
      if (next.cert.equals(current.cert) && next.key.equals(current.key)) return
      use(next)
      current = next
      log.info({ certificate: files.cert }, 'new connections get the new certificate')
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      if (error.message !== problem) log.warn(`${error.message}; the certificate in use stays`)
      problem = error.message
    }
  }

  const timer = setInterval(() => {
    if (isChecking) return
    isChecking = true
    check()
      .catch((error: unknown) => log.error({ err: error }, 'the certificate could not be replaced'))
      .finally(() => {
        isChecking = false
      })
  }, everyMs).unref()
  return () => clearInterval(timer)
}
