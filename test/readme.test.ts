import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { settings } from '../src/config/setting-table.ts'
import { PROGRAM_ENVIRONMENT } from './program.ts'
import { startTestServer } from './start-server.ts'

const run = promisify(execFile)
/** As the first start makes one: it can stand in a URL. */
const PASSWORD = 'a3-newcomers_password'
const file = (name: string) => fileURLToPath(new URL(`../${name}`, import.meta.url))
const readme = await readFile(file('README.md'), 'utf8')

/** Commands of a console block with what the block says that each prints. */
function session(block: string): { command: string; output: string }[] {
  const commands: { command: string; output: string }[] = []
  for (const line of block.split('\n')) {
    const last = commands.at(-1)
    if (line.startsWith('$ ')) commands.push({ command: line.slice(2), output: '' })
    else if (last !== undefined && line !== '') last.output += `${line}\n`
  }
  return commands
}

t.test(
  "README's first session works without a configured git identity, and prints what it says",
  async (t) => {
    const block = /```console\n([\s\S]*?)```/.exec(readme)?.[1] ?? ''
    const commands = session(block)
    t.ok(commands.length > 5)
    const server = await startTestServer(t, { ADMIN_PASSWORD: PASSWORD })
    const { host } = new URL(server.url)
    const separator = '--8<--'
    const script = commands.map(({ command }) => `${command}\necho '${separator}'`).join('\n')
    const { stdout } = await run('bash', ['-e', '-c', script.replaceAll('127.0.0.1:3000', host)], {
      cwd: t.testdir(),
      env: {
        ...PROGRAM_ENVIRONMENT,
        HOME: t.testdirName,
        GIT_CONFIG_NOSYSTEM: '1',
        ADMIN_PASSWORD: PASSWORD,
      },
    })
    const printed = stdout.split(`${separator}\n`)
    commands.forEach(({ command, output }, i) => {
      t.equal(printed[i], output, command)
    })
  },
)

t.test("the README's configuration table is that of the settings", async (t) => {
  for (const { name, default: standard, meaning } of settings) {
    const shown = standard === '' ? '' : `\`${standard}\``
    t.ok(readme.includes(`| \`${name}\` | ${shown} | ${meaning} |`), name)
  }
})

t.test("the README's dependency table names every dependency and no other", async (t) => {
  const { dependencies, devDependencies } = JSON.parse(await readFile(file('package.json'), 'utf8'))
  const table = readme.slice(readme.indexOf('| dependency |'), readme.indexOf('## Licence'))
  const named = [...table.matchAll(/^\| `([^`]+)` \| \S/gm)].map((match) => match[1])
  t.same(named.toSorted(), [...Object.keys(dependencies), ...Object.keys(devDependencies)].toSorted())
})
