import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { packBomb } from '../../bench/hostile/pack-bomb.ts'
import { gitIn } from '../git-client.ts'
import { program } from '../program.ts'

t.test('npm run hostile names an unknown attack, and attacks nothing', async (t) => {
  const args = [program('bench/hostile/hostile'), '--only', 'deeply nested JSON,nothing']
  await t.rejects(promisify(execFile)(process.execPath, args), {
    code: 2,
    message: /--only: nothing is not one of: .*, deeply nested JSON/,
  })
})

t.test('the pack that inflates to gigabytes is a pack that git accepts', async (t) => {
  const dir = t.testdir()
  const { pack, firstId, inflatedBytes } = packBomb(3)
  await writeFile(join(dir, 'bomb.pack'), pack)
  await gitIn(dir, ['init', '-q', '--bare'])
  await gitIn(dir, ['index-pack', 'bomb.pack'])
  const objects = (await gitIn(dir, ['verify-pack', '-v', 'bomb.pack'])).split('\n')
  t.equal(objects.filter((line) => line.includes(' blob ')).length, 4)
  t.ok(objects.some((line) => line.startsWith(firstId)))
  t.equal(inflatedBytes, 8 * 1024 * 1024)
})
