/** What is looked at when a server starts, so that damage and wrong settings don't first show in a request. */
import { type Config, ConfigError } from './config.ts'
import type { EventStore } from './events/event-store.ts'
import { installPushHook } from './git/push-hook.ts'
import { signingKeyProblem } from './git/signatures.ts'

/** Checks that merges can be signed. @throws ConfigError */
export async function requireSigningKey({ signingKey }: Config): Promise<void> {
  const problem = signingKey === undefined ? undefined : await signingKeyProblem(signingKey)
  if (problem !== undefined) throw new ConfigError('SIGNING_KEY', `cannot be used: ${problem}`)
}

/** Checks that git can run the hook of pushes. @throws ConfigError */
export async function requirePushHook(gitDir: string): Promise<void> {
  await installPushHook(gitDir).catch((error: unknown) => {
    const problem = error instanceof Error ? error.message : String(error)
    throw new ConfigError(
      'DATA_DIR',
      `cannot be used: ${problem}; set TMPDIR to a directory where files can be`,
    )
  })
}

/** Reads the end of the log. @throws BrokenEvent, BrokenFile */
export async function requireReadableEnd(events: EventStore): Promise<void> {
  for await (const _ of events.readAll({ direction: 'backwards', maxCount: 1000 }));
}
