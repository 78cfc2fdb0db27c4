/** Finds pushes that move a ref to an object which the repository still has, but which no ref reaches. */
import type { Readable } from 'node:stream'
import type { HeldBody } from './held-body.ts'
import { standardShare } from './limits.ts'
import { objectReaders } from './object-readers.ts'
import type { PushRequest } from './push-request.ts'
import { firstUnreachable, tipsOf } from './reachable.ts'
import type { RefChange } from './refs.ts'
import { git } from './run.ts'
import { withStaging } from './staging.ts'
import { startTransfer, type TransferOptions } from './transfer.ts'

/**
 * Reasons against the refs of a push whose new object exists here, is reached by no ref, and did not come with the push
 * together with its history: it was removed, and an id alone must not bring it back. Most pushes cost one look at the
 * objects that they name. One reason is given for all refs that name objects which are there already.
 *
 * @throws RepositoryMissing, GitUnavailable, SlotsFull
 */
export async function revivals(
  dir: string,
  { commands, packStart }: PushRequest,
  held: HeldBody,
  options: TransferOptions,
): Promise<ReadonlyMap<string, string>> {
  const known = await existing(dir, commands)
  if (known.length === 0) return new Map()
  const ids = known.map(({ id }) => id)
  if ((await firstUnreachable(dir, ids, await tipsOf(dir))) === undefined) return new Map()
  const missing = await notBrought(dir, ids, held.stream(packStart), options)
  if (missing === undefined) return new Map()
  const reason = `no branch or tag has ${missing}, and the push does not bring it`
  return new Map(known.map(({ change }) => [change.ref, reason]))
}

async function existing(dir: string, commands: readonly RefChange[]) {
  const named = commands.flatMap((change) => (change.to === null ? [] : [{ change, id: change.to }]))
  const headers = await objectReaders.headers(
    dir,
    named.map(({ id }) => id),
  )
  return named.filter((_, i) => headers[i] !== undefined)
}

/** An object of the history of `ids` that is neither in the pack nor in what refs reach. */
async function notBrought(
  dir: string,
  ids: readonly string[],
  pack: Readable,
  options: TransferOptions,
): Promise<string | undefined> {
  return await withStaging(dir, async ({ env }) => {
    const { workMs: timeout } = options.share ?? standardShare
    // A pack that is broken brings nothing. git says what is wrong with it when the push is refused.
    await index(pack, timeout, { ...options, env: { ...env, GIT_DIR: dir } })
    const args = ['rev-list', '--objects', '--no-object-names', '--stdin', '--not', '--all']
    const input = ids.map((id) => `${id}\n`).join('')
    const { code, stdout } = await git(args, { dir, env, input, timeout })
    if (code !== 0) return ids[0]
    const own = { GIT_OBJECT_DIRECTORY: env.GIT_OBJECT_DIRECTORY ?? '', GIT_ALTERNATE_OBJECT_DIRECTORIES: '' }
    const answers = await git(['cat-file', '--batch-check'], { dir, env: own, input: stdout, timeout })
    const absent = answers.stdout
      .toString('latin1')
      .split('\n')
      .flatMap((line) => /^([0-9a-f]{40}) missing$/.exec(line)?.[1] ?? [])
    // The client leaves out what it knows to be in a branch, even deep in its history.
    return await firstUnreachable(dir, absent, await tipsOf(dir))
  })
}

/** Stores the objects of a pack in the staging area. */
async function index(
  pack: Readable,
  timeout: number,
  options: TransferOptions & { env: Record<string, string> },
): Promise<void> {
  const transfer = await startTransfer(['index-pack', '--stdin', '--fix-thin'], { ...options, config: [] })
  const timer = setTimeout(transfer.stop, timeout)
  transfer.stdout.resume()
  transfer.stdin.once('close', () => pack.destroy())
  pack.on('error', transfer.stop).pipe(transfer.stdin)
  await transfer.ended
  clearTimeout(timer)
}
