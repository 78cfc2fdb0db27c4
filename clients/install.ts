/** Installs the clients, in the versions of `installed/package-lock.json`, into a folder that later runs use again. */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cp, mkdir, mkdtemp, readFile, rename, rm, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)

const FILES = ['package.json', 'package-lock.json']
const WANTED = fileURLToPath(new URL('installed/', import.meta.url))
const INSTALL = ['ci', '--ignore-scripts', '--omit=optional', '--no-audit', '--no-fund']
/** For the question whether the registry is there. */
const ASK = ['--fetch-retries=1', '--fetch-timeout=20000']

/** An install that takes longer is given up: then the registry is as good as away. */
const MOST_MS = 600_000
const NETWORK = /\b(ECONN\w+|ENOTFOUND|ETIMEDOUT|EAI_AGAIN|ERR_SOCKET_TIMEOUT|E5\d\d|E429)\b/

/** Whether npm failed since it could not reach the registry, or not in time. */
const isAway = (error: unknown) =>
  error instanceof Error &&
  (('killed' in error && error.killed === true) || ('stderr' in error && NETWORK.test(`${error.stderr}`)))

const isThere = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  )

/**
 * Resolves to the folder with `node_modules` of the clients, outside of the checkout; undefined when they are not there
 * and the registry is away. Another run at the same time does no harm. @throws when they cannot be installed
 */
export async function install(): Promise<string | undefined> {
  const hash = createHash('sha256')
  for (const file of FILES) hash.update(await readFile(join(WANTED, file)))
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'mergelog-clients')
  const folder = join(cache, hash.digest('hex').slice(0, 16))
  if (await isThere(folder)) return folder
  const isReached = await run('npm', ['view', ...ASK, 'renovate', 'name']).then(
    () => true,
    () => false,
  )
  if (!isReached) return undefined
  await mkdir(cache, { recursive: true })
  const draft = await mkdtemp(join(cache, 'new-'))
  try {
    for (const file of FILES) await cp(join(WANTED, file), join(draft, file))
    console.log(`test:clients: installing the clients into ${folder}`)
    const isComplete = await run('npm', INSTALL, {
      cwd: draft,
      maxBuffer: 64 * 1024 * 1024,
      timeout: MOST_MS,
    }).then(
      () => true,
      (error: unknown) => {
        if (isAway(error)) return false
        throw error
      },
    )
    if (!isComplete) return undefined
    await rename(draft, folder).catch(async (error: unknown) => {
      // Another run was first.
      if (!(await isThere(folder))) throw error
    })
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
  return folder
}
