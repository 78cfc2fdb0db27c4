import t from 'tap'
import { askToRebuild, ControlFailed } from '../../src/control/client.ts'
import { startControl } from '../../src/control/server.ts'
import type { ReadModel } from '../../src/projections/read-model.ts'
import type { Rebuilder } from '../../src/projections/rebuild.ts'
import { READ_MODELS } from '../../src/projections/views.ts'

const step = { model: 'pulls', events: 250, position: 250, end: 500, done: false }

t.test('a rebuild that the end of the server ends is one whose server went away', async (t) => {
  const dataDir = t.testdir()
  const stopping = new AbortController()
  const freed: [models: readonly ReadModel[], after: number | undefined][] = []
  const rebuilder: Rebuilder = {
    async *rebuild() {
      yield step
      stopping.signal.throwIfAborted()
    },
    async freeSpares(models, after) {
      freed.push([models, after])
    },
  }
  const control = await startControl(dataDir, rebuilder)
  t.teardown(() => control.stop())
  t.equal(freed[0]?.[0], READ_MODELS, 'what an earlier one has left is freed')
  t.ok((freed[0]?.[1] ?? 0) > 0, 'though not at once')
  stopping.abort()
  const steps: unknown[] = []
  await t.rejects(async () => {
    for await (const one of askToRebuild(dataDir, [])) steps.push(one)
  }, new ControlFailed('the server went away before it was done'))
  t.same(steps, [step])
})
