import type { Issue, User } from 'gitea-js'
import t from 'tap'
import { rawClient } from '../http/raw-client.ts'
import { basic } from '../server-template.ts'
import { startTestServer } from '../start-server.ts'

t.test('Sudo acts as that user for site admins, and gives 403 to others', async (t) => {
  const server = await startTestServer(t)
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'app', private: true })
  const ask = async (login: string | null, path: string, sudo?: string, body?: object) => {
    const headers = new Headers(sudo === undefined ? {} : { sudo })
    const init = body === undefined ? { headers } : { headers, method: 'POST', body: JSON.stringify(body) }
    return server.fetch(login, `/api/v1${path}`, init)
  }
  const loginOf = async (answer: Response) => {
    const user: User = JSON.parse(await answer.text())
    return user.login
  }

  t.equal(await loginOf(await ask('admin', '/user', 'Alice')), 'alice', 'the header')
  t.equal(await loginOf(await ask('admin', '/user?sudo=bob', 'alice')), 'bob', 'the parameter comes first')
  t.equal(await loginOf(await ask('admin', '/user?sudo=')), 'admin', 'an empty one names nobody')

  t.equal((await ask('bob', '/user', 'alice')).status, 403)
  t.equal((await ask('bob', '/repos/alice/app', 'alice')).status, 403)
  t.equal((await ask(null, '/version', 'alice')).status, 403, 'also without signing in')
  t.equal((await ask('admin', '/user', 'nobody')).status, 404)
  t.equal((await ask('admin', '/user?sudo=alice&sudo=bob')).status, 400)
  t.equal((await ask('admin', '/repos/alice/app', 'bob')).status, 404, 'only what that user may see')
  t.equal((await ask('admin', '/admin/users', 'bob')).status, 403)

  await t.test('Sudo holds for every form of a path', async (t) => {
    const forms = ['/api/v1/user', '/%61pi/v1/user', '/api/%761/user', `${server.url}/api/v1/user`]
    for (const path of forms) {
      for (const [target, header] of [
        [path, 'Sudo: alice\r\n'],
        [`${path}?sudo=alice`, ''],
      ] as const) {
        const head = `Host: a\r\nConnection: close\r\nAuthorization: ${basic('admin')}\r\n${header}`
        const client = rawClient(t, server.url, `GET ${target} HTTP/1.1\r\n${head}\r\n`)
        await client.closed()
        t.match(client.text(), /"login":"alice"/, target)
      }
    }
  })

  await t.test('the history shows the acting admin', async (t) => {
    const opened = await ask('admin', '/repos/alice/app/issues', 'alice', { title: 'By an admin' })
    t.equal(opened.status, 201)
    const { user, number }: Issue = JSON.parse(await opened.text())
    t.equal(user?.login, 'alice')
    const history = await ask('alice', `/repos/alice/app/issues/${number}/history`)
    const [{ actor, sudo }] = JSON.parse(await history.text())
    t.equal(actor.login, 'alice')
    t.equal(sudo.login, 'admin')
    await ask('alice', '/repos/alice/app/issues', undefined, { title: 'By alice' })
    const own = JSON.parse(await (await ask('alice', '/repos/alice/app/issues/2/history')).text())
    t.notOk('sudo' in own[0])
  })

  await t.test(
    'a token acts in the name of others only with the scope of admins, at the level of the route',
    async (t) => {
      const withScopes = async (...scopes: string[]) => {
        const option = { name: scopes.join(), scopes }
        const made = await server.fetch('admin', '/api/v1/users/admin/tokens', {
          method: 'POST',
          body: JSON.stringify(option),
        })
        const { sha1 }: { sha1: string } = JSON.parse(await made.text())
        return async (method: string, path: string, sudo: string, body?: object) => {
          const headers = { authorization: `token ${sha1}`, sudo }
          const init = { method, headers, ...(body && { body: JSON.stringify(body) }) }
          return (await server.fetch(null, `/api/v1${path}`, init)).status
        }
      }
      const issue = { title: 'By a token' }
      const issues = '/repos/alice/app/issues'
      const none = await withScopes('write:issue', 'write:user')
      t.equal(await none('GET', '/user', 'alice'), 403)
      t.equal(await none('GET', '/user', 'nobody'), 403, 'it does not tell who there is either')
      t.equal(await none('POST', issues, 'alice', issue), 403)
      const reads = await withScopes('write:issue', 'read:user', 'read:admin')
      t.equal(await reads('GET', '/user', 'alice'), 200)
      t.equal(await reads('POST', issues, 'alice', issue), 403)
      const writes = await withScopes('write:issue', 'write:admin')
      t.equal(await writes('POST', issues, 'alice', issue), 201)
      t.equal(await writes('GET', '/user', 'alice'), 403, 'the scope of the route is needed, too')
    },
  )

  await t.test(
    'a live history that a site admin reads as a user ends when the admin is demoted',
    async (t) => {
      const admin = await server.as('admin')
      await server.as('carol')
      await admin.admin.adminEditUser('carol', { source_id: 0, login_name: 'carol', admin: true })
      const live = await server.fetch('carol', '/api/v1/repos/alice/app/history', {
        headers: { sudo: 'alice', accept: 'text/event-stream' },
      })
      t.equal(live.status, 200)
      const text = live.text().catch(() => '')
      await admin.admin.adminEditUser('carol', { source_id: 0, login_name: 'carol', admin: false })
      await ask('alice', '/repos/alice/app/issues', undefined, { title: 'After the end' })
      t.notMatch(await text, 'After the end')
    },
  )

  await t.test('Sudo for an account without permission to sign in is refused', async (t) => {
    const admin = await server.as('admin')
    await admin.admin.adminEditUser('bob', { source_id: 0, login_name: 'bob', prohibit_login: true })
    t.equal((await ask('admin', '/user', 'bob')).status, 403)
  })

  await t.test('git and the pages ignore Sudo', async (t) => {
    const refs = await server.fetch('bob', '/alice/app.git/info/refs?service=git-upload-pack&sudo=alice')
    t.not(refs.status, 200)
    const asAdmin = await server.fetch('admin', '/ui/alice/app/pulls/1?sudo=bob')
    t.equal(asAdmin.status, 404, 'there is no such pull request')
  })
})
