/** A real provider of OpenID Connect for tests, `oidc-provider`. It signs in the user `person` without asking. */
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import Provider from 'oidc-provider'
import type { Test } from 'tap'

export const CLIENT = { OIDC_CLIENT_ID: 'mergelog', OIDC_CLIENT_SECRET: 'a secret of the provider' }

export interface OpenIdDouble {
  issuer: string
  /** The claims of the next user to sign in, identified by `sub`. Undefined: the user refuses. */
  person: { sub: string; [claim: string]: unknown } | undefined
  /** The requested paths. */
  asked: string[]
  /** Called with the path of each answered request, before the client reads the answer. */
  answered: (path: string) => void
  /** Uses a new key for signatures. The list of keys contains it, unless `isSecret`. */
  changeKey(isSecret?: boolean): void
  /** Simulates an outage; `listen` ends it, at the same address. */
  stop(): Promise<void>
  listen(): Promise<void>
}

/** Starts a provider that sends browsers back to this server. `redirectUri` is called at each sign-in. */
export async function startOpenId(t: Pick<Test, 'teardown'>, publicUrl: () => string): Promise<OpenIdDouble> {
  const newKey = () => generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey
  let privateKey = newKey()
  let hasSecretKey = false
  const double: OpenIdDouble = {
    issuer: '',
    person: undefined,
    asked: [],
    answered() {},
    changeKey,
    stop,
    listen,
  }
  let port = 0
  let server: Server | undefined
  let provider: Provider | undefined

  function made(): Provider {
    const made = new Provider(double.issuer, {
      clients: [
        {
          client_id: CLIENT.OIDC_CLIENT_ID,
          client_secret: CLIENT.OIDC_CLIENT_SECRET,
          redirect_uris: [`${publicUrl()}/user/oauth2/oidc/callback`],
        },
      ],
      jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), alg: 'RS256', use: 'sig' }] },
      claims: {
        profile: ['preferred_username', 'name'],
        email: ['email', 'email_verified'],
        groups: ['groups'],
      },
      scopes: ['openid', 'profile', 'email', 'groups'],
      cookies: { keys: ['a key of the cookies'] },
      features: { devInteractions: { enabled: false } },
      // Each sign-in asks again.
      ttl: { Session: 1, Interaction: 60, Grant: 60, AccessToken: 60, AuthorizationCode: 60, IdToken: 60 },
      interactions: { url: (_, { uid }) => `/interaction/${uid}` },
      findAccount: (_, sub) => ({ accountId: sub, claims: async () => ({ ...double.person, sub }) }),
    })
    return made
  }

  function changeKey(isSecret = false): void {
    privateKey = newKey()
    hasSecretKey = isSecret
    provider = undefined
  }

  async function interact(...[request, response]: Parameters<Provider['interactionDetails']>): Promise<void> {
    const { params } = await (provider ?? made()).interactionDetails(request, response)
    const { person } = double
    if (person === undefined) {
      const refused = { error: 'access_denied', error_description: 'the person said <no>' }
      return provider?.interactionFinished(request, response, refused, { mergeWithLastSubmission: false })
    }
    const grant = new (provider ?? made()).Grant({
      accountId: person.sub,
      clientId: String(params.client_id),
    })
    grant.addOIDCScope(String(params.scope))
    const grantId = await grant.save()
    const result = { login: { accountId: person.sub, remember: false }, consent: { grantId } }
    return provider?.interactionFinished(request, response, result, { mergeWithLastSubmission: false })
  }

  async function listen(): Promise<void> {
    server = createServer((request, response) => {
      const path = request.url ?? ''
      double.asked.push(path)
      response.once('finish', () => double.answered(path))
      if (request.url?.startsWith('/interaction/')) {
        interact(request, response).catch((error: unknown) => response.writeHead(500).end(String(error)))
        return
      }
      if (hasSecretKey && request.url === '/jwks') {
        response.setHeader('content-type', 'application/json').end('{"keys":[]}')
        return
      }
      provider ??= made()
      void provider.callback()(request, response)
    })
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    const address: AddressInfo = Object(server.address())
    port = address.port
    double.issuer = `http://127.0.0.1:${port}`
  }

  async function stop(): Promise<void> {
    server?.closeAllConnections()
    const closed = server?.listening ? once(server, 'close') : undefined
    server?.close()
    await closed
  }

  await listen()
  t.teardown(stop)
  return double
}

/** A minimal browser: follows redirects, and keeps the cookies of each origin. */
export function browser() {
  const jars = new Map<string, Map<string, string>>()

  /** Sends a request. `path` may be the rest of a URL; `to`: the target of the answer's redirect. */
  async function open(url: string, init: RequestInit = {}) {
    const { origin } = new URL(url)
    const jar = jars.get(origin) ?? new Map<string, string>()
    jars.set(origin, jar)
    const headers = new Headers(init.headers)
    if (jar.size > 0) headers.set('cookie', [...jar].map(([name, value]) => `${name}=${value}`).join('; '))
    const answer = await fetch(url, { ...init, headers, redirect: 'manual' })
    for (const cookie of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(cookie) ?? []
      if (value === '' || /max-age=0/i.test(cookie)) jar.delete(name)
      else jar.set(name, value)
    }
    const location = answer.headers.get('location')
    const to = location === null ? undefined : new URL(location, url).href
    return { url, status: answer.status, headers: answer.headers, text: await answer.text(), to }
  }

  return {
    open,
    /** Follows redirects to the last one, or until the next URL begins with `before`. */
    async follow(url: string, before?: string) {
      let answer = await open(url)
      for (let i = 0; i < 10 && answer.to !== undefined; i++) {
        if (before !== undefined && answer.to.startsWith(before)) break
        answer = await open(answer.to)
      }
      return answer
    },
    /** The names of the cookies of an origin. */
    cookies: (url: string) => [...(jars.get(new URL(url).origin)?.keys() ?? [])],
    /** Sets a cookie, like an attacker with write access to the browser's jar. */
    set(url: string, name: string, value: string) {
      const { origin } = new URL(url)
      jars.set(origin, (jars.get(origin) ?? new Map<string, string>()).set(name, value))
    },
    cookie: (url: string, name: string) => jars.get(new URL(url).origin)?.get(name),
  }
}
