import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { gitDirOf } from '../../src/services/services.ts'
import { startTestServer } from '../start-server.ts'

const server = await startTestServer(t, { LOG_LEVEL: 'silent' })
const alice = await server.as('alice')

const commit = async (repo: string, path: string) => {
  const body = JSON.stringify({ content: 'eA==', message: 'm' })
  const answer = await server.fetch('alice', `/api/v1/repos/alice/${repo}/contents/${path}`, {
    method: 'POST',
    body,
  })
  return { status: answer.status, text: await answer.text() }
}

t.test('a repository that is deleted while git works on it gives 404 without another failure', async (t) => {
  const { data } = await alice.user.createCurrentUserRepo({ name: 'going', auto_init: true })
  const dir = gitDirOf(server.services, data.id ?? 0)
  t.equal((await commit('going', 'first/a')).status, 201)
  const objects = join(dir, 'objects')
  for (const name of await readdir(objects)) {
    if (/^[0-9a-f]{2}$/.test(name)) await rm(join(objects, name), { recursive: true })
  }
  t.equal((await commit('going', 'first/b')).status, 500, 'what is damaged is not deleted')
  await rm(join(dir, 'HEAD'))
  const { status, text } = await commit('going', 'first/b')
  t.match([status, text], [404, /repository not found/])
})
