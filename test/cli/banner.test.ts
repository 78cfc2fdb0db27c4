import t from 'tap'
import { bannerLines } from '../../src/cli/banner.ts'
import { loadConfig } from '../../src/config/config.ts'

const running = {
  listensAt: 'http://127.0.0.1:3000',
  url: 'http://127.0.0.1:3000',
  grpcAddress: '127.0.0.1:9090',
  metricsUrl: undefined,
  adminPassword: { chosen: 'secret', maybeLost: false },
}
const config = loadConfig({ DATA_DIR: '/data' })
const said = (...args: Parameters<typeof bannerLines>) => bannerLines(...args).join('\n')

t.test('the banner names the main page and the demo', async (t) => {
  t.same(bannerLines(running, config, true), [
    'Mergelog listens on http://127.0.0.1:3000',
    '  API      http://127.0.0.1:3000/api/v1      documentation http://127.0.0.1:3000/api/docs',
    '  git      http://127.0.0.1:3000/{owner}/{repo}.git',
    '  page     http://127.0.0.1:3000/      of a pull request http://127.0.0.1:3000/{owner}/{repo}/pulls/{index}',
    '  gRPC     127.0.0.1:9090',
    '  data     /data',
    '  admin    user "admin", password "secret" (shown only this once)',
    '  try      curl -u admin:secret http://127.0.0.1:3000/api/v1/user',
    '  demo     ADMIN_PASSWORD=secret npm run demo',
  ])
  t.match(said(running, config, false), /demo +ADMIN_PASSWORD=secret mergelog demo$/m, 'in an image')
})

t.test('with PORT=3998 the suggested demo reaches that server', async (t) => {
  const at = 'http://127.0.0.1:3998'
  const text = said({ ...running, listensAt: at, url: at }, config, true)
  t.match(text, /demo +ADMIN_PASSWORD=secret npm run demo -- --url http:\/\/127\.0\.0\.1:3998$/m)
  t.match(said({ ...running, listensAt: at, url: at }, config, false), / mergelog demo --url http:\S+:3998$/m)
  const other = { ...running, grpcAddress: '127.0.0.1:9999' }
  t.match(said(other, config, true), / npm run demo -- --grpc 127\.0\.0\.1:9999$/m)
})

t.test('with PUBLIC_URL the banner says where it listens and where clients reach it', async (t) => {
  const text = said({ ...running, url: 'https://git.example.org' }, config)
  t.match(
    text,
    /^Mergelog listens on http:\/\/127\.0\.0\.1:3000\n {2}clients {2}reach it at https:\/\/git\.example\.org/,
  )
  t.match(text, /try +curl -u admin:secret http:\/\/127\.0\.0\.1:3000\/api/, 'a proxy may not be there yet')
  const tls = loadConfig({ DATA_DIR: '/data', TLS_CERT: '/c', TLS_KEY: '/k' })
  const https = { ...running, listensAt: 'https://127.0.0.1:3000', url: 'https://git.example.org' }
  t.match(
    said(https, tls),
    /try +curl -u admin:secret https:\/\/git\.example\.org\/api/,
    'its certificate fits',
  )
})

t.test('a server that listens on every address says so', async (t) => {
  const all = loadConfig({ DATA_DIR: '/data', HOST: '0.0.0.0' })
  t.match(said(running, all), /\n {2}network {2}on port 3000 of all addresses of this machine\n/)
})

t.test('until the first sign-in, each start prints how to set a new password', async (t) => {
  const lost = { ...running, adminPassword: { maybeLost: true } }
  t.match(
    said(lost, config, true),
    /has not been used yet;.*\n +if it is lost, stop the server and run, with the same settings: npm run mergelog -- set-password admin$/,
  )
  const shared = loadConfig({ EVENTSTORE_URL: 'esdb://a', MONGODB_URL: 'mongodb://a/b' })
  t.match(
    said(lost, shared, false),
    /if it is lost, run, with the same settings: mergelog set-password admin$/,
  )
  t.notMatch(said({ ...running, adminPassword: { maybeLost: false } }, config), /admin {4}/)
})
