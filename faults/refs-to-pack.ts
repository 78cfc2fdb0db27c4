/** Creates refs that maintenance packs, and requests maintenance. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Client, isJson, jsonOf } from './client.ts'

/** Number of loose refs that maintenance packs. */
const REFS = 1000
/** First number of the refs, above the pull requests of a run. The log records no refs of pull requests. */
const FIRST = 1_000_000

/** Creates refs at the tip of `main`, like those of pull requests, and waits until maintenance has ended. */
export async function packRefs(client: Client, dataDir: string): Promise<void> {
  // Without an answer, the server has already reached the point.
  const ask = async (path: string) => {
    const answer = await client.request('GET', path)
    return jsonOf(answer?.status === 200 ? answer.text : '')
  }
  const [{ id }, { commit }] = [await ask(client.path), await ask(`${client.path}/branches/main`)]
  if (typeof id !== 'number' || !isJson(commit)) return
  for (let i = 0; i < REFS; i++) {
    const directory = join(dataDir, 'git', `${id}.git`, 'refs', 'pull', `${FIRST + i}`)
    await mkdir(directory, { recursive: true })
    await writeFile(join(directory, 'head'), `${commit.id}\n`)
  }
  await client.request('POST', '/admin/maintenance', { body: { repository: client.repository } })
}
