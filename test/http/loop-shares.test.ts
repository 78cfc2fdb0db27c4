import Fastify from 'fastify'
import t from 'tap'
import { networkOf } from '../../src/address-ranges.ts'
import { shareLoopByAccount } from '../../src/http/loop-shares.ts'
import { workInTurn, workingFor } from '../../src/long-work.ts'

t.test(
  'it is known whose work a handler does: that of its account, or of its network without one',
  async (t) => {
    const app = Fastify()
    t.teardown(() => app.close())
    app.addHook('onRequest', ({ ip }, _reply, done) => workInTurn(networkOf(ip), done))
    shareLoopByAccount(app, ({ headers }) => (typeof headers.from === 'string' ? headers.from : null))
    app.get('/', async () => {
      await Promise.resolve()
      return { client: workingFor() ?? null }
    })
    // Over sockets: what `inject` is asked for at once begins in one tick, and no server gets requests like that.
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    const clientOf = async (headers: Record<string, string>) => (await fetch(url, { headers })).json()
    const asked = [{ from: 'ann' }, {}, { from: 'bob' }].map(clientOf)
    t.strictSame(await Promise.all(asked), [{ client: 'ann' }, { client: '127.0.0.1' }, { client: 'bob' }])
  },
)
