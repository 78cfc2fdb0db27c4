/** Says why no node of EventStoreDB can be reached. The driver hides it behind "failed to discover". */
import { readFileSync } from 'node:fs'
import { connect as connectPlain, isIP } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { connectionAdvice } from '../connection-advice.ts'
import type { EventStoreDbUrl } from '../eventstoredb-url.ts'
import { StoreDenied, StoreUnavailable } from './event-store.ts'

const TIMEOUT_MS = 3000

type Host = EventStoreDbUrl['hosts'][number]

/** Returns the error for the operator, in one line, when the server could not be used at the start. */
export async function startProblem(url: EventStoreDbUrl, error: unknown): Promise<unknown> {
  if (error instanceof StoreDenied || !(error instanceof StoreUnavailable)) return error
  const reasons: string[] = []
  for (const host of url.hosts) {
    const code = await failureOf(host, url)
    if (code === undefined) continue
    reasons.push(connectionAdvice(`${host.address}:${host.port}`, code))
  }
  const hint = url.options.tls ? '' : '; if the server has TLS, leave out tls=false'
  const why = reasons.length > 0 ? reasons.join('; ') : `the server does not answer as EventStoreDB${hint}`
  return new StoreUnavailable(`EVENTSTORE_URL: ${why}`, { cause: error })
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
