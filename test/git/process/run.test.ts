// In a process of its own: it changes the environment.
import { existsSync } from 'node:fs'
import t from 'tap'
import { gitEnvironment } from '../../../src/git/process/environment.ts'
import { git, gitOutput } from '../../../src/git/process/run.ts'
import { userGit } from '../client.ts'

t.test('git sees neither the configuration nor the secrets of the machine', async (t) => {
  process.env.GIT_DIR = '/nowhere'
  process.env.SOME_PASSWORD = 'secret'
  t.teardown(() => {
    delete process.env.GIT_DIR
    delete process.env.SOME_PASSWORD
  })
  const environment = gitEnvironment()
  t.notHas(environment, { GIT_DIR: String })
  t.notHas(environment, { SOME_PASSWORD: String })
  const scopes = (await gitOutput(['config', '--list', '--show-scope'])).toString().trim().split('\n')
  t.ok(
    scopes.every((line) => line.startsWith('command')),
    scopes.join(),
  )
})

t.test('arguments reach git unchanged, never through a shell', async (t) => {
  const dir = t.testdir()
  await git(['rev-parse', '--parseopt', '--', `$(touch ${dir}/pwned)`, `; touch ${dir}/pwned`])
  t.notOk(existsSync(`${dir}/pwned`))
})

t.test('a command gives its code, output and error text, or a typed error', async (t) => {
  const dir = t.testdir()
  await userGit('/', ['init', '-q', '--bare', dir])
  const blob = await gitOutput(['hash-object', '-w', '--stdin'], { dir, input: 'hello' })
  const result = await git(['cat-file', '-p', blob.toString().trim()], { dir })
  t.same({ code: result.code, text: result.stdout.toString() }, { code: 0, text: 'hello' })
  t.match(await git(['cat-file', '-e', 'a'.repeat(40)], { dir }), { code: 1 })
  await t.rejects(gitOutput(['cat-file', '-p', 'nothing'], { dir }), {
    name: 'GitFailed',
    code: 128,
    stderr: /Not a valid object name/,
  })
  await t.rejects(git(['for-each-ref'], { dir: `${dir}/none` }), { name: 'RepositoryMissing' })
})

t.test(
  'a command with too much output, after its time limit, or with an aborted signal is ended',
  async (t) => {
    const dir = t.testdir()
    await userGit('/', ['init', '-q', '--bare', dir])
    const blob = (await gitOutput(['hash-object', '-w', '--stdin'], { dir, input: Buffer.alloc(3e6) }))
      .toString()
      .trim()
    await t.rejects(git(['cat-file', 'blob', blob], { dir, maxOutput: 1e6 }), { name: 'GitOutputTooLarge' })
    let seen = 0
    await git(['cat-file', 'blob', blob], { dir, maxOutput: 10, onOutput: (chunk) => (seen += chunk.length) })
    t.equal(seen, 3e6, 'streamed output has no limit')
    // git starts a helper process here, which must end too.
    const endless = ['-c', 'alias.wait=!sleep 30', 'wait']
    await t.rejects(git(endless, { timeout: 100 }), { name: 'GitTookTooLong', message: /more than 100 ms/ })
    const abort = new AbortController()
    const aborted = t.rejects(git(endless, { signal: abort.signal }), { message: 'shutting down' })
    abort.abort(new Error('shutting down'))
    await aborted
  },
)

t.test('all commands run, even if there are more than slots', async (t) => {
  const results = await Promise.all(Array.from({ length: 60 }, () => git(['version'])))
  t.ok(results.every(({ code }) => code === 0))
})
