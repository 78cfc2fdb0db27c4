/** Requests of a command to the running server, over HTTP. */
import { isIPv6 } from 'node:net'
import { Type } from 'typebox'
import { ErasedWire } from '../api/issues/erasures.ts'
import type { MaintenanceProgress } from '../commands/git/maintain-all.ts'
import type { ErasurePreview } from '../commands/issues/erasures/erasure.decider.ts'
import type { Config } from '../config/config.ts'
import type { RebuildProgress } from '../projections/projector/rebuild.ts'
import { type Check, checked, checkOf } from '../storage/checked-json.ts'
import { CommandFailed } from './explain.ts'

/** Thrown when no server answers at the address. */
export class NoServer extends CommandFailed {}

/** Local address of a server that listens on every address. */
const ADDRESSES_OF_ALL = new Map([
  ['0.0.0.0', '127.0.0.1'],
  ['::', '::1'],
])

/** The server's URL, from the environment. */
export function serverUrl({
  publicUrl,
  host,
  port,
  tlsCert,
}: Pick<Config, 'publicUrl' | 'host' | 'port' | 'tlsCert'>): string {
  const own = ADDRESSES_OF_ALL.get(host) ?? host
  return (
    publicUrl ?? `${tlsCert === undefined ? 'http' : 'https'}://${isIPv6(own) ? `[${own}]` : own}:${port}`
  )
}

/** Returns the `Authorization` header for a token, or for `admin` with a password; undefined without both. */
export function authorizationOf(token: string | undefined, adminPassword: string | undefined) {
  if (token !== undefined) return `token ${token}`
  if (adminPassword === undefined) return undefined
  return `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`
}

const Progress = Type.Object({
  model: Type.String(),
  events: Type.Integer(),
  position: Type.Integer(),
  end: Type.Integer(),
  done: Type.Boolean(),
})
const Maintaining = Type.Object({
  repository: Type.String(),
  step: Type.String(),
  done: Type.Integer(),
  total: Type.Integer(),
  bytes_before: Type.Optional(Type.Integer()),
  bytes_after: Type.Optional(Type.Integer()),
})
const isProgress = checkOf(Progress)
const isMaintaining = checkOf(Maintaining)
const isDone = checkOf(
  Type.Union([
    Type.Object({ rebuilt: Type.Array(Type.Object({})) }),
    Type.Object({ maintained: Type.Integer() }),
  ]),
)
const isFailed = checkOf(Type.Object({ failed: Type.String() }))
const isErased = checkOf(ErasedWire)
const isProblem = checkOf(Type.Object({ message: Type.String() }))

/** Status of a stopping server. */
const STOPPING = 503

const serverStopped = (cause?: unknown) =>
  new CommandFailed('the server stopped before the work was done', { cause })

/**
 * Rebuilds read models on the server: those in `models`, or all when it is empty. The rebuild stops when the caller
 * stops iterating.
 * @throws NoServer when no server answers at the address
 * @throws CommandFailed when the server refuses, fails or stops before the rebuild is done
 */
export const askToRebuild = (
  url: string,
  authorization: string,
  models: readonly string[],
): AsyncGenerator<RebuildProgress> =>
  progressOf(`${url}/api/v1/admin/rebuild`, authorization, { models }, isProgress)

/**
 * Maintains a repository (OWNER/REPO) or all on the server. It stops when the caller stops iterating.
 * @throws NoServer, and CommandFailed as `askToRebuild` does
 */
export const askToMaintain = (
  url: string,
  authorization: string,
  repository: string | undefined,
): AsyncGenerator<MaintenanceProgress> =>
  progressOf(`${url}/api/v1/admin/maintenance`, authorization, { repository }, isMaintaining)

/** Yields the progress of work on the server until it ends. @throws CommandFailed when it fails, or the server stops */
async function* progressOf<T>(url: string, authorization: string, body: object, isStep: Check<T>) {
  for await (const json of linesOf(await post(url, authorization, body))) {
    const line: unknown = JSON.parse(json)
    if (isFailed(line)) throw new CommandFailed(line.failed)
    if (isDone(line)) return
    yield checked(isStep, line)
  }
  throw serverStopped()
}

