import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { verifyServer } from '../../../src/maintenance/verify/verify.ts'
import { READ_MODELS } from '../../../src/projections/views/views.ts'
import { failAppendsFrom } from '../../failing-log.ts'
import { startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'

t.test('a crash after any append of a transfer leaves it where it was or moves it whole', async (t) => {
  const DATA_DIR = t.testdir()
  let running = await startTestServer(t, { DATA_DIR, LOG_LEVEL: 'fatal' })
  const olga = await running.as('olga')
  await running.as('paul')
  await olga.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  await olga.orgs.orgCreate({ username: 'makers' })
  const units = ['repo.code', 'repo.issues', 'repo.pulls']
  const { data: team } = await olga.orgs.orgCreateTeam('makers', { name: 'crew', permission: 'write', units })

  const request = async (method: string, path: string, body?: object, headers: object = {}) => {
    const json = body && { body: JSON.stringify(body) }
    const type = body && { 'content-type': 'application/json' }
    const init = { method, redirect: 'manual', ...json, headers: { ...type, ...headers } } as const
    return running.fetch('olga', `/api/v1/${path}`, init)
  }
  const status = async (path: string) => (await request('GET', path)).status

  // The appends of a transfer: the claim, the event, the release of the old name, the team.
  for (const n of [1, 2, 3, 4]) {
    const crash = `after append ${n}`
    const send = () =>
      request(
        'POST',
        'repos/olga/app/transfer',
        { new_owner: 'makers', team_ids: [team.id] },
        { 'idempotency-key': crash },
      )
    failAppendsFrom(running.services, n, 'after')
    const answer = (await send()).status
    // After the event the process may have finished, and its appends count, too.
    t.ok(n <= 2 ? answer === 503 : [202, 503].includes(answer), `${crash}: ${answer}`)
    await running.stop()
    running = await startTestServer(t, { DATA_DIR, LOG_LEVEL: 'fatal' })

    const isMoved = n >= 2
    t.equal(await status('repos/olga/app'), isMoved ? 307 : 200, crash)
    t.equal((await status('repos/makers/app')) === 200, isMoved, `${crash}: not in both places`)
    t.equal((await send()).status, 202, `${crash}: retried`)
    t.equal(await status('repos/olga/app'), 307, crash)
    await until('the team has it', async () => {
      return (await (await request('GET', `teams/${team.id}/repos`)).text()).includes('makers/app')
    })
    // A repository of the same name can be created at once, even if the release of the name was lost.
    await until('the old name is free', async () => {
      const made = await request('POST', 'user/repos', { name: 'app' })
      return made.status === 201
    })
    t.equal((await request('DELETE', 'repos/olga/app')).status, 204)
    t.equal((await request('POST', 'repos/makers/app/transfer', { new_owner: 'olga' })).status, 202, crash)
    await until('the team has lost it', async () => {
      return (await (await request('GET', `teams/${team.id}/repos`)).text()) === '[]'
    })
  }
  t.equal((await request('PATCH', 'repos/olga/app', { name: 'tool' })).status, 200)
  t.equal(await status('repos/olga/app'), 307)

  const { events, texts, readStore } = running.services
  const scratchDir = join(t.testdirName, `scratch-${randomUUID()}`)
  await mkdir(scratchDir)
  const { keys } = texts
  const report = await verifyServer({ events, keys, readStore, models: READ_MODELS, scratchDir })
  t.match(report, { sound: true }, 'replayed from the log, everything is the same')
})
