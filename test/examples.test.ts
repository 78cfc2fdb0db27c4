import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { PROGRAM_ENVIRONMENT } from './program.ts'
import { startTestServer } from './start-server.ts'

const run = promisify(execFile)
/** As the first start makes one: it can stand in a URL. */
const PASSWORD = 'a3-newcomers_password'
const file = (name: string) => fileURLToPath(new URL(`../${name}`, import.meta.url))

interface Example {
  command: string
  output: string
}

/** Commands of a console block, with the expected output of each. */
function session(block: string): Example[] {
  const commands: Example[] = []
  for (const line of block.split('\n')) {
    const last = commands.at(-1)
    if (line.startsWith('$ ')) commands.push({ command: line.slice(2), output: '' })
    else if (last !== undefined && line !== '') last.output += `${line}\n`
  }
  return commands
}

/** Commands of all console blocks of a document. */
async function commandsOf(name: string) {
  const text = await readFile(file(name), 'utf8')
  return [...text.matchAll(/```console\n([\s\S]*?)```/g)].flatMap(([, block = '']) => session(block))
}

const first = await commandsOf('README.md')
const SEPARATOR = '--8<--'

/** Runs a document's console examples after README's first session, as a reader does. */
async function checkExamples(t: Test, commands: readonly Example[]): Promise<void> {
  t.ok(commands.length > 0)
  const server = await startTestServer(t, { ADMIN_PASSWORD: PASSWORD })
  const { host } = new URL(server.url)
  const script = commands.map(({ command }) => `${command}\necho '${SEPARATOR}'`).join('\n')
  const { stdout } = await run('bash', ['-c', script.replaceAll('127.0.0.1:3000', host)], {
    cwd: t.testdir(),
    env: {
      ...PROGRAM_ENVIRONMENT,
      HOME: t.testdirName,
      GIT_CONFIG_NOSYSTEM: '1',
      ADMIN_PASSWORD: PASSWORD,
    },
  })
  const printed = stdout.split(`${SEPARATOR}\n`)
  commands.forEach(({ command, output }, i) => {
    t.equal(printed[i]?.replace(/\n?$/, '\n').replace(/^\n$/, ''), output, command)
  })
}

t.test(
  "README's first session works without a configured git identity, and prints the documented output",
  (t) => checkExamples(t, first),
)

for (const page of ['history', 'erasure', 'upgrade-queries']) {
  t.test(`the examples of docs/${page}.md work after the first session`, async (t) =>
    checkExamples(t, [...first, ...(await commandsOf(`docs/${page}.md`))]),
  )
}

t.test('the grpcurl examples of docs/upgrade-queries.md name methods of the service', async (t) => {
  const proto = await readFile(file('proto/sdk/upgrade/v1beta1/query.proto'), 'utf8')
  const methods = [...proto.matchAll(/rpc (\w+)\(/g)].map(([, name = '']) => name)
  const page = await readFile(file('docs/upgrade-queries.md'), 'utf8')
  const named = [...page.matchAll(/grpcurl .*v1beta1\.Query\/(\w+)/g)].map(([, name = '']) => name)
  t.ok(named.length > 2)
  for (const name of named) t.ok(methods.includes(name), name)
})
