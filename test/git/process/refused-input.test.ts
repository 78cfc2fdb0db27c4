import t from 'tap'
import {
  GitFailed,
  GitUnavailable,
  MalformedGitRequest,
  RepositoryMissing,
} from '../../../src/git/process/errors.ts'
import { failureByInput } from '../../../src/git/process/refused-input.ts'

const failure = (stderr: string) => failureByInput(['upload-pack', 'x.git'], { code: 128, stderr })
const ended = (signal: string) =>
  failureByInput(['receive-pack', 'x.git'], { code: null, signal, stderr: '' })

t.test("git's refusals are client errors, whatever their words", async (t) => {
  const words = [
    'fatal: no commits selected for shallow requests\n',
    'fatal: git upload-pack: filtering capability not negotiated\n',
    'fatal: words of a later version\n',
    'warning: something\nfatal: words of a later version\n',
    '',
  ]
  for (const stderr of words) t.type(await failure(stderr), MalformedGitRequest, stderr)
})

t.test("a client cannot cause a server error by repeating git's words", async (t) => {
  const said = [
    'No space left on device',
    'x: Permission denied',
    'x\nfatal: unable to read x',
    'not a git repository',
  ]
  for (const text of said) {
    for (const before of [
      "fatal: unexpected line: '",
      'fatal: invalid shallow line: ',
      'fatal: git upload-pack: ambiguous deepen-not: ',
      "fatal: error: unsupported object format '",
      "fatal: '",
    ])
      t.type(await failure(`${before}${text}\n`), MalformedGitRequest, before + text)
  }
})

t.test('a damaged repository and a failing host are server errors', async (t) => {
  const damage = [
    'error: inflate: data stream error (incorrect header check)\nfatal: loose object 12 is corrupt\n',
    'fatal: bad object refs/heads/main\n',
    'error: object file x is empty\n',
    'fatal: unable to read tree 12\n',
    'BUG: upload-pack.c:12: unreachable\n',
  ]
  for (const stderr of damage) t.type(await failure(stderr), GitFailed, stderr)
  const trouble = [
    "fatal: could not open 'x' for reading: Input/output error\n",
    'fatal: opening x: Permission denied\n',
    'fatal: write error: No space left on device\n',
  ]
  for (const stderr of trouble) t.type(await failure(stderr), GitUnavailable, stderr)
  t.type(await failure("fatal: not a git repository: 'x.git'\n"), RepositoryMissing)
  t.type(await failure("fatal: 'x.git' does not appear to be a git repository\n"), RepositoryMissing)
})

t.test('a fault signal in git is caused by the input, any other signal by the host', async (t) => {
  for (const signal of ['SIGSEGV', 'SIGABRT', 'SIGFPE', 'SIGILL'])
    t.type(await ended(signal), MalformedGitRequest)
  for (const signal of ['SIGKILL', 'SIGTERM', 'SIGBUS', 'SIGXFSZ'])
    t.type(await ended(signal), GitUnavailable)
})
