/**
 * Random histories, made with the requests of the table of routes: what every read answered while the history was made is what
 * it answers later at that moment. `PROPERTY_SEED` sets the seed, `PROPERTY_RUNS` the number of changes.
 */
import t from 'tap'
import { canShowPast } from '../../../../src/queries/history/moments/time-travel.ts'
import { ROWS } from '../../../auth/route-rows.ts'
import { type Call, KINDS, routesOf, startWorld } from '../../../auth/route-world.ts'
import { basic } from '../../../server-template.ts'

const SEED = Number(process.env.PROPERTY_SEED ?? 1)
const CHANGES = Number(process.env.PROPERTY_RUNS ?? 30)
/** Number of changes between two recordings. */
const INTERVAL = 10

/** A sequence of numbers from 0 to 1 that a seed determines (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Changes that end the history of the repository, or that do not concern it. */
const NOT_CHANGED =
  /^DELETE \/api\/v1\/(repos\/:owner\/:repo|orgs\/:org)$|\/transfer|\/(hooks|notifications)|lfs/

/** Reads of git: `moments-git.test.ts` compares them. */
const OF_GIT =
  /\/(contents|contents-ext|file-contents|raw|media|archive|git|commits|compare|issue_templates|issue_config|files|languages)(\/|$)|\/pulls\/:index\/\*$|\/pulls\/:index\/(commits|files)$/

/** Values that are present ones in the past (docs/history.md). */
const PRESENT = new Set(['size', 'language', 'starred_repos_count'])

function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, part]) => (PRESENT.has(name) ? [] : [[name, comparable(part)]])),
  )
}

const world = await startWorld(t)
const { app, services } = world
const routes = routesOf(app)
const random = randomOf(SEED)
const oneOf = <T>(items: readonly T[]): T | undefined => items[Math.floor(random() * items.length)]

const reader = () => oneOf(['alice', 'alice', 'bob', 'carol', null]) ?? null

interface Read {
  name: string
  url: string
  /** The client; null is anonymous. */
  login: string | null
}

/** The answers to all reads now, once nothing changes between them: processes of the server append events of their own. */
async function recordedNow(reads: readonly Read[]) {
  for (;;) {
    const position = await services.events.lastPosition()
    const recorded: { read: Read; position: number; answer: Answer }[] = []
    for (const read of reads) recorded.push({ read, position, answer: await answerTo(read) })
    if ((await services.events.lastPosition()) === position) return recorded
  }
}

const keyOf = ({ login, url }: Read) => `${login} ${url}`

type Answer = Awaited<ReturnType<typeof answerTo>>

async function answerTo({ url, login }: Read, query = '') {
  const answer = await app.inject({
    method: 'GET',
    url: `${url}${query === '' ? '' : `${url.includes('?') ? '&' : '?'}${query}`}`,
    headers: login === null ? {} : { authorization: basic(login) },
  })
  const { 'x-total-count': total, 'content-type': type = '' } = answer.headers
  const body = `${type}`.startsWith('application/json') ? comparable(JSON.parse(answer.body)) : answer.body
  return { status: answer.statusCode, total, body, at: answer.headers['mergelog-at'] }
}

const filled = (url: string, { path = {}, query = {} }: Call) => {
  const filledIn = url.replaceAll(/:([a-zA-Z_]+)|\*/g, (_, name = '*') => encodeURI(`${path[name] ?? 'x'}`))
  const text = new URLSearchParams(query).toString()
  return text === '' ? filledIn : `${filledIn}?${text}`
}

for (const kind of KINDS) {
  t.test(
    `a random history of a ${kind} repository: every read with at= answers as it did at that moment`,
    async (t) => {
      const here = await world.place(kind)
      const path = { owner: here.owner, repo: here.repo }
      const reads: Read[] = []
      for (const route of routes) {
        const { method, url, name } = route
        if (method !== 'GET' || !canShowPast(url) || OF_GIT.test(url)) continue
        const call = (await ROWS[name]?.call?.(here, world)) ?? {}
        reads.push({ name, url: filled(url, { ...call, path: { ...path, ...call.path } }), login: reader() })
      }
      for (const query of ['q=Issue', 'state=all&sort=oldest', 'labels=l1', 'type=pulls&limit=2&page=2']) {
        reads.push({ name: query, login: reader(), url: `/api/v1${here.base}/issues?${query}` })
      }
      const changes = routes.filter(
        ({ method, url, name }) =>
          method !== 'GET' &&
          /^\/api\/v1\/(repos\/:owner\/:repo|orgs\/:org|teams\/:id)(\/|$)/.test(url) &&
          !NOT_CHANGED.test(name),
      )
      const recorded: Awaited<ReturnType<typeof recordedNow>> = []
      for (let i = 0; i <= CHANGES; i++) {
        if (i % INTERVAL === 0) recorded.push(...(await recordedNow(reads)))
        const change = oneOf(changes)
        if (change === undefined) continue
        const call = (await ROWS[change.name]?.call?.(here, world)) ?? {}
        const { status, text } = await world.send('alice', change.method, change.url, {
          ...call,
          path: { ...path, ...call.path },
        })
        if (status >= 500) t.fail(`${change.name}: ${status} ${text}`)
      }
      const now = await recordedNow(reads)
      for (const { read, answer } of now) {
        t.same(
          { ...(await answerTo(read, 'at=2999-01-01')), at: undefined },
          answer,
          `${read.url} in the future is now`,
        )
      }
      const found = recorded.filter(({ answer }) => answer.status === 200).length
      t.ok(found > recorded.length / 2, `${found} of ${recorded.length} reads find something`)
      const mayRead = new Map<string, boolean>()
      for (const read of reads) {
        const [subject = ''] =
          /^\/api\/v1\/(repos\/[^/?]+\/[^/?]+|(orgs|teams|users)\/[^/?]+)/.exec(read.url) ?? []
        mayRead.set(keyOf(read), (await answerTo({ ...read, url: subject })).status < 400)
      }
      const different = new Set<string>()
      for (const { read, position, answer } of recorded) {
        // Permissions are those of now, and what is named in the path is found by its name now.
        if (!mayRead.get(keyOf(read))) continue
        const past = await answerTo(read, `at=@${position}`)
        if (past.status === answer.status && past.status >= 400) continue
        const isSame =
          JSON.stringify([past.status, past.total, past.body]) ===
          JSON.stringify([answer.status, answer.total, answer.body])
        if (isSame) continue
        different.add(read.name)
        t.same(
          { ...past, at: undefined },
          { ...answer, at: undefined },
          `${read.url} of ${read.login} at @${position}: ${past.at}`,
        )
      }
      t.same([...different], [])
    },
  )
}
