/**
 * The git hook of a push. It runs when all objects are in quarantine and no ref has moved. It checks the refs that have
 * rules; then it queries this server, which may refuse.
 */
import { createHash, randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { access, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Duplex } from 'node:stream'
import {
  GOOD,
  type TrustedKeys,
  VERDICT,
  verificationConfig,
  writeTrustedKeys,
} from '../commits/signatures.ts'
import type { GitConfig } from '../process/environment.ts'
import { GitUnavailable } from '../process/errors.ts'
import { makeTemporaryDirectory } from '../process/temporary-directories.ts'
import { checkedRef } from '../refs/names.ts'
import type { RefChange } from '../refs/refs.ts'

/** Directory of the hooks, beside the repositories. */
export const HOOKS = 'hooks'

export interface PushHook {
  /** Additional settings for the git process that receives the push. */
  config: GitConfig
  env: Record<string, string>
  /** Removes what the hook needs for this push. Call it when that git process has ended. */
  remove(): Promise<void>
}

/** The protocol between hook and server: one line each. The request names the quarantine directory. */
const ASK = 'ready '
const MAX_ASK_LENGTH = 16 * 1024
const YES = 'yes'
const NO = 'no'

/**
 * The hook. git passes a line `OLD NEW REF` for each ref of a push. The hook can read the pushed objects. Any exit code but
 * 0 refuses the whole push.
 * PUSH_RULES is a directory with the refs that have rules: `signed`, `forward-only`. With BY_REF, refs that break them are
 * listed in `refused`, and the other refs may move.
 * For `signed`, the hook checks every commit that is new to the ref, even if the repository has it already. Otherwise two
 * pushes, the first one to another branch, could bring in an unsigned commit. For a new ref it checks only the commits that
 * are new to the repository.
 * The last lines ask the server. Without an answer, because the server has ended, git moves no ref.
 */
const HOOK = `#!/bin/sh
none=${'0'.repeat(40)}
has_rule() {
  [ -e "$PUSH_RULES/$1" ] || return 1
  grep -Fqx -e "$ref" "$PUSH_RULES/$1"
  case $? in
    0) ;;
    1) return 1 ;;
    *) echo "the rules of $ref can't be checked" >&2; exit 1 ;;
  esac
}
keeps_history() {
  git merge-base --is-ancestor "$old" "$new" </dev/null
  case $? in
    0) return 0 ;;
    1) echo "$ref is protected, and takes only fast-forwards: this is a non-fast-forward" >&2 ;;
    *) echo "the history of $ref can't be checked" >&2 ;;
  esac
  return 1
}
is_signed() {
  if [ "$old" = "$none" ]; then since=--all; else since=$old; fi
  verdict=$(
    { git log --topo-order --reverse --format='${VERDICT}' "$new" --not "$since" -- && echo end; } |
      sed -n -e '/^${GOOD} /d' -e 'p;q'
  )
  [ "$verdict" != end ] || return 0
  if [ -n "$verdict" ]; then
    echo "$ref takes only commits that are signed by a trusted key: commit \${verdict#* } is not" >&2
  else
    echo "the signatures of $ref can't be checked" >&2
  fi
  return 1
}
obeys() {
  [ "$new" != "$none" ] || return 0
  if has_rule forward-only && [ "$old" != "$none" ]; then keeps_history || return 1; fi
  if has_rule signed; then is_signed || return 1; fi
}
if [ -n "$PUSH_RULES" ]; then
  moving=
  while read -r old new ref; do
    if obeys; then moving=yes
    elif [ -n "$BY_REF" ]; then echo "$ref" >>"$PUSH_RULES/refused" || exit 1
    else exit 1
    fi
  done
  [ -n "$moving" ] || exit 1
fi
echo "${ASK}$GIT_QUARANTINE_PATH" >&3 && read -r answer <&3 && [ "$answer" = ${YES} ]
`

/** Runs for each ref after the first hook, and refuses the refs that it has listed. */
const REF_HOOK = `#!/bin/sh
[ -e "$PUSH_RULES/refused" ] || exit 0
grep -Fqx -e "$1" "$PUSH_RULES/refused"
[ $? = 1 ]
`

/** The hook's request to create new refs: see `ref-creation-batch.ts`. */
const MOVE = 'move'

/**
 * Runs when the objects are in place, with the refs that the server creates. The server knows them already, and sends the
 * length of its answer first. Without an answer, git creates none of these refs.
 */
const REF_CREATION_HOOK = `#!/bin/sh
exec 4<&0
cat <&4 >/dev/null 2>&1 &
printf '000eversion=1\\n0000'
echo ${MOVE} >&3 && read -r size <&3 && head -c "$size" <&3
`

/** Subdirectory that also has the hook for each ref. Only pushes that need it pay for its processes. */
const BY_REF = 'by-ref'

/** Directories of installed hooks, by the directory of the repositories. */
const installed = new Map<string, string>()

/**
 * Returns the directory of the hook, and creates it if missing: beside the repositories, or in the system's temporary
 * directory when files there cannot be executed (noexec). git ignores a hook that it may not execute.
 * @throws GitUnavailable when the hook can be executed at neither place
 */
export async function installPushHook(gitDir: string): Promise<string> {
  const known = installed.get(gitDir)
  if (known !== undefined && (await canExecute(known))) return known
  // Named by its content: servers of another version may use the same directory.
  const version = createHash('sha256')
    .update(HOOK)
    .update(REF_HOOK)
    .update(REF_CREATION_HOOK)
    .digest('hex')
    .slice(0, 16)
  const places = [
    () => join(gitDir, HOOKS, version),
    // A fresh private directory: other users can write to the temporary directory.
    () => mkdtemp(join(tmpdir(), 'git-push-')),
  ]
  let cause: unknown
  for (const place of places) {
    try {
      const directory = await place()
      await mkdir(join(directory, BY_REF), { recursive: true })
      if (!(await canExecute(directory))) await writeHooks(directory)
      for (const hook of hooksIn(directory)) await access(hook.path, constants.X_OK)
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

const hooksIn = (directory: string) => [
  { path: join(directory, 'pre-receive'), text: HOOK },
  { path: join(directory, 'proc-receive'), text: REF_CREATION_HOOK },
  { path: join(directory, BY_REF, 'pre-receive'), text: HOOK },
  { path: join(directory, BY_REF, 'update'), text: REF_HOOK },
]

const canExecute = (directory: string) =>
  Promise.all(hooksIn(directory).map(({ path }) => access(path, constants.X_OK))).then(
    () => true,
    () => false,
  )

/** Renames each file into place: another server may write the same hooks at the same time. */
async function writeHooks(directory: string): Promise<void> {
  const draft = join(directory, `new-${randomUUID()}`)
  for (const { path, text } of hooksIn(directory)) {
    await writeFile(draft, text, { mode: 0o700 })
    await rename(draft, path)
  }
}

/** The rules that the hook checks. */
export interface PushRules extends TrustedKeys {
  /** Full names of refs that accept only commits with a good SSH signature by `allowedSigners` or `signingKey`. */
  requireSigned?: readonly string[] | undefined
  /** Full names of refs whose history must not be rewritten. */
  forwardOnly?: readonly string[] | undefined
  /** Whether one refused ref refuses all: the client asked for it, or the push has one ref. */
  isAtomic: boolean
}

/**
 * Prepares the hook of a push into the repository at `dir`. The hook checks refs that have rules, by requests on a fourth
 * stream of the process.
 * @throws SigningFailed or GitUnavailable when the rules can't be checked
 */
export async function preparePushHook(
  dir: string,
  commands: readonly RefChange[],
  { requireSigned = [], forwardOnly = [], isAtomic, ...keys }: PushRules,
): Promise<PushHook> {
  const hooks = await installPushHook(dirname(dir))
  const moving = new Set(commands.flatMap(({ ref, to }) => (to === null ? [] : [ref])))
  const signed = requireSigned.filter((ref) => moving.has(ref))
  const rules = { signed, 'forward-only': forwardOnly.filter((ref) => moving.has(ref)) }
  if (Object.values(rules).every((refs) => refs.length === 0)) {
    return { config: [['core.hooksPath', hooks]], env: {}, remove: async () => undefined }
  }
  const directory = await makeTemporaryDirectory()
  // Ignores errors: leftover files matter less than the answer to the push.
  const remove = () => rm(directory, { recursive: true, force: true }).catch(() => undefined)
  try {
    const signers = signed.length === 0 ? [] : verificationConfig(await writeTrustedKeys(directory, keys))
    for (const [name, refs] of Object.entries(rules)) {
      if (refs.length === 0) continue
      await writeFile(join(directory, name), refs.map((ref) => `${checkedRef(ref)}\n`).join(''))
    }
    return {
      config: [['core.hooksPath', isAtomic ? hooks : join(hooks, BY_REF)], ...signers],
      env: { PUSH_RULES: directory, ...(!isAtomic && { BY_REF: 'yes' }) },
      remove,
    }
  } catch (error) {
    await remove()
    throw error
  }
}

/**
 * Resolves to the quarantine directory in the request of the hook; empty for a push without a pack. Resolves to undefined when
 * the process ends without a request.
 */
export function hookRequest(channel: Duplex): Promise<string | undefined> {
  return new Promise((resolve) => {
    let received = ''
    channel.on('data', (chunk: Buffer) => {
      // Only the hook writes here. Longer input is not a request.
      if (received.length < MAX_ASK_LENGTH) received += chunk.toString()
      if (received.startsWith(ASK) && received.endsWith('\n')) resolve(received.slice(ASK.length, -1))
    })
    channel.on('error', () => resolve(undefined))
    channel.on('close', () => resolve(undefined))
  })
}

/** Answers the hook. Unless `yes`, git moves no ref of the push. */
export function answerHook(channel: Duplex, yes: boolean): void {
  channel.write(`${yes ? YES : NO}\n`)
}

/**
 * Resolves when git is about to create the new refs that are left to the server, see `answerRefCreation`. Call it before
 * `answerHook`.
 */
export function hookCreatesRefs(channel: Duplex): Promise<void> {
  return new Promise((resolve) => {
    let received = ''
    channel.on('data', (chunk: Buffer) => {
      if (received.length < MAX_ASK_LENGTH) received += chunk.toString()
      if (received === `${MOVE}\n`) resolve()
    })
  })
}

/** Answers the `proc-receive` hook, in packets. */
export function answerRefCreation(channel: Duplex, packets: Buffer): void {
  channel.write(Buffer.concat([Buffer.from(`${packets.length}\n`), packets]))
}
