// In a process of its own: its own programs are in PATH before the modules are loaded.
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import t from 'tap'
import { standardShare } from '../../src/git/process/limits.ts'
import { createRepository } from '../../src/git/repository/repository.ts'
import { userGit } from './client.ts'

// Programs that record their start. The modules read the path when they are loaded.
const root = await mkdtemp(join(tmpdir(), 'mergelog-programs-'))
t.teardown(() => rm(root, { recursive: true, force: true }))
const diary = join(root, 'diary')
await mkdir(join(root, 'bin'))
for (const name of ['gpg', 'gpgsm', 'ssh-keygen']) {
  await writeFile(join(root, 'bin', name), `#!/bin/sh\necho ${name} >> ${diary}\n`)
  await chmod(join(root, 'bin', name), 0o755)
}
process.env.PATH = `${join(root, 'bin')}:${process.env.PATH}`
const { archiveStream } = await import('../../src/git/repository/archive.ts')
const { gitLines } = await import('../../src/git/process/run.ts')

const started = () => readFile(diary, 'utf8').catch(() => '')

/**
 * A commit whose message ends the signature of this kind, and whose one file contains the signature placeholder many
 * times.
 */
async function signedCommit(dir: string, kind: string): Promise<string> {
  const wish = '$Format:%G? %GS %GK$ '.repeat(20)
  const file = await userGit(dir, ['hash-object', '-w', '--stdin'], `$Format:%H$ ${wish}\n`)
  const attributes = await userGit(dir, ['hash-object', '-w', '--stdin'], 'f export-subst\n')
  const entries = `100644 blob ${attributes}\t.gitattributes\n100644 blob ${file}\tf\n`
  const tree = await userGit(dir, ['mktree'], entries)
  const person = 'A <a@example.org> 1700000000 +0000'
  const signature = `gpgsig -----BEGIN ${kind}-----\n \n aaaa\n -----END ${kind}-----\n`
  const text = `tree ${tree}\nauthor ${person}\ncommitter ${person}\n${signature}\nx\n`
  return await userGit(dir, ['hash-object', '-t', 'commit', '-w', '--stdin'], text)
}

for (const kind of ['PGP SIGNATURE', 'SIGNED MESSAGE', 'SSH SIGNATURE']) {
  t.test(`a client cannot make git start a program that checks signatures: ${kind}`, async (t) => {
    const dir = join(root, `${kind.replace(' ', '-')}.git`)
    await createRepository(dir, { defaultBranch: 'main' })
    const sha = await signedCommit(dir, kind)
    for (const format of ['tar.gz', 'zip'] as const) {
      const options = { directory: 'd', share: standardShare, signal: new AbortController().signal }
      const { stream } = await archiveStream(dir, sha, format, options)
      const archive = await buffer(stream)
      if (format === 'tar.gz')
        t.match(gunzipSync(archive).toString('latin1'), `${sha} `, 'other wishes are met')
      t.equal(await started(), '', format)
    }
    t.same(await gitLines(['log', '--format=%G?', sha], { dir }), ['N'])
    t.equal(await started(), '', 'nor does git log')
  })
}
