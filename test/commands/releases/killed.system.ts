/** After `kill -9` between any two steps of a release, a retry creates it at once after the next start. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { decode } from '../../../src/events/codec.ts'
import { gitStream } from '../../../src/events/streams.ts'
import { killedAfter } from '../../killed-server.ts'
import { passwordOf, startTestServer, statusOf } from '../../start-server.ts'

/** The tags, with the effect after which the server is killed. */
const DEATHS = {
  claimed: /^append ClaimTaken claim-release-/,
  tagged: /^git update-ref .*refs\/tags\/tagged /,
  recorded: /^append RefsUpdated - tag/,
}

t.test('after kill -9 at any step of a release, its retry creates it once, and immediately', async (t) => {
  const DATA_DIR = await mkdtemp(join(tmpdir(), 'mergelog-releases-'))
  t.teardown(() => rm(DATA_DIR, { recursive: true, force: true, maxRetries: 3 }))
  const first = await startTestServer(t, { DATA_DIR })
  const { data } = await (await first.as('alice')).user.createCurrentUserRepo({
    name: 'app',
    auto_init: true,
  })
  const repoId = data.id ?? 0
  await first.stop()
  const authorization = `Basic ${Buffer.from(`alice:${passwordOf('alice')}`).toString('base64')}`
  const headers = { authorization, 'content-type': 'application/json' }
  for (const [tag, effect] of Object.entries(DEATHS)) {
    const body = JSON.stringify({ tag_name: tag, name: `Release ${tag}` })
    await killedAfter(t, DATA_DIR, effect, (url) =>
      fetch(`${url}/api/v1/repos/alice/app/releases`, { method: 'POST', headers, body }),
    )
  }
  const last = await startTestServer(t, { DATA_DIR })
  const alice = await last.as('alice')
  t.same((await alice.repos.repoListReleases('alice', 'app')).data, [], 'no half release')
  for (const tag of Object.keys(DEATHS)) {
    const again = alice.repos.repoCreateRelease('alice', 'app', { tag_name: tag, name: `Release ${tag}` })
    t.equal(await statusOf(again), 201, tag)
  }
  const { data: releases } = await alice.repos.repoListReleases('alice', 'app')
  t.same(releases.map(({ tag_name }) => tag_name).sort(), Object.keys(DEATHS).sort())
  const { data: tags } = await alice.repos.repoListTags('alice', 'app')
  t.same(tags.map(({ name }) => name).sort(), Object.keys(DEATHS).sort())
  const made: string[] = []
  for await (const recorded of last.services.events.readStream(gitStream(repoId))) {
    const event = decode(recorded)
    if (event.type === 'RefsUpdated') made.push(...event.data.refs.map(({ ref }) => ref))
  }
  t.same(
    made.filter((ref) => ref.startsWith('refs/tags/')).sort(),
    Object.keys(DEATHS)
      .map((tag) => `refs/tags/${tag}`)
      .sort(),
    'each tag is recorded once',
  )
})
