/** Whether what a branch changes is still the same after it has moved. */
import { GitFailed } from './errors.ts'
import { checkedId } from './names.ts'
import { git } from './run.ts'

const TIMEOUT_MS = 30_000

/**
 * Whether the branch changes other files, or in another way, than before: whether a file at `to` is neither as it was at
 * `from` nor as it is at `base`. A rebase, or a merge of the base, changes nothing if that is all.
 *
 * @throws GitFailed when one of the commits does not exist, and what `git` throws
 */
export async function hasContentChanged(
  dir: string,
  { from, to, base }: { from: string; to: string; base: string },
): Promise<boolean> {
  for (const id of [from, to, base]) checkedId(id)
  if (from === to) return false
  // Of three commits git lists the files that differ in the first one from both others.
  const args = ['diff', '--no-ext-diff', '--no-textconv', '--name-only', '-z', to, from, base, '--']
  const found = new AbortController()
  const onOutput = () => found.abort()
  try {
    const { code, stderr } = await git(args, { dir, onOutput, signal: found.signal, timeout: TIMEOUT_MS })
    if (code !== 0) throw new GitFailed(args, code, stderr)
    return found.signal.aborted
  } catch (error) {
    if (found.signal.aborted) return true
    throw error
  }
}
