/** Headers of answers without content. */
import t from 'tap'
import { startTestServer } from '../../start-server.ts'

const server = await startTestServer(t, { LOG_LEVEL: 'silent' })
const alice = await server.as('alice')
await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
await alice.repos.repoAddCollaborator('alice', 'app', 'bob', { permission: 'read' })
const repository = '/api/v1/repos/alice/app'

for (const method of ['GET', 'HEAD']) {
  t.test(`${method}: an answer without content (204, 304) has no type and no length`, async (t) => {
    const { headers } = await server.fetch('alice', `${repository}/raw/README.md`, { method })
    t.match(headers.get('content-type'), /^text\/plain/)
    const tag = headers.get('etag') ?? ''
    const { headers: ofArchive } = await server.fetch('alice', `${repository}/archive/main.zip`, { method })
    for (const [path, known] of [
      [`${repository}/collaborators/bob`],
      [`${repository}/raw/README.md`, tag],
      ['/alice/app/raw/branch/main/README.md', tag],
      [`${repository}/archive/main.zip`, ofArchive.get('etag') ?? ''],
    ] as const) {
      const condition = known === undefined ? {} : { 'if-none-match': known }
      const answer = await server.fetch('alice', path, { method, headers: condition })
      t.equal(answer.status, known === undefined ? 204 : 304, path)
      t.equal(answer.headers.get('content-type'), null, path)
      t.equal(answer.headers.get('content-length'), null, path)
      t.equal(answer.headers.get('etag'), known ?? null, path)
      t.equal(await answer.text(), '')
    }
  })
}