/**
 * Erases the texts of an issue or pull request, or of one comment, on the server. Resolves to the
 * texts to erase if `dryRun`, otherwise to undefined.
 * @throws NoServer when no server answers at the address
 * @throws CommandFailed when the server refuses, or has not finished it
 */
export async function askToErase(
  server: string,
  authorization: string,
  { owner, repo, index }: { owner: string; repo: string; index: number },
  { comment, dryRun }: { comment: number | null; dryRun: boolean },
): Promise<ErasurePreview | undefined> {
  const path = [owner, repo].map(encodeURIComponent).join('/')
  const url = `${server}/api/v1/repos/${path}/issues/${index}/erase`
  const which = comment === null ? { all: true } : { comment }
  const answer = await send(url, authorization, { ...which, dry_run: dryRun })
  if (answer.status === 204) return undefined
  if (answer.status === 200) return checked(isErased, JSON.parse(await answer.text()))
  throw new CommandFailed(
    `${url} answered ${answer.status}: ${messageIn(await answer.text()).slice(0, 1000)}`,
  )
}

/**
 * Fetches the document of a merge's evidence.
 * @throws NoServer when no server answers at the address
 * @throws CommandFailed when the server refuses
 */
export async function askForEvidence(
  server: string,
  authorization: string,
  { owner, repo, index }: { owner: string; repo: string; index: number },
): Promise<string> {
  const path = [owner, repo].map(encodeURIComponent).join('/')
  const url = `${server}/api/v1/repos/${path}/pulls/${index}/evidence?format=document`
  const answer = await send(url, authorization)
  const text = await answer.text().catch((error: unknown) => {
    throw serverStopped(error)
  })
  if (answer.status === 200) return text
  throw new CommandFailed(`${url} answered ${answer.status}: ${messageIn(text).slice(0, 1000)}`)
}

/** Sends a GET, or a POST with a body. @throws NoServer, or CommandFailed when the connection broke */
async function send(url: string, authorization: string, body?: object): Promise<Response> {
  const headers = { authorization, 'content-type': 'application/json' }
  const answer =
    body === undefined
      ? fetch(url, { headers: { authorization } })
      : fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
  return answer.catch((error: unknown) => {
    const cause = error instanceof Error ? error.cause : undefined
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
    if (code === 'ECONNRESET' || code === 'UND_ERR_SOCKET') throw serverStopped(error)
    const reason = cause instanceof Error && cause.message !== '' ? cause.message : (code ?? error)
    throw new NoServer(`no server answers at ${new URL(url).origin}: ${reason}`, { cause: error })
  })
}

/** @throws NoServer, or CommandFailed when the connection broke or the server refuses */
async function post(url: string, authorization: string, body: object): Promise<ReadableStream<Uint8Array>> {
  const answer = await send(url, authorization, body)
  const isLines = answer.headers.get('content-type')?.startsWith('application/x-ndjson') === true
  if (answer.status === 200 && isLines && answer.body !== null) return answer.body
  const text = await answer.text().catch((error: unknown) => {
    throw serverStopped(error)
  })
  if (answer.status === STOPPING) throw serverStopped()
  throw new CommandFailed(`${url} answered ${answer.status}: ${messageIn(text).slice(0, 1000)}`)
}

/** Returns the message in the server's error answer; the whole text of another one, for example of a proxy. */
function messageIn(text: string): string {
  try {
    const problem: unknown = JSON.parse(text)
    return isProblem(problem) ? problem.message : text
  } catch {
    return text
  }
}

/** Yields complete lines; each ends with a line feed. @throws CommandFailed when the answer is cut off */
async function* linesOf(answer: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let partialLine = ''
  try {
    for await (const chunk of answer) {
      const lines = (partialLine + decoder.decode(chunk, { stream: true })).split('\n')
      partialLine = lines.pop() ?? ''
      yield* lines
    }
  } catch (error) {
    throw serverStopped(error)
  }
  if (partialLine !== '') throw serverStopped()
}
