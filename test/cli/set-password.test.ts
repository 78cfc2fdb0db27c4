import t from 'tap'
import { temporaryDirectory } from '../maintenance/backup/restored.ts'
import { passwordOf, startTestServer } from '../start-server.ts'
import { mergelog } from './command-line.ts'

const basic = (login: string, password: string) => ({
  authorization: `Basic ${Buffer.from(`${login}:${password}`).toString('base64')}`,
})

t.test('mergelog set-password gives any user a new password while no server runs', async (t) => {
  const DATA_DIR = await temporaryDirectory(t)
  const first = await startTestServer(t, { DATA_DIR })
  t.match(await mergelog(['set-password', 'alice'], { DATA_DIR }), {
    code: 1,
    stderr: /^mergelog: DATA_DIR: another process.* uses \S+: stop the server first\n$/,
  })
  await first.stop()
  t.match(await mergelog(['set-password', 'nobody'], { DATA_DIR }), {
    code: 1,
    stderr: /^mergelog: there is no user nobody\n$/,
  })
  t.match(await mergelog(['set-password', 'alice'], { DATA_DIR: `${DATA_DIR}/mistyped` }), { code: 1 })
  const printed = await mergelog(['set-password', 'alice'], { DATA_DIR })
  t.match(printed, {
    code: 0,
    stderr: '',
    stdout: /^Changed the password of alice\n {2}password "[^"]+" \(shown/,
  })
  const given = await mergelog(['set-password', 'Bob', '--must-change'], { DATA_DIR })
  const passwordIn = (text: string) => /password "([^"]+)"/.exec(text)?.[1] ?? ''

  const second = await startTestServer(t, { DATA_DIR })
  const signIn = async (login: string, password: string) =>
    (await second.fetch(null, '/api/v1/user', { headers: basic(login, password) })).status
  t.equal(await signIn('alice', passwordOf('alice')), 401)
  t.equal(await signIn('alice', passwordIn(printed.stdout)), 200)
  t.equal(await signIn('bob', passwordIn(given.stdout)), 403, 'must be changed first')
  t.equal(await signIn('carol', passwordOf('carol')), 200, 'others keep theirs')
  await second.stop()
})
