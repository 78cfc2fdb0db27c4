/** Diagnoses why no node of EventStoreDB is reachable. The driver only reports "failed to discover". */
import { readFileSync } from 'node:fs'
import { connect as connectPlain, isIP } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { connectionAdvice } from '../../../config/connection-advice.ts'
import type { EventStoreDbUrl } from '../../../config/eventstoredb-url.ts'
import { StoreDenied, StoreUnavailable } from '../event-store.ts'

const TIMEOUT_MS = 3000

type Host = EventStoreDbUrl['hosts'][number]

/** First version of Node whose gRPC client accepts only certificates of names. */
const NAMES_ONLY = 26

/**
 * Returns the error for the operator, in one line, when the server is unusable at startup. `nodeVersion`: the first
 * number of Node's version.
 */
export async function startProblem(
  url: EventStoreDbUrl,
  error: unknown,
  nodeVersion = Number.parseInt(process.versions.node, 10),
): Promise<unknown> {
  if (error instanceof StoreDenied || !(error instanceof StoreUnavailable)) return error
  const reasons: string[] = []
  for (const host of url.hosts) {
    const code = await failureOf(host, url)
    if (code === undefined) continue
    reasons.push(connectionAdvice(`${host.address}:${host.port}`, code))
  }
  const why = reasons.length > 0 ? reasons.join('; ') : strangeAnswer(url, nodeVersion)
  return new StoreUnavailable(`EVENTSTORE_URL: ${why}`, { cause: error })
}

/** Returns advice when all nodes accept connections. */
function strangeAnswer({ hosts, options }: EventStoreDbUrl, nodeVersion: number): string {
  const hasAddress = hosts.some(({ address }) => isIP(address) !== 0)
  if (options.tls && hasAddress && nodeVersion >= NAMES_ONLY)
    return `with TLS, Node ${nodeVersion} connects to host names only: use those of the certificates, and not IP addresses`
  const hint = options.tls ? '' : '; if the server has TLS, leave out tls=false'
  return `the server does not answer as EventStoreDB${hint}`
}

/** Connects once. Resolves to the code of the error; undefined when the connection succeeds. */
function failureOf({ address, port }: Host, { options }: EventStoreDbUrl): Promise<string | undefined> {
  const { tls, tlsCAFile } = options
  return new Promise((resolve) => {
    const settings = {
      host: address,
      port,
      ...(isIP(address) === 0 && { servername: address }),
      ...(tlsCAFile !== undefined && { ca: readFileSync(tlsCAFile) }),
      ALPNProtocols: ['h2'],
    }
    const socket = tls ? connectTls(settings) : connectPlain(settings)
    const done = (code?: string) => {
      socket.destroy()
      resolve(code)
    }
    socket.setTimeout(TIMEOUT_MS, () => done('ETIMEDOUT'))
    socket.once(tls ? 'secureConnect' : 'connect', () => done())
    socket.once('error', (error) => done('code' in error ? String(error.code) : error.message))
  })
}
