import { once } from 'node:events'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { bufferBody } from '../../../src/git/http/buffered-body.ts'

for (const [what, bytes] of [
  ['in memory', 1000],
  ['in a file', 300_000],
] as const) {
  t.test(`a body that is buffered ${what} can be read again, also after an aborted read`, async (t) => {
    const dir = t.testdir()
    await mkdir(join(dir, 'objects', 'pack'), { recursive: true })
    const body = Buffer.alloc(bytes, 'abcdefg')
    const held = await bufferBody(dir, Readable.from([body.subarray(10)]), { front: body.subarray(0, 10) })
    t.equal(held.size, bytes)
    t.same(await readdir(join(dir, 'objects', 'pack')), [], 'the file has no name')
    t.ok((await buffer(held.stream())).equals(body))
    const gone = held.stream()
    await once(gone, 'readable')
    gone.destroy()
    await once(gone, 'close')
    t.ok((await buffer(held.stream(7))).equals(body.subarray(7)))
    await held.release()
  })
}
