import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { backup } from '../../src/maintenance/backup/backup.ts'
import { type DataFormat, OWN_FORMAT } from '../../src/storage/data-format.ts'
import { VERSION } from '../../src/storage/version.ts'
import { mergelog } from '../cli/command-line.ts'
import { startTestServer } from '../start-server.ts'

const file = (dataDir: string) => join(dataDir, 'format.json')
const formatIn = async (dataDir: string): Promise<DataFormat> =>
  JSON.parse(await readFile(file(dataDir), 'utf8'))

t.test(
  'a start logs version, node, git and stores in one line, and upgrades the data of another version',
  async (t) => {
    const dataDir = t.testdir()
    const lines: Record<string, unknown>[] = []
    const log = { write: (line: string) => void lines.push(JSON.parse(line)) }
    const start = async () => {
      lines.length = 0
      const server = await startTestServer(t, { DATA_DIR: dataDir, LOG_LEVEL: 'info' }, log)
      await server.stop()
      return lines.map(({ msg }) => `${msg}`)
    }
    const said = await start()
    t.equal(said[0], `Mergelog ${VERSION} starts`)
    t.match(lines[0], {
      version: VERSION,
      nodejs: process.version,
      git: /^\d+\.\d+/,
      log: 'embedded',
      readModels: 'embedded',
    })
    t.notMatch(said.join('\n'), /data directory/, 'new data is no news')
    t.strictSame(await formatIn(dataDir), OWN_FORMAT)

    await writeFile(file(dataDir), '{"format": 1, "version": "0.0.9"}')
    t.match((await start())[1], /was last used by Mergelog 0\.0\.9; Mergelog .* uses it from now on$/)
    t.strictSame(await formatIn(dataDir), OWN_FORMAT)
    await writeFile(file(dataDir), '{"format": 1, "version": "7.10.0"}')
    t.match(
      (await start())[1],
      /was used by the newer Mergelog 7\.10\.0; Mergelog .* supports its data format/,
    )
    t.strictSame(
      await formatIn(dataDir),
      { format: 1, version: '7.10.0' },
      'nodes of two versions do not take turns',
    )
  },
)

t.test(
  'a newer data directory refuses the server and every command with one line, and stays as it is',
  async (t) => {
    const dataDir = t.testdir()
    await (await startTestServer(t, { DATA_DIR: dataDir })).stop()
    const newer = '{"format": 2, "version": "3.1.4"}'
    await writeFile(file(dataDir), newer)
    const before = await readdir(dataDir)
    const message = new RegExp(
      `DATA_DIR: .* has data format 2 of Mergelog 3\\.1\\.4; this is Mergelog ${VERSION}, which knows formats up to 1: start 3\\.1\\.4 or a later version`,
    )
    await t.rejects(startTestServer(t, { DATA_DIR: dataDir }), { name: 'NewerData', message })
    await t.rejects(backup({ dataDir, directory: join(dataDir, '..', 'none') }), {
      name: 'NewerData',
      message,
    })
    for (const command of [
      ['verify'],
      ['rebuild'],
      ['history', 'a/b#1'],
      ['set-password', 'admin'],
      ['export', '/x/y'],
    ]) {
      t.match(await mergelog(command, { DATA_DIR: dataDir }), { code: 1, stderr: message }, `${command[0]}`)
    }
    t.equal(await readFile(file(dataDir), 'utf8'), newer)
    t.strictSame(await readdir(dataDir), before)
    await writeFile(file(dataDir), '{"for')
    await t.rejects(startTestServer(t, { DATA_DIR: dataDir }), {
      name: 'NewerData',
      message: /format\.json is damaged/,
    })
    const { stdout } = await mergelog(['--version'], {})
    t.equal(stdout, `${VERSION}\n`)
  },
)
