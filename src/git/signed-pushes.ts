/** Checks the signatures of pushed commits with a git hook, while git has the commits in quarantine. */
import { constants } from 'node:fs'
import { access, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { GitConfig } from './environment.ts'
import { GitUnavailable } from './errors.ts'
import { checkedRef } from './names.ts'
import type { RefChange } from './refs.ts'
import { GOOD, type TrustedKeys, VERDICT, verificationConfig, writeTrustedKeys } from './signatures.ts'

export interface SignatureCheck {
  /** Additional settings for the git process that receives the push. */
  config: GitConfig
  env: Record<string, string>
  /** Removes the hook. Call it when that git process has ended. */
  remove(): Promise<void>
}

const NO_CHECK: SignatureCheck = { config: [], env: {}, remove: async () => undefined }

/**
 * The hook. git gives it a line for each ref of a push, `OLD NEW REF`. The hook can read the pushed objects. git
 * refuses the whole push unless the hook ends with 0.
 *
 * The hook checks every commit that is new to the ref, even if the repository has it already. Otherwise two
 * pushes, the first one to another branch, could bring in an unsigned commit. For a new ref it checks only the
 * commits that are new to the repository.
 */
const HOOK = `#!/bin/sh
none=${'0'.repeat(40)}
while read -r old new ref; do
  [ "$new" != "$none" ] || continue
  grep -Fqx -e "$ref" "$SIGNED_REFS"
  case $? in
    0) ;;
    1) continue ;;
    *) echo "the signatures can't be checked" >&2; exit 1 ;;
  esac
  if [ "$old" = "$none" ]; then since=--all; else since=$old; fi
  verdict=$(
    { git log --topo-order --reverse --format='${VERDICT}' "$new" --not "$since" -- && echo end; } |
      sed -n -e '/^${GOOD} /d' -e 'p;q'
  )
  [ "$verdict" != end ] || continue
  if [ -n "$verdict" ]; then
    echo "$ref takes only commits that are signed by a trusted key: commit \${verdict#* } is not" >&2
  else
    echo "the signatures of $ref can't be checked" >&2
  fi
  exit 1
done
exit 0
`

/**
 * Prepares the check of a push. Does nothing when the push moves none of the refs that require signatures.
 *
 * @throws SigningFailed or GitUnavailable when it can't be checked
 */
export async function prepareSignatureCheck(
  commands: readonly RefChange[],
  { requireSigned = [], ...keys }: TrustedKeys & { requireSigned?: readonly string[] | undefined },
): Promise<SignatureCheck> {
  const required = new Set(requireSigned)
  const refs = commands.filter(({ ref, to }) => to !== null && required.has(ref)).map(({ ref }) => ref)
  if (refs.length === 0) return NO_CHECK
  // In the system's temporary directory: git's process may outlive ours and must still find the hook.
  const directory = await mkdtemp(join(tmpdir(), 'git-push-'))
  // Ignore errors: leftover files matter less than the answer to the push.
  const remove = () => rm(directory, { recursive: true, force: true }).catch(() => undefined)
  try {
    const signersFile = await writeTrustedKeys(directory, keys)
    const refsFile = join(directory, 'refs')
    await writeFile(refsFile, refs.map((ref) => `${checkedRef(ref)}\n`).join(''))
    const hook = join(directory, 'pre-receive')
    await writeFile(hook, HOOK, { mode: 0o700 })
    // git ignores a hook that it may not execute, for example on a file system mounted with noexec.
    await access(hook, constants.X_OK).catch((cause: unknown) => {
      throw new GitUnavailable(`${hook} can't be executed, so signatures can't be checked`, { cause })
    })
    return {
      config: [['core.hooksPath', directory], ...verificationConfig(signersFile)],
      env: { SIGNED_REFS: refsFile },
      remove,
    }
  } catch (error) {
    await remove()
    throw error
  }
}
