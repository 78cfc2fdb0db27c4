/** Clients read pages until one is empty. Each list route must reach that end. */
import t from 'tap'
import { ROWS } from '../auth/route-rows.ts'
import { startWorld } from '../auth/route-world.ts'
import { checksOf, operationsOf, readDocumentation } from './documented.ts'

t.test(
  'api.paging.1: every list pages: no page is longer than its limit, and the page after the last is empty',
  async (t) => {
    const world = await startWorld(t)
    const publicPlace = await world.place('public')
    // Only repositories of an organization have teams.
    const ofOrganization = await world.place('private organization')
    const { text } = await world.send(null, 'GET', '/api/openapi.json')
    const documentation = readDocumentation(text)
    const { problemIn } = checksOf(documentation)
    const lists = operationsOf(documentation).filter(
      ({ method, path, operation }) =>
        method === 'get' &&
        path.startsWith('/api/v1/') &&
        problemIn(operation, { status: 200, type: 'application/json', text: '[]' }) === undefined,
    )
    t.ok(lists.length >= 25, `${lists.length} lists`)
    for (const { path } of lists) {
      const place = path.endsWith('/{repo}/teams') ? ofOrganization : publicPlace
      const route = path.replaceAll('{*}', '*').replaceAll(/\{(.+?)\}/g, ':$1')
      const { path: target = {} } = (await ROWS[`GET ${route}`]?.call?.(place, world)) ?? {}
      const values = { owner: place.owner, repo: place.repo, ...target }
      // One of this route's two answers is a list.
      if (route.endsWith('/commits/*')) Object.assign(values, { '*': 'topic/statuses' })
      const rowsOf = async (query: Record<string, string>) => {
        const { status, text } = await world.send('admin', 'GET', route, { path: values, query })
        t.equal(status, 200, `${route} ${text.slice(0, 100)}`)
        const rows: unknown[] = JSON.parse(text)
        return rows.length
      }
      t.ok((await rowsOf({ limit: '1' })) <= 1, `${route}: one row`)
      t.equal(await rowsOf({ page: '1000' }), 0, `${route}: an empty page`)
    }
  },
)
