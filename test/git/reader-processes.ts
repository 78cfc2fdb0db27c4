/** Finds the processes of `src/git/object-reader.ts`. */
import { readdir, readFile } from 'node:fs/promises'

/** The ids of the processes that read repositories whose paths begin with this text. */
export async function readersBelow(path: string): Promise<number[]> {
  const pids: number[] = []
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const command = await readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '')
    if (!command.includes('--batch-command')) continue
    const environment = await readFile(`/proc/${name}/environ`, 'utf8').catch(() => '')
    if (environment.includes(`GIT_DIR=${path}`)) pids.push(Number(name))
  }
  return pids
}
