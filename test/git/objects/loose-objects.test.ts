import { readdir, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { intoFanOut, storeObject } from '../../../src/git/objects/loose-objects.ts'
import { RepositoryMissing } from '../../../src/git/process/errors.ts'
import { flushNames } from '../../../src/storage/disk.ts'

t.test('a directory that is removed while it is empty is created again', async (t) => {
  const fan = join(t.testdir(), 'ab')
  let tries = 0
  const isNew = await intoFanOut(fan, async () => {
    tries += 1
    if (tries < 4) await rmdir(fan)
    await writeFile(join(fan, 'x'), '')
  })
  t.equal(isNew, true)
  t.equal(tries, 4)
  const again = () => intoFanOut(fan, () => writeFile(join(fan, 'y'), ''))
  t.equal(await again(), true, 'its name may not be on disk yet')
  await flushNames([fan])
  t.equal(await again(), false)
  const always = intoFanOut(join(t.testdirName, 'cd'), async () => {
    await rmdir(join(t.testdirName, 'cd'))
    await writeFile(join(t.testdirName, 'cd', 'x'), '')
  })
  await t.rejects(always, { code: 'ENOENT' }, 'but not for ever')
})

t.test('no object is stored in a deleted repository', async (t) => {
  const dir = t.testdir({})
  await t.rejects(storeObject(dir, 'blob', Buffer.from('a')), RepositoryMissing)
  t.same(await readdir(dir), [], 'it does not come back')
})
