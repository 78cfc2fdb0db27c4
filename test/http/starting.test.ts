import t from 'tap'
import { startWorld } from '../auth/route-world.ts'
import { startTestServer } from '../start-server.ts'

t.test('a listening server that has not started answers 503, and /livez answers 200', async (t) => {
  let isOpen = true
  const { send } = await startWorld(t, await startTestServer(t), () => isOpen)
  isOpen = false
  for (const path of [
    '/api/v1/user',
    '/api/v1/version',
    '/alice/app.git/info/refs',
    '/ui/alice/app/pulls/1',
  ]) {
    t.equal((await send('admin', 'GET', path)).status, 503, path)
  }
  t.match(await send('admin', 'POST', '/api/v1/user/repos', { body: { name: 'early' } }), {
    status: 503,
    text: /"message":"the server is starting; try again"/,
  })
  t.match(
    await send(null, 'GET', '/sdk/upgrade/v1beta1/current_plan'),
    { status: 503, text: /^\{"code":14,"message":"the server is starting; try again","details":\[\]\}$/ },
    'a query of the chain gets the code for a server that is not there yet',
  )
  t.equal((await send(null, 'GET', '/livez')).status, 200)
  isOpen = true
  t.match(
    await send('admin', 'GET', '/api/v1/user/repos'),
    { status: 200, text: /^\[\]$/ },
    'nothing was made',
  )
})
