// In a process of its own: it sets the clock.
/** The requests to a provider of OpenID Connect when it changes its keys. */
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { createOpenIdProvider } from '../../../src/auth/sessions/openid-provider.ts'
import type { Resolve } from '../../../src/http/outbound/host-lookup.ts'
import { browser, CLIENT, startOpenId } from '../../doubles/openid.ts'
import { clockOf } from '../../set-clock.ts'
import { until } from '../../until.ts'

const SERVER = 'http://127.0.0.1:9'
const CALLBACK = `${SERVER}/user/oauth2/oidc/callback`

async function start(t: Test, find?: Resolve, lines: string[] = []) {
  const refusals: string[] = []
  const provider = await startOpenId(t, () => SERVER)
  const settings = {
    oidcIssuer: provider.issuer,
    oidcClientId: CLIENT.OIDC_CLIENT_ID,
    oidcClientSecret: CLIENT.OIDC_CLIENT_SECRET,
    oidcScopes: 'openid',
    oidcLoginClaim: 'preferred_username',
    oidcGroupsClaim: 'groups',
  }
  const clock = { now: 0 }
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) })
  const made = createOpenIdProvider(settings, log, () => clock.now, find)
  if (made === undefined) throw new Error('no provider is set')
  const ours = made

  /** Signs in a user. Resolves to the identity, or to the kind of the refusal. */
  async function signIn(sub: string): Promise<string> {
    provider.person = { sub }
    const { url, checks } = await ours.begin(CALLBACK)
    const { to = '' } = await browser().follow(url, CALLBACK)
    try {
      return (await ours.finish(new URL(to), checks)).subject
    } catch (error) {
      refusals.push(String(Object(error).refusal?.message))
      return Object(error).refusal?.refused ?? String(error)
    }
  }
  const asked = (path: string) => provider.asked.filter((one) => one === path).length
  return { provider, ours, clock, signIn, asked, refusals }
}

t.test('a sign-in right after the provider has changed its key succeeds', async (t) => {
  const { provider, signIn, asked } = await start(t)
  t.equal(await signIn('one'), 'one')
  provider.changeKey()
  t.same(await Promise.all([signIn('two'), signIn('two'), signIn('two')]), ['two', 'two', 'two'])
  t.equal(asked('/.well-known/openid-configuration'), 2, 'they share one question')
})

t.test('unknown keys cause one request to the provider in five seconds', async (t) => {
  const { provider, clock, signIn, asked } = await start(t)
  t.equal(await signIn('one'), 'one')
  provider.changeKey(true)
  for (let i = 0; i < 4; i++) t.equal(await signIn('two'), 'unavailable')
  t.equal(asked('/jwks'), 2)
  clock.now += 5000
  for (let i = 0; i < 4; i++) t.equal(await signIn('two'), 'unavailable')
  t.equal(asked('/jwks'), 3)
  provider.changeKey()
  clock.now += 5000
  t.equal(await signIn('three'), 'three')
})

t.test(
  "while the clock is ahead of the provider's, operators get a log line, and users are not asked to begin again",
  async (t) => {
    const setClock = clockOf(t)
    const lines: string[] = []
    const { provider, signIn, refusals } = await start(t, undefined, lines)
    provider.answered = (path) => {
      if (path === '/token') setClock(3_600_000)
    }
    for (let i = 0; i < 2; i++) {
      t.equal(await signIn('one'), 'unavailable')
      setClock(0)
    }
    t.match(refusals, [/clocks/, /clocks/])
    t.equal(lines.filter((line) => line.includes('OAUTH_JWT_TIMESTAMP_CHECK_FAILED')).length, 1, 'once')
    provider.answered = () => {}
    t.equal(await signIn('one'), 'one')
  },
)

t.test(
  "a request waits for the look-up of the provider's name without contacting it, so no request hangs at its name servers",
  async (t) => {
    let found = (_: string[]) => {}
    const hosts: string[] = []
    const { ours, asked } = await start(t, (host) => {
      hosts.push(host)
      return new Promise((resolve) => {
        found = resolve
      })
    })
    const signIns = [ours.begin(CALLBACK), ours.begin(CALLBACK)]
    await until('its name is looked up', () => hosts.length > 0)
    t.equal(asked('/.well-known/openid-configuration'), 0)
    found([])
    await Promise.all(signIns)
    t.same([hosts, asked('/.well-known/openid-configuration')], [['127.0.0.1'], 1])
  },
)
