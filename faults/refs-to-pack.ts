/** Makes refs that maintenance packs, and asks for it. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from './client.ts'

/** As many loose refs as maintenance packs. */
const REFS = 1000
/** Numbers that no pull request of a run has. The log does not know these refs, as it knows none of pull requests. */
const FIRST = 1_000_000

/** Makes so many refs at the tip of `main`, as if they were of pull requests, and waits until maintenance has ended. */
export async function packRefs(client: Client, dataDir: string): Promise<void> {
  const answer = await client.request('GET', client.path)
  const [repository, main] = [JSON.parse(answer?.text ?? '{}'), (await client.mainHistory()).at(-1)?.sha]
  if (answer?.status !== 200 || main === undefined) return
  for (let i = 0; i < REFS; i++) {
    const directory = join(dataDir, 'git', `${repository.id}.git`, 'refs', 'pull', `${FIRST + i}`)
    await mkdir(directory, { recursive: true })
    await writeFile(join(directory, 'head'), `${main}\n`)
  }
  await client.request('POST', '/admin/maintenance', { body: { repository: client.repository } })
}
