/** A registry of npm with a few fixed packages, so that what a client finds there is the same in each run. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type t from 'tap'

/** Starts it; it stops when the test ends. `packages`: the versions of each package, the newest last. */
export async function startRegistry(
  test: Pick<typeof t, 'teardown'>,
  packages: Readonly<Record<string, readonly string[]>>,
): Promise<string> {
  const server = createServer((request, response) => {
    const name = decodeURIComponent(request.url?.slice(1).split('?')[0] ?? '')
    const versions = Object.hasOwn(packages, name) ? (packages[name] ?? []) : undefined
    response.setHeader('content-type', 'application/json')
    if (versions === undefined) {
      response.statusCode = 404
      response.end('{"error":"not found"}')
      return
    }
    response.end(
      JSON.stringify({
        name,
        'dist-tags': { latest: versions.at(-1) },
        versions: Object.fromEntries(
          versions.map((version) => [version, { name, version, dist: { tarball: '', shasum: '' } }]),
        ),
        // Long ago: some clients wait some days before they take a version.
        time: Object.fromEntries(versions.map((version, i) => [version, `20${10 + i}-01-01T00:00:00.000Z`])),
      }),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  test.teardown(() => new Promise((resolve) => server.close(resolve).closeAllConnections()))
  const { port } = addressOf(server.address())
  return `http://127.0.0.1:${port}/`
}

function addressOf(address: string | AddressInfo | null): AddressInfo {
  if (address === null || typeof address === 'string') throw new Error('the registry has no port')
  return address
}
