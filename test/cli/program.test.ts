/**
 * The command line as a whole: help, wrong use, and problems that an operator can fix.
 * In a process of its own: commands run as another user.
 */
import { access, chmod, constants, readdir, readFile, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import t from 'tap'
import { openSqlite } from '../../src/storage/sqlite/sqlite.ts'
import { asNobody } from './as-nobody.ts'
import { mergelog } from './command-line.ts'

t.test('the help of every command has examples and the environment variables that it reads', async (t) => {
  const commands = ['serve', 'demo', 'history', 'replay', 'upgrade follow']
  for (const command of commands) {
    const { code, stdout, stderr } = await mergelog([...command.split(' '), '--help'])
    t.match({ code, stderr }, { code: 0, stderr: '' }, command)
    t.match(stdout, `\nExamples:\n  mergelog ${command}`)
    t.match(stdout, /\nEnvironment[^\n]*:\n(.*\n)* {2}[A-Z_]+ {2}/)
  }
  const whole = await mergelog(['--help'])
  t.match(whole, { code: 0, stdout: /^Usage: mergelog/ })
  for (const command of commands) t.match(whole.stdout, `\n  ${command.split(' ')[0]}`)
})

t.test('the version is that of package.json', async (t) => {
  const { version } = JSON.parse(await readFile('package.json', 'utf8'))
  t.same(await mergelog(['--version']), { code: 0, stdout: `${version}\n`, stderr: '' })
})

t.test(
  'the script that npx runs is executable: npm sets the mode only once for each path of a clone',
  async (t) => {
    const { bin } = JSON.parse(await readFile('package.json', 'utf8'))
    await t.resolves(access(bin.mergelog, constants.X_OK))
  },
)

t.test('wrong use gives one line on standard error and exit code 2', async (t) => {
  const cases: [args: string[], line: RegExp][] = [
    [['nope'], /^mergelog: unknown command 'nope'/],
    [['serve', '--nope'], /^mergelog: unknown option '--nope'/],
    [['histroy'], /^mergelog: unknown command 'histroy' .*history/],
    [['history'], /^mergelog: missing required argument/],
    [['history', 'alice/app'], /^mergelog: .*OWNER\/REPO#NUMBER/],
    [['history', 'alice/app#0'], /^mergelog: .*OWNER\/REPO#NUMBER/],
    [['history', 'a/b#1', 'c/d#2'], /^mergelog: too many arguments/],
    [['history', 'a/b#1', '--since', 'soon'], /^mergelog: since: must be a date-time/],
    [['history', 'a/b#1', '--type', 'Nope'], /^mergelog: type: Nope is not a type/],
    [['replay', 'a/b#1'], /^mergelog: revision: either this or at must be given/],
    [['replay', 'a/b#1', '--at', 'soon'], /^mergelog: at: must be a date as 2026-11-26, or a date-time/],
    [['replay', 'a/b#1', '--revision', 'x'], /^mergelog: revision: must be a whole number/],
    [['rebuild', '--model', 'nope'], /^mergelog: there is no read model nope; there are accounts, /],
    [['upgrade', 'follow'], /^mergelog: required option '--from/],
    [['upgrade', 'follow', '--from', 'gopher://x'], /^mergelog: .*http:\/\//],
    [['upgrade', 'follow', '--from', 'http://u:secret@x'], /^mergelog: .*without credentials/],
    [['upgrade', 'follow', '--from', 'http://x', '--interval', '0'], /^mergelog: .*number from 0\.1/],
  ]
  for (const [args, line] of cases) {
    const end = await mergelog(args)
    t.match(end, { code: 2, stdout: '', stderr: line }, args.join(' '))
    t.match(end.stderr, /^[^\n]+\n$/)
  }
  t.match(await mergelog([]), { code: 2, stdout: '', stderr: /^Usage: mergelog/ })
})

t.test('a problem that the operator can fix gives one line and exit code 1', async (t) => {
  const DATA_DIR = t.testdir({
    broken: { 'events.db': 'this is not a database, despite its name\n' },
    empty: {},
    // For a directory, SQLite gives the same error as for a missing permission.
    locked: { 'events.db': '', 'lock.db': {} },
    folder: { 'events.db': {} },
  })
  const cases: [args: string[], environment: Record<string, string>, line: RegExp][] = [
    [['serve'], { PORT: 'many' }, /^mergelog: PORT is "many", but must be/],
    [['history', 'alice/app#1'], {}, /^mergelog: DATA_DIR: there is no log in /],
    [['history', 'a/b#1'], { DATA_DIR: `${DATA_DIR}/broken` }, /^mergelog: \/.*events\.db is broken/],
    [['rebuild'], {}, /^mergelog: DATA_DIR: there is no log in /],
    [['rebuild'], { DATA_DIR: `${DATA_DIR}/empty` }, /^mergelog: DATA_DIR: there is no log in /],
    [
      ['rebuild'],
      { DATA_DIR: `${DATA_DIR}/locked` },
      /^mergelog: \/.*lock\.db cannot be locked: it cannot be/,
    ],
    [['history', 'a/b#1'], { DATA_DIR: `${DATA_DIR}/folder` }, /^mergelog: \/.*events\.db cannot be opened/],
    [
      ['serve'],
      { DATA_DIR: `${DATA_DIR}/folder`, LOG_LEVEL: 'silent' },
      /^mergelog: \/.*events\.db cannot be opened/,
    ],
    [['upgrade', 'follow', '--once', '--from', 'http://127.0.0.1:9'], {}, /^mergelog: current_plan: /],
    [['demo'], {}, /^mergelog: ADMIN_PASSWORD or --password is needed/],
  ]
  for (const [args, environment, line] of cases) {
    const end = await mergelog(args, { DATA_DIR: `${DATA_DIR}/new`, ...environment })
    t.match(end, { code: 1, stdout: '', stderr: line }, args.join(' '))
    t.match(end.stderr, /^[^\n]+\n$/)
  }
  t.same(await readdir(`${DATA_DIR}/empty`), [], 'nothing is created in a mistyped directory')
})

t.test('every command that opens the log refuses a half restored data directory', async (t) => {
  const DATA_DIR = t.testdir({ restoring: {}, 'events.db': '', 'views.db': '' })
  const commands = [
    ['serve'],
    ['history', 'a/b#1'],
    ['replay', 'a/b#1', '--revision', '0'],
    ['verify'],
    ['rebuild'],
    ['backup', `${DATA_DIR}-backup`],
    ['upgrade', 'follow', '--once', '--from', 'http://127.0.0.1:9'],
  ]
  for (const args of commands) {
    const end = await mergelog(args, { DATA_DIR, LOG_LEVEL: 'silent' })
    const stderr = /^mergelog: DATA_DIR: a restore into \S+ .*was cut off; [^\n]+\n$/
    t.match(end, { code: 1, stdout: '', stderr }, args.join(' '))
  }
  t.equal((await stat(`${DATA_DIR}/events.db`)).size, 0, 'nothing was written')
})

t.test('without write permission in DATA_DIR: one line that names the file', async (t) => {
  const DATA_DIR = t.testdir()
  const names = ['events.db', 'views.db', 'secrets.db', 'lock.db']
  for (const name of names) {
    const db = openSqlite(`${DATA_DIR}/${name}`, 'NORMAL')
    db.exec('PRAGMA journal_mode = WAL; CREATE TABLE some (thing)')
    db.close()
  }
  await chmod(DATA_DIR, 0o555)
  // The first test that needs the directory of all fixtures makes it, perhaps with a server's umask.
  await chmod(dirname(DATA_DIR), 0o755)
  for (const name of names) await chmod(`${DATA_DIR}/${name}`, 0o444)
  const cases: [args: string[], line: RegExp][] = [
    [
      ['history', 'a/b#1'],
      /^mergelog: \/\S+events\.db cannot be used: attempt to write a readonly database\n$/,
    ],
    [['replay', 'a/b#1', '--revision', '0'], /^mergelog: \/\S+events\.db cannot be used: [^\n]+\n$/],
    [['verify'], /^mergelog: [^\n]+\n$/],
    [['rebuild'], /^mergelog: \/\S+lock\.db cannot be locked: [^\n]+\n$/],
    [
      ['upgrade', 'follow', '--once', '--from', 'http://127.0.0.1:9'],
      /^mergelog: DATA_DIR cannot be used: the user/,
    ],
    [['serve'], /^mergelog: DATA_DIR cannot be used: the user \d+ may not write in [^\n]+\n$/],
  ]
  for (const [args, stderr] of cases) {
    t.match(await asNobody(() => mergelog(args, { DATA_DIR, LOG_LEVEL: 'silent' })), {
      code: 1,
      stdout: '',
      stderr,
    })
  }
})
