/** Checks at start, so that damage and wrong settings do not first fail a request. */
import { createPrivateKey, type KeyObject } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { type Config, ConfigError } from '../config/config.ts'
import { OperatorError } from '../errors/operator-error.ts'
import type { EventStore } from '../events/store/event-store.ts'
import { signingKeyProblem } from '../git/commits/signatures.ts'
import { prepareLaunches } from '../git/process/launcher.ts'
import { gitOutput } from '../git/process/run.ts'
import { installPushHook } from '../git/push/push-hook.ts'
import type { LogSigner } from '../services/log-checkpoints.ts'

const MIN_GIT = { major: 2, minor: 39 }

/**
 * Checks that git can be started, and that it is new enough. Resolves to its version.
 * @throws OperatorError when it isn't, or when no temporary files can be created for its processes
 */
export async function requireGit(): Promise<string> {
  const wanted = `${MIN_GIT.major}.${MIN_GIT.minor}`
  await prepareLaunches().catch((error: unknown) => {
    if (!(error instanceof Error && 'syscall' in error && error.syscall === 'mkdtemp')) throw error
    throw new OperatorError(`TMPDIR must be a writable directory: ${error.message}`)
  })
  const output = await gitOutput(['version']).catch((error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error)
    throw new OperatorError(`${reason}; install git ${wanted} or later, in a directory of PATH`)
  })
  const version = output.toString('utf8').replace('git version ', '').trim()
  if (isOlder(version)) throw new OperatorError(`git ${version} is too old: install ${wanted} or later`)
  return version
}

/** Whether a version is known to be older than `MIN_GIT`. */
function isOlder(version: string): boolean {
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(version) ?? []
  const difference = Number(major) - MIN_GIT.major || Number(minor) - MIN_GIT.minor
  return difference < 0
}

/** Checks that merges can be signed. @throws ConfigError */
export async function requireSigningKey({ signingKey }: Config): Promise<void> {
  const problem = signingKey === undefined ? undefined : await signingKeyProblem(signingKey)
  if (problem !== undefined) throw new ConfigError('SIGNING_KEY', `cannot be used: ${problem}`)
}

/** Reads the key that signs the log; undefined without `LOG_SIGNING_KEY`. @throws ConfigError */
export async function readLogSigner({ logSigningKey, publicUrl }: Config): Promise<LogSigner | undefined> {
  if (logSigningKey === undefined || publicUrl === undefined) return undefined
  const { host, pathname } = new URL(publicUrl)
  // A name of a key must not have a plus sign.
  const origin = `${host}${pathname}`.replace(/\/$/, '').replaceAll('+', '%2B')
  let privateKey: KeyObject
  try {
    privateKey = createPrivateKey(await readFile(logSigningKey))
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    throw new ConfigError('LOG_SIGNING_KEY', `cannot be used: ${problem}`)
  }
  if (privateKey.asymmetricKeyType === 'ed25519') return { origin, privateKey }
  throw new ConfigError(
    'LOG_SIGNING_KEY',
    'is not an Ed25519 key: make one with "openssl genpkey -algorithm ed25519"',
  )
}

/** Checks that git can run the hook of pushes. @throws ConfigError */
export async function requirePushHook(gitDir: string): Promise<void> {
  await installPushHook(gitDir).catch((error: unknown) => {
    const problem = error instanceof Error ? error.message : String(error)
    throw new ConfigError(
      'DATA_DIR',
      `cannot be used: ${problem}; set TMPDIR to a directory where programs can run`,
    )
  })
}

/** Reads the end of the log. @throws BrokenEvent, BrokenFile */
export async function requireReadableEnd(events: EventStore): Promise<void> {
  for await (const _ of events.readAll({ direction: 'backwards', maxCount: 1000 }));
}
