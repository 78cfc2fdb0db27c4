/**
 * Measures lists and searches of many issues. The ceiling is a server with few issues. Also measures opening
 * issues.
 */
import { join } from 'node:path'
import type { Sizes } from './bench.ts'
import { type Child, startChild } from './child.ts'
import type { LoadCommand } from './load-process.ts'
import { environmentOf, makeAdmin, seedFor } from './log.ts'
import { CONNECTIONS, measureAlternately } from './rates.ts'
import { RARE_WORD } from './seed/issue.ts'
import type { ServerReady } from './server-process.ts'
import { median, milliseconds, perSecond, type Row, ratioRow } from './table.ts'
import { api, loadOf, type Target } from './target.ts'
import { appendRate, CLIENTS } from './writes.ts'

const READER = { username: 'reader', email: 'reader@example.org', password: 'bench reader password' }
/** The repository with almost all issues, and the number of its issues with the rare word. */
const NAME = 'issues'
const MARKED = 30

export async function measureIssues(directory: string, sizes: Sizes): Promise<Row[]> {
  const few = await startWith(join(directory, 'few'), sizes, sizes.fewIssues)
  const many = await startWith(join(directory, 'many'), sizes, sizes.manyIssues)
  const load = await startChild<object>('load')

  const rate =
    ({ target, token }: Searched, path: string) =>
    async (seconds: number) => {
      const url = `${target.server.ready.url}/api/v1${path}`
      const headers = { authorization: `token ${token}` }
      return (await loadOf(load, { url, connections: CONNECTIONS, headers, end: { duration: seconds } })).rate
    }

  async function compare(work: string, path: string): Promise<Row> {
    const rates = { own: rate(many, path), ceiling: rate(few, path) }
    const { own: withMany, ceiling: withFew } = await measureAlternately(sizes, rates, async () => {
      // Waits for late answers of the warm-up, which would slow the measurement.
      for (const { target } of [few, many]) await api(target, 'GET', path)
    })
    const [one, other] = [milliseconds(1000 / withMany), milliseconds(1000 / withFew)]
    return ratioRow(work, one, `${other} with few`, withFew / withMany, { atMost: 1.5 })
  }

  const list = `/repos/${many.target.admin.login}/${NAME}/issues`
  const search = '/repos/issues/search'
  const size = sizes.manyIssues.toLocaleString('en')
  const rows = [
    await compare(`list issues, 30 of ${size}`, list),
    await compare(`the same, closed`, `${list}?state=closed`),
    await compare(`the same, with a label`, `${list}?labels=bug`),
    await compare(`the same, by a rare word`, `${list}?state=all&q=${RARE_WORD}`),
    await compare(`the same, by a frequent word`, `${list}?q=server`),
    await compare(`issues of ${sizes.repositories.toLocaleString('en')} repositories`, search),
    await compare(`the same, with a label`, `${search}?labels=bug`),
    await compare(`the same, by a rare word`, `${search}?state=all&q=${RARE_WORD}`),
    await compare(`the same, by a frequent word`, `${search}?q=server`),
    await measureOpening(many.target, load),
  ]
  await load.stop()
  for (const { target } of [few, many]) await target.server.stop()
  return rows
}

/** A server, and the token of a user without repositories. */
interface Searched {
  target: Target
  token: string
}

/** Starts a server with `issues` issues in one repository, and one issue in each other repository. */
async function startWith(dataDir: string, sizes: Sizes, issues: number): Promise<Searched> {
  const environment = environmentOf(dataDir)
  const admin = await makeAdmin(environment)
  await seedFor(admin, dataDir, [
    { name: NAME, issues, marked: MARKED },
    ...Array.from({ length: sizes.repositories - 1 }, (_, i) => ({ name: `light-${i + 1}`, issues: 1 })),
  ])
  const server = await startChild<ServerReady>('server', environment)
  await server.ask({ what: 'recovered' })
  const target = { server, dataDir, admin, sizes }
  await api(target, 'POST', '/admin/users', READER)
  const { username, password } = READER
  const created = await fetch(`${server.ready.url}/api/v1/users/${username}/tokens`, {
    method: 'POST',
    headers: {
      authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ name: 'bench', scopes: ['all'] }),
  })
  const token: { sha1: string } = JSON.parse(await created.text())
  return { target, token: token.sha1 }
}

/** Opening an issue takes a number, an id and one append. The ceiling is bare appends. */
async function measureOpening({ server, dataDir, admin, sizes }: Target, load: Child<object>): Promise<Row> {
  const command: LoadCommand = {
    url: server.ready.url,
    connections: CLIENTS,
    headers: { authorization: `token ${admin.token}` },
    end: { amount: Math.ceil(sizes.issuesToOpen / 2) },
    write: {
      method: 'POST',
      path: `/api/v1/repos/${admin.login}/${NAME}/issues`,
      body: JSON.stringify({ title: 'Number {n}', body: 'What happens, and what should.' }),
      first: 1,
    },
  }
  // The first half is the warm-up.
  await loadOf(load, command)
  const round = { ...command, end: { amount: Math.ceil(sizes.issuesToOpen / 2 / sizes.rounds) } }
  const opened: number[] = []
  const slowest: number[] = []
  const appends: number[] = []
  for (let i = 0; i < sizes.rounds; i++) {
    const { rate, p99 } = await loadOf(load, round)
    opened.push(rate)
    slowest.push(p99)
    appends.push(await appendRate(dataDir, sizes.seconds))
  }
  const [own, bare] = [median(opened), median(appends)]
  const work = `post an issue, ${CLIENTS} clients`
  const measured = `${perSecond(own)}, p99 ${milliseconds(median(slowest))}`
  return ratioRow(work, measured, `${perSecond(bare)} bare appends`, own / bare, { atLeast: 0.15 })
}
