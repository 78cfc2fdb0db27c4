/**
 * The git hook of a push. git has all objects then, in quarantine, and has moved no ref. The hook checks the signatures
 * of the commits; then it asks this server, which may say no.
 */
import { createHash, randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { access, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Duplex } from 'node:stream'
import type { GitConfig } from './environment.ts'
import { GitUnavailable } from './errors.ts'
import { checkedRef } from './names.ts'
import type { RefChange } from './refs.ts'
import { GOOD, type TrustedKeys, VERDICT, verificationConfig, writeTrustedKeys } from './signatures.ts'

export interface PushHook {
  /** Additional settings for the git process that receives the push. */
  config: GitConfig
  env: Record<string, string>
  /** Removes what the hook needs for this push. Call it when that git process has ended. */
  remove(): Promise<void>
}

/** What the hook and this server say to each other, each in one line. The question names git's place for the objects. */
const QUESTION = 'ready '
const MAX_QUESTION = 16 * 1024
const YES = 'yes'
const NO = 'no'

/**
 * The hook. git gives it a line for each ref of a push, `OLD NEW REF`. The hook can read the pushed objects. git
 * refuses the whole push unless the hook ends with 0.
 *
 * The hook checks every commit that is new to the ref, even if the repository has it already. Otherwise two
 * pushes, the first one to another branch, could bring in an unsigned commit. For a new ref it checks only the
 * commits that are new to the repository.
 *
 * The last lines ask. Without an answer, since this server has ended, git moves no ref.
 */
const HOOK = `#!/bin/sh
none=${'0'.repeat(40)}
[ -s "$SIGNED_REFS" ] && while read -r old new ref; do
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
echo "${QUESTION}$GIT_QUARANTINE_PATH" >&3 && read -r answer <&3 && [ "$answer" = ${YES} ]
`

/** The directory of the hook, by the directory of the repositories. */
const installed = new Map<string, string>()

/**
 * The directory that has the hook, made when it is missing: beside the repositories, or in the system's temporary
 * directory when nothing can be executed there, as on a file system mounted with noexec. git ignores a hook that it may
 * not execute.
 *
 * @throws GitUnavailable when the hook can be executed at neither place
 */
export async function installPushHook(gitDir: string): Promise<string> {
  const known = installed.get(gitDir)
  if (known !== undefined && (await canExecute(known))) return known
  // Its name follows from its text: servers of another version may use the same directory.
  const version = createHash('sha256').update(HOOK).digest('hex').slice(0, 16)
  const places = [
    () => join(gitDir, 'hooks', version),
    // Nobody else may have been there before.
    () => mkdtemp(join(tmpdir(), 'git-push-')),
  ]
  let cause: unknown
  for (const place of places) {
    try {
      const directory = await place()
      await mkdir(directory, { recursive: true })
      if (!(await canExecute(directory))) await writeHook(directory)
      await access(hookIn(directory), constants.X_OK)
      installed.set(gitDir, directory)
      return directory
    } catch (error) {
      cause = error
    }
  }
  throw new GitUnavailable(
    `no file can be executed in ${gitDir} or ${tmpdir()}, so pushes can't be checked`,
    {
      cause,
    },
  )
}

const hookIn = (directory: string) => join(directory, 'pre-receive')

const canExecute = (directory: string) =>
  access(hookIn(directory), constants.X_OK).then(
    () => true,
    () => false,
  )

/** Another server may write the same hook at the same time. */
async function writeHook(directory: string): Promise<void> {
  const draft = join(directory, `new-${randomUUID()}`)
  await writeFile(draft, HOOK, { mode: 0o700 })
  await rename(draft, hookIn(directory))
}

/**
 * Prepares the hook of a push into the repository at `dir`: to check the signatures of the refs that require them, and
 * to ask on a fourth stream of the process.
 *
 * @throws SigningFailed or GitUnavailable when it can't be checked
 */
export async function preparePushHook(
  dir: string,
  commands: readonly RefChange[],
  { requireSigned = [], ...keys }: TrustedKeys & { requireSigned?: readonly string[] | undefined },
): Promise<PushHook> {
  const hooksPath = ['core.hooksPath', await installPushHook(dirname(dir))] as const
  const required = new Set(requireSigned)
  const refs = commands.filter(({ ref, to }) => to !== null && required.has(ref)).map(({ ref }) => ref)
  if (refs.length === 0) return { config: [hooksPath], env: {}, remove: async () => undefined }
  // In the system's temporary directory: git's process may outlive ours and must still find the keys.
  const directory = await mkdtemp(join(tmpdir(), 'git-push-'))
  // Ignore errors: leftover files matter less than the answer to the push.
  const remove = () => rm(directory, { recursive: true, force: true }).catch(() => undefined)
  try {
    const signers = verificationConfig(await writeTrustedKeys(directory, keys))
    const refsFile = join(directory, 'refs')
    await writeFile(refsFile, refs.map((ref) => `${checkedRef(ref)}\n`).join(''))
    return { config: [hooksPath, ...signers], env: { SIGNED_REFS: refsFile }, remove }
  } catch (error) {
    await remove()
    throw error
  }
}

/**
 * Resolves when the hook asks, to the directory of the pushed objects; it is empty for a push without a pack. Resolves to
 * undefined when the process ends without a question.
 */
export function hookAsks(channel: Duplex): Promise<string | undefined> {
  return new Promise((resolve) => {
    let said = ''
    channel.on('data', (chunk: Buffer) => {
      // Nothing but the hook writes here. What is longer than a question is none.
      if (said.length < MAX_QUESTION) said += chunk.toString()
      if (said.startsWith(QUESTION) && said.endsWith('\n')) resolve(said.slice(QUESTION.length, -1))
    })
    channel.on('error', () => resolve(undefined))
    channel.on('close', () => resolve(undefined))
  })
}

/** Answers the hook. Without a yes, git moves no ref of the push. */
export function answerHook(channel: Duplex, yes: boolean): void {
  channel.write(`${yes ? YES : NO}\n`)
}
