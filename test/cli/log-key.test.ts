import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { formatVerifierKey } from '../../src/domain/transparency/signed-note.ts'
import { newLogSigner, ORIGIN } from '../log-signer.ts'
import { startTestServer } from '../start-server.ts'
import { until } from '../until.ts'
import { mergelog } from './command-line.ts'

t.test('mergelog log-key prints the verifier key, and tells how to make a key', async (t) => {
  const { settings, key } = await newLogSigner(t.testdir({}))
  t.match(await mergelog(['log-key'], settings), {
    code: 0,
    stdout: `${formatVerifierKey(key)}\n`,
    stderr: '',
  })
  t.match(await mergelog(['log-key'], {}), {
    code: 1,
    stdout: '',
    stderr:
      'mergelog: LOG_SIGNING_KEY is not set: make a key with "openssl genpkey -algorithm ed25519 -out log.pem"\n',
  })
})

t.test('mergelog verify --since --key: sound, another log, another key, and wrong arguments', async (t) => {
  const dir = t.testdir({ text: 'not a checkpoint' })
  const { settings, key } = await newLogSigner(dir)
  const server = await startTestServer(t, settings)
  const { checkpoints } = server.services
  await until('a checkpoint is signed', async () => (await checkpoints?.latest()) !== undefined)
  const response = await fetch(`${server.listensAt}/api/v1/log/checkpoint`)
  const note = join(dir, 'note')
  await writeFile(note, await response.text())
  const size = (await checkpoints?.latest())?.size
  const DATA_DIR = server.dataDir
  const file = join(dir, 'log.pub')
  await writeFile(file, `${formatVerifierKey(key)}\n`)

  for (const given of [file, formatVerifierKey(key)]) {
    const sound = await mergelog(['verify', '--since', note, '--key', given], { DATA_DIR })
    t.match(sound, { code: 0, stderr: '', stdout: /^sound/ })
    t.ok(sound.stdout.includes(`it starts with the ${size} events of the checkpoint of ${ORIGIN}\n`))
  }
  const [backup, restored] = [join(dir, 'backup'), { DATA_DIR: join(dir, 'restored') }]
  t.match(await mergelog(['backup', backup], { DATA_DIR }), { code: 0 })
  t.match(await mergelog(['restore', backup], restored), { code: 0 })
  const again = await mergelog(['verify', '--since', note, '--key', file], restored)
  t.match(again, { code: 0, stdout: /it starts with the/ }, 'also after a backup and a restore')
  const unchecked = await mergelog(['verify', '--since', note], { DATA_DIR })
  t.match(unchecked.stdout, /the signature was not checked: --key/)

  const other = await newLogSigner(dir)
  const foreign = await mergelog(['verify', '--since', note, '--key', formatVerifierKey(other.key)], {
    DATA_DIR,
  })
  t.match(foreign, {
    code: 1,
    stdout: '',
    stderr: /^mergelog: the checkpoint in \S+ is not genuine: it is not signed by/,
  })

  for (const [args, stderr] of [
    [['--since', join(dir, 'text')], /^mergelog: --since: must be a signed checkpoint/],
    [['--since', join(dir, 'missing')], /^mergelog: --since: cannot be read: ENOENT/],
    [['--since', note, '--key', 'x'], /^mergelog: --key: must be a verifier key/],
  ] as const) {
    t.match(await mergelog(['verify', ...args], { DATA_DIR }), { code: 2, stdout: '', stderr })
  }

  const elsewhere = await startTestServer(t, { ADMIN_PASSWORD: 'the password of another log' })
  const rewritten = await mergelog(['verify', '--since', note], { DATA_DIR: elsewhere.dataDir })
  t.match(rewritten, {
    code: 1,
    stdout: '',
    stderr: /^mergelog: the hash chains of the log are sound, but it is not the log that was signed: it/,
  })
})
