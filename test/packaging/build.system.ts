/** Builds the project as `npm start` does and runs the build: modules have other paths there than in src/. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { program } from '../program.ts'
import { startServerProcess } from '../server-process.ts'
import { ADMIN_PASSWORD } from '../server-template.ts'

const run = promisify(execFile)
const checkout = fileURLToPath(new URL('../..', import.meta.url))

/** Builds a copy of the sources. Returns its directory. */
async function built(): Promise<string> {
  const linked = (name: string) => t.fixture('symlink', join(checkout, name))
  const root = t.testdir({
    'package.json': linked('package.json'),
    node_modules: linked('node_modules'),
    proto: linked('proto'),
    ui: linked('ui'),
    'tsconfig.json': '{}',
    data: {},
  })
  cpSync(join(checkout, 'src'), join(root, 'src'), { recursive: true, filter: (file) => !/\.js/.test(file) })
  await run(process.execPath, [join(checkout, 'scripts/build.js'), 'dist'], { cwd: root })
  return root
}

const root = await built()

t.test('the build finds its own files and its own programs', async (t) => {
  const DATA_DIR = join(root, 'data')
  const { child, url } = await startServerProcess(t, DATA_DIR, {}, { main: join(root, 'dist/main.js') })

  t.equal((await fetch(`${url}/api/v1/version`)).status, 200, 'package.json')
  t.equal((await fetch(`${url}/ui/assets/page.css`)).status, 200, 'ui/')
  const markdown = { method: 'POST', body: JSON.stringify({ Text: '# Built', Mode: 'markdown' }) }
  const authorization = `Basic ${Buffer.from(`admin:${ADMIN_PASSWORD}`).toString('base64')}`
  const headers = { 'content-type': 'application/json', authorization }
  const rendered = await fetch(`${url}/api/v1/markdown`, { ...markdown, headers })
  t.match(await rendered.text(), '<h1', 'the thread that renders')

  const stopped = once(child, 'exit')
  child.kill('SIGTERM')
  await stopped
  const verify = [join(root, 'dist/cli/mergelog.js'), 'verify', '--json']
  const { stdout } = await run(process.execPath, verify, { env: { PATH: process.env.PATH, DATA_DIR } })
  t.match(JSON.parse(stdout), { sound: true }, 'the process that checks files')
})

t.test('a stack names the file and the line of the source', async (t) => {
  const config = pathToFileURL(join(root, 'dist/config/config.js')).href
  const failed = run(process.execPath, [
    '--enable-source-maps',
    program('test/packaging/wrong-setting'),
    config,
  ])
  const at = /src\/config\/config\.ts:(\d+)/.exec(
    await failed.then(
      () => '',
      ({ stderr }) => stderr,
    ),
  )
  const line = readFileSync(join(root, 'src/config/config.ts'), 'utf8').split('\n')[Number(at?.[1]) - 1]
  t.match(line, 'new ConfigError', 'where it was made')
})
