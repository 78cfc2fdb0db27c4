import { hash } from 'node:crypto'
import { mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { lfsPath, receiveLfsFile, shareLfsFiles } from '../../src/git/lfs/lfs-files.ts'
import { until } from '../until.ts'

async function* chunks(text: string) {
  yield Buffer.from(text)
}

t.test('an existing large file gets a new time when it is shared, so that it is not removed', async (t) => {
  const parent = t.testdir({ 'from.git': {}, 'to.git': {} })
  const [from, to] = [join(parent, 'from.git'), join(parent, 'to.git')]
  await mkdir(to, { recursive: true })
  const object = { oid: hash('sha256', 'large', 'hex'), size: 5 }
  for (const dir of [from, to]) await receiveLfsFile(dir, object, chunks('large'))
  const path = join(to, lfsPath(object.oid))
  const before = await stat(path)
  await until('its last change is later', async () => {
    t.same(await shareLfsFiles(from, to, [object]), [object])
    return (await stat(path)).ctimeMs > before.ctimeMs
  })
  // A time is set in whole milliseconds.
  t.ok(Math.abs((await stat(path)).mtimeMs - before.mtimeMs) <= 1, 'its content is as old as before')
})
