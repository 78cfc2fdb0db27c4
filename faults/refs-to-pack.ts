/** Makes refs that maintenance packs, and asks for it. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Client, isJson, jsonOf } from './client.ts'

/** As many loose refs as maintenance packs. */
const REFS = 1000
/** Numbers that no pull request of a run has. The log does not know these refs, as it knows none of pull requests. */
const FIRST = 1_000_000

/** Makes so many refs at the tip of `main`, as if they were of pull requests, and waits until maintenance has ended. */
export async function packRefs(client: Client, dataDir: string): Promise<void> {
  // No answer: the server is at the point already.
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
