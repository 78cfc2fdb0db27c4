/** Finds the git processes of a repository. */
import { readdir, readFile } from 'node:fs/promises'

/** The ids of the processes of `src/git/objects/object-reader.ts` that read repositories whose paths begin with this text. */
export const readersBelow = (path: string) => processesBelow(path, '--batch-command')

/** The ids of the git processes with this argument that serve repositories whose paths begin with this text. */
async function processesBelow(path: string, argument: string): Promise<number[]> {
  const pids: number[] = []
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const command = await readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '')
    if (!command.includes(argument)) continue
    const environment = await readFile(`/proc/${name}/environ`, 'utf8').catch(() => '')
    if (environment.includes(`GIT_DIR=${path}`)) pids.push(Number(name))
  }
  return pids
}
