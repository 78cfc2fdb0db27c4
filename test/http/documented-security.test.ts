/** `/api/openapi.json` says of each read whether it needs credentials, as the server answers. */
import t from 'tap'
import { startTestServer } from '../start-server.ts'

const NAMES: Readonly<Record<string, string>> = {
  owner: 'admin',
  username: 'admin',
  repo: 'app',
  sha: 'main',
  org: 'acme',
}

t.test(
  'security allows anonymous callers where a read of a public resource does not answer 401',
  async (t) => {
    const server = await startTestServer(t)
    const made = [
      ['/api/v1/user/repos', { name: 'app', auto_init: true }],
      ['/api/v1/orgs', { username: 'acme' }],
      ['/api/v1/repos/admin/app/issues', { title: 'first' }],
    ] as const
    for (const [path, body] of made) {
      const answer = await server.fetch('admin', path, { method: 'POST', body: JSON.stringify(body) })
      t.equal(answer.status, 201, path)
    }
    const { paths }: { paths: Record<string, { get?: { security: object[] } }> } = JSON.parse(
      await (await server.fetch(null, '/api/openapi.json')).text(),
    )
    for (const [path, { get }] of Object.entries(paths)) {
      if (get === undefined) continue
      const url = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => NAMES[name] ?? '1')
      const answer = await server.fetch(null, url)
      await answer.arrayBuffer()
      const isOpen = get.security.length === 0 || get.security.some((one) => Object.keys(one).length === 0)
      t.equal(answer.status !== 401, isOpen, path)
    }
  },
)
